"""The policy that simulates any configuration of `batchsched.Scheduler` on a live cluster."""

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
"""The most faults that a message lists."""


@frozen(kw_only=True)
class Scheduled(Policy):
    """A configuration of `batchsched.Scheduler`, with all its plugins and actions.

    Each job becomes a gang: on nodes of one processor, a task for each processor; on larger nodes,
    as few tasks as possible, each but the last as large as a node. Tasks request CPU only. A job
    runs from the time when all its tasks have started. Evicted jobs wait again at once, and lose
    their progress unless `checkpoint` is given. The requested time of a job is its `estimate`.

    A cycle follows each event, or each instant (see `simulate`); after a cycle that evicts or
    promises, another follows at once. `incidents` come before all other events of their instant.
    With the plugin ``usage``, the usage of queues is tracked from zero, with the plugin's
    half-life.
    """

    config: SchedulerConfig = field(factory=SchedulerConfig)
    queues: tuple[Queue, ...] = field(default=(), converter=tuple[Queue, ...])
    """The queues, including all that jobs name. Empty: the queues that jobs name, with weight 1.
    Jobs that name no queue belong to `default`."""
    checkpoint: float | None = None
    """The interval between checkpoints, in seconds of running: a job that was stopped resumes from
    the last one. 0: continuously. None: never."""
    restart_cost: Cost = field(factory=NoCost)
    """The seconds that a restarted job runs before it continues its work."""
    incidents: tuple[Incident, ...] = field(default=(), converter=tuple[Incident, ...])
    """Incidents: nodes fail, are drained or come back; jobs are cancelled or fail; queues
    change."""
    resubmit_failed: bool = False
    """Whether a failed job waits again at once, and resumes from its last checkpoint; if not, it
    has ended."""

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
    """Return the half-life of the plugin usage; None if it is not configured."""
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
            Fault("queues", f"expected the queue {name!r}, which jobs name, got none")
            for name in named[:SHOWN]
        ]
    if faults:
        raise SimulationError(faults)
