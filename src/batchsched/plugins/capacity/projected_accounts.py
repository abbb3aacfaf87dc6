"""What queues would hold without some units, which decides the unit to evict next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from batchsched.plugins.capacity.accounts import Accounts
from batchsched.state.units import EvictionUnit

__all__ = ["ProjectedAccounts"]


class ProjectedAccounts:
    """What queues would hold once some units are evicted."""

    __slots__ = ("_accounts", "_gone", "_less")

    def __init__(self, accounts: Accounts) -> None:
        """Create accounts without evicted units."""
        self._accounts = accounts
        self._gone: set[str] = set()
        self._less: dict[int, list[int]] = {}
        """By queue position and dimension, how much less would be held."""

    def take(self, leaf: int, unit: EvictionUnit) -> None:
        """Take off a unit of a leaf, with all tasks that are evicted with it."""
        size = self.size_of(unit)
        self._gone.update(task.uid for task in unit.victims)
        for position in self._accounts.tree.path(leaf):
            less = self._less.setdefault(position, [0] * len(size))
            for dimension, amount in enumerate(size):
                less[dimension] += amount

    def has_taken(self, unit: EvictionUnit) -> bool:
        """Return whether a unit's own tasks were taken off."""
        return unit.tasks[0].uid in self._gone

    def size_of(self, unit: EvictionUnit) -> Sequence[int]:
        """Return how much less its queue would hold without a unit too."""
        if unit.victims is unit.tasks and not self._gone:
            return unit.size
        size = [0] * len(unit.size)
        for task in unit.victims:
            if task.uid not in self._gone and not task.is_backfill:
                for dimension, amount in enumerate(task.resreq):
                    size[dimension] += amount
        return size

    def held(self, position: int, dimension: int) -> int:
        """Return what a queue would hold."""
        less = self._less.get(position)
        held = self._accounts.held[dimension][position]
        return held if less is None else held - less[dimension]

    def is_above(self, position: int, dimension: int) -> bool:
        """Return whether a queue would still hold more than its share."""
        return self.held(position, dimension) > self._accounts.share[dimension][position]

    def keeps_share(self, leaf: int, size: Sequence[int]) -> bool:
        """Return whether a leaf would hold its share, in what a unit holds, without it too."""
        share = self._accounts.share
        return all(
            self.held(leaf, dimension) - amount >= share[dimension][leaf]
            for dimension, amount in enumerate(size)
            if amount
        )

    def fullness_without(self, leaf: int, size: Sequence[int]) -> float:
        """Return the largest part of its share that a leaf would hold without a unit too."""
        parts = [
            (self.held(leaf, d) - amount, self._accounts.share[d][leaf])
            for d, amount in enumerate(size)
        ]
        return max((_part(held, share) for held, share in parts), default=0.0)

    def fullest(self, leaves: Iterable[int], dimensions: Collection[int]) -> int:
        """Walk down from the root to the leaf of the fullest queues, in some dimensions.

        Ties: the younger queue, then the later one in order of name.
        """
        accounts = self._accounts
        tree = accounts.tree
        paths = {leaf: tree.path(leaf) for leaf in leaves}
        step = 1
        while len(paths) > 1 or step <= len(next(iter(paths.values()))):
            branches = {path[-step] for path in paths.values()}
            best = max(branches, key=lambda position: self._fullness(position, dimensions))
            paths = {leaf: path for leaf, path in paths.items() if path[-step] == best}
            step += 1
        return next(iter(paths))

    def _fullness(self, position: int, dimensions: Collection[int]) -> tuple[float, float, str]:
        share = self._accounts.share
        fullness = max(_part(self.held(position, d), share[d][position]) for d in dimensions)
        queue = self._accounts.tree.queues[position]
        return fullness, queue.creation_time, queue.name


def _part(held: int, share: int) -> float:
    """Return the part of a share that is held; infinite if the share is 0."""
    if not held:
        return 0.0
    return held / share if share else float("inf")
