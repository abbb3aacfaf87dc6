"""Predicates and scores of nodes, what they read, and hints with which they are called less often.

Performance hints do not change answers, and all are optional: without them the plugin is called
instead. `check_plugin` and `check_plain` of `batchsched.testing` find wrong hints. Vectorised
functions evaluate many nodes at once, and read NumPy arrays; the protocols here describe the
operations that they need, so that plugins need not import NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, Self

from attrs import field, frozen

from batchsched.model.reasons import Unfit
from batchsched.state.memory import Watch
from batchsched.state.records import Fit, NodeState, TaskState

LARGEST_WEIGHT_IN_ARRAYS = 1 << 32
"""Scores with weights of this absolute value or more are not computed with arrays.

Products in integer arrays would silently overflow.
"""


class Numbers(Protocol):
    """An array with a number or boolean for each node, in one or several rows.

    Operators work element by element.
    """

    def __add__(self, other: Self | float, /) -> Self: ...
    def __radd__(self, other: float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __rsub__(self, other: float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __rmul__(self, other: float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __floordiv__(self, other: Self | float, /) -> Self: ...
    def __abs__(self) -> Self: ...
    def __lt__(self, other: Self | float, /) -> Self: ...
    def __le__(self, other: Self | float, /) -> Self: ...
    def __gt__(self, other: Self | float, /) -> Self: ...
    def __ge__(self, other: Self | float, /) -> Self: ...
    def __and__(self, other: Self, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...
    def __invert__(self) -> Self: ...
    def __getitem__(self, rows: int | slice, /) -> Self: ...
    def all(self) -> bool:
        """Return whether all are true."""
        ...

    def astype(self, kind: type[int], /) -> Self:
        """Return the numbers without their fractions, like `int`."""
        ...


class NodeArrays(Protocol):
    """Some or all nodes as arrays, with everything that `Reads.ACCOUNTS` allows to read.

    Amounts are in the units of `NodeState`, with a row for each dimension.
    """

    @property
    def idle(self) -> Numbers:
        """The idle amounts: a row for each dimension."""
        ...

    @property
    def allocatable(self) -> Numbers:
        """The allocatable amounts: a row for each dimension."""
        ...

    @property
    def allocatable_or_one(self) -> Numbers:
        """The allocatable amounts with 1 in place of 0, as divisors."""
        ...

    @property
    def scoring(self) -> Numbers:
        """The sums of the tasks' scoring requests: a row for cpu and one for memory."""
        ...

    @property
    def tasks(self) -> Numbers:
        """The number of tasks on each node, without Reserved tasks."""
        ...

    @property
    def max_tasks(self) -> Numbers:
        """The most tasks on each node; infinity without a limit."""
        ...

    def column(self, *numbers: float) -> Numbers:
        """Return numbers as a column, to combine row by row with arrays of as many rows."""
        ...


@frozen(kw_only=True, eq=False)
class NodeKeys:
    """Keys by which the nodes that a predicate may accept are found, without asking about all.

    For instance, a node's keys are its labels, and a task's the label that it selects.
    """

    of_node: Callable[[NodeState], Iterable[Hashable]]
    """Return the keys of a node, each once; they follow from its description."""
    of_task: Callable[[TaskState], Sequence[Collection[Hashable]]]
    """Return sets of keys: every node that `check` accepts has a key of each set.

    An empty set: no node is accepted. No sets at all: ask about every node. Of the task it may
    read only what is in the signature.
    """
    otherwise: Unfit
    """Why nodes without a key of each set are rejected: what `check` says of them."""


@frozen(kw_only=True)
class PredicateHints:
    """Performance hints of a `batchsched.plugin.Predicate`."""

    specialise: Callable[[TaskState], Callable[[NodeState], Unfit | None] | None] | None = None
    """Return a check of nodes for one task, or None if it accepts every node.

    It must give the answers of `check` throughout the session.
    """
    watch: Callable[[TaskState], Sequence[Watch]] | None = None
    """With `Reads.CLUSTER`: return watches that report changes of the answers on nodes."""
    node_keys: NodeKeys | None = None
    """With `Reads.DESCRIPTION`: keys of the nodes that may be accepted; see `NodeKeys`."""
    vectorise: Callable[[TaskState], Callable[[NodeArrays], Numbers]] | None = None
    """Return a check of many nodes at once for one task, true for accepted nodes.

    It must give the answers of `check`. Only with `Reads.ACCOUNTS`; used where NumPy is
    installed.
    """


@frozen(kw_only=True)
class ScoreHints:
    """Performance hints of a `batchsched.plugin.NodeScore`."""

    specialise: (
        Callable[[TaskState], Callable[[Sequence[NodeState]], list[float]] | None] | None
    ) = None
    """Return a function that scores many nodes at once for one task.

    It must give the answers of `score`, in order, throughout the session. It may return None for a
    task whose normalised score is 0 on every node throughout the session.
    """
    watch: Callable[[TaskState], Sequence[Watch]] | None = None
    """With `Reads.CLUSTER`: return watches that report changes of the scores of nodes."""
    vectorise: Callable[[TaskState], Callable[[NodeArrays], Numbers]] | None = None
    """Return a function that scores many nodes at once for one task, from arrays.

    It must give the answers of `score`. Only with `Reads.ACCOUNTS` and without `normalise`;
    used where NumPy is installed.
    """


@frozen(kw_only=True, eq=False)
class EvictionHints:
    """Performance hints of a plugin with `Preemptable`, `Reclaimable` or `Revocable`."""

    claimant_key: Callable[[TaskState], Hashable] | None = None
    """Return everything that `preemptable` and `reclaimable` read of a claimant.

    Claimants with equal keys must get equal verdicts on equal candidates. A plugin that gives
    this hint also guarantees that of the cluster `preemptable` reads only the candidates and the
    amounts charged to their jobs, and `reclaimable` also those charged to their queues. Failed
    searches are then not repeated; if any plugin with verdicts does not give this hint, every
    search starts from the beginning. A key of None means that verdicts do not depend on the
    claimant.
    """
    shielded: Callable[[TaskState, Sequence[TaskState]], Sequence[bool]] | None = None
    """Return, for each candidate, True if it is known to be protected.

    A shielded candidate must be protected alone and together with any others. It must remain
    shielded until more is charged to its job, as long as the `claimant_key` stays the same; what
    else the answer depends on, such as the account of its queue, has to be part of that key. So has
    what it reads of the claimant. Without a `claimant_key` it is not called.
    """


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
