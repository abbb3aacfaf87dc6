"""Rules that plugins and actions of one's own may keep."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import cast

__all__ = ["Rule", "rules_of"]


class Rule(Enum):
    """What plugins and actions of your own keep, if you say so: give `check_cycle` the rules.

    The built-in plugins and actions are held to theirs without being told; of yours nothing is
    assumed. What is said of evictions is said of those by actions of yours; of gangs, of all.
    """

    GANGS_START_WHOLE = "gangs start whole"
    """A task is bound only if its job has `min_available` tasks that run or start."""
    GANGS_STAY_WHOLE = "gangs stay whole"
    """A job that lost tasks has `min_available` left, or none."""
    CLAIMANTS_COME_WHOLE = "claimants come whole"
    """Tasks are evicted only for a job that will have `min_available` tasks."""
    PLACES_ARE_PROMISED = "places are promised"
    """Whom a task is evicted for is promised a place on its node (Pipelined)."""
    EVICTIONS_ARE_NEEDED = "evictions are needed"
    """Whom a task is evicted for has a place, and would not fit there without the eviction."""
    CRITICAL_TASKS_STAY = "critical tasks stay"
    """The system's own tasks are not evicted: those that plugin conformance protects."""
    HIGHER_PRIORITIES_STAY = "higher priorities stay"
    """No task is evicted for a job of lower priority than its own job has."""
    QUEUES_KEEP_APART = "queues keep apart"
    """No task is evicted for a job of another queue."""
    CLOSED_NODES_STAY_CLOSED = "closed nodes stay closed"
    """Nothing is placed on a node that is reserved for a task of another job."""


def rules_of(given: object) -> frozenset[Rule]:
    """Return rules as a set.

    Raises:
        TypeError: they are no rules.

    """
    if isinstance(given, Iterable):  # one rule alone is a slip: it has no parts
        parts = list(cast("Iterable[object]", given))
        rules = [part for part in parts if isinstance(part, Rule)]
        if len(rules) == len(parts):
            return frozenset(rules)
    names = ", ".join(f"Rule.{rule.name}" for rule in Rule)
    raise TypeError(f"expected a list of rules, got {given!r}; there are: {names}")
