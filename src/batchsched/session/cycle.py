"""A cycle, from its opening to its end.

A session is opened on the state of a policy, which may be kept from cycle to cycle on a live
cluster. It begins with the jobs that are admitted, and with the reservations and promises of the
last cycle that still hold. When all actions have run it is closed: useless reservations and
promises end, and its final state becomes outcomes and reasons.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, cast

from attrs import evolve
from sortedcontainers import SortedDict

from batchsched.causes import ConditionReason
from batchsched.errors import BatchschedError, ConfigError, Fault, InvariantError, problem_of
from batchsched.model.cluster import JobInfo, JobPhase, TaskStatus
from batchsched.model.immutable import EMPTY, LazyMap
from batchsched.model.reasons import (
    JobCondition,
    PendingReason,
    Unfit,
    queue_not_leaf,
    queue_unknown,
)
from batchsched.model.result import (
    CycleResult,
    DroppedPromise,
    JobOutcome,
    Promise,
    TaskOutcome,
)
from batchsched.model.rules import Unmet, out_of_service, unmet_dependencies
from batchsched.model.validation.values import shown
from batchsched.placement import Fit, FollowsNodes, Placement
from batchsched.placement.plain_loop import Evaluator
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.session.attempts import try_in_order
from batchsched.session.known_failures import FailedTurns
from batchsched.session.outlook import refusal_ahead
from batchsched.session.plugins import ConfiguredPlugin, PluginSet
from batchsched.session.reasons import PendingReasons
from batchsched.session.session import Session, Statement
from batchsched.state.doors import Door
from batchsched.state.ledger import Ledger, counted_job
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, fits, minus
from batchsched.trace import Teller

if TYPE_CHECKING:
    from batchsched.session.reasons import WaitingJob

PlacementFactory = Callable[[Ledger, Evaluator], Placement]
"""Creates the placement engine of a session."""

MOST_CHANGES = 10_000
CHANGES_PER_NODE = 8
"""How many changes of nodes are logged before a new engine is created with an empty log."""
MOST_CLASSES = 2_000
"""The most equivalence classes of an engine before a new one is created."""

_NODE_FUNCTIONS = frozenset({"predicates", "node_scores"})

_uid = attrgetter("uid")


# What may be kept between cycles


class PolicyState:
    """The state of one configuration on one cluster."""

    def __init__(
        self,
        ledger: Ledger,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
        *,
        promises_repel: bool = False,
        plain: frozenset[Door] = frozenset(),
        teller: Teller | None = None,
    ) -> None:
        """Open plugins and create an engine.

        Args:
            ledger: the cluster.
            plugins: the configured plugins.
            placement: creates the engine that finds nodes.
            promises_repel: whether required anti-affinity counts tasks that are promised to a
                node like running ones.
            plain: the doors behind which only plain definitions decide.
            teller: is told what happens, if the cycle is traced.

        """
        self.ledger = ledger
        self.teller = teller
        """What is told what happens, if the cycle is traced."""
        self._promises_repel = promises_repel
        self.plain = plain
        """The doors behind which only plain definitions decide."""
        self.view = SessionView(ledger, promises_repel=promises_repel, plain=plain)
        self._configured = plugins
        self._placement = placement
        self.plugin_set = PluginSet(plugins, self.view, teller)
        self.placement = self._make_engine()
        self.jobs: MutableMapping[str, JobState] = {}
        """The jobs of the session by UID, in order of UID."""
        self.left_out: dict[str, JobCondition] = {}
        """Why jobs are not in the session, by UID."""
        self.node_room = NodeRoom(ledger)
        self.waiting_jobs: dict[JobState, WaitingJob] = {}
        """Data of waiting jobs for pending reasons, for the state of jobs between cycles."""
        self.failed_turns: FailedTurns | None = None
        """The failed turns that need not be repeated, on a live cluster."""
        self.to_admit: Iterable[JobState] = ledger.jobs.values()
        """The jobs whose admission is to be decided."""

    @property
    def foresees(self) -> bool:
        """Whether it may be known that too few tasks of a job fit.

        Turns that leave a job below its minimum are rolled back then, and the engine counts how
        many like tasks fit.
        """
        return self._counts_room and self.plugin_set.reject_below_minimum

    def _make_engine(self) -> Placement:
        plugins = self.plugin_set
        ledger = self.ledger
        self._classes_begin = ledger.classes_end
        evaluator = Evaluator(plugins.predicates, plugins.node_scores, ledger.dimensions)
        try:
            engine = self._placement(ledger, evaluator)
        except BatchschedError:
            raise  # a plugin failed when the engine called it
        except Exception as error:
            message = f"expected it to create a placement engine, but it raised {problem_of(error)}"
            raise ConfigError([Fault("placement", message)]) from error
        if not callable(getattr(engine, "best", None)):
            message = f"expected it to return a placement engine, got {shown(engine)}"
            raise ConfigError([Fault("placement", message)])
        # To check protocols would cost as much as the other checks of a small cycle together.
        self._follows_nodes = callable(getattr(engine, "nodes_changed", None))  # `FollowsNodes`
        self._counts_room = callable(getattr(engine, "room", None))  # `CountsRoom`
        return engine

    def _engine_follows(self) -> bool:
        """Let the engine process changed nodes; return whether it could."""
        if not isinstance(self.ledger, LiveLedger):
            return True
        node_slots = self.ledger.node_slots
        slots = node_slots.take_changed()
        if slots is None:
            return False
        if not slots:
            return True
        return self._follows_nodes and cast("FollowsNodes", self.placement).nodes_changed(slots)

    def diverging(self) -> Iterable[TaskState]:
        """Return the tasks whose state in the ledger differs from their description."""
        return self.ledger.diverging() if isinstance(self.ledger, LiveLedger) else ()

    def live_on(self) -> None:
        """Prepare for changes between cycles."""
        self.jobs = cast("MutableMapping[str, JobState]", SortedDict(self.jobs))
        self._forget_turns()

    def _forget_turns(self) -> None:
        """Drop all failed turns, and record new ones only if the plugins allow it."""
        ledger = self.ledger
        remembers = Door.ATTEMPTS not in self.plain and self.plugin_set.vote_on_jobs_alone
        if remembers and isinstance(ledger, LiveLedger):
            self.failed_turns = FailedTurns(ledger)
        else:
            self.failed_turns = None

    @property
    def is_worn(self) -> bool:
        """Whether the logs are so large that creating a new engine costs little in comparison."""
        ledger = self.ledger
        return (
            len(ledger.log.nodes) > MOST_CHANGES + CHANGES_PER_NODE * len(ledger.nodes)
            or ledger.classes_end - self._classes_begin > MOST_CLASSES
        )

    def resume(
        self,
        changes: Changes,
        *,
        other_tasks_changed: bool = False,
        needs_new_view: bool = False,
    ) -> None:
        """Let plugins and engine process the changes in the ledger.

        Those that cannot are opened or created again, at the cost of a cycle from scratch.
        """
        if isinstance(self.ledger, LiveLedger) and not self._follows_nodes:
            # Do this before anything stores slots.
            self.ledger.node_slots.close_gaps()
        self.view.begin_cycle()
        nodes_changed = bool(changes.nodes or changes.nodes_gone)
        for job in changes.jobs_gone:
            self.jobs.pop(job.uid, None)
            self.left_out.pop(job.uid, None)
        for job in (*changes.jobs_gone, *changes.jobs):
            self.waiting_jobs.pop(job, None)
        if nodes_changed:
            self.waiting_jobs.clear()
            self.node_room.forget_nodes()
        elif other_tasks_changed:
            self.node_room.forget_others()
        self.node_room.trim()
        is_worn = self.is_worn
        if is_worn:
            self.ledger.log.nodes.clear()
        index = self.view.pod_affinity_if_any
        if needs_new_view or (is_worn and index is not None and index.is_active):
            self.plugin_set.forget_keys(self.view)
            self.view = SessionView(
                self.ledger, promises_repel=self._promises_repel, plain=self.plain
            )
            self.ledger.on_occupy = self.ledger.on_promise = None
            self.plugin_set = PluginSet(self._configured, self.view)
            anew = frozenset({"job_valid", *_NODE_FUNCTIONS})
        else:
            anew = self.plugin_set.resume(self.view, changes)
        is_new_engine = is_worn or bool(anew & _NODE_FUNCTIONS) or not self._engine_follows()
        if is_new_engine:
            if isinstance(self.ledger, LiveLedger):
                self.ledger.node_slots.take_changed()
            self.placement = self._make_engine()
        if is_new_engine or anew:
            self._forget_turns()
        if anew:
            self.waiting_jobs.clear()
        self.to_admit = self.ledger.jobs.values() if "job_valid" in anew else changes.jobs


MOST_REQUESTS = 2_000
"""The most requests that are cached."""


class NodeRoom:
    """What nodes could hold if all tasks of jobs left."""

    __slots__ = ("_besides_others", "_by_size", "_large_enough", "_ledger", "_of_sizes")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._large_enough: dict[Vector, frozenset[int]] = {}
        """For each request, the slots of the nodes where it fits if they are empty."""
        self._by_size: dict[Vector, list[int]] = {}
        """For each allocatable amount, the slots of the nodes that have it."""
        self._of_sizes: dict[tuple[Vector, ...], frozenset[int]] = {}
        """For several allocatable amounts, the slots of the nodes that have one of them."""
        self._besides_others: dict[str, Vector] | None = None
        """What nodes with tasks of no job have without these; None: not computed."""

    def for_jobs(self, node: NodeState) -> Vector:
        """Return what a node has without what tasks of no job hold there, such as daemons.

        Those tasks are never evicted, and may stay for ever.
        """
        known = self._besides_others
        if known is None:
            known = self._besides_others = {}
            for task in self._ledger.other_tasks.values():
                on = task.node
                if on is not None and task.status.holds and task.status is not TaskStatus.RELEASING:
                    known[on.name] = minus(known.get(on.name, on.allocatable), task.resreq)
        return known.get(node.name, node.allocatable)

    def large_enough(self, request: Vector) -> frozenset[int]:
        """Return the slots of the nodes where `request` fits if they are empty.

        O(different sizes of nodes) for a new request, else O(1). Requests for which nodes of the
        same sizes are large enough get the same object.
        """
        known = self._large_enough.get(request)
        if known is None:
            by_size = self._by_size
            if not by_size:
                for node in self._ledger.nodes:
                    by_size.setdefault(node.allocatable, []).append(node.slot)
            sizes = tuple(size for size in by_size if fits(request, size))
            known = self._of_sizes.get(sizes)
            if known is None:
                slots = [slot for size in sizes for slot in by_size[size]]
                known = self._of_sizes[sizes] = frozenset(slots)
            self._large_enough[request] = known
        return known

    def forget_others(self) -> None:
        """Drop what depends on tasks of no job, because they or nodes have changed."""
        self._besides_others = None

    def forget_nodes(self) -> None:
        """Drop what depends on nodes, because they have changed."""
        self._besides_others = None
        self._large_enough.clear()
        self._by_size.clear()
        self._of_sizes.clear()

    def trim(self) -> None:
        """Clear the cache of requests if it is too large."""
        if len(self._large_enough) > MOST_REQUESTS:
            self._large_enough.clear()
            self._of_sizes.clear()


# Opening


def open_session(state: PolicyState) -> Session:
    """Open a session for one cycle, on a state that may be kept; see `PolicyState.resume`.

    It has the valid jobs, and what still holds of the reservations and promises of the last
    cycle. Jobs whose promised resources are free are bound.
    """
    session = Session(state)
    _admit_jobs(session)
    session.plugin_set.jobs_admitted()
    session.overused_at_open = _overused_queues(session)
    _drop_stale_reservations(session)
    if session.ledger.initial_promises:
        _keep_promises(session)
        _start_promised_jobs(session)
    return session


_WAITS = (ConditionReason.WAITS_FOR, ConditionReason.NEVER_ELIGIBLE)


def _admit_jobs(session: Session) -> None:
    """Decide which jobs are in the session, and why others are not."""
    ledger, admitted, left_out = session.ledger, session.jobs, session.left_out
    jobs = list(session.state.to_admit)
    unmet = _unmet(jobs, ledger, left_out)
    if unmet:
        for uid in unmet.keys() - {job.uid for job in jobs}:
            # The jobs that it depends on may have changed, although the job itself has not.
            left_out[uid] = _not_eligible(unmet[uid])
    for job in jobs:
        refusal = None
        if job.queue is None:
            refusal = _without_queue(job, ledger.queues)
        elif job.uid in unmet:
            refusal = _not_eligible(unmet[job.uid])
        else:
            refusal = session.job_valid(job)
        ledger.admit(job, is_admitted=refusal is None)
        if refusal is None:
            if admitted.get(job.uid) is not job:  # to write into a sorted map costs more
                admitted[job.uid] = job
            left_out.pop(job.uid, None)
        else:
            left_out[job.uid] = refusal
            admitted.pop(job.uid, None)


def _unmet(
    jobs: Iterable[JobState], ledger: Ledger, left_out: Mapping[str, JobCondition]
) -> Mapping[str, Unmet]:
    """Return the ineligible jobs among some jobs and those left out, by UID."""
    known = ledger.jobs
    waiting = {
        job.uid: job for job in jobs if job.info.depends_on and job.info.eligible_time is None
    }
    for uid, condition in left_out.items():
        if condition.reason in _WAITS and uid in known:
            waiting[uid] = known[uid]
    if not waiting:
        return {}
    concerned = dict(waiting)
    for job in waiting.values():
        for dependency in job.info.depends_on:
            if dependency.job in known:
                concerned[dependency.job] = known[dependency.job]
    return unmet_dependencies(
        evolve(job.info, tasks=[task.info for task in job.tasks])
        for _, job in sorted(concerned.items())
    )


def _without_queue(job: JobState, queues: Mapping[str, QueueState]) -> JobCondition:
    name = job.info.queue
    queue = queues.get(name)
    if queue is None:
        return queue_unknown(name)
    return queue_not_leaf(name, queue.children[0].name)


def _not_eligible(unmet: Unmet) -> JobCondition:
    reason = ConditionReason.NEVER_ELIGIBLE if unmet.never else ConditionReason.WAITS_FOR
    return JobCondition(reason, unmet.text)


def _overused_queues(session: Session) -> set[str]:
    """Return the names of the queues with waiting jobs that are overused."""
    having = session.ledger.jobs_having
    waiting = {
        job.queue
        for status in (TaskStatus.PENDING, TaskStatus.RESERVED)
        for job in having[status.index].values()
        if job.queue is not None
    }
    return {queue.name for queue in waiting if session.overused(queue)}


# Reservations


def _drop_stale_reservations(session: Session) -> None:
    """Drop reservations on nodes that cannot hold them, and of jobs that need none."""
    ledger = session.ledger
    for _, node in sorted(ledger.reserved_nodes.items()):
        tasks = sorted(node.reserved_tasks.values(), key=_uid)
        # It is not known for how long a node is out of service; others can be reserved until then.
        fit = fits(node.reserved, session.node_room.for_jobs(node))
        for task in tasks:
            if not fit or _is_out_of_service(session, task, node):
                _end(session, task)
    reserving = ledger.jobs_having[TaskStatus.RESERVED.index]
    for _, job in sorted(reserving.items()):
        if not job.in_session or session.job_ready(job):
            drop_reservations(session, job)


def drop_reservations(session: Session, job: JobState) -> None:
    """Make all Reserved tasks of a job Pending again."""
    for task in job.having(TaskStatus.RESERVED):
        _end(session, task)


def _is_out_of_service(session: Session, task: TaskState, node: NodeState) -> bool:
    """Return whether a node accepts no tasks at all for now, including this one."""
    if out_of_service(node.info) is None:
        return False
    return session.placement.refusal(task, node) is not None


# Promises


def _keep_promises(session: Session) -> None:
    """Restore the promises of the last cycle, job by job in live job order.

    A promise is restored if its node exists and is in service, and the task still fits the future
    idle amount. If these are not enough for a job, all of its promises end.
    """
    promised: dict[JobState, dict[TaskState, NodeState]] = {}
    for task, node_name in session.ledger.initial_promises:
        job, node = task.job, session.ledger.node_named.get(node_name)
        if job is not None and job.in_session and node is not None and not task.is_held:
            promised.setdefault(job, {})[task] = node
    waiting = session.live_jobs(promised)
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            for task in session.in_task_order(promised[job]):
                node = promised[job][task]
                if job.groups is not None and not job.groups.may_take(task):
                    continue
                if not _is_out_of_service(session, task, node) and node.fits_later(
                    task.init_resreq
                ):
                    statement.pipeline(task, node)
            if session.job_pipelined(job):
                statement.commit()


def _start_promised_jobs(session: Session) -> None:
    """Start the jobs whose promised resources are free, in live job order; others keep waiting.

    A job that cannot start so is tried once more with other places for the tasks that lack theirs.
    """
    waiting = session.live_jobs({task.job: None for task in _kept(session) if task.job is not None})
    while waiting:
        job = waiting.pop()
        with session.statement(is_trial=True) as statement:
            promised = session.in_task_order(job.having(TaskStatus.PIPELINED))
            for starts in (_starts_as_promised, _starts_anywhere):
                try_in_order(promised, partial(starts, session, statement))
                if session.job_ready(job):
                    statement.commit(fulfils=True)
                    break
                statement.rollback(0)
        for task in job.having(TaskStatus.PIPELINED):
            refusal = _cannot_be_kept(session, task)
            if refusal is not None:
                session.reports.broken_promises[task.uid] = refusal


def _cannot_be_kept(session: Session, task: TaskState) -> Unfit | None:
    """Return why a node where nothing is leaving any more refuses a task that is promised it."""
    node = task.node
    assert node is not None
    if any(other.status is TaskStatus.RELEASING for other in node.tasks.values()):
        return None
    refusal = refusal_ahead(session, task)
    if refusal is not None:
        return refusal
    with session.statement(is_trial=True) as statement:
        statement.unallocate(task)
        evaluator = Evaluator((), (), session.dimensions)
        return next(iter(evaluator.lacking(task.init_resreq, node)), None)


def _starts_as_promised(session: Session, statement: Statement, task: TaskState) -> bool:
    """Start a task on its promised node, if it fits there now; return whether it does."""
    node, before = task.node, len(statement)
    assert node is not None
    if _fits_without_its_promise(session, statement, task, node):
        statement.allocate(task, node)
        return True
    statement.rollback(before)
    return False


def _starts_anywhere(session: Session, statement: Statement, task: TaskState) -> bool:
    """Start a task on its promised node, or else where it fits now; return whether it does."""
    if _starts_as_promised(session, statement, task):
        return True
    before = len(statement)
    statement.unallocate(task)
    node = session.best_node(task, Fit.NOW) if session.limit_on(task) is None else None
    if node is None:
        statement.rollback(before)
        return False
    statement.allocate(task, node)
    return True


def _end_promises(session: Session) -> None:
    """End the promises of the last cycle that cannot be kept; see `_cannot_be_kept`.

    If the other promises are not enough for a job, all of its promises end.
    """
    kept = _kept(session)
    over = [task for task in kept if task.uid in session.reports.broken_promises]
    for task in over:
        _end(session, task)
    for job in {task.job: None for task in over}:
        if job is not None and not session.job_pipelined(job):
            for task in kept:
                if task.job is job and task.status is TaskStatus.PIPELINED:
                    _end(session, task)


def _kept_for_claimants(session: Session) -> Iterator[TaskState]:
    """Yield the tasks that will be Pipelined on their present nodes in the next cycle.

    These are the Pipelined and Allocated tasks of jobs for which tasks were evicted, in this
    cycle or an earlier one, if the job's promises are enough for it.
    """
    claimants = {eviction.for_task_uid for eviction in session.evictions}
    tasks = [*(session.ledger.tasks[uid] for uid in sorted(claimants)), *_kept(session)]
    for job in {task.job: None for task in tasks}:
        if job is not None and job.in_session and session.job_pipelined(job):
            yield from job.having(TaskStatus.PIPELINED)
            yield from job.having(TaskStatus.ALLOCATED)


def _kept(session: Session) -> list[TaskState]:
    """Return the tasks whose promises of the last cycle still hold."""
    return [
        task
        for task, node_name in session.ledger.initial_promises
        if task.status is TaskStatus.PIPELINED
        and task.node is not None
        and task.node.name == node_name
    ]


def _fits_without_its_promise(
    session: Session, statement: Statement, task: TaskState, node: NodeState
) -> bool:
    """Remove a promise, and return whether the task can start on its node."""
    statement.unallocate(task)
    accepts = session.placement.refusal(task, node) is None
    return accepts and node.fits_now(task.init_resreq)


def _end(session: Session, task: TaskState) -> None:
    session.ledger.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)


# Closing


class Unchanged(Protocol):
    """Provides the outcomes of everything that a cycle did not change."""

    def tasks(
        self, changed: Mapping[str, TaskOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, TaskOutcome]:
        """Return the outcomes of all tasks of jobs in the session, given those that changed."""
        ...

    def jobs(
        self, changed: Mapping[str, JobOutcome], left_out: Mapping[str, JobCondition], /
    ) -> Mapping[str, JobOutcome]:
        """Return the outcomes of all jobs in the session, given those that changed."""
        ...


def close(
    session: Session, *, reasons: bool = True, unchanged: Unchanged | None = None
) -> CycleResult:
    """Close the plugins, end useless reservations and promises, and return the result.

    Args:
        session: the session to close.
        reasons: whether to determine why tasks are pending.
        unchanged: provides the outcomes of what the cycle did not change; None: the outcomes of
            all jobs and tasks are computed here.

    """
    if session.ledger.broken:
        # An action caught the error, but an inconsistent state must not lead to decisions.
        raise InvariantError(session.ledger.broken)
    for job in session.jobs_having(TaskStatus.RESERVED):
        if not (session.job_ready(job) or session.job_condition_ready(job)):
            if any(task.uid in session.reports.unplaced for task in job.tasks):
                # It was tried, but its gang is incomplete.
                reserved_tasks = job.having(TaskStatus.RESERVED)
                session.reports.rolled_back.update((task.uid, task) for task in reserved_tasks)
            drop_reservations(session, job)
    if session.ledger.initial_promises:
        _end_promises(session)
    conditions = session.plugin_set.close()
    why = PendingReasons(session)
    changed = session.jobs if unchanged is None else session.jobs_changed()
    concerned = {**changed, **{uid: session.jobs[uid] for uid in conditions if uid in session.jobs}}
    if reasons:
        for uid, condition in conditions.items():
            if uid in concerned:
                conditions[uid] = why.explain(concerned[uid], condition)
    tasks: Mapping[str, TaskOutcome] = _outcomes_of_tasks(changed.values())
    jobs: Mapping[str, JobOutcome] = _outcomes_of_jobs(concerned.values(), conditions)
    left_out = dict(session.left_out)
    pending: Mapping[str, PendingReason] = why.of_all() if reasons else {}
    if unchanged is None:
        pending = pending.whole() if isinstance(pending, LazyMap) else pending
    else:
        tasks, jobs = unchanged.tasks(tasks, left_out), unchanged.jobs(jobs, left_out)
    pipelined = _places_of(_having(session, TaskStatus.PIPELINED))
    conditional = _places_of(_having(session, TaskStatus.CONDITIONAL))
    reserved = _places_of(_having(session, TaskStatus.RESERVED))
    dropped = _dropped(session.initial_reservations, TaskStatus.RESERVED)
    broken = _dropped(
        [task for task, _ in session.ledger.initial_promises],
        TaskStatus.PIPELINED,
        session.reports.broken_promises,
        session.gave_way,
    )
    mentioned = [bind.task_uid for bind in session.binds]
    for evicted in session.evictions:
        mentioned += (evicted.task_uid, evicted.for_task_uid)
    for taken in session.taken_back:
        mentioned += (taken.task_uid, taken.for_task_uid)
    mentioned += [each.task_uid for each in (*pipelined, *conditional, *reserved)]
    for each in (*dropped, *broken):
        mentioned += filter(None, (each.task_uid, each.for_task_uid))
    return CycleResult(
        binds=tuple(session.binds),
        evictions=tuple(session.evictions),
        taken_back=tuple(session.taken_back),
        pipelined=pipelined,
        conditional=conditional,
        reserved=reserved,
        dropped_reservations=dropped,
        kept_promises=_places_of(list(_kept_for_claimants(session))),
        dropped_promises=broken,
        tasks=tasks,
        jobs=jobs,
        left_out=left_out,
        pending=pending,
        queues=session.plugin_set.queue_outcomes(),
        names=_names(session, mentioned),
        planned=dict(sorted(session.plans.made.items())),
        late=tuple(sorted(session.plans.late)),
    )


_OF_PHASE = {phase: JobOutcome(phase=phase, condition=None) for phase in JobPhase}


def _outcomes_of_tasks(jobs: Iterable[JobState]) -> dict[str, TaskOutcome]:
    """Return the outcomes of the tasks of jobs, by UID. Equal outcomes are one object."""
    outcomes: dict[str, TaskOutcome] = {}
    known: dict[tuple[int, NodeState | None, bool], TaskOutcome] = {}
    for job in jobs:
        for task in job.tasks:
            status, node = task.status, task.node
            key = (status.index, node, task.is_backfill)
            outcome = known.get(key)
            if outcome is None:
                outcome = known[key] = TaskOutcome(
                    status=status,
                    node_name=None if node is None else node.name,
                    is_backfill=task.is_backfill,
                )
            outcomes[task.uid] = outcome
    return outcomes


def _outcomes_of_jobs(
    jobs: Iterable[JobState], conditions: Mapping[str, JobCondition]
) -> dict[str, JobOutcome]:
    """Return the outcomes of jobs, by UID. Equal outcomes, the usual case, are one object."""
    outcomes: dict[str, JobOutcome] = {}
    known: dict[int, JobOutcome] = {}
    """By the identity of the condition, which the outcome keeps alive."""
    for job in jobs:
        condition = conditions.get(job.uid)
        phase = _phase(job, condition)
        if condition is None:
            outcomes[job.uid] = _OF_PHASE[phase]
            continue
        outcome = known.get(id(condition))
        if outcome is None or outcome.phase is not phase:
            outcome = known[id(condition)] = JobOutcome(phase=phase, condition=condition)
        outcomes[job.uid] = outcome
    return outcomes


def unchanged_outcome(info: JobInfo) -> JobOutcome:
    """Return the outcome of a job that has not changed and has no condition."""
    return JobOutcome(phase=_phase(counted_job(info), None), condition=None)


def _having(session: Session, status: TaskStatus) -> list[TaskState]:
    """Return the tasks of the session with this status."""
    jobs = session.ledger.jobs_having[status.index]
    return [task for job in jobs.values() if job.in_session for task in job.having(status)]


def _places_of(tasks: Collection[TaskState]) -> tuple[Promise, ...]:
    """Return the nodes that tasks are on, in order of task UID."""
    if not tasks:
        return ()  # in most cycles
    return tuple(
        Promise(task_uid=task.uid, node_name=task.node.name)
        for task in sorted(tasks, key=_uid)
        if task.node is not None
    )


def _names(session: Session, uids: Iterable[str]) -> dict[str, str]:
    """Return the display names of these tasks, where they differ from the UID."""
    names: dict[str, str] = {}
    for uid in uids:
        task = session.ledger.tasks.get(uid)
        if task is not None and task.info.display_name != uid:
            names[uid] = task.info.display_name
    return names


def _dropped(
    tasks: Iterable[TaskState],
    status: TaskStatus,
    why: Mapping[str, Unfit] = EMPTY,
    gave_way: Mapping[str, str] = EMPTY,
) -> tuple[DroppedPromise, ...]:
    """Return the promises or reservations of the snapshot that were neither used nor kept.

    Only the final state counts: in between, a reservation may have been dropped and made again.
    """
    dropped: list[DroppedPromise] = []
    for task in sorted(tasks, key=_uid):
        before = task.info.node_name
        assert before is not None
        is_there = task.node is not None and task.node.name == before
        if not (is_there and task.status in (TaskStatus.BINDING, status)):
            dropped.append(
                DroppedPromise(
                    task_uid=task.uid,
                    node_name=before,
                    reason=why.get(task.uid),
                    for_task_uid=gave_way.get(task.uid),
                )
            )
    return tuple(dropped)


def _phase(job: JobState, condition: JobCondition | None) -> JobPhase:
    if not job.ready_count and job.min_available > 0:  # as most jobs that wait
        return JobPhase.PENDING
    if condition is not None and job.count(TaskStatus.RUNNING):
        return JobPhase.UNKNOWN
    if job.tasks and job.count(TaskStatus.SUCCEEDED) == len(job.tasks):
        return JobPhase.COMPLETED
    if job.groups is not None:
        is_running = job.has_minimum() and job.ready_count > job.count(TaskStatus.SUCCEEDED)
        return JobPhase.RUNNING if is_running else JobPhase.PENDING
    occupying = job.ready_count - job.count(TaskStatus.SUCCEEDED)
    return JobPhase.RUNNING if occupying >= job.min_available else JobPhase.PENDING
