"""Kubernetes' rules for tasks on nodes, written a second time; every placement satisfies them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from batchsched.causes import UnfitReason
from batchsched.model.cluster import NodeInfo, TaskInfo, TaskStatus
from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.invariant import invariant


def accepts_node(task: TaskInfo, node: NodeInfo) -> bool:
    """Return whether a node meets a task's node selector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in task.node_selector.items()):
        return False
    if task.node_affinity is None or task.node_affinity.required is None:
        return True
    return any(_holds_on(term, node) for term in task.node_affinity.required)


def _holds_on(term: NodeSelectorTerm, node: NodeInfo) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(_holds(part, node.labels) for part in term.match_expressions) and all(
        _holds(part, fields) for part in term.match_fields
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    there = requirement.key in labels
    value = labels.get(requirement.key, "")
    match requirement.operator:
        case Operator.IN:
            return there and value in requirement.values
        case Operator.NOT_IN:
            return not there or value not in requirement.values
        case Operator.EXISTS:
            return there
        case Operator.DOES_NOT_EXIST:
            return not there
        case Operator.GT:
            return there and _compare(value, requirement.values[0]) > 0
        case Operator.LT:
            return there and _compare(value, requirement.values[0]) < 0


def _compare(left: str, right: str) -> int:
    """Compare two integers; 0 also if one of the texts is none."""
    first, second = _integer(left), _integer(right)
    return 0 if first is None or second is None else (first > second) - (first < second)


def _integer(text: str) -> int | None:
    if not re.fullmatch("[+-]?[0-9]+", text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether a taint does not repel a task with these tolerations."""
    return taint.effect is TaintEffect.PREFER_NO_SCHEDULE or any(
        toleration.effect in (None, taint.effect)
        and (
            toleration.key == taint.key
            or (not toleration.key and toleration.operator is TolerationOperator.EXISTS)
        )
        and (toleration.operator is TolerationOperator.EXISTS or toleration.value == taint.value)
        for toleration in tolerations
    )


def conflict(one: TaskInfo, other: TaskInfo) -> HostPort | None:
    """Return a host port of `one` that `other` has too, or None."""
    for mine in one.host_ports:
        for theirs in other.host_ports:
            if (mine.port, mine.protocol) == (theirs.port, theirs.protocol) and (
                mine.address == theirs.address or "0.0.0.0" in (mine.address, theirs.address)  # noqa: S104
            ):
                return mine
    return None


def means(term: PodAffinityTerm, owner: TaskInfo, other: TaskInfo) -> bool:
    """Return whether a term of `owner` selects the task `other`."""
    namespaces = term.namespaces or (owner.namespace,)
    return other.namespace in namespaces and _selects(term.selector, other.labels)


def repelled_in(owner: TaskInfo, other: TaskInfo) -> list[str]:
    """Return the topologies in whose domains a task repels another by its anti-affinity."""
    terms = () if owner.pod_anti_affinity is None else owner.pod_anti_affinity.required
    return [term.topology_key for term in terms if means(term, owner, other)]


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _holds(part, labels) for part in selector.match_expressions
    )


def refusal_by_description(cycle: Cycle, task: TaskInfo, node: NodeInfo) -> UnfitReason | None:
    """Return why a node always refuses a task, whatever else is on it, or None.

    These are the predicates that read only the descriptions of the node and the task.
    """
    policy = cycle.policy
    if not policy.has("predicates", "enablePredicate"):
        return None
    if node.conditions.get("Ready", "True") != "True":
        return UnfitReason.NODE_NOT_READY
    if node.conditions.get("NetworkUnavailable", "False") != "False":
        return UnfitReason.NETWORK_UNAVAILABLE
    if node.unschedulable:
        return UnfitReason.NODE_UNSCHEDULABLE
    if not accepts_node(task, node):
        return UnfitReason.NODE_SELECTOR
    if not all(is_tolerated(taint, task.tolerations) for taint in node.taints):
        return UnfitReason.UNTOLERATED_TAINT
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
            return reason
    return None


@invariant
def placements(cycle: Cycle) -> Iterator[str]:
    """Every task that was bound, promised or reserved a place satisfies the predicates of its node.

    Descriptions of nodes and tasks do not change in a cycle, so selectors, taints, conditions and
    pressure must match at the end. Host ports and inter-pod affinity depend on the other tasks at
    that time, so only what must be true at any time is checked: no conflict with tasks that were
    there from the beginning or conflict in any order, and required affinity to a task that can have
    been there. With `curable` a promise waits for others to leave, and meanwhile no task may be
    placed that anti-affinity forbids beside it.
    """
    if not cycle.policy.has("predicates", "enablePredicate"):
        return
    for uid, place in cycle.after.items():
        task = cycle.tasks[uid]
        is_new = cycle.is_new(uid)
        is_reserved = place.status is TaskStatus.RESERVED
        if not is_new and not (is_reserved and place.node_name != task.node_name):
            continue
        node = cycle.nodes.get(place.node_name or "")
        if node is None:
            continue
        what = f"task {uid!r} is {place.status.value} on node {node.name!r}"
        reason = refusal_by_description(cycle, task, node)
        if reason is not None:
            yield f"{what}, which refuses it: {reason.value}"
        if is_new:
            yield from _ports(cycle, task, node, what)
            yield from _repelled(cycle, task, node, what)
            yield from _attracted(cycle, task, node, what)


def _ports(cycle: Cycle, task: TaskInfo, node: NodeInfo, what: str) -> Iterator[str]:
    for other in cycle.on_node[node.name]:
        status = cycle.after[other].status
        if _waits_for_others(cycle, task) and status is TaskStatus.RELEASING:
            continue
        if other != task.uid and status is not TaskStatus.RESERVED:
            port = conflict(task, cycle.tasks[other])
            if port is not None:
                yield f"{what}, where task {other!r} has {port.protocol} port {port.port} too"


def _waits_for_others(cycle: Cycle, task: TaskInfo) -> bool:
    """Return whether a task may start only once others have left its node."""
    return cycle.policy.cures and cycle.after[task.uid].status is TaskStatus.PIPELINED


def _repelled(cycle: Cycle, task: TaskInfo, node: NodeInfo, what: str) -> Iterator[str]:
    repels = (*OCCUPYING, TaskStatus.PIPELINED) if cycle.policy.cures else OCCUPYING
    can_repel = cycle.after[task.uid].status in repels
    for uid, place in cycle.after.items():
        # A task with only a promise repels others only with `curable`. So of two tasks placed in
        # this cycle both must repel, for the later one to have seen the earlier one.
        if uid == task.uid or place.status not in repels:
            continue
        if cycle.before(uid).status not in OCCUPYING and not can_repel:
            continue
        other, where = cycle.tasks[uid], cycle.nodes.get(place.node_name or "")
        if where is None:
            continue
        for owner, meant in ((task, other), (other, task)):
            for key in repelled_in(owner, meant):
                domain = node.labels.get(key)
                if domain is not None and where.labels.get(key) == domain:
                    yield (
                        f"{what}, in {key}={domain} with task {uid!r} on "
                        f"{where.name!r}, which the anti-affinity of {owner.uid!r} forbids"
                    )


def refusals_ahead(cycle: Cycle, uid: str) -> Iterator[str]:
    """Yield why the node of a promised task will refuse it, whoever else comes in this cycle.

    All that leaves has left then, and all that is promised has come. What was placed in this cycle,
    or promised without making anybody leave, may have come later, so it is in nobody's way.
    """
    task, node = cycle.tasks[uid], cycle.nodes.get(cycle.after[uid].node_name or "")
    if node is None or not cycle.policy.has("predicates", "enablePredicate"):
        return
    what = f"task {uid!r} is promised node {node.name!r}"
    there = {
        other: cycle.nodes[place.node_name]
        for other, place in cycle.after.items()
        if other != uid and place.status in _TO_COME and place.node_name in cycle.nodes
    }
    claimants = {each.for_task_uid for each in cycle.made_to_leave}
    claiming = {cycle.job_of[claimant].uid for claimant in claimants if claimant in cycle.job_of}
    for other, where in there.items():
        was_there = cycle.before(other).status in OCCUPYING
        if not was_there and not (
            cycle.after[other].status is TaskStatus.PIPELINED
            and cycle.job_of[other].uid in claiming
        ):
            continue
        mine, its = task, cycle.tasks[other]
        port = conflict(mine, its) if where is node else None
        if port is not None:
            yield f"{what}, where task {other!r} will have {port.protocol} port {port.port}"
        keys = (*repelled_in(mine, its), *repelled_in(its, mine))
        if any(where.labels.get(k) == node.labels[k] for k in keys if k in node.labels):
            yield f"{what}, from which anti-affinity keeps it as long as task {other!r} is there"
    terms = () if task.pod_affinity is None else task.pod_affinity.required
    near = [other for other in there if all(means(t, task, cycle.tasks[other]) for t in terms)]
    if not near and all(means(term, task, task) for term in terms):
        return
    for key in [term.topology_key for term in terms]:
        domain = node.labels.get(key)
        if domain is None or all(there[other].labels.get(key) != domain for other in near):
            yield f"{what}, and no task that it must be near, by {key}, will be there"


_TO_COME = (*OCCUPYING, TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)
"""Statuses of tasks that will be on their nodes."""


def _attracted(cycle: Cycle, task: TaskInfo, node: NodeInfo, what: str) -> Iterator[str]:
    if task.pod_affinity is None or not task.pod_affinity.required:
        return
    terms = task.pod_affinity.required
    is_promised = cycle.after[task.uid].status is TaskStatus.PIPELINED
    there = (*OCCUPYING, *((TaskStatus.PIPELINED,) if is_promised else ()))  # together with it
    possible: list[NodeInfo] = []
    certain: list[NodeInfo] = []
    for uid, other in cycle.tasks.items():
        if uid == task.uid or not all(means(term, task, other) for term in terms):
            continue
        before, after = cycle.before(uid), cycle.after[uid]
        if cycle.policy.takes_back and cycle.was_waiting(uid):
            return  # it may have been anywhere for a while, wherever it is now
        stays = before.status in OCCUPYING and after.status in OCCUPYING
        for place in (before, after):
            if place.status in there and place.node_name in cycle.nodes:
                possible.append(cycle.nodes[place.node_name])
                if stays:
                    certain.append(cycle.nodes[place.node_name])
    for term in terms:
        domain = node.labels.get(term.topology_key)
        if domain is not None and any(
            where.labels.get(other.topology_key) == domain
            for where in possible
            for other in terms
            if other.topology_key == term.topology_key
        ):
            continue
        meets_itself = all(means(own, task, task) for own in terms)
        somewhere = any(own.topology_key in where.labels for where in certain for own in terms)
        if somewhere or not meets_itself:
            yield (
                f"{what}, and no task that it must be near, by {term.topology_key}, "
                "can have been there"
            )
