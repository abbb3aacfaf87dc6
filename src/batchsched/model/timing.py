"""Dependencies between jobs, and planned starts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from attrs import field, frozen

from batchsched.model.immutable import EMPTY, kept_text_map

__all__ = ["Dependency", "JobEvent", "Plan"]


class JobEvent(Enum):
    """An event of a job that another job may depend on. The value is a stable code.

    A job without tasks has neither started nor ended.
    """

    STARTED = "started"
    """At least `min_available` of its tasks hold resources or succeeded, or all have ended."""
    SUCCEEDED = "succeeded"
    """All of its tasks have ended, at least `min_available` of them successfully."""
    ENDED = "ended"
    """All of its tasks have ended."""
    FAILED = "failed"
    """It has ended without success."""


@frozen(kw_only=True)
class Dependency:
    """An event of another job that must have occurred before a job is eligible.

    Slurm's names are ``after`` (started), ``afterok`` (succeeded), ``afterany`` (ended) and
    ``afternotok`` (failed).

    >>> Dependency(job="team/prepare", on=JobEvent.SUCCEEDED).job
    'team/prepare'
    """

    job: str
    """The UID of the other job, ``namespace/name``."""
    on: JobEvent
    satisfied_if_missing: bool = False
    """How to treat a job that is not in the snapshot. True: it has succeeded and was removed;
    False: it has yet to arrive."""


def _places(content: Mapping[str, str], /) -> Mapping[str, str]:
    return kept_text_map(content)


@frozen(kw_only=True)
class Plan:
    """When and where a job is expected to start. A plan holds no resources.

    >>> Plan(start=1410, nodes={"train-8-0": "n1"}).nodes["train-8-0"]
    'n1'
    """

    start: float
    """Seconds, on the same clock as the snapshot's `now`."""
    nodes: Mapping[str, str] = field(default=EMPTY, converter=_places)
    """The node of each task that is to start then, by task UID."""
