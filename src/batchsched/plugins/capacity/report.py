"""How queues stand at the end of a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from batchsched.model.queue_outcome import QueueOutcome, QueueOutcomes
from batchsched.model.resources import Resource
from batchsched.plugins.capacity.accounts import Accounts
from batchsched.plugins.capacity.loans import LoanBook
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["QueueReport"]

_Standing = tuple[Vector, Vector, Vector, Vector, Vector]
"""Of a queue: share, what it holds, its guarantee, what is covered, what is on nodes."""


class QueueReport:
    """Tells how queues stand, from cycle to cycle; what has not changed is told as it was."""

    def __init__(self, resource: Callable[[Vector], Resource]) -> None:
        self._resource = resource
        self._known: dict[int, tuple[_Standing, QueueOutcome]] = {}
        self._told = QueueOutcomes()

    def outcomes(
        self, accounts: Accounts, book: LoanBook, promised: Mapping[int, Vector]
    ) -> QueueOutcomes:
        """Return how each queue stands, by name.

        O(queues x dimensions), and the units of those leaves that hold more than their shares, as
        far as they are not known: whatever is within a share is covered.

        Args:
            accounts: what queues hold and are entitled to, of the same tree each time.
            book: what is covered.
            promised: what leaves are charged for that is not on nodes yet, by position.

        """
        is_new = False
        for position, standing in enumerate(_standings(accounts, book, promised)):
            known = self._known.get(position)
            if known is None or known[0] != standing:
                self._known[position] = standing, self._outcome(accounts, position, standing)
                is_new = True
        if is_new:
            names = accounts.tree.names
            self._told = QueueOutcomes(
                {name: self._known[position][1] for position, name in enumerate(names)}
            )
        return self._told

    def _outcome(self, accounts: Accounts, position: int, standing: _Standing) -> QueueOutcome:
        share, held, guarantee, covered, present = standing
        resource, queue = self._resource, accounts.tree.queues[position]
        return QueueOutcome(
            parent=queue.parent,
            fair_share=resource(share),
            allocated=resource(held),
            guarantee=resource(guarantee),
            limit=queue.limit,
            covered=resource(covered),
            on_loan=resource(minus(present, covered)),
        )


def _standings(
    accounts: Accounts, book: LoanBook, promised: Mapping[int, Vector]
) -> list[_Standing]:
    """Return how each queue stands, by position."""
    tree = accounts.tree
    shares, held = list(zip(*accounts.share, strict=True)), list(zip(*accounts.held, strict=True))
    guarantees = zip(*accounts.guarantee, strict=True)
    zero: Vector = (0,) * len(accounts.held)
    covered: list[Vector] = [zero for _ in held]
    present: list[Vector] = [zero for _ in held]
    for position in reversed(tree.downward):
        if not tree.children[position]:
            if not any(held[position]):
                continue
            waits = promised.get(position)
            there = held[position] if waits is None else minus(held[position], waits)
            present[position] = there
            within = accounts.is_covered(position)
            covered[position] = there if within else book.covered_size(position)
        parent = tree.parents[position]
        if parent >= 0:
            present[parent] = plus(present[parent], present[position])
            covered[parent] = plus(covered[parent], covered[position])
    return list(zip(shares, held, guarantees, covered, present, strict=True))
