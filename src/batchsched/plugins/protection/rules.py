"""What protects a job by itself, its queue or the clock, and what its eviction costs.

Which tasks are a job's *core* and which are its *surplus* is said in `batchsched.state.units`: the
core is what it needs, its first tasks in task order up to its minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from attrs import define, field, frozen

from batchsched.model.cluster import Preemptible, Queue, TaskStatus
from batchsched.model.reasons import MINIMUM_RUNTIME
from batchsched.model.texts import duration_text
from batchsched.plugin.queues import QueueTree
from batchsched.plugin.session_view import SessionView
from batchsched.state.records import JobState, TaskState
from batchsched.state.units import EvictionUnit, units_of

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
