"""The data model: tasks, jobs, nodes and queues, as described by the caller.

All classes are frozen and hashable. Nothing is checked here; a `batchsched.Snapshot`
checks everything at once when it is created. Use `attrs.evolve` to make changed copies.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol, TypedDict, cast

from attrs import field, frozen

from batchsched.causes import HoldKind
from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    PodAffinity,
    Taint,
    Toleration,
)
from batchsched.model.devices import (
    CounterSet,
    Device,
    DeviceClaim,
    DevicePick,
)
from batchsched.model.immutable import (
    EMPTY,
    AsMap,
    AsTuple,
    AsTupleOrNone,
    ByUid,
    FrozenMap,
    kept_in_order,
    kept_tuple,
)
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.serialisation import WRITTEN, PlainData
from batchsched.model.topology import TopologyRequest


class TaskStatus(Enum):
    """The status of a task.

    >>> TaskStatus.RUNNING.occupies, TaskStatus.RELEASING.occupies, TaskStatus.RELEASING.holds
    (True, False, True)
    >>> TaskStatus("Pending")
    <TaskStatus.PENDING: 'Pending'>
    """

    PENDING = "Pending"
    """Waits for a node."""
    ALLOCATED = "Allocated"
    """Placed in this session and not yet bound; exists only inside a session."""
    PIPELINED = "Pipelined"
    """Promised resources on its node that are being released."""
    CONDITIONAL = "Conditional"
    """Promised resources on its node that backfill tasks hold; exists only inside a session."""
    RESERVED = "Reserved"
    """Pending, with a node that is reserved for it; holds no resources."""
    BINDING = "Binding"
    """To be bound to its node; the cluster has not confirmed it yet."""
    BOUND = "Bound"
    """Bound to its node and not yet started."""
    RUNNING = "Running"
    """Runs on its node."""
    RELEASING = "Releasing"
    """Terminating; still holds its resources."""
    SUCCEEDED = "Succeeded"
    """Ended successfully; on no node."""
    FAILED = "Failed"
    """Ended with a failure; on no node."""
    UNKNOWN = "Unknown"
    """In an unknown state; holds its resources, but does not count towards its job."""

    index: int
    """The position of the status in this list, an index for tables."""
    occupies: bool
    """Whether it holds resources and counts towards its job's readiness."""
    holds: bool
    """Whether it holds resources on its node."""
    charged: bool
    """Whether plugins that compute shares charge it to its job and queue."""
    ready: int
    """1 if it counts as *ready* for its job, else 0."""
    waiting: int
    """1 if it counts as *waiting* for its job, else 0."""
    conditionally_ready: int
    """1 if it counts towards conditional readiness, else 0."""
    valid: int
    """1 if it counts towards the job's validity, else 0."""
    in_snapshot: bool
    """Whether a task in a snapshot may have it."""
    to_place: bool
    """Whether a task of a snapshot has yet to be placed: Pending, Reserved and Pipelined."""
    ended: bool
    """Whether it has ended, successfully or not."""

    def __init__(self, value: str) -> None:
        active = value in ("Allocated", "Binding", "Bound", "Running")
        self.index = len(type(self).__members__)
        self.occupies = active
        self.holds = active or value in ("Releasing", "Unknown")
        self.charged = active or value in ("Pipelined", "Conditional")
        self.ready = int(active or value == "Succeeded")
        self.waiting = int(value == "Pipelined")
        self.conditionally_ready = int(
            active or value in ("Succeeded", "Pipelined", "Conditional", "Reserved")
        )
        self.valid = int(self.conditionally_ready or value == "Pending")
        self.in_snapshot = value not in ("Allocated", "Conditional")
        self.to_place = value in ("Pending", "Reserved", "Pipelined")
        self.ended = value in ("Succeeded", "Failed")

    # That of Enum hashes the name each time, and all tasks are counted by their statuses.
    __hash__ = object.__hash__


class JobPhase(Enum):
    """The phase of a job at the end of a cycle."""

    PENDING = "Pending"
    """Fewer of its tasks hold resources than it needs."""
    RUNNING = "Running"
    """Enough of its tasks hold resources."""
    UNKNOWN = "Unknown"
    """Some of its tasks run, but it could not be scheduled as a whole in this cycle."""
    COMPLETED = "Completed"
    """All of its tasks have Succeeded. Volcano's PodGroups have this phase; those of kube-batch
    do not, and stay Pending, or Running if they need no tasks."""


class QueueStatus(Enum):
    """Whether tasks may start in a queue. A state also applies to all queues below."""

    OPEN = "open"
    """Tasks may start."""
    CLOSED = "closed"
    """No new tasks start; running tasks continue."""
    DRAINING = "draining"
    """No new tasks start, and only its guarantee protects the tasks that still run."""


class JobEvent(Enum):
    """An event of a job that another job may depend on. The value is a stable code.

    A job without tasks has neither started nor ended.
    """

    STARTED = "started"
    """At least `min_available` of its tasks hold resources or succeeded, or all have ended."""
    SUCCEEDED = "succeeded"
    """All of its tasks have ended, at least `min_available` of them successfully."""
    ENDED = "ended"
    """All of its tasks have ended."""
    FAILED = "failed"
    """It has ended without success."""


@frozen
class Hold:
    """Something outside of the scheduler that keeps a task, or a whole job, from being placed.

    >>> print(Hold(HoldKind.GATE, "example.com/license"))
    it waits for the gate example.com/license
    >>> print(Hold(HoldKind.NOT_ADMITTED, "team-a", "Kueue has not tried it yet"))
    Kueue has not tried it yet
    """

    kind: HoldKind
    name: str = ""
    """The name of what holds it, such as a gate, a queue or a check."""
    detail: str = ""
    """A sentence about it, without a full stop. Empty: a text made of kind and name."""
    until: float | None = None
    """The time at which it may end, in seconds on the clock of the snapshot's `now`."""

    @property
    def text(self) -> str:
        """What holds it, in words; without `until`, which is a time of the caller's clock."""
        if self.kind is HoldKind.CHECK and self.name:
            return f"the check {self.name} has not passed" + (self.detail and f": {self.detail}")
        if self.detail:
            return self.detail
        return self.kind.words_with_name.format(self.name) if self.name else self.kind.words

    def __str__(self) -> str:
        return self.text


@frozen(kw_only=True)
class Dependency:
    """An event of another job that must have occurred before a job is eligible.

    Slurm's names are ``after`` (started), ``afterok`` (succeeded), ``afterany`` (ended) and
    ``afternotok`` (failed).

    >>> Dependency(job="team/prepare", on=JobEvent.SUCCEEDED).job
    'team/prepare'
    """

    job: str
    """The UID of the other job, ``namespace/name``."""
    on: JobEvent
    satisfied_if_missing: bool = False
    """How to treat a job that is not in the snapshot. True: it has succeeded and was removed;
    False: it has yet to arrive."""


@frozen(kw_only=True)
class Plan:
    """When and where a job is expected to start. A plan holds no resources.

    >>> Plan(start=1410, nodes={"train-8-0": "n1"}).nodes["train-8-0"]
    'n1'
    """

    start: float
    """Seconds, on the same clock as the snapshot's `now`."""
    nodes: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    """The node of each task that is to start then, by task UID."""


@frozen
class TaskGroup:
    """A group of a job's tasks, or of other groups of the job.

    Groups form a tree under their job. Tasks name its leaves (`TaskInfo.group`), which are roles
    such as workers and a driver. A group of groups, such as a replica, starts as a whole.

    >>> driver, worker = TaskGroup("driver", min=1), TaskGroup("worker", min=2, max=8)
    >>> replica = TaskGroup("replica-0")
    >>> leader = TaskGroup("leader-0", parent="replica-0", min=1)
    """

    name: str
    """Unique in the job."""
    parent: str | None = None
    """The parent group. None: it is a top-level group of the job."""
    min: int | None = None
    """How many must be able to start together. For a leaf: tasks; 0 means that its job does not
    wait for them. For another group: groups directly in it; None means all of them."""
    max: int | None = None
    """The most tasks of it, or groups directly in it, that are placed. None: any number."""
    topology: TopologyRequest | None = field(default=None, kw_only=True, repr=False)
    """Where its tasks are placed together, as the plugin ``topology`` sees to. None: anywhere."""


def least_tasks(groups: Sequence[TaskGroup], min_groups: int | None) -> int:
    """Return the minimum number of tasks that satisfies a job's groups. O(groups log groups).

    The groups must be valid.
    """
    children = children_of(groups)

    def least_of(names: Sequence[str], wanted: int | None) -> int:
        return sum(sorted(least[name] for name in names)[:wanted])

    least: dict[str, int] = {}
    for group in deepest_first(groups):
        below = children.get(group.name)
        least[group.name] = group.min or 0 if below is None else least_of(below, group.min)
    return least_of(children.get(None, ()), min_groups)


def can_start_with(
    groups: Sequence[TaskGroup], min_groups: int | None, counts: Mapping[str | None, int]
) -> bool:
    """Return whether numbers of tasks meet the minima of a job's groups. O(groups).

    The groups must be valid.

    Args:
        groups: all groups of the job.
        min_groups: how many top-level groups are needed; None: all.
        counts: the number of tasks by group.

    """
    children = children_of(groups)
    satisfied: set[str] = set()

    def enough(names: Sequence[str], wanted: int | None) -> bool:
        there = sum(name in satisfied for name in names)
        return there >= (len(names) if wanted is None else wanted)

    for group in deepest_first(groups):
        below = children.get(group.name)
        if (
            counts.get(group.name, 0) >= (group.min or 0)
            if below is None
            else enough(below, group.min)
        ):
            satisfied.add(group.name)
    return enough(children.get(None, ()), min_groups)


def children_of(groups: Iterable[TaskGroup]) -> dict[str | None, list[str]]:
    """Return the names of groups by parent, in the order listed; None: the top-level groups."""
    children: dict[str | None, list[str]] = {}
    for group in groups:
        children.setdefault(group.parent, []).append(group.name)
    return children


def deepest_first(groups: Sequence[TaskGroup]) -> list[TaskGroup]:
    """Return the groups, each before its parent. O(groups); they must not form a cycle."""
    named = {group.name: group for group in groups}
    children = children_of(groups)
    order = list(children.get(None, ()))
    for name in order:
        order += children.get(name, ())
    return [named[name] for name in reversed(order)]


_NOTHING = Resource()
_NO_DEPENDENCIES: tuple[Dependency, ...] = ()
_NO_GROUPS: tuple[TaskGroup, ...] = ()

DEFAULT_SCORING_MILLI_CPU = 100
"""The cpu request used in scores for a container without one, in thousandths of a cpu."""
DEFAULT_SCORING_MEMORY = 200 << 20
"""The memory request used in scores for a container without one, in bytes."""


@frozen
class ScoringRequest:
    """The request of a task that is used to score nodes.

    It differs from the actual request: a container without a request counts a
    small amount, so that such tasks are spread over nodes.
    """

    milli_cpu: int
    """Thousandths of a cpu."""
    memory: int
    """Bytes."""


class Preemptible(Enum):
    """Which tasks of a job may be evicted, as the plugin ``protection`` sees to.

    It has no truth value; ask for a member. Where a job is described, True stands for `ALWAYS` and
    False for `NEVER`.

    >>> JobInfo(name="j", queue="q", preemptible=False).preemptible
    <Preemptible.NEVER: 'never'>
    """

    ALWAYS = "always"
    """Any."""
    SURPLUS = "surplus"
    """Those that it does not need: its core, the minimum, is never evicted."""
    NEVER = "never"
    """None."""

    def __bool__(self) -> bool:
        """Raise, since a job of which only the surplus may go is neither one nor the other.

        Raises:
            TypeError: always.

        """
        names = ", ".join(f"Preemptible.{member.name}" for member in Preemptible)
        raise TypeError(f"{self} has no truth value; compare it with one of {names}")


def _preemptible(given: Preemptible | bool, /) -> Preemptible:
    if given is True:
        return Preemptible.ALWAYS
    return Preemptible.NEVER if given is False else given


@frozen(kw_only=True)
class TaskInfo(PlainData):
    """A task: it requests resources and runs on one node (a pod).

    >>> task = TaskInfo(uid="u1", name="worker-0", resreq=Resource(milli_cpu=500, memory=1 << 30))
    >>> task.start_request is task.resreq, task.is_best_effort
    (True, False)
    """

    uid: str
    """Unique in the snapshot."""
    name: str
    namespace: str = "default"
    status: TaskStatus = TaskStatus.PENDING
    node_name: str | None = None
    """The node that the task is on, or that is reserved for it."""
    resreq: Resource = _NOTHING
    """What the task holds while it runs."""
    init_resreq: Resource | None = None
    """What it needs to start: the maximum of `resreq` and all init containers. None: `resreq`."""
    scoring_request: ScoringRequest | None = None
    """Its request in scores. None: that of one container with the amounts above 0 of `resreq`."""
    priority: int = 1
    """Tasks with a higher priority come first."""
    priority_class_name: str = ""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
    is_backfill: bool = False
    """Whether it runs on resources that other jobs wait for."""
    labels: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    node_selector: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    """Labels that the node must carry."""
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = field(default=(), converter=AsTuple[Toleration])
    host_ports: tuple[HostPort, ...] = field(default=(), converter=AsTuple[HostPort])
    pod_affinity: PodAffinity | None = None
    """The tasks to be placed near to."""
    pod_anti_affinity: PodAffinity | None = None
    """The tasks to keep away from."""
    start_time: float | None = None
    """Since when the task holds its resources, in seconds on the clock of `now`.

    None: unknown. It is ignored for a task that holds no resources.
    """
    estimate: float | None = None
    """For how many seconds it will hold its resources once started, as far as the caller knows:
    a limit, or a prediction. None: its job's (`JobInfo.estimate`)."""
    attained_service: float = 0.0
    """For how many seconds it held resources in earlier runs; see `seconds_held`."""
    group: str | None = None
    """The group of its job that it belongs to, a leaf of `JobInfo.groups`. None: no groups."""
    holds: tuple[Hold, ...] = field(default=(), converter=AsTuple[Hold])
    """What keeps it from being placed. It is not placed while it has any, or its job has."""
    index: int | None = None
    """Its number in its group, or in a job without groups, from 0: it determines its segment
    (`Segment`). None: its position in task order among the tasks of its group."""
    is_on_each_node: bool = False
    """Whether each node runs such a task, as for a DaemonSet. No decision reads it: `explain` and
    `standings` put such tasks on nodes that they add, or take as empty."""
    claims: tuple[DeviceClaim, ...] = field(default=(), converter=AsTuple[DeviceClaim])
    """The devices that it needs. The plugin ``devices`` reads them."""
    devices: tuple[DevicePick, ...] | None = field(
        default=None, converter=AsTupleOrNone[DevicePick]
    )
    """The devices that it has on its node, or is promised there. None: unknown."""
    choices: Mapping[str, Hashable] = field(
        default=EMPTY, converter=AsMap[str, Hashable], repr=False
    )
    """What other plugins have chosen for it on its node, or where it is promised one, by plugin."""
    checkpoint_time: float | None = field(default=None, repr=False)
    """The time up to which its work is safe and would not be done again, in seconds on the clock of
    `now`. None: none is. The plugin ``protection`` reads it, with ``cost: lost-work``."""
    eviction_cost: int | None = field(default=None, repr=False)
    """What its eviction costs, in units of the caller's. None: as the plugin ``protection`` is
    told by its argument ``cost``."""
    leaving: str | None = field(default=None, repr=False)
    """The name of the node where a task that is promised another one still runs: it moves. What it
    holds there is being released. None: it does not move, or has left."""
    left_devices: tuple[DevicePick, ...] | None = field(
        default=None, converter=AsTupleOrNone[DevicePick], repr=False
    )
    """The devices that it has on the node that it leaves. None: unknown, or it leaves none."""
    left_choices: Mapping[str, Hashable] = field(
        default=EMPTY, converter=AsMap[str, Hashable], repr=False
    )
    """What other plugins have chosen for it on the node that it leaves, by plugin."""

    @property
    def is_on_node(self) -> bool:
        """Whether it holds resources, where it is or, if it moves, on the node that it leaves."""
        return self.status.holds or self.leaving is not None

    @property
    def held_node(self) -> str | None:
        """The name of the node whose resources it holds, if any; see `is_on_node`."""
        if self.leaving is not None:
            return self.leaving
        return self.node_name if self.status.holds else None

    def seconds_held(self, now: float, /) -> float:
        """Return for how many seconds it has held resources until `now`, in all runs.

        The present run does not count if its start is unknown.

        >>> again = TaskInfo(
        ...     uid="u", name="u", status=TaskStatus.RUNNING, node_name="n1",
        ...     start_time=90, attained_service=25)
        >>> again.seconds_held(100)
        35
        """
        if self.start_time is None or self.start_time >= now or not self.is_on_node:
            return self.attained_service
        return self.attained_service + (now - self.start_time)

    @property
    def start_request(self) -> Resource:
        """What the task needs to start: `init_resreq`, and at least `resreq`."""
        if self.init_resreq is None or self.init_resreq is self.resreq:
            return self.resreq
        at_least = self.resreq.max_with(self.init_resreq)
        return self.init_resreq if at_least == self.init_resreq else at_least

    @property
    def is_best_effort(self) -> bool:
        """Whether the task needs no resources to start."""
        return self.start_request.is_empty()

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def display_name(self) -> str:
        """The name shown to users: ``namespace/name``, or the UID if that is the task's name."""
        return self.uid if self.uid == self.name else self.full_name

    def counts_in_scores(self) -> ScoringRequest:
        """Return `scoring_request`, or its default."""
        if self.scoring_request is not None:
            return self.scoring_request
        milli_cpu, memory = self.resreq.milli_cpu, self.resreq.memory
        return ScoringRequest(
            int(milli_cpu) if milli_cpu else DEFAULT_SCORING_MILLI_CPU,
            int(memory) if memory else DEFAULT_SCORING_MEMORY,
        )


DEVICES = "devices"
"""The plugin whose choices are the field `devices`, in place of an entry of `choices`."""


class HasChoices(Protocol):
    """A decision on a task, which may have chosen something for it.

    A task has the same fields. Where both are taken, the type is `TaskInfo | HasChoices`: pyright
    finds that fields with converters do not match a protocol.
    """

    @property
    def choices(self) -> Mapping[str, Hashable]:
        """What plugins chose, by the name of the plugin."""
        ...

    @property
    def devices(self) -> tuple[DevicePick, ...] | None:
        """The devices that were chosen; None: none were asked for."""
        ...


class ChoiceFields(TypedDict):
    """The fields of a task, or of a decision on one, that have choices."""

    choices: Mapping[str, Hashable]
    devices: tuple[DevicePick, ...] | None


def choices_of(chosen: TaskInfo | HasChoices, /) -> Mapping[str, Hashable]:
    """Return all choices by plugin, including devices. O(choices) with devices, else O(1)."""
    return _all_choices(chosen.choices, chosen.devices)


def left_choices_of(task: TaskInfo, /) -> Mapping[str, Hashable]:
    """Return all choices for a task on the node that it leaves, as `choices_of` does."""
    return _all_choices(task.left_choices, task.left_devices)


def _all_choices(
    others: Mapping[str, Hashable], devices: tuple[DevicePick, ...] | None
) -> Mapping[str, Hashable]:
    return others if devices is None else FrozenMap({**others, DEVICES: devices})


def choice_fields(choices: Mapping[str, Hashable], /) -> ChoiceFields:
    """Return the fields that have these choices: the inverse of `choices_of`."""
    if not choices:
        return ChoiceFields(choices=EMPTY, devices=None)
    others = {plugin: choice for plugin, choice in choices.items() if plugin != DEVICES}
    devices = cast("tuple[DevicePick, ...] | None", choices.get(DEVICES))
    return ChoiceFields(choices=FrozenMap(others) if others else EMPTY, devices=devices)


def _dependencies(items: Iterable[Dependency], /) -> tuple[Dependency, ...]:
    return (
        _NO_DEPENDENCIES
        if items is _NO_DEPENDENCIES
        else kept_in_order(items, _dependency_order, "depends_on")
    )


def _groups(items: Iterable[TaskGroup], /) -> tuple[TaskGroup, ...]:
    if type(items) in (tuple, set, frozenset):
        return cast("tuple[TaskGroup, ...]", items)  # a set has no order: validation rejects it
    return kept_tuple(items, "groups")


def _dependency_order(dependency: Dependency) -> str:
    return f"{dependency.job} {dependency.on.value} {dependency.satisfied_if_missing}"


@frozen(kw_only=True)
class JobInfo(PlainData):
    """A job: a group of tasks that start together (a pod group).

    The order in which tasks are given does not matter; they are kept in order of UID.

    >>> job = JobInfo(namespace="team", name="train", queue="gpu", min_available=2)
    >>> job.uid
    'team/train'
    """

    name: str
    namespace: str = "default"
    queue: str
    """The name of the job's queue."""
    min_available: int = 1
    """How many tasks must be able to start together (gang), in addition to the minima of groups."""
    max_available: int | None = None
    """The most tasks that are placed at the same time; ended tasks do not count. None: all."""
    groups: tuple[TaskGroup, ...] = field(default=_NO_GROUPS, converter=_groups)
    """Groups of its tasks, each with a minimum and a maximum; each task names one of the leaves.

    At least `min_groups` of them then start together. Among equal groups, those listed first come
    first.
    """
    min_groups: int | None = None
    """How many of the top-level groups must be able to start together. None: all."""
    priority: int = 0
    """Jobs with a higher priority come first."""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
    tasks: tuple[TaskInfo, ...] = field(default=(), converter=ByUid[TaskInfo])
    labels: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    user: str = ""
    """The user who owns the job. Empty: unknown; all such jobs count as those of one user."""
    estimate: float | None = None
    """The estimate for tasks without their own `TaskInfo.estimate`, in seconds. None: unknown."""
    deadline: float | None = None
    """The time by which the job should have ended, in seconds on the clock of `now`. None: any."""
    max_wait: float | None = None
    """The time within which it should start after becoming eligible, in seconds. None: any."""
    depends_on: tuple[Dependency, ...] = field(default=_NO_DEPENDENCIES, converter=_dependencies)
    """The jobs that it depends on: it is eligible once all dependencies hold."""
    eligible_time: float | None = None
    """Since when the job has waited, in seconds on the clock of `now`.

    None: since `creation_time`, or it is not yet eligible.
    """
    plan: Plan | None = None
    """When and where the last cycle planned to start the job. None: there is no plan."""
    holds: tuple[Hold, ...] = field(default=(), converter=AsTuple[Hold])
    """What keeps all of its tasks from being placed. Those that run already go on."""
    topology: TopologyRequest | None = None
    """Where its tasks are placed together, as the plugin ``topology`` sees to. None: anywhere."""
    preemptible: Preemptible = field(
        default=Preemptible.ALWAYS,
        converter=_preemptible,
        repr=False,
        metadata={WRITTEN: Preemptible | bool},
    )
    """Which of its tasks may be evicted, as the plugin ``protection`` sees to."""
    preempts: bool = field(default=True, repr=False)
    """Whether others may be evicted or moved for it, as the plugin ``protection`` sees to."""
    claim_delay: float | None = field(default=None, repr=False)
    """For how many seconds it waits before others may be evicted for it, as the plugin
    ``protection`` sees to. None: as that is told by its argument ``claimDelay``."""
    last_evicted: float | None = field(default=None, repr=False)
    """When tasks that it needs were last evicted, in seconds on the clock of `now`; None: never.

    `next_snapshot` and `Cluster` keep it.
    """
    quota_reserved: bool = field(default=False, repr=False)
    """Whether a controller has reserved quota of its queue for it: then the plugin ``capacity``
    charges to the queue what its Pending tasks request, and no limit refuses them."""
    evict_whole: bool = field(default=False, repr=False)
    """Whether its running tasks are evicted together or not at all."""
    uid: str = field(init=False, eq=False, repr=False)
    """``namespace/name``."""

    def __attrs_post_init__(self) -> None:
        try:
            uid = f"{self.namespace}/{self.name}"
        except Exception:  # what is no text may raise anything; the snapshot tells it
            uid = "?"
        object.__setattr__(self, "uid", uid)

    @property
    def waits_since(self) -> float:
        """The time since which the job has waited: `eligible_time`, or else `creation_time`."""
        return self.creation_time if self.eligible_time is None else self.eligible_time

    @property
    def start_by(self) -> float | None:
        """The latest time at which the job should start; None: any.

        The minimum of `deadline` minus the estimate (0 if unknown), and of `waits_since` plus
        `max_wait`.

        >>> JobInfo(name="j", queue="q", deadline=100, estimate=30, max_wait=80).start_by
        70
        """
        times: list[float] = []
        if self.deadline is not None:
            times.append(self.deadline - (self.estimate or 0))
        if self.max_wait is not None:
            times.append(self.waits_since + self.max_wait)
        return min(times, default=None)

    @property
    def expected_run(self) -> float | None:
        """The longest estimate of its tasks, in seconds; None if one is unknown. O(tasks)."""
        longest = self.estimate if not self.tasks else 0.0
        for task in self.tasks:
            estimate = self.estimate_of(task)
            if estimate is None or longest is None:
                return None
            longest = max(longest, estimate)
        return longest

    def estimate_of(self, task: TaskInfo, /) -> float | None:
        """Return the estimate of one of its tasks, in seconds; None if it is unknown.

        >>> job = JobInfo(name="j", queue="q", estimate=60)
        >>> job.estimate_of(TaskInfo(uid="t1", name="t1")), job.estimate_of(
        ...     TaskInfo(uid="t2", name="t2", estimate=5))
        (60, 5)
        """
        return self.estimate if task.estimate is None else task.estimate


@frozen(kw_only=True)
class Budget:
    """How many of some tasks may be down at the same time (a PodDisruptionBudget).

    The plugin ``protection`` keeps it. Exactly one of `min_available` and `max_unavailable` is
    given.

    >>> web = LabelSelector(match_labels={"app": "web"})
    >>> Budget(name="web", selector=web, min_available=2).uid
    'default/web'
    """

    name: str
    """Unique in the namespace."""
    selector: LabelSelector
    """The labels of the tasks that count."""
    namespace: str = "default"
    """The namespace of the tasks that count."""
    min_available: int | None = None
    """How many of them stay on nodes."""
    max_unavailable: int | None = None
    """How many of them may be on no node, without having ended."""
    hard: bool = True
    """Whether it is never broken. If not, it is for what can be had in no other way."""
    uid: str = field(init=False, eq=False, repr=False)
    """``namespace/name``."""

    def __attrs_post_init__(self) -> None:
        try:
            uid = f"{self.namespace}/{self.name}"
        except Exception:  # what is no text may raise anything; the snapshot tells it
            uid = "?"
        object.__setattr__(self, "uid", uid)

    @property
    def rule(self) -> str:
        """The name by which reasons tell that it keeps tasks from being evicted."""
        return f"budget {self.name}"

    def counts(self, task: TaskInfo, /) -> bool:
        """Return whether a task counts, whatever its status. O(size of the selector)."""
        return task.namespace == self.namespace and self.selector.matches(task.labels)


@frozen(kw_only=True)
class PastEviction:
    """An entry of the ledger of evictions: in one cycle, a job lost tasks for another one.

    `next_snapshot` and `Cluster` write it. Limits of the plugin ``protection`` count it.
    """

    time: float
    """When it was decided, in seconds on the clock of the snapshot's `now`."""
    job: str
    """The UID of the job that lost tasks, however many."""
    queue: str
    """The name of its queue."""
    for_job: str
    """The UID of the job for which they were evicted."""
    for_queue: str
    """The name of its queue."""
    action: str
    """The action that evicted them."""


@frozen(kw_only=True)
class NodeInfo:
    """A node: its resources, and its constraints on tasks."""

    name: str
    """Unique in the snapshot; nodes are sorted by name."""
    allocatable: Resource = _NOTHING
    """The resources that all tasks on the node can hold together."""
    max_tasks: int | None = None
    """The most tasks on the node at the same time (the ``pods`` capacity). None: any number."""
    labels: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    taints: tuple[Taint, ...] = field(default=(), converter=AsTuple[Taint])
    unschedulable: bool = False
    """Whether the node is cordoned."""
    conditions: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    """Condition type to status, such as ``{"Ready": "True", "MemoryPressure": "False"}``."""
    devices: tuple[Device, ...] = field(default=(), converter=AsTuple[Device])
    """Its devices, those of each pool in order of preference."""
    counter_sets: tuple[CounterSet, ...] = field(default=(), converter=AsTuple[CounterSet])
    """What its devices draw on. A pool is one pool on all nodes that name it."""
    closed_pools: tuple[tuple[str, str], ...] = field(
        default=(), converter=AsTuple[tuple[str, str]]
    )
    """Driver and pool of what offers nothing here, as it is known only in part."""


@frozen(kw_only=True)
class Queue:
    """A queue: its jobs get a share of the cluster, by weight and by what the queue deserves.

    Queues form a tree by `parent`; jobs name its leaves. `state` and `reclaimable` hold under every
    configuration. `priority`, `guarantee`, `deserved` and `limit` are read by the plugin
    ``capacity``, and the past use by the plugin ``usage``; other plugins see a list of queues with
    weights, of which ``proportion`` also reads `limit` and `guarantee`.

    >>> Queue(name="vision", parent="research", deserved=Resource(milli_cpu=64_000)).weight
    1
    """

    name: str
    """Unique in the snapshot."""
    weight: int = 1
    """Its weight when the surplus beyond deserved amounts is divided; 0: it gets none."""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
    parent: str | None = None
    """The name of its parent queue; None: it is at the top level."""
    priority: int = 0
    """Among siblings, queues with a higher priority are served first if resources are short."""
    guarantee: Resource = _NOTHING
    """Resources that are kept for it and never lent, even while they are unused."""
    deserved: Resource | ResourceLimit | None = _NOTHING
    """Resources that it is entitled to, and that are lent to other queues while unused.

    In a `ResourceLimit`, a dimension that is not named is all that its parent has; None: all
    dimensions are.
    """
    limit: ResourceLimit | None = None
    """The most that it may hold; None: unlimited."""
    state: QueueStatus = QueueStatus.OPEN
    """Whether tasks may start in it and in all queues below it."""
    reclaimable: bool = True
    """Whether the action ``reclaim`` may evict tasks of it, and of the queues below it.

    If not, the plugin ``protection`` lets it hold no more than it deserves or is guaranteed.
    """
    preempt_min_runtime: float | None = field(default=None, repr=False)
    """For how long its jobs, and those of queues below it, keep what they need from the action
    ``preempt``, in seconds, as the plugin ``protection`` sees to. None: as its parent says."""
    reclaim_min_runtime: float | None = field(default=None, repr=False)
    """The same for the action ``reclaim``."""
    usage: Resource = _NOTHING
    """What its jobs held in the past, decayed, in each dimension's units times seconds.

    See `batchsched.decayed`. The plugin ``usage`` reads it.
    """
    usage_by_user: Mapping[str, Resource] = field(default=EMPTY, converter=AsMap[str, Resource])
    """The part of each user in `usage`, by `JobInfo.user`."""
    usage_half_life: float | None = None
    """The time in which `usage` halves, in seconds; `next_snapshot` and `Cluster` then update it.

    None: they do not change it; the caller keeps it up to date.
    """
