"""The state of a queue for `explain`: what it holds, its share and its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from batchsched.model.resources import Amount, Resource
from batchsched.model.result import QueueOutcome
from batchsched.session.session import Session
from batchsched.state.records import JobState, QueueState
from batchsched.tools.explanation import QueueStanding

__all__ = ["as_resource", "standing_of_queue"]


def standing_of_queue(session: Session, state: JobState) -> QueueStanding:
    """Return the state of the queue of a job, and of the queues above it. O(tasks of the queue)."""
    queue = session.ledger.queues.get(state.info.queue)
    if queue is None:
        return QueueStanding(
            name=state.info.queue,
            is_known=False,
            weight=0,
            allocated=Resource(),
            share=0.0,
            deserved=None,
            guarantee=None,
            limit=None,
            on_loan=None,
            is_overused=False,
        )
    outcomes = session.plugin_set.queue_outcomes()
    if queue.name in outcomes:
        above = tuple(
            _by_outcome(session, name, session.ledger.queues[name].info.weight, outcomes[name])
            for name in _names_above(outcomes, queue.name)
        )
        own = _by_outcome(session, queue.name, queue.info.weight, outcomes[queue.name])
        return evolve(
            own, above=above, is_overused=session.overused(queue), leaves=_leaves_below(queue)
        )
    allocated = _held(queue, session.ledger.dimensions.zero)
    share = session.plugin_set.queue_share(queue)
    return QueueStanding(
        name=queue.name,
        is_known=True,
        weight=queue.info.weight,
        allocated=as_resource(session, allocated),
        share=_part(session, as_resource(session, allocated)),
        deserved=None if share is None else as_resource(session, share[0]),
        guarantee=None,
        limit=None,
        on_loan=None,
        is_overused=session.overused(queue),
        leaves=_leaves_below(queue),
    )


def _leaves_below(queue: QueueState) -> tuple[str, ...]:
    waiting, leaves = list(queue.children), list[str]()
    while waiting:
        below = waiting.pop()
        if below.children:
            waiting += below.children
        else:
            leaves.append(below.name)
    return tuple(sorted(leaves))


def _by_outcome(session: Session, name: str, weight: int, outcome: QueueOutcome) -> QueueStanding:
    return QueueStanding(
        name=name,
        is_known=True,
        weight=weight,
        allocated=outcome.allocated,
        share=_part(session, outcome.allocated),
        deserved=outcome.fair_share,
        guarantee=outcome.guarantee,
        limit=outcome.limit,
        on_loan=outcome.on_loan,
        is_overused=False,
    )


def _names_above(outcomes: Mapping[str, QueueOutcome], name: str) -> Iterator[str]:
    parent = outcomes[name].parent
    while parent is not None and parent in outcomes:
        yield parent
        parent = outcomes[parent].parent


def _part(session: Session, held: Resource) -> float:
    """Return the dominant share of the cluster."""
    names = session.ledger.dimensions.names
    whole = zip(names, session.ledger.cluster, strict=False)
    return float(max((held.get(name) / amount for name, amount in whole if amount), default=0.0))


def _held(queue: QueueState, zero: Sequence[Amount]) -> Sequence[Amount]:
    held = list(zero)
    for job in queue.jobs:
        for task in job.tasks:
            if task.status.occupies and not task.is_backfill:
                for at, amount in enumerate(task.resreq):
                    held[at] += amount
    return held


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
