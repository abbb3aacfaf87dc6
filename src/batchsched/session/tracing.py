"""A session that tells what is asked and answered in it.

Nothing of this is there in a session that is not traced. A traced session asks its plugins
and its placement engine exactly what the other does; what it tells is put together beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar, cast

from attrs import evolve

from batchsched.model.reasons import NodeTally, Unfit
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import TaskStatus
from batchsched.placement import Fit, Placement
from batchsched.placement.evaluator import Evaluator
from batchsched.plugin.extension_points import Plugin
from batchsched.plugin.node_functions import NodeScore
from batchsched.plugin.point_names import points_of
from batchsched.plugin.session_view import SessionView
from batchsched.plugin.verdicts import Verdict
from batchsched.session.plugin_set import ConfiguredPlugin
from batchsched.session.session import PlacementFactory, QueueTurns, Session
from batchsched.session.statement import Statement
from batchsched.session.trace_events import (
    JobTaken,
    NodeSought,
    Placed,
    QueuePassedOver,
    QueueTaken,
    StatementEnded,
    TraceEvent,
    VerdictsGiven,
)
from batchsched.state.ledger import Ledger
from batchsched.state.live_queue import LiveQueue, Waiting
from batchsched.state.needs import Need, need_of_job
from batchsched.state.records import JobState, NodeState, QueueState, TaskState

__all__ = ["Trace", "TracedSession"]

Trace = Callable[[TraceEvent], object]
"""A caller's function that is told of each question and answer."""

WaitingT = TypeVar("WaitingT", bound=Waiting)

_ALONE = "_alone"
_JUDGES = ("preemptable", "reclaimable", "preemptable_alone", "reclaimable_alone")


class _Queue(Protocol[WaitingT]):
    """What a live queue has, and a walk down a tree of queues."""

    def __len__(self) -> int: ...

    def push(self, item: WaitingT, /) -> None: ...

    def touch(self, item: WaitingT, /) -> None: ...

    def pop(self) -> WaitingT: ...


class _Teller:
    """Passes events on, in order, outside of the plugins' own calls."""

    def __init__(self, session: Session, trace: Trace, rivals_at: int | None) -> None:
        self._session = session
        self._trace = trace
        self._waiting: list[TraceEvent] = []
        self._rivals_at = rivals_at
        self._count = 0

    @property
    def action(self) -> str:
        """The action that runs now; empty while the session opens."""
        return getattr(self._session, "action_name", "")

    @property
    def wants_rivals(self) -> bool:
        """Whether the next event is one that is to tell what else there was to choose from."""
        return self._rivals_at == self._count

    def keep(self, event: TraceEvent) -> None:
        """Tell of an event with the next one: an error of the caller's is not the plugin's."""
        self._waiting.append(event)
        self._count += 1

    def tell(self, event: TraceEvent) -> None:
        """Tell of an event, and before it of those that were kept."""
        self._waiting.append(event)
        self._count += 1
        self.flush()

    def flush(self) -> None:
        """Tell of the events that were kept."""
        while self._waiting:
            self._trace(self._waiting.pop(0))


class _TracedPlugin:
    """A plugin whose verdicts are told."""

    def __init__(self, configured: ConfiguredPlugin, teller: _Teller) -> None:
        self._configured = configured
        self._teller = teller

    def open(self, view: SessionView, /) -> object:
        name = self._configured.name
        opened = self._configured.plugin.open(view)
        points = points_of(name, opened) - self._configured.disabled
        if not points.intersection(_JUDGES):
            return opened
        return _Judge(name, opened, self._teller)


class _Judge:
    """What a plugin has opened, with its verdicts told; all else is as it is."""

    __slots__ = ("_name", "_opened", "_teller")

    def __init__(self, name: str, opened: object, teller: _Teller) -> None:
        self._name = name
        self._opened = opened
        self._teller = teller

    def __getattr__(self, point: str) -> object:
        function: object = getattr(self._opened, point)
        if function is None or point not in _JUDGES:
            return function
        judge = cast("Callable[[TaskState, Sequence[TaskState]], Sequence[Verdict]]", function)

        def told(claimant: TaskState, candidates: Sequence[TaskState]) -> Sequence[Verdict]:
            verdicts = tuple(judge(claimant, candidates))
            teller = self._teller
            by_task = {
                candidate.uid: getattr(verdict, "value", str(verdict))
                for candidate, verdict in zip(candidates, verdicts, strict=False)
            }
            teller.keep(
                VerdictsGiven(
                    action=teller.action,
                    plugin=self._name,
                    point=point.removesuffix(_ALONE),
                    alone=point.endswith(_ALONE),
                    claimant=claimant.uid,
                    verdicts=by_task,
                )
            )
            return verdicts

        return told


class _TracedQueue(Generic[WaitingT]):
    """Items that wait in a live queue; tells which is taken."""

    def __init__(
        self,
        queue: _Queue[WaitingT],
        items: Iterable[WaitingT],
        tell: Callable[[WaitingT, Collection[WaitingT]], None],
    ) -> None:
        self._queue = queue
        self._items = dict.fromkeys(items)
        self._tell = tell

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, item: WaitingT, /) -> None:
        self._queue.push(item)
        self._items[item] = None

    def touch(self, item: WaitingT, /) -> None:
        self._queue.touch(item)

    def first(self) -> WaitingT | None:
        return cast("LiveQueue[WaitingT]", self._queue).first()

    def pop(self) -> WaitingT:
        item = self._queue.pop()
        self._items.pop(item, None)
        self._tell(item, self._items)
        return item


class _TracedPlacement:
    """A placement engine whose choices are told."""

    def __init__(self, engine: Placement, evaluator: Evaluator, teller: _Teller) -> None:
        self._engine = engine
        self._evaluator = evaluator
        self._teller = teller

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def kind(self, task: TaskState, /) -> int | None:
        return self._engine.kind(task)

    def best(self, task: TaskState, fit: Fit, /) -> NodeState | None:
        wants_rivals = self._teller.wants_rivals
        node = self._engine.best(task, fit)
        self._tell(task, fit.value, node, wants_rivals=wants_rivals)
        return node

    def best_feasible(self, task: TaskState, /) -> NodeState | None:
        wants_rivals = self._teller.wants_rivals
        node = self._engine.best_feasible(task)
        self._tell(task, "any", node, wants_rivals=wants_rivals)
        return node

    def first_feasible(self, task: TaskState, /) -> NodeState | None:
        node = self._engine.first_feasible(task)
        teller = self._teller
        teller.tell(
            NodeSought(
                action=teller.action,
                task=task.uid,
                fit="now",
                node=None if node is None else node.name,
            )
        )
        return node

    def feasible(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        return self._engine.feasible(task, among)

    def ranked(
        self, task: TaskState, /, among: Collection[int] | None = None
    ) -> Iterable[NodeState]:
        return self._engine.ranked(task, among)

    def refusal(self, task: TaskState, node: NodeState, /) -> Unfit | None:
        return self._engine.refusal(task, node)

    def raw_scores(self, task: TaskState, node: NodeState, /) -> tuple[float, ...]:
        return self._engine.raw_scores(task, node)

    def totals(self, task: TaskState, raw: Sequence[tuple[float, ...]], /) -> list[float]:
        return self._engine.totals(task, raw)

    def tally(self, task: TaskState, /) -> NodeTally:
        return self._engine.tally(task)

    def _tell(
        self, task: TaskState, fit: str, node: NodeState | None, *, wants_rivals: bool
    ) -> None:
        teller = self._teller
        event = NodeSought(
            action=teller.action,
            task=task.uid,
            fit=fit,
            node=None if node is None else node.name,
        )
        if node is not None:
            normalised = any(_is_normalised(score, task) for _, score in self._evaluator.scores)
            compared = [node]
            if normalised or wants_rivals:
                compared += [
                    other
                    for other in self._engine.feasible(task)
                    if other is not node and _fits(task, other, fit)
                ]
            by_node = self._scores(task, compared)
            event = evolve(event, scores=by_node[0])
            if wants_rivals:
                rivals = {
                    other.name: scores
                    for other, scores in zip(compared[1:], by_node[1:], strict=True)
                }
                event = evolve(event, rivals=rivals)
        teller.tell(event)

    def _scores(self, task: TaskState, nodes: Sequence[NodeState]) -> list[dict[str, float]]:
        """Return what each plugin's scores add up to on each of the nodes compared."""
        by_node: list[dict[str, float]] = [{} for _ in nodes]
        for name, score in self._evaluator.scores:
            column: list[float] = [score.score(task, node) for node in nodes]
            if score.normalise is not None:
                low, high = min(column), max(column)
                column = [score.normalise(raw, low, high) for raw in column]
            for scores, value in zip(by_node, column, strict=True):
                scores[name] = scores.get(name, 0) + score.weight * value
        return by_node


def _is_normalised(score: NodeScore, task: TaskState) -> bool:
    if score.normalise is None:
        return False
    return score.specialise is None or score.specialise(task) is not None


def _fits(task: TaskState, node: NodeState, fit: str) -> bool:
    request = task.init_resreq
    if fit == Fit.NOW.value:
        return node.fits_now(request)
    if fit == Fit.LATER.value:
        return node.fits_later(request)
    if fit == Fit.CONDITIONALLY.value:
        return node.fits_conditionally(request)
    return True


class _TracedStatement(Statement):
    """A statement that tells how it ended."""

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
        """Return the event of the statement's end, which is about to come."""
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
    """A session that tells what is asked and answered in it.

    Args:
        snapshot: see `Session`.
        plugins: see `Session`.
        placement: see `Session`.
        trace: is told of each event.
        rivals_at: the position of the one event that is to tell what else there was to choose
            from, which takes time that grows with the cluster; None: of none.

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
    ) -> None:
        self._teller = _Teller(self, trace, rivals_at)

        def traced(ledger: Ledger, evaluator: Evaluator) -> Placement:
            return _TracedPlacement(placement(ledger, evaluator), evaluator, self._teller)

        told = [
            evolve(configured, plugin=cast("Plugin", _TracedPlugin(configured, self._teller)))
            for configured in plugins
        ]
        super().__init__(snapshot, told, traced)

    def tell(self, event: TraceEvent) -> None:
        """Tell of an event."""
        self._teller.tell(event)

    def flush(self) -> None:
        """Tell of what has not been told yet; at the end of the cycle."""
        self._teller.flush()

    def live_jobs(self, jobs: Iterable[JobState]) -> LiveQueue[JobState]:
        """Return `jobs` waiting for their turn, in live job order."""
        items = list(jobs)
        traced = _TracedQueue(super().live_jobs(items), items, self._job_taken)
        return cast("LiveQueue[JobState]", traced)

    def live_queues(self, queues: Iterable[QueueState]) -> LiveQueue[QueueState]:
        """Return `queues` waiting for their turn, in live queue order."""
        items = list(queues)
        traced = _TracedQueue(super().live_queues(items), items, self._queue_taken)
        return cast("LiveQueue[QueueState]", traced)

    def queue_turns(
        self,
        jobs: Mapping[QueueState, LiveQueue[JobState]],
        tasks_of: Callable[[JobState], Collection[TaskState]],
    ) -> QueueTurns:
        """Return queues waiting for their turn, with the jobs that wait in each."""

        def need_of(queue: QueueState) -> Need | None:
            job = jobs[queue].first() if self.plugin_set.orders_by_need else None
            return None if job is None else need_of_job(job, tasks_of(job))

        def tell(queue: QueueState, others: Collection[QueueState]) -> None:
            self._queue_taken(queue, others, need_of)

        turns = cast("_Queue[QueueState]", super().queue_turns(jobs, tasks_of))
        return cast("QueueTurns", _TracedQueue(turns, jobs, tell))

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
