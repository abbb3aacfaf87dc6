"""Build queues that form a tree, valid by construction, from drawn numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchsched.model.cluster import Queue, QueueStatus
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.testing.drafts.pools import GIB

__all__ = ["HIGHEST", "build_queue_tree"]

HIGHEST = 15
"""The highest choice of a parent, guarantee, limit or state in a draft."""
_UNLIMITED = 8

QueueTreeDraft = Sequence[tuple[int, int, int, int, int, int]]
"""Of each queue: parent, weight and priority, guarantee, deserved, limit, state."""

_STATES = (*(QueueStatus.OPEN,) * 12, QueueStatus.CLOSED, QueueStatus.CLOSED, QueueStatus.DRAINING)
_PRIORITIES = (0, 0, 0, 0, 1, 1, 2, -1)
_WEIGHTS = (1, 1, 1, 2, 3, 5, 0, 1)
_UNITS: Mapping[str, int] = {"cpu": 1000, "memory": GIB}


def build_queue_tree(
    drafts: QueueTreeDraft,
    *,
    max_depth: int,
    dimensions: tuple[str, ...],
    states: bool,
    in_whole_units: bool,
) -> tuple[Queue, ...]:
    """Build queues from drawn numbers; amounts that would be invalid are reduced."""
    names = [f"q{position}" for position in range(1, len(drafts) + 1)]
    parents: list[int | None] = []
    depths: list[int] = []
    for position, draft in enumerate(drafts):
        above: int | None = draft[0] % (position + 1) if draft[0] < HIGHEST else 0
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
                state=_STATES[state] if states and state < HIGHEST else _STATES[0],
            )
        )
    return tuple(reversed(queues))


def _amount(draft: int, most: int, turn: int) -> int:
    """Return an amount up to `most` for one dimension, determined by a draft."""
    return draft * (turn + 1) % (most + 1) if draft else 0


def _is_limited(draft: int, turn: int) -> bool:
    return draft > _UNLIMITED and (draft + turn) % 3 != 0


def _deserved(
    draft: int, dimensions: tuple[str, ...], unit: Mapping[str, int]
) -> Resource | ResourceLimit | None:
    if draft == 31:
        return None
    amounts = {d: _amount(draft, 12, n) * unit[d] for n, d in enumerate(dimensions)}
    if draft >= 28:
        return _limit({d: amount for d, amount in amounts.items() if d != "memory"})
    return _resource(amounts) if draft >= 8 else Resource()


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
