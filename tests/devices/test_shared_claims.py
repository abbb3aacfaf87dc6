"""One claim of several tasks: it is counted once, and all of them go where its devices are."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import cluster, job, node

from batchsched import (
    CycleResult,
    NodeInfo,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    next_snapshot,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.live import Cluster, JobArrived, JobRemoved

TOGETHER = DeviceClaim(name="c", requests=[DeviceRequest(name="gpu")], shared="ns/gpu")
OWN = evolve(TOGETHER, shared=None)
ON_G0 = DevicePick(claim="c", request="gpu", device=("", "", "g0"), shared="ns/gpu")


def config(actions: str = "allocate", **devices: Any) -> SchedulerConfig:
    whole = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tiers = [
        {"plugins": ["priority", whole]},
        {"plugins": ["predicates", "nodeorder", {"name": "devices", "arguments": devices}]},
    ]
    return SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers})


def cycle(snapshot: Snapshot, policy: SchedulerConfig) -> CycleResult:
    """What is decided, which is the same plain, on a living cluster, and as plain data."""
    result = Scheduler(policy).schedule(snapshot)
    assert Scheduler(policy, plain=True).schedule(snapshot) == result
    assert Scheduler(policy).attach(Cluster(snapshot)).schedule().full() == result
    assert Snapshot.from_dict(snapshot.to_dict()) == snapshot
    assert CycleResult.from_dict(result.to_dict()) == result
    return result


def claiming(made: Any, *claims: DeviceClaim, devices: Any = None) -> Any:
    tasks = [evolve(task, claims=claims, devices=devices) for task in made.tasks]
    return evolve(made, tasks=tasks)


def with_gpus(name: str, size: str, *gpus: str) -> NodeInfo:
    return evolve(node(name, size), devices=[Device(name=gpu) for gpu in gpus])


def places(result: CycleResult) -> dict[str, str]:
    return {bind.task_uid: bind.node_name for bind in result.binds}


@pytest.mark.parametrize(
    ("sizes", "right"),
    [(("1C1G", "3C1G"), {"g-1": "w0", "g-2": "w0"}), (("3C1G", "3C1G"), {})],
)
def test_all_go_where_the_devices_of_their_claim_are(
    sizes: tuple[str, ...], right: dict[str, str]
) -> None:
    nodes = [with_gpus("w0", "4C9G", "g0"), node("w1", "9C9G")]
    snapshot = cluster(nodes, claiming(job("g", *sizes), TOGETHER))
    result = cycle(snapshot, config())
    assert places(result) == right
    for bind in result.binds:
        assert bind.devices == (ON_G0,)


def test_the_second_try_undoes_where_the_first_went() -> None:
    nodes = [with_gpus("w0", "2C9G", "g0"), with_gpus("w1", "4C9G", "g1")]
    snapshot = cluster(nodes, claiming(job("g", "1C1G", "3C1G"), TOGETHER))
    in_order = config()
    assert places(cycle(snapshot, in_order)) == {"g-1": "w1", "g-2": "w1"}
    small = evolve(snapshot, nodes=[evolve(nodes[0]), with_gpus("w1", "3C9G", "g1")])
    assert places(cycle(small, in_order)) == {}


def test_devices_of_the_same_name_on_another_node_are_others() -> None:
    nodes = [with_gpus("w0", "1C9G", "g0"), with_gpus("w1", "9C9G", "g0")]
    runs = claiming(job("runs", "1C1G@w0"), TOGETHER, devices=[ON_G0])
    snapshot = cluster(nodes, runs, claiming(job("more", "1C1G"), TOGETHER))
    assert places(cycle(snapshot, config())) == {}
    roomy = evolve(snapshot, nodes=[with_gpus("w0", "2C9G", "g0"), nodes[1]])
    assert places(cycle(roomy, config())) == {"more-1": "w0"}


@pytest.mark.parametrize("owner", [TOGETHER, OWN])
def test_what_two_have_together_another_gets_when_both_have_left(owner: DeviceClaim) -> None:
    lows = [
        claiming(job(name, "1C1G@w0", priority=1), TOGETHER, devices=[ON_G0])
        for name in ("low", "lower")
    ]
    high = claiming(job("high", "1C1G", priority=9), owner)
    if owner is TOGETHER:
        high = claiming(high, evolve(TOGETHER, shared="ns/other"))
    snapshot = cluster([with_gpus("w0", "9C9G", "g0")], *lows, high)
    result = cycle(snapshot, config("allocate, preempt"))
    assert {eviction.task_uid for eviction in result.evictions} == {"low-1", "lower-1"}
    one_stays = evolve(
        snapshot,
        jobs=[evolve(each, priority=10) if each.name == "low" else each for each in snapshot.jobs],
    )
    assert not cycle(one_stays, config("allocate, preempt")).evictions
    (bind,) = cycle(next_snapshot(snapshot, result, now=1), config()).binds
    assert bind.task_uid == "high-1"


def test_who_comes_last_needs_none_and_its_own_claims_are_searched_beside_it() -> None:
    runs = claiming(job("runs", "1C1G@w0"), TOGETHER, devices=[ON_G0])
    own = DeviceClaim(name="mine", requests=[DeviceRequest(name="gpu")])
    more = claiming(job("more", "1C1G"), TOGETHER, own)
    snapshot = cluster([with_gpus("w0", "9C9G", "g0", "g1")], runs, more)
    (bind,) = cycle(snapshot, config()).binds
    mine = DevicePick(claim="mine", request="gpu", device=("", "", "g1"))
    assert bind.devices == (ON_G0, mine)
    one = evolve(snapshot, nodes=[with_gpus("w0", "9C9G", "g0")])
    assert not cycle(one, config()).binds


def test_a_claim_that_nobody_reads_any_more_is_had_by_who_names_it() -> None:
    nodes = [node("w0", "9C9G"), node("w1", "9C9G")]
    wait = [claiming(job("mine", "1C1G"), TOGETHER), claiming(job("other", "1C1G"), OWN)]
    snapshot = evolve(cluster(nodes, *wait), devices=[Device(name="g0")], held=[ON_G0])
    result = cycle(snapshot, config())
    assert list(places(result)) == ["mine-1"]


def test_a_promise_is_kept_with_what_is_had_together() -> None:
    leaving = claiming(job("low", "2C1G!w0"), OWN, devices=[evolve(ON_G0, shared=None)])
    gang = claiming(job("g", "1C1G", "1C1G"), TOGETHER)
    snapshot = cluster([with_gpus("w0", "2C9G", "g0")], leaving, gang)
    result = cycle(snapshot, config())
    assert [(p.task_uid, p.devices) for p in result.pipelined] == [
        ("g-1", (ON_G0,)),
        ("g-2", (ON_G0,)),
    ]
    later = next_snapshot(snapshot, result, now=1)
    gone = evolve(later, jobs=[each for each in later.jobs if each.name == "g"])
    assert places(cycle(gone, config())) == {"g-1": "w0", "g-2": "w0"}


def test_unknown_devices_of_one_claim_are_the_same() -> None:
    runs = claiming(job("runs", "1C1G@w0", "1C1G@w0"), TOGETHER)
    waits = claiming(job("waits", "1C1G"), OWN)
    snapshot = cluster([with_gpus("w0", "9C9G", "g0", "g1")], runs, waits)
    (bind,) = cycle(snapshot, config()).binds
    assert bind.devices == (DevicePick(claim="c", request="gpu", device=("", "", "g1")),)


def test_claims_that_are_called_the_same_are_one() -> None:
    two = evolve(TOGETHER, requests=[DeviceRequest(name="gpu", count=2)])
    jobs = [claiming(job("a", "1C1G"), TOGETHER), claiming(job("b", "1C1G"), two)]
    with pytest.raises(SnapshotError, match=r"tasks\['b-1'\].claims\['c'\]: asks for something"):
        cluster([node("w0", "9C9G")], *jobs)
    other = evolve(ON_G0, device=("", "", "g1"))
    runs = [
        claiming(job("a", "1C1G@w0"), TOGETHER, devices=[ON_G0]),
        claiming(job("b", "1C1G@w0"), TOGETHER, devices=[other]),
    ]
    with pytest.raises(SnapshotError, match=r"tasks\['b-1'\].devices: of 'ns/gpu' it has other"):
        cluster([with_gpus("w0", "9C9G", "g0", "g1")], *runs)
    unlike = claiming(job("a", "1C1G@w0"), OWN, devices=[ON_G0])
    with pytest.raises(SnapshotError, match=r"devices\[0\].shared: expected None as in the claim"):
        cluster([with_gpus("w0", "9C9G", "g0")], unlike)


def test_a_living_cluster_follows_who_shares() -> None:
    nodes = [with_gpus("w0", "9C9G", "g0"), with_gpus("w1", "9C9G", "g1")]
    runs = claiming(
        job("runs", "1C1G@w1"),
        OWN,
        devices=[DevicePick(claim="c", request="gpu", device=("", "", "g1"))],
    )
    live = Cluster(cluster(nodes, runs))
    attached = Scheduler(config()).attach(live)
    assert not attached.schedule().binds
    for name, right in (("a", "w0"), ("b", "w0")):
        live.apply(JobArrived(claiming(job(name, "1C1G"), TOGETHER)))
        result = attached.schedule().full()
        assert result == Scheduler(config()).schedule(live.snapshot())
        assert places(result) == {f"{name}-1": right}
        live.carry_out(result, at_once=True)
    live.apply(JobArrived(claiming(job("own", "1C1G"), OWN)), JobRemoved("default/a"))
    assert not attached.schedule().binds
    live.apply(JobRemoved("default/b"))
    result = attached.schedule().full()
    assert result == Scheduler(config()).schedule(live.snapshot())
    assert places(result) == {"own-1": "w0"}
