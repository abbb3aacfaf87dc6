"""Clusters in racks, and gangs that ask for them: a task takes one GPU.

"racks 4 / 3" have so many free. What is decided must be the same plainly and on a living cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve

from batchsched import (
    ActionOption,
    CycleResult,
    JobInfo,
    NodeInfo,
    NoDomain,
    PluginOption,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Segment,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Tier,
    Topology,
    TopologyRequest,
)
from batchsched.live import Cluster
from tests.support.invariants import check_decisions

GPU = "nvidia.com/gpu"
NOW = 100.0
RACKS = Topology("net", ["rack"])
ZONES = Topology("net", ["zone", "rack"])


def gpus(count: int) -> Resource:
    return Resource(scalars={GPU: 1000 * count})


def node(name: str, count: int, **labels: str) -> NodeInfo:
    return NodeInfo(name=name, allocatable=gpus(count), labels=labels)


def in_racks(*free: int) -> list[NodeInfo]:
    return [node(f"n{place}", count, rack=f"r{place}") for place, count in enumerate(free, 1)]


def in_zones(**zones: Sequence[int]) -> list[NodeInfo]:
    return [
        node(f"{zone}{place}", count, zone=zone, rack=f"{zone}{place}")
        for zone, racks in zones.items()
        for place, count in enumerate(racks, 1)
    ]


def tasks(
    name: str, count: int, size: int = 1, *, on: Mapping[int, str] = {}, **more: object
) -> list[TaskInfo]:
    return [
        TaskInfo(
            uid=f"{name}{place:02}",
            name=f"{name}{place}",
            resreq=gpus(size),
            status=TaskStatus.RUNNING if place in on else TaskStatus.PENDING,
            node_name=on.get(place),
            **more,  # type: ignore[arg-type]
        )
        for place in range(count)
    ]


def job(
    name: str,
    given: Iterable[TaskInfo],
    request: TopologyRequest | None,
    least: int | None = None,
    **more: object,
) -> JobInfo:
    members = list(given)
    return JobInfo(
        name=name,
        queue="q",
        tasks=members,
        min_available=len(members) if least is None else least,
        topology=request,
        **more,  # type: ignore[arg-type]
    )


Action = str | ActionOption


def option(name: str, **arguments: str | float) -> ActionOption:
    return ActionOption(name=name, arguments=arguments)


def config(*actions: Action, **topology: str | int) -> SchedulerConfig:
    plugins = [PluginOption(name=name) for name in ("priority", "gang", "predicates", "nodeorder")]
    plugins += [PluginOption(name="devices"), PluginOption(name="topology", arguments=topology)]
    return SchedulerConfig(
        actions=[
            option(each) if isinstance(each, str) else each for each in actions or ("allocate",)
        ],
        tiers=[Tier(plugins=plugins)],
    )


def cycle(
    nodes: Iterable[NodeInfo],
    jobs: Iterable[JobInfo],
    topology: Topology = RACKS,
    *actions: Action,
    **more: object,
) -> CycleResult:
    snapshot = Snapshot(
        nodes=nodes,
        jobs=jobs,
        queues=[Queue(name="q")],
        topologies=[topology],
        now=NOW,
        **more,  # type: ignore[arg-type]
    )
    return decided(snapshot, *actions)


def decided(snapshot: Snapshot, *actions: Action) -> CycleResult:
    """The decisions, which must be the same plainly and on a living cluster."""
    result = Scheduler(config(*actions)).schedule(snapshot)
    plainly = Scheduler(config(*actions), plain=True).schedule(snapshot)
    assert evolve(plainly, pending={}) == evolve(result, pending={})
    assert dict(plainly.pending) == dict(result.pending)
    living = Scheduler(config(*actions)).attach(Cluster(snapshot)).schedule()
    assert living.binds == result.binds
    assert living.reserved == result.reserved
    assert living.evictions == result.evictions
    assert living.pipelined == result.pipelined
    check_decisions(snapshot, result, config(*actions))
    return result


def placed(result: CycleResult) -> dict[str, str]:
    return {bind.task_uid: bind.node_name for bind in result.binds}


def counts(result: CycleResult) -> dict[str, int]:
    where = list(placed(result).values())
    return {name: where.count(name) for name in sorted(set(where))}


def no_domain(result: CycleResult, uid: str) -> NoDomain:
    failure = result.jobs[uid].condition.failure  # type: ignore[union-attr]
    assert failure is not None
    assert failure.refusal is not None
    assert failure.refusal.no_domain is not None
    return failure.refusal.no_domain


RACK = TopologyRequest("net", required="rack")
ZONE = TopologyRequest("net", required="zone")


def segments(*given: tuple[int, str], **more: object) -> TopologyRequest:
    return TopologyRequest("net", segments=[Segment(*each) for each in given], **more)  # type: ignore[arg-type]
