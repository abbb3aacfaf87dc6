"""Whether decisions depend on the order of sets, which differs between processes.

Texts hash differently in each process of Python, and sets have their order from that. One process
cannot see it; `check_hash_seeds` asks two, each of which runs this module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import isclass, signature
from pkgutil import resolve_name
from typing import Protocol, TypedDict, cast

from attrs import define
from hypothesis import given
from hypothesis.strategies import SearchStrategy

from batchsched.config.registry import PluginFactory
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown
from batchsched.plugin.arguments import Arguments
from batchsched.scheduler import Scheduler
from batchsched.testing.drawing.snapshots import given_or_default, same_each_time, snapshots
from batchsched.testing.laws.asking import Answers, QuestionKind, ask_all
from batchsched.testing.laws.trial import Subject
from batchsched.tools.code import as_code

Asked = Mapping[str, str]
"""Question to answer, both as strings that are the same in each process."""

RESULT = "the result"
"""The question to schedulers."""

_KEYS = (QuestionKind.JOB_KEY, QuestionKind.QUEUE_KEY, QuestionKind.TASK_KEY)
_NAME = "under-test"


def name_of_target(target: object) -> str:
    """Return the name, ``"module:name"``, by which another process finds a class or function.

    Raises:
        ValueError: it cannot be imported by that name.
    """
    if isinstance(target, str):
        name = target
    else:
        qualified = getattr(target, "__qualname__", None)
        if qualified is None:
            message = (
                f"expected a class or a function of a module, or its name, got {shown(target)}"
            )
            raise ValueError(message)
        name = f"{getattr(target, '__module__', '')}:{qualified}"
    try:
        found: object = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        why = str(error)
    else:
        why = "__main__ is another module there" if name.startswith("__main__:") else ""
        if not isinstance(target, str) and found is not target:
            why = "the name refers to something else"
    if why:
        message = (
            f"{name!r} cannot be imported in another process: {why}; give a class or "
            "function of a module that can be imported, or its name: 'module:name'"
        )
        raise ValueError(message)
    return name


def answers_of(name: str, snapshots: Sequence[Snapshot]) -> list[Asked]:
    """Return all answers on each snapshot: those of a plugin, and the result of a cycle with it.

    For a function without parameters that returns a scheduler, only the result.
    """
    target: object = resolve_name(name)
    if not isclass(target) and not signature(cast("Callable[..., object]", target)).parameters:
        made = cast("Callable[[], object]", target)()
        if isinstance(made, Scheduler):
            return [{RESULT: _as_text(made, snapshot)} for snapshot in snapshots]
    subject = Subject(cast("PluginFactory", target), _NAME, {}, None)
    return [
        {**_texts(ask_all(subject.open(each))), RESULT: _as_text(subject.scheduler(), each)}
        for each in snapshots
    ]


def _as_text(scheduler: Scheduler, snapshot: Snapshot) -> str:
    result = scheduler.schedule(snapshot)
    return json.dumps(result.to_dict(), sort_keys=True)


def _texts(answers: Answers) -> dict[str, str]:
    told: dict[str, str] = {}
    for question, answer in answers.items():
        which = f"[{question.number}]" if question.number else ""
        if question.kind not in _KEYS and question.point != "claimant_key":
            told[f"{question.point}{which} of {question.about}"] = repr(answer)
    # Keys may be of any type, so only their order is compared.
    for kind in _KEYS:
        keyed = [(q, cast("_Ordered", answer)) for q, answer in answers.items() if q.kind is kind]
        for question, key in keyed:
            place = sum(other < key for _, other in keyed)
            told[f"{question.point} of {question.about}"] = f"number {place + 1} of {len(keyed)}"
    return told


class _Ordered(Protocol):
    def __lt__(self, other: object, /) -> bool: ...


class Request(TypedDict):
    """The input of the process."""

    targets: Sequence[str]
    snapshots: Sequence[Mapping[str, object]]


def carry_out(order: str) -> str:
    """Return all answers, target by target and snapshot by snapshot, as JSON."""
    given = cast("Request", json.loads(order))
    snapshots = [Snapshot.from_dict(each) for each in given["snapshots"]]
    told: list[list[Asked]] = [answers_of(name, snapshots) for name in given["targets"]]
    return json.dumps(told)


def answer() -> None:
    """Read names and snapshots, and write all answers: what each process does."""
    sys.stdout.write(carry_out(sys.stdin.read()))


_SEEDS = (1, 2)


@define(eq=False, repr=False)
class HashSeedViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A plugin or scheduler whose answers depend on the order of sets."""

    target: str
    """Its name: ``"module:name"``."""
    question: str
    """The call whose answers differ."""
    seen: str
    """Both answers."""
    snapshot: Snapshot

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.question} depends on the order of a set\n  {self.seen}\n"
            "  Sort the items of a set before using them."
        )

    def as_code(self) -> str:
        """Return code that compares both processes again, on this snapshot only."""
        return (
            "from hypothesis import strategies as st\n\n"
            f"snapshot = {as_code(self.snapshot)}\n"
            f"check_hash_seeds({self.target!r}, examples=st.just(snapshot))\n"
        )


def check_hash_seeds(
    *targets: type[object] | Callable[[Arguments], object] | Callable[[], object] | str,
    examples: SearchStrategy[Snapshot] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    max_examples: int = 40,
) -> None:
    """Check that answers are equal in two processes whose sets have different orders.

    Compares all answers of a plugin (of keys only their order) and the results of cycles. Both
    processes run this Python with the same module path and ``PYTHONHASHSEED`` 1 and 2, so every
    run finds the same. They take a few seconds to start, whatever the number of targets. Nothing
    else in batchsched starts processes.

    Args:
        targets: factories of plugins, as registered (a class, or a function of its `Arguments`); or
            functions without parameters that return a `Scheduler`, for your own actions. A target
            must be importable by name in the other processes, and may be given as its name,
            ``"module:name"``. A plugin is put before those of the default configuration; for
            another configuration, or for arguments, pass a function that returns a scheduler.
        examples: the snapshots to use; by default small ones with several nodes and jobs.
        labels: keys and values of labels for the default examples; see `snapshots`.
        max_examples: the number of snapshots to use.

    Raises:
        HashSeedViolation: the answers of the two processes differ.
        ValueError: a target cannot be imported by name in another process, or both labels and
            examples are given.
        RuntimeError: a process failed, with its message; try `check_plugin` to find the cause.

    """
    names = [name_of_target(target) for target in targets]
    drawn = _drawn(given_or_default(examples, labels, _default_examples), max_examples)
    violation = next(differences(names, drawn), None)
    if violation is not None:
        raise violation


def _default_examples(labels: Mapping[str, Sequence[str]] | None) -> SearchStrategy[Snapshot]:
    return snapshots(min_nodes=3, min_jobs=3, max_jobs=5, max_tasks=3, labels=labels)


def _drawn(examples: SearchStrategy[Snapshot], count: int) -> list[Snapshot]:
    found: list[Snapshot] = []

    @same_each_time(count, shrink=False)
    @given(examples)
    def collect(snapshot: Snapshot) -> None:
        if snapshot not in found:
            found.append(snapshot)

    collect()
    return found


def differences(names: Sequence[str], drawn: Sequence[Snapshot]) -> Iterator[HashSeedViolation]:
    """Yield the first difference of each target."""
    order: Request = {"targets": names, "snapshots": [snapshot.to_dict() for snapshot in drawn]}
    text = json.dumps(order)
    told = [cast("list[list[Asked]]", json.loads(run_child(text, seed))) for seed in _SEEDS]
    for name, one, other in zip(names, *told, strict=True):
        for snapshot, before, after in zip(drawn, one, other, strict=True):
            question = next((q for q in before if before[q] != after.get(q)), None)
            if question is not None:
                first, second = shown(before[question]), shown(after.get(question))
                if question == RESULT:
                    first, second = _part(before[question], after[question])
                seen = f"it was {first} in one process and {second} in another"
                yield HashSeedViolation(name, question, seen, snapshot)
                break


def _part(one: str, other: str) -> tuple[str, str]:
    """Return the first part of a result that differs, from both."""
    first = cast("dict[str, object]", json.loads(one))
    second = cast("dict[str, object]", json.loads(other))
    part = next(key for key in first if first[key] != second[key])
    return f"{part}: {shown(first[part])}", f"{part}: {shown(second[part])}"


def run_child(order: str, seed: int) -> str:
    """Run a process with a hash seed; return its output.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-c", "from batchsched.testing.hashing import answer; answer()"],
        input=order,
        env={
            **os.environ,
            "PYTHONHASHSEED": str(seed),
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise RuntimeError(f"the process with PYTHONHASHSEED={seed} failed: {last[0]}")
    return done.stdout
