"""The action plan: each rule literally, computed from scratch every time."""

from __future__ import annotations

from math import inf

from attrs import frozen

from batchsched import JobInfo, NodeInfo, Plan, TaskInfo, TaskStatus
from tests.reference.choose import best, feasible_nodes
from tests.reference.conf import Arguments
from tests.reference.session import Session
from tests.reference.state import Take
from tests.reference.timeline import NOW, end_of, fits_between, moments

__all__ = ["plan"]

_Places = list[tuple[TaskInfo, NodeInfo]]


@frozen
class _Options:
    depth: float
    keep: bool
    window: float
    max_jobs: float


def plan(session: Session, arguments: Arguments) -> None:
    """Start what fits now, plan what does not, queue by queue and job by job."""
    _Planner(
        session,
        _Options(
            depth=arguments.number_or_all("depth", 1),
            keep=str(arguments.values.get("keep", True)).lower() != "false",
            window=arguments.number("window", inf),
            max_jobs=arguments.number_or_all("maxJobs", inf),
        ),
    ).run()


class _Planner:
    def __init__(self, session: Session, options: _Options) -> None:
        self.session = session
        self.options = options
        self.takes: dict[str, list[Take]] = {}
        """The planned resources of each job, by its UID."""
        self.before: dict[str, _Places] = {}
        self.kept: set[str] = set()
        """UIDs of the jobs whose old plans hold."""
        self.made: dict[str, list[Take]] = {}
        self.looked_at: set[str] = set()

    def all_takes(self) -> list[Take]:
        return [take for takes in self.takes.values() for take in takes]

    def run(self) -> None:
        session = self.session
        if self.options.keep:
            for job in session.tiers.jobs_in_order(session.jobs):
                if not self.is_outranked(job):
                    self.hold_old_plan(job)
        waiting = {
            name: [job for job in session.jobs if job.queue == name] for name in session.queues
        }
        queues = [queue for queue in session.queues.values() if waiting[queue.name]]
        tasks: dict[str, list[TaskInfo]] = {}
        while queues:
            jobs = [job for name in waiting for job in waiting[name]]
            queue = session.next_queue(queues, jobs, tasks)
            if session.tiers.overused(queue):
                for job in session.jobs:
                    if job.queue == queue.name and job.uid not in self.made:
                        self.takes.pop(job.uid, None)
            if session.tiers.overused(queue) or not waiting[queue.name]:
                queues.remove(queue)
                continue
            job = session.next_job(waiting[queue.name], tasks)
            waiting[queue.name].remove(job)
            if self.turn(job):
                waiting[queue.name].append(job)
        session.planned = self.all_takes()
        for uid, takes in self.takes.items():
            session.plans[uid] = Plan(
                start=max(takes[0].start, session.now),
                nodes={take.task.uid: take.node.name for take in takes},
            )

    def need_of(self, job: JobInfo) -> list[TaskInfo]:
        tasks = self.session.to_place(job)
        return self.session.need(job, tasks) if tasks else []

    # Old plans

    def is_outranked(self, job: JobInfo) -> bool:
        """Return whether a more important job that may start at some time waits without a plan."""
        return self.session.tiers.priority_orders_jobs and any(
            other.priority > job.priority and other.plan is None and self.may_ever_start(other)
            for other in self.session.jobs
        )

    def may_ever_start(self, job: JobInfo) -> bool:
        """Return whether a job has a need that it could have at some time, without any plans."""
        need, limits = self.need_of(job), self.session.tiers.limits
        queue = self.session.queues[job.queue]
        if not need or (limits is not None and limits.never_allows(queue, need)):
            return False
        held, self.takes = self.takes, {}
        times = [NOW, *moments(self.session, [])]
        fits = any(self.place_each_at(need, start) is not None for start in times)
        self.takes = held
        return fits

    def hold_old_plan(self, job: JobInfo) -> None:
        need = self.need_of(job)
        if job.plan is None or not need:
            return
        named = {node.name: node for node in self.session.nodes}
        places = [(task, named.get(job.plan.nodes.get(task.uid, ""))) for task in need]
        if any(node is None for _, node in places):
            return
        old = [(task, node) for task, node in places if node is not None]
        self.before[job.uid] = old
        now = self.session.now
        for start in (job.plan.start,) if job.plan.start > now else (NOW, now):
            takes = self.all_fit(old, start)
            if takes is not None:
                self.takes[job.uid] = takes
                self.kept.add(job.uid)
                return

    def all_fit(self, places: _Places, start: float) -> list[Take] | None:
        """Return what tasks would take at these places; None if they do not all fit."""
        takes: list[Take] = []
        for task, node in places:
            end = end_of(self.session, task, start)
            others = [*self.all_takes(), *takes]
            if not fits_between(self.session, task, node, others, start, end):
                return None
            takes.append(Take(task, node, start, end))
        return takes

    # Turns

    def turn(self, job: JobInfo) -> bool:
        need = self.need_of(job)
        if not need:
            return False
        if job.uid not in self.looked_at:
            if len(self.looked_at) >= self.options.max_jobs:
                return False
            self.looked_at.add(job.uid)
        self.takes.pop(job.uid, None)
        queue, capacity = self.session.queues[job.queue], self.session.tiers.limits
        is_let_in = capacity is None or capacity.allows(queue, need)
        if not is_let_in:
            together = self.session.allowed_together(job, self.session.to_place(job))
            is_let_in, need = bool(together), together or need
        if capacity is not None and not is_let_in and not capacity.lacks_room_alone(queue, need):
            self.session.failed_tasks.update(task.uid for task in need)
            return False
        if is_let_in and self.start_now(job, need):
            self.before.pop(job.uid, None)
            return bool(self.session.to_place(job))
        self.session.failed_tasks.add(need[0].uid)
        if len(self.made) < self.options.depth:
            takes = self.earliest(job, need)
            if takes is not None:
                self.made[job.uid] = self.takes[job.uid] = takes
        return False

    def start_now(self, job: JobInfo, need: list[TaskInfo]) -> bool:
        session = self.session

        def place_each() -> bool:
            for task in need:
                end = end_of(session, task, NOW)
                takes = self.all_takes()
                nodes = [
                    node
                    for node in feasible_nodes(session, task)
                    if fits_between(session, task, node, takes, NOW, end)
                ]
                short = [n for n in nodes if not fits_between(session, task, n, takes, NOW, inf)]
                if not nodes:
                    return False
                chosen = best(session, task, short or nodes)
                session.place(task, TaskStatus.ALLOCATED, chosen)
            return session.tiers.job_ready(job)

        def place_as_planned() -> bool:
            old = self.before.get(job.uid)
            if old is None or self.all_fit(old, NOW) is None:
                return False
            for task, node in old:
                if node not in feasible_nodes(session, task):
                    return False
                session.place(task, TaskStatus.ALLOCATED, node)
            return session.tiers.job_ready(job)

        was_planned = job.uid in self.kept
        return session.statement(job, place_each, is_earned=was_planned) or session.statement(
            job, place_as_planned, is_earned=was_planned
        )

    def earliest(self, job: JobInfo, need: list[TaskInfo]) -> list[Take] | None:
        session = self.session
        for start in moments(session, self.all_takes()):
            if start > session.now + self.options.window:
                return None
            takes = self.place_each_at(need, start)
            old = self.before.get(job.uid)
            if takes is None and old is not None:
                accepted = all(node in feasible_nodes(session, task) for task, node in old)
                takes = self.all_fit(old, start) if accepted else None
            if takes is not None:
                return takes
        return None

    def place_each_at(self, need: list[TaskInfo], start: float) -> list[Take] | None:
        session = self.session
        takes: list[Take] = []
        for task in need:
            end = end_of(session, task, start)
            others = [*self.all_takes(), *takes]
            nodes = [
                node
                for node in feasible_nodes(session, task)
                if fits_between(session, task, node, others, start, end)
            ]
            freed = [n for n in nodes if not fits_between(session, task, n, others, NOW, inf)]
            if not nodes:
                return None
            takes.append(Take(task, (freed or nodes)[0], start, end))
        return takes
