"""Golden cases, on clusters that were built by events, or held something else before."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.support import golden as check
from tests.support.living import Life, events_to_build, events_to_change

from batchsched import Scheduler, SchedulerConfig
from batchsched.live import Cluster

pytestmark = pytest.mark.slow

EVERY = 60
FIRST = 5
FILES = check.golden_files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_cases_are_decided_as_expected_on_living_clusters(path: Path) -> None:
    for place, case in list(enumerate(check.load_cases(path)))[FIRST::EVERY]:
        snapshot = check.snapshot_of(case)
        scheduler = Scheduler(SchedulerConfig.from_mapping(case["conf"]))
        built = Cluster(now=-1e9)
        events = events_to_build(snapshot)
        Random(place).shuffle(events)
        built.apply(*events)
        assert built.snapshot() == snapshot
        result = scheduler.attach(built).schedule()
        assert check.differences(case, result, snapshot) == [], case["name"]

        other = Cluster(Life(place).start())
        live = scheduler.attach(other)
        live.schedule()
        other.apply(*events_to_change(other.snapshot(), snapshot))
        assert other.snapshot() == snapshot
        assert live.schedule() == result
