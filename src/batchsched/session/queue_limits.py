"""Whether queues may take what jobs need, and records of what was tried, for pending reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import define, field

from batchsched.model.reasons import QueueShare, Unfit, UnfitReason
from batchsched.plugin.session_view import SessionView
from batchsched.session.known_failures import FailedTurn
from batchsched.session.plugins import AsksPlugins
from batchsched.session.victims import EvictionSearch
from batchsched.state.doors import Door
from batchsched.state.groups import Counting
from batchsched.state.needs import Need, need_of_job, need_of_task
from batchsched.state.records import JobState, QueueState, TaskState


@define(eq=False)
class CycleReports:
    """What actions tried in one cycle, and the outcome."""

    unplaced: dict[str, TaskState] = field(factory=dict[str, TaskState])
    """Tasks that an action tried to place and could not, by UID."""
    rolled_back: dict[str, TaskState] = field(factory=dict[str, TaskState])
    """Tasks whose placement was rolled back, by UID."""
    asked_in_part: set[str] = field(factory=set[str])
    """The UIDs of jobs whose turns ended before all of their tasks were tried."""
    refusals: dict[str, Unfit] = field(factory=dict[str, Unfit])
    """Why queues could last not accept tasks, by UID."""
    claim_refusals: dict[str, Unfit] = field(factory=dict[str, Unfit])
    """Why queues could not reclaim resources for tasks, by UID."""
    lacking_company: set[str] = field(factory=set[str])
    """The UIDs of tasks that do not fit together although there is enough for one of them."""
    queues_overused: dict[str, QueueShare | None] = field(factory=dict[str, QueueShare | None])
    """Queues that an action skipped because they were overused, by name, in that order.

    With what each deserved and had when it was first skipped, if a plugin knows.
    """
    eviction_searches: dict[tuple[str, str], EvictionSearch] = field(
        factory=dict[tuple[str, str], EvictionSearch]
    )
    """Failed searches for tasks to evict, by task and action."""


class QueueLimits(AsksPlugins):
    """The limits of queues, as they apply to the jobs and tasks of a session."""

    reports: CycleReports
    view: SessionView
    _accepted_tasks: AcceptedTasks

    @property
    def plain(self) -> frozenset[Door]:
        """The doors behind which only plain definitions decide."""
        return self.view.plain

    def may_take(
        self,
        job: JobState,
        tasks: Collection[TaskState],
        *,
        need: Need | None = None,
        counting: Counting = Counting.HOPED,
    ) -> bool:
        """Return whether the queue of a job that is not ready may allocate everything it lacks.

        If not, this is recorded for pending reasons. So a gang does not hold resources that its
        queue's limit makes useless.

        Args:
            job: the job.
            tasks: its tasks to place, in task order.
            need: the part of these that it needs next; None: not known yet.
            counting: which tasks of its groups count as placed.

        """
        if not self.plugin_set.limits_queues or self.job_ready(job):
            return True
        if need is None:
            need = need_of_job(job, tasks, counting)
        assert job.queue is not None
        refusal = None if need is None else self.plugin_set.allocatable(job.queue, need)
        if need is None or refusal is None:
            if Door.ATTEMPTS not in self.plain:
                self._accepted_tasks.replace(() if need is None else need.tasks)
            return True
        self._record_refused(job.queue, need, refusal)
        return False

    def _record_refused(self, queue: QueueState, need: Need, refusal: Unfit) -> None:
        """Record that a queue may not allocate everything that a job needs."""
        for task in need.tasks:
            self.record_refusal(task, refusal)
        if (
            refusal.reason is UnfitReason.INSUFFICIENT_RESOURCE
            and len(need.tasks) > 1
            and self.plugin_set.allocatable(queue, need_of_task(need.tasks[0])) is None
        ):
            self.reports.lacking_company.update(task.uid for task in need.tasks)

    def record_failed_again(self, job: JobState, turn: FailedTurn) -> None:
        """Record for pending reasons what a failed turn would if it were repeated."""
        need = turn.need
        accepts_need = False
        if need is not None and self.plugin_set.limits_queues and not self.job_ready(job):
            assert job.queue is not None
            refusal = self.plugin_set.allocatable(job.queue, need)
            if refusal is not None:
                self._record_refused(job.queue, need, refusal)
                return
            accepts_need = True
        for task in turn.failed:
            # What a queue may take together it may take one after the other.
            if (accepts_need and task not in turn.beyond_need) or self.may_take_task(task):
                self.record_failure(task)
        if turn.undone:
            self.reports.rolled_back.update((task.uid, task) for task in turn.undone)

    def record_limit(self, need: Need, refusal: Unfit | None) -> bool:
        """Record why a queue may not allocate a need; return whether waiting would not help.

        Plans and reservations are useless only if the queue is closed or would exceed its limit:
        resources that other jobs hold become free some time.

        Args:
            need: the need of a job.
            refusal: the answer of `allocatable`.

        """
        if refusal is None or refusal.reason is UnfitReason.INSUFFICIENT_RESOURCE:
            return False
        for task in need.tasks:
            self.record_refusal(task, refusal)
        return True

    def may_take_task(self, task: TaskState, *, leaving: Sequence[TaskState] = ()) -> bool:
        """Return whether a task may be placed by the limits of its queue and of its job.

        A refusal of the queue is recorded for pending reasons.

        Args:
            task: the task, Pending.
            leaving: tasks that would be evicted for it.

        """
        job = task.job
        if job is not None and job.groups is not None and not job.groups.may_take(task):
            return False
        if not self.plugin_set.limits_queues or self._accepted_tasks.take(task):
            return True
        assert task.job is not None
        assert task.job.queue is not None
        need = need_of_task(task, leaving=leaving)
        refusal = self.plugin_set.allocatable(task.job.queue, need)
        if refusal is None:
            return True
        self.record_refusal(task, refusal)
        return False

    def record_refusal(self, task: TaskState, refusal: Unfit) -> None:
        """Record why a queue may not accept a task, which an action therefore skips."""
        self.reports.refusals[task.uid] = refusal
        self.record_failure(task)

    def record_failure(self, task: TaskState) -> None:
        """Record that an action tried to place a task and found no node.

        The pending reason of the task then says why each node rejects it, and `reserve` does not
        wait for another action to place its job in this cycle.
        """
        self.reports.unplaced[task.uid] = task

    def failed_to_place(self, task: TaskState) -> bool:
        """Return whether an action of this cycle tried to place the task and found no node."""
        return task.uid in self.reports.unplaced

    def record_overused(self, name: str) -> None:
        """Record that an action skipped a queue because it is overused."""
        if name not in self.reports.queues_overused:
            self.reports.queues_overused[name] = self.queue_share(self.ledger.queues[name])


class AcceptedTasks:
    """The tasks that need no further check, as their queue can accept everything their job lacks.

    What a queue may take together it may take one after the other, as long as nothing else is
    charged.
    """

    __slots__ = ("_charged", "_charges", "_last", "_tasks")

    def __init__(self, charged: Sequence[JobState]) -> None:
        """Create an empty set.

        Args:
            charged: the log of charges, to which each is appended.

        """
        self._charged = charged
        self._tasks: set[TaskState] = set()
        self._last: TaskState | None = None
        """The task that was last taken."""
        self._charges = 0
        """The length of the log then."""

    def replace(self, tasks: Iterable[TaskState]) -> None:
        """Set the tasks. O(tasks)."""
        self._tasks = {task for task in tasks if not task.is_backfill}
        self._last = None
        self._charges = len(self._charged)

    def take(self, task: TaskState) -> bool:
        """Remove a task; return whether it was in the set and the set is still valid. O(1)."""
        if task not in self._tasks:
            return False
        charges = len(self._charged)
        if charges - self._charges > (self._last is not None and self._last.status.charged):
            self._tasks.clear()
            return False
        self._tasks.discard(task)
        self._last, self._charges = task, charges
        return True
