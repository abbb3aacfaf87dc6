"""Checks of the columns of a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from batchsched.errors import Fault

__all__ = ["faults_of"]


def faults_of(
    columns: Mapping[str, Sequence[object]], required: Sequence[str], optional: Sequence[str]
) -> Iterator[Fault]:
    """Yield everything wrong with the columns of a workload."""
    known = (*required, *optional)
    shapes = [
        Fault(name, "expected a column of this name, got none")
        for name in required
        if name not in columns
    ]
    shapes += [
        Fault(str(name), f"unknown column; expected one of {', '.join(known)}")
        for name in columns
        if name not in known
    ]
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shapes.append(
            Fault("columns", f"expected columns of equal length, got the lengths {lengths}")
        )
    if shapes:
        yield from shapes
        return
    ids = columns["id"]
    id_faults = list(_faults_of_ids(ids))
    if id_faults:
        yield from id_faults
        return
    for name, rule in _NUMBER_COLUMNS.items():
        for index, value in enumerate(columns.get(name, ())):
            if not rule.allows(value):
                yield Fault(f"jobs[{ids[index]!r}].{name}", f"expected {rule.what}, got {value!r}")
    if "after" in columns:
        yield from _faults_of_dependencies(ids, columns["after"])


class _Number:
    """The range of values that a column may have."""

    def __init__(
        self, what: str, *, least: float, whole: bool = False, above: bool = False, known: bool
    ) -> None:
        self.what = what
        self._least = least
        self._types: tuple[type, ...] = (int,) if whole else (int, float)
        self._above = above
        self._known = known

    def allows(self, value: object) -> bool:
        if type(value) in self._types:
            assert isinstance(value, int | float)
            if value > self._least:
                # Integers are always finite, and large ones do not fit into a float.
                return type(value) is int or isfinite(value)
            return value == self._least and not self._above
        return value is None and not self._known


_NUMBER_COLUMNS = {
    "submit": _Number("a time in seconds, 0 or later", least=0, known=True),
    "run": _Number("a time in seconds, 0 or more", least=0, known=True),
    "processors": _Number("a whole number, 1 or more", least=1, whole=True, known=True),
    "requested": _Number("a time in seconds above 0, or None", least=0, above=True, known=False),
    "think": _Number("a time in seconds, 0 or more", least=0, known=False),
}


def _faults_of_ids(ids: Sequence[object]) -> Iterator[Fault]:
    types = {type(each) for each in ids}
    if not (types <= {int} or types <= {str}):
        names = sorted(each.__name__ for each in types)
        yield Fault(
            "id", f"expected ids that are all whole numbers or all text, got {', '.join(names)}"
        )
        return
    if len(set(ids)) < len(ids):
        seen = set[object]()
        for each in ids:
            if each in seen:
                yield Fault(f"jobs[{each!r}]", "expected unique ids, got this one more than once")
            seen.add(each)


def _faults_of_dependencies(ids: Sequence[object], after: Sequence[object]) -> Iterator[Fault]:
    before = {each: other for each, other in zip(ids, after, strict=True) if other is not None}
    known = set(ids)
    for each, other in before.items():
        if other not in known:
            yield Fault(
                f"jobs[{each!r}].after", f"expected the id of a job in this workload, got {other!r}"
            )
    # Each job depends on at most one other, so a path that never ends is a cycle.
    safe = known - before.keys()
    for each in before:
        path = dict[object, None]()
        step = each
        while step in before and step not in safe and step not in path:
            path[step] = None
            step = before[step]
        if step in path:
            passed = list(path)
            around = [*passed[passed.index(step) :], step]
            yield Fault(
                f"jobs[{step!r}].after",
                f"jobs depend on each other: {' after '.join(map(repr, around))}",
            )
        safe.update(path)
