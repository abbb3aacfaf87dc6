"""From one cycle to the next: the snapshot that follows from a result and from events.

Specification: section 11, "Reserved tasks carried over"; it is silent on the rest,
which follows what a cluster does with decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attrs import evolve

from batchsched.checks import time_problems
from batchsched.errors import EventError, Fault
from batchsched.model import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.resources import Resource
from batchsched.result import CycleResult
from batchsched.snapshot import Snapshot
from batchsched.status import TaskStatus

__all__ = ["as_new", "next_snapshot"]

_TO_START = (TaskStatus.BINDING, TaskStatus.BOUND)
_MOVING = (*_TO_START, TaskStatus.RELEASING, TaskStatus.RESERVED)


def as_new(task: TaskInfo) -> TaskInfo | None:
    """Return a task as its controller makes it anew: Pending, under the same UID.

    A mark as backfill is gone, for it belonged to the place that the task had.
    """
    return evolve(task, status=TaskStatus.PENDING, node_name=None, is_backfill=False)


def next_snapshot(
    snapshot: Snapshot,
    result: CycleResult | None,
    *,
    now: float,
    succeeded: Iterable[str] = (),
    failed: Iterable[str] = (),
    gone: Iterable[str] = (),
    not_started: Iterable[str] = (),
    still_releasing: Iterable[str] = (),
    replacement: Callable[[TaskInfo], TaskInfo | None] = as_new,
    new_jobs: Iterable[JobInfo] = (),
    removed_jobs: Iterable[str] = (),
    nodes: Iterable[NodeInfo] | None = None,
    queues: Iterable[Queue] | None = None,
    other_tasks: Iterable[TaskInfo] | None = None,
    keep_reservations: bool = True,
) -> Snapshot:
    """Return the snapshot of the next cycle.

    First the decisions of `result` take effect: tasks that were bound run on their
    nodes, marked as backfill where the bind says so, and tasks that were evicted are
    Releasing. Then what happened in the cluster. Unless an event says otherwise, every
    task that was on its way arrives: what is Binding or Bound starts, and what is
    Releasing is gone. Placements that exist only inside a session (Pipelined,
    Conditional, Allocated) are forgotten, so that such tasks are Pending as they were.

    Reserved tasks stay Reserved on their nodes. So that a gang does not lose one half
    of its places while its nodes are kept for the other half, an Allocated task of
    a job that has Reserved tasks becomes Reserved on its node, where it fits besides
    what is reserved there.

    Nothing that did not change is copied. O(tasks), with O(1) work only for tasks that
    changed, and the check of the new snapshot.

    Args:
        snapshot: what the last cycle was given.
        result: what it decided. None: no cycle was run; only events count.
        now: the time of the next cycle, in seconds; not before the last.
        succeeded: UIDs of tasks that ended well. They may have started since.
        failed: UIDs of tasks that ended badly.
        gone: UIDs of tasks that left their nodes without having ended, such as deleted
            pods and those of a node that is no more. Tasks that are Releasing need not
            be named.
        not_started: UIDs of tasks that are bound but have not started; they are Bound.
        still_releasing: UIDs of tasks that are Releasing and have not left yet.
        replacement: what comes in the place of a task that is gone, from what it was;
            None: nothing does. By default the task comes back (`as_new`). It may give
            the task a new UID. Not called for `other_tasks`, which just go.
        new_jobs: jobs that came.
        removed_jobs: UIDs of jobs that are there no more, with all their tasks. Events
            may name their tasks.
        nodes: all nodes, if any of them came, went or changed. Tasks that hold resources
            of a node that went must be `succeeded`, `failed` or `gone`.
        queues: all queues, if any of them came, went or changed.
        other_tasks: all tasks that are not this scheduler's business, if any of them came
            or changed by more than these events say; these events then may not name them.
        keep_reservations: whether Reserved tasks stay Reserved. If not, they are Pending.

    Raises:
        EventError: events name what is not there, or what they cannot have happened to;
            all faults at once.
        SnapshotError: new jobs, nodes, queues or tasks are at fault in themselves.

    >>> from batchsched import schedule
    >>> task = TaskInfo(uid="t1", name="t1", resreq=Resource(milli_cpu=1000))
    >>> snapshot = Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))],
    ...     queues=[Queue(name="q")],
    ...     jobs=[JobInfo(name="j", queue="q", tasks=[task])],
    ... )
    >>> running = next_snapshot(snapshot, schedule(snapshot), now=1)
    >>> [(task.status.value, task.node_name) for task in running.jobs[0].tasks]
    [('Running', 'n1')]
    >>> done = next_snapshot(running, schedule(running), now=2, succeeded=["t1"])
    >>> [(task.status.value, task.node_name) for task in done.jobs[0].tasks]
    [('Succeeded', None)]
    >>> next_snapshot(done, schedule(done), now=1, failed=["t1", "t2"])
    Traceback (most recent call last):
    ...
    batchsched.errors.EventError: now: 1 is before the last cycle, which was at 2
    failed['t2']: there is no such task
    failed['t1']: the task is Succeeded; only one that is on a node can have failed

    """
    happened = _Happened(
        {
            "succeeded": tuple(succeeded),
            "failed": tuple(failed),
            "gone": tuple(gone),
            "not_started": tuple(not_started),
            "still_releasing": tuple(still_releasing),
        }
    )
    carrying = _CarryOver(snapshot, happened, replacement)
    if result is not None:
        carrying.places = _places(snapshot, result, keep_reservations=keep_reservations)
    carrying.keeps_places = result is None and keep_reservations
    removed = tuple(removed_jobs)
    arrived = tuple(new_jobs)
    kept_nodes = snapshot.nodes if nodes is None else tuple(nodes)
    if nodes is not None:
        carrying.node_names = frozenset(node.name for node in kept_nodes)
    carrying.check_now(now)
    carrying.check_jobs(removed, arrived)
    jobs = carrying.jobs(frozenset(removed))
    others = carrying.others() if other_tasks is None else tuple(other_tasks)
    faults = [*carrying.faults, *carrying.unknown(), *carrying.task_faults]
    if faults:
        raise EventError(faults)
    return Snapshot(
        nodes=kept_nodes,
        jobs=[*jobs, *arrived] if arrived else jobs,
        queues=snapshot.queues if queues is None else tuple(queues),
        other_tasks=others,
        now=now,
    )


class _Happened:
    """The events: task UID to the name of its event."""

    def __init__(self, named: dict[str, tuple[str, ...]]) -> None:
        self.of: dict[str, str] = {}
        self.faults: list[Fault] = []
        for event, uids in named.items():
            for uid in uids:
                if uid in self.of:
                    message = f"{self.of[uid]!r} names the task already"
                    self.faults.append(Fault(f"{event}[{uid!r}]", message))
                else:
                    self.of[uid] = event


_Place = tuple[TaskStatus, str, bool]


def _places(
    snapshot: Snapshot, result: CycleResult, *, keep_reservations: bool
) -> dict[str, _Place]:
    """Return status, node and mark of every task that the result gives a place."""
    places: dict[str, _Place] = {
        bind.task_uid: (TaskStatus.BINDING, bind.node_name, bind.is_backfill)
        for bind in result.binds
    }
    for eviction in result.evictions:
        outcome = result.tasks[eviction.task_uid]
        mark = outcome.is_backfill
        places[eviction.task_uid] = (TaskStatus.RELEASING, eviction.node_name, mark)
    if keep_reservations and result.reserved:
        reserved = {promise.task_uid: promise.node_name for promise in result.reserved}
        reserved |= _held_halves(snapshot, result, reserved)
        for uid, node_name in reserved.items():
            places[uid] = (TaskStatus.RESERVED, node_name, result.tasks[uid].is_backfill)
    return places


def _held_halves(
    snapshot: Snapshot, result: CycleResult, reserved: dict[str, str]
) -> dict[str, str]:
    """Return the Allocated tasks of jobs with Reserved tasks, and the nodes to keep for them."""
    room: dict[str, Resource] = {node.name: node.allocatable for node in snapshot.nodes}
    jobs = [job for job in snapshot.jobs if any(task.uid in reserved for task in job.tasks)]
    for job in jobs:
        for task in job.tasks:
            node_name = reserved.get(task.uid)
            if node_name in room:
                room[node_name] -= task.start_request
    held: dict[str, str] = {}
    for job in jobs:
        for task in job.tasks:
            outcome = result.tasks.get(task.uid)
            if outcome is None or outcome.status is not TaskStatus.ALLOCATED:
                continue
            node_name = outcome.node_name
            if node_name in room and task.start_request.fits(room[node_name]):
                room[node_name] -= task.start_request
                held[task.uid] = node_name
    return held


class _CarryOver:
    """Applies decisions and events to tasks, and collects what does not fit together."""

    def __init__(
        self,
        snapshot: Snapshot,
        happened: _Happened,
        replacement: Callable[[TaskInfo], TaskInfo | None],
    ) -> None:
        self._snapshot = snapshot
        self._events = happened.of
        self._replacement = replacement
        self._met: set[str] = set()
        self.places: dict[str, _Place] = {}
        self.keeps_places = False
        """Whether Reserved tasks without a place in `places` stay where they are."""
        self.node_names: frozenset[str] | None = None
        """The nodes that there are, if they are not those that there were."""
        self.faults = list(happened.faults)
        self.task_faults: list[Fault] = []

    def check_now(self, now: float) -> None:
        before = self._snapshot.now
        # A time that is none at all is the snapshot's to refuse.
        if not any(time_problems("now", now)) and now < before:
            message = f"{now!r} is before the last cycle, which was at {before!r}"
            self.faults.append(Fault("now", message))

    def check_jobs(self, removed: tuple[str, ...], arrived: tuple[JobInfo, ...]) -> None:
        known = {job.uid for job in self._snapshot.jobs}
        for uid in removed:
            if uid not in known:
                self.faults.append(Fault(f"removed_jobs[{uid!r}]", "there is no such job"))
        for job in arrived:
            if job.uid in known and job.uid not in removed:
                message = "there is such a job already"
                self.faults.append(Fault(f"new_jobs[{job.uid!r}]", message))

    def jobs(self, removed: frozenset[str]) -> list[JobInfo]:
        """Return the jobs that stay, with their tasks as they are now."""
        kept: list[JobInfo] = []
        for job in self._snapshot.jobs:
            if job.uid in removed:
                self._meet_tasks_of_removed(job)
                continue
            tasks = self._tasks(job.tasks, self._replacement)
            kept.append(job if tasks is None else evolve(job, tasks=tasks))
        return kept

    def others(self) -> tuple[TaskInfo, ...]:
        """Return the tasks of no job, as they are now."""
        before = self._snapshot.other_tasks
        tasks = self._tasks(before, lambda _task: None)
        return before if tasks is None else tuple(tasks)

    def unknown(self) -> Iterator[Fault]:
        """Yield a fault for everything that is named and was not met."""
        for uid, event in self._events.items():
            if uid not in self._met:
                yield Fault(f"{event}[{uid!r}]", "there is no such task")
        for uid in self.places:
            if uid not in self._met:
                message = "there is no such task; the result is of another snapshot"
                yield Fault(f"result.tasks[{uid!r}]", message)

    def _meet_tasks_of_removed(self, job: JobInfo) -> None:
        for task in job.tasks:
            if task.uid in self._events or task.uid in self.places:
                self._met.add(task.uid)
                self._after_event(self._after_result(task), lambda _task: None)

    def _tasks(
        self,
        tasks: tuple[TaskInfo, ...],
        replacement: Callable[[TaskInfo], TaskInfo | None],
    ) -> list[TaskInfo] | None:
        """Return the tasks as they are now, or None if none of them changed."""
        # This loop looks at every task of the cluster; what it does for most is only this.
        events, places = self._events, self.places
        nodes_changed = self.node_names is not None
        changed: list[TaskInfo | None] | None = None
        for position, task in enumerate(tasks):
            uid = task.uid
            if not (nodes_changed or uid in events or uid in places or task.status in _MOVING):
                continue
            after = self._after(task, replacement)
            if after is not task:
                if changed is None:
                    changed = list(tasks)
                changed[position] = after
        return None if changed is None else [task for task in changed if task is not None]

    def _after(
        self, task: TaskInfo, replacement: Callable[[TaskInfo], TaskInfo | None]
    ) -> TaskInfo | None:
        self._met.add(task.uid)
        after = self._after_event(self._after_result(task), replacement)
        if (
            after is not None
            and self.node_names is not None
            and after.node_name is not None
            and after.status is not TaskStatus.RESERVED
            and after.node_name not in self.node_names
        ):
            message = (
                f"the task is on {after.node_name!r}, which is no more; "
                "name it in succeeded, failed or gone"
            )
            self.task_faults.append(Fault(f"tasks[{task.uid!r}]", message))
        return after

    def _after_result(self, task: TaskInfo) -> TaskInfo:
        """Return a task as the decisions leave it."""
        place = self.places.get(task.uid)
        if place is not None:
            status, node_name, is_backfill = place
            return _evolved(task, status, node_name, is_backfill=is_backfill)
        if task.status is TaskStatus.RESERVED and not self.keeps_places:
            return _evolved(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)
        return task

    def _after_event(
        self, task: TaskInfo, replacement: Callable[[TaskInfo], TaskInfo | None]
    ) -> TaskInfo | None:
        """Return a task as what happened leaves it; None if it is no more."""
        event = self._events.get(task.uid)
        status = task.status
        if event is None:
            if status in _TO_START:
                return _evolved(
                    task, TaskStatus.RUNNING, task.node_name, is_backfill=task.is_backfill
                )
            return replacement(task) if status is TaskStatus.RELEASING else task
        if event in ("succeeded", "failed"):
            if not status.holds:
                self._refuse(event, task, f"is on a node can have {event}")
                return task
            ended = TaskStatus.SUCCEEDED if event == "succeeded" else TaskStatus.FAILED
            return _evolved(task, ended, None, is_backfill=task.is_backfill)
        if event == "gone":
            if not status.holds:
                self._refuse(event, task, "is on a node can have left it")
                return task
            return replacement(task)
        if event == "not_started":
            if status not in _TO_START:
                self._refuse(event, task, "is bound has yet to start")
                return task
            return _evolved(task, TaskStatus.BOUND, task.node_name, is_backfill=task.is_backfill)
        if status is not TaskStatus.RELEASING:
            self._refuse(event, task, "is Releasing has yet to leave")
        return task

    def _refuse(self, event: str, task: TaskInfo, who: str) -> None:
        message = f"the task is {task.status.value}; only one that {who}"
        self.task_faults.append(Fault(f"{event}[{task.uid!r}]", message))


def _evolved(
    task: TaskInfo, status: TaskStatus, node_name: str | None, *, is_backfill: bool
) -> TaskInfo:
    if task.status is status and task.node_name == node_name and task.is_backfill is is_backfill:
        return task
    return evolve(task, status=status, node_name=node_name, is_backfill=is_backfill)
