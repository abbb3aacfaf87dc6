"""The plugin capacity: shares in a tree of queues, limits, cover, and who may preempt whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import partial

from attrs import frozen

from batchsched import JobInfo, Queue, QueueStatus, Resource, TaskInfo, TaskStatus
from tests.reference.conf import Arguments
from tests.reference.groups import HOPED, READY, Groups, Statuses, has_groups
from tests.reference.holdings import Amounts, Holdings, size_of, total_of_dimension
from tests.reference.plugins import (
    Plugin,
    Verdict,
    can_start,
    is_broken,
    ready_count,
    waiting_count,
)
from tests.reference.queue_shares import DemandedTree
from tests.reference.state import State
from tests.reference.units import CORE, REPLICA, SURPLUS, Unit, units_of
from tests.reference.usage import Usage

__all__ = ["Capacity", "Covers", "Right", "lacking", "needed"]

WANTED = (TaskStatus.PENDING, TaskStatus.RESERVED)

Quotient = tuple[int, Fraction]
"""A part of a share: (0, quotient), or (1, part of the total) if the share is 0."""
TasksInOrder = Callable[[Iterable[TaskInfo]], list[TaskInfo]]


def needed(
    state: State, job: JobInfo, tasks: Sequence[TaskInfo], statuses: Statuses = HOPED
) -> list[TaskInfo]:
    """Return the tasks that a job needs next, of those that it has to place."""
    if has_groups(job):
        return Groups(state, job).needed(tasks, statuses)
    return list(tasks[: max(1, lacking(state, job))])


def lacking(state: State, job: JobInfo) -> int:
    """Return how many tasks a job without groups lacks to its minimum."""
    return job.min_available - ready_count(state, job) - waiting_count(state, job)


class Right(Enum):
    """By which of the three shares something is judged."""

    FAIR = "what is a queue's after dividing what there is (F)"
    NOMINAL = "what it deserves or is guaranteed (N)"
    MET = "what it deserves or is guaranteed, and gets (M)"


@frozen
class Covers:
    """The units of a leaf that each share covers, by UID."""

    fair: frozenset[str]
    nominal: frozenset[str]
    met: frozenset[str]

    def by(self, right: Right) -> frozenset[str]:
        """Return what one share covers."""
        return {Right.FAIR: self.fair, Right.NOMINAL: self.nominal, Right.MET: self.met}[right]

    def rank(self, unit: Unit) -> int:
        """Return 0 for what the fair share covers, 1 for what is deserved, 2 for the rest."""
        if unit.uid in self.fair:
            return 0
        return 1 if unit.uid in self.nominal else 2


class Capacity(Plugin):
    """Fair shares of queues; others may borrow what a queue does not use."""

    def __init__(
        self,
        state: State,
        arguments: Arguments,
        tasks_in_order: TasksInOrder,
        is_kept: Callable[[TaskInfo], bool],
    ) -> None:
        self._state = state
        self._tasks_in_order = tasks_in_order
        self._is_kept = is_kept
        self._tolerance = Fraction(str(arguments.values.get("tolerance", 0)))
        self.levels = arguments.boolean("level")
        self.is_graded = arguments.word("order", ("queue", "graded")) == "graded"
        self._queues = {queue.name: queue for queue in state.snapshot.queues}
        self._inner = {queue.parent for queue in state.snapshot.queues}
        self.dimensions = _dimensions(state)
        self.usage: Usage | None = None
        """The plugin usage, if there is one."""
        self._in_session: set[str] = set()
        self._total: Amounts = {}
        self.share: dict[str, dict[str, int]] = {}
        """Fair shares by dimension and queue."""
        self.nominal: dict[str, dict[str, int]] = {}
        """What queues deserve or are guaranteed, by dimension and queue."""

    def jobs_admitted(self, jobs: Sequence[JobInfo]) -> None:
        """Compute the fair shares from the state at the opening of the session."""
        self._in_session = {job.uid for job in jobs}
        wanted: dict[str, list[TaskInfo]] = {}
        for job in jobs:
            waiting = [t for t in job.tasks if self._state.status(t) in WANTED]
            if has_groups(job):
                reserved = [t for t in waiting if t.status is TaskStatus.RESERVED]
                reserved = [t for t in reserved if self._state.status(t) is t.status]
                pending = [
                    t for t in waiting if t not in reserved and not self._state.is_backfill(t)
                ]
                in_order = self._tasks_in_order(pending)
                waiting = reserved + Groups(self._state, job).within_maxima(in_order)
            wanted.setdefault(job.queue, []).extend(waiting)
        holdings = self.holdings()
        more = {name: self.size(wanted.get(name, ())) for name in self.leaves()}
        for d in self.dimensions:
            held = {name: holdings.allocated(name, d) for name in self.leaves()}
            tree = DemandedTree(
                self._state.snapshot.queues,
                d,
                requests={name: held[name] + more[name][d] for name in held},
                allocated=held,
                is_whole=d not in ("cpu", "memory"),
                weights=partial(self._weights, d),
            )
            total = total_of_dimension(self._state, self.leaves(), d)
            self._total[d] = total
            self.share[d] = tree.fair_shares(total)
            self.nominal[d] = {name: tree.nominal_share(name, total) for name in self._queues}

    def _weights(self, dimension: str, siblings: Sequence[Queue]) -> Sequence[int]:
        """Return the weights by which siblings share what none of them deserves."""
        if self.usage is None:
            return [queue.weight for queue in siblings]
        return self.usage.weights(siblings, dimension)

    # What queues are, and hold.

    def leaves(self) -> list[str]:
        """Return the names of the leaves."""
        return [name for name in self._queues if name not in self._inner]

    def queue(self, name: str) -> Queue:
        """Return a queue by name."""
        return self._queues[name]

    def children(self, name: str | None) -> list[str]:
        """Return the children of a queue; None: the top-level queues."""
        return [queue.name for queue in self._queues.values() if queue.parent == name]

    def path(self, name: str) -> list[str]:
        """Return a queue and all above it, itself first."""
        parent = self._queues[name].parent
        return [name, *([] if parent is None else self.path(parent))]

    def size(self, tasks: Iterable[TaskInfo]) -> Amounts:
        """Return what tasks hold, as charged to queues."""
        return size_of(self._state, self.dimensions, tasks)

    def holdings(
        self, leaving: Iterable[TaskInfo] = (), joining: Iterable[TaskInfo] = ()
    ) -> Holdings:
        """Return what queues hold now, without some tasks and with some others."""
        return Holdings(self._state, self.dimensions, leaving, joining)

    def shares_by(self, right: Right, dimension: str, name: str) -> int:
        """Return what a queue may have by a right."""
        fair, nominal = self.share[dimension][name], self.nominal[dimension][name]
        if right is Right.MET:
            return min(fair, nominal)
        return fair if right is Right.FAIR else nominal

    def quotient(self, amount: int, name: str, dimension: str) -> Quotient:
        """Return an amount as a part of a queue's fair share, for comparisons."""
        share = self.share[dimension][name]
        if share:
            return 0, Fraction(amount, share)
        return (1, Fraction(amount, max(self._total[dimension], 1))) if amount else (0, Fraction(0))

    # Order.

    def grade(self, need: Sequence[TaskInfo]) -> int:
        """Return 0 if all queues above a job stay within their shares with its need, else 1.

        -1 if it needs nothing.
        """
        if not need:
            return -1
        size, holdings = self.size(need), self.holdings()
        leaf = self._state.job_of[need[0].uid].queue
        return int(
            any(
                holdings.allocated(name, d) + size[d] > self.share[d][name]
                for d in self.dimensions
                if size[d]
                for name in self.path(leaf)
            )
        )

    def rank(self, queue: Queue, need: Sequence[TaskInfo]) -> tuple[int, int, int, float, Quotient]:
        """Rank a queue among its siblings, by what the next job below it needs."""
        size, holdings = self.size(need), self.holdings()
        held = {d: holdings.allocated(queue.name, d) for d in self.dimensions if size[d]}
        is_within = all(held[d] + size[d] <= self.share[d][queue.name] for d in held)
        parts = [
            self.quotient(held[d] + (0 if is_within else size[d]), queue.name, d) for d in held
        ]
        grade = max(0, self.grade(need)) if self.is_graded else 0
        use = 0.0 if self.usage is None or not need else self.usage.key(queue, need)
        full = max(parts, default=(0, Fraction(0)))
        return grade, int(not is_within), -queue.priority, use, full

    # Limits.

    def allows(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo] = ()
    ) -> bool:
        """Return whether a queue may take tasks, without some others."""
        if any(self._queues[name].state is not QueueStatus.OPEN for name in self.path(queue.name)):
            return False
        return not self.limited(queue, tasks, leaving)

    def limited(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo] = ()
    ) -> list[tuple[str, str | None]]:
        """Return what keeps tasks out of a queue, without some others.

        Pairs of a dimension and the queue whose limit would be exceeded; None: the room for all.
        """
        size = self.size(tasks)
        never = self._exceeded(queue, size)
        now, then = self.holdings(), self.holdings(leaving, tasks)
        found: list[tuple[str, str | None]] = []
        for d in self.dimensions:
            if not size[d]:
                continue
            for name in self.path(queue.name):
                limit, hold = self._limit(name, d), then.hold(name, d)
                grows = hold > now.hold(name, d)
                if limit is not None and ((hold > limit and grows) or (d, name) in never):
                    found.append((d, name))
            if then.excess(d) > 0 and then.excess(d) > now.excess(d):
                found.append((d, None))
        return found

    def _exceeded(self, queue: Queue, size: Amounts) -> list[tuple[str, str]]:
        """Return the dimensions and the queues whose limits an amount alone exceeds."""
        return [
            (d, name)
            for d in self.dimensions
            for name in self.path(queue.name)
            for limit in [self._limit(name, d)]
            if limit is not None and size[d] > limit
        ]

    def never_allows(self, queue: Queue, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether tasks alone exceed a limit, or the room for all."""
        size, holdings = self.size(tasks), self.holdings()
        return bool(self._exceeded(queue, size)) or any(
            size[d] > holdings.room(d) for d in self.dimensions if size[d]
        )

    def _limit(self, name: str, dimension: str) -> int | None:
        limit = self._queues[name].limit
        amount = None if limit is None else limit.get(dimension)
        return None if amount is None else int(amount)

    def lacks_room_alone(self, queue: Queue, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether only what others hold now keeps tasks out of a queue."""
        if any(self._queues[name].state is not QueueStatus.OPEN for name in self.path(queue.name)):
            return False
        then = self.holdings((), tasks)
        return all(
            name is None and then.top(d) > then.room(d) for d, name in self.limited(queue, tasks)
        )

    # Cover.

    def units(self, job: JobInfo) -> list[Unit]:
        """Return the units of a job."""
        return units_of(self._state, job, self._tasks_in_order)

    def is_backfill(self, unit: Unit) -> bool:
        """Return whether a unit has backfill tasks."""
        return any(self._state.is_backfill(task) for task in unit.tasks)

    def is_fixed(self, unit: Unit) -> bool:
        """Return whether nobody may evict a unit."""
        return unit.job.uid not in self._in_session or any(map(self._is_kept, unit.victims))

    def in_value_order(self, units: Iterable[Unit]) -> list[Unit]:
        """Sort units, the most valuable first.

        What nobody may evict; cores of broken jobs; cores; replicas; surplus: each by its most
        valuable task.
        """
        listed = list(units)
        order = self._tasks_in_order({unit.uid: unit.tasks[0] for unit in listed}.values())
        place = {task.uid: position for position, task in enumerate(order)}
        return sorted(
            listed,
            key=lambda unit: (
                not self.is_fixed(unit),
                not unit.is_broken,
                unit.kind,
                place[unit.uid],
            ),
        )

    def units_of_leaf(self, name: str) -> list[Unit]:
        """Return all units of a leaf, the most valuable first."""
        jobs = [job for job in self._state.snapshot.jobs if job.queue == name]
        return self.in_value_order(unit for job in jobs for unit in self.units(job))

    def covers(self, name: str, units: Sequence[Unit] | None = None) -> Covers:
        """Return which units each share of a leaf covers; `units` are all that it has."""
        if units is None:
            units = self.units_of_leaf(name)

        def walk(right: Right, among: Sequence[Unit], factor: Fraction) -> frozenset[str]:
            shares = {d: self.shares_by(right, d, name) * factor for d in self.dimensions}
            return frozenset(self._walk(among, shares))

        more = 1 + self._tolerance
        fair = walk(Right.FAIR, units, more)
        return Covers(
            fair,
            walk(Right.NOMINAL, units, Fraction(1)),
            walk(Right.MET, [unit for unit in units if unit.uid in fair], more),
        )

    def covers_before(self, job: JobInfo) -> Covers:
        """Return what shares cover while a job's Allocated tasks are not placed."""
        saved = self._state.save()
        for task in job.tasks:
            if self._state.status(task) is TaskStatus.ALLOCATED:
                self._state.take_off(task)
        found = self.covers(job.queue)
        self._state.restore(saved)
        return found

    def _walk(self, units: Sequence[Unit], shares: Mapping[str, Fraction]) -> list[str]:
        used = dict.fromkeys(self.dimensions, 0)
        found: list[str] = []
        exposed: set[str] = set()
        for unit in units:
            if self.is_backfill(unit) or (not unit.is_core and unit.job.uid in exposed):
                continue
            size = self.size(unit.tasks)
            if all(not size[d] or used[d] + size[d] <= shares[d] for d in self.dimensions):
                found.append(unit.uid)
                for dimension in self.dimensions:
                    used[dimension] += size[dimension]
            elif unit.is_core:
                exposed.add(unit.job.uid)
        return found

    def covered(self, name: str) -> list[Unit]:
        """Return the units that a leaf's fair share covers, the most valuable first."""
        covers = self.covers(name)
        return [unit for unit in self.units_of_leaf(name) if unit.uid in covers.fair]

    def may_go(self, unit: Unit, may_leave: Callable[[TaskInfo], bool]) -> bool:
        """Return whether a unit is there to be evicted, whatever plugins say."""
        return unit.job.uid in self._in_session and all(map(may_leave, unit.victims))

    # Preemption in a queue.

    def preemptable(self, task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Protect what the shares of the queue cover from what they would cover less."""
        need = _Preemption(self, task)
        surplus: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = self._state.job_of[candidate.uid]
            units = self.units(job)
            if has_groups(job):
                [unit] = [unit for unit in units if candidate in unit.tasks]
            else:
                beyond = [unit for unit in units if unit.is_surplus]
                count = surplus.setdefault(job.uid, len(beyond))
                surplus[job.uid] = count - 1
                unit = self.in_value_order(beyond)[count - 1] if count > 0 else units[0]
            verdicts.append(Verdict.NO_SAY if need.may_take(unit) else Verdict.PROTECTED)
        return verdicts

    def may_preempt_all(self, task: TaskInfo, victims: Sequence[TaskInfo]) -> bool:
        """Return whether a task may preempt every unit to which some tasks of one job belong."""
        need = _Preemption(self, task)
        return all(
            need.may_take(unit)
            for unit in self.units(self._state.job_of[victims[0].uid])
            if any(victim in unit.tasks for victim in victims)
        )

    def need_of(self, task: TaskInfo) -> Unit:
        """Return the unit that a task would belong to, once all that its job needs is placed."""
        job = self._state.job_of[task.uid]
        pending = self._tasks_in_order(
            other
            for other in job.tasks
            if self._state.status(other) is TaskStatus.PENDING and not other.is_best_effort
        )
        pending = [task, *(other for other in pending if other is not task)]
        kind, tasks = SURPLUS, [task]
        if not can_start(self._state, job, READY):
            has = [other for other in job.tasks if self._is_or_will_be_there(other)]
            kind, tasks = CORE, [*has, task, *needed(self._state, job, pending)]
        elif has_groups(job):
            replica = Groups(self._state, job).replica_entered(task, pending)
            if replica:
                kind, tasks = REPLICA, replica
        own = tuple(self._tasks_in_order({one.uid: one for one in tasks}.values()))
        return Unit(job, kind, own, own, kind == CORE and is_broken(self._state, job))

    def _is_or_will_be_there(self, task: TaskInfo) -> bool:
        status = self._state.status(task)
        return status.occupies or status is TaskStatus.PIPELINED


class _Preemption:
    """What a need may take of its queue."""

    def __init__(self, plugin: Capacity, task: TaskInfo) -> None:
        self._plugin = plugin
        self._need = plugin.need_of(task)
        leaf = self._need.job.queue
        uids = {one.uid for one in self._need.tasks}
        others = [
            unit
            for unit in plugin.units_of_leaf(leaf)
            if not uids.intersection(one.uid for one in unit.tasks)
        ]
        placed = plugin.in_value_order([*others, self._need])
        self._covers_then = plugin.covers(leaf, placed)
        # What a job has placed and is not bound is worth nothing yet: it covers up nobody else.
        self._covers = plugin.covers_before(self._need.job)

    def may_take(self, unit: Unit) -> bool:
        """Return whether the need may take a unit of the same leaf."""
        need = self._need
        if unit.uid in self._covers.met and need.uid not in self._covers_then.met:
            return False
        mine, its = self._covers_then.rank(need), self._covers.rank(unit)
        comes_first = self._plugin.in_value_order([unit, need])[0] is need
        return mine < its or (mine == its and (mine == 2 or comes_first))


def _dimensions(state: State) -> list[str]:
    names: dict[str, None] = {"cpu": None, "memory": None}
    resources: list[Resource] = [node.allocatable for node in state.snapshot.nodes]
    resources += [task.resreq for task in state.tasks.values()]
    for resource in resources:
        names.update(dict.fromkeys(sorted(resource.scalars)))
    return ["cpu", "memory", *sorted(set(names) - {"cpu", "memory"})]
