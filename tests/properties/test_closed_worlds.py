"""Closed worlds of the kit with racks, devices and priorities: evictions end, and none is in vain.

A sample here; `BATCHSCHED_NIGHTLY=1`, which `tasks.py nightly` sets, has 5,000 worlds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.closed_systems import CYCLES, History
from tests.support.cycles import Cycles

from batchsched import JobInfo, Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import snapshots, with_devices

pytestmark = pytest.mark.slow

WORLDS = 5000 if os.environ.get("BATCHSCHED_NIGHTLY") == "1" else 120
GANG = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def tiers(*shares: str) -> Mapping[str, Any]:
    second = ["predicates", *shares, "nodeorder", "devices", "topology"]
    return {"tiers": [{"plugins": p} for p in (["priority", GANG, "conformance"], second)]}


SHARES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "capacity": tiers("capacity"),
    "proportion": tiers("proportion"),
    "neither": tiers(),
}
ORDERS = (
    "reclaim, allocate, preempt, backfill",
    "allocate, preempt, reclaim",
    "reclaim, allocate, backfill, preempt",
    "preempt, allocate",
    "allocate, preempt",
)


def with_known_devices(snapshot: Snapshot) -> Snapshot:
    """The same, where nothing has devices of which it is not known which."""

    def known(job: JobInfo) -> JobInfo:
        return evolve(
            job,
            tasks=[
                evolve(task, claims=()) if task.status.holds and task.devices is None else task
                for task in job.tasks
            ],
        )

    return evolve(snapshot, jobs=map(known, snapshot.jobs))


DRAWN = with_devices(
    snapshots(
        min_jobs=4,
        always=["running", "gangs", "crowded", "priorities", "topologies"],
        topologies=True,
        affinity=False,  # see `test_promises_near_each_other_alone_are_in_vain`
        unknown_queues=False,
        dependencies=False,
        durations=False,
        reservations=False,
        promises=False,
        endings=False,
        backfill=False,
        init_requests=False,
    )
).map(with_known_devices)


@settings(max_examples=WORLDS)
@given(DRAWN, st.sampled_from(sorted(SHARES)), st.sampled_from(ORDERS))
def test_it_comes_to_rest_and_nobody_goes_in_vain(
    snapshot: Snapshot, share: str, order: str
) -> None:
    """Where nothing gives queues their shares, none takes from another: that would not end."""
    if share == "neither":
        order = ", ".join(name for name in order.split(", ") if name != "reclaim")
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": order, **SHARES[share]}))
    history = History(scheduler, Cycles(scheduler, snapshot))
    for number in range(CYCLES):
        if history.cycle(number):
            break
    assert not history.faults
    assert not any(cycle >= CYCLES // 2 for cycle in history.evicting)
    assert not history.in_vain
