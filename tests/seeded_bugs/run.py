"""Sow bugs into copies of the source, one at a time, and see whether the testing kit finds them.

    python -m tests.seeded_bugs.run [--list] [--seconds 60] [--jobs 1] [--missed] [NAME ...]

Each bug of ``bugs.txt`` is a line of the source as it should not be. Without names all are tried.
``missed.txt`` has some more, which the kit has not found in a minute yet.
First the kit must find nothing in the source as it is. Prints, bug by bug, which check caught it
after how long, and how many were caught in the end; the exit status is 1 unless all were.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.seeded_bugs.sowing import HERE, PACKAGE, SOURCE, Bug, read_bugs

PATIENCE = 10
"""How many times the processor time that it may take a search may take on a busy machine."""


def search(source: Path, seconds: float) -> dict[str, object]:
    """Run the kit in a process of its own on a source; return what it found."""
    command = [sys.executable, "-B", "-m", "tests.seeded_bugs.kit", "--seconds", str(seconds)]
    where = [str(source), str(HERE.parents[1])]  # the source to try, and the tests
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(where), "PYTHONHASHSEED": "0"},
            cwd=source.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE * seconds + 30,
        )
    except subprocess.TimeoutExpired:
        return {"caught": True, "check": "it does not end", "seconds": seconds, "message": ""}
    lines = done.stdout.splitlines()
    if not lines:
        problem = done.stderr.strip().splitlines()[-1:] or ["no output"]
        return {"caught": True, "check": "import", "seconds": 0, "message": problem[0]}
    found: dict[str, object] = json.loads(lines[-1])
    return found


def try_out(bug: Bug | None, *, source: Path = SOURCE, seconds: float = 60) -> dict[str, object]:
    """Copy the source, sow a bug into it (None: leave it as it is), and run the kit on it."""
    with tempfile.TemporaryDirectory(prefix="seeded-bug-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(
            source / PACKAGE,
            copy / PACKAGE,
            ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"),
        )
        if bug is not None:
            try:
                bug.sow(copy)
            except ValueError as error:
                return {"caught": False, "seconds": 0, "message": str(error)}
        return search(copy, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try bugs and print what became of them; return the exit status."""
    parser = argparse.ArgumentParser(description="See whether the testing kit finds sown bugs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs to try; all without")
    parser.add_argument("--list", action="store_true", help="list all bugs and end")
    parser.add_argument(
        "--seconds", type=float, default=60, help="processor time for each (default 60)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default 1)")
    parser.add_argument("--source", type=Path, default=SOURCE, help="what to sow them into")
    parser.add_argument(
        "--missed", action="store_true", help="try those that the kit is known to miss instead"
    )
    options = parser.parse_args(arguments)
    bugs = read_bugs("missed.txt" if options.missed else "bugs.txt")
    if options.list:
        for bug in bugs:
            print(f"{bug.name} ({bug.path}): {bug.description}")
        return 0
    unknown = set(options.names) - {bug.name for bug in bugs}
    if unknown:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    chosen = [bug for bug in bugs if not options.names or bug.name in options.names]
    sound = try_out(None, source=options.source, seconds=options.seconds)
    if sound["caught"]:
        print(f"without any bug: {sound['check']}: {sound['message']}")
        return 1
    print(f"without any bug: nothing found in {sound['seconds']} s", flush=True)
    attempt = partial(try_out, source=options.source, seconds=options.seconds)
    caught = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for bug, found in zip(chosen, pool.map(attempt, chosen), strict=True):
            if found["caught"]:
                caught += 1
                print(f"{bug.name}: {found['check']}, {found['seconds']} s", flush=True)
            else:
                problem = found.get("message", bug.description)
                print(f"{bug.name}: NOT CAUGHT in {found['seconds']} s ({problem})", flush=True)
    print(f"caught {caught} of {len(chosen)}")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
