"""Reads and validates the arguments that describe what happened since the last cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from batchsched.errors import Fault, SnapshotError
from batchsched.model.cluster import NodeInfo
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import (
    is_mapping,
    is_of,
    is_text,
    join_path,
    shown,
    time_problems,
)

__all__ = ["ArgumentReader"]

T = TypeVar("T")


class ArgumentReader:
    """Reads arguments of a caller, and collects all faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def events(self, named: Mapping[str, Iterable[str]]) -> dict[str, str]:
        """Return the name of the event of each task, by UID."""
        of: dict[str, str] = {}
        for event, given in named.items():
            for uid in self.uids(event, given):
                if uid in of:
                    self.refuse(f"{event}[{uid!r}]", f"{of[uid]!r} names the task already")
                else:
                    of[uid] = event
        return of

    def uids(self, name: str, given: object) -> tuple[str, ...]:
        """Return the items that are strings, and report the others."""
        if is_text(given):
            # Iterating over it would yield its letters.
            self.refuse(name, f"expected a list, got {shown(given)}; use [{shown(given)}]")
            return ()
        if not isinstance(given, Iterable):
            self.refuse(name, f"expected a collection, got {shown(given)}; use a list")
            return ()
        items = cast("Iterable[object]", given)
        return self._sound(name, items, str, "UID (a string)", lambda _uid: ())

    def each(
        self,
        name: str,
        given: object,
        kind: type[T],
        problems: Callable[[T], Iterable[tuple[str, str]]] = lambda _item: (),
    ) -> tuple[T, ...]:
        """Return the items that have the type and no problems, and report the others."""
        if is_text(given) or is_mapping(given) or not isinstance(given, Iterable):
            self.refuse(
                name, (f"expected a collection of {kind.__name__}, got {shown(given)}; use a list")
            )
            return ()
        return self._sound(name, cast("Iterable[object]", given), kind, kind.__name__, problems)

    def only_sound(self, nodes: tuple[NodeInfo, ...] | None) -> tuple[NodeInfo, ...] | None:
        """Return the nodes if all of them are valid, else None."""
        if nodes is None or any(fault.path.startswith("nodes") for fault in self.faults):
            return None
        try:
            return Snapshot(nodes=nodes).nodes
        except SnapshotError:
            return None

    def snapshot(self, snapshot: object) -> Snapshot | None:
        """Return the snapshot, or None, with a fault, if it is not a `Snapshot`."""
        if is_of(snapshot, Snapshot):
            return snapshot
        self.refuse("snapshot", f"expected a Snapshot, got {shown(snapshot)}")
        return None

    def check_now(self, now: float, *, before: float | None) -> None:
        """Check the time of the next cycle, given that of the last one if known."""
        problems = list(time_problems("now", now))
        if not problems and before is not None and now < before:
            problems = [("now", f"{now!r} is before the last cycle, which was at {before!r}")]
        for path, message in problems:
            self.refuse(path, message)

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(path, message))

    def _sound(
        self,
        name: str,
        given: Iterable[object],
        kind: type[T],
        what: str,
        problems: Callable[[T], Iterable[tuple[str, str]]],
    ) -> tuple[T, ...]:
        sound: list[T] = []
        for position, item in enumerate(given):
            if not is_of(item, kind):
                self.refuse(f"{name}[{position}]", f"expected a {what}, got {shown(item)}")
                continue
            is_sound = True
            for path, message in problems(item):
                self.refuse(join_path(f"{name}[{position}]", path), message)
                is_sound = False
            if is_sound:
                sound.append(item)
        return tuple(sound)
