"""Workload (e): tasks that want to be near some tasks and far from others."""

from __future__ import annotations

from random import Random

from batchsched import (
    JobInfo,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    WeightedPodTerm,
)
from benchmarks.workloads.nodes import GIB, mixed_nodes
from benchmarks.workloads.scenario import Scenario, scaled

__all__ = ["affinity"]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def affinity(scale: float, *, nodes: int, tasks: int, zones: int = 10, seed: int = 5) -> Scenario:
    """Return services with zone and host anti-affinity and preferred affinity.

    Four kinds of service, each with labels of its own. By number of tasks, a tenth
    are quorums, each member in a zone of its own, some of them with more members than
    there are zones; four tenths are spread, no two of a service on a host, preferably
    in the zones of a store; three tenths are drawn to the zones of a store and prefer
    not to share a host; a fifth must be in a zone of their store. The stores run
    already, and some of them prefer not to have others on their hosts.

    Args:
        scale: 1 for the full size.
        nodes: how many nodes there are at full size, spread over the zones.
        tasks: how many tasks wait at full size.
        zones: how many zones there are.
        seed: of the generator.
    """
    random = Random(seed)
    cluster = mixed_nodes(random, scaled(nodes, scale), zones=zones)
    count = scaled(tasks, scale)
    stores = max(1, count // 250)
    jobs = [_store(random, number, [node.name for node in cluster]) for number in range(stores)]
    for kind, part, sizes in (
        ("quorum", 0.1, (5, 10, 12)),
        ("spread", 0.4, (50,)),
        ("drawn", 0.3, (50,)),
        ("near", 0.2, (50,)),
    ):
        left = round(count * part)
        while left > 0:
            size = min(left, random.choice(sizes))
            left -= size
            jobs.append(_service(random, kind, len(jobs), size, random.randrange(stores)))
    return Scenario(
        snapshot=Snapshot(
            nodes=cluster,
            queues=[Queue(name="services", weight=2), Queue(name="teams")],
            jobs=jobs,
            now=50_000.0,
        ),
        config=SchedulerConfig(),
    )


def _near(service: str, key: str) -> PodAffinityTerm:
    selector = LabelSelector(match_labels={"service": service})
    return PodAffinityTerm(selector=selector, topology_key=key)


def _prefers(service: str, key: str, weight: int) -> WeightedPodTerm:
    return WeightedPodTerm(weight=weight, term=_near(service, key))


def _store(random: Random, number: int, nodes: list[str]) -> JobInfo:
    name = f"store-{number:03}"
    is_shy = random.random() < 0.3
    alone = PodAffinityTerm(selector=LabelSelector(), topology_key=HOST)
    keeps_off = PodAffinity(preferred=[WeightedPodTerm(weight=20, term=alone)])
    tasks = [
        TaskInfo(
            uid=f"{name}-{position}",
            name=f"{name}-{position}",
            status=TaskStatus.RUNNING,
            node_name=random.choice(nodes),
            resreq=Resource(milli_cpu=500, memory=2 * GIB),
            labels={"service": name},
            pod_anti_affinity=keeps_off if is_shy else None,
        )
        for position in range(random.choice((1, 3)))
    ]
    return JobInfo(name=name, queue="services", min_available=1, tasks=tasks)


def _service(random: Random, kind: str, number: int, size: int, store: int) -> JobInfo:
    name = f"{kind}-{number:03}"
    its_store = f"store-{store:03}"
    attract: PodAffinity | None = None
    repel: PodAffinity | None = None
    if kind == "quorum":
        repel = PodAffinity(required=[_near(name, ZONE)])
    elif kind == "spread":
        attract = PodAffinity(preferred=[_prefers(its_store, ZONE, 30)])
        repel = PodAffinity(required=[_near(name, HOST)])
    elif kind == "drawn":
        attract = PodAffinity(preferred=[_prefers(its_store, ZONE, 50)])
        repel = PodAffinity(preferred=[_prefers(name, HOST, 80)])
    else:
        attract = PodAffinity(required=[_near(its_store, ZONE)])
    milli_cpu = random.choice((500, 1000, 2000, 4000))
    request = Resource(milli_cpu=milli_cpu, memory=milli_cpu * 4 * GIB // 1000)
    created = float(random.randrange(50_000))
    priority = random.choice((1, 5))
    tasks = [
        TaskInfo(
            uid=f"{name}-{position:02}",
            name=f"{name}-{position:02}",
            resreq=request,
            priority=priority,
            creation_time=created,
            labels={"service": name},
            pod_affinity=attract,
            pod_anti_affinity=repel,
        )
        for position in range(size)
    ]
    return JobInfo(
        name=name,
        queue=random.choice(("services", "teams")),
        min_available=random.choice((1, max(1, size // 2), size)),
        priority=priority,
        creation_time=created,
        tasks=tasks,
    )
