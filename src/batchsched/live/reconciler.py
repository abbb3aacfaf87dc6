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
from types import MappingProxyType
from typing import Literal, TypeVar

from batchsched.errors import EventError, Fault
from batchsched.live.cluster import Cluster
from batchsched.live.seen import (
    KINDS,
    ROWS,
    Correction,
    CorrectionKind,
    Deleted,
    InFlight,
    Kind,
    KindRow,
    Seen,
    check_observations,
)
from batchsched.live.settling import KnownObject, Settling
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import kept_tuple
from batchsched.model.result import CycleResult, nodes_of
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_of, is_text, shown, time_problems
from batchsched.transition import events as happened
from batchsched.transition.rules import TO_START

_REMEMBERED = 16
"""How many earlier versions of an object are known again."""

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


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
      or until it is given up: then it runs on. What replaces it has another UID. A move is the
      same, but that its task is promised its new place meanwhile.
    - A node that is gone is closed while tasks are on it, and comes back as it was seen. So is a
      node that was not seen yet.
    - What is seen of a task (its devices and other choices, its group, its number) counts, whatever
      was known of it.
    - A task waits for its job, and for its group in it; on a node, it occupies that meanwhile. So
      does one whose number in a group with segments another task has that stays, and one of a
      nested segment that is not whole.
    - A queue waits for its parent, a job for the topologies that it asks for, with their levels; a
      device for the counter sets that it draws on. Of a listed domain those nodes count that are
      there.

    Args:
        cluster: the cluster that it keeps; nothing else should apply events to it.
        give_up_after: seconds after which a decision is given up if nothing is seen of it. It must
            be longer than what a call can take to have an effect, and than the time between two
            lists of all tasks: where a watch event is lost, only the next list shows that a task
            has started, and its place must not be given away before.
        list_every: seconds between two lists of all tasks (`relist`, `observe_all`), to have
            `give_up_after` checked against them; None: not checked.
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
        list_every: float | None = None,
        is_newer: Callable[[str, str], bool] | None = None,
    ) -> None:
        faults: list[Fault] = []
        if not is_of(cluster, Cluster):
            faults.append(Fault("cluster", f"expected a Cluster, got {shown(cluster)}"))
        if [*time_problems("", give_up_after)] or give_up_after <= 0:
            message = f"expected a number of seconds above 0, got {shown(give_up_after)}"
            faults.append(Fault("give_up_after", message))
        elif list_every is not None and (
            [*time_problems("", list_every)] or not 0 < list_every < give_up_after
        ):
            what = f"seconds above 0 and below give_up_after, {give_up_after!r}"
            why = "a bind whose event is lost is seen in the next list only"
            message = f"expected {what}, got {shown(list_every)}: {why}"
            faults.append(Fault("list_every", message))
        if is_newer is not None and not callable(is_newer):
            faults.append(Fault("is_newer", f"expected a function, got {shown(is_newer)}"))
        if faults:
            raise EventError(faults)
        self._cluster = cluster
        self._give_up_after = give_up_after
        self._is_newer = is_newer
        self._known: dict[Kind, dict[str, KnownObject]] = {kind: {} for kind in KINDS}
        """What was seen last of each object, by kind and name, in the order of the last list."""
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
        check_observations(observations)
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
        check_observations(listed, only_seen=True)
        other = [each for each in listed if each.kind != kind]
        if kind not in KINDS or other:
            what = f"objects of kind {shown(kind)}" if kind in KINDS else ", ".join(KINDS)
            got = shown(other[0]) if other else shown(kind)
            raise EventError.at("kind", f"expected {what}, got {got}")
        with self._all_or_nothing() as corrections:
            self._settle(self._note_all(ROWS[KINDS.index(kind)], listed))
        return tuple(corrections)

    def observe_all(self, snapshot: Snapshot, /) -> tuple[Correction, ...]:
        """Take in everything that the real cluster has now, as `relist` of each kind. O(size).

        Times and plans of the snapshot do not matter, nor do its promises and reservations.

        Raises:
            EventError: it is no snapshot, or contradicts what was seen; nothing has changed.

        """
        if not is_of(snapshot, Snapshot):
            raise EventError.at("snapshot", f"expected a Snapshot, got {shown(snapshot)}")
        with self._all_or_nothing() as corrections:
            changed = [self._note_all(row, row.seen_in(snapshot)) for row in ROWS]
            self._settle({each for some in changed for each in some})
        return tuple(corrections)

    def _note_all(self, row: KindRow, listed: Iterable[Seen]) -> set[tuple[Kind, str]]:
        """Note all objects of a kind; return those that are not as they were."""
        kind = row.kind
        for key in [key for key in self._past if key[0] == kind]:
            self._write(self._past, key, None)
        there = {each.name: each for each in listed}
        known = self._known[kind]
        names = {*known, *row.names_in(self._cluster.content)}
        changed: set[tuple[Kind, str]] = {(kind, name) for name in names if name not in there}
        for _, name in sorted(changed):
            self._note(Deleted(kind, name))
        order = list(known)
        for name, each in there.items():
            before = known.get(name)
            if before is None or (before.item, before.job) != (each.item, each.job):
                changed.add((kind, name))
            if kind == "task":
                self._write(self._deleted, name, None)
            self._note(each)
        if row.has_order and order != list(there):
            listed_now = {name: known[name] for name in there}
            self._write(self._known, kind, listed_now)
            changed.update((kind, name) for name in there)
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
        for stopped in cycle.stopped():
            node_name, *_ = nodes_of(stopped)  # the one that it leaves
            self._flights[stopped.task_uid] = InFlight("eviction", node_name, now)

    @checks_arguments(EventError)
    def wake_at(self, cycle: CycleResult, /) -> float | None:
        """Return when to let time pass and run another cycle if nothing is seen; None: never.

        The earliest of `CycleResult.wake_at` of the last cycle and of the times at which decisions
        in flight are given up. O(in flight).
        """
        times = [flight.since + self._give_up_after for flight in self._flights.values()]
        if cycle.wake_at is not None:
            times.append(cycle.wake_at)
        return min(times, default=None)

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

    def _is_news(self, each: Seen | Deleted) -> bool:
        key = (each.kind, each.name)
        if each.kind == "task" and each.name in self._deleted:
            return False
        known = self._known[each.kind].get(each.name)
        if not each.version:
            return known is not None or isinstance(each, Seen)
        if each.version in self._past.get(key, ()):
            return False
        if self._is_newer is not None and known is not None and known.version:
            return self._is_newer(each.version, known.version)
        return known is not None or isinstance(each, Seen)

    def _note(self, each: Seen | Deleted) -> None:
        key = (each.kind, each.name)
        known = self._known[each.kind]
        before = known.get(each.name)
        if each.version:
            past = self._past.get(key, _versions()).copy()
            past.append(each.version)
            self._write(self._past, key, past)
        job = ""
        if isinstance(each, Seen):
            job = each.job
            self._write(known, each.name, KnownObject(each.item, each.version, job))
        else:
            self._write(known, each.name, None)
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

    def _settle(self, concerned: Iterable[tuple[Kind, str]]) -> None:
        """Bring the cluster up to date with what is known of objects."""
        settling = Settling(
            self._cluster.content, self._known, self._tasks_of, self._flights, self._correct
        )
        events = settling.events(concerned)
        if events:
            self._cluster.apply(*events)

    def _give_up(self, uid: str) -> None:
        flight = self._flights.pop(uid)
        task = self._cluster.content.tasks.get(uid)
        if task is None:
            return
        if flight.decision == "bind":
            if task.status in TO_START:
                self._cluster.apply(happened.BindRefused(uid))
        elif task.status is TaskStatus.RELEASING or task.leaving is not None:
            self._cluster.apply(happened.EvictionRefused(uid))
        if flight.node_name not in self._known["node"]:
            self._settle([("node", flight.node_name)])


def _put(table: dict[KeyT, ValueT], key: KeyT, value: ValueT | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
