"""Tasks that start have room for all that they need to start."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model.cluster import TaskStatus
from batchsched.testing.invariants.amounts import add, fits, shown
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import Cycle

__all__ = ["check_starts"]

_STARTS = (TaskStatus.ALLOCATED, TaskStatus.BINDING)


@invariant
def check_starts(cycle: Cycle) -> Iterator[str]:
    """Every task that was placed had room for what it needs to start.

    That may be more than it holds. The order in which the tasks of a node were placed is unknown,
    but there must be one in which each of them fits into what is idle in the end plus what later
    ones hold. During a cycle only resources placed in it can become idle, so this holds for every
    action.
    """
    for name, on_node in cycle.on_node.items():
        left = [uid for uid in on_node if cycle.is_new(uid) and cycle.after[uid].status in _STARTS]
        idle = cycle.accounts[name].idle
        # From the last to the first: remove any task that can have been the last one.
        while left:
            last = next(
                (
                    uid
                    for uid in left
                    if fits(cycle.start_request[uid], add(idle, cycle.resreq[uid]))
                ),
                None,
            )
            if last is None:
                needs = ", ".join(f"{uid!r}: {shown(cycle.start_request[uid])}" for uid in left)
                yield (
                    f"node {name!r} has {shown(idle)} idle besides what they hold, and these "
                    f"cannot have started there in any order, by what they need to start: {needs}"
                )
                break
            left.remove(last)
            idle = add(idle, cycle.resreq[last])
