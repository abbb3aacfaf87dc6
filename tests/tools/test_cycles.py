"""Evictions that never end: loops that were published, and the laws of the search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.support.nightly import a_thousand_at_night
from tests.support.program import run

from batchsched import (
    ArgumentError,
    JobInfo,
    NodeInfo,
    Queue,
    Registry,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
)
from batchsched.plugin import QueueState, SessionView, TaskState, Verdict
from batchsched.testing import snapshots
from batchsched.tools import find_cycles, without_times
from batchsched.tools.cycles import longest, small_worlds

CPU = Resource(milli_cpu=1000)
PREEMPT = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})


def job(name: str, queue: str, size: int, *, runs: bool = False, priority: int = 0) -> JobInfo:
    where = {"status": TaskStatus.RUNNING, "node_name": "n"} if runs else {}
    task = TaskInfo(uid=name, name=name, resreq=size * CPU, **where)  # type: ignore[arg-type]
    return JobInfo(name=name, queue=queue, priority=priority, min_available=0, tasks=[task])


def cluster(size: int, *jobs: JobInfo, **deserved: int) -> Snapshot:
    names = sorted({each.queue for each in jobs})
    queues = [Queue(name=name, deserved=deserved.get(name, 0) * CPU) for name in names]
    return Snapshot(nodes=[NodeInfo(name="n", allocatable=size * CPU)], queues=queues, jobs=jobs)


class Opens:
    """Opens itself."""

    def open(self, _view: SessionView, /) -> object:
        return self


def held_by(queue: QueueState) -> float:
    return sum(task.resreq[0] for job in queue.jobs for task in job.tasks if task.status.charged)


class FewestFirst(Opens):
    """Queues are served by what they hold."""

    def queue_order_key(self, queue: QueueState, /) -> float:
        return held_by(queue)


class ByJobPriority(Opens):
    """Other queues lose tasks of jobs of lower priority."""

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        assert claimant.job is not None
        mine = claimant.job.info.priority
        below = [each.job is not None and each.job.info.priority < mine for each in candidates]
        return [Verdict.VICTIM if is_below else Verdict.PASS for is_below in below]


class AboveTheirShares(Opens):
    """Queues above what they deserve lose anything, however much too much; claims are unchecked."""

    def reclaimable(
        self, _claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [Verdict.VICTIM if _is_above(each) else Verdict.PASS for each in candidates]


def _is_above(task: TaskState) -> bool:
    queue = None if task.job is None else task.job.queue
    if queue is None or queue.info.deserved is None:
        return False
    return held_by(queue) > queue.info.deserved.milli_cpu


class RefusesAll(Opens):
    """Nobody may be evicted."""

    def preemptable(
        self, _claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [Verdict.PROTECTED for _ in candidates]


def with_plugins(
    actions: str, *plugins: type, more: Sequence[str] = ()
) -> tuple[SchedulerConfig, Registry]:
    registry = default_registry()
    for plugin in plugins:
        registry.register_plugin(plugin.__name__, lambda _, made=plugin: made())
    names = [*more, *(plugin.__name__ for plugin in plugins), "predicates"]
    mapping = {"actions": actions, "tiers": [{"plugins": names}]}
    return SchedulerConfig.from_mapping(mapping, registry=registry), registry


# Published loops


def test_reclaim_that_takes_back_what_allocate_binds_ends_a_loop_of_others() -> None:
    """Queues served by what they hold, and reclaim by priority: elsewhere, they go round."""
    config, registry = with_plugins("allocate, reclaim", FewestFirst, ByJobPriority)
    runs = [job("a0", "a", 250, runs=True), job("c0", "c", 50, runs=True)]
    given = cluster(300, *runs, job("a1", "a", 50, priority=1))
    assert find_cycles(config, given, registry=registry, promises="forgotten") is None


def test_a_rival_that_takes_the_place_of_what_was_evicted() -> None:
    found = find_cycles(PREEMPT, promises="rival")
    assert found is not None
    assert (len(found.snapshot.nodes), len(found.snapshot.jobs)) == (1, 2)
    assert find_cycles(PREEMPT, worlds=100) is None


def test_shares_between_queues_whose_claims_nobody_checks() -> None:
    config, registry = with_plugins(
        "allocate, preempt, reclaim", AboveTheirShares, more=["priority"]
    )
    jobs = [job("q0", "q0", 1, runs=True), job("q0-all", "q0", 3, priority=1)]
    given = cluster(3, *jobs, job("q1-all", "q1", 3), q0=1, q1=2)
    found = find_cycles(config, given, registry=registry)
    assert found is not None
    assert found.proved


def test_where_every_candidate_is_refused_a_cycle_returns() -> None:
    config, registry = with_plugins("allocate, preempt", RefusesAll)
    assert find_cycles(config, registry=registry, worlds=60) is None


CAPACITY = [
    SchedulerConfig(),
    *(
        SchedulerConfig.from_mapping({"actions": actions})
        for actions in ("reclaim, preempt, allocate", "preempt, allocate, reclaim")
    ),
]


@pytest.mark.parametrize("config", CAPACITY, ids=lambda config: config.actions[0].name)
def test_capacity_with_reclaim_and_preempt_comes_to_an_end(config: SchedulerConfig) -> None:
    assert find_cycles(config, worlds=60) is None


@pytest.mark.slow
@pytest.mark.night
@pytest.mark.parametrize("config", CAPACITY[1:], ids=lambda config: config.actions[0].name)
def test_capacity_comes_to_an_end_in_many(config: SchedulerConfig) -> None:
    assert find_cycles(config, worlds=800) is None


# Laws


@pytest.mark.parametrize("promises", ["kept", "rival"])
def test_law_what_is_found_replays(promises: str) -> None:
    tiers = [{"plugins": ["gang", "predicates"]}]
    kept = SchedulerConfig.from_mapping({"actions": "allocate, preempt", "tiers": tiers})
    found = find_cycles(kept if promises == "kept" else PREEMPT, promises=promises)
    assert found is not None
    with pytest.raises(AssertionError, match="ping-pong"):
        exec(found.as_code(), {})
    assert without_times(found.snapshots[-1]) == without_times(found.snapshots[0])
    assert set(found.evicted) == {e.task_uid for each in found.loop for e in each.evictions}


def test_law_the_order_of_input_does_not_matter() -> None:
    for world in islice(small_worlds(), 0, 400, 40):
        turned = evolve(world, jobs=[*world.jobs][::-1], queues=[*world.queues][::-1])
        one, other = (find_cycles(PREEMPT, each, promises="rival") for each in (world, turned))
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.evicted, str(one)) == (other.evicted, str(other))


@a_thousand_at_night(25)
@given(snapshots(), st.sampled_from(CAPACITY))
def test_law_with_default_rules_evictions_end(snapshot: Snapshot, config: SchedulerConfig) -> None:
    assert find_cycles(config, snapshot, cycles=60) is None


def test_the_small_clusters_are_many_and_all_different() -> None:
    worlds = list(islice(small_worlds(), 1000))
    assert all(one != other for one, other in pairwise(worlds))
    assert max(len(world.jobs) for world in worlds) <= 4


def test_time_passes_all_durations_that_are_named() -> None:
    slow = SchedulerConfig.from_mapping(
        {"actions": "preempt",
         "configurations": [{"name": "preempt", "arguments": {"minRuntime": 1e6}}]}
    )  # fmt: skip
    given = cluster(1, job("lo", "q", 1, runs=True), job("hi", "q", 1, priority=9))
    assert longest(slow, given) == 1e6
    assert longest(PREEMPT, evolve(given, jobs=[evolve(given.jobs[0], estimate=2e6)])) == 2e6
    assert find_cycles(slow, given, promises="rival") is not None


def test_what_cannot_be_searched_is_refused_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        find_cycles(PREEMPT, promises="lost", step=-1, cycles=-1, worlds=-1)
    assert [fault.path for fault in caught.value.faults] == ["promises", "step", "cycles", "worlds"]
    assert find_cycles(PREEMPT, cycles=0, worlds=3) is None


def test_what_does_not_come_back_but_evicts_is_not_proved() -> None:
    given = cluster(1, job("lo", "q", 1, runs=True), job("hi", "q", 1, priority=9))
    found = find_cycles(PREEMPT, given, promises="rival", cycles=1)
    assert found is not None
    assert not found.proved
    assert "as far as was looked" in str(found)
    with pytest.raises(AssertionError, match="ping-pong"):
        exec(found.as_code(), {})


def test_the_program_answers(tmp_path: Path) -> None:
    ended = run("check", "kubernetes", "--loops", "--promises", "rival", "--json")
    assert (ended.status, ended.data["loop"]["proved"]) == (1, True)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(next(small_worlds()).to_dict()))
    ended = run("check", "kubernetes", "--loops", "-f", str(path))
    assert (ended.status, ended.lines[-1]) == (
        0,
        "No evictions that never end are found on this cluster.",
    )
