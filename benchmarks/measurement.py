"""Measuring one workload: its parts, and what they are compared with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import process_time

from attrs import evolve, frozen

import batchsched
from batchsched import ActionOption, Snapshot
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import DEFAULT, FAST, MakeScheduler, Run, engine, engines, plain_loop, run
from benchmarks.digests import Digests, same
from benchmarks.replay import record, replay
from benchmarks.workloads.scenario import Scenario, Workload

__all__ = [
    "SCALES",
    "EngineMeasurement",
    "Measurement",
    "Options",
    "Ratio",
    "measure",
    "store_digests",
]

SCALES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)
"""The scales at which the plain loop is tried."""

ALL_ENGINES = (DEFAULT, FAST)


@frozen(kw_only=True)
class Options:
    """How to measure."""

    scale: float = 1.0
    rounds: int = 3
    """How often runs that are compared alternate."""
    plain_rounds: int = 3
    plain_limit: float = 100.0
    """The seconds in which the plain loop should end; it runs at the largest scale that does.

    A twentieth of it where there are many cycles.
    """
    plain_once: float = 22.0
    """If the plain loop takes as many seconds, it runs once."""


@frozen(kw_only=True)
class Ratio:
    """How many times as long one thing takes as another, measured alternately."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of all rounds."""
        return median(self.rounds)


@frozen(kw_only=True)
class EngineMeasurement:
    """What was measured of one engine on a workload. Times are seconds of the processor."""

    runs: tuple[Run, ...]
    replay_cycle: Ratio
    """The whole cycle to the replay's whole cycle; opening and closing are in both."""
    replay_actions: Ratio | None
    """The actions to what is replayed instead of them; None if they did nothing."""
    to_default: Ratio
    """The default engine's whole cycle to this one's."""
    plain: Ratio
    """The plain loop's whole cycle to the engine's, at `Measurement.plain_scale`."""
    growth: Ratio | None = None
    """The time per task to that of `Measurement.growth_from`."""
    allocate_alone: tuple[float, ...] = ()
    """The seconds of allocate in a cycle without reclaim and preempt; if it has those."""
    peak_memory: int = 0
    """Of a fresh process that makes the snapshot and runs the cycles once; bytes."""


@frozen(kw_only=True)
class Measurement:
    """All measurements of a workload. Times are seconds of the processor."""

    name: str
    scale: float
    nodes: int
    tasks: int
    """How many tasks were pending, in all cycles together."""
    cycles: int
    counts: dict[str, int]
    snapshot_seconds: tuple[float, ...]
    """What it takes to make, and check, the snapshot from nodes and jobs that exist."""
    engines: dict[str, EngineMeasurement]
    """By name; without `FAST` where numpy is missing."""
    replays: tuple[Run, ...]
    plain_scale: float
    plain_size: str
    plain_seconds: tuple[float, ...]
    growth_from: str | None = None
    source: str = ""
    """A digest of all source text that was run; figures of different sources do not compare."""
    options: Options = Options()


def measure(workload: Workload, options: Options, digests: Digests) -> Measurement:
    """Measure a workload, except for its memory.

    Raises:
        WrongDecisionsError: decisions are not those that are stored, or those of the
            plain loop, or the replay ends in another state.
    """
    source = source_digest()
    known = engines()
    small = workload.make(SCALES[0])
    for make_scheduler in known.values():
        # Lazily created values must exist before the measurement.
        digests.check(workload.name, SCALES[0], run(small, make_scheduler))
    scenario = workload.make(options.scale)

    def check(measured: Run) -> Run:
        return digests.check(workload.name, options.scale, measured)

    recording = record(scenario)
    check(recording.run)
    without = _without_evictions(scenario)
    snapshot_seconds: list[float] = []
    runs: dict[str, list[Run]] = {name: [] for name in known}
    alone: dict[str, list[float]] = {name: [] for name in known}
    replays: list[Run] = []
    for _ in range(options.rounds):
        snapshot_seconds.append(_seconds_of(evolve, scenario.snapshot))
        for name, make_scheduler in known.items():
            runs[name].append(check(run(scenario, make_scheduler)))
        replays.append(same(recording.run, replay(scenario, recording)))
        if without is not None:
            for name, make_scheduler in known.items():
                measured = run(without, make_scheduler)
                digests.check(f"{workload.name}, allocate alone", options.scale, measured)
                alone[name].append(measured.parts["allocate"])
    nodes = len(scenario.snapshot.nodes)
    is_nothing_done = recording.is_empty
    del scenario, recording, without
    growth: Mapping[str, Ratio] = {}
    if workload.growth_from is not None:
        growth = _growth((workload, WORKLOADS[workload.growth_from]), known, options, digests)
    plain = _plain(workload, known, options, digests)
    first = runs[DEFAULT][0]
    return Measurement(
        name=workload.name,
        scale=options.scale,
        nodes=nodes,
        tasks=first.tasks,
        cycles=first.cycles,
        counts=first.counts,
        snapshot_seconds=tuple(snapshot_seconds),
        engines={
            name: EngineMeasurement(
                runs=tuple(runs[name]),
                replay_cycle=_ratio(runs[name], replays, lambda one: one.seconds),
                replay_actions=(
                    None
                    if is_nothing_done
                    else _ratio(runs[name], replays, lambda one: one.action_seconds)
                ),
                to_default=_ratio(runs[DEFAULT], runs[name], lambda one: one.seconds),
                plain=plain.ratios[name],
                growth=growth.get(name),
                allocate_alone=tuple(alone[name]),
            )
            for name in known
        },
        replays=tuple(replays),
        plain_scale=plain.scale,
        plain_size=plain.size,
        plain_seconds=plain.seconds,
        growth_from=workload.growth_from,
        source=source,
        options=options,
    )


def source_digest() -> str:
    """Return a short digest of the source text of what is measured, and of the benchmarks."""
    digest = hashlib.sha256()
    library = Path(batchsched.__file__).parent
    for root in (library, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            if library / "testing" in path.parents:
                continue  # nothing of it is run
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
    """Return the same without reclaim and preempt; None where that is not meaningful."""
    names = [action.name for action in scenario.config.actions]
    if scenario.cycles > 1 or not {"reclaim", "preempt"} & set(names):
        return None
    actions = (ActionOption(name="allocate"), ActionOption(name="backfill"))
    return evolve(scenario, config=evolve(scenario.config, actions=actions))


def _growth(
    large_and_small: tuple[Workload, Workload],
    known: Mapping[str, MakeScheduler],
    options: Options,
    digests: Digests,
) -> dict[str, Ratio]:
    """Compare the time per task with a smaller workload's, only one of them in memory."""
    large, _ = large_and_small
    ratios: dict[str, list[float]] = {name: [] for name in known}
    for _ in range(options.rounds):
        per_task: dict[str, list[float]] = {name: [] for name in known}
        for each in large_and_small:
            scenario = each.make(options.scale)
            for name, make_scheduler in known.items():
                # A short run is measured as often as fits into a longer one's time, roughly.
                runs = [run(scenario, make_scheduler) for _ in range(1 if each is large else 5)]
                digests.check(each.name, options.scale, runs[0])
                per_task[name].append(median(one.seconds / one.tasks for one in runs))
            del scenario
        for name, (of_large, of_small) in per_task.items():
            ratios[name].append(of_large / of_small)
    return {name: Ratio(rounds=tuple(rounds)) for name, rounds in ratios.items()}


@frozen(kw_only=True)
class _Plain:
    """The plain loop, compared with each engine."""

    scale: float
    size: str
    seconds: tuple[float, ...]
    ratios: dict[str, Ratio]


def _plain(
    workload: Workload, known: Mapping[str, MakeScheduler], options: Options, digests: Digests
) -> _Plain:
    """Compare the engines with the plain loop, at the largest scale at which that ends in time."""
    scales = [scale for scale in SCALES if scale <= options.scale]
    position = 0
    scenario = workload.make(scales[position])
    first = run(scenario, plain_loop)
    # The cost of one cycle is proportional to nodes x tasks; that of many cycles to their number,
    # and the ratio is the same for few of them.
    exponent, limit = 2, options.plain_limit
    if scenario.cycles > 1:
        exponent, limit = 1, options.plain_limit / 20
    while True:
        within = [
            later
            for later in range(position + 1, len(scales))
            if first.seconds * (scales[later] / scales[position]) ** exponent <= limit
        ]
        if not within:
            break
        position = within[-1]
        scenario = workload.make(scales[position])
        first = run(scenario, plain_loop)
    scale = scales[position]
    digests.check(workload.name, scale, first)
    ratios: dict[str, list[float]] = {name: [] for name in known}
    seconds: list[float] = []
    rounds = 1 if first.seconds >= options.plain_once else options.plain_rounds
    before = [same(first, run(scenario, each)).seconds for each in known.values()]
    for number in range(rounds):
        plain = first if number == 0 else same(first, run(scenario, plain_loop))
        after = [same(first, run(scenario, each)).seconds for each in known.values()]
        seconds.append(plain.seconds)
        for name, one, other in zip(known, before, after, strict=True):
            ratios[name].append(2 * plain.seconds / (one + other))
        before = after
    size = f"{len(scenario.snapshot.nodes):,} nodes, {first.tasks:,} tasks"
    if scenario.cycles > 1:
        size = f"{scenario.cycles:,} cycles"
    return _Plain(
        scale=scale,
        size=size,
        seconds=tuple(seconds),
        ratios={name: Ratio(rounds=tuple(rounds)) for name, rounds in ratios.items()},
    )


def store_digests(workload: Workload, digests: Digests) -> None:
    """Store the digests of a workload at all scales at which it may be measured."""
    for scale in SCALES:
        scenario = workload.make(scale)
        digests.check(workload.name, scale, run(scenario, engine))
        without = _without_evictions(scenario)
        if without is not None:
            digests.check(f"{workload.name}, allocate alone", scale, run(without, engine))
