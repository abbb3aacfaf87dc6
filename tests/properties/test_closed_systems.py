"""Twenty configurations of the built-in plugins: closed systems come to rest, and nothing is lost.

A sample here; `BATCHSCHED_NIGHTLY=1`, which `tasks.py nightly` sets, has 300 worlds for each.
"""

from __future__ import annotations

import os

import pytest
from tests.reference.claims import may_claim
from tests.reference.conf import read_conf
from tests.reference.session import Session
from tests.support.closed_systems import CONFIGURATIONS, reclaims_first, run, worlds

from batchsched import Snapshot

pytestmark = pytest.mark.slow

WORLDS = 300 if os.environ.get("BATCHSCHED_NIGHTLY") == "1" else 10


def test_there_are_twenty() -> None:
    assert len(CONFIGURATIONS) == 20


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_it_comes_to_rest_and_nothing_is_in_vain_or_too_much(name: str) -> None:
    """Living cycles are those from scratch, too; see `tests.support.closed_systems`."""
    evictions = 0
    for number, snapshot in enumerate(worlds(WORLDS)):
        history = run(name, snapshot)
        assert not history.faults, number
        if reclaims_first(name):
            assert not history.in_vain, number
            # In strict order a claim may come a cycle later than the preemption that it undoes.
            assert not history.undone or name == "in order", number
        evictions += history.evictions
    assert evictions or name != "capacity"


def claimants(name: str, snapshot: Snapshot) -> list[str]:
    """The jobs that need one task, and may take enough for it from other queues."""
    session = Session(snapshot, read_conf(CONFIGURATIONS[name]))
    capacity = session.tiers.capacity
    assert capacity is not None
    return [job.uid for job in session.jobs if may_claim(session, capacity, job)]


@pytest.mark.parametrize("name", ["capacity", "allocate first", "allocate last", "preempt first"])
def test_at_rest_nobody_waits_who_may_take_what_it_needs(name: str) -> None:
    """Whatever units of whichever nodes that are, and in whatever order they may be taken.

    Gangs may wait: what is taken for one task may be what the next one could have had.
    """
    waited = 0
    for number, snapshot in enumerate(worlds(WORLDS)):
        waited += len(claimants(name, snapshot))
        at_rest = run(name, snapshot).living.snapshot
        assert not claimants(name, at_rest), number
    assert waited
