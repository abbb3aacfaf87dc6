"""drf: the job with the smallest dominant share goes first."""

from __future__ import annotations

from fractions import Fraction

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.books import dump, opened, plugin_object
from tests.support.clusters import cluster, job, node

from batchsched import JobInfo, Resource, Session, Snapshot, TaskStatus
from batchsched.plugin import Verdict
from batchsched.state.vectors import dominant_share

V, P = Verdict.VICTIM, Verdict.PASS
AMOUNTS = st.lists(st.integers(0, 20), min_size=3, max_size=3)


@given(AMOUNTS, AMOUNTS)
def test_the_dominant_share_is_the_largest_over_all_dimensions(
    allocated: list[int], total: list[int]
) -> None:
    def share(part: int, whole: int) -> Fraction:
        if not whole:
            return Fraction(0 if part == 0 else 1)
        return Fraction(part, whole)

    expected = max(share(a, t) for a, t in zip(allocated, total, strict=True))
    assert dominant_share(allocated, total) == pytest.approx(float(expected))


def test_only_the_clusters_dimensions_count() -> None:
    base = job("j", "1C1G@n1", "1C1G", minimum=1)
    tasks = [
        evolve(task, resreq=Resource(milli_cpu=1000, scalars={"gpu": 1000})) for task in base.tasks
    ]
    of = opened(cluster([node("n1", "4C4G")], evolve(base, tasks=tasks)), ["drf"])
    assert of.plugins.job_order_key(of.jobs["default/j"])[0] == 0.25
    plugin_object(of, "drf").on_allocate(of.task("j-2"))
    assert of.plugins.job_order_key(of.jobs["default/j"])[0] == 0.5


def four(**more: object) -> Snapshot:
    return cluster(
        [node("n1", "4C8G"), node("n2", "6C12G")],
        job("a", "2C1G@n1", "1C1G@n2", "1C1G", minimum=1),
        job("b", "1C8G@n2", "1C1G", minimum=1),
        job("c", "1C1G", "1C1G", minimum=1),
    )


def key(of: Session, name: str) -> object:
    return of.plugins.job_order_key(of.jobs[f"default/{name}"])[0]


def test_shares_at_open_are_of_what_occupies() -> None:
    of = opened(four(), ["drf"])
    assert (key(of, "a"), key(of, "b"), key(of, "c")) == (0.3, 0.4, 0.0)
    ordered = sorted(of.jobs.values(), key=of.plugins.job_order_key)
    assert [one.info.name for one in ordered] == ["c", "a", "b"]


@pytest.mark.parametrize("status", ["Releasing", "Unknown", "Reserved", "Succeeded"])
def test_what_does_not_occupy_is_not_charged_at_open(status: str) -> None:
    of_status = TaskStatus(status)
    base = job("a", "2C1G@n1", "1C1G", minimum=2)
    place = None if of_status is TaskStatus.SUCCEEDED else "n1"
    tasks = [evolve(base.tasks[0], status=of_status, node_name=place), base.tasks[1]]
    of = opened(cluster([node("n1", "4C8G")], evolve(base, tasks=tasks)), ["drf"])
    assert key(of, "a") == 0


def test_shares_follow_placements_evictions_and_their_undoing() -> None:
    of = opened(four(), ["drf"])
    n1, n2 = of.nodes
    before = dump(of)
    with of.statement() as statement:
        statement.allocate(of.task("a-3"), n1)
        assert key(of, "a") == 0.4
        statement.evict(of.task("a-1"), claimant=of.task("c-1"))
        assert key(of, "a") == 0.2
        statement.pipeline(of.task("c-1"), n1)
        assert key(of, "c") == 0.1
        statement.promise(of.task("c-2"), n2)
        assert key(of, "c") == 0.2
        statement.reserve(of.task("b-2"), n2)
        assert key(of, "b") == 0.4  # reserving charges nothing
    assert dump(of) == before


def test_a_job_may_take_from_those_that_would_still_have_as_much() -> None:
    of = opened(four(), ["drf"])
    plugin = plugin_object(of, "drf")
    a1, a2, b1 = of.task("a-1"), of.task("a-2"), of.task("b-1")
    # c would have 0.1. Without a-2 a has 0.2: victim; without a-1 too, 0: pass; b without b-1 0.
    assert list(plugin.preemptable(of.task("c-1"), [a2, a1, b1])) == [V, P, P]
    # In the other order: a has 0.1 without a-1, which is as much; then 0 without a-2.
    assert list(plugin.preemptable(of.task("c-1"), [a1, a2])) == [V, P]
    # A candidate that passes is not charged.
    assert list(plugin.preemptable(of.task("c-1"), [b1, a1, a2])) == [P, V, P]


def test_the_claimants_own_share_counts_with_its_claim() -> None:
    of = opened(four(), ["drf"])
    plugin = plugin_object(of, "drf")
    # b would have 0.45 (9 of 20 GiB).
    assert list(plugin.preemptable(of.task("b-2"), [of.task("a-2")])) == [P]


@pytest.mark.parametrize(
    ("left", "verdict"), [(1_001_000, V), (1_000_100, V), (999_900, P), (2_000_000, V)]
)
def test_shares_that_differ_by_a_millionth_are_equal(left: int, verdict: Verdict) -> None:
    def asking(of: JobInfo, *cpus: int) -> JobInfo:
        pairs = zip(of.tasks, cpus, strict=True)
        return evolve(of, tasks=[evolve(t, resreq=Resource(milli_cpu=cpu)) for t, cpu in pairs])

    billion = evolve(node("n1", ""), allocatable=Resource(milli_cpu=1_000_000_000, memory=1))
    a = asking(job("a", "@n1", "@n1", minimum=1), left, 7)
    c = asking(job("c", ""), 1_001_000)  # a share of 0.001001
    of = opened(cluster([billion], a, c), ["drf"])
    plugin = plugin_object(of, "drf")
    assert list(plugin.preemptable(of.task("c-1"), [of.task("a-2")])) == [verdict]


def test_shares_that_differ_by_just_a_millionth_are_equal() -> None:
    million = evolve(node("n1", ""), allocatable=Resource(milli_cpu=1_000_000, memory=1))
    a, c = job("a", "@n1", minimum=1), job("c", "")
    one = Resource(milli_cpu=1)
    jobs = [evolve(of, tasks=[evolve(of.tasks[0], resreq=one)]) for of in (a, c)]
    of = opened(cluster([million], *jobs), ["drf"])
    # Without a-1, a has nothing; with c-1, c has a share of exactly 1e-6.
    assert list(plugin_object(of, "drf").preemptable(of.task("c-1"), [of.task("a-1")])) == [V]
