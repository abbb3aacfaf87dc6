"""Queues may name amounts that neither nodes nor tasks of the cluster have: no plugin minds."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import cluster, job, node

from batchsched import Queue, Resource, ResourceLimit, Scheduler, SchedulerConfig, default_registry
from batchsched.live import Cluster, NodeChanged

PLUGINS = default_registry().plugin_names
_GPUS = Resource(milli_cpu=1000, memory=1 << 30, scalars={"gpu": 1000})
_AMOUNTS: dict[str, dict[str, Any]] = {
    "deserved": {"deserved": _GPUS},
    "deserved limit": {"deserved": ResourceLimit(scalars={"gpu": 1000})},
    "guarantee": {"guarantee": Resource(scalars={"gpu": 1000})},
    "limit": {"limit": ResourceLimit(milli_cpu=9000, scalars={"gpu": 1000})},
    "usage": {"usage": _GPUS, "usage_half_life": 60, "usage_by_user": {"u": _GPUS}},
}


@pytest.mark.parametrize("given", _AMOUNTS)
@pytest.mark.parametrize("name", PLUGINS)
def test_a_queue_names_what_the_cluster_does_not_have(name: str, given: str) -> None:
    plugins = [{"name": "priority"}, {"name": "gang", "arguments": {"atMinimum": "whole-job"}}]
    if name == "usage":
        plugins += [{"name": "capacity"}, {"name": name, "arguments": {"scope": "users"}}]
    elif name not in ("priority", "gang"):
        plugins.append({"name": name})
    config = SchedulerConfig.from_mapping(
        {"actions": "reclaim, allocate, preempt, plan", "tiers": [{"plugins": plugins}]}
    )
    queues = [Queue(name="top", **_AMOUNTS[given]), Queue(name="q", parent="top"), Queue(name="r")]
    kept = evolve(job("kept", "1C1G", queue="q", user="u"), preemptible=False)
    jobs = [kept, job("runs", "1C1G@n1", queue="r"), job("waits", "1C1G", "1C1G", queue="q")]
    snapshot = evolve(cluster([node("n1", "3C3G")], *jobs), queues=queues, now=10)
    result = Scheduler(config).schedule(snapshot)
    assert Scheduler(config, plain=True).schedule(snapshot) == result
    living = Cluster(snapshot)
    attached = Scheduler(config).attach(living)
    assert attached.schedule().full() == result
    # The dimension comes with a node.
    living.apply(NodeChanged(evolve(snapshot.nodes[0], allocatable=_GPUS)))
    assert attached.schedule().full() == Scheduler(config).schedule(living.snapshot())
