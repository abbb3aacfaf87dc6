"""From Kubernetes objects to a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import evolve

from batchsched.errors import KubernetesObjectError
from batchsched.kubernetes.affinity import Namespaces
from batchsched.kubernetes.groups import read_pod_group, read_priority_classes, read_queue
from batchsched.kubernetes.nodes import read_node
from batchsched.kubernetes.objects import Objects, Reading, named_objects, seconds_of
from batchsched.kubernetes.pods import Pod, read_pod
from batchsched.model.cluster import JobInfo, Queue, TaskInfo
from batchsched.model.immutable import EMPTY
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import TaskStatus
from batchsched.model.validation.values import shown

__all__ = ["snapshot_from_objects"]

_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def snapshot_from_objects(
    *,
    nodes: Objects,
    pods: Objects,
    pod_groups: Objects = (),
    queues: Objects = (),
    priority_classes: Objects = (),
    namespaces: Objects | None = None,
    now: str | datetime | float | None = None,
    scheduler_name: str = "kube-batch",
    default_queue: str = "default",
) -> Snapshot:
    """Return the snapshot that Kubernetes objects describe. O(size).

    Every argument is a collection of plain mappings, or a ``List`` object with ``items``. Keys
    are the API's (``nodeName``) or the official Python client's (``node_name``); keys that mean
    nothing here are ignored. `batchsched.kubernetes` tells how objects become nodes, tasks,
    jobs and queues.

    Args:
        nodes: v1 Nodes.
        pods: v1 Pods, of all namespaces and schedulers.
        pod_groups: PodGroups of kube-batch or Volcano.
        queues: Queues of kube-batch or Volcano.
        priority_classes: scheduling.k8s.io PriorityClasses, for the priorities of pod groups.
        namespaces: v1 Namespaces. Needed only if a pod's affinity selects namespaces by label.
        now: the present time: an RFC 3339 text, an aware datetime, or seconds since 1970. None:
            the latest time that any object tells as its creation or as a node's report.
        scheduler_name: the ``spec.schedulerName`` of pods that are to be scheduled.
        default_queue: the queue of jobs that name none. If a job draws on it and it is not
            given, it is added with the weight 1.

    Raises:
        KubernetesObjectError: anything in the objects cannot be read; it lists every fault.
        SnapshotError: the objects contradict each other, such as a pod on a node that is not
            given; it lists every fault.

    >>> snapshot = snapshot_from_objects(
    ...     nodes=[{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}],
    ...     pods=[
    ...         {
    ...             "metadata": {"name": "p", "creationTimestamp": "1970-01-01T00:01:00Z"},
    ...             "spec": {
    ...                 "schedulerName": "kube-batch",
    ...                 "containers": [{"resources": {"requests": {"cpu": "250m"}}}],
    ...             },
    ...         }
    ...     ],
    ... )
    >>> snapshot.nodes[0].allocatable, snapshot.now
    (Resource(milli_cpu=8000, memory=0), 60.0)
    >>> snapshot.jobs[0].uid, snapshot.jobs[0].queue, snapshot.jobs[0].tasks[0].resreq
    ('default/p', 'default', Resource(milli_cpu=250, memory=0))

    """
    reading = Reading()
    priorities = read_priority_classes(
        named_objects(
            reading, "priority_classes", "PriorityClass", priority_classes, namespaced=False
        )
    )
    node_infos = [
        read_node(node) for node in named_objects(reading, "nodes", "Node", nodes, namespaced=False)
    ]
    queue_infos = [
        read_queue(queue)
        for queue in named_objects(reading, "queues", "Queue", queues, namespaced=False)
    ]
    groups = [
        read_pod_group(group, priorities, default_queue)
        for group in named_objects(reading, "pod_groups", "PodGroup", pod_groups, namespaced=True)
    ]
    pod_objects = named_objects(reading, "pods", "Pod", pods, namespaced=True)
    known_namespaces = _namespaces(reading, namespaces, {pod.namespace for pod in pod_objects})
    read_pods = [read_pod(pod, known_namespaces) for pod in pod_objects]

    jobs, others = _jobs(groups, read_pods, scheduler_name, default_queue)
    present = _present(reading, now)
    if reading.faults:
        raise KubernetesObjectError(reading.faults)
    if any(job.queue == default_queue for job in jobs) and all(
        queue.name != default_queue for queue in queue_infos
    ):
        queue_infos.append(Queue(name=default_queue))
    return Snapshot(
        nodes=node_infos, jobs=jobs, queues=queue_infos, other_tasks=others, now=present
    )


def _namespaces(reading: Reading, given: Objects | None, of_pods: set[str]) -> Namespaces:
    labels: dict[str, Mapping[str, str]] = dict.fromkeys(of_pods, EMPTY)
    if given is not None:
        for namespace in named_objects(reading, "namespaces", "Namespace", given, namespaced=False):
            labels[namespace.name] = namespace.metadata.text_map("labels")
    return Namespaces(labels, labels_are_known=given is not None)


def _jobs(
    groups: Sequence[JobInfo],
    pods: Sequence[Pod],
    scheduler_name: str,
    default_queue: str,
) -> tuple[list[JobInfo], list[TaskInfo]]:
    tasks: dict[str, list[TaskInfo]] = {group.uid: [] for group in groups}
    single: list[JobInfo] = []
    others: list[TaskInfo] = []
    for pod in pods:
        task = pod.task
        if pod.group:
            members = tasks.get(f"{task.namespace}/{pod.group}")
            if members is not None:
                members.append(task)
                continue
            # Pods often outlive their group for a while: they are deleted together.
            ends = task.status is TaskStatus.RELEASING or task.status in _ENDED
            if pod.scheduler_name == scheduler_name and not ends:
                pod.object.metadata.fault(
                    f".annotations[{pod.group_key!r}]",
                    f"{pod.group!r} is no pod group that is given in namespace {task.namespace!r}",
                )
        elif pod.scheduler_name == scheduler_name:
            if task.full_name in tasks:
                pod.object.reader.fault(
                    "", "is a job of its own, as it names no group, and a pod group has its name"
                )
                continue
            single.append(_job_of(pod, default_queue))
            continue
        if task.status.holds and task.node_name is not None:
            others.append(task)
    jobs = [
        evolve(group, tasks=members) for group, members in zip(groups, tasks.values(), strict=True)
    ]
    return jobs + single, others


def _job_of(pod: Pod, queue: str) -> JobInfo:
    task = pod.task
    return JobInfo(
        name=task.name,
        namespace=task.namespace,
        queue=queue,
        min_available=1,
        priority=pod.own_priority,
        creation_time=task.creation_time,
        tasks=(task,),
    )


def _present(reading: Reading, now: object) -> float:
    if now is None:
        return reading.latest or 0.0
    if isinstance(now, (str, datetime)):
        try:
            return seconds_of(now)
        except ValueError as error:
            reading.fault("now", str(error))
    elif not isinstance(now, (int, float)) or isinstance(now, bool):
        reading.fault(
            "now", f"{shown(now)} is no time; use an RFC 3339 text, a datetime or seconds"
        )
    else:
        return now
    return 0.0
