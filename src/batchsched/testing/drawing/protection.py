"""What keeps jobs from being evicted, and what evictions cost, from the drafts of a snapshot.

Jobs that are never evicted, or whole, or of which only the surplus is; that claim later or never;
minimum runtimes of queues; costs of tasks; budgets; and a ledger of past evictions.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from batchsched.model.cluster import (
    Budget,
    JobInfo,
    PastEviction,
    Preemptible,
    Queue,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.constraints import LabelSelector
from batchsched.model.resources import Resource
from batchsched.testing.drawing.pools import GIB, JobDraft

_PREEMPTIBLE = (
    *(Preemptible.ALWAYS,) * 5,
    *(Preemptible.SURPLUS, Preemptible.SURPLUS, Preemptible.NEVER),
)
_DELAYS = (*(None,) * 9, 30.0, 200.0, 0.0)
_EVICTED_AGO = (None, None, None, 10.0, 60.0)
_RAN_FOR = (20.0, 5.0, 60.0, 0.0, 30.0)
_SAFE_FOR = (None, 3.0, 20.0, 0.0)
_COSTS = (None, None, 0, 7, 40)
_RUNTIMES = (None, None, 10.0, None, 30.0, 0.0, None, 100.0)
_DESERVED = (None, 1, None, 2)
"""In CPUs, and in GiB of memory: what cannot be taken back stays within it."""
_SERVICES = ("s1", "s2", "")
_PAST = (5.0, 50.0, 20.0, 200.0)
_LABEL = "service"


def protected_job(job: JobInfo, draft: JobDraft, now: float) -> JobInfo:
    """Return a job with what a draft says of its evictions; all that is on a node has a start."""
    own, tasks = draft
    trait, kind = own[4], own[3]
    ago = _EVICTED_AGO[kind % len(_EVICTED_AGO)]
    return evolve(
        job,
        preemptible=_PREEMPTIBLE[trait % len(_PREEMPTIBLE)],
        preempts=kind % 17 != 16,
        claim_delay=_DELAYS[kind % len(_DELAYS)],
        last_evicted=None if ago is None else now - ago,
        evict_whole=trait % 9 == 8,
        tasks=[
            _protected_task(task, drafted, kind + position // 2, now)
            for position, (task, drafted) in enumerate(zip(job.tasks, tasks, strict=True))
        ],
    )


def _protected_task(task: TaskInfo, draft: bytes, kind: int, now: float) -> TaskInfo:
    service = _SERVICES[kind % len(_SERVICES)]
    labels = {**task.labels, _LABEL: service} if service else task.labels
    if not task.status.holds:
        return evolve(task, labels=labels)
    start = task.start_time
    if start is None:
        start = now - _RAN_FOR[draft[1] % len(_RAN_FOR)]
    safe = _SAFE_FOR[draft[0] % len(_SAFE_FOR)]
    return evolve(
        task,
        labels=labels,
        start_time=start,
        checkpoint_time=None if safe is None else max(start, now - safe),
        eviction_cost=_COSTS[(draft[0] + draft[1]) % len(_COSTS)],
    )


def protected_queue(queue: Queue, draft: bytes) -> Queue:
    """Return a queue with the minimum runtimes that a draft describes.

    If it deserves nothing in particular, it may, so that it limits what cannot be taken back.
    """
    deserved = queue.deserved
    units = _DESERVED[draft[4] % len(_DESERVED)]
    if deserved == Resource() and units is not None:
        deserved = Resource(milli_cpu=1000 * units, memory=units * GIB)
    return evolve(
        queue,
        deserved=deserved,
        reclaimable=draft[1] % 8 != 7,
        preempt_min_runtime=_RUNTIMES[draft[2] % len(_RUNTIMES)],
        reclaim_min_runtime=_RUNTIMES[draft[3] % len(_RUNTIMES)],
    )


def build_budgets(jobs: Sequence[JobInfo], drafts: Sequence[JobDraft]) -> list[Budget]:
    """Return up to two budgets, hard or not, that leave at most a few of their tasks to evict."""
    budgets: list[Budget] = []
    for (own, _), service in zip(drafts, _SERVICES[:2], strict=False):
        kind, amount = divmod(own[0], 16)
        if kind % 3 == 2:
            continue
        selector = LabelSelector(match_labels={_LABEL: service})
        there = sum(
            task.status is TaskStatus.RUNNING and selector.matches(task.labels)
            for job in jobs
            for task in job.tasks
            if job.namespace == "default"
        )
        least = max(0, there - amount % 3)
        budgets.append(
            Budget(
                name=service,
                selector=selector,
                min_available=None if amount % 4 == 3 else least,
                max_unavailable=amount % 5 if amount % 4 == 3 else None,
                hard=kind % 2 == 0,
            )
        )
    return budgets


def build_ledger(
    jobs: Sequence[JobInfo], drafts: Sequence[JobDraft], now: float
) -> list[PastEviction]:
    """Return what a few jobs lost for others, and one that is gone."""
    ledger: list[PastEviction] = []
    for position, (job, (own, _)) in enumerate(zip(jobs, drafts, strict=False)):
        if own[2] % 3 != 2:
            continue
        other = jobs[own[0] % len(jobs)]
        gone = own[1] % 8 == 7
        ledger.append(
            PastEviction(
                time=now - _PAST[(own[0] + position) % len(_PAST)],
                job="default/gone" if gone else job.uid,
                queue="gone" if gone else job.queue,
                for_job=other.uid,
                for_queue=other.queue,
                action=("preempt", "reclaim")[own[1] % 2],
            )
        )
    return ledger
