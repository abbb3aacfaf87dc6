"""reclaim: evict tasks of queues above their share for queues below theirs."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from batchsched.actions.action import has_task_to_place
from batchsched.actions.claim_turns import reclaim_by_claims
from batchsched.actions.eviction.rules import DEFAULT_RULES, EvictionRules
from batchsched.actions.eviction.search import EvictionScope, make_room
from batchsched.actions.group_turns import take_group_turn
from batchsched.actions.placing import place_now_or_later
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.turns import Turn, Turns
from batchsched.state.needs import TasksByGroup, TasksInOrder
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = ["ReclaimAction"]


@frozen(kw_only=True)
class ReclaimAction:
    """Evicts Running tasks of other queues for Pending ones: all that a gang needs, or nothing."""

    rules: EvictionRules = DEFAULT_RULES
    """Limits on evictions that hold whatever plugins say."""
    without_shares: bool = False
    """Whether it is intended that no plugin computes the shares of queues.

    Changes no decision; it only keeps `check_config` from objecting.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> ReclaimAction:
        """Read ``maxEvictions``, ``minRuntime``, ``curable`` and ``withoutShares``."""
        return cls(
            rules=EvictionRules.from_arguments(arguments),
            without_shares=arguments.boolean("withoutShares", default=False),
        )

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it also searches nodes that accept a task only once others have left."""
        return self.rules.curable

    def execute(self, session: Session, /) -> None:
        """Reclaim queue by queue, in queue order, each turn for the queue's next job."""
        collected = filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING))
        if session.plugin_set.has_claims:
            reclaim_by_claims(session, collected, self.rules)
            return
        turns = Turns(session, collected, by_need=False, closed=session.passes_over)
        for turn in turns:
            if self._serve(session, turn):
                turns.put_back(turn)

    def _serve(self, session: Session, turn: Turn) -> bool:
        job, tasks = turn.job, turn.left
        if isinstance(tasks, TasksByGroup):
            return take_group_turn(
                session,
                job,
                tasks,
                lambda statement, task: _place(session, statement, task, self.rules),
                partial(session.job_pipelined, job),
                substitutes=False,
                rules=self.rules,
            )
        with session.statement() as statement:
            placed = _take_turn(session, statement, turn.queue, job, tasks, self.rules)
            if not session.job_pipelined(job) or not self.rules.allow(session, statement):
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
    while tasks and not session.overused(queue):
        task = tasks.popleft()
        if not _place(session, statement, task, rules):
            session.record_failure(task)
            break
        placed = True
        if session.job_pipelined(job):
            break
    if tasks:
        session.passes_over(queue)
    return placed


def _place(session: Session, statement: Statement, task: TaskState, rules: EvictionRules) -> bool:
    return place_now_or_later(session, statement, task) or make_room(
        session,
        statement,
        task,
        scope=EvictionScope.OTHER_QUEUES,
        may_use_idle=True,
        recent=rules.recent(session),
        curable=rules.curable,
    )
