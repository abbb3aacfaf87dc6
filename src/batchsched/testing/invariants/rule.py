"""Rules that custom plugins and actions may follow."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import cast

__all__ = ["Rule", "rules_of"]


class Rule(Enum):
    """Rules that your own plugins and actions follow; pass them to `check_cycle`.

    Built-in plugins and actions are always checked; nothing is assumed of yours without rules.
    Rules on evictions apply to evictions by your actions, rules on gangs to all gangs.
    """

    GANGS_START_WHOLE = "gangs start whole"
    """A task is bound only if its job has `min_available` tasks that run or start."""
    GANGS_STAY_WHOLE = "gangs stay whole"
    """A job that lost tasks has at least `min_available` left, or none."""
    CLAIMANTS_COME_WHOLE = "claimants come whole"
    """Tasks are evicted only for a job that will have `min_available` tasks."""
    PLACES_ARE_PROMISED = "places are promised"
    """The claimant of an eviction is Pipelined to the victim's node."""
    EVICTIONS_ARE_NEEDED = "evictions are needed"
    """The claimant of an eviction has a place where it would not fit without the eviction."""
    CRITICAL_TASKS_STAY = "critical tasks stay"
    """Critical tasks of the system, which plugin conformance protects, are not evicted."""
    HIGHER_PRIORITIES_STAY = "higher priorities stay"
    """No task is evicted for a job of lower priority than its own job has."""
    QUEUES_KEEP_APART = "queues keep apart"
    """No task is evicted for a job of another queue."""
    CLOSED_NODES_STAY_CLOSED = "closed nodes stay closed"
    """Nothing is placed on a node that is reserved for a task of another job."""


def rules_of(given: object) -> frozenset[Rule]:
    """Return rules as a set.

    Raises:
        TypeError: `given` is not a list of rules.

    """
    if isinstance(given, Iterable):  # a single rule is a mistake, and is not iterable
        parts = list(cast("Iterable[object]", given))
        rules = [part for part in parts if isinstance(part, Rule)]
        if len(rules) == len(parts):
            return frozenset(rules)
    names = ", ".join(f"Rule.{rule.name}" for rule in Rule)
    raise TypeError(f"expected a list of rules, got {given!r}; there are: {names}")
