"""What a caller says has happened since the last cycle, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from batchsched.checks import is_of, is_text, shown, time_problems
from batchsched.errors import Fault, SnapshotError
from batchsched.model import NodeInfo
from batchsched.result import CycleResult
from batchsched.snapshot import Snapshot

__all__ = ["Given"]

T = TypeVar("T")


class Given:
    """Reads the arguments of a caller, and takes note of everything that is wrong with them."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def events(self, named: Mapping[str, Iterable[str]]) -> dict[str, str]:
        """Return task UID to the name of what happened to the task."""
        of: dict[str, str] = {}
        for event, given in named.items():
            for uid in self.uids(event, given):
                if uid in of:
                    self.refuse(f"{event}[{uid!r}]", f"{of[uid]!r} names the task already")
                else:
                    of[uid] = event
        return of

    def uids(self, name: str, given: Iterable[str]) -> tuple[str, ...]:
        """Return those of the items that can be UIDs at all."""
        return self._sound(name, given, str, "UID; a UID is a text")

    def each(self, name: str, given: Iterable[T], kind: type[T]) -> tuple[T, ...]:
        """Return those of the items that are of a kind."""
        return self._sound(name, given, kind, kind.__name__)

    def only_sound(self, nodes: tuple[NodeInfo, ...] | None) -> tuple[NodeInfo, ...] | None:
        """Return the nodes if they can be looked at: if all of them are there and are sound."""
        if nodes is None or any(fault.path.startswith("nodes") for fault in self.faults):
            return None
        try:
            return Snapshot(nodes=nodes).nodes
        except SnapshotError:
            return None

    def check_now(self, now: float, *, before: float) -> None:
        """Check the time of the next cycle, given that of the last."""
        problems = list(time_problems("now", now))
        if not problems and now < before:
            problems = [("now", f"{now!r} is before the last cycle, which was at {before!r}")]
        for path, message in problems:
            self.refuse(path, message)

    def can_be_used(
        self, snapshot: object, result: object, replacement: object, keep_reservations: object
    ) -> bool:
        """Return whether these are what they should be; if not, nothing else can be told."""
        before = len(self.faults)
        if not is_of(snapshot, Snapshot):
            self.refuse("snapshot", f"{shown(snapshot)} is no Snapshot")
        if result is not None and not is_of(result, CycleResult):
            self.refuse("result", f"{shown(result)} is no CycleResult")
        if not callable(replacement):
            message = f"{shown(replacement)} cannot be called; leave it out, or give a function"
            self.refuse("replacement", message)
        if not is_of(keep_reservations, bool):
            message = f"{shown(keep_reservations)} is neither True nor False"
            self.refuse("keep_reservations", message)
        return len(self.faults) == before

    def refuse(self, path: str, message: str) -> None:
        """Take note of a fault."""
        self.faults.append(Fault(path, message))

    def _sound(self, name: str, given: object, kind: type[T], what: str) -> tuple[T, ...]:
        if is_text(given):
            # It would be taken letter by letter.
            self.refuse(name, f"{shown(given)} is one text; use [{shown(given)}]")
            return ()
        if not isinstance(given, Iterable):
            self.refuse(name, f"{shown(given)} is no collection; use a list")
            return ()
        sound: list[T] = []
        for position, item in enumerate(cast("Iterable[object]", given)):
            if is_of(item, kind):
                sound.append(item)
            else:
                self.refuse(f"{name}[{position}]", f"{shown(item)} is no {what}")
        return tuple(sound)
