"""A shrunk snapshot still shows what it should, and nothing in it could be taken away."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    Dependency,
    HostPort,
    JobEvent,
    JobInfo,
    NodeInfo,
    Plan,
    Queue,
    Resource,
    Snapshot,
    SnapshotError,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    UnfitReason,
    schedule,
    shrink,
)
from batchsched.errors import ArgumentError
from batchsched.testing import snapshots
from batchsched.tools.shrinking import neutral_names

pytestmark = pytest.mark.slow


def smallest(
    snapshot: Snapshot, holds: Callable[[Snapshot], bool], *, neutral: bool = False
) -> Snapshot:
    found = shrink(snapshot, holds, neutral=neutral)
    assert found.is_complete
    return found.snapshot


def waits(snapshot: Snapshot) -> bool:
    return bool(schedule(snapshot).pending)


def objects(snapshot: Snapshot) -> int:
    tasks = sum(len(job.tasks) for job in snapshot.jobs) + len(snapshot.other_tasks)
    return tasks + len(snapshot.jobs) + len(snapshot.nodes) + len(snapshot.queues)


def cluster(*, nodes: int, jobs: int) -> Snapshot:
    """A cluster that is full: every node runs three tasks of one cpu, and many jobs wait."""
    one = Resource(milli_cpu=1000, memory=1 << 30)
    running = [
        JobInfo(
            name=f"runs-{i:05}",
            queue=f"q{i % 3}",
            tasks=[
                TaskInfo(
                    uid=f"runs-{i:05}-{k}",
                    name="t",
                    resreq=one,
                    status=TaskStatus.RUNNING,
                    node_name=f"node-{i:04}",
                )
                for k in range(3)
            ],
        )
        for i in range(nodes)
    ]
    waiting = [
        JobInfo(
            name=f"waits-{i:05}",
            queue=f"q{i % 3}",
            priority=i % 5,
            creation_time=float(i),
            min_available=2,
            tasks=[TaskInfo(uid=f"waits-{i:05}-{k}", name="t", resreq=one) for k in range(2)],
        )
        for i in range(jobs)
    ]
    return Snapshot(
        nodes=[NodeInfo(name=f"node-{i:04}", allocatable=3 * one) for i in range(nodes)],
        queues=[Queue(name=f"q{i}", weight=i + 1) for i in range(3)],
        jobs=[*running, *waiting],
        now=1e6,
    )


def waiting_job(name: str) -> JobInfo:
    return JobInfo(name=name, queue="q", tasks=[TaskInfo(uid=name, name=name)])


@given(snapshots())
@settings(max_examples=8)
def test_what_is_left_still_shows_it_and_is_not_larger(snapshot: Snapshot) -> None:
    if not waits(snapshot):
        with pytest.raises(SnapshotError, match="for which `holds` is true"):
            smallest(snapshot, waits)
        return
    small = smallest(snapshot, waits, neutral=True)
    assert waits(small)
    assert objects(small) <= objects(snapshot)
    assert smallest(small, waits, neutral=True) == small


@given(snapshots(max_jobs=3, max_tasks=3))
@settings(max_examples=6)
def test_nothing_that_is_left_could_be_taken_away_alone(snapshot: Snapshot) -> None:
    if not waits(snapshot):
        return
    small = smallest(snapshot, waits)
    for job in small.jobs:
        assert not waits(evolve(small, jobs=[other for other in small.jobs if other is not job]))
    for queue in small.queues:
        left = [other for other in small.queues if other is not queue]
        jobs = [job for job in small.jobs if job.queue != queue.name]
        assert not waits(evolve(small, queues=left, jobs=jobs))


def test_a_large_cluster_becomes_small() -> None:
    def lacks_cpu_on_a_node(snapshot: Snapshot) -> bool:
        return any(
            reason.tally is not None
            and any(u.reason is UnfitReason.INSUFFICIENT_RESOURCE for u in reason.tally.unfit)
            for reason in schedule(snapshot).pending.values()
        )

    small = smallest(cluster(nodes=60, jobs=120), lacks_cpu_on_a_node, neutral=True)
    assert lacks_cpu_on_a_node(small)
    assert objects(small) <= 10
    assert {node.name for node in small.nodes} <= {"n1", "n2"}
    assert small.now == 0
    assert max(node.allocatable.milli_cpu for node in small.nodes) <= 10


def test_names_that_matter_are_kept() -> None:
    snapshot = Snapshot(queues=[Queue(name="research"), Queue(name="other")])
    small = smallest(
        snapshot, lambda s: any(queue.name == "research" for queue in s.queues), neutral=True
    )
    assert [queue.name for queue in small.queues] == ["research"]


def test_gangs_are_halved_together_with_what_they_need() -> None:
    tasks = [TaskInfo(uid=f"t{i}", name="t") for i in range(64)]
    snapshot = Snapshot(
        queues=[Queue(name="q")], jobs=[JobInfo(name="j", queue="q", min_available=64, tasks=tasks)]
    )
    small = smallest(
        snapshot,
        lambda s: any(job.min_available > 1 and len(job.tasks) > 1 for job in s.jobs),
    )
    assert [(len(job.tasks), job.min_available) for job in small.jobs] == [(2, 2)]


def test_what_the_question_raises_is_not_hidden() -> None:
    def fails(snapshot: Snapshot) -> bool:
        raise KeyError(len(snapshot.jobs))

    with pytest.raises(ArgumentError, match="holds: the function raised KeyError: 0") as caught:
        smallest(Snapshot(), fails)
    assert isinstance(caught.value.__cause__, KeyError)


def test_two_go_at_once_where_neither_goes_alone() -> None:
    snapshot = Snapshot(
        queues=[Queue(name="q")],
        jobs=[waiting_job(f"j{i}") for i in range(6)],
    )
    small = smallest(snapshot, lambda s: len(s.jobs) > 0 and len(s.jobs) % 2 == 0)
    assert len(small.jobs) == 2


def test_nodes_are_joined_where_only_all_that_they_have_matters() -> None:
    nodes = [NodeInfo(name=f"n{i}", allocatable=Resource(milli_cpu=1000)) for i in range(5)]
    small = smallest(
        Snapshot(nodes=nodes), lambda s: sum(n.allocatable.milli_cpu for n in s.nodes) >= 3000
    )
    assert [node.allocatable.milli_cpu for node in small.nodes] == [3000]


def test_what_runs_goes_together_with_its_room() -> None:
    one = Resource(milli_cpu=1)
    runs = [
        TaskInfo(uid=f"r{i}", name="r", resreq=one, status=TaskStatus.RUNNING, node_name="n1")
        for i in range(3)
    ]

    def is_full(snapshot: Snapshot) -> bool:
        tasks = [task for job in snapshot.jobs for task in job.tasks]
        held = sum(task.resreq.milli_cpu for task in tasks)
        return held > 0 and held == sum(node.allocatable.milli_cpu for node in snapshot.nodes)

    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=3 * one)],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=runs)],
    )
    small = smallest(snapshot, is_full)
    assert [len(job.tasks) for job in small.jobs] == [1]


def test_neutral_names_tell_nobody_anything_and_still_name_each_other() -> None:
    job = JobInfo(
        name="secret-job",
        namespace="secret-team",
        queue="secret-queue",
        user="secret-user",
        groups=[TaskGroup("secret-group", min=1)],
        depends_on=[Dependency(job="secret-team/secret-first", on=JobEvent.ENDED)],
        plan=Plan(start=1.0, nodes={"secret-task": "secret-node"}),
        tasks=[
            TaskInfo(
                uid="secret-task",
                name="secret-task",
                namespace="secret-team",
                group="secret-group",
                priority_class_name="secret-class",
                host_ports=[HostPort(port=80, address="10.11.12.13")],
                labels={"secret-label": "secret-value"},
            )
        ],
    )
    snapshot = Snapshot(
        nodes=[NodeInfo(name="secret-node")],
        queues=[Queue(name="secret-queue", usage_by_user={"secret-user": Resource(milli_cpu=1)})],
        jobs=[job, JobInfo(name="secret-first", namespace="secret-team", queue="secret-queue")],
    )
    neutral = neutral_names(snapshot)
    text = json.dumps(neutral.to_dict())
    assert "secret" not in text
    assert "10.11" not in text
    first, second = neutral.jobs
    assert [dependency.job for dependency in second.depends_on] == [first.uid]
    assert [group.name for group in second.groups] == [second.tasks[0].group]
    assert second.plan is not None
    assert dict(second.plan.nodes) == {second.tasks[0].uid: neutral.nodes[0].name}
    assert list(neutral.queues[0].usage_by_user) == [second.user]


@given(snapshots(), st.integers(2, 60))
@settings(max_examples=10)
def test_a_budget_bounds_the_questions_and_what_is_found_still_shows_it(
    snapshot: Snapshot, budget: int
) -> None:
    asked: list[Snapshot] = []

    def counted(candidate: Snapshot) -> bool:
        asked.append(candidate)
        return waits(candidate)

    if not waits(snapshot):
        return
    found = shrink(snapshot, counted, budget=budget)
    assert found.questions == len(asked) <= budget
    assert waits(found.snapshot)
    assert objects(found.snapshot) <= objects(snapshot)
    whole = shrink(snapshot, waits)
    assert whole.is_complete
    if found.is_complete:
        assert found == whole
    else:
        assert "the budget was spent" in str(found)
        assert whole.questions > budget - 1


def test_names_are_neutral_although_the_budget_is_spent() -> None:
    large = cluster(nodes=40, jobs=40)
    found = shrink(large, waits, neutral=True, budget=9)
    assert (found.questions, found.is_complete) == (9, False)
    assert {job.name[0] for job in found.snapshot.jobs} == {"j"}
    kept = shrink(large, waits, budget=9)
    assert kept.questions == 9
    assert {job.name[0] for job in kept.snapshot.jobs} <= {"r", "w"}
    with pytest.raises(ArgumentError, match="budget: expected 2 or more, got 1"):
        shrink(large, waits, budget=1)
