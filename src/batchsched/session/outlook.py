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
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from operator import attrgetter

from batchsched.errors import plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.placement.plain_loop import refusal_by
from batchsched.plugin.node_functions import Predicate, Reads
from batchsched.session.session import Session, Statement
from batchsched.state.memory import DependsOn
from batchsched.state.records import NodeState, TaskState
from batchsched.state.shortcuts import Shortcut

# As they will be


def looks_ahead(session: Session, task: TaskState) -> bool:
    """Return whether nodes may accept a task otherwise once others have left or come."""
    if session.plain and Shortcut.ROOM in session.plain:
        return True
    swayed = session.plugins.swayed
    return bool(swayed) and _any_reads(swayed, task, _ACCOUNTS_AND_TASKS)


_TASKS = (Reads.NODE, Reads.CLUSTER)
_ACCOUNTS_AND_TASKS = (Reads.ACCOUNTS, *_TASKS)


def _any_reads(
    predicates: Iterable[tuple[str, Predicate]],
    task: TaskState,
    what: Collection[Reads],
) -> bool:
    """Return whether any predicate reads certain things of the cluster for a task."""
    name = ""
    try:
        for name, predicate in predicates:  # noqa: B007 - the name is for the error
            if predicate.reads_for(task) in what:
                return True
    except Exception as error:
        raise plugin_error(name, "predicates", error) from error
    return False


_Move = tuple[TaskState, TaskStatus, NodeState | None, Mapping[str, Hashable] | None]
"""A task, its status, node and choices then; None: the same choices if it stays, else none."""
_Before = tuple[TaskState, TaskStatus, NodeState | None, bool, Mapping[str, Hashable]]


@contextmanager
def _moved(session: Session, moves: Iterable[_Move]) -> Generator[None]:
    """Move tasks, and move them back at the end. O(moves)."""
    ledger, back = session.ledger, list[_Before]()
    try:
        for task, status, node, choices in moves:
            back.append((task, task.status, task.node, task.is_backfill, task.choices))
            mark = task.is_backfill
            ledger.move(task, status, node, is_backfill=mark, choices=choices, is_undo=True)
        yield
    finally:
        for task, status, node, is_backfill, choices in reversed(back):
            ledger.move(task, status, node, is_backfill=is_backfill, choices=choices, is_undo=True)


def _gone(tasks: Iterable[TaskState]) -> list[_Move]:
    return [(task, TaskStatus.PENDING, None, None) for task in {t.uid: t for t in tasks}.values()]


def _coming(session: Session, but: TaskState) -> list[_Move]:
    """Return the moves by which all that is promised comes."""
    jobs = session.ledger.jobs_having[TaskStatus.PIPELINED.index].values()
    promised = [task for job in jobs for task in job.having(TaskStatus.PIPELINED)]
    return [(task, TaskStatus.ALLOCATED, task.node, None) for task in promised if task is not but]


def _leaving(session: Session) -> list[TaskState]:
    jobs = session.ledger.jobs_having[TaskStatus.RELEASING.index].values()
    return [
        *(task for job in jobs for task in job.having(TaskStatus.RELEASING)),
        *session.remembered.recall(
            "others that leave", partial(_others_that_leave, session), _nothing, DependsOn.NODES
        ),
    ]


def _others_that_leave(session: Session) -> list[TaskState]:
    """Return the tasks of no job that leave: none comes or goes in a cycle."""
    others = session.ledger.other_tasks.values()
    return [task for task in others if task.status is TaskStatus.RELEASING]


def _nothing(*_: object) -> None:
    return None


def accepting_nodes(session: Session, task: TaskState) -> list[NodeState] | None:
    """Return the nodes that accept a task as they will be, and with what is promised in place.

    In node order; none that a reservation closes. None: it makes no difference to how they are.
    O(nodes, and what leaves or is promised).
    """
    if not looks_ahead(session, task):
        return None
    coming, leaving = _coming(session, task), _gone(_leaving(session))
    if not (coming or leaving):
        return None
    placement = session.placement
    with _moved(session, coming):
        nodes = list(placement.feasible(task))
        with _moved(session, leaving):
            accepting = {node.slot for node in placement.feasible(task)}
    return [node for node in nodes if node.slot in accepting]


def accepts_without(
    session: Session, task: TaskState, node: NodeState, gone: Iterable[TaskState]
) -> bool:
    """Return whether a node will accept a task once other tasks have left, too.

    Reservations are ignored. O(what leaves or is promised), where that can make a difference.
    """
    return accepts_without_each(session, task, node, [tuple(gone)])[0]


def _as_it_will_be(
    session: Session, task: TaskState, node: NodeState
) -> AbstractContextManager[None]:
    """Move, for a time, all that leaves or comes and may make a difference to a task on a node."""
    if looks_ahead(session, task):
        return _moved(session, [*_gone(_leaving(session)), *_coming(session, task)])
    leaving = (other for other in node.tasks.values() if other.status is TaskStatus.RELEASING)
    return _moved(session, _gone(leaving))


def accepts_without_each(
    session: Session, task: TaskState, node: NodeState, units: Iterable[Sequence[TaskState]]
) -> list[bool]:
    """Return for each of some units whether a node will accept a task once it has left, too."""
    accepts: list[bool] = []
    with _as_it_will_be(session, task, node):
        for unit in units:
            with _moved(session, _gone(unit)):
                accepts.append(session.placement.refusal(task, node) is None)
    return accepts


def refusal_ahead(session: Session, task: TaskState) -> Unfit | None:
    """Return why the node of a placed or promised task will refuse it, or None."""
    node = task.node
    assert node is not None
    with _as_it_will_be(session, task, node), _moved(session, _gone([task])):
        return session.placement.refusal(task, node)


def promises_stand(session: Session, statement: Statement) -> bool:
    """Return whether nodes will accept what a statement that makes tasks leave has placed.

    And each task that was promised a place before, or for which others had to leave before in this
    cycle, as far as they do without the statement. O(those of these tasks to which it can make a
    difference, and nodes changed since).
    """
    placed = statement.placed()
    if not all(_stands(session, task) for task in placed):
        return False
    session.claimed[:] = [task for task in session.claimed if looks_ahead(session, task)]
    earlier = {task.uid: task for task in (*session.claimed, *_promised_ahead(session))}
    for task in placed:
        earlier.pop(task.uid, None)
    broken = [task for task in earlier.values() if not _stands(session, task)]
    if not broken:
        return True
    with _moved(session, statement.moves_back()):
        return not any(_stands(session, task) for task in broken)


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


def _stands(session: Session, task: TaskState) -> bool:
    """Return whether the node of a task will accept it, if it is placed or promised there."""
    return (
        task.status not in (TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
        or not looks_ahead(session, task)
        or refusal_ahead(session, task) is None
    )


def refusals_beside_promises(session: Session, task: TaskState) -> dict[Unfit, int]:
    """Return how many nodes refuse a task only beside what is promised, by reason.

    O(nodes), where that can make a difference.
    """
    if not (
        session.ledger.jobs_having[TaskStatus.PIPELINED.index]
        and _any_reads(session.plugins.predicates, task, _TASKS)
    ):
        return {}
    coming = _coming(session, task)
    with _moved(session, _gone(promised for promised, *_ in coming)):
        accepting = list(session.placement.feasible(task))
    with _moved(session, coming):
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
        with _moved(session, _coming(session, task) if ahead else ()):
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
