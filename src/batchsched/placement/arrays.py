"""The table of nodes as NumPy's arrays, and rankings on it.

An operation on an array costs little more for a thousand nodes than for one. So a ranking is one
array with the score of every node for a kind, and many changed nodes are scored at once. Kinds with
scores that are normalised, with watches, or with a function of a plugin that has no `vectorise`
have ordinary rankings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

import numpy as np
from numpy.typing import NDArray

from batchsched.errors import plugin_error
from batchsched.placement.kinds import LARGEST_EXACT, Kind
from batchsched.placement.ranking import Table
from batchsched.plugin.node_functions import LARGEST_WEIGHT_IN_ARRAYS, NodeArrays, Numbers
from batchsched.state.ledger import Ledger
from batchsched.state.memory import RecentlyUsed
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import LARGEST_IN_ARRAYS

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
_MOST_SETS = 1024
"""The order of the nodes of at most this many sets is kept, the most recently used."""
ArrayFunction = Callable[[NodeArrays], Numbers]

FEW = 16
"""Up to this many changes are evaluated one by one; more, through arrays."""

_NOWHERE = -np.inf


class NodeView:
    """Some or all nodes; see `batchsched.plugin.node_functions.NodeArrays`."""

    __slots__ = (
        *("allocatable", "allocatable_or_one", "amounts", "count", "idle", "max_tasks"),
        *("scoring", "tasks"),
    )

    def __init__(self, amounts: Floats, dimensions: int) -> None:
        self.amounts = amounts
        """All rows; see `ArrayTable._column`."""
        self.count: int = amounts.shape[1]
        """The number of nodes."""
        n = dimensions
        self.idle: Floats = amounts[:n]
        self.scoring: Floats = amounts[n : n + 2]
        self.tasks: Floats = amounts[n + 2]
        self.max_tasks: Floats = amounts[n + 3]
        self.allocatable: Floats = amounts[n + 4 : 2 * n + 4]
        self.allocatable_or_one: Floats = amounts[2 * n + 4 :]

    def column(self, *numbers: float) -> Floats:
        """Return numbers as a column, to combine with as many rows."""
        return np.array(numbers, np.float64)[:, np.newaxis]


class ArrayTable(Table):
    """The nodes, with a row of one matrix for each amount, and a column for each node."""

    def __init__(self, ledger: Ledger) -> None:
        self._dimensions = len(ledger.dimensions.names)
        self._sums_are_small = True
        self._unwritten: set[int] = set()
        """The slots of nodes that changed since they were written to the matrix."""
        self._in_order = RecentlyUsed[AbstractSet[int], Indices](most=_MOST_SETS)
        """The slots of sets of nodes in order."""
        self._last: tuple[AbstractSet[int], Indices] = frozenset(), np.array([], np.intp)
        """The last of them; tasks of one job are placed among the same nodes."""
        super().__init__(ledger)

    @property
    def is_exact(self) -> bool:
        """Whether floats represent all amounts exactly."""
        return self._sums_are_small and self.dimensions.are_small

    def load(self) -> None:
        """Read all nodes. O(nodes)."""
        columns = [self._column(node) for node in self.nodes]
        self._matrix: Floats = np.array(columns, np.float64).T.copy()

    def write(self, slots: Collection[int]) -> None:
        """Note changed nodes. Most change several times before the matrix is used again."""
        self._unwritten.update(slots)

    def amounts(self) -> Floats:
        """Return the matrix, as of the last `refresh`."""
        if self._unwritten and self.is_exact:  # otherwise it is not used any more
            for slot in self._unwritten:
                self._matrix[:, slot] = self._column(self.nodes[slot])
            self._unwritten.clear()
        return self._matrix

    def _column(self, node: NodeState) -> Sequence[float]:
        """Return what the rows have of a node; see `NodeView`."""
        milli_cpu, memory = node.scoring_milli_cpu, node.scoring_memory
        if milli_cpu >= LARGEST_IN_ARRAYS or memory >= LARGEST_IN_ARRAYS:
            self._sums_are_small = False
        limit = node.info.max_tasks
        return (
            *node.idle,
            *(milli_cpu, memory, len(node.tasks), np.inf if limit is None else limit),
            *node.allocatable,
            *(amount or 1 for amount in node.allocatable),
        )

    def with_idle(self, kind: Kind, slots: Iterable[int] | None) -> list[int]:
        """Return those of some slots (None: all) whose nodes have enough idle for a kind."""
        nodes, fits_idle = self.nodes, kind.fits_idle
        among = range(len(nodes)) if slots is None else slots
        return [slot for slot in among if fits_idle(nodes[slot].idle)]

    def ranking(self, kind: Kind, task: TaskState, /) -> ArrayRanking | None:
        """Return a ranking for the kind of a task; None: not all can be done with arrays."""
        if (
            kind.normalised
            or kind.watches
            or kind.only_slots is not None
            or max(task.scoring_milli_cpu, task.scoring_memory) >= LARGEST_IN_ARRAYS
        ):
            return None
        checks: list[tuple[str, ArrayFunction]] = []
        for name, predicate in kind.live_predicates:
            if predicate.hints.vectorise is None:
                return None
            try:
                checks.append((name, predicate.hints.vectorise(task)))
            except Exception as error:
                raise plugin_error(name, "predicates", error) from error
        scores: list[tuple[str, int, ArrayFunction]] = []
        for name, score, _ in kind.scores:
            if score.hints.vectorise is None or abs(score.weight) >= LARGEST_WEIGHT_IN_ARRAYS:
                return None
            try:
                scores.append((name, score.weight, score.hints.vectorise(task)))
            except Exception as error:
                raise plugin_error(name, "node_scores", error) from error
        return ArrayRanking(kind, self, checks, scores)

    def in_order(self, among: Collection[int], /) -> Indices:
        """Return some slots in order. O(1) for a set that was asked for before."""
        if among is self._last[0]:
            return self._last[1]
        key = among if isinstance(among, frozenset) else frozenset(among)
        known = self._in_order.use(key)
        if known is None:
            known = np.array(sorted(key), np.intp)
            self._in_order.keep(key, known)
        self._last = key, known
        return known

    def all(self) -> NodeView:
        """Return all nodes, as of the last `refresh`."""
        return NodeView(self.amounts(), self._dimensions)

    def some(self, slots: Indices) -> NodeView:
        """Return these nodes, as of the last `refresh`."""
        return NodeView(self.amounts().take(slots, 1), self._dimensions)


class ArrayRanking:
    """The score of every node for one kind, in one array; finds the best node."""

    __slots__ = (
        *("_accepted", "_accepts", "_best", "_checks", "_is_stale", "_kind"),
        *("_read", "_scores", "_table", "_totals", "_wanted", "is_exact"),
    )

    def __init__(
        self,
        kind: Kind,
        table: ArrayTable,
        checks: Sequence[tuple[str, ArrayFunction]],
        scores: Sequence[tuple[str, int, ArrayFunction]],
    ) -> None:
        """Score all nodes; see `ArrayTable.ranking`."""
        self._kind = kind
        self._table = table
        # Comparing with zero-dimensional arrays is a third faster than with Python numbers.
        self._wanted = [
            (row, np.array(amount, np.float64)) for row, amount in enumerate(kind.request) if amount
        ]
        self.is_exact = True
        self._accepts: object = None
        self._accepted: NDArray[np.bool_] | None = None
        self._checks = checks
        self._scores = scores
        self._read = len(table.log)
        self._totals = self._evaluate_all()
        self._best: int | None = None
        self._is_stale = True

    def best(self) -> int | None:
        """Return the slot of the best node, or None.

        O(changes since the last time), and a fraction of a nanosecond for each node.
        """
        self._refresh()
        if self._is_stale:
            self._is_stale = False
            slot = int(self._totals.argmax())
            total = float(self._totals[slot])
            self._best = None if total == _NOWHERE else slot
            if self._best is not None:
                # Floats may not tell larger scores apart.
                self.is_exact = self._table.is_exact and abs(total) < LARGEST_EXACT
        return self._best

    def best_of(self, among: Collection[int], /) -> int | None:
        """Return the slot of the best of some nodes, or None."""
        self._refresh()
        slots = self._table.in_order(among)
        totals = self._totals.take(slots)
        place = int(totals.argmax())
        total = float(totals[place])
        if total == _NOWHERE:
            return None
        self.is_exact = self._table.is_exact and abs(total) < LARGEST_EXACT
        return int(slots[place])

    def _refresh(self) -> None:
        log = self._table.log
        changed = log[self._read :]
        if not changed:
            return
        self._read = len(log)
        self._is_stale = True
        if len(changed) <= FEW:
            self._evaluate_one_by_one(changed)
        elif 2 * len(changed) > len(self._totals):
            self._totals = self._evaluate_all()
        else:
            table = self._table
            table.refresh()
            slots = np.array(changed, np.intp)
            self._totals[slots] = self._evaluate(table.some(slots), slots)
            if table.diverging or table.reserved:
                self._evaluate_one_by_one((table.diverging | table.reserved).intersection(changed))

    def _evaluate_all(self) -> Floats:
        self._table.refresh()
        self._totals = self._evaluate(self._table.all(), None).astype(np.float64)
        self._evaluate_one_by_one(self._table.diverging | self._table.reserved)
        return self._totals

    def _evaluate_one_by_one(self, slots: Iterable[int]) -> None:
        kind, nodes, totals = self._kind, self._table.nodes, self._totals
        for slot in slots:
            node = nodes[slot]
            totals[slot] = kind.score_one(node) if kind.takes_now(node) else _NOWHERE

    def _evaluate(self, view: NodeView, slots: Indices | None) -> Floats:
        """Return each node's score; minus infinity where the task does not fit or is rejected."""
        suits: NDArray[np.bool_] | None = None
        for row, amount in self._wanted:
            fits = view.amounts[row] >= amount
            suits = fits if suits is None else suits & fits
        accepted = self._accepted_by_description()
        if accepted is not None:
            accepted = accepted if slots is None else accepted[slots]
            suits = accepted if suits is None else suits & accepted
        for name, check in self._checks:
            passes = _evaluated(name, "predicates", check, view).astype(np.bool_)
            suits = passes if suits is None else suits & passes
        totals: Floats | None = None
        for name, weight, score in self._scores:
            values = _evaluated(name, "node_scores", score, view)
            if weight != 1:
                values = weight * values.astype(np.float64)
            totals = values if totals is None else totals + values
        if totals is None:
            totals = np.zeros(view.count)
        return totals if suits is None else np.where(suits, totals, _NOWHERE)

    def _accepted_by_description(self) -> NDArray[np.bool_] | None:
        accepts = self._kind.accepts
        if accepts is not self._accepts:
            self._accepts = accepts
            self._accepted = None
            if accepts is not None:
                assert isinstance(accepts, bytearray)
                self._accepted = np.frombuffer(accepts, np.bool_)
        return self._accepted


def _evaluated(name: str, point: str, function: ArrayFunction, view: NodeView) -> Floats:
    """Return the values of a plugin's function if they are one finite number for each node."""
    wanted = f"an array with one number for each of {view.count} nodes"
    try:
        answer: object = function(cast("NodeArrays", view))
        if not isinstance(answer, np.ndarray):
            raise TypeError(f"expected {wanted}, got {answer!r}")
        values = cast("Floats", answer)
        if values.shape != (view.count,):
            raise TypeError(f"expected {wanted}, got {values!r}")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"expected finite numbers, got {values!r}")
    except Exception as error:
        raise plugin_error(name, point, error) from error
    return values
