"""Applies the decisions of cycles that only bind tasks, the usual case, task by task.

All other and invalid cases are left to `batchsched.transition.next_snapshot`, which is
authoritative: this module may decline any case, and otherwise gives the same result.
"""

from __future__ import annotations

from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.immutable import FrozenMap, LazyMap, is_frozen_map
from batchsched.model.result import Bind, CycleResult, TaskOutcome
from batchsched.transition.content import Content
from batchsched.transition.task_rules import running

__all__ = ["tasks_started"]

_UNKNOWN = TaskOutcome(status=TaskStatus.PENDING)
"""A placeholder for outcomes that a result does not contain."""
_NOTHING_ELSE: tuple[tuple[()], ...] = ((), (), (), (), (), (), ())


def tasks_started(cycle: CycleResult, content: Content) -> dict[str, TaskInfo] | None:
    """Return the tasks that a cycle has bound, as running tasks, by UID; None: not this case.

    O(tasks of the jobs concerned).
    """
    decided = (cycle.evictions, cycle.pipelined, cycle.conditional, cycle.reserved)
    kept = (cycle.dropped_reservations, cycle.kept_promises, cycle.dropped_promises)
    if (
        content.unsettled
        or type(cycle.binds) is not tuple
        or (*decided, *kept) != _NOTHING_ELSE
        or not is_frozen_map(cycle.planned)
        or len(cycle.planned)
        or type(cycle.tasks) not in (LazyMap, FrozenMap)
    ):
        return None
    tasks, owner, now = content.tasks, content.owner, content.now
    started: dict[str, TaskInfo] = {}
    jobs: dict[str, None] = {}
    for bind in cycle.binds:
        if not _is_plain(bind, content) or bind.task_uid in started:
            return None
        uid = bind.task_uid
        started[uid] = running(tasks[uid], bind.node_name, is_backfill=bind.is_backfill, now=now)
        jobs[owner[uid]] = None
    outcomes = cycle.tasks
    for job in jobs:
        for uid in content.members[job]:
            outcome = outcomes.get(uid, _UNKNOWN)
            if outcome is not _UNKNOWN and not _is_as_decided(
                outcome, tasks[uid], started.get(uid)
            ):
                return None
    return started


def _is_plain(bind: Bind, content: Content) -> bool:
    if type(bind) is not Bind or type(bind.is_backfill) is not bool:
        return False
    uid, node_name = bind.task_uid, bind.node_name
    if not (type(uid) is type(node_name) is str and node_name in content.nodes):
        return False
    task = content.tasks.get(uid)
    return task is not None and task.status is TaskStatus.PENDING and uid in content.owner


def _is_as_decided(outcome: TaskOutcome, task: TaskInfo, started: TaskInfo | None) -> bool:
    """Return whether a task did not change in the cycle, or was bound to the node where it runs."""
    if type(outcome) is not TaskOutcome:
        return False
    node_name = outcome.node_name
    if node_name is not None and type(node_name) is not str:
        return False
    if started is None:
        return outcome.status is task.status and node_name == task.node_name
    return outcome.status is TaskStatus.BINDING and node_name == started.node_name
