"""The record of a search for tasks to evict that found none, or too few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from batchsched.plugin.claims import Claim
from batchsched.session.victims import RecentStarts
from batchsched.state.records import NodeState, TaskState

__all__ = ["EvictionSearch"]


@frozen
class EvictionSearch:
    """A search for tasks to evict that found none, or too few."""

    task: TaskState
    action: str
    """The action that searched."""
    point: str
    """The extension point of the verdicts: ``preemptable`` or ``reclaimable``."""
    among: str
    """Which running tasks it considered; searches that differ in this have other candidates."""
    may_use_idle: bool
    """Whether the task may take idle resources too."""
    candidates_on: Callable[[NodeState], Sequence[TaskState]]
    """Returns the running tasks of a node that the action may consider."""
    recent: RecentStarts | None = None
    """The tasks that it may not evict because they started recently."""
    curable: bool = False
    """Whether it also searched nodes that reject the task for reasons evictions can remove."""
    claim: Claim | None = None
    """The claim that determined the victims, in place of verdicts."""
