"""Checks, as far as possible, that a result belongs to the snapshot that it is applied to."""

from __future__ import annotations

from batchsched.errors import Fault
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.result import CycleResult, TaskOutcome
from batchsched.model.snapshot import Snapshot

__all__ = ["outcome_faults"]

_UNTOUCHED = frozenset(
    {
        TaskStatus.BOUND,
        TaskStatus.RUNNING,
        TaskStatus.UNKNOWN,
        TaskStatus.SUCCEEDED,
        TaskStatus.FAILED,
    }
)
"""Statuses that a task can have at the end of a cycle only if it had them at the beginning."""
_WAITING = frozenset({TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED})
"""The possible initial statuses of a task that is Pending at the end of a cycle."""


def outcome_faults(result: CycleResult, snapshot: Snapshot) -> list[Fault]:
    """Return a fault for each outcome that contradicts the snapshot. O(tasks).

    Names alone are not sufficient: a cluster has the same tasks for many cycles. So a task that
    no cycle can have moved must be unchanged. Decisions are checked elsewhere.
    """
    outcomes = result.tasks
    if not outcomes:
        return []
    faults: list[Fault] = []
    met = 0
    for job in snapshot.jobs:
        for task in job.tasks:
            outcome = outcomes.get(task.uid)
            if outcome is not None:
                met += 1
                if outcome.status is not task.status or outcome.node_name != task.node_name:
                    problem = _problem(task, outcome)
                    if problem:
                        faults.append(_fault(task.uid, problem))
    if met != len(outcomes):
        known = {task.uid for job in snapshot.jobs for task in job.tasks}
        faults += [_fault(uid, "no job has such a task") for uid in outcomes if uid not in known]
    return faults


def _problem(task: TaskInfo, outcome: TaskOutcome) -> str:
    status = outcome.status
    if status in _UNTOUCHED or (status is TaskStatus.PENDING and task.status not in _WAITING):
        return f"{_how(status, outcome.node_name)} by it, and {_how(task.status, task.node_name)}"
    return ""


def _how(status: TaskStatus, node_name: str | None) -> str:
    return status.value if node_name is None else f"{status.value} on {node_name!r}"


def _fault(uid: str, problem: str) -> Fault:
    return Fault(f"result.tasks[{uid!r}]", f"{problem}; the result is of another snapshot")
