"""The placement engine on NumPy's arrays, whatever the number of nodes.

There is rarely a reason to ask for it: where NumPy is installed (the extra ``fast``), the usual
engine takes arrays by itself as soon as there are enough nodes for them to pay.

>>> from batchsched import Scheduler
>>> from batchsched.fast import VectorisedPlacement
>>> scheduler = Scheduler(placement=VectorisedPlacement)

It always makes the same decisions; only the time that they take differs.
"""

from __future__ import annotations

try:
    import numpy as _numpy
except ImportError as error:
    raise ImportError(
        "batchsched.fast needs NumPy, which comes with the extra fast: pip install numpy"
    ) from error

from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.plain_loop import Evaluator
from batchsched.state.ledger import Ledger

__all__ = ["VectorisedPlacement"]

del _numpy


class VectorisedPlacement(IndexedPlacement):
    """The usual engine, on arrays even if there are few nodes. Pass it to `Scheduler`."""

    def __init__(self, ledger: Ledger, evaluator: Evaluator) -> None:
        super().__init__(ledger, evaluator, arrays=True)
