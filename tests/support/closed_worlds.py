"""Closed worlds of the kit with racks, devices and priorities, under four ways to share.

``python -m tests.support.closed_worlds [WORLDS] [--seed 1] [--write FILE]`` lets each live until it
comes to rest, and prints what went wrong and how many were evicted and started. It writes the
worlds to a file, for ``python -m benchmarks.closed_worlds FILE --beside REVISION``.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
from attrs import evolve, frozen
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from batchsched import JobInfo, Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import snapshots, with_devices
from tests.support.closed_systems import CYCLES, History
from tests.support.cycles import Cycles

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


@frozen
class ClosedWorld:
    """A cluster, and how it is scheduled."""

    snapshot: Snapshot
    configuration: Mapping[str, Any]

    def live(self) -> History:
        """Let it live until it comes to rest, or for as long as that may take."""
        scheduler = Scheduler(SchedulerConfig.from_mapping(self.configuration))
        history = History(scheduler, Cycles(scheduler, self.snapshot))
        for number in range(CYCLES):
            if history.cycle(number):
                break
        if any(cycle >= CYCLES // 2 for cycle in history.evicting):
            history.faults.append(f"evicts still after {CYCLES // 2} cycles")
        return history


def closed(snapshot: Snapshot, share: str, order: str) -> ClosedWorld:
    """Where nothing gives queues their shares, none takes from another: that would not end."""
    if share == "neither":
        order = ", ".join(name for name in order.split(", ") if name != "reclaim")
    return ClosedWorld(snapshot, {"actions": order, **SHARES[share]})


CLOSED_WORLDS = st.builds(closed, DRAWN, st.sampled_from(sorted(SHARES)), st.sampled_from(ORDERS))


def worlds(count: int, seed: int) -> Sequence[ClosedWorld]:
    """Return as many as the kit draws with a seed."""
    found: list[ClosedWorld] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(CLOSED_WORLDS)
    def collect(world: ClosedWorld) -> None:
        found.append(world)

    collect()
    return found


def main() -> None:
    """Draw worlds, let them live, and print what went wrong."""
    parser = ArgumentParser(description="evictions end in closed worlds, and none is in vain")
    parser.add_argument("worlds", nargs="?", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, default=None, help="a file for the worlds")
    options = parser.parse_args()
    began = time.monotonic()
    drawn = worlds(options.worlds, options.seed)
    print(f"{len(drawn)} worlds drawn in {time.monotonic() - began:.0f} s", flush=True)
    if options.write is not None:
        with options.write.open("w", encoding="utf-8") as file:
            for world in drawn:
                file.write(json.dumps([world.configuration, world.snapshot.to_dict()]) + "\n")
    total = Counter[str]()
    for number, world in enumerate(drawn):
        history = world.live()
        total.update(
            worlds=1,
            evicting=history.evictions > 0,
            evictions=history.evictions,
            faults=len(history.faults),
            in_vain=len(history.in_vain),
        )
        for line in (*history.faults[:1], *history.in_vain[:1]):
            print(f"  world {number}, {world.configuration['actions']}: {line[:300]}", flush=True)
        if number % 500 == 499:
            print(dict(total), f"{time.monotonic() - began:.0f} s", flush=True)
    print("all", dict(total), f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
