"""Nodes with devices, and in racks, under the library's own scheduler."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    Domain,
    JobInfo,
    NodeInfo,
    Resource,
    SchedulerConfig,
    TaskInfo,
    Topology,
    TopologyRequest,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.simulation import (
    Decision,
    Easy,
    Job,
    NodeDown,
    NodeUp,
    Policy,
    PolicyError,
    Resize,
    Run,
    SimulationError,
    Start,
    View,
    Workload,
    WorkloadError,
    simulate,
)

CONFIG = SchedulerConfig.from_mapping(
    {
        "actions": [{"name": "allocate", "arguments": {"unready": "discard"}}],
        "tiers": [
            {
                "plugins": [
                    {"name": name}
                    for name in ("priority", "gang", "predicates", "devices", "topology")
                ]
            }
        ],
    }
)
PREEMPTING = SchedulerConfig.from_mapping(
    {
        "actions": "allocate, preempt",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "predicates"}, {"name": "devices"}]},
        ],
    }
)
RACKS = Topology("net", ("block", "rack"))


def cpus(count: int) -> Resource:
    return Resource(milli_cpu=1000 * count)


def gpus(count: int) -> list[Device]:
    return [Device(name=f"g{n}", capacity={"milli": 1000}, shared=True) for n in range(count)]


def claim(milli: int | None = None, count: int = 1) -> DeviceClaim:
    capacity = {} if milli is None else {"milli": milli}
    return DeviceClaim(
        name="gpu", requests=[DeviceRequest(name="gpu", count=count, capacity=capacity)]
    )


def node(name: str, cpu: int = 8, count: int = 0, **labels: str) -> NodeInfo:
    return NodeInfo(name=name, allocatable=cpus(cpu), devices=gpus(count), labels=labels)


def gang(tasks: int, *claims: DeviceClaim, cpu: int = 1, **more: Any) -> JobInfo:
    names = [f"t{number}" for number in range(tasks)]
    return JobInfo(
        name="job",
        queue="default",
        min_available=tasks,
        tasks=[TaskInfo(uid=name, name=name, resreq=cpus(cpu), claims=claims) for name in names],
        **more,
    )


def rows(run: Run, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(run.placements()[name] for name in names), strict=True))


# Devices


def test_jobs_wait_for_devices_and_the_placements_say_which_they_had() -> None:
    jobs = [
        Job(id=1, submit=0, run=10, info=gang(1, claim(count=2))),
        Job(id=2, submit=1, run=10, info=gang(2, claim(500))),
        Job(id=3, submit=2, run=10, info=gang(1, claim())),
    ]
    run = simulate(Workload(jobs).on(nodes=[node("n", count=2)]), CONFIG)
    assert rows(run, "job", "start", "tasks", "devices") == [
        (1, 0, 1, "g0 (milli=1000), g1 (milli=1000)"),
        (2, 10, 2, "g0 (milli=500), g0 (milli=500)"),
        (3, 10, 1, "g1 (milli=1000)"),
    ]


def test_without_devices_the_placements_have_no_such_column() -> None:
    workload = Workload([Job(id=1, submit=0, run=10, info=gang(1))]).on(nodes=[node("n", count=2)])
    assert "devices" not in simulate(workload, CONFIG).placements()


def test_devices_that_several_nodes_reach() -> None:
    both = [Device(name="shelf", driver="d", pool="p")]
    one = DeviceClaim(name="c", requests=[DeviceRequest(name="r")])
    jobs = [Job(id=n, submit=0, run=10, info=gang(1, one)) for n in (1, 2)]
    workload = Workload(jobs).on(nodes=[node("n1"), node("n2")], devices=both)
    run = simulate(workload, CONFIG)
    assert run.jobs["start"] == [0, 10]
    assert run.placements()["devices"] == ["d/p/shelf"] * 2


def test_who_is_evicted_from_a_device_has_another_one_afterwards() -> None:
    jobs = [
        Job(id=1, submit=0, run=10, info=gang(1, claim())),
        Job(id=2, submit=0, run=30, info=gang(1, claim())),
        Job(id=3, submit=5, run=10, info=gang(1, claim(), priority=1)),
    ]
    run = simulate(Workload(jobs).on(nodes=[node("n", count=2)]), PREEMPTING)
    assert rows(run, "job", "start", "end", "devices") == [
        (1, 0, 10, "g0 (milli=1000)"),
        (2, 0, 5, "g1 (milli=1000)"),
        (3, 5, 15, "g1 (milli=1000)"),
        (2, 10, 40, "g0 (milli=1000)"),
    ]


G1 = DevicePick(claim="c", request="r", device=("", "", "g1"))


class Devices(Policy):
    """Starts a job, and moves it to another device later."""

    def __init__(self, given: Mapping[str, Any], places: Any = None) -> None:
        self._given, self._places = given, places

    def decide(self, view: View, /) -> Iterable[Decision]:
        for job in view.waiting:
            places = self._places or {f"{job.id}-0": "n"}
            if view.running:
                first = view.running[0].id
                devices = {f"{first}-0": (G1,)}
                yield Resize(first, {f"{first}-0": "n"}, devices=devices)
            yield Start(job.id, places, devices=self._given)


def test_another_device_of_the_node_is_a_move() -> None:
    jobs = [Job(id=n, submit=4 * n, run=10, processors=1) for n in (0, 1)]
    run = simulate(Workload(jobs).on(nodes=[node("n")]), Devices({}))
    assert rows(run, "job", "start", "end", "devices") == [
        (0, 0, 4, None),
        (0, 4, 10, "g1"),
        (1, 4, 14, None),
    ]
    assert run.metrics()["moves"] == 1


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"1-7": (G1,)}, None),
        ({"1-0": "g1"}, None),
        ({"1-0": (G1,)}, [("n", 1)]),
    ],
)
def test_devices_of_no_task_are_refused(given: Any, places: Any) -> None:
    workload = Workload([Job(id=1, submit=0, run=1, processors=1)]).on(nodes=[node("n")])
    with pytest.raises(PolicyError, match=r"as the devices of '1-.'; expected a tuple"):
        simulate(workload, Devices(given, places))


@st.composite
def gpu_logs(draw: st.DrawFn) -> Workload:
    """Draw nodes with shared devices, and gangs that ask for whole ones and parts."""
    nodes = [node(f"n{n}", 4, draw(st.integers(0, 3))) for n in range(draw(st.integers(1, 3)))]
    nodes.append(node("n9", 4, 3))
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 8))):
        asked = claim(draw(st.sampled_from([None, 300, 500])), draw(st.integers(1, 2)))
        info = gang(draw(st.integers(1, 2)), asked, priority=draw(st.integers(0, 1)))
        submit, run = draw(st.integers(0, 9)), draw(st.integers(0, 9))
        jobs.append(Job(id=number, submit=submit, run=run, info=info))
    return Workload(jobs).on(nodes=nodes)


@settings(max_examples=40)
@given(workload=gpu_logs(), config=st.sampled_from([CONFIG, PREEMPTING]))
def test_no_device_is_held_by_more_than_it_has(workload: Workload, config: SchedulerConfig) -> None:
    incidents = [NodeDown(at=3, node="n9"), NodeUp(at=5, node="n9")]
    run = simulate(workload, config, incidents=incidents)
    nodes = run.outcome.nodes
    assert nodes is not None
    changes = defaultdict[tuple[int, object], list[tuple[float, int]]](list)
    for number, (job, start, end, node, tasks, _) in enumerate(nodes.pieces):
        info = workload.infos[job]
        assert info is not None
        count = info.tasks[0].claims[0].requests[0].count
        picks = nodes.devices[number]
        assert len(picks) == tasks * count  # type: ignore[operator]
        for pick in picks:
            assert pick.amounts is not None
            amount = pick.amounts["milli"]
            changes[node, pick.device] += [(start, amount), (end, -amount)]
    for listed in changes.values():
        held = 0
        for _, amount in sorted(listed):  # at equal times what is given back comes first
            held += amount
            assert held <= 1000
    again = Run.from_dict(json.loads(json.dumps(run.to_dict(), allow_nan=False)))
    assert again.placements() == run.placements()


# Levels


def rack(name: str, rack: str, cpu: int = 2) -> NodeInfo:
    return node(name, cpu, block="b", rack=rack)


def in_rack(tasks: int, level: str = "rack") -> JobInfo:
    return gang(tasks, topology=TopologyRequest("net", required=level))


def test_a_gang_runs_within_one_rack() -> None:
    nodes = [rack("n1", "r1"), rack("n2", "r2"), rack("n3", "r2")]
    jobs = [
        Job(id=1, submit=0, run=10, info=gang(1)),
        Job(id=2, submit=1, run=10, info=in_rack(4)),
        Job(id=3, submit=2, run=10, info=in_rack(4)),
        Job(id=4, submit=30, run=10, info=in_rack(6, "block")),
    ]
    workload = Workload(jobs).on(nodes=nodes, topologies=[RACKS])
    run = simulate(workload, CONFIG)
    assert rows(run, "job", "start", "node", "tasks") == [
        (1, 0, "n1", 1),
        (2, 1, "n2", 2),
        (2, 1, "n3", 2),
        (3, 11, "n2", 2),
        (3, 11, "n3", 2),
        (4, 30, "n1", 2),
        (4, 30, "n2", 2),
        (4, 30, "n3", 2),
    ]


def test_listed_domains_have_their_nodes_back_after_a_failure() -> None:
    rails = Topology("net", ["rack"], [Domain("rack", "r", ["n1", "n2"])])
    workload = Workload([Job(id=1, submit=5, run=10, info=in_rack(4))])
    workload = workload.on(nodes=[node(name, 2) for name in ("n1", "n2", "n3")], topologies=[rails])
    incidents = [NodeDown(at=1, node="n2"), NodeUp(at=7, node="n2")]
    assert simulate(workload, CONFIG, incidents=incidents).jobs["start"] == [7]
    never = simulate(workload, CONFIG, incidents=incidents[:1])
    assert never.unfinished[1].startswith(
        "the only rack has no room for 4 tasks; it has room for 2"
    )


def test_workloads_with_devices_and_levels_are_read_back_as_they_were() -> None:
    jobs = [Job(id=1, submit=0, run=10, info=gang(1, claim(300)))]
    jobs += [Job(id=2, submit=0, run=10, info=in_rack(2))]
    workload = Workload(jobs).on(
        nodes=[rack("n1", "r1"), node("n2", count=2)],
        topologies=[RACKS],
        devices=[Device(name="shelf", driver="d", pool="p")],
    )
    written = json.loads(json.dumps(workload.to_dict(), allow_nan=False))
    assert Workload.from_dict(written) == workload
    assert workload.first(1).machine == workload.machine


# Bad input


def test_what_is_wrong_with_levels_and_devices_is_told() -> None:
    workload = Workload([Job(id=n, submit=0, run=1, info=in_rack(1)) for n in (1, 2)])
    with pytest.raises(SimulationError) as caught:
        simulate(workload.on(nodes=[node("n")]), CONFIG)
    message = "topology.topology: there is no topology 'net' in this snapshot; known: none"
    assert [str(fault) for fault in caught.value.faults] == [
        f"jobs[{n}].info: {message}" for n in (1, 2)
    ]
    rails = Topology("net", ["rack"], [Domain("rack", "r", ["nowhere"])])
    with pytest.raises(WorkloadError, match=r"topologies\['net'\].*nowhere"):
        workload.on(nodes=[node("n")], topologies=[rails])
    with pytest.raises(WorkloadError, match=r"devices\[.*\]"):
        workload.on(nodes=[node("n")], devices=[Device(name="")])


@pytest.mark.parametrize("info", [gang(1, claim()), in_rack(1)])
def test_other_policies_place_neither_devices_nor_levels(info: JobInfo) -> None:
    workload = Workload([Job(id=1, submit=0, run=1, requested=1, info=info)])
    with pytest.raises(SimulationError, match="need the policy Scheduled"):
        simulate(workload.on(nodes=[node("n", count=1)], topologies=[RACKS]), Easy())
