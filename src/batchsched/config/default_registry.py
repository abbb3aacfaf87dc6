"""The default registry: all built-in plugins and actions."""

from __future__ import annotations

from batchsched.actions.allocate import AllocateAction
from batchsched.actions.backfill.action import BackfillAction
from batchsched.actions.planning.plan import PlanAction
from batchsched.actions.preempt import PreemptAction
from batchsched.actions.reclaim import ReclaimAction
from batchsched.actions.reservation.reserve import ReserveAction
from batchsched.config.registry import Registry
from batchsched.plugins.capacity import CapacityPlugin
from batchsched.plugins.conformance import ConformancePlugin
from batchsched.plugins.drf import DrfPlugin
from batchsched.plugins.fcfs import FcfsPlugin
from batchsched.plugins.gang import GangPlugin
from batchsched.plugins.las import LasPlugin
from batchsched.plugins.nodeorder import NodeOrderPlugin
from batchsched.plugins.predicates import PredicatesPlugin
from batchsched.plugins.priority import PriorityPlugin
from batchsched.plugins.proportion import ProportionPlugin
from batchsched.plugins.sjf import SjfPlugin
from batchsched.plugins.sla import SlaPlugin
from batchsched.plugins.usage import UsagePlugin

__all__ = ["default_registry"]


def default_registry() -> Registry:
    """Return a new registry with all built-in plugins and actions, to which you can add yours."""
    registry = Registry()
    registry.register_plugin("capacity", CapacityPlugin.from_arguments)
    registry.register_plugin("conformance", ConformancePlugin.from_arguments)
    registry.register_plugin("drf", DrfPlugin.from_arguments)
    registry.register_plugin("gang", GangPlugin.from_arguments)
    registry.register_plugin("nodeorder", NodeOrderPlugin.from_arguments)
    registry.register_plugin("predicates", PredicatesPlugin.from_arguments)
    registry.register_plugin("priority", PriorityPlugin.from_arguments)
    registry.register_plugin("proportion", ProportionPlugin.from_arguments)
    registry.register_plugin("fcfs", FcfsPlugin.from_arguments)
    registry.register_plugin("las", LasPlugin.from_arguments)
    registry.register_plugin("sjf", SjfPlugin.from_arguments)
    registry.register_plugin("sla", SlaPlugin.from_arguments)
    registry.register_plugin("usage", UsagePlugin.from_arguments)
    registry.register_action("allocate", AllocateAction.from_arguments)
    registry.register_action("backfill", BackfillAction.from_arguments)
    registry.register_action("plan", PlanAction.from_arguments)
    registry.register_action("preempt", PreemptAction.from_arguments)
    registry.register_action("reclaim", ReclaimAction.from_arguments)
    registry.register_action("reserve", ReserveAction.from_arguments)
    return registry
