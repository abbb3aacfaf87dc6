"""No node is overcommitted, now or in the future."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.model.cluster import TaskStatus
from batchsched.testing.invariants.amounts import EPS, Number, of, shown, wanting
from batchsched.testing.invariants.base import invariant
from batchsched.testing.invariants.cycle import Cycle

__all__ = ["check_capacity"]


@invariant
def check_capacity(cycle: Cycle) -> Iterator[str]:
    """No node is overcommitted, now or in the future.

    No node's `idle`, `future_idle`, `accessible` or `eventual` amounts are negative; if they were
    before the cycle, because the node was overcommitted, the cycle did not lower them.
    Reservations are not larger than their node. No task was placed on a node that had its maximum
    of tasks, unless it is promised the place of a task that is leaving.
    """
    new = set(cycle.new)
    for name, accounts in cycle.accounts.items():
        for account, amounts in accounts.derived.items():
            for dimension, amount in sorted(amounts.items()):
                if amount <= -EPS and amount <= _least(cycle, name, account, dimension) - EPS:
                    yield (
                        f"node {name!r} is overcommitted: its {account} is "
                        f"{shown({dimension: amount})}; on it are {_tasks_on(cycle, name)}"
                    )
        for dimension in wanting(accounts.reserved, of(cycle.nodes[name].allocatable)):
            yield (
                f"node {name!r}: more {dimension} is reserved than the node has; on it are "
                f"{_tasks_on(cycle, name)}"
            )
        limit = cycle.nodes[name].max_tasks
        passing = {TaskStatus.RESERVED}
        if cycle.policy.cures:
            passing.add(TaskStatus.RELEASING)
        there = [uid for uid in cycle.on_node[name] if cycle.after[uid].status not in passing]
        came = [uid for uid in there if uid in new]
        if (
            limit is not None
            and len(there) > limit
            and came
            and cycle.policy.has("predicates", "enablePredicate")
        ):
            yield (
                f"node {name!r}: expected at most {limit} tasks, got {len(there)}; "
                f"{', '.join(came)} came in this cycle"
            )


def _least(cycle: Cycle, name: str, account: str, dimension: str) -> Number:
    """Return an account before the cycle if it was negative, else 0.

    Minus what tasks with negligible requests hold, because those are placed in any case.
    """
    before = cycle.accounts_before[name].derived[account].get(dimension, 0)
    tiny = sum(
        amount
        for uid in cycle.on_node[name]
        if (amount := cycle.resreq[uid].get(dimension, 0)) < EPS
    )
    return min(before, 0) - tiny


def _tasks_on(cycle: Cycle, name: str) -> str:
    return "; ".join(
        f"{uid} {cycle.after[uid].status.value}"
        f"{' (backfill)' if cycle.after[uid].is_backfill else ''}: {shown(cycle.resreq[uid])}"
        for uid in cycle.on_node[name]
    )
