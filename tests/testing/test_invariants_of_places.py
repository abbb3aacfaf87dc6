"""Decisions, capacity, placements and gangs: each law catches what is wrong in its way."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.support.clusters import cluster, job, node
from tests.support.doctoring import evicted, placed
from tests.support.elastic import elastic, room
from tests.support.expecting import (
    GANG,
    ONE_WAITS,
    RUNNING,
    Doctor,
    bind,
    expect,
    policy,
    with_task,
)
from tests.support.invariants import check_cycle

from batchsched import (
    Bind,
    ConditionReason,
    CycleResult,
    Domain,
    DroppedPromise,
    Eviction,
    Hold,
    HoldKind,
    HostPort,
    JobCondition,
    JobInfo,
    LabelSelector,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Requirement,
    Resource,
    Scheduler,
    Segment,
    Snapshot,
    Taint,
    TaintEffect,
    TakenBack,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Toleration,
    TolerationOperator,
    Topology,
    TopologyRequest,
)
from batchsched.testing import InvariantViolation

S = TaskStatus


def gone(uid: str, where: str) -> Eviction:
    return Eviction(task_uid=uid, node_name=where, action="preempt", for_task_uid="w-1")


def taken(uid: str) -> TakenBack:
    return TakenBack(task_uid=uid, node_name="n1", action="preempt", for_task_uid="b-1")


class TestDecisions:
    @pytest.mark.parametrize(
        ("doctor", "said"),
        [
            (lambda r: evolve(r, binds=()), "task 'a-1' is Binding, but there is no bind for it"),
            (lambda r: evolve(r, binds=r.binds * 2), "task 'a-1' is bound 2 times"),
            (
                lambda r: evolve(r, jobs={"default/a": r.jobs["default/a"]}),
                "expected job 'default/b' to be either in the session or left out",
            ),
            (
                lambda r: evolve(r, jobs={**r.jobs, "default/ghost": r.jobs["default/a"]}),
                "job 'default/ghost' has an outcome or was left out, but is not in the snapshot",
            ),
            (
                lambda r: evolve(
                    r, left_out={"x/ghost": JobCondition(ConditionReason.QUEUE_UNKNOWN, "none")}
                ),
                "job 'x/ghost' has an outcome or was left out, but is not in the snapshot",
            ),
            (
                lambda r: evolve(r, tasks={"a-1": r.tasks["a-1"]}),
                "task 'b-1' must have an outcome if, and only if, its job was in the session",
            ),
            (
                lambda r: placed(r, "b-1", S.RUNNING, "n1"),
                "task 'b-1' was Pending and is Running, which no decision can cause",
            ),
            (
                lambda r: placed(r, "b-1", S.PIPELINED, "n7"),
                "task 'b-1' was Pending and is Pipelined on 'n7', which is not a node",
            ),
        ],
    )
    def test_placements(self, doctor: Doctor, said: str) -> None:
        expect("decisions", ONE_WAITS, policy("allocate"), doctor, said)

    @pytest.mark.parametrize(
        ("doctor", "said"),
        [
            (
                lambda r: evolve(r, pending={}),
                "task 'b-1' must have a reason if, and only if, it was left pending",
            ),
            (
                lambda r: evolve(placed(r, "b-1", S.PIPELINED, "n1"), pipelined=()),
                "pipelined must list the tasks that are Pipelined",
            ),
            (
                lambda r: evolve(
                    r, dropped_reservations=(DroppedPromise(task_uid="a-1", node_name="n1"),)
                ),
                "which the snapshot does not have",
            ),
        ],
    )
    def test_lists(self, doctor: Doctor, said: str) -> None:
        expect("promises", ONE_WAITS, policy("allocate"), doctor, said)

    def test_what_is_held_starts(self) -> None:
        held = with_task(ONE_WAITS, "b-1", holds=[Hold(HoldKind.NOT_ADMITTED, "quota")])
        said = "task 'b-1' was Pending and is Binding, although it is held"
        expect("decisions", held, policy("allocate"), bind("b-1"), said)

    @pytest.mark.parametrize(
        ("doctor", "said"),
        [
            (
                lambda r: placed(r, "b-1", S.PENDING, "n1"),
                "task 'b-1' was Pending and is Pending, but on node 'n1'",
            ),
            (
                lambda r: placed(r, "b-1", S.PENDING, is_backfill=True),
                "task 'b-1' was Pending and is Pending, but is marked as backfill now",
            ),
            (
                lambda r: evolve(r, binds=(*r.binds, Bind(task_uid="ghost", node_name="n1"))),
                "task 'ghost' is bound, but not in the snapshot",
            ),
            (
                lambda r: evolve(r, binds=(Bind(task_uid="a-1", node_name="n7"),)),
                "task 'a-1' is bound to 'n7', but its outcome is Binding on 'n1'",
            ),
            (
                lambda r: evolve(r, taken_back=(taken("a-1"), taken("ghost"))),
                "task 'ghost' loses its place, but did not wait for one in the snapshot",
            ),
        ],
    )
    def test_what_does_not_agree(self, doctor: Doctor, said: str) -> None:
        expect("decisions", ONE_WAITS, policy("allocate", "preempt"), doctor, said)

    @pytest.mark.parametrize("strategy", ["best-effort", "displace"])
    def test_a_mark_that_nobody_sets(self, strategy: str) -> None:
        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "a-1", S.BINDING, "n1", is_backfill=True)

        config = policy("allocate", {"name": "backfill", "arguments": {"strategy": strategy}})
        said = "task 'a-1' was Pending and is Binding, but is marked as backfill now"
        expect("decisions", ONE_WAITS, config, doctor, said)

    def test_a_mark_on_a_promise(self) -> None:
        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "b-1", S.PIPELINED, "n1", is_backfill=True)

        config = policy("allocate", {"name": "backfill", "arguments": {"strategy": "release"}})
        said = "task 'b-1' was Pending and is Pipelined, but is marked as backfill now"
        expect("decisions", ONE_WAITS, config, doctor, said)

    def test_a_mark_that_is_lost(self) -> None:
        snapshot = with_task(ONE_WAITS, "a-1", is_backfill=True)
        said = "task 'a-1' was Pending and is Binding, but has lost its backfill mark"
        expect("decisions", snapshot, policy("allocate"), bind("a-1"), said)

    @pytest.mark.parametrize(
        ("doctor", "said"),
        [
            (
                lambda r: placed(r, "r-1", S.RELEASING, "n1"),
                "task 'r-1' was Running and is Releasing on 'n1'; it was not evicted",
            ),
            (
                lambda r: evolve(
                    evicted(r, "r-1", "w-1"), evictions=evicted(r, "r-1", "w-1").evictions * 2
                ),
                "task 'r-1' is evicted twice",
            ),
            (
                lambda r: evolve(r, evictions=(gone("ghost", "n1"),)),
                "task 'ghost' is evicted, but not in the snapshot",
            ),
            (
                lambda r: evolve(r, evictions=(gone("r-1", "n7"),)),
                "task 'r-1' is evicted from 'n7', but it was Running on 'n1'",
            ),
            (
                lambda r: placed(
                    evicted(r, "r-1", "w-1"), "r-1", S.RELEASING, "n1", is_backfill=True
                ),
                "task 'r-1' is evicted, but its backfill mark changed",
            ),
            (
                lambda r: placed(evicted(r, "r-1", "w-1"), "r-1", S.RUNNING, "n1"),
                "task 'r-1' is evicted from 'n1', but its outcome is Running on 'n1'",
            ),
        ],
    )
    def test_evictions(self, doctor: Doctor, said: str) -> None:
        expect("decisions", RUNNING, policy("allocate"), doctor, said)


class TestCapacity:
    def test_more_is_held_than_there_is(self) -> None:
        said = (
            "node 'n1' is overcommitted: its idle is -1000 cpu; on it are "
            "a-1 Binding: 1000 cpu, 1073741824 memory; b-1 Binding: 1000 cpu"
        )
        expect("capacity", ONE_WAITS, policy("allocate"), bind("b-1"), said)

    def test_more_is_promised_than_is_released(self) -> None:
        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "w-1", S.PIPELINED, "n1")

        said = "node 'n1' is overcommitted: its future_idle is -1000 cpu"
        expect("capacity", RUNNING, policy("allocate"), doctor, said)

    def test_more_is_promised_than_backfill_holds(self) -> None:
        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "w-1", S.CONDITIONAL, "n1")

        said = "node 'n1' is overcommitted: its accessible is -1000 cpu"
        expect("capacity", RUNNING, policy("allocate"), doctor, said)

    def test_more_tasks_come_than_a_node_may_have(self) -> None:
        snapshot = cluster([node("n1", "4C4G", max_tasks=1)], job("a", "1C1G"), job("b", "1C1G"))
        said = "node 'n1': expected at most 1 tasks, got 2; a-1, b-1 came in this cycle"
        expect("capacity", snapshot, policy("allocate"), bind("b-1"), said)

    def test_more_is_reserved_than_a_node_has(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("a", "1C1G"), job("b", "2C1G"))

        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "b-1", S.RESERVED, "n1")

        said = "node 'n1': more cpu is reserved than the node has; on it are a-1 Binding"
        expect("capacity", snapshot, policy("allocate"), doctor, said)


def on_node(name: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_fields=(Requirement(key="metadata.name", operator=Operator.IN, values=(name,)),)
    )


def near(app: str, key: str) -> PodAffinity:
    selector = LabelSelector(match_labels={"app": app})
    return PodAffinity(required=(PodAffinityTerm(selector=selector, topology_key=key),))


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (NodeAffinity, "accepts", "task 'a-1' and node 'n1': expected True of selectors"),
        (Toleration, "tolerates", "task 'a-1' and node 'n1': expected True of tolerations"),
        (HostPort, "conflicts", "tasks 'a-1' and 'a-1': expected HostPort"),
        (PodAffinityTerm, "selects", "tasks 'a-1' and 'a-1': expected True of PodAffinityTerm"),
    ],
)
def test_rules_that_mean_something_else(
    monkeypatch: pytest.MonkeyPatch, kind: type[object], name: str, said: str
) -> None:
    taint = Taint(key="team", effect=TaintEffect.NO_EXECUTE)
    snapshot = with_task(
        cluster([node("n1", "1C1G", labels={"zone": "z1"}, taints=[taint])], job("a", "1C1G")),
        "a-1",
        labels={"app": "web"},
        host_ports=[HostPort(port=80)],
        tolerations=[Toleration(key="team", operator=TolerationOperator.EXISTS)],
        pod_affinity=near("web", "zone"),
        node_affinity=NodeAffinity(
            required=[
                NodeSelectorTerm(
                    match_expressions=[Requirement(key="zone", operator=Operator.EXISTS)]
                )
            ]
        ),
    )
    result = Scheduler().schedule(snapshot)
    check_cycle(snapshot, result)
    monkeypatch.setattr(kind, name, lambda *_, **__: False)
    with pytest.raises(InvariantViolation, match="rules: ") as caught:
        check_cycle(snapshot, result, invariants=["rules"])
    assert said in caught.value.problem


class TestPlacements:
    def test_a_taint(self) -> None:
        taint = Taint(key="team", value="red", effect=TaintEffect.NO_EXECUTE)
        nodes = [node("n1", "1C1G", taints=(taint,)), node("n2", "1C1G")]
        said = "task 'a-1' is Binding on node 'n1', which refuses it: UntoleratedTaint"
        snapshot = cluster(nodes, job("a", "1C1G"))
        expect("placements", snapshot, policy("allocate"), bind("a-1"), said)

    @pytest.mark.parametrize("status", [S.PIPELINED, S.RESERVED])
    def test_a_promise(self, status: TaskStatus) -> None:
        nodes = [node("n1", "1C1G", unschedulable=True)]

        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "a-1", status, "n1")

        said = f"task 'a-1' is {status.value} on node 'n1', which refuses it: NodeUnschedulable"
        snapshot = cluster(nodes, job("a", "1C1G"))
        expect("placements", snapshot, policy("allocate"), doctor, said)

    def test_a_host_port(self) -> None:
        snapshot = cluster([node("n1", "4C4G")], job("a", "1C1G"), job("b", "1C1G"))
        for uid in ("a-1", "b-1"):
            snapshot = with_task(snapshot, uid, host_ports=(HostPort(port=80),))
        said = "task 'a-1' is Binding on node 'n1', where task 'b-1' has TCP port 80 too"
        expect("placements", snapshot, policy("allocate"), bind("b-1"), said)

    def test_anti_affinity_across_nodes(self) -> None:
        nodes = [node(name, "1C1G", labels={"zone": "z1"}) for name in ("n1", "n2")]
        snapshot = cluster(nodes, job("a", "1C1G@n1"), job("b", "1C1G"))
        snapshot = with_task(snapshot, "a-1", pod_anti_affinity=near("web", "zone"))
        snapshot = with_task(snapshot, "b-1", labels={"app": "web"})
        said = (
            "task 'b-1' is Binding on node 'n2', in zone=z1 with task 'a-1' on 'n1', "
            "which the anti-affinity of 'a-1' forbids"
        )
        expect("placements", snapshot, policy("allocate"), bind("b-1", "n2"), said)

    def test_affinity_to_nobody(self) -> None:
        snapshot = cluster([node("n1", "1C1G", labels={"zone": "z1"})], job("a", "1C1G"))
        snapshot = with_task(snapshot, "a-1", pod_affinity=near("db", "zone"))
        said = "no task that it must be near, by zone, can have been there"
        expect("placements", snapshot, policy("allocate"), bind("a-1"), said)

    def test_the_task_to_be_near_was_taken_back_and_placed_elsewhere(self) -> None:
        """g-1 is on n1 until w-1 has come there; then z starts in its place."""
        nodes = [node("n1", "4C4G", labels={"zone": "z1"}), node("n2", "2C2G")]
        snapshot = cluster(
            nodes,
            job("r", "2C2G@n2", minimum=0),
            job("g", "2C2G", "9C9G"),
            job("w", "2C2G"),
            job("z", "2C2G"),
        )
        snapshot = with_task(snapshot, "r-1", status=S.RELEASING)
        snapshot = with_task(snapshot, "g-1", labels={"app": "db"})
        snapshot = with_task(snapshot, "w-1", pod_affinity=near("db", "zone"))
        snapshot = with_task(snapshot, "z-1", node_affinity=NodeAffinity(required=(on_node("n1"),)))
        release = {"name": "backfill", "arguments": {"strategy": "release"}}
        hold = {"name": "allocate", "arguments": {"unready": "hold"}}
        config = policy(hold, release, hold, plugins=["gang", "predicates"])
        result = Scheduler(config).schedule(snapshot)
        assert result.tasks["w-1"].status is S.BINDING
        assert result.tasks["g-1"].node_name == "n2"
        check_cycle(snapshot, result, config)

    def test_the_task_to_be_near_was_taken_back_for_a_reservation(self) -> None:
        """s-1 is on n1 until w-1 has come there; then n1 is reserved for k-1."""
        nodes = [node(f"n{n}", "4C4G", labels={"zone": f"z{n}"}) for n in (1, 2, 3)]
        sizes = ["0.1C0.1G", "3C3G", "3C3G"]
        running = [job(f"r{n}", f"{size}@n{n}") for n, size in enumerate(sizes, start=1)]
        snapshot = cluster(
            nodes,
            *running,
            job("k", "4C4G", priority=10),
            job("s", "2C2G", "4C4G"),
            job("w", "0.1C0.1G"),
            now=100,
        )
        snapshot = with_task(snapshot, "s-1", labels={"app": "db"})
        snapshot = with_task(snapshot, "w-1", pod_affinity=near("db", "zone"))
        arguments = {"starvingJobTimeThreshold": 10, "reservedNodePercent": 100, "inOrder": True}
        config = policy(
            {"name": "allocate", "arguments": {"unready": "hold"}},
            {"name": "reserve", "arguments": arguments},
            plugins=["priority", "gang", "predicates", "nodeorder"],
        )
        result = Scheduler(config).schedule(snapshot)
        assert result.tasks["w-1"].node_name == "n1"
        assert result.tasks["s-1"].node_name == "n2"
        check_cycle(snapshot, result, config)


class TestGangs:
    def test_one_half_starts(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("g", "1C1G", "1C1G"))
        said = "job 'default/g' needs 2 tasks and has 1 ready, but a task of it is bound"
        expect("gangs", snapshot, policy("allocate"), bind("g-1"), said)

    def test_a_task_that_has_a_place_is_not_bound(self) -> None:
        def doctor(result: CycleResult) -> CycleResult:
            return placed(result, "g-3", S.ALLOCATED, "n1")

        said = "has 3 ready, but 1 tasks that have a place are not bound"
        expect("gangs", GANG, policy("allocate"), doctor, said)

    def test_a_gang_is_broken(self) -> None:
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("g", "1C1G@n1", "1C1G@n1"),
            job("w", "1C1G", priority=1),
        )

        def doctor(result: CycleResult) -> CycleResult:
            return placed(evicted(result, "g-1", "w-1"), "w-1", S.PIPELINED, "n1")

        said = "needs 2 tasks and has 1 ready after g-1 were evicted, which gang protects"
        expect("gangs", snapshot, policy("preempt"), doctor, said)

    def test_somebody_is_evicted_for_a_gang_that_stays_incomplete(self) -> None:
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("r", "1C1G@n1", "1C1G@n1", minimum=1),
            job("g", "1C1G", "1C1G", "1C1G", priority=1),
        )

        def doctor(result: CycleResult) -> CycleResult:
            return placed(evicted(result, "r-1", "g-1"), "g-1", S.PIPELINED, "n1")

        said = "task 'r-1' is evicted for job 'default/g', which needs 3 tasks and will have 1"
        expect("gangs", snapshot, policy("preempt"), doctor, said)

    def test_more_tasks_than_the_maximum(self) -> None:
        one = elastic("j", {None: "PP"}, min_available=1, max_available=1)

        def doctor(result: CycleResult) -> CycleResult:
            return placed(placed(result, "j-0", S.BINDING, "n"), "j-1", S.BINDING, "n")

        said = "job 'default/j': expected at most 1, got 2 (0 before)"
        expect("gangs", room(4, [one]), policy("allocate"), doctor, said)

    @pytest.mark.parametrize(
        ("groups", "who", "said"),
        [
            ([TaskGroup("x", min=0, max=1)], ["j-x-0", "j-x-1"], "group 'x'"),
            (
                [
                    TaskGroup("all", min=1, max=1),
                    TaskGroup("x", min=0, parent="all"),
                    TaskGroup("y", min=0, parent="all"),
                ],
                ["j-x-0", "j-y-0"],
                "group 'all'",
            ),
        ],
    )
    def test_more_than_the_maximum_of_a_group(
        self, groups: list[TaskGroup], who: list[str], said: str
    ) -> None:
        tasks = {"x": "PP", "y": "P"} if len(groups) > 1 else {"x": "PP"}
        one = elastic("j", tasks, min_available=0, groups=groups)

        def doctor(result: CycleResult) -> CycleResult:
            for task in result.tasks:
                result = placed(result, task, S.PENDING)
            for task in who:
                result = placed(result, task, S.BINDING, "n")
            return result

        said += " of job 'default/j': expected at most 1, got 2 (0 before)"
        expect("gangs", room(4, [one]), policy("allocate"), doctor, said)

    def test_enough_tasks_in_the_wrong_groups(self) -> None:
        groups = [TaskGroup("x", min=1), TaskGroup("y", min=1)]
        one = elastic("j", {"x": "PP", "y": "P"}, groups=groups, min_available=2)

        def doctor(result: CycleResult) -> CycleResult:
            without = placed(result, "j-y-0", S.PENDING)
            return placed(placed(without, "j-x-0", S.BINDING, "n"), "j-x-1", S.BINDING, "n")

        said = "job 'default/j' lacks tasks of 'y', but a task of it is bound"
        expect("gangs", room(2, [one]), policy("allocate"), doctor, said)

    @pytest.mark.parametrize("at_minimum", ["protect", "whole-job"])
    def test_a_part_of_a_replica_is_evicted(self, at_minimum: str) -> None:
        groups = [TaskGroup("core", min=1), TaskGroup("x", min=2)]
        one = elastic("r", {"core": "R", "x": "RR"}, groups=groups, min_groups=1, min_available=1)
        snapshot = room(3, [one, elastic("w", {None: "P"}, min_available=1, priority=5)])

        def doctor(result: CycleResult) -> CycleResult:
            gone, spared = result.evictions
            return evolve(placed(result, spared.task_uid, S.RUNNING, "n"), evictions=(gone,))

        said = "group 'x' of job 'default/r' was complete and has 1 tasks left"
        gang = {"name": "gang", "arguments": {"atMinimum": at_minimum}}
        config = policy("preempt", plugins=["priority", gang, "predicates"])
        expect("gangs", snapshot, config, doctor, said)


class TestDomains:
    CONFIG = policy("allocate", plugins=("gang", "predicates", "topology"))

    @staticmethod
    def in_racks(request: TopologyRequest, **more: object) -> Snapshot:
        nodes = [
            NodeInfo(name=f"n{n}", allocatable=Resource(milli_cpu=2000), labels={"rack": f"r{n}"})
            for n in range(3)
        ]
        tasks = [
            TaskInfo(uid=f"t{n}", name="t", resreq=Resource(milli_cpu=1000), index=n, **more)  # type: ignore[arg-type]
            for n in range(2)
        ]
        groups = [TaskGroup("g", min=2, topology=request)] if more else []
        own = None if more else request
        jobs = [JobInfo(name="j", queue="q", tasks=tasks, topology=own, groups=groups)]
        listed = [Domain("rail", "a", ["n0", "n1"])]
        return Snapshot(
            nodes=nodes,
            queues=[Queue(name="q")],
            jobs=jobs,
            topologies=[Topology("net", ["rack"]), Topology("rails", ["rail"], listed)],
        )

    @pytest.mark.parametrize(
        ("request_", "more", "said"),
        [
            (TopologyRequest("net", required="rack"), {}, "job 'default/j' is not in one rack"),
            (TopologyRequest(required="rack"), {}, "job 'default/j' is not in one rack"),
            (TopologyRequest("rails", required="rail"), {}, "job 'default/j' is not in one rail"),
            (
                TopologyRequest("net", segments=[Segment(2, "rack")]),
                {},
                "segment 0 of job 'default/j' is not in one rack",
            ),
            (
                TopologyRequest("net", required="rack"),
                {"group": "g"},
                "group 'g' of job 'default/j' is not in one rack",
            ),
        ],
    )
    def test_tasks_in_two_domains_break_it(
        self, request_: TopologyRequest, more: dict[str, object], said: str
    ) -> None:
        def elsewhere(result: CycleResult) -> CycleResult:
            binds = [evolve(b, node_name="n2") if b.task_uid == "t1" else b for b in result.binds]
            return evolve(placed(result, "t1", S.BINDING, "n2"), binds=binds)

        expect("domains", self.in_racks(request_, **more), self.CONFIG, elsewhere, said)
