"""The strategy for devices and claims: they are added to snapshots that another strategy drew."""

from __future__ import annotations

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
from batchsched.model.cluster import NodeInfo, TaskInfo
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
    of_nodes: list[tuple[list[Device], int]],
    claims: list[tuple[DeviceClaim | None, bool]],
    common: int,
) -> Snapshot:
    nodes: list[NodeInfo] = []
    for place, node in enumerate(snapshot.nodes):
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
    held: dict[str, list[DevicePick]] = {}
    together: dict[str, tuple[str, tuple[DevicePick, ...]]] = {}
    in_turn = cycle(claims)

    def claiming(task: TaskInfo) -> TaskInfo:
        claim, is_known = next(in_turn)
        if claim is None:
            return task
        there = next((each for each in nodes if each.name == task.node_name), None)
        picks = None
        if there is not None and task.status.holds and is_known and claim.shared in together:
            where, its = together[claim.shared]
            picks = its if where == there.name else None
        elif there is not None and task.status.holds and is_known:
            picks = allocate(
                [claim],
                there.devices,
                there.counter_sets,
                held=held.get(there.name, ()),
                closed_pools=there.closed_pools,
            )
            held.setdefault(there.name, []).extend(picks or ())
            if claim.shared is not None and picks:
                together[claim.shared] = there.name, picks
        return evolve(task, claims=[claim], devices=picks)

    jobs = [evolve(job, tasks=list(map(claiming, job.tasks))) for job in snapshot.jobs]
    reached = [Device(name=f"common-{n}", attributes={"m": n % 2}) for n in range(common)]
    return evolve(snapshot, nodes=nodes, jobs=jobs, devices=reached)
