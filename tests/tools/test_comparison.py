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
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    compare,
    schedule,
)
from batchsched.testing import configs, snapshots
from batchsched.tools.causes import decisions
from batchsched.tools.config_differences import config_differences, with_differences

CPU = Resource(milli_cpu=1000)


def job(name: str, queue: str = "q", **more: object) -> JobInfo:
    task = TaskInfo(uid=name, name=name, resreq=CPU)
    return JobInfo(name=name, queue=queue, tasks=[task], **more)  # type: ignore[arg-type]


def gang(name: str, size: int, queue: str = "q", least: int | None = None) -> JobInfo:
    tasks = [TaskInfo(uid=f"{name}-{i}", name=f"{name}-{i}", resreq=CPU) for i in range(size)]
    return JobInfo(name=name, queue=queue, min_available=least or size, tasks=tasks)


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


def settings_of(config: SchedulerConfig) -> dict[str, object]:
    """The option of each action and plugin, with its place."""
    found: dict[str, object] = {}
    for at, tier in enumerate(config.tiers):
        for plugin in tier.plugins:
            found[plugin.name] = plugin, at, tuple(p.name for p in tier.plugins)
    for action in config.actions:
        found[action.name] = action, tuple(other.name for other in config.actions)
    return found


@given(snapshots(), configs(), configs())
@settings(max_examples=60)
def test_what_is_named_as_the_cause_differs_between_the_sides(
    snapshot: Snapshot, one: SchedulerConfig, other: SchedulerConfig
) -> None:
    comparison = compare(one, other, snapshot)
    parting = comparison.parting
    if {change.kind for change in comparison.changes} - {"reason"}:
        assert parting is not None
    if parting is None:
        return
    here, there = settings_of(one), settings_of(other)
    named = (*parting.plugins, *parting.actions)
    assert parting.differences
    assert parting.why
    if named:
        assert any(here.get(name) != there.get(name) for name in named)
        assert parting.before != parting.after
    else:
        assert parting.why == ("the cause was not found",)
    for name in parting.actions:  # an action that both run alike is no cause
        assert here.get(name) != there.get(name)


@given(snapshots(), configs(), configs())
@settings(max_examples=30)
def test_the_same_tasks_differ_in_both_directions(
    snapshot: Snapshot, one: SchedulerConfig, other: SchedulerConfig
) -> None:
    comparison, back = compare(one, other, snapshot), compare(other, one, snapshot)
    assert {c.task for c in back.changes} == {c.task for c in comparison.changes}
    as_dict = comparison.to_dict()
    assert json.loads(json.dumps(as_dict))["by_job"] == as_dict["by_job"]


@given(snapshots(), configs(), configs())
@settings(max_examples=40)
def test_the_differences_that_are_told_alone_give_the_whole_change(
    snapshot: Snapshot, one: SchedulerConfig, other: SchedulerConfig
) -> None:
    parting = compare(one, other, snapshot).parting
    if parting is None:
        return
    told = [each for each in config_differences(one, other) if each.text in parting.differences]
    keys = [key for each in told for key in each.keys]
    if len(told) < len(config_differences(one, other)):
        between = with_differences(one, other, keys)
        after = Scheduler(other).schedule(snapshot)
        assert decisions(Scheduler(between).schedule(snapshot)) == decisions(after)


def test_why_a_task_waits_is_told_of_before_where_it_starts_afterwards() -> None:
    node = NodeInfo(name="n1", allocatable=CPU)
    snapshot = Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=[job("a")])
    places, does_not = config("allocate", ["predicates"]), config("backfill", ["predicates"])
    (change,) = compare(does_not, places, snapshot).changes
    assert (change.kind, change.why_it_waits) == ("starts", f"before: {change.before.reason}")
    (change,) = compare(places, does_not, snapshot).changes
    assert change.why_it_waits == change.after.reason != ""


def test_tasks_that_only_wait_for_another_reason_are_counted_and_not_listed() -> None:
    snapshot = Snapshot(queues=[Queue(name="q")], jobs=[job("a")])
    comparison = compare(config("allocate", ["predicates"]), config("backfill"), snapshot)
    assert [change.kind for change in comparison.changes] == ["reason"]
    assert str(comparison) == (
        "Both make the same decisions; 1 task of 1 job waits for another reason."
    )


def test_a_limit_above_the_queue_is_the_cause_where_only_one_plugin_reads_it() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name=f"n{i}", allocatable=4 * CPU) for i in range(3)],
        queues=[
            Queue(name="research", limit=ResourceLimit(milli_cpu=2000)),
            Queue(name="a", parent="research"),
            Queue(name="b"),
        ],
        jobs=[job("x", "a"), job("z", "b"), gang("y", 3, "a")],
    )
    tiers = [["priority", "gang"], ["predicates", "proportion", "nodeorder"]]
    with_capacity = [["priority", "gang"], ["predicates", "capacity", "nodeorder"]]
    comparison = compare(config("allocate", *tiers), config("allocate", *with_capacity), snapshot)
    assert comparison.by_job()["default/y"] == {"no longer starts": 3}
    parting = comparison.parting
    assert parting is not None
    limit = "3 cpu exceed the limit of 2 of queue 'research'"
    assert parting.why == (
        "before: plugin 'capacity', which refuses it, is not configured",
        f"after: capacity refuses it: {limit}",
    )
    assert parting.plugins == ("capacity",)
    assert parting.differences == ("plugin 'capacity' instead of 'proportion'",)
    assert f"because {parting.why[0]}" in str(comparison)


def test_a_deserved_share_is_the_cause_where_only_one_plugin_has_it() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=4 * CPU)],
        queues=[Queue(name="a"), Queue(name="b")],
        jobs=[gang("x", 4, "a", least=1), job("w", "b", priority=9)],
    )
    plain, shared = ["gang", "predicates"], ["gang", "predicates", "proportion"]
    parting = compare(config("allocate", plain), config("allocate", shared), snapshot).parting
    assert parting is not None
    assert parting.plugins[-1] == "proportion"
    assert parting.differences == ("plugin 'proportion', which only the second has",)


def test_an_argument_is_told_as_the_smallest_difference() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=2 * CPU)],
        queues=[Queue(name="q")],
        jobs=[gang("g", 3), job("s", creation_time=5.0)],
    )
    hold = {"name": "allocate", "arguments": {"unready": "hold"}}
    before = config("allocate, backfill", ["priority", "gang", "predicates", "drf"])
    after = SchedulerConfig.from_mapping(
        {"actions": [hold, "backfill"], "tiers": [{"plugins": ["priority", "gang", "predicates"]}]}
    )
    parting = compare(before, after, snapshot).parting
    assert parting is not None
    assert parting.differences == ("action 'allocate': unready hold instead of its default",)


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
    running_now = TaskStatus.RUNNING
    running = [
        TaskInfo(uid=f"r{i}", name=f"pod-{i}", resreq=CPU, status=running_now, node_name="n1")
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
    assert comparison.parting.why == ("action 'reclaim' runs only after",)
    assert comparison.parting.actions == ("reclaim",)
    assert comparison.parting.after == (
        "reclaim evicts default/pod-3 from n1, promises w room on n1"
    )
    assert comparison.parting.differences == ("action 'reclaim', which only the second has",)
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
    assert str(comparison).startswith("1 task of 1 job starts that waits now; nothing is evicted\n")


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
