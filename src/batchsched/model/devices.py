"""Devices as typed values: what a node offers, and what a task claims of it.

Amounts are whole numbers in a unit of the driver's choice (bytes of memory, slices of a GPU). As
all data of the model, values are not validated here, but where they are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from attrs import Factory, field, frozen

from batchsched.errors import ArgumentError
from batchsched.model.constraints import NodeSelectorTerm, Taint, Toleration
from batchsched.model.immutable import EMPTY, kept_map, kept_tuple
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
    """So many thousandths of a device's own capacity, rounded up: half of any GPU's memory.

    >>> Milli(500).of(81)
    41
    """

    thousandths: int

    def of(self, capacity: int, /) -> int:
        """Return the amount of a device with this capacity."""
        return -(-capacity * self.thousandths // 1000)


AttributeValue = bool | int | str | Version
"""One value of an attribute of a device."""
Attribute = AttributeValue | tuple[AttributeValue, ...]
"""What a device says of itself under one name: a value, or a set of values."""


def _numbers(items: Iterable[int], /) -> tuple[int, ...]:
    return kept_tuple(items, "values")


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
    values: tuple[int, ...] = field(default=(), converter=_numbers)
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


def _attributes(content: Mapping[str, Attribute], /) -> Mapping[str, Attribute]:
    return kept_map(content)


def _amounts(content: Mapping[str, int], /) -> Mapping[str, int]:
    return kept_map(content)


def _some_amounts(content: Mapping[str, int] | None, /) -> Mapping[str, int] | None:
    return None if content is None else kept_map(content)


def _policies(content: Mapping[str, CapacityPolicy], /) -> Mapping[str, CapacityPolicy]:
    return kept_map(content)


def _counters(content: Mapping[str, Mapping[str, int]], /) -> Mapping[str, Mapping[str, int]]:
    kept = kept_map(content)
    try:
        return kept_map({name: kept_map(amounts) for name, amounts in kept.items()})
    except Exception:
        return kept


def _taints(items: Iterable[Taint], /) -> tuple[Taint, ...]:
    return kept_tuple(items, "taints")


def _conditions(items: Iterable[str], /) -> tuple[str, ...]:
    return kept_tuple(items, "conditions")


def _node_terms(items: Iterable[NodeSelectorTerm] | None, /) -> tuple[NodeSelectorTerm, ...] | None:
    return None if items is None else kept_tuple(items, "nodes")


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
    attributes: Mapping[str, Attribute] = field(default=EMPTY, converter=_attributes)
    """What selectors and constraints read: ``model``, or ``domain/model``."""
    capacity: Mapping[str, int] = field(default=EMPTY, converter=_amounts)
    """How much it has of what can be asked for."""
    policies: Mapping[str, CapacityPolicy] = field(default=EMPTY, converter=_policies)
    """Which parts of a capacity can be had; without one: any."""
    shared: bool = False
    """Whether several tasks may each hold a part of it."""
    counters: Mapping[str, Mapping[str, int]] = field(default=EMPTY, converter=_counters)
    """What it draws on while it is held: name of a counter set, counter, amount."""
    taints: tuple[Taint, ...] = field(default=(), converter=_taints)
    conditions: tuple[str, ...] = field(default=(), converter=_conditions)
    """What must come true after it was chosen: such pools are tried last."""
    nodes: tuple[NodeSelectorTerm, ...] | None = field(default=None, converter=_node_terms)
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
    counters: Mapping[str, int] = field(default=EMPTY, converter=_amounts)


Selector = str | Callable[[Device], bool]
"""Which devices serve: an expression of `batchsched.devices`, or a pure function."""


def _selectors(items: Iterable[Selector], /) -> tuple[Selector, ...]:
    return kept_tuple(items, "select")


def _asked(content: Mapping[str, int | Milli], /) -> Mapping[str, int | Milli]:
    return kept_map(content)


def _tolerations(items: Iterable[Toleration], /) -> tuple[Toleration, ...]:
    return kept_tuple(items, "tolerations")


def _alternatives(items: Iterable[DeviceRequest], /) -> tuple[DeviceRequest, ...]:
    return kept_tuple(items, "alternatives")


@frozen(kw_only=True)
class DeviceRequest:
    """How many devices of which kind; or alternatives, of which the first that can be had is."""

    name: str
    count: int | Literal["all"] = 1
    """A number, or all that the selectors accept."""
    select: tuple[Selector, ...] = field(default=(), converter=_selectors)
    """All must accept a device."""
    capacity: Mapping[str, int | Milli] = field(default=EMPTY, converter=_asked)
    """What each device must have; of a shared one, the part that is taken."""
    tolerations: tuple[Toleration, ...] = field(default=(), converter=_tolerations)
    admin: bool = False
    """To look after devices: it gets them whoever holds them, and holds nothing."""
    alternatives: tuple[DeviceRequest, ...] = field(default=(), converter=_alternatives)
    """Requests of which one is served, in this order of preference; they have none themselves."""


def _request_names(items: Iterable[str], /) -> tuple[str, ...]:
    return kept_tuple(items, "requests")


@frozen(kw_only=True)
class DeviceConstraint:
    """What devices of a claim must have in common, or each for itself; exactly one of the two."""

    same: str | None = None
    """The name of an attribute of which all have a value in common."""
    distinct: str | None = None
    """The name of an attribute of which no two have a value in common."""
    requests: tuple[str, ...] = field(default=(), converter=_request_names)
    """Of which requests: ``r``, with all its alternatives, or ``r/a``. None: of all."""


def _requests(items: Iterable[DeviceRequest], /) -> tuple[DeviceRequest, ...]:
    return kept_tuple(items, "requests")


def _constraints(items: Iterable[DeviceConstraint], /) -> tuple[DeviceConstraint, ...]:
    return kept_tuple(items, "constraints")


@frozen(kw_only=True, cache_hash=True)
class DeviceClaim:
    """Requests that are served together, on one node, by at most 32 devices."""

    name: str
    requests: tuple[DeviceRequest, ...] = field(converter=_requests)
    constraints: tuple[DeviceConstraint, ...] = field(default=(), converter=_constraints)


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
    amounts: Mapping[str, int] | None = field(default=None, converter=_some_amounts)
    """The part that is taken of each capacity; None: the whole device."""
    admin: bool = False
    """Whether it holds nothing."""


# For the fields of nodes, tasks, snapshots and decisions.


def kept_devices(items: Iterable[Device], /) -> tuple[Device, ...]:
    """Return devices as a tuple; see `kept_tuple`."""
    return kept_tuple(items, "devices")


def kept_counter_sets(items: Iterable[CounterSet], /) -> tuple[CounterSet, ...]:
    """Return counter sets as a tuple; see `kept_tuple`."""
    return kept_tuple(items, "counter_sets")


def named_under(name: str, names: Mapping[str, object], driver: str, /) -> str | None:
    """Return the key under which a device of a driver has an attribute or capacity, or None.

    >>> named_under("gpu.example.com/model", {"model": "A"}, "gpu.example.com")
    'model'
    """
    if name in names:
        return name
    domain, slash, short = name.rpartition("/")
    return short if slash and domain == driver and short in names else None
