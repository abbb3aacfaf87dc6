"""Kubernetes' rules for tasks on nodes; every placement satisfies them."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.causes import UnfitReason
from batchsched.model.cluster import NodeInfo, TaskInfo, TaskStatus
from batchsched.model.constraints import HostPort, PodAffinityTerm
from batchsched.model.rules import has_what_is_selected, out_of_service, tolerates
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.invariant import invariant


def conflict(one: TaskInfo, other: TaskInfo) -> HostPort | None:
    """Return a host port of `one` that `other` has too, or None."""
    theirs = other.host_ports
    return next((mine for mine in one.host_ports if any(map(mine.conflicts, theirs))), None)


def means(term: PodAffinityTerm, owner: TaskInfo, other: TaskInfo) -> bool:
    """Return whether a term of `owner` selects the task `other`."""
    return term.selects(
        own_namespace=owner.namespace, namespace=other.namespace, labels=other.labels
    )


def repelled_in(owner: TaskInfo, other: TaskInfo) -> list[str]:
    """Return the topologies in whose domains a task repels another by its anti-affinity."""
    terms = () if owner.pod_anti_affinity is None else owner.pod_anti_affinity.required
    return [term.topology_key for term in terms if means(term, owner, other)]


def repulsions(
    task: TaskInfo, node: NodeInfo, other: TaskInfo, where: NodeInfo
) -> Iterator[tuple[TaskInfo, str]]:
    """Yield whose anti-affinity forbids two tasks on two nodes, and in which topology."""
    for owner, meant in ((task, other), (other, task)):
        for key in repelled_in(owner, meant):
            if key in node.labels and where.labels.get(key) == node.labels[key]:
                yield owner, key


def refusal_by_description(cycle: Cycle, task: TaskInfo, node: NodeInfo) -> UnfitReason | None:
    """Return why a node always refuses a task, whatever else is on it, or None.

    These are the predicates that read only the descriptions of the node and the task.
    """
    if not cycle.policy.has("predicates", "enablePredicate"):
        return None
    reason = out_of_service(node)
    if reason is not None:
        return reason
    if not has_what_is_selected(node, task):
        return UnfitReason.NODE_SELECTOR
    if not tolerates(task, node):
        return UnfitReason.UNTOLERATED_TAINT
    wants_little = not task.resreq.milli_cpu and not task.resreq.memory
    for condition, reason, concerns in (
        ("MemoryPressure", UnfitReason.MEMORY_PRESSURE, wants_little),
        ("DiskPressure", UnfitReason.DISK_PRESSURE, True),
        ("PIDPressure", UnfitReason.PID_PRESSURE, True),
    ):
        argument = f"predicate.{condition}Enable"
        is_pressed = node.conditions.get(condition) == "True"
        if concerns and is_pressed and cycle.policy.argument("predicates", argument):
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
        for owner, key in repulsions(task, node, other, where):
            yield (
                f"{what}, in {key}={node.labels[key]} with task {uid!r} on "
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
        its = cycle.tasks[other]
        port = conflict(task, its) if where is node else None
        if port is not None:
            yield f"{what}, where task {other!r} will have {port.protocol} port {port.port}"
        if any(repulsions(task, node, its, where)):
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
        places = cycle.before(uid), cycle.after[uid]
        if cycle.policy.takes_back and cycle.was_waiting(uid):
            return  # it may have been anywhere for a while, wherever it is now
        its = [
            cycle.nodes[place.node_name]
            for place in places
            if place.status in there and place.node_name in cycle.nodes
        ]
        possible += its
        if all(place.status in OCCUPYING for place in places):
            certain += its
    somewhere = any(term.topology_key in where.labels for where in certain for term in terms)
    if not somewhere and all(means(term, task, task) for term in terms):
        return
    for key in [term.topology_key for term in terms]:
        domain = node.labels.get(key)
        if domain is None or all(where.labels.get(key) != domain for where in possible):
            yield f"{what}, and no task that it must be near, by {key}, can have been there"
