"""The engine, which evaluates a node again only when it has changed.

Tasks that get the same answers are of one kind. For each kind that it is asked about, the engine
keeps the nodes that suit it, with their scores; see `batchsched.placement.ranking`. It does so on
one table of all nodes: of NumPy's arrays where NumPy is installed and there are enough nodes, and
of plain lists otherwise. Its answers always equal those of the plain loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cache, partial
from itertools import compress
from typing import TYPE_CHECKING

from batchsched.model.reasons import NodeTally, Unfit, summed_refusals
from batchsched.placement import Fit
from batchsched.placement.counts import Tallies
from batchsched.placement.kinds import FewSlots, Kind, Kinds
from batchsched.placement.plain_loop import Evaluator, LinearScanPlacement
from batchsched.placement.ranking import (
    FEW,
    ChangedNodes,
    Order,
    Ranking,
    RanksNodes,
    RanksSets,
    Select,
    SharedScores,
    Table,
)
from batchsched.state.ledger import Ledger
from batchsched.state.memory import RecentlyUsed
from batchsched.state.records import NodeState, TaskState

if TYPE_CHECKING:
    from batchsched.placement.arrays import ArrayTable

MAX_KEPT_ENTRIES = 2_000_000
"""The most scores of nodes that are kept for all kinds together, about 300 MB."""

FEWEST_IN_ARRAYS = 64
"""With fewer nodes, operations on arrays cost more than they save."""

SPARSE = 8
"""Up to one in so many nodes, only those that are asked about are evaluated."""


class IndexedPlacement:
    """A placement engine whose cost depends on what changes."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator, *, arrays: bool | None = None) -> None:
        """Create an engine.

        Args:
            ledger: has the nodes, and the log of their changes.
            evaluator: has the predicates and scores.
            arrays: whether to use NumPy; None: if it is installed, and there are enough nodes.

        """
        self._ledger = ledger
        self._nodes: Sequence[NodeState] = ledger.slots
        self._judgement = evaluator
        self._has_key = evaluator.node_key is not None
        self._plain = LinearScanPlacement(ledger, evaluator)
        self._kinds = Kinds(ledger, evaluator)
        self._table = _table_of(ledger, arrays)
        most = max(MAX_KEPT_ENTRIES // max(len(self._nodes), 1), 1)
        self._tallies = Tallies(self._table, evaluator, most=most)
        self._now = RecentlyUsed[int, RanksNodes](most=most)
        """By kind, the nodes where it fits now."""
        self._in_sets = RecentlyUsed[int, RanksSets](most=most)
        """The same, for tasks that are placed among some nodes."""
        self._not_now = RecentlyUsed[tuple[int, Fit], RanksNodes](most=most)
        self._orders = RecentlyUsed[int, Order](most=most)
        """By kind, all feasible nodes."""
        self._firsts = RecentlyUsed[int, tuple[ChangedNodes, int]](most=most)
        """By kind, a slot before which it fits nowhere, apart from nodes that changed."""
        self._with_choices = RecentlyUsed[int, tuple[ChangedNodes, NodeTally]](most=most)
        """The last tallies of kinds for which plugins choose."""
        self._shared_scores = RecentlyUsed[Hashable, SharedScores](most=most)
        self._scored: set[Hashable] = set()
        """The `Kind.scores_key` for which all nodes were scored."""

    def kind(self, task: TaskState, /) -> int | None:
        """Return a number shared by tasks that get the same answers; None: unknown."""
        kind = self._kinds.of(task)
        return kind.number if kind.is_watched and not kind.watches else None

    # The best node

    def best(
        self, task: TaskState, fit: Fit, /, among: Collection[int] | None = None
    ) -> NodeState | None:
        """Return the best of the feasible nodes where the task fits in this way."""
        kind = self._kinds.of(task)
        if among is not None and (fit is not Fit.NOW or kind.normalised):
            nodes = [
                node for node in self.feasible(task, among) if self._judgement.fits(task, node, fit)
            ]
            return self._judgement.best(task, nodes) if nodes else None
        if not (kind.is_watched and kind.is_exact) or (
            self._has_key and (kind.normalised or among is not None)
        ):
            return self._plain.best(task, fit, among)
        if among is not None:
            slot = self._best_of(task, kind, among)
            if kind.is_exact:
                return None if slot is None else self._nodes[slot]
            return self._plain.best(task, fit, among)
        if not self._table.is_exact:
            self._use_lists()
        slot = self._best_now(task, kind)
        if fit is not Fit.NOW:
            self._table.refresh()
            # Without promises and releases, a task fits now or not at all.
            if self._table.diverging:
                if slot is not None:
                    # No built-in action asks this: nodes where it fits now are candidates too.
                    return self._plain.best(task, fit)
                slot = self._best_not_now(task, kind, fit)
        if not kind.is_exact:
            return self._plain.best(task, fit)
        return None if slot is None else self._nodes[slot]

    def _best_now(self, task: TaskState, kind: Kind) -> int | None:
        only, nodes = kind.only_slots, self._nodes
        if only is not None and len(only) <= FEW and not (kind.normalised or self._has_key):
            # Keeping a ranking of so few nodes would cost more than it saves.
            slots = [slot for slot in only if kind.takes_now(nodes[slot])]
            return max(slots, key=lambda slot: kind.score_one(nodes[slot]), default=None)
        ranking = self._now.use(kind.number)
        if ranking is None:
            is_plain = not self._has_key and kind.no_choice is None
            in_arrays = self._table.ranking(kind, task) if is_plain else None
            ranking = in_arrays or self._rank_now(kind, task)
            self._now.keep(kind.number, ranking)
        slot = ranking.best()
        if not ranking.is_exact:
            if not self._table.is_exact:
                self._use_lists()
            ranking = self._rank_now(kind, task)
            self._now.keep(kind.number, ranking)
            slot = ranking.best()
        return slot

    def _best_of(self, task: TaskState, kind: Kind, among: Collection[int]) -> int | None:
        """Return the slot of the best of some nodes where a task fits now. O(these)."""
        ranking = self._in_sets.use(kind.number)
        if ranking is None:
            in_arrays = self._table.ranking(kind, task) if kind.no_choice is None else None
            ranking = in_arrays or self._rank_in_lists(kind, task)
            self._in_sets.keep(kind.number, ranking)
        slot = ranking.best_of(among) if among else None
        if ranking.is_exact:
            return slot
        if not self._table.is_exact:
            self._use_lists()
        ranking = self._rank_in_lists(kind, task)
        self._in_sets.keep(kind.number, ranking)
        return ranking.best_of(among)

    def _rank_in_lists(self, kind: Kind, task: TaskState) -> Ranking:
        made = self._rank_now(kind, task)
        assert isinstance(made, Ranking)  # a key of nodes is not used within sets
        return made

    def _rank_now(self, kind: Kind, task: TaskState) -> Ranking | Order:
        return self._rank(kind, task, self._table.fitting_now, Kind.takes_now)

    def _rank(
        self,
        kind: Kind,
        task: TaskState,
        select: Select,
        suits: Callable[[Kind, NodeState], bool] | None,
    ) -> Ranking | Order:
        node_key = self._judgement.node_key
        kept = Ranking if node_key is None else partial(Order, node_key=partial(node_key, task))
        return kept(kind, self._nodes, self._changes(kind), select, suits, self._scores_for(kind))

    def _best_not_now(self, task: TaskState, kind: Kind, fit: Fit) -> int | None:
        ranking = self._not_now.use((kind.number, fit))
        if ranking is None:
            ranking = self._rank(kind, task, partial(self._table.fitting_not_now, fit), None)
            self._not_now.keep((kind.number, fit), ranking)
        return ranking.best()

    def _changes(self, kind: Kind) -> ChangedNodes:
        return ChangedNodes(self._table.log, kind.watches)

    def _scores_for(self, kind: Kind) -> Callable[[Kind, Sequence[int]], list[float]]:
        """Return what scores nodes for a kind, from scores that other kinds share if any do."""
        key = kind.scores_key if kind.only_slots is None else None
        shared = None if key is None else self._shared_scores.use(key)
        if shared is None and key is not None and key in self._scored:
            shared = SharedScores(self._nodes, ChangedNodes(self._table.log, ()))
            self._shared_scores.keep(key, shared)
        if shared is not None:
            return shared.of
        self._scored.add(key)
        return self._score

    def _score(self, kind: Kind, slots: Sequence[int]) -> list[float]:
        nodes = self._nodes
        return kind.score([nodes[slot] for slot in slots])

    def _use_lists(self) -> None:
        """Forget the arrays: amounts have come that floats do not represent exactly."""
        self._table = Table(self._ledger)
        self._now.clear()
        self._in_sets.clear()
        self._not_now.clear()
        self._orders.clear()

    # Feasible nodes

    def feasible_for(self, task: TaskState, /) -> Callable[[NodeState], bool]:
        """Return for a task what says whether a node is feasible for it."""
        kind = self._kinds.of(task)
        return kind.is_feasible if kind.is_watched else self._plain.feasible_for(task)

    def first_feasible(self, task: TaskState, /) -> NodeState | None:
        """Return the first feasible node in node order where the task fits now."""
        kind = self._kinds.of(task)
        if not kind.is_watched:
            return self._plain.first_feasible(task)
        nodes = self._nodes
        changes, begin = self._firsts.use(kind.number) or (self._changes(kind), 0)
        changed = changes.unread()
        begin = 0 if changed is None else min(begin, *changed, len(nodes))
        slots: Sequence[int] = range(begin, len(nodes))
        if kind.only_slots is not None:
            slots = kind.only_slots[bisect_left(kind.only_slots, begin) :]
        first = next((slot for slot in slots if kind.takes_now(nodes[slot])), len(nodes))
        self._firsts.keep(kind.number, (changes, first))
        return nodes[first] if first < len(nodes) else None

    def feasible(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        """Return all feasible nodes in node order; `among` these, if given."""
        kind = self._kinds.of(task)
        if not kind.is_watched:
            return self._plain.feasible(task, among)
        nodes = self._nodes
        if among is not None and len(among) < len(nodes):
            if isinstance(kind.accepts, FewSlots):
                among = kind.accepts.keys() & among
            if len(among) * SPARSE > len(nodes):
                return (node for node in nodes if node.slot in among and kind.is_feasible(node))
            return (nodes[slot] for slot in sorted(among) if kind.is_feasible(nodes[slot]))
        if kind.only_slots is None and not kind.live_checks:
            accepted = nodes if kind.accepts is None else compress(nodes, kind.accepts)
            return [node for node in accepted if not node.reserved_tasks or kind.is_feasible(node)]
        slots = range(len(nodes)) if kind.only_slots is None else kind.only_slots
        return (nodes[slot] for slot in slots if kind.is_feasible(nodes[slot]))

    def ranked(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        """Return all feasible nodes, the best first; `among` these, if given."""
        kind = self._kinds.of(task)
        if not kind.is_watched or not kind.is_exact:
            return self._plain.ranked(task, among)
        if among is not None and not kind.normalised and len(among) * SPARSE <= len(self._nodes):
            few = [self._nodes[slot] for slot in self._table.all_feasible(kind, sorted(among))]
            scores = dict(zip(few, kind.score(few), strict=True))
            return sorted(few, key=scores.__getitem__, reverse=True)
        some = None if among is None or len(among) == len(self._nodes) else among
        if not kind.normalised:
            return self._order(kind).best_first(some)
        ranked = list(self._order(kind).best_first())
        if not kind.is_exact:
            return self._plain.ranked(task, among)
        return ranked if some is None else [node for node in ranked if node.slot in some]

    def _order(self, kind: Kind) -> Order:
        order = self._orders.use(kind.number)
        if order is None:
            order = Order(
                kind,
                self._nodes,
                self._changes(kind),
                self._table.all_feasible,
                Kind.is_feasible,
                self._scores_for(kind),
            )
            self._orders.keep(kind.number, order)
        return order

    # What is known of nodes

    def refusal(self, task: TaskState, node: NodeState, /) -> Unfit | None:
        """Return why the predicates reject the node, or None."""
        return self._judgement.refusal(task, node)

    def raw_scores(self, task: TaskState, node: NodeState, /) -> tuple[float, ...]:
        """Return each score of the node before normalisation."""
        return self._judgement.raw_scores(task, node)

    def totals(self, _task: TaskState, raw: Sequence[tuple[float, ...]], /) -> list[float]:
        """Return the total score of each of several nodes compared."""
        return self._judgement.totals(raw)

    def tally(self, task: TaskState, /) -> NodeTally:
        """Return how many nodes could accept the task now, and why the others could not."""
        kind = self._kinds.of(task)
        if not kind.is_watched:
            return self._plain.tally(task)
        return self._tallies.of(kind) if kind.no_choice is None else self._tally(kind)

    def _tally(self, kind: Kind) -> NodeTally:
        """Tally a kind for which plugins choose. O(nodes) if any has changed, else O(1)."""
        known = self._with_choices.use(kind.number)
        changes = self._changes(kind) if known is None else known[0]
        changed = changes.unread()
        if known is not None and changed is not None and not changed:
            return known[1]
        tally = self._tallies.of(kind)
        no_choice = kind.no_choice
        if tally.available and no_choice is not None:
            nodes = self._table.nodes
            asked = [no_choice(nodes[slot], Fit.NOW) for slot in self._table.having_room(kind)]
            unfit = Counter(each for each in asked if each is not None)
            if unfit:
                available = tally.available - sum(unfit.values())
                refusals = summed_refusals({**tally.unfit, **unfit})
                tally = NodeTally(tally.total, available, refusals)
        # Who remembers what follows from a tally knows it by identity: keep the one that is equal.
        if known is not None and known[1] == tally:
            tally = known[1]
        self._with_choices.keep(kind.number, (changes, tally))
        return tally

    def nodes_changed(self, slots: Collection[int], /) -> bool:
        """Process added, removed or changed nodes; return False if a new engine is needed.

        The change log has these slots too. O(slots x checks of descriptions, kinds), and O(nodes)
        for each combination of such checks that reject any node.
        """
        return self._kinds.nodes_changed(slots)


def _table_of(ledger: Ledger, arrays: bool | None) -> Table:
    if arrays is None:
        arrays = len(ledger.slots) >= FEWEST_IN_ARRAYS
    if arrays and ledger.slots and ledger.dimensions.are_small:
        in_arrays = array_table()
        table = None if in_arrays is None else in_arrays(ledger)
        if table is not None and table.is_exact:
            return table
    return Table(ledger)


@cache
def array_table() -> type[ArrayTable] | None:
    """Return the table of arrays; None where NumPy is missing, which is found out once."""
    try:
        from batchsched.placement.arrays import ArrayTable  # noqa: PLC0415 - it needs NumPy
    except ImportError:
        return None
    return ArrayTable
