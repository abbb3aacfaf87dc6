"""The data model: tasks, jobs, nodes and queues, as a caller describes them.

All of it is frozen and hashable. Nothing is checked here; a `batchsched.Snapshot`
checks everything at once when it is made. Use `attrs.evolve` to make changed copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

from attrs import field, frozen

from batchsched.model.constraints import HostPort, NodeAffinity, PodAffinity, Taint, Toleration
from batchsched.model.immutable import EMPTY, kept_in_order, kept_text_map, kept_tuple
from batchsched.model.resources import Resource
from batchsched.model.status import TaskStatus

__all__ = ["JobInfo", "NodeInfo", "Queue", "ScoringRequest", "TaskInfo"]

_NOTHING = Resource()

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
    """The tasks that it wants near."""
    pod_anti_affinity: PodAffinity | None = None
    """The tasks that it wants far."""

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
    """How many of the tasks must be able to start together (gang)."""
    priority: int = 0
    """The higher goes first."""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
    tasks: tuple[TaskInfo, ...] = field(default=(), converter=_tasks)
    uid: str = field(init=False, eq=False, repr=False)
    """``namespace/name``."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "uid", f"{self.namespace}/{self.name}")


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


@frozen(kw_only=True)
class Queue:
    """A queue: it draws a share of the cluster in proportion to its weight."""

    name: str
    """Unique in the snapshot."""
    weight: int = 1
    """1 or more."""
    creation_time: float = 0.0
    """Seconds, on the same clock as the snapshot's `now`."""
