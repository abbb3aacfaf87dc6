"""The rules of `check_config` for the queues of a snapshot: problems that are not errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import evolve, frozen

from batchsched.config.options import PluginOption, Tier
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import Queue
from batchsched.model.resources import Amount, Resource, ResourceLimit
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import shown_amount
from batchsched.state.queue_tree import QueueTree
from batchsched.tools.amounts import raised_limit

__all__ = ["QUEUE_FIELDS", "QUEUE_RULES", "Found", "QueueRule", "with_capacity"]

QUEUE_FIELDS = ("parent", "priority", "guarantee", "deserved", "limit", "state")
"""The fields that only plugin capacity reads."""


@frozen(kw_only=True)
class Found:
    """A problem of the queues of a snapshot, and the snapshot without it."""

    place: str
    consequence: str
    mended: Snapshot


@frozen(kw_only=True)
class QueueRule:
    """A problem that queues may have, and the function that finds it."""

    code: str
    advice: str
    find: Callable[[Snapshot, QueueTree], Found | None]
    needs_capacity: bool = True


def with_capacity(config: SchedulerConfig) -> SchedulerConfig:
    """Return a configuration with plugin capacity, in place of proportion if it has that."""
    capacity = PluginOption(name="capacity")
    tiers = [
        evolve(tier, plugins=[capacity if p.name == "proportion" else p for p in tier.plugins])
        for tier in config.tiers or (Tier(),)
    ]
    if not any(plugin == capacity for tier in tiers for plugin in tier.plugins):
        tiers[-1] = evolve(tiers[-1], plugins=(*tiers[-1].plugins, capacity))
    return evolve(config, tiers=tiers)


def _found(
    snapshot: Snapshot, faults: list[tuple[str, str]], changed: Mapping[str, Queue]
) -> Found | None:
    """Return the first fault, the number of others, and the corrected queues; None if no faults."""
    if not faults:
        return None
    place, consequence = faults[0]
    if len(faults) > 1:
        consequence += f" ({len(faults) - 1} more)"
    queues = [changed.get(queue.name, queue) for queue in snapshot.queues]
    return Found(place=place, consequence=consequence, mended=evolve(snapshot, queues=queues))


def _amounts(resource: Resource | ResourceLimit | None) -> dict[str, Amount]:
    """Return the amounts above 0; unlimited dimensions are left out."""
    if resource is None:
        return {}
    return {dimension: amount for dimension, amount in resource.dimensions() if amount}


def _raised(resource: Resource, dimension: str, amount: Amount) -> Resource:
    return resource.max_with(_only(dimension, amount))


def _only(dimension: str, amount: Amount) -> Resource:
    if dimension == "cpu":
        return Resource(milli_cpu=amount)
    if dimension == "memory":
        return Resource(memory=amount)
    return Resource(scalars={dimension: amount})


def _at_most(resource: Resource, dimension: str, most: Amount) -> Resource:
    excess = resource.get(dimension) - most
    return resource - _only(dimension, excess) if excess > 0 else resource


def _children(tree: QueueTree, position: int) -> list[Queue]:
    return [tree.queues[child] for child in tree.children[position]]


def _sum(amounts: Iterable[Mapping[str, Amount]]) -> dict[str, Amount]:
    together: dict[str, Amount] = {}
    for each in amounts:
        for dimension, amount in each.items():
            together[dimension] = together.get(dimension, 0) + amount
    return together


def _kept(tree: QueueTree) -> list[dict[str, Amount]]:
    """Return what is kept for each queue: its guarantee, or the sum of those below it if larger."""
    kept: list[dict[str, Amount]] = [{} for _ in tree.queues]
    for position in reversed(tree.downward):
        own = _amounts(tree.queues[position].guarantee)
        for dimension, amount in _sum(kept[child] for child in tree.children[position]).items():
            own[dimension] = max(own.get(dimension, 0), amount)
        kept[position] = own
    return kept


def _jobs_of_inner_queues(snapshot: Snapshot, tree: QueueTree) -> Found | None:
    leaves: dict[str, str] = {}
    for position in reversed(tree.downward):
        children = tree.children[position]
        if children:
            first = tree.names[children[0]]
            leaves[tree.names[position]] = leaves.get(first, first)
    left_out = Counter(job.queue for job in snapshot.jobs if job.queue in leaves)
    if not left_out:
        return None
    first_job = next(job for job in snapshot.jobs if job.queue in leaves)
    jobs = [
        evolve(job, queue=leaves[job.queue]) if job.queue in leaves else job
        for job in snapshot.jobs
    ]
    number = left_out.total()
    return Found(
        place=f"jobs[{first_job.uid!r}].queue",
        consequence=(
            f"{number} {'job is' if number == 1 else 'jobs are'} left out of every cycle: queue "
            f"{first_job.queue!r} is an inner queue of the tree"
        ),
        mended=evolve(snapshot, jobs=jobs),
    )


def _deserved_beyond_limit(snapshot: Snapshot, tree: QueueTree) -> Found | None:
    faults: list[tuple[str, str]] = []
    changed: dict[str, Queue] = {}
    for position, queue in enumerate(tree.queues):
        if queue.limit is None:
            continue
        below = _sum(_amounts(child.deserved) for child in _children(tree, position))
        own = _amounts(queue.deserved)
        limit = queue.limit
        for dimension, most in queue.limit.dimensions():
            wanted = max(own.get(dimension, 0), below.get(dimension, 0))
            if wanted <= most:
                continue
            limit = raised_limit(limit, dimension, wanted)
            is_own = own.get(dimension, 0) == wanted
            message = (
                f"{'it deserves' if is_own else 'queues below it deserve'} "
                f"{shown_amount(dimension, wanted)} of {dimension}, but it never gets more than "
                f"its limit, {shown_amount(dimension, most)}"
            )
            faults.append((f"queues[{queue.name!r}].limit", message))
        changed[queue.name] = evolve(queue, limit=limit)
    return _found(snapshot, faults, changed)


def _deserved_beyond_parent(snapshot: Snapshot, tree: QueueTree) -> Found | None:
    faults: list[tuple[str, str]] = []
    changed: dict[str, Queue] = {}
    for position in reversed(tree.downward):
        queue = tree.queues[position]
        above = tree.parents[position]
        siblings = tree.tops if above < 0 else tree.children[above]
        if not isinstance(queue.deserved, Resource) or len(siblings) == 1:
            continue  # it has no siblings, or it deserves everything
        deserved = queue.deserved
        below = [changed.get(each.name, each) for each in _children(tree, position)]
        for dimension, wanted in _sum(_amounts(child.deserved) for child in below).items():
            own = deserved.get(dimension)
            if wanted > own:
                deserved = _raised(deserved, dimension, wanted)
                message = (
                    f"queues below it deserve {shown_amount(dimension, wanted)} of {dimension}, "
                    f"but it deserves {shown_amount(dimension, own)}: whether they get the rest "
                    "depends on weights"
                )
                faults.append((f"queues[{queue.name!r}].deserved", message))
        changed[queue.name] = evolve(queue, deserved=deserved)
    return _found(snapshot, faults, changed)


def _guarantee_beyond_deserved(snapshot: Snapshot, tree: QueueTree) -> Found | None:
    faults: list[tuple[str, str]] = []
    changed: dict[str, Queue] = {}
    kept = _kept(tree)
    for position in tree.downward:
        queue = tree.queues[position]
        if not isinstance(queue.deserved, Resource):
            continue
        for dimension, deserved in _amounts(queue.deserved).items():
            more = kept[position].get(dimension, 0)
            if more <= deserved:
                continue
            message = (
                f"{shown_amount(dimension, more)} of {dimension} are guaranteed to it, but it "
                f"deserves {shown_amount(dimension, deserved)}: the rest is reserved for it, "
                "used or not"
            )
            faults.append((f"queues[{queue.name!r}].guarantee", message))
            most = deserved
            for below in _with_all_below(tree, position):
                one = changed.get(tree.names[below], tree.queues[below])
                guarantee = _at_most(one.guarantee, dimension, most)
                changed[one.name] = evolve(one, guarantee=guarantee)
                most = 0
    return _found(snapshot, faults, changed)


def _with_all_below(tree: QueueTree, position: int) -> Iterator[int]:
    below = [position]
    for each in below:
        yield each
        below.extend(tree.children[each])


def _guarantees_beyond_cluster(snapshot: Snapshot, tree: QueueTree) -> Found | None:
    faults: list[tuple[str, str]] = []
    changed: dict[str, Queue] = {}
    kept = _kept(tree)
    supply = _supply(snapshot, tree)
    for dimension, together in _sum(kept[top] for top in tree.tops).items():
        there = supply.get(dimension, 0)
        if together <= there:
            continue
        first = next(q for q in tree.queues if q.guarantee.get(dimension))
        message = (
            f"queues are guaranteed {shown_amount(dimension, together)} of {dimension} together, "
            f"but nodes in service have {shown_amount(dimension, there)} for them: no queue can "
            "use more than its guarantee, even if nodes are idle"
        )
        faults.append((f"queues[{first.name!r}].guarantee", message))
        for queue in tree.queues:
            one = changed.get(queue.name, queue)
            half = one.guarantee.get(dimension) * there // (2 * together)
            changed[queue.name] = evolve(one, guarantee=_at_most(one.guarantee, dimension, half))
    return _found(snapshot, faults, changed)


def _supply(snapshot: Snapshot, tree: QueueTree) -> dict[str, Amount]:
    """Return what queues can have: nodes in service, without what tasks of no queue hold there.

    What tasks of queues hold on other nodes is added. O(nodes + tasks).
    """
    nodes = {
        node.name: _amounts(node.allocatable)
        for node in snapshot.nodes
        if out_of_service(node) is None
    }
    elsewhere: list[dict[str, Amount]] = []
    leaves = {tree.names[p] for p in tree.downward if tree.is_leaf(p)}
    tasks = [(job.queue in leaves, task) for job in snapshot.jobs for task in job.tasks]
    for is_of_queue, task in (*tasks, *((False, task) for task in snapshot.other_tasks)):
        if task.node_name is None or not task.status.holds:
            continue
        node = nodes.get(task.node_name)
        if node is None and is_of_queue:
            elsewhere.append(_amounts(task.resreq))
        elif node is not None and not is_of_queue:
            for dimension, amount in _amounts(task.resreq).items():
                node[dimension] = max(0, node.get(dimension, 0) - amount)
    return _sum((*nodes.values(), *elsewhere))


def _no_share(snapshot: Snapshot, tree: QueueTree) -> Found | None:
    faults: list[tuple[str, str]] = []
    changed: dict[str, Queue] = {}
    kept = _kept(tree)
    for position, queue in enumerate(tree.queues):
        has_any = queue.weight or kept[position] or not isinstance(queue.deserved, Resource)
        if not has_any and not _amounts(queue.deserved):
            message = "it has no share: it can reclaim nothing, and all its tasks may be evicted"
            faults.append((f"queues[{queue.name!r}].weight", message))
            changed[queue.name] = evolve(queue, weight=1)
    return _found(snapshot, faults, changed)


QUEUE_RULES: tuple[QueueRule, ...] = (
    QueueRule(
        code="JobOfInnerQueue",
        advice="name a queue without queues below it",
        find=_jobs_of_inner_queues,
        needs_capacity=False,
    ),
    QueueRule(
        code="DeservedBeyondLimit",
        advice="raise the limit, or lower deserved to the limit",
        find=_deserved_beyond_limit,
    ),
    QueueRule(
        code="DeservedBeyondParent",
        advice="raise its deserved to the sum of those of the queues below it",
        find=_deserved_beyond_parent,
    ),
    QueueRule(
        code="GuaranteeBeyondDeserved",
        advice="lower the guarantee to what it deserves",
        find=_guarantee_beyond_deserved,
    ),
    QueueRule(
        code="GuaranteesBeyondCluster",
        advice="lower the guarantees, such as to half of what nodes have: queues share the rest",
        find=_guarantees_beyond_cluster,
    ),
    QueueRule(
        code="NoShare",
        advice="set a weight of 1 or more, unless it should get only what no other queue wants",
        find=_no_share,
    ),
)
