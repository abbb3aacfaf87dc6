"""Computes the snapshot of the next cycle from a result and from events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from batchsched.errors import EventError, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.immutable import LazyMap
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot, keep_tables, take_tables
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.fields import is_usual_resource
from batchsched.model.validation.values import is_of
from batchsched.transition.content import Content
from batchsched.transition.events import Event
from batchsched.transition.rules import as_new
from batchsched.transition.steps import Step, apply_step, take_step


def is_settled(cycle: CycleResult) -> bool:
    """Return whether no cycle at the same time could go on with what was evicted or promised."""
    return not (cycle.evictions or cycle.moves or cycle.pipelined or cycle.kept_promises)


def next_wake(cycle: CycleResult, *, after: float) -> float:
    """Return the next time at which a cycle is worth running, if nothing else happens; or inf."""
    times = (cycle.next_start, cycle.refused_until)
    return min((at for at in times if at is not None and at > after), default=inf)


def take_step_in_part(snapshot: Snapshot, step: Step) -> Snapshot | None:
    """Return the next snapshot, or None if this case needs `take_step`.

    O(changes + jobs) if the last step was made here too; otherwise O(size), to create tables.
    """
    if (
        type(step.result) is not CycleResult
        # It pays off only after incremental cycles.
        or type(step.result.tasks) is not LazyMap
    ):
        return None
    tables = take_tables(snapshot)
    if not isinstance(tables, Content):
        first = take_step(snapshot, step)
        keep_tables(first, Content(first))
        return first
    following: Snapshot | None = None
    try:
        if _is_plain(tables, step):
            apply_step(tables, step)
            tables.commit()
            following = tables.snapshot()
            keep_tables(following, tables)
    except (EventError, SnapshotError):
        pass  # `take_step` reports the faults
    finally:
        if following is None:
            keep_tables(snapshot, tables)
    return following


def _is_plain(tables: Content, step: Step) -> bool:
    """Return whether the arguments concern only the jobs and tasks that they name."""
    return (
        step.nodes is None
        and step.queues is None
        and step.other_tasks is None
        and not tables.dependent
        and all(_is_plain_job(tables, job) for job in step.new_jobs)
    )


def _is_plain_job(tables: Content, job: JobInfo) -> bool:
    return (
        type(job.depends_on) is tuple
        and not job.depends_on
        and type(job.tasks) is tuple
        and type(job.name) is type(job.namespace) is str
        and job.uid not in tables.jobs
        and all(
            is_of(task, TaskInfo)
            and type(task.uid) is str
            and task.uid not in tables.tasks
            and task.node_name is None
            and is_usual_resource(task.resreq)
            and (task.init_resreq is None or is_usual_resource(task.init_resreq))
            for task in job.tasks
        )
    )


@checks_arguments(EventError, but_items_of="events")
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

    First the decisions of `result` are applied: tasks that were bound run on their
    nodes, marked as backfill where the bind says so, and tasks that were evicted are
    Releasing. Then the events are applied. Unless an event says otherwise, transitions
    complete: Binding and Bound tasks start, and Releasing tasks leave. Placements that
    exist only inside a session (Conditional, Allocated, and Pipelined ones for which no
    tasks were evicted) are dropped, so that these tasks are Pending again.

    Reserved tasks stay Reserved on their nodes. So do other tasks whose nodes must be kept
    free for them; `reservations_to_keep` determines them. Tasks of jobs for which tasks were
    evicted are Pipelined where they are promised or have a node
    (`CycleResult.kept_promises`). All other reservations and promises of the last snapshot end.

    Times: a bound task has held its resources since the time of the cycle (`start_time`). A run
    that ends adds the time from its start to `now` to `attained_service`, before `replacement` is
    called; a run with an unknown start adds nothing. A job's `eligible_time` is set to `now` when
    its dependencies first hold (before `removed_jobs` are removed, or after), and its `plan` is the
    one in `result`, if any.

    Unchanged objects are not copied. O(tasks) plus the validation of the new snapshot. After a
    cycle of a scheduler with ``warm``, from the second time on, the cost depends on the changes,
    plus a pointer for each job; `snapshot` must then be the result of the previous call.

    Args:
        snapshot: the snapshot of the last cycle.
        result: the result of the last cycle. None: no cycle was run; only events are applied.
        now: the time of the next cycle, in seconds; not before the last.
        succeeded: UIDs of tasks that ended successfully. They may have started since.
        failed: UIDs of tasks that ended with a failure.
        gone: UIDs of tasks that left their nodes without having ended, such as deleted
            pods and those of a removed node. Releasing tasks need not be named. For tasks
            that are on no node see `removed_tasks`.
        not_started: UIDs of tasks that are bound but have not started; they are Bound.
        still_releasing: UIDs of tasks that are Releasing and have not left yet.
        removed_tasks: UIDs of tasks in any status that were removed without a replacement, for
            example withdrawn while pending, or deleted after they ended.
        replacement: returns the task that replaces one that is gone, given that task; None: it
            is not replaced. By default the task is Pending again (`as_new`). The replacement may
            have another UID; it must be on no node, and Pending or ended. It is not called for
            `other_tasks`, which are removed.
        new_jobs: jobs that arrived.
        removed_jobs: UIDs of jobs that were removed, with all their tasks. Events may name
            their tasks.
        nodes: all nodes, if any were added, removed or changed. Tasks that hold resources on a
            removed node must be `succeeded`, `failed` or `gone`.
        queues: all queues, if any were added, removed or changed.
        other_tasks: all tasks that this scheduler does not manage, if any arrived or changed
            other than by these events; the events must not name them then.
        keep_reservations: whether reservations and promises are kept. If not, these tasks are
            Pending.
        events: further events that happened after all this, in order, as accepted by
            `batchsched.live.Cluster.apply`: refused binds and evictions, tasks that are added to a
            job, jobs that change, and so on.

    Raises:
        EventError: events name objects that do not exist, or do not fit their state; the result
            belongs to another snapshot; an argument is invalid; `replacement` raised; all faults
            at once. Faults that depend on an unreadable part of the result are not reported.
        SnapshotError: new jobs, nodes, queues or tasks are invalid in themselves.

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
    happened = {
        "succeeded": succeeded,
        "failed": failed,
        "gone": gone,
        "not_started": not_started,
        "still_releasing": still_releasing,
        "removed_tasks": removed_tasks,
    }
    step = Step(
        result=result,
        now=now,
        happened={event: tuple(uids) for event, uids in happened.items()},
        replacement=replacement,
        new_jobs=tuple(new_jobs),
        removed_jobs=tuple(removed_jobs),
        nodes=None if nodes is None else tuple(nodes),
        queues=None if queues is None else tuple(queues),
        other_tasks=None if other_tasks is None else tuple(other_tasks),
        keep_reservations=keep_reservations,
        events=tuple(events),
    )
    return take_step_in_part(snapshot, step) or take_step(snapshot, step)
