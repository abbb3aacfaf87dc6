"""Fields that affect other schedulers and are not supported here, and the consequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from batchsched.kubernetes.objects import KubernetesObject, look_up, mappings_in
from batchsched.model.immutable import EMPTY


def _is_given(value: object) -> bool:
    return value is not None and value not in ("", [], (), {})


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
class _Unsupported:
    """The fields of one mapping of an object that are not supported."""

    path: str
    """The mapping, such as ``spec`` or ``metadata.annotations``."""
    consequences: Mapping[str, str]
    """What it means that a field is ignored, by its key."""
    matters: Mapping[str, Callable[[object], bool]] = EMPTY
    """Whether a value of a field would have an effect; of others any value has."""


_BY_PLUGINS = "only plugins decide which tasks may be evicted"
_TRIED_TOO = "jobs behind one that cannot be placed are tried too"
_NO_CHECKS = "jobs do not wait for admission checks"
_OF_ALL = {
    "volcano.sh/cooldown-time": "minimum runtimes are those of queues",
    "volcano.sh/revocable-zone": "all nodes count as permanent",
    "volcano.sh/numa-topology-policy": "nodes are not split by NUMA zone",
}
"""Annotations of pods and groups."""
_UNSUPPORTED: Mapping[str, tuple[_Unsupported, ...]] = {
    "Pod": (
        _Unsupported(
            "spec",
            {
                "topologySpreadConstraints": "pods are not spread over topology domains",
                "volumes": "pods may be placed on nodes that cannot mount their volumes",
            },
            {"volumes": _has_placed_volume},
        ),
        _Unsupported(
            "metadata.annotations",
            {**_OF_ALL, "scheduling.volcano.sh/queue-name": "only pod groups name queues here"},
        ),
    ),
    "PodGroup": (_Unsupported("metadata.annotations", _OF_ALL),),
    "PodGroup (KAI Scheduler)": (
        _Unsupported(
            "spec",
            {
                "stalenessGracePeriod": "a group below its minimum is not evicted for that",
            },
        ),
    ),
    "Queue": (
        _Unsupported(
            "spec",
            {"affinity": "the queue may use all nodes", "dequeueStrategy": _TRIED_TOO},
            {"dequeueStrategy": lambda value: value == "fifo"},
        ),
    ),
    "ClusterQueue": (
        _Unsupported(
            "spec",
            {
                "namespaceSelector": "groups of all namespaces may use the queue",
                "queueingStrategy": _TRIED_TOO,
                "preemption": _BY_PLUGINS,
                "flavorFungibility": "flavors are not distinguished",
                "admissionChecks": _NO_CHECKS,
                "admissionChecksStrategy": _NO_CHECKS,
                "admissionScope": "past use does not order the jobs of the queue",
            },
            {"queueingStrategy": lambda value: value == "StrictFIFO"},
        ),
    ),
    "ClusterQueue (admitted by Kueue)": (_Unsupported("spec", {"preemption": _BY_PLUGINS}),),
}
"""The fields that give a notice, by kind."""


def note_unsupported(given: KubernetesObject, kind: str | None = None, /) -> None:
    """Record a notice of every unsupported field that an object sets. O(fields)."""
    for unsupported in _UNSUPPORTED[kind or given.kind]:
        parent: object = given.reader.content
        for key in unsupported.path.split("."):
            parent = look_up(parent, key)
        for key, consequence in unsupported.consequences.items() if parent else ():
            found = look_up(parent, key)
            if found is not None and unsupported.matters.get(key, _is_given)(found):
                path = f"{unsupported.path}[{key!r}]" if "/" in key else f"{unsupported.path}.{key}"
                given.ignore(path, consequence)
