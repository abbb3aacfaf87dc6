"""The scenarios D17 to D22 and D26: gangs that lost tasks, loans called in, room that is cured."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import action, bound, cluster, evicted, job, node, places
from tests.support.cycles import Cycles

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Tier,
)

ACTIONS = ("allocate", "reclaim", "preempt", "backfill")
GPU = "nvidia.com/gpu"


def gang(at_minimum: str = "whole-job") -> dict[str, Any]:
    return {"name": "gang", "arguments": {"atMinimum": at_minimum}}


def decide(
    *actions: Any, first: Any = ("priority",), shares: str = "capacity", **more: str
) -> Scheduler:
    drf = {"name": "drf", "enablePreemptable": False}
    tiers = [
        {"plugins": [*first, gang(**more), "conformance"]},
        {"plugins": [drf, "predicates", shares, "nodeorder"]},
    ]
    return Scheduler(SchedulerConfig.from_mapping({"actions": actions or ACTIONS, "tiers": tiers}))


def with_queues(snapshot: Snapshot, *queues: Queue) -> Snapshot:
    return evolve(snapshot, queues=queues)


def deserves(name: str, cpus: int, **more: Any) -> Queue:
    return Queue(name=name, deserved=Resource(milli_cpu=1000 * cpus), **more)


def as_it_ends(using: Scheduler, start: Snapshot, *, cycles: int = 12) -> tuple[list[str], Cycles]:
    """Everybody who was evicted, in order, and the cluster in the end."""
    living = Cycles(using, start)
    gone: list[str] = []
    for _ in range(cycles):
        gone += evicted(living.cycle())
        living.step()
    return gone, living


def running(living: Cycles) -> set[str]:
    return {
        task.uid
        for one in living.snapshot.jobs
        for task in one.tasks
        if task.status is TaskStatus.RUNNING
    }


def in_groups(of: JobInfo) -> JobInfo:
    """The same gang as a job with one group."""
    groups = [TaskGroup("g", min=of.min_available)]
    return evolve(of, groups=groups, tasks=[evolve(task, group="g") for task in of.tasks])


as_group = pytest.mark.parametrize("shaped", [lambda one: one, in_groups], ids=["job", "group"])


@as_group
def test_d17_a_gang_that_lost_a_task_is_completed_before_other_jobs_start(shaped: Any) -> None:
    snapshot = cluster(
        [node("n1", "3C9G"), node("n2", "1C9G")],
        job("a", "1C1G", creation_time=1),
        shaped(job("g", "1C1G@n1", "1C1G@n1", "1C1G@n1", "1C1G", creation_time=2)),
        job("z", "1C1G", creation_time=3),
        now=10,
    )
    # drf would serve the jobs that hold nothing first.
    assert bound(decide(first=["priority"]).schedule(snapshot)) == {"g-4": "n2"}
    tiers = [{"plugins": [gang(), "drf", "predicates", "capacity"]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers})
    assert bound(Scheduler(config).schedule(snapshot)) == {"g-4": "n2"}
    whole = evolve(snapshot.job("default/g"), min_available=3, groups=())
    whole = evolve(whole, tasks=[evolve(task, group=None) for task in whole.tasks])
    enough = evolve(snapshot, jobs=[snapshot.job("default/a"), whole, snapshot.job("default/z")])
    assert bound(decide().schedule(enough)) == {"a-1": "n2"}


def test_a_gang_of_which_nothing_has_begun_to_run_does_not_go_first() -> None:
    snapshot = cluster(
        [node("n1", "2C9G"), node("n2", "1C9G")],
        job("a", "1C1G"),
        job("g", "1C1G", "1C1G"),
    )
    assert set(bound(decide("allocate").schedule(snapshot))) == {"a-1", "g-1", "g-2"}
    less = evolve(snapshot, nodes=[snapshot.nodes[0]])
    assert bound(decide("allocate").schedule(less)) == {"a-1": "n1"}


@as_group
def test_d18_what_a_broken_gang_lacks_it_claims(shaped: Any) -> None:
    snapshot = with_queues(
        cluster(
            [node("n1", "6C9G")],
            shaped(job("g", "1C1G@n1", "1C1G@n1", "1C1G", queue="a")),
            job("new", "1C1G", queue="a", creation_time=1),
            *(job(f"b{number}", "1C1G@n1", queue="b") for number in range(4)),
            now=10,
        ),
        deserves("a", 3),
        deserves("b", 3),
    )
    first = decide("allocate", "reclaim", "preempt", "backfill").schedule(snapshot)
    assert len(evicted(first)) == 1
    assert evicted(first)[0].startswith("b")
    assert places(first, "g")["g-3"] == "Pipelined n1"
    assert places(first, "new") == {"new-1": "Pending"}
    gone, living = as_it_ends(decide(), snapshot)
    assert len(gone) == 1
    assert {"g-1", "g-2", "g-3"} <= running(living)


@as_group
def test_d19_a_broken_gang_is_the_most_valuable_of_its_queue(shaped: Any) -> None:
    snapshot = with_queues(
        cluster(
            [node("n1", "4C9G")],
            job("x", "1C1G", queue="a"),
            job("y", "1C1G", queue="a"),
            shaped(job("g", "1C1G@n1", "1C1G@n1", "1C1G", queue="b")),
            job("h", "1C1G@n1", queue="b", priority=50),
            job("i", "1C1G@n1", queue="b", priority=50),
        ),
        deserves("a", 2),
        Queue(name="b"),
    )
    gone, living = as_it_ends(decide(), snapshot)
    assert sorted(gone) == ["h-1", "i-1"]
    assert {"g-1", "g-2", "x-1", "y-1"} <= running(living)


@as_group
def test_preempt_takes_a_broken_gang_last_and_only_whole(shaped: Any) -> None:
    """Both may go only as a whole; of equal cost, the one that lacks nothing goes."""
    left = shaped(job("g", "1C1G@n1", "1C1G@n1", "9C9G", creation_time=9))
    whole = job("w", "1C1G@n1", "1C1G@n1", creation_time=1)
    claimant = job("c", "2C1G", priority=9, creation_time=10)
    snapshot = cluster([node("n1", "4C9G")], left, whole, claimant, now=20)
    using = decide("preempt", shares="proportion")
    assert sorted(evicted(using.schedule(snapshot))) == ["w-1", "w-2"]
    alone = evolve(snapshot, jobs=[left, claimant], nodes=[node("n1", "2C9G")])
    assert sorted(evicted(using.schedule(alone))) == ["g-1", "g-2"]
    protecting = decide("preempt", shares="proportion", at_minimum="protect")
    assert evicted(protecting.schedule(alone)) == []


def lent(*jobs: JobInfo, cpus: int) -> Snapshot:
    return cluster([node("n1", f"{cpus}C9G")], *jobs)


@pytest.mark.parametrize("at_minimum", ["protect", "whole-job"])
def test_d20_of_loans_called_in_surplus_goes_before_the_core(at_minimum: str) -> None:
    snapshot = lent(
        job("f", "1C1G@n1*", "1C1G@n1*", minimum=1),
        job("g", "1C1G", "1C1G"),
        cpus=3,
    )
    using = decide(action("allocate", evictBackfill=True), at_minimum=at_minimum)
    result = using.schedule(snapshot)
    assert len(evicted(result)) == 1
    assert sorted(places(result, "g").values()) == ["Allocated n1", "Pipelined n1"]


@pytest.mark.parametrize(
    ("at_minimum", "goes"), [("protect", ["low-2"]), ("whole-job", ["more-2"])]
)
def test_d26_surplus_goes_before_a_job_that_is_worth_less(at_minimum: str, goes: list[str]) -> None:
    def lends(name: str, minimum: int, priority: int) -> JobInfo:
        one = job(name, "1C1G@n1*", "1C1G@n1*", minimum=minimum, priority=priority)
        return evolve(one, tasks=[evolve(task, priority=priority) for task in one.tasks])

    snapshot = lent(lends("low", 2, 1), lends("more", 1, 5), job("g", "1C1G", "1C1G"), cpus=5)
    using = decide(action("allocate", evictBackfill=True), at_minimum=at_minimum)
    assert evicted(using.schedule(snapshot)) == goes


def test_a_replica_that_was_lent_goes_before_a_whole_job_and_only_whole() -> None:
    def lends(name: str, **more: Any) -> JobInfo:
        one = job(name, *["1C1G@n1*"] * 4, minimum=0, **more)
        groups = [TaskGroup("x", min=2), TaskGroup("y", min=2)]
        tasks = [evolve(t, group="x" if number < 2 else "y") for number, t in enumerate(one.tasks)]
        return evolve(one, groups=groups, tasks=tasks)

    snapshot = lent(
        lends("r", min_groups=1, priority=5), lends("w"), job("g", *["1C1G"] * 2), cpus=9
    )
    calls_in = action("allocate", evictBackfill=True)
    result = decide(calls_in).schedule(snapshot)
    assert sorted(evicted(result)) == ["r-3", "r-4"]
    # Where jobs are not evicted as a whole, loans are called in one by one.
    result = decide(calls_in, at_minimum="protect").schedule(snapshot)
    assert evicted(result) == ["w-4"]


def test_d21_what_nobody_asks_for_keeps_nobody_from_displacing() -> None:
    held = TaskInfo(
        uid="d", name="d", resreq=Resource(scalars={GPU: 1000}), node_name="n1",
        status=TaskStatus.RUNNING,
    )  # fmt: skip
    snapshot = cluster(
        [NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000, memory=9 << 30))],
        job("big", "2C1G", "2C1G", priority=10),
        job("small", "1C1G"),
    )
    snapshot = evolve(snapshot, other_tasks=[held])
    actions = (action("allocate", unready="hold"), action("backfill", strategy="displace"))
    assert bound(decide(*actions).schedule(snapshot)) == {"small-1": "n1"}


def test_d22_where_no_tiers_are_named_room_is_cured() -> None:
    snapshot = cluster(
        [node("n1", "4C9G", max_tasks=1)],
        job("low", "1C1G@n1", priority=1),
        job("high", "1C1G", priority=100),
    )
    unnamed = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})
    assert evicted(Scheduler(unnamed).schedule(snapshot)) == ["low-1"]
    again = SchedulerConfig.from_dict(unnamed.to_dict())
    assert evicted(Scheduler(again).schedule(snapshot)) == ["low-1"]
    asked = {"actions": ["allocate", action("preempt", curable=False)]}
    assert not evicted(Scheduler(SchedulerConfig.from_mapping(asked)).schedule(snapshot))
    fewer = [unnamed.tiers[0], Tier(plugins=unnamed.tiers[1].plugins[1:])]
    named = evolve(unnamed, tiers=fewer)
    assert not evicted(Scheduler(named).schedule(snapshot))
