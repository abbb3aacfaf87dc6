"""Build queues from drawn bytes, flat or as a tree."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from batchsched.model.cluster import Queue
from batchsched.model.resources import Resource
from batchsched.testing.drafts.features import AGES, USERS, Features, numbered
from batchsched.testing.drafts.pools import DEVICES, GIB
from batchsched.testing.drafts.queue_tree import build_queue_tree

__all__ = ["QueueDraft", "build_queue", "build_queues", "leaves"]

QueueDraft = bytes
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


def build_queue(draft: QueueDraft, name: str, features: Features) -> Queue:
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


def build_queues(drafts: Sequence[QueueDraft], features: Features) -> list[Queue]:
    """Return the queues that drafts describe, as a tree if the feature is on."""
    queues = [
        build_queue(queue, name, features)
        for queue, name in zip(drafts, numbered("q"), strict=False)
    ]
    if not features.trees:
        return queues
    tree = build_queue_tree(
        [
            (place // 16, kind % 64, guarantee // 16, deserved % 32, place % 16, guarantee % 16)
            for _, place, kind, guarantee, deserved in drafts
        ],
        max_depth=_DEEPEST,
        dimensions=("cpu", "memory", DEVICES[0]) if features.scalars else ("cpu", "memory"),
        states=True,
        in_whole_units=True,
    )
    return [
        evolve(
            queue,
            creation_time=plain.creation_time,
            usage=plain.usage,
            usage_by_user=plain.usage_by_user,
            usage_half_life=plain.usage_half_life,
        )
        for queue, plain in zip(tree, queues, strict=True)
    ]


def leaves(queues: Sequence[Queue]) -> list[str]:
    """Return the names of the queues that jobs may be in."""
    inner = {queue.parent for queue in queues}
    return [queue.name for queue in queues if queue.name not in inner]
