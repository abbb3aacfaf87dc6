"""Charts of the results, for the documentation: ``python -m benchmarks.charts``.

Reads ``results/waiting.md`` and writes ``docs/charts/waiting.svg``. Nothing
is measured here: a chart shows what a result file says. The colours read well on light and on
dark pages; equal results give equal files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
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
    """Write the chart; return the exit status."""
    with mpl.rc_context(STYLE):
        figure = waiting((RESULTS / "waiting.md").read_text(encoding="utf-8"))
        WHERE.mkdir(exist_ok=True)
        figure.savefig(WHERE / "waiting.svg", transparent=True, metadata={"Date": None})
        sys.stdout.write("written: docs/charts/waiting.svg\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
