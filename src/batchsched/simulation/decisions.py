"""What a policy may decide, and what it is told: the protocol of all policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import field, frozen

from batchsched.model.cluster import JobInfo, NodeInfo
from batchsched.model.devices import DevicePick
from batchsched.model.immutable import EMPTY
from batchsched.model.resources import Resource
from batchsched.simulation.books import Pairs
from batchsched.simulation.checks import JobId
from batchsched.simulation.work import Speed

Places = Sequence[tuple[str, int]] | Mapping[str, str]
"""Pairs of a node and a number of tasks, which are counted in order: those that the job needs
first; or the node of each task by its UID."""
Devices = Mapping[str, tuple[DevicePick, ...]]
"""The devices of tasks by UID, where places are given by UID too; `Run.placements` shows them."""


@frozen
class Start:
    """Start a waiting job; it holds what it is given from now on.

    With fewer tasks than it needs it holds them, and nothing else happens until it has the rest.
    """

    job: JobId
    places: Places | None = None
    """None: where the policy's placement, or else `View.place`, puts it."""
    cost: float | None = None
    """The seconds that it first takes without working. None: those of its checkpoints, if it was
    stopped before."""
    devices: Devices = field(default=EMPTY, kw_only=True)


@frozen
class Stop:
    """Stop a job: it gives back all, and waits again with the work that it kept."""

    job: JobId


@frozen
class Resize:
    """Give a running job other places: more tasks, fewer, or others. It keeps its work."""

    job: JobId
    places: Places
    """All its places; if they are those that it has, only the cost is taken."""
    cost: float | None = None
    """The seconds that it then takes without working, added to what is left of earlier ones. None:
    those of its checkpoints, or 0 if the places are those that it has."""
    devices: Devices = field(default=EMPTY, kw_only=True)


@frozen
class Wake:
    """Request a pass at a time, instead of the one requested before. Infinity: none.

    For now: another pass, after all other events of this instant; at most 100 in a row.
    """

    at: float


Decision = Start | Stop | Resize | Wake | JobId
"""What a policy may decide; the id of a job alone starts it."""

CauseKind = Literal[
    "arrival", "end", "failed", "cancelled", "stop", "down", "up", "drained", "reserved",
    "unreserved", "queue", "wake",
]  # fmt: skip


@frozen
class Cause:
    """Something that has happened since the last pass."""

    kind: CauseKind
    what: JobId = ""
    """The id of the job, or the name of the node, the reservation or the queue."""
    early: bool = False
    """Whether something became free before it was expected: a job left before its expected end or
    was stopped, or a node came back."""


@frozen(kw_only=True)
class WaitingJob:
    """A waiting job, with what a policy may know of it."""

    id: JobId
    submit: float
    processors: int
    """The processors that it needs, or the whole cpus of its need."""
    requested: float | None
    """The time limit that its user requested."""
    estimate: float | None
    """Its predicted run time, or else its requested time, in seconds at speed 1; None: unknown."""
    user: JobId | None
    queue: JobId | None
    priority: int = 0
    deadline: float | None = None
    kept: float = 0
    """The work that it kept when it was stopped, in seconds at speed 1."""
    stops: int = 0
    """How often it was stopped."""
    duration: float
    """For how long it would run from now on, as far as known; infinity: unknown."""
    need: int
    """How many tasks it needs to run."""
    most: int
    """How many may run."""
    attained: float = 0
    """For how long it has held resources."""
    info: JobInfo | None = field(default=None, repr=False)
    """The job as the scheduler sees it, if it is given so; with the simulator's names and UIDs."""
    speed: Speed | None = None
    labels: Mapping[str, str] = field(factory=dict[str, str])


@frozen(kw_only=True)
class RunningJob:
    """A job that holds resources, with what a policy may know of it."""

    job: WaitingJob = field(repr=False)
    """What was known when it waited."""
    start: float | None
    """Since when it holds what it needs; None: it holds less."""
    expected_end: float | None
    """When it is expected to end, which may have passed; None: unknown."""
    places: Pairs
    """Its nodes, each with the number of its tasks there."""
    done: float
    """Its work so far, in seconds at speed 1."""
    attained: float
    """For how long it has held resources."""

    @property
    def id(self) -> JobId:
        """Its id."""
        return self.job.id

    @property
    def processors(self) -> int:
        """The processors that it holds, or the whole cpus of its need."""
        return self.job.processors

    @property
    def stops(self) -> int:
        """How often it was stopped."""
        return self.job.stops


@frozen(kw_only=True)
class NodeView:
    """A node as a policy sees it."""

    name: str
    info: NodeInfo = field(repr=False)
    free: Resource
    in_service: bool
    drained: bool
