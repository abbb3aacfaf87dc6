"""What the action plan remembers changes nothing, whatever happens between cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.books import Opens
from tests.support.living import GIB, Life
from tests.support.nightly import IS_NIGHTLY

from batchsched import (
    EventError,
    JobInfo,
    NodeInfo,
    Queue,
    Registry,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    TopologyRequest,
    default_registry,
)
from batchsched.actions import plan as planning
from batchsched.actions import remembered_profile
from batchsched.live import (
    Cluster,
    Event,
    JobArrived,
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    QueueChanged,
    TaskGone,
    TaskReleasing,
    TaskSucceeded,
    TimePassed,
)
from batchsched.plugin import Changes, JobState, QueueState
from batchsched.testing import snapshots

TIERS = (
    ["gang"],
    ["sjf", "gang"],
    ["priority", "gang", "predicates"],
    ["gang", "predicates", "nodeorder"],
    ["priority", "gang", "predicates", "topology"],
    ["gang", "drf", "predicates", "capacity"],
    ["gang", "predicates", "proportion"],
    ["few", "gang", "predicates"],
    ["told", "gang", "predicates"],
)


class Goes:
    """Is not opened again."""

    def resume(self, _changes: Changes, /) -> bool:
        return True


class Few(Goes):
    """A queue with four tasks or more gets no turns."""

    def overused(self, queue: QueueState, /) -> bool:
        return sum(job.ready_count for job in queue.jobs) >= 4


class Told(Goes):
    """Is told of all turns."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def on_turn_begin(self, job: JobState, /) -> None:
        self._told.append(job.uid)


class LifeOfPlans(Life):
    """Gangs with estimates wait for others with estimates, some of which run too long."""

    def start(self) -> Snapshot:
        nodes = [self.node(number) for number in range(self.random.randint(1, 6))]
        queues = [Queue(name=name) for name in "ab"[: self.random.choice((1, 1, 2))]]
        return Snapshot(nodes=nodes, queues=queues, jobs=[self.job(0) for _ in range(6)])

    def node(self, number: int) -> NodeInfo:
        random = self.random
        cpu = random.choice((1000, 1000, 2000, 4000))
        return NodeInfo(
            name=f"n{number:02}",
            allocatable=Resource(milli_cpu=cpu, memory=random.choice((2, 4)) * GIB),
            labels={"zone": random.choice("xy")},
            max_tasks=random.choice((None, None, None, 2)),
        )

    def job(self, now: float) -> JobInfo:
        random = self.random
        name = self.name()
        count = random.choice((1, 1, 2, 3, 4))
        size = Resource(
            milli_cpu=random.choice((500, 1000, 1000)), memory=random.choice((0, 0, GIB))
        )
        other = evolve(size, milli_cpu=500)
        tasks = [
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                resreq=other if number and self._chance(0.1) else size,
                estimate=random.choice((2, 30)) if self._chance(0.1) else None,
                node_selector={"zone": "x"} if self._chance(0.05) else {},
                creation_time=now,
            )
            for number in range(count)
        ]
        return JobInfo(
            name=name,
            queue=random.choice("aaab"),
            min_available=random.choice((count, count, count, 1)),
            priority=random.choice((0, 0, 0, 10)),
            creation_time=now,
            estimate=random.choice((None, 2, 4, 4, 8, 30)),
            topology=TopologyRequest(required="zone") if self._chance(0.2) else None,
            tasks=tasks,
        )

    def events(self, snapshot: Snapshot) -> list[Event]:
        random = self.random
        happened: list[Event] = []
        if self._chance(0.3):
            pass  # what is planned first may be what was planned before
        elif self._chance(0.1):
            happened += super().events(snapshot)[:-1]
        else:
            for job in snapshot.jobs:
                for task in job.tasks:
                    if task.status.holds and self._chance(0.15):
                        ends = TaskReleasing if self._chance(0.1) else TaskSucceeded
                        happened.append(ends(task.uid))
        if self._chance(0.06):
            node = random.choice(snapshot.nodes)
            more = evolve(node.allocatable, milli_cpu=node.allocatable.milli_cpu + 1000)
            happened.append(NodeChanged(evolve(node, allocatable=more)))
        now = snapshot.now + random.choice((0, 1, 1, 2))
        if self._chance(0.6):
            happened.append(JobArrived(self.job(now)))
        return [*happened, TimePassed(now)]


def scheduler(config: SchedulerConfig, told: list[str], **options: Any) -> Scheduler:
    return Scheduler(config, registry(told), **options)


def registry(told: list[str]) -> Registry:
    own: Registry = default_registry()
    own.register_plugin("few", lambda _: Opens(Few()))
    own.register_plugin("told", lambda _: Opens(Told(told)))
    return own


def policy(tier: list[str], actions: tuple[str, ...], **arguments: Any) -> SchedulerConfig:
    plan = {"name": "plan", "arguments": arguments}
    named = [plan if name == "plan" else name for name in actions]
    described = {"actions": named, "tiers": [{"plugins": tier}]}
    return SchedulerConfig.from_mapping(described, registry=registry([]))


@pytest.fixture(autouse=True, scope="module")
def on_any_number_of_nodes() -> Iterator[None]:
    """Profiles are kept on few nodes, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remembered_profile, "FEWEST", 1)
        yield


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    tier=st.sampled_from(TIERS),
    actions=st.sampled_from([("plan",), ("plan",), ("plan", "backfill"), ("reclaim", "plan")]),
    depth=st.sampled_from([0, 1, 1, 2, "all"]),
    keep=st.booleans(),
    most=st.sampled_from(["all", "all", "all", 2]),
    reasons=st.booleans(),
)
def test_law_plans_are_those_of_a_cycle_that_remembers_nothing(
    seed: int,
    tier: list[str],
    actions: tuple[str, ...],
    depth: int | str,
    keep: bool,
    most: int | str,
    reasons: bool,
) -> None:
    live_through(seed, policy(tier, actions, depth=depth, keep=keep, maxJobs=most), reasons=reasons)


def live_through(seed: int, config: SchedulerConfig, *, reasons: bool) -> None:
    """Compare each cycle of a random life with one that remembers nothing."""
    life = LifeOfPlans(seed)
    cluster = Cluster(life.start())
    turns: list[str] = []
    turns_in_full: list[str] = []
    fast = scheduler(config, turns).attach(cluster)
    plain = scheduler(config, turns_in_full, plain=("attempts",)).attach(cluster)
    for _ in range(12):
        result = fast.schedule(reasons=reasons)
        assert plain.schedule(reasons=reasons) == result
        assert turns == turns_in_full
        if life.random.random() < 0.2:
            with cluster.trial():
                cluster.apply(TimePassed(cluster.now + 5))
                fast.schedule(reasons=reasons)
            result = fast.schedule(reasons=reasons)
            turns.clear()
            turns_in_full.clear()
        cluster.carry_out(result, at_once=True)
        cluster.apply(*life.events(cluster.snapshot()))


KINDS_OF_CLUSTERS = st.one_of(
    snapshots(always=["durations", "devices", "topologies", "gangs"], affinity=False, min_jobs=3),
    snapshots(always=["durations", "trees", "promises", "groups"], affinity=False, min_jobs=3),
    snapshots(always=["durations", "reservations", "promises", "running"], min_jobs=3),
)
"""What is drawn by hand above has no devices, trees, groups, promises or reservations."""
TWO_TIERS = (
    (["priority", "gang"], ["drf", "predicates", "capacity", "devices", "topology", "placement"]),
    (["priority", "gang", "topology", "devices"], ["predicates", "nodeorder"]),
    (["gang", "devices"], ["predicates"]),
    (["gang", "protection"], ["predicates", "proportion"]),
)
OF_OTHER_ACTIONS = (
    ("plan",),
    ("plan", "plan"),
    ("reserve", "plan"),
    ("plan", "allocate", "plan"),
    ("allocate", "reserve", "plan", "backfill"),
    ("reclaim", "plan", "preempt"),
)
PLANS = st.fixed_dictionaries(
    {
        "depth": st.sampled_from([0, 1, 1, 2, "all"]),
        "keep": st.booleans(),
        "window": st.sampled_from([3, 15, 1000]),
    }
)


def happens(random: Random, snapshot: Snapshot) -> Iterator[Event]:
    """Yield what may happen to any cluster, or is refused."""

    def chance(part: float) -> bool:
        return random.random() < part

    for job in snapshot.jobs:
        if chance(0.03):
            yield JobRemoved(job.uid)
        elif chance(0.05):
            yield JobChanged(job.uid, priority=random.choice((0, 1, 5)))
        elif chance(0.05):
            yield JobChanged(job.uid, queue=random.choice(snapshot.jobs).queue)
        elif chance(0.05):
            again = f"{job.name}-again"
            pending: dict[str, Any] = {"status": TaskStatus.PENDING, "node_name": None}
            pending |= {"start_time": None, "is_backfill": False}
            tasks = [evolve(task, uid=f"{task.uid}-again", **pending) for task in job.tasks]
            yield JobArrived(evolve(job, name=again, tasks=tasks, plan=None))
        for task in job.tasks:
            if task.status.holds and chance(0.15):
                yield random.choice((TaskSucceeded, TaskSucceeded, TaskGone, TaskReleasing))(
                    task.uid
                )
    for node in snapshot.nodes:
        if chance(0.06):
            yield NodeChanged(evolve(node, unschedulable=not node.unschedulable))
        elif chance(0.05):
            more = node.allocatable + Resource(milli_cpu=1000)
            yield NodeChanged(evolve(node, allocatable=more))
        elif chance(0.05):
            yield NodeRemoved(node.name)
        elif chance(0.03):
            yield NodeAdded(evolve(node, name=f"{node.name}-again"))
    for queue in snapshot.queues:
        if chance(0.05):
            yield QueueChanged(evolve(queue, weight=random.choice((1, 2, 3))))
    yield TimePassed(snapshot.now + random.choice((0, 0, 1, 2, 5, 10)))


def let_happen(random: Random, cluster: Cluster) -> None:
    for event in happens(random, cluster.snapshot()):
        with suppress(EventError):
            cluster.apply(event)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    snapshot=KINDS_OF_CLUSTERS,
    tiers=st.sampled_from(TWO_TIERS),
    actions=st.sampled_from(OF_OTHER_ACTIONS),
    plans=st.tuples(PLANS, PLANS),
    plainly=st.sampled_from([("attempts",), True]),
    seed=st.integers(0, 1 << 32),
    reasons=st.booleans(),
)
def test_law_whatever_a_cluster_has_plans_are_those_of_a_cycle_that_remembers_nothing(
    snapshot: Snapshot,
    tiers: Sequence[Sequence[str]],
    actions: Sequence[str],
    plans: tuple[dict[str, Any], ...],
    plainly: tuple[str, ...] | bool,
    seed: int,
    reasons: bool,
) -> None:
    random, of_plans = Random(seed), iter(plans)
    given_to = {"reserve": {"starvingJobTimeThreshold": 0, "reservedNodePercent": 50}}
    named = [
        {"name": name, "arguments": next(of_plans) if name == "plan" else given_to.get(name, {})}
        for name in actions
    ]
    config = SchedulerConfig.from_mapping(
        {"actions": named, "tiers": [{"plugins": tier} for tier in tiers]}
    )
    cluster = Cluster(snapshot)
    fast = Scheduler(config).attach(cluster)
    plain = Scheduler(config, plain=plainly).attach(cluster)
    for _ in range(5):
        result = fast.schedule(reasons=reasons)
        assert plain.schedule(reasons=reasons) == result
        if random.random() < 0.2:
            with cluster.trial():
                let_happen(random, cluster)
                assert plain.schedule(reasons=reasons) == fast.schedule(reasons=reasons)
            result = fast.schedule(reasons=reasons)
            assert plain.schedule(reasons=reasons) == result
        if random.random() < 0.8:
            cluster.carry_out(result, at_once=random.random() < 0.8)
        let_happen(random, cluster)


ON_TWO = [NodeInfo(name=name, allocatable=Resource(milli_cpu=1000)) for name in ("n1", "n2")]


def job_of(name: str, *, cpus: int = 1, lasts: float = 30, priority: int = 0) -> JobInfo:
    size = Resource(milli_cpu=1000)
    uids = [f"{name}-{number}" for number in range(cpus)]
    return JobInfo(
        name=name,
        queue="q",
        min_available=cpus,
        estimate=lasts,
        priority=priority,
        tasks=[TaskInfo(uid=uid, name=uid, resreq=size) for uid in uids],
    )


def test_what_ends_early_changes_the_plan_that_is_remembered() -> None:
    runs = [job_of("short", lasts=10), job_of("long", lasts=20)]
    cluster = Cluster(nodes=ON_TWO, queues=[Queue(name="q")], jobs=runs)
    live = scheduler(policy(["gang"], ("plan",), keep=False), []).attach(cluster)
    cluster.carry_out(live.schedule(), at_once=True)
    cluster.apply(JobArrived(job_of("wide", cpus=2)))
    starts: list[float] = []
    for ends in ((), (), ("long-0",), ()):
        cluster.apply(TimePassed(cluster.now + 1), *map(TaskSucceeded, ends))
        starts.append(live.schedule().planned["default/wide"].start)
    assert starts == [20, 20, 10, 10]


def test_what_starts_before_it_changes_the_plan_that_is_remembered() -> None:
    cluster = Cluster(nodes=ON_TWO, queues=[Queue(name="q")], jobs=[job_of("runs", lasts=10)])
    config = policy(["priority", "gang"], ("plan",), keep=False)
    live = scheduler(config, []).attach(cluster)
    cluster.carry_out(live.schedule(), at_once=True)
    cluster.apply(JobArrived(job_of("first", cpus=2)))
    starts: list[float] = []
    for arrives in (None, job_of("later", cpus=2), None, job_of("urgent", priority=1)):
        cluster.apply(TimePassed(cluster.now + 1))
        if arrives is not None:
            cluster.apply(JobArrived(arrives))
        result = live.schedule()
        starts.append(result.planned["default/first"].start)
    assert [bind.task_uid for bind in result.binds] == ["urgent-0"]
    assert starts == [10, 10, 10, 34]


def look_for_faults() -> None:
    test_what_ends_early_changes_the_plan_that_is_remembered()
    test_what_starts_before_it_changes_the_plan_that_is_remembered()
    for seed in range(80):
        config = policy(
            TIERS[seed % len(TIERS)],
            ("plan",),
            depth=(1, 1, 2, "all", 0)[seed % 5],
            keep=seed % 3 == 0,
        )
        live_through(seed, config, reasons=False)


FAULTS = (
    (" or until < now", ""),
    ("for step in steps:\n            del self.steps[bisect_left(self.steps, step)]", "pass"),
    ("size.behind.update(changed)", "pass"),
    ("self.plan = None\n        for index", "for index"),
    ("self._own or self.limited:\n            return None", "False:\n            return None"),
    ("self.first[index] = _first_fit(profile, self._size[0])", "pass"),
    ("chain(closing, is_open)", "chain(is_open, closing)"),
    ("if self.limited or start == NOW:", "if start == NOW:"),
    ("self._own[node.index] = profile.copy()", "self._own[node.index] = profile"),
    ("self._own.keys() | self._owed.keys()", "self._own.keys()"),
    ("self._pay()\n        if among", "if among"),
    ("known[0] is not tasks or ", ""),
    ("room >= len(tasks)", "room > len(tasks)"),
    ("if ends is not None and first >= now", "if ends is not None"),
    ("self.limited.add(node.index)\n        return True", "return True"),
    ("free if min(free) >= 0 else", "free if True else"),
    ("first[index] = _first_fit(profile, request)", "pass"),
)
"""What is changed in the source of what is remembered, and how."""
BY_DAY = (" or until < now", "size.behind.update(changed)", "chain(closing, is_open)")
"""The faults that are tried in each run; all are at night."""


@pytest.mark.parametrize(
    ("before", "after"), [each for each in FAULTS if IS_NIGHTLY or each[0] in BY_DAY]
)
def test_a_fault_in_any_of_its_rules_is_found(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(remembered_profile.__file__).read_text(encoding="utf-8")
    assert source.count(before) == 1
    faulty = ModuleType("faulty")
    exec(compile(source.replace(before, after), "faulty", "exec"), faulty.__dict__)
    monkeypatch.setattr(faulty, "FEWEST", 1)
    monkeypatch.setattr(planning, "remembered_profile", faulty.remembered_profile)
    with pytest.raises((AssertionError, LookupError)):  # no plan, for example
        look_for_faults()
