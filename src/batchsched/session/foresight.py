"""Recognises turns of `allocate` that will be rolled back, without placing any task.

A gang of like tasks for which there is some room, but not enough, would be placed in part and
rolled back again. Where the number of tasks that fit is known, so are the tasks that would be
placed and those for which no node would be found. In a crowded cluster most gangs that wait are
such, and they are tried in every cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.placement import CountsRoom
from batchsched.session.session import Session
from batchsched.state.records import JobState, TaskState

__all__ = ["ForeseenFailure", "foreseen_failure"]


@frozen
class ForeseenFailure:
    """A turn that would be rolled back."""

    undone: Sequence[TaskState]
    """The tasks that would be placed first."""
    failed: Sequence[TaskState]
    """The tasks for which no node would be found then."""
    slots: Collection[int]
    """The slots of the nodes on which tasks would be placed."""


def foreseen_failure(
    session: Session, job: JobState, tasks: Collection[TaskState]
) -> ForeseenFailure | None:
    """Return how a turn would fail that places tasks in order; None: it may not, or is unknown.

    O(tasks). The turn must depend on jobs and nodes alone, and its job's queue must accept what the
    job lacks.

    Args:
        session: the session.
        job: a job without groups.
        tasks: its tasks to place, in task order.

    """
    lacks = job.min_available - job.conditionally_ready_count
    if not 1 < lacks <= len(tasks) or job.count(TaskStatus.RESERVED) or not session.foresees:
        return None
    if len(tasks) > lacks and session.plugin_set.limits_queues:
        # What the queue says of the others depends on what is placed by then.
        return None
    first = next(iter(tasks))
    room = cast("CountsRoom", session.placement).room(first, below=lacks)
    if room is None:
        return None
    in_order = list(tasks)
    kind = session.placement.kind(first)
    if kind is None or not all(
        task.resreq == first.resreq and session.placement.kind(task) == kind for task in in_order
    ):
        return None
    placed = sum(room.values())
    # It goes on as long as the rest could make up the minimum.
    tried = placed + len(tasks) - lacks + 1
    return ForeseenFailure(in_order[:placed], in_order[placed:tried], room.keys())
