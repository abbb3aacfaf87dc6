"""Cycles that bind tasks and do nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from batchsched import (
    Bind,
    CycleResult,
    EventError,
    JobInfo,
    NodeInfo,
    Promise,
    Queue,
    Resource,
    Scheduler,
    Snapshot,
    TaskInfo,
    TaskOutcome,
    TaskStatus,
    next_snapshot,
)
from batchsched.live import Cluster, TaskSucceeded
from batchsched.transition.content import Content
from batchsched.transition.steps import tasks_started

CPU = Resource(milli_cpu=1000)
TASKS = [TaskInfo(uid=f"t{i}", name=f"t{i}", resreq=CPU) for i in range(3)]
SNAPSHOT = Snapshot(
    nodes=[NodeInfo(name="n1", allocatable=CPU + CPU)],
    queues=[Queue(name="q")],
    jobs=[
        JobInfo(name="j", queue="q", min_available=1, tasks=TASKS),
        JobInfo(
            name="r",
            queue="q",
            tasks=[TaskInfo(uid="r", name="r", status=TaskStatus.RUNNING, node_name="n1")],
        ),
    ],
    now=7.0,
)
CYCLE = Scheduler().schedule(SNAPSHOT)


def test_what_is_bound_runs_from_the_moment_of_the_decision() -> None:
    started = tasks_started(CYCLE, Content(SNAPSHOT))
    assert started is not None
    assert list(started) == [bind.task_uid for bind in CYCLE.binds] == ["t0", "t1"]
    following = next_snapshot(SNAPSHOT, CYCLE, now=7)
    assert list(started.values()) == [following.task("t0"), following.task("t1")]


def _with_outcome(uid: str, outcome: object) -> CycleResult:
    return evolve(CYCLE, tasks={**CYCLE.tasks, uid: outcome})


BIND = CYCLE.binds[0]


@pytest.mark.parametrize(
    "cycle",
    [
        evolve(CYCLE, binds=[*CYCLE.binds, BIND]),
        evolve(CYCLE, binds=(*CYCLE.binds, BIND)),
        evolve(CYCLE, binds=(Bind(task_uid="r", node_name="n1"),)),
        evolve(CYCLE, binds=(Bind(task_uid="nobody", node_name="n1"),)),
        evolve(CYCLE, binds=(evolve(BIND, node_name="n2"),)),
        evolve(CYCLE, binds=(evolve(BIND, is_backfill=1),)),
        evolve(CYCLE, binds=(Promise(task_uid="t0", node_name="n1"),)),
        evolve(CYCLE, reserved=(Promise(task_uid="t2", node_name="n1"),)),
        _with_outcome("t2", TaskOutcome(status=TaskStatus.RUNNING, node_name="n1")),
        _with_outcome("t0", TaskOutcome(status=TaskStatus.BINDING, node_name="n2")),
        _with_outcome("t0", TaskOutcome(status=TaskStatus.PENDING)),
        _with_outcome("t2", None),
        _with_outcome("t2", TaskOutcome(status=TaskStatus.PENDING, node_name=5)),  # type: ignore[arg-type]
        evolve(CYCLE, tasks=[]),
        evolve(CYCLE, planned=[]),
    ],
)
def test_whatever_is_not_plain_is_looked_at_as_a_whole(cycle: CycleResult) -> None:
    assert tasks_started(cycle, Content(SNAPSHOT)) is None
    assert _outcome(lambda: _carried_out(cycle)) == _outcome(
        lambda: next_snapshot(SNAPSHOT, cycle, now=7)
    )


def test_a_cycle_of_another_time_is_refused() -> None:
    cluster = Cluster(SNAPSHOT)
    cluster.apply(TaskSucceeded("r"))
    cluster.carry_out(CYCLE, at_once=True)
    with pytest.raises(EventError, match="it binds the task, which is Running"):
        cluster.carry_out(CYCLE, at_once=True)


def _carried_out(cycle: CycleResult) -> Snapshot:
    cluster = Cluster(SNAPSHOT)
    cluster.carry_out(cycle, at_once=True)
    return cluster.snapshot()


def _outcome(made: Callable[[], Snapshot]) -> object:
    try:
        return made()
    except EventError as error:
        return error.faults
