"""The scenarios N1 to N18: who comes first goes first, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import cluster, evicted, job, node

from batchsched import JobInfo, Scheduler, SchedulerConfig, Snapshot, TaskStatus
from batchsched.live import Cluster

ONE = "1C1G"
GANG = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
FIRST_TIER = ["priority", GANG, "conformance"]
SHARES = {
    "capacity": ["predicates", "capacity", "nodeorder"],
    "proportion": ["drf", "predicates", "proportion", "nodeorder"],
    "none": ["predicates", "nodeorder"],
}
"""The plugins of the second tier, by the plugin that gives queues their shares."""


def deciding(*actions: object, shares: str = "none", **more: Any) -> Scheduler:
    tiers = [{"plugins": FIRST_TIER}, {"plugins": SHARES.get(shares, [])}]
    named = {} if shares == "default" else {"tiers": tiers}
    mapping = {"actions": list(actions or ["allocate", "preempt"]), **named}
    return Scheduler(SchedulerConfig.from_mapping(mapping), **more)


def run(using: Scheduler, snapshot: Snapshot, cycles: int = 6) -> tuple[list[str], set[str]]:
    """Run some cycles; return what was evicted, in order, and what runs at the end."""
    world = Cluster(snapshot)
    gone: list[str] = []
    for _ in range(cycles):
        result = using.schedule(world.snapshot())
        gone += evicted(result)
        world.carry_out(result)
    return gone, {
        task.uid
        for one in world.snapshot().jobs
        for task in one.tasks
        if task.status is TaskStatus.RUNNING
    }


def nodes(count: int, size: str = ONE) -> list[Any]:
    return [node(f"n{number}", size) for number in range(1, count + 1)]


def naming(one: JobInfo, priority: int) -> JobInfo:
    """The same job, the tasks of which name a priority of their own."""
    return evolve(one, tasks=[evolve(task, priority=priority) for task in one.tasks])


class TestPriorities:
    """A job's priority goes before its tasks'."""

    @pytest.mark.parametrize("shares", ["default", *SHARES])
    def test_n1_the_more_important_job_gets_the_node(self, shares: str) -> None:
        low, high = job("low", f"{ONE}@n1", priority=10), job("high", ONE, priority=50)
        actions = "reclaim", "allocate", "preempt"
        using = deciding(*actions, shares=shares)
        assert run(using, cluster(nodes(1), low, high)) == (["low-1"], {"high-1"})

    def test_n2_of_two_victims_the_less_important_job_goes(self) -> None:
        jobs = [
            job("low", f"{ONE}@n1", priority=10),
            job("middle", f"{ONE}@n2", priority=20),
            job("top", ONE, priority=50),
        ]
        assert run(deciding(), cluster(nodes(2), *jobs)) == (["low-1"], {"middle-1", "top-1"})

    @pytest.mark.parametrize("shares", ["capacity", "proportion"])
    def test_n3_a_queue_gives_up_its_least_important_job(self, shares: str) -> None:
        jobs = [
            job("b1", f"{ONE}@n1", queue="b", priority=1),
            job("b2", f"{ONE}@n2", queue="b", priority=100),
            job("a1", ONE, queue="a"),
        ]
        snapshot = cluster(nodes(2), *jobs, queues=("a", "b"))
        gone, _ = run(deciding("reclaim", "allocate", shares=shares), snapshot)
        assert gone == ["b1-1"]

    def test_n4_gangs_are_compared_by_their_own_priorities(self) -> None:
        jobs = [
            naming(job("low", f"{ONE}@n1", f"{ONE}@n2", priority=10), 1000),
            job("middle", f"{ONE}@n3", f"{ONE}@n4", priority=20),
            job("top", ONE, ONE, priority=50),
        ]
        gone, runs = run(deciding(), cluster(nodes(4), *jobs))
        assert sorted(gone) == ["low-1", "low-2"]
        assert runs == {"middle-1", "middle-2", "top-1", "top-2"}
