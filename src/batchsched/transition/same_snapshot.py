"""Whether a result is of the snapshot that it is applied to, as far as can be told."""

from __future__ import annotations

from batchsched.errors import Fault
from batchsched.model.cluster import TaskInfo
from batchsched.model.result import CycleResult, TaskOutcome
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import TaskStatus

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
"""What a task is at the end of a cycle only if it was so, there, at its beginning."""
_WAITING = frozenset({TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED})
"""What a task was that a cycle leaves Pending."""


def outcome_faults(result: CycleResult, snapshot: Snapshot) -> list[Fault]:
    """Return where the outcomes of tasks do not follow from the snapshot. O(tasks).

    Names alone would not tell: a cluster has the same tasks for many cycles. So a task that no
    cycle can have moved must stand where it stood. What decisions name is looked at elsewhere.
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
