"""The effects of events on single tasks: the only set of rules for changes between cycles.

`next_snapshot` applies them to a whole snapshot, `batchsched.live.Cluster` to the tasks that
events name.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.immutable import copier

__all__ = [
    "RULES",
    "TO_START",
    "TaskRule",
    "as_new",
    "bound",
    "placed",
    "running",
    "with_run_added",
]

TO_START = (TaskStatus.BINDING, TaskStatus.BOUND)
"""The statuses of tasks that are on their nodes and have yet to start."""

_in_place = copier(TaskInfo, "status", "node_name", "is_backfill", "start_time")
_with_service = copier(TaskInfo, "attained_service", "start_time")
_ended = copier(TaskInfo, "status", "node_name", "start_time", "attained_service")


def as_new(task: TaskInfo) -> TaskInfo | None:
    """Return the task that a controller creates in place of one that is gone.

    It is Pending and has the same UID. It is not marked as backfill, since the mark belonged to
    the placement. Its `TaskInfo.attained_service` in earlier runs is kept.
    """
    return placed(task, TaskStatus.PENDING, None, is_backfill=False)


def placed(
    task: TaskInfo, status: TaskStatus, node_name: str | None, *, is_backfill: bool | None = None
) -> TaskInfo:
    """Return the task with this status, node and backfill mark; itself if nothing changes.

    Its start time is removed if it no longer holds resources.
    """
    mark = task.is_backfill if is_backfill is None else is_backfill
    if task.status is status and task.node_name == node_name and task.is_backfill is mark:
        return task
    start_time = task.start_time if status.holds else None
    return _in_place(task, status, node_name, mark, start_time)


def bound(task: TaskInfo, node_name: str, *, is_backfill: bool, now: float) -> TaskInfo:
    """Return the task as Binding, with its resources held since `now`."""
    return _in_place(task, TaskStatus.BINDING, node_name, is_backfill, now)


def running(task: TaskInfo, node_name: str, *, is_backfill: bool, now: float) -> TaskInfo:
    """Return the task as Running, with its resources held since `now`."""
    return _in_place(task, TaskStatus.RUNNING, node_name, is_backfill, now)


def with_run_added(task: TaskInfo, now: float) -> TaskInfo:
    """Return the task with its present run, which ends now, added to its attained service.

    A run with an unknown start adds nothing.
    """
    attained = task.seconds_held(now)
    if attained == task.attained_service:
        return task
    return _with_service(task, attained, None)


@frozen
class TaskRule:
    """The tasks to which an event can happen, and its effect."""

    applies: Callable[[TaskInfo], bool]
    who: str
    """A description of these tasks that completes "only a task that"."""
    after: Callable[[TaskInfo, float], TaskInfo | None]
    """Returns the task after the event, given the time; None: it is removed."""

    def problem(self, task: TaskInfo) -> str:
        """Return why this cannot have happened to the task, or an empty string."""
        if self.applies(task):
            return ""
        return f"the task is {task.status.value}; only one that {self.who}"


def _is_on_a_node(task: TaskInfo) -> bool:
    return task.status.holds


def _is_to_start(task: TaskInfo) -> bool:
    return task.status in TO_START


def _is_releasing(task: TaskInfo) -> bool:
    return task.status is TaskStatus.RELEASING


def _occupies(task: TaskInfo) -> bool:
    return task.status.occupies


def _becomes(status: TaskStatus) -> Callable[[TaskInfo, float], TaskInfo]:
    return lambda task, _now: placed(task, status, task.node_name)


def _ends(status: TaskStatus) -> Callable[[TaskInfo, float], TaskInfo]:
    return lambda task, now: _ended(task, status, None, None, task.seconds_held(now))


def _is_replaced(task: TaskInfo, now: float) -> TaskInfo | None:
    return as_new(with_run_added(task, now))


def _stays(task: TaskInfo, _now: float) -> TaskInfo:
    return task


def _is_removed(_task: TaskInfo, _now: float) -> None:
    return None


RULES = {
    "succeeded": TaskRule(
        _is_on_a_node, "is on a node can have succeeded", _ends(TaskStatus.SUCCEEDED)
    ),
    "failed": TaskRule(_is_on_a_node, "is on a node can have failed", _ends(TaskStatus.FAILED)),
    "gone": TaskRule(_is_on_a_node, "is on a node can have left it", _is_replaced),
    "removed": TaskRule(lambda _task: True, "", _is_removed),
    "started": TaskRule(
        _is_to_start, "is bound and has yet to start can start", _becomes(TaskStatus.RUNNING)
    ),
    "not_started": TaskRule(_is_to_start, "is bound has yet to start", _becomes(TaskStatus.BOUND)),
    "bind_refused": TaskRule(
        _is_to_start,
        "is bound and has yet to start can have been refused",
        lambda task, _now: as_new(task),
    ),
    "releasing": TaskRule(
        _occupies, "runs on a node can be going away", _becomes(TaskStatus.RELEASING)
    ),
    "still_releasing": TaskRule(_is_releasing, "is Releasing has yet to leave", _stays),
    "eviction_refused": TaskRule(
        lambda task: _is_releasing(task) and task.node_name is not None,
        "is Releasing on a node can go on running",
        _becomes(TaskStatus.RUNNING),
    ),
}
"""The rules by name of the event."""
