"""protection: jobs that must not be evicted, or not yet, and what their queue may have of these.

The rules are those of KAI Scheduler. A job that is not preemptible is never evicted, and all such
jobs of a queue together stay within what the queue, and each queue above it, deserves: what can
never be taken back is not lent. A queue that does not say what it deserves sets them no such limit.
A job that has run for less than the minimum runtime of its queue keeps what it needs, for now; what
it has beyond that may go.

As in Kubernetes, a job may also be evicted together or not at all, or evict nobody itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import frozen

from batchsched.model.cluster import Preemptible, Queue
from batchsched.model.reasons import QueueExcess, Unfit, over_unpreemptible
from batchsched.model.resources import Resource, exact
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, NothingToDo, Verdict
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.queues import QueueTree
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, minus, plus, total_of

_NOTHING = Resource()
_NOT_PREEMPTIBLE = "not preemptible"
_AS_A_WHOLE = "evicted as a whole only, for jobs of higher priority"
_YOUNG = "of a job younger than the minimum runtime of its queue"


@frozen
class ProtectionPlugin:
    """Protects jobs that are not preemptible, and jobs until the minimum runtimes of queues."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> ProtectionPlugin:
        """Take no arguments."""
        return cls()

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        runtimes = [
            least
            for queue in view.queues.values()
            for least in (queue.info.preempt_min_runtime, queue.info.reclaim_min_runtime)
        ]
        if any(runtimes) or _any_to_keep(view.jobs.values()):
            return _Protection(view)
        return NothingToDo(lambda changes: _any_to_keep(changes.jobs))


def _any_to_keep(jobs: Iterable[JobState]) -> bool:
    return bool(
        [
            job
            for job in jobs
            if job.info.preemptible is Preemptible.NEVER
            or not job.info.preempts
            or job.info.evict_whole
        ]
    )


class _Protection:
    votes_on_jobs_alone = True
    refuses_alike = True

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._tree = QueueTree(queue.info for queue in view.queues.values())
        self._held: dict[str, Vector] = {}
        """What the jobs of leaves hold that are not preemptible, as far as it was asked for."""
        queues = self._tree.queues
        keeps_any = _any_to_keep(view.jobs.values())
        self._keeps_any = keeps_any
        # An extension point that is None is none: most clusters have nothing to protect.
        has_times = any(queue.preempt_min_runtime for queue in queues)
        self.preemptable = self._preemptable if keeps_any or has_times else None
        has_times = any(queue.reclaim_min_runtime for queue in queues)
        self.reclaimable = self._reclaimable if keeps_any or has_times else None
        self.allocatable = self._allocatable if keeps_any else None
        self.on_allocate = self._on_allocate if keeps_any else None
        self.on_deallocate = self._on_deallocate if keeps_any else None
        self.may_claim = self._may_claim if keeps_any else None

    def resume(self, changes: Changes, /) -> bool:
        self._held.clear()
        return self._keeps_any or not _any_to_keep(changes.jobs)

    # Who may evict, and be evicted

    def _may_claim(self, job: JobState, /) -> bool:
        return job.info.preempts

    def _preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return self._verdicts(claimant, candidates, reclaims=False)

    def _reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return self._verdicts(claimant, candidates, reclaims=True)

    def _verdicts(
        self, claimant: TaskState, candidates: Sequence[TaskState], *, reclaims: bool
    ) -> Sequence[Verdict]:
        spared: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = candidate.job
            if job is None:
                verdicts.append(Verdict.NO_SAY)
            elif job.info.preemptible is Preemptible.NEVER:
                verdicts.append(Verdict.PROTECTED)
            elif self._is_young(job, claimant, reclaims=reclaims):
                spared[job.uid] = spared.get(job.uid, 0) + 1
                may_spare = job.groups is None and spared[job.uid] <= (
                    job.ready_count - job.min_available
                )
                may_go = may_spare and not job.info.evict_whole
                verdicts.append(Verdict.ALONE if may_go else Verdict.NOT_NOW)
            elif job.info.evict_whole:
                may_go = self._may_go_whole(claimant, job, reclaims=reclaims)
                verdicts.append(Verdict.WITH_JOB if may_go else Verdict.PROTECTED)
            else:
                verdicts.append(Verdict.NO_SAY)
        return verdicts

    @staticmethod
    def _may_go_whole(claimant: TaskState, job: JobState, *, reclaims: bool) -> bool:
        # Otherwise two equal jobs could evict each other in turn.
        return reclaims or (
            claimant.job is not None and claimant.job.info.priority > job.info.priority
        )

    def _is_young(self, job: JobState, claimant: TaskState, *, reclaims: bool) -> bool:
        end = self._end(job, claimant, reclaims=reclaims)
        return end is not None and self._view.now < end

    def _end(self, job: JobState, claimant: TaskState, *, reclaims: bool) -> float | None:
        """Return until when a job keeps what it needs; None: no queue says, or it is not known."""
        least = self._least_runtime(job, claimant, reclaims=reclaims)
        if not least > 0:
            return None
        started = [task.info.start_time for task in job.tasks if task.status.occupies]
        return min((time + least for time in started if time is not None), default=None)

    def refused_until(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[float | None]:
        """Return when the minimum runtime of each candidate's job ends."""
        mine = None if claimant.job is None else claimant.job.queue
        return [
            None
            if each.job is None
            else self._end(each.job, claimant, reclaims=each.job.queue is not mine)
            for each in candidates
        ]

    def _least_runtime(self, job: JobState, claimant: TaskState, *, reclaims: bool) -> float:
        """Return for how long a job keeps what it needs.

        Against reclaiming that is up to the queue below the one that both are in, or the nearest
        one above it that says.
        """
        for queue in self._asked(job, claimant if reclaims else None):
            least = queue.reclaim_min_runtime if reclaims else queue.preempt_min_runtime
            if least is not None:
                return least
        return 0

    def _asked(self, job: JobState, claimant: TaskState | None) -> Iterator[Queue]:
        if job.queue is None:
            return
        path = list(self._tree.path(self._tree.position[job.queue.name]))
        if claimant is not None and claimant.job is not None and claimant.job.queue is not None:
            theirs = self._tree.path(self._tree.position[claimant.job.queue.name])
            below = [position for position in path if position not in theirs]
            path = path[max(0, len(below) - 1) :]
        for position in path:
            yield self._tree.queues[position]

    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=self.claimant_key)

    def claimant_key(self, claimant: TaskState, /) -> tuple[str, int] | None:
        job = claimant.job
        return None if job is None or job.queue is None else (job.queue.name, job.info.priority)

    def verdict_reasons(
        self, _claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict, /
    ) -> Sequence[str]:
        if verdict is not Verdict.PROTECTED:
            return [_YOUNG] * len(candidates)
        return [
            _AS_A_WHOLE
            if job is not None and job.info.preemptible is not Preemptible.NEVER
            else _NOT_PREEMPTIBLE
            for job in (candidate.job for candidate in candidates)
        ]

    # What a queue may have

    def _allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        if need.job.info.preemptible is not Preemptible.NEVER:
            return None
        for position in self._tree.path(self._tree.position[queue.name]):
            held = self._held_below(position)
            for dimension in need.dimensions:
                name = self._view.dimensions.names[dimension]
                most = _deserved(self._tree.queues[position], name)
                would = held[dimension] + need.request[dimension]
                if most is not None and would > most:
                    over = QueueExcess(
                        dimension=name,
                        would_hold=would,
                        most=most,
                        queue=self._tree.names[position],
                        held=held[dimension],
                    )
                    return over_unpreemptible(over, "protection")
        return None

    def _held_below(self, position: int) -> Vector:
        """Return what the jobs of a queue, and of those below it, hold that are not preemptible.

        O(jobs) when first asked, then O(queues below it).
        """
        below = [position]
        for each in below:  # which grows
            below.extend(self._tree.children[each])
        zero = self._view.dimensions.zero
        return total_of([self._held_by(self._tree.names[each]) for each in below], zero)

    def _held_by(self, name: str) -> Vector:
        known = self._held.get(name)
        if known is None:
            held = [
                task.resreq
                for job in self._view.queues[name].jobs
                if job.info.preemptible is Preemptible.NEVER
                for task in job.tasks
                if task.status.charged and not task.is_backfill
            ]
            known = self._held[name] = total_of(held, self._view.dimensions.zero)
        return known

    def _on_allocate(self, task: TaskState, /) -> None:
        self._charge(task, plus)

    def _on_deallocate(self, task: TaskState, /) -> None:
        self._charge(task, minus)

    def _charge(self, task: TaskState, change: Callable[[Vector, Vector], Vector]) -> None:
        job = task.job
        if job is None or job.queue is None or task.is_backfill:
            return
        if job.info.preemptible is not Preemptible.NEVER:
            return
        name = job.queue.name
        if name in self._held:  # what was not asked for yet is counted when it is
            self._held[name] = change(self._held[name], task.resreq)


def _deserved(queue: Queue, dimension: str) -> int | None:
    """Return how much a queue deserves of a dimension; None: it does not say, or everything."""
    deserved = queue.deserved
    if deserved is None or deserved == _NOTHING:
        return None
    most = deserved.get(dimension)
    return None if most is None else exact(most)
