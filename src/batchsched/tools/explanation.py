"""What `explain` answers: why a job waits, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from attrs import Attribute, AttrsInstance, field, fields, frozen, has

from batchsched.model.immutable import EMPTY
from batchsched.model.resource_limit import ResourceLimit
from batchsched.model.resources import Resource
from batchsched.model.serialisation import JsonValue
from batchsched.tools.describe import limit_text, resource_text
from batchsched.tools.report import Report, Section
from batchsched.tools.trials import Change

__all__ = [
    "Explanation",
    "GroupStanding",
    "Holder",
    "NearNode",
    "QueueStanding",
    "TriedChange",
    "VictimsJudged",
]


@frozen(kw_only=True)
class QueueStanding:
    """How the job's queue stands."""

    name: str
    is_known: bool
    """Whether it is in the snapshot."""
    weight: int
    allocated: Resource
    """What its tasks hold."""
    share: float
    """The largest part of any dimension of the cluster that it holds."""
    deserved: Resource | None
    """Its share by weight and demand, as plugin proportion or capacity says; None: no plugin says
    what queues deserve."""
    guarantee: Resource | None
    """What is kept for it; None: no plugin knows of guarantees."""
    limit: ResourceLimit | None
    """The most that it may hold; None: no limit is named, or no plugin heeds limits."""
    on_loan: Resource | None
    """What it holds beyond its share, and others may reclaim; None: no plugin knows."""
    is_overused: bool
    """Whether it has its deserved share, so that allocate passes it over."""
    above: tuple[QueueStanding, ...] = ()
    """The queues that it is a part of, the nearest first, where plugin capacity decides."""


@frozen(kw_only=True)
class GroupStanding:
    """How a group of the job's tasks stands, before the cycle."""

    name: str
    of_groups: bool
    """Whether it consists of other groups; then those are counted, and not tasks."""
    ready: int
    """How many of its tasks hold resources or have succeeded, or how many groups are ready."""
    needed: int
    """How many must start together."""
    maximum: int | None
    is_ready: bool


@frozen(kw_only=True)
class Holder:
    """Who holds room on a node."""

    task: str
    name: str
    """What people call the task."""
    job: str | None
    """None: a task of no job."""
    how: str
    """``runs``, ``is leaving``, ``is promised``, ``is held by an unready gang`` or
    ``is reserved``."""
    amount: Resource
    until: float | None
    """When it should be over, in seconds on the clock of the snapshot, if that is known."""


@frozen(kw_only=True)
class NearNode:
    """A node that would nearly do."""

    name: str
    missing: Resource
    """What more it would have to have idle for one task."""
    refusal: str
    """Why it refuses the task whatever it has; empty if it does not."""
    holders: tuple[Holder, ...]
    """Who holds room there, the largest first."""


@frozen(kw_only=True)
class VictimsJudged:
    """What a plugin says of tasks that an action could evict."""

    action: str
    plugin: str
    verdict: str
    count: int
    """How many tasks got this verdict."""
    example: str
    """One of them, as people call it."""
    reasons: Mapping[str, int] = field(default=EMPTY)
    """Why, in words, and of how many tasks, the most first; empty where the plugin does not say."""


@frozen(kw_only=True)
class TriedChange:
    """A single change with which what was asked about was seen to start, in a cycle."""

    change: Change
    text: str
    """The change in words."""


def _counts(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(counts)


@frozen(kw_only=True)
class Explanation(Report):
    """Why a job waits; printed as text, shown in a notebook as tables."""

    job: str
    task: str | None
    """The task that stands for those that wait; None: none does."""
    task_name: str
    """What people call it; empty if there is none."""
    summary: str
    """How it stands, in one sentence."""
    position: int | None
    """Its place among the jobs of its queue that wait, from 1, at the beginning of the cycle;
    None: it does not wait, or is left out."""
    waiting_jobs: int
    """How many jobs of the queue wait."""
    before_it: tuple[str, ...]
    """The jobs of the queue that wait and are before it, at most five, the next first."""
    decided_by: str
    """The key that puts the job before it there: a plugin, ``creation_time`` or ``uid``."""
    queue: QueueStanding
    min_available: int
    ready: int
    """How many of its tasks hold resources or have succeeded, before the cycle."""
    lacking: int
    """How many more must be able to start together."""
    at_once: int
    """How many of its tasks that wait find room at once when nobody else comes before."""
    groups: tuple[GroupStanding, ...] = ()
    """How the groups of its tasks stand, in the order in which the job lists them."""
    nodes: int
    available: int
    """On how many of them its task could start now."""
    unfit: Mapping[str, int] = field(converter=_counts)
    """By reason: on how many nodes its task cannot start now."""
    nearest: tuple[NearNode, ...]
    """The three nodes that lack least."""
    victims: tuple[VictimsJudged, ...]
    """What each plugin says of the tasks that preempt and reclaim could evict for it, as the cycle
    begins: whom any plugin protects is not evicted."""
    would_start: tuple[TriedChange, ...]
    """Single changes with which it was seen to start; each was tried with a cycle."""
    tried: int
    """How many changes were tried."""

    def sections(self) -> Iterator[Section]:
        """Yield what there is to say, in the order in which one wants to read it."""
        yield Section(f"Job {self.job}", (self.summary,))
        yield Section("Where it stands", tuple(self._standing()))
        if self.task is None:
            return
        could = "could start" if self.available else "can start"
        lines = [f"its task {self.task_name} {could} on {self.available} of {self.nodes} nodes now"]
        yield Section("Nodes", tuple(lines), (), [(n, text) for text, n in self.unfit.items()])
        rows: list[tuple[str, str, str]] = []
        for node in self.nearest:
            what = node.refusal or f"lacks {resource_text(node.missing)}"
            rows.append((node.name, what, _held(node.holders)))
        if rows:
            yield Section("Nearest nodes", (), ("node", "what is in the way", "held by"), rows)
        if self.victims:
            yield Section(
                "What plugins say of whom it could evict",
                tuple(
                    f"{v.plugin}: {reason} ({count})"
                    for v in self.victims
                    for reason, count in v.reasons.items()
                ),
                ("action", "plugin", "says", "of", "such as"),
                [(v.action, v.plugin, v.verdict, v.count, v.example) for v in self.victims],
            )
        said = tuple(f"{change.text}" for change in self.would_start)
        if self.tried and not said:
            said = (f"none of the {self.tried} single changes that were tried is enough",)
        if said:
            yield Section("It would start now with any one of these (each was tried)", said)

    def _standing(self) -> Iterator[str]:
        if self.position is not None:
            waits = "wait" if self.task is not None else "waited"
            text = f"number {self.position} of {self.waiting_jobs} jobs that {waits} in its queue"
            if self.before_it:
                names = ", ".join(self.before_it[:3])
                text += f", after {names} (by {self.decided_by})"
            yield text
        queue = self.queue
        if not queue.is_known:
            yield f"queue {queue.name} is not there"
        else:
            yield _queue_text(queue)
            for above in queue.above:
                yield f"part of {_queue_text(above)}"
        if self.lacking:
            yield (
                f"{self.ready} of the {self.min_available} tasks that must start together are "
                f"there; room at once, if it were first, for {min(self.at_once, self.lacking)} of "
                f"{self.lacking}"
            )
        for group in self.groups:
            if not group.is_ready:
                what = "groups in it" if group.of_groups else "tasks"
                yield f"group {group.name} has {group.ready} of the {group.needed} {what} it needs"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the explanation as dicts, lists, strings and numbers only, ready for JSON."""
        content = _plain(self)
        assert isinstance(content, dict)
        return content


def _queue_text(queue: QueueStanding) -> str:
    text = f"queue {queue.name} holds {resource_text(queue.allocated)} ({queue.share:.1%})"
    if queue.deserved is not None:
        text += f", deserves {resource_text(queue.deserved)}"
    if queue.limit is not None:
        text += f", may hold at most {limit_text(queue.limit)}"
    if queue.on_loan is not None and not queue.on_loan.is_empty():
        text += f", of which {resource_text(queue.on_loan)} is on loan"
    return text + (" - it has its share" if queue.is_overused else "")


def _held(holders: tuple[Holder, ...]) -> str:
    shown = [
        f"{h.job or h.name} {h.how}{'' if h.until is None else f' until {h.until:g}'}"
        for h in holders[:2]
    ]
    return "; ".join(shown) + (f"; {len(holders) - 2} more" if len(holders) > 2 else "")  # noqa: PLR2004


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Resource):
        return {name: amount for name, amount in value.dimensions() if amount}
    if isinstance(value, ResourceLimit):
        return dict(value.dimensions())
    if isinstance(value, Mapping):
        content = cast("Mapping[str, object]", value)
        return {key: _plain(item) for key, item in content.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, TriedChange):
        return value.text
    if has(type(value)):
        return _part(value)  # type: ignore[arg-type]  # it is of an attrs class
    return str(value)


def _part(value: AttrsInstance) -> dict[str, JsonValue]:
    attributes: tuple[Attribute[object], ...] = fields(type(value))
    return {attribute.name: _plain(getattr(value, attribute.name)) for attribute in attributes}
