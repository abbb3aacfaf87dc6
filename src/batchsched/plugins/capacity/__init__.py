"""capacity: a tree of queues with guarantees, deserved amounts, limits and weights."""

from batchsched.model.described import describe_exports
from batchsched.plugins.capacity.plugin import CapacityPlugin

__all__ = ["CapacityPlugin"]

describe_exports(__name__)
