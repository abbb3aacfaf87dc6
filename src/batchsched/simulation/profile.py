"""How many processors will be free from when on, as far as one can plan."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

__all__ = ["Profile"]


class Profile:
    """Free processors as a step function of time, from now on for ever.

    Cost: looking for a place and taking it are linear in the number of steps.
    """

    __slots__ = ("_free", "_times")

    def __init__(self, now: float, free: int) -> None:
        # From each time on, so many are free; neighbours differ.
        self._times: list[float] = [now]
        self._free = [free]

    def steps(self) -> list[tuple[float, int]]:
        """Return from when on how many are free."""
        return list(zip(self._times, self._free, strict=True))

    def forget_before(self, now: float) -> None:
        """Let the profile begin now."""
        place = bisect_right(self._times, now) - 1
        if place > 0:
            del self._times[:place]
            del self._free[:place]
        self._times[0] = max(self._times[0], now)

    def add(self, start: float, end: float, processors: int) -> None:
        """Have so many more processors (fewer, if negative) from `start` to `end`."""
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
        """Return the first time from which so many are free for so long."""
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
