"""What protection guarantees: each law catches what is evicted under a configuration without it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.plugins.test_protection_scenarios import (
    HIGH,
    cluster_of,
    configured,
    cpus,
    gone,
    limit,
    past,
    running,
    waiting,
)

from batchsched import Budget, LabelSelector, Preemptible, Queue, Scheduler, Snapshot
from batchsched.testing import InvariantViolation, check_cycle

WEB = {"app": "web"}
WEB_BUDGET = Budget(name="web", selector=LabelSelector(match_labels=WEB), max_unavailable=0)
LOW = running("lo", start=190)


def expect(law: str, said: str, snapshot: Snapshot, **arguments: Any) -> None:
    """Expect that what is decided without the plugin breaks a law of the plugin, and only that."""
    protecting = configured("allocate, preempt, reclaim", queues=["capacity"], **arguments)
    without = protecting.without_plugins("protection")
    result = Scheduler(without).schedule(snapshot)
    check_cycle(snapshot, result, without)
    with pytest.raises(InvariantViolation) as caught:
        check_cycle(snapshot, result, protecting)
    assert caught.value.invariant == law
    assert said in caught.value.problem
    check_cycle(snapshot, Scheduler(protecting).schedule(snapshot), protecting)


def test_a_job_claims_that_evicts_nobody() -> None:
    high = evolve(HIGH, preempts=False)
    expect("claimants", "job 'default/hi', which evicts nobody", cluster_of(LOW, high))


def test_a_job_claims_too_early() -> None:
    high = evolve(HIGH, last_evicted=190)
    expect("claimants", "claims only from 220 on; it is 200", cluster_of(LOW, high), claimDelay=30)


def test_a_core_goes_of_which_only_the_surplus_may() -> None:
    low = evolve(LOW, preemptible=Preemptible.SURPLUS)
    said = "lo-0 evicted, so that job 'default/lo' lost what it needs to run, of which only"
    expect("cores", said, cluster_of(low, HIGH))


@pytest.mark.parametrize("says", ["queue", "argument"])
def test_a_core_goes_before_its_time(says: str) -> None:
    arguments = {"preemptMinRuntime": 20} if says == "argument" else {"claimDelay": 0}
    queue = Queue(name="q", preempt_min_runtime=20 if says == "queue" else None)
    said = "all of it has run for at most 10 s, and it stays for 20 against preempt"
    expect("cores", said, cluster_of(LOW, HIGH, queues=[queue]), **arguments)


def test_a_queue_says_for_how_long_what_is_on_loan_stays() -> None:
    queues = [
        Queue(name="q", deserved=cpus(1)),
        Queue(name="other", reclaim_min_runtime=60),
    ]
    low = evolve(LOW, queue="other")
    said = "it stays for 60 against reclaim for 'default/hi'"
    expect("cores", said, cluster_of(low, HIGH, queues=queues))


def test_a_hard_budget_is_broken() -> None:
    low = running("lo", of_task={"labels": WEB})
    said = "lo-0 evicted, but budget 'default/web' allows 0 to leave"
    expect("budgets", said, cluster_of(low, HIGH, budgets=[WEB_BUDGET]))


@pytest.mark.parametrize("scope", ["cluster", "claimant-queue", "queue", "job"])
def test_a_limit_is_exceeded(scope: str) -> None:
    ledger = [past(150, of="lo"), past(199)]
    ledger = [evolve(each, queue="q", for_queue="q") for each in ledger]
    said = "1 pairs of jobs more count for limit 'l'"
    limits = [limit(scope, 1, 100) | {"name": "l"}]
    expect("limits", said, cluster_of(LOW, HIGH, evictions=ledger), limits=limits)


def test_what_is_never_evicted_is_lent() -> None:
    never = waiting("never", 2, preemptible=Preemptible.NEVER)
    queues = [Queue(name="q", deserved=cpus(1))]
    said = "jobs of queue 'q' that are never evicted hold 2000 of cpu; it deserves 1000"
    expect("lending", said, cluster_of(never, cpu=2, queues=queues), claimDelay=0)


def test_a_job_goes_whole_where_gang_protects_minima() -> None:
    """It may: gang says that it goes with its job, whatever it says of others."""
    whole = running("lo", 4, min_available=2, evict_whole=True)
    snapshot = cluster_of(whole, HIGH, cpu=4)
    config = configured(gang="gang")
    result = Scheduler(config).schedule(snapshot)
    assert len(gone(result)) == 4
    check_cycle(snapshot, result, config)
    other = cluster_of(evolve(whole, evict_whole=False), HIGH, cpu=4)
    with pytest.raises(InvariantViolation, match="which gang protects"):
        check_cycle(other, result, config)
