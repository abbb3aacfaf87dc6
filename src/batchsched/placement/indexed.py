"""The indexed engine, which evaluates a node again only when it has changed.

Tasks that get the same answers form an equivalence class, or kind. For each kind
that is placed more than once, the engine keeps the nodes that accept it sorted by
score; after a placement it evaluates only the nodes that have changed since. Its
answers always equal those of a plain loop over all nodes; see
`batchsched.placement.linear_scan` and the property tests that compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.placement.accepted_cells import CellsOfAcceptedNodes
from batchsched.placement.accepted_nodes import FewSlots
from batchsched.placement.equivalence_class import EquivalenceClass, EquivalenceClassMaker
from batchsched.placement.evaluator import Evaluator
from batchsched.placement.first_fit import FirstFit
from batchsched.placement.idle_columns import IdleColumns
from batchsched.placement.interface import Fit
from batchsched.placement.linear_scan import LinearScanPlacement
from batchsched.placement.node_index import Evaluate, EvaluateOne, NodeIndex
from batchsched.placement.node_states import NodeStates
from batchsched.placement.room import room_limits
from batchsched.placement.score_index import Entry, Order, Raw, Scored, ScoreIndex
from batchsched.placement.state_ranking import Scan, StateRanking, scan_nodes
from batchsched.placement.tallies import Tallies
from batchsched.state.change_log import NodeCursor
from batchsched.state.ledger import Ledger
from batchsched.state.recently_used import RecentlyUsed
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["IndexedPlacement"]

MAX_KEPT_ENTRIES = 2_000_000
"""The most entries of indices that are kept for all kinds together, about 300 MB."""

MAX_SCANNED_ENTRIES = 250_000
"""The most scores that are kept of kinds that were placed once, about 20 MB."""

FEW = 8
"""Up to this many nodes are evaluated one by one; more, through the columns."""


ASKS_OF_CELLS = 1
"""For a class of tasks that is placed more often, its own ranking of all nodes pays."""


class IndexedPlacement:
    """A placement engine whose cost depends on what changes."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        self._in_order: Sequence[NodeState] = ledger.nodes
        self._nodes: Sequence[NodeState] = ledger.slots
        self._vacant = ledger.vacant
        self._changes: Sequence[int] = ledger.log.nodes
        self._dimensions = ledger.dimensions
        self._judgement = evaluator
        self._most_tables = most = max(MAX_KEPT_ENTRIES // max(len(self._nodes), 1), 1)
        self._kinds = EquivalenceClassMaker(ledger, evaluator, most_tables=most)
        self._plain = LinearScanPlacement(ledger, evaluator)
        self._columns_or_none: IdleColumns | None = None
        self._asked: set[int] = set()
        self._rankings = RecentlyUsed[tuple[int, Fit], NodeIndex[ScoreIndex]](most=most)
        self._scans = RecentlyUsed[int, tuple[NodeCursor, list[Scored]]](
            most=MAX_SCANNED_ENTRIES // max(len(self._nodes), 1)
        )
        """The result of scanning all nodes, for kinds that were placed once."""
        self._states_or_none: NodeStates | None = None
        self._state_rankings = RecentlyUsed[int, StateRanking](most=most)
        self._state_scans = RecentlyUsed[int, Scan](
            most=MAX_SCANNED_ENTRIES // max(len(self._nodes), 1)
        )
        self._cells = CellsOfAcceptedNodes(self._nodes, self._changes, most=most)
        self._asks_by_state = RecentlyUsed[int, int](most=most)
        """How often the best node by state was requested for classes without a ranking."""
        self._asked_for_all: set[int] = set()
        """The kinds for which all feasible nodes were requested."""
        self._orders = RecentlyUsed[int, NodeIndex[Order]](most=most)
        self._firsts = RecentlyUsed[int, tuple[Sequence[int] | None, FirstFit]](most=most)
        """With the few slots that each looks at, if there are few."""
        self._tallies = Tallies(ledger, evaluator, most=most)

    # The interface

    def kind(self, task: TaskState, /) -> int | None:
        """Return a number shared by tasks that get the same answers; None: unknown."""
        kind = self._kinds.class_of(task)
        return task.kind if kind.is_watched and not kind.watches else None

    def best(self, task: TaskState, fit: Fit, /) -> NodeState | None:
        """Return the best of the feasible nodes where the task fits in this way."""
        kind = self._kinds.class_of(task)
        if kind.is_watched and kind.is_exact:
            if fit is Fit.NOW:
                best = self._best_now(task, kind)
            else:
                best = self._best_not_now(task, kind, fit)
            if kind.is_exact:
                return best
        return self._plain.best(task, fit)

    def first_feasible(self, task: TaskState, /) -> NodeState | None:
        """Return the first feasible node in node order where the task fits now."""
        kind = self._kinds.class_of(task)
        if not kind.is_watched:
            return self._plain.first_feasible(task)
        index = self._first(task.kind, kind).find()
        return None if index is None else self._nodes[index]

    def feasible(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        """Return all feasible nodes in node order; `among` these, if given."""
        kind = self._kinds.class_of(task)
        if not kind.is_watched:
            return self._plain.feasible(task, among)
        nodes = self._nodes
        if among is not None and len(among) < len(nodes):
            accepts = kind.accepts_by_description
            if isinstance(accepts, FewSlots):
                among = accepts.keys() & among
            if len(among) * FEW > len(nodes):
                return (node for node in nodes if node.slot in among and kind.is_feasible(node))
            in_order = sorted(among)
            return (nodes[i] for i in in_order if kind.is_feasible(nodes[i]))
        if task.kind not in self._asked_for_all:
            # Often only the first few are read, and with unlike tasks never again.
            self._asked_for_all.add(task.kind)
            looked_at = nodes if kind.only_slots is None else [nodes[i] for i in kind.only_slots]
            return (node for node in looked_at if kind.is_feasible(node))
        return (nodes[index] for index in self._order(task.kind, kind).indices())

    def ranked(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        """Return all feasible nodes, the best first; `among` these, if given."""
        kind = self._kinds.class_of(task)
        if not kind.is_watched or not kind.is_exact:
            return self._plain.ranked(task, among)
        if kind.normalised:
            whole = list(self._ranked(kind, self._order(task.kind, kind)))
            if not kind.is_exact:
                return self._plain.ranked(task, among)
            return [node for node in whole if among is None or node.slot in among]
        if among is None or len(among) == len(self._nodes):
            return self._ranked(kind, self._order(task.kind, kind))
        if len(among) * FEW > len(self._nodes):
            ranked = self._ranked(kind, self._order(task.kind, kind))
            return (node for node in ranked if node.slot in among)
        scored = self._score_feasible(kind, among)
        scored.sort(key=lambda entry: (-entry[2], entry[0]))
        return [self._nodes[index] for index, _, _ in scored]

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
        kind = self._kinds.class_of(task)
        if not kind.is_watched:
            return self._plain.tally(task)
        return self._tallies.tally(task.kind, kind)

    def room(self, task: TaskState, /, *, below: int) -> Mapping[int, int] | None:
        """Return how many tasks like a given one fit now, by slot; see `CountsRoom`.

        Known only for kinds of tasks that are ranked by the states of nodes, which they are from
        the second time on that one is placed. O(below + changes since the last time).
        """
        kind = self._kinds.class_of(task)
        ranking = self._state_rankings.use(task.kind)
        limits = room_limits(kind)
        if ranking is None or limits is None or not self._dimensions.are_small:
            return None
        self._columns.refresh()
        if self._columns.diverging:
            # Promises and releases make more of a difference than idle amounts.
            return None
        return ranking.room(task, limits, below=below)

    def nodes_changed(self, slots: Collection[int], /) -> bool:
        """Process added, removed or changed nodes; return False if a new engine is needed.

        The change log has these slots too. O(slots x checks of descriptions, classes), and
        O(nodes) for each combination of such checks that reject any node.
        """
        if self._columns_or_none is not None:
            self._columns_or_none.refresh()
            self._columns_or_none.grown.extend(slots)
        self._cells.clear()
        return self._kinds.nodes_changed(slots)

    # Choosing

    @property
    def _columns(self) -> IdleColumns:
        if self._columns_or_none is None:
            self._columns_or_none = IdleColumns(
                self._nodes, self._changes, self._dimensions, self._vacant
            )
        return self._columns_or_none

    def _best_not_now(self, task: TaskState, kind: EquivalenceClass, fit: Fit) -> NodeState | None:
        columns = self._columns
        columns.refresh()
        now = self._best_now(task, kind)
        if not columns.diverging:
            # Without promises and releases, a task fits now or not at all.
            return now
        if now is not None:
            # No built-in action asks this: nodes where the task fits now are candidates too.
            return self._plain.best(task, fit)
        return self._best_of(self._ranking(task.kind, kind, fit), kind)

    @property
    def _states(self) -> NodeStates:
        if self._states_or_none is None:
            self._states_or_none = NodeStates(
                self._nodes,
                self._changes,
                [
                    (name, score.hints.state)
                    for name, score in self._judgement.scores
                    if score.normalise is None and score.hints.state is not None
                ],
                vacant=self._vacant,
                most_classes=self._most_tables,
            )
        return self._states_or_none

    def _best_by_state(self, task: TaskState, kind: EquivalenceClass) -> NodeState | None:
        number = task.kind
        ranking = self._state_rankings.use(number)
        if ranking is None:
            asks = self._asks_by_state.use(number) or 0
            self._asks_by_state.keep(number, asks + 1)
            if asks < ASKS_OF_CELLS:
                cells = self._cells.of(kind, self._states)
                if cells is not None:
                    slot = cells.best(task, kind)
                    return None if slot is None else self._nodes[slot]
            elif asks == ASKS_OF_CELLS:
                self._cells.placed_again(kind)
            if not asks:
                scan = scan_nodes(kind, self._nodes, self._changes, self._columns, self._states)
                self._state_scans.keep(number, scan)
                _, _, slots, scores = scan
                return self._nodes[slots[scores.index(max(scores))]] if slots else None
            ranking = StateRanking(
                kind,
                self._nodes,
                self._changes,
                self._columns,
                self._states,
                self._state_scans.pop(number, None),
            )
            self._state_rankings.keep(number, ranking)
        best = ranking.best()
        return None if best is None else self._nodes[best[1]]

    def _best_now(self, task: TaskState, kind: EquivalenceClass) -> NodeState | None:
        number = task.kind
        only = kind.only_slots
        if only is not None and len(only) <= FEW:
            return self._best_of_scored(self._fitting_now(kind, only), kind)
        if kind.is_scored_by_state:
            return self._best_by_state(task, kind)
        if number not in self._asked:
            # With unlike tasks most kinds are placed only once, and an index would not pay.
            self._asked.add(number)
            return self._scan(number, kind)
        return self._best_of(self._ranking(number, kind, Fit.NOW), kind)

    def _scan(self, number: int, kind: EquivalenceClass) -> NodeState | None:
        cursor = NodeCursor(self._changes)
        scored = self._fitting_now(kind, None)
        if not kind.watches:
            # If the kind is placed again, only nodes that change from here on are evaluated.
            self._scans.keep(number, (cursor, scored))
        return self._best_of_scored(scored, kind)

    def _best_of_scored(self, scored: list[Scored], kind: EquivalenceClass) -> NodeState | None:
        best: dict[Raw, tuple[float, int]] = {}
        for index, raw, score in scored:
            known = best.get(raw)
            if known is None or score > known[0]:
                best[raw] = (score, index)
        return self._choose([(raw, score, index) for raw, (score, index) in best.items()], kind)

    def _best_of(self, ranking: ScoreIndex, kind: EquivalenceClass) -> NodeState | None:
        if kind.normalised:
            return self._choose(ranking.tops(), kind)
        best = ranking.best()
        return None if best is None else self._nodes[best[1]]

    def _choose(
        self, tops: list[tuple[Raw, float, int]], kind: EquivalenceClass
    ) -> NodeState | None:
        """Return the best node, given the best of each group."""
        if len(tops) <= 1 and not kind.normalised:
            return self._nodes[tops[0][2]] if tops else None
        if not tops:
            return None
        lowest, highest = _extremes([raw for raw, _, _ in tops])
        _, index = min(
            (-kind.total(score, raw, lowest, highest), index) for raw, score, index in tops
        )
        return self._nodes[index]

    def _ranked(self, kind: EquivalenceClass, order: Order) -> Iterator[NodeState]:
        groups = order.groups()
        if not groups:
            return
        if not kind.normalised:
            [(_, best_first)] = groups
            for _, index in best_first:
                yield self._nodes[index]
            return
        lowest, highest = _extremes([raw for raw, _ in groups])

        def with_total(raw: Raw, entries: Iterator[Entry]) -> Iterator[tuple[float, int]]:
            for negative, index in entries:
                yield -kind.total(-negative, raw, lowest, highest), index

        streams = [with_total(raw, entries) for raw, entries in groups]
        for _, index in merge(*streams):
            yield self._nodes[index]

    # Tables

    def _ranking(self, number: int, kind: EquivalenceClass, fit: Fit) -> ScoreIndex:
        table = self._rankings.use((number, fit))
        if table is None:
            table = NodeIndex(
                self._evaluate(kind, fit),
                self._changes,
                kind.watches,
                ScoreIndex,
                self._evaluate_one(kind, fit),
                self._scans.pop(number, None) if fit is Fit.NOW else None,
            )
            self._rankings.keep((number, fit), table)
        table.refresh()
        return table.kept

    def _order(self, number: int, kind: EquivalenceClass) -> Order:
        table = self._orders.use(number)
        if table is None:
            table = NodeIndex(
                self._evaluate(kind, None),
                self._changes,
                kind.watches,
                Order,
                self._evaluate_one(kind, None),
            )
            self._orders.keep(number, table)
        table.refresh()
        return table.kept

    def _first(self, number: int, kind: EquivalenceClass) -> FirstFit:
        known = self._firsts.use(number)
        only = kind.only_slots
        if known is None or known[0] is not only:
            nodes = self._nodes
            first = FirstFit(
                range(len(nodes)) if only is None else only,
                lambda index: kind.takes_now(nodes[index]),
                self._changes,
                kind.watches,
            )
            self._firsts.keep(number, (only, first))
            return first
        return known[1]

    def _evaluate(self, kind: EquivalenceClass, fit: Fit | None) -> Evaluate:
        match fit:
            case None:
                return lambda among: self._score_feasible(kind, among)
            case Fit.NOW:
                return lambda among: self._fitting_now(kind, among)
            case Fit.LATER:
                return lambda among: self._score_feasible(
                    kind,
                    self._diverging_where(
                        _looked_at(kind, among), kind.request, NodeState.fits_later
                    ),
                )
            case Fit.CONDITIONALLY:
                return lambda among: self._score_feasible(
                    kind,
                    self._diverging_where(
                        _looked_at(kind, among), kind.request, NodeState.fits_conditionally
                    ),
                )

    def _evaluate_one(self, kind: EquivalenceClass, fit: Fit | None) -> EvaluateOne | None:
        nodes = self._nodes
        if kind.normalised or kind.watches:
            return None
        if fit is Fit.NOW:
            return lambda index: kind.score_now(nodes[index])
        return None if fit is not None else lambda index: kind.score_feasible(nodes[index])

    def _fitting_now(self, kind: EquivalenceClass, among: Collection[int] | None) -> list[Scored]:
        nodes = self._nodes
        if among is not None and len(among) <= FEW:
            fits_idle, feasible, request = kind.fits_idle, kind.is_feasible, kind.request
            return kind.score_of(
                [
                    node
                    for node in [nodes[index] for index in among]
                    if fits_idle(node.idle)
                    and (not node.divergence_count or node.fits_now(request))
                    and feasible(node)
                ]
            )
        columns = self._columns
        found = columns.fitting(kind.request, _looked_at(kind, among))
        diverging = columns.diverging
        if diverging:
            request = kind.request
            found = [i for i in found if i not in diverging or nodes[i].fits_now(request)]
        return self._score_feasible(kind, found)

    def _diverging_where(
        self,
        among: Iterable[int] | None,
        request: Vector,
        fits: Callable[[NodeState, Vector], bool],
    ) -> list[int]:
        self._columns.refresh()
        diverging = self._columns.diverging
        looked_at = sorted(diverging) if among is None else [i for i in among if i in diverging]
        return [index for index in looked_at if fits(self._nodes[index], request)]

    def _score_feasible(self, kind: EquivalenceClass, among: Iterable[int] | None) -> list[Scored]:
        nodes = self._nodes
        among = _looked_at(kind, among)
        looked_at = nodes if among is None else [nodes[index] for index in among]
        self._columns.refresh()
        if kind.accepts_by_description is not None or kind.live_checks or self._columns.reserved:
            looked_at = kind.feasible_of(looked_at)
        if not kind.has_scores_by_state:
            return kind.score_of(looked_at)
        states = self._states
        states.refresh()
        slots = [node.slot for node in looked_at]
        return kind.score_of(looked_at, states.scores(kind, slots, states.known_scores(kind)))


def _looked_at(kind: EquivalenceClass, among: Iterable[int] | None) -> Iterable[int] | None:
    """Return which of some slots (None: all) are to be looked at; None: all."""
    only, accepts = kind.only_slots, kind.accepts_by_description
    if only is None or accepts is None:
        return among
    return only if among is None else [slot for slot in among if accepts[slot]]


def _extremes(raws: list[Raw]) -> tuple[Raw, Raw]:
    return tuple(map(min, zip(*raws, strict=True))), tuple(map(max, zip(*raws, strict=True)))
