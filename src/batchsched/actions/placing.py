"""Place a task by the ladder: where it can start now, else later, else conditionally."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.placement import FITS, Fit, first_of_best
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import NodeState, TaskState

NOW = (Fit.NOW,)
"""Only where a task can start now."""
NOW_OR_LATER = (Fit.NOW, Fit.LATER)
"""Where a task can start now; else on resources that are being released."""
LADDER = (Fit.NOW, Fit.LATER, Fit.CONDITIONALLY)
"""The same; else on resources that backfill tasks hold, if the job is not ready without them."""

_STEP = {
    Fit.NOW: Statement.allocate,
    Fit.LATER: Statement.pipeline,
    Fit.CONDITIONALLY: Statement.promise,
}


def place(
    session: Session, statement: Statement, task: TaskState, ladder: Sequence[Fit] = LADDER
) -> bool:
    """Place a task on the best node of the first step that has one; return whether there was one.

    Args:
        session: the session.
        statement: records the placement.
        task: the task, Pending.
        ladder: how the task may fit, in order of preference.

    """
    if not session.may_take_task(task):
        return False
    job = task.job
    assert job is not None
    for fit in ladder:
        if fit is Fit.CONDITIONALLY and (job.backfilling or session.job_ready(job)):
            continue
        node = session.best_node(task, fit)
        if node is not None and session.plans.guard is not None:
            node = _best_beside_plans(session, task, fit)
        if node is not None:
            _STEP[fit](statement, task, node)
            return True
    return False


def _best_beside_plans(session: Session, task: TaskState, fit: Fit) -> NodeState | None:
    """Return the best node where a task fits and that no plan closes to it."""
    guard = session.plans.guard
    assert guard is not None
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
