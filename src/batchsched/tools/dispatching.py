"""The functions `dispatch` and `dispatch_all`: in which of several clusters a job does best.

Each cluster is asked alone, what its next cycle would do with the job (`what_if`); the answers are
ranked: first where the job starts, then where it is promised room that others leave, then where it
waits. Of the same state, the less harm is done to others goes first, then the shorter wait, if it
is foretold, and then the fuller cluster, so that whole nodes stay free elsewhere for large jobs.
A cluster never hears of the others, so one more of them changes no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import inf

from attrs import evolve, field, frozen

from batchsched.causes import JobStatus
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, Fault
from batchsched.live import Cluster, JobArrived
from batchsched.model.cluster import JobInfo
from batchsched.model.immutable import AsMap
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.rules import out_of_service
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import first_of, similar_name
from batchsched.model.validation.arguments import checks_arguments
from batchsched.tools.changes import duration
from batchsched.tools.estimates import Estimates
from batchsched.tools.futures import forecast
from batchsched.tools.report import Report, Section, as_dict
from batchsched.tools.standings import standings
from batchsched.tools.trials import WhatIf, what_if

_NAMED = 3
"""The most tasks that a text names."""


class DispatchState(Enum):
    """What the next cycle of a cluster would do with a job, the best first."""

    STARTS = "Starts"
    """It starts at once."""
    PROMISED = "Promised"
    """It is promised room that others leave."""
    WAITS = "Waits"
    """It waits."""
    NEVER = "Never"
    """It can never start there, or cannot be submitted there."""


_STATES = {
    JobStatus.STARTS: DispatchState.STARTS,
    JobStatus.RUNNING: DispatchState.STARTS,
    JobStatus.PROMISED: DispatchState.PROMISED,
    JobStatus.NEVER_FITS: DispatchState.NEVER,
    JobStatus.NO_QUEUE: DispatchState.NEVER,
}
"""What the states of a job mean for dispatch; all others: it waits."""
_PLACES = {state: place for place, state in enumerate(DispatchState)}


@frozen(kw_only=True)
class DispatchAnswer:
    """What the next cycle of one cluster would do with a job."""

    state: DispatchState
    text: str
    """The state in one sentence, with what it waits for."""
    queue: str
    """The queue that it would go to."""
    evicts: tuple[str, ...] = ()
    """The UIDs of tasks that this cycle evicts with it, and not without it."""
    displaces: tuple[str, ...] = ()
    """The UIDs of tasks that start in this cycle without it, and not with it."""
    waits: float | None = None
    """How long it waits there before it starts, in seconds, as the median of its forecast says;
    None: it does not wait, or never starts, or nobody asked."""
    left: float = 0.0
    """What is idle after the cycle, as a fraction of what the nodes in service have; of that
    resource of which the job needs the largest fraction there."""

    @property
    def harm(self) -> int:
        """The number of tasks of others that are evicted, or start later, because of it."""
        return len(self.evicts) + len(self.displaces)

    @property
    def when(self) -> str:
        """The state in words, with how long it waits, if that is known."""
        return self.state.value if self.waits is None else f"Waits {duration(self.waits)}"

    @property
    def harm_text(self) -> str:
        """Whom it would harm, in words; a dash: nobody."""
        told = {"evicts": self.evicts, "displaces": self.displaces}
        return (
            "; ".join(f"{verb} {first_of(uids, _NAMED)}" for verb, uids in told.items() if uids)
            or "-"
        )


@frozen(kw_only=True, repr=False)
class Dispatch(Report):
    """Where a job does best; see `dispatch`."""

    job: str
    """The UID of the job."""
    answers: Mapping[str, DispatchAnswer] = field(converter=AsMap[str, DispatchAnswer])
    """Cluster to answer, in the order of their names."""

    @property
    def ranking(self) -> tuple[str, ...]:
        """All clusters, the best first: by state, harm, the wait, what is left, and name."""
        of = self.answers

        def place(cluster: str) -> tuple[int, int, float, float, str]:
            answer = of[cluster]
            wait = inf if answer.waits is None else answer.waits
            return _PLACES[answer.state], answer.harm, wait, answer.left, cluster

        return tuple(sorted(of, key=place))

    @property
    def best(self) -> str | None:
        """The first cluster of the ranking; None: it can never start in any."""
        found = self.ranking[0] if self.answers else None
        is_none = found is None or self.answers[found].state is DispatchState.NEVER
        return None if is_none else found

    def sections(self) -> tuple[Section, ...]:
        """Return the sections of the report: the answer, and a row for each cluster."""
        best = self.best
        if best is None:
            title = f"{self.job} can start in no cluster of {len(self.answers)}."
        else:
            title = f"{self.job} does best in {best}: {self.answers[best].text}"
        rows = [
            (name, of.queue, of.when, of.harm_text, f"{of.left:.0%}")
            for name, of in ((name, self.answers[name]) for name in self.ranking)
        ]
        head = ("cluster", "queue", "state", "harm", "idle after")
        why = tuple(f"{name}: {self.answers[name].text}" for name in self.ranking)
        return (
            Section(title, in_full=True),
            Section("", head=head, rows=rows),
            Section("Why", why, in_full=True),
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as dicts, lists, strings and numbers only, ready for JSON."""
        ranking: list[JsonValue] = [*self.ranking]
        return {**as_dict(self), "ranking": ranking, "best": self.best}


@checks_arguments()
def dispatch(
    job: JobInfo,
    clusters: Mapping[str, Snapshot | Cluster],
    *,
    configs: Mapping[str, SchedulerConfig] | None = None,
    queue: Mapping[str, str] | None = None,
    estimates: Estimates | None = None,
    samples: int = 1,
    registry: Registry | None = None,
) -> Dispatch:
    """Return what the next cycle of each of several clusters would do with a job, ranked.

    Two cycles for each cluster, what `standings` costs, and a forecast, if asked for, where the job
    waits. The clusters stay as they are.

    Args:
        job: the job, which none of the clusters has yet.
        clusters: the clusters by name; what a living one is now.
        configs: their configurations; of one that is not listed, the default.
        queue: the queue of the job in each; where none is listed, that which it names.
        estimates: how long jobs run, for a forecast where the job waits; None: there is none.
        samples: the number of futures of such a forecast.
        registry: the plugins and actions that the configurations may name.

    Raises:
        ArgumentError: an argument has the wrong type, `configs` or `queue` names a cluster that is
            not there, or `samples` is less than 1.
        EventError: the job is malformed, whatever the cluster.

    >>> from batchsched import NodeInfo, Queue, Resource, TaskInfo
    >>> def cluster(cpus: int) -> Snapshot:
    ...     size = Resource(milli_cpu=1000 * cpus)
    ...     return Snapshot(
    ...         nodes=[NodeInfo(name="n", allocatable=size)], queues=[Queue(name="q")]
    ...     )
    >>> task = TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=2000))
    >>> job = JobInfo(name="j", queue="q", tasks=[task])
    >>> found = dispatch(job, {"large": cluster(8), "small": cluster(4), "tiny": cluster(1)})
    >>> found.ranking, found.answers["tiny"].state.value
    (('small', 'large', 'tiny'), 'Never')

    """
    return dispatch_all(
        [job],
        clusters,
        configs=configs,
        queue=queue,
        estimates=estimates,
        samples=samples,
        registry=registry,
    )[job.uid]


@checks_arguments()
def dispatch_all(
    jobs: Sequence[JobInfo],
    clusters: Mapping[str, Snapshot | Cluster],
    *,
    configs: Mapping[str, SchedulerConfig] | None = None,
    queue: Mapping[str, str] | None = None,
    estimates: Estimates | None = None,
    samples: int = 1,
    registry: Registry | None = None,
) -> Mapping[str, Dispatch]:
    """Return where each of several jobs does best, one after the other.

    The job with the highest priority comes first, of equal ones the oldest, then by UID. Each is
    sent to its best cluster, where the decisions of the next cycle are carried out before the next
    job is asked about. So of two jobs for which there is room in one cluster, the second is sent to
    another. It costs as much as `dispatch` for each job.

    Args:
        jobs: the jobs, which none of the clusters has yet.
        clusters: the clusters by name, which stay as they are.
        configs: their configurations; of one that is not listed, the default.
        queue: the queue of the jobs in each; where none is listed, those which they name.
        estimates: how long jobs run, for a forecast where a job waits; None: there is none.
        samples: the number of futures of such a forecast.
        registry: the plugins and actions that the configurations may name.

    Returns:
        where each is sent (`Dispatch.best`), by UID, in the order in which they were asked about.

    Raises:
        ArgumentError: as for `dispatch`, or two jobs have the same UID.
        EventError: a job is malformed, whatever the cluster.

    """
    given = _Given(clusters, configs, queue, registry, estimates, samples)
    uids = [job.uid for job in jobs]
    faults = [
        Fault(f"jobs[{position}]", f"job {uid} is listed twice")
        for position, uid in enumerate(uids)
        if uid in uids[:position]
    ]
    if faults:
        raise ArgumentError(faults)
    found: dict[str, Dispatch] = {}
    for job in sorted(jobs, key=lambda each: (-each.priority, each.creation_time, each.uid)):
        asked = {name: given.asked(job, name) for name in given.names}
        told = Dispatch(job=job.uid, answers={name: each for name, (each, _) in asked.items()})
        found[job.uid] = told
        if told.best is not None:
            given.snapshots[told.best] = asked[told.best][1]
    return found


class _Given:
    """Some clusters, with what they are asked with."""

    def __init__(
        self,
        clusters: Mapping[str, Snapshot | Cluster],
        configs: Mapping[str, SchedulerConfig] | None,
        queue: Mapping[str, str] | None,
        registry: Registry | None,
        estimates: Estimates | None,
        samples: int,
    ) -> None:
        self._configs, self._queue, self._registry = configs or {}, queue or {}, registry
        self._estimates, self._samples = estimates, samples
        faults = [Fault("samples", f"expected at least 1, got {samples}")] if samples < 1 else []
        for argument, listed in (("configs", self._configs), ("queue", self._queue)):
            for name in sorted(listed.keys() - clusters.keys()):
                hint = similar_name(name, clusters)
                meant = f"; did you mean {hint}?" if hint else ""
                faults.append(Fault(argument, f"there is no cluster {name!r}{meant}"))
        if faults:
            raise ArgumentError(faults)
        self.names = sorted(clusters)
        self.snapshots = {
            name: cluster if isinstance(cluster, Snapshot) else cluster.snapshot()
            for name, cluster in clusters.items()
        }

    def asked(self, job: JobInfo, cluster: str) -> tuple[DispatchAnswer, Snapshot]:
        """Return what the next cycle of a cluster would do with a job, and the cluster then."""
        snapshot, config = self.snapshots[cluster], self._configs.get(cluster)
        job = evolve(job, queue=self._queue.get(cluster, job.queue))
        refusal = _refusal(job, snapshot)
        if refusal:
            never = DispatchState.NEVER
            return DispatchAnswer(state=never, text=refusal, queue=job.queue), snapshot
        answer = what_if(snapshot, JobArrived(job), config=config, registry=self._registry)
        standing = next(
            each
            for each in standings(
                answer.snapshot, answer.result, config=config, registry=self._registry
            )
            if each.job == job.uid
        )
        before, after = answer.difference.before, answer.result
        evicted_before = {each.task_uid for each in before.evictions}
        bound_after = {bind.task_uid for bind in after.binds}
        living = Cluster(answer.snapshot)
        living.carry_out(after, at_once=True)
        then = living.snapshot()
        state = _STATES.get(standing.state, DispatchState.WAITS)
        told = DispatchAnswer(
            state=state,
            text=standing.text.removeprefix(f"{job.uid} "),
            queue=job.queue,
            evicts=tuple(
                each.task_uid for each in after.evictions if each.task_uid not in evicted_before
            ),
            displaces=tuple(
                bind.task_uid for bind in before.binds if bind.task_uid not in bound_after
            ),
            waits=self._waits(job.uid, answer, config) if state is DispatchState.WAITS else None,
            left=_left(job, then),
        )
        return told, then

    def _waits(self, job: str, answer: WhatIf, config: SchedulerConfig | None) -> float | None:
        if self._estimates is None:
            return None
        told = forecast(
            answer.snapshot,
            config=config,
            registry=self._registry,
            estimates=self._estimates,
            samples=self._samples,
            jobs=[job],
        )
        median = told.jobs[job].median
        return None if median is None else median - told.now


def _refusal(job: JobInfo, snapshot: Snapshot) -> str:
    """Return why a job cannot be submitted to a cluster at all; empty: it can."""
    queues = {each.name for each in snapshot.queues}
    if job.queue not in queues:
        hint = similar_name(job.queue, queues)
        return f"there is no queue {job.queue!r}{f'; did you mean {hint}?' if hint else ''}"
    if any(each.uid == job.uid for each in snapshot.jobs):
        return f"a job {job.uid} is there already"
    uids = {task.uid for task in job.tasks}
    tasks = (*snapshot.other_tasks, *(task for each in snapshot.jobs for task in each.tasks))
    taken = [task.uid for task in tasks if task.uid in uids]
    return f"a task {min(taken)} is there already" if taken else ""


def _left(job: JobInfo, snapshot: Snapshot) -> float:
    """Return which fraction is idle of the resource that counts most for a job. O(tasks)."""
    in_service = {
        node.name: node.allocatable for node in snapshot.nodes if out_of_service(node) is None
    }
    total = dict(sum_resources(in_service.values()).dimensions())
    need: Resource = sum_resources(task.resreq for task in job.tasks)
    fractions = {
        dimension: amount / total[dimension]
        for dimension, amount in need.dimensions()
        if amount and total.get(dimension)
    }
    if not fractions:
        return 0.0
    dimension = max(sorted(fractions), key=lambda each: fractions[each])
    tasks = (*snapshot.other_tasks, *(task for each in snapshot.jobs for task in each.tasks))
    held = sum_resources(
        task.resreq for task in tasks if task.status.holds and task.node_name in in_service
    )
    idle = total[dimension] - dict(held.dimensions()).get(dimension, 0)
    return max(0.0, idle / total[dimension])
