"""The function `explain`: why a job waits, what blocks it, and what would let it start."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from batchsched.actions.group_turns import tasks_left
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError, Fault
from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.reasons import WhyPending
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_of, shown
from batchsched.placement import Fit
from batchsched.session.session import Session
from batchsched.state.groups import Counting
from batchsched.state.live_queue import SortKey
from batchsched.state.needs import need_of_job, need_of_task
from batchsched.state.records import JobState, TaskState
from batchsched.tools.explanation import Explanation, GroupStanding
from batchsched.tools.helpful_changes import changes_to_try, what_helps, without_evictions
from batchsched.tools.judged_victims import victims_judged
from batchsched.tools.near_nodes import nearest_nodes
from batchsched.tools.standing import standing_of_queue
from batchsched.tools.trials import Trials

__all__ = ["explain"]

_BEFORE = 5


def explain(
    snapshot: Snapshot,
    result: CycleResult,
    job_or_task: str,
    *,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
    try_changes: bool = True,
) -> Explanation:
    """Explain why a job waits: its position, its queue, the nodes, and changes that would help.

    Helpful changes are found by trying: each reported change was applied alone, a cycle was run,
    and it bound one of the waiting tasks (or, given a task, that task). The changes tried are, of
    each kind, the smallest that is enough: more resources on the nearest node; the end of a running
    task; a lower `min_available`; a higher `max_available`; a priority above that of a job before
    it; a higher weight of the queue; a higher limit of the queue or of one above it, if that is why
    it waits; an open queue; a leaf queue, if it names another. Other changes may help too.

    Costs O(nodes + tasks), verdicts on all running tasks if the configuration has preempt or
    reclaim, and at most some tens of cycles without those two, each as cheap as the change is
    small. If preempt or reclaim runs before an action that starts tasks, a change that was enough
    is tried with it too: one or a few more cycles for each kind of change, as slow as the
    evictions. With `try_changes=False` no changes are tried.

    Args:
        snapshot: the cluster.
        result: the result of a cycle on it.
        job_or_task: the UID of the job, or of one of its tasks.
        config: the configuration of that cycle; None: the default.
        registry: the plugins and actions that the configuration may name.
        try_changes: whether to search for changes that would help.

    Raises:
        ConfigError: an argument has the wrong type.
        UnknownNameError: there is no such job or task.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo, schedule
    >>> large = TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=3000))
    >>> snapshot = Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000))],
    ...     queues=[Queue(name="q")],
    ...     jobs=[JobInfo(name="j", queue="q", tasks=[large])],
    ... )
    >>> explanation = explain(snapshot, schedule(snapshot), "default/j")
    >>> explanation.nearest[0].missing, [change.text for change in explanation.would_start]
    (Resource(milli_cpu=1000, memory=0), ["1 cpu more on node 'n1'"])

    """
    for name, given, kind in (("snapshot", snapshot, Snapshot), ("result", result, CycleResult)):
        if not is_of(given, kind):
            raise ConfigError([Fault(name, f"expected a {kind.__name__}, got {shown(given)}")])
    job = _job_of(snapshot, job_or_task)
    trials = Trials(snapshot, config, registry)
    with trials.session(without_evictions(trials.config)) as session:
        state = session.ledger.jobs[job.uid]
        waiting = [task for task in state.tasks if task.status is TaskStatus.PENDING]
        left = [task for task in waiting if task.uid in result.pending]
        named = [task for task in left if task.uid == job_or_task]
        task = _first(session, named or left)
        position, others, before, decided_by = _place(session, state)
        explanation = Explanation(
            job=job.uid,
            task=None if task is None else task.uid,
            task_name="" if task is None else task.info.display_name,
            summary=_summary(job, result, task),
            why=_why(result, task),
            position=position,
            waiting_jobs=others,
            before_it=tuple(other.uid for other in before[-_BEFORE:][::-1]),
            decided_by=decided_by,
            queue=standing_of_queue(session, state),
            min_available=state.min_available,
            ready=state.ready_count,
            lacking=max(0, state.min_available - state.ready_count),
            at_once=_at_once(session, state, waiting),
            groups=_groups(state),
            nodes=len(snapshot.nodes),
            available=0,
            unfit={},
            nearest=(),
            victims=(),
            would_start=(),
            tried=0,
        )
        if task is None:
            return explanation
        tally = session.placement.tally(task)
        explanation = evolve(
            explanation,
            available=tally.available,
            unfit={unfit.text: count for unfit, count in tally.unfit.items()},
            nearest=nearest_nodes(session, result, task),
            victims=victims_judged(snapshot, trials.config, registry, task.uid),
        )
        if not try_changes:
            return explanation
        kinds = changes_to_try(session, result, explanation, state, task, before)
        wanted = frozenset(each.uid for each in named or left)
    found, tried = what_helps(trials, wanted, kinds)
    return evolve(explanation, would_start=found, tried=tried)


def _job_of(snapshot: Snapshot, uid: str) -> JobInfo:
    for job in snapshot.jobs:
        if job.uid == uid or any(task.uid == uid for task in job.tasks):
            return job
    return snapshot.job(uid)  # raises UnknownNameError with the known names


def _first(session: Session, left: Sequence[TaskState]) -> TaskState | None:
    """Return the first pending task; if possible, one that requests resources."""
    tasks = session.in_task_order(left)
    return next((t for t in tasks if not t.is_best_effort), tasks[0] if tasks else None)


def _summary(job: JobInfo, result: CycleResult, task: TaskState | None) -> str:
    condition = result.left_out.get(job.uid)
    if condition is not None:
        return f"it is left out of the cycle: {condition}"
    if task is not None:
        reason = result.pending.get(task.uid)
        text = "no reason is known" if reason is None else reason.text
        code = "" if reason is None else f" ({reason.why.value})"
        return f"it waits{code}: {text}"
    names = {task.uid: task.display_name for task in job.tasks}
    starting = [bind for bind in result.binds if bind.task_uid in names]
    if starting:
        first = f"{names[starting[0].task_uid]} on {starting[0].node_name}"
        more = f", and {len(starting) - 1} more" if len(starting) > 1 else ""
        return f"it starts in this cycle: {first}{more}"
    outcome = result.jobs.get(job.uid)
    phase = "is not in the result" if outcome is None else f"is {outcome.phase.value}"
    return f"none of its tasks is pending; it {phase}"


def _why(result: CycleResult, task: TaskState | None) -> WhyPending | None:
    reason = None if task is None else result.pending.get(task.uid)
    return None if reason is None else reason.why


# Its place in the queue


def _place(session: Session, state: JobState) -> tuple[int | None, int, list[JobState], str]:
    """Return a job's position, the waiting jobs of its queue, those before it, and the key."""
    if state.queue is None or not state.in_session or not state.count(TaskStatus.PENDING):
        return None, 0, [], ""
    plugins = session.plugin_set

    def need_key(job: JobState) -> SortKey:
        if not plugins.orders_jobs_by_need:
            return ()
        return plugins.need_key(need_of_job(job, tasks_left(session, job)))

    keys = {
        job.uid: ((need_key(job), session.job_order_key(job)), job)
        for job in state.queue.jobs
        if job.in_session and job.count(TaskStatus.PENDING)
    }
    mine = keys[state.uid][0]
    ahead = sorted((k for k in keys.values() if k[0] < mine), key=lambda item: item[0])
    before = [job for _, job in ahead]
    decided_by = ""
    if ahead:
        last = ahead[-1][0]
        names = [*plugins.names_on("job_order_key"), "creation_time", "uid"]
        values = zip(names, last[1], mine[1], strict=True)
        decided_by = (
            next(name for name, theirs, own in values if theirs != own)
            if last[0] == mine[0]
            else plugins.names_on("need_order_key")[0]
        )
    return len(before) + 1, len(keys), before, decided_by


def _at_once(session: Session, state: JobState, waiting: Sequence[TaskState]) -> int:
    """Return how many of the tasks would fit now, and within limits, if the job were first."""
    queue = state.queue
    if not state.in_session or queue is None:
        return 0
    count = 0
    tasks = session.in_task_order(waiting)
    if state.groups is not None:
        tasks = state.groups.within_maxima(tasks)
    with session.statement(is_trial=True) as trial:
        for task in tasks:
            if session.plugin_set.allocatable(queue, need_of_task(task)) is not None:
                continue
            node = session.placement.best(task, Fit.NOW)
            if node is not None:
                trial.allocate(task, node)
                count += 1
        trial.discard()
    return count


def _groups(state: JobState) -> tuple[GroupStanding, ...]:
    if state.groups is None:
        return ()
    return tuple(
        GroupStanding(
            name=group.name,
            of_groups=bool(group.children),
            ready=group.counts[Counting.READY],
            needed=group.minimum,
            maximum=group.maximum,
            is_ready=group.is_satisfied(Counting.READY),
        )
        for group in state.groups.groups
    )
