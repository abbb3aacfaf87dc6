"""Loops of cycles in which tasks are evicted and nothing is gained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import define, evolve

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import JobInfo, Queue, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.scheduler import Scheduler
from batchsched.tools.code import as_code, as_script


@checks_arguments()
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


def are_decided(
    snapshots: Iterable[Snapshot],
    results: Sequence[CycleResult],
    config: SchedulerConfig,
    registry: Registry | None,
) -> bool:
    """Return whether a new scheduler decides the same again on the snapshots, one by one."""
    try:
        scheduler = Scheduler(config, registry)
        return [scheduler.schedule(snapshot) for snapshot in snapshots] == list(results)
    except Exception:  # plugins may raise anything; the recorded decisions are known
        return False


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
    promises: str = "kept"
    """What becomes of promises between its cycles; see `find_cycles`."""
    proved: bool = True
    """Whether it returns to its first state. If not, it was still evicting when the search ended,
    and these are its last cycles."""

    @property
    def evicted(self) -> tuple[str, ...]:
        """The tasks that it evicts, in order of UID."""
        uids = {each.task_uid for result in self.loop for each in result.evictions}
        return tuple(sorted(uids))

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot at which the loop begins and ends."""
        return self.snapshots[0]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the loop as dicts, lists, strings and numbers only, ready for JSON."""
        return {
            "evicted": [*self.evicted],
            "proved": self.proved,
            "promises": self.promises,
            "snapshot": self.snapshot.to_dict(),
            "cycles": [result.to_dict() for result in self.loop],
            "lines": [*self._lines()],
        }

    def as_code(self) -> str:
        """Return code that runs the loop once and fails if it returns to its start.

        The code imports what it needs. It expects the registry, if there was one, where it is
        pasted; a comment marks this. If the scheduler does not make these decisions (any more),
        the code contains the results.
        """
        carries_on = "next_snapshot(snapshot, result, now=now)"
        further = ["from batchsched.tools import without_times"]
        if self.promises != "kept":
            carries_on = f"next_round(snapshot, result, now=now, promises={self.promises!r})"
            further = ["from batchsched.tools import next_round, without_times"]
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
        is_back = "without_times(snapshot) == without_times(first)" if self.proved else "True"
        return as_script(
            f"snapshot = first = {as_code(self.snapshot)}\n"
            f"{policy}"
            "evictions = []\n"
            f"{each}"
            "    evictions.extend(result.evictions)\n"
            f"    snapshot = {carries_on}\n"
            f"is_back = {is_back}\n"
            'assert not (evictions and is_back), "ping-pong"\n',
            *further,
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        cycles = "every cycle" if len(self.loop) == 1 else f"every {len(self.loop)} cycles"
        how = f"{cycles}, for ever" if self.proved else "in cycle after cycle, as far as was looked"
        yield f"ping-pong: {', '.join(self.evicted)} evicted and placed again {how}:"
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
