"""Cells of nodes by size and by what is requested there, for nodeorder's score of requests.

A node's place in a grid is the part of its cpu that is requested, and how much larger the part of
its memory is. A task moves it by the task's own parts. Places and moves are rounded down to
steps; so bounds of the scores follow from their sums alone, and one table has them for all tasks
and all sizes of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from operator import add
from typing import cast

from batchsched.plugin.hints import ScoreCells
from batchsched.state.records import NodeState, TaskState

__all__ = ["requested_cells"]

LARGEST_SCORE = 10
STEPS = 64
"""The steps of the part of cpu, from nothing to all."""
FINE = 4
"""So many steps of the difference are one of cpu. The bound of a balanced score is too high where
the parts may be equal, and on most nodes they nearly are."""
ALL = STEPS * FINE
"""The steps of the difference, from nothing to all."""
ROW = 4 * ALL + 1
"""The sums of two differences are from -2 to 2 times all."""
ROUNDING = 1e-9
"""More than floats may be wrong by when a balanced score is computed."""


def requested_cells(least: int, most: int, balanced: int) -> ScoreCells | None:
    """Return cells for a score with these weights; None: a weight is negative."""
    if min(least, most, balanced) < 0:
        return None
    return ScoreCells(of_node=_cell, highest=partial(_highest, (least, most, balanced)))


def _cell(node: NodeState) -> tuple[Hashable, int]:
    size = node.allocatable[:2]
    return size, _place(size, node.scoring_milli_cpu, node.scoring_memory)


def _place(size: Sequence[int], cpu: int, memory: int) -> int:
    """Return the number of a place in the grid; more than the capacity counts as all of it.

    Without any capacity, all of it is requested.
    """
    all_cpu, all_memory = size[0] or 1, size[1] or 1
    cpu = min(cpu, all_cpu) if size[0] else 1
    memory = min(memory, all_memory) if size[1] else 1
    larger = memory * all_cpu - cpu * all_memory
    return cpu * STEPS // all_cpu * ROW + larger * ALL // (all_cpu * all_memory)


def _highest(
    weights: tuple[int, int, int], task: TaskState
) -> Callable[[Hashable, Sequence[int]], Sequence[float]]:
    table = _table(*weights)
    cpu, memory = task.scoring_milli_cpu, task.scoring_memory

    def bounds(group: Hashable, cells: Sequence[int]) -> Sequence[float]:
        move = _place(cast("tuple[int, int]", group), cpu, memory) + ROW // 2
        return list(map(table.__getitem__, map(move.__add__, cells)))

    return bounds


@lru_cache(maxsize=8)
def _table(least: int, most: int, balanced: int) -> Sequence[int]:
    """Return the highest score for each sum of two places, shifted so that none is negative.

    A sum of two numbers that were rounded down is exact, or less than two steps too low.
    """
    even = [
        balanced * int((1 - max(larger, -larger - 2, 0) / ALL) * LARGEST_SCORE + ROUNDING)
        for larger in range(-2 * ALL, ALL)
    ]
    by_memory: dict[tuple[int, int], list[int]] = {}
    table: list[int] = []
    for cpu in range(0, 2 * ALL + 1, FINE):
        # At least `cpu` is requested of cpu, in fine steps, and less than `cpu + 2 * FINE`. The
        # task does not count as balanced where all of cpu or memory is requested.
        parts = _free_part(cpu), _used_part(cpu, cpu + 2 * FINE)
        if parts not in by_memory:
            by_memory[parts] = [
                least * ((parts[0] + _free_part(memory)) // 2)
                + most * ((parts[1] + _used_part(memory, memory + 2 * FINE + 2)) // 2)
                for memory in range(-2 * ALL, 4 * ALL + 1)
            ]
        row = by_memory[parts][cpu : cpu + ROW]
        is_balanced = max(3 * ALL - cpu, 0) if cpu < ALL else 0
        table += map(add, row, even[:is_balanced])
        table += row[is_balanced:]
    return table


def _free_part(at_least: int) -> int:
    """Return the highest score of least requested for a resource."""
    return min(max(ALL - at_least, 0), ALL) * LARGEST_SCORE // ALL


def _used_part(at_least: int, below: int) -> int:
    """Return the highest score of most requested for a resource."""
    return max(min(below, ALL), 0) * LARGEST_SCORE // ALL if at_least <= ALL else 0
