"""Reasons name the cause: room held by gangs that are not ready."""

from __future__ import annotations

from attrs import evolve
from tests.support.clusters import action, cluster, job, node, scheduler

from batchsched import (
    CycleResult,
    MemberCount,
    PlacementFailure,
    Scheduler,
    SchedulerConfig,
    Taint,
    TaintEffect,
    TaskStatus,
    WhyPending,
)

HOLD = action("allocate", unready="hold")
DISCARD = action("allocate", unready="discard")


def held_by(result: CycleResult, uid: str) -> tuple[str, ...]:
    return result.pending[uid].held_by


# Room held by a gang that is not ready


def test_a_task_behind_room_that_an_unready_gang_holds_names_the_gang() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "1C1G")],
        job("a", "2C2G", "2C2G"),
        job("b", "2C2G"),
    )
    result = scheduler(HOLD).schedule(snapshot)
    assert result.tasks["a-1"].status is TaskStatus.ALLOCATED
    assert result.pending["b-1"].why is WhyPending.HELD_BY_GANG
    assert held_by(result, "b-1") == ("default/a",)
    assert result.pending["b-1"].text == (
        "the room that it needs is held by job 'default/a', which is not ready; "
        "0/2 nodes are available: 2 lack free cpu and memory"
    )


def test_a_share_that_an_unready_gang_uses_up_is_not_said_to_be_deserved() -> None:
    snapshot = cluster(
        [node(f"n{i:02}", "1C1G") for i in range(10)],
        job("gang", *["1C1G"] * 11),
        job("small", "1C1G"),
    )
    reason = scheduler(HOLD).schedule(snapshot).pending["small-1"]
    assert reason.why is WhyPending.HELD_BY_GANG
    assert reason.text == (
        "the room that it needs is held by job 'default/gang', which is not ready"
    )


def test_a_queue_that_has_its_share_without_unready_gangs_says_so() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("a", "1C1G@n1", "1C1G@n1", minimum=1),
        job("b", "1C1G", "1C1G"),
        job("c", "1C1G", "1C1G", queue="r"),
        queues=("q", "r"),
    )
    reason = scheduler(HOLD).schedule(snapshot).pending["b-1"]
    assert reason.why is WhyPending.QUEUE_OVERUSED
    assert "it deserves 2 cpu, 2 GiB and has 2 cpu, 2 GiB" in reason.text


def test_a_gang_does_not_stand_in_its_own_way() -> None:
    snapshot = cluster([node("n1", "2C2G"), node("n2", "1C1G")], job("a", "2C2G", "2C2G"))
    result = scheduler(HOLD).schedule(snapshot)
    assert held_by(result, "a-2") == ()


def test_all_gangs_are_named_where_no_single_one_holds_enough() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "0.5C1G")],
        job("a", "1C1G", "2C2G"),
        job("b", "1C1G", "2C2G"),
        job("c", "2C2G"),
    )
    result = scheduler(HOLD).schedule(snapshot)
    assert held_by(result, "c-1") == ("default/a", "default/b")
    assert "by the jobs 'default/a', 'default/b', which are not ready" in result.pending["c-1"].text


def test_what_ready_jobs_hold_is_not_said_to_be_held() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "2C2G"), job("b", "2C2G"))
    assert held_by(scheduler(HOLD).schedule(snapshot), "b-1") == ()


def test_a_node_that_refuses_the_task_anyway_is_not_said_to_be_held() -> None:
    taint = Taint(key="k", value="v", effect=TaintEffect.NO_SCHEDULE)
    large = evolve(node("n1", "2C2G"), labels={"a": "b"})
    other = node("n2", "1C1G")
    snapshot = cluster([large, other], job("a", "2C2G", "2C2G"), job("b", "2C2G"))
    tainted = evolve(snapshot, nodes=[evolve(large, taints=[taint]), other])
    assert held_by(scheduler(HOLD).schedule(snapshot), "b-1") == ("default/a",)
    tolerant = scheduler(HOLD, without=["predicates"])
    assert held_by(tolerant.schedule(tainted), "b-1") == ("default/a",)
    wants = evolve(snapshot.job("default/b").tasks[0], node_selector={"c": "d"})
    choosy = evolve(
        snapshot,
        jobs=[snapshot.job("default/a"), evolve(snapshot.job("default/b"), tasks=[wants])],
    )
    assert held_by(scheduler(HOLD).schedule(choosy), "b-1") == ()


def test_a_node_that_is_reserved_for_a_gang_names_the_gang() -> None:
    reserve = action("reserve", starvingJobTimeThreshold=1, reservedNodePercent=100)
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("r", "1C1G@n1"),
        job("s", "2C2G", creation_time=-99),
        job("t", "1C1G", creation_time=-9),
        now=10,
    )
    first = scheduler(DISCARD, reserve).schedule(
        evolve(snapshot, jobs=[snapshot.job("default/r"), snapshot.job("default/s")])
    )
    assert [promise.task_uid for promise in first.reserved] == ["s-1"]
    kept = evolve(snapshot.task("s-1"), status=TaskStatus.RESERVED, node_name="n1")
    following = evolve(
        snapshot,
        jobs=[
            snapshot.job("default/r"),
            evolve(snapshot.job("default/s"), tasks=[kept]),
            snapshot.job("default/t"),
        ],
    )
    result = scheduler("allocate", reserve).schedule(following)
    assert held_by(result, "t-1") == ("default/s",)


# The facts of a reason, as values

IN_ORDER = SchedulerConfig.from_mapping(
    {"actions": "allocate", "tiers": [{"plugins": ["gang", "fcfs", "predicates"]}]}
)


def test_a_reason_names_what_comes_before_it_by_uid() -> None:
    snapshot = cluster([node("n1", "1C1G")], job("a", "2C2G", "1C1G"), job("b", "2C2G"))
    result = Scheduler(IN_ORDER).schedule(snapshot)
    assert result.pending["a-1"].too_large
    assert not result.pending["a-2"].too_large
    assert result.pending["a-2"].behind_task == "a-1"
    assert result.pending["b-1"].behind_job == "default/a"


def test_a_condition_has_its_counts_and_why_no_place_was_found() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", *["1C1G"] * 3))
    condition = Scheduler(IN_ORDER).schedule(snapshot).jobs["default/a"].condition
    assert condition is not None
    assert condition.counts == (MemberCount(has=0, needs=3),)
    assert condition.undone == 2
    assert condition.failure == PlacementFailure(task="a-3")
    assert condition.message == (
        "0 of the 3 tasks that must start together are ready; "
        "2 placed, but rolled back since not enough others were; "
        "no node had room for task 'a-3' beside them"
    )
