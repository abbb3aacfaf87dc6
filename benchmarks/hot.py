"""Where the time of a cycle goes, function by function: ``python -m benchmarks.hot``.

Writes ``results/hot.md``. A profiler makes calls look more expensive than they are, so its
shares only show where to look; times are in the other results. The
garbage collector is off: its time would be attributed to the function that runs at that moment.
It needs NumPy, for one of the engines.
"""

from __future__ import annotations

import ast
import cProfile
import gc
import pstats
import sys
from pathlib import Path
from typing import Any

import batchsched
from batchsched import Scheduler
from benchmarks.catalogue import WORKLOADS
from benchmarks.cycle import DEFAULT, FAST, placement_of

MEASURED = (
    ("openb", DEFAULT),
    ("openb", FAST),
    ("gangs-1000", DEFAULT),
    ("gangs-1000", FAST),
    ("busy", DEFAULT),
)
HOW_MANY = 10
WHERE = Path(__file__).with_name("results") / "hot.md"


def main(scale: float = 1.0, where: Path = WHERE) -> None:
    """Write and print the tables."""
    text = "\n".join(table(name, engine, scale) for name, engine in MEASURED)
    where.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def table(name: str, engine: str, scale: float) -> str:
    """Return the functions in which a cycle of a workload spends most of its time."""
    scenario = WORKLOADS[name].make(scale)
    scheduler = Scheduler(scenario.config, placement=placement_of(engine))
    profile = cProfile.Profile()
    gc.collect()
    gc.disable()
    try:
        profile.runcall(scheduler.schedule, scenario.snapshot)
    finally:
        gc.enable()
    stats: Any = pstats.Stats(profile)  # what it holds is documented, and not typed
    rows = sorted(stats.stats.items(), key=lambda row: -row[1][2])[:HOW_MANY]
    lines = [
        f"`{name}`, {'on lists' if engine == DEFAULT else f'extra `{engine}`'}:",
        "",
        "| function | calls | own share of the cycle | with what it calls |",
        "|---|---:|---:|---:|",
    ]
    for (path, line, function), (_, calls, alone, together, _) in rows:
        lines.append(
            f"| {_label(path, line, function)} | {calls:,} | {alone / stats.total_tt:.0%} "
            f"| {together / stats.total_tt:.0%} |"
        )
    return "\n".join([*lines, ""])


def _label(path: str, line: int, function: str) -> str:
    library = Path(batchsched.__file__).parent
    if not Path(path).is_relative_to(library):
        return f"`{function}`" if path == "~" else f"`{Path(path).name}`: `{function}`"
    names: list[str] = []
    within: ast.AST | None = ast.parse(Path(path).read_text(encoding="utf-8"))
    while within is not None:
        inner = [each for each in ast.walk(within) if each is not within and _is_at(each, line)]
        within = inner[0] if inner else None
        if isinstance(within, ast.FunctionDef | ast.ClassDef):
            names.append(within.name)
    if function not in names:  # a lambda, or what goes through a list
        names.append(function)
    return f"`{Path(path).relative_to(library)}`: `{'.'.join(names)}`"


def _is_at(node: ast.AST, line: int) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return False
    begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return begin <= line <= (node.end_lineno or begin)


if __name__ == "__main__":
    main()
