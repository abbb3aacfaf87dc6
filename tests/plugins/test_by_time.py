"""sjf, las, fcfs and sla: orders by estimates, attained service, arrival and deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.books import factory_of, opened
from tests.support.clusters import cluster, job, node

from batchsched import Arguments, ConfigError, JobInfo, Scheduler, SchedulerConfig, schedule
from batchsched.testing import check_plugin


def order(plugin: Any, *jobs: Any, now: float = 100.0) -> list[str]:
    of = opened(evolve(cluster([node("n1", "9C9G")], *jobs), now=now), [plugin])
    return [j.info.name for j in sorted(of.jobs.values(), key=of.plugins.job_order_key)]


def config(plugin: str, **arguments: Any) -> SchedulerConfig:
    return SchedulerConfig.from_mapping(
        {
            "actions": [{"name": "allocate", "arguments": {"unready": "discard"}}],
            "tiers": [{"plugins": [{"name": plugin, "arguments": arguments}, {"name": "gang"}]}],
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "arguments"),
    [
        ("sjf", {}),
        ("las", {}),
        ("las", {"levels": "5,15", "resource": "cpu"}),
        ("fcfs", {}),
        ("fcfs", {"strict": "false"}),
        ("sla", {}),
        ("sla", {"late": "first", "claims": "true", "urgent": 20}),
    ],
)
def test_they_keep_the_laws_of_plugins(plugin: str, arguments: dict[str, Any]) -> None:
    check_plugin(factory_of(plugin)(Arguments(arguments)), name="by-time", max_examples=8)


def test_sjf_lets_the_shortest_go_first_and_the_unknown_last() -> None:
    jobs = [
        evolve(job("a", "1C1G"), estimate=None),
        evolve(job("b", "1C1G"), estimate=60),
        evolve(job("c", "1C1G"), estimate=5),
    ]
    assert order("sjf", *jobs) == ["c", "b", "a"]


def test_sjf_counts_the_longest_task() -> None:
    long = job("a", "1C1G", "1C1G")
    long = evolve(long, estimate=5, tasks=[long.tasks[0], evolve(long.tasks[1], estimate=90)])
    assert order("sjf", long, evolve(job("b", "1C1G"), estimate=60)) == ["b", "a"]


def served(name: str, request: str, seconds: float, **more: Any) -> Any:
    of = job(name, request, **more)
    return evolve(of, tasks=[evolve(task, attained_service=seconds) for task in of.tasks])


def test_las_lets_who_attained_least_go_first() -> None:
    jobs = [served("a", "1C1G", 30), served("b", "1C1G", 10), served("c", "1C1G", 20)]
    assert order("las", *jobs) == ["b", "c", "a"]


def test_las_counts_the_present_run() -> None:
    runs = job("a", "1C1G@n1")
    runs = evolve(runs, tasks=[evolve(task, start_time=60.0) for task in runs.tasks])
    assert order("las", runs, served("b", "1C1G", 39)) == ["b", "a"]
    assert order("las", runs, served("b", "1C1G", 41)) == ["a", "b"]


def test_las_counts_what_was_held() -> None:
    of = [served("a", "4C1G", 10), served("b", "1C1G", 30)]
    snapshot = cluster([node("n1", "9C9G")], *of)
    scheduler = Scheduler(config("las", resource="cpu"))
    session = scheduler.open(snapshot)
    assert sorted(
        session.jobs, key=lambda uid: session.plugins.job_order_key(session.jobs[uid])
    ) == [
        "default/b",
        "default/a",
    ]


def test_las_with_levels_lets_those_on_one_level_go_as_they_came() -> None:
    of = [served("a", "1C1G", 30), served("b", "1C1G", 10), served("c", "1C1G", 90)]
    session = Scheduler(config("las", levels="50, 80")).open(cluster([node("n1", "9C9G")], *of))
    keys = {j.info.name: session.plugins.job_order_key(j) for j in session.jobs.values()}
    assert sorted(keys, key=lambda name: keys[name]) == ["a", "b", "c"]


def test_levels_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="expected ascending numbers such as '10, 20', got '8, 5'"
    ):
        config("las", levels="8, 5")


def test_fcfs_lets_nobody_overtake() -> None:
    snapshot = cluster([node("n1", "4C9G")], job("a", "5C1G"), job("b", "1C1G"))
    assert not schedule(snapshot, config=config("fcfs")).binds
    loose = schedule(snapshot, config=config("fcfs", strict=False))
    assert [bind.task_uid for bind in loose.binds] == ["b-1"]
    text = schedule(snapshot, config=config("fcfs")).pending["b-1"].text
    assert "job 'default/a' came earlier and is waiting" in text


def test_sla_lets_the_earliest_latest_start_go_first_and_the_late_last() -> None:
    jobs = [
        job("a", "1C1G"),
        evolve(job("b", "1C1G"), deadline=150, estimate=10),
        evolve(job("c", "1C1G"), eligible_time=90, max_wait=20),
        evolve(job("d", "1C1G"), deadline=90),
    ]
    assert order("sla", *jobs) == ["c", "b", "a", "d"]
    first = Scheduler(config("sla", late="first"))
    session = first.open(evolve(cluster([node("n1", "9C9G")], *jobs), now=100.0))
    ranked = sorted(session.jobs.values(), key=session.plugins.job_order_key)
    assert [j.info.name for j in ranked] == ["d", "c", "b", "a"]


def test_las_puts_what_has_just_attained_a_level_on_that_level() -> None:
    assert order(
        ("las", {"levels": "50, 80"}), served("a", "1C1G", 60), served("b", "1C1G", 50)
    ) == ["a", "b"]


@pytest.mark.parametrize(
    ("earlier", "starts"),
    [
        (job("a", "5C1G", minimum=0), False),
        (job("a", ""), True),  # backfill places what asks for nothing
        (job("a", "5C1G", minimum=2), True),  # it can never start
    ],
)
def test_fcfs_waits_for_jobs_that_have_something_to_start(earlier: JobInfo, starts: bool) -> None:
    snapshot = cluster([node("n1", "4C9G")], earlier, job("b", "1C1G"))
    assert bool(schedule(snapshot, config=config("fcfs")).binds) is starts


def test_sla_does_not_call_late_what_may_start_just_now() -> None:
    due = evolve(job("b", "1C1G"), deadline=100)
    assert order("sla", job("a", "1C1G"), due, now=100) == ["b", "a"]
    assert order("sla", job("a", "1C1G"), due, now=101) == ["a", "b"]


@pytest.mark.parametrize(
    ("victim", "now", "evicts"),
    [
        ({}, 30, False),  # it must start within 20 s, which is not less than `urgent`
        ({}, 31, True),
        ({"max_wait": 1000.0}, 31, False),
        ({"priority": 1}, 31, False),
        ({"priority": -1}, 0, True),
    ],
)
def test_sla_lets_urgent_jobs_preempt_those_that_may_start_at_any_time(
    victim: dict[str, Any], now: float, evicts: bool
) -> None:
    sla = {"name": "sla", "arguments": {"claims": True, "urgent": 20}}
    preempting = SchedulerConfig.from_mapping(
        {"actions": ["preempt"], "tiers": [{"plugins": [sla, "predicates"]}]}
    )
    running = evolve(job("v", "1C1G@n1"), creation_time=1, **victim)
    due = evolve(job("m", "1C1G"), creation_time=0, max_wait=50.0)
    result = schedule(cluster([node("n1", "1C1G")], running, due, now=now), config=preempting)
    assert [eviction.task_uid for eviction in result.evictions] == ["v-1"] * evicts
