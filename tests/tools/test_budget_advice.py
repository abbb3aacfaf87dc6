"""What helps a job that budgets keep from evicting: it starts with that, and not with less."""

from __future__ import annotations

from typing import Any

import pytest

from batchsched import (
    Budget,
    JobInfo,
    LabelSelector,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    explain,
)
from batchsched.live import BudgetsChanged
from batchsched.tools import CycleRun, what_if
from batchsched.tools.changes import Change

CPU = Resource.of(cpu=1)
WEB = LabelSelector(match_labels={"app": "web"})


def running(name: str, app: str = "web") -> JobInfo:
    task = TaskInfo(
        uid=name,
        name=name,
        resreq=CPU,
        status=TaskStatus.RUNNING,
        node_name="n",
        start_time=0,
        labels={"app": app},
    )
    return JobInfo(name=name, queue="q", tasks=[task])


def cluster(*budgets: Budget, asks: int = 1, app: str = "web") -> Snapshot:
    tasks = [TaskInfo(uid=f"hi-{k}", name=f"hi-{k}", resreq=CPU) for k in range(asks)]
    high = JobInfo(name="hi", queue="q", priority=9, min_available=asks, tasks=tasks)
    jobs = [running("a"), running("b"), running("c", app), high]
    node = NodeInfo(name="n", allocatable=3 * CPU)
    return Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=jobs, budgets=budgets, now=100)


def config(**arguments: Any) -> SchedulerConfig:
    found = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})
    return found.with_arguments("protection", **arguments) if arguments else found


def advised(snapshot: Snapshot, by: SchedulerConfig) -> dict[str, tuple[Change, ...]]:
    """Return what is advised of budgets: in words, and the changes."""
    result = Scheduler(by).schedule(snapshot)
    explanation = explain(snapshot, result, "default/hi", config=by)
    found = {each.text: each.changes for each in explanation.would_start if each.evicts}
    for text in found:
        assert text in str(explanation)
        assert text in explanation.to_dict()["would_start"]  # type: ignore[operator]
    return found


@pytest.mark.parametrize(
    ("given", "asks", "expected"),
    [
        ({"max_unavailable": 0}, 1, "1 more (max_unavailable 1 instead of 0)"),
        ({"max_unavailable": 0}, 3, "3 more (max_unavailable 3 instead of 0)"),
        ({"min_available": 3}, 2, "2 more (min_available 1 instead of 3)"),
    ],
)
def test_the_fewest_more_are_advised_with_which_the_job_starts(
    given: dict[str, Any], asks: int, expected: str
) -> None:
    snapshot = cluster(Budget(name="web", selector=WEB, **given), asks=asks)
    found = advised(snapshot, config())
    assert list(found) == [f"let budget default/web allow {expected}"]
    [changes] = found.values()
    answer = what_if(snapshot, *changes, config=config())
    assert {bind.task_uid for bind in answer.result.binds} == {f"hi-{k}" for k in range(asks)}
    [changed] = [each for each in changes if isinstance(each, BudgetsChanged)]
    [budget] = changed.budgets
    less = Budget(
        name="web",
        selector=WEB,
        max_unavailable=None if budget.max_unavailable is None else budget.max_unavailable - 1,
        min_available=None if budget.min_available is None else budget.min_available + 1,
    )
    fewer = what_if(snapshot, BudgetsChanged([less]), CycleRun(), config=config())
    assert not fewer.result.binds


def test_a_budget_is_not_advised_where_something_else_keeps_them_too() -> None:
    budget = Budget(name="web", selector=WEB, max_unavailable=0)
    limits = [{"name": "few", "scope": "cluster", "most": 0, "window": 60}]
    assert advised(cluster(budget), config(preemptMinRuntime=1000)) == {}
    assert advised(cluster(budget), config(limits=limits)) == {}
    other = Budget(name="all", selector=LabelSelector(), max_unavailable=0)
    assert advised(cluster(budget, other), config()) == {}


def test_each_of_several_budgets_is_tried_by_itself() -> None:
    web = Budget(name="web", selector=WEB, max_unavailable=0)
    batch = LabelSelector(match_labels={"app": "batch"})
    other = Budget(name="batch", selector=batch, max_unavailable=0)
    assert set(advised(cluster(web, other, app="batch"), config())) == {
        "let budget default/web allow 1 more (max_unavailable 1 instead of 0)",
        "let budget default/batch allow 1 more (max_unavailable 1 instead of 0)",
    }


def test_a_budget_that_allows_enough_is_no_advice() -> None:
    budget = Budget(name="web", selector=WEB, max_unavailable=3, hard=False)
    snapshot = cluster(budget)
    assert Scheduler(config()).schedule(snapshot).evictions
    assert advised(snapshot, config()) == {}
