"""A session with the plugin under test in it, to be asked and moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, cast

from batchsched.arguments import Arguments, ArgumentValue
from batchsched.config import ActionOption, PluginOption, SchedulerConfig, Tier
from batchsched.defaults import default_registry
from batchsched.plugin import NodeScore, Plugin, Predicate
from batchsched.registry import PluginFactory
from batchsched.scheduler import Scheduler
from batchsched.session import Session
from batchsched.session_view import SessionView
from batchsched.snapshot import Snapshot
from batchsched.states import JobState, TaskState
from batchsched.status import TaskStatus
from batchsched.testing.laws.violation import LawViolation

__all__ = ["Subject", "Trial", "owner"]

_DEFAULTS = SchedulerConfig().tiers
_ACTIONS = ("allocate", "preempt", "reclaim", "backfill")


class _Spy:
    """The plugin under test, and what it opened last."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.opened: object = None

    def open(self, view: SessionView, /) -> object:
        self.opened = self.plugin.open(view)
        return self.opened


class Subject:
    """A plugin under test, and the scheduler that it is configured in.

    It stands in a tier of its own, before the plugins of the default configuration.
    """

    def __init__(
        self,
        plugin: Plugin | PluginFactory,
        name: str,
        arguments: Mapping[str, ArgumentValue],
        config: SchedulerConfig | None,
    ) -> None:
        self.name = name
        self._spy: _Spy | None = None

        def factory(given: Arguments) -> Plugin:
            made = plugin if isinstance(plugin, Plugin) and not isinstance(plugin, type) else None
            if made is None:
                made = cast("PluginFactory", plugin)(given)
            self._spy = _Spy(made)
            return self._spy

        registry = default_registry()
        registry.register_plugin(name, factory)
        option = PluginOption(name=name, arguments=arguments)
        self._registry = registry
        self._config = config or SchedulerConfig(
            actions=[ActionOption(name=action) for action in _ACTIONS],
            tiers=[Tier(plugins=[option]), *_DEFAULTS],
        )
        self.scheduler = self.new_scheduler()

    def new_scheduler(self) -> Scheduler:
        """Return a scheduler with a new plugin in it."""
        return Scheduler(self._config, self._registry)

    def open(self, snapshot: Snapshot) -> Trial:
        """Open a session."""
        scheduler = self.new_scheduler()
        session = scheduler.open(snapshot)
        assert self._spy is not None
        return Trial(self, snapshot, session, self._spy.opened)


class Trial:
    """A session, and the object that the plugin under test opened for it."""

    def __init__(
        self, subject: Subject, snapshot: Snapshot, session: Session, opened: object
    ) -> None:
        self.subject = subject
        self.snapshot = snapshot
        self.session = session
        self.opened = opened

    @property
    def predicates(self) -> list[Predicate]:
        """The plugin's predicates."""
        name = self.subject.name
        return [each for owner, each in self.session.tiers.predicates if owner == name]

    @property
    def scores(self) -> list[NodeScore]:
        """The plugin's scores."""
        name = self.subject.name
        return [each for owner, each in self.session.tiers.node_scores if owner == name]

    @property
    def tasks(self) -> list[TaskState]:
        """All tasks of jobs of the session, in order of UID."""
        return [task for job in self.session.jobs.values() for task in job.tasks]

    @property
    def pending(self) -> list[TaskState]:
        """All Pending tasks of jobs of the session."""
        return [task for task in self.tasks if task.status is TaskStatus.PENDING]

    def fail(self, extension_point: str, law: str, seen: str) -> NoReturn:
        """Report a violation."""
        raise LawViolation(self.subject.name, extension_point, law, seen, self.snapshot)

    def books(self) -> object:
        """Return all that the ledger has, to compare."""
        ledger = self.session.ledger
        return (
            [(task.uid, task.status, task.node, task.is_backfill) for task in self.tasks],
            [
                (
                    (node.idle, node.releasing, node.pipelined, node.conditional, node.reserved),
                    sorted(node.tasks),
                )
                for node in ledger.nodes
            ],
            [(job.uid, list(job.counts), job.min_available) for job in ledger.jobs.values()],
        )


def owner(task: TaskState) -> JobState:
    """Return the job of a task of the session."""
    assert task.job is not None
    return task.job
