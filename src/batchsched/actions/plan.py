"""plan: start the jobs that fit now, and plan a start for the first ones that do not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from math import inf

from attrs import frozen

from batchsched.actions.plan_in_sets import SetSearch
from batchsched.actions.profile import (
    NOW,
    ClusterProfile,
    Places,
    end_of_run,
    estimate_of,
    expected_end,
    profile_of,
)
from batchsched.actions.remembered_profile import remembered_profile
from batchsched.model.cluster import Plan, TaskStatus
from batchsched.model.reasons import PendingReason, PlannedWait, Unfit, waits_by_plan
from batchsched.placement import Fit
from batchsched.plugin.arguments import Arguments
from batchsched.session.candidates import needs_in_turn, offers_sets
from batchsched.session.plugins import PRIORITY
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import (
    Turn,
    Turns,
    allowed_together,
    exceeds_most,
    need_of,
    record_limit,
    record_no_set,
    tasks_to_place,
)
from batchsched.state.needs import Need, Stage
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.shortcuts import Shortcut


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
        waiting = session.jobs_having(TaskStatus.PENDING)
        if waiting:
            _Planner(session, self).run(waiting)


class _Planner:
    """One cycle of the action."""

    def __init__(self, session: Session, action: PlanAction) -> None:
        self._session = session
        self._action = action
        remembers = Shortcut.ATTEMPTS not in session.plain
        self._profile = (
            remembered_profile(session) if remembers else ClusterProfile(session.nodes, session.now)
        )
        self._search = PlaceSearch(session, self._profile)
        self._in_sets = SetSearch(session, self._profile, self._search.accepts_now)
        self._held: dict[str, Places] = {}
        """The old plans whose places are taken in the profile, by UID of the job."""
        self._before: dict[str, Places] = {}
        """The places of old plans by UID of the job, whether or not the profile has them."""
        self._planned: dict[str, Places] = {}
        """The plans made in this cycle, by UID of the job."""
        self._considered: set[str] = set()
        self._tries_what_fits = remembers and session.teller is None
        """Whether a need is tried only if all nodes together have that much free.

        With 100 nodes of one processor a job of the log KTH-SP2 costs 1.9 times less
        (`changes:kth-100`).
        """
        self._needs = session.memory.turns if self._tries_what_fits else None
        """What is known of what jobs need; see `_fails_now`. None: nothing."""
        plugins = session.plugins
        self._passes_over = (
            action.max_jobs == inf
            and plugins.on_turn_begin is plugins.on_turn_end is None
            and not (plugins.limits_queues or plugins.orders_by_need or plugins.candidate_nodes)
            and not plugins.having("overused")
        )
        """Whether turns that fail have no other effect than that."""

    def run(self, waiting: Iterable[JobState]) -> None:
        """Start and plan jobs with Pending tasks."""
        session = self._session
        if self._action.keep:
            self._hold_old_plans()
        turns = Turns(session, waiting, closed=self._is_closed)
        plans_more = True
        for turn in turns:
            if self._take_turn(turn):
                turns.put_back(turn)
            if plans_more and len(self._planned) >= self._action.depth:
                plans_more = False
                if self._needs is not None and self._passes_over:
                    turns.leave_out(self._fails_now)
        self._publish_plans()

    def _fails_now(self, job: JobState) -> bool:
        """Return whether it is known that a job cannot start now; record what its turn would.

        Once no more starts are planned, such a turn changes nothing, and from then on ever less is
        free. Of the log KTH-SP2 on one node a job costs 1.07 times less (the first 2,000 jobs, of
        which seven wait on average), and the first 500 with four times the load 1.4 times less.
        """
        assert self._needs is not None
        need = self._needs.need_of(job)
        if need is None or job.uid in self._held or self._profile.may_fit_now(need):
            return False
        self._session.record_failure(need.tasks[0])
        return True

    # Old plans

    def _hold_old_plans(self) -> None:
        session, profile = self._session, self._profile
        planned = [job for job in session.jobs.values() if job.info.plan is not None]
        least = self._least_kept(planned)
        waiting = session.live_jobs(planned)
        while waiting:
            job = waiting.pop()
            places = self._old_places(job) if job.info.priority >= least else None
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

    def _least_kept(self, planned: Sequence[JobState]) -> float:
        """Return the least priority of jobs whose plans are kept, where priorities order jobs.

        A plan gives way to a more important job that has none, unless that can never start.
        O(more important jobs without a plan) searches of the profile, until one can.
        """
        session = self._session
        orders = session.plugins.having("job_order_key")
        if not planned or all(opened.name != PRIORITY for opened in orders):
            return -inf
        least = min(job.info.priority for job in planned)
        others = [
            job
            for job in session.jobs.values()
            if job.info.plan is None and job.info.priority > least
        ]
        others.sort(key=lambda job: job.info.priority, reverse=True)
        return next((o.info.priority for o in others if self._may_ever_start(o)), -inf)

    def _may_ever_start(self, job: JobState) -> bool:
        """Return whether a job needs what it could have at some time, without any plans."""
        need = need_of(self._session, job, tasks_to_place(self._session, job))
        if need is None or exceeds_most(self._session, need):
            return False
        return self._fits_at_any_time(need)

    def _fits_at_any_time(self, need: Need) -> bool:
        if offers_sets(self._session, need, Stage.EMPTY):
            return self._in_sets.fits_at_any_time(need)
        return self._search.fits_at_any_time(need.tasks)

    def _that_may_be_had(self, turn: Turn, need: Need) -> Need:
        """Return what a job needs instead of groups for which no set has places at any time."""
        session, groups = self._session, need.job.groups
        if groups is None or groups.needs_all or not offers_sets(session, need, Stage.EMPTY):
            return need
        fits = self._fits_at_any_time
        needs = needs_in_turn(session, need, turn.left, fits)
        return next(filter(fits, needs), need)

    def _old_places(self, job: JobState) -> Places | None:
        """Return the places of the old plan; None if it lacks a node for any needed task.

        Or if plugins determine in which nodes it must be, and it is in several of these sets.
        """
        plan = job.info.plan
        need = need_of(self._session, job, tasks_to_place(self._session, job))
        if plan is None or need is None:
            return None
        node_named = self._session.node_named
        of = [(task, node_named.get(plan.nodes.get(task.uid, ""))) for task in need.tasks]
        known = tuple((task, node) for task, node in of if node is not None)
        if len(known) < len(of):
            return None
        places = Places(plan.start, known)
        is_bound = offers_sets(self._session, need, Stage.EMPTY)
        return None if is_bound and not self._in_sets.is_in_a_set(need, places) else places

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
        need = self._that_may_be_had(turn, need)
        refusal: Unfit | None = None
        if session.plugins.limits_queues:
            assert job.queue is not None
            refusal = session.plugins.allocatable(job.queue, need)
            if refusal is not None:
                together = allowed_together(session, job, turn.left)
                if together is not None:
                    need, refusal = together, None
            if record_limit(session, need, refusal):
                return False
        if refusal is None:
            if not self._tries_what_fits or self._profile.may_fit_now(need):
                # Read before tasks of it start: a need may be remembered without it.
                left = turn.left
                if self._start_now(job, need):
                    left.take_out(need.tasks)
                    return bool(left)
            if offers_sets(session, need, Stage.EMPTY):
                record_no_set(session, need)
            elif self._needs is not None and self._passes_over:
                self._needs.remember_need(need)
        session.record_failure(need.tasks[0])
        if len(self._planned) < self._action.depth:
            self._plan(job, need)
        return False

    def _start_now(self, job: JobState, need: Need) -> bool:
        session, search = self._session, self._search
        with session.statement(is_trial=True) as statement:
            is_bound = offers_sets(session, need, Stage.NOW)
            if is_bound:
                places = self._in_sets.start_now(statement, need)
            else:
                places = search.start_now(statement, need.tasks)
            before = self._before.get(job.uid)
            if places is None and before is not None:
                statement.rollback(0)
                if is_bound:
                    places = self._in_sets.start_as_planned(statement, need, before)
                else:
                    places = search.start_as_planned(statement, before)
            if places is None:
                return False
            if not session.plugins.job_ready(job):
                self._profile.put_all_back(places)
                return False
            statement.commit(fulfils=before is not None)
        # The old plan does not cover what the job needs next.
        self._before.pop(job.uid, None)
        return True

    def _plan(self, job: JobState, need: Need) -> None:
        session = self._session
        latest = session.now + self._action.window
        before = self._before.get(job.uid)
        if offers_sets(session, need, Stage.EMPTY):
            places = self._in_sets.take_earliest(need, before, latest)
        else:
            places = self._search.take_earliest(need.tasks, before, latest)
        if places is None:
            reason = reason_for_no_plan(session, need, self._action.window)
            session.reports.of_job(job).why_planned = reason
            return
        if session.explains_plans:
            why = reason_for_plan(session, need, places)
            session.reports.of_job(job).why_planned = why
        self._planned[job.uid] = places

    # Results

    def _publish_plans(self) -> None:
        session = self._session
        # Old plans of jobs that were not considered stay.
        plans = {**self._held, **self._planned}
        for uid, places in plans.items():
            start = max(places.start, session.now)
            job = session.jobs[uid]
            tried, start_by = session.reports.of_job(job), job.info.start_by
            tried.is_late = start_by is not None and start > start_by
            tried.plan = Plan(start=start, nodes={task.uid: node.name for task, node in places.of})
        if plans:
            session.guard = PlanGuard(session, plans.values())


class PlaceSearch:
    """Finds places in the profile, and takes them.

    Now, or at the earliest time; both searches are greedy, one task after the other.
    """

    def __init__(self, session: Session, profile: ClusterProfile) -> None:
        self._session = session
        self._profile = profile
        self._grouped: tuple[Sequence[TaskState], list[list[TaskState]]] | None = None
        """The last tasks that were grouped, and how."""

    def start_now(self, statement: Statement, tasks: Sequence[TaskState]) -> Places | None:
        """Allocate all tasks from now on and take their places; None if they do not all fit.

        Each task goes to the best node where it fits until its end but would not fit for ever, so
        that long tasks can use the nodes without plans; if there is no such node, to the best
        node where it fits. If they do not all fit, the caller must roll back the statement.
        """
        taken: list[tuple[TaskState, NodeState]] = []
        for alike in self._alike(tasks):
            if not self._start_alike(statement, alike, taken):
                self._profile.put_all_back(Places(NOW, tuple(taken)))
                return None
        return Places(NOW, tuple(taken))

    def _start_alike(
        self,
        statement: Statement,
        tasks: Sequence[TaskState],
        taken: list[tuple[TaskState, NodeState]],
    ) -> bool:
        """Start equal tasks; after each, only the node that it went to is checked again."""
        profile, session = self._profile, self._session
        first = tasks[0]
        nodes = profile.fitting_now(first, session.placement.feasible(first))
        if session.may_choose(first):
            nodes = [node for node in nodes if session.no_choice(first, node, Fit.NOW) is None]
        preferred = [node for node in nodes if self._is_preferred(first, node)]
        for task in tasks:
            if not nodes:
                return False
            node = session.best_among(task, preferred or nodes)
            profile.take(task, node, NOW)
            statement.allocate(task, node)
            taken.append((task, node))
            if task is not tasks[-1]:
                fits = profile.fits(task, node, NOW) and self.accepts_now(task, node)
                _include_if(nodes, node, fits)
                _include_if(preferred, node, fits and self._is_preferred(task, node))
        return True

    def start_as_planned(self, statement: Statement, places: Places) -> Places | None:
        """Allocate all tasks now where they were planned, or none, and take their places."""
        now = Places(NOW, places.of)
        if not self._profile.take_all(now):
            return None
        for task, node in places.of:
            if not self.accepts_now(task, node):
                self._profile.put_all_back(now)
                return None
            statement.allocate(task, node)
        return now

    def take_earliest(
        self, tasks: Sequence[TaskState], before: Places | None, latest: float
    ) -> Places | None:
        """Take the earliest places after now; None if there are none.

        Each task goes to the first node, in node order, where it fits at that time but does not
        fit from now on for ever: a plan takes what becomes free, and leaves what is free now to
        others. If there is no such node, it goes to the first where it fits. If that does not
        find places for all tasks, the places of the plan `before` are tried.

        Args:
            tasks: the tasks, in task order.
            before: the places planned in an earlier cycle.
            latest: the latest start allowed.

        """
        profile, placement = self._profile, self._session.placement
        known = profile.recall_plan(tasks, latest) if before is None else None
        if known is not None:
            return known
        alike = [(each, list(placement.feasible(each[0]))) for each in self._alike(tasks)]
        for start in profile.moments(tasks, latest):
            places = self._at(alike, start)
            if places is None and before is not None:
                again = Places(start, before.of)
                if all(self._accepts(*place) for place in before.of) and profile.take_all(again):
                    places = again
            if places is not None:
                if before is None and all(placement.kind(each[0]) is not None for each, _ in alike):
                    profile.keep_plan(tasks, places)
                return places
        return None

    def fits_at_any_time(self, tasks: Sequence[TaskState]) -> bool:
        """Return whether there are places for all tasks now, or at any time later."""
        feasible = self._session.placement.feasible
        alike = [(each, list(feasible(each[0]))) for each in self._alike(tasks)]
        for start in (NOW, *self._profile.moments(tasks, inf)):
            places = self._at(alike, start)
            if places is not None:
                self._profile.put_all_back(places)
                return True
        return False

    def _at(
        self, alike: Iterable[tuple[Sequence[TaskState], Iterable[NodeState]]], start: float
    ) -> Places | None:
        taken: list[tuple[TaskState, NodeState]] = []
        for tasks, nodes in alike:
            if not self._profile.take_alike(tasks, nodes, start, taken):
                self._profile.put_all_back(Places(start, tuple(taken)))
                return None
        return Places(start, tuple(taken))

    def _is_preferred(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a node where a task fits now would not fit it for ever."""
        return node.index in self._profile.limited and not self._profile.is_open(task, node)

    def _accepts(self, task: TaskState, node: NodeState) -> bool:
        return any(True for _ in self._session.placement.feasible(task, frozenset((node.slot,))))

    def accepts_now(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a node accepts a task now, if it fits there."""
        return self._accepts(task, node) and self._session.no_choice(task, node, Fit.NOW) is None

    def _alike(self, tasks: Sequence[TaskState]) -> list[list[TaskState]]:
        """Group consecutive tasks that need the same resources, time and nodes."""
        if self._grouped is not None and self._grouped[0] is tasks:  # they do not start: plan them
            return self._grouped[1]
        found: list[list[TaskState]] = []
        last: object = None
        for task in tasks:
            kind = self._session.placement.kind(task)
            key = (kind, task.init_resreq, task.resreq, estimate_of(task))
            if kind is None or key != last:
                found.append([])
            found[-1].append(task)
            last = key
        self._grouped = tasks, found
        return found


class PlanGuard:
    """Refuses placements that would make a plan impossible."""

    def __init__(self, session: Session, plans: Collection[Places]) -> None:
        self._now = session.now
        self._plans = plans

    @cached_property
    def _on_node(self) -> dict[int, list[tuple[TaskState, float]]]:
        """The planned tasks and their starts, by index of the node."""
        on_node: dict[int, list[tuple[TaskState, float]]] = {}
        for places in self._plans:
            for task, node in places.of:
                on_node.setdefault(node.index, []).append((task, places.start))
        return on_node

    def allows(self, task: TaskState, node: NodeState, /) -> bool:
        """Return whether all plans still fit if a task runs on a node until its expected end.

        The plan of the task's own job is ignored, and so are plans for tasks that have been
        placed meanwhile. O(tasks and plans on the node).
        """
        planned = [
            (other, start)
            for other, start in self._on_node.get(node.index, ())
            if other.node is None and other.job is not task.job
        ]
        if not planned:
            return True
        profile = profile_of(node, self._now)
        for other, start in planned:
            profile.take(other.resreq, start, end_of_run(start, estimate_of(other), self._now))
        return profile.fits(task.init_resreq, NOW, end_of_run(NOW, estimate_of(task), self._now))


def reason_for_plan(session: Session, need: Need, places: Places) -> PendingReason:
    """Return why a planned job waits: for how much, until when, and for which jobs to end."""
    freed_by = {
        task.info.name if task.job is None else task.job.info.name
        for _, node in places.of
        for task in node.tasks.values()
        if task.status.holds and expected_end(task, session.now) == places.start
    }
    dimension, amount = _largest_part(session, need)
    wait = PlannedWait(
        dimension=dimension,
        amount=amount,
        start=places.start,
        is_now=places.start == session.now,
        freed_by=tuple(sorted(freed_by)),
    )
    return waits_by_plan(wait)


def reason_for_no_plan(session: Session, need: Need, window: float) -> PendingReason:
    """Return why a job waits for which no start could be planned."""
    dimension, amount = _largest_part(session, need)
    within = window if window < inf else None
    return waits_by_plan(PlannedWait(dimension=dimension, amount=amount, window=within))


def _largest_part(session: Session, need: Need) -> tuple[str, int]:
    """Return the dimension where a need is the largest part of the cluster, and the amount."""
    total = [sum(task.init_resreq[d] for task in need.tasks) for d in range(len(need.request))]
    shares = [
        amount / there if there else (inf if amount else 0.0)
        for amount, there in zip(total, session.cluster, strict=True)
    ]
    most = max(range(len(total)), key=lambda d: (shares[d], -d))
    return session.dimensions.names[most], total[most]


def _include_if(nodes: list[NodeState], node: NodeState, has: bool) -> None:
    """Insert a node into a list in node order, or remove it, as `has` says."""
    place = bisect_left(nodes, node.index, key=_index)
    if (place < len(nodes) and nodes[place] is node) != has:
        if has:
            nodes.insert(place, node)
        else:
            del nodes[place]


def _index(node: NodeState) -> int:
    return node.index
