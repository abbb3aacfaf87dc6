"""consolidate: running tasks move so that one that waits has room."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import cluster, job, node

from batchsched import (
    ActionOption,
    ConfigError,
    CycleResult,
    JobInfo,
    NodeInfo,
    PluginOption,
    Preemptible,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskStatus,
    Tier,
    Topology,
    TopologyRequest,
    next_snapshot,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.live import Cluster

PLUGINS: dict[str, dict[str, Any]] = {
    "priority": {},
    "gang": {},
    "conformance": {},
    "protection": {},
    "topology": {},
    "devices": {},
    "predicates": {},
    "nodeorder": {"leastrequested.weight": 0, "mostrequested.weight": 1},
}
"""Fullest nodes first."""


def scheduler(plain: bool = False, **arguments: Any) -> Scheduler:
    return Scheduler(
        SchedulerConfig(
            actions=[
                ActionOption(name="allocate"),
                ActionOption(name="consolidate", arguments=arguments),
            ],
            tiers=[
                Tier(
                    plugins=[
                        PluginOption(name=name, arguments=given) for name, given in PLUGINS.items()
                    ]
                )
            ],
        ),
        plain=plain,
    )


def decided(snapshot: Snapshot, **arguments: Any) -> CycleResult:
    """What a cycle decides: from scratch, without shortcuts, on a living cluster, and again."""
    result = scheduler(**arguments).schedule(snapshot)
    assert scheduler(plain=True, **arguments).schedule(snapshot) == result
    live = scheduler(**arguments).attach(Cluster(snapshot))
    assert live.schedule() == result
    assert live.schedule() == result
    assert scheduler(**arguments).schedule(Snapshot.from_dict(snapshot.to_dict())) == result
    assert CycleResult.from_dict(result.to_dict()) == result
    assert result.evictions == ()
    return result


def moves(result: CycleResult) -> dict[str, tuple[str, str]]:
    return {move.task_uid: (move.from_node, move.to_node) for move in result.moves}


def promised(result: CycleResult) -> dict[str, str]:
    return {promise.task_uid: promise.node_name for promise in result.kept_promises}


def nodes(*sizes: int, **more: Any) -> list[NodeInfo]:
    return [node(f"n{i}", f"{size}C{size}G", **more) for i, size in enumerate(sizes, start=1)]


def running(name: str, where: str, *sizes: int, **more: Any) -> JobInfo:
    return job(name, *(f"{size}C{size}G@{where}" for size in sizes), minimum=1, **more)


def waiting(name: str, *sizes: int, **more: Any) -> JobInfo:
    return job(name, *(f"{size}C{size}G" for size in sizes), **more)


def selecting(one: JobInfo, **labels: str) -> JobInfo:
    return evolve(one, tasks=[evolve(task, node_selector=labels) for task in one.tasks])


def c1(*, a: dict[str, Any] | None = None, b: dict[str, Any] | None = None) -> Snapshot:
    return cluster(
        nodes(8, 8),
        running("a", "n1", 2, **(a or {})),
        running("b", "n2", 2, **(b or {})),
        waiting("c", 8),
        queues=("q", "x", "y"),
    )


NOTHING: dict[str, tuple[str, str]] = {}


class TestScenarios:
    def test_c1_one_makes_room(self) -> None:
        result = decided(c1())
        assert moves(result) == {"a-1": ("n1", "n2")}
        assert promised(result) == {"a-1": "n2", "c-1": "n1"}
        (move,) = result.moves
        assert (move.action, move.for_task_uid) == ("consolidate", "c-1")
        assert result.kept_promises == result.pipelined

    @pytest.mark.parametrize(("started", "expected"), [(95, {}), (40, {"a-1": ("n1", "n2")})])
    def test_c2_what_has_just_started_stays(
        self, started: float, expected: dict[str, tuple[str, str]]
    ) -> None:
        given = c1()
        jobs = [
            evolve(
                one,
                tasks=[
                    evolve(task, start_time=started) if task.status is TaskStatus.RUNNING else task
                    for task in one.tasks
                ],
            )
            for one in given.jobs
        ]
        queues = [evolve(queue, preempt_min_runtime=60.0) for queue in given.queues]
        assert moves(decided(evolve(given, jobs=jobs, queues=queues, now=100.0))) == expected

    def test_c3_the_least_valuable_goes(self) -> None:
        given = cluster(
            nodes(8, 8),
            running("a", "n1", 2),
            running("b", "n1", 2),
            running("d", "n1", 2),
            running("e", "n2", 6),
            waiting("f", 4),
        )
        result = decided(given)
        assert moves(result) == {"d-1": ("n1", "n2")}
        assert promised(result)["f-1"] == "n1"

    def test_c4_one_move_rather_than_five(self) -> None:
        given = cluster(
            nodes(8, 8, 8),
            running("a", "n1", 1, 1, 1, 1, 1),
            running("b", "n2", 4),
            running("d", "n3", 4),
            waiting("e", 8),
        )
        assert moves(decided(given)) == {"b-1": ("n2", "n3")}
        assert moves(decided(given, maxMoves=0)) == NOTHING

    def test_c5_as_many_as_are_allowed(self) -> None:
        given = cluster(nodes(8, 5), running("a", "n1", 1, 1, 1, 1, 1), waiting("c", 8))
        assert moves(decided(given)) == NOTHING
        assert set(moves(decided(given, maxMoves=5))) == {f"a-{i}" for i in range(1, 6)}

    def test_c6_tasks_of_other_queues_move_only_if_that_is_asked_for(self) -> None:
        given = c1(a={"queue": "x"}, b={"queue": "x"})
        assert moves(decided(given)) == NOTHING
        assert moves(decided(given, scope="all")) == {"a-1": ("n1", "n2")}

    def test_c7_a_task_of_a_gang_moves_alone(self) -> None:
        given = cluster(nodes(8, 8), job("a", "2C2G@n1", "2C2G@n2"), waiting("c", 8))
        result = decided(given)
        assert moves(result) == {"a-1": ("n1", "n2")}
        assert promised(result) == {"a-1": "n2", "c-1": "n1"}

    def test_c8_what_is_not_preemptible_stays(self) -> None:
        never = {"preemptible": Preemptible.NEVER}
        assert moves(decided(c1(a=never, b=never))) == NOTHING
        assert moves(decided(c1(a=never))) == {"b-1": ("n2", "n1")}

    def test_c9_there_must_be_places(self) -> None:
        given = cluster(nodes(8, 8), running("a", "n1", 5), running("b", "n2", 4), waiting("c", 8))
        assert moves(decided(given)) == NOTHING

    def test_c10_a_gang_gets_all_that_it_needs(self) -> None:
        given = cluster(
            nodes(4, 4, 4),
            running("a", "n1", 2),
            running("b", "n2", 2),
            running("c", "n3", 2),
            waiting("d", 4, 2),
        )
        result = decided(given)
        assert moves(result) == {"a-1": ("n1", "n2")}
        assert promised(result) == {"a-1": "n2", "d-1": "n1", "d-2": "n3"}

    @pytest.mark.parametrize("most", [4, 1])
    def test_c11_in_racks(self, most: int) -> None:
        racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
        given = cluster(
            [node(name, "8C8G", labels={"rack": rack}) for name, rack in racks.items()],
            running("a", "n1", 2),
            running("b", "n2", 2),
            running("d", "n3", 8, preemptible=Preemptible.NEVER),
        )
        asked = TopologyRequest(topology="t", required="rack")
        given = evolve(
            given,
            jobs=[*given.jobs, waiting("e", 8, 8, topology=asked, creation_time=1)],
            topologies=[Topology(name="t", levels=["rack"])],
        )
        result = decided(given, maxMoves=most)
        if most == 4:
            assert moves(result) == {"a-1": ("n1", "n4"), "b-1": ("n2", "n4")}
            assert {promised(result)["e-1"], promised(result)["e-2"]} == {"n1", "n2"}
        else:
            assert moves(result) == NOTHING

    @pytest.mark.parametrize("free", [True, False])
    def test_c12_devices_are_chosen_anew(self, free: bool) -> None:
        claim = DeviceClaim(name="gpu", requests=[DeviceRequest(name="gpu", count=1)])
        with_devices = [
            evolve(each, devices=[Device(name=f"{each.name}-g")]) for each in nodes(8, 8)
        ]
        mine = DevicePick(claim="gpu", request="gpu", device=("", "", "n1-g"))
        theirs = evolve(mine, device=("", "", "n2-g"))
        a, b = running("a", "n1", 2), running("b", "n2", 2)
        a = evolve(a, tasks=[evolve(a.tasks[0], claims=[claim], devices=[mine])])
        if not free:
            b = evolve(b, tasks=[evolve(b.tasks[0], claims=[claim], devices=[theirs])])
        result = decided(cluster(with_devices, a, b, waiting("c", 8)))
        if not free:
            assert moves(result) == NOTHING
            return
        assert moves(result) == {"a-1": ("n1", "n2")}
        promise = next(each for each in result.pipelined if each.task_uid == "a-1")
        assert promise.devices == (theirs,)


class TestLimits:
    def test_one_that_could_start_elsewhere_moves_nobody(self) -> None:
        given = evolve(c1(), nodes=[*c1().nodes, node("n3", "8C8G")])
        assert moves(decided(given)) == NOTHING

    def test_moves_that_need_each_other_s_place_at_once_are_none(self) -> None:
        """A and b would have to swap their nodes: neither fits before the other has left."""
        given = cluster(
            [node("n1", "6C6G", labels={"zone": "z"}), node("n2", "6C6G")],
            running("a", "n1", 4),
            running("b", "n2", 3),
            selecting(waiting("c", 3), zone="z"),
        )
        assert moves(decided(given)) == NOTHING

    def test_one_leaves_before_another_comes_to_its_place(self) -> None:
        n1, n2, n3 = nodes(8, 8, 8)
        n1, n2 = (evolve(n1, labels={"zone": "z", "c": "y"}), evolve(n2, labels={"zone": "z"}))
        given = cluster(
            [n1, n2, n3],
            selecting(running("a", "n1", 3), zone="z"),
            running("b", "n2", 5),
            running("d", "n2", 3),
            running("e", "n3", 5),
            selecting(waiting("f", 8), c="y"),
        )
        result = decided(given)
        assert moves(result) == {"a-1": ("n1", "n2"), "d-1": ("n2", "n3")}
        assert [move.task_uid for move in result.moves] == ["d-1", "a-1"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"maxMoves": -1}, "maxMoves"),
            ({"tries": -1}, "tries"),
            ({"tries": 1.5}, "tries"),
            ({"scope": "leaf"}, "scope"),
        ],
    )
    def test_wrong_arguments_are_refused(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            scheduler(**arguments)

    def test_a_job_that_cannot_be_preempted_claims_nothing(self) -> None:
        given = c1()
        jobs = [
            evolve(one, preemptible=Preemptible.NEVER) if one.name == "c" else one
            for one in given.jobs
        ]
        assert moves(decided(evolve(given, jobs=jobs))) == NOTHING

    def test_promises_are_kept_until_all_have_moved(self) -> None:
        snapshot, result = c1(), decided(c1())
        for _ in range(3):
            snapshot = next_snapshot(
                snapshot, result, now=snapshot.now + 1, still_releasing=["a-1"]
            )
            result = decided(snapshot)
            assert moves(result) == NOTHING
            assert promised(result) == {"a-1": "n2", "c-1": "n1"}
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
        result = decided(snapshot)
        assert {bind.task_uid: bind.node_name for bind in result.binds} == {
            "a-1": "n2",
            "c-1": "n1",
        }


class TestReasons:
    def test_it_says_how_far_it_looked(self) -> None:
        given = cluster(nodes(8, 5), running("a", "n1", 1, 1, 1, 1, 1), waiting("c", 8))
        assert "consolidate searched 2 nodes with 5 candidates: needs more than 4 moves" in (
            decided(given).pending["c-1"].text
        )

    def test_it_says_who_may_not_move(self) -> None:
        never = {"preemptible": Preemptible.NEVER}
        text = decided(c1(a=never, b=never)).pending["c-1"].text
        assert "consolidate searched 2 nodes with 2 candidates: protected by protection: 2" in text

    def test_it_says_that_it_gave_up(self) -> None:
        given = c1()
        assert "ended after 0 tries" in decided(given, tries=0).pending["c-1"].text


def test_a_job_for_which_others_moved_keeps_its_promise_in_that_cycle() -> None:
    """Preempt after it would take the place, and the move would be in vain."""
    given = cluster(
        nodes(8, 8),
        running("a", "n1", 2),
        running("b", "n2", 2),
        waiting("c", 8, priority=1),
        waiting("d", 8, priority=9, preemptible=Preemptible.NEVER),
    )
    plugins = [PluginOption(name=name, arguments=some) for name, some in PLUGINS.items()]
    config = SchedulerConfig(
        actions=[ActionOption(name=name) for name in ("allocate", "consolidate", "preempt")],
        tiers=[Tier(plugins=plugins)],
    )
    for plain in (False, True):
        result = Scheduler(config, plain=plain).schedule(given)
        assert moves(result) == {"a-1": ("n1", "n2")}
        assert promised(result)["c-1"] == "n1"


@pytest.mark.parametrize("tries", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_search_beside_an_empty_node_that_refuses_all_has_as_many_tries(
    tries: int, most: int
) -> None:
    tainted = Taint(key="out", effect=TaintEffect.NO_SCHEDULE)
    snapshot = cluster(
        [*(node(f"n{at}", "4C4G") for at in range(3)), node("n3", "8C8G", taints=[tainted])],
        *(job(f"a{at}", f"{1 + at % 2}C1G@n{at // 2}") for at in range(6)),
        job("b", "1C1G@n1"),
        job("gang", "3C1G", "3C1G"),
        job("like", "3C1G", "3C1G"),
    )
    decided(snapshot, maxMoves=most, tries=tries)
