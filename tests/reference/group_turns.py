"""The turns of jobs with groups: all that the job needs next, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import Factory, define

from batchsched import JobInfo, TaskInfo
from tests.reference.choose import is_accepted
from tests.reference.groups import HOPED, RESERVED, Statuses, has_groups
from tests.reference.retrying import in_another_order
from tests.reference.session import Session
from tests.reference.waiting import Waiting

__all__ = ["group_turn", "keep_part", "needed_tasks"]


def needed_tasks(session: Session, job: JobInfo, statuses: Statuses = HOPED) -> list[TaskInfo]:
    """Return the tasks that a job has to place; with groups, those it needs next."""
    tasks = session.to_place(job)
    return session.need(job, tasks, statuses) if has_groups(job) else tasks


def group_turn(
    session: Session,
    job: JobInfo,
    tasks: list[TaskInfo],
    place: Callable[[TaskInfo], bool],
    is_enough: Callable[[], bool],
    *,
    asks_queue: bool = False,
    substitutes: bool = True,
    is_accepted: Callable[[Session, TaskInfo], bool] = is_accepted,
    retries: bool = False,
) -> bool:
    """Place all that a job asks for next, of the tasks that it has left; return whether it was.

    A task that finds no place is gone for this action; another of its group is tried for it. If
    there is none, all is undone, tried in another order if there is one, and then the job asks
    anew.
    """
    while True:
        goal = session.need(job, tasks)
        if not goal or (asks_queue and not session.may_take(job, tasks)):
            return False
        attempt = _Attempt(session, tasks, goal, place, is_enough, is_accepted, substitutes)
        is_kept = session.statement(job, attempt.make)
        reordered = in_another_order(session, goal) if retries else goal
        if not attempt.is_complete and reordered != goal:
            again = _Attempt(session, tasks, reordered, place, is_enough, is_accepted, substitutes)
            is_kept = session.statement(job, again.make)
            if again.is_complete:
                attempt = again
        gone = attempt.placed + attempt.failed if is_kept else attempt.failed
        tasks[:] = [task for task in tasks if task not in gone]
        if is_kept:
            return True
        if attempt.is_complete or not substitutes:
            return False


def keep_part(
    session: Session,
    job: JobInfo,
    place: Callable[[TaskInfo], bool],
    is_enough: Callable[[], bool],
    *,
    holds: bool,
    may_reserve: bool,
    reserve: Callable[[TaskInfo], bool],
) -> None:
    """Keep what can be had of what a job asks for, though it cannot start with it.

    It ends at the first task that has neither a place, nor another in its place, nor a
    reservation. These stay only if none is missing. If nothing stays, the job asks anew, without
    the tasks that failed.
    """
    tasks = session.to_place(job)
    while True:
        goal = session.need(job, tasks, RESERVED)
        if not goal or not session.may_take(job, tasks, RESERVED, may_reserve=may_reserve):
            return
        attempt = _Attempt(session, list(tasks), goal, place, is_enough, reserve=reserve)

        def make(attempt: _Attempt = attempt) -> bool:
            is_enough = attempt.make()
            if not attempt.is_complete:
                for task in attempt.reserved:
                    session.state.take_off(task)
            return holds or is_enough

        is_kept = session.statement(job, make)
        if attempt.is_complete or (is_kept and attempt.placed):
            return
        tasks = [task for task in tasks if task not in attempt.failed]


@define
class _Attempt:
    session: Session
    tasks: list[TaskInfo]
    goal: list[TaskInfo]
    place: Callable[[TaskInfo], bool]
    is_enough: Callable[[], bool]
    is_accepted: Callable[[Session, TaskInfo], bool] = is_accepted
    substitutes: bool = True
    reserve: Callable[[TaskInfo], bool] | None = None
    placed: list[TaskInfo] = Factory(list[TaskInfo])
    failed: list[TaskInfo] = Factory(list[TaskInfo])
    reserved: list[TaskInfo] = Factory(list[TaskInfo])
    is_complete: bool = False

    def make(self) -> bool:
        """Place the goal, or others of the same groups; return whether to keep the placements."""
        waiting = list(self.goal)
        turn = Waiting(self.session, waiting, partial(self.is_accepted, self.session))
        while waiting or turn.aside:
            if waiting:
                task = waiting.pop(0)
                if self.place(task):
                    self.placed.append(task)
                    turn.try_again()
                    continue
                if turn.set_aside(task):
                    continue
            else:
                task = turn.aside.pop(0)
            self.session.failed_tasks.add(task.uid)
            self.failed.append(task)
            tried = [*self.goal, *self.placed, *self.failed]
            others = [o for o in self.tasks if o.group == task.group and o not in tried]
            if others and self.substitutes:
                waiting.insert(0, others[0])
            elif not self._reserves_in(task.group):
                return False
        self.is_complete = True
        return self.is_enough()

    def _reserves_in(self, group: str | None) -> bool:
        if self.reserve is None:
            return False
        for task in self.failed:
            if task.group == group and task not in self.reserved and self.reserve(task):
                self.reserved.append(task)
                return True
        return False
