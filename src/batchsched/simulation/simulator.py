"""The function that simulates a workload under a policy."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import Fault
from batchsched.simulation.policy import Policy
from batchsched.simulation.problems import SimulationError
from batchsched.simulation.run import Run
from batchsched.simulation.scheduled import Scheduled
from batchsched.simulation.settings import Passes, Progress, Settings
from batchsched.simulation.ties import Ties
from batchsched.simulation.workload import NO_MACHINE, Workload

__all__ = ["simulate"]

SHOWN = 20
"""The most jobs that a message lists."""


def simulate(
    workload: Workload,
    policy: Policy | SchedulerConfig,
    *,
    ties: Ties | None = None,
    passes: Passes = "event",
    end_at_request: bool = True,
    progress: Progress | None = None,
) -> Run:
    """Simulate a workload under a policy.

    The defaults are those of the published results; see "Results you can reproduce".

    Args:
        workload: The jobs and their machine: `workload.on(nodes=100)`.
        policy: `Fcfs()`, `Easy()`, `Conservative()` or another policy; or a `SchedulerConfig`,
            which stands for `Scheduled(config=...)`.
        ties: The order of events at the same instant.
        passes: Whether the policy decides after each event, or once after all events of an instant.
        end_at_request: Whether jobs are stopped when they have run for their requested time.
        progress: Called now and then with the number of ended jobs and the number of all jobs.

    Raises:
        SimulationError: The workload has no machine, jobs are larger than the machine, or the
            workload lacks information that the policy needs. All faults at once.
        PolicyError: The policy made an invalid decision.

    >>> from batchsched.simulation import Easy, Job
    >>> jobs = [
    ...     Job(id=1, submit=0, run=100, processors=3, requested=120),
    ...     Job(id=2, submit=1, run=100, processors=4, requested=100),
    ...     Job(id=3, submit=2, run=50, processors=1, requested=60),
    ... ]
    >>> simulate(Workload(jobs).on(nodes=4), Easy()).jobs["start"]
    [0, 100, 2]
    """
    if not isinstance(workload, Workload):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SimulationError([Fault("workload", f"expected a Workload, got {workload!r}")])
    if isinstance(policy, SchedulerConfig):
        policy = Scheduled(config=policy)
    if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SimulationError(
            [Fault("policy", f"expected a policy such as Easy(), got {policy!r}")]
        )
    settings = Settings(
        ties=Ties() if ties is None else ties,
        passes=passes,
        end_at_request=end_at_request,
        progress=progress,
    )
    _check_sizes(workload)
    runs = _run_times(workload, settings)
    outcome = policy.run(workload, runs, settings)
    return Run(workload=workload, policy=policy, settings=settings, runs=runs, outcome=outcome)


def _check_sizes(workload: Workload) -> None:
    if workload.machine is None:
        raise SimulationError([NO_MACHINE])
    processors = workload.machine.processors
    faults = [
        Fault(
            f"jobs[{each!r}].processors",
            f"expected at most the machine's {processors} processors, got {size}; "
            "leave the job out with workload.where(...), or use a larger machine",
        )
        for each, size in zip(workload.ids, workload.processors, strict=True)
        if size > processors
    ]
    if len(faults) > SHOWN:
        faults[SHOWN:] = [
            Fault("jobs", f"{len(faults) - SHOWN:,} more are larger than the machine")
        ]
    if faults:
        raise SimulationError(faults)


def _run_times(workload: Workload, settings: Settings) -> Sequence[float]:
    if not settings.end_at_request:
        return workload.runs
    return [
        run if limit is None or run <= limit else limit
        for run, limit in zip(workload.runs, workload.requested, strict=True)
    ]
