"""Planned starts on nodes of one cpu, in small cases worked out by hand.

`j(name, k, e)`: a job of k tasks, each of one cpu, with the estimate e; jobs go in order of name.
"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.cycles import Cycles

from batchsched import (
    ActionOption,
    CycleResult,
    JobInfo,
    NodeInfo,
    Plan,
    PlannedWait,
    PluginOption,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    Tier,
    Toleration,
    WhyPending,
    next_snapshot,
)
from batchsched.live import TaskSucceeded

CPU = Resource(milli_cpu=1000)
GIB = 1 << 30


def scheduler(*others: str, shares: tuple[str, ...] = (), **arguments: Any) -> Scheduler:
    plugins = [PluginOption(name=name) for name in ("gang", "predicates", *shares)]
    actions = [ActionOption(name="plan", arguments=arguments), *map(_action, others)]
    return Scheduler(SchedulerConfig(actions=actions, tiers=[Tier(plugins=plugins)]))


def _action(name: str) -> ActionOption:
    return ActionOption(name=name, arguments={"unready": "discard"})


def nodes(count: int) -> list[NodeInfo]:
    return [NodeInfo(name=f"n{i}", allocatable=CPU) for i in range(1, count + 1)]


def j(name: str, tasks: int, estimate: float | None, **more: Any) -> JobInfo:
    made = [TaskInfo(uid=f"{name}{i}", name=f"{name}{i}", resreq=CPU) for i in range(tasks)]
    return JobInfo(name=name, queue="q", min_available=tasks, estimate=estimate, tasks=made, **more)


def running(name: str, on: list[str], estimate: float | None, start: float = 0.0) -> JobInfo:
    made = [
        TaskInfo(
            uid=f"{name}{i}",
            name=f"{name}{i}",
            resreq=CPU,
            status=TaskStatus.RUNNING,
            node_name=node,
            start_time=start,
        )
        for i, node in enumerate(on)
    ]
    return JobInfo(name=name, queue="q", min_available=len(on), estimate=estimate, tasks=made)


R = running("r", ["n1", "n2"], 10)
A, B, C, D = j("a", 3, 5), j("b", 2, 10), j("c", 2, 12), j("d", 1, 99)


def snapshot(*jobs: JobInfo, now: float = 0.0, count: int = 4) -> Snapshot:
    return Snapshot(nodes=nodes(count), queues=[Queue(name="q")], jobs=jobs, now=now)


def started(result: CycleResult) -> dict[str, str]:
    return {bind.task_uid: bind.node_name for bind in result.binds}


def starts(result: CycleResult) -> dict[str, float]:
    return {uid.removeprefix("default/"): plan.start for uid, plan in result.planned.items()}


def test_p1_what_ends_by_the_planned_start_goes_first() -> None:
    result = scheduler().schedule(snapshot(R, A, B, C, D))
    assert dict(result.planned) == {
        "default/a": Plan(start=10, nodes={"a0": "n1", "a1": "n2", "a2": "n3"})
    }
    assert started(result) == {"b0": "n3", "b1": "n4"}
    assert result.next_start == 10
    assert result.pending["a0"].text == (
        "waits for 3 cpu; planned for t = 10, when r is expected to end"
    )
    assert result.pending["a0"].why is WhyPending.PLANNED
    assert result.pending["a0"].plan == PlannedWait(
        dimension="cpu", amount=3000, start=10, freed_by=("r",)
    )


def test_a_start_is_planned_where_queues_have_not_enough_now() -> None:
    """What others hold keeps a job out of its queue now, and not for ever."""
    given = snapshot(R, A, B, C, D)
    result = scheduler(shares=("capacity",)).schedule(given)
    assert starts(result) == {"a": 10}
    assert started(result) == {"b0": "n3", "b1": "n4"}
    assert result.pending["a0"].why is WhyPending.PLANNED


def test_no_start_is_planned_beyond_the_limit_of_a_queue() -> None:
    given = evolve(snapshot(R, A), queues=[Queue(name="q", limit=ResourceLimit(milli_cpu=4000))])
    result = scheduler(shares=("capacity",)).schedule(given)
    assert dict(result.planned) == {}
    assert result.pending["a0"].why is WhyPending.QUEUE_LIMIT


def test_p2_what_ends_later_takes_only_what_the_plan_leaves() -> None:
    result = scheduler().schedule(snapshot(R, A, C, D))
    assert starts(result) == {"a": 10}
    assert started(result) == {"d0": "n4"}


def test_p3_with_a_plan_for_every_job() -> None:
    result = scheduler(depth="all").schedule(snapshot(R, A, B, C, D))
    assert starts(result) == {"a": 10, "c": 15, "d": 10}
    assert started(result) == {"b0": "n3", "b1": "n4"}
    assert result.planned["default/d"].nodes == {"d0": "n4"}


def test_p4_what_is_overdue_ends_at_once() -> None:
    result = scheduler().schedule(snapshot(running("r", ["n1", "n2"], 4), A, C, D, now=5))
    assert starts(result) == {"a": 5}
    assert started(result) == {"d0": "n4"}
    assert result.pending["a0"].text == (
        "waits for 3 cpu; planned to start at once, as soon as r is gone"
    )


def test_p5_what_ends_early_lets_all_start_no_later() -> None:
    policy = scheduler(depth="all")
    first = snapshot(R, A, B, C, D)
    result = policy.schedule(first)
    later = next_snapshot(first, result, now=4, succeeded=["r0", "r1"])
    again = policy.schedule(later)
    # Two nodes are free now; b keeps the others until 10.
    assert {uid: at for uid, at in starts(again).items() if at > starts(result)[uid]} == {}


def test_p5_with_enough_room_the_first_starts_when_another_ends_early() -> None:
    policy = scheduler(depth="all")
    first = snapshot(R, A, C, D)
    result = policy.schedule(first)
    later = next_snapshot(first, result, now=4, succeeded=["r0", "r1"])
    again = policy.schedule(later)
    assert {"a0", "a1", "a2"} <= set(started(again))
    assert {uid: at for uid, at in starts(again).items() if at > starts(result)[uid]} == {}


def test_p6_without_an_estimate_a_plan_is_for_ever() -> None:
    result = scheduler().schedule(snapshot(R, j("a", 3, None), C, D))
    assert starts(result) == {"a": 10}
    assert started(result) == {"d0": "n4"}


def test_p7_all_dimensions_count() -> None:
    def task(uid: str, cpu: int, gib: int, **more: Any) -> TaskInfo:
        request = Resource(milli_cpu=1000 * cpu, memory=gib * GIB)
        return TaskInfo(uid=uid, name=uid, resreq=request, **more)

    runs = task("r", 4, 12, status=TaskStatus.RUNNING, node_name="n1", start_time=0.0, estimate=10)
    result = scheduler().schedule(
        Snapshot(
            nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=8000, memory=16 * GIB))],
            queues=[Queue(name="q")],
            jobs=[
                JobInfo(name="r", queue="q", tasks=[runs]),
                JobInfo(name="a", queue="q", tasks=[task("a", 4, 8)]),
                JobInfo(name="b", queue="q", estimate=20, tasks=[task("b", 2, 2)]),
            ],
        )
    )
    assert starts(result) == {"a": 10}
    assert started(result) == {"b": "n1"}


def test_without_a_plan_later_jobs_start_as_they_fit() -> None:
    result = scheduler(depth=0).schedule(snapshot(R, A, C, D))
    assert set(started(result)) == {"c0", "c1"}
    assert not result.planned


def test_a_job_that_never_fits_is_not_planned_and_does_not_count() -> None:
    result = scheduler().schedule(snapshot(R, j("a", 5, 1), j("b", 3, 5), C))
    assert starts(result) == {"b": 10}
    assert result.pending["a0"].why is WhyPending.NEVER_FITS
    assert result.pending["a0"].text.startswith(
        "waits for 5 cpu, which are never free together, by what is expected to end"
    )


def test_what_never_ends_frees_nothing() -> None:
    result = scheduler().schedule(snapshot(running("r", ["n1", "n2"], None), A, C))
    assert not result.planned
    assert set(started(result)) == {"c0", "c1"}


def test_no_start_is_planned_beyond_the_window() -> None:
    assert starts(scheduler(window=10).schedule(snapshot(R, A))) == {"a": 10}
    result = scheduler(window=9.5).schedule(snapshot(R, A))
    assert not result.planned
    assert result.pending["a0"].text == (
        "waits for 3 cpu, which are not free together within 9.5 s from now"
    )


def test_only_so_many_jobs_are_looked_at() -> None:
    result = scheduler(maxJobs=2).schedule(snapshot(R, A, C, D))
    assert not result.binds
    assert starts(result) == {"a": 10}


def test_a_job_whose_plan_is_too_late_is_told() -> None:
    late = j("a", 3, 5, deadline=14)
    assert scheduler().schedule(snapshot(R, late)).late == ("default/a",)
    assert scheduler().schedule(snapshot(R, j("a", 3, 5, deadline=15))).late == ()


def test_a_job_whose_plan_is_too_late_is_told_once_by_actions_that_plan_twice() -> None:
    late = j("a", 3, 5, deadline=14)
    plugins = [PluginOption(name=name) for name in ("gang", "predicates")]
    plan = ActionOption(name="plan")
    twice = SchedulerConfig(actions=[plan, plan], tiers=[Tier(plugins=plugins)])
    assert Scheduler(twice).schedule(snapshot(R, late)).late == ("default/a",)


def test_allocate_respects_plans() -> None:
    first = snapshot(R, A, C, D)
    result = scheduler("allocate", depth=1, maxJobs=1).schedule(first)
    assert starts(result) == {"a": 10}
    assert started(result) == {"d0": "n4"}


@pytest.mark.parametrize("how", [{"warm": True}, {"plain": True}, {}], ids=str)
def test_a_job_that_allocate_failed_to_place_starts_by_plan(how: dict[str, bool]) -> None:
    """What it needs is remembered from its failed turn, without its tasks."""
    config = scheduler("allocate").config
    waits = snapshot(running("o", ["n1"], None), j("e", 1, None), count=1)
    using = Scheduler(config, **how)
    living = Cycles(using, waits)
    for decide in (living.cycle, lambda: using.schedule(living.snapshot)):
        assert not decide().binds
    living.step(TaskSucceeded("o0"))
    for decide in (living.cycle, lambda: using.schedule(living.snapshot)):
        assert started(decide()) == {"e0": "n1"}


def test_jobs_beyond_their_minimum_start_one_by_one() -> None:
    elastic = j("a", 3, 5)
    result = scheduler().schedule(
        snapshot(R, JobInfo(name="a", queue="q", estimate=5, tasks=elastic.tasks))
    )
    assert set(started(result)) == {"a0", "a1"}
    assert result.planned == {"default/a": Plan(start=5, nodes={"a2": "n3"})}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": "everything"}, "expected a number or 'all', got 'everything'"),
        ({"depth": -1}, "expected 0 or more, got -1"),
        ({"window": -1}, "expected 0 or more, got -1"),
        ({"maxJobs": 0}, "expected 1 or more, got 0"),
        ({"keep": 3}, "expected true or false, got 3"),
    ],
)
def test_wrong_arguments_are_told(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        scheduler(**arguments)


def sized(name: str, *sizes: float, **more: Any) -> JobInfo:
    """A job whose tasks ask for so much cpu."""
    made = [
        TaskInfo(uid=f"{name}{i}", name=f"{name}{i}", resreq=Resource(milli_cpu=int(1000 * size)))
        for i, size in enumerate(sizes)
    ]
    return JobInfo(name=name, queue="q", tasks=made, **{"min_available": len(made), **more})


def wide(**cpus: int) -> list[NodeInfo]:
    return [
        NodeInfo(name=name, allocatable=Resource(milli_cpu=1000 * cpu))
        for name, cpu in cpus.items()
    ]


def test_an_old_plan_says_nothing_of_what_a_job_needs_after_it_has_started() -> None:
    old = Plan(start=0, nodes={"a0": "n1"})
    elastic = sized("a", 1, 3, min_available=1, estimate=5, plan=old)
    result = scheduler().schedule(evolve(snapshot(elastic), nodes=wide(n1=2, n2=2)))
    assert started(result) == {"a0": "n1"}


def test_what_is_placed_in_vain_beside_a_promise_leaves_its_place_to_others() -> None:
    # allocate holds n2 for a, which is too large, and what x leaves for g; backfill releases n2.
    # There g finds a place for its other task, and cannot start before x has left.
    leaving = evolve(running("x", ["n1"], 10).tasks[0], status=TaskStatus.RELEASING)
    runs = running("h", ["n3"], None)
    elastic = evolve(runs, tasks=[*runs.tasks, *j("h", 2, None).tasks[1:]])
    jobs = [JobInfo(name="x", queue="q", tasks=[leaving]), sized("a", 1, 9), j("g", 2, None)]
    config = scheduler(depth=0).config
    holds = ActionOption(name="allocate", arguments={"unready": "hold"})
    releases = ActionOption(name="backfill", arguments={"strategy": "release"})
    before = evolve(config, actions=[holds, releases])
    using = Scheduler(evolve(config, actions=[*before.actions, *config.actions]))
    given = snapshot(*jobs, elastic, count=3)
    assert not Scheduler(before).schedule(given).binds
    result = using.schedule(given)
    assert result.tasks["g0"].node_name == "n1"
    assert started(result) == {"h1": "n2"}


def test_what_was_reserved_and_starts_now_ends_after_its_estimate() -> None:
    reserved = evolve(j("a", 1, 10).tasks[0], status=TaskStatus.RESERVED, node_name="n1")
    given = snapshot(evolve(j("a", 1, 10), tasks=[reserved]), j("b", 1, 5), now=3, count=1)
    config = scheduler().config
    actions = [_action("allocate"), *config.actions]
    result = Scheduler(evolve(config, actions=actions)).schedule(given)
    assert started(result) == {"a0": "n1"}
    assert starts(result) == {"b": 13}


def test_a_plan_is_not_counted_beside_the_places_that_its_tasks_were_given_since() -> None:
    # a is planned where r ends, and then preempts r; what is left is for those that come after.
    r = evolve(running("r", ["n2"], 10), min_available=0)
    r = evolve(r, tasks=[evolve(r.tasks[0], resreq=Resource(milli_cpu=2000))])
    c = sized("c", 1, creation_time=1)
    given = evolve(snapshot(r, sized("a", 1, 2, estimate=5, priority=9), c), nodes=wide(n1=2, n2=2))
    actions = [ActionOption(name="plan", arguments={"maxJobs": 1}), ActionOption(name="preempt")]
    plugins = [PluginOption(name=name) for name in ("priority", "gang", "predicates")]
    config = SchedulerConfig(actions=[*actions, _action("allocate")], tiers=[Tier(plugins=plugins)])
    result = Scheduler(config).schedule(given)
    assert [eviction.task_uid for eviction in result.evictions] == ["r0"]
    assert [promise.task_uid for promise in result.pipelined] == ["a1"]
    assert started(result) == {"c0": "n1"}


def test_plans_of_a_queue_that_is_overused_end() -> None:
    queues = [Queue(name="q"), Queue(name="r")]
    a = evolve(j("a", 1, 5), plan=Plan(start=10, nodes={"a0": "n1"}))
    b = evolve(j("b", 1, 50), queue="r", creation_time=1)
    given = evolve(snapshot(R, a, b, count=2), queues=queues)
    assert starts(scheduler(shares=("proportion",)).schedule(given)) == {"b": 10}


def test_an_old_plan_that_its_nodes_refuse_leaves_its_places_to_others() -> None:
    a = evolve(j("a", 1, 5), plan=Plan(start=0, nodes={"a0": "n1"}))
    b = j("b", 1, 5)
    b = evolve(b, tasks=[evolve(task, tolerations=[Toleration(key="k")]) for task in b.tasks])
    closed = evolve(nodes(1)[0], taints=[Taint(key="k", effect=TaintEffect.NO_SCHEDULE)])
    given = Snapshot(nodes=[closed], queues=[Queue(name="q")], jobs=[a, b])
    result = scheduler().schedule(given)
    assert [bind.task_uid for bind in result.binds] == ["b0"]
    assert not result.planned


# Priorities


def by_priority(**arguments: Any) -> Scheduler:
    plugins = [PluginOption(name=name) for name in ("priority", "gang", "predicates")]
    actions = [ActionOption(name="plan", arguments=arguments)]
    return Scheduler(SchedulerConfig(actions=actions, tiers=[Tier(plugins=plugins)]))


def old(name: str, start: float, **more: Any) -> JobInfo:
    return evolve(
        j(name, 1, 100, priority=1, **more), plan=Plan(start=start, nodes={f"{name}0": "n1"})
    )


def test_n7_an_old_plan_gives_way_to_a_higher_priority() -> None:
    jobs = [running("r", ["n1"], 10), old("old", 10), j("new", 1, 100, priority=1000)]
    snapshot = Snapshot(nodes=nodes(1), queues=[Queue(name="q")], jobs=jobs, now=5)
    found = by_priority(depth="all").schedule(snapshot).planned
    assert {uid: plan.start for uid, plan in found.items()} == {
        "default/new": 10,
        "default/old": 110,
    }


def test_the_plan_of_a_job_does_not_keep_it_from_what_others_leave_for_it() -> None:
    gang = PluginOption(name="gang", arguments={"atMinimum": "whole-job"})
    plugins = [PluginOption(name="priority"), gang, PluginOption(name="predicates")]
    actions = [ActionOption(name=name) for name in ("plan", "preempt")]
    using = Scheduler(SchedulerConfig(actions=actions, tiers=[Tier(plugins=plugins)]))
    large = NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000, memory=CPU.memory * 2))
    jobs = [running("r", ["n1", "n1"], 100), j("g", 2, 10, priority=9)]
    result = using.schedule(Snapshot(nodes=[large], queues=[Queue(name="q")], jobs=jobs, now=5))
    assert {each.task_uid for each in result.evictions} == {"r0", "r1"}
    assert {each.task_uid for each in result.pipelined} == {"g0", "g1"}


def test_n8_so_do_all_old_plans() -> None:
    many = [old(name, start) for name, start in (("a", 20), ("b", 120), ("c", 220))]
    jobs = [running("r", ["n1"], 20), *many, j("new", 1, 100, priority=1000)]
    snapshot = Snapshot(nodes=nodes(1), queues=[Queue(name="q")], jobs=jobs, now=5)
    found = by_priority(depth="all").schedule(snapshot).planned
    assert [found[f"default/{name}"].start for name in ("new", "a", "b", "c")] == [
        20,
        120,
        220,
        320,
    ]


@pytest.mark.parametrize("depth", [1, "all"])
def test_n9_also_to_one_that_a_limit_keeps_out_until_then(depth: object) -> None:
    queues = [Queue(name="q"), Queue(name="limited", limit=ResourceLimit(milli_cpu=1000))]
    r = evolve(running("r", ["n1"], 100), queue="limited")
    head = evolve(j("head", 1, 100, priority=1000), queue="limited")
    low = evolve(old("o2", 100), estimate=1000, priority=0)
    plugins = [PluginOption(name=n) for n in ("priority", "gang", "predicates", "capacity")]
    action = ActionOption(name="plan", arguments={"depth": depth})
    using = Scheduler(SchedulerConfig(actions=[action], tiers=[Tier(plugins=plugins)]))
    living = Cycles(using, Snapshot(nodes=nodes(1), queues=queues, jobs=[r, head, low], now=5))
    assert starts(living.cycle()) == {"o2": 100}
    living.step(TaskSucceeded("r0"), now=100)
    assert started(living.cycle()) == {"head0": "n1"}


def test_what_can_never_start_moves_no_plan() -> None:
    jobs = [running("r", ["n1"], 10), old("old", 10), j("new", 2, 100, priority=1000)]
    snapshot = Snapshot(nodes=nodes(1), queues=[Queue(name="q")], jobs=jobs, now=5)
    assert by_priority(depth=1).schedule(snapshot).planned["default/old"].start == 10


@pytest.mark.parametrize("plain", [False, True])
def test_what_one_node_lacks_is_not_taken_from_what_others_have_free(plain: bool) -> None:
    # Two tasks share the only processor of n1, so that it lacks as much as n2 has free.
    jobs = [running("r", ["n1", "n1"], None), j("a", 1, 5), j("b", 2, 5)]
    made = Scheduler(scheduler().config, plain=plain)
    assert started(made.schedule(snapshot(*jobs, count=2))) == {"a0": "n2"}
