"""Reads and validates results of cycles, which may be created by hand or from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from batchsched.model.cluster import Plan, TaskStatus
from batchsched.model.result import Bind, CycleResult, Eviction, Promise, TaskOutcome
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.tasks import plan_problems
from batchsched.model.validation.values import (
    Problems,
    is_mapping,
    is_of,
    is_text,
    join_path,
    member_problems,
    shown,
    text_problems,
    truth_problems,
)
from batchsched.transition.argument_reader import ArgumentReader

__all__ = ["check_claimants", "read_result"]

_NOTHING: tuple[tuple[str, str], ...] = ()


def read_result(given: ArgumentReader, result: object) -> CycleResult | None:
    """Return the decisions that can be read; None if `result` is not a result. O(size).

    Parts that do not affect snapshots, such as reasons, are left out and not checked.
    """
    if not is_of(result, CycleResult):
        given.refuse("result", f"expected a CycleResult, got {shown(result)}")
        return None
    return CycleResult(
        binds=given.each("result.binds", result.binds, Bind, _bind_problems),
        evictions=given.each("result.evictions", result.evictions, Eviction, _eviction_problems),
        reserved=given.each("result.reserved", result.reserved, Promise, _promise_problems),
        kept_promises=given.each(
            "result.kept_promises", result.kept_promises, Promise, _promise_problems
        ),
        tasks=_sound_outcomes(given, result),
        planned=_sound_plans(given, result),
    )


def _sound_plans(given: ArgumentReader, result: CycleResult) -> Mapping[str, Plan]:
    """Return the plans of jobs, without those that cannot be read."""
    plans: object = result.planned
    if not is_mapping(plans):
        given.refuse("result.planned", f"expected a dict of plans, got {shown(plans)}")
        return {}
    sound: dict[str, Plan] = {}
    for uid, plan in plans.items():
        if not is_text(uid):
            given.refuse("result.planned", f"expected UIDs of jobs, got {shown(uid)}")
            continue
        problems = list(plan_problems(plan))
        for path, message in problems:
            given.refuse(join_path(f"result.planned[{uid!r}]", path), message)
        if not problems and is_of(plan, Plan):
            sound[uid] = plan
    return sound


def check_claimants(given: ArgumentReader, result: CycleResult, snapshot: Snapshot) -> None:
    """Check that the tasks for which others were evicted are tasks of jobs. O(tasks), if any."""
    if not result.evictions:
        return
    unknown = {eviction.for_task_uid for eviction in result.evictions}
    for job in snapshot.jobs:
        unknown.difference_update([task.uid for task in job.tasks])
    for eviction in result.evictions:
        if eviction.for_task_uid in unknown:
            path = f"result.evictions[{eviction.task_uid!r}].for_task_uid"
            message = f"expected a task of a job, got {eviction.for_task_uid!r}"
            given.refuse(path, f"{message}; the result is of another snapshot")


def _bind_problems(bind: Bind) -> Iterable[tuple[str, str]]:
    # A fast test first: a cycle may bind all tasks of a cluster.
    if type(bind.task_uid) is type(bind.node_name) is str and type(bind.is_backfill) is bool:
        return _NOTHING
    return [*_promise_problems(bind), *truth_problems("is_backfill", bind.is_backfill)]


def _eviction_problems(eviction: Eviction) -> Problems:
    yield from _promise_problems(eviction)
    yield from text_problems("action", eviction.action, may_be_empty=True)
    yield from text_problems("for_task_uid", eviction.for_task_uid, may_be_empty=True)


def _promise_problems(promise: Bind | Eviction | Promise) -> Problems:
    yield from text_problems("task_uid", promise.task_uid, may_be_empty=True)
    yield from text_problems("node_name", promise.node_name, may_be_empty=True)


def _sound_outcomes(given: ArgumentReader, result: CycleResult) -> Mapping[str, TaskOutcome]:
    """Return the outcomes of tasks, or an empty mapping if any of them is invalid."""
    outcomes: object = result.tasks
    if not is_mapping(outcomes):
        given.refuse("result.tasks", f"expected a mapping such as a dict, got {shown(outcomes)}")
        return {}
    before = len(given.faults)
    for uid, outcome in outcomes.items():
        if not is_text(uid):
            given.refuse(
                f"result.tasks[{shown(uid)}]", (f"expected a UID (a string), got {shown(uid)}")
            )
        for path, message in _outcome_problems(outcome):
            given.refuse(join_path(f"result.tasks[{shown(uid)}]", path), message)
    return result.tasks if len(given.faults) == before else {}


def _outcome_problems(outcome: object) -> Iterable[tuple[str, str]]:
    # A fast test first, as for binds: there may be an outcome of every task of a cluster.
    if type(outcome) is TaskOutcome and type(outcome.status) is TaskStatus:
        node_name = outcome.node_name
        if node_name is None or type(node_name) is str:
            return _NOTHING
    return _all_outcome_problems(outcome)


def _all_outcome_problems(outcome: object) -> Problems:
    if not is_of(outcome, TaskOutcome):
        yield "", f"expected a TaskOutcome, got {shown(outcome)}"
        return
    yield from member_problems("status", outcome.status, TaskStatus)
    if outcome.node_name is not None:
        yield from text_problems("node_name", outcome.node_name, may_be_empty=True)
