"""The mutable counterpart of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Unpack

from batchsched.errors import EventError, Fault, SnapshotError
from batchsched.model.cluster import (
    JobInfo,
    NodeInfo,
    Queue,
    TaskInfo,
)
from batchsched.model.result import CycleResult, Decision
from batchsched.model.snapshot import Snapshot, SnapshotParts
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_of, part_named, shown
from batchsched.transition.content import Content
from batchsched.transition.event_rules import apply_events
from batchsched.transition.events import Event
from batchsched.transition.rules import TO_START, as_new, is_releasing
from batchsched.transition.steps import Step, apply_step


class Cluster:
    """A cluster in memory that is changed by events and decisions; time passes by an event too.

    It is created from a snapshot, or from the parts of one. Any number of schedulers can be
    attached to it with `batchsched.Scheduler.attach`; they do not affect each other.

    Args:
        snapshot: the initial state; None: the state is given by its parts.
        parts: the fields of the initial `batchsched.Snapshot`, as they are given to create one:
            nodes, jobs, queues, other_tasks, topologies, devices, counter_sets, held, budgets,
            evictions, evictions_kept and now.

    Raises:
        SnapshotError: the initial state is invalid, or both a snapshot and parts are given; all
            faults at once.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, Scheduler, TaskInfo
    >>> from batchsched.live import Cluster, JobArrived, TaskSucceeded, TimePassed
    >>> cpu = Resource(milli_cpu=1000)
    >>> cluster = Cluster(nodes=[NodeInfo(name="n1", allocatable=cpu)], queues=[Queue(name="q")])
    >>> live = Scheduler().attach(cluster)
    >>> task = TaskInfo(uid="t1", name="t1", resreq=cpu)
    >>> cluster.apply(JobArrived(JobInfo(name="j", queue="q", tasks=[task])), TimePassed(10))
    >>> cycle = live.schedule()
    >>> [(bind.task_uid, bind.node_name) for bind in cycle.binds]
    [('t1', 'n1')]
    >>> cluster.carry_out(cycle, at_once=True)
    >>> cluster.apply(TaskSucceeded("t1"), TimePassed(60))
    >>> cluster.snapshot().jobs[0].tasks[0].status
    <TaskStatus.SUCCEEDED: 'Succeeded'>

    """

    __slots__ = ("__weakref__", "_content")

    def __init__(self, snapshot: Snapshot | None = None, **parts: Unpack[SnapshotParts]) -> None:
        if snapshot is None:
            snapshot = Snapshot(**parts)
        else:
            faults: list[Fault] = []
            if not is_of(snapshot, Snapshot):
                faults.append(Fault("snapshot", f"expected a Snapshot, got {shown(snapshot)}"))
            faults += [
                Fault(name, "expected a snapshot or its parts, got both")
                for name, given in parts.items()
                if not (type(given) is tuple and not given)
            ]
            if faults:
                raise SnapshotError(faults)
        self._content = Content(snapshot)

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self._content.now

    @property
    def content(self) -> Content:
        """The content, for attached schedulers to read; only `Cluster` changes it."""
        return self._content

    def task(self, uid: str, /) -> TaskInfo:
        """Return a task as it is now, with or without a job. O(1).

        Raises:
            UnknownNameError: there is no such task.

        """
        return part_named("task", self._content.tasks, uid, of="cluster")

    def job(self, uid: str, /) -> JobInfo:
        """Return a job as it is now, by UID (``namespace/name``). O(its tasks), if it changed.

        Raises:
            UnknownNameError: there is no such job.

        """
        part_named("job", self._content.jobs, uid, of="cluster")
        return self._content.job(uid)

    def node(self, name: str, /) -> NodeInfo:
        """Return a node as it is now. O(1).

        Raises:
            UnknownNameError: there is no such node.

        """
        return part_named("node", self._content.nodes, name, of="cluster")

    def queue(self, name: str, /) -> Queue:
        """Return a queue as it is now. O(1).

        Raises:
            UnknownNameError: there is no such queue.

        """
        return part_named("queue", self._content.queues, name, of="cluster")

    def apply(self, *events: Event) -> None:
        """Apply events in order. O(what they change).

        References between objects are checked after all events have been applied: a job may
        arrive before the node that its tasks run on.

        Raises:
            EventError: events name objects that do not exist, do not fit their state, or add
                invalid objects; all faults at once, and nothing has changed.

        >>> from batchsched.live import Cluster, QueueRemoved, TaskFailed
        >>> Cluster().apply(TaskFailed("t1"), QueueRemoved("q"))
        Traceback (most recent call last):
        ...
        batchsched.errors.EventError: events[0]: there is no task 't1'
        events[1]: there is no queue 'q'

        """
        apply_events(self._content, events)
        self._content.commit()

    @checks_arguments(EventError)
    def carry_out(
        self,
        cycle: CycleResult,
        *,
        at_once: bool = False,
        not_started: Iterable[str] = (),
        still_releasing: Iterable[str] = (),
        replacement: Callable[[TaskInfo], TaskInfo | None] = as_new,
        keep_reservations: bool = True,
    ) -> None:
        """Apply the decisions of a cycle. No time passes. O(tasks of the jobs concerned).

        Tasks that were bound are Bound until `TaskStarted` or `BindRefused` says what became of
        them; tasks that were evicted are Releasing until `TaskGone`, `TaskRemoved` or
        `EvictionRefused`. Tasks that were Bound or Releasing before stay so.

        With `at_once`, as in simulations, all of this has happened when the call returns: bound
        tasks run, and evicted tasks have left and are pending again, as in
        `batchsched.next_snapshot`; so do tasks that were Bound or Releasing before.

        Args:
            cycle: the result of a cycle on this cluster.
            at_once: whether all that was decided has happened already.
            not_started: with `at_once`, UIDs of bound tasks that have not started, and are Bound.
            still_releasing: with `at_once`, UIDs of tasks that were evicted, or are leaving, and
                still hold their resources: they are Releasing.
            replacement: with `at_once`, returns the task that replaces one that is gone; see
                `batchsched.next_snapshot`.
            keep_reservations: whether reservations are kept.

        Raises:
            EventError: the cycle was not run on this cluster in its present state, a named task
                was neither bound nor evicted, or an argument goes with `at_once` alone; all
                faults at once, and nothing has changed.

        >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, Scheduler, TaskInfo
        >>> from batchsched.live import Cluster, JobArrived, TaskStarted
        >>> cpu = Resource(milli_cpu=1000)
        >>> cluster = Cluster(
        ...     nodes=[NodeInfo(name="n1", allocatable=cpu)],
        ...     queues=[Queue(name="q")],
        ... )
        >>> task = TaskInfo(uid="t", name="t", resreq=cpu)
        >>> cluster.apply(JobArrived(JobInfo(name="j", queue="q", tasks=[task])))
        >>> cluster.carry_out(Scheduler().attach(cluster).schedule())
        >>> cluster.task("t").status.value
        'Bound'
        >>> cluster.apply(TaskStarted("t"))
        >>> cluster.task("t").status.value
        'Running'

        """
        content = self._content
        if not at_once:
            faults = [
                Fault(name, "goes with at_once=True alone")
                for name, given, usual in (
                    ("not_started", not_started, ()),
                    ("still_releasing", still_releasing, ()),
                    ("replacement", replacement, as_new),
                )
                if given is not usual
            ]
            if faults:
                raise EventError(faults)
            tasks = [content.tasks[uid] for uid in content.unsettled]
            to_start = [task.uid for task in tasks if task.status in TO_START]
            leaving = [task.uid for task in tasks if is_releasing(task)]
            not_started = [*to_start, *_uids_of(cycle.binds)]
            still_releasing = [*leaving, *_uids_of(cycle.evictions), *_uids_of(cycle.moves)]
        happened = {
            "not_started": tuple(not_started),
            "still_releasing": tuple(still_releasing),
        }
        step = Step(
            result=cycle,
            now=content.now,
            happened=happened,
            replacement=replacement,
            keep_reservations=keep_reservations,
        )
        apply_step(content, step)
        content.commit()

    def snapshot(self) -> Snapshot:
        """Return the present state as a snapshot. O(size), and O(1) while nothing changes."""
        return self._content.snapshot()

    @contextmanager
    def trial(self) -> Generator[Cluster]:
        """Undo all changes to the cluster at the end of a ``with`` block.

        The value is the cluster itself: apply events, and schedule with the attached schedulers,
        to find out what would happen. Trials can be nested. O(what was changed), at the end.

        >>> from batchsched import NodeInfo
        >>> from batchsched.live import Cluster, NodeAdded
        >>> cluster = Cluster()
        >>> with cluster.trial() as trial:
        ...     trial.apply(NodeAdded(NodeInfo(name="n1")))
        ...     len(cluster.snapshot().nodes)
        1
        >>> len(cluster.snapshot().nodes)
        0
        """
        with self._content.trial():
            yield self

    def copy(self) -> Cluster:
        """Return an independent cluster with the same state and no schedulers. O(size)."""
        return Cluster(self.snapshot())

    def __copy__(self) -> Cluster:
        return self.copy()

    def __deepcopy__(self, _memo: object) -> Cluster:
        # Everything in a cluster is frozen.
        return self.copy()

    def __reduce__(self) -> tuple[type[Cluster], tuple[Snapshot]]:
        return Cluster, (self.snapshot(),)

    def __repr__(self) -> str:
        content = self._content
        return (
            f"<Cluster at {content.now!r}: {len(content.nodes)} nodes, {len(content.queues)} "
            f"queues, {len(content.jobs)} jobs, {len(content.tasks)} tasks>"
        )


def _uids_of(decided: Iterable[Decision]) -> list[str]:
    """Return the UIDs that decisions name; what is wrong with a result is told elsewhere."""
    try:
        return [each.task_uid for each in decided]
    except Exception:
        return []
