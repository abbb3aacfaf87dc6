"""Choose nodes for tasks, and place them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batchsched import NodeInfo, TaskInfo, TaskStatus
from tests.reference.devices import CONDITIONALLY, LATER, NOW, Account
from tests.reference.session import Session
from tests.reference.state import View, total_of
from tests.reference.timeline import allows

__all__ = [
    "accepted_nodes",
    "best",
    "by_score",
    "can_start",
    "curable_nodes",
    "feasible_nodes",
    "is_accepted",
    "is_searched",
    "place_conditionally",
    "place_later",
    "place_now",
    "place_without_evicting",
    "searched_nodes",
]


def accepted_nodes(session: Session, task: TaskInfo) -> list[NodeInfo]:
    """Return the nodes that the predicates accept, closed or not."""
    return session.tiers.accepted(task, session.nodes)


def is_accepted(session: Session, task: TaskInfo) -> bool:
    """Return whether the predicates accept any node."""
    return bool(accepted_nodes(session, task))


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


def searched_nodes(session: Session, task: TaskInfo) -> list[NodeInfo]:
    """Return the open nodes that accept a task now and as they will be, for actions that evict."""
    nodes = session.tiers.accepted(task, session.nodes, View.PROMISED)
    nodes = session.tiers.accepted(task, nodes, View.LATER)
    return open_nodes(session, task, nodes)


def is_searched(session: Session, task: TaskInfo) -> bool:
    """Return whether the predicates accept any node where others may be evicted."""
    return any(
        session.tiers.accepted(task, [node], View.PROMISED)
        and session.tiers.accepted(task, [node], View.LATER)
        for node in session.nodes
    )


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


def can_start(session: Session, task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a task can start on a node at once."""
    return (
        node in accepted_nodes(session, task)
        and session.accounts(node).fits_now(task.start_request)
        and session.has_devices(task, node, NOW)
        and allows(session, task, node)
    )


def place_now(session: Session, task: TaskInfo, feasible: Iterable[NodeInfo]) -> bool:
    """Ladder step 1: Allocated on the best node where the task fits now."""
    accounts = session.all_accounts()
    return _place(
        session,
        task,
        TaskStatus.ALLOCATED,
        [node for node in feasible if accounts[node.name].fits_now(task.start_request)],
        NOW,
    )


def place_later(session: Session, task: TaskInfo, feasible: Iterable[NodeInfo]) -> bool:
    """Ladder step 2: Pipelined on the best node where the task fits later."""
    accounts = session.all_accounts()
    return _place(
        session,
        task,
        TaskStatus.PIPELINED,
        [node for node in feasible if accounts[node.name].fits_later(task.start_request)],
        LATER,
    )


def place_without_evicting(session: Session, task: TaskInfo, searched: Sequence[NodeInfo]) -> bool:
    """Ladder steps 1 and 2 of the actions that evict."""
    now = session.tiers.accepted(task, searched)
    return place_now(session, task, now) or place_later(session, task, searched)


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
        CONDITIONALLY,
    )


def _place(
    session: Session,
    task: TaskInfo,
    status: TaskStatus,
    nodes: Sequence[NodeInfo],
    accounts: Sequence[Account],
) -> bool:
    nodes = [
        node
        for node in nodes
        if allows(session, task, node) and session.has_devices(task, node, accounts)
    ]
    if not nodes or not session.may_take_task(task):
        return False
    session.place(task, status, best(session, task, nodes))
    return True
