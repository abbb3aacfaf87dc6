"""Computes the snapshot of the next cycle from a result and from events.

It simulates how a cluster carries out decisions: from the whole of the last snapshot, which is the
definition, or from the part of it that the result and the events concern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import cast

from attrs import evolve, frozen

from batchsched.errors import EventError, Fault, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.immutable import FrozenMap, LazyMap, is_frozen_map
from batchsched.model.result import DECISIONS, Bind, CycleResult, TakenBack, TaskOutcome
from batchsched.model.snapshot import Snapshot, common_of, keep_tables, take_tables
from batchsched.model.topology import Topology, without_nodes
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.resources import is_usual_resource
from batchsched.model.validation.tasks import plan_problems
from batchsched.model.validation.values import is_mapping, is_of, is_text
from batchsched.transition.content import Content
from batchsched.transition.decisions import (
    Replacement,
    TaskTransitions,
    check_result,
    claimant_faults,
    outcome_faults,
    places_to_keep,
)
from batchsched.transition.event_rules import (
    apply_events,
    as_new,
    carried_over,
    keep_plans,
    let_use_pass,
    queues_after,
    starting,
)
from batchsched.transition.events import Event
from batchsched.transition.ledger_of_evictions import (
    EvictionsWritten,
    evictions_written,
    keep_evictions,
    ledger_after,
    let_time_pass,
)


@frozen(kw_only=True)
class Step:
    """The arguments of `next_snapshot`."""

    result: CycleResult | None
    now: float
    happened: Mapping[str, tuple[str, ...]]
    """The UIDs of tasks by the name of the argument, such as ``succeeded``."""
    replacement: Replacement
    new_jobs: tuple[JobInfo, ...]
    removed_jobs: tuple[str, ...]
    nodes: tuple[NodeInfo, ...] | None
    queues: tuple[Queue, ...] | None
    other_tasks: tuple[TaskInfo, ...] | None
    keep_reservations: bool
    events: tuple[Event, ...]


def take_step(snapshot: Snapshot, step: Step) -> Snapshot:
    """Return the next snapshot; see `next_snapshot`. O(size).

    Raises:
        EventError: see `next_snapshot`; all faults at once.
        SnapshotError: new objects are invalid in themselves.

    """
    result, nodes, queues, now = step.result, step.nodes, step.queues, step.now
    if result is not None:
        check_result(result)
    changes = TaskTransitions(snapshot, step.happened, step.replacement, now=now)
    changes.check_jobs(step.removed_jobs, step.new_jobs)
    sound_nodes = _only_sound(nodes, snapshot)
    if sound_nodes is not None:
        changes.node_names = frozenset(node.name for node in sound_nodes)
    strange: list[Fault] = []
    if result is not None:
        changes.faults += claimant_faults(result, snapshot)
        changes.decide(result)
        strange = outcome_faults(result, snapshot)
        if step.keep_reservations:
            kept = places_to_keep(result, snapshot, sound_nodes)
            changes.keep(kept, result.kept_promises)
    changes.let_leave()
    changes.keeps_places = result is None and step.keep_reservations
    written = EvictionsWritten()
    if result is not None and (result.evictions or result.moves):
        owners = {task.uid: job for job in snapshot.jobs for task in job.tasks}
        written = evictions_written(result, owners.get, now=snapshot.now)
    remaining = changes.jobs(frozenset(step.removed_jobs))
    jobs, failed = [*remaining, *step.new_jobs], None
    try:
        jobs = carried_over(jobs, changes.removed, snapshot, result, now=now, broken=written.broken)
    except Exception as error:  # of what is wrong with a new job, which the snapshot tells
        failed = error
    others = changes.others() if step.other_tasks is None else step.other_tasks
    faults = [*changes.faults, *changes.unknown(), *changes.task_faults]
    known = {fault.path for fault in faults}
    faults += [fault for fault in strange if fault.path not in known]
    if faults:
        raise EventError(faults) from changes.raised
    following = Snapshot(
        nodes=snapshot.nodes if nodes is None else nodes,
        jobs=jobs,
        queues=queues_after(snapshot, result, queues, now=now),
        other_tasks=others,
        topologies=_topologies_after(snapshot, nodes),
        now=now,
        budgets=snapshot.budgets,
        evictions=ledger_after(
            snapshot.evictions, written.past, now=now, kept=snapshot.evictions_kept
        ),
        evictions_kept=snapshot.evictions_kept,
        **common_of(snapshot),
    )
    if failed is not None:
        raise failed
    if not step.events:
        return following
    content = Content(following)
    apply_events(content, step.events)
    content.commit()
    return content.snapshot()


def _only_sound(
    nodes: tuple[NodeInfo, ...] | None, before: Snapshot
) -> tuple[NodeInfo, ...] | None:
    """Return the nodes if all of them are valid; else the next snapshot tells what is wrong."""
    try:
        return None if nodes is None else Snapshot(nodes=nodes, **common_of(before)).nodes
    except SnapshotError:
        return None


def _topologies_after(before: Snapshot, nodes: Sequence[NodeInfo] | None) -> Sequence[Topology]:
    """Return the topologies, from whose listed domains nodes that were removed are gone."""
    if nodes is None or not any(topology.domains for topology in before.topologies):
        return before.topologies
    gone = {node.name for node in before.nodes} - {n.name for n in nodes if is_text(n.name)}
    return without_nodes(before.topologies, gone) if gone else before.topologies


def is_settled(cycle: CycleResult) -> bool:
    """Return whether no cycle at the same time could go on with what was evicted or promised."""
    return not (cycle.evictions or cycle.moves or cycle.pipelined or cycle.kept_promises)


def next_wake(cycle: CycleResult, *, after: float) -> float:
    """Return the next time at which a cycle is worth running, if nothing else happens; or inf."""
    times = (cycle.next_start, cycle.refused_until)
    return min((at for at in times if at is not None and at > after), default=inf)


def decides_nothing(cycle: CycleResult) -> bool:
    """Return whether a cycle moved no task and kept no promise or reservation."""
    return not any(row.changes_tasks and row.of(cycle) for row in DECISIONS)


def part_of_result(
    cycle: CycleResult, content: Content, named: dict[str, None], nodes: dict[str, None]
) -> CycleResult:
    """Add the tasks and nodes that a cycle names; return it with only their jobs' outcomes."""
    for row in DECISIONS:
        if row.changes_tasks:
            _note(row.of(cycle), named, nodes)
    outcomes = cycle.tasks
    if is_mapping(outcomes):
        jobs = {content.owner[uid] for uid in named if uid in content.owner}
        outcomes = {
            uid: cycle.tasks[uid]
            for owner in jobs
            for uid in content.members[owner]
            if uid in cycle.tasks
        }
        # A placement that was not bound may be kept as a reservation.
        _note(outcomes.values(), named, nodes)
    return evolve(cycle, tasks=outcomes, jobs={}, left_out={}, pending={})


def _note(decided: object, named: dict[str, None], nodes: dict[str, None]) -> None:
    if not isinstance(decided, Iterable):
        return
    for decision in cast("Iterable[object]", decided):
        for attribute in ("task_uid", "for_task_uid"):
            uid = getattr(decision, attribute, None)
            if isinstance(uid, str):
                named[uid] = None
        for attribute in ("node_name", "from_node", "to_node"):
            node_name = getattr(decision, attribute, None)
            if isinstance(node_name, str):
                nodes[node_name] = None


def job_of_task(content: Content) -> Callable[[str], JobInfo | None]:
    """Return what finds the job of a task, with its present tasks."""

    def found(uid: str) -> JobInfo | None:
        owner = content.owner.get(uid)
        return None if owner is None else content.job(owner)

    return found


def take_over(content: Content, before: Snapshot, after: Snapshot) -> None:
    """Apply the differences between two snapshots of a part of the cluster."""
    were = {job.uid: job for job in before.jobs}
    for uid in were.keys() - {job.uid for job in after.jobs}:
        content.leave(uid)
    changed = [job for job in after.jobs if job is not were.get(job.uid)]
    for job in changed:
        # Remove tasks first: a task may have moved to another job.
        if job.uid in were:
            for uid in {task.uid for task in were[job.uid].tasks}.difference(
                task.uid for task in job.tasks
            ):
                content.put("tasks", uid, None)
                content.put("owner", uid, None)
    for job in changed:
        if job.uid not in were:
            content.enter(job)
            continue
        members = tuple(task.uid for task in job.tasks)
        if members != content.members[job.uid]:
            content.put("members", job.uid, members)
        for task in job.tasks:
            if content.tasks.get(task.uid) is task:
                continue
            if content.owner.get(task.uid) != job.uid:
                if task.uid in content.tasks:
                    message = "there is such a task already"
                    raise EventError([Fault(f"tasks[{task.uid!r}]", message)])
                content.put("owner", task.uid, job.uid)
            content.put("tasks", task.uid, task)
    others = {task.uid: task for task in after.other_tasks}
    for task in before.other_tasks:
        now = others.get(task.uid)
        if now is not task:
            content.put("tasks", task.uid, now)


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
    mark = tables.mark()
    following: Snapshot | None = None
    try:
        following = _taken(tables, step, step.result) if _is_plain(tables, step) else None
    except (EventError, SnapshotError):
        pass  # `take_step` reports the faults
    finally:
        if following is None:
            tables.undo_to(mark)
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


def _taken(tables: Content, step: Step, result: CycleResult) -> Snapshot:
    named: dict[str, None] = dict(tables.unsettled)
    nodes: dict[str, None] = {}
    decided = part_of_result(result, tables, named, nodes)
    for uids in step.happened.values():
        named.update(dict.fromkeys(uids))
    for uid in step.removed_jobs:
        named.update(dict.fromkeys(tables.members.get(uid, ())))
    known = [uid for uid in named if uid in tables.tasks]
    before = tables.part(
        known, nodes, jobs=[uid for uid in step.removed_jobs if uid in tables.jobs]
    )
    after = take_step(before, evolve(step, result=decided, events=()))
    if tables.now != step.now:
        let_use_pass(tables, step.now, result)
    written = evictions_written(result, job_of_task(tables), now=tables.now)
    take_over(tables, before, after)
    keep_evictions(tables, written)
    keep_plans(tables, result.planned)
    if tables.now != step.now:
        let_time_pass(tables, step.now)
    apply_events(tables, step.events)
    tables.commit()
    following = tables.snapshot()
    keep_tables(following, tables)
    return following


_UNKNOWN = TaskOutcome(status=TaskStatus.PENDING)
"""A placeholder for outcomes that a result does not contain."""


def tasks_started(cycle: CycleResult, content: Content) -> dict[str, TaskInfo] | None:
    """Return the tasks that a cycle has bound, as running tasks, by UID; None: not this case.

    O(tasks of the jobs concerned).
    """
    if (
        content.unsettled
        or type(cycle.binds) is not tuple
        or any(row.of(cycle) != () for row in DECISIONS if row.kind not in (Bind, TakenBack))
        or not is_frozen_map(cycle.planned)
        or any(type(uid) is not str or any(plan_problems(p)) for uid, p in cycle.planned.items())
        or type(cycle.tasks) not in (LazyMap, FrozenMap)
    ):
        return None
    tasks, owner, now = content.tasks, content.owner, content.now
    started: dict[str, TaskInfo] = {}
    jobs: dict[str, None] = {}
    for bind in cycle.binds:
        if not _is_usual_bind(bind, content) or bind.task_uid in started:
            return None
        uid = bind.task_uid
        started[uid] = starting(
            tasks[uid],
            TaskStatus.RUNNING,
            bind.node_name,
            is_backfill=bind.is_backfill,
            now=now,
            chosen=bind,
        )
        jobs[owner[uid]] = None
    outcomes = cycle.tasks
    # Those of bound tasks are stored, also where others are computed when they are read.
    stored: Mapping[str, TaskOutcome] = getattr(outcomes, "changed", outcomes)
    for job in jobs:
        for uid in content.members[job]:
            outcome = stored.get(uid) or outcomes.get(uid, _UNKNOWN)
            if outcome is not _UNKNOWN and not _is_as_decided(
                outcome, tasks[uid], started.get(uid)
            ):
                return None
    return started


def _is_usual_bind(bind: Bind, content: Content) -> bool:
    if type(bind) is not Bind or type(bind.is_backfill) is not bool:
        return False
    uid, node_name = bind.task_uid, bind.node_name
    if not (type(uid) is type(node_name) is str and node_name in content.nodes):
        return False
    task = content.tasks.get(uid)
    return task is not None and task.status is TaskStatus.PENDING and uid in content.owner


def _is_as_decided(outcome: TaskOutcome, task: TaskInfo, started: TaskInfo | None) -> bool:
    """Return whether a task did not change in the cycle, or was bound to the node where it runs."""
    if type(outcome) is not TaskOutcome:
        return False
    node_name = outcome.node_name
    if node_name is not None and type(node_name) is not str:
        return False
    if started is None:
        return outcome.status is task.status and node_name == task.node_name
    return outcome.status is TaskStatus.BINDING and node_name == started.node_name


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
