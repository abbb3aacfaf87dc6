"""The plugin predicates, implemented a second time for the invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from batchsched.model.cluster import NodeInfo, TaskInfo, TaskStatus
from batchsched.model.reasons import NodeTally, Unfit, UnfitReason
from batchsched.testing.invariants.amounts import is_nothing
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.matching import accepts_node, conflict, is_tolerated, means

__all__ = ["is_closed", "recount", "refusal_by_description"]


def is_closed(cycle: Cycle, node: NodeInfo) -> bool:
    """Return whether a node is reserved after the cycle."""
    return not is_nothing(cycle.accounts[node.name].reserved)


def refusal_by_description(cycle: Cycle, task: TaskInfo, node: NodeInfo) -> UnfitReason | None:
    """Return why a node always refuses a task, whatever else is on it, or None.

    These are the predicates that read only the descriptions of the node and the task.
    """
    return next(_refusals(cycle, task, node, always=True), None)


def _refusals(
    cycle: Cycle, task: TaskInfo, node: NodeInfo, *, always: bool
) -> Iterator[UnfitReason]:
    """Yield all reasons why a node refuses a task, in the order of the predicates."""
    policy = cycle.policy
    if not policy.has("predicates", "enablePredicate"):
        return
    others = [
        cycle.tasks[uid]
        for uid in cycle.on_node[node.name]
        if cycle.after[uid].status is not TaskStatus.RESERVED
    ]
    if not always and node.max_tasks is not None and len(others) >= node.max_tasks:
        yield UnfitReason.TOO_MANY_TASKS
    if node.conditions.get("Ready", "True") != "True":
        yield UnfitReason.NODE_NOT_READY
    if node.conditions.get("NetworkUnavailable", "False") != "False":
        yield UnfitReason.NETWORK_UNAVAILABLE
    if node.unschedulable:
        yield UnfitReason.NODE_UNSCHEDULABLE
    if not accepts_node(task, node):
        yield UnfitReason.NODE_SELECTOR
    if not always and any(conflict(task, other) for other in others):
        yield UnfitReason.HOST_PORTS
    if not all(is_tolerated(taint, task.tolerations) for taint in node.taints):
        yield UnfitReason.UNTOLERATED_TAINT
    wants_little = not task.resreq.milli_cpu and not task.resreq.memory
    for condition, reason, concerns in (
        ("MemoryPressure", UnfitReason.MEMORY_PRESSURE, wants_little),
        ("DiskPressure", UnfitReason.DISK_PRESSURE, True),
        ("PIDPressure", UnfitReason.PID_PRESSURE, True),
    ):
        if (
            concerns
            and node.conditions.get(condition) == "True"
            and policy.argument("predicates", f"predicate.{condition}Enable")
        ):
            yield reason
    if not always:
        yield from _affinity_refusals(cycle, task, node)


def _affinity_refusals(cycle: Cycle, task: TaskInfo, node: NodeInfo) -> Iterator[UnfitReason]:
    existing: list[tuple[TaskInfo, NodeInfo]] = []
    promised: list[tuple[TaskInfo, NodeInfo]] = []
    for uid, place in cycle.after.items():
        if place.node_name in cycle.nodes:
            here = cycle.tasks[uid], cycle.nodes[place.node_name]
            if place.status in OCCUPYING:
                existing.append(here)
            elif place.status is TaskStatus.PIPELINED and cycle.policy.cures:
                promised.append(here)

    def shares(key: str, other: NodeInfo) -> bool:
        return key in node.labels and other.labels.get(key) == node.labels[key]

    for other, where in (*existing, *promised):
        if other.pod_anti_affinity is not None and any(
            means(term, other, task) and shares(term.topology_key, where)
            for term in other.pod_anti_affinity.required
        ):
            yield UnfitReason.EXISTING_ANTI_AFFINITY
            break
    if task.pod_affinity is not None and task.pod_affinity.required:
        terms = task.pod_affinity.required
        wanted = [
            where for other, where in existing if all(means(term, task, other) for term in terms)
        ]
        pairs = {
            (term.topology_key, where.labels[term.topology_key])
            for where in wanted
            for term in terms
            if term.topology_key in where.labels
        }
        meets_itself = all(means(term, task, task) for term in terms)
        if not all(
            (term.topology_key, node.labels.get(term.topology_key)) in pairs for term in terms
        ) and (pairs or not meets_itself):
            yield UnfitReason.POD_AFFINITY
    if task.pod_anti_affinity is not None and any(
        means(term, task, other) and shares(term.topology_key, where)
        for term in task.pod_anti_affinity.required
        for other, where in (*existing, *promised)
    ):
        yield UnfitReason.POD_ANTI_AFFINITY


def recount(cycle: Cycle, task: TaskInfo) -> NodeTally:
    """Return how many nodes could take a task now, and the reasons of the others."""
    available = 0
    unfit: Counter[Unfit] = Counter()
    for node in cycle.nodes.values():
        if is_closed(cycle, node) and not cycle.is_best_effort(task.uid):
            unfit[Unfit(UnfitReason.RESERVED)] += 1
            continue
        refusal = next(_refusals(cycle, task, node, always=False), None)
        if refusal is not None:
            unfit[Unfit(refusal, plugin="predicates")] += 1
            continue
        lacking = cycle.accounts[node.name].lacking(cycle.start_request[task.uid])
        if not lacking:
            available += 1
        for name in lacking:
            unfit[Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail=name)] += 1
    return NodeTally(len(cycle.nodes), available, unfit)
