"""Who must be near whom, and room for what follows, in tiny clusters and by brute force.

What starts without regard to who must be near whom starts with it. Of the domains of the narrowest
level that holds what a job needs, one is taken in whose domain of the required level most of the
job runs; of tasks that are not alike, as many find places one by one there as around any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.invariants import check_decisions
from tests.support.racks import GPU, config, gpus, option

from batchsched import (
    CycleResult,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Tier,
    Topology,
    TopologyRequest,
)
from batchsched.live import Cluster

NET = Topology("net", ["zone", "rack"])
KEYS = ("zone", "rack")


def terms(key: str, role: str) -> PodAffinity:
    selector = LabelSelector(match_labels={"role": role})
    return PodAffinity(required=[PodAffinityTerm(topology_key=key, selector=selector)])


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeInfo]:
    return [
        NodeInfo(
            name=f"n{place}",
            allocatable=gpus(draw(st.integers(0, 3))),
            labels={
                "zone": f"z{(zone := draw(st.integers(0, 1)))}",
                "rack": f"r{zone}{draw(st.integers(0, 1))}",
                "host": f"n{place}",
            },
        )
        for place in range(draw(st.integers(1, 5)))
    ]


@st.composite
def linked_tasks(draw: st.DrawFn) -> list[TaskInfo]:
    made: list[TaskInfo] = []
    for place in range(draw(st.integers(2, 4))):
        role = draw(st.sampled_from("abc"))
        near = draw(st.sampled_from([None, *"abc"]))
        made.append(
            TaskInfo(
                uid=f"t{place}",
                name=f"t{place}",
                resreq=gpus(draw(st.sampled_from([1, 1, 2]))),
                labels={"role": role},
                pod_affinity=None if near is None else terms(draw(st.sampled_from(KEYS)), near),
            )
        )
    return made


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    made = draw(nodes())
    members = draw(linked_tasks())
    request = draw(
        st.sampled_from(
            [
                None,
                None,
                None,
                TopologyRequest("net", required="zone"),
                TopologyRequest("net", preferred="rack"),
            ]
        )
    )
    gang = JobInfo(
        name="gang",
        queue="q",
        priority=9,
        tasks=members,
        min_available=len(members),
        topology=request,
    )
    victims = [
        JobInfo(
            name=f"v-{each.name}-{number}",
            queue="q",
            min_available=0,
            tasks=[
                TaskInfo(
                    uid=f"v-{each.name}-{number}",
                    name="v",
                    resreq=gpus(1),
                    status=TaskStatus.RUNNING,
                    node_name=each.name,
                )
            ],
        )
        for each in made
        for number in range(draw(st.integers(0, int(each.allocatable.get(GPU)) // 1000)))
    ]
    if draw(st.booleans()):
        victims = []
    return Snapshot(nodes=made, jobs=[gang, *victims], queues=[Queue(name="q")], topologies=[NET])


def without_topology(given: SchedulerConfig) -> SchedulerConfig:
    (tier,) = given.tiers
    kept = [plugin for plugin in tier.plugins if plugin.name != "topology"]
    return evolve(given, tiers=[Tier(plugins=kept)])


def started(world: Snapshot, result: CycleResult) -> bool:
    """Whether all of the gang has places, now or later."""
    return all(result.tasks[task.uid].node_name for task in world.jobs[0].tasks)


def asked_nothing(world: Snapshot) -> Snapshot:
    return evolve(world, jobs=[evolve(world.jobs[0], topology=None), *world.jobs[1:]])


@settings(max_examples=60)
@given(worlds(), st.booleans())
def test_what_starts_without_regard_to_who_must_be_near_whom_starts_with_it(
    world: Snapshot, evicts: bool
) -> None:
    given_config = config("allocate", *(["preempt"] if evicts else []))
    world = asked_nothing(world)
    if started(world, Scheduler(without_topology(given_config)).schedule(world)):
        assert started(world, Scheduler(given_config).schedule(world))


@settings(max_examples=60)
@given(worlds(), st.booleans())
def test_leaders_and_workers_are_decided_the_same_plainly_and_on_a_living_cluster(
    world: Snapshot, evicts: bool
) -> None:
    actions = ["allocate", "backfill", *(["preempt", "reclaim"] if evicts else [])]
    for given_config in (
        config(*actions),
        config(option("allocate", starvationThreshold=0), option("plan", depth="all")),
    ):
        result = Scheduler(given_config).schedule(world)
        check_decisions(world, result, given_config)
        assert Scheduler(given_config, plain=True).schedule(world) == result
        living = Scheduler(given_config).attach(Cluster(world)).schedule()
        assert (living.binds, living.evictions, living.pipelined, living.reserved) == (
            result.binds,
            result.evictions,
            result.pipelined,
            result.reserved,
        )


def rooms(world: Snapshot, level: str | None, size: int, apart: bool) -> dict[str, int]:
    """How many tasks of a size each domain of a level holds; apart: one on a node."""
    found: dict[str, int] = {}
    for each in world.nodes:
        fits = int(each.allocatable.get(GPU)) // 1000 // size
        name = "" if level is None else each.labels[level]
        found[name] = found.get(name, 0) + (min(1, fits) if apart else fits)
    return found


@settings(max_examples=80)
@given(
    nodes(),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([("zone", "rack"), ("zone", "zone"), ("rack", "rack")]),
)
def test_as_many_run_as_in_the_required_domain_of_any_narrow_one_that_holds_what_is_needed(
    made: list[NodeInfo], least: int, more: int, size: int, apart: bool, levels: Sequence[str]
) -> None:
    required, preferred = levels
    own = LabelSelector(match_labels={"role": "x"})
    repels = PodAffinity(required=[PodAffinityTerm(topology_key="host", selector=own)])
    members = [
        TaskInfo(
            uid=f"t{n}",
            name=f"t{n}",
            resreq=gpus(size),
            labels={"role": "x"},
            pod_anti_affinity=repels if apart else None,
        )
        for n in range(least + more)
    ]
    gang = JobInfo(
        name="gang",
        queue="q",
        tasks=members,
        min_available=least,
        topology=TopologyRequest("net", required=required, preferred=preferred),
    )
    world = Snapshot(nodes=made, jobs=[gang], queues=[Queue(name="q")], topologies=[NET])
    zones, racks = (rooms(world, level, size, apart) for level in KEYS)
    around = {each.labels["rack"]: each.labels["zone"] for each in made}
    narrow = [rack for rack, room in racks.items() if room >= least]
    options: list[int] = []
    if preferred == "rack":
        within = zones if required == "zone" else racks
        options = [within[around[rack] if required == "zone" else rack] for rack in narrow]
    if not options and required == "zone":
        options = [room for room in zones.values() if room >= least]
    expected = min(len(members), max(options, default=0))
    result = Scheduler(config("allocate")).schedule(world)
    assert len(result.binds) == expected
    assert Scheduler(config("allocate"), plain=True).schedule(world) == result


def decided(world: Snapshot) -> CycleResult:
    result = Scheduler(config("allocate")).schedule(world)
    assert Scheduler(config("allocate"), plain=True).schedule(world) == result
    return result


def placed_alone(nodes_there: Sequence[NodeInfo], job: JobInfo) -> CycleResult:
    """Where a job that asks for no domain finds places on some nodes."""
    world = Snapshot(nodes=nodes_there, jobs=[job], queues=[Queue(name="q")])
    return Scheduler(config("allocate")).schedule(world)


def most_around(narrow: Sequence[NodeInfo], around: Sequence[NodeInfo], job: JobInfo) -> int | None:
    """How many of a job run where its first ones are in a narrow domain; None: they do not fit."""
    least = job.min_available
    first = placed_alone(narrow, evolve(job, tasks=job.tasks[:least]))
    if len(first.binds) < least:
        return None
    places = {bind.task_uid: bind.node_name for bind in first.binds}
    there = [
        evolve(task, status=TaskStatus.RUNNING, node_name=places[task.uid])
        for task in job.tasks[:least]
    ]
    rest = placed_alone(around, evolve(job, tasks=[*there, *job.tasks[least:]]))
    return least + len(rest.binds)


@settings(max_examples=60)
@given(
    nodes(),
    st.integers(1, 2),
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.sampled_from([("zone", "rack"), ("zone", "zone"), ("rack", "rack")]),
)
def test_what_is_not_alike_goes_where_as_many_follow_as_around_any_narrow_domain(
    made: list[NodeInfo], least: int, sizes: list[int], levels: Sequence[str]
) -> None:
    required, preferred = levels
    members = [
        TaskInfo(uid=f"t{n}", name=f"t{n}", resreq=gpus(size)) for n, size in enumerate(sizes)
    ]
    plain = JobInfo(name="gang", queue="q", tasks=members, min_available=least)
    asks = TopologyRequest("net", required=required, preferred=preferred)
    world = Snapshot(
        nodes=made,
        jobs=[evolve(plain, topology=asks)],
        queues=[Queue(name="q")],
        topologies=[NET],
    )

    def options(level: str) -> dict[str, int]:
        """How many run around each domain that holds the first ones."""
        found: dict[str, int] = {}
        for name in sorted({each.labels[level] for each in made}):
            narrow = [each for each in made if each.labels[level] == name]
            within = narrow[0].labels[required]
            around = [each for each in made if each.labels[required] == within]
            most = most_around(narrow, around, plain)
            if most is not None:
                found[name] = most
        return found

    narrowest = preferred if options(preferred) else required
    possible = options(narrowest)
    places = {bind.task_uid: bind.node_name for bind in decided(world).binds}
    first = {places.get(task.uid) for task in members[:least]}
    if not possible or None in first:
        return  # where the first ones fit in no domain, others are tried in their place
    (chosen,) = {each.labels[narrowest] for each in made if each.name in first}
    assert possible[chosen] == max(possible.values())
