"""What is said of a live cluster: what is confirmed, and what changes in tasks and jobs."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings

from batchsched import (
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.errors import EventError, UnknownNameError
from batchsched.live import (
    NO_LIMIT,
    BindRefused,
    Cluster,
    EvictionRefused,
    JobArrived,
    JobChanged,
    JobEnded,
    OtherTaskArrived,
    TaskChanged,
    TaskFound,
    TaskGone,
    TaskRemoved,
    TasksAdded,
    TaskStarted,
    TimePassed,
)
from batchsched.testing import configs, snapshots

CPU = Resource(milli_cpu=1000)


def cluster_of(*tasks: TaskInfo, **fields: object) -> Cluster:
    job = JobInfo(name="j", queue="q", tasks=tasks, **fields)  # type: ignore[arg-type]
    nodes = [NodeInfo(name=name, allocatable=CPU) for name in ("n1", "n2")]
    return Cluster(Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=[job], now=0.0))


def task(uid: str = "t", **fields: object) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=CPU, **fields)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(snapshots(), configs())
def test_what_is_confirmed_at_once_is_what_happens_at_once(snapshot, config):
    def carried_out(*, at_once: bool) -> Snapshot:
        cluster = Cluster(snapshot)
        cluster.carry_out(Scheduler(config).attach(cluster).schedule(), at_once=at_once)
        if not at_once:
            tasks = [task for job in cluster.snapshot().jobs for task in job.tasks]
            tasks += cluster.snapshot().other_tasks
            moving = {task.uid: task.status for task in tasks}
            started = [uid for uid, status in moving.items() if status is TaskStatus.BOUND]
            gone = [uid for uid, status in moving.items() if status is TaskStatus.RELEASING]
            cluster.apply(*map(TaskStarted, started), *map(TaskGone, gone))
        return cluster.snapshot()

    assert carried_out(at_once=False) == carried_out(at_once=True)


def test_what_is_not_confirmed_stays_as_it_was_decided():
    cluster = cluster_of(task())
    live = Scheduler().attach(cluster)
    cluster.carry_out(live.schedule())
    for _ in range(3):
        cluster.apply(TimePassed(cluster.now + 1))
        cycle = live.schedule()
        assert not cycle.binds
        cluster.carry_out(cycle)
        assert (cluster.task("t").status, cluster.task("t").node_name) == (TaskStatus.BOUND, "n1")
    cluster.apply(BindRefused("t"))
    assert [bind.task_uid for bind in live.schedule().binds] == ["t"]


def test_an_eviction_that_is_not_confirmed_leaves_the_task_where_it_is():
    low = task("low", status=TaskStatus.RUNNING, node_name="n1")
    high = JobInfo(name="high", queue="q", priority=9, tasks=[task("high")])
    cluster = Cluster(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="low", queue="q", tasks=[low]), high],
    )
    plugins = [{"name": name} for name in ("priority", "conformance", "predicates")]
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate, preempt", "tiers": [{"plugins": plugins}]}
    )
    live = Scheduler(config).attach(cluster)
    cycle = live.schedule()
    assert [eviction.task_uid for eviction in cycle.evictions] == ["low"]
    cluster.carry_out(cycle)
    cluster.carry_out(live.schedule())
    assert cluster.task("low").status is TaskStatus.RELEASING
    with cluster.trial():
        cluster.apply(EvictionRefused("low"))
        assert cluster.task("low").status is TaskStatus.RUNNING
    cluster.apply(TaskGone("low"))
    assert [bind.task_uid for bind in live.schedule().binds] == ["high"]


def test_arguments_of_carrying_out_at_once_go_with_it_alone():
    cluster = cluster_of(task())
    cycle = Scheduler().attach(cluster).schedule()
    with pytest.raises(EventError) as told:
        cluster.carry_out(cycle, not_started=["t"], replacement=lambda task: task)
    assert str(told.value) == (
        "not_started: goes with at_once=True alone\nreplacement: goes with at_once=True alone"
    )
    with pytest.raises(EventError, match="at_once: expected True or False, got 1"):
        cluster.carry_out(cycle, at_once=1)  # type: ignore[arg-type]
    assert cluster.task("t").status is TaskStatus.PENDING


def test_objects_are_found_by_name_as_they_are_now():
    cluster = cluster_of(task(), priority=3)
    cluster.apply(JobChanged("default/j", priority=4), TaskFound("t", "n2"))
    assert cluster.task("t").node_name == "n2"
    assert cluster.job("default/j") == cluster.snapshot().job("default/j")
    assert cluster.node("n1") == cluster.snapshot().node("n1")
    assert cluster.queue("q") == Queue(name="q")
    for find in (cluster.task, cluster.job, cluster.node, cluster.queue):
        with pytest.raises(UnknownNameError, match=r"the cluster has no .* 'nobody'"):
            find("nobody")
        with pytest.raises(UnknownNameError, match=r"the cluster has no .* \[\]"):
            find([])  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match=r"no job 'j'; did you mean 'default/j'\?"):
        cluster.job("j")


def test_a_limit_is_lifted_and_not_only_left_unchanged():
    cluster = cluster_of(task("a"), task("b"), max_available=1, deadline=9.0, user="ada")
    live = Scheduler().attach(cluster)
    cluster.apply(JobChanged("default/j", priority=1))
    job = cluster.job("default/j")
    assert (job.max_available, job.deadline, job.user) == (1, 9.0, "ada")
    assert len(live.schedule().binds) == 1
    cluster.apply(
        JobChanged(
            "default/j", max_available=NO_LIMIT, deadline=NO_LIMIT, user="", labels={"a": "b"}
        )
    )
    job = cluster.job("default/j")
    assert (job.max_available, job.deadline, job.user, job.labels) == (None, None, "", {"a": "b"})
    assert len(live.schedule().binds) == 2


@pytest.mark.parametrize(
    "wrong", [{"status": "Running"}, {"status": []}, {"node_name": {}}], ids=str
)
def test_a_task_that_no_table_can_hold_leaves_the_cluster_as_it_was(wrong: Any) -> None:
    cluster = cluster_of(task("a"))
    before = cluster.snapshot()
    new = TaskInfo(**{"uid": "new", "name": "new", **wrong})
    job = JobInfo(name="other", queue="q", tasks=[new])
    for event in (OtherTaskArrived(new), TasksAdded("default/j", [new]), JobArrived(job)):
        with pytest.raises(EventError, match=f"{next(iter(wrong))}: expected a "):
            cluster.apply(event)
        cluster.apply(OtherTaskArrived(TaskInfo(uid="new", name="new")))
        cluster.apply(TaskRemoved("new"))
    assert cluster.snapshot() == before


def test_what_a_job_is_changed_to_is_checked():
    cluster = cluster_of(task())
    before = cluster.snapshot()
    with pytest.raises(EventError, match=r"^events\[0\]\.deadline: expected"):
        cluster.apply(JobChanged("default/j", deadline="soon"))  # type: ignore[arg-type]
    with pytest.raises(EventError, match=r"events\[0\].succeeded: expected True or False"):
        cluster.apply(JobEnded("default/j", succeeded=None))  # type: ignore[arg-type]
    with pytest.raises(EventError, match=r"there is no node 'n9'"):
        cluster.apply(TaskFound("t", "n9"))
    with pytest.raises(EventError, match=r"expected a TaskInfo, got 't'"):
        cluster.apply(TaskChanged("t"))  # type: ignore[arg-type]
    assert cluster.snapshot() == before


def test_a_job_ends_with_all_its_tasks():
    running = task("a", status=TaskStatus.RUNNING, node_name="n1", start_time=2.0)
    failed = task("c", status=TaskStatus.FAILED)
    cluster = cluster_of(running, task("b"), failed)
    follower = JobInfo(name="f", queue="q", tasks=[task("f")])
    cluster.apply(TimePassed(5), JobArrived(follower), JobEnded("default/j"))
    ended = {each.uid: each for each in cluster.job("default/j").tasks}
    assert [ended[uid].status for uid in "abc"] == [
        TaskStatus.SUCCEEDED, TaskStatus.SUCCEEDED, TaskStatus.FAILED,
    ]  # fmt: skip
    assert ended["a"].attained_service == 3.0
    assert cluster.job("default/f").tasks[0].status is TaskStatus.PENDING


@pytest.mark.parametrize(
    "known",
    [
        task(),
        task(status=TaskStatus.BOUND, node_name="n1"),
        task(status=TaskStatus.RUNNING, node_name="n1", start_time=1.0),
        task(status=TaskStatus.RELEASING, node_name="n2"),
    ],
    ids=lambda known: known.status.value,
)
def test_a_task_is_where_it_was_found(known):
    cluster = cluster_of(known)
    live = Scheduler().attach(cluster)
    cluster.apply(TimePassed(8), TaskFound("t", "n2"))
    found = cluster.task("t")
    assert (found.status, found.node_name) == (TaskStatus.RUNNING, "n2")
    assert live.schedule() == Scheduler().schedule(cluster.snapshot())


def test_what_has_ended_cannot_be_found_running():
    cluster = cluster_of(task(status=TaskStatus.SUCCEEDED))
    with pytest.raises(EventError, match="the task is Succeeded; it cannot run again"):
        cluster.apply(TaskFound("t", "n1"))


def test_a_task_that_is_described_anew_stays_where_it_is():
    cluster = cluster_of(task(status=TaskStatus.RUNNING, node_name="n1", start_time=3.0))
    hold = Hold(kind=HoldKind.GATE, name="gate")
    new = task(priority=7, labels={"a": "b"}, holds=(hold,), status=TaskStatus.FAILED)
    cluster.apply(TaskChanged(new))
    assert cluster.task("t") == evolve(
        new, status=TaskStatus.RUNNING, node_name="n1", start_time=3.0
    )
    assert cluster.snapshot().task("t") == cluster.task("t")
