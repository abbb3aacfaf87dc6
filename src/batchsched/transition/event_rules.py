"""What events do to the tables of a cluster: all are applied, or, if one is wrong, none.

Both `next_snapshot` and `batchsched.live.Cluster` apply them here. What they do to one task, job or
queue stands in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, cast

from attrs import evolve, fields

from batchsched.errors import EventError, Fault
from batchsched.model.cluster import (
    JobInfo,
    NodeInfo,
    Queue,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.snapshot import OF_DEVICES
from batchsched.model.topology import Topology, without_nodes
from batchsched.model.validation.arguments import field_problems, problems_of
from batchsched.model.validation.snapshot import (
    job_test,
    queue_cycles,
    snapshot_faults,
)
from batchsched.model.validation.tasks import (
    dependency_cycle_faults,
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
from batchsched.transition.rules import (
    FOUND,
    RULES,
    as_it_was,
    ends,
    let_time_pass,
    let_use_pass,
    placed,
    set_eligible_times,
    starting,
    staying,
    with_run_added,
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
    "topologies": ("nodes",),
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
        self._is_sound_on_no_node = job_test(())
        self._failed: Exception | None = None
        """An exception caused by an invalid object, raised only if no fault is found."""
        for uid in content.dependent:
            self._await(uid)

    def all(self, events: Iterable[object]) -> None:
        for position, event in enumerate(events):
            self._path = f"events[{position}]"
            known = _EVENTS.get(type(event))
            if known is not None:
                self._one(event, *known)
            else:
                self._refuse(f"expected an event of batchsched.live, got {shown(event)}")
        self._check_parts()
        for name, path in self._nodes_removed.items():
            self._check_removed(name, path)
        if self._failed is not None and not self.faults:
            raise self._failed

    def _one(self, event: Any, rule: str | _Handler, names: Mapping[str, str]) -> None:
        problems = [*field_problems(event)]
        for below, message in problems:
            self._refuse(message, below)
        if problems:
            return
        for field, table in names.items():
            name: str = getattr(event, field)
            if not self._expect(name, getattr(self._content, table), table[:-1]):
                return
        try:
            if isinstance(rule, str):
                self._task(rule, event.uid)
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
        awaiting = self._awaited.get(uid)
        if awaiting:
            waiting = [each for each in awaiting if each in self._content.dependent]
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
        if _has_place(task):
            return True
        for below, message in _no_place(task):
            self._refuse(f"task {task.uid!r}: {below}: {message}")
        return False

    # Jobs

    def job_arrived(self, event: happened.JobArrived) -> None:
        content, job = self._content, event.job
        if job.uid in content.jobs:
            self._refuse(f"there is a job {job.uid!r} already")
            return
        if not (
            self._is_sound_on_no_node(job)
            and content.tasks.keys().isdisjoint([task.uid for task in job.tasks])
        ):
            self._to_check.append((self._path, "jobs", job))
            tasks: object = job.tasks
            if not is_tuple(tasks) or not all(
                is_of(task, TaskInfo) and _has_place(task) for task in job.tasks
            ):
                return  # the check of the job reports the fault
            new = [task for task in job.tasks if self._is_new_task(task)]
            if len(set(_uids(new))) < len(job.tasks):
                return
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
        end = ends(TaskStatus.SUCCEEDED if event.succeeded else TaskStatus.FAILED)
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
        before = content.besides["topologies"]
        after = without_nodes(before, (event.name,))
        if any(one is not other for one, other in zip(before, after, strict=True)):
            content.put("besides", "topologies", tuple(after))

    def devices_changed(self, event: happened.DevicesChanged) -> None:
        for name in OF_DEVICES:
            value = getattr(event, name)
            if value is not None:
                self._content.put("besides", name, value)
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
        named: dict[str, Topology] = {}
        for topology in event.topologies:
            if topology.name in named:
                self._refuse(f"expected each topology once, got {topology.name!r} again")
            named[topology.name] = topology
        in_order = tuple([named[name] for name in sorted(named)])
        self._content.put("besides", "topologies", in_order)

    def budgets_changed(self, event: happened.BudgetsChanged) -> None:
        self._check(self._path, {"budgets": event.budgets})
        self._content.put("besides", "budgets", event.budgets)

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
        is_sound = job_test(content.nodes)
        for path, part, item in self._to_check:
            checked = item
            if part == "jobs":
                job = cast("JobInfo", item)
                if is_sound(job):
                    continue
                if is_of(job.groups, tuple) and has_requests(job):
                    checked = without_requests(job)  # it is checked with all tasks, below
            self._check(path, {part: (checked,)})
        for changed, parts in _CHECKED_WITH.items():
            if changed in self._changed:
                whole: dict[str, Any] = {part: content.in_order(part) for part in parts}
                if changed == "topologies":
                    whole["topologies"] = content.besides["topologies"]
                self._check(self._changed[changed], whole)
        if "topologies" in self._changed:
            for uid, job in content.jobs.items():
                if has_requests(job):
                    self._requests_to_check.setdefault(uid, self._changed["topologies"])
        levels = levels_of(content.besides["topologies"])
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
            node_names=content.nodes, now=content.now, **content.of_devices(), **parts
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


def _has_place(task: TaskInfo) -> bool:
    """Return whether the tables can hold a task until all is checked."""
    return type(task.status) is TaskStatus and type(task.node_name) in (NoneType, str)


def _no_place(task: TaskInfo) -> Problems:
    """Yield why the tables cannot even hold a task until all is checked."""
    if not _has_place(task):
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
