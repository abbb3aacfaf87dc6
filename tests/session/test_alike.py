"""Of jobs and tasks that are alike, one is tried; the others fail as it did, and it is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.books import Opens
from tests.support.clusters import cluster, job, node

from batchsched import (
    ActionOption,
    JobInfo,
    PluginOption,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Tier,
    default_registry,
)
from batchsched.live import Cluster, JobArrived
from batchsched.plugin import TaskState, Verdict

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
    """Counts the tasks for which it is asked who may be evicted, and lets nobody go."""

    refuses_alike = True

    def __init__(self) -> None:
        self.asked_for = set[str]()

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        self.asked_for.add(claimant.uid)
        return [Verdict.PROTECTED] * len(candidates)


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
