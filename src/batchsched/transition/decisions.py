"""What the decisions of a cycle, and what happened since, make of tasks and reservations.

Results are checked here, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import cast

from attrs import evolve

from batchsched.errors import EventError, Fault, problem_of
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.resources import Resource
from batchsched.model.result import DECISIONS, Bind, CycleResult, Move, Promise, TaskOutcome
from batchsched.model.rules import accepts_by_description
from batchsched.model.snapshot import OF_DEVICES, Snapshot, besides_of
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.fields import (
    Check,
    FieldChecks,
    any_text,
    mapping_of,
    optional,
    part,
)
from batchsched.model.validation.tasks import plan_problems
from batchsched.model.validation.values import (
    Problems,
    is_mapping,
    is_of,
    is_text,
    shown,
    time_problems,
    under,
)
from batchsched.transition.rules import (
    RULES,
    TO_START,
    gone_from_old_place,
    moving,
    placed,
    starting,
    staying,
    with_run_added,
)

Replacement = Callable[[TaskInfo], TaskInfo | None]
"""Returns the task that comes in place of one that is gone; None: none does."""


def _decisions(kind: type, types: Mapping[str, type]) -> Check:
    """Return the check of decisions, given the types of the fields that matter."""
    own = {name: any_text for name, each in types.items() if each is str}
    problems = FieldChecks[object](kind, only=types, **own)
    read, usual = attrgetter(*types), (*types.values(),)

    def check(path: str, items: object) -> Problems:
        if type(items) not in (tuple, list):
            yield path, f"expected a collection of {kind.__name__}, got {shown(items)}; use a list"
            return
        for position, item in enumerate(cast("Sequence[object]", items)):
            # A fast test first: a cycle may bind all tasks of a cluster.
            if type(item) is not kind or (*map(type, read(item)),) != usual:
                yield from under(f"{path}[{position}]", problems(item))

    return check


_outcome_problems = FieldChecks(
    TaskOutcome, only=("status", "node_name"), node_name=optional(any_text, str)
)


def _check_outcomes(path: str, outcomes: object) -> Problems:
    if not is_mapping(outcomes):
        yield path, f"expected a mapping such as a dict, got {shown(outcomes)}"
        return
    for uid, outcome in outcomes.items():
        # A fast test first, as for binds: there may be an outcome of every task of a cluster.
        if (
            type(uid) is str
            and type(outcome) is TaskOutcome
            and type(outcome.status) is TaskStatus
            and (outcome.node_name is None or type(outcome.node_name) is str)
        ):
            continue
        place = f"{path}[{shown(uid)}]"
        if not is_text(uid):
            yield place, f"expected a UID (a string), got {shown(uid)}"
        yield from under(place, _outcome_problems(outcome))


_CHECKS: Mapping[str, Check] = {
    **{row.field: _decisions(row.kind, row.checked) for row in DECISIONS if row.checked},
    "tasks": _check_outcomes,
    "planned": mapping_of(part(plan_problems)),
}
_result_problems = FieldChecks(CycleResult, only=_CHECKS, **_CHECKS)


def check_result(result: CycleResult) -> None:
    """Check what snapshots depend on in a result; reasons, for example, are not looked at. O(size).

    Raises:
        EventError: it cannot be read; all faults at once.

    """
    problems = [*under("result", _result_problems(result))]
    if problems:
        raise EventError([Fault(*problem) for problem in problems])


def claimant_faults(result: CycleResult, snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault for each eviction for what is no task of a job. O(tasks), if there are any."""
    unknown = {eviction.for_task_uid for eviction in result.evictions}
    for job in snapshot.jobs if unknown else ():
        unknown.difference_update([task.uid for task in job.tasks])
    for eviction in result.evictions:
        if eviction.for_task_uid in unknown:
            path = f"result.evictions[{eviction.task_uid!r}].for_task_uid"
            message = f"expected a task of a job, got {eviction.for_task_uid!r}"
            yield Fault(path, f"{message}; the result is of another snapshot")


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
            if outcome is None:
                continue
            met += 1
            status, were = outcome.status, task.status
            if (status is not were or outcome.node_name != task.node_name) and (
                status in _UNTOUCHED or (status is TaskStatus.PENDING and not were.to_place)
            ):
                by_it, before = _how(status, outcome.node_name), _how(were, task.node_name)
                faults.append(_fault(task.uid, f"{by_it} by it, and {before}"))
    if met != len(outcomes):
        known = {task.uid for job in snapshot.jobs for task in job.tasks}
        faults += [_fault(uid, "no job has such a task") for uid in outcomes if uid not in known]
    return faults


def _how(status: TaskStatus, node_name: str | None) -> str:
    return status.value if node_name is None else f"{status.value} on {node_name!r}"


def _fault(uid: str, problem: str) -> Fault:
    return Fault(f"result.tasks[{uid!r}]", f"{problem}; the result is of another snapshot")


@checks_arguments(EventError)
def reservations_to_keep(
    result: CycleResult, snapshot: Snapshot, /, *, nodes: Iterable[NodeInfo] | None = None
) -> Mapping[str, str]:
    """Return the tasks to be Reserved in the next cycle, and their nodes, in order of UID.

    These are

    - the tasks in `CycleResult.reserved`, unless the node's description rejects them by now: by
      its taints, or by labels that the task does not select;
    - the Allocated tasks of jobs with Reserved tasks, so that a gang does not lose some of its
      nodes while others are reserved for it; only where they fit beside other reservations, and
      not if they are in `CycleResult.kept_promises`.

    `next_snapshot` calls this itself. It is for callers that create snapshots in another way:
    waiting tasks must be Pending if they are neither in this mapping nor in
    `CycleResult.kept_promises`, whose tasks must be Pipelined. O(size of the snapshot); if the
    cycle reserved nothing, the arguments are only checked.

    Args:
        result: the result of a cycle.
        snapshot: the snapshot of that cycle.
        nodes: all present nodes, if any have changed since.

    Raises:
        EventError: an argument is invalid; all faults at once.
        SnapshotError: nodes are invalid in themselves.

    """
    check_result(result)
    nodes_now = None
    if nodes is not None and result.reserved:
        nodes_now = Snapshot(nodes=nodes, **besides_of(snapshot, OF_DEVICES)).nodes
    return places_to_keep(result, snapshot, nodes_now)


def places_to_keep(
    result: CycleResult, snapshot: Snapshot, nodes: tuple[NodeInfo, ...] | None
) -> Mapping[str, str]:
    """Return the same as `reservations_to_keep` for arguments that are known to be valid."""
    reserved = {promise.task_uid: promise.node_name for promise in result.reserved}
    if not reserved:
        return {}
    named = {node.name: node for node in (snapshot.nodes if nodes is None else nodes)}
    concerned = [job for job in snapshot.jobs if any(t.uid in reserved for t in job.tasks)]
    places: dict[str, str] = {}
    # What is reserved on each node, and what tasks without a job hold there.
    taken: defaultdict[str, Resource] = defaultdict(Resource)
    for task in snapshot.other_tasks:
        if task.status.holds and task.status is not TaskStatus.RELEASING:
            taken[task.node_name or ""] += task.resreq
    for task in chain.from_iterable(job.tasks for job in concerned):
        node_name = reserved.pop(task.uid, None)
        node = named.get(node_name or "")
        # The next cycle drops a reservation on a node that is gone.
        if node_name is not None and (node is None or accepts_by_description(node, task)):
            places[task.uid] = node_name
            taken[node_name] += task.start_request
    # Tasks that are not in the snapshot are returned too; the caller reports them.
    places.update(reserved)
    settled = {promise.task_uid for promise in result.kept_promises} | places.keys()
    for job in concerned:
        # Without any reservation left, a job's other nodes are not kept either.
        if all(task.uid not in places for task in job.tasks):
            continue
        for task in job.tasks:
            outcome = result.tasks.get(task.uid)
            if outcome is None or outcome.status is not TaskStatus.ALLOCATED:
                continue
            node = named.get(outcome.node_name or "")
            if node is None or task.uid in settled:
                continue
            if (taken[node.name] + task.start_request).fits(node.allocatable):
                places[task.uid] = node.name
                taken[node.name] += task.start_request
    return dict(sorted(places.items()))


_WAITING = (TaskStatus.RESERVED, TaskStatus.PIPELINED)
"""Statuses of waiting tasks with a promised or reserved node."""
_MOVING = (*TO_START, TaskStatus.RELEASING, *_WAITING)

_NEW = (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_ON_A_NODE = tuple(status for status in TaskStatus if status not in _NEW)

_Place = tuple[TaskStatus, str]
"""The status and the node that a decision gives a task."""

_DECIDED = {
    TaskStatus.BINDING: ("binds", (TaskStatus.PENDING, *_WAITING)),
    TaskStatus.RELEASING: ("evicts", (TaskStatus.RUNNING,)),
    TaskStatus.RESERVED: ("keeps a place for", (TaskStatus.PENDING, *_WAITING)),
    TaskStatus.PIPELINED: ("keeps a promise to", (TaskStatus.PENDING, *_WAITING)),
}
"""For each status given by a decision: a verb for messages, and the possible earlier statuses."""
_MOVED = ("moves", (TaskStatus.RUNNING,))
"""The same of moves."""


class TaskTransitions:
    """Applies decisions and events to tasks, and collects contradictions."""

    def __init__(
        self,
        snapshot: Snapshot,
        happened: Mapping[str, Iterable[str]],
        replacement: Replacement,
        *,
        now: float,
    ) -> None:
        self._snapshot = snapshot
        self._now = now
        """The time of the next cycle, which is used as the time of all events."""
        self._replacement = replacement
        self.faults: list[Fault] = []
        self._events: dict[str, str] = {}
        """The name of the event of each task, by UID."""
        for event, uids in happened.items():
            for uid in uids:
                if uid in self._events:
                    first = self._events[uid]
                    self._refuse(f"{event}[{uid!r}]", f"{first!r} names the task already")
                self._events.setdefault(uid, event)
        for path, message in time_problems("now", now):
            self._refuse(path, message)
        if now < snapshot.now:
            message = f"{now!r} is before the last cycle, which was at {snapshot.now!r}"
            self._refuse("now", message)
        self._met: set[str] = set()
        self._nodes_before = frozenset(node.name for node in snapshot.nodes)
        self._places: dict[str, _Place] = {}
        self._moves: dict[str, Move] = {}
        """The tasks that move, as long as they are promised their places."""
        self._chosen: dict[str, Bind | Promise] = {}
        """The decisions that have what plugins chose for tasks."""
        self._backfilling: dict[str, bool] = {}
        """The backfill marks of tasks that the result decides."""
        self.keeps_places = False
        """Whether Reserved and Pipelined tasks without a decision keep their nodes."""
        self.node_names: frozenset[str] | None = None
        """The names of the present nodes, if they have changed."""
        self.removed: list[JobInfo] = []
        """The removed jobs, with their tasks before they were removed; see `jobs`."""
        self.task_faults: list[Fault] = []
        self.raised: Exception | None = None
        """The first exception that `replacement` raised, if any."""

    def _refuse(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def decide(self, result: CycleResult) -> None:
        """Record the decisions of a cycle."""
        for bind in result.binds:
            self._decide(bind.task_uid, TaskStatus.BINDING, bind.node_name)
            self._backfilling[bind.task_uid] = bind.is_backfill
            self._chosen[bind.task_uid] = bind
        for eviction in result.evictions:
            self._decide(eviction.task_uid, TaskStatus.RELEASING, eviction.node_name)
        self._moves = {move.task_uid: move for move in result.moves}
        self._check_promises("reserved", "reservations", result.reserved)
        self._check_promises("kept_promises", "promises", result.kept_promises)

    def _check_promises(self, name: str, kind: str, promises: Iterable[Promise]) -> None:
        promised: set[str] = set()
        for promise in promises:
            path = f"result.{name}[{promise.task_uid!r}]"
            if promise.node_name not in self._nodes_before:
                message = f"{promise.node_name!r} was not there; the result is of another snapshot"
                self._refuse(path, message)
            if promise.task_uid in promised:
                self._refuse(path, f"two {kind} name the task")
            promised.add(promise.task_uid)

    def keep(self, reservations: Mapping[str, str], promises: Iterable[Promise]) -> None:
        """Record the reservations and promises to keep."""
        for uid, node_name in reservations.items():
            self._decide(uid, TaskStatus.RESERVED, node_name)
        for uid, promise in {p.task_uid: p for p in promises}.items():
            self._decide(uid, TaskStatus.PIPELINED, promise.node_name)
            self._chosen[uid] = promise

    def let_leave(self) -> None:
        """Record that what moves and is promised no place leaves like what is evicted."""
        for uid, move in list(self._moves.items()):
            if self._places.get(uid) != (TaskStatus.PIPELINED, move.to_node):
                del self._moves[uid]
                self._decide(uid, TaskStatus.RELEASING, move.from_node)

    def _decide(self, uid: str, status: TaskStatus, node_name: str) -> None:
        if uid in self._places:
            self._refuse(f"result.tasks[{uid!r}]", "two decisions name the task")
        self._places[uid] = status, node_name

    def check_jobs(self, removed: tuple[str, ...], arrived: tuple[JobInfo, ...]) -> None:
        """Check that removed jobs existed, and that arriving jobs did not."""
        known = {job.uid for job in self._snapshot.jobs}
        named: set[str] = set()
        for uid in removed:
            if uid not in known:
                self._refuse(f"removed_jobs[{uid!r}]", "there is no such job")
            elif uid in named:
                self._refuse(f"removed_jobs[{uid!r}]", "the job is named twice")
            named.add(uid)
        for job in arrived:
            if job.uid in known and job.uid not in removed:
                self._refuse(f"new_jobs[{job.uid!r}]", "there is such a job already")

    def jobs(self, removed: frozenset[str]) -> list[JobInfo]:
        """Return the remaining jobs with their new tasks."""
        remaining: list[JobInfo] = []
        for job in self._snapshot.jobs:
            if job.uid in removed:
                self.removed.append(self._before_it_was_removed(job))
                continue
            tasks = self._tasks(job.tasks, self._replacement)
            remaining.append(job if tasks is None else evolve(job, tasks=tasks))
        return remaining

    def others(self) -> tuple[TaskInfo, ...]:
        """Return the new tasks without a job."""
        before = self._snapshot.other_tasks
        tasks = self._tasks(before, lambda _task: None)
        return before if tasks is None else tuple(tasks)

    def unknown(self) -> Iterator[Fault]:
        """Yield a fault for each named task that does not exist."""
        for uid, event in self._events.items():
            if uid not in self._met:
                yield Fault(f"{event}[{uid!r}]", "there is no such task")
        for uid in self._places:
            if uid not in self._met:
                message = "there is no such task; the result is of another snapshot"
                yield Fault(f"result.tasks[{uid!r}]", message)

    def _before_it_was_removed(self, job: JobInfo) -> JobInfo:
        tasks: list[TaskInfo] = []
        for task in job.tasks:
            after: TaskInfo | None = task
            if task.uid in self._events or task.uid in self._places:
                self._met.add(task.uid)
                after = self._after_event(self._after_result(task), lambda _task: None)
            if after is not None:
                tasks.append(after)
        return evolve(job, tasks=tasks)

    def _tasks(
        self, tasks: tuple[TaskInfo, ...], replacement: Replacement
    ) -> list[TaskInfo] | None:
        """Return the new tasks, or None if none of them changed."""
        # This loop visits every task of the cluster, and must do little for most of them.
        events, places = self._events, self._places
        nodes_changed = self.node_names is not None
        changed: list[TaskInfo | None] | None = None
        for position, task in enumerate(tasks):
            uid = task.uid
            if not (nodes_changed or uid in events or uid in places or task.status in _MOVING):
                continue
            after = self._after(task, replacement)
            if after is not task:
                if changed is None:
                    changed = list(tasks)
                changed[position] = after
        return None if changed is None else [task for task in changed if task is not None]

    def _after(self, task: TaskInfo, replacement: Replacement) -> TaskInfo | None:
        self._met.add(task.uid)
        after = self._after_event(self._after_result(task), replacement)
        if (
            after is not None
            and self.node_names is not None
            and after.leaving is not None
            and after.leaving not in self.node_names
        ):
            after = gone_from_old_place(after, self._now)
        if (
            after is not None
            and self.node_names is not None
            and after.node_name is not None
            and after.status not in _WAITING
            and after.node_name not in self.node_names
        ):
            message = (
                f"the task is on {after.node_name!r}, which is no more; "
                "name it in succeeded, failed or gone"
            )
            self.task_faults.append(Fault(f"tasks[{task.uid!r}]", message))
        return after

    def _after_result(self, task: TaskInfo) -> TaskInfo:
        """Return a task after the decisions."""
        place = self._places.get(task.uid)
        if place is not None:
            status, node_name = place
            problem = self._problem(task, status, node_name)
            if problem:
                message = f"{problem}; the result is of another snapshot"
                self.task_faults.append(Fault(f"result.tasks[{task.uid!r}]", message))
                return task
            is_backfill = self._backfilling.get(task.uid, task.is_backfill)
            chosen, now = self._chosen.get(task.uid), self._snapshot.now
            if status is TaskStatus.BINDING:
                # It holds its resources from the time of the decision.
                return starting(
                    task, status, node_name, is_backfill=is_backfill, now=now, chosen=chosen
                )
            if task.uid in self._moves and chosen is not None:
                return moving(task, node_name, chosen)
            return placed(task, status, node_name, is_backfill=is_backfill, chosen=chosen)
        if task.status in _WAITING and not self.keeps_places:
            if task.leaving is not None:  # without its promise it is like one that was evicted
                return staying(task, TaskStatus.RELEASING)
            return placed(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)
        return task

    def _problem(self, task: TaskInfo, status: TaskStatus, node_name: str) -> str:
        """Return why this decision does not fit the task, or an empty string."""
        does, to = _DECIDED[status]
        move = self._moves.get(task.uid)
        if move is not None:
            does, to = _MOVED
            if task.node_name != move.from_node and task.status in to:
                return f"it moves the task from {move.from_node!r}, which is on {task.node_name!r}"
        if task.status not in to:
            return f"it {does} the task, which is {task.status.value}"
        if status is TaskStatus.RELEASING and task.node_name != node_name:
            return f"it evicts the task from {node_name!r}, which is on {task.node_name!r}"
        if node_name not in self._nodes_before:
            where = "to" if status is TaskStatus.BINDING else "on"
            return f"it {does} the task {where} {node_name!r}, which was not there"
        return ""

    def _after_event(self, task: TaskInfo, replacement: Replacement) -> TaskInfo | None:
        """Return a task after its event; None if it is removed."""
        event = self._events.get(task.uid)
        status = task.status
        if event is None:
            if status in TO_START:
                return RULES["started"].after(task, self._now)
            if status is TaskStatus.RELEASING:
                return self._replaced(task, replacement)
            return task if task.leaving is None else gone_from_old_place(task, self._now)
        rule = RULES["removed" if event == "removed_tasks" else event]
        problem = rule.problem(task)
        if problem:
            self.task_faults.append(Fault(f"{event}[{task.uid!r}]", problem))
            return task
        if event == "gone" and task.leaving is None:
            return self._replaced(task, replacement)
        return rule.after(task, self._now)

    def _replaced(self, task: TaskInfo, replacement: Replacement) -> TaskInfo | None:
        path = f"replacement[{task.uid!r}]"
        # The run has ended: its attained service is kept, for the replacement to use.
        task = with_run_added(task, self._now)
        try:
            after = replacement(task)
        except Exception as error:
            self.raised = self.raised or error
            self.task_faults.append(Fault(path, f"it raised {problem_of(error)}"))
            return None
        if after is None:
            return None
        if not is_of(after, TaskInfo):
            message = (
                f"expected a TaskInfo, which comes in the place of the task, got {shown(after)}"
            )
        elif after.node_name is not None:
            message = f"it is on {shown(after.node_name)}; what comes new is on no node, see as_new"
        elif after.status in _ON_A_NODE:
            message = (
                f"it is {after.status.value}; what comes new is Pending, see as_new, or has ended"
            )
        else:
            return after
        self.task_faults.append(Fault(path, message))
        return None
