"""An earlier commit beside this tree, in turns: ``python -m benchmarks.beside REVISION``.

    python -m benchmarks.beside REVISION [--only NAME,NAME] [--scale 1] [--rounds 3] [--with-numpy]

Each workload, axis and row of `steady` runs in two processes, one for each side, which take turns;
each side makes the input with its own benchmarks. Times are seconds of the processor, the least of
all rounds. A ratio counts only if both sides decided the same, which their digests say. Of a living
cluster the median cycle counts; the 99th percentile, the worst cycle and the first are given too.
`--with-numpy` lets this tree use NumPy; the earlier commit never does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("beside_worker.py")


class Side:
    """A process that measures one side; what to measure is written to it, line by line."""

    def __init__(self, root: Path, name: str, scale: float, *, numpy: bool) -> None:
        path = os.pathsep.join([str(root / "src"), str(root)])
        command = [sys.executable, str(WORKER), name, str(scale), *(["--numpy"] if numpy else [])]
        self._process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self) -> dict[str, Any] | None:
        """Measure once; None: this side does not know the name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Check an earlier commit out into a folder of its own, for a while."""
    with tempfile.TemporaryDirectory(prefix="batchsched-beside-") as temporary:
        folder = Path(temporary) / "earlier"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def compare(earlier: Path, name: str, scale: float, rounds: int, *, numpy: bool) -> dict[str, Any]:
    """Measure one name on both sides, in turns."""
    sides = [
        Side(earlier, name, scale, numpy=False),
        Side(ROOT, name, scale, numpy=numpy),
    ]
    found: list[list[dict[str, Any]]] = [[], []]
    try:
        for _ in range(rounds):
            for measured, side in zip(found, sides, strict=True):
                one = side.measure()
                if one is None:
                    return {"name": name, "error": "only one side can measure it"}
                measured.append(one)
    finally:
        for side in sides:
            side.end()
    digests = {one["digest"] for measured in found for one in measured}
    before, now = (min(one["seconds"] for one in measured) for measured in found)
    least = [min(measured, key=lambda one: one["seconds"]) for measured in found]
    return {
        "name": name,
        "same": len(digests) == 1,
        "before": before,
        "now": now,
        "ratio": now / before,
        "details": least,
    }


def names(only: str | None) -> Sequence[str]:
    """Return what to measure: what is named, or all but what is run by hand."""
    if only is not None:
        return only.split(",")
    command = [sys.executable, str(WORKER), "--list"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    listed = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.split()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=__doc__)
    parser.add_argument("revision", help="the earlier commit")
    parser.add_argument("--only", help="names, with commas between them")
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the full sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--with-numpy", action="store_true", help="this tree may use NumPy")
    given = parser.parse_args()
    print("| what | before, ms | now, ms | ratio | first | p99 | worst | decisions |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with checked_out(given.revision) as earlier:
        for name in names(given.only):
            row = compare(earlier, name, given.scale, given.rounds, numpy=given.with_numpy)
            if "error" in row:
                print(f"| {name} | {row['error']} |", flush=True)
                continue
            rest = [
                " ".join(f"{1000 * one[key]:.3g}" for one in row["details"])
                if key in row["details"][0]
                else ""
                for key in ("first", "p99", "worst")
            ]
            figures = [f"{1000 * row['before']:.4g}", f"{1000 * row['now']:.4g}"]
            decisions = "the same" if row["same"] else "DIFFERENT"
            cells = [name, *figures, f"{row['ratio']:.2f}", *rest, decisions]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
