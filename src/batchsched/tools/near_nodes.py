"""The nodes where a task nearly fits, and the tasks that hold resources there."""

from __future__ import annotations

from heapq import nsmallest

from batchsched.model.cluster import TaskStatus
from batchsched.model.resources import EPSILON, Amount, Resource
from batchsched.model.result import CycleResult
from batchsched.session.session import Session
from batchsched.state.records import NodeState, TaskState
from batchsched.tools.explanation import Holder, NearNode
from batchsched.tools.standing import as_resource

__all__ = ["nearest_nodes"]

_NEAREST = 3


def nearest_nodes(session: Session, result: CycleResult, task: TaskState) -> tuple[NearNode, ...]:
    """Return the three nodes that lack the least for a task once the cycle has taken effect.

    Nodes that predicates refuse come last. O(nodes x dimensions).
    """
    cluster = session.ledger.cluster
    taken = _taken(session, result)

    def distance(node: NodeState) -> tuple[bool, float, int]:
        refused = session.placement.refusal(task, node) is not None
        parts = [
            (amount / whole if whole else float(amount))
            for amount, whole in zip(_missing(task, node, taken), (*cluster, 0), strict=False)
        ]
        return refused, sum(parts), node.index

    near = nsmallest(_NEAREST, session.nodes, key=distance)
    return tuple(_near(session, result, task, node, taken) for node in near)


def _taken(session: Session, result: CycleResult) -> dict[str, list[TaskState]]:
    """Return the tasks that were placed in this cycle, by node."""
    taken: dict[str, list[TaskState]] = {}
    for decided in (result.binds, result.pipelined, result.conditional):
        for decision in decided:
            state = session.ledger.tasks.get(decision.task_uid)
            if state is not None and not state.status.holds:
                taken.setdefault(decision.node_name, []).append(state)
    return taken


def _missing(task: TaskState, node: NodeState, taken: dict[str, list[TaskState]]) -> list[Amount]:
    """Return what the node lacks for the task once the cycle's decisions have taken effect."""
    missing: list[Amount] = []
    for at, (wanted, idle) in enumerate(zip(task.init_resreq, node.idle, strict=True)):
        left = idle - sum(other.resreq[at] for other in taken.get(node.name, ()))
        missing.append(max(0, wanted - left) if wanted >= EPSILON else 0)
    return missing


def _near(
    session: Session,
    result: CycleResult,
    task: TaskState,
    node: NodeState,
    taken: dict[str, list[TaskState]],
) -> NearNode:
    refusal = session.placement.refusal(task, node)
    holders = [_holder(session, other, "runs") for other in node.tasks.values()]
    holders += [_holder(session, t, "is reserved") for t in node.reserved_tasks.values()]
    promised = {promise.task_uid for promise in (*result.pipelined, *result.conditional)}
    for other in taken.get(node.name, ()):
        how = "is promised" if other.uid in promised else "starts"
        holders.append(_holder(session, other, how))
    for uid, outcome in result.tasks.items():
        if outcome.status is TaskStatus.ALLOCATED and outcome.node_name == node.name:
            held = session.ledger.tasks[uid]
            holders.append(_holder(session, held, "is held by an unready gang"))
    holders.sort(key=lambda h: (-_size(session, h.amount), h.task))
    return NearNode(
        name=node.name,
        missing=as_resource(session, _missing(task, node, taken)),
        refusal="" if refusal is None else refusal.text,
        holders=tuple(holders),
    )


def _size(session: Session, amount: Resource) -> float:
    names = session.ledger.dimensions.names
    cluster = zip(names, session.ledger.cluster, strict=False)
    return sum((amount.get(name) / whole for name, whole in cluster if whole), 0.0)


def _holder(session: Session, task: TaskState, how: str) -> Holder:
    if task.status is TaskStatus.RELEASING:
        how = "is leaving"
    elif task.status is TaskStatus.PIPELINED:
        how = "is promised"
    return Holder(
        task=task.uid,
        name=task.info.display_name,
        job=None if task.job is None else task.job.uid,
        how=how,
        amount=task.info.resreq,
        until=_until(session, task),
    )


def _until(session: Session, task: TaskState) -> float | None:
    started, job = task.info.start_time, task.job
    estimate = task.info.estimate if job is None else job.info.estimate_of(task.info)
    if started is None or estimate is None or not task.status.holds:
        return None
    return max(session.now, started + estimate)
