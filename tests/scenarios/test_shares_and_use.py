"""What shares cover, who has used how much, and who starves: each on scratch, plain and living."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import action, cluster, job, node

from batchsched import (
    CycleResult,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
)
from batchsched.live import Cluster, JobArrived, JobRemoved, TaskSucceeded, TimePassed

WHOLE = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}


def config(actions: Any, *plugins: Any) -> SchedulerConfig:
    tiers = [{"plugins": ["priority", WHOLE, "predicates", *plugins]}]
    actions = actions.split(", ") if isinstance(actions, str) else actions
    return SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers})


def cycle(snapshot: Snapshot, policy: SchedulerConfig) -> CycleResult:
    """What is decided, which is the same plain, and on a living cluster."""
    result = Scheduler(policy).schedule(snapshot)
    assert Scheduler(policy, plain=True).schedule(snapshot) == result
    assert Scheduler(policy).attach(Cluster(snapshot)).schedule().full() == result
    return result


def evicted(result: CycleResult) -> set[str]:
    return {eviction.task_uid for eviction in result.evictions}


def cpus(amount: float) -> Resource:
    return Resource(milli_cpu=int(1000 * amount), memory=int(amount * (1 << 30)))


def gpus(amount: float) -> Resource:
    return Resource(milli_cpu=1, scalars={"gpu": int(1000 * amount)})


def asking(made: Any, amount: float) -> Any:
    return evolve(made, tasks=[evolve(task, resreq=gpus(amount)) for task in made.tasks])


# The covers from before a claimant's turn


def test_half_a_gang_that_no_share_covers_does_not_uncover_what_it_evicts() -> None:
    jobs = [
        job("eights", "4C4G", "4C4G", queue="q0"),
        job("lo", "2C2G@n1", queue="q1", priority=1),
        job("hi", "3C3G", "3C3G", queue="q1", priority=100),
    ]
    nodes = [node("n0", "4C4G"), node("n1", "4C4G")]
    snapshot = cluster(nodes, *jobs, queues=("q0", "q1"))
    assert not cycle(snapshot, config("preempt", "capacity")).evictions
    # Two of 2 are covered as well, and more valuable.
    small = evolve(
        snapshot, jobs=[jobs[0], jobs[1], job("hi", "2C2G", "2C2G", queue="q1", priority=100)]
    )
    assert not cycle(small, config("preempt", "capacity")).evictions


def test_what_a_broken_gang_has_got_in_its_turn_uncovers_nobody() -> None:
    """Of 4 that q1 deserves, lo uses 2: the broken gang's one leaves room for it, its three not."""
    jobs = [
        job("theirs", "4C4G", queue="q0"),
        job("lo", "2C2G@n1", queue="q1", priority=1),
        job("hi", "1C1G@n0", "2C2G", "2C2G", queue="q1", priority=100),
    ]
    nodes = [node("n0", "3C3G"), node("n1", "2C2G"), node("n2", "4C4G")]
    queues = [Queue(name="q0", deserved=cpus(4)), Queue(name="q1", deserved=cpus(3), weight=0)]
    snapshot = evolve(cluster(nodes, *jobs), queues=queues)
    assert not cycle(snapshot, config("preempt", "capacity")).evictions


@pytest.mark.parametrize("preemption", ["shares", "priority"])
def test_a_surplus_task_takes_no_minimum_that_a_share_covers(preemption: str) -> None:
    jobs = [
        job("e", "1C1G@n1", "1C1G", minimum=1, priority=9),
        job("lo", "1C1G@n1", priority=1),
    ]
    snapshot = cluster([node("n1", "2C2G")], *jobs)
    capacity = {"name": "capacity", "arguments": {"preemption": preemption}}
    result = cycle(snapshot, config("preempt", capacity))
    assert evicted(result) == ({"lo-1"} if preemption == "priority" else set())
    if preemption == "shares":
        (report,) = result.pending["e-2"].evictions
        assert report.out == {
            "covered by the fair share of its queue, as the minimum of its job (CoveredByShare)": 1
        }


# Whole units, whatever is asked


def test_who_asks_for_half_a_device_leaves_whole_ones_to_the_others() -> None:
    queues = [
        Queue(name="a", deserved=gpus(1), weight=3),
        Queue(name="b", deserved=gpus(1)),
        Queue(name="c", deserved=gpus(1)),
    ]
    jobs = [
        asking(job("a0", "1C1G@n1", queue="a"), 1),
        asking(job("a1", "1C1G", queue="a"), 1),
        asking(job("b0", "1C1G@n1", queue="b"), 1),
        asking(job("b1", "1C1G@n1", queue="b"), 1),
        asking(job("c0", "1C1G@n1", queue="c"), 0.5),
        asking(job("c1", "1C1G@n1", queue="c"), 0.5),
    ]
    large = evolve(node("n1", "9C9G"), allocatable=Resource(milli_cpu=9000, scalars={"gpu": 4000}))
    snapshot = evolve(cluster([large], *jobs), queues=queues)
    result = cycle(snapshot, config("reclaim", "capacity"))
    assert evicted(result) == {"b1-1"}
    shares = {name: outcome.fair_share.scalars["gpu"] for name, outcome in result.queues.items()}
    assert shares == {"a": 2000, "b": 1000, "c": 1000}


# Who starves under shares


def starving(hi: Any, *, limit: Any = None, held: str = "1C1G@n1") -> tuple[Snapshot, Any]:
    queues = [Queue(name="q", limit=limit), Queue(name="other")]
    lo = job("lo", *[held] * 2, queue="other", minimum=1)
    snapshot = evolve(cluster([node("n1", "2C2G")], lo, hi), queues=queues, now=100)
    return snapshot, config([action("allocate", starvationThreshold=50)], "capacity", "nodeorder")


def reserved(snapshot: Snapshot, policy: SchedulerConfig) -> set[str]:
    return {each.task_uid for each in cycle(snapshot, policy).reserved}


def test_a_starving_job_that_only_the_room_keeps_out_has_nodes_reserved() -> None:
    assert reserved(*starving(job("hi", "1C1G"))) == {"hi-1"}
    half = ResourceLimit(milli_cpu=500)
    assert reserved(*starving(job("hi", "1C1G"), limit=half)) == set()
    assert reserved(*starving(job("hi", "3C3G"))) == set()  # more than there is
    assert reserved(*starving(job("hi", "1C1G", creation_time=60))) == set()


def test_what_a_starving_gang_may_have_is_placed_and_the_rest_reserved() -> None:
    snapshot, policy = starving(job("hi", "1C1G", "1C1G"), held="0.5C0.5G@n1")
    result = cycle(snapshot, policy)
    assert not result.binds
    assert {each.task_uid for each in result.reserved} == {"hi-2"}


def test_with_groups_it_is_the_same() -> None:
    groups = [TaskGroup(name="g", min=2)]
    made = job("hi", "1C1G", "1C1G")
    hi = evolve(made, groups=groups, tasks=[evolve(task, group="g") for task in made.tasks])
    snapshot, policy = starving(hi, held="0.5C0.5G@n1")
    result = cycle(snapshot, policy)
    assert not result.binds
    assert {each.task_uid for each in result.reserved} == {"hi-2"}
    assert reserved(*starving(hi)) == {"hi-1", "hi-2"}


# Past use, and what is held now


@pytest.mark.parametrize(
    "plugins",
    [("capacity", "usage"), ("usage", "capacity"), ("usage", "proportion"), ("usage",)],
)
@pytest.mark.parametrize("scope", ["queues", "users"])
@pytest.mark.parametrize(("alice", "bob", "right"), [(1, 1.01, (4, 4)), (0, 100, (8, 0))])
def test_what_is_held_now_is_use(
    plugins: tuple[str, ...], scope: str, alice: float, bob: float, right: tuple[int, int]
) -> None:
    used = {"alice": cpu_hours(alice), "bob": cpu_hours(bob)}
    of_users = scope == "users"
    jobs = [
        job(f"{user}{n}", "1C1G", queue="q" if of_users else user, user=user)
        for user in used
        for n in range(10)
    ]
    queues = [Queue(name=user, usage=amount) for user, amount in used.items()]
    if of_users:
        queues = [Queue(name="q", usage_by_user=used)]
    snapshot = evolve(cluster([node("n1", "8C99G")], *jobs), queues=queues)
    usage = {"name": "usage", "arguments": {"halfLife": 3600, "scope": scope}}
    given = [usage if name == "usage" else name for name in plugins]
    result = cycle(snapshot, config("allocate", *given))
    counts = [sum(bind.task_uid.startswith(user) for bind in result.binds) for user in used]
    assert tuple(counts) == right


def cpu_hours(amount: float) -> Resource:
    return Resource(milli_cpu=amount * 1000 * 3600)


def test_shares_come_before_past_use_wherever_it_stands() -> None:
    """What a holds is more than its share; however much b used, it is b's turn."""
    jobs = [
        job("r", "2C1G@n1", queue="a"),
        job("x", "1C1G", queue="a"),
        job("y", "1C1G", queue="b"),
    ]
    queues = [
        Queue(name="a", deserved=cpus(1)),
        Queue(name="b", deserved=cpus(1), usage=cpu_hours(9)),
    ]
    snapshot = evolve(cluster([node("n1", "3C9G")], *jobs), queues=queues)
    for plugins in (("capacity", "usage"), ("usage", "capacity")):
        assert [b.task_uid for b in cycle(snapshot, config("allocate", *plugins)).binds] == ["y-1"]


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["queues", "users"])
@pytest.mark.parametrize(("longer", "shorter"), [(3000, 100), (1500, 700), (400, 300)])
def test_users_who_always_want_get_equal_use_whatever_the_lengths_of_their_jobs(
    scope: str, longer: int, shorter: int
) -> None:
    """One user's jobs run up to thirty times as long."""
    names = {"long": longer, "short": shorter}
    of_users = scope == "users"
    usage = {"name": "usage", "arguments": {"halfLife": 4000, "scope": scope}}
    policy = config("allocate", "capacity", usage)
    queues = [Queue(name=name, usage_half_life=4000) for name in ["q"] * of_users or names]
    live = Cluster(Snapshot(nodes=[node("n1", "8C99G")], queues=queues))
    attached = Scheduler(policy).attach(live)
    count, running, used = 0, dict[str, tuple[float, str]](), dict.fromkeys(names, 0.0)
    waiting = dict.fromkeys(names, 0)
    for now in range(0, 40_000, 100):
        ended = [uid for uid, (end, _) in running.items() if end <= now]
        gone = [JobRemoved(f"default/{uid[:-2]}") for uid in ended]
        live.apply(TimePassed(now), *map(TaskSucceeded, ended), *gone)
        for uid in ended:
            del running[uid]
        for name in names:
            for _ in range(8 - waiting[name]):
                count += 1
                waiting[name] += 1
                made = job(f"{name}{count}", "1C1G", queue="q" if of_users else name, user=name)
                live.apply(JobArrived(evolve(made, creation_time=now)))
        result = attached.schedule(reasons=False)
        live.carry_out(result, at_once=True)
        for bind in result.binds:
            name = bind.task_uid.rstrip("0123456789-")
            running[bind.task_uid] = now + names[name], name
            waiting[name] -= 1
        for _, name in running.values():
            used[name] += 100 * (now > 10_000)
    part = used["long"] / sum(used.values())
    assert 0.45 < part < 0.55
