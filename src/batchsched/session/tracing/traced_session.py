"""A session that reports the turns of jobs and queues, and the ends of statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attrs import evolve

from batchsched.model.snapshot import Snapshot
from batchsched.placement import Placement
from batchsched.placement.plain_loop import Evaluator
from batchsched.plugin.extension_points import Plugin
from batchsched.session.opened_plugins import ConfiguredPlugin
from batchsched.session.session import PlacementFactory, Session
from batchsched.session.trace_events import (
    Teller,
    Trace,
)
from batchsched.session.tracing.traced_placement import TracedPlacement
from batchsched.session.tracing.traced_plugin import TracedPlugin
from batchsched.state.doors import Door
from batchsched.state.ledger import Ledger

__all__ = ["TracedSession"]


class TracedSession(Session):
    """A session that reports trace events.

    Args:
        snapshot: see `Session`.
        plugins: see `Session`.
        placement: see `Session`.
        trace: is called with each event.
        rivals_at: the position of the one event that also lists the alternatives, which takes
            time that grows with the cluster; None: no event does.
        promises_repel: see `Session`.
        plain: see `Session`.

    """

    def __init__(
        self,
        snapshot: Snapshot,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
        trace: Trace,
        *,
        rivals_at: int | None = None,
        promises_repel: bool = False,
        plain: frozenset[Door] = frozenset(),
    ) -> None:
        self.teller = teller = Teller(self, trace, rivals_at)

        def traced(ledger: Ledger, evaluator: Evaluator) -> Placement:
            return TracedPlacement(placement(ledger, evaluator), evaluator, teller)

        told = [
            evolve(configured, plugin=cast("Plugin", TracedPlugin(configured, teller)))
            for configured in plugins
        ]
        super().__init__(snapshot, told, traced, promises_repel=promises_repel, plain=plain)

    def flush(self) -> None:
        """Report the events that are still queued, at the end of the cycle."""
        assert self.teller is not None
        self.teller.flush()
