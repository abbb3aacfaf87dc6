"""Verdicts on candidates for eviction, and votes on the readiness of jobs."""

from __future__ import annotations

from enum import Enum

__all__ = ["Verdict", "Vote"]


class Verdict(Enum):
    """The verdict of a plugin on a candidate for eviction."""

    VICTIM = "victim"
    """It may be evicted."""
    WITH_JOB = "with its job"
    """It may be evicted, but only together with all other tasks of its job."""
    PASS = "pass"  # noqa: S105 - not a password
    """The plugin neither makes it a victim nor protects it."""
    PROTECTED = "protected"
    """It must not be evicted, whatever other plugins say."""


class Vote(Enum):
    """The vote of a plugin on a job's readiness."""

    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"
