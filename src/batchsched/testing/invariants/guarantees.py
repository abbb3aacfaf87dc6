"""What the plugin protection guarantees: who stays, for how long, how many may go, what is lent.

Each is what follows from snapshot, result and arguments alone: tasks may be protected beyond it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from batchsched.model.cluster import Budget, JobInfo, Preemptible, Queue, TaskStatus
from batchsched.model.resources import Resource
from batchsched.model.result import Eviction
from batchsched.plugin.arguments import ArgumentValue
from batchsched.testing.invariants.amounts import Amounts, Number, of, total
from batchsched.testing.invariants.cycle import OCCUPYING, PLACED, Cycle
from batchsched.testing.invariants.invariant import invariant
from batchsched.testing.invariants.policy import is_true

_NAME = "protection"


def _given(cycle: Cycle, name: str, default: ArgumentValue) -> ArgumentValue:
    return cycle.policy.plugins[_NAME][1].arguments.get(name, default)


def _seconds(value: ArgumentValue) -> float:
    return float(str(value))


def _protected_evictions(cycle: Cycle) -> Iterator[tuple[Eviction, JobInfo, JobInfo]]:
    """Yield the evictions about which the plugin was asked, with the victim's and claimant's job.

    Not those of broken jobs, which hold what they have in vain: they go where nothing else may.
    """
    for eviction in cycle.result.evictions:
        theirs, mine = (cycle.job_of.get(u) for u in (eviction.task_uid, eviction.for_task_uid))
        if theirs and mine and cycle.policy.protects(_NAME, eviction.action):
            yield eviction, theirs, mine


def _path(cycle: Cycle, name: str) -> list[Queue]:
    """Return a queue and those above it, from the leaf up."""
    queues = {queue.name: queue for queue in cycle.snapshot.queues}
    path: list[Queue] = []
    queue = queues.get(name)
    while queue is not None:
        path.append(queue)
        queue = None if queue.parent is None else queues[queue.parent]
    return path


@invariant
def claimants(cycle: Cycle) -> Iterator[str]:
    """No task is evicted for a job that evicts nobody, or that has to wait before it claims."""
    now = cycle.snapshot.now
    for eviction, _, mine in _protected_evictions(cycle):
        what = f"task {eviction.task_uid!r} is evicted for job {mine.uid!r}, which"
        if not mine.preempts:
            yield f"{what} evicts nobody"
        delay = mine.claim_delay
        if delay is None:
            delay = _seconds(_given(cycle, "claimDelay", 0))
        since = max(mine.waits_since, mine.last_evicted or mine.waits_since)
        if delay and now < since + delay:
            yield f"{what} claims only from {since + delay:g} on; it is {now:g}"


@invariant
def cores(cycle: Cycle) -> Iterator[str]:
    """A core stays of which only the surplus may go, or that is younger than its least runtime.

    The core has certainly gone if the job could run before the cycle and cannot after it. It is
    certainly young if all of the job is.
    """
    lost: defaultdict[str, list[tuple[Eviction, JobInfo]]] = defaultdict(list)
    for eviction, theirs, mine in _protected_evictions(cycle):
        lost[theirs.uid].append((eviction, mine))
    made_to_leave = Counter(
        cycle.job_of[each.task_uid].uid
        for each in cycle.made_to_leave
        if each.task_uid in cycle.job_of
    )
    for uid, evictions in lost.items():
        job = cycle.jobs[uid]
        had = cycle.ready_groups(job, before=True)
        if made_to_leave[uid] > len(evictions) or not had.can_start() or cycle.is_gang_ready(job):
            continue
        names = ", ".join(eviction.task_uid for eviction, _ in evictions)
        what = f"{names} evicted, so that job {uid!r} lost what it needs to run"
        if job.preemptible is not Preemptible.ALWAYS:
            yield f"{what}, of which only what is beyond that may go"
        starts = [task.start_time for task in job.tasks if task.status is TaskStatus.RUNNING]
        known = [start for start in starts if start is not None]
        if len(known) < len(starts):
            continue
        for eviction, mine in evictions:
            least = least_runtime(cycle, job, mine, eviction.action)
            age = cycle.snapshot.now - min(known)
            if age < least:
                yield (
                    f"{what}; all of it has run for at most {age:g} s, and it stays for {least:g} "
                    f"against {eviction.action} for {mine.uid!r}"
                )


def least_runtime(cycle: Cycle, job: JobInfo, claimant: JobInfo, action: str) -> float:
    """Return for how many seconds the plugin keeps the core of a job from a claimant."""
    path = _path(cycle, job.queue)
    if action == "reclaim":
        theirs = {queue.name for queue in _path(cycle, claimant.queue)}
        parted = [number for number, queue in enumerate(path) if queue.name not in theirs]
        given = [queue.reclaim_min_runtime for queue in path[max(parted, default=0) :]]
        default = "reclaimMinRuntime"
    else:
        given = [queue.preempt_min_runtime for queue in path]
        default = "preemptMinRuntime"
    return next(
        (least for least in given if least is not None), _seconds(_given(cycle, default, 0))
    )


@invariant
def budgets(cycle: Cycle) -> Iterator[str]:
    """No hard budget is broken, by all that leave in a cycle together."""
    evictions = [eviction.task_uid for eviction, _, _ in _protected_evictions(cycle)]
    for budget in cycle.snapshot.budgets:
        if not budget.hard or not evictions:
            continue
        gone = [
            uid
            for uid in evictions
            if budget.counts(cycle.tasks[uid]) and cycle.tasks[uid].status is TaskStatus.RUNNING
        ]
        most = allowance(cycle, budget)
        if len(gone) > most:
            yield f"{', '.join(gone)} evicted, but budget {budget.uid!r} allows {most} to leave"


def allowance(cycle: Cycle, budget: Budget) -> int:
    """Return how many tasks may leave according to a budget, when a cycle begins."""
    tasks = [task for task in cycle.tasks.values() if budget.counts(task)]
    there = sum(task.status in OCCUPYING for task in tasks)
    if budget.min_available is not None:
        return max(0, there - budget.min_available)
    ended = sum(task.status.ended for task in tasks)
    return max(0, (budget.max_unavailable or 0) - (len(tasks) - there - ended))


@frozen
class _Limit:
    name: str
    scope: str
    most: int
    window: float
    queue: str

    def key(self, cycle: Cycle, job: str, queue: str, for_queue: str) -> str | None:
        """Return what counts together with an eviction; None: it does not count."""
        asked = for_queue if self.scope == "claimant-queue" else queue
        if self.queue and all(above.name != self.queue for above in _path(cycle, asked)):
            return None
        keys = {"cluster": "", "claimant-queue": for_queue, "queue": queue, "job": job}
        return keys[self.scope]


def _limits(cycle: Cycle) -> Iterator[_Limit]:
    if not cycle.policy.has(_NAME):
        return
    given: object = _given(cycle, "limits", ())
    for row in given if isinstance(given, Sequence) else ():
        if isinstance(row, Mapping):
            values: dict[str, object] = {str(key): value for key, value in row.items()}
            yield _Limit(
                name=str(values["name"]),
                scope=str(values["scope"]),
                most=int(str(values["most"])),
                window=float(str(values["window"])),
                queue=str(values.get("queue", "")),
            )


@invariant
def limits(cycle: Cycle) -> Iterator[str]:
    """No limit is exceeded by pairs of jobs in the ledger and in this cycle, unless it was."""
    now = cycle.snapshot.now
    others = {
        (each.task_uid, each.for_task_uid)
        for each in cycle.result.evictions
        if not cycle.policy.protects(_NAME, each.action)
    }
    free = {
        (cycle.job_of[victim].uid, cycle.job_of[claimant].uid)
        for victim, claimant in others
        if victim in cycle.job_of and claimant in cycle.job_of
    }
    pairs = {
        (theirs.uid, mine.uid): (theirs, mine) for _, theirs, mine in _protected_evictions(cycle)
    }
    for limit in _limits(cycle):
        past = Counter(
            limit.key(cycle, each.job, each.queue, each.for_queue)
            for each in cycle.snapshot.evictions
            if now - each.time < limit.window
        )
        new = Counter(
            limit.key(cycle, theirs.uid, theirs.queue, mine.queue)
            for pair, (theirs, mine) in pairs.items()
            if pair not in free
        )
        for key, count in new.items():
            if key is not None and past[key] + count > limit.most:
                yield (
                    f"{count} pairs of jobs more count for limit {limit.name!r} "
                    f"({key or 'cluster'}), which had {past[key]} of {limit.most}"
                )


@invariant
def lending(cycle: Cycle) -> Iterator[str]:
    """What cannot be taken back stays within what queues deserve, unless it did not before.

    That is what jobs hold that are never evicted. All that a queue holds which is not reclaimable
    stays within what it deserves or is guaranteed.
    """
    if not (cycle.policy.has(_NAME) and cycle.policy.knows_actions):
        return
    if not is_true(_given(cycle, "withinDeserved", True)):
        return
    for queue in cycle.snapshot.queues:
        deserved = queue.deserved
        if deserved is None:
            continue
        says = deserved != Resource()
        for name, amount, had in _grown(cycle, queue, never_evicted=True) if says else ():
            most = deserved.get(name)
            if most is not None and amount > max(most, had):
                yield (
                    f"jobs of queue {queue.name!r} that are never evicted hold {amount} of {name}; "
                    f"it deserves {most}"
                )
        for name, amount, had in () if queue.reclaimable else _grown(cycle, queue):
            guaranteed = queue.guarantee.get(name)
            most = max(deserved.get(name) or 0, guaranteed)
            is_said = deserved.get(name) is not None if says else guaranteed > 0
            if is_said and amount > max(most, had):
                yield (
                    f"queue {queue.name!r}, which is not reclaimable, holds {amount} of {name}; "
                    f"it deserves or is guaranteed {most}"
                )


def _grown(
    cycle: Cycle, queue: Queue, *, never_evicted: bool = False
) -> Iterator[tuple[str, Number, Number]]:
    """Yield what a queue holds of each resource, and what it held before."""
    had = _held(cycle, queue, never_evicted=never_evicted, before=True)
    for name, amount in _held(cycle, queue, never_evicted=never_evicted).items():
        yield name, amount, had.get(name, 0)


def _held(
    cycle: Cycle, queue: Queue, *, never_evicted: bool = False, before: bool = False
) -> Amounts:
    """Return what tasks hold in a queue and below; `never_evicted`: of such jobs alone.

    Else without the jobs for which quota is reserved, which is held from the start.
    """
    charged = (*OCCUPYING, *PLACED)
    return total(
        of(task.resreq)
        for job in cycle.jobs.values()
        if job.preemptible is Preemptible.NEVER or not (never_evicted or job.quota_reserved)
        if queue in _path(cycle, job.queue)
        for task in job.tasks
        if not (cycle.before(task.uid) if before else cycle.after[task.uid]).is_backfill
        and (cycle.before(task.uid) if before else cycle.after[task.uid]).status in charged
    )
