"""The function `forecast`: when jobs that wait will start, and after whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import ceil, inf

from attrs import field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, Fault
from batchsched.live import (
    AttachedScheduler,
    Cluster,
    Event,
    JobArrived,
    JobEnded,
    JobRemoved,
    TaskSucceeded,
    TimePassed,
)
from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus
from batchsched.model.immutable import AsMap
from batchsched.model.result import CycleResult
from batchsched.model.rules import would_keep_minimum
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted, first_of
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import duration_problems, part_named, shown, time_problems
from batchsched.scheduler import Scheduler
from batchsched.tools.changes import admitted, admitted_anew, duration, time_text, who_keeps_out
from batchsched.tools.estimates import AsEstimated, Estimates, drawn, durations_of
from batchsched.tools.report import Report, Section, as_dict
from batchsched.tools.room import Room, only_starts
from batchsched.tools.standings import standings
from batchsched.transition.next_snapshot import is_settled, next_wake

_MOST_CYCLES = 10_000
"""The most cycles of a future."""
_MOST_AT_ONCE = 100
"""The most cycles that evictions or promises may cause at one time."""
_NAMED = 10
"""The most jobs that an assumption names."""
_AFTER = 3
"""The most jobs that a sentence names."""
_TENTHS = 10


@frozen(kw_only=True)
class JobForecast:
    """When a job will start. Times are in seconds, on the clock of the snapshot."""

    job: str
    """Its UID."""
    starts: tuple[float | None, ...]
    """When it first holds what it needs, in each future; None: never."""
    earliest: float | None
    """In one of ten futures it starts until then; of fewer than ten, the first start of all."""
    median: float | None
    """In every second future it starts until then; None: it does not."""
    latest: float | None
    """In nine of ten futures it starts until then; of fewer than ten, the last start of all."""
    nodes: Mapping[str, str] = field(factory=dict[str, str], converter=AsMap[str, str])
    """The nodes of its tasks by UID, in the first future in which it starts at the median."""
    evicted: tuple[str, ...] = ()
    """The UIDs of the tasks that are evicted for it there."""
    waits_for: tuple[str, ...] = ()
    """The UIDs of the jobs that left its nodes there, the last to leave first; if none did, those
    that left any node as it started: it waited for a limit."""
    never: str = ""
    """Why it does not start, where `median` is None."""

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """`earliest` and `latest`."""
        return self.earliest, self.latest

    @property
    def within(self) -> int:
        """The number of futures in which it starts from `earliest` to `latest`."""
        first, last = _or_never(self.earliest), _or_never(self.latest)
        return sum(each is not None and first <= each <= last for each in self.starts)


@frozen(kw_only=True, repr=False)
class Forecast(Report):
    """When jobs will start; see `forecast`."""

    now: float
    """When the futures begin, in seconds on the clock of the snapshot."""
    samples: int
    """How many futures there were."""
    jobs: Mapping[str, JobForecast] = field(converter=AsMap[str, JobForecast])
    """The jobs that were asked for, by UID."""
    endless: tuple[str, ...] = ()
    """The UIDs of the jobs that run, in some future, and of which nobody knows the end."""
    assumes: tuple[str, ...] = ()
    """What was assumed, in sentences."""
    kept_out: Mapping[str, str] = field(factory=dict[str, str], converter=AsMap[str, str])
    """The jobs that only lack the admission of a controller, by UID: here the queues decide."""

    def sentence(self, uid: str, /, names: Mapping[str, str] | None = None) -> str:
        """Return when a job starts, in words.

        Args:
            uid: the UID of the job.
            names: what jobs and tasks are called, by UID; None: as their UIDs.

        Raises:
            UnknownNameError: it was not asked for.

        """
        told = part_named("job", self.jobs, uid, of="forecast")
        names = {} if names is None else names
        name = names.get(uid, uid)
        if told.median is None:
            some = [each for each in told.starts if each is not None]
            if not some:
                return f"{name} does not start: {told.never}"
            when = f"the earliest {_in(min(some) - self.now)}"
            told_of = f"{len(some)} of {len(told.starts)} futures"
            return f"{name} starts in {told_of} only, {when}: {told.never}"
        parts = [f"{name} starts {_in(told.median - self.now)}"]
        if told.earliest != told.latest:
            assert told.earliest is not None
            first = duration(max(told.earliest - self.now, 0.0))
            between = f"not before {first}"
            if told.latest is not None:
                between = f"between {first} and {duration(told.latest - self.now)}"
            parts[0] += f" (in {told.within} of {len(told.starts)} futures {between})"
        if told.evicted:
            evicted = [names.get(each, each) for each in told.evicted]
            parts.append(f"evicting {first_of(evicted, _AFTER)}")
        if told.waits_for:
            others = [names.get(each, each) for each in told.waits_for]
            parts.append(f"after {first_of(others, _AFTER)}")
        return ", ".join(parts)

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each job, the first to start first."""
        for told in self.in_order():
            yield self.sentence(told.job)
        if not self.jobs:
            yield "No job waits."

    def in_order(self) -> list[JobForecast]:
        """Return the jobs, the first to start first, by the median and then by UID."""
        return sorted(self.jobs.values(), key=lambda told: (_or_never(told.median), told.job))

    def sections(self) -> Iterator[Section]:
        """Return the sentences, when each job starts in a table, and what was assumed."""
        if len(self.jobs) <= 1:
            yield Section("", tuple(self.lines()), in_full=True)
        else:
            head = ("job", "earliest", "median", "latest", "after")
            rows = [
                (
                    told.job,
                    *(self._cell(each) for each in (told.earliest, told.median, told.latest)),
                    told.never or first_of(told.waits_for, _AFTER),
                )
                for told in self.in_order()
            ]
            yield Section(f"{counted(len(self.jobs), 'job')} in {self._futures}", (), head, rows)
        if self.jobs:
            yield Section("Assumed", self.assumes)

    @property
    def _futures(self) -> str:
        return counted(self.samples, "future")

    def _cell(self, time: float | None) -> str:
        if time is None:
            return "never"
        return "now" if time <= self.now else f"in {duration(time - self.now)}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the answer as dicts, lists, strings and numbers only, ready for JSON."""
        return {**as_dict(self), "lines": list(self.lines())}


def _or_never(time: float | None) -> float:
    return inf if time is None else time


def _in(seconds: float) -> str:
    return f"in about {duration(seconds)}" if seconds > 0 else "now"


@checks_arguments()
def forecast(
    snapshot: Snapshot,
    *,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
    estimates: Estimates | None = None,
    samples: int = 1,
    seed: int = 0,
    jobs: Sequence[str] | None = None,
    arrivals: Sequence[tuple[JobInfo, float]] = (),
    stretch: float = 1.0,
    until: float | None = None,
) -> Forecast:
    """Return when jobs will start, if the scheduler goes on as configured.

    A future is a loop on a living cluster: cycles run and take effect at once until one neither
    evicts nor promises; then time goes to the next moment at which something ends, arrives or is
    due, and so on until all jobs asked for have started. The first cycle is that of `snapshot`.
    Then what is Releasing has left: jobs of which nothing else is left do not come back, other
    tasks wait again.

    A task ends when its job's duration has passed since its start. A gang (a `min_available` above
    1, or groups) ends as a whole, when that has passed since it first held what it needs now. What
    should have ended before now ends now. What was evicted begins again.

    Jobs that only lack the admission of a controller count as admitted (`Forecast.kept_out`).
    Cost: for each future and moment a cycle on a living cluster.

    Args:
        snapshot: the cluster now.
        config: the configuration; None: the default.
        registry: the plugins and actions that it may name.
        estimates: for how long jobs run: `AsEstimated` (None), `Fixed`, `History` or others.
        samples: how many futures. In a single one each job takes the median of its durations (the
            lower of two); in several, one that depends on `seed`, the job and the future alone.
        seed: chooses other durations.
        jobs: the UIDs of the jobs asked for; None: all that wait and do not hold what they need.
        arrivals: jobs that arrive in each future, with their times: those of an earlier week, say.
        stretch: by how much farther `earliest` and `latest` are from the median than they were in
            the futures, as learned from forecasts that have come true.
        until: the last moment of futures, in seconds on the clock of the snapshot; None: any.

    Raises:
        ArgumentError: a number is out of range, there is no such job, an arrival is before now or
            of a job that is there, or estimates are no ascending durations.

    >>> from batchsched import NodeInfo, Queue, Resource, TaskInfo
    >>> cpu = Resource(milli_cpu=1000)
    >>> def job(name, **more):
    ...     return JobInfo(name=name, queue="q", tasks=[TaskInfo(uid=name, name=name, resreq=cpu,
    ...         **more)])
    >>> r = job("r", status=TaskStatus.RUNNING, node_name="n", start_time=60, estimate=100)
    >>> cluster = Snapshot(nodes=[NodeInfo(name="n", allocatable=cpu)], queues=[Queue(name="q")],
    ...     jobs=[r, job("a", estimate=30), job("b")], now=100)
    >>> print(*forecast(cluster).lines(), sep="; ")
    default/a starts in about 1 min, after default/r; \
default/b starts in about 1 min 30 s, after default/a, default/r

    """
    given = {job.uid for job in snapshot.jobs}
    faults = list(_faults(snapshot, given, samples, jobs, arrivals, stretch, until))
    if faults:
        raise ArgumentError(faults)
    snapshot, kept_out = admitted_anew(snapshot)
    lacking = {job.uid: who for job, _ in arrivals if (who := who_keeps_out(job))}
    coming = sorted(
        ((time, admitted(job) if job.uid in lacking else job) for job, time in arrivals),
        key=lambda each: (each[0], each[1].uid),
    )
    if jobs is None:
        jobs = [job.uid for job in snapshot.jobs if _waits(job)]
    setting = _Setting(
        snapshot=snapshot,
        config=config,
        registry=registry,
        estimates=AsEstimated() if estimates is None else estimates,
        samples=samples,
        seed=seed,
        jobs=tuple(sorted(set(jobs))),
        arrivals=tuple(coming),
        until=inf if until is None else until,
    )
    futures = list(setting.futures())
    endless = tuple(sorted({uid for future in futures for uid in future.endless}))
    return Forecast(
        now=snapshot.now,
        samples=samples,
        jobs={uid: _told(uid, futures, snapshot.now, stretch) for uid in setting.jobs},
        endless=endless,
        assumes=tuple(_assumed(snapshot, setting, endless, {**kept_out, **lacking})),
        kept_out={**kept_out, **lacking},
    )


def _faults(
    snapshot: Snapshot,
    given: set[str],
    samples: int,
    jobs: Sequence[str] | None,
    arrivals: Sequence[tuple[JobInfo, float]],
    stretch: float,
    until: float | None,
) -> Iterator[Fault]:
    if samples < 1:
        yield Fault("samples", f"expected 1 or more, got {samples}")
    yield from (Fault(*each) for each in duration_problems("stretch", stretch))
    if until is not None and not until >= snapshot.now:
        yield Fault("until", f"expected a time from now ({snapshot.now}) on, got {until}")
    known = set(given)
    for position, (job, time) in enumerate(arrivals):
        path = f"arrivals[{position}]"
        problems = [*time_problems(f"{path}[1]", time)]
        yield from (Fault(*each) for each in problems)
        if not problems and time < snapshot.now:
            yield Fault(f"{path}[1]", f"expected a time from now ({snapshot.now}) on, got {time}")
        if job.uid in known:
            yield Fault(f"{path}[0]", f"there is a job {shown(job.uid)} already")
        known.add(job.uid)
    for position, uid in enumerate(jobs or ()):
        if uid not in known:
            yield Fault(f"jobs[{position}]", f"there is no job {shown(uid)}")


def _waits(job: JobInfo) -> bool:
    return any(task.status.to_place for task in job.tasks) and not _has_all(job)


def _has_all(job: JobInfo) -> bool:
    """Return whether a job holds what it needs, or has ended."""
    return any(task.status.ready for task in job.tasks) and would_keep_minimum(job, ())


def _told(uid: str, futures: Sequence[_Future], now: float, stretch: float) -> JobForecast:
    starts = [future.starts.get(uid) for future in futures]
    ranked = sorted(starts, key=_or_never)
    count = len(ranked)
    last = ceil(9 * count / _TENTHS) if count >= _TENTHS else count
    median = ranked[ceil(count / 2) - 1]
    earliest = ranked[ceil(count / _TENTHS) - 1]
    latest = ranked[last - 1]
    if median is None:
        never = next(future.never[uid] for future in futures if uid in future.never)
        return JobForecast(
            job=uid,
            starts=tuple(starts),
            earliest=earliest,
            median=None,
            latest=None,
            never=never,
        )
    assert earliest is not None
    start = futures[starts.index(median)].how[uid]
    return JobForecast(
        job=uid,
        starts=tuple(starts),
        earliest=max(median - stretch * (median - earliest), now),
        median=median,
        latest=None if latest is None else median + stretch * (latest - median),
        nodes=start.nodes,
        evicted=start.evicted,
        waits_for=start.waits_for,
    )


def _assumed(
    snapshot: Snapshot,
    setting: _Setting,
    endless: Sequence[str],
    kept_out: Mapping[str, str],
) -> Iterator[str]:
    count = len(setting.arrivals)
    arriving = f"{counted(count, 'job')} {'arrives' if count == 1 else 'arrive'} as given"
    yield arriving if count else "no job arrives"
    if endless:
        have = "has" if len(endless) == 1 else "have"
        names = first_of(endless, _NAMED)
        yield f"{counted(len(endless), 'job')} {have} no known end: {names}"
    deleted = [job.uid for job in snapshot.jobs if _is_deleted(job)]
    if deleted:
        are = "is" if len(deleted) == 1 else "are"
        comes = "does not come back" if len(deleted) == 1 else "do not come back"
        names = first_of(deleted, _NAMED)
        yield f"{counted(len(deleted), 'job')} {are} being deleted and {comes}: {names}"
    for who in sorted(set(kept_out.values())):
        names = first_of(sorted(uid for uid, each in kept_out.items() if each == who), _NAMED)
        yield f"{who} admits as far as queues allow: {names}"


def _is_deleted(job: JobInfo) -> bool:
    left = {task.status for task in job.tasks if not task.status.ended}
    return left == {TaskStatus.RELEASING}


# Futures


@frozen(kw_only=True)
class _Start:
    """How a job started in a future."""

    nodes: Mapping[str, str]
    evicted: tuple[str, ...]
    waits_for: tuple[str, ...]


class _Setting:
    """What all futures have in common."""

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        config: SchedulerConfig | None,
        registry: Registry | None,
        estimates: Estimates,
        samples: int,
        seed: int,
        jobs: tuple[str, ...],
        arrivals: tuple[tuple[float, JobInfo], ...],
        until: float,
    ) -> None:
        self.snapshot = snapshot
        self.jobs = jobs
        self.arrivals = arrivals
        self.until = until
        self.cluster = Cluster(snapshot)
        scheduler = Scheduler(config, registry)
        self.config, self.registry = scheduler.config, registry
        self.live: AttachedScheduler = scheduler.attach(self.cluster)
        self.only_starts = (
            registry is None
            and only_starts(self.config)
            and not any(task.is_backfill for job in snapshot.jobs for task in job.tasks)
        )
        """Whether cycles start what there is room for, and nothing else."""
        plugins = [option for tier in self.config.tiers for option in tier.plugins]
        self.with_gangs = any(each.name == "gang" and not each.flags for each in plugins)
        self._estimates = estimates
        self._samples, self._seed = samples, seed
        self._durations: dict[str, tuple[tuple[float, ...], str]] = {}
        """How long each job may run that was asked about, and in whose name it draws."""
        self._differ = False
        """Whether futures can differ: some job may run for longer or shorter."""
        for job in snapshot.jobs:
            starts = [each for task in job.tasks if (each := _runs_since(task)) is not None]
            since = _has_all_since(job) if _is_gang(job) else min(starts, default=None)
            if since is not None and since < inf:
                self._known(job, max(snapshot.now - since, 0.0))

    def futures(self) -> Iterator[_Future]:
        """Yield the futures. Each leaves the cluster as it was."""
        for number in range(self._samples):
            with self.cluster.trial():
                future = _Future(self, number)
                future.run()
            yield future
            if not self._differ:
                yield from (future for _ in range(self._samples - number - 1))
                return

    def duration(self, job: JobInfo, future: int) -> float:
        """Return how long a job runs in a future; infinite: nobody knows."""
        known, name = self._known(job, None)
        if not known:
            return inf
        if self._samples == 1:
            return known[(len(known) - 1) // 2]
        return drawn(known, name, seed=self._seed, future=future)

    def _known(self, job: JobInfo, age: float | None) -> tuple[tuple[float, ...], str]:
        """Return how long a job may run, and in whose name it draws.

        It is asked once: what is evicted begins again with the same duration.
        """
        if job.uid not in self._durations:
            known = durations_of(self._estimates, job, age)
            self._durations[job.uid] = known, self._estimates.draws_as(job)
            self._differ = self._differ or known[:1] != known[-1:]
        return self._durations[job.uid]


class _Future:
    """One future: what happens on the cluster of the setting until all have started."""

    def __init__(self, setting: _Setting, number: int) -> None:
        self._setting, self._number = setting, number
        self._cluster, self._live = setting.cluster, setting.live
        self._now = setting.snapshot.now
        self.starts: dict[str, float] = {}
        self.how: dict[str, _Start] = {}
        self.never: dict[str, str] = {}
        """Why jobs do not start."""
        self.endless: dict[str, None] = {}
        """The jobs that run and do not end."""
        self._waiting = dict.fromkeys(setting.jobs)
        self._arrivals = list(reversed(setting.arrivals))
        self._ends: dict[tuple[str, str], float] = {}
        """When what runs ends, by job and task; the task of a gang is empty."""
        self._queue: list[tuple[float, str, str]] = []
        """These ends with their jobs and tasks, and others that `_ends` does not have any more."""
        self._left: dict[str, dict[str, float]] = {}
        """When a task of a job last left a node, by node and job."""
        self._left_now: dict[str, float] = {}
        """The jobs of which tasks have left at this moment."""
        self._evicted: dict[str, dict[str, None]] = {}
        """The tasks that were evicted for a job, by its UID."""
        self._cycles = 0
        self._room: Room | None = None
        """Whether cycles could start anything, where that is all that they do."""
        self._changed_jobs: dict[str, None] = {}
        """The jobs and nodes that have changed since that was asked."""
        self._changed_nodes: dict[str, None] = {}

    def run(self) -> None:
        """Let happen what happens, from today's cycle on."""
        content, before = self._cluster.content, self._setting.snapshot
        leaving = [u for u in content.unsettled if content.tasks[u].status is TaskStatus.RELEASING]
        deleted = [job.uid for job in before.jobs if _is_deleted(job)]
        self._look(content.jobs)
        cycle = self._cycle()
        for uid in leaving:
            self._leaves(uid, before.task(uid).node_name)
        self._cluster.apply(*map(JobRemoved, deleted))
        for uid, tasks in content.members.items():
            self._expect(uid, tasks)
        if leaving:
            cycle = self._cycle()
        cycle = self._settled(cycle)
        if self._setting.only_starts and not content.unsettled:
            self._room = Room(content, with_gangs=self._setting.with_gangs)
        why = ""
        while self._waiting and not why:
            cycle = self._settled(cycle)
            moment = self._next_moment(cycle)
            if not is_settled(cycle) or self._cycles >= _MOST_CYCLES:
                why = f"it has not started after {self._cycles:,} cycles"
            elif self._setting.until < moment < inf:
                why = f"it does not start until {time_text(self._setting.until)}"
            elif moment == inf:
                break
            elif self._waiting:
                is_due = moment == next_wake(cycle, after=self._now)
                self._go_on(moment)
                if is_due or self._may_start():
                    cycle = self._cycle()
        if self._waiting:
            self._tell_why(why)

    def _settled(self, cycle: CycleResult) -> CycleResult:
        """Run cycles until one neither evicts nor promises, as many as may be; return the last."""
        for _ in range(_MOST_AT_ONCE):
            if is_settled(cycle):
                break
            cycle = self._cycle()
        return cycle

    def _next_moment(self, cycle: CycleResult) -> float:
        queue = self._queue
        while queue and self._ends.get(queue[0][1:]) != queue[0][0]:
            heappop(queue)
        end = max(queue[0][0], self._now) if queue else inf
        arrival = self._arrivals[-1][0] if self._arrivals else inf
        return min(end, arrival, next_wake(cycle, after=self._now))

    def _go_on(self, moment: float) -> None:
        """Go to a moment, at which all ends that is due, and arrives."""
        content = self._cluster.content
        if moment > self._now:
            self._left_now.clear()
        self._now = moment
        events: list[Event] = [TimePassed(moment)]
        while self._queue and self._queue[0][0] <= moment:
            time, *key = heappop(self._queue)
            job, task = key
            if self._ends.get((job, task)) != time:
                continue
            del self._ends[job, task]
            self._changed_jobs[job] = None
            for uid in [task] if task else content.members[job]:
                if content.tasks[uid].status.holds:
                    self._leaves(uid, content.tasks[uid].node_name)
            events.append(TaskSucceeded(task) if task else JobEnded(job))
        while self._arrivals and self._arrivals[-1][0] <= moment:
            arrived = self._arrivals.pop()[1]
            self._changed_jobs[arrived.uid] = None
            events.append(JobArrived(arrived))
        self._cluster.apply(*events)

    def _may_start(self) -> bool:
        """Return whether a cycle could start anything now."""
        if self._room is None:
            return True
        self._room.look_at(self._changed_jobs, self._changed_nodes)
        self._changed_jobs.clear()
        self._changed_nodes.clear()
        return self._room.may_start()

    def _leaves(self, task: str, node: str | None) -> None:
        """Note that a task leaves a node now."""
        job = self._cluster.content.owner.get(task)
        if job is not None and node is not None:
            self._changed_nodes[node] = None
            self._left.setdefault(node, {})[job] = self._left_now[job] = self._now

    def _cycle(self) -> CycleResult:
        """Run a cycle, let all that it decides happen, and look who has started."""
        owner = self._cluster.content.owner
        cycle = self._live.schedule(reasons=False)
        self._cycles += 1
        moved: dict[str, list[str]] = {}
        for eviction in cycle.evictions:
            self._leaves(eviction.task_uid, eviction.node_name)
            moved.setdefault(owner[eviction.task_uid], []).append(eviction.task_uid)
            claimant = owner[eviction.for_task_uid]
            self._evicted.setdefault(claimant, {})[eviction.task_uid] = None
        for move in cycle.moves:
            self._leaves(move.task_uid, move.from_node)
            moved.setdefault(owner[move.task_uid], []).append(move.task_uid)
        self._cluster.carry_out(cycle, at_once=True)
        for bind in cycle.binds:
            self._changed_nodes[bind.node_name] = None
            moved.setdefault(owner[bind.task_uid], []).append(bind.task_uid)
        for uid, tasks in moved.items():
            self._changed_jobs[uid] = None
            self._expect(uid, tasks)
        self._look(moved)
        return cycle

    def _expect(self, uid: str, moved: Sequence[str]) -> None:
        """Find out when what runs of a job ends, after tasks of it have moved."""
        content = self._cluster.content
        if _is_gang(content.jobs[uid]):
            self._set_end(uid, "", _has_all_since(self._cluster.job(uid)))
        else:
            for task in moved:
                self._set_end(uid, task, _runs_since(content.tasks[task]))

    def _set_end(self, job: str, task: str, since: float | None) -> None:
        """Set when what runs since a time ends; None: it does not run, infinite: unknown."""
        self._ends.pop((job, task), None)
        if since is None:
            return
        end = since + self._setting.duration(self._cluster.job(job), self._number)
        if end == inf:
            self.endless[job] = None
        else:
            self._ends[job, task] = end
            heappush(self._queue, (end, job, task))

    def _look(self, moved: Iterable[str]) -> None:
        """Note which of the jobs asked for have what they need now."""
        for uid in moved:
            if uid in self._waiting and _has_all(job := self._cluster.job(uid)):
                del self._waiting[uid]
                self.starts[uid] = self._now
                self.how[uid] = self._how(job)

    def _how(self, job: JobInfo) -> _Start:
        nodes = {
            task.uid: task.node_name
            for task in job.tasks
            if task.status.occupies and task.node_name is not None
        }
        left: dict[str, float] = {}
        for node in nodes.values():
            for uid, time in self._left.get(node, {}).items():
                left[uid] = max(time, left.get(uid, time))
        left.pop(job.uid, None)
        left = left or {uid: time for uid, time in self._left_now.items() if uid != job.uid}
        return _Start(
            nodes=nodes,
            evicted=tuple(self._evicted.get(job.uid, ())),
            waits_for=tuple(sorted(left, key=lambda uid: (-left[uid], uid))),
        )

    def _tell_why(self, why: str) -> None:
        """Say why the jobs that wait to the end do not start."""
        if why:
            self.never = dict.fromkeys(self._waiting, why)
            return
        setting = self._setting
        told = standings(
            self._cluster.snapshot(),
            self._live.schedule(),
            config=setting.config,
            registry=setting.registry,
        )
        standing_of = {each.job: each for each in told}
        for uid in self._waiting:
            standing = standing_of.get(uid)
            if standing is None:
                self.never[uid] = "it is being deleted"
            else:
                self.never[uid] = next((each.text for each in standing.blockers), standing.text)


def _is_gang(job: JobInfo) -> bool:
    """Return whether a job ends as a whole."""
    return job.min_available > 1 or bool(job.groups)


def _runs_since(task: TaskInfo) -> float | None:
    """Return since when a task runs; None: it does not, infinite: unknown."""
    if not task.status.occupies:
        return None
    return inf if task.start_time is None else task.start_time


def _has_all_since(job: JobInfo) -> float | None:
    """Return since when what runs of a gang suffices; None: it does not, infinite: unknown."""
    since = {task.uid: each for task in job.tasks if (each := _runs_since(task)) is not None}
    for time in sorted(set(since.values())):
        if would_keep_minimum(job, {uid for uid, start in since.items() if start > time}):
            return time
    return None
