"""Each invalid snapshot has the one fault that it says it has, and faults of all kinds come."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support.clusters import cluster, job, node
from tests.support.invalid_snapshots import EDITS, InvalidSnapshot, invalid_snapshots

from batchsched import Fault, SnapshotError

MANY = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))


def is_told(expected: Fault, error: SnapshotError) -> bool:
    """Return whether an error tells this fault alone, perhaps with what might be meant."""
    assert str(error) == "\n".join(f"{fault.path}: {fault.message}" for fault in error.faults)
    told = [(fault.path, fault.message.partition("; known: ")[0]) for fault in error.faults]
    return told == [(expected.path, expected.message)]


@MANY
@given(invalid_snapshots())
def test_each_has_just_its_fault(invalid: InvalidSnapshot) -> None:
    with pytest.raises(SnapshotError) as caught:
        invalid.build()
    assert is_told(invalid.fault, caught.value)


def test_all_kinds_of_faults_come() -> None:
    snapshot = cluster([node("n1", "1C1G")], job("j", "1C1G"))
    parts: set[str] = set()
    for edit in EDITS:
        fault = edit(snapshot, 0).fault
        with pytest.raises(SnapshotError) as caught:
            edit(snapshot, 0).build()
        assert is_told(fault, caught.value)
        parts.add(fault.path.partition(".")[0].partition("[")[0])
    assert parts == {"now", "nodes", "queues", "jobs", "other_tasks"}
