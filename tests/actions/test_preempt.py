"""preempt: within a queue, and no more than is needed."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import check_reference
from tests.support.clusters import cluster, evicted, job, node, places, scheduler
from tests.support.elastic import configuration, elastic, room
from tests.support.invariants import check_cycle

from batchsched import (
    JobInfo,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskStatus,
    WhyPending,
)
from batchsched.testing import snapshots

BY_PRIORITY = scheduler("preempt", without=["drf", "proportion"])


def test_the_less_important_give_way() -> None:
    snapshot = cluster(
        [node("n1", "2C9G")],
        job("low", "1C1G@n1", "1C1G@n1", minimum=1),
        job("hi", "1C1G", priority=5),
    )
    result = BY_PRIORITY.schedule(snapshot)
    assert [(e.task_uid, e.action, e.for_task_uid) for e in result.evictions] == [
        ("low-2", "preempt", "hi-1")
    ]
    assert places(result, "hi") == {"hi-1": "Pipelined n1"}
    assert places(result, "low")["low-2"] == "Releasing n1"


@pytest.mark.parametrize("priority", [0, -5])
def test_equals_and_the_more_important_do_not(priority: int) -> None:
    snapshot = cluster(
        [node("n1", "2C9G")],
        job("low", "1C1G@n1", "1C1G@n1", minimum=1),
        job("other", "1C1G", priority=priority),
    )
    assert evicted(BY_PRIORITY.schedule(snapshot)) == []


def test_other_queues_are_left_alone() -> None:
    snapshot = cluster(
        [node("n1", "2C9G")],
        job("low", "1C1G@n1", "1C1G@n1", minimum=1, queue="r"),
        job("hi", "1C1G", priority=5),
        queues=("q", "r"),
    )
    assert evicted(BY_PRIORITY.schedule(snapshot)) == []


def test_a_gang_keeps_the_tasks_that_it_needs() -> None:
    def evicted_of(minimum: int) -> list[str]:
        low = job("low", *["1C1G@n1"] * 3, minimum=minimum)
        hi = job("hi", "1C1G", "1C1G", "1C1G", priority=5, minimum=1)
        return evicted(BY_PRIORITY.schedule(cluster([node("n1", "3C9G")], low, hi)))

    assert evicted_of(3) == []
    assert evicted_of(2) == ["low-3"]
    assert evicted_of(0) == ["low-3", "low-2", "low-1"]


def test_nobody_is_evicted_if_the_gang_would_not_be_complete() -> None:
    low = job("low", "1C1G@n1", "1C1G@n1", minimum=1)
    hi = job("hi", "1C1G", "1C1G", priority=5)
    result = BY_PRIORITY.schedule(cluster([node("n1", "2C9G")], low, hi))
    assert evicted(result) == []
    assert set(places(result, "hi").values()) == {"Pending"}


def test_nobody_is_evicted_for_a_task_that_fits() -> None:
    low = job("low", "1C1G@n1", "1C1G@n1", minimum=0)
    hi = job("hi", "1C1G", "1C1G", priority=5)
    result = BY_PRIORITY.schedule(cluster([node("n1", "3C9G")], low, hi))
    assert evicted(result) == ["low-2"]
    assert places(result, "hi") == {"hi-1": "Allocated n1", "hi-2": "Pipelined n1"}


def test_nobody_is_evicted_for_a_best_effort_task() -> None:
    low = job("low", "1C1G@n1", minimum=0)
    result = BY_PRIORITY.schedule(
        cluster([node("n1", "1C9G", max_tasks=1)], low, job("hi", "", priority=5))
    )
    assert evicted(result) == []


def test_the_best_node_is_tried_first() -> None:
    # n2 has more memory left; n1 comes first in node order.
    snapshot = cluster(
        [node("n1", "2C9G"), node("n2", "4C90G")],
        job("low", "2C1G@n1", "3C1G@n2", minimum=0),
        job("hi", "2C1G", priority=5),
    )
    assert evicted(BY_PRIORITY.schedule(snapshot)) == ["low-2"]


def test_the_important_tasks_of_a_job_take_the_place_of_its_others() -> None:
    of = job("a", "1C1G@n1", "1C1G", minimum=1)
    tasks = [of.tasks[0], evolve(of.tasks[1], priority=9)]
    snapshot = cluster([node("n1", "1C9G")], evolve(of, tasks=tasks))
    without_gang = scheduler("preempt", without=["drf", "proportion", "gang"])
    result = without_gang.schedule(snapshot)
    assert evicted(result) == ["a-1"]
    assert places(result) == {"a-1": "Releasing n1", "a-2": "Pipelined n1"}
    assert evicted(BY_PRIORITY.schedule(snapshot)) == []  # gang: the one that it needs


def test_within_a_job_tasks_only_swap() -> None:
    # There is idle room, but in the second phase a task lives on what its victims held.
    of = job("a", "1C1G@n1", "2C1G", minimum=1)
    tasks = [of.tasks[0], evolve(of.tasks[1], priority=9)]
    full = scheduler("preempt", without=["drf", "gang", "proportion"])
    snapshot = cluster([node("n1", "2C9G")], evolve(of, tasks=tasks))
    assert evicted(full.schedule(snapshot)) == []


def test_a_queue_that_has_what_it_deserves_can_only_swap() -> None:
    def snapshot(request: str) -> Snapshot:
        return cluster(
            [node("n1", "4C0G")],
            job("low", "1C0G@n1", "1C0G@n1", minimum=0),
            job("hi", request, priority=5),
            job("o", "2C0G", queue="r"),
            queues=("q", "r"),
        )

    by_share = scheduler("preempt", without=["drf"])
    # q deserves 2 of 4 cpu and has them; a task of 3 cpu would need 1 that is idle.
    assert evicted(by_share.schedule(snapshot("3C0G"))) == []
    assert evicted(by_share.schedule(snapshot("2C0G"))) == ["low-2", "low-1"]
    assert evicted(by_share.schedule(snapshot("1C0G"))) == ["low-2"]  # though 2 are idle


def test_several_turns_see_what_earlier_ones_took() -> None:
    snapshot = cluster(
        [node("n1", "3C9G")],
        job("low", *["1C1G@n1"] * 3, minimum=1),
        job("x", "1C1G", priority=5),
        job("y", "1C1G", priority=4),
        job("z", "1C1G", priority=3),
    )
    result = BY_PRIORITY.schedule(snapshot)
    assert evicted(result) == ["low-3", "low-2"]
    assert [e.for_task_uid for e in result.evictions] == ["x-1", "y-1"]


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_what_is_evicted_was_running_in_the_queue_of_who_it_makes_room_for(
    snapshot: Snapshot,
) -> None:
    config = SchedulerConfig.from_mapping({"actions": "preempt"})
    result = Scheduler(config).schedule(snapshot)
    of_task = {task.uid: (task, job) for job in snapshot.jobs for task in job.tasks}
    for eviction in result.evictions:
        victim, owner = of_task[eviction.task_uid]
        claimant, claimants_job = of_task[eviction.for_task_uid]
        assert victim.status is TaskStatus.RUNNING
        assert claimant.status in (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)
        assert not claimant.is_best_effort
        assert owner.queue == claimants_job.queue
        assert result.tasks[claimant.uid].node_name == eviction.node_name
        assert result.tasks[claimant.uid].status is TaskStatus.PIPELINED


def test_a_task_of_an_overused_queue_is_told_so_though_there_is_room() -> None:
    snapshot = cluster(
        [node("n1", "4C0G")],
        job("a", "2C0G@n1"),
        job("b", "1C0G"),
        job("c", "1C0G@n1", "9C0G", minimum=1, queue="r"),
        queues=("q", "r"),
    )
    pending = scheduler("preempt", without=["drf"]).schedule(snapshot).pending
    assert pending["b-1"].why is WhyPending.QUEUE_OVERUSED
    assert pending["c-2"].why is WhyPending.NO_NODE


def test_a_job_that_can_run_gets_no_further_task_in_a_turn_in_which_one_found_no_place() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")], job("j", "1C1G@n1", "9C9G", "1C1G", minimum=1, priority=5)
    )
    result = scheduler("preempt").schedule(snapshot)
    assert places(result, "j") == {"j-1": "Running n1", "j-2": "Pending", "j-3": "Pending"}


def with_priorities(one: JobInfo, **of_group: int) -> JobInfo:
    tasks = [evolve(task, priority=of_group.get(task.group or "", 0)) for task in one.tasks]
    return evolve(one, tasks=tasks)


def decided_within(
    one: JobInfo, cpus: int, at_minimum: str = "whole-job", **arguments: object
) -> list[str]:
    """Return whom a job on a node of so many cpus evicts of its own tasks."""
    preempt = {"name": "preempt", "arguments": {"unblock": False, **arguments}}
    snapshot = room(cpus, [one])
    config = SchedulerConfig.from_mapping(configuration(preempt, at_minimum=at_minimum))
    result = Scheduler(config).schedule(snapshot)
    assert Scheduler(config, plain=True).schedule(snapshot) == result
    check_cycle(snapshot, result, config)
    check_reference(snapshot, result, config)
    return evicted(result)


@pytest.mark.parametrize("at_minimum", ["whole-job", "protect"])
def test_no_replica_goes_for_its_own_job(at_minimum: str) -> None:
    groups = [TaskGroup(name=name, min=size) for name, size in (("core", 1), ("x", 2), ("y", 1))]
    of: dict[str | None, str] = {"core": "R", "x": "RR", "y": "P"}
    one = elastic("j", of, groups=groups, min_groups=1, min_available=1)
    one = with_priorities(one, core=9, y=9)
    assert decided_within(one, 3, at_minimum) == []


def test_tasks_that_start_together_do_not_take_the_places_of_others_one_by_one() -> None:
    groups = [TaskGroup(name=name, min=size) for name, size in (("core", 1), ("x", 2))]

    def job_with(waiting: str) -> JobInfo:
        of: dict[str | None, str] = {"core": "RRR", "x": waiting}
        one = elastic("j", of, groups=groups, min_groups=1, min_available=1)
        return with_priorities(one, x=9)

    assert decided_within(job_with("PP"), 3) == []
    assert decided_within(job_with("RP"), 4) == ["j-core-2"]


@given(st.integers(0, 1 << 32), st.sampled_from(["whole-job", "protect"]), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_law_preempt_within_jobs_with_groups_decides_like_the_reference(
    seed: int, at_minimum: str, most: int
) -> None:
    random = Random(seed)
    names = ("core", "x", "y")
    groups = [TaskGroup(name=name, min=random.randint(1, 2)) for name in names]
    of: dict[str | None, str] = {
        name: "".join(random.choice("RRP") for _ in range(random.randint(1, 3))) for name in names
    }
    one = elastic("j", of, groups=groups, min_groups=random.randint(1, 3), min_available=1)
    one = evolve(one, tasks=[evolve(task, priority=random.choice((0, 9))) for task in one.tasks])
    runs = sum(task.status is TaskStatus.RUNNING for task in one.tasks)
    gone = decided_within(one, max(1, runs), at_minimum, maxEvictions=most)
    assert len(gone) <= most
