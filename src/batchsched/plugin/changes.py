"""The changes between two cycles on a live cluster, for plugins that keep their state."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from attrs import frozen

from batchsched.state.records import JobState, NodeState, TaskState

__all__ = ["Changes", "Resumes"]


@frozen(kw_only=True)
class Changes:
    """What may have changed since a plugin's object was opened or last resumed."""

    jobs: Collection[JobState]
    """The jobs that are new, have a new description, or have tasks with another status or node.

    They include the jobs changed by the last cycle itself: its changes have been undone since,
    without events.
    """
    jobs_gone: Collection[JobState]
    """The jobs that were removed. A job that was removed and added again is in both."""
    tasks: Collection[TaskState]
    """The tasks that are new or have a new description, including those without a job."""
    nodes: Collection[NodeState]
    """The nodes that are new or have a new description."""
    nodes_gone: Collection[NodeState]
    """The nodes that were removed."""
    other_tasks: bool = True
    """Whether any task without a job may have been added, removed or changed."""


@runtime_checkable
class Resumes(Protocol):
    """Keeps its state from one cycle to the next, for speed.

    The object that `open` returns may implement this; without it, the plugin is opened again in
    each cycle of a live cluster. Dimensions, the configuration and queues have not changed, except
    for the past use of queues (`Queue.usage`).

    If it votes (`job_ready`, `job_pipelined`, `job_condition_ready`) or receives allocation
    events, it may also have an attribute ``votes_on_jobs_alone = True``: its votes then depend
    only on the state of the job in question. Where all plugins have it, a failed attempt to place
    a job is not repeated in later cycles until the job, or a node that accepts its tasks, has
    changed.
    """

    def resume(self, changes: Changes, /) -> bool:
        """Process what changed, or return False to be opened again.

        Its answers must then equal those of a newly opened object. `predicates` and `node_scores`
        are not called again: the functions that they returned must still be correct, and so must
        their specialised forms for single tasks, for new nodes too.
        """
        ...
