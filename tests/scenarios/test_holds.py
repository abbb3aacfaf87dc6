"""What holds a task or a job: gates, admission, closed queues."""

from __future__ import annotations

import json

import attrs
import pytest

from batchsched import (
    CycleResult,
    EventError,
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    QueueStatus,
    Refusal,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    WhyPending,
    schedule,
)
from batchsched.live import (
    Cluster,
    Event,
    JobChanged,
    QueueChanged,
    TaskGone,
    TaskHoldsChanged,
    TaskReleasing,
)
from batchsched.tools import Released, what_if

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


class TestUnreclaimableQueues:
    """Queue b may take back what it deserves, but not from a queue that is not reclaimable."""

    @pytest.mark.parametrize("name", ["proportion", "capacity"])
    @pytest.mark.parametrize(("top", "own"), [(True, True), (False, True), (True, False)])
    def test_reclaim_takes_nothing_from_them(self, name: str, top: bool, own: bool) -> None:
        queues = (
            Queue(name="top", reclaimable=top),
            Queue(name="a", parent="top", reclaimable=own),
            Queue(name="b"),
        )
        running = [task(f"r{n}", status=TaskStatus.RUNNING, node_name="n1") for n in range(4)]
        holds_all = job("r", *running, queue="a", min_available=1)
        snapshot = cluster(holds_all, job("w", task("w"), queue="b"), queues=queues)
        result = Scheduler(CONFIGURATIONS[name]).schedule(snapshot)
        assert bool(result.evictions) is (top and own)
        if not (top and own):
            keeper = "a" if not own else "top"
            reports = result.pending["w"].evictions
            (report,) = [each for each in reports if each.action == "reclaim"]
            assert report.out == {f"queue {keeper} is not reclaimable": 4}
            assert report.refusals == (Refusal("queue-not-reclaimable", 4),)


class TestLimitsUnderProportion:
    CONFIG = CONFIGURATIONS["proportion"]

    def queues(self, cpus: int) -> tuple[Queue, ...]:
        return (Queue(name="q", limit=ResourceLimit(milli_cpu=1000 * cpus)), Queue(name="z"))

    def test_an_elastic_job_gets_what_its_queue_may_hold(self) -> None:
        tasks = [task(f"t{n}") for n in range(6)]
        snapshot = cluster(job("j", *tasks, min_available=1), queues=self.queues(2), cpus=8)
        result = Scheduler(self.CONFIG).schedule(snapshot)
        assert bound(result) == ["t0", "t1"]
        assert {r.why for r in result.pending.values()} <= {
            WhyPending.QUEUE_LIMIT,
            WhyPending.QUEUE_OVERUSED,
            WhyPending.NOT_REACHED,
        }

    def test_it_binds_where_another_dimension_is_left(self) -> None:
        """The queue does not have all that it deserves of memory, and yet gets no more."""
        both = Resource(milli_cpu=1000, memory=1)
        tasks = [task(f"t{n}", resreq=both) for n in range(6)]
        snapshot = cluster(job("j", *tasks, min_available=1), queues=self.queues(2), cpus=8)
        snapshot = attrs.evolve(
            snapshot, nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=8000, memory=8))]
        )
        assert bound(Scheduler(self.CONFIG).schedule(snapshot)) == ["t0", "t1"]

    def test_a_gang_above_it_does_not_start(self) -> None:
        tasks = [task(f"t{n}") for n in range(3)]
        snapshot = cluster(job("j", *tasks, min_available=3), queues=self.queues(2), cpus=8)
        result = Scheduler(self.CONFIG).schedule(snapshot)
        assert bound(result) == []
        assert result.pending["t0"].why is WhyPending.QUEUE_LIMIT


class TestReleased:
    GANG = job("g", task("a", holds=(GATE, NOT_ADMITTED)), task("b"), holds=(NOT_ADMITTED,))

    def test_it_starts_once_nothing_holds_it(self) -> None:
        answer = what_if(cluster(self.GANG), Released("default/g"))
        assert bound(answer.result) == ["a", "b"]
        assert "release job default/g" in str(answer)

    def test_holds_of_other_kinds_stay(self) -> None:
        answer = what_if(cluster(self.GANG), Released("default/g", HoldKind.NOT_ADMITTED))
        assert bound(answer.result) == ["b"]
        assert answer.result.pending["a"].holds == (GATE,)
        assert answer.snapshot.task("a").holds == (GATE,)

    def test_there_is_no_such_job(self) -> None:
        with pytest.raises(EventError, match="there is no job 'x'"):
            what_if(cluster(self.GANG), Released("x"))


class TestKept:
    def test_snapshots_kept_as_json_have_them(self) -> None:
        queue = Queue(name="q", reclaimable=False)
        snapshot = cluster(
            job("g", task("a", holds=(GATE,)), holds=(NOT_ADMITTED,)), queues=(queue,)
        )
        read = Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict())))
        assert read == snapshot
        assert read.job("default/g").holds == (NOT_ADMITTED,)

    def test_a_held_cluster_lives_as_from_scratch(self) -> None:
        """Holds come and go, queues close, tasks lose their nodes: each cycle as from scratch."""
        gang = job("g", task("a", holds=(GATE,)), task("b"), min_available=2)
        other = job("o", task("c"), task("d", status=TaskStatus.RUNNING, node_name="n1"))
        live = Cluster(cluster(gang, other))
        attached = Scheduler().attach(live)
        steps: list[list[Event]] = [
            [],
            [TaskHoldsChanged("c", (GATE,))],
            [JobChanged("default/o", holds=(NOT_ADMITTED,))],
            [TaskReleasing("d")],
            [TaskGone("d")],
            [TaskHoldsChanged("a", ())],
            [QueueChanged(Queue(name="q", state=QueueStatus.CLOSED))],
            [QueueChanged(Queue(name="q"))],
            [JobChanged("default/o", holds=()), TaskHoldsChanged("c", ())],
        ]
        started: list[list[str]] = []
        for events in steps:
            live.apply(*events)
            result = attached.schedule()
            assert result == Scheduler().schedule(live.snapshot())
            started.append(bound(result))
        assert started == [["c"], [], [], [], [], ["a", "b"], [], ["a", "b"], ["a", "b", "c", "d"]]
