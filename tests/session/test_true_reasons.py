"""Reasons name the cause: room held by gangs that are not ready, gangs that are too large."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from tests.support.clusters import action, cluster, job, node, scheduler

from batchsched import (
    CycleResult,
    JobInfo,
    KindNeed,
    MemberCount,
    NodeInfo,
    PlacementFailure,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    WhyPending,
    schedule,
)
from batchsched.testing import snapshots

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
        "0/2 nodes are available: 2 lack free cpu, 2 lack free memory"
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


# Gangs that no state of the cluster could hold


def test_a_gang_larger_than_the_cluster_says_what_it_needs_and_what_there_is() -> None:
    snapshot = cluster(
        [node(f"n{i:02}", "1C4G") for i in range(10)],
        job("gang", *["1C1G"] * 11),
        job("small", "1C1G"),
    )
    result = scheduler(DISCARD).schedule(snapshot)
    assert [bind.task_uid for bind in result.binds] == ["small-1"]
    need = result.pending["gang-1"].gang_need
    assert need is not None
    one = Resource(milli_cpu=1000, memory=1 << 30)
    assert (need.tasks, need.request) == (11, 11 * one)
    assert need.kinds == (KindNeed(count=11, request=one, room=10),)
    assert need.cluster == Resource(milli_cpu=10000, memory=40 << 30)
    assert need.largest == Resource(milli_cpu=1000, memory=4 << 30)
    said = (
        "its gang can never start: it needs 11 cpu, 11 GiB at once "
        "(11 tasks of 1 cpu, 1 GiB, of which 10 fit); all nodes together have 10 cpu, "
        "40 GiB, the largest has 1 cpu, 4 GiB"
    )
    assert all(result.pending[f"gang-{i}"].text.endswith(said) for i in range(1, 12))
    condition = result.jobs["default/gang"].condition
    assert condition is not None
    assert condition.message.endswith(said)


def test_a_gang_that_fits_an_empty_cluster_is_not_too_large() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("r", "1C1G@n1"), job("j", "1C1G", "1C1G"))
    result = schedule(snapshot)
    assert all(reason.gang_need is None for reason in result.pending.values())


def test_kinds_that_fit_by_sum_and_not_by_node_are_counted() -> None:
    snapshot = cluster([node("n1", "3C9G"), node("n2", "3C9G")], job("j", "2C1G", "2C1G", "2C1G"))
    need = schedule(snapshot).pending["j-3"].gang_need
    assert need is not None
    assert [(kind.count, kind.room) for kind in need.kinds] == [(3, 2)]


def test_kinds_without_which_the_gang_can_do_do_not_count() -> None:
    nodes = [node("n1", "2C2G")]
    too_large = job("j", "1C1G", "1C1G", "9C9G", minimum=2)
    result = schedule(cluster(nodes, too_large))
    assert result.pending["j-3"].gang_need is None
    need = schedule(cluster(nodes, evolve(too_large, min_available=3))).pending["j-3"].gang_need
    assert need is not None
    assert [(kind.count, kind.room) for kind in need.kinds] == [(2, 2), (1, 0)]


def test_the_sum_counts_where_the_kinds_do_not() -> None:
    sizes = ["1C1G", "1.1C1G", "1.2C1G", "1.3C1G"]
    snapshot = cluster([node("n1", "3C9G")], job("j", *sizes, minimum=3))
    found = scheduler(DISCARD).schedule(snapshot).pending["j-1"].gang_need
    assert found is not None
    assert found.kinds == ()
    assert found.request.milli_cpu == 3300
    assert "it needs 3.3 cpu, 3 GiB at once; all nodes together have" in found.text


def test_tasks_that_succeeded_need_nothing_more() -> None:
    done = TaskInfo(
        uid="j-9", name="j-9", status=TaskStatus.SUCCEEDED, resreq=Resource(milli_cpu=9000)
    )
    two = job("j", "1C1G", "1C1G")
    snapshot = cluster([node("n1", "1C9G")], evolve(two, tasks=[*two.tasks, done], min_available=3))
    need = scheduler(DISCARD).schedule(snapshot).pending["j-1"].gang_need
    assert need is not None
    assert need.tasks == 2


@pytest.mark.parametrize(("room", "is_too_large"), [(1, True), (2, False)])
def test_the_number_of_tasks_that_nodes_take_counts(room: int, is_too_large: bool) -> None:
    nodes = [NodeInfo(name="n1", allocatable=Resource(milli_cpu=9000), max_tasks=room)]
    tasks = [TaskInfo(uid=f"j-{i}", name=f"j-{i}", resreq=Resource(milli_cpu=1000)) for i in (1, 2)]
    result = scheduler(HOLD).schedule(
        cluster(nodes, evolve(job("j"), tasks=tasks, min_available=2))
    )
    assert any(reason.gang_need for reason in result.pending.values()) is is_too_large


@given(snapshots())
def test_a_gang_said_to_be_too_large_does_not_start_on_the_empty_cluster(
    snapshot: Snapshot,
) -> None:
    for uid, reason in schedule(snapshot).pending.items():
        if reason.gang_need is None:
            continue
        (owner,) = [one for one in snapshot.jobs if any(task.uid == uid for task in one.tasks)]
        waiting = [
            TaskInfo(uid=task.uid, name=task.name, resreq=task.resreq, init_resreq=task.init_resreq)
            for task in owner.tasks
            if task.status not in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
        ]
        # It is said of the number of tasks, whatever groups they are in.
        gang = JobInfo(
            name="alone", queue=owner.queue, tasks=waiting, min_available=reason.gang_need.tasks
        )
        alone = Snapshot(
            nodes=[
                NodeInfo(name=n.name, allocatable=n.allocatable, max_tasks=n.max_tasks)
                for n in snapshot.nodes
            ],
            queues=snapshot.queues,
            jobs=[gang],
        )
        assert not schedule(alone).binds


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
    assert condition.gang_need is not None
    assert condition.message == (
        "0 of the 3 tasks that must start together are ready; "
        "2 placed, but rolled back since not enough others were; "
        f"no node had room for task 'a-3' beside them; {condition.gang_need.text}"
    )
