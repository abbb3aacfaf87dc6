"""Proof of a plugin's declarations and hints: shortcuts decide what plain definitions decide.

`check_plain` lets a scheduler decide drawn snapshots and living histories, with all shortcuts and
by plain definitions. Where they differ, it decides again with one shortcut off, and with one
declaration or hint removed, and so finds out which of them is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import cast

from attrs import evolve, fields, frozen
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from batchsched.config.options import ActionOption, PluginOption, Tier
from batchsched.config.registry import PluginFactory
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.live.cluster import Cluster
from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown
from batchsched.plugin.arguments import ArgumentValue
from batchsched.plugin.extension_points import ExtensionPoints, Plugin
from batchsched.plugin.node_functions import EvictionHints, NodeScore, Predicate, Reads, per_task
from batchsched.scheduler import Scheduler
from batchsched.session.policy_state import PlacementFactory
from batchsched.state.shortcuts import Shortcut
from batchsched.testing.drawing.jobs import jobs
from batchsched.testing.drawing.pools import Switches
from batchsched.testing.drawing.snapshots import given_or_default, same_each_time, snapshots
from batchsched.testing.laws import SIMPLE, default_examples
from batchsched.testing.laws.trial import LawViolation, Subject
from batchsched.transition.events import (
    Event,
    JobArrived,
    JobChanged,
    NodeChanged,
    TaskGone,
    TaskSucceeded,
    TimePassed,
)

_NONE: Mapping[str, ArgumentValue] = {}
_LAW = "it decides what plain definitions decide"
_POINTS = tuple(field.name for field in fields(ExtensionPoints))
_PROMISES = (
    *("resume", "votes_on_jobs_alone", "refuses_alike"),
    *("sets_by_room", "may_offer_sets"),
)
"""Attributes of opened plugins, besides extension points, that let them be asked less."""
_SIGNATURES = ("node_key_signature", "choice_signature")
"""Extension points that declare what others read."""
_WITHOUT_A_HINT = {
    Shortcut.TURNS: "a key of a job or queue depends on more than the job or queue",
    Shortcut.CYCLES: "what it keeps from cycle to cycle is out of date",
}
"""What else may be wrong, by the shortcut with which it shows."""


def check_plain(
    plugin: Plugin | PluginFactory | type[Plugin],
    *,
    name: str = "under-test",
    arguments: Mapping[str, ArgumentValue] = _NONE,
    examples: SearchStrategy[Snapshot] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    config: SchedulerConfig | None = None,
    max_examples: int = 300,
    shrink: bool = True,
) -> None:
    """Test a plugin's declarations and hints: with and without them, decisions are the same.

    A `signature` or `Reads` that is wrong, a hint, or state kept from cycle to cycle (`resume`)
    changes decisions. So each example is decided with ``Scheduler(..., plain=True)``, with one
    optimisation switched off, and with neither; most of them as a live cluster, for some cycles in
    which jobs arrive and end and nodes change. The violation names the optimisations in which the
    difference arises, and the declarations and hints without which there is none.

    For the parameters, see `check_plugin`, which finds what is wrong whether or not it changes
    decisions. The examples are the same in every run.

    Raises:
        LawViolation: decisions differ; Hypothesis adds the example as a note.
        ValueError: `config` does not name the plugin; or both labels and examples are given (use
            ``examples=snapshots(labels=...)``).

    >>> from batchsched.plugins.drf import DrfPlugin
    >>> check_plain(DrfPlugin(), max_examples=5)
    """
    subject = Subject(plugin, name, arguments, config)
    # Beside others, which read more, a wrong declaration may make no difference.
    alone = (
        subject if config is not None else Subject(plugin, name, arguments, _alone(name, arguments))
    )
    if examples is None and labels is None:
        labels = subject.declared_labels()
    drawn = given_or_default(examples, labels, _examples)
    arrivals = st.tuples(
        *(jobs(name=f"new{n}", max_tasks=3, groups=False, labels=labels) for n in (1, 2))
    )
    happens = st.tuples(st.sampled_from(_KINDS), st.integers(0, 15))
    wave = st.lists(happens, min_size=1, max_size=4)
    waves: SearchStrategy[_Waves] = st.one_of(st.just([]), st.lists(wave, min_size=2, max_size=4))

    @same_each_time(max_examples, shrink=shrink)
    @given(
        snapshot=drawn,
        arriving=arrivals,
        happening=waves,
        engine=_engines(),
        shortcut=st.sampled_from(list(Shortcut)),
        judged=st.sampled_from([subject, alone]),
    )
    def decides_plainly(
        snapshot: Snapshot,
        arriving: tuple[JobInfo, ...],
        happening: _Waves,
        engine: PlacementFactory | None,
        shortcut: Shortcut,
        judged: Subject,
    ) -> None:
        history = _History(snapshot, arriving, happening, engine)
        fast = history.decided(judged)
        for shortcuts in (True, {shortcut.value}):
            plain = history.decided(judged, plain=shortcuts)
            if plain != fast:
                raise _violation(judged, history, fast, plain)

    decides_plainly()


def _engines() -> SearchStrategy[PlacementFactory | None]:
    """Draw the usual engine, or the one on arrays if NumPy is installed: it asks other hints."""
    try:
        from batchsched.fast import VectorisedPlacement  # noqa: PLC0415 - it needs NumPy
    except ImportError:
        return st.none()
    return st.sampled_from([None, VectorisedPlacement])


def _alone(name: str, arguments: Mapping[str, ArgumentValue]) -> SchedulerConfig:
    plugins = [PluginOption(name=name, arguments=arguments), PluginOption(name="gang")]
    actions = [ActionOption(name=action) for action in ("allocate", "reclaim", "preempt")]
    return SchedulerConfig(actions=actions, tiers=[Tier(plugins=plugins)])


def _examples(labels: Mapping[str, Sequence[str]] | None) -> SearchStrategy[Snapshot]:
    """Draw clusters as for laws, others that are full, and others with room for equal tasks.

    What hints for evictions say matters in full ones, and signatures where equal tasks are placed.
    What is said of jobs that are alike matters where many of them wait.
    """
    full = ["running", "priorities"]
    crowded = snapshots(
        max_nodes=3, max_queues=2, min_jobs=3, max_tasks=3, always=full, labels=labels, **_SIMPLE
    )
    new: Switches = {**_SIMPLE, "running": False, "promises": False, "best_effort": False}
    new |= {"crowded": False, "unknown_queues": False, "dependencies": False}
    roomy = snapshots(
        min_nodes=2,
        max_queues=2,
        min_jobs=2,
        max_jobs=3,
        min_tasks=2,
        always=["gangs"],
        labels=labels,
        **new,
    )
    many: Switches = {**_SIMPLE, "dependencies": False}
    few = snapshots(
        max_nodes=2,
        max_queues=2,
        min_jobs=2,
        max_jobs=3,
        max_tasks=3,
        always=full,
        labels=labels,
        **many,
    )
    return st.one_of(crowded, roomy, few.map(_with_jobs_alike), default_examples(labels))


def _with_jobs_alike(snapshot: Snapshot) -> Snapshot:
    """Add to each job that waits three that differ in names and attained service alone."""
    more: list[JobInfo] = []
    for job, number in product(snapshot.jobs, (1, 2, 3)):
        if all(task.status is TaskStatus.PENDING for task in job.tasks):
            name = f"{job.name}-{number}"
            tasks = [
                evolve(
                    task,
                    uid=f"{name}-{place}",
                    name=f"{name}-{place}",
                    attained_service=task.attained_service + number,
                )
                for place, task in enumerate(job.tasks, start=1)
            ]
            more.append(evolve(job, name=name, tasks=tasks))
    return evolve(snapshot, jobs=[*snapshot.jobs, *more])


_SIMPLE: Switches = {**SIMPLE, "endings": False}


_KINDS: Sequence[str] = ("ended", "arrived", "gone", "job", "node")
_Waves = Sequence[Sequence[tuple[str, int]]]
"""What happens between cycles: its kind, and to which job, task or node."""


@frozen
class _History:
    """A cluster, and what happens to it; decisions depend on nothing else."""

    snapshot: Snapshot
    arriving: tuple[JobInfo, ...]
    waves: _Waves
    engine: PlacementFactory | None = None
    """The engine with which it is decided, except plainly; None: the usual one."""

    def decided(
        self,
        subject: Subject,
        *,
        plain: bool | set[str] = False,
        overrides: _Overrides | None = None,
    ) -> list[CycleResult]:
        """Return the results of a cycle on the snapshot, and of those on the living cluster."""

        def change(opened: object) -> object:
            return opened if overrides is None else _Changed(opened, overrides(opened))

        def scheduler() -> Scheduler:
            engine = None if plain else self.engine
            return subject.scheduler(plain=plain, placement=engine, change=change)

        results = [scheduler().schedule(self.snapshot)]
        return [*results, *self._lived(scheduler())] if self.waves else results

    def _lived(self, scheduler: Scheduler) -> Iterator[CycleResult]:
        cluster = Cluster(self.snapshot)
        attached = scheduler.attach(cluster)
        arriving = iter(self.arriving)
        for wave in self.waves:
            result = attached.schedule()
            cluster.carry_out(result, at_once=True)
            cluster.apply(*_events(cluster.snapshot(), wave, arriving))
            yield result
        yield attached.schedule()


def _events(
    snapshot: Snapshot, wave: Sequence[tuple[str, int]], arriving: Iterator[JobInfo]
) -> Iterator[Event]:
    """Yield sound events: each of them concerns something else."""
    tasks = [task for job in snapshot.jobs for task in job.tasks]
    running = [task for task in tasks if task.status is TaskStatus.RUNNING]
    unchanged_jobs, unchanged_nodes = list(snapshot.jobs), list(snapshot.nodes)
    for kind, which in wave:
        if kind == "node" and unchanged_nodes:
            node = unchanged_nodes.pop(which % len(unchanged_nodes))
            yield NodeChanged(evolve(node, unschedulable=not node.unschedulable))
        elif kind == "job" and unchanged_jobs:
            job = unchanged_jobs.pop(which % len(unchanged_jobs))
            yield JobChanged(job.uid, priority=which % 3)
        elif kind == "arrived" and snapshot.jobs:
            new = next(arriving, None)
            if new is not None:
                queue = snapshot.jobs[which % len(snapshot.jobs)].queue
                yield JobArrived(evolve(new, queue=queue))
        elif running:
            ends = TaskGone if kind == "gone" else TaskSucceeded
            yield ends(running.pop(which % len(running)).uid)
    yield TimePassed(snapshot.now + 10)


def _violation(
    subject: Subject,
    history: _History,
    fast: list[CycleResult],
    plain: list[CycleResult],
) -> LawViolation:
    """Find the shortcuts, declarations and hints that make the difference."""
    if history.engine is not None and evolve(history, engine=None).decided(subject) == plain:
        shortcuts = [Shortcut.ENGINE]  # only that engine goes wrong
    else:
        shortcuts = [s for s in Shortcut if history.decided(subject, plain={s.value}) == plain]
    opened = subject.open(history.snapshot).opened
    causes: list[str] = []
    for cause, overrides in _declarations(opened):
        # Some declarations need others, without which a plugin is refused.
        with suppress(Exception):
            if history.decided(subject, overrides=overrides) == plain:
                causes.append(cause)
    behind = " or ".join(f"{shortcut.value!r}" for shortcut in shortcuts) or "several at once"
    seen = f"{_difference(fast, plain)}\n  it does without these shortcuts: {behind}"
    if causes:
        seen += f"; and without {', or without '.join(causes)}"
    for shortcut, why in _WITHOUT_A_HINT.items():
        if shortcut in shortcuts and not causes:
            seen += f"; perhaps {why}"
    point = causes[0] if causes else "open"
    return LawViolation(subject.name, point, _LAW, seen, history.snapshot, check="check_plain")


_DECISIONS = ("binds", "evictions", "pipelined")
"""What says most of a difference, if it differs."""


def _difference(fast: Sequence[CycleResult], plain: Sequence[CycleResult]) -> str:
    """Return the first difference in words."""
    for number, (one, other) in enumerate(zip(fast, plain, strict=True)):
        names = [field.name for field in fields(CycleResult)]
        for name in (*_DECISIONS, *names):
            mine: object = getattr(one, name)
            theirs: object = getattr(other, name)
            if mine != theirs:
                if isinstance(mine, Mapping):
                    mine, theirs = _first_part(cast("_Entries", mine), cast("_Entries", theirs))
                which = f"in cycle {number} of a living cluster " if number else ""
                return f"{which}{name} is {shown(mine)}, and plainly {shown(theirs)}"
    return "the results differ"


_Entries = Mapping[object, object]


def _first_part(one: _Entries, other: _Entries) -> tuple[_Entries, _Entries]:
    """Return the first entry that differs, of both."""
    key = next(key for key in {**one, **other} if one.get(key) != other.get(key))
    return {key: one.get(key)}, {key: other.get(key)}


_Attributes = Mapping[str, object]
_Overrides = Callable[[object], _Attributes]
"""Given an opened plugin: other values of some attributes; None: it does not have them."""

_evolved = cast("Callable[..., object]", evolve)  # the fields to change are known by name only


class _Changed:
    """An opened plugin with other values of some attributes."""

    def __init__(self, opened: object, overrides: _Attributes) -> None:
        # Values of the object itself: protocols do not look for what `__getattr__` would find.
        for name in (*_POINTS, *_PROMISES):
            value = overrides[name] if name in overrides else getattr(opened, name, None)
            if value is not None:
                setattr(self, name, value)


def _declarations(opened: object) -> Iterator[tuple[str, _Overrides]]:
    """Yield all declarations and hints of an opened plugin, and how to remove each of them."""
    for name in (*_PROMISES, *_SIGNATURES):
        if getattr(opened, name, None) is not None:
            yield name, _lacking(name)
    for name in reversed(_given(_called(opened, "hints"))):  # claimant_key last: others need it
        yield f"hints().{name}", _without_hint(name)
    for point in ("predicates", "node_scores"):
        for number, function in enumerate(_functions(opened, point)):
            which = f"{point}()[{number}]"
            for name in _given(function.hints):
                less = _evolved(function.hints, **{name: None})
                yield f"{which}.hints.{name}", _changing(point, number, "hints", less)
            if function.signature is not per_task:
                yield f"{which}.signature", _changing(point, number, "signature", per_task)
            if function.reads is not Reads.CLUSTER:
                yield f"{which}.reads", _changing(point, number, "reads", Reads.CLUSTER)


def _called(opened: object, point: str) -> object:
    function = cast("Callable[[], object] | None", getattr(opened, point, None))
    return None if function is None else function()


def _functions(opened: object, point: str) -> list[Predicate | NodeScore]:
    return list(cast("Iterable[Predicate | NodeScore]", _called(opened, point) or ()))


def _given(hints: object) -> list[str]:
    """Return the names of the hints that are given."""
    names = (
        [field.name for field in fields(cast("type[EvictionHints]", type(hints)))] if hints else []
    )
    return [name for name in names if getattr(hints, name) is not None]


def _lacking(name: str) -> _Overrides:
    return lambda _opened: {name: None}


def _without_hint(name: str) -> _Overrides:
    return lambda opened: {"hints": lambda: _evolved(_called(opened, "hints"), **{name: None})}


def _changing(point: str, number: int, attribute: str, value: object) -> _Overrides:
    def functions(opened: object) -> list[object]:
        listed: list[object] = list(_functions(opened, point))
        listed[number] = _evolved(listed[number], **{attribute: value})
        return listed

    return lambda opened: {point: lambda: functions(opened)}
