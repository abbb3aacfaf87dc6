"""priority: the more important go first, and give way to nobody less important."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.books import opened, plugin_object
from tests.support.clusters import cluster, job, node

from batchsched import JobInfo, Session
from batchsched.plugin import Verdict

V, P, X = Verdict.VICTIM, Verdict.PASS, Verdict.PROTECTED


def ranked(name: str, *requests: str, priority: int, tasks: list[int], **more: Any) -> JobInfo:
    of = job(name, *requests, priority=priority, minimum=1, **more)
    given = [evolve(task, priority=p) for task, p in zip(of.tasks, tasks, strict=True)]
    return evolve(of, tasks=given)


def session() -> Session:
    return opened(
        cluster(
            [node("n1", "9C9G")],
            ranked("low", "1C1G@n1", "1C1G@n1", priority=-5, tasks=[9, 1]),
            ranked("mid", "1C1G@n1", "1C1G", "1C1G@n1", priority=0, tasks=[1, 5, 9]),
            ranked("same", "1C1G@n1", priority=0, tasks=[99]),
            ranked("high", "1C1G@n1", priority=7, tasks=[0]),
        ),
        ["priority"],
    )


def test_the_job_of_higher_priority_goes_first() -> None:
    of = session()
    assert [j.info.name for j in sorted(of.jobs.values(), key=of.plugins.job_order_key)] == [
        "high",
        "mid",
        "same",
        "low",
    ]


def test_the_task_of_higher_priority_goes_first_and_is_evicted_last() -> None:
    of = session()
    mid = of.jobs["default/mid"].tasks
    assert [task.uid for task in of.in_task_order(mid)] == ["mid-3", "mid-2", "mid-1"]
    assert [task.uid for task in of.in_victim_order(mid)] == ["mid-1", "mid-2", "mid-3"]


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [
        ("low-1", V),  # jobs are compared, whatever the tasks' priorities
        ("low-2", V),
        ("same-1", P),
        ("high-1", X),
        ("mid-1", V),  # of the same job: tasks are compared
        ("mid-3", X),
    ],
)
def test_only_the_less_important_are_victims(candidate: str, verdict: Verdict) -> None:
    of = session()
    plugin = plugin_object(of, "priority")
    assert plugin.preemptable(of.task("mid-2"), [of.task(candidate)]) == [verdict]


def test_tasks_of_the_same_priority_in_one_job_pass() -> None:
    of = session()
    plugin = plugin_object(of, "priority")
    assert plugin.preemptable(of.task("mid-1"), [of.task("mid-1")]) == [P]


def test_verdicts_come_in_the_order_of_the_candidates() -> None:
    of = session()
    uids = ["high-1", "low-1", "same-1", "mid-3", "mid-1"]
    plugin = plugin_object(of, "priority")
    verdicts = plugin.preemptable(of.task("mid-2"), [of.task(uid) for uid in uids])
    assert list(verdicts) == [X, V, P, X, V]


def test_it_has_no_say_in_reclaiming() -> None:
    assert not hasattr(plugin_object(session(), "priority"), "reclaimable")
