"""Draws small clusters with jobs that have groups and maxima: one or two nodes, two queues."""

from __future__ import annotations

from attrs import evolve
from hypothesis import strategies as st

from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskGroup, TaskInfo, TaskStatus

STATUSES = st.sampled_from("PPPPRRRRRSFBUV")
STATUS_OF = {
    "P": TaskStatus.PENDING,
    "R": TaskStatus.RUNNING,
    "S": TaskStatus.SUCCEEDED,
    "F": TaskStatus.FAILED,
    "B": TaskStatus.BOUND,
    "U": TaskStatus.UNKNOWN,
    "V": TaskStatus.RESERVED,
}


@st.composite
def trees(draw: st.DrawFn) -> tuple[tuple[TaskGroup, ...], int | None]:
    """Groups, and how many of the highest a job needs: some of tasks, some of groups."""
    groups: list[TaskGroup] = []
    tops = draw(st.integers(1, 3))
    for top in range(tops):
        name = f"g{top}"
        parts = draw(st.sampled_from([0, 0, 0, 1, 2]))
        for part in range(parts):
            least = draw(st.integers(0, 2))
            groups.append(
                TaskGroup(f"{name}.{part}", parent=name, min=least, max=most(draw, least))
            )
        least = draw(st.integers(0, 3)) if not parts else None
        if parts and draw(st.booleans()):
            least = draw(st.integers(0, parts))
        floor = parts if least is None else least
        groups.append(TaskGroup(name, min=least, max=most(draw, floor)))
    shuffled = tuple(draw(st.permutations(groups)))
    return shuffled, draw(st.none() | st.integers(0, tops))


def most(draw: st.DrawFn, least: int) -> int | None:
    return draw(st.sampled_from([None, None, least, least + 1]))


@st.composite
def elastic_jobs(draw: st.DrawFn, name: str, nodes: int = 2, tasks: int = 6) -> JobInfo:
    """A job with groups, or with a maximum, or (one in four) with neither."""
    kind = draw(st.sampled_from(["groups", "groups", "maximum", "plain"]))
    groups, min_groups = draw(trees()) if kind == "groups" else ((), None)
    inner = {group.parent for group in groups}
    leaves = [group.name for group in groups if group.name not in inner] or [None]
    made = []
    for number in range(draw(st.integers(1, tasks))):
        status = STATUS_OF[draw(STATUSES)]
        has_node = status.holds or status is TaskStatus.RESERVED
        made.append(
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                group=draw(st.sampled_from(leaves)),
                status=status,
                node_name=f"n{draw(st.integers(1, nodes))}" if has_node else None,
                resreq=Resource(milli_cpu=1000 * draw(st.sampled_from([1, 1, 1, 2]))),
                priority=draw(st.sampled_from([1, 1, 1, 2])),
            )
        )
    job = JobInfo(
        name=name,
        queue=draw(st.sampled_from(["a", "b"])),
        priority=draw(st.sampled_from([0, 0, 1])),
        min_available=draw(st.sampled_from([0, 1, 1, 2, 4])),
        groups=groups,
        min_groups=min_groups,
        tasks=made,
    )
    if kind == "plain" or (kind == "groups" and draw(st.booleans())):
        return job
    floor = max(job.min_available, sum(group.min or 0 for group in groups))
    return evolve(job, max_available=floor + draw(st.integers(0, 2)))


@st.composite
def elastic_worlds(draw: st.DrawFn, tasks: int = 6) -> Snapshot:
    """A cluster where what runs fits, and a little more."""
    jobs = [
        draw(elastic_jobs(f"j{number}", tasks=tasks)) for number in range(draw(st.integers(1, 4)))
    ]
    nodes = []
    for name in ("n1", "n2"):
        held = sum(
            task.resreq.milli_cpu
            for job in jobs
            for task in job.tasks
            if task.node_name == name and task.status.holds
        )
        spare = 1000 * draw(st.sampled_from([0, 0, 1, 2, 4]))
        nodes.append(NodeInfo(name=name, allocatable=Resource(milli_cpu=held + spare)))
    return Snapshot(nodes=nodes, jobs=jobs, queues=[Queue(name="a"), Queue(name="b")], now=9)
