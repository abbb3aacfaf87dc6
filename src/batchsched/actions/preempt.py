"""preempt: evict tasks for Pending tasks of the same queue that go first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from attrs import frozen

from batchsched.actions.action import has_task_to_place, jobs_by_queue
from batchsched.actions.eviction.rules import DEFAULT_RULES, EvictionRules
from batchsched.actions.eviction.search import EvictionScope, make_room
from batchsched.actions.group_turns import take_group_turn, tasks_left, tasks_needed
from batchsched.actions.placing import place_now_or_later
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.group_needs import TasksLeft
from batchsched.state.live_queue import LiveQueue
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = ["PreemptAction"]


@frozen(kw_only=True)
class PreemptAction:
    """Evicts Running tasks for Pending ones of the same queue, and then of the same job."""

    rules: EvictionRules = DEFAULT_RULES
    """Limits on evictions that hold whatever plugins say."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> PreemptAction:
        """Read ``maxEvictions``, ``minRuntime`` and ``curable``."""
        return cls(rules=EvictionRules.from_arguments(arguments))

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it also searches nodes that accept a task only once others have left."""
        return self.rules.curable

    def execute(self, session: Session, /) -> None:
        """Go through the queues that have tasks to place, in queue order."""
        collected = sorted(
            filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING)),
            key=session.job_order_key,
        )
        jobs = jobs_by_queue(collected)
        left: dict[str, deque[TaskState] | TasksLeft] = {}

        def tasks_of(job: JobState) -> deque[TaskState] | TasksLeft:
            if job.uid not in left:
                left[job.uid] = tasks_left(session, job)
            return left[job.uid]

        waiting = {queue: session.job_turns(jobs[queue], tasks_of) for queue in jobs}
        queues = session.queue_turns(waiting, tasks_of)
        while queues:
            queue = queues.pop()
            _between_jobs(session, queue, waiting[queue], tasks_of, self.rules)
            for job in jobs[queue]:
                _within_job(session, job, self.rules)


def _between_jobs(
    session: Session,
    queue: QueueState,
    waiting: LiveQueue[JobState],
    tasks_of: Callable[[JobState], deque[TaskState] | TasksLeft],
    rules: EvictionRules,
) -> None:
    while waiting:
        job = waiting.pop()
        tasks = tasks_of(job)
        if isinstance(tasks, TasksLeft):
            if take_group_turn(
                session,
                job,
                tasks,
                lambda statement, task: _place(session, statement, queue, task, rules),
                partial(session.job_pipelined, job),
                rules=rules,
            ):
                waiting.push(job)
            continue
        with session.statement() as statement:
            placed = _take_turn(session, statement, queue, job, tasks, rules)
            if not session.job_pipelined(job) or not rules.allow(session, statement):
                continue
            statement.commit()
        if placed:
            waiting.push(job)


def _take_turn(
    session: Session,
    statement: Statement,
    queue: QueueState,
    job: JobState,
    tasks: deque[TaskState],
    rules: EvictionRules,
) -> bool:
    placed = False
    while tasks:
        task = tasks.popleft()
        if _place(session, statement, queue, task, rules):
            placed = True
        else:
            session.record_failure(task)
        if session.job_pipelined(job):
            break
    return placed


def _place(
    session: Session,
    statement: Statement,
    queue: QueueState,
    task: TaskState,
    rules: EvictionRules,
) -> bool:
    may_use_idle = not session.overused(queue)
    if not may_use_idle:
        session.reports.queues_overused.add(queue.name)
    return (may_use_idle and place_now_or_later(session, statement, task)) or make_room(
        session,
        statement,
        task,
        scope=EvictionScope.OTHER_JOBS,
        may_use_idle=may_use_idle,
        recent=rules.recent(session),
        curable=rules.curable,
    )


def _within_job(session: Session, job: JobState, rules: EvictionRules) -> None:
    tasks = tasks_needed(session, job)
    if job.groups is not None and len(tasks) > 1:
        return  # placing only part of the tasks that start together is useless
    for task in tasks:
        with session.statement() as statement:
            if not make_room(
                session,
                statement,
                task,
                scope=EvictionScope.SAME_JOB,
                may_use_idle=False,
                recent=rules.recent(session),
                curable=rules.curable,
            ) or not rules.allow(session, statement):
                session.record_failure(task)
                return
            statement.commit()
