"""Computes the demands, guarantees and fair shares of the queues of a tree.

Each dimension is computed independently. Amounts are exact, and lists are by position in the
`QueueTree`. What is not enough for all is divided by water-filling, as for max-min fairness:
Bertsekas and Gallager, "Data Networks" (2nd edition, 1992), section 6.5.2; with weights as in
Parekh and Gallager's generalised processor sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key
from itertools import pairwise

from batchsched.model.cluster import Queue, QueueStatus
from batchsched.model.resources import Amount, ResourceLimit, exact
from batchsched.plugin.queues import QueueTree


class Entitlements:
    """The guarantees, deserved amounts and limits of the queues of a tree, in one dimension.

    >>> from batchsched import Resource
    >>> tree = QueueTree([Queue(name="a", guarantee=Resource(milli_cpu=5))])
    >>> Entitlements(tree, "cpu").guarantees, Entitlements(tree, "cpu").limits
    ([5], [None])
    """

    __slots__ = ("deserved", "guarantees", "limits")

    def __init__(self, tree: QueueTree, dimension: str) -> None:
        self.guarantees = [exact(queue.guarantee.get(dimension)) for queue in tree.queues]
        """The guarantee of each queue itself."""
        self.deserved = [_deserved(queue, dimension) for queue in tree.queues]
        """What each queue deserves; None: everything that its parent has."""
        self.limits = [
            None if queue.limit is None else _exact(queue.limit.get(dimension))
            for queue in tree.queues
        ]
        """The most that each queue may hold; None: unlimited."""


def _exact(amount: Amount | None) -> int | None:
    return None if amount is None else exact(amount)


def _deserved(queue: Queue, dimension: str) -> int | None:
    deserved = queue.deserved
    if deserved is None:
        return None
    if isinstance(deserved, ResourceLimit):
        return _exact(deserved.get(dimension))
    return exact(deserved.get(dimension))


_STRICTNESS = (QueueStatus.OPEN, QueueStatus.CLOSED, QueueStatus.DRAINING)


def effective_status(tree: QueueTree) -> list[QueueStatus]:
    """Return the strictest status on each queue's path. O(queues)."""
    found = [queue.state for queue in tree.queues]
    for position in tree.downward:
        parent = tree.parents[position]
        if parent >= 0:
            found[position] = max(found[parent], found[position], key=_STRICTNESS.index)
    return found


def demands(
    tree: QueueTree,
    *,
    requests: Sequence[int],
    allocated: Sequence[int],
    limits: Sequence[int | None],
    statuses: Sequence[QueueStatus],
) -> list[int]:
    """Return how much each queue could use, given the limits at and below it. O(queues).

    Args:
        tree: the queues.
        requests: what each leaf holds and waits for together.
        allocated: what each leaf holds.
        limits: the most that each may hold.
        statuses: the strictest status on each queue's path. A closed leaf demands what it holds,
            a draining one nothing.

    """
    wanted = list(requests)
    if statuses.count(QueueStatus.OPEN) < len(statuses):
        wanted = [
            asked if status is QueueStatus.OPEN else held if status is QueueStatus.CLOSED else 0
            for asked, held, status in zip(requests, allocated, statuses, strict=True)
        ]
    if limits.count(None) < len(limits):
        wanted = [
            most if limit is None or most <= limit else limit
            for most, limit in zip(wanted, limits, strict=True)
        ]
    for position in tree.inner_upward:
        most = sum([wanted[child] for child in tree.children[position]])
        limit = limits[position]
        wanted[position] = most if limit is None or most <= limit else limit
    return wanted


def effective_guarantees(tree: QueueTree, guarantees: Sequence[int]) -> list[int]:
    """Return each queue's guarantee, at least the sum of its children's. O(queues)."""
    kept = list(guarantees)
    for position in tree.inner_upward:
        below = sum([kept[child] for child in tree.children[position]])
        kept[position] = max(kept[position], below)
    return kept


def nominal_shares(
    tree: QueueTree,
    *,
    total: int,
    guarantees: Sequence[int],
    deserved: Sequence[int | None],
) -> list[int]:
    """Return what each queue is promised, whether or not it can be met now. O(queues).

    For a leaf that is what it deserves, at least its guarantee. A queue above others for which
    nothing is named itself is promised what those below it are, at most everything.

    Args:
        tree: the queues.
        total: the total amount.
        guarantees: the guarantee of each; see `effective_guarantees`.
        deserved: what each deserves; None: everything.

    """
    promised = [
        max(total if amount is None else amount, kept)
        for amount, kept in zip(deserved, guarantees, strict=True)
    ]
    for position in tree.inner_upward:
        if deserved[position] == 0:
            below = sum([promised[child] for child in tree.children[position]])
            promised[position] = max(guarantees[position], min(below, total))
    return promised


def fair_shares(
    tree: QueueTree,
    *,
    total: int,
    demands: Sequence[int],
    guarantees: Sequence[int],
    deserved: Sequence[int | None],
    weights: Callable[[Sequence[int]], Sequence[int]] | None = None,
    unit: int = 1,
) -> list[int]:
    """Return the fair share of each queue, from the top down.

    The share of a queue is divided among its children: first the guarantee of each, then what
    each deserves up to its demand, then by weight the rest of the demands. In the last two
    steps, children with a higher priority are served completely before others get anything.
    See `fill` for how an insufficient amount is divided.

    Args:
        tree: the queues, with weights and priorities.
        total: the total amount.
        demands: the demand of each; see `demands`.
        guarantees: the guarantee of each; see `effective_guarantees`.
        deserved: what each deserves; None: everything that its parent has.
        weights: returns the weights by which siblings, by position, share the surplus. None:
            their own weights.
        unit: the unit in which shares are dealt, of which all amounts are multiples. Above 1, what
            rounding leaves is dealt too; among equal rests, to the older queue, then by name.

    O(queues log queues).

    """
    shares = [0] * len(tree.names)
    queues = tree.queues

    def deal(budget: int, children: Sequence[int]) -> None:
        if unit > 1:
            children = sorted(children, key=lambda child: queues[child].creation_time)
        kept = [guarantees[child] for child in children]
        left = give(children, budget, kept, kept) if any(kept) else budget
        granted = {
            child: budget if amount is None else amount
            for child in children
            if (amount := deserved[child]) is None or amount
        }
        for members in by_priority(granted) if left else ():
            caps = [max(0, min(granted[c], demands[c]) - shares[c]) for c in members]
            left = give(members, left, caps, [granted[c] for c in members])
        for members in by_priority(children) if left else ():
            caps = [demands[c] - shares[c] for c in members]
            by = [queues[c].weight for c in members] if weights is None else weights(members)
            left = give(members, left, caps, by)

    def give(members: Sequence[int], left: int, caps: Sequence[int], by: Sequence[int]) -> int:
        if not left:
            return 0
        given, left = fill(left, caps, by, unit)
        for member, amount in zip(members, given, strict=True):
            shares[member] += amount
        return left

    def by_priority(members: Iterable[int]) -> list[list[int]]:
        """Return those that demand more, by priority, the highest first."""
        classes: dict[int, list[int]] = {}
        for member in members:
            if demands[member] > shares[member]:
                classes.setdefault(queues[member].priority, []).append(member)
        return [classes[priority] for priority in sorted(classes, reverse=True)]

    # Where there is enough for all, they get what they demand, and no more: the usual case.
    may_be_enough = weights is None and tree.all_have_weights and not any(guarantees)
    for parent in (-1, *reversed(tree.inner_upward)):
        budget = total if parent < 0 else shares[parent]
        children = tree.tops if parent < 0 else tree.children[parent]
        if may_be_enough and sum([demands[child] for child in children]) <= budget:
            for child in children:
                shares[child] = demands[child]
        else:
            deal(budget, children)
    return shares


def fill(
    amount: int, caps: Sequence[int], weights: Sequence[int], unit: int = 1
) -> tuple[list[int], int]:
    """Divide an amount by weight, without exceeding the caps.

    There is one level for all: each gets ``level * weight``, rounded down, or its cap, whichever
    is less. A weight of 0 gets nothing.

    With a unit of more than 1, such as a device of 1000 thousandths, all get multiples of it. What
    rounding down leaves goes to those below their caps, one unit each, by largest remainder
    (Hamilton's method); among equal remainders, the first in order.

    Args:
        amount: the amount to divide, 0 or more.
        caps: the most that each may get, 0 or more.
        weights: the weight of each, 0 or more; as many as there are caps.
        unit: what parts are multiples of; the amount and the caps are, too.

    Returns:
        The parts, and the remainder. If any part with a weight is below its cap, the remainder is
        0: with a unit of 1 the rounding loss, less than 1 for each such part, is not assigned.

    O(n log n); O(n) if there is enough for all.

    >>> fill(10, [2, 8, 8], [1, 1, 2])
    ([2, 2, 5], 0)
    >>> fill(10, [2, 3, 8], [1, 1, 0])
    ([2, 3, 0], 5)
    >>> fill(8000, [9000, 9000], [2, 1], 1000)
    ([5000, 3000], 0)

    """
    given = [cap if weight else 0 for cap, weight in zip(caps, weights, strict=True)]
    wanted = sum(given)
    if wanted <= amount:
        return given, amount - wanted
    takers = [position for position, cap in enumerate(given) if cap]
    _sort_by_level(takers, caps, weights)
    left = amount
    weight_left = sum(weights[position] for position in takers)
    count = len(takers)
    step = 0
    while step < count:
        position = takers[step]
        if caps[position] * weight_left > left * weights[position]:
            break
        left -= caps[position]
        weight_left -= weights[position]
        step += 1
    below = takers[step:]
    for position in below:
        given[position] = left * weights[position] // weight_left // unit * unit
    if unit > 1:
        remainder = left - sum(given[position] for position in below)
        # All remainders are fractions of `unit * weight_left`.
        below.sort(key=lambda each: (-(left * weights[each] % (unit * weight_left)), each))
        for position in below[: remainder // unit]:
            given[position] += unit
    return given, 0


def _sort_by_level(takers: list[int], caps: Sequence[int], weights: Sequence[int]) -> None:
    """Sort by the level at which each reaches its cap. The order is exact."""
    # Quotients of integers are rounded correctly, so they are in the right order or equal.
    levels = {position: caps[position] / weights[position] for position in takers}

    def compare(left: int, right: int) -> int:
        return caps[left] * weights[right] - caps[right] * weights[left]

    takers.sort(key=levels.__getitem__)
    if any(levels[a] == levels[b] and compare(a, b) > 0 for a, b in pairwise(takers)):
        takers.sort(key=cmp_to_key(compare))
