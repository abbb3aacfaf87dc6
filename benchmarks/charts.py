"""Charts of the documentation: ``python -m benchmarks.charts``.

Writes ``docs/charts/*.svg``: what ``results/waiting.md`` says, and the runs of the pages about
simulations. Pages contain these files as they are, so that text and lines take their colours from
the page, light or dark; the charts are narrow, so that a phone shows them at nearly full size.
Equal results give equal files.
"""

# Matplotlib does not declare the types of its many options.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from batchsched.simulation import (
    Conservative,
    Easy,
    generate,
    nodes_needed,
    plots,
    simulate,
    sweep,
)

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WHERE = ROOT / "docs" / "charts"
WIDTH = 400 / 72
"""In inches: 400 units of the picture, at 72 each."""
INK = "#010101"
"""Stands for the page's colour of text."""
THEME = {
    INK: "var(--color-foreground-primary, currentColor)",
    "#000000": "var(--color-foreground-primary, currentColor)",
    "#ffffff": "var(--color-background-primary, white)",
}
BLUE, ORANGE = "#3b82c4", "#d9822b"
COLOURS = (BLUE, ORANGE, "#4f9d69", "#c8553d", "#9a6fb0")
COLOURS += ("#a07a5a", "#c9a227", "#c76b98", "#7f8c8d", "#2a9d9d")
"""All read well on white and on black."""

STYLE = {
    "svg.hashsalt": "batchsched",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def waiting(table: str) -> Figure:
    """Draw the wait of large jobs, and the use of GPUs, by strategy; the first load of the file."""
    heading, rows = _first_table(table)
    figure = Figure(figsize=(WIDTH, 0.5 * len(rows) + 1.2), layout="constrained")
    waits: Axes
    use: Axes
    waits, use = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    places = range(len(rows))
    mean, longest = heading.index("large: mean"), heading.index("large: longest")
    long = waits.barh(places, [float(row[longest]) for row in rows], 0.4, color=BLUE, alpha=0.4)
    waits.barh(places, [float(row[mean]) for row in rows], 0.4, color=BLUE)
    waits.bar_label(long, padding=3, color=INK)
    for place, row in enumerate(rows):
        waits.annotate(row[0], (0, place - 0.45), color=INK, va="center", annotation_clip=False)
    waits.set_title("wait of large jobs,\ncycles: mean, longest", loc="left")
    waits.set_ylim(len(rows) - 0.6, -0.7)
    waits.margins(x=0.15)
    used = [float(row[heading.index("GPU used")].rstrip("%")) for row in rows]
    bars = use.barh(places, used, 0.4, color=ORANGE)
    use.bar_label(bars, [f"{value:.1f}" for value in used], padding=3, color=INK)
    use.set_xlim(0, 100)
    use.set_title("GPUs used,\npercent", loc="left")
    for axes in (waits, use):
        axes.spines[:].set_visible(False)
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def _first_table(text: str) -> tuple[list[str], list[list[str]]]:
    lines = [line for line in text.split("\n\n")[1].splitlines() if line.startswith("|")]
    heading, _, *rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines]
    return heading, rows


def simulations() -> Iterator[tuple[str, str, Figure]]:
    """Draw the runs of ``docs/simulation.md``: the name of each picture, its title, and itself."""
    policies = {"EASY": Easy(), "SJBF": Easy(backfill="shortest"), "conservative": Conservative()}
    workload = generate(jobs=1000, nodes=128, seed=1)
    runs = [simulate(workload, policy) for policy in policies.values()]
    easy, begin = runs[0], workload.submits[0]
    yield "queue", "Waiting jobs and utilisation over time", plots.queue_and_utilisation(easy)
    one_day = plots.gantt(easy, start=begin + 2 * 86400, end=begin + 3 * 86400)
    yield "gantt", "The processors of each job over one day", one_day
    waits = plots.waits(runs)
    yield "waits", "Waiting times by size of the job, for three policies", waits
    yield "shares", "The share of the machine that each user held", plots.shares(easy, by="user")
    variants = {f"seed {n}": generate(jobs=1000, nodes=128, seed=n) for n in range(1, 9)}
    table = sweep(policies=policies, variants=variants)
    yield "comparison", "Bounded slowdown of three policies", plots.comparison(table, "bsld")


def pages() -> Iterator[tuple[str, str, Figure]]:
    """Draw what the pages about two configurations and about the number of nodes compute."""
    text = (ROOT / "docs" / "compare-configurations.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(?!>>>)(.*?)```", text, flags=re.DOTALL):
        exec(block, names)
    after = plots.gantt(names["after"], by="node")
    yield "configurations", "Which job was on which node under the second configuration", after
    weeks = generate(jobs=400, nodes=20, seed=3)
    found = nodes_needed(weeks, Easy(), longest_wait=4 * 3600, least=20)
    yield "nodes", "The longest wait by the number of nodes", plots.nodes_needed(found)


def themed(figure: Figure, title: str) -> str:
    """Return a figure as a part of a page, which takes the colours of the page."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    # What matplotlib's style sheet says would hold for the whole page; ours has it for charts.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    for colour, themed_colour in THEME.items():
        text = text.replace(colour, themed_colour)
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", text)
    text = re.sub(r'<g id="[a-z]+[a-z_\d.]*">', "<g>", text)
    text = re.sub(r"\n\s*", "\n", text)
    head = f'<svg class="chart" {box[0]} role="img" aria-label="{title}" '
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return re.sub(r"^<svg[^>]*>", head + names, text)


def main() -> int:
    """Write the charts; return the exit status."""
    WHERE.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        measured = waiting((RESULTS / "waiting.md").read_text(encoding="utf-8"))
        title = "How long large jobs wait, and how much of the GPUs is used, by strategy"
        charts = {"waiting": themed(measured, title)}
        for name, shown, figure in (*simulations(), *pages()):
            figure.set_size_inches(WIDTH, 0.75 * WIDTH)
            charts[f"simulation-{name}"] = themed(figure, shown)
    for name, chart in charts.items():
        (WHERE / f"{name}.svg").write_text(chart, encoding="utf-8")
        sys.stdout.write(f"written: docs/charts/{name}.svg\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
