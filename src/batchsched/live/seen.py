"""What is seen of a real cluster, and what a reconciler says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, Literal

from attrs import evolve, field, frozen

from batchsched.errors import EventError, Fault
from batchsched.model.cluster import Budget, JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.devices import CounterSet, Device, DevicePick
from batchsched.model.immutable import AsTuple
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import describe
from batchsched.model.topology import Topology
from batchsched.model.validation.arguments import field_problems
from batchsched.model.validation.values import is_text, shown
from batchsched.transition.content import Content


@frozen
class HeldDevices:
    """What a claim that belongs to no task holds of devices."""

    name: str
    """The name of the claim."""
    picks: tuple[DevicePick, ...] = field(converter=AsTuple[DevicePick])


Kind = Literal[
    "queue", "counter set", "device", "held devices", "budget", "node", "topology", "job", "task"
]
Item = Queue | CounterSet | Device | HeldDevices | Budget | NodeInfo | Topology | JobInfo | TaskInfo


@frozen
class KindRow:
    """A kind of object: its class, what it is called, and where a snapshot has it."""

    kind: Kind
    of: type[Any]
    name_of: Callable[[Any], str]
    seen_in: Callable[[Snapshot], Iterable[Seen]]
    names_in: Callable[[Content], Iterable[str]]
    """Returns the names of those that a cluster has."""
    has_order: bool = False
    """Whether those that are listed first come first in decisions."""


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
        return _ROW_OF[type(self.item)].kind

    @property
    def name(self) -> str:
        """The name of a node, queue, topology or claim, the UID of a job, task or budget.

        For a device or counter set that several nodes reach: ``driver/pool/name``.
        """
        return _ROW_OF[type(self.item)].name_of(self.item)


@frozen
class Deleted:
    """An object that the real cluster does not have any more."""

    kind: Kind
    name: str
    """As `Seen.name`."""
    version: str = ""


def _uid(item: JobInfo | TaskInfo | Budget) -> str:
    return item.uid


def _name(item: Queue | NodeInfo | Topology | HeldDevices) -> str:
    return item.name


def device_path(item: Device | CounterSet) -> str:
    """Return the name of a device or counter set that several nodes reach."""
    return f"{item.driver}/{item.pool}/{item.name}"


def _held(snapshot: Snapshot) -> Iterable[Seen]:
    by_claim: dict[str, list[DevicePick]] = {}
    for pick in snapshot.held:
        by_claim.setdefault(pick.claim, []).append(pick)
    return [Seen(HeldDevices(claim, picks)) for claim, picks in by_claim.items()]


def _tasks(snapshot: Snapshot) -> Iterable[Seen]:
    for job in snapshot.jobs:
        yield from (Seen(task, job=job.uid) for task in job.tasks)
    yield from map(Seen, snapshot.other_tasks)


def _jobs(snapshot: Snapshot) -> Iterable[Seen]:
    return (Seen(evolve(job, tasks=(), plan=None)) for job in snapshot.jobs)


def _picked(content: Content) -> Iterable[str]:
    return (pick.claim for pick in content.besides["held"])


def _budgets(snapshot: Snapshot) -> Iterable[Seen]:
    return map(Seen, snapshot.budgets)


def _budgets_of(content: Content) -> Iterable[Budget]:
    budgets: Iterable[Budget] = content.besides["budgets"]
    return budgets


def _row(kind: Kind, of: type[Any], name_of: Callable[[Any], str], part: str) -> KindRow:
    """Return the row of a part of snapshots that the content of a cluster has by name."""
    return KindRow(
        kind,
        of,
        name_of,
        lambda snapshot: map(Seen, getattr(snapshot, part)),
        lambda content: getattr(content, part),
    )


def _common_row(kind: Kind, of: type[Any], part: str) -> KindRow:
    return KindRow(
        kind,
        of,
        device_path,
        lambda snapshot: map(Seen, getattr(snapshot, part)),
        lambda content: map(device_path, content.besides[part]),
        has_order=True,
    )


ROWS = (
    _row("queue", Queue, _name, "queues"),
    _common_row("counter set", CounterSet, "counter_sets"),
    _common_row("device", Device, "devices"),
    KindRow("held devices", HeldDevices, _name, _held, _picked, has_order=True),
    KindRow("budget", Budget, _uid, _budgets, lambda content: map(_uid, _budgets_of(content))),
    _row("node", NodeInfo, _name, "nodes"),
    _row("topology", Topology, _name, "topologies"),
    KindRow("job", JobInfo, _uid, _jobs, attrgetter("jobs")),
    KindRow("task", TaskInfo, _uid, _tasks, attrgetter("tasks")),
)
"""All kinds of objects."""
KINDS: tuple[Kind, ...] = tuple(row.kind for row in ROWS)
_ROW_OF: Mapping[type, KindRow] = {row.of: row for row in ROWS}


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
    JOB_WAITS = "job waits"
    """A job asks for a topology, or for levels of one, that were not seen: it waits for them."""


@frozen
class Correction:
    """Something that turned out to be different from what was known."""

    kind: CorrectionKind
    name: str
    """The UID of the task or job, or the name of the node."""
    text: str

    def __str__(self) -> str:
        return self.text


@frozen
class InFlight:
    """A decision that was sent, of which nothing has been seen yet."""

    decision: Literal["bind", "eviction"]
    node_name: str
    since: float


describe(HeldDevices, Seen, Deleted, Correction, InFlight)


def check_observations(observations: Iterable[object], *, only_seen: bool = False) -> None:
    """Check what was seen, apart from the content of objects.

    Raises:
        EventError: something is no observation; all faults at once.

    """
    faults: list[Fault] = []
    for place, each in enumerate(observations):
        path = f"observations[{place}]"
        if isinstance(each, Seen):
            if type(each.item) not in _ROW_OF:
                known = ", ".join(row.of.__name__ for row in ROWS)
                message = f"expected one of {known}, got {shown(each.item)}"
                faults.append(Fault(f"{path}.item", message))
            elif isinstance(each.item, JobInfo) and each.item.tasks:
                faults.append(Fault(f"{path}.item.tasks", "expected none: tasks are seen alone"))
            else:
                problems = [*field_problems(each.item)]
                faults += [Fault(f"{path}.item.{below}", text) for below, text in problems]
                if not problems and not is_text(each.name):
                    faults.append(Fault(f"{path}.item", f"expected a name, got {shown(each.name)}"))
        elif only_seen or not isinstance(each, Deleted):
            what = "Seen" if only_seen else "Seen or Deleted"
            faults.append(Fault(path, f"expected {what}, got {shown(each)}"))
        elif each.kind not in KINDS or not is_text(each.name):
            faults.append(Fault(path, f"expected a kind and a name, got {shown(each)}"))
        for name in ("version", "job"):
            text = getattr(each, name, "")
            if not is_text(text):
                faults.append(Fault(f"{path}.{name}", f"expected a string, got {shown(text)}"))
    if faults:
        raise EventError(faults)
