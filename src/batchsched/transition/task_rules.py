"""What becomes of a task: by a decision, by an event, and by what ends or begins with it.

A task is in one place, and while it moves in two: where it is promised, and where it still runs
(`TaskInfo.leaving`). What plugins have chosen for it belongs to a place, and goes with it. All
changes of a task between cycles are made here, so that this holds whoever makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from attrs import evolve, frozen

from batchsched.model.cluster import (
    HasChoices,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.immutable import EMPTY, copier
from batchsched.model.validation.arguments import checks_arguments

TO_START = (TaskStatus.BINDING, TaskStatus.BOUND)
"""The statuses of tasks that are on their nodes and have yet to start."""
FOUND = (TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RELEASING)
"""The statuses in which a task can be found on a node."""

_LEFT = ("leaving", "left_devices", "left_choices")
_LEAVES_NONE = (None, None, EMPTY)
_where_it_leaves: Callable[[TaskInfo], tuple[object, ...]] = attrgetter(*_LEFT)
_in_place = copier(TaskInfo, "status", "node_name", "is_backfill", "start_time", *_LEFT)
_with_choices = copier(TaskInfo, "choices", "devices")
_with_service = copier(TaskInfo, "attained_service", "start_time")
_ended = copier(TaskInfo, "status", "node_name", "start_time", "attained_service", *_LEFT)
_promised = copier(TaskInfo, "status", "node_name", *_LEFT)


@checks_arguments()
def as_new(task: TaskInfo) -> TaskInfo | None:
    """Return the task that a controller creates in place of one that is gone.

    It is Pending and has the same UID. It is not marked as backfill, since the mark belonged to
    the placement. Its `TaskInfo.attained_service` in earlier runs is kept.
    """
    return placed(task, TaskStatus.PENDING, None, is_backfill=False)


def placed(
    task: TaskInfo,
    status: TaskStatus,
    node_name: str | None,
    *,
    is_backfill: bool | None = None,
    chosen: TaskInfo | HasChoices | None = None,
) -> TaskInfo:
    """Return the task with this status, node and backfill mark; itself if nothing changes.

    Its start time is removed if it no longer holds resources. `chosen` has what plugins have chosen
    for it; None: it keeps that if it stays on its node. A task that moves does so as long as it is
    promised a place.
    """
    mark = task.is_backfill if is_backfill is None else is_backfill
    if chosen is None and task.node_name == node_name is not None:
        chosen = task
    if task.status is not status or task.node_name != node_name or task.is_backfill is not mark:
        left = _where_it_leaves(task) if status is TaskStatus.PIPELINED else _LEAVES_NONE
        start_time = task.start_time if status.holds or left[0] is not None else None
        task = _in_place(task, status, node_name, mark, start_time, *left)
    return _having(task, chosen)


def starting(
    task: TaskInfo,
    status: TaskStatus,
    node_name: str,
    *,
    is_backfill: bool,
    now: float,
    chosen: TaskInfo | HasChoices | None = None,
) -> TaskInfo:
    """Return the task as Binding or Running, with its resources held since `now`."""
    return _having(_in_place(task, status, node_name, is_backfill, now, *_LEAVES_NONE), chosen)


def moving(task: TaskInfo, node_name: str, chosen: HasChoices) -> TaskInfo:
    """Return a running task as one that is promised another node, and leaves its own."""
    assert task.node_name is not None
    left = task.node_name, task.devices, task.choices
    return _having(_promised(task, TaskStatus.PIPELINED, node_name, *left), chosen)


def staying(task: TaskInfo, status: TaskStatus) -> TaskInfo:
    """Return a task that moves as one that has a status where it still runs, and nothing else."""
    assert task.leaving is not None
    stays = _promised(task, status, task.leaving, *_LEAVES_NONE)
    return _with_choices(stays, task.left_choices, task.left_devices)


def as_it_was(task: TaskInfo, before: TaskInfo) -> TaskInfo:
    """Return a task that is described anew in the place that it had before.

    What plugins have chosen for it there stays, as far as the description does not tell it; the
    devices, as long as it claims the same.
    """
    claims_the_same = task.claims == before.claims
    stays = task.devices is None and claims_the_same
    return evolve(
        task,
        status=before.status,
        node_name=before.node_name,
        is_backfill=before.is_backfill,
        start_time=before.start_time,
        attained_service=before.attained_service,
        leaving=before.leaving,
        left_devices=before.left_devices if claims_the_same else None,
        left_choices=before.left_choices,
        choices=task.choices or before.choices,
        devices=before.devices if stays else task.devices,
    )


def _having(task: TaskInfo, chosen: TaskInfo | HasChoices | None) -> TaskInfo:
    """Return the task with what plugins have chosen for it; None: nothing."""
    choices = EMPTY if chosen is None else chosen.choices
    devices = None if chosen is None else chosen.devices
    if task.choices == choices and task.devices == devices:
        return task
    return _with_choices(task, choices, devices)


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


def _becomes(status: TaskStatus) -> Callable[[TaskInfo, float], TaskInfo]:
    return lambda task, _now: placed(task, status, task.node_name)


def ends(status: TaskStatus) -> Callable[[TaskInfo, float], TaskInfo]:
    """Return what makes of a task one that has ended so, given the time."""

    def ended(task: TaskInfo, now: float) -> TaskInfo:
        attained = task.seconds_held(now)
        return _having(_ended(task, status, None, None, attained, *_LEAVES_NONE), None)

    return ended


def gone_from_old_place(task: TaskInfo, now: float) -> TaskInfo:
    """Return a task that moves and has left its node: it waits for the one that it is promised."""
    return _promised(with_run_added(task, now), task.status, task.node_name, *_LEAVES_NONE)


def _is_gone(task: TaskInfo, now: float) -> TaskInfo | None:
    if task.leaving is not None:
        return gone_from_old_place(task, now)
    return as_new(with_run_added(task, now))


def _runs_on(task: TaskInfo, _now: float) -> TaskInfo:
    if task.leaving is not None:
        return staying(task, TaskStatus.RUNNING)
    return placed(task, TaskStatus.RUNNING, task.node_name)


_HOLDS = attrgetter("is_on_node")


def _is_to_start(task: TaskInfo) -> bool:
    return task.status in TO_START


def is_releasing(task: TaskInfo) -> bool:
    """Return whether a task has yet to leave a node, also one that moves."""
    return task.status is TaskStatus.RELEASING or task.leaving is not None


RULES = {
    "succeeded": TaskRule(_HOLDS, "is on a node can have succeeded", ends(TaskStatus.SUCCEEDED)),
    "failed": TaskRule(_HOLDS, "is on a node can have failed", ends(TaskStatus.FAILED)),
    "gone": TaskRule(_HOLDS, "is on a node can have left it", _is_gone),
    "removed": TaskRule(lambda _task: True, "", lambda _task, _now: None),
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
        attrgetter("status.occupies"),
        "runs on a node can be going away",
        _becomes(TaskStatus.RELEASING),
    ),
    "still_releasing": TaskRule(
        is_releasing, "is Releasing has yet to leave", lambda task, _now: task
    ),
    "eviction_refused": TaskRule(
        lambda task: is_releasing(task) and task.node_name is not None,
        "is Releasing on a node can go on running",
        _runs_on,
    ),
}
"""The rules by name of the event."""
