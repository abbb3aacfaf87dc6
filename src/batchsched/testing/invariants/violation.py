"""What is raised when a cycle breaks an invariant."""

from __future__ import annotations

from textwrap import indent

from batchsched.config import SchedulerConfig
from batchsched.result import CycleResult
from batchsched.snapshot import Snapshot
from batchsched.testing.code import as_code

__all__ = ["InvariantViolation"]


class InvariantViolation(AssertionError):  # noqa: N818 - it is what was found, not what went wrong
    """A cycle whose result breaks an invariant.

    The message says which invariant, what is wrong with which task, job, queue or node, and
    what the cycle decided. `as_code` gives the cycle to paste into a test.
    """

    def __init__(
        self,
        invariant: str,
        problem: str,
        snapshot: Snapshot,
        result: CycleResult,
        config: SchedulerConfig,
    ) -> None:
        self.invariant = invariant
        """The name of the function that checks it, such as ``check_capacity``."""
        self.problem = problem
        """What is wrong, in a line."""
        self.snapshot = snapshot
        self.result = result
        self.config = config
        super().__init__(invariant, problem, snapshot, result, config)

    def __str__(self) -> str:
        names = ", ".join(action.name for action in self.config.actions)
        return (
            f"{self.invariant}: {self.problem}\n"
            f"  The cycle ({names}): {indent(str(self.result), '  ').strip()}"
        )

    def as_code(self) -> str:
        """Return code that runs the cycle again and checks it."""
        return (
            f"snapshot = {as_code(self.snapshot)}\n"
            f"config = {as_code(self.config)}\n"
            "check_cycle(snapshot, schedule(snapshot, config), config)\n"
        )
