"""What the action plan remembers changes nothing, whatever happens between cycles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import Opens
from tests.support.living import GIB, Life

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Registry,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TopologyRequest,
    default_registry,
)
from batchsched.actions import remembered_profile
from batchsched.live import (
    Cluster,
    Event,
    JobArrived,
    NodeChanged,
    TaskReleasing,
    TaskSucceeded,
    TimePassed,
)
from batchsched.plugin import Changes, JobState, QueueState

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
        if self._chance(0.1):
            happened += super().events(snapshot)[:-1]
        else:
            for job in snapshot.jobs:
                for task in job.tasks:
                    if task.status.holds and self._chance(0.15):
                        ends = TaskReleasing if self._chance(0.1) else TaskSucceeded
                        happened.append(ends(task.uid))
        if self._chance(0.08):
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


@settings(max_examples=160, deadline=None)
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
    life = LifeOfPlans(seed)
    config = policy(tier, actions, depth=depth, keep=keep, maxJobs=most)
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


def test_what_starts_before_it_changes_the_plan_that_is_remembered() -> None:
    def job(name: str, *, cpus: int = 1, lasts: float = 30, priority: int = 0) -> JobInfo:
        size = Resource(milli_cpu=1000)
        uids = [f"{name}-{number}" for number in range(cpus)]
        tasks = [TaskInfo(uid=uid, name=uid, resreq=size) for uid in uids]
        return JobInfo(
            name=name,
            queue="q",
            min_available=cpus,
            estimate=lasts,
            priority=priority,
            tasks=tasks,
        )

    nodes = [NodeInfo(name=name, allocatable=Resource(milli_cpu=1000)) for name in ("n1", "n2")]
    cluster = Cluster(nodes=nodes, queues=[Queue(name="q")], jobs=[job("runs", lasts=10)])
    config = policy(["priority", "gang"], ("plan",), keep=False)
    live = scheduler(config, []).attach(cluster)
    cluster.carry_out(live.schedule(), at_once=True)
    cluster.apply(JobArrived(job("first", cpus=2)))
    starts: list[float] = []
    for arrives in (None, job("later", cpus=2), None, job("urgent", priority=1)):
        cluster.apply(TimePassed(cluster.now + 1))
        if arrives is not None:
            cluster.apply(JobArrived(arrives))
        result = live.schedule()
        starts.append(result.planned["default/first"].start)
    assert [bind.task_uid for bind in result.binds] == ["urgent-0"]
    assert starts == [10, 10, 10, 34]
