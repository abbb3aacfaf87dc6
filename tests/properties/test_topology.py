"""Laws of gangs within one domain, on drawn clusters, by their plain definitions.

What is placed is in one domain with all that the job has there, and each segment is; gangs of like
tasks are placed if any domain holds them, in the narrowest level that has one, in the tightest of
its domains; failed trials leave nothing; evictions are in one domain; the order of the input, and
plugin topology where nobody asks for anything, change nothing. That areas are as few as possible at
each level, and that balanced gangs have the largest minimum: `tests/plugins/topology`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.invariants import check_decisions

from batchsched import (
    ActionOption,
    CycleResult,
    Domain,
    JobInfo,
    NodeInfo,
    PluginOption,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Segment,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Tier,
    Topology,
    TopologyRequest,
    next_snapshot,
)
from batchsched.live import Cluster, JobRemoved, NodeChanged
from batchsched.testing import snapshots

GPU = "nvidia.com/gpu"
LEVELS = ("block", "rack")
NET = Topology("net", LEVELS)
CONFIG = SchedulerConfig(
    actions=[ActionOption(name="allocate")],
    tiers=[
        Tier(
            plugins=[
                PluginOption(name=name)
                for name in ("priority", "gang", "predicates", "nodeorder", "topology")
            ]
        )
    ],
)


def gpus(count: int) -> Resource:
    return Resource(scalars={GPU: 1000 * count})


def option(name: str, **arguments: str | float) -> ActionOption:
    return ActionOption(name=name, arguments=arguments)


RACK = TopologyRequest("net", required="rack")
RESERVE = option("reserve", starvingJobTimeThreshold=0, reservedNodePercent=100)
EVICT = [option("preempt"), option("reclaim")]
ACTIONS = (
    [option("allocate"), option("backfill"), *EVICT],
    [option("allocate"), option("backfill"), RESERVE],
    [option("allocate", starvationThreshold=0), *EVICT],
    [option("allocate", unready="hold"), option("backfill", strategy="release"), *EVICT],
    [option("allocate", unready="hold", starvationThreshold=0), option("backfill")],
    [option("allocate", unready="hold"), option("backfill", strategy="displace")],
    [option("allocate"), option("preempt", unblock="yes", curable="yes")],
    [option("plan", depth="all"), option("backfill"), *EVICT],
)


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeInfo]:
    made: list[NodeInfo] = []
    for place in range(draw(st.integers(1, 7))):
        values = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
        labels = {
            key: f"{key[0]}{value}" for key, value in zip(LEVELS, values, strict=True) if value < 3
        }
        if draw(st.integers(0, 9)) == 0:
            labels.pop(draw(st.sampled_from(LEVELS)))
        made.append(
            NodeInfo(
                name=f"n{place}",
                allocatable=gpus(draw(st.integers(0, 4))),
                labels=labels,
                max_tasks=draw(st.sampled_from([None, None, None, 2])),
                unschedulable=draw(st.integers(0, 9)) == 0,
            )
        )
    return made


@st.composite
def requests(draw: st.DrawFn) -> TopologyRequest | None:
    required = draw(st.sampled_from([None, "block", "rack"]))
    preferred = draw(st.sampled_from([None, *LEVELS[LEVELS.index(required or "block") :]]))
    above = LEVELS.index(preferred or required or "block")
    size = draw(st.sampled_from([0, 0, 2, 3]))
    segments = [Segment(size, draw(st.sampled_from(LEVELS[above:])))] if size else []
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([None, TopologyRequest(required="rack")]))
    return TopologyRequest("net", required=required, preferred=preferred, segments=segments)


@st.composite
def jobs(draw: st.DrawFn, name: str, where: Sequence[NodeInfo]) -> JobInfo:
    count = draw(st.integers(1, 6))
    size = draw(st.sampled_from([1, 1, 1, 2]))
    is_unlike = draw(st.integers(0, 4)) == 0
    has_groups = draw(st.integers(0, 3)) == 0
    request = draw(requests())
    if has_groups and request is not None and request.segments:
        request = None
    groups = [TaskGroup(f"g{n}", min=1, topology=draw(requests())) for n in range(2)]
    if not has_groups or any(g.topology and g.topology.segments for g in groups):
        groups = []
    lost = draw(st.integers(0, 3)) == 0
    tasks = [
        TaskInfo(
            uid=f"{name}-{n}",
            name=f"{name}-{n}",
            resreq=gpus(size + (is_unlike and n % 2)),
            status=TaskStatus.RUNNING if lost and n == 0 else TaskStatus.PENDING,
            node_name=draw(st.sampled_from(where)).name if lost and n == 0 else None,
            group=groups[n % 2].name if groups else None,
        )
        for n in range(count)
    ]
    return (
        JobInfo(
            name=name,
            queue="q",
            tasks=tasks,
            groups=groups if count > 1 else (),
            min_available=draw(st.integers(1, count)) if not groups else 0,
            topology=request,
        )
        if count > 1 or not groups
        else JobInfo(
            name=name, queue="q", tasks=[t for t in tasks if t.group is None], topology=request
        )
    )


@st.composite
def worlds(draw: st.DrawFn, most: int = 3) -> Snapshot:
    made = draw(nodes())
    return Snapshot(
        nodes=made,
        jobs=[draw(jobs(f"j{n}", made)) for n in range(draw(st.integers(1, most)))],
        queues=[Queue(name="q")],
        topologies=[NET],
    )


def where(snapshot: Snapshot, result: CycleResult) -> dict[str, str]:
    """Where tasks are, or are to be, after the cycle."""
    found = {
        task.uid: task.node_name
        for job in snapshot.jobs
        for task in job.tasks
        if task.node_name is not None
    }
    found |= {bind.task_uid: bind.node_name for bind in result.binds}
    return found


def domain(node: NodeInfo, level: str) -> tuple[str, ...] | None:
    values = [node.labels.get(key) for key in LEVELS[: LEVELS.index(level) + 1]]
    return None if None in values else tuple(value or "" for value in values)


@settings(max_examples=40)
@given(worlds())
def test_what_is_placed_of_a_job_with_a_required_level_is_in_one_domain(world: Snapshot) -> None:
    result = Scheduler(CONFIG).schedule(world)
    places = where(world, result)
    for job in world.jobs:
        asked = [(job.topology, job.tasks)]
        asked += [(g.topology, [t for t in job.tasks if t.group == g.name]) for g in job.groups]
        for request, tasks in asked:
            if request is None:
                continue
            here = [t for t in tasks if t.uid in places]
            if request.required is not None and any(t.node_name is None for t in here):
                found = {
                    domain(world.node(places[task.uid]), request.required)
                    if request.topology
                    else world.node(places[task.uid]).labels.get("rack")
                    for task in here
                }
                assert len(found) == 1
                assert None not in found
            for segment in request.segments:
                for first in range(0, len(job.tasks), segment.size):
                    some = job.tasks[first : first + segment.size]
                    in_segment = [t for t in some if t.uid in places]
                    if any(t.node_name is None for t in in_segment):
                        found = {
                            domain(world.node(places[t.uid]), segment.level) for t in in_segment
                        }
                        assert len(found) == 1
                        assert None not in found


@settings(max_examples=40)
@given(worlds())
def test_decisions_are_the_same_plainly_on_a_living_cluster_and_in_any_order(
    world: Snapshot,
) -> None:
    expected = Scheduler(CONFIG).schedule(world)
    plainly = Scheduler(CONFIG, plain=True).schedule(world)
    assert plainly.binds == expected.binds
    assert plainly.jobs == expected.jobs
    assert dict(plainly.pending) == dict(expected.pending)
    cluster = Cluster(world)
    living = Scheduler(CONFIG).attach(cluster)
    first = living.schedule()
    assert first.binds == expected.binds
    cluster.carry_out(first, at_once=True)
    again = Scheduler(CONFIG).schedule(cluster.snapshot())
    assert living.schedule().binds == again.binds
    turned = Snapshot(
        nodes=world.nodes[::-1], jobs=world.jobs[::-1], queues=world.queues, topologies=[NET]
    )
    assert Scheduler(CONFIG).schedule(turned) == expected


def room(node: NodeInfo, used: int, there: int, size: int) -> int:
    """How many tasks of a size a node takes beside what it has."""
    if node.unschedulable:
        return 0
    most = int(node.allocatable.get(GPU)) // 1000 - used
    fits = max(0, most) // size
    return fits if node.max_tasks is None else max(0, min(fits, node.max_tasks - there))


@settings(max_examples=40)
@given(worlds(most=1))
def test_a_gang_of_like_tasks_is_placed_if_any_domain_holds_it_and_in_the_narrowest_level(
    world: Snapshot,
) -> None:
    (job,) = world.jobs
    request = job.topology
    tasks = [t for t in job.tasks if t.status is TaskStatus.PENDING]
    sizes = {t.resreq for t in tasks}
    if (
        request is None
        or request.topology is None
        or request.segments
        or job.groups
        or len(sizes) != 1
        or len(tasks) < len(job.tasks)
    ):
        return
    size = int(tasks[0].resreq.get(GPU)) // 1000
    result = Scheduler(CONFIG).schedule(world)
    placed = [bind for bind in result.binds if bind.task_uid in {t.uid for t in tasks}]
    rooms = {node.name: room(node, 0, 0, size) for node in world.nodes}

    def domains(level: str) -> dict[tuple[str, ...], list[NodeInfo]]:
        found: dict[tuple[str, ...], list[NodeInfo]] = {}
        for node in world.nodes:
            here = domain(node, level)
            if here is not None:
                found.setdefault(here, []).append(node)
        return found

    def holds(some: Sequence[NodeInfo]) -> bool:
        return sum(rooms[node.name] for node in some) >= job.min_available

    narrowest = LEVELS.index(request.preferred or request.required or "block")
    if request.preferred is None and request.required is None:
        narrowest = -1
    widest = -1 if request.required is None else LEVELS.index(request.required)
    for level in range(narrowest, widest - 1, -1):
        all_of = list(domains(LEVELS[level]).values()) if level >= 0 else [list(world.nodes)]
        holding = [some for some in all_of if holds(some)]
        if holding:
            names = {bind.node_name for bind in placed}
            assert len(placed) >= job.min_available
            first = {b.node_name for b in placed[: job.min_available]} if level < 0 else names
            if level >= 0 and len(placed) == job.min_available:
                assert any(first <= {node.name for node in some} for some in holding)
            return
    assert not placed


def with_victims(world: Snapshot) -> Snapshot:
    """The same cluster, with running tasks of low priority on every other node."""
    victims = [
        JobInfo(
            name=f"v-{node.name}-{number}",
            queue="q",
            min_available=0,
            tasks=[
                TaskInfo(
                    uid=f"v-{node.name}-{number}",
                    name="v",
                    resreq=gpus(1),
                    status=TaskStatus.RUNNING,
                    node_name=node.name,
                )
            ],
        )
        for node in world.nodes[::2]
        for number in range(int(node.allocatable.get(GPU)) // 1000 - 1)
    ]
    jobs = [evolve(job, priority=9) for job in world.jobs]
    return evolve(world, jobs=[*jobs, *victims])


@settings(max_examples=40)
@given(worlds())
def test_evictions_for_a_gang_are_in_its_domain_and_decisions_are_the_same_plainly(
    world: Snapshot,
) -> None:
    crowded = with_victims(world)
    actions = [ActionOption(name=name) for name in ("allocate", "backfill", "preempt")]
    config = evolve(CONFIG, actions=actions)
    result = Scheduler(config).schedule(crowded)
    check_decisions(crowded, result, config)
    plainly = Scheduler(config, plain=True).schedule(crowded)
    assert plainly.evictions == result.evictions
    assert plainly.pipelined == result.pipelined
    living = Scheduler(config).attach(Cluster(crowded)).schedule()
    assert living.evictions == result.evictions
    for job in world.jobs:
        if job.topology is None or job.topology.topology is None or job.topology.required is None:
            continue
        mine = {task.uid for task in job.tasks}
        gone = [each.node_name for each in result.evictions if each.for_task_uid in mine]
        assert len({domain(crowded.node(name), job.topology.required) for name in gone}) <= 1


def test_domains_that_overlap_are_tried_as_listed() -> None:
    world = Snapshot(
        nodes=[NodeInfo(name=f"n{n}", allocatable=gpus(1)) for n in range(3)],
        queues=[Queue(name="q")],
        topologies=[
            Topology(
                "rails",
                ["rail"],
                [Domain("rail", "b", ["n1", "n2"]), Domain("rail", "a", ["n0", "n1"])],
            )
        ],
        jobs=[
            JobInfo(
                name="j",
                queue="q",
                min_available=2,
                topology=TopologyRequest("rails", required="rail"),
                tasks=[TaskInfo(uid=f"t{n}", name="t", resreq=gpus(1)) for n in range(2)],
            )
        ],
    )
    result = Scheduler(CONFIG).schedule(world)
    assert sorted(bind.node_name for bind in result.binds) == ["n1", "n2"]


@settings(max_examples=40)
@given(snapshots(topologies=True, always=["topologies"], max_nodes=5), st.sampled_from(ACTIONS))
def test_drawn_clusters_with_racks_keep_all_invariants_and_are_decided_the_same_plainly(
    world: Snapshot, actions: Sequence[ActionOption]
) -> None:
    config = evolve(CONFIG, actions=actions)
    result = Scheduler(config).schedule(world)
    check_decisions(world, result, config)
    plainly = Scheduler(config, plain=True).schedule(world)
    assert (plainly.binds, plainly.evictions) == (result.binds, result.evictions)
    living = Scheduler(config).attach(Cluster(world)).schedule()
    assert (living.binds, living.evictions) == (result.binds, result.evictions)


@settings(max_examples=25)
@given(worlds(most=4), st.lists(st.integers(0, 20), min_size=3, max_size=5))
def test_gangs_that_found_no_domain_are_placed_on_a_living_cluster_as_from_scratch(
    world: Snapshot, choices: Sequence[int]
) -> None:
    cluster = Cluster(with_victims(world))
    living = Scheduler(CONFIG).attach(cluster)
    for choice in choices:
        result = living.schedule()
        again = Scheduler(CONFIG).schedule(cluster.snapshot())
        assert (result.binds, result.jobs) == (again.binds, again.jobs)
        assert dict(result.pending) == dict(again.pending)
        cluster.carry_out(result, at_once=True)
        there = cluster.snapshot()
        run = [j for j in there.jobs if any(t.status is TaskStatus.RUNNING for t in j.tasks)]
        if choice % 3 == 2:
            node = there.nodes[choice % len(there.nodes)]
            cluster.apply(NodeChanged(evolve(node, labels={"block": "b0", "rack": "r0"})))
        elif run:
            cluster.apply(JobRemoved(run[choice % len(run)].uid))


@settings(max_examples=40)
@given(worlds(most=1))
def test_a_gang_of_like_tasks_is_in_the_tightest_rack_that_holds_it(world: Snapshot) -> None:
    (job,) = world.jobs
    pending = [task for task in job.tasks if task.status is TaskStatus.PENDING]
    if job.groups or len(pending) < len(job.tasks) or len({t.resreq for t in pending}) != 1:
        return
    world = evolve(world, jobs=[evolve(job, topology=RACK)])
    size, count = int(pending[0].resreq.get(GPU)) // 1000, max(1, job.min_available)
    rooms: dict[tuple[str, ...], int] = {}
    around: dict[tuple[str, ...], int] = {}
    names: dict[str, tuple[str, ...]] = {}
    for each in world.nodes:
        block, rack = domain(each, "block"), domain(each, "rack")
        here = room(each, 0, 0, size)
        if block is not None:
            around[block] = around.get(block, 0) + here
        if rack is not None:
            rooms[rack] = rooms.get(rack, 0) + here
            names[each.name] = rack

    def key(rack: tuple[str, ...]) -> tuple[object, ...]:
        together = min(rooms[rack], len(job.tasks))
        return -together, rooms[rack], around[rack[:1]], rack

    holding = [rack for rack in rooms if rooms[rack] >= count]
    binds = Scheduler(CONFIG).schedule(world).binds
    expected = {min(holding, key=key)} if holding else set[tuple[str, ...]]()
    assert {names[bind.node_name] for bind in binds} == expected


@settings(max_examples=40)
@given(worlds(most=4))
def test_a_gang_that_finds_no_domain_leaves_everything_as_if_it_were_not_there(
    world: Snapshot,
) -> None:
    result = Scheduler(CONFIG).schedule(world)
    bound = {bind.task_uid for bind in result.binds}
    for job in world.jobs:
        if any(t.uid in bound or t.node_name is not None for t in job.tasks):
            continue
        others = evolve(world, jobs=[each for each in world.jobs if each is not job])
        assert Scheduler(CONFIG).schedule(others).binds == result.binds


@settings(max_examples=30)
@given(worlds(most=4), st.sampled_from(ACTIONS))
def test_without_requests_all_is_decided_as_without_the_plugin(
    world: Snapshot, actions: Sequence[ActionOption]
) -> None:
    jobs = [
        evolve(job, topology=None, groups=[evolve(group, topology=None) for group in job.groups])
        for job in world.jobs
    ]
    crowded = with_victims(evolve(world, jobs=jobs))
    config = evolve(CONFIG, actions=actions)
    (tier,) = config.tiers
    others = [plugin for plugin in tier.plugins if plugin.name != "topology"]
    without = evolve(config, tiers=[evolve(tier, plugins=others)])
    assert Scheduler(config).schedule(crowded) == Scheduler(without).schedule(crowded)


@settings(max_examples=40)
@given(worlds(most=1))
def test_evictions_for_a_gang_are_no_more_than_the_rack_lacks_that_lacks_least(
    world: Snapshot,
) -> None:
    (job,) = world.jobs
    tasks = [evolve(task, resreq=gpus(1)) for task in job.tasks if task.group is None]
    if job.groups or not tasks or any(task.status is not TaskStatus.PENDING for task in tasks):
        return
    gang = evolve(job, topology=RACK, tasks=tasks, min_available=len(tasks))
    nodes = [evolve(node, max_tasks=None, unschedulable=False) for node in world.nodes]
    crowded = with_victims(evolve(world, nodes=nodes, jobs=[gang]))
    used = Counter(t.node_name for other in crowded.jobs for t in other.tasks)
    free: dict[tuple[str, ...], int] = {}
    total: dict[tuple[str, ...], int] = {}
    for node in nodes:
        rack = domain(node, "rack")
        if rack is not None:
            has = int(node.allocatable.get(GPU)) // 1000
            total[rack] = total.get(rack, 0) + has
            free[rack] = free.get(rack, 0) + has - used[node.name]
    config = evolve(CONFIG, actions=[option("allocate"), option("preempt")])
    result = Scheduler(config).schedule(crowded)
    lacking = [max(0, len(tasks) - free[rack]) for rack in free if total[rack] >= len(tasks)]
    assert len(result.evictions) == min(lacking, default=0)


@settings(max_examples=25)
@given(worlds(most=3), st.sampled_from([ACTIONS[n] for n in (1, 2, 3, 4, 5, 7)]))
def test_what_is_reserved_held_or_planned_of_a_gang_is_in_one_domain_too(
    world: Snapshot, actions: Sequence[ActionOption]
) -> None:
    crowded = with_victims(world)
    jobs = [
        evolve(
            job,
            estimate=100.0 + 50 * (number % 3),
            tasks=[
                evolve(task, start_time=0.0) if task.status is TaskStatus.RUNNING else task
                for task in job.tasks
            ],
        )
        for number, job in enumerate(crowded.jobs)
    ]
    config, crowded = evolve(CONFIG, actions=actions), evolve(crowded, jobs=jobs, now=10.0)
    for _ in range(2):
        result = Scheduler(config).schedule(crowded)
        check_decisions(crowded, result, config)
        assert Scheduler(config, plain=True).schedule(crowded) == result
        crowded = next_snapshot(crowded, result, now=crowded.now + 10)
