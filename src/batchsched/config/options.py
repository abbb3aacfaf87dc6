"""The parts of a configuration: actions, and tiers of plugins, each with its options.

A configuration is checked against a registry as a whole: all its faults are found at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from attrs import evolve, field, frozen

from batchsched.actions.action import Action
from batchsched.config.registry import Registry, What, default_registry, factory_of, unknown_name
from batchsched.errors import Fault, problem_of
from batchsched.model.immutable import (
    EMPTY,
    AsMap,
    AsTuple,
    FrozenMap,
    frozen_map,
    is_frozen_map,
    kept_map,
)
from batchsched.model.notice import NoticeCode
from batchsched.model.texts import did_you_mean
from batchsched.model.validation.values import (
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    shown,
    tuple_problems,
)
from batchsched.plugin.arguments import ArgumentRow, Arguments, ArgumentValue
from batchsched.plugin.extension_points import Plugin

ENABLE_FLAGS: Mapping[str, str] = FrozenMap(
    {
        "enableJobOrder": "job_order_key",
        "enableQueueOrder": "queue_order_key",
        "enableTaskOrder": "task_order_key",
        "enablePredicate": "predicates",
        "enableNodeOrder": "node_scores",
        "enablePreemptable": "preemptable",
        "enableReclaimable": "reclaimable",
        "enableJobReady": "job_ready",
        "enableJobPipelined": "job_pipelined",
    }
)
"""The flags of a plugin in a configuration, and the extension point that each enables."""


# One converter for each type, as type checkers cannot follow generic ones. A value that cannot be
# converted is kept unchanged and reported with all other faults; see `checker`.


def _arguments(given: Mapping[str, ArgumentValue]) -> Mapping[str, ArgumentValue]:
    kept = kept_map(given)
    content: object = kept
    if not is_frozen_map(content) or not any(type(v) in (dict, list) for v in content.values()):
        return kept
    return kept_map({key: _kept(value) for key, value in given.items()})


def _kept(value: ArgumentValue) -> ArgumentValue:
    if isinstance(value, Mapping):
        return kept_map(value)
    if isinstance(value, list):
        rows: list[ArgumentRow] = value
        return tuple(map(_kept_row, rows))
    return value


def _kept_row(row: ArgumentRow) -> ArgumentRow:
    try:
        return frozen_map(row)
    except TypeError:  # what is no mapping is told with its path
        return row


@frozen(kw_only=True)
class ActionOption:
    """An action in a configuration."""

    name: str
    arguments: Mapping[str, ArgumentValue] = field(default=EMPTY, converter=_arguments)


@frozen(kw_only=True)
class PluginOption:
    """A plugin in a configuration."""

    name: str
    flags: Mapping[str, bool] = field(default=EMPTY, converter=AsMap[str, bool])
    """Whether extension points are enabled, by flag, as ``enableJobOrder``; default: all are."""
    arguments: Mapping[str, ArgumentValue] = field(default=EMPTY, converter=_arguments)


@frozen(kw_only=True)
class Tier:
    """Plugins that are asked together; the answers of tiers are combined in order."""

    plugins: tuple[PluginOption, ...] = field(default=(), converter=AsTuple[PluginOption])


def _tier(*plugins: str | PluginOption) -> Tier:
    return Tier(
        plugins=[PluginOption(name=one) if isinstance(one, str) else one for one in plugins]
    )


DEFAULT_ACTIONS: tuple[ActionOption, ...] = (
    ActionOption(name="allocate"),
    ActionOption(name="backfill"),
)
"""The actions of a configuration that names none."""

DEFAULT_TIERS: tuple[Tier, ...] = (
    _tier(
        "priority",
        PluginOption(name="gang", arguments={"atMinimum": "whole-job"}),
        "conformance",
        "protection",
    ),
    _tier(
        PluginOption(name="drf", flags={"enablePreemptable": False}),
        "predicates",
        "devices",
        "topology",
        "capacity",
        "nodeorder",
    ),
)
"""The tiers of a configuration that names none.

They are those of kube-batch with four exceptions. protection, devices and topology do what jobs
and queues ask for; where none does, they cost nothing. With gang's default for `atMinimum`, a job
of one task could never be evicted. capacity replaces proportion: it also lends unused resources and
supports trees of queues. drf's preemptable is disabled: it would let preempt evict tasks within
their queue's share, and preempt and reclaim might then evict in an endless cycle.

With these tiers actions have further arguments by default: `WITH_DEFAULT_TIERS`.
"""

WITH_DEFAULT_TIERS: Mapping[str, Mapping[str, ArgumentValue]] = FrozenMap(
    {
        "allocate": FrozenMap({"curable": True, "retry": "largest-first"}),
        "preempt": FrozenMap({"curable": True, "retry": "largest-first", "unblock": True}),
        "reclaim": FrozenMap({"curable": True, "retry": "largest-first"}),
    }
)
"""The arguments that actions have by default where the tiers are the default."""


def with_default_tiers(action: ActionOption) -> ActionOption:
    """Return an action with the arguments that it has by default with the default tiers."""
    usual = dict(WITH_DEFAULT_TIERS.get(action.name, {}))
    if action.arguments.get("unready") == "hold":
        usual.pop("retry", None)  # a turn that is not rolled back is not tried again
    if action.name == "allocate" and "evictBackfill" not in action.arguments:
        usual.pop("curable", None)  # only who evicts can cure
    return evolve(action, arguments={**usual, **action.arguments})


_NO_POINT = "has no effect: there is no such extension point"

_FLAGS: Mapping[str, str] = {
    "enableHierarchy": "has no effect: shares are not divided along a hierarchy by this flag",
    "enableNamespaceOrder": _NO_POINT,
    "enableBestNode": _NO_POINT,
    "enableJobEnqueued": "has no effect: every job is considered in every cycle",
    "enableJobStarving": "has no effect: every job with pending tasks may preempt",
    "enablePreemptive": _NO_POINT,
    "enableTargetJob": _NO_POINT,
    "enableReservedNodes": _NO_POINT,
    "enabledVictim": _NO_POINT,
    "enabledOverused": "has no effect: the plugin says which queues are overused",
    "enabledAllocatable": "has no effect: the plugin says what queues may take",
    "enableClusterOrder": _NO_POINT,
    "enableHyperNodeOrder": "has no effect: network topology is not considered",
    "enableHyperNodeGradient": "has no effect: network topology is not considered",
    "enableSubJobReady": "has no effect: a job is one gang",
    "enableSubJobPipelined": "has no effect: a job is one gang",
    "enableSubJobOrder": "has no effect: a job is one gang",
}

_ACTIONS: Mapping[str, str] = {
    "enqueue": "does not run: every job is considered in every cycle, none is held back",
    "elect": "does not run: no job is chosen to have nodes reserved for it",
    "shuffle": "does not run: running tasks are not moved to other nodes",
    "gangpreempt": "does not run: preempt evicts whole gangs if gang has atMinimum: whole-job",
    "gangreclaim": "does not run: reclaim evicts whole gangs if gang has atMinimum: whole-job",
    "consolidation": "does not run: running tasks are not moved to other nodes",
    "stalegangeviction": "does not run: gangs are not evicted for having lost tasks",
}

_NO_LOAD = (
    "left out: the measured load of nodes is not considered; "
    "the plugin usage here is about the past use of queues"
)
_PLUGINS: Mapping[str, str] = {
    "binpack": "left out: nodes are not packed; mostrequested.weight of nodeorder is similar",
    "capacity": "left out: queues have no deserved amounts and no limits",
    "cdp": "left out: tasks may be evicted right after they started",
    "deviceshare": "left out: devices are not shared, and all are alike",
    "dynamicresources": "left out: claims of devices do not count",
    "elastic": "left out: gang and priority order jobs",
    "extender": "left out: no webhooks are called",
    "gpupack": "left out: nodes are not packed; mostrequested.weight of nodeorder is similar",
    "gpusharingorder": "left out: devices are not shared",
    "gpuspread": "left out: tasks are not spread; leastrequested.weight of nodeorder is similar",
    "kubeflow": "left out: roles do not order tasks",
    "minruntime": "left out: minRuntime of the actions preempt and reclaim is similar",
    "network-topology-aware": "left out: the plugin topology is similar",
    "nodeavailability": "left out: nodes where a task can start now are always preferred",
    "nodegroup": "left out: queues may use all nodes",
    "nodeplacement": "left out: nodes are not packed; the weights of nodeorder are similar",
    "nominatednode": "left out: nominated nodes are not preferred",
    "numa": "left out: nodes are not split by NUMA zone",
    "numaaware": "left out: nodes are not split by NUMA zone",
    "overcommit": "left out: nothing limits how many jobs are considered",
    "pdb": "left out: disruption budgets do not protect tasks from eviction",
    "podaffinity": "left out: predicates and nodeorder consider inter-pod affinity",
    "ray": "left out: roles do not order tasks",
    "reflectjoborder": "left out: nothing is offered for inspection",
    "rescheduling": "left out: running tasks are not moved to other nodes",
    "resource-strategy-fit": "left out: nodes are not packed by resource",
    "resourcequota": "left out: quotas of namespaces are not considered",
    "resourcetype": "left out: tasks without devices are not kept off nodes with devices",
    "sla": "left out: jobs do not gain priority by waiting",
    "snapshot": "left out: nothing is offered for inspection",
    "subgrouporder": "left out: groups of a job are not ordered",
    "task-topology": "left out: tasks are not placed near one another by role",
    "taskorder": "left out: priority orders the tasks of a job",
    "tdm": "left out: all nodes count as permanent",
}

_ARGUMENTS: Mapping[str, str] = {
    "tainttoleration.weight": "left out: taints with the effect PreferNoSchedule do not count",
    "imagelocality.weight": "left out: the images on a node do not count",
    "podtopologyspread.weight": "left out: tasks are not spread over topology domains",
    "selectorspread.weight": "left out: tasks of one service are not spread",
    "predicate.NodeAffinityEnable": "left out: node affinity always counts",
    "predicate.NodePortsEnable": "left out: host ports always count",
    "predicate.TaintTolerationEnable": "left out: taints always count",
    "predicate.PodAffinityEnable": "left out: inter-pod affinity always counts",
    "predicate.NodeVolumeLimitsEnable": "left out: volumes do not count",
    "predicate.VolumeZoneEnable": "left out: volumes do not count",
    "predicate.VolumeBindingEnable": "left out: volumes do not count",
    "predicate.PodTopologySpreadEnable": "left out: tasks are not spread over topology domains",
    "predicate.CacheEnable": "left out: results are always cached, without effect on decisions",
    "predicate.ProportionalEnable": "left out: cpu and memory are not kept free for devices",
    "predicate.GPUSharingEnable": "left out: devices are not shared",
    "predicate.GPUNumberEnable": "left out: devices count as extended resources",
    "enablePredicateErrorCache": "left out: results are always cached",
    "kValue": "left out: argument k of the plugin usage is similar",
    "relcaimerSaturationMultiplier": "left out: shares alone say what may be reclaimed",
    "thresholds": _NO_LOAD,
    "usage.weight": _NO_LOAD,
}

_KEYS: Mapping[str, str] = {
    "metrics": "left out: the measured load of nodes is not considered",
    "queueDepthPerAction": "left out: every action tries all jobs of a queue",
    "scenarioSearchBudgets": "left out: evictions are searched for without a budget",
    "usageDBConfig": "left out: queues carry their past use, which the plugin usage reads",
}


_ELSEWHERE: Mapping[NoticeCode, Mapping[str, str]] = {
    NoticeCode.UNKNOWN_FLAG: _FLAGS,
    NoticeCode.UNKNOWN_ACTION: _ACTIONS,
    NoticeCode.UNKNOWN_PLUGIN: _PLUGINS,
    NoticeCode.UNKNOWN_ARGUMENT: _ARGUMENTS,
    NoticeCode.UNKNOWN_KEY: _KEYS,
}
"""What Volcano or KAI Scheduler has, with the consequence of ignoring it here."""


def of_unknown(code: NoticeCode, name: str, known: Collection[str]) -> tuple[NoticeCode, str]:
    """Return the code of something unknown that is ignored, and the consequence.

    Args:
        code: the code that it has if no other scheduler has it either.
        name: its name.
        known: the names that are known here.

    """
    consequence = _ELSEWHERE[code].get(name)
    if consequence is not None:
        return NoticeCode.NOT_MODELLED, consequence
    hint = did_you_mean(name, known)
    return code, f"left out; {hint}" if hint else "left out"


Placed = tuple[What, str, object]
"""An action or a plugin with its path; all that is not an option yet is told as a fault."""


def placed_parts(actions: object, tiers: object, faults: list[Fault]) -> Iterator[Placed]:
    """Yield the actions and plugins of a `SchedulerConfig`, with their paths within it.

    Args:
        actions: expected to be a tuple of `ActionOption`.
        tiers: expected to be a tuple of `Tier`.
        faults: gets what is neither.

    """

    def each(path: str, items: object, kind: str) -> Iterator[tuple[str, object]]:
        faults.extend(Fault(*problem) for problem in tuple_problems(path, items, kind))
        for position, item in enumerate(items if is_tuple(items) else ()):
            yield f"{path}[{position}]", item

    for path, action in each("actions", actions, "ActionOption"):
        yield "action", path, action
    for path, tier in each("tiers", tiers, "Tier"):
        if isinstance(tier, Tier):
            for below, plugin in each(f"{path}.plugins", tier.plugins, "PluginOption"):
                yield "plugin", below, plugin
        else:
            faults.append(Fault(path, _not_a(tier, "Tier(plugins=[...])")))


def checked(actions: object, tiers: object, registry: object, *, names_too: bool) -> ConfigCheck:
    """Create all actions and plugins of a configuration; return them, and all faults.

    Args:
        actions: expected to be a tuple of `ActionOption`.
        tiers: expected to be a tuple of `Tier`.
        registry: expected to be a `Registry`; it defines which names are known.
        names_too: whether a name that is not in the registry is a fault.

    """
    check = ConfigCheck(registry, names_too=names_too, has_default_tiers=tiers == DEFAULT_TIERS)
    check.parts(placed_parts(actions, tiers, check.faults))
    return check


def unknown_key(key: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return the message for an unknown key."""
    hint = did_you_mean(key, known)
    return f"unknown key; {hint and hint + ' '}known: {', '.join(known)}"


def unknown_flag(flag: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return the message for an unknown flag of a plugin."""
    if flag in _FLAGS:
        return (
            "this flag of Volcano is not supported; remove it, "
            'or read the configuration with unknown="notice"'
        )
    return unknown_key(flag, known)


def _not_a(value: object, wanted: str) -> str:
    return f"expected {wanted}, got {shown(value)}; or use SchedulerConfig.from_mapping"


class ConfigCheck:
    """Checks the parts of a configuration one by one; makes actions and plugins of them."""

    def __init__(self, registry: object, *, names_too: bool, has_default_tiers: bool) -> None:
        self._has_default_tiers = has_default_tiers
        self.faults: list[Fault] = []
        self.actions: list[Action] = []
        """In order; complete if there are no faults."""
        self.plugins: list[Plugin] = []
        """In order, tier by tier; complete if there are no faults."""
        if is_of(registry, Registry):
            self._registry, self._names_too = registry, names_too
        else:
            message = (
                f"expected a Registry, got {shown(registry)}; leave it out, or extend "
                "default_registry()"
            )
            self.refuse("registry", message)
            # Faults that do not depend on the registry can still be reported.
            self._registry, self._names_too = default_registry(), False
        self._first: dict[str, str] = {}
        """The path at which each plugin is first named."""

    def refuse(self, path: str, message: str) -> None:
        """Record a fault."""
        self.faults.append(Fault(path, message))

    def parts(self, placed: Iterable[Placed]) -> None:
        """Check actions and plugins, and make them; no two plugins may exclude each other."""
        for what, path, option in placed:
            self._option(path, what, option)
        if "capacity" in self._first and "proportion" in self._first:
            path, other = self._first["capacity"], self._first["proportion"]
            message = f"replaces 'proportion', which is configured at {other}; remove one of them"
            self.refuse(path, f"plugin 'capacity' {message}")

    def _option(self, path: str, what: What, option: object) -> None:
        kind = ActionOption if what == "action" else PluginOption
        if not isinstance(option, kind):
            self.refuse(path, _not_a(option, f"{kind.__name__}(name=...)"))
            return
        name: object = option.name
        if not is_text(name):
            self.refuse(f"{path}.name", f"expected a name (a string), got {shown(name)}")
        elif what == "plugin":
            if name in self._first:
                self.refuse(path, f"plugin {name!r} is already configured at {self._first[name]}")
            self._first.setdefault(name, path)
        if isinstance(option, PluginOption):
            self._flags(path, option.flags)
        factory = factory_of(what, name, self._registry) if is_text(name) else None
        if is_text(name) and factory is None and self._names_too:
            self.refuse(path, unknown_name(what, name, self._registry))
        self._arguments(path, what, option, factory)

    def _flags(self, path: str, flags: object) -> None:
        if not is_mapping(flags):
            self.refuse(f"{path}.flags", f"expected a mapping such as a dict, got {shown(flags)}")
            return
        for flag, is_on in flags.items():
            if not is_text(flag):
                self.refuse(f"{path}.flags[{shown(flag)}]", "expected a string as a flag")
            elif flag not in ENABLE_FLAGS:
                self.refuse(f"{path}.{flag}", unknown_flag(flag, ENABLE_FLAGS))
            elif not isinstance(is_on, bool):
                self.refuse(f"{path}.{flag}", f"expected true or false, got {shown(is_on)}")

    def _arguments(
        self,
        path: str,
        what: What,
        option: ActionOption | PluginOption,
        factory: Callable[[Arguments], object] | None,
    ) -> None:
        below = f"{path}.arguments"
        given = option.arguments
        if not is_mapping(option.arguments):
            self.refuse(below, f"expected a mapping such as a dict, got {shown(given)}")
            return
        if factory is None:
            return
        arguments = Arguments(given, below, has_default_tiers=self._has_default_tiers)
        named = f"{what} {option.name!r}"
        try:
            made = factory(arguments)
        except Exception as error:
            self.refuse(path, f"{named} cannot be created from its arguments: {problem_of(error)}")
            return
        if what == "action" and isinstance(made, Action):
            self.actions.append(made)
        elif what == "plugin" and isinstance(made, Plugin):
            self.plugins.append(made)
        else:
            method = "execute" if what == "action" else "open"
            message = f"expected its factory to return an object with a method {method!r}"
            self.refuse(path, f"{named}: {message}, got {shown(made)}")
        self.faults += arguments.faults()
