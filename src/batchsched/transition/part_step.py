"""Computes the next snapshot incrementally, if the last step has left its tables.

All other and invalid cases are left to `batchsched.transition.whole_step`, which is
authoritative: this module may decline any case, and otherwise gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from attrs import evolve

from batchsched.errors import EventError, SnapshotError
from batchsched.model.cluster import JobInfo, TaskInfo
from batchsched.model.immutable import LazyMap
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot, keep_tables, take_tables
from batchsched.model.validation.values import is_of, is_usual_resource
from batchsched.transition.content import Content
from batchsched.transition.event_rules import apply_events
from batchsched.transition.job_transitions import keep_plans
from batchsched.transition.part import part_of_result, take_over
from batchsched.transition.past_use import let_use_pass
from batchsched.transition.step import Step
from batchsched.transition.whole_step import take_step

__all__ = ["take_step_in_part"]


def take_step_in_part(snapshot: Snapshot, step: Step) -> Snapshot | None:
    """Return the next snapshot, or None if this case needs `take_step`.

    O(changes + jobs) if the last step was made here too; otherwise O(size), to create tables.
    """
    if (
        type(snapshot) is not Snapshot
        or type(step.result) is not CycleResult
        # It pays off only after incremental cycles.
        or type(step.result.tasks) is not LazyMap
    ):
        return None
    tables = take_tables(snapshot)
    if not isinstance(tables, Content):
        first = take_step(snapshot, step)
        keep_tables(first, Content(first))
        return first
    mark = tables.mark()
    following: Snapshot | None = None
    try:
        following = _taken(tables, step, step.result) if _is_plain(tables, step) else None
    except (EventError, SnapshotError):
        pass  # `take_step` reports the faults
    finally:
        if following is None:
            tables.undo_to(mark)
            keep_tables(snapshot, tables)
    return following


def _is_plain(tables: Content, step: Step) -> bool:
    """Return whether the arguments concern only the jobs and tasks that they name."""
    return (
        step.nodes is None
        and step.queues is None
        and step.other_tasks is None
        and not tables.dependent
        and all(_are_texts(uids) for uids in step.happened.values())
        and _are_texts(step.removed_jobs)
        and isinstance(step.new_jobs, (tuple, list))
        and all(_is_plain_job(tables, job) for job in step.new_jobs)
    )


def _are_texts(items: object) -> bool:
    if not isinstance(items, (tuple, list)):
        return False
    return all(type(item) is str for item in cast("Sequence[object]", items))


def _is_plain_job(tables: Content, job: object) -> bool:
    return (
        is_of(job, JobInfo)
        and type(job.depends_on) is tuple
        and not job.depends_on
        and type(job.tasks) is tuple
        and type(job.name) is type(job.namespace) is str
        and job.uid not in tables.jobs
        and all(
            is_of(task, TaskInfo)
            and type(task.uid) is str
            and task.uid not in tables.tasks
            and task.node_name is None
            and is_usual_resource(task.resreq)
            and (task.init_resreq is None or is_usual_resource(task.init_resreq))
            for task in job.tasks
        )
    )


def _taken(tables: Content, step: Step, result: CycleResult) -> Snapshot:
    named: dict[str, None] = dict(tables.unsettled)
    nodes: dict[str, None] = {}
    decided = part_of_result(result, tables, named, nodes)
    for uids in step.happened.values():
        named.update(dict.fromkeys(uids))
    removed: Iterable[str] = step.removed_jobs
    for uid in removed:
        named.update(dict.fromkeys(tables.members.get(uid, ())))
    known = [uid for uid in named if uid in tables.tasks]
    before = tables.part(known, nodes, jobs=[uid for uid in removed if uid in tables.jobs])
    if tables.now != step.now:
        let_use_pass(tables, step.now, result)
    after = take_step(before, evolve(step, result=decided, events=()))
    take_over(tables, before, after)
    keep_plans(tables, result.planned)
    if tables.now != step.now:
        tables.put("now", "", step.now)
    apply_events(tables, step.events)
    tables.commit()
    following = tables.snapshot()
    keep_tables(following, tables)
    return following
