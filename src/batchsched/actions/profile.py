"""What is free on each node, as a step function of time from now on.

Three times are special. *Now* comes before all others. *At once* comes directly after now: tasks
that are leaving, or whose expected end has passed, end at once. *Never* comes last. They are
represented as minus infinity, the time of the cycle, and infinity, so that all times compare as
numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import inf, nextafter
from operator import ge, itemgetter
from typing import NamedTuple

from batchsched.model.cluster import TaskStatus
from batchsched.state.needs import Need
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, fits, minus, plus, total_of

NOW = -inf
"""The time of the cycle, before anything that is leaving has left."""
NEVER = inf
"""The end of a run that has no expected end."""

_TO_PLACE = (TaskStatus.PENDING, TaskStatus.RESERVED)


def estimate_of(task: TaskState) -> float:
    """Return the estimated run time of a task in seconds; `NEVER` if unknown."""
    job = task.job
    estimate = task.info.estimate if job is None else job.info.estimate_of(task.info)
    return NEVER if estimate is None else estimate


def expected_end(task: TaskState, now: float) -> float:
    """Return the expected end of a task that holds resources; `now` is the time of the cycle.

    `now` (at once) if it is leaving or overdue; `NEVER` if its estimate or start is unknown.
    """
    return max(now, _end_of_run_until(task, now))


def _end_of_run_until(task: TaskState, now: float) -> float:
    """Return the same, even if that time has passed."""
    if task.status is TaskStatus.RELEASING:
        return -inf
    # A task that was placed in this cycle starts now.
    start = now if task.info.status in _TO_PLACE else task.info.start_time
    return NEVER if start is None else start + estimate_of(task)


def end_of_run(start: float, estimate: float, now: float) -> float:
    """Return the end of a run that starts at a time of the profile; always after its start.

    A run of length zero would hold nothing, and any number of them would fit together.
    """
    end = max(start, now) + estimate
    return end if end > start else nextafter(start, inf)


class NodeProfile:
    """The free resources of one node as a list of steps."""

    __slots__ = ("free", "takes", "times")

    def __init__(
        self, free_now: Vector, ends: Sequence[tuple[float, Vector]], *, at_once: float
    ) -> None:
        """Build the steps from what is free now and what is freed when, in order of time.

        What should have been freed earlier is freed `at_once`.
        """
        self.times: list[float] = [NOW]
        """The start of each step."""
        self.free: list[Vector] = [free_now]
        """What is free during each step."""
        self.takes = 0
        """How many plans take resources; if none do, what is free never decreases."""
        for time, freed in ends:
            if time == NEVER:
                break
            if not any(freed):
                continue
            moment = max(time, at_once)
            if moment == self.times[-1]:
                self.free[-1] = plus(self.free[-1], freed)
            else:
                self.times.append(moment)
                self.free.append(plus(self.free[-1], freed))

    def copy(self) -> NodeProfile:
        """Return an equal profile, to change it."""
        copied = NodeProfile(self.free[0], (), at_once=0)
        copied.times, copied.free, copied.takes = self.times[:], self.free[:], self.takes
        return copied

    def fits(self, request: Vector, start: float, end: float) -> bool:
        """Return whether a request fits at every time from `start` until `end`. O(steps)."""
        times, free = self.times, self.free
        position = 0 if start == NOW else bisect_right(times, start) - 1
        if not fits(request, free[position]):
            return False
        if not self.takes:
            return True
        position += 1
        while position < len(times) and times[position] < end:
            if not fits(request, free[position]):
                return False
            position += 1
        return True

    def take(self, request: Vector, start: float, end: float) -> None:
        """Subtract a request from what is free from `start` until `end`. O(steps)."""
        if start > NOW:
            self.takes += 1
        self._change(request, start, end, minus)

    def put_back(self, request: Vector, start: float, end: float) -> None:
        """Undo `take`. O(steps)."""
        if start > NOW:
            self.takes -= 1
        self._change(request, start, end, plus)

    def _change(
        self,
        request: Vector,
        start: float,
        end: float,
        change: Callable[[Vector, Vector], Vector],
    ) -> None:
        first = self._step_at(start)
        last = len(self.times) if end == NEVER else self._step_at(end)
        for position in range(first, last):
            self.free[position] = change(self.free[position], request)
        # Merge equal neighbouring steps, the later one first.
        for position in (last, first):
            if 0 < position < len(self.times) and self.free[position] == self.free[position - 1]:
                del self.times[position], self.free[position]

    def _step_at(self, time: float) -> int:
        """Return the position of the step that begins at a time; insert it if there is none."""
        position = bisect_left(self.times, time)
        if position == len(self.times) or self.times[position] != time:
            self.times.insert(position, time)
            self.free.insert(position, self.free[position - 1])
        return position


def free_now(node: NodeState) -> Vector:
    """Return what is free on a node now, beside what is promised there."""
    free = node.idle
    if node.divergence_count:
        free = minus(minus(free, node.pipelined), node.conditional)
    return free


def profile_of(node: NodeState, now: float) -> NodeProfile:
    """Return the profile of a node, from the tasks that run and are promised resources there.

    O(tasks log tasks); O(tasks) if they have not changed since the last call, even across cycles.
    """
    free, ends = free_now(node), node.ends
    return NodeProfile(free, _ends(node, now) if ends is None else ends, at_once=now)


def _ends(node: NodeState, now: float) -> Sequence[tuple[float, Vector]]:
    holding = [task for task in node.tasks.values() if task.status.holds]
    ends = [(_end_of_run_until(task, now), task.resreq) for task in holding]
    if len(ends) > 1:
        ends.sort(key=_time)
    if not any(task.info.status in _TO_PLACE for task in holding):
        node.ends = ends  # otherwise they depend on the time of the cycle
    return ends


def _time(end: tuple[float, Vector]) -> float:
    return end[0]


def room_for(request: Vector, held: Vector, free: Vector, most: int) -> int:
    """Return an upper bound on how many of `most` equal tasks fit into what is free.

    O(dimensions).

    Args:
        request: what each task needs to start.
        held: what each task holds while it runs; no more than `request`.
        free: what is free.
        most: how many tasks there are.

    """
    for wanted, kept, there in zip(request, held, free, strict=True):
        if wanted >= 1:
            # Amounts that differ by less than EPSILON (which is less than 1) count as equal.
            left = there + 1 - wanted
            if left <= 0:
                return 0
            if kept >= 1:
                most = min(most, 1 + int(left // kept))
    return most


class Places(NamedTuple):
    """The time at which the tasks of a need start together, and their nodes."""

    start: float
    """A time of the profile: `NOW`, the time of the cycle (meaning "at once"), or a later time."""
    of: tuple[tuple[TaskState, NodeState], ...]


class ClusterProfile:
    """The profiles of all nodes, reduced by the places that jobs take.

    That of a node is computed when it is first asked for: before anything is placed there.
    """

    def __init__(self, nodes: Sequence[NodeState], now: float) -> None:
        self.now = now
        self.limited: set[int] = set()
        """The indices of the nodes where plans take resources."""
        self._nodes = nodes
        self._of_node: list[NodeProfile | None] = [None] * len(nodes)
        self._free_now: Vector | None = None
        """What is free now on all nodes together; None: not known."""

    def at(self, node: NodeState) -> NodeProfile:
        """Return the profile of a node."""
        profile = self._of_node[node.index]
        if profile is None:
            profile = self._of_node[node.index] = profile_of(node, self.now)
        return profile

    def may_fit_now(self, need: Need) -> bool:
        """Return whether a need is no more than what is free now on all nodes together.

        If it is more, no search finds places for it now. O(dimensions), after the first time.
        """
        free = self._free_now
        if free is None:
            on_nodes = list(map(free_now, self._nodes))
            # A node may lack what others have to spare.
            free = self._free_now = total_of(
                [each if min(each) >= 0 else tuple(max(0, n) for n in each) for each in on_nodes],
                need.request,
            )
        request = need.request
        return all([request[d] <= free[d] for d in need.dimensions])  # noqa: C419 - fast

    def end_of(self, task: TaskState, start: float) -> float:
        """Return the expected end of a task that starts at a time of the profile."""
        return end_of_run(start, estimate_of(task), self.now)

    def fitting_now(self, task: TaskState, nodes: Iterable[NodeState]) -> list[NodeState]:
        """Return those of some nodes where a task fits from now until its expected end."""
        request, end, of_node = task.init_resreq, self.end_of(task, NOW), self._of_node
        fitting: list[NodeState] = []
        for node in nodes:
            profile = of_node[node.index]
            if profile is None:
                if fits(request, free_now(node)):
                    fitting.append(node)
            elif profile.fits(request, NOW, end):
                fitting.append(node)
        return fitting

    def fits(self, task: TaskState, node: NodeState, start: float) -> bool:
        """Return whether a task fits on a node from `start` until its expected end."""
        end = self.end_of(task, start)
        return self.at(node).fits(task.init_resreq, start, end)

    def is_open(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a task fits on a node from now on, for ever."""
        return self.at(node).fits(task.init_resreq, NOW, NEVER)

    def to_change(self, node: NodeState) -> NodeProfile:
        """Return the profile of a node, to take from it or to put back."""
        return self.at(node)

    def take(self, task: TaskState, node: NodeState, start: float) -> None:
        """Take what a task holds from a node's profile, from `start` until its expected end."""
        profile = self.to_change(node)
        if start == NOW and self._free_now is not None:
            self._free_now = minus(self._free_now, task.resreq)
        profile.take(task.resreq, start, self.end_of(task, start))
        self._changed(profile, node)

    def put_back(self, task: TaskState, node: NodeState, start: float) -> None:
        """Undo `take`."""
        profile = self.to_change(node)
        if start == NOW and self._free_now is not None:
            self._free_now = plus(self._free_now, task.resreq)
        profile.put_back(task.resreq, start, self.end_of(task, start))
        self._changed(profile, node)

    def take_all(self, places: Places) -> bool:
        """Take all places, or none if one of them does not fit; return whether all were taken."""
        taken: list[tuple[TaskState, NodeState]] = []
        for task, node in places.of:
            if not self.fits(task, node, places.start):
                self.put_all_back(Places(places.start, tuple(taken)))
                return False
            self.take(task, node, places.start)
            taken.append((task, node))
        return True

    def put_all_back(self, places: Places) -> None:
        """Undo `take_all`."""
        for task, node in places.of:
            self.put_back(task, node, places.start)

    def take_alike(
        self,
        tasks: Sequence[TaskState],
        nodes: Iterable[NodeState],
        start: float,
        taken: list[tuple[TaskState, NodeState]],
    ) -> bool:
        """Take places for equal tasks, and add them to `taken`; return whether all have some.

        Nodes where they do not fit for ever go first, in node order: plans take what
        becomes free. O(nodes + tasks) tests, since each node is left only once: a node that does
        not fit one of them does not fit the next. Of the open nodes the first is used until it is
        full, because once it is no longer open it goes before the others.
        """
        request, end = tasks[0].init_resreq, self.end_of(tasks[0], start)
        left = iter(nodes)
        node = next(left, None)
        open_nodes: deque[NodeState] = deque()
        for task in tasks:
            while node is not None:
                of_node = self.at(node)
                if of_node.fits(request, start, end):
                    if not of_node.fits(request, NOW, NEVER):
                        break
                    open_nodes.append(node)
                node = next(left, None)
            chosen = node
            while chosen is None:
                if not open_nodes:
                    return False
                if self.at(open_nodes[0]).fits(request, start, end):
                    chosen = open_nodes[0]
                else:
                    open_nodes.popleft()
            self.take(task, chosen, start)
            taken.append((task, chosen))
        return True

    def recall_plan(self, _tasks: Sequence[TaskState], _latest: float) -> Places | None:
        """Take places that these tasks would get now, if they are known; see `take_alike`."""
        return None

    def keep_plan(self, tasks: Sequence[TaskState], places: Places) -> None:
        """Note what places tasks were given by what nodes are and have free alone."""

    def moments(
        self, tasks: Iterable[TaskState], latest: float, among: Iterable[NodeState] | None = None
    ) -> Iterator[float]:
        """Yield the times after now, up to `latest`, at which tasks may fit together, ascending.

        Something changes at these times, and for each size of task there is room on all nodes, or
        `among` some, together for as many as there are. O(steps of these nodes), for each size.
        """
        profiles = list(map(self.at, self._nodes if among is None else among))
        sizes = Counter((task.init_resreq, task.resreq) for task in tasks)
        room_on = [[0] * len(profiles) for _ in sizes]
        room = [0] * len(sizes)
        steps = [
            (time, index, free)
            for index, profile in enumerate(profiles)
            for time, free in zip(profile.times, profile.free, strict=True)
        ]
        steps.sort()
        for time, at_once in groupby(steps, key=itemgetter(0)):
            if time > latest:
                return
            for _, index, free in at_once:
                for number, ((request, held), count) in enumerate(sizes.items()):
                    now = room_for(request, held, free, count)
                    room[number] += now - room_on[number][index]
                    room_on[number][index] = now
            if time > NOW and all(map(ge, room, sizes.values())):
                yield time

    def _changed(self, profile: NodeProfile, node: NodeState) -> None:
        if profile.takes:
            self.limited.add(node.index)
        else:
            self.limited.discard(node.index)
