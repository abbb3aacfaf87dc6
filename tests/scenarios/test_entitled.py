"""The scenarios D1 to D16 and D23 to D25: whoever is entitled gets it, nobody goes for nothing.

The others are in `test_broken_gangs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from attrs import field, frozen
from tests.support.clusters import bound, evicted, places

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.live import Cluster

GPU = "nvidia.com/gpu"
ALL = ("allocate", "reclaim", "preempt", "backfill")
CYCLES = 12
"""How many cycles a scenario runs until it is said how it ends."""


# A language: nodes, queues and jobs in whole cpus.


def amount(cpus: float, gpus: float = 0) -> Resource:
    scalars = {GPU: int(gpus * 1000)} if gpus else {}
    return Resource(milli_cpu=int(cpus * 1000), scalars=scalars)


def node(name: str, cpus: float, gpus: float = 0, **more: Any) -> NodeInfo:
    labels = {"name": name}
    return NodeInfo(name=name, allocatable=amount(cpus, gpus), labels=labels, **more)


def queue(name: str, deserved: float = 0, **more: Any) -> Queue:
    return Queue(name=name, deserved=amount(deserved), **more)


def job(
    name: str,
    queue: str,
    *tasks: str,
    minimum: int = 1,
    priority: int = 1,
    gpus: float = 0,
    at: float = 0,
    priority_class: str = "",
) -> JobInfo:
    """A job of the tasks NAME-1, NAME-2, ...

    "2" waits for 2 cpus, "2>n1" does so and fits n1 alone, "2@n1" runs on n1. "2@n1 (5)" has the
    priority 5; the others have that of the job.
    """
    found = []
    for number, text in enumerate(tasks, start=1):
        match = re.fullmatch(r"([\d.]+)(?:>(\w+))?(?:@(\w+))?(?: \((\d+)\))?", text)
        assert match is not None, text
        size, only, place, own_priority = match.groups()
        found.append(
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                resreq=amount(float(size), gpus),
                status=TaskStatus.RUNNING if place else TaskStatus.PENDING,
                node_name=place,
                priority=int(own_priority or priority),
                priority_class_name=priority_class,
                node_selector={"name": only} if only else {},
                creation_time=at,
            )
        )
    return JobInfo(
        name=name,
        queue=queue,
        min_available=minimum,
        priority=priority,
        tasks=found,
        creation_time=at,
    )


def singles(name: str, queue: str, count: int, task: str, **more: Any) -> list[JobInfo]:
    """Jobs of one task each: NAME1, NAME2, ..."""
    return [job(f"{name}{number}", queue, task, **more) for number in range(1, count + 1)]


def deciding(*actions: str) -> Scheduler:
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tiers = [
        {"plugins": ["priority", gang, "conformance"]},
        {"plugins": ["predicates", "capacity", "nodeorder"]},
    ]
    conf = {"actions": list(actions or ALL), "tiers": tiers}
    return Scheduler(SchedulerConfig.from_mapping(conf))


@frozen
class World:
    """A cluster, and who decides in it."""

    nodes: Sequence[NodeInfo]
    queues: Sequence[Queue]
    jobs: Sequence[JobInfo]
    scheduler: Scheduler = field(factory=deciding)

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(nodes=self.nodes, queues=self.queues, jobs=self.jobs)

    def first(self) -> CycleResult:
        """What the first cycle decides."""
        return self.scheduler.schedule(self.snapshot)

    def end(self) -> End:
        """What has become of it after some cycles."""
        cluster = Cluster(self.snapshot)
        evictions: list[str] = []
        for _ in range(CYCLES):
            result = self.scheduler.schedule(cluster.snapshot())
            evictions += evicted(result)
            cluster.carry_out(result, at_once=True)
        return End(cluster.snapshot(), evictions)


@frozen
class End:
    """What has become of a world."""

    snapshot: Snapshot
    evictions: list[str]

    def cpus(self, queue: str) -> float:
        """How many cpus a queue's tasks have at the end."""
        running = [
            task
            for job in self.snapshot.jobs
            for task in job.tasks
            if job.queue == queue and task.status is TaskStatus.RUNNING
        ]
        return sum(task.resreq.milli_cpu for task in running) / 1000


def gpus_of_shares(world: World, names: Iterable[str]) -> list[float]:
    result = world.first()
    return [result.queues[name].fair_share.get(GPU) for name in names]


class TestShares:
    """What there is to share, whole devices, and who goes first."""

    def test_d1_a_node_that_lost_its_devices_keeps_no_others_idle(self) -> None:
        jobs = [*singles("r", "a", 8, "1@n1", gpus=1), job("more", "a", "1", gpus=1)]
        world = World([node("n1", 64), node("n2", 64, gpus=8)], [queue("a")], jobs)
        assert bound(world.first()) == {"more-1": "n2"}

    def test_d2_but_it_keeps_what_is_guaranteed_to_others(self) -> None:
        kept = Queue(name="g", guarantee=amount(0, gpus=4))
        jobs = [*singles("r", "a", 8, "1@n1", gpus=1), *singles("more", "a", 6, "1", gpus=1)]
        world = World([node("n1", 64), node("n2", 64, gpus=8)], [queue("a"), kept], jobs)
        assert list(bound(world.first()).values()) == ["n2"] * 4

    def test_d3_devices_are_shared_out_whole_and_the_odd_one_is_claimed_once(self) -> None:
        queues = [queue("a"), queue("b", creation_time=1), queue("c", creation_time=1)]
        jobs = [
            *singles("a", "a", 3, "1@n1", gpus=1),
            *singles("b", "b", 4, "1@n1", gpus=1),
            *singles("c", "c", 3, "1@n1", gpus=1),
            *(job(f"more-{name}", name, "1", gpus=1, at=1) for name in "abc"),
        ]
        world = World([node("n1", 64, gpus=10)], queues, jobs)
        assert gpus_of_shares(world, "abc") == [4000, 3000, 3000]
        assert world.end().evictions == ["b4-1"]

    @pytest.mark.parametrize(
        ("gpus", "half", "shares"),
        [(7, False, [5000, 2000]), (8, False, [5000, 3000]), (8, True, [5000, 3000])],
    )
    def test_d4_devices_are_shared_out_whole_also_if_somebody_wants_a_part_of_one(
        self, gpus: int, half: bool, shares: list[int]
    ) -> None:
        jobs = [job(name, name, *["1"] * 9, gpus=1) for name in "ab"]
        if half:
            jobs.append(job("half", "a", "1", gpus=0.5))
        world = World([node("n1", 64, gpus=gpus)], [queue("a", weight=2), queue("b")], jobs)
        assert gpus_of_shares(world, "ab") == shares

    def test_d5_of_two_whose_need_exceeds_the_share_the_larger_share_goes_first(self) -> None:
        jobs = [job("a", "a", "1"), job("b", "b", "1")]
        world = World([node("n1", 1)], [queue("a"), queue("b", weight=9)], jobs)
        assert bound(world.first()) == {"b-1": "n1"}

    def test_d24_what_leaves_lost_devices_makes_no_room_for_a_claim_elsewhere(self) -> None:
        queues = [queue("a"), queue("b"), Queue(name="g", guarantee=amount(0, gpus=4))]
        jobs = [
            *singles("lost", "a", 8, "1@n1", gpus=1),
            *singles("held", "a", 4, "1@n2", gpus=1),
            job("b", "b", "1", gpus=1),
        ]
        nodes = [node("n1", 64), node("n2", 64, gpus=8)]
        end = World(nodes, queues, jobs).end()
        assert end.evictions == ["held4-1"]
        coming = [*end.snapshot.jobs, *singles("g", "g", 4, "1", gpus=1)]
        assert len(bound(World(nodes, queues, coming).first())) == 4


class TestLimits:
    """What limits keep out is short as well."""

    JOBS = (job("low", "a", "1@n1"), job("high", "a", "1", priority=100))
    QUEUES = (Queue(name="a", limit=ResourceLimit(milli_cpu=1000)),)

    def test_d6_a_queue_at_its_limit_serves_its_own_priorities(self) -> None:
        world = World([node("n1", 2)], self.QUEUES, self.JOBS)
        result = world.first()
        assert evicted(result) == ["low-1"]
        assert places(result, "high") == {"high-1": "Pipelined n1"}

    def test_d7_also_where_nobody_has_to_leave_the_node(self) -> None:
        jobs = [self.JOBS[0], job("high", "a", "1>n2", priority=100)]
        result = World([node("n1", 1), node("n2", 1)], self.QUEUES, jobs).first()
        assert evicted(result) == ["low-1"]
        assert places(result, "high") == {"high-1": "Pipelined n2"}


class TestClaims:
    """Who claims what from whom."""

    def test_d8_what_nobody_may_evict_uses_up_the_share_first(self) -> None:
        critical = "system-cluster-critical"
        jobs = [
            job("critical", "a", "1@n1", priority_class=critical),
            job("norm", "a", "1@n1", priority=10),
            job("b", "b", "1"),
        ]
        world = World([node("n1", 2)], [queue("a"), queue("b")], jobs)
        assert evicted(world.first()) == ["norm-1"]
        end = world.end()
        assert (end.cpus("a"), end.cpus("b")) == (1, 1)

    def test_d9_what_is_deserved_goes_before_the_surplus_of_others(self) -> None:
        nodes = [node(f"n{number}", 3) for number in range(1, 7)]
        jobs = [
            *(job(f"a{number}", "a", f"2@n{number}") for number in range(1, 7)),
            *singles("more", "a", 3, "2", at=1),
            job("b", "b", "2"),
        ]
        end = World(nodes, [queue("a", 2), queue("b", 2)], jobs).end()
        assert len(end.evictions) == 1
        assert (end.cpus("a"), end.cpus("b")) == (10, 2)

    def test_d10_a_deserved_unit_that_is_larger_than_a_cut_share_takes_its_place(self) -> None:
        jobs = [job("b", "b", "2@n1"), job("a", "a", "2")]
        end = World([node("n1", 2)], [queue("a", 2), queue("b", 1)], jobs).end()
        assert end.evictions == ["b-1"]
        assert (end.cpus("a"), end.cpus("b")) == (2, 0)

    def test_d11_where_more_is_deserved_than_there_is_fair_shares_divide_it(self) -> None:
        jobs = [*singles("b", "b", 8, "1@n1"), *singles("a", "a", 8, "1")]
        end = World([node("n1", 10)], [queue("a", 8), queue("b", 8)], jobs).end()
        assert (end.cpus("a"), end.cpus("b")) == (5, 5)

    def test_d12_loans_inside_a_department_do_not_keep_it_from_claiming(self) -> None:
        queues = [
            queue("d1", weight=0),
            queue("a", 1, parent="d1"),
            queue("d2", 4),
            queue("b", weight=0, parent="d2"),
            queue("c", 4, parent="d2"),
        ]
        jobs = [job("a", "a", "2@n1"), job("b", "b", "2@n1"), job("c", "c", "4")]
        world = World([node("n1", 4)], queues, jobs)
        assert sorted(evicted(world.first())) == ["a-1", "b-1"]
        assert world.end().cpus("c") == 4

    def test_d13_what_is_deserved_is_claimed_from_whom_it_can_be_had(self) -> None:
        queues = [
            queue("d0"),
            queue("x", 1, parent="d0"),
            queue("y", parent="d0"),
            queue("d1", 3),
            queue("c", parent="d1"),
        ]
        jobs = [
            job("x", "x", "2@n1"),
            job("x-more", "x", "5", at=1),
            job("y", "y", "1@n1"),
            job("c", "c", "1@n0"),
            job("c-more", "c", "2", at=1),
        ]
        result = World([node("n0", 2), node("n1", 3)], queues, jobs).first()
        assert evicted(result) == ["x-1"]
        assert places(result, "c-more") == {"c-more-1": "Pipelined n1"}

    def test_d14_only_one_gang_goes_where_one_is_enough(self) -> None:
        jobs = [
            job("u1", "b", "3@n0"),
            job("u2", "b", "4@n1"),
            job("a", "a", "2", "2", minimum=2),
        ]
        queues = [queue("a", 7), queue("b", weight=0)]
        assert evicted(World([node("n0", 3), node("n1", 4)], queues, jobs).first()) == ["u2-1"]

    def test_d15_what_a_department_keeps_for_a_guarantee_counts_as_had(self) -> None:
        queues = [
            queue("d"),
            queue("d1", parent="d"),
            Queue(name="d2", parent="d", guarantee=amount(2)),
            queue("e", 3),
        ]
        jobs = [*singles("d1-", "d1", 4, "1@n1"), *singles("e", "e", 3, "1")]
        end = World([node("n1", 6)], queues, jobs).end()
        assert (end.cpus("d1"), end.cpus("e")) == (1, 3)

    def test_d23_who_was_taken_and_is_not_enough_is_left_out(self) -> None:
        queues = [
            queue("d", 3, weight=0),
            queue("b", parent="d"),
            queue("c", 2, weight=0, parent="d"),
            queue("e", 3, weight=0),
        ]
        jobs = [
            job("L", "b", "3@n1", priority=5),
            job("s", "b", "2@n1"),
            job("c", "c", "2>nowhere"),
            job("e", "e", "3"),
        ]
        world = World([node("n1", 5), node("n2", 1)], queues, jobs, deciding("reclaim"))
        assert evicted(world.first()) == ["L-1"]


class TestPreemptionInAQueue:
    """Priorities do not put what no share covers in the place of what one covers."""

    def test_d16_a_need_that_would_not_be_covered_takes_nothing_that_is(self) -> None:
        jobs = [
            job("a2", "a", "2@n1"),
            job("a4", "a", "4", priority=10),
            job("b", "b", "3>nowhere"),
        ]
        queues = [queue("a", weight=3), queue("b", weight=2)]
        world = World([node("n1", 5), node("n2", 1)], queues, jobs)
        assert world.end().evictions == []

    def test_d25_a_covered_core_goes_for_a_job_that_comes_before_it_in_value_order(self) -> None:
        jobs = [
            job("x", "a", "1@n1 (5)", "1@n1 (5)", "1@n2 (4)", minimum=2),
            job("y", "a", "2>n1 (1)", priority=100),
            job("p", "p", "1>nowhere"),
        ]
        world = World([node("n1", 2), node("n2", 1)], [queue("a"), queue("p", 1)], jobs)
        assert world.end().evictions == ["x-3", "x-2", "x-1"]
