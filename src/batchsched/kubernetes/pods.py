"""Reads pods."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from batchsched.kubernetes.affinity import Namespaces, read_node_affinity, read_pod_affinity
from batchsched.kubernetes.groups import PriorityClasses
from batchsched.kubernetes.names import BACKFILL, GROUP_NAMES, RESERVED_NODE, ROLE_NAMES
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.requests import Containers, read_containers, read_pod_request
from batchsched.kubernetes.timing import pod_estimate, read_attained
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.constraints import (
    ANY_ADDRESS,
    HostPort,
    TaintEffect,
    Toleration,
    TolerationOperator,
)

__all__ = ["Pod", "read_pod"]

_PRIORITY = 1
"""The priority of a task whose pod has none."""
_ENDED = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED}


@frozen
class Pod:
    """A pod as a task, with its group and role."""

    object: KubernetesObject
    task: TaskInfo
    group: str
    """The name of its PodGroup, in the same namespace; empty if it names none."""
    group_key: str
    """The annotation that names the group."""
    role: str
    """Its role in its PodGroup; empty if it names none."""
    scheduler_name: str
    own_priority: int
    """The priority in its spec, or the default of priority classes, or 0."""
    is_gated: bool
    """Whether it has scheduling gates and is not scheduled yet."""
    has_priority: bool
    """Whether its spec has a priority, as that of every pod that Kubernetes admitted."""

    def has_unknown_class(self, priorities: PriorityClasses, /) -> bool:
        """Return whether its priority depends on a class that was not given."""
        name = self.task.priority_class_name
        return not self.has_priority and bool(name) and name not in priorities.values


def read_pod(pod: KubernetesObject, namespaces: Namespaces, priorities: PriorityClasses, /) -> Pod:
    """Return a v1 Pod as a task, with its group and role."""
    reading = pod.reader.reading
    metadata, spec = pod.metadata, pod.reader.child("spec")
    annotations = metadata.text_map("annotations")
    group_key = next((key for key in GROUP_NAMES if annotations.get(key)), "")
    status, node_name = _status_and_node(pod, spec, annotations.get(RESERVED_NODE, ""))
    containers = read_containers(spec)
    request = read_pod_request(spec, containers, reading)
    affinity = spec.optional_child("affinity")
    class_name = spec.text("priorityClassName")
    has_priority = spec.get("priority") is not None
    if has_priority:
        # In a pod that Kubernetes admitted, this is the value of its priority class.
        priority = own_priority = spec.integer("priority", default=_PRIORITY)
    else:
        known = priorities.values.get(class_name, priorities.default)
        priority, own_priority = (_PRIORITY, 0) if known is None else (known, known)
    task = TaskInfo(
        uid=metadata.text("uid") or pod.full_name,
        name=pod.name,
        namespace=pod.namespace,
        status=status,
        node_name=node_name,
        resreq=request.resreq,
        init_resreq=request.init_resreq,
        scoring_request=request.scoring_request,
        priority=priority,
        priority_class_name=class_name,
        creation_time=pod.creation_time(),
        is_backfill=annotations.get(BACKFILL) == "true",
        labels=metadata.text_map("labels"),
        node_selector=spec.text_map("nodeSelector"),
        node_affinity=None if affinity is None else reading.shared(read_node_affinity(affinity)),
        tolerations=reading.shared(tuple(_tolerations(spec))),
        host_ports=reading.shared(tuple(_host_ports(spec, containers))),
        pod_affinity=None
        if affinity is None
        else reading.shared(read_pod_affinity(affinity, "podAffinity", namespaces)),
        pod_anti_affinity=None
        if affinity is None
        else reading.shared(read_pod_affinity(affinity, "podAntiAffinity", namespaces)),
        start_time=pod.reader.child("status").time("startTime") if status.holds else None,
        estimate=pod_estimate(pod),
        attained_service=read_attained(pod),
    )
    return Pod(
        object=pod,
        task=task,
        group=annotations[group_key] if group_key else "",
        group_key=group_key,
        role=next(
            (
                texts[key]
                for key in ROLE_NAMES
                for texts in (annotations, task.labels)
                if texts.get(key)
            ),
            "",
        ),
        scheduler_name=spec.text("schedulerName"),
        own_priority=own_priority,
        has_priority=has_priority,
        is_gated=any(True for _ in spec.children("schedulingGates")),
    )


def _status_and_node(
    pod: KubernetesObject, spec: Reader, reserved_node: str
) -> tuple[TaskStatus, str | None]:
    pod_status = pod.reader.child("status")
    phase = pod_status.text("phase") or "Pending"
    # This is the end of the grace period, which may be in the future: not a bound of the present.
    is_deleted = pod.metadata.time("deletionTimestamp", is_past=False) is not None
    node_name = spec.text("nodeName") or None
    if phase in _ENDED:
        return _ENDED[phase], None
    if phase not in ("Pending", "Running"):
        return TaskStatus.UNKNOWN, node_name
    if is_deleted:
        return TaskStatus.RELEASING, node_name
    if phase == "Running":
        return TaskStatus.RUNNING, node_name
    if node_name is not None:
        return TaskStatus.BOUND, node_name
    if reserved_node:
        return TaskStatus.RESERVED, reserved_node
    nominated_node = pod_status.text("nominatedNodeName")
    if nominated_node:
        return TaskStatus.PIPELINED, nominated_node
    return TaskStatus.PENDING, None


def _tolerations(spec: Reader) -> Iterator[Toleration]:
    for toleration in spec.children("tolerations"):
        operator = toleration.member(
            "operator", TolerationOperator, default=TolerationOperator.EQUAL
        )
        if operator is not None:
            yield Toleration(
                key=toleration.text("key"),
                operator=operator,
                value=toleration.text("value"),
                effect=toleration.member("effect", TaintEffect),
            )


def _host_ports(spec: Reader, containers: Containers) -> Iterator[HostPort]:
    on_host_network = spec.truth("hostNetwork")
    for container in containers.running():
        for port in container.children("ports"):
            number = port.integer("hostPort", default=0)
            if not number and on_host_network:
                number = port.integer("containerPort", default=0)
            if number:
                yield HostPort(
                    port=number,
                    protocol=port.text("protocol") or "TCP",
                    address=port.text("hostIP") or ANY_ADDRESS,
                )
