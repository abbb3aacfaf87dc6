"""The nodes where one class of tasks fits now, ranked by scores that depend on node states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchsched.placement.accepted_nodes import FewSlots
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.placement.idle_columns import IdleColumns
from batchsched.placement.node_states import NodeStates, ScoreByState
from batchsched.placement.room import RoomLimit, room_on
from batchsched.placement.score_index import Group
from batchsched.state.change_log import NodeCursor
from batchsched.state.records import NodeState, TaskState

__all__ = ["Scan", "StateRanking", "scan_nodes"]

FEW = 4
"""Up to this many changes, nodes are examined one by one."""

Scan = tuple[NodeCursor, NodeCursor, Sequence[int], Sequence[float]]
"""Cursors into the logs of changed and of grown nodes, then the slots where a class fits, in
order, and its scores there.
"""


def _fitting_now(
    kind: EquivalenceClass,
    nodes: Sequence[NodeState],
    columns: IdleColumns,
    among: Iterable[int] | None = None,
    *,
    asks_descriptions: bool = True,
) -> list[int]:
    """Return the slots of the nodes that are feasible and where a task fits now.

    They come in order, or in the order of `among`.

    Args:
        kind: the class of the task; it watches nothing.
        nodes: the nodes by slot.
        columns: what is idle there, up to date.
        among: the slots to examine; None: all.
        asks_descriptions: whether to check the descriptions of nodes, too.

    """
    request = kind.request
    found = columns.fitting(request, kind.only_slots if among is None else among)
    diverging = columns.diverging
    if diverging:
        found = [slot for slot in found if slot not in diverging or nodes[slot].fits_now(request)]
    if kind.live_checks or columns.reserved:
        feasible = kind.is_feasible
        return [slot for slot in found if feasible(nodes[slot])]
    accepts = kind.accepts_by_description
    if accepts is not None and asks_descriptions:
        return [slot for slot in found if accepts[slot]]
    return found


def scan_nodes(
    kind: EquivalenceClass,
    nodes: Sequence[NodeState],
    changes: Sequence[int],
    columns: IdleColumns,
    states: NodeStates,
    known: ScoreByState | None = None,
) -> Scan:
    """Examine all nodes that may be accepted. O(nodes); see `StateRanking` for the arguments."""
    columns.refresh()
    states.refresh()
    slots = _fitting_now(kind, nodes, columns)
    scores = states.scores(kind, slots, known)
    return NodeCursor(changes), NodeCursor(columns.grown), slots, scores


class StateRanking(Group):
    """The nodes where one class of tasks fits now, with their scores, kept as nodes change.

    A node where it does not fit is not examined again until something has left it.
    """

    __slots__ = (*("_columns", "_cursor", "_grown", "_kind", "_nodes"),)

    def __init__(
        self,
        kind: EquivalenceClass,
        nodes: Sequence[NodeState],
        changes: Sequence[int],
        columns: IdleColumns,
        states: NodeStates,
        scan: Scan | None = None,
    ) -> None:
        """Rank all nodes. O(nodes).

        Args:
            kind: a class of tasks that `is_scored_by_state`, and watches nothing.
            nodes: the nodes by slot.
            changes: the log of changed nodes.
            columns: the idle amounts of the nodes.
            states: the numbers of their states, for a scan of all nodes.
            scan: the result of `scan_nodes`; None: the nodes are scanned now.

        """
        super().__init__()
        self._kind = kind
        self._nodes = nodes
        self._columns = columns
        if scan is None:
            states.refresh()
            scan = scan_nodes(kind, nodes, changes, columns, states, states.known_scores(kind))
        self._cursor, self._grown, slots, scores = scan
        self.put(zip(slots, scores, strict=True))

    def best(self) -> tuple[float, int] | None:
        """Return the highest score, and the first node in node order that has it; None: nowhere.

        O(changes since the last time), amortised.
        """
        self._refresh()
        return super().best()

    def room(
        self, task: TaskState, limits: Sequence[RoomLimit], *, below: int
    ) -> dict[int, int] | None:
        """Return how many tasks of the class fit on each node, by slot.

        None: they are not fewer than `below` together. O(below + changes since the last time).

        Args:
            task: a task of the class; the others have the same requests.
            limits: what limits their number on a node besides resources.
            below: the number.

        """
        self._refresh()
        found: dict[int, int] = {}
        left = below
        for slot in self.score_of:
            room = room_on(self._nodes[slot], task, limits)
            if room is None or room >= left:
                return None
            if room:
                found[slot] = room
                left -= room
        return found

    def _refresh(self) -> None:
        unread = self._cursor.unread()
        if not unread:
            return
        columns, kind = self._columns, self._kind
        # Up to date here too, so that what grows from now on is noticed.
        columns.refresh()
        if len(unread) <= FEW:
            self._rank_each(set(unread))
            return
        score_of = self.score_of
        changed = score_of.keys() & unread
        grown = self._grown.unread()
        if grown or kind.live_checks:
            # Only on these nodes may the class fit, or be rejected, where it was not before.
            elsewhere: Iterable[int] = unread if kind.live_checks else grown
            if isinstance(kind.accepts_by_description, FewSlots):
                elsewhere = kind.accepts_by_description.keys() & elsewhere
            changed.update(elsewhere)
        kept = _fitting_now(kind, self._nodes, columns, changed, asks_descriptions=bool(grown))
        if len(kept) < len(changed):
            for slot in changed.difference(kept):
                score_of.pop(slot, None)
        # Computing a score costs less than looking whether that of the node's state is known.
        self.put(zip(kept, kind.score([self._nodes[slot] for slot in kept]), strict=True))

    def _rank_each(self, slots: Iterable[int]) -> None:
        """Rank a few nodes again, one by one."""
        kind, vacant = self._kind, self._columns.vacant
        for slot in slots:
            node = self._nodes[slot]
            if slot in vacant or not kind.takes_now(node):
                self.score_of.pop(slot, None)
            else:
                self.put([(slot, kind.score_one(node))])
