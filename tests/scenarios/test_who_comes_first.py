"""The scenarios N1 to N18: who comes first goes first, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import Simulation, cluster, evicted, job, node, places
from tests.support.cycles import Cycles

from batchsched import (
    CycleResult,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskStatus,
    WhyPending,
)
from batchsched.live import Cluster, JobArrived, TaskSucceeded
from batchsched.trace import StatementEnded

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
        world.carry_out(result, at_once=True)
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


def near_its_leader(name: str, *places: str, of: int = 100, **more: Any) -> JobInfo:
    """A worker, which must be in the zone of the leader, before the leader in task order."""
    worker, leader = job(name, *places, priority=of, **more).tasks
    leaders = LabelSelector(match_labels={"app": "leader"})
    terms = [PodAffinityTerm(selector=leaders, topology_key="zone")]
    near = evolve(worker, pod_affinity=PodAffinity(required=terms))
    both = [near, evolve(leader, labels={"app": "leader"})]
    return evolve(job(name, *places, priority=of, **more), tasks=both)


def zoned(*zones: str) -> list[NodeInfo]:
    return [
        node(f"n{number}", ONE, labels={"zone": zone}) for number, zone in enumerate(zones, start=1)
    ]


class TestLeadersAndWorkers:
    """What must be near another task of its job is tried again once that has a place."""

    @pytest.mark.parametrize("plain", [False, True])
    @pytest.mark.parametrize("first", ["allocate", "preempt", "reclaim"])
    def test_n10_a_worker_before_its_leader_starts_in_the_first_cycle(
        self, first: str, plain: bool
    ) -> None:
        snapshot = cluster(
            zoned("a", "b", "b"), near_its_leader("g", ONE, ONE), job("x", f"{ONE}@n1")
        )
        result = deciding(first, shares="capacity", plain=plain).schedule(snapshot)
        assert places(result, "g") == {"g-1": "Binding n3", "g-2": "Binding n2"}

    @pytest.mark.parametrize("plain", [False, True])
    def test_a_worker_whose_leader_was_promised_a_place_ends_the_turn_of_reclaim(
        self, plain: bool
    ) -> None:
        worker, leader = near_its_leader("g", ONE, ONE, of=9).tasks
        third = evolve(job("g", *[ONE] * 3, priority=9).tasks[2])
        gang = evolve(
            near_its_leader("g", ONE, ONE, minimum=1, of=9), tasks=[worker, leader, third]
        )
        low = job("low", f"{ONE}@n1", f"{ONE}@n2", priority=1)
        snapshot = cluster(zoned("a", "b"), gang, low)
        result = deciding("preempt", "reclaim", shares="capacity", plain=plain).schedule(snapshot)
        assert places(result, "g") == {"g-1": "Pending", "g-2": "Pipelined n1", "g-3": "Pending"}

    def test_the_rest_of_a_ready_gang_is_tried_again_too(self) -> None:
        one = near_its_leader("g", ONE, ONE, minimum=1)
        result = deciding("allocate").schedule(cluster(zoned("a", "a"), one))
        assert places(result) == {"g-1": "Binding n2", "g-2": "Binding n1"}

    def test_nobody_is_passed_over_for_a_leader_that_finds_no_place(self) -> None:
        snapshot = cluster(zoned("a"), near_its_leader("g", ONE, "2C2G"), job("z", ONE))
        result = deciding("allocate").schedule(snapshot)
        assert places(result) == {"g-1": "Pending", "g-2": "Pending", "z-1": "Binding n1"}

    def test_another_worker_of_its_group_takes_the_place_only_in_the_end(self) -> None:
        worker, leader = near_its_leader("g", ONE, ONE).tasks
        other = evolve(worker, uid="g-3", name="g-3", pod_affinity=None)
        groups = [TaskGroup(name=name, min=1) for name in ("workers", "leader")]
        of = {"g-1": "workers", "g-2": "leader", "g-3": "workers"}
        tasks = [evolve(task, group=of[task.uid]) for task in (worker, leader, other)]
        one = JobInfo(name="g", queue="q", tasks=tasks, groups=groups)
        result = deciding("allocate").schedule(cluster(zoned("a", "a"), one))
        assert places(result) == {"g-1": "Binding n2", "g-2": "Binding n1", "g-3": "Pending"}
        no_leader = evolve(leader, labels={}, group="leader")
        one = evolve(one, tasks=[tasks[0], no_leader, tasks[2]])
        result = deciding("allocate").schedule(cluster(zoned("a", "a"), one))
        assert places(result) == {"g-1": "Pending", "g-2": "Binding n1", "g-3": "Binding n2"}

    @pytest.mark.parametrize(("mark", "actions"), [("~", ["preempt"]), (">", ["allocate"])])
    def test_promised_and_reserved_workers_wait_for_their_leader_too(
        self, mark: str, actions: list[str]
    ) -> None:
        waiting = near_its_leader("g", f"{ONE}{mark}n1", f"{ONE}{mark}n2")
        result = deciding(*actions).schedule(cluster(zoned("a", "a"), waiting))
        assert places(result) == {"g-1": "Binding n1", "g-2": "Binding n2"}


def taken_back(result: CycleResult) -> list[str]:
    return [each.task_uid for each in result.taken_back]


def late(request: str) -> JobInfo:
    """The most important job, which has come last."""
    return job("g", request, priority=9, creation_time=5)


def by_age(*actions: object, **more: Any) -> Scheduler:
    """One that takes older jobs first, whatever their priorities; these count in preemption."""
    in_order = {"name": "priority", "enableJobOrder": False}
    tiers = [{"plugins": [in_order, GANG]}, {"plugins": SHARES["none"]}]
    mapping = {"actions": list(actions), "tiers": tiers}
    return Scheduler(SchedulerConfig.from_mapping(mapping), **more)


class TestWhatThisCycleBound:
    """It can be taken back for who comes first, as no caller has seen it."""

    @pytest.mark.parametrize("gang", [False, True])
    @pytest.mark.parametrize("shares", ["default", *SHARES])
    @pytest.mark.parametrize("actions", [("allocate", "preempt"), ("preempt", "allocate")])
    def test_n11_a_stream_of_small_jobs_does_not_keep_out_the_most_important_one(
        self, actions: tuple[str, str], shares: str, gang: bool
    ) -> None:
        small = [job("s0", f"{ONE}@n1", priority=0), job("s1", f"{ONE}@n1", priority=0)]
        important = job("g", *([ONE, ONE] if gang else ["2C2G"]), priority=9)
        run = Simulation(
            deciding(*actions, shares=shares),
            cluster(nodes(1, "2C2G"), *small),
            ends={"s0-1": 1, "s1-1": 2},
            duration=2,
        )
        gone: list[str] = []
        for now in range(12):
            result = run.cycle()
            gone += evicted(result)
            for uid in evicted(result):
                run.ends.pop(uid)
            if any(bind.task_uid == "g-1" for bind in result.binds):
                break
            arriving = [job(f"t{now:02}", ONE, priority=0, creation_time=now + 1)]
            run.step(new_jobs=[*arriving, important] if now == 4 else arriving)
        assert now <= 8
        assert len(gone) <= 1

    @pytest.mark.parametrize("plain", [False, True])
    def test_n12_it_is_pending_again_and_says_why(self, plain: bool) -> None:
        jobs = [
            job("lo1", f"{ONE}@n1", priority=1),
            job("lo2", ONE, priority=1),
            late("2C2G"),
        ]
        result = deciding(plain=plain).schedule(cluster(nodes(1, "2C2G"), *jobs))
        assert (result.binds, evicted(result), taken_back(result)) == ((), ["lo1-1"], ["lo2-1"])
        assert places(result) == {
            "g-1": "Pipelined n1",
            "lo1-1": "Releasing n1",
            "lo2-1": "Pending",
        }
        reason = result.pending["lo2-1"]
        assert (reason.why, reason.taken_for) == (WhyPending.TAKEN_BACK, "default/g")
        assert reason.text == "its place was taken back for default/g"
        (taken,) = result.taken_back
        assert (taken.node_name, taken.action, taken.for_task_uid) == ("n1", "preempt", "g-1")
        assert CycleResult.from_dict(result.to_dict()) == result

    def test_where_nothing_is_evicted_the_claimant_starts_at_once(self) -> None:
        """What lost its place is placed again by a later action, not by the same one."""
        jobs = [job("lo", ONE), late("2C2G")]
        snapshot = cluster([node("n1", "2C2G"), node("n2", ONE)], *jobs)
        full = [*snapshot.jobs, job("x", f"{ONE}@n2", priority=50)]
        result = by_age("allocate", "preempt", "allocate").schedule(evolve(snapshot, jobs=full))
        assert places(result, "lo", "g") == {"g-1": "Binding n1", "lo-1": "Pending"}
        gone = [*snapshot.jobs, job("x", f"{ONE}@n2", priority=0)]
        result = by_age("allocate", "preempt", "allocate").schedule(evolve(snapshot, jobs=gone))
        assert places(result) == {"g-1": "Binding n1", "lo-1": "Pending", "x-1": "Running n2"}
        result = by_age("allocate", "preempt", "allocate").schedule(snapshot)
        assert places(result) == {"g-1": "Binding n1", "lo-1": "Binding n2"}

    @pytest.mark.parametrize("rule", [{"maxEvictions": 0}, {"minRuntime": 100}])
    def test_it_is_no_eviction_for_limits_on_these(self, rule: dict[str, int]) -> None:
        jobs = [job("lo", ONE), late("2C2G")]
        using = by_age("allocate", {"name": "preempt", "arguments": rule})
        result = using.schedule(cluster(nodes(1, "2C2G"), *jobs))
        assert places(result) == {"g-1": "Binding n1", "lo-1": "Pending"}
        assert (evicted(result), taken_back(result)) == ([], ["lo-1"])

    def test_what_costs_no_eviction_goes_before_what_costs_one(self) -> None:
        jobs = [
            job("runs", f"{ONE}@n1", priority=1),
            job("waits", ONE, priority=2),
            late(ONE),
        ]
        using = by_age("allocate", "preempt")
        result = using.schedule(cluster(nodes(2), *jobs))
        assert (evicted(result), taken_back(result)) == ([], ["waits-1"])

    def test_n18_no_task_takes_the_place_of_another_of_its_job(self) -> None:
        tasks = [ONE] * 6
        snapshot = cluster(nodes(1, "2C2G"), job("a", *tasks, minimum=1))
        result = deciding().schedule(snapshot)
        assert [bind.task_uid for bind in result.binds] == ["a-1", "a-2"]
        assert taken_back(result) == []

    @pytest.mark.parametrize("priority", [5, 6, 7])
    @pytest.mark.parametrize("mark", ["~", ">"])
    def test_what_starts_as_promised_stays_but_for_a_higher_priority(
        self, mark: str, priority: int
    ) -> None:
        jobs = [job("old", f"{ONE}{mark}n1", priority=priority), job("g", ONE, priority=6)]
        result = deciding().schedule(cluster(nodes(1), *jobs))
        assert taken_back(result) == (["old-1"] if priority < 6 else [])

    def test_a_gang_loses_all_of_its_binds_or_none(self) -> None:
        jobs = [job("lo", ONE, ONE), late(ONE)]
        result = by_age("allocate", "preempt").schedule(cluster(nodes(2), *jobs))
        assert places(result) == {"g-1": "Binding n1", "lo-1": "Pending", "lo-2": "Pending"}
        assert taken_back(result) == ["lo-2", "lo-1"]

    def test_a_living_cluster_decides_the_same_after_what_was_taken_back(self) -> None:
        jobs = [job("lo", ONE), late("2C2G")]
        using = by_age("allocate", "preempt")
        world = Cluster(cluster(nodes(1, "2C2G"), *jobs))
        living = using.attach(world)
        for _ in range(3):
            result = living.schedule()
            assert result == using.schedule(world.snapshot())
            world.carry_out(result)

    def test_the_trace_tells_it(self) -> None:
        jobs = [job("lo", ONE), late("2C2G")]
        log: list[Any] = []
        by_age("allocate", "preempt", trace=log.append).schedule(cluster(nodes(1, "2C2G"), *jobs))
        (ended,) = [e for e in log if isinstance(e, StatementEnded) and e.action == "preempt"]
        assert ended.job == "default/g"
        assert [(step.task, step.node, step.status) for step in ended.steps] == [
            ("lo-1", "n1", "Pending"),
            ("g-1", "n1", "Allocated"),
        ]


class TestWhatCanNeverBeHad:
    """A task that alone exceeds a limit, or what there is, keeps no others waiting."""

    @pytest.mark.parametrize("plain", [False, True])
    @pytest.mark.parametrize("shares", ["capacity", "proportion"])
    @pytest.mark.parametrize("action", ["allocate", "preempt", "reclaim", "plan"])
    def test_n13_the_tasks_that_a_limit_allows_start(
        self, action: str, shares: str, plain: bool
    ) -> None:
        snapshot = limited(node("n1", "8C8G"), 2, job("j", "3C1G", ONE, ONE, minimum=1))
        result = deciding(action, shares=shares, plain=plain).schedule(snapshot)
        assert [bind.task_uid for bind in result.binds] == ["j-2", "j-3"]
        if action == "allocate":
            reason = "3 cpu exceed the limit of 2 of queue 'q'"
            assert result.pending["j-1"].text.startswith(reason)

    @pytest.mark.parametrize("action", ["allocate", "plan"])
    def test_n14_the_tasks_that_there_is_room_for_start(self, action: str) -> None:
        held = job("held", "6C1G@n1", queue="other")
        snapshot = cluster(
            nodes(1, "8C8G"), held, job("j", "3C1G", ONE, minimum=1), queues=("other", "q")
        )
        result = deciding(action, shares="capacity").schedule(snapshot)
        assert [bind.task_uid for bind in result.binds] == ["j-2"]

    @pytest.mark.parametrize(("sizes", "starts"), [((3, 2, 2), []), ((2, 2, 3), ["j-1", "j-2"])])
    def test_what_may_be_had_together_is_found_greedily(
        self, sizes: tuple[int, ...], starts: list[str]
    ) -> None:
        tasks = [f"{size}C1G" for size in sizes]
        snapshot = limited(node("n1", "8C8G"), 4, job("j", *tasks, minimum=2))
        result = deciding("allocate", shares="capacity").schedule(snapshot)
        assert [bind.task_uid for bind in result.binds] == starts

    @pytest.mark.parametrize("plain", [False, True])
    def test_what_is_passed_over_says_why_although_the_others_may_not_start(
        self, plain: bool
    ) -> None:
        large, small = naming(job("j", "2C1G", ONE, minimum=1), 1).tasks
        both = evolve(job("j", minimum=1), tasks=[evolve(large, priority=9), small])
        snapshot = cluster(nodes(1), job("r", f"{ONE}@n1"), both)
        result = deciding("allocate", shares="capacity", plain=plain).schedule(snapshot)
        assert result.pending["j-1"].why is WhyPending.NO_NODE
        assert "no node is large enough" in result.pending["j-1"].text

    @pytest.mark.parametrize("shares", ["capacity", "proportion"])
    def test_n15_nobody_is_evicted_for_what_a_limit_never_allows(self, shares: str) -> None:
        jobs = [job("old", f"{ONE}@n1", f"{ONE}@n1", minimum=1), job("new", "2C1G", priority=9)]
        snapshot = limited(node("n1", "2C2G"), 1, *jobs)
        result = deciding("allocate", "preempt", shares=shares).schedule(snapshot)
        assert evicted(result) == []
        assert "2 cpu exceed the limit of 1 of queue 'q'" in result.pending["new-1"].text


def limited(where: NodeInfo, limit: int, *jobs: JobInfo) -> Snapshot:
    """A cluster of one node, and of one queue with a limit in cpus."""
    snapshot = cluster([where], *jobs)
    most = Queue(name="q", limit=ResourceLimit(milli_cpu=limit * 1000))
    return evolve(snapshot, queues=[most])


class TestPromises:
    """A promise is no chain: neither for whom it was made, nor for who is more important."""

    def test_n5_a_promised_job_starts_on_another_node_that_is_free(self) -> None:
        jobs = [job("lo", f"{ONE}@n1"), job("x", f"{ONE}@n2", priority=50)]
        using = deciding("allocate", "preempt")
        world = Cycles(using, cluster(nodes(2), *jobs, job("hi", ONE, priority=9)), leaving=8)
        for cycle in range(1, 5):
            result = world.cycle()
            if cycle < 4:
                assert places(result, "hi") == {"hi-1": "Pipelined n1"}
            world.step(*([TaskSucceeded("x-1")] if cycle == 3 else []))
        assert places(result, "hi") == {"hi-1": "Binding n2"}
        assert [each.task_uid for each in result.dropped_promises] == ["hi-1"]

    def test_n6_a_gang_does_not_wait_for_one_slow_node(self) -> None:
        gang = job("g", f"{ONE}~n1", f"{ONE}~n2", f"{ONE}~n3", f"{ONE}~n4", priority=9)
        slow = job("slow", f"{ONE}!n1")
        result = deciding().schedule(cluster(nodes(8), gang, slow))
        assert places(result, "g") == {
            "g-1": "Binding n5",
            "g-2": "Binding n2",
            "g-3": "Binding n3",
            "g-4": "Binding n4",
        }

    @pytest.mark.parametrize("plain", [False, True])
    def test_n16_a_promise_gives_way_to_a_more_important_job(self, plain: bool) -> None:
        using = deciding(plain=plain)
        jobs = [job("lo", f"{ONE}@n1", priority=0), job("mid", ONE, priority=100)]
        world = Cycles(using, cluster(nodes(1), *jobs), leaving=6)
        gone: list[str] = []
        for cycle in range(9):
            result = world.cycle()
            gone += evicted(result)
            if cycle == 4:
                assert places(result, "hi", "mid") == {"hi-1": "Pipelined n1", "mid-1": "Pending"}
                (dropped,) = result.dropped_promises
                assert (dropped.task_uid, dropped.for_task_uid) == ("mid-1", "hi-1")
                assert result.pending["mid-1"].taken_for == "default/hi"
            if any(bind.task_uid == "hi-1" for bind in result.binds):
                break
            world.step(*([JobArrived(job("hi", ONE, priority=1000))] if cycle == 3 else []))
        assert gone == ["lo-1"]
        assert places(result, "hi", "mid") == {"hi-1": "Binding n1", "mid-1": "Pending"}

    @pytest.mark.parametrize("plain", [False, True])
    def test_n17_what_is_held_and_not_bound_gives_way(self, plain: bool) -> None:
        hold = {"name": "allocate", "arguments": {"unready": "hold"}}
        jobs = [
            job("lo", f"{ONE}@n1", priority=1),
            job("L", ONE, ONE, priority=2),
            job("g", "2C2G", priority=9),
        ]
        result = deciding(hold, "preempt", plain=plain).schedule(cluster(nodes(1, "2C2G"), *jobs))
        assert evicted(result) == ["lo-1"]
        assert places(result) == {
            "g-1": "Pipelined n1",
            "lo-1": "Releasing n1",
            "L-1": "Pending",
            "L-2": "Pending",
        }

    def test_where_priorities_do_not_count_nothing_gives_way(self) -> None:
        tiers = [{"plugins": [GANG]}, {"plugins": SHARES["none"]}]
        conf = {"actions": ["preempt"], "tiers": tiers}
        jobs = [
            job("slow", f"{ONE}!n1"),
            job("mid", f"{ONE}~n1", priority=1),
            job("hi", ONE, priority=9),
        ]
        result = Scheduler(SchedulerConfig.from_mapping(conf)).schedule(cluster(nodes(1), *jobs))
        assert places(result, "mid", "hi") == {"mid-1": "Pipelined n1", "hi-1": "Pending"}


ORDERS = [
    "reclaim, allocate, preempt",
    "allocate, reclaim, preempt",
    "allocate, preempt, reclaim",
    "preempt, allocate, reclaim",
    "reclaim, preempt, allocate",
]


class TestWhatReclaimTakesBack:
    """What this cycle bound for less important jobs of the own queue stands in nobody's way."""

    @pytest.mark.parametrize("plain", [False, True])
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("shares", ["capacity", "proportion"])
    @pytest.mark.parametrize("as_gang", [False, True])
    def test_one_victim_is_of_the_own_queue_and_one_of_another(
        self, order: str, shares: str, plain: bool, as_gang: bool
    ) -> None:
        snapshot = evolve(
            cluster(
                [node("n1", "2C0G"), node("n2", "1C0G", unschedulable=True)],
                job("lent", "1C0G@n1", queue="b"),
                job("low", "1C0G", priority=1, queue="a"),
                job("high", *(["1C0G"] * 2 if as_gang else ["2C0G"]), priority=9, queue="a"),
            ),
            queues=[
                Queue(name="a", weight=9, deserved=Resource(milli_cpu=2000)),
                Queue(name="b", weight=1, deserved=Resource(milli_cpu=0)),
            ],
        )
        using = deciding(*order.split(", "), shares=shares, plain=plain)
        gone, runs = run(using, snapshot)
        assert gone == ["lent-1"]
        assert runs == ({"high-1", "high-2"} if as_gang else {"high-1"})

    @pytest.mark.parametrize("plain", [False, True])
    def test_what_is_not_needed_is_not_taken_back(self, plain: bool) -> None:
        snapshot = evolve(
            cluster(
                [node("n1", "2C0G"), node("n2", "1C0G"), node("n3", "2C0G")],
                job("lent", "1C0G@n1", queue="b"),
                job("lower", "1C0G", priority=1, queue="a"),
                job("low", "1C0G", priority=2, queue="a"),
                job("fills", "2C0G@n3", priority=99, queue="a"),
                job("high", "2C0G", priority=9, queue="a"),
            ),
            queues=[
                Queue(name="a", deserved=Resource(milli_cpu=9000)),
                Queue(name="b", deserved=Resource(milli_cpu=0)),
            ],
        )
        result = deciding("allocate", "reclaim", shares="capacity", plain=plain).schedule(snapshot)
        back = [each.task_uid for each in result.taken_back]
        bound = {bind.task_uid: bind.node_name for bind in result.binds}
        assert evicted(result) == ["lent-1"]
        assert len(back) == len(bound) == 1
        assert set(bound.values()) == {"n2"}
