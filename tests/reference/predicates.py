"""The plugin predicates: the nodes that a task may run on."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched import EPSILON, NodeInfo, TaskInfo
from tests.reference.conf import Arguments
from tests.reference.plugins import Plugin
from tests.reference.pod_affinity import AffinityRule
from tests.reference.state import State, View

__all__ = ["Predicates"]


class Predicates(Plugin):
    """Kubernetes' predicates."""

    def __init__(self, state: State, arguments: Arguments) -> None:
        self._state = state
        self._memory_pressure = arguments.boolean("predicate.MemoryPressureEnable")
        self._disk_pressure = arguments.boolean("predicate.DiskPressureEnable")
        self._pid_pressure = arguments.boolean("predicate.PIDPressureEnable")

    def accepted(self, task: TaskInfo, nodes: Sequence[NodeInfo], view: View) -> list[NodeInfo]:
        """Return the nodes that all predicates accept."""
        by_node = self._state.tasks_by_node()
        affinity = AffinityRule(self._state, task, view)
        return [
            node
            for node in nodes
            if self._may_ever_take(task, node)
            and self._has_room_for(task, node, by_node[node.name], view)
            and affinity.accepts(node)
        ]

    def curable(self, task: TaskInfo, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """Return the nodes that refuse a task only for reasons that evicting may cure."""
        by_node = self._state.tasks_by_node()
        affinity = AffinityRule(self._state, task, View.PROMISED)
        return [
            node
            for node in nodes
            if self._may_ever_take(task, node)
            and (
                affinity.is_curable(node)
                or (
                    not self._has_room_for(task, node, by_node[node.name], View.PROMISED)
                    and affinity.accepts(node)
                )
            )
        ]

    def _may_ever_take(self, task: TaskInfo, node: NodeInfo) -> bool:
        """Return whether a node accepts a task, ignoring the tasks on it."""
        return (
            _is_in_order(node)
            and _is_selected(task, node)
            and all(
                any(toleration.tolerates(taint) for toleration in task.tolerations)
                for taint in node.taints
                if taint.repels()
            )
            and not self._is_under_pressure(task, node)
        )

    def _has_room_for(
        self, task: TaskInfo, node: NodeInfo, on_node: list[TaskInfo], view: View
    ) -> bool:
        """Return whether the number of tasks on the node and its host ports allow the task."""
        counted = [other for other in on_node if self._state.is_there(other, view)]
        if node.max_tasks is not None and len(counted) >= node.max_tasks:
            return False
        return not any(
            wanted.conflicts(used)
            for wanted in task.host_ports
            for other in counted
            for used in other.host_ports
        )

    def _is_under_pressure(self, task: TaskInfo, node: NodeInfo) -> bool:
        asks_for_nothing = task.resreq.milli_cpu < EPSILON and task.resreq.memory < EPSILON
        pressures = [
            ("MemoryPressure", self._memory_pressure and asks_for_nothing),
            ("DiskPressure", self._disk_pressure),
            ("PIDPressure", self._pid_pressure),
        ]
        return any(
            refuses and node.conditions.get(condition) == "True" for condition, refuses in pressures
        )


def _is_in_order(node: NodeInfo) -> bool:
    return (
        node.conditions.get("Ready", "True") == "True"
        and node.conditions.get("NetworkUnavailable", "False") == "False"
        and not node.unschedulable
    )


def _is_selected(task: TaskInfo, node: NodeInfo) -> bool:
    if any(node.labels.get(key) != value for key, value in task.node_selector.items()):
        return False
    return task.node_affinity is None or task.node_affinity.accepts(node.labels, node.name)
