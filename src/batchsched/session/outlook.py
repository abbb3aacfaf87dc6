"""Nodes as they will be: what leaves has left then, and what is promised has come.

Who evicts asks predicates about that. Else it would evict for promises that can never be kept:
beside a task that leaves, or far from one that comes. It is asked only where something can differ:
about tasks for which a predicate reads what else is on nodes.

Some nodes refuse a task only for what evictions can remove.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import chain
from operator import attrgetter

from batchsched.errors import plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import Unfit
from batchsched.placement.plain_loop import refusal_by
from batchsched.plugin.node_functions import Predicate
from batchsched.session.ahead import (
    TASKS,
    all_coming,
    all_leaving,
    any_reads,
    as_gone,
    looked_ahead,
    looks_ahead,
    moved_for_now,
)
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.state.memory import DependsOn
from batchsched.state.records import Fit, NodeState, TaskState
from batchsched.state.shortcuts import Shortcut

# As they will be


def accepting_nodes(
    session: Session, task: TaskState, *, with_conditional: bool = False
) -> list[NodeState] | None:
    """Return the nodes that accept a task as they will be, and with what is promised in place.

    In node order; none that a reservation closes. None: it makes no difference to how they are.
    O(nodes, and what leaves or is promised).

    Args:
        session: the session.
        task: the task.
        with_conditional: whether what is promised on loans to backfill tasks comes, too.

    """
    if not looks_ahead(session, task):
        return None
    promised = (TaskStatus.PIPELINED, *([TaskStatus.CONDITIONAL] if with_conditional else ()))
    coming, leaving = all_coming(session, task, promised), as_gone(all_leaving(session))
    if not (coming or leaving):
        return None
    placement = session.placement
    with moved_for_now(session, coming):
        nodes = list(placement.feasible(task))
        with moved_for_now(session, leaving):
            accepting = {node.slot for node in placement.feasible(task)}
    return [node for node in nodes if node.slot in accepting]


def nodes_ahead(
    session: Session, task: TaskState, among: Collection[int] | None = None
) -> Iterable[NodeState]:
    """Return the nodes that accept a task now and as they will be, in node order.

    `among`: the slots of the only nodes that count; None: all do. See `accepting_nodes`.
    """
    ahead = accepting_nodes(session, task)
    if ahead is None:
        return session.placement.feasible(task, among)
    return [node for node in ahead if among is None or node.slot in among]


def can_start(
    session: Session, task: TaskState, node: NodeState, *, kept: Mapping[str, Hashable] = EMPTY
) -> bool:
    """Return whether a node accepts a task as it is, and it fits there now.

    `kept`: what plugins have chosen for it there before.
    """
    fits = session.fits(task, node, Fit.NOW, kept=kept)
    return fits and session.placement.refusal(task, node) is None


def accepts_without(
    session: Session, task: TaskState, node: NodeState, gone: Iterable[TaskState]
) -> bool:
    """Return whether a node will accept a task once other tasks have left, too.

    Reservations are ignored. O(what leaves or is promised), where that can make a difference.
    """
    return accepts_without_each(session, task, node, [tuple(gone)])[0]


def accepts_without_each(
    session: Session, task: TaskState, node: NodeState, units: Iterable[Sequence[TaskState]]
) -> list[bool]:
    """Return for each of some units whether a node will accept a task once it has left, too."""
    with looked_ahead(session, task) as refusal:
        return [refusal(task, node, unit) is None for unit in units]


def promises_stand(session: Session, statement: Statement) -> bool:
    """Return whether nodes will accept what a statement that makes tasks leave has placed.

    And each task that was promised a place before, or for which others had to leave before in this
    cycle, as far as they do without the statement. O(those of these tasks to which it can make a
    difference, and nodes changed since).
    """
    placed = statement.placed()
    if _broken(session, placed):
        return False
    session.claimed[:] = [task for task in session.claimed if looks_ahead(session, task)]
    earlier = {task.uid: task for task in (*session.claimed, *_promised_ahead(session))}
    for task in placed:
        earlier.pop(task.uid, None)
    broken = _broken(session, earlier.values())
    if not broken:
        return True
    with moved_for_now(session, statement.moves_back()):
        return len(_broken(session, broken)) == len(broken)


def _promised_ahead(session: Session) -> Iterable[TaskState]:
    """Return the promised tasks whose nodes may accept them otherwise once others have left.

    O(promised tasks) once in a session, then O(tasks on nodes changed since): a cycle of 300 claims
    asks about 300 promises, not about all of them 300 times.
    """
    jobs = session.ledger.jobs_having[TaskStatus.PIPELINED.index].values()
    promised = (task for job in jobs for task in job.having(TaskStatus.PIPELINED))
    if Shortcut.ROOM in session.plain:
        return promised
    if not session.plugins.swayed:
        return ()

    def ahead(tasks: Iterable[TaskState]) -> Iterator[TaskState]:
        return (task for task in tasks if looks_ahead(session, task))

    def look() -> dict[int, list[TaskState]]:
        on_nodes: dict[int, list[TaskState]] = {}
        for task in ahead(promised):
            assert task.node is not None
            on_nodes.setdefault(task.node.slot, []).append(task)
        return on_nodes

    def look_again(known: dict[int, list[TaskState]], stale: set[int] | None) -> None:
        assert stale is not None
        for slot in stale:
            tasks = session.ledger.slots[slot].tasks.values()
            there = [*ahead(task for task in tasks if task.status is TaskStatus.PIPELINED)]
            if there:
                known[slot] = there
            else:
                known.pop(slot, None)

    on_nodes = session.remembered.recall("promised ahead", look, look_again, DependsOn.NODES)
    return chain.from_iterable(on_nodes.values())


def _broken(session: Session, tasks: Iterable[TaskState]) -> list[TaskState]:
    """Return those of some tasks whose nodes will refuse them, if they are placed or promised."""
    with looked_ahead(session) as refusal:
        return [
            task
            for task in tasks
            if task.status in (TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
            and looks_ahead(session, task)
            and task.node is not None
            and refusal(task, task.node, (task,)) is not None
        ]


def refusals_beside_promises(session: Session, task: TaskState) -> dict[Unfit, int]:
    """Return how many nodes refuse a task only beside what is promised, by reason.

    O(nodes), where that can make a difference.
    """
    if not (
        session.ledger.jobs_having[TaskStatus.PIPELINED.index]
        and any_reads(session.plugins.predicates, task, TASKS)
    ):
        return {}
    coming = all_coming(session, task)
    with moved_for_now(session, as_gone(promised for promised, *_ in coming)):
        accepting = list(session.placement.feasible(task))
    with moved_for_now(session, coming):
        refusals = [session.placement.refusal(task, node) for node in accepting]
    return Counter(unfit for unfit in refusals if unfit is not None)


# As evictions can make them


def curable_nodes(session: Session, task: TaskState) -> list[NodeState]:
    """Return the nodes, in node order, that reject a task only for reasons evictions may remove.

    What is promised counts as in place.
    They are large enough for the task, and not closed by a reservation. O(nodes x predicates); for
    tasks to which nodes are alike only the first time in a session, then O(nodes changed since, and
    nodes that reject it).

    Raises:
        PluginError: a predicate raised an exception or returned an invalid value.

    """
    predicates = session.plugins.predicates
    curable = [each for each in predicates if each[1].curable]
    if not curable:
        return []
    others = [each for each in predicates if not each[1].curable]
    large_enough = session.state.node_room.large_enough(task.init_resreq)

    def refuses(node: NodeState) -> bool:
        return _refuses_curably(curable, task, node) and all(
            refusal_by(*each, task, node) is None for each in others
        )

    ahead = looks_ahead(session, task)
    kind = None if ahead else session.placement.kind(task)
    if kind is None:
        with moved_for_now(session, all_coming(session, task) if ahead else ()):
            return [
                node
                for node in session.nodes
                if node.slot in large_enough and not node.is_closed and refuses(node)
            ]

    def correct(refusing: dict[int, NodeState], stale: set[int] | None) -> None:
        for node in (
            session.nodes if stale is None else [session.ledger.slots[slot] for slot in stale]
        ):
            if refuses(node):
                refusing[node.slot] = node
            else:
                refusing.pop(node.slot, None)

    refusing = session.remembered.recall(
        ("curable", kind),
        lambda: {node.slot: node for node in session.nodes if refuses(node)},
        correct,
        DependsOn.NODES,
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
