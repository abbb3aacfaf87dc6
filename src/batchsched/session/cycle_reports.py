"""Records what actions tried in a cycle, and the outcome, for pending reasons.

The records are read at the end of the cycle. No decision depends on them.
"""

from __future__ import annotations

from attrs import define, field

from batchsched.model.reasons import QueueShare, Unfit
from batchsched.session.victims import EvictionSearch
from batchsched.state.records import TaskState

__all__ = ["CycleReports"]


@define(eq=False)
class CycleReports:
    """What actions tried in one cycle, and the outcome."""

    unplaced: dict[str, TaskState] = field(factory=dict[str, TaskState])
    """Tasks that an action tried to place and could not, by UID."""
    rolled_back: dict[str, TaskState] = field(factory=dict[str, TaskState])
    """Tasks whose placement was rolled back, by UID."""
    asked_in_part: set[str] = field(factory=set[str])
    """The UIDs of jobs whose turns ended before all of their tasks were tried."""
    refusals: dict[str, Unfit] = field(factory=dict[str, Unfit])
    """Why queues could last not accept tasks, by UID."""
    claim_refusals: dict[str, Unfit] = field(factory=dict[str, Unfit])
    """Why queues could not reclaim resources for tasks, by UID."""
    lacking_company: set[str] = field(factory=set[str])
    """The UIDs of tasks that do not fit together although there is enough for one of them."""
    queues_overused: dict[str, QueueShare | None] = field(factory=dict[str, QueueShare | None])
    """Queues that an action skipped because they were overused, by name, in that order.

    With what each deserved and had when it was first skipped, if a plugin knows.
    """
    eviction_searches: dict[tuple[str, str], EvictionSearch] = field(
        factory=dict[tuple[str, str], EvictionSearch]
    )
    """Failed searches for tasks to evict, by task and action."""
