"""Workload (h): a full cluster that is shared among a tree of queues."""

from __future__ import annotations

from random import Random

from batchsched import JobInfo, Queue, Resource, ResourceLimit, SchedulerConfig, Snapshot
from benchmarks.workloads.busy import (
    ALL_ACTIONS,
    fill,
    full_nodes,
    pending_jobs,
    running_jobs,
)
from benchmarks.workloads.scenario import Scenario, protecting, scaled

__all__ = ["tree"]

_DIVISIONS, _DEPARTMENTS, _TEAMS = 10, 4, 5
"""How many there are in the cluster, in a division and in a department."""
_TIERS = (("priority", "gang", "conformance"), ("drf", "predicates", "capacity", "nodeorder"))


def tree(
    scale: float,
    *,
    nodes: int,
    running: int,
    pending: int,
    is_flat: bool = False,
    order: str = "queue",
    seed: int = 8,
) -> Scenario:
    """Return a full cluster of 200 teams in 40 departments of 10 divisions, at any scale.

    Some teams hold up to nine times as much as others, whatever their weights, and what waits is
    spread without regard to that: a third of them are far above their shares. A tenth of
    the teams have a little guaranteed, a tenth have limits, and half of the divisions deserve a
    twentieth of the cluster each. Nodes, requests and jobs are those of the workload (d).

    Args:
        scale: 1 for the full size.
        nodes: how many nodes there are at full size.
        running: how many tasks run at full size.
        pending: how many tasks wait at full size.
        is_flat: whether the teams stand beside each other, with nothing guaranteed and no limits,
            under the plugin proportion instead of capacity.
        order: that of capacity: queue or graded.
        seed: of the generator.

    """
    random = Random(seed)
    cluster = full_nodes(random, scaled(nodes, scale))
    new = max(1, round(len(cluster) * 0.03))
    placed = fill(random, random.sample(cluster, len(cluster) - new), scaled(running, scale))
    random.shuffle(placed)
    milli_cpu = sum(int(node.allocatable.milli_cpu) for node in cluster)
    memory = sum(int(node.allocatable.memory) for node in cluster)
    queues = _queues(random, milli_cpu, memory)
    teams = [queue for queue in queues if queue.name.count("-") == 2]
    jobs: list[JobInfo] = []
    holds = [random.choice((1, 1, 2, 3, 9)) for _ in teams]
    start = 0
    for position, queue in enumerate(teams):
        end = len(placed) * sum(holds[: position + 1]) // sum(holds)
        jobs += running_jobs(random, queue.name, placed[start:end])
        start = end
    waiting = scaled(pending, scale)
    for position, queue in enumerate(teams):
        count = (position + 1) * waiting // len(teams) - position * waiting // len(teams)
        jobs += pending_jobs(random, queue.name, count)
    if is_flat:
        queues = [Queue(name=queue.name, weight=queue.weight) for queue in teams]
    return Scenario(
        snapshot=Snapshot(nodes=cluster, queues=queues, jobs=jobs, now=500_000.0),
        config=protecting(ALL_ACTIONS) if is_flat else _with_capacity(order),
    )


def _queues(random: Random, milli_cpu: int, memory: int) -> list[Queue]:
    """Return divisions, departments and teams: ``d0``, ``d0-0`` and ``d0-0-0``."""

    def part(of: int) -> Resource:
        return Resource(milli_cpu=milli_cpu // of, memory=memory // of)

    limit = ResourceLimit(milli_cpu=milli_cpu // 60, memory=memory // 60)
    found: list[Queue] = []
    for division in range(_DIVISIONS):
        top = f"d{division}"
        weight = random.randrange(1, 5)
        deserved = part(20) if division % 2 else None
        found.append(Queue(name=top, weight=weight, deserved=deserved))
        for department in range(_DEPARTMENTS):
            middle = f"{top}-{department}"
            found.append(Queue(name=middle, parent=top, weight=random.randrange(1, 5)))
            for team in range(_TEAMS):
                number = (division * _DEPARTMENTS + department) * _TEAMS + team
                found.append(
                    Queue(
                        name=f"{middle}-{team}",
                        parent=middle,
                        weight=random.randrange(1, 5),
                        guarantee=part(1000) if number % 10 == 3 else Resource(),
                        limit=limit if number % 10 == 7 else None,
                    )
                )
    return found


def _with_capacity(order: str) -> SchedulerConfig:
    capacity = {"name": "capacity", "arguments": {"order": order}}
    tiers = [
        {"plugins": [capacity if name == "capacity" else name for name in plugins]}
        for plugins in _TIERS
    ]
    return SchedulerConfig.from_mapping({"actions": ALL_ACTIONS, "tiers": tiers})
