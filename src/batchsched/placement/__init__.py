"""The placement engine: which node is best for a task.

Its interface is `Placement`. How an engine finds its answers is nobody else's
business; that they are those of a plain loop over all nodes is its contract.
"""

from batchsched.placement.interface import (
    FITS,
    Fit,
    FollowsNodes,
    Placement,
    first_of_best,
)

__all__ = ["FITS", "Fit", "FollowsNodes", "Placement", "first_of_best"]
