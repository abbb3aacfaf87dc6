"""A living cluster keeps times as the chain of snapshots does."""

import pytest

from batchsched import (
    CycleResult,
    Dependency,
    JobEvent,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    Resource,
    Scheduler,
    TaskInfo,
)
from batchsched.live import Cluster, JobArrived, JobRemoved, TaskSucceeded, TimePassed

CPU = Resource(milli_cpu=1000)


def job(name: str, **more: object) -> JobInfo:
    task = TaskInfo(uid=f"{name}-1", name=name, resreq=CPU)
    return JobInfo(name=name, queue="q", tasks=[task], **more)


def begun(*jobs: JobInfo) -> Cluster:
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))
    return Cluster(nodes=[node], queues=[Queue(name="q")], jobs=jobs, now=5)


def test_starts_and_what_was_attained() -> None:
    cluster = begun(job("a"))
    cluster.carry_out(Scheduler().attach(cluster).schedule())
    assert cluster.snapshot().jobs[0].tasks[0].start_time == 5
    cluster.apply(TimePassed(9), TaskSucceeded("a-1"))
    (task,) = cluster.snapshot().jobs[0].tasks
    assert (task.start_time, task.attained_service) == (None, 4)


def test_the_eligible_time_is_set_when_dependencies_first_hold() -> None:
    after_a = [Dependency(job="default/a", on=JobEvent.SUCCEEDED)]
    cluster = begun(job("a"), job("b", depends_on=after_a))
    cluster.carry_out(Scheduler().attach(cluster).schedule())
    assert cluster.snapshot().jobs[1].eligible_time is None
    cluster.apply(TimePassed(9), TaskSucceeded("a-1"))
    assert cluster.snapshot().jobs[1].eligible_time == 9
    cluster.apply(JobArrived(job("c", depends_on=after_a, creation_time=8)))
    assert cluster.snapshot().jobs[2].eligible_time == 8
    cluster.apply(JobRemoved("default/a"), TimePassed(12))
    assert [job.eligible_time for job in cluster.snapshot().jobs] == [9, 8]


@pytest.mark.parametrize("not_started", [(), ("other-1",)])
def test_a_job_that_waits_for_one_to_start_is_eligible_once_that_is_carried_out(
    not_started: tuple[str, ...],
) -> None:
    after_a = [Dependency(job="default/a", on=JobEvent.STARTED)]
    cluster = begun(job("a"), job("b", depends_on=after_a), job("other"))
    scheduler = Scheduler().attach(cluster)
    first = scheduler.schedule()
    assert {bind.task_uid for bind in first.binds} == {"a-1", "other-1"}
    cluster.carry_out(first, not_started)
    assert {one.name: one.eligible_time for one in cluster.snapshot().jobs}["b"] == 5
    assert [bind.task_uid for bind in scheduler.schedule().binds] == ["b-1"]


def test_a_trial_takes_plans_and_eligible_times_back() -> None:
    after_a = [Dependency(job="default/a", on=JobEvent.SUCCEEDED, satisfied_if_missing=True)]
    cluster = begun(job("a"), job("b", depends_on=after_a))
    before = cluster.snapshot()
    with cluster.trial() as trial:
        trial.carry_out(CycleResult(planned={"default/a": Plan(start=7, nodes={"a-1": "n1"})}))
        assert cluster.snapshot().jobs[0].plan == Plan(start=7, nodes={"a-1": "n1"})
        trial.apply(JobRemoved("default/a"), TimePassed(8))
        assert cluster.snapshot().jobs[0].eligible_time == 8
    assert cluster.snapshot() == before
    cluster.apply(TimePassed(9))
    assert cluster.snapshot().jobs[1].eligible_time is None


def test_plans_are_those_of_the_last_cycle() -> None:
    cluster = begun(job("a"))
    cluster.carry_out(CycleResult(planned={"default/a": Plan(start=7, nodes={"a-1": "n1"})}))
    cluster.apply(TimePassed(6))
    assert cluster.snapshot().jobs[0].plan is not None
    cluster.carry_out(CycleResult())
    assert cluster.snapshot().jobs[0].plan is None
