"""Ping-pong: tasks evicted and placed again and again without anything else changing."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from attrs import define, field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.testing.code import as_code, as_script
from batchsched.testing.timeless import without_times

__all__ = ["PingPong", "Watcher"]


class PingPong(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A loop: cycle after cycle evicts tasks and places them again, and comes back to its start.

    The message tells what each cycle of the loop decided. `as_code` gives the loop to paste into
    a test.
    """

    def __init__(
        self,
        snapshots: Sequence[Snapshot],
        loop: Sequence[CycleResult],
        config: SchedulerConfig,
        registry: Registry | None = None,
    ) -> None:
        self.snapshots = tuple(snapshots)
        """What each cycle of the loop was given, and what the last one led to, which is what
        the first was given but for the time."""
        self.loop = tuple(loop)
        """What the cycles of the loop decided, in order."""
        self.config = config
        self.registry = registry
        """Where the names in `config` come from; None: the default registry."""
        super().__init__(self.snapshots, self.loop, config, registry)

    @property
    def snapshot(self) -> Snapshot:
        """Where the loop begins, and comes back to."""
        return self.snapshots[0]

    def as_code(self) -> str:
        """Return code that runs the loop once and fails if it comes back to its start.

        It imports what it needs. The registry, if there was one, it takes from where it is
        pasted; a comment says so. If the scheduler does not decide this (any more), the results
        stand there as code.
        """
        further = ["from batchsched.testing import without_times"]
        times = [snapshot.now for snapshot in self.snapshots[1:]]
        if self._is_decided_again():
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

    def _is_decided_again(self) -> bool:
        try:
            scheduler = Scheduler(self.config, self.registry)
            again = tuple(scheduler.schedule(snapshot) for snapshot in self.snapshots[:-1])
        except Exception:  # plugins may raise anything; what they decided is known all the same
            return False
        return again == self.loop

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
    state: Hashable
    snapshot: Snapshot
    result: CycleResult


@define
class Watcher:
    """Follows a cluster from cycle to cycle, and sees it go round in circles.

    Time does not count as a change, so that a loop is one only if it was seen `times` times:
    a job that waits in the meantime may starve at last, and end it.
    """

    times: int = 2
    """How often a loop must be gone through to be reported."""
    config: SchedulerConfig = field(factory=SchedulerConfig)
    """The policy, for the report."""
    registry: Registry | None = None
    """Where the names in `config` come from; None: the default registry."""
    _seen: list[_Seen] = field(factory=list["_Seen"])

    def forget(self) -> None:
        """Record that something else changed."""
        self._seen.clear()

    def watch(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Record a cycle.

        Raises:
            PingPong: cycles go round in circles, with evictions.

        """
        state = _state(snapshot)
        before = [position for position, seen in enumerate(self._seen) if seen.state == state]
        if len(before) >= self.times:
            loop = self._seen[before[-1] :]
            if any(seen.result.evictions for seen in loop):
                raise PingPong(
                    [*(seen.snapshot for seen in loop), snapshot],
                    [seen.result for seen in loop],
                    self.config,
                    self.registry,
                )
        self._seen.append(_Seen(state, snapshot, result))


def _state(snapshot: Snapshot) -> Hashable:
    """Return what a snapshot says but for times."""
    return without_times(snapshot)
