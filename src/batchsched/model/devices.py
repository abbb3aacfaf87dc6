"""Devices as typed values: what a node offers, what a task claims of it, and selectors.

Amounts are whole numbers in a unit of the driver's choice (bytes of memory, slices of a GPU). As
all data of the model, values are not validated here, but where they are used.

Selectors are a part of the Common Expression Language, read and evaluated. An expression compares
what a device says of itself. What cannot be answered, because an attribute is missing or its type
is another, has no answer; ``||`` and ``&&`` use an operand that decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Literal, NoReturn

from attrs import Factory, field, frozen

from batchsched.errors import ArgumentError, QuantityError
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
from batchsched.model.resources import parse_quantity
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


Value = bool | int | str | Version | Fraction | tuple[object, ...]
"""What a part of an expression can be; a quantity is a `Fraction`."""
Part = Callable[[Device], Value | None]
"""The value of a part of an expression for a device, or None where there is no answer."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<integer>-?[0-9]+(?![\w.]))
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>\|\||&&|==|!=|<=|>=|[!<>()\[\],.])
    )""",
    re.VERBOSE,
)
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "r": "\r", "`": "`", "?": "?"}
_ORDERS: dict[str, Callable[..., bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_LARGEST_INTEGER = 1 << 63
_MOST_DIGITS = 20
_DEEPEST = 100
_LONGEST = 10 * 1024


def _order_of(one: Value, other: Value) -> int | None:
    """Compare quantities or versions: negative, 0 or positive; None: they are neither."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return (one > other) - (one < other)
    if isinstance(one, Version) and isinstance(other, Version):
        return (one > other) - (one < other)
    return None


def _text_method(method: Callable[[str, str], bool]) -> Callable[[Value, Value], Value | None]:
    def apply(one: Value, other: Value) -> Value | None:
        return method(one, other) if isinstance(one, str) and isinstance(other, str) else None

    return apply


def _order_method(holds: Callable[[int], Value]) -> Callable[[Value, Value], Value | None]:
    def apply(one: Value, other: Value) -> Value | None:
        order = _order_of(one, other)
        return None if order is None else holds(order)

    return apply


_METHODS: dict[str, Callable[[Value, Value], Value | None]] = {
    "startsWith": _text_method(str.startswith),
    "endsWith": _text_method(str.endswith),
    "contains": _text_method(str.__contains__),
    "compareTo": _order_method(lambda order: order),
    "isGreaterThan": _order_method(lambda order: order > 0),
    "isLessThan": _order_method(lambda order: order < 0),
}


def _equal(one: Value, other: Value) -> bool | None:
    """Return whether values are equal; None: their types differ, and there is no answer."""
    return one == other if type(one) is type(other) else None


def _ordered(sign: str) -> Callable[[Value, Value], bool | None]:
    holds = _ORDERS[sign]

    def apply(one: Value, other: Value) -> bool | None:
        if type(one) is type(other) and isinstance(one, (int, str)):  # bool is an int, too
            return holds(one, other)
        return None

    return apply


def _of_both(one: Part, other: Part, apply: Callable[[Value, Value], Value | None]) -> Part:
    def evaluate(device: Device) -> Value | None:
        left, right = one(device), other(device)
        return None if left is None or right is None else apply(left, right)

    return evaluate


def _decided(parts: list[Part], deciding: bool) -> Part:
    """``||`` of parts, if True decides, or ``&&``."""
    if len(parts) == 1:
        return parts[0]

    def evaluate(device: Device) -> Value | None:
        values = [part(device) for part in parts]
        if any(value is deciding for value in values):
            return deciding
        return not deciding if all(value is (not deciding) for value in values) else None

    return evaluate


def _negated(part: Part) -> Part:
    def evaluate(device: Device) -> Value | None:
        value = part(device)
        return not value if isinstance(value, bool) else None

    return evaluate


def _attribute(name: str) -> Part:
    def evaluate(device: Device) -> Value | None:
        key = named_under(name, device.attributes, device.driver)
        return None if key is None else device.attributes[key]

    return evaluate


def _capacity(name: str) -> Part:
    def evaluate(device: Device) -> Value | None:
        key = named_under(name, device.capacity, device.driver)
        return None if key is None else Fraction(device.capacity[key])

    return evaluate


_MAPS: dict[str, Callable[[str], Part]] = {"attributes": _attribute, "capacity": _capacity}
_FIELDS: dict[str, Part] = {
    "driver": lambda device: device.driver,
    "allowMultipleAllocations": lambda device: device.shared,
}


@frozen
class _Token:
    kind: str
    text: str
    at: int


class _Reader:
    """Reads an expression by recursive descent, one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._split()
        self.next = 0
        self.depth = 0

    def refuse(self, at: int, problem: str) -> NoReturn:
        raise ArgumentError.at("", f"{problem} at position {at + 1} of {self.text!r}")

    def _split(self) -> list[_Token]:
        if len(self.text) > _LONGEST:
            message = f"expected at most {_LONGEST:,} characters, got {len(self.text):,}"
            raise ArgumentError.at("", message)
        tokens: list[_Token] = []
        at = 0
        end = len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                self.refuse(at, "cannot be read")
            kind = found.lastgroup or ""
            tokens.append(_Token(kind, found[kind], found.start(kind)))
            at = found.end()
        return [*tokens, _Token("end", "", end)]

    def peek(self) -> _Token:
        return self.tokens[self.next]

    def take(self) -> _Token:
        token = self.tokens[self.next]
        self.next += token.kind != "end"
        return token

    def takes(self, sign: str) -> bool:
        token = self.peek()
        if token.kind == "sign" and token.text == sign:
            self.next += 1
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            token = self.peek()
            self.refuse(token.at, f"expected {sign!r}, got {token.text or 'the end'!r}")

    def whole(self) -> Part:
        part = self.either()
        token = self.peek()
        if token.kind != "end":
            self.refuse(token.at, f"expected an operator or the end, got {token.text!r}")
        return part

    def either(self) -> Part:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.refuse(self.peek().at, f"is nested more than {_DEEPEST} deep")
        parts = [self.both()]
        while self.takes("||"):
            parts.append(self.both())
        self.depth -= 1
        return _decided(parts, deciding=True)

    def both(self) -> Part:
        parts = [self.comparison()]
        while self.takes("&&"):
            parts.append(self.comparison())
        return _decided(parts, deciding=False)

    def comparison(self) -> Part:
        part = self.unary()
        while True:
            if self.takes("=="):
                part = _of_both(part, self.unary(), _equal)
            elif self.takes("!="):
                part = _negated(_of_both(part, self.unary(), _equal))
            elif self.peek().text == "in" and self.peek().kind == "name":
                self.take()
                part = _decided([_of_both(part, one, _equal) for one in self.list()], deciding=True)
            elif self.peek().kind == "sign" and self.peek().text in _ORDERS:
                sign = self.take().text
                part = _of_both(part, self.unary(), _ordered(sign))
            else:
                return part

    def list(self) -> list[Part]:
        self.expect("[")
        if self.takes("]"):
            return []
        parts = [self.unary()]
        while self.takes(","):
            parts.append(self.unary())
        self.expect("]")
        return parts

    def unary(self) -> Part:
        turns = 0
        while self.takes("!"):
            turns += 1
        part = self.member()
        for _ in range(min(turns, 2 + turns % 2)):
            part = _negated(part)
        return part

    def member(self) -> Part:
        part = self.primary()
        while self.takes("."):
            token = self.take()
            method = _METHODS.get(token.text) if token.kind == "name" else None
            if method is None:
                self.refuse(token.at, f"expected one of {', '.join(_METHODS)}, got {token.text!r}")
            self.expect("(")
            part = _of_both(part, self.either(), method)
            self.expect(")")
        return part

    def primary(self) -> Part:
        if self.takes("("):
            part = self.either()
            self.expect(")")
            return part
        token = self.take()
        value: Value
        if token.kind == "text":
            value = self.unquoted(token)
        elif token.kind == "integer":
            value = int(token.text) if len(token.text) <= _MOST_DIGITS else _LARGEST_INTEGER
            if not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
                self.refuse(token.at, "expected an integer of 64 bits")
        elif token.kind == "name" and token.text in ("true", "false"):
            value = token.text == "true"
        elif token.kind == "name" and token.text in ("quantity", "semver"):
            value = self.made(token)
        elif token.kind == "name" and token.text == "device":
            return self.of_device()
        else:
            expected = "expected device, a text, an integer, true, false, quantity(), semver() or ("
            self.refuse(token.at, f"{expected}, got {token.text or 'the end'!r}")
        return lambda _device: value

    def unquoted(self, token: _Token) -> str:
        def plain(found: re.Match[str]) -> str:
            if found[1] not in _ESCAPES:
                self.refuse(token.at + found.start(), f"knows no escape {found[0]!r}")
            return _ESCAPES[found[1]]

        return re.sub(r"\\(.)", plain, token.text[1:-1])

    def a_text(self) -> tuple[_Token, str]:
        token = self.take()
        if token.kind != "text":
            self.refuse(token.at, f"expected a text, got {token.text or 'the end'!r}")
        return token, self.unquoted(token)

    def made(self, function: _Token) -> Value:
        self.expect("(")
        token, text = self.a_text()
        self.expect(")")
        try:
            return parse_quantity(text) if function.text == "quantity" else Version(text)
        except (QuantityError, ArgumentError) as error:
            self.refuse(token.at, f"{function.text}: {error}")

    def of_device(self) -> Part:
        self.expect(".")
        token = self.take()
        if token.text in _FIELDS:
            return _FIELDS[token.text]
        if token.text not in _MAPS:
            known = ", ".join((*_FIELDS, *_MAPS))
            self.refuse(token.at, f"expected one of {known} of a device, got {token.text!r}")
        self.expect("[")
        _, domain = self.a_text()
        self.expect("]")
        if self.takes("["):
            _, name = self.a_text()
            self.expect("]")
        else:
            self.expect(".")
            named = self.take()
            if named.kind != "name":
                self.refuse(named.at, f"expected a name, got {named.text or 'the end'!r}")
            name = named.text
        return _MAPS[token.text](f"{domain}/{name}")


@lru_cache(maxsize=4096)
def _read(text: str) -> Callable[[Device], bool]:
    part = _Reader(text).whole()
    return lambda device: part(device) is True


def read_selector(text: str, /) -> Callable[[Device], bool]:
    """Return the function that an expression stands for; what has no answer does not match.

    The part of the language that it knows: ``||``, ``&&``, ``!``, parentheses, comparisons,
    ``in [a, b]``, texts, integers, ``true``, ``false``, ``quantity("1Gi")``, ``semver("1.2.3")``,
    ``device.driver``, ``device.allowMultipleAllocations``, ``device.attributes["domain"].name``,
    ``device.capacity["domain"].name`` and the methods ``compareTo``, ``isGreaterThan``,
    ``isLessThan``, ``startsWith``, ``endsWith`` and ``contains``.

    Raises:
        ArgumentError: anything else, with its position.

    >>> is_large = read_selector('device.capacity["d"].memory.isGreaterThan(quantity("40Gi"))')
    >>> is_large(Device(name="gpu-0", driver="d", capacity={"memory": 80 << 30}))
    True
    >>> read_selector("device.size > 3")
    Traceback (most recent call last):
    ...
    batchsched.errors.ArgumentError: expected one of driver, allowMultipleAllocations, attributes, \
capacity of a device, got 'size' at position 8 of 'device.size > 3'
    """
    if not is_text(text):
        raise ArgumentError.at("text", f"expected an expression, got {shown(text)}")
    return _read(str(text))
