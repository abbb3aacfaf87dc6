"""Reads and checks what `next_snapshot` is given: all faults at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from batchsched.errors import Fault, SnapshotError, shown_problem
from batchsched.model.cluster import NodeInfo, Plan, TaskInfo, TaskStatus
from batchsched.model.result import Bind, CycleResult, Eviction, Promise, TaskOutcome
from batchsched.model.snapshot import Snapshot, common_of
from batchsched.model.validation.fields import FieldChecks, any_text, optional
from batchsched.model.validation.tasks import plan_problems
from batchsched.model.validation.values import (
    is_collection,
    is_mapping,
    is_of,
    is_text,
    join_path,
    shown,
    time_problems,
)

T = TypeVar("T")


class Unreadable:
    """In place of an iterable that raised, which is told together with all other faults."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause

    def __repr__(self) -> str:
        return f"an iterable that raised {shown_problem(self.cause)}"


class ArgumentReader:
    """Reads arguments of a caller, and collects all faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def events(self, named: Mapping[str, Iterable[str]]) -> dict[str, str]:
        """Return the name of the event of each task, by UID."""
        of: dict[str, str] = {}
        for event, given in named.items():
            for uid in self.uids(event, given):
                if uid in of:
                    self.refuse(f"{event}[{uid!r}]", f"{of[uid]!r} names the task already")
                else:
                    of[uid] = event
        return of

    def uids(self, name: str, given: object) -> tuple[str, ...]:
        """Return the items that are strings, and report the others."""
        if is_text(given):
            # Iterating over it would yield its letters.
            self.refuse(name, f"expected a list, got {shown(given)}; use [{shown(given)}]")
            return ()
        if not is_collection(given):
            self.refuse(name, f"expected a collection, got {shown(given)}; use a list")
            return ()
        return self._sound(name, given, str, "UID (a string)", lambda _uid: ())

    def each(
        self,
        name: str,
        given: object,
        kind: type[T],
        problems: Callable[[T], Iterable[tuple[str, str]]] = lambda _item: (),
    ) -> tuple[T, ...]:
        """Return the items that have the type and no problems, and report the others."""
        if not is_collection(given):
            self.refuse(
                name, (f"expected a collection of {kind.__name__}, got {shown(given)}; use a list")
            )
            return ()
        return self._sound(name, given, kind, kind.__name__, problems)

    def only_sound(
        self, nodes: tuple[NodeInfo, ...] | None, before: Snapshot | None
    ) -> tuple[NodeInfo, ...] | None:
        """Return the nodes if all of them are valid, else None."""
        if nodes is None or any(fault.path.startswith("nodes") for fault in self.faults):
            return None
        try:
            return Snapshot(nodes=nodes, **({} if before is None else common_of(before))).nodes
        except SnapshotError:
            return None

    def snapshot(self, snapshot: object) -> Snapshot | None:
        """Return the snapshot, or None, with a fault, if it is not a `Snapshot`."""
        if is_of(snapshot, Snapshot):
            return snapshot
        self.refuse("snapshot", f"expected a Snapshot, got {shown(snapshot)}")
        return None

    def check_now(self, now: float, *, before: float | None) -> None:
        """Check the time of the next cycle, given that of the last one if known."""
        problems = list(time_problems("now", now))
        if not problems and before is not None and now < before:
            problems = [("now", f"{now!r} is before the last cycle, which was at {before!r}")]
        for path, message in problems:
            self.refuse(path, message)

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(path, message))

    def _sound(
        self,
        name: str,
        given: Iterable[object],
        kind: type[T],
        what: str,
        problems: Callable[[T], Iterable[tuple[str, str]]],
    ) -> tuple[T, ...]:
        sound: list[T] = []
        try:
            listed = list(given)
        except Exception as cause:  # an iterable of the caller's may raise anything
            self.refuse(name, f"raised {shown_problem(cause)} when its items were read")
            return ()
        for position, item in enumerate(listed):
            if not is_of(item, kind):
                self.refuse(f"{name}[{position}]", f"expected a {what}, got {shown(item)}")
                continue
            is_sound = True
            for path, message in problems(item):
                self.refuse(join_path(f"{name}[{position}]", path), message)
                is_sound = False
            if is_sound:
                sound.append(item)
        return tuple(sound)


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
    return _all_bind_problems(bind)


_NAMES = {"task_uid": any_text, "node_name": any_text}
_all_bind_problems = FieldChecks(Bind, only=(*_NAMES, "is_backfill"), **_NAMES)
_promise_problems = FieldChecks(Promise, only=_NAMES, **_NAMES)
_eviction_problems = FieldChecks(
    Eviction,
    only=(*_NAMES, "action", "for_task_uid"),
    action=any_text,
    for_task_uid=any_text,
    **_NAMES,
)
_all_outcome_problems = FieldChecks(
    TaskOutcome, only=("status", "node_name"), node_name=optional(any_text)
)


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
    if status in _UNTOUCHED or (status is TaskStatus.PENDING and not task.status.to_place):
        return f"{_how(status, outcome.node_name)} by it, and {_how(task.status, task.node_name)}"
    return ""


def _how(status: TaskStatus, node_name: str | None) -> str:
    return status.value if node_name is None else f"{status.value} on {node_name!r}"


def _fault(uid: str, problem: str) -> Fault:
    return Fault(f"result.tasks[{uid!r}]", f"{problem}; the result is of another snapshot")
