"""What plugins choose for tasks travels with them, and a task without a choice does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.books import Opens
from tests.support.clusters import amount, cluster, job, node
from tests.support.cycles import Cycles
from tests.support.points import CONFIGS, SNAPSHOTS, expect_points, registry

from batchsched import (
    ActionOption,
    CycleResult,
    PluginOption,
    Queue,
    Scheduler,
    SchedulerConfig,
    SerialisationError,
    Snapshot,
    SnapshotError,
    TaskStatus,
    Tier,
    next_snapshot,
)
from batchsched.live import TaskSucceeded
from batchsched.plugin import Need, NodeSet, Part
from batchsched.testing import configs

NODE = node("n1", "4C4G")


def deciding(
    *actions: str,
    plain: bool = False,
    plugins: Sequence[str] = ("priority", "gang", "predicates", "nodeorder"),
    **arguments: Any,
) -> Scheduler:
    slots = PluginOption(name="slots", arguments=arguments)
    config = SchedulerConfig(
        actions=[ActionOption(name=name) for name in actions],
        tiers=[Tier(plugins=[slots, *(PluginOption(name=name) for name in plugins)])],
    )
    return Scheduler(config, registry(), plain=plain)


def asking(*names: str, wanted: str = "any", priority: int = 1) -> list[Any]:
    return [
        evolve(
            one, priority=priority, tasks=[evolve(t, labels={"slots": wanted}) for t in one.tasks]
        )
        for one in (job(name, "1C1G") for name in names)
    ]


def chosen(result: CycleResult) -> dict[str, Mapping[str, object]]:
    return {bind.task_uid: dict(bind.choices) for bind in result.binds}


def holding(name: str, slot: int | None, **more: Any) -> Any:
    of = job(name, "1C1G@n1", **more)
    choices = {} if slot is None else {"slots": slot}
    return evolve(of, tasks=[evolve(task, choices=choices) for task in of.tasks])


def test_a_bind_says_what_was_chosen_and_the_next_cycle_knows_it() -> None:
    first = cluster([NODE], *asking("a", "b"))
    result = deciding("allocate").schedule(first)
    assert chosen(result) == {"a-1": {"slots": 0}, "b-1": {"slots": 1}}
    after = next_snapshot(first, result, new_jobs=asking("c", "d"), now=1)
    again = Snapshot.from_dict(json.loads(json.dumps(after.to_dict())))
    assert again == after
    result = deciding("allocate").schedule(again)
    assert chosen(result) == {"c-1": {"slots": 2}}
    assert CycleResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result
    assert "no slot" in str(result.pending["d-1"])


def test_a_task_that_ends_gives_its_choice_back() -> None:
    cycles = Cycles(deciding("allocate", count=1), cluster([NODE], *asking("a", "b")))
    assert chosen(cycles.cycle()) == {"a-1": {"slots": 0}}
    cycles.step(TaskSucceeded("a-1"))
    assert chosen(cycles.cycle()) == {"b-1": {"slots": 0}}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_only_who_has_what_is_to_be_chosen_is_evicted(action: str, plain: bool) -> None:
    queues = ["q"] if action == "preempt" else ["q", "r"]
    slots = {"u": 0, "v": 2, "w": None, "x": 1}
    holders = [holding(name, slot, minimum=0) for name, slot in slots.items()]
    claimant = asking("z", wanted="odd", priority=5)
    if action == "reclaim":
        holders = [evolve(each, queue="r") for each in holders]
    snapshot = cluster([NODE], *holders, *claimant, queues=queues)
    using = deciding("allocate", action, plain=plain)
    if action == "reclaim":
        plugins = ("gang", "predicates", "proportion")
        using = deciding("allocate", action, plain=plain, plugins=plugins)
    cycles = Cycles(using, snapshot)
    result = cycles.cycle()
    assert [each.task_uid for each in result.evictions] == ["x-1"]
    assert [(p.task_uid, dict(p.choices)) for p in result.kept_promises] == [("z-1", {"slots": 1})]
    cycles.step()
    assert chosen(cycles.cycle())["z-1"] == {"slots": 1}


class _GivesSlots:
    """Offers the tasks of a job with the label ``slots`` the whole cluster, each with its slot.

    The label has the slots of the sets that are offered, one after the other.
    """

    def candidate_nodes(self, need: Need, within: NodeSet, /) -> Iterable[NodeSet] | None:
        wanted = need.job.info.labels.get("slots")
        if wanted is None:
            return None
        many = len(need.tasks)
        return [
            within.with_parts([Part(need.tasks, within, ({"slots": int(slot)},) * many)])
            for slot in wanted
        ]


def giving(action: str, *plugins: str, plain: bool, **arguments: Any) -> Scheduler:
    known = registry()
    known.register_plugin("gives", lambda _: Opens(_GivesSlots()))
    config = SchedulerConfig(
        actions=[ActionOption(name=action, arguments=arguments)],
        tiers=[Tier(plugins=[PluginOption(name=name) for name in ("slots", "gives", *plugins)])],
    )
    return Scheduler(config, known, plain=plain)


def promised(result: CycleResult) -> dict[str, Mapping[str, object]]:
    return {each.task_uid: dict(each.choices) for each in result.kept_promises}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("wanted", "given"), [("21", 1), ("2", None)])
@pytest.mark.parametrize("action", ["preempt", "reclaim", "consolidate"])
def test_who_leaves_has_the_slot_that_a_set_asks_for(
    action: str, wanted: str, given: int | None, plain: bool
) -> None:
    """Slots 1 and 2 of n1 are taken, and who has slot 2 stays."""
    own = "r" if action == "reclaim" else "q"
    (claimant,) = asking("z", priority=5)
    tasks = [evolve(task, node_selector={"is": "n1"}) for task in claimant.tasks]
    claimant = evolve(claimant, queue=own, labels={"slots": wanted}, tasks=tasks)
    holders = [holding("x", 1, minimum=0), holding("y", 2, priority=9, queue=own)]
    nodes = [node("n1", "2C2G", labels={"is": "n1"}), node("n2", "4C4G")]
    queues = [Queue(name="q"), Queue(name="r", deserved=amount("2C2G"))]
    if action == "reclaim":
        holders.append(job("others", *["1C1G@n2"] * 4))
    ranks = "capacity" if action == "reclaim" else "priority"
    using = giving(action, ranks, "gang", "predicates", "nodeorder", plain=plain)
    result = using.schedule(Snapshot(nodes=nodes, jobs=[*holders, claimant], queues=queues))
    left = [each.task_uid for each in (*result.evictions, *result.moves)]
    assert left == ([] if given is None else ["x-1"])
    assert promised(result).get("z-1") == (None if given is None else {"slots": given})


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("wanted", "given"), [("21", 1), ("0", 0), ("2", None)])
def test_broken_gangs_unblock_one_another_only_where_the_slot_is_that_a_set_asks_for(
    wanted: str, given: int | None, plain: bool
) -> None:
    """a and b each run where the other wants to; on n2, b has slot 1, and one that stays slot 2."""
    nodes = [node("n1", "1C1G", labels={"is": "n1"}), node("n2", "2C2G", labels={"is": "n2"})]
    stays = job("stays", "1C1G@n2")
    jobs = [evolve(stays, tasks=[evolve(t, choices={"slots": 2}) for t in stays.tasks])]
    for name, here, there, slot in [("a", "n1", "n2", 0), ("b", "n2", "n1", 1)]:
        gang = job(name, f"1C1G@{here}", "1C1G", labels={"slots": wanted} if name == "a" else {})
        runs, waits = (evolve(task, labels={"slots": "any"}) for task in gang.tasks)
        waits = evolve(waits, node_selector={"is": there})
        jobs.append(evolve(gang, tasks=[evolve(runs, choices={"slots": slot}), waits]))
    using = giving(
        "preempt", "priority", "gang", "predicates", "nodeorder", plain=plain, unblock=True
    )
    result = using.schedule(cluster(nodes, *jobs))
    assert promised(result) == ({} if given is None else {"a-2": {"slots": given}})
    assert [each.task_uid for each in result.evictions] == ([] if given is None else ["b-1"])


def test_a_promise_of_what_another_task_has_by_now_ends() -> None:
    (waiting,) = asking("z")
    promised = evolve(
        waiting.tasks[0], status=TaskStatus.PIPELINED, node_name="n1", choices={"slots": 1}
    )
    first = cluster([NODE], evolve(waiting, tasks=[promised]), holding("x", 1))
    result = deciding("allocate").schedule(first)
    assert [each.task_uid for each in result.dropped_promises] == []
    assert chosen(result) == {"z-1": {"slots": 0}}  # it starts elsewhere, on the same node


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"devices": 1}, "give it as devices"),
        ({"slots": [1]}, "expected something that can be hashed"),
        ({1: 1}, "expected the name of a plugin"),
        (3, "expected a mapping"),
    ],
)
def test_choices_that_make_no_sense_are_refused(choices: Any, message: str) -> None:
    running = job("a", "1C1G@n1")
    with pytest.raises(SnapshotError, match=message):
        cluster([NODE], evolve(running, tasks=[evolve(running.tasks[0], choices=choices)]))


def test_what_only_the_plugin_understands_is_not_written() -> None:
    running = holding("a", None)
    strange = evolve(running, tasks=[evolve(running.tasks[0], choices={"slots": (1, object)})])
    with pytest.raises(
        SerialisationError, match=r"jobs\['default/a'\].tasks\['a-1'\].choices\['slots'\]"
    ):
        cluster([NODE], strange).to_dict()


UNDECLARED = configs(
    extra_plugins=[PluginOption(name="slots", arguments={"count": 2, "declares": False})]
)


@given(SNAPSHOTS, UNDECLARED)
@settings(max_examples=50, deadline=None)
def test_a_cycle_with_choices_decides_the_same_by_plain_definitions(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    fast = Scheduler(config, registry()).schedule(snapshot)
    assert Scheduler(config, registry(), plain=True).schedule(snapshot) == fast


@given(SNAPSHOTS, CONFIGS)
@settings(max_examples=60, deadline=None)
def test_no_two_tasks_have_the_same_and_a_living_cluster_decides_as_one_from_scratch(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    expect_points(snapshot, config)
