"""From one cycle to the next: the snapshot that follows from a result and from events.

It follows what a cluster does with decisions. `batchsched.transition.reservations` tells which
places are kept for the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from batchsched.errors import EventError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown, truth_problems
from batchsched.transition.argument_reader import ArgumentReader
from batchsched.transition.content import Content
from batchsched.transition.event_rules import apply_events
from batchsched.transition.events import Event
from batchsched.transition.job_transitions import carried_over
from batchsched.transition.reservations import places_to_keep
from batchsched.transition.result_reader import check_claimants, read_result
from batchsched.transition.task_rules import as_new
from batchsched.transition.task_transitions import TaskTransitions

__all__ = ["as_new", "next_snapshot"]


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
    changed, and the check of the new snapshot.

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
    given = ArgumentReader()
    happened = given.events(
        {
            "succeeded": succeeded,
            "failed": failed,
            "gone": gone,
            "not_started": not_started,
            "still_releasing": still_releasing,
            "removed_tasks": removed_tasks,
        }
    )
    more = given.each("events", events, object)
    removed = given.uids("removed_jobs", removed_jobs)
    arrived = given.each("new_jobs", new_jobs, JobInfo)
    kept_queues = None if queues is None else given.each("queues", queues, Queue)
    new_others = None if other_tasks is None else given.each("other_tasks", other_tasks, TaskInfo)
    nodes_now = None if nodes is None else given.each("nodes", nodes, NodeInfo)
    # What is wrong with nodes in themselves is the snapshot's to tell, unless events are wrong.
    sound_nodes = given.only_sound(nodes_now)
    before = given.snapshot(snapshot)
    so_far = len(given.faults)
    decided = None if result is None else read_result(given, result)
    knows_decisions = len(given.faults) == so_far
    if not callable(replacement):
        message = f"{shown(replacement)} cannot be called; leave it out, or give a function"
        given.refuse("replacement", message)
        replacement = as_new
    for path, message in truth_problems("keep_reservations", keep_reservations):
        given.refuse(path, message)
    given.check_now(now, before=None if before is None else before.now)
    if before is None:
        # Nothing else can be told.
        raise EventError(given.faults)

    changes = TaskTransitions(
        before, happened, replacement, given, now=now, knows_decisions=knows_decisions
    )
    changes.check_jobs(removed, arrived)
    if sound_nodes is not None:
        changes.node_names = frozenset(node.name for node in sound_nodes)
    if decided is not None:
        check_claimants(given, decided, before)
        changes.decide(decided)
        if keep_reservations:
            changes.keep(places_to_keep(decided, before, sound_nodes), decided.kept_promises)
    changes.keeps_places = result is None and keep_reservations
    tasks_changed = changes.jobs(frozenset(removed))
    jobs = carried_over([*tasks_changed, *arrived], before, decided, now=now)
    others = changes.others() if new_others is None else new_others
    faults = [*given.faults, *changes.unknown(), *changes.task_faults]
    if faults:
        raise EventError(faults) from changes.raised
    following = Snapshot(
        nodes=before.nodes if nodes_now is None else nodes_now,
        jobs=jobs,
        queues=before.queues if kept_queues is None else kept_queues,
        other_tasks=others,
        now=now,
    )
    if not more:
        return following
    content = Content(following)
    apply_events(content, more)
    content.commit()
    return content.snapshot()
