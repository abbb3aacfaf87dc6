"""Fair shares in a tree of queues, with rational arithmetic and plain loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor

from batchsched import Queue, QueueStatus, ResourceLimit

__all__ = ["UNIT", "DemandedTree", "reference_fill"]

UNIT = 1000
"""One of a scalar, in thousandths."""


def reference_fill(
    amount: int, caps: Sequence[int], weights: Sequence[int], *, is_whole: bool = False
) -> tuple[list[int], int]:
    """Raise one level for all until everything is dealt out; return the shares and the rest.

    With `is_whole`, who is below its cap gets multiples of `UNIT`, and what rounding leaves is
    dealt too, one unit each as far as the caps go, then what is left of one: the largest rest
    first, the first of equals.
    """
    takers = [n for n, weight in enumerate(weights) if weight > 0]
    # Raise the level until the next taker reaches its cap, or nothing is left.
    level = Fraction(0)
    left = Fraction(amount)
    while True:
        rising = [n for n in takers if level * weights[n] < caps[n]]
        if not rising:
            return [caps[n] if n in takers else 0 for n in range(len(caps))], floor(left)
        together = sum(weights[n] for n in rising)
        next_cap = min(Fraction(caps[n], weights[n]) for n in rising)
        if (next_cap - level) * together > left:
            level += left / together
            break
        left -= (next_cap - level) * together
        level = next_cap
    exact = [
        min(Fraction(caps[n]), level * weights[n]) if n in takers else Fraction(0)
        for n in range(len(caps))
    ]
    if not is_whole:
        return [floor(share) for share in exact], 0
    below = [n for n in takers if exact[n] < caps[n]]
    shares = [
        floor(share / UNIT) * UNIT if n in below else floor(share) for n, share in enumerate(exact)
    ]
    for n in sorted(below, key=lambda n: shares[n] - exact[n]):
        shares[n] += min(UNIT, caps[n] - shares[n], amount - sum(shares))
    return shares, 0


class DemandedTree:
    """A tree of queues with what its leaves hold and request, in one dimension."""

    def __init__(
        self,
        queues: Sequence[Queue],
        dimension: str,
        *,
        requests: Mapping[str, int],
        allocated: Mapping[str, int],
        is_whole: bool = False,
        weights: Callable[[Sequence[Queue]], Sequence[int]] = lambda siblings: [
            queue.weight for queue in siblings
        ],
    ) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self._dimension = dimension
        self._requests = requests
        self._allocated = allocated
        self._is_whole = is_whole
        self._weights = weights

    def children(self, name: str | None) -> list[str]:
        """Return the children of a queue, the oldest first; None: the top-level queues."""
        found = [queue for queue in self.queues.values() if queue.parent == name]
        return [q.name for q in sorted(found, key=lambda q: (q.creation_time, q.name))]

    def path(self, name: str) -> list[str]:
        """Return a queue and all above it, itself first."""
        parent = self.queues[name].parent
        return [name, *([] if parent is None else self.path(parent))]

    def limit(self, name: str) -> int | None:
        """Return the most that a queue may hold; None: no limit."""
        limit = self.queues[name].limit
        return None if limit is None else _whole(limit.get(self._dimension))

    def deserved(self, name: str, budget: int) -> int:
        """Return what a queue deserves of its parent's `budget`."""
        given = self.queues[name].deserved
        if given is None:
            return budget
        amount = given.get(self._dimension)
        if amount is None:
            assert isinstance(given, ResourceLimit)
            return budget
        return int(amount)

    def allocated(self, name: str) -> int:
        """Return what a queue, or all queues below it, hold."""
        children = self.children(name)
        return sum(map(self.allocated, children)) if children else self._allocated.get(name, 0)

    def guarantee(self, name: str) -> int:
        """Return the guarantee of a queue, at least the sum of its children's."""
        own = int(self.queues[name].guarantee.get(self._dimension))
        return max(own, sum(map(self.guarantee, self.children(name))))

    def demand(self, name: str) -> int:
        """Return what a queue could use."""
        children = self.children(name)
        states = [self.queues[above].state for above in self.path(name)]
        if children:
            most = sum(map(self.demand, children))
        elif QueueStatus.DRAINING in states:
            most = 0
        elif QueueStatus.CLOSED in states:
            most = self._allocated.get(name, 0)
        else:
            most = self._requests.get(name, 0)
        limit = self.limit(name)
        return most if limit is None else min(most, limit)

    def hold(self, name: str) -> int:
        """Return what a queue holds or is guaranteed, whichever is more."""
        children = self.children(name)
        below = sum(map(self.hold, children)) if children else self.allocated(name)
        return max(self.guarantee(name), below)

    def nominal_share(self, name: str, total: int) -> int:
        """Return what a queue deserves, whatever there is to have and whoever wants it."""
        own = self.deserved(name, total)
        if self.children(name) and not own:
            own = min(total, sum(self.nominal_share(c, total) for c in self.children(name)))
        return max(self.guarantee(name), own)

    def fair_shares(self, total: int) -> dict[str, int]:
        """Return the fair share of every queue."""
        shares: dict[str, int] = {}
        self._deal(None, total, shares)
        return shares

    def _deal(self, parent: str | None, budget: int, shares: dict[str, int]) -> None:
        children = self.children(parent)
        left = budget
        got = dict.fromkeys(children, 0)

        def give(members: list[str], caps: list[int], weights: list[int]) -> None:
            nonlocal left
            given, left = reference_fill(left, caps, weights, is_whole=self._is_whole)
            for member, amount in zip(members, given, strict=True):
                got[member] += amount

        kept = [self.guarantee(child) for child in children]
        give(children, kept, kept)
        priorities = sorted({self.queues[child].priority for child in children}, reverse=True)
        classes = [[c for c in children if self.queues[c].priority == p] for p in priorities]
        for members in classes:
            deserved = [self.deserved(member, budget) for member in members]
            wanted = [
                max(0, min(amount, self.demand(member)) - got[member])
                for member, amount in zip(members, deserved, strict=True)
            ]
            give(members, wanted, deserved)
        for siblings in classes:
            members = [one for one in siblings if self.demand(one) > got[one]]
            wanted = [self.demand(member) - got[member] for member in members]
            give(members, wanted, list(self._weights([self.queues[m] for m in members])))
        for child in children:
            shares[child] = got[child]
            self._deal(child, got[child], shares)


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)
