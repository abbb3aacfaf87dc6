"""How events reach the caller's function: in order, outside of the plugins' own calls."""

from __future__ import annotations

from collections.abc import Callable

from batchsched.session.trace_events import TraceEvent

__all__ = ["Teller", "Trace"]

Trace = Callable[[TraceEvent], object]
"""A caller's function that is told of each question and answer."""


class Teller:
    """Passes events on, in order, outside of the plugins' own calls."""

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
        """Whether the next event is one that is to tell what else there was to choose from."""
        return self._rivals_at == self._count

    def keep(self, event: TraceEvent) -> None:
        """Tell of an event with the next one: an error of the caller's is not the plugin's."""
        self._waiting.append(event)
        self._count += 1

    def tell(self, event: TraceEvent) -> None:
        """Tell of an event, and before it of those that were kept."""
        self._waiting.append(event)
        self._count += 1
        self.flush()

    def flush(self) -> None:
        """Tell of the events that were kept."""
        while self._waiting:
            self._trace(self._waiting.pop(0))
