"""Evicting for a task: no more than is short, and sparing who turns out not to be needed.

Specification: section 7, "Evicting for a task", and section 10, conditional placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchsched.session import Session
from batchsched.statement import Statement
from batchsched.states import NodeState, TaskState
from batchsched.status import TaskStatus
from batchsched.vectors import Vector, fits, plus

__all__ = ["make_room", "running_tasks", "spare", "take_until"]

VictimsFunction = Callable[[TaskState, Sequence[TaskState]], list[TaskState]]
"""From a claimant and candidates in victim order, the candidates that may be evicted."""


def make_room(
    session: Session,
    statement: Statement,
    task: TaskState,
    *,
    nodes: Iterable[NodeState],
    may_grow: bool,
    is_candidate: Callable[[TaskState], bool],
    victims_of: VictimsFunction,
) -> bool:
    """Evict on the first of `nodes` where that is enough, and promise the task its place there.

    Args:
        session: where this happens.
        statement: what records it.
        task: the claimant, Pending.
        nodes: feasible nodes, in the order in which to try them.
        may_grow: whether the task may take idle resources too; if not, it must find
            room in what its victims hold alone.
        is_candidate: which Running tasks may be considered.
        victims_of: which of those may be evicted.

    Returns:
        Whether room was made. If not, nothing was changed.

    """
    for node in nodes:
        candidates = session.in_victim_order(running_tasks(node, is_candidate))
        if not candidates:
            continue
        victims = victims_of(task, candidates)
        if not victims:
            continue
        chosen = take_until(victims, lambda taken: _is_enough(task, node, taken, may_grow))  # noqa: B023
        if chosen is None:
            continue
        for victim in chosen:
            statement.evict(victim, claimant=task)
        statement.pipeline(task, node)
        return True
    return False


def running_tasks(node: NodeState, is_candidate: Callable[[TaskState], bool]) -> list[TaskState]:
    """Return the Running tasks on a node that pass a filter."""
    return [
        task
        for task in node.tasks.values()
        if task.status is TaskStatus.RUNNING and is_candidate(task)
    ]


def take_until(
    victims: Sequence[TaskState], is_enough: Callable[[Sequence[TaskState]], bool]
) -> list[TaskState] | None:
    """Return the first victims that are enough, without those that can be spared.

    None if all of them are not enough. O(victims ** 2 x dimensions) at worst.
    """
    taken: list[TaskState] = []
    remaining = iter(victims)
    while not is_enough(taken):
        victim = next(remaining, None)
        if victim is None:
            return None
        taken.append(victim)
    return spare(taken, is_enough)


def spare(
    taken: list[TaskState], is_enough: Callable[[Sequence[TaskState]], bool]
) -> list[TaskState]:
    """Drop, from the last taken to the first, every victim without whom it is still enough."""
    kept = list(taken)
    for position in reversed(range(len(kept))):
        without = kept[:position] + kept[position + 1 :]
        if is_enough(without):
            kept = without
    return kept


def _is_enough(
    task: TaskState, node: NodeState, victims: Sequence[TaskState], may_grow: bool
) -> bool:
    request = task.init_resreq
    zero: Vector = (0,) * len(request)
    freed = freed_for_good = zero
    for victim in victims:
        freed = plus(freed, victim.resreq)
        if not victim.is_backfill:
            # What a backfill task holds is part of `eventual` already.
            freed_for_good = plus(freed_for_good, victim.resreq)
    return (
        fits(request, plus(node.future_idle, freed))
        and fits(request, plus(node.eventual, freed_for_good))
        and (may_grow or fits(request, freed))
    )
