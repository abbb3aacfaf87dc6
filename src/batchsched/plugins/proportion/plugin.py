"""proportion: each queue deserves a share of the cluster by its weight, and no more than it asks.

What a queue deserves is found by water-filling: shares
by weight are dealt out in rounds, and what a queue does not ask for is dealt
again to the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, frozen

from batchsched.model.resources import EPSILON
from batchsched.model.status import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict
from batchsched.plugins.proportion.coverage import Coverage
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, dominant_share, fits, is_empty, minus, plus

__all__ = ["ProportionPlugin", "water_fill"]

Amounts = tuple[float, ...]


@frozen
class ProportionPlugin:
    """Orders queues by share, keeps them to what they deserve, gives back what they lack."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> ProportionPlugin:
        """Take no arguments."""
        return cls()

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Proportion(view)


def water_fill(
    total: Sequence[float],
    weights: Mapping[str, int],
    requests: Mapping[str, Sequence[float]],
) -> dict[str, Amounts]:
    """Return what each queue deserves of `total`, by name.

    Rounds deal out what remains by weight, in order of name; a queue that has what
    it requests is met and keeps the smaller of both, per dimension. A queue may
    deserve more than it requests in one dimension as long as it is short in another.
    Weights are 0 or more; O(queues) rounds of O(queues x dimensions).

    >>> water_fill((100,), {"a": 1, "b": 1}, {"a": (10,), "b": (500,)})
    {'a': (10,), 'b': (90.0,)}
    """
    remaining: Amounts = tuple(total)
    nothing: Amounts = (0,) * len(remaining)
    deserved: dict[str, Amounts] = dict.fromkeys(sorted(weights), nothing)
    unmet = list(deserved)
    while unmet and not is_empty(remaining):
        all_weights = sum(weights[name] for name in unmet)
        if not all_weights:
            break  # those that are left get nothing
        increases: list[float] = list(nothing)
        decreases: list[float] = list(nothing)
        still_unmet: list[str] = []
        # The one loop that matters where there are thousands of queues.
        for name in unmet:
            before, request = deserved[name], requests[name]
            ratio = weights[name] / all_weights
            now = [had + left * ratio for had, left in zip(before, remaining, strict=True)]
            for wanted, there in zip(request, now, strict=True):
                if wanted - there >= EPSILON:
                    still_unmet.append(name)
                    break
            else:
                now = list(map(min, now, request))
            deserved[name] = tuple(now)
            for dimension, old in enumerate(before):
                change = now[dimension] - old
                if change > 0:
                    increases[dimension] += change
                elif change < 0:
                    decreases[dimension] -= change
        if len(still_unmet) == len(unmet):
            # All that remained has been dealt out. Of large amounts a rounding error could remain
            # that is too small to change what anybody deserves, for ever.
            break
        remaining = tuple(
            left - taken + given
            for left, taken, given in zip(remaining, increases, decreases, strict=True)
        )
        unmet = still_unmet
    return deserved


@define
class _Account:
    deserved: Amounts
    allocated: Vector
    coverage: Coverage
    backfilling: int = 0
    """How many tasks marked as backfill are charged to the queue's jobs."""

    def exceeds(self, dimensions: Sequence[int], candidate: TaskState, allocated: Vector) -> bool:
        """Return whether more is allocated than deserved of what a candidate holds.

        Of the dimensions given, those count of which it holds any.
        """
        for dimension in dimensions:
            if (
                candidate.resreq[dimension] > EPSILON
                and allocated[dimension] - self.deserved[dimension] > EPSILON
            ):
                return True
        return False


_Claim = tuple[bool, tuple[int, ...]]
"""Whether all that a claimant needs stays within its queue's share; of which dimensions it is."""


@frozen
class _Use:
    """What jobs use of the cluster, and would."""

    held: Vector
    wanted: Vector
    backfilling: int
    """How many of their tasks are marked as backfill and hold resources."""

    def plus(self, other: _Use) -> _Use:
        return _Use(
            plus(self.held, other.held),
            plus(self.wanted, other.wanted),
            self.backfilling + other.backfilling,
        )

    def minus(self, other: _Use) -> _Use:
        return _Use(
            minus(self.held, other.held),
            minus(self.wanted, other.wanted),
            self.backfilling - other.backfilling,
        )


_ToDeal = tuple[Vector, dict[str, int], dict[str, Vector]]
"""What there is, and the weights and requests of queues: what water-filling depends on."""


class _Proportion:
    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._in_cluster = view.dimensions.in_cluster
        self._pending: dict[str, list[TaskState]] = {}
        self._uses: _UsesOfJobs | None = None
        """What each job uses; None until it is to be kept from cycle to cycle."""
        uses: dict[str, _Use] = {}
        for queue in view.queues.values():
            if queue.jobs:
                held, wanted = _use_of(queue.jobs, view.dimensions.zero)
                backfilling = sum(job.backfilling for job in queue.jobs)
                uses[queue.name] = _Use(held, wanted, backfilling)
        self._dealt = self._to_deal(uses)
        self._accounts: dict[str, _Account] = {}
        for name, amounts in water_fill(*self._dealt).items():
            self._accounts[name] = self._account(name, amounts, uses[name])

    def _account(self, name: str, deserved: Amounts, use: _Use) -> _Account:
        view = self._view
        coverage = Coverage(view.queues[name], deserved, view.dimensions.zero, view.in_task_order)
        return _Account(deserved, use.held, coverage, use.backfilling)

    def resume(self, changes: Changes, /) -> bool:
        self._pending.clear()
        if self._uses is None:
            self._uses = _UsesOfJobs(self._view)
            touched = set(self._uses.of_queue)
        else:
            touched = self._uses.catch_up(changes)
        uses = self._uses.of_queue
        to_deal = self._to_deal(uses)
        if to_deal != self._dealt:
            self._dealt = to_deal
            touched = set(uses)
            deserved = water_fill(*to_deal)
        else:
            deserved = {name: self._accounts[name].deserved for name in touched & uses.keys()}
        for name in touched:
            if name in uses:
                use = uses[name]
                self._accounts[name] = self._account(name, deserved[name], use)
        for name in self._accounts.keys() - uses.keys():
            del self._accounts[name]
        return True

    def _to_deal(self, uses: Mapping[str, _Use]) -> _ToDeal:
        queues = self._view.queues
        weights = {name: queues[name].info.weight for name in uses}
        requests = {name: plus(use.held, use.wanted) for name, use in uses.items()}
        return self._view.cluster, weights, requests

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
        account = self._account_of(task)
        if account is None:
            return
        if task.is_backfill:
            account.backfilling += 1
        else:
            account.allocated = plus(account.allocated, task.resreq)
            account.coverage.came(task)

    def on_deallocate(self, task: TaskState, /) -> None:
        account = self._account_of(task)
        if account is None:
            return
        if task.is_backfill:
            account.backfilling -= 1
        else:
            account.allocated = minus(account.allocated, task.resreq)
            account.coverage.went(task)

    def _account_of(self, task: TaskState) -> _Account | None:
        if task.job is None or task.job.queue is None:
            return None
        return self._accounts[task.job.queue.name]

    # Reclaiming: within one's own share, from what is beyond the share of others.

    def claimant_key(self, claimant: TaskState, /) -> _Claim:
        need = self._need(claimant)
        asked = tuple(
            dimension
            for dimension, (there, needed) in enumerate(zip(self._view.cluster, need, strict=True))
            if there > 0 and needed > EPSILON
        )
        account = self._account_of(claimant)
        assert account is not None
        is_within = all(
            account.allocated[d] + need[d] - account.deserved[d] <= EPSILON for d in asked
        )
        return is_within, asked

    def _need(self, claimant: TaskState) -> Vector:
        """Return what a task and as many more as its job lacks to its minimum ask for together."""
        job = claimant.job
        assert job is not None
        lacking = job.min_available - job.ready_count - job.waiting_count - 1
        need = claimant.resreq
        if lacking <= 0:
            return need
        tasks = self._pending.get(job.uid)
        if tasks is None:
            # Most of them are Pending, or will be once a statement is undone.
            wanted = [task for task in job.tasks if not task.is_best_effort]
            tasks = self._pending[job.uid] = self._view.in_task_order(wanted)
        for task in tasks:
            if task.status is TaskStatus.PENDING and task is not claimant:
                need = plus(need, task.resreq)
                lacking -= 1
                if not lacking:
                    break
        return need

    def may_give(self, queue: QueueState, /) -> bool:
        account = self._accounts.get(queue.name)
        return (
            account is None
            or account.backfilling > 0
            or any(
                allocated - deserved > EPSILON
                for allocated, deserved in zip(account.allocated, account.deserved, strict=True)
            )
        )

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        # Not by coverage: what is covered now may not be once something more valuable has gone.
        is_within, asked = self.claimant_key(claimant)
        answers: list[bool] = []
        for candidate in candidates:
            account = self._account_of(candidate)
            answers.append(
                account is not None
                and not candidate.is_backfill
                and not (is_within and account.exceeds(asked, candidate, account.allocated))
            )
        return answers

    def reclaimable_alone(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        is_within, asked = self.claimant_key(claimant)
        return [self._verdict(candidate, asked, is_within, None) for candidate in candidates]

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        is_within, asked = self.claimant_key(claimant)
        left: dict[str, Vector] = {}
        return [self._verdict(candidate, asked, is_within, left) for candidate in candidates]

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], _verdict: Verdict, /
    ) -> Sequence[str]:
        is_within, asked = self.claimant_key(claimant)
        if not is_within:
            beyond = "out of reach, as the claimant's queue would exceed its share"
            return [beyond] * len(candidates)
        reasons: list[str] = []
        for candidate in candidates:
            account = self._account_of(candidate)
            assert account is not None
            is_beyond = account.exceeds(asked, candidate, account.allocated)
            within = "within its queue's share of what is asked for"
            reasons.append("covered by its queue's share" if is_beyond else within)
        return reasons

    def _verdict(
        self,
        candidate: TaskState,
        asked: Sequence[int],
        is_within: bool,
        left: dict[str, Vector] | None,
    ) -> Verdict:
        """Return the verdict on a candidate, and charge it to what is left of its queue's use."""
        if candidate.is_backfill:
            return Verdict.VICTIM
        if not is_within:
            return Verdict.PROTECTED
        account = self._account_of(candidate)
        job = candidate.job
        assert account is not None
        assert job is not None
        assert job.queue is not None
        name = job.queue.name
        allocated = account.allocated if left is None else left.get(name, account.allocated)
        if not account.exceeds(asked, candidate, allocated) or account.coverage.covers(candidate):
            return Verdict.PROTECTED
        if left is not None:
            left[name] = minus(allocated, candidate.resreq)
        return Verdict.VICTIM


class _UsesOfJobs:
    """What each job uses, and so what each queue does, brought up to date job by job."""

    def __init__(self, view: SessionView) -> None:
        self._zero = view.dimensions.zero
        self._of_job: dict[str, tuple[str, _Use]] = {}
        self._jobs: Counter[str] = Counter()
        """How many jobs each queue has."""
        self.of_queue: dict[str, _Use] = {}
        """By name, of the queues that have jobs."""
        for job in view.jobs.values():
            self._enter(job)

    def catch_up(self, changes: Changes) -> set[str]:
        """Count again what changed; return the names of the queues that it is in."""
        touched: set[str] = set()
        for job in changes.jobs_gone:
            self._leave(job.uid, touched)
        for job in changes.jobs:
            self._leave(job.uid, touched)
            self._enter(job)
            if job.queue is not None:
                touched.add(job.queue.name)
        return touched

    def _enter(self, job: JobState) -> None:
        if job.queue is None:
            return
        name = job.queue.name
        use = _Use(*_use_of([job], self._zero), job.backfilling)
        self._of_job[job.uid] = name, use
        self._jobs[name] += 1
        known = self.of_queue.get(name)
        self.of_queue[name] = use if known is None else known.plus(use)

    def _leave(self, uid: str, touched: set[str]) -> None:
        known = self._of_job.pop(uid, None)
        if known is None:
            return
        name, use = known
        touched.add(name)
        self._jobs[name] -= 1
        if self._jobs[name]:
            self.of_queue[name] = self.of_queue[name].minus(use)
        else:
            del self._jobs[name], self.of_queue[name]


def _use_of(jobs: Iterable[JobState], zero: Vector) -> tuple[Vector, Vector]:
    """Return what jobs hold, and what they want besides."""
    held: dict[Vector, int] = {}
    wanted: dict[Vector, int] = {}
    for job in jobs:
        for task in job.tasks:
            if task.is_backfill:
                continue
            status = task.status
            if status.occupies:
                held[task.resreq] = held.get(task.resreq, 0) + 1
            elif status is TaskStatus.PENDING or status is TaskStatus.RESERVED:
                wanted[task.resreq] = wanted.get(task.resreq, 0) + 1
    return _total(held, zero), _total(wanted, zero)


def _total(counts: dict[Vector, int], zero: Vector) -> Vector:
    total = zero
    for vector, count in counts.items():
        total = plus(total, vector if count == 1 else tuple(amount * count for amount in vector))
    return total
