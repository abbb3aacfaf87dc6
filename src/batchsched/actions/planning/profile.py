"""What is free on each node, as a step function of time from now on.

Three moments have no place among ordinary times. *Now* comes before all others; *at once* comes
after now and before every other time: then ends what is expected to have ended already, and what
is leaving; *never* comes last. They are kept as minus infinity, the time of the cycle itself, and
infinity, so that all moments compare as numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import inf, nextafter

from batchsched.model.status import TaskStatus
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, fits, minus, plus

__all__ = [
    "NEVER",
    "NOW",
    "NodeProfile",
    "end_of_run",
    "estimate_of",
    "expected_end",
    "profile_of",
    "room_for",
]

NOW = -inf
"""The moment of the cycle."""
NEVER = inf
"""The moment at which ends what has no expected end."""

_TO_PLACE = (TaskStatus.PENDING, TaskStatus.RESERVED)


def estimate_of(task: TaskState) -> float:
    """Return for how many seconds the task may hold its resources; `NEVER` if it is unknown."""
    job = task.job
    estimate = task.info.estimate if job is None else job.info.estimate_of(task.info)
    return NEVER if estimate is None else estimate


def expected_end(task: TaskState, now: float) -> float:
    """Return when a task that holds resources is expected to end, given the time of the cycle.

    At once if it is leaving or overdue; never if its estimate or its start is unknown.
    """
    return max(now, _end_of_run_until(task, now))


def _end_of_run_until(task: TaskState, now: float) -> float:
    """Return the same, also where that time is over."""
    if task.status is TaskStatus.RELEASING:
        return -inf
    # What was placed in this cycle starts now.
    start = now if task.info.status in _TO_PLACE else task.info.start_time
    return NEVER if start is None else start + estimate_of(task)


def end_of_run(start: float, estimate: float, now: float) -> float:
    """Return when a run ends that starts at a moment of the profile; always after its start.

    A run without length would hold nothing, and any number of them would fit at once.
    """
    end = max(start, now) + estimate
    return end if end > start else nextafter(start, inf)


class NodeProfile:
    """What is free on one node, step by step."""

    __slots__ = ("free", "takes", "times")

    def __init__(
        self, free_now: Vector, ends: Sequence[tuple[float, Vector]], *, at_once: float
    ) -> None:
        """Begin with what is free now, and what is freed when, in order of time.

        What should have been freed before is freed `at_once`.
        """
        self.times: list[float] = [NOW]
        """When each step begins."""
        self.free: list[Vector] = [free_now]
        """What is free during each step."""
        self.takes = 0
        """How many plans take something; without any, what is free never becomes less."""
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

    def fits(self, request: Vector, start: float, end: float) -> bool:
        """Return whether a request fits at every time from `start` until `end`. O(steps)."""
        times, free = self.times, self.free
        position = bisect_right(times, start) - 1
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

    def least_free(self, start: float, end: float) -> Vector:
        """Return what is free at every time from `start` until `end`. O(steps)."""
        position = bisect_right(self.times, start) - 1
        least = self.free[position]
        if self.takes:
            position += 1
            while position < len(self.times) and self.times[position] < end:
                least = tuple(map(min, least, self.free[position]))
                position += 1
        return least

    def take(self, request: Vector, start: float, end: float) -> None:
        """Let a request hold what it asks for from `start` until `end`. O(steps)."""
        if start > NOW:
            self.takes += 1
        self._change(request, start, end, minus)

    def put_back(self, request: Vector, start: float, end: float) -> None:
        """Undo `take`. O(steps)."""
        if start > NOW:
            self.takes -= 1
        self._change(request, start, end, plus)

    def changes(self) -> Iterator[float]:
        """Yield the moments after now at which something changes."""
        yield from self.times[1:]

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
        # A step that differs in nothing from the one before is none: the later one first.
        for position in (last, first):
            if 0 < position < len(self.times) and self.free[position] == self.free[position - 1]:
                del self.times[position], self.free[position]

    def _step_at(self, time: float) -> int:
        """Return the step that begins at a time, which is made if there is none."""
        position = bisect_left(self.times, time)
        if position == len(self.times) or self.times[position] != time:
            self.times.insert(position, time)
            self.free.insert(position, self.free[position - 1])
        return position


def profile_of(node: NodeState, now: float) -> NodeProfile:
    """Return what is free on a node from now on, by what runs and is promised there.

    O(tasks log tasks), and O(tasks) while they stay as they are, from cycle to cycle.
    """
    free = node.idle
    if node.special:
        free = minus(minus(free, node.pipelined), node.conditional)
    ends = node.ends
    return NodeProfile(free, _ends(node, now) if ends is None else ends, at_once=now)


def _ends(node: NodeState, now: float) -> Sequence[tuple[float, Vector]]:
    holding = [task for task in node.tasks.values() if task.status.holds]
    ends = [(_end_of_run_until(task, now), task.resreq) for task in holding]
    if len(ends) > 1:
        ends.sort(key=_time)
    if not any(task.info.status in _TO_PLACE for task in holding):
        node.ends = ends  # else they depend on the time of the cycle
    return ends


def _time(end: tuple[float, Vector]) -> float:
    return end[0]


def room_for(request: Vector, held: Vector, free: Vector, most: int) -> int:
    """Return an upper bound of how many of `most` equal tasks find room in what is free.

    O(dimensions).

    Args:
        request: what each needs to start.
        held: what each holds then; no more than that.
        free: what is free.
        most: how many tasks there are.

    """
    for wanted, kept, there in zip(request, held, free, strict=True):
        if wanted >= 1:
            # Amounts that differ by less than EPSILON, which is less than 1, are the same.
            left = there + 1 - wanted
            if left <= 0:
                return 0
            if kept >= 1:
                most = min(most, 1 + int(left // kept))
    return most
