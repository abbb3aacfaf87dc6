"""Sorts the objects of a dump by API group and kind, and follows their owners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import cast

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
    text_at,
    whole_number,
)
from batchsched.model.immutable import EMPTY
from batchsched.model.validation.values import is_collection, items_of, shown

_KINDS: Mapping[tuple[str, str], bool] = {
    (group, kind.removesuffix("*")): kind.endswith("*")
    for group, kinds in (
        ("", "Node Pod* Namespace ResourceQuota*"),
        (api.BATCH, "Job*"),
        (api.POLICY, "PodDisruptionBudget*"),
        (api.KUBERNETES, "PriorityClass PodGroup* CompositePodGroup* Workload*"),
        (api.VOLCANO, "PodGroup* Queue"),
        (api.VOLCANO_JOBS, "Job*"),
        (api.KUBE_BATCH, "PodGroup* Queue"),
        *((group, "PodGroup*") for group in api.COSCHEDULING),
        (api.KAI, "PodGroup* Queue BindRequest*"),
        (api.KUEUE, "Workload* LocalQueue* ClusterQueue Cohort ResourceFlavor"),
        (api.KUEUE, "WorkloadPriorityClass Topology AdmissionCheck"),
        (api.KAI_TOPOLOGIES, "Topology"),
        (api.HYPER_NODES, "HyperNode"),
        (api.RESOURCE, "ResourceSlice DeviceTaintRule DeviceClass"),
        (api.RESOURCE, "ResourceClaim* ResourceClaimTemplate*"),
    )
    for kind in kinds.split()
}
"""API group and kind, and whether objects have a namespace (the names that end with ``*``)."""


def _path_of(group: str, kind: str) -> str:
    """Return what paths of the objects of a kind begin with: its plural, and its group."""
    plural = f"{kind.lower()}s".replace("classs", "classes").replace("ys", "ies")
    return f"{plural}.{group}" if group and kind != "PriorityClass" else plural


_Name = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def _namespace_in(metadata: object, group: str, kind: str) -> str:
    """Return the namespace of an object; objects of kinds that are not read have one."""
    is_namespaced = _KINDS.get((group, kind), True)
    return (text_at(metadata, "namespace") or "default") if is_namespaced else ""


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


class DumpObjects:
    """The objects of a dump that are read, by API group and kind, in order of name."""

    def __init__(
        self,
        by_kind: Mapping[tuple[str, str], Sequence[KubernetesObject]],
        others: Iterable[KubernetesObject] = (),
    ) -> None:
        """Index objects by UID and by name. O(objects).

        Args:
            by_kind: those that are read.
            others: those of other kinds, which lead from what they own to their own owners.

        """
        self.by_kind = by_kind
        self._by_uid: dict[str, KubernetesObject] = {}
        self._by_name: dict[_Name, KubernetesObject] = {}
        self._owners: dict[Reader, tuple[Owner, ...]] = {}
        for given in chain(*by_kind.values(), others):
            uid = text_at(given.metadata.content, "uid")
            if uid:
                self._by_uid.setdefault(uid, given)
            name = given.api_group, given.kind, given.namespace, given.name
            self._by_name.setdefault(name, given)

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
        """Return whether an object of the same kind and name is read."""
        kind, metadata = (
            (api_group_of(content), text_at(content, "kind")),
            look_up(content, "metadata"),
        )
        name = *kind, _namespace_in(metadata, *kind), text_at(metadata, "name")
        return kind in _KINDS and name in self._by_name

    def owners(self, given: KubernetesObject) -> tuple[Owner, ...]:
        """Return the owners of an object, and theirs where they are in the dump, each once."""
        known = self._owners.get(given.reader)
        if known is None:
            found: dict[Owner, None] = {}
            for owner in owners_of(given):
                line = {owner: None}
                todo = [owner]
                for each in todo:
                    its = self._object_of(each, given.namespace)
                    more = [] if its is None else owners_of(its)
                    todo += [above for above in more if above not in line]
                    line |= dict.fromkeys(more)
                found |= line
            self._owners[given.reader] = known = tuple(found)
        return known

    def owner_objects(self, given: KubernetesObject) -> list[KubernetesObject]:
        """Return those of its owners that are read."""
        objects = (self._object_of(owner, given.namespace) for owner in self.owners(given))
        return [one for one in objects if one and (one.api_group, one.kind) in _KINDS]

    def _object_of(self, owner: Owner, namespace: str) -> KubernetesObject | None:
        by_name = self.named(owner.group, owner.kind, namespace, owner.name)
        return self._by_uid.get(owner.uid, by_name)


def owners_of(given: KubernetesObject) -> list[Owner]:
    """Return the direct owners of an object: who controls it first, then by kind and name."""
    found: list[Owner] = []
    for reference in mappings_in(look_up(given.metadata.content, "ownerReferences")):
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
    for kind, content in contents_of(reading, given):
        metadata = look_up(content, "metadata")
        namespace = look_up(metadata, "namespace") or "default"
        key = str(namespace) if _KINDS.get(kind, True) else "", str(look_up(metadata, "name"))
        named = found.setdefault(kind, {})
        named[key] = _newer(named[key], content) if key in named else content
    contents = {kind: [found[kind][key] for key in sorted(found[kind])] for kind in sorted(found)}
    by_kind: dict[tuple[str, str], Sequence[KubernetesObject]] = {
        (group, kind): named_objects(
            reading, _path_of(group, kind), group, kind, contents[group, kind]
        )
        for group, kind in _KINDS
        if (group, kind) in contents
    }
    others = [
        _unread(reading, content, *kind)
        for kind in contents
        if kind not in _KINDS
        for content in contents[kind]
    ]
    return DumpObjects(by_kind, others)


def _unread(
    reading: Reading, content: Mapping[str, object], group: str, kind: str
) -> KubernetesObject:
    """Return an object of a kind that is not read: only its name and its owners may be asked."""
    metadata = look_up(content, "metadata")
    reader = Reader(content, reading, kind)
    below = Reader(metadata if is_mapping(metadata) else EMPTY, reading, ".metadata", reader)
    name, namespace = text_at(metadata, "name"), _namespace_in(metadata, group, kind)
    return KubernetesObject(kind, reader, below, name, namespace, group)


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


# Collections of objects


def named_objects(
    reading: Reading,
    argument: str,
    group: str,
    kind: str | Sequence[str],
    given: Objects,
) -> list[KubernetesObject]:
    """Return the objects in `given` without invalid ones and duplicates of kind and name.

    An object without a kind is of the first of several kinds.
    """
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    found: list[KubernetesObject] = []
    seen: set[tuple[str, str]] = set()
    for position, content in enumerate(_contents(reading, argument, given)):
        place = f"{argument}[{position}]"
        if not is_mapping(content):
            message = (
                f"expected a mapping, got {shown(content)}; use plain dicts, such as those of "
            )
            reading.fault(place, message + "to_dict() of the Kubernetes client")
            continue
        reader = Reader(content, reading, place)
        given_kind = reader.get("kind")
        if given_kind is not None and given_kind not in kinds:
            reader.fault(".kind", f"expected {' or '.join(kinds)}, got {shown(given_kind)}")
            continue
        its_kind = given_kind if isinstance(given_kind, str) else kinds[0]
        metadata = reader.child("metadata")
        name = metadata.text("name", required=True)
        if _KINDS[group, kinds[0]]:
            metadata.text("namespace")
        namespace = _namespace_in(metadata.content, group, kinds[0])
        if not name:
            continue
        full_name = f"{namespace}/{name}" if namespace else name
        named_reader = Reader(content, reading, f"{argument}[{full_name!r}]")
        if (its_kind, full_name) in seen:
            named_reader.fault("", "expected a unique name, got it again")
            continue
        seen.add((its_kind, full_name))
        metadata = Reader(metadata.content, reading, ".metadata", named_reader)
        found.append(KubernetesObject(its_kind, named_reader, metadata, name, namespace, group))
    return found


def _contents(reading: Reading, argument: str, given: object) -> Iterable[object]:
    if is_mapping(given):
        content = dict(items_of(cast("Mapping[object, object]", given)))
        items = content.get("items")
        if is_sequence(items):
            return items
        kind = str(Reader(given, reading, argument).get("kind"))
        if items is None and kind.endswith("List"):
            return ()
        message = "expected a list of objects or a List object with items, got one mapping"
    elif is_collection(given):
        try:
            return list(given)
        except Exception as error:  # an iterable of the caller's may raise anything
            message = f"raised {shown_problem(error)} when its objects were read"
    else:
        message = f"expected a collection of objects, got {shown(given)}"
    reading.fault(argument, message)
    return ()
