"""Planned starts, as annotations of pending pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from batchsched.errors import UnknownNameError
from batchsched.kubernetes.objects import KubernetesObject
from batchsched.model.cluster import Plan, TaskInfo
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown

__all__ = ["PLANNED_NODE", "PLANNED_START", "plan_patches", "read_plan"]

PLANNED_START = "batchsched/planned-start"
"""When a pending pod is planned to start, in seconds since 1970-01-01T00:00:00Z."""
PLANNED_NODE = "batchsched/planned-node"
"""The node on which it is planned to start."""


def plan_patches(result: CycleResult, snapshot: Snapshot, /) -> list[dict[str, object]]:
    """Return a patch for every pod whose planned start changes, in order of UID. O(snapshot).

    Patches are merge patches for the pods named in their metadata. They set the annotations that
    `snapshot_from_objects` reads as `JobInfo.plan`, so that plans persist from cycle to cycle, or
    remove them (None) from pods that are no longer planned. The pods stay Pending. Pods that were
    bound, or whose annotations are already correct, get no patch.

    Kubernetes rejects a patch whose UID differs from the pod's.

    Raises:
        UnknownNameError: `result` was not decided on `snapshot`.

    >>> from batchsched import JobInfo, Plan, TaskInfo
    >>> job = JobInfo(name="j", queue="q", tasks=[TaskInfo(uid="u1", name="p1")])
    >>> result = CycleResult(planned={job.uid: Plan(start=1410, nodes={"u1": "n1"})})
    >>> for patch in plan_patches(result, Snapshot(jobs=[job])):
    ...     print(patch["metadata"]["name"], patch["metadata"]["annotations"])
    p1 {'batchsched/planned-start': '1410', 'batchsched/planned-node': 'n1'}

    """
    tasks = {task.uid: task for job in snapshot.jobs for task in job.tasks}
    before = _places({job.uid: job.plan for job in snapshot.jobs if job.plan is not None})
    after = _places(result.planned)
    bound = {bind.task_uid for bind in result.binds}
    patches: list[dict[str, object]] = []
    for uid in sorted((before.keys() | after.keys()) - bound):
        if before.get(uid) == after.get(uid):
            continue
        if uid not in tasks:
            if uid not in after:
                continue  # The snapshot's own plan names a pod that no longer exists.
            message = f"expected a task of the snapshot, got {uid!r} in the result"
            raise UnknownNameError(message)
        start, node = after.get(uid, (None, None))
        annotations = {PLANNED_START: None if start is None else _text(start), PLANNED_NODE: node}
        metadata = {**_metadata(tasks[uid]), "annotations": annotations}
        patches.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    return patches


def _places(plans: Mapping[str, Plan]) -> dict[str, tuple[float, str]]:
    """Return the start and the node of each planned task, by its UID."""
    return {uid: (plan.start, node) for plan in plans.values() for uid, node in plan.nodes.items()}


def read_plan(pods: Iterable[tuple[KubernetesObject, TaskInfo]], /) -> Plan | None:
    """Return the plan in the annotations of a job's pending pods, or None. O(pods).

    The plan starts at the latest planned start of a pod.
    """
    starts: list[float] = []
    nodes: dict[str, str] = {}
    for pod, task in pods:
        annotations = pod.metadata.text_map("annotations")
        text, node = annotations.get(PLANNED_START, ""), annotations.get(PLANNED_NODE, "")
        if not text or not node:
            continue
        try:
            start = float(text)
        except ValueError:
            start = float("nan")
        if isfinite(start):
            starts.append(start)
            nodes[task.uid] = node
        else:
            message = f"expected a time in seconds, got {shown(text)}"
            pod.metadata.fault(f".annotations[{PLANNED_START!r}]", message)
    return Plan(start=max(starts), nodes=nodes) if starts else None


def _text(seconds: float) -> str:
    # Written exactly: rounding could make the plan infeasible.
    return repr(int(seconds)) if seconds == int(seconds) else repr(float(seconds))


def _metadata(task: TaskInfo) -> dict[str, object]:
    named: dict[str, object] = {"name": task.name, "namespace": task.namespace}
    # A pod without a UID is identified here by its name, which Kubernetes does not accept as UID.
    return named if task.uid == task.full_name else {**named, "uid": task.uid}
