"""`curable` of preempt and reclaim: nodes that refuse a task for what evicting can cure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import check_reference
from tests.support.clusters import action, cluster, evicted, job, node
from tests.support.cycles import Cycles
from tests.support.elastic import configuration
from tests.support.invariants import check_cycle

from batchsched import (
    ConfigError,
    CycleResult,
    HostPort,
    JobInfo,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Registry,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Unfit,
    UnfitReason,
    default_registry,
)
from batchsched.plugin import ExtensionPoints, Predicate, Reads

PORT = (HostPort(port=80),)
HOST = {"host": "n1"}


def config(*actions: object, shares: str = "proportion", **more: str) -> SchedulerConfig:
    return SchedulerConfig.from_mapping(configuration(*actions, shares=shares, **more))


CURES = config(action("preempt", curable=True))


def decided(snapshot: Snapshot, of: SchedulerConfig = CURES) -> CycleResult:
    result = Scheduler(of).schedule(snapshot)
    check_reference(snapshot, result, of)
    check_cycle(snapshot, result, of)
    assert Scheduler(of, plain={"engine"}).schedule(snapshot) == result
    return result


def with_tasks(of: JobInfo, **changes: Any) -> JobInfo:
    return evolve(of, tasks=[evolve(task, **changes) for task in of.tasks])


def away_from(app: str, key: str = "host") -> PodAffinity:
    selector = LabelSelector(match_labels={"app": app})
    return PodAffinity(required=[PodAffinityTerm(selector=selector, topology_key=key)])


def high(*requests: str, **changes: Any) -> JobInfo:
    return with_tasks(job("high", *(requests or ["1C1G"]), priority=9), **changes)


def too_many() -> Snapshot:
    return cluster(
        [node("n1", "9C9G", max_tasks=2)], job("low", *["1C1G@n1"] * 2, minimum=0), high()
    )


def taken_port() -> Snapshot:
    low = job("low", *["1C1G@n1"] * 3, minimum=0)
    first, second, third = low.tasks
    low = evolve(low, tasks=[first, evolve(second, host_ports=PORT), third])
    return cluster([node("n1", "9C9G")], low, high(host_ports=PORT))


def shunned_neighbour() -> Snapshot:
    low = job("low", *["1C1G@n1"] * 3, minimum=0)
    first, second, third = low.tasks
    low = evolve(low, tasks=[evolve(first, labels={"app": "loud"}), second, third])
    return cluster(
        [node("n1", "9C9G", labels=HOST)], low, high(pod_anti_affinity=away_from("loud"))
    )


def shunning_neighbour() -> Snapshot:
    low = job("low", *["1C1G@n1"] * 3, minimum=0)
    first, second, third = low.tasks
    low = evolve(low, tasks=[first, second, evolve(third, pod_anti_affinity=away_from("loud"))])
    return cluster([node("n1", "9C9G", labels=HOST)], low, high(labels={"app": "loud"}))


CASES = {
    "the number of tasks": (too_many, ["low-2"]),
    "a host port": (taken_port, ["low-2"]),
    "somebody it must not be near": (shunned_neighbour, ["low-1"]),
    "somebody that must not be near it": (shunning_neighbour, ["low-3"]),
}
each_case = pytest.mark.parametrize("case", CASES)


@each_case
def test_only_who_stands_in_the_way_is_evicted(case: str) -> None:
    make, victims = CASES[case]
    result = decided(make())
    assert evicted(result) == victims
    assert [(each.task_uid, each.node_name) for each in result.pipelined] == [("high-1", "n1")]


@each_case
def test_it_is_off_unless_given(case: str) -> None:
    for arguments in ({}, {"curable": False}):
        assert not evicted(decided(CASES[case][0](), config(action("preempt", **arguments))))


def waiting_too(snapshot: Snapshot) -> Snapshot:
    """The same with a job like the one whose tasks run, which waits for the same places."""
    low = next(each for each in snapshot.jobs if each.name == "low")
    tasks = [
        evolve(task, uid=f"other-{task.uid}", status=TaskStatus.PENDING, node_name=None)
        for task in low.tasks
    ]
    return evolve(snapshot, jobs=[*snapshot.jobs, evolve(low, name="other", tasks=tasks)])


@each_case
@pytest.mark.parametrize("leaving", [1, 3])
@pytest.mark.parametrize("order", ["preempt allocate", "allocate preempt"])
def test_the_claimant_starts_when_the_victims_have_left(
    case: str, leaving: int, order: str
) -> None:
    """Though what was evicted, and others like it, wait for the same place meanwhile."""
    arguments = {"preempt": {"curable": True}, "allocate": {}}
    of = config(*(action(name, **arguments[name]) for name in order.split()))
    living = Cycles(Scheduler(of), waiting_too(CASES[case][0]()), leaving=leaving)
    gone_by: dict[str, int] = {}
    for cycle in range(leaving + 3):
        before = living.snapshot
        result = living.cycle()
        assert result == decided(before, of)
        if any(bind.task_uid == "high-1" for bind in result.binds):
            assert gone_by
            return
        # Nobody is evicted once more: who was promised the place keeps it.
        assert not (gone_by and evicted(result))
        gone_by |= dict.fromkeys(evicted(result), cycle + leaving)
        assert all(cycle < last for last in gone_by.values())
        living.step()
    pytest.fail("the claimant never started")


def test_nobody_is_evicted_where_enough_leaves_already() -> None:
    leaving = with_tasks(job("gone", "1C1G!n1", minimum=0), host_ports=PORT)
    running = with_tasks(job("low", "1C1G@n2", minimum=0), host_ports=PORT)
    snapshot = cluster(
        [node("n1", "9C9G"), node("n2", "9C9G")], leaving, running, high(host_ports=PORT)
    )
    result = decided(snapshot)
    assert evicted(result) == []
    assert [(each.task_uid, each.node_name) for each in result.pipelined] == [("high-1", "n1")]


def test_room_is_made_as_well_where_it_is_short() -> None:
    """The one gives room, the other the port; neither could be spared."""
    low = job("low", *["2C1G@n1"] * 3, minimum=0)
    first, *others = low.tasks
    low = evolve(low, tasks=[evolve(first, host_ports=PORT), *others])
    snapshot = cluster([node("n1", "6C6G")], low, high("3C1G", host_ports=PORT))
    assert evicted(decided(snapshot)) == ["low-3", "low-1"]


def test_tasks_on_their_own_go_before_whole_jobs_wherever_they_are() -> None:
    gang = job("gang", "2C1G@n1", "2C1G@n1")
    surplus = with_tasks(job("low", "1C1G@n2", minimum=0), host_ports=PORT)
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "4C4G")], gang, surplus, high("3C1G", host_ports=PORT)
    )
    assert evicted(decided(snapshot)) == ["low-1"]
    assert evicted(decided(snapshot, config("preempt"))) == ["gang-2", "gang-1"]


def test_of_whole_jobs_the_one_with_the_fewest_tasks_goes() -> None:
    gang = job("gang", "2C1G@n1", "2C1G@n1")
    single = with_tasks(job("low", "1C1G@n2"), host_ports=PORT)
    nodes = [node("n1", "4C4G"), node("n2", "4C4G")]
    snapshot = cluster(nodes, gang, single, high("3C1G", host_ports=PORT))
    assert evicted(decided(snapshot)) == ["low-1"]


def test_whole_jobs_go_with_their_tasks_elsewhere() -> None:
    gang = with_tasks(job("low", "1C1G@n1", "1C1G@n2"), host_ports=PORT)
    snapshot = cluster(
        [node("n1", "4C4G"), node("n2", "1C1G")], gang, high("3C1G", host_ports=PORT)
    )
    assert sorted(evicted(decided(snapshot))) == ["low-1", "low-2"]


def test_who_must_be_near_somebody_is_not_helped_by_evicting() -> None:
    snapshot = cluster(
        [node("n1", "4C4G", labels=HOST)],
        job("low", "1C1G@n1", minimum=0),
        high(pod_affinity=away_from("none such")),
    )
    assert evicted(decided(snapshot)) == []


def test_what_others_refuse_too_is_not_searched() -> None:
    """A node that is cordoned stays so, whoever leaves it."""
    low = with_tasks(job("low", "1C1G@n1", minimum=0), host_ports=PORT)
    closed = evolve(node("n1", "4C4G"), unschedulable=True)
    assert evicted(decided(cluster([closed], low, high(host_ports=PORT)))) == []


def test_a_gang_gets_all_its_places_or_evicts_nobody() -> None:
    low = with_tasks(job("low", "1C1G@n1", "1C1G@n2", minimum=0), host_ports=PORT)
    nodes = [node("n1", "4C4G"), node("n2", "4C4G")]
    two = high("1C1G", "1C1G", host_ports=PORT)
    assert sorted(evicted(decided(cluster(nodes, low, two)))) == ["low-1", "low-2"]
    three = high("1C1G", "1C1G", "1C1G", host_ports=PORT)
    assert evicted(decided(cluster(nodes, low, three))) == []


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
def test_reclaim_cures_too(shares: str) -> None:
    greedy = with_tasks(job("low", *["2C2G@n1"] * 3, minimum=0), host_ports=())
    first, *others = greedy.tasks
    greedy = evolve(greedy, tasks=[evolve(first, host_ports=PORT), *others])
    claimant = with_tasks(job("high", "1C1G", queue="r"), host_ports=PORT)
    waits = job("more", "8C8G", queue="r", creation_time=99)
    snapshot = cluster([node("n1", "8C8G")], greedy, claimant, waits, queues=("q", "r"))
    assert evicted(decided(snapshot, config("reclaim", shares=shares))) == []
    of = config(action("reclaim", curable=True), shares=shares)
    assert evicted(decided(snapshot, of)) in (["low-1"], [])


def test_a_claim_evicts_who_is_in_the_way_and_not_whom_the_claimant_must_be_near() -> None:
    # Two tasks are on loan: with both gone the node would refuse the claimant still.
    greedy = job("low", *["2C2G@n1"] * 4, minimum=0)
    *covered, near, last = greedy.tasks
    near, last = evolve(near, labels={"app": "near"}), evolve(last, host_ports=PORT)
    greedy = evolve(greedy, tasks=[*covered, near, last])
    claimant = job("high", "1C1G", queue="r")
    claimant = with_tasks(claimant, host_ports=PORT, pod_affinity=away_from("near"))
    waits = job("more", "8C8G", queue="r", creation_time=99)
    nodes = [node("n1", "8C8G", labels=HOST)]
    snapshot = cluster(nodes, greedy, claimant, waits, queues=("q", "r"))
    of = config(action("reclaim", curable=True), shares="capacity")
    assert evicted(decided(snapshot, of)) == [last.uid]


def test_reports_of_searches_in_vain_count_what_would_refuse_still() -> None:
    low = with_tasks(job("low", "1C1G@n1", minimum=0), host_ports=PORT)
    guarded = with_tasks(
        job("system", "1C1G@n1", minimum=0, namespace="kube-system"), host_ports=[HostPort(port=81)]
    )
    snapshot = cluster(
        [node("n1", "4C4G")], low, guarded, high(host_ports=[*PORT, HostPort(port=81)])
    )
    result = decided(snapshot)
    [report] = result.pending["high-1"].evictions
    assert (report.nodes, report.candidates, report.refusing) == (1, 2, 1)
    assert "protected by conformance: 1" in report.text or "kube-system" in report.text
    assert report.text.endswith("1 node would still refuse it")
    [report] = decided(snapshot, config("preempt")).pending["high-1"].evictions
    assert (report.nodes, report.refusing) == (0, 0)


def test_ones_own_predicate_may_say_that_evicting_cures_it() -> None:
    """At most one task of each job that is named noisy, say."""

    class OneNoisy:
        def __init__(self, *, curable: bool) -> None:
            self._curable = curable

        def open(self, _view: object) -> ExtensionPoints:
            return ExtensionPoints(
                predicates=lambda: [
                    Predicate(
                        check=lambda task, on: (
                            Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="noisy", detail="noisy")
                            if task.info.labels.get("noisy")
                            and any(other.info.labels.get("noisy") for other in on.tasks.values())
                            else None
                        ),
                        reads=Reads.NODE,
                        signature=lambda task: "noisy" in task.info.labels,
                        curable=self._curable,
                    )
                ]
            )

    noisy = {"noisy": "yes"}
    low = with_tasks(job("low", "1C1G@n1", minimum=0), labels=noisy)
    snapshot = cluster([node("n1", "4C4G")], low, high(labels=noisy))
    of: Any = configuration(action("preempt", curable=True))
    of["tiers"][-1]["plugins"].append({"name": "noisy"})
    for curable in (True, False):
        registry: Registry = default_registry()
        registry.register_plugin("noisy", lambda _arguments, c=curable: OneNoisy(curable=c))
        made = SchedulerConfig.from_mapping(of, registry=registry)
        result = Scheduler(made, registry).schedule(snapshot)
        assert evicted(result) == (["low-1"] if curable else [])


def test_a_wrong_argument_is_a_fault() -> None:
    with pytest.raises(ConfigError, match="curable"):
        Scheduler(config(action("reclaim", curable="perhaps")))


def crowded(seed: int, *, near: bool = True) -> Snapshot:
    """Return a small cluster where nodes mostly refuse what waits because of what runs there.

    `near`: whether some tasks must be near others.
    """
    random = Random(seed)
    nodes = [
        node(
            f"n{number}",
            random.choice(["4C4G", "6C6G"]),
            max_tasks=random.choice([2, 3, 9]),
            labels={"host": f"n{number}", "zone": random.choice("ab")},
        )
        for number in range(random.randint(1, 3))
    ]
    idle = {each.name: each.allocatable.milli_cpu // 1000 for each in nodes}
    count = dict.fromkeys(idle, 0)
    jobs: list[JobInfo] = []
    for number in range(random.randint(3, 6)):
        runs = number < 3
        requests: list[str] = []
        for _ in range(random.randint(1, 3)):
            size = random.choice((0.5, 1, 2))
            room = [
                each.name
                for each in nodes
                if idle[each.name] >= size and count[each.name] < (each.max_tasks or 9)
            ]
            where = random.choice(room) if room and runs else ""
            if where:
                idle[where] -= size
                count[where] += 1
            requests.append(f"{size}C1G" + (f"@{where}" if where else ""))
        of = job(
            f"j{number}",
            *requests,
            minimum=random.choice((0, 1, sum("@" in one for one in requests) or len(requests))),
            priority=random.choice((0, 1)) if runs else random.choice((1, 5)),
            queue=random.choice(("q", "q", "r")),
        )
        tasks = [
            evolve(
                task,
                labels={"app": random.choice(("loud", "quiet"))},
                host_ports=PORT if random.random() < 0.3 else (),
                pod_anti_affinity=(
                    away_from("loud", random.choice(("host", "zone")))
                    if random.random() < 0.25
                    else None
                ),
                pod_affinity=(
                    away_from("quiet", "zone") if near and random.random() < 0.1 else None
                ),
                status=(
                    TaskStatus.RELEASING
                    if task.node_name and random.random() < 0.1
                    else task.status
                ),
            )
            for task in of.tasks
        ]
        jobs.append(evolve(of, tasks=tasks))
    return cluster(nodes, *jobs, queues=("q", "r"))


each_seed = given(st.integers(0, 1 << 30))
ORDERS = ("preempt", "reclaim", "allocate preempt reclaim", "reclaim allocate preempt")


def curing(order: str, shares: str = "proportion") -> SchedulerConfig:
    return config(
        *(
            action(name, **({} if name == "allocate" else {"curable": True}))
            for name in order.split()
        ),
        shares=shares,
    )


@settings(max_examples=20)
@given(
    st.integers(0, 1 << 30), st.sampled_from(ORDERS), st.sampled_from(["proportion", "capacity"])
)
def test_all_engines_decide_like_the_reference(seed: int, order: str, shares: str) -> None:
    decided(crowded(seed), curing(order, shares))


def _without(snapshot: Snapshot, gone: Iterable[str]) -> Snapshot:
    """Return the snapshot once these tasks, and all that were leaving, have left."""
    left = set(gone)

    def after(task: TaskInfo) -> TaskInfo:
        if task.uid in left or task.status is TaskStatus.RELEASING:
            return evolve(task, status=TaskStatus.SUCCEEDED, node_name=None)
        return task

    jobs = [evolve(of, tasks=[after(task) for task in of.tasks]) for of in snapshot.jobs]
    return evolve(snapshot, jobs=jobs)


def _takes(snapshot: Snapshot, of: SchedulerConfig, uid: str, name: str) -> bool:
    session = Scheduler(of).open(snapshot)
    task, on = session.task(uid), session.node(name)
    return session.placement.refusal(task, on) is None and on.fits(task)


@settings(max_examples=30)
@each_seed
def test_the_node_accepts_the_claimant_afterwards_and_no_victim_could_be_spared(seed: int) -> None:
    of = curing("preempt")
    snapshot = crowded(seed)
    # One claimant, so that what the cluster was like at its turn is known.
    waiting = [each for each in snapshot.jobs if any(not t.node_name for t in each.tasks)]
    for claimant in waiting[:1]:
        [first, *_] = [task for task in claimant.tasks if not task.node_name]
        alone = evolve(claimant, tasks=[first], min_available=1, priority=9)
        running = [each for each in snapshot.jobs if all(t.node_name for t in each.tasks)]
        world = evolve(snapshot, jobs=[*running, alone])
        result = Scheduler(of).schedule(world)
        if not result.evictions:
            return
        [place] = result.pipelined
        victims = [eviction.task_uid for eviction in result.evictions]
        assert _takes(_without(world, victims), of, first.uid, place.node_name)
        for unit in _units(world, victims):
            spared = [uid for uid in victims if uid not in unit]
            assert not _takes(_without(world, spared), of, first.uid, place.node_name)


def _units(snapshot: Snapshot, victims: Sequence[str]) -> list[set[str]]:
    """Return what may have gone as one: all victims of a job, if they are all that it has."""
    units: list[set[str]] = []
    for of in snapshot.jobs:
        running = {task.uid for task in of.tasks if task.status is TaskStatus.RUNNING}
        mine = running & set(victims)
        units += [mine] if mine == running else [{uid} for uid in mine]
    return [unit for unit in units if unit]


def test_most_of_these_clusters_need_curing() -> None:
    """Otherwise the laws would show nothing."""
    more = 0
    for seed in range(15):
        snapshot = crowded(seed)
        with_it = Scheduler(curing("preempt")).schedule(snapshot)
        without = Scheduler(config("preempt")).schedule(snapshot)
        more += len(with_it.evictions) > len(without.evictions)
    assert more >= 4


@pytest.mark.slow
@settings(max_examples=6)
@given(st.integers(0, 1 << 30), st.sampled_from(ORDERS[2:]), st.integers(1, 2))
def test_evictions_end_and_claimants_start(seed: int, order: str, leaving: int) -> None:
    """The last of a job's claimants does, when all victims of the job have left.

    Not where it must be near a task that was evicted since.
    """
    of = Scheduler(curing(order))
    snapshot = _without(crowded(seed, near=False), ())
    living = Cycles(of, snapshot, leaving=leaving)
    job_of = {task.uid: each.uid for each in snapshot.jobs for task in each.tasks}
    pending: dict[str, int] = {}
    pairs: set[tuple[str, str]] = set()
    for cycle in range(25):
        before = living.snapshot
        result = living.cycle()
        assert of.schedule(before) == result
        for bind in result.binds:
            pending.pop(job_of[bind.task_uid], None)
        assert all(cycle < last for last in pending.values())
        for eviction in result.evictions:
            assert cycle < 20
            pair = eviction.task_uid, eviction.for_task_uid
            assert pair not in pairs
            pairs.add(pair)
            pending[job_of[eviction.for_task_uid]] = cycle + leaving
        living.step()
