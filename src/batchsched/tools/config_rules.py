"""What `check_config` suspects: a row for each problem of configurations, and of queues.

A row says in which words a problem is told, what would help, and how it shows; the function below
it finds the places where it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

from attrs import evolve, field, frozen

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import Budget, Queue
from batchsched.model.constraints import LabelSelector
from batchsched.model.resources import Amount, Resource, ResourceLimit
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted, counted_amount, shown_amount
from batchsched.plugin.arguments import Arguments, ArgumentValue, as_boolean
from batchsched.plugin.queues import QueueTree
from batchsched.scheduler import Scheduler
from batchsched.tools.amounts import least_request, raised_limit, with_dimension
from batchsched.tools.never_lent import never_lent

Shows = Literal[
    "cannot be built", "has no effect", "decides otherwise", "evicts for ever", "reserves"
]


class Parts:
    """The plugins and actions of a configuration with their places, and what it could be."""

    def __init__(self, scheduler: Scheduler, snapshot: Snapshot | None = None) -> None:
        self.scheduler = scheduler
        self.config = config = scheduler.config
        self.snapshot = snapshot
        """The cluster of the caller; None: none was given."""
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

    def replaced(self, instead: Mapping[str, tuple[PluginOption, ...]]) -> SchedulerConfig:
        """Put other plugins in the places of some, by name."""
        tiers = [
            [new for plugin in tier.plugins for new in instead.get(plugin.name, (plugin,))]
            for tier in self.config.tiers
        ]
        return evolve(self.config, tiers=[Tier(plugins=plugins) for plugins in tiers])

    def with_flags(self, name: str, flags: Mapping[str, bool]) -> SchedulerConfig:
        """Give a plugin other flags."""
        return self.replaced({name: (evolve(self.plugins[name][1], flags=flags),)})

    def with_argument(self, name: str, key: str, value: ArgumentValue | None) -> SchedulerConfig:
        """Give a plugin or an action another argument; None: leave it out."""
        _, option = self.plugins.get(name) or self.actions[name]
        arguments = {k: v for k, v in option.arguments.items() if k != key}
        arguments |= {} if value is None else {key: value}
        if isinstance(option, PluginOption):
            return self.replaced({name: (evolve(option, arguments=arguments),)})
        changed = evolve(option, arguments=arguments)
        return self.with_actions(*(changed if a.name == name else a for a in self.config.actions))

    def added(self, name: str, *, tier: int = -1) -> SchedulerConfig:
        """Add a plugin to the last tier, or to another one; it leaves where it is."""
        option = self.plugins[name][1] if name in self.plugins else PluginOption(name=name)
        tiers = list(self.replaced({name: ()}).tiers) or [Tier()]
        tiers[tier] = evolve(tiers[tier], plugins=(*tiers[tier].plugins, option))
        return evolve(self.config, tiers=tiers)

    def with_actions(self, *actions: ActionOption) -> SchedulerConfig:
        """Run other actions."""
        return evolve(self.config, actions=actions)

    def with_capacity(self) -> SchedulerConfig:
        """Add plugin capacity, in place of proportion if that is there."""
        if "proportion" not in self.plugins:
            return self.added("capacity")
        return self.replaced({"proportion": (PluginOption(name="capacity"),)})


def _as_it_is(snapshot: Snapshot) -> Snapshot:
    return snapshot


@frozen
class Suspected:
    """A place where a problem may be, and what would help there."""

    place: str
    instead: SchedulerConfig | None = None
    """The configuration with the advice applied; None: queues or jobs should change."""
    words: Mapping[str, object] = field(factory=dict[str, object])
    """What stands for the words in braces of the rule."""
    mended: Callable[[Snapshot], Snapshot] = _as_it_is
    """Returns a cluster without the problem."""
    remedies: Iterable[tuple[str, SchedulerConfig]] = ()
    """What may help where nothing is sure to, the smallest change first, and what there is then."""
    made: Callable[[Snapshot], Snapshot] = _as_it_is
    """Returns a small cluster with what the problem is about."""
    shown_by: str = ""
    """The name of the small clusters that show it; empty: that of the rule, or any."""


Find = Callable[[Parts], Iterator[Suspected]]


@frozen
class Rule:
    """A problem that configurations, or queues with them, may have."""

    code: str
    consequence: str
    """With the suspect's words in braces, as in `advice`."""
    advice: str
    find: Find
    shows: Shows = "decides otherwise"


RULES: list[Rule] = []
"""All rules, in the order in which their findings are told."""


def _rule(
    code: str, consequence: str, advice: str, shows: Shows = "decides otherwise"
) -> Callable[[Find], None]:
    return lambda find: RULES.append(Rule(code, consequence, advice, find, shows))


# Rules for configurations


def _missing(name: str) -> Find:
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
            yield Suspected(f"{place}.{flag}", of.with_flags(plugin.name, flags), words)


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
                words = {"name": plugin.name, "deciding": deciding}
                instead = of.added(plugin.name, tier=deciding)
                yield Suspected(f"tiers[{at}].plugins[{position}]", instead, words)


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
        yield Suspected(place, of.with_flags("drf", {**drf.flags, "enablePreemptable": False}))


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
        yield Suspected(f"actions[{first}]", of.with_actions(*actions))


@_rule(
    "EvictsBeforeConsolidating",
    "tasks are evicted for jobs that would have had room if others had moved",
    "move action 'consolidate' before 'reclaim' and 'preempt'",
)
def _evicts_before_consolidating(of: Parts) -> Iterator[Suspected]:
    names = [action.name for action in of.config.actions]
    evicting = [names.index(name) for name in ("preempt", "reclaim") if name in names]
    if "consolidate" in names and evicting and min(evicting) < names.index("consolidate"):
        at, actions = names.index("consolidate"), list(of.config.actions)
        actions.insert(min(evicting), actions.pop(at))
        yield Suspected(f"actions[{at}]", of.with_actions(*actions))


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
            _, fcfs = of.plugins["fcfs"]
            instead = of.replaced({"fcfs": (plugin, fcfs), plugin.name: ()})
            yield Suspected(place, instead, {"name": plugin.name})


@_rule(
    "PlanInStrictOrder",
    "no job starts before an earlier one of its queue, so action 'plan' backfills nothing",
    "set the argument strict: false of plugin 'fcfs'",
)
def _plan_in_strict_order(of: Parts) -> Iterator[Suspected]:
    if "plan" in of.actions and "fcfs" in of.plugins:
        yield Suspected(of.plugins["fcfs"][0], of.with_argument("fcfs", "strict", False))


@_rule(
    "NothingStarts",
    "no action starts jobs whose tasks request resources",
    "add action 'allocate'",
)
def _nothing_starts(of: Parts) -> Iterator[Suspected]:
    if of.actions.keys() <= {"backfill", "reserve"}:  # other actions may start jobs
        instead = of.with_actions(ActionOption(name="allocate"), *of.config.actions)
        yield Suspected("actions", instead)


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
            instead = of.with_flags(name, {}) if name in of.plugins else of.added(name)
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
                whole = of.with_argument("gang", "atMinimum", "whole-job")
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
        yield Suspected(place, of.with_argument("allocate", "unready", "hold"))


def _without_reclaim(name: str) -> Find:
    def find(of: Parts) -> Iterator[Suspected]:
        if name in of.plugins and "allocate" in of.actions and "reclaim" not in of.actions:
            instead = of.with_actions(ActionOption(name="reclaim"), *of.config.actions)
            yield Suspected(of.plugins[name][0], instead)

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
            instead = of.replaced({"nodeorder": (evolve(plugin, arguments={}),)})
            yield Suspected(f"{place}.arguments", instead)


@_rule(
    "PreemptsWhatSharesCover",
    "preempt may evict what the share of a queue covers for what it does not cover: another queue "
    "may reclaim that again, and so on",
    "leave out preemption: priority, unless the decisions should be those of KAI Scheduler",
)
def _preempts_covered(of: Parts) -> Iterator[Suspected]:
    place, plugin = of.plugins.get("capacity", ("", PluginOption(name="")))
    if plugin.arguments.get("preemption") == "priority" and "preempt" in of.actions:
        instead = of.with_argument("capacity", "preemption", None)
        yield Suspected(f"{place}.arguments", instead)


@_rule(
    "LimitOfNone",
    "limit {name!r} of plugin 'protection' allows no eviction at all",
    "let `most` be 1 or more; or leave the limit out, or the actions that evict",
)
def _limits_of_none(of: Parts) -> Iterator[Suspected]:
    place, plugin = of.plugins.get("protection", ("", PluginOption(name="")))
    given = plugin.arguments.get("limits", ())
    limits = () if isinstance(given, str) or not isinstance(given, Sequence) else given
    for position, row in enumerate(Arguments(plugin.arguments).rows("limits")):
        if row.integer("most", default=1, minimum=0) == 0:
            others = [*limits[:position], *limits[position + 1 :]]
            instead = of.with_argument("protection", "limits", others or None)
            where = f"{place}.arguments['limits'][{position}]"
            yield Suspected(where, instead, {"name": row.text("name", default="")})


@_rule(
    "BudgetNeverAllows",
    "budget {name!r} is hard and never lets a task of it go: it keeps {kept} of {count}",
    "let one task of it be down, or let it not be hard",
)
def _budgets_that_never_allow(of: Parts) -> Iterator[Suspected]:
    if of.snapshot is None or "protection" not in of.plugins:
        return
    tasks = [task for job in of.snapshot.jobs for task in job.tasks]
    tasks += of.snapshot.other_tasks
    for position, budget in enumerate(of.snapshot.budgets):
        count = sum(budget.counts(task) and not task.status.ended for task in tasks)
        most = budget.max_unavailable
        kept = count - (most or 0) if budget.min_available is None else budget.min_available
        if budget.hard and count and kept >= count:
            words = {"name": budget.uid, "kept": kept, "count": count}
            where = f"budgets[{position}]"
            yield Suspected(where, None, words, _without_budgets, made=_all_kept)


def _without_budgets(snapshot: Snapshot) -> Snapshot:
    return evolve(snapshot, budgets=())


def _all_kept(snapshot: Snapshot) -> Snapshot:
    budget = Budget(name="all", selector=LabelSelector(), max_unavailable=0)
    return evolve(snapshot, budgets=[budget])


@_rule(
    "NeverLent",
    "{jobs} can never start: what cannot be taken back stays within what queues deserve, and it "
    "needs {needs}, of which queue {queue!r} deserves {quota}",
    "let the queue deserve as much, or let the job be preemptible, or set withinDeserved: false of "
    "plugin 'protection'",
)
def _never_lent(of: Parts) -> Iterator[Suspected]:
    return _beyond_quotas(of, are_kept=False)


@_rule(
    "NeverReclaimed",
    "{jobs} can never start: nothing is reclaimed from queue {queue!r}, so it stays within what it "
    "deserves or is guaranteed, {quota}, and such a job needs {needs}",
    "let the queue be reclaimable or deserve as much, or set withinDeserved: false of plugin "
    "'protection'",
)
def _never_reclaimed(of: Parts) -> Iterator[Suspected]:
    return _beyond_quotas(of, are_kept=True)


def _beyond_quotas(of: Parts, *, are_kept: bool) -> Iterator[Suspected]:
    plugin = of.plugins.get("protection", ("", None))[1]
    if of.snapshot is None or plugin is None:
        return
    if not Arguments(plugin.arguments).boolean("withinDeserved", default=True):
        return
    for found in never_lent(of.snapshot):
        if found.is_kept is not are_kept:
            continue
        others = f" and {counted(found.others, 'other job')}" if found.others else ""
        words: dict[str, object] = {
            "jobs": f"job {found.job.uid}{others}",
            "needs": counted_amount(found.dimension, found.needs),
            "queue": found.queue.name,
            "quota": shown_amount(found.dimension, found.quota),
        }
        place = f"jobs[{found.position}]"
        yield Suspected(place, None, words, mended=found.mended, made=found.alone)


@_rule(
    "PastUseAfterShares",
    "past use only decides between queues whose parts of their shares are the same, since plugin "
    "'proportion' comes first",
    "move plugin 'usage' before 'proportion'",
)
def _past_use_last(of: Parts) -> Iterator[Suspected]:
    names = [plugin.name for _, plugin in of.placed]
    if not (of.is_on("usage", "enableQueueOrder") and of.is_on("proportion", "enableQueueOrder")):
        return
    place, usage = of.plugins["usage"]
    if names.index("proportion") < names.index("usage"):
        both = {"usage": (), "proportion": (usage, of.plugins["proportion"][1])}
        yield Suspected(place, of.replaced(both))


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
        yield Suspected("actions", remedies=_remedies_for_loops(of))


def _remedies_for_loops(of: Parts) -> Iterator[tuple[str, SchedulerConfig]]:
    if "reclaim" in of.actions and not of.plugins.keys() & {"proportion", "capacity"}:
        advice = "add plugin 'proportion': it lets reclaim evict only from queues above their share"
        yield advice, of.added("proportion")
    if "preempt" in of.actions:
        for name in sorted(("priority", "drf"), key=lambda name: name not in of.plugins):
            how = f"{'move' if name in of.plugins else 'add'} plugin {name!r} to the first tier"
            yield f"{how}: it then orders jobs as it picks victims", of.added(name, tier=0)
    for name in ("preempt", "reclaim"):
        left = [action for action in of.config.actions if action.name != name]
        if left and len(left) < len(of.config.actions):
            yield f"leave out action {name!r}", of.with_actions(*left)


# Rules for the queues of a snapshot


def _leaves(snapshot: Snapshot) -> Mapping[str, str]:
    """Return a leaf below each inner queue."""
    tree, leaves = QueueTree(snapshot.queues), dict[str, str]()
    for position in tree.inner_upward:
        first = tree.names[tree.children[position][0]]
        leaves[tree.names[position]] = leaves.get(first, first)
    return leaves


def _with_leaves_named(snapshot: Snapshot) -> Snapshot:
    leaves = _leaves(snapshot)
    jobs = [evolve(job, queue=leaves.get(job.queue, job.queue)) for job in snapshot.jobs]
    return evolve(snapshot, jobs=jobs)


@_rule(
    "JobOfInnerQueue",
    "{number} left out of every cycle: queue {queue!r} is an inner queue of the tree",
    "name a queue without queues below it",
)
def _jobs_of_inner_queues(of: Parts) -> Iterator[Suspected]:
    if of.snapshot is None:
        return
    inner = _leaves(of.snapshot)
    jobs = [job for job in of.snapshot.jobs if job.queue in inner]
    if jobs:
        number = "1 job is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
        words = {"number": number, "queue": jobs[0].queue}
        place = f"jobs[{jobs[0].uid!r}].queue"
        yield Suspected(place, words=words, mended=_with_leaves_named)


_Faults = Iterator[tuple[str, str]]
_FindQueues = Callable[[Snapshot, QueueTree, dict[str, Queue]], _Faults]
"""Yields the place and consequence of each fault, and mends the queues."""


def _queue_rule(
    code: str, advice: str, *, needs_capacity: bool = True
) -> Callable[[_FindQueues], None]:
    def register(find_faults: _FindQueues) -> None:
        def faults_of(snapshot: Snapshot) -> tuple[list[tuple[str, str]], Snapshot]:
            """Return the faults of queues, and the snapshot without any."""
            mended = {queue.name: queue for queue in snapshot.queues}
            faults = list(find_faults(snapshot, QueueTree(snapshot.queues), mended))
            return faults, evolve(snapshot, queues=mended.values())

        def find(of: Parts) -> Iterator[Suspected]:
            if of.snapshot is None or (needs_capacity and "capacity" not in of.plugins):
                return
            faults, _ = faults_of(of.snapshot)
            for place, consequence in faults[:1]:
                more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
                words = {"consequence": f"{consequence}{more}"}
                yield Suspected(place, None, words, lambda other: faults_of(other)[1])

        _rule(code, "{consequence}", advice)(find)

    return register


def _amounts(resource: Resource | ResourceLimit | None) -> dict[str, Amount]:
    """Return the amounts above 0; unlimited dimensions are left out."""
    if resource is None:
        return {}
    return {dimension: amount for dimension, amount in resource.dimensions() if amount}


def _at_most(resource: Resource, dimension: str, most: Amount) -> Resource:
    return with_dimension(resource, dimension, min(resource.get(dimension), most))


def _sum(amounts: Iterable[Mapping[str, Amount]]) -> dict[str, Amount]:
    together: dict[str, Amount] = {}
    for dimension, amount in chain.from_iterable(each.items() for each in amounts):
        together[dimension] = together.get(dimension, 0) + amount
    return together


def _deserved_below(
    tree: QueueTree, position: int, mended: Mapping[str, Queue]
) -> dict[str, Amount]:
    children = (mended[tree.names[child]] for child in tree.children[position])
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


@_queue_rule("DeservedBeyondLimit", "raise the limit, or lower deserved to the limit")
def _deserved_beyond_limit(_: Snapshot, tree: QueueTree, mended: dict[str, Queue]) -> _Faults:
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
        mended[queue.name] = evolve(queue, limit=limit)


@_queue_rule(
    "DeservedBeyondParent", "raise its deserved to the sum of those of the queues below it"
)
def _deserved_beyond_parent(_: Snapshot, tree: QueueTree, mended: dict[str, Queue]) -> _Faults:
    for position in reversed(tree.downward):
        queue, above = tree.queues[position], tree.parents[position]
        siblings = tree.tops if above < 0 else tree.children[above]
        deserved = queue.deserved
        if not isinstance(deserved, Resource) or len(siblings) == 1:
            continue  # it has no siblings, or it deserves everything
        for dimension, wanted in _deserved_below(tree, position, mended).items():
            own = deserved.get(dimension)
            if wanted > own:
                deserved = with_dimension(deserved, dimension, wanted)
                message = (
                    f"queues below it deserve {counted_amount(dimension, wanted)}, but it deserves "
                    f"{shown_amount(dimension, own)}: whether they get the rest depends on weights"
                )
                yield f"queues[{queue.name!r}].deserved", message
        mended[queue.name] = evolve(queue, deserved=deserved)


@_queue_rule("GuaranteeBeyondDeserved", "lower the guarantee to what it deserves")
def _guarantee_beyond_deserved(_: Snapshot, tree: QueueTree, mended: dict[str, Queue]) -> _Faults:
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
                one = mended[tree.names[below]]
                guarantee = _at_most(one.guarantee, dimension, most)
                mended[one.name] = evolve(one, guarantee=guarantee)
                most = 0


@_queue_rule(
    "GuaranteesBeyondCluster",
    "lower the guarantees, such as to half of what nodes have: queues share the rest",
)
def _guarantees_beyond_cluster(
    snapshot: Snapshot, tree: QueueTree, mended: dict[str, Queue]
) -> _Faults:
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
        for one in list(mended.values()):
            half = one.guarantee.get(dimension) * there // (2 * together)
            guarantee = _at_most(one.guarantee, dimension, half)
            mended[one.name] = evolve(one, guarantee=guarantee)


@_queue_rule(
    "GuaranteesLeaveTooLittle",
    "lower the guarantees of other queues, so that they leave what the job needs",
    needs_capacity=False,
)
def _guarantees_leave_too_little(
    snapshot: Snapshot, tree: QueueTree, mended: dict[str, Queue]
) -> _Faults:
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
            for one in list(mended.values()):
                if tree.position[one.name] not in path:
                    less = one.guarantee.get(dimension) * (there - asked) // together
                    guarantee = _at_most(one.guarantee, dimension, less)
                    mended[one.name] = evolve(one, guarantee=guarantee)


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
def _no_share(_: Snapshot, tree: QueueTree, mended: dict[str, Queue]) -> _Faults:
    for kept, queue in zip(_kept(tree), tree.queues, strict=True):
        has_any = queue.weight or kept or not isinstance(queue.deserved, Resource)
        if not has_any and not _amounts(queue.deserved):
            mended[queue.name] = evolve(queue, weight=1)
            message = "it has no share: it can reclaim nothing, and all its tasks may be evicted"
            yield f"queues[{queue.name!r}].weight", message


@_rule(
    "CountsNodesOutOfService",
    "shares are parts of nodes that start nothing, too: {number} out of service",
    "use plugin 'capacity' instead of 'proportion': it counts only nodes in service",
)
def _counts_nodes_out_of_service(of: Parts) -> Iterator[Suspected]:
    nodes = () if of.snapshot is None else of.snapshot.nodes
    out = sum(out_of_service(node) is not None for node in nodes)
    if out and "proportion" in of.plugins:
        place, _ = of.plugins["proportion"]
        words = {"number": "1 node is" if out == 1 else f"{out} nodes are"}
        yield Suspected(place, of.with_capacity(), words)


@_rule(
    "QueueFieldNotRead",
    "no plugin reads {field}, which {number}",
    "use plugin 'capacity' instead of 'proportion'",
)
def _unread_fields(of: Parts) -> Iterator[Suspected]:
    """Yield the fields that queues have and no plugin reads, where all plugins are known."""
    if "capacity" in of.plugins or not of.plugins.keys() <= _SHARELESS | {"proportion"}:
        return
    plain, instead = Queue(name="plain"), of.with_capacity()
    # Plugin capacity reads all of these; proportion reads only limits and guarantees.
    for name in ("parent", "priority", "guarantee", "deserved", "limit"):
        queues = () if of.snapshot is None else of.snapshot.queues
        having = [q for q in queues if getattr(q, name) != getattr(plain, name)]
        if having:
            number = "1 queue has" if len(having) == 1 else f"{len(having)} queues have"
            words = {"field": name, "number": number}
            place = f"queues[{having[0].name!r}].{name}"
            yield Suspected(place, instead, words, shown_by=name)


@_rule(
    "TopologyNotRead",
    "no plugin reads the topology that {number} for: tasks that must be in one domain may be in "
    "several",
    "add plugin 'topology'",
)
def _unread_topology(of: Parts) -> Iterator[Suspected]:
    if of.snapshot is None or "topology" in of.plugins:
        return
    asking = [
        job.uid
        for job in of.snapshot.jobs
        if job.topology is not None or any(group.topology is not None for group in job.groups)
    ]
    if asking:
        number = "1 job asks" if len(asking) == 1 else f"{len(asking)} jobs ask"
        yield Suspected(f"jobs[{asking[0]!r}].topology", of.added("topology"), {"number": number})


@_rule(
    "BrokenWaitForEachOther",
    "both it and job {other!r} are incomplete, and each holds the room that the other needs: "
    "neither does any work",
    "let action 'preempt' complete one of them: 'unblock: true'",
)
def _broken_that_wait(of: Parts) -> Iterator[Suspected]:
    if of.snapshot is None:
        return
    waits_for: dict[str, set[str]] = {}
    of_task = {task.uid: job.uid for job in of.snapshot.jobs for task in job.tasks}
    for uid, reason in of.scheduler.schedule(of.snapshot).pending.items():
        if reason.held_on:
            waits_for.setdefault(of_task[uid], set()).update(reason.held_by)
    pairs = ((one, other) for one, others in waits_for.items() for other in others)
    for one, other in sorted(pairs):
        if one in waits_for.get(other, ()):
            if "preempt" in of.actions:
                instead = of.with_argument("preempt", "unblock", True)
            else:
                unblock = ActionOption(name="preempt", arguments={"unblock": True})
                instead = of.with_actions(*of.config.actions, unblock)
            yield Suspected(f"jobs[{one!r}]", instead, {"other": other})
            return
