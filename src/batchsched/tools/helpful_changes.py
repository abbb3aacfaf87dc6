"""Single changes that would let a job start now, found by trying; the smallest of each kind.

Only what somebody could do is tried: nodes are added, and jobs end, as a whole. Amounts are found
by bisection: the reported change was enough in a trial, and the next smaller one was not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from heapq import nsmallest
from itertools import count, islice

from attrs import evolve, frozen

from batchsched.causes import OF_ROOM, HoldKind, Remedy, WhyPending
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.live import (
    BudgetsChanged,
    JobChanged,
    QueueChanged,
    TaskRemoved,
    TaskSucceeded,
)
from batchsched.model.cluster import (
    Budget,
    JobInfo,
    Queue,
    QueueStatus,
    TaskStatus,
    least_tasks,
)
from batchsched.model.reasons import PendingReason
from batchsched.model.resources import EPSILON, Amount, Resource
from batchsched.model.result import CycleResult
from batchsched.model.texts import amounts_text, first_of
from batchsched.plugin.candidates import NodeSet
from batchsched.session.holders import Holder, held_by, held_on, queues_below
from batchsched.session.session import Session
from batchsched.state.groups import Counting
from batchsched.state.records import Fit, JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, dominant_share, fits, minus, total_of
from batchsched.tools.amounts import raised_limit, with_dimension
from batchsched.tools.changes import (
    Change,
    CycleRun,
    Released,
    all_holds,
    describe_changes,
    is_of_admission,
    node_like,
    unused_claims,
    without_claim,
)
from batchsched.tools.domain_fit import RoomInSets
from batchsched.tools.node_fit import NodeFit, taken_by
from batchsched.tools.standings import TaskCounts
from batchsched.tools.trials import Trials

STOPPING = ("consolidate", "preempt", "reclaim")
"""The actions that stop what runs: they move or evict it."""

_ENDED = 3
"""The number of jobs whose end is tried: the smallest that would leave enough room."""
_CLAIMS = 8
"""The most claims that no task uses of which the deletion is tried."""
_FEW_NODES = 8
_MOST_NODES = 64
"""The most nodes that are added in a trial."""
_TASKS_OF_LIMITS = (*range(1, 33), 64, 128, 256, 512, 1024)
"""For how many tasks a higher limit is tried."""
_LEAVES = 5
"""The most leaf queues that are tried."""
_WEIGHT_STEPS = 32
"""The weight up to which each may be tried; then in steps of this part of the one before."""
_HEAVIEST = 1 << 10
"""The largest factor by which the weight of a queue is multiplied."""
_NAMED = 3
"""The most nodes that a text names."""


@frozen(kw_only=True)
class TriedChange:
    """A single change with which the task or job started in a trial cycle."""

    changes: tuple[Change, ...]
    """What to give to `what_if`: mostly one change, or several nodes, or the ends of all tasks of a
    job."""
    text: str = ""
    """What it does, in words."""

    @property
    def evicts(self) -> bool:
        """Whether others are evicted in a first cycle with it, and the job starts in the next."""
        return any(isinstance(change, CycleRun) for change in self.changes)


@frozen
class ChangesOfKind:
    """Changes of one kind; the first one that is enough is searched for."""

    candidates: tuple[TriedChange, ...]
    """Those without a text are told as the changes that they are."""
    grows: bool = True
    """Whether each change includes the one before, so that bisection works."""
    evicts: bool = False
    """Whether others leave for the job with it, so that cycles without evictions tell nothing."""


@frozen(kw_only=True)
class ExplainedJob:
    """A job that waits, and what is known of it."""

    session: Session
    result: CycleResult
    reason: PendingReason | None
    """Why `task` is pending, if a reason is known."""
    state: JobState
    task: TaskState
    before: Sequence[JobState]
    """The jobs before it in its queue."""
    fits: Sequence[NodeFit]
    """How each node suits the task; empty if nodes are not what it waits for."""
    room: RoomInSets | None
    """What has room in the sets of nodes that plugins offer for it; None: it may be anywhere."""
    at_once: int
    """How many of its tasks would fit now if it were first."""
    has_fixed_priority: bool
    """Whether nobody can change the priority of the job."""
    has_fixed_minimum: bool
    """Whether nobody can lower the minimum of the job."""
    absent_queues: Set[str] = frozenset()
    """The queues that nobody can change, since they are no objects."""

    @property
    def needed(self) -> int:
        """The number of tasks that must start together."""
        return max(1, self.state.lacks())

    @property
    def domains(self) -> Sequence[NodeSet | None]:
        """The domains of which one must hold all of them; None: the cluster."""
        if self.room is None or self.room.no_domain is None:
            return (None,)
        return self.room.domains


def kinds_of_changes(waiting: ExplainedJob) -> Sequence[ChangesOfKind]:
    """Return the changes that may help. O(nodes + running tasks)."""
    reason = waiting.reason
    remedies = OF_ROOM if reason is None else reason.why.remedies
    lacks_tasks = reason is not None and reason.out_of_reach is not None
    if lacks_tasks or (Remedy.SMALLER_GANG in remedies and not waiting.state.in_session):
        remedies = (Remedy.SMALLER_GANG,)
    kinds: list[ChangesOfKind] = []
    for remedy in remedies:
        if remedy is Remedy.LIMIT:
            for queue in _path(waiting.session, waiting.state.info.queue):
                limits = _higher_limits(waiting, queue)
                if queue.name in waiting.absent_queues:
                    limits = _higher_quotas(waiting, queue, limits)
                kinds.append(ChangesOfKind(tuple(limits)))
        elif remedy is Remedy.BUDGET:
            for budget in _budgets_in_the_way(waiting):
                looser = tuple(_looser_budgets(waiting, budget))
                kinds.append(ChangesOfKind(looser, evicts=True))
        else:
            if remedy is Remedy.END_ON_NODES:
                kinds.append(ChangesOfKind(tuple(_without_claims(waiting)), grows=False))
            candidates = tuple(_CHANGES[remedy](waiting))
            kinds.append(ChangesOfKind(candidates, grows=remedy not in _EACH_BY_ITSELF))
    return [kind for kind in kinds if kind.candidates]


# Room


def _more_nodes(waiting: ExplainedJob) -> Iterator[TriedChange]:
    """Yield one more node of a kind that is there, two more, and so on.

    Of the kind of which the fewest nodes are enough for the task; of the smallest of these.
    """
    session, needed, task = waiting.session, waiting.needed, waiting.task
    requests = {task.init_resreq for task in waiting.state.having(TaskStatus.PENDING)}
    largest = tuple(map(max, zip(task.init_resreq, *requests, strict=True)))

    def rank(fit: NodeFit) -> tuple[bool, int, float, int]:
        node = fit.node
        slots = _slots(task.init_resreq, node.allocatable, needed)
        size = dominant_share(node.allocatable, session.ledger.cluster)
        return not fits(largest, node.allocatable), -(-needed // slots), size, node.index

    like = min((fit for fit in waiting.fits if fit.is_near), key=rank, default=None)
    if like is None:
        return
    most = min(_MOST_NODES, max(_FEW_NODES, 2 * needed))
    taken = {each.name for each in session.nodes}
    names = (f"{like.node.name}-more-{number}" for number in count(1))
    node, running = like.node.info, [task.info for task in like.node.tasks.values()]
    changes: list[Change] = []
    for name in islice((name for name in names if name not in taken), most):
        changes += node_like(node, name, running)
        yield TriedChange(changes=tuple(changes))


def _slots(request: Vector, idle: Vector, most: int) -> int:
    """Return how many such requests fit, at most `most`."""
    for wanted, there in zip(request, idle, strict=True):
        if wanted >= EPSILON:
            most = min(most, int(there // wanted))
    return max(0, most)


# Ends of jobs


def ended(job: JobState) -> TriedChange:
    """Return the end of a job: what runs of it succeeds, and what waits is not run any more."""
    changes: list[Change] = []
    for task in job.tasks:
        status = task.info.status  # that before the cycle, in which it may have found a place
        if status.holds:
            changes.append(TaskSucceeded(task.uid))
        elif not status.ended:
            changes.append(TaskRemoved(task.uid))
    return TriedChange(changes=tuple(changes), text=f"end job {job.uid}")


def _smallest_ended(waiting: ExplainedJob, holders: Iterable[Holder]) -> Iterator[TriedChange]:
    """Return ends of the smallest jobs, and pods of none, that hold enough of what it lacks."""
    cluster, zero = waiting.session.ledger.cluster, waiting.session.ledger.dimensions.zero

    def size(holder: Holder) -> tuple[float, str]:
        return dominant_share(held_by(holder, zero), cluster), holder.uid

    for holder in nsmallest(_ENDED, holders, key=size):
        if isinstance(holder, JobState):
            yield ended(holder)
        else:
            text = f"end pod {holder.info.display_name}"
            yield TriedChange(changes=(TaskSucceeded(holder.uid),), text=text)


def _without_claims(waiting: ExplainedJob) -> Iterator[TriedChange]:
    """Yield the deletion of each claim that has devices although no task uses it, the first few."""
    if any(unfit.devices is not None for fit in waiting.fits for unfit in fit.lacking):
        held = waiting.session.ledger.besides["held"]
        for name in sorted(unused_claims(held))[:_CLAIMS]:
            yield TriedChange(changes=(without_claim(held, name),))


def _holders_of_room(waiting: ExplainedJob) -> Iterator[Holder]:
    """Yield the jobs, and the tasks of none, without which enough of its tasks would have room.

    O(running tasks).
    """
    request, needed = waiting.task.init_resreq, waiting.needed
    session = waiting.session
    taken = taken_by(session, waiting.result)
    chooses = session.may_choose(waiting.task)
    domains = waiting.domains
    slots = Counter[int]()
    """The tasks that have room, by domain."""
    more: dict[Holder, Counter[int]] = {}
    for fit in waiting.fits:
        if not fit.is_near:
            continue
        node: NodeState = fit.node
        idle = node.idle
        for other in taken.get(node.name, ()):
            if other.job is not waiting.state:
                idle = minus(idle, other.resreq)
        now = 0 if fit.refusals else _slots(request, idle, needed)
        if chooses and now:
            now = _placed_one_by_one(waiting, node)
        around = [at for at, each in enumerate(domains) if each is None or node.slot in each.slots]
        for at in around:
            slots[at] += now
        for holder, tasks in held_on(node).items():
            if holder is waiting.state:
                continue
            then = _slots(request, total_of([idle, *(task.resreq for task in tasks)], idle), needed)
            if chooses and then > now:
                then = _with_their_choices(waiting, node, tasks, now, then)
            for at in around if then > now else ():
                more.setdefault(holder, Counter())[at] += then - now
    for holder, gains in more.items():
        if any(slots[at] + gain >= needed for at, gain in gains.items()):
            yield holder


def _placed_one_by_one(waiting: ExplainedJob, node: NodeState) -> int:
    """Return how many of its tasks have room, and what plugins choose for them, on a node."""
    session, placed = waiting.session, 0
    tasks = session.in_task_order(waiting.state.having(TaskStatus.PENDING))
    with session.statement(is_trial=True) as trial:
        for task in tasks[: waiting.needed]:
            if session.fits(task, node, Fit.NOW):
                trial.allocate(task, node)
                placed += 1
        trial.discard()
    return placed


def _with_their_choices(
    waiting: ExplainedJob, node: NodeState, gone: Sequence[TaskState], now: int, most: int
) -> int:
    """Return how many tasks may have room once others have left what was chosen for them, too."""
    if waiting.session.no_choice(waiting.task, node, Fit.NOW, gone=gone) is not None:
        return now
    chosen = sum(map(len, map(waiting.session.state.view.device_books.picks_of, gone)))
    return min(most, now + chosen)


def _holders_of_quota(waiting: ExplainedJob) -> Iterator[JobState]:
    """Yield the jobs without which the queue that may not take the task would hold enough less."""
    session = waiting.session
    refusal = None if waiting.reason is None else waiting.reason.refusal
    name = waiting.state.info.queue if refusal is None or not refusal.queue else refusal.queue
    zero, least = session.ledger.dimensions.zero, list(session.ledger.dimensions.zero)
    if refusal is not None and refusal.excess is not None:
        at = session.ledger.dimensions.names.index(refusal.excess.dimension)
        least[at] = refusal.excess.would_hold - refusal.excess.most
    top = session.ledger.queues.get(name)
    for queue in () if top is None else queues_below(top):
        for job in queue.jobs:
            held = held_by(job, zero)
            if job is not waiting.state and any(held) and fits(least, held):
                yield job


def _ended_dependencies(waiting: ExplainedJob) -> Iterator[TriedChange]:
    """Yield the end of all jobs that a job depends on and that have not ended."""
    jobs = waiting.session.ledger.jobs
    others = [jobs.get(each.job) for each in waiting.state.info.depends_on]
    ends = [ended(other) for other in others if other is not None]
    ends = [each for each in ends if each.changes]
    if ends and None not in others:
        names = ", ".join(each.text.removeprefix("end job ") for each in ends)
        text = ends[0].text if len(ends) == 1 else f"end jobs {names}"
        changes = tuple(change for each in ends for change in each.changes)
        yield TriedChange(changes=changes, text=text)


# The job itself


def _smaller_gangs(waiting: ExplainedJob) -> Iterator[TriedChange]:
    state = waiting.state
    if waiting.has_fixed_minimum:
        return
    most = state.min_available - 1
    if state.in_session:
        most = min(most, state.ready_count + waiting.at_once)
    # A value below what its groups need has no effect.
    bottom = max(1, least_tasks(state.info.groups, state.info.min_groups))
    for least in range(most, bottom - 1, -1):
        yield TriedChange(changes=(JobChanged(state.uid, min_available=least),))


def _higher_maxima(waiting: ExplainedJob) -> Iterator[TriedChange]:
    state = waiting.state
    most = state.info.max_available
    if most is not None and most < len(state.tasks):
        yield TriedChange(changes=(JobChanged(state.uid, max_available=most + 1),))


def _priorities(waiting: ExplainedJob) -> Iterator[TriedChange]:
    """Yield a priority above that of each job before it, the lowest first."""
    state = waiting.state
    of_priority = {job.info.priority: job.uid for job in waiting.before}
    now = state.info.priority
    if waiting.has_fixed_priority:
        return
    for priority in sorted(of_priority):
        if priority >= now:
            text = f"job {state.uid}: priority {priority + 1} instead of {now}, above that of "
            text += f"job {of_priority[priority]}"
            change = JobChanged(state.uid, priority=priority + 1)
            yield TriedChange(changes=(change,), text=text)


def _leaves(waiting: ExplainedJob) -> Iterator[TriedChange]:
    queue = waiting.session.ledger.queues.get(waiting.state.info.queue)
    for leaf in () if queue is None else leaves_below(queue)[:_LEAVES]:
        yield TriedChange(changes=(JobChanged(waiting.state.uid, queue=leaf),))


# Its queue


def leaves_below(queue: QueueState) -> tuple[str, ...]:
    """Return the names of the leaf queues below a queue; none if it is a leaf."""
    below = (each for each in queues_below(queue) if each is not queue)
    return tuple(sorted(each.name for each in below if not each.children))


def _path(session: Session, name: str) -> Iterator[Queue]:
    """Yield a queue, if there is one of this name, and those above it, the nearest first."""
    above: str | None = name
    while above is not None and above in session.ledger.queues:
        queue = session.ledger.queues[above].info
        yield queue
        above = queue.parent


def _higher_limits(waiting: ExplainedJob, queue: Queue) -> Iterator[TriedChange]:
    """Yield limits that leave room for its task, for two such tasks, and so on.

    First beside what the queue held before the cycle: what else starts may come after the task.
    """
    outcome, now = waiting.result.queues.get(queue.name), queue.limit
    if outcome is None or now is None:
        return
    request, after = waiting.task.info.resreq, outcome.allocated
    before = waiting.session.plugins.queue_outcomes()[queue.name].allocated
    asked = [dimension for dimension, amount in request.dimensions() if amount]
    least = {d: min(before.get(d), after.get(d)) + request.get(d) for d in asked}
    enough = ({d: after.get(d) + n * request.get(d) for d in asked} for n in _TASKS_OF_LIMITS)
    for amounts in (least, *enough):
        limit = now
        for dimension, amount in amounts.items():
            limit = raised_limit(limit, dimension, amount)
        if limit != now:
            yield TriedChange(changes=(QueueChanged(evolve(queue, limit=limit)),))


def _higher_quotas(
    waiting: ExplainedJob, top: Queue, limits: Iterable[TriedChange]
) -> Iterator[TriedChange]:
    """Yield quotas of its queue that raise the limit of a queue above it, which others only name.

    Such a queue may hold what its members have together.
    """
    leaf, *above = _path(waiting.session, waiting.state.info.queue)
    if leaf.name in waiting.absent_queues or not isinstance(leaf.deserved, Resource):
        return
    raised = [leaf, *(queue for queue in above if queue.name in waiting.absent_queues)]
    for tried in limits:
        (change,) = tried.changes
        assert isinstance(change, QueueChanged)
        assert change.queue.limit is not None
        assert top.limit is not None
        more = {
            name: amount - (top.limit.get(name) or 0)
            for name, amount in change.queue.limit.dimensions()
            if amount != top.limit.get(name)
        }
        quota = leaf.deserved
        for name, amount in more.items():
            quota = with_dimension(quota, name, quota.get(name) + amount)
        changes = [QueueChanged(_with_higher_limit(queue, more)) for queue in raised]
        changes[0] = QueueChanged(evolve(changes[0].queue, deserved=quota))
        new, old = (
            amounts_text([(n, each.get(n)) for n in more]) for each in (quota, leaf.deserved)
        )
        text = f"queue {leaf.name}: quota {new} instead of {old}"
        yield TriedChange(changes=tuple(changes), text=text)


def _with_higher_limit(queue: Queue, more: Mapping[str, Amount]) -> Queue:
    limit = queue.limit
    if limit is None:
        return queue
    for name, amount in more.items():
        limit = raised_limit(limit, name, (limit.get(name) or 0) + amount)
    return evolve(queue, limit=limit)


def _weights(waiting: ExplainedJob) -> Iterator[TriedChange]:
    session, queue = waiting.session, waiting.state.queue
    if queue is None or len(session.queues) <= 1 or queue.name in waiting.absent_queues:
        return
    # A changed weight resets all kept state, so such a trial is slower than others.
    if not session.plugins.overused(queue) and not session.plugins.names_on("queue_order_key"):
        return
    weight, heaviest = queue.info.weight, _HEAVIEST * max(1, queue.info.weight)
    while weight < heaviest:
        weight += max(1, weight // _WEIGHT_STEPS)
        yield TriedChange(changes=(QueueChanged(evolve(queue.info, weight=weight)),))


# Budgets


def _budgets_in_the_way(waiting: ExplainedJob) -> Iterator[Budget]:
    """Yield the budgets that keep tasks from being evicted for the task, as far as it is known."""
    reports = () if waiting.reason is None else waiting.reason.evictions
    rules = {refusal.rule for report in reports for refusal in report.refusals}
    for budget in waiting.session.state.view.budgets:
        if budget.rule in rules:
            yield budget


def _looser_budgets(waiting: ExplainedJob, budget: Budget) -> Iterator[TriedChange]:
    """Yield the budgets with one that lets one task more go, two more, and so on.

    At most all of its tasks that are on nodes. O(tasks).
    """
    budgets = waiting.session.state.view.budgets
    tasks = waiting.session.ledger.tasks.values()
    most = sum(task.info.status.occupies and budget.counts(task.info) for task in tasks)
    for more in range(1, most + 1):
        least = budget.min_available
        if least is None:
            most_down = budget.max_unavailable or 0
            looser = evolve(budget, max_unavailable=most_down + more)
            said = f"max_unavailable {most_down + more} instead of {most_down}"
        elif least < more:
            return
        else:
            looser = evolve(budget, min_available=least - more)
            said = f"min_available {least - more} instead of {least}"
        change = BudgetsChanged([looser if each is budget else each for each in budgets])
        text = f"let budget {budget.uid} allow {more} more ({said})"
        yield TriedChange(changes=(change, CycleRun()), text=text)


_CHANGES: Mapping[Remedy, Callable[[ExplainedJob], Iterator[TriedChange]]] = {
    Remedy.MORE_NODES: _more_nodes,
    Remedy.END_ON_NODES: lambda waiting: _smallest_ended(waiting, _holders_of_room(waiting)),
    Remedy.END_IN_QUEUE: lambda waiting: _smallest_ended(waiting, _holders_of_quota(waiting)),
    Remedy.END_DEPENDENCIES: _ended_dependencies,
    Remedy.SMALLER_GANG: _smaller_gangs,
    Remedy.HIGHER_MAXIMUM: _higher_maxima,
    Remedy.PRIORITY: _priorities,
    Remedy.WEIGHT: _weights,
    Remedy.LEAF: _leaves,
}
"""The changes of each kind, but those of limits and budgets: of these there are several."""
_EACH_BY_ITSELF = (
    *(Remedy.END_ON_NODES, Remedy.END_IN_QUEUE, Remedy.END_DEPENDENCIES),
    Remedy.LEAF,
)
"""Kinds of which no change includes the one before."""


# What holds it


def release(waiting: ExplainedJob) -> TriedChange | None:
    """Return the change by which nothing holds a job any more; None: that would not help it."""
    job = waiting.state.info
    # In a queue that is not there, it would not start with nothing in its way either.
    is_queued = job.queue in waiting.session.ledger.queues
    is_held = waiting.reason is not None and waiting.reason.why is WhyPending.HELD
    if not is_held or not is_queued:
        return None
    holds = all_holds(job)
    if any(hold.kind is HoldKind.NEVER_ADMITTED for hold in holds):
        return None
    path = _path(waiting.session, job.queue)
    queues = [queue for queue in path if queue.state is not QueueStatus.OPEN]
    changes: list[Change] = [Released(job.uid)] if holds else []
    changes += [QueueChanged(evolve(queue, state=QueueStatus.OPEN)) for queue in queues]
    gone = [hold.kind.words_once_gone.format(hold.name and f"{hold.name} ") for hold in holds]
    gone += [f"queue {queue.name} is opened" for queue in queues]
    gone = list(dict.fromkeys(gone))
    if any(hold.kind.has_to_be_made for hold in holds):
        return TriedChange(changes=tuple(changes), text=" and ".join(gone))
    return TriedChange(changes=tuple(changes), text=f"{_RELEASE}{', '.join(gone)}")


_RELEASE = "release: "


def once_released(
    trials: Trials, job: JobInfo, wanted: frozenset[str], freed: TriedChange
) -> tuple[str, tuple[str, ...], tuple[TriedChange, ...]]:
    """Return what follows once nothing holds a job: in words, on which nodes, and the change.

    One cycle. Nobody is advised of a change that is for others to make, or that is not enough.
    """
    result = trials.result(freed.changes, reasons=True)
    holds = all_holds(job)
    once = "once released"
    if not freed.text.startswith(_RELEASE):
        once = f"once {freed.text}"
    elif any(is_of_admission(hold) for hold in holds):
        once = "admitted now"
    started = [bind for bind in result.binds if bind.task_uid in wanted]
    promised = [promise for promise in result.promised() if promise.task_uid in wanted]
    nodes = tuple(dict.fromkeys(each.node_name for each in started or promised))
    found: tuple[TriedChange, ...] = ()
    if started:
        text = f"{once}, it would start on {first_of(nodes, _NAMED)}"
        is_theirs = all(isinstance(change, Released) for change in freed.changes) and all(
            is_of_admission(hold) for hold in holds
        )
        if not is_theirs and _starts(job, wanted, result, freed.changes):
            found = (TriedChange(changes=freed.changes, text=freed.text),)
    elif promised:
        text = f"{once}, it would be promised room on {first_of(nodes, _NAMED)}, "
        text += "which others have to leave"
    else:
        condition = result.left_out.get(job.uid)
        why = "no reason is known" if condition is None else condition.message
        if condition is None:
            waits = (result.pending.get(task.uid) for task in job.tasks if task.uid in wanted)
            why = next((reason.text for reason in waits if reason is not None), why)
        text = f"{once}, it would still wait: {why}"
    return text, nodes, found


# Trials


def what_helps(
    trials: Trials, kinds: Sequence[ChangesOfKind], job: JobInfo, wanted: frozenset[str]
) -> tuple[tuple[TriedChange, ...], int]:
    """Return the changes with which the job starts, and any of `wanted`; and how many were tried.

    Cycles that move or evict are slow on full clusters. So changes are first tried without these
    actions, which is fast and usually right; a change that is enough is then tried again with all
    actions: those that evict may place others first, and take back what was placed before them.
    What lets more tasks be evicted is tried with all of them at once.
    """
    tried: set[TriedChange] = set()

    def is_enough(config: SchedulerConfig, change: TriedChange) -> bool:
        tried.add(change)
        result = trials.result(change.changes, config=config)
        return _starts(job, wanted, result, change.changes)

    quick, deciding = without_evictions(trials.config), trials.config
    found: list[TriedChange] = []
    for kind in kinds:
        first = deciding if kind.evicts else quick
        at = _first_that_works(kind, 0, partial(is_enough, first))
        if at is not None and first != deciding:
            at = _first_that_works(kind, at, partial(is_enough, deciding))
        if at is not None:
            change = kind.candidates[at]
            words = change.text or "; ".join(describe_changes(trials.snapshot, change.changes))
            found.append(evolve(change, text=words))
    return tuple(found), len(tried)


def _starts(
    job: JobInfo, wanted: frozenset[str], result: CycleResult, changes: Iterable[Change]
) -> bool:
    """Return whether any of the wanted tasks starts, and the job has what it needs then."""
    if not any(bind.task_uid in wanted for bind in result.binds):
        return False
    for change in changes:
        if isinstance(change, JobChanged) and change.min_available is not None:
            job = evolve(job, min_available=change.min_available)
    tasks = [
        evolve(task, status=result.tasks[task.uid].status) if task.uid in result.tasks else task
        for task in job.tasks
    ]
    return TaskCounts(job, tasks).has_minimum(Counting.READY)


def without_evictions(config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration without what moves or evicts, unless it has no others."""
    actions = [action for action in config.actions if action.name not in STOPPING]
    return evolve(config, actions=actions) if actions else config


def _first_that_works(
    kind: ChangesOfKind, begin: int, works: Callable[[TriedChange], bool]
) -> int | None:
    """Return the position of the first change that is enough; by bisection if they grow."""
    candidates = kind.candidates
    if not kind.grows:
        return next((at for at in range(begin, len(candidates)) if works(candidates[at])), None)
    if works(candidates[begin]):
        return begin
    low, high = begin, len(candidates) - 1
    if low == high or not works(candidates[high]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(candidates[middle]) else (middle, high)
    return high
