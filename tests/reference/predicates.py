"""The plugin predicates: the nodes that a task may run on."""

from __future__ import annotations

from collections.abc import Container, Sequence

from batchsched import EPSILON, NodeInfo, TaskInfo, TaskStatus
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
        waiting = [] if view is View.NOW else self._waiting_for_each_other(task)
        return self._accepted(task, nodes, view, waiting)

    def _accepted(
        self, task: TaskInfo, nodes: Sequence[NodeInfo], view: View, waiting: Container[str]
    ) -> list[NodeInfo]:
        by_node = self._state.tasks_by_node()
        affinity = AffinityRule(self._state, task, view, waiting)
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
        waiting = self._waiting_for_each_other(task)
        affinity = AffinityRule(self._state, task, View.PROMISED, waiting)
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

    def _waiting_for_each_other(self, task: TaskInfo) -> list[str]:
        """Return the promised tasks of which none can be the first to start, with another one.

        What they must be near is only promised beside them, or it is that task.
        """
        state = self._state
        waiting = [
            uid
            for uid, place in state.places.items()
            if place.status is TaskStatus.PIPELINED and uid != task.uid
        ]
        come = True
        while come:
            come = [uid for uid in waiting if self._can_come(state.tasks[uid], waiting)]
            waiting = [uid for uid in waiting if uid not in come]
        return waiting

    def _can_come(self, task: TaskInfo, waiting: Container[str]) -> bool:
        saved, name = self._state.save(), self._state.node_name(task)
        nodes = [node for node in self._state.snapshot.nodes if node.name == name]
        self._state.take_off(task)
        accepted = self._accepted(task, nodes, View.LATER, waiting)
        self._state.restore(saved)
        return bool(accepted)

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
