"""The library's own scheduler as a policy, on a cluster to which incidents may happen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import isfinite
from typing import Final, get_args

from attrs import evolve, field, frozen

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import Fault
from batchsched.live import (
    Cluster,
    JobArrived,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    QueueAdded,
    QueueChanged,
    TaskGone,
    TaskSucceeded,
    TimePassed,
)
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.immutable import kept_tuple
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.validation.values import is_of, shown
from batchsched.plugin.arguments import Arguments
from batchsched.plugins.usage import UsagePlugin
from batchsched.scheduler import Scheduler
from batchsched.simulation.nodes import Cost, NoCost
from batchsched.simulation.policy import Interval, Outcome, Policy, Settings
from batchsched.simulation.pool import Arrivals
from batchsched.simulation.randomness import RandomNumbers
from batchsched.simulation.workload import (
    JobId,
    Machine,
    PolicyError,
    SimulationError,
    Workload,
    faults_of_part,
    is_number,
)

# Incidents


@frozen(kw_only=True)
class NodeDown:
    """A node fails: every job with a task there is stopped entirely, and waits again."""

    at: float
    """The time in seconds, on the clock of the workload."""
    node: int
    """The number of the node, counted from 0."""


@frozen(kw_only=True)
class NodeDrained:
    """No task starts on a node any more; running tasks continue. Needs the plugin `predicates`."""

    at: float
    node: int


@frozen(kw_only=True)
class NodeUp:
    """A node that was down or drained is available again."""

    at: float
    node: int


@frozen(kw_only=True)
class JobCancelled:
    """A job is cancelled, before or after its arrival. No effect if it has ended."""

    at: float
    job: JobId


@frozen(kw_only=True)
class JobFailed:
    """A running job fails; see `Scheduled.resubmit_failed`. No effect if it does not run."""

    at: float
    job: JobId


@frozen(kw_only=True)
class QueueSet:
    """A queue is replaced by the given one, or added if there is none of this name."""

    at: float
    queue: Queue


Incident = NodeDown | NodeDrained | NodeUp | JobCancelled | JobFailed | QueueSet


# The policy

_CPU: Final = 1000
"""A processor of the workload, in thousandths of a _CPU."""
_DEFAULT_QUEUE: Final = "default"
"""The queue of jobs that name none."""
_MOST_CYCLES: Final = 100
"""The most cycles that evictions or promises may cause at one instant."""
_MOST_FAULTS: Final = 20
"""The most faults that a message lists."""


def _queues(items: Iterable[Queue], /) -> tuple[Queue, ...]:
    return kept_tuple(items, "queues")


def _incidents(items: Iterable[Incident], /) -> tuple[Incident, ...]:
    return kept_tuple(items, "incidents")


@frozen(kw_only=True)
class Scheduled(Policy):
    """A configuration of `batchsched.Scheduler`, with all its plugins and actions.

    Each job becomes a gang: on nodes of one processor, a task for each processor; on larger nodes,
    as few tasks as possible, each but the last as large as a node. Tasks request _CPU only. A job
    runs from the time when all its tasks have started. Evicted jobs wait again at once, and lose
    their progress unless `checkpoint` is given. The requested time of a job is its `estimate`.

    A cycle follows each event, or each instant (see `simulate`); after a cycle that evicts or
    promises, another follows at once. `incidents` come before all other events of their instant.
    With the plugin ``usage``, the usage of queues is tracked from zero, with the plugin's
    half-life.
    """

    config: SchedulerConfig = field(factory=SchedulerConfig)
    queues: tuple[Queue, ...] = field(default=(), converter=_queues)
    """The queues, including all that jobs name. Empty: the queues that jobs name, with weight 1.
    Jobs that name no queue belong to `default`."""
    checkpoint: float | None = None
    """The interval between checkpoints, in seconds of running: a job that was stopped resumes from
    the last one. 0: continuously. None: never."""
    restart_cost: Cost = field(factory=NoCost)
    """The seconds that a restarted job runs before it continues its work."""
    incidents: tuple[Incident, ...] = field(default=(), converter=_incidents)
    """Incidents: nodes fail, are drained or come back; jobs are cancelled or fail; queues
    change."""
    resubmit_failed: bool = False
    """Whether a failed job waits again at once, and resumes from its last checkpoint; if not, it
    has ended."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the scheduler on a cluster made of the workload's machine."""
        _check(workload, self)
        return _Simulation(workload, runs, settings, self).run()

    def __str__(self) -> str:
        return f"scheduler ({', '.join(option.name for option in self.config.actions)})"


def _half_life(config: SchedulerConfig) -> float | None:
    """Return the half-life of the plugin usage; None if it is not configured."""
    for tier in config.tiers:
        for option in tier.plugins:
            if option.name == "usage":
                return UsagePlugin.from_arguments(Arguments(option.arguments)).half_life
    return None


def _queue_of(queue: object) -> str:
    """Return the queue of a job; `_DEFAULT_QUEUE` if it names none."""
    return _DEFAULT_QUEUE if queue is None else str(queue)


def _check(workload: Workload, policy: Scheduled) -> None:
    faults: list[Fault] = []
    if policy.checkpoint is not None and not is_number(policy.checkpoint, least=0):
        faults.append(
            Fault("checkpoint", f"expected seconds, 0 or more, got {shown(policy.checkpoint)}")
        )
    if not is_of(policy.config, SchedulerConfig):
        message = f"expected a SchedulerConfig, got {shown(policy.config)}"
        raise SimulationError.at("config", message)
    shapes = [
        Fault(name, f"expected a collection of {what}, got {shown(given)}; use a list")
        for name, given, what in (
            ("queues", policy.queues, "queues"),
            ("incidents", policy.incidents, "incidents"),
        )
        if not is_of(given, tuple)
    ]
    if shapes:
        raise SimulationError([*faults, *shapes])
    faults += faults_of_part("restart_cost", policy.restart_cost, "seconds", "ByDistance()")
    faults += [
        Fault(f"queues[{number}]", f"expected a Queue, got {shown(queue)}")
        for number, queue in enumerate(policy.queues)
        if not is_of(queue, Queue)
    ]
    plugins = {option.name for tier in policy.config.tiers for option in tier.plugins}
    faults += _faults_of_incidents(
        policy.incidents, workload, knows_drained="predicates" in plugins
    )
    if policy.queues and not faults:
        known = {queue.name for queue in policy.queues}
        known |= {each.queue.name for each in policy.incidents if isinstance(each, QueueSet)}
        named = sorted({_queue_of(queue) for queue in workload.queues} - known)
        faults += [
            Fault("queues", f"expected the queue {name!r}, which jobs name, got none")
            for name in named[:_MOST_FAULTS]
        ]
    if faults:
        raise SimulationError(faults)


def _faults_of_incidents(
    incidents: Iterable[Incident], workload: Workload, *, knows_drained: bool
) -> Iterator[Fault]:
    """Yield what is wrong with incidents.

    Args:
        incidents: The incidents.
        workload: The jobs and nodes that they refer to.
        knows_drained: Whether the scheduler respects drained nodes.
    """
    ids = set(workload.ids)
    nodes = 0 if workload.machine is None else workload.machine.nodes
    for number, each in enumerate(incidents):
        where = f"incidents[{number}]"
        if not any(is_of(each, kind) for kind in get_args(Incident)):
            yield Fault(
                where, f"expected an incident such as NodeDown(at=60, node=0), got {shown(each)}"
            )
            continue
        time: object = each.at
        if type(time) not in (int, float) or not (isfinite(each.at) and each.at >= 0):
            yield Fault(f"{where}.at", f"expected a time in seconds, 0 or later, got {shown(time)}")
        if isinstance(each, NodeDown | NodeDrained | NodeUp):
            node: object = each.node
            if type(node) is not int or not 0 <= each.node < nodes:
                message = f"expected the number of a node, 0 to {nodes - 1}, got {shown(node)}"
                yield Fault(f"{where}.node", message)
            if isinstance(each, NodeDrained) and not knows_drained:
                message = (
                    "expected the plugin predicates in the configuration; without it this has no "
                    "effect"
                )
                yield Fault(where, message)
        elif isinstance(each, QueueSet):
            queue: object = each.queue
            if not is_of(queue, Queue):
                yield Fault(f"{where}.queue", f"expected a Queue, got {shown(queue)}")
        elif each.job not in ids:
            yield Fault(
                f"{where}.job", f"expected the id of a job in this workload, got {shown(each.job)}"
            )


# One simulation: events and cycles on a live cluster

_ARRIVAL: Final = 0
_END: Final = 1
_PLANNED: Final = 2
_DUE: Final = 3
_INCIDENT: Final = 4
_KINDS: Final = {"arrival": _ARRIVAL, "end": _END, "promise": _PLANNED}


class _Simulation:
    def __init__(
        self, workload: Workload, runs: Sequence[float], settings: Settings, policy: Scheduled
    ) -> None:
        assert workload.machine is not None
        self._workload = workload
        # A workload builds its columns anew at each access.
        self._requested = workload.requested
        self._users = workload.users
        self._job_queues = workload.queues
        self._labels = workload.labels
        self._runs = runs
        self._settings = settings
        self._policy = policy
        self._checkpoint = policy.checkpoint
        self._half_life = _half_life(policy.config)
        self._machine = workload.machine
        queues = policy.queues or tuple(
            Queue(name=name)
            for name in sorted({_queue_of(queue) for queue in workload.queues} | {_DEFAULT_QUEUE})
        )
        self._nodes = _nodes(workload.machine)
        self._cluster = Cluster(nodes=self._nodes, queues=[self._tracking_usage(q) for q in queues])
        self._live = Scheduler(policy.config).attach(self._cluster)
        count = len(workload)
        self._tasks: list[tuple[str, ...]] = [()] * count
        self._job_of = dict[str, int]()
        self._bound = [0] * count
        self._remaining = list(runs)
        self._since = dict[int, float]()
        # How often each job was stopped; earlier events for its end are void.
        self._stopped = [0] * count
        self._restarting = dict[int, float]()
        """Restart cost, in seconds, of running jobs that were stopped before."""
        self._names = [f"{job:0{len(str(count))}}" for job in range(count)]
        self._job_with = {each: job for job, each in enumerate(workload.ids)}
        self._endings = dict[int, str]()
        self._arrivals = Arrivals(
            workload, lambda time, job: self._push(time, _ARRIVAL, job, 0, sequence=job)
        )
        self._starts: list[float | None] = [None] * count
        self._ends: list[float | None] = [None] * count
        self._intervals: list[Interval] = []
        self._events: list[tuple[float, int, int, int, int, int]] = []
        self._sequence = count
        self._ranks = {
            _KINDS[kind]: rank for rank, kind in enumerate(settings.ties.order) if kind in _KINDS
        }
        self._ranks |= {_DUE: -1, _INCIDENT: -2}
        seed = settings.ties.seed
        self._due_first = settings.ties.due_first and seed is None
        self._random = None if seed is None else RandomNumbers(seed).bits
        self._wakes_at: float | None = None

    def run(self) -> Outcome:
        workload, progress = self._workload, self._settings.progress
        once_an_instant = self._settings.passes == "instant"
        for number, incident in enumerate(self._policy.incidents):
            self._push(incident.at, _INCIDENT, number, 0)
        self._arrivals.push_next()
        ended = 0
        pending = False
        while self._events:
            now, _, _, kind, job, stopped = heappop(self._events)
            if kind == _INCIDENT:
                self._apply_incident(self._policy.incidents[job], now)
                pending = True
            elif kind == _ARRIVAL:
                if self._arrivals.is_last_known(job):
                    self._arrivals.push_next()
                if job not in self._endings:
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
        name = self._names[job]
        sizes = list(_task_sizes(workload.processors[job], machine))
        width = len(str(len(sizes)))
        uids = tuple(f"{name}-{number:0{width}}" for number in range(len(sizes)))
        tasks = [
            TaskInfo(uid=uid, name=uid, resreq=Resource(milli_cpu=_CPU * size))
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
        self._arrivals.push_followers(job, now)

    def _release(self, job: int, now: float) -> None:
        """Release what a job holds; its end may be processed later at the same instant."""
        events = [TaskSucceeded(uid) for uid in self._tasks[job]]
        self._cluster.apply(TimePassed(now), *events, JobRemoved(self._uid(job)))
        for uid in self._tasks[job]:
            del self._job_of[uid]
        self._intervals.append((job, self._since.pop(job), now))

    def _uid(self, job: int) -> str:
        return f"default/{self._names[job]}"

    # Incidents

    def _apply_incident(self, incident: Incident, now: float) -> None:
        self._cluster.apply(TimePassed(now))
        match incident:
            case JobCancelled():
                self._cancel(self._job_with[incident.job], now)
            case JobFailed():
                job = self._job_with[incident.job]
                if job in self._since and self._policy.resubmit_failed:
                    self._interrupt(job, now)
                elif job in self._since:
                    self._leave(job, now, "failed")
            case NodeDown() | NodeDrained() | NodeUp():
                self._set_node(incident, now)
            case _:
                queue = self._tracking_usage(incident.queue)
                before = self._cluster.content.queues.get(queue.name)
                if before is None:
                    self._cluster.apply(QueueAdded(queue))
                else:
                    queue = evolve(queue, usage=before.usage, usage_by_user=before.usage_by_user)
                    self._cluster.apply(QueueChanged(queue))

    def _tracking_usage(self, queue: Queue) -> Queue:
        """Return the queue, set to track its usage if a plugin reads that."""
        if self._half_life is None or queue.usage_half_life is not None:
            return queue
        return evolve(queue, usage_half_life=self._half_life)

    def _cancel(self, job: int, now: float) -> None:
        if self._ends[job] is None and job not in self._endings:
            if self._tasks[job]:
                self._leave(job, now, "cancelled")
            else:
                # Its arrival will be ignored.
                self._endings[job] = "cancelled"
                self._stopped[job] += 1
                self._arrivals.push_followers(job, now)

    def _leave(self, job: int, now: float, ending: str) -> None:
        """Remove a job that has arrived and not ended."""
        self._endings[job] = ending
        self._stopped[job] += 1  # Its event for its end is void.
        for uid in self._tasks[job]:
            self._job_of.pop(uid, None)
        if self._uid(job) in self._cluster.content.jobs:
            self._cluster.apply(JobRemoved(self._uid(job)))
        if job in self._since:
            self._intervals.append((job, self._since.pop(job), now))
        if self._starts[job] is not None:
            self._ends[job] = now
        self._arrivals.push_followers(job, now)

    def _set_node(self, incident: NodeDown | NodeDrained | NodeUp, now: float) -> None:
        node = self._nodes[incident.node]
        content = self._cluster.content
        is_there = node.name in content.nodes
        if isinstance(incident, NodeDown):
            if is_there:
                uids = list(content.on_node.get(node.name, ()))
                for job in dict.fromkeys(self._job_of[uid] for uid in uids):
                    self._interrupt(job, now)
                self._cluster.apply(NodeRemoved(node.name))
        elif isinstance(incident, NodeUp):
            self._cluster.apply(NodeChanged(node) if is_there else NodeAdded(node))
        elif is_there:
            self._cluster.apply(NodeChanged(evolve(node, unschedulable=True)))

    def _interrupt(self, job: int, now: float) -> None:
        """Stop all tasks of a job; it waits again."""
        if job in self._since:
            self._stop(job, now)
        tasks = self._cluster.content.tasks
        placed = [uid for uid in self._tasks[job] if tasks[uid].node_name is not None]
        self._cluster.apply(*(TaskGone(uid) for uid in placed))
        self._bound[job] = 0

    # Decisions

    def _decide(self, now: float) -> None:
        for _ in range(_MOST_CYCLES):
            cycle = self._live.schedule(reasons=False)
            self._carry_out(cycle, now)
            if not (cycle.evictions or cycle.pipelined or cycle.kept_promises):
                break
        else:
            raise PolicyError(
                f"at {now} s: expected the scheduler to settle, but {_MOST_CYCLES} cycles in a row "
                "evicted or promised something; this configuration never settles"
            )
        planned = cycle.next_start
        if planned is not None and planned > now and planned != self._wakes_at:
            self._wakes_at = planned
            self._push(planned, _PLANNED, -1, 0)

    def _carry_out(self, cycle: CycleResult, now: float) -> None:
        self._cluster.carry_out(cycle, at_once=True)
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
                if self._stopped[job]:
                    left += self._restarts(job)
                self._push(now + left, _END, job, self._stopped[job])
                if self._due_first and left == self._requested[job]:
                    self._push(now + left, _DUE, job, self._stopped[job])

    def _restarts(self, job: int) -> float:
        """Record that a job restarts; return the cost in seconds."""
        per_node, size = self._machine.per_node, self._workload.processors[job]
        cost = self._policy.restart_cost.seconds(size, per_node, self._labels[job])
        self._restarting[job] = cost
        return cost

    def _stop(self, job: int, now: float) -> None:
        since = self._since.pop(job)
        self._intervals.append((job, since, now))
        self._stopped[job] += 1
        if self._checkpoint is None:
            return
        worked = max(0, now - since - self._restarting.get(job, 0))
        done = self._runs[job] - self._remaining[job] + worked
        saved = done if not self._checkpoint else done // self._checkpoint * self._checkpoint
        # Earlier checkpoints remain valid.
        self._remaining[job] = min(self._remaining[job], self._runs[job] - saved)

    def _outcome(self) -> Outcome:
        left = [job for job, end in enumerate(self._ends) if end is None]
        held: list[float] = [0] * len(self._ends)
        for job, start, end in self._intervals:
            held[job] += end - start
        cancelled_or_failed = self._endings
        return Outcome(
            starts=self._starts,
            ends=self._ends,
            eligible=self._arrivals.eligible,
            unfinished=dict(self._reasons(left)) if left else {},
            endings=cancelled_or_failed,
            held=held,
            preemptions=[
                stops - (job in cancelled_or_failed) for job, stops in enumerate(self._stopped)
            ],
            intervals=sorted(self._intervals),
            parents={
                name: queue.parent
                for name, queue in sorted(self._cluster.content.queues.items())
                if queue.parent is not None
            },
        )

    def _reasons(self, jobs: Sequence[int]) -> Iterator[tuple[int, str]]:
        cycle = self._live.schedule()
        for job in jobs:
            reasons = [cycle.pending[uid] for uid in self._tasks[job] if uid in cycle.pending]
            left_out = cycle.left_out.get(self._uid(job))
            if job in self._endings:
                yield job, f"it was {self._endings[job]} before it started"
            elif reasons:
                yield job, str(reasons[0])
            elif left_out is not None:
                yield job, str(left_out)
            else:
                yield job, self._arrivals.why_never(job) or "the scheduler gives no reason"


def _nodes(machine: Machine) -> list[NodeInfo]:
    width = len(str(machine.nodes))
    allocatable = Resource(milli_cpu=_CPU * machine.per_node)
    return [
        NodeInfo(name=f"node-{number:0{width}}", allocatable=allocatable)
        for number in range(machine.nodes)
    ]


def _task_sizes(processors: int, machine: Machine) -> Iterator[int]:
    whole, rest = divmod(processors, machine.per_node)
    yield from [machine.per_node] * whole
    if rest:
        yield rest
