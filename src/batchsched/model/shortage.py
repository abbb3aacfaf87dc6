"""Explanations of shortages: what a gang needs at once, and what a queue deserves."""

from __future__ import annotations

from attrs import frozen

from batchsched.model.resources import Resource
from batchsched.model.units import amounts_text

__all__ = ["GangNeed", "KindNeed", "QueueShare"]


@frozen(kw_only=True)
class KindNeed:
    """Tasks of a gang with the same request."""

    count: int
    """The minimum number of these tasks that the gang needs at once."""
    request: Resource
    """What each of them needs to start."""
    room: int
    """How many of them fit on an otherwise empty cluster at once, at most `count`."""

    @property
    def text(self) -> str:
        """The need as text."""
        tasks = "task" if self.count == 1 else "tasks"
        least = f"{self.count} {tasks} of {amounts_text(self.request.dimensions())}"
        return least if self.room >= self.count else f"{least}, of which {self.room} fit"


@frozen(kw_only=True)
class GangNeed:
    """The needs of a gang that cannot start in any state of the cluster.

    >>> task, all_nodes = Resource(milli_cpu=1000), Resource(milli_cpu=10000)
    >>> kind = KindNeed(count=11, request=task, room=10)
    >>> print(GangNeed(tasks=11, request=11 * task, kinds=(kind,), cluster=all_nodes, largest=task))
    its gang can never start: it needs 11 cpu at once (11 tasks of 1 cpu, of which 10 fit); \
all nodes together have 10 cpu, the largest has 1 cpu
    """

    tasks: int
    """How many tasks it needs at once."""
    request: Resource
    """The minimum that these tasks request together."""
    kinds: tuple[KindNeed, ...]
    """The tasks by request; only kinds of which the gang needs at least one."""
    cluster: Resource
    """What all nodes have together, in the dimensions that the gang requests."""
    largest: Resource
    """The most that any single node has, in each of these dimensions."""

    @property
    def text(self) -> str:
        """The need in one line."""
        kinds = f" ({'; '.join(kind.text for kind in self.kinds)})" if self.kinds else ""
        return (
            f"its gang can never start: it needs {amounts_text(self.request.dimensions())} at once"
            f"{kinds}; all nodes together have {amounts_text(self.cluster.dimensions())}, "
            f"the largest has {amounts_text(self.largest.dimensions())}"
        )

    def __str__(self) -> str:
        return self.text


@frozen(kw_only=True)
class QueueShare:
    """What a queue deserves, and what it has.

    >>> print(QueueShare(deserved=Resource(milli_cpu=2000), allocated=Resource(milli_cpu=2500)))
    it deserves 2 cpu and has 2.5 cpu
    """

    deserved: Resource
    allocated: Resource

    @property
    def text(self) -> str:
        """The share in one line."""
        deserved = amounts_text(self.deserved.dimensions())
        return f"it deserves {deserved} and has {amounts_text(self.allocated.dimensions())}"

    def __str__(self) -> str:
        return self.text
