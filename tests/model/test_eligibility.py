import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from batchsched import Dependency, JobEvent, JobInfo, TaskInfo, TaskStatus
from batchsched.model.rules import unmet_dependencies
from batchsched.testing import snapshots

PENDING, RUNNING = TaskStatus.PENDING, TaskStatus.RUNNING
SUCCEEDED, FAILED = TaskStatus.SUCCEEDED, TaskStatus.FAILED


def job(name: str, *statuses: TaskStatus, least: int = 1, **more: object) -> JobInfo:
    tasks = [
        TaskInfo(uid=f"{name}-{i}", name="t", status=status) for i, status in enumerate(statuses)
    ]
    return JobInfo(name=name, queue="q", min_available=least, tasks=tasks, **more)


def after(name: str, on: JobEvent, **more: bool) -> Dependency:
    return Dependency(job=f"default/{name}", on=on, **more)


@pytest.mark.parametrize(
    ("statuses", "least", "holds"),
    [
        ((), 1, ""),
        ((), 0, ""),
        ((PENDING, PENDING), 1, ""),
        ((RUNNING, PENDING), 2, ""),
        ((RUNNING, PENDING), 1, "started"),
        ((RUNNING, SUCCEEDED), 2, "started"),
        ((SUCCEEDED, SUCCEEDED), 2, "started succeeded ended"),
        ((SUCCEEDED, FAILED), 1, "started succeeded ended"),
        ((SUCCEEDED, FAILED), 2, "started ended failed"),
        ((FAILED,), 0, "started succeeded ended"),
        ((FAILED, PENDING), 1, ""),
    ],
)
def test_what_holds_of_a_job(statuses: tuple[TaskStatus, ...], least: int, holds: str) -> None:
    found = []
    for on in JobEvent:
        jobs = [job("a", *statuses, least=least), job("b", depends_on=[after("a", on)])]
        if not unmet_dependencies(jobs):
            found.append(on.value)
    assert found == holds.split()


def test_a_job_that_is_not_there_has_yet_to_come_or_ended_well() -> None:
    for on in JobEvent:
        waits = job("b", depends_on=[after("a", on)])
        assert unmet_dependencies([waits])
        satisfied = job("b", depends_on=[after("a", on, satisfied_if_missing=True)])
        assert bool(unmet_dependencies([satisfied])) is (on is JobEvent.FAILED)


def test_what_ended_otherwise_can_never_hold_and_holds_up_all_that_waits_for_it() -> None:
    jobs = [
        job("a", FAILED),
        job("b", PENDING, depends_on=[after("a", JobEvent.SUCCEEDED)]),
        job("c", PENDING, depends_on=[after("b", JobEvent.ENDED), after("x", JobEvent.ENDED)]),
        job("d", PENDING, depends_on=[after("a", JobEvent.FAILED)]),
        job("e", RUNNING, depends_on=[after("a", JobEvent.SUCCEEDED)]),
        job("f", PENDING, depends_on=[after("e", JobEvent.ENDED)]),
    ]
    found = {uid: unmet.text for uid, unmet in unmet_dependencies(jobs).items()}
    assert found == {
        "default/b": "can no longer hold: default/a (succeeded)",
        "default/c": "can no longer hold: default/b (ended)",
        "default/e": "can no longer hold: default/a (succeeded)",
        "default/f": "waits for default/e (ended)",
    }


def test_what_held_once_is_enough() -> None:
    assert not unmet_dependencies(
        [job("b", depends_on=[after("a", JobEvent.ENDED)], eligible_time=3)]
    )


@given(snapshots(always=["dependencies"]), st.randoms(use_true_random=False))
def test_the_order_of_input_does_not_matter(snapshot, random) -> None:
    jobs = list(snapshot.jobs)
    random.shuffle(jobs)
    assert dict(unmet_dependencies(jobs)) == dict(unmet_dependencies(snapshot.jobs))


@given(snapshots(always=["dependencies"]))
def test_removing_a_satisfied_dependency_changes_nothing(snapshot) -> None:
    unmet = unmet_dependencies(snapshot.jobs)
    only_open = [
        evolve(j, depends_on=unmet[j.uid].dependencies if j.uid in unmet else ())
        for j in snapshot.jobs
    ]
    assert unmet_dependencies(only_open) == unmet
