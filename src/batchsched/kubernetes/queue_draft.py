"""A queue as it was read, before its place in the tree and its weight are settled."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from attrs import evolve, frozen

from batchsched.kubernetes.objects import KubernetesObject
from batchsched.kubernetes.requests import resource_of
from batchsched.model.cluster import Queue
from batchsched.model.resource_limit import ResourceLimit

__all__ = ["QueueDraft"]


@frozen
class QueueDraft:
    """A queue with a weight that need not be a whole number."""

    object: KubernetesObject | None
    """What it was read from; None: other queues only name it."""
    queue: Queue
    """All but the weight."""
    weight: Fraction
    parent_is_known: bool = False
    """Whether its parent is one of the queues that are read, or implied by them."""

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
        """Return a queue with amounts by dimension.

        Args:
            given: what it was read from.
            queue: its name, place and so on.
            weight: of what is left.
            guarantee: what is kept for it.
            deserved: what is its own; what is not named is 0.
            limit: the most that it may hold; what is not named is unlimited.
            unlimited: the dimensions in which it deserves all that its parent has.
            parent_is_known: whether its parent needs not be looked for.

        """
        deserves = deserved or {}
        return cls(
            given,
            evolve(
                queue,
                guarantee=resource_of(guarantee or {}),
                # In a `ResourceLimit` what is not named is unlimited.
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
        """Return the same with another weight."""
        return evolve(self, weight=Fraction(weight))


def _limit_of(amounts: Mapping[str, int]) -> ResourceLimit:
    return ResourceLimit(
        milli_cpu=amounts.get("cpu"),
        memory=amounts.get("memory"),
        scalars={name: amounts[name] for name in amounts if name not in ("cpu", "memory")},
    )
