"""Each shortcut decides what its plain definition decides: the law of plain twins."""

from __future__ import annotations

from functools import cache

import pytest
from benchmarks.catalogue import WORKLOADS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.living import Life

from batchsched import ConfigError, CycleResult, Scheduler, SchedulerConfig, Snapshot, explain
from batchsched.live import Cluster
from batchsched.placement.plain_loop import LinearScanPlacement
from batchsched.testing import configs, snapshots

DOORS = ("turns", "attempts", "room", "loans", "engine", "cycles")
SCALE = 1 / 50
SMALLER = 1 / 250
"""For definitions that walk all units of a queue, or all its victims, for each question."""
some = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


def decide(config: SchedulerConfig, snapshot: Snapshot, *doors: str) -> CycleResult:
    return Scheduler(config, plain=doors).schedule(snapshot)


@some
@given(snapshots(), configs())
def test_a_plain_cycle_decides_and_says_the_same(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    fast = decide(config, snapshot)
    plain = Scheduler(config, plain=True).schedule(snapshot)
    assert plain == fast
    for uid in list(fast.pending)[:2]:
        assert explain(snapshot, plain, uid, config=config) == explain(
            snapshot, fast, uid, config=config
        )


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_each_door_alone_may_be_plain(door: str) -> None:
    @few
    @given(snapshots(), configs())
    def law(snapshot: Snapshot, config: SchedulerConfig) -> None:
        assert decide(config, snapshot, door) == decide(config, snapshot)

    law()


@pytest.mark.parametrize(
    "doors",
    [DOORS, *(pytest.param((door,), marks=pytest.mark.slow, id=door) for door in DOORS)],
    ids=" ".join,
)
def test_a_living_cluster_decides_the_same_behind_plain_doors(doors: tuple[str, ...]) -> None:
    @settings(few, max_examples=30 if len(doors) > 1 else 8)
    @given(st.integers(0, 1 << 32), configs(), st.booleans())
    def law(seed: int, config: SchedulerConfig, is_simple: bool) -> None:
        life = Life(seed, plain=is_simple)
        cluster = Cluster(life.start())
        fast = Scheduler(config).attach(cluster)
        plain = Scheduler(config, plain=doors).attach(cluster)
        for _ in range(5):
            result = fast.schedule()
            assert plain.schedule() == result
            cluster.carry_out(result, at_once=True)
            cluster.apply(*life.events(cluster.snapshot()))

    law()


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("door", DOORS[:-1])
def test_each_door_alone_may_be_plain_in_the_workloads_that_are_measured(
    name: str, door: str
) -> None:
    scale = SMALLER if door == "loans" or (door == "room" and "tree" in name) else SCALE
    assert decided(name, door, scale) == decided(name, "", scale)


@cache
def decided(name: str, door: str, scale: float) -> list[CycleResult]:
    scenario = WORKLOADS[name].make(scale)
    scheduler = Scheduler(scenario.config, plain={door} if door else False)
    advance = None if scenario.advance is None else scenario.advance()
    snapshot = scenario.snapshot
    results: list[CycleResult] = []
    for _ in range(min(scenario.cycles, 20)):
        results.append(scheduler.schedule(snapshot))
        if advance is not None:
            snapshot = advance(snapshot, results[-1])
    return results


def test_plain_goes_neither_with_warm_nor_with_an_engine() -> None:
    with pytest.raises(ConfigError, match="plain: expected no warm with it"):
        Scheduler(warm=True, plain=True)
    with pytest.raises(ConfigError, match="plain: expected no placement with it"):
        Scheduler(placement=LinearScanPlacement, plain={"room"})


@pytest.mark.parametrize("wrong", ["room", 1, {"rooms"}, None])
def test_other_values_of_plain_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="plain: expected True, False or some of turns, attempts"):
        Scheduler(plain=wrong)  # type: ignore[arg-type]
