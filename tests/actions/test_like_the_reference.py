"""displace and reserve keep what they have tried; the reference tries everything anew."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.reference import check_reference
from tests.support.clusters import action, cluster, job, node
from tests.support.invariants import check_cycle

from batchsched import Scheduler, SchedulerConfig, Snapshot

FEW = ["gang", "predicates"]
MANY = ["priority", "gang", "drf", "predicates", "proportion", "nodeorder"]
DISPLACE = ["allocate", action("backfill", strategy="displace")]
RESERVE = ["allocate", action("reserve", starvingJobTimeThreshold=10, reservedNodePercent=100)]


def stuck(seed: int) -> Snapshot:
    """Gangs of unlike tasks that cannot all start, some of them of the same shapes."""
    random = Random(seed)
    nodes = [
        node(f"n{number}", f"{random.randint(2, 7)}C{random.randint(4, 9)}G")
        for number in range(random.randint(1, 4))
    ]
    jobs = []
    for number in range(random.randint(3, 7)):
        shapes = random.sample(["1C1G", "2C1G", "3C2G", "1C3G", "4C4G"], 2)
        requests = [random.choice(shapes) for _ in range(random.randint(1, 5))]
        minimum = random.randint(0, len(requests))
        queue, priority = random.choice("qqr"), random.randint(0, 2)
        jobs.append(job(f"j{number}", *requests, minimum=minimum, queue=queue, priority=priority))
    return cluster(nodes, *jobs, queues=("q", "r"), now=1000)


@pytest.mark.slow
@pytest.mark.parametrize("plugins", [FEW, MANY], ids=["few plugins", "many plugins"])
@pytest.mark.parametrize("actions", [DISPLACE, RESERVE], ids=["displace", "reserve"])
def test_decisions_are_those_of_the_reference(actions: list[Any], plugins: list[str]) -> None:
    config = SchedulerConfig.from_mapping({"actions": actions, "tiers": [{"plugins": plugins}]})
    for seed in range(150):
        snapshot = stuck(seed)
        result = Scheduler(config).schedule(snapshot)
        check_reference(snapshot, result, config)
        check_cycle(snapshot, result, config, invariants=["reasons"])
