import pickle

import pytest

from batchsched import (
    Dependency,
    JobEvent,
    JobInfo,
    Plan,
    Queue,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
)


def job(name: str, *others: str, **more: object) -> JobInfo:
    depends_on = [Dependency(job=f"default/{other}", on=JobEvent.ENDED) for other in others]
    return JobInfo(name=name, queue="q", depends_on=depends_on, **more)


def faults_of(*jobs: JobInfo) -> list[str]:
    with pytest.raises(SnapshotError) as caught:
        Snapshot(queues=[Queue(name="q")], jobs=jobs)
    return [str(fault) for fault in caught.value.faults]


def test_the_order_of_dependencies_does_not_matter() -> None:
    assert job("j", "a", "b") == job("j", "b", "a")
    assert hash(job("j", "a", "b")) == hash(job("j", "b", "a"))


def test_plans_and_dependencies_are_values() -> None:
    for value in (Plan(start=1, nodes={"t": "n"}), Dependency(job="j", on=JobEvent.FAILED)):
        assert pickle.loads(pickle.dumps(value)) == value
        assert hash(pickle.loads(pickle.dumps(value))) == hash(value)


def test_a_task_without_an_estimate_has_that_of_its_job() -> None:
    of_job = job("j", estimate=60)
    assert of_job.estimate_of(TaskInfo(uid="t", name="t")) == 60
    assert of_job.estimate_of(TaskInfo(uid="t", name="t", estimate=0)) == 0
    assert job("j").estimate_of(TaskInfo(uid="t", name="t")) is None


def test_waiting_counts_from_the_creation_unless_something_else_is_known() -> None:
    assert job("j", creation_time=5).waits_since == 5
    assert job("j", creation_time=5, eligible_time=9).waits_since == 9


@pytest.mark.parametrize(
    ("start_time", "status", "held"),
    [
        (None, TaskStatus.RUNNING, 7),
        (90, TaskStatus.RUNNING, 17),
        (120, TaskStatus.RUNNING, 7),
        (90, TaskStatus.RELEASING, 17),
        (90, TaskStatus.PENDING, 7),
    ],
)
def test_the_seconds_held_are_those_of_all_runs(
    start_time: float | None, status: TaskStatus, held: float
) -> None:
    task = TaskInfo(uid="t", name="t", status=status, start_time=start_time, attained_service=7)
    assert task.seconds_held(100) == held


def test_each_cycle_of_jobs_that_wait_for_one_another_is_named() -> None:
    assert faults_of(job("a", "b"), job("b", "c"), job("c", "b"), job("d", "d")) == [
        (
            "jobs['default/b'].depends_on: "
            "expected dependencies without a cycle, got 'default/b' -> 'default/c' -> 'default/b'"
        ),
        (
            "jobs['default/d'].depends_on: "
            "expected dependencies without a cycle, got 'default/d' -> 'default/d'"
        ),
    ]


def test_a_job_that_is_eligible_waits_for_nobody_and_closes_no_cycle() -> None:
    jobs = [job("a", "b", eligible_time=3), job("b", "a")]
    assert Snapshot(queues=[Queue(name="q")], jobs=jobs).jobs


def test_jobs_that_wait_for_the_same_one_are_no_cycle() -> None:
    jobs = [job("a"), job("b", "a"), job("c", "a"), job("d", "b", "c", "gone")]
    assert Snapshot(queues=[Queue(name="q")], jobs=jobs).jobs[3].depends_on


def test_long_chains_of_jobs_are_no_problem() -> None:
    jobs = [job(f"j{i}", f"j{i + 1}") for i in range(5000)]
    assert len(Snapshot(queues=[Queue(name="q")], jobs=jobs).jobs) == 5000


def test_all_faults_are_told_at_once_with_their_paths() -> None:
    wrong = JobInfo(
        name="j",
        queue="q",
        estimate=-1,
        depends_on=["x"],
        plan=Plan(start=float("nan")),
        tasks=[TaskInfo(uid="t", name="t", estimate="1h", attained_service=None)],
    )
    assert faults_of(wrong) == [
        "jobs['default/j'].estimate: expected a finite number of seconds, 0 or more, got -1",
        "jobs['default/j'].depends_on[0]: expected a Dependency, got 'x'",
        "jobs['default/j'].plan.start: expected a time (a finite number of seconds), got nan",
        (
            "jobs['default/j'].tasks['t'].estimate: "
            "expected a finite number of seconds, 0 or more, got '1h'"
        ),
        (
            "jobs['default/j'].tasks['t'].attained_service: "
            "expected a finite number of seconds, 0 or more, got None"
        ),
    ]
