"""Leaders and workers, and room for what follows: who must be near whom finds a domain for all."""

from __future__ import annotations

from attrs import evolve
from tests.support.racks import (
    GPU,
    RACKS,
    ZONES,
    Action,
    config,
    counts,
    cycle,
    decided,
    in_racks,
    in_zones,
    job,
    node,
    option,
    placed,
    tasks,
)

from batchsched import (
    JobInfo,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Resource,
    Scheduler,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TopologyRequest,
    next_snapshot,
)
from batchsched.live import Cluster, JobRemoved


def near(key: str, role: str) -> PodAffinity:
    selector = LabelSelector(match_labels={"role": role})
    return PodAffinity(required=[PodAffinityTerm(topology_key=key, selector=selector)])


def leader(uid: str = "leader", role: str = "leader") -> TaskInfo:
    (task,) = tasks("x", 1)
    return evolve(task, uid=uid, name=uid, labels={"role": role})


def workers(count: int, key: str = "rack", of: str = "leader") -> list[TaskInfo]:
    return tasks("w", count, labels={"role": "worker"}, pod_affinity=near(key, of))


def gang(*members: TaskInfo, request: TopologyRequest | None = None, **more: object) -> JobInfo:
    return job("j", members, request, **more)  # type: ignore[arg-type]


def running(**on: int) -> list[JobInfo]:
    return [
        job(f"{name}-{n}", tasks(f"{name}{n}", 1, on={0: name}), None, 0, priority=1)
        for name, count in on.items()
        for n in range(count)
    ]


def test_z10_a_leader_goes_where_its_worker_has_room_too() -> None:
    for members in ([leader(), *workers(1)], [*workers(1), leader()]):
        assert counts(cycle(in_racks(1, 2), [gang(*members)])) == {"n2": 2}


def test_z10_evictions_are_where_the_worker_has_room_too() -> None:
    for action in ("preempt",):
        for members in ([leader(), *workers(1)], [*workers(1), leader()]):
            full = [*running(n1=1, n2=2), gang(*members, priority=9)]
            result = cycle(in_racks(1, 2), full, RACKS, "allocate", action)
            assert sorted(each.node_name for each in result.evictions) == ["n2", "n2"]


def test_leaders_and_workers_of_two_parts_each_find_their_rack() -> None:
    first = [leader("l1", "a"), *workers(2, of="a")]
    second = [leader("l2", "b"), *[evolve(w, uid=f"v{w.uid}") for w in workers(1, of="b")]]
    result = cycle(in_racks(1, 2, 3), [gang(*first, *second)])
    assert counts(result) == {"n2": 2, "n3": 3}
    assert placed(result)["l1"] == "n3"


def test_parts_are_placed_once_more_in_reverse() -> None:
    cpu = Resource(milli_cpu=1000)
    second = [evolve(task, uid=f"v{task.uid}", resreq=cpu) for task in workers(1, of="b")]
    members = [leader("l1", "a"), *workers(2, of="a"), leader("l2", "b"), *second]
    first, other = in_racks(3, 3)
    nodes = [evolve(first, allocatable=Resource(milli_cpu=1000, scalars={GPU: 3000})), other]
    result = cycle(nodes, [gang(*members)])
    assert placed(result)["l2"] == placed(result)["vw00"] == "n1"


def test_a_worker_whose_leader_runs_elsewhere_goes_there_as_ever() -> None:
    there = job("there", [evolve(leader(), uid="other")], None)
    first = Snapshot(
        nodes=in_racks(4, 4), jobs=[there], queues=[Queue(name="q")], topologies=[RACKS]
    )
    after = next_snapshot(first, decided(first), now=1.0)
    where = next(t.node_name for t in after.jobs[0].tasks)
    result = decided(evolve(after, jobs=[*after.jobs, gang(leader(), *workers(2))]))
    assert {placed(result)[w.uid] for w in workers(2)} == {where}


def test_where_the_first_leader_has_no_room_for_workers_another_one_may() -> None:
    small, large = leader("l1"), leader("l2")
    pinned = [
        evolve(small, node_selector={"rack": "r1"}),
        evolve(large, node_selector={"rack": "r2"}),
    ]
    result = cycle(in_racks(1, 3), [gang(*pinned, *workers(2))])
    assert counts(result) == {"n1": 1, "n2": 3}


def test_leaders_and_workers_within_a_required_zone() -> None:
    request = TopologyRequest("net", required="zone")
    members = [leader(), *workers(2), *tasks("o", 1)]
    result = cycle(in_zones(A=(1, 1, 1, 1), B=(1, 3)), [gang(*members, request=request)], ZONES)
    assert counts(result) == {"B1": 1, "B2": 3}
    full = [
        *running(A1=1, A2=1, A3=1, A4=1, B1=1, B2=3),
        gang(*members, request=request, priority=9),
    ]
    evicted = cycle(in_zones(A=(1, 1, 1, 1), B=(1, 3)), full, ZONES, "allocate", "preempt")
    assert sorted(each.node_name for each in evicted.evictions) == ["B1", "B2", "B2", "B2"]


def test_a_leader_and_workers_of_other_groups_find_one_rack() -> None:
    groups = [TaskGroup("leader", min=1), TaskGroup("workers", min=2)]
    members = [evolve(leader(), group="leader"), *[evolve(w, group="workers") for w in workers(2)]]
    wanted = JobInfo(name="j", queue="q", tasks=members, groups=groups, min_available=0)
    assert counts(cycle(in_racks(1, 3, 1), [wanted])) == {"n2": 3}


def test_nodes_are_reserved_for_a_leader_and_its_worker_in_one_rack() -> None:
    busy = running(n1=1, n2=2, n3=1)
    starves = option("allocate", starvationThreshold=0)
    reserve = option("reserve", starvingJobTimeThreshold=0, reservedNodePercent=100)
    actions: list[tuple[Action, ...]] = [(starves,), ("allocate", reserve)]
    for given in actions:
        result = cycle(in_racks(1, 2, 1), [*busy, gang(leader(), *workers(1))], RACKS, *given)
        assert {each.node_name for each in result.reserved} <= {"n2"}


def test_z11_what_may_follow_has_room_in_the_block_if_not_in_the_rack() -> None:
    nodes = in_zones(m0=(1, 1), m1=(1,))
    for request in (
        TopologyRequest("net", required="zone", preferred="rack"),
        TopologyRequest("net", preferred="rack"),
    ):
        given = Snapshot(
            nodes=nodes,
            jobs=[job("j", tasks("t", 2), request, 1)],
            queues=[Queue(name="q")],
            topologies=[ZONES],
        )
        assert {name[:2] for name in counts(decided(given))} == {"m0"}
        assert sum(counts(decided(given)).values()) == 2


def test_z12_unlike_tasks_that_follow_have_room_in_the_rack() -> None:
    selector = LabelSelector(match_labels={"app": "x"})
    apart = PodAffinity(required=[PodAffinityTerm(topology_key="host", selector=selector)])
    half = Resource(scalars={"nvidia.com/gpu": 500})
    both = tasks("t", 2, labels={"app": "x"}, pod_anti_affinity=apart)
    members = [evolve(task, resreq=half) for task in both]
    nodes = [node(f"h{n}", 1, rack=rack, host=f"h{n}") for n, rack in enumerate(("b", "a", "a"))]
    wanted = job("j", members, TopologyRequest("net", required="rack"), 1)
    assert set(counts(cycle(nodes, [wanted], RACKS))) == {"h1", "h2"}


def test_what_follows_goes_to_the_rack_nearest_to_the_rest() -> None:
    nodes = in_zones(A=(1, 3), B=(9,))
    request = TopologyRequest("net", preferred="rack")
    wanted = job("j", tasks("t", 3, on={0: "A1"}), request, 3)
    assert counts(cycle(nodes, [wanted], ZONES)) == {"A2": 2}


def test_leaders_and_workers_start_on_a_living_cluster_as_room_comes() -> None:
    wanted = gang(leader(), *workers(1))
    jobs = [*running(n2=1), wanted]
    queues = [Queue(name="q")]
    cluster = Cluster(Snapshot(nodes=in_racks(1, 2), jobs=jobs, queues=queues, topologies=[RACKS]))
    living = Scheduler(config("allocate")).attach(cluster)
    for _ in range(2):
        assert living.schedule().binds == ()
    cluster.apply(JobRemoved("default/n2-0"))
    assert {bind.node_name for bind in living.schedule().binds} == {"n2"}


def test_a_worker_says_that_it_waits_for_its_leader() -> None:
    result = cycle(in_racks(1, 1, 1), [gang(leader(), *workers(1), *tasks("o", 1))])
    reason = result.pending["w00"]
    assert "it waits for task 'leader' of its job, which it must be near" in str(reason)
    assert reason.behind_task == "leader"
