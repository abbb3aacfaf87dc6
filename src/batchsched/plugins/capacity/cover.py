"""Determines what a queue's fair share covers, the most valuable units first.

Covered units are never reclaimed. All others are on loan: they use resources that other queues
have not claimed so far.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from batchsched.state.live_queue import SortKey
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["Cover"]

_SIZE = 64
"""The regular number of units in a block; a block with twice as many is split."""

_UNLIMITED = float("inf")


class _Block:
    """Consecutive units in order of value, with the result of the last update."""

    __slots__ = ("is_stale", "less_than", "taken", "units")

    def __init__(self, units: list[EvictionUnit]) -> None:
        self.units = units
        self.is_stale = True
        """Whether the result may have changed, whatever is left of the share."""
        self.taken: Vector = ()
        """What the covered units hold together."""
        self.less_than: Sequence[float] = ()
        """While less than this is left for the block, no other unit fits."""

    def comes_out_as_before(self, left: Sequence[int]) -> bool:
        """Return whether the same units are covered, given what is left for the block."""
        if self.is_stale:
            return False
        for there, taken, less_than in zip(left, self.taken, self.less_than, strict=True):
            if taken > there or there >= less_than:
                return False
        return True


def _first_value(block: _Block) -> tuple[int, SortKey]:
    return block.units[0].value


_value: Callable[[EvictionUnit], tuple[int, SortKey]] = attrgetter("value")


class Cover:
    """The units of one queue that its fair share covers, updated as units are added and removed.

    A unit is covered if it and the units covered before it fit in the share, in every dimension
    that it uses; other units use nothing of the share. Units of a job beyond its core are covered
    only if the core is. Backfill units are never covered.

    Units are in blocks, in order of value. The result for a block is unchanged unless what is
    left of the share for it has fallen below what its covered units hold, or has grown so much
    that another unit fits: only such blocks are processed again.
    """

    __slots__ = ("_blocks", "_covered", "_exposed", "_of_job", "_zero", "size")

    def __init__(self, jobs: Iterable[tuple[str, Sequence[EvictionUnit]]], dimensions: int) -> None:
        """Add the units of all jobs, by UID, none of which is covered yet. O(units log units)."""
        self._zero: Vector = (0,) * dimensions
        self._of_job = {uid: _that_count(units) for uid, units in jobs}
        units = sorted((unit for found in self._of_job.values() for unit in found), key=_value)
        self._blocks = _blocks_of(units)
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

        O((units / size of a block + units in blocks that are processed again) x dimensions).
        """
        changed: list[EvictionUnit] = []
        left, size = tuple(share), self._zero
        for block in self._blocks:
            if not block.comes_out_as_before(left):
                self._go_through(block, left, changed)
            if block.taken != self._zero:
                left, size = minus(left, block.taken), plus(size, block.taken)
        self.size = size
        return changed

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
            self._blocks[self._block_of(unit)].is_stale = True

    def _block_of(self, unit: EvictionUnit) -> int:
        """Return the position of the block that a unit belongs in."""
        return max(0, bisect_right(self._blocks, unit.value, key=_first_value) - 1)

    def _insert(self, unit: EvictionUnit) -> None:
        if not self._blocks:
            self._blocks.append(_Block([unit]))
            return
        position = self._block_of(unit)
        block = self._blocks[position]
        block.units.insert(bisect_left(block.units, unit.value, key=_value), unit)
        block.is_stale = True
        if len(block.units) >= 2 * _SIZE:
            self._blocks[position : position + 1] = _blocks_of(block.units)

    def _remove(self, unit: EvictionUnit) -> None:
        position = self._block_of(unit)
        block = self._blocks[position]
        place = bisect_left(block.units, unit.value, key=_value)
        if block.units[place] is not unit:
            raise AssertionError(f"expected {unit!r} at the position of its value")
        del block.units[place]
        block.is_stale = True
        beside = self._blocks[position + 1 : position + 2]
        if not block.units:
            del self._blocks[position]
        elif beside and len(block.units) + len(beside[0].units) <= _SIZE:
            block.units += beside[0].units
            del self._blocks[position + 1]


def _that_count(units: Iterable[EvictionUnit]) -> list[EvictionUnit]:
    return [unit for unit in units if not unit.is_backfill]


def _blocks_of(units: Sequence[EvictionUnit]) -> list[_Block]:
    return [_Block(list(units[at : at + _SIZE])) for at in range(0, len(units), _SIZE)]
