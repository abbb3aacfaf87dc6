"""The data model: tasks, jobs, nodes and queues, as a caller describes them.

All of it is frozen and hashable. Nothing is checked here; a `batchsched.Snapshot`
checks everything at once when it is made. Use `attrs.evolve` to make changed copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import cast

from attrs import field, frozen

from batchsched.model.constraints import HostPort, NodeAffinity, PodAffinity, Taint, Toleration
from batchsched.model.groups import TaskGroup
from batchsched.model.immutable import (
    EMPTY,
    kept_in_order,
    kept_map,
    kept_text_map,
    kept_tuple,
)
from batchsched.model.resource_limit import ResourceLimit
from batchsched.model.resources import Resource
from batchsched.model.status import QueueStatus, TaskStatus
from batchsched.model.timing import Dependency, Plan

__all__ = ["JobInfo", "NodeInfo", "Queue", "ScoringRequest", "TaskInfo"]

_NOTHING = Resource()
_NO_DEPENDENCIES: tuple[Dependency, ...] = ()
_NO_GROUPS: tuple[TaskGroup, ...] = ()

DEFAULT_SCORING_MILLI_CPU = 100
"""What a container that names no cpu request counts in scores, in thousandths of a cpu."""
DEFAULT_SCORING_MEMORY = 200 << 20
"""What a container that names no memory request counts in scores, in bytes."""


@frozen
class ScoringRequest:
    """What a task counts when nodes are scored.

    It differs from what the task requests: a container that names no request
    counts a little all the same, so that such tasks spread.
    """

    milli_cpu: int
    """Thousandths of a cpu."""
    memory: int
    """Bytes."""


# These have the usual case inline: tasks are many.


def _tolerations(items: Iterable[Toleration], /) -> tuple[Toleration, ...]:
    return items if isinstance(items, tuple) else kept_tuple(items)


def _host_ports(items: Iterable[HostPort], /) -> tuple[HostPort, ...]:
    return items if isinstance(items, tuple) else kept_tuple(items)


@frozen(kw_only=True)
class TaskInfo:
    """A task: it asks for resources and runs on one node (a pod).

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
    """What it needs to start: the maximum of `resreq` and every init step. None: `resreq`."""
    scoring_request: ScoringRequest | None = None
    """What it counts in scores. None: as one container that names what is not 0 in `resreq`."""
    priority: int = 1
    """The higher goes first."""
    priority_class_name: str = ""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
    is_backfill: bool = False
    """Whether it runs in resources that others were promised."""
    labels: Mapping[str, str] = field(default=EMPTY, converter=kept_text_map)
    node_selector: Mapping[str, str] = field(default=EMPTY, converter=kept_text_map)
    """Labels that the node must carry."""
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = field(default=(), converter=_tolerations)
    host_ports: tuple[HostPort, ...] = field(default=(), converter=_host_ports)
    pod_affinity: PodAffinity | None = None
    """The tasks to be near to."""
    pod_anti_affinity: PodAffinity | None = None
    """The tasks to keep away from."""
    start_time: float | None = None
    """Since when the task holds its resources, in seconds on the clock of `now`.

    None: unknown. It means nothing for a task that holds nothing.
    """
    estimate: float | None = None
    """For how many seconds it may hold its resources once started, as far as the caller knows:
    a limit, or a prediction. None: what its job says (`JobInfo.estimate`)."""
    attained_service: float = 0.0
    """For how many seconds it held resources in earlier runs; see `seconds_held`."""
    group: str | None = None
    """Which group of its job it is in, a leaf (`JobInfo.groups`). None: its job has no groups."""

    def seconds_held(self, now: float, /) -> float:
        """Return for how many seconds it has held resources until `now`, all runs together.

        The present run counts nothing where its start is unknown.

        >>> again = TaskInfo(
        ...     uid="u", name="u", status=TaskStatus.RUNNING, node_name="n1",
        ...     start_time=90, attained_service=25)
        >>> again.seconds_held(100)
        35
        """
        if self.start_time is None or self.start_time >= now or not self.status.holds:
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
        """Whether the task asks for nothing in order to start."""
        return self.start_request.is_empty()

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def display_name(self) -> str:
        """What people call the task: ``namespace/name``, or its UID if that is its name."""
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


def _tasks(items: Iterable[TaskInfo], /) -> tuple[TaskInfo, ...]:
    return kept_in_order(items, attrgetter("uid"))


def _dependencies(items: Iterable[Dependency], /) -> tuple[Dependency, ...]:
    return (
        _NO_DEPENDENCIES if items is _NO_DEPENDENCIES else kept_in_order(items, _dependency_order)
    )


def _groups(items: Iterable[TaskGroup], /) -> tuple[TaskGroup, ...]:
    if isinstance(items, (tuple, set, frozenset)):
        return cast("tuple[TaskGroup, ...]", items)  # a set is refused: it has no order
    return kept_tuple(items)


def _dependency_order(dependency: Dependency) -> str:
    return f"{dependency.job} {dependency.on.value} {dependency.satisfied_if_missing}"


@frozen(kw_only=True)
class JobInfo:
    """A job: a group of tasks that start together (a pod group).

    The order in which tasks are given does not matter; they are kept in order of UID.

    >>> job = JobInfo(namespace="team", name="train", queue="gpu", min_available=2)
    >>> job.uid
    'team/train'
    """

    name: str
    namespace: str = "default"
    queue: str
    """The name of the queue that the job draws on."""
    min_available: int = 1
    """How many of the tasks must be able to start together (gang), whatever its groups ask for."""
    max_available: int | None = None
    """How many of the tasks are placed at most; those that have ended do not count. None: all."""
    groups: tuple[TaskGroup, ...] = field(default=_NO_GROUPS, converter=_groups)
    """Groups of its tasks with minima and maxima of their own; each task names one of the leaves.

    What starts together is then at least `min_groups` of them. Of equals those listed first go
    first.
    """
    min_groups: int | None = None
    """How many of the groups that have no parent must be able to start together. None: all."""
    priority: int = 0
    """The higher goes first."""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
    tasks: tuple[TaskInfo, ...] = field(default=(), converter=_tasks)
    labels: Mapping[str, str] = field(default=EMPTY, converter=kept_text_map)
    user: str = ""
    """Whose job it is. Empty: unknown; all jobs of unknown users count as one user's."""
    estimate: float | None = None
    """The `TaskInfo.estimate` of tasks that have none, in seconds. None: unknown."""
    deadline: float | None = None
    """When the job is to have ended, in seconds on the clock of `now`. None: at any time."""
    max_wait: float | None = None
    """Within how many seconds of its `eligible_time` it is to start. None: at any time."""
    depends_on: tuple[Dependency, ...] = field(default=_NO_DEPENDENCIES, converter=_dependencies)
    """The jobs that it waits for: it is eligible once all of this holds."""
    eligible_time: float | None = None
    """Since when the job has waited, in seconds on the clock of `now`.

    None: since `creation_time`, or it is not eligible yet.
    """
    plan: Plan | None = None
    """When and where the last cycle expected the job to start. None: there is no such plan."""
    uid: str = field(init=False, eq=False, repr=False)
    """``namespace/name``."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "uid", f"{self.namespace}/{self.name}")

    @property
    def waits_since(self) -> float:
        """The time from which the job's waiting counts: `eligible_time`, or `creation_time`."""
        return self.creation_time if self.eligible_time is None else self.eligible_time

    @property
    def start_by(self) -> float | None:
        """The latest time at which the job should start; None: any.

        The least of `deadline` less the estimate, which counts as 0 where it is unknown, and
        of `waits_since` plus `max_wait`.

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


def _taints(items: Iterable[Taint], /) -> tuple[Taint, ...]:
    return kept_tuple(items)


@frozen(kw_only=True)
class NodeInfo:
    """A node: what it has, and what it demands of the tasks that run there."""

    name: str
    """Unique in the snapshot; nodes are ordered by it."""
    allocatable: Resource = _NOTHING
    """What tasks may hold there together."""
    max_tasks: int | None = None
    """How many tasks may be there at once (the ``pods`` capacity). None: any number."""
    labels: Mapping[str, str] = field(default=EMPTY, converter=kept_text_map)
    taints: tuple[Taint, ...] = field(default=(), converter=_taints)
    unschedulable: bool = False
    """Whether the node is cordoned."""
    conditions: Mapping[str, str] = field(default=EMPTY, converter=kept_text_map)
    """Condition type to status, such as ``{"Ready": "True", "MemoryPressure": "False"}``."""


def _kept_usage(content: Mapping[str, Resource], /) -> Mapping[str, Resource]:
    return kept_map(content)


@frozen(kw_only=True)
class Queue:
    """A queue: it draws a share of the cluster, by weight and by what it was granted.

    Queues form a tree by `parent`; jobs name its leaves. What stands in `parent`, `priority`,
    `guarantee`, `deserved`, `limit` and `state` is for the plugin ``capacity``, and what was used
    in the past for the plugin ``usage``; other plugins see a list of queues with weights.

    >>> Queue(name="vision", parent="research", deserved=Resource(milli_cpu=64_000)).weight
    1
    """

    name: str
    """Unique in the snapshot."""
    weight: int = 1
    """Its part of what is left when all have what they deserve; 0: it gets none of that."""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
    parent: str | None = None
    """The name of the queue that it is a part of; None: it stands at the top."""
    priority: int = 0
    """Among the children of one queue, the higher is served first where not all can be."""
    guarantee: Resource = _NOTHING
    """What is kept for it and never lent to others, even while it is not used."""
    deserved: Resource | ResourceLimit | None = _NOTHING
    """What is its own, and lent to others while it is not used.

    In a `ResourceLimit` what is not named is all that its parent has; None: all of everything.
    """
    limit: ResourceLimit | None = None
    """The most that it may hold; None: it has no limit."""
    state: QueueStatus = QueueStatus.OPEN
    """Whether it, and all queues below it, take work."""
    usage: Resource = _NOTHING
    """What its jobs held in the past, decayed: each dimension's units times seconds.

    See `batchsched.decayed`. The plugin ``usage`` reads it.
    """
    usage_by_user: Mapping[str, Resource] = field(default=EMPTY, converter=_kept_usage)
    """The part of each user in `usage`, by `JobInfo.user`."""
    usage_half_life: float | None = None
    """In how many seconds `usage` halves: `next_snapshot` and the living cluster keep it then.

    None: they leave it as it is, for the caller keeps it.
    """
