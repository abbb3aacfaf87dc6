"""What is wrong with topologies and requests is said at once; what is right is kept."""

from __future__ import annotations

import pytest
from attrs import evolve

from batchsched import (
    Domain,
    EventError,
    JobInfo,
    NodeInfo,
    Queue,
    Segment,
    Snapshot,
    SnapshotError,
    TaskGroup,
    TaskInfo,
    Topology,
    TopologyRequest,
    next_snapshot,
)
from batchsched.live import Cluster, JobArrived, JobChanged, NodeRemoved, TopologiesChanged

NET = Topology("net", ["block", "rack", "host"])
RAILS = Topology("rails", ["rail"], [Domain("rail", "r1", ["n1", "n2"]), Domain("rail", "r2")])


def snapshot(*requests: TopologyRequest | None, tasks: int = 4, **more: object) -> Snapshot:
    jobs = [
        JobInfo(
            name=f"j{place}",
            queue="q",
            topology=request,
            tasks=[TaskInfo(uid=f"j{place}-{n}", name="t", index=n) for n in range(tasks)],
        )
        for place, request in enumerate(requests)
    ]
    parts: dict[str, object] = {
        "nodes": [NodeInfo(name="n1"), NodeInfo(name="n2")],
        "queues": [Queue(name="q")],
        "jobs": jobs,
        "topologies": [RAILS, NET],
    }
    return Snapshot(**{**parts, **more})  # type: ignore[arg-type]


def faults(*requests: TopologyRequest | None, tasks: int = 4, **more: object) -> list[str]:
    with pytest.raises(SnapshotError) as caught:
        snapshot(*requests, tasks=tasks, **more)
    return [
        str(fault).removeprefix("jobs['default/j0'].topology.") for fault in caught.value.faults
    ]


def test_all_faults_of_topologies_are_told_at_once() -> None:
    bad = [
        Topology("x", ["a", "b", "a"], [Domain("c", "d"), Domain("a", "d", ["n1", "gone", "n1"])]),
        Topology("x", [], [Domain("a", "d"), Domain("a", "d")]),
        Topology("", ["a", ""]),
    ]
    assert faults(topologies=bad) == [
        "topologies[''].name: is empty",
        "topologies[''].levels[1]: is empty",
        "topologies['x'].levels[2]: expected each level once, got 'a' again",
        (
            "topologies['x'].domains['d'].level: there is no level 'c' in this topology; "
            "known: 'a', 'b', 'a'"
        ),
        (
            "topologies['x'].domains['d'].nodes: there is no node 'gone' in this snapshot; "
            "known: 'n1', 'n2'"
        ),
        "topologies['x'].domains['d'].nodes: expected each node once, got 'n1' again",
        "topologies['x'].levels: expected at least one level",
        "topologies['x'].domains['d'].level: there is no level 'a' in this topology; known: none",
        "topologies['x'].domains['d'].level: there is no level 'a' in this topology; known: none",
        "topologies['x'].domains['d']: expected a unique name in level 'a', got it again",
        "topologies['x']: expected a unique name, got it again",
    ]


def test_all_faults_of_a_request_are_told_at_once() -> None:
    bad = TopologyRequest(
        "net",
        required="rack",
        preferred="block",
        balanced=True,
        segments=[Segment(3, "block"), Segment(2, "room"), Segment(1, "block")],
    )
    assert faults(bad) == [
        "balanced: goes with a preferred level alone, not with a required one",
        "preferred: expected a level not wider than the required one, got 'block'",
        "segments[1].size: expected a divisor of the size before, 3, got 2",
        (
            "segments[1].level: there is no level 'room' in this topology; known: 'block', 'rack', "
            "'host'"
        ),
        "segments[2].size: expected a number of tasks (an integer, 2 or more), got 1",
        "segments[2].level: expected a level narrower than the one before, 'block', got 'block'",
    ]


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        (
            TopologyRequest(),
            "required: expected the key of a node label where no topology is named",
        ),
        (
            TopologyRequest(required="zone", preferred="rack"),
            "preferred: goes with the name of a topology alone",
        ),
        (
            TopologyRequest(required="zone", segments=[Segment(2, "zone")]),
            "segments: goes with the name of a topology alone",
        ),
        (
            TopologyRequest(required="zone", balanced=True),
            (
                "balanced: goes with a preferred level alone, not with a required one"
                "\nbalanced: goes with the name of a topology alone"
            ),
        ),
        (
            TopologyRequest("grid", required="rack"),
            "topology: there is no topology 'grid' in this snapshot; known: 'net', 'rails'",
        ),
        (
            TopologyRequest("net", required="racks"),
            "required: there is no level 'racks' in this topology; did you mean 'rack'?",
        ),
        (
            TopologyRequest("net", required="rack", segments=[Segment(2, "block")]),
            "segments[0].level: expected a level not wider than 'rack', got 'block'",
        ),
    ],
)
def test_what_a_request_cannot_ask(request_: TopologyRequest, fault: str) -> None:
    assert "\n".join(faults(request_)) == fault


def test_several_segments_divide_the_tasks() -> None:
    both = TopologyRequest("net", segments=[Segment(4, "rack"), Segment(2, "host")])
    assert faults(both, tasks=6) == [
        "segments: with several, expected tasks that are a multiple of 4, got 6"
    ]
    assert snapshot(both, tasks=8).jobs[0].topology == both
    assert snapshot(TopologyRequest("net", segments=[Segment(4, "rack")]), tasks=6).topologies


def test_a_number_is_one_tasks_of_a_group_with_segments() -> None:
    segments = TopologyRequest("net", segments=[Segment(2, "rack")])

    def tasks(group: str | None, *numbers: int) -> list[TaskInfo]:
        return [
            TaskInfo(uid=f"{group}{place}", name="t", group=group, index=number)
            for place, number in enumerate(numbers)
        ]

    twice = JobInfo(name="j0", queue="q", topology=segments, tasks=tasks(None, 0, 1, 1))
    assert faults(jobs=[twice]) == [
        "segments: expected each index once in a group, but tasks 'None1' and 'None2' both have 1"
    ]
    groups = [TaskGroup("a", min=1, topology=segments), TaskGroup("b", min=1)]
    in_groups = evolve(
        twice, topology=None, groups=groups, tasks=[*tasks("a", 0, 1), *tasks("b", 1, 1)]
    )
    assert snapshot(jobs=[in_groups])
    negative = evolve(twice, tasks=tasks(None, 0, -1))
    assert faults(jobs=[negative]) == [
        (
            "jobs['default/j0'].tasks['None1'].index: expected a number in the group "
            "(an integer, 0 or more, or None), got -1"
        ),
    ]


def test_topologies_are_written_and_read_again() -> None:
    given = snapshot(
        TopologyRequest("net", preferred="rack", balanced=True, segments=[Segment(2, "rack")]), None
    )
    assert Snapshot.from_dict(given.to_dict()) == given
    assert [each.name for each in given.topologies] == ["net", "rails"]
    assert "topologies" not in Snapshot().to_dict()


def test_a_node_that_leaves_is_in_no_listed_domain() -> None:
    before = snapshot()
    after = next_snapshot(before, None, now=1, nodes=[NodeInfo(name="n2")])
    cluster = Cluster(before)
    cluster.apply(NodeRemoved("n1"))
    assert cluster.snapshot().topologies == after.topologies
    assert after.topologies[1].domains[0].nodes == ("n2",)
    assert after.topologies[0] is before.topologies[0]


def test_events_change_topologies_and_requests_together() -> None:
    cluster = Cluster(snapshot(TopologyRequest("rails", required="rail")))
    with pytest.raises(EventError, match="there is no topology 'rails' in this snapshot"):
        cluster.apply(TopologiesChanged([NET]))
    assert len(cluster.snapshot().topologies) == 2
    request = TopologyRequest("net", required="rack", segments=[Segment(2, "host")])
    cluster.apply(TopologiesChanged([NET]), JobChanged("default/j0", topology=request))
    assert cluster.snapshot() == snapshot(request, topologies=[NET])


def test_a_job_that_arrives_asks_for_what_there_is() -> None:
    job = snapshot(TopologyRequest("net", required="rack")).jobs[0]
    cluster = Cluster(snapshot())
    cluster.apply(JobArrived(job))
    assert cluster.snapshot().jobs == (job,)
    with pytest.raises(EventError) as caught:
        Cluster().apply(JobArrived(job))
    assert [str(fault) for fault in caught.value.faults] == [
        (
            "events[0]: jobs['default/j0'].topology.topology: there is no topology 'net' in this "
            "snapshot; known: none"
        ),
    ]
