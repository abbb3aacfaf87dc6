"""A move in flight, as it is seen: it leaves, is refused, or is given up."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.session.test_moves import mover, two

from batchsched import CycleResult, TaskInfo, TaskStatus
from batchsched.live import Cluster, Deleted, Reconciler, Seen

S = TaskStatus


def moving() -> tuple[Reconciler, CycleResult]:
    reconciler = Reconciler(Cluster(), give_up_after=30)
    reconciler.observe_all(two())
    live = mover().attach(reconciler.cluster)
    reconciler.pass_time(100)
    result = live.schedule()
    assert [move.task_uid for move in result.moves] == ["a-1"]
    reconciler.carry_out(result)
    return reconciler, result


def state(reconciler: Reconciler) -> tuple[TaskStatus, str | None, str | None]:
    task = reconciler.cluster.task("a-1")
    return task.status, task.node_name, task.leaving


def seen(reconciler: Reconciler, **change: object) -> Seen:
    before = next(t for job in two().jobs for t in job.tasks if t.uid == "a-1")
    item: TaskInfo = evolve(before, **change)
    return Seen(item, job="default/a")


IN_FLIGHT = (S.PIPELINED, "n2", "n1")


def test_it_is_in_flight_until_it_is_seen_to_leave() -> None:
    reconciler, _ = moving()
    assert state(reconciler) == IN_FLIGHT
    assert reconciler.in_flight["a-1"].node_name == "n1"
    assert reconciler.observe(seen(reconciler)) == ()  # it still runs
    assert state(reconciler) == IN_FLIGHT
    assert reconciler.observe(seen(reconciler, status=S.RELEASING)) == ()
    assert state(reconciler) == IN_FLIGHT
    assert "a-1" not in reconciler.in_flight
    # Its name may come again, where what replaces it has the same.
    reconciler.observe(seen(reconciler, status=S.PENDING, node_name=None))
    assert state(reconciler) == (S.PIPELINED, "n2", None)


def test_what_is_deleted_is_gone() -> None:
    reconciler, _ = moving()
    reconciler.observe(Deleted("task", "a-1"))
    with pytest.raises(Exception, match="a-1"):
        reconciler.cluster.task("a-1")
    assert "a-1" not in reconciler.in_flight


def test_what_is_refused_runs_on() -> None:
    reconciler, _ = moving()
    reconciler.refused("a-1")
    assert state(reconciler) == (S.RUNNING, "n1", None)


def test_what_is_never_seen_to_leave_is_given_up() -> None:
    reconciler, _ = moving()
    (correction,) = [c for c in reconciler.pass_time(140) if c.name == "a-1"]
    assert str(correction) == "task a-1: nothing was seen of its eviction for 30 s; it runs on"
    assert state(reconciler) == (S.RUNNING, "n1", None)


def test_it_may_be_seen_where_it_was_to_go() -> None:
    reconciler, _ = moving()
    reconciler.observe(seen(reconciler, node_name="n2"))
    assert state(reconciler) == (S.RUNNING, "n2", None)


def test_a_node_that_it_leaves_stays_while_it_is_there() -> None:
    reconciler, _ = moving()
    reconciler.observe(Deleted("node", "n1"))
    assert state(reconciler) == IN_FLIGHT
    assert reconciler.cluster.snapshot().nodes[0].unschedulable
