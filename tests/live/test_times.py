"""A living cluster keeps times as the chain of snapshots does."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    CycleResult,
    Dependency,
    EventError,
    JobEvent,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    Resource,
    Scheduler,
    TaskInfo,
    TaskStatus,
    next_snapshot,
)
from batchsched.live import (
    Cluster,
    EndedJobsRemoved,
    Event,
    JobArrived,
    JobChanged,
    JobRemoved,
    TaskFailed,
    TaskGone,
    TaskRemoved,
    TasksAdded,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
)

CPU = Resource(milli_cpu=1000)


def job(name: str, **more: object) -> JobInfo:
    task = TaskInfo(uid=f"{name}-1", name=name, resreq=CPU)
    return JobInfo(name=name, queue="q", tasks=[task], **more)


def begun(*jobs: JobInfo) -> Cluster:
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))
    return Cluster(nodes=[node], queues=[Queue(name="q")], jobs=jobs, now=5)


def test_starts_and_what_was_attained() -> None:
    cluster = begun(job("a"))
    cluster.carry_out(Scheduler().attach(cluster).schedule(), at_once=True)
    assert cluster.snapshot().jobs[0].tasks[0].start_time == 5
    cluster.apply(TimePassed(9), TaskSucceeded("a-1"))
    (task,) = cluster.snapshot().jobs[0].tasks
    assert (task.start_time, task.attained_service) == (None, 4)


def test_the_eligible_time_is_set_when_dependencies_first_hold() -> None:
    after_a = [Dependency(job="default/a", on=JobEvent.SUCCEEDED)]
    cluster = begun(job("a"), job("b", depends_on=after_a))
    cluster.carry_out(Scheduler().attach(cluster).schedule(), at_once=True)
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
    cluster.carry_out(first, not_started=not_started, at_once=True)
    assert {one.name: one.eligible_time for one in cluster.snapshot().jobs}["b"] == 5
    assert [bind.task_uid for bind in scheduler.schedule().binds] == ["b-1"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_job_is_eligible_after_a_cycle_that_decides_nothing(at_once: bool) -> None:
    after_gone = Dependency(job="default/gone", on=JobEvent.SUCCEEDED, satisfied_if_missing=True)
    waiting = JobInfo(name="j", queue="unknown", depends_on=[after_gone], creation_time=3)
    cluster = begun(waiting)
    before = cluster.snapshot()
    cycle = Scheduler().attach(cluster).schedule()
    cluster.carry_out(cycle, at_once=at_once)
    assert cluster.snapshot() == next_snapshot(before, cycle, now=before.now)
    assert cluster.snapshot().jobs[0].eligible_time == 3


@pytest.mark.parametrize(
    "then", [EndedJobsRemoved(), JobRemoved("default/a"), TimePassed(60), TaskRemoved("a-1")]
)
def test_an_event_sets_the_eligible_time_before_the_next_happens(then: Event) -> None:
    after_a = [Dependency(job="default/a", on=JobEvent.SUCCEEDED)]
    cluster = begun(job("a"), job("b", depends_on=after_a))
    cluster.carry_out(Scheduler().attach(cluster).schedule(), at_once=True)
    cluster.apply(TaskSucceeded("a-1"), then)
    assert cluster.snapshot().jobs[-1].eligible_time == 5


EVENTS = [
    *(TimePassed(now) for now in (6, 7, 8)),
    *(
        event(f"{name}-1")
        for event in (TaskStarted, TaskSucceeded, TaskFailed, TaskGone, TaskRemoved)
        for name in "ab"
    ),
    *(TasksAdded(f"default/{name}", job(f"{name}{name}").tasks) for name in "ab"),
    *(JobRemoved(f"default/{name}") for name in "abcd"),
    *(JobChanged("default/a", min_available=count) for count in (0, 1, 2)),
    EndedJobsRemoved(),
]
DEPENDENCIES = st.lists(
    st.builds(
        Dependency,
        job=st.sampled_from(["default/a", "default/b"]),
        on=st.sampled_from(JobEvent),
        satisfied_if_missing=st.booleans(),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda dependency: dependency.job,
)


@given(st.data())
def test_events_at_once_do_what_they_do_one_by_one(data: st.DataObject) -> None:
    running = TaskInfo(uid="b-1", name="b", resreq=CPU, status=TaskStatus.RUNNING, node_name="n1")
    jobs = [
        job("a"),
        JobInfo(name="b", queue="q", tasks=[running]),
        job("c", depends_on=data.draw(DEPENDENCIES)),
    ]
    arrivals = [JobArrived(job(name, depends_on=data.draw(DEPENDENCIES))) for name in "de"]
    together, one_by_one = begun(*jobs), begun(*jobs)
    cycle = Scheduler().attach(together).schedule()
    bound = [bind.task_uid for bind in cycle.binds]
    for each in (together, one_by_one):
        each.carry_out(cycle, not_started=bound, at_once=True)
    before = together.snapshot()
    happened = []
    for event in data.draw(st.lists(st.sampled_from([*EVENTS, *arrivals]), max_size=8)):
        with suppress(EventError):
            one_by_one.apply(event)
            happened.append(event)
    together.apply(*happened)
    assert together.snapshot() == one_by_one.snapshot()
    told = next_snapshot(before, None, now=5, not_started=bound, events=happened)
    assert told == together.snapshot()


def test_a_trial_takes_plans_and_eligible_times_back() -> None:
    after_a = [Dependency(job="default/a", on=JobEvent.SUCCEEDED, satisfied_if_missing=True)]
    cluster = begun(job("a"), job("b", depends_on=after_a))
    before = cluster.snapshot()
    with cluster.trial() as trial:
        trial.carry_out(
            CycleResult(planned={"default/a": Plan(start=7, nodes={"a-1": "n1"})}), at_once=True
        )
        assert cluster.snapshot().jobs[0].plan == Plan(start=7, nodes={"a-1": "n1"})
        trial.apply(TimePassed(8), JobRemoved("default/a"))
        assert cluster.snapshot().jobs[0].eligible_time == 8
    assert cluster.snapshot() == before
    cluster.apply(TimePassed(9))
    assert cluster.snapshot().jobs[1].eligible_time is None


def test_plans_are_those_of_the_last_cycle() -> None:
    cluster = begun(job("a"))
    cluster.carry_out(
        CycleResult(planned={"default/a": Plan(start=7, nodes={"a-1": "n1"})}), at_once=True
    )
    cluster.apply(TimePassed(6))
    assert cluster.snapshot().jobs[0].plan is not None
    cluster.carry_out(CycleResult(), at_once=True)
    assert cluster.snapshot().jobs[0].plan is None
