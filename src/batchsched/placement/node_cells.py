"""Finds the best node for a task without an index for tasks like it, by branch and bound.

Nodes in similar states share a cell, and plugins bound the scores in a cell from above, see
`batchsched.plugin.ScoreCells`. Cells are examined from the highest bound down, until no other
cell can have a better node. With unlike tasks every task is the first and last of its class, so
that an index of all nodes, sorted by its scores, would never be used again.

Best-first branch and bound: Lawler and Wood, "Branch-and-Bound Methods: A Survey" (1966).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import inf, isfinite
from operator import add

from batchsched.errors import plugin_error
from batchsched.model.validation.values import shown
from batchsched.placement.accepted_nodes import Accepts
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.node_states import NodeStates
from batchsched.plugin.hints import ScoreCells
from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["NodeCells", "checked_bounds", "checked_cell"]

FEW = 8
"""So many states are scored first; then twice as many, and so on."""


class _Cell:
    """Nodes in similar states."""

    __slots__ = ("_losses", "_size", "first", "most_idle", "numbers", "place", "states")

    def __init__(self, numbers: tuple[int, ...], place: int, idle: Vector) -> None:
        self.numbers = numbers
        """The number of the cell in its group, for each score."""
        self.place = place
        """Its position in the list of the group's cells."""
        self.states: dict[int, list[int]] = {}
        """For each number of a state, the slots of the nodes in it, in order; none is empty."""
        self.first: float = inf
        """The first slot."""
        self.most_idle = idle
        """No node has more idle, in any dimension."""
        self._size = 0
        self._losses = 0

    def put(self, slot: int, state: int, idle: Vector) -> None:
        """Add a node. O(dimensions + nodes in this state)."""
        same = self.states.get(state)
        if same is None:
            self.states[state] = [slot]
        else:
            insort(same, slot)
        self._size += 1
        self.first = min(self.first, slot)
        self.most_idle = tuple(map(max, self.most_idle, idle))

    def discard(self, slot: int, state: int, nodes: Sequence[NodeState]) -> None:
        """Remove a node. O(states + nodes in this state), amortised."""
        same = self.states[state]
        if len(same) > 1:
            del same[bisect_left(same, slot)]
        else:
            del self.states[state]
        self._size -= 1
        if slot == self.first:
            self.first = min([slots[0] for slots in self.states.values()], default=inf)
        self._lose(nodes)

    def idle_changed(self, idle: Vector, nodes: Sequence[NodeState]) -> None:
        """Process that a node of the cell has another idle amount. O(dimensions), amortised."""
        self.most_idle = tuple(map(max, self.most_idle, idle))
        self._lose(nodes)

    def _lose(self, nodes: Sequence[NodeState]) -> None:
        """Compute `most_idle` anew once it may be too much for as many reasons as nodes."""
        self._losses += 1
        if self._losses >= self._size > 0:
            idle = [nodes[slot].idle for slots in self.states.values() for slot in slots]
            self.most_idle = tuple(map(max, *idle)) if len(idle) > 1 else idle[0]
            self._losses = 0


class _Group:
    """The cells with the same group for each score; none is empty."""

    __slots__ = ("by_number", "cells", "names", "numbers")

    def __init__(self, names: tuple[Hashable, ...]) -> None:
        self.names = names
        """The group, for each score."""
        self.cells: list[_Cell] = []
        self.numbers: list[list[int]] = [[] for _ in names]
        """For each score, the numbers of all cells."""
        self.by_number: dict[tuple[int, ...], _Cell] = {}

    def cell(self, numbers: tuple[int, ...], idle: Vector) -> _Cell:
        """Return a cell; if there is none yet, an empty one for a node with this idle amount."""
        cell = self.by_number.get(numbers)
        if cell is None:
            cell = self.by_number[numbers] = _Cell(numbers, len(self.cells), idle)
            self.cells.append(cell)
            for of_score, number in zip(self.numbers, numbers, strict=True):
                of_score.append(number)
        return cell

    def remove(self, cell: _Cell) -> None:
        """Remove a cell; the last one takes its place. O(scores)."""
        del self.by_number[cell.numbers]
        last = self.cells.pop()
        ends = [of_score.pop() for of_score in self.numbers]
        if last is not cell:
            self.cells[cell.place] = last
            for of_score, number in zip(self.numbers, ends, strict=True):
                of_score[cell.place] = number
            last.place = cell.place


class NodeCells:
    """All nodes that certain predicates accept by description, in cells, kept as nodes change."""

    __slots__ = (
        *("_accepts", "_cursor", "_edition", "_groups", "_hints", "_nodes", "_states"),
        "_where",
    )

    def __init__(
        self,
        hints: Sequence[tuple[str, ScoreCells]],
        accepts: Accepts | None,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
        states: NodeStates,
    ) -> None:
        """Put all accepted nodes into cells. O(nodes).

        Args:
            hints: the cells of each score, with its plugin.
            accepts: which nodes are accepted by description; None: all.
            nodes: the nodes by slot.
            changes: the log of changed nodes.
            states: the numbers of their states.

        """
        self._hints = tuple(hints)
        self._accepts = accepts
        self._nodes = nodes
        self._states = states
        self._cursor = NodeCursor(changes)
        self._groups: dict[tuple[Hashable, ...], _Group] = {}
        self._where: dict[int, tuple[_Group, _Cell, int]] = {}
        """Where each node is, by slot: group, cell, state."""
        states.refresh()
        self._edition: int = states.edition
        self._begin()

    @property
    def nodes_per_group(self) -> float:
        """The average number of nodes in a group."""
        return len(self._where) / max(len(self._groups), 1)

    def best(self, task: TaskState, kind: EquivalenceClass) -> int | None:
        """Return the slot of the best feasible node where the task fits now; None: nowhere.

        O(cells + nodes examined + changes since the last time).

        Args:
            task: the task.
            kind: its class, which `is_scored_by_state`.

        """
        self._refresh()
        levels: defaultdict[float, list[_Cell]] = defaultdict(list)
        for bounds, group in self._bounds(task, kind):
            for bound, cell in zip(bounds, group.cells, strict=True):
                levels[bound].append(cell)
        search = _Search(kind, self._nodes)
        for bound in sorted(levels, reverse=True):
            if bound < search.score:
                break
            search.examine(levels[bound], bound)
        return None if search.score == -inf else search.slot

    def _bounds(
        self, task: TaskState, kind: EquivalenceClass
    ) -> Iterable[tuple[Sequence[float], _Group]]:
        """Yield, for each group, a bound of the sum of scores in each of its cells."""
        limits: list[tuple[str, int, _Limit]] = []
        for (name, hint), (_, score) in zip(self._hints, kind.plain_scores, strict=True):
            try:
                limits.append((name, score.weight, hint.highest(task)))
            except Exception as error:
                raise plugin_error(name, "node_scores", error) from error
        for group in self._groups.values():
            totals: Sequence[float] | None = None
            for position, (name, weight, limit) in enumerate(limits):
                numbers = group.numbers[position]
                try:
                    bounds = checked_bounds(limit(group.names[position], numbers), numbers)
                except Exception as error:
                    raise plugin_error(name, "node_scores", error) from error
                # The same operations as with scores: rounding keeps the order of two numbers.
                if weight != 1:
                    bounds = [weight * bound for bound in bounds]
                totals = bounds if totals is None else list(map(add, totals, bounds))
            yield ([0] * len(group.cells) if totals is None else totals), group

    def _refresh(self) -> None:
        changed = self._cursor.unread()
        if not changed:
            return
        self._states.refresh()
        if self._states.edition != self._edition:
            self._edition = self._states.edition
            self._begin()
            return
        nodes, accepts = self._nodes, self._accepts
        for slot in set(changed):
            if accepts is None or accepts[slot]:
                self._put(nodes[slot])

    def _begin(self) -> None:
        self._groups.clear()
        self._where.clear()
        accepts = self._accepts
        for node in self._nodes:
            if accepts is None or accepts[node.slot]:
                self._put(node)

    def _put(self, node: NodeState) -> None:
        slot = node.slot
        state = self._states.of[slot]
        known = self._where.get(slot)
        if known is not None:
            group, cell, before = known
            if before == state:
                cell.idle_changed(node.idle, self._nodes)
                return
            cell.discard(slot, before, self._nodes)
            if not cell.states:
                group.remove(cell)
                if not group.cells:
                    del self._groups[group.names]
        names: list[Hashable] = []
        numbers: list[int] = []
        plugin = ""
        try:
            for plugin, hint in self._hints:
                name, number = checked_cell(hint.of_node(node))
                names.append(name)
                numbers.append(number)
            key = tuple(names)
            found = self._groups.get(key)
        except Exception as error:
            raise plugin_error(plugin, "node_scores", error) from error
        if found is None:
            found = self._groups[key] = _Group(key)
        cell = found.cell(tuple(numbers), node.idle)
        cell.put(slot, state, node.idle)
        self._where[slot] = found, cell, state


_Limit = Callable[[Hashable, Sequence[int]], Sequence[float]]


class _Search:
    """The best node of the cells that were examined."""

    __slots__ = ("_kind", "_nodes", "score", "slot")

    def __init__(self, kind: EquivalenceClass, nodes: Sequence[NodeState]) -> None:
        self._kind = kind
        self._nodes = nodes
        self.score: float = -inf
        """The score of the best node; less than any other: there is none yet."""
        self.slot = len(nodes)
        """The slot of the best node."""

    def examine(self, cells: Iterable[_Cell], bound: float) -> None:
        """Examine the nodes of all cells with one bound. O(nodes there).

        Once a node has the score that is the bound, only nodes before it can be better. So they are
        scored in order, few at first and then more and more at once, which costs less for each.
        """
        fits = self._kind.fits_idle
        if bound > self.score:
            alike = [
                slots for cell in cells if fits(cell.most_idle) for slots in cell.states.values()
            ]
        else:
            first = self.slot
            alike = [
                slots
                for cell in cells
                if cell.first < first and fits(cell.most_idle)
                for slots in cell.states.values()
                if slots[0] < first
            ]
        alike.sort()  # by the first slot: none is in two states
        begin, count = 0, FEW
        while begin < len(alike) and not (bound == self.score and alike[begin][0] > self.slot):
            self._score(alike[begin : begin + count])
            begin += count
            count *= 2

    def _score(self, alike: Sequence[Sequence[int]]) -> None:
        """Score nodes, given by slots; those in the same state together."""
        kind, nodes = self._kind, self._nodes
        takes = kind.takes_now
        best, best_slot = self.score, self.slot
        scores = kind.score([nodes[slots[0]] for slots in alike])
        for slots, score in zip(alike, scores, strict=True):
            if score < best or (score == best and slots[0] > best_slot):
                continue
            for slot in slots:
                if score == best and slot > best_slot:
                    break
                if takes(nodes[slot]):
                    best, best_slot = score, slot
                    break
        self.score, self.slot = best, best_slot


def checked_cell(cell: object) -> tuple[Hashable, int]:
    """Return the answer of `ScoreCells.of_node` if it is one; raise `TypeError` otherwise."""
    match cell:
        case (Hashable() as group, int(number)):
            return group, number
        case _:
            raise TypeError(f"expected a hashable group and an integer, got {shown(cell)}")


def checked_bounds(bounds: Sequence[float], numbers: Sequence[int]) -> Sequence[float]:
    """Return bounds if there is one finite number for each cell; raise an error otherwise.

    O(cells).
    """
    try:
        is_sound = len(bounds) == len(numbers) and isfinite(sum(bounds, 0.0))
    except TypeError:
        is_sound = False
    if not is_sound:
        raise ValueError(
            f"expected a finite number for each of {len(numbers)} cells, got {shown(bounds)}"
        )
    return bounds
