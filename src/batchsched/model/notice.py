"""Notices: parts of the input that are not supported, with the consequences.

One kind follows from data and configuration together: data asks for what only a plugin does, and
the configuration lacks it (`Ignored`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from operator import attrgetter

import attrs
from attrs import frozen

from batchsched.causes import UnfitReason
from batchsched.model.cluster import JobInfo, NodeInfo, Preemptible, Queue, TaskInfo
from batchsched.model.immutable import EMPTY
from batchsched.model.resources import Resource
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import Snapshot

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


@frozen
class Asks:
    """A field by which data asks for something that only some plugins do."""

    kind: type
    """The class of the objects."""
    field: str
    """The field, or the path of one within it."""
    plugins: tuple[str, ...]
    """The plugins that obey it; one of them is enough."""
    otherwise: str
    """What follows without them."""
    usual: tuple[object, ...] = (None,)
    """The values that ask for nothing."""
    value: Callable[..., object] | None = None
    """Returns what is asked for, instead of the field as it is."""

    @property
    def name(self) -> str:
        """The field with its class, such as ``JobInfo.topology``."""
        return f"{self.kind.__name__}.{self.field}"

    def among(self, objects: Sequence[object]) -> Sequence[object]:
        """Return those of some objects that ask for it. O(objects), without a call for each."""
        values = [*map(self.value or attrgetter(self.field), objects)]
        if sum(map(values.count, self.usual)) == len(values):
            return ()
        return [one for one, value in zip(objects, values, strict=True) if value not in self.usual]

    def notice(self, names: Collection[str]) -> Notice:
        """Return the notice for objects of some names."""
        plugins = " nor ".join(self.plugins)
        return Notice(
            code=NoticeCode.CLAIMS_IGNORED if self.field == "claims" else NoticeCode.NOT_CONFIGURED,
            kind=self.kind.__name__,
            field=self.field,
            count=len(names),
            examples=tuple(sorted(names)[:EXAMPLES]),
            consequence=f"ignored: plugin {plugins} is not configured, so {self.otherwise}",
        )


def _topologies_of_groups(job: JobInfo) -> bool:
    return any(group.topology is not None for group in job.groups)


def _keeps_off(node: NodeInfo) -> bool:
    return any(taint.repels() for taint in node.taints)


def _is_unready(node: NodeInfo) -> bool:
    return out_of_service(node) not in (None, UnfitReason.NODE_UNSCHEDULABLE)


def _required_nodes(task: TaskInfo) -> bool:
    return task.node_affinity is not None and bool(task.node_affinity.required)


def _required_beside(task: TaskInfo) -> bool:
    return task.pod_affinity is not None and bool(task.pod_affinity.required)


def _required_apart(task: TaskInfo) -> bool:
    return task.pod_anti_affinity is not None and bool(task.pod_anti_affinity.required)


_NEVER = (False,)
_ANYWHERE = "tasks may be on any nodes"
_MAY_GO_EARLY = "jobs may be evicted as soon as they run"
_UNFIT = "tasks may be placed on nodes that do not suit"
_NONE = (EMPTY,)

ASKED: tuple[Asks, ...] = (
    Asks(JobInfo, "topology", ("topology",), _ANYWHERE),
    Asks(JobInfo, "groups.topology", ("topology",), _ANYWHERE, _NEVER, _topologies_of_groups),
    Asks(JobInfo, "preemptible", ("protection",), "jobs may be evicted", (Preemptible.ALWAYS,)),
    Asks(JobInfo, "preempts", ("protection",), "others may be evicted for it", (True,)),
    Asks(JobInfo, "claim_delay", ("protection",), "it claims at once", (None, 0)),
    Asks(JobInfo, "quota_reserved", ("capacity",), "its queue may get more", _NEVER),
    Asks(JobInfo, "evict_whole", ("gang", "protection"), "a part of a job may be evicted", _NEVER),
    Asks(JobInfo, "min_available", ("gang",), "a part of a job may start", (0, 1)),
    Asks(JobInfo, "groups", ("gang",), "a part of a job may start", ((),)),
    Asks(TaskInfo, "claims", ("devices",), "it does not matter who has which", ((),)),
    Asks(TaskInfo, "node_selector", ("predicates",), _UNFIT, _NONE),
    Asks(TaskInfo, "node_affinity", ("predicates",), _UNFIT, _NEVER, _required_nodes),
    Asks(TaskInfo, "host_ports", ("predicates",), "tasks may share a port", ((),)),
    Asks(TaskInfo, "pod_affinity", ("predicates",), _UNFIT, _NEVER, _required_beside),
    Asks(TaskInfo, "pod_anti_affinity", ("predicates",), _UNFIT, _NEVER, _required_apart),
    Asks(NodeInfo, "max_tasks", ("predicates",), "nodes may get more tasks"),
    Asks(NodeInfo, "taints", ("predicates",), "nodes take any task", _NEVER, _keeps_off),
    Asks(NodeInfo, "unschedulable", ("predicates",), "nodes take tasks", _NEVER),
    Asks(NodeInfo, "conditions", ("predicates",), "nodes take tasks", _NEVER, _is_unready),
    Asks(Queue, "limit", ("capacity", "proportion"), "queues may hold more"),
    Asks(Queue, "guarantee", ("capacity", "proportion"), "nothing is kept for it", (Resource(),)),
    Asks(Queue, "deserved", ("capacity",), "it has no claim to it", (Resource(), None)),
    Asks(Queue, "preempt_min_runtime", ("protection",), _MAY_GO_EARLY, (None, 0)),
    Asks(Queue, "reclaim_min_runtime", ("protection",), _MAY_GO_EARLY, (None, 0)),
)
"""All such fields. What jobs and queues are only ranked by is not here: that is for a configuration
to choose."""


class Ignored:
    """What data asks for that a configuration ignores, kept up to date by what changes."""

    def __init__(self, plugins: Iterable[tuple[str, Collection[str]]]) -> None:
        """Begin without data.

        Args:
            plugins: the configured plugins by name, each with further fields that it obeys.

        """
        given = dict(plugins)
        obeyed = {field for fields in given.values() for field in fields}
        self._fields = [
            each
            for each in ASKED
            if each.name not in obeyed and not any(name in given for name in each.plugins)
        ]
        self._of_kind: dict[type, list[Asks]] = {}
        for each in self._fields:
            self._of_kind.setdefault(each.kind, []).append(each)
        self._names: dict[Asks, dict[str, Sequence[str]]] = {each: {} for each in self._fields}
        """For each such field, the names of those that ask, by what they are part of."""
        self._told: tuple[Notice, ...] | None = None

    def __bool__(self) -> bool:
        """Whether anything would be ignored."""
        return bool(self._fields)

    def read_snapshot(self, snapshot: Snapshot) -> None:
        """Read all of a snapshot, of which nothing was read before."""
        if self._fields:
            self.read(JobInfo, {job.uid: (job,) for job in snapshot.jobs})
            self.read(TaskInfo, {job.uid: job.tasks for job in snapshot.jobs})
            self.read(NodeInfo, {node.name: (node,) for node in snapshot.nodes})
            self.read(Queue, {queue.name: (queue,) for queue in snapshot.queues})

    def read(self, kind: type, objects: Mapping[str, Sequence[object]]) -> None:
        """Read objects of a kind, anew where some are known. O(objects).

        Args:
            kind: their class.
            objects: by what they are part of: tasks by job, others each by itself.

        """
        fields = self._of_kind.get(kind, ())
        everything = [each for some in objects.values() for each in some] if fields else []
        for asks in fields:
            names = self._names[asks]
            if names:
                self._told = None
                for key in objects:
                    names.pop(key, None)
            if everything and asks.among(everything):
                self._told = None
                for key, some in objects.items():
                    found = [_name_of(each) for each in asks.among(some)]
                    if found:
                        names[key] = found

    def notices(self) -> tuple[Notice, ...]:
        """Return a notice for each field by which something asks in vain."""
        if self._told is None:
            self._told = tuple(
                asks.notice([name for some in names.values() for name in some])
                for asks, names in self._names.items()
                if names
            )
        return self._told


def _name_of(one: object) -> str:
    if isinstance(one, TaskInfo):
        return one.display_name
    if isinstance(one, JobInfo):
        return one.uid
    assert isinstance(one, NodeInfo | Queue)
    return one.name
