"""A session that reports the turns of jobs and queues, and the ends of statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import cast

from attrs import evolve

from batchsched.model.cluster import TaskStatus
from batchsched.model.snapshot import Snapshot
from batchsched.placement import Placement
from batchsched.placement.evaluator import Evaluator
from batchsched.plugin.extension_points import Plugin
from batchsched.session.opened_plugins import ConfiguredPlugin
from batchsched.session.plugin_questions import QueueTurns
from batchsched.session.session import PlacementFactory, Session
from batchsched.session.statement import Statement
from batchsched.session.trace_events import (
    JobTaken,
    Placed,
    QueuePassedOver,
    QueueTaken,
    StatementEnded,
    TraceEvent,
)
from batchsched.session.tracing.teller import Teller, Trace
from batchsched.session.tracing.traced_placement import TracedPlacement
from batchsched.session.tracing.traced_plugin import TracedPlugin
from batchsched.session.tracing.traced_queue import AnyQueue, TracedQueue
from batchsched.state.doors import Door
from batchsched.state.ledger import Ledger
from batchsched.state.live_queue import LiveQueue
from batchsched.state.needs import Need, need_of_job
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = ["TracedSession"]


class _TracedStatement(Statement):
    """A statement that reports its end."""

    __slots__ = ()

    def commit(self) -> None:
        session = cast("TracedSession", self._session)
        event = self._how_it_stands(session, committed=True)
        super().commit()
        session.tell(event)

    def discard(self) -> None:
        session = cast("TracedSession", self._session)
        event = self._how_it_stands(session, committed=False)
        super().discard()
        session.tell(event)

    def _how_it_stands(self, session: TracedSession, *, committed: bool) -> StatementEnded:
        """Return the event for the end of the statement, before it ends."""
        steps: dict[str, Placed] = {}
        job: JobState | None = None
        for task, before, node_before, _ in self._journal:
            node = task.node if task.node is not None else node_before
            if task.status is before or node is None:
                continue
            steps[task.uid] = Placed(task=task.uid, node=node.name, status=task.status.value)
            if job is None and task.status is not TaskStatus.RELEASING:
                job = task.job
        if job is None:
            job = next((task.job for task, *_ in self._journal), None)
        event = StatementEnded(
            action=session.action_name,
            committed=committed,
            is_trial=self._is_trial,
            job=None if job is None else job.uid,
            steps=tuple(steps.values()),
        )
        if job is None:
            return event
        return evolve(
            event,
            min_available=job.min_available,
            ready=job.ready_count,
            waiting=job.waiting_count,
            job_ready=session.job_ready(job),
            job_pipelined=session.job_pipelined(job),
        )


def _no_need(_queue: QueueState) -> None:
    return None


class TracedSession(Session):
    """A session that reports trace events.

    Args:
        snapshot: see `Session`.
        plugins: see `Session`.
        placement: see `Session`.
        trace: is called with each event.
        rivals_at: the position of the one event that also lists the alternatives, which takes
            time that grows with the cluster; None: no event does.
        promises_repel: see `Session`.
        plain: see `Session`.

    """

    statement_type = _TracedStatement

    def __init__(
        self,
        snapshot: Snapshot,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
        trace: Trace,
        *,
        rivals_at: int | None = None,
        promises_repel: bool = False,
        plain: frozenset[Door] = frozenset(),
    ) -> None:
        self._teller = Teller(self, trace, rivals_at)

        def traced(ledger: Ledger, evaluator: Evaluator) -> Placement:
            return TracedPlacement(placement(ledger, evaluator), evaluator, self._teller)

        told = [
            evolve(configured, plugin=cast("Plugin", TracedPlugin(configured, self._teller)))
            for configured in plugins
        ]
        super().__init__(snapshot, told, traced, promises_repel=promises_repel, plain=plain)

    def tell(self, event: TraceEvent) -> None:
        """Report an event."""
        self._teller.tell(event)

    def flush(self) -> None:
        """Report the events that are still queued, at the end of the cycle."""
        self._teller.flush()

    def live_jobs(self, jobs: Iterable[JobState]) -> LiveQueue[JobState]:
        """Return `jobs` waiting for their turn, in live job order."""
        items = list(jobs)
        traced = TracedQueue(super().live_jobs(items), items, self._job_taken)
        return cast("LiveQueue[JobState]", traced)

    def job_turns(
        self,
        jobs: Iterable[JobState],
        tasks_of: Callable[[JobState], Collection[TaskState]],
        **known: Callable[[JobState], Need | None],
    ) -> LiveQueue[JobState]:
        """Return the jobs of one queue waiting for their turn."""
        if not self.plugin_set.orders_jobs_by_need:
            return self.live_jobs(jobs)
        items = list(jobs)
        traced = TracedQueue(super().job_turns(items, tasks_of, **known), items, self._job_taken)
        return cast("LiveQueue[JobState]", traced)

    def live_queues(self, queues: Iterable[QueueState]) -> LiveQueue[QueueState]:
        """Return `queues` waiting for their turn, in live queue order."""
        items = list(queues)
        traced = TracedQueue(super().live_queues(items), items, self._queue_taken)
        return cast("LiveQueue[QueueState]", traced)

    def queue_turns(
        self,
        jobs: Mapping[QueueState, LiveQueue[JobState]],
        tasks_of: Callable[[JobState], Collection[TaskState]],
        **known: Callable[[JobState], Need | None],
    ) -> QueueTurns:
        """Return queues waiting for their turn, with the jobs that wait in each."""

        def need_of(queue: QueueState) -> Need | None:
            job = jobs[queue].first() if self.plugin_set.orders_by_need else None
            return None if job is None else need_of_job(job, tasks_of(job))

        def tell(queue: QueueState, others: Collection[QueueState]) -> None:
            self._queue_taken(queue, others, need_of)

        turns = cast("AnyQueue[QueueState]", super().queue_turns(jobs, tasks_of, **known))
        return cast("QueueTurns", TracedQueue(turns, jobs, tell))

    def overused(self, queue: QueueState) -> bool:
        """Return whether the queue has its deserved share."""
        is_overused = super().overused(queue)
        if is_overused:
            self.tell(QueuePassedOver(action=self.action_name, queue=queue.name))
        return is_overused

    def _job_key(self, job: JobState) -> dict[str, object]:
        names = [*self.plugin_set.names_on("job_order_key"), "creation_time", "uid"]
        return dict(zip(names, self.plugin_set.job_key(job), strict=True))

    def _queue_key(self, queue: QueueState, need: Need | None) -> dict[str, object]:
        names = [*self.plugin_set.names_on("queue_order_key"), "creation_time", "name"]
        return dict(zip(names, self.plugin_set.queue_key(queue, need), strict=True))

    def _job_taken(self, job: JobState, others: Collection[JobState]) -> None:
        wanted = others if self._teller.wants_rivals else ()
        self.tell(
            JobTaken(
                action=self.action_name,
                job=job.uid,
                queue=job.info.queue,
                key=self._job_key(job),
                rivals={other.uid: self._job_key(other) for other in wanted},
            )
        )

    def _queue_taken(
        self,
        queue: QueueState,
        others: Collection[QueueState],
        need_of: Callable[[QueueState], Need | None] = _no_need,
    ) -> None:
        wanted = others if self._teller.wants_rivals else ()
        self.tell(
            QueueTaken(
                action=self.action_name,
                queue=queue.name,
                key=self._queue_key(queue, need_of(queue)),
                rivals={other.name: self._queue_key(other, need_of(other)) for other in wanted},
            )
        )
