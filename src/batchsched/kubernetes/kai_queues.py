"""Queues of KAI Scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from batchsched.errors import QuantityError
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.quantities import parse_quantity
from batchsched.kubernetes.queue_draft import QueueDraft
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Queue
from batchsched.model.notice import NoticeCode
from batchsched.model.validation.values import shown

__all__ = ["is_kai_queue", "read_kai_queue"]

_GROUP = "scheduling.run.ai/"
_UNITS: Mapping[str, tuple[str, int]] = {
    "cpu": ("cpu", 1),  # thousandths of a cpu
    "memory": ("memory", 1_000_000),  # megabytes
    "gpu": ("nvidia.com/gpu", 1000),  # devices
}
_DEFAULT_PRIORITY = 100
_UNLIMITED = -1


def is_kai_queue(given: KubernetesObject, /) -> bool:
    """Return whether a Queue is KAI Scheduler's, by its API group or else by its fields."""
    version = given.reader.get("apiVersion")
    if isinstance(version, str) and version:
        return version.startswith(_GROUP)
    spec = given.reader.child("spec")
    return spec.get("parentQueue") is not None or spec.get("resources") is not None


def read_kai_queue(given: KubernetesObject, /) -> QueueDraft:
    """Return a queue with quota, limit and weight.

    A missing quota or limit is 0; -1 means unlimited. With a limit below the quota the queue may
    use its quota and no more, as KAI Scheduler's documentation says of a limit of 0.
    """
    note_unsupported(given, "Queue (KAI Scheduler)")
    spec = given.reader.child("spec")
    resources = spec.child("resources")
    quotas: dict[str, int] = {}
    limits: dict[str, int] = {}
    guarantees: dict[str, int] = {}
    weights: dict[str, Fraction] = {}
    unlimited: list[str] = []
    for key, (name, unit) in _UNITS.items():
        resource = resources.child(key)
        quota = _number(resource, "quota", 0)
        limit = _number(resource, "limit", 0)
        if quota == _UNLIMITED:
            unlimited.append(name)
        else:
            quotas[name] = ceil(quota * unit)
            if limit != _UNLIMITED:
                most: Fraction = max(limit, quota)
                limits[name] = ceil(most * unit)
            if resource.get("lendingLimit") is not None:
                lent = _number(resource, "lendingLimit", 0)
                guarantees[name] = max(0, ceil((quota - lent) * unit))
        weights[key] = _number(resource, "overQuotaWeight", 0)
    weight = weights["gpu"] or max(weights.values())
    if len({w for w in weights.values() if w}) > 1:
        given.note(
            NoticeCode.FIELD_IGNORED,
            "spec.resources",
            "a queue has one weight here: overQuotaWeight of gpu is used, or else the largest",
        )
    queue = Queue(
        name=given.name,
        creation_time=given.creation_time(),
        parent=spec.text("parentQueue") or None,
        priority=spec.integer("priority", default=_DEFAULT_PRIORITY),
    )
    return QueueDraft.of(
        given,
        queue,
        weight=weight,
        guarantee=guarantees,
        deserved=quotas,
        limit=limits,
        unlimited=frozenset(unlimited),
    )


def _number(resource: Reader, key: str, default: int) -> Fraction:
    """Return a number of 0 or more, or -1 where that means unlimited."""
    given = resource.get(key)
    if given is None:
        return Fraction(default)
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        try:
            number = parse_quantity(given)
        except QuantityError:
            number = Fraction(-2)
        if number >= 0 or (number == _UNLIMITED and key in ("quota", "limit")):
            return number
    resource.fault(f".{key}", f"expected a number of 0 or more, or -1, got {shown(given)}")
    return Fraction(default)
