"""What is wrong with a workload, or with what a simulation was asked to do."""

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
    """Jobs that no workload can have; `faults` lists everything wrong with them."""


class SimulationError(FaultsError):
    """A workload and a policy that cannot be simulated together; `faults` lists why."""


class PolicyError(BatchschedError, ValueError):
    """A policy decided what cannot be done: it started a job that does not wait or fit."""


@frozen
class Problem:
    """A line of a workload's file that is not as its format says.

    >>> print(Problem(line=7, message="submitted at -5 s: before the log begins", left_out=True))
    line 7: submitted at -5 s: before the log begins (left out)
    """

    line: int
    """The line, counted from 1."""
    message: str
    """What is wrong there."""
    left_out: bool = False
    """Whether the job on this line is not part of the workload because of it."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}{' (left out)' if self.left_out else ''}"


def is_number(value: object, *, least: float, above: bool = False, most: float = inf) -> bool:
    """Return whether a value is a finite number, and not less than the least, or above it."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return (value > least if above else value >= least) and value <= most and value < inf


def faults_of_part(path: str, part: object, method: str, example: str) -> Iterator[Fault]:
    """Yield a fault if a part of a policy lacks the method that is asked of it."""
    if not callable(getattr(part, method, None)):
        yield Fault(path, f"expected what has {method}(...), such as {example}, got {part!r}")
