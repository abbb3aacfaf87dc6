"""Invariants that custom plugins and actions may keep: checked where one asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.result import Eviction
from batchsched.testing.invariants.amounts import Amounts, add, fits, sub, total
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.invariant import Invariant, invariant
from batchsched.testing.invariants.nodes import closed_nodes_stay_closed
from batchsched.testing.invariants.placements import conflict, refusals_ahead, repelled_in

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


def _own_evictions(cycle: Cycle) -> Iterator[tuple[str, Eviction, JobInfo, JobInfo]]:
    """Yield the evictions by custom actions: what to say of them, and both jobs."""
    for eviction in cycle.result.evictions:
        theirs = cycle.job_of.get(eviction.task_uid)
        mine = cycle.job_of.get(eviction.for_task_uid)
        if theirs and mine and eviction.action not in cycle.policy.known_actions:
            what = f"task {eviction.task_uid!r} is evicted by {eviction.action} for"
            yield f"{what} {eviction.for_task_uid!r}", eviction, theirs, mine


@invariant
def gangs_start_whole(cycle: Cycle) -> Iterator[str]:
    """A task is bound only if its job has `min_available` tasks that run or start."""
    lost = [eviction.task_uid for eviction in cycle.result.evictions]
    bound = {bind.task_uid for bind in cycle.result.binds}
    for job in cycle.snapshot.jobs:
        starting = sorted(task.uid for task in job.tasks if task.uid in bound)
        ready = cycle.ready(job) + sum(task.uid in lost for task in job.tasks)
        if starting and ready < job.min_available:
            yield (
                f"{', '.join(starting)} bound, but job {job.uid!r} needs {job.min_available} "
                f"tasks and has {ready} ready"
            )


@invariant
def gangs_stay_whole(cycle: Cycle) -> Iterator[str]:
    """A job that lost tasks has at least `min_available` left, or none."""
    # allocate may evict backfill tasks even if that breaks their gang.
    lost = {e.task_uid for e in cycle.result.evictions if e.action != "allocate"}
    for job in cycle.snapshot.jobs:
        gone = sorted(task.uid for task in job.tasks if task.uid in lost)
        left = cycle.ready(job)
        still_runs = any(
            cycle.before(task.uid).status in OCCUPYING and cycle.after[task.uid].status in OCCUPYING
            for task in job.tasks
        )
        if gone and still_runs and left < job.min_available:
            yield (
                f"{', '.join(gone)} evicted, but job {job.uid!r} needs {job.min_available} tasks "
                f"and has {left} left"
            )


@invariant
def claimants_come_whole(cycle: Cycle) -> Iterator[str]:
    """Tasks are evicted only for a job that will have `min_available` tasks."""
    for what, _, _, mine in _own_evictions(cycle):
        coming = cycle.ready(mine) + cycle.count(mine, TaskStatus.PIPELINED)
        if coming < mine.min_available:
            needs = f"job {mine.uid!r}, which needs {mine.min_available} tasks"
            yield f"{what} of {needs} and will have {coming}"


@invariant
def places_are_promised(cycle: Cycle) -> Iterator[str]:
    """The claimant of an eviction is Pipelined to the node of the victim, or of its whole job."""
    for what, eviction, theirs, _ in _own_evictions(cycle):
        place = cycle.after[eviction.for_task_uid]
        left = {
            other.node_name
            for other in cycle.result.evictions
            if other.for_task_uid == eviction.for_task_uid
            and cycle.policy.evicts_whole_jobs
            and cycle.job_of.get(other.task_uid) is theirs
        }
        if place.status is not TaskStatus.PIPELINED or place.node_name not in {
            eviction.node_name,
            *left,
        }:
            where = "" if place.node_name is None else f" on {place.node_name!r}"
            yield f"{what}, which is {place.status.value}{where}"


@invariant
def promises_can_be_kept(cycle: Cycle) -> Iterator[str]:
    """The node of a claimant accepts it once all that leaves left and all that is promised came."""
    for what, eviction, _, _ in _own_evictions(cycle):
        if cycle.after[eviction.for_task_uid].status is TaskStatus.PIPELINED:
            for problem in refusals_ahead(cycle, eviction.for_task_uid):
                yield f"{what} in vain: {problem}"


@invariant
def evictions_are_needed(cycle: Cycle) -> Iterator[str]:
    """The claimant of an eviction has a place where it would not fit without the eviction.

    Not checked where the claimant claims devices.
    """
    own = [eviction for _, eviction, _, _ in _own_evictions(cycle)]
    for claimant, positions in by_claimant(cycle).items():
        victims = [cycle.result.evictions[position] for position in positions]
        mine = [victim for victim in victims if victim in own]
        if mine and cycle.after[claimant].node_name not in cycle.nodes:
            gone = ", ".join(victim.task_uid for victim in victims)
            yield f"{gone} evicted for {claimant!r}, which has no place afterwards"
        elif mine and not cycle.tasks[claimant].claims:
            later = cycle.result.evictions[positions[-1] + 1 :]
            yield from _unneeded(cycle, claimant, mine, later)


def _unneeded(
    cycle: Cycle, claimant: str, victims: Sequence[Eviction], later: Sequence[Eviction]
) -> Iterator[str]:
    """Yield the victims that a claimant would have fitted beside.

    The resources at that time are unknown, but have a lower bound: those at the end, plus the
    claimant's own promise, minus what was evicted later, or may have been taken back.
    """
    node = cycle.nodes[cycle.after[claimant].node_name or ""]
    accounts = cycle.accounts[node.name]
    others = [
        *(each.task_uid for each in later if each.node_name == node.name),
        *(uid for uid in cycle.job_of if uid != claimant and _may_have_left(cycle, uid, node)),
    ]
    here = [each.task_uid for each in victims if each.node_name == node.name]
    for uid in here:
        stays = [*_together_with(cycle, uid, here), *others]
        for_good = [one for one in stays if not cycle.after[one].is_backfill]
        mine = cycle.resreq[claimant]
        future = sub(add(accounts.future_idle, mine), _held(cycle, stays))
        eventual = sub(add(accounts.eventual, mine), _held(cycle, for_good))
        request = cycle.start_request[claimant]
        if (
            fits(request, future)
            and fits(request, eventual)
            and not _may_stand_in_the_way(cycle, claimant, node, stays)
        ):
            action = next(each.action for each in victims if each.task_uid == uid)
            yield (
                f"task {uid!r} is evicted from {node.name!r} by {action} for {claimant!r}, which "
                "would have fitted there without that"
            )


def _held(cycle: Cycle, uids: Sequence[str]) -> Amounts:
    return total(cycle.resreq[uid] for uid in uids)


def _may_have_left(cycle: Cycle, uid: str, node: NodeInfo) -> bool:
    """Return whether a task that waited may have held more of a node than in the end."""
    after = cycle.after[uid]
    holds_all_of_it = (
        cycle.is_new(uid)
        and after.node_name == node.name
        and after.status is not TaskStatus.CONDITIONAL
        and after.is_backfill is cycle.before(uid).is_backfill
    )
    return cycle.was_waiting(uid) and not holds_all_of_it


def _together_with(cycle: Cycle, victim: str, here: Sequence[str]) -> list[str]:
    """Return the victims that may have been evicted as a unit with a victim: of a whole job."""
    job = cycle.job_of[victim]
    has_replicas = bool(job.groups) and "gang" in cycle.policy.plugins
    lives_on = not job.groups and any(
        task.status is TaskStatus.RUNNING and cycle.after[task.uid].status is TaskStatus.RUNNING
        for task in job.tasks
    )
    if lives_on or not (cycle.policy.evicts_whole_jobs or has_replicas):
        return [victim]
    return [other for other in here if cycle.job_of[other] is job]


def _may_stand_in_the_way(
    cycle: Cycle, claimant: str, node: NodeInfo, stays: Sequence[str]
) -> bool:
    """Return whether a node may have refused a claimant because of tasks, if they had stayed."""
    passing = (TaskStatus.RESERVED, TaskStatus.RELEASING)
    there = {uid for uid in cycle.on_node[node.name] if cycle.after[uid].status not in passing}
    if node.max_tasks is not None and len({*there, *stays} - {claimant}) >= node.max_tasks:
        return True
    task, others = cycle.tasks[claimant], [cycle.tasks[uid] for uid in stays]
    return any(
        conflict(task, other) is not None
        or any(key in node.labels for key in (*repelled_in(task, other), *repelled_in(other, task)))
        for other in others
    )


@invariant
def critical_tasks_stay(cycle: Cycle) -> Iterator[str]:
    """Critical tasks of the system, which plugin conformance protects, are not evicted."""
    for what, eviction, _, _ in _own_evictions(cycle):
        if is_critical(cycle.tasks[eviction.task_uid]):
            yield f"{what}, but it is a critical task of the system"


@invariant
def higher_priorities_stay(cycle: Cycle) -> Iterator[str]:
    """No task is evicted for a job of lower priority than its own job has."""
    for what, _, theirs, mine in _own_evictions(cycle):
        if theirs.priority > mine.priority:
            its = f"its job has priority {theirs.priority}"
            yield f"{what}; {its}, but the claimant's only {mine.priority}"


@invariant
def queues_keep_apart(cycle: Cycle) -> Iterator[str]:
    """No task is evicted for a job of another queue."""
    for what, _, theirs, mine in _own_evictions(cycle):
        if theirs.queue != mine.queue:
            yield f"{what}; it is of queue {theirs.queue!r}, but the claimant of {mine.queue!r}"


RULES: Sequence[Invariant] = (
    gangs_start_whole,
    gangs_stay_whole,
    claimants_come_whole,
    places_are_promised,
    promises_can_be_kept,
    evictions_are_needed,
    critical_tasks_stay,
    higher_priorities_stay,
    queues_keep_apart,
    closed_nodes_stay_closed,
)
"""Further invariants, which your own plugins and actions may keep; `check_cycle` takes their names.

Those of evictions are about evictions by your actions, those of gangs about all gangs.
"""
