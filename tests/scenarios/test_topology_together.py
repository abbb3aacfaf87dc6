"""What gangs ask of a topology beside what else jobs ask for: groups, devices, affinity, holes.

Each is decided from scratch, plainly and on a living cluster alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest
from attrs import evolve
from tests.support.racks import (
    NOW,
    RACK,
    RACKS,
    ZONES,
    counts,
    cycle,
    decided,
    gpus,
    in_racks,
    in_zones,
    job,
    node,
    option,
    placed,
    segments,
    tasks,
)

from batchsched import (
    ActionOption,
    CycleResult,
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
from batchsched.devices import Device, DeviceClaim, DeviceRequest


def numbered(name: str, *indices: int, on: dict[int, str] | None = None) -> list[TaskInfo]:
    """Tasks with these numbers; those in `on`, by number, run."""
    return [
        evolve(
            task,
            index=index,
            status=TaskStatus.RUNNING if on and index in on else TaskStatus.PENDING,
            node_name=on.get(index) if on else None,
        )
        for task, index in zip(tasks(name, len(indices)), indices, strict=True)
    ]


def near(key: str, **labels: str) -> PodAffinity:
    selector = LabelSelector(match_labels=labels)
    return PodAffinity(required=[PodAffinityTerm(topology_key=key, selector=selector)])


def by_task(result: CycleResult, given: Iterable[TaskInfo]) -> list[str | None]:
    places = placed(result)
    return [places.get(task.uid) for task in given]


# Label keys


def test_a_label_key_of_a_job_and_another_of_its_only_group_are_two_topologies() -> None:
    nodes = [
        node("n1", 1, z="z1", block="b1"),
        node("n2", 1, z="z1", block="b2"),
        node("n3", 2, z="z2", block="b2"),
    ]
    for level, where in (("block", {"n3": 2}), ("z", {"n1": 1, "n2": 1})):
        group = TaskGroup("g", min=2, topology=TopologyRequest(required=level))
        wanted = job(
            "j", tasks("t", 2, group="g"), TopologyRequest(required="z"), 0, groups=[group]
        )
        assert counts(cycle(nodes, [wanted])) == where
        evicts = ("allocate", "preempt")
        assert counts(cycle(nodes, [wanted], RACKS, *evicts)) == where


# Segments with holes


def test_segments_are_cut_by_number_where_a_task_has_gone() -> None:
    members = numbered("t", 0, 2, 3)
    for free in ((1, 2), (2, 1)):
        result = cycle(in_racks(*free), [job("j", members, segments((2, "rack")))])
        alone, first, second = by_task(result, members)
        assert first == second != alone
        assert None not in (alone, first)


def test_two_short_segments_each_find_their_rack() -> None:
    members = numbered("t", 0, 2, 3, 4)
    result = cycle(in_racks(1, 2, 1), [job("j", members, segments((2, "rack")))])
    assert by_task(result, members) == ["n1", "n2", "n2", "n3"]
    assert placed(cycle(in_racks(1, 1, 1, 1), [job("j", members, segments((2, "rack")))])) == {}


@pytest.mark.parametrize("lost", [0, 1])
def test_who_may_be_in_any_rack_of_a_zone_leaves_room_for_those_of_one_rack(lost: int) -> None:
    """One task returns to the zone of its segment; the two others are split over its racks."""
    members = numbered("t", 0, 1, 2, 3, on={1 - lost: "z2"})
    wanted = job("j", members, segments((2, "zone")))
    result = cycle(in_zones(z=(1, 2, 1)), [wanted], ZONES)
    assert counts(result) == {"z1": 1, "z2": 1, "z3": 1}


NESTED = Topology("net", ["rack", "host"])


def hosts(**free: int) -> list[NodeInfo]:
    """Hosts such as r1a, in rack r1."""
    return [node(name, count, rack=name[:2], host=name) for name, count in free.items()]


def test_a_lost_task_of_nested_segments_returns_beside_its_partner() -> None:
    request = segments((4, "rack"), (2, "host"))
    on = {0: "r1a", 1: "r1a", 2: "r1b"}
    wanted = job("j", numbered("t", 0, 1, 2, 3, on=on), request)
    assert counts(cycle(hosts(r1a=2, r1b=2, r2a=4), [wanted], NESTED)) == {"r1b": 1}
    assert counts(cycle(hosts(r1a=3, r1b=1, r2a=4), [wanted], NESTED)) == {}


def test_a_lost_pair_of_nested_segments_returns_to_one_host_of_the_rack() -> None:
    request = segments((4, "rack"), (2, "host"))
    on = {0: "r1a", 1: "r1a"}
    wanted = job("j", numbered("t", 0, 1, 2, 3, on=on), request)
    assert counts(cycle(hosts(r1a=3, r1b=1, r1c=2, r2a=4), [wanted], NESTED)) == {"r1c": 2}
    assert counts(cycle(hosts(r1a=3, r1b=1, r1c=1, r2a=4), [wanted], NESTED)) == {}


# Segments of tasks that are not alike


def test_a_segment_of_a_task_with_a_device_goes_where_the_device_is() -> None:
    nodes = in_racks(2, 2)
    nodes[1] = evolve(nodes[1], devices=[Device(name="g0")])
    claim = DeviceClaim(name="c", requests=[DeviceRequest(name="r")])
    first, *others = tasks("t", 4)
    for place in range(4):
        members = [*others]
        members.insert(place, evolve(first, claims=[claim]))
        result = cycle(nodes, [job("j", members, segments((2, "rack")))])
        assert placed(result)[first.uid] == "n2"
        assert counts(result) == {"n1": 2, "n2": 2}


def test_segments_of_tasks_with_ports_are_assigned_until_they_fit() -> None:
    nodes = [
        evolve(node("n1", 4, rack="r1"), max_tasks=2),
        node("n2", 3, rack="r2"),
    ]
    members = tasks("t", 4)
    large = [evolve(task, resreq=gpus(2)) if n < 2 else task for n, task in enumerate(members)]
    result = cycle(nodes, [job("j", large, segments((2, "rack")))])
    assert by_task(result, members) == ["n1", "n1", "n2", "n2"]


# Segments, preferred levels, and inter-pod affinity


def test_segments_of_tasks_that_must_be_near_each_other_are_in_one_rack_each() -> None:
    members = tasks("t", 4, labels={"app": "x"}, pod_affinity=near("zone", app="x"))
    for request in (
        segments((2, "rack")),
        segments((2, "rack"), preferred="zone"),
        segments((2, "rack"), required="zone"),
    ):
        nodes = in_zones(A=(1, 1, 1, 3), B=(1, 1, 2, 2))
        result = cycle(nodes, [job("j", members, request)], ZONES)
        where = by_task(result, members)
        assert where[0] == where[1] != where[2] == where[3]
        assert set(where) == {"B3", "B4"}


def test_segments_beside_tasks_of_which_some_must_be_near_each_other() -> None:
    first, *rest = tasks("t", 4)
    apart = evolve(first, labels={"app": "x"}, pod_affinity=near("zone", app="x"))
    other = evolve(rest[1], labels={"app": "x"}, pod_affinity=near("zone", app="x"))
    members = [apart, rest[0], other, rest[2]]
    nodes = in_zones(A=(2,), B=(2, 2))
    where = by_task(cycle(nodes, [job("j", members, segments((2, "rack")))], ZONES), members)
    assert where in (["B1", "B1", "B2", "B2"], ["B2", "B2", "B1", "B1"])


# Listed domains


def listed(*domains: tuple[str, str, str]) -> Topology:
    return Topology(
        "net", ["block", "rack"], [Domain(lv, nm, on.split()) for lv, nm, on in domains]
    )


ACROSS = listed(("block", "b1", "n1 n2"), ("rack", "r1", "n2 n3"), ("rack", "r2", "n1"))


def test_a_listed_rack_that_is_in_no_block_is_not_used_where_a_block_is_required() -> None:
    nodes = [node(f"n{n}", 1) for n in (1, 2, 3)]
    request = TopologyRequest("net", required="block", preferred="rack")
    assert counts(cycle(nodes, [job("j", tasks("t", 2), request)], ACROSS)) == {"n1": 1, "n2": 1}
    parts = segments((2, "rack"), required="block")
    assert counts(cycle(nodes, [job("j", tasks("t", 2), parts)], ACROSS)) == {}
    free = segments((2, "rack"))
    assert counts(cycle(nodes, [job("j", tasks("t", 2), free)], ACROSS)) == {"n2": 1, "n3": 1}


def test_a_lost_task_is_placed_in_its_block_though_racks_lie_across() -> None:
    nodes = [node(f"n{n}", 1) for n in (1, 2, 3)]
    for preferred in ("rack", None):
        request = TopologyRequest("net", required="block", preferred=preferred)
        wanted = job("j", tasks("t", 2, on={0: "n2"}), request)
        assert counts(cycle(nodes, [wanted], ACROSS)) == {"n1": 1}


# Balanced


def balanced(*sizes: int) -> JobInfo:
    evenly = TopologyRequest("net", preferred="zone", balanced=True)
    groups = [TaskGroup(f"g{n}", min=size, topology=RACK) for n, size in enumerate(sizes)]
    members = [t for g in groups for t in tasks(g.name, g.min or 0, group=g.name)]
    return job("j", members, evenly, 0, groups=groups)


def test_a_balanced_gang_obeys_what_its_groups_require() -> None:
    result = cycle(in_zones(A=(4,), B=(4,)), [balanced(2, 4)], ZONES)
    assert counts(result) == {"A1": 2, "B1": 4} or counts(result) == {"A1": 4, "B1": 2}
    assert len({where for uid, where in placed(result).items() if uid.startswith("g1")}) == 1


def test_a_balanced_gang_spreads_whole_groups_of_one_size() -> None:
    nodes = in_zones(A=(4, 6), B=(4, 2))
    assert counts(cycle(nodes, [balanced(2, 2, 2, 2)], ZONES)) == {"A1": 4, "A2": 4}


# Reservations


def test_what_a_starving_gang_holds_stays_in_its_rack_and_so_do_its_reservations() -> None:
    nodes = [node("n1", 2, rack="r1"), node("n2", 2, rack="r1"), node("n3", 3, rack="r2")]
    gang = job("j", tasks("t", 4), RACK)
    busy = [
        job("one", tasks("a", 2, on={0: "n1", 1: "n2"}), None),
        job("two", tasks("b", 1, 2, on={0: "n3"}), None),
    ]
    starves = option("allocate", starvationThreshold=0)
    snapshot = Snapshot(
        nodes=nodes, jobs=[*busy, gang], queues=[Queue(name="q")], topologies=[RACKS], now=NOW
    )
    for _ in range(3):
        result = decided(snapshot, starves)
        assert {result.tasks[task.uid].node_name for task in gang.tasks} == {"n1", "n2"}
        assert result.dropped_reservations == ()
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)


@pytest.mark.parametrize("unready", ["hold", "discard"])
def test_what_a_gang_with_groups_lacks_is_held_where_the_rest_is_reserved(unready: str) -> None:
    nodes = [node("n1", 2, rack="r1"), node("n2", 2, rack="r1"), node("n3", 2, rack="r2")]
    busy = [job("busy", tasks("a", 2, 2, on={0: "n1", 1: "n2"}), None)]
    first, second = tasks("t", 2, 2, group="g")
    reserved = evolve(first, status=TaskStatus.RESERVED, node_name="n1")
    for request, group in ((RACK, None), (None, RACK), (segments((2, "rack")), None)):
        members = [reserved, second]
        groups = [TaskGroup("g", min=2, topology=group)]
        gang = job("j", members, request, 0, groups=groups)
        snapshot = Snapshot(
            nodes=nodes, jobs=[*busy, gang], queues=[Queue(name="q")], topologies=[RACKS], now=NOW
        )
        starves = option("allocate", starvationThreshold=0, unready=unready)
        for _ in range(2):
            result = decided(snapshot, starves)
            where = [result.tasks[task.uid] for task in gang.tasks]
            assert [each.node_name for each in where] == ["n1", "n2"]
            assert {each.status for each in where} == {TaskStatus.RESERVED}
            snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)


def test_a_starving_gang_that_only_prefers_a_rack_has_nodes_reserved() -> None:
    busy = [job("busy", tasks("a", 2, 2, on={0: "n1", 1: "n2"}), None)]
    for request in (None, TopologyRequest("net", preferred="rack")):
        gang = job("j", tasks("t", 2, 2), request)
        starves = option("allocate", starvationThreshold=0)
        result = cycle(in_racks(2, 2), [*busy, gang], RACKS, starves)
        assert {each.node_name for each in result.reserved} == {"n1", "n2"}


# Groups of which only some are needed


def two_groups(first: int, second: int, **of_first: object) -> JobInfo:
    groups = [
        TaskGroup("a", min=first, topology=RACK),
        TaskGroup("b", min=second, topology=RACK),
    ]
    members = [*tasks("a", first, group="a", **of_first), *tasks("b", second, group="b")]  # type: ignore[arg-type]
    return job("j", members, None, 0, groups=groups, min_groups=1)


@pytest.mark.parametrize("actions", [("allocate",), ("allocate", "preempt"), ("preempt",)])
def test_where_one_group_is_enough_the_other_is_tried_too(actions: Collection[str]) -> None:
    def starts(result: CycleResult) -> set[str]:
        found = {*placed(result)} | {each.task_uid for each in result.pipelined}
        return {uid[0] for uid in found}

    nodes = in_racks(3, 1)
    never = two_groups(2, 3, node_selector={"rack": "r2"})
    assert starts(cycle(nodes, [never], RACKS, *actions)) == {"b"}
    assert "a" in starts(cycle(nodes, [two_groups(2, 3)], RACKS, *actions))


@pytest.mark.parametrize(
    "action",
    [
        option("plan"),
        option("reserve", starvingJobTimeThreshold=0),
        option("backfill", strategy="release"),
        option("backfill", strategy="displace"),
    ],
)
def test_all_that_place_gangs_try_the_other_group(action: ActionOption) -> None:
    """The first is smaller, but more than any rack holds at any time."""
    groups = [TaskGroup("a", min=2, topology=RACK), TaskGroup("b", min=2, topology=RACK)]
    members = [*tasks("a", 2, 2, group="a"), *tasks("b", 2, 1, group="b")]
    gang = job("j", members, None, 0, groups=groups, min_groups=1)
    assert set(placed(cycle(in_racks(2, 2), [gang], RACKS, action))) == {"b00", "b01"}


@pytest.mark.parametrize("action", [option("plan"), option("reserve", starvingJobTimeThreshold=0)])
def test_places_later_are_those_of_a_group_that_can_be_had(action: ActionOption) -> None:
    groups = [TaskGroup("a", min=2, topology=RACK), TaskGroup("b", min=2, topology=RACK)]
    members = [*tasks("a", 2, 2, group="a"), *tasks("b", 2, 1, group="b")]
    gang = job("j", members, None, 0, groups=groups, min_groups=1)
    runs = job(
        "busy", tasks("r", 2, 2, on={0: "n1", 1: "n2"}, start_time=0.0), None, estimate=NOW + 50
    )
    result = cycle(in_racks(2, 2), [runs, gang], RACKS, action)
    later = {each.task_uid for each in result.reserved}
    later |= {uid for plan in result.planned.values() for uid in plan.nodes}
    assert later == {"b00", "b01"}
