"""topology: gangs within one rack, block or other domain of a topology."""

from batchsched.plugins.topology.plugin import TopologyPlugin

__all__ = ["TopologyPlugin"]
