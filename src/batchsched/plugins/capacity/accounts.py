"""The fair shares and the holdings of the queues of a tree, kept up to date in a cycle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import repeat
from math import inf

from batchsched.model.cluster import QueueStatus, TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.plugin.queues import QueueTree, Use, sum_of_requests
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.capacity.shares import (
    Entitlements,
    demands,
    effective_guarantees,
    effective_status,
    fair_shares,
    nominal_shares,
)
from batchsched.state.needs import Need
from batchsched.state.records import JobState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, plus, total_of

ROOT = -1
"""The position of the root, which has no name: all queues together."""

Excess = tuple[int, int, int, int]
"""A queue (or `ROOT`), a dimension, the amount that would be held, and its limit (or the room)."""

RoomOfQueues = Callable[[Collection[TaskState]], Vector]
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


def use_of(view: SessionView, jobs: Collection[JobState]) -> Use:
    """Return what jobs of a queue hold, and what they request.

    They hold what is charged to the queue; a backfill task is not, and requests nothing of it.
    Jobs outside the session wait for nothing, and others for no more than their maxima allow.
    """
    charged = [t for job in jobs for t in job.tasks if t.status.charged and not t.is_backfill]
    wanted: list[TaskState] = []
    for job in jobs:
        if not job.in_session:
            continue
        if job.count(TaskStatus.PENDING):
            pending = [t for t in job.having(TaskStatus.PENDING) if not t.is_backfill]
            if job.groups is not None:
                pending = job.groups.within_maxima(view.in_task_order(pending))
            wanted += pending
        if job.count(TaskStatus.RESERVED):
            wanted += [t for t in job.having(TaskStatus.RESERVED) if not t.is_backfill]
    held = sum_of_requests(charged, view.dimensions.zero)
    return Use(held, plus(held, sum_of_requests(wanted, view.dimensions.zero)) if wanted else held)


class Departure:
    """What changes once some tasks have left: what leaves hold, and the room of all queues."""

    __slots__ = ("held", "room")

    def __init__(self, held: Sequence[tuple[int, Vector]], room: Vector) -> None:
        self.held = held
        """The amounts that leaves would no longer hold: positions and vectors."""
        self.room = room
        """The room of all queues then."""


class QueueAccounts:
    """Fair shares, and what queues hold; all lists are by dimension, then by position.

    `held` is what is allocated to a queue and all queues below it. `kept` is what is not available
    to other queues: for a leaf the larger of what it holds and its guarantee, for an inner queue
    the larger of its guarantee and `kept_below`, the sum of what is kept below it.
    """

    __slots__ = (
        *(
            "_basis",
            "_granted",
            "_kept_at_top",
            "_least_limits",
            "kept_below",
            "_met",
            "_nominal",
            "_room",
            "demand",
            "refusals",
            "dimensions",
            "guarantee",
            "held",
            "kept",
            "limit",
            "share",
        ),
        *("statuses", "total", "tree"),
    )

    def __init__(
        self,
        tree: QueueTree,
        dimensions: Sequence[str],
        *,
        total: Vector,
        held: Mapping[int, Vector],
        requests: Mapping[int, Vector],
        room: RoomOfQueues | None = None,
        units: Sequence[int] | None = None,
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
            room: returns the most that all queues may hold together; None: the total.
            units: the unit in which the shares of each dimension are dealt; None: 1.
            before: accounts of the same tree and dimensions whose shares may be reused.
            weights: returns the weights by which siblings share the surplus in a dimension; shares
                are then never reused. None: the weights of the queues.

        """
        self.tree = tree
        self.dimensions = tuple(dimensions)
        """Their names."""
        self.total = total
        self.statuses: list[QueueStatus] = (
            effective_status(tree) if before is None else before.statuses
        )
        is_open = self.statuses.count(QueueStatus.OPEN) == len(self.statuses)
        count = len(tree.names)
        self.held: list[list[int]] = []
        self.share: list[list[int]] = []
        self.guarantee: list[list[int]] = []
        self.limit: list[list[int | None]] = []
        self.kept: list[list[int]] = []
        self.kept_below: list[list[int]] = []
        self._kept_at_top: list[int] = []
        self.demand: list[list[int]] = []
        self._granted: list[Entitlements] = []
        self._nominal: list[list[int]] | None = None
        self._met: list[list[int]] | None = None
        self._least_limits: dict[int, list[float]] = {}
        """By leaf, the least limit on its path in each dimension."""
        self._room: RoomOfQueues = room or (lambda _: total)
        self.refusals: dict[tuple[int, Vector], Unfit | None] = {}
        """What was said of leaves and requests in addition, as long as nothing is charged."""
        self._basis: list[tuple[int, int, list[int], list[int] | None]] = []
        for dimension, (name, unit) in enumerate(
            zip(dimensions, repeat(1) if units is None else units, strict=False)
        ):
            of_leaves = [0] * count
            wanted = [0] * count
            for position, vector in held.items():
                of_leaves[position] = vector[dimension]
            for position, vector in requests.items():
                wanted[position] = vector[dimension]
            # For leaves that are not open, the shares also depend on what they hold.
            basis = total[dimension], unit, wanted, None if is_open else list(of_leaves)
            self._basis.append(basis)
            if before is not None and weights is None and before._basis[dimension] == basis:
                self.share.append(before.share[dimension])
                self.demand.append(before.demand[dimension])
                self.guarantee.append(before.guarantee[dimension])
                self.limit.append(before.limit[dimension])
                self._granted.append(before._granted[dimension])
                self._enter(of_leaves, before.guarantee[dimension])
                continue
            granted = Entitlements(tree, name) if before is None else before._granted[dimension]
            self._granted.append(granted)
            guarantees = effective_guarantees(tree, granted.guarantees)
            demand = demands(
                tree,
                requests=wanted,
                allocated=of_leaves,
                limits=granted.limits,
                statuses=self.statuses,
            )
            self.share.append(
                fair_shares(
                    tree,
                    total=total[dimension],
                    demands=demand,
                    guarantees=guarantees,
                    deserved=granted.deserved,
                    weights=None if weights is None else partial(_of, weights, dimension),
                    unit=unit,
                )
            )
            self.demand.append(demand)
            self.guarantee.append(guarantees)
            self.limit.append(granted.limits)
            self._enter(of_leaves, guarantees)

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
        self.refusals.clear()
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

    def amounts(self, share: Share) -> list[list[int]]:
        """Return a share of each queue, by dimension, then by position. O(queues) once."""
        if share is Share.FAIR:
            return self.share
        if share is Share.NOMINAL:
            if self._nominal is None:
                self._nominal = [
                    nominal_shares(
                        self.tree, total=total, guarantees=guarantees, deserved=granted.deserved
                    )
                    for total, guarantees, granted in zip(
                        self.total, self.guarantee, self._granted, strict=True
                    )
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

    def room_changed(self) -> None:
        """Record that tasks that are charged to no queue moved."""
        self.refusals.clear()

    def once_gone(self, tasks: Collection[TaskState]) -> Departure:
        """Return what changes for queues once some tasks have left."""
        position = self.tree.position
        held = [
            (position[task.job.queue.name], task.resreq)
            for task in tasks
            if not task.is_backfill and task.job is not None and task.job.queue is not None
        ]
        return Departure(held, self._room(tasks))

    def is_less_room_without(self, tasks: Collection[TaskState]) -> bool:
        """Return whether queues may hold less together once some tasks have left lost devices."""
        return self._room(tasks) != self._room(())

    def most(self, leaf: int) -> Sequence[float]:
        """Return the most that a leaf may hold, by the limits on its path and the room of all."""
        least = self._least_limits.get(leaf)
        if least is None:
            path = self.tree.path(leaf)
            limits = [[of_all[position] for position in path] for of_all in self.limit]
            least = [min((one for one in of if one is not None), default=inf) for of in limits]
            self._least_limits[leaf] = least
        return tuple(map(min, least, self._room(())))

    def excesses(
        self,
        leaf: int,
        request: Vector,
        dimensions: Iterable[int],
        departure: Departure | None = None,
    ) -> Iterator[Excess]:
        """Yield all limits that would be exceeded if a leaf held a request in addition.

        By dimension: of the queues on its path, upward, and then the room of all together, in
        which a guarantee counts as held. What is exceeded no more than now is left out, unless the
        request alone exceeds a limit.

        Args:
            leaf: its position.
            request: what it would hold in addition.
            dimensions: the dimensions of the request to check.
            departure: what changes by tasks that would leave; None: there are none.

        O(dimensions x depth) for the request and for each leaving amount.

        """
        path, room = self.tree.path(leaf), self._room(())
        is_less_room = departure is not None and departure.room != room
        for dimension in dimensions:
            found = self._excesses_alone(dimension, path, request[dimension], room[dimension])
            if departure is None:
                yield from found
            # What is not exceeded before tasks leave is not exceeded after, with as much room.
            elif is_less_room or next(found, None) is not None:
                change = {leaf: request[dimension]}
                for other, vector in departure.held:
                    change[other] = change.get(other, 0) - vector[dimension]
                room_then = departure.room[dimension]
                yield from self._excesses_in(dimension, path, change, room_then, request[dimension])

    def _excesses_alone(
        self, dimension: int, path: Sequence[int], amount: int, room: int
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
        if now > room:
            yield ROOT, dimension, now, room

    def _excesses_in(
        self,
        dimension: int,
        path: Sequence[int],
        change: Mapping[int, int],
        room: int,
        alone: int,
    ) -> Iterator[Excess]:
        """Yield the limits that queues on a path would exceed if leaves held more or less.

        `alone`: what is asked for; a limit that is less can never be kept with it.
        """
        kept, limits = self.kept[dimension], self.limit[dimension]
        changes = dict(self._kept_changes(dimension, change))
        for position in path:
            limit, more = limits[position], changes.get(position, 0)
            now = kept[position] + more
            if limit is not None and now > limit and (more > 0 or alone > limit):
                yield position, dimension, now, limit
        before = self._kept_at_top[dimension] - self._room(())[dimension]
        then = self._kept_at_top[dimension] + changes.get(ROOT, 0)
        if then - room > max(0, before):
            yield ROOT, dimension, then, room

    def _kept_changes(self, dimension: int, change: Mapping[int, int]) -> Iterator[tuple[int, int]]:
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


class ProjectedAccounts:
    """What queues would hold once some units are evicted."""

    __slots__ = ("_accounts", "_gone", "_jobs", "_less", "_less_kept")

    def __init__(self, accounts: QueueAccounts) -> None:
        """Create accounts without evicted units."""
        self._accounts = accounts
        self._gone: dict[str, TaskState] = {}
        """The tasks that would be gone, by UID."""
        self._jobs: set[str] = set()
        """The UIDs of their jobs."""
        self._less: dict[int, list[int]] = {}
        """By queue position and dimension, how much less would be held."""
        self._less_kept: dict[int, list[int]] = {}
        """The same of what would be kept, also for `ROOT`."""

    def take(self, leaf: int, unit: EvictionUnit) -> None:
        """Take off a unit of a leaf, with all tasks that are evicted with it."""
        size = self.size_of(unit)
        self._less_kept.update(list(self._kept_without(leaf, size)))
        self._gone.update((task.uid, task) for task in unit.victims)
        self._jobs.add(unit.job.uid)
        for position in self._accounts.tree.path(leaf):
            less = self._less.setdefault(position, [0] * len(size))
            for dimension, amount in enumerate(size):
                less[dimension] += amount

    def has_taken(self, unit: EvictionUnit) -> bool:
        """Return whether a unit's own tasks were taken off."""
        return unit.tasks[0].uid in self._gone

    def left_of(self, unit: EvictionUnit) -> Sequence[TaskState]:
        """Return the tasks that are evicted with a unit and were not taken off before."""
        if unit.job.uid not in self._jobs:
            return unit.victims
        return [task for task in unit.victims if task.uid not in self._gone]

    def size_of(self, unit: EvictionUnit) -> Sequence[int]:
        """Return how much less its queue would hold without a unit too."""
        if unit.job.uid not in self._jobs:
            return unit.size_of_victims
        left = [task.resreq for task in self.left_of(unit) if not task.is_backfill]
        return total_of(left, (0,) * len(unit.size))

    def held(self, position: int, dimension: int) -> int:
        """Return what a queue would hold."""
        less = self._less.get(position)
        held = self._accounts.held[dimension][position]
        return held if less is None else held - less[dimension]

    def kept(self, position: int, dimension: int) -> int:
        """Return what a queue would keep from others: what it holds or is guaranteed."""
        less = self._less_kept.get(position)
        kept = self._accounts.kept[dimension][position]
        return kept if less is None else kept - less[dimension]

    def is_above(self, queues: Iterable[int], dimension: int, shares: Iterable[Share]) -> bool:
        """Return whether each of some queues would still keep more than each of some shares."""
        amounts = [self._accounts.amounts(share)[dimension] for share in shares]
        return all(
            self.kept(queue, dimension) > of_all[queue] for queue in queues for of_all in amounts
        )

    def relieves_root(self, leaf: int, unit: EvictionUnit, dimension: int) -> bool:
        """Return whether, without a unit too, queues would keep less beyond the room of all."""
        before = self._less_kept.get(ROOT)
        now = dict(self._kept_without(leaf, self.size_of(unit))).get(ROOT, before)
        less_kept = (now[dimension] if now else 0) - (before[dimension] if before else 0)
        gone = list(self._gone.values())
        room = self._accounts.once_gone(gone).room[dimension]
        room_then = self._accounts.once_gone([*gone, *self.left_of(unit)]).room[dimension]
        return less_kept > room - room_then

    def _kept_without(self, leaf: int, size: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Yield how much less queues, and `ROOT`, would keep if a leaf held less too."""
        accounts = self._accounts
        less = list(size)  # of what is held, for the leaf; above it, of what is kept below
        below, gone_below = accounts.held, self._less.get(leaf)
        for position in accounts.tree.path(leaf):
            known = self._less_kept.get(position)
            changed = [0] * len(less) if known is None else list(known)
            for d, amount in enumerate(less):
                if amount:
                    there = below[d][position] - (0 if gone_below is None else gone_below[d])
                    kept = accounts.kept[d][position] - changed[d]
                    less[d] = kept - max(there - amount, accounts.guarantee[d][position])
                    changed[d] += less[d]
            yield position, changed
            parent = accounts.tree.parents[position]
            if parent >= 0:
                below, gone_below = accounts.kept_below, self._less_kept_below(parent)
        known = self._less_kept.get(ROOT, [0] * len(less))
        yield ROOT, [before + amount for before, amount in zip(known, less, strict=True)]

    def _less_kept_below(self, position: int) -> list[int] | None:
        """Return how much less the children of a queue would keep together; None: nothing."""
        parents = self._accounts.tree.parents
        less = [
            of_child
            for child, of_child in self._less_kept.items()
            if child != ROOT and parents[child] == position
        ]
        return list(map(sum, zip(*less, strict=True))) if less else None

    def keeps_share(self, leaf: int, size: Sequence[int]) -> bool:
        """Return whether a leaf would hold its share, in what a unit holds, without it too."""
        share = self._accounts.share
        return all(
            self.held(leaf, dimension) - amount >= share[dimension][leaf]
            for dimension, amount in enumerate(size)
            if amount
        )

    def fullness_without(self, leaf: int, size: Sequence[int]) -> Fullness:
        """Return how full a leaf would be without a unit too, in the fullest dimension."""
        share, total = self._accounts.share, self._accounts.total
        return fullness(
            (self.held(leaf, d) - amount, share[d][leaf], total[d]) for d, amount in enumerate(size)
        )

    def fullest(self, leaves: Iterable[int], dimensions: Collection[int]) -> int:
        """Walk down from the root to the leaf of the fullest queues, in some dimensions.

        Ties: the younger queue, then the later one in order of name.
        """
        accounts = self._accounts
        tree = accounts.tree
        paths = {leaf: tree.path(leaf) for leaf in leaves}
        step = 1
        while len(paths) > 1:
            branches = {path[-step] for path in paths.values()}
            best = max(branches, key=lambda position: self._rank(position, dimensions))
            paths = {leaf: path for leaf, path in paths.items() if path[-step] == best}
            step += 1
        return next(iter(paths))

    def _rank(self, position: int, dimensions: Collection[int]) -> tuple[Fullness, float, str]:
        share, total = self._accounts.share, self._accounts.total
        fullest = fullness(
            (self.held(position, d), share[d][position], total[d]) for d in dimensions
        )
        queue = self._accounts.tree.queues[position]
        return fullest, queue.creation_time, queue.name
