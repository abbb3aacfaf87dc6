"""A warm scheduler decides on each snapshot what a cold one decides."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.living import Life, apply_plainly

from batchsched import ConfigError, JobInfo, Scheduler, Snapshot, next_snapshot
from batchsched.testing.config_strategies import configs

seeds = st.integers(0, 1 << 32)


def shaken(life: Life, snapshot: Snapshot) -> Snapshot:
    """The same cluster, or nearly: equal objects, tasks in other jobs, or another cluster."""
    match life.random.randrange(4):
        case 0:
            return pickle.loads(pickle.dumps(snapshot))
        case 1:
            return life.start()
        case 2 if len(snapshot.jobs) > 1:
            one, other, *rest = life.random.sample(snapshot.jobs, len(snapshot.jobs))
            joined: JobInfo = evolve(one, tasks=[*one.tasks, *other.tasks])
            return evolve(snapshot, jobs=[joined, evolve(other, tasks=()), *rest])
        case _:
            return snapshot


@settings(max_examples=30)
@given(seed=seeds, config=configs())
def test_law_a_warm_scheduler_decides_what_a_cold_one_does(seed: int, config: Any) -> None:
    life = Life(seed)
    cold, warm = Scheduler(config), Scheduler(config, warm=True)
    snapshot = life.start()
    for _ in range(6):
        result = cold.schedule(snapshot)
        decided = warm.schedule(snapshot)
        assert decided == result
        snapshot = next_snapshot(snapshot, decided, now=snapshot.now)
        assert warm.schedule(snapshot, reasons=False).binds == cold.schedule(snapshot).binds
        for event in life.events(snapshot):
            snapshot = apply_plainly(snapshot, event)
        if life.random.random() < 0.3:
            snapshot = shaken(life, snapshot)
        assert decided == result


def test_what_a_cycle_that_failed_has_left_is_not_used_again() -> None:
    life = Life(3)
    snapshot = life.start()
    scheduler = Scheduler(warm=True)
    expected = scheduler.schedule(snapshot)
    with pytest.raises(Exception, match="Snapshot"):
        scheduler.schedule("surprise")  # type: ignore[arg-type]
    assert scheduler.schedule(snapshot) == expected
    with pytest.raises(ConfigError, match="warm"):
        Scheduler(warm="yes")  # type: ignore[arg-type]
