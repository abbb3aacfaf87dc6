"""The settings of a simulation that do not depend on the policy."""

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
"""Called now and then with the number of ended jobs and the number of all jobs."""


@frozen(kw_only=True)
class Settings:
    """The arguments of `simulate` other than the workload and the policy."""

    ties: Ties = field(factory=Ties)
    passes: Passes = "event"
    """Whether the policy decides after each event, or once after all events of an instant."""
    end_at_request: bool = True
    """Whether jobs are stopped when they have run for their requested time."""
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
