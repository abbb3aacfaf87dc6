"""Single changes that would let a job start now, found by trying; the smallest of each kind.

Amounts are found by bisection: the reported change was enough in a trial, and the next smaller one
of the list was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest

from attrs import evolve, frozen

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.live import JobChanged, NodeChanged, QueueChanged, TaskSucceeded
from batchsched.model.cluster import Queue, QueueStatus, TaskStatus, least_tasks
from batchsched.model.reasons import WhyPending
from batchsched.model.result import CycleResult
from batchsched.plugins.proportion import water_fill
from batchsched.session.session import Session
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector, dominant_share, fits, minus
from batchsched.tools.amounts import limit_text, raised_limit, resource_text
from batchsched.tools.explanation import Explanation, NearNode, TriedChange
from batchsched.tools.trials import Change, Trials

EVICTING = ("preempt", "reclaim")
"""The actions that evict."""

_ENDED = 3
"""The number of tasks whose end is tried: the smallest that would leave enough room."""
_MOST_TASKS = 32
"""The most tasks for which more room on one node is tried."""
_LEAVES = 5
"""The most leaf queues that are tried."""
_ONE_BY_ONE = 8
"""The number of weights that are tried one by one; then each is twice the one before."""
_HEAVIEST = 1 << 10
"""The largest factor by which the weight of a queue is multiplied, and the most tasks for which a
higher limit is tried."""

Candidate = tuple[Change, str]
"""A change and its description."""


@frozen
class Kind:
    """Changes of one kind; the first one that is enough is searched for."""

    candidates: tuple[Candidate, ...]
    grows: bool = True
    """Whether each change includes the one before, so that bisection works."""


def changes_to_try(
    session: Session,
    result: CycleResult,
    explanation: Explanation,
    state: JobState,
    task: TaskState,
    before: Sequence[JobState],
) -> tuple[Kind, ...]:
    """Return the changes that may help, by kind. O(running tasks)."""
    if explanation.why is WhyPending.HELD:  # neither room nor rank is in its way
        opened = Kind(tuple(_opened(_path(session, state.info.queue))), grows=False)
        return (opened,) if opened.candidates else ()
    kinds = [
        *(
            Kind(tuple(_more_room(session, explanation, node, task)))
            for node in [near for near in explanation.nearest if not near.refusal][:1]
        ),
        Kind(tuple(_ended_tasks(session, task)), grows=False),
        Kind(tuple(_smaller_gangs(explanation, state))),
        Kind(tuple(_higher_maxima(state))),
        Kind(tuple(_priorities(state, before))),
    ]
    queue = state.queue
    if explanation.why is WhyPending.QUEUE_LIMIT:
        kinds += [
            Kind(tuple(_higher_limits(above, result, task)))
            for above in _path(session, state.info.queue)
        ]
    elif explanation.why is WhyPending.QUEUE_NOT_LEAF:
        kinds.append(Kind(tuple(_leaves(explanation, state)), grows=False))
    if queue is not None and len(session.queues) > 1:
        # A changed weight resets all kept state, so such a trial is slower than others.
        is_overused = session.overused(queue)
        if is_overused or session.plugin_set.names_on("queue_order_key"):
            weights = tuple(_weights(session, queue, is_overused=is_overused))
            kinds.append(Kind(weights))
    return tuple(kind for kind in kinds if kind.candidates)


def _more_room(
    session: Session, explanation: Explanation, node: NearNode, task: TaskState
) -> Iterator[Candidate]:
    """Yield increases of a node's allocatable resources: for one task, for two, and so on."""
    info = session.node(node.name).info
    request = task.info.start_request
    first = node.missing
    for count in range(min(max(1, explanation.lacking), _MOST_TASKS) + 1):
        more = first + count * request
        if not more.is_empty():
            grown = evolve(info, allocatable=info.allocatable + more)
            yield NodeChanged(grown), f"{resource_text(more)} more on node {node.name!r}"


def _ended_tasks(session: Session, task: TaskState) -> Iterator[Candidate]:
    """Yield ends of running tasks, each of which makes room for `task`, the smallest first."""
    cluster = session.ledger.cluster
    found: list[tuple[float, str, TaskState]] = []
    for node in session.nodes:
        missing = minus(task.init_resreq, node.idle)
        enough = [
            other
            for other in node.tasks.values()
            if other.status is TaskStatus.RUNNING and fits(missing, other.resreq)
        ]
        if enough and session.placement.refusal(task, node) is None:
            found += [(dominant_share(t.resreq, cluster), t.uid, t) for t in enough]
    for _, _, other in nsmallest(_ENDED, found):
        whose = "" if other.job is None else f" of job {other.job.uid!r}"
        yield TaskSucceeded(other.uid), f"task {other.info.display_name!r}{whose} ended"


def _smaller_gangs(explanation: Explanation, state: JobState) -> Iterator[Candidate]:
    most = min(state.min_available - 1, explanation.ready + explanation.at_once)
    # A value below what its groups need has no effect.
    bottom = max(1, least_tasks(state.info.groups, state.info.min_groups))
    for least in range(most, bottom - 1, -1):
        text = f"min_available {least} instead of {state.min_available}"
        yield JobChanged(state.uid, min_available=least), text


def _higher_maxima(state: JobState) -> Iterator[Candidate]:
    most = state.info.max_available
    if most is not None and most < len(state.tasks):
        text = f"max_available {most + 1} instead of {most}"
        yield JobChanged(state.uid, max_available=most + 1), text


def _priorities(state: JobState, before: Sequence[JobState]) -> Iterator[Candidate]:
    """Yield a priority above that of each job before it, the lowest first."""
    of_priority = {job.info.priority: job.uid for job in before}
    for priority in sorted(of_priority):
        if priority >= state.info.priority:
            text = f"priority {priority + 1}, above that of job {of_priority[priority]!r}"
            yield JobChanged(state.uid, priority=priority + 1), text


def _path(session: Session, name: str) -> Iterator[Queue]:
    """Yield a queue and those above it, the nearest first."""
    above: str | None = name
    while above is not None:
        queue = session.ledger.queues[above].info
        yield queue
        above = queue.parent


def _higher_limits(queue: Queue, result: CycleResult, task: TaskState) -> Iterator[Candidate]:
    """Yield limits that leave room for `task` after the cycle, for two such tasks, and so on."""
    outcome, now = result.queues.get(queue.name), queue.limit
    if outcome is None or now is None:
        return
    counts = [*range(1, _MOST_TASKS + 1)]
    while counts[-1] < _HEAVIEST:
        counts.append(2 * counts[-1])
    for count in counts:
        limit = now
        for dimension, amount in (outcome.allocated + count * task.info.resreq).dimensions():
            if task.info.resreq.get(dimension):
                limit = raised_limit(limit, dimension, amount)
        if limit != now:
            text = f"limit {limit_text(limit)} of queue {queue.name!r} instead of {limit_text(now)}"
            yield QueueChanged(evolve(queue, limit=limit)), text


def _opened(queues: Iterable[Queue]) -> Iterator[Candidate]:
    for queue in queues:
        if queue.state is not QueueStatus.OPEN:
            text = f"queue {queue.name!r} open instead of {queue.state.value}"
            yield QueueChanged(evolve(queue, state=QueueStatus.OPEN)), text


def _leaves(explanation: Explanation, state: JobState) -> Iterator[Candidate]:
    for leaf in explanation.queue.leaves[:_LEAVES]:
        text = f"queue {leaf!r} instead of {state.info.queue!r}"
        yield JobChanged(state.uid, queue=leaf), text


def _weights(session: Session, queue: QueueState, *, is_overused: bool) -> Iterator[Candidate]:
    now = queue.info.weight
    weights = [now + more for more in range(1, _ONE_BY_ONE + 1)]
    while weights[-1] < _HEAVIEST * max(1, now):
        weights.append(2 * weights[-1])
    if is_overused:
        enough = _weight_to_deserve_more(session, queue, weights)
        weights = [weight for weight in weights if weight > enough]
        weights.insert(0, enough)
    for weight in weights:
        text = f"weight {weight} of queue {queue.name!r} instead of {now}"
        yield QueueChanged(evolve(queue.info, weight=weight)), text


def _weight_to_deserve_more(session: Session, queue: QueueState, weights: Sequence[int]) -> int:
    """Return the smallest weight with which a queue deserves more than it holds.

    It is computed as plugin proportion does, so it is only a guess if another plugin computes
    shares; it is tried in any case.
    """
    zero = session.ledger.dimensions.zero
    use = {q.name: _use(q.jobs, zero) for q in session.ledger.queues.values() if q.jobs}
    asked = {name: both[1] for name, both in use.items()}
    held = use[queue.name][0]

    def deserves_more(weight: int) -> bool:
        by_name = {name: session.ledger.queues[name].info.weight for name in use}
        shares = water_fill(session.ledger.cluster, {**by_name, queue.name: weight}, asked)
        return not fits(shares[queue.name], held)

    low = queue.info.weight
    high = next((weight for weight in weights if deserves_more(weight)), None)
    if high is None:
        return low + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if deserves_more(middle) else (middle, high)
    return high


def _use(jobs: Iterable[JobState], zero: Vector) -> tuple[Vector, Vector]:
    """Return what jobs hold, and the sum of what they hold and request."""
    held, asked = list(zero), list(zero)
    for job in jobs:
        for task in job.tasks:
            waits = task.status in (TaskStatus.PENDING, TaskStatus.RESERVED)
            if task.is_backfill or not (waits or task.status.occupies):
                continue
            for at, amount in enumerate(task.resreq):
                asked[at] += amount
                if not waits:
                    held[at] += amount
    return tuple(held), tuple(asked)


# Trials


def what_helps(
    trials: Trials, wanted: frozenset[str], kinds: Sequence[Kind]
) -> tuple[tuple[TriedChange, ...], int]:
    """Return the changes with which any of the `wanted` tasks starts, and how many were tried.

    Cycles that evict are slow on full clusters. So changes are first tried without the evicting
    actions, which is fast and usually right; a change that is enough is then tried again with all
    actions up to the last that may start the job.
    """
    tried: set[Change] = set()

    def try_with(config: SchedulerConfig, change: Change) -> bool:
        tried.add(change)
        result = trials.result((change,), config=config)
        return any(bind.task_uid in wanted for bind in result.binds)

    deciding, quick = _until_the_last_that_starts(trials.config), without_evictions(trials.config)
    found: list[TriedChange] = []
    for kind in kinds:
        at = _first_that_works(kind, 0, partial(try_with, quick))
        if at is not None and quick != deciding:
            at = _first_that_works(kind, at, partial(try_with, deciding))
        if at is not None:
            change, text = kind.candidates[at]
            found.append(TriedChange(change=change, text=text))
    return tuple(found), len(tried)


def _until_the_last_that_starts(config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration without the evicting actions at its end.

    Later actions never undo binds, so a task that starts without them starts with them too.
    """
    actions = list(config.actions)
    while actions and actions[-1].name in EVICTING:
        actions.pop()
    return evolve(config, actions=actions) if actions else config


def without_evictions(config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration without its evicting actions, unless it has no others."""
    actions = [action for action in config.actions if action.name not in EVICTING]
    return evolve(config, actions=actions) if actions else config


def _first_that_works(kind: Kind, begin: int, works: Callable[[Change], bool]) -> int | None:
    """Return the position of the first change that is enough; by bisection if they grow."""
    changes = [change for change, _ in kind.candidates]
    if not kind.grows:
        positions = range(begin, len(changes))
        return next((position for position in positions if works(changes[position])), None)
    if works(changes[begin]):
        return begin
    low, high = begin, len(changes) - 1
    if low == high or not works(changes[high]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(changes[middle]) else (middle, high)
    return high
