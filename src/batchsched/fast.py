"""The placement engine that looks at many nodes at once (extra ``fast``, which brings NumPy).

>>> from batchsched import Scheduler
>>> from batchsched.fast import VectorisedPlacement
>>> scheduler = Scheduler(placement=VectorisedPlacement)

Its decisions are those of the other engines, always; only the time that they take differs.
"""

from __future__ import annotations

try:
    import numpy as _numpy
except ImportError as error:
    raise ImportError(
        "batchsched.fast needs NumPy, which comes with the extra: pip install 'batchsched[fast]'"
    ) from error

from batchsched.placement.vectorised.engine import VectorisedPlacement

__all__ = ["VectorisedPlacement"]

del _numpy
