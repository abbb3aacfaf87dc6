"""Counts by topology domain, with logs of changed domains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from attrs import define

from batchsched.state.watch import Watch

__all__ = [
    "ChangeNumber",
    "CountsTogether",
    "DomainChanges",
    "DomainCount",
    "NetCount",
    "Presence",
]


class Presence(Protocol):
    """The domains of one topology key where there is something."""

    def is_at(self, labels: Mapping[str, str], /) -> bool:
        """Return whether there is something in the domain of a node with these labels."""
        ...

    @property
    def appearances(self) -> Sequence[Watch]:
        """Report the domains where something appeared or vanished."""
        ...


@define(eq=False)
class ChangeNumber:
    """Numbers the changes of several counts in order.

    So one number says for all of them how much a reader has seen.
    """

    latest: int = 1
    """Who begins to read at 0 has seen nothing yet."""


class DomainChanges:
    """When each domain changed last; a `Watch`."""

    __slots__ = ("_all_changed", "_last", "_nodes_in", "_number")

    def __init__(self, nodes_in: Mapping[str, Sequence[int]], number: ChangeNumber) -> None:
        self._nodes_in = nodes_in
        self._number = number
        self._last: dict[str, int] = {}
        """The number of the last change of each domain, in order."""
        self._all_changed = 1
        """The number of the last change of all domains together."""

    def note(self, domain: str) -> None:
        """Record that a domain changed."""
        self._number.latest = now = self._number.latest + 1
        # Domains that changed last come last.
        self._last.pop(domain, None)
        self._last[domain] = now

    def note_all(self) -> None:
        """Record that all domains changed."""
        self._number.latest = self._all_changed = self._number.latest + 1

    def domains_since(self, position: int, /) -> list[str]:
        """Return the domains that were noted since a position, one by one. O(domains returned)."""
        found: list[str] = []
        for domain, last in reversed(self._last.items()):
            if last <= position:
                break
            found.append(domain)
        return found

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present position, and the nodes of the domains noted since; None: all."""
        if self._all_changed > position:
            return self._number.latest, None
        nodes: list[int] = []
        for domain in self.domains_since(position):
            nodes.extend(self._nodes_in[domain])
        return self._number.latest, nodes


class DomainCount:
    """A count for each domain of one topology key, with logs of changes; a `Presence`."""

    __slots__ = (
        *("any_appearance", "appeared", "changes", "counts", "key", "nodes_in", "number"),
        *("together_with", "total"),
    )

    def __init__(
        self, key: str, nodes_in: Mapping[str, Sequence[int]], number: ChangeNumber
    ) -> None:
        self.key = key
        """The node label whose value names the domain."""
        self.nodes_in = nodes_in
        """The slots of the nodes of each domain."""
        self.number = number
        """Numbers the changes of this count and of others."""
        self.counts: dict[str, int] = {}
        """The count of each domain, without domains of count 0."""
        self.total = 0
        """The sum of all counts."""
        self.changes = DomainChanges(nodes_in, number)
        """The domains whose count changed."""
        self.appeared = DomainChanges(nodes_in, number)
        """The domains whose count became 0 or ceased to be 0."""
        self.any_appearance = DomainChanges(nodes_in, number)
        """All domains, whenever all counts became 0 or one ceased to be 0."""
        self.together_with: CountsTogether | None = None
        """What is notified when the count of a domain becomes or ceases to be 0."""

    def add(self, labels: Mapping[str, str], amount: int) -> None:
        """Add an amount to the domain of a node with these labels, if it has one."""
        domain = labels.get(self.key)
        if domain is None:
            return
        counts = self.counts
        before = counts.get(domain, 0)
        after = before + amount
        self.total += amount
        if after:
            counts[domain] = after
        else:
            del counts[domain]
        if not before or not after:
            self.appeared.note(domain)
            if len(counts) <= (not before):
                self.any_appearance.note_all()
            if self.together_with is not None:
                self.together_with.add(domain, 1 if after else -1)
        self.changes.note(domain)

    def of(self, labels: Mapping[str, str]) -> int:
        """Return the count of the domain of a node with these labels; 0 without a domain."""
        domain = labels.get(self.key)
        return 0 if domain is None else self.counts.get(domain, 0)

    def is_at(self, labels: Mapping[str, str], /) -> bool:
        """Return whether the count of the domain of a node with these labels is not 0."""
        return labels.get(self.key) in self.counts

    @property
    def is_anywhere(self) -> bool:
        """Whether any count is not 0."""
        return bool(self.counts)

    @property
    def appearances(self) -> Sequence[Watch]:
        """Report the domains whose count became 0 or ceased to be 0."""
        return (self.appeared,)


class CountsTogether:
    """For each domain, how many of several counts are not 0; a `Presence`.

    With much anti-affinity, the terms of many tasks may apply to the same tasks.
    """

    __slots__ = ("_appeared", "_key", "_not_zero")

    def __init__(self, counts: Sequence[DomainCount]) -> None:
        """Begin with counts of one topology key that are all 0, and are not together with others.

        From then on they update this.
        """
        first = counts[0]
        self._key = first.key
        self._not_zero: dict[str, int] = {}
        self._appeared = DomainChanges(first.nodes_in, first.number)
        for count in counts:
            assert count.together_with is None
            assert not count.counts
            count.together_with = self

    def add(self, domain: str, amount: int) -> None:
        """Record that one of the counts of a domain ceased to be 0 (1), or became 0 (-1)."""
        before = self._not_zero.get(domain, 0)
        if before + amount:
            self._not_zero[domain] = before + amount
        else:
            del self._not_zero[domain]
        if not before or not before + amount:
            self._appeared.note(domain)

    def is_at(self, labels: Mapping[str, str], /) -> bool:
        """Return whether any of the counts is not 0 in the domain of a node with these labels."""
        return labels.get(self._key) in self._not_zero

    @property
    def appearances(self) -> Sequence[Watch]:
        """Report the domains where all counts became 0 or ceased to be 0."""
        return (self._appeared,)


class NetCount:
    """A count from which others, of some of the same tasks, are subtracted; a `Presence`.

    The first count may be part of many net counts, so none of these is updated before it is asked.
    """

    __slots__ = (
        *("_any_appearance", "_appeared", "_as_of", "_exceptions", "_known", "_was_anywhere"),
        "_whole",
    )

    def __init__(self, whole: DomainCount, exceptions: Sequence[DomainCount]) -> None:
        """Begin with counts that are all 0.

        Args:
            whole: the count of which the others are a part.
            exceptions: the counts to subtract, at least one, of the same topology key.

        """
        assert not whole.counts
        self._whole = whole
        self._exceptions = exceptions
        self._as_of = 0
        self._known: dict[str, bool] = {}
        """For each domain where there were exceptions: whether anything remained at `_as_of`."""
        self._was_anywhere = False
        self._appeared = DomainChanges(whole.nodes_in, whole.number)
        self._any_appearance = DomainChanges(whole.nodes_in, whole.number)

    def is_at(self, labels: Mapping[str, str], /) -> bool:
        """Return whether anything remains in the domain of a node with these labels."""
        domain = labels.get(self._whole.key)
        return domain is not None and self._remains_in(domain)

    @property
    def is_anywhere(self) -> bool:
        """Whether anything remains in any domain."""
        return self._whole.total > sum(count.total for count in self._exceptions)

    @property
    def appearances(self) -> Sequence[Watch]:
        """Report the domains where everything became or ceased to be an exception."""
        # Where there are no exceptions, the whole count alone decides.
        return self._whole.appeared, _Refreshed(self, self._appeared)

    @property
    def any_appearance(self) -> Watch:
        """Reports all domains, whenever `is_anywhere` changed."""
        return _Refreshed(self, self._any_appearance)

    def refresh(self) -> None:
        """Read what changed since the last time. O(domains that changed x counts)."""
        as_of, known = self._as_of, self._known
        if as_of == self._whole.number.latest:
            return
        changed = [d for each in self._exceptions for d in each.changes.domains_since(as_of)]
        if known:
            changed += [d for d in self._whole.changes.domains_since(as_of) if d in known]
        for domain in changed:
            remains = self._remains_in(domain)
            if known.get(domain) is not remains:
                known[domain] = remains
                self._appeared.note(domain)
        if self.is_anywhere is not self._was_anywhere:
            self._was_anywhere = not self._was_anywhere
            self._any_appearance.note_all()
        self._as_of = self._whole.number.latest

    def _remains_in(self, domain: str) -> bool:
        remaining = self._whole.counts.get(domain, 0)
        if remaining:
            for count in self._exceptions:
                remaining -= count.counts.get(domain, 0)
        assert remaining >= 0, "more exceptions than there are in all"
        return remaining > 0


class _Refreshed:
    """A log of a net count, which is brought up to date before it is read; a `Watch`."""

    __slots__ = ("_changes", "_count")

    def __init__(self, count: NetCount, changes: DomainChanges) -> None:
        self._count = count
        self._changes = changes

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present position, and the nodes of the domains noted since; None: all."""
        self._count.refresh()
        return self._changes.changed_since(position)
