"""Reads Kubernetes objects that callers have sorted by kind, for one scheduler."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from attrs import evolve

from batchsched.errors import KubernetesObjectError
from batchsched.kubernetes import api
from batchsched.kubernetes.dump import ObjectsReader
from batchsched.kubernetes.dump_objects import DumpObjects, named_objects
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Objects,
    Reading,
    api_group_of,
)
from batchsched.kubernetes.queues import QUEUE_KINDS, is_kai_queue
from batchsched.model.notice import Notice
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_of, shown, text_problems, truth_problems


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
    topologies: Objects = (),
    resource_slices: Objects = (),
    resource_claims: Objects = (),
    resource_claim_templates: Objects = (),
    device_classes: Objects = (),
    device_taint_rules: Objects = (),
    pod_disruption_budgets: Objects = (),
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
        pod_groups: PodGroups of kube-batch, Volcano, KAI Scheduler, coscheduling or Kubernetes; one
            without an ``apiVersion`` may be of any of the first three.
        queues: Queues of kube-batch, Volcano or KAI Scheduler, and Kueue's ClusterQueues and
            Cohorts. An object without a kind is a Queue.
        priority_classes: scheduling.k8s.io PriorityClasses, for the priorities of pod groups.
        namespaces: v1 Namespaces. Needed only if a pod's affinity selects namespaces by label.
        now: the present time: an RFC 3339 string, an aware datetime, or seconds since 1970. None:
            the latest creation time, or time of a condition or of a node's report.
        scheduler_name: the ``spec.schedulerName`` of pods that are to be scheduled.
        default_queue: the queue of jobs that name none. If a job uses it and it is not given, it
            is added with a weight of 1.
        jobs: batch/v1 Jobs. The pods of such a Job that are in no pod group become one job. Each
            pod of another Job becomes a separate job.
        leader_worker_sets: whether pods that have the labels of a LeaderWorkerSet and are in no
            pod group become one job.
        topologies: Topologies of Kueue or KAI Scheduler, and HyperNodes of Volcano.
        resource_slices: the devices of nodes, as drivers tell them.
        resource_claims: what pods claim and have of devices.
        resource_claim_templates: what pods claim that have no claim yet.
        device_classes: the classes that claims name.
        device_taint_rules: taints of devices besides those of drivers.
        pod_disruption_budgets: policy/v1 PodDisruptionBudgets: how many pods may be down.
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
        topologies=topologies,
        resource_slices=resource_slices,
        resource_claims=resource_claims,
        resource_claim_templates=resource_claim_templates,
        device_classes=device_classes,
        device_taint_rules=device_taint_rules,
        pod_disruption_budgets=pod_disruption_budgets,
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
    topologies: Objects = (),
    resource_slices: Objects = (),
    resource_claims: Objects = (),
    resource_claim_templates: Objects = (),
    device_classes: Objects = (),
    device_taint_rules: Objects = (),
    pod_disruption_budgets: Objects = (),
    strict: bool = False,
) -> tuple[Snapshot, tuple[Notice, ...]]:
    """Create a snapshot from Kubernetes objects; return it and a notice of what is unsupported.

    Arguments and errors are those of `snapshot_from_objects`. Notices are sorted by kind and
    field, whatever the order of the objects.

    >>> pod = {
    ...     "metadata": {"name": "p", "namespace": "team"},
    ...     "spec": {"schedulerName": "kube-batch", "topologySpreadConstraints": [{}]},
    ... }
    >>> snapshot, notices = read_objects(nodes=[], pods=[pod])
    >>> for notice in notices:
    ...     print(notice)
    1 x Pod spec.topologySpreadConstraints: ignored: pods are not spread over topology domains \
(team/p)
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
    templates, budgets = "resource_claim_templates", "pod_disruption_budgets"
    by_kind: defaultdict[tuple[str, str], list[KubernetesObject]] = defaultdict(list)
    for argument, kinds, group, objects in (
        ("priority_classes", "PriorityClass", api.KUBERNETES, priority_classes),
        ("nodes", "Node", "", nodes),
        ("queues", QUEUE_KINDS, api.KUBE_BATCH, queues),
        # Of Volcano too: whether its action enqueue has admitted a group, and which roles it
        # ignores, does not matter to another scheduler.
        ("pod_groups", "PodGroup", api.KUBE_BATCH, pod_groups),
        ("pods", "Pod", "", pods),
        ("namespaces", "Namespace", "", () if namespaces is None else namespaces),
        ("jobs", "Job", api.BATCH, jobs),
        ("topologies", ("Topology", "HyperNode"), api.KUEUE, topologies),
        ("resource_slices", "ResourceSlice", api.RESOURCE, resource_slices),
        ("resource_claims", "ResourceClaim", api.RESOURCE, resource_claims),
        (templates, "ResourceClaimTemplate", api.RESOURCE, resource_claim_templates),
        ("device_classes", "DeviceClass", api.RESOURCE, device_classes),
        ("device_taint_rules", "DeviceTaintRule", api.RESOURCE, device_taint_rules),
        (budgets, "PodDisruptionBudget", api.POLICY, pod_disruption_budgets),
    ):
        for one in named_objects(reading, argument, group, kinds, objects):
            its_group = _api_group(one, group)
            its = one if its_group == group else evolve(one, api_group=its_group)
            by_kind[its_group, one.kind].append(its)
    for of_kind in by_kind.values():
        of_kind.sort(key=lambda one: one.full_name)
    return ObjectsReader(
        reading,
        DumpObjects(by_kind),
        now,
        only=scheduler_name,
        default_queue=default_queue,
        leader_worker_sets=leader_worker_sets,
    ).snapshot(strict=strict)


def _api_group(given: KubernetesObject, usual: str) -> str:
    """Return the API group of an object, which may say none."""
    group = api_group_of(given.reader.content)
    if given.kind == "PodGroup" and group in (api.KAI, api.KUBERNETES, *api.COSCHEDULING):
        return group
    if given.kind in ("ClusterQueue", "Cohort"):
        return api.KUEUE
    if given.kind == "HyperNode":
        return api.HYPER_NODES
    if given.kind == "Topology":
        return group or usual
    return api.KAI if given.kind == "Queue" and is_kai_queue(given) else usual
