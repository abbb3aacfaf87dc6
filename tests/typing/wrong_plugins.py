"""Have type checkers read wrong plugins, and see that they complain where the mistake is.

    python tests/typing/wrong_plugins.py

A plugin that passes mypy under --strict, and pyright, has the methods that the library asks for.
The exit status is 1 if a mistake goes unnoticed, or something right is complained about.

A doctest run may import this module: it does nothing until it is run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

BEGIN = """\
from collections.abc import Sequence

from batchsched import Arguments, Registry, Session
from batchsched.plugin import (
    EvictionHints, ExtensionPoints, NodeScore, Plugin, Reads, SessionView, Verdict
)
from batchsched.state.records import JobState, NodeState, TaskState


def length(job: JobState) -> int:
    return len(job.tasks)


def named(task: TaskState) -> str:
    return task.uid


def all_go(claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
    return [Verdict.VICTIM for _ in candidates]


def how_many(claimant: TaskState, candidates: Sequence[TaskState]) -> int:
    return len(candidates)


class Mine:
    def open(self, view: SessionView, /) -> ExtensionPoints:
        return ExtensionPoints({points})


class Sized:
    def __init__(self, size: int) -> None:
        self.size = size

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> "Sized":
        return cls(arguments.integer("size", default=1))

    def open(self, view: SessionView, /) -> ExtensionPoints:
        return ExtensionPoints(job_order_key=length)

    def execute(self, session: Session, /) -> None:
        pass


plugin: Plugin = Mine()
Registry().{registered}
"""

POLICY = """\
from collections.abc import Iterable

from batchsched.simulation import Decision, Policy, View, WaitingJob


class WidestFirst(Policy):
    def order(self, job: WaitingJob, now: float) -> int:
        return -job.processors

    def decide(self, view: View, /) -> Iterable[Decision]:
        return ()
"""
POINTS = "job_order_key=length"
REGISTERED = 'register_plugin("mine", Mine)'

RIGHT = (
    "job_order_key=length, task_order_key=named",
    "preemptable=all_go, reclaimable=all_go",
    "node_scores=lambda: [NodeScore(score=lambda task, node: 1, reads=Reads.DESCRIPTION)]",
    "job_ready=lambda job: True, overused=lambda queue: False",
    "preemptable=all_go, hints=lambda: EvictionHints(claimant_key=named)",
)
"""What a plugin may return."""

WRONG = {
    "a misspelt name": "job_orderkey=length",
    "a function of another item": "job_order_key=named",
    "an answer of another type": "preemptable=how_many",
    "too few arguments": "preemptable=named",
    "scores that are none": "node_scores=lambda: [1.5]",
    "what is no function": "job_valid=True",
    "hints that are verdicts": "hints=lambda: EvictionHints(shielded=all_go)",
    "a misspelt hint": "hints=lambda: EvictionHints(claimantkey=named)",
}
"""What a plugin may not return, and why."""

FACTORIES = (
    'register_plugin("mine", Sized)',
    'register_plugin("mine", Sized.from_arguments)',
    'register_plugin("mine", lambda arguments: Mine())',
    'register_action("mine", Sized)',
    'register_action("mine", Sized.from_arguments)',
)
"""What may be registered, besides a class that needs no arguments."""

NO_FACTORIES = {
    "a class of something else": 'register_plugin("mine", Reads)',
    "a plugin as an action": 'register_action("mine", Mine)',
    "a plugin instead of its factory": 'register_plugin("mine", Mine())',
}
"""What may not be registered, and why."""


CHECKERS = {
    "mypy": ("mypy", "--strict", "--no-error-summary", "."),
    "pyright": ("pyright", "--project", "."),
}


def complaints(sources: Sequence[str]) -> dict[str, set[int]]:
    """Return for each type checker the numbers of the modules that it complains about."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number, source in enumerate(sources):
            (folder / f"mine_{number}.py").write_text(source, encoding="utf-8")
        (folder / "pyrightconfig.json").write_text(
            '{"typeCheckingMode": "strict", "reportUnusedImport": false}', encoding="utf-8"
        )
        found: dict[str, set[int]] = {}
        for name, command in CHECKERS.items():
            done = subprocess.run(command, capture_output=True, cwd=folder, text=True, check=False)
            lines = re.findall(r"mine_(\d+)\.py:\d+.*\berror\b", done.stdout)
            found[name] = {int(number) for number in lines}
            if not lines and done.returncode != 0:
                raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
    return found


def main() -> int:
    """Check, print what is wrong, and return the exit status."""
    right = [(points, REGISTERED) for points in RIGHT] + [(POINTS, each) for each in FACTORIES]
    wrong = [(mistake, points, REGISTERED) for mistake, points in WRONG.items()]
    wrong += [(mistake, POINTS, each) for mistake, each in NO_FACTORIES.items()]
    plugins = [*right, *((points, registered) for _, points, registered in wrong)]
    sources = [
        BEGIN.replace("{points}", points).replace("{registered}", registered)
        for points, registered in plugins
    ]
    problems: list[str] = []
    for checker, found in complaints([*sources, POLICY]).items():
        if len(sources) in found:
            problems.append(f"{checker} complains about a policy with an order")
        for number, (points, registered) in enumerate(right):
            if number in found:
                problems.append(f"{checker} complains about {points}, {registered}")
        for number, (mistake, points, registered) in enumerate(wrong, len(right)):
            if number not in found:
                problems.append(f"{checker} does not notice {mistake}: {points}, {registered}")
    for problem in problems:
        print(problem)
    print(f"{len(right)} right and {len(wrong)} wrong plugins: {len(problems)} problems")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
