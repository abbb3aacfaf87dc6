"""protection: jobs that must not be evicted, or not yet, and what their queue may have of these.

The rules are those of KAI Scheduler. A job that is not preemptible is never evicted, and all such
jobs of a queue together stay within what the queue, and each queue above it, deserves: what can
never be taken back is not lent. A job that has run for less than the minimum runtime of its queue
keeps what it needs; what it has beyond that may go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from batchsched.model.cluster import Queue
from batchsched.model.reasons import QueueExcess, Unfit, over_unpreemptible
from batchsched.model.resources import Resource
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.queues import QueueTree
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, total_of

_NOT_PREEMPTIBLE = "not preemptible"
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
        return _Protection(view)


class _Protection:
    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._tree = QueueTree(queue.info for queue in view.queues.values())

    def resume(self, _changes: Changes, /) -> bool:
        return False  # queues may have changed, and nothing is kept that costs much

    # Who may be evicted

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return self._verdicts(claimant, candidates, reclaims=False)

    def reclaimable(
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
            elif not job.info.preemptible:
                verdicts.append(Verdict.PROTECTED)
            elif self._is_young(job, claimant, reclaims=reclaims):
                spared[job.uid] = spared.get(job.uid, 0) + 1
                may_spare = job.groups is None and spared[job.uid] <= (
                    job.ready_count - job.min_available
                )
                verdicts.append(Verdict.ALONE if may_spare else Verdict.PROTECTED)
            else:
                verdicts.append(Verdict.NO_SAY)
        return verdicts

    def _is_young(self, job: JobState, claimant: TaskState, *, reclaims: bool) -> bool:
        least = self._least_runtime(job, claimant, reclaims=reclaims)
        started = [task.info.start_time for task in job.tasks if task.status.occupies]
        times = [time for time in started if time is not None]
        return least > 0 and bool(times) and self._view.now < min(times) + least

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

    def claimant_key(self, claimant: TaskState, /) -> str | None:
        queue = None if claimant.job is None else claimant.job.queue
        return None if queue is None else queue.name

    def verdict_reasons(
        self, _claimant: TaskState, candidates: Sequence[TaskState], _verdict: Verdict, /
    ) -> Sequence[str]:
        return [
            _YOUNG if each.job is None or each.job.info.preemptible else _NOT_PREEMPTIBLE
            for each in candidates
        ]

    # What a queue may have

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        if need.job.info.preemptible:
            return None
        for position in self._tree.path(self._tree.position[queue.name]):
            held = self._held(position)
            for dimension in need.dimensions:
                most = self._deserved(self._tree.queues[position], dimension)
                would = held[dimension] + need.request[dimension]
                if most is not None and would > most:
                    name = self._view.dimensions.names[dimension]
                    over = QueueExcess(
                        dimension=name,
                        would_hold=would,
                        most=most,
                        queue=self._tree.names[position],
                        held=held[dimension],
                    )
                    return over_unpreemptible(over, "protection")
        return None

    def _deserved(self, queue: Queue, dimension: int) -> int | None:
        """Return how much a queue deserves of a dimension; None: all that its parent has."""
        if queue.deserved is None:
            return None
        if isinstance(queue.deserved, Resource):
            return self._view.dimensions.vector(queue.deserved)[dimension]
        most = queue.deserved.get(self._view.dimensions.names[dimension])
        return None if most is None else int(most)

    def _held(self, position: int) -> Vector:
        """Return what the jobs of a queue, and of those below it, hold that are not preemptible."""
        below = [position]
        for each in below:  # which grows
            below.extend(self._tree.children[each])
        queues = (self._view.queues[self._tree.names[each]] for each in below)
        jobs = (job for queue in queues for job in queue.jobs if not job.info.preemptible)
        charged = [task.resreq for job in jobs for task in job.tasks if task.status.charged]
        return total_of(charged, self._view.dimensions.zero)
