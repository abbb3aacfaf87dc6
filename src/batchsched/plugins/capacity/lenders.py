"""The leaves that may lose what they hold beyond their shares."""

from __future__ import annotations

from collections.abc import Collection

from batchsched.plugins.capacity.accounts import Accounts

__all__ = ["lenders_above_shares"]


def lenders_above_shares(
    accounts: Accounts, claimant: int, reach: Collection[int], *, siblings_alone: bool = False
) -> dict[int, Collection[int]]:
    """Return the leaves that may lose resources to a leaf, each with the dimensions concerned.

    A leaf may lose of a dimension only if it and all queues above it, up to where its path meets
    the claimant's, hold more of it than their shares. The search does not go below other queues:
    O(dimensions x children of the queues that are, and of those above the claimant).

    Args:
        accounts: what queues hold and are entitled to.
        claimant: the leaf that claims, by position.
        reach: the queues of its path that would stay within their shares.
        siblings_alone: whether only leaves beside the claimant count, whatever its reach.

    """
    tree, held, share = accounts.tree, accounts.held, accounts.share
    dimensions = range(len(held))
    found: dict[int, Collection[int]] = {}
    below: list[tuple[int, Collection[int]]] = []
    for position in (claimant,) if siblings_alone else tree.path(claimant):
        if siblings_alone or position in reach:
            parent = tree.parents[position]
            beside = tree.tops if parent < 0 else tree.children[parent]
            below += [(other, dimensions) for other in beside if other != position]
    while below:
        position, candidates = below.pop()
        above = [d for d in candidates if held[d][position] > share[d][position]]
        if not above:
            continue
        children = tree.children[position]
        if not children:
            found[position] = above
        elif not siblings_alone:
            below += [(child, above) for child in children]
    return found
