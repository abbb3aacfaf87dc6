"""evictBackfill: whatever of a node is lent is called in, and nodes are asked as they will be."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.reference.schedule import reference_schedule
from tests.support.clusters import action, cluster, job, node

from batchsched import (
    CycleResult,
    HostPort,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Scheduler,
    SchedulerConfig,
    Snapshot,
)
from batchsched.live import Cluster

CONF: dict[str, Any] = {
    "actions": [action("allocate", evictBackfill=True)],
    "tiers": [{"plugins": [{"name": n} for n in ("priority", "gang", "predicates", "nodeorder")]}],
}
PORT = HostPort(port=80)
APART = PodAffinity(
    required=[
        PodAffinityTerm(
            selector=LabelSelector(match_labels={"app": "g"}), topology_key="kubernetes.io/hostname"
        )
    ]
)


def cycle(snapshot: Snapshot) -> CycleResult:
    """What is decided, which is the same plain, and on a living cluster."""
    policy = SchedulerConfig.from_mapping(CONF)
    result = Scheduler(policy).schedule(snapshot)
    assert Scheduler(policy, plain=True).schedule(snapshot) == result
    assert Scheduler(policy).attach(Cluster(snapshot)).schedule().full() == result
    assert {e.task_uid for e in reference_schedule(snapshot, CONF).evictions} == evicted(result)
    return result


def evicted(result: CycleResult) -> set[str]:
    return {each.task_uid for each in result.evictions}


def promised(result: CycleResult) -> dict[str, str]:
    return {each.task_uid: each.node_name for each in result.pipelined}


def with_tasks(made: Any, **fields: Any) -> Any:
    return evolve(made, tasks=[evolve(task, **fields) for task in made.tasks])


@pytest.mark.parametrize("lent", ["slot", "port"])
def test_slots_and_ports_that_are_lent_are_called_in(lent: str) -> None:
    n1 = evolve(node("n1", "4C4G"), max_tasks=1 if lent == "slot" else None)
    ports = [PORT] if lent == "port" else []
    lo = with_tasks(job("lo", "1C1G@n1*"), host_ports=ports)
    hi = with_tasks(job("hi", "1C1G"), host_ports=ports)
    result = cycle(cluster([n1], lo, hi))
    assert evicted(result) == {"lo-1"}
    assert promised(result) == {"hi-1": "n1"}


def test_what_is_not_lent_is_not_called_in() -> None:
    n1 = evolve(node("n1", "4C4G"), max_tasks=1)
    result = cycle(cluster([n1], job("lo", "1C1G@n1"), job("hi", "1C1G")))
    assert not result.evictions
    assert not result.conditional


def test_tasks_that_must_be_apart_are_not_promised_beside_each_other() -> None:
    nodes = [
        evolve(node(name, size), labels={"kubernetes.io/hostname": name})
        for name, size in (("n1", "2C2G"), ("n2", "1C1G"))
    ]
    lo = job("lo", "1C1G@n1*", "1C1G@n1*", "1C1G@n2*", minimum=1)
    gang = with_tasks(job("g", "1C1G", "1C1G"), labels={"app": "g"}, pod_anti_affinity=APART)
    result = cycle(cluster(nodes, lo, gang))
    assert sorted(promised(result).values()) == ["n1", "n2"]
    assert len(evicted(result)) == 2
