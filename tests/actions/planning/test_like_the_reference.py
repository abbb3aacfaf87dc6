"""The action plan decides like plain loops that look at everything, on random snapshots."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import check_reference
from tests.support.known import WITHOUT_NEWER

from batchsched import Plan, Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import configs, snapshots

plain = {"endings": False, "reservations": False, "invalid_jobs": False, "backfill": False}


def with_old_plans(snapshot: Snapshot, numbers: list[int]) -> Snapshot:
    """Give some of the jobs plans: some that hold, some that do not."""
    names = [node.name for node in snapshot.nodes] or ["gone"]
    jobs = []
    for position, old in enumerate(snapshot.jobs):
        job = old
        number = numbers[position % len(numbers)]
        if number % 3:
            places = {
                task.uid: names[(number // 3 + i) % len(names)] for i, task in enumerate(job.tasks)
            }
            plan = Plan(start=snapshot.now + (number % 7) * 5 - 5, nodes=places)
            job = evolve(job, plan=plan)
        jobs.append(job)
    return evolve(snapshot, jobs=jobs)


numbers = st.lists(st.integers(0, 50), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    snapshots(
        **plain,
        always=["running", "durations"],
        min_jobs=3,
        **WITHOUT_NEWER,
    ),
    configs(actions=["plan"]),
    numbers,
)
def test_plans_are_those_of_the_reference(
    snapshot: Snapshot, config: SchedulerConfig, numbers: list[int]
) -> None:
    snapshot = with_old_plans(snapshot, numbers)
    check_reference(snapshot, Scheduler(config).schedule(snapshot), config)


@settings(max_examples=100)
@given(
    snapshots(
        constraints=False,
        affinity=False,
        scalars=False,
        min_jobs=4,
        always=["durations"],
        **WITHOUT_NEWER,
    ),
    configs(actions=["plan", "allocate", "backfill", "preempt"]),
    numbers,
)
def test_other_actions_respect_plans_as_in_the_reference(
    snapshot: Snapshot, config: SchedulerConfig, numbers: list[int]
) -> None:
    snapshot = with_old_plans(snapshot, numbers)
    check_reference(snapshot, Scheduler(config).schedule(snapshot), config)
