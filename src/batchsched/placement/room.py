"""Counts how many like tasks fit on a node, without placing any."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from batchsched.errors import PluginError, plugin_error
from batchsched.model.validation.values import shown
from batchsched.placement.equivalence_class import EquivalenceClass
from batchsched.state.records import NodeState, TaskState

__all__ = ["RoomLimit", "room_limits", "room_on"]

RoomLimit = tuple[str, Callable[[TaskState, NodeState], int | None]]
"""A plugin, and its function that returns how many like tasks a node accepts; None: any number."""


def room_limits(kind: EquivalenceClass) -> Sequence[RoomLimit] | None:
    """Return what limits the number of like tasks on a node besides resources; None: unknown."""
    limits: list[RoomLimit] = []
    for name, predicate in kind.live_predicates:
        if predicate.hints.room is None:
            return None
        limits.append((name, predicate.hints.room))
    return limits


def room_on(node: NodeState, task: TaskState, limits: Sequence[RoomLimit]) -> int | None:
    """Return how many tasks like a task fit on a node, one after the other; None: any number.

    Args:
        node: a feasible node where the task fits now, without promises and releases, with integer
            amounts.
        task: the task; others like it have the same requests.
        limits: what limits their number besides resources.

    """
    least: int | None = None
    for wanted, held, idle in zip(task.init_resreq, task.resreq, node.idle, strict=True):
        if held:
            count = (idle - wanted) // held + 1
            least = count if least is None or count < least else least
    name = ""
    try:
        for name, room in limits:
            most = room(task, node)
            if most is not None:
                if type(most) is not int:
                    problem = f"expected an integer or None as room, got {shown(most)}"
                    raise PluginError(name, "predicates", problem)
                least = most if least is None or most < least else least
    except PluginError:
        raise
    except Exception as error:
        raise plugin_error(name, "predicates", error) from error
    return least
