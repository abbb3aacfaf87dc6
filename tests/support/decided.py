"""Small snapshots and results by hand, for the tests of what comes after a cycle."""

from __future__ import annotations

from batchsched import (
    Bind,
    CycleResult,
    Eviction,
    JobInfo,
    NodeInfo,
    Promise,
    Queue,
    Resource,
    Snapshot,
    TaskInfo,
    TaskOutcome,
    TaskStatus,
)

ONE = Resource(milli_cpu=1000)
BINDING, RELEASING = TaskStatus.BINDING, TaskStatus.RELEASING
RESERVED, RUNNING = TaskStatus.RESERVED, TaskStatus.RUNNING


def task(
    uid: str, status: TaskStatus = TaskStatus.PENDING, node: str | None = None, mark: bool = False
) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, status=status, node_name=node, is_backfill=mark, resreq=ONE)


def snapshot_of(*tasks: TaskInfo, other_tasks: tuple[TaskInfo, ...] = ()) -> Snapshot:
    return Snapshot(
        nodes=[NodeInfo(name=name, allocatable=ONE * 4) for name in ("n1", "n2")],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name=f"j-{one.uid}", queue="q", tasks=[one]) for one in tasks],
        other_tasks=other_tasks,
        now=10,
    )


def tasks_of(snapshot: Snapshot) -> dict[str, tuple[str, str | None, bool]]:
    return {
        one.uid: (one.status.value, one.node_name, one.is_backfill)
        for job in snapshot.jobs
        for one in job.tasks
    }


def result_of(**outcomes: tuple[TaskStatus, str | None, bool]) -> CycleResult:
    """A result in which tasks, by UID, end with a status, on a node, marked or not.

    Those that are evicted make room for themselves: there is always such a task.
    """
    binds, evictions, reserved = [], [], []
    for uid, (status, node, mark) in outcomes.items():
        if status is TaskStatus.BINDING:
            binds.append(Bind(task_uid=uid, node_name=node, is_backfill=mark))
        elif status is TaskStatus.RELEASING:
            evictions.append(
                Eviction(task_uid=uid, node_name=node, action="preempt", for_task_uid=uid)
            )
        elif status is TaskStatus.RESERVED:
            reserved.append(Promise(task_uid=uid, node_name=node))
    return CycleResult(
        binds=tuple(binds),
        evictions=tuple(evictions),
        reserved=tuple(reserved),
        tasks={
            uid: TaskOutcome(status=status, node_name=node, is_backfill=mark)
            for uid, (status, node, mark) in outcomes.items()
        },
    )
