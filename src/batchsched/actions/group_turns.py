"""The turns of jobs with groups, or with a maximum: all that the job needs next, or nothing.

`JobGroups.needed` says what a job needs next. A task that finds no place is replaced by another
task of its group; if none is left, the turn is rolled back, and the job's need is computed again
without those tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from batchsched.actions.action import tasks_to_place
from batchsched.actions.eviction.rules import DEFAULT_RULES, EvictionRules
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.groups import Counting, GroupState
from batchsched.state.needs import TasksByGroup, needed_tasks
from batchsched.state.records import JobState, TaskState

__all__ = ["keep_part", "take_group_turn", "tasks_needed"]

PlaceTask = Callable[[Statement, TaskState], bool]
"""Places a task through a statement; returns whether there was a place."""

RetryOrder = Callable[[Sequence[TaskState]], Sequence[TaskState]]
"""Sorts tasks differently; returns nothing if they are in that order already."""


def tasks_needed(
    session: Session, job: JobState, counting: Counting = Counting.HOPED
) -> list[TaskState]:
    """Return the tasks that a job has to place, in task order; with groups, those it needs next.

    Args:
        session: the session.
        job: the job.
        counting: which tasks count towards the minimums of its groups.

    """
    tasks = tasks_to_place(session, job)
    return tasks if job.groups is None else list(needed_tasks(job.groups, tasks, counting))


def take_group_turn(
    session: Session,
    job: JobState,
    tasks: TasksByGroup,
    place: PlaceTask,
    is_enough: Callable[[], bool],
    *,
    asks_queue: bool = False,
    substitutes: bool = True,
    retry_order: RetryOrder | None = None,
    rules: EvictionRules = DEFAULT_RULES,
) -> bool:
    """Place all tasks that a job with groups needs next; return whether that succeeded.

    Args:
        session: the session.
        job: the job.
        tasks: the tasks that it has yet to place; tasks that are placed or found no place
            are removed.
        place: places one task.
        is_enough: returns whether to keep the placements.
        asks_queue: whether to require, for a job that is not ready, that its queue may take all
            the tasks within its limits.
        substitutes: whether to try other tasks of the group in place of those that find no place.
        retry_order: the order in which to try once more what was undone; None: it is not tried.
        rules: limits on evictions.

    """
    while True:
        goal = needed_tasks(tasks.groups, tasks)
        if not goal or (asks_queue and not session.may_take(job, tasks)):
            if tasks:
                session.reports.record_unasked(job)
            return False
        orders: list[Sequence[TaskState]] = [goal]
        if retry_order is not None and (order := retry_order(goal)):
            orders.append(order)
        failed: list[TaskState] | None = None
        for order in orders:
            with session.statement() as statement:
                attempt = _Attempt(session, statement, tasks, place, substitutes=substitutes)
                is_complete = attempt.fill(order)
                if failed is None:
                    failed = attempt.failed
                if is_complete:
                    tasks.take_out(attempt.failed)
                    if not is_enough() or not rules.allow(session, statement):
                        return False
                    statement.commit()
                    tasks.take_out(attempt.placed)
                    return True
        tasks.take_out(failed or ())
        if not substitutes:
            return False


def keep_part(
    session: Session,
    job: JobState,
    place: PlaceTask,
    is_enough: Callable[[], bool],
    *,
    holds: bool,
    reserve: PlaceTask,
) -> None:
    """Hold places, or reserve nodes, for a job with groups that cannot start yet.

    This tries the tasks that the job needs first, and stops at the first one for which there is
    no place, no other task of its group to take its turn, and no node to reserve. Reservations
    are kept only if no task is missing.

    Args:
        session: the session.
        job: a job with groups whose turn placed nothing.
        place: places one task.
        is_enough: returns whether to keep the placements and reservations.
        holds: whether to keep the placements even if they are not enough.
        reserve: reserves a node for a task; returns whether there was one.

    """
    assert job.groups is not None
    tasks = TasksByGroup(job.groups, tasks_to_place(session, job))
    counting = Counting.RESERVED
    goal = needed_tasks(job.groups, tasks, counting)
    if not goal or not session.may_take(job, tasks, counting=counting):
        return
    with session.statement() as statement:
        attempt = _Attempt(session, statement, tasks, place, reserve=reserve)
        is_complete = attempt.fill(goal)
        if holds and not is_complete:
            for task in reversed(attempt.reserved):
                statement.unallocate(task)
        if holds or (is_complete and is_enough()):
            statement.commit()


class _Attempt:
    """An attempt to place tasks: which were placed, which found no place."""

    def __init__(
        self,
        session: Session,
        statement: Statement,
        tasks: TasksByGroup,
        place: PlaceTask,
        *,
        substitutes: bool = True,
        reserve: PlaceTask | None = None,
    ) -> None:
        self._session = session
        self._statement = statement
        self._tasks = tasks
        self._place = place
        self._substitutes = substitutes
        self._reserve = reserve
        self.placed: list[TaskState] = []
        self.failed: list[TaskState] = []
        self.reserved: list[TaskState] = []

    def fill(self, goal: Sequence[TaskState]) -> bool:
        """Place tasks, or others of their groups; return False once that is impossible."""
        wanted = {task.uid for task in goal}
        others: dict[GroupState, Iterator[TaskState]] = {}
        waiting = deque(goal)
        while waiting:
            task = waiting.popleft()
            if self._place(self._statement, task):
                self.placed.append(task)
                continue
            self._session.record_failure(task)
            self.failed.append(task)
            leaf = self._tasks.groups.leaf_of(task)
            if leaf not in others:
                others[leaf] = self._tasks.of(leaf) if self._substitutes else iter(())
            another = next((other for other in others[leaf] if other.uid not in wanted), None)
            if another is not None:
                waiting.appendleft(another)
            elif not self._reserves_in(leaf):
                return False
        return True

    def _reserves_in(self, leaf: GroupState) -> bool:
        """Reserve a node for a task of a group that found no place; return whether there is one."""
        if self._reserve is None:
            return False
        for task in self.failed:
            is_here = self._tasks.groups.leaf_of(task) is leaf and task not in self.reserved
            if is_here and self._reserve(self._statement, task):
                self.reserved.append(task)
                return True
        return False
