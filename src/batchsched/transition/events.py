"""Events of a cluster: one frozen class for each kind.

An event describes what happened, not how to react. `batchsched.live.Cluster.apply` and
`batchsched.next_snapshot` accept events; `batchsched.transition.event_rules` defines their
effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import get_args

from attrs import field, frozen

from batchsched.model.cluster import (
    Budget,
    Hold,
    JobInfo,
    NodeInfo,
    Preemptible,
    Queue,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.devices import CounterSet, Device, DevicePick
from batchsched.model.immutable import (
    AsMapOrNone,
    AsTuple,
    AsTupleOrNone,
    ByUid,
)
from batchsched.model.serialisation import PlainData
from batchsched.model.texts import describe
from batchsched.model.topology import Topology, TopologyRequest


@frozen
class TimePassed(PlainData):
    """The time is `now`, in seconds; it must not be before the last time."""

    now: float


# Jobs


@frozen
class JobArrived(PlainData):
    """A job arrived with its tasks, which may have any status."""

    job: JobInfo


class NoLimit(Enum):
    """The type of `NO_LIMIT`."""

    NO_LIMIT = "no limit"


NO_LIMIT = NoLimit.NO_LIMIT
"""In `JobChanged`: the job has no such limit any more."""


@frozen
class JobChanged(PlainData):
    """A job's description changed; None: unchanged. Its tasks and groups do not change.

    >>> from batchsched.live import NO_LIMIT, JobChanged
    >>> JobChanged("default/train", priority=10, max_available=NO_LIMIT).priority
    10
    """

    uid: str
    priority: int | None = field(default=None, kw_only=True)
    queue: str | None = field(default=None, kw_only=True)
    min_available: int | None = field(default=None, kw_only=True)
    max_available: int | NoLimit | None = field(default=None, kw_only=True)
    holds: tuple[Hold, ...] | None = field(default=None, kw_only=True)
    user: str | None = field(default=None, kw_only=True)
    labels: Mapping[str, str] | None = field(
        default=None, converter=AsMapOrNone[str, str], kw_only=True
    )
    deadline: float | NoLimit | None = field(default=None, kw_only=True)
    max_wait: float | NoLimit | None = field(default=None, kw_only=True)
    topology: TopologyRequest | NoLimit | None = field(default=None, kw_only=True)
    preemptible: Preemptible | None = field(default=None, kw_only=True)
    preempts: bool | None = field(default=None, kw_only=True)
    claim_delay: float | NoLimit | None = field(default=None, kw_only=True)
    evict_whole: bool | None = field(default=None, kw_only=True)


@frozen
class JobEnded(PlainData):
    """All tasks of a job that had not ended have ended, on any node or none; none is replaced."""

    uid: str
    succeeded: bool = field(default=True, kw_only=True)


@frozen
class JobRemoved(PlainData):
    """A job was removed with all its tasks."""

    uid: str


@frozen
class EndedJobsRemoved(PlainData):
    """All jobs with tasks, all of which have Succeeded or Failed, were removed."""


@frozen
class TasksAdded(PlainData):
    """Tasks were added to a job."""

    job_uid: str
    tasks: tuple[TaskInfo, ...] = field(converter=AsTuple[TaskInfo])


# Tasks


@frozen
class TaskChanged(PlainData):
    """A task's description changed: labels, priority, resources, constraints, holds and so on.

    Its node and its status do not change, even if the new description has others.
    """

    task: TaskInfo


@frozen
class TaskFound(PlainData):
    """A task was found on a node, running or with `status`, whatever was known about it before."""

    uid: str
    node_name: str
    status: TaskStatus = field(default=TaskStatus.RUNNING, kw_only=True)
    """Bound, Running or Releasing."""


@frozen
class TaskHoldsChanged(PlainData):
    """What holds a task changed, such as its scheduling gates."""

    uid: str
    holds: tuple[Hold, ...]


@frozen
class OtherTaskArrived(PlainData):
    """A task arrived that this scheduler does not manage: it only occupies its node."""

    task: TaskInfo


@frozen
class TaskStarted(PlainData):
    """A task that was Binding or Bound has started."""

    uid: str


@frozen
class BindRefused(PlainData):
    """A task that was Binding or Bound could not be started: it is Pending again, on no node."""

    uid: str


@frozen
class TaskSucceeded(PlainData):
    """A task on a node ended successfully."""

    uid: str


@frozen
class TaskFailed(PlainData):
    """A task on a node ended with a failure, and is not replaced."""

    uid: str


@frozen
class TaskReleasing(PlainData):
    """A task on a node is being terminated by another component."""

    uid: str


@frozen
class EvictionRefused(PlainData):
    """A task that was Releasing continues to run."""

    uid: str


@frozen
class TaskGone(PlainData):
    """A task left its node without having ended: it was evicted or deleted.

    Its controller replaces it: it is Pending again, with the same UID. A task without a job is
    removed.
    """

    uid: str


@frozen
class TaskRemoved(PlainData):
    """A task in any status was removed without a replacement."""

    uid: str


# Nodes, devices, queues and topologies


@frozen
class NodeAdded(PlainData):
    """A node was added."""

    node: NodeInfo


@frozen
class NodeChanged(PlainData):
    """A node's description changed: labels, taints, conditions, resources or `unschedulable`."""

    node: NodeInfo


@frozen
class NodeRemoved(PlainData):
    """A node was removed. Tasks that held resources there must have ended or left before.

    It is in no listed domain of a topology any more.
    """

    name: str


@frozen(kw_only=True)
class DevicesChanged(PlainData):
    """What several nodes reach, or what no task holds, is this now; None: unchanged.

    For devices that belong to a node see `NodeChanged`.
    """

    devices: tuple[Device, ...] | None = field(default=None, converter=AsTupleOrNone[Device])
    counter_sets: tuple[CounterSet, ...] | None = field(
        default=None, converter=AsTupleOrNone[CounterSet]
    )
    held: tuple[DevicePick, ...] | None = field(default=None, converter=AsTupleOrNone[DevicePick])


@frozen
class QueueAdded(PlainData):
    """A queue was added; jobs that name it may exist already."""

    queue: Queue


@frozen
class QueueChanged(PlainData):
    """A queue's description changed."""

    queue: Queue


@frozen
class QueueRemoved(PlainData):
    """A queue was removed. Jobs that name it stay, and cycles leave them out."""

    name: str


@frozen
class TopologiesChanged(PlainData):
    """Topologies, or the domains listed in them, were added, changed or removed."""

    topologies: tuple[Topology, ...] = field(converter=AsTuple[Topology])
    """All topologies that there are now."""


@frozen
class BudgetsChanged(PlainData):
    """Budgets were added, changed or removed."""

    budgets: tuple[Budget, ...] = field(converter=ByUid[Budget])
    """All budgets that there are now."""


Event = (
    TimePassed
    | JobArrived
    | JobChanged
    | JobEnded
    | JobRemoved
    | EndedJobsRemoved
    | TasksAdded
    | TaskChanged
    | TaskFound
    | TaskHoldsChanged
    | OtherTaskArrived
    | TaskStarted
    | BindRefused
    | TaskSucceeded
    | TaskFailed
    | TaskReleasing
    | EvictionRefused
    | TaskGone
    | TaskRemoved
    | NodeAdded
    | NodeChanged
    | NodeRemoved
    | DevicesChanged
    | QueueAdded
    | QueueChanged
    | QueueRemoved
    | TopologiesChanged
    | BudgetsChanged
)
"""Any event of a cluster."""

describe(*get_args(Event))
