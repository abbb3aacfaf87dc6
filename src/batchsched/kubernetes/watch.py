"""Keeps the objects of a cluster by what watching them says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from batchsched.errors import Fault, KubernetesObjectError
from batchsched.kubernetes.dump import read_dump
from batchsched.kubernetes.facts import Dump
from batchsched.kubernetes.objects import is_mapping, is_sequence, look_up, text_at, whole_number
from batchsched.model.validation.values import is_text, shown

_CHANGES = ("ADDED", "MODIFIED")
_TYPES = (*_CHANGES, "DELETED", "BOOKMARK", "ERROR")
_GONE = 410

_Key = tuple[str, str, str]
"""Kind (with its API group), namespace and name."""


class WatchedObjects:
    """The objects of a cluster, of any kinds, kept up to date by watch events.

    It talks to no cluster: the caller lists and watches each kind, and hands on what comes. Events
    may come late or twice: what is older than what is known, by its ``resourceVersion``, changes
    nothing. `dump` reads everything that is there, as `read_dump` does.

    >>> from batchsched.live import Cluster, Reconciler
    >>> watch = WatchedObjects()
    >>> watch.relist({"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "5"},
    ...     "items": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}]})
    >>> watch.apply({"type": "MODIFIED", "object": {"apiVersion": "v1", "kind": "Node",
    ...     "metadata": {"name": "n1", "resourceVersion": "9"}, "spec": {"unschedulable": True}}})
    >>> watch.versions["Node"]
    '9'
    >>> reconciler = Reconciler(Cluster())
    >>> reconciler.observe_all(watch.dump().snapshot)
    ()
    >>> reconciler.cluster.node("n1").unschedulable
    True
    """

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[str, Mapping[str, object] | None]] = {}
        """The latest version of each object; with None where it was deleted, until its kind is
        listed again."""
        self._listed: dict[str, str] = {}
        """The version of the latest list of each kind."""
        self._versions: dict[str, str] = {}

    @property
    def versions(self) -> Mapping[str, str]:
        """The version after which each kind is to be watched on: ``Pod``, ``batch/Job``."""
        return MappingProxyType(self._versions)

    def objects(self) -> list[Mapping[str, object]]:
        """Return all objects that are there, each with its kind. O(objects)."""
        return [content for _, content in self._known.values() if content is not None]

    def apply(self, *events: Mapping[str, object]) -> None:
        """Take in watch events: ``{"type": "MODIFIED", "object": {...}}``. O(events).

        Raises:
            KubernetesObjectError: an event cannot be read, or is an error: after one with the
                code 410 list the kind again, and give the list to `relist`. All faults at once,
                and nothing has changed.

        """
        faults: list[Fault] = []
        changes: list[tuple[str, Mapping[str, object], _Key, str]] = []
        for place, event in enumerate(events):
            path = f"events[{place}]"
            kind, content = look_up(event, "type"), look_up(event, "object")
            if not is_text(kind) or kind not in _TYPES:
                message = f"expected one of {', '.join(_TYPES)}, got {shown(kind)}"
                faults.append(Fault(f"{path}.type", message))
            elif not is_mapping(content):
                faults.append(Fault(f"{path}.object", f"expected an object, got {shown(content)}"))
            elif kind == "ERROR":
                faults.append(Fault(path, _error_text(content)))
            else:
                key = _key_of(content, is_bookmark=kind == "BOOKMARK")
                if isinstance(key, str):
                    faults.append(Fault(f"{path}.object.{key}", "expected a string, got nothing"))
                else:
                    changes.append((kind, content, key, _version_of(content)))
        if faults:
            raise KubernetesObjectError(faults)
        for kind, content, key, version in changes:
            if version and not _is_older(version, self._versions.get(key[0], "")):
                self._versions[key[0]] = version
            last, before = self._known.get(key, (self._listed.get(key[0], ""), None))
            if kind != "BOOKMARK" and not _is_older(version, last):
                if before is None:
                    self._known.pop(key, None)  # what is new comes last
                self._known[key] = version, (content if kind in _CHANGES else None)

    def relist(self, listed: Mapping[str, object], /) -> None:
        """Take in a list of all objects of one kind, such as a ``PodList``. O(objects).

        Raises:
            KubernetesObjectError: it is no such list; nothing has changed.

        """
        kind, items = look_up(listed, "kind"), look_up(listed, "items")
        faults: list[Fault] = []
        if not is_text(kind) or not kind.endswith("List") or kind == "List":
            message = f"expected the list of one kind, such as PodList, got {shown(kind)}"
            faults.append(Fault("kind", message))
        each_item = items if is_sequence(items) else ()
        if items is not None and not is_sequence(items):
            faults.append(Fault("items", f"expected a list, got {shown(items)}"))
        of = str(kind).removesuffix("List")
        version = look_up(listed, "apiVersion")
        found: dict[_Key, Mapping[str, object]] = {}
        for place, item in enumerate(each_item):
            if not is_mapping(item):
                faults.append(Fault(f"items[{place}]", f"expected an object, got {shown(item)}"))
                continue
            whole = {"apiVersion": version, "kind": of, **item}
            key = _key_of(whole)
            if isinstance(key, str):
                faults.append(Fault(f"items[{place}].{key}", "expected a string, got nothing"))
            else:
                found[key] = whole
        if faults:
            raise KubernetesObjectError(faults)
        name = _kind_of({"apiVersion": version, "kind": of})
        of_others = {key: known for key, known in self._known.items() if key[0] != name}
        self._known = of_others | {key: (_version_of(one), one) for key, one in found.items()}
        self._versions[name] = self._listed[name] = _version_of(listed)

    def dump(
        self,
        *,
        now: float | None = None,
        scheduler_names: Iterable[str] | None = None,
    ) -> Dump:
        """Read all objects that are there; see `read_dump`. O(objects + owner references).

        Raises:
            KubernetesObjectError: values cannot be read; it lists every fault.
            SnapshotError: the objects contradict each other; it lists every fault.

        """
        return read_dump(self.objects(), now=now, scheduler_names=scheduler_names)


def _kind_of(content: Mapping[str, object]) -> str:
    group, slash, _ = str(look_up(content, "apiVersion") or "").rpartition("/")
    return f"{group}{slash}{look_up(content, 'kind')}"


def _key_of(content: Mapping[str, object], *, is_bookmark: bool = False) -> _Key | str:
    """Return the key of an object, or the path of what it lacks."""
    if not is_text(look_up(content, "kind")):
        return "kind"
    metadata = look_up(content, "metadata")
    name = look_up(metadata, "name")
    if is_bookmark:
        return _kind_of(content), "", ""
    if not is_text(name):
        return "metadata.name"
    namespace = look_up(metadata, "namespace")
    return _kind_of(content), namespace if is_text(namespace) else "", name


def _version_of(content: Mapping[str, object]) -> str:
    return text_at(look_up(content, "metadata"), "resourceVersion")


def _is_older(version: str, than: str) -> bool:
    """Return whether a version is older, or the same; False where that cannot be told."""
    one, other = whole_number(version), whole_number(than)
    if one is None or other is None:
        return bool(version) and version == than
    return one <= other


def _error_text(status: Mapping[str, object]) -> str:
    if look_up(status, "code") == _GONE:
        return "the watch has expired (410): list the kind again, and give the list to relist"
    return f"the watch failed: {shown(look_up(status, 'message') or dict(status))}"
