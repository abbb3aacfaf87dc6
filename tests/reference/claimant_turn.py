"""The turn of a job in reclaim: task by task, until it can start once its victims have left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from batchsched import JobInfo, TaskInfo
from tests.reference.choose import is_searched
from tests.reference.group_turns import group_turn
from tests.reference.groups import has_groups
from tests.reference.retrying import tried_twice
from tests.reference.session import Session
from tests.reference.waiting import Waiting

__all__ = ["claimant_turn"]


def claimant_turn(
    session: Session,
    job: JobInfo,
    tasks: list[TaskInfo],
    take_a_place: Callable[[TaskInfo], bool],
    may_go_on: Callable[[], bool] = lambda: True,
    finish: Callable[[], None] = lambda: None,
    *,
    retries: bool,
) -> bool:
    """Give a job its turn; return whether it gets another turn.

    Args:
        session: the session.
        job: the job.
        tasks: the tasks that it has yet to place; tried ones are removed.
        take_a_place: places a task, evicting others if necessary; returns whether it did.
        may_go_on: returns whether the queue may have more; not called for jobs with groups.
        finish: called once all that the job needs is placed.
        retries: whether a turn that fails is made once more, with the largest tasks first.

    """

    def is_done() -> bool:
        if not session.tiers.job_pipelined(job):
            return False
        finish()
        return True

    if has_groups(job):
        return group_turn(
            session,
            job,
            tasks,
            take_a_place,
            is_done,
            substitutes=False,
            is_accepted=is_searched,
            retries=retries,
        )
    placed: list[TaskInfo] = []

    def attempt() -> bool:
        placed.clear()
        waiting = Waiting(session, tasks, partial(is_searched, session))
        while tasks and may_go_on():
            task = tasks.pop(0)
            if not take_a_place(task):
                session.failed_tasks.add(task.uid)
                if waiting.set_aside(task):
                    continue
                break
            placed.append(task)
            waiting.try_again()
            if session.tiers.job_pipelined(job):
                break
        return is_done()

    return tried_twice(session, job, tasks, attempt, retries=retries) and bool(placed)
