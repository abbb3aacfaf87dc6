"""The table of nodes, and what the engine keeps on it for one kind of tasks: which nodes are best.

The table has the idle amounts of nodes in columns, brought up to date from the log of changes.
Columns are plain lists here, and NumPy's arrays in `batchsched.placement.arrays`. Going through a
list of numbers costs a tenth of going through nodes.

A ranking or an order evaluates a node again only when it has changed. Normalised scores depend on
which nodes are compared; so nodes with the same raw scores are kept in one group: their normalised
scores are always equal, and the best node of a group does not depend on the other groups.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush, merge
from itertools import chain
from typing import Protocol, cast

from sortedcontainers import SortedList

from batchsched.placement.kinds import Kind, Raw
from batchsched.state.ledger import Ledger
from batchsched.state.memory import Watch
from batchsched.state.records import Fit, NodeState, TaskState

_NONE: frozenset[int] = frozenset()


class ChangedNodes:
    """Which nodes changed for tasks of one kind, since the last time it was asked."""

    __slots__ = ("_log", "_read", "_seen", "_watches")

    def __init__(self, log: Sequence[int], watches: Sequence[Watch]) -> None:
        """Begin at the end of the log of changed nodes, and of what is watched."""
        self._log = log
        self._read = len(log)
        self._watches = watches
        self._seen = tuple(watch.changed_since(0)[0] for watch in watches) if watches else ()

    def unread(self) -> AbstractSet[int] | None:
        """Return the slots of changed nodes, each once; None: any node may have changed.

        O(changes since the last time).
        """
        log, begin = self._log, self._read
        if begin == len(log):
            return _NONE
        self._read = len(log)
        changed: set[int] | None = set(log[begin:])
        if self._watches:
            seen: list[int] = []
            for watch, before in zip(self._watches, self._seen, strict=True):
                now, elsewhere = watch.changed_since(before)
                seen.append(now)
                if elsewhere is None:
                    changed = None
                elif changed is not None:
                    changed.update(elsewhere)
            self._seen = tuple(seen)
        return changed


class RanksNodes(Protocol):
    """Keeps the nodes that suit one kind, and finds the best."""

    @property
    def is_exact(self) -> bool:
        """Whether the answers so far are certain."""
        ...

    def best(self) -> int | None:
        """Return the slot of the best node, or None."""
        ...


class RanksSets(RanksNodes, Protocol):
    """Finds also the best node of a set."""

    def best_of(self, among: Collection[int], /) -> int | None:
        """Return the slot of the best of some nodes, where no scores are normalised, or None.

        O(these).
        """
        ...


class Table:
    """The nodes by slot, with their idle amounts by dimension; call `refresh` before reading."""

    def __init__(self, ledger: Ledger) -> None:
        self.nodes: Sequence[NodeState] = ledger.slots
        self.log: Sequence[int] = ledger.log.nodes
        """The log of changed nodes."""
        self.vacant = ledger.vacant
        """The slots without a node."""
        self.dimensions = ledger.dimensions
        self._changes = ChangedNodes(self.log, ())
        self.diverging: set[int] = set()
        """The slots of the nodes whose derived amounts differ from the idle amount."""
        self.reserved: set[int] = set()
        """The slots of the nodes with reservations."""
        self._columns: list[list[int]] = []
        self._note(range(len(self.nodes)))
        self.load()

    @property
    def is_exact(self) -> bool:
        """Whether the table represents all amounts exactly."""
        return True

    def ranking(self, _kind: Kind, _task: TaskState, /) -> RanksSets | None:
        """Return a ranking of the nodes where tasks of a kind fit now, of which this is one.

        None: an ordinary one is to be made.
        """
        return None

    def load(self) -> None:
        """Read the amounts of all nodes. O(nodes)."""
        self._columns = [
            [node.idle[dimension] for node in self.nodes]
            for dimension in range(len(self.dimensions.names))
        ]

    def refresh(self) -> None:
        """Bring the table up to date. O(changes since the last time)."""
        changed = self._changes.unread()
        if changed:
            self._note(changed)
            self.write(changed)

    def write(self, slots: Collection[int]) -> None:
        """Read the amounts of changed nodes."""
        nodes, columns = self.nodes, self._columns
        for slot in slots:
            for column, amount in zip(columns, nodes[slot].idle, strict=True):
                column[slot] = amount

    def _note(self, slots: Iterable[int]) -> None:
        nodes, diverging, reserved = self.nodes, self.diverging, self.reserved
        for slot in slots:
            node = nodes[slot]
            if node.divergence_count:
                diverging.add(slot)
            elif diverging:
                diverging.discard(slot)
            if node.reserved_tasks:
                reserved.add(slot)
            elif reserved:
                reserved.discard(slot)

    # Which nodes

    def fitting_now(self, kind: Kind, among: Iterable[int] | None = None) -> list[int]:
        """Return the slots of the nodes that are feasible and where a task of a kind fits now.

        They are in order, or in the order of `among` if only these are to be considered.
        """
        return kind.with_choice(self.having_room(kind, among), self.nodes, Fit.NOW)

    def having_room(self, kind: Kind, among: Iterable[int] | None = None) -> list[int]:
        """Return the same as `fitting_now`, whether or not plugins have a choice there."""
        self.refresh()
        nodes, diverging = self.nodes, self.diverging
        found = self.with_idle(kind, _candidates(kind, among))
        if diverging:
            found = [s for s in found if s not in diverging or nodes[s].fits(kind.task)]
        return self.feasible(kind, found)

    def fitting_not_now(
        self,
        fit: Fit,
        kind: Kind,
        among: Iterable[int] | None = None,
    ) -> list[int]:
        """Return the slots of feasible nodes with promises or releases where a task fits.

        Elsewhere it fits now or not at all. O(these nodes).
        """
        self.refresh()
        diverging = self.diverging
        slots = sorted(diverging) if among is None else [s for s in among if s in diverging]
        nodes = self.nodes
        found = self.feasible(kind, [s for s in slots if nodes[s].fits(kind.task, fit)])
        return kind.with_choice(found, nodes, fit)

    def all_feasible(self, kind: Kind, among: Iterable[int] | None = None) -> list[int]:
        """Return the slots of the feasible nodes, in order, or in the order of `among`."""
        self.refresh()
        slots = _candidates(kind, among)
        return self.feasible(kind, range(len(self.nodes)) if slots is None else list(slots))

    def feasible(self, kind: Kind, slots: Sequence[int]) -> list[int]:
        """Return those of some slots whose nodes are feasible for a kind."""
        accepts, nodes, reserved = kind.accepts, self.nodes, self.reserved
        if accepts is not None:
            slots = [slot for slot in slots if accepts[slot]]
        if reserved and not kind.is_best_effort:
            slots = [s for s in slots if s not in reserved or not nodes[s].is_closed]
        return list(kind.passing(slots, nodes))

    def with_idle(self, kind: Kind, slots: Iterable[int] | None) -> list[int]:
        """Return those of some slots (None: all) whose nodes have enough idle for a kind."""
        if slots is None:
            slots = range(len(self.nodes))
        amounts = zip(self._columns, kind.request, strict=True)
        wanted = [(column, amount) for column, amount in amounts if amount]
        # The innermost loop of all, so up to three dimensions at once, the rarest first.
        while len(wanted) > 2:  # noqa: PLR2004
            (a, x), (b, y), (c, z) = wanted.pop(), wanted.pop(), wanted.pop()
            slots = [slot for slot in slots if a[slot] >= x and b[slot] >= y and c[slot] >= z]
        match wanted:
            case [(a, x)]:
                return [slot for slot in slots if a[slot] >= x]
            case [(a, x), (b, y)]:
                return [slot for slot in slots if b[slot] >= y and a[slot] >= x]
            case _:
                return list(slots)


def _candidates(kind: Kind, among: Iterable[int] | None) -> Iterable[int] | None:
    """Return which of some slots (None: all) are to be looked at; None: all."""
    if kind.only_slots is None or kind.accepts is None:
        return among
    accepts = kind.accepts
    return kind.only_slots if among is None else [slot for slot in among if accepts[slot]]


FEW = 12
"""Up to this many changed nodes are evaluated one by one; more, all at once."""

Select = Callable[[Kind, Collection[int] | None], list[int]]
"""Returns which of some slots (None: all) have a node that suits a kind."""

Entry = tuple[tuple[int, ...], float, int]
"""The key of a node, the negated sum of the scores that are not normalised, and the slot: the
smallest comes first."""


class SharedScores:
    """The scores of all nodes for kinds that score alike, where they were computed once."""

    def __init__(self, nodes: Sequence[NodeState], changes: ChangedNodes) -> None:
        self._nodes = nodes
        self._changes = changes
        self._known: list[float | None] = [None] * len(nodes)

    def of(self, kind: Kind, slots: Sequence[int]) -> list[float]:
        """Return the scores of nodes for a kind. O(slots + changes since the last time)."""
        known, nodes = self._known, self._nodes
        changed = self._changes.unread()
        assert changed is not None
        for slot in changed:
            known[slot] = None
        found = list(map(known.__getitem__, slots))
        if None in found:
            missing = [slot for slot in slots if known[slot] is None]
            scores = kind.score([nodes[slot] for slot in missing])
            for slot, score in zip(missing, scores, strict=True):
                known[slot] = score
            found = list(map(known.__getitem__, slots))
        return cast("list[float]", found)


class _Kept:
    """Nodes that suit a kind in some way, with their scores; subclasses keep them in some order."""

    def __init__(
        self,
        kind: Kind,
        nodes: Sequence[NodeState],
        changes: ChangedNodes,
        select: Select,
        suits: Callable[[Kind, NodeState], bool] | None,
        scores: Callable[[Kind, Sequence[int]], list[float]],
        node_key: Callable[[NodeState], tuple[int, ...]] | None = None,
    ) -> None:
        """Evaluate all nodes.

        Args:
            kind: the kind.
            nodes: the nodes by slot.
            changes: which of them changed since.
            select: finds the nodes that suit the kind, in order.
            suits: whether one node does; None: `select` must be asked.
            scores: returns the sums of scores that are not normalised.
            node_key: ranks nodes before scores do, the smallest first; then no score is normalised.

        """
        self.kind = kind
        self.nodes = nodes
        self._changes = changes
        self._select = select
        self._suits = None if kind.normalised or kind.watches else suits
        self._scores = scores
        self._node_key = node_key
        slots = select(kind, None)
        self.load(slots, self._raw(slots), self._score(slots))

    def refresh(self) -> None:
        """Evaluate what changed. O(changes since the last time), at most O(nodes)."""
        changed = self._changes.unread()
        if changed is None:
            slots = self._select(self.kind, None)
            self.load(slots, self._raw(slots), self._score(slots))
            return
        if not changed:
            return
        if self._suits is not None and len(changed) <= FEW:
            kind, nodes, suits = self.kind, self.nodes, self._suits
            slots = [slot for slot in changed if suits(kind, nodes[slot])]
        else:
            slots = self._select(self.kind, changed)
        if len(slots) < len(changed):
            self.discard(changed - set(slots))
        if slots:
            self.put(slots, self._raw(slots), self._score(slots))

    def load(self, slots: Sequence[int], raws: Sequence[Raw], scores: Sequence[float]) -> None:
        """Replace all nodes. `raws` is empty where no scores are normalised."""
        raise NotImplementedError

    def put(self, slots: Sequence[int], raws: Sequence[Raw], scores: Sequence[float]) -> None:
        """Add nodes, or set their scores."""
        raise NotImplementedError

    def discard(self, slots: AbstractSet[int]) -> None:
        """Remove nodes, if they are there."""
        raise NotImplementedError

    def _raw(self, slots: Sequence[int]) -> Sequence[Raw]:
        nodes = self.nodes
        return self.kind.raw([nodes[slot] for slot in slots]) if self.kind.normalised else ()

    def _score(self, slots: Sequence[int]) -> list[float]:
        kind = self.kind
        scores = self._scores(kind, slots)
        if kind.normalised and kind.is_exact:
            kind.is_exact = set(map(type, scores)) <= {int}
        return scores


class _Buckets(dict[float, list[int]]):
    """Lists of nodes by score, made when needed; the scores that have one are kept in a heap."""

    __slots__ = ("negated",)

    def __init__(self) -> None:
        super().__init__()
        self.negated: list[float] = []
        """A heap of the negated scores."""

    def __missing__(self, score: float) -> list[int]:
        heappush(self.negated, -score)
        bucket: list[int] = []
        self[score] = bucket
        return bucket


class Group:
    """Nodes with scores that change, the best first; among equals the first in node order.

    Most scores change several times before the best node is requested, and most nodes are never
    near the top. So nodes are only appended to the bucket of their score; a bucket is sorted when
    it becomes the best one, and outdated entries are dropped then.
    """

    __slots__ = ("_buckets", "_in_order", "score_of")

    def __init__(self) -> None:
        self.score_of: dict[int, float] = {}
        """The score of each node, by slot."""
        self._buckets = _Buckets()
        """Nodes that have got a score, some of which they may not have any more."""
        self._in_order: dict[float, list[int]] = {}
        """The negated slots of nodes by score, sorted, for scores that have been the best."""

    def put(self, scored: Iterable[tuple[int, float]]) -> None:
        """Set the scores of nodes, given with their slots. O(1) each; sorting is deferred."""
        score_of, buckets = self.score_of, self._buckets
        get = score_of.get
        for slot, score in scored:
            if get(slot) != score:
                score_of[slot] = score
                buckets[score].append(slot)

    def best(self) -> tuple[float, int] | None:
        """Return the highest score, and the first node in node order with it."""
        score_of, buckets = self.score_of, self._buckets
        while buckets:
            score = -buckets.negated[0]
            came = buckets[score]
            in_order = self._in_order.get(score)
            if in_order is None:
                in_order = sorted({-slot for slot in came if score_of.get(slot) == score})
                self._in_order[score] = in_order
                came.clear()
            while came:
                insort(in_order, -came.pop())
            while in_order:
                slot = -in_order[-1]
                if score_of.get(slot) == score:
                    return score, slot
                in_order.pop()
            del buckets[score], self._in_order[score]
            heappop(buckets.negated)
        return None


class Ranking(_Kept):
    """Finds the best node for tasks of one kind."""

    is_exact = True

    def load(self, slots: Sequence[int], raws: Sequence[Raw], scores: Sequence[float]) -> None:
        """Replace all nodes. Without raw scores they are not sorted before the second request."""
        self._groups: dict[Raw, Group] = {}
        """The nodes by their raw scores; without these in one group, made when it is needed."""
        self._group_of: dict[int, Group] = {}
        self._scan: tuple[Sequence[int], Sequence[float]] | None = None
        self._was_asked = False
        if self.kind.normalised:
            self.put(slots, raws, scores)
        else:
            # Most kinds of unlike tasks are placed only once.
            self._scan = slots, scores

    def best(self) -> int | None:
        """Return the slot of the best node, or None. O(changes since the last time), amortised."""
        self.refresh()
        if self.kind.normalised:
            return self._best_of_groups()
        if self._scan is not None and not self._was_asked:
            slots, scores = self._scan
            self._was_asked = True
            return slots[scores.index(max(scores))] if slots else None
        best = self._only_group().best()
        return None if best is None else best[1]

    def best_of(self, among: Collection[int], /) -> int | None:
        """Return the slot of the best of some nodes, where no scores are normalised, or None."""
        self.refresh()
        score_of = self._only_group().score_of
        fitting = score_of.keys() & among
        if not fitting:
            return None
        best = max(map(score_of.__getitem__, fitting))
        return min([slot for slot in fitting if score_of[slot] == best])

    def put(self, slots: Sequence[int], raws: Sequence[Raw], scores: Sequence[float]) -> None:
        """Add nodes, or set their scores."""
        if not self.kind.normalised:
            self._only_group().put(zip(slots, scores, strict=True))
            return
        group_of = self._group_of
        of_groups: defaultdict[Raw, list[tuple[int, float]]] = defaultdict(list)
        for slot, raw, score in zip(slots, raws, scores, strict=True):
            of_groups[raw].append((slot, score))
        for raw, entries in of_groups.items():
            group = self._groups.get(raw)
            if group is None:
                group = self._groups[raw] = Group()
            for slot, _ in entries:
                known = group_of.get(slot)
                if known is not group:
                    if known is not None:
                        del known.score_of[slot]
                    group_of[slot] = group
            group.put(entries)

    def discard(self, slots: AbstractSet[int]) -> None:
        """Remove nodes, if they are there."""
        if not self.kind.normalised:
            score_of = self._only_group().score_of
            for slot in score_of.keys() & slots:
                del score_of[slot]
            return
        for slot in self._group_of.keys() & slots:
            del self._group_of.pop(slot).score_of[slot]

    def _only_group(self) -> Group:
        only = self._groups.get(())
        if only is None:
            only = self._groups[()] = Group()
            if self._scan is not None:
                only.put(zip(*self._scan, strict=True))
                self._scan = None
        return only

    def _best_of_groups(self) -> int | None:
        tops: list[tuple[Raw, float, int]] = []
        for raw, group in list(self._groups.items()):
            best = group.best()
            if best is None:
                del self._groups[raw]
            else:
                tops.append((raw, *best))
        if not tops:
            return None
        lowest, highest = _extremes([raw for raw, _, _ in tops])
        total = self.kind.total
        return min((-total(score, raw, lowest, highest), slot) for raw, score, slot in tops)[1]


class Order(_Kept):
    """All nodes that suit a kind, the best first; a key may rank nodes before their scores do."""

    is_exact = True

    def load(self, slots: Sequence[int], raws: Sequence[Raw], scores: Sequence[float]) -> None:
        """Replace all nodes."""
        self._entries: dict[int, tuple[Raw, Entry]] = {}
        self._groups: dict[Raw, SortedList[Entry]] = {}
        self._enter(slots, raws, scores)

    def put(self, slots: Sequence[int], raws: Sequence[Raw], scores: Sequence[float]) -> None:
        """Add nodes, or set their keys and scores. O(log nodes) each."""
        self.discard(self._entries.keys() & slots)
        self._enter(slots, raws, scores)

    def _enter(self, slots: Sequence[int], raws: Sequence[Raw], scores: Sequence[float]) -> None:
        groups: defaultdict[Raw, list[Entry]] = defaultdict(list)
        node_key, nodes = self._node_key, self.nodes
        for slot, raw, score in zip(slots, raws or [()] * len(slots), scores, strict=True):
            entry = (() if node_key is None else node_key(nodes[slot]), -score, slot)
            self._entries[slot] = raw, entry
            groups[raw].append(entry)
        for raw, entries in groups.items():
            self._groups.setdefault(raw, SortedList()).update(entries)

    def discard(self, slots: AbstractSet[int]) -> None:
        """Remove nodes, if they are there. O(log nodes) each."""
        for slot in self._entries.keys() & slots:
            raw, entry = self._entries.pop(slot)
            self._groups[raw].remove(entry)
            if not self._groups[raw]:
                del self._groups[raw]

    def best(self) -> int | None:
        """Return the slot of the best node, where no scores are normalised, or None.

        O(changes since the last time x log nodes).
        """
        self.refresh()
        return next((entries[0][2] for entries in self._groups.values()), None)

    def best_first(self, among: Collection[int] | None = None) -> Iterator[NodeState]:
        """Return the nodes, the best first. O(changes), then O(groups) for each.

        `among`: the only slots that count, where no scores are normalised; None: all do.
        """
        self.refresh()
        if not self.kind.normalised:
            entries = chain.from_iterable(self._groups.values())
            if among is None:
                return (self.nodes[slot] for _, _, slot in entries)
            return (self.nodes[slot] for _, _, slot in entries if slot in among)
        if not self._groups:
            return iter(())
        lowest, highest = _extremes(list(self._groups))
        total = self.kind.total

        def with_total(raw: Raw, entries: Iterable[Entry]) -> Iterator[tuple[float, int]]:
            for _, negative, slot in entries:
                yield -total(-negative, raw, lowest, highest), slot

        streams = [with_total(raw, entries) for raw, entries in self._groups.items()]
        return (self.nodes[slot] for _, slot in merge(*streams))


def _extremes(raws: list[Raw]) -> tuple[Raw, Raw]:
    return tuple(map(min, zip(*raws, strict=True))), tuple(map(max, zip(*raws, strict=True)))
