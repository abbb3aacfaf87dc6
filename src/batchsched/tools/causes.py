"""Why two configurations decide differently on one snapshot: the decision and the rule behind it.

Two traces are compared by what has been decided so far. The last state that both cycles reach is
where they part: from there on nothing that is decided is the same. So decisions that differ without
any effect, such as the order of two jobs that both start, are passed over. Unless the cycles differ
in nothing else, on which nodes tasks start does not count. What the configurations share is never
told as the cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile, zip_longest

from attrs import evolve, frozen

from batchsched.causes import WhyPending
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.result import DECISIONS, CycleResult, Move
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import first_of
from batchsched.scheduler import Scheduler
from batchsched.tools.config_differences import config_differences, smallest_differences
from batchsched.tools.report import as_dict
from batchsched.trace import (
    JobTaken,
    NodeSought,
    Placed,
    QueuePassedOver,
    QueueRefused,
    QueueTaken,
    StatementEnded,
    TraceEvent,
    UnitsTaken,
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
    return tuple(row.of(result) for row in DECISIONS if row.is_compared)


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
        self.actions = [action.name for action in self.config.actions]
        """The names of its actions, in order."""

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The names of tasks as people know them, by UID."""
        of_jobs = (task for job in self.snapshot.jobs for task in job.tasks)
        return {task.uid: task.display_name for task in (*of_jobs, *self.snapshot.other_tasks)}

    @cached_property
    def jobs(self) -> Mapping[str, JobInfo]:
        """The jobs by UID."""
        return {job.uid: job for job in self.snapshot.jobs}

    @cached_property
    def moves(self) -> Mapping[str, Move]:
        """What it moves, by task."""
        return {move.task_uid: move for move in self.result.moves}

    def with_rivals(self, position: int) -> TraceEvent:
        """Return an event, with the alternatives that there were. Runs the cycle once more."""
        events: list[TraceEvent] = []
        self._scheduler.schedule_traced(self.snapshot, events.append, rivals_at=position)
        return events[position]

    def has_plugin(self, name: str) -> bool:
        """Return whether a plugin is configured."""
        return any(plugin.name == name for tier in self.config.tiers for plugin in tier.plugins)

    def why_waits(self, uid: str) -> _Reason:
        """Return the plugin for which a job waits, if one says so, and why it waits."""
        outcome = self.result.jobs.get(uid)
        condition = None if outcome is None else outcome.condition
        reasons = (self.result.pending.get(task.uid) for task in self.jobs[uid].tasks)
        reason = next(filter(None, reasons), None)
        if reason is None:
            return "", "" if condition is None else condition.message
        plugin = "" if reason.refusal is None else reason.refusal.plugin
        if not plugin and reason.tally is not None:
            refused = {unfit.plugin for unfit in reason.tally.unfit} - {""}
            plugin = min(refused) if len(refused) == 1 else ""
        if not plugin and reason.why is WhyPending.QUEUE_OVERUSED:
            plugin = "proportion" if self.has_plugin("proportion") else ""
        elif not plugin and condition is not None:
            plugin = condition.plugin
        return plugin, reason.text

    def why_not_taken(self, uid: str) -> _Reason | None:
        """Return the plugin for which a job was not taken, and what it says."""
        plugin, text = self.why_waits(uid)
        return (plugin, f"job {uid!r} waits: {text}") if text and plugin else None


_Reason = tuple[str, str]
"""A plugin, and what it says."""
_Step = tuple[str, str, str]
"""What was decided: task, node and status."""


@frozen
class _Turn:
    """What a cycle did with a job, one after the other."""

    action: str
    job: str
    first: int
    """The position of its first event."""
    events: Sequence[TraceEvent]
    steps: frozenset[_Step] = frozenset()


def _turns_by_state(
    events: Sequence[TraceEvent], numbers: dict[_Step, int], *, by_node: bool
) -> dict[int, list[_Turn]]:
    """Return the turns of a trace by the state in which they began, in order.

    A state is the set of all decisions so far, as bits; with the nodes only if `by_node`. The last
    turn in a state is that which changes it, unless nothing more was decided.
    """
    state = first = 0
    action = job = ""
    found: dict[int, list[_Turn]] = {state: []}
    for position, event in enumerate(events):
        if isinstance(event, (VerdictsGiven, UnitsTaken)):
            continue
        begins = isinstance(event, (QueueTaken, JobTaken, QueuePassedOver))
        if begins or event.action != action:
            if first < position and job:
                found[state].append(_Turn(action, job, first, events[first:position]))
            action, first = event.action, position
            job = event.job if isinstance(event, JobTaken) else ""
        if isinstance(event, (QueueRefused, StatementEnded)):
            job = job or event.job or ""
        if isinstance(event, StatementEnded) and event.committed and event.steps:
            end, steps = position + 1, frozenset(_steps(event, by_node=by_node))
            found[state].append(_Turn(action, job, first, events[first:end], steps))
            first = end
            for step in sorted(steps):
                state |= 1 << numbers.setdefault(step, len(numbers))
            found[state] = []
    if first < len(events) and job:
        found[state].append(_Turn(action, job, first, events[first:]))
    return found


def _steps(event: StatementEnded, *, by_node: bool) -> list[_Step]:
    return [(step.task, step.node if by_node else "", step.status) for step in event.steps]


def _decided(turns: Sequence[_Turn]) -> _Turn | None:
    """Return the turn that changed the state; None: nothing more was decided."""
    return turns[-1] if turns and turns[-1].steps else None


def _by_job(turns: Iterable[_Turn]) -> dict[tuple[str, str], _Turn]:
    """Return the first turn of each job in each action; of several, one that decides."""
    found: dict[tuple[str, str], _Turn] = {}
    for turn in turns:
        key = turn.action, turn.job
        if turn.steps or key not in found:
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
    return evolve(cause, differences=tuple(difference.text for difference in kept))


class _Cause:
    """Looks for the decision in which two cycles part."""

    def __init__(self, before: Side, after: Side) -> None:
        self._sides = before, after
        differences = config_differences(before.config, after.config)
        self._differing = {name for each in differences for name in each.names}
        """The names of actions and plugins on which the configurations differ."""

    def find(self) -> Parting:
        """Return where the cycles part: in what they do with a job, or with which they go on."""
        for by_node in (False, True):
            numbers: dict[_Step, int] = {}
            ones, others = (
                _turns_by_state(side.events, numbers, by_node=by_node) for side in self._sides
            )
            if by_node or [*ones][-1] != [*others][-1]:
                break
        state = [state for state in ones if state in others][-1]
        theirs = _by_job(others[state])
        for key, mine in _by_job(ones[state]).items():
            if key in theirs and mine.steps != theirs[key].steps:
                found = self._in_turns((mine, theirs[key]), by_node=by_node)
                if found.why != (NOT_FOUND,):
                    return found
        return self._in_order(_decided(ones[state]), _decided(others[state]))

    def _told(
        self, said: Sequence[str], reasons: Sequence[_Reason], actions: Sequence[str] = ()
    ) -> Parting:
        """Return the cause, if it is one: what both have alike is none."""
        before, after = said
        plugins = tuple(dict.fromkeys(plugin for plugin, _ in reasons if plugin))
        if not self._differing & {*plugins, *actions}:
            return Parting(before, after, (NOT_FOUND,))
        return Parting(before, after, tuple(text for _, text in reasons), plugins, tuple(actions))

    def _by_side(self, reasons: Iterable[_Reason | None]) -> list[_Reason]:
        """Return what is told of each side, with its word."""
        told = zip(self._sides, reasons, strict=True)
        return [(reason[0], f"{side.word}: {reason[1]}") for side, reason in told if reason]

    def _in_turns(self, turns: tuple[_Turn, _Turn], *, by_node: bool) -> Parting:
        """Tell why the cycles do different things with a job in the same state."""
        sides = [*zip(self._sides, turns, strict=True)]
        choices = (
            [
                (position, event)
                for position, event in enumerate(turn.events, turn.first)
                if not isinstance(event, (VerdictsGiven, QueueTaken, UnitsTaken))
            ]
            for turn in turns
        )
        found = next(
            (one, other)
            for one, other in zip_longest(*choices)
            if _decision(one, by_node=by_node) != _decision(other, by_node=by_node)
        )
        said = [
            f"{turn.action} leaves job {turn.job!r} waiting"
            if each is None
            else _described(each[1], side)
            for (side, turn), each in zip(sides, found, strict=True)
        ]
        reasons = self._by_side(
            _reason(side, turn, mine, rival)
            for (side, turn), mine, rival in zip(sides, found, found[::-1], strict=True)
        )
        if not self._differing & {plugin for plugin, _ in reasons}:
            reasons += [
                (plugin, f"verdict of {plugin} on {what}")
                for plugin, what in _changed_verdicts(turns, self._sides[0].names).items()
                if plugin in self._differing
            ]
        return self._told(said, reasons)

    def _in_order(self, *turns: _Turn | None) -> Parting:
        """Tell why the cycles go on with different jobs in the same state, or only one does."""
        left, right = turns
        if left is not None and right is not None and left.action == right.action:
            queues = [self._sides[0].jobs[turn.job].queue for turn in (left, right)]
            of_queue = ["" if queues[0] == queues[1] else f" of queue {each!r}" for each in queues]
            said = [
                f"{turn.action} takes job {turn.job!r}{where}"
                for turn, where in zip((left, right), of_queue, strict=True)
            ]
            before, after = self._sides
            return self._told(
                said,
                self._by_side([_why_first(before, left, right), _why_first(after, right, left)]),
            )
        said = [_last_steps(side, turn) for side, turn in zip(self._sides, turns, strict=True)]
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
        turn, there, waits = turns[goes_on], self._sides[goes_on], self._sides[1 - goes_on]
        reason = None if turn is None else waits.why_not_taken(turn.job)
        reasons: list[_Reason] = []
        if reason is not None:
            plugin, text = reason
            reasons.append((plugin, f"{waits.word}: {text}"))
            if not there.has_plugin(plugin):
                reasons.append((plugin, f"{there.word}: plugin {plugin!r} is not configured"))
        found = self._told(said, reasons)
        if found.why == (NOT_FOUND,) and turn is not None and turn.action in self._differing:
            text = f"action {turn.action!r} is configured otherwise"
            return self._told(said, [("", text)], [turn.action])
        return found


_Choice = QueuePassedOver | QueueRefused | JobTaken | NodeSought | StatementEnded
"""What is compared between two turns."""
_Found = tuple[int, _Choice] | None
"""An event and its position in the trace."""


def _why_first(side: Side, mine: _Turn, rival: _Turn) -> _Reason | None:
    """Return the plugin for which a side takes a job, or its queue, before another one."""
    queue, other = side.jobs[mine.job].queue, side.jobs[rival.job].queue
    kind = JobTaken if queue == other else QueueTaken
    at = mine.first
    while at >= 0 and not isinstance(side.events[at], kind):
        at -= 1
    if at < 0:
        return None
    event = side.with_rivals(at)
    assert isinstance(event, (JobTaken, QueueTaken))
    taken = event.job if isinstance(event, JobTaken) else event.queue
    theirs = event.rivals.get(rival.job if isinstance(event, JobTaken) else other, event.key)
    for plugin, value in event.key.items():
        if theirs[plugin] != value:
            first = f"{_value_text(value)} before {_value_text(theirs[plugin])}"
            return plugin, f"{plugin} puts {taken!r} first: {first}"
    return side.why_not_taken(rival.job)


def _reason(side: Side, turn: _Turn, found: _Found, other: _Found) -> _Reason | None:
    """Return the plugin behind a decision about a job, and what it says."""
    if found is None:
        return None
    position, event = found
    rival = None if other is None else other[1]
    if isinstance(event, QueueRefused):
        return event.refusal.plugin, f"{event.refusal.plugin} refuses it: {event.refusal.text}"
    if isinstance(rival, QueueRefused):
        plugin = rival.refusal.plugin
        if not side.has_plugin(plugin):
            return plugin, f"plugin {plugin!r}, which refuses it, is not configured"
        return plugin, f"{plugin} does not refuse it"
    if not isinstance(event, NodeSought) or not isinstance(rival, NodeSought):
        return None
    if event.node is None:
        plugin, text = side.why_waits(turn.job)
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


def _step_text(step: Placed, side: Side) -> str:
    name, move = side.names[step.task], side.moves.get(step.task)
    if move is not None and (step.node, step.status) == (move.to_node, TaskStatus.PIPELINED.value):
        return f"moves {name} from {move.from_node} to {step.node}"
    return _STEPS.get(step.status, "places {} on {}").format(name, step.node)


def _steps_text(event: StatementEnded, side: Side) -> str:
    """Return what an action does with tasks."""
    told = [_step_text(step, side) for step in event.steps]
    return f"{event.action} {first_of(told, _MOST_STEPS) or 'does nothing'}"


def _last_steps(side: Side, turn: _Turn | None) -> str:
    if turn is None:
        return "nothing more is decided"
    event = turn.events[-1]
    assert isinstance(event, StatementEnded)
    return _steps_text(event, side)


def _decision(found: _Found, *, by_node: bool) -> tuple[object, ...]:
    """Return what is decided, whatever the keys and scores behind it."""
    if found is None:
        return ()
    event = found[1]
    what = [getattr(event, name, None) for name in ("action", "queue", "job", "task", "tasks")]
    if isinstance(event, NodeSought):
        what += [event.fit, event.node if by_node else event.node is not None]
    if isinstance(event, StatementEnded):
        what = [event.action, event.committed, *_steps(event, by_node=by_node)]
    return (type(event), *what)


def _described(event: _Choice, side: Side) -> str:
    match event:
        case QueuePassedOver():
            return f"{event.action} skips queue {event.queue!r}, which is overused"
        case QueueRefused():
            return f"{event.action} places nothing of job {event.job!r}: {event.refusal.text}"
        case JobTaken():
            return f"{event.action} takes job {event.job!r}"
        case NodeSought():
            chosen = "no node" if event.node is None else f"node {event.node!r}"
            fit = "" if event.fit == "now" else f" ({event.fit})"
            return f"{event.action} finds {chosen} for task {side.names[event.task]!r}{fit}"
        case StatementEnded():
            undone = "" if event.committed else ", and undoes it"
            return f"{_steps_text(event, side)}{undone}: {event.why}"


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
    given = [event for event in reversed(events) if isinstance(event, VerdictsGiven)]
    last = [*takewhile(lambda event: event.claimant == given[0].claimant, given)]
    return {
        (event.plugin, candidate): verdict
        for event in reversed(last)
        for candidate, verdict in event.verdicts.items()
    }


def _changed_verdicts(turns: tuple[_Turn, _Turn], names: Mapping[str, str]) -> dict[str, str]:
    before, after = (_verdicts(turn.events) for turn in turns)
    changed: dict[str, str] = {}
    for plugin, candidate in sorted({*before, *after}):
        one, other = (each.get((plugin, candidate), "nothing") for each in (before, after))
        if one != other:
            changed.setdefault(plugin, f"{names[candidate]!r}: {one} before, {other} after")
    return changed
