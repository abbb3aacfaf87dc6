"""Reservations, outcomes, reasons, order: each law catches what is wrong in its way."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve
from tests.support.clusters import action, cluster, job, node
from tests.support.doctoring import placed
from tests.support.expecting import ONE_WAITS, Doctor, bind, expect, policy, with_task
from tests.support.invariants import check_cycle

from batchsched import (
    ConditionReason,
    CycleResult,
    JobCondition,
    JobPhase,
    LabelSelector,
    MemberCount,
    NodeTally,
    PendingReason,
    PlacementFailure,
    PodAffinity,
    PodAffinityTerm,
    Promise,
    Queue,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    TaskStatus,
    Unfit,
    UnfitReason,
    WhyPending,
    default_registry,
)
from batchsched.plugin import QueueState, TaskState
from batchsched.testing import InvariantViolation

S = TaskStatus
LACKS_GPU = Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail="gpu")


def kept(result: CycleResult, uid: str) -> CycleResult:
    """The same result, but that a promise on n1 that ended is kept."""
    promise = Promise(task_uid=uid, node_name="n1")
    again = placed(result, uid, S.PIPELINED, "n1")
    return evolve(again, kept_promises=(promise,), dropped_promises=())


class TestPromises:
    """None is older than what it waits for."""

    def test_one_is_kept_where_nothing_leaves_and_there_is_no_room(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("w", "1C1G~n1"))
        said = "task 'w-1' keeps its promise on 'n1', where nothing leaves any more"
        expect("promises", snapshot, policy("allocate"), lambda r: kept(r, "w-1"), said)

    def test_one_is_kept_far_from_what_it_must_be_near(self) -> None:
        selector = LabelSelector(match_labels={"app": "nobody"})
        near = PodAffinity(required=[PodAffinityTerm(selector=selector, topology_key="zone")])
        snapshot = cluster([node("n1", "1C1G", labels={"zone": "a"})], job("w", "1C1G~n1"))
        snapshot = with_task(snapshot, "w-1", pod_affinity=near)
        said = "no task that it must be near, by zone, will be there, but it keeps its promise"
        expect("promises", snapshot, policy("allocate"), lambda r: kept(r, "w-1"), said)


class TestReservations:
    RESERVE: Mapping[str, object] = {
        "name": "reserve",
        "arguments": {"starvingJobTimeThreshold": 100, "reservedNodePercent": 50},
    }

    def test_somebody_comes_to_a_reserved_node(self) -> None:
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("r", "1C1G@n1", minimum=1),
            job("s", "2C2G>n1", minimum=1),
            job("w", "1C1G"),
        )
        said = "task 'w-1' is Binding on node 'n1', which is reserved for s-1"
        config = policy("allocate", self.RESERVE)
        starving = evolve(snapshot, now=1000.0)
        expect("reservations", starving, config, bind("w-1"), said)

    def test_a_reserved_node_is_promised_to_another_job(self) -> None:
        snapshot = cluster(
            [node("n1", "2C2G")], job("r", "1C1G!n1"), job("s", "1C1G"), job("w", "1C1G"), now=1000
        )

        def doctor(result: CycleResult) -> CycleResult:
            reserved = placed(result, "s-1", S.RESERVED, "n1")
            return placed(reserved, "w-1", S.PIPELINED, "n1")

        said = "task 'w-1' is Pipelined on node 'n1', which is reserved for s-1 of another job"
        expect("reservations", snapshot, policy("allocate", self.RESERVE), doctor, said)

    def test_a_young_job_reserves(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("s", "1C1G"), now=50)

        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "s-1", S.RESERVED, "n1")

        said = "task 's-1' is Reserved on 'n1', but its job has waited 49.999 seconds"
        expect("starving", snapshot, policy("allocate", self.RESERVE), doctor, said)
        said = "task 's-1' is Reserved on 'n1', but no action reserves"
        expect("starving", snapshot, policy("allocate"), doctor, said)

    def test_too_many_nodes_are_reserved(self) -> None:
        nodes = [node(name, "1C1G") for name in ("n1", "n2")]
        running = [job(f"r{name}", f"1C1G@{name}") for name in ("n1", "n2")]
        snapshot = cluster(nodes, *running, job("s", "1C1G", "1C1G", minimum=1), now=1000)

        def doctor(result: CycleResult) -> CycleResult:
            wrong = placed(result, "s-1", S.RESERVED, "n1")
            return placed(wrong, "s-2", S.RESERVED, "n2")

        said = "expected at most 1 of 2 nodes to be reserved, got 2; new in this cycle: n1, n2"
        expect("starving", snapshot, policy("allocate", self.RESERVE), doctor, said)


class TestOutcomes:
    def wrong_job(self, **changes: object) -> Doctor:
        def doctor(result: CycleResult) -> CycleResult:
            changed = evolve(result.jobs["default/b"], **changes)
            return evolve(result, jobs={**result.jobs, "default/b": changed})

        return doctor

    def test_a_phase(self) -> None:
        said = "job 'default/b' is Running, and must be Pending; job 'default/b' needs 1 tasks"
        doctor = self.wrong_job(phase=JobPhase.RUNNING)
        expect("outcomes", ONE_WAITS, policy("allocate"), doctor, said)

    def test_a_condition(self) -> None:
        said = "needs 1 tasks, and 0 are ready, but its condition is None"
        doctor = self.wrong_job(condition=None)
        expect("outcomes", ONE_WAITS, policy("allocate"), doctor, said)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"counts": (MemberCount(has=7, needs=1),)}, "its condition says: 7 of the 1 tasks"),
            ({"counts": (MemberCount(has=0, needs=9),)}, "its condition says: 0 of the 9 tasks"),
            ({"counts": ()}, "0 are ready, but its condition is NotEnoughResources: 0 of the 1"),
            (
                {"counts": (MemberCount(has=0, needs=1), MemberCount(has=0, needs=1, group="g"))},
                "its condition says of a group that lacks nothing: group 'g' has 0 of the 1",
            ),
            ({"undone": 3}, "its condition says that 3 of 1 tasks had a place"),
            (
                {"failure": PlacementFailure(tally=NodeTally(9, 0, {}))},
                "is true for none of its tasks: 0/9 nodes are available",
            ),
            (
                {"failure": PlacementFailure(tally=NodeTally(1, 0, {LACKS_GPU: 1}))},
                "is true for none of its tasks: 0/1 nodes are available: 1 lacks free GPUs",
            ),
            (
                {"failure": PlacementFailure(refusal=LACKS_GPU)},
                "is true for none of its tasks: there is not enough gpu",
            ),
            (
                {"failure": PlacementFailure(task="b-9")},
                "is true for none of its tasks: no node had room for task 'b-9'",
            ),
            ({"failure": None}, "its condition does not say why no node took 'b-1'"),
        ],
    )
    def test_what_a_condition_says(self, changes: Mapping[str, object], said: str) -> None:
        config = policy("allocate", plugins=["gang", "predicates"])
        condition = Scheduler(config).schedule(ONE_WAITS).jobs["default/b"].condition
        assert condition is not None
        doctor = self.wrong_job(condition=evolve(condition, **changes))
        expect("outcomes", ONE_WAITS, config, doctor, said)

    @pytest.mark.parametrize(
        ("limit", "said"),
        [
            (None, "0/1 nodes are available: 1 lacks free cpu"),
            (ResourceLimit(milli_cpu=2000), "'q' would hold 3 cpu, 1 more than its limit"),
        ],
    )
    def test_what_the_condition_says_of_a_task_that_was_taken_back(
        self, limit: ResourceLimit | None, said: str
    ) -> None:
        """It was tried again in vain, which its own reason does not tell."""
        running = job("r", "1C0G@n1", priority=0)
        waiting = [job("b", "1C0G", priority=1), job("c", "2C0G", priority=9)]
        snapshot = evolve(
            cluster([node("n1", "2C0G")], running, *waiting),
            queues=[Queue(name="q", limit=limit)],
        )
        plugins = ["priority", {"name": "gang", "arguments": {"atMinimum": "whole-job"}}]
        plugins += ["predicates", "capacity"]
        config = policy("allocate", "preempt", "allocate", plugins=plugins)
        result = Scheduler(config).schedule(snapshot)
        condition = result.jobs["default/b"].condition
        assert condition is not None
        assert said in condition.message
        assert result.pending["b-1"].why is WhyPending.TAKEN_BACK
        check_cycle(snapshot, result, config)
        tally = NodeTally(9, 0, {})
        doctor = self.wrong_job(condition=evolve(condition, failure=PlacementFailure(tally=tally)))
        expect("outcomes", snapshot, config, doctor, "is true for none of its tasks: 0/9 nodes")

    def test_the_counts_of_a_job_that_is_left_out(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("b", "1C1G", minimum=2))

        def doctor(result: CycleResult) -> CycleResult:
            count = MemberCount(has=1, needs=3)
            reason, told = ConditionReason.NOT_ENOUGH_TASKS, "1 of the 3 can start"
            condition = JobCondition(reason, told, "gang", (count,))
            return evolve(result, left_out={"default/b": condition})

        said = "needs 2 tasks, and 1 can ever start, but its condition says: 1 of the 3"
        expect("outcomes", snapshot, policy("allocate"), doctor, said)

    def test_a_valid_job_is_left_out(self) -> None:
        condition = JobCondition(ConditionReason.NOT_ENOUGH_TASKS, "so they say")

        def doctor(result: CycleResult) -> CycleResult:
            jobs = {uid: outcome for uid, outcome in result.jobs.items() if uid != "default/b"}
            tasks = {uid: outcome for uid, outcome in result.tasks.items() if uid != "b-1"}
            return evolve(result, jobs=jobs, tasks=tasks, left_out={"default/b": condition})

        said = "needs 1 tasks, and 1 can ever start, but it was left out: NotEnoughTasks"
        expect("outcomes", ONE_WAITS, policy("allocate"), doctor, said)

    def test_an_invalid_job_is_not_left_out(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("b", "1C1G", minimum=2))

        def doctor(result: CycleResult) -> CycleResult:
            sound = Scheduler(policy("allocate", plugins=["predicates"])).schedule(snapshot)
            return evolve(sound)

        said = "needs 2 tasks, and 1 can ever start, so it is invalid"
        expect("outcomes", snapshot, policy("allocate"), doctor, said)

    def test_a_queue_that_is_not_there(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("b", "1C1G", queue="gone"))

        def doctor(result: CycleResult) -> CycleResult:
            return evolve(result, left_out={})

        said = "job 'default/b' names queue 'gone', which does not exist"
        expect("outcomes", snapshot, policy("allocate"), doctor, said)


class TestReasons:
    def because(self, why: WhyPending, tally: NodeTally | None = None, detail: str = "") -> Doctor:
        reason = PendingReason(why, tally, detail)
        return lambda result: evolve(result, pending={**result.pending, "b-1": reason})

    @pytest.mark.parametrize(
        ("why", "tally", "detail", "said"),
        [
            (WhyPending.NO_NODE, NodeTally(1, 1, {}), "", "counting again gives: 0/1 nodes"),
            (WhyPending.NO_NODE, NodeTally(2, 0, {}), "", "counting again gives: 0/1 nodes"),
            (
                WhyPending.NO_NODE,
                NodeTally(1, 0, {Unfit(UnfitReason.HOST_PORTS, plugin="predicates"): 1}),
                "",
                "counting again gives: 0/1 nodes are available: 1 lacks free cpu",
            ),
            (WhyPending.NO_NODE, None, "", "it has no tally of nodes"),
            (WhyPending.JOB_INVALID, None, "", "its job was not left out"),
            (WhyPending.QUEUE_UNKNOWN, None, "", "its job was not left out"),
            (WhyPending.NOT_REACHED, None, "'b-0'", "no other task of its job is stuck"),
            (WhyPending.NOT_CONSIDERED, None, "", "allocate considers every task of this kind"),
        ],
    )
    def test_what_is_not_so(
        self, why: WhyPending, tally: NodeTally | None, detail: str, said: str
    ) -> None:
        doctor = self.because(why, tally, detail)
        expect("reasons", ONE_WAITS, policy("allocate"), doctor, said)

    def test_no_node_is_large_enough(self) -> None:
        def doctor(result: CycleResult) -> CycleResult:
            reason = evolve(result.pending["b-1"], too_large=True)
            return evolve(result, pending={"b-1": reason})

        config = policy("allocate", plugins=["gang", "predicates"])
        expect("reasons", ONE_WAITS, config, doctor, "but a node is large enough")

    def test_a_queue_that_lacks_something(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("b", "2C1G"))
        said = "its queue never reached its deserved share"
        doctor = self.because(WhyPending.QUEUE_OVERUSED)
        expect("reasons", snapshot, policy("allocate"), doctor, said)

    def test_what_there_is_enough_of_in_all(self) -> None:
        waiting = job("s", "1C1G>n1", "1C1G>n1", "1C1G")
        snapshot = cluster([node("n1", "2C2G")], job("r", "1C1G@n1"), waiting, job("z", "1C1G"))

        def doctor(result: CycleResult) -> CycleResult:
            reason = evolve(result.pending["z-1"], lacking="gpu")
            return evolve(result, pending={**result.pending, "z-1": reason})

        said = "but there is enough gpu for all tasks together"
        expect("reasons", snapshot, policy("allocate"), doctor, said)

    def test_a_gang_that_is_complete(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("b", "1C1G", "1C1G", minimum=1))

        def doctor(result: CycleResult) -> CycleResult:
            reason = PendingReason(WhyPending.GANG_INCOMPLETE)
            return evolve(result, pending={"b-2": reason})

        said = "its job is ready: 1 of 1"
        expect("reasons", snapshot, policy("allocate"), doctor, said)

    @pytest.mark.parametrize(
        ("request_", "more", "said"),
        [
            ("2C1G", {}, "no node is large enough"),
            ("1C1G", {"node_selector": {"disk": "ssd"}}, "all nodes refuse it: NodeSelectorMis"),
            ("1C1G", {}, "no action rolls back what it placed"),
        ],
    )
    def test_a_task_that_never_had_a_place(
        self, request_: str, more: Mapping[str, object], said: str
    ) -> None:
        running = job("r", "1C1G@n1")
        snapshot = cluster([node("n1", "1C1G")], running, job("b", request_, request_))
        snapshot = with_task(snapshot, "b-1", **more)
        doctor = self.because(WhyPending.GANG_INCOMPLETE)
        allocate = {"name": "allocate", "arguments": {"unready": "hold"}}
        expect("reasons", snapshot, policy(allocate), doctor, said)

    def test_a_gang_of_one(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("b", "1C1G"))
        doctor = self.because(WhyPending.GANG_INCOMPLETE)
        said = "its job needs only one task"
        expect("reasons", snapshot, policy("preempt"), doctor, said)

    def test_a_gang_that_does_not_wait_for_its_tasks(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("b", "1C1G", "1C1G"))
        gang = {"name": "gang", "enableJobReady": False}
        config = policy("preempt", plugins=[gang, "predicates"])
        doctor = self.because(WhyPending.GANG_INCOMPLETE)
        expect("reasons", snapshot, config, doctor, "every job is ready")

    def test_a_gang_that_no_node_can_take(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("b", "1C1G", "1C1G"))

        def doctor(result: CycleResult) -> CycleResult:
            wrong = evolve(result.pending["b-1"], why=WhyPending.GANG_INCOMPLETE)
            return evolve(result, pending={**result.pending, "b-1": wrong})

        config = policy("allocate", plugins=["gang", "predicates"])
        expect("reasons", snapshot, config, doctor, "no node could take it")

    def test_what_asks_for_nothing_keeps_its_place(self) -> None:
        snapshot = cluster([node("n1", "1C1G", max_tasks=1)], job("r", "@n1"), job("b", "", ""))
        doctor = self.because(WhyPending.GANG_INCOMPLETE)
        said = "it requests nothing, and best-effort tasks keep their places"
        expect("reasons", snapshot, policy("preempt", "backfill"), doctor, said)

    def test_who_was_before_it(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("b", "2C1G", "1C1G", "2C1G", minimum=1))

        def doctor(result: CycleResult) -> CycleResult:
            wrong = PendingReason(WhyPending.NOT_REACHED, behind_task="b-3")
            stuck = result.pending["b-1"]
            return evolve(result, pending={"b-1": stuck, "b-2": wrong, "b-3": stuck})

        said = "'b-3' does not come before it"
        expect("reasons", snapshot, policy("allocate"), doctor, said)


class TestPermutation:
    def test_another_result(self) -> None:
        snapshot = cluster([node("n1", "1C1G"), node("n2", "1C1G")], job("a", "1C1G"))
        said = "scheduled again, binds is [{'task_uid': 'a-1', 'node_name': 'n1'"
        expect("permutation", snapshot, policy("allocate"), bind("a-1", "n2"), said)

    def test_a_plugin_that_follows_the_order_in_which_labels_are_given(self) -> None:
        class Careless:
            def open(self, _view: object, /) -> object:
                return self

            def task_order_key(self, task: TaskState, /) -> str:
                return next(iter(task.info.labels), "")

        registry = default_registry()
        registry.register_plugin("careless", lambda _: Careless())
        config = SchedulerConfig.from_mapping(
            {"actions": "allocate", "tiers": [{"plugins": ["careless"]}]}, registry=registry
        )
        snapshot = cluster([node("n1", "1C1G")], job("a", "1C1G", "1C1G"))
        snapshot = with_task(snapshot, "a-1", labels={"a": "", "z": ""})
        snapshot = with_task(snapshot, "a-2", labels={"m": ""})
        result = Scheduler(config, registry).schedule(snapshot)
        with pytest.raises(InvariantViolation, match="given in reverse order, binds is"):
            check_cycle(snapshot, result, config, registry=registry)

    def test_a_plugin_that_decides_otherwise_each_time(self) -> None:
        class Fickle:
            def __init__(self) -> None:
                self._cycles = 0

            def open(self, _view: object, /) -> object:
                self._cycles += 1
                return self

            def overused(self, _queue: QueueState, /) -> bool:
                return self._cycles > 1

        fickle = Fickle()
        registry = default_registry()
        registry.register_plugin("fickle", lambda _: fickle)
        config = SchedulerConfig.from_mapping(
            {"actions": "allocate", "tiers": [{"plugins": ["fickle"]}]}, registry=registry
        )
        snapshot = cluster([node("n1", "1C1G")], job("a", "1C1G"))
        result = Scheduler(config, registry).schedule(snapshot)
        with pytest.raises(InvariantViolation, match="scheduled again, binds is"):
            check_cycle(snapshot, result, config, registry=registry, invariants=["permutation"])


def test_a_kept_promise_may_come_true_on_a_node_that_is_reserved_besides() -> None:
    """It is older than the reservation, or the node would have been closed to it."""
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "1C1G")],
        job("a", "0.5C0.5G~n1"),
        job("b", "0.5C0.5G>n1", "0.5C0.5G>n2"),
        job("c", "1C1G@n2"),
        now=10,
    )
    config = SchedulerConfig.from_mapping(
        {
            "actions": [action("allocate", starvationThreshold=0)],
            "tiers": [{"plugins": ["gang", "predicates", "nodeorder"]}],
        }
    )
    result = Scheduler(config).schedule(snapshot)
    assert [(bind.task_uid, bind.node_name) for bind in result.binds] == [("a-1", "n1")]
    assert [each.task_uid for each in result.reserved] == ["b-1", "b-2"]
    check_cycle(snapshot, result, config)
