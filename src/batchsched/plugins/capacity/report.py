"""Computes the outcomes of queues at the end of a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import compress, count
from operator import ne

from batchsched.model.resources import Resource
from batchsched.model.result import QueueOutcome, QueueOutcomes
from batchsched.plugins.capacity.accounts import Accounts
from batchsched.plugins.capacity.loans import Loans
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["OutcomesOfQueues"]

_Rows = tuple[list[int], ...]
"""The inputs of outcomes, as rows with a number for each position."""


class OutcomesOfQueues:
    """Computes the outcomes of queues in each cycle, and reuses those that have not changed."""

    def __init__(self, resource: Callable[[Vector], Resource]) -> None:
        self._resource = resource
        self._told = QueueOutcomes()
        self._rows: _Rows = ()
        self._promised: Mapping[int, Vector] = {}
        self._covered: list[Vector] = []
        """The covered amount of each queue."""
        self._present: list[Vector] = []
        """The amount that each queue holds on nodes."""
        self._above: set[int] = set()
        """The leaves that exceed their shares."""

    def outcomes(
        self, accounts: Accounts, loans: Loans, promised: Mapping[int, Vector]
    ) -> QueueOutcomes:
        """Return the outcome of each queue, by name.

        O(queues x dimensions) to find those that have changed, plus the units of leaves that
        exceed their shares where they are not known yet: everything within a share is covered.

        Args:
            accounts: the shares and holdings of queues, of the same tree each time.
            loans: what is covered.
            promised: what leaves are charged for that is not yet on nodes, by position.

        """
        tree = accounts.tree
        rows = tuple(map(list, (*accounts.share, *accounts.held, *accounts.guarantee)))
        if not self._rows:
            zero: Vector = (0,) * len(accounts.held)
            self._covered = [zero for _ in tree.names]
            self._present = [zero for _ in tree.names]
            changed = set(range(len(tree.names)))
        else:
            changed = _differing(self._rows, rows)
        self._rows = rows
        looked_at = changed | self._above | self._promised.keys() | promised.keys()
        self._promised = promised
        for leaf in list(looked_at):
            if not tree.children[leaf]:
                self._look_at(leaf, accounts, loans, promised.get(leaf))
            looked_at.update(tree.path(leaf))
        inner = [position for position in looked_at if tree.children[position]]
        for position in sorted(inner, key=lambda position: -len(tree.path(position))):
            children = tree.children[position]
            self._covered[position] = reduce(plus, [self._covered[each] for each in children])
            self._present[position] = reduce(plus, [self._present[each] for each in children])
        new: dict[str, QueueOutcome] = {}
        for position in sorted(looked_at):  # in order of name, like all of them the first time
            outcome = self._outcome(accounts, position)
            name = tree.names[position]
            if self._told.get(name) != outcome:
                new[name] = outcome
        if new:
            self._told = QueueOutcomes({**self._told, **new})
        return self._told

    def _look_at(
        self, leaf: int, accounts: Accounts, loans: Loans, promised: Vector | None
    ) -> None:
        held: Vector = tuple([of_all[leaf] for of_all in accounts.held])
        self._above.discard(leaf)
        if not any(held):
            self._covered[leaf] = self._present[leaf] = (0,) * len(held)
            return
        there = held if promised is None else minus(held, promised)
        self._present[leaf] = there
        if accounts.is_covered(leaf):
            self._covered[leaf] = there
        else:
            self._above.add(leaf)
            self._covered[leaf] = loans.covered_size(leaf)

    def _outcome(self, accounts: Accounts, position: int) -> QueueOutcome:
        resource, queue = self._resource, accounts.tree.queues[position]
        covered = self._covered[position]
        share, held, guarantee = (
            tuple([of_all[position] for of_all in rows])
            for rows in (accounts.share, accounts.held, accounts.guarantee)
        )
        return QueueOutcome(
            parent=queue.parent,
            fair_share=resource(share),
            allocated=resource(held),
            guarantee=resource(guarantee),
            limit=queue.limit,
            covered=resource(covered),
            on_loan=resource(minus(self._present[position], covered)),
        )


def _differing(before: _Rows, now: _Rows) -> set[int]:
    """Return the positions at which any of the rows differ."""
    found: set[int] = set()
    for old, new in zip(before, now, strict=True):
        if old != new:
            found.update(compress(count(), map(ne, old, new)))
    return found
