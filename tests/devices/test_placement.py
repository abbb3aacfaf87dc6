"""Laws of the plugin placement: what it chooses is what plain loops over fractions choose."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    ConfigError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
)
from batchsched.devices import Device, DeviceClaim, DeviceRequest

MODELS = ("A", "B")
Asked = tuple[int, int, int, str]
"""Of a task: milli-cpu, number of devices, thousandths of each, model or nothing."""


def config(order: str, **placement: Any) -> SchedulerConfig:
    plugins = [
        {"name": "predicates"},
        {"name": "devices", "arguments": {"order": order}},
        {"name": "placement", "arguments": placement},
    ]
    return SchedulerConfig.from_mapping({"actions": ["allocate"], "tiers": [{"plugins": plugins}]})


asked = st.tuples(
    st.sampled_from([0, 500, 1000, 1500]),
    st.sampled_from([0, 1, 1, 1, 2]),
    st.sampled_from([200, 300, 500, 700, 1000]),
    st.sampled_from(["", "", *MODELS]),
).map(lambda each: (*each[:2], each[2] if each[1] == 1 else 1000, each[3]))
worlds = st.tuples(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 3), st.sampled_from(MODELS)),
        min_size=1,
        max_size=4,
    ),
    st.lists(asked, min_size=1, max_size=14),
)


def snapshot_of(nodes: list[tuple[int, int, str]], tasks: list[Asked]) -> Snapshot:
    def devices(count: int, model: str) -> list[Device]:
        return [
            Device(name=f"g{n}", attributes={"m": model}, capacity={"milli": 1000}, shared=True)
            for n in range(count)
        ]

    def claims(_: int, count: int, milli: int, model: str) -> list[DeviceClaim]:
        request = DeviceRequest(
            name="gpu",
            count=max(count, 1),
            select=[f'device.attributes[""].m == "{model}"'] if model else [],
            capacity={} if milli == 1000 else {"milli": milli},
        )
        return [DeviceClaim(name="c", requests=[request])] if count else []

    return Snapshot(
        nodes=[
            NodeInfo(
                name=f"n{at}",
                allocatable=Resource(milli_cpu=1000 * cpus),
                devices=devices(count, model),
            )
            for at, (cpus, count, model) in enumerate(nodes)
        ],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(
                name=f"{at:02}",
                queue="q",
                creation_time=at,
                tasks=[
                    TaskInfo(
                        uid=f"{at:02}",
                        name=f"{at:02}",
                        resreq=Resource(milli_cpu=each[0] + 1),
                        claims=claims(*each),
                    )
                ],
            )
            for at, each in enumerate(tasks)
        ],
    )


class Plain:
    """Decides again, in plain loops."""

    def __init__(self, nodes: list[tuple[int, int, str]], tasks: list[Asked], width: int) -> None:
        self.cpu = [1000 * cpus for cpus, _, _ in nodes]
        self.there = list(self.cpu)
        self.left = [[1000] * count for _, count, _ in nodes]
        self.models = [model for _, _, model in nodes]
        self.width = width
        self.most = max(self.cpu), max(sum(left) for left in self.left)
        counts = Counter((c + 1, n, m if n else 0, s if n else "") for c, n, m, s in tasks)
        self.shapes: list[tuple[Asked, int]] = []
        for shape, count in counts.most_common():
            covered = sum(n for _, n in self.shapes)
            if covered * 100 >= 95 * len(tasks) and count < self.shapes[-1][1]:
                break
            self.shapes.append((shape, count))

    def useless(self, cpu: int, left: list[int], model: str) -> int:
        total = 0
        for (needs, count, milli, only), number in self.shapes:
            usable = [here for here in left if here >= milli and only in ("", model)]
            runs = count and cpu >= needs and len(usable) >= count
            total += number * (sum(left) - (sum(usable) if runs else 0))
        return total

    def loses(self, at: int, cpu: int, taken: dict[int, int]) -> int:
        left = self.left[at]
        after = [here - taken.get(n, 0) for n, here in enumerate(left)]
        before = self.useless(self.cpu[at], left, self.models[at])
        delta = before - self.useless(self.cpu[at] - cpu, after, self.models[at])
        return delta // (self.width * sum(number for _, number in self.shapes))

    def devices(self, at: int, task: Asked, scored: bool) -> list[int] | None:
        cpu, count, milli, only = task
        if count and only not in ("", self.models[at]):
            return None
        places = [n for n, here in enumerate(self.left[at]) if here >= milli]
        if count == 1 and milli < 1000 and scored:
            places.sort(key=lambda n: -self.loses(at, cpu + 1, {n: milli}))
        return places[:count] if len(places) >= count else None

    def place(self, task: Asked, strategy: str) -> tuple[int, list[int]] | None:
        cpu, count, milli, _ = task
        best: tuple[Any, int, list[int]] | None = None
        for at, there in enumerate(self.there):
            found = self.devices(at, task, strategy == "fgd")
            if self.cpu[at] < cpu + 1 or found is None:
                continue
            taken = dict.fromkeys(found, milli)
            left = self.cpu[at] - cpu - 1
            fit = Fraction(left, self.most[0])
            if self.most[1]:
                fit += Fraction(sum(self.left[at]) - sum(taken.values()), self.most[1])
            if strategy == "fgd":
                key = (-self.loses(at, cpu + 1, taken), 0 if count else fit)
            elif strategy == "binpack":
                key = (-floor(Fraction(100 * (there - left), there)), fit)
            else:
                key = (-floor(Fraction(100 * left, there)), -fit)
            if best is None or key < best[0]:
                best = key, at, found
        if best is None:
            return None
        _, at, found = best
        self.cpu[at] -= cpu + 1
        for n in found:
            self.left[at][n] -= milli
        return at, found


@pytest.mark.parametrize("strategy", ["fgd", "binpack", "spread"])
@given(worlds)
@settings(max_examples=40)
def test_what_is_chosen_is_what_plain_loops_choose(
    strategy: str, world: tuple[list[tuple[int, int, str]], list[Asked]]
) -> None:
    nodes, tasks = world
    given_order = "scored" if strategy == "fgd" else "listed"
    given = config(given_order, strategy=strategy)
    snapshot = snapshot_of(nodes, tasks)
    result = Scheduler(given).schedule(snapshot)
    assert Scheduler(given, plain=True).schedule(snapshot) == result
    plain = Plain(nodes, tasks, width=40)
    expected = {}
    for at, task in enumerate(tasks):
        found = plain.place(task, strategy)
        if found is not None:
            expected[f"{at:02}"] = f"n{found[0]}", sorted(f"g{n}" for n in found[1])
    assert {
        bind.task_uid: (bind.node_name, sorted(pick.device[2] for pick in bind.devices or ()))
        for bind in result.binds
    } == expected


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"strategy": "fdg"}, "expected one of binpack, spread, fgd, got 'fdg'"),
        ({"weights": "cpu=-1"}, "expected whole numbers by name, such as 'cpu=1,"),
        ({"weights": {"cpu": -1}}, "expected whole numbers by name"),
        ({"classes": 0}, "expected 1 or more, got 0"),
        ({"width": 0}, "expected 1 or more, got 0"),
    ],
)
def test_arguments_that_are_wrong_are_told(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Scheduler(config("listed", **wrong))
