"""A trace tells what happened, and changes nothing of it."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings

from batchsched import (
    ConfigError,
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
from batchsched.testing import configs, snapshots
from batchsched.trace import (
    JobTaken,
    NodeSought,
    QueuePassedOver,
    QueueTaken,
    StatementEnded,
    TraceEvent,
    VerdictsGiven,
)

CPU = Resource(milli_cpu=1000)


def running(uid: str, node: str) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=CPU, status=TaskStatus.RUNNING, node_name=node)


WITH_PROPORTION = (
    {"plugins": ["priority", {"name": "gang", "arguments": {"atMinimum": "whole-job"}}]},
    {"plugins": ["conformance", "drf", "predicates", "proportion", "nodeorder"]},
)


def traced(snapshot: Snapshot, actions: str, tiers: object = None) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    config = SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers})
    Scheduler(config, trace=events.append).schedule(snapshot)
    return events


CLAIM = Snapshot(
    nodes=[NodeInfo(name="n1", allocatable=4 * CPU)],
    queues=[Queue(name="a"), Queue(name="b")],
    jobs=[
        JobInfo(name="r", queue="a", tasks=[running(f"r{i}", "n1") for i in range(4)]),
        JobInfo(name="w", queue="b", tasks=[TaskInfo(uid="w0", name="w0", resreq=CPU)]),
    ],
)


@given(snapshots(), configs())
@settings(max_examples=60)
def test_a_traced_cycle_decides_the_same(snapshot: Snapshot, config: SchedulerConfig) -> None:
    events: list[TraceEvent] = []
    result = Scheduler(config, trace=events.append).schedule(snapshot)
    assert result == Scheduler(config).schedule(snapshot)
    again: list[TraceEvent] = []
    Scheduler(config, trace=again.append).schedule(snapshot)
    assert again == events


@given(snapshots(), configs())
@settings(max_examples=60)
def test_evictions_are_those_of_committed_statements(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    events: list[TraceEvent] = []
    result = Scheduler(config, trace=events.append).schedule(snapshot)
    told = {
        step.task
        for event in events
        if isinstance(event, StatementEnded) and event.committed
        for step in event.steps
        if step.status == "Releasing"
    }
    assert told == {eviction.task_uid for eviction in result.evictions}


def test_it_tells_of_queues_jobs_nodes_and_scores_in_order() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name=name, allocatable=4 * CPU) for name in ("n1", "n2")],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="w", queue="q", tasks=[TaskInfo(uid="w0", name="w0", resreq=CPU)])],
    )
    events = traced(snapshot, "allocate")
    taken, job, sought = events[:3]
    assert isinstance(taken, QueueTaken)
    assert (taken.action, taken.queue) == ("allocate", "q")
    assert list(taken.key) == ["capacity", "creation_time", "name"]
    assert isinstance(job, JobTaken)
    assert list(job.key) == ["priority", "gang", "drf", "creation_time", "uid"]
    assert isinstance(sought, NodeSought)
    assert (sought.task, sought.fit, sought.node) == ("w0", "now", "n1")
    assert sought.scores["nodeorder"] > 0
    assert not sought.rivals


def test_it_tells_verdicts_by_plugin_and_why_a_statement_was_committed() -> None:
    events = traced(CLAIM, "reclaim", WITH_PROPORTION)
    verdicts = [event for event in events if isinstance(event, VerdictsGiven)]
    assert {event.plugin for event in verdicts} == {"gang", "conformance", "proportion"}
    assert all(event.claimant == "w0" and event.point == "reclaimable" for event in verdicts)
    assert all(set(event.verdicts) <= {"r0", "r1", "r2", "r3"} for event in verdicts)
    ended = [event for event in events if isinstance(event, StatementEnded)]
    assert ended[0].committed
    assert ended[0].job == "default/w"
    assert [(step.task, step.status) for step in ended[0].steps] == [
        ("r3", "Releasing"),
        ("w0", "Pipelined"),
    ]
    assert ended[0].why == (
        "what is promised to job 'default/w' is enough: "
        "0 ready and 1 promised of the 1 that must start together"
    )


def test_it_tells_of_queues_that_are_passed_over() -> None:
    more = JobInfo(name="x", queue="a", tasks=[TaskInfo(uid="x0", name="x0", resreq=CPU)])
    snapshot = evolve(CLAIM, jobs=[*CLAIM.jobs, more])
    events = traced(snapshot, "allocate", WITH_PROPORTION)
    assert QueuePassedOver(action="allocate", queue="a") in events


def test_rivals_are_told_of_one_event_when_asked_for() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name=f"n{i}", allocatable=(i + 2) * CPU) for i in range(3)],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(name=name, queue="q", tasks=[TaskInfo(uid=name, name=name, resreq=CPU)])
            for name in ("a", "b")
        ],
    )
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate"}))
    for position in range(3):
        events: list[TraceEvent] = []
        scheduler.schedule_traced(snapshot, events.append, rivals_at=position)
        with_rivals = [i for i, event in enumerate(events) if getattr(event, "rivals", None)]
        assert with_rivals == ([] if position == 0 else [position])
        event = events[position]
        if isinstance(event, JobTaken):
            assert set(event.rivals) == {"default/b"}
        if isinstance(event, NodeSought):
            assert set(event.rivals) | {event.node} == {"n0", "n1", "n2"}
            assert all(
                sum(scores.values()) <= sum(event.scores.values())
                for scores in event.rivals.values()
            )


def test_what_the_caller_raises_is_not_taken_for_a_plugins_error() -> None:
    class StopError(Exception):
        pass

    def stop(event: TraceEvent) -> None:
        if isinstance(event, VerdictsGiven):
            raise StopError

    config = SchedulerConfig.from_mapping({"actions": "reclaim"})
    with pytest.raises(Exception, match="StopError") as caught:
        Scheduler(config, trace=stop).schedule(CLAIM)
    assert isinstance(caught.value.__cause__, StopError)


def test_a_trace_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match="trace: expected a function of one event, got 7"):
        Scheduler(trace=7)  # type: ignore[arg-type]
