"""Devices as typed values: what a node offers, and what a task claims of it.

Amounts are whole numbers in a unit of the driver's choice (bytes of memory, slices of a GPU). As
all data of the model, values are not validated here, but where they are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from attrs import Factory, field, frozen

from batchsched.errors import ArgumentError
from batchsched.model.constraints import NodeSelectorTerm, Taint, Toleration
from batchsched.model.immutable import (
    EMPTY,
    AsMap,
    AsMapOrNone,
    AsTuple,
    AsTupleOrNone,
    kept_map,
    kept_tuple,
)
from batchsched.model.validation.values import is_text, shown

_NUMBER = "(?:0|[1-9][0-9]*)"
_PART = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PART}(?:\.{_PART})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LONGEST_VERSION = 64


def _read_version(text: str, /) -> str:
    if not is_text(text) or len(text) > _LONGEST_VERSION or not _VERSION.fullmatch(text):
        message = f"expected a semantic version of at most {_LONGEST_VERSION} characters"
        raise ArgumentError.at("text", f"{message}, such as 1.2.3 or 1.2.3-rc.1, got {shown(text)}")
    return text


_Rank = tuple[tuple[int, ...], tuple[tuple[int, int, str], ...]]


def _rank_of(text: str) -> _Rank:
    parts = _VERSION.fullmatch(text)
    assert parts is not None
    core = tuple(int(number) for number in parts.group(1, 2, 3))
    if not parts[4]:
        return core, ((2, 0, ""),)  # after all its pre-releases
    return core, tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts[4].split("."))


@frozen(order=True)
class Version:
    """A version, in the order of semantic versioning 2.0; metadata after `+` do not count.

    Raises:
        ArgumentError: the text is no such version.

    >>> Version("1.2.0-rc.1") < Version("1.2.0") < Version("1.10.0") == Version("1.10.0+build.5")
    True
    """

    text: str = field(converter=_read_version, eq=False, order=False)
    _rank: _Rank = field(
        init=False, repr=False, default=Factory(lambda self: _rank_of(self.text), takes_self=True)
    )


@frozen
class Milli:
    """So many thousandths of a device's own capacity: half of any GPU's memory.

    Rounded down, but to at least 1, so that parts add up to the whole: two halves of 81 are 80.

    >>> Milli(500).of(81), Milli(1).of(81), Milli(0).of(81)
    (40, 1, 0)
    """

    thousandths: int

    def of(self, capacity: int, /) -> int:
        """Return the amount of a device with this capacity."""
        return max(capacity * self.thousandths // 1000, min(capacity, self.thousandths, 1))


AttributeValue = bool | int | str | Version
"""One value of an attribute of a device."""
Attribute = AttributeValue | tuple[AttributeValue, ...]
"""What a device says of itself under one name: a value, or a set of values."""


@frozen(kw_only=True)
class CapacityPolicy:
    """Which parts of a capacity can be had."""

    default: int | None = None
    """What a request gets that does not ask; None: all of it."""
    min: int | None = None
    """The least part; what is asked is rounded up to it."""
    max: int | None = None
    """The largest part."""
    step: int | None = None
    """Parts are `min`, `min + step` and so on."""
    values: tuple[int, ...] = field(default=(), converter=AsTuple[int])
    """Or: all parts that there are, rising."""

    def rounded(self, asked: int, /) -> int | None:
        """Return the smallest part that is at least what is asked for; None if there is none.

        >>> pairs = CapacityPolicy(default=2, min=2, step=2, max=4)
        >>> pairs.rounded(1), pairs.rounded(3), pairs.rounded(5)
        (2, 4, None)
        """
        if self.values:
            return next((value for value in self.values if value >= asked), None)
        least = self.min or 0
        amount = max(asked, least)
        if self.step is not None:
            amount = least + -(-(amount - least) // self.step) * self.step
        return None if self.max is not None and amount > self.max else amount


def _counters(content: Mapping[str, Mapping[str, int]], /) -> Mapping[str, Mapping[str, int]]:
    kept = kept_map(content)
    try:
        return kept_map({name: kept_map(amounts) for name, amounts in kept.items()})
    except Exception:
        return kept


@frozen(kw_only=True)
class Device:
    """A device of a node, or a part of one that can be had by itself.

    A fraction is an amount of a `shared` device. A partition, such as those of MIG, is a device
    of its own that draws on the counters of the whole.

    >>> Device(name="gpu-0", driver="gpu.example.com", attributes={"model": "A100"}).key
    ('gpu.example.com', '', 'gpu-0')
    """

    name: str
    driver: str = ""
    pool: str = ""
    attributes: Mapping[str, Attribute] = field(default=EMPTY, converter=AsMap[str, Attribute])
    """What selectors and constraints read: ``model``, or ``domain/model``."""
    capacity: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """How much it has of what can be asked for."""
    policies: Mapping[str, CapacityPolicy] = field(
        default=EMPTY, converter=AsMap[str, CapacityPolicy]
    )
    """Which parts of a capacity can be had; without one: any."""
    shared: bool = False
    """Whether several tasks may each hold a part of it."""
    counters: Mapping[str, Mapping[str, int]] = field(default=EMPTY, converter=_counters)
    """What it draws on while it is held: name of a counter set, counter, amount."""
    taints: tuple[Taint, ...] = field(default=(), converter=AsTuple[Taint])
    conditions: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """What must come true after it was chosen: such pools are tried last."""
    nodes: tuple[NodeSelectorTerm, ...] | None = field(
        default=None, converter=AsTupleOrNone[NodeSelectorTerm]
    )
    """Which nodes reach it, if it belongs to none; any of the terms must match. None: all."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Driver, pool and name, which no other device has."""
        return self.driver, self.pool, self.name


@frozen(kw_only=True)
class CounterSet:
    """Amounts that devices of one pool draw on together."""

    name: str
    driver: str = ""
    pool: str = ""
    counters: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])


Selector = str | Callable[[Device], bool]
"""Which devices serve: an expression of `batchsched.devices`, or a pure function."""


@frozen(kw_only=True)
class DeviceRequest:
    """How many devices of which kind; or alternatives, of which the first that can be had is."""

    name: str
    count: int | Literal["all"] = 1
    """A number, or all that the selectors accept."""
    select: tuple[Selector, ...] = field(default=(), converter=AsTuple[Selector])
    """All must accept a device."""
    capacity: Mapping[str, int | Milli] = field(default=EMPTY, converter=AsMap[str, int | Milli])
    """What each device must have; of a shared one, the part that is taken."""
    tolerations: tuple[Toleration, ...] = field(default=(), converter=AsTuple[Toleration])
    admin: bool = False
    """To look after devices: it gets them whoever holds them, and holds nothing."""
    alternatives: tuple[DeviceRequest, ...] = field(default=(), converter=AsTuple["DeviceRequest"])
    """Requests of which one is served, in this order of preference; they have none themselves."""


@frozen(kw_only=True)
class DeviceConstraint:
    """What devices of a claim must have in common, or each for itself; exactly one of the two."""

    same: str | None = None
    """The name of an attribute of which all have a value in common."""
    distinct: str | None = None
    """The name of an attribute of which no two have a value in common."""
    requests: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """Of which requests: ``r``, with all its alternatives, or ``r/a``. None: of all."""


@frozen(kw_only=True, cache_hash=True)
class DeviceClaim:
    """Requests that are served together, on one node, by at most 32 devices."""

    name: str
    requests: tuple[DeviceRequest, ...] = field(converter=AsTuple[DeviceRequest])
    constraints: tuple[DeviceConstraint, ...] = field(
        default=(), converter=AsTuple[DeviceConstraint]
    )
    shared: str | None = None
    """What all tasks call it that have it together; None: it is this task's alone.

    Claims that are called the same are one, and ask for the same. It gets its devices with the
    first task that is placed, all others go where these can be reached, and it is free when the
    last of them has left.
    """


def _key(items: Sequence[str], /) -> tuple[str, str, str]:
    return kept_tuple(items, "device")  # type: ignore[return-value]


@frozen(kw_only=True, cache_hash=True)
class DevicePick:
    """A device that serves a request of a claim."""

    claim: str
    request: str
    """The request's name, or ``r/a`` if alternative `a` of `r` is served."""
    device: tuple[str, str, str] = field(converter=_key)
    """Driver, pool and name."""
    amounts: Mapping[str, int] | None = field(default=None, converter=AsMapOrNone[str, int])
    """The part that is taken of each capacity; None: the whole device."""
    admin: bool = False
    """Whether it holds nothing."""
    shared: str | None = None
    """For a claim of several tasks: what they call it (`DeviceClaim.shared`)."""


# For the fields of nodes, tasks, snapshots and decisions.


def named_under(name: str, names: Mapping[str, object], driver: str, /) -> str | None:
    """Return the key under which a device of a driver has an attribute or capacity, or None.

    >>> named_under("gpu.example.com/model", {"model": "A"}, "gpu.example.com")
    'model'
    """
    if name in names:
        return name
    domain, slash, short = name.rpartition("/")
    return short if slash and domain == driver and short in names else None
