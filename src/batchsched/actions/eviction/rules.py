"""What an action keeps to when it evicts: how many tasks, how recent ones, and where it looks."""

from __future__ import annotations

from math import inf

from attrs import frozen

from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.victims import RecentStarts

__all__ = ["DEFAULT_RULES", "EvictionRules"]


@frozen(kw_only=True)
class EvictionRules:
    """What an action must keep to when it evicts, whatever plugins say."""

    most: float = inf
    """How many tasks a cycle may evict in all; a turn that would exceed it is undone."""
    min_runtime: float = 0.0
    """Tasks that started less than so many seconds ago are not evicted; 0: no such rule.

    Nor is what goes only as a whole, if one of its tasks did. When a task started must be known.
    """

    curable: bool = False
    """Whether nodes are searched too that refuse the claimant only for what evicting can cure.

    See `batchsched.plugin.Predicate.curable`.
    """

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> EvictionRules:
        """Read ``maxEvictions`` and ``minRuntime``, numbers from 0, and ``curable``."""
        most = arguments.integer("maxEvictions", default=0, minimum=0)
        return cls(
            most=most if arguments.is_given("maxEvictions") else inf,
            min_runtime=arguments.number("minRuntime", default=0, minimum=0),
            curable=arguments.boolean("curable", default=False),
        )

    def recent(self, session: Session) -> RecentStarts | None:
        """Return which tasks have just started; None if that does not matter."""
        return RecentStarts(session.now, self.min_runtime) if self.min_runtime > 0 else None

    def allow(self, session: Session, statement: Statement) -> bool:
        """Return whether a statement evicts nobody, or no more than a cycle may in all. O(1)."""
        evictions = statement.evictions
        return not evictions or len(session.evictions) + evictions <= self.most


DEFAULT_RULES = EvictionRules()
"""Any number of tasks, whenever they started, on nodes that accept the claimant."""
