"""The state shared while one set of objects is read: faults, notices and interned values."""

from __future__ import annotations

import re
from collections.abc import Hashable
from datetime import datetime
from typing import TypeVar, cast

from batchsched.errors import Fault, QuantityError
from batchsched.kubernetes.quantities import milli_value, value
from batchsched.model.notice import NoticeCollector
from batchsched.model.validation.values import shown

__all__ = ["Reading", "seconds_of"]

HashableT = TypeVar("HashableT", bound=Hashable)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def seconds_of(time: str | datetime, /) -> float:
    """Return a time in seconds since 1970-01-01T00:00:00Z.

    Raises:
        ValueError: `time` is not an RFC 3339 string, or is a datetime without a time zone.

    >>> seconds_of("1970-01-02T00:00:00Z"), seconds_of("1970-01-01T01:00:00.5+01:00")
    (86400.0, 0.5)

    """
    if isinstance(time, str):
        if _TIME.fullmatch(time) is None:
            raise ValueError(
                f"expected an RFC 3339 time such as 2026-01-31T08:00:00Z, got {shown(time)}"
            )
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise ValueError(f"expected a time, got {shown(time)}: {error}") from None
    if time.tzinfo is None:
        # Its meaning would depend on the machine that reads it.
        raise ValueError(f"expected a datetime with a time zone, got {time!r}")
    return time.timestamp()


class Reading:
    """The state shared while one set of objects is read: faults, notices and interned values.

    Most pods of a cluster are alike. Equal values become one object, which saves memory and
    lets the snapshot check each value once.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.notices = NoticeCollector()
        self.latest: float | None = None
        """The latest past time in any object, in seconds."""
        self._shared: dict[Hashable, Hashable] = {}
        self._times: dict[str, float] = {}
        self._milli_values: dict[str, int] = {}
        self._values: dict[str, int] = {}

    def fault(self, path: str, message: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(path, message))

    def shared(self, given: HashableT) -> HashableT:
        """Return the first value seen that equals `given`.

        Equal values of different types would be confused: do not mix types here.
        """
        return cast("HashableT", self._shared.setdefault(given, given))

    def seconds(self, time: object) -> float:
        """Return a time in seconds.

        Raises:
            ValueError: `time` is not a valid time.

        """
        if isinstance(time, str):
            known = self._times.get(time)
            if known is None:
                known = self._times[time] = seconds_of(time)
            return known
        if isinstance(time, datetime):
            return seconds_of(time)
        raise ValueError(f"expected a time, got {shown(time)}; use RFC 3339 or a datetime")

    def amount(self, given: object, *, milli: bool) -> int:
        """Return a quantity as a whole number of units or of thousandths, rounded up.

        Raises:
            QuantityError: `given` is not a quantity, or is negative.

        """
        known = self._milli_values if milli else self._values
        if isinstance(given, str):
            amount = known.get(given)
            if amount is not None:
                return amount
        elif not isinstance(given, (int, float)):
            raise QuantityError(
                f"expected a quantity, got {shown(given)}; use a string such as 250m or 1Gi"
            )
        amount = milli_value(given) if milli else value(given)
        if amount < 0:
            raise QuantityError(f"expected 0 or more, got {shown(given)}")
        if isinstance(given, str):  # numbers are not cached: True and 1 would be the same key
            known[given] = amount
        return amount
