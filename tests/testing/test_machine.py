"""The machine of many cycles finds what is planted, and lets itself be made one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from hypothesis.strategies import SearchStrategy
from tests.support.clusters import cluster, job, node
from tests.support.following import CarryOverViolation, FollowedMachine, check_next_snapshot
from tests.support.invariants import BUT_REASONS, INVARIANTS
from tests.support.own_plugins import Grabs

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Registry,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
    next_snapshot,
)
from batchsched.plugin import JobState
from batchsched.testing import (
    ClusterMachine,
    Cycle,
    InvariantViolation,
    PingPong,
    invariant,
    snapshots,
)
from batchsched.testing import machine as machine_module
from batchsched.testing.ping_pong import Watcher

pytestmark = pytest.mark.slow

QUICK = settings(
    stateful_step_count=12,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def run(machine: type[ClusterMachine], examples: int = 60) -> None:
    run_state_machine_as_test(machine, settings=settings(QUICK, max_examples=examples))


def with_plugin(name: str, opened: object) -> Registry:
    class Opens:
        def open(self, _view: object, /) -> object:
            return opened

    registry = default_registry()
    registry.register_plugin(name, lambda _: Opens())
    return registry


class Impatient:
    """Every job is ready, however few of its tasks have a place."""

    def job_ready(self, _job: JobState, /) -> bool:
        return True


@pytest.mark.parametrize(
    "actions",
    ["allocate, preempt", "reclaim, allocate, backfill", "allocate, backfill, preempt, reclaim"],
)
def test_it_finds_nothing_in_sound_policies(actions: str) -> None:
    class Sound(FollowedMachine):
        config = SchedulerConfig.from_mapping({"actions": actions})
        cycle_invariants = BUT_REASONS

    run(Sound, examples=30)


def grabbing() -> tuple[Registry, SchedulerConfig]:
    registry = with_plugin("grabs", Grabs())
    mapping = {"actions": "allocate, preempt", "tiers": [{"plugins": ["grabs", "predicates"]}]}
    return registry, SchedulerConfig.from_mapping(mapping, registry=registry)


def test_it_finds_ping_pong() -> None:
    class Grabbing(ClusterMachine):
        registry, config = grabbing()

    with pytest.raises(PingPong) as caught:
        run(Grabbing)
    first, second, *_ = str(caught.value).splitlines()
    assert first.startswith("ping-pong: ")
    assert first.endswith(", for ever:")
    assert second.startswith("  cycle 1: ")
    assert any(result.evictions for result in caught.value.loop)

    class DoesNotMind(Grabbing):
        finds_ping_pong = False

    run(DoesNotMind, examples=15)


def test_the_account_of_ping_pong_tells_what_every_cycle_does() -> None:
    registry, config = grabbing()
    scheduler = Scheduler(config, registry)
    snapshot = cluster([node("n1", "1C1G")], job("a", "1C1G@n1"), job("b", "1C1G"))

    def live(snapshot: Snapshot) -> None:
        watcher = Watcher()
        for _ in range(12):
            result = scheduler.schedule(snapshot)
            watcher.watch(snapshot, result)
            snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)

    with pytest.raises(PingPong) as caught:
        live(snapshot)
    assert str(caught.value).splitlines() == [
        "ping-pong: a-1, b-1 evicted and placed again every 4 cycles, for ever:",
        "  cycle 1: evict a-1 from n1 (preempt for b-1); promise b-1 a place on n1",
        "  cycle 2: bind b-1 to n1",
        "  cycle 3: evict b-1 from n1 (preempt for a-1); promise a-1 a place on n1",
        "  cycle 4: bind a-1 to n1",
    ]


@invariant
def whole_gangs(cycle: Cycle) -> Iterator[str]:
    """Gangs start whole, whoever says that they are ready."""
    for bind in cycle.result.binds:
        if not cycle.is_gang_ready(cycle.job_of[bind.task_uid]):
            yield f"{bind.task_uid} starts before its gang is there"


def test_it_finds_cycles_that_break_an_invariant() -> None:
    class Hasty(ClusterMachine):
        registry = with_plugin("impatient", Impatient())
        config = SchedulerConfig.from_mapping(
            {"actions": "allocate", "tiers": [{"plugins": ["impatient", "predicates"]}]},
            registry=registry,
        )

        cycle_invariants = (*INVARIANTS[:3], whole_gangs)

    with pytest.raises(
        InvariantViolation, match=r"whole_gangs: .* starts before its gang is there"
    ):
        run(Hasty, examples=300)


def test_rules_clusters_and_jobs_can_be_ones_own() -> None:
    seen: dict[str, int] = {"night": 0, "cycles": 0, "jobs": 0}

    class MyCluster(ClusterMachine):
        config = SchedulerConfig.from_mapping({"actions": "allocate"})
        max_jobs = 2
        max_nodes = 1
        seconds_per_cycle = 60.0

        def starts(self) -> SearchStrategy[Snapshot]:
            return st.just(cluster([node("mine", "4C4G")]))

        def arrivals(self, name: str, queues: Sequence[str]) -> SearchStrategy[JobInfo]:
            assert list(queues) == ["q"]
            return st.just(job(name, "1C1G"))

        @precondition(lambda self: self.tasks(TaskStatus.RUNNING))
        @rule()
        def night(self) -> None:
            """At night everything ends."""
            seen["night"] += 1
            running = [task.uid for task in self.tasks(TaskStatus.RUNNING)]
            now = self.snapshot.now + 1000
            self.change(next_snapshot(self.snapshot, None, now=now, succeeded=running))

        def run_cycle(self) -> CycleResult:
            before = self.snapshot
            result = super().run_cycle()
            seen["cycles"] += 1
            seen["jobs"] = max(seen["jobs"], len(before.jobs))
            assert [mine.name for mine in before.nodes] == ["mine"]
            assert self.snapshot.now == before.now + 60
            return result

    run(MyCluster, examples=30)
    assert seen["night"] > 0
    assert seen["cycles"] > seen["night"]
    assert seen["jobs"] == 2


def test_it_finds_what_the_next_snapshot_has_wrong() -> None:
    class Forgetful(FollowedMachine):
        def starts(self) -> SearchStrategy[Snapshot]:
            return snapshots(max_nodes=1, max_jobs=1, running=False, gangs=False)

        def run_cycle(self) -> CycleResult:
            before = self.snapshot
            result = super().run_cycle()
            self.snapshot = before  # as if nothing had been decided
            check_next_snapshot(before, result, self.snapshot)
            return result

    with pytest.raises(CarryOverViolation, match="in the next, got Pending on None"):
        run(Forgetful)


def stepping(snapshot: Snapshot) -> ClusterMachine:
    """Return a machine in which nothing happens by itself."""
    machine = ClusterMachine()
    machine.change(snapshot)
    return machine


def test_who_leaves_a_node_comes_back_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeping_the_mark(task: TaskInfo) -> TaskInfo:
        return evolve(task, status=TaskStatus.PENDING, node_name=None)

    with_mark = cluster([node("n1", "4C4G")], job("j", "1C1G@n1*", minimum=1))
    machine = FollowedMachine()
    machine.change(with_mark)
    machine.drain(0)
    monkeypatch.setattr(
        machine_module, "next_snapshot", partial(next_snapshot, replacement=keeping_the_mark)
    )
    machine.change(with_mark)
    with pytest.raises(AssertionError, match="without the backfill mark"):
        machine.fail(0)


def test_a_node_that_is_drained_stays_closed_and_empty() -> None:
    snapshot = cluster(
        [node("n1", "2C2G"), node("n2", "2C2G")], job("a", "1C1G@n1", "1C1G@n2", minimum=1)
    )
    (other,) = job("other", "1C1G@n1").tasks
    machine = stepping(evolve(snapshot, other_tasks=[other]))
    machine.drain(0)
    assert [(n.name, n.unschedulable) for n in machine.snapshot.nodes] == [
        ("n1", True),
        ("n2", False),
    ]
    assert [(t.status, t.node_name) for t in machine.snapshot.jobs[0].tasks] == [
        (TaskStatus.PENDING, None),
        (TaskStatus.RUNNING, "n2"),
    ]
    assert machine.snapshot.other_tasks == ()
    result = machine.run_cycle()
    assert [bind.node_name for bind in result.binds] == ["n2"]
    machine.drain(0)
    assert machine.snapshot.nodes[0].unschedulable


def test_what_comes_has_a_name_that_nothing_has() -> None:
    class OwnNames(ClusterMachine):
        def starts(self) -> SearchStrategy[Snapshot]:
            return st.just(
                cluster(
                    [node("new1", "4C4G"), node("n2", "4C4G")],
                    job("new2", "1C1G"),
                    evolve(
                        job("x", "1C1G"), tasks=[evolve(job("x", "1C1G").tasks[0], uid="new3-1")]
                    ),
                )
            )

    run(OwnNames, examples=20)


# The check of what follows a cycle

STARTED = cluster([node("n1", "2C2G")], job("a", "1C1G"), job("r", "1C1G@n1", minimum=0))


def following(snapshot: Snapshot) -> tuple[CycleResult, Snapshot]:
    result = Scheduler().schedule(snapshot)
    after = next_snapshot(snapshot, result, now=snapshot.now + 1)
    check_next_snapshot(snapshot, result, after)
    return result, after


def changed(snapshot: Snapshot, uid: str, **changes: object) -> Snapshot:
    jobs = [
        evolve(of, tasks=[evolve(t, **changes) if t.uid == uid else t for t in of.tasks])
        for of in snapshot.jobs
    ]
    return evolve(snapshot, jobs=jobs)


def other_nodes(snapshot: Snapshot) -> Snapshot:
    return evolve(snapshot, nodes=[*snapshot.nodes, NodeInfo(name="n2")])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda s: changed(s, "a-1", status=TaskStatus.PENDING, node_name=None),
            "after the cycle; expected Running on 'n1' in the next, got Pending on None",
        ),
        (
            lambda s: changed(s, "r-1", status=TaskStatus.SUCCEEDED, node_name=None),
            "after the cycle; expected Running on 'n1' in the next, got Succeeded",
        ),
        (lambda s: changed(s, "r-1", is_backfill=True), "task 'r-1' runs with the backfill mark"),
        (lambda s: evolve(s, jobs=s.jobs[:1]), "expected the same jobs as before"),
        (other_nodes, "expected unchanged nodes"),
        (
            lambda s: changed(s, "a-1", resreq=Resource(milli_cpu=1)),
            "expected an unchanged request",
        ),
    ],
)
def test_what_follows_a_cycle_is_checked(spoil: Callable[[Snapshot], Snapshot], said: str) -> None:
    result, after = following(STARTED)
    with pytest.raises(CarryOverViolation) as caught:
        check_next_snapshot(STARTED, result, spoil(after))
    assert said in caught.value.problem
    assert str(caught.value).startswith(f"{caught.value.problem}\n  The cycle: ")
