"""The number of free processors over time, as planned."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

__all__ = ["Profile"]


class Profile:
    """The number of free processors as a step function of time, from now on.

    Cost: `earliest` and `add` are linear in the number of steps.
    """

    __slots__ = ("_free", "_times")

    def __init__(self, now: float, free: int) -> None:
        # The number of free processors from each time on; neighbours differ.
        self._times: list[float] = [now]
        self._free = [free]

    def steps(self) -> list[tuple[float, int]]:
        """Return the steps: a time, and the number of free processors from then on."""
        return list(zip(self._times, self._free, strict=True))

    def forget_before(self, now: float) -> None:
        """Drop the steps before `now`."""
        place = bisect_right(self._times, now) - 1
        if place > 0:
            del self._times[:place]
            del self._free[:place]
        self._times[0] = max(self._times[0], now)

    def add(self, start: float, end: float, processors: int) -> None:
        """Add free processors (negative: remove them) from `start` to `end`."""
        if start >= end:
            return
        times, free = self._times, self._free
        first = bisect_left(times, start)
        if first == len(times) or times[first] != start:
            times.insert(first, start)
            free.insert(first, free[first - 1])
        last = bisect_left(times, end, first)
        if last == len(times) or times[last] != end:
            times.insert(last, end)
            free.insert(last, free[last - 1])
        for place in range(first, last):
            free[place] += processors
        if free[last] == free[last - 1]:
            del times[last], free[last]
        if first > 0 and free[first] == free[first - 1]:
            del times[first], free[first]

    def earliest(self, processors: int, duration: float) -> float:
        """Return the first time from which this many processors are free for `duration` seconds."""
        times, free = self._times, self._free
        count = len(times)
        place = 0
        while True:
            while free[place] < processors:
                place += 1
            end = times[place] + duration
            following = place + 1
            while following < count and times[following] < end and free[following] >= processors:
                following += 1
            if following == count or times[following] >= end:
                return times[place]
            place = following
