"""The function `explain_eviction`: for whom a task was evicted, by which rule, and to what end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from attrs import evolve, field, frozen

from batchsched.config.registry import Registry
from batchsched.errors import ArgumentError, ConfigError, Fault, UnknownNameError
from batchsched.live import Cluster
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY, AsMap, AsTuple
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult, Eviction
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import by_frequency, first_of
from batchsched.model.validation.arguments import checks_arguments
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.tools.amounts import amount_text
from batchsched.tools.causes import decisions
from batchsched.tools.comparison import compare
from batchsched.tools.queue_audit import QueueAudit, excess_of, queues_of
from batchsched.tools.record import Record
from batchsched.tools.report import Report, Section, as_dict
from batchsched.trace import StatementEnded, TraceEvent, UnitsTaken

_NAMED = 5
"""The most tasks or reasons that a text names."""


# Rules


@frozen(kw_only=True)
class Priority:
    """The job that it was evicted for has a higher priority."""

    kind: ClassVar[str] = "Priority"
    claimant: int
    """The priority of the job for which it was evicted."""
    victim: int
    """The priority of its own job."""

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"its job has priority {self.victim}, the other one {self.claimant}"


@frozen(kw_only=True)
class Share:
    """Its queue held more than a share; the amounts are those as the turn of the other one began.

    Of two queues whose parents differ, those above them are meant that have the same parent.
    """

    kind: ClassVar[str] = "Share"
    right: str
    """The share: ``fair``; ``deserved``, if that is more; ``met``, the smaller of the two; or
    ``level``: the fair share again, for a queue that is less full than its sibling."""
    holder: str
    """The queue that held too much."""
    held: Resource
    share: Resource
    """The share above which it held something."""
    claimant: str
    """The queue for which it was evicted."""
    claimant_held: Resource
    claimant_asked: Resource
    """What its jobs asked for besides, within limits."""
    claimant_share: Resource
    dimensions: tuple[str, ...] = ()
    """Those in which the holder held more than the share."""

    @property
    def text(self) -> str:
        """The rule in words."""
        held, share = _told(self.held, self.dimensions), _told(self.share, self.dimensions)
        asked = _told(self.claimant_asked, self.dimensions)
        return (
            f"queue {self.holder} held {held}, more than {_SHARES[self.right]} of {share}; queue "
            f"{self.claimant} held {_told(self.claimant_held, self.dimensions)} of its share of "
            f"{_told(self.claimant_share, self.dimensions)}, and asked for {asked}"
        )


_SHARES = {
    "fair": "its fair share",
    "deserved": "its fair share and what it deserves",
    "met": "what it deserves and can get",
    "level": "its fair share",
}


def _told(amounts: Resource, dimensions: Iterable[str]) -> str:
    there = [(name, amounts.get(name)) for name in dimensions if amounts.get(name)]
    return ", ".join(amount_text(*each) for each in there) or "nothing"


@frozen(kw_only=True)
class SameJob:
    """A task of its own job took its place."""

    kind: ClassVar[str] = "SameJob"
    claimant: int
    """The priority of the task for which it was evicted."""
    victim: int
    """Its own priority."""

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"a task of its own job goes first: its priority is {self.claimant}, that of this one "
            f"{self.victim}"
        )


@frozen(kw_only=True)
class CalledIn:
    """It ran on what others wait for, as a backfill task."""

    kind: ClassVar[str] = "CalledIn"

    @property
    def text(self) -> str:
        """The rule in words."""
        return "it ran in backfill, on what was lent to it until others need it"


@frozen(kw_only=True)
class Broken:
    """Its job had fewer tasks than it needs to do any work, and so had the other one."""

    kind: ClassVar[str] = "Broken"

    @property
    def text(self) -> str:
        """The rule in words."""
        return "both jobs had lost tasks that they need, and the other one is completed first"


@frozen(kw_only=True)
class Limit:
    """There was room, but a limit of queues kept the other one out."""

    kind: ClassVar[str] = "Limit"
    limit: str
    """What the limit says."""
    claimant: int
    """The priority of the job for which it was evicted."""
    victim: int
    """The priority of its own job."""

    @property
    def text(self) -> str:
        """The rule in words."""
        said = f"only a limit kept the other one out: {self.limit}"
        return f"{said}; its job has priority {self.victim}, the other one {self.claimant}"


@frozen(kw_only=True)
class LetGo:
    """Plugins let it go."""

    kind: ClassVar[str] = "LetGo"
    plugins: tuple[str, ...]
    """By name; empty: the action did not say by which right it evicts."""

    @property
    def text(self) -> str:
        """The rule in words."""
        if not self.plugins:
            return "the action did not say by which right"
        return f"let go by {' and '.join(self.plugins)}"


Rule = Priority | Share | SameJob | CalledIn | Broken | Limit | LetGo
"""By which right a task was evicted."""


# The story


@frozen(kw_only=True)
class ClaimantFate:
    """What became of the job for which a task was evicted."""

    state: str
    """``started``; ``promised``, at the end of the record; else ``in vain``."""
    cycle: int | None = None
    """The cycle in which it started, counted from 0; None: it did not."""
    node: str = ""
    """Where its task started, or was promised room."""
    why: str = ""
    """Why it was in vain."""


@frozen(kw_only=True, repr=False)
class EvictionStory(Report):
    """Why a task was evicted; see `explain_eviction`."""

    task: str
    task_name: str
    """Its display name."""
    job: str
    node: str
    cycle: int
    """The cycle of the record that evicted it, counted from 0."""
    action: str
    for_task: str
    for_task_name: str
    for_job: str
    rule: Rule
    with_job: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """The tasks, by UID, that left with it as one unit."""
    stayed: Mapping[str, int] = field(default=EMPTY, converter=AsMap[str, int])
    """How many other candidates there were on the node, by the reason why they stayed."""
    claimant: ClaimantFate

    def counted_from(self, first: int) -> EvictionStory:
        """Return the same with its cycles counted from another number than 0."""
        fate = self.claimant
        if fate.cycle is not None:
            fate = evolve(fate, cycle=fate.cycle + first)
        return evolve(self, cycle=self.cycle + first, claimant=fate)

    def lines(self) -> Iterator[str]:
        """Yield the answer, a sentence for each of its parts."""
        yield (
            f"{self.task_name} (job {self.job}) was evicted from {self.node} in cycle "
            f"{self.cycle}, by {self.action}, for {self.for_task_name} (job {self.for_job})"
        )
        yield f"rule: {self.rule.text}"
        if self.with_job:
            yield f"as one unit with: {first_of(self.with_job, _NAMED)}"
        if self.stayed:
            told = [f"{count} {reason}" for reason, count in by_frequency(self.stayed)]
            yield f"others on {self.node} stayed: {first_of(told, _NAMED)}"
        fate = self.claimant
        if fate.state == "started":
            yield f"it helped: job {self.for_job} started on {fate.node} in cycle {fate.cycle}"
        elif fate.state == "promised":
            yield f"job {self.for_job} is promised {fate.node}, and has not started yet"
        else:
            yield f"in vain: {fate.why}"

    def sections(self) -> Iterator[Section]:
        """Yield the answer as one section."""
        head, *others = self.lines()
        yield Section(head, tuple(others), in_full=True)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the story as dicts, lists, strings and numbers only, ready for JSON."""
        rule: dict[str, JsonValue] = {"kind": self.rule.kind, **as_dict(self.rule)}
        return {**as_dict(self), "rule": rule, "lines": list(self.lines())}


@checks_arguments()
def explain_eviction(
    record: Record,
    task_uid: str,
    *,
    cycle: int | None = None,
    registry: Registry | None = None,
    later: Sequence[Record] = (),
) -> EvictionStory:
    """Return by which action a task was evicted, for whom and by which rule, and if it helped.

    A result says for whom a task was evicted, not why. So the record is replayed up to that cycle,
    which then runs with a trace: as slow as these cycles. A record of one result is
    ``Record(config=..., snapshot=..., cycles=[RecordedCycle(result=...)])``.

    It was in vain if the job for which it was evicted starts in no later cycle, and has no promise
    at the end of the record.

    Args:
        record: the record.
        task_uid: the task.
        cycle: the cycle that evicted it, counted from 0; None: the last one that did.
        registry: the plugins and actions that the configuration of the record may name.
        later: records of the same cluster that were made afterwards, in order, to tell what became
            of the job. Their cycles are counted on.

    Raises:
        UnknownNameError: that cycle, or none, evicted the task.
        ArgumentError: this version decides otherwise; the message has the first difference.
        EventError: an event of the record does not fit the cluster.

    >>> from batchsched import JobInfo, NodeInfo, Queue, SchedulerConfig, TaskInfo
    >>> from batchsched.tools import Recorder
    >>> one = Resource(milli_cpu=1000)
    >>> runs = TaskInfo(uid="lo", name="lo", resreq=one, status=TaskStatus.RUNNING, node_name="n")
    >>> recorder = Recorder(Snapshot(
    ...     nodes=[NodeInfo(name="n", allocatable=one)], queues=[Queue(name="q")],
    ...     jobs=[JobInfo(name="lo", queue="q", tasks=[runs]),
    ...           JobInfo(name="hi", queue="q", priority=9,
    ...                   tasks=[TaskInfo(uid="hi", name="hi", resreq=one)])]),
    ...     SchedulerConfig.from_mapping({"actions": "preempt, allocate"}))
    >>> results = [recorder.cycle(), recorder.cycle()]
    >>> print(explain_eviction(recorder.record, "lo"))
    lo (job default/lo) was evicted from n in cycle 0, by preempt, for hi (job default/hi)
      rule: its job has priority 0, the other one 9
      it helped: job default/hi started on n in cycle 1

    """
    at, eviction = _eviction_of(record, task_uid, cycle)
    scheduler = Scheduler(record.config, registry)
    snapshot, events = _replayed(record, at, scheduler)
    told = _TracedEvictions(scheduler.open(snapshot), events)
    return evolve(
        told.story(eviction, at),
        claimant=_fate(record, later, at, snapshot, eviction.for_task_uid),
    )


def evictions_now(
    snapshot: Snapshot, result: CycleResult, tasks: Iterable[str], scheduler: Scheduler
) -> list[EvictionStory]:
    """Return why some tasks are evicted by a cycle on a snapshot; none if it decides otherwise.

    One more cycle, if any of them is.
    """
    wanted = set(tasks)
    evictions = [each for each in result.evictions if each.task_uid in wanted]
    if not evictions:
        return []
    events: list[TraceEvent] = []
    if decisions(scheduler.schedule_traced(snapshot, events.append)) != decisions(result):
        return []
    told = _TracedEvictions(scheduler.open(snapshot), events)
    return [told.story(each, 0) for each in evictions]


def _eviction_of(record: Record, task: str, cycle: int | None) -> tuple[int, Eviction]:
    """Return the last eviction of a task, or that of a cycle, with its cycle."""
    found = {
        number: eviction
        for number, each in enumerate(record.cycles)
        for eviction in each.result.evictions
        if eviction.task_uid == task
    }
    if not found:
        raise UnknownNameError(f"no cycle of the record evicts a task {task!r}")
    at = max(found) if cycle is None else cycle
    if at not in found:
        cycles = ", ".join(map(str, found))
        raise UnknownNameError(f"cycle {at} does not evict task {task!r}; cycles that do: {cycles}")
    return at, found[at]


def _replayed(
    record: Record, at: int, scheduler: Scheduler
) -> tuple[Snapshot, Sequence[TraceEvent]]:
    """Return the snapshot before a cycle, and the trace of that cycle."""
    cluster, events = Cluster(record.snapshot), list[TraceEvent]()
    live, snapshot = scheduler.attach(cluster), record.snapshot
    for number, recorded in enumerate(record.cycles[: at + 1]):
        cluster.apply(*recorded.events)
        if number < at:
            result = live.schedule()
        else:
            snapshot = cluster.snapshot()
            result = scheduler.schedule_traced(snapshot, events.append)
        if decisions(result) != decisions(recorded.result):
            found = compare(recorded.result, result, cluster.snapshot())
            message = f"cycle {number} decides otherwise now than it is recorded\n{found}"
            raise ArgumentError([Fault("record", message)])
        cluster.carry_out(result, at_once=True)
    return snapshot, events


# What the trace tells


class _TracedEvictions:
    """What the trace of a cycle tells of its evictions."""

    def __init__(self, session: Session, events: Iterable[TraceEvent]) -> None:
        self._session = session
        self._taken: dict[str, tuple[UnitsTaken, tuple[str, ...]]] = {}
        """Why each task left, and the unit in which it did."""
        self._queues: Mapping[str, QueueAudit] = {}
        with suppress(ConfigError):  # no plugin divides the cluster among queues
            self._queues = queues_of(session)
        self._held = {name: each.holds for name, each in self._queues.items()}
        """What queues hold as the trace goes on."""
        self._held_at: dict[str, Mapping[str, Resource]] = {}
        """The same, as the turn began in which each task left."""
        self._is_charged = {uid: task.status.charged for uid, task in session.ledger.tasks.items()}
        for event in events:
            if isinstance(event, UnitsTaken):
                before = dict(self._held)
                for unit in event.units:
                    for uid in unit:
                        self._taken[uid], self._held_at[uid] = (event, unit), before
            elif isinstance(event, StatementEnded) and event.committed:
                for step in event.steps:
                    self._charge(step.task, TaskStatus(step.status))

    def _charge(self, uid: str, status: TaskStatus) -> None:
        task = self._session.ledger.tasks[uid]
        job, was, now = task.job, self._is_charged[uid], status.charged
        self._is_charged[uid] = now
        if was == now or task.info.is_backfill or job is None or job.queue is None:
            return
        for name in self._path(job.queue.name):
            held, size = self._held[name], task.info.resreq
            self._held[name] = held + size if now else excess_of(held, size)

    def _path(self, name: str | None) -> Iterator[str]:
        """Yield a queue and those above it."""
        while name is not None and name in self._queues:
            yield name
            name = self._queues[name].parent

    def story(self, eviction: Eviction, cycle: int) -> EvictionStory:
        """Return the story of an eviction, as far as its cycle goes."""
        tasks = self._session.ledger.tasks
        victim, claimant = tasks[eviction.task_uid], tasks[eviction.for_task_uid]
        assert victim.job is not None
        assert claimant.job is not None
        taken, unit = self._taken.get(victim.uid, (None, ()))
        return EvictionStory(
            task=victim.uid,
            task_name=victim.info.display_name,
            job=victim.job.uid,
            node=eviction.node_name,
            cycle=cycle,
            action=eviction.action,
            for_task=claimant.uid,
            for_task_name=claimant.info.display_name,
            for_job=claimant.job.uid,
            rule=LetGo(plugins=()) if taken is None else self._rule(eviction, taken),
            with_job=tuple(uid for uid in unit if uid != victim.uid),
            stayed={} if taken is None else taken.stayed,
            claimant=ClaimantFate(state="promised", node="" if taken is None else taken.node),
        )

    def _rule(self, eviction: Eviction, taken: UnitsTaken) -> Rule:
        tasks = self._session.ledger.tasks
        victim, claimant = tasks[eviction.task_uid], tasks[eviction.for_task_uid]
        assert victim.job is not None
        assert claimant.job is not None
        mine, other = claimant.job.info.priority, victim.job.info.priority
        match taken.right:
            case "priority":
                return Priority(claimant=mine, victim=other)
            case "same job":
                return SameJob(claimant=claimant.info.priority, victim=victim.info.priority)
            case "backfill":
                return CalledIn()
            case "broken":
                return Broken()
            case "limit":
                return Limit(limit=taken.limit, claimant=mine, victim=other)
            case right if right in _SHARES and self._queues:
                return self._share(eviction, right)
            case _:
                return LetGo(plugins=taken.by)

    def _share(self, eviction: Eviction, right: str) -> Share:
        """Return who held what, of the queues below the one at which their paths meet."""
        tasks = self._session.ledger.tasks
        victim, claimant = tasks[eviction.task_uid].job, tasks[eviction.for_task_uid].job
        assert victim is not None
        assert claimant is not None
        theirs, mine = [*self._path(victim.info.queue)], [*self._path(claimant.info.queue)]
        holder = next(
            each
            for each in theirs
            if self._queues[each].parent not in theirs or self._queues[each].parent in mine
        )
        queue = next(
            each
            for each in mine
            if self._queues[each].parent not in mine or self._queues[each].parent in theirs
        )
        held = self._held_at[eviction.task_uid]
        fair, deserved = self._queues[holder].share, self._queues[holder].deserved
        share = {"deserved": fair.max_with(deserved), "met": fair.min_with(deserved)}.get(
            right, fair
        )
        wants = self._queues[queue].wants
        return Share(
            right=right,
            holder=holder,
            held=held[holder],
            share=share,
            claimant=queue,
            claimant_held=held[queue],
            claimant_asked=excess_of(wants, held[queue]),
            claimant_share=self._queues[queue].share,
            dimensions=tuple(
                name for name, amount in held[holder].dimensions() if amount > share.get(name)
            ),
        )


# What became of it


def _fate(
    record: Record, later: Sequence[Record], at: int, snapshot: Snapshot, uid: str
) -> ClaimantFate:
    """Return what became of the job of a task for which another one was evicted in a cycle."""
    job = next(job for job in snapshot.jobs if any(task.uid == uid for task in job.tasks))
    of_job = {task.uid for task in job.tasks}
    gone = ClaimantFate(state="in vain", why=f"job {job.uid} was removed")
    own = record.cycles[at].result
    for bind in own.binds:
        if bind.task_uid == uid:
            return ClaimantFate(state="started", cycle=at, node=bind.node_name)
    last, number = own, at
    for first, results in (
        (None, [each.result for each in record.cycles[at + 1 :]]),
        *((each.snapshot, [one.result for one in each.cycles]) for each in later),
    ):
        if first is not None:
            if job.uid not in {each.uid for each in first.jobs}:
                return gone
            runs = [
                task
                for task in first.job(job.uid).tasks
                if task.uid == uid and task.status.occupies
            ]
            if runs:
                node = runs[0].node_name or ""
                return ClaimantFate(state="started", cycle=number + 1, node=node)
        for result in results:
            last, number = result, number + 1
            places = {bind.task_uid: bind.node_name for bind in result.binds}
            started = [each for each in (uid, *places) if each in places and each in of_job]
            if started:
                node = places[started[0]]
                return ClaimantFate(state="started", cycle=number, node=node)
            if job.uid not in result.jobs and job.uid not in result.left_out:
                return gone
    promises = (*last.pipelined, *last.conditional, *last.reserved, *last.kept_promises)
    places = {each.task_uid: each.node_name for each in promises if each.task_uid in of_job}
    if places:
        node = places.get(uid, next(iter(places.values())))
        return ClaimantFate(state="promised", node=node)
    reason = last.pending.get(uid)
    why = f"job {job.uid} waits" if reason is None else f"job {job.uid} waits: {reason}"
    return ClaimantFate(state="in vain", why=why)
