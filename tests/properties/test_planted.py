"""Gangs in racks, in segments and with devices start where they were placed before others were.

`tests.support.possible` decides by brute force in tiny clusters; here a place is known.
"""

from __future__ import annotations

from random import Random

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.invariants import check_cycle
from tests.support.planted import MAY_GO, planted
from tests.support.possible import configuration
from tests.support.ways import differing

from batchsched import Preemptible, Scheduler

SEEDS = st.integers(0, 1 << 30)


@settings(max_examples=100)
@given(SEEDS)
def test_a_gang_for_which_there_is_room_runs(seed: int) -> None:
    assert planted(Random(seed)).problem() is None


@settings(max_examples=60)
@given(SEEDS)
def test_its_cycle_keeps_all_laws_and_all_ways_decide_the_same(seed: int) -> None:
    drawn = planted(Random(seed))
    config = configuration(drawn.actions)
    result = Scheduler(config).schedule(drawn.snapshot)
    check_cycle(drawn.snapshot, result, config)
    assert not list(differing(drawn.snapshot, config))


def test_it_is_told_of_a_gang_that_never_runs() -> None:
    """Where nobody may go any more, a gang in whose places others are waits."""
    drawn = next(
        each
        for seed in range(100)
        if (each := planted(Random(seed))).actions != "allocate"
        and any(job.priority == MAY_GO["priority"] for job in each.snapshot.jobs)
        and Scheduler(configuration(each.actions)).schedule(each.snapshot).evictions
    )
    kept = [
        job if job.uid == drawn.gang else evolve(job, preemptible=Preemptible.NEVER)
        for job in drawn.snapshot.jobs
    ]
    stuck = evolve(drawn, snapshot=evolve(drawn.snapshot, jobs=kept))
    assert stuck.problem() == f"{drawn.gang} never runs, though there is room for it"
