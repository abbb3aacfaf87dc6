"""Have type checkers read wrong plugins, and see that they complain where the mistake is.

    python tests/typing/wrong_plugins.py

A plugin that passes mypy under --strict, and pyright, has the methods that the library asks for.
The exit status is 1 if a mistake goes unnoticed, or something right is complained about.

A doctest run may import this module: it does nothing until it is run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
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


def complaints(source: str, folder: Path) -> dict[str, bool]:
    """Return whether each type checker complains about a module."""
    file = folder / "mine.py"
    file.write_text(source, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnusedImport": false}', encoding="utf-8"
    )
    commands = {
        "mypy": ["mypy", "--strict", "--no-error-summary", str(file)],
        "pyright": ["pyright", "--project", str(folder)],
    }
    return {
        name: subprocess.run(command, capture_output=True, cwd=folder, check=False).returncode != 0
        for name, command in commands.items()
    }


def main() -> int:
    """Check, print what is wrong, and return the exit status."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        right = [(points, REGISTERED) for points in RIGHT] + [(POINTS, each) for each in FACTORIES]
        for points, registered in right:
            source = BEGIN.replace("{points}", points).replace("{registered}", registered)
            for checker, complains in complaints(source, Path(temporary)).items():
                if complains:
                    problems.append(f"{checker} complains about {points}, {registered}")
        wrong = [(mistake, points, REGISTERED) for mistake, points in WRONG.items()]
        wrong += [(mistake, POINTS, each) for mistake, each in NO_FACTORIES.items()]
        for mistake, points, registered in wrong:
            source = BEGIN.replace("{points}", points).replace("{registered}", registered)
            for checker, complains in complaints(source, Path(temporary)).items():
                if not complains:
                    problems.append(f"{checker} does not notice {mistake}: {points}, {registered}")
    for problem in problems:
        print(problem)
    print(f"{len(right)} right and {len(wrong)} wrong plugins: {len(problems)} problems")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
