"""Drawn changes of a session, like those of actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.session.statement import Statement
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import fits, plus
from batchsched.testing.laws.trial import Trial

__all__ = ["KINDS", "Move", "move"]


@frozen
class Move:
    """A drawn change of the session: its kind, and the choice among the possible ones."""

    kind: int
    which: int


def move(trial: Trial, statement: Statement, drawn: Move) -> tuple[TaskState, NodeState] | None:
    """Make a drawn change if possible; return the task that moved and its node."""
    return _MOVES[drawn.kind % KINDS](trial, statement, drawn.which)


_Moved = tuple[TaskState, NodeState] | None


def _allocate(trial: Trial, statement: Statement, which: int) -> _Moved:
    chosen = _choose(trial, which, lambda task, node: node.fits_now(task.init_resreq))
    if chosen is not None:
        statement.allocate(*chosen)
    return chosen


def _backfill(trial: Trial, statement: Statement, which: int) -> _Moved:
    """Place a task with the backfill mark, which a rollback removes."""
    chosen = _choose(trial, which, lambda task, node: node.fits_now(task.init_resreq))
    if chosen is not None:
        statement.allocate(*chosen, is_backfill=True)
    return chosen


def _evict(trial: Trial, statement: Statement, which: int) -> _Moved:
    running = [
        task for task in trial.tasks if task.status is TaskStatus.RUNNING and task.node is not None
    ]
    waiting = trial.pending
    if not running or not waiting:
        return None
    task = running[which % len(running)]
    left = task.node
    assert left is not None
    statement.evict(task, claimant=waiting[0])
    return task, left


def _pipeline(trial: Trial, statement: Statement, which: int) -> _Moved:
    chosen = _choose(trial, which, lambda task, node: node.fits_later(task.init_resreq))
    if chosen is not None:
        statement.pipeline(*chosen)
    return chosen


def _promise(trial: Trial, statement: Statement, which: int) -> _Moved:
    # Whether or not backfill tasks are in the way, plugins receive the event.
    chosen = _choose(trial, which, lambda task, node: node.fits_conditionally(task.init_resreq))
    if chosen is not None:
        statement.promise(*chosen)
    return chosen


def _reserve(trial: Trial, statement: Statement, which: int) -> _Moved:
    chosen = _choose(
        trial,
        which,
        lambda task, node: fits(
            plus(node.reserved, task.init_resreq), trial.session.node_room.for_jobs(node)
        ),
    )
    if chosen is not None:
        statement.reserve(*chosen)
    return chosen


# The simplest first: shrinking ends there.
_MOVES: tuple[Callable[[Trial, Statement, int], _Moved], ...] = (
    _allocate,
    _backfill,
    _evict,
    _pipeline,
    _promise,
    _reserve,
)
KINDS = len(_MOVES)
"""The number of kinds of moves."""


def _choose(
    trial: Trial, which: int, can_go: Callable[[TaskState, NodeState], bool]
) -> tuple[TaskState, NodeState] | None:
    choices = list(_accepted(trial, can_go))
    return choices[which % len(choices)] if choices else None


def _accepted(
    trial: Trial, can_go: Callable[[TaskState, NodeState], bool]
) -> Iterator[tuple[TaskState, NodeState]]:
    for task in trial.pending:
        for node in trial.session.nodes:
            if can_go(task, node) and trial.session.placement.refusal(task, node) is None:
                yield task, node
