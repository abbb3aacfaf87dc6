"""What a plugin is: configuration, and an `open` that gives an object for one cycle.

The object that `open` returns implements the extension points that it wants:
it has the methods of the protocols below, in any combination. Nothing of it
outlives the cycle, so nothing leaks from cycle to cycle.

Inspired by the extension points of the
"Kube-batch scheduler framework" document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from batchsched.model.queue_outcome import QueueOutcome
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict, Vote
from batchsched.state.live_queue import SortKey
from batchsched.state.needs import Need
from batchsched.state.records import JobState, NodeState, QueueState, TaskState

__all__ = [
    "Allocatable",
    "AllocateEvents",
    "Claims",
    "DeallocateEvents",
    "Hints",
    "JobConditionReady",
    "JobOrder",
    "JobPipelined",
    "JobReady",
    "JobValid",
    "JobsAdmitted",
    "NeedOrder",
    "NodeOrder",
    "NodeOrderOnResource",
    "Overused",
    "PastUse",
    "Plugin",
    "Predicates",
    "Preemptable",
    "QueueOrder",
    "QueueOrderByNeed",
    "QueueReport",
    "QueueShares",
    "Reclaimable",
    "Revocable",
    "SessionClose",
    "SurplusWeights",
    "TaskOrder",
    "VerdictReasons",
]


@runtime_checkable
class Plugin(Protocol):
    """A configured plugin. It holds its arguments and no state of any cycle."""

    def open(self, view: SessionView, /) -> object:
        """Return a fresh object for this cycle, with the methods of some extension points.

        Called once a cycle, before any action. It may look at all of `view`.
        """
        ...


@runtime_checkable
class JobOrder(Protocol):
    """Ranks jobs."""

    def job_order_key(self, job: JobState, /) -> SortKey | float | str:
        """Rank a job; the smallest key goes first, equal keys fall to the next plugin.

        Called when a job starts to wait in a queue and after each change to its
        account. May read only the job and what the plugin itself keeps of it.
        """
        ...


@runtime_checkable
class QueueOrder(Protocol):
    """Ranks queues."""

    def queue_order_key(self, queue: QueueState, /) -> SortKey | float | str:
        """Rank a queue; the smallest key goes first, equal keys fall to the next plugin.

        Called when a queue starts to wait for its turn and after each change to its
        account. May read only the queue and what the plugin itself keeps of it.
        """
        ...


@runtime_checkable
class QueueOrderByNeed(Protocol):
    """Ranks queues that have the same parent, each with what the next job below it needs.

    Where any plugin has this form, the next queue is found by walking down the tree of queues;
    `QueueOrder` is asked about siblings then, too. Without, all queues with jobs are ranked as
    one list, whatever their parents.
    """

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> SortKey | float | str:
        """Rank a queue among its siblings; the smallest key goes first.

        `need` is what the next job of the queue, or of one below it, asks for; None: nothing.
        Called after each change to the accounts of the queue, or of one below it. May read only
        these, the queue, the need, and what the plugin itself keeps of them.
        """
        ...


@runtime_checkable
class NeedOrder(Protocol):
    """Ranks what the jobs of one queue ask for, before `JobOrder` ranks the jobs."""

    def need_order_key(self, need: Need, /) -> SortKey | float | str:
        """Rank a need; the job with the smallest key goes first, equal keys fall to the next.

        Called whenever the next job of a queue is asked for, so it may read anything that is
        charged to queues; of the need, its job's queue and what it asks for. It counts where a
        plugin ranks queues by need (`QueueOrderByNeed`), in all actions that take queues in turn.
        """
        ...


@runtime_checkable
class SurplusWeights(Protocol):
    """Says by what weights queues share what none of them deserves."""

    def surplus_weights(self, siblings: Sequence[QueueState], dimension: int, /) -> Sequence[int]:
        """Return a weight, 0 or more, for each of some queues that have the same parent.

        It is for plugins that say what queues deserve, such as ``capacity``: these ask it, through
        `SessionView.surplus_weights`, for the queues that want more of a dimension than they have
        been dealt so far. Without such a plugin `Queue.weight` counts. The first plugin that has
        this is asked. Who has the weight 0 as a queue must have it here.
        """
        ...


@runtime_checkable
class PastUse(Protocol):
    """Ranks queues by what they used in the past."""

    def past_use_key(self, queue: QueueState, need: Need | None, /) -> float:
        """Rank a queue among its siblings; the smallest goes first.

        It is for plugins that rank queues by more than that, such as ``capacity``: these ask it,
        through `SessionView.past_use_key`. The first plugin that has this is asked.
        """
        ...


@runtime_checkable
class Allocatable(Protocol):
    """Says what queues may take at all, whatever nodes there are."""

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        """Return None, or why the queue may not take what is needed, now.

        Called before a node is sought: for a job that is not ready with all that it needs, and
        for each task. `Need.leaving` are tasks that would be evicted for it. More tasks that
        leave must never turn None into a refusal.
        """
        ...


@runtime_checkable
class Claims(Protocol):
    """Says what queues may take back from others, in the place of `Reclaimable`."""

    def claim(self, need: Need, terms: ClaimTerms, /) -> Claim | Unfit:
        """Return what may be taken back for a need of a job, or why nothing may.

        Called at each turn of a job in reclaim. If any plugin has this, the first one that has
        it is asked, and verdicts of others only protect.
        """
        ...


@runtime_checkable
class QueueReport(Protocol):
    """Knows what queues are entitled to, and what they have."""

    def queue_outcomes(
        self, task_order_key: Callable[[TaskState], SortKey], /
    ) -> Mapping[str, QueueOutcome]:
        """Return how each queue stands, by name.

        Called once, when the session closes. The first plugin that has this is asked.
        `task_order_key` ranks tasks; the least is the most valuable.
        """
        ...


@runtime_checkable
class JobsAdmitted(Protocol):
    """Is told when it is known which jobs the session schedules."""

    def jobs_admitted(self) -> None:
        """Learn that `JobState.in_session` is known now. Called once, before any action."""
        ...


@runtime_checkable
class TaskOrder(Protocol):
    """Ranks the tasks of a job; victims are taken in the exact reverse of it."""

    def task_order_key(self, task: TaskState, /) -> SortKey | float | str:
        """Rank a task; the smallest key goes first, equal keys fall to the next plugin.

        Called at most once a task and cycle. May read only what does not change in a
        cycle: `TaskState.info` and what the plugin found out when it was opened.
        """
        ...


@runtime_checkable
class Predicates(Protocol):
    """Says which nodes can take which tasks."""

    def predicates(self) -> Iterable[Predicate]:
        """Return conditions; all must hold, the first that does not is the reason.

        Called once a cycle, right after `Plugin.open`.
        """
        ...


@runtime_checkable
class NodeOrder(Protocol):
    """Says which nodes suit a task best."""

    def node_scores(self) -> Iterable[NodeScore]:
        """Return scores; they are added up.

        Called once a cycle, right after `Plugin.open`.
        """
        ...


@runtime_checkable
class NodeOrderOnResource(Protocol):
    """Says which nodes have most room for a task, for the reserve action."""

    def node_order_on_resource(self, task: TaskState, node: NodeState, /) -> float:
        """Return a score from what the node has idle and the task requires; added up."""
        ...


@runtime_checkable
class Preemptable(Protocol):
    """Says which tasks may be evicted for one of the same queue."""

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        """Return a verdict on each candidate, in their order.

        Candidates come in victim order. Called for each node that the preempt action
        looks at: first with each candidate alone, then with all that nobody protects.
        Must change nothing.
        """
        ...


@runtime_checkable
class Reclaimable(Protocol):
    """Says which tasks may be evicted for one of another queue."""

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        """Return a verdict on each candidate, in their order; see `Preemptable`."""
        ...


@runtime_checkable
class Revocable(Protocol):
    """Says which backfill tasks may be evicted for one that was promised their room.

    Without any such plugin all may: that is what backfill tasks are for.
    """

    def revocable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        """Return a verdict on each candidate, in their order; see `Preemptable`."""
        ...


@runtime_checkable
class Hints(Protocol):
    """Gives hints for speed, for plugins with verdicts."""

    def hints(self) -> EvictionHints:
        """Return hints; they change no answer. Called once a cycle, right after `Plugin.open`."""
        ...


@runtime_checkable
class Overused(Protocol):
    """Says which queues have enough."""

    def overused(self, queue: QueueState, /) -> bool:
        """Return whether the queue has all that it deserves. Called before each of its turns."""
        ...


@runtime_checkable
class QueueShares(Protocol):
    """Tells what queues deserve, for the reasons why tasks wait."""

    def queue_share(self, queue: QueueState, /) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return what the queue deserves and what it has, by dimension; None if not known."""
        ...


@runtime_checkable
class VerdictReasons(Protocol):
    """Puts verdicts into words, for the reasons why nobody was evicted."""

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict, /
    ) -> Sequence[str]:
        """Return why the plugin gave each candidate this verdict, in a few words.

        Such as ``equal priority``: they go before a count. An empty string leaves it to a general
        one. Called at the end of a cycle, for candidates that the plugin kept from being evicted.
        Where a plugin makes claims, its claims say why not themselves; see `Claim.why_not`.
        """
        ...


@runtime_checkable
class JobValid(Protocol):
    """Says which jobs can be scheduled at all."""

    def job_valid(self, job: JobState, /) -> JobCondition | None:
        """Return None, or why the job is refused. Called once a job, when the session opens."""
        ...


@runtime_checkable
class JobReady(Protocol):
    """Says when a job may start."""

    def job_ready(self, job: JobState, /) -> Vote | bool:
        """Vote on whether the job's tasks that have a place may be bound. True permits."""
        ...


@runtime_checkable
class JobPipelined(Protocol):
    """Says when a job will be able to start with what is promised to it."""

    def job_pipelined(self, job: JobState, /) -> Vote | bool:
        """Vote on whether the promises that were made to the job are enough."""
        ...


@runtime_checkable
class JobConditionReady(Protocol):
    """Says when a job could start if backfill tasks and reservations gave way."""

    def job_condition_ready(self, job: JobState, /) -> Vote | bool:
        """Vote on whether the job is ready or conditionally ready."""
        ...


@runtime_checkable
class AllocateEvents(Protocol):
    """Receives allocation events."""

    def on_allocate(self, task: TaskState, /) -> None:
        """Count that `task` was placed, or that its eviction was undone."""
        ...


@runtime_checkable
class DeallocateEvents(Protocol):
    """Receives deallocation events."""

    def on_deallocate(self, task: TaskState, /) -> None:
        """Count that `task` was evicted, or that its placement was undone."""
        ...


@runtime_checkable
class SessionClose(Protocol):
    """Reports unschedulable jobs at close."""

    def close(self) -> Iterable[tuple[JobState, JobCondition]]:
        """Return the jobs that could not be scheduled, and why.

        Called once a cycle, after all actions, in configured order. A job's first
        condition counts.
        """
        ...
