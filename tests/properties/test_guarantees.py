"""Laws of protection: over drawn clusters, and in small ones of which all that matters is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.test_protection_scenarios import (
    cluster_of,
    configured,
    gone,
    limit,
    past,
    running,
    waiting,
)

from batchsched import (
    Budget,
    CycleResult,
    JobInfo,
    LabelSelector,
    Preemptible,
    Queue,
    Refusal,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
)
from batchsched.testing import check_cycle, configs, snapshots

PLAIN = {"constraints": False, "affinity": False, "scalars": False, "init_requests": False}
EVICTING = configs(protection=True, actions=["allocate", "preempt", "reclaim"], flags=False)
FULL = snapshots(
    protection=True,
    always=["protection", "running", "priorities", "queues"],
    max_nodes=2,
    min_jobs=3,
    best_effort=False,
    overcommitted=False,
    dependencies=False,
    **PLAIN,
)


@pytest.mark.slow
@settings(max_examples=150)
@given(FULL, EVICTING)
def test_nothing_goes_that_a_rule_protects_in_any_way_of_deciding(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    result = Scheduler(config).schedule(snapshot)
    check_cycle(snapshot, result, config)
    assert Scheduler(config, plain=True).schedule(snapshot) == result


@pytest.mark.slow
@settings(max_examples=100)
@given(snapshots(protection=True, topologies=True), configs(protection=True))
def test_they_hold_in_trees_and_racks_and_with_all_actions(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    check_cycle(snapshot, Scheduler(config).schedule(snapshot), config)


@settings(max_examples=60)
@given(
    snapshots(always=["running"], protection=False, **PLAIN),
    configs(protection=True, arguments=False),
)
def test_where_nothing_is_configured_all_is_decided_as_without_the_plugin(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    without = Scheduler(config.without_plugins("protection")).schedule(snapshot)
    assert decided(Scheduler(config).schedule(snapshot)) == decided(without)


def decided(result: CycleResult) -> object:
    return result.binds, result.evictions, result.pipelined, result.taken_back, result.reserved


@settings(max_examples=60)
@given(FULL, EVICTING, st.sampled_from(["never", "surplus", "budget"]))
def test_a_further_protection_never_adds_an_eviction_of_what_it_protects(
    snapshot: Snapshot, config: SchedulerConfig, how: str
) -> None:
    result = Scheduler(config).schedule(snapshot)
    lost = {eviction.task_uid for eviction in result.evictions}
    job = next((j for j in snapshot.jobs if lost & {t.uid for t in j.tasks}), snapshot.jobs[0])
    if how == "budget":
        marked = labelled(job)
        label = LabelSelector(match_labels={"kept": "yes"})
        kept = Budget(name="k", selector=label, namespace=job.namespace, max_unavailable=0)
        more = evolve(with_job(snapshot, marked), budgets=[*snapshot.budgets, kept])
    else:
        preemptible = Preemptible.NEVER if how == "never" else Preemptible.SURPLUS
        if job.preemptible is not Preemptible.ALWAYS:
            return
        more = with_job(snapshot, evolve(job, preemptible=preemptible))
    after = Scheduler(config).schedule(more)
    check_cycle(more, after, config)
    if how != "surplus" and not any(plugin_is_off(config, a.name) for a in config.actions):
        running = {t.uid for t in job.tasks if t.status is TaskStatus.RUNNING}
        assert not running & {eviction.task_uid for eviction in after.evictions}


def plugin_is_off(config: SchedulerConfig, action: str) -> bool:
    """Whether an action evicts without asking the plugin: it takes back what is lent."""
    return action == "allocate" and any(
        option.arguments.get("evictBackfill") for option in config.actions
    )


def labelled(job: JobInfo) -> JobInfo:
    tasks = [evolve(task, labels={**task.labels, "kept": "yes"}) for task in job.tasks]
    return evolve(job, tasks=tasks)


def with_job(snapshot: Snapshot, job: JobInfo) -> Snapshot:
    return evolve(snapshot, jobs=[job if j.uid == job.uid else j for j in snapshot.jobs])


# Small clusters: some jobs of one task run, one waits

SIZES = st.integers(1, 3)
AGES = st.integers(0, 150)


@st.composite
def worlds(draw: st.DrawFn, **more: Any) -> Snapshot:
    """Draw a full node, with jobs that run and one that waits."""
    drawn = draw(st.lists(st.tuples(SIZES, AGES, st.sampled_from("wx")), min_size=1, max_size=4))
    jobs = [
        running(f"v{n}", size=size, start=200 - age, of_task={"labels": {"app": app}})
        for n, (size, age, app) in enumerate(drawn)
    ]
    full = sum(size for size, _, _ in drawn)
    high = waiting("hi", size=draw(st.integers(1, min(3, full))), priority=9)
    return cluster_of(*jobs, high, cpu=full, **more)


@st.composite
def with_budgets(draw: st.DrawFn) -> Snapshot:
    """Draw a world where the tasks of each app have a budget."""
    world = draw(worlds())
    kept = [
        Budget(
            name=app,
            selector=LabelSelector(match_labels={"app": app}),
            max_unavailable=draw(st.integers(0, 2)),
            hard=False,
        )
        for app in "wx"
    ]
    return evolve(world, budgets=kept)


def broken(snapshot: Snapshot, result: CycleResult) -> list[str]:
    lost = set(gone(result))
    tasks = [task for job in snapshot.jobs for task in job.tasks if task.uid in lost]
    return [
        budget.name
        for budget in snapshot.budgets
        if sum(map(budget.counts, tasks)) > (budget.max_unavailable or 0)
    ]


@settings(max_examples=60)
@given(with_budgets(), st.sampled_from(["whole-job", "protect"]))
def test_a_budget_that_is_not_hard_is_broken_only_by_a_claim_that_nothing_else_serves(
    snapshot: Snapshot, at_minimum: str
) -> None:
    config = configured(gang={"name": "gang", "arguments": {"atMinimum": at_minimum}})
    result = Scheduler(config).schedule(snapshot)
    hard = evolve(snapshot, budgets=[evolve(each, hard=True) for each in snapshot.budgets])
    strict = Scheduler(config).schedule(hard)
    check_cycle(hard, strict, config)
    assert not broken(hard, strict)
    if broken(snapshot, result):
        assert not strict.evictions
        assert result.pipelined
    elif strict.evictions:  # what is taken first may use a budget up, and be spared in the end
        assert gone(strict) == gone(result)


@st.composite
def for_a_time(draw: st.DrawFn) -> tuple[Snapshot, SchedulerConfig]:
    """Draw a world in which runtimes, delays and limits refuse, for a time."""
    world = draw(worlds())
    seconds = draw(st.tuples(*[st.integers(0, 120)] * 3))
    ledger = [
        evolve(past(time, of="v0"), queue="q", for_queue="q")
        for time in draw(st.lists(st.integers(50, 200), max_size=4))
    ]
    scopes: Sequence[str] = ("cluster", "claimant-queue", "queue", "job")
    limits = [
        limit(scope, draw(st.integers(0, 2)), draw(st.integers(1, 120))) | {"name": scope}
        for scope in draw(st.sets(st.sampled_from(scopes)).map(sorted))
    ]
    queue = Queue(name="q", preempt_min_runtime=seconds[0] or None)
    jobs = [
        evolve(j, claim_delay=seconds[1], last_evicted=150) if j.name == "hi" else j
        for j in world.jobs
    ]
    more = {"limits": limits} if limits else {}
    config = configured(preemptMinRuntime=seconds[2], **more)
    return evolve(world, queues=[queue], jobs=jobs, evictions=ledger), config


@settings(max_examples=60)
@given(for_a_time())
def test_until_is_exact(world: tuple[Snapshot, SchedulerConfig]) -> None:
    snapshot, config = world
    result = Scheduler(config).schedule(snapshot)
    check_cycle(snapshot, result, config)
    told = refusals(result)
    ends = [refusal.until for refusal in told if refusal.until is not None]
    assert all(end > snapshot.now for end in ends)
    if ends:
        assert result.wake_at is not None
        assert result.wake_at <= min(ends)
    for refusal in told:
        if refusal.until is None:
            continue
        before = refusals(Scheduler(config).schedule(evolve(snapshot, now=refusal.until - 0.001)))
        assert refusal.rule in {each.rule for each in before}
        at_it = refusals(Scheduler(config).schedule(evolve(snapshot, now=refusal.until)))
        for each in at_it:  # an older entry of the same limit may refuse on, and a younger job
            if each.rule == refusal.rule:
                assert each.until is None or each.until > refusal.until
                assert each.count <= refusal.count


def refusals(result: CycleResult) -> list[Refusal]:
    return [
        refusal
        for reason in result.pending.values()
        for report in reason.evictions
        for refusal in report.refusals
    ]
