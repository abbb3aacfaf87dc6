"""The law that cycles do not affect each other."""

from __future__ import annotations

from contextlib import suppress

from attrs import frozen

from batchsched.errors import PluginError
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.testing.laws.asking import Answers, ask_all, first_change
from batchsched.testing.laws.trial import Subject, Trial
from batchsched.testing.laws.violation import LawViolation

__all__ = ["check_isolation"]


@frozen
class _Cycle:
    """The outcome of a cycle."""

    answers: Answers
    """The answers to all questions, before the first action."""
    result: CycleResult


class _Cycles:
    """A scheduler with a fresh plugin, which runs one cycle after the other."""

    def __init__(self, subject: Subject) -> None:
        self._scheduler = subject.fresh_scheduler(self._look)
        self._answers: Answers = {}
        self._violation: LawViolation | None = None

    def _look(self, trial: Trial) -> None:
        try:
            self._answers = ask_all(trial)
        except LawViolation as violation:
            self._violation = violation  # the scheduler would attribute it to an action

    def run(self, snapshot: Snapshot) -> _Cycle:
        self._violation = None
        result = self._scheduler.schedule(snapshot)
        if self._violation is not None:
            raise self._violation
        return _Cycle(self._answers, result)


def check_isolation(subject: Subject, trial: Trial, first: Snapshot, second: Snapshot) -> None:
    """Neither answers nor the result of a cycle depend on the cycles before it."""
    try:
        _compare_cycles(subject, trial, first, second)
    except (PluginError, LawViolation):
        raise
    except Exception as error:
        seen = f"one raises {type(error).__name__}: {error}"
        trial.fail("open", "no cycle fails because of it", seen, other=second)


def _compare_cycles(subject: Subject, trial: Trial, first: Snapshot, second: Snapshot) -> None:
    cycles = _Cycles(subject)
    try:
        before = cycles.run(first)
    except Exception:
        # The copy may be at fault rather than the plugin, so try without copies.
        if not subject.do_without_copies():
            raise
        cycles = _Cycles(subject)
        before = cycles.run(first)
    _expect_same(trial, before, cycles.run(first), "after a cycle on the same snapshot")
    # State kept from the first snapshot may hide state kept from the second.
    cycles = _Cycles(subject)
    _try(cycles, second)
    _expect_same(trial, before, cycles.run(first), "after a cycle on another snapshot", second)


def _try(cycles: _Cycles, snapshot: Snapshot) -> None:
    # Faults of a cycle on this snapshot are reported when it is the first.
    with suppress(Exception):
        cycles.run(snapshot)


def _expect_same(
    trial: Trial, before: _Cycle, after: _Cycle, what: str, other: Snapshot | None = None
) -> None:
    law = "no state leaks from cycle to cycle"
    changed = first_change(before.answers, after.answers)
    if changed is not None:
        question, seen = changed
        trial.fail(question.point, law, f"{seen}, {what}", other=other)
    if after.result != before.result:
        seen = (
            f"the same snapshot gave another result {what}:\n"
            f"{before.result}\nand then\n{after.result}"
        )
        trial.fail("open", law, seen, other=other)
