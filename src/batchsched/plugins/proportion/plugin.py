"""proportion: a queue deserves a share of the cluster by weight, limited by its requests.

Deserved shares are computed by water-filling: shares are assigned by weight in
rounds, and what a queue does not request is divided again among the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import define, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.model.resources import EPSILON
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.changes import Changes
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict
from batchsched.plugins.proportion.coverage import Coverage
from batchsched.plugins.proportion.uses import Use, UsesOfJobs, use_of
from batchsched.plugins.proportion.water_filling import Amounts, water_fill
from batchsched.state.groups import JobGroups
from batchsched.state.needs import needed_tasks
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, dominant_share, fits, minus, plus

__all__ = ["ProportionPlugin"]


@frozen
class ProportionPlugin:
    """Orders queues by share, limits them to what they deserve, and lets them reclaim it."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> ProportionPlugin:
        """Take no arguments."""
        return cls()

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Proportion(view)


@define
class _Account:
    deserved: Amounts
    allocated: Vector
    backfilling: int = 0
    """How many tasks marked as backfill are charged to the queue's jobs."""

    def exceeds_any(self) -> bool:
        """Return whether more is allocated than deserved in any dimension."""
        for allocated, deserved in zip(self.allocated, self.deserved, strict=True):
            if allocated - deserved > EPSILON:
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


_Claim = tuple[bool, tuple[int, ...]]
"""Whether a claimant's need is within its queue's share, and the dimensions of the need."""

_BEYOND: _Claim = (False, ())
"""The claim of a claimant beyond its queue's share: it may evict only backfill tasks."""


class _Proportion:
    votes_on_jobs_alone = True

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._in_cluster = view.dimensions.in_cluster
        self._pending: dict[str, list[TaskState]] = {}
        self._coverages: dict[str, Coverage] = {}
        """The coverage of queues, as far as it has been computed."""
        self._recovered: dict[str, Coverage] = {}
        """By queue, the coverage that must be checked again before it is used."""
        self._losses = 0
        """How often tasks have lost their coverage."""
        self._uses: UsesOfJobs | None = None
        """The use of each job; None until the state is kept from cycle to cycle."""
        uses: dict[str, Use] = {}
        for queue in view.queues.values():
            if queue.jobs:
                held, wanted = use_of(queue.jobs, view.dimensions.zero)
                backfilling = sum(job.backfilling for job in queue.jobs)
                uses[queue.name] = Use(held, wanted, backfilling)
        self._total = view.cluster
        self._weights = {name: view.queues[name].info.weight for name in uses}
        self._requests = {name: use.request for name, use in uses.items()}
        deserved = water_fill(self._total, self._weights, self._requests)
        self._accounts = {
            name: _Account(deserved[name], use.held, use.backfilling) for name, use in uses.items()
        }

    def resume(self, changes: Changes, /) -> bool:
        self._pending.clear()
        self._coverages.clear()
        self._recovered.clear()
        if self._uses is None:
            self._uses = UsesOfJobs(self._view)
            # The last job of a queue may have left since this was opened.
            touched = {*self._uses.of_queue, *self._accounts}
        else:
            touched = self._uses.catch_up(changes)
        is_changed = self._total != self._view.cluster
        self._total = self._view.cluster
        for name in touched:
            use = self._uses.of_queue.get(name)
            if use is None:
                is_changed |= self._accounts.pop(name, None) is not None
                self._weights.pop(name, None)
                self._requests.pop(name, None)
                continue
            if self._requests.get(name) != use.request:
                is_changed = True
                self._requests[name] = use.request
                self._weights[name] = self._view.queues[name].info.weight
            account = self._accounts.setdefault(name, _Account((), use.held))
            account.allocated, account.backfilling = use.held, use.backfilling
        if is_changed:
            # The request of one queue affects what the others deserve.
            deserved = water_fill(self._total, self._weights, self._requests)
            for name, amounts in deserved.items():
                self._accounts[name].deserved = amounts
        return True

    def _coverage(self, name: str) -> Coverage:
        known = self._coverages.get(name)
        if known is None:
            view = self._view
            deserved = self._accounts[name].deserved
            known = Coverage(
                view.queues[name], deserved, view.dimensions.zero, view.in_task_order, view.unit_of
            )
            self._coverages[name] = known
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
        account = self._account_of(task)
        if account is None:
            return
        if task.is_backfill:
            account.backfilling += 1
        else:
            account.allocated = plus(account.allocated, task.resreq)
            coverage = self._coverage_if_any(task)
            if coverage is not None:
                coverage.came(task)
                self._look_again(task, coverage)

    def on_deallocate(self, task: TaskState, /) -> None:
        account = self._account_of(task)
        if account is None:
            return
        if task.is_backfill:
            account.backfilling -= 1
        else:
            account.allocated = minus(account.allocated, task.resreq)
            coverage = self._coverage_if_any(task)
            if coverage is not None:
                coverage.went(task)
                self._look_again(task, coverage)

    def _coverage_if_any(self, task: TaskState) -> Coverage | None:
        assert task.job is not None
        assert task.job.queue is not None
        return self._coverages.get(task.job.queue.name)

    def _look_again(self, task: TaskState, coverage: Coverage) -> None:
        if coverage.may_have_changed:
            assert task.job is not None
            assert task.job.queue is not None
            self._recovered[task.job.queue.name] = coverage

    def _account_of(self, task: TaskState) -> _Account | None:
        if task.job is None or task.job.queue is None:
            return None
        return self._accounts[task.job.queue.name]

    # Reclaiming: within the claimant's share, from queues beyond theirs.

    def hints(self) -> EvictionHints:
        return EvictionHints(
            claimant_key=self.claimant_key,
            shielded=self.shielded,
            may_give=self.may_give,
            reclaimable_alone=self.reclaimable_alone,
        )

    def claimant_key(self, claimant: TaskState, /) -> tuple[_Claim, int]:
        # Covered tasks are shielded until any task loses its coverage.
        claim = self._claim(claimant)
        if claim is _BEYOND:
            return claim, 0
        self._find_losses(claimant)
        return claim, self._losses

    def _claim(self, claimant: TaskState) -> _Claim:
        need = self._need(claimant)
        account = self._account_of(claimant)
        assert account is not None
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
        if not self._recovered:
            return
        assert claimant.job is not None
        assert claimant.job.queue is not None
        own = claimant.job.queue.name
        for name in [name for name in self._recovered if name != own]:
            # Nothing is reclaimed from a queue within its share; check it once it exceeds it.
            if self._accounts[name].exceeds_any():
                self._losses += self._recovered.pop(name).take_losses()

    def _need(self, claimant: TaskState) -> Vector:
        """Return the request of a task and of the other tasks that its job's minimum lacks."""
        job = claimant.job
        assert job is not None
        if job.groups is not None:
            return self._need_of_groups(claimant, job, job.groups)
        lacking = job.min_available - job.ready_count - job.waiting_count - 1
        need = claimant.resreq
        if lacking <= 0:
            return need
        tasks = self._pending.get(job.uid)
        if tasks is None:
            # Most of them are Pending, or will be after a rollback.
            wanted = [task for task in job.tasks if not task.is_best_effort]
            tasks = self._pending[job.uid] = self._view.in_task_order(wanted)
        for task in tasks:
            if task.status is TaskStatus.PENDING and task is not claimant:
                need = plus(need, task.resreq)
                lacking -= 1
                if not lacking:
                    break
        return need

    def _need_of_groups(self, claimant: TaskState, job: JobState, groups: JobGroups) -> Vector:
        """Return the request of a task and of all other tasks that its job needs next."""
        pending = [task for task in job.tasks if task.status is TaskStatus.PENDING]
        wanted = [task for task in pending if not task.is_best_effort]
        need = claimant.resreq
        for task in needed_tasks(groups, self._view.in_task_order(wanted)):
            if task is not claimant:
                need = plus(need, task.resreq)
        return need

    def may_give(self, queue: QueueState, /) -> bool:
        account = self._accounts.get(queue.name)
        return account is None or account.backfilling > 0 or account.exceeds_any()

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
            size = candidate.resreq
            answers.append(
                candidate.uid in covered
                or not any(size[dimension] > EPSILON for dimension in above)
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
        return above, self._coverage(queue.name).covered() if above else ()

    def _is_covered(self, task: TaskState) -> bool:
        assert task.job is not None
        assert task.job.queue is not None
        return self._coverage(task.job.queue.name).covers(task)

    def reclaimable_alone(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        is_within, asked = self._claim(claimant)
        return [self._verdict(candidate, asked, is_within, None) for candidate in candidates]

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
            account = self._account_of(candidate)
            assert account is not None
            is_beyond = account.exceeds(asked, candidate, account.allocated)
            within = "within its queue's share of the requested resources"
            reasons.append("covered by its queue's share" if is_beyond else within)
        return reasons

    def _verdict(
        self,
        candidate: TaskState,
        asked: Sequence[int],
        is_within: bool,
        left: dict[str, Vector] | None,
    ) -> Verdict:
        """Return the verdict on a candidate, and subtract a victim from its queue's use."""
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
        if not account.exceeds(asked, candidate, allocated) or self._is_covered(candidate):
            return Verdict.PROTECTED
        if left is not None:
            left[name] = minus(allocated, candidate.resreq)
        return Verdict.VICTIM
