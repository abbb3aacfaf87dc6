"""Which running tasks to move so that a job has room: the search of the action consolidate.

It is asked for one job alone, whether or not that job may claim anything: who plans moves decides
that. What is found in promises is then put in an order in which each move is over before the next.
"""

from __future__ import annotations

from collections.abc import Container

from attrs import frozen

from batchsched.actions.consolidate import claim_by_moves
from batchsched.actions.moving import Movers
from batchsched.session.session import Session
from batchsched.session.turns import Turn, Turns, has_task_to_place
from batchsched.session.victims import EvictionScope
from batchsched.state.records import TaskState

TRIES = 10_000
"""How many tries the search has."""
_MOST_FOR_ONE = 64
"""The most moves for one task that are looked for. Long before, the tries are over."""


def has_room(session: Session, uid: str) -> bool:
    """Return whether what a job needs next fits without any move, or it needs nothing.

    What is placed stays in the session.
    """
    job = session.ledger.jobs[uid]
    if not job.in_session or job.queue is None:
        return False
    if not has_task_to_place(job):
        return not job.held
    return _claim(session, uid, most_moves=0, exempt=())


def moves_for(
    session: Session, uid: str, *, most_moves: int, exempt: Container[str]
) -> list[tuple[str, str]] | None:
    """Return the tasks that move for a job, by UID, and their new nodes; None: none were found.

    They stay decided in the session.

    Args:
        session: the session, in which nothing was decided.
        uid: the job, which has no room.
        most_moves: the most moves.
        exempt: the UIDs of jobs whose tasks stay.

    """
    job = session.ledger.jobs[uid]
    if not job.in_session or job.queue is None or not has_task_to_place(job):
        return None
    if not _claim(session, uid, most_moves=most_moves, exempt=exempt):
        return None
    return [(move.task_uid, move.to_node) for move in session.moves]


def _claim(session: Session, uid: str, *, most_moves: int, exempt: Container[str]) -> bool:
    job = session.ledger.jobs[uid]
    assert job.queue is not None

    def movers_for(session: Session, claimant: TaskState, scope: EvictionScope) -> Movers:
        return _MoversBut(session, claimant, scope, exempt)

    return claim_by_moves(
        session,
        Turn(Turns(session, [job]), job.queue, job),
        EvictionScope.ANY_OTHER_JOB,
        most_moves=most_moves,
        tries=TRIES,
        movers_for=movers_for,
        most_for_one=_MOST_FOR_ONE,
        needs_moves=False,
    )


@frozen(eq=False)
class _MoversBut(Movers):
    """Who may move, without the tasks of some jobs."""

    exempt: Container[str]

    def may_move(self, task: TaskState) -> bool:
        """Return whether a task may move."""
        of_exempt = task.job is not None and task.job.uid in self.exempt
        return not of_exempt and super().may_move(task)
