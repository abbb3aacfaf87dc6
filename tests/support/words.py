"""What shares cover, as words: the measure by which evictions in a closed system come to an end.

Each leaf has two words, one for its fair share F and one for its nominal share N. A word has a
letter for each unit of the leaf's jobs, the most valuable first: 1 if the unit runs and the share
covers it. Words are compared as lists are, those for F first.

All this is computed from data alone: a snapshot, and the fair shares that a cycle on it reports. It
shares no code with the library. A job's tasks must be alike here, so that a unit is known by its
number in the job: 0 for the core, then the surplus. There are no groups and no backfill tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from batchsched import (
    CycleResult,
    JobInfo,
    Queue,
    Resource,
    ResourceLimit,
    Snapshot,
    TaskInfo,
    TaskStatus,
)

Amounts = Mapping[str, int]
"""Amounts by dimension; what is missing is 0."""
Word = tuple[int, ...]

OCCUPYING = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
CRITICAL = "system-cluster-critical"
BROKEN, CORE, SURPLUS = 0, 1, 3
"""Kinds of units; replicas, which are 2, do not occur."""


def amounts_of(resource: Resource | ResourceLimit) -> dict[str, int]:
    return {name: int(amount) for name, amount in resource.dimensions()}


def sum_of(tasks: Iterable[TaskInfo]) -> dict[str, int]:
    held: dict[str, int] = {}
    for task in tasks:
        for name, amount in amounts_of(task.resreq).items():
            held[name] = held.get(name, 0) + amount
    return held


def occupying(job: JobInfo) -> list[TaskInfo]:
    """The tasks of a job that hold resources and count, in task order."""
    there = [task for task in job.tasks if task.status in OCCUPYING]
    return sorted(there, key=lambda task: (-task.priority, task.creation_time, task.uid))


def is_broken(job: JobInfo) -> bool:
    """Whether a job has lost some, and not all, of the tasks that it needs."""
    return 0 < len(occupying(job)) < job.min_available


@frozen
class Unit:
    """What goes together or stays, with the tasks that run; without any, it does not run."""

    job: JobInfo
    kind: int
    number: int
    tasks: tuple[TaskInfo, ...]

    @property
    def is_fixed(self) -> bool:
        """Whether nobody may evict it: conformance protects a task that would go with it."""
        return any(task.priority_class_name == CRITICAL for task in self.job.tasks)

    @property
    def value(self) -> tuple[object, ...]:
        """The smallest is the most valuable: the job's priority goes before that of its tasks."""
        first = self.job.tasks[0]
        of_priorities = -self.job.priority, -first.priority
        place = first.creation_time, min(task.uid for task in self.job.tasks)
        return not self.is_fixed, self.kind, *of_priorities, *place, self.number

    @property
    def victims(self) -> tuple[TaskInfo, ...]:
        """The tasks that go with it: with a core, all of the job."""
        return self.tasks if self.kind == SURPLUS else tuple(occupying(self.job))


def units_of(job: JobInfo) -> list[Unit]:
    """The units that a job has or may get."""
    running = occupying(job)
    needed = job.min_available
    if is_broken(job):
        return [Unit(job, BROKEN, 0, tuple(running))]
    core = [Unit(job, CORE, 0, tuple(running[:needed]))] if needed else []
    surplus = [
        Unit(job, SURPLUS, 1 + number, tuple(running[needed + number : needed + number + 1]))
        for number in range(len(job.tasks) - needed)
    ]
    return core + surplus


def in_value_order(jobs: Iterable[JobInfo]) -> list[Unit]:
    return sorted((unit for job in jobs for unit in units_of(job)), key=lambda unit: unit.value)


def covered(units: Iterable[Unit], share: Amounts) -> list[Unit]:
    """The units that run and that a share covers, of those of a leaf in value order."""
    found: list[Unit] = []
    used: dict[str, int] = {}
    exposed: set[str] = set()
    for unit in units:
        size = sum_of(unit.tasks)
        fits = all(
            used.get(name, 0) + amount <= share.get(name, 0)
            for name, amount in size.items()
            if amount
        )
        if not unit.tasks or unit.job.uid in exposed:
            continue
        if fits:
            found.append(unit)
            used = {name: used.get(name, 0) + size.get(name, 0) for name in used | size}
        elif unit.kind != SURPLUS:
            exposed.add(unit.job.uid)
    return found


# Shares


def total_of(snapshot: Snapshot) -> dict[str, int]:
    """What there is for all queues together."""
    total: dict[str, int] = {}
    of_leaves = [task for job in snapshot.jobs for task in job.tasks]
    for node in snapshot.nodes:
        held = sum_of(t for t in of_leaves if t.node_name == node.name and t.status.charged)
        foreign = sum_of(
            t for t in snapshot.other_tasks if t.node_name == node.name and t.status.holds
        )
        there = amounts_of(node.allocatable)
        for name in there | held:
            room = max(0, there.get(name, 0) - foreign.get(name, 0))
            more = held.get(name, 0) if node.unschedulable else room
            total[name] = total.get(name, 0) + more
    return total


def nominal(queue: Queue, total: Amounts) -> dict[str, int]:
    """What a leaf deserves or is guaranteed, whichever is more."""
    found: dict[str, int] = {}
    for name in total:
        deserved = None if queue.deserved is None else queue.deserved.get(name)
        amount = total[name] if deserved is None else int(deserved)
        found[name] = max(amount, int(queue.guarantee.get(name)))
    return found


@frozen
class Leaf:
    """A leaf with its units in value order, its shares, and what each of them covers."""

    units: list[Unit]
    fair: Amounts
    nominal: Amounts

    @property
    def met(self) -> Amounts:
        return {name: min(self.fair.get(name, 0), self.nominal[name]) for name in self.nominal}

    @property
    def met_units(self) -> list[Unit]:
        """What the leaf deserves and can be met: of the units that F covers, those that fit it."""
        return covered(covered(self.units, self.fair), self.met)

    def word(self, share: Amounts) -> Word:
        """A letter for each unit."""
        ones = covered(self.units, share)
        return tuple(int(unit in ones) for unit in self.units)

    def rank(self, unit: Unit) -> int:
        """0 if F covers a unit, else 1 if N does, else 2."""
        if unit in covered(self.units, self.fair):
            return 0
        return 1 if unit in covered(self.units, self.nominal) else 2


@frozen
class Measure:
    """The leaves of a cluster by name, with its broken jobs."""

    leaves: Mapping[str, Leaf]
    broken: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot, result: CycleResult) -> Measure:
        """Measure a cluster by the shares that a cycle found."""
        inner = {queue.parent for queue in snapshot.queues}
        total = total_of(snapshot)
        return cls(
            leaves={
                queue.name: Leaf(
                    units=in_value_order(job for job in snapshot.jobs if job.queue == queue.name),
                    fair=amounts_of(result.queues[queue.name].fair_share),
                    nominal=nominal(queue, total),
                )
                for queue in snapshot.queues
                if queue.name not in inner
            },
            broken=frozenset(job.uid for job in snapshot.jobs if is_broken(job)),
        )

    def fair_words(self) -> dict[str, Word]:
        return {name: leaf.word(leaf.fair) for name, leaf in self.leaves.items()}

    def nominal_words(self) -> dict[str, Word]:
        return {name: leaf.word(leaf.nominal) for name, leaf in self.leaves.items()}

    def unit_of(self, uid: str) -> Unit:
        """The unit that a running task belongs to."""
        for leaf in self.leaves.values():
            for unit in leaf.units:
                if any(task.uid == uid for task in unit.tasks):
                    return unit
        raise KeyError(uid)

    def leaf_of(self, unit: Unit) -> Leaf:
        return self.leaves[unit.job.queue]


def settled(snapshot: Snapshot, result: CycleResult) -> Snapshot:
    """The cluster when all that was decided has come about, and what was evicted waits again.

    A gang also has what it holds while it waits for those that leave, but not if that is too little
    even with them: it gives up at the end of the cycle what is not bound.
    """

    def placed(task: TaskInfo, *, keeps_what_it_holds: bool) -> TaskInfo:
        outcome = result.tasks.get(task.uid)
        if outcome is None:
            return task
        is_held = outcome.status is TaskStatus.ALLOCATED
        if outcome.status.charged and (keeps_what_it_holds or not is_held):
            return evolve(task, status=TaskStatus.RUNNING, node_name=outcome.node_name)
        return evolve(task, status=TaskStatus.PENDING, node_name=None)

    def all_placed(job: JobInfo) -> list[TaskInfo]:
        outcomes = [result.tasks.get(task.uid) for task in job.tasks]
        there = sum(outcome is not None and outcome.status.charged for outcome in outcomes)
        keeps = there >= job.min_available
        return [placed(task, keeps_what_it_holds=keeps) for task in job.tasks]

    return evolve(snapshot, jobs=[evolve(job, tasks=all_placed(job)) for job in snapshot.jobs])


def served(snapshot: Snapshot, result: CycleResult) -> Sequence[JobInfo]:
    """The jobs that a cycle gave places, now or later."""
    found: list[JobInfo] = []
    for job in snapshot.jobs:
        waiting = [task.uid for task in job.tasks if task.status is TaskStatus.PENDING]
        outcomes = [result.tasks[uid] for uid in waiting if uid in result.tasks]
        if any(outcome.status.charged for outcome in outcomes):
            found.append(job)
    return found
