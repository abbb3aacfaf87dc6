"""The scenarios B1 to B6: backfill by release, and conditional placement."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import (
    Simulation,
    action,
    bound,
    cluster,
    evicted,
    job,
    node,
    places,
    scheduler,
)

from batchsched import (
    HostPort,
    JobInfo,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Scheduler,
    Snapshot,
)

RELEASE = action("backfill", strategy="release")


def half_idle_cluster() -> Snapshot:
    return cluster(
        [node("n1", "2C2G")],
        job("r", "1C1G@n1"),
        job("a", "1C1G", "1C1G"),
        job("b", "1C1G"),
    )


def half_backfilled_cluster() -> Snapshot:
    return cluster([node("n1", "2C2G")], job("a", "1C1G", "1C1G"), job("b", "1C1G@n1*"))


def test_b1_an_unready_gang_wastes_what_it_holds() -> None:
    result = scheduler("allocate").schedule(half_idle_cluster())
    assert places(result, "a", "b") == {
        "a-1": "Allocated n1",
        "a-2": "Pending",
        "b-1": "Pending",
    }
    assert not result.binds


def test_b2_release_starts_another_job_in_it() -> None:
    result = scheduler("allocate", RELEASE).schedule(half_idle_cluster())
    assert [(bind.task_uid, bind.node_name, bind.is_backfill) for bind in result.binds] == [
        ("b-1", "n1", True)
    ]
    assert places(result, "a") == {"a-1": "Pending", "a-2": "Pending"}


def test_b3_a_promise_that_does_not_make_the_gang_conditionally_ready_is_taken_back() -> None:
    simulation = Simulation(scheduler("allocate", RELEASE), half_idle_cluster())
    simulation.cycle()
    simulation.step(new_jobs=[job("c", "1C1G", creation_time=0.5)])

    after_allocate = scheduler("allocate").schedule(simulation.snapshot)
    assert places(after_allocate) == {
        "a-1": "Conditional n1",
        "a-2": "Pending",
        "b-1": "Running n1*",
        "c-1": "Pending",
        "r-1": "Running n1",
    }
    result = simulation.cycle()
    assert places(result, "a", "c") == {"a-1": "Pending", "a-2": "Pending", "c-1": "Pending"}
    assert not result.binds


def test_b4_a_conditionally_ready_gang_waits_and_nothing_is_backfilled_in_its_place() -> None:
    actions = (action("allocate", evictBackfill=False), RELEASE)
    result = scheduler(*actions).schedule(half_backfilled_cluster())
    assert sorted(places(result, "a").values()) == ["Allocated n1", "Conditional n1"]
    assert not result.binds
    assert not result.evictions


def test_b5_backfill_tasks_are_evicted_for_a_conditionally_ready_gang() -> None:
    actions = (action("allocate", evictBackfill=True),)
    result = scheduler(*actions).schedule(half_backfilled_cluster())
    assert evicted(result) == ["b-1"]
    assert sorted(places(result, "a").values()) == ["Allocated n1", "Pipelined n1"]


def test_b6_the_gang_starts_when_the_backfill_task_has_ended() -> None:
    simulation = Simulation(
        scheduler(action("allocate", evictBackfill=False)),
        half_backfilled_cluster(),
        ends={"b-1": 1},
    )
    assert not simulation.cycle().binds
    simulation.step()
    assert bound(simulation.cycle()) == {"a-1": "n1", "a-2": "n1"}


def test_b5_goes_on_the_gang_starts_once_the_evicted_task_is_gone() -> None:
    simulation = Simulation(
        scheduler(action("allocate", evictBackfill=True)), half_backfilled_cluster()
    )
    simulation.cycle()
    simulation.step(still_releasing=["b-1"])
    assert not simulation.cycle().binds
    simulation.step(replacement=lambda _task: None)
    assert bound(simulation.cycle()) == {"a-1": "n1", "a-2": "n1"}


def with_tasks(one: JobInfo, **changes: Any) -> JobInfo:
    return evolve(one, tasks=[evolve(task, **changes) for task in one.tasks])


def calls_in(start: Snapshot, *, plain: bool) -> tuple[list[str], dict[str, str]]:
    """Who is evicted in the first cycle, and who starts in the next, and where."""
    config = scheduler(action("allocate", evictBackfill=True, curable=True)).config
    simulation = Simulation(Scheduler(config, plain=plain), start)
    gone = evicted(simulation.cycle())
    simulation.step(replacement=lambda _task: None)
    return gone, bound(simulation.cycle())


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("lent", ["slot", "port"])
def test_a_slot_or_port_that_is_lent_is_called_in(lent: str, plain: bool) -> None:
    """The node has room, and refuses the task as long as the backfill task is there."""
    ports = [HostPort(port=80)] if lent == "port" else []
    n1 = evolve(node("n1", "8C0G"), max_tasks=1 if lent == "slot" else None)
    lends, waits = (
        with_tasks(job(name, size), host_ports=ports)
        for name, size in (("b", "1C0G@n1*"), ("a", "1C0G"))
    )
    start = cluster([n1], lends, waits)
    assert calls_in(start, plain=plain) == (["b-1"], {"a-1": "n1"})


@pytest.mark.parametrize("plain", [False, True])
def test_a_node_without_a_loan_in_the_way_comes_first(plain: bool) -> None:
    nodes = [evolve(node("n1", "8C0G"), max_tasks=1), node("n2", "1C0G")]
    lends = job("b", "1C0G@n1*", "1C0G@n2*", minimum=1)
    start = cluster(nodes, lends, job("a", "1C0G"))
    assert calls_in(start, plain=plain) == (["b-2"], {"a-1": "n2"})


@pytest.mark.parametrize("plain", [False, True])
def test_tasks_that_must_be_apart_are_promised_loans_apart(plain: bool) -> None:
    nodes = [node(name, "2C0G", labels={"host": name}) for name in ("n1", "n2")]
    selector = LabelSelector(match_labels={"app": "a"})
    apart = PodAffinity(required=[PodAffinityTerm(selector=selector, topology_key="host")])
    waits = with_tasks(job("a", "1C0G", "1C0G"), labels={"app": "a"}, pod_anti_affinity=apart)
    lends = job("b", "2C0G@n1*", "2C0G@n2*", minimum=1)
    gone, started = calls_in(cluster(nodes, lends, waits), plain=plain)
    assert sorted(gone) == ["b-1", "b-2"]
    assert sorted(started.values()) == ["n1", "n2"]
