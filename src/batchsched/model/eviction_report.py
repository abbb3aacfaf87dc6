"""Why nobody was evicted for a task, as a value."""

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
    """A search for tasks to evict that found nobody, or not enough.

    It tells of the cluster as it stood at the end of the cycle.

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

    With `curable` also those that refuse the task for what evicting can cure.
    """
    candidates: int
    """How many running tasks are there that it may consider."""
    out: Mapping[str, int] = field(default=EMPTY, converter=_counts)
    """How many of them may not be evicted, by reason."""
    best_node: str = ""
    """The node where least is short once all that may be evicted are; empty if none is short."""
    shortfall: Resource = _NOTHING
    """What is still short there."""
    refusing: int = 0
    """How many of the nodes searched would refuse the task even then, by a predicate."""

    @property
    def text(self) -> str:
        """The search in one line."""
        counts = sorted(self.out.items(), key=lambda item: (-item[1], item[0]))
        parts = [f"{why}: {count}" for why, count in counts]
        if self.best_node:
            short = amounts_text(self.shortfall.dimensions())
            parts.append(f"would still be {short} short on {self.best_node}")
        if self.refusing:
            would = "1 node" if self.refusing == 1 else f"{self.refusing} nodes"
            parts.append(f"{would} would still refuse it")
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        candidates = "1 candidate" if self.candidates == 1 else f"{self.candidates} candidates"
        said = f"{self.action} searched {nodes} with {candidates}"
        return f"{said}: {', '.join(parts)}" if parts else said

    def __str__(self) -> str:
        return self.text
