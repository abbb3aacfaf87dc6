"""proportion: a queue deserves a share of the cluster by its weight, and no more than it asks."""

from batchsched.plugins.proportion.plugin import ProportionPlugin
from batchsched.plugins.proportion.water_filling import water_fill

__all__ = ["ProportionPlugin", "water_fill"]
