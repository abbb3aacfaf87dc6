"""Reductions of snapshots: remove objects, together with what depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from attrs import evolve

from batchsched.errors import FaultsError
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.snapshot import Snapshot

__all__ = [
    "small_parts",
    "with_half_gangs",
    "with_nodes_joined",
    "with_queues_joined",
    "without_jobs",
    "without_nodes",
    "without_queues",
    "without_tasks",
    "without_tasks_and_their_room",
]

ItemT = TypeVar("ItemT")

_PLACES = 3
"""The number of parts of each size: the first, one in the middle, and the last."""
_SIZES = (2, 8, 32, 128, 512)
_LARGE = 32
"""The number of nodes or jobs from which small parts of a snapshot are tried."""


def without_nodes(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Remove nodes, the tasks on them, and the jobs that are left without tasks."""

    def stays(task: TaskInfo) -> bool:
        return task.node_name not in names

    return evolve(
        snapshot,
        nodes=[node for node in snapshot.nodes if node.name not in names],
        jobs=_jobs_with(snapshot.jobs, stays),
        other_tasks=[task for task in snapshot.other_tasks if stays(task)],
    )


def small_parts(snapshot: Snapshot) -> Iterator[Snapshot]:
    """Yield small parts of a large snapshot, the smallest first; nothing for a small snapshot."""
    largest = max(len(snapshot.nodes), len(snapshot.jobs))
    for size in _SIZES:
        if largest < _LARGE or 2 * size >= largest:
            return
        for place in range(_PLACES):
            try:
                part = _part_of(snapshot, size, place)
            except FaultsError:
                continue
            yield part


def _part_of(snapshot: Snapshot, size: int, place: int) -> Snapshot:
    """Return a part: some nodes with their tasks, and some of the jobs that only wait."""
    gone = frozenset(node.name for node in snapshot.nodes) - {
        node.name for node in _slice(snapshot.nodes, size, place)
    }
    left = without_nodes(snapshot, gone)
    waiting = [job for job in left.jobs if all(task.node_name is None for task in job.tasks)]
    kept = {job.uid for job in _slice(waiting, size, place)}
    dropped = {job.uid for job in waiting} - kept
    return without_jobs(left, frozenset(dropped))


def _slice(items: Sequence[ItemT], size: int, place: int) -> Sequence[ItemT]:
    """Return `size` items: the first, those in the middle, or the last."""
    start = max(0, len(items) - size) * place // (_PLACES - 1)
    return items[start : start + size]


def without_jobs(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove jobs."""
    return evolve(snapshot, jobs=[job for job in snapshot.jobs if job.uid not in uids])


def without_queues(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Remove queues and their jobs."""
    return evolve(
        snapshot,
        queues=[queue for queue in snapshot.queues if queue.name not in names],
        jobs=[job for job in snapshot.jobs if job.queue not in names],
    )


def with_queues_joined(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Remove queues, and move their jobs to the first queue that is left."""
    left = [queue for queue in snapshot.queues if queue.name not in names]
    if not left:
        return snapshot
    jobs = [evolve(job, queue=left[0].name) if job.queue in names else job for job in snapshot.jobs]
    return evolve(snapshot, queues=left, jobs=jobs)


def with_nodes_joined(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    """Merge nodes into the first one that is left, with their resources and tasks."""
    left = [node for node in snapshot.nodes if node.name not in names]
    if not left:
        return snapshot
    gone = [node.allocatable for node in snapshot.nodes if node.name in names]
    first = evolve(left[0], allocatable=sum_resources([left[0].allocatable, *gone]))

    def moved(task: TaskInfo) -> TaskInfo:
        return evolve(task, node_name=first.name) if task.node_name in names else task

    return evolve(
        snapshot,
        nodes=[first, *left[1:]],
        jobs=[evolve(job, tasks=map(moved, job.tasks)) for job in snapshot.jobs],
        other_tasks=map(moved, snapshot.other_tasks),
    )


def without_tasks_and_their_room(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove tasks, and what they hold from the resources of their nodes."""
    tasks = [*snapshot.other_tasks, *(task for job in snapshot.jobs for task in job.tasks)]
    held: dict[str | None, list[Resource]] = {}
    for task in tasks:
        if task.uid in uids and task.status.holds:
            held.setdefault(task.node_name, []).append(task.resreq)

    def shrunk(node: NodeInfo) -> NodeInfo:
        if node.name not in held:
            return node
        gone = sum_resources(held[node.name])
        room = node.allocatable
        return evolve(node, allocatable=room.max_with(gone) - gone)

    left = without_tasks(snapshot, uids)
    return evolve(left, nodes=[shrunk(node) for node in left.nodes])


def without_tasks(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Remove tasks, and the jobs that are left without tasks."""

    def stays(task: TaskInfo) -> bool:
        return task.uid not in uids

    return evolve(
        snapshot,
        jobs=_jobs_with(snapshot.jobs, stays),
        other_tasks=[task for task in snapshot.other_tasks if stays(task)],
    )


def with_half_gangs(snapshot: Snapshot, uids: frozenset[str]) -> Snapshot:
    """Halve the tasks and the `min_available` of jobs."""
    jobs: list[JobInfo] = []
    for job in snapshot.jobs:
        if job.uid in uids:
            tasks = job.tasks[: (len(job.tasks) + 1) // 2]
            jobs.append(evolve(job, tasks=tasks, min_available=(job.min_available + 1) // 2))
        else:
            jobs.append(job)
    return evolve(snapshot, jobs=jobs)


def _jobs_with(jobs: Iterable[JobInfo], stays: Callable[[TaskInfo], bool]) -> list[JobInfo]:
    """Keep the tasks that stay, and lower `min_available` to their number if necessary."""
    changed: list[JobInfo] = []
    for job in jobs:
        tasks = [task for task in job.tasks if stays(task)]
        if len(tasks) == len(job.tasks):
            changed.append(job)
        elif tasks:
            could = job.min_available > len(job.tasks)
            least = job.min_available if could else min(job.min_available, len(tasks))
            changed.append(evolve(job, tasks=tasks, min_available=least))
    return changed
