"""Room that limits of queues leave only once tasks have been evicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clusters import amount, evicted, job, node, places

from batchsched import (
    Budget,
    JobInfo,
    LabelSelector,
    NodeInfo,
    Queue,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
)
from batchsched.actions.eviction.choosing import fewest_by_halving, fewest_units

TIERS: Sequence[object] = [
    {"plugins": ["priority", {"name": "gang", "arguments": {"atMinimum": "whole-job"}}]},
    {"plugins": ["predicates", "capacity"]},
]
CONFIG = {"actions": "allocate, preempt", "tiers": TIERS}


def decided(
    snapshot: Snapshot, *, plain: bool | set[str], of: Mapping[str, object] = CONFIG
) -> tuple[list[str], dict[str, str], str]:
    config = SchedulerConfig.from_mapping(of)
    result = Scheduler(config, plain=plain).schedule(snapshot)
    pending = result.pending.get("high-1")
    return evicted(result), places(result, "high"), "" if pending is None else str(pending)


def limited(cpus: int, nodes: Sequence[NodeInfo], *jobs: JobInfo) -> Snapshot:
    """A queue with a limit; tasks have the priorities of their jobs."""
    ranked = [
        evolve(one, tasks=[evolve(task, priority=one.priority) for task in one.tasks])
        for one in jobs
    ]
    queues = [Queue(name="q", limit=ResourceLimit(milli_cpu=cpus * 1000)), Queue(name="other")]
    return Snapshot(nodes=nodes, jobs=ranked, queues=queues)


both = pytest.mark.parametrize("plain", [False, True])


@both
def test_a_queue_at_its_limit_serves_its_own_priorities_although_the_node_has_room(
    plain: bool,
) -> None:
    snapshot = limited(
        2,
        [node("n1", "8C8G")],
        job("low", "1C1G@n1", priority=1),
        job("mid", "1C1G@n1", priority=5),
        job("high", "1C1G", priority=9),
    )
    assert decided(snapshot, plain=plain)[:2] == (["low-1"], {"high-1": "Pipelined n1"})


@both
def test_whoever_leaves_may_run_on_another_node(plain: bool) -> None:
    snapshot = limited(
        1,
        [node("n1", "1C1G"), node("n2", "1C1G", labels={"fast": "yes"})],
        job("low", "1C1G@n1", priority=1),
        _only_on_fast(job("high", "1C1G", priority=9)),
    )
    assert decided(snapshot, plain=plain)[:2] == (["low-1"], {"high-1": "Pipelined n2"})


@both
@pytest.mark.parametrize("leaves", [True, False])
def test_a_node_that_refuses_only_because_of_what_is_leaving_is_not_short_itself(
    plain: bool, leaves: bool
) -> None:
    snapshot = limited(
        1,
        [node("n1", "1C1G"), node("n2", "8C8G", labels={"fast": "yes"}, max_tasks=1)],
        job("low", "1C1G@n1", priority=1),
        job("old", "1C1G!n2" if leaves else "1C1G@n2", queue="other"),
        _only_on_fast(job("high", "1C1G", priority=9)),
    )
    cures: dict[str, object] = {
        **CONFIG,
        "actions": ["allocate", {"name": "preempt", "arguments": {"curable": True}}],
    }
    expected: tuple[list[str], str] = (["low-1"], "Pipelined n2")
    if not leaves:
        expected = ([], "Pending")
    gone, where, _ = decided(snapshot, plain=plain, of=cures)
    assert (gone, where["high-1"]) == expected


@pytest.mark.parametrize("plain", [False, True, {"loans"}, {"room"}])
def test_where_devices_were_lost_evictions_leave_less_room_for_all(plain: bool | set[str]) -> None:
    # On 2 cpus, 5 are in use. Once the 4 lent ones are free, there are 2, and 1 is guaranteed.
    snapshot = Snapshot(
        nodes=[node("n1", "2C2G")],
        queues=[Queue(name="q"), Queue(name="other", guarantee=amount("1C0G"))],
        jobs=[
            job("low", "1C1G@n1", priority=1),
            job("lent", "4C1G@n1*", priority=1),
            job("high", "1C1G", priority=9),
        ],
    )
    gone, where, _ = decided(snapshot, plain=plain, of={**CONFIG, "actions": "preempt"})
    assert sorted(gone) == ["lent-1", "low-1"]
    assert where == {"high-1": "Pipelined n1"}


def _only_on_fast(one: JobInfo) -> JobInfo:
    return evolve(one, tasks=[evolve(t, node_selector={"fast": "yes"}) for t in one.tasks])


@both
def test_where_room_has_to_be_freed_only_those_who_free_it_leave(plain: bool) -> None:
    snapshot = limited(
        2,
        [node("n1", "1C1G"), node("n2", "1C1G", labels={"fast": "yes"})],
        job("least", "1C1G@n1", priority=1),
        job("low", "1C1G@n2", priority=2),
        _only_on_fast(job("high", "1C1G", priority=9)),
    )
    assert decided(snapshot, plain=plain)[:2] == (["low-1"], {"high-1": "Pipelined n2"})


@both
def test_nobody_leaves_if_the_limit_would_still_be_exceeded(plain: bool) -> None:
    snapshot = limited(
        2,
        [node("n1", "8C8G")],
        job("low", "1C1G@n1", priority=1),
        job("high", "3C1G", priority=9),
    )
    gone, where, why = decided(snapshot, plain=plain)
    assert not gone
    assert where == {"high-1": "Pending"}
    assert "3 cpu exceed the limit of 2 of queue 'q'" in why


@both
def test_a_whole_gang_leaves_where_a_part_of_it_would_be_enough_for_the_limit(plain: bool) -> None:
    snapshot = limited(
        3,
        [node("n1", "2C2G"), node("n2", "2C2G")],
        job("gang", "1C1G@n1", "1C1G@n2", "1C1G@n2", priority=1),
        job("high", "1C1G", priority=9),
    )
    gone, where, _ = decided(snapshot, plain=plain)
    assert gone == ["gang-3", "gang-2", "gang-1"]
    assert where == {"high-1": "Pipelined n1"}


RANKS = st.integers(0, 3)
SIZES = st.integers(1, 2)
NODE = st.tuples(st.lists(st.tuples(SIZES, RANKS), min_size=1, max_size=3), st.booleans())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(NODE, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 3), SIZES, RANKS), min_size=1, max_size=3),
    st.integers(0, 3),
    st.integers(0, 2),
    st.booleans(),
)
def test_on_full_clusters_room_within_limits_is_what_is_found_by_looking_at_everybody(
    nodes: list[tuple[list[tuple[int, int]], bool]],
    waiting: list[tuple[int, int, int]],
    spare: int,
    least: int,
    is_hard: bool,
) -> None:
    running: list[JobInfo] = []
    full: list[NodeInfo] = []
    for at, (tasks, is_gang) in enumerate(nodes):
        shapes = [f"{size}C1G@n{at}" for size, _ in tasks]
        gangs = [shapes] if is_gang else [[shape] for shape in shapes]
        running += [
            evolve(job(f"r{at}-{number}", *gang), priority=rank)
            for number, (gang, (_, rank)) in enumerate(zip(gangs, tasks, strict=False))
        ]
        full.append(node(f"n{at}", f"{sum(size for size, _ in tasks)}C9G"))
    high = [
        evolve(job(f"high{at}", *[f"{size}C1G"] * count), priority=3 + rank)
        for at, (size, count, rank) in enumerate(waiting)
    ]
    held = sum(size for tasks, _ in nodes for size, _ in tasks)
    snapshot = limited(max(0, held - spare), full, *running, *high)
    keep = Budget(name="all", selector=LabelSelector(), hard=is_hard, min_available=least)
    snapshot = evolve(snapshot, budgets=[keep])
    tiers = [*TIERS, {"plugins": ["protection"]}]
    config = SchedulerConfig.from_mapping({**CONFIG, "tiers": tiers})
    result = Scheduler(config).schedule(snapshot)
    assert result == Scheduler(config, plain=True).schedule(snapshot)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sets(st.integers(0, 5), min_size=1), max_size=12), st.sets(st.integers(0, 5)))
def test_by_halving_the_same_units_are_chosen_as_one_by_one(
    holds: list[set[int]], wanted: set[int]
) -> None:
    def is_enough(units: Sequence[set[int]]) -> bool:
        return wanted <= {each for unit in units for each in unit}

    chosen = fewest_by_halving(holds, is_enough)  # type: ignore[arg-type]
    assert chosen == fewest_units(holds, is_enough)  # type: ignore[arg-type]
