"""Which leaves may lose anything to a claim: those that a loop over all leaves finds."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import Queue
from batchsched.plugin.queues import QueueTree
from batchsched.plugins.capacity.accounts import Accounts
from batchsched.plugins.capacity.claims import lenders_above_shares
from batchsched.testing import queue_trees


def lenders_by_loops(
    accounts: Accounts, claimant: int, reach: set[int], *, siblings_alone: bool
) -> dict[int, list[int]]:
    tree = accounts.tree
    found: dict[int, list[int]] = {}
    for leaf in range(len(tree.names)):
        if leaf == claimant or not tree.is_leaf(leaf):
            continue
        mine, theirs = tree.branches(claimant, leaf)
        if mine not in reach and not siblings_alone:
            continue
        if siblings_alone and (mine != claimant or theirs != leaf):
            continue
        path = tree.path(leaf)
        chain = path[: path.index(theirs) + 1]
        above = [
            d
            for d in range(len(accounts.held))
            if all(accounts.held[d][y] > accounts.share[d][y] for y in chain)
        ]
        if above:
            found[leaf] = above
    return found


@given(queue_trees(max_queues=9, max_depth=4), st.integers(0, 2**32), st.booleans())
@settings(max_examples=50)
def test_lenders_are_those_that_hold_more_than_their_shares_up_to_the_common_ancestor(
    queues: tuple[Queue, ...],
    seed: int,
    siblings_alone: bool,
) -> None:
    random = Random(seed)
    tree = QueueTree(queues)
    leaves = [p for p in range(len(tree.names)) if tree.is_leaf(p)]
    amounts = {leaf: (random.randrange(9000), random.randrange(9000)) for leaf in leaves}
    total = random.randrange(12_000), random.randrange(12_000)
    accounts = Accounts(tree, ("cpu", "memory"), total=total, held=amounts, requests=amounts)
    for leaf in leaves:
        path = tree.path(leaf)
        reach = path[: random.randrange(len(path) + 1)]
        found = lenders_above_shares(accounts, leaf, reach, siblings_alone=siblings_alone)
        expected = lenders_by_loops(accounts, leaf, set(reach), siblings_alone=siblings_alone)
        assert found == expected
