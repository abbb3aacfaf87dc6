"""How many like tasks areas hold, with their segments, and how tasks are split over them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from batchsched.plugin.session_view import DomainCounts
from batchsched.plugins.topology.areas import Area
from batchsched.state.records import SortKey

T = TypeVar("T")


class AreaCounts:
    """How many tasks of one kind areas hold, one after the other, and how many whole segments.

    Where tasks must be placed in segments, an area that has a further level of segments below it
    has places only for whole ones of these.
    """

    def __init__(
        self, tasks_in: Callable[[Area], int], segments: Sequence[tuple[int, int]], levels: int
    ) -> None:
        """Count them.

        Args:
            tasks_in: how many tasks the nodes of an area hold.
            segments: size and level of the segments, from the widest level to the narrowest.
            levels: the number of levels of the topology.

        """
        self.size, self.level = segments[0] if segments else (1, levels - 1)
        self._tasks_in = tasks_in
        self.has_segments = bool(segments)
        self._further = segments[1:]
        self._taken: dict[Area, int] = {}
        self._units: dict[Area, int] = {}
        self._counts: dict[Area, int] = {}

    def take(self, area: Area, tasks: int) -> None:
        """Count some places of an area, and of all areas around it, as taken."""
        for each in area.path():
            self._taken[each] = self._taken.get(each, 0) + tasks
        self._counts.clear()
        self._units.clear()

    def left(self, area: Area) -> int:
        """Return how many single tasks an area holds beside what is taken, in any segments."""
        held = self._tasks_in(area)
        return max(0, held - self._taken.get(area, 0)) if self._taken else held

    def tasks(self, area: Area) -> int:
        """Return how many tasks an area holds. O(1), or O(parts) with further segments."""
        if not self._further:
            held = self._tasks_in(area)  # as in `left`, but this is asked often
            return max(0, held - self._taken.get(area, 0)) if self._taken else held
        found = self._counts.get(area)
        if found is None:
            if any(level > area.level for _, level in self._further):
                found = sum(self.tasks(child) for child in _whole_parts(area))
            else:
                found = self.left(area)
            for size, level in self._further:
                if level == area.level:
                    found -= found % size
            self._counts[area] = found
        return found

    def units(self, area: Area) -> int:
        """Return how many whole segments an area holds; without segments, how many tasks."""
        if not self.has_segments:
            return self.tasks(area)
        found = self._units.get(area)
        if found is None:
            if area.level >= self.level:
                found = self.tasks(area) // self.size
            else:
                found = sum(self.units(child) for child in _whole_parts(area))
            self._units[area] = found
        return found

    def most(self, area: Area, tasks: int) -> int:
        """Return the largest number, up to `tasks`, that an area holds."""
        units, size = self.units(area), self.size
        if units > tasks // size or size == 1:
            return min(tasks, units * size)
        left = (self.tasks(domain) % size for domain in area.at(self.level))
        return min(tasks, units * size + max(left, default=0))

    def holds(self, area: Area, tasks: int) -> bool:
        """Return whether an area holds so many tasks, the last segment of which may be short."""
        return self.most(area, tasks) >= tasks

    # Splitting

    def split(self, area: Area, tasks: Sequence[T]) -> list[tuple[Area, Sequence[T]]] | None:
        """Split tasks, in order of their numbers, over as few areas as possible at each level.

        Down to the level of the segments, the parts of all chosen areas are chosen among together,
        and whole segments are counted. Each segment is then split over the parts of its own area.
        None: they do not fit.
        """
        whole, short = divmod(len(tasks), self.size)
        chosen: Mapping[Area, int] = {area: whole}
        while True:
            pool = [part for each in sorted(chosen, key=_place) for part in self._parts(each)]
            if pool == sorted(chosen, key=_place):
                break
            fewest = self._fewest(pool, whole, self.units)
            if fewest is None:
                return None
            chosen = fewest
        counts = {each: units * self.size for each, units in chosen.items()}
        last = self._for_short(area, counts, short) if short else None
        if short and last is None:
            return None
        return self.give_out(counts, last, tasks)

    def split_by_shortage(
        self, area: Area, tasks: Sequence[T], later: Callable[[Area], int]
    ) -> list[tuple[Area, Sequence[T]]] | None:
        """Split tasks by whole segments, each where the fewest others must leave for it.

        `later`: how many tasks an area holds although nobody leaves. O(segments x domains).
        """
        whole, short = divmod(len(tasks), self.size)
        counts: dict[Area, int] = {}
        last: Area | None = None
        for size in [self.size] * whole + [short] * (short > 0):
            fitting: list[tuple[int, int, int, Area]] = []
            for each in area.at(self.level):
                left, taken = self.tasks(each) - counts.get(each, 0), counts.get(each, 0)
                if left >= size:
                    lacking = max(0, size - max(0, later(each) - taken))
                    fitting.append((lacking, left, each.place, each))
            if not fitting:
                return None
            chosen = min(fitting)[3]
            if size < self.size:
                last = chosen
            else:
                counts[chosen] = counts.get(chosen, 0) + size
        return self.give_out(counts, last, tasks)

    def give_out(
        self, counts: Mapping[Area, int], last: Area | None, tasks: Sequence[T]
    ) -> list[tuple[Area, Sequence[T]]] | None:
        """Give tasks to areas of the segments' level: whole segments in order, then the short one.

        Args:
            counts: the number of tasks in whole segments for each area.
            last: the area for the tasks that are left; None: there are none.
            tasks: the tasks, in order of their numbers.

        """
        given: dict[Area, list[T]] = {}
        start = 0
        for each in sorted(counts, key=_place):
            given[each] = list(tasks[start : start + counts[each]])
            start += counts[each]
        if last is not None:
            given.setdefault(last, []).extend(tasks[start:])
        parts: list[tuple[Area, Sequence[T]]] = []
        for each in sorted(given, key=_place):
            for part in self._split_below(each, given[each]):
                if part is None:
                    return None
                parts.append(part)
        return parts

    def _parts(self, area: Area) -> Sequence[Area]:
        """Return the parts of an area that is wider than the segments, and else the area."""
        return area.split_over() if area.level < self.level and not area.is_rest else (area,)

    def _for_short(self, area: Area, counts: Mapping[Area, int], short: int) -> Area | None:
        """Return where the short segment fits most tightly, an area with others if possible."""
        for domains in (counts, area.at(self.level)):
            left = {each: self.tasks(each) - counts.get(each, 0) for each in domains}
            fitting = [each for each in left if left[each] >= short]
            if fitting:
                return min(fitting, key=lambda each: (left[each], each.place))
        return None

    def _split_below(
        self, area: Area, tasks: Sequence[T]
    ) -> Iterator[tuple[Area, Sequence[T]] | None]:
        parts = area.split_over() if not area.is_rest else (area,)
        if parts == (area,) or not tasks:
            if tasks:
                yield area, tasks
            return
        sizes = (size for size, level in self._further if level > area.level)
        unit = next(sizes, 1)
        fewest = self._fewest(parts, len(tasks) // unit, lambda part: self.tasks(part) // unit)
        if fewest is None:
            yield None
            return
        start = 0
        for part in sorted(fewest, key=_place):
            end = start + fewest[part] * unit
            yield from self._split_below(part, tasks[start:end])
            start = end

    def _fewest(
        self, pool: Sequence[Area], wanted: int, units: Callable[[Area], int]
    ) -> dict[Area, int] | None:
        """Choose as few areas as possible that hold some units together; None: all do not."""
        left = {area: units(area) for area in pool}
        chosen: dict[Area, int] = {}
        while wanted:
            enough = [area for area, has in left.items() if has >= wanted]
            if enough:
                first = min(enough, key=lambda area: (left[area], self.tasks(area), area.place))
                chosen[first] = wanted
                return chosen
            fullest = min(
                left, key=lambda area: (-left[area], self.tasks(area), area.place), default=None
            )
            if fullest is None or not left[fullest]:
                return None
            chosen[fullest] = left.pop(fullest)
            wanted -= chosen[fullest]
        return chosen


class Ranked:
    """The domains of a level in the order of how many tasks they hold, kept as that changes."""

    def __init__(self, counts: DomainCounts, domains: Sequence[Area], places: AreaCounts) -> None:
        """Rank domains whose counts are kept. O(n log n) for n domains.

        `places`: the same counts, of which nothing is taken, and without segments.
        """
        self.places = places
        self._counts = counts
        self._read = len(counts.changed)
        self._count_of = {area: counts.of(area) for area in domains}
        self._by_count: dict[int, dict[Area, None]] = {}
        for area, count in self._count_of.items():
            self._by_count.setdefault(count, {})[area] = None
        self._in_order = sorted(self._by_count)
        """The counts of which there are domains."""

    def _refresh(self) -> None:
        log, count_of, by_count = self._counts.changed, self._count_of, self._by_count
        changed = log[self._read :]
        if not changed:
            return
        self._read = len(log)
        for area in cast("dict[Area, None]", dict.fromkeys(changed)):
            before = count_of.get(area)  # None: of another level
            if before is None:
                continue
            after = count_of[area] = self._counts.of(area)
            if after == before:
                continue
            there = by_count[before]
            del there[area]
            if not there:
                del by_count[before]
                self._in_order.remove(before)
            if after not in by_count:
                by_count[after] = {}
                insort(self._in_order, after)
            by_count[after][area] = None

    def first(self, tasks: int, together: int, tie: Callable[[Area], SortKey]) -> Iterator[Area]:
        """Yield the domains that hold some tasks, in the order in which they are tried.

        Those that hold all `together` come first, the tightest first; then those that hold most.
        `tie` ranks domains that hold as many. O(counts that differ), and those that hold them.
        """
        self._refresh()
        counts = self._in_order
        least, all_of_them = bisect_left(counts, tasks), bisect_left(counts, together)
        for count in (*counts[all_of_them:], *counts[least:all_of_them][::-1]):
            areas = list(self._by_count.get(count, ()))
            if not areas:
                continue
            first = areas[0] if len(areas) == 1 else min(areas, key=tie)
            yield first  # mostly only this one is used
            areas.remove(first)
            yield from sorted(areas, key=tie)


def _whole_parts(area: Area) -> Sequence[Area]:
    """Return the domains of the next level within an area, if no two have nodes in common."""
    return () if area.overlaps else [child for child in area.children if not child.is_rest]


def _place(area: Area) -> int:
    return area.place
