"""Predicates and scores of nodes, and declarations of what they read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from enum import Enum
from typing import NamedTuple, Protocol

from attrs import field, frozen

from batchsched.model.reasons import Unfit
from batchsched.plugin.hints import PredicateHints, ScoreHints
from batchsched.state.records import Fit, NodeState, TaskState

_NO_PREDICATE_HINTS = PredicateHints()
_NO_SCORE_HINTS = ScoreHints()


class Reads(Enum):
    """What a predicate or score reads of the cluster, in addition to the task.

    A wrong declaration leads to wrong decisions: the placement engine evaluates a node
    again only when something has changed that the function is declared to read.
    `batchsched.testing` has a helper that finds wrong declarations.
    """

    DESCRIPTION = 1
    """Only the node's unchanging description (`NodeState.info` and `allocatable`)."""
    ACCOUNTS = 2
    """Also the node's accounts: amounts, the number of tasks, the scoring sums."""
    NODE = 3
    """Also the tasks on the node."""
    CLUSTER = 4
    """Also the state of other nodes, or anything else."""


def per_task(task: TaskState, /) -> Hashable:
    """Return a signature that is unique for each task: always correct, but slow for many tasks."""
    return task.uid


@frozen(kw_only=True)
class Predicate:
    """A condition that a node must meet to accept a task."""

    check: Callable[[TaskState, NodeState], Unfit | None]
    """Return None to accept the node, or why not."""
    reads: Reads | Callable[[TaskState], Reads] = Reads.CLUSTER
    """What `check` reads of the cluster, for all tasks or for a task.

    Of the task, a function may read only what is in the signature.
    """
    signature: Callable[[TaskState], Hashable] = per_task
    """Return everything that `check` reads of the task; equal signatures must get equal answers."""
    curable: bool | Callable[[Unfit], bool] = False
    """Whether a rejected node, or one rejected for this reason, may be accepted after evictions.

    With the argument `curable` of preempt or reclaim, nodes that are rejected only for such
    reasons are searched too. `check` should count a task that is promised to a node
    (`TaskStatus.PIPELINED`) like a running one: otherwise other tasks may be placed that keep it
    from starting.

    True also says that it counts them so, and that no node is ever rejected because other tasks
    have left. With False or a function, and if it reads more than descriptions, preempt and reclaim
    ask it about nodes as they will be, once all that leaves has left and all that is promised has
    come.
    """
    hints: PredicateHints = _NO_PREDICATE_HINTS
    """Performance hints; see `PredicateHints`."""

    def reads_for(self, task: TaskState, /) -> Reads:
        """Return what `check` reads of the cluster for a task."""
        return self.reads if isinstance(self.reads, Reads) else self.reads(task)


class Choose(Protocol):
    """The function `batchsched.plugin.Choices.choose`."""

    def __call__(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        gone: Collection[TaskState] = (),
        kept: Hashable | None = None,
    ) -> Hashable | Unfit | None:
        """Return what is chosen; see `Choices`."""
        ...


class Chooser(NamedTuple):
    """What a plugin chooses for tasks on nodes; see `batchsched.plugin.Choices`."""

    name: str
    """The name of the plugin."""
    choose: Choose
    signature: Callable[[TaskState], Hashable] | None
    """All that it reads of the task; None: it may read anything."""


@frozen(kw_only=True)
class NodeScore:
    """A score for how well a node suits a task; the scores of all plugins are added up."""

    score: Callable[[TaskState, NodeState], float]
    """Return the score, or the raw score if `normalise` is given."""
    normalise: Callable[[float, float, float], float] | None = None
    """Return the score, given the raw score and the lowest and highest of the compared nodes."""
    weight: int = 1
    """The factor by which the score is multiplied."""
    reads: Reads = Reads.CLUSTER
    """What `score` reads of the cluster."""
    signature: Callable[[TaskState], Hashable] = per_task
    """Return everything that `score` reads of the task; equal signatures must get equal scores."""
    hints: ScoreHints = _NO_SCORE_HINTS
    """Performance hints; see `ScoreHints`."""
    name: str = field(default="")
    """The name in reports."""
