"""proportion: a queue deserves a share of the cluster by weight, limited by its requests.

Deserved shares are computed by water-filling: shares are assigned by weight in rounds, and what a
queue does not request is divided again among the others. A queue deserves at most its limit, and
may not hold more. What queues guarantee is kept for them, as in Volcano: a queue deserves at most
what the guarantees of others leave, and may not exceed its share where one of these is unused.

A queue's tasks are covered by its deserved share in order of value, as long as it is sufficient.
They are covered in units: the first `min_available` tasks of a job together, and each further task
by itself; for a job with groups, the minima of its groups together, its replicas, and each further
task. Covered tasks are not reclaimed, so that resources claimed within a share cannot be
reclaimed again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import compress, repeat
from math import inf
from operator import add, sub
from typing import NamedTuple

from attrs import define, evolve, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import QueueExcess, Unfit, over_guarantees, over_limit
from batchsched.model.resources import EPSILON, Resource
from batchsched.model.result import QueueOutcome, QueueOutcomes
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.node_functions import EvictionHints
from batchsched.plugin.queues import QueueUses, Use, sum_of_requests
from batchsched.plugin.session_view import SessionView
from batchsched.state.groups import Counting
from batchsched.state.needs import Need, needed_tasks
from batchsched.state.records import JobState, QueueState, SortKey, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, dominant_share, fits, is_empty, minus, plus


@frozen
class ProportionPlugin:
    """Orders queues by share, limits them to what they deserve, and lets them reclaim it."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> ProportionPlugin:
        """Take no arguments."""
        return cls()

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        is_bounded = any(
            queue.info.limit is not None or not queue.info.guarantee.is_empty()
            for queue in view.queues.values()
        )
        return _BoundedProportion(view) if is_bounded else _Proportion(view)


Amounts = tuple[float, ...]
"""Amounts by dimension, which may be fractional."""


def water_fill(
    total: Sequence[float],
    weights: Mapping[str, int],
    requests: Mapping[str, Sequence[float]],
    limits: Mapping[str, Sequence[float]] | None = None,
    guarantees: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Amounts]:
    """Return what each queue deserves of `total`, by name.

    In each round the remainder is divided by weight, in order of name. A queue whose
    request is met keeps the smaller of share and request in each dimension. A queue may
    deserve more than it requests in one dimension while it is short in another.
    Weights are 0 or more; O(queues) rounds of O(queues x dimensions).

    No queue deserves more than its limit, by name (`inf` where there is none), nor more than what
    the guarantees of the others leave (they may be of queues without weight); what it requests
    beyond that does not count. It deserves at least the smaller of its guarantee and its request.
    With any of these, in each dimension the remainder goes to the queues that are not met and below
    their bounds there, to those first that have least for their weight; at most queues x dimensions
    rounds.

    >>> water_fill((100,), {"a": 1, "b": 1}, {"a": (10,), "b": (500,)})
    {'a': (10,), 'b': (90.0,)}
    >>> water_fill((100,), {"a": 1, "b": 1}, {"a": (500,), "b": (500,)}, {"a": (20,)})
    {'a': (20,), 'b': (80.0,)}
    >>> water_fill((100,), {"a": 1, "b": 1}, {"a": (70,), "b": (500,)}, guarantees={"a": (60,)})
    {'a': (60,), 'b': (40.0,)}
    """
    remaining: Amounts = tuple(total)
    names = sorted(weights)
    deserved: dict[str, Amounts] = dict.fromkeys(names, (0,) * len(remaining))
    # The critical loop with thousands of queues: a list for each dimension, with an amount for
    # each queue that is still unmet.
    unmet: list[str] = names
    shares = [weights[name] for name in unmet]
    had: list[list[float]] = [[0] * len(unmet) for _ in remaining]
    wanted = [list(column) for column in zip(*[requests[name] for name in unmet], strict=True)]
    most: list[list[float]] = []  # empty: there are no bounds
    if names and (limits or guarantees):
        had, most = _bounds(remaining, requests, names, limits or {}, guarantees or {})
        wanted = [list(map(min, *columns)) for columns in zip(wanted, most, strict=True)]
        remaining = tuple(map(max, map(sub, remaining, map(sum, had)), repeat(0)))
        deserved.update(zip(unmet, zip(*had, strict=True), strict=True))
    while unmet and not is_empty(remaining):
        all_weights = sum(shares)
        if not all_weights:
            break  # the remaining queues have no weight
        ratios = [weight / all_weights for weight in shares]
        short = [False] * len(unmet)
        dealt: list[list[float]] = []
        is_bounded = False
        for position, (left, before, asked) in enumerate(zip(remaining, had, wanted, strict=True)):
            if not most:
                there = [old + left * ratio for old, ratio in zip(before, ratios, strict=True)]
            else:
                there = _level(left, before, most[position], shares)
                is_bounded |= any(map(_reaches, zip(before, there, most[position], strict=True)))
            dealt.append(there)
            lacks = [want - now >= EPSILON for want, now in zip(asked, there, strict=True)]
            short = [one or other for one, other in zip(short, lacks, strict=True)]
        now_left: list[float] = []
        for position, left in enumerate(remaining):
            kept = [
                there if lacks or there <= want else want
                for there, lacks, want in zip(dealt[position], short, wanted[position], strict=True)
            ]
            changes = list(map(sub, kept, had[position]))
            more = reduce(add, [change for change in changes if change > 0], 0)
            less = reduce(add, [-change for change in changes if change < 0], 0)
            now_left.append(left - more + less)
            had[position] = kept
        deserved.update(zip(unmet, zip(*had, strict=True), strict=True))
        if all(short) and not is_bounded:
            # Everything has been divided. With large amounts, a rounding error too small to
            # change any share could otherwise remain for ever.
            break
        remaining = tuple(now_left)
        unmet = list(compress(unmet, short))
        shares = list(compress(shares, short))
        had = [list(compress(column, short)) for column in had]
        wanted = [list(compress(column, short)) for column in wanted]
        most = [list(compress(column, short)) for column in most]
    return deserved


def _bounds(
    total: Amounts,
    requests: Mapping[str, Sequence[float]],
    names: Sequence[str],
    limits: Mapping[str, Sequence[float]],
    guarantees: Mapping[str, Sequence[float]],
) -> tuple[list[list[float]], list[list[float]]]:
    """Return the least and the most that queues deserve: a list for each dimension."""
    zero, without = (0,) * len(total), (inf,) * len(total)
    least: list[list[float]] = []
    most: list[list[float]] = []
    for d, there in enumerate(total):
        kept = sum(each[d] for each in guarantees.values())
        own = [guarantees.get(name, zero)[d] for name in names]
        least.append([min(each, requests[name][d]) for each, name in zip(own, names, strict=True)])
        left = [there - kept + each if kept > each else inf for each in own]
        of_limits = [limits.get(name, without)[d] for name in names]
        most.append(list(map(max, least[d], map(min, left, of_limits))))
    return least, most


def _level(
    left: float, had: Sequence[float], most: Sequence[float], weights: Sequence[int]
) -> list[float]:
    """Return what queues have once those with least for their weight got what is left.

    These have the same for their weight then, unless that is more than the most that they may.
    """
    below = [i for i, now in enumerate(had) if now < most[i] and weights[i]]
    below.sort(key=lambda i: had[i] / weights[i])
    pool, weight = left, 0
    raised: list[int] = []
    for i in below:
        if weight and pool * weights[i] <= had[i] * weight:
            break
        pool += had[i]
        weight += weights[i]
        raised.append(i)
    there = list(had)
    for i in raised:
        there[i] = min(max(had[i], pool * (weights[i] / weight)), most[i])
    return there


def _reaches(amounts: tuple[float, float, float]) -> bool:
    """Return whether a queue that was below its bound is there now."""
    before, now, most = amounts
    return before < most <= now


@define
class _QueueAccount:
    deserved: Amounts
    allocated: Vector

    def exceeds_any(self) -> bool:
        """Return whether more is allocated than deserved in any dimension."""
        for allocated, deserved in zip(self.allocated, self.deserved, strict=True):
            if allocated - deserved > EPSILON:
                return True
        return False

    def exceeds_since(self, before: Vector) -> bool:
        """Return whether more is allocated than deserved in a dimension where it was not before."""
        for old, new, deserved in zip(before, self.allocated, self.deserved, strict=True):
            if new - deserved > EPSILON >= old - deserved:
                return True
        return False

    def exceeds(self, dimensions: Sequence[int], candidate: TaskState, allocated: Vector) -> bool:
        """Return whether more is allocated than deserved in a dimension that a candidate uses.

        Only the given dimensions count.
        """
        for dimension in dimensions:
            if (
                candidate.resreq[dimension] > EPSILON
                and allocated[dimension] - self.deserved[dimension] > EPSILON
            ):
                return True
        return False


_WANTED = (TaskStatus.PENDING, TaskStatus.RESERVED)

_Claim = tuple[bool, tuple[int, ...]]
"""Whether a claimant's need is within its queue's share, and the dimensions of the need."""

_BEYOND: _Claim = (False, ())
"""The claim of a claimant beyond its queue's share: it may evict only backfill tasks."""


class _Proportion:
    votes_on_jobs_alone = True
    refuses_alike = True

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._in_cluster = view.dimensions.in_cluster
        self._pending: dict[str, list[TaskState]] = {}
        self._make_covered = _Covered if Shortcut.LOANS in view.plain else _RememberedCovered
        self._covered: dict[str, _Covered] = {}
        """The covered tasks of queues, as far as they have been asked for."""
        self._to_check: dict[str, _Covered] = {}
        """By queue, those of which it must be found out first whether any task was lost."""
        self._exceeded = 0
        """How often a queue has come to hold more than it deserves, in any dimension."""
        self._losses = 0
        """How often tasks have lost their coverage."""
        self._uses: QueueUses | None = None
        """What each job uses; None until the state is kept from cycle to cycle."""
        self._total: Vector = ()
        self._requests: dict[str, Vector] = {}
        self._weights: dict[str, int] = {}
        self._limits = self._read_limits()
        self._guarantees = self._read_guarantees()
        self._told = QueueOutcomes()
        """The last outcomes of the queues that jobs may name."""
        self._touched = {name for name, queue in view.queues.items() if not queue.children}
        """The queues that may have another one since."""
        self._accounts: dict[str, _QueueAccount] = {}
        """The accounts of the queues that have jobs, by name."""
        of_queue = {name: queue.jobs for name, queue in view.queues.items() if queue.jobs}
        self._open(of_queue, {name: self._use_of(jobs) for name, jobs in of_queue.items()})

    def resume(self, changes: Changes, /) -> bool:
        self._pending.clear()
        self._covered.clear()
        self._to_check.clear()
        if self._uses is None:
            self._uses = QueueUses(self._use_of, self._view.jobs.values())
            # The last job of a queue may have left since this was opened.
            self._open({*self._uses.of_queue, *self._accounts}, self._uses.of_queue)
        else:
            self._open(self._uses.catch_up(changes), self._uses.of_queue)
        return True

    def _read_limits(self) -> dict[str, Amounts]:
        """Return the limits of the queues that have one, by name and dimension."""
        limits: dict[str, Amounts] = {}
        for name, queue in self._view.queues.items():
            if queue.info.limit is not None:
                most = dict(queue.info.limit.dimensions())
                limits[name] = tuple([most.get(d, inf) for d in self._view.dimensions.names])
        return limits

    def _read_guarantees(self) -> dict[str, Amounts]:
        """Return what is guaranteed to queues that jobs may name, by name and dimension."""
        guarantees: dict[str, Amounts] = {}
        for name, queue in self._view.queues.items():
            if not queue.children:
                kept = queue.info.guarantee.get
                amounts = tuple([kept(d) for d in self._view.dimensions.names])
                if any(amounts):
                    guarantees[name] = amounts
        return guarantees

    def _use_of(self, jobs: Iterable[JobState]) -> Use:
        """Return what jobs hold, and what they request; backfill tasks count for nothing."""
        held: list[TaskState] = []
        wanted: list[TaskState] = []
        for job in jobs:
            for task in job.tasks:
                if not task.is_backfill:
                    if task.status.occupies:
                        held.append(task)
                    elif task.status in _WANTED and not task.is_held:
                        wanted.append(task)
        of_held = sum_of_requests(held, self._view.dimensions.zero)
        return Use(of_held, plus(of_held, sum_of_requests(wanted, self._view.dimensions.zero)))

    def _open(self, names: Iterable[str], uses: Mapping[str, Use]) -> None:
        """Open accounts for some queues; compute what all deserve, if any request has changed."""
        is_changed = self._total != self._view.cluster
        self._total = self._view.cluster
        for name in names:
            use = uses.get(name)
            self._touched.add(name)
            if use is None:
                is_changed |= self._accounts.pop(name, None) is not None
                self._requests.pop(name, None)
                self._weights.pop(name, None)
                continue
            if self._requests.get(name) != use.request:
                is_changed = True
                self._requests[name] = use.request
                self._weights[name] = self._view.queues[name].info.weight
            self._accounts.setdefault(name, _QueueAccount((), use.held)).allocated = use.held
        if is_changed:
            deserved = water_fill(
                self._total, self._weights, self._requests, self._limits, self._guarantees
            )
            for name, amounts in deserved.items():
                account = self._accounts[name]
                if account.deserved != amounts:
                    account.deserved = amounts
                    self._touched.add(name)

    def _covered_of(self, name: str) -> _Covered:
        known = self._covered.get(name)
        if known is None:
            deserved = self._accounts[name].deserved
            known = self._make_covered(self._view, self._view.queues[name], deserved)
            self._covered[name] = known
        return known

    def queue_order_key(self, queue: QueueState, /) -> float:
        account = self._accounts.get(queue.name)
        if account is None:
            return 0.0
        return dominant_share(
            account.allocated[: self._in_cluster], account.deserved[: self._in_cluster]
        )

    def overused(self, queue: QueueState, /) -> bool:
        account = self._accounts.get(queue.name)
        return account is not None and fits(account.deserved, account.allocated)

    def queue_share(self, queue: QueueState, /) -> tuple[Amounts, Amounts] | None:
        account = self._accounts.get(queue.name)
        return None if account is None else (account.deserved, account.allocated)

    def on_allocate(self, task: TaskState, /) -> None:
        self._charge(task, 1)

    def on_deallocate(self, task: TaskState, /) -> None:
        self._charge(task, -1)

    def _charge(self, task: TaskState, sign: int) -> None:
        queue = None if task.job is None else task.job.queue
        if queue is None or task.is_backfill:
            return
        self._touched.add(queue.name)
        account = self._accounts[queue.name]
        before = account.allocated
        account.allocated = plus(before, task.resreq) if sign > 0 else minus(before, task.resreq)
        self._exceeded += account.exceeds_since(before)
        covered = self._covered.get(queue.name)
        if covered is not None and covered.may_change_by(task, sign):
            self._to_check[queue.name] = covered

    # What the result tells of queues

    def wants_of_queues(self) -> Mapping[str, tuple[Resource, Resource]]:
        """Return what each queue holds and asks for within its limit, and what it deserves."""
        resource, zero = self._view.dimensions.resource, self._view.dimensions.zero
        wants: dict[str, tuple[Resource, Resource]] = {}
        for name in self._view.queues:
            asked, account = self._requests.get(name, zero), self._accounts.get(name)
            limit = self._limits.get(name)
            most = asked if limit is None else map(min, asked, limit)
            wants[name] = resource(most), resource(zero if account is None else account.deserved)
        return wants

    def queue_outcomes(
        self, _task_order_key: Callable[[TaskState], SortKey], /
    ) -> Mapping[str, QueueOutcome]:
        new = {
            name: self._outcome(self._view.queues[name])
            for name in sorted(self._touched)  # all of them the first time
        }
        self._touched.clear()
        if any(self._told.get(name) != outcome for name, outcome in new.items()):
            self._told = QueueOutcomes({**self._told, **new})
        return self._told

    def _outcome(self, queue: QueueState) -> QueueOutcome:
        resource, zero = self._view.dimensions.resource, self._view.dimensions.zero
        account = self._accounts.get(queue.name) or _QueueAccount(zero, zero)
        within = tuple(map(min, account.allocated, account.deserved))
        return QueueOutcome(
            parent=queue.info.parent,
            fair_share=resource(account.deserved),
            allocated=resource(account.allocated),
            limit=queue.info.limit,
            covered=resource(within),
            on_loan=resource(map(sub, account.allocated, within)),
        )

    # Reclaiming: within the claimant's share, from queues beyond theirs.

    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=self.claimant_key, shielded=self.shielded)

    def claimant_key(self, claimant: TaskState, /) -> tuple[_Claim, int, int]:
        # Covered tasks are shielded until any task loses its coverage, and all tasks of a queue
        # until it exceeds its share.
        claim = self._claim(claimant)
        if claim is _BEYOND:
            return claim, 0, 0
        self._find_losses(claimant)
        return claim, self._losses, self._exceeded

    def _claim(self, claimant: TaskState) -> _Claim:
        need = self._need(claimant)
        account = self._accounts[_queue_of(claimant).name]
        allocated, deserved = account.allocated, account.deserved
        asked: list[int] = []
        for dimension, there in enumerate(self._view.cluster):
            needed = need[dimension]
            if there > 0 and needed > EPSILON:
                if allocated[dimension] + needed - deserved[dimension] > EPSILON:
                    return _BEYOND
                asked.append(dimension)
        return True, tuple(asked)

    def _find_losses(self, claimant: TaskState) -> None:
        """Check coverage that may have changed, of queues from which a claimant may reclaim."""
        self._losses += self._make_covered.untold_losses
        if not self._to_check:
            return
        own = _queue_of(claimant).name
        for name in [name for name in self._to_check if name != own]:
            # Nothing is reclaimed from a queue within its share; check it once it exceeds it.
            if self._accounts[name].exceeds_any():
                self._losses += self._to_check.pop(name).take_losses()

    def _need(self, claimant: TaskState) -> Vector:
        """Return the request of a task and of the other tasks that its job's minimum lacks."""
        job = claimant.job
        assert job is not None
        lacks = job.lacks(Counting.PROMISED)
        if lacks <= 1 and job.groups is None:
            return claimant.resreq
        tasks = self._pending.get(job.uid)
        if tasks is None:
            # Most of them are Pending, or will be after a rollback.
            wanted = [task for task in job.tasks if not task.is_best_effort]
            tasks = self._pending[job.uid] = self._view.in_task_order(wanted)
        pending = [task for task in tasks if task.status is TaskStatus.PENDING and not task.is_held]
        if job.groups is not None:
            needed = [task for task in needed_tasks(job.groups, pending) if task is not claimant]
        else:
            needed = [task for task in pending if task is not claimant][: lacks - 1]
        return plus(claimant.resreq, sum_of_requests(needed, self._view.dimensions.zero))

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        is_within, asked = self._claim(claimant)
        if is_within:
            self._find_losses(claimant)
        beyond_share: dict[QueueState, tuple[Sequence[int], Collection[str]]] = {}
        answers: list[bool] = []
        for candidate in candidates:
            queue = None if candidate.job is None else candidate.job.queue
            if queue is None or candidate.is_backfill:
                answers.append(False)
                continue
            if not is_within:
                answers.append(True)
                continue
            known = beyond_share.get(queue)
            if known is None:
                known = beyond_share[queue] = self._beyond_share(queue, asked)
            above, covered = known
            answers.append(
                not above  # most queues have no more than their shares: this pays
                or candidate.uid in covered
                or not any(candidate.resreq[dimension] > EPSILON for dimension in above)
            )
        return answers

    def _beyond_share(
        self, queue: QueueState, asked: Sequence[int]
    ) -> tuple[Sequence[int], Collection[str]]:
        """Return the asked dimensions of which a queue has more than its share, and who is covered.

        Covered tasks are given by UID; none if nothing of the queue may be reclaimed anyway.
        """
        account = self._accounts[queue.name]
        above = [d for d in asked if account.allocated[d] - account.deserved[d] > EPSILON]
        return above, self._covered_of(queue.name).covered() if above else ()

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        is_within, asked = self._claim(claimant)
        left: dict[str, Vector] = {}
        return [self._verdict(candidate, asked, is_within, left) for candidate in candidates]

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], _verdict: Verdict, /
    ) -> Sequence[str]:
        is_within, asked = self._claim(claimant)
        if not is_within:
            beyond = "out of reach, as the claimant's queue would exceed its share"
            return [beyond] * len(candidates)
        reasons: list[str] = []
        for candidate in candidates:
            account = self._accounts[_queue_of(candidate).name]
            is_beyond = account.exceeds(asked, candidate, account.allocated)
            within = "within its queue's share of the requested resources"
            reasons.append("covered by its queue's share" if is_beyond else within)
        return reasons

    def _verdict(
        self,
        candidate: TaskState,
        asked: Sequence[int],
        is_within: bool,
        left: dict[str, Vector],
    ) -> Verdict:
        """Return the verdict on a candidate, and subtract a victim from its queue's use."""
        if candidate.is_backfill:
            return Verdict.VICTIM
        if not is_within:
            return Verdict.PROTECTED
        queue = _queue_of(candidate)
        account = self._accounts[queue.name]
        allocated = left.get(queue.name, account.allocated)
        is_beyond = account.exceeds(asked, candidate, allocated)
        if not is_beyond or self._covered_of(queue.name).covers(candidate):
            return Verdict.PROTECTED
        left[queue.name] = minus(allocated, candidate.resreq)
        return Verdict.VICTIM


def _queue_of(task: TaskState) -> QueueState:
    assert task.job is not None
    assert task.job.queue is not None
    return task.job.queue


_CORE, _REPLICA, _SURPLUS = range(3)
"""Kinds of units, the most valuable first; a surplus is one task on which nothing depends."""


class _Step(NamedTuple):
    """What became of one unit as the units of a queue were gone through."""

    job: JobState
    kind: int
    """0: the minimum of the job; 1: a replica; 2: a single task."""
    tasks: Sequence[TaskState]
    used: Vector
    """What was used of the share before it."""
    is_covered: bool


class _BoundedProportion(_Proportion):
    """Where queues have limits or guarantees: a queue may not hold more than these leave it."""

    def most_allocatable(self, queue: QueueState, /) -> Sequence[float] | None:
        return self._limits.get(queue.name)

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        limit = self._limits.get(queue.name)
        if limit is None and not self._guarantees:
            return None
        leaving = [t for t in need.leaving if not t.is_backfill and _queue_of(t) is queue]
        gone = sum_of_requests(leaving, self._view.dimensions.zero)
        account = self._accounts[queue.name]
        for dimension in need.dimensions:
            asked = need.request[dimension]
            is_too_much = limit is not None and asked > limit[dimension]
            if asked <= gone[dimension] and not is_too_much:
                continue  # it would hold no more than now
            would_hold = account.allocated[dimension] - gone[dimension] + asked
            excess = QueueExcess(
                dimension=self._view.dimensions.names[dimension],
                would_hold=would_hold,
                most=int(account.deserved[dimension]),
                queue=queue.name,
            )
            if limit is not None and would_hold > limit[dimension]:
                over = evolve(excess, most=int(limit[dimension]))
                return over_limit(over, "proportion", asked)
            beyond = would_hold - account.deserved[dimension] >= EPSILON
            if beyond and self._is_kept(dimension, but=queue.name):
                return over_guarantees(excess, "proportion")
        return None

    def _is_kept(self, dimension: int, *, but: str) -> bool:
        """Return whether a queue but one holds less than its guarantee in a dimension."""
        for name, guarantee in self._guarantees.items():
            if name != but and guarantee[dimension]:
                account = self._accounts.get(name)
                held = 0 if account is None else account.allocated[dimension]
                if guarantee[dimension] - held >= EPSILON:
                    return True
        return False


class _Covered:
    """The covered tasks of one queue: the definition, computed anew for each question."""

    untold_losses = 1
    """How many tasks may have lost their coverage whenever it is asked, without being counted."""

    def __init__(self, view: SessionView, queue: QueueState, deserved: Sequence[float]) -> None:
        self._view = view
        self._queue = queue
        self._deserved = deserved

    def covered(self) -> Collection[str]:
        """Return the UIDs of the covered tasks. O(tasks of the queue)."""
        return {task.uid for step in self._steps() if step.is_covered for task in step.tasks}

    def covers(self, task: TaskState) -> bool:
        """Return whether a task is covered."""
        return task.uid in self.covered()

    def may_change_by(self, _task: TaskState, _sign: int, /) -> bool:
        """Take note of a task that was charged to the queue (1) or refunded (-1).

        Returns whether other tasks may have been covered, or not, since they were computed.
        """
        return False

    def take_losses(self) -> int:
        """Return how often tasks have lost their coverage since the last call.

        Tasks that no longer hold resources do not count.
        """
        return 0

    def _steps(self) -> Iterator[_Step]:
        """Go through the units of jobs in order of value; uncovered ones use nothing."""
        used = zero = self._view.dimensions.zero
        for job in self._jobs():
            is_exposed = False
            for kind, tasks in self._units(job):
                size = sum_of_requests(tasks, zero)
                is_covered = not is_exposed and self._reaches(used, size)
                yield _Step(job, kind, tasks, used, is_covered)
                if is_covered:
                    used = plus(used, size)
                is_exposed |= kind == _CORE and not is_covered

    def _jobs(self) -> Sequence[JobState]:
        return sorted(self._queue.jobs, key=_value)

    def _units(self, job: JobState) -> list[tuple[int, list[TaskState]]]:
        """Return the kind and the tasks of each unit of a job, the most valuable first."""
        held = self._held_by(job)
        if not held:
            return []
        if job.groups is None:
            least, more = held[: job.min_available], held[job.min_available :]
            return [(_CORE, least), *((_SURPLUS, [task]) for task in more)]
        units: dict[EvictionUnit, list[TaskState]] = {}
        for task in held:
            units.setdefault(self._view.unit_of(task), []).append(task)
        return [
            (_CORE if unit.is_core else _SURPLUS if unit.is_surplus else _REPLICA, units[unit])
            for unit in sorted(units, key=_value_of_unit)
        ]

    def _held_by(self, job: JobState) -> list[TaskState]:
        """Return the tasks of a job that hold resources, in task order."""
        if not job.ready_count:
            return []
        tasks = self._in_task_order(job)
        return [task for task in tasks if task.status.occupies and not task.is_backfill]

    def _in_task_order(self, job: JobState) -> Sequence[TaskState]:
        return self._view.in_task_order(job.tasks)

    def _reaches(self, used: Vector, more: Vector) -> bool:
        for there, amount, share in zip(used, more, self._deserved, strict=True):
            if amount > EPSILON and there + amount - share >= EPSILON:
                return False
        return True


class _RememberedCovered(_Covered):
    """The covered tasks of one queue, computed again when they may have changed."""

    untold_losses = 0

    def __init__(self, view: SessionView, queue: QueueState, deserved: Sequence[float]) -> None:
        super().__init__(view, queue, deserved)
        self._sorted: Sequence[JobState] | None = None
        self._tasks_of: dict[str, Sequence[TaskState]] = {}
        self._covered: dict[str, TaskState] | None = None
        """The covered tasks by UID; None: not computed yet."""
        self._is_stale = False
        self._losses = 0
        self._single: set[str] = set()
        """UIDs of single tasks that are not covered."""
        self._uncovered: dict[str, Vector] = {}
        """For each job whose minimum is not covered, by UID, the used part of the share then."""
        self._changed: dict[str, JobState] = {}
        """Those of these jobs whose tasks were placed or evicted since."""

    def covered(self) -> Collection[str]:
        """Return the UIDs of the covered tasks. O(1), or O(tasks of the queue) after changes."""
        if self._covered is None or self._is_stale or (self._changed and not self._is_still_true()):
            self._find()
            assert self._covered is not None
        return self._covered.keys()

    def take_losses(self) -> int:
        if self._covered is not None and (self._is_stale or not self._is_still_true()):
            self._find()
        losses, self._losses = self._losses, 0
        return losses

    def may_change_by(self, task: TaskState, sign: int, /) -> bool:
        job = task.job
        if self._covered is None or job is None:
            return False
        if job.uid in self._uncovered:
            if sign < 0 or task.status.occupies:
                self._changed[job.uid] = job
        elif sign > 0:
            self._is_stale |= task.status.occupies and task.uid not in self._single
        elif task.uid in self._covered or (job.groups is not None and task.uid not in self._single):
            self._is_stale = True
        return self._is_stale or bool(self._changed)

    def _is_still_true(self) -> bool:
        """Return whether the changes since the last computation make no difference.

        Uncovered tasks use nothing of the share, so that the eviction of one does not affect
        others. But a job's new minimum may be covered where the old one was not.
        """
        for job in self._changed.values():
            minimum = self._held_by(job)[: job.min_available]
            size = sum_of_requests(minimum, self._view.dimensions.zero)
            if minimum and self._reaches(self._uncovered[job.uid], size):
                return False
        self._changed.clear()
        return True

    def _find(self) -> None:
        before, self._covered = self._covered, {}
        self._single.clear()
        self._uncovered.clear()
        self._changed.clear()
        for step in self._steps():
            if step.is_covered:
                self._covered.update((task.uid, task) for task in step.tasks)
            elif step.kind == _SURPLUS:
                self._single.add(step.tasks[0].uid)
            elif step.job.groups is None:
                self._uncovered[step.job.uid] = step.used
        self._is_stale = False
        if before is not None and any(
            uid not in self._covered and task.status.occupies for uid, task in before.items()
        ):
            self._losses += 1

    def _jobs(self) -> Sequence[JobState]:
        if self._sorted is None:
            self._sorted = super()._jobs()
        return self._sorted

    def _in_task_order(self, job: JobState) -> Sequence[TaskState]:
        tasks = self._tasks_of.get(job.uid)
        if tasks is None:
            tasks = self._tasks_of[job.uid] = super()._in_task_order(job)
        return tasks


def _value_of_unit(unit: EvictionUnit) -> tuple[object, ...]:
    return unit.value


def _value(job: JobState) -> tuple[int, float, str]:
    return -job.info.priority, job.info.creation_time, job.uid
