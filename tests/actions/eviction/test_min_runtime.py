"""`minRuntime` of preempt and reclaim: what has just started is not evicted."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import check_reference
from tests.support.clusters import action, cluster, evicted, job, node
from tests.support.elastic import configuration, elastic, room
from tests.support.invariants import check_cycle
from tests.support.known import WITHOUT_NEWER

from batchsched import (
    ConfigError,
    JobInfo,
    Refusal,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
)
from batchsched.testing import snapshots

NOW = 100.0


def config(*actions: object, shares: str = "proportion", **more: str) -> SchedulerConfig:
    return SchedulerConfig.from_mapping(configuration(*actions, shares=shares, **more))


def started(of: JobInfo, *starts: float | None) -> JobInfo:
    """The job, with when its tasks started, in order."""
    tasks = [evolve(task, start_time=at) for task, at in zip(of.tasks, starts, strict=True)]
    return evolve(of, tasks=tasks)


def decided(snapshot: Snapshot, of: SchedulerConfig) -> list[str]:
    result = Scheduler(of).schedule(snapshot)
    check_reference(snapshot, result, of)
    return evicted(result)


def one_of_two(*starts: float | None, **more: object) -> Snapshot:
    """A task of high priority, and two of low priority that run in its place."""
    low = started(job("low", *["1C1G@n1"] * 2, minimum=0), *starts)
    high = job("high", "1C1G", priority=9)
    return cluster([node("n1", "2C2G")], low, high, now=NOW, **more)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ((50, 50), ["low-2"]),
        ((50, 91), ["low-1"]),
        ((91, 91), []),
        ((91, 90), ["low-2"]),  # as long ago as it takes
        ((91, None), ["low-2"]),  # not known
        ((91, 200), []),  # to come, by a clock that is ahead
    ],
)
def test_what_started_less_long_ago_is_not_evicted(
    starts: tuple[float | None, float | None], expected: list[str]
) -> None:
    assert decided(one_of_two(*starts), config(action("preempt", minRuntime=10))) == expected


def test_it_is_off_unless_given() -> None:
    for arguments in ({}, {"minRuntime": 0}):
        assert decided(one_of_two(100, 200), config(action("preempt", **arguments))) == ["low-2"]


def test_each_action_has_its_own() -> None:
    first, second = action("preempt", minRuntime=10), action("preempt", minRuntime=5)
    assert decided(one_of_two(94, 94), config(first, second)) == ["low-2"]
    assert decided(one_of_two(94, 94), config(first, "reclaim")) == []


@pytest.mark.parametrize(("start", "expected"), [(50, 3), (95, 0)])
def test_a_gang_goes_as_a_whole_unless_one_of_its_tasks_has_just_started(
    start: float, expected: int
) -> None:
    gang = started(job("low", "1C1G@n1", "1C1G@n1", "1C1G@n2"), 50, 50, start)
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "1C1G")], gang, job("high", "2C2G", priority=9), now=NOW
    )
    assert len(decided(snapshot, config(action("preempt", minRuntime=10)))) == expected


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize(("start", "expected"), [(50, ["rich-4", "rich-3"]), (95, ["rich-3"])])
def test_reclaim_takes_another(shares: str, start: float, expected: list[str]) -> None:
    rich = started(job("rich", *["1C1G@n1"] * 4, minimum=0), 50, 50, 50, start)
    poor = job("poor", "1C1G", "1C1G", queue="r", minimum=0)
    snapshot = cluster([node("n1", "4C4G")], rich, poor, queues=("q", "r"), now=NOW)
    of = config(action("reclaim", minRuntime=10), shares=shares)
    assert decided(snapshot, of) == expected


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize(("young", "expected"), [((), 2), (("two",), 2), (("one", "two"), 0)])
def test_of_replicas_the_one_goes_none_of_whose_tasks_has_just_started(
    shares: str, young: tuple[str, ...], expected: int
) -> None:
    of_groups: Mapping[str | None, str] = {"core": "RR", "one": "RR", "two": "RR"}
    groups = [TaskGroup(name=str(name), min=2) for name in of_groups]
    rich = elastic("rich", of_groups, groups=groups, min_groups=1, min_available=2)
    rich = evolve(
        rich,
        tasks=[
            evolve(
                task,
                priority=9 if task.group == "core" else 0,
                start_time=95 if task.group in young and task.uid.endswith("1") else 50,
            )
            for task in rich.tasks
        ],
    )
    poor = [elastic(name, {None: "PP"}, queue="b", min_available=2) for name in ("poor", "other")]
    snapshot = evolve(room(6, [rich, *poor]), now=NOW)
    of = config(action("reclaim", minRuntime=10), shares=shares)
    gone = decided(snapshot, of)
    assert len(gone) == expected
    assert not any(name in uid for uid in gone for name in ("core", *young))


def test_within_a_job_too() -> None:
    low = started(job("j", "1C1G@n1", "1C1G", minimum=0), 95, None)
    first, second = low.tasks
    snapshot = cluster(
        [node("n1", "1C1G")],
        evolve(low, tasks=[first, evolve(second, priority=9)]),
        now=NOW,
    )
    assert decided(snapshot, config(action("preempt", minRuntime=10))) == []
    assert decided(snapshot, config(action("preempt", minRuntime=5))) == ["j-1"]


def test_the_reason_says_so() -> None:
    result = Scheduler(config(action("preempt", minRuntime=10))).schedule(one_of_two(95, 95))
    [report] = result.pending["high-1"].evictions
    assert report.out == {"minimum-runtime (minRuntime 10 s)": 2}
    assert report.candidates == 2
    assert "minimum-runtime (minRuntime 10 s): 2, until 105" in report.text
    assert report.refusals == (Refusal("minimum-runtime", 2, until=105),)


def test_it_is_a_number_of_seconds() -> None:
    for wrong in (-1, "soon"):
        with pytest.raises(ConfigError, match="minRuntime"):
            Scheduler(config(action("reclaim", minRuntime=wrong)))


@settings(max_examples=40)
@given(
    snapshots(
        max_nodes=3, constraints=False, affinity=False, scalars=False, min_jobs=4, **WITHOUT_NEWER
    ),
    st.sampled_from([0, 5, 10, 12.5, 1000]),
    st.sampled_from(["proportion", "capacity"]),
)
def test_nobody_is_evicted_who_started_less_long_ago(
    snapshot: Snapshot, least: float, shares: str
) -> None:
    rule = {"minRuntime": least}
    actions = (action("reclaim", **rule), "allocate", action("preempt", **rule))
    of = config(*actions, shares=shares)
    result = Scheduler(of).schedule(snapshot)
    for eviction in result.evictions:
        start = snapshot.task(eviction.task_uid).start_time
        assert not least or start is None or snapshot.now - start >= least
    check_cycle(snapshot, result, of)
    check_reference(snapshot, result, of)
    assert Scheduler(of, plain={"engine"}).schedule(snapshot) == result
