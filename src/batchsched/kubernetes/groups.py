"""Pod groups, queues and priority classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from batchsched.kubernetes.objects import KubernetesObject
from batchsched.model.cluster import JobInfo, Queue

__all__ = ["read_pod_group", "read_priority_classes", "read_queue"]


def read_queue(queue: KubernetesObject, /) -> Queue:
    """Return a Queue as the model has it; a queue that names no weight has the weight 1."""
    return Queue(
        name=queue.name,
        weight=queue.reader.child("spec").integer("weight", default=1),
        creation_time=queue.creation_time(),
    )


def read_priority_classes(classes: Iterable[KubernetesObject], /) -> Mapping[str, int]:
    """Return the name and value of every PriorityClass."""
    values: dict[str, int] = {}
    for priority_class in classes:
        priority_class.creation_time()  # not kept, but it tells something about the present time
        values[priority_class.name] = priority_class.reader.integer("value")
    return values


def read_pod_group(
    group: KubernetesObject, priorities: Mapping[str, int], default_queue: str, /
) -> JobInfo:
    """Return a PodGroup as the model has it, without tasks."""
    spec = group.reader.child("spec")
    return JobInfo(
        name=group.name,
        namespace=group.namespace,
        queue=spec.text("queue") or default_queue,
        # The API leaves a 0 out when it writes an object.
        min_available=spec.integer("minMember", default=0),
        priority=priorities.get(spec.text("priorityClassName"), 0),
        creation_time=group.creation_time(),
    )
