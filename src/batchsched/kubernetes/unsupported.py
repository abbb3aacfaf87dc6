"""Fields that affect other schedulers and are not supported here, and the consequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from batchsched.kubernetes.objects import (
    KubernetesObject,
    is_mapping,
    look_up,
    mappings_in,
    names_of,
)
from batchsched.model.notice import NoticeCode


def _is_given(value: object) -> bool:
    return value is not None and value not in ("", [], (), {})


def _is_never(value: object) -> bool:
    return value == "Never"


_PLACED_VOLUMES = (
    *("persistentVolumeClaim", "ephemeral", "csi", "awsElasticBlockStore", "azureDisk"),
    *("cinder", "gcePersistentDisk", "iscsi", "rbd"),
)
"""Kinds of volumes that only some nodes can mount, unlike configMap or emptyDir."""


def _has_placed_volume(volumes: object) -> bool:
    return any(
        look_up(volume, key) is not None
        for volume in mappings_in(volumes)
        for key in _PLACED_VOLUMES
    )


@frozen
class _UnsupportedField:
    """A field that is not supported."""

    path: tuple[str, ...]
    """The keys that lead to it."""
    consequence: str
    matters: Callable[[object], bool] = _is_given
    """Returns whether a value of the field would have an effect."""

    @property
    def text(self) -> str:
        """The path as a string: ``spec.volumes``, ``metadata.annotations['a/b']``."""
        first, *rest = self.path
        return first + "".join(f"[{key!r}]" if "/" in key else f".{key}" for key in rest)


def _field(
    path: str, consequence: str, matters: Callable[[object], bool] = _is_given
) -> _UnsupportedField:
    return _UnsupportedField(tuple(path.split(".")), consequence, matters)


def _annotation(name: str, consequence: str) -> _UnsupportedField:
    return _UnsupportedField(("metadata", "annotations", name), consequence)


_OF_KUBERNETES = (
    _field(
        "spec.preemptionPolicy",
        "ignored: preempt and reclaim may evict for groups with the policy Never",
        _is_never,
    ),
    _field(
        "spec.disruptionMode",
        "ignored: pods of the group may be evicted one by one",
        # In 1.36 a name, in 1.37 a mapping.
        lambda value: value in ("all", "PodGroup") or look_up(value, "all") is not None,
    ),
)

_OF_DISRUPTION = tuple(
    _annotation(f"volcano.sh/{name}", "ignored: only plugins decide which tasks may be evicted")
    for name in ("jdb-min-available", "jdb-max-unavailable", "cooldown-time")
)

_UNSUPPORTED: Mapping[str, tuple[_UnsupportedField, ...]] = {
    "Pod": (
        _field(
            "spec.topologySpreadConstraints", "ignored: pods are not spread over topology domains"
        ),
        _field(
            "spec.volumes",
            "ignored: pods may be placed on nodes that cannot mount their volumes",
            _has_placed_volume,
        ),
        _field(
            "spec.preemptionPolicy",
            "ignored: preempt and reclaim may evict for pods with the policy Never",
            _is_never,
        ),
        _annotation(
            "volcano.sh/preemptable", "ignored: only plugins decide which tasks may be evicted"
        ),
        _annotation("volcano.sh/revocable-zone", "ignored: all nodes count as permanent"),
        _annotation("volcano.sh/numa-topology-policy", "ignored: nodes are not split by NUMA zone"),
        _annotation(
            "scheduling.volcano.sh/queue-name", "ignored: only pod groups name queues here"
        ),
        *_OF_DISRUPTION,
    ),
    "PodGroup": (
        _annotation(
            "volcano.sh/preemptable", "ignored: only plugins decide which tasks may be evicted"
        ),
        _annotation("volcano.sh/revocable-zone", "ignored: all nodes count as permanent"),
        _annotation("volcano.sh/numa-topology-policy", "ignored: nodes are not split by NUMA zone"),
        *_OF_DISRUPTION,
    ),
    "PodGroup (Kubernetes)": _OF_KUBERNETES,
    "CompositePodGroup (Kubernetes)": _OF_KUBERNETES,
    "PodGroup (KAI Scheduler)": (
        _field("spec.preemptionDelay", "ignored: the group may evict others at once"),
        _field(
            "spec.stalenessGracePeriod",
            "ignored: a group below its minimum is not evicted for that",
        ),
    ),
    "Workload (Kueue)": (),
    "Queue": (
        _field("spec.capability.pods", "ignored: pods are not counted"),
        _field("spec.affinity", "ignored: the queue may use all nodes"),
        _field(
            "spec.dequeueStrategy",
            "ignored: jobs behind one that cannot be placed are tried too",
            lambda value: value == "fifo",
        ),
    ),
    "Queue (KAI Scheduler)": (),
    "ClusterQueue": (
        _field("spec.namespaceSelector", "ignored: groups of all namespaces may use the queue"),
        _field(
            "spec.queueingStrategy",
            "ignored: jobs behind one that cannot be placed are tried too",
            lambda value: value == "StrictFIFO",
        ),
        _field("spec.preemption", "ignored: only plugins decide which tasks may be evicted"),
        _field("spec.flavorFungibility", "ignored: flavors are not distinguished"),
        _field("spec.admissionChecks", "ignored: jobs do not wait for admission checks"),
        _field("spec.admissionChecksStrategy", "ignored: jobs do not wait for admission checks"),
        _field("spec.admissionScope", "ignored: past use does not order the jobs of the queue"),
    ),
    "ClusterQueue (admitted by Kueue)": (
        _field("spec.preemption", "ignored: only plugins decide which tasks may be evicted"),
    ),
    "Cohort": (),
}
"""The fields that give a notice, by kind."""


@frozen
class _OfOneMapping:
    """The unsupported fields in one mapping of an object."""

    path: tuple[str, ...]
    fields: tuple[_UnsupportedField, ...]
    names: frozenset[str]
    """Their keys, in both notations."""


def _by_parent(fields: Sequence[_UnsupportedField]) -> tuple[_OfOneMapping, ...]:
    paths = dict.fromkeys(each.path[:-1] for each in fields)
    own = {path: tuple(each for each in fields if each.path[:-1] == path) for path in paths}
    return tuple(
        _OfOneMapping(
            path, below, frozenset(key for each in below for key in names_of(each.path[-1]))
        )
        for path, below in own.items()
    )


# Most objects set none of them: then each mapping is looked at once.
_BY_PARENT = {kind: _by_parent(fields) for kind, fields in _UNSUPPORTED.items()}


def note_unsupported(given: KubernetesObject, kind: str | None = None, /) -> None:
    """Record a notice of every unsupported field that an object sets. O(fields)."""
    for of_one in _BY_PARENT[kind or given.kind]:
        parent: object = given.reader.content
        for key in of_one.path:
            parent = look_up(parent, key)
        if not is_mapping(parent) or of_one.names.isdisjoint(parent):
            continue
        for unsupported in of_one.fields:
            found = look_up(parent, unsupported.path[-1])
            if found is not None and unsupported.matters(found):
                given.note(NoticeCode.FIELD_IGNORED, unsupported.text, unsupported.consequence)
