"""Where tasks want things of each other: evictions end, and each one's claimant starts."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.actions.eviction.test_curable import crowded
from tests.support.clusters import cluster, job, node
from tests.support.cycles import Cycles

from batchsched import JobInfo, Scheduler, SchedulerConfig, Snapshot, TaskStatus

CYCLES = 14
_GANG = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def named(shares: str) -> list[dict[str, object]]:
    return [
        {"plugins": ["priority", _GANG, "conformance"]},
        {"plugins": ["predicates", shares, "nodeorder"]},
    ]


CONFIGS: dict[str, dict[str, object]] = {
    "default": {"actions": "reclaim, allocate, preempt, backfill"},
    "allocate first": {"actions": "allocate, preempt"},
    "capacity": {"actions": "reclaim, allocate, preempt", "tiers": named("capacity")},
    "proportion": {"actions": "reclaim, allocate, preempt", "tiers": named("proportion")},
}


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=25)
@given(st.integers(0, 1 << 30))
def test_in_a_closed_system_evictions_end_and_each_ones_claimant_starts(
    name: str, seed: int
) -> None:
    using = Scheduler(SchedulerConfig.from_mapping(CONFIGS[name]))
    living = Cycles(using, crowded(seed))
    waiting: set[str] = set()
    last = 0
    for number in range(CYCLES):
        result = living.cycle()
        started = {bind.task_uid for bind in result.binds}
        gave_way = {taken.task_uid for taken in result.taken_back}
        gave_way |= {each.task_uid for each in result.dropped_promises if each.for_task_uid}
        waiting -= started | gave_way
        waiting |= {eviction.for_task_uid for eviction in result.evictions} - started
        last = number if result.evictions else last
        living.step()
    assert last < CYCLES - 4
    assert not waiting


ONE = "1C0G"


def broken_gangs(seed: int) -> Snapshot:
    """Gangs of which each task has one node to run on; some tasks run, the others wait."""
    random = Random(seed)
    names = [f"n{number}" for number in range(random.randint(2, 5))]
    free, jobs = set(names), list[JobInfo]()
    for number in range(random.randint(2, 4)):
        wanted = random.sample(names, random.randint(2, min(3, len(names))))
        places = [
            "" if name not in free or random.random() < 0.4 else f"@{name}" for name in wanted
        ]
        free -= {name for name, place in zip(wanted, places, strict=True) if place}
        one = job(f"g{number}", *(ONE + place for place in places), priority=random.randint(0, 2))
        tasks = [
            evolve(task, node_selector={"is": name})
            for task, name in zip(one.tasks, wanted, strict=True)
        ]
        jobs.append(evolve(one, creation_time=number, tasks=tasks))
    return cluster([node(name, ONE, labels={"is": name}) for name in names], *jobs)


@settings(max_examples=60)
@given(st.integers(0, 1 << 30))
def test_of_broken_gangs_the_first_lacks_only_what_gangs_that_run_hold(seed: int) -> None:
    """So no two stay broken that could run one after the other."""
    using = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate, preempt"}))
    living = Cycles(using, broken_gangs(seed))
    for _ in range(CYCLES):
        living.cycle()
        living.step()
    runs = {
        one.uid: [task for task in one.tasks if task.status is TaskStatus.RUNNING]
        for one in living.snapshot.jobs
    }
    whole = [one for one in living.snapshot.jobs if len(runs[one.uid]) == len(one.tasks)]
    broken = [one for one in living.snapshot.jobs if runs[one.uid] and one not in whole]
    if broken:
        first = min(broken, key=lambda one: (-one.priority, one.creation_time))
        held = {task.node_name for one in whole for task in one.tasks}
        lacks = {task.node_selector["is"] for task in first.tasks if task not in runs[first.uid]}
        assert lacks & held
