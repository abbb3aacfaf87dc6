"""Labels that the caller names, in addition to those that parts of a snapshot have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TypeVar

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.errors import Fault
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown
from batchsched.testing.drawing.arguments import built

Choices = Mapping[str, Sequence[str]]
"""Keys of labels, and the values that each may have."""
Labels = Choices | None


def not_labels(labels: Labels) -> Iterator[Fault]:
    """Yield a fault for each key that is empty, or has no values."""
    for key, values in (labels or {}).items():
        if not key:
            yield Fault("labels", f"the key {shown(key)} is empty")
        if not values:
            yield Fault(f"labels[{shown(key)}]", "is empty; there must be one at least")


LABEL_DRAFTS = st.binary(min_size=16, max_size=16)
"""The bytes that determine all labels; their number does not grow with the example."""

_ALIKE = 128
"""The tasks of a job have equal labels if its byte is lower than this."""

PartT = TypeVar("PartT", TaskInfo, NodeInfo, JobInfo)
ValueT = TypeVar("ValueT")


def with_labels(
    drawn: SearchStrategy[ValueT], labels: Labels, add: Callable[[ValueT, bytes, Choices], ValueT]
) -> SearchStrategy[ValueT]:
    """Draw values to which some of the given labels are added."""
    if not labels:
        return drawn
    return built(st.tuples(drawn, LABEL_DRAFTS), lambda of: add(of[0], of[1], labels))


def labelled(part: PartT, draft: bytes, choices: Choices, number: int = 0) -> PartT:
    """Return a part of a snapshot with labels in addition to its own; each may be missing."""
    chosen: dict[str, str] = {}
    for position, (key, values) in enumerate(sorted(choices.items())):
        which = draft[(number + 5 * position) % len(draft)] % (1 + len(values))
        if which:
            chosen[key] = values[which - 1]
    return evolve(part, labels={**part.labels, **chosen})


def labelled_job(job: JobInfo, draft: bytes, choices: Choices, number: int = 0) -> JobInfo:
    """Return a job with labels; its tasks have the same ones, or each its own."""
    step = 0 if draft[number % len(draft)] < _ALIKE else 1
    tasks = [
        labelled(task, draft, choices, number + step * position)
        for position, task in enumerate(job.tasks)
    ]
    return evolve(labelled(job, draft, choices, number), tasks=tasks)


def labelled_snapshot(snapshot: Snapshot, draft: bytes, choices: Choices) -> Snapshot:
    """Return a snapshot whose nodes, jobs and tasks have labels in addition to their own."""
    number = count()
    return evolve(
        snapshot,
        nodes=[labelled(node, draft, choices, next(number)) for node in snapshot.nodes],
        jobs=[labelled_job(job, draft, choices, next(number)) for job in snapshot.jobs],
        other_tasks=[labelled(task, draft, choices, next(number)) for task in snapshot.other_tasks],
    )
