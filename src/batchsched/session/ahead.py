"""A node as it will be, and whether it will accept a task then.

What leaves has left then, and what is promised has come: the ledger is moved there for a time, and
back. Listeners hear of it as of any move, and of the way back.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Protocol

from batchsched.errors import plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.placement import Placement
from batchsched.plugin.node_functions import Predicate, Reads
from batchsched.session.plugins import PluginSet
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


_Move = tuple[TaskState, TaskStatus, NodeState | None, Mapping[str, Hashable] | None]
"""A task, its status, node and choices then; None: the same choices if it stays, else none."""
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
