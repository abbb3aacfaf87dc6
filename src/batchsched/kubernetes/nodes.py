"""Reads nodes."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.requests import read_allocatable
from batchsched.model.cluster import NodeInfo
from batchsched.model.constraints import Taint, TaintEffect
from batchsched.model.immutable import FrozenMap

__all__ = ["read_node"]


def read_node(node: KubernetesObject, /) -> NodeInfo:
    """Return a v1 Node as a `NodeInfo`."""
    node.creation_time()  # not stored, but it is a lower bound of the present time
    spec = node.reader.child("spec")
    status = node.reader.child("status")
    allocatable, max_tasks = read_allocatable(status)
    return NodeInfo(
        name=node.name,
        allocatable=allocatable,
        max_tasks=max_tasks,
        labels=node.metadata.text_map("labels"),
        taints=tuple(_taints(spec)),
        unschedulable=spec.truth("unschedulable"),
        conditions=FrozenMap(_conditions(status)),
    )


def _taints(spec: Reader) -> Iterator[Taint]:
    for taint in spec.children("taints"):
        key, value = taint.text("key", required=True), taint.text("value")
        effect = taint.member("effect", TaintEffect, required=True)
        if effect is not None:
            yield Taint(key=key, value=value, effect=effect)


def _conditions(status: Reader) -> Iterator[tuple[str, str]]:
    for condition in status.children("conditions"):
        # Nodes report at least every few minutes, so these times are close to the present.
        condition.time("lastHeartbeatTime")
        condition.time("lastTransitionTime")
        yield condition.text("type", required=True), condition.text("status", required=True)
