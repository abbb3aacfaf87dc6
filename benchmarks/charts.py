"""Charts of the results, for the documentation: ``python -m benchmarks.charts``.

Reads ``results/latest.json`` and ``results/waiting.md`` and writes ``docs/charts/*.svg``. Nothing
is measured here: a chart shows what a result file says. The colours read well on light and on
dark pages; equal results give equal files.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WHERE = ROOT / "docs" / "charts"
TEXT = "#808080"
"""Grey of a contrast of four or more on white and on black."""
BLUE, ORANGE = "#3b82c4", "#d9822b"

STYLE = {
    "svg.hashsalt": "batchsched",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def faster_than_the_plain_loop(measurements: Mapping[str, Any]) -> Figure:
    """Draw how many times as fast as the plain loop each engine is, by workload."""
    names = [name for name, each in measurements.items() if each["engines"]["default"]["plain"]]
    figure, axes = _figure(height=0.5 * len(names) + 1.2)
    for place, (engine, colour) in enumerate((("default", BLUE), ("fast", ORANGE))):
        given = [measurements[name]["engines"].get(engine) for name in names]
        values = [median(each["plain"]["rounds"]) if each else 0 for each in given]
        rows = [row + 0.4 * place for row in range(len(names))]
        bars = axes.barh(rows, values, height=0.38, color=colour, label=f"the engine {engine!r}")
        axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=3, color=TEXT)
    axes.set_yticks([row + 0.2 for row in range(len(names))], names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, 1000)
    axes.set_xlabel("times as fast as the plain loop (logarithmic)")
    axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return figure


def time_by_part(measurements: Mapping[str, Any]) -> Figure:
    """Draw which parts of a cycle take which share of its time, by workload."""
    names = list(measurements)
    parts = ["open", "reclaim", "allocate", "backfill", "preempt", "close"]
    figure, axes = _figure(height=0.35 * len(names) + 1.4)
    left = [0.0] * len(names)
    colours = mpl.colormaps["tab10"].colors
    for part, colour in zip(parts, colours, strict=False):
        shares: list[float] = []
        for name in names:
            runs = measurements[name]["engines"]["default"]["runs"]
            whole = median(sum(run["parts"].get(each, 0.0) for each in parts) for run in runs)
            shares.append(100 * median(run["parts"].get(part, 0.0) for run in runs) / whole)
        axes.barh(names, shares, left=left, color=colour, label=part)
        left = [before + share for before, share in zip(left, shares, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of a cycle's processor time in percent, default engine")
    axes.legend(frameon=False, ncols=6, loc="upper center", bbox_to_anchor=(0.4, -0.1))
    return figure


def waiting(table: str) -> Figure:
    """Draw the wait of large jobs, and the use of GPUs, by strategy; the first load of the file."""
    heading, rows = _first_table(table)
    names = [row[0] for row in rows]
    figure, (waits, use) = _figure(height=0.36 * len(names) + 1.6, columns=2)
    mean, longest = heading.index("large: mean"), heading.index("large: longest")
    longest_waits = waits.barh(names, [float(row[longest]) for row in rows], color=BLUE, alpha=0.4)
    waits.barh(names, [float(row[mean]) for row in rows], color=BLUE)
    waits.bar_label(longest_waits, padding=3, color=TEXT)
    waits.invert_yaxis()
    waits.set_xlabel("wait of large jobs, cycles: mean, longest")
    used = [float(row[heading.index("GPU used")].rstrip("%")) for row in rows]
    bars = use.barh(names, used, color=ORANGE)
    use.bar_label(bars, [f"{value:.1f}" for value in used], padding=3, color=TEXT)
    use.invert_yaxis()
    use.set_yticks([])
    use.set_xlim(0, 100)
    use.set_xlabel("GPUs used in percent")
    return figure


def _first_table(text: str) -> tuple[list[str], list[list[str]]]:
    lines = [line for line in text.split("\n\n")[1].splitlines() if line.startswith("|")]
    heading, _, *rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines]
    return heading, rows


def _figure(*, height: float, columns: int = 1) -> tuple[Figure, Any]:
    figure = Figure(figsize=(9.0, height), layout="constrained")
    axes: Axes | Sequence[Axes] = figure.subplots(1, columns)
    return figure, axes


def main() -> int:
    """Write all charts; return the exit status."""
    latest = json.loads((RESULTS / "latest.json").read_text(encoding="utf-8"))["measurements"]
    with mpl.rc_context(STYLE):
        figures = {
            "faster-than-the-plain-loop": faster_than_the_plain_loop(latest),
            "time-by-part": time_by_part(latest),
            "waiting": waiting((RESULTS / "waiting.md").read_text(encoding="utf-8")),
        }
        WHERE.mkdir(exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(WHERE / f"{name}.svg", transparent=True, metadata={"Date": None})
            sys.stdout.write(f"written: docs/charts/{name}.svg\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
