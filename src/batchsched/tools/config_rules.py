"""What `check_config` suspects: a row for each problem of configurations, and of queues.

A row says in which words a problem is told, what would help, and how it shows; the function below
it finds the places where it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Literal

from attrs import evolve, field, frozen

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import JobInfo, Queue
from batchsched.model.resources import Amount, Resource, ResourceLimit
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted_amount, shown_amount
from batchsched.plugin.arguments import ArgumentValue, as_boolean
from batchsched.plugin.queues import QueueTree
from batchsched.tools.amounts import least_request, raised_limit

Shows = Literal[
    "cannot be built", "has no effect", "decides otherwise", "evicts for ever", "reserves"
]

# Rules for configurations


class Parts:
    """The plugins and actions of a configuration with their places, and what it could be."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.placed = [
            (f"tiers[{at}].plugins[{position}]", plugin)
            for at, tier in enumerate(config.tiers)
            for position, plugin in enumerate(tier.plugins)
        ]
        self.plugins: dict[str, tuple[str, PluginOption]] = {}
        self.actions: dict[str, tuple[str, ActionOption]] = {}
        for place, plugin in self.placed:
            self.plugins.setdefault(plugin.name, (place, plugin))
        for position, action in enumerate(config.actions):
            self.actions.setdefault(action.name, (f"actions[{position}]", action))

    def is_on(self, name: str, flag: str) -> bool:
        """Return whether a plugin is there, with an extension point that is not off."""
        return name in self.plugins and self.plugins[name][1].flags.get(flag, True)

    def replaced(
        self, change: Callable[[PluginOption], tuple[PluginOption, ...]]
    ) -> SchedulerConfig:
        """Replace each plugin with those that `change` returns."""
        tiers = [
            evolve(tier, plugins=[new for plugin in tier.plugins for new in change(plugin)])
            for tier in self.config.tiers
        ]
        return evolve(self.config, tiers=tiers)

    def changed(
        self,
        name: str,
        *,
        flags: Mapping[str, bool] | None = None,
        arguments: Mapping[str, ArgumentValue] | None = None,
    ) -> SchedulerConfig:
        """Give a plugin other flags or arguments wherever it stands."""

        def change(plugin: PluginOption) -> tuple[PluginOption]:
            changed = plugin if flags is None else evolve(plugin, flags=flags)
            return (changed if arguments is None else evolve(changed, arguments=arguments),)

        return self.replaced(lambda p: change(p) if p.name == name else (p,))

    def added(self, name: str, *, tier: int = -1) -> SchedulerConfig:
        """Add a plugin to the last tier, or to another one; it leaves where it is."""
        option = self.plugins[name][1] if name in self.plugins else PluginOption(name=name)
        tiers = list(self.replaced(lambda p: () if p.name == name else (p,)).tiers) or [Tier()]
        tiers[tier] = evolve(tiers[tier], plugins=(*tiers[tier].plugins, option))
        return evolve(self.config, tiers=tiers)

    def with_unblock(self) -> SchedulerConfig:
        """Let preempt complete broken jobs; add it if it is not there."""
        option = ActionOption(name="preempt", arguments={"unblock": True})
        if "preempt" not in self.actions:
            return evolve(self.config, actions=(*self.config.actions, option))
        return evolve(
            self.config,
            actions=[
                evolve(action, arguments={**action.arguments, "unblock": True})
                if action.name == "preempt"
                else action
                for action in self.config.actions
            ],
        )

    def with_capacity(self) -> SchedulerConfig:
        """Add plugin capacity, in place of proportion if that is there."""
        if "proportion" not in self.plugins:
            return self.added("capacity")
        capacity = PluginOption(name="capacity")
        return self.replaced(lambda p: (capacity if p.name == "proportion" else p,))


@frozen
class Suspected:
    """A place where a problem may be, the words of it, and the configuration to have instead."""

    place: str
    instead: SchedulerConfig | None = None
    words: Mapping[str, object] = field(factory=dict[str, object])


@frozen
class Rule:
    """A problem that configurations may have."""

    code: str
    consequence: str
    """With the suspect's words in braces, as in `advice`."""
    advice: str
    find: Callable[[Parts], Iterator[Suspected]]
    shows: Shows = "decides otherwise"


RULES: list[Rule] = []
"""All rules for configurations, in the order in which their findings are told."""


def _rule(
    code: str, consequence: str, advice: str, shows: Shows = "decides otherwise"
) -> Callable[[Callable[[Parts], Iterator[Suspected]]], None]:
    return lambda find: RULES.append(Rule(code, consequence, advice, find, shows))


def _missing(name: str) -> Callable[[Parts], Iterator[Suspected]]:
    return lambda of: iter(() if name in of.plugins else (Suspected("tiers", of.added(name)),))


_rule(
    "NoPredicates",
    "tasks are placed on nodes that must not run them",
    "add plugin 'predicates'",
)(_missing("predicates"))
_rule(
    "NoGang",
    "a job may start with fewer tasks than its min_available",
    "add plugin 'gang'",
)(_missing("gang"))

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


@_rule("SwitchedOff", "plugin {name!r}: {what}", "leave out {flag}, unless this is intended")
def _switched_off(of: Parts) -> Iterator[Suspected]:
    for place, plugin in of.placed:
        for flag, is_on in sorted(plugin.flags.items()):
            # Intended: drf may let preempt evict tasks within a share that capacity protects.
            beside = (plugin.name, flag) == ("drf", "enablePreemptable")
            if is_on or (beside and "capacity" in of.plugins):
                continue
            what = _SWITCHED.get(flag, "it is not used")
            words = {"name": plugin.name, "flag": flag, "what": what}
            flags = {name: on for name, on in plugin.flags.items() if name != flag}
            yield Suspected(f"{place}.{flag}", of.changed(plugin.name, flags=flags), words)


_ALWAYS_ANSWER = {"gang", "conformance"}
"""Plugins that approve every task they do not protect as a victim, so later tiers never decide."""


@_rule(
    "ShadowedVerdicts",
    "tasks that plugin {name!r} would protect are evicted: the first tier that names victims "
    "decides, and tier {deciding} always names some",
    "move it to tier {deciding}, or move the plugins of that tier behind it",
)
def _shadowed(of: Parts) -> Iterator[Suspected]:
    judges = {"gang", "conformance", "priority", "drf"}
    deciding: int | None = None
    for at, tier in enumerate(of.config.tiers):
        names = {p.name for p in tier.plugins if p.flags.get("enablePreemptable", True)} & judges
        if deciding is None:
            deciding = at if names and names <= _ALWAYS_ANSWER else None
            continue
        for position, plugin in enumerate(tier.plugins):
            if plugin.name in names - _ALWAYS_ANSWER:
                tiers = list(of.config.tiers)
                tiers[at] = evolve(tier, plugins=[p for p in tier.plugins if p is not plugin])
                before = tiers[deciding]
                tiers[deciding] = evolve(before, plugins=(*before.plugins, plugin))
                yield Suspected(
                    f"tiers[{at}].plugins[{position}]",
                    evolve(of.config, tiers=tiers),
                    {"name": plugin.name, "deciding": deciding},
                )


@_rule(
    "DrfBesideCapacity",
    "drf lets preempt evict tasks within the share of their queue, which capacity protects; "
    "reclaim may then evict other tasks for them, and this may repeat for ever",
    "set the flag enablePreemptable: false of plugin 'drf'",
)
def _drf_beside_capacity(of: Parts) -> Iterator[Suspected]:
    both = "preempt" in of.actions and "capacity" in of.plugins
    if both and of.is_on("drf", "enablePreemptable"):
        place, drf = of.plugins["drf"]
        flags = {**drf.flags, "enablePreemptable": False}
        yield Suspected(place, of.changed("drf", flags=flags))


@_rule(
    "PreemptBeforeReclaim",
    "what preempt places beyond the share of its queue, reclaim may evict in the same cycle or the "
    "next, so that others were evicted for nothing",
    "move action 'reclaim' before 'preempt'",
)
def _preempt_before_reclaim(of: Parts) -> Iterator[Suspected]:
    names = [action.name for action in of.config.actions]
    if not {"preempt", "reclaim"} <= set(names) or "capacity" not in of.plugins:
        return
    first, at = names.index("preempt"), names.index("reclaim")
    if first < at:
        actions = list(of.config.actions)
        actions.insert(first, actions.pop(at))
        yield Suspected(f"actions[{first}]", evolve(of.config, actions=actions))


_ORDERING = ("priority", "sjf", "las", "sla", "drf")
"""Plugins that order jobs by something other than their creation time."""


@_rule(
    "ShadowedOrder",
    "plugin {name!r} only orders jobs with equal creation times, because fcfs decides before it",
    "move it before plugin 'fcfs'",
)
def _shadowed_order(of: Parts) -> Iterator[Suspected]:
    if not of.is_on("fcfs", "enableJobOrder"):
        return
    behind = False
    for place, plugin in of.placed:
        behind |= plugin.name == "fcfs"
        if behind and plugin.name in _ORDERING and plugin.flags.get("enableJobOrder", True):
            instead = of.replaced(partial(_before_fcfs, plugin))
            yield Suspected(place, instead, {"name": plugin.name})


def _before_fcfs(moved: PluginOption, plugin: PluginOption) -> tuple[PluginOption, ...]:
    if plugin.name == "fcfs":
        return (moved, plugin)
    return () if plugin.name == moved.name else (plugin,)


@_rule(
    "PlanInStrictOrder",
    "no job starts before an earlier one of its queue, so action 'plan' backfills nothing",
    "set the argument strict: false of plugin 'fcfs'",
)
def _plan_in_strict_order(of: Parts) -> Iterator[Suspected]:
    if "plan" in of.actions and "fcfs" in of.plugins:
        place, fcfs = of.plugins["fcfs"]
        loose = {**fcfs.arguments, "strict": False}
        yield Suspected(place, of.changed("fcfs", arguments=loose))


@_rule(
    "NothingStarts",
    "no action starts jobs whose tasks request resources",
    "add action 'allocate'",
)
def _nothing_starts(of: Parts) -> Iterator[Suspected]:
    if of.actions.keys() <= {"backfill", "reserve"}:  # other actions may start jobs
        actions = (ActionOption(name="allocate"), *of.config.actions)
        yield Suspected("actions", evolve(of.config, actions=actions))


_KNOWN = (
    *("capacity", "conformance", "drf", "gang"),
    *("nodeorder", "predicates", "priority", "proportion"),
)
"""The plugins whose victims are known; with any other plugin the rule does not apply."""


@_rule(
    "NoVictims",
    "action {action!r} can never evict a task: no plugin names victims",
    "add or enable plugin {name!r}",
)
def _no_victims(of: Parts) -> Iterator[Suspected]:
    for action, flag, able in (
        ("preempt", "enablePreemptable", ("priority", "gang", "conformance", "drf")),
        ("reclaim", "enableReclaimable", ("proportion", "gang", "conformance", "capacity")),
    ):
        is_on = any(p.flags.get(flag, True) for _, p in of.placed if p.name in able)
        if action in of.actions and not is_on and of.plugins.keys() <= set(_KNOWN):
            name = able[0]
            is_there = name in of.plugins
            instead = of.changed(name, flags={}) if is_there else of.added(name)
            yield Suspected(of.actions[action][0], instead, {"action": action, "name": name})


@_rule(
    "AtMinimumProtected",
    "action {action!r} can never evict from a job that runs with no more tasks than its "
    "min_available, so no job of one task, whatever the priorities",
    "set the argument atMinimum: whole-job of plugin 'gang'",
)
def _at_minimum(of: Parts) -> Iterator[Suspected]:
    for action, flag in (("preempt", "enablePreemptable"), ("reclaim", "enableReclaimable")):
        if action in of.actions and of.is_on("gang", flag):
            place, gang = of.plugins["gang"]
            if gang.arguments.get("atMinimum") != "whole-job":
                whole = of.changed("gang", arguments={**gang.arguments, "atMinimum": "whole-job"})
                yield Suspected(place, whole, {"action": action})
            return


@_rule(
    "ReleaseWithoutHold",
    "strategy 'release' finds nothing to release: allocate rolls back a gang that cannot start, so "
    "other jobs take its places permanently rather than as backfill",
    "set the argument unready: hold of action 'allocate', or leave out the strategy",
)
def _release_without_hold(of: Parts) -> Iterator[Suspected]:
    if not {"backfill", "allocate"} <= of.actions.keys():
        return
    (place, backfill), (_, allocate) = of.actions["backfill"], of.actions["allocate"]
    holds = allocate.arguments.get("unready") == "hold"
    if backfill.arguments.get("strategy") == "release" and not holds:
        actions = [
            evolve(a, arguments={**a.arguments, "unready": "hold"}) if a.name == "allocate" else a
            for a in of.config.actions
        ]
        yield Suspected(place, evolve(of.config, actions=actions))


def _without_reclaim(name: str) -> Callable[[Parts], Iterator[Suspected]]:
    def find(of: Parts) -> Iterator[Suspected]:
        if name in of.plugins and "allocate" in of.actions and "reclaim" not in of.actions:
            actions = (ActionOption(name="reclaim"), *of.config.actions)
            yield Suspected(of.plugins[name][0], evolve(of.config, actions=actions))

    return find


for _name in ("proportion", "capacity"):
    _rule(
        f"{_name.capitalize()}WithoutReclaim",
        "a queue below its share waits until tasks of other queues end, however far those are "
        "above their shares",
        "add action 'reclaim' before 'allocate'",
    )(_without_reclaim(_name))

_SHARELESS = {*_KNOWN, "fcfs", "las", "sjf", "sla", "usage"} - {"capacity", "proportion"}
"""The plugins that are known not to compute the shares of queues."""


@_rule(
    "ReclaimWithoutShares",
    "no plugin computes the shares of queues, so each queue may evict tasks of every other, back "
    "and forth",
    "add plugin 'proportion' or 'capacity', or set the argument withoutShares: true of action "
    "'reclaim' if this is intended",
)
def _reclaim_without_shares(of: Parts) -> Iterator[Suspected]:
    # Other plugins, including custom ones, may compute the shares of queues.
    if "reclaim" not in of.actions or not of.plugins.keys() <= _SHARELESS:
        return
    place, reclaim = of.actions["reclaim"]
    is_meant = as_boolean(reclaim.arguments.get("withoutShares", False))
    # Where neither names victims nothing is ever evicted, which is another finding.
    if not is_meant and any(
        p.flags.get("enableReclaimable", True) for _, p in of.placed if p.name in _ALWAYS_ANSWER
    ):
        yield Suspected(place, of.added("proportion"))


_WEIGHTS = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource")


@_rule(
    "ZeroWeights",
    "all nodes get the same score, so the first by name is filled first",
    "set a weight of 1 or more, or leave out plugin 'nodeorder'",
)
def _zero_weights(of: Parts) -> Iterator[Suspected]:
    if "nodeorder" in of.plugins:
        place, plugin = of.plugins["nodeorder"]
        given = {"mostrequested.weight": 0, **plugin.arguments}
        weights = (given.get(f"{name}.weight", 1) for name in _WEIGHTS)
        if all(str(weight).strip() in ("0", "0.0") for weight in weights):
            yield Suspected(f"{place}.arguments", of.changed("nodeorder", arguments={}))


@_rule(
    "ReservationsMustBeKept",
    "reservations last for one cycle unless the next snapshot contains them, so the jobs that they "
    "were made for starve all the same",
    "build snapshots with next_snapshot, or add reservations_to_keep to them",
    shows="reserves",
)
def _reserves(of: Parts) -> Iterator[Suspected]:
    for position, action in enumerate(of.config.actions):
        if action.name == "reserve" or "starvationThreshold" in action.arguments:
            yield Suspected(f"actions[{position}]")
            return


@_rule(
    "EvictsForEver",
    "evicted tasks take their places again before the tasks that they were evicted for, and are "
    "evicted again in every cycle",
    "leave out actions 'preempt' and 'reclaim'",  # where nothing less is a remedy
    shows="evicts for ever",
)
def _evicts(of: Parts) -> Iterator[Suspected]:
    if of.actions.keys() & {"preempt", "reclaim"}:
        yield Suspected("actions")


def remedies_for_loops(of: Parts) -> Iterator[tuple[str, SchedulerConfig]]:
    """Yield what may end endless evictions, the smallest change first, and what there is then."""
    if "reclaim" in of.actions and not of.plugins.keys() & {"proportion", "capacity"}:
        advice = "add plugin 'proportion': it lets reclaim evict only from queues above their share"
        yield advice, of.added("proportion")
    if "preempt" in of.actions:
        by_presence = sorted(("priority", "drf"), key=lambda name: name not in of.plugins)
        for name in by_presence:
            how = f"move plugin {name!r}" if name in of.plugins else f"add plugin {name!r}"
            yield (
                f"{how} to the first tier: it then orders jobs as it picks victims",
                of.added(name, tier=0),
            )
    for name in ("preempt", "reclaim"):
        left = [action for action in of.config.actions if action.name != name]
        if left and len(left) < len(of.config.actions):
            yield f"leave out action {name!r}", evolve(of.config, actions=left)


# Rules for the queues of a snapshot

QUEUE_FIELDS = ("parent", "priority", "guarantee", "deserved", "limit")
"""The fields that plugin capacity reads; proportion reads only limits and guarantees."""


def of_snapshot(of: Parts, snapshot: Snapshot) -> Iterator[tuple[str, Rule, Suspected]]:
    """Yield what a configuration overlooks in a snapshot, with the name of clusters to show it."""
    if "proportion" in of.plugins:
        out = sum(out_of_service(node) is not None for node in snapshot.nodes)
        if out:
            place, _ = of.plugins["proportion"]
            words = {"number": "1 node is" if out == 1 else f"{out} nodes are"}
            suspected = Suspected(place, of.with_capacity(), words)
            yield _COUNTS_OUT_OF_SERVICE.code, _COUNTS_OUT_OF_SERVICE, suspected
    yield from _unread_fields(of, snapshot)


_COUNTS_OUT_OF_SERVICE = Rule(
    "CountsNodesOutOfService",
    "shares are parts of nodes that start nothing, too: {number} out of service",
    "use plugin 'capacity' instead of 'proportion': it counts only nodes in service",
    lambda _: iter(()),
)


def _unread_fields(of: Parts, snapshot: Snapshot) -> Iterator[tuple[str, Rule, Suspected]]:
    """Yield the fields that queues have and no plugin reads, where all plugins are known."""
    if "capacity" in of.plugins or not of.plugins.keys() <= _SHARELESS | {"proportion"}:
        return
    plain, instead = Queue(name="plain"), of.with_capacity()
    for name in QUEUE_FIELDS:
        having = [q for q in snapshot.queues if getattr(q, name) != getattr(plain, name)]
        if having:
            number = "1 queue has" if len(having) == 1 else f"{len(having)} queues have"
            words = {"field": name, "number": number}
            yield name, _UNREAD, Suspected(f"queues[{having[0].name!r}].{name}", instead, words)


_UNREAD = Rule(
    "QueueFieldNotRead",
    "no plugin reads {field}, which {number}",
    "use plugin 'capacity' instead of 'proportion'",
    lambda _: iter(()),
)


class Mended:
    """Queues and jobs as they should be, by name and UID."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, JobInfo] = {}

    def of(self, queue: Queue) -> Queue:
        """Return a queue as it should be."""
        return self.queues.get(queue.name, queue)


_Faults = Iterator[tuple[str, str]]
_FindQueues = Callable[[Snapshot, QueueTree, Mended], _Faults]


@frozen
class QueueRule:
    """A problem that queues may have, and the function that yields its faults and mends them."""

    code: str
    advice: str
    find: _FindQueues
    needs_capacity: bool = True

    def found(self, snapshot: Snapshot) -> tuple[str, str, Snapshot] | None:
        """Return the place and consequence of the first fault, and the snapshot without any."""
        mended = Mended()
        faults = list(self.find(snapshot, QueueTree(snapshot.queues), mended))
        if not faults:
            return None
        (place, consequence), *others = faults
        if others:
            consequence += f" ({len(others)} more)"
        queues = [mended.of(queue) for queue in snapshot.queues]
        jobs = [mended.jobs.get(job.uid, job) for job in snapshot.jobs]
        return place, consequence, evolve(snapshot, queues=queues, jobs=jobs)


QUEUE_RULES: list[QueueRule] = []
"""All rules for queues, in the order in which their findings are told."""


def _queue_rule(
    code: str, advice: str, *, needs_capacity: bool = True
) -> Callable[[_FindQueues], None]:
    return lambda find: QUEUE_RULES.append(QueueRule(code, advice, find, needs_capacity))


def _amounts(resource: Resource | ResourceLimit | None) -> dict[str, Amount]:
    """Return the amounts above 0; unlimited dimensions are left out."""
    if resource is None:
        return {}
    return {dimension: amount for dimension, amount in resource.dimensions() if amount}


def _only(dimension: str, amount: Amount) -> Resource:
    if dimension == "cpu":
        return Resource(milli_cpu=amount)
    if dimension == "memory":
        return Resource(memory=amount)
    return Resource(scalars={dimension: amount})


def _at_most(resource: Resource, dimension: str, most: Amount) -> Resource:
    excess = resource.get(dimension) - most
    return resource - _only(dimension, excess) if excess > 0 else resource


def _sum(amounts: Iterable[Mapping[str, Amount]]) -> dict[str, Amount]:
    together: dict[str, Amount] = {}
    for each in amounts:
        for dimension, amount in each.items():
            together[dimension] = together.get(dimension, 0) + amount
    return together


def _deserved_below(tree: QueueTree, position: int, mended: Mended) -> dict[str, Amount]:
    children = (mended.of(tree.queues[child]) for child in tree.children[position])
    return _sum(_amounts(child.deserved) for child in children)


def _kept(tree: QueueTree) -> list[dict[str, Amount]]:
    """Return what is kept for each queue: its guarantee, or the sum of those below it if larger."""
    kept: list[dict[str, Amount]] = [{} for _ in tree.queues]
    for position in reversed(tree.downward):
        own = _amounts(tree.queues[position].guarantee)
        for dimension, amount in _sum(kept[child] for child in tree.children[position]).items():
            own[dimension] = max(own.get(dimension, 0), amount)
        kept[position] = own
    return kept


@_queue_rule("JobOfInnerQueue", "name a queue without queues below it", needs_capacity=False)
def _jobs_of_inner_queues(snapshot: Snapshot, tree: QueueTree, mended: Mended) -> _Faults:
    leaves: dict[str, str] = {}
    for position in reversed(tree.downward):
        if tree.children[position]:
            first = tree.names[tree.children[position][0]]
            leaves[tree.names[position]] = leaves.get(first, first)
    jobs = [job for job in snapshot.jobs if job.queue in leaves]
    mended.jobs.update((job.uid, evolve(job, queue=leaves[job.queue])) for job in jobs)
    if jobs:
        number = "1 job is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
        place = f"jobs[{jobs[0].uid!r}].queue"
        left_out = f"{number} left out of every cycle"
        yield place, f"{left_out}: queue {jobs[0].queue!r} is an inner queue of the tree"


@_queue_rule("DeservedBeyondLimit", "raise the limit, or lower deserved to the limit")
def _deserved_beyond_limit(_: Snapshot, tree: QueueTree, mended: Mended) -> _Faults:
    for position, queue in enumerate(tree.queues):
        limit = queue.limit
        below, own = _deserved_below(tree, position, mended), _amounts(queue.deserved)
        for dimension, most in () if limit is None else limit.dimensions():
            wanted = max(own.get(dimension, 0), below.get(dimension, 0))
            if limit is not None and wanted > most:
                limit = raised_limit(limit, dimension, wanted)
                is_own = own.get(dimension, 0) == wanted
                message = (
                    f"{'it deserves' if is_own else 'queues below it deserve'} "
                    f"{counted_amount(dimension, wanted)}, but it never gets more than its limit, "
                    f"{shown_amount(dimension, most)}"
                )
                yield f"queues[{queue.name!r}].limit", message
        mended.queues[queue.name] = evolve(queue, limit=limit)


@_queue_rule(
    "DeservedBeyondParent", "raise its deserved to the sum of those of the queues below it"
)
def _deserved_beyond_parent(_: Snapshot, tree: QueueTree, mended: Mended) -> _Faults:
    for position in reversed(tree.downward):
        queue, above = tree.queues[position], tree.parents[position]
        siblings = tree.tops if above < 0 else tree.children[above]
        deserved = queue.deserved
        if not isinstance(deserved, Resource) or len(siblings) == 1:
            continue  # it has no siblings, or it deserves everything
        for dimension, wanted in _deserved_below(tree, position, mended).items():
            own = deserved.get(dimension)
            if wanted > own:
                deserved = deserved.max_with(_only(dimension, wanted))
                message = (
                    f"queues below it deserve {counted_amount(dimension, wanted)}, but it deserves "
                    f"{shown_amount(dimension, own)}: whether they get the rest depends on weights"
                )
                yield f"queues[{queue.name!r}].deserved", message
        mended.queues[queue.name] = evolve(queue, deserved=deserved)


@_queue_rule("GuaranteeBeyondDeserved", "lower the guarantee to what it deserves")
def _guarantee_beyond_deserved(_: Snapshot, tree: QueueTree, mended: Mended) -> _Faults:
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
                f"{counted_amount(dimension, more)} are guaranteed to it, but it deserves "
                f"{shown_amount(dimension, deserved)}: the rest is reserved for it, used or not"
            )
            yield f"queues[{queue.name!r}].guarantee", message
            most, within = deserved, [position]
            for below in within:  # which grows
                within.extend(tree.children[below])
                one = mended.of(tree.queues[below])
                guarantee = _at_most(one.guarantee, dimension, most)
                mended.queues[one.name] = evolve(one, guarantee=guarantee)
                most = 0


@_queue_rule(
    "GuaranteesBeyondCluster",
    "lower the guarantees, such as to half of what nodes have: queues share the rest",
)
def _guarantees_beyond_cluster(snapshot: Snapshot, tree: QueueTree, mended: Mended) -> _Faults:
    kept, supply = _kept(tree), _supply(snapshot, tree)
    for dimension, together in _sum(kept[top] for top in tree.tops).items():
        there = supply.get(dimension, 0)
        if together <= there:
            continue
        first = next(q for q in tree.queues if q.guarantee.get(dimension))
        message = (
            f"queues are guaranteed {counted_amount(dimension, together)} together, but nodes in "
            f"service have {shown_amount(dimension, there)} for them: no queue can use more than "
            "its guarantee, even if nodes are idle"
        )
        yield f"queues[{first.name!r}].guarantee", message
        for one in map(mended.of, tree.queues):
            half = one.guarantee.get(dimension) * there // (2 * together)
            guarantee = _at_most(one.guarantee, dimension, half)
            mended.queues[one.name] = evolve(one, guarantee=guarantee)


@_queue_rule(
    "GuaranteesLeaveTooLittle",
    "lower the guarantees of other queues, so that they leave what the job needs",
    needs_capacity=False,
)
def _guarantees_leave_too_little(snapshot: Snapshot, tree: QueueTree, mended: Mended) -> _Faults:
    kept, supply = _kept(tree), _supply(snapshot, tree)
    for job in snapshot.jobs:
        leaf = tree.position.get(job.queue)
        if leaf is None or not any(task.status.to_place for task in job.tasks):
            continue
        path, needed = tree.path(leaf), least_request(job, max(1, job.min_available))
        others = [top for top in tree.tops if top not in path]
        others += [c for p in path for c in tree.children[p] if c not in path]
        guaranteed = _sum(kept[other] for other in others)
        for dimension, asked in needed.items():
            there, together = supply.get(dimension, 0), guaranteed.get(dimension, 0)
            if not together or not 0 <= there - together < asked <= there:
                continue
            message = (
                f"job {job.uid} needs {counted_amount(dimension, asked)} at once, but of the "
                f"{shown_amount(dimension, there)} in service {shown_amount(dimension, together)} "
                "are guaranteed to other queues"
            )
            yield f"queues[{job.queue!r}]", message
            for one in map(mended.of, tree.queues):
                if tree.position[one.name] not in path:
                    less = one.guarantee.get(dimension) * (there - asked) // together
                    guarantee = _at_most(one.guarantee, dimension, less)
                    mended.queues[one.name] = evolve(one, guarantee=guarantee)


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


@_queue_rule(
    "NoShare", "set a weight of 1 or more, unless it should get only what no other queue wants"
)
def _no_share(_: Snapshot, tree: QueueTree, mended: Mended) -> _Faults:
    for kept, queue in zip(_kept(tree), tree.queues, strict=True):
        has_any = queue.weight or kept or not isinstance(queue.deserved, Resource)
        if not has_any and not _amounts(queue.deserved):
            mended.queues[queue.name] = evolve(queue, weight=1)
            message = "it has no share: it can reclaim nothing, and all its tasks may be evicted"
            yield f"queues[{queue.name!r}].weight", message
