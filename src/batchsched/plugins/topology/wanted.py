"""What a job asks of a topology, and how its tasks differ in what they ask of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from batchsched.model.cluster import JobInfo
from batchsched.model.topology import TopologyRequest
from batchsched.plugins.topology.areas import Area
from batchsched.state.needs import Need
from batchsched.state.records import TaskState
from batchsched.state.vectors import Vector, dominant_share


@frozen(eq=False)
class Wanted:
    """What a need asks of one topology, within some nodes."""

    topology: str | None
    levels: Sequence[str]
    root: Area
    """The nodes, with the domains in them."""
    required: int
    """The position of the required level; -1: none is."""
    preferred: int
    """The position of the preferred level, or of the required one; -1: neither is given."""
    segments: Sequence[tuple[int, int]]
    """Size and level of each."""
    balanced: bool


def asks(job: JobInfo) -> bool:
    """Return whether a job asks anything of a topology, itself or in a group."""
    return next(requests_of(job), None) is not None


def requests_of(job: JobInfo) -> Iterator[TopologyRequest]:
    """Yield what a job asks, and what its groups do."""
    if job.topology is not None:
        yield job.topology
    for group in job.groups:
        if group.topology is not None:
            yield group.topology


def kinds_of(need: Need, cluster: Vector) -> Sequence[tuple[TaskState, ...]]:
    """Group tasks by what they ask for: the larger first, then the more numerous."""
    kinds: dict[tuple[Vector, Vector], list[TaskState]] = {}
    for task in need.tasks:
        kinds.setdefault((task.resreq, task.init_resreq), []).append(task)
    return [
        tuple(tasks)
        for tasks in sorted(
            kinds.values(),
            key=lambda tasks: (-dominant_share(tasks[0].init_resreq, cluster), -len(tasks)),
        )
    ]
