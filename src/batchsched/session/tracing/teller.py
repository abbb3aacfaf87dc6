"""Passes trace events to the caller's function, in order and outside of calls of plugins."""

from __future__ import annotations

from collections.abc import Callable

from batchsched.session.trace_events import TraceEvent

__all__ = ["Teller", "Trace"]

Trace = Callable[[TraceEvent], object]
"""A caller's function that is called with each trace event."""


class Teller:
    """Passes events to a function, in order and outside of calls of plugins."""

    def __init__(self, session: object, trace: Trace, rivals_at: int | None) -> None:
        self._session = session
        self._trace = trace
        self._waiting: list[TraceEvent] = []
        self._rivals_at = rivals_at
        self._count = 0

    @property
    def action(self) -> str:
        """The action that runs now; empty while the session opens."""
        return getattr(self._session, "action_name", "")

    @property
    def wants_rivals(self) -> bool:
        """Whether the next event is the one that lists its alternatives."""
        return self._rivals_at == self._count

    def keep(self, event: TraceEvent) -> None:
        """Queue an event, so that an error of the caller is not attributed to a plugin."""
        self._waiting.append(event)
        self._count += 1

    def tell(self, event: TraceEvent) -> None:
        """Pass on an event, after those that are queued."""
        self._waiting.append(event)
        self._count += 1
        self.flush()

    def flush(self) -> None:
        """Pass on the queued events."""
        while self._waiting:
            self._trace(self._waiting.pop(0))
