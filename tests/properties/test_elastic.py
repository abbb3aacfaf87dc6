"""Laws of jobs that grow and shrink, on whole cycles."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import reference_schedule
from tests.reference.groups import Groups, has_groups
from tests.reference.plugins import is_broken
from tests.reference.state import State
from tests.support.elastic import configuration, scheduler
from tests.support.elastic_worlds import elastic_jobs, elastic_worlds

from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskInfo, TaskStatus
from batchsched.state.groups import Counting
from batchsched.state.ledger import counted_job

ACTIONS = st.sampled_from(
    [
        ["allocate"],
        ["reclaim", "allocate"],
        ["preempt"],
        ["allocate", "backfill", "preempt", "reclaim"],
        [
            {"name": "allocate", "arguments": {"unready": "hold"}},
            {"name": "backfill", "arguments": {"strategy": "displace"}},
        ],
        [
            {"name": "allocate", "arguments": {"unready": "hold", "starvationThreshold": 5}},
            {"name": "backfill", "arguments": {"strategy": "release"}},
        ],
        [{"name": "allocate", "arguments": {"starvationThreshold": 5, "evictBackfill": True}}],
        [{"name": "allocate", "arguments": {"retry": "largest-first"}}],
        [{"name": "backfill", "arguments": {"strategy": "release"}}, "reserve"],
    ]
)
SHARES = st.sampled_from(["capacity", "proportion"])
AT_MINIMUM = st.sampled_from(["whole-job", "protect"])


def is_ready(job: JobInfo) -> bool:
    state = counted_job(job)
    if state.groups is not None:
        return state.groups.is_satisfied(Counting.READY)
    return state.ready_count >= state.min_available


@settings(max_examples=60)
@given(elastic_worlds(), ACTIONS, SHARES, AT_MINIMUM)
def test_a_cycle_decides_what_plain_loops_decide(
    snapshot: Snapshot, actions: list[object], shares: str, at_minimum: str
) -> None:
    more = {"shares": shares, "at_minimum": at_minimum}
    result = scheduler(*actions, **more).schedule(snapshot)
    expected = reference_schedule(snapshot, configuration(*actions, **more))
    assert result.evictions == expected.evictions
    assert result.binds == expected.binds
    assert result.tasks == expected.tasks
    assert result.left_out.keys() == expected.left_out.keys()
    assert {u: j.phase for u, j in result.jobs.items()} == {
        u: j.phase for u, j in expected.jobs.items()
    }


@settings(max_examples=60)
@given(elastic_worlds(), ACTIONS, SHARES, AT_MINIMUM)
def test_e1_e2_e4_jobs_start_and_end_whole_and_keep_to_their_maxima(
    snapshot: Snapshot, actions: list[object], shares: str, at_minimum: str
) -> None:
    result = scheduler(*actions, shares=shares, at_minimum=at_minimum).schedule(snapshot)
    bound = {bind.task_uid for bind in result.binds}
    evicted = {eviction.task_uid for eviction in result.evictions}
    for job in snapshot.jobs:
        if job.uid in result.left_out:
            assert not {task.uid for task in job.tasks} & (bound | evicted)
            continue
        after = evolve(job, tasks=[evolve(t, status=result.tasks[t.uid].status) for t in job.tasks])
        mine = {task.uid for task in job.tasks}
        if mine & bound:  # E1
            assert is_ready(after)
        if mine & evicted and is_ready(job):  # E2
            runs = any(task.status is TaskStatus.RUNNING for task in after.tasks)
            assert is_ready(after) or not runs
        for task_set, most in [(None, job.max_available), *((g.name, g.max) for g in job.groups)]:
            if most is not None and task_set in {None, *(t.group for t in job.tasks)}:  # E4
                before, now = (
                    sum(is_placed(t.status) for t in j.tasks if task_set in (None, t.group))
                    for j in (job, after)
                )
                assert now <= max(most, before)


def is_placed(status: TaskStatus) -> bool:
    return bool(status.conditionally_ready) and status is not TaskStatus.SUCCEEDED


@settings(max_examples=40)
@given(elastic_jobs("e", nodes=1, tasks=6), elastic_jobs("f", nodes=1, tasks=4))
def test_e3_surplus_goes_first_then_a_replica_then_a_job(one: JobInfo, other: JobInfo) -> None:
    """A claim of the smallest size takes one unit of a queue that has all on loan: the last.

    Of jobs, one that has lost a part of what it needs goes after those that have not.
    """
    jobs = [
        evolve(
            job,
            queue="a",
            priority=0,
            tasks=[
                evolve(
                    task,
                    status=TaskStatus.RUNNING if task.status.holds else task.status,
                    resreq=Resource(milli_cpu=1000),
                )
                for task in job.tasks
                if task.status is not TaskStatus.RESERVED
            ],
        )
        for job in (one, other)
    ]
    claimant = JobInfo(
        name="c", queue="b", tasks=[TaskInfo(uid="c", name="c", resreq=Resource(milli_cpu=1000))]
    )
    running = [t for job in jobs for t in job.tasks if t.status is TaskStatus.RUNNING]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000 * len(running)))],
        jobs=[*jobs, claimant],
        queues=[Queue(name="a", weight=0), Queue(name="b")],
    )
    result = scheduler("reclaim").schedule(snapshot)
    if not running or result.left_out:
        return
    units = [unit for job in jobs for unit in units_by_hand(snapshot, job)]
    every = by_value(running)
    _, _, last = max(units, key=lambda unit: (unit[0], every.index(unit[1][0])))
    assert {e.task_uid for e in result.evictions} == {task.uid for task in last}


def units_by_hand(
    snapshot: Snapshot, job: JobInfo
) -> list[tuple[int, list[TaskInfo], list[TaskInfo]]]:
    """Kind (the larger, the less valuable), tasks, and what goes with them."""
    if is_broken(State(snapshot), job):
        there = [task for task in by_value(job.tasks) if task.status is TaskStatus.RUNNING]
        return [(-1, there, there)]
    if has_groups(job):
        return Groups(State(snapshot), job).units(by_value)
    there = [task for task in by_value(job.tasks) if task.status is TaskStatus.RUNNING]
    succeeded = sum(task.status is TaskStatus.SUCCEEDED for task in job.tasks)
    least = max(0, job.min_available - succeeded)
    units = [(0, there[:least], there)] if least and there else []
    return units + [(2, [task], [task]) for task in there[least:]]


def by_value(tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    return sorted(tasks, key=lambda task: (-task.priority, task.uid))


@settings(max_examples=30)
@given(elastic_worlds(), ACTIONS)
def test_e5_a_maximum_of_no_consequence_changes_nothing_for_gangs_that_need_all_tasks(
    snapshot: Snapshot, actions: list[object]
) -> None:
    plain = evolve(
        snapshot,
        jobs=[
            JobInfo(
                name=job.name,
                queue=job.queue,
                priority=job.priority,
                min_available=len(job.tasks),
                tasks=[evolve(task, group=None) for task in job.tasks],
            )
            for job in snapshot.jobs
        ],
    )
    bounded = evolve(plain, jobs=[evolve(job, max_available=len(job.tasks)) for job in plain.jobs])
    results = [scheduler(*actions).schedule(each) for each in (plain, bounded)]
    assert results[0].binds == results[1].binds
    assert results[0].evictions == results[1].evictions
    assert results[0].tasks == results[1].tasks
