"""The first decision in which two cycles on one snapshot differ, and its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.session.trace_events import (
    JobTaken,
    NodeSought,
    QueuePassedOver,
    QueueTaken,
    StatementEnded,
    TraceEvent,
    VerdictsGiven,
)

__all__ = ["Parting", "find_parting"]


@frozen
class Parting:
    """The first decision that differs, and its cause."""

    before: str
    """The decision under the first configuration, as text."""
    after: str
    """The decision under the second configuration, as text."""
    why: tuple[str, ...]
    """The plugin's key, score or verdict, or the action, that made the difference, as text."""
    plugins: tuple[str, ...] = ()
    """The names of the plugins that made the difference, if any did."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as dicts, lists and strings only, ready for JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "why": list[JsonValue](self.why),
            "plugins": list[JsonValue](self.plugins),
        }


def find_parting(
    snapshot: Snapshot,
    before: Scheduler,
    after: Scheduler,
    traces: tuple[Sequence[TraceEvent], Sequence[TraceEvent]],
) -> Parting | None:
    """Find the first decision in which two traces differ; None if they are equal."""
    first, second = (_choices(trace) for trace in traces)
    for (at, one), (other_at, other) in zip(first, second, strict=False):
        if _what(one) != _what(other):
            return _parting(snapshot, before, after, (one, at), (other, other_at), traces)
    if len(first) == len(second):
        return None
    is_shorter = len(first) < len(second)
    longer = second if is_shorter else first
    _, more = longer[min(len(first), len(second))]
    ended, went_on = "no further decision", _describe(more)
    return Parting(
        ended if is_shorter else went_on,
        went_on if is_shorter else ended,
        (f"only one of the two runs action {more.action!r} here",),
    )


def _choices(trace: Sequence[TraceEvent]) -> list[tuple[int, TraceEvent]]:
    return [
        (position, event)
        for position, event in enumerate(trace)
        if not isinstance(event, VerdictsGiven)
    ]


def _what(event: TraceEvent) -> tuple[object, ...]:
    """Return the decision of an event, without the keys and scores behind it."""
    match event:
        case QueueTaken() | QueuePassedOver():
            return type(event), event.action, event.queue
        case JobTaken():
            return type(event), event.action, event.job
        case NodeSought():
            return type(event), event.action, event.task, event.fit, event.node
        case StatementEnded():
            return type(event), event.action, event.committed, event.steps
        case VerdictsGiven():
            return type(event), event.action, event.plugin, event.claimant, *event.verdicts.items()


def _describe(event: TraceEvent) -> str:
    match event:
        case QueueTaken():
            return f"{event.action} takes queue {event.queue!r}"
        case QueuePassedOver():
            return f"{event.action} skips queue {event.queue!r}, which is overused"
        case JobTaken():
            return f"{event.action} takes job {event.job!r}"
        case NodeSought():
            chosen = "no node" if event.node is None else f"node {event.node!r}"
            return f"{event.action} finds {chosen} for task {event.task!r} (fit: {event.fit})"
        case StatementEnded():
            steps = ", ".join(
                f"{step.task} {'off' if step.status == 'Releasing' else 'to'} {step.node}"
                for step in event.steps[:3]
            )
            more = f" and {len(event.steps) - 3} more" if len(event.steps) > 3 else ""  # noqa: PLR2004
            word = "commits" if event.committed else "discards"
            return f"{event.action} {word} {steps or 'nothing'}{more}: {event.why}"
        case VerdictsGiven():
            return f"{event.plugin} judges the victims of {event.claimant!r}"


def _parting(
    snapshot: Snapshot,
    before: Scheduler,
    after: Scheduler,
    one: tuple[TraceEvent, int],
    other: tuple[TraceEvent, int],
    traces: tuple[Sequence[TraceEvent], Sequence[TraceEvent]],
) -> Parting:
    (left, left_at), (right, right_at) = one, other
    said = _describe(left), _describe(right)
    if left.action != right.action:
        reason = f"action {left.action!r} runs here before, action {right.action!r} after"
        return Parting(*said, (reason,))
    why: list[str] = []
    plugins: dict[str, None] = {}
    for word, scheduler, event, at, rival in (
        ("before", before, left, left_at, right),
        ("after", after, right, right_at, left),
    ):
        detailed = _event_at(snapshot, scheduler, at)
        found = _reason(detailed, rival)
        if found is not None and type(event) is type(rival):
            plugin, text = found
            plugins[plugin] = None
            why.append(f"{word}: {text}")
    if not why:
        verdicts = _verdicts_before(traces[0], left_at), _verdicts_before(traces[1], right_at)
        for plugin, changed in _changed_verdicts(*verdicts).items():
            plugins[plugin] = None
            why.append(f"verdict of {plugin} on {changed}")
    if not why:
        why = ["the clusters already differ at this point; see the tasks that run"]
    return Parting(*said, tuple(why), tuple(plugins))


def _event_at(snapshot: Snapshot, scheduler: Scheduler, position: int) -> TraceEvent:
    events: list[TraceEvent] = []
    scheduler.schedule_traced(snapshot, events.append, rivals_at=position)
    return events[position]


def _reason(event: TraceEvent, rival: TraceEvent) -> tuple[str, str] | None:
    """Return the plugin that ordered one choice before the other, and a description."""
    if isinstance(event, NodeSought) and isinstance(rival, NodeSought):
        return _score_reason(event, rival)
    if isinstance(event, JobTaken) and isinstance(rival, JobTaken):
        return _key_reason(event.job, event.key, rival.job, event.rivals)
    if isinstance(event, QueueTaken) and isinstance(rival, QueueTaken):
        return _key_reason(event.queue, event.key, rival.queue, event.rivals)
    return None


def _key_reason(
    taken: str,
    key: Mapping[str, object],
    other: str,
    rivals: Mapping[str, Mapping[str, object]],
) -> tuple[str, str] | None:
    if other not in rivals:
        return "", f"{other!r} does not wait in this cycle"
    for plugin, value in key.items():
        if rivals[other][plugin] != value:
            values = f"{_shown(value)} before {_shown(rivals[other][plugin])}"
            return plugin, f"{plugin} puts {taken!r} first: {values}"
    return None


def _score_reason(event: NodeSought, rival: NodeSought) -> tuple[str, str] | None:
    if event.task != rival.task or event.node is None or rival.node is None:
        return None
    theirs = event.rivals.get(rival.node)
    if theirs is None:
        return "", f"node {rival.node!r} is not among the nodes that were compared"
    differences = {name: score - theirs.get(name, 0) for name, score in event.scores.items()}
    plugin = max(differences, key=lambda name: differences[name], default="")
    if not plugin or differences[plugin] <= 0:
        return "", f"nodes {event.node!r} and {rival.node!r} have equal scores; the first is taken"
    mine, other = _shown(event.scores[plugin]), _shown(theirs.get(plugin, 0))
    return plugin, f"{plugin} scores {event.node!r} {mine}, {rival.node!r} {other}"


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _verdicts_before(trace: Sequence[TraceEvent], at: int) -> dict[tuple[str, str], str]:
    """Return the verdicts of the last search before an event, by plugin and candidate."""
    found: dict[tuple[str, str], str] = {}
    claimant = ""
    for event in reversed(trace[:at]):
        if isinstance(event, VerdictsGiven):
            if claimant and event.claimant != claimant:
                break
            claimant = event.claimant
            for candidate, verdict in event.verdicts.items():
                found.setdefault((event.plugin, candidate), verdict)
        elif isinstance(event, StatementEnded):
            break
    return found


def _changed_verdicts(
    before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    changed: dict[str, str] = {}
    for key in sorted({*before, *after}):
        one, other = before.get(key, "nothing"), after.get(key, "nothing")
        if one != other:
            plugin, candidate = key
            changed.setdefault(plugin, f"{candidate!r}: {one} before, {other} after")
    return changed
