"""devices: tasks get the devices that they claim, and fit only where there are enough."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import cast

from attrs import frozen

from batchsched.devices import ORDERS, TRIES, Order
from batchsched.model.reasons import Unfit
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.state.device_books import VIEWS, Picks, is_unknown
from batchsched.state.records import Fit, NodeState, TaskState


@frozen(kw_only=True)
class DevicesPlugin:
    """Chooses devices for tasks with claims."""

    order: Order = "listed"
    """In which order devices are tried."""
    tries: int = TRIES
    """How many devices are looked at for one task on one node."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> DevicesPlugin:
        """Read the arguments."""
        return cls(
            order=cast("Order", arguments.choice("order", ORDERS, default="listed")),
            tries=arguments.integer("tries", default=TRIES, minimum=1),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        books = view.device_books
        books.order, books.tries, books.is_read = self.order, self.tries, True
        books.begin()
        return _Devices(self, view) if books.is_wide else _KeptDevices(self, view)


class _Devices:
    def __init__(self, plugin: DevicesPlugin, view: SessionView) -> None:
        self._plugin = plugin
        self._books = view.device_books

    def resume(self, changes: Changes, /) -> bool:
        self._books.resume()
        return not (
            changes.nodes or changes.nodes_gone or any(is_unknown(task) for task in changes.tasks)
        )

    def choose(
        self,
        task: TaskState,
        node: NodeState,
        fit: Fit,
        /,
        *,
        gone: Collection[TaskState] = (),
        kept: Hashable | None = None,
    ) -> Hashable | Unfit | None:
        picks = cast("Picks | None", kept)
        return self._books.choose(task, node, VIEWS[fit], gone=gone, kept=picks)


class _KeptDevices(_Devices):
    """Where choices on a node do not depend on others."""

    def choice_signature(self, task: TaskState, /) -> Hashable | None:
        return self._books.signature(task)
