"""A state machine of a cluster: jobs arrive and end, nodes change, and cycles are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar, cast

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.strategies import DataObject, SearchStrategy

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.live import Cluster, TimePassed
from batchsched.live.attached import AttachedScheduler
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.testing.drawing.jobs import jobs
from batchsched.testing.drawing.nodes import nodes
from batchsched.testing.drawing.snapshots import snapshots
from batchsched.testing.invariants import INVARIANTS, Invariant, check_cycle
from batchsched.testing.invariants.cycle import HOLDING
from batchsched.testing.ping_pong import Watcher
from batchsched.tools.ping_pong import without_times
from batchsched.transition.next_snapshot import next_snapshot

_WHICH = st.integers(0, 15)

RuleT = TypeVar("RuleT")
PartT = TypeVar("PartT", TaskInfo, NodeInfo)


# Hypothesis's own decorators lose the type of what they decorate.


class _Decorator(Protocol):
    def __call__(self, function: RuleT, /) -> RuleT: ...


_first = cast("Callable[..., _Decorator]", initialize)
_step = cast("Callable[..., _Decorator]", rule)
_when = cast("Callable[[Callable[[ClusterMachine], object]], _Decorator]", precondition)


class LivingViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A cluster that lives decides otherwise, or becomes another, than one read from scratch."""

    def __init__(self, problem: str, snapshot: Snapshot, result: CycleResult) -> None:
        super().__init__(problem)
        self.snapshot = snapshot
        """The cluster before the cycle."""
        self.result = result
        """What was decided from scratch."""


class ClusterMachine(RuleBasedStateMachine):
    """A state machine of many cycles, in which Hypothesis searches for faults.

    Its rules submit jobs, end and fail tasks, cordon, drain, remove and add nodes, and run cycles.
    Every cycle is checked for every invariant. If cycles without any event in between return to an
    earlier state and evict tasks on the way, that is reported as ping-pong. Beside the scheduler
    that reads each cluster from scratch, one follows from cluster to cluster (``warm=True``), and
    one is attached to a `batchsched.live.Cluster` in which the decisions are carried out; both
    must decide the same.

    Subclass it to test a policy: set `config`, and `registry` if it names plugins of your own;
    override `starts` and `arrivals` for other clusters and jobs; add rules for other events of your
    cluster. The machine's `TestCase` is what test runners collect.

    >>> class Preempting(ClusterMachine):
    ...     config = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})
    >>> TestPreempting = Preempting.TestCase
    """

    config: SchedulerConfig = SchedulerConfig()
    """The policy."""
    registry: Registry | None = None
    """The registry of the names in `config`; None: the default registry."""
    cycle_invariants: Sequence[Invariant | str] = INVARIANTS
    """The invariants that every cycle is checked for; see `check_cycle`."""
    seconds_per_cycle: float = 10.0
    """The time between cycles, in seconds."""
    max_jobs: int = 8
    """The number of jobs from which no more are submitted."""
    max_nodes: int = 5
    """The number of nodes from which no more are added."""
    quiet_cycles: int = 12
    """The most cycles that `settle` runs until nothing changes."""
    finds_ping_pong: bool = True
    """Whether ping-pong is reported."""
    lives: bool = True
    """Whether living clusters decide beside; plugins that remember earlier cycles need not."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(self.config, self.registry)
        self.snapshot = Snapshot()
        """The current cluster."""
        self._watcher = Watcher(config=self.config, registry=self.registry)
        self._warm = Scheduler(self.config, self.registry, warm=True)
        self._living: tuple[Cluster, AttachedScheduler] | None = None
        """A cluster that has come from the last one by cycles alone; None: something happened."""
        self._number = 0

    # For subclasses

    def starts(self) -> SearchStrategy[Snapshot]:
        """Return the strategy for initial clusters."""
        return snapshots(max_nodes=3, max_queues=2, max_jobs=3, max_tasks=3)

    def arrivals(self, name: str, queues: Sequence[str]) -> SearchStrategy[JobInfo]:
        """Return the strategy for submitted jobs, given their name and the queues."""
        return jobs(name=name, queues=queues, max_tasks=3)

    def change(self, snapshot: Snapshot) -> None:
        """Replace the cluster; rules call this for changes other than cycles."""
        self.snapshot = snapshot
        self._living = None
        self._watcher.forget()

    def tasks(self, *statuses: TaskStatus) -> list[TaskInfo]:
        """Return the tasks of all jobs that have one of these statuses, in order of UID."""
        return [task for job in self.snapshot.jobs for task in job.tasks if task.status in statuses]

    def run_cycle(self) -> CycleResult:
        """Run a cycle, check it, and apply its decisions."""
        before = self.snapshot
        result = self.scheduler.schedule(before)
        check_cycle(
            before,
            result,
            self.config,
            registry=self.registry,
            invariants=self.cycle_invariants,
        )
        if self.finds_ping_pong:
            self._watcher.watch(before, result)
        now = before.now + self.seconds_per_cycle
        self.snapshot = next_snapshot(before, result, now=now)
        if self.lives:
            self._live(before, result, now)
        return result

    def _live(self, before: Snapshot, result: CycleResult, now: float) -> None:
        """Run the cycle in the clusters that live, and carry out there what was decided."""
        if self._living is None:
            cluster = Cluster(before)
            self._living = cluster, self.scheduler.attach(cluster)
        cluster, attached = self._living
        for name, cycle in (
            ("a scheduler that keeps the last snapshot", self._warm.schedule(before)),
            ("a living cluster", attached.schedule()),
        ):
            if cycle != result:
                problem = f"{name} decides otherwise than from scratch:\n{cycle}\nand not\n{result}"
                raise LivingViolation(problem, before, result)
        cluster.carry_out(attached.schedule(), at_once=True)
        if cluster.snapshot() != next_snapshot(before, result, now=before.now):
            problem = "a living cluster becomes another than next_snapshot returns"
            raise LivingViolation(problem, before, result)
        cluster.apply(TimePassed(now))
        if cluster.snapshot() != self.snapshot:
            self._living = None  # it has decisions take effect at once, and not as time passes

    # Rules

    @_first(data=st.data())
    def start(self, data: DataObject) -> None:
        """Start with a drawn cluster."""
        self.change(data.draw(self.starts(), label="snapshot"))

    @_step()
    def cycle(self) -> None:
        """Run one cycle."""
        self.run_cycle()

    @_step()
    def settle(self) -> None:
        """Run cycles without other events until nothing changes any more."""
        for _ in range(self.quiet_cycles):
            before = self.snapshot
            self.run_cycle()
            if without_times(self.snapshot) == without_times(before):
                return

    @_when(lambda self: len(self.snapshot.jobs) < self.max_jobs)
    @_step(data=st.data())
    def submit(self, data: DataObject) -> None:
        """Submit a job."""
        queues = [queue.name for queue in self.snapshot.queues] or ["unknown"]
        job = data.draw(self.arrivals(self._free_name(), queues), label="job")
        now = self.snapshot.now
        tasks = [evolve(task, creation_time=now) for task in job.tasks]
        self.change(self._with(new_jobs=[evolve(job, creation_time=now, tasks=tasks)]))

    @_when(lambda self: self.tasks(TaskStatus.RUNNING))
    @_step(which=_WHICH)
    def finish(self, which: int) -> None:
        """Complete a running task."""
        uid = _one_of(self.tasks(TaskStatus.RUNNING), which).uid
        self.change(self._with(succeeded=[uid]))

    @_when(lambda self: self.tasks(TaskStatus.RUNNING))
    @_step(which=_WHICH)
    def fail(self, which: int) -> None:
        """Fail a running task; its controller recreates it."""
        uid = _one_of(self.tasks(TaskStatus.RUNNING), which).uid
        self._remove_tasks([uid], self.snapshot.nodes)

    @_when(lambda self: self.snapshot.nodes)
    @_step(which=_WHICH)
    def cordon(self, which: int) -> None:
        """Cordon a node, or uncordon it."""
        chosen = _one_of(self.snapshot.nodes, which)
        changed = evolve(chosen, unschedulable=not chosen.unschedulable)
        nodes_now = [changed if node is chosen else node for node in self.snapshot.nodes]
        self.change(self._with(nodes=nodes_now))

    @_when(lambda self: self.snapshot.nodes)
    @_step(which=_WHICH)
    def drain(self, which: int) -> None:
        """Cordon a node and remove all tasks on it, which come back as Pending."""
        drained = _one_of(self.snapshot.nodes, which)
        closed = evolve(drained, unschedulable=True)
        self._clear(drained, [closed if node is drained else node for node in self.snapshot.nodes])

    @_when(lambda self: len(self.snapshot.nodes) > 1)
    @_step(which=_WHICH)
    def lose_node(self, which: int) -> None:
        """Remove a node with all tasks on it, which come back as Pending."""
        lost = _one_of(self.snapshot.nodes, which)
        self._clear(lost, [node for node in self.snapshot.nodes if node is not lost])

    @_when(lambda self: len(self.snapshot.nodes) < self.max_nodes)
    @_step(node=nodes(name="new"))
    def add_node(self, node: NodeInfo) -> None:
        """Add a node."""
        name = self._free_name()
        labels = {**node.labels, "host": name} if "host" in node.labels else node.labels
        added = evolve(node, name=name, labels=labels)
        self.change(self._with(nodes=[*self.snapshot.nodes, added]))

    def _clear(self, cleared: NodeInfo, nodes_now: Sequence[NodeInfo]) -> None:
        """Replace the nodes, and remove all tasks on one of them."""
        all_tasks = [*self.tasks(*HOLDING), *self.snapshot.other_tasks]
        gone = [
            task.uid
            for task in all_tasks
            if task.node_name == cleared.name and task.status in HOLDING
        ]
        self._remove_tasks(gone, nodes_now)

    def _remove_tasks(self, gone: Sequence[str], nodes_now: Sequence[NodeInfo]) -> None:
        """Remove tasks from their nodes."""
        self.change(self._with(nodes=nodes_now, gone=gone))

    @property
    def _with(self) -> Callable[..., Snapshot]:
        """The function that returns the cluster as it is now, but for what has happened."""
        return partial(next_snapshot, self.snapshot, None, now=self.snapshot.now)

    def _free_name(self) -> str:
        """Return a name for a job or a node that is unused, also as a prefix of task UIDs."""
        names = {node.name for node in self.snapshot.nodes}
        names |= {job.name for job in self.snapshot.jobs}
        uids = [task.uid for task in (*self.tasks(*TaskStatus), *self.snapshot.other_tasks)]
        while True:
            self._number += 1
            name = f"new{self._number}"
            if name not in names and not any(uid.startswith(f"{name}-") for uid in uids):
                return name


def _one_of(parts: Sequence[PartT], which: int) -> PartT:
    return parts[which % len(parts)]
