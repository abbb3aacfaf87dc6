"""devices: tasks get the devices that they claim, and fit only where there are enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from attrs import frozen

from batchsched.devices import ORDERS, TRIES, Order
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.candidates import SecondTry
from batchsched.plugin.extension_points import Changes, NothingToDo
from batchsched.plugin.session_view import SessionView
from batchsched.state.device_books import VIEWS, Picks, is_unknown
from batchsched.state.needs import Need
from batchsched.state.records import Fit, NodeState, TaskState


@frozen(kw_only=True)
class DevicesPlugin:
    """Chooses devices for tasks with claims."""

    order: Order = "listed"
    """In which order devices are tried."""
    tries: int = TRIES
    """How many devices are looked at for one task on one node."""
    undo: int = 200
    """How many choices are undone at most to find places for a gang; 0: none is."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> DevicesPlugin:
        """Read the arguments."""
        return cls(
            order=cast("Order", arguments.choice("order", ORDERS, default="listed")),
            tries=arguments.integer("tries", default=TRIES, minimum=1),
            undo=arguments.integer("undo", default=200, minimum=0),
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        if not view.claiming:
            return NothingToDo(lambda changes: any(task.info.claims for task in changes.tasks))
        books = view.device_books
        books.order, books.tries, books.is_read = self.order, self.tries, True
        books.begin()
        return _Devices(self, view)


class _Devices:
    def __init__(self, plugin: DevicesPlugin, view: SessionView) -> None:
        self._books = view.device_books
        self._undo = plugin.undo
        self.choose = self._books.choose
        # An extension point that is None is none.
        is_wide = self._books.is_wide or bool(self._books.sharing)
        self.choice_signature = None if is_wide else self._books.signature
        self._has_gangs = any(map(_may_be_of_gang, view.tasks.values()))
        self.second_try = self._second_try if self._has_gangs and plugin.undo else None

    def resume(self, changes: Changes, /) -> bool:
        self._books.check_selectors(changes.tasks)
        self._books.resume()
        if self._books.sharing or any(map(_shares, changes.tasks)):
            return False
        return not (
            changes.nodes
            or changes.nodes_gone
            or any(is_unknown(task) for task in changes.tasks)
            or (not self._has_gangs and any(map(_may_be_of_gang, changes.tasks)))
        )

    def _second_try(self, need: Need, /) -> SecondTry | None:
        """Place tasks again, those first for which there are the fewest devices."""
        if len(need.tasks) == 1 or not any(task.info.claims for task in need.tasks):
            return None
        tasks = sorted(need.tasks, key=self._books.scarcity)
        return SecondTry(tuple(tasks), self._undo, self._allocations)

    def _allocations(self, task: TaskState, node: NodeState, fit: Fit) -> Iterator[Picks]:
        return self._books.allocations(task, node, VIEWS[fit])


def _shares(task: TaskState) -> bool:
    return any(claim.shared is not None for claim in task.info.claims)


def _may_be_of_gang(task: TaskState) -> bool:
    return bool(task.info.claims) and task.job is not None and task.job.min_available > 1
