"""What `open` returns, in the form that a type checker can check: one field an extension point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import frozen

from batchsched.model.queue_outcome import QueueOutcome
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.verdicts import Verdict, Vote
from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, TaskState

__all__ = ["ExtensionPoints"]

_Key = SortKey | float | str
_Verdicts = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]
_Votes = Callable[[JobState], Vote | bool]
_Shares = Callable[[QueueState], tuple[Sequence[float], Sequence[float]] | None]
_Listener = Callable[[TaskState], None]


@frozen(kw_only=True, eq=False)
class ExtensionPoints:
    """The extension points that a plugin implements in one cycle; None: it does not.

    Return it from `open`, and a type checker tells of misspelt names and of functions with
    other arguments or answers. An object that has methods of these names does as well.

    >>> class ShortNamesFirst:
    ...     def open(self, view):
    ...         return ExtensionPoints(job_order_key=lambda job: len(job.info.name))
    """

    job_order_key: Callable[[JobState], _Key] | None = None
    """Rank a job; see `batchsched.plugin.JobOrder`."""
    queue_order_key: (
        Callable[[QueueState], _Key] | Callable[[QueueState, Need | None], _Key] | None
    ) = None
    """Rank a queue; see `batchsched.plugin.QueueOrder` and `batchsched.plugin.QueueOrderByNeed`."""
    need_order_key: Callable[[Need], _Key] | None = None
    """Rank what jobs of a queue ask for; see `batchsched.plugin.NeedOrder`."""
    task_order_key: Callable[[TaskState], _Key] | None = None
    """Rank a task of a job; see `batchsched.plugin.TaskOrder`."""
    predicates: Callable[[], Iterable[Predicate]] | None = None
    """Return conditions that nodes must meet; see `batchsched.plugin.Predicates`."""
    node_scores: Callable[[], Iterable[NodeScore]] | None = None
    """Return scores of nodes; see `batchsched.plugin.NodeOrder`."""
    node_order_on_resource: Callable[[TaskState, NodeState], float] | None = None
    """Score the room of a node; see `batchsched.plugin.NodeOrderOnResource`."""
    preemptable: _Verdicts | None = None
    """Judge candidates for a task of their queue; see `batchsched.plugin.Preemptable`."""
    reclaimable: _Verdicts | None = None
    """Judge candidates for a task of another queue; see `batchsched.plugin.Reclaimable`."""
    revocable: _Verdicts | None = None
    """Judge backfill tasks in the way of promised room; see `batchsched.plugin.Revocable`."""
    overused: Callable[[QueueState], bool] | None = None
    """Return whether a queue has enough; see `batchsched.plugin.Overused`."""
    queue_share: _Shares | None = None
    """Return what a queue deserves and has; see `batchsched.plugin.QueueShares`."""
    verdict_reasons: Callable[[TaskState, Sequence[TaskState], Verdict], Sequence[str]] | None = (
        None
    )
    """Put verdicts into words; see `batchsched.plugin.VerdictReasons`."""
    job_valid: Callable[[JobState], JobCondition | None] | None = None
    """Return why a job cannot be scheduled, or None; see `batchsched.plugin.JobValid`."""
    job_ready: _Votes | None = None
    """Vote on whether a job may start; see `batchsched.plugin.JobReady`."""
    job_pipelined: _Votes | None = None
    """Vote on whether promises are enough; see `batchsched.plugin.JobPipelined`."""
    job_condition_ready: _Votes | None = None
    """Vote on conditional readiness; see `batchsched.plugin.JobConditionReady`."""
    on_allocate: _Listener | None = None
    """Be told of a placement; see `batchsched.plugin.AllocateEvents`."""
    on_deallocate: _Listener | None = None
    """Be told of an eviction or an undone placement; see `batchsched.plugin.DeallocateEvents`."""
    close: Callable[[], Iterable[tuple[JobState, JobCondition]]] | None = None
    """Report jobs that could not be scheduled; see `batchsched.plugin.SessionClose`."""
    allocatable: Callable[[QueueState, Need], Unfit | None] | None = None
    """Say why a queue may not take what is needed; see `batchsched.plugin.Allocatable`."""
    claim: Callable[[Need, ClaimTerms], Claim | Unfit] | None = None
    """Say what may be taken back for a need; see `batchsched.plugin.Claims`."""
    queue_outcomes: (
        Callable[[Callable[[TaskState], SortKey]], Mapping[str, QueueOutcome]] | None
    ) = None
    """Say how queues stand at the end; see `batchsched.plugin.QueueReport`."""
    jobs_admitted: Callable[[], None] | None = None
    """Be told that jobs have been admitted; see `batchsched.plugin.JobsAdmitted`."""
    surplus_weights: Callable[[Sequence[QueueState], int], Sequence[int]] | None = None
    """Say by what weights queues share a surplus; see `batchsched.plugin.SurplusWeights`."""
    past_use_key: Callable[[QueueState, Need | None], float] | None = None
    """Rank a queue by what it used in the past; see `batchsched.plugin.PastUse`."""
    hints: Callable[[], EvictionHints] | None = None
    """For speed: give hints on verdicts; see `batchsched.plugin.EvictionHints`."""
