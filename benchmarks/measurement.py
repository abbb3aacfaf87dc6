"""Measuring one workload: its parts, and what they are compared with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

from attrs import evolve, frozen

import batchsched
from batchsched import ActionOption, Snapshot
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import Run, engine, plain_loop, run
from benchmarks.digests import Digests, same
from benchmarks.replay import record, replay
from benchmarks.workloads.scenario import Scenario, Workload

__all__ = ["SCALES", "Measurement", "Options", "Ratio", "measure", "store_digests"]

SCALES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)
"""The scales at which the plain loop is tried."""


@frozen(kw_only=True)
class Options:
    """How to measure."""

    scale: float = 1.0
    rounds: int = 5
    """How often runs that are compared alternate."""
    plain_rounds: int = 3
    plain_limit: float = 60.0
    """The seconds in which the plain loop must end."""


@frozen(kw_only=True)
class Ratio:
    """How many times as long one thing takes as another, measured alternately."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of all rounds."""
        return median(self.rounds)


@frozen(kw_only=True)
class Measurement:
    """Everything that was measured of a workload. Times are seconds of the processor."""

    name: str
    scale: float
    nodes: int
    tasks: int
    """How many tasks were pending, in all cycles together."""
    cycles: int
    counts: dict[str, int]
    snapshot_seconds: tuple[float, ...]
    """What it takes to make, and check, the snapshot from nodes and jobs that exist."""
    runs: tuple[Run, ...]
    replays: tuple[Run, ...]
    replay_cycle: Ratio
    """The whole cycle to the replay's whole cycle; opening and closing are in both."""
    replay_actions: Ratio | None
    """The actions to what is replayed instead of them; None if they did nothing."""
    plain_scale: float
    plain_size: str
    plain_seconds: tuple[float, ...]
    plain: Ratio
    """The plain loop's whole cycle to the engine's, at `plain_scale`."""
    growth_from: str | None = None
    growth: Ratio | None = None
    """The time per task to that of `growth_from`."""
    allocate_alone: tuple[float, ...] = ()
    """The seconds of allocate in a cycle without reclaim and preempt; if it has those."""
    source: str = ""
    """A digest of all source text that was run; figures of different sources do not compare."""
    options: Options = Options()
    peak_memory: int = 0
    """Of a fresh process that makes the snapshot and runs the cycles once; bytes."""


def measure(workload: Workload, options: Options, digests: Digests) -> Measurement:
    """Measure a workload, except for its memory.

    Raises:
        WrongDecisionsError: decisions are not those that are stored, or those of the
            plain loop, or the replay ends in another state.
    """
    source = source_digest()
    scenario = workload.make(options.scale)

    def check(measured: Run) -> Run:
        return digests.check(workload.name, options.scale, measured)

    recording = record(scenario)
    check(recording.run)
    snapshot_seconds: list[float] = []
    runs: list[Run] = []
    replays: list[Run] = []
    alone: list[float] = []
    for _ in range(options.rounds):
        snapshot_seconds.append(_seconds_of(evolve, scenario.snapshot))
        runs.append(check(run(scenario, engine)))
        replays.append(same(recording.run, replay(scenario, recording)))
        without = _without_evictions(scenario)
        if without is not None:
            measured = run(without, engine)
            digests.check(f"{workload.name}, allocate alone", options.scale, measured)
            alone.append(measured.parts["allocate"])
    nodes = len(scenario.snapshot.nodes)
    is_nothing_done = recording.is_empty
    del scenario, recording
    growth = None
    if workload.growth_from is not None:
        growth = _growth(workload, WORKLOADS[workload.growth_from], options, digests)
    plain_scale, plain_size, plain_seconds, plain = _plain(workload, options, digests)
    return Measurement(
        name=workload.name,
        scale=options.scale,
        nodes=nodes,
        tasks=runs[0].tasks,
        cycles=runs[0].cycles,
        counts=runs[0].counts,
        snapshot_seconds=tuple(snapshot_seconds),
        runs=tuple(runs),
        replays=tuple(replays),
        replay_cycle=_ratio(runs, replays, lambda one: one.seconds),
        replay_actions=(
            None if is_nothing_done else _ratio(runs, replays, lambda one: one.action_seconds)
        ),
        plain_scale=plain_scale,
        plain_size=plain_size,
        plain_seconds=plain_seconds,
        plain=plain,
        growth_from=workload.growth_from,
        growth=growth,
        allocate_alone=tuple(alone),
        source=source,
        options=options,
    )


def source_digest() -> str:
    """Return a short digest of the source text of the library and of the benchmarks."""
    digest = hashlib.sha256()
    for root in (Path(batchsched.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root.parent)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _seconds_of(function: Callable[[Snapshot], object], snapshot: Snapshot) -> float:
    before = process_time()
    function(snapshot)
    return process_time() - before


def _ratio(over: list[Run], under: list[Run], seconds: Callable[[Run], float]) -> Ratio:
    return Ratio(
        rounds=tuple(seconds(one) / seconds(other) for one, other in zip(over, under, strict=True))
    )


def _without_evictions(scenario: Scenario) -> Scenario | None:
    """Return the same without reclaim and preempt; None where that says nothing."""
    names = [action.name for action in scenario.config.actions]
    if scenario.cycles > 1 or not {"reclaim", "preempt"} & set(names):
        return None
    actions = (ActionOption(name="allocate"), ActionOption(name="backfill"))
    return evolve(scenario, config=evolve(scenario.config, actions=actions))


def _growth(workload: Workload, small: Workload, options: Options, digests: Digests) -> Ratio:
    """Compare the time per task with a smaller workload's, only one of them in memory."""
    ratios: list[float] = []
    for _ in range(options.rounds):
        per_task: list[float] = []
        for each in (workload, small):
            scenario = each.make(options.scale)
            # A short run is measured as often as fits into a longer one's time, roughly.
            runs = [run(scenario, engine) for _ in range(1 if each is workload else 5)]
            digests.check(each.name, options.scale, runs[0])
            per_task.append(median(one.seconds / one.tasks for one in runs))
            del scenario
        ratios.append(per_task[0] / per_task[1])
    return Ratio(rounds=tuple(ratios))


def _plain(
    workload: Workload, options: Options, digests: Digests
) -> tuple[float, str, tuple[float, ...], Ratio]:
    """Compare the engine with the plain loop, at the largest scale at which that ends in time."""
    scales = [scale for scale in SCALES if scale <= options.scale]
    position = 0
    scenario = workload.make(scales[position])
    first = run(scenario, plain_loop)
    while True:
        # The cost of one cycle follows nodes x tasks; that of many follows how many.
        exponent = 1 if scenario.cycles > 1 else 2
        within = [
            later
            for later in range(position + 1, len(scales))
            if first.seconds * (scales[later] / scales[position]) ** exponent <= options.plain_limit
        ]
        if not within:
            break
        larger = workload.make(scales[within[-1]])
        measured = run(larger, plain_loop)
        if measured.seconds > options.plain_limit:
            break
        position, scenario, first = within[-1], larger, measured
    scale = scales[position]
    expected = digests.check(workload.name, scale, run(scenario, engine))
    same(expected, first)
    ratios: list[float] = []
    seconds: list[float] = []
    for number in range(options.plain_rounds):
        before = run(scenario, engine)
        plain = same(expected, first if number == 0 else run(scenario, plain_loop))
        after = run(scenario, engine)
        same(expected, before)
        same(expected, after)
        seconds.append(plain.seconds)
        ratios.append(2 * plain.seconds / (before.seconds + after.seconds))
    size = f"{len(scenario.snapshot.nodes):,} nodes, {expected.tasks:,} tasks"
    if scenario.cycles > 1:
        size = f"{scenario.cycles:,} cycles"
    return scale, size, tuple(seconds), Ratio(rounds=tuple(ratios))


def store_digests(workload: Workload, digests: Digests) -> None:
    """Store the digests of a workload at all scales at which it may be measured."""
    for scale in SCALES:
        scenario = workload.make(scale)
        digests.check(workload.name, scale, run(scenario, engine))
        without = _without_evictions(scenario)
        if without is not None:
            digests.check(f"{workload.name}, allocate alone", scale, run(without, engine))
