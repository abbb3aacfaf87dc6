"""From one cycle to the next: the snapshot that follows from a result and from events.

It follows what a cluster does with decisions. `batchsched.transition.reservations` tells which
places are kept for the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_mapping
from batchsched.transition.events import Event
from batchsched.transition.part_step import take_step_in_part
from batchsched.transition.step import Step
from batchsched.transition.task_rules import as_new
from batchsched.transition.whole_step import take_step

__all__ = ["as_new", "next_snapshot"]

T = TypeVar("T")


def next_snapshot(
    snapshot: Snapshot,
    result: CycleResult | None,
    *,
    now: float,
    succeeded: Iterable[str] = (),
    failed: Iterable[str] = (),
    gone: Iterable[str] = (),
    not_started: Iterable[str] = (),
    still_releasing: Iterable[str] = (),
    removed_tasks: Iterable[str] = (),
    replacement: Callable[[TaskInfo], TaskInfo | None] = as_new,
    new_jobs: Iterable[JobInfo] = (),
    removed_jobs: Iterable[str] = (),
    nodes: Iterable[NodeInfo] | None = None,
    queues: Iterable[Queue] | None = None,
    other_tasks: Iterable[TaskInfo] | None = None,
    keep_reservations: bool = True,
    events: Iterable[Event] = (),
) -> Snapshot:
    """Return the snapshot of the next cycle.

    First the decisions of `result` take effect: tasks that were bound run on their
    nodes, marked as backfill where the bind says so, and tasks that were evicted are
    Releasing. Then what happened in the cluster. Unless an event says otherwise, every
    task that was on its way arrives: what is Binding or Bound starts, and what is
    Releasing is gone. Placements that exist only inside a session (Conditional, Allocated,
    and Pipelined ones for which nobody was evicted) are forgotten, so that such tasks are
    Pending as they were.

    Reserved tasks stay Reserved on their nodes. So do other tasks whose places must not
    go to others meanwhile; `reservations_to_keep` tells which. Tasks of jobs for which tasks
    were evicted are Pipelined where they have been promised a place, or have one
    (`CycleResult.kept_promises`). All other reservations and promises of the last snapshot end.

    Times: what was bound holds its resources since the time of the cycle (`start_time`). A run
    that ends adds the time from its start to `now` to `attained_service`, also before
    `replacement` is called. A job's `eligible_time` is set to `now` when what it depends on
    first holds, and its `plan` is what `result` planned, if anything. Where
    the start of a run is unknown, it adds nothing.

    Nothing that did not change is copied. O(tasks), with O(1) work only for tasks that
    changed, and the check of the new snapshot. After a cycle of a scheduler that is ``warm`` it
    costs what changes, and a pointer for each job, from the second time on; the snapshot that is
    given has to be the one that was made last.

    Args:
        snapshot: what the last cycle was given.
        result: what it decided. None: no cycle was run; only events count.
        now: the time of the next cycle, in seconds; not before the last.
        succeeded: UIDs of tasks that ended well. They may have started since.
        failed: UIDs of tasks that ended badly.
        gone: UIDs of tasks that left their nodes without having ended, such as deleted
            pods and those of a node that is no more. Tasks that are Releasing need not
            be named. What waits is on no node; see `removed_tasks`.
        not_started: UIDs of tasks that are bound but have not started; they are Bound.
        still_releasing: UIDs of tasks that are Releasing and have not left yet.
        removed_tasks: UIDs of tasks that are there no more and that nothing replaces, whatever
            their status: withdrawn while they waited, or deleted since they ended, say.
        replacement: what comes in the place of a task that is gone, from what it was;
            None: nothing does. By default the task comes back (`as_new`). It may be another
            task, with a UID of its own; it is on no node, and is Pending or has ended. Not
            called for `other_tasks`, which just go.
        new_jobs: jobs that came.
        removed_jobs: UIDs of jobs that are there no more, with all their tasks. Events
            may name their tasks.
        nodes: all nodes, if any of them came, went or changed. Tasks that hold resources
            of a node that went must be `succeeded`, `failed` or `gone`.
        queues: all queues, if any of them came, went or changed.
        other_tasks: all tasks that are not this scheduler's business, if any of them came
            or changed by more than these events say; these events then may not name them.
        keep_reservations: whether reservations and promises are kept. If not, tasks that wait
            are Pending.
        events: what else happened after all this, one after the other, in the words that
            `batchsched.live.Cluster.apply` takes: refused binds and evictions, tasks that are
            added to a job, jobs that change or whose tasks have all ended, and so on.

    Raises:
        EventError: events name what is not there, or what they cannot have happened to; the
            result is of another snapshot; an argument is not what it should be; `replacement`
            raised; all faults at once. Where a part of the result cannot be read, what depends
            on it is not told.
        SnapshotError: new jobs, nodes, queues or tasks are at fault in themselves.

    >>> from batchsched import Resource, schedule
    >>> task = TaskInfo(uid="t1", name="t1", resreq=Resource(milli_cpu=1000))
    >>> snapshot = Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))],
    ...     queues=[Queue(name="q")],
    ...     jobs=[JobInfo(name="j", queue="q", tasks=[task])],
    ... )
    >>> running = next_snapshot(snapshot, schedule(snapshot), now=1)
    >>> [(task.status.value, task.node_name) for task in running.jobs[0].tasks]
    [('Running', 'n1')]
    >>> done = next_snapshot(running, schedule(running), now=2, succeeded=["t1"])
    >>> [(task.status.value, task.node_name) for task in done.jobs[0].tasks]
    [('Succeeded', None)]
    >>> next_snapshot(done, schedule(done), now=1, failed=["t1", "t2"])
    Traceback (most recent call last):
    ...
    batchsched.errors.EventError: now: 1 is before the last cycle, which was at 2
    failed['t2']: there is no such task
    failed['t1']: the task is Succeeded; only one that is on a node can have failed

    """
    step = Step(
        result=result,
        now=now,
        happened={
            "succeeded": _kept(succeeded),
            "failed": _kept(failed),
            "gone": _kept(gone),
            "not_started": _kept(not_started),
            "still_releasing": _kept(still_releasing),
            "removed_tasks": _kept(removed_tasks),
        },
        replacement=replacement,
        new_jobs=_kept(new_jobs),
        removed_jobs=_kept(removed_jobs),
        nodes=None if nodes is None else _kept(nodes),
        queues=None if queues is None else _kept(queues),
        other_tasks=None if other_tasks is None else _kept(other_tasks),
        keep_reservations=keep_reservations,
        events=_kept(events),
    )
    return take_step_in_part(snapshot, step) or take_step(snapshot, step)


def _kept(items: Iterable[T]) -> Iterable[T]:
    """Return what can be gone through twice, or what is no collection, to be refused."""
    return list(items) if _is_gone_through_once(items) else items


def _is_gone_through_once(given: object) -> bool:
    if isinstance(given, (str, tuple, list)) or is_mapping(given):
        return False
    return isinstance(given, Iterable)
