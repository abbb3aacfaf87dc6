"""The errors of simulations, and checks of numbers and parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from math import inf
from sys import float_info
from typing import cast

from attrs import frozen

from batchsched.errors import BatchschedError, Fault, FaultsError
from batchsched.model.validation.values import is_of, is_text, shown

JobId = int | str


class WorkloadError(FaultsError):
    """Invalid jobs or arguments of a workload; `faults` lists all of them."""


class SimulationError(FaultsError):
    """A simulation that cannot run as requested; `faults` lists all reasons."""


class PolicyError(BatchschedError, ValueError):
    """An invalid decision of a policy, such as to start a job that does not fit."""


@frozen
class Problem:
    """A line of a workload file that violates the format.

    >>> print(Problem(line=7, message="submitted at -5 s: before the log begins", left_out=True))
    line 7: submitted at -5 s: before the log begins (left out)
    """

    line: int
    """The line, counted from 1."""
    message: str
    """What is wrong there."""
    left_out: bool = False
    """Whether the job on this line was left out of the workload because of it."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}{' (left out)' if self.left_out else ''}"


def refuse(error: type[FaultsError], *faults: Iterable[Fault]) -> None:
    """Raise an error of all these faults, if there are any."""
    found = [*chain(*faults)]
    if found:
        raise error(found)


_MOST_FAULTS = 20
"""The most jobs of which a message tells what is wrong."""


def shortened(faults: Sequence[Fault], more: str) -> Sequence[Fault]:
    """Return the first faults of jobs, and how many more there are."""
    left = len(faults) - _MOST_FAULTS
    return [*faults[:_MOST_FAULTS], Fault("jobs", f"{left:,} {more}")] if left > 0 else faults


def faults_unless(is_right: bool, path: str, what: str, value: object) -> Iterator[Fault]:
    """Yield the fault of a value that is not what was expected."""
    if not is_right:
        yield Fault(path, f"expected {what}, got {shown(value)}")


def faults_of_name(path: str, value: object, known: Sequence[str]) -> Iterator[Fault]:
    """Yield the fault of a value that is none of the known names."""
    is_known = is_text(value) and value in known
    return faults_unless(is_known, path, " or ".join(map(repr, known)), value)


def is_number(value: object, *, least: float, above: bool = False, most: float = inf) -> bool:
    """Return whether a value is a finite number from `least` (excluded if `above`) to `most`."""
    if type(value) not in (int, float):
        return False
    assert isinstance(value, int | float)
    return (value > least if above else value >= least) and value <= min(most, float_info.max)


def are_rising(numbers: object) -> bool:
    """Return whether a value is a tuple of finite numbers above 0, each larger than the last."""
    if not is_of(numbers, tuple):
        return False
    steps = pairwise((0, *cast("tuple[float, ...]", numbers)))
    return all(is_number(each, least=last, above=True) for last, each in steps)


def faults_of_part(path: str, part: object, method: str, example: str) -> Iterator[Fault]:
    """Yield a fault if a part of a policy lacks a method that it must have."""
    try:
        has_method = callable(getattr(part, method, None))
    except Exception:  # its attributes may raise anything
        has_method = False
    what = f"an object with the method {method}(...), such as {example}"
    yield from faults_unless(has_method, path, what, part)


LARGEST = 10**8
"""The most nodes of a machine, processors of a node, and jobs to be drawn."""


def faults_of_count(
    name: str, count: object, least: int, *, most: int = LARGEST
) -> Iterator[Fault]:
    """Yield what is wrong with a number of things."""
    is_right = type(count) is int and least <= count <= most
    is_too_many = type(count) is int and count > most
    what = f"at most {most:,}" if is_too_many else f"a whole number, {least} or more"
    return faults_unless(is_right, name, what, count)


def faults_of_seed(seed: object) -> Iterator[Fault]:
    """Yield what is wrong with the seed of random choices."""
    return faults_unless(type(seed) is int, "seed", "a whole number", seed)
