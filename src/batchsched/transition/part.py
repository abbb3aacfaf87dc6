"""Extracts the part of a cluster that a result concerns, and writes it back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from attrs import evolve

from batchsched.errors import EventError, Fault
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_mapping
from batchsched.transition.content import Content

__all__ = ["decides_nothing", "part_of_result", "take_over"]

_NO_DECISIONS: tuple[tuple[()], ...] = ((), (), (), ())
_NOTHING_KEPT: tuple[tuple[()], ...] = ((), (), ())


def decides_nothing(cycle: CycleResult) -> bool:
    """Return whether a cycle moved no task and kept no promise or reservation."""
    decided = (cycle.binds, cycle.evictions, cycle.pipelined, cycle.conditional)
    kept = (cycle.reserved, cycle.dropped_reservations, cycle.kept_promises)
    return decided == _NO_DECISIONS and kept == _NOTHING_KEPT


def part_of_result(
    cycle: CycleResult, content: Content, named: dict[str, None], nodes: dict[str, None]
) -> CycleResult:
    """Add the tasks and nodes that a cycle names; return it with only their jobs' outcomes."""
    for decided in (cycle.binds, cycle.evictions, cycle.pipelined, cycle.conditional):
        _note(decided, named, nodes)
    for decided in (cycle.reserved, cycle.dropped_reservations, cycle.kept_promises):
        _note(decided, named, nodes)
    outcomes = cycle.tasks
    if is_mapping(outcomes):
        jobs = {content.owner[uid] for uid in named if uid in content.owner}
        outcomes = {
            uid: cycle.tasks[uid]
            for owner in jobs
            for uid in content.members[owner]
            if uid in cycle.tasks
        }
        # A placement that was not bound may be kept as a reservation.
        _note(outcomes.values(), named, nodes)
    return evolve(cycle, tasks=outcomes, jobs={}, left_out={}, pending={})


def _note(decided: object, named: dict[str, None], nodes: dict[str, None]) -> None:
    if not isinstance(decided, Iterable):
        return
    for decision in cast("Iterable[object]", decided):
        for attribute in ("task_uid", "for_task_uid"):
            uid = getattr(decision, attribute, None)
            if isinstance(uid, str):
                named[uid] = None
        node_name = getattr(decision, "node_name", None)
        if isinstance(node_name, str):
            nodes[node_name] = None


def take_over(content: Content, before: Snapshot, after: Snapshot) -> None:
    """Apply the differences between two snapshots of a part of the cluster."""
    were = {job.uid: job for job in before.jobs}
    for uid in were.keys() - {job.uid for job in after.jobs}:
        content.leave(uid)
    changed = [job for job in after.jobs if job is not were.get(job.uid)]
    for job in changed:
        # Remove tasks first: a task may have moved to another job.
        if job.uid in were:
            for uid in {task.uid for task in were[job.uid].tasks}.difference(
                task.uid for task in job.tasks
            ):
                content.put("tasks", uid, None)
                content.put("owner", uid, None)
    for job in changed:
        if job.uid not in were:
            content.enter(job)
            continue
        members = tuple(task.uid for task in job.tasks)
        if members != content.members[job.uid]:
            content.put("members", job.uid, members)
        for task in job.tasks:
            if content.tasks.get(task.uid) is task:
                continue
            if content.owner.get(task.uid) != job.uid:
                if task.uid in content.tasks:
                    message = "there is such a task already"
                    raise EventError([Fault(f"tasks[{task.uid!r}]", message)])
                content.put("owner", task.uid, job.uid)
            content.put("tasks", task.uid, task)
    others = {task.uid: task for task in after.other_tasks}
    for task in before.other_tasks:
        now = others.get(task.uid)
        if now is not task:
            content.put("tasks", task.uid, now)
