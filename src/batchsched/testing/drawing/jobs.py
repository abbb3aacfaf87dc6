"""Jobs with their tasks; running tasks are placed where there is room for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Unpack

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from batchsched.causes import HoldKind
from batchsched.model.cluster import (
    Dependency,
    Hold,
    JobEvent,
    JobInfo,
    NodeInfo,
    ScoringRequest,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    least_tasks,
)
from batchsched.model.resources import Resource
from batchsched.model.validation.arguments import checks_arguments
from batchsched.testing.drawing.arguments import (
    built,
    crossed,
    expect_no,
    not_names,
    numbers,
    several,
)
from batchsched.testing.drawing.devices import claiming_job
from batchsched.testing.drawing.labels import (
    Labels,
    labelled,
    labelled_job,
    not_labels,
    with_labels,
)
from batchsched.testing.drawing.pools import (
    AFFINITIES,
    AGES,
    CONSTRAINTS,
    GIB,
    HIGHEST,
    REQUESTS,
    TASK_LABELS,
    USERS,
    Features,
    JobDraft,
    JobSwitches,
    TaskSwitches,
    Wishes,
    now_of,
    with_devices,
)
from batchsched.testing.drawing.protection import protected_job
from batchsched.testing.drawing.racks import asks_by_label

SHAPE_DRAFTS = st.binary(min_size=3, max_size=3)
"""More to start and request, affinity and constraints, labels."""


class TaskShape(Wishes):
    """The requests of a task, what it wants of nodes and other tasks, and its labels."""

    resreq: Resource
    init_resreq: Resource | None
    scoring_request: ScoringRequest | None
    labels: Mapping[str, str]


def shape_of(draft: bytes, features: Features) -> TaskShape:
    """Return the shape that a draft describes, with the features that are on."""
    extra, request = divmod(draft[0], 16)
    affinity, constraints = divmod(draft[1], 16)
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
    return {
        **CONSTRAINTS[constraints if features.constraints else 0],
        **AFFINITIES[affinity % len(AFFINITIES) if features.affinity else 0],
        "resreq": resreq,
        "init_resreq": init_resreq,
        "scoring_request": scoring,
        "labels": TASK_LABELS[draft[2] % len(TASK_LABELS) if features.affinity else 0],
    }


SIMPLE = shape_of(bytes(3), Features())
"""The shape that requests one CPU and has no constraints."""


class FreeRoom:
    """Finds nodes with room: the free amounts of each while running tasks are placed."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        self._rooms = [(node.name, dict(node.allocatable.dimensions())) for node in nodes]

    def place(self, resreq: Resource, start: int) -> str | None:
        """Take room on a node, the drawn one if possible; return its name, or None."""
        wanted = [(name, amount) for name, amount in resreq.dimensions() if amount]
        for step in range(len(self._rooms)):
            node, room = self._rooms[(start + step) % len(self._rooms)]
            if all(amount <= room.get(name, 0) for name, amount in wanted):
                room.update((name, room[name] - amount) for name, amount in wanted)
                return node
        return None

    def any_name(self, draft: int) -> str:
        """Return the name of a drawn node, or of one that does not exist."""
        names = [*(name for name, _ in self._rooms), "gone"]
        return names[draft % len(names)]


TASK_DRAFTS = st.binary(min_size=2, max_size=2)
"""TaskShape and status, trait and node."""

ESTIMATES = (None, 10.0, 20.0, 5.0, 40.0, 10.0, None, 0.0)
"""How long tasks and jobs are expected to run, in seconds."""

_RUNS_FOR = (None, 5.0, 0.0, 10.0, 15.0)
"""How long tasks have run, in seconds; several equal the estimates."""

_STATUSES = (
    *(TaskStatus.PENDING,) * 5,
    *(TaskStatus.RUNNING,) * 8,
    *(TaskStatus.BOUND, TaskStatus.PENDING, TaskStatus.BINDING),
)
WAITS, _PROMISED, RUNS, _LEAVES = 0, 4, 9, 10
"""Positions in it."""
_ENDINGS = {
    1: TaskStatus.SUCCEEDED,
    2: TaskStatus.RELEASING,
    3: TaskStatus.FAILED,
    4: TaskStatus.UNKNOWN,
    _LEAVES: TaskStatus.RELEASING,
}


def build_task(
    draft: bytes,
    uid: str,
    features: Features,
    *,
    shapes: Sequence[TaskShape] = (SIMPLE,),
    job_shape: int = 0,
    namespace: str = "default",
    rooms: FreeRoom | None = None,
    is_backfill: bool = False,
) -> TaskInfo:
    """Return the task that a draft describes; without room for it, it is Pending."""
    which, state = divmod(draft[0], 16)
    trait, where = divmod(draft[1], 16)
    shape = shapes[(job_shape + which // 4) % len(shapes)]
    status, node_name = _place(shape["resreq"], state, where, features, rooms)
    runs = features.durations and status.holds
    runs_for = _RUNS_FOR[trait % len(_RUNS_FOR)] if runs else None
    return TaskInfo(
        uid=uid,
        name=uid,
        namespace=namespace,
        status=status,
        node_name=node_name,
        priority=1 + trait % 3 if features.priorities else 1,
        priority_class_name=(
            "system-node-critical" if features.critical and trait % 11 == 10 else ""
        ),
        creation_time=AGES[(trait // 3) % 3] if features.ages else 0.0,
        is_backfill=features.backfill and (is_backfill or trait % 5 == 2),
        start_time=None if runs_for is None else now_of(features) - runs_for,
        estimate=ESTIMATES[trait % 3 + which % 2]
        if features.durations and trait % 4 == 3
        else None,
        attained_service=5.0 * (which % 4) if features.durations else 0.0,
        **shape,
    )


def _place(
    resreq: Resource, state: int, where: int, features: Features, rooms: FreeRoom | None
) -> tuple[TaskStatus, str | None]:
    if rooms is None:
        return TaskStatus.PENDING, None
    status = _STATUSES[state] if features.running else TaskStatus.PENDING
    if features.endings and features.running and where // 8 and state in _ENDINGS:
        status = _ENDINGS[state]
    if status.holds:
        node_name = rooms.place(resreq, where)
        return (TaskStatus.PENDING, None) if node_name is None else (status, node_name)
    if status is TaskStatus.PENDING and features.reservations and state in (2, 3):
        return TaskStatus.RESERVED, rooms.any_name(where)
    if status is TaskStatus.PENDING and features.promises and state == _PROMISED:
        return TaskStatus.PIPELINED, rooms.any_name(where)
    return status, None


# Remainders of a draft modulo 16; below all of these a job has neither groups nor a maximum.
_HAVE_MAXIMUM = range(6, 8)
_HAVE_ROLES = range(8, 10)
_HAVE_REPLICAS = range(10, 13)
_HAVE_TREES = range(13, 16)


def grouped(job: JobInfo, draft: int, *, may_be_invalid: bool) -> JobInfo:
    """Return a job with the groups and the maximum that a draft from 0 to 255 describes.

    Args:
        job: a job without groups.
        draft: the drawn number; 0 changes nothing.
        may_be_invalid: whether groups may need more tasks than they have.

    """
    choice, kind = divmod(draft, 16)
    if kind < _HAVE_MAXIMUM.start:
        return job
    if kind in _HAVE_MAXIMUM:
        return evolve(job, max_available=job.min_available + choice % 4)
    leaves = _leaves(kind)
    turn = choice // 8
    of = [leaves[(number + turn) % len(leaves)] for number in range(len(job.tasks))]
    there = Counter(of)
    groups: list[TaskGroup] = []
    for number, name in enumerate(leaves):
        least = _least(kind, choice, number)
        if not may_be_invalid:
            least = min(least, there[name])
        most = least + choice % 2 if choice % 5 == number + 1 else None
        parent = f"replica-{name[-1]}" if kind in _HAVE_TREES else None
        groups.append(TaskGroup(name, parent=parent, min=least, max=most))
    tops = list(dict.fromkeys(group.parent for group in groups if group.parent is not None))
    groups += [_replica(name, choice) for name in tops]
    count = len(tops) or len(leaves)
    min_groups = None if choice % 3 == 0 or kind in _HAVE_ROLES else max(0, count - choice % 3)
    with_groups = evolve(
        job,
        tasks=[evolve(task, group=name) for task, name in zip(job.tasks, of, strict=True)],
        groups=groups[::-1] if turn else groups,
        min_groups=min_groups,
    )
    if choice % 4 != 3:
        return with_groups
    least = max(job.min_available, least_tasks(with_groups.groups, min_groups))
    return evolve(with_groups, max_available=least + choice % 2)


def _leaves(kind: int) -> Sequence[str]:
    if kind in _HAVE_ROLES:
        return ("driver", "worker")
    if kind in _HAVE_REPLICAS:
        return tuple(f"replica-{number}" for number in range(2 + kind % 2))
    return tuple(f"{role}-{number}" for number in range(2) for role in ("leader", "worker"))


def _least(kind: int, choice: int, number: int) -> int:
    if kind in _HAVE_REPLICAS:
        return 1 + choice % 2
    return 1 if number % 2 == 0 else choice % 3


def _replica(name: str, choice: int) -> TaskGroup:
    """Return a group of two groups; one of them may be enough, and may be the most allowed."""
    least = 1 if choice % 4 == 2 else None
    return TaskGroup(name, min=least, max=1 if least and choice % 8 == 2 else None)


_RUNNING_JOBS = range(6, 12)
_LEAVING_JOBS = range(9, 10)
"""States of jobs whose tasks are all running, or half of them leaving where tasks may end.

Nothing is promised what others leave if hardly any task of an example leaves.
"""
_BACKFILL_JOBS = range(10, 12)
"""States of jobs whose tasks are all running, and all marked as backfill."""
_LARGE_JOBS = range(3, 6)
_SMALL_JOBS = range(6, 9)
"""States of jobs that wait with the largest tasks, and of jobs that run with the smallest.

With tasks of equal size, two victims for one claimant would never be necessary.
"""
_SMALL_GANG = 6
_NO_GANG = (HIGHEST - 2, HIGHEST - 1)
_WAITS_FOR = (None, 30.0, 120.0)
_DEADLINES_IN = (None, 15.0, 60.0, -5.0)
_EVENTS = tuple(JobEvent)


def build_job(
    draft: JobDraft,
    name: str,
    features: Features,
    *,
    queues: Sequence[str],
    shapes: Sequence[TaskShape] = (SIMPLE,),
    rooms: FreeRoom | None = None,
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
    due_in = _DEADLINES_IN[wait % len(_DEADLINES_IN)] if features.durations else None
    queue_name = queues[queue % len(queues)]
    if features.unknown_queues and queue == HIGHEST:
        queue_name = "unknown"
    job = JobInfo(
        name=name,
        namespace=namespace,
        queue=queue_name,
        min_available=_min_available(gang, len(tasks), features),
        priority=priority % 3 if features.priorities else 0,
        creation_time=AGES[trait % len(AGES)] if features.ages else 0.0,
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
        user=USERS[wait % len(USERS)] if features.durations else "",
        estimate=ESTIMATES[estimate % len(ESTIMATES)] if features.durations else None,
        max_wait=_WAITS_FOR[wait % len(_WAITS_FOR)] if features.durations else None,
        deadline=None if due_in is None else now_of(features) + due_in,
        depends_on=_depends_on(wait, estimate, earlier) if features.dependencies else (),
    )
    return grouped(job, own[4], may_be_invalid=features.invalid_jobs) if features.groups else job


_HOLDS = (
    Hold(HoldKind.GATE, "example.com/license"),
    Hold(HoldKind.CHECK, "provisioning", "waits for machines"),
    Hold(HoldKind.NOT_ADMITTED, "q1", until=200.0),
    Hold(HoldKind.GATE, "example.com/quota"),
)


def held(job: JobInfo, draft: JobDraft) -> JobInfo:
    """Return a job with the holds that a draft describes, on it or on some of its tasks."""
    own, tasks = draft
    kind = own[1] % 8
    if kind >= len(_HOLDS) + 2:
        return job
    if kind >= len(_HOLDS):
        return evolve(job, holds=_HOLDS[own[0] % 3 : own[0] % 3 + 1 + kind % 2])
    return evolve(
        job,
        tasks=[
            evolve(task, holds=(_HOLDS[(kind + position) % len(_HOLDS)],))
            if drafted[1] % 3 == 0
            else task
            for position, (task, drafted) in enumerate(zip(job.tasks, tasks, strict=True))
        ],
    )


def _depends_on(wait: int, estimate: int, earlier: Sequence[JobInfo]) -> tuple[Dependency, ...]:
    if wait % 5 != 1:
        return ()
    on = _EVENTS[estimate % len(_EVENTS)]
    if not earlier or wait == HIGHEST:
        return (Dependency(job="default/gone", on=on, satisfied_if_missing=wait % 2 == 0),)
    return (Dependency(job=earlier[estimate % len(earlier)].uid, on=on),)


def _cpu(shape: TaskShape) -> float:
    return shape["resreq"].milli_cpu


def _min_available(gang: int, tasks: int, features: Features) -> int:
    if not features.gangs:
        return 1
    if gang == HIGHEST:
        return tasks + 1 if features.invalid_jobs else tasks
    if gang in _NO_GANG:
        return 0
    return 1 if gang < _SMALL_GANG else 1 + gang % max(tasks, 1)


def _in_state(task: bytes, state: int) -> bytes:
    """Make the tasks of most jobs equal: all waiting, or all running."""
    which, own_state = divmod(task[0], 16)
    if state in range(1, 6):
        own_state = WAITS
    elif state in _LEAVING_JOBS:
        own_state = _LEAVES
    elif state in _RUNNING_JOBS:
        own_state = RUNS
    return bytes((16 * which + own_state, task[1]))


_JOB_DRAFTS = st.binary(min_size=5, max_size=5)

MOST_TASKS = 4
"""The default maximum number of tasks of a job."""


@st.composite
def job_drafts_of(draw: DrawFn, tasks: SearchStrategy[int]) -> JobDraft:
    """Draw a job with a drawn number of tasks."""
    return draw(_JOB_DRAFTS), several(draw, TASK_DRAFTS, tasks)


@checks_arguments()
def tasks(
    *,
    uid: str = "t1",
    namespace: str = "default",
    labels: Labels = None,
    **switches: Unpack[TaskSwitches],
) -> SearchStrategy[TaskInfo]:
    """Draw Pending tasks with a given UID; for the switches and labels see `snapshots`.

    Raises:
        FaultsError: invalid arguments; all faults at once.

    """
    expect_no(not_labels(labels))
    features = Features(**switches)

    def task(drafts: tuple[bytes, bytes]) -> TaskInfo:
        draft, shape = drafts
        shapes = (shape_of(shape, features),)
        return build_task(draft, uid, features, shapes=shapes, namespace=namespace)

    return with_labels(built(st.tuples(TASK_DRAFTS, SHAPE_DRAFTS), task), labels, labelled)


@checks_arguments()
def jobs(
    *,
    name: str = "j1",
    queues: Sequence[str] = ("q1",),
    min_tasks: int = 1,
    max_tasks: int | None = None,
    labels: Labels = None,
    **switches: Unpack[JobSwitches],
) -> SearchStrategy[JobInfo]:
    """Draw jobs with a given name whose tasks are all Pending.

    For the switches, the labels and the number of tasks, see `snapshots`; `invalid_jobs` and
    `unknown_queues` are off by default. With `topologies`, jobs ask for domains that labels of
    nodes make, since no topology is known. Most jobs ask for none, claim no devices and are
    protected by nothing.

    Raises:
        FaultsError: invalid arguments; all faults at once. It is a `ValueError`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(jobs(name="train", queues=["gpu"]))
    ... def it_is_that_job_of_that_queue(job):
    ...     assert job.uid.endswith("/train") and job.queue == "gpu"
    >>> it_is_that_job_of_that_queue()
    """
    switches.setdefault("invalid_jobs", False)
    switches.setdefault("unknown_queues", False)
    features = Features(**switches, dependencies=False)
    features = evolve(features, groups=features.groups and features.gangs)
    expect_no(
        not_names("queues", queues, may_be_none=False),
        crossed("tasks", min_tasks, max_tasks),
        not_labels(labels),
    )

    def job(drafts: tuple[JobDraft, list[bytes]]) -> JobInfo:
        draft, shapes = drafts
        drawn = [shape_of(shape, features) for shape in shapes]
        built = build_job(draft, name, features, queues=queues, shapes=drawn)
        if features.topologies:
            built = asks_by_label(built, draft)
        if features.devices:
            built = claiming_job(built, draft[0][1])
        if features.protection:  # without a past, as the time of the snapshot is not known
            built = evolve(protected_job(built, draft, now_of(features)), last_evicted=None)
        return built

    shape_drafts = st.lists(SHAPE_DRAFTS, min_size=1, max_size=2)
    drafts = st.tuples(job_drafts_of(numbers(min_tasks, max_tasks, MOST_TASKS)), shape_drafts)
    return with_labels(built(drafts, job), labels, labelled_job)
