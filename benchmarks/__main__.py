"""``python -m benchmarks``: measure all workloads, print a table, keep the raw results.

python -m benchmarks
python -m benchmarks --quick
python -m benchmarks --only gangs-1000,busy
python -m benchmarks --only waiting
python -m benchmarks --list
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

from attrs import asdict, evolve

from benchmarks.catalogue import REPORTS, WORKLOADS
from benchmarks.cycle import FAST
from benchmarks.measurement import Options
from benchmarks.raw import measurement_of
from benchmarks.report import report

HERE = Path(__file__).parent
QUICK = Options(scale=1 / 8, rounds=2, plain_rounds=1, plain_limit=3.0)


def main() -> int:
    """Do what the arguments say; return the exit status."""
    given = _arguments()
    if given.list:
        _list()
        return 0
    names = _names(given.only)
    reports = [name for name in names if name in REPORTS]
    names = [name for name in names if name in WORKLOADS]
    if not names:
        return _reported(reports)
    options = QUICK if given.quick else Options()
    chosen = {
        name: getattr(given, name) for name in asdict(options) if getattr(given, name) is not None
    }
    options = evolve(options, **chosen)
    if given.update_digests:
        for name in names:
            _say(f"{name}: storing digests")
            _worker("digests", name, "--update-digests")
        return 0
    output: Path = given.output or HERE / "results" / (
        "latest.json" if options.scale == 1 else "quick.json"
    )
    raw: dict[str, dict[str, Any]] = {}
    if given.only and output.exists():
        # Results that are not measured now are kept, unless older benchmarks wrote them.
        kept = json.loads(output.read_text(encoding="utf-8"))["measurements"]
        raw = {name: each for name, each in kept.items() if "engines" in each}
    tables = ""
    for name in names:
        raw[name] = _measured(name, options)
        # Written each time, so that an interrupted run keeps its results.
        tables = _write(output, raw, options)
    sys.stdout.write(tables)
    _say(f"written: {output} and {output.with_suffix('.md')}")
    return _reported(reports)


def _list() -> None:
    for name, workload in WORKLOADS.items():
        sys.stdout.write(f"{name:24} {workload.description}\n")
    for name, description in REPORTS.items():
        sys.stdout.write(f"{name:24} {description}\n")


def _reported(names: Sequence[str]) -> int:
    """Run reports one after the other; return the exit status of the first that fails."""
    for name in names:
        _say(f"{name}: {REPORTS[name]}")
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False)
        if done.returncode:
            return done.returncode
    return 0


def _write(output: Path, raw: dict[str, dict[str, Any]], options: Options) -> str:
    """Write the raw results and the tables made of them; return the tables."""
    about = {
        "machine": f"{platform.machine()}, {_processor()}; one core is used",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NumPy": f"{_numpy()}, for the engine of the extra `{FAST}`",
        "options": ", ".join(f"{key} {value:g}" for key, value in asdict(options).items()),
        "measured": datetime.now(UTC).isoformat(timespec="minutes"),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"about": about, "measurements": raw}, indent=1)
    output.write_text(f"{text}\n", encoding="utf-8")
    tables = report({name: measurement_of(each) for name, each in raw.items()}, about)
    output.with_suffix(".md").write_text(tables, encoding="utf-8")
    return tables


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", help="names of what to measure, with commas between them")
    parser.add_argument("--list", action="store_true", help="what can be measured")
    parser.add_argument("--quick", action="store_true", help="an eighth of the size, few rounds")
    parser.add_argument("--scale", type=float, help="the part of the full size, 0 to 1")
    parser.add_argument("--rounds", type=_count, help="how often runs that are compared alternate")
    parser.add_argument("--plain-rounds", type=_count, help="the same, for the plain loop")
    parser.add_argument("--plain-limit", type=float, help="seconds the plain loop may take")
    parser.add_argument(
        "--plain-once", type=float, help="seconds from which on the plain loop runs only once"
    )
    parser.add_argument("--output", type=Path, help="where the raw results go; tables beside it")
    parser.add_argument(
        "--update-digests", action="store_true", help="only store what is decided now as right"
    )
    return parser.parse_args()


def _count(text: str) -> int:
    """Return a number of rounds; argparse tells the error."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1; got {text}")
    return int(text)


def _names(only: str | None) -> Sequence[str]:
    if only is None:
        return [*WORKLOADS, *REPORTS]
    names = only.split(",")
    known = [*WORKLOADS, *REPORTS]
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"unknown benchmarks: {', '.join(unknown)}; known: {', '.join(known)}")
    return names


def _measured(name: str, options: Options) -> dict[str, Any]:
    began = perf_counter()
    measured = _worker("time", name, *_flags(options))
    for engine in measured["engines"]:
        memory = _worker("memory", name, "--engine", engine, *_flags(options))
        measured["engines"][engine] |= memory
    measured["measured"] = datetime.now(UTC).isoformat(timespec="minutes")
    _say(f"{name}: measured in {perf_counter() - began:.0f} s")
    return measured


def _flags(options: Options) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in asdict(options).items()]


def _worker(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.worker", *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd=HERE.parent)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed")
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def _numpy() -> str:
    try:
        return version("numpy")
    except PackageNotFoundError:
        return "missing"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
