"""The living counterpart of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from batchsched.errors import Fault, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_mapping, is_of, shown
from batchsched.transition.binds import tasks_started
from batchsched.transition.content import Content
from batchsched.transition.event_rules import apply_events
from batchsched.transition.events import Event
from batchsched.transition.job_transitions import keep_plans, set_eligible_times
from batchsched.transition.next_snapshot import next_snapshot
from batchsched.transition.part import decides_nothing, part_of_result, take_over
from batchsched.transition.task_rules import as_new

__all__ = ["Cluster"]


class Cluster:
    """A cluster in memory, which events and decisions change. No clock: time is an event too.

    It is begun from a snapshot, or from what a snapshot consists of. Schedulers are attached to
    it with `batchsched.Scheduler.attach`; any number of them, which do not disturb each other.

    Args:
        snapshot: what to begin with; None: what the other arguments say.
        nodes: nodes to begin with.
        jobs: jobs to begin with.
        queues: queues to begin with.
        other_tasks: tasks of no job to begin with.
        now: the time, in seconds.

    Raises:
        SnapshotError: what it is to begin with is at fault, or a snapshot is given and something
            else too; all faults at once.

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
    >>> cluster.carry_out(cycle)
    >>> cluster.apply(TaskSucceeded("t1"), TimePassed(60))
    >>> cluster.snapshot().jobs[0].tasks[0].status
    <TaskStatus.SUCCEEDED: 'Succeeded'>

    """

    __slots__ = ("__weakref__", "_content")

    def __init__(
        self,
        snapshot: Snapshot | None = None,
        *,
        nodes: Iterable[NodeInfo] = (),
        jobs: Iterable[JobInfo] = (),
        queues: Iterable[Queue] = (),
        other_tasks: Iterable[TaskInfo] = (),
        now: float | None = None,
    ) -> None:
        if snapshot is None:
            snapshot = Snapshot(
                nodes=nodes,
                jobs=jobs,
                queues=queues,
                other_tasks=other_tasks,
                now=0.0 if now is None else now,
            )
        else:
            faults: list[Fault] = []
            if not is_of(snapshot, Snapshot):
                faults.append(Fault("snapshot", f"expected a Snapshot, got {shown(snapshot)}"))
            for name, given, nothing in (
                ("nodes", nodes, ()),
                ("jobs", jobs, ()),
                ("queues", queues, ()),
                ("other_tasks", other_tasks, ()),
                ("now", now, None),
            ):
                if given != nothing:
                    faults.append(Fault(name, "a snapshot is given, which says this already"))
            if faults:
                raise SnapshotError(faults)
        self._content = Content(snapshot)

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self._content.now

    @property
    def content(self) -> Content:
        """What it consists of, for schedulers that are attached to it; only `Cluster` writes."""
        return self._content

    def apply(self, *events: Event) -> None:
        """Let events have happened, one after the other. O(what they change).

        What depends on something else is looked at when all have been applied: a job may
        come before the node that its tasks run on.

        Raises:
            EventError: events name what is not there, cannot have happened to what they name,
                or bring what is at fault; all faults at once, and nothing has changed.

        >>> from batchsched.live import Cluster, QueueRemoved, TaskFailed
        >>> Cluster().apply(TaskFailed("t1"), QueueRemoved("q"))
        Traceback (most recent call last):
        ...
        batchsched.errors.EventError: events[0]: there is no task 't1'
        events[1]: there is no queue 'q'

        """
        apply_events(self._content, events)
        self._content.commit()

    def carry_out(
        self,
        cycle: CycleResult,
        not_started: Iterable[str] = (),
        still_releasing: Iterable[str] = (),
        *,
        replacement: Callable[[TaskInfo], TaskInfo | None] = as_new,
        keep_reservations: bool = True,
    ) -> None:
        """Let the decisions of a cycle take effect, as `batchsched.next_snapshot` does.

        What was bound runs, and what was evicted is gone and waits again, unless it is named;
        so does what was on its way before. No time passes. O(tasks of the jobs concerned).

        Args:
            cycle: what a scheduler decided on this cluster.
            not_started: UIDs of tasks that are bound and have not started; they are Bound, until
                `TaskStarted`, `BindRefused` or the next time something is carried out.
            still_releasing: UIDs of tasks that were evicted, or are leaving, and are not gone yet;
                they are Releasing, until `TaskGone`, `EvictionRefused` or the next time.
            replacement: what comes in the place of a task that is gone; see `next_snapshot`.
            keep_reservations: whether reservations are kept.

        Raises:
            EventError: the cycle decided on something else than this cluster as it is, or tasks
                are named to which this cannot have happened; all faults at once, and nothing has
                changed.

        """
        content = self._content
        not_started, still_releasing = _listed(not_started), _listed(still_releasing)
        if (
            type(cycle) is CycleResult
            and not (content.unsettled or not_started or still_releasing)
            and callable(replacement)
            and type(keep_reservations) is bool
        ):
            if decides_nothing(cycle):
                # Nothing can be wrong with it, and only plans may differ.
                keep_plans(content, cycle.planned)
                content.commit()
                return
            started = tasks_started(cycle, content)
            if started is not None:
                unmet_before = content.unmet()
                for uid, task in started.items():
                    content.put("tasks", uid, task)
                keep_plans(content, cycle.planned)
                set_eligible_times(content, unmet_before)
                content.commit()
                return
        named: dict[str, None] = dict(content.unsettled)
        nodes: dict[str, None] = {}
        part: object = cycle
        if is_of(cycle, CycleResult):
            part = part_of_result(cycle, content, named, nodes)
        for uids in (not_started, still_releasing):
            named.update(dict.fromkeys(uid for uid in uids if is_of(uid, str)))
        before = content.part([uid for uid in named if uid in content.tasks], nodes)
        after = next_snapshot(
            before,
            part,  # type: ignore[arg-type]  # whatever it is, it is looked at there
            now=before.now,
            not_started=not_started,
            still_releasing=still_releasing,
            replacement=replacement,
            keep_reservations=keep_reservations,
        )
        mark = content.mark()
        unmet_before = content.unmet()
        try:
            take_over(content, before, after)
            keep_plans(content, cycle.planned)
            set_eligible_times(content, unmet_before)
        except BaseException:
            content.undo_to(mark)
            raise
        content.commit()

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is, frozen. O(size), and O(1) while nothing changes."""
        return self._content.snapshot()

    @contextmanager
    def trial(self) -> Generator[Cluster]:
        """Let everything that is done to the cluster inside be undone at the end.

        What is given is the cluster itself: apply events, and schedule with what is attached
        to it, to learn what would happen. Trials may be nested. O(what was changed), at the end.

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
        version = self._content.version
        try:
            yield self
        finally:
            self._content.restore(version)

    def copy(self) -> Cluster:
        """Return another cluster like this one, to which nothing is attached. O(size)."""
        return Cluster(self.snapshot())

    def __copy__(self) -> Cluster:
        return self.copy()

    def __deepcopy__(self, _memo: object) -> Cluster:
        # All that a cluster consists of is frozen.
        return self.copy()

    def __reduce__(self) -> tuple[type[Cluster], tuple[Snapshot]]:
        return Cluster, (self.snapshot(),)

    def __repr__(self) -> str:
        content = self._content
        return (
            f"<Cluster at {content.now!r}: {len(content.nodes)} nodes, {len(content.queues)} "
            f"queues, {len(content.jobs)} jobs, {len(content.tasks)} tasks>"
        )


def _listed(uids: Iterable[str]) -> Iterable[str]:
    """Return UIDs so that they can be gone through twice, or as they are, to be refused."""
    return list(uids) if _is_list(uids) else uids


def _is_list(given: object) -> bool:
    return not isinstance(given, str) and not is_mapping(given) and isinstance(given, Iterable)
