"""Changes of a session: what actions do to it, drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from batchsched.model.status import TaskStatus
from batchsched.session.statement import Statement
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import fits, plus
from batchsched.testing.laws.trial import Trial

__all__ = ["KINDS", "Move", "move"]


@frozen
class Move:
    """A change of the session: which kind, and which of the possible ones; drawn numbers."""

    kind: int
    which: int


def move(trial: Trial, statement: Statement, drawn: Move) -> tuple[TaskState, NodeState] | None:
    """Do what is drawn, if it is possible; return which task moved, and on which node."""
    return _MOVES[drawn.kind % KINDS](trial, statement, drawn.which)


_Moved = tuple[TaskState, NodeState] | None


def _allocate(trial: Trial, statement: Statement, which: int) -> _Moved:
    chosen = _choose(trial, which, lambda task, node: node.fits_now(task.init_resreq))
    if chosen is not None:
        statement.allocate(*chosen)
    return chosen


def _backfill(trial: Trial, statement: Statement, which: int) -> _Moved:
    """Place a task that is marked as backfill, and no more so once it is undone."""
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
    # Where backfill tasks are in the way or not: plugins are told of it all the same.
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


# The plainest first: shrinking goes there.
_MOVES: tuple[Callable[[Trial, Statement, int], _Moved], ...] = (
    _allocate,
    _backfill,
    _evict,
    _pipeline,
    _promise,
    _reserve,
)
KINDS = len(_MOVES)
"""How many kinds of moves there are."""


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
