"""Who accepts a task: nodes as they are, and as they will be.

That is one question, with a *when* and a *where*:

================= ========================= =====================================================
..                as nodes are              as they will be
================= ========================= =====================================================
on one node       `Placement.refusal`       `looked_ahead`, `refusal_ahead`, `accepts_without`
on any            `Placement.feasible`      `nodes_for`, `accepting_nodes`
================= ========================= =====================================================

Whether there is room is asked of the node: `Session.fits`, and `Session.can_start` for both now.
Whether its queue accepts it, wherever, is asked in `batchsched.session.turns` (`may_take_task`).

As they will be, what leaves has left, and what is promised has come: the ledger is moved there for
a time, and back. Listeners hear of it as of any move, and of the way back. Who evicts asks
predicates about that. Else it would evict for promises that can never be kept: beside a task that
leaves, or far from one that comes. It is asked only where something can differ: about tasks for
which a predicate reads what else is on nodes.

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
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Protocol

from batchsched.errors import plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.placement import Placement
from batchsched.placement.plain_loop import refusal_by
from batchsched.plugin.node_functions import Predicate, Reads
from batchsched.session.plugins import PluginSet
from batchsched.session.policy_state import PolicyState
from batchsched.state.ledger import Ledger
from batchsched.state.memory import DependsOn, Remembered
from batchsched.state.records import NodeState, TaskState
from batchsched.state.shortcuts import Shortcut


class Refusal(Protocol):
    """Says why a node will refuse a task."""

    def __call__(
        self, task: TaskState, node: NodeState, gone: Collection[TaskState], /
    ) -> Unfit | None:
        """Return why, once some others have left, too; or None."""
        ...


class Outlook(Protocol):
    """What is needed of a session to look ahead."""

    claimed: list[TaskState]
    """Tasks for which others had to leave, where it may matter who else comes or goes."""

    @property
    def state(self) -> PolicyState:
        """What is kept between cycles."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The books."""
        ...

    @property
    def plain(self) -> Collection[Shortcut]:
        """The shortcuts that are switched off."""
        ...

    @property
    def plugins(self) -> PluginSet:
        """What plugins say together."""
        ...

    @property
    def placement(self) -> Placement:
        """The engine that finds nodes."""
        ...

    @property
    def remembered(self) -> Remembered:
        """What searches of the cycle have found out about nodes."""
        ...


_Move = tuple[TaskState, TaskStatus, NodeState | None, Mapping[str, Hashable] | None]
"""A task, its status, node and choices then; None: the same choices if it stays, else none."""


class Placing(Protocol):
    """What is needed of a statement that places tasks where others leave."""

    def placed(self) -> list[TaskState]:
        """Return the tasks that it has placed."""
        ...

    def moves_back(self) -> Iterable[_Move]:
        """Return the moves by which all is as it was before it."""
        ...


def looks_ahead(session: Outlook, task: TaskState) -> bool:
    """Return whether nodes may accept a task otherwise once others have left or come."""
    if session.plain and Shortcut.ROOM in session.plain:
        return True
    swayed = session.plugins.swayed
    return bool(swayed) and any_reads(swayed, task, _ACCOUNTS_AND_TASKS)


TASKS = (Reads.NODE, Reads.CLUSTER)
_ACCOUNTS_AND_TASKS = (Reads.ACCOUNTS, *TASKS)


def any_reads(
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


_Before = tuple[TaskState, TaskStatus, NodeState | None, bool, Mapping[str, Hashable]]


@contextmanager
def moved_for_now(session: Outlook, moves: Iterable[_Move]) -> Generator[None]:
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


def as_gone(tasks: Iterable[TaskState]) -> list[_Move]:
    """Return the moves by which tasks are on no node."""
    return [(task, TaskStatus.PENDING, None, None) for task in {t.uid: t for t in tasks}.values()]


def all_coming(
    session: Outlook, but: TaskState, statuses: Collection[TaskStatus] = (TaskStatus.PIPELINED,)
) -> list[_Move]:
    """Return the moves by which all that is promised comes, as far as `but` has to do with it.

    Not those tasks that wait for one another, or for `but`: what they must be near is only promised
    beside them, and none of them can be the first.
    """
    first, near = _coming(session, statuses, but)
    if not (near and _reads_other_nodes(session, but)):
        return first + near
    left = as_gone(all_leaving(session))
    with moved_for_now(session, [*left, *first]), _one_by_one(session, near) as came:
        return first + came


def _coming(
    session: Outlook, statuses: Iterable[TaskStatus], but: TaskState | None = None
) -> tuple[list[_Move], list[_Move]]:
    """Return the moves by which promised tasks come: of most, and of what must be near others."""
    first, near = list[_Move](), list[_Move]()
    for task in _promised(session, statuses):
        if task is not but:
            moves = near if _must_be_near(task) else first
            moves.append((task, TaskStatus.ALLOCATED, task.node, None))
    return first, near


@contextmanager
def _one_by_one(session: Outlook, near: Iterable[_Move]) -> Generator[list[_Move]]:
    """Move what must be near others, for a time, each once its node accepts it; give who came."""
    waiting, came = list(near), list[_Move]()
    with ExitStack() as moved:
        is_over = False
        while not is_over:
            is_over = True
            for move in list(waiting):
                if _may_come(session, move[0]):
                    moved.enter_context(moved_for_now(session, [move]))
                    waiting.remove(move)
                    came.append(move)
                    is_over = False
        yield came


def _promised(session: Outlook, statuses: Iterable[TaskStatus]) -> Iterator[TaskState]:
    for status in statuses:
        for job in session.ledger.jobs_having[status.index].values():
            yield from job.having(status)


def _must_be_near(task: TaskState) -> bool:
    near = task.info.pod_affinity
    return near is not None and bool(near.required)


def _may_come(session: Outlook, task: TaskState) -> bool:
    node = task.node
    assert node is not None
    with moved_for_now(session, as_gone([task])):
        return session.placement.refusal(task, node) is None


def _reads_other_nodes(session: Outlook, task: TaskState) -> bool:
    """Return whether a predicate reads, for a task, what is on other nodes."""
    return any_reads(session.plugins.swayed, task, (Reads.CLUSTER,))


def all_leaving(session: Outlook) -> list[TaskState]:
    """Return all that leaves: tasks, and what stands for those that move."""
    jobs = session.ledger.jobs_having[TaskStatus.RELEASING.index].values()
    moving = session.ledger.leaving.values()
    return [
        *(task for job in jobs for task in job.having(TaskStatus.RELEASING)),
        *(each for each in moving if each.node is not None),
        *session.remembered.recall(
            "others that leave", partial(_others_that_leave, session), _nothing, DependsOn.NODES
        ),
    ]


def _others_that_leave(session: Outlook) -> list[TaskState]:
    """Return the tasks of no job that leave: none comes or goes in a cycle."""
    others = session.ledger.other_tasks.values()
    return [task for task in others if task.status is TaskStatus.RELEASING]


def _nothing(*_: object) -> None:
    return None


@contextmanager
def looked_ahead(session: Outlook, but: TaskState | None = None) -> Generator[Refusal]:
    """Look ahead several times, and move what moves for all of them once.

    Gives a function that says why a node will refuse a task once others have left, too; never call
    it for a task that is promised a place, unless it leaves as well, or is `but`. The first call
    takes O(what leaves or is promised), later ones O(what leaves, too, and promised tasks that must
    be near others). As things are, nothing else may be asked of the session until the end.
    """
    near: list[_Move] | None = None
    with ExitStack() as moved:

        def refusal(task: TaskState, node: NodeState, gone: Collection[TaskState]) -> Unfit | None:
            nonlocal near
            if not looks_ahead(session, task):
                leaving = (t for t in node.tasks.values() if t.status is TaskStatus.RELEASING)
                with moved_for_now(session, as_gone([*gone, *leaving])):
                    return session.placement.refusal(task, node)
            if near is None:
                first, near = _coming(session, (TaskStatus.PIPELINED,), but)
                left = as_gone(all_leaving(session))
                moved.enter_context(moved_for_now(session, [*left, *first]))
            coming = [move for move in near if move[0] not in gone]
            come = _one_by_one if coming and _reads_other_nodes(session, task) else moved_for_now
            with moved_for_now(session, as_gone(gone)), come(session, coming):
                return session.placement.refusal(task, node)

        yield refusal


def refusal_ahead(session: Outlook, task: TaskState) -> Unfit | None:
    """Return why the node of a placed or promised task will refuse it, or None."""
    node = task.node
    assert node is not None
    with looked_ahead(session) as refusal:
        return refusal(task, node, (task,))


def accepting_nodes(
    session: Outlook, task: TaskState, *, with_conditional: bool = False
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


def nodes_for(
    session: Outlook, task: TaskState, among: Collection[int] | None = None, *, ahead: bool = True
) -> Iterable[NodeState]:
    """Return the nodes that accept a task, in node order: as they are, or `ahead` as they will be.

    `among`: the slots of the only nodes that count; None: all do. See `accepting_nodes`.
    """
    accepting = accepting_nodes(session, task) if ahead else None
    if accepting is None:
        return session.placement.feasible(task, among)
    return [node for node in accepting if among is None or node.slot in among]


def accepts_without(
    session: Outlook, task: TaskState, node: NodeState, gone: Iterable[TaskState]
) -> bool:
    """Return whether a node will accept a task once other tasks have left, too.

    Reservations are ignored. O(what leaves or is promised), where that can make a difference.
    """
    return accepts_without_each(session, task, node, [tuple(gone)])[0]


def accepts_without_each(
    session: Outlook, task: TaskState, node: NodeState, units: Iterable[Sequence[TaskState]]
) -> list[bool]:
    """Return for each of some units whether a node will accept a task once it has left, too."""
    with looked_ahead(session, task) as refusal:
        return [refusal(task, node, unit) is None for unit in units]


def promises_stand(session: Outlook, statement: Placing) -> bool:
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


def _promised_ahead(session: Outlook) -> Iterable[TaskState]:
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


def _broken(session: Outlook, tasks: Iterable[TaskState]) -> list[TaskState]:
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


def refusals_beside_promises(session: Outlook, task: TaskState) -> dict[Unfit, int]:
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


def curable_nodes(session: Outlook, task: TaskState) -> list[NodeState]:
    """Return the nodes, in node order, that reject a task only for reasons evictions may remove.

    What is promised counts as in place.
    They are large enough for the task, and not closed by a reservation. O(nodes x predicates); for
    tasks that predicates do not tell apart, whatever they request, only the first time in a
    session, then O(nodes changed since, and nodes that reject it).

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
    if ahead or session.placement.kind(task) is None:
        with moved_for_now(session, all_coming(session, task) if ahead else ()):
            return [
                node
                for node in session.ledger.nodes
                if node.slot in large_enough and not node.is_closed and refuses(node)
            ]

    def correct(refusing: dict[int, NodeState], stale: set[int] | None) -> None:
        ledger = session.ledger
        for node in ledger.nodes if stale is None else [ledger.slots[slot] for slot in stale]:
            if refuses(node):
                refusing[node.slot] = node
            else:
                refusing.pop(node.slot, None)

    refusing = session.remembered.recall(
        ("curable", *[each.signature(task) for _, each in predicates]),
        lambda: {node.slot: node for node in session.ledger.nodes if refuses(node)},
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
