"""The scheduler decides like the plain reference, cycle after cycle, with all ways of waiting."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn
from tests.reference import reference_schedule
from tests.support.cycles import Cycles
from tests.support.histories import History
from tests.support.known import WITHOUT_NEWER

from batchsched import (
    CycleResult,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
)
from batchsched.live import Event, JobArrived, NodeChanged, TaskSucceeded
from batchsched.testing import jobs, snapshots

SEQUENCES = (
    "allocate backfill reserve",
    "allocate reserve",
    "reserve allocate backfill",
    "allocate backfill",
    "backfill allocate reserve",
    "allocate preempt reserve backfill",
    "reclaim allocate backfill reserve",
    "preempt reserve allocate",
    "allocate reserve backfill reserve",
)
TIERS = (
    (("priority", "gang"), ("drf", "predicates", "proportion", "nodeorder")),
    (("priority", "gang", "drf", "predicates", "proportion", "nodeorder"),),
    (("gang", "predicates"),),
    (("priority", "gang"), ("predicates", "nodeorder")),
    (("proportion", "gang"), ("predicates", "nodeorder", "drf")),
)
ENDING = (TaskStatus.RUNNING, TaskStatus.BINDING, TaskStatus.BOUND)
SECONDS = 10


def sometimes(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


THRESHOLDS = st.sampled_from((0, 5, 20, 50))
ARGUMENTS = {
    "allocate": sometimes(
        unready=st.just("discard"), evictBackfill=st.booleans(), starvationThreshold=THRESHOLDS
    ),
    "backfill": st.one_of(
        st.fixed_dictionaries(
            {"strategy": st.just("release")}, optional={"starvationThreshold": THRESHOLDS}
        ),
        sometimes(strategy=st.just("displace"), nodeChoice=st.just("best")),
    ),
    "reserve": st.fixed_dictionaries(
        {
            "starvingJobTimeThreshold": THRESHOLDS,
            "reservedNodePercent": st.sampled_from((100, 50, 30, 1)),
        },
        optional={"inOrder": st.booleans()},
    ),
    "preempt": st.just({}),
    "reclaim": st.just({}),
}


@st.composite
def configurations(draw: DrawFn) -> dict[str, Any]:
    names = draw(st.sampled_from(SEQUENCES)).split()
    return {
        "actions": [{"name": name, "arguments": draw(ARGUMENTS[name])} for name in names],
        "tiers": [
            {"plugins": [{"name": name} for name in tier]} for tier in draw(st.sampled_from(TIERS))
        ],
    }


def decisions(result: CycleResult) -> dict[str, object]:
    return {
        "binds": result.binds,
        "evictions": result.evictions,
        "pipelined": result.pipelined,
        "conditional": result.conditional,
        "reserved": result.reserved,
        "dropped": result.dropped_reservations,
        "kept promises": result.kept_promises,
        "dropped promises": result.dropped_promises,
        "tasks": dict(result.tasks),
        "phases": {uid: outcome.phase for uid, outcome in result.jobs.items()},
        "left out": set(result.left_out),
    }


def happenings(
    snapshot: Snapshot, result: CycleResult, number: int, data: DataObject
) -> list[Event]:
    """Let tasks end, a job come, or a node be closed or opened."""
    ending = [
        task.uid
        for job in snapshot.jobs
        for task in job.tasks
        if (result.tasks[task.uid].status if task.uid in result.tasks else task.status) in ENDING
    ]
    ended: dict[str, None] = {}
    for which in data.draw(st.lists(st.integers(0, 15), max_size=3), label="ended"):
        if ending:
            ended[ending[which % len(ending)]] = None
    events: list[Event] = [TaskSucceeded(uid) for uid in ended]
    if data.draw(st.booleans(), label="arrival"):
        queues = [queue.name for queue in snapshot.queues] or ["q"]
        job = data.draw(jobs(name=f"new{number}", queues=queues, max_tasks=3), label="job")
        events.append(JobArrived(evolve(job, creation_time=snapshot.now)))
    closes = data.draw(st.integers(0, 11), label="closes")
    if closes < len(snapshot.nodes):
        changed = snapshot.nodes[closes]
        events.append(NodeChanged(evolve(changed, unschedulable=not changed.unschedulable)))
    return events


@settings(max_examples=60)
@given(
    snapshots(max_nodes=4, max_jobs=5, max_tasks=4, min_jobs=2, **WITHOUT_NEWER),
    configurations(),
    st.integers(2, 6),
    st.data(),
)
def test_all_cycles_of_a_history_are_decided_as_by_the_reference(
    snapshot: Snapshot, configuration: dict[str, Any], cycles: int, data: DataObject
) -> None:
    living = Cycles(Scheduler(SchedulerConfig.from_mapping(configuration)), snapshot)
    for number in range(cycles):
        now = living.snapshot
        result = living.cycle()
        assert decisions(result) == decisions(reference_schedule(now, configuration))
        living.step(*happenings(now, result, number, data), now=living.now + SECONDS)


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 60))]
)
def test_crowded_histories_are_decided_as_by_the_reference(seed: int) -> None:
    """Small clusters where much waits and ends: most cycles reserve, promise, lend or evict."""
    history = History(Random(seed))
    for _ in range(12):
        result = history.scheduler.schedule(history.snapshot)
        expected = reference_schedule(history.snapshot, history.configuration)
        assert decisions(result) == decisions(expected)
        history.go_on(result)
