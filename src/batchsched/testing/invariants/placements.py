"""Every placement satisfies every predicate."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model.cluster import NodeInfo, TaskInfo, TaskStatus
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import OCCUPYING, Cycle
from batchsched.testing.invariants.judging import refusal_by_description
from batchsched.testing.invariants.matching import conflict, means

__all__ = ["check_placements"]


@invariant
def check_placements(cycle: Cycle) -> Iterator[str]:
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
        if not is_new and not _is_new_reservation(cycle, uid):
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


def _is_new_reservation(cycle: Cycle, uid: str) -> bool:
    after, before = cycle.after[uid], cycle.before(uid)
    return after.status is TaskStatus.RESERVED and after.node_name != before.node_name


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
            for term in (
                owner.pod_anti_affinity.required if owner.pod_anti_affinity is not None else ()
            ):
                domain = node.labels.get(term.topology_key)
                if (
                    domain is not None
                    and where.labels.get(term.topology_key) == domain
                    and means(term, owner, meant)
                ):
                    yield (
                        f"{what}, in {term.topology_key}={domain} with task {uid!r} on "
                        f"{where.name!r}, which the anti-affinity of {owner.uid!r} forbids"
                    )


def _attracted(cycle: Cycle, task: TaskInfo, node: NodeInfo, what: str) -> Iterator[str]:
    if task.pod_affinity is None or not task.pod_affinity.required:
        return
    terms = task.pod_affinity.required
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
            if place.status in OCCUPYING and place.node_name in cycle.nodes:
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
