"""The extension points, and `Plugin`: configuration with a method `open`.

The object that `open` returns implements any combination of the extension points: it has the
methods of the protocols below. It is discarded after the cycle, so that no state leaks into the
next one.

Inspired by the extension points of the "Kube-batch scheduler framework" document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Protocol, runtime_checkable

from attrs import frozen

from batchsched.model.reasons import JobCondition, Unfit
from batchsched.model.result import QueueOutcome
from batchsched.plugin.candidates import NodeSet, SecondTry
from batchsched.plugin.claims import Claim, ClaimTerms
from batchsched.plugin.node_functions import Choose, EvictionHints, NodeScore, Predicate
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import Fit, JobState, NodeState, QueueState, SortKey, TaskState


class Verdict(Enum):
    """The verdict of a plugin on a candidate for eviction."""

    # That of Enum hashes the name each time; verdicts are counted in loops over candidates.
    __hash__ = object.__hash__

    VICTIM = "victim"
    """It may be evicted."""
    WITH_JOB = "with its job"
    """It may be evicted, but only together with all other tasks of its job."""
    PASS = "pass"  # noqa: S105 - not a password
    """The plugin neither makes it a victim nor protects it."""
    PROTECTED = "protected"
    """It must not be evicted, whatever other plugins say."""
    NOT_NOW = "not now"
    """The same for a time only: it may be evicted later, though nothing else changes.

    So it does not use up the share of its queue before what is more valuable, as tasks do that
    nobody may ever evict. When that ends, `refused_until` says.
    """
    NO_SAY = "no say"
    """The plugin leaves it to the others: the verdicts count as if it had given none."""
    ALONE = "alone"
    """The same for the task alone; but its job must not be evicted as a whole."""


class Vote(Enum):
    """The vote of a plugin on a job's readiness."""

    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"


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

    Any plugin may have ``refuses_alike = True``: of waiting jobs of a queue, and of waiting tasks
    of a job, that differ only in names, times, the service that they attained, and their place in
    task order, it refuses to later ones what it refuses to an earlier one, for the same reason,
    until something is placed or evicted. `may_claim` is asked for each job all the same, and so may
    depend on times. This counts without `resume`, too.
    """

    def resume(self, changes: Changes, /) -> bool:
        """Process what changed, or return False to be opened again.

        Its answers must then equal those of a newly opened object. `predicates` and `node_scores`
        are not called again: the functions that they returned must still be correct, and so must
        their specialised forms for single tasks, for new nodes too.
        """
        ...


@frozen
class NothingToDo:
    """What `open` may return where nothing in the cluster asks for the plugin: no extension point.

    It costs nothing then, in each cycle of a live cluster too.
    """

    asks: Callable[[Changes], bool]
    """Returns whether something that changed asks for the plugin: then it is opened again."""

    def resume(self, changes: Changes, /) -> bool:
        """Return whether there is still nothing to do."""
        return not self.asks(changes)


@runtime_checkable
class Plugin(Protocol):
    """A configured plugin. It has its arguments, and no state of any cycle."""

    def open(self, view: SessionView, /) -> object:
        """Return a new object for this cycle, with the methods of some extension points.

        Called once in each cycle, before any action. It may read all of `view`. `NothingToDo`: it
        needs none in this cluster.
        """
        ...


@runtime_checkable
class JobOrder(Protocol):
    """Ranks jobs."""

    def job_order_key(self, job: JobState, /) -> SortKey | float | str:
        """Rank a job; the smallest key comes first, and the next plugin breaks ties.

        Called when a job enters the order of its queue, and after each change of the
        amounts charged to it. May read only the job and the plugin's own state of it, or of the
        jobs with which `job_order_shares` says that it shares it.
        """
        ...

    # Optional: def job_order_shares(self, job: JobState, /) -> Hashable
    #
    # Returns with which other jobs it shares what its key reads, such as its user: whenever
    # anything is charged to a job, all waiting jobs of an equal value are ranked anew. It must
    # stay the same in a cycle. Each placement then costs O(these jobs).


@runtime_checkable
class TurnEvents(Protocol):
    """Is told when the turn of a job begins and ends, in actions that take jobs in turn."""

    def on_turn_begin(self, job: JobState, /) -> None:
        """Prepare for the turn of a job, before anything is tried for it."""
        ...

    def on_turn_end(self, job: JobState, /) -> None:
        """Note the end of the turn: what was placed for it is committed or undone."""
        ...


@runtime_checkable
class MayClaim(Protocol):
    """Determines for which jobs others may be evicted at all."""

    def may_claim(self, job: JobState, /) -> bool:
        """Return whether preempt and reclaim give the job a turn; all plugins must permit it.

        Called when its turn comes, perhaps more than once. May read anything.
        """
        ...


@frozen
class Refused:
    """Why something may not leave for a job, or a job may claim nothing."""

    rule: str
    """The rule, such as ``budget web`` or ``minimum-runtime``."""
    until: float | None = None
    """The time from which on the rule does not refuse it any more, in seconds on the clock of
    `SessionView.now`, exactly; None: no time ends it."""


@runtime_checkable
class ClaimRefusal(Protocol):
    """Says why others may not be evicted for a job; see `MayClaim`."""

    def claim_refusal(self, job: JobState, /) -> Refused | None:
        """Return the rule by which a job may claim nothing; None: it may."""
        ...


@runtime_checkable
class LeavesTogether(Protocol):
    """Judges sets of evictions, for rules that verdicts on each task cannot tell."""

    def may_leave_together(
        self, claimant: TaskState, tasks: Collection[TaskState], spares: bool, /
    ) -> bool:
        """Return whether tasks may all leave for a claimant, with all that has left already.

        Called by each search for whom it would take in addition to whom it has taken. It counts
        only tasks that run: what was bound in this cycle has not started.

        Args:
            claimant: the task.
            tasks: the tasks, each once; some may have left in this cycle, for others too.
            spares: whether what is allowed at need alone is not: where a plugin has `spares_first`,
                each search is made so first, and only if it finds nothing without.

        """
        ...

    # Optional: spares_first: bool


@runtime_checkable
class EvictionPrice(Protocol):
    """Ranks victims by what their evictions cost."""

    def eviction_price(self, task: TaskState, /) -> Fraction:
        """Return the price of evicting a task with all that leaves with it, 0 or more.

        Of tasks that all plugins rank alike in task order, those with the smallest price leave
        first. Called for tasks that run; may read anything.
        """
        ...


@runtime_checkable
class RefusedBy(Protocol):
    """Names the rules by which tasks are protected, for reports."""

    def refused_by(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[str]:
        """Return, for each candidate, the rule that protects it; empty: none does."""
        ...


@runtime_checkable
class QueueOrder(Protocol):
    """Ranks queues."""

    def queue_order_key(self, queue: QueueState, /) -> SortKey | float | str:
        """Rank a queue; the smallest key comes first, and the next plugin breaks ties.

        Called when a queue enters the order of queues, and after each change of the
        amounts charged to it. May read only the queue and the plugin's own state of it.
        """
        ...


@runtime_checkable
class QueueOrderByNeed(Protocol):
    """Ranks sibling queues, each with the need of the next job in it or below it.

    If any plugin has this form, the next queue is found by walking down the tree of queues, and
    `QueueOrder` ranks siblings too. Otherwise all queues with jobs are ranked as one list,
    whatever their parents.
    """

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> SortKey | float | str:
        """Rank a queue among its siblings; the smallest key comes first.

        `need` is that of the next job in the queue or below it; None: there is none. Called after
        each change of the amounts charged to the queue or to one below it. May read only these,
        the queue, the need, and the plugin's own state of them.
        """
        ...


@runtime_checkable
class NeedOrder(Protocol):
    """Ranks the needs of the jobs of one queue, before `JobOrder` ranks the jobs."""

    def need_order_key(self, need: Need, /) -> SortKey | float | str:
        """Rank a need; the smallest key comes first, and the next plugin breaks ties.

        Called whenever the next job of a queue is determined, so it may read all amounts charged
        to queues; of the need, only its job's queue and its request. It takes effect where a
        plugin ranks queues by need (`QueueOrderByNeed`), in all actions that take queues in turn.
        """
        ...


@runtime_checkable
class SurplusWeights(Protocol):
    """Determines the weights by which queues share the surplus that none of them deserves."""

    def surplus_weights(self, siblings: Sequence[QueueState], dimension: int, /) -> Sequence[int]:
        """Return a weight, 0 or more, for each of some sibling queues.

        Plugins that compute shares, such as ``capacity``, call it through
        `SessionView.surplus_weights` for the queues that want more of a dimension than they have
        been given so far. Only the first plugin with this method is called; without one,
        `Queue.weight` is used. A queue with `Queue.weight` 0 must have the weight 0 here too.
        """
        ...


@runtime_checkable
class PastUse(Protocol):
    """Ranks queues by what they used in the past."""

    def past_use_key(self, queue: QueueState, need: Need | None, /) -> float:
        """Rank a queue among its siblings; the smallest key comes first.

        Plugins that also rank queues by other criteria, such as ``capacity``, call it through
        `SessionView.past_use_key`. Only the first plugin with this method is called.
        """
        ...


@runtime_checkable
class Allocatable(Protocol):
    """Limits what queues may allocate, independent of nodes."""

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        """Return None, or why the queue may not allocate the need now.

        Called before a node is searched: for a job that is not ready, with everything that it
        needs, and for each task. `Need.leaving` are tasks that would be evicted for it. More
        leaving tasks must not turn None into a refusal, unless they leave a node that is out of
        service or where tasks hold more than there is. A queue that may allocate tasks together
        must be allowed each of them: they are not asked about again one by one.
        """
        ...


@runtime_checkable
class MostAllocatable(Protocol):
    """Says what queues may have at most, so that no job waits for more than it can ever get."""

    def most_allocatable(self, queue: QueueState, /) -> Sequence[float] | None:
        """Return the most that the queue may ever have, by dimension; None: any amount.

        A task that requests more is not part of its job's need if enough other tasks are left.
        `allocatable` must refuse it, whatever `Need.leaving` has. Only the first plugin that gives
        an answer counts.
        """
        ...


@runtime_checkable
class Claims(Protocol):
    """Determines what queues may reclaim from others; replaces `Reclaimable`."""

    def claim(self, need: Need, terms: ClaimTerms, /) -> Claim | Unfit:
        """Return what may be reclaimed for a need of a job, or why nothing may.

        Called at each turn of a job in reclaim. Only the first plugin with this method is called,
        and the verdicts of other plugins then only protect tasks.
        """
        ...


@runtime_checkable
class QueueReport(Protocol):
    """Reports the shares and the use of queues."""

    def queue_outcomes(
        self, task_order_key: Callable[[TaskState], SortKey], /
    ) -> Mapping[str, QueueOutcome]:
        """Return the outcome of each queue, by name.

        Called once, when the session closes. Only the first plugin with this method is called.
        `task_order_key` ranks tasks; the task with the smallest key is the most valuable.
        """
        ...


@runtime_checkable
class JobsAdmitted(Protocol):
    """Is called when it is known which jobs are in the session."""

    def jobs_admitted(self) -> None:
        """React to the admission of jobs: `JobState.in_session` is final. Called once."""
        ...


@runtime_checkable
class TaskOrder(Protocol):
    """Ranks the tasks of a job; victims are taken in exactly the reverse order."""

    def task_order_key(self, task: TaskState, /) -> SortKey | float | str:
        """Rank a task; the smallest key comes first, and the next plugin breaks ties.

        Called at most once for each task and cycle. May read only what does not change in
        a cycle: the `info` of the task and of its job, and what the plugin computed when it was
        opened.
        """
        ...


@runtime_checkable
class Predicates(Protocol):
    """Determines which nodes can accept which tasks."""

    def predicates(self) -> Iterable[Predicate]:
        """Return conditions; all must hold, and the first that does not is the reason.

        Called once in each cycle, right after `Plugin.open`.
        """
        ...


@runtime_checkable
class NodeOrder(Protocol):
    """Determines which nodes suit a task best."""

    def node_scores(self) -> Iterable[NodeScore]:
        """Return scores, which are added up.

        Called once in each cycle, right after `Plugin.open`.
        """
        ...


@runtime_checkable
class NodeKey(Protocol):
    """Ranks nodes before their scores do, exactly; at most one plugin has it."""

    def node_key(self, task: TaskState, node: NodeState, /) -> tuple[int, ...]:
        """Rank a node for a task that fits there; the smallest key is the best.

        Scores break ties, then node order. Called wherever the best node is chosen; nodes where
        room is made, and those to reserve, are in the order of scores as without it. May read
        anything, and is asked about each node each time; but see `node_key_signature`.
        """
        ...

    # Optional: def node_key_signature(self, task: TaskState, /) -> Hashable
    #
    # Returns everything that `node_key` reads of the task; equal signatures must get equal keys.
    # `node_key` may then read besides only the node and its tasks, and what was computed at open:
    # a node is asked about again only after it has changed.


@runtime_checkable
class Choices(Protocol):
    """Chooses something for a task on its node, such as devices or a slot."""

    def choose(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        gone: Collection[TaskState] = (),
        kept: Hashable | None = None,
    ) -> Hashable | Unfit | None:
        """Return what is chosen for a task if it is placed on a node in a way.

        None: nothing needs to be chosen. An `Unfit`: there is nothing to choose, and so the task
        does not fit on the node in this way. Called where its request fits: wherever it is asked
        whether a task fits, and once more when it is placed. It changes nothing.

        The choice travels with the task, under the name of the plugin: `TaskState.choices`, undone
        with the statement; `Bind.choices` and those of promises; `TaskInfo.choices` in the next
        cycle. A task has it as long as it is on the node or is promised it; a Reserved one has
        none. To be written (`Snapshot.to_dict`), it must be None, a bool, a number, a string, or a
        tuple of these.

        Args:
            task: the task.
            node: the node.
            fit: how it fits there.
            gone: tasks on the node that count as gone.
            kept: what was chosen for it there before; only that may be chosen again.

        """
        ...

    # Optional: def choice_signature(self, task: TaskState, /) -> Hashable | None
    #
    # Returns everything that `choose` reads of the task; equal signatures must get equal answers.
    # `choose` may then read besides only the node, its tasks with their choices, and what was
    # computed at open: a node is asked about again only after it has changed. None: it chooses
    # nothing for this task, and is not called.


@runtime_checkable
class NodeOrderOnResource(Protocol):
    """Determines which nodes have most room for a task, for the action reserve."""

    def node_order_on_resource(self, task: TaskState, node: NodeState, /) -> float:
        """Return a score from the node's idle amount and the task's request; added up."""
        ...


@runtime_checkable
class Preemptable(Protocol):
    """Determines which tasks may be evicted for a task of the same queue."""

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        """Return a verdict on each candidate, in the given order.

        Candidates are in victim order. They run, or this cycle has bound them: then they
        are Binding. Called for each node that the action preempt considers: first with
        each candidate alone, then with all candidates that are not protected. Must not
        change any state.
        """
        ...


@runtime_checkable
class Reclaimable(Protocol):
    """Determines which tasks may be evicted for a task of another queue."""

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        """Return a verdict on each candidate, in the given order; see `Preemptable`."""
        ...


@runtime_checkable
class Revocable(Protocol):
    """Determines which backfill tasks may be evicted for a task that was promised their resources.

    Without such a plugin all may be evicted: that is the purpose of backfill tasks.
    """

    def revocable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        """Return a verdict on each candidate, in the given order; see `Preemptable`."""
        ...


@runtime_checkable
class Hints(Protocol):
    """Gives performance hints, for plugins with verdicts."""

    def hints(self) -> EvictionHints:
        """Return hints, which do not change answers. Called once, right after `Plugin.open`."""
        ...


@runtime_checkable
class Overused(Protocol):
    """Determines which queues have their deserved share."""

    def overused(self, queue: QueueState, /) -> bool:
        """Return whether the queue has its deserved share. Called before each of its turns."""
        ...


@runtime_checkable
class QueueShares(Protocol):
    """Reports what queues deserve, for the reasons why tasks are pending."""

    def queue_share(self, queue: QueueState, /) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return what the queue deserves and what it has, by dimension; None if unknown."""
        ...


@runtime_checkable
class VerdictReasons(Protocol):
    """Explains verdicts, for reports of searches that evicted no task."""

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict, /
    ) -> Sequence[str]:
        """Return, for each candidate, a few words on why the plugin gave this verdict.

        For example ``equal priority``, which is shown with a count. An empty string stands for a
        general reason. Called at the end of a cycle, for candidates that the plugin protected.
        Claims explain themselves; see `Claim.why_not`.
        """
        ...


@runtime_checkable
class RefusedUntil(Protocol):
    """Says when verdicts end that protect for a time only (`Verdict.NOT_NOW`)."""

    def refused_until(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[float | None]:
        """Return, for each candidate, when it is not protected any more, in seconds.

        It is a time of the same clock as `SessionView.now`, exactly: the verdict is another one
        from then on. None: no time is known. Called for candidates with the verdict NOT_NOW.
        """
        ...


@runtime_checkable
class JobValid(Protocol):
    """Determines which jobs can be scheduled at all."""

    def job_valid(self, job: JobState, /) -> JobCondition | None:
        """Return None, or why the job is invalid. Called once per job when the session opens."""
        ...


@runtime_checkable
class JobReady(Protocol):
    """Determines when a job may start."""

    def job_ready(self, job: JobState, /) -> Vote | bool:
        """Vote on whether the job's allocated tasks may be bound. True permits it."""
        ...


@runtime_checkable
class JobPipelined(Protocol):
    """Determines when a job will be able to start with what is promised to it."""

    def job_pipelined(self, job: JobState, /) -> Vote | bool:
        """Vote on whether the promises to the job are enough for it to start."""
        ...


@runtime_checkable
class JobConditionReady(Protocol):
    """Determines when a job could start if backfill tasks left and reservations were used."""

    def job_condition_ready(self, job: JobState, /) -> Vote | bool:
        """Vote on whether the job is ready or conditionally ready."""
        ...


@runtime_checkable
class AllocateEvents(Protocol):
    """Receives allocation events."""

    def on_allocate(self, task: TaskState, /) -> None:
        """Charge `task`, which was placed or whose eviction was undone."""
        ...


@runtime_checkable
class DeallocateEvents(Protocol):
    """Receives deallocation events."""

    def on_deallocate(self, task: TaskState, /) -> None:
        """Discharge `task`, which was evicted or whose placement was undone."""
        ...


@runtime_checkable
class SessionClose(Protocol):
    """Reports unschedulable jobs at close."""

    def close(self) -> Iterable[tuple[JobState, JobCondition]]:
        """Return the jobs that could not be scheduled, and why.

        Called once in each cycle, after all actions, in configured order. The first condition
        of a job is used.
        """
        ...


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
    job_order_shares: Callable[[JobState], Hashable] | None = None
    """Return what a job's key reads beside the job; see `batchsched.plugin.JobOrder`."""
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
    node_key: Callable[[TaskState, NodeState], tuple[int, ...]] | None = None
    """Rank a node before scores do; see `batchsched.plugin.NodeKey`."""
    node_key_signature: Callable[[TaskState], Hashable] | None = None
    """Return all that `node_key` reads of a task; see `batchsched.plugin.NodeKey`."""
    choose: Choose | None = None
    """Choose something for a task on a node; see `batchsched.plugin.Choices`."""
    choice_signature: Callable[[TaskState], Hashable | None] | None = None
    """Return all that `choose` reads of a task; see `batchsched.plugin.Choices`."""
    candidate_nodes: Callable[[Need, NodeSet], Iterable[NodeSet] | Unfit | None] | None = None
    """Offer sets of nodes for what a job needs; see `batchsched.plugin.CandidateNodes`."""
    second_try: Callable[[Need], SecondTry | None] | None = None
    """Say how a need is placed once more; see `batchsched.plugin.SecondTries`."""
    domains: Callable[[], Iterable[NodeSet]] | None = None
    """Return the sets whose room is kept; see `batchsched.plugin.CandidateNodes`."""
    group_order_key: Callable[[Need], _Key] | None = None
    """Rank the needs of groups within a set; see `batchsched.plugin.CandidateNodes`."""
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
    refused_by: Callable[[TaskState, Sequence[TaskState]], Sequence[str]] | None = None
    """Name the rules by which tasks are protected; see `batchsched.plugin.RefusedBy`."""
    claim_refusal: Callable[[JobState], Refused | None] | None = None
    """Say why a job may claim nothing; see `batchsched.plugin.ClaimRefusal`."""
    may_leave_together: Callable[[TaskState, Collection[TaskState], bool], bool] | None = None
    """Judge sets of evictions; see `batchsched.plugin.LeavesTogether`."""
    eviction_price: Callable[[TaskState], Fraction] | None = None
    """Rank victims by cost; see `batchsched.plugin.EvictionPrice`."""
    refused_until: Callable[[TaskState, Sequence[TaskState]], Sequence[float | None]] | None = None
    """Say when verdicts end; see `batchsched.plugin.RefusedUntil`."""
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
    on_turn_begin: Callable[[JobState], None] | None = None
    """Prepare for the turn of a job; see `batchsched.plugin.TurnEvents`."""
    on_turn_end: Callable[[JobState], None] | None = None
    """Note the end of the turn of a job; see `batchsched.plugin.TurnEvents`."""
    may_claim: Callable[[JobState], bool] | None = None
    """Return whether others may be evicted for a job; see `batchsched.plugin.MayClaim`."""
    close: Callable[[], Iterable[tuple[JobState, JobCondition]]] | None = None
    """Report jobs that could not be scheduled; see `batchsched.plugin.SessionClose`."""
    allocatable: Callable[[QueueState, Need], Unfit | None] | None = None
    """Return why a queue may not allocate a need; see `batchsched.plugin.Allocatable`."""
    most_allocatable: Callable[[QueueState], Sequence[float] | None] | None = None
    """Return the most that a queue may have; see `batchsched.plugin.MostAllocatable`."""
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
