"""The function `explain`: why a job or task waits, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from batchsched.causes import JobStatus, WhyPending
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError
from batchsched.kubernetes.facts import JobFacts
from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import MemberCount
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult, QueueOutcome
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.session.limits import need_of
from batchsched.session.session import Session
from batchsched.session.turns import tasks_left
from batchsched.state.groups import Counting
from batchsched.state.records import JobState, QueueState, SortKey, TaskState
from batchsched.state.vectors import total_of
from batchsched.tools.changes import admission_waits
from batchsched.tools.explanation import (
    AboveShare,
    Explanation,
    QueueStanding,
)
from batchsched.tools.helpful_changes import (
    ExplainedJob,
    kinds_of_changes,
    release,
    what_helps,
    with_release,
    without_evictions,
)
from batchsched.tools.node_fit import NodeFit, counted, fits_of, nearest_nodes, placed_of
from batchsched.tools.standings import JobStanding, Standings
from batchsched.tools.trials import Trials

_BEFORE = 5


@checks_arguments(ConfigError)
def explain(
    snapshot: Snapshot,
    result: CycleResult,
    job_or_task: str,
    *,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
    try_changes: bool = True,
    facts: Mapping[str, JobFacts] | None = None,
) -> Explanation:
    """Explain why a job waits: its position, its queue, the nodes, and changes that would help.

    The answer begins with the job's standing, as `batchsched.tools.standings` returns it.

    Helpful changes are found by trying: each reported change was applied alone, a cycle was run,
    and it bound one of the waiting tasks (or, given a task, that task), with as many others as the
    job needs. `what_if` with the changes repeats it. Only what somebody could do is tried, of each
    kind the smallest change that is enough: more nodes of a kind that is there; the end of a
    running job, or of a task of none; a lower `min_available`; a higher `max_available`; a priority
    above that of a job before it, unless `facts` say that it cannot be changed; a higher weight of
    the queue; a higher limit of the queue or of one above it, if that is why it waits; a leaf
    queue, if it names another; the ends of jobs that it depends on. Others may help too.

    If something holds the job, the answer says nothing about nodes, but what follows once nothing
    holds it: where it would start, or what it would wait for then. If only the admission of a
    controller is missing, the queues decide it here: place, shares, nodes and changes are those
    after all jobs that lack it were admitted as far as the queues allow.

    Costs O(nodes + tasks), and at most some tens of cycles without preempt and reclaim, each as
    cheap as the change is small. If one of these runs before an action that starts tasks, a change
    that was enough is tried with it too: one or a few more cycles for each kind of change, as slow
    as the evictions. With `try_changes=False` no changes are tried.

    Args:
        snapshot: the cluster.
        result: the result of a cycle on it.
        job_or_task: the UID of the job, or of one of its tasks.
        config: the configuration of that cycle; None: the default.
        registry: the plugins and actions that the configuration may name.
        try_changes: whether to search for changes that would help.
        facts: what a dump says of its jobs besides (`batchsched.kubernetes.Dump.facts`): the answer
            then tells the owner, what it leaves out, and what controllers say.

    Raises:
        ConfigError: an argument has the wrong type.
        UnknownNameError: there is no such job or task.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo, schedule
    >>> three = Resource(milli_cpu=3000)
    >>> runs = TaskInfo(uid="r", name="r", resreq=three, status=TaskStatus.RUNNING, node_name="n1")
    >>> snapshot = Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))],
    ...     queues=[Queue(name="q")],
    ...     jobs=[
    ...         JobInfo(name="r", queue="q", tasks=[runs]),
    ...         JobInfo(name="j", queue="q", tasks=[TaskInfo(uid="t", name="t", resreq=three)]),
    ...     ],
    ... )
    >>> explanation = explain(snapshot, schedule(snapshot), "default/j")
    >>> explanation.nearest[0].missing, dict(explanation.unfit)
    (Resource(milli_cpu=2000, memory=0), {'lack free cpu': 1})

    """
    job = _job_of(snapshot, job_or_task)
    told_of = Standings(snapshot, result, facts=facts, config=config, registry=registry)
    own_facts = (facts or {}).get(job.uid) or JobFacts(job=job.uid, system="", kind="", owner="")
    standing, owner = told_of.of(job), told_of.owner(job)
    trials = Trials(snapshot, config, registry)
    admits = trials.kept_out.get(job.uid, "")
    follows, places, waits = "", tuple[str, ...](), ""
    if admits:  # what is told of queues and nodes is how it would be with the queues admitting it
        waits = admission_waits(job, snapshot.now)
        snapshot, result = trials.snapshot, trials.now
        job = snapshot.job(job.uid)
        anew = Standings(snapshot, result, facts=facts, config=config, registry=registry).of(job)
        follows = _if_admitted(anew, standing, admits)
        own = {task.uid for task in job.tasks}
        decided = [(each.task_uid, each.node_name) for each in result.binds]
        decided += [(p.task_uid, p.node_name) for p in (*result.pipelined, *result.conditional)]
        places = tuple(dict.fromkeys(node for uid, node in decided if uid in own))
    else:
        anew = standing
    as_is = (
        trials
        if admits or not trials.kept_out
        else Trials(snapshot, config, registry, but=trials.kept_out)
    )
    reclaims = any(action.name == "reclaim" for action in trials.config.actions)
    with as_is.session(without_evictions(trials.config)) as session:
        state = session.ledger.jobs[job.uid]
        pending = [task for task in state.tasks if task.status is TaskStatus.PENDING]
        left = [task for task in pending if task.uid in result.pending]
        named = [task for task in left if task.uid == job_or_task]
        task = _first(session, result, named or left)
        reason = None if task is None else result.pending.get(task.uid)
        position, others, before, decided_by = _place_in_queue(session, state)
        explanation = Explanation(
            job=job.uid,
            owner=owner,
            standing=standing,
            admits=admits,
            admits_once=waits,
            once_released=f"{waits}, {follows}" if waits and follows else follows,
            once_released_on=places,
            caveats=own_facts.caveats,
            told=own_facts.told,
            now=snapshot.now,
            task=None if task is None else task.uid,
            task_name="" if task is None else task.info.display_name,
            of_task=bool(named),
            reason=reason,
            position=position,
            waiting_jobs=others,
            before_it=tuple(other.uid for other in before[-_BEFORE:][::-1]),
            decided_by=decided_by,
            queue=_standing_of_queue(session, state.info.queue),
            above_share=_above_share(session, left, reclaims=reclaims),
            min_available=state.min_available,
            ready=state.ready_count,
            lacking=max(0, state.lacks()),
            at_once=_at_once(session, state, state.having(TaskStatus.PENDING)),
            groups=_groups(state),
            nodes=len(snapshot.nodes),
        )
        if task is None:
            return explanation
        wanted = frozenset(each.uid for each in named or left)
        fits: Sequence[NodeFit] = ()
        if anew.waits_for_room:
            fits, placed, blocked, unfit = _of_nodes(session, result, state, task)
            blocked = None if named else blocked
            explanation = evolve(
                explanation,
                tells_nodes=True,
                blocked="" if blocked is None else blocked.info.display_name,
                placed=0 if blocked is None else placed,
                available=sum(fit.takes_it for fit in fits) if blocked is None else 0,
                unfit=counted(fits, task.info) if blocked is None else unfit,
                nearest=nearest_nodes(session, result, task, fits),
            )
        elif (
            explanation.why is WhyPending.PLANNED
        ):  # more room would start it, but has no part in why
            fits = fits_of(session, task)
        if not try_changes:
            return explanation
        waiting = ExplainedJob(
            session=session,
            result=result,
            explanation=explanation,
            state=state,
            task=task,
            before=before,
            fits=fits,
            has_fixed_priority=own_facts.has_fixed_priority,
        )
        freed = None if admits else release(waiting)
        kinds = kinds_of_changes(waiting)
    if freed is not None:
        return with_release(explanation, trials, job, wanted, freed)
    found, tried = what_helps(trials, kinds, job, wanted)
    return evolve(explanation, would_start=found, tried=tried)


def _if_admitted(anew: JobStanding, standing: JobStanding, admits: str) -> str:
    """Return what follows if a controller admits a job as the queues here allow."""
    where = anew.text.partition(": ")[2]
    if anew.state is JobStatus.STARTS:
        return f"it would start if {admits} decides as here: {where}"
    if anew.state is JobStatus.PROMISED:
        return f"it would be promised room if {admits} decides as here: {where}"
    told = {blocker.text for blocker in standing.blockers}
    left = [blocker.text for blocker in anew.blockers if blocker.text not in told]
    return f"it would still wait if {admits} decides as here: {left[0]}" if left else ""


def _job_of(snapshot: Snapshot, uid: str) -> JobInfo:
    for job in snapshot.jobs:
        if job.uid == uid or any(task.uid == uid for task in job.tasks):
            return job
    return snapshot.job(uid)  # raises UnknownNameError with the known names


def _first(session: Session, result: CycleResult, left: Sequence[TaskState]) -> TaskState | None:
    """Return the first pending task; if possible, one that nothing holds, and that requests."""

    def rank(task: TaskState) -> tuple[bool, bool]:
        return result.pending[task.uid].why is WhyPending.HELD, task.is_best_effort

    return min(session.in_task_order(left), key=rank, default=None)


# Its place in the queue
def _place_in_queue(
    session: Session, state: JobState
) -> tuple[int | None, int, list[JobState], str]:
    """Return a job's position, the waiting jobs of its queue, those before it, and the key."""
    if state.queue is None or not state.in_session or not state.count(TaskStatus.PENDING):
        return None, 0, [], ""
    plugins = session.plugins

    def need_key(job: JobState) -> SortKey:
        if not plugins.orders_jobs_by_need:
            return ()
        return plugins.need_order_key(need_of(session, job, tasks_left(session, job)))

    keys = {
        job.uid: ((need_key(job), session.plugins.job_order_key(job)), job)
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
    if not state.in_session or state.queue is None:
        return 0
    tasks = session.in_task_order(waiting)
    if state.groups is not None:
        tasks = state.groups.within_maxima(tasks)
    with session.statement(is_trial=True) as trial:
        count, _ = placed_of(session, trial, tasks)
        trial.discard()
    return count


def _of_nodes(
    session: Session, result: CycleResult, state: JobState, task: TaskState
) -> tuple[Sequence[NodeFit], int, TaskState | None, Mapping[str, int]]:
    """Return how nodes suit a task once what the cycle starts is there.

    And if only some tasks of its gang have room then: how many, the first that has none, and what
    keeps that one from nodes, as `counted` says it.
    """
    placed, blocked = 0, None
    why: Mapping[str, int] = EMPTY
    with session.statement(is_trial=True) as trial:
        for bind in result.binds:
            starting = session.ledger.tasks[bind.task_uid]
            if starting.status is TaskStatus.PENDING:
                trial.allocate(starting, session.node(bind.node_name))
        fits, lacking = fits_of(session, task), state.lacks()
        if lacking > 1 and state.groups is None:
            tasks = session.in_task_order(state.having(TaskStatus.PENDING))
            placed, blocked = placed_of(session, trial, tasks)
            if not 0 < placed < lacking:
                blocked = None
            elif blocked is not None:
                why = counted(fits_of(session, blocked), blocked.info)
        trial.discard()
    return fits, placed, blocked, why


def _groups(state: JobState) -> tuple[MemberCount, ...]:
    groups = () if state.groups is None else state.groups.groups
    return tuple(
        group.member_count(Counting.READY)
        for group in groups
        if not group.is_satisfied(Counting.READY)
    )


# Its queue


def _standing_of_queue(session: Session, name: str) -> QueueStanding:
    """Return the state of a queue, and of the queues above it. O(tasks of the queue)."""
    queues, outcomes = session.ledger.queues, session.plugins.queue_outcomes()
    if name not in queues:
        return QueueStanding(name=name, is_known=False)
    above: list[QueueStanding] = []
    parent = outcomes[name].parent if name in outcomes else None
    while parent is not None and parent in outcomes:
        above.append(_of_queue(session, queues[parent], outcomes[parent]))
        parent = outcomes[parent].parent
    return evolve(
        _of_queue(session, queues[name], outcomes.get(name)),
        above=tuple(above),
        is_overused=session.plugins.overused(queues[name]),
        leaves=_leaves_below(queues[name]),
    )


def _of_queue(session: Session, queue: QueueState, outcome: QueueOutcome | None) -> QueueStanding:
    told = QueueStanding(name=queue.name, is_known=True, weight=queue.info.weight)
    if outcome is not None:
        return evolve(
            told,
            allocated=outcome.allocated,
            share=_share(session, outcome.allocated),
            deserved=outcome.fair_share,
            guarantee=outcome.guarantee,
            limit=outcome.limit,
            on_loan=outcome.on_loan,
        )
    dimensions = session.ledger.dimensions
    holding = [task for job in queue.jobs for task in job.tasks if task.status.occupies]
    held = total_of([task.resreq for task in holding if not task.is_backfill], dimensions.zero)
    allocated, share = dimensions.resource(held), session.plugins.queue_share(queue)
    deserved = None if share is None else dimensions.resource(share[0])
    return evolve(told, allocated=allocated, share=_share(session, allocated), deserved=deserved)


def _leaves_below(queue: QueueState) -> tuple[str, ...]:
    waiting, leaves = list(queue.children), list[str]()
    while waiting:
        below = waiting.pop()
        if below.children:
            waiting += below.children
        else:
            leaves.append(below.name)
    return tuple(sorted(leaves))


def _above_share(
    session: Session, waiting: Sequence[TaskState], *, reclaims: bool
) -> tuple[AboveShare, ...]:
    """Return the leaf queues that hold more than their fair shares, the most first. O(queues).

    What is guaranteed to a queue is its own even if its share is less, and so is what it deserves
    if nothing is reclaimed.
    """
    cluster, names = session.ledger.cluster, session.ledger.dimensions.names
    asked = [
        at
        for at, whole in enumerate(cluster)
        if whole and (not waiting or any(task.init_resreq[at] for task in waiting))
    ]
    found: list[tuple[float, AboveShare]] = []
    for name, queue in session.ledger.queues.items():
        share = None if queue.children else session.plugins.queue_share(queue)
        if share is None:
            continue
        own = [queue.info.guarantee]
        if not reclaims and isinstance(queue.info.deserved, Resource):
            own.append(queue.info.deserved)
        above = [
            (float(share[1][at] - max(share[0][at], *(each.get(names[at]) for each in own))), at)
            for at in asked
        ]
        # Of equal parts, those of devices are told, which come last.
        part, at, amount = max(
            ((amount / cluster[at], at, amount) for amount, at in above), default=(0.0, 0, 0.0)
        )
        if amount >= 1:  # a share may have fractions
            found.append((part, AboveShare(queue=name, dimension=names[at], amount=amount)))
    found.sort(key=lambda each: (-each[0], each[1].queue))
    return tuple(each for _, each in found)


def _share(session: Session, held: Resource) -> float:
    """Return the dominant share of the cluster."""
    names = session.ledger.dimensions.names
    whole = zip(names, session.ledger.cluster, strict=False)
    return float(max((held.get(name) / amount for name, amount in whole if amount), default=0.0))
