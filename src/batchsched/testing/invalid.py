"""Snapshots with exactly one fault, and the expected message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TypeVar, cast

from attrs import evolve, field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.errors import Fault
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.snapshot import Snapshot
from batchsched.testing.flaws import JOB_FLAWS, NODE_FLAWS, QUEUE_FLAWS, TASK_FLAWS, Flaw
from batchsched.testing.part_strategies import built
from batchsched.testing.strategies import snapshots

__all__ = ["EDITS", "InvalidSnapshot", "invalid_snapshots"]

ItemT = TypeVar("ItemT")


# One converter for each type, because type checkers do not understand a generic one.


def _nodes(given: Iterable[NodeInfo]) -> tuple[NodeInfo, ...]:
    return tuple(given)


def _jobs(given: Iterable[JobInfo]) -> tuple[JobInfo, ...]:
    return tuple(given)


def _queues(given: Iterable[Queue]) -> tuple[Queue, ...]:
    return tuple(given)


def _tasks(given: Iterable[TaskInfo]) -> tuple[TaskInfo, ...]:
    return tuple(given)


@frozen(kw_only=True)
class InvalidSnapshot:
    """Invalid parts of a snapshot, with the one fault that must be reported.

    >>> from batchsched import Queue, Fault
    >>> fault = Fault("queues['q'].weight", "expected a weight (an integer, 0 or more), got -1")
    >>> InvalidSnapshot(queues=[Queue(name="q", weight=-1)], fault=fault).build()
    Traceback (most recent call last):
    ...
    batchsched.errors.SnapshotError: queues['q'].weight: expected a weight (an integer, 0 or \
more), got -1
    """

    nodes: tuple[NodeInfo, ...] = field(default=(), converter=_nodes)
    jobs: tuple[JobInfo, ...] = field(default=(), converter=_jobs)
    queues: tuple[Queue, ...] = field(default=(), converter=_queues)
    other_tasks: tuple[TaskInfo, ...] = field(default=(), converter=_tasks)
    now: float = 0.0
    fault: Fault
    """The expected fault: path and message."""

    def build(self) -> Snapshot:
        """Make the snapshot.

        Raises:
            SnapshotError: always, with `fault` alone.

        """
        return Snapshot(
            nodes=self.nodes,
            jobs=self.jobs,
            queues=self.queues,
            other_tasks=self.other_tasks,
            now=self.now,
        )


_Edit = Callable[[Snapshot, int], InvalidSnapshot]


def _with(item: ItemT, changes: Mapping[str, object]) -> ItemT:
    # The changes are not typed, because most of them have wrong types on purpose.
    change = cast("Callable[..., ItemT]", evolve)
    return change(item, **changes)


def _changed(items: Sequence[ItemT], position: int, item: ItemT) -> list[ItemT]:
    return [*items[:position], item, *items[position + 1 :]]


def _parts(snapshot: Snapshot, fault: Fault, **changes: Iterable[object]) -> InvalidSnapshot:
    parts: dict[str, object] = {
        "nodes": snapshot.nodes,
        "jobs": snapshot.jobs,
        "queues": snapshot.queues,
        "other_tasks": snapshot.other_tasks,
        "now": snapshot.now,
        "fault": fault,
    }
    return _with(InvalidSnapshot(fault=fault), {**parts, **changes})


def _in_node(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.nodes)
        node = snapshot.nodes[position]
        fault = Fault(f"nodes[{node.name!r}].{flaw.below}", flaw.message)
        nodes = _changed(snapshot.nodes, position, _with(node, flaw.changes))
        return _parts(snapshot, fault, nodes=nodes)

    return edit


def _in_queue(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.queues)
        queue = snapshot.queues[position]
        fault = Fault(f"queues[{queue.name!r}].{flaw.below}", flaw.message)
        queues = _changed(snapshot.queues, position, _with(queue, flaw.changes))
        return _parts(snapshot, fault, queues=queues)

    return edit


def _in_job(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.jobs)
        job = snapshot.jobs[position]
        fault = Fault(f"jobs[{job.uid!r}].{flaw.below}", flaw.message)
        jobs = _changed(snapshot.jobs, position, _with(job, flaw.changes))
        return _parts(snapshot, fault, jobs=jobs)

    return edit


def _in_task(flaw: Flaw) -> _Edit:
    def edit(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
        position = pick % len(snapshot.jobs)
        job = snapshot.jobs[position]
        which = pick // len(snapshot.jobs) % len(job.tasks)
        task = job.tasks[which]
        fault = Fault(f"jobs[{job.uid!r}].tasks[{task.uid!r}].{flaw.below}", flaw.message)
        tasks = _changed(job.tasks, which, _with(task, flaw.changes))
        jobs = _changed(snapshot.jobs, position, evolve(job, tasks=tasks))
        return _parts(snapshot, fault, jobs=jobs)

    return edit


def _same_node_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    node = snapshot.nodes[pick % len(snapshot.nodes)]
    fault = Fault(f"nodes[{node.name!r}]", "expected a unique name, got it again")
    return _parts(snapshot, fault, nodes=(*snapshot.nodes, node))


def _same_queue_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    queue = snapshot.queues[pick % len(snapshot.queues)]
    fault = Fault(f"queues[{queue.name!r}]", "expected a unique name, got it again")
    return _parts(snapshot, fault, queues=(*snapshot.queues, queue))


def _same_job_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    job = snapshot.jobs[pick % len(snapshot.jobs)]
    fault = Fault(f"jobs[{job.uid!r}]", "expected a unique name, got it again")
    return _parts(snapshot, fault, jobs=(*snapshot.jobs, evolve(job, tasks=())))


def _same_task_twice(snapshot: Snapshot, pick: int) -> InvalidSnapshot:
    job = snapshot.jobs[pick % len(snapshot.jobs)]
    task = job.tasks[0]
    stranger = TaskInfo(uid=task.uid, name="stranger")
    message = f"expected a unique UID, got {task.uid!r}, which is also in jobs[{job.uid!r}]"
    fault = Fault(f"other_tasks[{task.uid!r}].uid", message)
    return _parts(snapshot, fault, other_tasks=(*snapshot.other_tasks, stranger))


def _reserved_without_a_job(snapshot: Snapshot, _pick: int) -> InvalidSnapshot:
    stray = TaskInfo(uid="stray", name="stray", status=TaskStatus.RESERVED, node_name="n1")
    message = (
        "expected another status for a task without a job, which is never placed, got Reserved"
    )
    fault = Fault("other_tasks['stray'].status", message)
    return _parts(snapshot, fault, other_tasks=(*snapshot.other_tasks, stray))


def _no_time(snapshot: Snapshot, _pick: int) -> InvalidSnapshot:
    fault = Fault("now", "expected a time (a finite number of seconds), got inf")
    return evolve(_parts(snapshot, fault), now=inf)


EDITS: tuple[_Edit, ...] = (
    *(_in_queue(flaw) for flaw in QUEUE_FLAWS),
    *(_in_node(flaw) for flaw in NODE_FLAWS),
    *(_in_job(flaw) for flaw in JOB_FLAWS),
    *(_in_task(flaw) for flaw in TASK_FLAWS),
    *(_same_node_twice, _same_queue_twice, _same_job_twice, _same_task_twice),
    *(_reserved_without_a_job, _no_time),
)
"""The edits that make a valid snapshot invalid; one is applied at a time."""


def invalid_snapshots() -> SearchStrategy[InvalidSnapshot]:
    """Draw snapshots with exactly one fault, and the expected message.

    >>> from hypothesis import given, settings
    >>> from batchsched import SnapshotError
    >>> @settings(max_examples=5)
    ... @given(invalid_snapshots())
    ... def the_fault_is_named(invalid):
    ...     try:
    ...         invalid.build()
    ...     except SnapshotError as error:
    ...         assert invalid.fault.path in str(error)
    >>> the_fault_is_named()
    """
    drafts = st.tuples(
        snapshots(max_nodes=2, max_queues=2, max_jobs=2, max_tasks=2),
        st.integers(0, len(EDITS) - 1),
        st.integers(0, 7),
    )
    return built(drafts, lambda draft: EDITS[draft[1]](draft[0], draft[2]))
