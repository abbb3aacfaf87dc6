"""The tables: measurements as a person wants to read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import BETWEEN, CLOSE, OPEN, Run
from benchmarks.measurement import Measurement, Ratio
from benchmarks.targets import MB, of_runs, verdicts

__all__ = ["report"]

NOTES = (
    "Medians. Per cycle where there are several; *per task* is the whole cycle by pending tasks;",
    "*snapshot* is making and checking the snapshot; *garbage* is the collector's part of the",
    "cycle. A dash: not part of the cycle.",
)
ACTIONS = ("reclaim", "allocate", "backfill", "preempt")


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
        "Medians (lowest to highest) of runs that alternate in one process.",
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


def _times(measurements: Sequence[Measurement]) -> list[str]:
    head = (
        *("workload", "snapshot", OPEN, *ACTIONS, CLOSE, "whole cycle", BETWEEN),
        *("garbage", "per task, µs", "peak memory, MB"),
    )
    rows: list[Sequence[str]] = []
    for each in measurements:

        def median_of(value: Callable[[Run], float | None], each: Measurement = each) -> str:
            if value(each.runs[0]) is None:
                return "–"  # noqa: RUF001 - a dash
            return _number(of_runs(each, lambda run: (value(run) or 0.0) * 1e3 / run.cycles))

        snapshot = sorted(each.snapshot_seconds)[len(each.snapshot_seconds) // 2]
        rows.append(
            (
                f"`{each.name}`",
                _number(snapshot * 1e3),
                *(
                    median_of(lambda run, part=part: run.parts.get(part))  # type: ignore[misc]
                    for part in (OPEN, *ACTIONS, CLOSE)
                ),
                median_of(lambda run: run.seconds),
                median_of(lambda run: run.parts.get(BETWEEN)),
                median_of(lambda run: run.garbage),
                _number(of_runs(each, lambda run: run.seconds * 1e6 / run.tasks)),
                _number(each.peak_memory / MB),
            )
        )
    return _table(head, rows)


def _ratios(measurements: Sequence[Measurement]) -> list[str]:
    head = (
        "workload",
        "to the replay, whole cycle",
        "to the replay, actions",
        "plain loop to it",
        "the plain loop at",
        "plain loop, s",
        "time per task to 1,000 nodes",
    )
    rows = [
        (
            f"`{each.name}`",
            _spread(each.replay_cycle),
            _spread(each.replay_actions),
            _spread(each.plain),
            each.plain_size,
            _number(sorted(each.plain_seconds)[len(each.plain_seconds) // 2]),
            _spread(each.growth),
        )
        for each in measurements
    ]
    return _table(head, rows)


def _targets(measurements: Mapping[str, Measurement]) -> list[str]:
    rows: list[Sequence[str]] = []
    for target, figure in verdicts(measurements):
        verdict = "reached" if target.is_reached(figure) else "**missed**"
        doubts = target.doubts(measurements[target.workload])
        rows.append(
            (
                f"({WORKLOADS[target.workload].letter}) `{target.workload}`: {target.what}",
                f"{'at most' if target.is_most else 'at least'} {target.bound:g}{target.unit}",
                f"{_number(figure)}{target.unit}",
                "; ".join([verdict, *doubts]),
            )
        )
    return _table(("target", "asked for", "measured", "verdict"), rows)


def _spread(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"  # noqa: RUF001 - a dash
    low, high = min(ratio.rounds), max(ratio.rounds)
    return f"{_number(ratio.median)} ({_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
