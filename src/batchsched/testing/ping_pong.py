"""Loops of cycles in which tasks are evicted and nothing is gained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, evolve, field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import JobInfo, Queue, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.testing.code import as_code, as_script
from batchsched.testing.invariants.invariant import are_decided


def without_times(snapshot: Snapshot, /) -> Snapshot:
    """Return a snapshot at the time 0 in which nothing was started, attained or used.

    Two states of a cluster that differ only in these are the same for a check for loops,
    because each run of a task starts at another time, and adds to what was attained.
    O(jobs), and a copy of what is changed.

    >>> from batchsched import JobInfo, Queue
    >>> job = JobInfo(name="j", queue="q", eligible_time=5)
    >>> early, late = (Snapshot(queues=[Queue(name="q")], jobs=[job], now=now) for now in (7, 8))
    >>> early == late, without_times(early) == without_times(late)
    (False, True)
    """
    return evolve(
        snapshot,
        now=0.0,
        jobs=[_job(job) for job in snapshot.jobs],
        queues=[_queue(queue) for queue in snapshot.queues],
        other_tasks=[_task(task) for task in snapshot.other_tasks],
        evictions=(),
    )


def _queue(queue: Queue) -> Queue:
    if not queue.usage_half_life:
        return queue
    return evolve(queue, usage=Resource(), usage_by_user={})


def _job(job: JobInfo) -> JobInfo:
    tasks = [_task(task) for task in job.tasks]
    return evolve(job, tasks=tasks, plan=None, last_evicted=None)


def _task(task: TaskInfo) -> TaskInfo:
    if task.start_time is task.checkpoint_time is None and not task.attained_service:
        return task
    return evolve(task, start_time=None, attained_service=0.0, checkpoint_time=None)


@define(eq=False, repr=False)
class PingPong(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A loop of cycles that evicts tasks, places them again, and returns to its first state.

    The message lists the decisions of each cycle of the loop. `as_code` returns the loop as code to
    paste into a test.
    """

    snapshots: Sequence[Snapshot]
    """The snapshot of each cycle of the loop, and the one after the last, which equals the
    first except for the time."""
    loop: Sequence[CycleResult]
    """The results of the cycles of the loop, in order."""
    config: SchedulerConfig
    registry: Registry | None = None
    """The registry of the names in `config`; None: the default registry."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot at which the loop begins and ends."""
        return self.snapshots[0]

    def as_code(self) -> str:
        """Return code that runs the loop once and fails if it returns to its start.

        The code imports what it needs. It expects the registry, if there was one, where it is
        pasted; a comment marks this. If the scheduler does not make these decisions (any more),
        the code contains the results.
        """
        further = ["from batchsched.testing import without_times"]
        times = [snapshot.now for snapshot in self.snapshots[1:]]
        if are_decided(self.snapshots[:-1], self.loop, self.config, self.registry):
            registry = ""
            if self.registry is not None:
                further.append("# registry: what the names in the configuration come from")
                registry = ", registry"
            policy = f"config = {as_code(self.config)}\nscheduler = Scheduler(config{registry})\n"
            each = f"for now in {times!r}:\n    result = scheduler.schedule(snapshot)\n"
        else:
            policy = f"results = {as_code(list(self.loop))}\n"
            each = f"for now, result in zip({times!r}, results, strict=True):\n"
        return as_script(
            f"snapshot = first = {as_code(self.snapshot)}\n"
            f"{policy}"
            "evictions = []\n"
            f"{each}"
            "    evictions.extend(result.evictions)\n"
            "    snapshot = next_snapshot(snapshot, result, now=now)\n"
            "is_back = without_times(snapshot) == without_times(first)\n"
            'assert not (evictions and is_back), "ping-pong"\n',
            *further,
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        tasks = sorted({eviction.task_uid for result in self.loop for eviction in result.evictions})
        cycles = "every cycle" if len(self.loop) == 1 else f"every {len(self.loop)} cycles"
        yield f"ping-pong: {', '.join(tasks)} evicted and placed again {cycles}, for ever:"
        for number, result in enumerate(self.loop, start=1):
            decisions = [
                *(
                    f"evict {e.task_uid} from {e.node_name} ({e.action} for {e.for_task_uid})"
                    for e in result.evictions
                ),
                *(f"promise {p.task_uid} a place on {p.node_name}" for p in result.pipelined),
                *(f"bind {bind.task_uid} to {bind.node_name}" for bind in result.binds),
            ]
            yield f"  cycle {number}: {'; '.join(decisions) or 'nothing'}"


@frozen
class _Seen:
    state: Snapshot
    snapshot: Snapshot
    result: CycleResult


@define
class Watcher:
    """Follows a cluster from cycle to cycle, and detects loops.

    Time does not count as a change, so a loop is reported only after `times` passes: a waiting job
    may become starving in the meantime, and end it.
    """

    times: int = 2
    """The number of passes after which a loop is reported."""
    config: SchedulerConfig = field(factory=SchedulerConfig)
    """The policy, for the report."""
    registry: Registry | None = None
    """The registry of the names in `config`; None: the default registry."""
    _seen: list[_Seen] = field(factory=list["_Seen"])

    def forget(self) -> None:
        """Record that something else changed."""
        self._seen.clear()

    def watch(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Record a cycle.

        Raises:
            PingPong: the cycles form a loop with evictions.

        """
        state = without_times(snapshot)
        before = [position for position, seen in enumerate(self._seen) if seen.state == state]
        if len(before) >= self.times:
            loop = self._seen[before[-1] :]
            if any(seen.result.evictions for seen in loop):
                snapshots = [*(seen.snapshot for seen in loop), snapshot]
                results = [seen.result for seen in loop]
                raise PingPong(snapshots, results, self.config, self.registry)
        self._seen.append(_Seen(state, snapshot, result))
