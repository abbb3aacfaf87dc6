"""A report of a search for tasks to evict that failed."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from batchsched.model.immutable import EMPTY, kept_map
from batchsched.model.resources import Resource
from batchsched.model.units import amounts_text

__all__ = ["EvictionReport"]


def _counts(content: Mapping[str, int], /) -> Mapping[str, int]:
    return kept_map(content)


_NOTHING = Resource()


@frozen(kw_only=True)
class EvictionReport:
    """A search for tasks to evict that found none, or too few.

    It describes the state of the cluster at the end of the cycle.

    >>> print(EvictionReport(
    ...     action="reclaim",
    ...     nodes=12,
    ...     candidates=21,
    ...     out={"protected by gang": 12, "covered by its queue's share": 7},
    ...     best_node="n3",
    ...     shortfall=Resource(scalars={"nvidia.com/gpu": 2000}),
    ... ))
    reclaim searched 12 nodes with 21 candidates: protected by gang: 12, \
covered by its queue's share: 7, would still be 2 nvidia.com/gpu short on n3
    """

    action: str
    """The action that searched, such as ``preempt``."""
    nodes: int
    """How many nodes it searched: those that the predicates accept.

    With `curable`, also those that reject the task only for reasons that evictions can remove.
    """
    candidates: int
    """How many running tasks on these nodes it could consider."""
    out: Mapping[str, int] = field(default=EMPTY, converter=_counts)
    """How many candidates may not be evicted, by reason."""
    best_node: str = ""
    """The node with the smallest shortfall after evicting all allowed tasks; empty: no
    shortfall."""
    shortfall: Resource = _NOTHING
    """The resources that would still be missing on that node."""
    refusing: int = 0
    """How many searched nodes would still reject the task by a predicate."""

    @property
    def text(self) -> str:
        """The report in one line."""
        counts = sorted(self.out.items(), key=lambda item: (-item[1], item[0]))
        parts = [f"{why}: {count}" for why, count in counts]
        if self.best_node:
            short = amounts_text(self.shortfall.dimensions())
            parts.append(f"would still be {short} short on {self.best_node}")
        if self.refusing:
            refusing = "1 node" if self.refusing == 1 else f"{self.refusing} nodes"
            parts.append(f"{refusing} would still refuse it")
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        candidates = "1 candidate" if self.candidates == 1 else f"{self.candidates} candidates"
        text = f"{self.action} searched {nodes} with {candidates}"
        return f"{text}: {', '.join(parts)}" if parts else text

    def __str__(self) -> str:
        return self.text
