"""The scheduler decides like the reference where tasks claim devices, alone or together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from tests.reference import check_reference
from tests.support.clusters import amount, node

WHOLE = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def claim(name: str, count: int, *, together: bool = False) -> DeviceClaim:
    request = DeviceRequest(name="gpu", count=count)
    return DeviceClaim(name=name, requests=[request], shared=f"ns/{name}" if together else None)


OWN = (claim("own", 1), claim("own", 2))
TOGETHER = (
    claim("a", 1, together=True),
    claim("b", 1, together=True),
    claim("c", 2, together=True),
)
CLAIMS: Sequence[tuple[DeviceClaim, ...]] = (
    (),
    OWN[:1],
    OWN[1:],
    *((each,) for each in (*TOGETHER, *TOGETHER)),
    (TOGETHER[0], OWN[0]),
    TOGETHER[:2],
)


@st.composite
def nodes(draw: st.DrawFn, number: int) -> NodeInfo:
    size = draw(st.integers(1, 4))
    devices = [Device(name=f"g{place}") for place in range(draw(st.integers(0, 3)))]
    return evolve(node(f"n{number}", f"{size}C0G"), devices=devices)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    there = [draw(nodes(number)) for number in range(draw(st.integers(1, 3)))]
    common = [Device(name=f"far{n}") for n in range(draw(st.sampled_from((0, 0, 1))))]
    drawn = Drawn(there, common)
    jobs = list[JobInfo]()
    for number in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 3))
        runs = draw(st.sampled_from((True, True, False)))
        jobs.append(
            JobInfo(
                name=f"j{number}",
                queue=draw(st.sampled_from(("q", "r"))),
                priority=draw(st.integers(0, 2)),
                min_available=draw(st.integers(1, size)),
                creation_time=float(number),
                tasks=[
                    drawn.task(
                        f"j{number}-{place}",
                        draw(st.sampled_from(CLAIMS)),
                        draw(st.permutations(range(len(there)))) if runs else (),
                        leaves=draw(st.sampled_from((True, *[False] * 5))),
                    )
                    for place in range(size)
                ],
            )
        )
    queues = [Queue(name="q", weight=draw(st.integers(1, 2))), Queue(name="r")]
    return Snapshot(nodes=there, queues=queues, jobs=jobs, devices=common)


class Drawn:
    """What nodes have left while a cluster is drawn."""

    def __init__(self, there: Sequence[NodeInfo], common: Sequence[Device]) -> None:
        self._there = there
        self._common = common
        self._room = [each.allocatable.milli_cpu for each in there]
        self._held: set[tuple[int | None, str]] = set()
        self._together: dict[str, tuple[int, tuple[DevicePick, ...]]] = {}

    def task(
        self, uid: str, claims: Sequence[DeviceClaim], order: Sequence[int], *, leaves: bool
    ) -> TaskInfo:
        """Return a task that runs on the first node, in some order, with room for it; or waits."""
        made = TaskInfo(uid=uid, name=uid, resreq=amount("1C0G"), claims=claims)
        for place in order:
            picks = self._picks(claims, place) if self._room[place] >= 1000 else None
            if picks is None:
                continue
            self._room[place] -= 1000
            return evolve(
                made,
                status=TaskStatus.RELEASING if leaves else TaskStatus.RUNNING,
                node_name=self._there[place].name,
                devices=picks if claims else None,
            )
        return made

    def _picks(self, claims: Sequence[DeviceClaim], place: int) -> tuple[DevicePick, ...] | None:
        before, found = set(self._held), list[DevicePick]()
        for each in claims:
            its = self._pick(each, place)
            if its is None:
                self._held = before
                return None
            found += its
        for each in claims:
            if each.shared is not None:
                its = tuple(pick for pick in found if pick.claim == each.name)
                self._together.setdefault(each.shared, (place, its))
        return tuple(found)

    def _pick(self, its: DeviceClaim, place: int) -> tuple[DevicePick, ...] | None:
        if its.shared in self._together:
            where, picks = self._together[its.shared]
            far = {device.key for device in self._common}
            reaches = where == place or all(pick.device in far for pick in picks)
            return picks if reaches else None
        [request] = its.requests
        assert isinstance(request.count, int)
        own = [(place, device) for device in self._there[place].devices]
        both = [*own, *((None, device) for device in self._common)]
        free = [(where, d) for where, d in both if (where, d.name) not in self._held]
        if len(free) < request.count:
            return None
        chosen = free[: request.count]
        self._held |= {(where, device.name) for where, device in chosen}
        return tuple(
            DevicePick(claim=its.name, request="gpu", device=d.key, shared=its.shared)
            for _, d in chosen
        )


@settings(max_examples=200)
@given(
    clusters(),
    st.sampled_from([("capacity",), ()]),
    st.permutations(["allocate", "preempt", "reclaim"]),
)
def test_claims_of_devices_are_served_as_in_the_reference(
    snapshot: Snapshot, share: Sequence[str], order: Sequence[str]
) -> None:
    actions = [name for name in order if share or name != "reclaim"]
    devices: Mapping[str, object] = {"name": "devices", "arguments": {"undo": 0}}
    tiers = [
        {"plugins": ["priority", WHOLE, "conformance"]},
        {"plugins": ["predicates", *share, "nodeorder", devices]},
    ]
    config = SchedulerConfig.from_mapping({"actions": ", ".join(actions), "tiers": tiers})
    check_reference(snapshot, Scheduler(config).schedule(snapshot), config)
