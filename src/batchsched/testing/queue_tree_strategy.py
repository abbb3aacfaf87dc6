"""A strategy for queues that form a tree, with all fields that plugin capacity reads."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.model.cluster import Queue
from batchsched.testing.asked import Asked
from batchsched.testing.drafts.queue_tree import HIGHEST, build_queue_tree

__all__ = ["queue_trees"]


def queue_trees(
    *,
    max_queues: int = 8,
    max_depth: int = 4,
    scalars: bool = False,
    states: bool = True,
    in_whole_units: bool = True,
) -> SearchStrategy[tuple[Queue, ...]]:
    """Draw queues named ``q1``, ``q2``, ...: a tree with weights, guarantees, limits and so on.

    The queues are valid as part of a snapshot. They shrink towards one queue with default values.
    For snapshots with such queues see `snapshots`: ``snapshots(always=["trees"])``.

    Args:
        max_queues: the most queues; there is at least one.
        max_depth: the most queues on a path from the top to a leaf.
        scalars: whether queues may have amounts of ``nvidia.com/gpu``.
        states: whether queues may be closed or draining.
        in_whole_units: whether amounts are whole CPUs, GiBs and devices, or thousandths and bytes,
            so that divisions hardly ever come out even.

    Raises:
        FaultsError: invalid arguments; all faults at once.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(queue_trees())
    ... def parents_are_queues(queues):
    ...     assert {queue.parent for queue in queues} <= {None, *(queue.name for queue in queues)}
    >>> parents_are_queues()

    """
    asked = Asked()
    most = asked.number("max_queues", max_queues, least=1)
    deepest = asked.number("max_depth", max_depth, least=1)
    asked.check()
    small = st.integers(0, HIGHEST)
    draft = st.tuples(small, st.integers(0, 63), small, st.integers(0, 31), small, small)
    return st.lists(draft, min_size=1, max_size=most).map(
        lambda drafts: build_queue_tree(
            drafts,
            max_depth=deepest,
            dimensions=("cpu", "memory", "nvidia.com/gpu") if scalars else ("cpu", "memory"),
            states=states,
            in_whole_units=in_whole_units,
        )
    )
