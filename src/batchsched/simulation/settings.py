"""The settings of a simulation: incidents, reservations and the order of ties; and the outcome.

An engine is anything that takes a workload, the run times to use and the settings, and returns an
`Outcome`; all results, metrics, explanations, comparisons and plots are computed from that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Final, Literal, Protocol, cast, get_args

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.model.cluster import Queue
from batchsched.model.devices import DevicePick
from batchsched.model.immutable import AsTuple
from batchsched.model.validation.values import is_of, is_text, is_tuple, items_in, shown
from batchsched.simulation.checks import (
    JobId,
    SimulationError,
    faults_of_name,
    faults_unless,
    is_number,
    refuse,
)
from batchsched.simulation.work import Checkpoint, faults_of_checkpoint
from batchsched.simulation.workload import Workload


@frozen(kw_only=True)
class NodeDown:
    """A node fails: every job with a task there is stopped entirely, and waits again."""

    at: float
    """The time in seconds, on the clock of the workload."""
    node: int | str
    """The number of the node, counted from 0, or its name."""


@frozen(kw_only=True)
class NodeDrained:
    """No task starts on a node any more; running tasks continue.

    Under `Scheduled` it needs the plugin `predicates`.
    """

    at: float
    node: int | str


@frozen(kw_only=True)
class NodeUp:
    """A node that was down or drained is available again."""

    at: float
    node: int | str


@frozen(kw_only=True)
class JobCancelled:
    """A job is cancelled, before or after its arrival. No effect if it has ended."""

    at: float
    job: JobId


@frozen(kw_only=True)
class JobFailed:
    """A running job fails; see `simulate`. No effect if it does not run."""

    at: float
    job: JobId


@frozen(kw_only=True)
class QueueSet:
    """A queue is replaced by the given one, or added if there is none of this name.

    Only `Scheduled` has queues.
    """

    at: float
    queue: Queue


Incident = NodeDown | NodeDrained | NodeUp | JobCancelled | JobFailed | QueueSet


@frozen(kw_only=True)
class Reservation:
    """Nodes that are for some jobs alone for a time; these jobs may run elsewhere, too.

    When it starts, other jobs that hold resources there are stopped.
    """

    name: str
    start: float
    """From when on, in seconds on the clock of the workload."""
    end: float
    """Until when; at that time it is over."""
    nodes: tuple[int | str, ...] = field(converter=AsTuple[int | str])
    """The nodes by number or name."""
    jobs: tuple[JobId, ...] = field(converter=AsTuple[JobId])


def faults_of_time(where: str, at: object) -> Iterator[Fault]:
    """Yield the fault of what is no time of a simulation."""
    return faults_unless(is_number(at, least=0), where, "a time in seconds, 0 or later", at)


def faults_of_incidents(
    incidents: Iterable[Incident],
    reservations: Iterable[Reservation],
    places: Mapping[int | str, int],
    ids: Iterable[JobId],
) -> Iterator[Fault]:
    """Yield what is wrong with incidents and reservations.

    Args:
        incidents: The incidents.
        reservations: The reservations.
        places: The index of each node by number and by name.
        ids: The ids of all jobs.
    """
    known = set(ids)
    last = len(set(places.values())) - 1

    def faults_of_node(where: str, node: object) -> Iterator[Fault]:
        is_node = type(node) in (int, str) and node in places
        return faults_unless(is_node, where, f"the number of a node, 0 to {last}, or a name", node)

    def faults_of_job(where: str, job: object) -> Iterator[Fault]:
        is_job = type(job) in (int, str) and job in known
        return faults_unless(is_job, where, "the id of a job in this workload", job)

    for number, each in enumerate(incidents):
        where = f"incidents[{number}]"
        if not any(is_of(each, kind) for kind in get_args(Incident)):
            example = "an incident such as NodeDown(at=60, node=0)"
            yield Fault(where, f"expected {example}, got {shown(each)}")
            continue
        yield from faults_of_time(f"{where}.at", each.at)
        if isinstance(each, NodeDown | NodeDrained | NodeUp):
            yield from faults_of_node(f"{where}.node", each.node)
        elif isinstance(each, QueueSet):
            is_queue = is_of(each.queue, Queue)
            yield from faults_unless(is_queue, f"{where}.queue", "a Queue", each.queue)
        else:
            yield from faults_of_job(f"{where}.job", each.job)
    spans: dict[int, list[tuple[float, float, int]]] = {}
    for number, one in enumerate(reservations):
        where = f"reservations[{number}]"
        if not is_of(one, Reservation):
            yield Fault(where, f"expected a Reservation, got {shown(one)}")
            continue
        is_name = is_text(one.name) and bool(one.name)
        yield from faults_unless(is_name, f"{where}.name", "a name", one.name)
        yield from faults_of_time(f"{where}.start", one.start)
        is_time = is_number(one.start, least=0)
        ends = is_number(one.end, least=one.start if is_time else -inf, above=True)
        yield from faults_unless(ends, f"{where}.end", "a time after its start", one.end)
        for place, node in enumerate(one.nodes):
            yield from faults_of_node(f"{where}.nodes[{place}]", node)
            if is_time and ends and type(node) in (int, str) and node in places:
                spans.setdefault(places[node], []).append((one.start, one.end, number))
        for place, job in enumerate(one.jobs):
            yield from faults_of_job(f"{where}.jobs[{place}]", job)
    for found in spans.values():
        for (_, end, first), (start, _, second) in pairwise(sorted(found)):
            if start < end:
                message = f"expected no overlap with reservations[{first}] on a node"
                yield Fault(f"reservations[{second}]", message)


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


def _items_of(column: Sequence[object] | None) -> tuple[object, ...] | None:
    """Return what a column is compared by: an engine has a list, what reads it a tuple."""
    return None if column is None else tuple(column)


@frozen(kw_only=True)
class NodesOfRun:
    """The nodes of a simulation, and what jobs held there."""

    names: tuple[str, ...]
    dimensions: tuple[str, ...]
    """The names of the dimensions that some node offers: cpu, memory, then scalars by name."""
    capacity: tuple[tuple[int, ...], ...]
    """By node: what it offers in each dimension."""
    pieces: Sequence[Piece] = field(repr=False, eq=_items_of)
    """What jobs held, in order of start, job and node."""
    devices: Mapping[int, tuple[DevicePick, ...]] = field(
        factory=dict[int, tuple[DevicePick, ...]], repr=False
    )
    """The number of a piece to the devices that the tasks had there."""
    down: Sequence[tuple[int, float, float | None]] = field(default=(), eq=_items_of)
    """When nodes were out of service: index of the node, start, end (None: for ever)."""


@frozen(kw_only=True)
class Outcome:
    """When each job started and ended, by its index in the workload."""

    starts: Sequence[float | None] = field(eq=_items_of)
    """The first start of each job; None if it never started."""
    ends: Sequence[float | None] = field(eq=_items_of)
    """The end of each job; None if it never ended."""
    eligible: Sequence[float | None] | None = field(default=None, eq=_items_of)
    """When each job counted as submitted, if it differs from the workload."""
    unfinished: Mapping[int, str] = field(factory=dict[int, str])
    """Job to the reason why it never started or never ended."""
    endings: Mapping[int, str] = field(factory=dict[int, str])
    """Job to `cancelled` or `failed`; metrics do not count these jobs as ended."""
    predicted: Sequence[float] | None = field(default=None, eq=_items_of)
    """The predicted run time of each job at its arrival, if the policy predicts."""
    held: Sequence[float] | None = field(default=None, eq=_items_of)
    """For how long each job held its processors, if not from start to end."""
    preemptions: Sequence[int] | None = field(default=None, eq=_items_of)
    """How often each job was stopped to restart later, if that can happen."""
    intervals: Sequence[Interval] | None = field(default=None, eq=_items_of)
    """When jobs held their processors, if not from start to end."""
    parents: Mapping[str, str] = field(factory=dict[str, str])
    """Queue to its parent, where queues form a tree; as of the end of the simulation."""
    resizes: Sequence[int] | None = field(default=None, eq=_items_of)
    """How often each job got more or fewer tasks."""
    moves: Sequence[int] | None = field(default=None, eq=_items_of)
    """How often each job got as many tasks in other places."""
    lost_work: Sequence[float] | None = field(default=None, eq=_items_of)
    """The work of each job that was lost when it was stopped, in seconds at speed 1."""
    overhead: Sequence[float] | None = field(default=None, eq=_items_of)
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
