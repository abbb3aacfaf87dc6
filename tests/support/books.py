"""Sessions to look into: opened with plugins of one's own, and dumped as plain data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from batchsched import (
    ActionOption,
    Arguments,
    CycleResult,
    PluginOption,
    Registry,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    TaskStatus,
    Tier,
    default_registry,
)
from batchsched.causes import UnfitReason
from batchsched.placement.indexed import IndexedPlacement
from batchsched.plugin import JobState, NodeState, Plugin, TaskState
from batchsched.session.cycle import open_session
from batchsched.session.points import ConfiguredPlugin
from batchsched.session.policy_state import PlacementFactory, PolicyState
from batchsched.state.ledger import Ledger
from batchsched.state.pod_affinity import AffinityProfile
from tests.support.hints import HINTS, hints_of

NODE_ACCOUNTS = (
    *("idle", "releasing", "pipelined", "backfilled", "leaving", "conditional", "reserved"),
    *("divergence_count", "ports", "scoring_milli_cpu", "scoring_memory"),
)
DERIVED_ACCOUNTS = ("future_idle", "accessible", "eventual")
JOB_ACCOUNTS = ("counts", "counted", "backfilling")


class Opens:
    """A plugin that gives the object that it was made with, or what a function makes of a view."""

    def __init__(self, given: object) -> None:
        self.given = given

    def open(self, view: object, /) -> object:
        return self.given(view) if callable(self.given) else self.given


class Saying:
    """An object with the extension points that it is given, by method name."""

    def __init__(self, **points: Callable[..., object]) -> None:
        self.__dict__.update(points)
        if points.keys() & set(HINTS):
            self.hints = lambda: hints_of(self)


Named = str | tuple[str, object]
"""The name of a plugin that comes with batchsched, or a name and an object of one's own."""


def configured(*tiers: Sequence[Named], disabled: Iterable[str] = ()) -> list[ConfiguredPlugin]:
    registry = default_registry()
    plugins: list[ConfiguredPlugin] = []
    for position, tier in enumerate(tiers):
        for named in tier:
            if isinstance(named, str):
                factory = registry.plugin_factory(named)
                assert factory is not None
                name, plugin = named, factory(Arguments({}))
            elif isinstance(named[1], Mapping):
                factory = registry.plugin_factory(named[0])
                assert factory is not None
                name, plugin = named[0], factory(Arguments(named[1]))
            else:
                name, plugin = named[0], Opens(named[1])
            plugins.append(ConfiguredPlugin(name, position, plugin, frozenset(disabled)))
    return plugins


def scheduler_of(
    *tiers: Sequence[Named], plain: bool | Collection[str] = False, **options: Any
) -> Scheduler:
    """A scheduler with these plugins, in these tiers."""
    built_in = default_registry()
    registry = Registry()
    registry.register_action("allocate", lambda _arguments: _Nothing())
    given: list[Tier] = []
    for tier in tiers:
        plugins: list[PluginOption] = []
        for named in tier:
            name, of = (named, {}) if isinstance(named, str) else named
            known = built_in.plugin_factory(name)
            if isinstance(of, Mapping):
                assert known is not None
                registry.register_plugin(name, known)
                plugins.append(PluginOption(name=name, arguments=of))
            else:
                registry.register_plugin(name, lambda _arguments, of=of: Opens(of))
                plugins.append(PluginOption(name=name))
        given.append(Tier(plugins=plugins))
    config = SchedulerConfig(actions=[ActionOption(name="allocate")], tiers=given)
    return Scheduler(config, registry, plain=plain, **options)


class _Nothing:
    """An action that does nothing."""

    def execute(self, session: Session, /) -> None:
        pass


def factory_of(name: str) -> Callable[[Arguments], Plugin]:
    """What makes a plugin that comes with batchsched."""
    factory = default_registry().plugin_factory(name)
    assert factory is not None
    return factory


def built_in(name: str) -> Any:
    """A plugin that comes with batchsched, as it is without arguments."""
    return factory_of(name)(Arguments({}))


def opened(
    snapshot: Snapshot, *tiers: Sequence[Named], plain: bool | Collection[str] = False, **how: Any
) -> Session:
    """A session with these plugins, in these tiers, in which no action has run yet."""
    return scheduler_of(*tiers, plain=plain, **how).open(snapshot)


def closed(session: Session) -> CycleResult:
    """What a cycle ends with in which nothing more is done."""
    return scheduler_of().run(session)


def session_of(
    snapshot: Snapshot,
    plugins: Sequence[ConfiguredPlugin],
    placement: PlacementFactory = IndexedPlacement,
) -> Session:
    """A session with these plugins, on an engine of one's own."""
    return open_session(PolicyState(Ledger(snapshot), plugins, placement))


def plugin_object(session: Session, name: str) -> Any:
    """What a plugin opened for this session."""
    return next(o.object for o in session.plugins.opened if o.name == name)


def standing(task: TaskState) -> tuple[str, str | None, bool]:
    return task.status.value, None if task.node is None else task.node.name, task.is_backfill


def node_dump(node: NodeState) -> dict[str, object]:
    accounts = {name: getattr(node, name) for name in (*NODE_ACCOUNTS, *DERIVED_ACCOUNTS)}
    return {
        **accounts,
        "tasks": sorted(node.tasks),
        "reserved_tasks": sorted(node.reserved_tasks),
        "is_closed": node.is_closed,
    }


def job_dump(job: JobState) -> dict[str, object]:
    return {
        **{name: _copied(getattr(job, name)) for name in JOB_ACCOUNTS},
        "allocated": sorted(job.allocated or ()),
        "has_bind": job.has_bind,
    }


def affinity_refusal(profile: AffinityProfile, labels: Mapping[str, str]) -> UnfitReason | None:
    """Return why a node with these labels cannot accept tasks of a profile now, or None."""
    return (
        profile.repelling_there(labels) or profile.too_far(labels) or profile.repelled_there(labels)
    )


def _copied(value: object) -> object:
    return list(value) if isinstance(value, list) else value


def dump(session: Session) -> dict[str, object]:
    """Everything that decisions can depend on: books, orders, shares, counts, decisions."""
    ledger = session.ledger
    tiers = session.plugins
    affinity = session.state.view.pod_affinity
    shares = {
        opened_plugin.name: {
            name: opened_plugin.object.queue_share(queue) for name, queue in ledger.queues.items()
        }
        for opened_plugin in tiers.opened
        if hasattr(opened_plugin.object, "queue_share")
    }
    return {
        "tasks": {uid: standing(task) for uid, task in ledger.tasks.items()},
        "nodes": {node.name: node_dump(node) for node in ledger.nodes},
        "jobs": {uid: job_dump(job) for uid, job in ledger.jobs.items()},
        "job keys": {uid: tiers.job_order_key(job) for uid, job in ledger.jobs.items()},
        "queue keys": {name: tiers.queue_order_key(queue) for name, queue in ledger.queues.items()},
        "overused": {name: tiers.overused(queue) for name, queue in ledger.queues.items()},
        "ready": {
            uid: (tiers.job_ready(job), tiers.job_pipelined(job), tiers.job_condition_ready(job))
            for uid, job in ledger.jobs.items()
        },
        "shares": shares,
        "affinity": {
            (uid, node.name): (affinity_refusal(profile, labels), profile.raw_score(labels))
            for uid, task in ledger.tasks.items()
            for profile in (affinity.profile(task),)
            for node in ledger.nodes
            for labels in (node.info.labels,)
        }
        if affinity.is_active
        else {},
        "decisions": (list(session.binds), list(session.evictions)),
    }


CHARGED = (
    *(TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING),
    *(TaskStatus.PIPELINED, TaskStatus.CONDITIONAL),
)


def task_of(session: Session, uid: str) -> TaskState:
    return session.task(uid)
