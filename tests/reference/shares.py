"""The share-keeping plugins, drf and proportion.

What a job or queue is charged is the sum over its tasks that occupy or are
promised something: that is what the allocate and deallocate events add up to
since they are fired whenever a task enters or leaves these statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from batchsched import EPSILON, JobInfo, Queue, Resource, TaskInfo, TaskStatus
from tests.reference.amounts import Amount
from tests.reference.groups import Groups, has_groups
from tests.reference.plugins import (
    Plugin,
    Verdict,
    compare,
    ready_count,
    waiting_count,
)
from tests.reference.state import State, less, total_of

__all__ = ["Drf", "Proportion", "cluster_total", "share"]

TasksInOrder = Callable[[Iterable[TaskInfo]], list[TaskInfo]]

SAME_SHARE = 1e-6
CHARGED = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
)
WANTED = (TaskStatus.PENDING, TaskStatus.RESERVED)


def share(amount: Amount, total: Amount) -> float:
    """Return an amount as a part of `total`; if the total is 0, any amount is the whole."""
    if total == 0:
        return 0.0 if amount == 0 else 1.0
    return amount / total


def cluster_total(state: State) -> Resource:
    """Return the sum of all nodes' allocatable resources; a scalar of which there is 0 is none."""
    total = total_of(node.allocatable for node in state.snapshot.nodes)
    scalars = {name: amount for name, amount in total.scalars.items() if amount}
    return Resource(milli_cpu=total.milli_cpu, memory=total.memory, scalars=scalars)


class Drf(Plugin):
    """Dominant resource fairness among jobs."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._total = cluster_total(state)

    def _allocated(self, job: JobInfo) -> Resource:
        return total_of(task.resreq for task in job.tasks if self._state.status(task) in CHARGED)

    def _share(self, allocated: Resource) -> float:
        return max(share(allocated.get(name), total) for name, total in self._total.dimensions())

    def job_order(self, left: JobInfo, right: JobInfo) -> int:
        """Put the job with the smaller share first."""
        return compare(self._share(self._allocated(left)), self._share(self._allocated(right)))

    def preemptable(self, task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Let a job preempt one that would still have at least as large a share."""
        claimant_job = self._state.job_of[task.uid]
        claimant_share = self._share(self._allocated(claimant_job) + task.resreq)
        copies: dict[str, Resource] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            job = self._state.job_of[candidate.uid]
            left = copies.setdefault(job.uid, self._allocated(job)) - candidate.resreq
            left_share = self._share(left)
            if claimant_share < left_share or abs(claimant_share - left_share) <= SAME_SHARE:
                copies[job.uid] = left
                verdicts.append(Verdict.VICTIM)
            else:
                verdicts.append(Verdict.PASS)
        return verdicts


class Proportion(Plugin):
    """Queues share the cluster in proportion to their weights, up to their requests."""

    def __init__(self, state: State, tasks_in_order: TasksInOrder) -> None:
        self._state = state
        self._tasks_in_order = tasks_in_order
        self._total = cluster_total(state)
        self._jobs: dict[str, list[JobInfo]] = {}
        inner = {queue.parent for queue in state.snapshot.queues}
        for queue in state.snapshot.queues:
            if queue.name in inner:
                continue  # jobs that name it are left out
            jobs = [job for job in state.snapshot.jobs if job.queue == queue.name]
            if jobs:
                self._jobs[queue.name] = jobs
        self._deserved = self._within_bounds()

    def _sum(self, queue_name: str, statuses: tuple[TaskStatus, ...]) -> Resource:
        return total_of(
            task.resreq
            for job in self._jobs[queue_name]
            for task in job.tasks
            if self._state.status(task) in statuses and not self._state.is_backfill(task)
        )

    def _allocated(self, queue_name: str) -> Resource:
        return self._sum(queue_name, CHARGED)

    def _within_bounds(self) -> dict[str, Resource]:
        """Return what each queue deserves: what is dealt out, and at least what is guaranteed.

        Who is dealt less than that gets it, and the others share what it leaves.
        """
        request = {
            name: self._limited(name, self._sum(name, (*CHARGED, *WANTED))) for name in self._jobs
        }
        floors: dict[tuple[str, str], Amount] = {}
        while True:
            deserved = self._dealt(request, floors)
            below = {
                (name, d): least
                for name in self._jobs
                for d, amount in self._queue(name).guarantee.dimensions()
                if (least := min(amount, request[name].get(d))) > deserved[name].get(d)
            }
            if not below:
                return deserved
            floors |= below

    def _dealt(
        self, request: Mapping[str, Resource], floors: Mapping[tuple[str, str], Amount]
    ) -> dict[str, Resource]:
        """Deal out what there is, round by round, to those that may have more in a dimension."""
        dimensions = [d for d, _ in self._total.dimensions()]
        deserved = {
            name: _resource({d: floors.get((name, d), 0) for d in dimensions})
            for name in self._jobs
        }
        fixed = total_of(deserved.values())
        left = _resource({d: max(0, self._total.get(d) - fixed.get(d)) for d in dimensions})
        unmet = sorted(self._jobs)
        while unmet and not left.is_empty():
            takers = {
                d: [
                    name
                    for name in unmet
                    if (name, d) not in floors and deserved[name].get(d) < self._most(name, d)
                ]
                for d in dimensions
            }
            increases: list[Resource] = []
            decreases: list[Resource] = []
            may_go_on = False
            for name in list(unmet):
                before = deserved[name]
                amounts = dict(before.dimensions())
                for d in dimensions:
                    together = sum(self._queue(other).weight for other in takers[d])
                    if name in takers[d] and together:
                        part = self._queue(name).weight / together
                        amounts[d] = before.get(d) + left.get(d) * part
                        if amounts[d] >= self._most(name, d):
                            amounts[d] = self._most(name, d)
                            may_go_on = True
                after = _resource(amounts)
                if request[name].fits(after):
                    after = after.min_with(request[name])
                    unmet.remove(name)
                    may_go_on = True
                deserved[name] = after
                increases.append(_excess(after, before))
                decreases.append(_excess(before, after))
            if not may_go_on:
                break  # everything is distributed, except for rounding errors
            left = left - total_of(increases) + total_of(decreases)
        return deserved

    def _most(self, name: str, dimension: str) -> Amount:
        """Return the most that a queue may deserve: its limit, and what is not guaranteed."""
        inner = {queue.parent for queue in self._state.snapshot.queues}
        others = sum(
            queue.guarantee.get(dimension)
            for queue in self._state.snapshot.queues
            if queue.name not in inner and queue.name != name
        )
        limit = self._queue(name).limit
        limited = None if limit is None else limit.get(dimension)
        most = max(0, self._total.get(dimension) - others) if others else inf
        return most if limited is None else min(most, limited)

    def _queue(self, name: str) -> Queue:
        return next(queue for queue in self._state.snapshot.queues if queue.name == name)

    def _limited(self, queue_name: str, amounts: Resource) -> Resource:
        """Return amounts without what exceeds the limit of a queue."""
        queue = next(queue for queue in self._state.snapshot.queues if queue.name == queue_name)
        if queue.limit is None:
            return amounts
        most = dict(queue.limit.dimensions())
        return amounts.min_with(
            Resource(
                milli_cpu=most.get("cpu", amounts.milli_cpu),
                memory=most.get("memory", amounts.memory),
                scalars={name: most.get(name, has) for name, has in amounts.scalars.items()},
            )
        )

    def allows(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo] = ()
    ) -> bool:
        """Return whether a queue may take tasks within its limit, without some others."""
        if not tasks:
            return True
        if self.never_allows(queue, tasks):
            return False
        mine = [task for task in leaving if self._state.job_of[task.uid].queue == queue.name]
        gone = total_of(t.resreq for t in mine if not self._state.is_backfill(t))
        need = total_of(t.resreq for t in tasks if not self._state.is_backfill(t))
        held = self._allocated(queue.name)
        grows = [d for d, amount in need.dimensions() if amount > gone.get(d) and amount > 0]
        limit = {} if queue.limit is None else dict(queue.limit.dimensions())
        return not any(
            held.get(d) - gone.get(d) + need.get(d) > limit.get(d, inf)
            or (
                self._others_wait_for_guarantees(queue, d)
                and held.get(d) - gone.get(d) + need.get(d) - self._deserved[queue.name].get(d)
                > EPSILON
            )
            for d in grows
        )

    def _others_wait_for_guarantees(self, queue: Queue, dimension: str) -> bool:
        """Return whether another queue does not use all that it is guaranteed."""
        inner = {one.parent for one in self._state.snapshot.queues}
        return any(
            other.guarantee.get(dimension)
            > (self._allocated(other.name).get(dimension) if other.name in self._jobs else 0)
            for other in self._state.snapshot.queues
            if other is not queue and other.name not in inner
        )

    def never_allows(self, queue: Queue, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether tasks alone exceed the limit of a queue."""
        need = total_of(t.resreq for t in tasks if not self._state.is_backfill(t))
        limit = () if queue.limit is None else queue.limit.dimensions()
        return any(need.get(name) > most for name, most in limit if need.get(name) > 0)

    def lacks_room_alone(self, _queue: Queue, _tasks: Sequence[TaskInfo]) -> bool:
        """Return whether only room is lacking, and no limit; limits are all that counts here."""
        return False

    def _share(self, queue_name: str) -> float:
        if queue_name not in self._jobs:
            return 0.0
        allocated, deserved = self._allocated(queue_name), self._deserved[queue_name]
        return max(
            share(allocated.get(name), deserved.get(name)) for name, _ in self._total.dimensions()
        )

    def queue_order(self, left: Queue, right: Queue) -> int:
        """Put the queue with the smaller share first."""
        return compare(self._share(left.name), self._share(right.name))

    def overused(self, queue: Queue) -> bool:
        """Return whether the queue has at least its deserved share."""
        if queue.name not in self._jobs:
            return False
        return self._deserved[queue.name].fits(self._allocated(queue.name))

    def _held(self, queue_name: str) -> list[tuple[JobInfo, list[TaskInfo]]]:
        """Return the jobs of a queue with what they hold in task order, the most valuable first."""
        jobs = sorted(
            self._jobs[queue_name], key=lambda job: (-job.priority, job.creation_time, job.uid)
        )
        return [
            (
                job,
                self._tasks_in_order(
                    task
                    for task in job.tasks
                    if self._state.status(task).occupies and not self._state.is_backfill(task)
                ),
            )
            for job in jobs
        ]

    def _covered(self, queue_name: str) -> set[str]:
        """Return the UIDs of the tasks that a queue's deserved share covers."""
        deserved = self._deserved[queue_name]
        used = Resource()
        covered: set[str] = set()
        for job, held in self._held(queue_name):
            minimum, others = held[: job.min_available], held[job.min_available :]
            units = [minimum, *[[task] for task in others]]
            if has_groups(job):
                units.clear()
                for kind, tasks, _ in Groups(self._state, job).units(self._tasks_in_order):
                    unit = [task for task in tasks if task in held]
                    minimum = unit if kind == 0 else minimum
                    units += [unit] if unit else []
            for unit in units:
                together = total_of(task.resreq for task in unit)
                if all(
                    used.get(name) + amount - deserved.get(name) < EPSILON
                    for name, amount in together.dimensions()
                    if amount > EPSILON
                ):
                    used = used + together
                    covered |= {task.uid for task in unit}
                elif unit is minimum:
                    break  # without it the others are useless
        return covered

    def _need(self, task: TaskInfo) -> Resource:
        """Return the need of a task and of as many more as its job lacks to its minimum."""
        job = self._state.job_of[task.uid]
        lacking = (
            job.min_available - ready_count(self._state, job) - waiting_count(self._state, job)
        )
        others = [
            other
            for other in self._tasks_in_order(job.tasks)
            if self._state.status(other) is TaskStatus.PENDING
            and not other.is_best_effort
            and other is not task
        ]
        if has_groups(job):
            pending = self._tasks_in_order([task, *others])
            goal = Groups(self._state, job).needed(pending)
            return total_of(one.resreq for one in [task, *(o for o in goal if o is not task)])
        return total_of(other.resreq for other in [task, *others[: max(0, lacking - 1)]])

    def reclaimable(self, task: TaskInfo, candidates: list[TaskInfo]) -> list[Verdict]:
        """Offer what exceeds a queue's share in the requested dimensions, except covered tasks."""
        need = self._need(task)
        asked = [
            name
            for name, total in self._total.dimensions()
            if total > 0 and need.get(name) > EPSILON
        ]
        mine = self._state.job_of[task.uid].queue
        allocated = self._allocated(mine)
        is_within = all(
            allocated.get(name) + need.get(name) - self._deserved[mine].get(name) <= EPSILON
            for name in asked
        )
        copies: dict[str, Resource] = {}
        verdicts: list[Verdict] = []
        for candidate in candidates:
            queue_name = self._state.job_of[candidate.uid].queue
            copy = copies.setdefault(queue_name, self._allocated(queue_name))
            deserved = self._deserved[queue_name]
            if self._state.is_backfill(candidate):
                verdicts.append(Verdict.VICTIM)
            elif (
                is_within
                and candidate.uid not in self._covered(queue_name)
                and any(
                    copy.get(name) - deserved.get(name) > EPSILON
                    for name in asked
                    if candidate.resreq.get(name) > EPSILON
                )
            ):
                copies[queue_name] = less(copy, candidate.resreq)
                verdicts.append(Verdict.VICTIM)
            else:
                verdicts.append(Verdict.PROTECTED)
        return verdicts


def _resource(amounts: Mapping[str, Amount]) -> Resource:
    return Resource(
        milli_cpu=amounts.get("cpu", 0),
        memory=amounts.get("memory", 0),
        scalars={name: amounts[name] for name in amounts if name not in ("cpu", "memory")},
    )


def _excess(larger: Resource, smaller: Resource) -> Resource:
    """Return by how much `larger` exceeds `smaller`, in the dimensions where it does."""
    return larger.max_with(smaller) - smaller
