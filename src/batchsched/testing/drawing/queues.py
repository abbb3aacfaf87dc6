"""Queues from drawn bytes, flat or as a tree that is valid by construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.model.cluster import JobInfo, Queue, QueueStatus
from batchsched.model.resources import Amount, Resource, ResourceLimit
from batchsched.model.validation.arguments import checks_arguments
from batchsched.testing.drawing.arguments import built, expect_no, too_small
from batchsched.testing.drawing.pools import AGES, DEVICES, GIB, HIGHEST, USERS, Features, numbered

_UNLIMITED = 8

QueueTreeDraft = Sequence[tuple[int, int, int, int, int, int]]
"""Of each queue: parent, weight and priority, guarantee, deserved, limit, state."""

_STATES = (*(QueueStatus.OPEN,) * 12, *(QueueStatus.CLOSED,) * 2, QueueStatus.DRAINING)
_PRIORITIES = (0, 0, 0, 0, 1, 1, 2, -1)
_WEIGHTS = (1, 1, 1, 2, 3, 5, 0, 1)
_UNITS: Mapping[str, int] = {"cpu": 1000, "memory": GIB}


def as_tree(
    flat: Sequence[Queue],
    drafts: QueueTreeDraft,
    *,
    max_depth: int,
    dimensions: tuple[str, ...],
    states: bool,
    in_whole_units: bool,
) -> tuple[Queue, ...]:
    """Make a tree of queues from drawn numbers; amounts that would be invalid are reduced."""
    parents: list[int | None] = []
    depths: list[int] = []
    for position, draft in enumerate(drafts):
        above: int | None = draft[0] % (position + 1) if draft[0] < HIGHEST else 0
        above = None if not above else above - 1
        if above is not None and depths[above] == max_depth:
            above = parents[above]
        parents.append(above)
        depths.append(1 if above is None else depths[above] + 1)
    units = {d: _UNITS.get(d, 1000) if in_whole_units else 1 for d in dimensions}
    kept: dict[int, dict[str, int]] = {}
    queues: list[Queue] = []
    for position in reversed(range(len(drafts))):
        _, kind, guarantee, deserved, limit, state = drafts[position]
        of_children = [kept[child] for child, above in enumerate(parents) if above == position]
        own = _amounts(guarantee, 3, units)
        least = {d: max(own[d], sum(child[d] for child in of_children)) for d in units}
        limits = _amounts(limit, 9, units)
        most = {d: max(limits[d], least[d]) for n, d in enumerate(units) if _is_limited(limit, n)}
        kept[position] = least
        above = parents[position]
        queues.append(
            evolve(
                flat[position],
                parent=None if above is None else flat[above].name,
                weight=_WEIGHTS[kind % 8],
                priority=_PRIORITIES[kind // 8],
                guarantee=_resource(own),
                deserved=_deserved(deserved, units),
                limit=_limit(most) if most else None,
                state=_STATES[state] if states and state < HIGHEST else _STATES[0],
            )
        )
    return tuple(reversed(queues))


def _amounts(draft: int, most: int, units: Mapping[str, int]) -> dict[str, int]:
    """Return an amount of up to `most` units in each dimension, determined by a draft."""
    return {d: draft * n % (most + 1) * unit for n, (d, unit) in enumerate(units.items(), start=1)}


def _is_limited(draft: int, turn: int) -> bool:
    return draft > _UNLIMITED and (draft + turn) % 3 != 0


def _deserved(draft: int, units: Mapping[str, int]) -> Resource | ResourceLimit | None:
    if draft == 31:
        return None
    amounts = _amounts(draft, 12, units)
    if draft >= 28:
        return _limit({d: amount for d, amount in amounts.items() if d != "memory"})
    return _resource(amounts) if draft >= 8 else Resource()


def _resource(amounts: Mapping[str, int]) -> Resource:
    return Resource(
        milli_cpu=amounts.get("cpu", 0),
        memory=amounts.get("memory", 0),
        scalars={d: a for d, a in amounts.items() if d not in ("cpu", "memory") and a},
    )


def _limit(amounts: Mapping[str, Amount]) -> ResourceLimit:
    return ResourceLimit(
        milli_cpu=amounts.get("cpu"),
        memory=amounts.get("memory"),
        scalars={d: a for d, a in amounts.items() if d not in ("cpu", "memory")},
    )


QUEUE_DRAFTS = st.binary(min_size=5, max_size=5)
"""Age, weight and past; in a tree: parent and limit, priority and weight, guarantee and state, what
it deserves.
"""

_PASTS = (
    *((None, 0), (None, 0), (30.0, 0), (None, 0)),
    *((30.0, 400), (None, 90), (30.0, 10), (9.0, 5)),
)
"""The half-life of usage, and the usage in CPUs times seconds."""

_DEEPEST = 3
"""The most queues on a path from the top of a tree to a leaf."""


def build_queue(draft: bytes, name: str, features: Features) -> Queue:
    """Return the queue that a draft describes."""
    age, weight = divmod(draft[0] % 16, 4)
    past = draft[0] // 16 if features.durations else 0
    half_life, used = _PASTS[past % len(_PASTS)]
    usage = Resource(milli_cpu=used * 1000, memory=used * GIB // 2)
    return Queue(
        name=name,
        weight=1 + weight if features.queues else 1,
        creation_time=AGES[age % len(AGES)] if features.ages else 0.0,
        usage=usage,
        usage_by_user={USERS[past % len(USERS)]: usage} if used else {},
        usage_half_life=half_life,
    )


def build_queues(drafts: Sequence[bytes], features: Features) -> list[Queue]:
    """Return the queues that drafts describe, as a tree if the feature is on."""
    queues = [
        build_queue(queue, name, features)
        for queue, name in zip(drafts, numbered("q"), strict=False)
    ]
    if not features.trees:
        return queues
    tree = as_tree(
        queues,
        [
            (place // 16, kind % 64, guarantee // 16, deserved % 32, place % 16, guarantee % 16)
            for _, place, kind, guarantee, deserved in drafts
        ],
        max_depth=_DEEPEST,
        dimensions=("cpu", "memory", DEVICES[0]) if features.scalars else ("cpu", "memory"),
        states=True,
        in_whole_units=True,
    )
    return list(tree)


def at_limits(
    queues: Sequence[Queue], drafts: Sequence[bytes], jobs: Sequence[JobInfo]
) -> list[Queue]:
    """Return queues of which half of the leaves with limits hold all that they may hold."""
    held: dict[str, Resource] = {}
    for job in jobs:
        mine = [task.resreq for task in job.tasks if task.status.charged and not task.is_backfill]
        held[job.queue] = sum(mine, held.get(job.queue, Resource()))
    found = list(queues)
    for number, (queue, draft) in enumerate(zip(queues, drafts, strict=True)):
        if queue.limit is not None and queue.name in held and draft[2] % 2:
            most = {
                name: max(held[queue.name].get(name), queue.guarantee.get(name))
                for name, _ in queue.limit.dimensions()
            }
            found[number] = evolve(queue, limit=_limit(most))
    return found


def leaves(queues: Sequence[Queue]) -> list[str]:
    """Return the names of the queues that jobs may be in."""
    inner = {queue.parent for queue in queues}
    return [queue.name for queue in queues if queue.name not in inner]


@checks_arguments()
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
    expect_no(too_small(1, max_queues=max_queues, max_depth=max_depth))
    small = st.integers(0, HIGHEST)
    draft = st.tuples(small, st.integers(0, 63), small, st.integers(0, 31), small, small)
    return st.lists(draft, min_size=1, max_size=max_queues).map(
        lambda drafts: as_tree(
            [Queue(name=name) for name, _ in zip(numbered("q"), drafts, strict=False)],
            drafts,
            max_depth=max_depth,
            dimensions=("cpu", "memory", "nvidia.com/gpu") if scalars else ("cpu", "memory"),
            states=states,
            in_whole_units=in_whole_units,
        )
    )


@checks_arguments()
def queues(*, name: str = "q1", weights: bool = True, ages: bool = True) -> SearchStrategy[Queue]:
    """Draw queues with a given name, with weights from 1 to 4."""
    features = Features(queues=weights, ages=ages)
    return built(QUEUE_DRAFTS, lambda draft: build_queue(draft, name, features))
