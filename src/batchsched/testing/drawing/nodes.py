"""Nodes and resources, and what becomes of nodes when their tasks are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.errors import Fault
from batchsched.model.cluster import NodeInfo, TaskInfo, TaskStatus
from batchsched.model.resources import Resource
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import amount_map_problems
from batchsched.testing.drawing.arguments import built, expect_no, not_names, too_small
from batchsched.testing.drawing.devices import equipped_node
from batchsched.testing.drawing.labels import Labels, labelled, not_labels, with_labels
from batchsched.testing.drawing.pools import (
    GIB,
    HIGHEST,
    NODE_LABELS,
    NODE_SIZES,
    TROUBLES,
    Features,
    with_devices,
)
from batchsched.testing.drawing.racks import rack_labels

# Drawing is far slower than building, so as much as possible is drawn at once. Bytes are drawn
# uniformly, and each of them shrinks towards 0 separately.

NODE_DRAFTS = st.binary(min_size=2, max_size=2)
"""Labels and size, devices and trouble."""

_SPARE = (Resource(), Resource(milli_cpu=1000, memory=GIB), Resource(), Resource(milli_cpu=500))
"""What crowded nodes have besides what their tasks hold."""

_SHRINKS_ONE_IN = 7
"""Three of this many nodes have lost resources, if nodes may be overcommitted."""


def build_node(draft: bytes, name: str, features: Features) -> NodeInfo:
    """Return the node that a draft describes."""
    labels, size = divmod(draft[0], 16)
    devices, trouble = divmod(draft[1], 16)
    allocatable = NODE_SIZES[size % len(NODE_SIZES)]
    if features.scalars:
        allocatable = with_devices(allocatable, (0, 2, 1, 4)[devices % 4], int(devices % 3 == 2))
    named: dict[str, str] = {}
    if features.constraints or features.affinity:
        named.update(NODE_LABELS[labels % len(NODE_LABELS)])
    if features.affinity and labels < HIGHEST:
        named["host"] = name
    return NodeInfo(
        name=name,
        allocatable=allocatable,
        labels=named,
        **TROUBLES[trouble if features.constraints else 0],
    )


def shrunk(node: NodeInfo, draft: bytes) -> NodeInfo:
    """Return a node, possibly with fewer resources than when its tasks were placed there."""
    there = node.allocatable
    match (draft[0] + draft[1]) % _SHRINKS_ONE_IN:
        case 1:
            left = evolve(there, milli_cpu=there.milli_cpu // 2)
        case 2:
            left = evolve(there, memory=there.memory // 2)
        case 3:
            left = evolve(there, scalars={})
        case _:
            return node
    return evolve(node, allocatable=left)


def stranded(before: Sequence[NodeInfo], after: Sequence[NodeInfo]) -> list[TaskInfo]:
    """Return tasks of no job that hold devices which nodes have no more."""
    return [
        TaskInfo(
            uid=f"stranded-{node.name}",
            name=f"stranded-{node.name}",
            resreq=Resource(scalars={device: _WHOLE}),
            status=TaskStatus.RUNNING,
            node_name=node.name,
        )
        for node, was in zip(after, before, strict=True)
        for device in sorted(was.allocatable.scalars)[-1:]
        if not node.allocatable.scalars
    ]


def filled(
    nodes: Sequence[NodeInfo], drafts: Sequence[bytes], tasks: Iterable[TaskInfo]
) -> list[NodeInfo]:
    """Return nodes with a CPU and a GiB at most besides what tasks hold, and no unused devices."""
    held: dict[str | None, Resource] = {}
    for task in tasks:
        if task.status.holds:
            held[task.node_name] = held.get(task.node_name, Resource()) + task.resreq
    return [
        evolve(node, allocatable=held.get(node.name, Resource()) + _SPARE[draft[0] % len(_SPARE)])
        for node, draft in zip(nodes, drafts, strict=True)
    ]


_HALF, _WHOLE = 500, 1000
"""Half a CPU, and a whole device, in thousandths."""


@checks_arguments()
def resources(
    *,
    max_milli_cpu: int = 4000,
    max_memory: int = 8 * GIB,
    scalars: Sequence[str] = (),
    max_scalar: int = 4000,
    may_be_empty: bool = True,
) -> SearchStrategy[Resource]:
    """Draw resources, in steps of half a CPU, a GiB and a whole device, up to the maximum.

    Args:
        max_milli_cpu: the most CPU, in thousandths.
        max_memory: the most memory, in bytes.
        scalars: the names of possible scalars.
        max_scalar: the most of each scalar, in thousandths.
        may_be_empty: whether it may be empty; if not, it has some CPU.

    Raises:
        FaultsError: invalid arguments; all faults at once. It is a `ValueError`.

    >>> from hypothesis import find
    >>> find(resources(), lambda resource: resource.memory > 0).memory > 0
    True

    """
    names = tuple(sorted(set(scalars)))
    problems = amount_map_problems("scalars", dict.fromkeys(filter(None, names), 0))
    expect_no(
        too_small(0 if may_be_empty else 1, max_milli_cpu=max_milli_cpu),
        too_small(0, max_memory=max_memory, max_scalar=max_scalar),
        not_names("scalars", scalars),
        (Fault(*problem) for problem in problems),
    )

    def resource(draft: tuple[int, int, tuple[int, ...]]) -> Resource:
        halves, gibs, devices = draft
        counts = zip(names, devices, strict=True)
        return Resource(
            milli_cpu=min(_HALF * halves, max_milli_cpu),
            memory=min(GIB * gibs, max_memory),
            scalars={name: min(_WHOLE * count, max_scalar) for name, count in counts if count},
        )

    drafts = st.tuples(
        st.integers(0 if may_be_empty else 1, ceil(max_milli_cpu / _HALF)),
        st.integers(0, ceil(max_memory / GIB)),
        st.tuples(*(st.integers(0, ceil(max_scalar / _WHOLE)) for _ in names)),
    )
    return built(drafts, resource)


@checks_arguments()
def nodes(
    *,
    name: str = "n1",
    scalars: bool = True,
    constraints: bool = True,
    affinity: bool = True,
    topologies: bool = True,
    devices: bool = True,
    labels: Labels = None,
) -> SearchStrategy[NodeInfo]:
    """Draw nodes with a given name; for the switches and labels see `snapshots`.

    Raises:
        FaultsError: invalid arguments; all faults at once.

    """
    expect_no(not_labels(labels))
    features = Features(scalars=scalars, constraints=constraints, affinity=affinity)

    def node(draft: bytes) -> NodeInfo:
        drawn = build_node(draft, name, features)
        if topologies:
            drawn = evolve(drawn, labels={**drawn.labels, **rack_labels(draft)})
        return equipped_node(drawn, draft) if devices else drawn

    return with_labels(built(NODE_DRAFTS, node), labels, labelled)
