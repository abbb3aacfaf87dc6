"""proportion: a queue deserves a share of the cluster by its weight, and no more than it asks."""

from batchsched.plugins.proportion.plugin import ProportionPlugin, water_fill

__all__ = ["ProportionPlugin", "water_fill"]
