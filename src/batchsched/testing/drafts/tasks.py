"""Build tasks from drawn bytes; running ones are placed where there is room for them."""

from __future__ import annotations

from collections.abc import Sequence

from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.resources import Resource
from batchsched.testing.drafts.features import AGES, Features, now_of
from batchsched.testing.drafts.pools import AFFINITIES, CONSTRAINTS, TASK_LABELS
from batchsched.testing.drafts.rooms import Rooms
from batchsched.testing.drafts.shapes import SIMPLE, Shape

__all__ = ["ESTIMATES", "RUNS", "WAITS", "TaskDraft", "build_task"]

TaskDraft = bytes
"""Shape and status, trait and node."""

ESTIMATES = (None, 10.0, 20.0, 5.0, 40.0, 10.0, None, 0.0)
"""How long tasks and jobs are expected to run, in seconds."""

_RUNS_FOR = (None, 5.0, 0.0, 10.0, 15.0)
"""How long tasks have run, in seconds; several equal the estimates."""

_STATUSES = (
    *(TaskStatus.PENDING,) * 5,
    *(TaskStatus.RUNNING,) * 8,
    *(TaskStatus.BOUND, TaskStatus.PENDING, TaskStatus.BINDING),
)
WAITS, _PROMISED, RUNS = 0, 4, 9
"""Positions in it."""
_ENDINGS = {
    1: TaskStatus.SUCCEEDED,
    2: TaskStatus.RELEASING,
    3: TaskStatus.FAILED,
    4: TaskStatus.UNKNOWN,
}
_NODE_NEEDED = (
    TaskStatus.RUNNING,
    TaskStatus.BOUND,
    TaskStatus.BINDING,
    TaskStatus.RELEASING,
    TaskStatus.UNKNOWN,
)


def build_task(
    draft: TaskDraft,
    uid: str,
    features: Features,
    *,
    shapes: Sequence[Shape] = (SIMPLE,),
    job_shape: int = 0,
    namespace: str = "default",
    rooms: Rooms | None = None,
    is_backfill: bool = False,
) -> TaskInfo:
    """Return the task that a draft describes; without room for it, it is Pending."""
    which, state = divmod(draft[0], 16)
    trait, where = divmod(draft[1], 16)
    shape = shapes[(job_shape + which // 4) % len(shapes)]
    status, node_name = _place(shape.resreq, state, where, features, rooms)
    constraints = CONSTRAINTS[shape.constraints % len(CONSTRAINTS)]
    affinities = AFFINITIES[shape.affinity % len(AFFINITIES)]
    return TaskInfo(
        uid=uid,
        name=uid,
        namespace=namespace,
        status=status,
        node_name=node_name,
        resreq=shape.resreq,
        init_resreq=shape.init_resreq,
        scoring_request=shape.scoring_request,
        priority=1 + trait % 3 if features.priorities else 1,
        priority_class_name=(
            "system-node-critical" if features.critical and trait % 11 == 10 else ""
        ),
        creation_time=AGES[(trait // 3) % 3] if features.ages else 0.0,
        is_backfill=features.backfill and (is_backfill or trait % 5 == 2),
        labels=TASK_LABELS[shape.labels % len(TASK_LABELS)],
        node_selector=constraints.node_selector,
        node_affinity=constraints.node_affinity,
        tolerations=constraints.tolerations,
        host_ports=constraints.host_ports,
        pod_affinity=affinities.pod_affinity,
        pod_anti_affinity=affinities.pod_anti_affinity,
        start_time=_start_time(trait, features) if status.holds else None,
        estimate=ESTIMATES[trait % 3 + which % 2]
        if features.durations and trait % 4 == 3
        else None,
        attained_service=5.0 * (which % 4) if features.durations else 0.0,
    )


def _start_time(trait: int, features: Features) -> float | None:
    runs_for = _RUNS_FOR[trait % len(_RUNS_FOR)] if features.durations else None
    return None if runs_for is None else now_of(features) - runs_for


def _place(
    resreq: Resource, state: int, where: int, features: Features, rooms: Rooms | None
) -> tuple[TaskStatus, str | None]:
    if rooms is None:
        return TaskStatus.PENDING, None
    status = _STATUSES[state] if features.running else TaskStatus.PENDING
    if features.endings and features.running and where // 8 and state in _ENDINGS:
        status = _ENDINGS[state]
    if status in _NODE_NEEDED:
        node_name = rooms.place(resreq, where)
        return (TaskStatus.PENDING, None) if node_name is None else (status, node_name)
    if status is TaskStatus.PENDING and features.reservations and state in (2, 3):
        return TaskStatus.RESERVED, rooms.any_name(where)
    if status is TaskStatus.PENDING and features.promises and state == _PROMISED:
        return TaskStatus.PIPELINED, rooms.any_name(where)
    return status, None
