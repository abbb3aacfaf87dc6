"""Evictions per start in closed worlds of a file, of this tree and of an earlier commit.

    python -m tests.support.closed_worlds 5000 --write FILE
    python -m benchmarks.closed_worlds FILE [--beside REVISION]

Nothing arrives or ends but by what is decided. Each world lives until two cycles in a row decide
nothing, or for 40 cycles. What is evicted has left by the next cycle, and waits again; so it may
start again, which counts as a start, too. Only worlds are counted that both sides can read, and
once more those alone in which as many start. No clock is involved, so the table is always the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.beside import ROOT, checked_out
from benchmarks.closed_worlds_worker import CYCLES

__all__ = ["Lived", "main", "outcomes", "row"]

WORKER = Path(__file__).with_name("closed_worlds_worker.py")
HEAD = ("", "worlds", "with evictions", "evictions", "starts", "evictions per start", "late")

Lived = tuple[int, int, int]
"""How many were evicted and started, and in which cycle the last was evicted."""


def outcomes(file: Path, root: Path) -> Sequence[Lived | None]:
    """Let the worlds of a file live with a tree; None: it cannot read it."""
    done = subprocess.run(
        [sys.executable, str(WORKER), str(file.resolve())],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONHASHSEED": "0"},
        check=True,
        capture_output=True,
        text=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [None if one is None else (one[0], one[1], one[2]) for one in found]


def row(name: str, found: Sequence[Lived]) -> Sequence[str]:
    """Return a row of the table; *late* are worlds that evict in the second half of the time."""
    evictions, starts = (sum(one[place] for one in found) for place in (0, 1))
    return (
        name,
        f"{len(found):,}",
        f"{sum(one[0] > 0 for one in found):,}",
        f"{evictions:,}",
        f"{starts:,}",
        f"{evictions / starts:.4f}" if starts else "-",
        f"{sum(one[2] > CYCLES // 2 for one in found):,}",
    )


def main() -> None:
    """Let the worlds live, and print a table as Markdown."""
    parser = argparse.ArgumentParser(description="Evictions per start in closed worlds.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--beside", default=None, help="an earlier commit")
    given = parser.parse_args()
    now = outcomes(given.file, ROOT)
    before = now
    if given.beside is not None:
        with checked_out(given.beside) as earlier:
            before = outcomes(given.file, earlier)
    both = [(one, two) for one, two in zip(before, now, strict=True) if one and two]
    rows = [row("now", [two for _, two in both])]
    if given.beside is not None:
        alike = [(one, two) for one, two in both if one[1] == two[1]]
        rows.insert(0, row(given.beside, [one for one, _ in both]))
        rows.append(row(f"{given.beside}, where as many start", [one for one, _ in alike]))
        rows.append(row("now, where as many start", [two for _, two in alike]))
    print(f"| {' | '.join(HEAD)} |")
    print("|---|" + "---:|" * (len(HEAD) - 1))
    for each in rows:
        print(f"| {' | '.join(each)} |")


if __name__ == "__main__":
    main()
