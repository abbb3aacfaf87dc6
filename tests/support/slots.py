"""A plugin that chooses: each task gets a numbered slot of its node, which no other one has."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from attrs import frozen

from batchsched import Arguments, TaskStatus, Unfit, UnfitReason
from batchsched.plugin import Fit, NodeState, SessionView, TaskState

TAKEN = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="slots", detail="no slot")

_LATER = (TaskStatus.PIPELINED,)
_CONDITIONALLY = (TaskStatus.CONDITIONAL,)


@frozen
class SlotsPlugin:
    """Of the slots 0 to count - 1 of a node, a task with the label ``slots`` gets the first free.

    A task with the label's value ``odd`` gets none of an even number.
    """

    count: int = 3
    declares: bool = True

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> SlotsPlugin:
        return cls(
            count=arguments.integer("count", default=3),
            declares=arguments.boolean("declares", default=True),
        )

    def open(self, _view: SessionView, /) -> object:
        return DeclaredSlots(self.count) if self.declares else Slots(self.count)


class Slots:
    def __init__(self, count: int) -> None:
        self.count = count

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
        wanted = task.info.labels.get("slots")
        if wanted is None:
            return None
        held = {
            other.choices["slots"]
            for other in node.tasks.values()
            if "slots" in other.choices and other not in gone and _is_in_the_way(other, fit)
        }
        slots = range(1, self.count, 2) if wanted == "odd" else range(self.count)
        free = [slot for slot in slots if slot not in held and kept in (None, slot)]
        return free[0] if free else TAKEN


def _is_in_the_way(other: TaskState, fit: Fit) -> bool:
    """Whether another task has its slot when the asking one comes."""
    if other.status is TaskStatus.RELEASING:
        return fit is not Fit.LATER
    return not (other.is_backfill and fit is Fit.CONDITIONALLY)


class DeclaredSlots(Slots):
    def choice_signature(self, task: TaskState, /) -> Hashable | None:
        return task.info.labels.get("slots")
