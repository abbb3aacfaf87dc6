"""What holds a task or a job: gates, admission, closed queues."""

from __future__ import annotations

import attrs
import pytest

from batchsched import (
    CycleResult,
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    QueueStatus,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    WhyPending,
    schedule,
)

CPU = Resource(milli_cpu=1000)
GATE = Hold(HoldKind.GATE, "example.com/license")
NOT_ADMITTED = Hold(HoldKind.NOT_ADMITTED, "team", "no quota", until=60)


def task(uid: str, **content: object) -> TaskInfo:
    return attrs.evolve(TaskInfo(uid=uid, name=uid, resreq=CPU), **content)


def job(name: str, *tasks: TaskInfo, **content: object) -> JobInfo:
    return attrs.evolve(JobInfo(name=name, queue="q", tasks=tasks), **content)


def cluster(
    *jobs: JobInfo, queues: tuple[Queue, ...] = (Queue(name="q"),), cpus: int = 4
) -> Snapshot:
    return Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=cpus * CPU)], queues=queues, jobs=jobs, now=100
    )


def bound(result: CycleResult) -> list[str]:
    return [bind.task_uid for bind in result.binds]


class TestTasks:
    def test_a_gated_gang_does_not_start(self) -> None:
        gang = job("g", task("a", holds=(GATE,)), task("b"), min_available=2)
        result = schedule(cluster(gang))
        assert bound(result) == []
        for uid in ("a", "b"):
            assert result.pending[uid].why is WhyPending.HELD
            assert result.pending[uid].holds == (GATE,)
            assert "example.com/license" in result.pending[uid].text
        assert result.left_out["default/g"].message == "1 of the 2 tasks that it needs can start"

    def test_the_other_tasks_start_where_they_are_enough(self) -> None:
        gang = job("g", task("a", holds=(GATE,)), task("b"), task("c"), min_available=2)
        result = schedule(cluster(gang))
        assert bound(result) == ["b", "c"]
        assert [*result.pending] == ["a"]
        assert result.tasks["a"].status is TaskStatus.PENDING

    def test_a_hold_that_is_no_gate_leaves_the_job_valid(self) -> None:
        check = Hold(HoldKind.CHECK, "dws-prov", "waits for machines")
        gang = job("g", task("a", holds=(check,)), task("b"), min_available=2)
        result = schedule(cluster(gang))
        assert bound(result) == []
        assert not result.left_out
        text = "the check dws-prov has not passed: waits for machines"
        assert result.pending["a"].text == text
        assert result.pending["b"].why is WhyPending.HELD
        assert result.pending["b"].text == f"its job lacks tasks that are held: {text}"
        condition = result.jobs["default/g"].condition
        assert condition is not None
        assert text in condition.message

    def test_running_tasks_go_on(self) -> None:
        running = task("a", status=TaskStatus.RUNNING, node_name="n1", holds=(GATE,))
        result = schedule(cluster(job("g", running, task("b"), holds=(NOT_ADMITTED,))))
        assert result.tasks["a"].status is TaskStatus.RUNNING
        assert result.pending["b"].text == "no quota"
        assert not result.evictions

    def test_reservations_and_promises_end(self) -> None:
        content = {"node_name": "n1", "holds": (GATE,)}
        held = job(
            "g",
            task("a", status=TaskStatus.RESERVED, **content),
            task("b", status=TaskStatus.PIPELINED, **content),
            min_available=0,
        )
        result = schedule(cluster(held))
        assert [each.task_uid for each in result.dropped_reservations] == ["a"]
        assert [each.task_uid for each in result.dropped_promises] == ["b"]
        assert {each.status for each in result.tasks.values()} == {TaskStatus.PENDING}

    def test_tasks_without_requests_are_held_too(self) -> None:
        result = schedule(cluster(job("g", task("a", resreq=Resource(), holds=(GATE,)))))
        assert bound(result) == []


class TestJobs:
    def test_a_held_job_does_not_start(self) -> None:
        result = schedule(cluster(job("g", task("a"), task("b"), holds=(NOT_ADMITTED,))))
        assert bound(result) == []
        assert {reason.why for reason in result.pending.values()} == {WhyPending.HELD}

    def test_it_takes_no_room_from_others_behind_it(self) -> None:
        held = job("a", task("a"), task("b"), min_available=2, priority=9, holds=(NOT_ADMITTED,))
        result = schedule(cluster(held, job("b", task("c"), task("d"), min_available=2), cpus=2))
        assert bound(result) == ["c", "d"]


CONFIGURATIONS = {
    name: SchedulerConfig.from_mapping(
        {"actions": "reclaim, allocate, backfill, preempt", "tiers": [{"plugins": plugins}]}
    )
    for name, plugins in {
        "without shares": [{"name": "gang"}, {"name": "predicates"}],
        "proportion": [{"name": "gang"}, {"name": "proportion"}, {"name": "predicates"}],
        "capacity": [{"name": "gang"}, {"name": "capacity"}, {"name": "predicates"}],
    }.items()
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
class TestQueues:
    @pytest.mark.parametrize("state", [QueueStatus.CLOSED, QueueStatus.DRAINING])
    def test_a_queue_that_is_not_open_holds_all_below_it(
        self, name: str, state: QueueStatus
    ) -> None:
        queues = (Queue(name="top", state=state), Queue(name="q", parent="top"))
        running = job("r", task("r", status=TaskStatus.RUNNING, node_name="n1"))
        snapshot = cluster(job("g", task("a")), running, queues=queues)
        result = Scheduler(CONFIGURATIONS[name]).schedule(snapshot)
        assert bound(result) == []
        assert result.pending["a"].why is WhyPending.HELD
        assert result.pending["a"].text == f"queue 'top' is {state.value}"
        assert result.tasks["r"].status is TaskStatus.RUNNING
