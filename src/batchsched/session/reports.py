"""What actions tried in a cycle, and what it planned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

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


@define(eq=False)
class CycleReports:
    """What actions tried in one cycle, and the outcome."""

    _ledger: Ledger
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
    tried_in_sets: dict[str, Need] = field(factory=dict[str, Need])
    """What was tried in vain in the sets of nodes that plugins offer, by UID of the job."""
    queues_overused: dict[str, QueueShare | None] = field(factory=dict[str, QueueShare | None])
    """Queues that an action skipped because they were overused, by name, in that order.

    With what each deserved and had when it was first skipped, if a plugin knows.
    """
    broken_promises: dict[str, Unfit] = field(factory=dict[str, Unfit])
    """Why promises of the last cycle end with this one, by UID of the task."""
    eviction_searches: dict[tuple[str, str], EvictionSearch] = field(
        factory=dict[tuple[str, str], EvictionSearch]
    )
    """Failed searches for tasks to evict, by task and action."""
    claims_refused: dict[tuple[str, str], Refused] = field(factory=dict[tuple[str, str], Refused])
    """Why jobs could claim nothing, by UID of the job and action."""
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
