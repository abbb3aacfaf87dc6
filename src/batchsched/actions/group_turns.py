"""The turns of jobs with groups, or with a maximum: all that the job asks for next, or nothing.

What a job asks for is said by `JobGroups.needed`. A task that finds no place is passed over, and
another of its group takes its turn; if there is none left, the turn is undone and the job asks
anew, without those tasks.
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
"""Places a task, by a statement; returns whether there was a place."""


def tasks_needed(
    session: Session, job: JobState, counting: Counting = Counting.HOPED
) -> list[TaskState]:
    """Return what a job has to place, in task order; of one with groups what it needs next.

    Args:
        session: where this happens.
        job: the job.
        counting: which tasks of its groups are there already.

    """
    tasks = tasks_to_place(session, job)
    return tasks if job.groups is None else list(needed_tasks(job.groups, tasks, counting))


def tasks_left(session: Session, job: JobState) -> deque[TaskState] | TasksLeft:
    """Return what a job has left to place, in task order, to be taken out turn by turn."""
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
    """Place all that a job with groups asks for next; return whether that was done.

    Args:
        session: where this happens.
        job: the job.
        tasks: what it has left to place; those that are placed, and those that
            found no place, are taken out.
        place: places one of them.
        is_enough: returns whether what is placed is to be kept.
        asks_queue: whether the queue of a job that is not ready must be able to take all of it,
            as it stands.
        substitutes: whether other tasks are tried in the place of those that find none.
        rules: what must be kept to where it evicts.

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
    """Place the tasks of a goal, or others of their groups; None: one of them has no place."""
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
