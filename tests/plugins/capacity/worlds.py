"""A small language for clusters with queues: amounts are whole cpus, and gpus where needed."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.testing import queue_trees


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
    """Whom reclaim evicts, whether or not it remembers loans, and all that came of it."""
    snapshot = Snapshot(nodes=nodes, queues=queues, jobs=jobs)
    scheduler = capacity_scheduler("reclaim", at_minimum=at_minimum, **arguments)
    result = scheduler.schedule(snapshot)
    assert Scheduler(scheduler.config, plain={"loans"}).schedule(snapshot) == result
    return [eviction.task_uid for eviction in result.evictions], result


SHAPES = [
    (cpus, gpus, count)
    for count in (1, 1, 2, 3)
    for cpus, gpus in ((1, 0), (1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 2))
]
"""Of jobs: cpus and gpus of each task, and how many tasks."""


@st.composite
def crowded(
    draw: DrawFn,
    *,
    max_queues: int = 6,
    states: bool = False,
    only_whole: bool = False,
    max_nodes: int = 3,
    pinned: bool = True,
) -> Snapshot:
    """A small cluster with a tree of queues, where most of what there is, is used.

    The nodes are as large as what runs there and a little more, so that whoever waits has to
    claim. With `only_whole` a job is one task, or a gang that needs all of its tasks.
    """
    queues = draw(queue_trees(max_queues=max_queues, max_depth=4, states=states))
    inner = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in inner]
    if len(leaves) == 1:
        queues = (*queues, Queue(name="q9"))
        leaves.append("q9")
    spare = draw(
        st.lists(
            st.tuples(st.sampled_from([0, 0, 1, 2]), st.sampled_from([0, 0, 1])),
            min_size=1,
            max_size=max_nodes,
        )
    )
    names = [f"n{number}" for number in range(1, len(spare) + 1)]
    used = dict.fromkeys(names, (0, 0))
    drafts = draw(
        st.lists(
            st.tuples(
                st.integers(0, 7),
                st.sampled_from(SHAPES),
                st.integers(0, 5),
                st.sampled_from([0, 1, 1, 2]),
                st.integers(0, 3),
            ),
            min_size=2,
            max_size=8,
        )
    )
    jobs = []
    for number, (leaf, (size, gpus, tasks), minimum, runs, at) in enumerate(drafts):
        needed = tasks if only_whole or tasks == 1 else min(1 + minimum % (tasks + 1), tasks)
        home = (leaf + at) % len(names)
        one = job(
            leaves[leaf % len(leaves)],
            f"j{number}",
            tasks,
            size=size,
            gpus=gpus,
            minimum=needed,
            at=at,
            only=names[home] if pinned and at == 3 else None,
            priority=1 + (leaf == 7),
        )
        if runs:  # 2: no more of it than it needs
            running = len(one.tasks) if runs == 1 else max(1, needed)
            placed = list(one.tasks)
            for turn, task in enumerate(one.tasks[:running]):
                on = names[home if at == 3 else (home + turn) % len(names)]
                used[on] = used[on][0] + size, used[on][1] + gpus
                placed[turn] = evolve(task, status=TaskStatus.RUNNING, node_name=on)
            one = evolve(one, tasks=placed)
        jobs.append(one)
    nodes = [
        evolve(node(name, used[name][0] + cpus, used[name][1] + gpus), labels={"name": name})
        for name, (cpus, gpus) in zip(names, spare, strict=True)
    ]
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)


def full(seed: int) -> Snapshot:
    """A tree of up to four levels; a few leaves hold all that there is, and others wait."""
    random = Random(seed)
    depths: dict[str | None, int] = {None: 0}
    queues: list[Queue] = []
    for number in range(random.randint(4, 9)):
        above = [name for name, depth in depths.items() if depth < 4]
        parent = random.choice((above[-1], random.choice(above)))
        depths[f"q{number}"] = depths[parent] + 1
        queues.append(
            Queue(
                name=f"q{number}",
                parent=parent,
                weight=random.choice((1, 1, 2, 3)),
                priority=random.choice((0, 0, 0, 1)),
                deserved=amount(random.choice((0, 0, 1, 2, 4)), random.choice((0, 1))),
            )
        )
    inner = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in inner]
    rich = leaves[: max(1, len(leaves) // 2)]
    jobs: list[JobInfo] = []
    nodes = []
    for number in range(random.randint(1, 3)):
        used = 0, 0
        while used[0] < 4:
            cpus, gpus, count = random.choice(SHAPES)
            used = used[0] + cpus * count, used[1] + gpus * count
            name, queue = f"r{len(jobs)}", random.choice(rich)
            needed = random.choice((1, count))
            on = f"n{number}"
            jobs.append(job(queue, name, count, size=cpus, gpus=gpus, minimum=needed, on=on))
        nodes.append(node(f"n{number}", *used))
    for number in range(random.randint(2, 5)):
        cpus, gpus, count = random.choice((random.choice(SHAPES), (1, 0, 2)))
        needed, at = random.choice((1, count)), random.randint(0, 2)
        waits = job(
            random.choice(leaves), f"w{number}", count, size=cpus, gpus=gpus, minimum=needed, at=at
        )
        jobs.append(waits)
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)


def troubled(seed: int) -> Snapshot:
    """A full tree with gangs that lost tasks, critical jobs, limits, guarantees and lost devices.

    What queues deserve may be more than there is. Jobs differ in priority, and some that wait fit
    only one node.
    """
    snapshot, random = full(seed), Random(seed)
    inner = {queue.parent for queue in snapshot.queues}
    queues = [
        in_other_terms(queue, random, is_leaf=queue.name not in inner) for queue in snapshot.queues
    ]
    nodes = [evolve(one, labels={"name": one.name}) for one in snapshot.nodes]
    for number, one in enumerate(nodes):
        there = one.allocatable
        if random.random() < 0.15:
            nodes[number] = evolve(one, allocatable=evolve(there, scalars={}))
        elif random.random() < 0.15:
            nodes[number] = evolve(one, allocatable=there + amount(1, 1))
        elif random.random() < 0.1:
            nodes[number] = evolve(one, allocatable=evolve(there, milli_cpu=there.milli_cpu - 1000))
    jobs = [in_trouble(one, random, random.choice(nodes).name) for one in snapshot.jobs]
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)


def in_other_terms(queue: Queue, random: Random, *, is_leaf: bool) -> Queue:
    """A queue that is guaranteed, limited, deserves more, or has no weight."""
    changes: dict[str, object] = {}
    if is_leaf and random.random() < 0.15:
        changes["guarantee"] = amount(random.choice((1, 2)))
    if is_leaf and random.random() < 0.2:
        changes["limit"] = ResourceLimit(milli_cpu=1000 * random.randint(2, 5))
    if random.random() < 0.15:
        changes["deserved"] = random.choice((None, amount(8, 2)))
    if random.random() < 0.1:
        changes["weight"] = 0
    return evolve(queue, **changes)  # type: ignore[arg-type]


def in_trouble(one: JobInfo, random: Random, node: str) -> JobInfo:
    """A job of another priority, critical, bound to a node, or short of its last running task."""
    one = evolve(one, priority=random.choice((0, 0, 1, 2)))
    running = [task for task in one.tasks if task.status is TaskStatus.RUNNING]
    tasks = list(one.tasks)
    if random.random() < 0.1:
        tasks = [evolve(task, priority_class_name="system-cluster-critical") for task in tasks]
    elif 1 < len(running) <= one.min_available and random.random() < 0.4:
        tasks[-1] = evolve(tasks[-1], status=TaskStatus.PENDING, node_name=None)
    elif not running and random.random() < 0.2:
        tasks = [evolve(task, node_selector={"name": node}) for task in tasks]
    return evolve(one, tasks=tasks, creation_time=float(random.randrange(3)))
