"""Determines what a queue's fair share covers, the most valuable units first.

Covered units are never reclaimed. All others are on loan: they use resources that other queues
have not claimed so far.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import add, attrgetter

from batchsched.state.turn_order import SortKey
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["Cover"]

_SIZE = 16
"""The regular number of units in a block, and of blocks in a section; with twice as many it is
split."""

_UNLIMITED = float("inf")


class _Part:
    """Consecutive units in order of value, with the result of the last update."""

    __slots__ = ("is_stale", "less_than", "taken")

    def __init__(self) -> None:
        self.is_stale = True
        """Whether the result may have changed, whatever is left of the share."""
        self.taken: Vector = ()
        """What the covered units hold together."""
        self.less_than: Sequence[float] = ()
        """While less than this is left for the part, no other unit fits."""

    def comes_out_as_before(self, left: Sequence[int]) -> bool:
        """Return whether the same units are covered, given what is left for the part."""
        if self.is_stale:
            return False
        for there, taken, less_than in zip(left, self.taken, self.less_than, strict=True):
            if taken > there or there >= less_than:
                return False
        return True


class _Block(_Part):
    """A part as a list of units."""

    __slots__ = ("units",)

    def __init__(self, units: list[EvictionUnit]) -> None:
        super().__init__()
        self.units = units


class _Section(_Part):
    """A part as a list of blocks."""

    __slots__ = ("blocks",)

    def __init__(self, blocks: list[_Block]) -> None:
        super().__init__()
        self.blocks = blocks


def _first_value(block: _Block) -> tuple[int, SortKey]:
    return block.units[0].value


def _first_of_section(section: _Section) -> tuple[int, SortKey]:
    return section.blocks[0].units[0].value


_value: Callable[[EvictionUnit], tuple[int, SortKey]] = attrgetter("value")


class Cover:
    """The units of one queue that its fair share covers, updated as units are added and removed.

    A unit is covered if it and the units covered before it fit in the share, in every dimension
    that it uses; other units use nothing of the share. Units of a job beyond its core are covered
    only if the core is. Backfill units are never covered.

    Units are in blocks, and blocks in sections, in order of value. The result for such a part is
    unchanged unless what is left of the share for it has fallen below what its covered units hold,
    or has grown so much that another unit fits: only such parts are processed again.
    """

    __slots__ = ("_covered", "_exposed", "_of_job", "_sections", "_zero", "size")

    def __init__(self, jobs: Iterable[tuple[str, Sequence[EvictionUnit]]], dimensions: int) -> None:
        """Add the units of all jobs, by UID, none of which is covered yet. O(units log units)."""
        self._zero: Vector = (0,) * dimensions
        self._of_job = {uid: _that_count(units) for uid, units in jobs}
        units = sorted((unit for found in self._of_job.values() for unit in found), key=_value)
        self._sections = _sections_of(_blocks_of(units))
        self._covered: set[EvictionUnit] = set()
        self._exposed: set[str] = set()
        """UIDs of the jobs whose cores are not covered."""
        self.size = self._zero
        """What the covered units hold together."""

    def __contains__(self, unit: EvictionUnit) -> bool:
        """Return whether a unit is covered."""
        return unit in self._covered

    def is_exposed(self, uid: str) -> bool:
        """Return whether the core of a job, by UID, is not covered; False if it has none."""
        return uid in self._exposed

    def replace(self, uid: str, units: Sequence[EvictionUnit]) -> None:
        """Replace the units of a job; objects that are in both are kept.

        O(units of the job x (log units + size of a block)).
        """
        before = self._of_job.pop(uid, [])
        now = _that_count(units)
        if now:
            self._of_job[uid] = now
        kept = set(before).intersection(now)
        for unit in before:
            if unit not in kept:
                self._remove(unit)
                self._covered.discard(unit)
        if uid in self._exposed and not any(unit.is_core for unit in kept):
            self._exposed.discard(uid)
            self._question(unit for unit in now if unit in kept)
        for unit in now:
            if unit not in kept:
                self._insert(unit)

    def update(self, share: Sequence[int]) -> list[EvictionUnit]:
        """Determine what a share covers; return the units whose state has changed.

        O((sections + blocks and units of those that are processed again) x dimensions).
        """
        changed: list[EvictionUnit] = []
        left, size = tuple(share), self._zero
        for section in self._sections:
            if not section.comes_out_as_before(left):
                self._go_through_section(section, left, changed)
            if section.taken != self._zero:
                left, size = minus(left, section.taken), plus(size, section.taken)
        self.size = size
        return changed

    def _go_through_section(
        self, section: _Section, left: Vector, changed: list[EvictionUnit]
    ) -> None:
        taken = self._zero
        less_than = [_UNLIMITED] * len(taken)
        for block in section.blocks:
            if not block.comes_out_as_before(left):
                self._go_through(block, left, changed)
            less_than = list(map(min, less_than, map(add, block.less_than, taken)))
            if block.taken != self._zero:
                left, taken = minus(left, block.taken), plus(taken, block.taken)
        section.taken, section.less_than = taken, less_than
        section.is_stale = any(block.is_stale for block in section.blocks)

    def _go_through(self, block: _Block, left: Vector, changed: list[EvictionUnit]) -> None:
        covered, exposed = self._covered, self._exposed
        taken = self._zero
        less_than = [_UNLIMITED] * len(taken)
        for unit in block.units:
            uid = unit.job.uid
            fits = unit.is_core or uid not in exposed
            if fits:
                for dimension, amount in enumerate(unit.size):
                    if amount:
                        needed = taken[dimension] + amount
                        if needed > left[dimension]:
                            less_than[dimension] = min(less_than[dimension], needed)
                            fits = False
                            break
                if unit.is_core and fits is (uid in exposed):
                    (exposed.discard if fits else exposed.add)(uid)
                    self._question(each for each in self._of_job[uid] if each is not unit)
            if fits:
                taken = plus(taken, unit.size)
            if fits is not (unit in covered):
                (covered.add if fits else covered.discard)(unit)
                changed.append(unit)
        block.taken, block.less_than, block.is_stale = taken, less_than, False

    def _question(self, units: Iterable[EvictionUnit]) -> None:
        """Mark the blocks of units to be processed again."""
        for unit in units:
            at, place = self._place_of(unit)
            section = self._sections[at]
            section.is_stale = section.blocks[place].is_stale = True

    def _place_of(self, unit: EvictionUnit) -> tuple[int, int]:
        """Return the positions of the section that a unit belongs in, and of its block there."""
        at = max(0, bisect_right(self._sections, unit.value, key=_first_of_section) - 1)
        blocks = self._sections[at].blocks
        return at, max(0, bisect_right(blocks, unit.value, key=_first_value) - 1)

    def _insert(self, unit: EvictionUnit) -> None:
        if not self._sections:
            self._sections.append(_Section([_Block([unit])]))
            return
        at, place = self._place_of(unit)
        section = self._sections[at]
        block = section.blocks[place]
        block.units.insert(bisect_left(block.units, unit.value, key=_value), unit)
        section.is_stale = block.is_stale = True
        if len(block.units) >= 2 * _SIZE:
            section.blocks[place : place + 1] = _blocks_of(block.units)
            if len(section.blocks) >= 2 * _SIZE:
                self._sections[at : at + 1] = _sections_of(section.blocks)

    def _remove(self, unit: EvictionUnit) -> None:
        at, place = self._place_of(unit)
        section = self._sections[at]
        block = section.blocks[place]
        position = bisect_left(block.units, unit.value, key=_value)
        if block.units[position] is not unit:
            raise AssertionError(f"expected {unit!r} at the position of its value")
        del block.units[position]
        section.is_stale = block.is_stale = True
        beside = section.blocks[place + 1 : place + 2]
        if not block.units:
            del section.blocks[place]
        elif beside and len(block.units) + len(beside[0].units) <= _SIZE:
            block.units += beside[0].units
            del section.blocks[place + 1]
        next_section = self._sections[at + 1 : at + 2]
        if not section.blocks:
            del self._sections[at]
        elif next_section and len(section.blocks) + len(next_section[0].blocks) <= _SIZE:
            section.blocks += next_section[0].blocks
            del self._sections[at + 1]


def _that_count(units: Iterable[EvictionUnit]) -> list[EvictionUnit]:
    return [unit for unit in units if not unit.is_backfill]


def _blocks_of(units: Sequence[EvictionUnit]) -> list[_Block]:
    return [_Block(list(units[at : at + _SIZE])) for at in range(0, len(units), _SIZE)]


def _sections_of(blocks: Sequence[_Block]) -> list[_Section]:
    return [_Section(list(blocks[at : at + _SIZE])) for at in range(0, len(blocks), _SIZE)]
