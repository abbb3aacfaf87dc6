"""The plugin capacity: shares in a tree of queues, limits, and claims between queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from attrs import frozen

from batchsched import JobInfo, NodeInfo, Queue, QueueStatus, Resource, TaskInfo, TaskStatus
from tests.reference.conf import Arguments
from tests.reference.groups import HOPED, Groups, Statuses, has_groups
from tests.reference.plugins import Plugin, ready_count, waiting_count
from tests.reference.queue_shares import DemandedTree
from tests.reference.state import State

__all__ = ["Capacity", "Unit", "needed"]

CHARGED = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
)
WANTED = (TaskStatus.PENDING, TaskStatus.RESERVED)

Amounts = dict[str, int]
"""Amounts by dimension."""


def needed(
    state: State, job: JobInfo, tasks: Sequence[TaskInfo], statuses: Statuses = HOPED
) -> list[TaskInfo]:
    """Return the tasks that a job needs next, of those that it has to place."""
    if has_groups(job):
        return Groups(state, job).needed(tasks, statuses)
    lacks = job.min_available - ready_count(state, job) - waiting_count(state, job)
    return list(tasks[: max(1, lacks)])


@frozen
class Unit:
    """Tasks of a job that are evicted together or not at all."""

    job: JobInfo
    kind: int
    """0: the minimum of the job (its core); 1: an optional replica; 2: a single surplus task."""
    tasks: tuple[TaskInfo, ...]
    """Its own tasks, in task order."""
    victims: tuple[TaskInfo, ...]
    """The tasks evicted with it: with a core the whole job, with a replica's core the replica."""

    @property
    def is_core(self) -> bool:
        """Whether it is the minimum of the job."""
        return self.kind == 0

    @property
    def is_surplus(self) -> bool:
        """Whether it is a single surplus task."""
        return self.kind == 2


class Capacity(Plugin):
    """Fair shares of queues; others may borrow what a queue does not use."""

    def __init__(
        self,
        state: State,
        arguments: Arguments,
        tasks_in_order: Callable[[Iterable[TaskInfo]], list[TaskInfo]],
    ) -> None:
        self._state = state
        self._tasks_in_order = tasks_in_order
        self._tolerance = Fraction(str(arguments.values.get("tolerance", 0)))
        self._levels = arguments.boolean("level")
        self.is_graded = arguments.word("order", ("queue", "graded")) == "graded"
        self._queues = {queue.name: queue for queue in state.snapshot.queues}
        self._inner = {queue.parent for queue in state.snapshot.queues}
        self.dimensions = _dimensions(state)
        self._jobs_in_session: list[JobInfo] = []
        self.share: dict[str, dict[str, int]] = {}
        """Fair shares by dimension and queue."""

    def jobs_admitted(self, jobs: Sequence[JobInfo]) -> None:
        """Compute the fair shares from the state at the opening of the session."""
        self._jobs_in_session = list(jobs)
        wanted: dict[str, Amounts] = {}
        for job in jobs:
            waiting = [t for t in job.tasks if self._state.status(t) in WANTED]
            if has_groups(job):
                reserved = [t for t in waiting if t.status is TaskStatus.RESERVED]
                reserved = [t for t in reserved if self._state.status(t) is t.status]
                pending = [t for t in waiting if t not in reserved and not self._is_backfill(t)]
                in_order = self._tasks_in_order(pending)
                waiting = reserved + Groups(self._state, job).within_maxima(in_order)
            self._add(wanted.setdefault(job.queue, {}), waiting)
        for dimension in self.dimensions:
            held = {name: self._held_by_leaf(name, dimension) for name in self._leaves()}
            requests = {
                name: amount + wanted.get(name, {}).get(dimension, 0)
                for name, amount in held.items()
            }
            tree = DemandedTree(
                self._state.snapshot.queues, dimension, requests=requests, allocated=held
            )
            self.share[dimension] = tree.fair_shares(self._total(dimension))

    def _is_backfill(self, task: TaskInfo) -> bool:
        return self._state.is_backfill(task)

    def _leaves(self) -> list[str]:
        return [name for name in self._queues if name not in self._inner]

    def _add(self, amounts: Amounts, tasks: Iterable[TaskInfo]) -> None:
        for task in tasks:
            if not self._state.is_backfill(task):
                for dimension in self.dimensions:
                    amount = int(task.resreq.get(dimension))
                    amounts[dimension] = amounts.get(dimension, 0) + amount

    def size(self, tasks: Iterable[TaskInfo]) -> Amounts:
        """Return what tasks hold, as charged to queues."""
        amounts = dict.fromkeys(self.dimensions, 0)
        self._add(amounts, tasks)
        return amounts

    def _held_by_leaf(self, name: str, dimension: str) -> int:
        return sum(
            int(task.resreq.get(dimension))
            for job in self._state.snapshot.jobs
            if job.queue == name
            for task in job.tasks
            if self._state.status(task) in CHARGED and not self._state.is_backfill(task)
        )

    def _tree(self, dimension: str, leaving: Iterable[TaskInfo] = ()) -> DemandedTree:
        """Return the queues with what they hold now, without some tasks."""
        held = {name: self._held_by_leaf(name, dimension) for name in self._leaves()}
        for task in leaving:
            if not self._state.is_backfill(task):
                held[self._state.job_of[task.uid].queue] -= int(task.resreq.get(dimension))
        return DemandedTree(self._state.snapshot.queues, dimension, requests={}, allocated=held)

    def _total(self, dimension: str) -> int:
        total = 0
        for node in self._state.snapshot.nodes:
            mine, others = 0, 0
            for task in self._state.tasks_on(node):
                if self._state.status(task).holds:
                    job = self._state.job_of.get(task.uid)
                    if job is not None and job.queue in self._leaves():
                        mine += int(task.resreq.get(dimension))
                    else:
                        others += int(task.resreq.get(dimension))
            if _takes_no_tasks(node):
                total += mine
            else:
                total += max(0, int(node.allocatable.get(dimension)) - others)
        return total

    # Order.

    def grade(self, need: Sequence[TaskInfo]) -> int:
        """Return 0 if all queues above a job stay within their shares with its need, else 1.

        -1 if it needs nothing.
        """
        if not need:
            return -1
        size = self.size(need)
        leaf = self._state.job_of[need[0].uid].queue
        return int(
            any(
                self._tree(d).allocated(name) + size[d] > self.share[d][name]
                for d in self.dimensions
                if size[d]
                for name in self._tree(d).path(leaf)
            )
        )

    def rank(self, queue: Queue, need: Sequence[TaskInfo]) -> tuple[int, int, int, float]:
        """Rank a queue among its siblings, by what the next job below it needs."""
        size = self.size(need)
        asked = [dimension for dimension in self.dimensions if size[dimension]]
        parts: list[float] = [0.0]
        is_within = True
        for dimension in asked:
            held = self._tree(dimension).allocated(queue.name)
            share = self.share[dimension][queue.name]
            is_within = is_within and held + size[dimension] <= share
            parts.append(_part(held, share))
        grade = max(0, self.grade(need)) if self.is_graded else 0
        return grade, int(not is_within), -queue.priority, max(parts)

    # Limits.

    def allows(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo] = ()
    ) -> bool:
        """Return whether a queue may take tasks, without some others."""
        above = self._tree(self.dimensions[0]).path(queue.name)
        if any(self._queues[name].state is not QueueStatus.OPEN for name in above):
            return False
        return not self.limited(queue, tasks, leaving)

    def lacks_room_alone(self, queue: Queue, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether only what others hold now keeps tasks out of a queue."""
        path = self._tree(self.dimensions[0]).path(queue.name)
        if any(self._queues[name].state is not QueueStatus.OPEN for name in path):
            return False
        size = self.size(tasks)
        for dimension in self.limited(queue, tasks, ()):
            tree = self._tree(dimension)
            held = {
                name: tree.allocated(name) + size[dimension] * (name == queue.name)
                for name in self._leaves()
            }
            then = DemandedTree(self._state.snapshot.queues, dimension, requests={}, allocated=held)
            for name in path:
                limit, now = then.limit(name), then.hold(name)
                if limit is not None and now > limit and now > tree.hold(name):
                    return False
            if sum(held.values()) <= self._total(dimension):
                return False
        return True

    def limited(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo]
    ) -> list[str]:
        """Return the dimensions in which limits keep tasks out, without some others."""
        size = self.size(tasks)
        found: list[str] = []
        for dimension in self.dimensions:
            if not size[dimension]:
                continue
            before, after = self._tree(dimension), self._tree(dimension, leaving)
            held = {
                name: after.allocated(name) + size[dimension] * (name == queue.name)
                for name in self._leaves()
            }
            then = DemandedTree(self._state.snapshot.queues, dimension, requests={}, allocated=held)
            for name in then.path(queue.name):
                limit, now = then.limit(name), then.hold(name)
                if limit is not None and now > limit and now > before.hold(name):
                    found.append(dimension)
            top = sum(then.hold(name) for name in then.children(None))
            if top > self._total(dimension) and top > sum(
                before.hold(name) for name in before.children(None)
            ):
                found.append(dimension)
        return sorted(set(found), key=self.dimensions.index)

    # Cover.

    def units(self, job: JobInfo) -> list[Unit]:
        """Return the units of a job."""
        if has_groups(job):
            return [
                Unit(job, kind, tuple(tasks), tuple(victims))
                for kind, tasks, victims in Groups(self._state, job).units(self._tasks_in_order)
            ]
        there = self._tasks_in_order(t for t in job.tasks if self._state.status(t).occupies)
        succeeded = sum(self._state.status(task) is TaskStatus.SUCCEEDED for task in job.tasks)
        needed_ = max(0, job.min_available - succeeded)
        core, surplus = there[:needed_], there[needed_:]
        units = [Unit(job, 2, (task,), (task,)) for task in surplus]
        if core:
            units.insert(0, Unit(job, 0, tuple(core), tuple(there)))
        return units

    def in_value_order(self, units: Iterable[Unit]) -> list[Unit]:
        """Sort units, the most valuable first: cores first, then by their most valuable task."""
        listed = list(units)
        order = self._tasks_in_order(unit.tasks[0] for unit in listed)
        place = {task.uid: position for position, task in enumerate(order)}
        return sorted(listed, key=lambda unit: (unit.kind, place[unit.tasks[0].uid]))

    def units_of_leaf(self, name: str) -> list[Unit]:
        """Return all units of a leaf, the most valuable first."""
        jobs = [job for job in self._state.snapshot.jobs if job.queue == name]
        return self.in_value_order(unit for job in jobs for unit in self.units(job))

    def covered(self, name: str) -> list[Unit]:
        """Return the units that a leaf's share covers, the most valuable first."""
        used: dict[str, Fraction] = dict.fromkeys(self.dimensions, Fraction(0))
        found: list[Unit] = []
        exposed: list[JobInfo] = []
        for unit in self.units_of_leaf(name):
            size = self.size(unit.tasks)
            if self.is_backfill(unit) or (not unit.is_core and unit.job in exposed):
                continue
            if all(
                not size[d] or used[d] + size[d] <= self.share[d][name] * (1 + self._tolerance)
                for d in self.dimensions
            ):
                found.append(unit)
                for dimension in self.dimensions:
                    used[dimension] += size[dimension]
            elif unit.is_core:
                exposed.append(unit.job)
        return found

    def is_backfill(self, unit: Unit) -> bool:
        """Return whether a unit has backfill tasks."""
        return any(self._state.is_backfill(task) for task in unit.tasks)

    def on_loan(self, name: str) -> list[Unit]:
        """Return the borrowing units that may be reclaimed, the least valuable first."""
        covered = self.covered(name)
        return [
            unit
            for unit in reversed(self.units_of_leaf(name))
            if unit not in covered
            and unit.job in self._jobs_in_session
            and all(self._state.status(t) is TaskStatus.RUNNING for t in unit.victims)
        ]

    # Claims.

    def claim(self, job: JobInfo, need: Sequence[TaskInfo]) -> Claim | None:
        """Return what a job may reclaim for its need; None: nothing."""
        exposed = [unit for unit in self.units(job) if unit.is_core]
        if exposed and exposed[0] not in self.covered(job.queue):
            return None
        size = self.size(need)
        reach: list[str] = []
        for name in self._tree(self.dimensions[0]).path(job.queue):
            if not all(
                not size[d] or self._tree(d).allocated(name) + size[d] <= self.share[d][name]
                for d in self.dimensions
            ):
                break
            reach.append(name)
        if reach:
            return Claim(self, job.queue, reach, None)
        if self._levels:
            level = max(
                _part(self._tree(d).allocated(job.queue) + size[d], self.share[d][job.queue])
                for d in self.dimensions
            )
            return Claim(self, job.queue, reach, level)
        return None

    def after(self, taken: Iterable[Unit]) -> dict[str, DemandedTree]:
        """Return the queues, by dimension, without some units."""
        gone = list({task.uid: task for unit in taken for task in unit.victims}.values())
        return {dimension: self._tree(dimension, gone) for dimension in self.dimensions}

    def leaving(self, unit: Unit, taken: Iterable[Unit]) -> Amounts:
        """Return what leaves with a unit and has not left with others."""
        gone = {task.uid for other in taken for task in other.victims}
        return self.size(task for task in unit.victims if task.uid not in gone)

    def leaves(self) -> list[str]:
        """Return the names of the leaves."""
        return self._leaves()

    def queue(self, name: str) -> Queue:
        """Return a queue by name."""
        return self._queues[name]


@frozen
class Claim:
    """What a leaf may reclaim."""

    plugin: Capacity
    leaf: str
    reach: list[str]
    level: float | None

    def chain(self, other: str) -> list[str] | None:
        """Return a leaf and the queues above it, up to the common one; None: out of reach."""
        tree = self.plugin.after(())[self.plugin.dimensions[0]]
        mine, theirs = tree.path(self.leaf), tree.path(other)
        common = [name for name in mine if name in theirs]
        below_mine = [name for name in mine if name not in common]
        below_theirs = [name for name in theirs if name not in common]
        if not below_mine or not below_theirs:
            return None
        if self.level is not None:
            is_sibling = below_mine == [self.leaf] and below_theirs == [other]
            return below_theirs if is_sibling else None
        return below_theirs if below_mine[-1] in self.reach else None

    def is_victim(
        self, unit: Unit, stage: int, short: Sequence[str], taken: Sequence[Unit]
    ) -> bool:
        """Return whether a borrowing unit is a victim, without some others."""
        plugin = self.plugin
        name = unit.job.queue
        chain = self.chain(name)
        if name == self.leaf or chain is None:
            return False
        if plugin.is_backfill(unit):
            return True
        trees = plugin.after(taken)
        size = plugin.leaving(unit, taken)
        above = [
            d
            for d in short
            if all(trees[d].allocated(queue) > plugin.share[d][queue] for queue in chain)
        ]
        if not any(size[d] for d in above):
            return False
        if stage == 1 and not unit.is_surplus:
            return False
        if stage != 3 and any(
            size[d] and trees[d].allocated(name) - size[d] < plugin.share[d][name]
            for d in plugin.dimensions
        ):
            return False
        return self.level is None or self.level < max(
            _part(trees[d].allocated(name) - size[d], plugin.share[d][name])
            for d in plugin.dimensions
        )

    def next_victim(
        self, units: Sequence[Unit], stage: int, short: Sequence[str], taken: Sequence[Unit]
    ) -> Unit | None:
        """Follow the fullest queues from the root; return the least valuable victim there."""
        victims = [unit for unit in units if self.is_victim(unit, stage, short, taken)]
        if not victims:
            return None
        trees = self.plugin.after(taken)
        tree = trees[self.plugin.dimensions[0]]

        def fullness(name: str) -> tuple[float, float, str]:
            parts = [_part(trees[d].allocated(name), self.plugin.share[d][name]) for d in short]
            queue = self.plugin.queue(name)
            return max(parts), queue.creation_time, queue.name

        def below(name: str) -> list[Unit]:
            return [unit for unit in victims if name in tree.path(unit.job.queue)]

        here = [name for name in tree.children(None) if below(name)]
        while True:
            chosen = max(here, key=fullness)
            here = [name for name in tree.children(chosen) if below(name)]
            if not here:
                return self.plugin.in_value_order(below(chosen))[-1]


def _part(held: int, share: int) -> float:
    if not held:
        return 0.0
    return held / share if share else float("inf")


def _dimensions(state: State) -> list[str]:
    names: dict[str, None] = {"cpu": None, "memory": None}
    resources: list[Resource] = [node.allocatable for node in state.snapshot.nodes]
    resources += [task.resreq for task in state.tasks.values()]
    for resource in resources:
        names.update(dict.fromkeys(sorted(resource.scalars)))
    return ["cpu", "memory", *sorted(set(names) - {"cpu", "memory"})]


def _takes_no_tasks(node: NodeInfo) -> bool:
    return (
        node.unschedulable
        or node.conditions.get("Ready", "True") != "True"
        or node.conditions.get("NetworkUnavailable", "False") != "False"
    )
