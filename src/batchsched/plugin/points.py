"""Extension points as fields, so that a type checker can check what `open` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import frozen

from batchsched.model.reasons import JobCondition, Unfit
from batchsched.model.result import QueueOutcome
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.verdicts import Verdict, Vote
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, SortKey, TaskState

__all__ = ["ExtensionPoints"]

_Key = SortKey | float | str
_Verdicts = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]
_Votes = Callable[[JobState], Vote | bool]
_Shares = Callable[[QueueState], tuple[Sequence[float], Sequence[float]] | None]
_Listener = Callable[[TaskState], None]


@frozen(kw_only=True, eq=False)
class ExtensionPoints:
    """The extension points that a plugin implements in one cycle; None: not implemented.

    Return it from `open`, and a type checker finds misspelt names and functions with other
    signatures. An object with methods of these names works too.

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
    """Rank the needs of jobs of a queue; see `batchsched.plugin.NeedOrder`."""
    task_order_key: Callable[[TaskState], _Key] | None = None
    """Rank a task of a job; see `batchsched.plugin.TaskOrder`."""
    predicates: Callable[[], Iterable[Predicate]] | None = None
    """Return conditions that nodes must meet; see `batchsched.plugin.Predicates`."""
    node_scores: Callable[[], Iterable[NodeScore]] | None = None
    """Return scores of nodes; see `batchsched.plugin.NodeOrder`."""
    node_order_on_resource: Callable[[TaskState, NodeState], float] | None = None
    """Score the room of a node; see `batchsched.plugin.NodeOrderOnResource`."""
    preemptable: _Verdicts | None = None
    """Return verdicts for a claimant of the same queue; see `batchsched.plugin.Preemptable`."""
    reclaimable: _Verdicts | None = None
    """Return verdicts for a claimant of another queue; see `batchsched.plugin.Reclaimable`."""
    revocable: _Verdicts | None = None
    """Return verdicts on backfill tasks; see `batchsched.plugin.Revocable`."""
    overused: Callable[[QueueState], bool] | None = None
    """Return whether a queue has its deserved share; see `batchsched.plugin.Overused`."""
    queue_share: _Shares | None = None
    """Return what a queue deserves and has; see `batchsched.plugin.QueueShares`."""
    verdict_reasons: Callable[[TaskState, Sequence[TaskState], Verdict], Sequence[str]] | None = (
        None
    )
    """Explain verdicts; see `batchsched.plugin.VerdictReasons`."""
    job_valid: Callable[[JobState], JobCondition | None] | None = None
    """Return why a job cannot be scheduled, or None; see `batchsched.plugin.JobValid`."""
    job_ready: _Votes | None = None
    """Vote on whether a job may start; see `batchsched.plugin.JobReady`."""
    job_pipelined: _Votes | None = None
    """Vote on whether promises are enough; see `batchsched.plugin.JobPipelined`."""
    job_condition_ready: _Votes | None = None
    """Vote on conditional readiness; see `batchsched.plugin.JobConditionReady`."""
    on_allocate: _Listener | None = None
    """Receive a placement; see `batchsched.plugin.AllocateEvents`."""
    on_deallocate: _Listener | None = None
    """Receive an eviction or an undone placement; see `batchsched.plugin.DeallocateEvents`."""
    close: Callable[[], Iterable[tuple[JobState, JobCondition]]] | None = None
    """Report jobs that could not be scheduled; see `batchsched.plugin.SessionClose`."""
    allocatable: Callable[[QueueState, Need], Unfit | None] | None = None
    """Return why a queue may not allocate a need; see `batchsched.plugin.Allocatable`."""
    claim: Callable[[Need, ClaimTerms], Claim | Unfit] | None = None
    """Return what may be reclaimed for a need; see `batchsched.plugin.Claims`."""
    queue_outcomes: (
        Callable[[Callable[[TaskState], SortKey]], Mapping[str, QueueOutcome]] | None
    ) = None
    """Return the outcomes of queues; see `batchsched.plugin.QueueReport`."""
    jobs_admitted: Callable[[], None] | None = None
    """React to the admission of jobs; see `batchsched.plugin.JobsAdmitted`."""
    surplus_weights: Callable[[Sequence[QueueState], int], Sequence[int]] | None = None
    """Return the weights for the surplus; see `batchsched.plugin.SurplusWeights`."""
    past_use_key: Callable[[QueueState, Need | None], float] | None = None
    """Rank a queue by past use; see `batchsched.plugin.PastUse`."""
    hints: Callable[[], EvictionHints] | None = None
    """Return performance hints for verdicts; see `batchsched.plugin.EvictionHints`."""
