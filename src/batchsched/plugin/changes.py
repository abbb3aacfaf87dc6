"""What changed between two cycles on a living cluster, for plugins that keep their state."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from attrs import frozen

from batchsched.state.records import JobState, NodeState, TaskState

__all__ = ["Changes", "Resumes"]


@frozen(kw_only=True)
class Changes:
    """What may differ from what it was when a plugin's object was opened or resumed last."""

    jobs: Collection[JobState]
    """The jobs that came, are described anew, or have tasks that stand elsewhere.

    The last cycle's own moves count too: they have been undone since, without telling anybody.
    """
    jobs_gone: Collection[JobState]
    """The jobs that are there no more. A job that was entered anew is in both."""
    tasks: Collection[TaskState]
    """The tasks that came or are described anew, those of no job included."""
    nodes: Collection[NodeState]
    """The nodes that came or are described anew."""
    nodes_gone: Collection[NodeState]
    """The nodes that are there no more."""
    other_tasks: bool = True
    """Whether any task of no job may have come, gone or changed."""


@runtime_checkable
class Resumes(Protocol):
    """Keeps what it knows from one cycle to the next, for speed.

    The object that a plugin opened may have this; without it, the plugin is opened anew in each
    cycle of a living cluster. Dimensions, the configuration and queues are what they were, but for
    what queues have used (`Queue.usage`).

    If it votes (`job_ready`, `job_pipelined`, `job_condition_ready`) or is told of placements, it
    may also have an attribute ``votes_on_jobs_alone = True``: its votes follow from the accounts
    of the job that is asked about, and nothing that it is told changes them otherwise. Where all
    plugins say so, a turn that came to nothing is not repeated in later cycles until a node that
    takes tasks of the job has changed, or the job.
    """

    def resume(self, changes: Changes, /) -> bool:
        """Catch up with what changed, or return False to be opened anew.

        What it answers then must be what a freshly opened object would answer. Predicates and
        scores are not asked for again: those that it gave must still do, and so must what they
        were specialised to for one task, whichever nodes came.
        """
        ...
