"""The table of nodes: their idle amounts in columns, brought up to date from the log of changes.

Columns are plain lists here, and NumPy's arrays in `batchsched.placement.arrays`. Going through a
list of numbers costs a tenth of going through nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from batchsched.placement.kinds import Kind
from batchsched.state.ledger import Ledger
from batchsched.state.memory import Watch
from batchsched.state.records import Fit, NodeState, TaskState

_NONE: frozenset[int] = frozenset()


class ChangedNodes:
    """Which nodes changed for tasks of one kind, since the last time it was asked."""

    __slots__ = ("_log", "_read", "_seen", "_watches")

    def __init__(self, log: Sequence[int], watches: Sequence[Watch]) -> None:
        """Begin at the end of the log of changed nodes, and of what is watched."""
        self._log = log
        self._read = len(log)
        self._watches = watches
        self._seen = tuple(watch.changed_since(0)[0] for watch in watches) if watches else ()

    def unread(self) -> AbstractSet[int] | None:
        """Return the slots of changed nodes, each once; None: any node may have changed.

        O(changes since the last time).
        """
        log, begin = self._log, self._read
        if begin == len(log):
            return _NONE
        self._read = len(log)
        changed: set[int] | None = set(log[begin:])
        if self._watches:
            seen: list[int] = []
            for watch, before in zip(self._watches, self._seen, strict=True):
                now, elsewhere = watch.changed_since(before)
                seen.append(now)
                if elsewhere is None:
                    changed = None
                elif changed is not None:
                    changed.update(elsewhere)
            self._seen = tuple(seen)
        return changed


class RanksNodes(Protocol):
    """Keeps the nodes that suit one kind, and finds the best."""

    @property
    def is_exact(self) -> bool:
        """Whether the answers so far are certain."""
        ...

    def best(self) -> int | None:
        """Return the slot of the best node, or None."""
        ...


class RanksSets(RanksNodes, Protocol):
    """Finds also the best node of a set."""

    def best_of(self, among: Collection[int], /) -> int | None:
        """Return the slot of the best of some nodes, where no scores are normalised, or None.

        O(these).
        """
        ...


class Table:
    """The nodes by slot, with their idle amounts by dimension; call `refresh` before reading."""

    def __init__(self, ledger: Ledger) -> None:
        self.nodes: Sequence[NodeState] = ledger.slots
        self.log: Sequence[int] = ledger.log.nodes
        """The log of changed nodes."""
        self.vacant = ledger.vacant
        """The slots without a node."""
        self.dimensions = ledger.dimensions
        self._changes = ChangedNodes(self.log, ())
        self.diverging: set[int] = set()
        """The slots of the nodes whose derived amounts differ from the idle amount."""
        self.reserved: set[int] = set()
        """The slots of the nodes with reservations."""
        self._columns: list[list[int]] = []
        self._note(range(len(self.nodes)))
        self.load()

    @property
    def is_exact(self) -> bool:
        """Whether the table represents all amounts exactly."""
        return True

    def ranking(self, _kind: Kind, _task: TaskState, /) -> RanksSets | None:
        """Return a ranking of the nodes where tasks of a kind fit now, of which this is one.

        None: an ordinary one is to be made.
        """
        return None

    def load(self) -> None:
        """Read the amounts of all nodes. O(nodes)."""
        self._columns = [
            [node.idle[dimension] for node in self.nodes]
            for dimension in range(len(self.dimensions.names))
        ]

    def refresh(self) -> None:
        """Bring the table up to date. O(changes since the last time)."""
        changed = self._changes.unread()
        if changed:
            self._note(changed)
            self.write(changed)

    def write(self, slots: Collection[int]) -> None:
        """Read the amounts of changed nodes."""
        nodes, columns = self.nodes, self._columns
        for slot in slots:
            for column, amount in zip(columns, nodes[slot].idle, strict=True):
                column[slot] = amount

    def _note(self, slots: Iterable[int]) -> None:
        nodes, diverging, reserved = self.nodes, self.diverging, self.reserved
        for slot in slots:
            node = nodes[slot]
            if node.divergence_count:
                diverging.add(slot)
            elif diverging:
                diverging.discard(slot)
            if node.reserved_tasks:
                reserved.add(slot)
            elif reserved:
                reserved.discard(slot)

    # Which nodes

    def fitting_now(self, kind: Kind, among: Iterable[int] | None = None) -> list[int]:
        """Return the slots of the nodes that are feasible and where a task of a kind fits now.

        They are in order, or in the order of `among` if only these are to be considered.
        """
        return kind.with_choice(self.having_room(kind, among), self.nodes, Fit.NOW)

    def having_room(self, kind: Kind, among: Iterable[int] | None = None) -> list[int]:
        """Return the same as `fitting_now`, whether or not plugins have a choice there."""
        self.refresh()
        nodes, diverging = self.nodes, self.diverging
        found = self.with_idle(kind, _candidates(kind, among))
        if diverging:
            found = [s for s in found if s not in diverging or nodes[s].fits(kind.task)]
        return self.feasible(kind, found)

    def fitting_not_now(
        self,
        fit: Fit,
        kind: Kind,
        among: Iterable[int] | None = None,
    ) -> list[int]:
        """Return the slots of feasible nodes with promises or releases where a task fits.

        Elsewhere it fits now or not at all. O(these nodes).
        """
        self.refresh()
        diverging = self.diverging
        slots = sorted(diverging) if among is None else [s for s in among if s in diverging]
        nodes = self.nodes
        found = self.feasible(kind, [s for s in slots if nodes[s].fits(kind.task, fit)])
        return kind.with_choice(found, nodes, fit)

    def all_feasible(self, kind: Kind, among: Iterable[int] | None = None) -> list[int]:
        """Return the slots of the feasible nodes, in order, or in the order of `among`."""
        self.refresh()
        slots = _candidates(kind, among)
        return self.feasible(kind, range(len(self.nodes)) if slots is None else list(slots))

    def feasible(self, kind: Kind, slots: Sequence[int]) -> list[int]:
        """Return those of some slots whose nodes are feasible for a kind."""
        accepts, nodes, reserved = kind.accepts, self.nodes, self.reserved
        if accepts is not None:
            slots = [slot for slot in slots if accepts[slot]]
        if reserved and not kind.is_best_effort:
            slots = [s for s in slots if s not in reserved or not nodes[s].is_closed]
        return list(kind.passing(slots, nodes))

    def with_idle(self, kind: Kind, slots: Iterable[int] | None) -> list[int]:
        """Return those of some slots (None: all) whose nodes have enough idle for a kind."""
        if slots is None:
            slots = range(len(self.nodes))
        amounts = zip(self._columns, kind.request, strict=True)
        wanted = [(column, amount) for column, amount in amounts if amount]
        # The innermost loop of all, so up to three dimensions at once, the rarest first.
        while len(wanted) > 2:  # noqa: PLR2004
            (a, x), (b, y), (c, z) = wanted.pop(), wanted.pop(), wanted.pop()
            slots = [slot for slot in slots if a[slot] >= x and b[slot] >= y and c[slot] >= z]
        match wanted:
            case [(a, x)]:
                return [slot for slot in slots if a[slot] >= x]
            case [(a, x), (b, y)]:
                return [slot for slot in slots if b[slot] >= y and a[slot] >= x]
            case _:
                return list(slots)


def _candidates(kind: Kind, among: Iterable[int] | None) -> Iterable[int] | None:
    """Return which of some slots (None: all) are to be looked at; None: all."""
    if kind.only_slots is None or kind.accepts is None:
        return among
    accepts = kind.accepts
    return kind.only_slots if among is None else [slot for slot in among if accepts[slot]]
