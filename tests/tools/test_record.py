"""A record replays to the same decisions, and tells where another configuration first differs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from batchsched import (
    Dependency,
    FormatError,
    JobEvent,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
)
from batchsched.live import (
    EndedJobsRemoved,
    JobArrived,
    JobChanged,
    NodeAdded,
    TaskSucceeded,
    TimePassed,
)
from batchsched.testing import configs, snapshots
from batchsched.tools import EventLog, Record, Recorder, replay

CPU = Resource(milli_cpu=1000)


def job(name: str, **more: object) -> JobInfo:
    task = TaskInfo(uid=name, name=name, resreq=CPU)
    return JobInfo(name=name, queue="q", tasks=[task], **more)  # type: ignore[arg-type]


def recorded() -> Record:
    recorder = Recorder(
        Snapshot(nodes=[NodeInfo(name="n1", allocatable=CPU)], queues=[Queue(name="q")])
    )
    recorder.apply(JobArrived(job("a")), TimePassed(1.0))
    recorder.cycle()
    recorder.apply(JobArrived(job("b", creation_time=1.0)))
    recorder.apply(JobArrived(job("c", creation_time=2.0, priority=9)), TaskSucceeded("a"))
    recorder.cycle()
    return recorder.record


def test_events_that_were_applied_in_turn_are_replayed_in_turn() -> None:
    waits = job("b", depends_on=[Dependency(job="default/a", on=JobEvent.SUCCEEDED)])
    node = NodeInfo(name="n1", allocatable=CPU)
    recorder = Recorder(Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=[job("a"), waits]))
    recorder.cycle()
    for event in (TaskSucceeded("a"), EndedJobsRemoved(), TimePassed(5.0)):
        recorder.apply(event)
    assert [bind.task_uid for bind in recorder.cycle().binds] == ["b"]
    assert replay(recorder.record).differs_at is None


@given(snapshots(), configs())
@settings(max_examples=15)
def test_a_record_replays_to_the_same_after_it_was_kept(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    recorder = Recorder(snapshot, config)
    recorder.cycle()
    recorder.apply(NodeAdded(NodeInfo(name="new", allocatable=4 * CPU)))
    recorder.apply(JobChanged(snapshot.jobs[0].uid, priority=3), TimePassed(snapshot.now + 5))
    recorder.cycle()
    kept = Record.from_dict(json.loads(json.dumps(recorder.record.to_dict())))
    assert kept == recorder.record
    again = replay(kept)
    assert again.differs_at is None, str(again)
    assert str(again) == "all 2 cycles make the same decisions"


def test_it_tells_the_first_cycle_that_differs() -> None:
    first_come = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["gang", "predicates"]}]})
    again = replay(recorded(), config=first_come)
    assert (again.differs_at, again.cycles) == (1, 2)
    assert again.difference is not None
    assert again.difference.by_job() == {
        "default/b": {"starts": 1},
        "default/c": {"no longer starts": 1},
    }
    assert str(again).startswith("cycle 1 is the first that differs\n")


def test_what_is_wrong_with_a_record_is_told_with_its_path() -> None:
    kept = json.loads(json.dumps(recorded().to_dict()))
    kept["snapshot"]["nodes"][0]["allocatable"]["milli_cpu"] = -1
    kept["cycles"][0]["events"][0]["type"] = "JobCame"
    kept["cycles"][1]["result"]["binds"][0]["task"] = "x"
    with pytest.raises(FormatError) as caught:
        Record.from_dict(kept)
    assert [fault.path for fault in caught.value.faults] == [
        "snapshot.nodes['n1'].allocatable.milli_cpu",
        "cycles[0].events[0].type",
        "cycles[1].result.binds[0].task",
    ]


def test_events_can_be_kept_by_themselves() -> None:
    log = EventLog([event for cycle in recorded().cycles for event in cycle.events])
    assert EventLog.from_dict(json.loads(json.dumps(log.to_dict()))) == log
    schema: Any = EventLog.json_schema()
    kinds = {
        each["properties"]["type"]["const"]
        for each in schema["properties"]["events"]["items"]["anyOf"]
    }
    assert kinds > {"JobArrived", "TaskSucceeded"}
