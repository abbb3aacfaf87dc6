"""Fields that affect other schedulers and are not supported here, and the consequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from batchsched.kubernetes.objects import KubernetesObject, look_up, mappings_in
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
        lambda value: value == "all" or look_up(value, "all") is not None,
    ),
    _field(
        "spec.resourceClaims",
        "ignored: pods may be placed on nodes without the devices that the group claims",
    ),
)

_UNSUPPORTED: Mapping[str, tuple[_UnsupportedField, ...]] = {
    "Pod": (
        _field(
            "spec.topologySpreadConstraints", "ignored: pods are not spread over topology domains"
        ),
        _field(
            "spec.resourceClaims",
            "ignored: pods may be placed on nodes without the devices that they claim",
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
    ),
    "Pod (its own groups)": (
        _field("spec.schedulingGroup", "ignored: pods are grouped by pod groups only"),
        _field("spec.workloadRef", "ignored: pods are grouped by pod groups only"),
    ),
    "PodGroup": (
        _field("spec.networkTopology", "ignored: network topology is not considered"),
        _field("spec.subGroupPolicy", "ignored: the group starts as one gang of minMember pods"),
        _annotation(
            "volcano.sh/preemptable", "ignored: only plugins decide which tasks may be evicted"
        ),
    ),
    "PodGroup (Kubernetes)": _OF_KUBERNETES,
    "CompositePodGroup (Kubernetes)": _OF_KUBERNETES,
    "PodGroup (KAI Scheduler)": (
        _field("spec.topologyConstraint", "ignored: topology is not considered"),
        _field(
            "spec.preemptibility",
            "ignored: the group may be evicted, and may exceed the quota of its queue",
            lambda value: value == "non-preemptible",
        ),
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
    "Queue (KAI Scheduler)": (
        _field("spec.preemptMinRuntime", "ignored: tasks may be evicted however long they run"),
        _field("spec.reclaimMinRuntime", "ignored: tasks may be evicted however long they run"),
    ),
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


def note_unsupported(given: KubernetesObject, kind: str | None = None, /) -> None:
    """Record a notice of every unsupported field that an object sets. O(fields)."""
    for unsupported in _UNSUPPORTED[kind or given.kind]:
        found: object = given.reader.content
        for key in unsupported.path:
            found = look_up(found, key)
            if found is None:
                break
        if found is not None and unsupported.matters(found):
            given.note(NoticeCode.FIELD_IGNORED, unsupported.text, unsupported.consequence)
