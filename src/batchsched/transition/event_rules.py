"""Applies events to a cluster, after finding all faults.

Events are applied in order, each to the state that the last one has left. References between
objects are checked at the end, so that the order of related events does not matter: a job may
arrive before the node that its tasks run on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from attrs import evolve

from batchsched.errors import EventError, Fault, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.snapshot import is_sound_job
from batchsched.model.validation.values import (
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    join_path,
    shown,
    time_problems,
)
from batchsched.transition.content import Content
from batchsched.transition.events import (
    BindRefused,
    EndedJobsRemoved,
    EvictionRefused,
    JobArrived,
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    OtherTaskArrived,
    QueueAdded,
    QueueChanged,
    QueueRemoved,
    TaskFailed,
    TaskGone,
    TaskReleasing,
    TaskRemoved,
    TasksAdded,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
)
from batchsched.transition.job_transitions import set_eligible_times
from batchsched.transition.past_use import let_use_pass
from batchsched.transition.task_rules import RULES

__all__ = ["apply_events"]

EventT = TypeVar("EventT")

_RULE_OF: dict[type[object], str] = {
    TaskStarted: "started",
    BindRefused: "bind_refused",
    TaskSucceeded: "succeeded",
    TaskFailed: "failed",
    TaskReleasing: "releasing",
    EvictionRefused: "eviction_refused",
    TaskGone: "gone",
    TaskRemoved: "removed",
}


def apply_events(content: Content, events: Iterable[object]) -> None:
    """Apply events; the caller commits them. O(changes).

    Raises:
        EventError: events name objects that do not exist, do not fit their state, or add invalid
            objects; all faults at once, and nothing has changed.

    """
    applied = _Applied(content)
    before = content.mark()
    unmet_before = content.unmet()
    try:
        applied.all(events)
        if not applied.faults:
            set_eligible_times(content, unmet_before)
    except BaseException:
        content.undo_to(before)
        raise
    if applied.faults:
        content.undo_to(before)
        raise EventError(applied.faults)


class _Applied:
    """Applies events one by one and collects the faults."""

    def __init__(self, content: Content) -> None:
        self.faults: list[Fault] = []
        self._content = content
        self._path = ""
        self._to_check: list[tuple[str, str, JobInfo | TaskInfo | NodeInfo | Queue]] = []
        """New or changed objects: the path of the event, the part of a snapshot, the object."""
        self._queues_changed = ""
        """The path of the last event that concerned queues; empty: there was none."""
        self._nodes_removed: dict[str, str] = {}
        """The names of removed nodes, with the paths of the events."""
        self._failed: Exception | None = None
        """An exception caused by an invalid object, raised only if no fault is found."""

    def all(self, events: Iterable[object]) -> None:
        for position, event in enumerate(events):
            self._path = f"events[{position}]"
            rule = _RULE_OF.get(type(event))
            if rule is not None:
                self._task(rule, cast("TaskStarted", event).uid)
                continue
            apply = _HANDLERS.get(type(event))
            if apply is None:
                message = f"expected an event of batchsched.live, got {shown(event)}"
                self.faults.append(Fault(self._path, message))
            else:
                apply(self, event)
        self._check_parts()
        for name, path in self._nodes_removed.items():
            self._check_removed(name, path)
        if self._failed is not None and not self.faults:
            raise self._failed

    def _refuse(self, message: str, below: str = "") -> None:
        self.faults.append(Fault(join_path(self._path, below), message))

    def _is(self, value: object, kind: type[EventT], below: str) -> bool:
        if is_of(value, kind):
            return True
        self._refuse(f"expected a {kind.__name__}, got {shown(value)}", below)
        return False

    def _expect(self, named: str, there: Iterable[str], what: str) -> bool:
        if is_text(named) and named in there:
            return True
        self._refuse(f"there is no {what} {shown(named)}")
        return False

    # Tasks

    def _task(self, rule_name: str, uid: str) -> None:
        content = self._content
        if not self._expect(uid, content.tasks, "task"):
            return
        task = content.tasks[uid]
        rule = RULES[rule_name]
        problem = rule.problem(task)
        if problem:
            self._refuse(f"task {uid!r}: {problem}")
            return
        # A task without a job is not replaced.
        is_left_for_good = rule_name == "gone" and uid in content.others
        after = None if is_left_for_good else rule.after(task, content.now)
        if after is None:
            content.take_out_task(uid)
        elif after is not task:
            content.put("tasks", uid, after)

    def other_task_arrived(self, event: OtherTaskArrived) -> None:
        task = event.task
        if self._is(task, TaskInfo, "task") and self._is_new_task(task):
            self._to_check.append((self._path, "other_tasks", task))
            self._content.put("tasks", task.uid, task)

    def tasks_added(self, event: TasksAdded) -> None:
        content, uid = self._content, event.job_uid
        is_there = self._expect(uid, content.jobs, "job")
        tasks: object = event.tasks
        if is_text(tasks) or is_mapping(tasks) or not is_tuple(tasks):
            self._refuse(f"expected tasks, got {shown(tasks)}", "tasks")
            return
        if not is_there:
            return
        sound: list[TaskInfo] = []
        for position, task in enumerate(event.tasks):
            if self._is(task, TaskInfo, f"tasks[{position}]") and self._is_new_task(task):
                sound.append(task)
                content.put("owner", task.uid, uid)
                content.put("tasks", task.uid, task)
        content.put("members", uid, tuple(sorted([*content.members[uid], *_uids(sound)])))
        self._to_check.append((self._path, "jobs", evolve(content.jobs[uid], tasks=sound)))

    def _is_new_task(self, task: TaskInfo) -> bool:
        if not is_text(task.uid):
            self._refuse(f"expected a string as UID of a task, got {shown(task.uid)}")
            return False
        if task.uid in self._content.tasks:
            owner = self._content.owner.get(task.uid)
            where = "of no job" if owner is None else f"of job {owner!r}"
            self._refuse(f"there is a task {task.uid!r} already, {where}")
            return False
        return True

    # Jobs

    def job_arrived(self, event: JobArrived) -> None:
        content, job = self._content, event.job
        if not self._is(job, JobInfo, "job"):
            return
        if job.uid in content.jobs:
            self._refuse(f"there is a job {job.uid!r} already")
            return
        self._to_check.append((self._path, "jobs", job))
        tasks: object = job.tasks
        if not is_tuple(tasks) or not all(is_of(task, TaskInfo) for task in job.tasks):
            return  # the check of the job reports the fault
        new = [task for task in job.tasks if self._is_new_task(task)]
        if len(set(_uids(new))) == len(job.tasks):
            content.enter(job)

    def job_changed(self, event: JobChanged) -> None:
        content, uid = self._content, event.uid
        if not self._expect(uid, content.jobs, "job"):
            return
        job = content.jobs[uid]
        changed = evolve(
            job,
            priority=job.priority if event.priority is None else event.priority,
            queue=job.queue if event.queue is None else event.queue,
            min_available=job.min_available if event.min_available is None else event.min_available,
            max_available=job.max_available if event.max_available is None else event.max_available,
        )
        self._to_check.append((self._path, "jobs", changed))
        content.put("jobs", uid, changed)

    def job_removed(self, event: JobRemoved) -> None:
        if self._expect(event.uid, self._content.jobs, "job"):
            self._content.leave(event.uid)

    def ended_jobs_removed(self, _event: EndedJobsRemoved) -> None:
        for uid in list(self._content.ended_jobs()):
            self._content.leave(uid)

    # Nodes and queues

    def node_added(self, event: NodeAdded) -> None:
        node = event.node
        if not self._is(node, NodeInfo, "node"):
            return
        if not is_text(node.name):
            self._to_check.append((self._path, "nodes", node))
        elif node.name in self._content.nodes:
            self._refuse(f"there is a node {node.name!r} already; see NodeChanged")
        else:
            self._put_node(node)

    def node_changed(self, event: NodeChanged) -> None:
        node = event.node
        if self._is(node, NodeInfo, "node") and self._expect(
            node.name, self._content.nodes, "node"
        ):
            self._put_node(node)

    def _put_node(self, node: NodeInfo) -> None:
        self._to_check.append((self._path, "nodes", node))
        self._nodes_removed.pop(node.name, None)
        self._content.put("nodes", node.name, node)

    def node_removed(self, event: NodeRemoved) -> None:
        if self._expect(event.name, self._content.nodes, "node"):
            self._content.put("nodes", event.name, None)
            self._nodes_removed[event.name] = self._path

    def queue_added(self, event: QueueAdded) -> None:
        queue = event.queue
        if not self._is(queue, Queue, "queue"):
            return
        if not is_text(queue.name):
            self._to_check.append((self._path, "queues", queue))
        elif queue.name in self._content.queues:
            self._refuse(f"there is a queue {queue.name!r} already; see QueueChanged")
        else:
            self._put_queue(queue.name, queue)

    def queue_changed(self, event: QueueChanged) -> None:
        queue = event.queue
        if self._is(queue, Queue, "queue") and self._expect(
            queue.name, self._content.queues, "queue"
        ):
            self._put_queue(queue.name, queue)

    def queue_removed(self, event: QueueRemoved) -> None:
        if self._expect(event.name, self._content.queues, "queue"):
            self._put_queue(event.name, None)

    def _put_queue(self, name: str, queue: Queue | None) -> None:
        self._queues_changed = self._path
        self._content.put("queues", name, queue)

    # Time

    def time_passed(self, event: TimePassed) -> None:
        content, now = self._content, event.now
        problems = list(time_problems("now", now))
        if not problems and now < content.now:
            problems = [("now", f"{now!r} is before the last time, which was {content.now!r}")]
        for below, message in problems:
            self._refuse(message, below)
        if not problems:
            try:
                let_use_pass(content, now)
            except Exception as error:
                self._failed = self._failed or error
            content.put("now", "", now)

    # New objects, checked as in a snapshot

    def _check_parts(self) -> None:
        content = self._content
        for path, part, item in self._to_check:
            tasks: Iterable[TaskInfo] = ()
            if part == "jobs":
                job = cast("JobInfo", item)
                if is_sound_job(job, content.nodes):
                    continue
                tasks = job.tasks
            elif part == "other_tasks":
                tasks = (cast("TaskInfo", item),)
            nodes: dict[str, NodeInfo] = {}
            if is_tuple(tasks):
                for name in {task.node_name for task in tasks if is_of(task, TaskInfo)}:
                    if is_text(name) and name in content.nodes:
                        nodes[name] = content.nodes[name]
            self._check(path, {"nodes": nodes.values(), part: (item,)})
        if self._queues_changed:
            # Queues refer to each other.
            self._check(self._queues_changed, {"queues": content.queues.values()})

    def _check(self, path: str, parts: Mapping[str, Iterable[object]]) -> None:
        try:
            Snapshot(**parts)  # type: ignore[arg-type]  # the key says what the values are
        except SnapshotError as error:
            for fault in error.faults:
                self.faults.append(Fault(f"{path}: {fault.path}", fault.message))

    def _check_removed(self, name: str, path: str) -> None:
        content = self._content
        for uid in content.on_node.get(name, ()):
            if content.tasks[uid].status.holds:
                message = f"task {uid!r} is on node {name!r}; say first that it ended or is gone"
                self.faults.append(Fault(path, message))


def _uids(tasks: Iterable[TaskInfo]) -> list[str]:
    return [task.uid for task in tasks]


_HANDLERS: dict[type[object], Callable[[_Applied, object], None]] = cast(
    "dict[type[object], Callable[[_Applied, object], None]]",
    {
        TimePassed: _Applied.time_passed,
        JobArrived: _Applied.job_arrived,
        JobChanged: _Applied.job_changed,
        JobRemoved: _Applied.job_removed,
        EndedJobsRemoved: _Applied.ended_jobs_removed,
        TasksAdded: _Applied.tasks_added,
        OtherTaskArrived: _Applied.other_task_arrived,
        NodeAdded: _Applied.node_added,
        NodeChanged: _Applied.node_changed,
        NodeRemoved: _Applied.node_removed,
        QueueAdded: _Applied.queue_added,
        QueueChanged: _Applied.queue_changed,
        QueueRemoved: _Applied.queue_removed,
    },
)
