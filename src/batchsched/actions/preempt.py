"""preempt: evict tasks for Pending tasks of the same queue that go first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from attrs import frozen

from batchsched.actions.eviction.make_room import (
    DEFAULT_RULES,
    EvictionRules,
    make_room,
    record_search,
    spare_units,
)
from batchsched.actions.eviction.unblock import unblock
from batchsched.actions.placing import NOW_OR_LATER, place
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.candidates import NodeSet
from batchsched.session.attempts import (
    Attempts,
    Goal,
    SetRank,
    retries_largest_first,
    tasks_needed,
)
from batchsched.session.candidates import refusal_beside_its_job, sets_to_evict_in
from batchsched.session.outlook import promises_stand
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.turns import Turn, Turns, has_task_to_place, may_claim
from batchsched.session.victims import EvictionScope
from batchsched.state.needs import Need, Stage
from batchsched.state.records import JobState, TaskState


@frozen(kw_only=True)
class PreemptAction:
    """Evicts Running tasks for Pending ones of the same queue, and then of the same job."""

    rules: EvictionRules = DEFAULT_RULES
    """Limits on evictions that hold whatever plugins say."""
    retry_largest_first: bool = False
    """Whether a turn that fails is made once more, with the largest tasks first.

    By default, only in configurations that name no tiers.
    """
    unblock: bool = False
    """Whether broken jobs may evict other broken ones, which do no work; see `unblock`.

    By default, only in configurations that name no tiers.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> PreemptAction:
        """Read ``maxEvictions``, ``minRuntime``, ``curable``, ``retry`` and ``unblock``."""
        return cls(
            rules=EvictionRules.from_arguments(arguments),
            retry_largest_first=retries_largest_first(arguments),
            unblock=arguments.boolean("unblock", default=arguments.has_default_tiers),
        )

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it also searches nodes that accept a task only once others have left."""
        return self.rules.curable

    def execute(self, session: Session, /) -> None:
        """Go through the queues that have tasks to place, in queue order."""
        waiting = filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING))
        turns = Turns(session, sorted(waiting, key=session.plugins.job_order_key), alike=True)
        judges = session.plugins.judges[EvictionScope.OTHER_JOBS.point]
        attempts = Attempts(
            session=session,
            is_enough=session.plugins.job_pipelined,
            asks_ahead=True,
            tries_all=True,
            stages=(Stage.LATER, Stage.EVICTING),
            evicts=EvictionScope.OTHER_JOBS,
            may_go=self.rules.may_go(session, EvictionScope.OTHER_JOBS),
            records_search=partial(self._record_search, session),
            cures=self.rules.curable,
            retries_largest_first=self.retry_largest_first,
            rank_sets=_cost_of_set if judges.by_priority else None,
        )
        for queue, of_queue in turns.by_queue():
            for turn in of_queue:
                if self._serve(session, attempts, turn):
                    turns.put_back(turn)
            for job in turns.once_more(queue):
                self._serve_within(session, job)
        if self.unblock:
            unblock(session, self.rules)

    def _serve(self, session: Session, attempts: Attempts, turn: Turn) -> bool:
        """Place what a job needs next, evicting other jobs; return whether anything was placed."""
        if not may_claim(session, turn.job):
            return False
        swaps = False  # where the queue is overused, what comes takes the place of what goes

        def place_one(statement: Statement, task: TaskState, stage: Stage | None) -> bool:
            nonlocal swaps
            may_use_idle = not session.passes_over(turn.queue)
            swaps = swaps or not may_use_idle
            if may_use_idle and place(session, statement, task, NOW_OR_LATER, looks_ahead=True):
                return True
            scope = EvictionScope.OTHER_JOBS
            evicts = stage is None or stage is Stage.EVICTING
            return evicts and self._evict_for(session, statement, task, scope, may_use_idle)

        def keeps(statement: Statement, goal: Goal) -> bool:
            if not (goal.is_complete and session.plugins.job_pipelined(turn.job)):
                return False
            if not swaps:
                spare_units(
                    session,
                    statement,
                    goal.placed,
                    may_be_dropped=_has_running,
                    is_enough=lambda: (
                        session.plugins.job_pipelined(turn.job)
                        and promises_stand(session, statement)
                    ),
                )
            return self.rules.allow(session, statement)

        goal = attempts.serve(turn, place_one, keeps)
        return goal is not None and goal.is_kept and bool(goal.placed)

    def _serve_within(self, session: Session, job: JobState) -> None:
        """Let tasks of a job take the places of its own tasks that come after them."""
        if not may_claim(session, job):
            return
        tasks = tasks_needed(session, job)
        if job.groups is not None and len(tasks) > 1:
            return  # placing only part of the tasks that start together is useless
        scope = EvictionScope.SAME_JOB
        may_go = self.rules.may_go(session, scope)
        for task in tasks:
            if not any(
                self._swaps(session, task, within)
                for within in sets_to_evict_in(
                    session, task, scope, cures=self.rules.curable, may_go=may_go
                )
            ):
                session.record_failure(task)
                return

    def _swaps(self, session: Session, task: TaskState, within: NodeSet | None) -> bool:
        """Let a task take the place of one of its own job; return whether there was one."""
        return session.attempt(
            lambda statement: (
                self._evict_for(session, statement, task, EvictionScope.SAME_JOB, False)
                # A promise apart from the others of the job would not be kept.
                and refusal_beside_its_job(session, task) is None
                and self.rules.allow(session, statement)
            ),
            within=within,
        )

    def _record_search(self, session: Session, need: Need) -> None:
        queue = need.job.queue
        assert queue is not None
        task, may_use_idle = need.tasks[0], not session.plugins.overused(queue)
        record_search(
            session, task, EvictionScope.OTHER_JOBS, self.rules, may_use_idle=may_use_idle
        )

    def _evict_for(
        self,
        session: Session,
        statement: Statement,
        task: TaskState,
        scope: EvictionScope,
        may_use_idle: bool,
    ) -> bool:
        return make_room(
            session, statement, task, scope=scope, may_use_idle=may_use_idle, rules=self.rules
        )


def _has_running(unit: TakenUnit, _others: Sequence[TakenUnit]) -> bool:
    """Return whether a task of a unit runs: what does not costs nothing."""
    return any(task.info.status is TaskStatus.RUNNING for task in unit.victims)


def _cost_of_set(statement: Statement) -> SetRank:
    """Rank what is evicted in a set: the most important victim, then how many there are."""
    evicted = [task for task in statement.nodes_given_up() if task.status is TaskStatus.RELEASING]
    ranks = [(task.job.info.priority, task.info.priority) for task in evicted if task.job]
    return SetRank((max(ranks, default=(-inf, -inf)), len(evicted)), is_least=not evicted)
