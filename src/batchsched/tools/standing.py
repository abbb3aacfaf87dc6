"""How a queue stands: what it holds, what it deserves, and what it may hold."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.resources import Amount, Resource
from batchsched.model.status import TaskStatus
from batchsched.plugins.proportion import water_fill
from batchsched.session.session import Session
from batchsched.state.records import JobState
from batchsched.state.vectors import Vector
from batchsched.tools.explanation import QueueStanding

__all__ = ["as_resource", "standing_of_queue"]


def standing_of_queue(session: Session, state: JobState, config: SchedulerConfig) -> QueueStanding:
    """Return how the queue of a job stands. O(tasks)."""
    queue = state.queue
    if queue is None:
        nothing = Resource()
        return QueueStanding(
            name=state.info.queue,
            is_known=False,
            weight=0,
            allocated=nothing,
            share=0.0,
            deserved=None,
            limit=None,
            is_overused=False,
        )
    zero = session.ledger.dimensions.zero
    held: dict[str, Vector] = {}
    asked: dict[str, Vector] = {}
    for other in session.ledger.queues.values():
        if other.jobs:
            held[other.name], asked[other.name] = _use(other.jobs, zero)
    cluster = session.ledger.cluster
    allocated = held[queue.name]
    deserved: Resource | None = None
    if any(plugin.name == "proportion" for tier in config.tiers for plugin in tier.plugins):
        weights = {name: session.ledger.queues[name].info.weight for name in held}
        shares = water_fill(cluster, weights, asked)
        deserved = as_resource(session, shares[queue.name])
    else:
        own: object = getattr(queue.info, "deserved", None)
        deserved = own if isinstance(own, Resource) and not own.is_empty() else None
    limit: object = getattr(queue.info, "limit", None)
    share = max((a / t for a, t in zip(allocated, cluster, strict=False) if t), default=0.0)
    return QueueStanding(
        name=queue.name,
        is_known=True,
        weight=queue.info.weight,
        allocated=as_resource(session, allocated),
        share=float(share),
        deserved=deserved,
        limit=limit if isinstance(limit, Resource) else None,
        is_overused=session.overused(queue),
    )


def _use(jobs: Sequence[JobState], zero: Vector) -> tuple[Vector, Vector]:
    held, asked = list(zero), list(zero)
    for job in jobs:
        for task in job.tasks:
            if task.is_backfill:
                continue
            waits = task.status in (TaskStatus.PENDING, TaskStatus.RESERVED)
            if not task.status.occupies and not waits:
                continue
            for at, amount in enumerate(task.resreq):
                asked[at] += amount
                if not waits:
                    held[at] += amount
    return tuple(held), tuple(asked)


def as_resource(session: Session, amounts: Sequence[float]) -> Resource:
    """Return amounts by dimension as a resource."""
    named = dict(zip(session.ledger.dimensions.names, amounts, strict=False))
    kept = {name: _kept(amount) for name, amount in named.items()}
    return Resource(
        milli_cpu=kept.pop("cpu", 0),
        memory=kept.pop("memory", 0),
        scalars={name: amount for name, amount in kept.items() if amount},
    )


def _kept(amount: float) -> Amount:
    return int(amount) if amount == int(amount) else float(amount)
