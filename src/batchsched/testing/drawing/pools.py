"""What examples are drawn from: amounts, labels and constraints, and the features in use.

Items are drawn by position. The first item of every pool is the simplest: examples shrink to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


@frozen(kw_only=True)
class Trouble:
    """A problem of a node."""

    taints: tuple[Taint, ...] = ()
    conditions: Mapping[str, str] = {}
    unschedulable: bool = False
    max_tasks: int | None = None


NO_TROUBLE = Trouble()

_MAINTENANCE = Taint(key="maintenance", effect=TaintEffect.NO_SCHEDULE)
_TEAM = Taint(key="team", value="red", effect=TaintEffect.NO_EXECUTE)
_SLOW = Taint(key="slow", effect=TaintEffect.PREFER_NO_SCHEDULE)

TROUBLES = (
    NO_TROUBLE,
    Trouble(max_tasks=2),
    Trouble(unschedulable=True),
    Trouble(taints=(_MAINTENANCE,)),
    Trouble(taints=(_TEAM,)),
    NO_TROUBLE,
    Trouble(max_tasks=1),
    Trouble(conditions={"Ready": "False"}),
    Trouble(conditions={"Ready": "True", "MemoryPressure": "True"}),
    NO_TROUBLE,
    Trouble(taints=(_MAINTENANCE, _TEAM)),
    Trouble(taints=(_SLOW,)),
    Trouble(conditions={"DiskPressure": "True"}),
    Trouble(conditions={"NetworkUnavailable": "True"}),
    Trouble(conditions={"PIDPressure": "True"}, max_tasks=3),
    Trouble(conditions={"Ready": "Unknown"}, taints=(_TEAM,)),
)
"""The problems that nodes can have."""


@frozen(kw_only=True)
class Constraints:
    """The required and preferred constraints of a task on its node."""

    node_selector: Mapping[str, str] = {}
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()


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

CONSTRAINTS = (
    Constraints(),
    Constraints(node_selector={"zone": "z1"}),
    Constraints(tolerations=(_TOLERATES_MAINTENANCE,)),
    Constraints(host_ports=(HostPort(port=80),)),
    Constraints(node_affinity=NodeAffinity(required=(_term(_NOT_Z1),))),
    Constraints(
        node_affinity=NodeAffinity(preferred=(PreferredNodeTerm(weight=10, term=_term(_Z1)),))
    ),
    Constraints(tolerations=(_TOLERATES_ALL,)),
    Constraints(tolerations=(_TOLERATES_RED,), node_selector={"disk": "ssd"}),
    Constraints(host_ports=(HostPort(port=80, address="10.0.0.1"), HostPort(port=443))),
    Constraints(
        host_ports=(HostPort(port=80, protocol="UDP"), HostPort(port=443, address="10.0.0.2"))
    ),
    Constraints(node_affinity=NodeAffinity(required=(_term(_Z1, _SSD), _term(_NEW)))),
    Constraints(node_affinity=NodeAffinity(required=(_FIRST_NODES,))),
    Constraints(
        node_affinity=NodeAffinity(
            required=(_term(_ANY_ZONE, _NO_DISK), _term(_OLD)),
            preferred=(
                PreferredNodeTerm(weight=3, term=_term(_SSD)),
                PreferredNodeTerm(weight=1, term=NodeSelectorTerm()),
            ),
        )
    ),
    Constraints(node_affinity=NodeAffinity(required=(NodeSelectorTerm(),))),
    Constraints(tolerations=(_TOLERATES_BLUE, _TOLERATES_MAINTENANCE)),
    Constraints(
        node_affinity=NodeAffinity(preferred=(PreferredNodeTerm(weight=100, term=_FIRST_NODES),)),
        host_ports=(HostPort(port=80, address="10.0.0.2"),),
        tolerations=(_TOLERATES_ALL,),
    ),
)
"""Constraints of tasks on nodes."""

TASK_LABELS: tuple[Mapping[str, str], ...] = (
    {},
    {"app": "db"},
    {"app": "web"},
    {"app": "db", "track": "canary"},
)
"""Labels of tasks."""


@frozen(kw_only=True)
class Affinities:
    """The inter-pod affinity and anti-affinity of a task."""

    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


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


AFFINITIES = (
    Affinities(),
    Affinities(pod_anti_affinity=PodAffinity(required=(_near(_DB, "zone"),))),
    Affinities(pod_affinity=PodAffinity(required=(_near(_DB, "zone"),))),
    Affinities(pod_anti_affinity=PodAffinity(required=(_near(_DB, "host"),))),
    Affinities(
        pod_affinity=PodAffinity(preferred=(WeightedPodTerm(weight=5, term=_near(_WEB, "zone")),))
    ),
    Affinities(pod_anti_affinity=PodAffinity(required=(_near(LabelSelector(), "host"),))),
    Affinities(
        pod_affinity=PodAffinity(required=(_near(_DB, "zone"), _near(_CANARY, "host"))),
    ),
    Affinities(
        pod_anti_affinity=PodAffinity(
            required=(_near(_WEB, "zone"), _near(_NO_APP, "host", "default", "team"))
        )
    ),
    Affinities(
        pod_affinity=PodAffinity(required=(_near(_WEB, "zone", "team"),)),
        pod_anti_affinity=PodAffinity(
            preferred=(WeightedPodTerm(weight=3, term=_near(_WEB, "host")),)
        ),
    ),
    Affinities(
        pod_affinity=PodAffinity(required=(_near(None, "zone"),)),
    ),
    Affinities(
        pod_affinity=PodAffinity(
            required=(_near(LabelSelector(), "zone", "default"),),
            preferred=(WeightedPodTerm(weight=1, term=_near(_NO_APP, "disk")),),
        ),
    ),
    Affinities(
        pod_anti_affinity=PodAffinity(
            required=(_near(_CANARY, "zone"),),
            preferred=(WeightedPodTerm(weight=100, term=_near(_DB, "zone")),),
        )
    ),
)
"""Inter-pod affinities of tasks."""


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
    topologies: bool


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
    holds: bool = False
    topologies: bool = False


def now_of(features: Features) -> float:
    """Return the time of a snapshot."""
    return NOW if features.ages else 0.0


def numbered(letter: str) -> Iterator[str]:
    """Yield a letter with 1, 2, and so on."""
    return (f"{letter}{number}" for number in count(1))
