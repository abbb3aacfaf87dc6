"""Strategies for the parts of snapshots: jobs, tasks, nodes, queues and resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import TypeVar, Unpack

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from batchsched.errors import Fault
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.resources import Resource
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import amount_map_problems
from batchsched.testing.drawing.arguments import (
    Labels,
    built,
    crossed,
    expect_no,
    not_labels,
    not_names,
    numbers,
    several,
    too_small,
)
from batchsched.testing.drawing.jobs import (
    JobDraft,
    ShapeDraft,
    TaskDraft,
    build_job,
    build_task,
    shape_of,
)
from batchsched.testing.drawing.pools import (
    GIB,
    HIGHEST,
    NODE_LABELS,
    NODE_SIZES,
    TROUBLES,
    Features,
    JobSwitches,
    TaskSwitches,
    with_devices,
)
from batchsched.testing.drawing.queues import QueueDraft, build_queue

LABEL_DRAFTS: SearchStrategy[bytes] = st.binary(min_size=16, max_size=16)
"""The bytes that determine all labels; their number does not grow with the example."""

_ALIKE = 128
"""The tasks of a job have equal labels if its byte is lower than this."""


LabelledT = TypeVar("LabelledT", TaskInfo, NodeInfo, JobInfo)


def labelled(
    part: LabelledT, draft: bytes, number: int, choices: Mapping[str, Sequence[str]]
) -> LabelledT:
    """Return a part of a snapshot with labels in addition to its own; each may be missing."""
    chosen: dict[str, str] = {}
    for position, (key, values) in enumerate(sorted(choices.items())):
        which = draft[(number + 5 * position) % len(draft)] % (1 + len(values))
        if which:
            chosen[key] = values[which - 1]
    return evolve(part, labels={**part.labels, **chosen})


def labelled_job(
    job: JobInfo, draft: bytes, number: int, choices: Mapping[str, Sequence[str]]
) -> JobInfo:
    """Return a job with labels; its tasks have the same ones, or each its own."""
    step = 0 if draft[number % len(draft)] < _ALIKE else 1
    tasks = [
        labelled(task, draft, number + step * position, choices)
        for position, task in enumerate(job.tasks)
    ]
    return evolve(labelled(job, draft, number, choices), tasks=tasks)


NodeDraft = bytes
"""Labels and size, devices and trouble."""

_SPARE = (Resource(), Resource(milli_cpu=1000, memory=GIB), Resource(), Resource(milli_cpu=500))
"""What crowded nodes have besides what their tasks hold."""

_SHRINKS_ONE_IN = 7
"""Three of this many nodes have lost resources, if nodes may be overcommitted."""


def build_node(draft: NodeDraft, name: str, features: Features) -> NodeInfo:
    """Return the node that a draft describes."""
    labels, size = divmod(draft[0], 16)
    devices, trouble = divmod(draft[1], 16)
    allocatable = NODE_SIZES[size % len(NODE_SIZES)]
    if features.scalars:
        allocatable = with_devices(allocatable, (0, 2, 1, 4)[devices % 4], int(devices % 3 == 2))
    named: dict[str, str] = {}
    if features.constraints or features.affinity:
        named.update(NODE_LABELS[labels % len(NODE_LABELS)])
    if features.affinity and labels < HIGHEST:
        named["host"] = name
    return NodeInfo(
        name=name,
        allocatable=allocatable,
        labels=named,
        **TROUBLES[trouble if features.constraints else 0],
    )


def shrunk(node: NodeInfo, draft: NodeDraft) -> NodeInfo:
    """Return a node, possibly with fewer resources than when its tasks were placed there."""
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


def stranded(before: Sequence[NodeInfo], after: Sequence[NodeInfo]) -> list[TaskInfo]:
    """Return tasks of no job that hold devices which nodes have no more."""
    return [
        TaskInfo(
            uid=f"stranded-{node.name}",
            name=f"stranded-{node.name}",
            resreq=Resource(scalars={device: _WHOLE}),
            status=TaskStatus.RUNNING,
            node_name=node.name,
        )
        for node, was in zip(after, before, strict=True)
        for device in sorted(was.allocatable.scalars)[-1:]
        if not node.allocatable.scalars
    ]


def filled(
    nodes: Sequence[NodeInfo], drafts: Sequence[NodeDraft], tasks: Iterable[TaskInfo]
) -> list[NodeInfo]:
    """Return nodes with a CPU and a GiB at most besides what tasks hold, and no unused devices."""
    held: dict[str | None, Resource] = {}
    for task in tasks:
        if task.status.holds:
            held[task.node_name] = held.get(task.node_name, Resource()) + task.resreq
    return [
        evolve(node, allocatable=held.get(node.name, Resource()) + _SPARE[draft[0] % len(_SPARE)])
        for node, draft in zip(nodes, drafts, strict=True)
    ]


MOST_TASKS = 4
"""The default maximum number of tasks of a job."""

_HALF, _WHOLE = 500, 1000
"""Half a CPU, and a whole device, in thousandths."""

# Drawing is far slower than building, so as much as possible is drawn at once. Bytes are drawn
# uniformly, and each of them shrinks towards 0 separately.

NODE_DRAFTS: SearchStrategy[NodeDraft] = st.binary(min_size=2, max_size=2)
QUEUE_DRAFTS: SearchStrategy[QueueDraft] = st.binary(min_size=5, max_size=5)
SHAPE_DRAFTS: SearchStrategy[ShapeDraft] = st.binary(min_size=3, max_size=3)
TASK_DRAFTS: SearchStrategy[TaskDraft] = st.binary(min_size=2, max_size=2)
_JOB_BYTES: SearchStrategy[bytes] = st.binary(min_size=5, max_size=5)


@st.composite
def job_drafts_of(draw: DrawFn, tasks: SearchStrategy[int]) -> JobDraft:
    """Draw a job with a drawn number of tasks."""
    return draw(_JOB_BYTES), several(draw, TASK_DRAFTS, tasks)


def _with_labels(drawn: SearchStrategy[LabelledT], labels: Labels) -> SearchStrategy[LabelledT]:
    """Draw tasks or nodes with some of the given labels."""
    choices = labels
    if not choices:
        return drawn
    return built(st.tuples(drawn, LABEL_DRAFTS), lambda of: labelled(of[0], of[1], 0, choices))


@checks_arguments()
def resources(
    *,
    max_milli_cpu: int = 4000,
    max_memory: int = 8 * GIB,
    scalars: Sequence[str] = (),
    max_scalar: int = 4000,
    may_be_empty: bool = True,
) -> SearchStrategy[Resource]:
    """Draw resources, in steps of half a CPU, a GiB and a whole device, up to the maximum.

    Args:
        max_milli_cpu: the most CPU, in thousandths.
        max_memory: the most memory, in bytes.
        scalars: the names of possible scalars.
        max_scalar: the most of each scalar, in thousandths.
        may_be_empty: whether it may be empty; if not, it has some CPU.

    Raises:
        FaultsError: invalid arguments; all faults at once. It is a `ValueError`.

    >>> from hypothesis import find
    >>> find(resources(), lambda resource: resource.memory > 0).memory > 0
    True

    """
    names = tuple(sorted(set(scalars)))
    problems = amount_map_problems("scalars", dict.fromkeys(filter(None, names), 0))
    expect_no(
        too_small(0 if may_be_empty else 1, max_milli_cpu=max_milli_cpu),
        too_small(0, max_memory=max_memory, max_scalar=max_scalar),
        not_names("scalars", scalars),
        (Fault(*problem) for problem in problems),
    )

    def resource(draft: tuple[int, int, tuple[int, ...]]) -> Resource:
        halves, gibs, devices = draft
        counts = zip(names, devices, strict=True)
        return Resource(
            milli_cpu=min(_HALF * halves, max_milli_cpu),
            memory=min(GIB * gibs, max_memory),
            scalars={name: min(_WHOLE * count, max_scalar) for name, count in counts if count},
        )

    drafts = st.tuples(
        st.integers(0 if may_be_empty else 1, ceil(max_milli_cpu / _HALF)),
        st.integers(0, ceil(max_memory / GIB)),
        st.tuples(*(st.integers(0, ceil(max_scalar / _WHOLE)) for _ in names)),
    )
    return built(drafts, resource)


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

    def task(drafts: tuple[TaskDraft, ShapeDraft]) -> TaskInfo:
        draft, shape = drafts
        shapes = (shape_of(shape, features),)
        return build_task(draft, uid, features, shapes=shapes, namespace=namespace)

    return _with_labels(built(st.tuples(TASK_DRAFTS, SHAPE_DRAFTS), task), labels)


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
    `unknown_queues` are off by default.

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

    def job(drafts: tuple[JobDraft, list[ShapeDraft]]) -> JobInfo:
        draft, shapes = drafts
        drawn = [shape_of(shape, features) for shape in shapes]
        return build_job(draft, name, features, queues=queues, shapes=drawn)

    shape_drafts = st.lists(SHAPE_DRAFTS, min_size=1, max_size=2)
    drafts = st.tuples(job_drafts_of(numbers(min_tasks, max_tasks, MOST_TASKS)), shape_drafts)
    drawn = built(drafts, job)
    if not labels:
        return drawn
    choices = labels
    return built(st.tuples(drawn, LABEL_DRAFTS), lambda of: labelled_job(of[0], of[1], 0, choices))


@checks_arguments()
def nodes(
    *,
    name: str = "n1",
    scalars: bool = True,
    constraints: bool = True,
    affinity: bool = True,
    labels: Labels = None,
) -> SearchStrategy[NodeInfo]:
    """Draw nodes with a given name; for the switches and labels see `snapshots`.

    Raises:
        FaultsError: invalid arguments; all faults at once.

    """
    expect_no(not_labels(labels))
    features = Features(scalars=scalars, constraints=constraints, affinity=affinity)
    return _with_labels(built(NODE_DRAFTS, lambda draft: build_node(draft, name, features)), labels)


@checks_arguments()
def queues(*, name: str = "q1", weights: bool = True, ages: bool = True) -> SearchStrategy[Queue]:
    """Draw queues with a given name, with weights from 1 to 4."""
    features = Features(queues=weights, ages=ages)
    return built(QUEUE_DRAFTS, lambda draft: build_queue(draft, name, features))
