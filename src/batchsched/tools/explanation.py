"""The answer of `explain`: why a job waits, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, field, frozen

from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import WhyPending
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.serialisation import JsonValue
from batchsched.tools.amounts import limit_text, resource_text
from batchsched.tools.report import Report, Section, as_dict
from batchsched.tools.trials import Change

_WHATEVER_COMES_FIRST = frozenset({WhyPending.HELD, WhyPending.QUEUE_CLOSED, WhyPending.AT_MAXIMUM})
"""Why a task waits although no other job comes before its own."""
_WHATEVER_THE_NODES = _WHATEVER_COMES_FIRST | {
    WhyPending.QUEUE_LIMIT,
    WhyPending.QUEUE_OVERUSED,
    WhyPending.QUEUE_NOT_LEAF,
    WhyPending.QUEUE_UNKNOWN,
    WhyPending.JOB_INVALID,
    WhyPending.WAITS_FOR,
    WhyPending.NEVER_ELIGIBLE,
}
"""Why a task waits although nodes have room for it."""
_SHOWN = 5
"""The most leaf queues that are shown."""


@frozen(kw_only=True)
class QueueStanding:
    """The state of a queue: what it holds, its share and its limits."""

    name: str
    is_known: bool
    """Whether the snapshot has this queue."""
    weight: int = 0
    allocated: Resource = field(factory=Resource)
    """The resources that its tasks hold."""
    share: float = 0.0
    """Its dominant share of the cluster."""
    deserved: Resource | None = None
    """Its fair share, as computed by plugin proportion or capacity; None: no plugin computes it."""
    guarantee: Resource | None = None
    """Its guarantee; None: no plugin reads guarantees."""
    limit: ResourceLimit | None = None
    """The most that it may hold; None: it has no limit, or no plugin reads limits."""
    on_loan: Resource | None = None
    """What it holds beyond its share, which others may reclaim; None: no plugin computes it."""
    is_overused: bool = False
    """Whether it holds its fair share or more, so that allocate skips it."""
    above: tuple[QueueStanding, ...] = ()
    """The queues above it in the tree, the nearest first; only with plugin capacity."""
    leaves: tuple[str, ...] = ()
    """The leaf queues below it; empty if it is a leaf, so that jobs may name it."""


@frozen(kw_only=True)
class GroupStanding:
    """The state of a group of the job's tasks before the cycle."""

    name: str
    of_groups: bool
    """Whether it consists of other groups, which are then counted instead of tasks."""
    ready: int
    """The number of its tasks that hold resources or have succeeded, or of ready groups."""
    needed: int
    """The number that must start together."""
    maximum: int | None
    is_ready: bool


@frozen(kw_only=True)
class Holder:
    """A task that holds resources on a node."""

    task: str
    name: str
    """The display name of the task."""
    job: str | None
    """The UID of its job; None: it belongs to no job."""
    how: str
    """``runs``, ``is leaving``, ``is promised``, ``is held by an unready gang`` or
    ``is reserved``."""
    amount: Resource
    until: float | None
    """Its expected end, in seconds on the clock of the snapshot, if known."""


@frozen(kw_only=True)
class NearNode:
    """A node where the task nearly fits."""

    name: str
    missing: Resource
    """The idle resources that it lacks for one task."""
    refusal: str
    """Why predicates refuse the task there; empty if they accept it."""
    holders: tuple[Holder, ...]
    """The tasks that hold resources there, the largest first."""


@frozen(kw_only=True)
class VictimsJudged:
    """A plugin's verdict on tasks that an action could evict."""

    action: str
    plugin: str
    verdict: str
    count: int
    """The number of tasks with this verdict."""
    example: str
    """The display name of one of them."""
    reasons: Mapping[str, int] = field(default=EMPTY)
    """Reason to the number of tasks, the most frequent first; empty if the plugin gives none."""


@frozen(kw_only=True)
class TriedChange:
    """A single change with which the task or job started in a trial cycle."""

    change: Change
    text: str
    """A description of the change."""


def _counts(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(counts)


@frozen(kw_only=True)
class Explanation(Report):
    """Why a job waits. Prints as text; a notebook shows tables."""

    job: str
    task: str | None
    """The waiting task that the answer is about; None: no task waits."""
    task_name: str
    """The display name of that task; empty if there is none."""
    summary: str
    """The answer in one sentence."""
    why: WhyPending | None
    """Why that task is pending, as a code; None: no task waits, or no reason is known."""
    position: int | None
    """Its position among the waiting jobs of its queue at the beginning of the cycle, counted from
    1; None: it does not wait, or is left out of the cycle."""
    waiting_jobs: int
    """The number of waiting jobs of the queue."""
    before_it: tuple[str, ...]
    """The waiting jobs of the queue directly before it, at most five, the nearest first."""
    decided_by: str
    """The key that orders it behind the job before it: a plugin, ``creation_time`` or ``uid``."""
    queue: QueueStanding
    min_available: int
    ready: int
    """The number of its tasks that held resources or had succeeded before the cycle."""
    lacking: int
    """The number of further tasks that must start together."""
    at_once: int
    """The number of its waiting tasks that would fit now if it were first, and that its queue may
    hold."""
    groups: tuple[GroupStanding, ...] = ()
    """The state of the groups of its tasks, in the order of the job."""
    nodes: int
    available: int = 0
    """The number of nodes on which its task could start now, as far as nodes go."""
    unfit: Mapping[str, int] = field(default=EMPTY, converter=_counts)
    """Reason to the number of nodes on which its task cannot start now."""
    nearest: tuple[NearNode, ...] = ()
    """The three nodes that lack the least."""
    victims: tuple[VictimsJudged, ...] = ()
    """The verdicts of plugins on the tasks that preempt and reclaim could evict for it, at the
    beginning of the cycle. A task that any plugin protects is not evicted."""
    would_start: tuple[TriedChange, ...] = ()
    """Single changes with which it started; each was tried with a cycle."""
    tried: int = 0
    """The number of changes that were tried."""

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the most important first."""
        yield Section(f"Job {self.job}", (self.summary,))
        yield Section("Its place in the queue", tuple(self._standing()))
        if self.task is None:
            return
        could = "could start" if self.available else "can start"
        text = f"task {self.task_name} {could} on {self.available} of {self.nodes} nodes now"
        if self.available and self.why in _WHATEVER_THE_NODES:
            text = f"as far as nodes go, {text}"
        lines = [text]
        yield Section("Nodes", tuple(lines), (), [(n, text) for text, n in self.unfit.items()])
        rows: list[tuple[str, str, str]] = []
        for node in self.nearest:
            what = node.refusal or f"lacks {resource_text(node.missing)}"
            rows.append((node.name, what, _held(node.holders)))
        if rows:
            yield Section("Nearest nodes", (), ("node", "problem", "held by"), rows)
        if self.victims:
            yield Section(
                "Verdicts of plugins on tasks that it could evict",
                tuple(
                    f"{v.plugin}: {reason} ({count})"
                    for v in self.victims
                    for reason, count in v.reasons.items()
                ),
                ("action", "plugin", "verdict", "tasks", "such as"),
                [(v.action, v.plugin, v.verdict, v.count, v.example) for v in self.victims],
            )
        said = tuple(f"{change.text}" for change in self.would_start)
        if self.tried and not said:
            said = (f"none of the {self.tried} single changes that were tried was enough",)
        if said:
            yield Section("It would start now with any one of these changes (each was tried)", said)

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
            yield f"queue {queue.name} does not exist"
        else:
            yield _queue_text(queue)
            for above in queue.above:
                yield f"part of {_queue_text(above)}"
            if queue.leaves:
                yield f"jobs may name the leaf queues below it: {_some(queue.leaves)}"
        if self.lacking:
            text = f"{self.ready} of {self.min_available} tasks that must start together are ready"
            if self.position is not None and self.why not in _WHATEVER_COMES_FIRST:
                fit = min(self.at_once, self.lacking)
                text += f"; if it were first, {fit} of {self.lacking} more would fit now"
            yield text
        for group in self.groups:
            if not group.is_ready:
                what = "groups in it" if group.of_groups else "tasks"
                yield f"group {group.name} has {group.ready} of {group.needed} {what} that it needs"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the explanation as dicts, lists, strings and numbers only, ready for JSON."""
        return {
            **as_dict(evolve(self, would_start=())),
            "would_start": [change.text for change in self.would_start],
        }


def _queue_text(queue: QueueStanding) -> str:
    text = f"queue {queue.name} holds {resource_text(queue.allocated)} ({queue.share:.1%})"
    if queue.on_loan is not None and not queue.on_loan.is_empty():
        text += f", of which {resource_text(queue.on_loan)} is on loan"
    if queue.deserved is not None:
        text += f", fair share {resource_text(queue.deserved)}"
    if queue.limit is not None:
        text += f", may hold at most {limit_text(queue.limit)}"
    return text + ("; it has its share" if queue.is_overused else "")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _held(holders: tuple[Holder, ...]) -> str:
    shown = [
        f"{h.job or h.name} {h.how}{'' if h.until is None else f' until {h.until:g}'}"
        for h in holders[:2]
    ]
    return "; ".join(shown) + (f"; {len(holders) - 2} more" if len(holders) > 2 else "")  # noqa: PLR2004
