"""Reads Kubernetes objects that callers have sorted by kind, for one scheduler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast

from attrs import evolve

from batchsched.errors import Fault, KubernetesObjectError
from batchsched.kubernetes.jobs import JobBuilder, PodsByOwner, read_pod_group
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Objects,
    Reading,
    named_objects,
    seconds_of,
)
from batchsched.kubernetes.pods import (
    Namespaces,
    is_native_scalar,
    read_node,
    read_pod,
    read_priority_classes,
)
from batchsched.kubernetes.queues import QUEUE_KINDS, read_queues
from batchsched.model.cluster import NodeInfo, Queue, TaskInfo
from batchsched.model.immutable import EMPTY
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_of, is_text, shown, text_problems, truth_problems


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
    jobs: Objects = (),
    leader_worker_sets: bool = False,
    notices: list[Notice] | None = None,
    strict: bool = False,
) -> Snapshot:
    """Create a snapshot from Kubernetes objects. O(size).

    Every argument is a collection of plain mappings, or a ``List`` object with ``items``. Keys
    are the API's (``nodeName``) or the official Python client's (``node_name``); other keys are
    ignored. `batchsched.kubernetes` describes how objects become nodes, tasks, jobs and queues.

    Args:
        nodes: v1 Nodes.
        pods: v1 Pods, of all namespaces and schedulers.
        pod_groups: PodGroups of kube-batch or Volcano.
        queues: Queues of kube-batch, Volcano or KAI Scheduler, and Kueue's ClusterQueues and
            Cohorts. An object without a kind is a Queue.
        priority_classes: scheduling.k8s.io PriorityClasses, for the priorities of pod groups.
        namespaces: v1 Namespaces. Needed only if a pod's affinity selects namespaces by label.
        now: the present time: an RFC 3339 string, an aware datetime, or seconds since 1970. None:
            the latest time that any object has as its creation time or as a node's report.
        scheduler_name: the ``spec.schedulerName`` of pods that are to be scheduled.
        default_queue: the queue of jobs that name none. If a job uses it and it is not given, it
            is added with a weight of 1.
        jobs: batch/v1 Jobs. The pods of such a Job that are in no pod group become one job, whose
            pods start one by one: at most ``spec.parallelism`` of them, and no more than are
            missing for ``spec.completions``. Each pod of another Job becomes a separate job.
        leader_worker_sets: whether pods that have the labels of a LeaderWorkerSet and are in no
            pod group become one job, in which each replica starts as a whole.
        notices: a list to which a `Notice` is added for everything that is not supported, such as
            fields that affect other schedulers, or a pod on a node that is not given.
            `read_objects` returns them instead.
        strict: whether everything that would give a notice is a fault.

    Raises:
        KubernetesObjectError: objects cannot be read or, with `strict`, have something that is
            not supported; it lists every fault.
        SnapshotError: the objects contradict each other, such as two pods with one UID; it
            lists every fault.

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
    given: object = notices
    if given is not None and not is_of(given, list):
        message = f"expected a list to add notices to, or None, got {shown(given)}"
        raise KubernetesObjectError.at("notices", message)
    snapshot, found = read_objects(
        nodes=nodes,
        pods=pods,
        pod_groups=pod_groups,
        queues=queues,
        priority_classes=priority_classes,
        namespaces=namespaces,
        now=now,
        scheduler_name=scheduler_name,
        default_queue=default_queue,
        jobs=jobs,
        leader_worker_sets=leader_worker_sets,
        strict=strict,
    )
    if notices is not None:
        notices.extend(found)
    return snapshot


def read_objects(
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
    jobs: Objects = (),
    leader_worker_sets: bool = False,
    strict: bool = False,
) -> tuple[Snapshot, tuple[Notice, ...]]:
    """Create a snapshot from Kubernetes objects; return it and a notice of what is unsupported.

    Arguments and errors are those of `snapshot_from_objects`. Notices are sorted by kind and
    field, whatever the order of the objects.

    >>> pod = {
    ...     "metadata": {"name": "p", "namespace": "team"},
    ...     "spec": {"schedulerName": "kube-batch", "preemptionPolicy": "Never"},
    ... }
    >>> snapshot, notices = read_objects(nodes=[], pods=[pod])
    >>> for notice in notices:
    ...     print(notice)
    1 x Pod spec.preemptionPolicy: ignored: preempt and reclaim may evict for pods with the \
policy Never (team/p)
    """
    reading = Reading()
    problems = [
        *text_problems("scheduler_name", scheduler_name, may_be_empty=True),
        *text_problems("default_queue", default_queue),
        *truth_problems("leader_worker_sets", leader_worker_sets),
        *truth_problems("strict", strict),
    ]
    for path, message in problems:
        reading.fault(path, message)
    if problems:
        raise KubernetesObjectError(reading.faults)
    priorities = read_priority_classes(
        named_objects(
            reading, "priority_classes", "PriorityClass", priority_classes, namespaced=False
        )
    )
    node_objects = named_objects(reading, "nodes", "Node", nodes, namespaced=False)
    node_infos = [read_node(node) for node in node_objects]
    queue_objects = named_objects(reading, "queues", QUEUE_KINDS, queues, namespaced=False)
    queue_infos = read_queues(queue_objects)
    group_objects = named_objects(reading, "pod_groups", "PodGroup", pod_groups, namespaced=True)
    groups = [(group, read_pod_group(group, priorities, default_queue)) for group in group_objects]
    pod_objects = named_objects(reading, "pods", "Pod", pods, namespaced=True)
    known_namespaces = _namespaces(reading, namespaces, {pod.namespace for pod in pod_objects})
    read_pods = [read_pod(pod, known_namespaces, priorities) for pod in pod_objects]

    by_owner = PodsByOwner(
        jobs=named_objects(reading, "jobs", "Job", jobs, namespaced=True),
        leader_worker_sets=leader_worker_sets,
        scheduler_name=scheduler_name,
        default_queue=default_queue,
    )
    made, read_pods = by_owner.find(read_pods, {group.uid for _, group in groups})
    builder = JobBuilder(
        groups=[*groups, *made],
        nodes={node.name for node in node_infos},
        priorities=priorities,
        scheduler_name=scheduler_name,
        default_queue=default_queue,
    )
    built, others = builder.build(read_pods)
    known_queues = {queue.name for queue in queue_infos}
    if default_queue not in known_queues and any(job.queue == default_queue for job in built):
        queue_infos.append(Queue(name=default_queue))
        known_queues.add(default_queue)
    for given, group in groups:
        if group.queue not in known_queues:
            given.note(
                NoticeCode.QUEUE_MISSING,
                "spec.queue",
                f"queue {group.queue!r} was not given: the job is left out of every cycle",
            )
    tasks = [task for job in built for task in job.tasks] + others
    node_infos = without_unused_scalars(node_infos, tasks)
    note_overcommitted(node_objects, node_infos, tasks)
    present = present_time(reading, now)
    if strict:
        reading.faults += [Fault(path, message) for path, message in reading.notices.each()]
    if reading.faults:
        raise KubernetesObjectError(reading.faults)
    snapshot = Snapshot(
        nodes=node_infos, jobs=built, queues=queue_infos, other_tasks=others, now=present
    )
    return snapshot, reading.notices.notices()


def _namespaces(reading: Reading, given: Objects | None, of_pods: set[str]) -> Namespaces:
    labels: dict[str, Mapping[str, str]] = dict.fromkeys(of_pods, EMPTY)
    if given is not None:
        for namespace in named_objects(reading, "namespaces", "Namespace", given, namespaced=False):
            labels[namespace.name] = namespace.metadata.text_map("labels")
    return Namespaces(labels, labels_are_known=given is not None)


def without_unused_scalars(nodes: Sequence[NodeInfo], tasks: Iterable[TaskInfo]) -> list[NodeInfo]:
    """Return the nodes without those of Kubernetes' own scalars that no pod requests.

    Every node has ephemeral storage. Where no pod requests it, it would be a dimension in which
    every queue has a share that it never uses up.
    """
    requested = {name for task in tasks for name in task.start_request.scalars}
    return [_with_scalars(node, requested) for node in nodes]


def _with_scalars(node: NodeInfo, requested: Collection[str]) -> NodeInfo:
    scalars = node.allocatable.scalars
    kept = {
        name: amount
        for name, amount in scalars.items()
        if name in requested or not is_native_scalar(name)
    }
    if len(kept) == len(scalars):
        return node
    return evolve(node, allocatable=evolve(node.allocatable, scalars=kept))


def note_overcommitted(
    objects: Sequence[KubernetesObject], nodes: Sequence[NodeInfo], tasks: Iterable[TaskInfo]
) -> None:
    """Record a notice of each node whose pods hold more than it has."""
    held: defaultdict[str, list[Resource]] = defaultdict(list)
    for task in tasks:
        if task.status.holds and task.node_name is not None:
            held[task.node_name].append(task.resreq)
    for given, node in zip(objects, nodes, strict=True):
        use = sum_resources(held.get(node.name, ()))
        for name, amount in use.dimensions():
            if amount > node.allocatable.get(name):
                given.note(
                    NoticeCode.NODE_OVERCOMMITTED,
                    f"status.allocatable[{name!r}]",
                    "its pods hold more than it has: it accepts no pods that request it",
                )


def present_time(reading: Reading, now: object) -> float:
    """Return the present time in seconds: as given, or the latest in any object."""
    if now is None:
        return reading.latest or 0.0
    if is_text(now) or is_of(now, datetime):
        try:
            return seconds_of(now)
        except Exception as error:  # a string or a datetime of a class of its own may raise
            reading.fault("now", str(error))
    elif type(now) not in (int, float):
        reading.fault(
            "now", f"expected a time, got {shown(now)}; use RFC 3339, a datetime or seconds"
        )
    else:
        return cast("float", now)
    return 0.0
