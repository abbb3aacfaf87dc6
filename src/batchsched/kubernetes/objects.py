"""Typed access to plain Kubernetes objects, with a fault for every value that cannot be read.

An object is a mapping with the keys of the API (``nodeName``), as in ``kubectl get -o json``, or
those of the official Python client's ``to_dict()`` (``node_name``). Keys that users choose (labels,
annotations, names of resources) are never converted. Faults name the API's keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TypeGuard, TypeVar, cast

from attrs import frozen

from batchsched.errors import Fault, QuantityError, shown_problem
from batchsched.kubernetes import api
from batchsched.model.immutable import EMPTY, FrozenMap
from batchsched.model.notice import NoticeCode, NoticeCollector
from batchsched.model.resources import milli_value, value
from batchsched.model.validation.values import (
    is_of,
    is_text,
    join_path,
    shown,
)

Objects = Iterable[Mapping[str, object]] | Mapping[str, object]
"""Objects of one kind: a collection of them, or a ``List`` object with ``items``."""
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


def time_text(seconds: float, /) -> str:
    """Return a time, given in seconds since 1970, as RFC 3339 in UTC; fractions are cut.

    >>> time_text(86400.5), time_text(1e300)
    ('1970-01-02T00:00:00Z', '1e+300 s')
    """
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")
    except (OverflowError, ValueError, OSError):  # no year of four digits
        return f"{seconds:g} s"


NoticeKey = tuple[NoticeCode, str, str, str]
"""The code, kind, field and consequence of a notice, which tell it from all others."""


class Reading:
    """The state shared while one set of objects is read: faults, notices and interned values.

    Most pods of a cluster are alike. Equal values become one object, which saves memory and
    lets the snapshot check each value once.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.notices = NoticeCollector()
        self.noted: dict[str, list[NoticeKey]] = {}
        """What notices there are of an object, by its path."""
        self.theirs = True
        """Whether what others have admitted counts, and is held where they have not."""
        self.kueue_admits = False
        """Whether what Kueue decided is read, so that what it decides by need not be."""
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

    def take_past(self, seconds: float) -> None:
        """Take in a past time, which is a bound of the present."""
        if self.latest is None or seconds > self.latest:
            self.latest = seconds

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


EnumT = TypeVar("EnumT", bound=Enum)
_MISSING = "is missing"
_NOTHING: Mapping[str, object] = {}


class _SnakeCase(dict[str, str]):
    """The Python client's names for the API's keys, computed on first use."""

    def __missing__(self, key: str) -> str:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
        self[key] = found = key if words == key else words
        return found


_snake_case = _SnakeCase()


def is_mapping(given: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether something is a mapping of an object."""
    # Keys read from JSON are strings; `text_map` checks them where it matters.
    # `dict` is tested first, as the test against the abstract class takes much longer.
    try:
        return isinstance(given, (dict, Mapping))
    except Exception:  # a property `__class__` may raise anything
        return False


def is_sequence(given: object) -> TypeGuard[Sequence[object]]:
    """Return whether something is a list of an object."""
    try:
        return isinstance(given, (list, tuple)) or (
            isinstance(given, Sequence) and not isinstance(given, (str, bytes))
        )
    except Exception:  # a property `__class__` may raise anything
        return False


def look_up(given: object, key: str, /) -> object:
    """Return the value of a mapping at `key`, by either of its names, or None."""
    if not is_mapping(given):
        return None
    found = given.get(key)
    if found is None and (snake_case := _snake_case[key]) is not key:
        return given.get(snake_case)
    return found


def text_at(given: object, key: str, /) -> str:
    """Return the string of a mapping at `key`; empty: there is none."""
    found = look_up(given, key)
    return found if isinstance(found, str) else ""


def api_group_of(given: object, /) -> str:
    """Return the API group of an object, by its ``apiVersion``; empty: the core group, or none."""
    group, slash, _ = text_at(given, "apiVersion").partition("/")
    return group if slash else ""


_MOST_DIGITS = 40


def whole_number(text: str, /) -> int | None:
    """Return the number that digits in a label or an annotation are; None: they are none."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


def annotation(key: str, /) -> str:
    """Return the path of an annotation."""
    return f"metadata.annotations[{key!r}]"


def mappings_in(given: object, /) -> Iterator[Mapping[str, object]]:
    """Yield the mappings in a list; nothing if `given` is not a list."""
    if is_sequence(given):
        yield from (item for item in given if is_mapping(item))


class Reader:
    """Typed access to one mapping within an object.

    A value that is absent or None counts as not given. So does a value of the wrong type, after
    a fault has been recorded.
    """

    __slots__ = ("_above", "_step", "_text_maps", "content", "reading")

    def __init__(
        self,
        content: Mapping[str, object],
        reading: Reading,
        step: str,
        above: Reader | None = None,
    ) -> None:
        self.content = content
        self.reading = reading
        self._step = step
        self._above = above
        self._text_maps: dict[str, Mapping[str, str]] | None = None

    @property
    def path(self) -> str:
        """The path of this mapping, such as ``pods['ns/name'].spec``."""
        # Built only for faults, which are rare: building paths would cost more than reading.
        return self._step if self._above is None else self._above.path + self._step

    def fault(self, below: str, message: str) -> None:
        """Record a fault of the value at `below`, which is ``.key`` or ``[0]``."""
        self.reading.fault(self.path + below, message)

    def get(self, key: str) -> object:
        """Return the unconverted value at `key`, or None."""
        try:
            found = self.content.get(key)
            return self.content.get(_snake_case[key]) if found is None else found
        except Exception as error:  # a mapping of the caller's may raise anything
            self.fault(f".{key}", f"cannot be read: {shown_problem(error)}")
            return None

    def text(self, key: str, *, required: bool = False) -> str:
        """Return a string, empty if it is not given."""
        found = self.get(key)
        if isinstance(found, str):
            if not found and required:
                self.fault(f".{key}", "is empty")
            return found
        if found is not None:
            self.fault(f".{key}", f"expected a string, got {shown(found)}")
        elif required:
            self.fault(f".{key}", _MISSING)
        return ""

    def integer(self, key: str, *, default: int | None = None, least: int | None = None) -> int:
        """Return an integer, of at least `least`; required if there is no default."""
        found = self.get(key)
        is_integer = isinstance(found, int) and not isinstance(found, bool)
        if is_integer and isinstance(found, int) and (least is None or found >= least):
            return found
        if found is not None:
            more = "" if least is None else f" of at least {least}"
            self.fault(f".{key}", f"expected an integer{more}, got {shown(found)}")
        elif default is None:
            self.fault(f".{key}", _MISSING)
        return default or 0

    def quantity(self, key: str, *, milli: bool = False) -> int | None:
        """Return a quantity in whole units or thousandths, rounded up, or None."""
        found = self.get(key)
        if found is None:
            return None
        try:
            return self.reading.amount(found, milli=milli)
        except QuantityError as error:
            self.fault(f".{key}", str(error))
            return None

    def truth(self, key: str) -> bool:
        """Return a boolean, False if it is not given."""
        found = self.get(key)
        if found is not None and not isinstance(found, bool):
            self.fault(f".{key}", f"expected true or false, got {shown(found)}")
        return found is True

    def time(self, key: str, *, is_past: bool = True) -> float | None:
        """Return a time in seconds, or None."""
        found = self.get(key)
        if found is None:
            return None
        try:
            time = self.reading.seconds(found)
        except ValueError as error:
            self.fault(f".{key}", str(error))
            return None
        if is_past:
            self.reading.take_past(time)
        return time

    def member(
        self, key: str, kind: type[EnumT], *, default: EnumT | None = None, required: bool = False
    ) -> EnumT | None:
        """Return the member of the enum `kind` with the given value; `default` if none is given."""
        found = self.get(key)
        if found is None or found == "":
            if required:
                self.fault(f".{key}", _MISSING)
            return default
        for member in kind:
            if member.value == found:
                return member
        known = ", ".join(str(member.value) for member in kind)
        self.fault(f".{key}", f"expected one of {known}, got {shown(found)}")
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        found: list[str] = []
        for position, item in enumerate(self._items(key)):
            if isinstance(item, str):
                found.append(item)
            else:
                self.fault(f".{key}[{position}]", f"expected a string, got {shown(item)}")
        return tuple(found)

    def text_map(self, key: str) -> Mapping[str, str]:
        """Return a mapping of strings to strings whose keys users choose, such as labels."""
        known = self._text_maps
        if known is None:
            known = self._text_maps = {}
        found = known.get(key)
        if found is None:
            found = known[key] = self._text_map(key)
        return found

    def _text_map(self, key: str) -> Mapping[str, str]:
        content = self.child(key).content
        if not content:
            return EMPTY
        valid: dict[str, str] = {}
        for name, item in content.items():
            if type(name) is str and type(item) is str:
                valid[name] = item
            else:
                message = f"expected strings, got {shown(item)} for {shown(name)}"
                self.fault(f".{key}[{shown(name)}]", message)
        return self.reading.shared(FrozenMap(valid))

    def integer_map(self, key: str) -> Mapping[str, int]:
        """Return a mapping of strings, which users choose, to integers of at least 0, by key."""
        below = self.child(key)
        names: list[str] = []
        for name, given in below.content.items():
            if type(name) is str:
                if given is not None:
                    names.append(name)
            else:
                self.fault(f".{key}[{shown(name)}]", "expected a string as key")
        return {name: below.integer(name, least=0) for name in sorted(names)}

    def child(self, key: str) -> Reader:
        """Return a reader of the mapping at `key`, or of an empty one if it is not given."""
        return self.optional_child(key) or Reader(_NOTHING, self.reading, f".{key}", self)

    def optional_child(self, key: str) -> Reader | None:
        """Return a reader of the mapping at `key`, or None."""
        found = self.get(key)
        if found is None:
            return None
        if is_mapping(found):
            return Reader(found, self.reading, f".{key}", self)
        self.fault(f".{key}", f"expected a mapping, got {shown(found)}")
        return None

    def children(self, key: str) -> Iterator[Reader]:
        """Yield a reader of each mapping in the list at `key`."""
        for position, item in enumerate(self._items(key)):
            if is_mapping(item):
                yield Reader(item, self.reading, f".{key}[{position}]", self)
            else:
                self.fault(f".{key}[{position}]", f"expected a mapping, got {shown(item)}")

    def amounts(self, unit_of: Callable[[str], bool | None]) -> dict[str, int]:
        """Return the quantities in this mapping by name of resource, rounded up to whole numbers.

        `unit_of` returns whether amounts of a resource are in thousandths; None: ignore it.
        """
        amounts: dict[str, int] = {}
        for name, given in self.content.items():
            if type(name) is not str:
                self.fault(f"[{shown(name)}]", "expected a string as the name of a resource")
                continue
            milli = unit_of(name)
            if milli is None or given is None:
                continue
            try:
                amounts[name] = self.reading.amount(given, milli=milli)
            except QuantityError as error:
                self.fault(f".{name}" if name.isidentifier() else f"[{name!r}]", str(error))
        return amounts

    def _items(self, key: str) -> Sequence[object]:
        found = self.get(key)
        if found is None:
            return ()
        if is_sequence(found):
            return found
        self.fault(f".{key}", f"expected a list, got {shown(found)}")
        return ()


@frozen
class KubernetesObject:
    """An object with a name."""

    kind: str
    reader: Reader
    metadata: Reader
    name: str
    namespace: str
    """Empty for objects of kinds without namespaces."""
    api_group: str = ""

    @property
    def full_name(self) -> str:
        """``namespace/name``, or the name alone for objects without a namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def reading(self) -> Reading:
        """The reading that it belongs to."""
        return self.reader.reading

    @property
    def is_submitted(self) -> bool:
        """Whether it is only submitted, and not there yet."""
        return look_up(look_up(self.metadata.content, "annotations"), api.SUBMITTED) is not None

    @property
    def spec(self) -> Reader:
        """Its ``spec``."""
        return self.reader.child("spec")

    @property
    def status(self) -> Reader:
        """Its ``status``."""
        return self.reader.child("status")

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return self.metadata.text_map("labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.metadata.text_map("annotations")

    def conditions(self, key: str = "conditions") -> Iterator[Mapping[str, object]]:
        """Yield the conditions in its status, unchecked: they are only told."""
        return mappings_in(look_up(look_up(self.reader.content, "status"), key))

    def status_of(self, condition: str) -> str:
        """Return the status of a condition, such as ``True``; empty: it has none."""
        return text_at(self._condition(condition), "status")

    def message_of(self, condition: str) -> str:
        """Return the message of a condition; empty: it has none."""
        return text_at(self._condition(condition), "message").strip().removesuffix(".")

    def _condition(self, kind: str) -> Mapping[str, object] | None:
        return next((each for each in self.conditions() if look_up(each, "type") == kind), None)

    def creation_time(self) -> float:
        """Return the creation time of the object in seconds; 0.0 if it is not given."""
        return self.metadata.time("creationTimestamp") or 0.0

    def ignore(self, field: str, why: object) -> None:
        """Record that a field of the object is ignored, and why or with which consequence."""
        self.note(NoticeCode.FIELD_IGNORED, field, f"ignored: {why}")

    def note(self, code: NoticeCode, field: str, consequence: str) -> None:
        """Record that a field of the object is not supported, and the consequence."""
        reading, path = self.reader.reading, self.reader.path
        reading.notices.note(
            code,
            self.kind,
            field,
            name=self.full_name,
            path=join_path(path, field),
            consequence=consequence,
        )
        reading.noted.setdefault(path, []).append((code, self.kind, field, consequence))


def present_time(reading: Reading, now: object) -> float:
    """Return the present time in seconds: as given, or the latest in any object."""
    if now is None:
        return reading.latest or 0.0
    if type(now) in (int, float):
        return cast("float", now)
    if is_text(now) or is_of(now, datetime):
        try:
            return seconds_of(now)
        except Exception as error:  # a string or a datetime of a class of its own may raise
            message = str(error)
    else:
        message = f"expected a time, got {shown(now)}; use RFC 3339, a datetime or seconds"
    reading.fault("now", message)
    return 0.0
