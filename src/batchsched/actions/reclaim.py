"""reclaim: evict tasks of queues above their share for queues below theirs."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from batchsched.actions.eviction.claims import ClaimTurn, why_not_victims
from batchsched.actions.eviction.make_room import (
    DEFAULT_RULES,
    EvictionRules,
    make_room,
    record_search,
)
from batchsched.actions.placing import NOW_OR_LATER, place
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Claim
from batchsched.session.attempts import Attempts, Goal
from batchsched.session.limits import record_claim_refusal
from batchsched.session.session import Session, Statement
from batchsched.session.turns import Turn, Turns, has_task_to_place
from batchsched.session.victims import EvictionScope
from batchsched.state.needs import Stage
from batchsched.state.records import JobState, TaskState


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
        attempts = Attempts(
            session=session,
            is_enough=partial(_is_enough, session),
            asks_ahead=True,
            substitutes=False,
            stages=(Stage.LATER, Stage.EVICTING),
            evicts=EvictionScope.OTHER_QUEUES,
            cures=self.rules.curable,
        )
        for turn in turns:
            if self._serve(session, attempts, turn):
                turns.put_back(turn)

    def _serve(self, session: Session, attempts: Attempts, turn: Turn) -> bool:
        """Place all that a job needs next, or nothing; return whether it gets another turn."""
        job = turn.job
        if not session.plugins.may_claim(job):
            return False
        claim: Claim | None = None
        if session.plugins.has_claims:
            if turn.need is None:
                return False
            answer = session.plugins.claim(turn.need, self.rules.recent(session))
            if isinstance(answer, Unfit):
                record_claim_refusal(session, turn.need, answer)
                return False
            claim = answer
        claims: list[ClaimTurn] = []

        def claim_of(statement: Statement) -> ClaimTurn | None:
            if claim is not None and not (claims and claims[-1].statement is statement):
                claims.append(ClaimTurn(session, statement, claim, curable=self.rules.curable))
            return claims[-1] if claims else None

        def place_one(statement: Statement, task: TaskState, stage: Stage | None) -> bool:
            if stage is Stage.LATER:
                return place(session, statement, task, NOW_OR_LATER, looks_ahead=True)
            return self._place(session, statement, task, claim_of(statement))

        def keeps(statement: Statement, goal: Goal) -> bool:
            if claim is None and job.groups is None and turn.left:
                session.passes_over(turn.queue)
            if not (goal.is_complete and session.plugins.job_pipelined(job)):
                return False
            by_claim = claim_of(statement)
            if by_claim is not None:
                by_claim.spare_units(goal.placed)
            return self.rules.allow(session, statement)

        goal = attempts.serve(turn, place_one, keeps)
        return goal is not None and goal.is_kept and bool(goal.placed)

    def _place(
        self, session: Session, statement: Statement, task: TaskState, by_claim: ClaimTurn | None
    ) -> bool:
        if place(session, statement, task, NOW_OR_LATER, looks_ahead=True):
            return True
        rules, scope = self.rules, EvictionScope.OTHER_QUEUES
        if by_claim is None:
            return make_room(session, statement, task, scope=scope, may_use_idle=True, rules=rules)
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
