"""The result of a cycle: decisions, outcomes and reasons, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from attrs import evolve, field, frozen

from batchsched.errors import FormatError, UnknownNameError
from batchsched.model.html import html_table
from batchsched.model.immutable import EMPTY, FrozenMap, LazyMap, kept_map
from batchsched.model.queue_outcome import QueueOutcome, QueueOutcomes
from batchsched.model.reasons import JobCondition, PendingReason
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.status import JobPhase, TaskStatus
from batchsched.model.timing import Plan

__all__ = ["Bind", "CycleResult", "Eviction", "JobOutcome", "Promise", "TaskOutcome"]


@frozen(kw_only=True)
class Bind:
    """Start this task on this node, now."""

    task_uid: str
    node_name: str
    is_backfill: bool = False
    """Whether it runs in resources that others wait for."""


@frozen(kw_only=True)
class Eviction:
    """Take this task off its node."""

    task_uid: str
    node_name: str
    action: str
    """The action that decided it, such as ``preempt``."""
    for_task_uid: str
    """The task that it makes room for."""


@frozen(kw_only=True)
class Promise:
    """A place that is promised to a task, or kept for it, but cannot be used yet."""

    task_uid: str
    node_name: str


@frozen(kw_only=True)
class TaskOutcome:
    """Where a task stands at the end of a cycle."""

    status: TaskStatus
    node_name: str | None = None
    is_backfill: bool = False


@frozen(kw_only=True)
class JobOutcome:
    """How a job stands at the end of a cycle."""

    phase: JobPhase
    condition: JobCondition | None = None
    """The Unschedulable condition, where there is one."""


_SHOWN = 10


def _tasks(content: Mapping[str, TaskOutcome], /) -> Mapping[str, TaskOutcome]:
    return kept_map(content)


def _jobs(content: Mapping[str, JobOutcome], /) -> Mapping[str, JobOutcome]:
    return kept_map(content)


def _conditions(content: Mapping[str, JobCondition], /) -> Mapping[str, JobCondition]:
    return kept_map(content)


def _reasons(content: Mapping[str, PendingReason], /) -> Mapping[str, PendingReason]:
    return kept_map(content)


def _plans(content: Mapping[str, Plan], /) -> Mapping[str, Plan]:
    return kept_map(content)


def _queues(content: Mapping[str, QueueOutcome], /) -> Mapping[str, QueueOutcome]:
    return content if isinstance(content, QueueOutcomes) else QueueOutcomes(content)


def _names(content: Mapping[str, str], /) -> Mapping[str, str]:
    return kept_map(content)


@frozen(kw_only=True, repr=False)
class CycleResult:
    """Everything that one cycle decided.

    Two results are equal when all of their content is. A result can be pickled,
    turned into plain dicts (`to_dict`) and printed.
    """

    binds: tuple[Bind, ...] = ()
    """In the order in which they were decided."""
    evictions: tuple[Eviction, ...] = ()
    """In the order in which they were decided."""
    pipelined: tuple[Promise, ...] = ()
    """Tasks that were promised resources which are being released; in order of task UID."""
    conditional: tuple[Promise, ...] = ()
    """Tasks that were promised resources which backfill tasks hold; in order of task UID."""
    reserved: tuple[Promise, ...] = ()
    """Tasks for which a node is kept closed; in order of task UID."""
    dropped_reservations: tuple[Promise, ...] = ()
    """Reservations of the snapshot that this cycle gave up, and neither used nor made again."""
    kept_promises: tuple[Promise, ...] = ()
    """Places that are the tasks' in the next cycle too, because tasks were evicted for their jobs.

    They are Pipelined or Allocated now, and are to be Pipelined then; in order of task UID."""
    dropped_promises: tuple[Promise, ...] = ()
    """Promises of the snapshot that ended in this cycle and were not used; in order of task UID."""
    tasks: Mapping[str, TaskOutcome] = field(default=EMPTY, converter=_tasks)
    """Task UID to outcome, for every task of the jobs in the session."""
    jobs: Mapping[str, JobOutcome] = field(default=EMPTY, converter=_jobs)
    """Job UID to outcome, for every job in the session."""
    left_out: Mapping[str, JobCondition] = field(default=EMPTY, converter=_conditions)
    """Job UID to reason, for every job that was not in the session: invalid or of no queue."""
    pending: Mapping[str, PendingReason] = field(default=EMPTY, converter=_reasons)
    """Task UID to reason, for every task that was left pending, of all jobs."""
    planned: Mapping[str, Plan] = field(default=EMPTY, converter=_plans)
    """Job UID to plan, for every job that the action plan expects to start later."""
    late: tuple[str, ...] = ()
    """UIDs of jobs that are planned to start when it is too late for their deadline or wait."""
    queues: Mapping[str, QueueOutcome] = field(default=QueueOutcomes(), converter=_queues)
    """Queue name to how it stands, where a plugin such as capacity knows; it prints as a tree."""
    names: Mapping[str, str] = field(default=EMPTY, converter=_names)
    """Task UID to what people call the task, for tasks of decisions, where that differs."""

    @property
    def next_start(self) -> float | None:
        """The earliest planned start in seconds, when another cycle is due; None without plans."""
        return min((plan.start for plan in self.planned.values()), default=None)

    def outcome(self, task_uid: str, /) -> TaskOutcome:
        """Return where a task stands at the end of the cycle. O(1), also on a living cluster.

        Raises:
            UnknownNameError: no job of the session has such a task.

        """
        try:
            return self.tasks[task_uid]
        except KeyError:
            message = f"{task_uid!r} is the UID of no task of a job in the session"
            raise UnknownNameError(message) from None

    def why(self, task_uid: str, /) -> PendingReason | None:
        """Return why a task was left pending; None if it was not. O(1)."""
        return self.pending.get(task_uid)

    @property
    def changed_tasks(self) -> Mapping[str, TaskOutcome]:
        """Those of `tasks` that may stand elsewhere than before the cycle.

        On a living cluster these are the tasks of the jobs that the cycle has touched, in a
        result from scratch all of them.
        """
        return self.tasks.changed if isinstance(self.tasks, LazyMap) else self.tasks

    @property
    def changed_jobs(self) -> Mapping[str, JobOutcome]:
        """Those of `jobs` that the cycle may have changed, and all that have a condition.

        In a result from scratch, all of them.
        """
        return self.jobs.changed if isinstance(self.jobs, LazyMap) else self.jobs

    def full(self) -> CycleResult:
        """Return the same result with all outcomes made, in need of nothing else. O(size)."""
        if not isinstance(self.tasks, LazyMap) and not isinstance(self.jobs, LazyMap):
            return self
        return evolve(self, tasks=FrozenMap(self.tasks), jobs=FrozenMap(self.jobs))

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the result as dicts, lists, strings and numbers only, ready for JSON. O(size).

        Every field is there, and the ``text`` of each reason besides what it is made of.
        """
        return _FORMAT.to_dict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> CycleResult:
        """Return the result that `to_dict` has written.

        Raises:
            FormatError: it cannot be read, or a newer version has written it; all faults
                at once, each with its path.

        >>> result = CycleResult(binds=(Bind(task_uid="t1", node_name="n1"),))
        >>> CycleResult.from_dict(result.to_dict()) == result
        True

        """
        return _FORMAT.from_dict(given)

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of what `to_dict` gives."""
        return _FORMAT.json_schema()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<CycleResult: {self._counts()}>"

    def _repr_html_(self) -> str:
        """Return a table of the decisions, for notebooks."""
        count = sum(map(len, (self.binds, self.evictions, self.pipelined, self.conditional)))
        count += len(self.reserved) + len(self.pending)
        count += len(self.dropped_reservations) + len(self.dropped_promises)
        header = ("decision", "task", "node", "why")
        return html_table(self._counts(), header, self._rows(), count=count)

    def _counts(self) -> str:
        return (
            f"{len(self.binds)} bound, {len(self.evictions)} evicted, "
            f"{len(self.pipelined)} pipelined, {len(self.conditional)} conditional, "
            f"{len(self.reserved)} reserved, {len(self.pending)} pending"
        )

    def _name(self, uid: str) -> str:
        return self.names.get(uid, uid)

    def _promises(self) -> Iterator[tuple[str, tuple[Promise, ...]]]:
        yield "pipeline", self.pipelined
        yield "promise", self.conditional
        yield "reserve", self.reserved
        yield "give up", (*self.dropped_reservations, *self.dropped_promises)

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for bind in self.binds:
            why = "in resources that others wait for" if bind.is_backfill else ""
            yield "bind", self._name(bind.task_uid), bind.node_name, why
        for eviction in self.evictions:
            why = f"{eviction.action} for {self._name(eviction.for_task_uid)}"
            yield "evict", self._name(eviction.task_uid), eviction.node_name, why
        for word, promises in self._promises():
            for promise in promises:
                yield word, self._name(promise.task_uid), promise.node_name, ""
        for uid, reason in self.pending.items():
            yield "pending", self._name(uid), "", reason.text

    def _lines(self) -> Iterator[str]:
        yield self._counts()
        name = self._name
        yield from _some("bind", [f"{name(b.task_uid)} -> {b.node_name}" for b in self.binds])
        yield from _some(
            "evict",
            [
                f"{name(e.task_uid)} from {e.node_name} ({e.action} for {name(e.for_task_uid)})"
                for e in self.evictions
            ],
        )
        for word, promises in self._promises():
            yield from _some(word, [f"{name(p.task_uid)} -> {p.node_name}" for p in promises])
        plans = sorted(self.planned.items(), key=lambda item: (item[1].start, item[0]))
        yield from _some("plan", [f"{uid} at {plan.start:g}" for uid, plan in plans])
        counts = Counter(reason.text for reason in self.pending.values())
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        yield from _some("pending", [f"{count} x {text}" for text, count in ranked])
        yield from _some(
            "left out", [f"{uid}: {said}" for uid, said in sorted(self.left_out.items())]
        )


def _some(word: str, lines: list[str]) -> Iterator[str]:
    for line in lines[:_SHOWN]:
        yield f"  {word}: {line}"
    if len(lines) > _SHOWN:
        yield f"  {word}: ... and {len(lines) - _SHOWN} more"


_FORMAT = Format(CycleResult, version=1, error=FormatError, derived={PendingReason: ("text",)})
