"""How queues stand at the end of a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from batchsched.model.queue_outcome import QueueOutcome, QueueOutcomes
from batchsched.model.resources import Resource
from batchsched.plugins.capacity.accounts import Accounts
from batchsched.plugins.capacity.loans import LoanBook
from batchsched.state.vectors import Vector, minus, plus

__all__ = ["outcomes_of"]


def outcomes_of(
    accounts: Accounts,
    book: LoanBook,
    promised: Mapping[int, Vector],
    resource: Callable[[Vector], Resource],
) -> QueueOutcomes:
    """Return how each queue stands, by name.

    O(queues x depth x dimensions), and the units of those leaves that hold more than their
    shares, as far as they are not known: whatever is within a share is covered.

    Args:
        accounts: what queues hold and are entitled to.
        book: what is covered.
        promised: what leaves are charged for that is not on nodes yet, by position.
        resource: makes a `Resource` of a vector.

    """
    tree = accounts.tree
    zero: Vector = (0,) * len(accounts.held)
    covered: list[Vector] = [zero for _ in tree.names]
    present: list[Vector] = [zero for _ in tree.names]
    for leaf, children in enumerate(tree.children):
        if children:
            continue
        there, safe = _on_nodes(accounts, book, leaf, promised.get(leaf, zero))
        for position in tree.path(leaf):
            covered[position] = plus(covered[position], safe)
            present[position] = plus(present[position], there)

    def of(lists: Sequence[Sequence[int]], position: int) -> Resource:
        return resource(tuple([of_all[position] for of_all in lists]))

    return QueueOutcomes(
        {
            queue.name: QueueOutcome(
                parent=queue.parent,
                fair_share=of(accounts.share, position),
                allocated=of(accounts.held, position),
                guarantee=of(accounts.guarantee, position),
                limit=queue.limit,
                covered=resource(covered[position]),
                on_loan=resource(minus(present[position], covered[position])),
            )
            for position, queue in enumerate(tree.queues)
        }
    )


def _on_nodes(
    accounts: Accounts, book: LoanBook, leaf: int, promised: Vector
) -> tuple[Vector, Vector]:
    """Return what a leaf has on nodes, and what of it is covered."""
    held = tuple([of_all[leaf] for of_all in accounts.held])
    there = minus(held, promised)
    return there, there if accounts.is_covered(leaf) else book.covered_size(leaf)
