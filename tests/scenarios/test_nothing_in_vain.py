"""The scenarios V1 to V12: nobody is evicted for a promise that cannot be kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from attrs import evolve
from tests.support.clusters import cluster, evicted, job, node, places
from tests.support.cycles import Cycles
from tests.support.invariants import check_decisions

from batchsched import (
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskStatus,
    UnfitReason,
)
from batchsched.tools import check_config

CPU = "1C0G"
SHARES = {"preempt": (), "reclaim": ("capacity",)}


def terms(app: str, key: str = "zone") -> PodAffinity:
    selector = LabelSelector(match_labels={"app": app})
    return PodAffinity(required=[PodAffinityTerm(selector=selector, topology_key=key)])


def in_zones(zones: str, *sizes: str) -> list[NodeInfo]:
    """Nodes n1, n2, ... in the zones that the letters name."""
    return [
        node(f"n{i}", size, labels={"zone": zone})
        for i, (zone, size) in enumerate(zip(zones, sizes or [CPU] * len(zones), strict=True), 1)
    ]


def labelled(one: JobInfo, app: str = "", **constraints: Any) -> JobInfo:
    more = {"labels": {"app": app or one.name}, **constraints}
    return evolve(one, tasks=[evolve(task, **more) for task in one.tasks])


def low(nodes: Iterable[NodeInfo], queue: str = "q") -> list[JobInfo]:
    """A job of one task on each node."""
    return [
        labelled(job(f"lo{i}", f"1C0G@{each.name}", priority=1, queue=queue), "lo")
        for i, each in enumerate(nodes, 1)
    ]


def gang(*requests: str, **constraints: Any) -> JobInfo:
    return labelled(job("g", *requests, priority=100), **constraints)


APART = {"pod_anti_affinity": terms("g")}
TOGETHER = {"pod_affinity": terms("g")}


def scheduler(action: str, *, named: bool, plain: bool = False) -> Scheduler:
    actions = f"allocate, {action}" if action == "preempt" else f"{action}, allocate"
    conf: dict[str, Any] = {"actions": actions}
    if named:
        of_gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
        plugins = ["priority", of_gang, "conformance", "predicates", *SHARES[action], "nodeorder"]
        conf["tiers"] = [{"plugins": plugins}]
    return Scheduler(SchedulerConfig.from_mapping(conf), plain=plain)


def world(nodes: Sequence[NodeInfo], *jobs: JobInfo, action: str) -> Snapshot:
    """In reclaim, all but g is of another queue, which deserves nothing."""
    if action == "preempt":
        return cluster(nodes, *jobs)
    cpus = sum(each.allocatable.milli_cpu for each in nodes)
    moved = [one if one.name == "g" else evolve(one, queue="r") for one in jobs]
    queues = [
        Queue(name="q", deserved=Resource(milli_cpu=cpus)),
        Queue(name="r", deserved=Resource()),
    ]
    return evolve(cluster(nodes, *moved, queues=("q", "r")), queues=queues)


def lived(using: Scheduler, start: Snapshot, cycles: int = 12) -> tuple[list[str], Cycles]:
    """Everybody who was evicted, in order, and the cluster in the end."""
    living, gone = Cycles(using, start), list[str]()
    for _ in range(cycles):
        gone += evicted(living.cycle())
        living.step()
    return gone, living


def on(living: Cycles, name: str) -> list[str]:
    """The nodes where a job runs."""
    found = next(one for one in living.snapshot.jobs if one.name == name)
    return [str(t.node_name) for t in found.tasks if t.status is TaskStatus.RUNNING]


each_way = pytest.mark.parametrize(
    ("action", "named", "plain"),
    [
        (action, named, plain)
        for action in ("preempt", "reclaim")
        for named in (False, True)
        for plain in (False, True)
    ],
)


@each_way
def test_v1_of_tasks_apart_each_gets_a_zone(action: str, named: bool, plain: bool) -> None:
    nodes = in_zones("aab")
    start = world(nodes, *low(nodes), gang(CPU, CPU, **APART), action=action)
    gone, living = lived(scheduler(action, named=named, plain=plain), start)
    assert len(gone) == 2
    zones = {each.name: each.labels["zone"] for each in nodes}
    assert sorted(zones[name] for name in on(living, "g")) == ["a", "b"]


@each_way
def test_v2_nobody_is_evicted_for_tasks_that_must_be_apart_in_one_zone(
    action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("aa")
    start = world(nodes, *low(nodes), gang(CPU, CPU, **APART), action=action)
    gone, living = lived(scheduler(action, named=named, plain=plain), start)
    assert gone == []
    reasons = "; ".join(reason.text for reason in living.cycle().pending.values())
    assert "beside what is promised, 2 are near tasks that keep it away" in reasons


@each_way
def test_v3_nobody_is_evicted_for_tasks_that_must_be_together_in_two_zones(
    action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("ab")
    start = world(nodes, *low(nodes), gang(CPU, CPU, **TOGETHER), action=action)
    gone, _ = lived(scheduler(action, named=named, plain=plain), start)
    assert gone == []


@each_way
def test_v4_never_one_of_each_zone_goes_for_tasks_that_must_be_together(
    action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("aba")
    start = world(nodes, *low(nodes), gang(CPU, CPU, **TOGETHER), action=action)
    gone, living = lived(scheduler(action, named=named, plain=plain), start)
    assert (sorted(gone), sorted(on(living, "g"))) in (
        (["lo1-1", "lo3-1"], ["n1", "n3"]),
        ([], []),
    )


@each_way
def test_v5_the_last_that_a_task_must_be_near_stays(action: str, named: bool, plain: bool) -> None:
    nodes = in_zones("a")
    g = gang(CPU, pod_affinity=terms("lo"))
    gone, _ = lived(
        scheduler(action, named=named, plain=plain), world(nodes, *low(nodes), g, action=action)
    )
    assert gone == []


@each_way
@pytest.mark.parametrize(("size", "expected"), [(CPU, ["lo1-1"]), ("2C0G", [])])
def test_v6_what_repels_is_evicted_only_where_there_is_room_then(
    size: str, expected: list[str], action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("aa", CPU, "0.5C0G")
    g = gang(size, pod_anti_affinity=terms("lo"))
    start = world(nodes, *low(nodes[:1]), g, action=action)
    gone, living = lived(scheduler(action, named=named, plain=plain), start)
    if named:  # without curable, a node that refuses it is not searched
        assert gone == []
    else:
        assert gone == expected
        assert on(living, "g") == ["n1"][: len(expected)]


@each_way
def test_v10_a_worker_before_its_leader_gets_a_place_in_its_zone(
    action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("aab")
    worker, leader = gang(CPU, CPU).tasks
    both = [
        evolve(worker, pod_affinity=terms("leader")),
        evolve(leader, labels={"app": "leader"}),
    ]
    g = evolve(gang(CPU, CPU), tasks=both)
    start = world(nodes, *low(nodes), g, action=action)
    gone, living = lived(scheduler(action, named=named, plain=plain), start)
    assert sorted(gone) == ["lo1-1", "lo2-1"]
    assert sorted(on(living, "g")) == ["n1", "n2"]


@each_way
def test_v11_who_may_not_go_with_the_others_is_passed_over(
    action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("a", "3C0G")
    others = [
        labelled(job(name, "1C0G@n1", priority=1), app, creation_time=at)  # the last goes first
        for name, app, at in (("s1", "s", 3), ("s2", "s", 2), ("x", "x", 1))
    ]
    g = gang("2C0G", pod_affinity=terms("s"))
    using = scheduler(action, named=named, plain=plain)
    gone, living = lived(using, world(nodes, *others, g, action=action))
    assert gone == ["s1-1", "x-1"]
    assert on(living, "g") == ["n1"]


@each_way
def test_v12_a_gang_apart_takes_the_idle_place_or_none(
    action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("aab", "2C0G", CPU, CPU)
    lows = [
        labelled(job("lo1", "1C0G@n1", "1C0G@n1", minimum=1, priority=1), "lo"),
        labelled(job("lo3", "1C0G@n3", priority=1), "lo"),
    ]
    g = gang("2C0G", CPU, **APART)
    using = scheduler(action, named=named, plain=plain)
    first = using.schedule(world(nodes, *lows, g, action=action))
    assert places(first, "g") == {"g-1": "Pipelined n1", "g-2": "Pipelined n3"}
    assert sorted(evicted(first)) == ["lo1-1", "lo1-2", "lo3-1"]


@each_way
def test_a_claim_does_not_take_what_its_own_first_promise_stands_beside(
    action: str, named: bool, plain: bool
) -> None:
    nodes = in_zones("a", "2C0G")
    others = [
        labelled(job(name, "1C0G@n1", priority=1, creation_time=at), name)
        for name, at in (("s", 1), ("x", 2))
    ]
    first, second = gang(CPU, CPU).tasks
    g = evolve(gang(), min_available=2, tasks=[evolve(first, pod_affinity=terms("s")), second])
    start = world(nodes, *others, g, action=action)
    gone, _ = lived(scheduler(action, named=named, plain=plain), start)
    assert gone == []


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_a_later_claim_does_not_take_what_an_earlier_one_stands_beside(
    named: bool, plain: bool
) -> None:
    nodes = in_zones("ab", "2C0G", "4C0G")
    pair = labelled(job("pair", "2C0G@n1", "2C0G@n2", priority=1), "y")
    lo = job("lo", "1C0G@n2", priority=1, creation_time=1)
    near = labelled(job("near", "2C0G", priority=9), pod_affinity=terms("y"))
    other = job("other", "2C0G", priority=9, creation_time=1)
    using = scheduler("preempt", named=named, plain=plain)
    living = Cycles(using, cluster(nodes, pair, lo, near, other))
    first = living.cycle()
    assert evicted(first) == ["lo-1"]
    assert places(first, "near") == {"near-1": "Pipelined n2"}
    living.step()
    assert places(living.cycle(), "near") == {"near-1": "Binding n2"}


def shared(*actions: str, plain: bool) -> Scheduler:
    tiers = [{"plugins": ["gang", "predicates", "proportion", "nodeorder"]}]
    conf = {"actions": list(actions), "tiers": tiers}
    return Scheduler(SchedulerConfig.from_mapping(conf), plain=plain)


@pytest.mark.parametrize("plain", [False, True])
def test_v8_what_limits_leave_is_dealt_to_the_end(plain: bool) -> None:
    nodes = [node("n1", "100C100G")]
    limits = {"A": (80, 40), "B": (20, 60)}
    queues = [
        Queue(name=name, limit=ResourceLimit(milli_cpu=1000 * cpu, memory=gib << 30))
        for name, (cpu, gib) in limits.items()
    ]
    jobs = [job(name.lower(), "100C100G", queue=name) for name in limits]
    start = evolve(cluster(nodes, *jobs), queues=queues)
    shares = shared("allocate", plain=plain).schedule(start).queues
    deserved = {name: shares[name].fair_share for name in limits}
    assert {name: dict(share.dimensions()) for name, share in deserved.items()} == {
        queue.name: dict(queue.limit.dimensions()) for queue in queues
    }


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("action", ["allocate", "backfill", "reclaim"])
def test_v9_a_gang_waits_for_what_is_guaranteed_to_others(action: str, plain: bool) -> None:
    guarantee = Resource(milli_cpu=19_000, scalars={"nobody.has/it": 1000})
    queues = [Queue(name="q"), Queue(name="res", guarantee=guarantee)]
    start = evolve(cluster([node("n1", "20C20G")], job("g", *[CPU] * 4)), queues=queues)
    result = shared(action, plain=plain).schedule(start)
    assert places(result) == {f"g-{i}": "Pending" for i in range(1, 5)}
    if action == "allocate":
        texts = "; ".join(reason.text for reason in result.pending.values())
        assert "queue 'q' would hold 4 cpu, 3 more than what it deserves beside unused" in texts
    one = evolve(start, jobs=[job("h", CPU)])
    assert places(shared("allocate", plain=plain).schedule(one)) == {"h-1": "Binding n1"}


@each_way
def test_a_promise_beside_a_task_that_has_gone_ends(action: str, named: bool, plain: bool) -> None:
    """What it waited for has left, and so has the only one that it must be near."""
    nodes = in_zones("a")
    waiting = labelled(job("g", "1C0G~n1", priority=100), pod_affinity=terms("lo"))
    using = scheduler(action, named=named, plain=plain)
    beside = labelled(job("lo", "0.5C0G!n1"), "lo")
    kept = using.schedule(world(nodes, beside, waiting, action=action))
    assert [each.task_uid for each in kept.kept_promises] == ["g-1"]
    (ended,) = using.schedule(world(nodes, waiting, action=action)).dropped_promises
    assert ended.reason is not None
    assert ended.reason.reason is UnfitReason.POD_AFFINITY


@each_way
def test_tasks_of_a_gang_that_wait_for_each_other_keep_their_promises(
    action: str, named: bool, plain: bool
) -> None:
    """g-2 must be near g-1, which waits for what is leaving: until then n2 refuses it as it is."""
    nodes = in_zones("aa")
    waiting = labelled(job("g", "1C0G~n1", "1C0G~n2", priority=100))
    near = PodAffinity(required=[terms("leader").required[0]])
    leader, worker = waiting.tasks
    tasks = [evolve(leader, labels={"app": "leader"}), evolve(worker, pod_affinity=near)]
    jobs = evolve(waiting, tasks=tasks), labelled(job("lo", "1C0G!n1"), "lo")
    result = scheduler(action, named=named, plain=plain).schedule(
        world(nodes, *jobs, action=action)
    )
    assert not result.dropped_promises
    assert [each.task_uid for each in result.kept_promises] == ["g-1", "g-2"]


def hold_what_the_other_needs(**more: Any) -> Snapshot:
    """g1 runs on L1 and needs L2, where g2 runs, which needs L1."""
    nodes = [node(name, CPU, labels={"is": name}) for name in ("L1", "L2")]
    jobs = []
    for name, (there, wanted) in {"g1": ("L1", "L2"), "g2": ("L2", "L1")}.items():
        runs, waits = job(name, f"1C0G@{there}", CPU, **more.get(name, {})).tasks
        tasks = [runs, evolve(waits, node_selector={"is": wanted})]
        jobs.append(evolve(job(name, CPU, CPU, **more.get(name, {})), tasks=tasks))
    return cluster(nodes, *jobs, queues=("q", "r"))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("queue", ["q", "r"])
def test_v7_of_two_broken_gangs_that_hold_what_each_other_needs_one_runs(
    queue: str, plain: bool
) -> None:
    start = hold_what_the_other_needs(g2={"queue": queue})
    using = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate, preempt"}), plain=plain)
    check_decisions(start, using.schedule(start), using.config)
    gone, living = lived(using, start)
    assert gone == ["g2-1"]
    assert sorted(on(living, "g1")) == ["L1", "L2"]
    assert on(living, "g2") == []


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ({"unblock": False}, {}),
        ({"maxEvictions": 0}, {}),
        ({"unblock": True}, {"g2": {"namespace": "kube-system"}}),
    ],
)
def test_v7_broken_gangs_stay_where_nobody_may_evict(
    arguments: dict[str, Any], more: dict[str, Any]
) -> None:
    actions = ["allocate", {"name": "preempt", "arguments": arguments}]
    using = Scheduler(SchedulerConfig.from_mapping({"actions": actions}))
    gone, living = lived(using, hold_what_the_other_needs(**more), cycles=4)
    assert gone == []
    pending = living.cycle().pending
    assert {uid: reason.held_by for uid, reason in pending.items()} == {
        "g1-2": (f"{more.get('g2', {}).get('namespace', 'default')}/g2",),
        "g2-2": ("default/g1",),
    }
    says = "it needs room on L2, where that job runs; its own job is incomplete too"
    assert says in pending["g1-2"].text


@pytest.mark.parametrize("actions", ["allocate", "allocate, preempt"])
def test_check_config_names_broken_jobs_that_wait_for_each_other(actions: str) -> None:
    tiers = [{"plugins": ["priority", "gang", "predicates", "nodeorder"]}]
    checked = SchedulerConfig.from_mapping({"actions": actions, "tiers": tiers})
    start = hold_what_the_other_needs()
    (finding,) = (f for f in check_config(checked, start) if f.code.startswith("Broken"))
    assert finding.place == "jobs['default/g1']"
    assert finding.instead is not None
    assert evicted(Scheduler(finding.instead).schedule(start)) == ["g2-1"]
    assert not [f for f in check_config(finding.instead, start) if f.code.startswith("Broken")]


def test_optional_groups_that_hold_what_each_other_needs_are_completed_one_by_one() -> None:
    """Each job runs its core on C, and one task of an optional group of two."""
    start = hold_what_the_other_needs()
    nodes = [*start.nodes, node("C", "2C0G")]
    jobs = []
    for one in start.jobs:
        (core,) = job(f"{one.name}-core", "1C0G@C").tasks
        core = evolve(core, group="core")
        replica = [evolve(task, group="replica") for task in one.tasks]
        groups = [TaskGroup("core", min=1), TaskGroup("replica", min=2)]
        more = {"groups": groups, "min_groups": 1, "min_available": 1}
        jobs.append(evolve(one, tasks=[core, *replica], **more))
    using = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate, preempt"}))
    gone, living = lived(using, evolve(start, nodes=nodes, jobs=jobs))
    assert gone == ["g2-1"]
    assert sorted(on(living, "g1")) == ["C", "L1", "L2"]
    assert on(living, "g2") == ["C"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize("zones", ["aa", "ab"])
def test_a_reason_says_that_tasks_on_other_nodes_of_a_zone_are_in_the_way(
    action: str, zones: str, plain: bool
) -> None:
    """As in Kubernetes, only tasks on a node leave for a place there."""
    nodes = in_zones(zones)
    start = world(nodes, *low(nodes), gang(CPU, pod_anti_affinity=terms("lo")), action=action)
    result = scheduler(action, named=False, plain=plain).schedule(start)
    if zones == "ab":
        assert len(result.evictions) == 1
        return
    assert not result.evictions
    said = "2 nodes would still refuse it, 2 of them for tasks on other nodes, which stay"
    assert said in result.pending["g-1"].text


@pytest.mark.parametrize("plain", [False, True])
def test_promises_near_each_other_alone_are_no_ground(plain: bool) -> None:
    """Were nothing left in a zone that they must be near, neither could start before the other.

    Others are evicted for them one by one: for the first, one of the two that it must be near may
    stay; it stays until the first runs, for the second could not start beside a promise.
    """
    nodes = in_zones("ab", "2C0G", "2C0G")
    old = [job(f"lo{n}", f"1C0G@{on}", priority=1) for n, on in enumerate(("n1", "n1", "n2", "n2"))]
    near = labelled(job("g", CPU, CPU, CPU, priority=9, minimum=1), "x", pod_affinity=terms("x"))
    start = world(nodes, *(labelled(one, "x") for one in old), near, action="preempt")
    gone, living = lived(scheduler("preempt", named=True, plain=plain), start)
    assert len(on(living, "g")) == len(gone) == 3
