"""What plugins answer: verdicts on candidates for eviction, and votes on the readiness of jobs."""

from __future__ import annotations

from enum import Enum

__all__ = ["Verdict", "Vote"]


class Verdict(Enum):
    """What a plugin says of a candidate for eviction."""

    VICTIM = "victim"
    """It may be evicted."""
    WITH_JOB = "with its job"
    """It may be evicted, but only together with all that its job has."""
    PASS = "pass"  # noqa: S105 - no password
    """Not for this plugin's reason."""
    PROTECTED = "protected"
    """It must not be evicted, whatever other plugins say."""


class Vote(Enum):
    """What a plugin says of a job's readiness."""

    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"
