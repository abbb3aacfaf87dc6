"""Watches, which report changes elsewhere in the cluster to a placement engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

__all__ = ["Watch"]


class Watch(Protocol):
    """Reports the nodes for which an answer that reads the whole cluster may have changed."""

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present end of the log, and what changed since `position`.

        Changes are given as slots of nodes; None: any node may have changed. Nodes whose own
        tasks changed need not be included.
        """
        ...
