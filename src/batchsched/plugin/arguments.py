"""Arguments of plugins and actions, read with their types; all faults are reported at once.

In configuration files of kube-batch every argument is a string; here an argument
may also have its own type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import cast

from batchsched.errors import ArgumentError, Fault
from batchsched.model.immutable import EMPTY, frozen_map
from batchsched.model.serialisation import is_list
from batchsched.model.texts import did_you_mean
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import (
    is_integer,
    is_mapping,
    is_text,
    items_of,
    shown,
)

ArgumentRow = Mapping[str, str | int | float | bool]
"""One of several things that an argument lists, by the names of its fields."""

ArgumentValue = str | int | float | bool | Mapping[str, int] | Sequence[ArgumentRow]
"""The accepted types of an argument."""

_TRUE = ("1", "t", "true", "yes", "on")
_FALSE = ("0", "f", "false", "no", "off")


class Arguments:
    """The arguments that a configuration gives to one plugin or action.

    The factory of a plugin or action reads each known argument by name, with a
    default. An argument that is given and never read, or that is invalid, becomes a
    fault of the configuration; the factory need not handle it.

    >>> arguments = Arguments({"weight": "3", "strategi": "x"}, "tiers[0].plugins[0].arguments")
    >>> arguments.integer("weight", default=1, minimum=0)
    3
    >>> arguments.choice("strategy", ("release", "displace"), default="release")
    'release'
    >>> [str(fault) for fault in arguments.faults()]
    ["tiers[0].plugins[0].arguments['strategi']: unknown argument; did you mean 'strategy'? \
known: strategy, weight"]
    """

    def __init__(
        self,
        given: Mapping[str, ArgumentValue],
        path: str = "arguments",
        *,
        has_default_tiers: bool = False,
    ) -> None:
        """Read arguments.

        Args:
            given: the arguments by name.
            path: where they are in the configuration.
            has_default_tiers: whether the configuration has the default tiers.

        Raises:
            ArgumentError: `given` is not a mapping.

        """
        try:
            self._given = frozen_map(given)
        except TypeError as error:
            raise ArgumentError.at("given", str(error)) from None
        self._path = path
        self.has_default_tiers = has_default_tiers
        """Whether the configuration has the default tiers, as one that names none.

        Some arguments have other defaults there.
        """
        self._known: set[str] = set()
        self._faults: list[Fault] = []
        self._rows: list[Arguments] = []
        """The arguments of what was listed; see `rows`."""

    @checks_arguments()
    def integer(
        self, name: str, *, default: int, minimum: int | None = None, maximum: int | None = None
    ) -> int:
        """Return an integer, given as a number or as a string."""
        number = self.number(name, default=default, minimum=minimum, maximum=maximum)
        if number == int(number):
            return int(number)
        self._fault(name, f"expected an integer, got {shown(self._given[name])}")
        return default

    @checks_arguments()
    def number(
        self,
        name: str,
        *,
        default: float,
        minimum: float | None = None,
        maximum: float | None = None,
    ) -> float:
        """Return a finite number, given as a number or as a string."""
        self._known.add(name)
        if name not in self._given:
            return default
        value = self._given[name]
        number = _number(value)
        if number is None:
            self._fault(name, f"expected a number, got {shown(value)}")
        elif minimum is not None and number < minimum:
            self._fault(name, f"expected {minimum} or more, got {shown(value)}")
        elif maximum is not None and number > maximum:
            self._fault(name, f"expected {maximum} or less, got {shown(value)}")
        else:
            return number
        return default

    @checks_arguments()
    def integer_or_all(self, name: str, *, default: float, minimum: int) -> float:
        """Return an integer, or infinity for ``all``."""
        if isinstance(self._given.get(name), str) and self._given[name] == "all":
            self._known.add(name)
            return inf
        if not self.is_given(name):
            return default
        if _number(self._given[name]) is None:
            self._known.add(name)
            self._fault(name, f"expected a number or 'all', got {shown(self._given[name])}")
            return default
        return self.integer(name, default=minimum, minimum=minimum)

    @checks_arguments()
    def boolean(self, name: str, *, default: bool) -> bool:
        """Return a boolean, given as a boolean or as a string such as ``true`` or ``false``."""
        self._known.add(name)
        if name not in self._given:
            return default
        value = self._given[name]
        truth = as_boolean(value)
        if truth is None:
            self._fault(name, f"expected true or false, got {shown(value)}")
            return default
        return truth

    @checks_arguments()
    def text(self, name: str, *, default: str) -> str:
        """Return a string."""
        self._known.add(name)
        value = self._given.get(name, default)
        if not isinstance(value, str):
            self._fault(name, f"expected a string, got {shown(value)}")
            return default
        return value

    @checks_arguments()
    def ascending(self, name: str) -> tuple[float, ...]:
        """Return ascending numbers, given as a string with commas."""
        self._known.add(name)
        if name not in self._given:
            return ()
        numbers = [_number(part) for part in str(self._given[name]).split(",")]
        found = [number for number in numbers if number is not None]
        if len(found) < len(numbers) or found != sorted(set(found)):
            message = f"expected ascending numbers such as '10, 20', got {shown(self._given[name])}"
            self._fault(name, message)
            return ()
        return tuple(found)

    @checks_arguments()
    def weights(self, name: str) -> Mapping[str, int]:
        """Return whole numbers by name, given as a mapping or as a string.

        >>> Arguments({"weights": "cpu=1, nvidia.com/gpu=5"}).weights("weights")
        {'cpu': 1, 'nvidia.com/gpu': 5}
        """
        self._known.add(name)
        given: object = self._given.get(name, {})
        if isinstance(given, str):
            parts = [part.rpartition("=") for part in given.split(",") if part.strip()]
            given = {key.strip(): _number(number) for key, _, number in parts}
        weights: dict[str, int] = {}
        for key, weight in items_of(given) if is_mapping(given) else [("", given)]:
            if not (is_text(key) and key and is_integer(weight) and weight >= 0):
                example = "whole numbers by name, such as 'cpu=1, nvidia.com/gpu=5'"
                self._fault(name, f"expected {example}, got {shown(self._given[name])}")
                return EMPTY
            weights[key] = weight
        return frozen_map(weights)

    @checks_arguments()
    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """Return one of `choices`."""
        value = self.text(name, default=default)
        if value not in choices:
            self._fault(name, f"expected one of {', '.join(choices)}, got {shown(value)}")
            return default
        return value

    @checks_arguments()
    def rows(self, name: str) -> tuple[Arguments, ...]:
        """Return the arguments of each of several things, given as a list of mappings.

        Their faults are faults of these arguments.

        >>> given = Arguments({"limits": [{"name": "hourly", "most": 2}]})
        >>> [row.text("name", default="") for row in given.rows("limits")]
        ['hourly']
        >>> [str(fault) for fault in given.faults()]
        ["arguments['limits'][0]['most']: unknown argument; known: name"]
        """
        self._known.add(name)
        given: object = self._given.get(name, ())
        if not is_list(given):
            self._fault(name, f"expected a list of mappings, got {shown(given)}")
            return ()
        rows: list[Arguments] = []
        for position, row in enumerate(given):
            if is_mapping(row):
                content = cast("Mapping[str, ArgumentValue]", row)
                rows.append(Arguments(content, f"{self._at(name)}[{position}]"))
            else:
                self._fault(name, f"expected a list of mappings, got {shown(row)} in it")
        self._rows += rows
        return tuple(rows)

    def refuse(self, name: str, message: str) -> None:
        """Record that an argument is invalid; `message` says what was expected, and what it is."""
        self._fault(name, message)

    @checks_arguments()
    def is_given(self, name: str) -> bool:
        """Return whether the configuration has this argument."""
        self._known.add(name)
        return name in self._given

    def unknown_names(self) -> tuple[str, ...]:
        """Return the names that were given and never read, in the order given."""
        return tuple(name for name in self._given if name not in self._known)

    def known_names(self) -> tuple[str, ...]:
        """Return the names that were read, sorted."""
        return tuple(sorted(self._known))

    def faults(self) -> list[Fault]:
        """Return the faults: invalid and unknown arguments."""
        known = sorted(self._known)
        unknown: list[Fault] = []
        for name in self._given:
            if name in self._known:
                continue
            if not is_text(name):
                unknown.append(Fault(self._at(name), "expected a string as an argument name"))
                continue
            hint = did_you_mean(name, known)
            known_text = f"known: {', '.join(known)}" if known else "it takes none"
            problem = f"unknown argument; {hint and hint + ' '}{known_text}"
            unknown.append(Fault(self._at(name), problem))
        of_rows = [fault for row in self._rows for fault in row.faults()]
        return [*self._faults, *of_rows, *unknown]

    def _at(self, name: str) -> str:
        return f"{self._path}[{shown(name)}]"

    def _fault(self, name: str, message: str) -> None:
        self._faults.append(Fault(self._at(name), message))


def as_boolean(value: object) -> bool | None:
    """Return the boolean that `value` is or represents, or None."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in _TRUE or lowered in _FALSE:
            return lowered in _TRUE
    return None


def _number(value: ArgumentValue) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        try:
            return int(text)
        except ValueError:
            pass
        try:
            value = float(text)
        except ValueError:
            return None
    if isinstance(value, int):
        return value  # an integer may be too large for a float
    return value if isinstance(value, float) and isfinite(value) else None
