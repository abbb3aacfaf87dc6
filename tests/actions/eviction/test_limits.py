"""`maxEvictions` of preempt and reclaim: how many tasks a cycle may evict in all."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import check_reference
from tests.support.clusters import action, cluster, evicted, job, node
from tests.support.invariants import check_cycle
from tests.support.known import WITHOUT_NEWER

from batchsched import ConfigError, Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import snapshots


def config(*actions: object) -> SchedulerConfig:
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tiers = [
        {"plugins": ["priority", gang, "conformance"]},
        {"plugins": ["drf", "predicates", "proportion", "nodeorder"]},
    ]
    return SchedulerConfig.from_mapping({"actions": list(actions), "tiers": tiers})


def waiting_for_room() -> Snapshot:
    """A gang of three and a single task, for each of which as many tasks must go."""
    return cluster(
        [node("n1", "4C4G")],
        job("low", *["1C1G@n1"] * 4, minimum=0),
        job("gang", *["1C1G"] * 3, priority=9),
        job("one", "1C1G", priority=5),
    )


@pytest.mark.parametrize(("most", "expected"), [(0, 0), (1, 1), (2, 1), (3, 3), (4, 4)])
def test_a_turn_that_would_evict_more_is_undone_and_others_have_theirs(
    most: int, expected: int
) -> None:
    of = config(action("preempt", maxEvictions=most))
    result = Scheduler(of).schedule(waiting_for_room())
    assert len(evicted(result)) == expected
    check_reference(waiting_for_room(), result, of)


def test_it_counts_what_other_actions_have_evicted() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("low", *["1C1G@n1"] * 4, minimum=0),
        job("high", "1C1G", priority=9),
        job("poor", "1C1G", queue="r"),
        queues=("q", "r"),
    )
    for most, expected in ((1, 1), (2, 2)):
        of = config("reclaim", action("preempt", maxEvictions=most))
        result = Scheduler(of).schedule(snapshot)
        assert len(evicted(result)) == expected
        check_reference(snapshot, result, of)


def test_it_is_a_number_of_tasks() -> None:
    with pytest.raises(ConfigError, match="maxEvictions"):
        Scheduler(config(action("reclaim", maxEvictions=-1)))


@settings(max_examples=40)
@given(
    snapshots(
        max_nodes=3, constraints=False, affinity=False, scalars=False, min_jobs=4, **WITHOUT_NEWER
    ),
    st.integers(0, 3),
)
def test_no_cycle_evicts_more(snapshot: Snapshot, most: int) -> None:
    bound = {"maxEvictions": most}
    of = config(action("reclaim", **bound), "allocate", action("preempt", **bound))
    result = Scheduler(of).schedule(snapshot)
    assert len(result.evictions) <= most
    check_cycle(snapshot, result, of)
    check_reference(snapshot, result, of)


@pytest.mark.parametrize("most", [0, 1])
def test_it_counts_what_a_job_takes_from_its_own_tasks(most: int) -> None:
    one = job("a", "1C1G@n1", "1C1G", minimum=0)
    first, second = one.tasks
    snapshot = cluster([node("n1", "1C1G")], evolve(one, tasks=[first, evolve(second, priority=9)]))
    of = config(action("preempt", maxEvictions=most))
    result = Scheduler(of).schedule(snapshot)
    assert len(evicted(result)) == most
    check_reference(snapshot, result, of)
