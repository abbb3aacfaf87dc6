"""What becomes of tasks, jobs and queues between cycles, rule by rule.

A *task* changes by a decision, by an event, and by what ends or begins with it. It is in one place,
and while it moves in two: where it is promised, and where it still runs (`TaskInfo.leaving`). What
plugins have chosen for it belongs to a place, and goes with it. All changes of a task between
cycles are made here, so that this holds whoever makes them.

Into *jobs* the library itself writes eligible times, plans and losses; for *queues* passing time
says how much they and their users have used.

The *ledger of evictions* is what these leave behind for later cycles. An event is a pair of jobs in
one cycle: one lost tasks for the other, however many. The ledger has an entry for each, for a time
(`Snapshot.evictions_kept`), and a job that lost tasks that it needs remembers when
(`JobInfo.last_evicted`). Both are written when an eviction is decided; that it was refused takes
neither back. Limits and delays of the plugin ``protection`` read them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from attrs import evolve, frozen

from batchsched.model.cluster import (
    HasChoices,
    JobInfo,
    PastEviction,
    Plan,
    Queue,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.immutable import EMPTY, copier
from batchsched.model.resources import Amount, Resource, decayed, exact
from batchsched.model.result import CycleResult, Eviction
from batchsched.model.rules import unmet_dependencies, would_keep_minimum
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.snapshot import (
    queue_cycles,
    queue_problems,
)
from batchsched.transition.content import Content

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


def ends(status: TaskStatus) -> Callable[[TaskInfo, float], TaskInfo]:
    """Return what makes of a task one that has ended so, given the time."""

    def ended(task: TaskInfo, now: float) -> TaskInfo:
        attained = task.seconds_held(now)
        return _having(_ended(task, status, None, None, attained, *_LEAVES_NONE), None)

    return ended


def gone_from_old_place(task: TaskInfo, now: float) -> TaskInfo:
    """Return a task that moves and has left its node: it waits for the one that it is promised."""
    return _promised(with_run_added(task, now), task.status, task.node_name, *_LEAVES_NONE)


def _is_gone(task: TaskInfo, now: float) -> TaskInfo | None:
    if task.leaving is not None:
        return gone_from_old_place(task, now)
    return as_new(with_run_added(task, now))


def _runs_on(task: TaskInfo, _now: float) -> TaskInfo:
    if task.leaving is not None:
        return staying(task, TaskStatus.RUNNING)
    return placed(task, TaskStatus.RUNNING, task.node_name)


_HOLDS = attrgetter("is_on_node")


def _is_to_start(task: TaskInfo) -> bool:
    return task.status in TO_START


def is_releasing(task: TaskInfo) -> bool:
    """Return whether a task has yet to leave a node, also one that moves."""
    return task.status is TaskStatus.RELEASING or task.leaving is not None


RULES = {
    "succeeded": TaskRule(_HOLDS, "is on a node can have succeeded", ends(TaskStatus.SUCCEEDED)),
    "failed": TaskRule(_HOLDS, "is on a node can have failed", ends(TaskStatus.FAILED)),
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
        is_releasing, "is Releasing has yet to leave", lambda task, _now: task
    ),
    "eviction_refused": TaskRule(
        lambda task: is_releasing(task) and task.node_name is not None,
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


@frozen
class EvictionsWritten:
    """What a cycle's evictions leave behind."""

    past: tuple[PastEviction, ...] = ()
    """The entries of the ledger, one for each pair of a claimant's job and a victim's."""
    broken: tuple[str, ...] = ()
    """The UIDs of the jobs that lose tasks that they need."""


def evictions_written(
    cycle: CycleResult, job_of: Callable[[str], JobInfo | None], *, now: float
) -> EvictionsWritten:
    """Return what the evictions and moves of a cycle leave behind.

    O(tasks of the jobs that lose any). A move for another job counts as an eviction for it, but
    takes nothing that its job needs: it has another place.

    Args:
        cycle: its result.
        job_of: returns the job of a task, with its tasks as they were in that cycle.
        now: the time of the cycle.

    """
    gone: dict[str, set[str]] = {}
    jobs: dict[str, JobInfo] = {}
    pairs: dict[tuple[str, str, str], PastEviction] = {}
    for eviction in cycle.stopped():
        job, claimant = job_of(eviction.task_uid), job_of(eviction.for_task_uid or "")
        if job is None or claimant is None:
            continue  # that is told of the result
        jobs[job.uid] = job
        if isinstance(eviction, Eviction):
            gone.setdefault(job.uid, set()).add(eviction.task_uid)
        pairs[job.uid, claimant.uid, eviction.action] = PastEviction(
            time=now,
            job=job.uid,
            queue=job.queue,
            for_job=claimant.uid,
            for_queue=claimant.queue,
            action=eviction.action,
        )
    broken = [uid for uid, lost in gone.items() if not would_keep_minimum(jobs[uid], lost)]
    return EvictionsWritten(tuple(pairs.values()), tuple(broken))


def ledger_after(
    ledger: Sequence[PastEviction], past: Sequence[PastEviction], *, now: float, kept: float
) -> tuple[PastEviction, ...]:
    """Return the ledger with new entries, and without those that are too old at a time."""
    young = [each for each in (*ledger, *past) if now - each.time < kept]
    if len(young) == len(ledger) and not past:
        return tuple(ledger)
    return tuple(sorted(young, key=attrgetter("time", "job", "for_job", "action")))


def keep_evictions(content: Content, written: EvictionsWritten) -> None:
    """Write what the evictions of the last cycle leave behind. O(entries of the ledger), if any."""
    for uid in written.broken:
        if uid in content.jobs:
            content.put("jobs", uid, evolve(content.jobs[uid], last_evicted=content.now))
    _write_ledger(content, written.past)


def _write_ledger(content: Content, past: Sequence[PastEviction] = ()) -> None:
    before = content.besides["evictions"]
    if before or past:
        after = ledger_after(before, past, now=content.now, kept=content.besides["evictions_kept"])
        if len(after) != len(before) or past:
            content.put("besides", "evictions", after)


def let_time_pass(content: Content, now: float) -> None:
    """Set the time, and forget evictions that are too old then. O(entries of the ledger)."""
    content.put("now", "", now)
    _write_ledger(content)
