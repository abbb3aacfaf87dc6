"""What `check_config` suspects: rules about configurations, and about queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from attrs import evolve, frozen

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import Queue
from batchsched.model.resources import Amount, Resource, ResourceLimit
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted_amount, shown_amount
from batchsched.plugin.arguments import as_boolean
from batchsched.plugin.queues import QueueTree
from batchsched.tools.amounts import raised_limit

# Rules for configurations


@frozen(kw_only=True)
class Suspected:
    """A suspected problem of a configuration, and the configuration to have instead."""

    code: str
    place: str
    consequence: str
    advice: str
    instead: SchedulerConfig


def _missing(config: SchedulerConfig) -> Iterator[Suspected]:
    for name, code, consequence in (
        ("predicates", "NoPredicates", "tasks are placed on nodes that must not run them"),
        ("gang", "NoGang", "a job may start with fewer tasks than its min_available"),
    ):
        if _find_plugin(config, name) is None:
            yield Suspected(
                code=code,
                place="tiers",
                consequence=consequence,
                advice=f"add plugin {name!r}",
                instead=_with_plugin(config, name),
            )


_SWITCHED = {
    "enableJobOrder": "it does not order jobs",
    "enableQueueOrder": "it does not order queues",
    "enableTaskOrder": "it does not order tasks",
    "enablePredicate": "tasks are placed on nodes that must not run them",
    "enableNodeOrder": "it does not score nodes",
    "enablePreemptable": "it has no effect on which tasks preempt evicts",
    "enableReclaimable": "it has no effect on which tasks reclaim evicts",
    "enableJobReady": "a job may start with fewer tasks than its min_available",
    "enableJobPipelined": "tasks are pipelined for jobs that still cannot start",
}


def _switched_off(config: SchedulerConfig) -> Iterator[Suspected]:
    for at, position, plugin in _plugins_of(config):
        for flag, is_on in sorted(plugin.flags.items()):
            # Intended: drf may let preempt evict tasks within a share that capacity protects.
            is_meant = (plugin.name, flag) == ("drf", "enablePreemptable") and _find_plugin(
                config, "capacity"
            )
            if not is_on and not is_meant:
                flags = {name: on for name, on in plugin.flags.items() if name != flag}
                yield Suspected(
                    code="SwitchedOff",
                    place=f"tiers[{at}].plugins[{position}].{flag}",
                    consequence=f"plugin {plugin.name!r}: {_SWITCHED.get(flag, 'it is not used')}",
                    advice=f"leave out {flag}, unless this is intended",
                    instead=_with_flags(config, plugin.name, flags),
                )


_ALWAYS_ANSWER = {"gang", "conformance"}
"""Plugins that approve every task they do not protect as a victim, so later tiers never decide."""


def _shadowed(config: SchedulerConfig) -> Iterator[Suspected]:
    judges = {"gang", "conformance", "priority", "drf"}
    deciding: int | None = None
    for at, tier in enumerate(config.tiers):
        names = {p.name for p in tier.plugins if p.flags.get("enablePreemptable", True)} & judges
        if deciding is None:
            if names and names <= _ALWAYS_ANSWER:
                deciding = at
            continue
        for position, plugin in enumerate(tier.plugins):
            if plugin.name not in names - _ALWAYS_ANSWER:
                continue
            without = evolve(tier, plugins=[p for p in tier.plugins if p is not plugin])
            tiers = list(config.tiers)
            tiers[at] = without
            before = tiers[deciding]
            tiers[deciding] = evolve(before, plugins=(*before.plugins, plugin))
            yield Suspected(
                code="ShadowedVerdicts",
                place=f"tiers[{at}].plugins[{position}]",
                consequence=(
                    f"tasks that plugin {plugin.name!r} would protect are evicted: the first tier "
                    f"that names victims decides, and tier {deciding} always names some"
                ),
                advice=f"move it to tier {deciding}, or move the plugins of that tier behind it",
                instead=evolve(config, tiers=tiers),
            )


_ORDERING = ("priority", "sjf", "las", "sla", "drf")
"""Plugins that order jobs by something other than their creation time."""


def _drf_beside_capacity(config: SchedulerConfig) -> Iterator[Suspected]:
    drf, preempt = _find_plugin(config, "drf"), action_named(config, "preempt")
    if drf is None or preempt is None or _find_plugin(config, "capacity") is None:
        return
    if not drf[1].flags.get("enablePreemptable", True):
        return
    flags = {**drf[1].flags, "enablePreemptable": False}
    yield Suspected(
        code="DrfBesideCapacity",
        place=drf[0],
        consequence=(
            "drf lets preempt evict tasks within the share of their queue, which capacity "
            "protects; reclaim may then evict other tasks for them, and this may repeat for ever"
        ),
        advice="set the flag enablePreemptable: false of plugin 'drf'",
        instead=_with_flags(config, "drf", flags),
    )


def _preempt_before_reclaim(config: SchedulerConfig) -> Iterator[Suspected]:
    names = [action.name for action in config.actions]
    if "preempt" not in names or _find_plugin(config, "capacity") is None:
        return
    first = names.index("preempt")
    if "reclaim" not in names[first:] or "reclaim" in names[:first]:
        return
    at = names.index("reclaim")
    actions = list(config.actions)
    actions.insert(first, actions.pop(at))
    yield Suspected(
        code="PreemptBeforeReclaim",
        place=f"actions[{first}]",
        consequence=(
            "what preempt places beyond the share of its queue, reclaim may evict in the same "
            "cycle or the next, so that others were evicted for nothing"
        ),
        advice="move action 'reclaim' before 'preempt'",
        instead=evolve(config, actions=actions),
    )


def _shadowed_order(config: SchedulerConfig) -> Iterator[Suspected]:
    fcfs = _find_plugin(config, "fcfs")
    if fcfs is None or not fcfs[1].flags.get("enableJobOrder", True):
        return
    behind = False
    for at, position, plugin in _plugins_of(config):
        behind |= plugin.name == "fcfs"
        if not behind or plugin.name not in _ORDERING:
            continue
        if not plugin.flags.get("enableJobOrder", True):
            continue
        moved = partial(_before_fcfs, plugin)
        yield Suspected(
            code="ShadowedOrder",
            place=f"tiers[{at}].plugins[{position}]",
            consequence=(
                f"plugin {plugin.name!r} only orders jobs with equal creation times, because fcfs "
                "decides before it"
            ),
            advice="move it before plugin 'fcfs'",
            instead=_with_plugins_replaced(_without_plugin(config, plugin.name), moved),
        )


def _before_fcfs(moved: PluginOption, plugin: PluginOption) -> tuple[PluginOption, ...]:
    return (moved, plugin) if plugin.name == "fcfs" else (plugin,)


def _nothing_starts(config: SchedulerConfig) -> Iterator[Suspected]:
    names = {action.name for action in config.actions}
    if names <= {"backfill", "reserve"}:  # other actions may start jobs
        yield Suspected(
            code="NothingStarts",
            place="actions",
            consequence="no action starts jobs whose tasks request resources",
            advice="add action 'allocate'",
            instead=evolve(config, actions=(ActionOption(name="allocate"), *config.actions)),
        )


def _at_minimum(config: SchedulerConfig) -> Iterator[Suspected]:
    gang = _find_plugin(config, "gang")
    if gang is None or gang[1].arguments.get("atMinimum") == "whole-job":
        return
    flags = {"preempt": "enablePreemptable", "reclaim": "enableReclaimable"}
    protected = [
        name
        for name, flag in flags.items()
        if action_named(config, name) is not None and gang[1].flags.get(flag, True)
    ]
    if not protected:
        return
    whole = _with_plugin_changed(
        config, "gang", lambda p: evolve(p, arguments={**p.arguments, "atMinimum": "whole-job"})
    )
    yield Suspected(
        code="AtMinimumProtected",
        place=gang[0],
        consequence=(
            f"action {protected[0]!r} can never evict from a job that runs with no more tasks "
            "than its min_available, so no job of one task, whatever the priorities"
        ),
        advice="set the argument atMinimum: whole-job of plugin 'gang'",
        instead=whole,
    )


def _no_victims(config: SchedulerConfig) -> Iterator[Suspected]:
    for action, flag, able in (
        ("preempt", "enablePreemptable", ("gang", "conformance", "priority", "drf")),
        ("reclaim", "enableReclaimable", ("gang", "conformance", "proportion", "capacity")),
    ):
        found = action_named(config, action)
        plugins = [plugin for _, _, plugin in _plugins_of(config)]
        is_on = any(p.flags.get(flag, True) for p in plugins if p.name in able)
        if found is not None and not is_on and all(p.name in _KNOWN for p in plugins):
            name = "priority" if action == "preempt" else "proportion"
            instead = _with_plugin(config, name)
            if _find_plugin(config, name) is not None:
                instead = _with_flags(config, name, {})
            yield Suspected(
                code="NoVictims",
                place=found[0],
                consequence=f"action {action!r} can never evict a task: no plugin names victims",
                advice=f"add or enable plugin {name!r}",
                instead=instead,
            )


_KNOWN = (
    *("capacity", "conformance", "drf", "gang"),
    *("nodeorder", "predicates", "priority", "proportion"),
)
"""The plugins whose victims are known; with any other plugin the rule does not apply."""
SHARELESS = {*_KNOWN, "fcfs", "las", "sjf", "sla", "usage"} - {"capacity", "proportion"}
"""The plugins that are known not to compute the shares of queues."""


def _release_without_hold(config: SchedulerConfig) -> Iterator[Suspected]:
    backfill, allocate = action_named(config, "backfill"), action_named(config, "allocate")
    if backfill is None or allocate is None or backfill[1].arguments.get("strategy") != "release":
        return
    if allocate[1].arguments.get("unready") == "hold":
        return
    actions = [
        evolve(a, arguments={**a.arguments, "unready": "hold"}) if a.name == "allocate" else a
        for a in config.actions
    ]
    yield Suspected(
        code="ReleaseWithoutHold",
        place=backfill[0],
        consequence=(
            "strategy 'release' finds nothing to release: allocate rolls back a gang that cannot "
            "start, so other jobs take its places permanently rather than as backfill"
        ),
        advice="set the argument unready: hold of action 'allocate', or leave out the strategy",
        instead=evolve(config, actions=actions),
    )


def _proportion_without_reclaim(config: SchedulerConfig) -> Iterator[Suspected]:
    for name in ("proportion", "capacity"):
        found = _find_plugin(config, name)
        if (
            found is None
            or action_named(config, "reclaim") is not None
            or action_named(config, "allocate") is None
        ):
            continue
        yield Suspected(
            code=f"{name.capitalize()}WithoutReclaim",
            place=found[0],
            consequence=(
                "a queue below its share waits until tasks of other queues end, however far those "
                "are above their shares"
            ),
            advice="add action 'reclaim' before 'allocate'",
            instead=evolve(config, actions=(ActionOption(name="reclaim"), *config.actions)),
        )


_WEIGHTS = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource")


def _reclaim_without_shares(config: SchedulerConfig) -> Iterator[Suspected]:
    found = action_named(config, "reclaim")
    names = {plugin.name for _, _, plugin in _plugins_of(config)}
    # Other plugins, including custom ones, may compute the shares of queues.
    if found is None or not names <= SHARELESS:
        return
    if as_boolean(found[1].arguments.get("withoutShares", False)):
        return
    is_on = any(
        plugin.flags.get("enableReclaimable", True)
        for _, _, plugin in _plugins_of(config)
        if plugin.name in _ALWAYS_ANSWER
    )
    if is_on:  # otherwise nothing is ever evicted, which is another finding
        yield Suspected(
            code="ReclaimWithoutShares",
            place=found[0],
            consequence=(
                "no plugin computes the shares of queues, so each queue may evict tasks of every "
                "other, back and forth"
            ),
            advice=(
                "add plugin 'proportion' or 'capacity', or set the argument withoutShares: true of "
                "action 'reclaim' if this is intended"
            ),
            instead=_with_plugin(config, "proportion"),
        )


def _zero_weights(config: SchedulerConfig) -> Iterator[Suspected]:
    found = _find_plugin(config, "nodeorder")
    if found is None:
        return
    defaults = {"mostrequested": 0}
    weights = [found[1].arguments.get(f"{name}.weight", defaults.get(name, 1)) for name in _WEIGHTS]
    if any(str(weight).strip() not in ("0", "0.0") for weight in weights):
        return
    yield Suspected(
        code="ZeroWeights",
        place=f"{found[0]}.arguments",
        consequence="all nodes get the same score, so the first by name is filled first",
        advice="set a weight of 1 or more, or leave out plugin 'nodeorder'",
        instead=_with_plugin_changed(config, "nodeorder", lambda p: evolve(p, arguments={})),
    )


@frozen
class Remedy:
    """A change that may end endless evictions, and the configuration with that change."""

    advice: str
    instead: SchedulerConfig


def remedies_for_loops(config: SchedulerConfig) -> Iterator[Remedy]:
    """Yield changes that may end endless evictions, the smallest first."""
    preempts = action_named(config, "preempt") is not None
    if action_named(config, "reclaim") is not None and not (
        _find_plugin(config, "proportion") or _find_plugin(config, "capacity")
    ):
        yield Remedy(
            "add plugin 'proportion': it lets reclaim evict only from queues above their share",
            _with_plugin(config, "proportion"),
        )
    for name in ("priority", "drf"):
        found = _find_plugin(config, name)
        if preempts and found is not None:
            yield Remedy(
                f"move plugin {name!r} to the first tier: it then orders jobs as it picks victims",
                _with_plugin_first(_without_plugin(config, name), name, found[1]),
            )
    for name in ("priority", "drf"):
        if preempts and _find_plugin(config, name) is None:
            yield Remedy(
                f"add plugin {name!r} to the first tier: it then orders jobs as it picks victims",
                _with_plugin_first(config, name),
            )
    for name in ("preempt", "reclaim"):
        left = [action for action in config.actions if action.name != name]
        if left and len(left) < len(config.actions):
            yield Remedy(f"leave out action {name!r}", evolve(config, actions=left))


RULES: tuple[Callable[[SchedulerConfig], Iterator[Suspected]], ...] = (
    _missing,
    _switched_off,
    _shadowed,
    _drf_beside_capacity,
    _preempt_before_reclaim,
    _shadowed_order,
    _nothing_starts,
    _no_victims,
    _at_minimum,
    _release_without_hold,
    _proportion_without_reclaim,
    _reclaim_without_shares,
    _zero_weights,
)


# Rules for the queues of a snapshot

QUEUE_FIELDS = ("parent", "priority", "guarantee", "deserved", "limit")
"""The fields that only plugin capacity reads, and the limit, which proportion reads too."""


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
                f"{counted_amount(dimension, wanted)}, but it never gets more than "
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
                    f"queues below it deserve {counted_amount(dimension, wanted)}, "
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
                f"{counted_amount(dimension, more)} are guaranteed to it, but it "
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
            f"queues are guaranteed {counted_amount(dimension, together)} together, "
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


# Configurations: what they name, and with changes


def _plugins_of(config: SchedulerConfig) -> Iterator[tuple[int, int, PluginOption]]:
    """Yield the plugins of a configuration, each with its tier and its position in it."""
    for at, tier in enumerate(config.tiers):
        for position, plugin in enumerate(tier.plugins):
            yield at, position, plugin


def _find_plugin(config: SchedulerConfig, name: str) -> tuple[str, PluginOption] | None:
    """Return the first place of a plugin in a configuration, and its option."""
    for at, position, plugin in _plugins_of(config):
        if plugin.name == name:
            return f"tiers[{at}].plugins[{position}]", plugin
    return None


def action_named(config: SchedulerConfig, name: str) -> tuple[str, ActionOption] | None:
    """Return the first place of an action in a configuration, and its option."""
    for position, action in enumerate(config.actions):
        if action.name == name:
            return f"actions[{position}]", action
    return None


def _with_plugin(config: SchedulerConfig, name: str) -> SchedulerConfig:
    """Add a plugin to the last tier."""
    tiers = config.tiers or (Tier(),)
    last = evolve(tiers[-1], plugins=(*tiers[-1].plugins, PluginOption(name=name)))
    return evolve(config, tiers=(*tiers[:-1], last))


def _with_plugin_changed(
    config: SchedulerConfig, name: str, change: Callable[[PluginOption], PluginOption]
) -> SchedulerConfig:
    """Change a plugin wherever it stands."""
    return _with_plugins_replaced(config, lambda p: (change(p) if p.name == name else p,))


def _with_flags(config: SchedulerConfig, name: str, flags: Mapping[str, bool]) -> SchedulerConfig:
    """Give a plugin other flags wherever it stands."""
    return _with_plugin_changed(config, name, lambda p: evolve(p, flags=flags))


def _with_plugins_replaced(
    config: SchedulerConfig, change: Callable[[PluginOption], tuple[PluginOption, ...]]
) -> SchedulerConfig:
    """Replace each plugin of a configuration with the plugins that `change` returns."""
    return evolve(
        config,
        tiers=[
            evolve(tier, plugins=[new for plugin in tier.plugins for new in change(plugin)])
            for tier in config.tiers
        ],
    )


def _without_plugin(config: SchedulerConfig, name: str) -> SchedulerConfig:
    """Leave a plugin out wherever it stands."""
    return _with_plugins_replaced(config, lambda p: () if p.name == name else (p,))


def _with_plugin_first(
    config: SchedulerConfig, name: str, option: PluginOption | None = None
) -> SchedulerConfig:
    """Add a plugin to the first tier, with an option of its own if one is given."""
    tiers = config.tiers or (Tier(),)
    plugins = (*tiers[0].plugins, PluginOption(name=name) if option is None else option)
    return evolve(config, tiers=(evolve(tiers[0], plugins=plugins), *tiers[1:]))
