"""A session with the plugin under test, for questions and changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from enum import Enum
from functools import partial
from typing import NoReturn, cast

from attrs import define, frozen

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.registry import PluginFactory, Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import TaskStatus
from batchsched.model.snapshot import Snapshot
from batchsched.plugin.arguments import Arguments, ArgumentValue
from batchsched.plugin.extension_points import Plugin
from batchsched.plugin.node_functions import EvictionHints, NodeScore, Predicate, Reads, per_task
from batchsched.plugin.session_view import SessionView
from batchsched.scheduler import Scheduler
from batchsched.session.points import OpenedPlugin
from batchsched.session.policy_state import PlacementFactory
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.state.records import Fit, JobState, NodeState, TaskState
from batchsched.state.vectors import fits, plus
from batchsched.tools.code import as_code


@define(eq=False, repr=False)
class LawViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A plugin that violates the contract of its extension points.

    The message names the plugin, the extension point, the law, and what was observed. Hypothesis
    adds the smallest example; `as_code` returns it as code to paste into a test.
    """

    plugin: str
    extension_point: str
    law: str
    """The law that was broken."""
    seen: str
    """What was observed."""
    snapshot: Snapshot
    """The snapshot that shows it."""
    other: Snapshot | None = None
    """The snapshot of a cycle in between, if one was needed."""
    check: str = "check_plugin"
    """The function that found it."""

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}, {self.extension_point}: {self.law}\n  but {self.seen}"

    def __reduce__(self) -> tuple[type[LawViolation], tuple[object, ...]]:
        fields = self.plugin, self.extension_point, self.law, self.seen
        return type(self), (*fields, self.snapshot, self.other, self.check)

    def as_code(self) -> str:
        """Return code that checks the plugin again, on this snapshot only.

        The caller must fill in the plugin.
        """
        examples = "st.just(snapshot)"
        lines = [
            "from hypothesis import strategies as st",
            "",
            f"# {self.plugin!r} broke a law of {self.extension_point}:",
            f"# {self.law}",
            f"snapshot = {as_code(self.snapshot)}",
        ]
        if self.other is not None:
            examples = "st.sampled_from([snapshot, other])"
            lines += ["# A cycle on this one came between.", f"other = {as_code(self.other)}"]
        lines += [
            f"plugin = ...  # fill in the argument of {self.check}, newly created",
            f"# Add the arguments and config that {self.check} was given, if any.",
            f"{self.check}(plugin, name={self.plugin!r}, examples={examples})",
        ]
        return "\n".join([*lines, ""])


_DEFAULTS = SchedulerConfig().tiers
_ACTIONS = ("allocate", "preempt", "reclaim", "backfill")


@frozen
class _Changing:
    """A plugin of which what it opens is changed."""

    plugin: Plugin
    change: Callable[[object], object]

    def open(self, view: SessionView, /) -> object:
        return self.change(self.plugin.open(view))


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
        self._made: Plugin | None = None
        # Report faults of the configuration at once.
        self.scheduler(fresh=False)

    def declared_labels(self) -> Mapping[str, Sequence[str]] | None:
        """Return the labels that the plugin declares that it reads, if it does."""
        labels: object = getattr(self._made, "reads_labels", None)
        return cast("Mapping[str, Sequence[str]] | None", labels)

    def open(self, snapshot: Snapshot, scheduler: Scheduler | None = None) -> LawTrial:
        """Open a session of a scheduler with the plugin."""
        session = (scheduler or self.scheduler(fresh=False)).open(snapshot)
        return LawTrial(self, snapshot, session)

    def scheduler(
        self,
        *,
        fresh: bool = True,
        plain: bool | Collection[str] = False,
        placement: PlacementFactory | None = None,
        change: Callable[[object], object] | None = None,
    ) -> Scheduler:
        """Return a scheduler with the plugin.

        Args:
            fresh: whether with a plugin that has not seen a cycle, if that is possible.
            plain: see `Scheduler`.
            placement: see `Scheduler`.
            change: returns what to use in the place of what the plugin opened.
        """
        make = self._make_fresh if fresh else self._make

        def made(given: Arguments) -> Plugin:
            self._made = plugin = make(given)
            return plugin if change is None else _Changing(plugin, change)

        registry = default_registry()
        registry.register_plugin(self.name, made)
        return Scheduler(self._config, registry, plain=plain, placement=placement)

    def do_without_copies(self) -> bool:
        """Stop copying the given plugin; return whether it was copied."""
        had = self._make_fresh is not self._make
        self._make_fresh = self._make
        return had


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


@frozen
class Declared:
    """What an extension point that is a function of a task and a node reads."""

    reads: Reads
    signature: Callable[[TaskState], Hashable]


class _NotAsked(Enum):
    NOT_ASKED = "not asked"


NOT_ASKED = _NotAsked.NOT_ASKED
"""In the place of an answer: a cycle would not have asked."""

NodeFunction = tuple[
    str, int, Predicate | NodeScore | Declared, Callable[[TaskState, NodeState], object]
]
"""An extension point, the position there, what is declared, and the function."""


@frozen(eq=False)
class LawTrial:
    """A session, and what the plugin under test opened for it."""

    subject: Subject
    snapshot: Snapshot
    session: Session

    @property
    def _opened(self) -> OpenedPlugin:
        opened = self.session.plugins.opened
        return next(each for each in opened if each.name == self.subject.name)

    @property
    def opened(self) -> object:
        """The object that the plugin opened."""
        return self._opened.object

    def function(self, point: str) -> Callable[..., object] | None:
        """Return the plugin's function at an extension point, if it has one."""
        return cast("Callable[..., object] | None", getattr(self.opened, point, None))

    @property
    def scores(self) -> list[NodeScore]:
        """The plugin's scores."""
        name = self.subject.name
        return [each for owner, each in self.session.plugins.node_scores if owner == name]

    @property
    def node_functions(self) -> list[NodeFunction]:
        """The plugin's functions of tasks and nodes, with their extension points."""
        name, given = self.subject.name, self.session.plugins.predicates
        predicates = [each for owner, each in given if owner == name]
        return [
            *(("predicates", n, each, each.check) for n, each in enumerate(predicates)),
            *(("node_scores", n, each, each.score) for n, each in enumerate(self.scores)),
            *self._signed("node_key", "node_key_signature", self.function("node_key")),
            *self._signed("choose", "choice_signature", self.choose_now),
        ]

    def _signed(
        self,
        point: str,
        signature: str,
        function: Callable[[TaskState, NodeState], object] | None,
    ) -> Iterator[NodeFunction]:
        sign = self.function(signature)
        if function is not None:
            reads = Reads.CLUSTER if sign is None else Reads.NODE
            yield point, 0, Declared(reads, sign or per_task), function

    @property
    def choose_now(self) -> Callable[[TaskState, NodeState], object] | None:
        """What the plugin chooses now; `NOT_ASKED` where the task does not fit otherwise."""
        choose, sign = self.function("choose"), self.function("choice_signature")
        if choose is None:
            return None
        return lambda task, node: (
            NOT_ASKED
            if not node.fits(task) or (sign is not None and sign(task) is None)
            else choose(task, node, Fit.NOW)
        )

    @property
    def hints(self) -> EvictionHints:
        """The plugin's hints on verdicts."""
        return self._opened.hints

    @property
    def tasks(self) -> list[TaskState]:
        """All tasks of jobs of the session, in order of UID."""
        return [task for job in self.session.jobs.values() for task in job.tasks]

    @property
    def pending(self) -> list[TaskState]:
        """All Pending tasks of jobs of the session."""
        return [t for t in self.tasks if t.status is TaskStatus.PENDING and not t.is_held]

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


@frozen
class Move:
    """A drawn change of the session: its kind, and the choice among the possible ones."""

    kind: int
    which: int


_Moved = tuple[TaskState, NodeState] | None


def move(trial: LawTrial, statement: Statement, drawn: Move) -> _Moved:
    """Make a drawn change if possible; return the task that moved and its node."""
    kind = _MOVES[drawn.kind % KINDS]
    if kind is None:
        return _evict(trial, statement, drawn.which)
    can_go, place = kind
    choices = [
        (task, node)
        for task in trial.pending
        for node in trial.session.nodes
        if can_go(trial, task, node) and trial.session.placement.refusal(task, node) is None
    ]
    if not choices:
        return None
    chosen = choices[drawn.which % len(choices)]
    place(statement, *chosen)
    return chosen


def _evict(trial: LawTrial, statement: Statement, which: int) -> _Moved:
    running = [
        task for task in trial.tasks if task.status is TaskStatus.RUNNING and task.node is not None
    ]
    waiting = trial.pending
    if not running or not waiting:
        return None
    task = running[which % len(running)]
    left = task.node
    assert left is not None
    statement.evict(task, claimant=waiting[0])
    return task, left


def _fits(fit: Fit, trial: LawTrial, task: TaskState, node: NodeState) -> bool:
    return trial.session.fits(task, node, fit)


def _fits_beside_reservations(trial: LawTrial, task: TaskState, node: NodeState) -> bool:
    return fits(plus(node.reserved, task.init_resreq), trial.session.state.node_room.for_jobs(node))


_Kind = tuple[
    Callable[[LawTrial, TaskState, NodeState], bool],
    Callable[[Statement, TaskState, NodeState], None],
]

# The simplest first: shrinking ends there.
_MOVES: Sequence[_Kind | None] = (
    (partial(_fits, Fit.NOW), Statement.allocate),
    # a rollback removes the mark
    (partial(_fits, Fit.NOW), partial(Statement.allocate, is_backfill=True)),
    None,  # an eviction
    (partial(_fits, Fit.LATER), Statement.pipeline),
    # Whether or not backfill tasks are in the way, plugins receive the event.
    (partial(_fits, Fit.CONDITIONALLY), Statement.promise),
    (_fits_beside_reservations, Statement.reserve),
)
KINDS = len(_MOVES)
"""The number of kinds of moves."""
