"""What would be decided is what a cycle decides on the cluster as it would be."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given, settings

from batchsched import (
    EventError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    UnknownNameError,
    cheapest,
    compare,
    schedule,
    what_if,
)
from batchsched.live import JobChanged, NodeAdded, NodeChanged, QueueChanged, TaskSucceeded
from batchsched.testing import configs, snapshots
from batchsched.tools import CycleRun

CPU = Resource(milli_cpu=1000)


def waiting(name: str, queue: str = "q", size: int = 1, **more: object) -> JobInfo:
    task = TaskInfo(uid=name, name=name, resreq=size * CPU)
    return JobInfo(name=name, queue=queue, tasks=[task], **more)  # type: ignore[arg-type]


FULL = Snapshot(
    nodes=[NodeInfo(name="n1", allocatable=CPU)],
    queues=[Queue(name="q")],
    jobs=[
        JobInfo(
            name="r",
            queue="q",
            tasks=[
                TaskInfo(uid="r", name="r", resreq=CPU, status=TaskStatus.RUNNING, node_name="n1")
            ],
        ),
        waiting("a", creation_time=1.0),
        waiting("b", creation_time=2.0),
    ],
)


@given(snapshots(), configs())
@settings(max_examples=40)
def test_if_nothing_is_different_nothing_differs(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    answer = what_if(snapshot, config=config)
    assert answer.result == Scheduler(config).schedule(snapshot)
    assert answer.difference.is_same


@given(snapshots())
@settings(max_examples=40)
def test_it_is_what_a_cycle_decides_on_the_changed_cluster(snapshot: Snapshot) -> None:
    node = evolve(snapshot.nodes[0], allocatable=3 * snapshot.nodes[0].allocatable)
    job = snapshot.jobs[0]
    answer = what_if(snapshot, NodeChanged(node), JobChanged(job.uid, priority=7))
    assert answer.snapshot.nodes[0] == node
    assert answer.snapshot.job(job.uid).priority == 7
    assert answer.result == schedule(answer.snapshot)


def test_a_task_that_ended_makes_room_for_the_next() -> None:
    answer = what_if(FULL, TaskSucceeded("r"))
    assert {change.task: change.kind for change in answer.difference.changes}["a"] == "starts"
    lines = str(answer).splitlines()
    assert lines[0] == "1 task of 1 job starts that waits now; nothing is evicted"
    assert lines[1:4] == ["  1 task of 1 job ends", "If", "  end job default/r"]
    assert json.dumps(answer.to_dict())
    assert "<h4>If</h4>" in answer._repr_html_()


def test_another_configuration_decides_from_there_on() -> None:
    config = SchedulerConfig.from_mapping(
        {"tiers": [{"plugins": ["gang", "priority", "predicates"]}]}
    )
    others = [job for job in FULL.jobs if job.name != "b"]
    snapshot = evolve(FULL, jobs=[*others, waiting("b", priority=5, creation_time=2.0)])
    gone = TaskSucceeded("r")
    plain = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["gang", "predicates"]}]})
    first = what_if(snapshot, gone, config=plain)
    second = what_if(snapshot, gone, config, config=plain)
    assert [bind.task_uid for bind in first.result.binds] == ["a"]
    assert [bind.task_uid for bind in second.result.binds] == ["b"]


def test_of_other_configurations_alone_the_cause_is_told_as_compare_tells_it() -> None:
    plain = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["gang", "predicates"]}]})
    by_priority = SchedulerConfig.from_mapping(
        {"tiers": [{"plugins": ["gang", "priority", "predicates"]}]}
    )
    jobs = [waiting("a"), waiting("b", priority=5, creation_time=2.0)]
    snapshot = evolve(FULL, jobs=jobs)
    answer = what_if(snapshot, plain, by_priority, config=plain)
    assert answer.difference == compare(plain, by_priority, snapshot)
    assert answer.difference.parting is not None
    assert "after: priority puts 'default/b' first: -5 before 0" in str(answer)
    with_an_event = what_if(FULL, TaskSucceeded("r"), by_priority, config=plain)
    assert with_an_event.difference.parting is None


def test_a_chain_lets_cycles_take_effect_between_changes() -> None:
    answer = what_if(FULL, TaskSucceeded("r"), CycleRun(10), TaskSucceeded("a"))
    assert [bind.task_uid for bind in answer.result.binds] == ["b"]
    assert answer.snapshot.now == 10


def test_the_cheapest_is_the_first_that_is_enough() -> None:
    candidates = [
        JobChanged("default/b", priority=5),
        QueueChanged(Queue(name="q", weight=9)),
        (TaskSucceeded("r"), JobChanged("default/b", priority=5)),
        NodeAdded(NodeInfo(name="n2", allocatable=9 * CPU)),
    ]
    found = cheapest(FULL, "default/b", candidates)
    assert found is not None
    assert found.position == 2
    assert "number 3 is enough" in str(found)
    assert cheapest(FULL, "b", candidates[:2]) is None
    assert cheapest(FULL, lambda result: len(result.binds) == 2, candidates) is not None
    with pytest.raises(UnknownNameError):
        cheapest(FULL, "nobody", candidates)


def test_what_cannot_happen_is_told() -> None:
    with pytest.raises(EventError, match=r"^changes\[0\]: there is no task 'x'"):
        what_if(FULL, TaskSucceeded("x"))
    with pytest.raises(EventError, match=r"^changes\[2\]: there is no task 'x'"):
        what_if(FULL, CycleRun(10), TaskSucceeded("r"), TaskSucceeded("x"))
    with pytest.raises(EventError, match=r"^changes\[1\]: queues\['q'\].weight"):
        what_if(FULL, CycleRun(10), QueueChanged(Queue(name="q", weight=-1)), CycleRun(10))
    with pytest.raises(EventError, match=r"changes\[1\]: expected an event"):
        what_if(FULL, TaskSucceeded("r"), "more")  # type: ignore[arg-type]
