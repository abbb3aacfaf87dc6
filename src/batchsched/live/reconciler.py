"""Keeps a living cluster true to one that others change, too.

What is seen of the real cluster may come late, twice or out of order, and decisions take effect
some time after they were sent, or never. The reconciler compares what was seen with what is known,
object by object, and tells its cluster what happened; it does no input or output and reads no
clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from enum import Enum
from types import MappingProxyType
from typing import Literal, TypeVar

from attrs import evolve, frozen

from batchsched.errors import EventError, Fault
from batchsched.live.cluster import Cluster
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.described import describe
from batchsched.model.immutable import kept_tuple
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot, common_of
from batchsched.model.validation.values import is_of, is_text, shown, time_problems
from batchsched.transition import events as happened
from batchsched.transition.event_rules import TO_START, as_it_was

Kind = Literal["node", "queue", "job", "task"]
Item = NodeInfo | Queue | JobInfo | TaskInfo

_KINDS: Mapping[type, Kind] = {NodeInfo: "node", Queue: "queue", JobInfo: "job", TaskInfo: "task"}
_IN_ORDER: tuple[Kind, ...] = ("queue", "node", "job", "task")
_REMEMBERED = 16
"""How many earlier versions of an object are known again."""

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@frozen
class Seen:
    """An object as the real cluster has it.

    >>> Seen(NodeInfo(name="n1"), "rv-17").kind
    'node'
    """

    item: Item
    """The object; jobs come without tasks, which are seen by themselves."""
    version: str = ""
    """The version of this state. It is opaque: two states are the same if their versions are."""
    job: str = ""
    """For a task, the UID of its job; empty: it has none, and only occupies its node."""

    @property
    def kind(self) -> Kind:
        """What kind of object it is."""
        return _KINDS[type(self.item)]

    @property
    def name(self) -> str:
        """The name of a node or queue, the UID of a job or task."""
        return self.item.name if isinstance(self.item, (NodeInfo, Queue)) else self.item.uid


@frozen
class Deleted:
    """An object that the real cluster does not have any more."""

    kind: Kind
    name: str
    """The name of a node or queue, the UID of a job or task."""
    version: str = ""


class CorrectionKind(Enum):
    """What turned out to be different from what was known."""

    BIND_GIVEN_UP = "bind given up"
    EVICTION_GIVEN_UP = "eviction given up"
    STARTED_AFTER_ALL = "started after all"
    """A bind that had been given up, or of another scheduler."""
    BOUND_ELSEWHERE = "bound elsewhere"
    WAITS_AGAIN = "waits again"
    GONE_WHILE_BINDING = "gone while binding"
    NODE_GONE = "node gone"
    """It is closed, and goes when the last of its tasks has gone."""
    NODE_UNKNOWN = "node unknown"
    """A task is on a node that was not seen yet: it is there, and closed, until it is."""


@frozen
class Correction:
    """Something that turned out to be different from what was known."""

    kind: CorrectionKind
    name: str
    """The UID of the task, or the name of the node."""
    text: str

    def __str__(self) -> str:
        return self.text


@frozen
class InFlight:
    """A decision that was sent, of which nothing has been seen yet."""

    decision: Literal["bind", "eviction"]
    node_name: str
    since: float


describe(Seen, Deleted, Correction, InFlight)


@frozen
class _Known:
    """What was seen last of an object."""

    item: Item
    version: str
    job: str = ""


def _versions() -> deque[str]:
    return deque(maxlen=_REMEMBERED)


class Reconciler:
    """Reports to a cluster what happened, given what is seen of the real one.

    The rules depend only on what is seen, which may come in any order:

    - A state whose version is the present one, or one of the last 16 before it, is ignored; with
      `is_newer`, so is every state that is not newer. A deleted task does not come back.
    - A bind in flight holds its place until the task is seen on a node, ends or is deleted, or
      until it is given up: then it waits again. If it is seen on a node after all, it is there.
    - An eviction in flight leaves its task Releasing until it is seen to leave, end or be deleted,
      or until it is given up: then it runs on. What replaces it has another UID.
    - A node that is gone is closed while tasks are on it, and comes back as it was seen. So is a
      node that was not seen yet.
    - A task whose job was not seen waits for it; on a node, it occupies that meanwhile.
    - A queue whose parent was not seen waits for it.

    Args:
        cluster: the cluster that it keeps; nothing else should apply events to it.
        give_up_after: seconds after which a decision is given up if nothing is seen of it.
        is_newer: whether the first version is newer than the second, where versions can be
            compared; None: they are opaque.

    Raises:
        EventError: an argument is wrong.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, Scheduler, TaskInfo, TaskStatus
    >>> from batchsched.live import Cluster, Reconciler, Seen
    >>> cpu = Resource(milli_cpu=1000)
    >>> reconciler = Reconciler(Cluster(), give_up_after=30)
    >>> live = Scheduler().attach(reconciler.cluster)
    >>> pod = TaskInfo(uid="uid-1", name="train-0", resreq=cpu)
    >>> reconciler.observe(
    ...     Seen(pod, "7", job="default/train"),
    ...     Seen(JobInfo(name="train", queue="q"), "3"),
    ...     Seen(NodeInfo(name="n1", allocatable=cpu), "2"),
    ...     Seen(Queue(name="q"), "1"),
    ... )
    ()
    >>> cycle = live.schedule()
    >>> reconciler.carry_out(cycle)  # and send the binds
    >>> reconciler.in_flight["uid-1"].node_name
    'n1'
    >>> for correction in reconciler.pass_time(31):
    ...     print(correction)
    task uid-1: nothing was seen of its bind to n1 for 30 s; it waits again

    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        give_up_after: float = 300.0,
        is_newer: Callable[[str, str], bool] | None = None,
    ) -> None:
        faults: list[Fault] = []
        if not is_of(cluster, Cluster):
            faults.append(Fault("cluster", f"expected a Cluster, got {shown(cluster)}"))
        if [*time_problems("", give_up_after)] or give_up_after <= 0:
            message = f"expected a number of seconds above 0, got {shown(give_up_after)}"
            faults.append(Fault("give_up_after", message))
        if is_newer is not None and not callable(is_newer):
            faults.append(Fault("is_newer", f"expected a function, got {shown(is_newer)}"))
        if faults:
            raise EventError(faults)
        self._cluster = cluster
        self._give_up_after = give_up_after
        self._is_newer = is_newer
        self._known: dict[tuple[Kind, str], _Known] = {}
        self._past: dict[tuple[Kind, str], deque[str]] = {}
        """The versions of each object that are not news, with those of deleted ones."""
        self._deleted: dict[str, Literal[True]] = {}
        """The UIDs of deleted tasks."""
        self._tasks_of: dict[str, dict[str, None]] = {}
        """The UIDs of the tasks that were seen of each job."""
        self._flights: dict[str, InFlight] = {}
        self._undo: list[Callable[[], object]] = []
        self._corrections: list[Correction] = []

    @property
    def cluster(self) -> Cluster:
        """The cluster that it keeps."""
        return self._cluster

    @property
    def in_flight(self) -> Mapping[str, InFlight]:
        """The decisions of which nothing was seen yet, by UID of the task."""
        return MappingProxyType(self._flights)

    # What callers say

    def observe(self, *observations: Seen | Deleted) -> tuple[Correction, ...]:
        """Take in what was seen, in any order; return what it corrected. O(what it concerns).

        Raises:
            EventError: something seen is invalid; all faults at once, and nothing has changed.

        """
        self._check(observations)
        with self._all_or_nothing() as corrections:
            concerned = [each for each in observations if self._is_news(each)]
            for each in concerned:
                self._note(each)
            self._settle({(each.kind, each.name) for each in concerned})
        return tuple(corrections)

    def relist(self, kind: Kind, seen: Iterable[Seen], /) -> tuple[Correction, ...]:
        """Take in all objects of a kind that the real cluster has now; others of it are deleted.

        O(objects of the kind). What was known of versions is forgotten.

        Raises:
            EventError: something is invalid or of another kind; nothing has changed.

        """
        listed = kept_tuple(seen, "seen")
        self._check(listed, only_seen=True)
        other = [each for each in listed if each.kind != kind]
        if kind not in _IN_ORDER or other:
            what = f"objects of kind {shown(kind)}" if kind in _IN_ORDER else ", ".join(_IN_ORDER)
            got = shown(other[0]) if other else shown(kind)
            raise EventError.at("kind", f"expected {what}, got {got}")
        with self._all_or_nothing() as corrections:
            self._settle(self._note_all(kind, listed))
        return tuple(corrections)

    def observe_all(self, snapshot: Snapshot, /) -> tuple[Correction, ...]:
        """Take in everything that the real cluster has now, as `relist` of each kind. O(size).

        Times and plans of the snapshot do not matter, nor do its promises and reservations.

        Raises:
            EventError: it is no snapshot, or contradicts what was seen; nothing has changed.

        """
        if not is_of(snapshot, Snapshot):
            raise EventError.at("snapshot", f"expected a Snapshot, got {shown(snapshot)}")
        seen: dict[Kind, list[Seen]] = {
            "queue": [Seen(queue) for queue in snapshot.queues],
            "node": [Seen(node) for node in snapshot.nodes],
            "job": [Seen(evolve(job, tasks=(), plan=None)) for job in snapshot.jobs],
            "task": [Seen(task, job=job.uid) for job in snapshot.jobs for task in job.tasks],
        }
        seen["task"] += [Seen(task) for task in snapshot.other_tasks]
        common = common_of(snapshot)
        before = common_of(self._cluster.snapshot())
        with self._all_or_nothing() as corrections:
            changed = [self._note_all(kind, seen[kind]) for kind in _IN_ORDER]
            if common != before:
                # Nodes may still draw on counters that go, and on those that come.
                known = {(each.driver, each.pool, each.name) for each in snapshot.counter_sets}
                kept = [
                    each
                    for each in before["counter_sets"]
                    if (each.driver, each.pool, each.name) not in known
                ]
                both = [*snapshot.counter_sets, *kept]
                self._cluster.apply(happened.DevicesChanged(devices=(), counter_sets=both))
            self._settle({each for some in changed for each in some})
            if common != before:
                self._cluster.apply(happened.DevicesChanged(**common))
        return tuple(corrections)

    def _note_all(self, kind: Kind, listed: Iterable[Seen]) -> set[tuple[Kind, str]]:
        """Note all objects of a kind; return those that are not as they were."""
        for key in [key for key in self._past if key[0] == kind]:
            self._write(self._past, key, None)
        there = {each.name: each for each in listed}
        changed = {key for key in self._known if key[0] == kind and key[1] not in there}
        for _, name in sorted(changed):
            self._note(Deleted(kind, name))
        for name, each in there.items():
            known = self._known.get((kind, name))
            if known is None or (known.item, known.job) != (each.item, each.job):
                changed.add((kind, name))
            if kind == "task":
                self._write(self._deleted, name, None)
            self._note(each)
        return changed

    def carry_out(self, cycle: CycleResult) -> None:
        """Apply the decisions of a cycle to the cluster; its binds and evictions are in flight.

        Raises:
            EventError: as `Cluster.carry_out`; nothing has changed.

        """
        self._cluster.carry_out(cycle)
        now = self._cluster.now
        for bind in cycle.binds:
            self._flights[bind.task_uid] = InFlight("bind", bind.node_name, now)
        for eviction in cycle.evictions:
            self._flights[eviction.task_uid] = InFlight("eviction", eviction.node_name, now)

    def refused(self, uid: str, /) -> None:
        """Say that a decision in flight was refused: the task waits again, or runs on.

        Raises:
            EventError: nothing is in flight for the task.

        """
        flight = self._flights.get(uid) if is_text(uid) else None
        if flight is None:
            raise EventError.at("uid", f"nothing is in flight for task {shown(uid)}")
        with self._all_or_nothing():
            self._give_up(uid)

    def pass_time(self, now: float, /) -> tuple[Correction, ...]:
        """Let time pass, and give up what has been in flight for too long. O(in flight).

        Raises:
            EventError: the time is before the last one.

        """
        with self._all_or_nothing() as corrections:
            self._cluster.apply(happened.TimePassed(now))
            for uid, flight in list(self._flights.items()):
                if now - flight.since < self._give_up_after:
                    continue
                self._give_up(uid)
                kind, what, then = (
                    (CorrectionKind.BIND_GIVEN_UP, f"bind to {flight.node_name}", "waits again")
                    if flight.decision == "bind"
                    else (CorrectionKind.EVICTION_GIVEN_UP, "eviction", "runs on")
                )
                nothing = f"nothing was seen of its {what} for {self._give_up_after:g} s"
                self._correct(kind, uid, f"task {uid}: {nothing}; it {then}")
        return tuple(corrections)

    # What was seen

    def _check(self, observations: Iterable[object], *, only_seen: bool = False) -> None:
        faults: list[Fault] = []
        for place, each in enumerate(observations):
            path = f"observations[{place}]"
            if isinstance(each, Seen):
                if type(each.item) not in _KINDS:
                    message = "expected a NodeInfo, Queue, JobInfo or TaskInfo, got"
                    faults.append(Fault(f"{path}.item", f"{message} {shown(each.item)}"))
                elif isinstance(each.item, JobInfo) and each.item.tasks:
                    faults.append(
                        Fault(f"{path}.item.tasks", "expected none: tasks are seen alone")
                    )
                elif not is_text(each.name):
                    faults.append(Fault(f"{path}.item", f"expected a name, got {shown(each.name)}"))
            elif only_seen or not isinstance(each, Deleted):
                what = "Seen" if only_seen else "Seen or Deleted"
                faults.append(Fault(path, f"expected {what}, got {shown(each)}"))
            elif each.kind not in _IN_ORDER or not is_text(each.name):
                faults.append(Fault(path, f"expected a kind and a name, got {shown(each)}"))
            for name in ("version", "job"):
                text = getattr(each, name, "")
                if not is_text(text):
                    faults.append(Fault(f"{path}.{name}", f"expected a string, got {shown(text)}"))
        if faults:
            raise EventError(faults)

    def _is_news(self, each: Seen | Deleted) -> bool:
        key = (each.kind, each.name)
        if each.kind == "task" and each.name in self._deleted:
            return False
        known = self._known.get(key)
        if not each.version:
            return known is not None or isinstance(each, Seen)
        if each.version in self._past.get(key, ()):
            return False
        if self._is_newer is not None and known is not None and known.version:
            return self._is_newer(each.version, known.version)
        return known is not None or isinstance(each, Seen)

    def _note(self, each: Seen | Deleted) -> None:
        key = (each.kind, each.name)
        before = self._known.get(key)
        if each.version:
            past = self._past.get(key, _versions()).copy()
            past.append(each.version)
            self._write(self._past, key, past)
        job = ""
        if isinstance(each, Seen):
            job = each.job
            self._write(self._known, key, _Known(each.item, each.version, job))
        else:
            self._write(self._known, key, None)
            if each.kind == "task":
                self._write(self._deleted, each.name, True)
        if each.kind == "task":
            for of, belongs in ((before.job if before else "", False), (job, True)):
                tasks = dict(self._tasks_of.get(of, {}))
                tasks.pop(each.name, None)
                if belongs and of:
                    tasks[each.name] = None
                self._write(self._tasks_of, of, tasks or None)

    def _write(self, table: dict[KeyT, ValueT], key: KeyT, value: ValueT | None) -> None:
        """Set a value, or take it out if it is None; what goes wrong later undoes it."""
        before = table.get(key)
        _put(table, key, value)
        self._undo.append(lambda: _put(table, key, before))

    @contextmanager
    def _all_or_nothing(self) -> Generator[list[Correction]]:
        content = self._cluster.content
        version, flights = content.version, dict(self._flights)
        self._undo, self._corrections = [], []
        try:
            yield self._corrections
        except BaseException:
            for undo in reversed(self._undo):
                undo()
            self._flights = flights
            content.restore(version)
            raise
        finally:
            self._undo = []

    def _correct(self, kind: CorrectionKind, name: str, text: str) -> None:
        self._corrections.append(Correction(kind, name, text))

    # What follows from it

    def _settle(self, concerned: set[tuple[Kind, str]]) -> None:
        """Bring the cluster up to date with what is known of objects, in an order that works."""
        names = {kind: sorted(name for of, name in concerned if of == kind) for kind in _IN_ORDER}
        if names["queue"]:
            self._settle_queues()
        for name in names["node"]:
            self._settle_node(name)
        for uid in names["job"]:
            self._settle_job(uid)
        for uid in names["task"]:
            self._settle_task(uid)

    def _settle_queues(self) -> None:
        """Queues refer to one another: those whose parents are all there are in the cluster."""
        items = (known.item for known in self._known.values())
        seen = {item.name: item for item in items if isinstance(item, Queue)}
        wanted: dict[str, Queue] = {}
        for name in sorted(seen):
            path: list[str] = []
            at: str | None = name
            while at is not None and at in seen and at not in path:
                path.append(at)
                at = seen[at].parent
            if at is None:
                wanted[name] = seen[name]
        present = self._cluster.content.queues
        events: list[happened.Event] = []
        for name, queue in wanted.items():
            if name not in present:
                events.append(happened.QueueAdded(queue))
                continue
            before = present[name]
            # What was used is reckoned here, and only begins as it was seen.
            after = evolve(queue, usage=before.usage, usage_by_user=before.usage_by_user)
            if after != before:
                events.append(happened.QueueChanged(after))
        events += [happened.QueueRemoved(name) for name in sorted(present) if name not in wanted]
        if events:
            self._cluster.apply(*events)

    def _settle_node(self, name: str) -> None:
        content = self._cluster.content
        known = self._known.get(("node", name))
        before = content.nodes.get(name)
        after = None
        if known is not None:
            assert isinstance(known.item, NodeInfo)
            after = known.item
        elif before is not None and any(
            content.tasks[uid].status.holds for uid in content.on_node.get(name, ())
        ):
            after = evolve(before, unschedulable=True)
            if before != after:
                text = f"node {name} is gone; it is closed while tasks are on it"
                self._correct(CorrectionKind.NODE_GONE, name, text)
        if after == before:
            return
        if after is None:
            self._cluster.apply(happened.NodeRemoved(name))
        else:
            event = happened.NodeAdded if before is None else happened.NodeChanged
            self._cluster.apply(event(after))

    def _has_node(self, name: str) -> None:
        """See to it that a node is there on which a task was seen."""
        if name not in self._cluster.content.nodes:
            text = f"node {name} was not seen; it is closed until it is"
            self._correct(CorrectionKind.NODE_UNKNOWN, name, text)
            self._cluster.apply(happened.NodeAdded(NodeInfo(name=name, unschedulable=True)))

    def _settle_job(self, uid: str) -> None:
        content = self._cluster.content
        known = self._known.get(("job", uid))
        before = content.jobs.get(uid)
        if known is None and before is None:
            return
        if known is None or before is None:
            if known is None:
                self._cluster.apply(happened.JobRemoved(uid))
            else:
                assert isinstance(known.item, JobInfo)
                self._cluster.apply(happened.JobArrived(known.item))
            for task in list(self._tasks_of.get(uid, ())):
                self._settle_task(task)
            return
        item = known.item
        assert isinstance(item, JobInfo)
        if evolve(before, plan=None, eligible_time=item.eligible_time) == evolve(item, plan=None):
            return
        changed = happened.JobChanged(
            uid,
            priority=item.priority,
            queue=item.queue,
            min_available=item.min_available,
            max_available=_or_none(item.max_available),
            holds=item.holds,
            user=item.user,
            labels=item.labels,
            deadline=_or_none(item.deadline),
            max_wait=_or_none(item.max_wait),
        )
        self._cluster.apply(changed)
        after = content.jobs[uid]
        kept = evolve(item, plan=after.plan, eligible_time=after.eligible_time)
        if after != kept:  # in what no event changes: its groups, say, or what it depends on
            whole = evolve(kept, tasks=self._cluster.job(uid).tasks)
            self._cluster.apply(happened.JobRemoved(uid), happened.JobArrived(whole))

    # Tasks

    def _settle_task(self, uid: str) -> None:
        content = self._cluster.content
        known = self._known.get(("task", uid))
        before = content.tasks.get(uid)
        on = None if before is None else before.node_name
        if known is None:
            flight = self._flights.pop(uid, None)
            if flight is not None and flight.decision == "bind":
                text = f"task {uid} was deleted while it was being bound to {flight.node_name}"
                self._correct(CorrectionKind.GONE_WHILE_BINDING, uid, text)
            if before is not None:
                self._cluster.apply(happened.TaskRemoved(uid))
        else:
            item = known.item
            assert isinstance(item, TaskInfo)
            owner = known.job if known.job in content.jobs else None
            after = self._as_known(item, before)
            if after.node_name is not None:
                self._has_node(after.node_name)
            self._correct_place(before, after)
            if before is not None and (
                content.owner.get(uid) != owner or not _can_become(before.status, after.status)
            ):
                self._cluster.apply(happened.TaskRemoved(uid))
                before = None
            if before is None:
                self._add(after, owner, is_waiting_for=known.job)
            elif before != after:
                self._change(before, after)
        if on is not None and ("node", on) not in self._known:
            self._settle_node(on)

    def _as_known(self, item: TaskInfo, before: TaskInfo | None) -> TaskInfo:
        """Return a task as it is, given how it was seen, and what is in flight."""
        uid, status, node = item.uid, item.status, item.node_name
        flight = self._flights.get(uid)
        if status is TaskStatus.UNKNOWN:
            self._flights.pop(uid, None)
        elif not status.holds and not status.ended:
            if flight is not None and flight.decision == "bind":
                status, node = TaskStatus.BOUND, flight.node_name
            else:
                self._flights.pop(uid, None)
                status, node = TaskStatus.PENDING, None
                if before is not None and not before.status.holds and not before.status.ended:
                    status, node = before.status, before.node_name  # it may be promised a place
        elif (
            flight is not None
            and flight.decision == "eviction"
            and status.occupies
            and node == flight.node_name
        ):
            status = TaskStatus.RELEASING
        else:
            self._flights.pop(uid, None)
            if status.ended:
                node = None
            elif (
                status in TO_START
                and before is not None
                and before.status is TaskStatus.RUNNING
                and before.node_name == node
            ):
                status = TaskStatus.RUNNING
            elif status is TaskStatus.BINDING:
                status = TaskStatus.BOUND
        start, attained, is_backfill = item.start_time, item.attained_service, item.is_backfill
        if before is not None:
            is_backfill = before.is_backfill
            attained = before.attained_service
            if before.node_name == node and before.status.holds == status.holds:
                start = before.start_time
        if not status.holds:
            start = None
        elif start is None:
            start = self._cluster.now
        return evolve(
            item,
            status=status,
            node_name=node,
            start_time=start,
            attained_service=attained,
            is_backfill=is_backfill,
        )

    def _correct_place(self, before: TaskInfo | None, after: TaskInfo) -> None:
        if before is None or before.status.ended or after.status.ended:
            return
        uid, was, now = before.uid, before.node_name, after.node_name
        if before.status.holds and not after.status.holds:
            if before.status is not TaskStatus.RELEASING:
                text = f"task {uid} is not on {was} any more; it waits again"
                self._correct(CorrectionKind.WAITS_AGAIN, uid, text)
        elif before.status.holds and was != now:
            text = f"task {uid} is on {now}, not on {was}"
            self._correct(CorrectionKind.BOUND_ELSEWHERE, uid, text)
        elif after.status.holds and not before.status.holds:
            text = f"task {uid} is on {now} after all"
            self._correct(CorrectionKind.STARTED_AFTER_ALL, uid, text)

    def _add(self, task: TaskInfo, owner: str | None, *, is_waiting_for: str) -> None:
        if owner is not None:
            self._cluster.apply(happened.TasksAdded(owner, (task,)))
        elif task.status.holds or not (is_waiting_for or task.status.ended):
            self._cluster.apply(happened.OtherTaskArrived(task))

    def _change(self, before: TaskInfo, after: TaskInfo) -> None:
        uid = before.uid
        described = as_it_was(after, before)
        if described != before:
            self._cluster.apply(happened.TaskChanged(after))
        if before.status is after.status and before.node_name == after.node_name:
            return
        if after.status is TaskStatus.SUCCEEDED:
            self._cluster.apply(happened.TaskSucceeded(uid))
        elif after.status is TaskStatus.FAILED:
            self._cluster.apply(happened.TaskFailed(uid))
        elif after.status.holds and after.node_name is not None:
            self._cluster.apply(happened.TaskFound(uid, after.node_name, status=after.status))
        elif before.status.holds:
            is_refused = before.status in TO_START
            event = happened.BindRefused if is_refused else happened.TaskGone
            self._cluster.apply(event(uid))

    def _give_up(self, uid: str) -> None:
        flight = self._flights.pop(uid)
        task = self._cluster.content.tasks.get(uid)
        if task is None:
            return
        if flight.decision == "bind":
            if task.status in TO_START:
                self._cluster.apply(happened.BindRefused(uid))
        elif task.status is TaskStatus.RELEASING:
            self._cluster.apply(happened.EvictionRefused(uid))
        if ("node", flight.node_name) not in self._known:
            self._settle_node(flight.node_name)


def _can_become(before: TaskStatus, after: TaskStatus) -> bool:
    """Return whether an event says so; a task for which there is none is removed and added."""
    if before is after:
        return True
    if TaskStatus.UNKNOWN in (before, after) or before.ended:
        return False
    return before.holds or not after.ended


def _put(table: dict[KeyT, ValueT], key: KeyT, value: ValueT | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _or_none(limit: ValueT | None) -> ValueT | happened.NoLimit:
    return happened.NO_LIMIT if limit is None else limit
