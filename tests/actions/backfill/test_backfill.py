"""backfill of best-effort tasks; the strategies are scenarios."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from tests.support.clusters import action, bound, cluster, job, node, places, scheduler

from batchsched import Resource, Scheduler, SchedulerConfig, Snapshot, TaskStatus
from batchsched.testing import snapshots

BACKFILL = scheduler("backfill")


def test_best_effort_tasks_go_to_the_first_node_that_takes_them() -> None:
    snapshot = cluster(
        [node("n1", "1C1G", unschedulable=True), node("n2", "1C1G"), node("n3", "9C9G")],
        job("r", "1C1G@n2"),
        job("a", "", "", minimum=1),
    )
    assert bound(BACKFILL.schedule(snapshot)) == {"a-1": "n2", "a-2": "n2"}


def test_or_to_the_best_if_that_is_asked_for() -> None:
    snapshot = cluster([node("n1", "1C1G"), node("n2", "9C9G")], job("a", ""))
    result = scheduler(action("backfill", nodeChoice="best")).schedule(snapshot)
    assert bound(result) == {"a-1": "n2"}


def test_all_other_tasks_are_left_alone() -> None:
    snapshot = cluster([node("n1", "9C9G")], job("a", "1C1G", "", minimum=1))
    result = BACKFILL.schedule(snapshot)
    assert bound(result) == {"a-2": "n1"}
    assert places(result)["a-1"] == "Pending"


def test_tasks_that_need_something_to_start_are_not_best_effort() -> None:
    of = job("a", "")
    tasks = [evolve(of.tasks[0], init_resreq=Resource(milli_cpu=1))]
    result = BACKFILL.schedule(cluster([node("n1", "9C9G")], evolve(of, tasks=tasks)))
    assert not result.binds


def test_a_gang_of_best_effort_tasks_is_bound_as_a_whole() -> None:
    snapshot = cluster([node("n1", "9C9G", max_tasks=2)], job("a", "", "", ""))
    result = BACKFILL.schedule(snapshot)
    assert not result.binds
    assert places(result) == {"a-1": "Allocated n1", "a-2": "Allocated n1", "a-3": "Pending"}
    snapshot = cluster([node("n1", "9C9G", max_tasks=3)], job("a", "", "", ""))
    assert len(BACKFILL.schedule(snapshot).binds) == 3


def test_jobs_come_in_the_order_of_the_beginning() -> None:
    snapshot = cluster(
        [node("n1", "9C9G", max_tasks=2)],
        job("a", "", "", minimum=1),
        job("b", "", "", minimum=1, priority=3),
    )
    result = BACKFILL.schedule(snapshot)
    assert [bind.task_uid for bind in result.binds] == ["b-1", "b-2"]


def test_reserved_nodes_are_open_to_tasks_that_ask_for_nothing() -> None:
    snapshot = cluster([node("n1", "4C9G")], job("r", "4C1G@n1"), job("k", "4C1G>n1"), job("a", ""))
    result = BACKFILL.schedule(snapshot)
    assert bound(result) == {"a-1": "n1"}
    assert [p.task_uid for p in result.reserved] == ["k-1"]


def test_overused_queues_may_backfill() -> None:
    snapshot = cluster(
        [node("n1", "1C1G")],
        job("r", "1C1G@n1", "", minimum=1),
        job("o", "1C1G", queue="s"),
        queues=("q", "s"),
    )
    assert bound(BACKFILL.schedule(snapshot)) == {"r-2": "n1"}


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_only_best_effort_tasks_are_placed(snapshot: Snapshot) -> None:
    config = SchedulerConfig.from_mapping({"actions": "backfill"})
    result = Scheduler(config).schedule(snapshot)
    assert result.evictions == result.pipelined == result.conditional == ()
    for of in snapshot.jobs:
        for task in of.tasks:
            if task.uid in result.tasks and task.status is TaskStatus.PENDING:
                outcome = result.tasks[task.uid]
                assert task.is_best_effort or outcome.status is TaskStatus.PENDING
