"""The errors of simulations, and checks of numbers and parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf
from sys import float_info
from typing import cast

from attrs import frozen

from batchsched.errors import BatchschedError, Fault, FaultsError
from batchsched.model.validation.values import is_of, shown

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
    if not has_method:
        yield Fault(
            path,
            f"expected an object with the method {method}(...), such as {example}, "
            f"got {shown(part)}",
        )


LARGEST = 10**8
"""The most nodes of a machine, processors of a node, and jobs to be drawn."""


def faults_of_count(
    name: str, count: object, least: int, *, most: int = LARGEST
) -> Iterator[Fault]:
    """Yield what is wrong with a number of things."""
    if type(count) is not int or count < least:
        yield Fault(name, f"expected a whole number, {least} or more, got {shown(count)}")
    elif count > most:
        yield Fault(name, f"expected at most {most:,}, got {shown(count)}")


def faults_of_seed(seed: object) -> Iterator[Fault]:
    """Yield what is wrong with the seed of random choices."""
    if type(seed) is not int:
        yield Fault("seed", f"expected a whole number, got {shown(seed)}")
