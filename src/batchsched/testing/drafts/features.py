"""The features of examples, and values that all their parts share."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from attrs import frozen

__all__ = ["AGES", "HIGHEST", "NOW", "USERS", "Features", "now_of", "numbered"]

HIGHEST = 15
"""The highest choice in a draft."""

NOW = 100.0
"""The time of snapshots whose jobs have ages, in seconds."""

AGES = (0.0, 90.0, 40.0, 99.0)
"""Creation times, in seconds."""

USERS = ("", "ann", "bob")
"""The users of jobs."""


@frozen(kw_only=True)
class Features:
    """The features that examples may have; see `batchsched.testing.snapshots`."""

    gangs: bool = True
    invalid_jobs: bool = True
    priorities: bool = True
    ages: bool = True
    queues: bool = True
    unknown_queues: bool = True
    best_effort: bool = True
    scalars: bool = True
    init_requests: bool = True
    constraints: bool = True
    affinity: bool = True
    running: bool = True
    endings: bool = True
    backfill: bool = True
    reservations: bool = True
    promises: bool = True
    critical: bool = True
    other_tasks: bool = True
    durations: bool = True
    dependencies: bool = True
    overcommitted: bool = True
    trees: bool = True
    groups: bool = True


def now_of(features: Features) -> float:
    """Return the time of a snapshot."""
    return NOW if features.ages else 0.0


def numbered(letter: str) -> Iterator[str]:
    """Yield a letter with 1, 2, and so on."""
    return (f"{letter}{number}" for number in count(1))
