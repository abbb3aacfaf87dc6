"""Sessions to look into: opened with plugins of one's own, and dumped as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from batchsched import Arguments, Session, Snapshot, TaskStatus, default_registry
from batchsched.placement.indexed import IndexedPlacement
from batchsched.plugin import JobState, NodeState, TaskState
from batchsched.session.plugins import HINTS, ConfiguredPlugin
from batchsched.session.session import PlacementFactory, PolicyState
from batchsched.state.doors import Door
from batchsched.state.ledger import Ledger
from tests.support.hints import hints_of

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


def opened(
    snapshot: Snapshot,
    *tiers: Sequence[Named],
    placement: PlacementFactory = IndexedPlacement,
    plain: frozenset[Door] = frozenset(),
) -> Session:
    """A session with these plugins, in these tiers, in which no action has run yet."""
    return session_of(snapshot, configured(*tiers), placement, plain)


def session_of(
    snapshot: Snapshot,
    plugins: Sequence[ConfiguredPlugin],
    placement: PlacementFactory,
    plain: frozenset[Door] = frozenset(),
) -> Session:
    """A session with these plugins in which no action has run yet."""
    return Session(PolicyState(Ledger(snapshot), plugins, placement, plain=plain))


def plugin_object(session: Session, name: str) -> Any:
    """What a plugin opened for this session."""
    return next(o.object for o in session.plugin_set.opened.all if o.name == name)


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
        "allocated": sorted(job.allocated),
        "has_bind": job.has_bind,
    }


def _copied(value: object) -> object:
    return list(value) if isinstance(value, list) else value


def dump(session: Session) -> dict[str, object]:
    """Everything that decisions can depend on: books, orders, shares, counts, decisions."""
    ledger = session.ledger
    tiers = session.plugin_set
    affinity = session.view.pod_affinity
    shares: dict[str, object] = {}
    for opened_plugin in tiers.opened.all:
        plugin: Any = opened_plugin.object
        if opened_plugin.name == "drf":
            shares["drf"] = (
                {uid: plugin._of(job) for uid, job in ledger.jobs.items()},
                {uid: plugin.job_order_key(job) for uid, job in ledger.jobs.items()},
            )
        elif opened_plugin.name == "proportion":
            shares["proportion"] = {
                name: (
                    account.allocated,
                    account.deserved,
                    plugin.queue_order_key(ledger.queues[name]),
                )
                for name, account in plugin._accounts.items()
            }
    return {
        "tasks": {uid: standing(task) for uid, task in ledger.tasks.items()},
        "nodes": {node.name: node_dump(node) for node in ledger.nodes},
        "jobs": {uid: job_dump(job) for uid, job in ledger.jobs.items()},
        "job keys": {uid: tiers.job_key(job) for uid, job in ledger.jobs.items()},
        "queue keys": {name: tiers.queue_key(queue) for name, queue in ledger.queues.items()},
        "overused": {name: tiers.overused(queue) for name, queue in ledger.queues.items()},
        "ready": {
            uid: (tiers.job_ready(job), tiers.job_pipelined(job), tiers.job_condition_ready(job))
            for uid, job in ledger.jobs.items()
        },
        "shares": shares,
        "affinity": [
            dict(count.counts)
            for counts in (affinity._meant, affinity._carried)
            for count in counts.values()
        ]
        if affinity.is_active
        else [],
        "decisions": (list(session.binds), list(session.evictions)),
    }


CHARGED = (
    *(TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING),
    *(TaskStatus.PIPELINED, TaskStatus.CONDITIONAL),
)


def task_of(session: Session, uid: str) -> TaskState:
    return session.task(uid)
