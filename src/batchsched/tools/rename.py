"""Neutral names: make a snapshot anonymous without changing how it is scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from attrs import Attribute, AttrsInstance, evolve, fields, has

from batchsched.model.snapshot import Snapshot

__all__ = ["neutral_names"]

PartT = TypeVar("PartT", bound=AttrsInstance)

_WELL_KNOWN = ("kubernetes.io/", "k8s.io/", "nvidia.com/", "amd.com/", "intel.com/")
_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - it is compared with
_PLAIN_KEYS = ("Ready", "metadata.name")


def neutral_names(snapshot: Snapshot) -> Snapshot:
    """Replace the names of a snapshot with neutral ones in the same order: ``n1``, ``q1``, ``j1``.

    Nodes, queues, jobs, tasks, namespaces, labels and scalars are renamed wherever they are
    referenced. Well-known keys, such as those of Kubernetes, are kept.

    >>> from batchsched import JobInfo, Queue
    >>> plan = JobInfo(name="secret-plan", namespace="board", queue="mergers")
    >>> neutral = neutral_names(Snapshot(queues=[Queue(name="mergers")], jobs=[plan]))
    >>> neutral.queues[0].name, neutral.jobs[0].uid
    ('q1', 's1/j1')
    """
    names = {
        "node": _numbered("n", {node.name for node in snapshot.nodes} | _node_names(snapshot)),
        "queue": _numbered(
            "q", {q.name for q in snapshot.queues} | {job.queue for job in snapshot.jobs}
        ),
        "namespace": _numbered(
            "s",
            {job.namespace for job in snapshot.jobs}
            | {task.namespace for job in snapshot.jobs for task in job.tasks}
            | {task.namespace for task in snapshot.other_tasks},
            stays=("kube-system", "default"),
        ),
        "job": _numbered("j", {job.name for job in snapshot.jobs}),
        "task": _numbered(
            "t",
            {task.uid for job in snapshot.jobs for task in job.tasks}
            | {task.uid for task in snapshot.other_tasks},
        ),
    }
    names["group"] = _numbered("g", {group.name for job in snapshot.jobs for group in job.groups})
    # Dependencies refer to jobs by UID.
    names["job uid"] = {
        job.uid: f"{names['namespace'][job.namespace]}/{names['job'][job.name]}"
        for job in snapshot.jobs
    }
    words = _Words(names)
    return cast("Snapshot", words.renamed(snapshot))


def _node_names(snapshot: Snapshot) -> set[str]:
    tasks = [*snapshot.other_tasks, *(task for job in snapshot.jobs for task in job.tasks)]
    return {task.node_name for task in tasks if task.node_name is not None}


def _numbered(letter: str, names: set[str], stays: tuple[str, ...] = ()) -> dict[str, str]:
    """Number names in their sorted order, because the order may break ties."""
    width = len(str(len(names)))
    return {
        name: name if name in stays else f"{letter}{number:0{width}}"
        for number, name in enumerate(sorted(names), 1)
    }


class _Words:
    """Renames all strings of a value, depending on the field that holds them."""

    def __init__(self, names: Mapping[str, Mapping[str, str]]) -> None:
        self._names = names
        self._words: dict[str, str] = {}

    def renamed(self, value: object, field: str = "", kind: str = "") -> object:
        if isinstance(value, str):
            return self._text(value, field, kind)
        if isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            return tuple(self.renamed(item, field, kind) for item in items)
        if isinstance(value, Mapping):
            content = cast("Mapping[str, object]", value)
            if (kind, field) == ("Plan", "nodes"):
                tasks, nodes = self._names["task"], self._names["node"]
                places = cast("Mapping[str, str]", value)
                return {
                    tasks.get(uid, self._word(uid)): nodes.get(node, self._word(node))
                    for uid, node in places.items()
                }
            return {
                self._word(key): self._word(item) if isinstance(item, str) else item
                for key, item in content.items()
                if field != "conditions"
            } or dict(content)
        if has(type(value)):
            return self._part(cast("AttrsInstance", value))
        return value

    def _part(self, part: PartT) -> PartT:
        attributes: tuple[Attribute[object], ...] = fields(type(part))
        kind = type(part).__name__
        changes: dict[str, object] = {}
        for attribute in attributes:
            if attribute.init:
                value: object = getattr(part, attribute.name)
                changes[attribute.name] = self.renamed(value, attribute.name, kind)
        if kind == "TaskInfo":
            changes["name"] = changes["uid"]
        return evolve(part, **changes)  # type: ignore[misc]  # every part is of an attrs class

    def _text(self, text: str, field: str, kind: str) -> str:
        if (kind, field) in (("NodeInfo", "name"), ("TaskInfo", "node_name")):
            return self._names["node"].get(text, text)
        if (kind, field) in (("Queue", "name"), ("Queue", "parent"), ("JobInfo", "queue")):
            return self._names["queue"].get(text, text)
        if (kind, field) == ("JobInfo", "name"):
            return self._names["job"].get(text, text)
        if (kind, field) == ("TaskInfo", "uid"):
            return self._names["task"].get(text, text)
        if (kind, field) in (("TaskGroup", "name"), ("TaskGroup", "parent"), ("TaskInfo", "group")):
            return self._names["group"].get(text, text)
        if (kind, field) == ("Dependency", "job"):
            return self._names["job uid"].get(text, self._word(text))
        if field in ("user", "priority_class_name") and not text.startswith("system-"):
            return self._word(text)
        if (kind, field) == ("HostPort", "address") and text not in _ANY_ADDRESS:
            return self._word(text)
        if field in ("namespace", "namespaces"):
            return self._names["namespace"].get(text, self._word(text))
        if field in ("key", "values", "topology_key", "value") and text:
            return self._names["node"].get(text, self._word(text))
        return text

    def _word(self, text: str) -> str:
        if text in _PLAIN_KEYS or any(part in text for part in _WELL_KNOWN):
            return text
        if not text or text.lstrip("-").isdigit():
            return text  # numbers may be compared
        if text not in self._words:
            self._words[text] = f"a{len(self._words) + 1}"
        return self._words[text]
