"""The state of one simulation in the general engine: nodes, jobs with their work, what is held."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from math import inf, nextafter
from operator import add
from typing import cast

from attrs import define, evolve, field

from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus
from batchsched.model.constraints import Toleration, TolerationOperator
from batchsched.model.devices import DevicePick
from batchsched.model.immutable import EMPTY
from batchsched.model.resources import Resource
from batchsched.model.validation.values import is_mapping, is_of, is_tuple, shown
from batchsched.simulation.books import (
    Books,
    Holding,
    JobShape,
    NodeBook,
    NodeChoice,
    Nodes,
    Pairs,
    take_open,
)
from batchsched.simulation.checks import JobId, PolicyError
from batchsched.simulation.decisions import (
    Cause,
    CauseKind,
    Devices,
    Places,
    RunningJob,
    WaitingJob,
)
from batchsched.simulation.jobs import Machine
from batchsched.simulation.settings import Interval, Piece, QueueSet, Settings
from batchsched.simulation.work import CPU, NEVER_SAVED, Checkpoint, Speed, is_enough
from batchsched.simulation.workload import Workload

Exact = int | Fraction
"""A number that is kept exactly."""


def exact(number: float) -> Exact:
    """Return a finite number exactly."""
    if type(number) is int:
        return number
    return int(number) if number.is_integer() else Fraction(number)


def at_or_after(number: Exact) -> float:
    """Return the least number of a clock that is not before an exact time."""
    if type(number) is int:
        return number
    if number.denominator == 1:
        return number.numerator
    time = float(number)
    return time if Fraction(time) >= number else nextafter(time, inf)


AnyJob = JobId | WaitingJob | RunningJob
"""A job, or its id."""
_SEEN = (WaitingJob, RunningJob)


@define(eq=False, repr=False)
class Job:
    """A job during a simulation."""

    index: int
    id: JobId
    shape: JobShape
    run: Exact
    checkpoint: Checkpoint
    cost: Exact = field(init=False)
    """The seconds that it takes to save its work, each time."""
    arrived: float = 0
    queued: int = 0
    """The place in the order of arrivals."""
    estimate: float = inf
    first_estimate: float = inf
    duration: float = inf
    """For how long it would run from its next start on, as far as known."""
    corrections: int = 0
    holding: Holding | None = None
    held_since: float = 0
    """Since when it holds what it holds now."""
    interval_since: float = 0
    """Since when it holds anything."""
    attained: float = 0
    start: float | None = None
    """Since when it holds what it needs; None while it does not."""
    began: bool = False
    """Whether it has held what it needs since its last start."""
    at: Exact = 0
    """The time until which its work is told."""
    rate: Exact = 0
    done: Exact = 0
    kept: Exact = 0
    owed: Exact = 0
    """The seconds that it takes before it works: of starts and resizes."""
    saving: Exact = 0
    """The seconds that saving its work still takes."""
    overhead: Exact = 0
    expected: float = inf
    version: int = 0
    """Events for an earlier version are void."""
    released: int = 0
    """The version whose end is still to be processed, if it has released what it held."""
    stops: int = 0
    seen: WaitingJob | None = None
    info: JobInfo | None = None
    uids: dict[str, int] | None = None

    def __attrs_post_init__(self) -> None:
        self.cost = exact(self.checkpoint.cost) if self.checkpoint.every else 0

    def _seconds(self, begin: Exact, work: Exact, rate: Exact) -> Exact:
        """Return how long work takes from one point to another, saving included."""
        left = work - begin
        if left <= 0 or not rate:
            return 0
        seconds = left if rate == 1 else Fraction(left) / rate
        return seconds + self._saving(begin, work) if self.cost else seconds

    def _saving(self, begin: Exact, work: Exact) -> Exact:
        """Return how long saving takes, from one point of its work to another."""
        if not self.cost:
            return 0
        step = exact(self.checkpoint.every or 0)
        return max(0, -(-work // step) - 1 - begin // step) * self.cost

    def seconds_until(self, work: Exact) -> Exact:
        """Return how long it takes until it has done so much work, at its rate."""
        return self.saving + self.owed + self._seconds(self.done, work, self.rate)

    def seconds_anew(self, work: Exact, rate: Exact, first: Exact) -> float:
        """Return how long it would take from its next start on, at this rate."""
        return at_or_after(first + self._seconds(self.kept, work, rate))

    def advance(self, now: Exact) -> None:
        """Let it work until now."""
        passed = now - self.at
        self.at = now
        if not self.rate or not passed:
            return
        if passed >= self.seconds_until(self.run):
            self.overhead += self.saving + self.owed + self._saving(self.done, self.run)
            self.owed = self.saving = 0
            self.done = self.run
            if self.cost:
                step = exact(self.checkpoint.every or 0)
                self.kept = max(self.kept, (-(-self.run // step) - 1) * step)
            return
        while passed:
            if self.saving:
                used = min(self.saving, passed)
                self.saving -= used
                if not self.saving:
                    self.kept = self.done
            elif self.owed:
                used = min(self.owed, passed)
                self.owed -= used
            else:
                passed -= self._work(passed)
                continue
            self.overhead += used
            passed -= used

    def _work(self, most: Exact) -> Exact:
        """Work until the next time at which it saves; return for how long."""
        cost = self.cost
        if not cost:
            self.done += most * self.rate
            return most
        step = exact(self.checkpoint.every or 0)
        cycle = step / Fraction(self.rate) + cost
        upcoming = (self.done // step + 1) * step
        until = (upcoming - self.done) / Fraction(self.rate)
        if most < until:
            self.done += most * self.rate
            return most
        # Whole cycles of saving and working at once: there may be very many.
        whole = int((most - until) // cycle)
        self.done = upcoming + whole * step
        self.kept = self.done - step if whole else self.kept
        self.overhead += whole * cost
        self.saving = cost
        return until + whole * cycle

    def saved(self) -> Exact:
        """Return the work that it keeps if it is stopped now."""
        every = self.checkpoint.every
        if every is None:
            return 0
        if not every:
            return self.done
        if self.cost:
            return self.kept
        return max(self.kept, self.done // exact(every) * exact(every))


RESERVED = "reservation"
"""The key of the taint of nodes that are reserved."""
Scratch = dict[int, tuple[Sequence[int], int]]
"""By index of a node: what is free there, and how many tasks are there."""


class Columns:
    """The columns of a workload that a simulation reads job by job."""

    def __init__(self, workload: Workload) -> None:
        self.submits = workload.submits
        self.requested = workload.requested
        self.users = workload.users
        self.queues = workload.queues
        self.sizes = workload.processors
        self.labels = workload.labels
        self.infos = workload.infos
        self.priorities = cast("Sequence[int | None]", workload.column("priority"))
        self.deadlines = cast("Sequence[float | None]", workload.column("deadline"))
        self.speeds = cast("Sequence[Speed | None]", workload.column("speed"))
        self.checkpoints = cast("Sequence[Checkpoint | None]", workload.column("checkpoint"))


class SimulationState:
    """Nodes and jobs at a time. Jobs and nodes are identified by their index."""

    def __init__(
        self,
        workload: Workload,
        runs: Sequence[float],
        settings: Settings,
        books: Books,
        placement: NodeChoice | None,
        checkpoint: Checkpoint | None,
        *,
        is_scheduler: bool,
    ) -> None:
        assert workload.machine is not None
        self.now: float = 0
        self.who = ""
        """The name of the policy, for errors."""
        self.workload = workload
        self.machine: Machine = workload.machine
        self.books = books
        self.is_scheduler = is_scheduler
        """Whether the library's own scheduler decides, which asks its own predicates."""
        self.columns = Columns(workload)
        self.ids = workload.ids
        self.index_of = {each: index for index, each in enumerate(workload.ids)}
        self.jobs: list[Job | None] = [None] * len(workload)
        self.queue: list[WaitingJob] = []
        """The waiting jobs, in order of arrival."""
        self._queued: list[int] = []
        """The place of each in the order of all arrivals."""
        self.running: list[tuple[float, int]] = []
        """The expected ends of the jobs that hold resources, with the jobs, sorted."""
        self.unended = dict[int, float]()
        """The start of each running job whose end has not been processed."""
        self.causes: list[Cause] = []
        self.queues_set = dict[str, QueueSet]()
        self.reservations = settings.reservations
        self.intervals: list[Interval] = []
        self.pieces: list[Piece] = []
        self.devices = dict[int, tuple[DevicePick, ...]]()
        """By the number of a piece: the devices of its tasks."""
        count = len(workload)
        self.starts: list[float | None] = [None] * count
        self.resizes = [0] * count
        self.moves = [0] * count
        self.lost: list[Exact] = [0] * count
        self._runs = runs
        self._arrived = 0
        self._checkpoint = settings.checkpoint or checkpoint or NEVER_SAVED
        self._round = None if settings.round_ends is None else exact(settings.round_ends)
        self._shapes = dict[tuple[int, int], JobShape | None]()
        self._width = max((len(str(each)) for each in workload.ids), default=0)
        self.nodes: Nodes | None = None if placement is None else placement.begin(self.machine)
        """Those of the placement of the policy, if it has one."""
        self._taken = dict[int, Sequence[tuple[int, int]]]()
        self._speeds: dict[tuple[Speed, frozenset[int], int], Exact] = {}

    # Jobs

    def shape_of(self, index: int) -> JobShape | None:
        """Return what a job needs; None: something that no node offers.

        For the scheduler, processors of equal nodes are as few tasks as possible, each but the
        last as large as a node; for others, a task each.
        """
        size, info = self.columns.sizes[index], self.columns.infos[index]
        tasks = self.workload.tasks(index)
        key = (size, -1) if tasks is None else (0, tasks.number)
        if key not in self._shapes:
            if tasks is not None and info is not None:
                shape = self.books.shape(tasks.infos, info.tasks, tasks.need, tasks.most)
            elif self.is_scheduler and not self.machine.infos:
                whole, rest = divmod(size, self.machine.per_node)
                sizes = [self.machine.per_node] * whole + [rest] * bool(rest)
                infos = [
                    TaskInfo(uid=f"{number:09}", name="", resreq=Resource(milli_cpu=CPU * each))
                    for number, each in enumerate(sizes)
                ]
                shape = self.books.shape(infos, infos, len(infos), len(infos))
            else:
                shape = self.books.plain_shape(size)
            self._shapes[key] = shape
        return self._shapes[key]

    def arrive(self, index: int, estimate: float | None) -> Job:
        """Put a job at the end of the queue; return it."""
        shape = self.shape_of(index)
        assert shape is not None
        checkpoint = self.columns.checkpoints[index] or self._checkpoint
        job = Job(index, self.ids[index], shape, exact(self._runs[index]), checkpoint)
        known = self.columns.requested[index] if estimate is None else estimate
        job.estimate = job.first_estimate = inf if known is None else known
        job.arrived = self.now
        self.jobs[index] = job
        self._arrived += 1
        job.queued = self._arrived
        self.enqueue(job)
        return job

    def job_of(self, job: AnyJob) -> Job:
        """Return a job that has arrived.

        Raises:
            PolicyError: There is none.
        """
        each = job.id if isinstance(job, _SEEN) else job
        index = self.index_of.get(each)
        record = None if index is None else self.jobs[index]
        if record is None:
            raise PolicyError(f"expected a job that has arrived, got {shown(each)}")
        return record

    def enqueue(self, job: Job) -> None:
        """Put a job into the queue, where its arrival puts it."""
        job.seen = None
        job.duration = self.duration(job)
        place = bisect_left(self._queued, job.queued)
        self._queued.insert(place, job.queued)
        self.queue.insert(place, self.seen(job))

    def unqueue(self, job: Job) -> None:
        """Take a job out of the queue."""
        place = bisect_left(self._queued, job.queued)
        assert self._queued[place] == job.queued
        del self._queued[place], self.queue[place]

    def seen(self, job: Job) -> WaitingJob:
        """Return what a policy may know of a waiting job."""
        if job.seen is None:
            index, columns = job.index, self.columns
            known = columns.infos[index] is not None
            job.seen = WaitingJob(
                id=job.id,
                submit=columns.submits[index],
                processors=columns.sizes[index],
                requested=columns.requested[index],
                estimate=None if job.estimate == inf else job.estimate,
                user=columns.users[index],
                queue=columns.queues[index],
                priority=columns.priorities[index] or 0,
                deadline=columns.deadlines[index],
                kept=at_or_after(job.kept),
                stops=job.stops,
                duration=job.duration,
                need=job.shape.need,
                most=job.shape.most,
                attained=job.attained,
                info=self.info_of(job) if known else None,
                speed=columns.speeds[index],
                labels=columns.labels[index],
            )
        return job.seen

    def seen_running(self, job: Job) -> RunningJob:
        """Return what a policy may know of a job that holds resources."""
        assert job.holding is not None
        job.advance(exact(self.now))
        return RunningJob(
            job=self.seen(job),
            start=job.start,
            expected_end=None if job.expected == inf else job.expected,
            places=job.holding.places,
            done=at_or_after(job.done),
            attained=job.attained + (self.now - job.interval_since),
        )

    def safe_until(self, job: Job) -> float | None:
        """Return until when a job has done what it would keep if it were stopped now, if any."""
        if job.holding is None or not job.began or not job.rate:
            return None
        job.advance(exact(self.now))
        saved = job.saved()
        if not saved:
            return None
        return min(self.now, at_or_after(exact(self.now) - (job.done - saved) / Fraction(job.rate)))

    def duration(self, job: Job) -> float:
        """Return for how long a job would run from its next start on, as far as known."""
        if job.estimate == inf:
            return inf
        speed = self.columns.speeds[job.index]
        rate = 1 if speed is None else exact(speed.of_tasks(job.shape.need))
        return job.seconds_anew(exact(job.estimate), rate, self.restart_cost(job))

    def restart_cost(self, job: Job) -> Exact:
        """Return the seconds that the next start of a job takes before it works."""
        if not job.stops:
            return 0
        restart = job.checkpoint.restart
        if isinstance(restart, int | float):
            return exact(restart)
        size, labels = self.columns.sizes[job.index], self.columns.labels[job.index]
        return exact(restart.seconds(size, self.machine.per_node, labels))

    def name_of(self, index: int) -> str:
        """Return the name of a job for the scheduler: its id; numbers are of equal width."""
        each = self.ids[index]
        return each if isinstance(each, str) else f"{each:0{self._width}}"

    def uids_of(self, job: Job) -> dict[str, int]:
        """Return the position of each task by UID, in the order in which tasks are counted."""
        if job.uids is None:
            name, numbers = self.name_of(job.index), job.shape.numbers or range(job.shape.most)
            width = len(str(len(numbers)))
            job.uids = {f"{name}-{number:0{width}}": place for place, number in enumerate(numbers)}
        return job.uids

    def info_of(self, job: Job) -> JobInfo:
        """Return a job as the scheduler sees it."""
        if job.info is None:
            index, columns = job.index, self.columns
            tolerations = tuple(
                Toleration(key=RESERVED, operator=TolerationOperator.EQUAL, value=each.name)
                for each in self.reservations
                if job.id in each.jobs
            )
            shape = job.shape
            given: Sequence[TaskInfo] = [shape.source[number] for number in shape.numbers]
            if not given:
                cpus = self.books.resource(shape.kinds[0].hold)
                given = [TaskInfo(uid="", name="", resreq=cpus)] * shape.most
            tasks = [
                evolve(
                    task,
                    uid=uid,
                    name=uid,
                    status=TaskStatus.PENDING,
                    node_name=None,
                    start_time=None,
                    checkpoint_time=None,
                    devices=None,
                    tolerations=(*task.tolerations, *tolerations),
                )
                for uid, task in zip(self.uids_of(job), given, strict=True)
            ]
            user, queue = columns.users[index], columns.queues[index]
            base = columns.infos[index] or JobInfo(
                name="",
                queue="default" if queue is None else str(queue),
                min_available=len(tasks),
                priority=columns.priorities[index] or 0,
                user="" if user is None else str(user),
                labels=columns.labels[index],
            )
            job.info = evolve(
                base,
                name=self.name_of(index),
                creation_time=job.arrived,
                last_evicted=None,
                estimate=columns.requested[index],
                deadline=columns.deadlines[index] if base.deadline is None else base.deadline,
                tasks=tasks,
            )
        return job.info

    # Places

    def is_open(self, node: NodeBook, index: int) -> bool:
        """Return whether a node takes tasks of a job now."""
        return (
            node.in_service
            and not node.drained
            and (node.reserved is None or index in node.reserved[1])
        )

    def first_fit(
        self, shape: JobShape, count: int, scratch: Scratch, is_open: Callable[[NodeBook], bool]
    ) -> tuple[tuple[int, int, int], ...] | None:
        """Return node, kind and number of the first `count` tasks, and take them from `scratch`.

        Each goes to the first node by name where it fits. None: some fit nowhere.
        """
        nodes = self.books.nodes
        found: list[tuple[int, int, int]] = []
        left = count
        for kind_index, length in shape.runs:
            kind = shape.kinds[kind_index]
            wanted = min(length, left)
            left -= wanted
            for node in nodes:
                if not wanted:
                    break
                if not is_open(node) or not kind.accepts(node):
                    continue
                free, tasks = scratch.get(node.index) or (node.free, node.tasks)
                room = node.room(kind, free, tasks, wanted)
                if room:
                    after = [a - b * room for a, b in zip(free, kind.hold, strict=True)]
                    scratch[node.index] = (after, tasks + room)
                    found.append((node.index, kind_index, room))
                    wanted -= room
            if wanted or not left:
                left += wanted
                break
        if left:
            self.give(shape, found, scratch)
            return None
        return tuple(found)

    def give(
        self, shape: JobShape, places: Iterable[tuple[int, int, int]], scratch: Scratch
    ) -> None:
        """Give places back to `scratch`."""
        for index, kind, count in places:
            node = self.books.nodes[index]
            free, tasks = scratch.get(index) or (node.free, node.tasks)
            hold = shape.kinds[kind].hold
            after = [a + b * count for a, b in zip(free, hold, strict=True)]
            scratch[index] = (after, tasks - count)

    def is_open_until(self, job: Job, end: float) -> Callable[[NodeBook], bool]:
        """Return whether a node takes tasks of a job from now until a time."""

        def is_open(node: NodeBook) -> bool:
            return self.is_open(node, job.index) and not (
                node.reservations and node.is_closed(job.index, self.now, end)
            )

        return is_open

    def usual_places(self, job: Job) -> Pairs | None:
        """Return where the placement of the policy, or the first fit, puts a job; None: nowhere."""
        if self.nodes is not None:
            return self.choose(job, self.nodes, lambda node: self.is_open(node, job.index))
        is_open = self.is_open_until(job, self.now + job.duration)
        found = self.first_fit(job.shape, job.shape.need, {}, is_open)
        return None if found is None else self.pairs(found)

    def choose(self, job: Job, nodes: Nodes, is_open: Callable[[NodeBook], bool]) -> Pairs | None:
        """Take places with the placement of the policy, until the job gives back all."""
        open_nodes = [is_open(node) for node in self.books.nodes]
        taken = take_open(nodes, self.columns.sizes[job.index], open_nodes)
        if taken is None:
            return None
        self._taken[job.index] = taken
        return self.books.named_places(taken)

    def pairs(self, places: Iterable[tuple[int, int, int]]) -> Pairs:
        """Return places as pairs of the name of a node and a number of tasks."""
        merged: list[tuple[str, int]] = []
        for node, _, count in places:
            name = self.books.nodes[node].info.name
            if merged and merged[-1][0] == name:
                merged[-1] = (name, merged[-1][1] + count)
            else:
                merged.append((name, count))
        return tuple(merged)

    def counted(self, job: Job, pairs: Pairs) -> list[tuple[int, int, int]]:
        """Return node, kind and number of the tasks that pairs of a node and a number mean.

        Jobs of processors may hold more, such as the rest of a whole node.

        Raises:
            PolicyError: They are no places, name unknown nodes, or give too many tasks.
        """
        return self._by_kind(job, self._checked(job, pairs))

    def _by_kind(self, job: Job, pairs: Pairs) -> list[tuple[int, int, int]]:
        named, shape = self.books.named, job.shape
        if len(shape.runs) == 1 and not shape.source:
            return [(named[name], 0, count) for name, count in pairs]
        found: list[tuple[int, int, int]] = []
        runs = iter(shape.runs)
        kind = left = 0
        for name, count in pairs:
            more = count
            while more:
                if not left:
                    kind, left = next(runs, (0, 0))
                if not left:
                    most = f"more than the {shape.most} tasks that may run"
                    raise self.error(job, f"was given {most}")
                part = min(left, more)
                found.append((named[name], kind, part))
                left -= part
                more -= part
        return found

    def holding_of(self, job: Job, places: Places, devices: Devices | None = None) -> Holding:
        """Return what places mean for a job.

        Raises:
            PolicyError: They are no places, name unknown nodes, or give too many tasks.
        """
        given: object = places
        for uid, picks in devices.items() if devices else ():
            if not (is_mapping(given) and uid in given and is_tuple(picks)):
                message = f"was given {shown(picks)} as the devices of {shown(uid)}; expected"
                raise self.error(job, f"{message} a tuple, and the node of each task by UID")
        if type(given) is not tuple and is_mapping(given):
            return self._of_mapping(job, cast("Mapping[str, str]", given), devices)
        pairs = self._checked(job, cast("Pairs", places))
        if not pairs:
            raise self.error(job, "was given no task")
        counts: dict[tuple[int, int], int] = {}
        total = 0
        for index, kind, some in self._by_kind(job, pairs):
            counts[index, kind] = counts.get((index, kind), 0) + some
            total += some
        tasks = min(total, job.shape.most)
        return Holding(counts, pairs, tasks, enough=total >= job.shape.need)

    def _checked(self, job: Job, places: Pairs) -> Pairs:
        named = self.books.named
        listed: list[tuple[str, int]] = []
        try:
            for node, count in places:
                if node not in named:
                    raise self.error(job, f"was placed on {shown(node)}, which is no node")
                if type(count) is not int or count < 1:
                    raise self.error(job, f"was given {shown(count)} tasks on {node}")
                listed.append((node, count))
        except (TypeError, ValueError) as cause:
            if is_of(cause, PolicyError):
                raise
            message = f"was given {shown(places)}; expected pairs of a node and a number of tasks"
            raise self.error(job, message) from cause
        return tuple(listed)

    def _of_mapping(self, job: Job, places: Mapping[str, str], devices: Devices | None) -> Holding:
        uids = self.uids_of(job)
        kinds = [kind for kind, count in job.shape.runs for _ in range(count)]
        counts: dict[tuple[int, int], int] = {}
        numbers: dict[str, int] = {}
        for uid, name in places.items():
            if uid not in uids or uids[uid] >= len(kinds):
                raise self.error(job, f"was given a place for {shown(uid)}, no task of it")
            if name not in self.books.named:
                raise self.error(job, f"was placed on {shown(name)}, which is no node")
            key = (self.books.named[name], kinds[uids[uid]])
            counts[key] = counts.get(key, 0) + 1
            numbers[name] = numbers.get(name, 0) + 1
        if not counts:
            raise self.error(job, "was given no task")
        pairs = tuple(sorted(numbers.items()))
        held = dict(places), devices or EMPTY
        return Holding(counts, pairs, len(places), *held, enough=self.is_enough(job, places))

    def is_enough(self, job: Job, uids: Collection[str]) -> bool:
        """Return whether these tasks are all that a job needs to run."""
        if len(uids) < job.shape.need or self.columns.infos[job.index] is None:
            return len(uids) >= job.shape.need
        info = self.info_of(job)
        return not info.groups or is_enough(info, uids)

    # What is held

    def change_holding(self, job: Job, after: Holding | None) -> None:
        """Note what a job holds from now on, in its intervals and its work; not on the nodes."""
        now = self.now
        job.advance(exact(now))
        before = job.holding
        if before is not None:
            self._note_pieces(job, before)
            place = bisect_left(self.running, (job.expected, job.index))
            del self.running[place]
        if before is None and after is not None:
            job.interval_since = now
        if after is None:
            self.intervals.append((job.index, job.interval_since, now))
            job.attained += now - job.interval_since
            job.start = None
            job.began = False
            job.rate = job.owed = job.saving = 0
            job.expected = inf
        job.held_since = now
        job.holding = after
        job.version += 1
        if after is not None:
            if after.enough and job.start is None:
                job.start = now
                self.unended[job.index] = now
                if self.starts[job.index] is None:
                    self.starts[job.index] = now
            job.rate = self._rate(job, after) if after.enough else 0

    def expect(self, job: Job) -> float:
        """Compute when a job is expected to end, and put it in order; return its end."""
        if not job.rate:
            job.expected = end = inf
        else:
            now = exact(self.now)
            end = self.rounded(now + job.seconds_until(job.run))
            job.expected = inf
            if job.estimate != inf:
                job.expected = self.rounded(now + job.seconds_until(exact(job.estimate)))
        insort(self.running, (job.expected, job.index))
        return end

    def rounded(self, time: Exact) -> float:
        """Return the time of an end, rounded up as the settings say."""
        if self._round is not None:
            time = -(-time // self._round) * self._round
        return at_or_after(time)

    def _rate(self, job: Job, holding: Holding) -> Exact:
        speed = self.columns.speeds[job.index]
        if speed is None:
            return 1
        nodes = frozenset(node for node, _ in holding.counts)
        key = (speed, nodes, holding.tasks)
        rate = self._speeds.get(key)
        if rate is None:
            rate = exact(speed.of_tasks(holding.tasks))
            if speed.nodes:
                infos = [self.books.nodes[node].info for node in nodes]
                factors = [speed.nodes.get(info.labels.get(speed.label, ""), 1) for info in infos]
                rate *= min(map(exact, factors))
            self._speeds[key] = rate
        return rate

    def _note_pieces(self, job: Job, holding: Holding) -> None:
        kinds = job.shape.kinds
        on_node: dict[int, tuple[int, tuple[int, ...]]] = {}
        for (node, kind), count in holding.counts.items():
            tasks, held = count, tuple([amount * count for amount in kinds[kind].hold])
            if node in on_node:
                more, others = on_node[node]
                tasks, held = tasks + more, tuple(map(add, held, others))
            on_node[node] = (tasks, held)
        picks: dict[int, tuple[DevicePick, ...]] = {}
        for uid, some in holding.devices.items():
            node = self.books.named[(holding.mapping or {})[uid]]
            picks[node] = (*picks.get(node, ()), *some)
        for node, (tasks, held) in on_node.items():
            if node in picks:
                self.devices[len(self.pieces)] = picks[node]
            self.pieces.append((job.index, job.held_since, self.now, node, tasks, held))

    def take(self, job: Job, after: Holding, before: Holding | None) -> None:
        """Take on the nodes what a job gets beside what it has.

        Raises:
            PolicyError: It does not fit, or a node takes no tasks of the job.
        """
        old = {} if before is None else before.counts
        for (node, kind), count in after.counts.items():
            more = count - old.get((node, kind), 0)
            if more <= 0:
                continue
            book, one = self.books.nodes[node], job.shape.kinds[kind]
            name = book.info.name
            if not book.in_service:
                raise self.error(job, f"was placed on {name}, which is down")
            if book.drained:
                raise self.error(job, f"was placed on {name}, which is drained")
            if book.reserved is not None and job.index not in book.reserved[1]:
                where = f"{name}, which is reserved ({book.reserved[0].name})"
                raise self.error(job, f"was placed on {where}")
            if not self.is_scheduler and not one.accepts(book):
                raise self.error(job, f"was placed on {name}, which does not accept it")
            if book.room(one, book.free, book.tasks, more) < more:
                raise self.error(job, f"does not fit on {name}")
            self.books.hold(job.index, job.shape, node, kind, more)

    def give_back(self, job: Job, before: Holding, after: Holding | None) -> None:
        """Give back on the nodes what a job does not hold any more."""
        new = {} if after is None else after.counts
        for (node, kind), count in before.counts.items():
            fewer = count - new.get((node, kind), 0)
            if fewer > 0:
                self.books.hold(job.index, job.shape, node, kind, -fewer)
        if after is None and job.index in self._taken:
            assert self.nodes is not None
            self.nodes.give_back(self._taken.pop(job.index))

    def cause(self, kind: CauseKind, what: JobId = "", *, early: bool = False) -> None:
        """Tell the policy in its next pass what has happened."""
        self.causes.append(Cause(kind, what, early))

    def error(self, job: Job | JobId, what: str) -> PolicyError:
        """Return the error of a wrong decision on a job."""
        return self.wrong(f"job {shown(job.id if isinstance(job, Job) else job)} {what}")

    def wrong(self, what: str) -> PolicyError:
        """Return the error of a policy that now does something wrong."""
        return PolicyError(f"{self.who}, at {self.now:,} s: {what}")
