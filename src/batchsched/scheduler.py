"""The scheduler: a checked configuration that is applied to snapshots."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, cast

from batchsched.actions.action import Action, EvictsToCure
from batchsched.config.options import (
    DEFAULT_ACTIONS,
    DEFAULT_TIERS,
    ENABLE_FLAGS,
    ActionOption,
    Tier,
    checked,
)
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import (
    ActionError,
    ArgumentError,
    BatchschedError,
    ConfigError,
    Fault,
    PluginError,
    SnapshotError,
    problem_of,
)
from batchsched.model.notice import Notice
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_of, is_text, items_in, shown, truth_problems
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.plain_loop import LinearScanPlacement
from batchsched.session.cycle import Unchanged, close, open_session
from batchsched.session.points import ConfiguredPlugin
from batchsched.session.policy_state import PlacementFactory, PolicyState, ignored_by
from batchsched.session.session import Session
from batchsched.state.ledger import Ledger
from batchsched.state.shortcuts import ALL_SHORTCUTS, Shortcut
from batchsched.trace import Teller, Trace

if TYPE_CHECKING:
    from batchsched.live.attached import AttachedScheduler, KeptState, WarmCycles
    from batchsched.live.cluster import Cluster
    from batchsched.transition.content import Content


class Scheduler:
    """Schedules snapshots with one configuration.

    The same snapshot always gives the same result.

    Args:
        config: which actions run and which plugins decide; None: the default.
        registry: the plugins and actions that the configuration may name; None: the built-in
            ones.
        placement: creates the engine that finds nodes; the choice does not affect decisions.
        trace: a function that is called during a cycle with each trace event: which queue and
            job was taken next and by which keys, the best node for a task with the scores of
            each plugin, each plugin's verdicts, and how each statement ended; see
            `batchsched.trace`. An exception that it raises ends the cycle. A
            scheduler without it has no overhead.
        warm: whether to keep the last snapshot and the state derived from it, so that the cost
            of a cycle depends on what has changed since: an object that is identical to the one
            in the last snapshot is not processed again. Decisions are the same. Ignored where
            `trace` is given.
        plain: whether to decide by the plain definitions alone, without any shortcut: nothing is
            remembered, estimated or kept up to date, and no declaration or hint of a plugin is
            relied on. Decisions, reasons and reports are the same, only slower; on a live cluster
            every cycle starts from scratch. Instead of True, the names of single optimisations
            (``turns``, ``attempts``, ``room``, ``loans``, ``engine``, ``cycles``, ``passes``)
            switch these off; with any of them, ``passes`` is off too. Not together with `warm` or
            `placement`.

    Raises:
        ConfigError: the configuration has names that are not in the registry, invalid arguments
            or parts of the wrong type, or another argument has the wrong type; all faults at
            once.

    >>> from batchsched import SchedulerConfig
    >>> Scheduler(SchedulerConfig.from_mapping({"tiers": [{"plugins": [{"name": "drff"}]}]}))
    Traceback (most recent call last):
    ...
    batchsched.errors.ConfigError: tiers[0].plugins[0]: plugin 'drff' is not registered; \
did you mean 'drf'? known: capacity, conformance, devices, drf, fcfs, gang, las, nodeorder, \
placement, predicates, priority, proportion, protection, sjf, sla, topology, usage

    """

    def __init__(
        self,
        config: SchedulerConfig | None = None,
        registry: Registry | None = None,
        *,
        placement: PlacementFactory | None = None,
        trace: Trace | None = None,
        warm: bool = False,
        plain: bool | Collection[str] = False,
    ) -> None:
        used = SchedulerConfig() if config is None else config
        known = default_registry() if registry is None else registry
        faults: list[Fault] = []
        options: tuple[ActionOption, ...] = ()
        tiers: tuple[Tier, ...] = ()
        if is_of(used, SchedulerConfig):
            options, tiers = used.actions, used.tiers
        else:
            message = (
                f"expected a SchedulerConfig, got {shown(config)}; use SchedulerConfig.from_mapping"
            )
            faults.append(Fault("config", message))
        made = checked(options, tiers, known, names_too=True)
        faults += made.faults
        shortcuts, problems = _shortcuts_of(plain)
        faults += problems
        if shortcuts:
            faults += [
                Fault("plain", f"expected no {other} with it: it would replace a plain definition")
                for other, given in (("placement", placement is not None), ("warm", bool(warm)))
                if given
            ]
        for name, given, what in (
            ("placement", placement, "that makes a placement engine"),
            ("trace", trace, "of one event"),
        ):
            if given is not None and not callable(given):
                faults.append(Fault(name, f"expected a function {what}, got {shown(given)}"))
        faults += [Fault(path, message) for path, message in truth_problems("warm", warm)]
        if faults:
            raise ConfigError(faults)
        self._config = used
        self._trace = trace
        self._plain = shortcuts
        self._placement: PlacementFactory = (
            (LinearScanPlacement if Shortcut.ENGINE in shortcuts else IndexedPlacement)
            if placement is None
            else placement
        )
        placed = [
            (position, option) for position, tier in enumerate(tiers) for option in tier.plugins
        ]
        self._plugins = [
            ConfiguredPlugin(
                name=option.name,
                tier=position,
                plugin=plugin,
                disabled=frozenset(
                    ENABLE_FLAGS[flag] for flag, on in option.flags.items() if not on
                ),
            )
            for (position, option), plugin in zip(placed, made.plugins, strict=True)
        ]
        # A trace shows every evaluation, so nothing may be taken from the last cycle.
        self._warm = self._warm_cycles() if warm and trace is None else None
        self._actions: list[tuple[str, Action]] = [
            (option.name, action) for option, action in zip(options, made.actions, strict=True)
        ]
        self._passes = (
            Shortcut.PASSES not in shortcuts
            and not (registry or placement or trace)
            and tiers == DEFAULT_TIERS
            and options == DEFAULT_ACTIONS
        )
        # A node may be promised to a task that it accepts only after other tasks have left. Until
        # then no task may be placed that would make the node reject the promised task again.
        self._promises_repel = any(
            isinstance(action, EvictsToCure) and action.evicts_to_cure for action in made.actions
        )

    @property
    def config(self) -> SchedulerConfig:
        """The configuration of the scheduler. To use another, create another scheduler."""
        return self._config

    def schedule(self, snapshot: Snapshot, /, *, reasons: bool = True) -> CycleResult:
        """Run one cycle and return its decisions. The snapshot is not changed.

        Args:
            snapshot: the state of the cluster.
            reasons: whether to determine why tasks are pending. If False, `CycleResult.pending`
                is empty, and conditions do not say why nodes were rejected.

        Raises:
            PluginError: a plugin raised an exception or returned an invalid value.
            ActionError: an action raised an exception.

        """
        if type(reasons) is not bool:
            raise ArgumentError([Fault(*each) for each in truth_problems("reasons", reasons)])
        if self._warm is None or not is_of(snapshot, Snapshot):
            return self.run(self._open(snapshot), reasons=reasons)
        return self._warm.schedule(snapshot, reasons=reasons)

    def schedule_traced(
        self, snapshot: Snapshot, trace: Trace, /, *, rivals_at: int | None = None
    ) -> CycleResult:
        """Run one cycle like `schedule`, and call a function with each trace event.

        Args:
            snapshot: the state of the cluster.
            trace: is called with each event.
            rivals_at: the position of the one event that also lists the alternatives (its
                ``rivals``); listing them takes time that grows with the cluster.

        """
        return self.run(self._open(snapshot, Teller(trace, rivals_at)))

    @checks_arguments()
    def ignores(self, snapshot: Snapshot, /) -> tuple[Notice, ...]:
        """Return what a snapshot asks for that no configured plugin does. O(snapshot).

        The notices of a cycle (`CycleResult.notices`) are the same. A plugin of your own that obeys
        such fields names them in its attribute ``obeys``: ``("TaskInfo.claims",)``.

        >>> from batchsched import JobInfo, SchedulerConfig
        >>> stays = Snapshot(jobs=[JobInfo(name="j", queue="q", preemptible=False)])
        >>> gang_alone = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["gang"]}]})
        >>> print(*Scheduler(gang_alone).ignores(stays))
        1 x JobInfo preemptible: ignored: plugin protection is not configured, so jobs may be \
evicted (default/j)
        """
        ignored = ignored_by(self._plugins)
        ignored.read_snapshot(snapshot)
        return ignored.notices()

    def __repr__(self) -> str:
        return f"<Scheduler: {self._config}>"

    def run(
        self, session: Session, /, *, reasons: bool = True, unchanged: Unchanged | None = None
    ) -> CycleResult:
        """Run all actions in an open session, close it, and return the decisions.

        Raises:
            PluginError: a plugin raised an exception or returned an invalid value.
            ActionError: an action raised an exception.

        """
        session.explains_plans = reasons
        for name, action in self._actions:
            session.begin_action(name)
            try:
                action.execute(session)
            except (PluginError, ActionError):
                raise
            except BatchschedError as error:
                error.add_note(f"raised by action {name!r}")
                raise
            except Exception as error:
                # An action orders queues and jobs by keys that come from plugins.
                blamed = session.plugins.unordered_keys(
                    session.jobs.values(), session.queues.values()
                )
                raise (blamed or ActionError(name, problem_of(error))) from error
            if session.open_statement is not None:
                raise ActionError(
                    name, "expected every statement to be committed or discarded, got one left open"
                )
        try:
            result = close(session, reasons=reasons, unchanged=unchanged)
        except TypeError as error:
            blamed = session.plugins.unordered_keys(session.jobs.values(), session.queues.values())
            if blamed is None:
                raise
            raise blamed from error
        if session.teller is not None:
            session.teller.flush()
        return result

    def open(self, snapshot: Snapshot, /) -> Session:
        """Open a session on a snapshot without running any action, for inspection or tests.

        Jobs whose promised resources have become free since the last cycle are bound first.

        Raises:
            SnapshotError: `snapshot` is not a `Snapshot`.
            PluginError: a plugin raised an exception when it was opened, or its `open` returned
                an invalid object.

        """
        return self._open(snapshot)

    def _open(self, snapshot: Snapshot, teller: Teller | None = None) -> Session:
        if not is_of(snapshot, Snapshot):
            message = f"expected a Snapshot, got {shown(snapshot)}"
            raise SnapshotError([Fault("snapshot", message)])
        if teller is None and self._trace is not None:
            teller = Teller(self._trace)
        return open_session(self._open_on(Ledger(snapshot), teller))

    def _open_on(self, ledger: Ledger, teller: Teller | None = None) -> PolicyState:
        """Open the plugins on a cluster."""
        return PolicyState(
            ledger,
            self._plugins,
            self._placement,
            promises_repel=self._promises_repel,
            plain=self._plain,
            teller=teller,
        )

    def attach(self, cluster: Cluster, /) -> AttachedScheduler:
        """Attach to a live cluster, so that the cost of a cycle depends on what changed.

        O(cluster): all of it is read once, here, and all plugins are opened.

        Raises:
            SnapshotError: `cluster` is not a `batchsched.live.Cluster`.
            PluginError: a plugin raised an exception when it was opened, or its `open` returned
                an invalid object.

        """
        from batchsched.live.attached import AttachedScheduler  # noqa: PLC0415 - few need it
        from batchsched.live.cluster import Cluster  # noqa: PLC0415

        if not is_of(cluster, Cluster):
            message = f"expected a batchsched.live.Cluster, got {shown(cluster)}"
            raise SnapshotError([Fault("cluster", message)])
        return AttachedScheduler(self, cluster)

    def keep(self, content: Content, /) -> KeptState:
        """Return the state that this configuration keeps up to date for a live cluster."""
        from batchsched.live.attached import KeptState  # noqa: PLC0415

        return KeptState(content, self._open_on)

    def _warm_cycles(self) -> WarmCycles:
        from batchsched.live.attached import WarmCycles  # noqa: PLC0415

        return WarmCycles(self)

    @property
    def keeps(self) -> bool:
        """Whether anything is kept between cycles on a live cluster; not if these are plain."""
        return Shortcut.CYCLES not in self._plain

    @property
    def passes(self) -> bool:
        """Whether cycles of plain content on a live cluster may be decided in one pass."""
        return self._passes


def _shortcuts_of(plain: bool | Collection[str]) -> tuple[frozenset[Shortcut], list[Fault]]:
    """Return the shortcuts that are to be off, and what is wrong with what was asked for."""
    if is_of(plain, bool):
        return (ALL_SHORTCUTS if plain else frozenset()), []
    known = {shortcut.value: shortcut for shortcut in Shortcut}
    expected = f"expected True, False or some of {', '.join(known)}"
    given: object = plain
    if is_text(given) or not is_of(given, Collection):  # type: ignore[type-abstract]
        return frozenset(), [Fault("plain", f"{expected}, got {shown(given)}")]
    shortcuts: set[Shortcut] = set()
    faults: list[Fault] = []
    for name in items_in(cast("Collection[object]", given)):
        if is_text(name) and name in known:
            shortcuts.add(known[name])
        else:
            faults.append(Fault("plain", f"{expected}, got {shown(name)}"))
    return frozenset(shortcuts | {Shortcut.PASSES} if shortcuts else ()), faults


def schedule(
    snapshot: Snapshot,
    /,
    *,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
) -> CycleResult:
    """Run one cycle on a snapshot and return its decisions.

    A shorthand for ``Scheduler(config, registry).schedule(snapshot)``.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskInfo
    >>> one_cpu = Resource(milli_cpu=1000)
    >>> print(schedule(Snapshot(
    ...     nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1500))],
    ...     queues=[Queue(name="q")],
    ...     jobs=[JobInfo(name="j", queue="q", min_available=1, tasks=[
    ...         TaskInfo(uid="t1", name="t1", resreq=one_cpu),
    ...         TaskInfo(uid="t2", name="t2", resreq=one_cpu)])],
    ... )))
    1 bound, 0 evicted, 0 pipelined, 0 conditional, 0 reserved, 1 pending
      bind: t1 -> n1
      pending: 1 x 0/1 nodes are available: 1 lacks free cpu
    """
    return Scheduler(config, registry).schedule(snapshot)
