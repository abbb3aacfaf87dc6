"""A claim of the plugin capacity cannot be spared a unit: with any of them left, it is too small.

Where queues have no parents, nothing but room and limits decides whether a unit is needed: in
deeper trees a unit may also go because its queue and the claimant's share a parent.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import capacity_scheduler, troubled
from tests.support.words import CORE, Measure, Unit

from batchsched import JobInfo, Snapshot, TaskStatus

pytestmark = pytest.mark.slow


def flat(snapshot: Snapshot) -> Snapshot:
    """The same cluster with the leaves alone."""
    inner = {queue.parent for queue in snapshot.queues}
    leaves = [queue for queue in snapshot.queues if queue.name not in inner]
    return evolve(snapshot, queues=[evolve(queue, parent=None) for queue in leaves])


def alone(snapshot: Snapshot) -> Iterator[tuple[Snapshot, JobInfo]]:
    """Each gang that waits, in the cluster in which nothing else does."""
    running = [t for job in snapshot.jobs for t in job.tasks if t.status is TaskStatus.RUNNING]
    others: list[JobInfo] = []
    for job in snapshot.jobs:
        there = [task for task in job.tasks if task in running]
        if there:
            needed = min(job.min_available, len(there))
            others.append(evolve(job, tasks=there, min_available=needed))
    for job in snapshot.jobs:
        if not any(task in running for task in job.tasks):
            gang = evolve(job, min_available=len(job.tasks))
            yield evolve(snapshot, jobs=[*others, gang]), gang


def with_statuses(snapshot: Snapshot, leaving: set[str]) -> Snapshot:
    """The same cluster while some tasks leave."""
    return evolve(
        snapshot,
        jobs=[
            evolve(
                job,
                tasks=[
                    evolve(task, status=TaskStatus.RELEASING) if task.uid in leaving else task
                    for task in job.tasks
                ],
            )
            for job in snapshot.jobs
        ],
    )


def taken(measure: Measure, evicted: set[str]) -> list[Unit]:
    """The units that went: a core with all of its job, or single tasks."""
    units = {measure.unit_of(uid).value: measure.unit_of(uid) for uid in sorted(evicted)}
    whole = {unit.job.uid for unit in units.values() if unit.kind <= CORE}
    return [unit for unit in units.values() if unit.kind <= CORE or unit.job.uid not in whole]


def too_large(snapshot: Snapshot, job: JobInfo) -> Iterator[str]:
    """The units that a claim takes although it does without them."""
    result = capacity_scheduler("reclaim").schedule(snapshot)
    evicted = {eviction.task_uid for eviction in result.evictions}
    if not evicted:
        return
    units = taken(Measure.of(snapshot, result), evicted)
    event(f"units: {min(len(units), 3)}")
    for unit in units:
        leaving = evicted - {task.uid for task in unit.victims}
        without = capacity_scheduler("allocate").schedule(with_statuses(snapshot, leaving))
        if all(without.tasks[task.uid].status.charged for task in job.tasks):
            yield ", ".join(task.uid for task in unit.victims)


@settings(max_examples=120)
@given(st.integers(0, 1 << 30))
def test_a_claim_cannot_be_spared_a_unit(seed: int) -> None:
    for snapshot, job in alone(flat(troubled(seed))):
        assert not list(too_large(snapshot, job))
