"""The tables: measurements for readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import BETWEEN, CLOSE, DEFAULT, FAST, OPEN, Run
from benchmarks.measurement import EngineMeasurement, Measurement, Ratio
from benchmarks.targets import MB, Target, of_runs, verdicts

__all__ = ["report"]

ENGINES = (DEFAULT, FAST)
NOTES = (
    "Medians. Two rows a workload: the engine on lists, and on arrays (extra `fast`). Per cycle",
    "where there are several; *per task* is the whole cycle by pending tasks; *snapshot* is",
    "making and checking the snapshot; *garbage* is the collector's part of the cycle. A dash:",
    "not part of the cycle, or the same for both engines, or not measured, as NumPy is missing.",
)
RATIO_NOTES = (
    "Medians (lowest to highest) of runs that alternate in one process. *To the replay*: the time",
    "of this engine by the replay's. *To it*: the other's time by that of this engine.",
)
ACTIONS = ("reclaim", "allocate", "backfill", "preempt")
DASH = "–"  # noqa: RUF001 - a dash


def report(measurements: Mapping[str, Measurement], about: Mapping[str, object]) -> str:
    """Return all tables as Markdown."""
    lines = ["# Benchmarks", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    ordered = [measurements[name] for name in WORKLOADS if name in measurements]
    missing = [name for name in WORKLOADS if name not in measurements]
    if missing:
        lines.append(f"- not measured: {', '.join(missing)}")
    if len({(each.source, each.options) for each in ordered}) > 1:
        lines.append("- **these rows come from different sources or options: do not compare them**")
    lines += ["", "## Workloads and decisions", "", *_decisions(ordered)]
    lines += ["", "## Times in milliseconds", "", *_times(ordered)]
    lines += ["", *NOTES]
    lines += [
        "",
        "## Ratios",
        "",
        *_ratios(ordered),
        "",
        *RATIO_NOTES,
        "",
        "## Targets",
        "",
        *_targets(measurements),
    ]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |"]
    lines.append("|---|" + "---:|" * (len(head) - 1))
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return lines


def _decisions(measurements: Sequence[Measurement]) -> list[str]:
    head = (
        *("workload", "nodes", "cycles", "pending tasks"),
        *("bound", "evicted", "pipelined", "left pending"),
    )
    rows = [
        (
            f"`{each.name}` ({WORKLOADS[each.name].letter}) {WORKLOADS[each.name].description}",
            f"{each.nodes:,}",
            f"{each.cycles:,}",
            f"{each.tasks:,}",
            *(f"{each.counts[kind]:,}" for kind in ("binds", "evictions", "pipelined", "pending")),
        )
        for each in measurements
    ]
    return _table(head, rows)


def _name_of(measurement: Measurement, engine: str) -> str:
    return f"`{measurement.name}`" + (f", `{engine}`" if engine != DEFAULT else "")


def _rows(
    measurements: Sequence[Measurement],
    cells: Callable[[Measurement, EngineMeasurement, bool], Sequence[str]],
    count: int,
) -> list[Sequence[str]]:
    """Return a row of `count` cells for each workload and engine.

    `cells` makes them; its argument says whether they are the default engine's, whose row
    also holds what does not depend on the engine.
    """
    return [
        (
            _name_of(each, engine),
            *(
                cells(each, each.engines[engine], engine == DEFAULT)
                if engine in each.engines
                else [DASH] * count
            ),
        )
        for each in measurements
        for engine in ENGINES
    ]


def _times(measurements: Sequence[Measurement]) -> list[str]:
    head = (
        *("workload", "snapshot", OPEN, *ACTIONS, CLOSE, "whole cycle", BETWEEN),
        *("garbage", "per task, µs", "peak memory, MB"),
    )

    def cells(each: Measurement, engine: EngineMeasurement, is_default: bool) -> Sequence[str]:
        def median_of(value: Callable[[Run], float | None]) -> str:
            if value(engine.runs[0]) is None:
                return DASH
            return _number(of_runs(engine, lambda run: (value(run) or 0.0) * 1e3 / run.cycles))

        snapshot = sorted(each.snapshot_seconds)[len(each.snapshot_seconds) // 2]
        return (
            _number(snapshot * 1e3) if is_default else DASH,
            *(median_of(_seconds_of(part)) for part in (OPEN, *ACTIONS, CLOSE)),
            median_of(lambda run: run.seconds),
            median_of(_seconds_of(BETWEEN)),
            median_of(lambda run: run.garbage),
            _number(of_runs(engine, lambda run: run.seconds * 1e6 / run.tasks)),
            _number(engine.peak_memory / MB),
        )

    return _table(head, _rows(measurements, cells, len(head) - 1))


def _seconds_of(part: str) -> Callable[[Run], float | None]:
    return lambda run: run.parts.get(part)


def _ratios(measurements: Sequence[Measurement]) -> list[str]:
    head = (
        "workload",
        "to the replay, whole cycle",
        "to the replay, actions",
        "default engine to it",
        "plain loop to it",
        "the plain loop at",
        "plain loop, s",
        "time per task to 1,000 nodes",
    )

    def cells(each: Measurement, engine: EngineMeasurement, is_default: bool) -> Sequence[str]:
        plain_seconds = sorted(each.plain_seconds)[len(each.plain_seconds) // 2]
        return (
            _spread(engine.replay_cycle),
            _spread(engine.replay_actions),
            DASH if is_default else _spread(engine.to_default),
            _spread(engine.plain),
            each.plain_size if is_default else DASH,
            _number(plain_seconds) if is_default else DASH,
            _spread(engine.growth),
        )

    return _table(head, _rows(measurements, cells, len(head) - 1))


def _targets(measurements: Mapping[str, Measurement]) -> list[str]:
    rows: list[Sequence[str]] = []
    notes: list[str] = []
    for target, figures in verdicts(measurements):
        measurement = measurements[target.workload]
        mark = " (see below)" if target.note else ""
        notes += [target.note] if target.note else []
        rows.append(
            (
                f"({WORKLOADS[target.workload].letter}) `{target.workload}`: {target.what}{mark}",
                f"{'at most' if target.is_most else 'at least'} {target.bound:g}{target.unit}",
                *(
                    cell
                    for engine in ENGINES
                    for cell in _verdict(target, measurement, engine, figures.get(engine))
                ),
            )
        )
    head = ("target", "asked for", "measured", "verdict", f"with `{FAST}`", "verdict")
    return [*_table(head, rows), *([""] if notes else []), *(f"- {note}" for note in notes)]


def _verdict(
    target: Target, measurement: Measurement, engine: str, figure: float | None
) -> tuple[str, str]:
    if figure is None:
        return DASH, DASH
    verdict = "reached" if target.is_reached(figure) else "**missed**"
    doubts = target.doubts(measurement, engine)
    return f"{_number(figure)}{target.unit}", "; ".join([verdict, *doubts])


def _spread(ratio: Ratio | None) -> str:
    if ratio is None:
        return DASH
    low, high = min(ratio.rounds), max(ratio.rounds)
    if low == high:
        return _number(ratio.median)
    return f"{_number(ratio.median)} ({_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
