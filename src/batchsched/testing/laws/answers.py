"""Checks of answers: each function returns the fault as the end of a sentence, or "".

Everything that the scheduler accepts is valid, whatever its type, such as NumPy's numbers. But
NumPy's bool is not a vote, because the scheduler does not accept it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import isfinite
from numbers import Real
from typing import cast

from batchsched.model.reasons import JobCondition, Unfit
from batchsched.plugin.verdicts import Verdict, Vote

__all__ = [
    "are_verdicts",
    "first_incomparable",
    "is_condition",
    "is_hashable",
    "is_key",
    "is_number",
    "is_truth",
    "is_unfit",
    "is_vote",
]


def is_key(answer: object) -> str:
    """A key is equal to itself, and so are the parts of a tuple."""
    if answer is None:
        return "is not a key"
    try:
        return "" if _is_itself(answer) else "is or contains a value that is not equal to itself"
    except Exception as error:
        return f"cannot be compared: {error}"


def _is_itself(answer: object) -> bool:
    # Tuples are equal if their parts are identical, even if those are not equal to themselves.
    if isinstance(answer, (tuple, list)):
        return all(map(_is_itself, cast("Iterable[object]", answer)))
    return bool(answer == answer)  # noqa: PLR0124


def is_truth(answer: object) -> str:
    """True, False, or a value equal to one of them."""
    try:
        return "" if answer in (True, False) else "is neither True nor False"
    except Exception:
        return "is neither True nor False"


def is_vote(answer: object) -> str:
    """A Vote, or a bool of Python."""
    return "" if isinstance(answer, (bool, Vote)) else "is neither a Vote nor a bool"


def is_condition(answer: object) -> str:
    """None or a condition."""
    return "" if answer is None or isinstance(answer, JobCondition) else "is not a JobCondition"


def is_unfit(answer: object) -> str:
    """None or a reason."""
    return "" if answer is None or isinstance(answer, Unfit) else "is neither None nor an Unfit"


def is_number(answer: object) -> str:
    """A finite real number."""
    if not isinstance(answer, Real):
        return "is not a number"
    try:
        return "" if isfinite(answer) else "is not finite"
    except OverflowError:
        return "is too large for a float"


def is_hashable(answer: object) -> str:
    """It and all its parts can be hashed."""
    try:
        hash(answer)
    except Exception:
        return "cannot be hashed"
    return ""


def are_verdicts(answer: object, candidates: int) -> str:
    """As many verdicts as candidates."""
    if not isinstance(answer, tuple):
        return "is not a sequence"
    given = cast("tuple[object, ...]", answer)
    if len(given) != candidates:
        return f"has {len(given)} verdicts for {candidates} candidates"
    if not all(isinstance(verdict, Verdict) for verdict in given):
        return "contains a value that is not a Verdict"
    return ""


def first_incomparable(keys: list[object]) -> tuple[int, int, str] | None:
    """Return the positions of two keys that cannot be ordered, and why; None if all can.

    For any two keys exactly one must hold: the first is less, the second is less, or they are
    equal.
    """
    kinds = set(map(type, keys))
    if kinds <= {int, float, bool} or kinds == {str}:
        return None  # NaN apart, which `is_key` finds; most keys are of this sort
    for (one, left), (other, right) in combinations(enumerate(keys), 2):
        try:
            holds = [bool(left < right), bool(right < left), bool(left == right)]  # type: ignore[operator]
        except Exception as error:
            return one, other, f"do not: {error}"
        if not any(holds):
            return one, other, "do not: they are not equal, and neither is less than the other"
        if sum(holds) > 1:
            return one, other, "do so in more than one way"
    return None
