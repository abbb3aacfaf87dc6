"""Watches: what tells a placement engine of changes elsewhere in the cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

__all__ = ["Watch"]


class Watch(Protocol):
    """Tells which nodes an answer that reads the whole cluster may have changed for."""

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return where the record of changes ends now, and what changed after `position`.

        What changed is given as indices of nodes; None: any node may have changed.
        Nodes whose own tasks changed need not be told of.
        """
        ...
