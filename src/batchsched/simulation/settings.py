"""How a simulation goes, whatever the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.simulation.problems import SimulationError
from batchsched.simulation.ties import Ties

__all__ = ["Passes", "Progress", "Settings"]

Passes = Literal["event", "instant"]
Progress = Callable[[int, int], object]
"""Called from time to time with the number of jobs that have ended, and of all jobs."""


@frozen(kw_only=True)
class Settings:
    """What `simulate` was asked for, besides the workload and the policy."""

    ties: Ties = field(factory=Ties)
    passes: Passes = "event"
    """Whether jobs are looked for after each event, or once when all events of an instant have
    happened."""
    end_at_request: bool = True
    """Whether jobs that would run for longer than they requested are ended then."""
    progress: Progress | None = field(default=None, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        faults: list[Fault] = []
        if not isinstance(self.ties, Ties):  # pyright: ignore[reportUnnecessaryIsInstance]
            faults.append(Fault("ties", f"expected Ties(...), got {self.ties!r}"))
        if self.passes not in ("event", "instant"):
            faults.append(Fault("passes", f"expected 'event' or 'instant', got {self.passes!r}"))
        if type(self.end_at_request) is not bool:
            message = f"expected True or False, got {self.end_at_request!r}"
            faults.append(Fault("end_at_request", message))
        if self.progress is not None and not callable(self.progress):
            message = f"expected a function of two numbers, or None, got {self.progress!r}"
            faults.append(Fault("progress", message))
        if faults:
            raise SimulationError(faults)

    def __str__(self) -> str:
        after = "each event" if self.passes == "event" else "all events of an instant"
        return f"one pass after {after}; at one instant: {self.ties}"
