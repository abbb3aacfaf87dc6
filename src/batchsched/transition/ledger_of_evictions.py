"""The ledger of evictions: what they leave behind for later cycles.

An event is a pair of jobs in one cycle: one lost tasks for the other, however many. The ledger has
an entry for each, for a time (`Snapshot.evictions_kept`), and a job that lost tasks that it needs
remembers when (`JobInfo.last_evicted`). Both are written when an eviction is decided; that it was
refused takes neither back. Limits and delays of the plugin ``protection`` read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from attrs import evolve, frozen

from batchsched.model.cluster import JobInfo, PastEviction
from batchsched.model.result import CycleResult, Eviction
from batchsched.model.rules import would_keep_minimum
from batchsched.transition.content import Content


@frozen
class EvictionsWritten:
    """What a cycle's evictions leave behind."""

    past: tuple[PastEviction, ...] = ()
    """The entries of the ledger, one for each pair of a claimant's job and a victim's."""
    broken: tuple[str, ...] = ()
    """The UIDs of the jobs that lose tasks that they need."""


def evictions_written(
    cycle: CycleResult, job_of: Callable[[str], JobInfo | None], *, now: float
) -> EvictionsWritten:
    """Return what the evictions and moves of a cycle leave behind.

    O(tasks of the jobs that lose any). A move for another job counts as an eviction for it, but
    takes nothing that its job needs: it has another place.

    Args:
        cycle: its result.
        job_of: returns the job of a task, with its tasks as they were in that cycle.
        now: the time of the cycle.

    """
    gone: dict[str, set[str]] = {}
    jobs: dict[str, JobInfo] = {}
    pairs: dict[tuple[str, str, str], PastEviction] = {}
    for eviction in cycle.stopped():
        job, claimant = job_of(eviction.task_uid), job_of(eviction.for_task_uid or "")
        if job is None or claimant is None:
            continue  # that is told of the result
        jobs[job.uid] = job
        if isinstance(eviction, Eviction):
            gone.setdefault(job.uid, set()).add(eviction.task_uid)
        pairs[job.uid, claimant.uid, eviction.action] = PastEviction(
            time=now,
            job=job.uid,
            queue=job.queue,
            for_job=claimant.uid,
            for_queue=claimant.queue,
            action=eviction.action,
        )
    broken = [uid for uid, lost in gone.items() if not would_keep_minimum(jobs[uid], lost)]
    return EvictionsWritten(tuple(pairs.values()), tuple(broken))


def ledger_after(
    ledger: Sequence[PastEviction], past: Sequence[PastEviction], *, now: float, kept: float
) -> tuple[PastEviction, ...]:
    """Return the ledger with new entries, and without those that are too old at a time."""
    young = [each for each in (*ledger, *past) if now - each.time < kept]
    if len(young) == len(ledger) and not past:
        return tuple(ledger)
    return tuple(sorted(young, key=attrgetter("time", "job", "for_job", "action")))


def keep_evictions(content: Content, written: EvictionsWritten) -> None:
    """Write what the evictions of the last cycle leave behind. O(entries of the ledger), if any."""
    for uid in written.broken:
        if uid in content.jobs:
            content.put("jobs", uid, evolve(content.jobs[uid], last_evicted=content.now))
    _write_ledger(content, written.past)


def _write_ledger(content: Content, past: Sequence[PastEviction] = ()) -> None:
    of_evictions = content.of_evictions
    before = of_evictions["evictions"]
    if before or past:
        after = ledger_after(before, past, now=content.now, kept=of_evictions["evictions_kept"])
        if len(after) != len(before) or past:
            content.put("evictions", "evictions", after)


def let_time_pass(content: Content, now: float) -> None:
    """Set the time, and forget evictions that are too old then. O(entries of the ledger)."""
    content.put("now", "", now)
    _write_ledger(content)
