"""Sorts the objects of a dump by API group and kind, and follows their owners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from batchsched.errors import shown_problem
from batchsched.kubernetes import api
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Objects,
    Reader,
    Reading,
    api_group_of,
    is_mapping,
    is_sequence,
    look_up,
    mappings_in,
    named_objects,
    text_at,
    whole_number,
)
from batchsched.model.validation.values import is_collection, shown

_KINDS: Mapping[tuple[str, str], tuple[str, bool]] = {
    ("", "Node"): ("nodes", False),
    ("", "Pod"): ("pods", True),
    ("", "Namespace"): ("namespaces", False),
    (api.BATCH, "Job"): ("jobs.batch", True),
    (api.KUBERNETES, "PriorityClass"): ("priorityclasses", False),
    (api.KUBERNETES, "PodGroup"): ("podgroups.scheduling.k8s.io", True),
    (api.KUBERNETES, "CompositePodGroup"): ("compositepodgroups.scheduling.k8s.io", True),
    (api.KUBERNETES, "Workload"): ("workloads.scheduling.k8s.io", True),
    (api.VOLCANO, "PodGroup"): ("podgroups.scheduling.volcano.sh", True),
    (api.VOLCANO, "Queue"): ("queues.scheduling.volcano.sh", False),
    (api.VOLCANO_JOBS, "Job"): ("jobs.batch.volcano.sh", True),
    (api.KUBE_BATCH, "PodGroup"): ("podgroups.scheduling.incubator.k8s.io", True),
    (api.KUBE_BATCH, "Queue"): ("queues.scheduling.incubator.k8s.io", False),
    **{(g, "PodGroup"): (f"podgroups.{g}", True) for g in api.COSCHEDULING},
    (api.KAI, "PodGroup"): ("podgroups.scheduling.run.ai", True),
    (api.KAI, "Queue"): ("queues.scheduling.run.ai", False),
    (api.KAI, "BindRequest"): ("bindrequests.scheduling.run.ai", True),
    (api.KUEUE, "Workload"): ("workloads.kueue.x-k8s.io", True),
    (api.KUEUE, "LocalQueue"): ("localqueues.kueue.x-k8s.io", True),
    (api.KUEUE, "ClusterQueue"): ("clusterqueues.kueue.x-k8s.io", False),
    (api.KUEUE, "Cohort"): ("cohorts.kueue.x-k8s.io", False),
    (api.KUEUE, "ResourceFlavor"): ("resourceflavors.kueue.x-k8s.io", False),
    (api.KUEUE, "WorkloadPriorityClass"): ("workloadpriorityclasses.kueue.x-k8s.io", False),
    (api.KUEUE, "Topology"): ("topologies.kueue.x-k8s.io", False),
    (api.KAI_TOPOLOGIES, "Topology"): ("topologies.kai.scheduler", False),
    (api.HYPER_NODES, "HyperNode"): ("hypernodes.topology.volcano.sh", False),
    (api.RESOURCE, "ResourceSlice"): ("resourceslices.resource.k8s.io", False),
    (api.RESOURCE, "DeviceTaintRule"): ("devicetaintrules.resource.k8s.io", False),
    (api.RESOURCE, "DeviceClass"): ("deviceclasses.resource.k8s.io", False),
    (api.RESOURCE, "ResourceClaim"): ("resourceclaims.resource.k8s.io", True),
    (api.RESOURCE, "ResourceClaimTemplate"): ("resourceclaimtemplates.resource.k8s.io", True),
}
"""API group and kind to the name in paths, and whether objects have a namespace."""


_Name = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def is_namespaced(group: str, kind: str) -> bool:
    """Return whether objects of a kind have a namespace; of one that is not read, they have."""
    return _KINDS.get((group, kind), ("", True))[1]


@frozen
class Owner:
    """An owner of an object."""

    group: str
    kind: str
    name: str
    uid: str
    controls: bool

    def names(self) -> tuple[str, str, str]:
        """Return the names under which people look for what it owns."""
        kind = self.kind.lower()
        return self.name, f"{kind}/{self.name}", f"{kind}.{self.group}/{self.name}"


@frozen
class Link:
    """An object of a kind that is not read, which others own: it leads from its own to these."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    owners: tuple[Owner, ...]


class DumpObjects:
    """The objects of a dump that are read, by API group and kind, in order of name."""

    def __init__(
        self,
        by_kind: Mapping[tuple[str, str], Sequence[KubernetesObject]],
        links: Iterable[Link] = (),
    ) -> None:
        """Index objects and links by UID and by name. O(objects)."""
        self.by_kind = by_kind
        self._by_uid: dict[str, KubernetesObject] = {}
        self._by_name: dict[_Name, KubernetesObject] = {}
        self._links: dict[str | _Name, Link] = {}
        """By UID, and by name."""
        self._above: dict[tuple[str, Owner], tuple[Owner, ...]] = {}
        self._owners: dict[Reader, tuple[Owner, ...]] = {}
        for (group, kind), objects in by_kind.items():
            for given in objects:
                uid = text_at(given.metadata.content, "uid")
                if uid:
                    self._by_uid.setdefault(uid, given)
                self._by_name[group, kind, given.namespace, given.name] = given
        for link in links:
            if link.uid:
                self._links.setdefault(link.uid, link)
            self._links.setdefault((link.group, link.kind, link.namespace, link.name), link)

    def of(self, group: str, kind: str) -> Sequence[KubernetesObject]:
        """Return the objects of a kind."""
        return self.by_kind.get((group, kind), ())

    def named(self, group: str, kind: str, namespace: str, name: str) -> KubernetesObject | None:
        """Return an object by its name, or None."""
        return self._by_name.get((group, kind, namespace, name))

    def name_of(self, uid: str) -> str:
        """Return the kind and the name of an object; its UID if it is not in the dump."""
        found = self._by_uid.get(uid)
        return uid if found is None else f"{found.kind} {found.full_name}"

    def has(self, content: Mapping[str, object]) -> bool:
        """Return whether there is an object of the same kind and name."""
        kind = api_group_of(content), text_at(content, "kind")
        metadata = look_up(content, "metadata")
        namespace = (text_at(metadata, "namespace") or "default") if is_namespaced(*kind) else ""
        return (*kind, namespace, text_at(metadata, "name")) in self._by_name

    def owners(self, given: KubernetesObject) -> tuple[Owner, ...]:
        """Return the owners of an object, and theirs where they are in the dump, each once."""
        known = self._owners.get(given.reader)
        if known is not None:
            return known
        found: dict[Owner, None] = {}
        for owner in owners_of(given):
            found[owner] = None
            for above in self._above_of(owner, given.namespace):
                found[above] = None
        self._owners[given.reader] = owners = tuple(found)
        return owners

    def owner_objects(self, given: KubernetesObject) -> list[KubernetesObject]:
        """Return those of its owners that are in the dump."""
        objects = (self._object_of(owner, given.namespace) for owner in self.owners(given))
        return [found for found in objects if found is not None]

    def _object_of(self, owner: Owner, namespace: str) -> KubernetesObject | None:
        found = self._by_uid.get(owner.uid) if owner.uid else None
        if found is not None:
            return found
        return self.named(owner.group, owner.kind, namespace, owner.name)

    def _owners_of(self, owner: Owner, namespace: str) -> Sequence[Owner]:
        """Return the owners of an owner, if it is in the dump."""
        given = self._object_of(owner, namespace)
        if given is not None:
            return owners_of(given)
        link = self._links.get(owner.uid) if owner.uid else None
        link = link or self._links.get((owner.group, owner.kind, namespace, owner.name))
        return () if link is None else link.owners

    def _above_of(self, owner: Owner, namespace: str) -> tuple[Owner, ...]:
        key = namespace, owner
        known = self._above.get(key)
        if known is None:
            found: dict[Owner, None] = {owner: None}
            todo = [owner]
            for each in todo:
                for above in self._owners_of(each, namespace):
                    if above not in found:
                        found[above] = None
                        todo.append(above)
            known = self._above[key] = tuple(todo[1:])
        return known


def owners_of(given: KubernetesObject) -> list[Owner]:
    """Return the direct owners of an object: who controls it first, then by kind and name."""
    return _owners_in(given.metadata.content)


def _owners_in(metadata: object) -> list[Owner]:
    found: list[Owner] = []
    for reference in mappings_in(look_up(metadata, "ownerReferences")):
        kind, name, uid = (text_at(reference, key) for key in ("kind", "name", "uid"))
        if kind and name:
            group = api_group_of(reference)
            found.append(Owner(group, kind, name, uid, look_up(reference, "controller") is True))
    found.sort(key=lambda owner: (not owner.controls, owner.kind, owner.name, owner.uid))
    return found


def sorted_objects(reading: Reading, given: Objects, /) -> DumpObjects:
    """Return the objects of a dump by API group and kind. O(objects log objects).

    Lists, also within lists, count as their objects. An object that comes several times counts
    once: the one with the latest ``resourceVersion``.
    """
    found: dict[tuple[str, str], dict[tuple[str, str], Mapping[str, object]]] = {}
    links: dict[Link, None] = {}
    for kind, content in contents_of(reading, given):
        metadata = look_up(content, "metadata")
        if kind in _KINDS:
            namespace = look_up(metadata, "namespace") or "default"
            key = str(namespace) if _KINDS[kind][1] else "", str(look_up(metadata, "name"))
            others = found.setdefault(kind, {})
            others[key] = _newer(others[key], content) if key in others else content
        elif owners := tuple(_owners_in(metadata)):
            namespace, name, uid = (text_at(metadata, key) for key in ("namespace", "name", "uid"))
            links[Link(*kind, namespace or "default", name, uid, owners)] = None
    by_kind: dict[tuple[str, str], Sequence[KubernetesObject]] = {}
    for kind, (path, namespaced) in _KINDS.items():
        if kind in found:
            group, name = kind
            contents = [found[kind][key] for key in sorted(found[kind])]
            by_kind[kind] = named_objects(
                reading, path, name, contents, namespaced=namespaced, api_group=group
            )
    return DumpObjects(by_kind, sorted(links, key=repr))


def contents_of(
    reading: Reading, given: object
) -> Iterator[tuple[tuple[str, str], Mapping[str, object]]]:
    """Yield every object with its API group and kind."""
    todo: list[tuple[object, str, str, str]] = [(given, "", "", "objects")]
    while todo:
        one, version, kind, place = todo.pop()
        try:
            items: list[object] | None = None
            if is_mapping(one):
                own_kind, own_version = look_up(one, "kind"), look_up(one, "apiVersion")
                kind = own_kind if isinstance(own_kind, str) else kind
                version = own_version if isinstance(own_version, str) else version
                below = look_up(one, "items")
                if not is_sequence(below) or not (kind.endswith("List") or not kind):
                    if not kind and (look_up(one, "tiers") or look_up(one, "actions")):
                        message = (
                            "this is a configuration of a scheduler, not an object of a cluster"
                        )
                        reading.fault(place, message)
                    elif not kind:
                        reading.fault(f"{place}.kind", "is missing")
                    yield (version.partition("/")[0] if "/" in version else "", kind), one
                    continue
                kind = kind.removesuffix("List")
                items = list(below)
            elif is_collection(one):
                items = list(one)
        except Exception as error:  # a mapping or an iterable of the caller's may raise anything
            reading.fault(place, f"cannot be read: {shown_problem(error)}")
            continue
        if items is None:
            message = f"expected objects as mappings, or a List of them, got {shown(one)}"
            reading.fault(place, message)
            continue
        todo += [
            (item, version if kind else "", kind, f"{place}[{position}]")
            for position, item in reversed(list(enumerate(items)))
        ]


def _newer(one: Mapping[str, object], other: Mapping[str, object]) -> Mapping[str, object]:
    """Return the later of two versions of an object, whatever their order."""
    if one == other:
        return one
    return max(one, other, key=lambda content: (_version(content), _canonical(content)))


def _version(content: Mapping[str, object]) -> int:
    version = whole_number(text_at(look_up(content, "metadata"), "resourceVersion"))
    return -1 if version is None else version


def _canonical(content: object) -> str:
    if is_mapping(content):
        parts = sorted(f"{key}: {_canonical(below)}" for key, below in content.items())
        return "{" + ", ".join(parts) + "}"
    if is_sequence(content):
        return "[" + ", ".join(_canonical(item) for item in content) + "]"
    return repr(content)
