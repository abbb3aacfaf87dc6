"""Converts decisions to the Kubernetes objects that carry them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from batchsched.errors import UnknownNameError
from batchsched.kubernetes import api
from batchsched.model.cluster import Plan, TaskInfo, TaskStatus
from batchsched.model.result import Bind, CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.transition.decisions import reservations_to_keep

PlaceT = TypeVar("PlaceT")
_SLASHES_OF_MADE = 3


@checks_arguments()
def binding_objects(result: CycleResult, snapshot: Snapshot, /) -> list[dict[str, object]]:
    """Return a v1 Binding for every bind of `result`, in the same order. O(size of the snapshot).

    Kubernetes copies the annotations of a binding to the pod, so that the next snapshot marks a
    pod that was bound as backfill. It rejects a binding whose UID differs from the pod's, so that
    a pod that was replaced in the meantime is not bound. Tasks that `read_dump` made from templates
    have no pod, and so no Binding.

    Raises:
        UnknownNameError: `result` was not decided on `snapshot`.

    >>> from batchsched import JobInfo, Snapshot, TaskInfo
    >>> from batchsched.model.result import Bind, CycleResult
    >>> job = JobInfo(name="j", queue="q", tasks=[TaskInfo(uid="u1", name="p")])
    >>> result = CycleResult(binds=(Bind(task_uid="u1", node_name="n1"),))
    >>> for binding in binding_objects(result, Snapshot(jobs=[job])):
    ...     print(binding["metadata"], binding["target"])
    {'name': 'p', 'namespace': 'default', 'uid': 'u1'} \
{'apiVersion': 'v1', 'kind': 'Node', 'name': 'n1'}

    """
    tasks = _tasks_by_uid(snapshot)
    bindings: list[dict[str, object]] = []
    for bind in result.binds:
        task = _task(tasks, bind.task_uid)
        if _was_made(task):
            continue
        metadata = _metadata(task)
        if bind.is_backfill:
            metadata["annotations"] = {api.BACKFILL: "true"}
        bindings.append(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node_name},
            }
        )
    return bindings


@checks_arguments()
def eviction_objects(result: CycleResult, snapshot: Snapshot, /) -> list[dict[str, object]]:
    """Return a policy/v1 Eviction for every eviction and move of `result`, in order. O(snapshot).

    A pod cannot move: what replaces it is another pod, which whoever makes it may nominate to the
    node in `CycleResult.moves`.
    Kubernetes rejects an eviction whose precondition has a UID that differs from the pod's.

    Raises:
        UnknownNameError: `result` was not decided on `snapshot`.

    """
    tasks = _tasks_by_uid(snapshot)
    evictions: list[dict[str, object]] = []
    for stopped in result.stopped():
        task = _task(tasks, stopped.task_uid)
        body: dict[str, object] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": task.name, "namespace": task.namespace},
        }
        if _has_own_uid(task):
            body["deleteOptions"] = {"preconditions": {"uid": task.uid}}
        evictions.append(body)
    return evictions


@checks_arguments()
def reservation_patches(result: CycleResult, snapshot: Snapshot, /) -> list[dict[str, object]]:
    """Return a patch for every pod whose reservation changes, in order of UID. O(snapshot).

    Patches are merge patches for the pods named in their metadata. They set the annotation that
    `snapshot_from_objects` reads to the reserved node, or remove it (None) from pods that were
    bound or lost their reservation. Pods whose annotation is already correct get no patch.
    `batchsched.reservations_to_keep` determines the reservations that are kept.

    Kubernetes rejects a patch whose UID differs from the pod's.

    Raises:
        UnknownNameError: `result` was not decided on `snapshot`.

    >>> from batchsched import JobInfo, Snapshot, TaskInfo
    >>> from batchsched.model.result import CycleResult, Promise
    >>> tasks = [
    ...     TaskInfo(uid="u1", name="p1"),
    ...     TaskInfo(uid="u2", name="p2", status=TaskStatus.RESERVED, node_name="n1"),
    ... ]
    >>> snapshot = Snapshot(jobs=[JobInfo(name="j", queue="q", tasks=tasks)])
    >>> result = CycleResult(reserved=(Promise(task_uid="u1", node_name="n1"),))
    >>> for patch in reservation_patches(result, snapshot):
    ...     print(patch["metadata"]["name"], patch["metadata"]["annotations"])
    p1 {'scheduling.k8s.io/kube-batch-reserved-node': 'n1'}
    p2 {'scheduling.k8s.io/kube-batch-reserved-node': None}

    """
    tasks = _tasks_by_uid(snapshot)
    before = {
        uid: task.node_name for uid, task in tasks.items() if task.status is TaskStatus.RESERVED
    }
    after = reservations_to_keep(result, snapshot)
    return [
        _annotated(metadata, {api.RESERVED_NODE: node_name})
        for metadata, node_name in _pods_to_patch(tasks, before, after)
    ]


@checks_arguments()
def nomination_patches(result: CycleResult, snapshot: Snapshot, /) -> list[dict[str, object]]:
    """Return a patch for every pod whose promise changes, in order of UID. O(snapshot).

    Patches are merge patches for the ``status`` subresource of the pods named in their metadata.
    They set ``status.nominatedNodeName`` to the node where evicted tasks make room for the pod
    (`CycleResult.kept_promises`), or remove it (None). `snapshot_from_objects` reads a nominated
    pod as Pipelined, so that no other task gets the room in the meantime. Pods that are already
    nominated to the right node get no patch, and neither do pods that were bound: Kubernetes
    clears their nomination.

    Kubernetes rejects a patch whose UID differs from the pod's.

    Raises:
        UnknownNameError: `result` was not decided on `snapshot`.

    >>> from batchsched import JobInfo, Snapshot, TaskInfo
    >>> from batchsched.model.result import CycleResult, Promise
    >>> tasks = [
    ...     TaskInfo(uid="u1", name="p1"),
    ...     TaskInfo(uid="u2", name="p2", status=TaskStatus.PIPELINED, node_name="n1"),
    ... ]
    >>> snapshot = Snapshot(jobs=[JobInfo(name="j", queue="q", tasks=tasks)])
    >>> result = CycleResult(kept_promises=(Promise(task_uid="u1", node_name="n1"),))
    >>> for patch in nomination_patches(result, snapshot):
    ...     print(patch["metadata"]["name"], patch["status"])
    p1 {'nominatedNodeName': 'n1'}
    p2 {'nominatedNodeName': None}

    """
    tasks = _tasks_by_uid(snapshot)
    before = {
        uid: task.node_name for uid, task in tasks.items() if task.status is TaskStatus.PIPELINED
    }
    moved = {move.task_uid for move in result.moves}  # these pods run, and are deleted
    promises = (promise for promise in result.kept_promises if promise.task_uid not in moved)
    after = {promise.task_uid: promise.node_name for promise in promises}
    patches: list[dict[str, object]] = []
    for metadata, node_name in _pods_to_patch(tasks, before, after, result.binds):
        status: dict[str, object] = {"nominatedNodeName": node_name}
        patches.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})
    return patches


@checks_arguments()
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
    tasks = _tasks_by_uid(snapshot)
    after = _places(result.planned)
    before = {
        uid: place
        for uid, place in _places({j.uid: j.plan for j in snapshot.jobs if j.plan}).items()
        # The snapshot's own plan may name a pod that no longer exists.
        if uid in tasks or uid in after
    }
    patches: list[dict[str, object]] = []
    for metadata, place in _pods_to_patch(tasks, before, after, result.binds):
        start, node = (None, None) if place is None else (_text(place[0]), place[1])
        annotations = {api.PLANNED_START: start, api.PLANNED_NODE: node}
        patches.append(_annotated(metadata, annotations))
    return patches


def _annotated(metadata: dict[str, object], annotations: Mapping[str, object]) -> dict[str, object]:
    """Return a patch of the annotations of a pod."""
    metadata = {**metadata, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def _pods_to_patch(
    tasks: dict[str, TaskInfo],
    before: Mapping[str, PlaceT | None],
    after: Mapping[str, PlaceT],
    bound: Iterable[Bind] = (),
) -> Iterator[tuple[dict[str, object], PlaceT | None]]:
    """Yield, in order of UID, the metadata of each pod whose place changes, and its new place.

    Pods that are bound are left out.
    """
    without = {bind.task_uid for bind in bound}
    for uid in sorted((before.keys() | after.keys()) - without):
        if uid in tasks and _was_made(tasks[uid]):
            continue
        if before.get(uid) == after.get(uid):
            continue
        task = _task(tasks, uid)
        yield _metadata(task), after.get(uid)


def _tasks_by_uid(snapshot: Snapshot) -> dict[str, TaskInfo]:
    return {task.uid: task for job in snapshot.jobs for task in job.tasks}


def _task(tasks: dict[str, TaskInfo], uid: str) -> TaskInfo:
    if uid not in tasks:
        raise UnknownNameError(f"expected a task of the snapshot, got {uid!r} in the result")
    return tasks[uid]


def _metadata(task: TaskInfo) -> dict[str, object]:
    named: dict[str, object] = {"name": task.name, "namespace": task.namespace}
    return {**named, "uid": task.uid} if _has_own_uid(task) else named


def _was_made(task: TaskInfo) -> bool:
    """Return whether `read_dump` made a task from a template: then there is no pod of it.

    Its UID is that of its job, ``namespace/name``, with the set of templates and a number.
    """
    return task.uid.count("/") >= _SLASHES_OF_MADE


def _has_own_uid(task: TaskInfo) -> bool:
    # A pod without a UID is identified here by its name, which Kubernetes does not accept as UID.
    return task.uid != task.full_name


def _places(plans: Mapping[str, Plan]) -> dict[str, tuple[float, str]]:
    """Return the start and the node of each planned task, by its UID."""
    return {uid: (plan.start, node) for plan in plans.values() for uid, node in plan.nodes.items()}


def _text(seconds: float) -> str:
    # Written exactly: rounding could make the plan infeasible.
    return repr(int(seconds)) if seconds == int(seconds) else repr(float(seconds))
