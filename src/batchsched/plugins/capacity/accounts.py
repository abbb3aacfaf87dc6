"""The fair shares and the holdings of the queues of a tree, kept up to date in a cycle.

Each dimension is computed independently. Amounts are exact, and lists are by position in the
`QueueTree`. What is not enough for all is divided by water-filling, as for max-min fairness:
Bertsekas and Gallager, "Data Networks" (2nd edition, 1992), section 6.5.2; with weights as in
Parekh and Gallager's generalised processor sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cmp_to_key, partial
from itertools import pairwise
from math import inf
from typing import NamedTuple

from attrs import frozen

from batchsched.model.cluster import Queue, QueueStatus, TaskStatus
from batchsched.model.reasons import QueueExcess
from batchsched.model.resources import Amount, ResourceLimit, exact
from batchsched.plugin.queues import QueueTree, Use, reserved_tasks, sum_of_requests
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, TaskState
from batchsched.state.vectors import Vector, plus

WHOLE = 1000
"""The amount of one device, in the unit of a `Resource`."""
DIVISIBLE = frozenset({"cpu", "memory"})
"""The dimensions that are divided among queues exactly. Of all others, weights divide whole units:
parts of devices are of use only to those who ask for parts.
"""


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
        unit: the unit in which shares are dealt; see `fill`. Above 1, what rounding leaves is dealt
            too; among equal rests, to the older queue, then by name.

    O(queues log queues).

    """
    shares = [0] * len(tree.names)
    queues = tree.queues

    def deal(budget: int, children: Sequence[int]) -> None:
        if unit > 1:
            children = sorted(children, key=lambda child: queues[child].creation_time)
        left = budget
        if any(guarantees):
            kept = [guarantees[child] for child in children]
            left = give(children, budget, kept, kept)
        granted = {
            child: budget if amount is None else amount
            for child in children
            if (amount := deserved[child]) is None or amount
        }
        for members in by_priority(granted) if granted and left else ():
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

    With a unit of more than 1, such as a device of 1000 thousandths, those below their caps get
    multiples of it. What rounding down leaves goes to these, one unit each, but never more than
    their caps, by largest remainder (Hamilton's method); among equal remainders, the first in
    order. If less than a unit is left then, the next one gets that.

    Args:
        amount: the amount to divide, 0 or more.
        caps: the most that each may get, 0 or more.
        weights: the weight of each, 0 or more; as many as there are caps.
        unit: what is divided by weight; the amount and the caps need not be multiples of it.

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
    >>> fill(2500, [500, 9000, 9000], [1, 2, 1], 1000)
    ([500, 1000, 1000], 0)

    """
    given = [cap if weight else 0 for cap, weight in zip(caps, weights, strict=True)]
    wanted = sum(given)
    if wanted <= amount:
        return given, amount - wanted
    takers = [position for position, cap in enumerate(given) if cap]
    _sort_by_level(takers, caps, weights)
    left = amount
    weight_left = sum([weights[position] for position in takers])
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
        remainder = left - sum([given[position] for position in below])
        # All remainders are fractions of `unit * weight_left`, and each leaves room for its own.
        below.sort(key=lambda each: (-(left * weights[each] % (unit * weight_left)), each))
        for position in below:
            more = min(unit, caps[position] - given[position], remainder)
            given[position] += more
            remainder -= more
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


ROOT = -1
"""The position of the root, which has no name: all queues together."""

Excess = tuple[int, int, int, int]
"""A queue (or `ROOT`), a dimension, the amount that would be held, and its limit or ceiling."""

Ceiling = Callable[[Collection[TaskState]], Vector]
"""Returns the most that all queues may hold together, once some tasks have left."""


class Quotient:
    """A quotient of two amounts, compared exactly: as floats, unequal ones could be equal."""

    __slots__ = ("denominator", "numerator")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, numerator: int, denominator: int) -> None:
        """Create it from an amount of 0 or more and one above 0."""
        self.numerator = numerator
        self.denominator = denominator

    def __lt__(self, other: Quotient) -> bool:
        return self.numerator * other.denominator < other.numerator * self.denominator

    def __le__(self, other: Quotient) -> bool:
        return self.numerator * other.denominator <= other.numerator * self.denominator

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quotient):
            return NotImplemented
        return self.numerator * other.denominator == other.numerator * self.denominator

    def __repr__(self) -> str:
        return f"{self.numerator}/{self.denominator}"


Fullness = tuple[bool, float, Quotient]
"""How full a queue is; the emptier is less. See `fullness`.

The quotient stands there as a float first, which decides mostly, and sooner: a division is rounded
correctly, so that of two quotients the larger one never has the smaller float.
"""

EMPTY: Fullness = False, 0.0, Quotient(0, 1)
"""The fullness of a queue that holds nothing."""


def fullness(parts: Iterable[tuple[int, int, int]]) -> Fullness:
    """Return the largest part of its share that a queue holds in some dimensions.

    A queue that holds something of a share of 0 is fuller than all others; two such are compared
    by the part of the total that they hold.

    Args:
        parts: what is held, the share and the total, by dimension.

    >>> fullness([(0, 0, 8)]), fullness([(3, 4, 8), (1, 2, 8)]), fullness([(3, 4, 8), (3, 0, 8)])
    ((False, 0.0, 0/1), (False, 0.75, 3/4), (True, 0.375, 3/8))
    >>> fullness([(3, 4, 8)]) < fullness([(9, 4, 8)]) < fullness([(1, 0, 8)])
    True

    """
    is_without_share, most, of = False, 0, 1
    for held, share, total in parts:
        if not held or (share and is_without_share):
            continue
        if not share:
            if not is_without_share:
                is_without_share, most, of = True, 0, 1
            share = max(total, 1)  # noqa: PLW2901
        if held * of > most * share:
            most, of = held, share
    return is_without_share, most / of, Quotient(most, of)


SurplusWeights = Callable[[Sequence[int], int], Sequence[int]]
"""Returns a weight for each sibling, given their positions and a dimension."""


class Share(Enum):
    """An amount up to which what a queue holds is covered, and up to which it may claim."""

    # That of Enum hashes the name each time.
    __hash__ = object.__hash__

    FAIR = "its fair share"
    """What the cluster divides among all queues by their demands."""
    NOMINAL = "what it deserves"
    """What it deserves, at least its guarantee, whether or not the cluster has as much."""
    MET = "what it deserves and can get"
    """The smaller of the two."""


def _of(weights: SurplusWeights, dimension: int, positions: Sequence[int]) -> Sequence[int]:
    return weights(positions, dimension)


def _column(tree: QueueTree, vectors: Mapping[int, Vector], dimension: int) -> list[int]:
    """Return the amounts of one dimension, by position; 0 where there is no vector."""
    column = [0] * len(tree.names)
    for position, vector in vectors.items():
        column[position] = vector[dimension]
    return column


def use_of(view: SessionView, jobs: Collection[JobState]) -> Use:
    """Return what jobs of a queue hold, and what they request.

    They hold what is charged to the queue; a backfill task is not, and requests nothing of it.
    Jobs outside the session wait for nothing, and others for no more than their maxima allow.
    """
    charged = [t for job in jobs for t in job.tasks if t.status.charged and not t.is_backfill]
    wanted: list[TaskState] = []
    for job in jobs:
        if job.info.quota_reserved:
            charged += reserved_tasks(job)
        if not job.in_session:
            continue
        if job.count(TaskStatus.PENDING) and not job.info.quota_reserved:
            pending = [t for t in job.having(TaskStatus.PENDING) if not t.is_backfill]
            if job.groups is not None:
                pending = job.groups.within_maxima(view.in_task_order(pending))
            wanted += pending
        if job.count(TaskStatus.RESERVED):
            wanted += [t for t in job.having(TaskStatus.RESERVED) if not t.is_backfill]
    held = sum_of_requests(charged, view.dimensions.zero)
    return Use(held, plus(held, sum_of_requests(wanted, view.dimensions.zero)) if wanted else held)


class Departure(NamedTuple):
    """What changes once some tasks have left: what leaves hold, and the ceiling of all queues."""

    held: Sequence[tuple[int, Vector]]
    """The amounts that leaves would no longer hold: positions and vectors."""
    ceiling: Vector
    """The ceiling of all queues then."""


@frozen(eq=False)
class _Dealt:
    """The shares of queues in one dimension, and what they follow from; lists are by position."""

    basis: tuple[int, int, list[int], list[int] | None]
    """The total, the unit, what is requested, and what is held where that makes a difference."""
    granted: Entitlements
    guarantees: list[int]
    share: list[int]


class QueueAccounts:
    """Fair shares, and what queues hold; all lists are by dimension, then by position.

    `held` is what is allocated to a queue and all queues below it. `kept` is what is not available
    to other queues: for a leaf the larger of what it holds and its guarantee, for an inner queue
    the larger of its guarantee and `kept_below`, the sum of what is kept below it.
    """

    def __init__(
        self,
        tree: QueueTree,
        dimensions: Sequence[str],
        *,
        total: Vector,
        held: Mapping[int, Vector],
        requests: Mapping[int, Vector],
        ceiling: Ceiling | None = None,
        before: QueueAccounts | None = None,
        weights: SurplusWeights | None = None,
    ) -> None:
        """Compute all shares. O(dimensions x queues log queues).

        In dimensions whose inputs have not changed, the shares of `before` are reused: O(queues).

        Args:
            tree: the queues.
            dimensions: the names of the dimensions of the vectors.
            total: the resources of all queues together.
            held: what leaves hold, by position.
            requests: what leaves hold and wait for together, by position.
            ceiling: returns the most that all queues may hold together; None: the total.
            before: accounts of the same tree and dimensions whose shares may be reused.
            weights: returns the weights by which siblings share the surplus in a dimension; shares
                are then never reused. None: the weights of the queues.

        """
        self.tree = tree
        self.dimensions = tuple(dimensions)
        """Their names."""
        self.total = total
        self.ceiling: Ceiling = ceiling or (lambda _: total)
        self.statuses: list[QueueStatus] = (
            effective_status(tree) if before is None else before.statuses
        )
        self.held: list[list[int]] = []
        self.kept: list[list[int]] = []
        self.kept_below: list[list[int]] = []
        self._kept_at_top: list[int] = []
        self._dealt: list[_Dealt] = []
        self._nominal: list[list[int]] | None = None
        self._met: list[list[int]] | None = None
        self._least_limits: dict[int, list[float]] = {}
        """By leaf, the least limit on its path in each dimension."""
        is_open = self.statuses.count(QueueStatus.OPEN) == len(self.statuses)
        for d, name in enumerate(dimensions):
            of_leaves, wanted = _column(tree, held, d), _column(tree, requests, d)
            # For leaves that are not open, the shares also depend on what they hold.
            basis = (
                total[d],
                1 if name in DIVISIBLE else WHOLE,
                wanted,
                None if is_open else list(of_leaves),
            )
            dealt = None if before is None else before._dealt[d]
            if dealt is None or weights is not None or dealt.basis != basis:
                granted = Entitlements(tree, name) if dealt is None else dealt.granted
                by = None if weights is None else partial(_of, weights, d)
                dealt = self._deal(basis, granted, of_leaves, by)
            self._dealt.append(dealt)
            self._enter(of_leaves, dealt.guarantees)
        self.share = [each.share for each in self._dealt]
        self.guarantee = [each.guarantees for each in self._dealt]
        self.limit = [each.granted.limits for each in self._dealt]

    def _deal(
        self,
        basis: tuple[int, int, list[int], list[int] | None],
        granted: Entitlements,
        held: Sequence[int],
        weights: Callable[[Sequence[int]], Sequence[int]] | None,
    ) -> _Dealt:
        total, unit, wanted, _ = basis
        guarantees = effective_guarantees(self.tree, granted.guarantees)
        share = fair_shares(
            self.tree,
            total=total,
            demands=demands(
                self.tree,
                requests=wanted,
                allocated=held,
                limits=granted.limits,
                statuses=self.statuses,
            ),
            guarantees=guarantees,
            deserved=granted.deserved,
            weights=weights,
            unit=unit,
        )
        return _Dealt(basis, granted, guarantees, share)

    def _enter(self, held: list[int], guarantees: list[int]) -> None:
        """Add up what leaves hold in one dimension."""
        tree = self.tree
        kept = list(map(max, guarantees, held)) if any(guarantees) else list(held)
        below = [0] * len(held)
        for position in tree.inner_upward:
            children = tree.children[position]
            held[position] = sum([held[child] for child in children])
            below[position] = sum([kept[child] for child in children])
            kept[position] = max(guarantees[position], below[position])
        at_top = sum([kept[top] for top in tree.tops])
        self.held.append(held)
        self.kept.append(kept)
        self.kept_below.append(below)
        self._kept_at_top.append(at_top)

    def charge(self, leaf: int, vector: Vector, sign: int) -> None:
        """Charge an amount to a leaf (sign 1) or discharge it (-1). O(depth x dimensions)."""
        path = self.tree.path(leaf)
        if len(path) == 1:
            columns = zip(vector, self.held, self.kept, self.guarantee, strict=True)
            for dimension, (amount, held, kept, guarantee) in enumerate(columns):
                if amount:
                    held[leaf] = now = held[leaf] + amount * sign
                    now = max(now, guarantee[leaf])
                    self._kept_at_top[dimension] += now - kept[leaf]
                    kept[leaf] = now
            return
        for dimension, amount in enumerate(vector):
            if not amount:
                continue
            change = amount * sign
            held, kept = self.held[dimension], self.kept[dimension]
            below, guarantees = self.kept_below[dimension], self.guarantee[dimension]
            for position in path:
                held[position] += change
            more = 0
            for position in path:
                if position == leaf:
                    now = held[position]
                else:
                    below[position] += more
                    now = below[position]
                now = max(now, guarantees[position])
                more = now - kept[position]
                if not more:
                    break
                kept[position] = now
            else:
                self._kept_at_top[dimension] += more

    def wanted(self) -> list[list[int]]:
        """Return what queues hold and ask for, within limits, by dimension, then by position."""
        return [
            demands(
                self.tree,
                requests=each.basis[2],
                allocated=held,
                limits=each.granted.limits,
                statuses=self.statuses,
            )
            for each, held in zip(self._dealt, self.held, strict=True)
        ]

    def amounts(self, share: Share) -> list[list[int]]:
        """Return a share of each queue, by dimension, then by position. O(queues) once."""
        if share is Share.FAIR:
            return self.share
        if share is Share.NOMINAL:
            if self._nominal is None:
                self._nominal = [
                    nominal_shares(
                        self.tree,
                        total=total,
                        guarantees=each.guarantees,
                        deserved=each.granted.deserved,
                    )
                    for total, each in zip(self.total, self._dealt, strict=True)
                ]
            return self._nominal
        if self._met is None:
            nominal = self.amounts(Share.NOMINAL)
            self._met = [list(map(min, *both)) for both in zip(self.share, nominal, strict=True)]
        return self._met

    def is_covered(self, leaf: int, share: Share = Share.FAIR) -> bool:
        """Return whether a leaf is within a share in all dimensions. O(dimensions)."""
        for held, most in zip(self.held, self.amounts(share), strict=True):
            if held[leaf] > most[leaf]:
                return False
        return True

    def is_within_share(self, position: int, need: Need, share: Share = Share.FAIR) -> bool:
        """Return whether a queue would stay within a share with a need in addition."""
        held, most, request = self.held, self.amounts(share), need.request
        for dimension in need.dimensions:
            if held[dimension][position] + request[dimension] > most[dimension][position]:
                return False
        return True

    def fullness(self, position: int, more: Vector) -> Fullness:
        """Return how full a queue would be, in the fullest dimension. O(dimensions)."""
        return fullness(
            (held[position] + amount, share[position], total)
            for held, amount, share, total in zip(
                self.held, more, self.share, self.total, strict=True
            )
        )

    def standing(self, need: Need, position: int) -> tuple[bool, Fullness]:
        """Return whether a queue stays within its share with a need, and how full it is.

        In the fullest dimension of the need: as it is now, or, if it would not stay within its
        share, with the need. O(dimensions).
        """
        held, share, total, request = self.held, self.share, self.total, need.request
        is_within = self.is_within_share(position, need)
        return is_within, fullness(
            [
                (
                    held[d][position] if is_within else held[d][position] + request[d],
                    share[d][position],
                    total[d],
                )
                for d in need.dimensions
            ]
        )

    def once_gone(self, tasks: Collection[TaskState]) -> Departure:
        """Return what changes for queues once some tasks have left."""
        position = self.tree.position
        held = [
            (position[task.job.queue.name], task.resreq)
            for task in tasks
            if not task.is_backfill and task.job is not None and task.job.queue is not None
        ]
        return Departure(held, self.ceiling(tasks))

    def most(self, leaf: int) -> Sequence[float]:
        """Return the most that a leaf may hold, by limits on its path and the ceiling of all."""
        least = self._least_limits.get(leaf)
        if least is None:
            path = self.tree.path(leaf)
            limits = [[of_all[position] for position in path] for of_all in self.limit]
            least = [min((one for one in of if one is not None), default=inf) for of in limits]
            self._least_limits[leaf] = least
        return tuple(map(min, least, self.ceiling(())))

    def excesses(
        self,
        leaf: int,
        request: Vector,
        dimensions: Iterable[int],
        departure: Departure | None = None,
    ) -> Iterator[Excess]:
        """Yield all limits that would be exceeded if a leaf held a request in addition.

        By dimension: of the queues on its path, upward, and then the ceiling of all together, for
        which a guarantee counts as held. What is exceeded no more than now is left out, unless the
        request alone exceeds a limit.

        Args:
            leaf: its position.
            request: what it would hold in addition.
            dimensions: the dimensions of the request to check.
            departure: what changes by tasks that would leave; None: there are none.

        O(dimensions x depth) for the request and for each leaving amount.

        """
        path, ceiling = self.tree.path(leaf), self.ceiling(())
        is_lower = departure is not None and departure.ceiling != ceiling
        for dimension in dimensions:
            found = self._excesses_alone(dimension, path, request[dimension], ceiling[dimension])
            if departure is None:
                yield from found
            # What is not exceeded before tasks leave is not exceeded after, if the ceiling stays.
            elif is_lower or next(found, None) is not None:
                change = {leaf: request[dimension]}
                for other, vector in departure.held:
                    change[other] = change.get(other, 0) - vector[dimension]
                most = departure.ceiling[dimension]
                yield from self._excesses_in(dimension, path, change, most, request[dimension])

    def told(self, excess: Excess) -> QueueExcess:
        """Return an excess by names; the ceiling of all queues has no name."""
        position, dimension, would_hold, most = excess
        name = "" if position == ROOT else self.tree.names[position]
        return QueueExcess(
            dimension=self.dimensions[dimension], would_hold=would_hold, most=most, queue=name
        )

    def _excesses_alone(
        self, dimension: int, path: Sequence[int], amount: int, ceiling: int
    ) -> Iterator[Excess]:
        """Yield the limits that a leaf would exceed with more, if no tasks leave."""
        kept, limits = self.kept[dimension], self.limit[dimension]
        guarantees = self.guarantee[dimension]
        below = self.held[dimension]  # for the leaf what it holds; above, what is kept below
        more = amount
        for position in path:
            now = below[position] + more
            now = max(now, guarantees[position])
            more = now - kept[position]
            if more <= 0:
                return
            limit = limits[position]
            if limit is not None and now > limit:
                yield position, dimension, now, limit
            below = self.kept_below[dimension]
        now = self._kept_at_top[dimension] + more
        if now > ceiling:
            yield ROOT, dimension, now, ceiling

    def _excesses_in(
        self,
        dimension: int,
        path: Sequence[int],
        change: Mapping[int, int],
        ceiling: int,
        alone: int,
    ) -> Iterator[Excess]:
        """Yield the limits that queues on a path would exceed if leaves held more or less.

        `alone`: what is asked for; a limit that is less can never be kept with it.
        """
        kept, limits = self.kept[dimension], self.limit[dimension]
        changes = dict(self.kept_changes(dimension, change))
        for position in path:
            limit, more = limits[position], changes.get(position, 0)
            now = kept[position] + more
            if limit is not None and now > limit and (more > 0 or alone > limit):
                yield position, dimension, now, limit
        before = self._kept_at_top[dimension] - self.ceiling(())[dimension]
        then = self._kept_at_top[dimension] + changes.get(ROOT, 0)
        if then - ceiling > max(0, before):
            yield ROOT, dimension, then, ceiling

    def kept_changes(self, dimension: int, change: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield how much more is kept for each queue, and for `ROOT`, if leaves hold more."""
        tree, guarantees = self.tree, self.guarantee[dimension]
        held, kept, below = self.held[dimension], self.kept[dimension], self.kept_below[dimension]
        levels: dict[int, dict[int, int]] = {}
        for position, amount in change.items():
            if amount:
                now = max(held[position] + amount, guarantees[position])
                depth = len(tree.path(position))
                levels.setdefault(depth, {})[position] = now - kept[position]
        for depth in range(max(levels, default=0), 0, -1):
            above = levels.setdefault(depth - 1, {})
            sums: dict[int, int] = {}
            for position, more in levels.get(depth, {}).items():
                yield position, more
                parent = tree.parents[position]
                sums[parent] = sums.get(parent, 0) + more
            for parent, more in sums.items():
                if parent < 0:
                    yield ROOT, more
                else:
                    now = max(below[parent] + more, guarantees[parent])
                    above[parent] = now - kept[parent]
