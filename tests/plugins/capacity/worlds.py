"""A small language for clusters with queues: amounts are whole cpus, and gpus where needed."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.testing.queue_trees import queue_trees


def amount(cpus: float, gpus: float = 0) -> Resource:
    scalars = {"gpu": int(gpus * 1000)} if gpus else {}
    return Resource(milli_cpu=int(cpus * 1000), scalars=scalars)


def node(name: str, cpus: float, gpus: float = 0, **more: object) -> NodeInfo:
    return NodeInfo(name=name, allocatable=amount(cpus, gpus), **more)  # type: ignore[arg-type]


def job(
    queue: str,
    name: str,
    count: int = 1,
    *,
    size: float = 1,
    gpus: float = 0,
    minimum: int = 1,
    on: str | None = None,
    at: float = 0,
    only: str | None = None,
    priority: int = 1,
) -> JobInfo:
    """A job of equal tasks that wait, or all run on a node; `only` names the node that fits."""
    tasks = [
        TaskInfo(
            uid=f"{name}-{number:02}",
            name=f"{name}-{number:02}",
            resreq=amount(size, gpus),
            status=TaskStatus.PENDING if on is None else TaskStatus.RUNNING,
            node_name=on,
            creation_time=at,
            priority=priority,
            node_selector={} if only is None else {"name": only},
        )
        for number in range(count)
    ]
    return JobInfo(name=name, queue=queue, min_available=minimum, tasks=tasks, creation_time=at)


def singles(queue: str, name: str, count: int, **more: object) -> list[JobInfo]:
    """Jobs of one task each."""
    return [job(queue, f"{name}{number:02}", **more) for number in range(count)]  # type: ignore[arg-type]


def capacity_config(
    *actions: str, at_minimum: str = "whole-job", **arguments: object
) -> dict[str, object]:
    """A configuration with capacity, as it would stand in a file."""
    gang = {"name": "gang", "arguments": {"atMinimum": at_minimum}}
    capacity = {"name": "capacity", "arguments": arguments}
    names = ("priority", "conformance", "predicates", "nodeorder")
    plugins = [*({"name": name} for name in names), gang, capacity]
    return {"actions": list(actions), "tiers": [{"plugins": plugins}]}


def capacity_scheduler(
    *actions: str, at_minimum: str = "whole-job", **arguments: object
) -> Scheduler:
    conf = capacity_config(*actions, at_minimum=at_minimum, **arguments)
    return Scheduler(SchedulerConfig.from_mapping(conf))


def evicted(
    nodes: Iterable[NodeInfo],
    queues: Iterable[Queue],
    jobs: Iterable[JobInfo],
    *,
    at_minimum: str = "whole-job",
    **arguments: object,
) -> tuple[list[str], CycleResult]:
    """Whom reclaim evicts, and all that came of it."""
    snapshot = Snapshot(nodes=nodes, queues=queues, jobs=jobs)
    scheduler = capacity_scheduler("reclaim", at_minimum=at_minimum, **arguments)
    result = scheduler.schedule(snapshot)
    return [eviction.task_uid for eviction in result.evictions], result


@st.composite
def crowded(
    draw: DrawFn,
    *,
    max_queues: int = 6,
    states: bool = False,
    gpus: bool = True,
    only_whole: bool = False,
    max_nodes: int = 3,
    pinned: bool = True,
) -> Snapshot:
    """A small cluster with a tree of queues, where most of what there is, is used.

    With `only_whole` a job is one task, or a gang that needs all of its tasks.
    """
    queues = draw(queue_trees(max_queues=max_queues, max_depth=4, states=states))
    inner = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in inner]
    count = draw(st.integers(1, max_nodes))
    names = [f"n{number}" for number in range(1, count + 1)]
    room = {
        name: [draw(st.integers(2, 8)), draw(st.integers(0, 4)) if gpus else 0] for name in names
    }
    nodes = [
        evolve(node(name, size[0], size[1]), labels={"name": name}) for name, size in room.items()
    ]
    drafts = draw(
        st.lists(
            st.tuples(
                st.integers(0, 7),
                st.sampled_from([1, 1, 1, 2, 3, 4]),
                st.sampled_from([0, 0, 0, 1, 1, 2]),
                st.sampled_from([1, 1, 1, 2, 3, 5]),
                st.integers(0, 5),
                st.sampled_from([0, 1, 1, 1]),
                st.integers(0, 3),
            ),
            min_size=2,
            max_size=9,
        )
    )
    jobs = []
    for number, (leaf, size, gpu, tasks, minimum, runs, at) in enumerate(drafts):
        needed = (tasks if only_whole else 1 + minimum % (tasks + 1)) if tasks > 1 else 1
        needed = min(needed, tasks)
        of_node = names[(leaf + at) % count]
        one = job(
            leaves[leaf % len(leaves)],
            f"j{number}",
            tasks,
            size=size,
            gpus=gpu if gpus else 0,
            minimum=needed,
            at=at,
            only=of_node if pinned and at == 3 else None,
            priority=1 + (leaf == 7),
        )
        placed = []
        for task in one.tasks if runs else ():
            fitting = [
                name
                for name in names
                if room[name][0] >= size
                and room[name][1] >= (gpu if gpus else 0)
                and task.node_selector.get("name", name) == name
            ]
            if fitting:
                room[fitting[0]][0] -= size
                room[fitting[0]][1] -= gpu if gpus else 0
                placed.append(evolve(task, status=TaskStatus.RUNNING, node_name=fitting[0]))
            else:
                placed.append(task)
        if sum(task.node_name is not None for task in placed) < needed:
            for task in placed:
                if task.node_name is not None:
                    room[task.node_name][0] += size
                    room[task.node_name][1] += gpu if gpus else 0
            placed = []
        jobs.append(evolve(one, tasks=placed) if placed else one)
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)
