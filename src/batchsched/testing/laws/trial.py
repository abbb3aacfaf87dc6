"""A session with the plugin under test, for questions and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import NoReturn, cast

from attrs import evolve, frozen

from batchsched.config.registry import PluginFactory, Registry, default_registry
from batchsched.config.scheduler_config import ActionOption, PluginOption, SchedulerConfig, Tier
from batchsched.model.cluster import TaskStatus
from batchsched.model.snapshot import Snapshot
from batchsched.plugin.arguments import Arguments, ArgumentValue
from batchsched.plugin.extension_points import Plugin
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.node_functions import NodeScore, Predicate
from batchsched.plugin.session_view import SessionView
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.state.records import JobState, TaskState
from batchsched.testing.laws.violation import LawViolation

__all__ = ["Subject", "Trial", "owner"]

_DEFAULTS = SchedulerConfig().tiers
_ACTIONS = ("allocate", "preempt", "reclaim", "backfill")


_LOOK = "look-at-the-plugin"


@frozen
class _Looks:
    """An action that only reads the session."""

    look: Callable[[Session], None]

    def execute(self, session: Session, /) -> None:
        self.look(session)


class _Spy:
    """Wraps the plugin under test, and keeps what it opened last."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.opened: object = None

    def open(self, view: SessionView, /) -> object:
        self.opened = self.plugin.open(view)
        return self.opened


class Subject:
    """A plugin under test, and its configuration.

    By default it has a tier of its own, before the plugins of the default configuration.

    Raises:
        ValueError: the configuration does not name the plugin.
    """

    def __init__(
        self,
        plugin: Plugin | PluginFactory | type[Plugin],
        name: str,
        arguments: Mapping[str, ArgumentValue],
        config: SchedulerConfig | None,
    ) -> None:
        self.name = name
        self._config = config or SchedulerConfig(
            actions=[ActionOption(name=action) for action in _ACTIONS],
            tiers=[Tier(plugins=[PluginOption(name=name, arguments=arguments)]), *_DEFAULTS],
        )
        _expect_named(self._config, name)
        if isinstance(plugin, Plugin) and not isinstance(plugin, type):
            self._make: PluginFactory = lambda _: plugin
            self._make_fresh = _copies_of(plugin) or self._make
        else:
            self._make = self._make_fresh = _as_registered(name, cast("PluginFactory", plugin))
        # Report faults of the configuration at once.
        _, self._spies = self._scheduler(self._make)

    def declared_labels(self) -> Mapping[str, Sequence[str]] | None:
        """Return the labels that the plugin declares that it reads, if it does."""
        plugin: object = self._spies[-1].plugin
        return cast("Mapping[str, Sequence[str]] | None", getattr(plugin, "reads_labels", None))

    def open(self, snapshot: Snapshot) -> Trial:
        """Open a session."""
        scheduler, spies = self._scheduler(self._make)
        session = scheduler.open(snapshot)
        return Trial(self, snapshot, session, spies[-1].opened)

    def fresh_scheduler(self, look: Callable[[Trial], None]) -> Scheduler:
        """Return a scheduler with a plugin that has not seen a cycle, if that is possible.

        Args:
            look: called in each cycle, before its actions.
        """
        scheduler, spies = self._scheduler(
            self._make_fresh,
            lambda session: look(Trial(self, session.ledger.snapshot, session, spies[-1].opened)),
        )
        return scheduler

    def warm_scheduler(self) -> Scheduler:
        """Return a scheduler with a fresh plugin that keeps its state from cycle to cycle."""
        return self._scheduler(self._make_fresh, warm=True)[0]

    def do_without_copies(self) -> bool:
        """Stop copying the given plugin; return whether it was copied."""
        had = self._make_fresh is not self._make
        self._make_fresh = self._make
        return had

    def _scheduler(
        self,
        make: PluginFactory,
        look: Callable[[Session], None] | None = None,
        *,
        warm: bool = False,
    ) -> tuple[Scheduler, list[_Spy]]:
        spies: list[_Spy] = []

        def spied(given: Arguments) -> Plugin:
            spies.append(_Spy(make(given)))
            return spies[-1]

        registry = default_registry()
        registry.register_plugin(self.name, spied)
        config = self._config
        if look is not None:
            action = _Looks(look)
            registry.register_action(_LOOK, lambda _: action)
            config = evolve(config, actions=[ActionOption(name=_LOOK), *config.actions])
        return Scheduler(config, registry, warm=warm), spies


def _expect_named(config: SchedulerConfig, name: str) -> None:
    named = [option.name for tier in config.tiers for option in tier.plugins]
    if name not in named:
        message = (
            f"expected the plugin {name!r} in a tier of the configuration, got "
            f"{', '.join(named) or 'none'}; add it, or pass its name there as name=..."
        )
        raise ValueError(message)


def _as_registered(name: str, factory: PluginFactory) -> PluginFactory:
    """Return the factory as a registry uses it, which also accepts classes."""
    registry = Registry()
    registry.register_plugin(name, factory)
    made = registry.plugin_factory(name)
    assert made is not None
    return made


def _copies_of(plugin: Plugin) -> PluginFactory | None:
    """Return a factory of copies of a plugin as it is now; None if it cannot be copied."""
    try:
        pristine = deepcopy(plugin)
        deepcopy(pristine)
    except Exception:
        return None
    return lambda _: deepcopy(pristine)


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
        return [each for owner, each in self.session.plugin_set.predicates if owner == name]

    @property
    def scores(self) -> list[NodeScore]:
        """The plugin's scores."""
        name = self.subject.name
        return [each for owner, each in self.session.plugin_set.node_scores if owner == name]

    @property
    def hints(self) -> EvictionHints:
        """The plugin's hints on verdicts."""
        name = self.subject.name
        return next(each.hints for each in self.session.plugin_set.opened.all if each.name == name)

    @property
    def tasks(self) -> list[TaskState]:
        """All tasks of jobs of the session, in order of UID."""
        return [task for job in self.session.jobs.values() for task in job.tasks]

    @property
    def pending(self) -> list[TaskState]:
        """All Pending tasks of jobs of the session."""
        return [task for task in self.tasks if task.status is TaskStatus.PENDING]

    def fail(
        self, extension_point: str, law: str, seen: str, *, other: Snapshot | None = None
    ) -> NoReturn:
        """Report a violation; `other` is a second snapshot that is needed to show it."""
        raise LawViolation(self.subject.name, extension_point, law, seen, self.snapshot, other)

    def books(self) -> object:
        """Return the content of the ledger, for comparison."""
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
