"""Running a scenario with a clock on each part of its cycles."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from time import process_time
from typing import Any

from attrs import evolve, field, frozen

from batchsched import (
    Action,
    ActionOption,
    Arguments,
    CycleResult,
    Registry,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    default_registry,
)
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.plain_loop import LinearScanPlacement
from batchsched.session.policy_state import PlacementFactory
from benchmarks.workloads.scenario import Scenario, pending_tasks

__all__ = [
    "BETWEEN",
    "DEFAULT",
    "FAST",
    "Clock",
    "MakeScheduler",
    "Run",
    "canonical",
    "engine",
    "engines",
    "placement_of",
    "plain_loop",
    "run",
    "with_actions",
]

# Everything runs on one core without waiting, so its processor time is the time that
# it takes, without that of other programs on the machine.
_seconds = process_time

OPEN = "open"
CLOSE = "close"
BETWEEN = "between cycles"
"""Parts of a run that are no actions."""


class Clock:
    """Measures the parts of cycles; sums over all cycles of a run."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        """Part of a cycle to seconds, in the order in which the parts came first."""
        self.garbage = 0.0
        """The seconds that the garbage collector took, in all parts."""
        self._since = 0.0
        self._garbage_since = 0.0
        self._garbage_in_part = 0.0

    def begin(self) -> None:
        """Begin a part; the time since the last part ended is not counted."""
        self._garbage_in_part = 0.0
        self._since = _seconds()

    def end(self, part: str) -> None:
        """End the part that was begun last, and begin the next."""
        time = _seconds()
        self.parts[part] = self.parts.get(part, 0.0) + time - self._since
        self.garbage += self._garbage_in_part
        self._garbage_in_part = 0.0
        self._since = time

    @contextmanager
    def watching_garbage(self) -> Iterator[None]:
        """Record the garbage collector's time."""
        gc.callbacks.append(self._watch)
        try:
            yield
        finally:
            gc.callbacks.remove(self._watch)

    def _watch(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._garbage_since = _seconds()
        else:
            self._garbage_in_part += _seconds() - self._garbage_since


@frozen(kw_only=True)
class Run:
    """The times of a run, and its decisions."""

    cycles: int
    tasks: int
    """How many tasks were pending, in all cycles together."""
    parts: dict[str, float]
    """Part of the cycle to seconds."""
    garbage: float
    """The seconds of the garbage collector, which are part of the others."""
    digest: str
    """Of all decisions."""
    counts: dict[str, int] = field(factory=dict)
    """How many decisions there were of each kind."""

    @property
    def seconds(self) -> float:
        """The seconds of all cycles, without what comes between them."""
        return sum(seconds for part, seconds in self.parts.items() if part != BETWEEN)

    @property
    def action_seconds(self) -> float:
        """The seconds of all actions of all cycles."""
        return self.seconds - self.parts[OPEN] - self.parts[CLOSE]


MakeScheduler = Callable[[SchedulerConfig, Clock], Scheduler]
"""Makes the scheduler of a run; its actions notify the clock when they end."""

WrapAction = Callable[[str, Action], Action]


def run(
    scenario: Scenario,
    make_scheduler: MakeScheduler,
    *,
    on_result: Callable[[CycleResult], None] | None = None,
) -> Run:
    """Run all cycles of a scenario; the measurement starts with a clean heap."""
    clock = Clock()
    scheduler = make_scheduler(scenario.config, clock)
    advance = None if scenario.advance is None else scenario.advance()
    snapshot: Snapshot = scenario.snapshot
    digest = hashlib.sha256()
    # What capacity tells of queues counts; what proportion tells follows from what it decides.
    plugins = (plugin.name for tier in scenario.config.tiers for plugin in tier.plugins)
    with_queues = "capacity" in plugins
    tasks = 0
    counts: dict[str, int] = {}
    gc.collect()
    with clock.watching_garbage():
        for _ in range(scenario.cycles):
            tasks += pending_tasks(snapshot)
            clock.begin()
            result = scheduler.schedule(snapshot)
            clock.end(CLOSE)
            if advance is not None:
                snapshot = advance(snapshot, result)
                clock.end(BETWEEN)
            digest.update(canonical(result, with_queues=with_queues))
            for kind in ("binds", "evictions", "pipelined", "pending"):
                counts[kind] = counts.get(kind, 0) + len(getattr(result, kind))
            if on_result is not None:
                on_result(result)
    return Run(
        cycles=scenario.cycles,
        tasks=tasks,
        parts=clock.parts,
        garbage=clock.garbage,
        digest=digest.hexdigest(),
        counts=counts,
    )


_OF_REASONS = ("why", "tally", "held_by", "share")
_OF_CONDITIONS = ("reason", "plugin")


def canonical(result: CycleResult, *, with_queues: bool) -> bytes:
    """Return what a result decides as a string that is the same if, and only if, the decisions are.

    The sentences that are written for people are left out: better words are no other decision.
    """
    content: Any = result.to_dict()
    if not with_queues:
        content["queues"] = {}
    for name in ("taken_back", "moves"):
        if not content[name]:
            del content[name]  # as earlier commits, which took nothing back and moved nothing
    # A time at which to look again is no decision, and earlier commits have none.
    content.pop("refused_until", None)
    # The record of a search for victims names its action, and a replay has no actions; texts, and
    # the facts that they are made of, repeat what is decided.
    content["pending"] = {
        # What reasons no longer have is empty, so that stored digests stay as they are.
        uid: {"gang_need": None, **{key: reason[key] for key in _OF_REASONS}}
        for uid, reason in content["pending"].items()
    }
    for job in content["jobs"].values():
        if job["condition"] is not None:
            job["condition"] = {key: job["condition"][key] for key in _OF_CONDITIONS}
    return json.dumps(_without_facts(content), sort_keys=True, separators=(",", ":")).encode()


def _without_facts(content: Any) -> Any:
    """Return it without the facts of which the sentence of an `Unfit` is made.

    And without what plugins would have chosen for tasks where none did, as earlier commits.
    """
    if isinstance(content, dict):
        is_unfit = {"detail", "plugin", "reason"} <= content.keys()
        facts = ("beyond_deserved", "excess", "queue", "no_domain", "devices") if is_unfit else ()
        return {
            key: _without_facts(each)
            for key, each in content.items()
            if key not in facts and (each or key not in ("choices", "devices", "notices"))
        }
    if isinstance(content, list | tuple):
        return [_without_facts(each) for each in content]
    return content


def with_actions(wrap: WrapAction) -> Registry:
    """Return the default registry with a wrapper around each action."""
    known = default_registry()
    registry = Registry()
    for name in known.plugin_names:
        plugin_factory = known.plugin_factory(name)
        assert plugin_factory is not None
        registry.register_plugin(name, plugin_factory)
    for name in known.action_names:
        action_factory = known.action_factory(name)
        assert action_factory is not None

        def wrapped(
            arguments: Arguments,
            name: str = name,
            factory: Callable[[Arguments], Action] = action_factory,
        ) -> Action:
            return wrap(name, factory(arguments))

        registry.register_action(name, wrapped)
    return registry


def timed(config: SchedulerConfig, registry: Registry, clock: Clock) -> SchedulerConfig:
    """Return a configuration in which the clock is notified at the end of opening."""
    registry.register_action("end of opening", lambda _: _EndOfOpening(clock))
    return evolve(config, actions=(ActionOption(name="end of opening"), *config.actions))


@frozen
class _EndOfOpening:
    clock: Clock

    def execute(self, _session: Session, /) -> None:
        self.clock.end(OPEN)


@frozen
class _TimedAction:
    name: str
    action: Action
    clock: Clock

    def execute(self, session: Session, /) -> None:
        self.action.execute(session)
        self.clock.end(self.name)


def _placing_by(placement: PlacementFactory) -> MakeScheduler:
    def make(config: SchedulerConfig, clock: Clock) -> Scheduler:
        registry = with_actions(lambda name, action: _TimedAction(name, action, clock))
        return Scheduler(timed(config, registry, clock), registry, placement=placement)

    return make


DEFAULT = "default"
FAST = "fast"
"""How the engine is measured: on lists, as without NumPy, and on arrays, with the extra `fast`."""

ON_LISTS = partial(IndexedPlacement, arrays=False)
ON_ARRAYS = partial(IndexedPlacement, arrays=True)

engine: MakeScheduler = _placing_by(ON_LISTS)
"""Makes a scheduler as a user has it without NumPy, timed."""
plain_loop: MakeScheduler = _placing_by(LinearScanPlacement)
"""Makes a scheduler that looks at every node for every task, timed."""


def placement_of(name: str) -> PlacementFactory:
    """Return an engine. That of the extra imports numpy.

    Raises:
        ImportError: there is no numpy.
    """
    if name == DEFAULT:
        return ON_LISTS
    import_module("batchsched.placement.arrays")
    return ON_ARRAYS


def engines() -> dict[str, MakeScheduler]:
    """Return the engines that can be measured here, the default one first.

    Imports numpy, if there is one, before anything is timed.
    """
    found = {DEFAULT: engine}
    with suppress(ImportError):
        found[FAST] = _placing_by(placement_of(FAST))
    return found
