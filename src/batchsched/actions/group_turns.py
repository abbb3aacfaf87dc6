"""The turns of jobs with groups, or with a maximum: all that the job needs next, or nothing.

`JobGroups.needed` says what a job needs next. A task that finds no place is replaced by another
task of its group; if none is left, the turn is rolled back, and the job's need is computed again
without those tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from batchsched.actions.action import tasks_to_place
from batchsched.actions.eviction.rules import DEFAULT_RULES, EvictionRules
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.group_needs import TasksLeft, needed_tasks
from batchsched.state.groups import Counting, GroupState
from batchsched.state.records import JobState, TaskState

__all__ = ["take_group_turn", "tasks_left", "tasks_needed"]

PlaceTask = Callable[[Statement, TaskState], bool]
"""Places a task through a statement; returns whether there was a place."""


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


def tasks_left(session: Session, job: JobState) -> deque[TaskState] | TasksLeft:
    """Return the tasks that a job has yet to place, in task order; turns remove tasks from it."""
    tasks = tasks_to_place(session, job)
    return deque(tasks) if job.groups is None else TasksLeft(job.groups, tasks)


def take_group_turn(
    session: Session,
    job: JobState,
    tasks: TasksLeft,
    place: PlaceTask,
    is_enough: Callable[[], bool],
    *,
    asks_queue: bool = False,
    substitutes: bool = True,
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
        rules: limits on evictions.

    """
    while True:
        goal = needed_tasks(tasks.groups, tasks)
        if not goal or (asks_queue and not session.may_take(job, tasks)):
            if tasks:
                session.reports.record_unasked(job)
            return False
        with session.statement() as statement:
            placed = _fill(session, statement, tasks, goal, place, substitutes=substitutes)
            if placed is not None:
                if not is_enough() or not rules.allow(session, statement):
                    return False
                statement.commit()
                tasks.take_out(placed)
                return True
        if not substitutes:
            return False


def _fill(
    session: Session,
    statement: Statement,
    tasks: TasksLeft,
    goal: tuple[TaskState, ...],
    place: PlaceTask,
    *,
    substitutes: bool,
) -> list[TaskState] | None:
    """Place the tasks of a goal, or others of their groups; return None if that is impossible."""
    wanted = {task.uid for task in goal}
    others: dict[GroupState, Iterator[TaskState]] = {}
    waiting = deque(goal)
    placed: list[TaskState] = []
    failed: list[TaskState] = []
    while waiting:
        task = waiting.popleft()
        if place(statement, task):
            placed.append(task)
            continue
        session.record_failure(task)
        failed.append(task)
        leaf = tasks.groups.leaf_of(task)
        if leaf not in others:
            others[leaf] = tasks.of(leaf) if substitutes else iter(())
        another = next((other for other in others[leaf] if other.uid not in wanted), None)
        if another is None:
            tasks.take_out(failed)
            return None
        waiting.appendleft(another)
    tasks.take_out(failed)
    return placed
