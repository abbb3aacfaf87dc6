"""The base class of policies, the settings that they get, and the outcome that they return.

An engine is anything that takes a workload, the run times to use and the settings, and returns an
`Outcome`; all results, metrics, explanations, comparisons and plots are computed from that alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.model.validation.values import (
    is_of,
    is_text,
    is_tuple,
    items_in,
    shown,
)
from batchsched.simulation.workload import SimulationError, Workload

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
        order: object = self.order
        is_right = (
            is_tuple(order)
            and all(map(is_text, items_in(order)))
            and sorted(self.order) == sorted(EVENTS)
        )
        if not is_right:
            raise SimulationError.at(
                "Ties.order", f"expected each of {EVENTS} once, got {shown(self.order)}"
            )
        if self.seed is not None and type(self.seed) is not int:
            raise SimulationError.at(
                "Ties.seed", f"expected a whole number or None, got {shown(self.seed)}"
            )

    def __str__(self) -> str:
        if self.seed is not None:
            return f"everything in random order (seed {self.seed})"
        due = "jobs that end as expected release first; " if self.due_first else ""
        return f"{due}{', '.join(self.order)}; then in order of id"


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
        if not is_of(self.ties, Ties):
            faults.append(Fault("ties", f"expected Ties(...), got {shown(self.ties)}"))
        if not is_text(self.passes) or self.passes not in ("event", "instant"):
            faults.append(
                Fault("passes", f"expected 'event' or 'instant', got {shown(self.passes)}")
            )
        if type(self.end_at_request) is not bool:
            message = f"expected True or False, got {shown(self.end_at_request)}"
            faults.append(Fault("end_at_request", message))
        if self.progress is not None and not callable(self.progress):
            message = f"expected a function of two numbers, or None, got {shown(self.progress)}"
            faults.append(Fault("progress", message))
        if faults:
            raise SimulationError(faults)

    def __str__(self) -> str:
        after = "each event" if self.passes == "event" else "all events of an instant"
        return f"one pass after {after}; at one instant: {self.ties}"


Interval = tuple[int, float, float]
"""An interval in which a job held its processors: index of the job, start, end."""


@frozen(kw_only=True)
class Outcome:
    """When each job started and ended, by its index in the workload."""

    starts: Sequence[float | None]
    """The first start of each job; None if it never started."""
    ends: Sequence[float | None]
    """The end of each job; None if it never ended."""
    eligible: Sequence[float | None] | None = None
    """When each job counted as submitted, if it differs from the workload."""
    unfinished: Mapping[int, str] = field(factory=dict[int, str])
    """Job to the reason why it never started or never ended."""
    endings: Mapping[int, str] = field(factory=dict[int, str])
    """Job to `cancelled` or `failed`; metrics do not count these jobs as ended."""
    predicted: Sequence[float] | None = None
    """The predicted run time of each job at its arrival, if the policy predicts."""
    held: Sequence[float] | None = None
    """For how long each job held its processors, if not from start to end."""
    preemptions: Sequence[int] | None = None
    """How often each job was stopped to restart later, if that can happen."""
    intervals: Sequence[Interval] | None = None
    """When jobs held their processors, if not from start to end."""
    parents: Mapping[str, str] = field(factory=dict[str, str])
    """Queue to its parent, where queues form a tree; as of the end of the simulation."""


class Engine(Protocol):
    """A simulation engine: a pool of processors, jobs on nodes, or a cluster with a scheduler."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload whose jobs run for the given times.

        It must end even if jobs wait that can never start; `Outcome.unfinished` lists those.
        """
        ...


class Policy(ABC):
    """Decides which jobs start when. To write your own, see `DecidingPolicy`.

    Policies hold their parameters, and no state of a simulation: one policy may be used in many
    simulations, and in other processes.
    """

    @abstractmethod
    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload whose jobs run for the given times."""

    def __str__(self) -> str:
        return type(self).__name__
