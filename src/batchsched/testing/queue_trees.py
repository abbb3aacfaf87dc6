"""Strategies for queues that form a tree, with all that the plugin capacity reads of them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.model.cluster import Queue
from batchsched.model.resource_limit import ResourceLimit
from batchsched.model.resources import Resource
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import QueueStatus
from batchsched.testing.asked import Asked
from batchsched.testing.pools import GIB
from batchsched.testing.strategies import snapshots

__all__ = ["build_queue_tree", "queue_trees", "tree_snapshots"]

_HIGHEST = 15
_UNLIMITED = 8

QueueTreeDraft = list[tuple[int, int, int, int, int, int]]
"""Of each queue: parent, weight and priority, guarantee, deserved, limit, state."""

_STATES = (*(QueueStatus.OPEN,) * 12, QueueStatus.CLOSED, QueueStatus.CLOSED, QueueStatus.DRAINING)
_PRIORITIES = (0, 0, 0, 0, 1, 1, 2, -1)
_WEIGHTS = (1, 1, 1, 2, 3, 5, 0, 1)
_UNITS: Mapping[str, int] = {"cpu": 1000, "memory": GIB}


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
    small = st.integers(0, _HIGHEST)
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


def build_queue_tree(
    drafts: QueueTreeDraft,
    *,
    max_depth: int,
    dimensions: tuple[str, ...],
    states: bool,
    in_whole_units: bool,
) -> tuple[Queue, ...]:
    """Make queues of drawn numbers; what would be invalid is made less."""
    names = [f"q{position}" for position in range(1, len(drafts) + 1)]
    parents: list[int | None] = []
    depths: list[int] = []
    for position, draft in enumerate(drafts):
        above: int | None = draft[0] % (position + 1) if draft[0] < _HIGHEST else 0
        above = None if not above else above - 1
        if above is not None and depths[above] == max_depth:
            above = parents[above]
        parents.append(above)
        depths.append(1 if above is None else depths[above] + 1)
    kept: dict[int, dict[str, int]] = {}
    queues: list[Queue] = []
    for position in reversed(range(len(drafts))):
        _, kind, guarantee, deserved, limit, state = drafts[position]
        unit = {d: _UNITS.get(d, 1000) if in_whole_units else 1 for d in dimensions}
        children = [kept[child] for child, above in enumerate(parents) if above == position]
        at_least = {d: sum(child[d] for child in children) for d in dimensions}
        own = {d: _amount(guarantee, 3, n) * unit[d] for n, d in enumerate(dimensions)}
        kept[position] = {d: max(at_least[d], own[d]) for d in dimensions}
        most = {
            d: max(_amount(limit, 9, n) * unit[d], kept[position][d])
            for n, d in enumerate(dimensions)
            if _is_limited(limit, n)
        }
        above = parents[position]
        queues.append(
            Queue(
                name=names[position],
                parent=None if above is None else names[above],
                weight=_WEIGHTS[kind % 8],
                priority=_PRIORITIES[kind // 8],
                guarantee=_resource(own),
                deserved=_deserved(deserved, dimensions, unit),
                limit=_limit(most) if most else None,
                state=_STATES[state] if states and state < _HIGHEST else _STATES[0],
            )
        )
    return tuple(reversed(queues))


def _amount(draft: int, most: int, turn: int) -> int:
    """Return an amount up to `most` that a draft stands for in one of the dimensions."""
    return draft * (turn + 1) % (most + 1) if draft else 0


def _is_limited(draft: int, turn: int) -> bool:
    return draft > _UNLIMITED and (draft + turn) % 3 != 0


def _deserved(
    draft: int, dimensions: tuple[str, ...], unit: Mapping[str, int]
) -> Resource | ResourceLimit | None:
    if draft == 31:  # noqa: PLR2004 - the highest that is drawn
        return None
    amounts = {d: _amount(draft, 12, n) * unit[d] for n, d in enumerate(dimensions)}
    if draft >= 28:  # noqa: PLR2004
        return _limit({d: amount for d, amount in amounts.items() if d != "memory"})
    return _resource(amounts) if draft >= 8 else Resource()  # noqa: PLR2004


def _resource(amounts: Mapping[str, int]) -> Resource:
    return Resource(
        milli_cpu=amounts.get("cpu", 0),
        memory=amounts.get("memory", 0),
        scalars={d: a for d, a in amounts.items() if d not in ("cpu", "memory") and a},
    )


def _limit(amounts: Mapping[str, int]) -> ResourceLimit:
    return ResourceLimit(
        milli_cpu=amounts.get("cpu"),
        memory=amounts.get("memory"),
        scalars={d: a for d, a in amounts.items() if d not in ("cpu", "memory")},
    )
