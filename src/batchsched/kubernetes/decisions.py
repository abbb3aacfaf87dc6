"""From decisions to the objects that carry them out in Kubernetes."""

from __future__ import annotations

from batchsched.errors import UnknownNameError
from batchsched.kubernetes.names import BACKFILL
from batchsched.model import TaskInfo
from batchsched.result import CycleResult
from batchsched.snapshot import Snapshot

__all__ = ["binding_objects", "eviction_objects"]


def binding_objects(result: CycleResult, snapshot: Snapshot, /) -> list[dict[str, object]]:
    """Return a v1 Binding for every bind of `result`, in its order. O(size of the snapshot).

    Kubernetes copies the annotations of a binding to the pod, so that a pod which was bound as
    backfill is marked as such in the next snapshot. It refuses a binding whose UID is not the
    pod's, so that a pod which was replaced meanwhile is not bound.

    Raises:
        UnknownNameError: `result` was not decided on `snapshot`.

    >>> from batchsched import JobInfo, Snapshot, TaskInfo
    >>> from batchsched.result import Bind, CycleResult
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
        metadata: dict[str, object] = _metadata(task)
        if _has_own_uid(task):
            metadata["uid"] = task.uid
        if bind.is_backfill:
            metadata["annotations"] = {BACKFILL: "true"}
        bindings.append(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node_name},
            }
        )
    return bindings


def eviction_objects(result: CycleResult, snapshot: Snapshot, /) -> list[dict[str, object]]:
    """Return a policy/v1 Eviction for every eviction of `result`, in its order. O(snapshot).

    Kubernetes refuses an eviction whose precondition names another UID than the pod's.

    Raises:
        UnknownNameError: `result` was not decided on `snapshot`.

    """
    tasks = _tasks_by_uid(snapshot)
    evictions: list[dict[str, object]] = []
    for eviction in result.evictions:
        task = _task(tasks, eviction.task_uid)
        body: dict[str, object] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": _metadata(task),
        }
        if _has_own_uid(task):
            body["deleteOptions"] = {"preconditions": {"uid": task.uid}}
        evictions.append(body)
    return evictions


def _tasks_by_uid(snapshot: Snapshot) -> dict[str, TaskInfo]:
    return {task.uid: task for job in snapshot.jobs for task in job.tasks}


def _task(tasks: dict[str, TaskInfo], uid: str) -> TaskInfo:
    if uid not in tasks:
        raise UnknownNameError(f"the result names the task {uid!r}, which the snapshot has not")
    return tasks[uid]


def _metadata(task: TaskInfo) -> dict[str, object]:
    return {"name": task.name, "namespace": task.namespace}


def _has_own_uid(task: TaskInfo) -> bool:
    # A pod that was given without a UID goes by its name here, which is no UID to Kubernetes.
    return task.uid != task.full_name
