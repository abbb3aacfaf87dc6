"""Detect laws that were not tested, because an answer never varied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from attrs import define, field

from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown
from batchsched.plugin.extension_points import (
    JobOrder,
    NodeOrderOnResource,
    Preemptable,
    QueueOrder,
    Reclaimable,
    TaskOrder,
)
from batchsched.testing.laws.asking import Answers
from batchsched.testing.laws.trial import Trial

__all__ = ["AnswersSeen", "VacuityWarning"]

_FEWEST = 20
"""With fewer different examples there is no warning: they were chosen for another purpose."""
_TOO_FEW = 20
"""With at most this many equal answers there is no warning."""

_POINTS = {
    "job_order_key": JobOrder,
    "queue_order_key": QueueOrder,
    "task_order_key": TaskOrder,
    "node_order_on_resource": NodeOrderOnResource,
    "preemptable": Preemptable,
    "reclaimable": Reclaimable,
}
"""The checked extension points other than predicates and scores."""
_VERDICTS = ("preemptable", "reclaimable")
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

    def note(self, trial: Trial, answers: Answers) -> None:
        """Record all answers in one example."""
        if len(self._examples) < _FEWEST and trial.snapshot not in self._examples:
            self._examples.append(trial.snapshot)
        for key in _asked_of(trial):
            self._by_point.setdefault(key, _Answer())
        for question, answer in answers.items():
            seen = self._by_point.get((question.point, question.number))
            if seen is not None:
                each = question.point in _VERDICTS
                seen.note(cast("tuple[object, ...]", answer) if each else (answer,))

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


def _asked_of(trial: Trial) -> Iterator[tuple[str, int]]:
    yield from (("predicates", number) for number in range(len(trial.predicates)))
    yield from (("node_scores", number) for number in range(len(trial.scores)))
    for point, kind in _POINTS.items():
        if isinstance(trial.opened, kind):
            yield point, 0
