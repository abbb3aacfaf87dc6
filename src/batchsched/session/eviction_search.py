"""What is recorded of a search for tasks to evict that found nobody, or not enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from batchsched.plugin.claims import Claim
from batchsched.session.victims import RecentStarts
from batchsched.state.records import NodeState, TaskState

__all__ = ["EvictionSearch"]


@frozen
class EvictionSearch:
    """A search that found nobody, or not enough, to evict for a task."""

    task: TaskState
    action: str
    """The action that searched."""
    point: str
    """Whose verdicts count: ``preemptable`` or ``reclaimable``."""
    among: str
    """Whose running tasks it considered; searches that differ in this have other candidates."""
    may_use_idle: bool
    """Whether the task may take idle resources too."""
    candidates_on: Callable[[NodeState], Sequence[TaskState]]
    """Which running tasks of a node the action may consider."""
    recent: RecentStarts | None = None
    """Which of them it may not evict, because they have just started."""
    curable: bool = False
    """Whether it searched nodes too that refuse the task for what evicting can cure."""
    claim: Claim | None = None
    """What said whom it could evict, in the place of verdicts."""
