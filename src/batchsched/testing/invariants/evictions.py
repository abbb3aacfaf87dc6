"""Evictions: only of tasks that nothing protects, for a task that gets their place, and needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from batchsched.model.cluster import JobInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.result import Eviction
from batchsched.testing.invariants.amounts import (
    Amounts,
    Number,
    add,
    exact,
    fits,
    of,
    shown,
    sub,
    total,
)
from batchsched.testing.invariants.cycle import (
    OCCUPYING,
    PLACED,
    WAITING,
    Cycle,
    Place,
    least_tasks,
)
from batchsched.testing.invariants.invariant import invariant
from batchsched.testing.invariants.placements import conflict, repelled_in

_EPS = 0.1


def deserved(cycle: Cycle) -> dict[str, dict[str, float]]:
    """Return the deserved share of each queue that has jobs, by dimension."""
    weight = {queue.name: queue.weight for queue in cycle.snapshot.queues}
    request: dict[str, Amounts] = {}
    for job in cycle.snapshot.jobs:
        if job.queue in weight:
            wanted = total(
                cycle.resreq[task.uid]
                for task in job.tasks
                if not task.is_backfill and (task.status in OCCUPYING or task.status in WAITING)
            )
            request[job.queue] = add(request.get(job.queue, {}), wanted)
    dimensions = sorted(
        {name for amounts in request.values() for name in amounts} | cycle.cluster.keys()
    )
    remaining: dict[str, Number | float] = {d: cycle.cluster.get(d, 0) for d in dimensions}
    share: dict[str, dict[str, float]] = {
        name: dict.fromkeys(dimensions, 0.0) for name in sorted(request)
    }
    unmet = sorted(request)
    while unmet and any(amount >= _EPS for amount in remaining.values()):
        weights = sum(weight[name] for name in unmet)
        if not weights:
            break
        taken: dict[str, float] = dict.fromkeys(dimensions, 0.0)
        given: dict[str, float] = dict.fromkeys(dimensions, 0.0)
        before = len(unmet)
        for name in list(unmet):
            ratio = weight[name] / weights
            wish = {d: float(request[name].get(d, 0)) for d in dimensions}
            now = {d: share[name][d] + float(remaining[d]) * ratio for d in dimensions}
            if all(wish[d] - now[d] < _EPS for d in dimensions):
                now = {d: min(now[d], wish[d]) for d in dimensions}
                unmet.remove(name)
            for d in dimensions:
                change = now[d] - share[name][d]
                if change > 0:
                    taken[d] += change
                else:
                    given[d] -= change
            share[name] = now
        if len(unmet) == before:
            break  # no queue was satisfied: everything is dealt out, except for rounding errors
        remaining = {d: float(remaining[d]) - taken[d] + given[d] for d in dimensions}
    return share


def _tolerance(amount: float) -> float:
    """Return the possible rounding error of a deserved amount."""
    return 1e-3 + 1e-11 * abs(amount)


def certainly_has_all(share: dict[str, float], allocated: Amounts) -> bool:
    """Return whether a queue with at least this much allocated certainly has its share."""
    return all(
        amount - float(allocated.get(name, 0)) < _EPS - _tolerance(amount)
        for name, amount in share.items()
    )


def certainly_has_less(share: dict[str, float], allocated: Amounts) -> bool:
    """Return whether a queue with at most this much allocated is certainly below its share."""
    return any(
        amount - float(allocated.get(name, 0)) >= _EPS + _tolerance(amount)
        for name, amount in share.items()
    )


def may_exceed(share: dict[str, float], allocated: Amounts, held: Amounts) -> bool:
    """Return whether a queue with at most this much allocated may exceed its share.

    Only in dimensions that a task holds.
    """
    return any(
        held.get(name, 0) > 0 and float(allocated.get(name, 0)) - amount > _EPS - _tolerance(amount)
        for name, amount in share.items()
    )


def may_be_charged(cycle: Cycle, queue: str) -> Amounts:
    """Return the most that a cycle can have added to the allocation of a queue at any time."""
    return total(
        cycle.resreq[task.uid]
        for job in cycle.snapshot.jobs
        if job.queue == queue
        for task in job.tasks
        if _may_be_charged(cycle, task)
    )


def _may_be_charged(cycle: Cycle, task: TaskInfo) -> bool:
    if task.is_backfill or not cycle.was_waiting(task.uid):
        return False
    return cycle.after[task.uid].status in PLACED or cycle.policy.takes_back


def covered_first(cycle: Cycle, job: JobInfo) -> Amounts:
    """Return the most that the jobs covered before a job, and the job itself, can ever hold.

    These are the jobs of its queue with higher priority, and older ones of equal priority.
    """
    return total(
        cycle.resreq[task.uid]
        for other in cycle.snapshot.jobs
        if other.queue == job.queue and _coverage_order(other) <= _coverage_order(job)
        for task in other.tasks
        if (task.status in OCCUPYING and not task.is_backfill) or _may_be_charged(cycle, task)
    )


def _coverage_order(job: JobInfo) -> tuple[int, float, str]:
    return -job.priority, job.creation_time, job.uid


_CRITICAL = ("system-cluster-critical", "system-node-critical")


@invariant
def protection(cycle: Cycle) -> Iterator[str]:
    """No task is evicted that a plugin protects, whatever its tier.

    For conformance and priority this follows from the tasks. For proportion it follows from the
    shares: only what a queue holds above its share is evicted, and not what the share covers, the
    most important jobs first. For gang see `gangs`. And some tier must be able to have named
    the task a victim.
    """
    for eviction in cycle.result.evictions:
        victim = cycle.tasks.get(eviction.task_uid)
        claimant = cycle.tasks.get(eviction.for_task_uid)
        if victim is None or claimant is None:
            continue
        if {victim.uid, claimant.uid} - cycle.job_of.keys():
            continue
        yield from _protected(cycle, eviction, victim, claimant)
    if cycle.policy.protects("proportion", "reclaim"):
        yield from _below_share(cycle)
    if cycle.policy.protects("capacity", "reclaim") and cycle.policy.knows_plugins:
        yield from _below_what_it_deserves(cycle)


def is_critical(task: TaskInfo) -> bool:
    """Return whether a task is a critical one of the system, which conformance protects."""
    return task.namespace == "kube-system" or task.priority_class_name in _CRITICAL


def _rank(cycle: Cycle, victim: TaskInfo, claimant: TaskInfo) -> tuple[int, int, str]:
    """Return the priorities to compare, and whether they are of tasks or jobs."""
    theirs, mine = cycle.job_of[victim.uid], cycle.job_of[claimant.uid]
    if theirs.uid == mine.uid:
        return victim.priority, claimant.priority, "task"
    return theirs.priority, mine.priority, "job"


def _protected(
    cycle: Cycle, eviction: Eviction, victim: TaskInfo, claimant: TaskInfo
) -> Iterator[str]:
    action = eviction.action
    what = f"task {victim.uid!r} is evicted by {action} for {claimant.uid!r}"
    critical = is_critical(victim)
    if critical and cycle.policy.protects("conformance", action):
        yield f"{what}, but it is a critical task of the system, which conformance protects"
    rank, against, kind = _rank(cycle, victim, claimant)
    if rank > against and cycle.policy.protects("priority", action):
        yield f"{what}, but its {kind} has priority {rank}, and the claimant's {against}"
    policy = cycle.policy
    if action not in ("preempt", "reclaim") or action not in policy.known_actions:
        return
    for tier in policy.tiers_asked(action):
        # gang, drf, proportion and custom plugins may name any task a victim.
        refuse = {
            *(["conformance"] if critical else []),
            *(["priority"] if rank >= against else []),
        }
        if tier and not refuse & policy.known_plugins & set(tier):
            return
    yield f"{what}, but no tier's plugins can have called it a victim"


def _below_share(cycle: Cycle) -> Iterator[str]:
    shares = deserved(cycle)
    upper: dict[str, Amounts] = {}
    for eviction in cycle.result.evictions:
        job = cycle.job_of.get(eviction.task_uid)
        if job is None or cycle.after[eviction.task_uid].is_backfill:
            continue
        name = job.queue
        if name not in shares:
            continue  # a missing queue is reported elsewhere
        if name not in upper:
            upper[name] = add(cycle.charged_before(name), may_be_charged(cycle, name))
        held = cycle.resreq[eviction.task_uid]
        if eviction.action == "reclaim":
            what = f"task {eviction.task_uid!r} is evicted by reclaim, and"
            if not may_exceed(shares[name], upper[name], held):
                yield (
                    f"{what} in what it holds, queue {name!r} has at most {shown(upper[name])}, "
                    f"but deserves {shown(_whole(shares[name]))}"
                )
            first = covered_first(cycle, job)
            of_job = total(cycle.resreq[task.uid] for task in job.tasks)
            if not may_exceed(shares[name], first, of_job):
                yield (
                    f"{what} it is covered by the share of queue {name!r}: its job and those "
                    f"before it have at most {shown(first)}, and the queue deserves "
                    f"{shown(_whole(shares[name]))}"
                )
        if not cycle.policy.evicts_whole_jobs or least_tasks(job) <= 1:
            upper[name] = sub(upper[name], held)


def _below_what_it_deserves(cycle: Cycle) -> Iterator[str]:
    """Yield claims on queues that certainly hold no more than they deserve and can be met.

    What a queue deserves and what its fair share allows, whichever is less, is never claimed.
    """
    queues = {queue.name: queue for queue in cycle.snapshot.queues}
    for eviction in cycle.result.evictions:
        job = cycle.job_of.get(eviction.task_uid)
        if job is None or job.queue not in cycle.result.queues or eviction.action != "reclaim":
            continue
        fair = of(cycle.result.queues[job.queue].fair_share)
        queue = queues[job.queue]
        most = add(cycle.charged_before(job.queue), may_be_charged(cycle, job.queue))
        has_backfill = any(task.is_backfill for task in job.tasks)  # which nothing covers
        if not has_backfill and all(
            most.get(name, 0) <= min(fair.get(name, 0), _nominal(queue, name, fair))
            for name, amount in total(cycle.resreq[task.uid] for task in job.tasks).items()
            if amount
        ):
            yield (
                f"task {eviction.task_uid!r} is evicted by reclaim, but queue {job.queue!r} has at "
                f"most {shown(most)}, which it deserves and its fair share of {shown(fair)} covers"
            )


def _nominal(queue: Queue, dimension: str, fair: Amounts) -> Number:
    """Return what a queue deserves or is guaranteed; without a limit, at least its fair share."""
    deserved = None if queue.deserved is None else queue.deserved.get(dimension)
    amount = fair.get(dimension, 0) if deserved is None else exact(deserved)
    return max(amount, exact(queue.guarantee.get(dimension)))


def _whole(share: dict[str, float]) -> Amounts:
    return {dimension: round(amount) for dimension, amount in share.items()}


@invariant
def claims(cycle: Cycle) -> Iterator[str]:
    """Tasks are evicted only for a task that is then promised their place.

    The claimant requests resources and is Pipelined to the victim's node. Both belong to jobs of
    the session: of the same queue for preempt, of different queues for reclaim; for allocate the
    victim is a backfill task. Other built-in actions never evict. Custom actions may evict any task
    of the session, and may leave the claimant waiting.
    """
    configured = {action.name for action in cycle.config.actions}
    for eviction in cycle.result.evictions:
        where = f"from {eviction.node_name!r} by {eviction.action}"
        what = f"task {eviction.task_uid!r} is evicted {where}"
        if eviction.action not in configured:
            yield f"{what}, which is not configured"
        if not _is_of_session(cycle, eviction.task_uid):
            yield f"{what}, but it does not belong to a job of the session"
        elif eviction.action in cycle.policy.known_actions:
            yield from _claim(cycle, eviction, what)


def _is_of_session(cycle: Cycle, uid: str) -> bool:
    return uid in cycle.job_of and uid in cycle.result.tasks


def _claim(cycle: Cycle, eviction: Eviction, what: str) -> Iterator[str]:
    claimant = eviction.for_task_uid
    if not _is_of_session(cycle, claimant):
        yield f"{what} for {claimant!r}, which does not belong to a job of the session"
        return
    place = cycle.after[claimant]
    is_there = is_promised_its_place(cycle, eviction)
    if not is_there and not cycle.policy.has_own_action_after(eviction.action):
        yield (
            f"{what} for {claimant!r}, which is {place.status.value} on "
            f"{place.node_name!r} afterwards"
        )
    if cycle.is_best_effort(claimant):
        yield f"{what} for {claimant!r}, which requests nothing"
    yield from _relation(cycle, eviction, what)


def is_promised_its_place(cycle: Cycle, eviction: Eviction) -> bool:
    """Return whether the claimant is Pipelined to a node where the victim's job was evicted.

    If capacity is configured, limits may be what is short, so victims may run on any node; and the
    tasks of a claim find their places anew when all of its victims are known.
    """
    place = cycle.after[eviction.for_task_uid]
    if cycle.policy.has("capacity") and eviction.action in ("preempt", "reclaim"):
        is_there = place.node_name == eviction.node_name or eviction.action == "reclaim"
        if is_there or _has_limits(cycle) or _goes_with_its_job(cycle, eviction, place):
            return place.status in (TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING)
    return place.status is TaskStatus.PIPELINED and (
        place.node_name == eviction.node_name or _goes_with_its_job(cycle, eviction, place)
    )


def _goes_with_its_job(cycle: Cycle, eviction: Eviction, place: Place) -> bool:
    """Return whether a task is evicted as part of a whole job that left the claimant's node."""
    return cycle.policy.evicts_whole_jobs and any(
        other.node_name == place.node_name
        and other.for_task_uid == eviction.for_task_uid
        and cycle.job_of.get(other.task_uid) is cycle.job_of[eviction.task_uid]
        for other in cycle.result.evictions
    )


def _relation(cycle: Cycle, eviction: Eviction, what: str) -> Iterator[str]:
    theirs, mine = cycle.job_of[eviction.task_uid], cycle.job_of[eviction.for_task_uid]
    match eviction.action:
        case "preempt":
            if theirs.queue != mine.queue:
                yield f"{what} for {eviction.for_task_uid!r}, which is of another queue"
        case "reclaim":
            if theirs.queue == mine.queue:
                yield f"{what} for {eviction.for_task_uid!r}, which is of the same queue"
        case "allocate":
            if not cycle.policy.evicts_backfill:
                yield f"{what}, which does not evict without evictBackfill"
            elif not _is_lent(cycle, eviction):
                yield f"{what}, but it is not marked as backfill"
        case "backfill" | "reserve":
            yield f"{what}, which never evicts"
        case _:
            pass


def _is_lent(cycle: Cycle, eviction: Eviction) -> bool:
    """Return whether a task is a backfill task, or is evicted with its whole job, or replica."""
    if cycle.tasks[eviction.task_uid].is_backfill:
        return True
    return not _goes_alone(cycle, eviction.task_uid) and any(
        cycle.tasks[other.task_uid].is_backfill
        for other in cycle.result.evictions
        if other.for_task_uid == eviction.for_task_uid
        and cycle.job_of.get(other.task_uid) is cycle.job_of[eviction.task_uid]
    )


@invariant
def sparing(cycle: Cycle) -> Iterator[str]:
    """No eviction was unnecessary.

    For each claimant: without any one of its victims there would not have been enough room on the
    node. The resources at that time are unknown, but have a lower bound: those at the end, plus the
    claimant's own promise, minus what was evicted or unallocated later. If proportion is
    configured, preempt may use idle resources only if the queue is below its share; that counts if
    it is true even with everything that the queue can have been given by then. If capacity is
    configured, evictions are not checked where they may serve a limit or a guarantee, nor those of
    reclaim in a tree, where a unit may go so that a queue above stays within its share. Where
    allocate evicts a whole job, its surplus would not have been enough. With `curable` a victim may
    also be in the way because of the number of tasks, a host port or anti-affinity.
    """
    if not cycle.policy.knows_actions:
        return  # custom actions may have changed anything in between
    has_capacity = "capacity" in cycle.policy.plugins
    is_tree = any(queue.parent is not None for queue in cycle.snapshot.queues)
    for claimant, positions in by_claimant(cycle).items():
        if claimant in cycle.job_of and cycle.after[claimant].node_name in cycle.nodes:
            action = cycle.result.evictions[positions[0]].action
            may_be_for_queues = _has_limits(cycle) or (action == "reclaim" and is_tree)
            if action in ("preempt", "reclaim") and has_capacity and may_be_for_queues:
                continue
            yield from spared(cycle, claimant, positions)


def by_claimant(cycle: Cycle) -> dict[str, list[int]]:
    """Return claimant to the positions of its evictions, in the order of the first ones."""
    found: dict[str, list[int]] = {}
    for position, eviction in enumerate(cycle.result.evictions):
        if eviction.task_uid in cycle.job_of:
            found.setdefault(eviction.for_task_uid, []).append(position)
    return found


def _has_limits(cycle: Cycle) -> bool:
    return any(
        queue.limit is not None or any(amount for _, amount in queue.guarantee.dimensions())
        for queue in cycle.snapshot.queues
    )


def spared(cycle: Cycle, claimant: str, positions: Sequence[int]) -> Iterator[str]:
    """Yield the evictions for a claimant, by position, that were certainly unnecessary."""
    evictions = cycle.result.evictions
    victims = [evictions[position] for position in positions]
    before = evictions[: positions[0]]
    node_name = cycle.after[claimant].node_name
    assert node_name is not None
    accounts = cycle.accounts[node_name]
    request = cycle.start_request[claimant]
    later = [
        eviction.task_uid
        for eviction in evictions[positions[-1] + 1 :]
        if eviction.node_name == node_name and eviction.task_uid in cycle.job_of
    ]
    later_for_good = [uid for uid in later if not cycle.after[uid].is_backfill]
    gone = _held(cycle, _may_have_been_there(cycle, node_name, but=claimant))
    future = sub(accounts.future_idle, add(_held(cycle, later), gone))
    future = add(future, cycle.resreq[claimant])
    eventual = sub(accounts.eventual, add(_held(cycle, later_for_good), gone))
    eventual = add(eventual, cycle.resreq[claimant])
    here = [e for e in victims if e.node_name == node_name and e.task_uid in cycle.job_of]
    for victim in here:
        uid = victim.task_uid
        unit = _spared_with(cycle, victim, here)
        share = _held(cycle, unit)
        for_good = _held(cycle, [one for one in unit if not cycle.after[one].is_backfill])
        others = _held(cycle, [e.task_uid for e in here if e.task_uid not in unit])
        if (
            uid in unit
            and fits(request, sub(future, share))
            and fits(request, sub(eventual, for_good))
            and (_may_grow(cycle, victim, before) or fits(request, others))
            and not (
                cycle.policy.cures
                and _may_stand_in_the_way(
                    cycle, claimant, _together_with(cycle, victim, victims), later
                )
            )
        ):
            yield (
                f"task {uid!r} is evicted from {node_name!r} by {victim.action} for "
                f"{claimant!r}, which would have fitted there without that"
            )


def _may_stand_in_the_way(
    cycle: Cycle, claimant: str, unit: Sequence[str], later: Sequence[str]
) -> bool:
    """Return whether a node may have refused a claimant because of tasks that were evicted.

    `later`: the tasks that were evicted there later, so were there too.
    """
    task = cycle.tasks[claimant]
    node = cycle.nodes[cycle.after[claimant].node_name or ""]
    passing = (TaskStatus.RESERVED, TaskStatus.RELEASING)
    staying = [uid for uid in cycle.on_node[node.name] if cycle.after[uid].status not in passing]
    may_have_been = _may_have_been_there(cycle, node.name, but=claimant)
    # The claimant is one of those that stay.
    count = len({*staying, *unit, *later, *may_have_been}) - 1
    if node.max_tasks is not None and count >= node.max_tasks:
        return True
    victims = [cycle.tasks[uid] for uid in unit]
    return any(
        conflict(task, victim) is not None
        or any(
            key in node.labels for key in (*repelled_in(task, victim), *repelled_in(victim, task))
        )
        for victim in victims
    )


def _goes_alone(cycle: Cycle, uid: str) -> bool:
    """Return whether a task that was evicted is surplus: its job was not evicted with it."""
    if not cycle.policy.evicts_whole_jobs:
        return True
    job = cycle.job_of[uid]
    return not job.groups and any(
        task.status is TaskStatus.RUNNING and cycle.after[task.uid].status is TaskStatus.RUNNING
        for task in job.tasks
    )


def _together_with(cycle: Cycle, victim: Eviction, here: Sequence[Eviction]) -> list[str]:
    """Return the victims that may have been evicted as a unit with a victim."""
    if _goes_alone(cycle, victim.task_uid):
        return [victim.task_uid]
    job = cycle.job_of[victim.task_uid]
    return [other.task_uid for other in here if cycle.job_of[other.task_uid] is job]


def _spared_with(cycle: Cycle, victim: Eviction, here: Sequence[Eviction]) -> list[str]:
    """Return the victims that would have stayed with a victim, had it been spared.

    Where allocate evicts a job, its surplus goes first, alone: only its core may be spared.
    """
    unit = _together_with(cycle, victim, here)
    job = cycle.job_of[victim.task_uid]
    if victim.action != "allocate" or len(unit) == 1 or job.groups:
        return unit
    there = sorted((t for t in job.tasks if t.status in OCCUPYING), key=by_value(cycle))
    surplus = {task.uid for task in there[least_tasks(job) :] if task.is_backfill}
    return [uid for uid in unit if uid not in surplus] or unit


def by_value(cycle: Cycle) -> Callable[[TaskInfo], tuple[int, float, str]]:
    """Return a key that sorts tasks as task_order does."""
    counts = cycle.policy.has("priority", "enableTaskOrder")
    return lambda task: (-task.priority if counts else 0, task.creation_time, task.uid)


def _may_have_been_there(cycle: Cycle, node_name: str, *, but: str) -> list[str]:
    """Return the tasks that may have held more of a node when tasks were evicted."""
    if not cycle.policy.takes_back_after_evicting:
        return []
    return [
        uid
        for uid in cycle.job_of
        if uid != but and cycle.was_waiting(uid) and not _holds_all_of_it(cycle, uid, node_name)
    ]


def _holds_all_of_it(cycle: Cycle, uid: str, node_name: str) -> bool:
    """Return whether a task already counts fully on a node, now and eventually."""
    after = cycle.after[uid]
    return (
        cycle.is_new(uid)
        and after.node_name == node_name
        and after.status is not TaskStatus.CONDITIONAL
        and after.is_backfill is cycle.before(uid).is_backfill
    )


def _held(cycle: Cycle, uids: Sequence[str]) -> Amounts:
    return total(cycle.resreq[uid] for uid in uids if uid in cycle.resreq)


def _may_grow(cycle: Cycle, eviction: Eviction, before: Sequence[Eviction]) -> bool:
    """Return whether the claimant certainly could use idle resources too.

    `before` are the evictions before those for the claimant. A queue is known to be below its share
    only if it is so even with everything that it may have been given by then.
    """
    if eviction.action != "preempt":
        return True
    mine = cycle.job_of[eviction.for_task_uid]
    if cycle.job_of[eviction.task_uid].uid == mine.uid or not cycle.policy.knows_plugins:
        return False
    if not cycle.policy.has("proportion"):
        return True
    share = deserved(cycle).get(mine.queue)
    most = add(cycle.charged_before(mine.queue), may_be_charged(cycle, mine.queue))
    claimant = eviction.for_task_uid
    if not cycle.tasks[claimant].is_backfill:
        most = sub(most, cycle.resreq[claimant])  # it had no place yet
    return share is not None and certainly_has_less(
        share, sub(most, _held(cycle, _charged(cycle, mine.queue, before)))
    )


def _charged(cycle: Cycle, queue: str, evictions: Sequence[Eviction]) -> list[str]:
    """Return the evicted tasks that were charged to the queue until then."""
    return [
        eviction.task_uid
        for eviction in evictions
        if eviction.task_uid in cycle.job_of
        and cycle.job_of[eviction.task_uid].queue == queue
        and not cycle.tasks[eviction.task_uid].is_backfill
    ]


@invariant
def swaps(cycle: Cycle) -> Iterator[str]:
    """A queue that has its deserved share can only swap tasks.

    For queues that had their share when the cycle began, and certainly still have it despite what
    they lost: preempt places a task only in the resources of its victims, and nothing else is
    placed except best-effort tasks, backfill and tasks with earlier reservations.
    """
    if not cycle.policy.has("proportion") or not cycle.policy.knows_actions:
        return
    for name, share in deserved(cycle).items():
        least = cycle.charged_before(name)
        if not certainly_has_all(share, least):
            continue
        remains_so = True
        for claimant, positions in by_claimant(cycle).items():
            victims = [cycle.result.evictions[position] for position in positions]
            is_mine = claimant in cycle.job_of and cycle.job_of[claimant].queue == name
            held = total(cycle.resreq[victim.task_uid] for victim in victims)
            enough = not is_mine or fits(cycle.start_request[claimant], held)
            if victims[0].action == "preempt" and remains_so and not enough:
                names = ", ".join(victim.task_uid for victim in victims)
                yield (
                    f"queue {name!r} has its deserved share, but {claimant!r} requests more "
                    f"than {names} held, which were evicted for it"
                )
            least = sub(least, _lost(cycle, name, victims))
            if is_mine and not cycle.after[claimant].is_backfill:
                least = add(least, cycle.resreq[claimant])
            remains_so = remains_so and certainly_has_all(share, least)
        if remains_so:
            yield from _grown(cycle, name)


def _lost(cycle: Cycle, queue: str, victims: list[Eviction]) -> Amounts:
    return total(
        cycle.resreq[victim.task_uid]
        for victim in victims
        if cycle.job_of[victim.task_uid].queue == queue
        and not cycle.after[victim.task_uid].is_backfill
    )


def _grown(cycle: Cycle, queue: str) -> Iterator[str]:
    claimants = {eviction.for_task_uid for eviction in cycle.result.evictions}
    strategies = cycle.policy.backfill_strategies()
    for job in cycle.snapshot.jobs:
        if job.queue != queue or not cycle.is_in_session(job):
            continue
        had_reserved = any(task.status is TaskStatus.RESERVED for task in job.tasks)
        for task in job.tasks:
            before, after = cycle.before(task.uid), cycle.after[task.uid]
            reserved_now = (
                after.status is TaskStatus.RESERVED and before.status is not TaskStatus.RESERVED
            )
            if not (cycle.is_new(task.uid) or reserved_now) or cycle.is_best_effort(task.uid):
                continue
            allowed = (
                task.uid in claimants
                or before.status is TaskStatus.PIPELINED
                or (had_reserved and after.status is not TaskStatus.PIPELINED)
                or (after.is_backfill and "release" in strategies)
                or "displace" in strategies
            )
            if not allowed:
                yield (
                    f"queue {queue!r} has its deserved share, but task {task.uid!r} is "
                    f"{after.status.value} on {after.node_name!r}"
                )
