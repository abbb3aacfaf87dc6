"""Notices: parts of the input that are not supported, with the consequences."""

from __future__ import annotations

from enum import Enum

import attrs
from attrs import frozen

EXAMPLES = 5
"""How many objects a notice names."""


class NoticeCode(Enum):
    """The kind of a notice. The value is a stable code."""

    FIELD_IGNORED = "FieldIgnored"
    """A field is set that affects other schedulers and is not supported here."""
    GUARANTEE_CUT = "GuaranteeCut"
    """A queue is guaranteed more than a limit allows; the limit applies."""
    READ_AS = "ReadAs"
    """A value has no exact counterpart here; the notice says what it is read as."""
    QUEUE_MISSING = "QueueMissing"
    """Pod groups name a queue that was not given; cycles leave them out."""
    GROUP_MISSING = "GroupMissing"
    """Pods name a pod group that was not given; they are not scheduled."""
    NODE_MISSING = "NodeMissing"
    """Pods are on a node that was not given; they hold no resources and are not scheduled."""
    NODE_OVERCOMMITTED = "NodeOvercommitted"
    """The pods of a node hold more than it has; it is full in that resource."""
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    """A priority class is named that was not given; the default priority is used."""
    OTHER_SCHEDULER = "OtherScheduler"
    """Pods without resources on a node name another scheduler; they are left out."""
    GPU_FRACTION = "GpuFraction"
    """A pod asks for a part of a GPU, and nodes do not say how many GPUs they have.

    The part is taken from whole free GPUs, not from shared ones.
    """
    NOT_MODELLED = "NotModelled"
    """A configuration names something of Volcano or KAI Scheduler that this library does not have.

    It is ignored. This is no mistake: it works where it comes from.
    """
    UNKNOWN_KEY = "UnknownKey"
    """A configuration has an unknown key; it is ignored."""
    UNKNOWN_ACTION = "UnknownAction"
    """A configuration names an action that is not registered; it does not run."""
    UNKNOWN_PLUGIN = "UnknownPlugin"
    """A configuration names a plugin that is not registered; it is left out."""
    UNKNOWN_FLAG = "UnknownFlag"
    """A configuration has a flag for an unknown extension point; it has no effect."""
    UNKNOWN_ARGUMENT = "UnknownArgument"
    """A configuration has an argument that the plugin or action does not have."""
    NOT_CONFIGURED = "NotConfigured"
    """A field is set that only plugins obey which the configuration does not have."""
    CLAIMS_IGNORED = "ClaimsIgnored"
    """Tasks claim devices, and no plugin chooses them: it does not matter whether there are any."""


@frozen(kw_only=True)
class Notice:
    """Something in the input that is not supported, and the consequence.

    >>> print(Notice(
    ...     code=NoticeCode.FIELD_IGNORED,
    ...     kind="Pod",
    ...     field="spec.volumes",
    ...     count=7,
    ...     examples=("team/a", "team/b"),
    ...     consequence="ignored: pods may be placed on nodes that cannot mount their volumes",
    ... ))
    7 x Pod spec.volumes: ignored: pods may be placed on nodes that cannot mount their volumes \
(team/a, team/b, ...)
    """

    code: NoticeCode
    kind: str
    """The kind of the objects: ``Pod``, ``Queue``, or ``plugin``, ``action`` in configurations."""
    field: str = ""
    """The field of the objects, such as ``spec.topologySpreadConstraints``."""
    count: int
    """The number of objects."""
    examples: tuple[str, ...]
    """The first objects by name, at most five."""
    consequence: str
    """What is done instead, and its effect on scheduling."""
    objects: tuple[str, ...] = attrs.field(default=(), repr=False)
    """The names of all objects, sorted; by default the examples."""

    def __attrs_post_init__(self) -> None:
        if self.objects == ():
            object.__setattr__(self, "objects", self.examples)

    def __str__(self) -> str:
        shown = ", ".join(self.examples)
        more = ", ..." if self.count > len(self.examples) else ""
        what = f"{self.kind} {self.field}" if self.field else self.kind
        return f"{self.count} x {what}: {self.consequence} ({shown}{more})"


class NoticeCollector:
    """Collects notices about single objects and merges equal ones."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str, NoticeCode, str], dict[str, str]] = {}

    def note(
        self, code: NoticeCode, kind: str, field: str, *, name: str, path: str, consequence: str
    ) -> None:
        """Add a notice about one object.

        Args:
            code: the kind of the notice.
            kind: the object's kind.
            field: the field of the object.
            name: the object's name.
            path: the path in the input, for callers that treat notices as faults.
            consequence: the consequence. Objects with the same one are merged into one notice.

        """
        self._noted.setdefault((kind, field, code, consequence), {})[name] = path

    def notices(self) -> tuple[Notice, ...]:
        """Return the merged notices, sorted by kind, field, code and consequence."""
        return tuple(
            Notice(
                code=code,
                kind=kind,
                field=field,
                count=len(names),
                examples=tuple(sorted(names)[:EXAMPLES]),
                consequence=consequence,
                objects=tuple(sorted(names)),
            )
            for (kind, field, code, consequence), names in sorted(
                self._noted.items(), key=lambda item: (*item[0][:2], item[0][2].value, item[0][3])
            )
        )

    def each(self) -> list[tuple[str, str]]:
        """Return the path and the consequence of every single notice, in order of path."""
        return sorted(
            (path, consequence)
            for (_, _, _, consequence), names in self._noted.items()
            for path in names.values()
        )
