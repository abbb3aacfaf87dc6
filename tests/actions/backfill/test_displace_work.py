"""Displacing looks at nothing twice that has not changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock, patch

from tests.support.clusters import action, bound, cluster, job, node, places, scheduler

from batchsched import CycleResult, Scheduler, Snapshot
from batchsched.actions.backfill import displace as displace_module
from batchsched.placement.plain_loop import LinearScanPlacement

DISPLACE = action("backfill", strategy="displace")


@contextmanager
def counting(owner: object, name: str) -> Iterator[Mock]:
    real = getattr(owner, name)
    with patch.object(owner, name, autospec=True, side_effect=real) as calls:
        yield calls


def decided(using: Scheduler, snapshot: Snapshot) -> CycleResult:
    """What is decided, which is what is decided without any memory of earlier trials."""
    result = using.schedule(snapshot)
    plain = Scheduler(using.config, placement=LinearScanPlacement)
    assert plain.schedule(snapshot) == result
    return result


def test_the_tasks_of_a_job_are_put_in_order_once_for_all_its_turns() -> None:
    snapshot = cluster([node("n1", "64C64G")], job("j", *["1C1G"] * 50, minimum=1))
    with counting(displace_module, "tasks_needed") as calls:
        result = scheduler(DISPLACE).schedule(snapshot)
    assert len(result.binds) == 50
    assert calls.call_count == 1


def test_a_node_is_tried_again_only_when_it_has_changed() -> None:
    """Ten gangs that cannot start hold a node each; twenty jobs take turns to displace them."""
    gangs = [job(f"gang{i}", "2C2G", "9C9G", priority=5) for i in range(10)]
    jobs = [job(f"j{i:02}", "1C1G") for i in range(20)]
    snapshot = cluster([node(f"n{i}", "2C2G") for i in range(10)], *gangs, *jobs)
    using = scheduler("allocate", DISPLACE, without=["drf", "proportion"])
    expected = decided(using, snapshot)
    assert len(bound(expected)) == 20
    with counting(displace_module._Turns, "_try") as trials:
        using.schedule(snapshot)
    # Once for the gangs' other tasks, which fit nowhere, and once for the tasks of the jobs.
    assert trials.call_count == 2 * 10


def test_nodes_without_tasks_of_unready_jobs_are_not_tried() -> None:
    gang = job("gang", "2C2G", "9C9G", priority=5)
    jobs = [job(f"full{i}", f"2C2G@n{i}") for i in range(1, 10)]
    snapshot = cluster([node(f"n{i}", "2C2G") for i in range(10)], gang, *jobs, job("j", "1C1G"))
    with counting(displace_module._Turns, "_try") as trials:
        result = scheduler("allocate", DISPLACE, without=["drf"]).schedule(snapshot)
    assert bound(result) == {"j-1": "n0"}
    assert trials.call_count == 1


def test_who_was_displaced_may_take_another_turn() -> None:
    """What is left to place is counted anew for a job of which something was displaced."""
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "1C1G")],
        job("gang", "1C1G", "1C1G", "1C1G", "1C1G", priority=5),
        job("j", "2C2G"),
        job("k", "1C1G"),
    )
    result = decided(scheduler("allocate", DISPLACE, without=["drf", "proportion"]), snapshot)
    assert bound(result) == {"j-1": "n1", "k-1": "n2"}
    assert set(places(result, "gang").values()) == {"Pending"}


def test_trials_of_few_kinds_of_tasks_are_kept() -> None:
    gangs = [job(f"gang{i}", "2C2G", "9C9G", priority=5) for i in range(3)]
    jobs = [job(f"j{i:02}", f"{1 + i % 3 / 10}C1G") for i in range(9)]
    snapshot = cluster([node(f"n{i}", "2C2G") for i in range(3)], *gangs, *jobs)
    using = scheduler("allocate", DISPLACE, without=["drf", "proportion"])
    expected = decided(using, snapshot)
    with patch.object(displace_module, "MOST_KINDS", 1):
        assert using.schedule(snapshot) == expected
