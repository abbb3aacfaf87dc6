"""What a trace tells of a cycle: one frozen class for each kind of question and answer."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from batchsched.model.immutable import EMPTY

__all__ = [
    "JobTaken",
    "Key",
    "NodeSought",
    "Placed",
    "QueuePassedOver",
    "QueueTaken",
    "StatementEnded",
    "TraceEvent",
    "VerdictsGiven",
]

Key = Mapping[str, object]
"""What each plugin answered, by its name; what decides first stands first."""


@frozen(kw_only=True)
class QueueTaken:
    """An action took the next queue: the least under queue_order."""

    action: str
    queue: str
    key: Key
    """Its key by plugin; ties go to ``creation_time`` and ``name``."""
    rivals: Mapping[str, Key] = field(default=EMPTY)
    """The keys of the queues that were not taken; only where they were asked for."""


@frozen(kw_only=True)
class QueuePassedOver:
    """An action asked whether a queue is overused, and it is."""

    action: str
    queue: str


@frozen(kw_only=True)
class JobTaken:
    """An action took the next job: the least under job_order."""

    action: str
    job: str
    queue: str
    key: Key
    """Its key by plugin; ties go to ``creation_time`` and ``uid``."""
    rivals: Mapping[str, Key] = field(default=EMPTY)
    """The keys of the jobs that were not taken; only where they were asked for."""


@frozen(kw_only=True)
class NodeSought:
    """An action asked for the best node for a task."""

    action: str
    task: str
    fit: str
    """How it should fit: ``now``, ``later`` or ``conditionally``."""
    node: str | None
    """The best; None: there is none."""
    scores: Mapping[str, float] = field(default=EMPTY)
    """What each plugin's scores add up to on that node."""
    rivals: Mapping[str, Mapping[str, float]] = field(default=EMPTY)
    """The scores of the other nodes compared; only where they were asked for."""


@frozen(kw_only=True)
class VerdictsGiven:
    """A plugin judged whom a task may evict."""

    action: str
    plugin: str
    point: str
    """``preemptable`` or ``reclaimable``."""
    alone: bool = False
    """Whether each candidate was judged as if it stood alone, before those that are left are
    judged together."""
    claimant: str
    verdicts: Mapping[str, str]
    """The verdict on each candidate by its UID, in victim order."""


@frozen(kw_only=True)
class Placed:
    """What a statement did with one task."""

    task: str
    node: str
    status: str
    """Its status then, such as ``Allocated``, ``Pipelined`` or ``Releasing``."""


@frozen(kw_only=True)
class StatementEnded:
    """A statement was committed, or discarded, and how its job stood then."""

    action: str
    committed: bool
    is_trial: bool
    """Whether it only asked what would be possible."""
    job: str | None
    """The job that it was for; None if nothing was done."""
    steps: tuple[Placed, ...]
    """The tasks that it placed or evicted, in order."""
    min_available: int = 0
    ready: int = 0
    """How many of the job's tasks were *ready* before it ended."""
    waiting: int = 0
    """How many were promised resources that are being released."""
    job_ready: bool = False
    """What the plugins said together."""
    job_pipelined: bool = False
    """What the plugins said together."""

    @property
    def why(self) -> str:
        """Why it was committed or discarded, in words."""
        if self.is_trial:
            return "it only asked what would be possible"
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


TraceEvent = QueueTaken | QueuePassedOver | JobTaken | NodeSought | VerdictsGiven | StatementEnded
"""Anything that a trace tells."""
