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

SHORTCUTS = ("turns", "attempts", "room", "loans", "engine", "passes", "cycles")
SCALE = 1 / 50
SMALLER = 1 / 250
"""For definitions that walk all units of a queue, or all its victims, for each question."""
some = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


def decide(config: SchedulerConfig, snapshot: Snapshot, *shortcuts: str) -> CycleResult:
    return Scheduler(config, plain=shortcuts).schedule(snapshot)


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
@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_each_shortcut_alone_may_be_plain(shortcut: str) -> None:
    @few
    @given(snapshots(), configs())
    def law(snapshot: Snapshot, config: SchedulerConfig) -> None:
        assert decide(config, snapshot, shortcut) == decide(config, snapshot)

    law()


@pytest.mark.parametrize(
    "shortcuts",
    [
        SHORTCUTS,
        *(pytest.param((shortcut,), marks=pytest.mark.slow, id=shortcut) for shortcut in SHORTCUTS),
    ],
    ids=" ".join,
)
def test_a_living_cluster_decides_the_same_without_shortcuts(shortcuts: tuple[str, ...]) -> None:
    @settings(few, max_examples=30 if len(shortcuts) > 1 else 8)
    @given(st.integers(0, 1 << 32), configs(), st.booleans())
    def law(seed: int, config: SchedulerConfig, is_simple: bool) -> None:
        life = Life(seed, plain=is_simple)
        cluster = Cluster(life.start())
        fast = Scheduler(config).attach(cluster)
        plain = Scheduler(config, plain=shortcuts).attach(cluster)
        for _ in range(5):
            result = fast.schedule()
            assert plain.schedule() == result
            cluster.carry_out(result, at_once=True)
            cluster.apply(*life.events(cluster.snapshot()))

    law()


@pytest.mark.slow
@pytest.mark.night
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("shortcut", SHORTCUTS[:-1])
def test_each_shortcut_alone_may_be_plain_in_the_workloads_that_are_measured(
    name: str, shortcut: str
) -> None:
    scale = SMALLER if shortcut == "loans" or (shortcut == "room" and "tree" in name) else SCALE
    assert decided(name, shortcut, scale) == decided(name, "", scale)


@cache
def decided(name: str, shortcut: str, scale: float) -> list[CycleResult]:
    scenario = WORKLOADS[name].make(scale)
    scheduler = Scheduler(scenario.config, plain={shortcut} if shortcut else False)
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
