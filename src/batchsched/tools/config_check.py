"""The function `check_config`: problems of a configuration, each shown on a small cluster.

A rule only suspects a problem. It becomes a finding if it has an effect: on some small cluster the
configuration decides differently from the configuration that the rule proposes instead, or evicts
for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

from attrs import evolve, frozen

from batchsched.config.options import ENABLE_FLAGS, ActionOption, PluginOption, Tier
from batchsched.config.reading import without_unknown
from batchsched.config.registry import Registry, default_registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, BatchschedError, ConfigError
from batchsched.model.notice import Notice, NoticeCode, NoticeCollector
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import (
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    shown,
)
from batchsched.scheduler import Scheduler
from batchsched.tools.causes import decisions
from batchsched.tools.config_rules import (
    QUEUE_RULES,
    RULES,
    Parts,
    QueueRule,
    Rule,
    Shows,
    Suspected,
    of_snapshot,
    remedies_for_loops,
)
from batchsched.tools.small_clusters import small_clusters, small_queue_trees
from batchsched.transition.next_snapshot import next_snapshot


@frozen(kw_only=True)
class Finding:
    """A problem of a configuration, with a cluster that shows it."""

    code: str
    """A stable name of the problem."""
    place: str
    """The place in the configuration."""
    consequence: str
    """The consequence of the problem."""
    advice: str
    """How to fix it."""
    shows: Shows
    """What happens on `snapshot`. "decides otherwise": the decisions differ from those with
    `instead`, or from those on `mended`. "evicts for ever": it evicts in cycle after cycle, which
    `instead` does not. "reserves": it makes reservations. "has no effect": it decides like
    `instead`, which lacks the ignored part. "cannot be built": it decides nothing on any snapshot,
    while `instead` does."""
    snapshot: Snapshot
    """A cluster of at most three jobs that shows the problem."""
    instead: SchedulerConfig | None = None
    """The configuration with the advice applied, if there is one."""
    mended: Snapshot | None = None
    """`snapshot` with the advice applied, if queues or jobs should change."""
    shows_on_yours: bool | None = None
    """Whether the caller's own snapshot shows it; None: none was given, or every snapshot does."""

    def __str__(self) -> str:
        return f"{self.place}: {self.code}: {self.consequence}; {self.advice}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the finding as dicts, lists, strings and numbers only, ready for JSON."""
        return {
            "code": self.code,
            "place": self.place,
            "consequence": self.consequence,
            "advice": self.advice,
            "shows": self.shows,
            "snapshot": self.snapshot.to_dict(),
            "instead": None if self.instead is None else self.instead.to_dict(),
            "mended": None if self.mended is None else self.mended.to_dict(),
            "shows_on_yours": self.shows_on_yours,
        }


_CYCLES = 8
_SETTLED = 4


def check_config(
    config: SchedulerConfig | Mapping[str, object],
    snapshot: Snapshot | None = None,
    *,
    registry: Registry | None = None,
) -> tuple[Finding, ...]:
    """Find the problems of a configuration, each with a small cluster that shows it.

    No finding is a guess: each comes with a cluster of at most three jobs on which the
    configuration decides differently from the advised one, or evicts in every cycle. Unknown
    names and other parts that cannot be built, or were ignored when the configuration was read,
    are found too, but for what Volcano or KAI Scheduler has: `batchsched.tools.not_modelled` tells
    that apart. Costs some tens of small cycles for each finding; with `snapshot` two more cycles on
    it, and some for the checks of its queues.

    Args:
        config: the configuration to check, or the parsed content of a configuration file.
        snapshot: your own cluster, on which each finding is tried too. Its queues are checked
            against the configuration: fields that no plugin reads, and amounts that no queue can
            get.
        registry: the plugins and actions that the configuration may name.

    Raises:
        ArgumentError: `snapshot` or `registry` has the wrong type.

    >>> config = SchedulerConfig.from_mapping({
    ...     "actions": "allocate, backfill",
    ...     "tiers": [{"plugins": ["priority", "gang", "drf", "nodeorder"]}],
    ... })
    >>> for finding in check_config(config):
    ...     print(finding, "; shown by", len(finding.snapshot.jobs), "job")
    tiers: NoPredicates: tasks are placed on nodes that must not run them; add plugin \
'predicates' ; shown by 1 job

    """
    if registry is not None and not is_of(registry, Registry):
        raise ArgumentError.at("registry", f"expected a Registry or None, got {shown(registry)}")
    if snapshot is not None and not is_of(snapshot, Snapshot):
        raise ArgumentError.at("snapshot", f"expected a Snapshot or None, got {shown(snapshot)}")
    read: SchedulerConfig | None = None
    try:
        if is_mapping(config):
            mapping = cast("Mapping[str, object]", config)
            read = SchedulerConfig.from_mapping(mapping, registry=registry, unknown="notice")
        else:
            read = cast("SchedulerConfig", config)  # anything else is refused here
        scheduler = Scheduler(read, registry)
    except ConfigError as error:
        return tuple(_what_cannot_be_built(read, error, registry))
    return tuple(_findings(scheduler.config, registry, scheduler, snapshot))


class _Trial:
    """A configuration, and what it decides on snapshots; it is asked once about each."""

    def __init__(self, config: SchedulerConfig, registry: Registry | None) -> None:
        self.scheduler = Scheduler(config, registry)
        self._known: list[tuple[Snapshot, CycleResult]] = []

    def schedule(self, snapshot: Snapshot) -> CycleResult:
        """Return what is decided on a snapshot."""
        for known, result in self._known:
            if known is snapshot:
                return result
        result = self.scheduler.schedule(snapshot, reasons=False)
        self._known.append((snapshot, result))
        return result

    def differs(self, snapshot: Snapshot, other: _Trial, on: Snapshot | None = None) -> bool:
        """Return whether another one decides differently, on the same or on another snapshot."""
        theirs = other.schedule(snapshot if on is None else on)
        return decisions(theirs) != decisions(self.schedule(snapshot))


def _findings(
    config: SchedulerConfig,
    registry: Registry | None,
    scheduler: Scheduler,
    snapshot: Snapshot | None,
) -> Iterator[Finding]:
    yield from _what_was_left_out(config, scheduler)
    of, trial = Parts(config), _Trial(config, registry)
    suspects = [(rule, s, small_clusters()) for rule in RULES for s in rule.find(of)]
    for rule, suspect, clusters in suspects:
        yield from _shown(rule, suspect, clusters, trial, registry, snapshot)
    if snapshot is None:
        return
    for queue_rule in QUEUE_RULES:
        if "capacity" in of.plugins or not queue_rule.needs_capacity:
            yield from _shown_by_queues(queue_rule, trial, snapshot)
    for name, rule, suspect in of_snapshot(of, snapshot):
        clusters = small_queue_trees()[name]
        yield from _shown(rule, suspect, clusters, trial, registry, snapshot)
    yield from _broken_that_wait(of, scheduler, snapshot)


def _broken_that_wait(of: Parts, scheduler: Scheduler, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding if broken jobs of a snapshot wait for the room of each other."""
    waits_for: dict[str, set[str]] = {}
    reasons = scheduler.schedule(snapshot).pending
    of_task = {task.uid: job.uid for job in snapshot.jobs for task in job.tasks}
    for uid, reason in reasons.items():
        if reason.held_on:
            waits_for.setdefault(of_task[uid], set()).update(reason.held_by)
    for one, others in sorted(waits_for.items()):
        for other in sorted(others):
            if one in waits_for.get(other, ()):
                yield Finding(
                    code="BrokenWaitForEachOther",
                    place=f"jobs[{one!r}]",
                    consequence=(
                        f"both it and job {other!r} are incomplete, and each holds the room that "
                        "the other needs: neither does any work"
                    ),
                    advice="let action 'preempt' complete one of them: 'unblock: true'",
                    shows="decides otherwise",
                    snapshot=small_queue_trees()["BrokenWaitForEachOther"][0],
                    instead=of.with_unblock(),
                    shows_on_yours=True,
                )
                return


def _shown(
    rule: Rule,
    suspect: Suspected,
    clusters: Sequence[Snapshot],
    trial: _Trial,
    registry: Registry | None,
    snapshot: Snapshot | None,
) -> Iterator[Finding]:
    """Yield a suspected problem as a finding, if any small cluster shows it."""
    instead, advice = suspect.instead, rule.advice.format(**suspect.words)
    try:
        match rule.shows:
            case "reserves":
                effect = _reserves(trial)
            case "evicts for ever":
                effect = partial(evicts_for_ever, trial.scheduler)
            case _:
                assert instead is not None
                effect = partial(trial.differs, other=_Trial(instead, registry))
        shows_on = next(filter(effect, clusters), None)
        if shows_on is None:
            return
        on_yours = None if snapshot is None else effect(snapshot)
    except BatchschedError:
        if rule.shows != "decides otherwise":
            raise
        return  # the advised configuration is not valid
    if rule.shows == "evicts for ever":
        for remedy, without in remedies_for_loops(Parts(trial.scheduler.config)):
            other = Scheduler(without, registry)
            if not any(evicts_for_ever(other, cluster) for cluster in clusters):
                advice, instead = remedy, without
                break
    yield Finding(
        code=rule.code,
        place=suspect.place,
        consequence=rule.consequence.format(**suspect.words),
        advice=advice,
        shows=rule.shows,
        snapshot=shows_on,
        instead=instead,
        shows_on_yours=on_yours,
    )


def _shown_by_queues(rule: QueueRule, trial: _Trial, snapshot: Snapshot) -> Iterator[Finding]:
    found = rule.found(snapshot)
    for small in small_queue_trees()[rule.code] if found is not None else ():
        without = rule.found(small)
        if found is not None and without and trial.differs(small, trial, without[-1]):
            place, consequence, mended = found
            yield Finding(
                code=rule.code,
                place=place,
                consequence=consequence,
                advice=rule.advice,
                shows="decides otherwise",
                snapshot=small,
                mended=without[-1],
                shows_on_yours=trial.differs(snapshot, trial, mended),
            )
            return


def _reserves(trial: _Trial) -> Callable[[Snapshot], bool]:
    return lambda snapshot: bool(trial.schedule(snapshot).reserved)


def evicts_for_ever(scheduler: Scheduler, snapshot: Snapshot) -> bool:
    """Return whether tasks are still evicted in late cycles although nothing else happens.

    Runs eight cycles, in which evicted tasks come back as Pending and bound tasks start.
    """
    late = 0
    for cycle in range(_CYCLES):
        result = scheduler.schedule(snapshot, reasons=False)
        if not result.evictions and not result.binds and not result.pipelined:
            return False
        late += cycle >= _SETTLED and bool(result.evictions)
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
    return late >= (_CYCLES - _SETTLED) // 2


# Unknown parts, and parts that cannot be built


def _what_cannot_be_built(
    config: SchedulerConfig | None, error: ConfigError, registry: Registry | None
) -> Iterator[Finding]:
    """Yield a finding for each fault: unknown parts with their own codes, all others as Invalid.

    Args:
        config: the configuration; None: it could not even be read.
        error: the error that it caused.
        registry: the plugins and actions that it may name.

    """
    instead, codes = None, dict[str, str]()
    if config is not None and _is_sound(config):
        instead, codes = _without_unknown(config, registry)
    working = None if instead is None else _scheduler(instead, registry)
    # Without a working alternative, use the default to show what would be scheduled.
    shown_by = Scheduler() if working is None else working
    snapshot = next((c for c in small_clusters() if shown_by.schedule(c).binds), None)
    for fault in error.faults:
        code = codes.get(fault.path)
        yield Finding(
            code="Invalid" if code is None else code,
            place=fault.path,
            consequence=f"the configuration cannot be built: {fault.message}",
            advice="correct it, or leave it out" if code is None else "leave it out",
            shows="cannot be built",
            snapshot=small_clusters()[0] if snapshot is None else snapshot,
            instead=None if working is None else instead,
        )


def _what_was_left_out(config: SchedulerConfig, scheduler: Scheduler) -> Iterator[Finding]:
    """Yield a finding for each part that was ignored when a configuration was read.

    What other schedulers have is no mistake.
    """
    unknown = [n for n in config.notices if n.code is not NoticeCode.NOT_MODELLED]
    if not unknown:
        return
    snapshot = next((c for c in small_clusters() if scheduler.schedule(c).binds), None)
    for notice in unknown:
        yield Finding(
            code=notice.code.value,
            place=", ".join(notice.examples),
            consequence=f"{notice.kind} {notice.field!r}: {notice.consequence}",
            advice="leave it out, or correct its name",
            shows="has no effect",
            snapshot=small_clusters()[0] if snapshot is None else snapshot,
            instead=evolve(config, notices=()),
        )


def not_modelled(
    config: SchedulerConfig | Mapping[str, object], *, registry: Registry | None = None
) -> tuple[Notice, ...]:
    """Return what a configuration names that other schedulers have and this library does not.

    That is no mistake, and `check_config` does not report it: it is left out, and each notice says
    what follows. The configuration to use is the one that `SchedulerConfig.from_mapping` reads with
    ``unknown="notice"``. O(names).

    Args:
        config: a configuration read with ``unknown="notice"``, or the parsed content of a
            configuration file.
        registry: the plugins and actions that the configuration may name.

    Raises:
        ConfigError: `config` cannot be read.

    >>> volcano = {"actions": "enqueue, allocate", "tiers": [{"plugins": ["gang", "overcommit"]}]}
    >>> for notice in not_modelled(volcano):
    ...     print(notice.kind, notice.field, "at", *notice.examples, "-", notice.consequence)
    action enqueue at actions[0] - does not run: every job is considered in every cycle, none is \
held back
    plugin overcommit at tiers[0].plugins[1] - left out: nothing limits how many jobs are considered

    """
    if not is_of(config, SchedulerConfig):
        mapping = cast("Mapping[str, object]", config)
        config = SchedulerConfig.from_mapping(mapping, registry=registry, unknown="notice")
    assert isinstance(config, SchedulerConfig)
    return tuple(n for n in config.notices if n.code is NoticeCode.NOT_MODELLED)


class _Unknown(NoticeCollector):
    """Remembers the codes of unknown parts by path."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, str] = {}

    def note(
        self, code: NoticeCode, kind: str, field: str, *, name: str, path: str, consequence: str
    ) -> None:
        self.codes[path] = code.value
        super().note(code, kind, field, name=name, path=path, consequence=consequence)


def _without_unknown(
    config: SchedulerConfig, registry: Registry | None
) -> tuple[SchedulerConfig, dict[str, str]]:
    """Return the configuration without its unknown parts, and their codes by path."""
    unknown = _Unknown()
    known = default_registry() if registry is None else registry
    paths = (
        [f"actions[{position}]" for position in range(len(config.actions))],
        [
            [f"tiers[{at}].plugins[{position}]" for position in range(len(tier.plugins))]
            for at, tier in enumerate(config.tiers)
        ],
    )
    tiers = [
        Tier(plugins=[_without_flags(plugin, path, unknown.codes) for plugin, path in placed])
        for placed in (
            zip(tier.plugins, at, strict=True)
            for tier, at in zip(config.tiers, paths[1], strict=True)
        )
    ]
    actions, kept, _ = without_unknown(config.actions, tuple(tiers), paths, known, unknown)
    return evolve(config, actions=actions, tiers=kept), unknown.codes


def _without_flags(plugin: PluginOption, path: str, codes: dict[str, str]) -> PluginOption:
    for flag in plugin.flags:
        if flag not in ENABLE_FLAGS:
            codes[f"{path}.{flag}"] = NoticeCode.UNKNOWN_FLAG.value
    flags = {flag: is_on for flag, is_on in plugin.flags.items() if flag in ENABLE_FLAGS}
    return evolve(plugin, flags=flags)


def _is_sound(config: object) -> bool:
    """Return whether all parts of a configuration have the right types."""
    if not is_of(config, SchedulerConfig):
        return False
    return (
        all(_is_option(action, ActionOption) for action in _items(config.actions))
        and all(isinstance(tier, Tier) for tier in _items(config.tiers))
        and all(
            _is_option(plugin, PluginOption) and is_mapping(getattr(plugin, "flags", None))
            for tier in config.tiers
            for plugin in _items(tier.plugins)
        )
    )


def _items(given: object) -> tuple[object, ...]:
    return given if is_tuple(given) else (None,)


def _is_option(given: object, kind: type[ActionOption | PluginOption]) -> bool:
    return isinstance(given, kind) and is_text(given.name) and is_mapping(given.arguments)


def _scheduler(config: SchedulerConfig, registry: Registry | None) -> Scheduler | None:
    try:
        return Scheduler(config, registry)
    except ConfigError:
        return None
