"""Build snapshots from drafts."""

from __future__ import annotations

from itertools import islice

from attrs import evolve

from batchsched.model.cluster import JobInfo, TaskInfo
from batchsched.model.snapshot import Snapshot
from batchsched.testing.drafts.features import Features, now_of, numbered
from batchsched.testing.drafts.jobs import JobDraft, build_job
from batchsched.testing.drafts.nodes import NodeDraft, build_node, shrunk
from batchsched.testing.drafts.queues import QueueDraft, build_queues, leaves
from batchsched.testing.drafts.rooms import Rooms
from batchsched.testing.drafts.shapes import SIMPLE, ShapeDraft, shape_of
from batchsched.testing.drafts.tasks import TaskDraft, build_task

__all__ = ["SnapshotDraft", "build_snapshot"]

SnapshotDraft = tuple[
    list[NodeDraft], list[QueueDraft], list[ShapeDraft], list[JobDraft], list[TaskDraft]
]
"""Nodes, queues, shapes, jobs, tasks without a job."""


def build_snapshot(draft: SnapshotDraft, features: Features) -> Snapshot:
    """Return the snapshot that a draft describes."""
    node_drafts, queue_drafts, shape_drafts, job_drafts, other_drafts = draft
    nodes = [
        build_node(node, name, features)
        for node, name in zip(node_drafts, numbered("n"), strict=False)
    ]
    if not features.queues:
        queue_drafts = list(islice(queue_drafts, 1))
    queues = build_queues(queue_drafts, features)
    shapes = [shape_of(shape, features) for shape in shape_drafts] or [SIMPLE]
    rooms = Rooms(nodes)
    if not nodes:
        features = evolve(features, running=False)
    names = leaves(queues) or ["unknown"]
    jobs: list[JobInfo] = []
    for job, name in zip(job_drafts, numbered("j"), strict=False):
        jobs.append(
            build_job(job, name, features, queues=names, shapes=shapes, rooms=rooms, earlier=jobs)
        )
    others: list[TaskInfo] = []
    if features.other_tasks:
        plain = evolve(features, reservations=False, promises=False)
        others = [
            build_task(task, f"other-{number}", plain, shapes=shapes, rooms=rooms)
            for number, task in enumerate(other_drafts, start=1)
        ]
    if features.overcommitted:
        nodes = [shrunk(node, draft) for node, draft in zip(nodes, node_drafts, strict=True)]
    return Snapshot(
        nodes=nodes,
        queues=queues,
        jobs=jobs,
        other_tasks=others,
        now=now_of(features),
    )
