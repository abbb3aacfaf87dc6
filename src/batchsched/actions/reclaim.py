"""reclaim: evict tasks of queues above their share for queues below theirs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import frozen

from batchsched.actions.eviction.choosing import Unit, units_in_order
from batchsched.actions.eviction.claims import ClaimTurn, why_not_victims
from batchsched.actions.eviction.make_room import (
    DEFAULT_RULES,
    EvictionRules,
    make_room,
    record_search,
    spare_units,
)
from batchsched.actions.placing import NOW_OR_LATER, place
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.claims import Claim, ClaimStage
from batchsched.session.attempts import Attempts, Goal, SetRank, retries_largest_first
from batchsched.session.session import Session
from batchsched.session.statements import Statement, TakenUnit
from batchsched.session.turns import (
    Turn,
    Turns,
    exceeds_quota,
    has_task_to_place,
    may_claim,
    record_claim_refusal,
    tasks_to_place,
)
from batchsched.session.victims import EvictionScope, Victims
from batchsched.state.needs import Need, Stage
from batchsched.state.records import JobState, TaskState


@frozen(kw_only=True)
class ReclaimAction:
    """Evicts Running tasks of other queues for Pending ones: all that a gang needs, or nothing."""

    rules: EvictionRules = DEFAULT_RULES
    """Limits on evictions that hold whatever plugins say."""
    retry_largest_first: bool = False
    """Whether a turn that fails is made once more, with the largest tasks first.

    By default, only in configurations that name no tiers.
    """
    without_shares: bool = False
    """Whether it is intended that no plugin computes the shares of queues.

    Changes no decision; it only keeps `check_config` from objecting.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> ReclaimAction:
        """Read ``maxEvictions``, ``minRuntime``, ``curable``, ``retry`` and ``withoutShares``."""
        return cls(
            rules=EvictionRules.from_arguments(arguments),
            retry_largest_first=retries_largest_first(arguments),
            without_shares=arguments.boolean("withoutShares", default=False),
        )

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it also searches nodes that accept a task only once others have left."""
        return self.rules.curable

    def execute(self, session: Session, /) -> None:
        """Reclaim job by job, each turn the next job of the next queue.

        Where a plugin computes what a queue may claim for what a job needs, that is asked in each
        turn. If not, a queue gets turns until it has what it deserves.
        """
        waiting = filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING))
        if session.plugins.has_claims:
            turns = Turns(session, waiting, alike=True)
        else:
            closed = session.passes_over
            turns = Turns(session, waiting, by_need=False, closed=closed, alike=True)
        by_priority = session.plugins.judges[EvictionScope.OTHER_JOBS.point].by_priority
        attempts = Attempts(
            session=session,
            is_enough=partial(_is_enough, session),
            asks_ahead=True,
            substitutes=False,
            stages=(Stage.LATER, Stage.EVICTING),
            evicts=EvictionScope.OTHER_QUEUES,
            may_go=self.rules.may_go(session, EvictionScope.OTHER_QUEUES),
            records_search=partial(self._record_search, session),
            cures=self.rules.curable,
            retries_largest_first=self.retry_largest_first,
            rank_sets=_stage_of_set if session.plugins.has_claims and by_priority else None,
        )
        for turn in turns:
            if self._serve(session, attempts, turn):
                turns.put_back(turn)

    def _serve(self, session: Session, attempts: Attempts, turn: Turn) -> bool:
        """Place all that a job needs next, or nothing; return whether it gets another turn.

        If that fails, it is tried once more with what this cycle has bound for less important jobs
        of its queue taken back, as far as that is needed beside what other queues lose.
        """
        if not may_claim(session, turn.job):
            return False
        goal = self._try(session, attempts, turn, ())
        if goal is None or not goal.is_kept:
            bound = self._bound_below(session, turn.job)
            if bound:
                turn.take_up_again()
                goal = self._try(session, attempts, turn, bound)
        return goal is not None and goal.is_kept and bool(goal.placed)

    def _bound_below(self, session: Session, job: JobState) -> Sequence[Unit]:
        """Return what this cycle bound for less important jobs of its queue and they may lose."""
        judges = session.plugins.judges[EvictionScope.OTHER_JOBS.point]
        left = tasks_to_place(session, job)
        if not (session.binds and judges.by_priority and left):
            return ()
        bound = [
            task
            for other in session.jobs_having(TaskStatus.BINDING)
            if other.queue is job.queue and other.info.priority < job.info.priority
            for task in other.having(TaskStatus.BINDING)
            if task.may_leave
        ]
        victims = judges.victims(left[0], session.in_victim_order(bound)) if bound else Victims()
        units = units_in_order(session, victims)
        return [u for u in units if all(task.status is TaskStatus.BINDING for task in u)]

    def _try(
        self, session: Session, attempts: Attempts, turn: Turn, bound: Sequence[Unit]
    ) -> Goal | None:
        """Try to place all that a job needs next, after some binds were taken back."""
        job = turn.job
        has_claims = session.plugins.has_claims
        if has_claims and turn.need is None:
            return None
        if (
            has_claims
            and not bound
            and turn.need is not None
            and exceeds_quota(session, turn.need, turn.left)
        ):
            return None
        claim = self._claim(session, turn) if has_claims and not bound else None
        if has_claims and not bound and claim is None:
            return None
        claims = [claim]

        def claim_of(statement: Statement) -> ClaimTurn | None:
            mine = claims[-1]
            if mine is None:
                return None
            return ClaimTurn(session, statement, mine, curable=self.rules.curable)

        def place_one(statement: Statement, task: TaskState, stage: Stage | None) -> bool:
            if bound and not len(statement):
                for unit in bound:
                    statement.take(TakenUnit(unit, task))
                claims.append(self._claim(session, turn) if has_claims else None)
            if place(session, statement, task, NOW_OR_LATER, looks_ahead=True):
                return True
            if stage is Stage.LATER:
                return False
            return self._evict_for(session, statement, task, claim_of(statement))

        def keeps(statement: Statement, goal: Goal) -> bool:
            if not has_claims and job.groups is None and turn.left:
                session.passes_over(turn.queue)
            if not (goal.is_complete and session.plugins.job_pipelined(job)):
                return False
            if bound and not statement.evictions:
                return False  # what its own queue alone can give is the business of preempt
            by_claim = claim_of(statement) if statement.units else None
            if by_claim is not None:
                if not by_claim.spare_units(goal.placed, may_be_of_one=bool(bound)):
                    return False
            elif bound:
                spare_units(session, statement, goal.placed, may_be_of_one=True)
            return self.rules.allow(session, statement)

        return attempts.serve(turn, place_one, keeps)

    def _claim(self, session: Session, turn: Turn) -> Claim | None:
        """Return what the queue may claim for what a job needs; None: nothing."""
        assert turn.need is not None
        answer = session.plugins.claim(turn.need, self.rules.recent(session))
        if isinstance(answer, Unfit):
            record_claim_refusal(session, turn.need, answer)
            return None
        return answer

    def _record_search(self, session: Session, need: Need) -> None:
        rules, task, why_not = self.rules, need.tasks[0], None
        if session.plugins.has_claims:
            claim = session.plugins.claim(need, rules.recent(session))
            if isinstance(claim, Unfit):
                return
            why_not = partial(why_not_victims, session, task, claim, curable=rules.curable)
        scope = EvictionScope.OTHER_QUEUES
        record_search(session, task, scope, rules, may_use_idle=True, why_not=why_not)

    def _evict_for(
        self,
        session: Session,
        statement: Statement,
        task: TaskState,
        by_claim: ClaimTurn | None,
    ) -> bool:
        rules, scope = self.rules, EvictionScope.OTHER_QUEUES
        if not session.plugins.has_claims:
            return make_room(session, statement, task, scope=scope, may_use_idle=True, rules=rules)
        if by_claim is None:
            return False
        if by_claim.make_room(task):
            return True
        why_not = partial(why_not_victims, session, task, by_claim.claim, curable=rules.curable)
        record_search(session, task, scope, rules, may_use_idle=True, why_not=why_not)
        return False


def _is_enough(session: Session, job: JobState) -> bool:
    """Return whether a job needs no more, or its queue gets no more turns for it.

    A job with groups places all that it needs together, or nothing.
    """
    plugins = session.plugins
    if plugins.job_pipelined(job):
        return True
    assert job.queue is not None
    return not plugins.has_claims and job.groups is None and plugins.overused(job.queue)


def _stage_of_set(statement: Statement) -> SetRank:
    """Rank what is taken in a set: by the last stage of claims that was needed."""
    stage = max((unit.stage for unit in statement.units), default=0)
    return SetRank(((), stage), is_least=stage <= ClaimStage.SURPLUS_BEYOND_SHARE)
