"""What protects a job by itself, its queue or the clock, and what is never lent.

Which tasks are a job's *core* and which are its *surplus* is said in `batchsched.state.units`: the
core is what it needs, its first tasks in task order up to its minimum.

What could not be taken back is never lent. Jobs that are not preemptible, and the cores of those of
which only the surplus is, stay within what their queue deserves, and what each queue above it does.
From a queue that is not reclaimable, nothing can be taken back: all that it holds, with the queues
below it, stays within what it deserves or is guaranteed, whichever is more.

A queue that does not say what it deserves sets no limit by that, and what it is guaranteed sets one
only in the dimensions that it names: else nothing could run in a queue that says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from attrs import define, field, frozen

from batchsched.model.cluster import Preemptible, Queue, TaskStatus
from batchsched.model.reasons import (
    MINIMUM_RUNTIME,
    QueueExcess,
    Unfit,
    over_unpreemptible,
    over_unreclaimable,
)
from batchsched.model.resources import Resource
from batchsched.model.rules import quota_for_good, quota_not_reclaimed
from batchsched.model.texts import duration_text
from batchsched.plugin.queues import QueueTree, reserved_tasks, sum_of_requests
from batchsched.plugin.session_view import SessionView
from batchsched.state.groups import Counting
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.units import EvictionUnit, units_of
from batchsched.state.vectors import Vector, minus, plus, total_of

NOT_PREEMPTIBLE = "not-preemptible"


@define(eq=False)
class Cores:
    """The cores of jobs, and when they began to run, as long as nothing of the job changes."""

    _view: SessionView
    _units: dict[str, Sequence[EvictionUnit]] = field(
        init=False, factory=dict[str, "Sequence[EvictionUnit]"]
    )
    _starts: dict[str, float | None] = field(init=False, factory=dict[str, float | None])

    def changed(self, job: JobState) -> None:
        """Forget what is known of a job."""
        self._units.pop(job.uid, None)
        self._starts.pop(job.uid, None)

    def has(self, task: TaskState) -> bool:
        """Return whether a task on a node is in the core of its job."""
        job = task.job
        assert job is not None
        if job.groups is None and job.spare <= 0:
            return True
        return any(unit.is_core and task in unit.tasks for unit in self._of(job))

    def start(self, job: JobState) -> float | None:
        """Return when the last task of a core began to hold its resources; None: it is not known.

        O(tasks log tasks) when first asked.
        """
        if job.uid not in self._starts:
            core = next((unit for unit in self._of(job) if unit.is_core), None)
            tasks = () if core is None else core.tasks
            times = [task.info.start_time for task in tasks if task.status is TaskStatus.RUNNING]
            known = [time for time in times if time is not None]
            self._starts[job.uid] = max(known, default=None)
        return self._starts[job.uid]

    def _of(self, job: JobState) -> Sequence[EvictionUnit]:
        known = self._units.get(job.uid)
        if known is None:
            known = self._units[job.uid] = units_of(job, self._view.task_order_key)
        return known


@define(eq=False)
class MinimumRuntimes:
    """For how long jobs keep their cores, by their queues."""

    _tree: QueueTree
    preempt: float
    """The least for preempting where no queue says, in seconds."""
    reclaim: float
    """The same for reclaiming."""
    _known: dict[tuple[str, str, bool], tuple[float, str | None]] = field(
        init=False, factory=dict[tuple[str, str, bool], "tuple[float, str | None]"]
    )
    """What was said of the queues of a job and of a claimant, and whether it reclaims."""

    def least(self, job: JobState, claimant: TaskState, *, reclaims: bool) -> float:
        """Return for how many seconds a job keeps its core from a claimant.

        Against reclaiming, the queue below the one that both are in says, or else the nearest one
        above it that does.
        """
        return self._said(job, claimant, reclaims=reclaims)[0]

    def text(self, job: JobState, claimant: TaskState, *, reclaims: bool) -> str:
        """Return the rule with who says for how long: an argument, or a queue."""
        least, queue = self._said(job, claimant, reclaims=reclaims)
        name = "reclaimMinRuntime" if reclaims else "preemptMinRuntime"
        of_queue = "" if queue is None else f" of queue {queue}"
        return f"{MINIMUM_RUNTIME} ({name} {duration_text(least)}{of_queue})"

    def _said(
        self, job: JobState, claimant: TaskState, *, reclaims: bool
    ) -> tuple[float, str | None]:
        """Return the seconds, and the name of the queue that says so; None: the argument does.

        O(depth of the tree) for each pair of queues, once.
        """
        theirs = "" if claimant.job is None else claimant.job.info.queue
        asked = job.info.queue, theirs, reclaims
        known = self._known.get(asked)
        if known is None:
            known = self._known[asked] = self._looked_up(job, claimant, reclaims=reclaims)
        return known

    def _looked_up(
        self, job: JobState, claimant: TaskState, *, reclaims: bool
    ) -> tuple[float, str | None]:
        for queue in self._asked(job, claimant if reclaims else None):
            least = queue.reclaim_min_runtime if reclaims else queue.preempt_min_runtime
            if least is not None:
                return least, queue.name
        return (self.reclaim if reclaims else self.preempt), None

    def _asked(self, job: JobState, claimant: TaskState | None) -> Iterator[Queue]:
        if job.queue is None:
            return
        path = list(self._tree.path(self._tree.position[job.queue.name]))
        if claimant is not None and claimant.job is not None and claimant.job.queue is not None:
            theirs = self._tree.path(self._tree.position[claimant.job.queue.name])
            below = [position for position in path if position not in theirs]
            path = path[max(0, len(below) - 1) :]
        for position in path:
            yield self._tree.queues[position]


@frozen(kw_only=True)
class Costs:
    """What evictions cost."""

    counts_lost_work: bool = False
    """Whether what a task has done since its start or its last checkpoint counts."""
    resource: str = "cpu"
    """The resource whose time is lost."""
    restart: int = 0
    """What a restart takes, in seconds."""

    def of_task(self, task: TaskState, now: float, amount: float) -> int:
        """Return what the eviction of a task costs.

        Args:
            task: the task.
            now: the time of the cycle.
            amount: what it holds of the resource.

        """
        info = task.info
        if info.eviction_cost is not None:
            return info.eviction_cost
        if not self.counts_lost_work or info.start_time is None:
            return 0
        safe = max(info.start_time, info.checkpoint_time or info.start_time)
        return int(max(0, now - safe)) * int(amount)

    def price(self, unit: Sequence[tuple[int, int]]) -> Fraction:
        """Return the cost of a unit by what it holds of the resource.

        `unit`: for each task that leaves with it, what its eviction costs, and what it holds. A
        unit that holds nothing has the price 0: it goes last among those with a price, as its
        eviction gains nothing.
        """
        held = sum(amount for _, amount in unit)
        if not held:
            return Fraction()
        return Fraction(1000 * self.restart + sum(cost for cost, _ in unit), held)


def protects_core(job: JobState) -> bool:
    """Return whether the core of a job is never evicted."""
    return job.info.preemptible is not Preemptible.ALWAYS


_NOTHING = Resource()


def keeps_loans(queue: Queue) -> bool:
    """Return whether nothing may be lent to a queue, since it would keep it."""
    says_something = queue.deserved != _NOTHING or queue.guarantee != _NOTHING
    return not queue.reclaimable and queue.deserved is not None and says_something


class Lending:
    """What queues hold that cannot be taken back, and how much of it they may."""

    def __init__(self, view: SessionView, tree: QueueTree, cores: Cores) -> None:
        """Begin a cycle. O(queues + jobs for which quota is reserved)."""
        self._view = view
        self._tree = tree
        self._cores = cores
        self._held: dict[str, Vector] = {}
        """What the jobs of leaves hold that cannot be taken back, as far as it was asked for."""
        self._keeping = {p for p, queue in enumerate(tree.queues) if keeps_loans(queue)}
        """The positions of queues that would keep what is lent to them."""
        self._kept: dict[int, Vector] = {}
        """What these hold, with the queues below them, as far as it was asked for."""
        self._remembers = Shortcut.LOANS not in view.plain
        self._reserved: frozenset[str] = frozenset()
        """The UIDs of the tasks for which quota is reserved: it is held from the start."""
        if self._keeping:
            reserving = [job for job in view.jobs.values() if job.info.quota_reserved and job.queue]
            self._reserved = frozenset(t.uid for job in reserving for t in reserved_tasks(job))

    @property
    def limits_queues(self) -> bool:
        """Whether any queue would keep what is lent to it."""
        return bool(self._keeping)

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        """Return why a queue may not have a need, as it could not be taken back; None: it may."""
        path = self._tree.path(self._tree.position[queue.name])
        request = self._for_good(need)
        if request is not None:
            for position in path:
                refusal = self._beyond_deserved(position, need, request)
                if refusal is not None:
                    return refusal
        if self._keeping and not self._reserved.issuperset(task.uid for task in need.tasks):
            for position in path:
                if position in self._keeping:
                    refusal = self._would_keep(position, need)
                    if refusal is not None:
                        return refusal
        return None

    def changed(self, task: TaskState, job: JobState, sign: int) -> None:
        """Note that a task of a job is charged to its queue, or is not any more."""
        if job.queue is None:
            return
        if protects_core(job):
            self._held.pop(job.queue.name, None)
        if self._kept and not (task.is_backfill or task.uid in self._reserved):
            for position in self._tree.path(self._tree.position[job.queue.name]):
                held = self._kept.get(position)
                if held is not None:
                    self._kept[position] = (plus if sign > 0 else minus)(held, task.resreq)

    # What cannot be taken back by itself

    def _beyond_deserved(self, position: int, need: Need, request: Vector) -> Unfit | None:
        held = self._held_below(position)
        would = plus(held, request)
        dimensions = [dimension for dimension in need.dimensions if request[dimension]]
        excess = self._excess(position, dimensions, held, would, quota_for_good)
        return None if excess is None else over_unpreemptible(excess, "protection")

    def _for_good(self, need: Need) -> Vector | None:
        """Return the part of a need that could not be taken back; None: nothing of it."""
        job = need.job
        match job.info.preemptible:
            case Preemptible.ALWAYS:
                return None
            case Preemptible.NEVER:
                return need.request
            case Preemptible.SURPLUS:
                pass
        if job.groups is not None:
            return None if job.has_minimum() else need.request
        lacks = max(0, job.lacks(Counting.PROMISED))
        of_core = [task.resreq for task in need.tasks[:lacks] if not task.is_backfill]
        return total_of(of_core, self._view.dimensions.zero) if of_core else None

    def _held_below(self, position: int) -> Vector:
        """Return what a queue, with those below it, holds that cannot be taken back.

        O(jobs) when first asked, then O(queues below it).
        """
        zero = self._view.dimensions.zero
        return total_of([self._held_by(name) for name in self._leaves_below(position)], zero)

    def _leaves_below(self, position: int) -> Sequence[str]:
        below = [position]
        for each in below:  # which grows
            below.extend(self._tree.children[each])
        return [self._tree.names[each] for each in below if self._tree.is_leaf(each)]

    def _held_by(self, name: str) -> Vector:
        known = self._held.get(name)
        if known is None:
            held: list[Vector] = []
            for job in self._view.queues[name].jobs:
                if protects_core(job):
                    held += [task.resreq for task in self._kept_tasks(job) if not task.is_backfill]
            known = self._held[name] = total_of(held, self._view.dimensions.zero)
        return known

    def _kept_tasks(self, job: JobState) -> Sequence[TaskState]:
        """Return the tasks of a job that are charged and cannot be taken back."""
        charged = [task for task in job.tasks if task.status.charged]
        if job.info.preemptible is Preemptible.NEVER:
            return charged
        if job.groups is not None:
            if not job.has_minimum():
                return charged
            return [task for task in charged if task.status.occupies and self._cores.has(task)]
        charged.sort(key=self._view.task_order_key)
        return charged[: max(0, job.min_available - job.count(TaskStatus.SUCCEEDED))]

    # What a queue keeps

    def _would_keep(self, position: int, need: Need) -> Unfit | None:
        held = self._kept_by(position)
        gone = self._leaving_from(position, need.leaving)
        # What is swapped is not lent, though the queue may hold too much already.
        grows = [d for d in need.dimensions if gone is None or need.request[d] > gone[d]]
        would = plus(held, need.request)
        if gone is not None:
            would = minus(would, gone)
        excess = self._excess(position, grows, held, would, quota_not_reclaimed)
        return None if excess is None else over_unreclaimable(excess, "protection")

    def _kept_by(self, position: int) -> Vector:
        """Return what a queue holds, with those below it. O(their tasks) when first asked."""
        known = self._kept.get(position)
        if known is None:
            held = [
                task
                for name in self._leaves_below(position)
                for job in self._view.queues[name].jobs
                for task in job.tasks
                if (task.status.charged or task.uid in self._reserved) and not task.is_backfill
            ]
            known = sum_of_requests(held, self._view.dimensions.zero)
            if self._remembers:
                self._kept[position] = known
        return known

    def _leaving_from(self, position: int, leaving: Sequence[TaskState]) -> Vector | None:
        """Return what a queue gives up with tasks that leave; None: nothing."""
        mine = [
            task
            for task in leaving
            if task.job is not None
            and task.job.queue is not None
            and task.status.charged
            and not task.is_backfill
            and position in self._tree.path(self._tree.position[task.job.queue.name])
        ]
        return sum_of_requests(mine, self._view.dimensions.zero) if mine else None

    # Both

    def _excess(
        self,
        position: int,
        dimensions: Sequence[int],
        held: Vector,
        would: Vector,
        most_of: Callable[[Queue, str], int | None],
    ) -> QueueExcess | None:
        """Return the first dimension in which a queue would hold more than it may."""
        for dimension in dimensions:
            name = self._view.dimensions.names[dimension]
            most = most_of(self._tree.queues[position], name)
            if most is not None and would[dimension] > most:
                return QueueExcess(
                    dimension=name,
                    would_hold=would[dimension],
                    most=most,
                    queue=self._tree.names[position],
                    held=held[dimension],
                )
        return None
