"""nodeorder: scores the nodes that can accept a task."""

from batchsched.plugins.nodeorder.plugin import NodeOrderPlugin

__all__ = ["NodeOrderPlugin"]
