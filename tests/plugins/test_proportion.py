"""proportion: what queues deserve, and what they may be made to give back."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import Any

import pytest
from attrs import evolve
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.reference import reference_schedule
from tests.support.books import dump, opened, plugin_object
from tests.support.clusters import cluster, job, node
from tests.support.invariants import check_cycle

from batchsched import (
    EPSILON,
    JobInfo,
    NodeInfo,
    Queue,
    QueueOutcome,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
)
from batchsched.plugin import TaskState, Verdict
from batchsched.plugins.proportion import water_fill
from batchsched.testing import snapshots

V, X = Verdict.VICTIM, Verdict.PROTECTED
NAMES = ("a", "b", "c", "d")


def plain_water_fill(
    total: tuple[int, ...], weights: dict[str, int], requests: dict[str, tuple[int, ...]]
) -> dict[str, tuple[Fraction, ...]]:
    """Water-filling, word by word after the specification, in exact arithmetic."""
    eps = Fraction(EPSILON)
    dimensions = range(len(total))
    remaining = [Fraction(amount) for amount in total]
    deserved = {name: [Fraction(0)] * len(total) for name in weights}
    unmet = sorted(weights)
    while unmet and any(amount >= eps for amount in remaining):
        all_weights = sum(weights[name] for name in unmet)
        at_start = list(remaining)
        met = []
        for name in unmet:
            before = list(deserved[name])
            part = Fraction(weights[name], all_weights)
            for d in dimensions:
                deserved[name][d] += at_start[d] * part
            if all(requests[name][d] - deserved[name][d] < eps for d in dimensions):
                for d in dimensions:
                    deserved[name][d] = min(deserved[name][d], Fraction(requests[name][d]))
                met.append(name)
            for d in dimensions:
                remaining[d] -= deserved[name][d] - before[d]
        unmet = [name for name in unmet if name not in met]
    return {name: tuple(amounts) for name, amounts in deserved.items()}


WEIGHTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 6), min_size=1)


@st.composite
def fillings(draw, weights=WEIGHTS, dimensions: int = 2):
    of = draw(weights)
    amount = st.one_of(st.integers(0, 12), st.integers(0, 10**6))
    amounts = st.tuples(*[amount] * dimensions)
    return draw(amounts), of, {name: draw(amounts) for name in of}


@pytest.mark.parametrize("bounds", ["limits", "guarantees"])
def test_where_no_queue_asks_nobody_deserves_anything_whatever_bounds_there_are(bounds) -> None:
    assert water_fill((9, 9), {}, {}, **{bounds: {"a": (5, 5)}}) == {}


@given(fillings())
def test_deserved_is_what_exact_arithmetic_says(filling) -> None:
    total, weights, requests = filling
    expected = plain_water_fill(total, weights, requests)
    found = water_fill(total, weights, requests)
    assert list(found) == sorted(weights)
    for name in weights:
        for d in range(len(total)):
            # A float may fall on the other side of "fits", which is a matter of EPSILON.
            assert abs(found[name][d] - expected[name][d]) <= len(weights) * EPSILON + 1e-6


@given(fillings(weights=st.sampled_from([{"a": 1, "b": 1}, {"a": 4}, {"a": 1, "b": 1, "c": 2}])))
def test_deserved_is_exact_as_long_as_the_ratios_are(filling) -> None:
    total, weights, requests = filling
    first_round = water_fill(total, weights, dict.fromkeys(weights, (10**9, 10**9)))
    all_weights = sum(weights.values())
    for name, weight in weights.items():
        assert first_round[name] == tuple(Fraction(t * weight, all_weights) for t in total)
    if len(weights) <= 2:  # a queue that is alone has the ratio 1
        assert water_fill(total, weights, requests) == plain_water_fill(total, weights, requests)


LARGE = st.integers(2**50, 2**60)


@given(LARGE, st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 7), min_size=1))
@example(6720420793259663, {"a": 1, "b": 1, "c": 1})
def test_rounding_errors_of_large_amounts_are_not_dealt_out_for_ever(
    total: int, weights: dict[str, int]
) -> None:
    requests = dict.fromkeys(weights, (2 * total,))
    deserved = water_fill((total,), weights, requests)
    assert sum(amounts[0] for amounts in deserved.values()) == pytest.approx(total, rel=1e-12)
    too_much = Resource(memory=2 * total)
    there = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=Resource(memory=total))],
        jobs=[
            JobInfo(name=name, queue=name, tasks=[TaskInfo(uid=name, name=name, resreq=too_much)])
            for name in weights
        ],
        queues=[Queue(name=name, weight=weight) for name, weight in weights.items()],
    )
    proportion = {"actions": "allocate", "tiers": [{"plugins": ["proportion"]}]}
    result = Scheduler(SchedulerConfig.from_mapping(proportion)).schedule(there)
    assert not result.binds
    assert reference_schedule(there, proportion).binds == result.binds
    check_cycle(there, result, SchedulerConfig.from_mapping(proportion))


@given(fillings())
def test_the_deserved_of_all_never_exceeds_the_cluster(filling) -> None:
    total, weights, requests = filling
    deserved = water_fill(total, weights, requests)
    for d, whole in enumerate(total):
        assert sum(amounts[d] for amounts in deserved.values()) <= whole + 1e-6


@given(fillings())
def test_a_queue_that_is_met_deserves_no_more_than_it_requests(filling) -> None:
    total, weights, requests = filling
    for name, amounts in water_fill(total, weights, requests).items():
        wanted = requests[name]
        if all(w - a < EPSILON for w, a in zip(wanted, amounts, strict=True)):
            # It has all that it asks for: it was met, or ran dry in the very last round.
            assert all(a <= w + EPSILON for w, a in zip(wanted, amounts, strict=True)) or all(
                abs(sum(of[d] for of in water_fill(total, weights, requests).values()) - whole)
                < EPSILON + 1e-6
                for d, whole in enumerate(total)
            )


@given(fillings(dimensions=1))
def test_nothing_is_left_while_a_queue_lacks_something(filling) -> None:
    (total,), weights, requests = filling
    deserved = water_fill((total,), weights, requests)
    lacking = [name for name in weights if requests[name][0] - deserved[name][0] >= EPSILON]
    left = total - sum(amounts[0] for amounts in deserved.values())
    if lacking:
        assert left < EPSILON + 1e-6


@given(fillings(dimensions=1), st.sampled_from(NAMES), st.integers(1, 5))
def test_more_weight_never_means_less_and_never_more_for_others(filling, name, more) -> None:
    total, weights, requests = filling
    assume(name in weights)
    before = water_fill(total, weights, requests)
    after = water_fill(total, {**weights, name: weights[name] + more}, requests)
    tolerance = len(weights) * EPSILON + 1e-6
    assert after[name][0] >= before[name][0] - tolerance
    for other in weights:
        if other != name:
            assert after[other][0] <= before[other][0] + tolerance


@given(fillings(dimensions=1))
def test_lacking_queues_stand_in_proportion_to_their_weights(filling) -> None:
    (total,), weights, requests = filling
    deserved = water_fill((total,), weights, requests)
    lacking = [n for n in weights if requests[n][0] - deserved[n][0] >= EPSILON]
    levels = [deserved[name][0] / weights[name] for name in lacking]
    if levels:
        assert max(levels) - min(levels) <= 1e-6 * max(1, *levels)


@pytest.mark.parametrize(
    ("total", "weights", "requests", "expected"),
    [
        ((100,), {"a": 1, "b": 1}, {"a": (10,), "b": (500,)}, {"a": (10,), "b": (90,)}),
        ((100,), {"a": 1, "b": 3}, {"a": (500,), "b": (500,)}, {"a": (25,), "b": (75,)}),
        ((100,), {"a": 1, "b": 1}, {"a": (10,), "b": (20,)}, {"a": (10,), "b": (20,)}),
        ((0,), {"a": 1}, {"a": (5,)}, {"a": (0,)}),
        ((), {"a": 1}, {"a": ()}, {"a": ()}),
        # b is short of memory, so a's unused cpu comes to it all the same.
        (
            (100, 100),
            {"a": 1, "b": 1},
            {"a": (10, 50), "b": (20, 90)},
            {"a": (10, 50), "b": (90, 50)},
        ),
        # a is short in the first round and met in the second, where it gives back cpu.
        (
            (100, 100),
            {"a": 1, "b": 1},
            {"a": (10, 60), "b": (10, 10)},
            {"a": (10, 60), "b": (10, 10)},
        ),
        # What a gives back in the second round comes to c in the third.
        (
            (90, 90),
            {"a": 1, "b": 1, "c": 1},
            {"a": (10, 40), "b": (10, 10), "c": (90, 90)},
            {"a": (10, 40), "b": (10, 10), "c": (70, 40)},
        ),
    ],
)
def test_what_queues_deserve_by_example(total, weights, requests, expected) -> None:
    found = water_fill(total, weights, requests)
    assert {name: tuple(map(pytest.approx, amounts)) for name, amounts in found.items()} == expected


def test_without_queues_there_is_nothing_to_deserve() -> None:
    assert water_fill((100,), {}, {}) == {}


# The plugin


def snapshot(**changes: object) -> Snapshot:
    """12 cpu. q (weight 2) holds 8 and asks for 9, r (1) holds 2 and asks for 6; s has no jobs."""
    made = cluster(
        [node("n1", "6C0G"), node("n2", "6C0G")],
        job("a", "2C0G@n1", "2C0G@n1", "2C0G@n2", "2C0G@n2", "1C0G", minimum=1),
        job("b", "1C0G@n1", "1C0G@n2", "1C0G", "3C0G", minimum=1, queue="r"),
        queues=("q", "r", "s"),
    )
    weights = {"q": 2, "r": 1, "s": 7}
    return evolve(
        made,
        queues=[Queue(name=name, weight=weight) for name, weight in weights.items()],
        **changes,
    )


def account(of: Session, name: str) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    plugin = plugin_object(of, "proportion")
    deserved, allocated = plugin.queue_share(of.queues[name])
    return deserved, allocated, plugin.queue_order_key(of.queues[name])


def test_queues_without_jobs_take_no_part() -> None:
    of = opened(snapshot(), ["proportion"])
    assert account(of, "q")[0][0] == pytest.approx(8000)
    assert account(of, "r")[0][0] == pytest.approx(4000)
    assert of.plugins.queue_order_key(of.queues["s"])[0] == 0
    assert not of.plugins.overused(of.queues["s"])


def test_the_queue_with_the_smaller_share_goes_first_and_shares_follow_events() -> None:
    of = opened(snapshot(), ["proportion"])
    assert account(of, "q")[2] == pytest.approx(1.0)
    assert account(of, "r")[2] == pytest.approx(0.5)
    keys = {name: of.plugins.queue_order_key(queue)[0] for name, queue in of.queues.items()}
    assert keys["s"] < keys["r"] < keys["q"]
    before = dump(of)
    with of.statement() as statement:
        statement.allocate(of.task("b-3"), of.node("n1"))
        assert account(of, "r")[2] == pytest.approx(0.75)
        statement.evict(of.task("a-1"), claimant=of.task("b-4"))
        assert account(of, "q")[2] == pytest.approx(0.75)
    assert dump(of) == before


def test_a_queue_is_overused_when_it_has_all_that_it_deserves() -> None:
    of = opened(snapshot(), ["proportion"])
    assert of.plugins.overused(of.queues["q"])  # 8 of 8 cpu
    assert not of.plugins.overused(of.queues["r"])
    of.evict(of.task("a-1"), claimant=of.task("b-4"))
    assert not of.plugins.overused(of.queues["q"])


def test_a_queue_gives_back_what_is_beyond_its_share_and_nothing_that_is_covered() -> None:
    of = opened(
        cluster(
            [node("n1", "6C0G"), node("n2", "6C0G")],
            job("a", *["2C0G@n1"] * 3, *["2C0G@n2"] * 2, minimum=1),
            job("b", *["2C0G"] * 9, minimum=1, queue="r"),
            job("c", "1C0G@n2", minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    plugin = plugin_object(of, "proportion")
    claimant = of.task("b-1")
    # q has 10 cpu and deserves 6, which reaches its first three tasks; r has 1 and deserves 6.
    a = [of.task(f"a-{i}") for i in range(1, 6)]
    assert list(plugin.reclaimable(claimant, a)) == [X, X, X, V, V]
    assert list(plugin.reclaimable(claimant, [of.task("c-1"), *a])) == [X, X, X, X, V, V]
    assert list(plugin.reclaimable(claimant, [])) == []


def test_the_result_tells_what_queues_deserve_and_have_within_it_and_beyond() -> None:
    cpu = Resource(milli_cpu=1000)
    whole = evolve(
        cluster(
            [node("n1", "6C0G"), node("n2", "6C0G")],
            job("a", *["2C0G@n1"] * 3, *["2C0G@n2"] * 2, minimum=1, queue="q"),
            job("b", *["2C0G"] * 9, minimum=1, queue="r"),
            queues=("root", "q", "r", "s"),
        ),
        queues=[
            Queue(name="root"),
            Queue(name="q", parent="root"),
            Queue(name="r", parent="root", limit=ResourceLimit(milli_cpu=9000)),
            Queue(name="s", parent="root"),
        ],
    )
    tiers = [{"plugins": ["gang", "predicates", "proportion"]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers})
    queues = Scheduler(config).schedule(whole).queues
    assert list(queues) == ["q", "r", "s"]  # root is no queue that jobs name
    q, r, s = queues.values()
    assert (q.fair_share, q.allocated, q.covered, q.on_loan) == (
        6 * cpu,
        10 * cpu,
        6 * cpu,
        4 * cpu,
    )
    assert (r.fair_share, r.allocated, r.covered) == (6 * cpu, 2 * cpu, 2 * cpu)
    assert (r.parent, r.limit, s) == ("root", whole.queues[1].limit, QueueOutcome(parent="root"))


def memory_beyond_the_share() -> Session:
    """q has 3 cpu and 12 GiB and deserves 6 and 6; what it has of memory reaches for one task."""
    return opened(
        cluster(
            [node("n1", "12C12G"), node("n2", "0C0G")],
            job("a", *["1C4G@n1"] * 3, minimum=1),
            job("b", *["9C0G", "0C2G", "1C1G", "0C9G"], minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )


@pytest.mark.parametrize(
    ("claimant", "verdicts"),
    [
        ("b-2", [X, V, V]),  # memory is asked for
        ("b-3", [X, V, V]),  # memory too
        ("b-4", [X, X, X]),  # more than r deserves
        ("b-1", [X, X, X]),  # the same, of cpu
    ],
)
def test_only_what_is_asked_for_counts_and_only_within_the_claimants_share(
    claimant: str, verdicts: list[Verdict]
) -> None:
    of = memory_beyond_the_share()
    plugin = plugin_object(of, "proportion")
    candidates = [of.task(f"a-{i}") for i in (1, 2, 3)]
    assert list(plugin.reclaimable(of.task(claimant), candidates)) == verdicts


def test_of_what_is_not_beyond_the_share_nothing_is_given() -> None:
    of = opened(
        cluster(
            [node("n1", "12C12G")],
            job("a", *["1C4G@n1"] * 3, minimum=1),
            job("b", "2C0G", "9C9G", minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    candidates = [of.task(f"a-{i}") for i in (1, 2, 3)]
    verdicts = plugin_object(of, "proportion").reclaimable(of.task("b-1"), candidates)
    assert list(verdicts) == [X, X, X]  # 3 of 6 cpu, though two of them are not covered


@pytest.mark.parametrize(("minimum", "gives"), [(1, V), (2, V), (3, V), (4, X)])
def test_a_gang_claims_only_if_all_that_it_needs_stays_within_its_share(
    minimum: int, gives: Verdict
) -> None:
    of = opened(
        cluster(
            [node("n1", "12C0G")],
            job("a", *["2C0G@n1"] * 6, minimum=1),
            job("b", *["2C0G"] * 5, "", minimum=minimum, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    # Both deserve 6 cpu: three tasks of 2.
    plugin = plugin_object(of, "proportion")
    assert list(plugin.reclaimable(of.task("b-1"), [of.task("a-6")])) == [gives]
    # What has been promised meanwhile counts as allocated, and is needed no more.
    of.evict(of.task("a-6"), claimant=of.task("b-1"))
    of.pipeline(of.task("b-1"), of.nodes[0])
    assert list(plugin.reclaimable(of.task("b-2"), [of.task("a-5")])) == [gives]


def alone(plugin: Any, claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
    """The verdict on each candidate as the only one."""
    return [verdict for each in candidates for verdict in plugin.reclaimable(claimant, [each])]


def test_a_job_is_covered_from_its_minimum_and_jobs_by_priority() -> None:
    of = opened(
        cluster(
            [node("n1", "12C0G")],
            job("low", *["1C0G@n1"] * 4, minimum=1, priority=1),
            job("high", *["2C0G@n1"] * 4, minimum=2, priority=2),
            job("b", *["2C0G"] * 9, minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    plugin, claimant = plugin_object(of, "proportion"), of.task("b-1")
    # 6 cpu: the gang's minimum (4) and one more (2); what is left reaches for nothing.
    low = [of.task(f"low-{i}") for i in (4, 3, 2, 1)]
    high = [of.task(f"high-{i}") for i in (4, 3, 2, 1)]
    assert alone(plugin, claimant, [*low, *high]) == [V] * 5 + [X] * 3
    of.evict(of.task("high-1"), claimant=claimant)  # for a job of its own queue, say
    # Three are left, all of them covered now.
    assert alone(plugin, claimant, [*low, *high[:3]]) == [V] * 4 + [X] * 3


def test_a_minimum_that_the_share_does_not_reach_leaves_it_to_others() -> None:
    of = opened(
        cluster(
            [node("n1", "12C0G")],
            job("gang", *["2C0G@n1"] * 5, minimum=4, priority=2),
            job("low", *["1C0G@n1"] * 2, minimum=1, priority=1),
            job("b", *["2C0G"] * 9, minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    plugin, claimant = plugin_object(of, "proportion"), of.task("b-1")
    gang = [of.task(f"gang-{i}") for i in (5, 4, 3, 2, 1)]
    low = [of.task(f"low-{i}") for i in (2, 1)]
    assert alone(plugin, claimant, [*gang, *low]) == [V] * 5 + [X] * 2
    with of.statement() as statement:
        for task in gang:
            statement.evict(task, claimant=claimant)
        assert alone(plugin, claimant, low) == [X] * 2
    assert alone(plugin, claimant, [*gang, *low]) == [V] * 5 + [X] * 2
    of.evict(gang[4], claimant=claimant)
    of.evict(gang[3], claimant=claimant)  # three are left, which are 6 cpu
    assert alone(plugin, claimant, [*gang[:3], *low]) == [X] * 3 + [V] * 2


def test_a_minimum_of_groups_that_the_share_does_not_reach_leaves_their_surplus_out() -> None:
    workers = job("workers", "3C0G@n1", "1C0G@n1", minimum=0)
    tasks = [evolve(task, group="worker") for task in workers.tasks]
    workers = evolve(workers, tasks=tasks, groups=[TaskGroup(name="worker", min=1)])
    of = opened(
        cluster([node("n1", "4C0G")], workers, job("b", *["1C0G"] * 2, queue="r"), queues="qr"),
        ["proportion"],
    )
    plugin = plugin_object(of, "proportion")
    victims = [of.task("workers-2"), of.task("workers-1")]
    assert alone(plugin, of.task("b-1"), victims) == [V] * 2


@given(snapshots(constraints=False, always=["running"]), st.lists(st.integers(0, 99), max_size=8))
@settings(max_examples=100, deadline=None)
def test_what_is_covered_is_the_same_however_it_came_about(
    snapshot: Snapshot, steps: list[int]
) -> None:
    of = opened(snapshot, ["proportion", "priority"])
    plugin = plugin_object(of, "proportion")
    pending = [task for task in of.ledger.tasks.values() if task.status is TaskStatus.PENDING]
    running = [
        task
        for task in of.ledger.tasks.values()
        if task.status is TaskStatus.RUNNING and task.job is not None and task.job.in_session
    ]
    if not running or not [task for task in pending if task.job is not None]:
        return

    def covered() -> list[bool]:
        return [plugin._covered_of(task.job.queue.name).covers(task) for task in running]

    with of.statement() as statement:
        for step in steps:
            covered()
            if step % 3 == 0:
                statement.rollback(len(statement) // 2)
                continue
            task = running[step % len(running)]
            if task.status is TaskStatus.RUNNING:
                statement.evict(task, claimant=pending[0])
        found = covered()
        plugin._covered.clear()  # begin anew
        assert found == covered()


def test_backfill_tasks_count_nowhere_and_are_always_victims() -> None:
    marked = opened(
        cluster(
            [node("n1", "12C0G")],
            job("a", "5C0G@n1*", "1C0G@n1", "1C0G", minimum=1),
            job("b", "9C0G", minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    deserved, allocated, _ = account(marked, "q")
    assert allocated[0] == 1000
    assert deserved[0] == pytest.approx(2000)
    plugin = plugin_object(marked, "proportion")
    candidates = [marked.task("a-2"), marked.task("a-1")]
    assert list(plugin.reclaimable(marked.task("b-1"), candidates)) == [X, V]
    marked.evict(marked.task("a-1"), claimant=marked.task("b-1"))
    assert account(marked, "q")[1][0] == 1000
    marked.allocate(marked.task("a-3"), marked.node("n1"), is_backfill=True)
    assert account(marked, "q")[1][0] == 1000


@pytest.mark.parametrize(
    ("requests", "wanted"),
    [
        (["1C0G@n1", "1C0G"], 2000),
        (["1C0G@n1", "2C0G>n1"], 3000),  # Reserved counts as Pending does
    ],
)
def test_a_queue_requests_what_occupies_and_what_waits(requests: list[str], wanted: int) -> None:
    of = opened(
        cluster(
            [node("n1", "12C0G")],
            job("a", *requests, minimum=2),
            job("b", "99C0G", minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion", "gang"],
    )
    assert account(of, "q")[0][0] == pytest.approx(wanted)


def test_jobs_that_are_left_out_count_all_the_same() -> None:
    of = opened(
        cluster([node("n1", "12C0G")], job("a", "1C0G@n1", "2C0G", minimum=5)),
        ["proportion", "gang"],
    )
    assert of.jobs == {}
    assert account(of, "q")[:2] == ((3000, 0), (1000, 0))


def test_a_backfill_task_is_a_victim_whoever_comes_after_it() -> None:
    of = opened(
        cluster(
            [node("n1", "12C0G")],
            job("a", "5C0G@n1*", "1C0G@n1", "1C0G@n1*", minimum=1),
            job("b", "9C0G", minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    plugin = plugin_object(of, "proportion")
    candidates = [of.task(uid) for uid in ("a-1", "a-2", "a-3")]
    assert list(plugin.reclaimable(of.task("b-1"), candidates)) == [V, X, V]


def test_who_is_shielded_is_covered_or_of_a_queue_with_no_more_than_its_share() -> None:
    of = opened(
        cluster(
            [node("n1", "12C0G")],
            job("a", "5C0G@n1", "1C0G@n1", "3C0G@n1", "1C0G@n1*", minimum=1),
            job("b", *["2C0G"] * 9, minimum=1, queue="r"),
            job("o", "1C0G@n1", minimum=1, queue="gone"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    plugin, claimant = plugin_object(of, "proportion"), of.task("b-1")
    # 9 held, 6 deserved: of it the first two tasks are covered.
    candidates = [of.task(uid) for uid in ("a-1", "a-2", "a-3", "a-4", "o-1")]
    assert list(plugin.shielded(claimant, candidates)) == [True, True, False, False, False]
    of.evict(of.task("a-3"), claimant=claimant)  # 6 are held
    assert list(plugin.shielded(claimant, candidates)) == [True, True, True, False, False]


def test_claimants_are_told_apart_once_somebody_is_covered_no_more() -> None:
    """What searches remember of whom the share covers ends with the key."""
    of = opened(
        cluster(
            [node("n1", "16C0G")],
            job("a", "5C0G@n1", "4C0G@n1", "3C0G@n1", "4C0G@n1", minimum=1),
            job("b", *["2C0G"] * 9, minimum=1, queue="r"),
            queues=("q", "r"),
        ),
        ["proportion"],
    )
    plugin, claimant = plugin_object(of, "proportion"), of.task("b-1")
    candidates = [of.task(uid) for uid in ("a-2", "a-3", "a-4")]
    key = plugin.claimant_key(claimant)
    assert list(plugin.shielded(claimant, candidates)) == [False, True, False]  # 8 deserved
    with of.statement() as statement:
        statement.evict(of.task("a-4"), claimant=claimant)
        assert plugin.claimant_key(claimant) == key  # it took nothing of the share
    with of.statement() as statement:
        statement.evict(of.task("a-1"), claimant=claimant)
        assert plugin.claimant_key(claimant) == key  # nobody has lost anything
        assert list(plugin.shielded(claimant, candidates[:2])) == [True, True]
    assert plugin.claimant_key(claimant) != key
    assert list(plugin.shielded(claimant, candidates[:2])) == [False, True]


def test_only_the_clusters_dimensions_count_for_a_queues_share() -> None:
    one = job("j", "")
    asks = Resource(milli_cpu=1000, scalars={"gpu": 1000})
    snapshot = cluster([node("n1", "4C4G")], evolve(one, tasks=[evolve(one.tasks[0], resreq=asks)]))
    of = opened(snapshot, ["proportion"])
    before = account(of, "q")
    assert before[0][:2] == (4000, 4 << 30)
    plugin_object(of, "proportion").on_allocate(of.task("j-1"))
    assert account(of, "q")[2] == 0.25


def test_others_share_what_a_queue_cannot_have_because_of_its_limit() -> None:
    assert water_fill((100,), {"a": 1, "b": 1}, {"a": (500,), "b": (500,)}, {"a": (20,)}) == {
        "a": (20,),
        "b": (80.0,),
    }


@st.composite
def bounded_fillings(draw):
    total, weights, requests = draw(fillings())
    amounts = st.tuples(*[st.integers(0, 10**6)] * len(total))
    limits = draw(st.dictionaries(st.sampled_from(NAMES), amounts))
    parts = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4)))
    # They are guarantees that the cluster has; a queue that guarantees may have no job.
    guarantees = {
        name: tuple(whole * part // (4 * len(NAMES)) for whole in total)
        for name, part in parts.items()
    }
    return total, weights, requests, limits, guarantees


@given(bounded_fillings())
def test_nobody_deserves_beyond_bounds_and_nothing_is_left_that_anybody_may_have(filling) -> None:
    total, weights, requests, limits, guarantees = filling
    deserved = water_fill(total, weights, requests, limits, guarantees)
    slack = EPSILON + 1e-6 * max(total)
    left = [whole - sum(of[d] for of in deserved.values()) for d, whole in enumerate(total)]
    assert min(left) >= -slack
    for name, amounts in deserved.items():
        is_met = True
        at_bound = []
        for d, has in enumerate(amounts):
            kept = sum(of[d] for other, of in guarantees.items() if other != name)
            least = min(guarantees.get(name, (0, 0))[d], requests[name][d])
            bounds = [limits[name][d]] if name in limits else []
            most = max(least, min([*bounds, total[d] - kept] if kept else bounds, default=inf))
            assert least <= has <= most + slack
            is_met &= min(requests[name][d], most) - has < slack
            at_bound.append(has >= most - slack)
        assert is_met or all(left[d] < slack or at_bound[d] for d in range(len(total)))


def test_who_has_least_for_its_weight_comes_first_beside_guarantees() -> None:
    asks = dict.fromkeys("abc", (500,))
    assert water_fill((90,), {"a": 1, "b": 1, "c": 1}, asks, guarantees={"a": (50,)}) == {
        "a": (50,),
        "b": (20.0,),
        "c": (20.0,),
    }
    assert water_fill((90,), {"a": 1, "b": 1, "c": 1}, {**asks, "c": (5,)}, None, {"a": (30,)}) == {
        "a": (42.5,),
        "b": (42.5,),
        "c": (5,),
    }
