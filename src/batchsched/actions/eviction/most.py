"""How many tasks a cycle may evict."""

from __future__ import annotations

from math import inf

from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.statement import Statement

__all__ = ["is_within_most", "read_most"]


def read_most(arguments: Arguments) -> float:
    """Read ``maxEvictions``: a number from 0; infinite if it is not given."""
    most = arguments.integer("maxEvictions", default=0, minimum=0)
    return most if arguments.is_given("maxEvictions") else inf


def is_within_most(session: Session, statement: Statement, most: float) -> bool:
    """Return whether a statement evicts nobody, or no more than a cycle may in all. O(1)."""
    evictions = statement.evictions
    return not evictions or len(session.evictions) + evictions <= most
