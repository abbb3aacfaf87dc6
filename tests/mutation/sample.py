"""Try some mutants of each package, drawn by a seed, and write the scores into the README.

    python tests/mutation/sample.py [--each 20] [--seed 1] [--jobs 2] [PACKAGE ...]

A whole run of mutmut takes hours; this takes minutes and tells about where tests are missing. The
mutants are those that mutmut makes. Each is tried in a copy of the project, by the tests of its
package. Survivors are printed as diffs: some are equivalent, the others show a missing test. Only
a run over all packages writes the table.
"""

from __future__ import annotations

import argparse
import difflib
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

from mutmut.mutation.file_mutation import create_mutations, deep_replace

ROOT = Path(__file__).resolve().parents[2]
README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- sample: begin -->", "<!-- sample: end -->"
DECISIONS = ("tests/scenarios", "tests/mutation/golden_slice.py")
TESTS: Mapping[str, tuple[str, ...]] = {
    "actions": ("tests/actions", *DECISIONS),
    "plugins": ("tests/plugins", "tests/config", *DECISIONS),
    "session": ("tests/session", "tests/actions", "tests/test_scheduler.py", *DECISIONS),
    "transition": ("tests/transition", "tests/live", "tests/scenarios"),
    "live": ("tests/live", "tests/transition"),
    "simulation": ("tests/simulation",),
    "kubernetes": ("tests/kubernetes",),
}
"""Package to the tests that its mutants are tried by."""
OPTIONS = (
    *("-q", "-x", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider"),
    *(
        "-m",
        "not slow",
        "-p",
        "no:xdist",
        "-p",
        "tests.mutation.quick",
        "--hypothesis-profile=mutation",
    ),
)
COPIED = ("src", "tests", "benchmarks", "examples", "docs")
SECONDS = 600
"""After which a mutant that is still running counts as killed: it never ends."""


class Mutant(NamedTuple):
    """A file of the library, as it would be with one small change."""

    package: str
    path: Path
    before: str
    after: str


def drawn(package: str, each: int, seed: int) -> Iterator[Mutant]:
    """Yield some mutants of a package, always the same of the same source."""
    places: list[tuple[Path, int]] = []
    made = {}
    for path in sorted((ROOT / "src/batchsched" / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(str(path), text)
        inside = [each for each in mutations if each.contained_by_top_level_function is not None]
        made[path] = text, module, inside
        places += [(path, number) for number in range(len(inside))]
    for path, number in sorted(Random(f"{seed} {package}").sample(places, min(each, len(places)))):
        text, module, mutations = made[path]
        mutation = mutations[number]
        changed = deep_replace(module, mutation.original_node, mutation.mutated_node)
        yield Mutant(package, path.relative_to(ROOT), text, changed.code)  # type: ignore[attr-defined]


def is_killed(mutant: Mutant, folder: Path) -> bool:
    """Try a mutant in a copy of the project; the copy is as it was afterwards."""
    place = folder / mutant.path
    place.write_text(mutant.after, encoding="utf-8")
    try:
        return not passes(mutant.package, folder)
    finally:
        place.write_text(mutant.before, encoding="utf-8")


def passes(package: str, folder: Path) -> bool:
    """Run the tests of a package in a copy of the project."""
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", *OPTIONS, *TESTS[package]],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder / "src")},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def copied(folder: Path) -> Path:
    """Copy the project."""
    for name in COPIED:
        unwanted = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for path in (*ROOT.glob("*.py"), *ROOT.glob("*.md"), ROOT / "pyproject.toml"):
        shutil.copy(path, folder / path.name)
    return folder


def diff_of(mutant: Mutant) -> str:
    """Return what a mutant changes."""
    before, after = mutant.before.splitlines(), mutant.after.splitlines()
    return "\n".join(difflib.unified_diff(before, after, str(mutant.path), "mutant", "", "", 1, ""))


def table(tried: Counter[str], killed: Counter[str]) -> str:
    """Return the scores as a table."""
    rows = ["| package | mutants | killed | score |", "| --- | --: | --: | --: |"]
    for name, (all_, dead) in {
        **{package: (tried[package], killed[package]) for package in tried},
        "**all**": (tried.total(), killed.total()),
    }.items():
        rows.append(f"| {name} | {all_} | {dead} | {dead / all_:.0%} |")
    return "\n".join(rows)


def main() -> int:
    """Try the mutants, print what survives, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(TESTS))
    parser.add_argument("--each", type=int, default=20, help="how many mutants of each package")
    parser.add_argument("--seed", type=int, default=1, help="draws them")
    parser.add_argument("--jobs", type=int, default=2, help="how many are tried at once")
    given = parser.parse_args()
    packages = given.packages or list(TESTS)
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    # Drawn before the project is copied: both are of the same state of the source.
    mutants = [one for package in packages for one in drawn(package, given.each, given.seed)]
    with tempfile.TemporaryDirectory() as temporary:
        free: queue.Queue[Path] = queue.Queue()
        for number in range(given.jobs):
            free.put(copied(Path(temporary) / str(number)))

        def attempt(mutant: Mutant) -> tuple[Mutant, bool]:
            folder = free.get()
            try:
                return mutant, is_killed(mutant, folder)
            finally:
                free.put(folder)

        folder = free.get()
        for package in packages:
            if not passes(package, folder):
                sys.exit(f"the tests of {package} fail without any change")
        free.put(folder)
        with ThreadPoolExecutor(given.jobs) as at_once:
            for mutant, is_dead in at_once.map(attempt, mutants):
                tried[mutant.package] += 1
                killed[mutant.package] += is_dead
                if not is_dead:
                    print(f"{diff_of(mutant)}\n", flush=True)
    scores = table(tried, killed)
    print(scores)
    if not given.packages:
        text = README.read_text(encoding="utf-8")
        start, end = text.index(BEGIN), text.index(END)
        drawn_by = f"Drawn with `--each {given.each} --seed {given.seed}`."
        README.write_text(
            f"{text[:start]}{BEGIN}\n{drawn_by}\n\n{scores}\n\n{text[end:]}", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
