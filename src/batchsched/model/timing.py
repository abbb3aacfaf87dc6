"""What jobs say of time besides durations: what they wait for, and when they are to start."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from attrs import field, frozen

from batchsched.model.immutable import EMPTY, kept_text_map

__all__ = ["Dependency", "JobEvent", "Plan"]


class JobEvent(Enum):
    """What another job may wait for. The value is a stable code.

    A job without tasks has not started, and so it has not ended either.
    """

    STARTED = "started"
    """At least `min_available` of its tasks hold resources or succeeded, or all have ended."""
    SUCCEEDED = "succeeded"
    """All of its tasks have ended, at least `min_available` of them well."""
    ENDED = "ended"
    """All of its tasks have ended."""
    FAILED = "failed"
    """It has ended, and not succeeded."""


@frozen(kw_only=True)
class Dependency:
    """A job that must have come so far before another is eligible.

    Slurm calls them ``after`` (started), ``afterok`` (succeeded), ``afterany`` (ended) and
    ``afternotok`` (failed).

    >>> Dependency(job="team/prepare", on=JobEvent.SUCCEEDED).job
    'team/prepare'
    """

    job: str
    """The UID of the other job, ``namespace/name``."""
    on: JobEvent
    satisfied_if_missing: bool = False
    """What a job means that is not in the snapshot: True, that it has ended well and was removed;
    False, that it has yet to come."""


def _places(content: Mapping[str, str], /) -> Mapping[str, str]:
    return kept_text_map(content)


@frozen(kw_only=True)
class Plan:
    """When a job is expected to start, and where. It holds nothing.

    >>> Plan(start=1410, nodes={"train-8-0": "n1"}).nodes["train-8-0"]
    'n1'
    """

    start: float
    """Seconds, on the same clock as the snapshot's `now`."""
    nodes: Mapping[str, str] = field(default=EMPTY, converter=_places)
    """Task UID to node name, for each task that is to start then."""
