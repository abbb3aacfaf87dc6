"""The function `find_cycles`: evictions that never end, on a cluster or on any small one.

The system is closed: nothing arrives, ends or fails. What is bound runs, and what is evicted waits
again at once. A state that comes back, with evictions since, comes back for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product
from math import isfinite
from typing import Literal, cast

from attrs import evolve

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, Fault
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.result import DECISIONS, CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.scheduler import Scheduler
from batchsched.tools.ping_pong import PingPong, without_times
from batchsched.tools.shrinking import shrink
from batchsched.tools.small_clusters import small_clusters
from batchsched.transition.next_snapshot import next_snapshot
from batchsched.transition.rules import as_new

Promises = Literal["kept", "forgotten", "rival"]
_WAYS = ("kept", "forgotten", "rival")
_LAST = 10
"""How many of the last cycles are looked at if no state comes back."""
_QUESTIONS = 400
"""How often a cluster is asked for a loop at most while it is shrunk."""
_LONG = 172800.0
"""The default of thresholds for starving jobs, in seconds."""
_MOST = 10**12
"""The largest number that is taken."""
_AFTER = 5
"""Jobs and units of the clusters before which those of `check_config` are tried."""
_CPU = Resource(milli_cpu=1000)


@checks_arguments()
def find_cycles(
    config: SchedulerConfig,
    snapshot: Snapshot | None = None,
    *,
    registry: Registry | None = None,
    promises: str = "kept",
    step: float | None = None,
    cycles: int = 200,
    worlds: int = 2000,
) -> PingPong | None:
    """Return evictions that never end in a closed system; None: none were found.

    Nothing arrives, ends or fails: what is bound runs, what is evicted waits again at once. Cycles
    run until nothing is decided, or a state comes back, but for times and what was used. What is
    not found is not proved absent.

    Without a snapshot small clusters are tried in a fixed order, the smallest first; the first that
    loops is returned as small as it can be made. O(cycles) for each, most often two to four: 2,000
    small clusters in less than a minute.

    Args:
        config: the configuration.
        snapshot: the cluster; None: small ones.
        registry: the plugins and actions that the configuration may name.
        promises: what becomes of room that is promised for evictions. ``kept``: it is there in the
            next cycle; ``forgotten``: the task is Pending again, as in schedulers that keep
            nothing; ``rival``: before each cycle, somebody else puts what the last one evicted
            back where it ran, if there is room.
        step: the seconds from one cycle to the next; None: one more than the longest duration that
            the configuration or the snapshot names, so that nothing is protected by its age alone.
        cycles: the most cycles of a cluster. If it evicts until then without coming back to a
            state, that is returned too, not `proved`.
        worlds: the most small clusters.

    Raises:
        ArgumentError: `promises` is none of the three ways; a number is negative.
        ConfigError: the configuration has names that are not in the registry.

    >>> endless = SchedulerConfig.from_mapping({
    ...     "actions": "allocate, preempt", "tiers": [{"plugins": ["gang", "predicates"]}]})
    >>> print(find_cycles(endless))
    ping-pong: j1-1, j2-1 evicted and placed again every 4 cycles, for ever:
      cycle 1: bind j2-1 to n1
      cycle 2: evict j2-1 from n1 (preempt for j1-1); promise j1-1 a place on n1
      cycle 3: bind j1-1 to n1
      cycle 4: evict j1-1 from n1 (preempt for j2-1); promise j2-1 a place on n1
    >>> find_cycles(SchedulerConfig(), worlds=10) is None
    True

    """
    faults: list[Fault] = []
    if promises not in _WAYS:
        faults.append(Fault("promises", f"expected {', '.join(_WAYS)}, got {promises!r}"))
    for name, number in (("step", step), ("cycles", cycles), ("worlds", worlds)):
        if number is not None and not 0 <= number <= _MOST:
            faults.append(Fault(name, f"expected 0 to {_MOST:,}, got {number!r}"))
    if faults:
        raise ArgumentError(faults)
    search = _Search(config, registry, cast("Promises", promises), step, cycles)
    if snapshot is not None:
        return search.on(snapshot)
    for number, world in enumerate(small_worlds()):
        if number == worlds:
            break
        found = search.on(world)
        if found is not None:
            return search.on(search.shrunk(world)) or found
    return None


def evicts_for_ever(
    scheduler: Scheduler, snapshot: Snapshot, registry: Registry | None = None, *, cycles: int
) -> bool:
    """Return whether a state comes back with evictions since, though nothing else happens."""
    found = _Search(scheduler.config, registry, "kept", None, cycles).on(snapshot)
    return found is not None and found.proved


@checks_arguments()
def next_round(
    snapshot: Snapshot, result: CycleResult, *, now: float, promises: str = "kept"
) -> Snapshot:
    """Return the next snapshot of a closed system; `promises` as in `find_cycles`. O(tasks)."""
    after = next_snapshot(snapshot, result, now=now)
    if promises == "forgotten":
        return _with_tasks(after, _without_promises(after))
    if promises == "rival" and result.evictions:
        back = {each.task_uid: each.node_name for each in result.evictions}
        return _put_back(after, back, since=snapshot.now)
    return after


class _Search:
    """A search for loops by one configuration."""

    def __init__(
        self,
        config: SchedulerConfig,
        registry: Registry | None,
        promises: Promises,
        step: float | None,
        cycles: int,
    ) -> None:
        self._scheduler = Scheduler(config, registry)
        self._config, self._registry = config, registry
        self._promises: Promises = promises
        self._step, self._cycles = step, cycles

    def on(self, snapshot: Snapshot) -> PingPong | None:
        """Return the loop into which a cluster runs."""
        step = longest(self._config, snapshot) + 1 if self._step is None else self._step
        snapshots: list[Snapshot] = []
        results: list[CycleResult] = []
        seen: dict[Hashable, list[int]] = {}
        for number in range(self._cycles):
            # In the first cycle something may still be protected by its age.
            before = seen.setdefault(_places(snapshot), [])
            state = without_times(snapshot)
            for position in reversed(before):
                if without_times(snapshots[position]) == state:
                    return self._loop([*snapshots[position:], snapshot], results[position:])
            if number:
                before.append(number)
            result = self._scheduler.schedule(snapshot, reasons=False)
            if number and not _decides(result):
                return None
            snapshots.append(snapshot)
            results.append(result)
            snapshot = next_round(
                snapshot, result, now=snapshot.now + step, promises=self._promises
            )
        if not any(result.evictions for result in results[-_LAST:]):
            return None
        return self._loop([*snapshots[-_LAST:], snapshot], results[-_LAST:], proved=False)

    def _loop(
        self, snapshots: Sequence[Snapshot], results: Sequence[CycleResult], *, proved: bool = True
    ) -> PingPong | None:
        if not any(result.evictions for result in results):
            return None
        told = [self._scheduler.schedule(snapshot) for snapshot in snapshots[:-1]]
        return PingPong(
            snapshots, told, self._config, self._registry, promises=self._promises, proved=proved
        )

    def shrunk(self, snapshot: Snapshot) -> Snapshot:
        """Return a smaller cluster that loops too."""

        def loops(smaller: Snapshot) -> bool:
            found = self.on(smaller)
            return found is not None and found.proved

        if not loops(snapshot):
            return snapshot
        return shrink(snapshot, loops, budget=_QUESTIONS).snapshot


def _decides(result: CycleResult) -> bool:
    return any(row.of(result) for row in DECISIONS)


def _places(snapshot: Snapshot) -> Hashable:
    """Return where all tasks are: states with others differ."""
    return tuple(
        (task.uid, task.status, task.node_name) for job in snapshot.jobs for task in job.tasks
    )


# From one cycle to the next


def _with_tasks(snapshot: Snapshot, changed: Mapping[str, TaskInfo]) -> Snapshot:
    """Return a snapshot with some tasks replaced."""
    if not changed:
        return snapshot
    jobs = [
        evolve(job, tasks=[changed.get(task.uid, task) for task in job.tasks])
        if any(task.uid in changed for task in job.tasks)
        else job
        for job in snapshot.jobs
    ]
    return evolve(snapshot, jobs=jobs)


def _without_promises(snapshot: Snapshot) -> dict[str, TaskInfo]:
    """Return the tasks that are promised a place, as they are without."""
    tasks = (task for job in snapshot.jobs for task in job.tasks)
    promised = (task for task in tasks if task.status is TaskStatus.PIPELINED)
    return {task.uid: new for task in promised if (new := as_new(task)) is not None}


def _put_back(snapshot: Snapshot, back: Mapping[str, str], *, since: float) -> Snapshot:
    """Return a snapshot in which somebody else runs tasks where they ran before, if they fit."""
    held = {node.name: [Resource()] for node in snapshot.nodes}
    tasks = [task for job in snapshot.jobs for task in job.tasks]
    for task in (*tasks, *snapshot.other_tasks):
        if task.node_name in held and task.status.holds:
            held[task.node_name].append(task.resreq)
    changed: dict[str, TaskInfo] = {}
    allocatable = {node.name: node.allocatable for node in snapshot.nodes}
    for task in tasks:
        name = back.get(task.uid, "")
        if name not in held or task.status is not TaskStatus.PENDING:
            continue
        if sum_resources([*held[name], task.resreq]).fits(allocatable[name]):
            held[name].append(task.resreq)
            changed[task.uid] = evolve(
                task, status=TaskStatus.RUNNING, node_name=name, start_time=since
            )
    return _with_tasks(snapshot, changed)


# How long anything protects


def longest(config: SchedulerConfig, snapshot: Snapshot) -> float:
    """Return the longest duration that a configuration or a snapshot names, or longer. Seconds."""
    found = [_LONG]
    for action in config.actions:
        found += _numbers(action.arguments)
    for tier in config.tiers:
        for plugin in tier.plugins:
            found += _numbers(plugin.arguments)
    for queue in snapshot.queues:
        found += [
            each
            for each in (
                queue.preempt_min_runtime, queue.reclaim_min_runtime, queue.usage_half_life
            )
            if each is not None
        ]  # fmt: skip
    for job in snapshot.jobs:
        times = (job.estimate, job.max_wait, job.claim_delay)
        found += [each for each in times if each is not None]
    return max(each for each in found if isfinite(each))


def _numbers(value: object) -> Iterator[float]:
    """Yield the numbers in arguments, also those that are written as texts."""
    if isinstance(value, Mapping):
        for each in cast("Mapping[object, object]", value).values():
            yield from _numbers(each)
    elif isinstance(value, (list, tuple)):
        for each in cast("Iterable[object]", value):
            yield from _numbers(each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, str):
        try:
            yield float(value)
        except ValueError:
            return


# Small clusters


def small_worlds() -> Iterator[Snapshot]:
    """Yield small clusters in a fixed order, the smallest first; early, those of `check_config`.

    Two to four jobs of some sizes run or wait, the running ones being older. There are one or two
    nodes and one to three queues, priorities of 0 and 1, and every choice of what runs; jobs are
    one task each, which may be evicted, or gangs of tasks of one unit. Something waits for which
    there is no room.
    """
    for total in range(3, 9):
        if total == _AFTER:
            yield from small_clusters()
        for count in range(2, 5):
            size = total - count
            if size >= 1:
                yield from _worlds(count, size, (size,), are_gangs=False)
                if size > 1:
                    yield from _worlds(count, size, (size,), are_gangs=True)
                    yield from _worlds(count, size, (size - size // 2, size // 2), are_gangs=True)


def _worlds(
    count: int, size: int, nodes: tuple[int, ...], *, are_gangs: bool
) -> Iterator[Snapshot]:
    for running in range(1, count):
        for runs in combinations_with_replacement(range(1, size + 1), running):
            if sum(runs) > size:
                continue
            for waits in product(range(1, size + 1), repeat=count - running):
                if sum(runs) + sum(waits) <= size or (are_gangs and max(*runs, *waits) == 1):
                    continue  # all find room, or gangs are single tasks
                for queues, priorities in product(_labels(count, 3), _priorities(count)):
                    yield _world(nodes, runs, waits, queues, priorities, are_gangs=are_gangs)


def _labels(count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to divide things among queues that differ in more than names."""
    for labels in product(range(most), repeat=count):
        if all(label <= max(labels[:at], default=-1) + 1 for at, label in enumerate(labels)):
            yield labels


def _priorities(count: int) -> Iterator[tuple[int, ...]]:
    return (each for each in product((0, 1), repeat=count) if 0 in each)


def _world(
    nodes: Sequence[int],
    runs: Sequence[int],
    waits: Sequence[int],
    queues: Sequence[int],
    priorities: Sequence[int],
    *,
    are_gangs: bool,
) -> Snapshot:
    free = [name for at, size in enumerate(nodes, 1) for name in [f"n{at}"] * size]
    jobs: list[JobInfo] = []
    for at, size in enumerate((*runs, *waits)):
        names = [f"j{at + 1}-{number + 1}" for number in range(size if are_gangs else 1)]
        each = 1 if are_gangs else size
        tasks: list[TaskInfo] = []
        for name in names:
            place = None
            if at < len(runs):
                place, free = free[0], free[each:]
            tasks.append(
                TaskInfo(
                    uid=name,
                    name=name,
                    resreq=_CPU * each,
                    priority=priorities[at],
                    status=TaskStatus.PENDING if place is None else TaskStatus.RUNNING,
                    node_name=place,
                )
            )
        jobs.append(
            JobInfo(
                name=f"j{at + 1}",
                queue=f"q{queues[at] + 1}",
                priority=priorities[at],
                creation_time=float(at),
                min_available=len(tasks) if are_gangs else 0,
                tasks=tasks,
            )
        )
    return Snapshot(
        nodes=[
            NodeInfo(name=f"n{at}", allocatable=_CPU * size) for at, size in enumerate(nodes, 1)
        ],
        queues=[Queue(name=f"q{number + 1}") for number in range(max(queues) + 1)],
        jobs=jobs,
        now=float(len(jobs)),
    )
