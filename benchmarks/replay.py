"""The replay: the same decisions with the same accounts and events, without any search.

It is the practical lower limit of what a cycle can cost. Every change that an engine's run
makes to the accounts is recorded, in order, and repeated in fresh sessions, where plugins
get the events and jobs are bound as before. There are no searches, and no orders are kept.
The replay's result must be that of the run.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from unittest.mock import patch

from attrs import evolve, field, frozen

from batchsched import (
    ActionOption,
    Registry,
    Scheduler,
    SchedulerConfig,
    Session,
    default_registry,
)
from batchsched.plugin import JobState, NodeState, TaskState
from batchsched.session.failures import TaskAttempts
from batchsched.state.ledger import Ledger
from benchmarks.cycle import Clock, Run, run, timed
from benchmarks.workloads.scenario import Scenario

__all__ = ["Recording", "record", "replay"]

RECORDED: tuple[tuple[type, str], ...] = (
    (Ledger, "move"),
    (Session, "bind_if_ready"),
    (Session, "decide_eviction"),
    (Session, "record_overused"),
)
"""Methods that change the accounts, decide, or note what the accounts are at the time.

Calls inside one of them are not recorded.
"""


@frozen
class _Named:
    """Something that belongs to a session, by name, so that it is found in another."""

    kind: type
    name: str

    def found_in(self, session: Session) -> object:
        if self.kind is TaskState:
            return session.ledger.tasks[self.name]
        if self.kind is NodeState:
            return session.ledger.node_named[self.name]
        return session.ledger.jobs[self.name]


@frozen
class _Step:
    """One call."""

    owner: type
    method: str
    arguments: tuple[object, ...]
    keywords: tuple[tuple[str, object], ...]
    action: str
    """The action that made it."""

    def bound_to(self, session: Session) -> Callable[[], object]:
        """Return the same call in another session."""
        owner: object = session.ledger
        if self.owner is Session:
            owner = session
        return partial(
            getattr(owner, self.method),
            *(_found(value, session) for value in self.arguments),
            **{name: _found(value, session) for name, value in self.keywords},
        )


def _found(value: object, session: Session) -> object:
    return value.found_in(session) if isinstance(value, _Named) else value


def _name(value: object) -> object:
    if isinstance(value, NodeState):
        return _Named(NodeState, value.name)
    if isinstance(value, TaskState | JobState):
        return _Named(type(value), value.uid)
    return value


@frozen
class _Cycle:
    """What the actions of one cycle did."""

    steps: list[_Step] = field(factory=list)
    tried: dict[str, TaskAttempts] = field(factory=dict)


@frozen
class Recording:
    """The calls of a run, cycle by cycle.

    It is kept pickled: hundreds of thousands of small objects would cost the garbage
    collector time in every run that is measured beside it.
    """

    cycles: list[bytes]
    run: Run
    is_empty: bool
    """Whether no action changed anything."""


class _Recorder:
    """Records the calls that actions make, from `begin` to `end` of each cycle."""

    def __init__(self) -> None:
        self.cycles: list[_Cycle] = []
        self._session: Session | None = None
        self._is_inside = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Wrap everything that is to be recorded."""
        with ExitStack() as patches:
            for owner, method in RECORDED:
                patches.enter_context(patch.object(owner, method, self._recorded(owner, method)))
            yield

    def _recorded(self, owner: type, method: str) -> Callable[..., object]:
        original: Callable[..., object] = getattr(owner, method)

        @wraps(original)
        def recorded(instance: object, *arguments: object, **keywords: object) -> object:
            session = self._session
            if session is None or self._is_inside:
                return original(instance, *arguments, **keywords)
            self.cycles[-1].steps.append(
                _Step(
                    owner,
                    method,
                    tuple(_name(value) for value in arguments),
                    tuple((name, _name(value)) for name, value in keywords.items()),
                    session.action_name,
                )
            )
            self._is_inside = True
            try:
                return original(instance, *arguments, **keywords)
            finally:
                self._is_inside = False

        return recorded

    def begin(self, session: Session) -> None:
        """Begin to record a cycle."""
        self.cycles.append(_Cycle())
        self._session = session

    def end(self, session: Session) -> None:
        """End the cycle; record what actions keep for the reasons."""
        self._session = None
        cycle = self.cycles[-1]
        tried = session.reports.tasks.items()
        cycle.tried.update((task.uid, evolve(each, eviction_searches={})) for task, each in tried)


def record(scenario: Scenario) -> Recording:
    """Run a scenario and record what its actions change in the accounts."""
    recorder = _Recorder()

    def recording_engine(config: SchedulerConfig, clock: Clock) -> Scheduler:
        registry = default_registry()
        _register(registry, "begin of recording", recorder.begin)
        _register(registry, "end of recording", recorder.end)
        actions = (
            ActionOption(name="begin of recording"),
            *config.actions,
            ActionOption(name="end of recording"),
        )
        return Scheduler(timed(evolve(config, actions=actions), registry, clock), registry)

    with recorder.listening():
        recorded = run(scenario, recording_engine)
    return Recording(
        cycles=[pickle.dumps(cycle) for cycle in recorder.cycles],
        run=recorded,
        is_empty=not any(cycle.steps for cycle in recorder.cycles),
    )


def replay(scenario: Scenario, recording: Recording) -> Run:
    """Run a scenario by repeating the recorded calls instead of running actions.

    Finding the tasks, jobs and nodes of the fresh session is not measured.
    """

    def replaying_engine(config: SchedulerConfig, clock: Clock) -> Scheduler:
        cycles = iter(recording.cycles)
        registry = default_registry()
        _register(
            registry, "replay", lambda session: _replay(session, pickle.loads(next(cycles)), clock)
        )
        only = evolve(config, actions=(ActionOption(name="replay"),))
        return Scheduler(timed(only, registry, clock), registry)

    return run(scenario, replaying_engine)


def _replay(session: Session, cycle: _Cycle, clock: Clock) -> None:
    calls: list[Callable[[], object]] = []
    action = session.action_name
    for step in cycle.steps:
        if step.action != action:
            action = step.action
            calls.append(partial(setattr, session, "action_name", action))
        calls.append(step.bound_to(session))
    cycle.steps.clear()
    # The preparation here must not trigger a full collection during the measurement: at
    # 100,000 tasks that took 0.24 s of 0.82, and made the engine look better than it is.
    gc.collect()
    clock.begin()
    for call in calls:
        call()
    clock.end("replay")
    session.reports.tasks.update((session.task(uid), each) for uid, each in cycle.tried.items())
    del calls
    clock.begin()


@frozen
class _Callback:
    function: Callable[[Session], None]

    def execute(self, session: Session, /) -> None:
        self.function(session)


def _register(registry: Registry, name: str, function: Callable[[Session], None]) -> None:
    registry.register_action(name, lambda _: _Callback(function))
