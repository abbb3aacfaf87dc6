"""The ledger of evictions, budgets and what else protection reads, from cycle to cycle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from batchsched import (
    Budget,
    EventError,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PastEviction,
    Preemptible,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    next_snapshot,
)
from batchsched.live import BudgetsChanged, Cluster, EvictionRefused, JobChanged, TimePassed

CPU = Resource(milli_cpu=1000)
WEB = LabelSelector(match_labels={"app": "web"})
WHOLE = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
PREEMPT = SchedulerConfig.from_mapping(
    {
        "actions": ["allocate", "preempt"],
        "tiers": [{"plugins": ["priority", WHOLE, "predicates", "nodeorder"]}],
    }
)


def job(name: str, count: int, *, runs: bool = False, least: int = 1, **more: Any) -> JobInfo:
    tasks = [
        TaskInfo(
            uid=f"{name}-{number}",
            name=f"{name}-{number}",
            resreq=CPU,
            status=TaskStatus.RUNNING if runs else TaskStatus.PENDING,
            node_name="n1" if runs else None,
            start_time=0 if runs else None,
        )
        for number in range(count)
    ]
    return JobInfo(**{"name": name, "queue": "q", "min_available": least, "tasks": tasks, **more})


def cluster_of(*jobs: JobInfo, **more: Any) -> Snapshot:
    node = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000))
    return Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=jobs, **{"now": 100, **more})


def entry(time: float, of: str = "low", to: str = "high") -> PastEviction:
    return PastEviction(
        time=time,
        job=f"default/{of}",
        queue="q",
        for_job=f"default/{to}",
        for_queue="q",
        action="preempt",
    )


def after(snapshot: Snapshot, *, now: float, live: bool, warm: bool = False) -> Snapshot:
    """Return the snapshot after a cycle, by `next_snapshot` or on a living cluster."""
    if not live:
        result = Scheduler(PREEMPT, warm=warm).schedule(snapshot)
        return next_snapshot(snapshot, result, now=now)
    cluster = Cluster(snapshot)
    cluster.carry_out(Scheduler(PREEMPT).attach(cluster).schedule(), at_once=True)
    cluster.apply(TimePassed(now))
    return cluster.snapshot()


LOW, HIGH = job("low", 4, runs=True), job("high", 2, least=2, priority=9)
LIVE = pytest.mark.parametrize("live", [False, True])


@LIVE
def test_one_entry_is_written_for_a_job_that_loses_tasks_to_another(live: bool) -> None:
    now = after(cluster_of(LOW, HIGH), now=130, live=live)
    assert now.evictions == (entry(100),)
    assert now.job("default/low").last_evicted is None  # it has 2, and needs 1


@LIVE
@pytest.mark.parametrize("least", [1, 4])
def test_a_job_remembers_when_it_lost_what_it_needs(live: bool, least: int) -> None:
    low = evolve(LOW, min_available=least, tasks=LOW.tasks)
    high = evolve(HIGH, min_available=4, tasks=job("high", 4).tasks)
    now = after(cluster_of(low, high), now=130, live=live)
    assert now.job("default/low").last_evicted == 100
    assert now.job("default/high").last_evicted is None


@LIVE
@pytest.mark.parametrize(("kept", "left"), [(86400, 3), (100, 2), (30, 0), (0, 0)])
def test_entries_are_kept_for_a_time(live: bool, kept: float, left: int) -> None:
    past = [entry(50), entry(20, "other")]
    snapshot = cluster_of(LOW, HIGH, evictions=past, evictions_kept=kept)
    now = after(snapshot, now=130, live=live)
    assert now.evictions == (entry(20, "other"), entry(50), entry(100))[3 - left :]
    assert now.evictions_kept == kept


@LIVE
def test_nothing_is_written_where_nothing_is_evicted(live: bool) -> None:
    past = [entry(50)]
    now = after(cluster_of(LOW, evictions=past), now=130, live=live)
    assert now.evictions == (entry(50),)


def test_incremental_snapshots_have_the_same_ledger() -> None:
    scheduler = Scheduler(PREEMPT, warm=True)
    whole = followed = cluster_of(LOW, HIGH, evictions_kept=25)
    for time in (110, 120, 130, 140):
        result = scheduler.schedule(followed)
        followed = next_snapshot(followed, result, now=time)
        whole = next_snapshot(whole, Scheduler(PREEMPT).schedule(whole), now=time)
        assert followed == whole
        assert bool(whole.evictions) is (time < 125)
        assert Snapshot.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


def test_a_refused_eviction_stays_in_the_ledger() -> None:
    cluster = Cluster(cluster_of(LOW, HIGH))
    cluster.carry_out(Scheduler(PREEMPT).attach(cluster).schedule())
    left = [
        t.uid for t in cluster.snapshot().job("default/low").tasks if t.status.value != "Running"
    ]
    assert len(left) == 2
    cluster.apply(*map(EvictionRefused, left))
    assert cluster.snapshot().evictions == (entry(100),)


def test_budgets_are_a_part_of_a_living_cluster() -> None:
    budget = Budget(name="web", selector=WEB, min_available=2)
    other = Budget(name="all", selector=LabelSelector(), max_unavailable=0, hard=False)
    cluster = Cluster(nodes=[NodeInfo(name="n1")], budgets=[budget], evictions_kept=5)
    assert cluster.snapshot().budgets == (budget,)
    with cluster.trial():
        cluster.apply(BudgetsChanged([budget, other]))
        assert cluster.snapshot().budgets == (other, budget)
    assert cluster.snapshot() == Snapshot(
        nodes=[NodeInfo(name="n1")], budgets=[budget], evictions_kept=5
    )
    with pytest.raises(EventError, match="either min_available or max_unavailable, got both"):
        cluster.apply(BudgetsChanged([evolve(budget, max_unavailable=1)]))
    with pytest.raises(SnapshotError, match="expected a snapshot or its parts, got both"):
        Cluster(cluster.snapshot(), budgets=[other])


def test_a_job_changes_in_who_may_be_evicted_for_what() -> None:
    cluster = Cluster(cluster_of(LOW))
    cluster.apply(
        JobChanged("default/low", preemptible=Preemptible.SURPLUS, preempts=False, claim_delay=60)
    )
    now = cluster.snapshot().job("default/low")
    assert (now.preemptible, now.preempts, now.claim_delay) == (Preemptible.SURPLUS, False, 60)


def test_preemptible_has_no_truth_value() -> None:
    for given, kept in ((True, Preemptible.ALWAYS), (False, Preemptible.NEVER)):
        made = job("j", 1, preemptible=given)
        assert made.preemptible is kept
        with pytest.raises(TypeError, match="no truth value; compare it with one of Preemptible"):
            bool(made.preemptible)
        content = cluster_of(made, now=0).to_dict()
        content["jobs"][0]["preemptible"] = given  # type: ignore[index, call-overload]
        assert Snapshot.from_dict(content) == cluster_of(made, now=0)


def test_all_faults_are_told_at_once() -> None:
    selector = LabelSelector()
    with pytest.raises(SnapshotError) as caught:
        cluster_of(
            job("a", 1, preemptible="maybe", claim_delay=-1, preempts=1),
            budgets=[
                Budget(name="b", selector=selector),
                Budget(name="b", selector=selector, min_available=-1),
            ],
            evictions=[evolve(entry(1), action="")],
            evictions_kept=-5,
        )
    assert [fault.path for fault in caught.value.faults] == [
        "jobs['default/a'].preemptible",
        "jobs['default/a'].preempts",
        "jobs['default/a'].claim_delay",
        "evictions_kept",
        "budgets['default/b']",
        "budgets['default/b'].min_available",
        "budgets['default/b']",
        "evictions[0].action",
    ]


def test_what_is_past_is_not_in_the_future() -> None:
    late = evolve(LOW, tasks=[evolve(LOW.tasks[0], checkpoint_time=101)], last_evicted=102)
    with pytest.raises(SnapshotError) as caught:
        cluster_of(late, evictions=[entry(103)])
    assert [(fault.path, fault.message) for fault in caught.value.faults] == [
        ("jobs['default/low'].last_evicted", "expected at most now, 100, got 102"),
        ("tasks['low-0'].checkpoint_time", "expected at most now, 100, got 101"),
        ("evictions[0].time", "expected at most now, 100, got 103"),
    ]
