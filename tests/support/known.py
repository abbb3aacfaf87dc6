"""What the older laws and the reference know of a cluster: no holds, racks, devices, protection."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched import JobInfo, Preemptible, Queue
from batchsched.testing import Cycle, Invariant

WITHOUT_NEWER = {"devices": False, "holds": False, "protection": False, "topologies": False}
"""Switches of `batchsched.testing.snapshots` for clusters that the reference knows whole."""


def is_known(cycle: Cycle, *, keeping_queues: bool = False, with_claims: bool = False) -> bool:
    """Whether the older laws know all that is asked in a cycle and that its plugins read.

    `keeping_queues`: whether they know queues from which nothing is reclaimed; `with_claims`:
    whether they know claims of devices.
    """
    snapshot, plugins = cycle.snapshot, cycle.policy.plugins
    jobs = snapshot.jobs
    return not (
        any(job.holds or any(task.holds for task in job.tasks) for job in jobs)
        or not (keeping_queues or all(queue.reclaimable for queue in snapshot.queues))
        or "placement" in plugins
        or ("topology" in plugins and any(_is_in_domains(job) for job in jobs))
        or (not with_claims and any(task.claims for job in jobs for task in job.tasks))
        or ("protection" in plugins and _is_protected(cycle))
    )


def _is_in_domains(job: JobInfo) -> bool:
    return job.topology is not None or any(group.topology is not None for group in job.groups)


def _is_protected(cycle: Cycle) -> bool:
    snapshot = cycle.snapshot
    return bool(
        snapshot.budgets
        or any(map(_is_exempt, snapshot.jobs))
        or any(map(_has_runtimes, snapshot.queues))
        or any(task.eviction_cost for job in snapshot.jobs for task in job.tasks)
        or any(
            plugin.name == "protection" and plugin.arguments
            for tier in cycle.config.tiers
            for plugin in tier.plugins
        )
    )


def _is_exempt(job: JobInfo) -> bool:
    return (
        job.preemptible is not Preemptible.ALWAYS
        or not job.preempts
        or job.claim_delay is not None
        or job.evict_whole
    )


def _has_runtimes(queue: Queue) -> bool:
    return (queue.preempt_min_runtime, queue.reclaim_min_runtime) != (None, None)


def where_known(law: Invariant) -> Invariant:
    """The law, for cycles that it knows."""

    def problems(cycle: Cycle) -> Iterator[str]:
        return law.problems(cycle) if is_known(cycle) else iter(())

    problems.__name__, problems.__module__ = law.__name__, law.__module__
    problems.__doc__ = law.__doc__
    return Invariant(problems)
