"""Evictions an operator can sign: the scenarios of protection, from scratch, plain and living."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from batchsched import (
    Budget,
    ConfigError,
    CycleResult,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PastEviction,
    Preemptible,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    UnfitReason,
)
from batchsched.live import Cluster

WAYS = pytest.mark.parametrize("way", ["scratch", "plain", "living"])
WHOLE = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def configured(
    actions: Any = "allocate, preempt",
    gang: Any = WHOLE,
    queues: Iterable[Any] = (),
    **arguments: Any,
) -> SchedulerConfig:
    protection = {"name": "protection", "arguments": arguments}
    plugins = ["priority", gang, protection, "conformance", *queues, "predicates", "nodeorder"]
    return SchedulerConfig.from_mapping({"actions": actions, "tiers": [{"plugins": plugins}]})


def decide(way: str, config: SchedulerConfig, snapshot: Snapshot) -> CycleResult:
    if way == "living":
        cluster = Cluster(snapshot)
        live = Scheduler(config).attach(cluster)
        live.schedule(reasons=False)
        with cluster.trial():
            live.schedule()
        return live.schedule()
    return Scheduler(config, plain=way == "plain").schedule(snapshot)


def cpus(count: float) -> Resource:
    return Resource(milli_cpu=int(count * 1000))


def running(
    name: str,
    count: int = 1,
    *,
    node: str = "n1",
    start: float | None = 100,
    size: float = 1,
    of_task: dict[str, Any] | None = None,
    **more: Any,
) -> JobInfo:
    tasks = [
        TaskInfo(
            uid=f"{name}-{number}",
            name=f"{name}-{number}",
            resreq=cpus(size),
            status=TaskStatus.RUNNING,
            node_name=node,
            start_time=start,
            **(of_task or {}),
        )
        for number in range(count)
    ]
    return JobInfo(**{"name": name, "queue": "q", "min_available": count, "tasks": tasks, **more})


def waiting(name: str, count: int = 1, *, size: float = 1, **more: Any) -> JobInfo:
    tasks = [
        TaskInfo(uid=f"{name}-{number}", name=f"{name}-{number}", resreq=cpus(size))
        for number in range(count)
    ]
    return JobInfo(**{"name": name, "queue": "q", "min_available": count, "tasks": tasks, **more})


HIGH = waiting("hi", priority=9)


def cluster_of(*jobs: JobInfo, now: float = 200, cpu: float = 1, **more: Any) -> Snapshot:
    given = {"queues": [Queue(name="q")], **more}
    return Snapshot(nodes=[NodeInfo(name="n1", allocatable=cpus(cpu))], jobs=jobs, now=now, **given)


def gone(result: CycleResult) -> list[str]:
    return [eviction.task_uid for eviction in result.evictions]


def refusals(result: CycleResult, task: str = "hi-0") -> list[tuple[str, int, float | None]]:
    return [
        (refusal.rule, refusal.count, refusal.until)
        for report in result.pending[task].evictions
        for refusal in report.refusals
    ]


@WAYS
@pytest.mark.parametrize(
    ("preemptible", "least", "starts"), [(Preemptible.NEVER, 6, 0), (Preemptible.SURPLUS, 4, 6)]
)
def test_n1_what_cannot_be_taken_back_is_never_lent(
    way: str, preemptible: Preemptible, least: int, starts: int
) -> None:
    job = waiting("j", 6, min_available=least, preemptible=preemptible)
    queues = [Queue(name="q", deserved=cpus(4)), Queue(name="r")]
    config = configured("allocate", queues=["capacity"])
    result = decide(way, config, cluster_of(job, cpu=10, queues=queues))
    assert len(result.binds) == starts
    if not starts:
        refusal = result.pending["j-0"].refusal
        assert refusal is not None
        assert refusal.reason is UnfitReason.BEYOND_QUOTA
    free = configured("allocate", queues=["capacity"], withinDeserved=False)
    assert len(decide(way, free, cluster_of(job, cpu=10, queues=queues)).binds) == 6


def kept_queue(**more: Any) -> Queue:
    return Queue(**{"name": "q", "reclaimable": False, **more})


@WAYS
@pytest.mark.parametrize(
    ("queue", "starts"),
    [
        (kept_queue(deserved=cpus(4)), 4),
        (kept_queue(deserved=cpus(4), guarantee=cpus(6)), 6),
        (kept_queue(guarantee=cpus(3)), 3),
        (kept_queue(deserved=ResourceLimit(milli_cpu=2000)), 2),
        (kept_queue(deserved=ResourceLimit(memory=1)), 8),
        (kept_queue(deserved=None), 8),
        (kept_queue(), 8),
        (kept_queue(deserved=cpus(4), reclaimable=True), 8),
    ],
)
def test_a_queue_that_is_not_reclaimable_holds_what_it_deserves_or_is_guaranteed(
    way: str, queue: Queue, starts: int
) -> None:
    jobs = [waiting(f"j{number}") for number in range(8)]
    config = configured("allocate", queues=["capacity"])
    snapshot = cluster_of(*jobs, cpu=10, queues=[queue, Queue(name="r")])
    result = decide(way, config, snapshot)
    assert len(result.binds) == starts
    for reasons in result.pending.values():
        assert reasons.refusal is not None
        assert reasons.refusal.reason is UnfitReason.NEVER_LENT
        would = f"queue 'q' would hold {starts + 1} cpu, 1 more than its quota"
        assert reasons.text == f"{would}, and nothing is reclaimed from it"
    free = configured("allocate", queues=["capacity"], withinDeserved=False)
    assert len(decide(way, free, snapshot).binds) == 8


@WAYS
def test_what_is_below_a_queue_that_is_not_reclaimable_counts_together(way: str) -> None:
    # The elastic gang may grow as far as the gang beside it leaves room, promised or not.
    queues = [
        kept_queue(name="top", deserved=cpus(5)),
        Queue(name="a", parent="top", deserved=cpus(5)),
        Queue(name="q", parent="top", deserved=cpus(5)),
    ]
    promised = TaskInfo(
        uid="p",
        name="p",
        resreq=cpus(1),
        status=TaskStatus.PIPELINED,
        node_name="n1",
        creation_time=-1,
    )
    promise = JobInfo(name="p", queue="a", tasks=[promised])
    gang = waiting("gang", 2, queue="a", priority=9)
    elastic = waiting("elastic", 6, min_available=2)
    snapshot = cluster_of(promise, gang, elastic, cpu=10, queues=queues)
    snapshot = Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict())))
    result = decide(way, configured("allocate", queues=["capacity"]), snapshot)
    assert sorted(bind.task_uid for bind in result.binds) == [
        *("elastic-0", "elastic-1", "gang-0", "gang-1", "p")
    ]
    refusal = result.pending["elastic-2"].refusal
    assert refusal is not None
    assert (refusal.reason, refusal.queue) == (UnfitReason.NEVER_LENT, "top")
    told = json.loads(json.dumps(result.to_dict()))
    assert CycleResult.from_dict(told) == result


@WAYS
@pytest.mark.parametrize("deserved", [1, 2])
def test_in_a_queue_that_is_not_reclaimable_jobs_take_the_places_of_others(
    way: str, deserved: float
) -> None:
    # Even where it holds more than it should: what is swapped is not lent.
    low = running("lo", 2, min_available=1)
    queues = [kept_queue(deserved=cpus(deserved))]
    snapshot = cluster_of(low, HIGH, cpu=9, queues=queues)
    result = decide(way, configured(queues=["capacity"]), snapshot)
    assert gone(result) == ["lo-1"]
    assert result.pipelined[0].task_uid == "hi-0"


@WAYS
@pytest.mark.parametrize("asked", [2, 3])
@pytest.mark.parametrize("kept", [True, False])
def test_nothing_is_reclaimed_that_could_not_be_taken_back(
    way: str, asked: int, kept: bool
) -> None:
    # Its fair share is 5, so that it may claim 3.
    loans = [running(f"r{number}", queue="r") for number in range(10)]
    if kept:
        queue, job = kept_queue(deserved=cpus(2)), waiting("hi", asked)
    else:
        queue = Queue(name="q", deserved=cpus(2))
        job = waiting("hi", asked, preemptible=Preemptible.NEVER)
    snapshot = cluster_of(*loans, job, cpu=10, queues=[queue, Queue(name="r")])
    config = configured("allocate, reclaim", queues=["capacity"])
    result = decide(way, config, snapshot)
    assert len(gone(result)) == (2 if asked == 2 else 0)
    if asked == 3:
        refusal = result.pending["hi-0"].refusal
        assert refusal is not None
        reason = UnfitReason.NEVER_LENT if kept else UnfitReason.BEYOND_QUOTA
        assert refusal.reason is reason


@WAYS
@pytest.mark.parametrize(
    ("victim", "claimant", "seconds"),
    [("leaf3", "leaf1", 60), ("leaf2", "leaf1", 180), ("leaf1", "leaf3", 600)],
)
def test_n2_against_reclaiming_the_queues_where_they_part_say(
    way: str, victim: str, claimant: str, seconds: int
) -> None:
    # leaf1 takes from leaf3 after what D says, and leaf3 from leaf1 after what C says, or B.
    queues = [
        Queue(name="b", reclaim_min_runtime=600),
        Queue(name="c", parent="b"),
        Queue(name="d", parent="b", reclaim_min_runtime=60),
        Queue(name="leaf1", parent="c", reclaim_min_runtime=0, deserved=cpus(1)),
        Queue(name="leaf2", parent="c", reclaim_min_runtime=180, deserved=cpus(1)),
        Queue(name="leaf3", parent="d", deserved=cpus(1)),
    ]
    low, high = running("lo", queue=victim), waiting("hi", queue=claimant)
    entitled = {claimant, "b", "d" if claimant == "leaf3" else "c"}
    deserved = [
        Queue(**{**_fields(each), "deserved": cpus(1 if each.name in entitled else 0)})
        for each in queues
    ]
    config = configured("reclaim", queues=["capacity"])
    for now, expected in ((100 + seconds - 1, []), (100 + seconds, ["lo-0"])):
        result = decide(way, config, cluster_of(low, high, queues=deserved, now=now))
        assert gone(result) == expected, now


def _fields(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "parent": queue.parent,
        "reclaim_min_runtime": queue.reclaim_min_runtime,
    }


@WAYS
def test_n3_a_core_stays_for_its_minimum_runtime(way: str) -> None:
    config = configured(preemptMinRuntime=60)
    result = decide(way, config, cluster_of(running("lo"), HIGH, now=159))
    assert gone(result) == []
    assert refusals(result) == [("minimum-runtime", 1, 160)]
    assert gone(decide(way, config, cluster_of(running("lo"), HIGH, now=160))) == ["lo-0"]


def past(time: float, of: str = "other", to: str = "another") -> PastEviction:
    return PastEviction(
        time=time,
        job=f"default/{of}",
        queue="q",
        for_job=f"default/{to}",
        for_queue="q",
        action="preempt",
    )


def limit(scope: str, most: int, window: float = 300, **more: Any) -> dict[str, Any]:
    return {"name": "few", "scope": scope, "most": most, "window": window, **more}


@WAYS
def test_n4_a_limit_of_the_cluster_refuses_claims_until_the_oldest_is_old(way: str) -> None:
    config = configured(limits=[limit("cluster", 2)])
    ledger = [past(10), past(20)]
    result = decide(way, config, cluster_of(running("lo"), HIGH, now=159, evictions=ledger))
    assert gone(result) == []
    assert refusals(result) == [("limit few", 0, 310)]
    later = cluster_of(running("lo"), HIGH, now=310, evictions=ledger)
    assert gone(decide(way, config, later)) == ["lo-0"]


@WAYS
@pytest.mark.parametrize(("scope", "most", "until"), [("job", 1, 310), ("queue", 0, None)])
def test_n5_limits_of_a_job_and_of_a_queue(
    way: str, scope: str, most: int, until: float | None
) -> None:
    config = configured(limits=[limit(scope, most)])
    snapshot = cluster_of(running("lo"), HIGH, evictions=[past(10, of="lo")])
    result = decide(way, config, snapshot)
    assert gone(result) == []
    assert refusals(result) == [("limit few", 1, until)]


WEB = LabelSelector(match_labels={"app": "web"})


@WAYS
@pytest.mark.parametrize(
    ("with_w", "hard", "expected"),
    [(True, True, ["w-0"]), (False, True, []), (False, False, ["v1-0"])],
)
def test_n6_a_budget_keeps_some_of_its_tasks_there(
    way: str, with_w: bool, hard: bool, expected: list[str]
) -> None:
    web = {"of_task": {"labels": {"app": "web"}}}
    jobs = [
        running("v0", creation_time=2, **web),
        running("v1", creation_time=3, **web),
        *([running("w", creation_time=1)] if with_w else []),
    ]
    budget = Budget(name="web", selector=WEB, min_available=2, hard=hard)
    snapshot = cluster_of(*jobs, HIGH, cpu=len(jobs), budgets=[budget])
    result = decide(way, configured(), snapshot)
    assert gone(result) == expected
    if not expected:
        assert refusals(result) == [("budget web", 2, None)]


@WAYS
def test_n7_a_gang_is_one_event_however_many_tasks_go(way: str) -> None:
    config = configured(limits=[limit("cluster", 1, 60)])
    gang, high = running("lo", 4), waiting("hi", 4, priority=9)
    result = decide(way, config, cluster_of(gang, high, cpu=4))
    assert sorted(gone(result)) == ["lo-0", "lo-1", "lo-2", "lo-3"]
    pairs = [running(f"lo{n}") for n in range(2)]
    apart = decide(way, config, cluster_of(*pairs, waiting("hi", 2, priority=9), cpu=2))
    assert gone(apart) == []


@WAYS
def test_n8_a_job_waits_before_it_claims(way: str) -> None:
    high = waiting("hi", priority=9, claim_delay=60, last_evicted=120)
    result = decide(way, configured(), cluster_of(running("lo"), high, now=159))
    assert gone(result) == []
    assert refusals(result) == [("claim-delay", 0, 180)]
    assert gone(decide(way, configured(), cluster_of(running("lo"), high, now=180))) == ["lo-0"]
    never = waiting("hi", priority=9, preempts=False)
    result = decide(way, configured(), cluster_of(running("lo"), never))
    assert gone(result) == []
    assert refusals(result) == [("never-preempts", 0, None)]


@WAYS
@pytest.mark.parametrize(
    ("cost", "priority", "expected"),
    [("none", 0, "second-0"), ("lost-work", 0, "first-0"), ("lost-work", -1, "second-0")],
)
def test_n9_of_equals_the_one_goes_of_which_least_is_lost(
    way: str, cost: str, priority: int, expected: str
) -> None:
    first = running("first", start=0, of_task={"checkpoint_time": 990})
    second = running(
        "second",
        start=900,
        priority=priority,
        creation_time=5,
        of_task={"creation_time": 5},
    )
    snapshot = cluster_of(first, second, HIGH, cpu=2, now=1000)
    assert gone(decide(way, configured(cost=cost), snapshot)) == [expected]


@WAYS
@pytest.mark.parametrize(("asks", "goes"), [(3, 3), (4, 0)])
def test_n10_surplus_may_go_at_any_age_where_a_core_may_not(way: str, asks: int, goes: int) -> None:
    low = running("lo", 5, min_available=2, preemptible=Preemptible.SURPLUS)
    config = configured(preemptMinRuntime=10**9)
    high = waiting("hi", asks, priority=9)
    assert len(gone(decide(way, config, cluster_of(low, high, cpu=5)))) == goes


@WAYS
def test_n11_a_gang_that_is_evicted_whole_goes_whole_although_minima_are_protected(
    way: str,
) -> None:
    gang = running("lo", 4, min_available=2, evict_whole=True)
    result = decide(way, configured(gang="gang"), cluster_of(gang, HIGH, cpu=4))
    assert sorted(gone(result)) == ["lo-0", "lo-1", "lo-2", "lo-3"]
    equal = waiting("hi")
    assert gone(decide(way, configured(gang="gang"), cluster_of(gang, equal, cpu=4))) == []


@WAYS
def test_n12_what_an_eviction_costs_counts_by_what_it_frees(way: str) -> None:
    jobs = [
        running("x", start=990),
        running("y", start=990),
        running("z", start=992, size=2),
    ]
    snapshot = cluster_of(*jobs, waiting("hi", size=2, priority=9), cpu=4, now=1000)
    assert gone(decide(way, configured(cost="lost-work"), snapshot)) == ["z-0"]


RECLAIM = {"actions": "reclaim", "queues": ["capacity"]}


def lent(*jobs: JobInfo, asks: int, cpu: float, **more: Any) -> Snapshot:
    """Return a cluster of which queue q, which deserves nothing, holds all, and r deserves it."""
    queues = [Queue(name="q"), Queue(name="r", deserved=cpus(cpu))]
    claimant = waiting("hi", asks, queue="r")
    return cluster_of(*jobs, claimant, cpu=cpu, queues=queues, **more)


@WAYS
@pytest.mark.parametrize(
    ("hard", "least", "asks", "expected"),
    [(True, 1, 2, 0), (True, 1, 1, 1), (False, 1, 2, 2), (True, 0, 2, 2)],
)
def test_a_budget_counts_all_that_reclaiming_takes_together(
    way: str, hard: bool, least: int, asks: int, expected: int
) -> None:
    web = {"of_task": {"labels": {"app": "web"}}}
    budget = Budget(name="web", selector=WEB, min_available=least, hard=hard)
    snapshot = lent(running("v", 2, min_available=1, **web), asks=asks, cpu=2, budgets=[budget])
    result = decide(way, configured(**RECLAIM), snapshot)
    assert len(gone(result)) == expected


@WAYS
def test_what_no_budget_minds_is_taken_first_although_it_is_worth_more(way: str) -> None:
    web = {"of_task": {"labels": {"app": "web"}}}
    jobs = [running("old", creation_time=1), running("young", creation_time=5, **web)]
    budget = Budget(name="web", selector=WEB, max_unavailable=0, hard=False)
    result = decide(way, configured(**RECLAIM), lent(*jobs, asks=1, cpu=2, budgets=[budget]))
    assert gone(result) == ["old-0"]
    both = decide(way, configured(**RECLAIM), lent(*jobs, asks=2, cpu=2, budgets=[budget]))
    assert sorted(gone(both)) == ["old-0", "young-0"]


@WAYS
def test_a_budget_counts_over_all_claims_of_a_cycle(way: str) -> None:
    web = {"of_task": {"labels": {"app": "web"}}}
    jobs = [running(f"v{number}", **web) for number in range(3)]
    budget = Budget(name="web", selector=WEB, max_unavailable=2)
    claimants = [waiting(f"hi{number}", priority=9) for number in range(3)]
    snapshot = cluster_of(*jobs, *claimants, cpu=3, budgets=[budget])
    assert len(gone(decide(way, configured(), snapshot))) == 2
    pending = JobInfo(
        name="d",
        queue="q",
        tasks=[TaskInfo(uid="d-0", name="d-0", resreq=cpus(1), labels={"app": "web"})],
    )
    less = cluster_of(*jobs, pending, *claimants, cpu=3, budgets=[budget])
    assert len(gone(decide(way, configured(), less))) == 1


@WAYS
@pytest.mark.parametrize("atomic", [True, False])
def test_a_limit_counts_the_jobs_that_one_claim_takes(way: str, atomic: bool) -> None:
    config = configured(**RECLAIM, limits=[limit("cluster", 1)])
    jobs = [running("a", 2)] if atomic else [running("a"), running("b")]
    assert len(gone(decide(way, config, lent(*jobs, asks=2, cpu=2)))) == (2 if atomic else 0)
    of_queue = configured(**RECLAIM, limits=[limit("claimant-queue", 1, queue="elsewhere")])
    assert len(gone(decide(way, of_queue, lent(*jobs, asks=2, cpu=2)))) == 2


def test_arguments_say_what_is_wrong_all_at_once() -> None:
    wrong = [
        {"name": "a", "scope": "city", "most": -1, "window": 0},
        {"scope": "cluster", "most": 1, "window": 5, "queue": "q"},
        {"name": "a", "scope": "job", "window": 5, "many": 1},
    ]
    with pytest.raises(ConfigError) as caught:
        Scheduler(configured(limits=wrong, cost="money", claimDelay=-1))
    told = str(caught.value)
    for part in (
        "['cost']: expected one of none, lost-work, got 'money'",
        "['claimDelay']: expected 0 or more, got -1",
        "['limits'][0]['scope']: expected one of cluster, claimant-queue, queue, job, got 'city'",
        "['limits'][0]['most']: expected 0 or more, got -1",
        "['limits'][0]['window']: expected more than 0 seconds, got 0",
        "['limits'][1]['name']: expected a name, as reasons tell it",
        "['limits'][1]['queue']: goes with the scopes",
        "['limits'][2]['most']: is missing",
        "['limits'][2]['name']: expected each name once, got 'a' again",
        "['limits'][2]['many']: unknown argument",
    ):
        assert part in told, part


@WAYS
def test_a_limit_may_not_count_for_longer_than_evictions_are_kept(way: str) -> None:
    """Else it would forget some of what it counts, and say nothing."""
    config = configured(limits=[limit("job", 1, 300), limit("queue", 1, 500) | {"name": "more"}])
    low = running("lo")
    assert gone(decide(way, config, cluster_of(low, HIGH, now=159, evictions_kept=500)))
    with pytest.raises(SnapshotError) as caught:
        decide(way, config, cluster_of(low, HIGH, now=159, evictions_kept=299))
    assert [fault.path for fault in caught.value.faults] == ["evictions_kept"] * 2
    assert "at least 500 seconds, the window of limit 'more'" in str(caught.value)


@WAYS
@pytest.mark.parametrize(("cost", "expected"), [("none", "second-0"), ("lost-work", "first-0")])
def test_reclaiming_takes_from_a_queue_of_which_least_is_lost(
    way: str, cost: str, expected: str
) -> None:
    first = running("first", start=0, of_task={"checkpoint_time": 990})
    second = running("second", start=900, creation_time=5, of_task={"creation_time": 5})
    # Both are on loan, as two are asked for, but only one may go.
    snapshot = lent(first, second, waiting("too", queue="r"), asks=1, cpu=2, now=1000)
    one = {**RECLAIM, "actions": [{"name": "reclaim", "arguments": {"maxEvictions": 1}}]}
    assert gone(decide(way, configured(**one, cost=cost), snapshot)) == [expected]


@WAYS
def test_a_cost_that_is_given_counts_whatever_was_done(way: str) -> None:
    dear = running("dear", of_task={"eviction_cost": 10, "creation_time": 5}, creation_time=5)
    snapshot = cluster_of(running("cheap"), dear, HIGH, cpu=2)
    assert gone(decide(way, configured(), snapshot)) == ["cheap-0"]
