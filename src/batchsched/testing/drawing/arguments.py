"""What the arguments of strategies must be, beyond their types; and values built from drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from batchsched.errors import ArgumentError, Fault
from batchsched.model.validation.values import text_problems

DraftT = TypeVar("DraftT")
ValueT = TypeVar("ValueT")


def expect_no(*faults: Iterable[Fault]) -> None:
    """Raise an error if there are faults.

    Raises:
        ArgumentError: all faults at once.
    """
    found = list(chain.from_iterable(faults))
    if found:
        raise ArgumentError(found)


def too_small(least: int, **numbers: int) -> Iterator[Fault]:
    """Yield a fault for each number that is less than the least."""
    for path, number in numbers.items():
        if number < least:
            yield Fault(path, f"expected an integer, {least} or more, got {number}")


def crossed(what: str, fewest: int, most: int | None) -> Iterator[Fault]:
    """Yield a fault for a maximum below the minimum, or a minimum below 0."""
    yield from too_small(0, **{f"min_{what}": fewest})
    if most is not None and most < fewest:
        message = f"expected at least min_{what}, which is {fewest}, got {most}"
        yield Fault(f"max_{what}", message)


def not_names(path: str, names: Sequence[str], *, may_be_none: bool = True) -> Iterator[Fault]:
    """Yield a fault for each name that is empty, and if there must be names and are none."""
    if not (names or may_be_none):
        yield Fault(path, "is empty; there must be one at least")
    for position, name in enumerate(names):
        yield from (Fault(*problem) for problem in text_problems(f"{path}[{position}]", name))


def numbers(fewest: int, most: int | None, default: int) -> SearchStrategy[int]:
    """Draw a number; the most is, if not given, the default or the fewest, if that is more."""
    return st.integers(fewest, max(default, fewest) if most is None else most)


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
