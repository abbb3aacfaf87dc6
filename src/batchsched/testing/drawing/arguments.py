"""The arguments of strategies, read when a strategy is made; and values built from drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

from attrs import define, field
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from batchsched.errors import Fault, FaultsError
from batchsched.model.validation.values import is_integer, is_mapping, is_text, shown, text_problems

DraftT = TypeVar("DraftT")
ValueT = TypeVar("ValueT")


@define
class Asked:
    """Reads the arguments of a strategy, and collects their faults."""

    _faults: list[Fault] = field(factory=list["Fault"], init=False)

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""
        self._faults.append(Fault(path, message))

    def check(self) -> None:
        """Raise an error if there are faults.

        Raises:
            FaultsError: all faults at once.

        """
        if self._faults:
            raise FaultsError(self._faults)

    def number(self, path: str, given: int, *, least: int = 0) -> int:
        """Read an integer that is `least` or more."""
        if is_integer(given) and given >= least:
            return given
        self.refuse(path, f"expected an integer, {least} or more, got {shown(given)}")
        return least

    def most(self, what: str, given: int | None, *, fewest: int, default: int) -> int:
        """Read a maximum; None: the default, or the minimum if that is larger."""
        if given is None:
            return max(default, fewest)
        most = self.number(f"max_{what}", given)
        if most == given and most < fewest:
            self.refuse(
                f"max_{what}", f"expected at least min_{what}, which is {fewest}, got {given}"
            )
        return max(most, fewest)

    def names(
        self,
        path: str,
        given: Iterable[str],
        *,
        may_be_none: bool = True,
        may_be_empty: bool = False,
    ) -> tuple[str, ...]:
        """Read names, each a string. One text alone is a slip, for it would be its letters."""
        if is_text(given):
            self.refuse(path, f"expected a list, got {shown(given)}; use [{shown(given)}]")
            return ()
        names = tuple(given)
        if not names and not may_be_none:
            self.refuse(path, "is empty; there must be one at least")
        for position, name in enumerate(names):
            for _, message in text_problems("", name, may_be_empty=may_be_empty):
                self.refuse(f"{path}[{position}]", message)
        return tuple(name for name in names if is_text(name) and (name or may_be_empty))

    def labels(
        self, path: str, given: Mapping[str, Sequence[str]] | None
    ) -> Mapping[str, tuple[str, ...]]:
        """Read the keys of labels and the values of each; None: no labels."""
        if given is None:
            return {}
        if not is_mapping(cast("object", given)):
            example = '{"team": ["red", "blue"]}'
            self.refuse(path, f"expected the values of each key: {example}, got {shown(given)}")
            return {}
        read: dict[str, tuple[str, ...]] = {}
        for key, values in given.items():
            for _, message in text_problems("", key):
                self.refuse(path, f"the key {shown(key)} {message}")
            where = f"{path}[{shown(key)}]"
            read[key] = self.names(where, values, may_be_none=False, may_be_empty=True)
        return read


@st.composite
def built(
    draw: DrawFn, drafts: SearchStrategy[DraftT], build: Callable[[DraftT], ValueT]
) -> ValueT:
    """Draw a draft and build a value from it; the value is what Hypothesis prints."""
    return build(draw(drafts))


def several(
    draw: DrawFn, items: SearchStrategy[DraftT], count: SearchStrategy[int]
) -> list[DraftT]:
    """Draw a number and then as many items, so that long lists are as frequent as short ones."""
    return [draw(items) for _ in range(draw(count))]
