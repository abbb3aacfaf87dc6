"""Ping-pong: tasks evicted and placed again and again without anything else changing."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from attrs import define, field, frozen

from batchsched.result import CycleResult
from batchsched.snapshot import Snapshot

__all__ = ["PingPong", "Watcher"]


class PingPong(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A loop: cycle after cycle evicts tasks and places them again, and comes back to its start.

    The message tells what each cycle of the loop decided.
    """

    def __init__(self, snapshot: Snapshot, loop: Sequence[CycleResult]) -> None:
        self.snapshot = snapshot
        """Where the loop begins, and comes back to."""
        self.loop = tuple(loop)
        """What the cycles of the loop decided, in order."""
        super().__init__(snapshot, self.loop)

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
    _seen: list[_Seen] = field(factory=list["_Seen"])

    def forget(self) -> None:
        """Take note that something else changed."""
        self._seen.clear()

    def watch(self, snapshot: Snapshot, result: CycleResult) -> None:
        """Take note of a cycle.

        Raises:
            PingPong: cycles go round in circles, with evictions.

        """
        state = _state(snapshot)
        before = [position for position, seen in enumerate(self._seen) if seen.state == state]
        if len(before) >= self.times:
            loop = self._seen[before[-1] :]
            if any(seen.result.evictions for seen in loop):
                raise PingPong(loop[0].snapshot, [seen.result for seen in loop])
        self._seen.append(_Seen(state, snapshot, result))

    def goes_round(self, snapshot: Snapshot) -> bool:
        """Return whether there was this very state before."""
        state = _state(snapshot)
        return any(seen.state == state for seen in self._seen)


def _state(snapshot: Snapshot) -> Hashable:
    """Return what a snapshot says but for the time."""
    return snapshot.nodes, snapshot.jobs, snapshot.queues, snapshot.other_tasks
