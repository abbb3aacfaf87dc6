"""Of jobs and tasks that are alike, one is tried; the others fail as it did, and it is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.books import Opens
from tests.support.clusters import cluster, job, node

from batchsched import (
    ActionOption,
    CycleResult,
    JobInfo,
    PluginOption,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Tier,
    Unfit,
    UnfitReason,
    default_registry,
)
from batchsched.live import Cluster, JobArrived
from batchsched.plugin import Need, NodeSet, SessionView, TaskState, Verdict

ACTIONS = ("allocate, preempt", "allocate, reclaim, preempt", "preempt, allocate, backfill")
SIZES = st.sampled_from(["1C1G", "1C1G", "2C1G", "1C2G"])


@st.composite
def gangs(draw: st.DrawFn) -> Snapshot:
    """Gangs of many tasks, most of them alike, on nodes that are nearly full."""
    nodes = [node(f"n{at}", draw(st.sampled_from(["3C3G", "5C5G"]))) for at in range(4)]
    jobs: list[JobInfo] = []
    for at, each in enumerate(nodes):
        size = int(each.allocatable.milli_cpu) // 1000 - draw(st.integers(0, 2))
        tasks = ["1C1G@" + each.name] * size
        minimum, priority = draw(st.integers(0, size)), draw(st.integers(0, 2))
        queue = draw(st.sampled_from("qr"))
        jobs.append(job(f"on-{at}", *tasks, minimum=minimum, priority=priority, queue=queue))
    for at in range(draw(st.integers(1, 4))):
        sizes = [draw(SIZES)] * draw(st.integers(1, 9)) + draw(st.lists(SIZES, max_size=4))
        minimum, priority = draw(st.integers(1, len(sizes))), draw(st.integers(0, 3))
        queue = draw(st.sampled_from("qr"))
        waits = job(f"waits-{at}", *sizes, minimum=minimum, priority=priority, queue=queue)
        ranks = draw(st.lists(st.integers(0, 1), min_size=len(sizes), max_size=len(sizes)))
        if draw(st.booleans()):
            tasks = [evolve(t, priority=rank) for t, rank in zip(waits.tasks, ranks, strict=True)]
            waits = evolve(waits, tasks=tasks)
        jobs.append(waits)
    return cluster(nodes, *jobs, queues="qr")


@given(gangs(), st.sampled_from(ACTIONS), st.booleans())
def test_what_is_alike_fails_as_if_it_were_tried(
    snapshot: Snapshot, actions: str, has_tiers: bool
) -> None:
    tiers = [{"plugins": ["priority", "gang", "drf", "predicates", "proportion", "nodeorder"]}]
    config = SchedulerConfig.from_mapping(
        {"actions": actions, **({"tiers": tiers} if has_tiers else {})}
    )
    fast, plain = Scheduler(config), Scheduler(config, plain=True)
    assert fast.schedule(snapshot) == plain.schedule(snapshot)
    living = Cluster(evolve(snapshot, jobs=[]))
    schedules = fast.attach(living), Scheduler(config, plain=["attempts"]).attach(living)
    living.apply(*map(JobArrived, snapshot.jobs))
    for _ in range(2):
        result, expected = (each.schedule() for each in schedules)
        assert result == expected
        living.carry_out(result, at_once=True)


class _Counts:
    """Counts the tasks for which it is asked who may be evicted, and says the same of all."""

    refuses_alike = True

    def __init__(self, verdict: Verdict = Verdict.PROTECTED) -> None:
        self.verdict = verdict
        self.asked_for = set[str]()

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        self.asked_for.add(claimant.uid)
        return [self.verdict] * len(candidates)


@pytest.mark.parametrize(("priorities", "asked"), [([0], 1), ([5, 5, 4, 3], 4)])
def test_who_may_go_is_asked_once_for_tasks_that_are_alike(
    priorities: Sequence[int], asked: int
) -> None:
    counts = _Counts()
    registry = default_registry()
    registry.register_plugin("counts", lambda _: Opens(counts))
    config = SchedulerConfig(
        actions=[ActionOption(name="preempt")],
        tiers=[Tier(plugins=[PluginOption(name="counts"), PluginOption(name="gang")])],
    )
    waits = job("waits", *["1C1G"] * 20)
    ranks = chain(priorities, repeat(0))
    tasks = [evolve(task, priority=rank) for task, rank in zip(waits.tasks, ranks, strict=False)]
    snapshot = cluster(
        [node("n1", "4C4G")], job("runs", *["1C1G@n1"] * 4), evolve(waits, tasks=tasks)
    )
    result = Scheduler(config, registry).schedule(snapshot)
    assert len(counts.asked_for) == asked
    assert {len(reason.evictions) for reason in result.pending.values()} == {1}


def decided_alive(
    snapshot: Snapshot, action: str, *plugins: str, own: object = None
) -> CycleResult:
    """What a living cluster decides, where jobs of any size are told apart, and plainly, too."""
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(own))
    names = [*plugins, *(["own"] if own is not None else [])]
    config = SchedulerConfig(
        actions=[ActionOption(name=action)],
        tiers=[Tier(plugins=[PluginOption(name=name) for name in names])],
    )
    living = Cluster(snapshot)
    result = Scheduler(config, registry).attach(living).schedule()
    plain = Scheduler(config, registry, plain=["attempts"])
    assert plain.attach(living).schedule() == result
    return result


def waits(name: str, *sizes: str, **more: Any) -> JobInfo:
    return job(name, *(sizes or ["1C1G"]), priority=5, **more)


FULL = (node("n1", "1C1G"), job("runs", "1C1G@n1", minimum=0))


def test_a_job_that_may_not_claim_yet_says_nothing_of_later_ones_that_may() -> None:
    """The first two may claim only 20 s after they could start; the last has waited longer."""
    times = {"a": (0.0, 95.0), "b": (1.0, 95.0), "c": (2.0, 2.0)}
    jobs = [
        waits(name, creation_time=created, eligible_time=eligible, claim_delay=20)
        for name, (created, eligible) in times.items()
    ]
    snapshot = cluster([FULL[0]], FULL[1], *jobs, now=100)
    result = decided_alive(snapshot, "preempt", "priority", "gang", "protection")
    assert [each.for_task_uid for each in result.evictions] == ["c-1"]


def test_a_job_that_may_claim_says_nothing_of_later_ones_that_may_not_yet() -> None:
    times = {"a": 0.0, "b": 1.0, "c": 95.0}
    jobs = [waits(name, creation_time=at, claim_delay=20) for name, at in times.items()]
    stays = job("runs", "1C1G@n1", priority=9)
    snapshot = cluster([FULL[0]], stays, *jobs, now=100)
    result = decided_alive(snapshot, "preempt", "priority", "gang", "protection")
    (report,) = result.pending["c-1"].evictions
    assert [refusal.until for refusal in report.refusals] == [115.0]


def test_each_of_many_that_may_never_claim_is_told_so() -> None:
    jobs = [waits(name, preempts=False) for name in "abcd"]
    result = decided_alive(
        cluster([FULL[0]], FULL[1], *jobs), "preempt", "priority", "gang", "protection"
    )
    assert all("it never preempts" in reason.text for reason in result.pending.values())
    assert len(result.pending) == 4


class _OffersNoSet:
    refuses_alike = True

    def candidate_nodes(self, _need: Need, _within: NodeSet, /) -> Iterable[NodeSet] | Unfit:
        return Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="own", detail="no set at all")


def test_each_of_many_for_which_there_is_no_set_is_told_so() -> None:
    jobs = [waits(name) for name in "abcd"]
    result = decided_alive(
        cluster([FULL[0]], FULL[1], *jobs), "preempt", "priority", "gang", own=_OffersNoSet()
    )
    assert ["no set at all" in reason.text for reason in result.pending.values()] == [True] * 4


def test_gangs_fail_alike_although_others_moved_for_part_of_one() -> None:
    """x moves to n2 for a task of 8; then nothing is left for one of 4, and x moves back.

    Of the third gang, all that is known by then, so nobody is asked whether x may move for it.
    """
    opened: list[_Counts] = []

    def opens(_view: SessionView) -> _Counts:
        opened.append(_Counts(Verdict.VICTIM))
        return opened[-1]

    runs = [job("x", "2C2G@n1"), job("y", "5C5G@n2"), job("z", "5C5G@n3")]
    claimants = [waits(name, "8C8G", "4C4G") for name in "abc"]
    snapshot = cluster([node(f"n{at}", "8C8G") for at in (1, 2, 3)], *runs, *claimants)
    result = decided_alive(snapshot, "consolidate", "priority", "gang", own=opens)
    assert not result.moves
    assert len(result.pending) == 6
    by_shortcuts, plainly = opened
    assert by_shortcuts.asked_for == {"a-1", "a-2", "b-1", "b-2"}
    assert plainly.asked_for == {"a-1", "a-2", "b-1", "b-2", "c-1", "c-2"}
