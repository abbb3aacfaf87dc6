"""What protects jobs from eviction holds in simulations, and evictions cost what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from batchsched import (
    Budget,
    JobInfo,
    LabelSelector,
    Resource,
    SchedulerConfig,
    TaskInfo,
)
from batchsched.simulation import Checkpoint, Job, Scheduled, SimulationError, Workload, simulate

WEB = LabelSelector(match_labels={"app": "web"})


def config(**arguments: Any) -> SchedulerConfig:
    return SchedulerConfig.from_mapping(
        {
            "actions": "allocate, preempt",
            "tiers": [
                {
                    "plugins": [
                        "priority",
                        {"name": "gang", "arguments": {"atMinimum": "whole-job"}},
                        {"name": "protection", "arguments": arguments},
                        "predicates",
                    ]
                }
            ],
        }
    )


def job(name: str, submit: float, run: float, *, priority: int = 0, **more: Any) -> Job:
    task = TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=1000), labels={"app": name[:3]})
    info = JobInfo(name=name, queue="default", min_available=1, priority=priority, tasks=[task])
    return Job(id=name, submit=submit, run=run, info=info, **more)


def starts(policy: SchedulerConfig | Scheduled, *jobs: Job, nodes: int = 1) -> dict[Any, Any]:
    run = simulate(Workload(jobs).on(nodes=nodes), policy)
    return dict(zip(run.jobs["id"], run.jobs["start"], strict=True))


@pytest.mark.parametrize(("hard", "expected"), [(True, 100), (False, 10)])
def test_a_budget_keeps_jobs_of_a_simulation_running(hard: bool, expected: float) -> None:
    jobs = [job("web", 0, 100), job("high", 10, 20, priority=9)]
    budget = Budget(name="web", selector=WEB, max_unavailable=0, hard=hard)
    assert starts(Scheduled(config(), budgets=[budget]), *jobs)["high"] == expected


def test_of_a_budget_one_may_go() -> None:
    jobs = [job("web1", 0, 100), job("web2", 0, 100)]
    jobs += [job(f"high{n}", 10, 200, priority=9) for n in range(2)]
    budget = Budget(name="web", selector=WEB, max_unavailable=1)
    when = starts(Scheduled(config(), budgets=[budget]), *jobs, nodes=2)
    assert sorted((when["high0"], when["high1"])) == [10, 100]


def test_a_limit_ends_when_its_window_does() -> None:
    limits = [{"name": "few", "scope": "cluster", "most": 1, "window": 40}]
    jobs = [job("low1", 0, 1000), job("low2", 0, 1000)]
    jobs += [job(f"high{n}", 10, 2000, priority=9) for n in range(2)]
    when = starts(config(limits=limits), *jobs, nodes=2)
    assert sorted((when["high0"], when["high1"])) == [10, 50]


def test_a_core_of_a_simulation_stays_for_its_minimum_runtime() -> None:
    jobs = [job("low", 0, 100), job("high", 10, 20, priority=9)]
    assert starts(config(preemptMinRuntime=30), *jobs)["high"] == 30


@pytest.mark.parametrize(
    ("cost", "goes", "lost"), [("none", "second", 60), ("lost-work", "first", 10)]
)
def test_the_one_goes_that_has_saved_its_work(cost: str, goes: str, lost: float) -> None:
    """Both have run for long; the first saves every 50 s, the second, which is younger, never."""
    jobs = [
        job("first", 0, 500, checkpoint=Checkpoint(every=50)),
        job("second", 50, 500, checkpoint=Checkpoint()),
        job("high", 110, 20, priority=9),
    ]
    run = simulate(Workload(jobs).on(nodes=1, per_node=2), config(cost=cost))
    stopped = [
        name
        for name, stops in zip(run.jobs["id"], run.outcome.preemptions or (), strict=True)
        if stops
    ]
    assert stopped == [goes]
    assert run.metrics()["lost_work"] == lost


def test_what_is_wrong_with_budgets_is_told() -> None:
    both = Budget(name="web", selector=WEB, max_unavailable=0, min_available=1)
    with pytest.raises(SimulationError, match="budgets"):
        simulate(Workload([job("web", 0, 1)]).on(nodes=1), Scheduled(config(), budgets=[both]))
    with pytest.raises(SimulationError, match="budgets"):
        simulate(
            Workload([job("web", 0, 1)]).on(nodes=1),
            Scheduled(config(), budgets=[WEB]),  # type: ignore[list-item]
        )
