"""Find nodes where all tasks of a need fit together: now, or at the earliest time.

Both searches are greedy, one task after the other. Each first computes an upper bound on how many
tasks could fit, and skips the times for which that is too few.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence

from attrs import frozen

from batchsched.actions.placing import best_of
from batchsched.actions.planning.cluster_profile import ClusterProfile, Places
from batchsched.actions.planning.profile import NEVER, NOW, estimate_of, room_for
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["PlaceSearch"]


@frozen
class _Group:
    """Tasks of a need that request and hold the same resources."""

    request: Vector
    held: Vector
    shortest: float
    """The shortest of their estimates, in seconds."""
    count: int


class PlaceSearch:
    """Finds places in the profile, and takes them."""

    def __init__(self, session: Session, profile: ClusterProfile) -> None:
        self._session = session
        self._profile = profile
        self._feasible: dict[int, tuple[int, list[NodeState]]] = {}

    def start_now(self, statement: Statement, tasks: Sequence[TaskState]) -> Places | None:
        """Allocate all tasks from now on and take their places; None if they do not all fit.

        Each task goes to the best node where it fits until its end but would not fit for ever, so
        that long tasks can use the nodes without plans; if there is no such node, to the best
        node where it fits. If they do not all fit, the caller must roll back the statement.
        """
        taken: list[tuple[TaskState, NodeState]] = []
        for alike in self._alike(tasks):
            if not self._start_alike(statement, alike, taken):
                self._profile.put_all_back(Places(NOW, tuple(taken)))
                return None
        return Places(NOW, tuple(taken))

    def _start_alike(
        self,
        statement: Statement,
        tasks: Sequence[TaskState],
        taken: list[tuple[TaskState, NodeState]],
    ) -> bool:
        """Start equal tasks; after each, only the node that it went to is checked again."""
        profile, session = self._profile, self._session
        first = tasks[0]
        fitting = profile.fitting_now(first.init_resreq)
        among = frozenset([session.nodes[index].slot for index in fitting])
        nodes = [n for n in session.placement.feasible(first, among) if profile.fits(first, n, NOW)]
        preferred = [node for node in nodes if self._is_preferred(first, node)]
        for task in tasks:
            if not nodes:
                return False
            node = best_of(session, task, preferred or nodes)
            statement.allocate(task, node)
            profile.take(task, node, NOW)
            taken.append((task, node))
            if task is not tasks[-1]:
                fits = profile.fits(task, node, NOW) and self._accepts(task, node)
                _include_if(nodes, node, fits)
                _include_if(preferred, node, fits and self._is_preferred(task, node))
        return True

    def start_as_planned(self, statement: Statement, places: Places) -> Places | None:
        """Allocate all tasks now where they were planned, or none, and take their places."""
        now = Places(NOW, places.of)
        if not self._profile.take_all(now):
            return None
        for task, node in places.of:
            if not self._accepts(task, node):
                self._profile.put_all_back(now)
                return None
            statement.allocate(task, node)
        return now

    def take_earliest(
        self, tasks: Sequence[TaskState], before: Places | None, latest: float
    ) -> Places | None:
        """Take the earliest places after now; None if there are none.

        Each task goes to the first node, in node order, where it fits at that time but does not
        fit from now on for ever: a plan takes what becomes free, and leaves what is free now to
        others. If there is no such node, it goes to the first where it fits. If that does not
        find places for all tasks, the places of the plan `before` are tried.

        Args:
            tasks: the tasks, in task order.
            before: the places planned in an earlier cycle.
            latest: the latest start allowed.

        """
        profile = self._profile
        alike = [(each, self._feasible_for(each[0])) for each in self._alike(tasks)]
        nodes = {node.index: node for _, found in alike for node in found}
        if before is not None:
            nodes |= {node.index: node for _, node in before.of}
        for start in self._promising(tasks, nodes.values(), latest):
            places = self._at(alike, start)
            if places is None and before is not None:
                again = Places(start, before.of)
                if all(self._accepts(*place) for place in before.of) and profile.take_all(again):
                    places = again
            if places is not None:
                return places
        return None

    def _at(
        self, alike: Iterable[tuple[Sequence[TaskState], Iterable[NodeState]]], start: float
    ) -> Places | None:
        taken: list[tuple[TaskState, NodeState]] = []
        for tasks, nodes in alike:
            if not self._take_alike(tasks, nodes, start, taken):
                self._profile.put_all_back(Places(start, tuple(taken)))
                return None
        return Places(start, tuple(taken))

    def _take_alike(
        self,
        tasks: Sequence[TaskState],
        nodes: Iterable[NodeState],
        start: float,
        taken: list[tuple[TaskState, NodeState]],
    ) -> bool:
        """Take places for equal tasks. O(nodes + tasks) tests, since each node is left only once.

        A node that does not fit one of them does not fit the next. Of the open nodes the first is
        used until it is full, because once it is no longer open it goes before the others.
        """
        profile = self._profile
        first = tasks[0]
        end = profile.end_of(first, start)
        left = iter(nodes)
        node = next(left, None)
        open_nodes: deque[NodeState] = deque()
        for task in tasks:
            while node is not None:
                if profile.of_node[node.index].fits(first.init_resreq, start, end):
                    if not self._is_open(first, node):
                        break
                    open_nodes.append(node)
                node = next(left, None)
            chosen = node
            while chosen is None:
                if not open_nodes:
                    return False
                if profile.of_node[open_nodes[0].index].fits(first.init_resreq, start, end):
                    chosen = open_nodes[0]
                else:
                    open_nodes.popleft()
            profile.take(task, chosen, start)
            taken.append((task, chosen))
        return True

    def _is_open(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a task fits on a node from now on, for ever."""
        return self._profile.of_node[node.index].fits(task.init_resreq, NOW, NEVER)

    def _is_preferred(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a node where a task fits now would not fit it for ever."""
        return node.index in self._profile.limited and not self._is_open(task, node)

    def _accepts(self, task: TaskState, node: NodeState) -> bool:
        return any(True for _ in self._session.placement.feasible(task, frozenset((node.slot,))))

    def _feasible_for(self, task: TaskState) -> list[NodeState]:
        """Return the nodes that predicates accept now; remembered until any node changes."""
        session = self._session
        kind = session.placement.kind(task)
        if kind is None:
            return list(session.placement.feasible(task))
        known = self._feasible.get(kind)
        changes = len(session.log.nodes)
        if known is None or known[0] != changes:
            known = self._feasible[kind] = changes, list(session.placement.feasible(task))
        return known[1]

    def _alike(self, tasks: Sequence[TaskState]) -> list[list[TaskState]]:
        """Group consecutive tasks that need the same resources, time and nodes."""
        found: list[list[TaskState]] = []
        last: object = None
        for task in tasks:
            kind = self._session.placement.kind(task)
            key = (kind, task.init_resreq, task.resreq, estimate_of(task))
            if kind is None or key != last:
                found.append([])
            found[-1].append(task)
            last = key
        return found

    # Upper bounds on what fits

    def _groups(self, tasks: Iterable[TaskState]) -> list[_Group]:
        groups: dict[tuple[Vector, Vector], _Group] = {}
        for task in tasks:
            key = (task.init_resreq, task.resreq)
            length = estimate_of(task)
            known = groups.get(key)
            groups[key] = (
                _Group(*key, length, 1)
                if known is None
                else _Group(*key, min(known.shortest, length), known.count + 1)
            )
        return list(groups.values())

    def may_fit_now(self, tasks: Iterable[TaskState]) -> bool:
        """Return False if there is too little room for all tasks now, on whichever nodes."""
        profile = self._profile
        for group in self._groups(tasks):
            left = group.count
            end = profile.now + group.shortest
            for index in profile.fitting_now(group.request):
                free = profile.of_node[index].least_free(NOW, end)
                left -= room_for(group.request, group.held, free, left)
                if left <= 0:
                    break
            if left > 0:
                return False
        return True

    def _promising(
        self,
        tasks: Iterable[TaskState],
        nodes: Collection[NodeState],
        latest: float,
    ) -> Iterator[float]:
        """Yield the times at which, for each group, there may be room for all its tasks."""
        profile = self._profile
        moments = profile.moments(latest)
        groups = self._groups(tasks)
        rooms: list[dict[float, int]] = []
        for group in groups:
            changes: dict[float, int] = {}
            for node in nodes:
                of_node = profile.of_node[node.index]
                before = 0
                for time, free in zip(of_node.times, of_node.free, strict=True):
                    room = room_for(group.request, group.held, free, group.count)
                    if room != before:
                        changes[time] = changes.get(time, 0) + room - before
                        before = room
            rooms.append(changes)
        found = [changes.get(NOW, 0) for changes in rooms]
        for moment in moments:
            is_promising = True
            for number, changes in enumerate(rooms):
                found[number] += changes.get(moment, 0)
                is_promising &= found[number] >= groups[number].count
            if is_promising:
                yield moment


def _include_if(nodes: list[NodeState], node: NodeState, has: bool) -> None:
    """Insert a node into a list in node order, or remove it, as `has` says."""
    place = bisect_left(nodes, node.index, key=_index)
    if (place < len(nodes) and nodes[place] is node) != has:
        if has:
            nodes.insert(place, node)
        else:
            del nodes[place]


def _index(node: NodeState) -> int:
    return node.index
