"""Invariants that custom plugins and actions may keep: checked where one asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.result import Eviction
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.evictions import (
    by_claimant,
    is_critical,
    is_promised_its_place,
    spared,
)
from batchsched.testing.invariants.invariant import Invariant, invariant
from batchsched.testing.invariants.nodes import closed_nodes_stay_closed
from batchsched.testing.invariants.placements import refusals_ahead


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
    """The claimant of an eviction is Pipelined to the victim's node."""
    for what, eviction, _, _ in _own_evictions(cycle):
        if not is_promised_its_place(cycle, eviction):
            place = cycle.after[eviction.for_task_uid]
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
    """The claimant of an eviction has a place where it would not fit without the eviction."""
    own = [eviction for _, eviction, _, _ in _own_evictions(cycle)]
    for claimant, of_all in by_claimant(cycle).items():
        positions = [position for position in of_all if cycle.result.evictions[position] in own]
        if positions and cycle.after[claimant].node_name in cycle.nodes:
            yield from spared(cycle, claimant, positions)
        elif positions:
            gone = ", ".join(cycle.result.evictions[p].task_uid for p in positions)
            yield f"{gone} evicted for {claimant!r}, which has no place afterwards"


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
