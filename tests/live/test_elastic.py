"""A living cluster with groups decides what a cycle from scratch does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.elastic import elastic, room, scheduler
from tests.support.elastic_worlds import elastic_jobs, elastic_worlds

from batchsched import JobInfo, Snapshot, TaskGroup, TaskStatus, next_snapshot
from batchsched.live import (
    Cluster,
    JobArrived,
    JobChanged,
    TaskFailed,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
)

ALLOCATES = st.sampled_from(
    [
        "allocate",
        {"name": "allocate", "arguments": {"unready": "hold", "starvationThreshold": 2}},
        {"name": "allocate", "arguments": {"retry": "largest-first", "starvationThreshold": 0}},
    ]
)


@settings(max_examples=25)
@given(elastic_worlds(), st.data())
def test_cycles_on_what_changed_decide_as_cycles_from_scratch(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    shares = data.draw(st.sampled_from(["capacity", "proportion"]))
    used = scheduler(data.draw(ALLOCATES), "preempt", "reclaim", shares=shares)
    cluster = Cluster(snapshot)
    attached = used.attach(cluster)
    for step in range(3):
        result = attached.schedule()
        assert result == used.schedule(cluster.snapshot())
        cluster.carry_out(result, at_once=True)
        now = cluster.snapshot()
        events: list[object] = [TimePassed(now.now + 1)]
        tasks = [task for job in now.jobs for task in job.tasks]
        for task in tasks:
            if task.status in (TaskStatus.BINDING, TaskStatus.BOUND):
                events += [TaskStarted(task.uid)]
            elif task.status is TaskStatus.RUNNING and data.draw(st.booleans()):
                ended = data.draw(st.sampled_from([TaskSucceeded, TaskFailed]))
                events += [ended(task.uid)]
        if data.draw(st.booleans()):
            more = data.draw(elastic_jobs(f"k{step}"))
            waiting = [t for t in more.tasks if t.status is TaskStatus.PENDING]
            events.append(JobArrived(of_tasks(more, waiting)))
        for job in now.jobs:
            if job.max_available is not None and data.draw(st.booleans()):
                events.append(JobChanged(job.uid, max_available=job.max_available + 1))
        cluster.apply(*events)


def of_tasks(job: JobInfo, tasks: list[object]) -> JobInfo:
    return type(job)(
        name=job.name,
        queue=job.queue,
        min_available=job.min_available,
        max_available=job.max_available,
        groups=job.groups,
        min_groups=job.min_groups,
        tasks=tasks,
    )


def test_a_job_grows_when_its_maximum_does() -> None:
    cluster = Cluster(room(4, [elastic("e", {None: "RPPP"}, max_available=1)]))
    used = scheduler("allocate")
    assert used.attach(cluster).schedule().binds == ()
    cluster.apply(JobChanged("default/e", max_available=3))
    assert len(used.attach(cluster).schedule().binds) == 2


def test_the_next_snapshot_keeps_groups() -> None:
    groups = [TaskGroup("a", min=1), TaskGroup("b", min=1)]
    snapshot = room(2, [elastic("e", {"a": "P", "b": "P"}, groups=groups)])
    after = next_snapshot(snapshot, scheduler("allocate").schedule(snapshot), now=1.0)
    assert after.jobs[0].groups == tuple(groups)
    assert [task.group for task in after.jobs[0].tasks] == ["a", "b"]
