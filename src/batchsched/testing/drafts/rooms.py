"""Place running tasks of examples on nodes that have room for them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from batchsched.model.cluster import NodeInfo
from batchsched.model.resources import Resource
from batchsched.testing.drafts.pools import DEVICES

__all__ = ["Rooms"]

_GONE = "gone"


@define
class _Room:
    """The free resources of a node while running tasks are placed."""

    name: str
    milli_cpu: float
    memory: float
    gpus: float
    fpgas: float

    def take(self, resreq: Resource) -> bool:
        gpus, fpgas = (resreq.scalars.get(name, 0) for name in DEVICES)
        if (
            resreq.milli_cpu > self.milli_cpu
            or resreq.memory > self.memory
            or gpus > self.gpus
            or fpgas > self.fpgas
        ):
            return False
        self.milli_cpu -= resreq.milli_cpu
        self.memory -= resreq.memory
        self.gpus -= gpus
        self.fpgas -= fpgas
        return True


class Rooms:
    """Finds nodes with room."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        self._rooms = [
            _Room(
                node.name,
                node.allocatable.milli_cpu,
                node.allocatable.memory,
                *(node.allocatable.scalars.get(name, 0) for name in DEVICES),
            )
            for node in nodes
        ]

    def place(self, resreq: Resource, start: int) -> str | None:
        """Take room on a node, the drawn one if possible; return its name, or None."""
        count = len(self._rooms)
        for step in range(count):
            room = self._rooms[(start + step) % count]
            if room.take(resreq):
                return room.name
        return None

    def any_name(self, draft: int) -> str:
        """Return the name of a drawn node, or of one that does not exist."""
        names = [*(room.name for room in self._rooms), _GONE]
        return names[draft % len(names)]
