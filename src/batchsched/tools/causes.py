"""Why two configurations decide differently on one snapshot: the decision and the rule behind it.

Two traces are compared by what has been decided so far. The last state that both cycles reach is
where they part: from there on nothing that is decided is the same. So decisions that differ without
any effect, such as the order of two jobs that both start, are passed over. Unless the cycles differ
in nothing else, on which nodes tasks start does not count. What the configurations share is never
told as the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

from attrs import define, frozen

from batchsched.causes import UnfitReason, WhyPending
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import TaskStatus
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.tools.config_differences import config_differences, smallest_differences
from batchsched.tools.report import as_dict
from batchsched.trace import (
    JobTaken,
    NodeSought,
    QueuePassedOver,
    QueueRefused,
    QueueTaken,
    StatementEnded,
    TraceEvent,
    VerdictsGiven,
)

_MOST_STEPS = 3
NOT_FOUND = "the cause was not found"


@frozen
class Parting:
    """The first decision that differs although what was decided before is the same, and why."""

    before: str
    """The decision under the first configuration, as text."""
    after: str
    """The decision under the second configuration, as text."""
    why: tuple[str, ...]
    """The rule that made the difference, with what it says on both sides, as text."""
    plugins: tuple[str, ...] = ()
    """The names of the plugins that made the difference, if any did."""
    actions: tuple[str, ...] = ()
    """The names of the actions that made it: those that only one configuration runs, or that they
    run in another order."""
    differences: tuple[str, ...] = ()
    """The differences of the configurations that alone, or only together, give the whole change.

    Empty if no configurations were compared.
    """

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as dicts, lists and strings only, ready for JSON."""
        return as_dict(self)

    def lines(self) -> Iterator[str]:
        """Yield the cause in lines, for a report."""
        if self.before != self.after:
            yield f"before: {self.before}"
            yield f"after:  {self.after}"
        for position, why in enumerate(self.why):
            yield f"{'because' if position == 0 else '    and'} {why}"
        if len(self.differences) == 1:
            yield f"alone gives the whole change: {self.differences[0]}"
        elif self.differences:
            yield "only together these give the whole change:"
            yield from (f"  {difference}" for difference in self.differences)


def decisions(result: CycleResult) -> tuple[object, ...]:
    """Return the decisions of a cycle, without the reasons."""
    return (result.binds, result.evictions, result.pipelined, result.conditional, result.reserved)


def outcomes(result: CycleResult) -> tuple[object, ...]:
    """Return the decisions of a cycle, and where tasks are that it only holds places for."""
    places = {uid: (task.status, task.node_name) for uid, task in result.tasks.items()}
    return (*decisions(result), places)


# One configuration, and what it decides


class Side:
    """A configuration, and its traced cycle on a snapshot."""

    def __init__(
        self, word: str, config: SchedulerConfig, snapshot: Snapshot, registry: Registry | None
    ) -> None:
        self.word = word
        self.snapshot = snapshot
        # Attempts that are known to fail are made all the same, so that both cycles tell of them.
        self._scheduler = Scheduler(config, registry, plain={"attempts"})
        self.config = self._scheduler.config
        self.events: list[TraceEvent] = []
        self.result = self._scheduler.schedule_traced(snapshot, self.events.append)

    @cached_property
    def actions(self) -> list[str]:
        """The names of its actions, in order."""
        return [action.name for action in self.config.actions]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The names of tasks as people know them, by UID."""
        of_jobs = (task for job in self.snapshot.jobs for task in job.tasks)
        return {task.uid: task.display_name for task in (*of_jobs, *self.snapshot.other_tasks)}

    def with_rivals(self, position: int) -> TraceEvent:
        """Return an event, with the alternatives that there were. Runs the cycle once more."""
        events: list[TraceEvent] = []
        self._scheduler.schedule_traced(self.snapshot, events.append, rivals_at=position)
        return events[position]

    def queue_of(self, job: str) -> str:
        """Return the queue of a job."""
        return next((each.queue for each in self.snapshot.jobs if each.uid == job), "")

    def has_plugin(self, name: str) -> bool:
        """Return whether a plugin is configured."""
        return any(plugin.name == name for tier in self.config.tiers for plugin in tier.plugins)

    def why_waits(self, job: str) -> tuple[str, str]:
        """Return why a job waits at the end of the cycle, and the plugin that says so, if any."""
        outcome = self.result.jobs.get(job)
        condition = None if outcome is None else outcome.condition
        for each in self.snapshot.jobs:
            if each.uid != job:
                continue
            for task in each.tasks:
                reason = self.result.pending.get(task.uid)
                if reason is not None:
                    plugin = "" if reason.refusal is None else reason.refusal.plugin
                    if not plugin and reason.tally is not None:
                        refused = {unfit.plugin for unfit in reason.tally.unfit} - {""}
                        plugin = min(refused) if len(refused) == 1 else ""
                    if not plugin and reason.why is WhyPending.QUEUE_OVERUSED:
                        plugin = "proportion" if self.has_plugin("proportion") else ""
                    elif not plugin and condition is not None:
                        plugin = condition.plugin
                    return reason.text, plugin
        return ("" if condition is None else condition.message), ""


_Reason = tuple[str, str]
"""A plugin, and what it says."""


@frozen
class _Turn:
    """What a cycle did with a job, one after the other."""

    action: str
    job: str
    first: int
    """The position of its first event."""
    end: int
    """The position behind its last event."""
    steps: frozenset[tuple[str, str, str]]
    """What was decided: task, node and status."""


@define
class _Window:
    """What a cycle did from a state of the cluster on, until that changed."""

    turns: list[_Turn]
    passed_over: set[tuple[str, str]]
    """Actions and the queues that they skipped."""

    @property
    def decided(self) -> _Turn | None:
        """The turn that changed the state; None: nothing more was decided."""
        return self.turns[-1] if self.turns and self.turns[-1].steps else None


def _windows(
    events: Sequence[TraceEvent], numbers: dict[tuple[str, str, str], int], *, by_node: bool
) -> dict[int, _Window]:
    """Return the windows of a trace by the state in which they begin, in order.

    A state is the set of all decisions so far, as bits; with the nodes only if `by_node`.
    """
    state = 0
    window = _Window([], set())
    found = {state: window}
    action, job, first = "", "", 0
    for position, event in enumerate(events):
        if isinstance(event, VerdictsGiven):
            continue
        steps: frozenset[tuple[str, str, str]] = frozenset()
        begins = isinstance(event, (QueueTaken, JobTaken, QueuePassedOver))
        if begins or event.action != action:
            if first < position and (job or not begins):
                window.turns.append(_Turn(action, job, first, position, steps))
            action, first = event.action, position
            job = event.job if isinstance(event, JobTaken) else ""
        if isinstance(event, QueuePassedOver):
            window.passed_over.add((event.action, event.queue))
        if isinstance(event, QueueRefused):
            job = job or event.job
        if not isinstance(event, StatementEnded):
            continue
        job = job or event.job or ""
        if event.committed and event.steps:
            steps = frozenset(
                (step.task, step.node if by_node else "", step.status) for step in event.steps
            )
            window.turns.append(_Turn(action, job, first, position + 1, steps))
            first = position + 1
            for step in sorted(steps):
                state |= 1 << numbers.setdefault(step, len(numbers))
            window = _Window([], set())
            found[state] = window
    if first < len(events) and job:
        window.turns.append(_Turn(action, job, first, len(events), frozenset()))
    return found


def _pairs(ones: Iterable[_Turn], others: Iterable[_Turn]) -> Iterator[tuple[_Turn, _Turn]]:
    """Yield the first turns of the same job in the same action; of several, one that decides."""
    theirs, mine = _by_job(others), _by_job(ones)
    for key, turn in mine.items():
        if key in theirs:
            yield turn, theirs[key]


def _by_job(turns: Iterable[_Turn]) -> dict[tuple[str, str], _Turn]:
    found: dict[tuple[str, str], _Turn] = {}
    for turn in turns:
        key = turn.action, turn.job
        if turn.job and (key not in found or (turn.steps and not found[key].steps)):
            found[key] = turn
    return found


# The cause


def find_cause(
    snapshot: Snapshot, before: Side, after: Side, registry: Registry | None
) -> Parting | None:
    """Return the first decision that differs between two cycles on a snapshot, and its cause.

    Returns None if both decide the same. Some cycles: one for each single difference of the
    configurations, and at most five that are traced.
    """
    wanted = outcomes(after.result)
    if outcomes(before.result) == wanted:
        return None

    def decides_alike(config: SchedulerConfig) -> bool:
        result = Scheduler(config, registry).schedule(snapshot, reasons=False)
        return outcomes(result) == wanted

    kept, config = smallest_differences(before.config, after.config, decides_alike)
    # What makes no difference should not be told.
    nearest = after if config == after.config else Side("after", config, snapshot, registry)
    cause = _Cause(before, nearest).find()
    return Parting(
        cause.before,
        cause.after,
        cause.why or (NOT_FOUND,),
        cause.plugins,
        cause.actions,
        tuple(difference.text for difference in kept),
    )


class _Cause:
    """Looks for the decision in which two cycles part."""

    def __init__(self, before: Side, after: Side) -> None:
        self._sides = before, after
        differences = config_differences(before.config, after.config)
        self._differing = {name for each in differences for name in each.names}
        """The names of actions and plugins on which the configurations differ."""

    def find(self) -> Parting:
        """Return where the cycles part."""
        for by_node in (False, True):
            numbers: dict[tuple[str, str, str], int] = {}
            windows = [_windows(side.events, numbers, by_node=by_node) for side in self._sides]
            ones, others = windows
            if by_node or [*ones][-1] != [*others][-1]:
                break
        state = [state for state in ones if state in others][-1]
        one, other = ones[state], others[state]
        for turn, match in chain(_pairs(one.turns, other.turns), self._refused(*windows)):
            if match.steps != turn.steps:
                found = self._in_turns(turn, match, by_node=by_node)
                if found.why != (NOT_FOUND,):
                    return found
        left, right = one.decided, other.decided
        if left is not None and right is not None and left.action == right.action:
            return self._in_order(left, right)
        return self._in_actions(left, right)

    def _refused(
        self, before: Mapping[int, _Window], after: Mapping[int, _Window]
    ) -> Iterator[tuple[_Turn, _Turn]]:
        """Yield the turns of jobs that only one cycle places because a queue refuses them there."""
        ones, others = ([t for w in each.values() for t in w.turns] for each in (before, after))
        for pair in _pairs(ones, others):
            refusing = (
                event.refusal.reason
                for side, each in zip(self._sides, pair, strict=True)
                for event in side.events[each.first : each.end]
                if isinstance(event, QueueRefused) and not each.steps
            )
            reason = next(refusing, UnfitReason.INSUFFICIENT_RESOURCE)
            is_one = bool(pair[0].steps) != bool(pair[1].steps)
            if is_one and reason is not UnfitReason.INSUFFICIENT_RESOURCE:
                yield pair

    def _told(
        self, said: Sequence[str], reasons: Sequence[_Reason], actions: Sequence[str] = ()
    ) -> Parting:
        """Return the cause, if it is one: what both have alike is none."""
        before, after = said
        plugins = tuple(dict.fromkeys(plugin for plugin, _ in reasons if plugin))
        if not self._differing & {*plugins, *actions}:
            return Parting(before, after, (NOT_FOUND,))
        why = tuple(text for _, text in reasons)
        return Parting(before, after, why, plugins, tuple(actions))

    def _on_both(self, tell: Callable[[int], _Reason | None]) -> list[_Reason]:
        """Return what is told of each side, with its word."""
        told = [(side.word, tell(position)) for position, side in enumerate(self._sides)]
        return [(reason[0], f"{word}: {reason[1]}") for word, reason in told if reason is not None]

    # The same job in the same state

    def _in_turns(self, left: _Turn, right: _Turn, *, by_node: bool) -> Parting:
        turns = left, right
        choices = [
            [
                (position, event)
                for position, event in enumerate(side.events[turn.first : turn.end], turn.first)
                if not isinstance(event, (VerdictsGiven, QueueTaken))
            ]
            for side, turn in zip(self._sides, turns, strict=True)
        ]
        at = 0
        for (_, one), (_, other) in zip(*choices, strict=False):
            if _what(one, by_node=by_node) != _what(other, by_node=by_node):
                break
            at += 1
        found = [each[at] if at < len(each) else None for each in choices]
        said = [
            f"{turn.action} leaves job {turn.job!r} waiting"
            if each is None
            else _described(each[1], side.names)
            for side, turn, each in zip(self._sides, turns, found, strict=True)
        ]

        def tell(position: int) -> _Reason | None:
            mine, rival = found[position], found[1 - position]
            side, turn = self._sides[position], turns[position]
            return None if mine is None else _reason(side, turn, mine, rival and rival[1])

        reasons = self._on_both(tell)
        if not self._differing & {plugin for plugin, _ in reasons}:
            before, after = (
                _verdicts(side.events[turn.first : turn.end])
                for side, turn in zip(self._sides, turns, strict=True)
            )
            changed = _changed_verdicts(before, after, self._sides[0].names)
            reasons += [
                (plugin, f"verdict of {plugin} on {what}")
                for plugin, what in changed.items()
                if plugin in self._differing
            ]
        return self._told(said, reasons)

    # Another job in the same state

    def _in_order(self, left: _Turn, right: _Turn) -> Parting:
        """Tell why an action takes one job before, and another one after."""
        turns = left, right
        said = [f"{turn.action} takes job {turn.job!r}" for turn in turns]
        queues = [self._sides[0].queue_of(turn.job) for turn in turns]
        if queues[0] != queues[1]:
            said = [f"{text} of queue {queue!r}" for text, queue in zip(said, queues, strict=True)]
        return self._told(
            said,
            self._on_both(lambda at: self._order_reason(self._sides[at], turns[at], turns[1 - at])),
        )

    def _order_reason(self, side: Side, mine: _Turn, rival: _Turn) -> _Reason | None:
        queue, other = side.queue_of(mine.job), side.queue_of(rival.job)
        kind = JobTaken if queue == other else QueueTaken
        at = mine.first
        while at >= 0 and not isinstance(side.events[at], kind):
            at -= 1
        if at < 0:
            return None
        event = side.with_rivals(at)
        if isinstance(event, JobTaken):
            reason = _key_reason(event.job, event.key, rival.job, event.rivals)
        else:
            assert isinstance(event, QueueTaken)
            reason = _key_reason(event.queue, event.key, other, event.rivals)
        return reason or self._why_not_taken(side, rival)

    # Another action in the same state, or none

    def _in_actions(self, left: _Turn | None, right: _Turn | None) -> Parting:
        """Tell why only one cycle goes on in an action."""
        turns = left, right
        said = [_decided(side, turn) for side, turn in zip(self._sides, turns, strict=True)]
        lists = [side.actions for side in self._sides]
        for position, turn in enumerate(turns):
            if turn is not None and turn.action not in lists[1 - position]:
                text = f"action {turn.action!r} runs only {self._sides[position].word}"
                return self._told(said, [("", text)], [turn.action])
        common = [[name for name in each if name in lists[1 - i]] for i, each in enumerate(lists)]
        if common[0] != common[1]:
            texts = [", ".join(each) for each in lists]
            text = f"the actions are {texts[0]} before, {texts[1]} after"
            moved = {n for pair in zip(*common, strict=False) if pair[0] != pair[1] for n in pair}
            return self._told(said, [("", text)], sorted(moved))
        # Both run the same actions: one of them left a job waiting that the other took.
        ranks = [len(lists[0]) if t is None else lists[0].index(t.action) for t in turns]
        goes_on = ranks.index(min(ranks))
        turn, side = turns[goes_on], self._sides[1 - goes_on]
        reason = None if turn is None else self._why_not_taken(side, turn)
        if reason is None:
            return self._told(said, ())
        plugin, text = reason
        reasons = [(plugin, f"{side.word}: {text}")]
        there = self._sides[goes_on]
        if not there.has_plugin(plugin):
            reasons.append((plugin, f"{there.word}: plugin {plugin!r} is not configured"))
        return self._told(said, reasons)

    def _why_not_taken(self, side: Side, turn: _Turn) -> _Reason | None:
        """Return the plugin for which a job was not taken, and what it says."""
        text, plugin = side.why_waits(turn.job)
        return (plugin, f"job {turn.job!r} waits: {text}") if text and plugin else None


def _reason(
    side: Side, turn: _Turn, found: tuple[int, TraceEvent], rival: TraceEvent | None
) -> _Reason | None:
    """Return the plugin behind a decision about a job, and what it says."""
    position, event = found
    if isinstance(event, QueueRefused):
        return event.refusal.plugin, f"{event.refusal.plugin} refuses it: {event.refusal.text}"
    if isinstance(rival, QueueRefused):
        other = rival.refusal.plugin
        if not side.has_plugin(other):
            return other, f"plugin {other!r}, which refuses it, is not configured"
        return other, f"{other} does not refuse it"
    if not isinstance(event, NodeSought) or not isinstance(rival, NodeSought):
        return None
    if event.node is None:
        text, plugin = side.why_waits(turn.job)
        return (plugin, f"{turn.job!r} waits: {text}") if text else None
    if rival.node is None or event.task != rival.task:
        return None
    detailed = side.with_rivals(position)
    assert isinstance(detailed, NodeSought)
    return _score_reason(detailed, rival.node)


# Events in words


_STEPS = {
    TaskStatus.RELEASING.value: "evicts {} from {}",
    TaskStatus.PIPELINED.value: "promises {} room on {}",
    TaskStatus.CONDITIONAL.value: "promises {} room on {}",
    TaskStatus.RESERVED.value: "reserves for {} node {}",
}


def _steps_text(
    action: str, steps: Sequence[tuple[str, str, str]], names: Mapping[str, str]
) -> str:
    """Return what an action does with tasks: task, node and new status of each."""
    told = [
        _STEPS.get(status, "places {} on {}").format(names[task], node)
        for task, node, status in steps
    ]
    more = f" and {len(told) - _MOST_STEPS} more" if len(told) > _MOST_STEPS else ""
    return f"{action} {', '.join(told[:_MOST_STEPS]) or 'does nothing'}{more}"


def _decided(side: Side, turn: _Turn | None) -> str:
    if turn is None:
        return "nothing more is decided"
    event = side.events[turn.end - 1]
    assert isinstance(event, StatementEnded)
    steps = [(step.task, step.node, step.status) for step in event.steps]
    return _steps_text(turn.action, steps, side.names)


def _what(event: TraceEvent, *, by_node: bool) -> tuple[object, ...]:
    """Return the decision of an event, without the keys and scores behind it."""
    match event:
        case QueueTaken() | QueuePassedOver():
            return type(event), event.action, event.queue
        case QueueRefused():
            return type(event), event.action, event.tasks
        case JobTaken():
            return type(event), event.action, event.job
        case NodeSought():
            found = event.node if by_node else event.node is not None
            return type(event), event.action, event.task, event.fit, found
        case StatementEnded():
            steps = [(each.task, each.node if by_node else "", each.status) for each in event.steps]
            return type(event), event.action, event.committed, steps
        case VerdictsGiven():
            return (type(event),)


def _described(event: TraceEvent, names: Mapping[str, str]) -> str:
    match event:
        case QueueTaken():
            return f"{event.action} takes queue {event.queue!r}"
        case QueuePassedOver():
            return f"{event.action} skips queue {event.queue!r}, which is overused"
        case QueueRefused():
            return f"{event.action} places nothing of job {event.job!r}: {event.refusal.text}"
        case JobTaken():
            return f"{event.action} takes job {event.job!r}"
        case NodeSought():
            chosen = "no node" if event.node is None else f"node {event.node!r}"
            fit = "" if event.fit == "now" else f" ({event.fit})"
            return f"{event.action} finds {chosen} for task {names[event.task]!r}{fit}"
        case StatementEnded():
            steps = [(step.task, step.node, step.status) for step in event.steps]
            undone = "" if event.committed else ", and undoes it"
            return f"{_steps_text(event.action, steps, names)}{undone}: {event.why}"
        case VerdictsGiven():
            return f"{event.plugin} judges the victims of {names[event.claimant]!r}"


def _key_reason(
    taken: str, key: Mapping[str, object], other: str, rivals: Mapping[str, Mapping[str, object]]
) -> _Reason | None:
    """Return the plugin whose key puts something first; None: another rule decides."""
    for plugin, value in key.items() if other in rivals else ():
        theirs = rivals[other][plugin]
        if theirs != value:
            return plugin, (
                f"{plugin} puts {taken!r} first: {_value_text(value)} before {_value_text(theirs)}"
            )
    return None


def _score_reason(event: NodeSought, rival: str) -> _Reason:
    theirs = event.rivals.get(rival)
    if theirs is None:
        return "", f"node {rival!r} is not among the nodes that were compared"
    differences = {name: score - theirs.get(name, 0) for name, score in event.scores.items()}
    plugin = max(differences, key=lambda name: differences[name], default="")
    if not plugin or differences[plugin] <= 0:
        return "", f"nodes {event.node!r} and {rival!r} have equal scores; the first is taken"
    mine, other = _value_text(event.scores[plugin]), _value_text(theirs.get(plugin, 0))
    return plugin, f"{plugin} scores {event.node!r} {mine}, {rival!r} {other}"


def _value_text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _verdicts(events: Sequence[TraceEvent]) -> dict[tuple[str, str], str]:
    """Return the verdicts of the last search, by plugin and candidate."""
    found: dict[tuple[str, str], str] = {}
    claimant = ""
    for event in reversed(events):
        if isinstance(event, VerdictsGiven):
            if claimant and event.claimant != claimant:
                break
            claimant = event.claimant
            for candidate, verdict in event.verdicts.items():
                found.setdefault((event.plugin, candidate), verdict)
    return found


def _changed_verdicts(
    before: Mapping[tuple[str, str], str],
    after: Mapping[tuple[str, str], str],
    names: Mapping[str, str],
) -> dict[str, str]:
    changed: dict[str, str] = {}
    for key in sorted({*before, *after}):
        one, other = before.get(key, "nothing"), after.get(key, "nothing")
        if one != other:
            plugin, candidate = key
            changed.setdefault(plugin, f"{names[candidate]!r}: {one} before, {other} after")
    return changed
