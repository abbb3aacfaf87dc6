"""The engine on arrays, or, where NumPy is not installed, the engine as it is there: on lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchsched.placement import ranking
from batchsched.placement.indexed import IndexedPlacement

if TYPE_CHECKING:
    from batchsched.fast import VectorisedPlacement
    from batchsched.placement import arrays
else:
    try:
        from batchsched.fast import VectorisedPlacement
        from batchsched.placement import arrays
    except ImportError:
        VectorisedPlacement, arrays = IndexedPlacement, ranking

__all__ = ["VectorisedPlacement", "arrays"]
