"""Gangs within one domain: the scenarios of the page on racks and blocks.

A task takes one GPU; "racks 4 / 3" have so many free.
"""

from __future__ import annotations

from attrs import evolve
from tests.support.racks import (
    NOW,
    RACK,
    RACKS,
    ZONE,
    ZONES,
    counts,
    cycle,
    decided,
    gpus,
    in_racks,
    in_zones,
    job,
    no_domain,
    node,
    option,
    placed,
    segments,
    tasks,
)

from batchsched import (
    Domain,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Topology,
    TopologyRequest,
    next_snapshot,
)


def test_1_the_tightest_zone_and_there_as_few_racks_as_possible() -> None:
    nodes = in_zones(A=(2, 1, 1, 1), B=(2, 2, 2))
    assert counts(cycle(nodes, [job("j", tasks("t", 3), ZONE)], ZONES)) == {"A1": 2, "A2": 1}


def test_2_the_tightest_rack() -> None:
    three, four = job("a", tasks("a", 3), RACK), job("b", tasks("b", 4), RACK)
    result = cycle(in_racks(4, 3, 3), [three, four])
    assert counts(result) == {"n1": 4, "n2": 3}


def test_3_among_racks_with_equal_room_the_one_with_the_largest_share_in_use() -> None:
    nodes = [node("n1", 4, rack="r1"), node("n2", 6, rack="r2"), node("n3", 5, rack="r3")]
    running = job("o", tasks("o", 3, on={0: "n2", 1: "n2", 2: "n3"}), None)
    assert counts(cycle(nodes, [running, job("j", tasks("t", 3), RACK)])) == {"n2": 3}


def test_4_the_rack_whose_zone_has_less_room() -> None:
    nodes = in_zones(A=(1, 1, 4), B=(1,))
    assert counts(cycle(nodes, [job("j", tasks("t", 1), RACK)], ZONES)) == {"B1": 1}


def test_5_the_rack_that_holds_all_of_what_may_follow() -> None:
    assert counts(cycle(in_racks(3, 5), [job("j", tasks("t", 5), RACK, 2)])) == {"n2": 5}


def test_6_what_runs_binds_what_is_to_follow() -> None:
    running = job("j", tasks("t", 3, on={0: "n2"}), RACK, 3)
    result = cycle(in_racks(6, 2), [running])
    assert placed(result) == {}
    found = no_domain(result, "default/j")
    assert (found.domains, found.best, found.needed) == (1, 1, 2)
    assert found.causes == {"too little gpu": 1}
    assert "the only rack has no room for 2 tasks; it has room for 1 (has too little gpu)" in str(
        result.jobs["default/j"].condition
    )


def test_7_what_runs_in_two_racks_keeps_the_rest_waiting() -> None:
    scattered = job("j", tasks("t", 3, on={0: "n1", 1: "n2"}), RACK, 3)
    result = cycle(in_racks(3, 3), [scattered])
    assert placed(result) == {}
    assert no_domain(result, "default/j").text == "its tasks are in 2 racks"


def test_8_whole_segments_in_each_rack() -> None:
    wanted = job("j", tasks("t", 32), segments((16, "rack")))
    result = cycle(in_racks(18, 18), [wanted])
    assert counts(result) == {"n1": 16, "n2": 16}
    assert {where for uid, where in placed(result).items() if int(uid[1:]) < 16} == {"n1"}


def test_9_the_short_segment_beside_a_whole_one() -> None:
    result = cycle(in_racks(4, 6), [job("j", tasks("t", 10), segments((4, "rack")))])
    assert counts(result) == {"n1": 4, "n2": 6}


def test_10_segments_of_hosts_within_segments_of_racks() -> None:
    hosts = [
        node(f"h{place}", free, rack=rack, host=f"h{place}")
        for place, (rack, free) in enumerate((("r1", 1), ("r1", 4), ("r2", 3), ("r2", 4)))
    ]
    wanted = job("j", tasks("t", 8), segments((4, "rack"), (2, "host")))
    result = cycle(hosts, [wanted], Topology("net", ["rack", "host"]))
    assert counts(result) == {"h1": 4, "h3": 4}


HOSTS = Topology("net", ["host"])


def in_hosts(*free: int) -> list[NodeInfo]:
    return [node(f"h{place}", count, host=f"h{place}") for place, count in enumerate(free)]


def test_11_a_preferred_host_fills_the_fullest_hosts() -> None:
    preferred = TopologyRequest("net", preferred="host")
    result = cycle(in_hosts(15, 13, 10), [job("j", tasks("t", 25), preferred)], HOSTS)
    assert counts(result) == {"h0": 15, "h2": 10}
    evenly = TopologyRequest("net", preferred="host", balanced=True)
    result = cycle(in_hosts(15, 13, 10), [job("j", tasks("t", 25), evenly)], HOSTS)
    assert counts(result) == {"h0": 13, "h1": 12}


def test_a_balanced_gang_that_one_host_holds_takes_that_of_the_fuller_rack() -> None:
    hosts = [
        node(name, count, rack=rack, host=name)
        for name, count, rack in (("h0", 4, "r0"), ("h1", 5, "r0"), ("h2", 4, "r1"))
    ]
    evenly = TopologyRequest("net", preferred="host", balanced=True)
    wanted = job("j", tasks("t", 4), evenly)
    result = cycle(hosts, [wanted], Topology("net", ["rack", "host"]))
    assert counts(result) == {"h2": 4}


def test_12_unlike_tasks_are_tried_where_they_fit_in_sum() -> None:
    def apart(size: int, name: str) -> TaskInfo:
        term = PodAffinityTerm(
            topology_key="host", selector=LabelSelector(match_labels={"app": "x"})
        )
        return TaskInfo(
            uid=name,
            name=name,
            resreq=gpus(size),
            labels={"app": "x"},
            pod_anti_affinity=PodAffinity(required=[term]),
        )

    nodes = [
        node("a1", 2, host="a1"),
        node("a2", 2, host="a2"),
        node("b", 4, host="b"),
        node("c", 4, host="c"),
    ]
    listed = [
        Domain("hn", "hn1", ["a1", "a2"]),
        Domain("hn", "hn2", ["b"]),
        Domain("hn", "hn3", ["c"]),
    ]
    wanted = job("j", [apart(2, "big"), apart(1, "small")], TopologyRequest("net", preferred="hn"))
    result = cycle(nodes, [wanted], Topology("net", ["hn"], listed))
    assert sorted(placed(result).values()) == ["a1", "a2"]


def test_13_groups_of_one_size_are_placed_in_one_outer_trial() -> None:
    nodes = [
        node(f"{block}{rack:02}", 10, block=block, rack=f"{block}{rack:02}")
        for block in "AB"
        for rack in range(50)
    ]
    groups = [TaskGroup(f"g{n:02}", min=10, topology=RACK) for n in range(50)]
    members = [
        TaskInfo(uid=f"{g.name}-{n}", name="t", resreq=gpus(1), group=g.name)
        for g in groups
        for n in range(10)
    ]
    wanted = JobInfo(
        name="j",
        queue="q",
        tasks=members,
        groups=groups,
        min_available=0,
        topology=TopologyRequest("net", required="block"),
    )
    result = cycle(nodes, [wanted], Topology("net", ["block", "rack"]))
    assert set(counts(result).values()) == {10}
    assert {name[0] for name in counts(result)} == {"A"}
    of_group: dict[str, set[str]] = {}
    for uid, where in placed(result).items():
        of_group.setdefault(uid[:3], set()).add(where)
    assert all(len(where) == 1 for where in of_group.values())


def test_14_larger_groups_are_placed_first_within_the_block() -> None:
    nodes = [
        node(name, free, block=name[0], rack=name)
        for name, free in (("A1", 8), ("A2", 8), ("B1", 8), ("B2", 9))
    ]
    workers = [TaskInfo(uid=f"w{n}", name=f"w{n}", resreq=gpus(8), group=f"w{n}") for n in range(2)]
    leader = TaskInfo(uid="leader", name="leader", resreq=gpus(1), group="leader")
    wanted = JobInfo(
        name="j",
        queue="q",
        tasks=[leader, *workers],
        groups=[
            TaskGroup("leader", min=1, topology=RACK),
            TaskGroup("w0", min=1, topology=RACK),
            TaskGroup("w1", min=1, topology=RACK),
        ],
        min_available=0,
        topology=TopologyRequest("net", required="block"),
    )
    result = cycle(nodes, [wanted], Topology("net", ["block", "rack"]))
    assert placed(result)["leader"] == "B2"
    assert {placed(result)["w0"], placed(result)["w1"]} == {"B1", "B2"}


def test_15_evictions_are_within_the_rack_with_the_smallest_shortage() -> None:
    nodes = in_racks(4, 4, 3)
    low = job("low", tasks("v", 8, on=dict(enumerate(["n1"] * 3 + ["n2"] * 2 + ["n3"] * 0))), None)
    victims = [t for t in low.tasks if t.status is TaskStatus.RUNNING]
    running = [JobInfo(name=f"low-{t.uid}", queue="q", tasks=[t], min_available=0) for t in victims]
    claimant = job("j", tasks("t", 4), RACK, priority=10)
    result = cycle(nodes, [*running, claimant], RACKS, "allocate", "preempt")
    assert sorted(each.node_name for each in result.evictions) == ["n2", "n2"]
    assert {p.node_name for p in result.pipelined} == {"n2"}


def test_16_room_that_is_in_pieces() -> None:
    nodes = [node("n1", 3, rack="r"), node("n2", 3, rack="r")]
    result = cycle(nodes, [job("j", tasks("t", 3, 2), RACK)])
    found = no_domain(result, "default/j")
    assert (found.best, found.causes) == (2, {"fragmented": 1})


def test_18_tasks_that_must_be_near_each_other_find_the_zone_that_holds_them() -> None:
    near = PodAffinity(
        required=[
            PodAffinityTerm(topology_key="zone", selector=LabelSelector(match_labels={"app": "x"}))
        ]
    )
    nodes = [node("n1", 1, zone="a"), node("n2", 1, zone="b"), node("n3", 1, zone="b")]
    pair = job("j", tasks("t", 2, labels={"app": "x"}, pod_affinity=near), None)
    assert counts(cycle(nodes, [pair])) == {"n2": 1, "n3": 1}


def test_a_label_key_is_a_topology_of_one_level() -> None:
    nodes = in_racks(1, 2)
    wanted = job("j", tasks("t", 2), TopologyRequest(required="rack"))
    assert counts(cycle(nodes, [wanted])) == {"n2": 2}


def test_what_is_preferred_gives_way_to_a_wider_level() -> None:
    nodes = in_zones(A=(1, 1), B=(2, 1))
    wanted = job("j", tasks("t", 3), TopologyRequest("net", required="zone", preferred="rack"))
    assert counts(cycle(nodes, [wanted], ZONES)) == {"B1": 2, "B2": 1}


def test_a_minimum_is_met_by_whole_segments_and_each_further_one_is_optional() -> None:
    request = segments((4, "rack"))
    assert counts(cycle(in_racks(4, 3), [job("j", tasks("t", 8), request, 3)])) == {"n1": 4}
    assert counts(cycle(in_racks(4, 5), [job("j", tasks("t", 9), request, 5)])) == {
        "n1": 4,
        "n2": 5,
    }
    assert placed(cycle(in_racks(4, 3), [job("j", tasks("t", 8), request, 5)])) == {}
    group = TaskGroup("g", min=3, topology=request)
    of_group = job("j", tasks("t", 8, group="g"), None, 0, groups=[group])
    assert counts(cycle(in_racks(4, 3), [of_group])) == {"n1": 4}


def test_a_lost_task_returns_to_the_rack_of_its_segment_or_waits() -> None:
    request = segments((2, "rack"))
    on = {0: "n1", 2: "n2", 3: "n2"}
    for free, where in (((2, 9), {"n1": 1}), ((1, 9), {})):
        lost = job("j", tasks("t", 4, on=on), request, 4)
        assert counts(cycle(in_racks(*free), [lost])) == where


def test_unlike_tasks_follow_their_segment_too() -> None:
    request = segments((3, "rack"), preferred="rack")
    first, second, third = tasks("t", 3, on={0: "n1"})
    large = evolve(second, resreq=gpus(2))
    result = cycle(in_racks(1, 3), [job("j", [first, large, third], request, 1)])
    assert placed(result) == {}
    roomy = cycle(in_racks(4, 3), [job("j", [first, large, third], request, 1)])
    assert counts(roomy) == {"n1": 2}


# Reservations, promises, evictions


RESERVE = option("reserve", starvingJobTimeThreshold=0, reservedNodePercent=100)
STARVES = option("allocate", starvationThreshold=0)


def busy(**on: int) -> list[JobInfo]:
    """Jobs that run one task each, of so many GPUs on a node."""
    return [
        job(f"busy-{name}", tasks(f"{name}-", 1, size, on={0: name}), None)
        for name, size in on.items()
    ]


def test_nodes_are_reserved_in_the_one_rack_that_could_hold_the_gang() -> None:
    nodes = [node("n1", 4, rack="r1"), node("n2", 4, rack="r1"), node("n3", 5, rack="r2")]
    gang = job("j", tasks("t", 6), RACK)
    for action in (("allocate", RESERVE), (STARVES,)):
        result = cycle(nodes, [*busy(n1=3, n2=3), gang], RACKS, *action)
        places = {uid: each for uid, each in result.tasks.items() if uid.startswith("t")}
        assert {each.node_name for each in places.values()} == {"n1", "n2"}
        assert {each.status for each in places.values()} <= {
            TaskStatus.ALLOCATED,
            TaskStatus.RESERVED,
        }


def test_of_two_racks_that_could_hold_the_gang_the_one_with_most_room_is_reserved() -> None:
    nodes = in_racks(4, 4, 4)
    gang = job("j", tasks("t", 4), RACK)
    result = cycle(nodes, [*busy(n1=3, n2=2, n3=3), gang], RACKS, "allocate", RESERVE)
    assert {each.node_name for each in result.reserved} == {"n2"}


def test_reservations_end_if_a_node_has_left_the_rack() -> None:
    nodes = [node("n1", 4, rack="r1"), node("n2", 4, rack="r1"), node("n3", 3, rack="r2")]
    gang = job("j", tasks("t", 6), RACK)
    first = Snapshot(
        nodes=nodes,
        jobs=[*busy(n1=3, n2=3), gang],
        queues=[Queue(name="q")],
        topologies=[RACKS],
        now=NOW,
    )
    after = next_snapshot(first, decided(first, STARVES), now=NOW + 1)
    assert decided(after, STARVES).dropped_reservations == ()
    apart = evolve(after, nodes=[evolve(nodes[0], labels={"rack": "r3"}), *nodes[1:]])
    result = decided(apart, STARVES)
    assert {each.task_uid for each in result.dropped_reservations} == {f"t0{n}" for n in range(6)}


def test_what_is_held_of_a_gang_is_held_in_one_rack() -> None:
    nodes = [node("n1", 4, rack="r1"), node("n2", 4, rack="r1"), node("n3", 5, rack="r2")]
    gang = job("j", tasks("t", 6), RACK)
    held = option("allocate", unready="hold")
    result = cycle(nodes, [*busy(n1=3, n2=3), gang], RACKS, held)
    assert {
        u: t.node_name for u, t in result.tasks.items() if t.status is TaskStatus.ALLOCATED
    } == {
        "t00": "n1",
        "t01": "n2",
    }


def test_a_promise_outside_the_rack_of_the_job_ends() -> None:
    nodes = [node("n1", 4, rack="r1"), node("n2", 4, rack="r2"), node("n3", 4, rack="r2")]
    runs, near, far = tasks("t", 3, on={0: "n1"})
    promised = [
        runs,
        evolve(near, status=TaskStatus.PIPELINED, node_name="n1"),
        evolve(far, status=TaskStatus.PIPELINED, node_name="n2"),
    ]
    leaving = [
        evolve(task, status=TaskStatus.RELEASING)
        for task in tasks("l", 2, 3, on={0: "n1", 1: "n2"})
    ]
    result = cycle(
        nodes, [job("left", leaving, None, 0), job("j", promised, RACK, 1)], RACKS, "allocate"
    )
    assert {p.task_uid: p.node_name for p in result.pipelined} == {"t01": "n1", "t02": "n1"}
    (ended,) = result.dropped_promises
    assert (ended.task_uid, ended.node_name) == ("t02", "n2")
    assert ended.reason is not None
    assert ended.reason.no_domain is not None
    assert ended.reason.no_domain.text == "its tasks are in 2 racks"


def test_the_rest_of_a_job_starts_in_the_rack_where_its_promises_are_free() -> None:
    nodes = in_racks(3, 9)
    runs, *promised = tasks("t", 3, on={0: "n1"})
    waiting = [evolve(t, status=TaskStatus.PIPELINED, node_name="n1") for t in promised]
    result = cycle(nodes, [job("j", [runs, *waiting], RACK, 3)], RACKS, "allocate")
    assert counts(result) == {"n1": 2}


def test_segments_evict_where_the_fewest_must_leave() -> None:
    nodes = in_racks(4, 4, 4)
    low = [
        job(f"low-{task.uid}", [task], None, 0)
        for task in tasks("v", 9, on=dict(enumerate(["n1"] * 4 + ["n2"] * 3 + ["n3"] * 2)))
    ]
    claimant = job("j", tasks("t", 4), segments((2, "rack")), priority=10)
    result = cycle(nodes, [*low, claimant], RACKS, "allocate", "preempt")
    assert sorted(each.node_name for each in result.evictions) == ["n2"]
    claiming = [result.tasks[task.uid].node_name for task in claimant.tasks]
    assert sorted(map(str, claiming)) == ["n2", "n2", "n3", "n3"]


def test_what_unready_gangs_hold_is_used_in_one_rack() -> None:
    nodes = [node("n1", 4, rack="r1"), node("n2", 4, rack="r2")]
    large = job("large", tasks("l", 9), None, priority=5)
    gang = job("j", tasks("t", 3), RACK)
    hold = option("allocate", unready="hold")
    for strategy in ("release", "displace"):
        result = cycle(nodes, [large, gang], RACKS, hold, option("backfill", strategy=strategy))
        assert counts(result) == {"n1": 3}
        assert all(bind.is_backfill is (strategy == "release") for bind in result.binds)


def test_a_gang_that_fits_in_no_rack_displaces_nobody() -> None:
    nodes = [node("n1", 2, rack="r1"), node("n2", 2, rack="r2")]
    large = job("large", tasks("l", 9), None, priority=5)
    hold = option("allocate", unready="hold")
    for strategy in ("release", "displace"):
        gang = job("j", tasks("t", 3), RACK)
        result = cycle(nodes, [large, gang], RACKS, hold, option("backfill", strategy=strategy))
        assert placed(result) == {}


def test_a_broken_gang_takes_the_rest_of_its_rack_from_another_broken_one() -> None:
    nodes = in_racks(3, 3)
    unblocks = option("preempt", unblock="yes")
    first = job("a", tasks("a", 3, on={0: "n1", 1: "n1"}), RACK, priority=5)
    for where, evicted in (("n1", ["n1"]), ("n2", [])):
        second = job("b", tasks("b", 3, on={0: where}), None)
        other = job("o", tasks("o", 2, on={0: "n2", 1: "n2"}), None, priority=9)
        result = cycle(nodes, [first, second, other], RACKS, "allocate", unblocks)
        assert [each.node_name for each in result.evictions] == evicted


# Plans


PLAN = option("plan", depth="all")


def running(name: str, size: int, on: str, until: float) -> JobInfo:
    (task,) = tasks(name, 1, size, on={0: on})
    return job(name, [evolve(task, start_time=0.0, estimate=until)], None)


def test_a_gang_starts_in_the_tightest_rack_or_is_planned_in_the_one_that_is_free_first() -> None:
    gang = job("j", tasks("t", 4, estimate=50.0), RACK)
    nodes = [node("n1", 4, rack="r1"), node("n2", 3, rack="r2"), node("n3", 5, rack="r3")]
    started = cycle(nodes, [gang], RACKS, PLAN)
    assert counts(started) == {"n1": 4}
    others = [running("a", 4, "n1", 300.0), running("b", 3, "n3", 200.0)]
    waits = cycle(nodes, [*others, gang], RACKS, PLAN)
    plan = waits.planned["default/j"]
    assert (plan.start, set(plan.nodes.values())) == (200.0, {"n3"})


def test_a_plan_stays_in_its_rack_and_ends_if_the_rack_is_divided() -> None:
    gang = job("j", tasks("t", 4, estimate=50.0), RACK)
    nodes = [node("n1", 2, rack="r1"), node("n2", 2, rack="r2"), node("n3", 2, rack="r2")]
    nodes.append(node("n4", 4, rack="r4"))
    others = [running(f"o{place}", 1, f"n{place}", 200.0) for place in (1, 2, 3)]
    others.append(running("o4", 4, "n4", 300.0))
    first = Snapshot(
        nodes=nodes,
        jobs=[*others, gang],
        queues=[Queue(name="q")],
        topologies=[RACKS],
        now=NOW,
    )
    result = decided(first, PLAN)
    planned = result.planned["default/j"]
    assert (planned.start, set(planned.nodes.values())) == (200.0, {"n2", "n3"})
    after = next_snapshot(first, result, now=NOW + 1)
    assert decided(after, PLAN).planned["default/j"].nodes == planned.nodes
    divided = [evolve(n, labels={"rack": "r3"}) if n.name == "n3" else n for n in nodes]
    again = decided(evolve(after, nodes=divided), PLAN).planned["default/j"]
    assert (again.start, set(again.nodes.values())) == (300.0, {"n4"})


def test_a_gang_that_no_rack_ever_holds_has_no_plan() -> None:
    gang = job("j", tasks("t", 4), RACK)
    result = cycle(in_racks(3, 3), [gang], RACKS, PLAN)
    assert result.planned == {}
    assert "has room for 4 tasks" in str(result.jobs["default/j"].condition)


def test_groups_are_planned_each_in_its_rack_within_the_block() -> None:
    nodes = [node(name, 2, block=name[0], rack=name) for name in ("A1", "A2", "B1", "B2", "B3")]
    groups = [TaskGroup(name, min=2, topology=RACK) for name in ("g0", "g1")]
    members = [task for g in groups for task in tasks(g.name, 2, group=g.name)]
    gang = JobInfo(
        name="j",
        queue="q",
        tasks=members,
        groups=groups,
        min_available=0,
        topology=TopologyRequest("net", required="block"),
    )
    ends = {"A1": 900.0, "A2": 200.0, "B1": 300.0, "B2": 400.0, "B3": 900.0}
    others = [running(f"o{name}", 1, name, until) for name, until in ends.items()]
    result = cycle(nodes, [*others, gang], Topology("net", ["block", "rack"]), PLAN)
    plan = result.planned["default/j"]
    assert plan.start == 400.0
    assert {plan.nodes["g000"], plan.nodes["g100"]} == {"B1", "B2"}
    assert plan.nodes["g000"] == plan.nodes["g001"]


def test_a_group_that_no_rack_holds_is_named_although_a_job_asked_for_the_same_before() -> None:
    """What is known of the racks is said of each as what it is."""
    whole = job("a", tasks("a", 2), RACK)
    group = TaskGroup(name="workers", min=2, topology=RACK)
    in_group = job("b", tasks("b", 2, group="workers"), None, least=1, groups=[group])
    result = cycle(in_racks(1, 1), [whole, in_group])
    assert no_domain(result, "default/a").what == "2 tasks"
    assert no_domain(result, "default/b").what == "2 tasks of group workers"
