"""How running tasks get other places: each leaves its node and starts again on another one.

Unlike in a cycle, where what leaves is still there until the next, a move is over before the one
after it begins: so a caller carries moves out. All of it is tried in an open session, and undone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from batchsched.actions.moving import Movers
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import Unfit
from batchsched.placement import Fit
from batchsched.plugin.candidates import NodeSet
from batchsched.session.candidates import offers_sets, refusal_beside_its_job, sets_in_turn, try_in
from batchsched.session.session import Session
from batchsched.session.victims import EvictionScope
from batchsched.state.needs import Stage, need_of_task
from batchsched.state.records import NodeState, TaskState
from batchsched.state.vectors import Vector, dominant_share, fits

_NOW = (Stage.NOW,)


class Relocated(NamedTuple):
    """A task that has another place."""

    task: TaskState
    before: NodeState
    """Where it ran."""
    node: NodeState
    """Where it runs now."""
    choices: Mapping[str, Hashable]
    """What plugins have chosen for it there."""


class Relocation:
    """A journal of tasks that leave their nodes and start elsewhere, to be undone as a whole.

    It is to these what a statement is to decisions: `try_in` places tasks with either.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.within: NodeSet | None = None
        """The only nodes on which it places tasks from now on; None: any."""
        self.kept: Mapping[str, Mapping[str, Hashable]] = EMPTY
        """What plugins must choose for tasks, by UID; see `batchsched.plugin.Part`."""
        self._journal: list[tuple[TaskState, TaskStatus, NodeState | None, Mapping[str, Hashable]]]
        self._journal = []

    def __len__(self) -> int:
        return len(self._journal)

    def take_off(self, task: TaskState) -> None:
        """Let a running task leave its node."""
        self._put(task, TaskStatus.PENDING, None, EMPTY)

    def start(self, task: TaskState, node: NodeState) -> None:
        """Let a task that has left start on a node where it fits now."""
        kept = self.kept.get(task.uid, EMPTY)
        choices = self._session.state.evaluator.choices(task, node, Fit.NOW, kept=kept)
        assert not isinstance(choices, Unfit), f"{task!r} was to fit on {node!r}: {choices}"
        self._put(task, TaskStatus.RUNNING, node, choices)

    def rollback(self, length: int) -> None:
        """Undo all operations after the first ones."""
        while len(self._journal) > length:
            task, status, node, choices = self._journal.pop()
            self._session.ledger.move(
                task, status, node, is_backfill=task.is_backfill, choices=choices, is_undo=True
            )

    def relocated(self) -> list[Relocated]:
        """Return the tasks that have other places, in the order in which they left."""
        return [
            Relocated(task, node, task.node, task.choices)
            for task, status, node, _ in self._journal
            if status is TaskStatus.RUNNING and node is not None and task.node is not None
        ]

    def _put(
        self,
        task: TaskState,
        status: TaskStatus,
        node: NodeState | None,
        choices: Mapping[str, Hashable],
    ) -> None:
        self._journal.append((task, task.status, task.node, task.choices))
        self._session.ledger.move(task, status, node, is_backfill=task.is_backfill, choices=choices)


def is_movable(session: Session, task: TaskState, claimant: TaskState) -> bool:
    """Return whether a task may be moved for a claimant: it runs, and nobody protects it alone.

    What gang protects does not count: a task that moves is waited for, and its job keeps the rest.
    O(plugins with verdicts).
    """
    if task.status is not TaskStatus.RUNNING or task.job is None or not task.job.in_session:
        return False
    return not Movers(session, claimant, EvictionScope.ANY_OTHER_JOB).is_protected(task)


def in_order_of_size(session: Session, tasks: Collection[TaskState]) -> Sequence[TaskState]:
    """Return tasks by their dominant share, the largest first; of equal ones in victim order."""
    total = session.cluster[: session.dimensions.in_cluster]
    return sorted(
        session.in_victim_order(tasks), key=lambda task: -dominant_share(task.resreq, total)
    )


def relocate(
    session: Session, relocation: Relocation, task: TaskState, among: Collection[int]
) -> bool:
    """Move a task to the best of some nodes; return whether there was one.

    If not, nothing has changed. Where plugins offer sets of nodes for the task, such as the domain
    that its job is in, it moves within the first of these that has a place.

    Args:
        session: the session.
        relocation: records the move.
        task: the task, Running.
        among: the slots of the nodes.

    """
    begin = len(relocation)
    relocation.take_off(task)

    def place(on: Relocation, each: TaskState, _stage: Stage | None = None) -> bool:
        node = _best(session, on, each, among)
        if node is not None:
            on.start(each, node)
        return node is not None

    need = need_of_task(task).at(Stage.NOW)
    if not offers_sets(session, need, Stage.NOW):
        if place(relocation, task):
            return True
        relocation.rollback(begin)
        return False
    off = len(relocation)
    for trial in sets_in_turn(session, need, (), _NOW):
        is_done = try_in(session, relocation, trial, place)
        relocation.within = None
        if is_done:
            return True
        relocation.rollback(off)
    relocation.rollback(begin)
    return False


def one_after_the_other(
    session: Session, moves: Iterable[tuple[TaskState, NodeState]]
) -> list[Relocated] | None:
    """Return moves in an order in which each is valid after those before it; None: there is none.

    The first that is possible comes first, each time. Nothing stays in the session.
    """
    waiting, relocation = list(moves), Relocation(session)
    while waiting:
        for move in waiting:
            if _starts_there(session, relocation, *move):
                waiting.remove(move)
                break
        else:
            break
    relocated = relocation.relocated()
    relocation.rollback(0)
    return None if waiting else relocated


def _starts_there(
    session: Session, relocation: Relocation, task: TaskState, node: NodeState
) -> bool:
    """Move a task to a node if it can start there now, without itself where it runs."""
    begin = len(relocation)
    relocation.take_off(task)
    if session.can_start(task, node):
        relocation.start(task, node)
        if refusal_beside_its_job(session, task) is None:
            return True
    relocation.rollback(begin)
    return False


def _best(
    session: Session, relocation: Relocation, task: TaskState, among: Collection[int]
) -> NodeState | None:
    placement, within = session.placement, relocation.within
    kept = relocation.kept.get(task.uid, EMPTY)
    slots = among if within is None else within.slots.intersection(among)
    if not kept:
        return placement.best(task, Fit.NOW, slots)
    nodes = [
        node
        for node in placement.feasible(task, slots)
        if session.fits(task, node, Fit.NOW, kept=kept)
    ]
    return session.best_among(task, nodes) if nodes else None


class RoomOnOthers:
    """Whether requests fit on any of some nodes beside one of them, whatever predicates say.

    A node of which one task fits nowhere else need not be tried: what leaves it makes no room on
    others, and what arrives there leaves less.
    """

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        self._nodes = nodes
        self._found: dict[Vector, tuple[NodeState, ...]] = {}
        """For each request, the first two nodes where it fits."""

    def has(self, request: Vector, but: NodeState) -> bool:
        """Return whether a request fits on another node. O(nodes), then O(1) for the request."""
        found = self._found.get(request)
        if found is None:
            fitting = (node for node in self._nodes if fits(request, node.room(Fit.NOW)))
            found = self._found[request] = tuple(islice(fitting, 2))
        return any(node is not but for node in found)
