"""Sweeps: the same whatever runs them, and compared pair by pair."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from batchsched import NodeInfo, Resource
from batchsched.simulation import (
    Conservative,
    Decision,
    Easy,
    Fcfs,
    JobCancelled,
    Policy,
    Row,
    SimulationError,
    View,
    Workload,
    WorkloadError,
    generate,
    nodes_needed,
    resampled_by_users,
    resampled_by_weeks,
    simulate,
    sweep,
)
from batchsched.simulation.metrics import confidence_interval, jain_index, quantile
from batchsched.simulation.randomness import RandomNumbers, uniform

pytestmark = pytest.mark.slow

POLICIES = {"fcfs": Fcfs(), "easy": Easy(), "conservative": Conservative()}


@pytest.fixture(scope="module")
def seeds() -> dict[str, Workload]:
    return {f"seed {seed}": generate(jobs=150, nodes=32, seed=seed) for seed in range(4)}


class Backwards(Executor):
    """Runs what was submitted last first, when a result is asked for."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def submit(self, fn: Any, /, *args: Any, **named: Any) -> Any:
        executor = self

        class Future:
            def run(self) -> None:
                self.value = fn(*args, **named)

            def result(self) -> Any:
                while executor.tasks:
                    executor.tasks.pop()()
                return self.value

        future = Future()
        self.tasks.append(future.run)
        return future


def test_the_result_is_the_same_whatever_runs_it(seeds: dict[str, Workload]) -> None:
    here = sweep(policies=POLICIES, variants=seeds)
    with ThreadPoolExecutor(2) as threads:
        assert sweep(policies=POLICIES, variants=seeds, executor=threads).rows == here.rows
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert sweep(policies=POLICIES, variants=seeds, executor=processes).rows == here.rows
    assert sweep(policies=POLICIES, variants=seeds, executor=Backwards()).rows == here.rows


def test_a_dask_cluster_gives_the_same_table_though_a_worker_is_killed(
    seeds: dict[str, Workload],
) -> None:
    distributed = pytest.importorskip(
        "distributed", reason="dask.distributed is not installed: NO cluster runs a sweep"
    )
    few = {name: seeds[name] for name in list(seeds)[:2]}
    # On a port that is free, so that other clusters on the machine do not matter.
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as client:
        first, _ = client.run(os.getpid).values()
        killed: list[Row] = []

        def kill(row: Row) -> None:
            if not killed:
                os.kill(first, signal.SIGKILL)
            killed.append(row)

        table = sweep(policies=POLICIES, variants=few, executor=client.get_executor(), on_row=kill)
        # One that is dying may still be asked, and does not answer.
        assert first not in client.run(os.getpid, on_error="return").values()
    assert len(killed) == len(table.rows)
    assert table.rows == sweep(policies=POLICIES, variants=few).rows


def test_a_sweep_that_was_interrupted_and_resumed_gives_the_same_table(
    seeds: dict[str, Workload],
) -> None:
    whole = sweep(policies=POLICIES, variants=seeds)
    for stop in (0, 1, 7, 12):
        rows: list[Row] = []

        def keep(row: Row, rows: list[Row] = rows, stop: int = stop) -> None:
            if len(rows) == stop:
                raise KeyboardInterrupt
            rows.append(row)

        if stop < len(whole.rows):
            with pytest.raises(KeyboardInterrupt):
                sweep(policies=POLICIES, variants=seeds, on_row=keep)
            assert len(rows) == stop
        else:
            sweep(policies=POLICIES, variants=seeds, on_row=keep)
        told: list[Row] = []
        with ThreadPoolExecutor(2) as threads:
            table = sweep(
                policies=POLICIES, variants=seeds, done=rows, on_row=told.append, executor=threads
            )
        assert table == whole
        assert len(told) == len(whole.rows) - stop
    # Rows of other settings are run again.
    other = sweep(policies=POLICIES, variants=seeds, done=whole.rows, tau=60)
    assert other.rows[0].metrics["bsld"] != whole.rows[0].metrics["bsld"]
    assert other != whole


class Broken(Policy):
    def decide(self, view: View, /) -> list[Decision]:
        if view.waiting and len(view.waiting) > 40:
            raise RuntimeError("too many")
        return []


def test_a_run_that_fails_is_a_row_and_the_others_go_on(seeds: dict[str, Workload]) -> None:
    few = {"short": seeds["seed 1"].first(30), "long": seeds["seed 2"]}
    table = sweep(policies={"easy": Easy(), "broken": Broken()}, variants=few)
    assert [row.error for row in table.rows] == [None, None, None, "RuntimeError: too many"]
    assert table.columns()["error"][-1] == "RuntimeError: too many"
    [pair] = table.paired("jobs", baseline="easy")
    assert (len(pair.differences), pair.left_out) == (1, 1)
    assert "1 left out" in str(pair)
    assert str(table).endswith("failed: broken on long: RuntimeError: too many")


def test_figures_and_settings_of_ones_own(seeds: dict[str, Workload]) -> None:
    table = sweep(
        seeds["seed 0"],
        policies={"easy": Easy()},
        settings={"incidents": [JobCancelled(at=0, job=1)]},
        metrics=lambda run: {"cancelled": run.metrics()["cancelled"], "engine": len(run.engine)},
    )
    assert dict(table.rows[0].metrics) == {"cancelled": 1, "engine": len("general")}


def test_the_fewest_nodes_are_found_by_trying() -> None:
    log = generate(jobs=120, nodes=16, seed=1)
    found = nodes_needed(log, Easy(), longest_wait=3600, most=100)
    waits = found.waits
    assert found.nodes is not None
    assert list(waits) == list(range(max(log.processors), found.nodes + 1))
    assert all(wait is not None and wait > 3600 for wait in list(waits.values())[:-1])
    on_these = simulate(log.on(nodes=found.nodes), Easy()).metrics()["wait_max"]
    assert waits[found.nodes] == on_these <= 3600
    with ThreadPoolExecutor(2) as threads:
        assert nodes_needed(log, Easy(), longest_wait=3600, executor=threads) == found
    none = nodes_needed(log, Easy(), longest_wait=0, most=20)
    assert none.nodes is None
    assert str(none).endswith("nodes needed for 0 s: more than were tried")
    shape = NodeInfo(name="n", allocatable=Resource(milli_cpu=2000))
    wide = nodes_needed(log, Easy(), longest_wait=3600, shape=shape, most=60)
    assert wide.nodes is not None
    assert wide.nodes * 2 >= found.nodes - 1
    with pytest.raises(SimulationError, match="longest_wait: expected seconds"):
        nodes_needed(log, Easy(), longest_wait=-1)


def test_rows_are_those_of_single_runs(seeds: dict[str, Workload]) -> None:
    table = sweep(policies=POLICIES, variants=seeds)
    assert table.policies == ("fcfs", "easy", "conservative")
    assert table.variants == tuple(seeds)
    assert [row.metrics["bsld"] for row in table.rows] == [
        simulate(workload, policy).metrics()["bsld"]
        for policy in POLICIES.values()
        for workload in seeds.values()
    ]
    columns = table.columns()
    assert columns["policy"][:2] == ["fcfs", "fcfs"]
    assert {len(column) for column in columns.values()} == {12}
    assert str(table).startswith("means over 4 workloads\n")


def test_pairs_are_differences_on_the_same_workload(seeds: dict[str, Workload]) -> None:
    table = sweep(policies=POLICIES, variants=seeds)
    fcfs, conservative = table.paired("wait", baseline="easy")
    assert (fcfs.policy, conservative.policy) == ("fcfs", "conservative")
    expected = [
        a - b
        for a, b in zip(table.values("wait", "fcfs"), table.values("wait", "easy"), strict=True)
    ]
    assert list(fcfs.differences) == expected
    assert fcfs.mean == pytest.approx(sum(expected) / 4)
    assert fcfs.interval == pytest.approx(confidence_interval(expected))
    assert fcfs.interval is not None
    assert fcfs.is_significant == (fcfs.interval[0] > 0)
    assert str(fcfs).startswith("fcfs - easy: +")
    alone = sweep(seeds["seed 1"], policies=POLICIES).paired("wait", baseline="easy")
    assert alone[0].interval is None
    assert "(one workload)" in str(alone[0])


def test_policies_without_names_have_their_own(seeds: dict[str, Workload]) -> None:
    table = sweep(seeds["seed 0"], policies=[Fcfs(), Easy()])
    assert table.policies == ("FCFS", "EASY (requested time)")


def test_sweeps_that_cannot_be_are_refused(seeds: dict[str, Workload]) -> None:
    with pytest.raises(SimulationError, match="either a workload or variants"):
        sweep(policies=POLICIES)
    with pytest.raises(SimulationError, match="either a workload or variants"):
        sweep(seeds["seed 0"], policies=POLICIES, variants=seeds)
    with pytest.raises(SimulationError, match="policies with different names"):
        sweep(seeds["seed 0"], policies=[Easy(), Easy()])
    table = sweep(seeds["seed 0"], policies=POLICIES)
    with pytest.raises(
        SimulationError, match="expected one of fcfs, easy, conservative; got 'sjf'"
    ):
        table.paired("wait", baseline="sjf")
    with pytest.raises(SimulationError, match="metric: expected one of jobs, bsld"):
        table.values("waits", "easy")


# Workloads that are made


def test_generated_workloads_are_as_asked_for() -> None:
    workload = generate(jobs=5000, nodes=128, seed=3, load=0.6, users=7, serial=0.5)
    assert len(workload) == 5000
    assert workload.load == pytest.approx(0.6, rel=0.01)
    assert set(workload.users) == set(range(1, 8))
    assert max(workload.processors) <= 128
    serial = sum(size == 1 for size in workload.processors) / 5000
    assert serial == pytest.approx(0.5, abs=0.05)
    assert all(
        limit is not None and limit >= run
        for limit, run in zip(workload.requested, workload.runs, strict=True)
    )
    hours = [int(submit / 3600) % 24 for submit in workload.submits]
    assert sum(12 <= hour < 16 for hour in hours) > 2 * sum(0 <= hour < 4 for hour in hours)


def test_seeds_decide_and_are_not_alike() -> None:
    assert generate(jobs=50, nodes=8, seed=1) == generate(jobs=50, nodes=8, seed=1)
    assert generate(jobs=50, nodes=8, seed=1) != generate(jobs=50, nodes=8, seed=2)
    # The same numbers on every machine and Python.
    assert generate(jobs=3, nodes=8, seed=1).runs == GENERATED


GENERATED = (547, 19473, 10)


@pytest.mark.parametrize("seed", [0, 1, -7, 2**64 - 1, 2**70 + 3])
def test_numbers_that_are_drawn_side_by_side_are_those_drawn_one_by_one(seed: int) -> None:
    draw, numbers = uniform(seed), RandomNumbers(seed)
    assert all(draw() == (numbers.bits() >> 11) / 2**53 for _ in range(1000))


@pytest.mark.parametrize("jobs", [0, 1, 2])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_small_workloads_can_be_made(jobs: int, nodes: int) -> None:
    workload = generate(jobs=jobs, nodes=nodes, seed=5)
    assert len(simulate(workload, Easy()).jobs["id"]) == jobs


def test_arguments_that_cannot_be_are_refused_all_at_once() -> None:
    with pytest.raises(WorkloadError) as caught:
        generate(jobs=-1, nodes=4, seed=1, load=0, users=0, serial=2)
    assert len(caught.value.faults) == 4


def test_weeks_are_drawn_whole() -> None:
    log = generate(jobs=4000, nodes=16, seed=1)
    week = 7 * 86400
    by_week: dict[int, list[tuple[float, float]]] = {}
    for submit, run in zip(log.submits, log.runs, strict=True):
        by_week.setdefault(int(submit // week), []).append((submit % week, run))
    made = resampled_by_weeks(log, weeks=5, seed=9)
    assert made.machine == log.machine
    assert made == resampled_by_weeks(log, weeks=5, seed=9)
    for number in range(5):
        here = sorted(
            (submit - number * week, run)
            for submit, run in zip(made.submits, made.runs, strict=True)
            if number * week <= submit < (number + 1) * week
        )
        assert here in [sorted(each) for each in by_week.values()]
    with pytest.raises(WorkloadError, match="expected a log of a week or more"):
        resampled_by_weeks(log.first(3), weeks=1, seed=1)
    with pytest.raises(WorkloadError, match="weeks: expected a whole number, 1 or more"):
        resampled_by_weeks(log, weeks=0, seed=1)


def test_users_keep_their_hours() -> None:
    log = generate(jobs=3000, nodes=16, seed=1)
    week = 7 * 86400
    made = resampled_by_users(log, seed=4)
    hours = {(submit % week, run) for submit, run in zip(log.submits, log.runs, strict=True)}
    assert {(at % week, run) for at, run in zip(made.submits, made.runs, strict=True)} <= hours
    assert len(set(made.users)) <= len(set(log.users))
    double = resampled_by_users(log, seed=4, users=2 * len(set(log.users)))
    assert len(double) > len(made)
    assert made != resampled_by_users(log, seed=5)
    with pytest.raises(WorkloadError, match="users: expected a whole number, 1 or more"):
        resampled_by_users(log, seed=1, users=0)
    with pytest.raises(WorkloadError, match="a week or more whose jobs have users"):
        resampled_by_users(log.first(1), seed=1)


# Figures


def test_student_intervals_are_those_of_the_tables() -> None:
    # The quantiles of Student's t at 97.5 %, from the tables.
    for count, quantile_ in ((2, 12.7062), (5, 2.7764), (10, 2.2622), (30, 2.0452), (1000, 1.9623)):
        numbers = [0.0] * (count - 1) + [float(count)]
        low, high = confidence_interval(numbers)
        deviation = (sum((n - 1) ** 2 for n in numbers) / (count - 1)) ** 0.5
        assert (high - low) / 2 / deviation * count**0.5 == pytest.approx(quantile_, abs=1e-4)
    with pytest.raises(ValueError, match="expected 2 numbers or more, got 1"):
        confidence_interval([1.0])


def test_indices_and_quantiles_of_few_numbers() -> None:
    assert jain_index([]) == jain_index([0, 0]) == jain_index([3, 3]) == 1
    assert jain_index([5, 0, 0, 0]) == 0.25
    assert quantile([], 0.5) == 0
    assert quantile([7], 0.99) == 7
