"""The order of events at the same instant."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from batchsched.errors import Fault
from batchsched.simulation.problems import SimulationError

__all__ = ["EVENTS", "Ties"]

EVENTS: Final = ("correction", "arrival", "end", "promise")


@frozen
class Ties:
    """The order of events at the same instant, which logs and papers do not define.

    Results depend on it: on the log KTH-SP2 the mean bounded slowdown of EASY varies by some
    percent with this alone; see `Run.tie_sensitivity`. The default is the order of the published
    results. Incidents (see `Scheduled.incidents`) come before all events named here.

    >>> print(Ties())
    jobs that end as expected release first; correction, arrival, end, promise; then in order of id
    >>> print(Ties(seed=7))
    everything in random order (seed 7)
    """

    order: tuple[str, ...] = EVENTS
    """The order of the kinds of events: a prediction is corrected, a job arrives, a job ends, a
    promised start is due. Within a kind: arrivals in order of the jobs' ids, ends in the order in
    which the jobs were started."""
    due_first: bool = True
    """Whether jobs that end exactly when expected release their processors before any other event
    of that instant. (Their end event is still processed in its turn.)"""
    seed: int | None = None
    """If given, the seed of a random order of all events of an instant."""

    def __attrs_post_init__(self) -> None:
        if sorted(self.order) != sorted(EVENTS):
            raise SimulationError(
                [Fault("Ties.order", f"expected each of {EVENTS} once, got {self.order!r}")]
            )
        if self.seed is not None and type(self.seed) is not int:
            raise SimulationError(
                [Fault("Ties.seed", f"expected a whole number or None, got {self.seed!r}")]
            )

    def __str__(self) -> str:
        if self.seed is not None:
            return f"everything in random order (seed {self.seed})"
        due = "jobs that end as expected release first; " if self.due_first else ""
        return f"{due}{', '.join(self.order)}; then in order of id"
