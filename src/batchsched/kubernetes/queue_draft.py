"""A queue as it was read, before its parent and its weight are final."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from attrs import evolve, frozen

from batchsched.kubernetes.objects import KubernetesObject
from batchsched.kubernetes.requests import resource_of
from batchsched.model.cluster import Queue
from batchsched.model.resources import ResourceLimit

__all__ = ["QueueDraft"]


@frozen
class QueueDraft:
    """A queue whose weight may be a fraction."""

    object: KubernetesObject | None
    """The object that it was read from; None: other queues only name it."""
    queue: Queue
    """Everything except the weight."""
    weight: Fraction
    parent_is_known: bool = False
    """Whether its parent is known to exist: it was read, or is implied by other queues."""

    @classmethod
    def of(
        cls,
        given: KubernetesObject | None,
        queue: Queue,
        *,
        weight: int | Fraction,
        guarantee: Mapping[str, int] | None = None,
        deserved: Mapping[str, int] | None = None,
        limit: Mapping[str, int] | None = None,
        unlimited: frozenset[str] = frozenset(),
        parent_is_known: bool = False,
    ) -> QueueDraft:
        """Create a draft from amounts by dimension.

        Args:
            given: the object that it was read from.
            queue: the queue without weight and amounts.
            weight: its weight when surplus is divided.
            guarantee: what is guaranteed to it.
            deserved: what it deserves; a dimension that is not named is 0.
            limit: the most that it may hold; a dimension that is not named is unlimited.
            unlimited: the dimensions in which it deserves everything that its parent has.
            parent_is_known: whether its parent is known to exist.

        """
        deserves = deserved or {}
        return cls(
            given,
            evolve(
                queue,
                guarantee=resource_of(guarantee or {}),
                # A dimension that a `ResourceLimit` does not name is unlimited.
                deserved=_limit_of(
                    {name: 0 for name in ("cpu", "memory") if name not in unlimited}
                    | {name: amount for name, amount in deserves.items() if name not in unlimited}
                )
                if unlimited
                else resource_of(deserves),
                limit=_limit_of(limit) if limit else None,
            ),
            Fraction(weight),
            parent_is_known,
        )

    def with_weight(self, weight: int | Fraction) -> QueueDraft:
        """Return a copy with another weight."""
        return evolve(self, weight=Fraction(weight))


def _limit_of(amounts: Mapping[str, int]) -> ResourceLimit:
    return ResourceLimit(
        milli_cpu=amounts.get("cpu"),
        memory=amounts.get("memory"),
        scalars={name: amounts[name] for name in amounts if name not in ("cpu", "memory")},
    )
