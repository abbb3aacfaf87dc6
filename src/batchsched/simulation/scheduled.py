"""Any configuration of the library's own scheduler, simulated on a living cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import field, frozen

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import Fault
from batchsched.model.cluster import Queue
from batchsched.plugin.arguments import Arguments
from batchsched.plugins.usage import UsagePlugin
from batchsched.simulation.cluster_run import ClusterTerms, queue_of, simulate_cluster
from batchsched.simulation.costs import Cost, NoCost
from batchsched.simulation.incidents import Incident, QueueSet, faults_of_incidents
from batchsched.simulation.outcome import Outcome
from batchsched.simulation.policy import Policy
from batchsched.simulation.problems import SimulationError, faults_of_part
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Scheduled"]

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
    at once. `incidents` come before all other events of their instant. With the plugin ``usage``
    the use of queues is kept, from nothing at the beginning, with the half-life that it is given.
    """

    config: SchedulerConfig = field(factory=SchedulerConfig)
    queues: tuple[Queue, ...] = field(default=(), converter=tuple[Queue, ...])
    """The queues, which must be those that jobs name. Empty: those, with weight 1. Jobs that name
    none are of the queue `default`."""
    checkpoint: float | None = None
    """How often a job saves what it has done, in seconds of running: a job that was stopped goes on
    from there. 0: always. None: never."""
    restart_cost: Cost = field(factory=NoCost)
    """For how many seconds a job that was stopped runs before it gets on with its work."""
    incidents: tuple[Incident, ...] = field(default=(), converter=tuple[Incident, ...])
    """What happens besides: nodes fail, are drained and come back, jobs are cancelled or fail,
    queues change."""
    resubmit_failed: bool = False
    """Whether a job that failed waits again at once, and goes on from what it saved; else it has
    ended."""

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the scheduler on a cluster made of the workload's machine."""
        _check(workload, self)
        return simulate_cluster(
            workload,
            runs,
            settings,
            ClusterTerms(
                config=self.config,
                queues=self.queues,
                checkpoint=self.checkpoint,
                restart_cost=self.restart_cost,
                incidents=self.incidents,
                resubmit_failed=self.resubmit_failed,
                half_life=_half_life(self.config),
            ),
        )

    def __str__(self) -> str:
        return f"scheduler ({', '.join(option.name for option in self.config.actions)})"


def _half_life(config: SchedulerConfig) -> float | None:
    """Return the half-life that the plugin usage is given; None: it is not there."""
    for tier in config.tiers:
        for option in tier.plugins:
            if option.name == "usage":
                return UsagePlugin.from_arguments(Arguments(option.arguments)).half_life
    return None


def _check(workload: Workload, policy: Scheduled) -> None:
    faults: list[Fault] = []
    if policy.checkpoint is not None and not 0 <= policy.checkpoint < float("inf"):
        faults.append(
            Fault("checkpoint", f"expected seconds, 0 or more, got {policy.checkpoint!r}")
        )
    if not isinstance(policy.config, SchedulerConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"expected a SchedulerConfig, got {policy.config!r}"
        raise SimulationError([Fault("config", message)])
    faults += faults_of_part("restart_cost", policy.restart_cost, "seconds", "ByDistance()")
    faults += [
        Fault(f"queues[{number}]", f"expected a Queue, got {queue!r}")
        for number, queue in enumerate(policy.queues)
        if not isinstance(queue, Queue)  # pyright: ignore[reportUnnecessaryIsInstance]
    ]
    plugins = {option.name for tier in policy.config.tiers for option in tier.plugins}
    faults += faults_of_incidents(policy.incidents, workload, knows_drained="predicates" in plugins)
    if policy.queues and not faults:
        known = {queue.name for queue in policy.queues}
        known |= {each.queue.name for each in policy.incidents if isinstance(each, QueueSet)}
        named = sorted({queue_of(queue) for queue in workload.queues} - known)
        faults += [
            Fault("queues", f"jobs name a queue that is not given: {name!r}")
            for name in named[:SHOWN]
        ]
    if faults:
        raise SimulationError(faults)
