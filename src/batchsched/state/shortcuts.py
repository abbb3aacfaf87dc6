"""The shortcuts, each of which can be switched off.

A shortcut answers a question of policy with less work than its plain definition takes. Where it is
switched off, the definition itself is used: the same decisions, more slowly.
"""

from __future__ import annotations

from enum import Enum


class Shortcut(Enum):
    """A question that has a plain definition and a faster way to the same answer."""

    # That of Enum hashes the name each time; it is asked in loops whether a shortcut is off.
    __hash__ = object.__hash__

    TURNS = "turns"
    """Which queue and which job come next. Plain: all keys are computed, the least is taken."""
    ATTEMPTS = "attempts"
    """Whether what a job needs can be placed. Plain: it is tried."""
    ROOM = "room"
    """Whom to evict for a task. Plain: every node and every candidate is looked at."""
    LOANS = "loans"
    """What the shares of queues cover, and what is on loan. Plain: computed anew each time."""
    ENGINE = "engine"
    """Which nodes accept a task, and which is best. Plain: a loop over all nodes."""
    CYCLES = "cycles"
    """What is kept of a living cluster between cycles. Plain: nothing."""
    PASSES = "passes"
    """What starts on a small plain cluster. Plain: what a session decides. It takes the place of
    all definitions, so it is off where any of them is wanted."""


ALL_SHORTCUTS = frozenset(Shortcut)
