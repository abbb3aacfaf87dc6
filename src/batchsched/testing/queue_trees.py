"""Strategies for queues that form a tree, with all that the plugin capacity reads of them."""

from __future__ import annotations

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.model.cluster import Queue
from batchsched.model.snapshot import Snapshot
from batchsched.testing.asked import Asked
from batchsched.testing.strategies import snapshots
from batchsched.testing.tree_drafts import HIGHEST, build_queue_tree

__all__ = ["queue_trees", "tree_snapshots"]


def queue_trees(
    *,
    max_queues: int = 8,
    max_depth: int = 4,
    scalars: bool = False,
    states: bool = True,
    in_whole_units: bool = True,
) -> SearchStrategy[tuple[Queue, ...]]:
    """Draw queues named ``q1``, ``q2``, ...: a tree with weights, guarantees, limits and so on.

    What is drawn is valid as part of a snapshot. It shrinks towards one queue without anything.

    Args:
        max_queues: the most queues; there is at least one.
        max_depth: the most queues on a path from the top to a leaf.
        scalars: whether amounts of ``nvidia.com/gpu`` may be granted too.
        states: whether queues may be closed or draining.
        in_whole_units: whether amounts are whole cpus, GiBs and devices, or thousandths and
            bytes, so that what is divided hardly ever comes out even.

    Raises:
        FaultsError: arguments are not what they should be; all faults at once.

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


def tree_snapshots(
    of: SearchStrategy[Snapshot] | None = None,
    *,
    max_queues: int = 6,
    max_depth: int = 3,
    states: bool = True,
) -> SearchStrategy[Snapshot]:
    """Draw snapshots whose jobs draw on the leaves of a tree of queues.

    Args:
        of: the snapshots whose jobs do so. None: what `batchsched.testing.snapshots` draws.
        max_queues: the most queues.
        max_depth: the most queues on a path from the top to a leaf.
        states: whether queues may be closed or draining.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(tree_snapshots())
    ... def jobs_are_in_leaves(snapshot):
    ...     parents = {queue.parent for queue in snapshot.queues}
    ...     assert not parents.intersection(job.queue for job in snapshot.jobs)
    >>> jobs_are_in_leaves()
    """
    trees = queue_trees(max_queues=max_queues, max_depth=max_depth, scalars=True, states=states)
    return st.tuples(snapshots() if of is None else of, trees).map(
        lambda drawn: _hung_on(drawn[0], drawn[1])
    )


def _hung_on(snapshot: Snapshot, queues: tuple[Queue, ...]) -> Snapshot:
    """Let the jobs of a snapshot draw on the leaves of a tree."""
    inner = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in inner]
    known = {queue.name for queue in snapshot.queues}
    jobs = [
        evolve(job, queue=leaves[(int(job.queue[1:]) + number) % len(leaves)])
        if job.queue in known
        else job
        for number, job in enumerate(snapshot.jobs)
    ]
    return evolve(snapshot, queues=queues, jobs=jobs)
