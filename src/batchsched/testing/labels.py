"""Labels for examples, for policies that read labels which examples do not have otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.model.cluster import JobInfo
from batchsched.model.snapshot import Snapshot

__all__ = ["LABEL_DRAFTS", "LabelChoices", "job_with_labels", "labels_of", "with_labels"]

LabelChoices = Mapping[str, Sequence[str]]
"""Keys of labels, and the values that each may have."""

LABEL_DRAFTS: SearchStrategy[bytes] = st.binary(min_size=16, max_size=16)
"""The bytes that determine all labels; their number does not grow with the example."""

_ALIKE = 128
"""The tasks of a job have equal labels if its byte is lower than this."""


def labels_of(draft: bytes, number: int, choices: LabelChoices) -> dict[str, str]:
    """Return the labels of the object with a number; each of them may be missing."""
    chosen: dict[str, str] = {}
    for position, (key, values) in enumerate(sorted(choices.items())):
        which = draft[(number + 5 * position) % len(draft)] % (1 + len(values))
        if which:
            chosen[key] = values[which - 1]
    return chosen


def job_with_labels(job: JobInfo, draft: bytes, number: int, choices: LabelChoices) -> JobInfo:
    """Return a job with labels; its tasks have the same ones, or each its own."""
    are_alike = draft[number % len(draft)] < _ALIKE
    return evolve(
        job,
        labels={**job.labels, **labels_of(draft, number, choices)},
        tasks=[
            evolve(
                task,
                labels={
                    **task.labels,
                    **labels_of(draft, number + (0 if are_alike else position), choices),
                },
            )
            for position, task in enumerate(job.tasks)
        ],
    )


def with_labels(snapshot: Snapshot, draft: bytes, choices: LabelChoices) -> Snapshot:
    """Return a snapshot whose nodes, jobs and tasks have labels in addition to their own."""
    numbers = count()
    return evolve(
        snapshot,
        nodes=[
            evolve(node, labels={**node.labels, **labels_of(draft, next(numbers), choices)})
            for node in snapshot.nodes
        ],
        jobs=[job_with_labels(job, draft, next(numbers), choices) for job in snapshot.jobs],
        other_tasks=[
            evolve(task, labels={**task.labels, **labels_of(draft, next(numbers), choices)})
            for task in snapshot.other_tasks
        ],
    )
