"""A comparison tells who fares otherwise, and where two configurations part and why."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given, settings

from batchsched import (
    ConfigError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    compare,
    schedule,
)
from batchsched.testing import configs, snapshots

CPU = Resource(milli_cpu=1000)


def job(name: str, queue: str = "q", **more: object) -> JobInfo:
    task = TaskInfo(uid=name, name=name, resreq=CPU)
    return JobInfo(name=name, queue=queue, tasks=[task], **more)  # type: ignore[arg-type]


def config(actions: str, *tiers: list[object]) -> SchedulerConfig:
    mapping: dict[str, object] = {"actions": actions}
    if tiers:
        mapping["tiers"] = [{"plugins": tier} for tier in tiers]
    return SchedulerConfig.from_mapping(mapping)


@given(snapshots(), configs())
@settings(max_examples=40)
def test_a_configuration_differs_in_nothing_from_itself(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    comparison = compare(config, config, snapshot)
    assert comparison.is_same
    assert comparison.parting is None
    assert str(comparison).startswith("Both make the same decisions.")


@given(snapshots(), configs(), configs())
@settings(max_examples=60)
def test_configurations_that_decide_differently_part_somewhere(
    snapshot: Snapshot, one: SchedulerConfig, other: SchedulerConfig
) -> None:
    comparison = compare(one, other, snapshot)
    if {change.kind for change in comparison.changes} - {"reason"}:
        assert comparison.parting is not None
        assert comparison.parting.why
    back = compare(other, one, snapshot)
    assert {c.task for c in back.changes} == {c.task for c in comparison.changes}
    as_dict = comparison.to_dict()
    assert json.loads(json.dumps(as_dict))["by_job"] == as_dict["by_job"]


def test_it_names_the_plugin_whose_key_differed() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[job("old"), job("urgent", priority=9, creation_time=5.0)],
    )
    comparison = compare(
        config("allocate", ["gang"], ["drf", "predicates"]),
        config("allocate", ["priority", "gang"], ["drf", "predicates"]),
        snapshot,
    )
    assert comparison.by_job() == {
        "default/old": {"no longer starts": 1},
        "default/urgent": {"starts": 1},
    }
    parting = comparison.parting
    assert parting is not None
    assert parting.before == "allocate takes job 'default/old'"
    assert parting.after == "allocate takes job 'default/urgent'"
    assert parting.plugins == ("creation_time", "priority")


def test_it_names_the_plugin_whose_score_differed() -> None:
    full = TaskInfo(uid="r", name="r", resreq=CPU, status=TaskStatus.RUNNING, node_name="n2")
    snapshot = Snapshot(
        nodes=[
            NodeInfo(name=name, allocatable=Resource(milli_cpu=4000, memory=8 << 30))
            for name in ("n1", "n2")
        ],
        queues=[Queue(name="q")],
        jobs=[job("w")],
        other_tasks=[full],
    )
    pack = {
        "name": "nodeorder",
        "arguments": {
            "leastrequested.weight": 0,
            "mostrequested.weight": 5,
            "balancedresource.weight": 0,
        },
    }
    comparison = compare(
        config("allocate", ["gang", "predicates", "nodeorder"]),
        config("allocate", ["gang", "predicates", pack]),
        snapshot,
    )
    (change,) = comparison.changes
    assert (change.kind, change.before.node, change.after.node) == ("moves", "n1", "n2")
    assert comparison.parting is not None
    assert comparison.parting.plugins == ("nodeorder",)
    assert "nodeorder scores 'n2'" in comparison.parting.why[1]


def test_it_names_the_action_that_only_one_runs() -> None:
    running = [
        TaskInfo(uid=f"r{i}", name="r", resreq=CPU, status=TaskStatus.RUNNING, node_name="n1")
        for i in range(4)
    ]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=4 * CPU)],
        queues=[Queue(name="a"), Queue(name="b")],
        jobs=[JobInfo(name="r", queue="a", tasks=running), job("w", "b")],
    )
    comparison = compare(config("allocate"), config("reclaim, allocate"), snapshot)
    kinds = {change.task: change.kind for change in comparison.changes}
    assert kinds == {"r3": "evicted", "w": "promised"}
    assert comparison.parting is not None
    assert "action 'allocate' runs here before, action 'reclaim' after" in comparison.parting.why
    assert comparison.utilisation["cpu"] == (1.0, 0.75)
    assert comparison.shares == {"a": (1.0, 0.75), "b": (0.0, 0.0)}
    assert comparison.by_queue() == {"a": {"evicted": 1}, "b": {"promised": 1}}


def test_results_of_two_snapshots_can_be_compared() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[job("a"), job("b", creation_time=1.0)],
    )
    larger = evolve(snapshot, nodes=[NodeInfo(name="n1", allocatable=2 * CPU)])
    comparison = compare(schedule(snapshot), schedule(larger), snapshot, after_snapshot=larger)
    (change,) = comparison.changes
    assert (change.task, change.kind) == ("b", "starts")
    assert comparison.by_reason() == {change.before.reason: {"starts": 1}}
    assert "<table>" in comparison._repr_html_()
    assert "1 task(s) start only after" in str(comparison)


def test_the_text_is_at_most_a_screen() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=50 * CPU)],
        queues=[Queue(name="q" * 200)],
        jobs=[job(f"j{i}", "q" * 200) for i in range(90)],
    )
    lines = str(compare(config("allocate"), config("reserve"), snapshot)).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100


def test_what_cannot_be_compared_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        compare(7, SchedulerConfig(), None)  # type: ignore[arg-type]
    assert [fault.path for fault in caught.value.faults] == ["before", "snapshot"]


def test_a_result_of_another_snapshot_is_refused() -> None:
    one = Resource(milli_cpu=1000)
    task = TaskInfo(uid="t", name="t", resreq=one)
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=one)],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=[task])],
    )
    result = schedule(snapshot)
    with pytest.raises(
        ConfigError,
        match="before: expected a result for this snapshot, got one with unknown task 't'",
    ):
        compare(result, schedule(Snapshot()), Snapshot())
