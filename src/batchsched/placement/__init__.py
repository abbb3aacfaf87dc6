"""The placement engine: which node is best for a task.

`Placement` is the interface. An engine may work in any way, but its answers must
equal those of a plain loop over all nodes.
"""

from batchsched.placement.interface import (
    FITS,
    CountsRoom,
    Fit,
    FollowsNodes,
    Placement,
    first_of_best,
)

__all__ = ["FITS", "CountsRoom", "Fit", "FollowsNodes", "Placement", "first_of_best"]
