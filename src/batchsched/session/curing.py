"""Finds nodes that reject a task only for reasons that evictions can remove."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from batchsched.errors import plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.placement.plain_loop import refusal_by
from batchsched.plugin.node_functions import Predicate
from batchsched.session.session import Session
from batchsched.state.doors import Door
from batchsched.state.ledger import Origin
from batchsched.state.memory import Reads
from batchsched.state.records import NodeState, TaskState


def curable_nodes(session: Session, task: TaskState) -> list[NodeState]:
    """Return the nodes, in node order, that reject a task only for reasons evictions may remove.

    They are large enough for the task, and not closed by a reservation. O(nodes x predicates); for
    tasks to which nodes are alike only the first time in a session, then O(nodes changed since, and
    nodes that reject it).

    Raises:
        PluginError: a predicate raised an exception or returned an invalid value.

    """
    predicates = session.plugin_set.predicates
    curable = [each for each in predicates if each[1].curable]
    if not curable:
        return []
    others = [each for each in predicates if not each[1].curable]
    large_enough = session.node_room.large_enough(task.init_resreq)

    def refuses(node: NodeState) -> bool:
        return _refuses_curably(curable, task, node) and all(
            refusal_by(*each, task, node) is None for each in others
        )

    kind = None if Door.ROOM in session.plain else session.placement.kind(task)
    if kind is None:
        return [
            node
            for node in session.nodes
            if node.slot in large_enough and not node.is_closed and refuses(node)
        ]

    def correct(refusing: dict[int, NodeState], stale: set[int] | None) -> None:
        for node in session.nodes if stale is None else [session.slots[slot] for slot in stale]:
            if refuses(node):
                refusing[node.slot] = node
            else:
                refusing.pop(node.slot, None)

    refusing = session.remembered.recall(
        ("curable", kind),
        lambda: {node.slot: node for node in session.nodes if refuses(node)},
        correct,
        Reads.NODES,
    )
    found = [node for slot, node in refusing.items() if slot in large_enough and not node.is_closed]
    return sorted(found, key=attrgetter("index"))


def _refuses_curably(
    predicates: Iterable[tuple[str, Predicate]], task: TaskState, node: NodeState
) -> bool:
    """Return whether any predicate rejects a node, and each that does so is curable."""
    refuses = False
    for name, predicate in predicates:
        unfit = refusal_by(name, predicate, task, node)
        if unfit is not None:
            if not is_curable(name, predicate, unfit):
                return False
            refuses = True
    return refuses


def is_curable(name: str, predicate: Predicate, unfit: Unfit) -> bool:
    """Return whether evictions can remove the reason why the predicate of a plugin rejects."""
    curable = predicate.curable
    if isinstance(curable, bool):
        return curable
    try:
        return bool(curable(unfit))
    except Exception as error:
        raise plugin_error(name, "predicates", error) from error


def accepts_without(
    session: Session, task: TaskState, node: NodeState, gone: Iterable[TaskState]
) -> bool:
    """Return whether the predicates accept a node for a task after other tasks have left.

    The tasks in `gone` and all Releasing tasks on the node count as gone. The session is
    unchanged afterwards. O(tasks on the node + gone).
    """
    ledger = session.ledger
    leaving = [other for other in node.tasks.values() if other.status is TaskStatus.RELEASING]
    moved: list[tuple[TaskState, Origin]] = []
    try:
        for other in {each.uid: each for each in (*leaving, *gone)}.values():
            moved.append((other, (other.status, other.node, other.is_backfill)))
            ledger.move(
                other, TaskStatus.PENDING, None, is_backfill=other.is_backfill, is_undo=True
            )
        return session.placement.refusal(task, node) is None
    finally:
        for other, (status, where, is_backfill) in reversed(moved):
            ledger.move(other, status, where, is_backfill=is_backfill, is_undo=True)
