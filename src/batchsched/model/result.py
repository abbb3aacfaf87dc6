"""The result of a cycle: decisions, outcomes and reasons, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping

from attrs import evolve, field, frozen

from batchsched.errors import FormatError, UnknownNameError
from batchsched.model.cluster import JobPhase, Plan, TaskStatus
from batchsched.model.devices import DevicePick
from batchsched.model.immutable import (
    EMPTY,
    AsMap,
    FrozenMap,
    LaterMap,
    LazyMap,
    is_frozen_map,
    kept_map,
)
from batchsched.model.notice import Notice
from batchsched.model.reasons import JobCondition, PendingReason, Unfit
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.texts import html_table, shown_amount
from batchsched.model.validation.values import is_of, part_named, shown

_NOTHING = Resource()


@frozen(kw_only=True)
class QueueOutcome:
    """The state of a queue and all queues below it at the end of a cycle."""

    parent: str | None = None
    """Its parent queue, if any."""
    fair_share: Resource = _NOTHING
    """The resources that it was entitled to in this cycle."""
    allocated: Resource = _NOTHING
    """The resources that its tasks hold or are promised, without backfill tasks."""
    guarantee: Resource = _NOTHING
    """Its guarantee, or the sum of the guarantees below it where that is larger.

    Of what nodes have: nothing else can be kept free.
    """
    limit: ResourceLimit | None = None
    """The most that it may hold; None: unlimited."""
    covered: Resource = _NOTHING
    """The resources of its tasks on nodes that are covered by fair shares: not reclaimable.
    Of proportion: what it has within its fair share, whichever tasks have it."""
    on_loan: Resource = _NOTHING
    """Those that are not covered: queues below their fair share can reclaim them.
    Of proportion: what it has beyond its fair share."""


_BAR, _NAME, _STEP, _LINE = 20, 28, 2, 80
_TEXT = _LINE - _BAR - _NAME - len(" [] ")
_DIMENSION = 6
"""The fewest columns for the name of a dimension, such as memory."""
_WIDE = ((0x1100, 0x115F), (0x2E80, 0xA4CF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFF60))
"""What takes two columns: East Asian scripts. (The tables of Python differ from one version to
the next.)"""


class QueueOutcomes(FrozenMap[str, QueueOutcome]):
    """The outcomes of queues by name, printed as a tree.

    Each queue is shown with the dimension of which it uses the largest part of its share: ``#`` is
    covered, ``~`` is on loan or not yet on a node, and ``.`` is unused.

    >>> share, held = Resource(milli_cpu=8000), Resource(milli_cpu=6000)
    >>> outcome = QueueOutcome(fair_share=share, allocated=held, covered=held)
    >>> print(QueueOutcomes({"research": outcome}))
    research                     [###############.....] cpu 6 of 8
    """

    __slots__ = ()

    def __str__(self) -> str:
        children: dict[str | None, list[str]] = {}
        for name, outcome in sorted(self.items()):
            parent = outcome.parent if outcome.parent in self else None
            children.setdefault(parent, []).append(name)
        lines: list[str] = []
        waiting = [(name, 0) for name in reversed(children.get(None, ()))]
        while waiting:
            name, depth = waiting.pop()
            lines.append(_line(name, self[name], depth))
            waiting += [(child, depth + 1) for child in reversed(children.get(name, ()))]
        return "\n".join(lines)


class LaterQueueOutcomes(LaterMap[str, QueueOutcome]):
    """The outcomes of queues, made when any is read; printed as a tree."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(QueueOutcomes(self.whole()))

    def __reduce__(self) -> tuple[type[QueueOutcomes], tuple[dict[str, QueueOutcome]]]:
        return QueueOutcomes, (dict(self.whole()),)


def _line(name: str, outcome: QueueOutcome, depth: int) -> str:
    indent = min(_STEP * depth, _NAME // 2)
    title = " " * indent + _shortened(name, _NAME - indent)
    dimension = _fullest(outcome)
    share, held = outcome.fair_share.get(dimension), outcome.allocated.get(dimension)
    covered, on_loan = outcome.covered.get(dimension), outcome.on_loan.get(dimension)
    whole = max(share, held)
    full = int(_BAR * min(covered, held) / whole) if whole else 0
    lent = (int(_BAR * held / whole) if whole else 0) - full
    bar = "#" * full + "~" * lent + "." * (_BAR - full - lent)
    amounts = f"{shown_amount(dimension, held)} of {shown_amount(dimension, share)}"
    if on_loan:
        with_loan = f"{amounts}, {shown_amount(dimension, on_loan)} on loan"
        if min(len(dimension), _DIMENSION) + len(with_loan) < _TEXT:
            amounts = with_loan
    text = f"{_shortened(dimension, max(_DIMENSION, _TEXT - len(amounts) - 1))} {amounts}"
    if not whole:  # it holds and wants nothing, of whatever there is
        text = "idle"
    return f"{title}{' ' * (_NAME - _width(title))} [{bar}] {text}"


def _shortened(text: str, most: int) -> str:
    """Return a text in one line, in so many columns at most, with control characters escaped.

    What tells it from others is often at its end.
    """
    text = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    if _width(text) <= most:
        return text
    head, tail = "", ""
    for character in text:
        if _width(head + character) > most // 2:
            break
        head += character
    for character in reversed(text):
        if _width(head + character + tail) >= most:
            break
        tail = character + tail
    return f"{head}…{tail}"


def _width(text: str) -> int:
    """Return in how many columns of a terminal a text is shown."""
    return len(text) + sum(
        any(first <= ord(character) <= last for first, last in _WIDE) for character in text
    )


def _fullest(outcome: QueueOutcome) -> str:
    """Return the dimension of which the largest part of the share is held."""
    fullest, largest = "cpu", -1.0
    names = ("cpu", "memory", *sorted({*outcome.fair_share.scalars, *outcome.allocated.scalars}))
    for name in names:
        held, share = outcome.allocated.get(name), outcome.fair_share.get(name)
        part = held / share if share else float(bool(held)) * 2
        if part > largest:
            fullest, largest = name, part
    return fullest


@frozen(kw_only=True)
class Bind:
    """Start this task on this node, now."""

    task_uid: str
    node_name: str
    is_backfill: bool = False
    """Whether it runs on resources that other jobs wait for."""
    devices: tuple[DevicePick, ...] | None = field(default=None, repr=False)
    """The devices that it gets there; None: it claims none, or nobody asked which."""
    choices: Mapping[str, Hashable] = field(default=EMPTY, repr=False)
    """What other plugins have chosen for it there, by plugin; see `batchsched.plugin.Choices`."""


@frozen(kw_only=True)
class Eviction:
    """Remove this task from its node."""

    task_uid: str
    node_name: str
    action: str
    """The action that decided it, such as ``preempt``."""
    for_task_uid: str
    """The task for which it was evicted."""


@frozen(kw_only=True)
class Move:
    """Stop this task on its node, and start it again on another one, which it is promised.

    The task is Pipelined from now on: it has its place in `CycleResult.pipelined`.
    """

    task_uid: str
    from_node: str
    """The name of the node where it runs."""
    to_node: str
    """The name of the node that it is promised."""
    action: str
    """The action that decided it, such as ``consolidate``."""
    for_task_uid: str | None = None
    """The task for which it moves; None: for none."""


@frozen(kw_only=True)
class TakenBack:
    """Do not start this task, which an earlier action of the cycle had bound to this node.

    The task is Pending again, unless a later action placed it; there is nothing to undo.
    """

    task_uid: str
    node_name: str
    action: str
    """The action that decided it, such as ``preempt``."""
    for_task_uid: str
    """The task for which its place was taken back."""


@frozen(kw_only=True)
class Promise:
    """A node that is promised to a task or reserved for it, but cannot be used yet."""

    task_uid: str
    node_name: str
    devices: tuple[DevicePick, ...] | None = field(default=None, repr=False)
    """The devices that are promised to it there; None: none are."""
    choices: Mapping[str, Hashable] = field(default=EMPTY, repr=False)
    """What other plugins have chosen for it there, by plugin; see `batchsched.plugin.Choices`."""


@frozen(kw_only=True)
class DroppedPromise:
    """A node that was promised to a task or reserved for it, and why it is no more."""

    task_uid: str
    node_name: str
    reason: Unfit | None = None
    """Why the node refused the task although nothing was leaving there any more, if that is why."""
    for_task_uid: str | None = None
    """The task for which it gave way, if it did."""


@frozen(kw_only=True)
class TaskOutcome:
    """The state of a task at the end of a cycle."""

    status: TaskStatus
    node_name: str | None = None
    is_backfill: bool = False
    devices: tuple[DevicePick, ...] | None = field(default=None, repr=False)
    """The devices that it has there, or is promised; None: none, or they are unknown."""
    choices: Mapping[str, Hashable] = field(default=EMPTY, repr=False)
    """What other plugins have chosen for it there, by plugin."""


@frozen(kw_only=True)
class JobOutcome:
    """The state of a job at the end of a cycle."""

    phase: JobPhase
    condition: JobCondition | None = None
    """The Unschedulable condition, if any."""


_SHOWN = 10


@frozen(kw_only=True, repr=False)
class CycleResult:
    """All decisions of one cycle, with outcomes and reasons.

    Two results are equal if all of their content is. A result can be pickled,
    converted to plain dicts (`to_dict`) and printed.
    """

    binds: tuple[Bind, ...] = ()
    """In the order in which they were decided."""
    evictions: tuple[Eviction, ...] = ()
    """In the order in which they were decided."""
    moves: tuple[Move, ...] = ()
    """Running tasks that get another place, in the order in which that was decided. They are not in
    `evictions`."""
    taken_back: tuple[TakenBack, ...] = ()
    """Places of tasks that were bound in this cycle and lost to others, in the order in which that
    was decided. Such a bind is not in `binds`; a later one of the task is."""
    pipelined: tuple[Promise, ...] = ()
    """Tasks that were promised resources which are being released; in order of task UID."""
    conditional: tuple[Promise, ...] = ()
    """Tasks that were promised resources which backfill tasks hold; in order of task UID."""
    reserved: tuple[Promise, ...] = ()
    """Tasks for which a node is reserved; in order of task UID."""
    dropped_reservations: tuple[DroppedPromise, ...] = ()
    """Reservations of the snapshot that were neither used nor renewed in this cycle."""
    kept_promises: tuple[Promise, ...] = ()
    """Nodes that stay promised in the next cycle, because tasks were evicted for these jobs.

    The tasks are Pipelined or Allocated now, and will be Pipelined; in order of task UID."""
    dropped_promises: tuple[DroppedPromise, ...] = ()
    """Promises of the snapshot that ended unused in this cycle; in order of task UID."""
    tasks: Mapping[str, TaskOutcome] = field(default=EMPTY, converter=AsMap[str, TaskOutcome])
    """The outcomes of all tasks of the jobs in the session, by task UID."""
    jobs: Mapping[str, JobOutcome] = field(default=EMPTY, converter=AsMap[str, JobOutcome])
    """The outcomes of all jobs in the session, by job UID."""
    left_out: Mapping[str, JobCondition] = field(default=EMPTY, converter=AsMap[str, JobCondition])
    """The conditions of the jobs that were not in the session, by job UID."""
    pending: Mapping[str, PendingReason] = field(default=EMPTY, converter=AsMap[str, PendingReason])
    """The reasons of all pending tasks of all jobs, by task UID.

    On a live cluster they are known when the cycle ends, and listed by task when any is read."""
    planned: Mapping[str, Plan] = field(default=EMPTY, converter=AsMap[str, Plan])
    """The plans of jobs that the action plan expects to start later, by job UID."""
    late: tuple[str, ...] = ()
    """UIDs of jobs whose planned start is too late for their deadline or maximum wait."""
    refused_until: float | None = None
    """When, in seconds, the first ends of what refused evictions for now only, to those who still
    wait: the minimum runtime of a task, say, or the delay of a claim. None: nothing did."""
    queues: Mapping[str, QueueOutcome] = QueueOutcomes()
    """The outcomes of queues by name, from capacity or proportion; printed as a tree."""
    names: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    """The display names of tasks in decisions by UID, where they differ from the UID."""
    notices: tuple[Notice, ...] = ()
    """What the data asks for that no configured plugin does, such as devices or racks."""

    def __attrs_post_init__(self) -> None:
        if not is_of(self.queues, QueueOutcomes) and is_frozen_map(kept_map(self.queues)):
            object.__setattr__(self, "queues", QueueOutcomes(self.queues))

    @property
    def next_start(self) -> float | None:
        """The earliest planned start in seconds, at which a cycle is due; None without plans."""
        return min((plan.start for plan in self.planned.values()), default=None)

    @property
    def wake_at(self) -> float | None:
        """When another cycle is worth running if nothing else happens; None: never.

        The earliest time, in seconds, at which a plan is due or something that was refused for now
        only may be had (`next_start`, `refused_until`), with or without reasons.
        """
        times = (self.next_start, self.refused_until)
        return min((time for time in times if time is not None), default=None)

    def outcome(self, task_uid: str, /) -> TaskOutcome:
        """Return the state of a task at the end of the cycle. O(1), also on a live cluster.

        Raises:
            UnknownNameError: no job in the session has this task.

        """
        return part_named("task", self.tasks, task_uid, of="session")

    def why(self, task_uid: str, /) -> PendingReason | None:
        """Return why a task is pending; None if it is not.

        O(1); on a live cluster the first look-up is O(pending tasks).

        Raises:
            UnknownNameError: `task_uid` is no string.

        """
        try:
            return self.pending.get(task_uid)
        except Exception:  # its hash or its comparison may raise anything
            message = f"expected the UID of a task, got {shown(task_uid)}"
            raise UnknownNameError(message) from None

    def stopped(self) -> Iterator[Eviction | Move]:
        """Yield what stops running tasks: the evictions, then the moves.

        What moves starts again on another node, where it is promised a place.
        """
        yield from self.evictions
        yield from self.moves

    def promised(self) -> Iterator[Promise]:
        """Yield what was promised: `pipelined`, then `conditional`."""
        yield from self.pipelined
        yield from self.conditional

    @property
    def changed_tasks(self) -> Mapping[str, TaskOutcome]:
        """The outcomes in `tasks` that may differ from the state before the cycle.

        On a live cluster these are the tasks of the jobs that the cycle touched; otherwise they
        are all tasks.
        """
        return self.tasks.changed if isinstance(self.tasks, LazyMap) else self.tasks

    @property
    def changed_jobs(self) -> Mapping[str, JobOutcome]:
        """The outcomes in `jobs` that the cycle may have changed, and all with a condition.

        Other than on a live cluster, these are all jobs.
        """
        return self.jobs.changed if isinstance(self.jobs, LazyMap) else self.jobs

    def full(self) -> CycleResult:
        """Return the same result with all outcomes computed. O(size)."""
        parts = (self.tasks, self.jobs, self.pending, self.queues)
        if not any(isinstance(each, LazyMap) for each in parts):
            return self
        return evolve(
            self,
            tasks=FrozenMap(self.tasks),
            jobs=FrozenMap(self.jobs),
            pending=FrozenMap(self.pending),
            queues=QueueOutcomes(self.queues),
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the result as dicts, lists, strings and numbers only, ready for JSON. O(size).

        All fields are included, and also the ``text`` of each reason.
        """
        return _FORMAT.to_dict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> CycleResult:
        """Create a result from the output of `to_dict`.

        Raises:
            FormatError: it cannot be read, or was written by a newer version; all faults at
                once, each with its path.

        >>> result = CycleResult(binds=(Bind(task_uid="t1", node_name="n1"),))
        >>> CycleResult.from_dict(result.to_dict()) == result
        True

        """
        return _FORMAT.from_dict(given)

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of the output of `to_dict`."""
        return _FORMAT.json_schema()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<CycleResult: {self._counts()}>"

    def _repr_html_(self) -> str:
        """Return a table of the decisions, for notebooks."""
        count = len(self.pending) + sum(len(row.of(self)) for row in DECISIONS if row.word)
        header = ("decision", "task", "node", "why")
        return html_table(self._counts(), header, self._rows(), count=count)

    def _counts(self) -> str:
        counts = [
            f"{len(row.of(self))} {row.done}"
            for row in DECISIONS
            if row.done and (row.counts_none or row.of(self))
        ]
        return ", ".join([*counts, f"{len(self.pending)} pending"])

    def _name(self, uid: str) -> str:
        return self.names.get(uid, uid)

    def _why(self, decision: Decision) -> str:
        """Return why, in words; empty: that is not said."""
        if isinstance(decision, Bind):
            return "on resources that other jobs wait for" if decision.is_backfill else ""
        if isinstance(decision, DroppedPromise):
            if decision.for_task_uid is not None:
                return f"for {self._name(decision.for_task_uid)}"
            return "" if decision.reason is None else f"which {decision.reason.text}"
        if isinstance(decision, Promise):
            return ""
        if decision.for_task_uid is None:
            return decision.action
        return f"{decision.action} for {self._name(decision.for_task_uid)}"

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for row in DECISIONS:
            for each in row.of(self) if row.word else ():
                yield row.word, self._name(each.task_uid), _where(each), self._why(each)
        for uid, reason in self.pending.items():
            yield "pending", self._name(uid), "", reason.text

    def _lines(self) -> Iterator[str]:
        yield self._counts()
        lines: dict[str, list[str]] = {}
        for row in DECISIONS:
            for each in row.of(self) if row.word else ():
                place = f"{self._name(each.task_uid)} {row.link} {_where(each)}"
                why = "" if isinstance(each, Bind) else self._why(each)
                lines.setdefault(row.word, []).append(f"{place} ({why})" if why else place)
        for word, of_word in lines.items():
            yield from _first_lines(word, of_word)
        plans = sorted(self.planned.items(), key=lambda item: (item[1].start, item[0]))
        yield from _first_lines("plan", [f"{uid} at {plan.start:g}" for uid, plan in plans])
        counts = Counter(reason.text for reason in self.pending.values())
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        yield from _first_lines("pending", [f"{count} x {text}" for text, count in ranked])
        yield from _first_lines(
            "left out", [f"{uid}: {condition}" for uid, condition in sorted(self.left_out.items())]
        )
        yield from _first_lines("notice", [str(notice) for notice in self.notices])


def _where(decision: Decision) -> str:
    return " -> ".join(nodes_of(decision))


def _first_lines(word: str, lines: list[str]) -> Iterator[str]:
    for line in lines[:_SHOWN]:
        yield f"  {word}: {line}"
    if len(lines) > _SHOWN:
        yield f"  {word}: ... and {len(lines) - _SHOWN} more"


# What a cycle decides, listed once


Decision = Bind | Eviction | Move | TakenBack | Promise | DroppedPromise
"""What a cycle decides about one task."""


def nodes_of(decision: Decision, /) -> tuple[str, ...]:
    """Return the names of the nodes that a decision is about: of a move, from where and to where.

    >>> nodes_of(Move(task_uid="t", from_node="n2", to_node="n1", action="consolidate"))
    ('n2', 'n1')

    """
    if isinstance(decision, Move):
        return decision.from_node, decision.to_node
    return (decision.node_name,)


@frozen(kw_only=True)
class DecisionRow:
    """One kind of decision: a field of `CycleResult`, and what the rest of the library needs of it.

    Snapshots, comparisons and reports go through the rows; a decision without one is known to none.
    """

    field: str
    """The field of `CycleResult`, a tuple."""
    kind: type
    """The class of what it holds."""
    word: str = ""
    """What is done, for tables. Empty: tables do not list it."""
    link: str = "->"
    """What stands between the task and the node."""
    done: str = ""
    """What was done, for counts. Empty: it is not counted."""
    counts_none: bool = True
    """Whether the count is shown also where there are none."""
    changes_tasks: bool = True
    """Whether it changes a task, or keeps something for it, beyond the cycle."""
    is_compared: bool = True
    """Whether cycles that differ in it decide differently; if not, it follows from the others."""
    checked: Mapping[str, type] = EMPTY
    """The fields that snapshots depend on, with their types."""

    def of(self, result: CycleResult, /) -> tuple[Decision, ...]:
        """Return the decisions of this kind. O(1)."""
        decided: tuple[Decision, ...] = getattr(result, self.field)
        return decided


_NAMES = FrozenMap({"task_uid": str, "node_name": str})

DECISIONS: tuple[DecisionRow, ...] = (
    DecisionRow(
        field="binds",
        kind=Bind,
        word="bind",
        done="bound",
        checked=FrozenMap({**_NAMES, "is_backfill": bool}),
    ),
    DecisionRow(
        field="evictions",
        kind=Eviction,
        word="evict",
        link="from",
        done="evicted",
        checked=FrozenMap({**_NAMES, "action": str, "for_task_uid": str}),
    ),
    DecisionRow(
        field="moves",
        kind=Move,
        word="move",
        link="from",
        done="moved",
        counts_none=False,
        checked=FrozenMap({"task_uid": str, "from_node": str, "to_node": str, "action": str}),
    ),
    DecisionRow(
        field="taken_back",
        kind=TakenBack,
        word="take back",
        link="from",
        changes_tasks=False,
        is_compared=False,
    ),
    DecisionRow(field="pipelined", kind=Promise, word="pipeline", done="pipelined"),
    DecisionRow(field="conditional", kind=Promise, word="promise", done="conditional"),
    DecisionRow(field="reserved", kind=Promise, word="reserve", done="reserved", checked=_NAMES),
    DecisionRow(
        field="dropped_reservations", kind=DroppedPromise, word="give up", is_compared=False
    ),
    DecisionRow(field="kept_promises", kind=Promise, is_compared=False, checked=_NAMES),
    DecisionRow(
        field="dropped_promises",
        kind=DroppedPromise,
        word="give up",
        changes_tasks=False,
        is_compared=False,
    ),
)
"""All kinds, in the order in which results are printed."""

_FORMAT = Format(CycleResult, version=1, error=FormatError, derived={PendingReason: ("text",)})
