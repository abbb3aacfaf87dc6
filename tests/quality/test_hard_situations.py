"""The strategies do reach the hard situations, each within a bounded number of examples.

What is drawn at random and never comes to an eviction, a tie or a discarded statement proves
nothing by passing. Each test here looks for one situation that most mistakes hide in, and says
how many examples that may take. Most need a few dozen; the bounds leave room for bad luck. Those
that need no particular cluster are looked for in the same examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched import (
    CycleResult,
    JobPhase,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Statement,
    TaskStatus,
    UnfitReason,
    WhyPending,
)
from batchsched.actions.eviction import choosing
from batchsched.plugins import proportion
from batchsched.testing import Cycle, configs, snapshots, with_devices

pytestmark = [
    pytest.mark.slow,
    pytest.mark.night,
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),  # nothing is shrunk
]

PLAIN = {"constraints": False, "affinity": False, "scalars": False, "init_requests": False}
EMPTY = {**PLAIN, "reservations": False, "groups": False}
CROWDED = snapshots(max_nodes=2, min_jobs=3, **EMPTY)
SHARED = snapshots(
    max_nodes=2, min_jobs=4, max_tasks=3, trees=False, always=["queues", "running"], **EMPTY
)
FREE_TO_DRAW = 450
"""How many clusters, under as many configurations, are drawn without any wish."""

Situation = Callable[[Snapshot, SchedulerConfig, CycleResult], object]
GENERATE = settings(
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def policy(*actions: object) -> SearchStrategy[SchedulerConfig]:
    return st.just(SchedulerConfig.from_mapping({"actions": list(actions)}))


def sharing(*actions: object) -> SearchStrategy[SchedulerConfig]:
    """Actions where proportion says what queues deserve, and gang lets whole jobs go."""
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tier = ["priority", gang, "conformance", "predicates", "proportion"]
    mapping = {"actions": list(actions), "tiers": [{"plugins": tier}]}
    return st.just(SchedulerConfig.from_mapping(mapping))


@lru_cache
def decided() -> list[tuple[Snapshot, SchedulerConfig, CycleResult]]:
    """Draw without any wish, and decide; once for all situations that come by themselves."""
    found: list[tuple[Snapshot, SchedulerConfig, CycleResult]] = []

    @settings(GENERATE, max_examples=FREE_TO_DRAW)
    @given(snapshots(), configs())
    def decide(snapshot: Snapshot, config: SchedulerConfig) -> None:
        found.append((snapshot, config, Scheduler(config).schedule(snapshot)))

    decide()
    return found


def comes(situation: Situation) -> bool:
    """Whether the situation comes without any wish."""
    return any(situation(*one) for one in decided())


def within(
    examples: int,
    situation: Situation,
    drawn: SearchStrategy[Snapshot],
    policies: SearchStrategy[SchedulerConfig],
) -> None:
    """Find the situation in so many examples at most."""

    def is_it(example: tuple[Snapshot, SchedulerConfig]) -> bool:
        snapshot, config = example
        return bool(situation(snapshot, config, Scheduler(config).schedule(snapshot)))

    find(
        st.tuples(drawn, policies),
        is_it,
        settings=settings(GENERATE, max_examples=examples),
    )


class Tape:
    """What happened inside the library while something ran."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def take(self) -> list[object]:
        """Return what was noted since the last time."""
        noted, self.noted = self.noted, []
        return noted


@contextmanager
def noting_discards() -> Iterator[Tape]:
    """Note the evictions of statements that are discarded."""
    tape = Tape()
    plain = Statement.discard

    def discard(statement: Statement) -> None:
        tape.noted.append(len(statement._claims))
        plain(statement)

    with patch.object(Statement, "discard", discard):
        yield tape


@contextmanager
def noting_spared() -> Iterator[Tape]:
    """Note how many victims turn out not to be needed."""
    tape = Tape()
    plain = choosing.choose_units

    def choose_units(units: Any, node: Any, is_enough: Any) -> Any:
        chosen = plain(units, node, is_enough)
        # Units are taken in order: one before the last that is kept was taken, too.
        kept = [unit in (chosen or ()) for unit in units]
        last = len(kept) - 1 - kept[::-1].index(True) if True in kept else 0
        tape.noted.append(kept[:last].count(False))
        return chosen

    with patch.object(choosing, "choose_units", choose_units):
        yield tape


@contextmanager
def noting_rounds() -> Iterator[Tape]:
    """Note the rounds of water-filling: each asks first whether anything remains."""
    tape = Tape()
    plain = proportion.is_empty

    def is_empty(remaining: Sequence[float]) -> bool:
        answer = plain(remaining)
        if not answer:
            tape.noted.append(remaining)
        return answer

    with patch.object(proportion, "is_empty", is_empty):
        yield tape


# The six


def test_a_starving_gang() -> None:
    def situation(snapshot: Snapshot, _: SchedulerConfig, result: CycleResult) -> bool:
        reserved = {promise.task_uid for promise in result.reserved}
        return any(
            job.min_available > 1
            and result.jobs[job.uid].condition is not None
            and any(t.status is TaskStatus.PENDING and t.uid in reserved for t in job.tasks)
            for job in snapshot.jobs
            if job.uid in result.jobs
        )

    reserve = {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 50}}
    within(2000, situation, CROWDED, policy("allocate", reserve))


def test_a_reclaim_that_must_spare_a_victim() -> None:
    with noting_spared() as tape:

        def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
            spared = any(tape.take())
            return spared and any(one.action == "reclaim" for one in result.evictions)

        within(3000, situation, SHARED, sharing("reclaim"))


def test_a_tie_between_nodes_that_is_broken_by_name() -> None:
    def situation(snapshot: Snapshot, _: SchedulerConfig, result: CycleResult) -> bool:
        named = {node.name: node for node in snapshot.nodes}
        taken = {task.node_name for job in snapshot.jobs for task in job.tasks}
        free = named.keys() - taken - {task.node_name for task in snapshot.other_tasks}
        if not result.binds or result.binds[0].node_name not in free:
            return False
        first = named[result.binds[0].node_name]
        others = [named[name] for name in free if name > first.name]
        return any(evolve(other, name=first.name) == first for other in others)

    assert comes(situation)


def test_a_tie_between_jobs_that_is_broken_by_name() -> None:
    def situation(snapshot: Snapshot, _: SchedulerConfig, result: CycleResult) -> bool:
        bound = {bind.task_uid for bind in result.binds}
        first = [job for job in snapshot.jobs if any(task.uid in bound for task in job.tasks)]
        waiting = [job for job in snapshot.jobs if any(t.uid in result.pending for t in job.tasks)]

        def alike(job: object) -> tuple[object, ...]:
            return tuple(
                getattr(job, name) for name in ("queue", "priority", "creation_time", "namespace")
            )

        def wants(job: object) -> list[object]:
            return [(t.resreq, t.status, t.priority) for t in job.tasks]  # type: ignore[attr-defined]

        return any(
            one.uid < other.uid and alike(one) == alike(other) and wants(one) == wants(other)
            for one in first
            for other in waiting
        )

    assert comes(situation)


def test_a_statement_that_is_discarded_after_evictions() -> None:
    with noting_discards() as tape:
        within(
            1500,
            lambda *_: any(tape.take()),
            CROWDED,
            configs(actions=["allocate", "preempt", "reclaim"]),
        )


def test_water_filling_with_three_rounds() -> None:
    with noting_rounds() as tape:
        drawn = snapshots(max_nodes=3, max_queues=4, min_jobs=4, always=["queues"], **PLAIN)
        within(4000, lambda *_: len(tape.take()) >= 3, drawn, sharing("allocate"))


def test_an_anti_affinity_that_blocks_across_nodes() -> None:
    kinds = (UnfitReason.POD_ANTI_AFFINITY, UnfitReason.EXISTING_ANTI_AFFINITY)

    def situation(snapshot: Snapshot, config: SchedulerConfig, result: CycleResult) -> bool:
        on_node = Cycle(snapshot, result, config).on_node
        occupied = sum(bool(uids) for uids in on_node.values())
        tallies = [why.tally for why in result.pending.values() if why.tally is not None]
        # If more nodes refuse it than have any task on them, it cannot be what stands on them.
        return any(
            sum(count for unfit, count in tally.unfit.items() if unfit.reason in kinds) > occupied
            for tally in tallies
        )

    drawn = snapshots(
        min_nodes=3,
        constraints=False,
        scalars=False,
        reservations=False,
        groups=False,
        always=["affinity"],
    )
    within(3000, situation, drawn, policy("allocate"))


# Others that mistakes hide in


def test_a_gang_of_which_one_half_fits() -> None:
    def situation(snapshot: Snapshot, _: SchedulerConfig, result: CycleResult) -> bool:
        return any(
            outcome.status is TaskStatus.ALLOCATED and outcome.node_name is not None
            for outcome in result.tasks.values()
        )

    within(1000, situation, CROWDED, policy({"name": "allocate", "arguments": {"unready": "hold"}}))


def test_two_victims_for_one_claimant() -> None:
    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        claimants = [eviction.for_task_uid for eviction in result.evictions]
        return len(set(claimants)) < len(claimants)

    within(5000, situation, CROWDED, policy("preempt", "reclaim"))


def test_two_claimants_that_evict() -> None:
    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        return len({eviction.for_task_uid for eviction in result.evictions}) > 1

    within(2000, situation, CROWDED, policy("preempt", "reclaim"))


def test_a_promise_of_what_backfill_holds_that_is_made_real() -> None:
    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        return any(eviction.action == "allocate" for eviction in result.evictions)

    allocate = {"name": "allocate", "arguments": {"evictBackfill": True}}
    within(3000, situation, CROWDED, policy(allocate))


def test_a_gang_that_starts_as_backfill() -> None:
    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        return any(bind.is_backfill for bind in result.binds)

    release = {"name": "backfill", "arguments": {"strategy": "release"}}
    within(2000, situation, CROWDED, policy("allocate", release))


def test_a_reservation_that_is_given_up_and_one_that_is_used() -> None:
    def given_up(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        return bool(result.dropped_reservations)

    def used(snapshot: Snapshot, _: SchedulerConfig, result: CycleResult) -> bool:
        bound = {(bind.task_uid, bind.node_name) for bind in result.binds}
        return any(
            task.status is TaskStatus.RESERVED and (task.uid, task.node_name) in bound
            for job in snapshot.jobs
            for task in job.tasks
        )

    assert comes(given_up)
    drawn = snapshots(max_nodes=2, always=["reservations"], crowded=False, groups=False, **PLAIN)
    within(1500, used, drawn, policy("allocate"))


def test_a_queue_that_has_all_that_it_deserves() -> None:
    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        return any(reason.why is WhyPending.QUEUE_OVERUSED for reason in result.pending.values())

    assert comes(situation)


def test_a_job_of_which_running_tasks_are_not_enough() -> None:
    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        return any(outcome.phase is JobPhase.UNKNOWN for outcome in result.jobs.values())

    assert comes(situation)


def test_one_example_in_thirty_promises_what_others_leave() -> None:
    promised = 0

    @settings(GENERATE, max_examples=300)
    @given(snapshots(max_nodes=2, always=["endings", "running"], promises=False, **EMPTY))
    def count(snapshot: Snapshot) -> None:
        nonlocal promised
        result = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate"})).schedule(snapshot)
        statuses = {outcome.status for outcome in result.tasks.values()}
        promised += TaskStatus.PIPELINED in statuses

    count()
    assert promised >= 10


# Those of queues, gangs and nodes that are not as they should be


TROUBLED = snapshots(
    max_nodes=3,
    max_queues=4,
    min_jobs=4,
    always=["crowded", "gangs", "queues", "running", "trees"],
    **EMPTY,
)
WITH_GROUPS = snapshots(
    max_nodes=2, min_jobs=3, always=["crowded", "gangs", "groups", "running"], **PLAIN
)


def claims(*arguments: object) -> SearchStrategy[SchedulerConfig]:
    """Actions where capacity says what queues deserve, and gang lets whole jobs go."""
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tier = ["priority", gang, "conformance", "predicates", "capacity"]
    mapping = {"actions": list(arguments), "tiers": [{"plugins": tier}]}
    return st.just(SchedulerConfig.from_mapping(mapping))


def broken(cycle: Cycle) -> list[str]:
    """The jobs of the session that lack some of the tasks that they need, and have others."""
    return [
        job.uid
        for job in cycle.snapshot.jobs
        if cycle.is_in_session(job)
        and not cycle.ready_groups(job, before=True).can_start()
        and any(task.status is TaskStatus.RUNNING for task in job.tasks)
    ]


def overcommitted(cycle: Cycle) -> set[str]:
    """The nodes whose tasks hold more than there is."""
    return {
        name
        for name, accounts in cycle.accounts_before.items()
        if any(amount < 0 for amount in accounts.idle.values())
    }


@pytest.mark.parametrize("groups", [False, True])
def test_a_broken_gang_that_becomes_whole(groups: bool) -> None:
    def situation(snapshot: Snapshot, config: SchedulerConfig, result: CycleResult) -> bool:
        cycle = Cycle(snapshot, result, config)
        return any(
            cycle.is_gang_ready(cycle.jobs[uid]) and bool(cycle.jobs[uid].groups) is groups
            for uid in broken(cycle)
        )

    within(1500, situation, WITH_GROUPS if groups else TROUBLED, claims("allocate", "reclaim"))


def test_a_broken_gang_for_which_others_are_evicted() -> None:
    def situation(snapshot: Snapshot, config: SchedulerConfig, result: CycleResult) -> bool:
        cycle = Cycle(snapshot, result, config)
        claimants = {cycle.job_of[eviction.for_task_uid].uid for eviction in result.evictions}
        return bool(claimants & set(broken(cycle)))

    within(3000, situation, TROUBLED, claims("reclaim", "preempt"))


def test_a_task_that_displaces_others_beside_an_overcommitted_node() -> None:
    def situation(snapshot: Snapshot, config: SchedulerConfig, result: CycleResult) -> bool:
        cycle = Cycle(snapshot, result, config)
        if not result.binds or not overcommitted(cycle):
            return False
        first = SchedulerConfig.from_mapping(
            {"actions": [{"name": "allocate", "arguments": {"unready": "hold"}}]}
        )
        held = Scheduler(evolve(first, tiers=config.tiers)).schedule(snapshot).tasks
        return any(
            outcome.status is TaskStatus.ALLOCATED and result.tasks[uid].node_name is None
            for uid, outcome in held.items()
        )

    off = ("affinity", "backfill", "best_effort", "constraints", "critical", "crowded", "groups")
    off += ("dependencies", "endings", "init_requests", "invalid_jobs", "queues", "reservations")
    off += ("devices", "holds", "protection", "topologies")
    drawn = snapshots(
        min_nodes=2,
        max_nodes=2,
        min_jobs=3,
        min_tasks=2,
        always=["gangs", "other_tasks", "overcommitted", "scalars"],
        **dict.fromkeys((*off, "unknown_queues"), False),  # type: ignore[arg-type]
    )
    actions = (
        {"name": "allocate", "arguments": {"unready": "hold"}},
        {"name": "backfill", "arguments": {"strategy": "displace"}},
    )
    within(3000, situation, drawn, policy(*actions))


def test_surplus_backfill_tasks_that_are_called_in_beside_their_core() -> None:
    def situation(snapshot: Snapshot, config: SchedulerConfig, result: CycleResult) -> bool:
        cycle = Cycle(snapshot, result, config)
        jobs = [cycle.job_of[e.task_uid] for e in result.evictions if e.action == "allocate"]
        return any(
            job.min_available
            and any(result.tasks[task.uid].status is TaskStatus.RUNNING for task in job.tasks)
            for job in jobs
        )

    allocate = {"name": "allocate", "arguments": {"evictBackfill": True}}
    drawn = snapshots(max_nodes=2, min_jobs=3, always=["backfill", "gangs", "running"], **EMPTY)
    within(3000, situation, drawn, sharing(allocate))


def test_a_queue_above_its_share_whose_tasks_nobody_may_evict() -> None:
    def situation(snapshot: Snapshot, _: SchedulerConfig, result: CycleResult) -> bool:
        return any(
            job.namespace == "kube-system"
            and job.queue in result.queues
            and result.queues[job.queue].on_loan.milli_cpu > 0
            and any(task.status is TaskStatus.RUNNING for task in job.tasks)
            for job in snapshot.jobs
        )

    within(1000, situation, TROUBLED, claims("reclaim"))


def test_queues_that_deserve_more_than_there_is_and_claim() -> None:
    def situation(snapshot: Snapshot, _: SchedulerConfig, result: CycleResult) -> bool:
        there = sum(node.allocatable.milli_cpu for node in snapshot.nodes)
        inner = {queue.parent for queue in snapshot.queues}
        deserved = [
            there if queue.deserved is None else queue.deserved.milli_cpu or 0
            for queue in snapshot.queues
            if queue.name not in inner
        ]
        return sum(deserved) > there and bool(result.evictions)

    within(1000, situation, TROUBLED, claims("reclaim"))


def test_devices_that_vanished_while_others_wait_for_some() -> None:
    def situation(snapshot: Snapshot, config: SchedulerConfig, result: CycleResult) -> bool:
        cycle = Cycle(snapshot, result, config)
        lost = [cycle.accounts_before[name].idle for name in overcommitted(cycle)]
        gone = {
            name
            for idle in lost
            for name, amount in idle.items()
            if amount < 0 and name not in ("cpu", "memory")
        }
        return any(gone & cycle.resreq[uid].keys() for uid in result.pending)

    drawn = snapshots(max_nodes=3, min_jobs=3, always=["overcommitted", "running", "scalars"])
    within(1500, situation, drawn, claims("allocate", "reclaim"))


def test_a_queue_at_its_limit_that_evicts() -> None:
    def situation(snapshot: Snapshot, config: SchedulerConfig, result: CycleResult) -> bool:
        cycle = Cycle(snapshot, result, config)
        limits = {q.name: q.limit for q in snapshot.queues if q.limit is not None}
        return any(
            queue in limits
            and any(
                amount == cycle.charged_before(queue).get(name, 0)
                for name, amount in limits[queue].dimensions()
            )
            for queue in (cycle.job_of[each.for_task_uid].queue for each in result.evictions)
        )

    within(3000, situation, TROUBLED, claims("preempt"))


UNDER_PRESSURE = {
    UnfitReason.MEMORY_PRESSURE: {"predicate.MemoryPressureEnable": True},
    UnfitReason.DISK_PRESSURE: {"predicate.DiskPressureEnable": True},
    UnfitReason.PID_PRESSURE: {"predicate.PIDPressureEnable": True},
}


SHARING = SchedulerConfig.from_mapping(
    {"actions": "allocate, reclaim", "tiers": [{"plugins": ["gang", "predicates", "capacity"]}]}
)
NOT_OF_NODES = {
    UnfitReason.NOT_ITS_TURN: WhyPending.NOT_REACHED,
    UnfitReason.QUEUE_LIMIT: WhyPending.QUEUE_LIMIT,
    UnfitReason.ABOVE_FAIR_SHARE: WhyPending.ABOVE_FAIR_SHARE,
}


@pytest.mark.parametrize("reason", NOT_OF_NODES, ids=lambda reason: reason.name)
def test_every_reason_why_a_job_is_refused(reason: UnfitReason) -> None:
    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        return any(
            pending.why is NOT_OF_NODES[reason]
            and (
                reason is not UnfitReason.NOT_ITS_TURN
                or "came earlier and is waiting" in pending.text
            )
            for pending in result.pending.values()
        )

    if reason is UnfitReason.NOT_ITS_TURN:
        assert comes(situation)
    else:
        drawn = snapshots(max_nodes=2, min_jobs=3, always=["trees"], **PLAIN)
        within(1000, situation, drawn, st.just(SHARING))


def test_jobs_that_are_not_preemptible_are_refused() -> None:
    def none_preemptible(snapshot: Snapshot) -> Snapshot:
        little = Resource(milli_cpu=1000)
        return evolve(
            snapshot,
            jobs=[evolve(job, preemptible=False) for job in snapshot.jobs],
            queues=[
                evolve(queue, deserved=little, guarantee=Resource()) for queue in snapshot.queues
            ],
        )

    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        refusals = [pending.refusal for pending in result.pending.values()]
        return any(each and each.reason is UnfitReason.BEYOND_QUOTA for each in refusals)

    plugins = ["gang", "predicates", "capacity", "protection"]
    mapping = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
    drawn = snapshots(max_nodes=2, min_jobs=3, **PLAIN).map(none_preemptible)
    within(100, situation, drawn, st.just(SchedulerConfig.from_mapping(mapping)))


OF_NODES = [
    reason
    for reason in UnfitReason
    if reason
    not in {
        *NOT_OF_NODES,
        UnfitReason.BEYOND_QUOTA,
        UnfitReason.NEVER_LENT,
        UnfitReason.NO_DOMAIN,
    }
]
OF_DEVICES = {
    UnfitReason.NO_DEVICE: {},
    UnfitReason.DEVICES_TAKEN: {},
    UnfitReason.DEVICE_SEARCH_LIMIT: {"tries": 1},
}


@pytest.mark.parametrize("reason", OF_NODES, ids=lambda reason: reason.name)
def test_every_reason_why_a_node_does_not_fit(reason: UnfitReason) -> None:
    if reason is UnfitReason.REFUSED_BY_PLUGIN:
        pytest.skip("only plugins of one's own say so")

    def situation(_: Snapshot, __: SchedulerConfig, result: CycleResult) -> bool:
        tallies = [why.tally for why in result.pending.values() if why.tally is not None]
        return any(unfit.reason is reason for tally in tallies for unfit in tally.unfit)

    if reason in UNDER_PRESSURE:
        predicates = {"name": "predicates", "arguments": UNDER_PRESSURE[reason]}
        mapping = {"actions": "allocate, backfill", "tiers": [{"plugins": ["gang", predicates]}]}
        drawn = snapshots(max_nodes=1, always=["constraints", "best_effort"])
        within(2000, situation, drawn, st.just(SchedulerConfig.from_mapping(mapping)))
    elif reason in OF_DEVICES:
        plugins = ["gang", "predicates", {"name": "devices", "arguments": OF_DEVICES[reason]}]
        mapping = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
        drawn = with_devices(snapshots(max_nodes=2, **EMPTY))
        within(2000, situation, drawn, st.just(SchedulerConfig.from_mapping(mapping)))
    elif reason is UnfitReason.PLANNED:
        drawn = snapshots(max_nodes=2, min_jobs=3, always=["durations", "running"], **EMPTY)
        within(2000, situation, drawn, policy("plan", "allocate"))
    else:
        assert comes(situation)
