"""The laws R1 to R7: why reclaim cannot go round in circles, and what it always finds.

A queue's word lists its units, the most valuable first: 1 for one that runs and is covered. Words
are compared as lists are. Jobs here are one task, or gangs that need all of their tasks, so that
units stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import capacity_config, capacity_scheduler, crowded, job, node
from tests.reference.capacity import Capacity
from tests.reference.conf import read_conf
from tests.reference.session import Session
from tests.support.cycles import Cycles

from batchsched import (
    CycleResult,
    JobInfo,
    Queue,
    Snapshot,
    TaskInfo,
    TaskStatus,
)

WORLDS = crowded(only_whole=True)

# A gang that finds four of its five places idle, and claims the fifth.
PARTLY_IDLE = Snapshot(
    nodes=[node("n1", 5)],
    queues=[Queue(name="q1", priority=1), Queue(name="q2")],
    jobs=[job("q1", "gang", 5, minimum=5), job("q2", "single", on="n1")],
)


def capacity_of(snapshot: Snapshot) -> Capacity:
    """What the plugin would find, by plain loops, if a session opened."""
    capacity = Session(snapshot, read_conf(capacity_config("reclaim"))).tiers.capacity
    assert capacity is not None
    return capacity


def with_places(snapshot: Snapshot, result: CycleResult) -> Snapshot:
    """The cluster once all that was decided has come about, and what was evicted waits again."""

    def settled(task: TaskInfo) -> TaskInfo:
        outcome = result.tasks.get(task.uid)
        if outcome is None:
            return task
        if outcome.status.charged:  # also what a gang holds while it waits for those that leave
            return evolve(task, status=TaskStatus.RUNNING, node_name=outcome.node_name)
        return evolve(task, status=TaskStatus.PENDING, node_name=None)

    jobs = [evolve(one, tasks=[settled(task) for task in one.tasks]) for one in snapshot.jobs]
    return evolve(snapshot, jobs=jobs)


def in_value_order(jobs: Sequence[JobInfo]) -> list[tuple[JobInfo, tuple[TaskInfo, ...]]]:
    """The units of jobs, whether or not they run: cores, by their most valuable task."""

    def key(task: TaskInfo) -> tuple[int, float, str]:
        return -task.priority, task.creation_time, task.uid

    cores, surplus = [], []
    for one in jobs:
        tasks = tuple(sorted(one.tasks, key=key))
        if len(tasks) <= max(1, one.min_available):
            (cores if one.min_available else surplus).append((key(tasks[0]), one, tasks))
        else:  # tasks that need one of them: which is the core depends on which run
            cores.extend((key(task), one, (task,)) for task in tasks)
    units = [*sorted(cores, key=lambda u: u[0]), *sorted(surplus, key=lambda u: u[0])]
    return [(one, tasks) for _, one, tasks in units]


def words_of(snapshot: Snapshot) -> dict[str, list[int]]:
    """The word of each leaf."""
    capacity = capacity_of(snapshot)
    words: dict[str, list[int]] = {}
    for leaf in capacity.leaves():
        covered = {task.uid for unit in capacity.covered(leaf) for task in unit.tasks}
        jobs = [one for one in snapshot.jobs if one.queue == leaf]
        words[leaf] = [
            int(all(task.uid in covered for task in tasks)) for _, tasks in in_value_order(jobs)
        ]
    return words


def whole_jobs(snapshot: Snapshot) -> Snapshot:
    """The same cluster with each job of several tasks, of which one is needed, split up."""
    jobs: list[JobInfo] = []
    for one in snapshot.jobs:
        if one.min_available == len(one.tasks):
            jobs.append(one)
        else:
            jobs += [
                evolve(one, name=f"{one.name}-{n}", tasks=[task], min_available=1)
                for n, task in enumerate(one.tasks)
            ]
    return evolve(snapshot, jobs=jobs)


def reclaim(snapshot: Snapshot, **arguments: object) -> CycleResult:
    return capacity_scheduler("reclaim", **arguments).schedule(snapshot)


@example(PARTLY_IDLE)
@settings(max_examples=60)
@given(WORLDS.map(whole_jobs))
def test_r1_a_claim_raises_the_word_of_its_queue_and_lowers_none(snapshot: Snapshot) -> None:
    result = reclaim(snapshot)
    before, after = words_of(snapshot), words_of(with_places(snapshot, result))
    for leaf, word in before.items():
        assert after[leaf] >= word
    queue_of = {task.uid: one.queue for one in snapshot.jobs for task in one.tasks}
    for eviction in result.evictions:
        claimant = queue_of[eviction.for_task_uid]
        assert after[claimant] > before[claimant]


@settings(max_examples=40)
@given(WORLDS.map(whole_jobs))
def test_r2_placing_lowers_no_word(snapshot: Snapshot) -> None:
    result = capacity_scheduler("allocate").schedule(snapshot)
    before, after = words_of(snapshot), words_of(with_places(snapshot, result))
    for leaf, word in before.items():
        assert after[leaf] >= word


@settings(max_examples=60)
@given(crowded(), st.booleans())
def test_r3_nothing_that_is_covered_is_evicted(snapshot: Snapshot, level: bool) -> None:
    result = reclaim(snapshot, level=level)
    capacity = capacity_of(snapshot)
    covered = {
        task.uid
        for leaf in capacity.leaves()
        for unit in capacity.covered(leaf)
        for task in unit.tasks
    }
    assert not covered & {eviction.task_uid for eviction in result.evictions}


@settings(max_examples=60)
@given(WORLDS.map(whole_jobs))
def test_r4_nobody_claims_back_from_its_claimant(snapshot: Snapshot) -> None:
    result = reclaim(snapshot)
    event(f"evicts: {bool(result.evictions)}")
    queue_of = {task.uid: one.queue for one in snapshot.jobs for task in one.tasks}
    lost = {(queue_of[e.for_task_uid], queue_of[e.task_uid]) for e in result.evictions}
    placed = with_places(snapshot, result)
    claims = {eviction.for_task_uid for eviction in result.evictions}
    then = reclaim(placed)
    for eviction in then.evictions:
        pair = queue_of[eviction.task_uid], queue_of[eviction.for_task_uid]
        assert pair not in lost or eviction.task_uid not in claims


@settings(max_examples=50)
@given(crowded(), st.integers(0, 8))
def test_r5_what_is_borrowed_exposes_nothing(snapshot: Snapshot, who: int) -> None:
    # Without what is on loan, all that was covered is covered still, and nothing else.
    capacity = capacity_of(snapshot)
    leaf = capacity.leaves()[who % len(capacity.leaves())]
    covered = [[task.uid for task in unit.tasks] for unit in capacity.covered(leaf)]
    loans = {
        task.uid
        for unit in capacity.units_of_leaf(leaf)
        if [own.uid for own in unit.tasks] not in covered
        for task in unit.victims
        if task.status is TaskStatus.RUNNING
    }
    jobs = [
        evolve(
            one,
            tasks=[
                evolve(task, status=TaskStatus.PENDING, node_name=None)
                if task.uid in loans
                else task
                for task in one.tasks
            ],
        )
        for one in snapshot.jobs
    ]
    without = capacity_of(evolve(snapshot, jobs=jobs))
    without.share = capacity.share
    assert [[t.uid for t in unit.tasks] for unit in without.covered(leaf)] == covered


@settings(max_examples=40)
@given(crowded(max_nodes=1, pinned=False, only_whole=True))
def test_r6_in_one_pool_a_claim_up_to_the_root_is_always_met(snapshot: Snapshot) -> None:
    snapshot = whole_jobs(snapshot)
    waiting = [one for one in snapshot.jobs if one.tasks[0].status is TaskStatus.PENDING]
    for one in waiting:
        others = [other for other in snapshot.jobs if other not in waiting]
        alone = evolve(snapshot, jobs=[*others, one])
        if reaches_the_root(alone, one):
            result = reclaim(alone)
            for task in one.tasks:
                assert result.tasks[task.uid].node_name is not None


def reaches_the_root(snapshot: Snapshot, one: JobInfo) -> bool:
    """Whether every queue above a job that waits stays within its share with it."""
    capacity = capacity_of(snapshot)
    needed, holdings = capacity.size(one.tasks), capacity.holdings()
    return all(
        holdings.allocated(queue, d) + amount <= capacity.share[d][queue]
        for queue in capacity.path(one.queue)
        for d, amount in needed.items()
        if amount
    )


@pytest.mark.parametrize(
    "order", ["reclaim allocate", "allocate reclaim", "preempt reclaim allocate backfill"]
)
@settings(max_examples=20)
@given(snapshot=crowded(), level=st.booleans())
def test_r7_no_task_goes_and_comes_for_ever(order: str, snapshot: Snapshot, level: bool) -> None:
    # Nothing arrives and nothing ends: sooner or later all stays as it is.
    living = Cycles(capacity_scheduler(*order.split(), level=level), snapshot)
    evictions = []
    for _cycle in range(40):
        before = living.snapshot
        evictions.append(len(living.cycle().evictions))
        living.step()
        if evolve(living.snapshot, now=before.now) == before:
            return
    pytest.fail(f"it does not come to rest; evictions by cycle: {evictions}")
