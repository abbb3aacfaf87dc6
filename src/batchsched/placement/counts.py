"""How many: of nodes, those that accept a task and why not the others; of tasks, what sets hold.

*Tallies* count nodes. Kinds of tasks that differ only in their requests are refused by the same
nodes. So refusals are counted once for all of them, and the idle amounts of the other nodes are
kept sorted: a tally takes a binary search for each dimension, and looks only at nodes with enough
of the scarcest one.

*Counts* say how many like tasks a set of nodes holds, and what is free there. The definition counts
node by node; what is kept is a sum for each set that plugins name in advance.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from operator import sub

from batchsched.errors import plugin_error
from batchsched.model.reasons import NodeTally, Unfit
from batchsched.placement.kinds import Kind
from batchsched.placement.plain_loop import Evaluator
from batchsched.placement.ranking import ChangedNodes, Table
from batchsched.plugin.candidates import NodeSet
from batchsched.plugin.node_functions import Reads
from batchsched.plugin.session_view import Besides
from batchsched.state.ledger import Ledger
from batchsched.state.memory import RecentlyUsed, Watch
from batchsched.state.needs import Need, Stage
from batchsched.state.records import Fit, NodeState, TaskState
from batchsched.state.vectors import Vector, plus, total_of

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


_ENOUGH = 1 << 30
"""How many tasks fit that request nothing, where nothing else limits them."""
_BEYOND_ACCOUNTS = (Reads.NODE, Reads.CLUSTER)
_FITS = {Stage.NOW: Fit.NOW, Stage.LATER: Fit.LATER, Stage.CONDITIONALLY: Fit.CONDITIONALLY}


class KeptCounts:
    """How many tasks of one kind sets of nodes hold in one stage, one after the other."""

    def __init__(
        self,
        count_on: Callable[[NodeState], int],
        nodes: Sequence[NodeState],
        changes: ChangedNodes | None,
        sets_at: Sequence[Sequence[NodeSet]],
        kept: Collection[NodeSet],
    ) -> None:
        """Count them.

        Args:
            count_on: counts the tasks that a node holds.
            nodes: the nodes by slot.
            changes: reports the nodes that have changed; None: nothing is kept.
            sets_at: the sets that are kept with a node, by slot.
            kept: all of these sets.

        """
        self._count_on = count_on
        self._nodes = nodes
        self._changes = changes
        self._sets_at = sets_at
        self._by_slot: dict[int, int] = {}
        self._sums: dict[NodeSet, int] = {}
        self._log: list[NodeSet] = []
        if changes is not None:
            slots = {slot for each in kept for slot in each.slots}
            self._by_slot = {slot: count_on(nodes[slot]) for slot in slots}
            self._sums = {s: sum(map(self._by_slot.__getitem__, s.slots)) for s in kept}

    def on(self, node: NodeState) -> int:
        """Return how many tasks a node holds. O(1), or as a node is checked."""
        self._refresh()
        known = self._by_slot.get(node.slot)
        return self._count_on(node) if known is None else known

    def of(self, domain: NodeSet) -> int:
        """Return how many tasks a set holds. O(1) for sets that are kept, else O(nodes)."""
        self._refresh()
        known = self._sums.get(domain)
        if known is not None:
            return known
        if not self._by_slot:
            return sum(map(self._count_on, domain.nodes))
        return sum(map(self.on, domain.nodes))

    @property
    def changed(self) -> Sequence[NodeSet]:
        """The log of kept sets whose count has changed, in order."""
        self._refresh()
        return self._log

    def _refresh(self) -> None:
        changed = None if self._changes is None else self._changes.unread()
        for slot in changed or ():
            before = self._by_slot.get(slot)
            if before is None:
                continue
            after = self._by_slot[slot] = self._count_on(self._nodes[slot])
            if after != before:
                for each in self._sets_at[slot]:
                    self._sums[each] += after - before
                self._log += self._sets_at[slot]


class Counts:
    """The counts of all kinds of tasks, and what is free."""

    def __init__(
        self,
        ledger: Ledger,
        evaluator: Evaluator,
        domains: Iterable[NodeSet],
        *,
        feasible_for: Callable[[TaskState], Callable[[NodeState], bool]],
        besides: Besides,
        plain: bool,
    ) -> None:
        """Keep the counts of some sets, unless `plain`.

        Args:
            ledger: has the nodes, and the log of their changes.
            evaluator: has the predicates.
            domains: the sets that are kept.
            feasible_for: returns for a task what says whether a node is feasible for it.
            besides: says what holds in the stages `EVICTING` and `EMPTY`, until an action does.
            plain: whether nothing is kept.

        """
        self._ledger = ledger
        self._judgement = evaluator
        self._plain = plain
        self._kept = () if plain else tuple(dict.fromkeys(domains))
        sets_at: list[list[NodeSet]] = [[] for _ in ledger.slots]
        for each in self._kept:
            for slot in each.slots:
                sets_at[slot].append(each)
        self._sets_at = sets_at
        self._feasible_for = feasible_for
        self._of_kind: dict[tuple[Hashable, Stage], KeptCounts] = {}
        self._free_at: dict[int, Vector] = {}
        self._free: dict[NodeSet, Vector] = {}
        self._changes: ChangedNodes | None = None
        self.besides = besides
        """Says what nodes have and accept in the stages that depend on the action."""

    def of(self, need: Need, stage: Stage) -> KeptCounts | None:
        """Return how many tasks like those of a need sets hold; None: they are not alike."""
        key = self._kind(need.tasks)
        if key is None:
            return None
        known = self._of_kind.get((key, stage))
        if known is None:
            is_kept = not self._plain and stage is not Stage.EVICTING  # that depends on who asks
            changes = ChangedNodes(self._ledger.log.nodes, ()) if is_kept else None
            known = KeptCounts(
                self._counting(need.tasks[0], stage),
                self._ledger.slots,
                changes,
                self._sets_at,
                self._kept,
            )
            if is_kept:
                self._of_kind[key, stage] = known
        return known

    def _kind(self, tasks: Sequence[TaskState]) -> Hashable | None:
        """Return what is the same of all of some tasks; None: they are not alike."""
        first, others, judgement = tasks[0], tasks[1:], self._judgement
        resreq, init_resreq = first.resreq, first.init_resreq
        for task in others:
            if task.resreq != resreq or task.init_resreq != init_resreq:
                return None
        key: list[Hashable] = [resreq, init_resreq]
        name = ""
        try:
            if judgement.choosers and judgement.may_choose(first):
                return None  # how many choices there are for it, nobody knows
            for name, predicate in judgement.predicates:  # noqa: B007 - the name is for the error
                if predicate.reads_for(first) in _BEYOND_ACCOUNTS:
                    return None
                signature = predicate.signature
                of_first = signature(first)
                for task in others:
                    if signature(task) != of_first:
                        return None
                key.append(of_first)
        except Exception as error:
            raise plugin_error(name, "predicates", error) from error
        return tuple(key)

    def _counting(self, task: TaskState, stage: Stage) -> Callable[[NodeState], int]:
        besides, fit = self.besides, _FITS.get(stage)
        is_empty, evicts = stage is Stage.EMPTY, stage is Stage.EVICTING
        leaving = besides.leaving if evicts else None
        cures = besides.accepts if evicts else None
        is_feasible = self._accepting(task) if is_empty else self._feasible_for(task)
        asked = [
            (dimension, wanted, held)
            for dimension, (wanted, held) in enumerate(
                zip(task.init_resreq, task.resreq, strict=True)
            )
            if wanted or held
        ]

        def count_on(node: NodeState) -> int:
            has = node.room(fit) if fit is not None else besides.has(node, stage)
            least = _ENOUGH
            for dimension, wanted, held in asked:
                left = has[dimension] - wanted
                if left < 0 and wanted:
                    return 0
                if held and left < least * held:
                    least = left // held + 1
            most = node.info.max_tasks
            if most is not None:
                stay = 0 if is_empty else len(node.tasks)
                least = min(least, most - stay + (leaving(node) if leaving is not None else 0))
            if least <= 0:
                return 0
            return least if is_feasible(node) or (cures and cures(task, node)) else 0

        return count_on

    def _accepting(self, task: TaskState) -> Callable[[NodeState], bool]:
        """Return what says whether predicates accept a node: a reservation closes it not here."""
        return lambda node: self._judgement.refusal(task, node) is None

    def has(self, node: NodeState, stage: Stage) -> Vector:
        """Return the most that a request may ask of a node to fit there in a stage."""
        fit = _FITS.get(stage)
        return self.besides.has(node, stage) if fit is None else node.room(fit)

    def free(self, domain: NodeSet) -> Vector:
        """Return the sum of what is idle in a set, where it is not negative."""
        if domain not in self._sums_of_free():
            zero = self._ledger.dimensions.zero
            return total_of([_not_negative(node.idle) for node in domain.nodes], zero)
        return self._free[domain]

    def _sums_of_free(self) -> Collection[NodeSet]:
        """Return the sets of which it is kept what is free. O(changes)."""
        if self._changes is None:
            if self._kept:
                self._changes = ChangedNodes(self._ledger.log.nodes, ())
                zero = self._ledger.dimensions.zero
                for slot in {slot for each in self._kept for slot in each.slots}:
                    self._free_at[slot] = _not_negative(self._ledger.slots[slot].idle)
                for each in self._kept:
                    self._free[each] = total_of([self._free_at[s] for s in each.slots], zero)
            return self._free
        for slot in self._changes.unread() or ():
            if slot in self._free_at:
                before, after = self._free_at[slot], _not_negative(self._ledger.slots[slot].idle)
                if after == before:
                    continue
                more = tuple(map(sub, after, before))
                self._free_at[slot] = after
                for each in self._sets_at[slot]:
                    self._free[each] = plus(self._free[each], more)
        return self._free


def _not_negative(amounts: Vector) -> Vector:
    return amounts if min(amounts) >= 0 else tuple([max(0, amount) for amount in amounts])
