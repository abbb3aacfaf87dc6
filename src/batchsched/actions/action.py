"""The protocol of actions, and helpers that several actions share."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from batchsched.session.session import Session


@runtime_checkable
class Action(Protocol):
    """A configured action. It holds its arguments, and keeps no state between cycles."""

    def execute(self, session: Session, /) -> None:
        """Act on the session. Called once for each time the configuration lists the action."""
        ...


@runtime_checkable
class EvictsToCure(Action, Protocol):
    """An action that may pipeline a task to a node which accepts it only once others have left.

    Where such an action is configured, required anti-affinity treats tasks pipelined to a node
    like tasks that run there, so that no other task placed meanwhile keeps them from starting.
    """

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it does so, given its arguments."""
        ...
