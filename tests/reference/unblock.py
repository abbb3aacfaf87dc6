"""The end of preempt: broken jobs that hold what others of them need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from attrs import frozen

from batchsched import JobInfo, TaskInfo
from tests.reference.choose import by_score, is_searched, place_without_evicting, searched_nodes
from tests.reference.group_turns import group_turn
from tests.reference.groups import HOPED, READY, Groups, has_groups
from tests.reference.make_room import make_room
from tests.reference.plugins import STARTED, is_broken
from tests.reference.session import Session
from tests.reference.tiers import Victims
from tests.reference.waiting import Waiting

__all__ = ["unblock"]


@frozen
class _Broken:
    """A job, or one of its optional groups, that runs something and cannot start."""

    job: JobInfo
    group: str | None = None
    """The group; None: the job."""

    def runs(self, session: Session) -> list[TaskInfo]:
        """Return all that it has on nodes, in victim order."""
        groups = Groups(session.state, self.job)
        return session.tiers.victims_in_order(
            task
            for task in self.job.tasks
            if session.state.status(task).occupies
            and (self.group is None or self.group in groups.path(task.group))
        )

    def waits(self, session: Session) -> bool:
        """Return whether it still is what it was, and has not been promised what it lacks."""
        if self.group is None:
            is_promised = session.tiers.job_pipelined(self.job)
            return is_broken(session.state, self.job) and not is_promised
        return self.group in _incomplete_groups(session, self.job)


def unblock(session: Session, found: Mapping[str, Sequence[TaskInfo]]) -> None:
    """Let each broken job claim from those after it, for the tasks that preempt found to place."""
    tasks = {
        job.uid: [task for task in session.to_place(job) if task in found.get(job.uid, ())]
        for job in session.jobs
    }
    jobs = [job for job in session.jobs if _Broken(job).waits(session)]
    others = [job for job in session.jobs if _incomplete_groups(session, job)]
    in_order = [
        *(_Broken(job) for job in _in_turn(session, jobs, tasks)),
        *(
            _Broken(job, group)
            for job in _in_turn(session, others, tasks)
            for group in _incomplete_groups(session, job)
        ),
    ]
    for place, one in enumerate(in_order):
        if one.waits(session):
            left = [t for t in session.to_place(one.job) if t in tasks[one.job.uid]]
            _turn(session, one, left, in_order[place + 1 :])


def _in_turn(
    session: Session, jobs: Sequence[JobInfo], tasks: Mapping[str, list[TaskInfo]]
) -> list[JobInfo]:
    """Return jobs queue by queue, in the orders at that moment."""
    queues = [q for q in session.queues.values() if any(job.queue == q.name for job in jobs)]
    in_order: list[JobInfo] = []
    while queues:
        queue = session.next_queue(queues, jobs, tasks)
        queues.remove(queue)
        in_order += session.tiers.jobs_in_order(job for job in jobs if job.queue == queue.name)
    return in_order


def _incomplete_groups(session: Session, job: JobInfo) -> list[str]:
    """Return the groups without which a ready job can do, that have a part of what they need."""
    groups = Groups(session.state, job)
    if not has_groups(job) or not groups.can_start(READY):
        return []
    core = [
        task
        for kind, own, _ in groups.units(session.tiers.tasks_in_order)
        if not kind
        for task in own
    ]
    return [
        group.name
        for group in job.groups
        if groups.count(group.name, STARTED)
        and not groups.is_satisfied(group.name, HOPED)
        and groups.is_satisfied(group.parent, READY)
        and not any(group.name in groups.path(task.group) for task in core)
    ]


def _turn(session: Session, one: _Broken, tasks: list[TaskInfo], after: Sequence[_Broken]) -> None:
    job = one.job

    def place(task: TaskInfo) -> bool:
        return _take_a_place(session, task, after)

    if has_groups(job):
        groups = Groups(session.state, job)
        if one.group is not None:
            tasks = [task for task in tasks if one.group in groups.path(task.group)]
        group_turn(
            session,
            job,
            tasks,
            place,
            lambda: session.tiers.job_pipelined(job),
            is_accepted=is_searched,
        )
        return

    def attempt() -> bool:
        waiting = Waiting(session, tasks, partial(is_searched, session))
        while tasks and not session.tiers.job_pipelined(job):
            task = tasks.pop(0)
            if place(task):
                waiting.try_again()
            else:
                session.failed_tasks.add(task.uid)
                waiting.set_aside(task)
        return session.tiers.job_pipelined(job)

    session.statement(job, attempt)


def _take_a_place(session: Session, task: TaskInfo, after: Sequence[_Broken]) -> bool:
    searched = searched_nodes(session, task)
    return place_without_evicting(session, task, searched) or make_room(
        session,
        "preempt",
        task,
        searched,
        may_use_idle=True,
        is_candidate=lambda other: any(other in one.runs(session) for one in after),
        victims_of=partial(_victims, session, after),
        in_order=partial(by_score, session, task),
    )


def _victims(
    session: Session,
    after: Sequence[_Broken],
    task: TaskInfo,
    candidates: Sequence[TaskInfo],
    may_leave: Callable[[TaskInfo], bool],
) -> Victims:
    """Return what may be taken of which there are candidates, the last in order first."""
    units: list[list[TaskInfo]] = []
    for one in reversed(after):
        runs = one.runs(session)
        if (
            one.waits(session)
            and any(other in candidates for other in runs)
            and all(map(may_leave, runs))
            and not any(map(session.tiers.has_just_started, runs))
            and not session.tiers.keeps_from_all(task, runs)
        ):
            units.append(runs)
    return Victims([], [], units)
