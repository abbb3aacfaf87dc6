"""Devices and claims, which are added to nodes and jobs that were drawn without."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.devices import (
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    Milli,
    allocate,
)
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.constraints import Taint, TaintEffect, Toleration
from batchsched.model.snapshot import Snapshot

_TAINT = Taint(key="worn", effect=TaintEffect.NO_SCHEDULE)
_DEVICES = (
    Device(name="g", attributes={"m": 0}),
    Device(name="g", attributes={"m": 1}),
    Device(name="g", attributes={"m": 0}, capacity={"milli": 1000}, shared=True),
    Device(
        name="g",
        attributes={"m": (0, 1)},
        capacity={"milli": 800},
        policies={"milli": CapacityPolicy(default=400, min=200, step=200)},
        shared=True,
    ),
    Device(name="g", attributes={"m": 1}, taints=[_TAINT]),
    Device(name="g", pool="parts", counters={"gpu": {"slices": 3}}),
    Device(name="g", pool="parts", counters={"gpu": {"slices": 4}}),
)
_SLICES = CounterSet(name="gpu", pool="parts", counters={"slices": 7})


def _request(**more: object) -> DeviceRequest:
    return DeviceRequest(name="r", **more)  # type: ignore[arg-type]  # the fields say which


_REQUESTS = (
    _request(),
    _request(capacity={"milli": 300}),
    _request(capacity={"milli": Milli(500)}),
    _request(count=2),
    _request(select=['device.attributes[""].m == 1'], tolerations=[Toleration(key="worn")]),
    _request(admin=True),
    _request(count="all", select=['device.attributes[""].m == 0']),
    DeviceRequest(
        name="r",
        alternatives=[
            evolve(_request(count=2), name="a"),
            evolve(_request(capacity={"milli": 200}), name="b"),
        ],
    ),
)
_CONSTRAINTS = ((), (DeviceConstraint(same="m"),), (DeviceConstraint(distinct="m"),))
_CLAIMS = tuple(
    DeviceClaim(name="c", requests=[request], constraints=constraints)
    for request in _REQUESTS
    for constraints in _CONSTRAINTS
)
_TOGETHER = tuple(
    DeviceClaim(name="c", requests=[_REQUESTS[n]], shared=f"ns/claim-{n}") for n in (0, 1, 4)
)
"""Claims that tasks have together, whoever names them."""
_WITHOUT_COUNTERS = tuple(device for device in _DEVICES if not device.counters)

OfNode = tuple[list[Device], int]
"""The devices of a node, and the kind of pools they are in."""
OfTask = tuple[DeviceClaim | None, bool]
"""The claim of a task, and whether it is known what the task has, if it runs."""


def with_devices(drawn: SearchStrategy[Snapshot], /) -> SearchStrategy[Snapshot]:
    """Return a strategy for the same snapshots with devices, and tasks that claim them.

    Devices are whole or in parts, partitions that draw on counters, tainted, of pools that are
    closed, or such that several nodes reach. Some claims are of several tasks. What running tasks
    have is known of most of them.
    """
    of_node = st.tuples(st.lists(st.sampled_from(_DEVICES), max_size=3), st.integers(0, 7))
    return st.builds(
        _added,
        drawn,
        st.lists(of_node, min_size=1, max_size=3),
        st.lists(
            st.tuples(st.sampled_from((None, *_CLAIMS, *_TOGETHER)), st.booleans()),
            min_size=1,
            max_size=6,
        ),
        st.sampled_from([0, 0, 0, 1, 2]),
    )


def _added(
    snapshot: Snapshot,
    of_nodes: Sequence[OfNode],
    claims: Sequence[OfTask],
    common: int,
) -> Snapshot:
    nodes, jobs, reached = equipped(snapshot.nodes, snapshot.jobs, of_nodes, claims, common)
    return evolve(snapshot, nodes=nodes, jobs=jobs, devices=reached)


DEVICE_DRAFTS = st.binary(min_size=10, max_size=10)
"""The devices of three kinds of nodes, the claims of six tasks, and what several nodes reach."""


def with_drafts(draft: bytes) -> tuple[Sequence[OfNode], Sequence[OfTask], int]:
    """Return what a draft says of nodes and tasks, and how many devices several nodes reach."""
    of_nodes: list[OfNode] = []
    for each in draft[:3]:
        first, count = divmod(each, 4)
        devices = [_DEVICES[(first + place) % len(_DEVICES)] for place in range(count)]
        of_nodes.append((devices, each // 8 % 8))
    of_tasks: list[OfTask] = []
    for each in draft[3:9]:
        choice, kind = divmod(each, 8)
        pool = (_CLAIMS, _CLAIMS, _TOGETHER)[kind % 3] if kind > 2 else (None,)
        of_tasks.append((pool[choice % len(pool)], choice % 4 != 3))
    return of_nodes, of_tasks, max(0, draft[9] % 5 - 2)


def equipped(
    before: Sequence[NodeInfo],
    jobs: Sequence[JobInfo],
    of_nodes: Sequence[OfNode],
    claims: Sequence[OfTask],
    common: int,
) -> tuple[list[NodeInfo], list[JobInfo], list[Device]]:
    """Return nodes and jobs with devices and claims, and the devices that several nodes reach.

    Args:
        before: nodes without devices.
        jobs: jobs without claims.
        of_nodes: what nodes have, in turn.
        claims: what tasks claim, in turn, and whether it is known what running ones have.
        common: how many devices several nodes reach.
    """
    nodes: list[NodeInfo] = []
    for place, node in enumerate(before):
        devices, kind = of_nodes[place % len(of_nodes)]
        pool = f"parts-{node.name}" if kind % 2 else "parts"
        named = [
            evolve(each, name=f"g{n}", pool=pool if each.pool else "")
            for n, each in enumerate(devices)
        ]
        nodes.append(
            evolve(
                node,
                devices=named,
                counter_sets=[evolve(_SLICES, pool=pool)],
                closed_pools=[("", "")] if kind == 0 else [],
            )
        )
    by_name = {node.name: node for node in nodes}
    held: dict[str, list[DevicePick]] = {}
    together: dict[str, tuple[str, tuple[DevicePick, ...]]] = {}
    in_turn = cycle(claims)

    def claiming(task: TaskInfo) -> TaskInfo:
        claim, is_known = next(in_turn)
        if claim is None:
            return task
        there = by_name.get(task.node_name or "")
        promised = task.status is TaskStatus.PIPELINED
        picks = None
        if there is None or not is_known or not (task.status.holds or promised):
            pass
        elif claim.shared in together:
            where, its = together[claim.shared]
            picks = its if where == there.name else None
        else:
            # What is promised may be somebody's who leaves.
            picks = allocate(
                [claim],
                there.devices,
                there.counter_sets,
                held=() if promised else held.get(there.name, ()),
                closed_pools=there.closed_pools,
            )
            if not promised:
                held.setdefault(there.name, []).extend(picks or ())
            if claim.shared is not None and picks:
                together[claim.shared] = there.name, picks
        return evolve(task, claims=[claim], devices=picks)

    claimants = [evolve(job, tasks=list(map(claiming, job.tasks))) for job in jobs]
    reached = [Device(name=f"common-{n}", attributes={"m": n % 2}) for n in range(common)]
    return nodes, claimants, reached


def claiming_job(job: JobInfo, draft: int) -> JobInfo:
    """Return a job whose tasks may claim devices; most claim none."""
    choice, kind = divmod(draft, 8)
    if kind < 6:
        return job
    claim = _CLAIMS[choice % len(_CLAIMS)]
    return evolve(job, tasks=[evolve(task, claims=[claim]) for task in job.tasks])


def equipped_node(node: NodeInfo, draft: bytes) -> NodeInfo:
    """Return a node that may have devices; most have none."""
    first, count = divmod((draft[0] * 31 + draft[1] * 17) % 64, 8)
    devices = [
        evolve(_WITHOUT_COUNTERS[(first + n) % len(_WITHOUT_COUNTERS)], name=f"g{n}")
        for n in range(max(0, count - 5))
    ]
    return evolve(node, devices=devices)
