"""The cost per task of making a snapshot: ``python -m benchmarks.validation``.

A snapshot is made, and checked, in every cycle of a simulation. 1,000 nodes and
20,000 tasks, in jobs of 20; half of the tasks run. What differs is what the tasks share.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ScoringRequest,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Toleration,
    TolerationOperator,
)

NODES, JOBS, TASKS_OF_JOB, ROUNDS = 1000, 1000, 20, 9

SHARED = Resource(milli_cpu=500, memory=1 << 30, scalars={"nvidia.com/gpu": 100})
EXISTS = TolerationOperator.EXISTS


def requests(milli_cpu: int = 500) -> Resource:
    """Return a new resource."""
    return Resource(milli_cpu=milli_cpu, memory=1 << 30, scalars={"nvidia.com/gpu": 100})


def alike(_rank: int) -> dict[str, object]:
    """Tasks of a job that share all values."""
    return {"resreq": SHARED}


def own_requests(_rank: int) -> dict[str, object]:
    """Tasks with a `Resource` of their own."""
    return {"resreq": requests()}


def own_everything(rank: int) -> dict[str, object]:
    """Tasks that share nothing, such as those converted from pods one by one."""
    return {
        "resreq": requests(),
        "init_resreq": requests(1000),
        "scoring_request": ScoringRequest(500, 1 << 30),
        "labels": {"app": "a", "rank": f"{rank}"},
        "tolerations": [
            Toleration(key="node.kubernetes.io/not-ready", operator=EXISTS),
            Toleration(key="node.kubernetes.io/unreachable", operator=EXISTS),
        ],
    }


def content(own: Callable[[int], dict[str, object]]) -> dict[str, object]:
    """Return the parts of a snapshot."""
    return {
        "nodes": [
            NodeInfo(
                name=f"n{i:04}",
                allocatable=Resource(
                    milli_cpu=64000, memory=256 << 30, scalars={"nvidia.com/gpu": 8000}
                ),
                labels={"zone": f"z{i % 3}", "kubernetes.io/hostname": f"n{i:04}"},
                max_tasks=110,
            )
            for i in range(NODES)
        ],
        "queues": [Queue(name=f"q{i}", weight=1 + i) for i in range(5)],
        "jobs": [
            JobInfo(
                name=f"j{j}",
                queue=f"q{j % 5}",
                tasks=[
                    TaskInfo(
                        uid=f"{j}-{rank}",
                        name=f"t{rank}",
                        status=TaskStatus.RUNNING if rank % 2 else TaskStatus.PENDING,
                        node_name=f"n{j % NODES:04}" if rank % 2 else None,
                        **own(rank),
                    )
                    for rank in range(TASKS_OF_JOB)
                ],
            )
            for j in range(JOBS)
        ],
    }


def seconds(make: Callable[[], object]) -> float:
    """Return the least processor time of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        start = process_time()
        make()
        best = min(best, process_time() - start)
    return best


def main() -> None:
    """Print the table."""
    tasks = JOBS * TASKS_OF_JOB
    print(f"{NODES} nodes, {tasks} tasks: processor time, best of {ROUNDS}")
    for own in (alike, own_requests, own_everything):
        given = content(own)
        bare = {**given, "jobs": ()}
        whole = seconds(lambda given=given: Snapshot(**given))
        nodes = seconds(lambda bare=bare: Snapshot(**bare))
        per_task = (whole - nodes) / tasks * 1e6
        print(f"{own.__name__:15} {whole * 1e3:6.1f} ms, {per_task:5.2f} us a task")


if __name__ == "__main__":
    main()
