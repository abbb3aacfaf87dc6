"""plan: start the jobs that fit now, and plan a start for the first ones that do not."""

from __future__ import annotations

from math import inf

from attrs import frozen

from batchsched.actions.action import tasks_to_place
from batchsched.actions.planning.cluster_profile import ClusterProfile, Places
from batchsched.actions.planning.guard import PlanGuard
from batchsched.actions.planning.profile import NOW
from batchsched.actions.planning.reasons import reason_for_no_plan, reason_for_plan
from batchsched.actions.planning.search import PlaceSearch
from batchsched.model.cluster import Plan
from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.turns import Turn, Turns
from batchsched.state.needs import Need, need_of_job
from batchsched.state.records import JobState, QueueState

__all__ = ["PlanAction"]


@frozen(kw_only=True)
class PlanAction:
    """Starts jobs whose tasks fit now, and plans the start of the first that do not.

    Later jobs start now if they delay no planned start. With one plan this is EASY backfilling
    (Lifka, "The ANL/IBM SP scheduling system", 1995), with a plan for every job conservative
    backfilling (Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime
    estimates in scheduling the IBM SP2 with backfilling", 2001); in between it is what Maui calls
    the depth of reservations.
    """

    depth: float = 1
    """The number of jobs for which a start is planned; infinity: all."""
    keep: bool = True
    """Whether the plans of the last cycle (`JobInfo.plan`) are kept as long as they fit."""
    window: float = inf
    """No start is planned later than this many seconds from now."""
    max_jobs: float = inf
    """The most jobs that are considered; infinity: all."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> PlanAction:
        """Read ``depth`` (a number or ``all``), ``keep``, ``window`` and ``maxJobs``."""
        return cls(
            depth=arguments.integer_or_all("depth", default=1, minimum=0),
            keep=arguments.boolean("keep", default=True),
            window=arguments.number("window", default=inf, minimum=0),
            max_jobs=arguments.integer_or_all("maxJobs", default=inf, minimum=1),
        )

    def execute(self, session: Session, /) -> None:
        """Start and plan the next job of the next queue each turn, as allocate does."""
        _Planner(session, self).run()


class _Planner:
    """One cycle of the action."""

    def __init__(self, session: Session, action: PlanAction) -> None:
        self._session = session
        self._action = action
        self._profile = ClusterProfile(session.nodes, session.now)
        self._search = PlaceSearch(session, self._profile)
        self._held: dict[str, Places] = {}
        """The old plans whose places are taken in the profile, by UID of the job."""
        self._before: dict[str, Places] = {}
        """The places of old plans by UID of the job, whether or not the profile has them."""
        self._planned: dict[str, Places] = {}
        """The plans made in this cycle, by UID of the job."""
        self._considered: set[str] = set()

    def run(self) -> None:
        session = self._session
        if self._action.keep:
            self._hold_old_plans()
        turns = Turns(session, session.jobs.values(), closed=self._is_closed)
        for turn in turns:
            if self._take_turn(turn):
                turns.put_back(turn)
        self._publish_plans()

    # Old plans

    def _hold_old_plans(self) -> None:
        session, profile = self._session, self._profile
        waiting = session.live_jobs(
            job for job in session.jobs.values() if job.info.plan is not None
        )
        while waiting:
            job = waiting.pop()
            places = self._old_places(job)
            if places is None:
                continue
            self._before[job.uid] = places
            # A plan that is due starts when it fits: now, or at once, if the task that it waits
            # for is just about to end.
            starts = (places.start,) if places.start > session.now else (NOW, session.now)
            for start in starts:
                moved = Places(start, places.of)
                if profile.take_all(moved):
                    self._held[job.uid] = moved
                    break

    def _old_places(self, job: JobState) -> Places | None:
        """Return the places of the old plan; None if it lacks a node for any needed task."""
        plan = job.info.plan
        need = need_of_job(job, tasks_to_place(self._session, job))
        if plan is None or need is None:
            return None
        node_named = self._session.node_named
        of = [(task, node_named.get(plan.nodes.get(task.uid, ""))) for task in need.tasks]
        known = tuple((task, node) for task, node in of if node is not None)
        return Places(plan.start, known) if len(known) == len(of) else None

    def _forget(self, job: JobState) -> None:
        held = self._held.pop(job.uid, None)
        if held is not None:
            self._profile.put_all_back(held)

    def _is_closed(self, queue: QueueState) -> bool:
        """Return whether a queue is overused; the old plans of its jobs are dropped then."""
        if not self._session.passes_over(queue):
            return False
        for uid in list(self._held):
            job = self._session.jobs[uid]
            if job.queue is queue:
                self._forget(job)
        return True

    # Turns

    def _take_turn(self, turn: Turn) -> bool:
        """Give a job its turn; return whether it gets another one for what it needs next."""
        session = self._session
        job, need = turn.job, turn.need
        if need is None:
            return False
        if job.uid not in self._considered:
            if len(self._considered) >= self._action.max_jobs:
                return False
            self._considered.add(job.uid)
        self._forget(job)
        assert job.queue is not None
        refusal = session.allocatable(job.queue, need)
        if session.record_limit(need, refusal):
            return False
        if refusal is None and self._start_now(job, need):
            turn.left.take_out(need.tasks)
            return bool(turn.left)
        session.record_failure(need.tasks[0])
        if len(self._planned) < self._action.depth:
            self._plan(job, need)
        return False

    def _start_now(self, job: JobState, need: Need) -> bool:
        session, search = self._session, self._search
        has_room = self._profile.has_room_now(need.request, len(need.tasks))
        if not (has_room and search.may_fit_now(need.tasks)):
            # Then it does not fit on its planned nodes either.
            return False
        with session.statement(is_trial=True) as statement:
            places = search.start_now(statement, need.tasks)
            before = self._before.get(job.uid)
            if places is None and before is not None:
                statement.rollback(0)
                places = search.start_as_planned(statement, before)
            if places is None:
                return False
            if not session.job_ready(job):
                self._profile.put_all_back(places)
                return False
            statement.commit()
        # The old plan does not cover what the job needs next.
        self._before.pop(job.uid, None)
        return True

    def _plan(self, job: JobState, need: Need) -> None:
        session = self._session
        latest = session.now + self._action.window
        places = self._search.take_earliest(need.tasks, self._before.get(job.uid), latest)
        if places is None:
            reason = reason_for_no_plan(session, need, self._action.window)
            session.plans.reasons[job.uid] = reason
            return
        session.plans.reasons[job.uid] = reason_for_plan(session, need, places)
        self._planned[job.uid] = places

    # Results

    def _publish_plans(self) -> None:
        session = self._session
        # Old plans of jobs that were not considered stay.
        plans = {**self._held, **self._planned}
        for uid, places in plans.items():
            start = max(places.start, session.now)
            start_by = session.jobs[uid].info.start_by
            if start_by is not None and start > start_by:
                session.plans.late.append(uid)
            session.plans.made[uid] = Plan(
                start=start, nodes={task.uid: node.name for task, node in places.of}
            )
        if plans:
            session.plans.guard = PlanGuard(session, plans.values())
