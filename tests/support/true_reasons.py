"""The outcomes of jobs and the reasons of pending tasks are true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from batchsched.causes import ConditionReason, UnfitReason, WhyPending
from batchsched.model.cluster import (
    HoldKind,
    JobEvent,
    JobInfo,
    JobPhase,
    NodeInfo,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.reasons import (
    JobCondition,
    NodeTally,
    PendingReason,
    PlacementFailure,
    Unfit,
)
from batchsched.testing.invariants.amounts import (
    Amounts,
    add,
    fits,
    is_nothing,
    of,
    total,
)
from batchsched.testing.invariants.cycle import (
    OCCUPYING,
    PLACED,
    Cycle,
    least_tasks,
)
from batchsched.testing.invariants.evictions import by_value
from batchsched.testing.invariants.invariant import invariant
from batchsched.testing.invariants.placements import (
    conflict,
    means,
    refusal_by_description,
    repelled_in,
)
from tests.support.queue_laws import certainly_has_less, deserved


def is_elastic(job: JobInfo) -> bool:
    """Return whether a job has groups or a maximum, so that its next tasks are placed together."""
    return bool(job.groups) or job.max_available is not None


def _may_ever_start(cycle: Cycle, job: JobInfo, task: TaskInfo) -> bool:
    """Return whether neither a gate of its own nor a hold of its job is in a task's way."""
    gated = any(hold.kind is HoldKind.GATE for hold in task.holds)
    return not (cycle.was_waiting(task.uid) and (gated or job.holds))


_BY_QUEUE = (WhyPending.QUEUE_LIMIT, WhyPending.ABOVE_FAIR_SHARE)
_STUCK = (WhyPending.NO_NODE, WhyPending.HELD_BY_GANG, WhyPending.GANG_INCOMPLETE, *_BY_QUEUE)
_PROMISED = (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL, TaskStatus.RESERVED)
_HOLDING = (TaskStatus.ALLOCATED, *_PROMISED)


@invariant
def reasons(cycle: Cycle) -> Iterator[str]:
    """Every task that was left pending has a reason, and the reason is true.

    The tally of nodes is counted again as of the end of the cycle: the given numbers of nodes lack
    CPU, refuse the task, or are reserved.
    """
    for uid, reason in cycle.result.pending.items():
        if uid not in cycle.job_of:
            continue
        job, task = cycle.job_of[uid], cycle.tasks[uid]
        what = f"task {uid!r} was left pending as {reason.why.value} ({reason.text})"
        if cycle.policy.knows_plugins and reason.tally is not None:
            for problem in _tally(cycle, task, reason.tally):
                yield f"{what}, but {problem}"
        for problem in _why(cycle, job, task, reason):
            yield f"{what}, but {problem}"


def _tally(cycle: Cycle, task: TaskInfo, given: NodeTally) -> Iterator[str]:
    counted = recount(cycle, task)
    planned = Unfit(UnfitReason.PLANNED)
    if planned in given.unfit:
        # Nodes closed by plans count as available here; other checks cover them.
        unfit = {unfit: count for unfit, count in given.unfit.items() if unfit != planned}
        given = NodeTally(given.total, given.available + given.unfit[planned], unfit)
    if _as_counted(given) != _as_counted(counted):
        yield f"counting again gives: {counted}"


def _why(cycle: Cycle, job: JobInfo, task: TaskInfo, reason: PendingReason) -> Iterator[str]:
    why = reason.why
    if cycle.holds_on(job, task) or why is WhyPending.HELD:
        yield from _held(cycle, job, task, reason)
        return
    left_out = cycle.result.left_out.get(job.uid)
    if left_out is not None:
        queues = {queue.name for queue in cycle.snapshot.queues}
        expected = WhyPending.JOB_INVALID if job.queue in queues else WhyPending.QUEUE_UNKNOWN
        if any(queue.parent == job.queue for queue in cycle.snapshot.queues):
            expected = WhyPending.QUEUE_NOT_LEAF
        waits = waits_for(cycle, job)
        if waits is not None and expected is WhyPending.JOB_INVALID:
            expected = WhyPending(waits.value)
        if why is not expected:
            yield f"its job was left out: {left_out}"
        return
    match why:
        case (
            WhyPending.JOB_INVALID
            | WhyPending.QUEUE_UNKNOWN
            | WhyPending.QUEUE_NOT_LEAF
            | WhyPending.WAITS_FOR
            | WhyPending.NEVER_ELIGIBLE
        ):
            yield "its job was not left out"
        case WhyPending.PLANNED:
            if job.uid not in cycle.result.planned:
                yield "its job has no plan"
        case WhyPending.NEVER_FITS:
            if job.uid in cycle.result.planned:
                yield "its job has a plan"
        case WhyPending.NO_NODE:
            yield from _no_node(cycle, task, reason)
        case WhyPending.HELD_BY_GANG:
            yield from _held_by_gang(cycle, job, reason)
        case WhyPending.GANG_INCOMPLETE:
            yield from _gang_incomplete(cycle, job, task, reason)
        case WhyPending.NOT_REACHED:
            yield from _not_reached(cycle, job, task, reason)
        case WhyPending.QUEUE_OVERUSED:
            yield from _overused(cycle, job)
        case WhyPending.NOT_CONSIDERED:
            yield from _not_considered(cycle, job, task, reason)
        case WhyPending.AT_MAXIMUM:
            yield from _at_maximum(cycle, job, task)
        case WhyPending.TAKEN_BACK:
            yield from _taken_back(cycle, task, reason)
        case WhyPending.QUEUE_LIMIT | WhyPending.ABOVE_FAIR_SHARE:
            pass  # reasons that plugins give for queues are not checked


def _taken_back(cycle: Cycle, task: TaskInfo, reason: PendingReason) -> Iterator[str]:
    """Yield what is wrong where the place of a task is said to have gone to another job."""
    if task.uid in {bind.task_uid for bind in cycle.result.binds}:
        yield "it is bound"
    taken = {each.task_uid: each.for_task_uid for each in cycle.result.taken_back}
    if task.uid in taken and cycle.job_of[taken[task.uid]].uid != reason.taken_for:
        yield f"it was taken back for {taken[task.uid]}"
    gains = [job for job in cycle.snapshot.jobs if job.uid == reason.taken_for]
    if not any(cycle.is_new(each.uid) for job in gains for each in job.tasks):
        yield "no task of that job was placed"


def _held(cycle: Cycle, job: JobInfo, task: TaskInfo, reason: PendingReason) -> Iterator[str]:
    """Yield what is wrong where something holds a task, or is said to."""
    holds = cycle.holds_on(job, task)
    if reason.why is not WhyPending.HELD:
        yield f"it is held: {', '.join(map(str, holds))}"
    elif not holds:
        whole = cycle.groups(job, *_VALID, before=True)
        free = [t for t in job.tasks if cycle.after[t.uid].status in _VALID]
        free = [t for t in free if not cycle.holds_on(job, t)]
        if not whole.can_start() or cycle.groups_of(job, free).can_start():
            yield "holds do not keep its job below its minimum"
    elif reason.holds != holds:
        yield f"what holds it is: {', '.join(map(str, holds))}"


def _at_maximum(cycle: Cycle, job: JobInfo, task: TaskInfo) -> Iterator[str]:
    counts = cycle.groups(job, *OCCUPYING, *_PROMISED)
    entered = task.group is not None and not all(map(counts.has, counts.path(task.group)))
    if (entered or not counts.can_start()) and any(
        most is not None for _, most, _ in counts.used()
    ):
        return  # tasks that must be placed together may need more than is left
    path = [None, *(() if task.group is None else counts.path(task.group))]
    if not any(most is not None and has >= most for n, most, has in counts.used() if n in path):
        yield "neither its job nor any of its groups is at its maximum"


def _no_node(cycle: Cycle, task: TaskInfo, reason: PendingReason) -> Iterator[str]:
    if reason.refusal is not None and reason.refusal.no_domain is not None:
        return  # tasks that must be near one another: which domains hold them is checked elsewhere
    if reason.tally is None:
        yield "it has no tally of nodes"
    elif reason.tally.available:
        yield "a node could take it"
    if _large_nodes(cycle, task) and reason.too_large:
        yield "a node is large enough"


def _large_nodes(cycle: Cycle, task: TaskInfo) -> list[NodeInfo]:
    """Return the nodes that could hold a task if they were empty."""
    request = cycle.start_request[task.uid]
    return [node for node in cycle.nodes.values() if fits(request, of(node.allocatable))]


def _held_by_gang(cycle: Cycle, job: JobInfo, reason: PendingReason) -> Iterator[str]:
    if not reason.held_by:
        yield "it does not name the job"
    for uid in reason.held_by:
        other = cycle.jobs.get(uid)
        if other is None:
            yield f"there is no job {uid!r}"
        elif other.uid == job.uid:
            yield "that is its own job"
        elif cycle.policy.knows_plugins and cycle.is_gang_ready(other):
            yield f"job {uid!r} is ready"
        elif not any(
            cycle.after[task.uid].status in _HOLDING
            or (reason.held_on and cycle.after[task.uid].status in OCCUPYING)  # both are broken
            for task in other.tasks
        ):
            yield f"job {uid!r} holds nothing"


def _gang_incomplete(
    cycle: Cycle, job: JobInfo, task: TaskInfo, reason: PendingReason
) -> Iterator[str]:
    if reason.tally is not None and not reason.tally.available:
        yield "no node could take it"
    if any(cycle.is_best_effort(other.uid) for other in job.tasks) and is_elastic(job):
        return  # these have places only after backfill
    if reason.out_of_reach is not None:
        yield from _out_of_reach(cycle, job, task)
        return
    if cycle.policy.knows_plugins:
        yield from _complete(cycle, job, task, reason)
    if cycle.policy.knows_actions:
        yield from _never_placed(cycle, job, task, reason)


def _complete(cycle: Cycle, job: JobInfo, task: TaskInfo, reason: PendingReason) -> Iterator[str]:
    """Yield why a task cannot have waited for other tasks of its job."""
    if is_elastic(job):  # its next tasks depend on its groups, whatever gang decides
        yield from _group_complete(cycle, job, task)
        return
    missing = job.min_available - cycle.ready(job)
    if not cycle.policy.has("gang", "enableJobReady"):
        yield "every job is ready"
    elif missing <= 0:
        yield f"its job is ready: {cycle.ready(job)} of {job.min_available}"
    elif missing == 1 and reason.tally is not None and reason.tally.available:
        yield "its job lacks only this task, and there is room for it"
    elif (
        job.min_available == 1
        and task.status is TaskStatus.PENDING
        # A promise does not make a job ready, and unready turns are rolled back.
        and not any(
            value != "hold" for value in cycle.policy.given("allocate", "unready", "discard")
        )
        and cycle.policy.knows_actions
    ):
        yield "its job needs only one task"


def _group_complete(cycle: Cycle, job: JobInfo, task: TaskInfo) -> Iterator[str]:
    """Yield why a task cannot have waited for other tasks of its groups."""
    ready = cycle.ready_groups(job)
    own = () if task.group is None else ready.path(task.group)
    if ready.can_start() and all(ready.has(name) for name in own):
        yield "its job is ready, and its groups are complete"


def _out_of_reach(cycle: Cycle, job: JobInfo, task: TaskInfo) -> Iterator[str]:
    """Yield why the groups of a task could be complete."""
    valid = cycle.groups(job, *_VALID)
    is_enough = task.group is None or all(valid.has(name) for name in valid.path(task.group))
    if is_enough and valid.can_start():
        yield "its groups, and those that its job needs, have enough tasks"


def _undoes(cycle: Cycle) -> bool:
    """Return whether any action may undo placements, at once or later."""
    return cycle.policy.takes_back or any(
        action.name in ("preempt", "reclaim", "reserve")
        or action.arguments.get("unready", "discard") != "hold"
        for action in cycle.config.actions
    )


def _never_placed(
    cycle: Cycle, job: JobInfo, task: TaskInfo, reason: PendingReason
) -> Iterator[str]:
    """Yield why a task can never have had a place in this cycle and lost it."""
    large = _large_nodes(cycle, task)
    if not large:
        yield "no node is large enough"
    if task.status is not TaskStatus.PENDING:
        return  # it had a reservation, whatever the node says of it now
    refusals = [refusal_by_description(cycle, task, node) for node in large]
    if large and all(refusals):
        yield f"all nodes refuse it: {', '.join(why.value for why in refusals if why is not None)}"
    if reason.tally is not None:
        return  # there was no room when it was tried, and there is now
    if cycle.policy.has("capacity"):
        return  # the plugin may have known in advance that not all of them fit
    if not _undoes(cycle) and not is_elastic(job):  # which tries other groups instead
        yield "no action rolls back what it placed"
    elif cycle.is_best_effort(task.uid) and not cycle.policy.takes_back:
        yield "it requests nothing, and best-effort tasks keep their places"


def _not_reached(
    cycle: Cycle, job: JobInfo, task: TaskInfo, reason: PendingReason
) -> Iterator[str]:
    if reason.behind_job:
        yield from _not_its_turn(cycle, job, reason)
        return
    stuck = [
        other
        for other in job.tasks
        if other.uid != task.uid
        and other.uid in cycle.result.pending
        and _is_stuck(cycle.result.pending[other.uid])
    ]
    if not stuck:
        yield "no other task of its job is stuck"
        return
    named = [other for other in stuck if other.uid == reason.behind_task]
    if not named:
        yield f"the tasks of its job that are stuck are {', '.join(o.uid for o in stuck)}"
        return
    turn = by_value(cycle)  # the order of a job's groups is not checked here
    if (
        not job.groups
        and cycle.policy.knows_plugins
        and not any(turn(other) < turn(task) for other in named)
    ):
        yield f"{named[0].uid!r} does not come before it"


def _not_its_turn(cycle: Cycle, job: JobInfo, reason: PendingReason) -> Iterator[str]:
    if cycle.policy.knows_plugins and not cycle.policy.has("fcfs"):
        yield "no plugin makes jobs wait for earlier ones"
    elif not any(
        (other.creation_time, other.uid) < (job.creation_time, job.uid)
        for other in cycle.snapshot.jobs
        if other.queue == job.queue and other.uid == reason.behind_job
    ):
        yield "no earlier job of its queue is named"


def _is_stuck(reason: PendingReason) -> bool:
    """Return whether a task was tried itself, so that its reason is not another task."""
    is_stuck = reason.why in (*_STUCK, WhyPending.TAKEN_BACK)
    return is_stuck or reason.tally is not None or bool(reason.behind_job)


def _overused(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    if not cycle.policy.knows_plugins:
        return
    if not cycle.policy.has("proportion"):
        yield "no plugin computes the share of its queue"
        return
    most: Amounts = add(
        cycle.charged_before(job.queue),
        total(
            cycle.resreq[task.uid]
            for other in cycle.snapshot.jobs
            if other.queue == job.queue
            for task in other.tasks
            if not task.is_backfill
            and (
                (cycle.is_new(task.uid) and cycle.after[task.uid].status in PLACED)
                # Placements that were rolled back may have filled the queue for a while.
                or (_undoes(cycle) and cycle.was_waiting(task.uid) and _large_nodes(cycle, task))
            )
        ),
    )
    share = deserved(cycle).get(job.queue)
    if share is not None and certainly_has_less(share, most):
        yield "its queue never reached its deserved share"


def _may_have_been_promised(cycle: Cycle, task: TaskInfo) -> bool:
    """Return whether a task had a promise in the cycle, or began with one that was dropped.

    A job with groups or a maximum places no more tasks while it waits for promises.
    """
    return cycle.after[task.uid].status is TaskStatus.CONDITIONAL or cycle.before(
        task.uid
    ).status in (TaskStatus.PIPELINED, TaskStatus.RESERVED)


def _not_considered(
    cycle: Cycle, job: JobInfo, task: TaskInfo, reason: PendingReason
) -> Iterator[str]:
    if task.status is not TaskStatus.PENDING:
        return
    if reason.tally is not None:
        if not reason.tally.available:
            yield "there is no room for it"
        if reason.lacking:
            asked = total(cycle.resreq[uid] for uid in cycle.job_of).get(reason.lacking, 0)
            if asked <= cycle.cluster.get(reason.lacking, 0):
                yield f"there is enough {reason.lacking} for all tasks together"
        return  # it was tried, and there was no room at the time
    if not cycle.policy.knows_actions:
        return  # a custom action may have unallocated it
    action = "backfill" if cycle.is_best_effort(task.uid) else "allocate"
    if action == "allocate" and any(
        cycle.after[other.uid].status in (TaskStatus.RESERVED, TaskStatus.PIPELINED)
        or (is_elastic(job) and _may_have_been_promised(cycle, other))
        for other in job.tasks
    ):
        return  # allocate may have stopped at that task, which a later action placed
    if cycle.policy.actions(action):
        yield f"{action} considers every task of this kind"


_OF_PLANS = (WhyPending.PLANNED, WhyPending.NEVER_FITS)
_VALID = tuple(
    status
    for status in TaskStatus
    if status not in (TaskStatus.RELEASING, TaskStatus.FAILED, TaskStatus.UNKNOWN)
)


@invariant
def outcomes(cycle: Cycle) -> Iterator[str]:
    """Jobs are left out, unschedulable, Pending, Running or Unknown as their tasks imply.

    The condition of a job has the right counts: of its tasks and, if no node was found for one of
    them, of the nodes, as of the end of the cycle.
    """
    queues = {queue.name for queue in cycle.snapshot.queues}
    inner = {queue.parent for queue in cycle.snapshot.queues}
    for uid, job in cycle.jobs.items():
        if job.queue not in queues or job.queue in inner:
            condition = cycle.result.left_out.get(uid)
            expected, what = ConditionReason.QUEUE_UNKNOWN, "does not exist"
            if job.queue in queues:
                expected, what = ConditionReason.QUEUE_NOT_LEAF, "is an inner queue"
            if condition is None or condition.reason is not expected:
                yield f"job {uid!r} names queue {job.queue!r}, which {what}"
            continue
        waits = waits_for(cycle, job)
        if waits is not None:
            condition = cycle.result.left_out.get(uid)
            if condition is None or condition.reason is not waits:
                yield f"job {uid!r} depends on others ({waits.value}), and is in the session"
            continue
        yield from _validity(cycle, job)
        if cycle.is_in_session(job) and cycle.policy.knows_plugins:
            yield from _phase(cycle, job)


def _validity(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    if not cycle.policy.knows_plugins:
        return
    of_groups = cycle.groups_of(
        job,
        (
            task
            for task in job.tasks
            if cycle.before(task.uid).status in _VALID and _may_ever_start(cycle, job, task)
        ),
    )
    valid = of_groups.total
    is_valid = of_groups.can_start() or not cycle.policy.has("gang")
    left_out = cycle.result.left_out.get(job.uid)
    counts = f"job {job.uid!r} needs {least_tasks(job)} tasks, and {valid} can ever start"
    if is_valid and left_out is not None:
        yield f"{counts}, but it was left out: {left_out}"
    if not is_valid and (
        left_out is None or left_out.reason is not ConditionReason.NOT_ENOUGH_TASKS
    ):
        yield f"{counts}, so it is invalid, but it was not left out for that"
    elif left_out is not None:
        told = left_out.counts[0] if left_out.counts else None
        lacking = tuple(of_groups.lacking())
        if told is None or lacking:
            is_true = told is not None and told.group in lacking
        elif told.of_groups:  # it needs more groups than there are
            is_true = (told.group, told.needs) == ("", job.min_groups) and told.has < told.needs
        else:
            is_true = (told.group, told.has, told.needs) == ("", valid, least_tasks(job))
        if not is_true:
            yield f"{counts}, but its condition says: {left_out.message}"


def _phase(cycle: Cycle, job: JobInfo) -> Iterator[str]:
    outcome = cycle.result.jobs[job.uid]
    unschedulable = cycle.policy.has("gang") and not cycle.is_gang_ready(job)
    counts = f"job {job.uid!r} needs {least_tasks(job)} tasks, and {cycle.ready(job)} are ready"
    if unschedulable != (outcome.condition is not None):
        yield f"{counts}, but its condition is {outcome.condition}"
    elif outcome.condition is not None:
        for problem in _condition(cycle, job, outcome.condition):
            yield f"{counts}, but {problem}"
    if unschedulable and cycle.count(job, TaskStatus.RUNNING):
        phase = JobPhase.UNKNOWN
    elif job.tasks and cycle.count(job, TaskStatus.SUCCEEDED) == len(job.tasks):
        phase = JobPhase.COMPLETED
    elif _runs(cycle, job):
        phase = JobPhase.RUNNING
    else:
        phase = JobPhase.PENDING
    if outcome.phase is not phase:
        yield f"job {job.uid!r} is {outcome.phase.value}, and must be {phase.value}; {counts}"


def _runs(cycle: Cycle, job: JobInfo) -> bool:
    occupying = cycle.count(job, *OCCUPYING)
    if not is_elastic(job):
        return occupying >= job.min_available
    # Groups whose tasks have succeeded are not missing.
    return occupying > 0 and cycle.is_gang_ready(job)


def _condition(cycle: Cycle, job: JobInfo, condition: JobCondition) -> Iterator[str]:
    if condition.reason is not ConditionReason.NOT_ENOUGH_RESOURCES or not condition.counts:
        yield f"its condition is {condition}"
        return
    of_job, *of_groups = condition.counts
    if (of_job.has, of_job.needs) != (cycle.ready(job), least_tasks(job)):
        yield f"its condition says: {of_job.ready_text}"
    for count in of_groups:
        if count.group not in cycle.ready_groups(job).lacking():
            yield f"its condition says of a group that lacks nothing: {count.ready_text}"
    pending = [task for task in job.tasks if task.uid in cycle.result.pending]
    if condition.undone > len(pending):
        yield f"its condition says that {condition.undone} of {len(pending)} tasks had a place"
    if condition.failure is None:
        # If gang does not decide readiness, nodes may be counted for other tasks as well.
        with_tally = [task for task in pending if cycle.result.pending[task.uid].tally is not None]
        if with_tally and cycle.policy.has("gang", "enableJobReady"):
            yield f"its condition does not say why no node took {with_tally[0].uid!r}"
    # Nodes that plans close are not counted again here, nor what domains of a topology hold.
    elif (
        not cycle.result.planned
        and (condition.failure.refusal is None or condition.failure.refusal.no_domain is None)
        and not any(_is_true_of(cycle, task, condition.failure) for task in pending)
    ):
        failure = condition.failure.text("then")
        yield f"its condition is true for none of its tasks: {failure}"


def _was_tried(reason: PendingReason) -> bool:
    # What was taken back tells that alone, though it may have been tried again in vain.
    return reason.tally is not None or reason.why in (*_OF_PLANS, WhyPending.TAKEN_BACK)


def _is_true_of(cycle: Cycle, task: TaskInfo, failure: PlacementFailure) -> bool:
    """Return whether this is why no place was found for a task."""
    reason = cycle.result.pending[task.uid]
    if failure.holds:
        return reason.why is WhyPending.HELD and set(reason.holds) <= set(failure.holds)
    refusal = failure.refusal
    if refusal is not None and reason.why is WhyPending.TAKEN_BACK:
        return True  # the reason does not say what refused it later
    if refusal is not None and refusal.reason is UnfitReason.INSUFFICIENT_RESOURCE:
        return reason.why is WhyPending.GANG_INCOMPLETE or reason.lacking == refusal.detail
    if refusal is not None:
        return reason.why is WhyPending.QUEUE_LIMIT and reason.refusal == refusal
    if not _was_tried(reason):
        return False
    counted = recount(cycle, task)
    if failure.tally is None:
        return failure.task == task.display_name and counted.available > 0
    return _as_counted(failure.tally) == _as_counted(counted)


def _as_counted(tally: NodeTally) -> tuple[int, int, Mapping[Unfit, int]]:
    return tally.total, tally.available, Counter(tally.unfit)


def is_closed(cycle: Cycle, node: NodeInfo) -> bool:
    """Return whether a node is reserved after the cycle."""
    return not is_nothing(cycle.accounts[node.name].reserved)


_FIRST = (
    UnfitReason.NODE_NOT_READY,
    UnfitReason.NETWORK_UNAVAILABLE,
    UnfitReason.NODE_UNSCHEDULABLE,
    UnfitReason.NODE_SELECTOR,
)


def _refusal(cycle: Cycle, task: TaskInfo, node: NodeInfo) -> UnfitReason | None:
    """Return the first reason, in the order of the predicates, why a node refuses a task."""
    if not cycle.policy.has("predicates", "enablePredicate"):
        return None
    others = [
        cycle.tasks[uid]
        for uid in cycle.on_node[node.name]
        if cycle.after[uid].status is not TaskStatus.RESERVED
    ]
    always = refusal_by_description(cycle, task, node)
    if node.max_tasks is not None and len(others) >= node.max_tasks:
        return UnfitReason.TOO_MANY_TASKS
    if always not in _FIRST and any(conflict(task, other) for other in others):
        return UnfitReason.HOST_PORTS
    return always or next(_affinity_refusals(cycle, task, node), None)


def _affinity_refusals(cycle: Cycle, task: TaskInfo, node: NodeInfo) -> Iterator[UnfitReason]:
    existing: list[tuple[TaskInfo, NodeInfo]] = []
    promised: list[tuple[TaskInfo, NodeInfo]] = []
    for uid, place in cycle.after.items():
        if place.node_name in cycle.nodes:
            here = cycle.tasks[uid], cycle.nodes[place.node_name]
            if place.status in OCCUPYING:
                existing.append(here)
            elif place.status is TaskStatus.PIPELINED and cycle.policy.cures:
                promised.append(here)

    def shares(key: str, other: NodeInfo) -> bool:
        return key in node.labels and other.labels.get(key) == node.labels[key]

    there = (*existing, *promised)
    if any(shares(key, where) for other, where in there for key in repelled_in(other, task)):
        yield UnfitReason.EXISTING_ANTI_AFFINITY
    if task.pod_affinity is not None and task.pod_affinity.required:
        terms = task.pod_affinity.required
        wanted = [
            where for other, where in existing if all(means(term, task, other) for term in terms)
        ]
        pairs = {
            (term.topology_key, where.labels[term.topology_key])
            for where in wanted
            for term in terms
            if term.topology_key in where.labels
        }
        meets_itself = all(means(term, task, task) for term in terms)
        if not all(
            (term.topology_key, node.labels.get(term.topology_key)) in pairs for term in terms
        ) and (pairs or not meets_itself):
            yield UnfitReason.POD_AFFINITY
    if any(shares(key, where) for other, where in there for key in repelled_in(task, other)):
        yield UnfitReason.POD_ANTI_AFFINITY


def recount(cycle: Cycle, task: TaskInfo) -> NodeTally:
    """Return how many nodes could take a task now, and the reasons of the others."""
    available = 0
    unfit: Counter[Unfit] = Counter()
    for node in cycle.nodes.values():
        if is_closed(cycle, node) and not cycle.is_best_effort(task.uid):
            unfit[Unfit(UnfitReason.RESERVED)] += 1
            continue
        refusal = _refusal(cycle, task, node)
        if refusal is not None:
            unfit[Unfit(refusal, plugin="predicates")] += 1
            continue
        lacking = cycle.accounts[node.name].lacking(cycle.start_request[task.uid])
        if not lacking:
            available += 1
        for name in lacking:
            unfit[Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail=name)] += 1
    return NodeTally(len(cycle.nodes), available, unfit)


def waits_for(cycle: Cycle, job: JobInfo) -> ConditionReason | None:
    """Return why a job was not eligible when the cycle began, or None."""
    lacking = _lacking(cycle, job)
    if not lacking:
        return None
    hopeless = any(_is_hopeless(cycle, other) for other in lacking)
    return ConditionReason.NEVER_ELIGIBLE if hopeless else ConditionReason.WAITS_FOR


def _lacking(cycle: Cycle, job: JobInfo) -> list[JobInfo | None]:
    """Return the jobs whose events a job still waits for; None: one that is not there."""
    if job.eligible_time is not None:
        return []
    lacking: list[JobInfo | None] = []
    for dependency in job.depends_on:
        other = cycle.jobs.get(dependency.job)
        if other is None:
            is_met = dependency.satisfied_if_missing and dependency.on is not JobEvent.FAILED
        else:
            is_met = _has_happened(cycle, other, dependency.on)
        if not is_met:
            lacking.append(other)
    return lacking


def _has_happened(cycle: Cycle, job: JobInfo, event: JobEvent) -> bool:
    has_ended = _has_ended(job)
    has_succeeded = has_ended and _is_enough(cycle, job, TaskStatus.SUCCEEDED)
    match event:
        case JobEvent.STARTED:
            return has_ended or _has_started(cycle, job)
        case JobEvent.ENDED:
            return has_ended
        case JobEvent.SUCCEEDED:
            return has_succeeded
        case JobEvent.FAILED:
            return has_ended and not has_succeeded


def _has_ended(job: JobInfo) -> bool:
    return bool(job.tasks) and all(task.status.ended for task in job.tasks)


def _has_started(cycle: Cycle, job: JobInfo) -> bool:
    ready = cycle.ready_groups(job, before=True)
    return ready.total > 0 and _is_enough(cycle, job, *OCCUPYING, TaskStatus.SUCCEEDED)


def _is_enough(cycle: Cycle, job: JobInfo, *statuses: TaskStatus) -> bool:
    counts = cycle.groups(job, *statuses, before=True)
    return counts.has(None) and counts.total >= job.min_available


def _is_hopeless(cycle: Cycle, other: JobInfo | None) -> bool:
    """Return whether a job, which is waited for, can never do what it has not done yet."""
    if other is None:
        return False
    if _has_ended(other):
        return True
    return not _has_started(cycle, other) and any(
        _is_hopeless(cycle, further) for further in _lacking(cycle, other)
    )
