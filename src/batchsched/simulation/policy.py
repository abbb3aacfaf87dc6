"""The base class of policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from batchsched.simulation.outcome import Outcome
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import Workload

__all__ = ["Policy"]


class Policy(ABC):
    """Decides which jobs start when. To write your own, see `DecidingPolicy`.

    Policies hold their parameters, and no state of a simulation: one policy may be used in many
    simulations, and in other processes.
    """

    @abstractmethod
    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload whose jobs run for the given times."""

    def __str__(self) -> str:
        return type(self).__name__
