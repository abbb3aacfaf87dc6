"""Evictions: only of tasks that nothing protects, for a task that gets their place, and needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from batchsched.causes import WhyPending
from batchsched.devices import allocate
from batchsched.model.cluster import Preemptible, TaskInfo, TaskStatus
from batchsched.model.result import Eviction, TakenBack
from batchsched.testing.invariants.amounts import (
    Amounts,
    add,
    fits,
    of,
    sub,
    total,
)
from batchsched.testing.invariants.cycle import (
    OCCUPYING,
    PLACED,
    Cycle,
    Place,
    least_tasks,
)
from batchsched.testing.invariants.guarantees import least_runtime
from batchsched.testing.invariants.invariant import invariant
from batchsched.testing.invariants.placements import conflict, refusals_ahead, repulsions
from batchsched.testing.invariants.policy import is_true

_CRITICAL = ("system-cluster-critical", "system-node-critical")


def is_critical(task: TaskInfo) -> bool:
    """Return whether a task is a critical one of the system, which conformance protects."""
    return task.namespace == "kube-system" or task.priority_class_name in _CRITICAL


def by_claimant(cycle: Cycle) -> dict[str, list[int]]:
    """Return claimant to the positions of its evictions, in the order of the first ones."""
    found: dict[str, list[int]] = {}
    for position, eviction in enumerate(cycle.result.evictions):
        if eviction.task_uid in cycle.job_of:
            found.setdefault(eviction.for_task_uid, []).append(position)
    return found


@invariant
def protection(cycle: Cycle) -> Iterator[str]:
    """No task is evicted that a plugin protects, whatever its tier; nor is its bind taken back.

    For conformance and priority this follows from the tasks; for gang see `gangs`. And some tier
    must be able to have named the task a victim.
    """
    policy = cycle.policy
    for eviction in cycle.made_to_leave:
        theirs, mine = (cycle.job_of.get(u) for u in (eviction.task_uid, eviction.for_task_uid))
        if theirs is None or mine is None:
            continue
        victim, claimant = cycle.tasks[eviction.task_uid], cycle.tasks[eviction.for_task_uid]
        action = eviction.action
        what = f"task {victim.uid!r} {verb(eviction)} by {action} for {claimant.uid!r}"
        critical = is_critical(victim)
        if critical and policy.protects("conformance", action):
            yield f"{what}, but it is a critical task of the system, which conformance protects"
        if theirs.preemptible is Preemptible.NEVER and policy.protects("protection", action):
            yield f"{what}, but its job is not preemptible, and protection protects it"
        one, other, kind = (victim, claimant, "task") if theirs is mine else (theirs, mine, "job")
        if one.priority > other.priority and policy.protects("priority", action):
            yield (
                f"{what}, but its {kind} has priority {one.priority}, and the claimant's "
                f"{other.priority}"
            )
        # gang, drf, proportion and custom plugins may name any task a victim.
        refuse = {
            *(["conformance"] if critical else []),
            *(["priority"] if one.priority >= other.priority else []),
        }
        tiers = policy.tiers_asked(action)
        # What protection says of surplus, and of jobs that go whole, names victims too.
        is_named = policy.protects("protection", action) and (
            theirs.evict_whole
            or theirs.preemptible is Preemptible.SURPLUS
            or least_runtime(cycle, theirs, mine, action) > 0
        )
        if not (tiers is None or is_named or is_of_blocked(cycle, eviction)) and all(
            not tier or refuse & policy.known_plugins & tier for tier in tiers
        ):
            yield f"{what}, but no tier's plugins can have called it a victim"


def verb(eviction: Eviction | TakenBack) -> str:
    """Return what happens to the task of an eviction, or of a bind that is taken back."""
    return "is evicted" if isinstance(eviction, Eviction) else "loses its place"


@invariant
def claims(cycle: Cycle) -> Iterator[str]:
    """Tasks are evicted only for a task that is then promised their place.

    The claimant requests resources and is Pipelined to the victim's node. Both belong to jobs of
    the session: of the same queue for preempt (but that broken jobs of others may go with
    `unblock`), of different queues for reclaim; for allocate the
    victim is a backfill task. Other built-in actions never evict. Custom actions may evict any task
    of the session, and may leave the claimant waiting. The same of binds that are taken back, but
    that their claimants may have lost their places since. The node of a claimant accepts it once
    all that leaves has left and all that is promised has come.
    """
    configured = {action.name for action in cycle.config.actions}
    for eviction in cycle.made_to_leave:
        where = f"from {eviction.node_name!r} by {eviction.action}"
        what = f"task {eviction.task_uid!r} {verb(eviction)} {where}"
        if eviction.action not in configured:
            yield f"{what}, which is not configured"
        if not _is_of_session(cycle, eviction.task_uid):
            yield f"{what}, but it does not belong to a job of the session"
        elif eviction.action in cycle.policy.known_actions:
            yield from _claim(cycle, eviction, what)


def is_of_blocked(cycle: Cycle, eviction: Eviction | TakenBack) -> bool:
    """Return whether a task did no work: its job, or a group of it, was broken before."""
    if eviction.action != "preempt" or not cycle.policy.unblocks:
        return False
    before = cycle.ready_groups(cycle.job_of[eviction.task_uid], before=True)
    group = cycle.tasks[eviction.task_uid].group
    return not before.can_start() or (
        group is not None and not all(before.has(name) for name in before.path(group))
    )


def _is_of_session(cycle: Cycle, uid: str) -> bool:
    return uid in cycle.job_of and uid in cycle.result.tasks


def _claim(cycle: Cycle, eviction: Eviction | TakenBack, what: str) -> Iterator[str]:
    claimant = eviction.for_task_uid
    if not _is_of_session(cycle, claimant):
        yield f"{what} for {claimant!r}, which does not belong to a job of the session"
        return
    place = cycle.after[claimant]
    is_there = isinstance(eviction, TakenBack) or is_promised_its_place(cycle, eviction)
    if not is_there and not cycle.policy.has_own_action_after(eviction.action):
        yield (
            f"{what} for {claimant!r}, which is {place.status.value} on "
            f"{place.node_name!r} afterwards"
        )
    may_differ = cycle.policy.has_own_action_after(eviction.action) or cycle.policy.takes_back
    if place.status is TaskStatus.PIPELINED and not may_differ:
        for problem in refusals_ahead(cycle, claimant):
            yield f"{what} in vain: {problem}"
    if cycle.is_best_effort(claimant):
        yield f"{what} for {claimant!r}, which requests nothing"
    yield from _relation(cycle, eviction, what)


def is_promised_its_place(cycle: Cycle, eviction: Eviction) -> bool:
    """Return whether the claimant is Pipelined to a node where the victim's job was evicted.

    Limits of queues may be what is short, so victims may run on any node then; and with capacity,
    the tasks of a claim find their places anew when all of its victims are known.
    """
    place = cycle.after[eviction.for_task_uid]
    is_there = place.node_name == eviction.node_name
    is_there = is_there or _goes_with_its_job(cycle, eviction, place)
    if eviction.action in ("preempt", "reclaim"):
        is_there = is_there or _has_limits(cycle)
        if cycle.policy.has("capacity"):
            is_there = is_there or eviction.action == "reclaim"
            return is_there and place.status in _PROMISED_BY_CAPACITY
    return is_there and place.status is TaskStatus.PIPELINED


_PROMISED_BY_CAPACITY = (TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING)


def _goes_with_its_job(cycle: Cycle, eviction: Eviction, place: Place) -> bool:
    """Return whether a task is evicted as part of a whole job that left the claimant's node."""
    policy = cycle.policy
    job = cycle.job_of[eviction.task_uid]
    return (policy.evicts_whole_jobs or policy.unblocks or job.evict_whole) and any(
        other.node_name == place.node_name
        and other.for_task_uid == eviction.for_task_uid
        and cycle.job_of.get(other.task_uid) is job
        for other in cycle.made_to_leave
    )


def _relation(cycle: Cycle, eviction: Eviction | TakenBack, what: str) -> Iterator[str]:
    theirs, mine = cycle.job_of[eviction.task_uid], cycle.job_of[eviction.for_task_uid]
    match eviction.action:
        case "preempt":
            if theirs.queue != mine.queue and not is_of_blocked(cycle, eviction):
                yield f"{what} for {eviction.for_task_uid!r}, which is of another queue"
        case "reclaim":
            if theirs.queue == mine.queue:
                yield f"{what} for {eviction.for_task_uid!r}, which is of the same queue"
        case "allocate" if isinstance(eviction, Eviction):
            if not any(map(is_true, cycle.policy.given("allocate", "evictBackfill", False))):
                yield f"{what}, which does not evict without evictBackfill"
            elif not _is_lent(cycle, eviction):
                yield f"{what}, but it is not marked as backfill"
        case "allocate" | "backfill" | "reserve" | "plan":
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
    it is true even with everything that the queue can have been given by then. Evictions are not
    checked where they may serve a limit or, with capacity, a guarantee, nor those of reclaim with
    capacity in a tree, where a unit may go so that a queue above stays within its share. Where
    allocate evicts a whole job, its surplus would not have been enough. With `curable` a victim may
    also be in the way because of the number of tasks, a host port or anti-affinity, and with
    devices because of those that it had: with these, too, no allocation was left for the claimant.
    """
    if not cycle.policy.knows_actions:
        return  # custom actions may have changed anything in between
    is_tree = any(queue.parent is not None for queue in cycle.snapshot.queues)
    may_be_for_others = "capacity" in cycle.policy.plugins and is_tree
    for claimant, positions in by_claimant(cycle).items():
        if claimant in cycle.job_of and cycle.after[claimant].node_name in cycle.nodes:
            action = cycle.result.evictions[positions[0]].action
            may_be_for_queues = _has_limits(cycle) or (action == "reclaim" and may_be_for_others)
            if action in ("preempt", "reclaim") and may_be_for_queues:
                continue
            yield from spared(cycle, claimant, positions)


def _has_limits(cycle: Cycle) -> bool:
    """Return whether limits of queues, or guarantees of others, may be what a claimant lacks."""
    if not {"capacity", "proportion"} & set(cycle.policy.plugins):
        return False
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
    withdrawn = {
        taken.task_uid: cycle.job_of[taken.task_uid]
        for taken in cycle.result.taken_back
        if taken.for_task_uid == claimant and taken.node_name == node_name
    }
    gone = _held(cycle, _may_have_been_there(cycle, node_name, but=claimant))
    future = sub(accounts.future_idle, add(_held(cycle, later), gone))
    future = add(future, cycle.resreq[claimant])
    eventual = sub(accounts.eventual, add(_held(cycle, later_for_good), gone))
    eventual = add(eventual, cycle.resreq[claimant])
    here = [e for e in victims if e.node_name == node_name and e.task_uid in cycle.job_of]
    for victim in here:
        uid = victim.task_uid
        unit = _spared_with(cycle, victim, here)
        # With a job that is spared, what was taken back of it would have stayed, too.
        bound = [one for one, job in withdrawn.items() if job is cycle.job_of[uid]]
        stays = unit if _goes_alone(cycle, uid) else [*unit, *bound]
        share = _held(cycle, stays)
        for_good = _held(cycle, [one for one in stays if not cycle.after[one].is_backfill])
        leaving = [*(e.task_uid for e in here), *withdrawn]
        others = _held(cycle, [one for one in leaving if one not in stays])
        if (
            uid in unit
            and fits(request, sub(future, share))
            and fits(request, sub(eventual, for_good))
            and (_may_grow(cycle, victim, before) or fits(request, others))
            and not _may_need_the_devices(cycle, claimant, [*unit, *later])
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
        conflict(task, victim) is not None or any(repulsions(task, node, victim, node))
        for victim in victims
    )


def _may_need_the_devices(cycle: Cycle, claimant: str, there: Sequence[str]) -> bool:
    """Return whether a claimant may have lacked devices, if tasks that were evicted had stayed.

    Not if it gets some beside all that is held in the end, and by these. Unknown, and taken to be
    so, where tasks had unknown devices, or others of a node's pools may draw on its counters.
    """
    task, node = cycle.tasks[claimant], cycle.nodes[cycle.after[claimant].node_name or ""]
    if "devices" not in cycle.policy.plugins or not task.claims:
        return False
    common = [
        each
        for each in cycle.snapshot.devices
        if each.nodes is None or any(term.matches(node.labels, node.name) for term in each.nodes)
    ]
    pools = {(each.driver, each.pool) for each in (*node.devices, *common) if each.counters}
    elsewhere = [other for other in cycle.nodes.values() if other is not node]
    if any((each.driver, each.pool) in pools for other in elsewhere for each in other.devices):
        return True
    own = {each.key for each in node.devices}
    holders = dict.fromkeys([*there, *_may_have_been_there(cycle, node.name, but=claimant)], node)
    for uid, place in cycle.after.items():
        if place.status in (*OCCUPYING, TaskStatus.UNKNOWN, *PLACED):
            holders.setdefault(uid, cycle.nodes.get(place.node_name or "", node))
    held = [*cycle.snapshot.held]
    for uid, where in holders.items():
        if uid == claimant or not cycle.tasks[uid].claims or (where is not node and not common):
            continue
        outcome = None if uid in there else cycle.result.tasks.get(uid)
        picks = cycle.tasks[uid].devices if outcome is None else outcome.devices
        if picks is None:
            return True
        held += [pick for pick in picks if where is node or pick.device not in own]
    counters = (*node.counter_sets, *cycle.snapshot.counter_sets)
    offered = (*node.devices, *common)
    return (
        allocate(task.claims, offered, counters, held=held, closed_pools=node.closed_pools) is None
    )


def _goes_alone(cycle: Cycle, uid: str) -> bool:
    """Return whether a task that was evicted is surplus: its job was not evicted with it."""
    job = cycle.job_of[uid]
    has_replicas = bool(job.groups) and "gang" in cycle.policy.plugins
    if not (cycle.policy.evicts_whole_jobs or job.evict_whole or has_replicas):
        return True
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
    taken_back = [
        taken.task_uid
        for taken in cycle.result.taken_back
        if taken.node_name == node_name
        and taken.for_task_uid != but
        and not _holds_all_of_it(cycle, taken.task_uid, node_name)
    ]
    mine = cycle.job_of[but].uid
    taken_back += [
        uid
        for uid, reason in cycle.result.pending.items()
        if reason.why is WhyPending.TAKEN_BACK and reason.taken_for != mine
    ]  # what gave way to others
    if not cycle.policy.takes_back_after_evicting:
        return taken_back
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
    outcome = cycle.result.queues.get(mine.queue)
    if outcome is None:
        return False
    most = add(cycle.charged_before(mine.queue), may_be_charged(cycle, mine.queue))
    claimant = eviction.for_task_uid
    if not cycle.tasks[claimant].is_backfill:
        most = sub(most, cycle.resreq[claimant])  # it had no place yet
    most = sub(most, _held(cycle, _charged(cycle, mine.queue, before)))
    share = of(outcome.fair_share)  # told in whole units
    return any(amount - most.get(name, 0) >= 1 for name, amount in share.items())


def may_be_charged(cycle: Cycle, queue: str) -> Amounts:
    """Return the most that a cycle can have added to the allocation of a queue at any time."""
    return total(
        cycle.resreq[task.uid]
        for job in cycle.snapshot.jobs
        if job.queue == queue
        for task in job.tasks
        if may_be_charged_for(cycle, task)
    )


def may_be_charged_for(cycle: Cycle, task: TaskInfo) -> bool:
    """Return whether a task may have been charged to its queue at any time of the cycle."""
    if task.is_backfill or not cycle.was_waiting(task.uid):
        return False
    return cycle.after[task.uid].status in PLACED or cycle.policy.takes_back


def _charged(cycle: Cycle, queue: str, evictions: Sequence[Eviction]) -> list[str]:
    """Return the evicted tasks that were charged to the queue until then."""
    return [
        eviction.task_uid
        for eviction in evictions
        if eviction.task_uid in cycle.job_of
        and cycle.job_of[eviction.task_uid].queue == queue
        and not cycle.tasks[eviction.task_uid].is_backfill
    ]
