"""Checks that a moved task does not exceed the amounts of its node."""

from __future__ import annotations

from batchsched.model.cluster import TaskStatus
from batchsched.model.resources import EPSILON
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["NOT_NEGATIVE", "Origin", "overdrawn"]

Origin = tuple[TaskStatus, NodeState | None, bool]
"""The status, node and backfill mark of a task."""

NOT_NEGATIVE = ("idle", "future_idle", "accessible", "eventual")
"""The amounts of a node that a session must not make negative, or more negative."""

_Taken = tuple[bool, bool, bool, bool]
"""From which of these amounts a task's request is subtracted."""

_NOTHING: _Taken = (False, False, False, False)


def overdrawn(task: TaskState, node: NodeState, origin: Origin) -> str:
    """Return a message if a moved task exceeds an amount of its node, else an empty string.

    A node may be overcommitted from the beginning, if its tasks hold too much; then no task may
    take more of that dimension.
    """
    status, where, is_backfill = origin
    before = _taken(status, is_backfill=is_backfill) if where is node else _NOTHING
    after = _taken(task.status, is_backfill=task.is_backfill)
    for name, took, takes in zip(NOT_NEGATIVE, before, after, strict=True):
        if not takes or took:
            continue
        amounts: Vector = getattr(node, name)
        for amount, wanted in zip(amounts, task.resreq, strict=True):
            if amount < -EPSILON and wanted >= EPSILON:
                return f"{task!r} overcommits {node!r}: {name} would be {amounts}"
    return ""


def _taken(status: TaskStatus, *, is_backfill: bool) -> _Taken:
    if status.occupies:
        return True, True, not is_backfill, not is_backfill
    match status:
        case TaskStatus.UNKNOWN:
            return True, True, True, True
        case TaskStatus.RELEASING:
            return True, False, not is_backfill, False
        case TaskStatus.PIPELINED:
            return False, True, False, True
        case TaskStatus.CONDITIONAL:
            return False, False, True, True
        case _:
            return _NOTHING
