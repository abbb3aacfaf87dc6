"""Simulations of a scheduler that moves tasks: who moves stops and starts again at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import JobInfo, Queue, Resource, SchedulerConfig, TaskInfo
from batchsched.simulation import Checkpoint, Job, Run, Scheduled, Workload, simulate

from .workloads import workloads


def spreading(actions: str) -> SchedulerConfig:
    """A configuration that takes the emptiest node first, so that pieces of nodes are left."""
    return SchedulerConfig.from_mapping(
        {
            "actions": actions,
            "tiers": [{"plugins": ["priority", "gang", "predicates", "nodeorder"]}],
        }
    )


ALLOCATE = spreading("allocate")
CONSOLIDATE = spreading("allocate, consolidate")
TWO_HALVES = Workload(
    [
        Job(id="a", submit=0, run=100, processors=2),
        Job(id="b", submit=0, run=100, processors=2),
        Job(id="c", submit=10, run=50, processors=4),
    ]
).on(nodes=2, per_node=4)
"""A and b take half a node each; c needs a whole one."""


def of(run: Run, column: str) -> dict[object, object]:
    return dict(zip(run.jobs["id"], run.jobs[column], strict=True))


def test_without_moves_the_whole_node_is_waited_for() -> None:
    run = simulate(TWO_HALVES, ALLOCATE)
    assert of(run, "start") == {"a": 0, "b": 0, "c": 100}


@pytest.mark.parametrize(
    ("checkpoint", "end"), [(None, 110), (Checkpoint(every=4), 102), (Checkpoint(every=0), 100)]
)
def test_what_moves_is_stopped_and_started_and_ends(
    checkpoint: Checkpoint | None, end: float
) -> None:
    run = simulate(TWO_HALVES, CONSOLIDATE, checkpoint=checkpoint)
    assert of(run, "start") == {"a": 0, "b": 0, "c": 10}
    assert of(run, "end") == {"a": end, "b": 100, "c": 60}
    assert of(run, "preemptions") == {"a": 1, "b": 0, "c": 0}
    first = [(start, stop) for job, start, stop in run.intervals if job == 0]
    assert first == [(0, 10), (10, end)]
    metrics = run.metrics()
    assert (metrics["preemptions"], metrics["makespan"]) == (1, end)
    # What had been done before the move, and was not saved, is done again.
    assert list(run.held) == [end, 100, 50]
    assert run.unfinished == {}


def test_a_task_beyond_the_minimum_moves_while_its_job_runs_on() -> None:
    two = Resource(milli_cpu=2000)
    elastic = JobInfo(
        name="e",
        queue="default",
        min_available=1,
        tasks=[TaskInfo(uid=f"e-{n}", name=f"e-{n}", resreq=two) for n in (0, 1)],
    )
    workload = Workload(
        [
            Job(id="e", submit=0, run=100, info=elastic),
            Job(id="c", submit=10, run=50, processors=4),
        ]
    ).on(nodes=2, per_node=4)
    run = simulate(workload, Scheduled(CONSOLIDATE, queues=[Queue(name="default")]))
    assert of(run, "start") == {"e": 0, "c": 10}
    assert of(run, "preemptions") == {"e": 0, "c": 0}
    assert of(run, "end") == {"e": 100, "c": 60}


@settings(max_examples=25)
@given(workload=workloads(), per_node=st.integers(2, 4))
def test_nothing_is_oversubscribed_and_everybody_ends_where_tasks_move(
    workload: Workload, per_node: int
) -> None:
    run = simulate(one_queue(workload).on(nodes=4, per_node=per_node), CONSOLIDATE)
    assert run.unfinished == {}
    assert max(run.series()["busy"]) <= run.machine.processors
    for held, time, stops in zip(run.held, run.runs, run.outcome.preemptions or (), strict=True):
        assert held >= time
        assert stops or held == time


@settings(max_examples=15)
@given(workload=workloads(), per_node=st.integers(2, 4))
def test_equal_workloads_give_equal_runs_where_tasks_move(
    workload: Workload, per_node: int
) -> None:
    given = one_queue(workload).on(nodes=4, per_node=per_node)
    one, other = simulate(given, CONSOLIDATE), simulate(given, CONSOLIDATE)
    assert one.jobs == other.jobs
    assert one.intervals == other.intervals


def one_queue(workload: Workload) -> Workload:
    """The same jobs, of one queue, so that any may move for any."""
    return Workload(
        [
            Job(id=job.id, submit=job.submit, run=job.run, processors=job.processors)
            for job in workload
        ]
    )
