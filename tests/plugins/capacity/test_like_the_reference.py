"""The plugin capacity decides what plain loops over everything decide."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import capacity_config, crowded, job, node
from tests.reference import reference_schedule
from tests.support.known import WITHOUT_NEWER

from batchsched import Queue, QueueStatus, Resource, Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import snapshots

ACTIONS = st.lists(
    st.sampled_from(["reclaim", "allocate", "preempt", "backfill"]),
    min_size=1,
    max_size=4,
    unique=True,
)
ORDERS = st.sampled_from(
    [["reclaim"], ["reclaim", "allocate"], ["allocate", "reclaim", "preempt"], ["preempt"]]
)
ARGUMENTS = st.sampled_from(
    [
        {},
        {},
        {},
        {"tolerance": 0.5},
        {"level": True},
        {"level": True, "tolerance": 0.25},
        {"order": "graded"},
        {"order": "graded", "level": True},
    ]
)

SNAPSHOTS = snapshots(
    max_queues=6, reservations=False, affinity=False, always=["trees"], **WITHOUT_NEWER
)


def decided_by_both(snapshot: Snapshot, conf: dict[str, object]) -> None:
    expected = reference_schedule(snapshot, conf)
    result = Scheduler(SchedulerConfig.from_mapping(conf)).schedule(snapshot)
    assert result.evictions == expected.evictions
    assert result.binds == expected.binds
    assert result.pipelined == expected.pipelined
    assert result.tasks == expected.tasks
    assert {u: j.phase for u, j in result.jobs.items()} == {
        u: j.phase for u, j in expected.jobs.items()
    }


@settings(max_examples=50)
@given(SNAPSHOTS, ACTIONS, st.sampled_from(["whole-job", "protect"]), ARGUMENTS)
def test_a_cycle_on_a_tree_of_queues(
    snapshot: Snapshot, actions: list[str], at_minimum: str, arguments: dict[str, object]
) -> None:
    decided_by_both(snapshot, capacity_config(*actions, at_minimum=at_minimum, **arguments))


@settings(max_examples=50)
@given(
    crowded(states=True), ORDERS, st.sampled_from(["whole-job", "whole-job", "protect"]), ARGUMENTS
)
def test_clusters_where_most_is_used(
    snapshot: Snapshot, actions: list[str], at_minimum: str, arguments: dict[str, object]
) -> None:
    decided_by_both(snapshot, capacity_config(*actions, at_minimum=at_minimum, **arguments))


def test_backfill_goes_for_cpus_though_its_queue_has_too_much_memory_alone() -> None:
    gib = 1 << 30
    jobs = [job("q1", "claimant"), job("q3", "n1", 2, on="n1"), job("q3", "n2", 2, on="n2")]
    first, second = jobs[2].tasks
    jobs[2] = evolve(jobs[2], tasks=[first, evolve(second, is_backfill=True)])
    jobs = [
        evolve(one, tasks=[evolve(t, resreq=evolve(t.resreq, memory=gib)) for t in one.tasks])
        for one in jobs
    ]
    reserved = Resource(milli_cpu=3000, memory=2 * gib)
    queues = [
        Queue(name="q1"),
        Queue(name="q2", state=QueueStatus.DRAINING),
        Queue(name="q3", parent="q2", guarantee=reserved),
    ]
    nodes = [
        evolve(each, allocatable=evolve(each.allocatable, memory=4 * gib))
        for each in (node("n1", 2), node("n2", 2))
    ]
    snapshot = Snapshot(nodes=nodes, queues=queues, jobs=jobs)
    conf = capacity_config("reclaim")
    decided_by_both(snapshot, conf)
    result = Scheduler(SchedulerConfig.from_mapping(conf)).schedule(snapshot)
    assert [eviction.task_uid for eviction in result.evictions] == ["n2-01"]
