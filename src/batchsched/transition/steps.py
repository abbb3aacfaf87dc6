"""A step: the decisions of a cycle, and what happened since, become the state of the next one.

`take_step` makes a new snapshot of a whole one: that is the definition. `apply_step` does the same
to the tables of a cluster, at the cost of what the step concerns: it takes the step on the part of
the cluster that decisions and events name, and puts what comes out in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import cast

from attrs import evolve, frozen

from batchsched.errors import EventError, Fault, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.immutable import FrozenMap, LazyMap, is_frozen_map
from batchsched.model.result import DECISIONS, Bind, CycleResult, TakenBack, TaskOutcome
from batchsched.model.snapshot import OF_DEVICES, Snapshot, besides_of
from batchsched.model.topology import Topology, without_nodes
from batchsched.model.validation.tasks import plan_problems
from batchsched.model.validation.values import is_mapping, is_text
from batchsched.transition.content import Content
from batchsched.transition.decisions import (
    Replacement,
    TaskTransitions,
    check_result,
    claimant_faults,
    outcome_faults,
    places_to_keep,
)
from batchsched.transition.event_rules import apply_events
from batchsched.transition.events import Event
from batchsched.transition.rules import (
    EvictionsWritten,
    as_new,
    carried_over,
    evictions_written,
    keep_evictions,
    keep_plans,
    ledger_after,
    let_time_pass,
    let_use_pass,
    queues_after,
    set_eligible_times,
    starting,
)


@frozen(kw_only=True)
class Step:
    """The arguments of `next_snapshot`."""

    result: CycleResult | None
    now: float
    happened: Mapping[str, tuple[str, ...]]
    """The UIDs of tasks by the name of the argument, such as ``succeeded``."""
    replacement: Replacement = as_new
    new_jobs: tuple[JobInfo, ...] = ()
    removed_jobs: tuple[str, ...] = ()
    nodes: tuple[NodeInfo, ...] | None = None
    queues: tuple[Queue, ...] | None = None
    other_tasks: tuple[TaskInfo, ...] | None = None
    keep_reservations: bool = True
    events: tuple[Event, ...] = ()


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
    following = evolve(
        snapshot,
        nodes=snapshot.nodes if nodes is None else nodes,
        jobs=jobs,
        queues=queues_after(snapshot, result, queues, now=now),
        other_tasks=others,
        topologies=_topologies_after(snapshot, nodes),
        now=now,
        evictions=ledger_after(
            snapshot.evictions, written.past, now=now, kept=snapshot.evictions_kept
        ),
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
        return (
            None if nodes is None else Snapshot(nodes=nodes, **besides_of(before, OF_DEVICES)).nodes
        )
    except SnapshotError:
        return None


def _topologies_after(before: Snapshot, nodes: Sequence[NodeInfo] | None) -> Sequence[Topology]:
    """Return the topologies, from whose listed domains nodes that were removed are gone."""
    if nodes is None or not any(topology.domains for topology in before.topologies):
        return before.topologies
    gone = {node.name for node in before.nodes} - {n.name for n in nodes if is_text(n.name)}
    return without_nodes(before.topologies, gone) if gone else before.topologies


def apply_step(content: Content, step: Step) -> None:
    """Apply a step with a result to the tables of a cluster; the caller commits it.

    O(tasks of the jobs that it names). Steps that replace all nodes, queues or tasks without a job
    are for `take_step` alone.

    Raises:
        EventError: see `next_snapshot`; all faults at once, and nothing has changed.
        SnapshotError: new objects are invalid in themselves; nothing has changed.

    """
    result, mark = step.result, content.mark()
    assert result is not None
    assert (step.nodes, step.queues, step.other_tasks) == (None, None, None)
    is_later = content.now != step.now
    tasks = None if is_later else _tasks_after(content, step, result)
    part = _step_in_part(content, step, result) if tasks is None else None
    try:
        set_eligible_times(content)
        if is_later:
            let_use_pass(content, step.now, result)
        for uid, task in (tasks or {}).items():
            content.put("tasks", uid, task)
        if part is not None:
            before, after, written = part
            _take_over(content, before, after)
            keep_evictions(content, written)
        keep_plans(content, result.planned)
        if is_later:
            let_time_pass(content, step.now)
        set_eligible_times(content, time=content.now)
        if step.events:
            apply_events(content, step.events)
    except BaseException:
        content.undo_to(mark)
        raise


def _step_in_part(
    content: Content, step: Step, result: CycleResult
) -> tuple[Snapshot, Snapshot, EvictionsWritten]:
    """Return the part that a step names, what it becomes, and what its evictions leave behind."""
    named: dict[str, None] = dict(content.unsettled)
    nodes: dict[str, None] = {}
    decided = _part_of_result(result, content, named, nodes)
    for uids in step.happened.values():
        named.update(dict.fromkeys(uids))
    for uid in step.removed_jobs:
        named.update(dict.fromkeys(content.members.get(uid, ())))
    removed = [uid for uid in step.removed_jobs if uid in content.jobs]
    before = content.part([uid for uid in named if uid in content.tasks], nodes, jobs=removed)
    after = take_step(before, evolve(step, result=decided, events=()))
    return before, after, evictions_written(result, _job_of_task(content), now=content.now)


def _part_of_result(
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


def _job_of_task(content: Content) -> Callable[[str], JobInfo | None]:
    """Return what finds the job of a task, with its present tasks."""

    def found(uid: str) -> JobInfo | None:
        owner = content.owner.get(uid)
        return None if owner is None else content.job(owner)

    return found


def _take_over(content: Content, before: Snapshot, after: Snapshot) -> None:
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


# Short steps


def _tasks_after(
    content: Content, step: Step, result: CycleResult
) -> Mapping[str, TaskInfo] | None:
    """Return the tasks that a step changes, as they become; None: it is not that short.

    It is where nothing is decided and what is on its way stays so, or where tasks are bound that
    start at once and nothing else is on its way.
    """
    if type(result) is not CycleResult or step.new_jobs or step.removed_jobs:
        return None
    if _decides_nothing(result):
        # Such a result cannot be invalid here, and changes only plans and what is eligible.
        return {} if _stays_on_its_way(content, step.happened) else None
    return None if any(step.happened.values()) else tasks_started(result, content)


def _stays_on_its_way(content: Content, happened: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether just those tasks are named that are bound or leave, as still doing so."""
    if sum(map(len, happened.values())) != len(content.unsettled):
        return False
    still = {
        TaskStatus.BOUND: frozenset(happened.get("not_started", ())),
        TaskStatus.RELEASING: frozenset(happened.get("still_releasing", ())),
    }
    tasks = content.tasks
    return all(uid in still.get(tasks[uid].status, ()) for uid in content.unsettled)


_of_tasks: Callable[[CycleResult], tuple[object, ...]] = attrgetter(
    *(row.field for row in DECISIONS if row.changes_tasks)
)
_BESIDES = tuple(row.field for row in DECISIONS if row.kind not in (Bind, TakenBack))
_besides_binds: Callable[[CycleResult], tuple[object, ...]] = attrgetter(*_BESIDES)
_NOTHING_BESIDES = ((),) * len(_BESIDES)


def _decides_nothing(cycle: CycleResult) -> bool:
    """Return whether a cycle moved no task and kept no promise or reservation."""
    return not any(_of_tasks(cycle))


_UNKNOWN = TaskOutcome(status=TaskStatus.PENDING)
"""A placeholder for outcomes that a result does not contain."""


def tasks_started(cycle: CycleResult, content: Content) -> dict[str, TaskInfo] | None:
    """Return the tasks that a cycle has bound, as running tasks, by UID; None: not this case.

    O(tasks of the jobs concerned).
    """
    if (
        content.unsettled
        or type(cycle.binds) is not tuple
        or _besides_binds(cycle) != _NOTHING_BESIDES
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
