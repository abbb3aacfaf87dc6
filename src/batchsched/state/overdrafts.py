"""What a task may take of a node's accounts when it comes to stand there."""

from __future__ import annotations

from batchsched.model.resources import EPSILON
from batchsched.model.status import TaskStatus
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["NOT_NEGATIVE", "Origin", "overdrawn"]

Origin = tuple[TaskStatus, NodeState | None, bool]
"""Status, node and mark of a task."""

NOT_NEGATIVE = ("idle", "future_idle", "accessible", "eventual")
"""The accounts of a node that nothing in a session makes negative, or more so."""

_Taken = tuple[bool, bool, bool, bool]
"""From which of them a task takes what it holds, or is promised."""

_NOTHING: _Taken = (False, False, False, False)


def overdrawn(task: TaskState, node: NodeState, origin: Origin) -> str:
    """Return what a task has come to take of a node that is not there; empty: nothing.

    A node may be overcommitted from the beginning, if its tasks held too much; then nobody may
    take more of that.
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
                return f"{task!r} takes more than there is on {node!r}: {name} {amounts}"
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
