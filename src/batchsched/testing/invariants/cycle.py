"""One cycle: the state before it, its decisions, and the state after it.

The state after a cycle is computed from the snapshot and the result alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from attrs import frozen

from batchsched.causes import HoldKind
from batchsched.config.options import checked
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ConfigError, Fault, SnapshotError
from batchsched.model.cluster import (
    Hold,
    JobInfo,
    NodeInfo,
    QueueStatus,
    TaskGroup,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.result import CycleResult, Eviction, TakenBack
from batchsched.model.snapshot import Snapshot
from batchsched.testing.invariants.amounts import (
    Amounts,
    add,
    fits,
    is_nothing,
    larger_of,
    of,
    sub,
    total,
    wanting,
)
from batchsched.testing.invariants.policy import ConfiguredPolicy


def least_tasks(job: JobInfo) -> int:
    """Return the least number of tasks with which a job can start."""
    return max(job.min_available, _least(job, None)) if job.groups else job.min_available


def _least(job: JobInfo, name: str | None) -> int:
    within = [group for group in job.groups if group.parent == name]
    if name is not None and not within:
        return _named(job, name).min or 0
    needed = job.min_groups if name is None else _named(job, name).min
    return sum(sorted(_least(job, group.name) for group in within)[:needed])


def _named(job: JobInfo, name: str) -> TaskGroup:
    return next(group for group in job.groups if group.name == name)


@frozen
class GroupCounts:
    """The number of counted tasks in each group of a job."""

    job: JobInfo
    tasks: Mapping[str | None, int]
    """By the group that the task names; None: the tasks of a job without groups."""

    @property
    def total(self) -> int:
        """How many tasks count."""
        return sum(self.tasks.values())

    def can_start(self) -> bool:
        """Return whether the counted tasks are enough for the job to start."""
        return self.has(None) and self.total >= least_tasks(self.job)

    def has(self, name: str | None) -> bool:
        """Return whether a group has what it needs; None: all groups that the job needs."""
        within = [group.name for group in self.job.groups if group.parent == name]
        if name is None:
            # A job whose groups do not exist yet has no tasks that could miss them.
            needed = self.job.min_groups if self.job.groups else None
        else:
            needed = _named(self.job, name).min
            if not within:
                return self.tasks.get(name, 0) >= (needed or 0)
        return sum(map(self.has, within)) >= (len(within) if needed is None else needed)

    def within(self, name: str) -> int:
        """Return how many tasks count in a group and in the groups in it."""
        below = [group.name for group in self.job.groups if group.parent == name]
        return self.tasks.get(name, 0) + sum(map(self.within, below))

    def used(self) -> Iterator[tuple[str | None, int | None, int]]:
        """Yield the job (None) and each group with its maximum and its count.

        The count is of tasks; for a group of groups, of the groups with any counted task.
        """
        yield None, self.job.max_available, self.total
        for group in self.job.groups:
            below = [other.name for other in self.job.groups if other.parent == group.name]
            parts = sum(self.within(name) > 0 for name in below)
            yield group.name, group.max, parts if below else self.within(group.name)

    def lacking(self) -> Iterator[str]:
        """Yield the incomplete groups that are not in a complete group."""
        for group in self.job.groups:
            if not any(self.has(name) for name in self.path(group.name)):
                yield group.name

    def path(self, name: str) -> Iterator[str]:
        """Yield a group and all groups above it."""
        above: str | None = name
        while above is not None:
            yield above
            above = _named(self.job, above).parent


OCCUPYING = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
)
"""Statuses of tasks that hold resources and count towards the readiness of jobs."""
HOLDING = (*OCCUPYING, TaskStatus.RELEASING, TaskStatus.UNKNOWN)
"""Statuses of tasks that hold resources."""
HAVING_PLACES = (
    *OCCUPYING,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
    TaskStatus.RESERVED,
)
"""Statuses of tasks that have a place, or one that is kept for them."""
PLACED = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
)
"""Statuses of tasks that a cycle has placed."""
WAITING = (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)
"""Statuses of tasks that a cycle may place."""
_NOWHERE = (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)


@frozen
class Place:
    """The status and node of a task."""

    status: TaskStatus
    node_name: str | None = None
    is_backfill: bool = False


@frozen
class Accounts:
    """The accounts of a node."""

    idle: Amounts
    releasing: Amounts
    pipelined: Amounts
    backfilled: Amounts
    leaving: Amounts
    conditional: Amounts
    reserved: Amounts

    @property
    def future_idle(self) -> Amounts:
        """What will be idle."""
        return sub(add(self.idle, self.releasing), self.pipelined)

    @property
    def accessible(self) -> Amounts:
        """What is idle or held by backfill tasks, minus what is promised."""
        held = add(self.backfilled, self.leaving)
        return sub(add(self.idle, held), self.conditional)

    @property
    def eventual(self) -> Amounts:
        """What will be idle once backfill tasks have left too."""
        coming = add(self.releasing, self.backfilled)
        return sub(add(self.idle, coming), add(self.pipelined, self.conditional))

    @property
    def derived(self) -> dict[str, Amounts]:
        """The four accounts that must never be negative, by name."""
        return {
            "idle": self.idle,
            "future_idle": self.future_idle,
            "accessible": self.accessible,
            "eventual": self.eventual,
        }

    def lacking(self, request: Amounts) -> list[str]:
        """Return the dimensions in which a request does not fit now."""
        return sorted(
            {name for account in self.derived.values() for name in wanting(request, account)}
        )

    def fits_now(self, request: Amounts) -> bool:
        """Return whether a request fits now."""
        return all(fits(request, account) for account in self.derived.values())


class Cycle:
    """A snapshot, the result of a cycle on it, and the configuration.

    Raises:
        SnapshotError: `snapshot` is not a Snapshot.
        ConfigError: `config` is not a SchedulerConfig, or cannot be used.
        TypeError: `result` or `registry` has the wrong type.

    """

    def __init__(
        self,
        snapshot: Snapshot,
        result: CycleResult,
        config: SchedulerConfig,
        registry: Registry | None = None,
    ) -> None:
        _expect(snapshot, result, config, registry)
        self.snapshot = snapshot
        self.result = result
        self.config = config
        self.registry = registry
        self.policy = ConfiguredPolicy(config, registry or default_registry())

    @cached_property
    def nodes(self) -> dict[str, NodeInfo]:
        """All nodes by name, in node order."""
        return {node.name: node for node in sorted(self.snapshot.nodes, key=lambda n: n.name)}

    @cached_property
    def jobs(self) -> dict[str, JobInfo]:
        """All jobs of the snapshot by UID."""
        return {job.uid: job for job in self.snapshot.jobs}

    @cached_property
    def tasks(self) -> dict[str, TaskInfo]:
        """All tasks of the snapshot by UID."""
        with_job = {task.uid: task for job in self.snapshot.jobs for task in job.tasks}
        return with_job | {task.uid: task for task in self.snapshot.other_tasks}

    @cached_property
    def job_of(self) -> dict[str, JobInfo]:
        """Task UID to job, for tasks that have one."""
        return {task.uid: job for job in self.snapshot.jobs for task in job.tasks}

    @cached_property
    def resreq(self) -> dict[str, Amounts]:
        """Task UID to the resources that the task holds."""
        return {uid: of(task.resreq) for uid, task in self.tasks.items()}

    @cached_property
    def start_request(self) -> dict[str, Amounts]:
        """Task UID to the resources that the task needs to start."""
        return {
            uid: (
                self.resreq[uid]
                if task.init_resreq is None
                else larger_of(self.resreq[uid], of(task.init_resreq))
            )
            for uid, task in self.tasks.items()
        }

    def is_best_effort(self, uid: str) -> bool:
        """Return whether a task needs no resources to start."""
        return is_nothing(self.start_request[uid])

    def before(self, uid: str) -> Place:
        """Return the status and node of a task before the cycle."""
        task = self.tasks[uid]
        return Place(task.status, task.node_name, task.is_backfill)

    @cached_property
    def after(self) -> Mapping[str, Place]:
        """Task UID to the status and node of the task after the cycle.

        Tasks that were not in the session are unchanged; but if they were Reserved or Pipelined,
        they are Pending now, or leave where they still run.
        """
        places: dict[str, Place] = {}
        for uid, task in self.tasks.items():
            outcome = self.result.tasks.get(uid)
            if outcome is not None:
                places[uid] = Place(outcome.status, outcome.node_name, outcome.is_backfill)
            elif task.leaving is not None:
                places[uid] = Place(TaskStatus.RELEASING, task.leaving, task.is_backfill)
            elif task.status in (TaskStatus.RESERVED, TaskStatus.PIPELINED):
                places[uid] = Place(TaskStatus.PENDING, None, task.is_backfill)
            else:
                places[uid] = self.before(uid)
        return places

    @cached_property
    def left(self) -> Mapping[str, str]:
        """Task UID to the node that the task leaves while it is promised another one."""
        found = {
            uid: task.leaving
            for uid, task in self.tasks.items()
            if task.leaving is not None and self.after[uid].status is TaskStatus.PIPELINED
        }
        return found | {move.task_uid: move.from_node for move in self.result.moves}

    @property
    def made_to_leave(self) -> tuple[Eviction | TakenBack, ...]:
        """What makes tasks leave nodes for others: evictions, and binds that are taken back."""
        return (*self.result.evictions, *self.result.taken_back)

    def was_waiting(self, uid: str) -> bool:
        """Return whether a task could be placed in the cycle."""
        return self.tasks[uid].status in WAITING

    def is_new(self, uid: str) -> bool:
        """Return whether the cycle has placed a task: gave it resources, or promised some."""
        after, before = self.after[uid], self.before(uid)
        is_there = after.status is before.status and after.node_name == before.node_name
        return after.status in PLACED and not is_there

    @cached_property
    def new(self) -> list[str]:
        """The UIDs of all tasks that the cycle has placed."""
        return [uid for uid in self.tasks if self.is_new(uid)]

    @cached_property
    def on_node(self) -> Mapping[str, list[str]]:
        """Node name to the UIDs of all tasks on it after the cycle, Reserved ones included."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for uid, place in self.after.items():
            if place.node_name in found and place.status not in _NOWHERE:
                found[place.node_name].append(uid)
        return found

    @cached_property
    def accounts(self) -> Mapping[str, Accounts]:
        """Node name to the node's accounts after the cycle."""
        left: dict[str, list[str]] = {}
        for uid, name in self.left.items():
            left.setdefault(name, []).append(uid)
        return {
            name: self._accounts(name, self.on_node[name], self.after, left.get(name, ()))
            for name in self.nodes
        }

    @cached_property
    def accounts_before(self) -> Mapping[str, Accounts]:
        """Node name to the node's accounts before the cycle, without any promises."""
        on_node: dict[str, list[str]] = {name: [] for name in self.nodes}
        left: dict[str, list[str]] = {name: [] for name in self.nodes}
        for uid, task in self.tasks.items():
            if task.leaving is not None:
                left[task.leaving].append(uid)
            elif task.status.holds and task.node_name in on_node:
                on_node[task.node_name].append(uid)
        places = {uid: self.before(uid) for uid in self.tasks}
        return {
            name: self._accounts(name, on_node[name], places, left[name]) for name in self.nodes
        }

    def _accounts(
        self,
        name: str,
        on_node: Iterable[str],
        places: Mapping[str, Place],
        left: Iterable[str],
    ) -> Accounts:
        """Return the accounts of a node, given what is on it, and what leaves it by a move."""
        leaving = [*left]

        def held(uids: Iterable[str]) -> Amounts:
            return total(self.resreq[uid] for uid in uids)

        def having(*statuses: TaskStatus) -> list[str]:
            return [uid for uid in on_node if places[uid].status in statuses]

        def marked(uids: Iterable[str]) -> Iterator[str]:
            return (uid for uid in uids if places[uid].is_backfill)

        return Accounts(
            idle=sub(of(self.nodes[name].allocatable), held([*having(*HOLDING), *leaving])),
            releasing=held([*having(TaskStatus.RELEASING), *leaving]),
            pipelined=held(having(TaskStatus.PIPELINED)),
            backfilled=held(marked(having(*OCCUPYING))),
            leaving=held(marked(having(TaskStatus.RELEASING))),
            conditional=held(having(TaskStatus.CONDITIONAL)),
            reserved=total(self.start_request[uid] for uid in having(TaskStatus.RESERVED)),
        )

    # Jobs

    def is_in_session(self, job: JobInfo) -> bool:
        """Return whether the session scheduled a job."""
        return job.uid in self.result.jobs

    def count(self, job: JobInfo, *statuses: TaskStatus) -> int:
        """Return how many tasks of a job have one of these statuses after the cycle."""
        return sum(self.after[task.uid].status in statuses for task in job.tasks)

    def ready(self, job: JobInfo) -> int:
        """Return the number of ready tasks of a job after the cycle."""
        return self.count(job, *OCCUPYING, TaskStatus.SUCCEEDED)

    def groups(self, job: JobInfo, *statuses: TaskStatus, before: bool = False) -> GroupCounts:
        """Return by group how many tasks of a job have one of these statuses after the cycle.

        Args:
            job: the job.
            statuses: the statuses of the tasks that count.
            before: whether to count before the cycle instead.

        """
        return self.groups_of(
            job,
            (
                task
                for task in job.tasks
                if (self.before(task.uid) if before else self.after[task.uid]).status in statuses
            ),
        )

    @staticmethod
    def groups_of(job: JobInfo, tasks: Iterable[TaskInfo]) -> GroupCounts:
        """Return by group how many of some tasks of a job there are."""
        return GroupCounts(job, Counter(task.group for task in tasks))

    # Holds

    def holds_on(self, job: JobInfo, task: TaskInfo) -> tuple[Hold, ...]:
        """Return what holds a task that waits: its holds, its job's, and that of its queue."""
        if self.before(task.uid).status not in WAITING:
            return ()
        return (*task.holds, *job.holds, *self._queue_holds(job.queue))

    def _queue_holds(self, name: str) -> tuple[Hold, ...]:
        queues = {queue.name: queue for queue in self.snapshot.queues}
        if any(queue.parent == name for queue in queues.values()):
            return ()  # jobs that name it are left out for that
        queue = queues.get(name)
        while queue is not None:
            if queue.state is not QueueStatus.OPEN:
                detail = f"queue {queue.name!r} is {queue.state.value}"
                return (Hold(HoldKind.QUEUE_CLOSED, queue.name, detail),)
            queue = None if queue.parent is None else queues[queue.parent]
        return ()

    def ready_groups(self, job: JobInfo, *, before: bool = False) -> GroupCounts:
        """Return by group how many tasks of a job are ready after the cycle, or before it."""
        return self.groups(job, *OCCUPYING, TaskStatus.SUCCEEDED, before=before)

    def is_gang_ready(self, job: JobInfo) -> bool:
        """Return whether plugin gang considers a job ready after the cycle."""
        return self.ready_groups(job).can_start()

    # Queues

    def charged_before(self, queue: str) -> Amounts:
        """Return what plugin proportion counts as allocated to a queue before the cycle."""
        return total(
            self.resreq[task.uid]
            for job in self.snapshot.jobs
            if job.queue == queue
            for task in job.tasks
            if task.status in OCCUPYING and not task.is_backfill
        )

    @cached_property
    def cluster(self) -> Amounts:
        """The sum of the resources of all nodes."""
        everything = total(of(node.allocatable) for node in self.snapshot.nodes)
        return {"cpu": 0, "memory": 0} | everything


def _expect(snapshot: object, result: object, config: object, registry: object) -> None:
    """Raise an error if an argument has the wrong type or cannot be used."""
    if not isinstance(snapshot, Snapshot):
        message = f"expected a Snapshot, got {snapshot!r}; give the one that was scheduled"
        raise SnapshotError([Fault("snapshot", message)])
    if not isinstance(result, CycleResult):
        raise TypeError(f"expected a CycleResult, got {result!r}; give what schedule() returned")
    if not isinstance(config, SchedulerConfig):
        message = f"expected a SchedulerConfig, got {config!r}; use SchedulerConfig.from_mapping"
        raise ConfigError([Fault("config", message)])
    if registry is not None and not isinstance(registry, Registry):
        raise TypeError(
            f"expected a Registry, got {registry!r}; give the one that the scheduler was given"
        )
    known = default_registry() if registry is None else registry
    # Names that the registry does not have belong to custom plugins and actions.
    faults = checked(config.actions, config.tiers, known, names_too=False).faults
    if faults:
        raise ConfigError(faults)
