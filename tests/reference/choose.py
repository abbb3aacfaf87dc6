"""Choose nodes for tasks, and place them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchsched import NodeInfo, TaskInfo, TaskStatus
from tests.reference.session import Session
from tests.reference.state import total_of
from tests.reference.timeline import allows

__all__ = [
    "accepted_nodes",
    "best",
    "by_score",
    "curable_nodes",
    "feasible_nodes",
    "place_conditionally",
    "place_later",
    "place_now",
]


def accepted_nodes(session: Session, task: TaskInfo) -> list[NodeInfo]:
    """Return the nodes that the predicates accept, closed or not."""
    return session.tiers.accepted(task, session.nodes)


def open_nodes(session: Session, task: TaskInfo, nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return the nodes that no reservation closes to a task; its own never does."""
    if task.is_best_effort:
        return list(nodes)

    def is_open(node: NodeInfo) -> bool:
        others = [other for other in session.reserved_on(node) if other is not task]
        return total_of(other.start_request for other in others).is_empty()

    return [node for node in nodes if is_open(node)]


def feasible_nodes(session: Session, task: TaskInfo) -> list[NodeInfo]:
    """Return the nodes that the predicates accept and that no reservation closes."""
    return open_nodes(session, task, accepted_nodes(session, task))


def curable_nodes(session: Session, task: TaskInfo) -> list[NodeInfo]:
    """Return the open nodes that refuse a task only for reasons that evicting may cure."""
    nodes = session.tiers.curable(task, session.nodes)
    return open_nodes(session, task, nodes)


def by_score(session: Session, task: TaskInfo, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
    """Return nodes by descending score; ties by node order."""
    scores = session.tiers.scores(session.tiers.raw_scores(task, nodes))
    return sorted(nodes, key=lambda node: (-scores[node.name], node.name))


def best(session: Session, task: TaskInfo, nodes: Sequence[NodeInfo]) -> NodeInfo:
    """Return the node with the highest score; ties by node order."""
    return by_score(session, task, nodes)[0]


def place_now(session: Session, task: TaskInfo, feasible: Iterable[NodeInfo]) -> bool:
    """Ladder step 1: Allocated on the best node where the task fits now."""
    accounts = session.all_accounts()
    return _place(
        session,
        task,
        TaskStatus.ALLOCATED,
        [node for node in feasible if accounts[node.name].fits_now(task.start_request)],
    )


def place_later(session: Session, task: TaskInfo, feasible: Iterable[NodeInfo]) -> bool:
    """Ladder step 2: Pipelined on the best node where the task fits later."""
    accounts = session.all_accounts()
    return _place(
        session,
        task,
        TaskStatus.PIPELINED,
        [node for node in feasible if accounts[node.name].fits_later(task.start_request)],
    )


def place_conditionally(session: Session, task: TaskInfo, feasible: Iterable[NodeInfo]) -> bool:
    """Ladder step 3: Conditional on the best node where the task fits conditionally."""
    job = session.job_of(task)
    has_backfill = any(
        session.state.is_backfill(other)
        and session.state.status(other).holds
        and session.state.node_name(other) is not None
        for other in job.tasks
    )
    if has_backfill or session.tiers.job_ready(job):
        return False
    accounts = session.all_accounts()
    return _place(
        session,
        task,
        TaskStatus.CONDITIONAL,
        [node for node in feasible if accounts[node.name].fits_conditionally(task.start_request)],
    )


def _place(session: Session, task: TaskInfo, status: TaskStatus, nodes: Sequence[NodeInfo]) -> bool:
    nodes = [node for node in nodes if allows(session, task, node)]
    if not nodes or not session.may_take_task(task):
        return False
    session.place(task, status, best(session, task, nodes))
    return True
