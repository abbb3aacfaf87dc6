"""topology: gangs within one rack, block or other domain of a topology."""

from batchsched.model.described import describe_exports
from batchsched.plugins.topology.plugin import TopologyPlugin

__all__ = ["TopologyPlugin"]

describe_exports(__name__)
