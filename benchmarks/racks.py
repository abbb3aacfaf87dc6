"""What a required rack, or segments, cost beside gangs without: ``python -m benchmarks.racks``.

Both sides alternate in one process; that as many tasks were placed is checked before a time counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import process_time

from batchsched import (
    ActionOption,
    JobInfo,
    NodeInfo,
    PluginOption,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Segment,
    Snapshot,
    TaskInfo,
    Tier,
    Topology,
    TopologyRequest,
)

CONFIG = SchedulerConfig(
    actions=[ActionOption(name="allocate")],
    tiers=[
        Tier(
            plugins=[
                PluginOption(name=name)
                for name in ("priority", "gang", "predicates", "nodeorder", "topology")
            ]
        )
    ],
)
RACK = TopologyRequest("net", required="rack")
SEGMENTS = TopologyRequest("net", segments=[Segment(8, "rack")])


def gpus(count: int) -> Resource:
    """Return GPUs with a cpu and a GiB each."""
    return Resource(
        milli_cpu=1000 * count, memory=count << 30, scalars={"nvidia.com/gpu": 1000 * count}
    )


def world(
    nodes: int, per_rack: int, gangs: int, size: int, request: TopologyRequest | None
) -> Snapshot:
    """Return nodes of 8 GPUs in racks, and gangs whose tasks ask for 4 each."""
    return Snapshot(
        nodes=[
            NodeInfo(
                name=f"n{place:05}",
                allocatable=gpus(8),
                labels={"rack": f"r{place // per_rack:04}"},
            )
            for place in range(nodes)
        ],
        jobs=[
            JobInfo(
                name=f"j{number:05}",
                queue="q",
                min_available=size,
                topology=request,
                tasks=[
                    TaskInfo(uid=f"j{number:05}-{rank:02}", name="t", resreq=gpus(4), index=rank)
                    for rank in range(size)
                ],
            )
            for number in range(gangs)
        ],
        queues=[Queue(name="q")],
        topologies=[Topology("net", ["rack"])],
    )


def ratio(with_request: Snapshot, without: Snapshot, rounds: int) -> float:
    """Return the median ratio of processor times of a cycle."""
    found: list[float] = []
    for _ in range(rounds):
        times: list[float] = []
        placed: list[int] = []
        for snapshot in (with_request, without):
            begin = process_time()
            result = Scheduler(CONFIG).schedule(snapshot)
            times.append(process_time() - begin)
            placed.append(len(result.binds))
        if placed[0] != placed[1]:
            raise AssertionError(f"expected as many tasks to be placed, got {placed}")
        found.append(times[0] / times[1])
    return median(found)


def main(scale: float = 1.0, rounds: int = 5) -> Sequence[tuple[str, float]]:
    """Measure both workloads, and print the ratios."""
    rows: list[tuple[str, float]] = []
    for name, size, request in (
        ("2,250 gangs of 4 in a rack of 40, 5,000 nodes", (5000, 40, 2250, 4), RACK),
        ("300 gangs of 64 in segments of 8, 10,000 nodes", (10_000, 40, 300, 64), SEGMENTS),
    ):
        nodes, per_rack, gangs, tasks = size
        shape = (int(nodes * scale), per_rack, int(gangs * scale), tasks)
        rows.append((name, ratio(world(*shape, request), world(*shape, None), rounds)))
        print(f"{rows[-1][1]:.2f} times: {name}")
    return rows


if __name__ == "__main__":
    main()
