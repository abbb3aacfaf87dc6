"""The answer of `explain`: why a job waits, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from attrs import evolve, field, frozen

from batchsched.causes import About, JobStatus, WhyPending, agreeing
from batchsched.kubernetes.facts import Told
from batchsched.model.immutable import EMPTY, AsMap
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.reasons import MemberCount, PendingReason
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.serialisation import JsonValue
from batchsched.model.texts import amount_text, first_of
from batchsched.tools.amounts import limit_text, resource_text
from batchsched.tools.changes import Change, duration, time_text
from batchsched.tools.node_fit import Holder, NearNode
from batchsched.tools.report import Report, Section, as_dict
from batchsched.tools.standings import JobStanding

_WRAPPED = 96
"""The width of a line of reasons."""
_SHOWN = 5
"""The most leaf queues that are shown."""
_MOST_TOLD = 3
"""The most conditions, and queues above their shares, that are shown."""
_AS_FAR_AS_SEEN = " (as far as could be seen: see below)"


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
class AboveShare:
    """A queue that holds more than its fair share."""

    queue: str
    dimension: str
    """The dimension in which that is the largest part of the cluster, of those that the job asks
    for."""
    amount: float
    """What it holds above its share, in the unit of a `Resource`."""

    @property
    def text(self) -> str:
        """What it holds above its share, in words."""
        amount = amount_text(self.dimension, self.amount)
        return f"queue {self.queue} holds {amount} above its share"


@frozen(kw_only=True)
class TriedChange:
    """A single change with which the task or job started in a trial cycle."""

    changes: tuple[Change, ...]
    """What to give to `what_if`: mostly one change, or several nodes, or the ends of all tasks of a
    job."""
    text: str = ""
    """What it does, in words."""


@frozen(kw_only=True)
class Explanation(Report):
    """Why a job waits. Prints as text; a notebook shows tables."""

    job: str
    owner: str = ""
    """The kind and the name of its owner, from the facts of a dump."""
    standing: JobStanding
    """The state of the job, and all that is in its way."""
    caveats: tuple[Notice, ...] = ()
    """What is ignored of the job's own objects, from the facts of a dump."""
    told: tuple[Told, ...] = ()
    """The conditions that controllers wrote on them, the newest first."""
    now: float = 0.0
    """The present of the snapshot, in seconds."""
    task: str | None
    """The waiting task that the answer is about; None: no task waits."""
    task_name: str
    """The display name of that task; empty if there is none."""
    of_task: bool = False
    """Whether that task was asked about, and not its job."""
    reason: PendingReason | None
    """Why that task is pending; None: no task waits, or no reason is known."""
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
    above_share: tuple[AboveShare, ...] = ()
    """The leaf queues that hold more than their fair shares, the most first."""
    min_available: int
    ready: int
    """The number of its tasks that held resources or had succeeded before the cycle."""
    lacking: int
    """The number of further tasks that must start together."""
    at_once: int
    """The number of its waiting tasks that would fit now if it were first, and that its queue may
    hold."""
    groups: tuple[MemberCount, ...] = ()
    """What its groups that were not ready before the cycle had of what they need, in the order of
    the job."""
    nodes: int
    tells_nodes: bool = False
    """Whether nodes are in its way: not if something holds it, or if it could not start however
    many nodes were free. If not, the answer says nothing about nodes."""
    blocked: str = ""
    """Of a gang of which only some tasks have room now: the task that would find none after them.
    What is told of nodes is how they would be for it then. Empty: there is none."""
    placed: int = 0
    """How many of its tasks have room before that one."""
    available: int = 0
    """The number of nodes on which its task could start now, as far as nodes go."""
    unfit: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """What keeps its task from nodes, as in ``are cordoned``, to the number of these nodes; the
    most frequent first. A node is counted once."""
    nearest: tuple[NearNode, ...] = ()
    """The three nodes that lack the least, of those that could take the task if others left."""
    would_start: tuple[TriedChange, ...] = ()
    """Single changes with which it started; each was tried with a cycle."""
    tried: int = 0
    """The number of changes that were tried."""
    admits: str = ""
    """The controller whose admission is all that it lacks: its place, shares, nodes and changes are
    given as if the queues decided whom it admits. Empty: there is none."""
    admits_once: str = ""
    """What that controller waits for besides: a time, or the pods of others; empty: nothing."""
    once_released: str = ""
    """What follows once nothing holds the job any more, by one cycle; empty: nothing holds it, or
    no changes are tried."""
    once_released_on: tuple[str, ...] = ()
    """The nodes where it would then start, or would be promised room."""

    @property
    def why(self) -> WhyPending | None:
        """Why its task is pending, as a code."""
        return None if self.reason is None else self.reason.why

    @property
    def summary(self) -> str:
        """The answer in one sentence: the standing, with the first of what is in the way."""
        text = self.standing.headline
        return f"{text}{_AS_FAR_AS_SEEN}" if self._is_unsure else text

    @property
    def _is_unsure(self) -> bool:
        """Whether what the answer leaves out could change it."""
        return self.standing.state in (JobStatus.STARTS, JobStatus.ROOM) and any(
            each.code is not NoticeCode.READ_AS for each in self.caveats
        )

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the report, the most important first."""
        yield from self._answer()
        read_as = [each for each in self.caveats if each.code is NoticeCode.READ_AS]
        if read_as:
            yield Section("How values were read", _caveat_lines(read_as), in_full=True)

    def _answer(self) -> Iterator[Section]:
        yield Section(self.summary, tuple(self._besides()), in_full=True)
        left_out = [each for each in self.caveats if each.code is not NoticeCode.READ_AS]
        if left_out:
            yield Section("This answer leaves out", _caveat_lines(left_out), in_full=True)
        told = tuple(self._said())
        if told:
            yield Section("What controllers say", told[:_MOST_TOLD], in_full=True)
        yield Section("Its place in the queue", tuple(self._place()), in_full=True)
        unsure = " (as far as could be seen)" if self.admits and left_out else ""
        follows = Section("What follows", (f"{self.once_released}{unsure}",), in_full=True)
        if self.task is None:
            if self.once_released:
                yield follows
            return
        if self.tells_nodes:
            yield Section("Nodes", (self._fits, *wrap(self._unfit, _WRAPPED)))
        rows: list[tuple[str, str, str]] = []
        for node in self.nearest:
            lacks = "" if node.missing.is_empty() else f"lacks {resource_text(node.missing)}"
            what = ", ".join(part for part in (node.refusal, lacks) if part)
            if what:  # what has room lacks nothing
                rows.append((node.name, what, _held(node.holders)))
        if rows:
            yield Section("Nearest nodes", (), ("node", "problem", "held by"), rows)
        said = tuple(f"{change.text}" for change in self.would_start)
        if self.once_released:
            yield follows
        if self.tried and not said and not self.once_released_on:
            text = "the one change that was tried was not enough"
            if self.tried > 1:
                text = f"none of the {self.tried} single changes that were tried was enough"
            yield Section("What would start it", (text,))
        if said:
            how = f", if {self.admits} decides as here" if self.admits else ""
            runs = self.standing.state in (JobStatus.STARTS, JobStatus.RUNNING_PART)
            who = "More of it" if runs else "It"
            when = self.admits_once or "now"
            title = f"{who} would start {when} with any one of these changes (each was tried){how}"
            yield Section(title, said)

    @property
    def _fits(self) -> str:
        text = f"task {self.task_name} fits on {self.available} of {self.nodes} nodes now"
        if self.blocked:
            text = f"with {self.placed} of its tasks placed, task {self.blocked} fits on none of "
            text += f"{self.nodes} nodes"
        if self.available and self.why and self.why.about is not About.NODES:
            return f"as far as nodes go, {text}"
        return text

    @property
    def _unfit(self) -> str:
        """What keeps it from the others: each node is counted once."""
        parts = [f"{count} {agreeing(words, count)}" for words, count in self.unfit.items()]
        if not parts:
            return ""
        count, _, words = parts[0].partition(" ")
        nodes = "node" if self.nodes == 1 else "nodes"
        return ", ".join([f"{count} of {self.nodes} {nodes} {words}", *parts[1:]])

    def _besides(self) -> Iterator[str]:
        """Yield all that is in the way besides, what runs, and why the task waits."""
        for blocker in self.standing.blockers[1:]:
            yield blocker.text
        if self.standing.running and self.standing.state is not JobStatus.RUNNING:
            yield f"running: {self.standing.running}"
        if self.reason is None:
            return
        if self.of_task:
            yield f"task {self.task_name} waits ({self.reason.why.value}): {self.reason}"
        else:
            yield from (report.text for report in self.reason.evictions)

    def _said(self) -> Iterator[str]:
        """Yield what controllers say of why it waits, the newest first, each once."""
        if not self.standing.waits and self.standing.state is not JobStatus.STARTS:
            return
        said: set[tuple[str, str]] = set()
        for each in self.told:
            text = each.message or (each.reason and f"{each.type} is {each.status} ({each.reason})")
            if text and each.says_why and (each.who, text) not in said:
                said.add((each.who, text))
                age = -1 if each.time is None else int(self.now - each.time)
                ago = f", {duration(age)} ago" if age > 0 else "" if age else ", just now"
                yield f"{each.who or 'a controller'} says{ago}: {text}"

    def _place(self) -> Iterator[str]:
        starts = self.standing.state is JobStatus.STARTS
        if self.position is not None and not starts:
            text = f"{_ordinal(self.position)} of {self.waiting_jobs} in queue {self.queue.name}"
            if self.before_it:
                names = ", ".join(self.before_it[:3])
                text += f", after {names} ({self.decided_by})"
            yield text
        queue = self.queue
        if not queue.is_known:
            yield f"queue {queue.name} does not exist"
        else:
            yield _queue_text(queue)
            for above in queue.above:
                yield f"part of {_queue_text(above)}"
            if queue.leaves:
                yield f"jobs may name the leaf queues below it: {first_of(queue.leaves, _SHOWN)}"
        for above_share in self.above_share[:_MOST_TOLD]:
            yield above_share.text
        if self.lacking and not starts:
            text = f"{self.ready} of {self.min_available} tasks that must start together are ready"
            if self.position is not None and not (self.why and self.why.about is About.JOB):
                fit = min(self.at_once, self.lacking)
                text += f"; if it were first, {fit} of {self.lacking} more would fit now"
            yield text
        for group in self.groups:
            what = "groups in it" if group.of_groups else "tasks"
            yield f"group {group.group} has {group.has} of {group.needs} {what} that it needs"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the explanation as dicts, lists, strings and numbers only, ready for JSON."""
        standing, queue = self.standing, self.queue
        plain = evolve(self, would_start=(), caveats=(), reason=None)
        return {
            **{key: value for key, value in as_dict(plain).items() if key != "standing"},
            "why": None if self.why is None else self.why.value,
            "reason": "" if self.reason is None else self.reason.text,
            **{
                key: value
                for key, value in as_dict(standing).items()
                if key not in ("job", "tasks")
            },
            "tasks": {status.value: count for status, count in standing.tasks.items()},
            "caveats": [
                {"code": each.code.value, "field": each.field, "text": each.consequence}
                for each in self.caveats
            ],
            "queue": [as_dict(evolve(each, above=())) for each in (queue, *queue.above)],
            "would_start": [change.text for change in self.would_start],
        }


def _ordinal(number: int) -> str:
    """Return a number as the place in an order.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else _ENDINGS.get(number % 10, 'th')}"


_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def _caveat_lines(caveats: Sequence[Notice]) -> tuple[str, ...]:
    """Return what is told of fields, those of one kind of object with the same text together."""
    fields: dict[tuple[str, str], list[str]] = {}
    for each in caveats:
        fields.setdefault((each.kind, each.consequence), []).append(each.field)
    return tuple(f"{kind} {', '.join(names)}: {text}" for (kind, text), names in fields.items())


def _queue_text(queue: QueueStanding) -> str:
    text = f"queue {queue.name} holds {resource_text(queue.allocated)} ({queue.share:.1%})"
    if queue.on_loan is not None and not queue.on_loan.is_empty():
        text += f", of which {resource_text(queue.on_loan)} is on loan"
    if queue.deserved is not None:
        text += f", fair share {resource_text(queue.deserved)}"
    if queue.limit is not None:
        text += f", may hold at most {limit_text(queue.limit)}"
    has_share = queue.is_overused and not queue.allocated.is_empty()
    return text + ("; it has its share" if has_share else "")


def _held(holders: tuple[Holder, ...]) -> str:
    shown = [
        f"{h.job or h.name} {h.how}{'' if h.until is None else f' until {time_text(h.until)}'}"
        for h in holders[:2]
    ]
    return "; ".join(shown) + (f"; {len(holders) - 2} more" if len(holders) > 2 else "")  # noqa: PLR2004
