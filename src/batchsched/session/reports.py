"""What actions tried in a cycle, and what it planned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from attrs import Factory, define, field

from batchsched.model.cluster import Plan, TaskStatus
from batchsched.model.reasons import PendingReason, QueueShare, Unfit
from batchsched.plugin.extension_points import Refused
from batchsched.session.victims import EvictionSearch
from batchsched.state.ledger import Ledger
from batchsched.state.needs import Need
from batchsched.state.records import (
    JobState,
    NodeState,
    TaskState,
)


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


@define
class TaskAttempts:
    """What actions tried for a task in one cycle, and what came of it."""

    found_no_place: bool = False
    """Whether an action tried to place it and could not."""
    was_undone: bool = False
    """Whether it was placed, and that was rolled back."""
    lacked_company: bool = False
    """Whether there was enough for it, but not for all that must start with it."""
    refusal: Unfit | None = None
    """Why its queue could last not accept it."""
    claim_refusal: Unfit | None = None
    """Why its queue could not reclaim resources for it."""
    broken_promise: Unfit | None = None
    """Why the promise of the last cycle ends with this one."""
    eviction_searches: dict[str, EvictionSearch] = field(
        factory=dict[str, EvictionSearch], eq=False
    )
    """Failed searches for tasks to evict, by action."""

    def copy(self) -> TaskAttempts:
        """Return what was tried so far."""
        return TaskAttempts(
            self.found_no_place,
            self.was_undone,
            self.lacked_company,
            self.refusal,
            self.claim_refusal,
            self.broken_promise,
            self.eviction_searches,
        )

    def add(self, others: TaskAttempts) -> None:
        """Add what was tried for a task like it, without searches."""
        self.found_no_place |= others.found_no_place
        self.was_undone |= others.was_undone
        self.lacked_company |= others.lacked_company
        if others.refusal is not None:
            self.refusal = others.refusal
        if others.claim_refusal is not None:
            self.claim_refusal = others.claim_refusal


@define(eq=False)
class JobAttempts:
    """What actions tried for a job as a whole in one cycle."""

    asked_in_part: bool = False
    """Whether a turn ended before all of its tasks were tried."""
    need_in_sets: Need | None = None
    """What was tried in vain in the sets of nodes that plugins offer."""
    claims_refused: dict[str, Refused] = field(factory=dict[str, Refused])
    """Why it could claim nothing, by action."""


NOTHING_TRIED: Final = TaskAttempts()
"""What is read of tasks that no action tried; never written to."""


@define(eq=False)
class CycleReports:
    """What actions tried in one cycle, and the outcome."""

    _ledger: Ledger
    tasks: dict[str, TaskAttempts] = field(factory=dict[str, TaskAttempts])
    """What was tried for tasks, by UID."""
    jobs: dict[str, JobAttempts] = field(factory=dict[str, JobAttempts])
    """What was tried for whole jobs, by UID."""
    queues_overused: dict[str, QueueShare | None] = field(factory=dict[str, QueueShare | None])
    """Queues that an action skipped because they were overused, by name, in that order.

    With what each deserved and had when it was first skipped, if a plugin knows.
    """
    overused_at_open: set[str] = field(factory=set[str])
    """The names of queues with waiting jobs that were overused when the session opened."""
    initial_reservations: Sequence[TaskState] = field(init=False)
    """The Reserved tasks of the snapshot, including those on nodes that no longer exist."""
    accepted_tasks: AcceptedTasks = field(init=False)

    def __attrs_post_init__(self) -> None:
        ledger = self._ledger
        self.initial_reservations = [
            *(task for task, _ in ledger.lost_reservations),
            *(
                task
                for _, job in sorted(ledger.jobs_having[TaskStatus.RESERVED.index].items())
                for task in job.having(TaskStatus.RESERVED)
            ),
        ]
        self.accepted_tasks = AcceptedTasks(ledger.log.charged_jobs)

    def of_task(self, task: TaskState) -> TaskAttempts:
        """Return what was tried for a task, to write to. O(1)."""
        known = self.tasks.get(task.uid)
        if known is None:
            known = self.tasks[task.uid] = TaskAttempts()
        return known

    def of_job(self, job: JobState) -> JobAttempts:
        """Return what was tried for a job as a whole, to write to. O(1)."""
        return self.jobs.setdefault(job.uid, JobAttempts())

    def about(self, task: TaskState) -> TaskAttempts:
        """Return what was tried for a task, to read. O(1)."""
        return self.tasks.get(task.uid, NOTHING_TRIED)

    def record_undone(self, tasks: Iterable[TaskState]) -> None:
        """Record that tasks were placed, and that it was rolled back."""
        for task in tasks:
            self.of_task(task).was_undone = True


class Guard(Protocol):
    """Checks whether planned starts are still possible."""

    def allows(self, task: TaskState, node: NodeState, /) -> bool:
        """Return whether all plans still fit if a task runs on a node from now to its end."""
        ...


@define
class Plans:
    """The plans of a session."""

    made: dict[str, Plan] = Factory(dict[str, Plan])
    """The plans by UID of the job."""
    late: list[str] = Factory(list[str])
    """UIDs of jobs whose planned start is too late."""
    reasons: dict[str, PendingReason] = Factory(dict[str, PendingReason])
    """Why jobs wait that are planned or cannot be planned, by UID."""
    are_explained: bool = True
    """Whether reasons are wanted."""
    guard: Guard | None = None
    """Keeps tasks from delaying planned starts; None: there is nothing to check."""
