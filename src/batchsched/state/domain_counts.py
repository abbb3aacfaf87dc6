"""Counts by topology domain, with a log of changed domains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

__all__ = ["CountsTogether", "DomainChanges", "DomainCount"]


class DomainCount:
    """A count for each domain of one topology key, with a log of changes."""

    __slots__ = ("appearances", "changes", "counts", "key", "together_with")

    def __init__(self, key: str, nodes_in: Mapping[str, Sequence[int]]) -> None:
        self.key = key
        """The node label whose value names the domain."""
        self.counts: dict[str, int] = {}
        """The count of each domain, without domains of count 0."""
        self.changes = DomainChanges(nodes_in)
        """The domains whose count changed."""
        self.appearances = DomainChanges(nodes_in)
        """The domains whose count became 0 or ceased to be 0."""
        self.together_with: list[CountsTogether] = []
        """The sums that are notified when the count of a domain becomes or ceases to be 0."""

    def add(self, labels: Mapping[str, str], amount: int) -> None:
        """Add an amount to the domain of a node with these labels, if it has one."""
        domain = labels.get(self.key)
        if domain is None:
            return
        counts = self.counts
        before = counts.get(domain, 0)
        after = before + amount
        if after:
            counts[domain] = after
            if not before:
                self.appearances.note(domain if len(counts) > 1 else None)
                for together in self.together_with:
                    together.add(domain, 1)
        else:
            del counts[domain]
            self.appearances.note(domain if counts else None)
            for together in self.together_with:
                together.add(domain, -1)
        self.changes.note(domain)

    def of(self, labels: Mapping[str, str]) -> int:
        """Return the count of the domain of a node with these labels; 0 without a domain."""
        domain = labels.get(self.key)
        return 0 if domain is None else self.counts.get(domain, 0)


class CountsTogether:
    """For each domain, how many of several counts are not 0.

    With much anti-affinity, the terms of all tasks may apply to each task; this sums them up.
    """

    __slots__ = ("appearances", "key", "not_zero")

    def __init__(self, key: str, nodes_in: Mapping[str, Sequence[int]]) -> None:
        self.key = key
        """The node label whose value names the domain."""
        self.not_zero: dict[str, int] = {}
        """The number of counts that are not 0 by domain, without domains where all are 0."""
        self.appearances = DomainChanges(nodes_in)
        """The domains where all counts became 0 or ceased to be 0."""

    def add(self, domain: str, amount: int) -> None:
        """Record that one of the counts of a domain ceased to be 0 (1), or became 0 (-1)."""
        before = self.not_zero.get(domain, 0)
        if before + amount:
            self.not_zero[domain] = before + amount
        else:
            del self.not_zero[domain]
        if not before or not before + amount:
            self.appearances.note(domain)


class DomainChanges:
    """The log of changed domains, in order; None stands for all domains."""

    __slots__ = ("_nodes_in", "_noted")

    def __init__(self, nodes_in: Mapping[str, Sequence[int]]) -> None:
        self._nodes_in = nodes_in
        self._noted: list[str | None] = []

    def note(self, domain: str | None) -> None:
        """Record that a domain changed, or all of them."""
        self._noted.append(domain)

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present end of the log, and the nodes of the domains noted since."""
        noted = self._noted
        end = len(noted)
        if position == end:
            return end, ()
        domains = set(noted[position:])
        if None in domains:
            return end, None
        nodes: list[int] = []
        for domain in domains:
            assert domain is not None
            nodes.extend(self._nodes_in[domain])
        return end, nodes
