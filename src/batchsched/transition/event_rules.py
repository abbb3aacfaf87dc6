"""What events do to tasks, jobs, nodes and queues: the only rules for changes between cycles.

`next_snapshot` applies them to a whole snapshot, `batchsched.live.Cluster` to what events name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, cast

from attrs import AttrsInstance, evolve, fields, frozen

from batchsched.errors import EventError, Fault
from batchsched.model.cluster import (
    HasChoices,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.immutable import EMPTY, copier
from batchsched.model.resources import Amount, Resource, decayed, exact
from batchsched.model.result import CycleResult
from batchsched.model.rules import unmet_dependencies
from batchsched.model.snapshot import COMMON, Snapshot
from batchsched.model.topology import without_nodes
from batchsched.model.validation.arguments import checks_arguments, field_problems, problems_of
from batchsched.model.validation.snapshot import (
    is_sound_job,
    queue_cycles,
    queue_problems,
    snapshot_faults,
)
from batchsched.model.validation.tasks import dependency_cycle_faults
from batchsched.model.validation.topology import (
    has_requests,
    levels_of,
    requests_problems,
    without_requests,
)
from batchsched.model.validation.values import (
    Problems,
    is_of,
    is_text,
    is_tuple,
    join_path,
    shown,
    time_problems,
)
from batchsched.transition import events as happened
from batchsched.transition.content import Content, Part
from batchsched.transition.ledger_of_evictions import let_time_pass

TO_START = (TaskStatus.BINDING, TaskStatus.BOUND)
"""The statuses of tasks that are on their nodes and have yet to start."""
FOUND = (TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RELEASING)
"""The statuses in which a task can be found on a node."""

_LEFT = ("leaving", "left_devices", "left_choices")
_LEAVES_NONE = (None, None, EMPTY)
_where_it_leaves: Callable[[TaskInfo], tuple[object, ...]] = attrgetter(*_LEFT)
_in_place = copier(TaskInfo, "status", "node_name", "is_backfill", "start_time", *_LEFT)
_with_choices = copier(TaskInfo, "choices", "devices")
_with_service = copier(TaskInfo, "attained_service", "start_time")
_ended = copier(TaskInfo, "status", "node_name", "start_time", "attained_service", *_LEFT)
_promised = copier(TaskInfo, "status", "node_name", *_LEFT)


@checks_arguments()
def as_new(task: TaskInfo) -> TaskInfo | None:
    """Return the task that a controller creates in place of one that is gone.

    It is Pending and has the same UID. It is not marked as backfill, since the mark belonged to
    the placement. Its `TaskInfo.attained_service` in earlier runs is kept.
    """
    return placed(task, TaskStatus.PENDING, None, is_backfill=False)


def placed(
    task: TaskInfo,
    status: TaskStatus,
    node_name: str | None,
    *,
    is_backfill: bool | None = None,
    chosen: TaskInfo | HasChoices | None = None,
) -> TaskInfo:
    """Return the task with this status, node and backfill mark; itself if nothing changes.

    Its start time is removed if it no longer holds resources. `chosen` has what plugins have chosen
    for it; None: it keeps that if it stays on its node. A task that moves does so as long as it is
    promised a place.
    """
    mark = task.is_backfill if is_backfill is None else is_backfill
    if chosen is None and task.node_name == node_name is not None:
        chosen = task
    if task.status is not status or task.node_name != node_name or task.is_backfill is not mark:
        left = _where_it_leaves(task) if status is TaskStatus.PIPELINED else _LEAVES_NONE
        start_time = task.start_time if status.holds or left[0] is not None else None
        task = _in_place(task, status, node_name, mark, start_time, *left)
    return _having(task, chosen)


def starting(
    task: TaskInfo,
    status: TaskStatus,
    node_name: str,
    *,
    is_backfill: bool,
    now: float,
    chosen: TaskInfo | HasChoices | None = None,
) -> TaskInfo:
    """Return the task as Binding or Running, with its resources held since `now`."""
    return _having(_in_place(task, status, node_name, is_backfill, now, *_LEAVES_NONE), chosen)


def moving(task: TaskInfo, node_name: str, chosen: HasChoices) -> TaskInfo:
    """Return a running task as one that is promised another node, and leaves its own."""
    assert task.node_name is not None
    left = task.node_name, task.devices, task.choices
    return _having(_promised(task, TaskStatus.PIPELINED, node_name, *left), chosen)


def staying(task: TaskInfo, status: TaskStatus) -> TaskInfo:
    """Return a task that moves as one that has a status where it still runs, and nothing else."""
    assert task.leaving is not None
    stays = _promised(task, status, task.leaving, *_LEAVES_NONE)
    return _with_choices(stays, task.left_choices, task.left_devices)


def as_it_was(task: TaskInfo, before: TaskInfo) -> TaskInfo:
    """Return a task that is described anew in the place that it had before.

    What plugins have chosen for it there stays, as far as the description does not tell it; the
    devices, as long as it claims the same.
    """
    claims_the_same = task.claims == before.claims
    stays = task.devices is None and claims_the_same
    return evolve(
        task,
        status=before.status,
        node_name=before.node_name,
        is_backfill=before.is_backfill,
        start_time=before.start_time,
        attained_service=before.attained_service,
        leaving=before.leaving,
        left_devices=before.left_devices if claims_the_same else None,
        left_choices=before.left_choices,
        choices=task.choices or before.choices,
        devices=before.devices if stays else task.devices,
    )


def _having(task: TaskInfo, chosen: TaskInfo | HasChoices | None) -> TaskInfo:
    """Return the task with what plugins have chosen for it; None: nothing."""
    choices = EMPTY if chosen is None else chosen.choices
    devices = None if chosen is None else chosen.devices
    if task.choices == choices and task.devices == devices:
        return task
    return _with_choices(task, choices, devices)


def with_run_added(task: TaskInfo, now: float) -> TaskInfo:
    """Return the task with its present run, which ends now, added to its attained service.

    A run with an unknown start adds nothing.
    """
    attained = task.seconds_held(now)
    if attained == task.attained_service:
        return task
    return _with_service(task, attained, None)


@frozen
class TaskRule:
    """The tasks to which an event can happen, and its effect."""

    applies: Callable[[TaskInfo], bool]
    who: str
    """A description of these tasks that completes "only a task that"."""
    after: Callable[[TaskInfo, float], TaskInfo | None]
    """Returns the task after the event, given the time; None: it is removed."""

    def problem(self, task: TaskInfo) -> str:
        """Return why this cannot have happened to the task, or an empty string."""
        if self.applies(task):
            return ""
        return f"the task is {task.status.value}; only one that {self.who}"


def _becomes(status: TaskStatus) -> Callable[[TaskInfo, float], TaskInfo]:
    return lambda task, _now: placed(task, status, task.node_name)


def _ends(status: TaskStatus) -> Callable[[TaskInfo, float], TaskInfo]:
    def ended(task: TaskInfo, now: float) -> TaskInfo:
        attained = task.seconds_held(now)
        return _having(_ended(task, status, None, None, attained, *_LEAVES_NONE), None)

    return ended


def has_left(task: TaskInfo, now: float) -> TaskInfo:
    """Return a task that moves and has left its node: it waits for the one that it is promised."""
    return _promised(with_run_added(task, now), task.status, task.node_name, *_LEAVES_NONE)


def _is_gone(task: TaskInfo, now: float) -> TaskInfo | None:
    if task.leaving is not None:
        return has_left(task, now)
    return as_new(with_run_added(task, now))


def _runs_on(task: TaskInfo, _now: float) -> TaskInfo:
    if task.leaving is not None:
        return staying(task, TaskStatus.RUNNING)
    return placed(task, TaskStatus.RUNNING, task.node_name)


_HOLDS = attrgetter("is_on_node")


def _is_to_start(task: TaskInfo) -> bool:
    return task.status in TO_START


def _is_releasing(task: TaskInfo) -> bool:
    return task.status is TaskStatus.RELEASING or task.leaving is not None


RULES = {
    "succeeded": TaskRule(_HOLDS, "is on a node can have succeeded", _ends(TaskStatus.SUCCEEDED)),
    "failed": TaskRule(_HOLDS, "is on a node can have failed", _ends(TaskStatus.FAILED)),
    "gone": TaskRule(_HOLDS, "is on a node can have left it", _is_gone),
    "removed": TaskRule(lambda _task: True, "", lambda _task, _now: None),
    "started": TaskRule(
        _is_to_start, "is bound and has yet to start can start", _becomes(TaskStatus.RUNNING)
    ),
    "not_started": TaskRule(_is_to_start, "is bound has yet to start", _becomes(TaskStatus.BOUND)),
    "bind_refused": TaskRule(
        _is_to_start,
        "is bound and has yet to start can have been refused",
        lambda task, _now: as_new(task),
    ),
    "releasing": TaskRule(
        attrgetter("status.occupies"),
        "runs on a node can be going away",
        _becomes(TaskStatus.RELEASING),
    ),
    "still_releasing": TaskRule(
        _is_releasing, "is Releasing has yet to leave", lambda task, _now: task
    ),
    "eviction_refused": TaskRule(
        lambda task: _is_releasing(task) and task.node_name is not None,
        "is Releasing on a node can go on running",
        _runs_on,
    ),
}
"""The rules by name of the event."""


def carried_over(
    jobs: Iterable[JobInfo],
    removed: Sequence[JobInfo],
    before: Snapshot,
    result: CycleResult | None,
    *,
    now: float,
    broken: Collection[str] = (),
) -> list[JobInfo]:
    """Return jobs, whose tasks are up to date, with their new eligible times and plans.

    Dependencies hold if they hold before or after jobs are removed. Without a result, plans do not
    change. O(jobs).

    Args:
        jobs: the jobs of the next snapshot.
        removed: the removed jobs, with their tasks before they were removed.
        before: the last snapshot.
        result: the result of the last cycle.
        now: the time of the next cycle.
        broken: the UIDs of the jobs that lost tasks that they need in the last cycle.

    """
    jobs = list(jobs)
    known = {job.uid for job in before.jobs}.difference(job.uid for job in removed)
    times: dict[str, float] = {}
    if any(map(_waits_for_others, jobs)):
        held = _eligible(before.jobs)
        holds = held | _eligible(jobs) | _eligible([*removed, *jobs])
        times = {
            job.uid: now if job.uid in known - held else job.creation_time
            for job in jobs
            if job.uid in holds and _waits_for_others(job)
        }

    def carried(job: JobInfo) -> JobInfo:
        time = times.get(job.uid, job.eligible_time)
        plan = job.plan
        if result is not None and job.uid in known:
            plan = result.planned.get(job.uid)
        last = before.now if job.uid in broken else job.last_evicted
        if plan == job.plan and time == job.eligible_time and last == job.last_evicted:
            return job
        return evolve(job, plan=plan, eligible_time=time, last_evicted=last)

    return [carried(job) for job in jobs]


def _waits_for_others(job: JobInfo) -> bool:
    return bool(job.depends_on) and job.eligible_time is None


def _eligible(jobs: Sequence[JobInfo]) -> set[str]:
    """Return the UIDs of the jobs whose dependencies hold among these jobs. O(jobs)."""
    return {job.uid for job in jobs if _waits_for_others(job)}.difference(unmet_dependencies(jobs))


def set_eligible_times(
    content: Content, uids: Iterable[str] | None = None, *, time: float | None = None
) -> None:
    """Set the eligible times of jobs whose dependencies hold.

    O(dependencies of the jobs).

    Args:
        content: the tables.
        uids: the jobs that are not known to be eligible; None: all of them.
        time: the eligible time; None: the creation time of each job, as of those that came so.

    """
    waiting = list(content.dependent) if uids is None else list(uids)
    unmet = content.unmet(waiting)
    for uid in waiting:
        if uid not in unmet:
            job = content.jobs[uid]
            at = job.creation_time if time is None else time
            content.put("jobs", uid, evolve(job, eligible_time=at))


def keep_plans(content: Content, planned: Mapping[str, Plan]) -> None:
    """Replace the plans of all jobs by those of the last cycle. O(plans)."""
    for uid in {**content.planned, **dict.fromkeys(planned)}:
        job = content.jobs.get(uid)
        if job is not None and job.plan != planned.get(uid):
            content.put("jobs", uid, evolve(job, plan=planned.get(uid)))


_NOTHING = Resource()

_Held = dict[tuple[str, str], dict[str, int]]
"""By queue and user, the amounts of each dimension, exact."""


def queues_after(
    before: Snapshot,
    result: CycleResult | None,
    given: Sequence[Queue] | None,
    *,
    now: float,
) -> Sequence[Queue]:
    """Return the queues at the time `now`: those given, or else those of the snapshot.

    In between, tasks hold their resources as the decisions of the cycle say. Given queues are
    updated if their use has not been changed by the caller; a changed use is taken as of `now`.
    O(tasks), if any queue has a half-life.
    """
    if given is not None and (
        any(next(queue_problems(queue), None) for queue in given) or any(queue_cycles(given))
    ):
        return given  # the snapshot reports the fault
    queues = before.queues if given is None else given
    tasks = ((job, task) for job in before.jobs for task in job.tasks)
    after = _passed(queues, tasks, result, now - before.now)
    if given is None:
        return after
    were = {queue.name: queue for queue in before.queues}
    return [
        new if _is_same(queue, were.get(queue.name)) else queue
        for queue, new in zip(queues, after, strict=True)
    ]


def let_use_pass(content: Content, now: float, result: CycleResult | None = None) -> None:
    """Update the use of the queues in `content` to a later time. O(tasks on nodes).

    Args:
        content: the tables, whose time is still the earlier one.
        now: the later time.
        result: the result of a cycle that has taken effect and is not in the tables yet.

    """
    queues = list(content.queues.values())
    after = _passed(queues, _on_nodes(content, result), result, now - content.now)
    for before, queue in zip(queues, after, strict=True):
        if queue is not before:
            content.put("queues", queue.name, queue)


def _on_nodes(content: Content, result: CycleResult | None) -> Iterator[tuple[JobInfo, TaskInfo]]:
    """Yield the tasks of jobs that are on nodes, or that a result binds, with their jobs."""
    uids = {uid for there in content.on_node.values() for uid in there}
    if result is not None:
        uids.update(bind.task_uid for bind in result.binds)
    for uid in sorted(uids):
        if uid in content.owner:
            yield content.jobs[content.owner[uid]], content.tasks[uid]


_use_of = attrgetter("usage", "usage_by_user", "usage_half_life")


def _is_same(queue: Queue, before: Queue | None) -> bool:
    return before is not None and _use_of(queue) == _use_of(before)


def _held(tasks: Iterable[tuple[JobInfo, TaskInfo]], result: CycleResult | None) -> _Held:
    """Return what is charged to queues: without backfill tasks and leaving tasks."""
    bound: dict[str, bool] = {}
    evicted: set[str] = set()
    if result is not None:
        bound = {bind.task_uid: bind.is_backfill for bind in result.binds}
        evicted = {eviction.task_uid for eviction in result.evictions}
    held: _Held = {}
    for job, task in tasks:
        is_backfill = bound.get(task.uid)
        if is_backfill is None:
            if not task.status.occupies or task.uid in evicted:
                continue
            is_backfill = task.is_backfill
        if is_backfill:
            continue
        amounts = held.setdefault((job.queue, job.user), {})
        for dimension, amount in task.resreq.dimensions():
            if amount:
                amounts[dimension] = amounts.get(dimension, 0) + exact(amount)
    return held


def _passed(
    queues: Sequence[Queue],
    tasks: Iterable[tuple[JobInfo, TaskInfo]],
    result: CycleResult | None,
    seconds: float,
) -> Sequence[Queue]:
    """Return the queues after these tasks have been there for some seconds."""
    if seconds <= 0 or not any(queue.usage_half_life for queue in queues):
        return queues
    parents = {queue.name: queue.parent for queue in queues}
    by_queue: dict[str, dict[str, dict[str, int]]] = {}
    together: dict[str, dict[str, int]] = {}
    for (name, user), amounts in _held(tasks, result).items():
        by_queue.setdefault(name, {})[user] = amounts
        above: str | None = name
        while above is not None and above in parents:
            total = together.setdefault(above, {})
            for dimension, amount in amounts.items():
                total[dimension] = total.get(dimension, 0) + amount
            above = parents[above]
    return [
        _passed_alone(queue, together.get(queue.name, {}), by_queue.get(queue.name, {}), seconds)
        for queue in queues
    ]


def _passed_alone(
    queue: Queue,
    held: Mapping[str, int],
    by_user: Mapping[str, Mapping[str, int]],
    seconds: float,
) -> Queue:
    half_life = queue.usage_half_life
    if not half_life or not (held or by_user or queue.usage_by_user or queue.usage != _NOTHING):
        return queue
    users = {
        user: decayed(
            queue.usage_by_user.get(user, _NOTHING),
            _resource(by_user.get(user, {})),
            seconds,
            half_life=half_life,
        )
        for user in sorted({*queue.usage_by_user, *by_user})
    }
    return evolve(
        queue,
        usage=decayed(queue.usage, _resource(held), seconds, half_life=half_life),
        usage_by_user={user: used for user, used in users.items() if used != _NOTHING},
    )


def _resource(amounts: Mapping[str, int]) -> Resource:
    scalars: dict[str, Amount] = {
        name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")
    }
    return Resource(
        milli_cpu=amounts.get("cpu", 0), memory=amounts.get("memory", 0), scalars=scalars
    )


def apply_events(content: Content, events: Iterable[object]) -> None:
    """Apply events; the caller commits them. O(changes).

    Raises:
        EventError: events name objects that do not exist, do not fit their state, or add invalid
            objects; all faults at once, and nothing has changed.

    """
    before = content.mark()
    set_eligible_times(content)
    applied = _Applied(content)
    try:
        applied.all(events)
    except BaseException:
        content.undo_to(before)
        raise
    if applied.faults:
        content.undo_to(before)
        raise EventError(applied.faults)


_CHECKED_WITH: Mapping[str, Sequence[Part]] = {
    "devices": ("nodes",),
    "queues": ("queues",),  # they refer to one another
    "topologies": ("nodes", "topologies"),
}
"""The parts of a snapshot that are checked when something changed that concerns all of them."""


class _Applied:
    """Applies events one by one and collects the faults."""

    def __init__(self, content: Content) -> None:
        self.faults: list[Fault] = []
        self._content = content
        self._path = ""
        self._to_check: list[tuple[str, str, JobInfo | TaskInfo | NodeInfo | Queue]] = []
        """New or changed objects: the path of the event, the part of a snapshot, the object."""
        self._changed: dict[str, str] = {}
        """What is checked as a whole since it changed (queues, topologies, and devices that several
        nodes reach): the path of the last event that concerned it."""
        self._requests_to_check: dict[str, str] = {}
        """By UID, the jobs that ask something of topologies and changed: the path of the event."""
        self._may_close_cycle = ""
        """The path of the last job to arrive that depends on others and that others wait for."""
        self._nodes_removed: dict[str, str] = {}
        """The names of removed nodes, with the paths of the events."""
        self._awaited: dict[str, dict[str, None]] = {}
        """By UID of a job, the UIDs of the jobs that depend on it and are not eligible yet."""
        self._failed: Exception | None = None
        """An exception caused by an invalid object, raised only if no fault is found."""
        for uid in content.dependent:
            self._await(uid)

    def all(self, events: Iterable[object]) -> None:
        for position, event in enumerate(events):
            self._path = f"events[{position}]"
            if type(event) in _EVENTS:
                self._one(cast("AttrsInstance", event), *_EVENTS[type(event)])
            else:
                self._refuse(f"expected an event of batchsched.live, got {shown(event)}")
        self._check_parts()
        for name, path in self._nodes_removed.items():
            self._check_removed(name, path)
        if self._failed is not None and not self.faults:
            raise self._failed

    def _one(self, event: AttrsInstance, rule: str | _Handler, names: Mapping[str, str]) -> None:
        so_far = len(self.faults)
        for below, message in field_problems(event):
            self._refuse(message, below)
        if len(self.faults) > so_far:
            return
        for field, table in names.items():
            name: str = getattr(event, field)
            if not self._expect(name, getattr(self._content, table), table[:-1]):
                return
        try:
            if isinstance(rule, str):
                self._task(rule, cast("happened.TaskStarted", event).uid)
            else:
                rule(self, event)
        except Exception as error:
            self._failed = self._failed or error

    def _refuse(self, message: str, below: str = "") -> None:
        self.faults.append(Fault(join_path(self._path, below), message))

    # Jobs that depend on others

    def _await(self, uid: str) -> None:
        for dependency in self._content.jobs[uid].depends_on:
            if dependency.job != uid:  # that is told of the job by itself
                self._awaited.setdefault(dependency.job, {})[uid] = None

    def _take_up(self, uid: str) -> None:
        """Let a job that has arrived be eligible since it was created, or wait for others."""
        set_eligible_times(self._content, [uid])
        if uid in self._content.dependent:
            self._await(uid)
            if uid in self._awaited:
                self._may_close_cycle = self._path

    def _let_start(self, uid: str) -> None:
        """Let jobs be eligible that waited for a job to which something happened.

        After each event, since the next may remove the job, undo what happened, or let time pass.
        """
        waiting = [each for each in self._awaited.get(uid, ()) if each in self._content.dependent]
        set_eligible_times(self._content, waiting, time=self._content.now)

    def _is_text(self, name: object, what: str) -> bool:
        if is_text(name):
            return True
        self._refuse(f"expected a string as {what}, got {shown(name)}")
        return False

    def _expect(self, name: str, there: Container[str], what: str) -> bool:
        if name in there:
            return True
        self._refuse(f"there is no {what} {shown(name)}")
        return False

    # Tasks

    def _task(self, rule_name: str, uid: str) -> None:
        content = self._content
        task, owner = content.tasks[uid], content.owner.get(uid)
        rule = RULES[rule_name]
        if not rule.applies(task):
            self._refuse(f"task {uid!r}: {rule.problem(task)}")
            return
        # A task without a job is not replaced.
        is_left_for_good = rule_name == "gone" and uid in content.others
        after = None if is_left_for_good else rule.after(task, content.now)
        if after is None:
            content.take_out_task(uid)
            self._check_request_of(owner)
        elif after is not task:
            content.put("tasks", uid, after)
        if self._awaited and owner is not None:
            self._let_start(owner)

    def other_task_arrived(self, event: happened.OtherTaskArrived) -> None:
        task = event.task
        if self._is_new_task(task):
            self._to_check.append((self._path, "other_tasks", task))
            self._content.put("tasks", task.uid, task)

    def tasks_added(self, event: happened.TasksAdded) -> None:
        content, uid = self._content, event.job_uid
        sound: list[TaskInfo] = []
        for task in event.tasks:
            if self._is_new_task(task):
                sound.append(task)
                content.put("owner", task.uid, uid)
                content.put("tasks", task.uid, task)
        content.put("members", uid, tuple(sorted([*content.members[uid], *_uids(sound)])))
        self._let_start(uid)
        self._check_request_of(uid)
        self._to_check.append((self._path, "jobs", evolve(content.jobs[uid], tasks=sound)))

    def _is_new_task(self, task: TaskInfo) -> bool:
        if not self._is_text(task.uid, "UID of a task"):
            return False
        if task.uid in self._content.tasks:
            owner = self._content.owner.get(task.uid)
            where = "of no job" if owner is None else f"of job {owner!r}"
            self._refuse(f"there is a task {task.uid!r} already, {where}")
            return False
        for below, message in _no_place(task):
            self._refuse(f"task {task.uid!r}: {below}: {message}")
        return not any(_no_place(task))

    # Jobs

    def job_arrived(self, event: happened.JobArrived) -> None:
        content, job = self._content, event.job
        if job.uid in content.jobs:
            self._refuse(f"there is a job {job.uid!r} already")
            return
        self._to_check.append((self._path, "jobs", job))
        tasks: object = job.tasks
        if not is_tuple(tasks) or not all(
            is_of(task, TaskInfo) and not any(_no_place(task)) for task in job.tasks
        ):
            return  # the check of the job reports the fault
        new = [task for task in job.tasks if self._is_new_task(task)]
        if len(set(_uids(new))) == len(job.tasks):
            content.enter(job)
            self._check_request_of(job.uid)
            if job.uid in content.dependent:
                self._take_up(job.uid)
            self._let_start(job.uid)

    def job_changed(self, event: happened.JobChanged) -> None:
        content, uid = self._content, event.uid
        changed = evolve(content.jobs[uid], **said_of_job(event))
        self._to_check.append((self._path, "jobs", changed))
        content.put("jobs", uid, changed)
        self._check_request_of(uid)
        self._let_start(uid)

    def job_ended(self, event: happened.JobEnded) -> None:
        content, uid = self._content, event.uid
        end = _ends(TaskStatus.SUCCEEDED if event.succeeded else TaskStatus.FAILED)
        for member in content.members[uid]:
            task = content.tasks[member]
            if not task.status.ended:
                content.put("tasks", member, end(task, content.now))
        self._let_start(uid)

    def task_changed(self, event: happened.TaskChanged) -> None:
        task, there = event.task, self._content.tasks
        if self._is_text(task.uid, "UID of a task") and self._expect(task.uid, there, "task"):
            self._put_checked(as_it_was(task, there[task.uid]))

    def task_found(self, event: happened.TaskFound) -> None:
        content, uid = self._content, event.uid
        task, status = content.tasks[uid], event.status
        if status not in FOUND:
            known = ", ".join(each.value for each in FOUND)
            self._refuse(f"expected one of {known}, got {shown(status)}", "status")
        elif task.status.ended:
            self._refuse(f"task {uid!r}: the task is {task.status.value}; it cannot run again")
        elif task.leaving is not None and task.leaving == event.node_name:
            content.put("tasks", uid, staying(task, status))
        elif task.status.holds and task.node_name == event.node_name:
            content.put("tasks", uid, placed(task, status, task.node_name))
        else:
            task = with_run_added(task, content.now)
            found = starting(
                task, status, event.node_name, is_backfill=task.is_backfill, now=content.now
            )
            content.put("tasks", uid, found)
            owner = content.owner.get(uid)
            if owner is not None:
                self._let_start(owner)

    def task_holds_changed(self, event: happened.TaskHoldsChanged) -> None:
        self._put_checked(evolve(self._content.tasks[event.uid], holds=event.holds))

    def _put_checked(self, changed: TaskInfo) -> None:
        content = self._content
        owner = content.owner.get(changed.uid)
        if owner is None:
            self._to_check.append((self._path, "other_tasks", changed))
        else:
            of_job = evolve(content.jobs[owner], tasks=[changed])
            self._to_check.append((self._path, "jobs", of_job))
            self._check_request_of(owner)
        content.put("tasks", changed.uid, changed)

    def job_removed(self, event: happened.JobRemoved) -> None:
        self._leave(event.uid)

    def ended_jobs_removed(self, _event: happened.EndedJobsRemoved) -> None:
        for uid in list(self._content.ended_jobs()):
            self._leave(uid)

    def _leave(self, uid: str) -> None:
        self._content.leave(uid)
        self._let_start(uid)

    # Nodes and queues

    def described(
        self,
        event: happened.NodeAdded
        | happened.NodeChanged
        | happened.QueueAdded
        | happened.QueueChanged,
    ) -> None:
        content = self._content
        is_new = isinstance(event, (happened.NodeAdded, happened.QueueAdded))
        item: NodeInfo | Queue
        there: Container[str]
        if isinstance(event, (happened.NodeAdded, happened.NodeChanged)):
            item, what, there = event.node, "node", content.nodes
        else:
            item, what, there = event.queue, "queue", content.queues
        if not self._is_text(item.name, f"name of a {what}"):
            return
        is_known = item.name in there
        if is_new and is_known:
            self._refuse(f"there is a {what} {item.name!r} already; see {what.title()}Changed")
        elif not is_new and not is_known:
            self._refuse(f"there is no {what} {shown(item.name)}")
        elif isinstance(item, Queue):
            self._changed["queues"] = self._path
            content.put("queues", item.name, item)
        else:
            self._to_check.append((self._path, "nodes", item))
            self._nodes_removed.pop(item.name, None)
            content.put("nodes", item.name, item)

    def node_removed(self, event: happened.NodeRemoved) -> None:
        content = self._content
        content.put("nodes", event.name, None)
        self._nodes_removed[event.name] = self._path
        listed = [each for each in content.topologies.values() if each.domains]
        for topology in without_nodes(listed, (event.name,)):
            if topology is not content.topologies[topology.name]:
                content.put("topologies", topology.name, topology)

    def devices_changed(self, event: happened.DevicesChanged) -> None:
        for name in COMMON:
            value = getattr(event, name)
            if value is not None:
                self._content.put("common", name, value or None)
        self._changed["devices"] = self._path

    def queue_removed(self, event: happened.QueueRemoved) -> None:
        self._changed["queues"] = self._path
        self._content.put("queues", event.name, None)

    def topologies_changed(self, event: happened.TopologiesChanged) -> None:
        if not all(is_text(each.name) for each in event.topologies):
            # The snapshot reports the fault.
            self._check(self._path, {"topologies": event.topologies})
            return
        self._changed["topologies"] = self._path
        for name in [*self._content.topologies]:
            self._content.put("topologies", name, None)
        for topology in event.topologies:
            if topology.name in self._content.topologies:
                self._refuse(f"expected each topology once, got {topology.name!r} again")
            self._content.put("topologies", topology.name, topology)

    def budgets_changed(self, event: happened.BudgetsChanged) -> None:
        self._check(self._path, {"budgets": event.budgets})
        self._content.put("evictions", "budgets", event.budgets)

    # Time

    def time_passed(self, event: happened.TimePassed) -> None:
        content, now = self._content, event.now
        problems = list(time_problems("now", now))
        if not problems and now < content.now:
            problems = [("now", f"{now!r} is before the last time, which was {content.now!r}")]
        for below, message in problems:
            self._refuse(message, below)
        if not problems:
            if "queues" in self._changed and any(queue_cycles(content.queues.values())):
                raise EventError.at(self._path, "expected queues without a cycle of parents")
            let_use_pass(content, now)
            let_time_pass(content, now)

    # New objects, checked as in a snapshot

    def _check_parts(self) -> None:
        content = self._content
        for path, part, item in self._to_check:
            checked = item
            if part == "jobs":
                job = cast("JobInfo", item)
                if is_sound_job(job, content.nodes):
                    continue
                if is_of(job.groups, tuple) and has_requests(job):
                    checked = without_requests(job)  # it is checked with all tasks, below
            self._check(path, {part: (checked,)})
        for changed, parts in _CHECKED_WITH.items():
            if changed in self._changed:
                self._check(self._changed[changed], {p: content.in_order(p) for p in parts})
        if "topologies" in self._changed:
            for uid, job in content.jobs.items():
                if has_requests(job):
                    self._requests_to_check.setdefault(uid, self._changed["topologies"])
        levels = levels_of(content.topologies.values())
        for uid, path in self._requests_to_check.items():
            if uid in content.jobs:
                for below, message in requests_problems(content.job(uid), levels):
                    self._note(path, Fault(join_path(f"jobs[{uid!r}]", below), message))
        if self._may_close_cycle:
            waiting = [content.jobs[uid] for uid in sorted(content.dependent)]
            for fault in dependency_cycle_faults(waiting):
                self._note(self._may_close_cycle, fault)

    def _check_request_of(self, uid: str | None) -> None:
        if uid is not None and has_requests(self._content.jobs[uid]):
            self._requests_to_check[uid] = self._path

    def _check(self, path: str, parts: Mapping[str, Any]) -> None:
        content = self._content
        for fault in snapshot_faults(
            node_names=content.nodes, now=content.now, **content.common, **parts
        ):
            self._note(path, fault)

    def _note(self, path: str, fault: Fault) -> None:
        self.faults.append(Fault(f"{path}: {fault.path}", fault.message))

    def _check_removed(self, name: str, path: str) -> None:
        content = self._content
        for uid in sorted(content.on_node.get(name, ())):
            if content.tasks[uid].held_node == name:
                message = f"task {uid!r} is on node {name!r}; say first that it ended or is gone"
                self.faults.append(Fault(path, message))


def said_of_job(event: happened.JobChanged) -> dict[str, Any]:
    """Return the fields of a job that an event changes, with their new values."""
    given = {each.name: getattr(event, each.name) for each in fields(happened.JobChanged)}
    del given["uid"]
    return {
        name: None if value is happened.NO_LIMIT else value
        for name, value in given.items()
        if value is not None
    }


def _no_place(task: TaskInfo) -> Problems:
    """Yield why the tables cannot even hold a task until all is checked."""
    if type(task.status) is not TaskStatus or type(task.node_name) not in (NoneType, str):
        yield from problems_of("status", task.status, TaskStatus)
        yield from problems_of("node_name", task.node_name, str | None)


def _uids(tasks: Iterable[TaskInfo]) -> list[str]:
    return [task.uid for task in tasks]


_Handler = Callable[[_Applied, Any], None]
_JOB, _TASK = {"uid": "jobs"}, {"uid": "tasks"}
_EVENTS: Mapping[type[object], tuple[str | _Handler, Mapping[str, str]]] = {
    happened.TaskStarted: ("started", _TASK),
    happened.BindRefused: ("bind_refused", _TASK),
    happened.TaskSucceeded: ("succeeded", _TASK),
    happened.TaskFailed: ("failed", _TASK),
    happened.TaskReleasing: ("releasing", _TASK),
    happened.EvictionRefused: ("eviction_refused", _TASK),
    happened.TaskGone: ("gone", _TASK),
    happened.TaskRemoved: ("removed", _TASK),
    happened.TimePassed: (_Applied.time_passed, {}),
    happened.JobArrived: (_Applied.job_arrived, {}),
    happened.JobChanged: (_Applied.job_changed, _JOB),
    happened.JobEnded: (_Applied.job_ended, _JOB),
    happened.JobRemoved: (_Applied.job_removed, _JOB),
    happened.EndedJobsRemoved: (_Applied.ended_jobs_removed, {}),
    happened.TasksAdded: (_Applied.tasks_added, {"job_uid": "jobs"}),
    happened.TaskChanged: (_Applied.task_changed, {}),
    happened.TaskFound: (_Applied.task_found, {"uid": "tasks", "node_name": "nodes"}),
    happened.TaskHoldsChanged: (_Applied.task_holds_changed, _TASK),
    happened.OtherTaskArrived: (_Applied.other_task_arrived, {}),
    happened.NodeAdded: (_Applied.described, {}),
    happened.NodeChanged: (_Applied.described, {}),
    happened.NodeRemoved: (_Applied.node_removed, {"name": "nodes"}),
    happened.DevicesChanged: (_Applied.devices_changed, {}),
    happened.QueueAdded: (_Applied.described, {}),
    happened.QueueChanged: (_Applied.described, {}),
    happened.QueueRemoved: (_Applied.queue_removed, {"name": "queues"}),
    happened.TopologiesChanged: (_Applied.topologies_changed, {}),
    happened.BudgetsChanged: (_Applied.budgets_changed, {}),
}
"""For each event: its handler, or the rule of what it does to a task; and which of its fields name
what must be there, in which table."""
