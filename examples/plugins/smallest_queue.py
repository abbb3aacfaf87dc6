"""An order of queues: the queue whose tasks hold least of one dimension comes next."""

from __future__ import annotations

from collections import Counter

from attrs import frozen

from batchsched import Arguments
from batchsched.plugin import QueueState, SessionView, TaskState


@frozen
class SmallestQueue:
    """Ranks queues by what their tasks hold of one dimension, divided by the weight."""

    dimension: str = "cpu"

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> SmallestQueue:
        """Read ``dimension``, such as ``nvidia.com/gpu``."""
        return cls(arguments.text("dimension", default="cpu"))

    def open(self, view: SessionView, /) -> OpenSmallestQueue:
        """Open for one cycle."""
        return OpenSmallestQueue(self.dimension, view)


class OpenSmallestQueue:
    """Counts what queues hold; a change of that is a change of the queue's own amounts."""

    def __init__(self, dimension: str, view: SessionView) -> None:
        """Count what queues hold as the cycle begins."""
        self._dimension = dimension
        self._held = Counter[str]()
        for task in view.tasks.values():
            if task.status.charged and not task.is_held:
                self.on_allocate(task)

    def queue_order_key(self, queue: QueueState, /) -> float:
        """Return what the queue's tasks hold by its weight; queues of weight 0 come last."""
        weight = queue.info.weight
        return self._held[queue.name] / weight if weight else float("inf")

    def on_allocate(self, task: TaskState, /) -> None:
        """Charge a task to its queue."""
        self._charge(task, 1)

    def on_deallocate(self, task: TaskState, /) -> None:
        """Charge it no more."""
        self._charge(task, -1)

    def _charge(self, task: TaskState, sign: int) -> None:
        if task.job is not None:
            amount = int(task.info.resreq.get(self._dimension))
            self._held[task.job.info.queue] += sign * amount
