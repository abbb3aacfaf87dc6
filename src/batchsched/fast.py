"""The vectorised placement engine, which evaluates many nodes at once.

It needs NumPy, which the extra ``fast`` installs.

>>> from batchsched import Scheduler
>>> from batchsched.fast import VectorisedPlacement
>>> scheduler = Scheduler(placement=VectorisedPlacement)

It always makes the same decisions as the other engines; only the time that they take differs.
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
