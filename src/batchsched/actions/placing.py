"""Place a task by the ladder: where it can start now, else later, else conditionally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from batchsched.placement import FITS, Fit, first_of_best
from batchsched.session.session import Session
from batchsched.state.groups import Counting
from batchsched.state.records import JobState, NodeState, TaskState

__all__ = [
    "Placer",
    "best_of",
    "can_still_start",
    "place_now",
    "place_now_or_later",
    "place_on_ladder",
]


class Placer(Protocol):
    """Places tasks: a session, which decides at once, or a statement, which can roll back."""

    def allocate(self, task: TaskState, node: NodeState, /) -> None:
        """Place a task where it can start now."""
        ...

    def pipeline(self, task: TaskState, node: NodeState, /) -> None:
        """Promise a task resources that are being released."""
        ...

    def promise(self, task: TaskState, node: NodeState, /) -> None:
        """Promise a task resources that backfill tasks hold."""
        ...


def place_now(session: Session, placer: Placer, task: TaskState) -> bool:
    """Place a task where it can start now; return whether there was a node."""
    return session.may_take_task(task) and _now(session, placer, task)


def _now(session: Session, placer: Placer, task: TaskState) -> bool:
    node = _best(session, task, Fit.NOW)
    if node is None:
        return False
    placer.allocate(task, node)
    return True


def place_now_or_later(session: Session, placer: Placer, task: TaskState) -> bool:
    """Place a task where it can start now, else later; return whether there was a node."""
    return session.may_take_task(task) and _now_or_later(session, placer, task)


def _now_or_later(session: Session, placer: Placer, task: TaskState) -> bool:
    if _now(session, placer, task):
        return True
    node = _best(session, task, Fit.LATER)
    if node is None:
        return False
    placer.pipeline(task, node)
    return True


def place_on_ladder(session: Session, placer: Placer, task: TaskState) -> bool:
    """Place a task now, else later, else conditionally; return whether there was a node."""
    if not session.may_take_task(task):
        return False
    if _now_or_later(session, placer, task):
        return True
    job = task.job
    assert job is not None
    if not _may_be_conditional(session, job):
        return False
    node = _best(session, task, Fit.CONDITIONALLY)
    if node is None:
        return False
    placer.promise(task, node)
    return True


def can_still_start(session: Session, job: JobState, left: int) -> bool:
    """Return whether a job is ready, or would be if all its remaining tasks found a place.

    `left`: the number of its tasks that are still to be tried.
    """
    return job.lacks(Counting.HOPED) <= left or session.job_ready(job)


def _best(session: Session, task: TaskState, fit: Fit) -> NodeState | None:
    """Return the best node where a task fits and that no plan closes to it."""
    node = session.best_node(task, fit)
    guard = session.plans.guard
    if node is None or guard is None:
        return node
    nodes = [
        node
        for node in session.placement.feasible(task)
        if FITS[fit](node, task.init_resreq) and guard.allows(task, node)
    ]
    return best_of(session, task, nodes) if nodes else None


def best_of(session: Session, task: TaskState, nodes: Sequence[NodeState]) -> NodeState:
    """Return the node with the highest node order score; among equals, the first."""
    if len(nodes) == 1 or not session.plugin_set.node_scores:
        return nodes[0]
    placement = session.placement
    totals = placement.totals(task, [placement.raw_scores(task, node) for node in nodes])
    return nodes[first_of_best(totals)]


def _may_be_conditional(session: Session, job: JobState) -> bool:
    """Return whether tasks of the job may be promised what backfill tasks hold."""
    return not job.backfilling and not session.job_ready(job)
