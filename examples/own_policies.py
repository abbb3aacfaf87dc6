"""An order, a placement and a preemptive policy of one's own, for the notebook `research.ipynb`.

They stand in a module so that other processes can import them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from attrs import field, frozen

from batchsched.simulation import (
    Checkpoint,
    Decision,
    Machine,
    Nodes,
    Policy,
    RunningJob,
    Start,
    Stop,
    View,
    WaitingJob,
)


def by_slowdown(job: WaitingJob, now: float) -> float:
    """Return the key of an order for `Easy`: first whose wait is longest for what it asked for.

    The more processors a job needs, the more its wait counts (WFP3: Tang, Lan, Desai, Buettner,
    "Fault-Aware, Utility-Based Job Scheduling on Blue Gene/P Systems", CLUSTER 2009).
    """
    return -(((now - job.submit) / (job.requested or 1)) ** 3) * job.processors


@frozen
class Spread:
    """A placement that takes the nodes with the most free processors first."""

    def begin(self, machine: Machine) -> Nodes:
        """Return the nodes of a machine, all free."""
        return _Spread([machine.per_node] * machine.nodes)

    def __str__(self) -> str:
        return "spread"


class _Spread:
    def __init__(self, free: list[int]) -> None:
        self.free = free

    def take(self, processors: int) -> Sequence[tuple[int, int]] | None:
        """Take processors one by one, each on the node with the most free ones."""
        if sum(self.free) < processors:
            return None
        taken = [0] * len(self.free)
        for _ in range(processors):
            node = max(range(len(taken)), key=lambda node: self.free[node])
            self.free[node] -= 1
            taken[node] += 1
        return [(node, count) for node, count in enumerate(taken) if count]

    def give_back(self, places: Sequence[tuple[int, int]]) -> None:
        """Release the places of a job."""
        for node, count in places:
            self.free[node] += count


@frozen
class ShortFirst(Policy):
    """Two queues: jobs that ask for little time go first, and stop those that ask for more."""

    short: float = 3600
    """What a short job asks for at most, in seconds."""
    checkpoint: Checkpoint | None = field(factory=partial(Checkpoint, every=900, restart=60))

    def is_short(self, job: WaitingJob) -> bool:
        """Return whether a job belongs into the first queue."""
        return (job.requested or self.short) <= self.short

    def order(  # pyright: ignore[reportIncompatibleVariableOverride] - a function, bound here
        self,
        job: WaitingJob,
        now: float,  # noqa: ARG002
    ) -> bool:
        """Return the key of a job: short ones first, then by arrival."""
        return not self.is_short(job)

    def decide(self, view: View) -> Iterator[Decision]:
        """Start jobs in order; for a short one, stop the long ones that started last."""
        stopped = set[object]()
        for job in view.waiting:
            places = view.place(job)
            victims: list[RunningJob] = []
            if places is None and self.is_short(job):
                long = [each for each in view.running if not self.is_short(each.job)]
                for each in sorted(long, key=lambda each: -(each.start or 0)):
                    if each.id in stopped:
                        continue
                    view.give(each, each.places)
                    victims.append(each)
                    places = view.place(job)
                    if places is not None:
                        break
            if places is None:
                return
            stopped.update(each.id for each in victims)
            yield from (Stop(each.id) for each in victims)
            yield Start(job.id, places)

    def __str__(self) -> str:
        return "short first"
