"""The laws on several cycles: nothing leaks from one to the next; and what went unseen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import cast

from attrs import define, field

from batchsched.errors import PluginError
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown
from batchsched.scheduler import Scheduler
from batchsched.testing.laws.asking import VERDICTS, Answers, ask_all, first_change
from batchsched.testing.laws.trial import NOT_ASKED, LawTrial, LawViolation, Subject

_Cycle = tuple[Answers, CycleResult]
"""All answers in a session that was opened on a snapshot, and the result of a cycle on it."""


def check_isolation(subject: Subject, trial: LawTrial, first: Snapshot, second: Snapshot) -> None:
    """Neither answers nor the result of a cycle depend on the cycles before it."""
    try:
        _compare_cycles(subject, trial, first, second)
    except (PluginError, LawViolation):
        raise
    except Exception as error:
        seen = f"one raises {type(error).__name__}: {error}"
        trial.fail("open", "no cycle fails because of it", seen, other=second)


def _compare_cycles(subject: Subject, trial: LawTrial, first: Snapshot, second: Snapshot) -> None:
    scheduler = subject.scheduler()
    try:
        before = _cycle(subject, scheduler, first)
    except Exception:
        # The copy may be at fault rather than the plugin, so try without copies.
        if not subject.do_without_copies():
            raise
        scheduler = subject.scheduler()
        before = _cycle(subject, scheduler, first)
    scheduler.schedule(first)  # one more, lest a plugin be at every second cycle as it was
    after = _cycle(subject, scheduler, first)
    _expect_same(trial, before, after, "after a cycle on the same snapshot")
    # State kept from the first snapshot may hide state kept from the second.
    scheduler = subject.scheduler()
    with suppress(Exception):  # faults of a cycle on it are reported when it is the first
        scheduler.schedule(second)
    after = _cycle(subject, scheduler, first)
    _expect_same(trial, before, after, "after a cycle on another snapshot", second)


def _cycle(subject: Subject, scheduler: Scheduler, snapshot: Snapshot) -> _Cycle:
    return ask_all(subject.open(snapshot, scheduler)), scheduler.schedule(snapshot)


def _expect_same(
    trial: LawTrial, before: _Cycle, after: _Cycle, what: str, other: Snapshot | None = None
) -> None:
    law = "no state leaks from cycle to cycle"
    (answers, result), (answers_now, result_now) = before, after
    changed = first_change(answers, answers_now)
    if changed is not None:
        question, seen = changed
        trial.fail(question.point, law, f"{seen}, {what}", other=other)
    if result_now != result:
        seen = f"the same snapshot gave another result {what}:\n{result}\nand then\n{result_now}"
        trial.fail("open", law, seen, other=other)


_FEWEST = 20
"""With fewer different examples there is no warning: they were chosen for another purpose."""
_TOO_FEW = 20
"""With at most this many equal answers there is no warning."""

_POINTS = (
    "job_order_key",
    "queue_order_key",
    "task_order_key",
    "node_order_on_resource",
    "overused",
    "allocatable",
    *VERDICTS,
)
"""The checked extension points other than predicates and scores."""
_LABELS = (
    "if it reads labels, pass their keys and values as labels={...}, or let the plugin declare "
    "them as `reads_labels`"
)
_EXAMPLES = "pass examples=snapshots(...) with `always` naming the features that it reads"


class VacuityWarning(UserWarning):
    """A plugin always gave the same answer, so the laws did not test it."""


@define
class _Answer:
    """The answers at one extension point."""

    times: int = 0
    first: object = None
    varied: bool = False

    def note(self, answers: Iterable[object]) -> None:
        for answer in answers:
            if not self.times:
                self.first = answer
            elif not self.varied and answer != self.first:
                self.varied = True
            self.times += 1


@define
class AnswersSeen:
    """Records the answers of all examples, and finds those that never varied."""

    _by_point: dict[tuple[str, int], _Answer] = field(factory=dict["tuple[str, int]", "_Answer"])
    _examples: list[Snapshot] = field(factory=list["Snapshot"])
    """Different examples, at most as many as are needed to warn."""

    def note(self, trial: LawTrial, answers: Answers) -> None:
        """Record all answers in one example."""
        if len(self._examples) < _FEWEST and trial.snapshot not in self._examples:
            self._examples.append(trial.snapshot)
        for key in _asked_of(trial):
            self._by_point.setdefault(key, _Answer())
        for question, answer in answers.items():
            seen = self._by_point.get((question.point, question.number))
            if seen is not None:
                each = question.point in VERDICTS
                given = cast("tuple[object, ...]", answer) if each else (answer,)
                seen.note(one for one in given if one is not NOT_ASKED)

    def vacuous(self, plugin: str) -> Iterator[str]:
        """Yield a string on each extension point whose answers show nothing."""
        if len(self._examples) < _FEWEST:
            return
        several = {point for point, number in self._by_point if number}
        for (point, number), answer in self._by_point.items():
            which = f"{point}[{number}]" if point in several else point
            what = f"plugin {plugin!r}, {which}: "
            if not answer.times:
                yield f"{what}it was never called, so no law was tested; {_EXAMPLES}"
            elif not answer.varied and answer.times > _TOO_FEW:
                yield (
                    f"{what}it answered {shown(answer.first)} everywhere ({answer.times} times), "
                    f"so no law was tested; {_LABELS}; otherwise {_EXAMPLES}"
                )


def _asked_of(trial: LawTrial) -> Iterator[tuple[str, int]]:
    yield from ((point, number) for point, number, _, _ in trial.node_functions)
    yield from ((point, 0) for point in _POINTS if trial.function(point) is not None)
