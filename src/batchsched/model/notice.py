"""Notices: what was read and could not be honoured, with what follows from it."""

from __future__ import annotations

from enum import Enum

from attrs import frozen

__all__ = ["Notice", "NoticeCode", "NoticeCollector"]

_EXAMPLES = 5
"""How many objects a notice names."""


class NoticeCode(Enum):
    """What kind of thing a notice is about. The value is a stable code."""

    FIELD_IGNORED = "FieldIgnored"
    """A field is set that changes scheduling elsewhere and is not supported here."""
    SCHEDULING_GATES = "SchedulingGates"
    """Pods have scheduling gates; they are not scheduled until the gates are removed."""
    QUEUE_CLOSED = "QueueClosed"
    """A queue is not open; nothing new starts in it."""
    QUEUE_MISSING = "QueueMissing"
    """Pod groups name a queue that was not given; a cycle leaves them out."""
    GROUP_MISSING = "GroupMissing"
    """Pods name a pod group that was not given; they are not scheduled."""
    NODE_MISSING = "NodeMissing"
    """Pods are on a node that was not given; they hold nothing and are not scheduled."""
    NODE_OVERCOMMITTED = "NodeOvercommitted"
    """The pods of a node hold more than it has; it is full in that resource."""
    NAME_TAKEN = "NameTaken"
    """Pods without a group have the name of a pod group; they are not scheduled."""
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    """A priority class is named that was not given; the default priority counts."""
    OTHER_SCHEDULER = "OtherScheduler"
    """Pods that hold nothing ask for another scheduler; they are left out."""
    WITHOUT_GROUP = "WithoutGroup"
    """Pods belong to no pod group although there are some; each is a job of its own."""
    UNKNOWN_KEY = "UnknownKey"
    """A configuration has a key that is not known; it is left out."""
    UNKNOWN_ACTION = "UnknownAction"
    """A configuration names an action that is not registered; it does not run."""
    UNKNOWN_PLUGIN = "UnknownPlugin"
    """A configuration names a plugin that is not registered; it is left out."""
    UNKNOWN_FLAG = "UnknownFlag"
    """A configuration switches an extension point that there is not; it has no effect."""
    UNKNOWN_ARGUMENT = "UnknownArgument"
    """A configuration gives an argument that the plugin or action does not have."""


@frozen(kw_only=True)
class Notice:
    """Something that was read and not honoured, and what follows from it.

    >>> print(Notice(
    ...     code=NoticeCode.FIELD_IGNORED,
    ...     kind="Pod",
    ...     field="spec.volumes",
    ...     count=7,
    ...     examples=("team/a", "team/b"),
    ...     consequence="ignored: pods may be placed where their volumes cannot be mounted",
    ... ))
    7 x Pod spec.volumes: ignored: pods may be placed where their volumes cannot be mounted \
(team/a, team/b, ...)
    """

    code: NoticeCode
    kind: str
    """The kind of the objects: ``Pod``, ``Queue``; ``plugin``, ``action`` of a configuration."""
    field: str = ""
    """What of the objects it is about, such as ``spec.topologySpreadConstraints``."""
    count: int
    """How many objects it is about."""
    examples: tuple[str, ...]
    """The first few of them in order of name; at most five."""
    consequence: str
    """What is done instead, and what follows from that."""

    def __str__(self) -> str:
        shown = ", ".join(self.examples)
        more = ", ..." if self.count > len(self.examples) else ""
        what = f"{self.kind} {self.field}" if self.field else self.kind
        return f"{self.count} x {what}: {self.consequence} ({shown}{more})"


class NoticeCollector:
    """Collects what is to be noticed of single objects, and sums it up."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str, NoticeCode, str], dict[str, str]] = {}

    def note(
        self, code: NoticeCode, kind: str, field: str, *, name: str, path: str, consequence: str
    ) -> None:
        """Note something of one object.

        Args:
            code: what kind of thing it is.
            kind: the object's kind.
            field: what of the object it is about.
            name: the object's name.
            path: where it stands, for those to whom notices are faults.
            consequence: what follows. Objects are summed up where it is the same.

        """
        self._noted.setdefault((kind, field, code, consequence), {})[name] = path

    def notices(self) -> tuple[Notice, ...]:
        """Return one notice for all objects that share one, in an order of their own.

        By kind, field, code and consequence: the order of the objects plays no part.
        """
        return tuple(
            Notice(
                code=code,
                kind=kind,
                field=field,
                count=len(names),
                examples=tuple(sorted(names)[:_EXAMPLES]),
                consequence=consequence,
            )
            for (kind, field, code, consequence), names in sorted(
                self._noted.items(), key=lambda item: (*item[0][:2], item[0][2].value, item[0][3])
            )
        )

    def each(self) -> list[tuple[str, str]]:
        """Return the path and the consequence of everything noted, in order of path."""
        return sorted(
            (path, consequence)
            for (_, _, _, consequence), names in self._noted.items()
            for path in names.values()
        )
