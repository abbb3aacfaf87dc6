"""From drawn numbers to a snapshot that is valid by construction.

A draft holds nothing but bytes, which is quick to draw and shrinks well: 0 is always the simplest
choice. Which of the numbers mean anything depends on the features that the
example uses. Tasks that run are put where there is room for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from attrs import evolve, frozen

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, ScoringRequest, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import TaskStatus
from batchsched.model.timing import Dependency, JobEvent
from batchsched.testing.pools import (
    AFFINITIES,
    CONSTRAINTS,
    DEVICES,
    GIB,
    NODE_LABELS,
    NODE_SIZES,
    REQUESTS,
    TASK_LABELS,
    TROUBLES,
    with_devices,
)
from batchsched.testing.rooms import Rooms
from batchsched.testing.tree_drafts import build_queue_tree

__all__ = [
    "NOW",
    "Features",
    "JobDraft",
    "NodeDraft",
    "QueueDraft",
    "ShapeDraft",
    "SnapshotDraft",
    "TaskDraft",
    "build_job",
    "build_node",
    "build_queue",
    "build_snapshot",
    "build_task",
    "shape_of",
]

_HIGHEST = 15
"""The highest choice in a draft."""

NOW = 100.0
"""The time of snapshots whose jobs have ages, in seconds."""

# A byte of a draft holds two choices, to draw as little as possible: the one that matters most is
# the remainder by 16.

TaskDraft = bytes
"""Shape and status, trait and node."""
JobDraft = tuple[bytes, list[TaskDraft]]
"""Trait and state, shape and queue, priority and gang, wait and estimate; its tasks."""
NodeDraft = bytes
"""Labels and size, devices and trouble."""
QueueDraft = bytes
"""Age and weight; in a tree: parent and limit, priority and weight, guarantee and state, what it
deserves.
"""
ShapeDraft = bytes
"""More to start and request, affinity and constraints, labels."""
SnapshotDraft = tuple[
    list[NodeDraft], list[QueueDraft], list[ShapeDraft], list[JobDraft], list[TaskDraft]
]
"""Nodes, queues, shapes, jobs, tasks of no job."""


@frozen(kw_only=True)
class Features:
    """What the examples may have; see `batchsched.testing.snapshots`."""

    gangs: bool = True
    invalid_jobs: bool = True
    priorities: bool = True
    ages: bool = True
    queues: bool = True
    unknown_queues: bool = True
    best_effort: bool = True
    scalars: bool = True
    init_requests: bool = True
    constraints: bool = True
    affinity: bool = True
    running: bool = True
    endings: bool = True
    backfill: bool = True
    reservations: bool = True
    promises: bool = True
    critical: bool = True
    other_tasks: bool = True
    durations: bool = True
    dependencies: bool = True
    overcommitted: bool = True
    trees: bool = True


_STATUSES = (
    *(TaskStatus.PENDING,) * 5,
    *(TaskStatus.RUNNING,) * 8,
    *(TaskStatus.BOUND, TaskStatus.PENDING, TaskStatus.BINDING),
)
_WAITS, _PROMISED, _RUNS = 0, 4, 9
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
_RUNNING_JOBS = range(6, 12)
_BACKFILL_JOBS = range(10, 12)
"""States of jobs whose tasks are all running, and all marked as backfill."""
_LARGE_JOBS = range(3, 6)
_SMALL_JOBS = range(6, 9)
"""States of jobs that wait with the largest tasks, and that run with the smallest.

Among equals nobody ever has to evict two for one.
"""
_SMALL_GANG = 6
_NO_GANG = (_HIGHEST - 2, _HIGHEST - 1)

_SHRINKS_ONE_IN = 7
"""Three of so many nodes have lost something, if nodes may be overcommitted."""

_AGES = (0.0, 90.0, 40.0, 99.0)

_ESTIMATES = (None, 10.0, 20.0, 5.0, 40.0, 10.0, None, 0.0)
_RUNS_FOR = (None, 5.0, 0.0, 10.0, 15.0)
"""For how long tasks have run: several of them for as long as was expected."""
_WAITS_FOR = (None, 30.0, 120.0)
_DEADLINES_IN = (None, 15.0, 60.0, -5.0)
_EVENTS = tuple(JobEvent)


@frozen(kw_only=True)
class Shape:
    resreq: Resource
    init_resreq: Resource | None
    scoring_request: ScoringRequest | None
    constraints: int
    affinity: int
    labels: int


def shape_of(draft: ShapeDraft, features: Features) -> Shape:
    """Return the shape that a draft stands for, with the features that are asked for."""
    extra, request = divmod(draft[0], 16)
    affinity, constraints = divmod(draft[1], 16)
    labels = draft[2]
    pool = REQUESTS if features.best_effort else REQUESTS[:-2]
    resreq = pool[request % len(pool)]
    init_resreq: Resource | None = None
    scoring: ScoringRequest | None = None
    if features.scalars:
        resreq = with_devices(resreq, (0, 0, 0, 1, 2)[extra % 5], int(extra % 7 == 1))
    if features.init_requests:
        if extra % 4 == 1:
            more = Resource(milli_cpu=2000) if extra % 8 == 1 else Resource(memory=3 * GIB)
            init_resreq = resreq.max_with(more)
        if extra % 6 == 2:
            scoring = ScoringRequest(milli_cpu=100 * (extra % 3), memory=extra % 3 * GIB)
    return Shape(
        resreq=resreq,
        init_resreq=init_resreq,
        scoring_request=scoring,
        constraints=constraints if features.constraints else 0,
        affinity=affinity if features.affinity else 0,
        labels=labels if features.affinity else 0,
    )


_SIMPLE = shape_of(bytes(3), Features())


def build_node(draft: NodeDraft, name: str, features: Features) -> NodeInfo:
    """Return the node that a draft describes."""
    labels, size = divmod(draft[0], 16)
    devices, trouble = divmod(draft[1], 16)
    allocatable = NODE_SIZES[size % len(NODE_SIZES)]
    if features.scalars:
        allocatable = with_devices(allocatable, (0, 2, 1, 4)[devices % 4], int(devices % 3 == 2))
    wrong = TROUBLES[trouble % len(TROUBLES)] if features.constraints else TROUBLES[0]
    named: dict[str, str] = {}
    if features.constraints or features.affinity:
        named.update(NODE_LABELS[labels % len(NODE_LABELS)])
    if features.affinity and labels < _HIGHEST:
        named["host"] = name
    return NodeInfo(
        name=name,
        allocatable=allocatable,
        max_tasks=wrong.max_tasks,
        labels=named,
        taints=wrong.taints,
        unschedulable=wrong.unschedulable,
        conditions=wrong.conditions,
    )


def build_queue(draft: QueueDraft, name: str, features: Features) -> Queue:
    """Return the queue that a draft describes."""
    age, weight = divmod(draft[0] % 16, 4)
    return Queue(
        name=name,
        weight=1 + weight if features.queues else 1,
        creation_time=_AGES[age % len(_AGES)] if features.ages else 0.0,
    )


_DEEPEST = 3
"""The most queues on a path from the top of a tree to a leaf."""


def _build_queues(drafts: Sequence[QueueDraft], features: Features) -> list[Queue]:
    queues = [
        build_queue(queue, name, features)
        for queue, name in zip(drafts, _numbered("q"), strict=False)
    ]
    if not features.trees:
        return queues
    tree = build_queue_tree(
        [
            (place // 16, kind % 64, guarantee // 16, deserved % 32, place % 16, guarantee % 16)
            for _, place, kind, guarantee, deserved in drafts
        ],
        max_depth=_DEEPEST,
        dimensions=("cpu", "memory", DEVICES[0]) if features.scalars else ("cpu", "memory"),
        states=True,
        in_whole_units=True,
    )
    return [
        evolve(queue, creation_time=plain.creation_time)
        for queue, plain in zip(tree, queues, strict=True)
    ]


def _leaves(queues: Sequence[Queue]) -> list[str]:
    inner = {queue.parent for queue in queues}
    return [queue.name for queue in queues if queue.name not in inner]


def build_task(
    draft: TaskDraft,
    uid: str,
    features: Features,
    *,
    shapes: Sequence[Shape] = (_SIMPLE,),
    job_shape: int = 0,
    namespace: str = "default",
    rooms: Rooms | None = None,
    is_backfill: bool = False,
) -> TaskInfo:
    """Return the task that a draft describes; where there is no room for it, it is Pending."""
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
        creation_time=_AGES[(trait // 3) % 3] if features.ages else 0.0,
        is_backfill=features.backfill and (is_backfill or trait % 5 == 2),
        labels=TASK_LABELS[shape.labels % len(TASK_LABELS)],
        node_selector=constraints.node_selector,
        node_affinity=constraints.node_affinity,
        tolerations=constraints.tolerations,
        host_ports=constraints.host_ports,
        pod_affinity=affinities.pod_affinity,
        pod_anti_affinity=affinities.pod_anti_affinity,
        start_time=_start_time(trait, features) if status.holds else None,
        estimate=_ESTIMATES[trait % 3 + which % 2]
        if features.durations and trait % 4 == 3
        else None,
        attained_service=5.0 * (which % 4) if features.durations else 0.0,
    )


def _start_time(trait: int, features: Features) -> float | None:
    runs_for = _RUNS_FOR[trait % len(_RUNS_FOR)] if features.durations else None
    return None if runs_for is None else _now(features) - runs_for


def _now(features: Features) -> float:
    return NOW if features.ages else 0.0


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


def build_job(
    draft: JobDraft,
    name: str,
    features: Features,
    *,
    queues: Sequence[str],
    shapes: Sequence[Shape] = (_SIMPLE,),
    rooms: Rooms | None = None,
    earlier: Sequence[JobInfo] = (),
) -> JobInfo:
    """Return the job that a draft describes; it may depend on an earlier one."""
    own, tasks = draft
    trait, state = divmod(own[0], 16)
    shape, queue = divmod(own[1], 16)
    priority, gang = divmod(own[2], 16)
    wait, estimate = divmod(own[3], 16)
    namespace = "default"
    if features.critical and trait % 8 == 7:
        namespace = "kube-system"
    elif features.affinity and trait % 4 == 2:
        namespace = "team"
    if state in _LARGE_JOBS:
        shapes = [max(shapes, key=_cpu)]
    elif state in _SMALL_JOBS:
        shapes = [min(shapes, key=_cpu)]
    queue_name = queues[queue % len(queues)]
    if features.unknown_queues and queue == _HIGHEST:
        queue_name = "unknown"
    return JobInfo(
        name=name,
        namespace=namespace,
        queue=queue_name,
        min_available=_min_available(gang, len(tasks), features),
        priority=priority % 3 if features.priorities else 0,
        creation_time=_AGES[trait % len(_AGES)] if features.ages else 0.0,
        tasks=[
            build_task(
                _in_state(task, state),
                f"{name}-{number}",
                features,
                shapes=shapes,
                job_shape=shape,
                namespace=namespace,
                rooms=rooms,
                is_backfill=state in _BACKFILL_JOBS,
            )
            for number, task in enumerate(tasks, start=1)
        ],
        user=("", "ann", "bob")[wait % 3] if features.durations else "",
        estimate=_ESTIMATES[estimate % len(_ESTIMATES)] if features.durations else None,
        max_wait=_WAITS_FOR[wait % len(_WAITS_FOR)] if features.durations else None,
        deadline=_deadline(wait, features),
        depends_on=_depends_on(wait, estimate, earlier) if features.dependencies else (),
    )


def _deadline(wait: int, features: Features) -> float | None:
    left = _DEADLINES_IN[wait % len(_DEADLINES_IN)] if features.durations else None
    return None if left is None else _now(features) + left


def _depends_on(wait: int, estimate: int, earlier: Sequence[JobInfo]) -> tuple[Dependency, ...]:
    if wait % 5 != 1:
        return ()
    on = _EVENTS[estimate % len(_EVENTS)]
    if not earlier or wait == _HIGHEST:
        return (Dependency(job="default/gone", on=on, satisfied_if_missing=wait % 2 == 0),)
    return (Dependency(job=earlier[estimate % len(earlier)].uid, on=on),)


def _cpu(shape: Shape) -> float:
    return shape.resreq.milli_cpu


def _min_available(gang: int, tasks: int, features: Features) -> int:
    if not features.gangs:
        return 1
    if gang == _HIGHEST:
        return tasks + 1 if features.invalid_jobs else tasks
    if gang in _NO_GANG:
        return 0
    return 1 if gang < _SMALL_GANG else 1 + gang % max(tasks, 1)


def _in_state(task: TaskDraft, state: int) -> TaskDraft:
    """Let the tasks of most jobs be alike: all of them waiting, or all of them running."""
    which, own_state = divmod(task[0], 16)
    if state in range(1, 6):
        own_state = _WAITS
    elif state in _RUNNING_JOBS:
        own_state = _RUNS
    return bytes((16 * which + own_state, task[1]))


def _numbered(letter: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{letter}{number}"


def build_snapshot(draft: SnapshotDraft, features: Features) -> Snapshot:
    """Return the snapshot that a draft describes."""
    node_drafts, queue_drafts, shape_drafts, job_drafts, other_drafts = draft
    nodes = [
        build_node(node, name, features)
        for node, name in zip(node_drafts, _numbered("n"), strict=False)
    ]
    if not features.queues:
        queue_drafts = list(islice(queue_drafts, 1))
    queues = _build_queues(queue_drafts, features)
    shapes = [shape_of(shape, features) for shape in shape_drafts] or [_SIMPLE]
    rooms = Rooms(nodes)
    if not nodes:
        features = evolve(features, running=False)
    names = _leaves(queues) or ["unknown"]
    jobs: list[JobInfo] = []
    for job, name in zip(job_drafts, _numbered("j"), strict=False):
        jobs.append(
            build_job(job, name, features, queues=names, shapes=shapes, rooms=rooms, earlier=jobs)
        )
    others: list[TaskInfo] = []
    if features.other_tasks:
        plain = evolve(features, reservations=False, promises=False)
        others = [
            build_task(task, f"other-{number}", plain, shapes=shapes, rooms=rooms)
            for number, task in enumerate(other_drafts, start=1)
        ]
    if features.overcommitted:
        nodes = [_shrunk(node, draft) for node, draft in zip(nodes, node_drafts, strict=True)]
    return Snapshot(
        nodes=nodes,
        queues=queues,
        jobs=jobs,
        other_tasks=others,
        now=_now(features),
    )


def _shrunk(node: NodeInfo, draft: NodeDraft) -> NodeInfo:
    """Return a node, maybe with less than it had when its tasks were put there."""
    there = node.allocatable
    match (draft[0] + draft[1]) % _SHRINKS_ONE_IN:
        case 1:
            left = evolve(there, milli_cpu=there.milli_cpu // 2)
        case 2:
            left = evolve(there, memory=there.memory // 2)
        case 3:
            left = evolve(there, scalars={})
        case _:
            return node
    return evolve(node, allocatable=left)
