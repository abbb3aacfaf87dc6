"""The function `explain`: why a job or task waits, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest

from attrs import evolve

from batchsched.actions.eviction.claims import why_not_victims
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError
from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.model.resources import EPSILON, Amount, Resource
from batchsched.model.result import CycleResult, QueueOutcome
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_of, is_text, shown
from batchsched.placement import Fit
from batchsched.plugin.extension_points import Verdict
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.session.turns import tasks_left
from batchsched.state.groups import Counting
from batchsched.state.needs import need_of_job, need_of_task
from batchsched.state.records import JobState, NodeState, QueueState, SortKey, TaskState
from batchsched.tools.explanation import (
    Explanation,
    GroupStanding,
    Holder,
    NearNode,
    QueueStanding,
    VictimsJudged,
)
from batchsched.tools.helpful_changes import EVICTING, changes_to_try, what_helps, without_evictions
from batchsched.tools.trials import Trials
from batchsched.trace import TraceEvent, VerdictsGiven

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
            raise ConfigError.at(name, f"expected a {kind.__name__}, got {shown(given)}")
    if not is_text(job_or_task):
        message = f"expected the UID of a job or task, got {shown(job_or_task)}"
        raise ConfigError.at("job_or_task", message)
    job = _job_of(snapshot, job_or_task)
    trials = Trials(snapshot, config, registry)
    with trials.session(without_evictions(trials.config)) as session:
        state = session.ledger.jobs[job.uid]
        waiting = [task for task in state.tasks if task.status is TaskStatus.PENDING]
        left = [task for task in waiting if task.uid in result.pending]
        named = [task for task in left if task.uid == job_or_task]
        task = _first(session, named or left)
        reason = None if task is None else result.pending.get(task.uid)
        position, others, before, decided_by = _place_in_queue(session, state)
        explanation = Explanation(
            job=job.uid,
            task=None if task is None else task.uid,
            task_name="" if task is None else task.info.display_name,
            summary=_summary(job, result, task),
            why=None if reason is None else reason.why,
            position=position,
            waiting_jobs=others,
            before_it=tuple(other.uid for other in before[-_BEFORE:][::-1]),
            decided_by=decided_by,
            queue=_standing_of_queue(session, state),
            min_available=state.min_available,
            ready=state.ready_count,
            lacking=max(0, state.lacks()),
            at_once=_at_once(session, state, state.having(TaskStatus.PENDING)),
            groups=_groups(state),
            nodes=len(snapshot.nodes),
        )
        if task is None:
            return explanation
        tally = session.placement.tally(task)
        explanation = evolve(
            explanation,
            available=tally.available,
            unfit={unfit.text: count for unfit, count in tally.unfit.items()},
            nearest=_nearest_nodes(session, result, task),
            victims=_victims_judged(snapshot, trials.config, registry, task.uid),
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


# Its place in the queue
def _place_in_queue(
    session: Session, state: JobState
) -> tuple[int | None, int, list[JobState], str]:
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


# Its queue


def _standing_of_queue(session: Session, state: JobState) -> QueueStanding:
    """Return the state of the queue of a job, and of the queues above it. O(tasks of the queue)."""
    queue = session.ledger.queues.get(state.info.queue)
    if queue is None:
        return QueueStanding(name=state.info.queue, is_known=False)
    outcomes = session.plugin_set.queue_outcomes()
    if queue.name in outcomes:
        above = tuple(
            _by_outcome(session, name, session.ledger.queues[name].info.weight, outcomes[name])
            for name in _names_above(outcomes, queue.name)
        )
        own = _by_outcome(session, queue.name, queue.info.weight, outcomes[queue.name])
        return evolve(
            own, above=above, is_overused=session.overused(queue), leaves=_leaves_below(queue)
        )
    allocated = _as_resource(session, _held(queue, session.ledger.dimensions.zero))
    share = session.plugin_set.queue_share(queue)
    return QueueStanding(
        name=queue.name,
        is_known=True,
        weight=queue.info.weight,
        allocated=allocated,
        share=_share(session, allocated),
        deserved=None if share is None else _as_resource(session, share[0]),
        is_overused=session.overused(queue),
        leaves=_leaves_below(queue),
    )


def _leaves_below(queue: QueueState) -> tuple[str, ...]:
    waiting, leaves = list(queue.children), list[str]()
    while waiting:
        below = waiting.pop()
        if below.children:
            waiting += below.children
        else:
            leaves.append(below.name)
    return tuple(sorted(leaves))


def _by_outcome(session: Session, name: str, weight: int, outcome: QueueOutcome) -> QueueStanding:
    return QueueStanding(
        name=name,
        is_known=True,
        weight=weight,
        allocated=outcome.allocated,
        share=_share(session, outcome.allocated),
        deserved=outcome.fair_share,
        guarantee=outcome.guarantee,
        limit=outcome.limit,
        on_loan=outcome.on_loan,
    )


def _names_above(outcomes: Mapping[str, QueueOutcome], name: str) -> Iterator[str]:
    parent = outcomes[name].parent
    while parent is not None and parent in outcomes:
        yield parent
        parent = outcomes[parent].parent


def _share(session: Session, held: Resource) -> float:
    """Return the dominant share of the cluster."""
    names = session.ledger.dimensions.names
    whole = zip(names, session.ledger.cluster, strict=False)
    return float(max((held.get(name) / amount for name, amount in whole if amount), default=0.0))


def _held(queue: QueueState, zero: Sequence[Amount]) -> Sequence[Amount]:
    held = list(zero)
    for job in queue.jobs:
        for task in job.tasks:
            if task.status.occupies and not task.is_backfill:
                for at, amount in enumerate(task.resreq):
                    held[at] += amount
    return held


def _as_resource(session: Session, amounts: Sequence[float]) -> Resource:
    """Return amounts by dimension as a resource."""
    named = dict(zip(session.ledger.dimensions.names, amounts, strict=False))
    kept: dict[str, Amount] = {
        name: int(amount) if amount == int(amount) else float(amount)
        for name, amount in named.items()
    }
    return Resource(
        milli_cpu=kept.pop("cpu", 0),
        memory=kept.pop("memory", 0),
        scalars={name: amount for name, amount in kept.items() if amount},
    )


# The nodes where it nearly fits, and the tasks that hold resources there

_NEAREST = 3


def _nearest_nodes(session: Session, result: CycleResult, task: TaskState) -> tuple[NearNode, ...]:
    """Return the three nodes that lack the least for a task once the cycle has taken effect.

    Nodes that predicates refuse come last. O(nodes x dimensions).
    """
    cluster = session.ledger.cluster
    taken = _taken(session, result)

    def distance(node: NodeState) -> tuple[bool, float, int]:
        refused = session.placement.refusal(task, node) is not None
        parts = [
            (amount / whole if whole else float(amount))
            for amount, whole in zip(_missing(task, node, taken), (*cluster, 0), strict=False)
        ]
        return refused, sum(parts), node.index

    near = nsmallest(_NEAREST, session.nodes, key=distance)
    return tuple(_near(session, result, task, node, taken) for node in near)


def _taken(session: Session, result: CycleResult) -> dict[str, list[TaskState]]:
    """Return the tasks that were placed in this cycle, by node."""
    taken: dict[str, list[TaskState]] = {}
    for decided in (result.binds, result.pipelined, result.conditional):
        for decision in decided:
            state = session.ledger.tasks.get(decision.task_uid)
            if state is not None and not state.status.holds:
                taken.setdefault(decision.node_name, []).append(state)
    return taken


def _missing(task: TaskState, node: NodeState, taken: dict[str, list[TaskState]]) -> list[Amount]:
    """Return what the node lacks for the task once the cycle's decisions have taken effect."""
    missing: list[Amount] = []
    for at, (wanted, idle) in enumerate(zip(task.init_resreq, node.idle, strict=True)):
        left = idle - sum(other.resreq[at] for other in taken.get(node.name, ()))
        missing.append(max(0, wanted - left) if wanted >= EPSILON else 0)
    return missing


def _near(
    session: Session,
    result: CycleResult,
    task: TaskState,
    node: NodeState,
    taken: dict[str, list[TaskState]],
) -> NearNode:
    refusal = session.placement.refusal(task, node)
    holders = [_holder(session, other, "runs") for other in node.tasks.values()]
    holders += [_holder(session, t, "is reserved") for t in node.reserved_tasks.values()]
    promised = {promise.task_uid for promise in (*result.pipelined, *result.conditional)}
    for other in taken.get(node.name, ()):
        how = "is promised" if other.uid in promised else "starts"
        holders.append(_holder(session, other, how))
    for uid, outcome in result.tasks.items():
        if outcome.status is TaskStatus.ALLOCATED and outcome.node_name == node.name:
            held = session.ledger.tasks[uid]
            holders.append(_holder(session, held, "is held by an unready gang"))
    holders.sort(key=lambda h: (-_size(session, h.amount), h.task))
    return NearNode(
        name=node.name,
        missing=_as_resource(session, _missing(task, node, taken)),
        refusal="" if refusal is None else refusal.text,
        holders=tuple(holders),
    )


def _size(session: Session, amount: Resource) -> float:
    names = session.ledger.dimensions.names
    cluster = zip(names, session.ledger.cluster, strict=False)
    return sum((amount.get(name) / whole for name, whole in cluster if whole), 0.0)


def _holder(session: Session, task: TaskState, how: str) -> Holder:
    if task.status is TaskStatus.RELEASING:
        how = "is leaving"
    elif task.status is TaskStatus.PIPELINED:
        how = "is promised"
    return Holder(
        task=task.uid,
        name=task.info.display_name,
        job=None if task.job is None else task.job.uid,
        how=how,
        amount=task.info.resreq,
        until=_until(session, task),
    )


def _until(session: Session, task: TaskState) -> float | None:
    started, job = task.info.start_time, task.job
    estimate = task.info.estimate if job is None else job.info.estimate_of(task.info)
    if started is None or estimate is None or not task.status.holds:
        return None
    return max(session.now, started + estimate)


# The verdicts of plugins on the tasks that it could evict


def _victims_judged(
    snapshot: Snapshot, config: SchedulerConfig, registry: Registry | None, uid: str
) -> tuple[VictimsJudged, ...]:
    """Collect plugins' verdicts on all candidates of preempt and reclaim, at the cycle's start.

    For a plugin that makes claims (`batchsched.plugin.Claims`), the verdict is whether the claim of
    the task's job may take the candidate. O(nodes + tasks), plus the verdicts.
    """
    actions = [action.name for action in config.actions if action.name in EVICTING]
    if not actions:
        return ()
    verdict_on: dict[tuple[str, str, str], str] = {}

    def collect(event: TraceEvent) -> None:
        if isinstance(event, VerdictsGiven):
            for candidate, verdict in event.verdicts.items():
                key = (event.action, event.plugin, candidate)
                if verdict_on.get(key) != Verdict.PROTECTED.value:
                    verdict_on[key] = verdict

    session = Scheduler(config, registry, trace=collect).open(snapshot)
    claimant = session.task(uid)
    job = claimant.job
    if job is None or not job.in_session:
        return ()
    by_verdict: dict[tuple[str, str, str], list[str]] = {}
    claimed: dict[tuple[str, str, str], dict[str, int]] = {}
    for action in dict.fromkeys(actions):
        session.action_name = action
        candidates: list[TaskState] = []
        for node in session.nodes:
            running = session.running_on(node)
            if action == "preempt":
                there = [t for t in running.of_queue(job.queue) if t.job is not job]
                judge = session.preemptable
            else:
                there = running.of_other_queues(job.queue)
                judge = session.reclaimable
            if there:
                judge(claimant, session.in_victim_order(there))
                candidates += there
        if action == "reclaim" and session.plugin_set.has_claims and candidates:
            plugin = session.plugin_set.names_on("claim")[0]
            why = _why_not(session, job, candidates)
            for one, reason in zip(candidates, why, strict=True):
                given = Verdict.VICTIM if reason is None else Verdict.PROTECTED
                verdict_on[action, plugin, one.uid] = given.value
            reasons = [reason for reason in why if reason is not None]
            claimed[action, plugin, Verdict.PROTECTED.value] = _counted(reasons)
    if session.teller is not None:
        session.teller.flush()
    for (action, plugin, candidate), verdict in verdict_on.items():
        by_verdict.setdefault((action, plugin, verdict), []).append(candidate)
    return tuple(
        VictimsJudged(
            action=action,
            plugin=plugin,
            verdict=verdict,
            count=len(uids),
            example=session.task(min(uids)).info.display_name,
            reasons=claimed.get((action, plugin, verdict))
            or _reasons(session, plugin, claimant, uids, verdict),
        )
        for (action, plugin, verdict), uids in by_verdict.items()
    )


def _why_not(
    session: Session, job: JobState, candidates: Sequence[TaskState]
) -> Sequence[str | None]:
    """Return why the claim of a job may not take each candidate; None: it may."""
    need = need_of_job(job, tasks_left(session, job))
    if need is None:
        return ["the job needs nothing"] * len(candidates)
    claim = session.plugin_set.claim(need)
    if isinstance(claim, Unfit):
        return [f"no claim is possible: {claim.text}"] * len(candidates)
    why_not = why_not_victims(session, need.tasks[0], claim)
    reasons: dict[str, str | None] = {}
    for node in session.nodes:
        there = [task for task in candidates if task.node is node]
        reasons.update(zip((task.uid for task in there), why_not(node, there), strict=True))
    return [reasons[task.uid] for task in candidates]


def _reasons(
    session: Session, plugin: str, claimant: TaskState, uids: Sequence[str], verdict: str
) -> Mapping[str, int]:
    """Return why a plugin gave candidates this verdict, if it gives reasons."""
    given = Verdict(verdict)
    if given is Verdict.VICTIM:
        return {}
    candidates = [session.task(uid) for uid in uids]
    own = session.plugin_set.verdict_reasons(plugin, claimant, candidates, given)
    return _counted(own)


def _counted(reasons: Sequence[str]) -> dict[str, int]:
    return dict(Counter(filter(None, reasons)).most_common())
