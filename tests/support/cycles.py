"""Cycles on a cluster that lives: what one decides takes effect, and then things happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from batchsched import CycleResult, Scheduler, Snapshot, TaskInfo, as_new
from batchsched.live import AttachedScheduler, Cluster, Event, TimePassed


class Cycles:
    """Runs cycles on a living cluster, and lets time and events pass between them."""

    scheduler: Scheduler
    _live: AttachedScheduler

    def __init__(
        self,
        using: Scheduler,
        start: Snapshot,
        *,
        leaving: int = 1,
        keep_reservations: bool = True,
    ) -> None:
        self.cluster = Cluster(start)
        self.decide_with(using)
        self.leaving = leaving
        """How many cycles it takes a task that is evicted to leave."""
        self.keep_reservations = keep_reservations
        self.number = 0
        """How many cycles have run."""
        self.result: CycleResult | None = None
        """What the last cycle decided, unless it has taken effect already."""
        self.leaves: dict[str, int] = {}
        """Task that is leaving to the last cycle before which it is there."""

    @property
    def snapshot(self) -> Snapshot:
        return self.cluster.snapshot()

    @property
    def now(self) -> float:
        return self.cluster.now

    def decide_with(self, using: Scheduler) -> None:
        """Let another scheduler decide from now on."""
        self.scheduler = using
        self._live = using.attach(self.cluster)

    def cycle(self) -> CycleResult:
        """Run one cycle on the cluster as it is."""
        self.result = result = self._live.schedule()
        self.number += 1
        for eviction in result.evictions:
            self.leaves[eviction.task_uid] = self.number + self.leaving
        return result

    def step(
        self,
        *events: Event,
        now: float | None = None,
        not_started: Iterable[str] = (),
        still_releasing: Iterable[str] = (),
        replacement: Callable[[TaskInfo], TaskInfo | None] = as_new,
    ) -> None:
        """Carry out the last result; then a second passes, or more, and events happen."""
        self.leaves = {uid: last for uid, last in self.leaves.items() if last > self.number + 1}
        if self.result is not None:
            self.cluster.carry_out(
                self.result,
                not_started=not_started,
                still_releasing=[*self.leaves, *still_releasing],
                replacement=replacement,
                keep_reservations=self.keep_reservations,
                at_once=True,
            )
            self.result = None
        self.cluster.apply(TimePassed(self.now + 1 if now is None else now), *events)
