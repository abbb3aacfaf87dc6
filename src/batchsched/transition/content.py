"""The content of a cluster as mutable tables with rollback.

The mutable counterpart of a `Snapshot`: each write costs O(1) and is recorded in a journal, so that
an invalid change can be undone as a whole. The changes of a batch of writes become a
`ContentVersion`, which readers follow at a cost of O(changes), however large the cluster is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, Literal

from attrs import define, field

from batchsched.model.cluster import (
    Budget,
    JobInfo,
    NodeInfo,
    PastEviction,
    Queue,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.devices import CounterSet, Device, DevicePick
from batchsched.model.immutable import copier
from batchsched.model.rules import Unmet, unmet_dependencies
from batchsched.model.snapshot import (
    OF_DEVICES,
    Snapshot,
    besides_of,
    snapshot_of_sound_parts,
)
from batchsched.model.topology import Topology, levels_alone

MANY = 8
"""If more than one in this many jobs changed, all are sorted again."""


def _nodes_of(task: TaskInfo) -> tuple[str, ...]:
    """Return the names of the nodes that a task names: two while it moves."""
    if task.node_name is None:
        return ()
    if task.leaving is None:
        return (task.node_name,)
    return task.node_name, task.leaving


class OrderedJobs:
    """The jobs of a cluster, updated on demand."""

    def __init__(self) -> None:
        self._uids: list[str] = []
        self._jobs: list[JobInfo] = []
        self._touched: dict[str, None] = {}
        self._is_outdated = False
        """Whether so many jobs changed that it no longer matters which: all are sorted again."""

    def begin(self, jobs: Iterable[JobInfo]) -> None:
        """Set the initial jobs, which must be in order."""
        self._jobs = list(jobs)
        self._uids = [job.uid for job in self._jobs]
        self._touched.clear()
        self._is_outdated = False

    def touch(self, uid: str) -> None:
        """Record that a job was added, removed or changed."""
        if self._is_outdated:
            return
        self._touched[uid] = None
        if len(self._touched) * MANY > len(self._uids):
            # Jobs come and go for as long as nobody reads the order; their UIDs must not pile up.
            self._is_outdated = True
            self._touched.clear()

    def brought_up_to_date(
        self, there: Collection[str], made: Callable[[str], JobInfo]
    ) -> tuple[JobInfo, ...]:
        """Return all jobs in order.

        O(jobs), a pointer for each, plus O(log jobs) and a call of `made` for each touched job.
        Where more than one in `MANY` was touched, all are sorted, and `made` is called for all.

        Args:
            there: the UIDs of the existing jobs.
            made: returns a job by its UID.

        """
        if self._is_outdated:
            self.begin(made(uid) for uid in sorted(there))
        else:
            for uid in self._touched:
                self._bring_up_to_date(uid, made(uid) if uid in there else None)
            self._touched.clear()
        return tuple(self._jobs)

    def _bring_up_to_date(self, uid: str, job: JobInfo | None) -> None:
        place = bisect_left(self._uids, uid)
        is_known = place < len(self._uids) and self._uids[place] == uid
        if job is None:
            if is_known:
                del self._uids[place], self._jobs[place]
        elif is_known:
            self._jobs[place] = job
        else:
            self._uids.insert(place, uid)
            self._jobs.insert(place, job)


_SETTLED = (
    TaskStatus.PENDING,
    TaskStatus.RUNNING,
    TaskStatus.SUCCEEDED,
    TaskStatus.FAILED,
    TaskStatus.UNKNOWN,
)
_with_tasks = copier(JobInfo, "tasks")

Table = Literal[
    "tasks",
    "owner",
    "jobs",
    "members",
    "nodes",
    "queues",
    "besides",
    "now",
]
Part = Literal["nodes", "queues", "others"]

Devices = tuple[Device, ...] | tuple[CounterSet, ...] | tuple[DevicePick, ...]
Value = (
    TaskInfo
    | JobInfo
    | NodeInfo
    | Queue
    | tuple[Topology, ...]
    | Devices
    | tuple[Budget, ...]
    | tuple[PastEviction, ...]
    | tuple[str, ...]
    | str
    | float
    | None
)


@define(eq=False)
class ContentVersion:
    """A state of the content, with its differences from the next one.

    Readers hold the version that they know, and follow `next` to the newest. A version to which
    there is no reference is freed, with its differences.
    """

    before: dict[tuple[Table, str], Value] = field(factory=dict[tuple[Table, str], Value])
    """The values in this version, by table and key, that differ in the next; None: absent."""
    next: ContentVersion | None = None
    """The next version; None: this is the newest."""


class Content:
    """The content of a cluster, by UID and name. Only `put` changes it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, JobInfo] = {}
        """The jobs by UID, without their tasks; see `members` and `tasks`."""
        self.members: dict[str, tuple[str, ...]] = {}
        """The UIDs of each job's tasks, in order, by UID of the job."""
        self.tasks: dict[str, TaskInfo] = {}
        """All tasks by UID, including those without a job."""
        self.owner: dict[str, str] = {}
        """The UID of each task's job, without tasks that have no job."""
        self.besides: dict[str, Any] = {}
        """What the snapshot says besides what is kept by name, and the time, by field."""
        self.now: float = snapshot.now
        self.on_node: dict[str, dict[str, None]] = {}
        """The UIDs of the tasks that name a node, also as one that they leave, by its name."""
        self.unsettled: dict[str, None] = {}
        """The UIDs of tasks in a transitional status: bound, releasing, reserved or promised."""
        self.others: dict[str, None] = {}
        """The UIDs of the tasks without a job."""
        self.unended: dict[str, int] = {}
        """The number of tasks of each job that have not ended, without jobs that have none."""
        self._may_have_ended: dict[str, None] = {}
        """The UIDs of all jobs whose tasks may all have ended."""
        self.dependent: dict[str, None] = {}
        """The UIDs of the jobs that depend on others and have no eligible time yet."""
        self.planned: dict[str, None] = {}
        """The UIDs of the jobs that have a plan."""
        self.version = ContentVersion()
        """The newest version."""
        self.trials = 0
        """How many trials are open."""
        self._made: dict[str, JobInfo] = {}
        """Cached jobs with their present tasks."""
        self._whole: Snapshot | None = None
        self._jobs_in_order = OrderedJobs()
        self._in_order: dict[str, tuple[Any, ...]] = {}
        """Cached sorted parts of snapshots."""
        self._tables: dict[Table, dict[str, Any]] = {
            "besides": self.besides,
            "jobs": self.jobs,
            "members": self.members,
            "nodes": self.nodes,
            "owner": self.owner,
            "queues": self.queues,
            "tasks": self.tasks,
        }
        self._journal: list[tuple[tuple[Table, str], Value]] = []
        """All writes since the last commit, with what was there before."""
        for node in snapshot.nodes:
            self.put("nodes", node.name, node)
        for queue in snapshot.queues:
            self.put("queues", queue.name, queue)
        for job in snapshot.jobs:
            self.enter(job)
        self._jobs_in_order.begin(snapshot.jobs)
        for task in snapshot.other_tasks:
            self.put("tasks", task.uid, task)
        for name, value in besides_of(snapshot).items():
            self.put("besides", name, value)
        self.commit()
        self.version = ContentVersion()
        self._whole = snapshot

    # Writing

    def put(self, table: Table, key: str, value: Value) -> None:
        """Set the value of a table at a key; None removes it. O(1)."""
        write = self._WRITERS.get(table)
        if write is not None:
            before = write(self, key, value)
        else:
            self._in_order.pop(table, None)
            before = _write(self._tables[table], key, value)
        self._journal.append(((table, key), before))

    def enter(self, job: JobInfo) -> None:
        """Add a new job with its tasks. O(tasks of the job)."""
        # Without its tasks, which would be outdated as soon as one of them changes.
        self.put("jobs", job.uid, _with_tasks(job, ()))
        self.put("members", job.uid, tuple([task.uid for task in job.tasks]))
        for task in job.tasks:
            self.put("owner", task.uid, job.uid)
            self.put("tasks", task.uid, task)
        self._made[job.uid] = job

    def leave(self, uid: str) -> None:
        """Remove a job with its tasks. O(tasks of the job)."""
        for member in self.members[uid]:
            self.put("tasks", member, None)
            self.put("owner", member, None)
        self.put("members", uid, None)
        self.put("jobs", uid, None)

    def take_out_task(self, uid: str) -> None:
        """Remove a task, with or without a job. O(tasks of its job)."""
        owner = self.owner.get(uid)
        self.put("tasks", uid, None)
        if owner is not None:
            self.put("owner", uid, None)
            self.put("members", owner, tuple(m for m in self.members[owner] if m != uid))

    def mark(self) -> int:
        """Return the position in the journal, for `undo_to`."""
        return len(self._journal)

    def undo_to(self, mark: int) -> None:
        """Undo all writes since a mark, the last first."""
        while len(self._journal) > mark:
            (table, key), before = self._journal.pop()
            self.put(table, key, before)
            self._journal.pop()

    def commit(self) -> None:
        """Keep all writes; their changes become a version. O(writes)."""
        if not self._journal:
            return
        before = dict(self._journal)
        if len(before) < len(self._journal):  # of several writes, what was there before the first
            before.update(reversed(self._journal))
        self._journal.clear()
        self._whole = None
        self.version.before = before
        self.version.next = self.version = ContentVersion()

    def changed_since(self, version: ContentVersion) -> dict[tuple[Table, str], Value]:
        """Return the differences from an earlier version, with its values. O(changes)."""
        before = version.before.copy()
        at = version.next
        while at is not None:
            for key, value in at.before.items():
                before.setdefault(key, value)
            at = at.next
        return before

    @contextmanager
    def trial(self) -> Generator[None]:
        """Restore the present state at the end of a ``with`` block. O(changes in between)."""
        version = self.version
        self.trials += 1
        try:
            yield
        finally:
            self.trials -= 1
            self.restore(version)

    def restore(self, version: ContentVersion) -> None:
        """Restore the state of an earlier version. O(changes since)."""
        for (table, key), value in self.changed_since(version).items():
            self.put(table, key, value)
        self.commit()

    # Each of these writes in a table, and in what is kept besides, and returns what was there.

    def _write_task(self, uid: str, task: TaskInfo | None) -> Value:
        before, owner = self.tasks.get(uid), self.owner.get(uid)
        if before is not None:
            self._count(before, owner, -1)
        if task is not None:
            self._count(task, owner, 1)
            self.tasks[uid] = task
        elif before is not None:
            del self.tasks[uid]
        return before

    def _write_owner(self, uid: str, owner: str | None) -> Value:
        # Without the task, the indices are updated when it is added.
        task, before = self.tasks.get(uid), self.owner.get(uid)
        if task is not None:
            self._count(task, before, -1)
        _write(self.owner, uid, owner)
        if task is not None:
            self._count(task, owner, 1)
        return before

    def _write_job(self, uid: str, job: JobInfo | None) -> Value:
        self._forget_made(uid)
        if job is not None and job.depends_on and job.eligible_time is None:
            self.dependent[uid] = None
        else:
            self.dependent.pop(uid, None)
        if job is not None and job.plan is not None:
            self.planned[uid] = None
        else:
            self.planned.pop(uid, None)
        return _write(self.jobs, uid, job)

    def _write_members(self, uid: str, members: tuple[str, ...] | None) -> Value:
        self._forget_made(uid)
        if members is None:
            self._may_have_ended.pop(uid, None)
        else:
            self._may_have_ended[uid] = None
        return _write(self.members, uid, members)

    def _write_now(self, _key: str, now: float) -> Value:
        before, self.now = self.now, now
        return before

    _WRITERS: ClassVar[Mapping[Table, Callable[..., Value]]] = {
        "tasks": _write_task,
        "owner": _write_owner,
        "jobs": _write_job,
        "members": _write_members,
        "now": _write_now,
    }

    def _forget_made(self, uid: str) -> None:
        self._made.pop(uid, None)
        self._jobs_in_order.touch(uid)

    def _count(self, task: TaskInfo, owner: str | None, sign: int) -> None:
        """Add a task to the indices by node, status and job (sign 1), or remove it (-1)."""
        uid, status = task.uid, task.status
        if task.node_name is not None:
            for node_name in _nodes_of(task):
                if sign > 0:
                    self.on_node.setdefault(node_name, {})[uid] = None
                else:
                    self._leave_node(uid, node_name)
        if status not in _SETTLED:
            if sign > 0:
                self.unsettled[uid] = None
            else:
                del self.unsettled[uid]
        if owner is None:
            self._in_order.pop("others", None)
            if sign > 0:
                self.others[uid] = None
            else:
                del self.others[uid]
            return
        self._forget_made(owner)
        if not status.ended:
            count = self.unended.get(owner, 0) + sign
            if count:
                self.unended[owner] = count
            else:
                del self.unended[owner]
                self._may_have_ended[owner] = None

    def _leave_node(self, uid: str, node_name: str) -> None:
        there = self.on_node[node_name]
        del there[uid]
        if not there:
            del self.on_node[node_name]

    # Reading

    def find(self, table: Table, key: str) -> Value:
        """Return the value of a table at a key; None: absent. O(1)."""
        value: Value = self._tables[table].get(key)
        return value

    def job(self, uid: str) -> JobInfo:
        """Return a job with its present tasks. O(tasks), and O(1) while they do not change."""
        made = self._made.get(uid)
        if made is None:
            tasks = tuple([self.tasks[member] for member in self.members[uid]])
            made = self._made[uid] = _with_tasks(self.jobs[uid], tasks)
        return made

    def snapshot(self) -> Snapshot:
        """Return the content as a snapshot. O(jobs), and O(1) while nothing changes."""
        if self._whole is None:
            self._whole = snapshot_of_sound_parts(
                nodes=self.in_order("nodes"),
                jobs=self._jobs_in_order.brought_up_to_date(self.jobs, self.job),
                queues=self.in_order("queues"),
                other_tasks=self.in_order("others"),
                now=self.now,
                **self.besides,
            )
        return self._whole

    def in_order(self, part: Part) -> tuple[Any, ...]:
        """Return the values of a table, or the tasks without a job, in order of name or UID.

        O(1) while they do not change.
        """
        known = self._in_order.get(part)
        if known is None:
            table = self.tasks if part == "others" else self._tables[part]
            keys = self.others if part == "others" else table
            known = self._in_order[part] = tuple([table[key] for key in sorted(keys)])
        return known

    def adopt(self, snapshot: Snapshot) -> None:
        """Set the cached snapshot, which must equal the content."""
        self._whole = snapshot

    def part(
        self, task_uids: Iterable[str], node_names: Iterable[str], jobs: Iterable[str] = ()
    ) -> Snapshot:
        """Return a partial snapshot with some jobs, the jobs of some tasks, and their nodes.

        It has no queues, and of topologies the levels alone. Its nodes are those that are named and
        those of the jobs' tasks. Its tasks without a job are those on these nodes and those that
        are named. O(its size).
        """
        uids = sorted(set(task_uids))
        owners = {*jobs, *(self.owner[uid] for uid in uids if uid in self.owner)}
        whole = [self.job(uid) for uid in sorted(owners)]
        names = {
            *node_names,
            *chain.from_iterable(_nodes_of(t) for job in whole for t in job.tasks),
        }
        others = {uid for uid in uids if uid in self.others}
        nodes: list[NodeInfo] = []
        names.update(*(_nodes_of(self.tasks[uid]) for uid in others))
        for name in names:
            if name in self.nodes:
                nodes.append(self.nodes[name])
                others |= {uid for uid in self.on_node.get(name, ()) if uid in self.others}
        return snapshot_of_sound_parts(
            nodes=tuple(sorted(nodes, key=attrgetter("name"))),
            jobs=tuple(whole),
            queues=(),
            other_tasks=tuple(self.tasks[uid] for uid in sorted(others)),
            topologies=levels_alone(self.besides["topologies"]),
            now=self.now,
            **self.of_devices(),
        )

    @property
    def topologies(self) -> Mapping[str, Topology]:
        """The topologies by name, in order. O(topologies)."""
        return {each.name: each for each in self.besides["topologies"]}

    def of_devices(self) -> dict[str, Any]:
        """Return what is said of devices besides nodes and tasks, by field."""
        return {name: self.besides[name] for name in OF_DEVICES}

    def unmet(self, dependent: Collection[str]) -> Mapping[str, Unmet]:
        """Return which of some jobs are not eligible, by UID. O(jobs that they depend on)."""
        if not dependent:
            return {}
        uids = dict.fromkeys(dependent)
        for uid in dependent:
            uids.update(dict.fromkeys(d.job for d in self.jobs[uid].depends_on))
        return unmet_dependencies(self.job(uid) for uid in sorted(uids) if uid in self.jobs)

    def ended_jobs(self) -> Iterator[str]:
        """Yield the UIDs of the jobs with tasks, all of which have ended.

        O(jobs that were added or changed since the last call + jobs that have ended).
        """
        for uid in list(self._may_have_ended):
            if uid not in self.unended and self.members.get(uid):
                yield uid
            else:
                del self._may_have_ended[uid]


def _write(table: dict[str, Any], key: str, value: Any) -> Value:
    if value is None:
        return table.pop(key, None)  # type: ignore[no-any-return]
    before: Value = table.get(key)
    table[key] = value
    return before
