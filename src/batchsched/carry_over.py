"""From one cycle to the next: the snapshot that follows from a result and from events.

Specification: section 11, "Reserved tasks carried over"; it is silent on the rest,
which follows what a cluster does with decisions. `batchsched.keeping` tells which
places are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import evolve

from batchsched.checks import shown
from batchsched.errors import EventError, Fault
from batchsched.happened import Given, is_of
from batchsched.keeping import reservations_to_keep
from batchsched.model import JobInfo, NodeInfo, Queue, TaskInfo
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
    removed_tasks: Iterable[str] = (),
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

    Reserved tasks stay Reserved on their nodes. So do other tasks whose places must not
    go to others meanwhile; `reservations_to_keep` tells which. All other reservations of
    the last snapshot end.

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
            be named. What waits is on no node; see `removed_tasks`.
        not_started: UIDs of tasks that are bound but have not started; they are Bound.
        still_releasing: UIDs of tasks that are Releasing and have not left yet.
        removed_tasks: UIDs of tasks that are there no more and that nothing replaces, whatever
            their status: withdrawn while they waited, or deleted since they ended, say.
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
        keep_reservations: whether reservations are kept. If not, tasks that wait are Pending.

    Raises:
        EventError: events name what is not there, or what they cannot have happened to; the
            result is of another snapshot; an argument is not what it should be; all faults
            at once.
        SnapshotError: new jobs, nodes, queues or tasks are at fault in themselves.

    >>> from batchsched import Resource, schedule
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
    given = Given()
    events = given.events(
        {
            "succeeded": succeeded,
            "failed": failed,
            "gone": gone,
            "not_started": not_started,
            "still_releasing": still_releasing,
            "removed_tasks": removed_tasks,
        }
    )
    removed = given.uids("removed_jobs", removed_jobs)
    arrived = given.each("new_jobs", new_jobs, JobInfo)
    kept_queues = None if queues is None else given.each("queues", queues, Queue)
    new_others = None if other_tasks is None else given.each("other_tasks", other_tasks, TaskInfo)
    nodes_now = None if nodes is None else given.each("nodes", nodes, NodeInfo)
    # What is wrong with nodes in themselves is the snapshot's to tell, unless events are wrong.
    sound_nodes = given.only_sound(nodes_now)
    if not is_of(snapshot, Snapshot):
        given.refuse("snapshot", f"{shown(snapshot)} is no Snapshot")
        raise EventError(given.faults)
    if result is not None and not is_of(result, CycleResult):
        given.refuse("result", f"{shown(result)} is no CycleResult")
        raise EventError(given.faults)

    if not callable(replacement):
        message = f"{shown(replacement)} cannot be called; leave it out, or give a function"
        given.refuse("replacement", message)
        raise EventError(given.faults)

    carrying = _CarryOver(snapshot, events, replacement, given)
    if sound_nodes is not None:
        carrying.node_names = frozenset(node.name for node in sound_nodes)
    if result is not None:
        carrying.decide(result)
        for promise in result.reserved:
            if promise.node_name not in carrying.nodes_before:
                path = f"result.reserved[{promise.task_uid!r}]"
                message = f"{promise.node_name!r} was not there; the result is of another snapshot"
                given.refuse(path, message)
    if result is not None and keep_reservations:
        carrying.keep(reservations_to_keep(result, snapshot, nodes=sound_nodes))
    carrying.keeps_places = result is None and keep_reservations
    given.check_now(now, before=snapshot.now)
    carrying.check_jobs(removed, arrived)
    jobs = carrying.jobs(frozenset(removed))
    others = carrying.others() if new_others is None else new_others
    faults = [*given.faults, *carrying.unknown(), *carrying.task_faults]
    if faults:
        raise EventError(faults)
    return Snapshot(
        nodes=snapshot.nodes if nodes_now is None else nodes_now,
        jobs=[*jobs, *arrived] if arrived else jobs,
        queues=snapshot.queues if kept_queues is None else kept_queues,
        other_tasks=others,
        now=now,
    )


_Place = tuple[TaskStatus, str]
"""The status that a decision gives a task, and the node."""

_DECIDED = {
    TaskStatus.BINDING: ("binds", (TaskStatus.PENDING, TaskStatus.RESERVED)),
    TaskStatus.RELEASING: ("evicts", (TaskStatus.RUNNING,)),
    TaskStatus.RESERVED: ("keeps a place for", (TaskStatus.PENDING, TaskStatus.RESERVED)),
}
"""For each status that a decision gives: what the result does, and to tasks of which status."""


class _CarryOver:
    """Applies decisions and events to tasks, and collects what does not fit together."""

    def __init__(
        self,
        snapshot: Snapshot,
        events: Mapping[str, str],
        replacement: Callable[[TaskInfo], TaskInfo | None],
        given: Given,
    ) -> None:
        self._snapshot = snapshot
        self._events = events
        self._replacement = replacement
        self._given = given
        self._met: set[str] = set()
        self.nodes_before = frozenset(node.name for node in snapshot.nodes)
        self._places: dict[str, _Place] = {}
        self._backfilling: dict[str, bool] = {}
        """Whether tasks are marked as backfill, where the result decides that."""
        self.keeps_places = False
        """Whether Reserved tasks of which nothing was decided stay where they are."""
        self.node_names: frozenset[str] | None = None
        """The nodes that there are, if they are not those that there were."""
        self.task_faults: list[Fault] = []

    def decide(self, result: CycleResult) -> None:
        """Take note of what a cycle decided."""
        for bind in result.binds:
            self._decide(bind.task_uid, TaskStatus.BINDING, bind.node_name)
            self._backfilling[bind.task_uid] = bind.is_backfill
        for eviction in result.evictions:
            self._decide(eviction.task_uid, TaskStatus.RELEASING, eviction.node_name)

    def keep(self, reservations: Mapping[str, str]) -> None:
        """Take note of the places to keep."""
        for uid, node_name in reservations.items():
            self._decide(uid, TaskStatus.RESERVED, node_name)

    def _decide(self, uid: str, status: TaskStatus, node_name: str) -> None:
        if uid in self._places:
            self._given.refuse(f"result.tasks[{uid!r}]", "two decisions name the task")
        self._places[uid] = status, node_name

    def check_jobs(self, removed: tuple[str, ...], arrived: tuple[JobInfo, ...]) -> None:
        known = {job.uid for job in self._snapshot.jobs}
        for uid in removed:
            if uid not in known:
                self._given.refuse(f"removed_jobs[{uid!r}]", "there is no such job")
        for job in arrived:
            if job.uid in known and job.uid not in removed:
                self._given.refuse(f"new_jobs[{job.uid!r}]", "there is such a job already")

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
        for uid in self._places:
            if uid not in self._met:
                message = "there is no such task; the result is of another snapshot"
                yield Fault(f"result.tasks[{uid!r}]", message)

    def _meet_tasks_of_removed(self, job: JobInfo) -> None:
        for task in job.tasks:
            if task.uid in self._events or task.uid in self._places:
                self._met.add(task.uid)
                self._after_event(self._after_result(task), lambda _task: None)

    def _tasks(
        self,
        tasks: tuple[TaskInfo, ...],
        replacement: Callable[[TaskInfo], TaskInfo | None],
    ) -> list[TaskInfo] | None:
        """Return the tasks as they are now, or None if none of them changed."""
        # This loop looks at every task of the cluster; what it does for most is only this.
        events, places = self._events, self._places
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
        place = self._places.get(task.uid)
        if place is not None:
            status, node_name = place
            problem = self._problem(task, status, node_name)
            if problem:
                message = f"{problem}; the result is of another snapshot"
                self.task_faults.append(Fault(f"result.tasks[{task.uid!r}]", message))
                return task
            is_backfill = self._backfilling.get(task.uid, task.is_backfill)
            return _evolved(task, status, node_name, is_backfill=is_backfill)
        if task.status is TaskStatus.RESERVED and not self.keeps_places:
            return _evolved(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)
        return task

    def _problem(self, task: TaskInfo, status: TaskStatus, node_name: str) -> str:
        """Return why this decision cannot have been made of the task, or nothing."""
        does, to = _DECIDED[status]
        if task.status not in to:
            return f"it {does} the task, which is {task.status.value}"
        if status is TaskStatus.RELEASING and task.node_name != node_name:
            return f"it evicts the task from {node_name!r}, which is on {task.node_name!r}"
        if node_name not in self.nodes_before:
            where = "to" if status is TaskStatus.BINDING else "on"
            return f"it {does} the task {where} {node_name!r}, which was not there"
        return ""

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
            if status is TaskStatus.RELEASING:
                return self._replaced(task, replacement)
            return task
        if event == "removed_tasks":
            return None
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
            return self._replaced(task, replacement)
        if event == "not_started":
            if status not in _TO_START:
                self._refuse(event, task, "is bound has yet to start")
                return task
            return _evolved(task, TaskStatus.BOUND, task.node_name, is_backfill=task.is_backfill)
        if status is not TaskStatus.RELEASING:
            self._refuse(event, task, "is Releasing has yet to leave")
        return task

    def _replaced(
        self, task: TaskInfo, replacement: Callable[[TaskInfo], TaskInfo | None]
    ) -> TaskInfo | None:
        after = replacement(task)
        if after is None or is_of(after, TaskInfo):
            return after
        message = f"{shown(after)} is no TaskInfo, which comes in the place of the task"
        self.task_faults.append(Fault(f"replacement[{task.uid!r}]", message))
        return None

    def _refuse(self, event: str, task: TaskInfo, who: str) -> None:
        message = f"the task is {task.status.value}; only one that {who}"
        self.task_faults.append(Fault(f"{event}[{task.uid!r}]", message))


def _evolved(
    task: TaskInfo, status: TaskStatus, node_name: str | None, *, is_backfill: bool
) -> TaskInfo:
    if task.status is status and task.node_name == node_name and task.is_backfill is is_backfill:
        return task
    return evolve(task, status=status, node_name=node_name, is_backfill=is_backfill)
