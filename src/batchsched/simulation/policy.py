"""What a policy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from batchsched.simulation.outcome import Outcome
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Policy"]


class Policy(ABC):
    """Decides which jobs start when. See `DecidingPolicy` to write one's own.

    Policies hold what they were told, and nothing of a simulation: one policy may be used in many
    simulations, also in other processes.
    """

    @abstractmethod
    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload, of which each job runs for the given time."""

    def __str__(self) -> str:
        return type(self).__name__
