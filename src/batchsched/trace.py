"""The events of a trace, one frozen class for each kind, and what passes them on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Protocol

from attrs import field, frozen

from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import Unfit
from batchsched.model.texts import describe_exports

__all__ = [
    "JobTaken",
    "Key",
    "NodeSought",
    "Placed",
    "QueuePassedOver",
    "QueueRefused",
    "QueueTaken",
    "StatementEnded",
    "Teller",
    "Trace",
    "TraceEvent",
    "UnitsTaken",
    "VerdictsGiven",
]

Key = Mapping[str, object]
"""The part of a key from each plugin, by name, the most significant first."""


@frozen(kw_only=True)
class QueueTaken:
    """An action took the next queue in queue order."""

    action: str
    queue: str
    key: Key
    """Its key by plugin; ties go to ``creation_time`` and ``name``."""
    rivals: Mapping[str, Key] = field(default=EMPTY)
    """The keys of the other queues, if requested."""


@frozen(kw_only=True)
class QueuePassedOver:
    """An action skipped a queue because it is overused."""

    action: str
    queue: str


@frozen(kw_only=True)
class QueueRefused:
    """A queue may not take what a job needs, or may not reclaim resources for it."""

    action: str
    job: str
    tasks: tuple[str, ...]
    """The tasks that it may not take together, by UID."""
    refusal: Unfit
    """Why, with the plugin that refused, and the amount that would be too much."""


@frozen(kw_only=True)
class JobTaken:
    """An action took the next job in job order."""

    action: str
    job: str
    queue: str
    key: Key
    """Its key by plugin; ties go to ``creation_time`` and ``uid``."""
    rivals: Mapping[str, Key] = field(default=EMPTY)
    """The keys of the other jobs, if requested."""


@frozen(kw_only=True)
class NodeSought:
    """An action searched for the best node for a task."""

    action: str
    task: str
    fit: str
    """The required fit: ``now``, ``later`` or ``conditionally``."""
    node: str | None
    """The best node; None: there is none."""
    scores: Mapping[str, float] = field(default=EMPTY)
    """The sum of each plugin's scores on that node."""
    rivals: Mapping[str, Mapping[str, float]] = field(default=EMPTY)
    """The scores of the other nodes compared, if requested."""


@frozen(kw_only=True)
class VerdictsGiven:
    """A plugin gave verdicts on the candidates for eviction."""

    action: str
    plugin: str
    point: str
    """``preemptable`` or ``reclaimable``."""
    alone: bool = False
    """Whether each verdict is on the candidate as the only one, as in the first step; the
    remaining candidates then get verdicts together."""
    claimant: str
    verdicts: Mapping[str, str]
    """The verdict on each candidate by its UID, in victim order."""


@frozen(kw_only=True)
class UnitsTaken:
    """Running tasks leave for another one; told before the end of the statement that decides it."""

    action: str
    claimant: str
    """The task for which they leave, by UID."""
    node: str
    """The node where room is made for it; empty: it was given room elsewhere since."""
    units: tuple[tuple[str, ...], ...] = ()
    """The tasks by UID; those that leave together or not at all stand together."""
    right: str
    """Why they may be taken. By shares of queues: ``fair``, ``deserved``, ``met`` (what a queue
    deserves and can get) or ``level`` (fuller than the claimant's). ``priority``; ``same job``;
    ``backfill``: they run on what is lent; ``broken``: they do no work; ``limit``: only a limit of
    queues was short; ``verdicts``: of the plugins `by`."""
    by: tuple[str, ...] = ()
    """The plugins that let them go, where verdicts count."""
    limit: str = ""
    """The limit that was short, if only that was."""
    stayed: Mapping[str, int] = field(default=EMPTY)
    """How many other candidates there were on the node, by the reason why they stay."""


@frozen(kw_only=True)
class Placed:
    """The effect of a statement on one task."""

    task: str
    node: str
    status: str
    """Its new status, such as ``Allocated``, ``Pipelined`` or ``Releasing``."""


@frozen(kw_only=True)
class StatementEnded:
    """A statement was committed or discarded, with the state of its job then."""

    action: str
    committed: bool
    is_trial: bool
    """Whether it only tested what would be possible."""
    job: str | None
    """The job that it was for; None if nothing was done."""
    steps: tuple[Placed, ...]
    """The tasks that it placed or evicted, in order."""
    min_available: int = 0
    ready: int = 0
    """The number of ready tasks of the job before the end."""
    waiting: int = 0
    """The number of tasks that were promised resources being released."""
    job_ready: bool = False
    """The combined vote of the plugins."""
    job_pipelined: bool = False
    """The combined vote of the plugins."""

    @property
    def why(self) -> str:
        """Why it was committed or discarded, as text."""
        if self.is_trial:
            return "it only tested what would be possible"
        if self.job is None:
            return "it did nothing"
        counts = (
            f"{self.ready} ready and {self.waiting} promised of the {self.min_available} "
            "that must start together"
        )
        if self.job_ready:
            return f"job {self.job!r} is ready: {counts}"
        if self.job_pipelined:
            return f"what is promised to job {self.job!r} is enough: {counts}"
        return f"job {self.job!r} is not ready: {counts}"


TraceEvent = (
    QueueTaken
    | QueuePassedOver
    | QueueRefused
    | JobTaken
    | NodeSought
    | VerdictsGiven
    | UnitsTaken
    | StatementEnded
)
"""Any event of a trace."""

Trace = Callable[[TraceEvent], object]
"""A caller's function that is called with each trace event."""


class _HasAction(Protocol):
    action_name: str


class Teller:
    """Passes events to a function, in order and outside of calls of plugins."""

    def __init__(self, trace: Trace, rivals_at: int | None = None) -> None:
        """Pass events to a function.

        Args:
            trace: is called with each event.
            rivals_at: the position of the one event that also lists the alternatives, which takes
                time that grows with the cluster; None: no event does.

        """
        self.session: _HasAction | None = None
        """The session, once it is open."""
        self._trace = trace
        self._waiting: list[TraceEvent] = []
        self._rivals_at = rivals_at
        self._count = 0
        self._is_silent = False

    @contextmanager
    def silently(self) -> Generator[None]:
        """Tell nothing meanwhile: what is asked only to be told is no event itself."""
        self._is_silent = True
        try:
            yield
        finally:
            self._is_silent = False

    @property
    def action(self) -> str:
        """The action that runs now; empty while the session opens."""
        return "" if self.session is None else self.session.action_name

    @property
    def wants_rivals(self) -> bool:
        """Whether the next event is the one that lists its alternatives."""
        return self._rivals_at == self._count

    def keep(self, event: TraceEvent) -> None:
        """Queue an event, so that an error of the caller is not attributed to a plugin."""
        if self._is_silent:
            return
        self._waiting.append(event)
        self._count += 1

    def tell(self, event: TraceEvent) -> None:
        """Pass on an event, after those that are queued."""
        self._waiting.append(event)
        self._count += 1
        self.flush()

    def flush(self) -> None:
        """Pass on the queued events."""
        while self._waiting:
            self._trace(self._waiting.pop(0))


describe_exports(__name__)
