"""Jobs that can never start, because what they need can never be taken back.

The plugin ``protection`` lends nothing that it could not take back: what is not preemptible, and
the core of a job of which only the surplus is, stay within what queues deserve, and each queue
above them does. All that a queue holds from which nothing is reclaimed stays within what it
deserves or is guaranteed. A job that needs more than that by itself waits for ever, on an idle
cluster too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, frozen

from batchsched.model.cluster import JobInfo, NodeInfo, Preemptible, Queue, TaskInfo
from batchsched.model.resources import exact
from batchsched.model.rules import quota_for_good, quota_not_reclaimed
from batchsched.model.snapshot import Snapshot


@frozen(kw_only=True)
class NeverLent:
    """The jobs that need more than the quota of a queue, by the first of them."""

    queue: Queue
    is_kept: bool
    """Whether the queue keeps what any jobs are lent, as it is not reclaimable."""
    position: int
    """That of the first job in the snapshot."""
    job: JobInfo
    dimension: str
    """The resource of which it needs more."""
    path: Sequence[Queue]
    """Its queue, and those above it."""
    jobs: frozenset[str]
    """All of them, by UID."""

    @property
    def others(self) -> int:
        """How many other jobs there are."""
        return len(self.jobs) - 1

    @property
    def needs(self) -> int:
        """How much the first job needs at least, in the unit of a `Resource`."""
        return _least_need(self.job, self.dimension)

    @property
    def quota(self) -> int:
        """How much the queue deserves, or may keep."""
        return _quota_of(self.queue, self.dimension, is_kept=self.is_kept) or 0

    def mended(self, snapshot: Snapshot) -> Snapshot:
        """Return a cluster in which these jobs are preemptible, or the queue reclaimable."""
        if self.is_kept:
            queues = [
                evolve(each, reclaimable=each.reclaimable or each.name == self.queue.name)
                for each in snapshot.queues
            ]
            return evolve(snapshot, queues=queues)
        changed = [
            evolve(job, preemptible=Preemptible.ALWAYS) if job.uid in self.jobs else job
            for job in snapshot.jobs
        ]
        return evolve(snapshot, jobs=changed)

    def alone(self, _cluster: Snapshot, /) -> Snapshot:
        """Return a cluster with the first job alone, and a node of its size for each task."""
        tasks = [TaskInfo(uid=t.uid, name=t.name, resreq=t.resreq) for t in self.job.tasks]
        nodes = [NodeInfo(name=f"n{at}", allocatable=each.resreq) for at, each in enumerate(tasks)]
        job = JobInfo(
            name=self.job.name,
            namespace=self.job.namespace,
            queue=self.job.queue,
            min_available=self.job.min_available,
            preemptible=self.job.preemptible,
            tasks=tasks,
        )
        return Snapshot(nodes=nodes, queues=self.path, jobs=[job])


def never_lent(snapshot: Snapshot) -> Iterator[NeverLent]:
    """Yield the jobs that wait for more than the quotas of their queues, by queue.

    For each queue they are told once, and once more if it is not reclaimable. What any tasks hold
    counts that are enough for the minimum, so no job is among them that some of its tasks could
    start. O(tasks x depth of the tree).
    """
    by_name = {queue.name: queue for queue in snapshot.queues}
    found: dict[tuple[str, bool], list[tuple[int, str]]] = {}
    for position, job in enumerate(snapshot.jobs):
        if not _waits_below_its_minimum(job):
            continue
        for queue, is_kept in _quotas_on(job, by_name):
            dimension = _beyond_quota(job, queue, is_kept=is_kept)
            if dimension:
                found.setdefault((queue.name, is_kept), []).append((position, dimension))
                break
    for (name, is_kept), places in found.items():
        position, dimension = places[0]
        job = snapshot.jobs[position]
        yield NeverLent(
            queue=by_name[name],
            is_kept=is_kept,
            position=position,
            job=job,
            dimension=dimension,
            path=_path_of(job, by_name),
            jobs=frozenset(snapshot.jobs[at].uid for at, _ in places),
        )


def _waits_below_its_minimum(job: JobInfo) -> bool:
    there = sum(task.status.occupies or task.status.ended for task in job.tasks)
    return there < job.min_available <= len(job.tasks)


def _quotas_on(job: JobInfo, by_name: Mapping[str, Queue]) -> Iterator[tuple[Queue, bool]]:
    """Yield the queues that a job is in and that may refuse it, and whether they would keep it."""
    path = _path_of(job, by_name)
    if job.preemptible is not Preemptible.ALWAYS:
        yield from ((queue, False) for queue in path)
    yield from ((queue, True) for queue in path if not queue.reclaimable)


def _path_of(job: JobInfo, by_name: Mapping[str, Queue]) -> tuple[Queue, ...]:
    """Return the queue of a job, if it is there, and those above it."""
    path: list[Queue] = []
    above: str | None = job.queue
    while above is not None and above in by_name:
        path.append(by_name[above])
        above = by_name[above].parent
    return tuple(path)


def _least_need(job: JobInfo, dimension: str) -> int:
    """Return how much of a resource any tasks of a job hold that are enough for its minimum."""
    amounts = sorted(exact(task.resreq.get(dimension)) for task in job.tasks)
    return sum(amounts[: job.min_available])


def _quota_of(queue: Queue, dimension: str, *, is_kept: bool) -> int | None:
    quota = quota_not_reclaimed if is_kept else quota_for_good
    return quota(queue, dimension)


def _beyond_quota(job: JobInfo, queue: Queue, *, is_kept: bool) -> str:
    """Return a resource of which a job needs more than a queue's quota; empty: there is none."""
    for dimension in sorted({name for task in job.tasks for name, _ in task.resreq.dimensions()}):
        most = _quota_of(queue, dimension, is_kept=is_kept)
        if most is not None and _least_need(job, dimension) > most:
            return dimension
    return ""
