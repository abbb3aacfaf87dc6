"""Each invalid snapshot has the one fault that it says it has, and faults of all kinds come."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings

from batchsched import SnapshotError
from batchsched.testing import InvalidSnapshot, invalid_snapshots
from batchsched.testing.drawing.invalid import EDITS

MANY = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))


@MANY
@given(invalid_snapshots())
def test_each_has_just_its_fault(invalid: InvalidSnapshot) -> None:
    with pytest.raises(SnapshotError) as caught:
        invalid.build()
    assert caught.value.faults == (invalid.fault,)
    assert str(caught.value) == f"{invalid.fault.path}: {invalid.fault.message}"


def test_all_kinds_of_faults_come() -> None:
    kinds: set[tuple[str, str]] = set()

    @settings(MANY, max_examples=600)
    @given(invalid_snapshots())
    def collect(invalid: InvalidSnapshot) -> None:
        kinds.add(
            (re.sub(r"\['[^']*'\]", "", invalid.fault.path), invalid.fault.message.split(" ")[-1])
        )

    collect()
    parts = {path.partition(".")[0].partition("[")[0] for path, _ in kinds}
    assert parts == {"now", "nodes", "queues", "jobs", "other_tasks"}
    assert len(kinds) >= len(EDITS) / 2
