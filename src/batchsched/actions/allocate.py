"""allocate: place the tasks of jobs, queue by queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from attrs import frozen

from batchsched.actions.action import tasks_to_place
from batchsched.actions.eviction.backfill_loans import make_promises_real
from batchsched.actions.group_turns import keep_part, take_group_turn
from batchsched.actions.placing import can_still_start, place_on_ladder
from batchsched.actions.reservation.eligibility import first_node_to_reserve, start_reserved_jobs
from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.session.foresight import foreseen_failure
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.turns import Turn, Turns
from batchsched.state.needs import TasksByGroup, TasksInOrder
from batchsched.state.records import JobState, TaskState
from batchsched.state.vectors import dominant_share

__all__ = ["AllocateAction"]


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
    starvation_threshold: float | None = None
    """Seconds of waiting after which nodes are reserved for a job; None: never."""

    retry_largest_first: bool = False
    """Whether a turn that is rolled back is tried once more, with the largest tasks first.

    In task order a small task may take the only place where a larger one of its job fits.
    Requires `discard_unready`.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> AllocateAction:
        """Read ``unready``, ``evictBackfill``, ``starvationThreshold`` and ``retry``."""
        threshold = arguments.number("starvationThreshold", default=0, minimum=0)
        is_given = arguments.is_given("starvationThreshold")
        unready = arguments.choice("unready", ("hold", "discard"), default="discard")
        # A turn that is not rolled back cannot be tried again.
        retries = ("none", "largest-first") if unready == "discard" else ("none",)
        return cls(
            discard_unready=unready == "discard",
            evict_backfill=arguments.boolean("evictBackfill", default=False),
            starvation_threshold=threshold if is_given else None,
            retry_largest_first=arguments.choice("retry", retries, default="none") != "none",
        )

    def execute(self, session: Session, /) -> None:
        """Start the jobs that have reservations, then place tasks queue by queue."""
        start_reserved_jobs(session)
        failed_turns = session.failed_turns if self._can_remember(session) else None
        waiting = session.jobs_having(TaskStatus.PENDING, TaskStatus.CONDITIONAL)
        turns = Turns(session, waiting, closed=session.passes_over)
        for turn in turns:
            failed = (
                None if failed_turns is None else failed_turns.find(turn.job, session.placement)
            )
            if failed is not None:
                session.record_failed_again(turn.job, failed)
            elif self._take_turn(session, turn):
                turns.put_back(turn)

    def _can_remember(self, session: Session) -> bool:
        """Return whether the outcome of a turn depends on jobs and nodes alone."""
        return (
            self.discard_unready
            and not self.evict_backfill
            and self.starvation_threshold is None
            and not self.retry_largest_first
            and session.plans.guard is None
        )

    def _take_turn(self, session: Session, turn: Turn) -> bool:
        """Give a job its turn; return whether it gets another turn."""
        job, tasks = turn.job, turn.left
        if isinstance(tasks, TasksByGroup):
            gets_another = self._take_group_turn(session, job, tasks)
            self._end_turn(session, job)
            return gets_another
        if not tasks or not session.may_take(job, tasks, need=turn.need):
            self._end_turn(session, job)
            return False
        if not self.discard_unready:
            gets_another = self._place(session, session, job, tasks)
        else:
            largest_first = _largest_first(session, tasks) if self.retry_largest_first else []
            is_kept, gets_another = self._try(session, job, tasks)
            if not is_kept and largest_first:
                tasks.clear()
                tasks.extend(largest_first)
                is_kept, gets_another = self._try(session, job, tasks)
                in_task_order = session.in_task_order(tasks)
                tasks.clear()
                tasks.extend(in_task_order)
        self._end_turn(session, job)
        return gets_another

    def _take_group_turn(self, session: Session, job: JobState, tasks: TasksByGroup) -> bool:
        """Place what a job with groups needs next; return whether it gets another turn."""

        def place(statement: Statement, task: TaskState) -> bool:
            return place_on_ladder(session, statement, task)

        def reserve(statement: Statement, task: TaskState) -> bool:
            return self._reserve(session, statement, task)

        def by_size(goal: Sequence[TaskState]) -> Sequence[TaskState]:
            return _largest_first(session, goal)

        if not tasks:
            return False
        keeps = partial(_keeps_turn, session, job)
        order = by_size if self.retry_largest_first else None
        if take_group_turn(session, job, tasks, place, keeps, asks_queue=True, retry_order=order):
            return bool(tasks) and session.job_ready(job)
        holds = not self.discard_unready
        may_reserve = self.starvation_threshold is not None or job.count(TaskStatus.RESERVED) > 0
        if (holds or may_reserve) and not session.job_ready(job):
            keep_part(session, job, place, keeps, holds=holds, reserve=reserve)
        return False

    def _try(self, session: Session, job: JobState, tasks: TasksInOrder) -> tuple[bool, bool]:
        """Place a job's tasks; return whether they stay placed and whether it gets another turn."""
        can_remember = self._can_remember(session)
        remembers = session.failed_turns is not None and can_remember
        to_place = list(tasks) if remembers else []
        failure = foreseen_failure(session, job, tasks) if can_remember else None
        if failure is not None:
            for task in failure.failed:
                session.record_failure(task)
            session.reports.record_rollback(failure.undone)
            if remembers:
                tried = [*failure.undone, *failure.failed]
                self._remember(session, job, to_place, tried, failure.undone, failure.slots)
            return False, False
        placed: list[TaskState] = []
        slots: set[int] = set()
        with session.statement() as statement:
            gets_another = self._place(session, statement, job, tasks)
            is_kept = _keeps_turn(session, job)
            if not remembers:
                if is_kept:
                    statement.commit()
                return is_kept, is_kept and gets_another
            is_undone = not (is_kept and len(statement))
            if is_undone:
                placed = statement.placed()
                slots.update(task.node.slot for task in placed if task.node is not None)
            if is_kept:
                statement.commit()
        if is_undone:
            tried = to_place[: len(to_place) - len(tasks)]
            self._remember(session, job, to_place, tried, placed, slots)
        return is_kept, is_kept and gets_another

    @staticmethod
    def _remember(
        session: Session,
        job: JobState,
        to_place: Sequence[TaskState],
        tried: Sequence[TaskState],
        placed: Sequence[TaskState],
        slots: Collection[int],
    ) -> None:
        """Remember that a turn failed, if the nodes alone decided that."""
        assert session.failed_turns is not None
        undone = set(placed)
        failed = [task for task in tried if task not in undone]
        is_limited = session.plugin_set.limits_queues
        if (
            # Some of the job's tasks were tried in an earlier turn of this cycle.
            len(to_place) < len(tasks_to_place(session, job))
            or (is_limited and (placed or any(t.uid in session.reports.refusals for t in failed)))
        ):
            return
        session.failed_turns.remember(
            job, session.placement, tasks=to_place, failed=failed, undone=placed, slots=slots
        )

    def _end_turn(self, session: Session, job: JobState) -> None:
        if (
            self.evict_backfill
            and job.count(TaskStatus.CONDITIONAL)
            and session.job_condition_ready(job)
            and not session.job_ready(job)
        ):
            make_promises_real(session, job)

    def _place(
        self,
        session: Session,
        placer: Session | Statement,
        job: JobState,
        tasks: TasksInOrder,
    ) -> bool:
        reserved: list[TaskState] = []
        gets_another = False
        while tasks:
            task = tasks.popleft()
            if not place_on_ladder(session, placer, task):
                session.record_failure(task)
                if self._reserve(session, placer, task):
                    reserved.append(task)
                elif not can_still_start(session, job, len(tasks)):
                    break
            elif tasks and session.job_ready(job):
                gets_another = True
                break
        if reserved and not session.job_ready(job) and not session.job_condition_ready(job):
            for task in reversed(reserved):
                placer.unallocate(task)
        return gets_another

    def _reserve(self, session: Session, placer: Session | Statement, task: TaskState) -> bool:
        """Reserve a node for a task of a starving job; return whether a node was found."""
        threshold = self.starvation_threshold
        if threshold is None or task.job is None or not session.is_starving(task.job, threshold):
            return False
        node = first_node_to_reserve(session, task, beside_its_job=self.discard_unready)
        if node is None:
            return False
        placer.reserve(task, node)
        return True


def _largest_first(session: Session, tasks: Iterable[TaskState]) -> list[TaskState]:
    """Sort tasks by decreasing dominant share; return [] if they are in that order already."""
    in_order = list(tasks)
    cluster = session.cluster[: session.dimensions.in_cluster]
    by_size = sorted(in_order, key=lambda task: -dominant_share(task.init_resreq, cluster))
    return by_size if by_size != in_order else []


def _keeps_turn(session: Session, job: JobState) -> bool:
    """Return whether the placements of a turn are kept if unready turns are rolled back."""
    return (
        session.job_ready(job)
        or session.job_pipelined(job)
        or (
            session.job_condition_ready(job)
            and bool(job.count(TaskStatus.CONDITIONAL) or job.count(TaskStatus.RESERVED))
        )
    )
