"""What is placed of a gang that asks for one domain of a topology is in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.topology import TopologyRequest
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.invariant import invariant

_HAS_A_PLACE = (
    *OCCUPYING,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
    TaskStatus.RESERVED,
)


@invariant
def domains(cycle: Cycle) -> Iterator[str]:
    """Tasks of a job or group that requires a level of a topology are placed in one domain of it.

    If plugin topology decides, and any of these tasks got a place that had none before: all that
    have a place after the cycle are in one domain of the required level, and of a job or a group of
    tasks with segments those of each segment in one of the segment's level.
    """
    if not cycle.policy.has("topology") or not cycle.policy.knows_actions:
        return
    for job in cycle.jobs.values():
        if not cycle.is_in_session(job):
            continue
        for what, request, tasks in _asked(job):
            here = [task for task in tasks if _place(cycle, task) is not None]
            if not any(task.status is TaskStatus.PENDING for task in here):
                continue
            if request.required is not None:
                yield from _in_one(cycle, what, request, request.required, here)
            if request.segments and len({task.group for task in tasks}) == 1:
                yield from _segments(cycle, what, request, tasks)


def _asked(job: JobInfo) -> Iterator[tuple[str, TopologyRequest, Sequence[TaskInfo]]]:
    """Yield what a job and its groups ask, with the tasks that it is for."""
    if job.topology is not None:
        yield f"job {job.uid!r}", job.topology, job.tasks
    parents = {group.name: group.parent for group in job.groups}
    for group in job.groups:
        if group.topology is not None:
            tasks = [task for task in job.tasks if group.name in _path(task.group, parents)]
            yield f"group {group.name!r} of job {job.uid!r}", group.topology, tasks


def _path(group: str | None, parents: Mapping[str, str | None]) -> Iterator[str]:
    while group is not None:
        yield group
        group = parents.get(group)


def _place(cycle: Cycle, task: TaskInfo) -> str | None:
    outcome = cycle.result.tasks.get(task.uid)
    if outcome is None or outcome.status not in _HAS_A_PLACE:
        return None
    return outcome.node_name


def _segments(
    cycle: Cycle, what: str, request: TopologyRequest, tasks: Sequence[TaskInfo]
) -> Iterator[str]:
    if any(task.index is None for task in tasks):
        return  # their numbers are their places in task order, which plugins determine
    for segment in request.segments:
        parts: dict[int, list[TaskInfo]] = {}
        for task in tasks:
            if task.index is not None and _place(cycle, task) is not None:
                parts.setdefault(task.index // segment.size, []).append(task)
        for number, some in parts.items():
            if any(task.status is TaskStatus.PENDING for task in some):
                of_part = f"segment {number} of {what}"
                yield from _in_one(cycle, of_part, request, segment.level, some)


def _in_one(
    cycle: Cycle, what: str, request: TopologyRequest, level: str, tasks: Sequence[TaskInfo]
) -> Iterator[str]:
    """Yield a fault unless tasks are in one domain of a level."""
    places = {task.uid: _place(cycle, task) for task in tasks}
    nodes = [cycle.nodes[name] for name in sorted({name for name in places.values() if name})]
    if not _is_one(cycle, request, level, nodes):
        yield f"{what} is not in one {level}: expected its tasks in one domain, got {places}"


def _is_one(cycle: Cycle, request: TopologyRequest, level: str, nodes: Sequence[NodeInfo]) -> bool:
    if request.topology is None:
        values = {node.labels.get(level) for node in nodes}
        return len(values) == 1 and None not in values
    topology = next(t for t in cycle.snapshot.topologies if t.name == request.topology)
    if topology.domains:
        names = {node.name for node in nodes}
        return any(d.level == level and names <= set(d.nodes) for d in topology.domains)
    keys = topology.levels[: topology.levels.index(level) + 1]
    paths = {tuple(node.labels.get(key) for key in keys) for node in nodes}
    return len(paths) == 1 and None not in next(iter(paths))
