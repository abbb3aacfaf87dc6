"""protection: who is not preemptible, or too young, stays, and the first keep to their quotas."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import opened, task_of
from tests.support.clusters import cluster, job, node
from tests.support.invariants import check_decisions

from batchsched import (
    CycleResult,
    Preemptible,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    UnfitReason,
)
from batchsched.errors import PluginError
from batchsched.live import Cluster
from batchsched.plugin import ExtensionPoints, Verdict
from batchsched.session.victims import Point, RecentStarts
from batchsched.testing import snapshots
from batchsched.tools import check_config


def config(actions: str, **capacity: Any) -> SchedulerConfig:
    tiers = [
        ["priority", {"name": "gang", "arguments": {"atMinimum": "whole-job"}}],
        ["predicates", {"name": "capacity", "arguments": capacity}, "protection"],
    ]
    return SchedulerConfig.from_mapping(
        {"actions": actions, "tiers": [{"plugins": t} for t in tiers]}
    )


def cycle(snapshot: Snapshot, checked: SchedulerConfig) -> CycleResult:
    """Return what is decided, which is the same plain, and on a living cluster."""
    result = Scheduler(checked).schedule(snapshot)
    assert Scheduler(checked, plain=True).schedule(snapshot) == result
    assert Scheduler(checked).attach(Cluster(snapshot)).schedule().full() == result
    return result


CPUS = [Resource(milli_cpu=1000 * each, memory=each << 30) for each in range(9)]


def running(name: str, count: int, *, since: float = 0, **fields: Any) -> Any:
    made = job(name, *["1C1G@n1"] * count, **fields)
    return evolve(made, tasks=[evolve(task, start_time=since) for task in made.tasks])


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_job_that_is_not_preemptible_is_not_preempted(preemptible: bool) -> None:
    low = evolve(running("low", 2), preemptible=preemptible)
    snapshot = cluster([node("n1", "2C2G")], low, job("high", "1C1G", priority=9))
    result = cycle(snapshot, config("allocate, preempt", preemption="priority"))
    assert bool(result.evictions) is preemptible
    if not preemptible:
        (report,) = result.pending["high-1"].evictions
        assert report.out == {"not preemptible": 2}


@pytest.mark.parametrize(("now", "evicted"), [(59, 0), (60, 2)])
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_a_job_keeps_what_it_needs_until_the_minimum_runtime_of_its_queue(
    action: str, now: float, evicted: int
) -> None:
    claimant = job("high", "2C2G", priority=9, queue="q" if action == "preempt" else "other")
    low = running("low", 2, minimum=2, queue="q")
    above = Queue(name="top", preempt_min_runtime=60, reclaim_min_runtime=60)
    queues = [above, Queue(name="q", parent="top"), Queue(name="other", deserved=CPUS[2])]
    snapshot = evolve(cluster([node("n1", "2C2G")], low, claimant), queues=queues, now=now)
    result = cycle(snapshot, config(f"allocate, {action}", preemption="priority"))
    assert len(result.evictions) == evicted


def test_what_a_young_job_has_beyond_its_minimum_may_go() -> None:
    jobs = (running("low", 2, minimum=1), job("high", "1C1G", "1C1G", minimum=1, priority=9))
    snapshot = cluster([node("n1", "2C2G")], *jobs)
    queues = [evolve(queue, preempt_min_runtime=60) for queue in snapshot.queues]
    snapshot = evolve(snapshot, queues=queues, now=10)
    result = cycle(snapshot, config("allocate, preempt", preemption="priority"))
    assert len(result.evictions) == 1


def test_against_reclaiming_the_queue_below_the_common_one_says_for_how_long() -> None:
    def left(**fields: Any) -> int:
        queues = [
            Queue(name="a", **fields),
            Queue(name="a1", parent="a", reclaim_min_runtime=60),
            Queue(name="b", deserved=CPUS[1]),
        ]
        claimant = job("claims", "1C1G", queue="b")
        snapshot = evolve(
            cluster([node("n1", "1C1G")], running("r", 1, queue="a1"), claimant),
            queues=queues,
            now=10,
        )
        return len(cycle(snapshot, config("allocate, reclaim")).evictions)

    assert left() == 1  # the leaf's time is for claims within a
    assert left(reclaim_min_runtime=60) == 0


@pytest.mark.parametrize("deserved", [CPUS[1], ResourceLimit(milli_cpu=1000), None])
@pytest.mark.parametrize("preemptible", [True, False])
def test_jobs_that_are_not_preemptible_stay_within_what_their_queues_deserve(
    preemptible: bool, deserved: Any
) -> None:
    queues = [Queue(name="top", deserved=deserved), Queue(name="q", parent="top", deserved=None)]
    jobs = [
        evolve(running("r", 1, queue="q"), preemptible=preemptible),
        evolve(job("j", "1C1G", queue="q"), preemptible=preemptible),
    ]
    snapshot = evolve(cluster([node("n1", "4C4G")], *jobs), queues=queues)
    result = cycle(snapshot, config("allocate, reclaim, preempt"))
    assert bool(result.binds) is (preemptible or deserved is None)
    if not result.binds:
        refusal = result.pending["j-1"].refusal
        assert refusal is not None
        assert (refusal.reason, refusal.queue) == (UnfitReason.BEYOND_QUOTA, "top")
        assert refusal.text == (
            "queue 'top' would hold 2 cpu, 1 more than what it deserves for jobs that are not "
            "preemptible"
        )


def test_by_priority_preempt_evicts_what_the_share_of_its_queue_covers() -> None:
    queues = [Queue(name="q", deserved=CPUS[1]), Queue(name="other", deserved=CPUS[1])]
    snapshot = evolve(
        cluster(
            [node("n1", "2C2G")],
            running("low", 1, queue="q"),
            job("high", "2C2G", queue="q", priority=9),
            running("theirs", 1, queue="other"),
        ),
        queues=queues,
    )
    small = evolve(snapshot, jobs=[j for j in snapshot.jobs if j.name != "theirs"])
    for arguments, evicted in (({}, 0), ({"preemption": "priority"}, 1)):
        result = cycle(evolve(small, queues=[queues[0], queues[1]]), config("preempt", **arguments))
        assert len(result.evictions) == evicted
        assert not cycle(snapshot, config("preempt", **arguments)).evictions


@given(snapshot=snapshots(), action=st.sampled_from(["preempt", "reclaim", "reclaim, preempt"]))
@settings(max_examples=25)
def test_no_job_that_is_not_preemptible_loses_a_task(snapshot: Snapshot, action: str) -> None:
    jobs = [
        evolve(each, preemptible=position % 2 == 0) for position, each in enumerate(snapshot.jobs)
    ]
    drawn, checked = evolve(snapshot, jobs=jobs), config(f"allocate, {action}")
    result = Scheduler(checked).schedule(drawn)
    check_decisions(drawn, result, checked)
    assert Scheduler(checked, plain=True).schedule(drawn) == result
    stays = {
        task.uid
        for each in drawn.jobs
        if each.preemptible is Preemptible.NEVER
        for task in each.tasks
    }
    assert not stays & {eviction.task_uid for eviction in result.evictions}


def test_check_config_says_what_preemption_by_priority_risks() -> None:
    checked = config("allocate, reclaim, preempt", preemption="priority")
    (finding,) = (f for f in check_config(checked) if f.code == "PreemptsWhatSharesCover")
    assert finding.place == "tiers[1].plugins[1].arguments"
    assert finding.instead == config("allocate, reclaim, preempt")


def test_the_kit_finds_that_a_job_was_evicted_that_is_not_preemptible() -> None:
    low = evolve(running("low", 1), preemptible=False)
    snapshot = cluster([node("n1", "1C1G")], low, job("high", "1C1G", priority=9))
    checked = config("allocate, preempt", preemption="priority")
    without = evolve(
        checked,
        tiers=[checked.tiers[0], evolve(checked.tiers[1], plugins=checked.tiers[1].plugins[:2])],
    )
    evicting = Scheduler(without).schedule(snapshot)
    assert evicting.evictions
    check_decisions(snapshot, evicting, without)
    with pytest.raises(AssertionError, match="not preemptible"):
        check_decisions(snapshot, evicting, checked)


def test_a_loan_that_has_just_started_does_not_expose_what_is_covered() -> None:
    queues = [
        Queue(name="a", deserved=CPUS[2], reclaim_min_runtime=60),
        Queue(name="b", deserved=CPUS[2]),
    ]

    def left(now: float, queues: list[Queue]) -> set[str | None]:
        jobs = [
            running("old", 2, queue="a", since=-1000),
            running("young", 2, queue="a"),
            job("claims", "1C1G", "1C1G", queue="b"),
        ]
        snapshot = evolve(cluster([node("n1", "4C4G")], *jobs), queues=queues, now=now)
        result = cycle(snapshot, config("allocate, reclaim"))
        return {eviction.task_uid[:-2] for eviction in result.evictions}

    assert left(10, [evolve(q, reclaim_min_runtime=None) for q in queues]) == {"young"}
    assert left(10, queues) == set()
    assert left(60, queues) == {"young"}


def test_what_is_protected_for_ever_still_comes_first_of_what_a_share_covers() -> None:
    queues = [Queue(name="a", deserved=CPUS[2]), Queue(name="b", deserved=CPUS[2])]
    jobs = [
        running("old", 2, queue="a"),
        evolve(running("never", 2, queue="a"), preemptible=False),
        job("claims", "1C1G", "1C1G", queue="b"),
    ]
    snapshot = evolve(cluster([node("n1", "4C4G")], *jobs), queues=queues)
    result = cycle(snapshot, config("allocate, reclaim"))
    assert {eviction.task_uid for eviction in result.evictions} == {"old-1", "old-2"}


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize("plugin", ["protection", "minRuntime"])
def test_it_is_known_until_when_a_search_is_refused_only_for_now(action: str, plugin: str) -> None:
    claimant = job("high", "2C2G", priority=9, queue="q" if action == "preempt" else "other")
    low = [running("older", 1, queue="q", since=3), running("newer", 1, queue="q", since=5)]
    least = 60 if plugin == "protection" else None
    queues = [
        Queue(name="q", preempt_min_runtime=least, reclaim_min_runtime=least),
        Queue(name="other", deserved=CPUS[2]),
    ]
    snapshot = evolve(cluster([node("n1", "2C2G")], *low, claimant), queues=queues, now=10)
    session = opened(snapshot, ["priority", "protection"])
    point: Point = "preemptable" if action == "preempt" else "reclaimable"
    (waiting,) = session.jobs["default/high"].tasks
    others = [task_of(session, f"{name}-1") for name in ("older", "newer")]
    if plugin == "minRuntime":
        assert RecentStarts(10, 60).refused_until(others) == 63
        assert RecentStarts(10, 5.5).refused_until(others) == 10.5
        assert RecentStarts(10, 5).refused_until(others) is None
    else:
        judges = session.plugins.judges[point]
        assert judges.refused_until(waiting, others) == 63
        assert judges.refused_until(waiting, others[1:]) == 65
        assert judges.refused_until(waiting, []) is None


@pytest.mark.parametrize(
    ("said", "problem"),
    [([], "expected one answer for each of 1 candidates, got 0"), (["soon"], "expected times")],
)
def test_wrong_answers_about_when_a_refusal_ends_are_errors(said: list[Any], problem: str) -> None:
    points = ExtensionPoints(
        preemptable=lambda _claimant, candidates: [Verdict.NOT_NOW for _ in candidates],
        refused_until=lambda _claimant, _candidates: said,
    )
    snapshot = cluster([node("n1", "1C1G")], running("low", 1), job("high", "1C1G", priority=9))
    session = opened(snapshot, [("wrong", points)])
    judges = session.plugins.judges["preemptable"]
    with pytest.raises(PluginError, match=problem):
        judges.refused_until(task_of(session, "high-1"), [task_of(session, "low-1")])


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_a_queue_that_does_not_say_what_it_deserves_limits_no_such_jobs(sharing: str) -> None:
    def binds(deserved: Any) -> int:
        snapshot = evolve(
            cluster([node("n1", "2C2G")], evolve(job("j", "1C1G"), preemptible=False)),
            queues=[Queue(name="q", deserved=deserved)],
        )
        tiers = [{"plugins": ["gang", "predicates", sharing, "protection"]}]
        policy = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers})
        return len(cycle(snapshot, policy).binds)

    assert binds(Resource()) == 1
    assert binds(ResourceLimit(milli_cpu=0)) == 0
    assert binds(CPUS[1]) == 1


def test_what_jobs_hold_is_counted_as_it_changes_within_a_cycle() -> None:
    jobs = [evolve(job(f"j{each}", "1C1G"), preemptible=False) for each in range(5)]
    snapshot = evolve(
        cluster([node("n1", "8C8G")], evolve(running("r", 1), preemptible=False), *jobs),
        queues=[Queue(name="q", deserved=CPUS[4])],
    )
    assert len(cycle(snapshot, config("allocate")).binds) == 3


@pytest.mark.parametrize(("priority", "evicted"), [(5, 3), (0, 0)])
def test_a_job_is_evicted_as_a_whole_by_more_important_ones_or_not_at_all(
    priority: int, evicted: int
) -> None:
    low = evolve(running("low", 3, min_available=1), evict_whole=True)
    high = job("high", "1C1G", priority=priority)
    snapshot = cluster([node("n1", "3C9G")], low, high)
    assert len(cycle(snapshot, config("preempt")).evictions) == evicted
    # Without it, one of its tasks that it does not need is enough, also for an equal job.
    partly = evolve(snapshot, jobs=[evolve(low, evict_whole=False), high])
    assert len(cycle(partly, config("preempt")).evictions) <= 1


def test_for_a_job_that_does_not_preempt_nobody_is_evicted() -> None:
    high = job("high", "1C1G", priority=9)
    snapshot = cluster([node("n1", "1C9G")], running("low", 1), high)
    assert len(cycle(snapshot, config("preempt")).evictions) == 1
    shy = evolve(snapshot, jobs=[running("low", 1), evolve(high, preempts=False)])
    assert cycle(shy, config("preempt")).evictions == ()
