"""What plugins say of tasks on nodes: predicates and scores, and what each of them reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum

from attrs import field, frozen

from batchsched.model.reasons import Unfit
from batchsched.plugin.hints import PredicateHints, ScoreHints
from batchsched.state.records import NodeState, TaskState

__all__ = ["NodeScore", "Predicate", "Reads", "per_task"]

_NO_PREDICATE_HINTS = PredicateHints()
_NO_SCORE_HINTS = ScoreHints()


class Reads(Enum):
    """What a predicate or score reads of the cluster, besides the task.

    A wrong declaration makes decisions wrong: the placement engine looks again at a
    node only when something changed that the function is declared to read.
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
    """Tell every task from every other: right for any function, and slow for many tasks."""
    return task.uid


@frozen(kw_only=True)
class Predicate:
    """A condition that a node must meet to take a task."""

    check: Callable[[TaskState, NodeState], Unfit | None]
    """Return None to accept, or why not."""
    reads: Reads = Reads.CLUSTER
    """What `check` reads of the cluster."""
    signature: Callable[[TaskState], Hashable] = per_task
    """What `check` reads of the task: tasks with equal keys must get equal answers."""
    curable: bool | Callable[[Unfit], bool] = False
    """Whether a node that is refused, or is for this reason, may be accepted after evictions there.

    Where preempt or reclaim has the argument `curable`, nodes that are only refused so are
    searched too. A task that a node is promised to (`TaskStatus.PIPELINED`) should count for
    `check` like one that runs there: else others may come that keep it from starting.
    """
    hints: PredicateHints = _NO_PREDICATE_HINTS
    """For speed: see `PredicateHints`."""


@frozen(kw_only=True)
class NodeScore:
    """A score that says how well a node suits a task; the scores of all plugins are added up."""

    score: Callable[[TaskState, NodeState], float]
    """Return the score, or the raw score if there is a `normalise`."""
    normalise: Callable[[float, float, float], float] | None = None
    """From a raw score and the lowest and the highest of the nodes compared, make the score."""
    weight: int = 1
    """The score is multiplied by it."""
    reads: Reads = Reads.CLUSTER
    """What `score` reads of the cluster."""
    signature: Callable[[TaskState], Hashable] = per_task
    """What `score` reads of the task: tasks with equal keys must get equal scores."""
    hints: ScoreHints = _NO_SCORE_HINTS
    """For speed: see `ScoreHints`."""
    name: str = field(default="")
    """For reports."""
