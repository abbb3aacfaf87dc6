"""Hints for speed: what a plugin may say besides, so that it is asked less often.

No hint changes an answer, and none has to be given: what is not said is found out by asking.
`batchsched.testing.check_plugin` finds hints that are not true.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from attrs import frozen

from batchsched.model.reasons import Unfit
from batchsched.plugin.node_arrays import NodeArrays, Numbers
from batchsched.plugin.verdicts import Verdict
from batchsched.state.records import NodeState, QueueState, TaskState
from batchsched.state.watch import Watch

__all__ = ["EvictionHints", "PredicateHints", "ScoreHints"]

_Verdicts = Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]
_OfEach = Callable[[TaskState, Sequence[TaskState]], Sequence[bool]]


@frozen(kw_only=True)
class PredicateHints:
    """Hints for speed of a `batchsched.plugin.Predicate`."""

    specialise: Callable[[TaskState], Callable[[NodeState], Unfit | None] | None] | None = None
    """Return a check of nodes for this one task, or None if it accepts every node.

    It must give the answers of `check`, as long as the session lasts.
    """
    watch: Callable[[TaskState], Sequence[Watch]] | None = None
    """With `Reads.CLUSTER`: return what tells of changes to the answers on nodes."""
    vectorise: Callable[[TaskState], Callable[[NodeArrays], Numbers]] | None = None
    """Return a check of many nodes at once for this one task, true where they pass.

    It must give the answers of `check`. Only with `Reads.ACCOUNTS`; used by the engine
    that comes with the extra ``fast``.
    """


@frozen(kw_only=True)
class ScoreHints:
    """Hints for speed of a `batchsched.plugin.NodeScore`."""

    specialise: (
        Callable[[TaskState], Callable[[Sequence[NodeState]], list[float]] | None] | None
    ) = None
    """Return a function that scores many nodes for this one task at once.

    It must give the answers of `score`, in order, as long as the session lasts. It may return
    None for a task whose score, once normalised, is 0 on every node as long as the session lasts.
    """
    watch: Callable[[TaskState], Sequence[Watch]] | None = None
    """With `Reads.CLUSTER`: return what tells of changes to the scores of nodes."""
    state: Callable[[NodeState], Hashable] | None = None
    """Return what `score` reads of a node: a task scores nodes with equal states equally.

    It may read of the node what `reads` says. Tasks are then scored once for each state, not for
    each node. Not with `Reads.CLUSTER`, and of no use with `normalise`.
    """
    vectorise: Callable[[TaskState], Callable[[NodeArrays], Numbers]] | None = None
    """Return a function that scores many nodes at once for this one task, from arrays.

    It must give the answers of `score`. Only with `Reads.ACCOUNTS` and without `normalise`;
    used by the engine that comes with the extra ``fast``.
    """


@frozen(kw_only=True, eq=False)
class EvictionHints:
    """Hints for speed of a plugin with verdicts: of `Preemptable`, `Reclaimable` or `Revocable`."""

    claimant_key: Callable[[TaskState], Hashable] | None = None
    """Return what `preemptable` and `reclaimable` read of a claimant.

    Claimants with equal keys must get equal verdicts on equal candidates. A plugin that gives
    this hint promises, besides, that `preemptable` reads of the cluster only the candidates and
    the accounts of their jobs, and `reclaimable` also the accounts of their queues. Searches in
    vain are then not made again; where any plugin with verdicts lacks this hint, every search
    starts from the beginning. A key of None says that it does not matter who claims.
    """
    shielded: _OfEach | None = None
    """Return, for each candidate, whether it would be protected if it stood alone.

    Who is shielded must be protected in any company, and remain so while the accounts of its job
    and queue become smaller; of the claimant it may depend on the `claimant_key` only, without
    which it is not asked.
    """
    only_with_job: _OfEach | None = None
    """Return, for each candidate, whether it may go with its whole job at most.

    Of such a candidate no verdict may be `Verdict.VICTIM`, in whatever company, and that must
    remain so while the accounts of its job and queue become smaller; of the claimant it may
    depend on the `claimant_key` only, without which it is not asked.
    """
    may_give: Callable[[QueueState], bool] | None = None
    """Return False if `reclaimable` would protect every task of the queue now."""
    preemptable_alone: _Verdicts | None = None
    """Return what `preemptable` says of each candidate when it is the only one.

    Without it, `preemptable` is called once a candidate.
    """
    reclaimable_alone: _Verdicts | None = None
    """Return what `reclaimable` says of each candidate when it is the only one."""
    revocable_alone: _Verdicts | None = None
    """Return what `revocable` says of each candidate when it is the only one."""
