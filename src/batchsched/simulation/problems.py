"""Errors of workloads, simulations and policies, and problems of workload files."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from attrs import frozen

from batchsched.errors import BatchschedError, Fault, FaultsError

__all__ = [
    "PolicyError",
    "Problem",
    "SimulationError",
    "WorkloadError",
    "faults_of_part",
    "is_number",
]


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
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return (value > least if above else value >= least) and value <= most and value < inf


def faults_of_part(path: str, part: object, method: str, example: str) -> Iterator[Fault]:
    """Yield a fault if a part of a policy lacks a method that it must have."""
    if not callable(getattr(part, method, None)):
        yield Fault(
            path,
            f"expected an object with the method {method}(...), such as {example}, got {part!r}",
        )
