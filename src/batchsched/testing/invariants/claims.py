"""Evictions have a claimant, and are necessary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchsched.model.cluster import TaskStatus
from batchsched.model.result import Eviction
from batchsched.testing.invariants.amounts import Amounts, add, fits, sub, total
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import Cycle, Place
from batchsched.testing.invariants.matching import conflict, means
from batchsched.testing.invariants.shares import certainly_has_less, deserved, may_be_charged

__all__ = ["check_claims", "check_sparing", "is_promised_its_place", "spared"]


@invariant
def check_claims(cycle: Cycle) -> Iterator[str]:
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
    """Return whether the claimant is Pipelined to a node where the victim's job was evicted."""
    place = cycle.after[eviction.for_task_uid]
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
    """Return whether a task is a backfill task, or is evicted together with one of its job."""
    if cycle.tasks[eviction.task_uid].is_backfill:
        return True
    return cycle.policy.evicts_whole_jobs and any(
        cycle.tasks[other.task_uid].is_backfill
        for other in cycle.result.evictions
        if other.for_task_uid == eviction.for_task_uid
        and cycle.job_of.get(other.task_uid) is cycle.job_of[eviction.task_uid]
    )


@invariant
def check_sparing(cycle: Cycle) -> Iterator[str]:
    """No eviction was unnecessary.

    For each claimant: without any one of its victims there would not have been enough room on the
    node. The resources at that time are unknown, but have a lower bound: those at the end, plus the
    claimant's own promise, minus what was evicted or unallocated later. If proportion is
    configured, preempt may use idle resources only if the queue is below its share; that counts if
    it is true even with everything that the queue can have been given by then. If capacity is
    configured and any queue has a guarantee or a limit, evictions of reclaim are not checked, since
    they may serve those. With `curable` a victim may also be in the way because of the number of
    tasks, a host port or anti-affinity.
    """
    if not cycle.policy.knows_actions:
        return  # custom actions may have changed anything in between
    may_be_for_limits = "capacity" in cycle.policy.plugins and _has_limits(cycle)
    by_claimant: dict[str, list[int]] = {}
    for position, eviction in enumerate(cycle.result.evictions):
        by_claimant.setdefault(eviction.for_task_uid, []).append(position)
    for claimant, positions in by_claimant.items():
        if claimant in cycle.job_of and cycle.after[claimant].node_name in cycle.nodes:
            action = cycle.result.evictions[positions[0]].action
            if action == "reclaim" and may_be_for_limits:
                continue
            yield from spared(cycle, claimant, positions)


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
        unit = _together_with(cycle, victim, here)
        share = _held(cycle, unit)
        for_good = _held(cycle, [one for one in unit if not cycle.after[one].is_backfill])
        others = _held(cycle, [e.task_uid for e in here if e.task_uid not in unit])
        if (
            fits(request, sub(future, share))
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
            means(term, owner, meant) and term.topology_key in node.labels
            for owner, meant in ((task, victim), (victim, task))
            if owner.pod_anti_affinity is not None
            for term in owner.pod_anti_affinity.required
        )
        for victim in victims
    )


def _together_with(cycle: Cycle, victim: Eviction, here: Sequence[Eviction]) -> list[str]:
    """Return the victims that may have been evicted as a unit with a victim."""
    if not cycle.policy.evicts_whole_jobs:
        return [victim.task_uid]
    job = cycle.job_of[victim.task_uid]
    return [other.task_uid for other in here if cycle.job_of[other.task_uid] is job]


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
