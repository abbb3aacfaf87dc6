"""preempt: evict tasks for Pending tasks of the same queue that go first."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from batchsched.actions.action import has_task_to_place
from batchsched.actions.eviction.rules import DEFAULT_RULES, EvictionRules
from batchsched.actions.eviction.search import EvictionScope, make_room
from batchsched.actions.group_turns import take_group_turn, tasks_needed
from batchsched.actions.placing import place_now_or_later
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.turns import Turn, Turns
from batchsched.state.needs import TasksByGroup, TasksInOrder
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
        turns = Turns(session, collected)
        for queue, of_queue in turns.by_queue():
            for turn in of_queue:
                if _between_jobs(session, turn, self.rules):
                    turns.put_back(turn)
            for job in turns.jobs[queue]:
                _within_job(session, job, self.rules)


def _between_jobs(session: Session, turn: Turn, rules: EvictionRules) -> bool:
    queue, job, tasks = turn.queue, turn.job, turn.left
    if isinstance(tasks, TasksByGroup):
        return take_group_turn(
            session,
            job,
            tasks,
            lambda statement, task: _place(session, statement, queue, task, rules),
            partial(session.job_pipelined, job),
            rules=rules,
        )
    with session.statement() as statement:
        placed = _take_turn(session, statement, queue, job, tasks, rules)
        if not session.job_pipelined(job) or not rules.allow(session, statement):
            return False
        statement.commit()
    return placed


def _take_turn(
    session: Session,
    statement: Statement,
    queue: QueueState,
    job: JobState,
    tasks: TasksInOrder,
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
    may_use_idle = not session.passes_over(queue)
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
