"""Results as they should not be: what a scheduler with a mistake in it would have decided."""

from __future__ import annotations

from attrs import evolve

from batchsched import (
    Bind,
    CycleResult,
    Eviction,
    PendingReason,
    Promise,
    TaskOutcome,
    TaskStatus,
    WhyPending,
)

UNKNOWN = PendingReason(WhyPending.NOT_CONSIDERED, detail="doctored")


def placed(
    result: CycleResult,
    uid: str,
    status: TaskStatus,
    node_name: str | None = None,
    *,
    is_backfill: bool = False,
) -> CycleResult:
    """The same result, but for where one task stands; it agrees with itself."""
    outcome = TaskOutcome(status=status, node_name=node_name, is_backfill=is_backfill)
    tasks = {**result.tasks, uid: outcome}
    binds = [bind for bind in result.binds if bind.task_uid != uid]
    if status is TaskStatus.BINDING and node_name is not None:
        binds.append(Bind(task_uid=uid, node_name=node_name, is_backfill=is_backfill))
    pending = {other: why for other, why in result.pending.items() if other != uid}
    if status is TaskStatus.PENDING:
        pending[uid] = result.pending.get(uid, UNKNOWN)

    def listed(kind: TaskStatus) -> tuple[Promise, ...]:
        return tuple(
            Promise(task_uid=other, node_name=place.node_name or "")
            for other, place in sorted(tasks.items())
            if place.status is kind
        )

    return evolve(
        result,
        tasks=tasks,
        binds=tuple(binds),
        pending=pending,
        pipelined=listed(TaskStatus.PIPELINED),
        conditional=listed(TaskStatus.CONDITIONAL),
        reserved=listed(TaskStatus.RESERVED),
    )


def evicted(result: CycleResult, uid: str, claimant: str, action: str = "preempt") -> CycleResult:
    """The same result with one more eviction."""
    before = result.tasks[uid]
    assert before.node_name is not None
    eviction = Eviction(
        task_uid=uid, node_name=before.node_name, action=action, for_task_uid=claimant
    )
    moved = placed(
        result, uid, TaskStatus.RELEASING, before.node_name, is_backfill=before.is_backfill
    )
    return evolve(moved, evictions=(*result.evictions, eviction))
