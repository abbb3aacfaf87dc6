"""How many like tasks sets of nodes hold, and what is free there, kept as nodes change.

The definition counts node by node; what is kept is a sum for each set that plugins name in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from operator import sub

from batchsched.errors import plugin_error
from batchsched.placement.plain_loop import Evaluator
from batchsched.placement.table import ChangedNodes
from batchsched.plugin.candidates import NodeSet
from batchsched.plugin.node_functions import Reads
from batchsched.plugin.session_view import Besides
from batchsched.state.ledger import Ledger
from batchsched.state.needs import Need, Stage
from batchsched.state.records import Fit, NodeState, TaskState
from batchsched.state.vectors import Vector, plus, total_of

_ENOUGH = 1 << 30
"""How many tasks fit that request nothing, where nothing else limits them."""
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
        return sum(map(self.on, domain.nodes)) if known is None else known

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
                    self._log.append(each)


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
        first = tasks[0]
        predicates = self._judgement.predicates
        name = ""
        try:
            if self._judgement.may_choose(first):
                return None  # how many choices there are for it, nobody knows
            for name, predicate in predicates:  # noqa: B007 - the name is for the error
                if predicate.reads_for(first) in (Reads.NODE, Reads.CLUSTER):
                    return None
            key = (first.resreq, first.init_resreq, *[p.signature(first) for _, p in predicates])
            for task in tasks[1:]:
                if task.resreq != first.resreq or task.init_resreq != first.init_resreq:
                    return None
                for place, (name, predicate) in enumerate(predicates):  # noqa: B007
                    if predicate.signature(task) != key[place + 2]:
                        return None
        except Exception as error:
            raise plugin_error(name, "predicates", error) from error
        return key

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
                after = _not_negative(self._ledger.slots[slot].idle)
                more = tuple(map(sub, after, self._free_at[slot]))
                self._free_at[slot] = after
                for each in self._sets_at[slot]:
                    self._free[each] = plus(self._free[each], more)
        return self._free


def _not_negative(amounts: Vector) -> Vector:
    return amounts if min(amounts) >= 0 else tuple([max(0, amount) for amount in amounts])
