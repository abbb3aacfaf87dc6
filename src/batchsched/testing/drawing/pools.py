"""What examples are drawn from: amounts, labels and constraints, and the features in use.

Items are drawn by position. The first item of every pool is the simplest: examples shrink to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TypedDict

from attrs import frozen

from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)
from batchsched.model.resources import Resource

GIB = 1 << 30
"""Bytes."""

DEVICES = ("example.com/gpu", "example.com/fpga")
"""The scalars that examples have."""


def _size(milli_cpu: int, gib: int) -> Resource:
    return Resource(milli_cpu=milli_cpu, memory=gib * GIB)


REQUESTS = (
    *map(
        _size,
        (1000, 500, 2000, 1000, 1000, 3000, 0, 1500, 300, 500, 2000, 500, 2500, 500),
        (1, 1, 1, 4, 0, 2, 2, 3, 1, 1, 2, 0, 1, 2),
    ),
    *(Resource(), Resource()),
)
"""Requests of tasks: some are so large that several victims are needed for them.

The last two are empty (best effort).
"""

NODE_SIZES = tuple(
    map(_size, (2000, 3000, 1000, 2000, 4000, 2500, 3000, 3500), (4, 8, 2, 3, 4, 16, 2, 0))
)
"""Sizes of nodes, with room for few tasks, so that tasks compete."""


def with_devices(resource: Resource, gpus: int, fpgas: int) -> Resource:
    """Return a resource with whole devices added."""
    amounts = zip(DEVICES, (gpus, fpgas), strict=True)
    scalars = {name: 1000 * count for name, count in amounts if count}
    if not scalars:
        return resource
    return Resource(milli_cpu=resource.milli_cpu, memory=resource.memory, scalars=scalars)


NODE_LABELS: tuple[Mapping[str, str], ...] = (
    {},
    {"zone": "z1"},
    {"zone": "z1", "disk": "ssd"},
    {"zone": "z2"},
    {"zone": "z2", "disk": "hdd", "generation": "2"},
    {"zone": "z1", "generation": "10"},
    {"disk": "ssd", "generation": "new"},
    {"zone": ""},
)
"""Labels of nodes."""


class Trouble(TypedDict, total=False):
    """A problem of a node: the fields of `NodeInfo` that have it."""

    taints: Sequence[Taint]
    conditions: Mapping[str, str]
    unschedulable: bool
    max_tasks: int


_MAINTENANCE = Taint(key="maintenance", effect=TaintEffect.NO_SCHEDULE)
_TEAM = Taint(key="team", value="red", effect=TaintEffect.NO_EXECUTE)
_SLOW = Taint(key="slow", effect=TaintEffect.PREFER_NO_SCHEDULE)

TROUBLES: Sequence[Trouble] = (
    {},
    {"max_tasks": 2},
    {"unschedulable": True},
    {"taints": [_MAINTENANCE]},
    {"taints": [_TEAM]},
    {},
    {"max_tasks": 1},
    {"conditions": {"Ready": "False"}},
    {"conditions": {"Ready": "True", "MemoryPressure": "True"}},
    {},
    {"taints": [_MAINTENANCE, _TEAM]},
    {"taints": [_SLOW]},
    {"conditions": {"DiskPressure": "True"}},
    {"conditions": {"NetworkUnavailable": "True"}},
    {"conditions": {"PIDPressure": "True"}, "max_tasks": 3},
    {"conditions": {"Ready": "Unknown"}, "taints": [_TEAM]},
)
"""The problems that nodes can have."""


class Wishes(TypedDict, total=False):
    """What a task requires or prefers of nodes, and of tasks there: fields of `TaskInfo`."""

    node_selector: Mapping[str, str]
    node_affinity: NodeAffinity
    tolerations: Sequence[Toleration]
    host_ports: Sequence[HostPort]
    pod_affinity: PodAffinity
    pod_anti_affinity: PodAffinity


def _on_nodes(
    *required: NodeSelectorTerm, preferred: Mapping[NodeSelectorTerm, int] | None = None
) -> NodeAffinity:
    weights = (preferred or {}).items()
    return NodeAffinity(
        required=required or None,
        preferred=[PreferredNodeTerm(weight=weight, term=term) for term, weight in weights],
    )


def _term(*requirements: Requirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=requirements)


_Z1 = Requirement(key="zone", operator=Operator.IN, values=("z1",))
_NOT_Z1 = Requirement(key="zone", operator=Operator.NOT_IN, values=("z1",))
_ANY_ZONE = Requirement(key="zone", operator=Operator.EXISTS)
_NO_DISK = Requirement(key="disk", operator=Operator.DOES_NOT_EXIST)
_NEW = Requirement(key="generation", operator=Operator.GT, values=("2",))
_OLD = Requirement(key="generation", operator=Operator.LT, values=("10",))
_SSD = Requirement(key="disk", operator=Operator.IN, values=("ssd", "nvme"))
_FIRST_NODES = NodeSelectorTerm(
    match_fields=(Requirement(key="metadata.name", operator=Operator.IN, values=("n1", "n2")),)
)

_TOLERATES_MAINTENANCE = Toleration(key="maintenance", operator=TolerationOperator.EXISTS)
_TOLERATES_RED = Toleration(key="team", value="red", effect=TaintEffect.NO_EXECUTE)
_TOLERATES_BLUE = Toleration(key="team", value="blue")
_TOLERATES_ALL = Toleration(operator=TolerationOperator.EXISTS)

CONSTRAINTS: Sequence[Wishes] = (
    {},
    {"node_selector": {"zone": "z1"}},
    {"tolerations": [_TOLERATES_MAINTENANCE]},
    {"host_ports": [HostPort(port=80)]},
    {"node_affinity": _on_nodes(_term(_NOT_Z1))},
    {"node_affinity": _on_nodes(preferred={_term(_Z1): 10})},
    {"tolerations": [_TOLERATES_ALL]},
    {"tolerations": [_TOLERATES_RED], "node_selector": {"disk": "ssd"}},
    {"host_ports": [HostPort(port=80, address="10.0.0.1"), HostPort(port=443)]},
    {"host_ports": [HostPort(port=80, protocol="UDP"), HostPort(port=443, address="10.0.0.2")]},
    {"node_affinity": _on_nodes(_term(_Z1, _SSD), _term(_NEW))},
    {"node_affinity": _on_nodes(_FIRST_NODES)},
    {
        "node_affinity": _on_nodes(
            _term(_ANY_ZONE, _NO_DISK), _term(_OLD), preferred={_term(_SSD): 3, _term(): 1}
        )
    },
    {"node_affinity": _on_nodes(_term())},
    {"tolerations": [_TOLERATES_BLUE, _TOLERATES_MAINTENANCE]},
    {
        "node_affinity": _on_nodes(preferred={_FIRST_NODES: 100}),
        "host_ports": [HostPort(port=80, address="10.0.0.2")],
        "tolerations": [_TOLERATES_ALL],
    },
)
"""Constraints of tasks on nodes."""

TASK_LABELS: tuple[Mapping[str, str], ...] = (
    {},
    {"app": "db"},
    {"app": "web"},
    {"app": "db", "track": "canary"},
)
"""Labels of tasks."""


_DB = LabelSelector(match_labels={"app": "db"})
_WEB = LabelSelector(match_labels={"app": "web"})
_CANARY = LabelSelector(
    match_expressions=(Requirement(key="track", operator=Operator.IN, values=("canary",)),)
)
_NO_APP = LabelSelector(
    match_expressions=(Requirement(key="app", operator=Operator.DOES_NOT_EXIST),)
)


def _near(selector: LabelSelector | None, key: str, *namespaces: str) -> PodAffinityTerm:
    return PodAffinityTerm(selector=selector, topology_key=key, namespaces=namespaces)


def _by_pods(
    *required: PodAffinityTerm, preferred: PodAffinityTerm | None = None, weight: int = 1
) -> PodAffinity:
    weighted = [] if preferred is None else [WeightedPodTerm(weight=weight, term=preferred)]
    return PodAffinity(required=required, preferred=weighted)


AFFINITIES: Sequence[Wishes] = (
    {},
    {"pod_anti_affinity": _by_pods(_near(_DB, "zone"))},
    {"pod_affinity": _by_pods(_near(_DB, "zone"))},
    {"pod_anti_affinity": _by_pods(_near(_DB, "host"))},
    {"pod_affinity": _by_pods(preferred=_near(_WEB, "zone"), weight=5)},
    {"pod_anti_affinity": _by_pods(_near(LabelSelector(), "host"))},
    {"pod_affinity": _by_pods(_near(_DB, "zone"), _near(_CANARY, "host"))},
    {"pod_anti_affinity": _by_pods(_near(_WEB, "zone"), _near(_NO_APP, "host", "default", "team"))},
    {
        "pod_affinity": _by_pods(_near(_WEB, "zone", "team")),
        "pod_anti_affinity": _by_pods(preferred=_near(_WEB, "host"), weight=3),
    },
    {"pod_affinity": _by_pods(_near(None, "zone"))},
    {
        "pod_affinity": _by_pods(
            _near(LabelSelector(), "zone", "default"), preferred=_near(_NO_APP, "disk")
        )
    },
    {
        "pod_anti_affinity": _by_pods(
            _near(_CANARY, "zone"), preferred=_near(_DB, "zone"), weight=100
        )
    },
)
"""Inter-pod affinities of tasks."""


JobDraft = tuple[bytes, list[bytes]]
"""Trait and state, shape and queue, priority and gang, wait and estimate, groups; its tasks."""

HIGHEST = 15
"""The highest choice in a draft."""

NOW = 100.0
"""The time of snapshots whose jobs have ages, in seconds."""

AGES = (0.0, 90.0, 40.0, 99.0)
"""Creation times, in seconds."""

USERS = ("", "ann", "bob")
"""The users of jobs."""


class TaskSwitches(TypedDict, total=False):
    """Features of tasks, switched on or off; see `batchsched.testing.snapshots`."""

    priorities: bool
    ages: bool
    best_effort: bool
    scalars: bool
    init_requests: bool
    constraints: bool
    affinity: bool
    backfill: bool
    critical: bool
    durations: bool


class JobSwitches(TaskSwitches, total=False):
    """Those of jobs."""

    gangs: bool
    invalid_jobs: bool
    unknown_queues: bool
    groups: bool
    topologies: bool
    devices: bool
    protection: bool


class Switches(JobSwitches, total=False):
    """Those of snapshots."""

    queues: bool
    running: bool
    endings: bool
    reservations: bool
    promises: bool
    other_tasks: bool
    dependencies: bool
    overcommitted: bool
    crowded: bool
    trees: bool
    holds: bool


@frozen(kw_only=True)
class Features:
    """The features that examples may have; see `batchsched.testing.snapshots`."""

    gangs: bool = True
    invalid_jobs: bool = True
    priorities: bool = True
    ages: bool = True
    queues: bool = True
    unknown_queues: bool = True
    best_effort: bool = True
    scalars: bool = True
    init_requests: bool = True
    constraints: bool = True
    affinity: bool = True
    running: bool = True
    endings: bool = True
    backfill: bool = True
    reservations: bool = True
    promises: bool = True
    critical: bool = True
    other_tasks: bool = True
    durations: bool = True
    dependencies: bool = True
    overcommitted: bool = True
    crowded: bool = True
    trees: bool = True
    groups: bool = True
    holds: bool = True
    topologies: bool = True
    devices: bool = True
    protection: bool = True


def now_of(features: Features) -> float:
    """Return the time of a snapshot."""
    return NOW if features.ages else 0.0


def numbered(letter: str) -> Iterator[str]:
    """Yield a letter with 1, 2, and so on."""
    return (f"{letter}{number}" for number in count(1))
