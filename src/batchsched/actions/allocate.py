"""allocate: place the tasks of jobs, queue by queue."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from batchsched.actions.eviction.choosing import make_promises_real, nodes_once_called_in
from batchsched.actions.placing import (
    LADDER,
    best_for,
    first_node_to_reserve,
    may_promise_conditionally,
    place,
    start_reserved_jobs,
)
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.attempts import Attempts, Goal, retries_largest_first
from batchsched.session.outlook import accepting_nodes
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import Turns, is_starving
from batchsched.state.needs import Stage
from batchsched.state.records import Fit, JobState, TaskState


@frozen(kw_only=True)
class AllocateAction:
    """Places Pending tasks, taking the next job of the next queue each turn.

    Follows "Kube-batch scheduler framework", and for conditional placement and
    starvation "Backfill and Starvation Prevention".
    """

    discard_unready: bool = True
    """Whether a turn is rolled back if it leaves its job neither ready nor pipelined.

    If not, the tasks that it placed keep their places until the end of the cycle.
    """
    evict_backfill: bool = False
    """Whether backfill tasks are evicted for jobs that only they keep from being ready."""
    cures: bool = False
    """Whether they are evicted also on nodes that refuse a job only for what evicting can cure."""
    starvation_threshold: float | None = None
    """Seconds of waiting after which nodes are reserved for a job; None: never."""

    retry_largest_first: bool = False
    """Whether a turn that is rolled back is tried once more, with the largest tasks first.

    In task order a small task may take the only place where a larger one of its job fits.
    Requires `discard_unready`.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> AllocateAction:
        """Read ``unready``, ``evictBackfill``, ``curable``, ``starvationThreshold``, ``retry``."""
        threshold = arguments.number("starvationThreshold", default=0, minimum=0)
        is_given = arguments.is_given("starvationThreshold")
        unready = arguments.choice("unready", ("hold", "discard"), default="discard")
        # A turn that is not rolled back cannot be tried again.
        retries = ("none", "largest-first") if unready == "discard" else ("none",)
        return cls(
            discard_unready=unready == "discard",
            evict_backfill=arguments.boolean("evictBackfill", default=False),
            cures=arguments.boolean("curable", default=arguments.has_default_tiers),
            starvation_threshold=threshold if is_given else None,
            retry_largest_first=retries_largest_first(arguments, retries),
        )

    def execute(self, session: Session, /) -> None:
        """Start the jobs that have reservations, then place tasks queue by queue."""
        reserved = session.jobs_having(TaskStatus.RESERVED)
        if reserved:
            start_reserved_jobs(session, reserved)
        waiting = session.jobs_having(TaskStatus.PENDING, TaskStatus.CONDITIONAL)
        threshold = self.starvation_threshold
        reserves = threshold is not None
        holds = not self.discard_unready
        turns = Turns(session, waiting, closed=session.passes_over)
        attempts = Attempts(
            session=session,
            is_enough=session.plugins.job_ready,
            asks_queue=True,
            retries_largest_first=self.retry_largest_first,
            keeps_part=lambda job: holds or reserves or job.count(TaskStatus.RESERVED) > 0,
            holds_part=holds,
            reserve=None if threshold is None else partial(self._reserve, session, threshold),
            may_reserve=(
                None if threshold is None else partial(is_starving, session, threshold=threshold)
            ),
            is_settled=partial(_is_settled, session) if session.plugins.second_try else None,
            depends_on_nodes_alone=not (
                holds
                or reserves
                or self.evict_backfill
                or session.guard is not None
                or session.plugins.second_try
            ),
        )
        place_one = partial(_place_one, session)
        if self.evict_backfill:
            place_one = partial(_place_calling_in, session, cures=self.cures)
        keeps = partial(self._keeps, session)
        for turn in turns:
            goal = attempts.serve(turn, place_one, keeps)
            is_kept = goal is not None and goal.is_kept
            if is_kept and turn.left and session.plugins.job_ready(turn.job):
                turns.put_back(turn)
            if self.evict_backfill and _waits_for_backfill(session, turn.job):
                make_promises_real(session, turn.job)

    def _keeps(self, session: Session, statement: Statement, goal: Goal) -> bool:
        """Return whether what was placed for a goal is kept; drop reservations of no use."""
        if goal.reserved and not goal.keeps_reservations():
            for task in reversed(goal.reserved):
                statement.unallocate(task)
        holds = goal.may_be_partial and not self.discard_unready
        return holds or (goal.is_complete and _is_enough(session, goal.job))

    def _reserve(
        self, session: Session, threshold: float, statement: Statement, task: TaskState
    ) -> bool:
        """Reserve a node for a task if its job is starving; return whether there was one."""
        if task.job is None or not is_starving(session, task.job, threshold):
            return False
        node = first_node_to_reserve(
            session, task, statement.within, beside_its_job=self.discard_unready
        )
        if node is None:
            return False
        statement.reserve(task, node)
        return True


def _place_one(
    session: Session, statement: Statement, task: TaskState, stage: Stage | None
) -> bool:
    return place(session, statement, task, LADDER if stage is None else stage.ladder)


def _place_calling_in(
    session: Session,
    statement: Statement,
    task: TaskState,
    stage: Stage | None,
    *,
    cures: bool,
) -> bool:
    """Place a task where loans to backfill tasks will be called in for what is Conditional.

    A node is then asked as it will be: with what is promised on loans in place, and, if no other
    one is found and `cures`, without what is lent there.
    """
    ladder = LADDER if stage is None else stage.ladder
    given = [fit for fit in ladder if fit is not Fit.CONDITIONALLY]
    if place(session, statement, task, given):
        return True
    if len(given) == len(ladder) or not may_promise_conditionally(session, task):
        return False
    best = partial(best_for, session, statement, task, Fit.CONDITIONALLY)
    node = best(accepting_nodes(session, task, with_conditional=True))
    if node is None and cures:
        node = best(nodes_once_called_in(session, task))
    if node is None:
        return False
    statement.promise(task, node)
    return True


def _is_settled(session: Session, job: JobState) -> bool:
    """Return whether what was kept of a turn is more than a part that the job may hold."""
    return job.count(TaskStatus.RESERVED) > 0 or _is_enough(session, job)


def _is_enough(session: Session, job: JobState) -> bool:
    """Return whether a job can start with what it has, or may once others leave."""
    return (
        session.plugins.job_ready(job)
        or session.plugins.job_pipelined(job)
        or (
            session.plugins.job_condition_ready(job)
            and bool(job.count(TaskStatus.CONDITIONAL) or job.count(TaskStatus.RESERVED))
        )
    )


def _waits_for_backfill(session: Session, job: JobState) -> bool:
    """Return whether only backfill tasks keep a job from being ready."""
    return (
        job.count(TaskStatus.CONDITIONAL) > 0
        and session.plugins.job_condition_ready(job)
        and not session.plugins.job_ready(job)
    )
