"""reclaim: across queues, all that a gang needs or nothing."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.clusters import cluster, evicted, job, node, places, scheduler

from batchsched import (
    ActionOption,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
    WhyPending,
)
from batchsched.testing import snapshots

RECLAIM = scheduler("reclaim", without=["drf"])


def two_queues(size: str, *jobs: object, weights: tuple[int, int] = (1, 1)) -> Snapshot:
    made = cluster([node("n1", size)], *jobs)  # type: ignore[arg-type]
    names = ("q", "r")
    return evolve(
        made, queues=[Queue(name=n, weight=w) for n, w in zip(names, weights, strict=True)]
    )


def greedy(count: int = 4, minimum: int = 1) -> object:
    return job("a", *["1C0G@n1"] * count, minimum=minimum)


def test_a_queue_takes_back_what_it_deserves_and_no_more() -> None:
    snapshot = two_queues("4C0G", greedy(), job("b", *["1C0G"] * 4, minimum=1, queue="r"))
    result = RECLAIM.schedule(snapshot)
    assert evicted(result) == ["a-4", "a-3"]
    assert {(e.action, e.for_task_uid) for e in result.evictions} == {
        ("reclaim", "b-1"),
        ("reclaim", "b-2"),
    }
    assert sorted(places(result, "b").values()) == ["Pending", "Pending", *["Pipelined n1"] * 2]


@pytest.mark.parametrize(("weights", "count"), [((1, 3), 3), ((3, 1), 1), ((1, 1), 2)])
def test_the_weights_say_how_much(weights: tuple[int, int], count: int) -> None:
    snapshot = two_queues(
        "4C0G", greedy(), job("b", *["1C0G"] * 4, minimum=1, queue="r"), weights=weights
    )
    assert len(evicted(RECLAIM.schedule(snapshot))) == count


def test_a_gang_gets_all_that_it_needs_or_nobody_is_evicted() -> None:
    def evicted_for(minimum: int) -> int:
        wants = job("b", *["1C0G"] * 4, minimum=minimum, queue="r")
        return len(evicted(RECLAIM.schedule(two_queues("4C0G", greedy(), wants))))

    assert evicted_for(2) == 2
    assert evicted_for(3) == 0  # it deserves but 2


def test_a_gang_keeps_the_tasks_that_it_needs() -> None:
    wants = job("b", *["1C0G"] * 4, minimum=1, queue="r")
    assert evicted(RECLAIM.schedule(two_queues("4C0G", greedy(minimum=3), wants))) == ["a-4"]
    assert evicted(RECLAIM.schedule(two_queues("4C0G", greedy(minimum=4), wants))) == []


def test_its_own_queue_is_left_alone() -> None:
    snapshot = two_queues("4C0G", greedy(), job("b", *["1C0G"] * 4, minimum=1, priority=9))
    assert evicted(RECLAIM.schedule(snapshot)) == []


def test_a_queue_that_has_what_it_deserves_reclaims_nothing() -> None:
    snapshot = two_queues(
        "4C0G",
        job("a", "1C0G@n1", "1C0G@n1", minimum=0),
        job("b", "1C0G@n1", "1C0G@n1", "1C0G", minimum=1, queue="r"),
    )
    assert evicted(RECLAIM.schedule(snapshot)) == []


def test_nobody_is_evicted_for_a_task_that_fits_or_asks_for_nothing() -> None:
    snapshot = two_queues("5C0G", greedy(), job("b", "1C0G", queue="r"))
    result = RECLAIM.schedule(snapshot)
    assert evicted(result) == []
    assert places(result, "b") == {"b-1": "Binding n1"}
    snapshot = two_queues("4C0G", greedy(), job("b", "", queue="r"))
    assert evicted(RECLAIM.schedule(snapshot)) == []


def test_nodes_are_tried_in_node_order() -> None:
    made = cluster(
        [node("n1", "2C0G"), node("n2", "4C0G")],
        job("a", "2C0G@n2", "2C0G@n1", "2C0G@n2", minimum=0),
        job("b", "2C0G", "2C0G", minimum=1, queue="r"),
        queues=("q", "r"),
    )
    assert evicted(RECLAIM.schedule(made)) == ["a-2"]  # a-1 is covered, a-3 less valuable


def test_only_the_shortfall_is_evicted() -> None:
    snapshot = two_queues("5C0G", greedy(), job("b", "2C0G", queue="r"))
    assert evicted(RECLAIM.schedule(snapshot)) == ["a-4"]


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_what_is_evicted_was_running_in_another_queue(snapshot: Snapshot) -> None:
    config = SchedulerConfig.from_mapping({"actions": "reclaim"})
    result = Scheduler(config).schedule(snapshot)
    of_task = {task.uid: (task, job) for job in snapshot.jobs for task in job.tasks}
    for eviction in result.evictions:
        victim, owner = of_task[eviction.task_uid]
        claimant, claimants_job = of_task[eviction.for_task_uid]
        assert victim.status is TaskStatus.RUNNING
        assert not claimant.is_best_effort
        assert owner.queue != claimants_job.queue
        assert result.tasks[claimant.uid].status is TaskStatus.PIPELINED


def test_a_gang_that_finds_no_room_for_all_is_incomplete_and_its_queue_not_overused() -> None:
    snapshot = cluster([node("n1", "3C3G")], job("g", *["2C1G"] * 3))
    pending = RECLAIM.schedule(snapshot).pending
    assert {uid: reason.why for uid, reason in pending.items()} == {
        "g-1": WhyPending.GANG_INCOMPLETE,
        "g-2": WhyPending.GANG_INCOMPLETE,
        "g-3": WhyPending.NOT_REACHED,
    }


def test_a_gang_that_is_stopped_by_what_its_queue_deserves_is_told_so() -> None:
    wants = job("g", *["1C0G"] * 3)
    snapshot = two_queues("4C0G", wants, job("b", *["1C0G"] * 4, minimum=1, queue="r"))
    pending = RECLAIM.schedule(snapshot).pending
    assert pending["g-1"].why is WhyPending.GANG_INCOMPLETE
    assert pending["g-3"].why is WhyPending.QUEUE_OVERUSED


def test_a_queue_that_is_overused_is_passed_over_and_its_tasks_are_told_so() -> None:
    """q has all that it deserves; r has as large a share, of memory alone, and comes next."""
    snapshot = cluster(
        [node("n1", "12C13G")],
        job("a", "6C6.5G@n1", "9C0G", minimum=1),
        job("b", "1C6.5G@n1", "1C0G", "9C0G", minimum=1, queue="r"),
        queues=("q", "r"),
    )
    result = RECLAIM.schedule(snapshot)
    assert places(result, "b")["b-2"] == "Binding n1"
    assert result.pending["a-2"].why is WhyPending.QUEUE_OVERUSED


def test_jobs_alike_that_find_nobody_to_evict_are_all_told_so() -> None:
    nodes = [node(f"n{number}", "0.6C0G") for number in range(4)]
    reclaim = Scheduler(SchedulerConfig(actions=[ActionOption(name="reclaim")]))
    result = reclaim.schedule(cluster(nodes, *[job(name, "1C0G") for name in ("a", "b")]))
    told = [result.pending[uid].evictions for uid in ("a-1", "b-1")]
    assert told[0] == told[1]
    assert [report.action for report in told[0]] == ["reclaim"]
