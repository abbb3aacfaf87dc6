"""What a queue holds, is due and may hold, as answers about jobs tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.result import QueueOutcome
from batchsched.model.texts import amount_text
from batchsched.plugin.queues import reserved_tasks
from batchsched.session.holders import queues_below
from batchsched.session.session import Session
from batchsched.session.turns import need_of
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import total_of
from batchsched.tools.amounts import limit_text, resource_text
from batchsched.tools.helpful_changes import leaves_below


@frozen(kw_only=True)
class QueueStanding:
    """The state of a queue: what it holds, its share and its limits."""

    name: str
    is_known: bool
    """Whether the snapshot has this queue."""
    weight: int = 0
    allocated: Resource = field(factory=Resource)
    """The resources that its tasks hold."""
    reserved_quota: Resource = field(factory=Resource)
    """Its quota that is reserved besides, for tasks that are on no node yet."""
    share: float = 0.0
    """Its dominant share of the cluster."""
    deserved: Resource | None = None
    """Its fair share, as computed by plugin proportion or capacity; None: no plugin computes it."""
    guarantee: Resource | None = None
    """Its guarantee; None: no plugin reads guarantees."""
    limit: ResourceLimit | None = None
    """The most that it may hold; None: it has no limit, or no plugin reads limits."""
    on_loan: Resource | None = None
    """What it holds beyond its share, which others may reclaim; None: no plugin computes it."""
    use: float | None = None
    """Its past use and what its tasks hold now, together as a part of the cluster, where that is
    the largest of what the job asks for, per unit of weight: queues with less go first.
    None: no plugin counts use, or its weight is 0."""
    is_overused: bool = False
    """Whether it holds its fair share or more, so that allocate skips it."""
    above: tuple[QueueStanding, ...] = ()
    """The queues above it in the tree, the nearest first; only with plugin capacity."""
    leaves: tuple[str, ...] = ()
    """The leaf queues below it; empty if it is a leaf, so that jobs may name it."""


@frozen(kw_only=True)
class AboveShare:
    """A queue that holds more than its fair share."""

    queue: str
    dimension: str
    """The dimension in which that is the largest part of the cluster, of those that the job asks
    for."""
    amount: float
    """What it holds above its share, in the unit of a `Resource`."""

    @property
    def text(self) -> str:
        """What it holds above its share, in words."""
        amount = amount_text(self.dimension, self.amount)
        return f"queue {self.queue} holds {amount} above its share"


def queue_text(queue: QueueStanding) -> str:
    """Return what a queue holds, is due and may hold, in one line."""
    text = f"queue {queue.name} holds {resource_text(queue.allocated)} ({queue.share:.1%})"
    if not queue.reserved_quota.is_empty():
        text += f", and {resource_text(queue.reserved_quota)} more of its quota is reserved"
    if queue.on_loan is not None and not queue.on_loan.is_empty():
        text += f", of which {resource_text(queue.on_loan)} is on loan"
    if queue.deserved is not None:
        text += f", fair share {resource_text(queue.deserved)}"
    if queue.limit is not None:
        text += f", may hold at most {limit_text(queue.limit)}"
    if queue.use is not None:
        per_weight = "" if queue.weight == 1 else " per unit of weight"
        text += f"; past use and what it holds now: {queue.use:.1%}{per_weight}"
    has_share = queue.is_overused and not queue.allocated.is_empty()
    return text + ("; it has its share" if has_share else "")


def standing_of_queue(
    session: Session, state: JobState, left: Sequence[TaskState]
) -> QueueStanding:
    """Return the state of a job's queue, and of the queues above it. O(tasks of the queue).

    Args:
        session: the session.
        state: the job.
        left: the tasks that it has left to place.

    """
    name = state.info.queue
    queues, outcomes = session.ledger.queues, session.plugins.queue_outcomes()
    if name not in queues:
        return QueueStanding(name=name, is_known=False)
    need = None if state.queue is None else need_of(session, state, left)
    above: list[QueueStanding] = []
    parent = outcomes[name].parent if name in outcomes else None
    while parent is not None and parent in outcomes:
        above.append(_of_queue(session, queues[parent], outcomes, need))
        parent = outcomes[parent].parent
    return evolve(
        _of_queue(session, queues[name], outcomes, need),
        above=tuple(above),
        is_overused=session.plugins.overused(queues[name]),
        leaves=leaves_below(queues[name]),
    )


def _of_queue(
    session: Session,
    queue: QueueState,
    outcomes: Mapping[str, QueueOutcome],
    need: Need | None,
) -> QueueStanding:
    outcome = outcomes.get(queue.name)
    counts_use = queue.info.weight and session.plugins.names_on("past_use_key")
    use = session.state.view.past_use_key(queue, need) if counts_use else None
    told = QueueStanding(name=queue.name, is_known=True, weight=queue.info.weight, use=use)
    if outcome is not None:
        reserved = _reserved(session, queue)
        allocated = outcome.allocated - reserved
        return evolve(
            told,
            allocated=allocated,
            reserved_quota=reserved,
            share=_share(session, allocated),
            deserved=outcome.fair_share,
            guarantee=outcome.guarantee,
            limit=outcome.limit,
            on_loan=_on_loan(session, outcome, outcomes),
        )
    dimensions = session.ledger.dimensions
    holding = [task for job in queue.jobs for task in job.tasks if task.status.occupies]
    held = total_of([task.resreq for task in holding if not task.is_backfill], dimensions.zero)
    allocated, share = dimensions.resource(held), session.plugins.queue_share(queue)
    deserved = None if share is None else dimensions.resource(share[0])
    return evolve(told, allocated=allocated, share=_share(session, allocated), deserved=deserved)


def _reserved(session: Session, queue: QueueState) -> Resource:
    """Return the quota of a queue, and of those below it, of tasks that are on no node yet."""
    dimensions = session.ledger.dimensions
    if "capacity" not in session.plugins.names_on("queue_outcomes"):
        return Resource()  # no other plugin charges it
    jobs = (job for each in queues_below(queue) for job in each.jobs)
    tasks = [task.resreq for job in jobs for task in _without_node(job)]
    return dimensions.resource(total_of(tasks, dimensions.zero))


def _without_node(job: JobState) -> Sequence[TaskState]:
    """Return the tasks of a job for which quota is reserved, and which are on no node yet."""
    return reserved_tasks(job) if job.info.quota_reserved else ()


def _on_loan(
    session: Session, outcome: QueueOutcome, outcomes: Mapping[str, QueueOutcome]
) -> Resource:
    """Return what a queue holds above its fair share.

    What all queues hold together above what there is, since nodes were lost, is nobody's loan.
    """
    dimensions, tops = session.ledger.dimensions, [o for o in outcomes.values() if o.parent is None]
    vector: list[int] = []
    for name, total in zip(dimensions.names, session.ledger.cluster, strict=False):
        lost = max(0, sum(int(top.allocated.get(name)) for top in tops) - int(total))
        more = int(outcome.allocated.get(name)) - int(outcome.fair_share.get(name))
        vector.append(max(0, more - lost))
    return dimensions.resource(tuple(vector))


def above_share(
    session: Session, waiting: Sequence[TaskState], *, reclaims: bool
) -> tuple[AboveShare, ...]:
    """Return the leaf queues that hold more than their fair shares, the most first. O(queues).

    What is guaranteed to a queue is its own even if its share is less, and so is what it deserves
    if nothing is reclaimed.
    """
    cluster, names = session.ledger.cluster, session.ledger.dimensions.names
    asked = [
        at
        for at, whole in enumerate(cluster)
        if whole and (not waiting or any(task.init_resreq[at] for task in waiting))
    ]
    found: list[tuple[float, AboveShare]] = []
    for name, queue in session.ledger.queues.items():
        share = None if queue.children else session.plugins.queue_share(queue)
        if share is None:
            continue
        own = [queue.info.guarantee]
        if not reclaims and isinstance(queue.info.deserved, Resource):
            own.append(queue.info.deserved)
        ahead = [each.resreq for job in queue.jobs for each in _without_node(job)]
        reserved = total_of(ahead, session.ledger.dimensions.zero)
        above = [
            (
                float(
                    share[1][at]
                    - reserved[at]
                    - max(share[0][at], *(each.get(names[at]) for each in own))
                ),
                at,
            )
            for at in asked
        ]
        # Of equal parts, those of devices are told, which come last.
        part, at, amount = max(
            ((amount / cluster[at], at, amount) for amount, at in above), default=(0.0, 0, 0.0)
        )
        if amount >= 1:  # a share may have fractions
            found.append((part, AboveShare(queue=name, dimension=names[at], amount=amount)))
    found.sort(key=lambda each: (-each[0], each[1].queue))
    return tuple(each for _, each in found)


def _share(session: Session, held: Resource) -> float:
    """Return the dominant share of the cluster."""
    names = session.ledger.dimensions.names
    whole = zip(names, session.ledger.cluster, strict=False)
    return float(max((held.get(name) / amount for name, amount in whole if amount), default=0.0))
