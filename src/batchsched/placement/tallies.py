"""Tallies: how many nodes could accept tasks of a kind now, and why the others could not.

Kinds that differ only in their requests are refused by the same nodes. So refusals are counted once
for all of them, and the idle amounts of the other nodes are kept sorted: a tally takes a binary
search for each dimension, and looks only at nodes with enough of the scarcest one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.placement.kinds import Kind
from batchsched.placement.plain_loop import Evaluator
from batchsched.placement.table import ChangedNodes, Table
from batchsched.state.memory import RecentlyUsed, Watch
from batchsched.state.records import NodeState
from batchsched.state.vectors import Vector

MOST_TALLIES = 10_000
"""The most tallies that are remembered until a node changes."""

Column = list[tuple[int, int]]
"""An idle amount and a slot of each node, sorted."""


class Refusals:
    """Why nodes are refused, and what the others have idle, brought up to date as nodes change."""

    def __init__(
        self, refusal: Callable[[NodeState], Unfit | None], table: Table, changes: ChangedNodes
    ) -> None:
        """Ask all nodes. O(nodes).

        Args:
            refusal: returns why a node is refused, or None.
            table: the nodes.
            changes: which nodes changed since, or may be refused for other reasons.

        """
        self._refusal = refusal
        self._table = table
        self._changes = changes
        self.edition = 0
        """How often nodes have changed."""
        self.is_first = True
        """Whether no tally was made yet."""
        self._begin()

    def _begin(self) -> None:
        self.of: dict[int, Unfit | None] = {}
        """Why each node is refused, by slot."""
        self.counts = Counter[Unfit | None]()
        """How many nodes are refused for each reason; None: not refused."""
        self.idle: dict[int, Vector] = {}
        """What the nodes have idle that are not refused and have no promises and releases."""
        self.diverging: set[int] = set()
        """The slots of the nodes that have, and are not refused."""
        self._columns: dict[int, Column] = {}
        self._put(range(len(self._table.nodes)))

    def refresh(self) -> None:
        """Ask the nodes that changed. O(changes x (checks + nodes moved in a sorted column))."""
        changed = self._changes.unread()
        if changed is None:
            self.edition += 1
            self._begin()
        elif changed:
            self.edition += 1
            for slot in changed:
                if slot in self.of:
                    self.counts[self.of.pop(slot)] -= 1
                    self.diverging.discard(slot)
                    idle = self.idle.pop(slot, None)
                    if idle is not None:
                        for dimension, column in self._columns.items():
                            del column[bisect_left(column, (idle[dimension], slot))]
            self._put(changed)

    def _put(self, slots: Iterable[int]) -> None:
        nodes, vacant = self._table.nodes, self._table.vacant
        for slot in slots:
            if slot in vacant:
                continue
            node = nodes[slot]
            refusal = self.of[slot] = self._refusal(node)
            self.counts[refusal] += 1
            if refusal is None and node.divergence_count:
                self.diverging.add(slot)
            elif refusal is None:
                self.idle[slot] = node.idle
                for dimension, column in self._columns.items():
                    insort(column, (node.idle[dimension], slot))

    def with_enough(self, dimension: int, wanted: int) -> Column:
        """Return the nodes of `idle` that have enough of one dimension.

        For the first tally they are looked for one by one: sorting would not pay for constraints
        that no other kind has.
        """
        if self.is_first:
            return [
                (idle[dimension], slot)
                for slot, idle in self.idle.items()
                if wanted <= idle[dimension]
            ]
        column = self._columns.get(dimension)
        if column is None:
            column = sorted((idle[dimension], slot) for slot, idle in self.idle.items())
            self._columns[dimension] = column
        return column[bisect_left(column, (wanted, 0)) :]


_Counts = tuple[int, dict[Unfit | None, int]]
"""How many nodes accept a kind, and how many do not, by reason; None: no reason."""


class Tallies:
    """Counts nodes for the kinds of the engine."""

    def __init__(self, table: Table, evaluator: Evaluator, *, most: int) -> None:
        """Begin with none; keep what is known for at most so many kinds of equal constraints."""
        self._table = table
        self._evaluator = evaluator
        self._refusals = RecentlyUsed[Hashable, Refusals](most=most)
        self._tallies = RecentlyUsed[int, tuple[Refusals, int, NodeTally]](most=MOST_TALLIES)

    def of(self, kind: Kind) -> NodeTally:
        """Return the present tally of a kind that `is_watched`; the same object while unchanged.

        O(log nodes + nodes with enough of the scarcest dimension + changes since the last time).
        """
        known = self._tallies.use(kind.number)
        if known is not None:
            known[0].refresh()
            if known[1] == known[0].edition:
                return known[2]
        few = _check_of_few(kind)
        if few is None:
            refusals = self._shared(kind.constraints, kind.infeasible, kind.watches)
        else:
            # Kinds that select few nodes mostly have the same checks before that one.
            before = [(name, check) for name, check, _, _ in kind.all_checks[:few]]
            keys = tuple(key for _, _, _, key in kind.all_checks[:few])
            refusals = self._shared(
                (kind.is_best_effort, keys), partial(kind.refusal_by, before), ()
            )
        refusals.refresh()
        if few is None:
            available, counts = self._of_all(kind, refusals)
        else:
            available, counts = self._of_few(kind, refusals, few)
        unfit = {why: count for why, count in counts.items() if count and why is not None}
        total = len(self._table.nodes) - len(self._table.vacant)
        tally = None if known is None else known[2]
        # Who remembers what follows from a tally knows it by identity: keep the one that is equal.
        if (
            tally is None
            or (tally.available, tally.total) != (available, total)
            or tally.unfit != unfit
        ):
            tally = NodeTally(total, available, unfit)
        if few is None or not kind.watches:
            self._tallies.keep(kind.number, (refusals, refusals.edition, tally))
        return tally

    def _shared(
        self,
        key: Hashable,
        refusal: Callable[[NodeState], Unfit | None],
        watches: Sequence[Watch],
    ) -> Refusals:
        known = self._refusals.use(key)
        if known is None:
            known = Refusals(refusal, self._table, ChangedNodes(self._table.log, watches))
            self._refusals.keep(key, known)
        return known

    def _of_all(self, kind: Kind, refusals: Refusals) -> _Counts:
        """Return how many nodes accept a kind, and why others do not."""
        unfit = dict(refusals.counts)
        unfit.pop(None, None)
        idle = refusals.idle
        scarcest: Column | None = None
        for dimension, wanted in enumerate(kind.request):
            if wanted:
                enough = refusals.with_enough(dimension, wanted)
                if len(enough) < len(idle):
                    lacking = self._evaluator.lacking_in(dimension)
                    unfit[lacking] = unfit.get(lacking, 0) + len(idle) - len(enough)
                if scarcest is None or len(enough) < len(scarcest):
                    scarcest = enough
        refusals.is_first = False
        available = len(idle)
        if scarcest is not None:
            available = sum([kind.fits_idle(idle[slot]) for _, slot in scarcest])
        for slot in refusals.diverging:
            available += self._fits(kind, slot, unfit)
        return available, unfit

    def _of_few(self, kind: Kind, refusals: Refusals, few: int) -> _Counts:
        """Tally a kind with a check that says which nodes it may accept. O(these nodes)."""
        described = kind.all_checks[few][2]
        assert described is not None
        unfit = refusals.counts.copy()
        available = 0
        for slot in {*described.accepted, *described.judged_apart}:
            unfit[refusals.of[slot]] -= 1
            refusal = kind.infeasible(self._table.nodes[slot])
            if refusal is not None:
                unfit[refusal] += 1
            else:
                available += self._fits(kind, slot, unfit)
        unfit[described.usual] += unfit.pop(None, 0)
        return available, unfit

    def _fits(self, kind: Kind, slot: int, unfit: dict[Unfit | None, int]) -> bool:
        """Return whether a task fits on a node now; if not, count what is lacking."""
        node = self._table.nodes[slot]
        if node.fits(kind.task):
            return True
        for lacking in self._evaluator.lacking(kind.request, node):
            unfit[lacking] = unfit.get(lacking, 0) + 1
        return False


def _check_of_few(kind: Kind) -> int | None:
    """Return the position of a check that says which few nodes it may accept; None: none does.

    None also if a check before it reads more than the node.
    """
    for position, (_, _, described, key) in enumerate(kind.all_checks):
        if described is not None and described.usual is not None:
            return position
        if key is None:
            return None
    return None
