"""A choice that leaves the cycle: each task that asks for GPUs gets GPUs by number.

A node has as many GPUs as its scalar ``nvidia.com/gpu`` says. Which of them a task gets is chosen
when it is placed. `Bind.choices` tells it, and the next cycle knows it from `TaskInfo.choices`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from itertools import combinations
from typing import cast

from attrs import frozen

from batchsched import Arguments, TaskStatus, Unfit, UnfitReason
from batchsched.plugin import Fit, NodeState, SessionView, TaskState

GPU = "nvidia.com/gpu"
TAKEN = Unfit(
    UnfitReason.REFUSED_BY_PLUGIN, plugin="gpus", detail="the GPUs that are left are taken"
)


@frozen
class Gpus:
    """Gives tasks GPUs by number; the plugin has no arguments."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> Gpus:
        """Read nothing."""
        return cls()

    def open(self, _view: SessionView, /) -> OpenGpus:
        """Open for one cycle."""
        return OpenGpus()


class OpenGpus:
    """Chooses the first GPUs that are free."""

    def choice_signature(self, task: TaskState, /) -> Hashable | None:
        """Return how many GPUs a task wants; None: none, so that nothing is chosen for it."""
        return int(task.info.resreq.get(GPU)) // 1000 or None

    def choose(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        gone: Collection[TaskState] = (),
        kept: Hashable | None = None,
    ) -> Hashable | Unfit | None:
        """Return the numbers of the GPUs that a task gets on a node."""
        held: set[int] = set()
        for other in node.tasks.values():
            leaves = other.status is TaskStatus.RELEASING and fit is Fit.LATER
            lends = other.is_backfill and fit is Fit.CONDITIONALLY
            if not (leaves or lends or other in gone):
                held.update(cast("tuple[int, ...]", other.choices.get("gpus", ())))
        there = int(node.info.allocatable.get(GPU)) // 1000
        free = [number for number in range(there) if number not in held]
        wanted = int(task.info.resreq.get(GPU)) // 1000
        options = combinations(free, wanted)
        return next((each for each in options if kept is None or kept == each), TAKEN)
