"""Checks of the rules that custom plugins and actions follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from batchsched.model.cluster import TaskStatus
from batchsched.model.result import Eviction
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.evictions import is_critical, is_promised_its_place, spared
from batchsched.testing.invariants.invariant import invariant
from batchsched.testing.invariants.nodes import on_closed_nodes
from batchsched.testing.invariants.policy import Rule


@invariant
def rules(cycle: Cycle) -> Iterator[str]:
    """Custom plugins and actions follow the given rules.

    Checks nothing without `rules`; see `Rule` for their meaning.
    """
    for rule, find in _FINDERS.items():
        if rule in cycle.rules:
            for problem in find(cycle):
                yield f"{rule.name}: {problem}"


def _own_evictions(cycle: Cycle) -> Iterator[tuple[str, Eviction]]:
    """Yield the evictions by custom actions, each with the beginning of a message."""
    for eviction in cycle.result.evictions:
        is_known = eviction.task_uid in cycle.job_of and eviction.for_task_uid in cycle.job_of
        if is_known and eviction.action not in cycle.policy.known_actions:
            yield f"task {eviction.task_uid!r} is evicted by {eviction.action} for", eviction


def _gangs_start_whole(cycle: Cycle) -> Iterator[str]:
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


def _gangs_stay_whole(cycle: Cycle) -> Iterator[str]:
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


def _claimants_come_whole(cycle: Cycle) -> Iterator[str]:
    for what, eviction in _own_evictions(cycle):
        job = cycle.job_of[eviction.for_task_uid]
        coming = cycle.ready(job) + cycle.count(job, TaskStatus.PIPELINED)
        if coming < job.min_available:
            yield (
                f"{what} job {job.uid!r}, which needs {job.min_available} tasks and will have "
                f"{coming}"
            )


def _places_are_promised(cycle: Cycle) -> Iterator[str]:
    for what, eviction in _own_evictions(cycle):
        if not is_promised_its_place(cycle, eviction):
            place = cycle.after[eviction.for_task_uid]
            where = "" if place.node_name is None else f" on {place.node_name!r}"
            yield f"{what} {eviction.for_task_uid!r}, which is {place.status.value}{where}"


def _evictions_are_needed(cycle: Cycle) -> Iterator[str]:
    by_claimant: dict[str, list[int]] = {}
    own = [eviction for _, eviction in _own_evictions(cycle)]
    for position, eviction in enumerate(cycle.result.evictions):
        if eviction in own:
            by_claimant.setdefault(eviction.for_task_uid, []).append(position)
    for claimant, positions in by_claimant.items():
        if cycle.after[claimant].node_name in cycle.nodes:
            yield from spared(cycle, claimant, positions)
        else:
            gone = ", ".join(cycle.result.evictions[p].task_uid for p in positions)
            yield f"{gone} evicted for {claimant!r}, which has no place afterwards"


def _critical_tasks_stay(cycle: Cycle) -> Iterator[str]:
    for what, eviction in _own_evictions(cycle):
        if is_critical(cycle.tasks[eviction.task_uid]):
            yield f"{what} {eviction.for_task_uid!r}, but it is a critical task of the system"


def _higher_priorities_stay(cycle: Cycle) -> Iterator[str]:
    for what, eviction in _own_evictions(cycle):
        theirs, mine = cycle.job_of[eviction.task_uid], cycle.job_of[eviction.for_task_uid]
        if theirs.priority > mine.priority:
            yield (
                f"{what} {eviction.for_task_uid!r}; its job has priority {theirs.priority}, "
                f"but the claimant's only {mine.priority}"
            )


def _queues_keep_apart(cycle: Cycle) -> Iterator[str]:
    for what, eviction in _own_evictions(cycle):
        theirs, mine = cycle.job_of[eviction.task_uid], cycle.job_of[eviction.for_task_uid]
        if theirs.queue != mine.queue:
            yield (
                f"{what} {eviction.for_task_uid!r}; it is of queue {theirs.queue!r}, but "
                f"the claimant of {mine.queue!r}"
            )


_FINDERS: dict[Rule, Callable[[Cycle], Iterator[str]]] = {
    Rule.GANGS_START_WHOLE: _gangs_start_whole,
    Rule.GANGS_STAY_WHOLE: _gangs_stay_whole,
    Rule.CLAIMANTS_COME_WHOLE: _claimants_come_whole,
    Rule.PLACES_ARE_PROMISED: _places_are_promised,
    Rule.EVICTIONS_ARE_NEEDED: _evictions_are_needed,
    Rule.CRITICAL_TASKS_STAY: _critical_tasks_stay,
    Rule.HIGHER_PRIORITIES_STAY: _higher_priorities_stay,
    Rule.QUEUES_KEEP_APART: _queues_keep_apart,
    Rule.CLOSED_NODES_STAY_CLOSED: on_closed_nodes,
}
