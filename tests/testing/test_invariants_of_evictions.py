"""Protection, claims, sparing and swaps: each law catches what is wrong in its way."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.support.clusters import amount, cluster, job, node
from tests.support.doctoring import evicted, placed
from tests.support.expecting import RUNNING, Doctor, expect, policy, with_task
from tests.support.invariants import check_cycle

from batchsched import (
    CycleResult,
    Eviction,
    HostPort,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    ResourceLimit,
    Scheduler,
    TaskStatus,
)
from batchsched.testing import InvariantViolation

S = TaskStatus
LOST = Eviction(task_uid="lost-1", node_name="n1", action="preempt", for_task_uid="w-1")


class TestProtection:
    def swap(self, action: str = "preempt") -> Doctor:
        return lambda r: placed(evicted(r, "r-1", "w-1", action), "w-1", S.PIPELINED, "n1")

    def test_the_more_important_are_protected(self) -> None:
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("r", "1C1G@n1", "1C1G@n1", minimum=0, priority=5),
            job("w", "1C1G", priority=1),
        )
        said = "task 'r-1' is evicted by preempt for 'w-1', but its job has priority 5"
        expect("protection", snapshot, policy("preempt"), self.swap(), said)

    def test_the_system_is_protected(self) -> None:
        critical = "system-node-critical"
        snapshot = cluster(
            [node("n1", "1C1G")],
            job("r", "1C1G@n1", minimum=0, priority_class_name=critical),
            job("w", "1C1G", priority=1),
        )
        said = "but it is a critical task of the system, which conformance protects"
        expect("protection", snapshot, policy("preempt"), self.swap(), said)

    def test_nobody_named_the_victim(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1", minimum=0), job("w", "1C1G"))
        plugins = ["priority", "gang", "predicates"]
        said = "but no tier's plugins can have called it a victim"
        expect("protection", snapshot, policy("preempt", plugins=plugins), self.swap(), said)

    def test_a_queue_falls_below_its_share(self) -> None:
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("r", "1C1G@n1", minimum=0, queue="q1"),
            job("s", "1C1G@n1", minimum=0, queue="q2"),
            job("w", "1C1G", queue="q2"),
            queues=["q1", "q2"],
        )
        said = "in what it holds, queue 'q1' has at most 1000 cpu, 1073741824 memory, but deserves"
        expect("shares", snapshot, policy("reclaim"), self.swap("reclaim"), said)

    def test_a_queue_loses_what_its_share_covers_instead_of_the_rest(self) -> None:
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("r", "1C1G@n1", minimum=0, queue="q1", priority=5),
            job("s", "1C1G@n1", minimum=0, queue="q1", namespace="kube-system"),
            job("w", "1C1G", queue="q2"),
            queues=["q1", "q2"],
        )
        said = "covered by the share of queue 'q1': its job and those before it have at most 1000"
        expect("shares", snapshot, policy("reclaim"), self.swap("reclaim"), said)

    def test_a_queue_loses_what_it_deserves_and_what_can_be_met(self) -> None:
        deserved = Queue(name="q1", deserved=amount("1C1G"))
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("r", "1C1G@n1", minimum=0, queue="q1"),
            job("s", "1C1G@n1", minimum=0, queue="q2"),
            job("w", "1C1G", queue="q2"),
            queues=["q1", "q2"],
        )
        snapshot = evolve(snapshot, queues=[deserved, Queue(name="q2")])
        config = policy("reclaim", plugins=["gang", "predicates", "capacity"])
        said = "queue 'q1' has at most 1000 cpu, 1073741824 memory, which it deserves"
        expect("shares", snapshot, config, self.swap("reclaim"), said)


def of(app: str) -> PodAffinity:
    selector = LabelSelector(match_labels={"app": app})
    return PodAffinity(required=(PodAffinityTerm(selector=selector, topology_key="zone"),))


WEB = [HostPort(port=80)]


class TestClaims:
    @pytest.mark.parametrize(
        ("wants", "said"),
        [
            ({"pod_affinity": of("x")}, "no task that it must be near, by zone, will be there"),
            (
                {"pod_anti_affinity": of("y")},
                "from which anti-affinity keeps it as long as task 'r-2' is there",
            ),
            ({"host_ports": WEB}, "where task 'r-2' will have TCP port 80"),
        ],
    )
    def test_a_promise_that_cannot_be_kept(self, wants: dict[str, object], said: str) -> None:
        pair = job("r", "1C1G@n1", "1C1G@n1")
        x, y = (
            evolve(task, labels={"app": app}, host_ports=WEB if app == "y" else ())
            for task, app in zip(pair.tasks, "xy", strict=True)
        )
        snapshot = cluster(
            [node("n1", "2C2G", labels={"zone": "a"})], evolve(pair, tasks=[x, y]), job("w", "1C1G")
        )

        def doctor(result: CycleResult) -> CycleResult:
            return placed(evicted(result, "r-1", "w-1"), "w-1", S.PIPELINED, "n1")

        said = f"evicted from 'n1' by preempt in vain: task 'w-1' is promised node 'n1', {said}"
        said = said.replace("'n1', no task", "'n1', and no task")
        expect("claims", with_task(snapshot, "w-1", **wants), policy("preempt"), doctor, said)

    SNAPSHOT = cluster(
        [node("n1", "3C3G"), node("n2", "1C1G", unschedulable=True)],
        job("r", "1C1G@n1", "1C1G@n1", minimum=1),
        job("w", "1C1G"),
        job("v", "", queue="q2"),
        job("lost", "1C1G@n1", queue="nowhere"),
        queues=["q", "q2"],
    )

    @pytest.mark.parametrize(
        ("doctor", "said"),
        [
            (
                lambda r: evicted(r, "r-1", "w-1"),
                "task 'r-1' is evicted from 'n1' by preempt for 'w-1', which is Pending on None",
            ),
            (
                lambda r: placed(evicted(r, "r-1", "w-1"), "w-1", S.PIPELINED, "n2"),
                "for 'w-1', which is Pipelined on 'n2' afterwards",
            ),
            (
                lambda r: placed(evicted(r, "r-1", "w-1", "steal"), "w-1", S.PIPELINED, "n1"),
                "by steal, which is not configured",
            ),
            (
                lambda r: placed(evicted(r, "r-1", "v-1"), "v-1", S.PIPELINED, "n1"),
                "for 'v-1', which requests nothing",
            ),
            (
                lambda r: placed(evicted(r, "r-1", "w-1", "reclaim"), "w-1", S.PIPELINED, "n1"),
                "by reclaim for 'w-1', which is of the same queue",
            ),
            (
                lambda r: placed(evicted(r, "r-1", "w-1", "allocate"), "w-1", S.PIPELINED, "n1"),
                "by allocate, which does not evict without evictBackfill",
            ),
            (
                lambda r: placed(evicted(r, "r-1", "w-1", "backfill"), "w-1", S.PIPELINED, "n1"),
                "by backfill, which never evicts",
            ),
            (
                lambda r: evolve(r, evictions=[LOST]),
                "'lost-1' is evicted from 'n1' by preempt, but it does not belong to a job of the",
            ),
            (
                lambda r: evicted(r, "r-1", "lost-1"),
                "by preempt for 'lost-1', which does not belong to a job of the session",
            ),
        ],
    )
    def test_wrong_claims(self, doctor: Doctor, said: str) -> None:
        config = policy("allocate", "preempt", "reclaim", plugins=["gang", "predicates"])
        idle = evolve(config, actions=[*config.actions, *policy("backfill").actions])
        result = Scheduler(policy("allocate", plugins=["gang", "predicates"])).schedule(
            self.SNAPSHOT
        )
        with pytest.raises(InvariantViolation) as caught:
            check_cycle(self.SNAPSHOT, doctor(result), idle, invariants=["claims"])
        assert said in caught.value.problem

    def test_preempting_in_another_queue(self) -> None:
        snapshot = cluster(
            [node("n1", "1C1G")],
            job("r", "1C1G@n1", minimum=0),
            job("w", "1C1G", queue="q2"),
            queues=["q", "q2"],
        )

        def doctor(result: CycleResult) -> CycleResult:
            return placed(evicted(result, "r-1", "w-1"), "w-1", S.PIPELINED, "n1")

        said = "for 'w-1', which is of another queue"
        expect("claims", snapshot, policy("preempt"), doctor, said)

    def test_evicting_what_is_no_backfill(self) -> None:
        config = policy({"name": "allocate", "arguments": {"evictBackfill": True}})

        def doctor(result: CycleResult) -> CycleResult:
            return placed(evicted(result, "r-1", "w-1", "allocate"), "w-1", S.PIPELINED, "n1")

        expect("claims", RUNNING, config, doctor, "but it is not marked as backfill")


def test_what_frees_the_limit_of_a_queue_under_proportion_may_run_anywhere() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "4C9G")],
        job("r", "1C1G@n1", minimum=0),
        job("s", "1C1G@n2", priority=1),
        job("w", "2C2G", priority=1),
    )
    snapshot = evolve(snapshot, queues=[Queue(name="q", limit=ResourceLimit(milli_cpu=3000))])
    config = policy("preempt", plugins=["priority", "gang", "predicates", "proportion"])
    result = Scheduler(config).schedule(snapshot)
    assert [eviction.node_name for eviction in result.evictions] == ["n1"]
    assert [promise.node_name for promise in result.pipelined] == ["n2"]
    check_cycle(snapshot, result, config)


def test_an_eviction_that_could_have_been_spared() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("r", "1C1G@n1", "1C1G@n1", minimum=0),
        job("w", "1C1G", priority=1),
    )
    config = policy("preempt", plugins=["priority", "gang", "predicates"])
    result = Scheduler(config).schedule(snapshot)
    assert len(result.evictions) == 1
    (kept,) = {"r-1", "r-2"} - {result.evictions[0].task_uid}
    said = "by preempt for 'w-1', which would have fitted there without that"
    expect("sparing", snapshot, config, lambda r: evicted(r, kept, "w-1"), said)


WHOLE_JOBS = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def test_surplus_that_could_have_been_spared_though_its_core_may_go() -> None:
    snapshot = cluster(
        [node("n1", "3C3G")],
        job("r", "1C1G@n1", "1C1G@n1", "1C1G@n1", minimum=1),
        job("w", "1C1G", priority=1),
    )
    config = policy("preempt", plugins=["priority", WHOLE_JOBS, "predicates"])
    said = "task 'r-3' is evicted from 'n1' by preempt for 'w-1', which would have fitted there"
    expect("sparing", snapshot, config, lambda r: evicted(r, "r-2", "w-1"), said)


def test_a_core_that_could_have_been_spared_beside_its_surplus() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("f", "1C1G@n1*", "1C1G@n1*", minimum=1),
        job("g", "1C1G", priority=1),
    )
    allocate = {"name": "allocate", "arguments": {"evictBackfill": True}}
    config = policy(allocate, plugins=["priority", WHOLE_JOBS, "predicates"])
    result = Scheduler(config).schedule(snapshot)
    assert [eviction.task_uid for eviction in result.evictions] == ["f-2"]
    said = "task 'f-1' is evicted from 'n1' by allocate for 'g-1', which would have fitted there"
    expect("sparing", snapshot, config, lambda r: evicted(r, "f-1", "g-1", "allocate"), said)


class TestSparingWhereQueuesHaveShares:
    """A queue that has less than it deserves takes what is idle, too; another one does not."""

    def doctor(self, result: CycleResult) -> CycleResult:
        return placed(evicted(result, "r-1", "w-1"), "w-1", S.PIPELINED, "n1")

    def test_a_queue_that_has_less(self) -> None:
        snapshot = cluster(
            [node("n1", "4C4G")],
            job("r", "0.5C0.5G@n1", minimum=0),
            job("w", "1C1G", "1C1G", priority=1, minimum=1),
        )
        said = "task 'r-1' is evicted from 'n1' by preempt for 'w-1', which would have fitted there"
        expect("sparing", snapshot, policy("preempt"), self.doctor, said)

    def test_a_queue_that_may_have_had_all(self) -> None:
        snapshot = cluster(
            [node("n1", "4C4G")],
            job("r", "0.5C0.5G@n1", "1.5C1.5G", minimum=0),
            job("w", "1C1G", priority=1),
            job("o", "9C9G", queue="q2"),
            queues=["q", "q2"],
        )
        config = policy("preempt")
        result = self.doctor(Scheduler(config).schedule(snapshot))
        # If r-2 came before w-1, the queue had the half that it deserves, and could only swap.
        check_cycle(
            snapshot, placed(result, "r-2", S.BINDING, "n1"), config, invariants=["sparing"]
        )
        with pytest.raises(InvariantViolation, match="'w-1', which would have fitted there"):
            check_cycle(snapshot, placed(result, "r-2", S.PENDING), config, invariants=["sparing"])


class TestSparingWhereBackfillTakesBack:
    """Only what is taken back after an eviction may have stood in the way at that time."""

    SNAPSHOT = cluster(
        [node("n1", "2C2G")],
        job("r", "1C1G@n1", "1C1G@n1", minimum=0),
        job("w", "1C1G", priority=1),
    )

    @pytest.mark.parametrize("strategy", ["release", "displace"])
    def test_before_the_eviction(self, strategy: str) -> None:
        backfill = {"name": "backfill", "arguments": {"strategy": strategy}}
        config = policy("allocate", backfill, "preempt", plugins=["priority", "gang", "predicates"])
        result = Scheduler(config).schedule(self.SNAPSHOT)
        assert len(result.evictions) == 1
        (kept,) = {"r-1", "r-2"} - {result.evictions[0].task_uid}
        said = "by preempt for 'w-1', which would have fitted there without that"
        expect("sparing", self.SNAPSHOT, config, lambda r: evicted(r, kept, "w-1"), said)

    def test_after_the_eviction(self) -> None:
        """g-1 holds what w-1 would have fitted in, and gives it back when it is too late."""
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("r", "1C1G@n1", minimum=0),
            job("g", "1C1G", "9C9G", priority=1),
            job("w", "1C1G", priority=1, creation_time=5),
        )
        release = {"name": "backfill", "arguments": {"strategy": "release"}}
        plugins = ["gang", {"name": "priority", "enableJobOrder": False}, "predicates"]
        config = policy(
            {"name": "allocate", "arguments": {"unready": "hold"}},
            "preempt",
            release,
            plugins=plugins,
        )
        result = Scheduler(config).schedule(snapshot)
        assert [eviction.task_uid for eviction in result.evictions] == ["r-1"]
        assert result.tasks["g-1"].status is S.PENDING
        check_cycle(snapshot, result, config)

    def test_more_room_than_can_have_been_taken_back(self) -> None:
        backfill = {"name": "backfill", "arguments": {"strategy": "release"}}
        config = policy("preempt", backfill, plugins=["priority", "gang", "predicates"])
        result = Scheduler(config).schedule(self.SNAPSHOT)
        (kept,) = {"r-1", "r-2"} - {result.evictions[0].task_uid}
        said = "by preempt for 'w-1', which would have fitted there without that"
        expect("sparing", self.SNAPSHOT, config, lambda r: evicted(r, kept, "w-1"), said)


class TestSwaps:
    SNAPSHOT = cluster(
        [node("n1", "4C4G")],
        job("r", "1C1G@n1", "1C1G@n1", minimum=0, queue="q1"),
        job("w", "2C2G", queue="q1", priority=1),
        job("o", "1C1G@n1", "1C1G", minimum=1, queue="q2"),
        queues=["q1", "q2"],
    )

    def test_a_queue_that_has_its_share_grows(self) -> None:
        config = policy("allocate")
        doctored = evolve(
            self.SNAPSHOT, jobs=[one for one in self.SNAPSHOT.jobs if one.name != "o"]
        )
        other = job("o", "1C1G@n1", "2C2G", minimum=1, queue="q2")
        snapshot = evolve(doctored, jobs=[*doctored.jobs, other])

        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "w-1", S.PIPELINED, "n1")

        said = "queue 'q1' has its deserved share, but task 'w-1' is Pipelined on 'n1'"
        expect("swaps", snapshot, config, doctor, said)

    def test_a_queue_that_has_its_share_takes_more_than_its_victims_had(self) -> None:
        config = policy("preempt", plugins=["priority", "gang", "predicates", "proportion"])

        def doctor(result: CycleResult) -> CycleResult:
            less = evolve(result, evictions=())
            less = placed(less, "r-1", S.RUNNING, "n1")
            less = placed(less, "r-2", S.RUNNING, "n1")
            return placed(evicted(less, "r-2", "w-1"), "w-1", S.PIPELINED, "n1")

        said = "queue 'q1' has its deserved share, but 'w-1' requests more than r-2 held"
        expect("swaps", self.SNAPSHOT, config, doctor, said)
