"""capacity: a tree of queues with guarantees, deserved amounts, limits and weights."""

from batchsched.plugins.capacity.plugin import CapacityPlugin

__all__ = ["CapacityPlugin"]
