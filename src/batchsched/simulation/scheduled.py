"""Any configuration of the library's own scheduler, simulated on a living cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from attrs import field, frozen

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import Fault
from batchsched.live import Cluster, EndedJobsRemoved, JobArrived, TaskSucceeded, TimePassed
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.scheduler import Scheduler
from batchsched.simulation.outcome import Interval, Outcome
from batchsched.simulation.policy import Policy
from batchsched.simulation.problems import PolicyError, SimulationError
from batchsched.simulation.randomness import RandomNumbers
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Machine, Workload

__all__ = ["Scheduled"]

CPU: Final = 1000
"""A processor of the workload, in thousandths of a cpu."""
QUEUE: Final = "default"
"""The queue of jobs that have none."""
MOST_CYCLES: Final = 100
"""How many cycles may follow one another at one instant because of evictions."""
SHOWN: Final = 20
"""How many faults a message names."""


@frozen(kw_only=True)
class Scheduled(Policy):
    """A configuration of `batchsched.Scheduler`, with all plugins and actions.

    Each job becomes a gang: on nodes of one processor a task for each processor; on larger nodes as
    few tasks as will do, each of a whole node but the last. Tasks ask for cpus alone. A job runs
    from when all its tasks have started. What is evicted waits again, at once, and what it had done
    is lost, unless `checkpoint` says otherwise. Its requested time is the job's `estimate`.

    A cycle follows each event, or each instant; after one that evicts or promises, another follows
    at once.
    """

    config: SchedulerConfig = field(factory=SchedulerConfig)
    queues: tuple[Queue, ...] = field(default=(), converter=tuple[Queue, ...])
    """The queues, which must be those that jobs name. Empty: those, with weight 1. Jobs that name
    none are of the queue `default`."""
    checkpoint: float | None = None
    """How often a job saves what it has done, in seconds of running: an evicted job goes on from
    there. 0: always. None: never."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the scheduler on a cluster made of the workload's machine."""
        _check(workload, self)
        return _Simulation(workload, runs, settings, self).run()

    def __str__(self) -> str:
        return f"scheduler ({', '.join(option.name for option in self.config.actions)})"


def _check(workload: Workload, policy: Scheduled) -> None:
    faults: list[Fault] = []
    if policy.checkpoint is not None and not 0 <= policy.checkpoint < float("inf"):
        faults.append(
            Fault("checkpoint", f"expected seconds, 0 or more, got {policy.checkpoint!r}")
        )
    if workload.has_dependencies:
        faults.append(Fault("workload", "Scheduled knows no jobs that follow others"))
    if policy.queues:
        known = {queue.name for queue in policy.queues}
        named = sorted({_queue_of(queue) for queue in workload.queues} - known)
        faults += [
            Fault("queues", f"jobs name a queue that is not given: {name!r}")
            for name in named[:SHOWN]
        ]
    if faults:
        raise SimulationError(faults)


def _queue_of(queue: object) -> str:
    return QUEUE if queue is None else str(queue)


_ARRIVAL: Final = 0
_END: Final = 1
_PLANNED: Final = 2
_DUE: Final = 3
_KINDS: Final = {"arrival": _ARRIVAL, "end": _END, "promise": _PLANNED}


class _Simulation:
    def __init__(
        self, workload: Workload, runs: Sequence[float], settings: Settings, policy: Scheduled
    ) -> None:
        assert workload.machine is not None
        self._workload = workload
        # Columns are made anew whenever a workload is asked for them.
        self._requested = workload.requested
        self._users = workload.users
        self._job_queues = workload.queues
        self._labels = workload.labels
        self._runs = runs
        self._settings = settings
        self._checkpoint = policy.checkpoint
        self._machine = workload.machine
        queues = policy.queues or tuple(
            Queue(name=name)
            for name in sorted({_queue_of(queue) for queue in workload.queues} | {QUEUE})
        )
        self._cluster = Cluster(nodes=_nodes(workload.machine), queues=queues)
        self._live = Scheduler(policy.config).attach(self._cluster)
        count = len(workload)
        self._tasks: list[tuple[str, ...]] = [()] * count
        self._job_of = dict[str, int]()
        self._bound = [0] * count
        self._remaining = list(runs)
        self._since = dict[int, float]()
        # How often each job was stopped; ends that were expected before are void.
        self._stopped = [0] * count
        self._starts: list[float | None] = [None] * count
        self._ends: list[float | None] = [None] * count
        self._intervals: list[Interval] = []
        self._events: list[tuple[float, int, int, int, int, int]] = []
        self._sequence = count
        self._ranks = {
            _KINDS[kind]: rank for rank, kind in enumerate(settings.ties.order) if kind in _KINDS
        }
        self._ranks[_DUE] = -1
        seed = settings.ties.seed
        self._due_first = settings.ties.due_first and seed is None
        self._random = None if seed is None else RandomNumbers(seed).bits
        self._wakes_at: float | None = None

    def run(self) -> Outcome:
        workload, progress = self._workload, self._settings.progress
        once_an_instant = self._settings.passes == "instant"
        for job, submit in enumerate(workload.submits):
            self._push(submit, _ARRIVAL, job, 0, sequence=job)
        ended = 0
        pending = False
        while self._events:
            now, _, _, kind, job, stopped = heappop(self._events)
            if kind == _ARRIVAL:
                self._arrive(job, now)
                pending = True
            elif kind == _DUE and self._stopped[job] == stopped:
                self._release(job, now)
            elif kind == _END and self._stopped[job] == stopped:
                self._end(job, now)
                pending = True
                ended += 1
                if progress is not None and ended % 1000 == 0:
                    progress(ended, len(workload))
            elif kind == _PLANNED and self._wakes_at == now:
                self._cluster.apply(TimePassed(now))
                self._wakes_at = None
                pending = True
            if pending and not (once_an_instant and self._events and self._events[0][0] == now):
                pending = False
                self._decide(now)
        if progress is not None:
            progress(ended, len(workload))
        return self._outcome()

    def _push(
        self, time: float, kind: int, job: int, stopped: int, *, sequence: int | None = None
    ) -> None:
        if sequence is None:
            self._sequence = sequence = self._sequence + 1
        rank = self._ranks[kind] if self._random is None else self._random()
        heappush(self._events, (time, rank, sequence, kind, job, stopped))

    # Events

    def _arrive(self, job: int, now: float) -> None:
        workload, machine = self._workload, self._machine
        name = f"{job:0{len(str(len(workload)))}}"
        sizes = list(_task_sizes(workload.processors[job], machine))
        width = len(str(len(sizes)))
        uids = tuple(f"{name}-{number:0{width}}" for number in range(len(sizes)))
        tasks = [
            TaskInfo(uid=uid, name=uid, resreq=Resource(milli_cpu=CPU * size))
            for uid, size in zip(uids, sizes, strict=True)
        ]
        user = self._users[job]
        info = JobInfo(
            name=name,
            queue=_queue_of(self._job_queues[job]),
            min_available=len(tasks),
            creation_time=now,
            tasks=tasks,
            user="" if user is None else str(user),
            estimate=self._requested[job],
            labels=self._labels[job],
        )
        self._tasks[job] = uids
        self._job_of.update(dict.fromkeys(uids, job))
        self._cluster.apply(TimePassed(now), JobArrived(info))

    def _end(self, job: int, now: float) -> None:
        if job in self._since:
            self._release(job, now)
        self._ends[job] = now

    def _release(self, job: int, now: float) -> None:
        """Let a job give back what it holds, before it is told to have ended."""
        uids = self._tasks[job]
        self._cluster.apply(
            TimePassed(now), *(TaskSucceeded(uid) for uid in uids), EndedJobsRemoved()
        )
        for uid in uids:
            del self._job_of[uid]
        self._intervals.append((job, self._since.pop(job), now))

    # Decisions

    def _decide(self, now: float) -> None:
        for _ in range(MOST_CYCLES):
            cycle = self._live.schedule(reasons=False)
            self._carry_out(cycle, now)
            if not (cycle.evictions or cycle.pipelined or cycle.kept_promises):
                break
        else:
            raise PolicyError(
                f"at {now} s, {MOST_CYCLES} cycles one after the other evicted or promised "
                "something: this configuration does not come to rest"
            )
        planned = cycle.next_start
        if planned is not None and planned > now and planned != self._wakes_at:
            self._wakes_at = planned
            self._push(planned, _PLANNED, -1, 0)

    def _carry_out(self, cycle: CycleResult, now: float) -> None:
        self._cluster.carry_out(cycle)
        for eviction in cycle.evictions:
            job = self._job_of[eviction.task_uid]
            if job in self._since:
                self._stop(job, now)
            self._bound[job] -= 1
        for bind in cycle.binds:
            job = self._job_of[bind.task_uid]
            self._bound[job] += 1
            if self._bound[job] == len(self._tasks[job]):
                self._since[job] = now
                if self._starts[job] is None:
                    self._starts[job] = now
                left = self._remaining[job]
                self._push(now + left, _END, job, self._stopped[job])
                if self._due_first and left == self._requested[job]:
                    self._push(now + left, _DUE, job, self._stopped[job])

    def _stop(self, job: int, now: float) -> None:
        since = self._since.pop(job)
        self._intervals.append((job, since, now))
        self._stopped[job] += 1
        if self._checkpoint is None:
            return
        done = self._runs[job] - self._remaining[job] + now - since
        saved = done if not self._checkpoint else done // self._checkpoint * self._checkpoint
        # What was saved earlier stays saved.
        self._remaining[job] = min(self._remaining[job], self._runs[job] - saved)

    def _outcome(self) -> Outcome:
        left = [job for job, end in enumerate(self._ends) if end is None]
        held: list[float] = [0] * len(self._ends)
        for job, start, end in self._intervals:
            held[job] += end - start
        return Outcome(
            starts=self._starts,
            ends=self._ends,
            unfinished=dict(self._reasons(left)) if left else {},
            held=held,
            preemptions=self._stopped,
            intervals=sorted(self._intervals),
        )

    def _reasons(self, jobs: Sequence[int]) -> Iterator[tuple[int, str]]:
        cycle = self._live.schedule()
        for job in jobs:
            reasons = [cycle.pending[uid] for uid in self._tasks[job] if uid in cycle.pending]
            yield job, str(reasons[0]) if reasons else "the scheduler does not say why"


def _nodes(machine: Machine) -> list[NodeInfo]:
    width = len(str(machine.nodes))
    allocatable = Resource(milli_cpu=CPU * machine.per_node)
    return [
        NodeInfo(name=f"node-{number:0{width}}", allocatable=allocatable)
        for number in range(machine.nodes)
    ]


def _task_sizes(processors: int, machine: Machine) -> Iterator[int]:
    whole, rest = divmod(processors, machine.per_node)
    yield from [machine.per_node] * whole
    if rest:
        yield rest
