"""The engine on arrays, or, where NumPy is not installed, the engine as it is there: on lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchsched.placement.indexed import IndexedPlacement

if TYPE_CHECKING:
    from batchsched.fast import VectorisedPlacement
else:
    try:
        from batchsched.fast import VectorisedPlacement
    except ImportError:
        VectorisedPlacement = IndexedPlacement

__all__ = ["VectorisedPlacement"]
