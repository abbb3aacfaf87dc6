"""proportion: a queue deserves a share of the cluster by weight, limited by its requests."""

from batchsched.plugins.proportion.plugin import ProportionPlugin
from batchsched.plugins.proportion.water_filling import water_fill

__all__ = ["ProportionPlugin", "water_fill"]
