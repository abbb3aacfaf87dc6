"""Which leaves may lose anything to a claim: those that a loop over all leaves finds."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import Queue
from batchsched.plugin.queues import QueueTree
from batchsched.plugins.capacity.accounts import QueueAccounts, Share
from batchsched.plugins.capacity.claims import leaves_above
from batchsched.testing import queue_trees


def leaves_by_loops(
    accounts: QueueAccounts, position: int, share: Share, *, siblings_alone: bool
) -> list[int]:
    tree, most = accounts.tree, accounts.amounts(share)
    found: list[int] = []
    for leaf in range(len(tree.names)):
        path = tree.path(leaf)
        beside = [
            queue
            for queue in path
            if tree.parents[queue] == tree.parents[position] and queue != position
        ]
        if not tree.is_leaf(leaf) or not beside or (siblings_alone and beside != [leaf]):
            continue
        chain = path[: path.index(beside[0]) + 1]
        if any(
            all(accounts.kept[d][queue] > most[d][queue] for queue in chain)
            for d in range(len(most))
        ):
            found.append(leaf)
    return found


@given(
    queue_trees(max_queues=9, max_depth=4),
    st.integers(0, 2**32),
    st.sampled_from(Share),
    st.booleans(),
)
@settings(max_examples=50)
def test_lenders_keep_more_than_a_share_up_to_the_sibling_of_the_claimant(
    queues: tuple[Queue, ...], seed: int, share: Share, siblings_alone: bool
) -> None:
    random = Random(seed)
    tree = QueueTree(queues)
    leaves = [p for p in range(len(tree.names)) if tree.is_leaf(p)]
    amounts = {leaf: (random.randrange(9000), random.randrange(9000)) for leaf in leaves}
    total = random.randrange(12_000), random.randrange(12_000)
    accounts = QueueAccounts(tree, ("cpu", "memory"), total=total, held=amounts, requests=amounts)
    for position in range(len(tree.names)):
        found = sorted(leaves_above(accounts, position, share, siblings_alone=siblings_alone))
        assert found == leaves_by_loops(accounts, position, share, siblings_alone=siblings_alone)
