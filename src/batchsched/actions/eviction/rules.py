"""Limits on an action's evictions: how many tasks, how recently started, and on which nodes."""

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
    """Limits on an action's evictions, which hold whatever plugins say."""

    most: float = inf
    """The most tasks that a cycle may evict in all; a turn that would exceed it is rolled back."""
    min_runtime: float = 0.0
    """Tasks that started less than this many seconds ago are not evicted; 0: no such rule.

    A job or replica that is evicted only as a whole is spared if any of its tasks is. The start
    times of tasks must be known.
    """

    curable: bool = False
    """Whether to search also nodes that refuse the claimant only for reasons evicting can cure.

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
        """Return the rule for tasks that started recently; None if there is no such rule."""
        return RecentStarts(session.now, self.min_runtime) if self.min_runtime > 0 else None

    def allow(self, session: Session, statement: Statement) -> bool:
        """Return whether a statement evicts no task, or keeps the cycle within `most`. O(1)."""
        evictions = statement.evictions
        return not evictions or len(session.evictions) + evictions <= self.most


DEFAULT_RULES = EvictionRules()
"""No limits: any number of tasks, whenever started, but only on nodes that accept the claimant."""
