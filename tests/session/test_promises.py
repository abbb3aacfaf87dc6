"""Promises that outlive the cycle: what keeps them, what they start, and what ends them."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.reference import reference_schedule
from tests.support.clusters import Simulation, bound, cluster, evicted, job, node, places, scheduler

from batchsched import (
    CycleResult,
    NodeInfo,
    Promise,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    UnfitReason,
)

PLUGINS = ("priority", "gang", "predicates", "nodeorder")


def decide(snapshot: Snapshot, *actions: Any, plugins: tuple[str, ...] = PLUGINS) -> CycleResult:
    """Run a cycle; the plain reference must decide the same."""
    mapping = {
        "actions": [{"name": one} if isinstance(one, str) else one for one in actions],
        "tiers": [{"plugins": [{"name": name} for name in plugins]}],
    }
    result = Scheduler(SchedulerConfig.from_mapping(mapping)).schedule(snapshot)
    expected = reference_schedule(snapshot, mapping)
    for name in ("binds", "evictions", "pipelined", "kept_promises"):
        assert getattr(result, name) == getattr(expected, name)
    assert dict(result.tasks) == dict(expected.tasks)
    assert dropped(result) == dropped(expected)
    return result


def promise(uid: str, node_name: str) -> Promise:
    return Promise(task_uid=uid, node_name=node_name)


def dropped(result: CycleResult) -> list[Promise]:
    return [promise(each.task_uid, each.node_name) for each in result.dropped_promises]


# Opening


def test_a_promise_is_kept_while_the_evicted_task_leaves() -> None:
    """The room of b is a's; c, which is more important, does not get it."""
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("b", "2C2G!n1"),
        job("a", "2C2G~n1"),
        job("c", "2C2G", priority=9),
    )
    result = decide(snapshot, "allocate")
    assert places(result, "a", "c") == {"a-1": "Pipelined n1", "c-1": "Pending"}
    assert result.kept_promises == (promise("a-1", "n1"),)
    assert not result.dropped_promises


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("n2", "2C2G")], "the node is gone"),
        ([node("n1", "2C2G", unschedulable=True)], "the node is cordoned"),
        ([node("n1", "2C2G", conditions={"Ready": "False"})], "the node is not ready"),
        ([node("n1", "1C1G")], "the node is too small by now"),
    ],
)
def test_a_promise_ends_at_open_where_it_cannot_be_kept(nodes: list[NodeInfo], why: str) -> None:
    result = decide(cluster(nodes, job("a", "2C2G~n1")), "backfill")
    assert places(result) == {"a-1": "Pending"}, why
    assert dropped(result) == [promise("a-1", "n1")]
    assert not result.kept_promises


def test_promises_that_are_not_enough_for_a_gang_all_end() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("b", "2C2G!n1"),
        job("a", "2C2G~n1", "2C2G~n9"),
    )
    result = decide(snapshot, "backfill")
    assert places(result, "a") == {"a-1": "Pending", "a-2": "Pending"}
    assert dropped(result) == [promise("a-1", "n1"), promise("a-2", "n9")]


def test_a_gang_keeps_promises_that_are_enough_for_it() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("b", "2C2G!n1"),
        job("a", "2C2G~n1", "2C2G~n9", minimum=1),
    )
    result = decide(snapshot, "backfill")
    assert places(result, "a") == {"a-1": "Pipelined n1", "a-2": "Pending"}


def test_the_more_important_job_keeps_its_promise_where_there_is_room_for_one() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("b", "2C2G!n1"),
        job("a", "2C2G~n1"),
        job("c", "2C2G~n1", priority=9),
    )
    result = decide(snapshot, "backfill")
    assert places(result, "a", "c") == {"a-1": "Pending", "c-1": "Pipelined n1"}


def test_jobs_that_are_not_in_the_session_lose_their_promises() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("a", "2C2G~n1", minimum=2),
        job("b", "2C2G~n1", queue="unknown"),
    )
    result = decide(snapshot, "allocate")
    assert set(result.left_out) == {"default/a", "default/b"}
    assert dropped(result) == [promise("a-1", "n1"), promise("b-1", "n1")]
    assert set(result.pending) == {"a-1", "b-1"}


def test_what_is_promised_counts_as_allocated_for_shares() -> None:
    """q has all that it deserves with the promise, and allocate drops it."""
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("b", "2C2G!n1", queue="r"),
        job("a", "2C2G~n1", "2C2G", minimum=1),
        job("c", "4C4G", queue="r"),
        queues=("q", "r"),
    )
    result = decide(snapshot, "allocate", plugins=(*PLUGINS, "proportion"))
    assert places(result, "a") == {"a-1": "Binding n1", "a-2": "Pending"}
    assert result.pending["a-2"].why.value == "QueueOverused"


# Before the first action


@pytest.mark.parametrize("actions", [["backfill"], ["reserve"], ["preempt"], ["reclaim"]])
def test_a_promise_that_has_come_true_is_used_before_the_first_action(actions: list[str]) -> None:
    snapshot = cluster(
        [node("n1", "2C2G")], job("a", "2C2G~n1"), job("c", "2C2G", priority=9, creation_time=1)
    )
    result = decide(snapshot, *actions)
    assert bound(result) == {"a-1": "n1"}
    assert not result.kept_promises
    assert not result.dropped_promises


def test_a_promise_comes_before_a_reservation() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "2C2G~n1"), job("r", "2C2G>n1", priority=9))
    assert bound(decide(snapshot, "allocate")) == {"a-1": "n1"}


def test_a_gang_waits_for_its_last_place_and_keeps_the_first() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "2C2G")],
        job("b", "2C2G!n2"),
        job("a", "2C2G~n1", "2C2G~n2"),
        job("c", "2C2G", priority=9),
    )
    result = decide(snapshot, "allocate")
    assert places(result, "a") == {"a-1": "Pipelined n1", "a-2": "Pipelined n2"}
    assert places(result, "c") == {"c-1": "Pending"}
    assert len(result.kept_promises) == 2


def test_tasks_of_an_elastic_job_start_as_their_places_become_free() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "2C2G")],
        job("b", "2C2G!n2"),
        job("a", "2C2G~n1", "2C2G~n2", minimum=1),
    )
    result = decide(snapshot, "allocate")
    assert places(result, "a") == {"a-1": "Binding n1", "a-2": "Pipelined n2"}
    assert result.kept_promises == (promise("a-2", "n2"),)


def test_overuse_does_not_matter() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("r", "3C3G@n1"),
        job("a", "1C1G~n1"),
        job("o", "4C4G", queue="r"),
        queues=("q", "r"),
    )
    assert bound(decide(snapshot, "allocate", plugins=(*PLUGINS, "proportion"))) == {"a-1": "n1"}


def test_two_promises_on_one_node_do_not_stand_in_each_others_way() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("a", "1C1G~n1", "1C1G~n1"))
    assert bound(decide(snapshot, "backfill")) == {"a-1": "n1", "a-2": "n1"}


# Closing


def test_a_promise_ends_at_close_where_nothing_leaves_and_the_task_still_cannot_start() -> None:
    """It needs more to start than it holds, and by now another task has the difference."""
    task = evolve(job("a", "2C2G~n1").tasks[0], init_resreq=node("x", "3C3G").allocatable)
    waiting = evolve(job("a", "2C2G~n1"), tasks=[task])
    nodes = [node("n1", "4C4G", taints=[Taint(key="k", effect=TaintEffect.NO_SCHEDULE)])]
    leaves = decide(cluster(nodes, waiting, job("b", "1C1G!n1")), "backfill")
    assert leaves.kept_promises == (promise("a-1", "n1"),)
    stays = decide(cluster(nodes, waiting, job("b", "1C1G@n1")), "backfill")
    assert dropped(stays) == [promise("a-1", "n1")]
    assert places(stays, "a") == {"a-1": "Pending"}
    assert set(stays.pending) == {"a-1"}


def test_with_the_promise_of_one_task_those_of_its_gang_end() -> None:
    tainted = node("n2", "2C2G", taints=[Taint(key="k", effect=TaintEffect.NO_SCHEDULE)])
    snapshot = cluster(
        [node("n1", "2C2G"), tainted], job("b", "2C2G!n1"), job("a", "2C2G~n1", "2C2G~n2")
    )
    result = decide(snapshot, "backfill")
    assert dropped(result) == [promise("a-1", "n1"), promise("a-2", "n2")]


def test_only_places_of_jobs_for_which_tasks_were_evicted_are_kept() -> None:
    """What is leaving anyway is promised for this cycle only."""
    snapshot = cluster([node("n1", "2C2G")], job("b", "2C2G!n1"), job("a", "2C2G"))
    result = decide(snapshot, "allocate")
    assert result.pipelined == (promise("a-1", "n1"),)
    assert not result.kept_promises


def test_the_allocated_half_of_a_gang_is_kept_with_the_promised_one() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G")],
        job("b", "1C1G@n2", minimum=0),
        job("a", "1C1G", "1C1G", priority=9),
    )
    result = decide(snapshot, "preempt")
    assert set(places(result, "a").values()) == {"Allocated n1", "Pipelined n2"}
    assert {p.node_name for p in result.kept_promises} == {"n1", "n2"}


# Histories


def history(*actions: str, nodes: list[NodeInfo], jobs: list[Any], **more: Any) -> Simulation:
    return Simulation(
        scheduler(*actions, without=more.pop("without", ["drf", "proportion"])),
        cluster(nodes, *jobs, **more),
    )


def test_a_job_with_a_task_that_has_no_place_does_not_evict_for_ever() -> None:
    """b-1 selects a label that no node has, and b-2 fits if one task of a goes."""
    simulation = history(
        *("reclaim", "allocate", "backfill", "preempt"),
        nodes=[node("n1", "2C2G")],
        jobs=[
            job("a", "1C1G@n1", "1C1G@n1", minimum=1),
            evolve(
                job("b", "1C1G", "1C1G", minimum=1),
                tasks=[
                    evolve(task, node_selector={"disk": "ssd"}) if task.uid == "b-1" else task
                    for task in job("b", "1C1G", "1C1G").tasks
                ],
            ),
        ],
        without=["proportion"],
    )
    evictions: list[str] = []
    for _ in range(10):
        evictions += evicted(simulation.cycle())
        simulation.step()
    assert len(evictions) <= 1
    if evictions:
        assert "b-2" in simulation.started


def test_a_gang_does_not_lose_its_place_to_its_own_smaller_task() -> None:
    """Tasks of 7, 14 and 7 cpu on nodes of 16, 8 and 8; the task of 12 makes room once."""
    simulation = history(
        *("allocate", "preempt"),
        nodes=[node("n1", "16C16G"), node("n2", "8C8G"), node("n3", "8C8G")],
        jobs=[
            job("v", "12C12G@n1", minimum=0),
            job("g", "7C7G", "14C14G", "7C7G", priority=9),
        ],
    )
    assert evicted(simulation.cycle()) == ["v-1"]
    assert len(simulation.result.kept_promises) == 3  # type: ignore[union-attr]
    simulation.step()
    result = simulation.cycle()
    assert set(bound(result)) == {"g-1", "g-2", "g-3"}
    for _ in range(5):
        simulation.step()
        assert not simulation.cycle().evictions


def test_v12_the_claimant_starts_when_the_victim_has_left_and_nobody_else_in_between() -> None:
    simulation = history(
        *("allocate", "preempt"),
        nodes=[node("n1", "1C1G")],
        jobs=[job("v", "1C1G@n1", minimum=0), job("c", "1C1G", priority=1000)],
        queues=("q", "other"),
    )
    assert evicted(simulation.cycle()) == ["v-1"]
    for _ in range(3):
        simulation.step(
            still_releasing=["v-1"],
            new_jobs=[job(f"o{simulation.snapshot.now:.0f}", "1C1G", queue="other")],
        )
        result = simulation.cycle()
        assert not result.binds
        assert not result.evictions
        assert places(result, "c") == {"c-1": "Pipelined n1"}
    simulation.step()
    assert bound(simulation.cycle()) == {"c-1": "n1"}


def test_a_promise_ends_with_the_reason_that_its_node_gives() -> None:
    waiting = job("a", "2C2G~n1")
    stays = decide(cluster([node("n1", "2C2G")], waiting, job("b", "1C1G!n1")), "backfill")
    assert not stays.dropped_promises
    tainted = node("n1", "2C2G", taints=[Taint(key="k", effect=TaintEffect.NO_SCHEDULE)])
    (ended,) = decide(cluster([tainted], waiting), "backfill").dropped_promises
    assert ended.reason is not None
    assert ended.reason.reason is UnfitReason.UNTOLERATED_TAINT
    assert ended.for_task_uid is None
