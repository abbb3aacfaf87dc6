"""Topologies of drawn clusters, and what jobs ask of them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from batchsched.model.cluster import JobInfo, NodeInfo
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest
from batchsched.testing.drawing.jobs import JobDraft
from batchsched.testing.drawing.parts import NodeDraft

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


def in_racks(
    nodes: Sequence[NodeInfo],
    node_drafts: Sequence[NodeDraft],
    jobs: Sequence[JobInfo],
    job_drafts: Sequence[JobDraft],
) -> tuple[list[NodeInfo], list[JobInfo], list[Topology]]:
    """Return nodes in blocks and racks, and jobs and groups of which some ask for these.

    A few nodes lack a label. The domains of the topology ``rails`` are listed, and overlap.
    """
    placed: list[NodeInfo] = []
    for node, draft in zip(nodes, node_drafts, strict=False):
        labels = dict(node.labels)
        if draft[0] % 9 != 8:
            labels["block"] = f"b{draft[0] % 2}"
        if draft[-1] % 9 != 8:
            labels["rack"] = f"r{draft[-1] % 2}"
        placed.append(evolve(node, labels=labels))
    asking: list[JobInfo] = []
    for job, (own, _) in zip(jobs, job_drafts, strict=False):
        request = _REQUESTS[own[0] % len(_REQUESTS)]
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
