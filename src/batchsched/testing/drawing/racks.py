"""Racks and blocks of nodes, and jobs and groups that ask to be in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest
from batchsched.testing.drawing.pools import JobDraft

_REQUESTS = (
    TopologyRequest("net", required="rack"),
    TopologyRequest("net", preferred="rack"),
    None,
    TopologyRequest("net", required="block", preferred="rack"),
    TopologyRequest("net", required="block", segments=[Segment(2, "rack")]),
    TopologyRequest(required="rack"),
    TopologyRequest("rails", required="rail"),
    TopologyRequest("net", preferred="rack", balanced=True, segments=[Segment(2, "rack")]),
)

_BY_LABEL = (
    TopologyRequest(required="rack"),
    TopologyRequest(required="block"),
    *(None,) * 14,
)
"""Requests that need no topology in the snapshot; most jobs have none."""


def rack_labels(draft: bytes) -> Mapping[str, str]:
    """Return where a node stands; a few lack a label."""
    labels: dict[str, str] = {}
    if draft[0] % 9 != 8:
        labels["block"] = f"b{draft[0] % 2}"
    if draft[-1] % 9 != 8:
        labels["rack"] = f"r{draft[-1] % 2}"
    return labels


def asks_by_label(job: JobInfo, draft: JobDraft) -> JobInfo:
    """Return a job that may ask to be in one of the domains which a label makes."""
    own, _ = draft
    request = _BY_LABEL[own[0] % len(_BY_LABEL)]
    return job if request is None else evolve(job, topology=request)


def in_racks(
    nodes: Sequence[NodeInfo],
    node_drafts: Sequence[bytes],
    jobs: Sequence[JobInfo],
    job_drafts: Sequence[JobDraft],
) -> tuple[list[NodeInfo], list[JobInfo], list[Topology]]:
    """Return nodes in blocks and racks, and jobs and groups of which some ask for these.

    The domains of the topology ``rails`` are listed, and overlap. Some tasks have numbers, as if
    others of their job had gone.
    """
    placed = [
        evolve(node, labels={**node.labels, **rack_labels(draft)})
        for node, draft in zip(nodes, node_drafts, strict=False)
    ]
    asking: list[JobInfo] = []
    for drawn, (own, _) in zip(jobs, job_drafts, strict=False):
        request = _REQUESTS[own[0] % len(_REQUESTS)]
        is_numbered = own[3] % 4 == 3
        job = evolve(drawn, tasks=_numbered(drawn.tasks, own[4])) if is_numbered else drawn
        if job.groups:
            tops = [group for group in job.groups if group.parent is None]
            of_group = _REQUESTS[own[1] % len(_REQUESTS)]
            asks = evolve(tops[0], topology=of_group)
            groups = [asks if group is tops[0] else group for group in job.groups]
            outer = TopologyRequest("net", required="block") if own[0] % 2 else None
            asking.append(evolve(job, groups=groups, topology=outer))
        else:
            asking.append(evolve(job, topology=request))
    names = [node.name for node in placed]
    rails = [Domain("rail", "b", names[1:]), Domain("rail", "a", names[:2])]
    return placed, asking, [Topology("net", ["block", "rack"]), Topology("rails", ["rail"], rails)]


def _numbered(tasks: Sequence[TaskInfo], draft: int) -> list[TaskInfo]:
    """Return tasks with numbers; one, or none, has gone before one of them."""
    gap = draft % (len(tasks) + 1)
    return [evolve(task, index=place + (place >= gap)) for place, task in enumerate(tasks)]
