"""The settings of a simulation, the order of ties, and the outcome.

An engine is anything that takes a workload, the run times to use and the settings, and returns an
`Outcome`; all results, metrics, explanations, comparisons and plots are computed from that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol, cast, get_args

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.model.devices import DevicePick
from batchsched.model.validation.values import is_of, is_text, is_tuple, items_in, shown
from batchsched.simulation.checks import (
    SimulationError,
    faults_of_name,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.incidents import Incident, Reservation
from batchsched.simulation.work import Checkpoint, faults_of_checkpoint
from batchsched.simulation.workload import Workload

EVENTS: Final = ("correction", "arrival", "end", "promise")


@frozen
class Ties:
    """The order of events at the same instant, which logs and papers do not define.

    Results depend on it: on the log KTH-SP2 the mean bounded slowdown of EASY varies by some
    percent with this alone; see `Run.tie_sensitivity`. The default is the order of the published
    results. Incidents come before all events named here.

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
        order, seed = cast("object", self.order), self.seed
        is_each_once = (
            is_tuple(order)
            and all(map(is_text, items_in(order)))
            and sorted(self.order) == sorted(EVENTS)
        )
        what = f"each of {EVENTS} once"
        refuse(SimulationError, faults_unless(is_each_once, "Ties.order", what, order))
        is_seed = seed is None or type(seed) is int
        refuse(SimulationError, faults_unless(is_seed, "Ties.seed", "a whole number or None", seed))

    def __str__(self) -> str:
        if self.seed is not None:
            return f"everything in random order (seed {self.seed})"
        due = "jobs that end as expected release first; " if self.due_first else ""
        return f"{due}{', '.join(self.order)}; then in order of id"


Passes = Literal["event", "instant"]
Engines = Literal["auto", "fast", "general"]
Progress = Callable[[int, int], object]
"""Called now and then with the number of ended jobs and the number of all jobs."""


@frozen(kw_only=True)
class Settings:
    """The arguments of `simulate` other than the workload and the policy."""

    ties: Ties = field(factory=Ties)
    passes: Passes | None = None
    """Whether the policy decides after each event, or once after all events of an instant. None:
    as the policy says, or else after each event."""
    end_at_request: bool = True
    """Whether jobs are stopped when they have run for their requested time."""
    progress: Progress | None = field(default=None, eq=False, repr=False)
    incidents: tuple[Incident, ...] = ()
    """Incidents: nodes fail, are drained or come back; jobs are cancelled or fail; queues
    change."""
    reservations: tuple[Reservation, ...] = ()
    """Nodes that are for some jobs alone for a time."""
    checkpoint: Checkpoint | None = None
    """When jobs save their work that do not say so themselves. None: as the policy says, or else
    never."""
    resubmit_failed: bool = False
    """Whether a failed job waits again; if not, it has ended."""
    round_ends: float | None = None
    """Ends and expected ends are rounded up to a multiple of it."""
    engine: Engines = "auto"
    """Which engine simulates; see `simulate`."""

    def __attrs_post_init__(self) -> None:
        passes = "event" if self.passes is None else self.passes
        faults = [
            *faults_unless(is_of(self.ties, Ties), "ties", "Ties(...)", self.ties),
            *faults_of_name("passes", passes, get_args(Passes)),
            *faults_of_name("engine", self.engine, get_args(Engines)),
        ]
        for name in ("end_at_request", "resubmit_failed"):
            switch = getattr(self, name)
            faults += faults_unless(type(switch) is bool, name, "True or False", switch)
        is_right = self.progress is None or callable(self.progress)
        what = "a function of two numbers, or None"
        faults += faults_unless(is_right, "progress", what, self.progress)
        for name in ("incidents", "reservations"):
            given = getattr(self, name)
            if not is_of(given, tuple):
                message = f"expected a collection of {name}, got {shown(given)}; use a list"
                faults.append(Fault(name, message))
        if self.checkpoint is not None:
            faults += faults_of_checkpoint("checkpoint", self.checkpoint)
        is_right = self.round_ends is None or is_number(self.round_ends, least=0, above=True)
        what = "seconds above 0, or None"
        refuse(
            SimulationError, faults, faults_unless(is_right, "round_ends", what, self.round_ends)
        )

    def __str__(self) -> str:
        after = "all events of an instant" if self.passes == "instant" else "each event"
        return f"one pass after {after}; at one instant: {self.ties}"


Interval = tuple[int, float, float]
"""An interval in which a job held resources: index of the job, start, end."""
Piece = tuple[int, float, float, int, int, tuple[int, ...]]
"""What a job held on a node: index of the job, start, end, index of the node, tasks, amounts."""


def in_order(pieces: Sequence[Piece]) -> list[int]:
    """Return the numbers of pieces in order of start, job, node and end."""

    def key(number: int) -> tuple[float, int, int, float]:
        job, start, end, node, _, _ = pieces[number]
        return start, job, node, end

    return sorted(range(len(pieces)), key=key)


@frozen(kw_only=True)
class NodesOfRun:
    """The nodes of a simulation, and what jobs held there."""

    names: tuple[str, ...]
    dimensions: tuple[str, ...]
    """The names of the dimensions that some node offers: cpu, memory, then scalars by name."""
    capacity: tuple[tuple[int, ...], ...]
    """By node: what it offers in each dimension."""
    pieces: Sequence[Piece] = field(repr=False)
    """What jobs held, in order of start, job and node."""
    devices: Mapping[int, tuple[DevicePick, ...]] = field(
        factory=dict[int, tuple[DevicePick, ...]], repr=False
    )
    """The number of a piece to the devices that the tasks had there."""
    down: Sequence[tuple[int, float, float | None]] = ()
    """When nodes were out of service: index of the node, start, end (None: for ever)."""


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
    resizes: Sequence[int] | None = None
    """How often each job got more or fewer tasks."""
    moves: Sequence[int] | None = None
    """How often each job got as many tasks in other places."""
    lost_work: Sequence[float] | None = None
    """The work of each job that was lost when it was stopped, in seconds at speed 1."""
    overhead: Sequence[float] | None = None
    """For how long each job held what it needs without working: starts, saving, resizes."""
    nodes: NodesOfRun | None = None
    """The nodes, if the engine knows them."""
    engine: str = "own"
    """The engine: `fast`, `general`, or another that the policy brings along."""


class Engine(Protocol):
    """A simulation engine: anything that runs a workload and says what came of it."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload whose jobs run for the given times.

        It must end even if jobs wait that can never start; `Outcome.unfinished` lists those.
        """
        ...
