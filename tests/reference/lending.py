"""What is never lent to queues from which nothing is reclaimed, and several limits as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from batchsched import Queue, Resource, TaskInfo
from tests.reference.conf import Arguments
from tests.reference.holdings import CHARGED
from tests.reference.plugins import Plugin
from tests.reference.state import State

__all__ = ["AllLimits", "Limits", "Protection"]


class Limits(Protocol):
    """Limits what queues hold."""

    def allows(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo] = (), /
    ) -> bool:
        """Return whether a queue may take tasks, without some others."""
        ...

    def never_allows(self, queue: Queue, tasks: Sequence[TaskInfo], /) -> bool:
        """Return whether a queue may never take tasks, whatever leaves."""
        ...

    def lacks_room_alone(self, queue: Queue, tasks: Sequence[TaskInfo], /) -> bool:
        """Return whether only what others hold now keeps tasks out of a queue."""
        ...


class AllLimits:
    """Several limits, which must all allow what a queue takes."""

    def __init__(self, several: Sequence[Limits]) -> None:
        self._several = several

    def allows(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo] = ()
    ) -> bool:
        """Return whether all of them allow it."""
        return all(each.allows(queue, tasks, leaving) for each in self._several)

    def never_allows(self, queue: Queue, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether any of them never allows it."""
        return any(each.never_allows(queue, tasks) for each in self._several)

    def lacks_room_alone(self, queue: Queue, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether the first that refuses does so only for what others hold now."""
        refusing = (each for each in self._several if not each.allows(queue, tasks))
        first = next(refusing, None)
        return first is None or first.lacks_room_alone(queue, tasks)


class Protection(Plugin):
    """A queue that is not reclaimable, with those below it, holds at most what it deserves.

    Or what it is guaranteed, if that is more. Nothing else of this plugin is asked for where
    decisions are compared.
    """

    def __init__(self, state: State, arguments: Arguments) -> None:
        self._state = state
        self._is_within = arguments.boolean("withinDeserved", default=True)

    @property
    def limits_any(self) -> bool:
        """Whether it limits any queue."""
        return self._is_within and any(not q.reclaimable for q in self._state.snapshot.queues)

    def allows(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo] = ()
    ) -> bool:
        """Return whether each queue from this one to the top may hold tasks, without others."""
        queues = {each.name: each for each in self._state.snapshot.queues}
        name: str | None = queue.name
        while name is not None:
            if not queues[name].reclaimable and self._exceeds(queues[name], tasks, leaving):
                return False
            name = queues[name].parent
        return True

    def _exceeds(
        self, queue: Queue, tasks: Sequence[TaskInfo], leaving: Sequence[TaskInfo]
    ) -> bool:
        state = self._state
        below = {queue.name}
        for _ in state.snapshot.queues:
            below |= {each.name for each in state.snapshot.queues if each.parent in below}
        there = [
            task
            for job in state.snapshot.jobs
            if job.queue in below
            for task in job.tasks
            if state.status(task) in CHARGED and not state.is_backfill(task)
        ]
        gone = [task for task in there if task.uid in {each.uid for each in leaving}]
        for dimension in self._named(tasks):
            held, lost, more = (
                sum(int(task.resreq.get(dimension)) for task in some)
                for some in (there, gone, self._charged(tasks))
            )
            most = _most(queue, dimension)
            if most is not None and more > lost and held - lost + more > most:
                return True
        return False

    def _charged(self, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        return [task for task in tasks if not self._state.is_backfill(task)]

    def _named(self, tasks: Sequence[TaskInfo]) -> list[str]:
        """Return the dimensions that tasks request."""
        names = {name for task in tasks for name, _ in task.resreq.dimensions()}
        return sorted(name for name in names if any(task.resreq.get(name) for task in tasks))

    def never_allows(self, _queue: Queue, _tasks: Sequence[TaskInfo]) -> bool:
        """Return False: it does not say what is too much for ever."""
        return False

    def lacks_room_alone(self, _queue: Queue, _tasks: Sequence[TaskInfo]) -> bool:
        """Return False: what it refuses is a queue's own doing."""
        return False


def _most(queue: Queue, dimension: str) -> int | None:
    """Return how much a queue may keep of a resource; None: any amount."""
    if queue.deserved is None:
        return None
    guarantee = int(queue.guarantee.get(dimension))
    if queue.deserved == Resource():  # it does not say what it deserves
        return guarantee or None
    deserved = queue.deserved.get(dimension)
    return None if deserved is None else max(int(deserved), guarantee)
