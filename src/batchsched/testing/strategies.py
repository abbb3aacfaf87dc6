"""Strategies: snapshots and what they consist of, drawn by Hypothesis.

Everything drawn is valid by construction, small and readable: it shrinks towards one node of
two cpus and one task of one cpu. Values are taken from small pools (`batchsched.testing.pools`),
so that ties, shortages and conflicts are frequent.

An example is printed as the code that makes it (`batchsched.testing.as_code`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar

from attrs import asdict, evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import amount_map_problems, shown
from batchsched.testing.asked import Asked
from batchsched.testing.drafts import (
    Features,
    JobDraft,
    NodeDraft,
    QueueDraft,
    ShapeDraft,
    SnapshotDraft,
    TaskDraft,
    build_job,
    build_node,
    build_queue,
    build_snapshot,
    build_task,
    shape_of,
)
from batchsched.testing.pools import GIB

DraftT = TypeVar("DraftT")
ValueT = TypeVar("ValueT")

__all__ = ["jobs", "nodes", "queues", "resources", "snapshots", "tasks"]

_OFTEN = ("running", "queues", "gangs")
"""Features that most examples use, because most situations of interest need them."""

_NODES, _JOBS, _TASKS = 4, 6, 4
"""The most nodes, jobs and tasks of a job where nothing else is asked for."""

_HALF, _WHOLE = 500, 1000
"""Half a cpu, and a whole device, in thousandths."""

# To draw something costs far more than to build something of it, so as much as possible is drawn
# at once. Bytes are drawn alike, and each of them shrinks towards 0 for itself.

_NODE: SearchStrategy[NodeDraft] = st.binary(min_size=2, max_size=2)
_QUEUE: SearchStrategy[QueueDraft] = st.binary(min_size=5, max_size=5)
_SHAPE: SearchStrategy[ShapeDraft] = st.binary(min_size=3, max_size=3)
_TASK: SearchStrategy[TaskDraft] = st.binary(min_size=2, max_size=2)
_JOB: SearchStrategy[bytes] = st.binary(min_size=4, max_size=4)

_RARE = ("trees",)
"""Features that change what most others mean."""

_HOW_HIGH: dict[str, int] = {**dict.fromkeys(_OFTEN, 32), **dict.fromkeys(_RARE, 192)}
"""How high a byte must be for an example to use a feature; 128, which half of them are, for others.

Seven of eight are 32 or more, and one of four is 192 or more.
"""


@st.composite
def built(
    draw: DrawFn, drafts: SearchStrategy[DraftT], build: Callable[[DraftT], ValueT]
) -> ValueT:
    """Draw a draft and build something of it, which is then printed as what it is."""
    return build(draw(drafts))


def _several(
    draw: DrawFn, items: SearchStrategy[DraftT], count: SearchStrategy[int]
) -> list[DraftT]:
    """Draw how many there are, and then so many: long lists are as frequent as short ones."""
    return [draw(items) for _ in range(draw(count))]


@st.composite
def _job_drafts(draw: DrawFn, tasks: SearchStrategy[int]) -> JobDraft:
    return draw(_JOB), _several(draw, _TASK, tasks)


def resources(
    *,
    max_milli_cpu: int = 4000,
    max_memory: int = 8 * GIB,
    scalars: Sequence[str] = (),
    max_scalar: int = 4000,
    may_be_empty: bool = True,
) -> SearchStrategy[Resource]:
    """Draw resources, in steps of half a cpu, a GiB and a whole device, up to the most itself.

    Args:
        max_milli_cpu: the most cpu, in thousandths.
        max_memory: the most memory, in bytes.
        scalars: names of scalars that it may have.
        max_scalar: the most of each scalar, in thousandths.
        may_be_empty: whether it may be nothing at all; if not, it has some cpu.

    Raises:
        FaultsError: arguments are not what they should be; all faults at once. It is a
            `ValueError`.

    >>> from hypothesis import find
    >>> find(resources(), lambda resource: resource.memory > 0).memory > 0
    True

    """
    asked = Asked()
    most_cpu = asked.number("max_milli_cpu", max_milli_cpu, least=0 if may_be_empty else 1)
    most_memory = asked.number("max_memory", max_memory)
    most_scalar = asked.number("max_scalar", max_scalar)
    names = tuple(sorted(set(asked.names("scalars", scalars))))
    for path, message in amount_map_problems("scalars", dict.fromkeys(names, 0)):
        asked.refuse(path, message)
    asked.check()

    def resource(draft: tuple[int, int, tuple[int, ...]]) -> Resource:
        halves, gibs, devices = draft
        counts = zip(names, devices, strict=True)
        return Resource(
            milli_cpu=min(_HALF * halves, most_cpu),
            memory=min(GIB * gibs, most_memory),
            scalars={name: min(_WHOLE * count, most_scalar) for name, count in counts if count},
        )

    drafts = st.tuples(
        st.integers(0 if may_be_empty else 1, ceil(most_cpu / _HALF)),
        st.integers(0, ceil(most_memory / GIB)),
        st.tuples(*(st.integers(0, ceil(most_scalar / _WHOLE)) for _ in names)),
    )
    return built(drafts, resource)


def tasks(
    *,
    uid: str = "t1",
    namespace: str = "default",
    priorities: bool = True,
    ages: bool = True,
    best_effort: bool = True,
    scalars: bool = True,
    init_requests: bool = True,
    constraints: bool = True,
    affinity: bool = True,
    backfill: bool = True,
    critical: bool = True,
    durations: bool = True,
) -> SearchStrategy[TaskInfo]:
    """Draw Pending tasks with a given UID; for the switches see `snapshots`."""
    features = Features(
        priorities=priorities,
        ages=ages,
        best_effort=best_effort,
        scalars=scalars,
        init_requests=init_requests,
        constraints=constraints,
        affinity=affinity,
        backfill=backfill,
        critical=critical,
        durations=durations,
    )

    def task(drafts: tuple[TaskDraft, ShapeDraft]) -> TaskInfo:
        draft, shape = drafts
        shapes = (shape_of(shape, features),)
        return build_task(draft, uid, features, shapes=shapes, namespace=namespace)

    return built(st.tuples(_TASK, _SHAPE), task)


def jobs(
    *,
    name: str = "j1",
    queues: Sequence[str] = ("q1",),
    min_tasks: int = 1,
    max_tasks: int | None = None,
    gangs: bool = True,
    invalid_jobs: bool = False,
    unknown_queues: bool = False,
    priorities: bool = True,
    ages: bool = True,
    best_effort: bool = True,
    scalars: bool = True,
    init_requests: bool = True,
    constraints: bool = True,
    affinity: bool = True,
    backfill: bool = True,
    critical: bool = True,
    durations: bool = True,
) -> SearchStrategy[JobInfo]:
    """Draw jobs with a given name whose tasks are all Pending.

    For the switches, and for how many tasks they have, see `snapshots`.

    Raises:
        FaultsError: arguments are not what they should be; all faults at once. It is a
            `ValueError`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=5)
    ... @given(jobs(name="train", queues=["gpu"]))
    ... def it_is_that_job_of_that_queue(job):
    ...     assert job.uid.endswith("/train") and job.queue == "gpu"
    >>> it_is_that_job_of_that_queue()
    """
    features = Features(
        gangs=gangs,
        invalid_jobs=invalid_jobs,
        unknown_queues=unknown_queues,
        priorities=priorities,
        ages=ages,
        best_effort=best_effort,
        scalars=scalars,
        init_requests=init_requests,
        constraints=constraints,
        affinity=affinity,
        backfill=backfill,
        critical=critical,
        durations=durations,
        dependencies=False,
    )
    asked = Asked()
    names = asked.names("queues", queues, may_be_none=False)
    fewest = asked.number("min_tasks", min_tasks)
    most = asked.most("tasks", max_tasks, fewest=fewest, default=_TASKS)
    asked.check()

    def job(drafts: tuple[JobDraft, list[ShapeDraft]]) -> JobInfo:
        draft, shapes = drafts
        drawn = [shape_of(shape, features) for shape in shapes]
        return build_job(draft, name, features, queues=names, shapes=drawn)

    shape_drafts = st.lists(_SHAPE, min_size=1, max_size=2)
    return built(st.tuples(_job_drafts(st.integers(fewest, most)), shape_drafts), job)


def nodes(
    *, name: str = "n1", scalars: bool = True, constraints: bool = True, affinity: bool = True
) -> SearchStrategy[NodeInfo]:
    """Draw nodes with a given name; for the switches see `snapshots`."""
    features = Features(scalars=scalars, constraints=constraints, affinity=affinity)
    return built(_NODE, lambda draft: build_node(draft, name, features))


def queues(*, name: str = "q1", weights: bool = True, ages: bool = True) -> SearchStrategy[Queue]:
    """Draw queues with a given name, with weights from 1 to 4."""
    features = Features(queues=weights, ages=ages)
    return built(_QUEUE, lambda draft: build_queue(draft, name, features))


def snapshots(
    *,
    min_nodes: int = 1,
    max_nodes: int | None = None,
    max_queues: int = 3,
    min_jobs: int = 1,
    max_jobs: int | None = None,
    min_tasks: int = 1,
    max_tasks: int | None = None,
    gangs: bool = True,
    invalid_jobs: bool = True,
    priorities: bool = True,
    ages: bool = True,
    queues: bool = True,
    unknown_queues: bool = True,
    best_effort: bool = True,
    scalars: bool = True,
    init_requests: bool = True,
    constraints: bool = True,
    affinity: bool = True,
    running: bool = True,
    endings: bool = True,
    backfill: bool = True,
    reservations: bool = True,
    promises: bool = True,
    critical: bool = True,
    other_tasks: bool = True,
    durations: bool = True,
    dependencies: bool = True,
    overcommitted: bool = True,
    trees: bool = True,
    always: Sequence[str] = (),
) -> SearchStrategy[Snapshot]:
    """Draw snapshots: small clusters that have about as much work as they can do.

    Nodes are named ``n1``, ``n2``, ..., queues ``q1``, ..., jobs ``j1``, ..., and the tasks of
    ``j1`` ``j1-1``, ... Each feature that is switched on may be used by about half of the
    examples.

    Args:
        min_nodes: the fewest nodes.
        max_nodes: the most nodes; None: 4, or `min_nodes` if that is more.
        max_queues: the most queues; there is at least one.
        min_jobs: the fewest jobs.
        max_jobs: the most jobs; None: 6, or `min_jobs` if that is more.
        min_tasks: the fewest tasks of a job.
        max_tasks: the most tasks of a job; None: 4, or `min_tasks` if that is more.
        gangs: `min_available` may be anything from 0 to the number of tasks, not only 1.
        invalid_jobs: `min_available` may exceed the number of tasks.
        priorities: jobs and tasks may differ in priority.
        ages: creation times may differ, and some jobs have waited long.
        queues: there may be several queues, of different weights.
        unknown_queues: jobs may name a queue that is not there.
        best_effort: tasks may ask for nothing.
        scalars: nodes may have devices, and tasks may ask for them.
        init_requests: tasks may need more to start than to run, and count otherwise in scores.
        constraints: labels, selectors, node affinity, ports, taints, conditions, task limits.
        affinity: inter-pod affinity and anti-affinity.
        running: tasks may run already, on nodes that have room for them.
        endings: tasks may be ending, ended or unknown.
        backfill: tasks may be marked as backfill.
        reservations: nodes may be reserved for tasks.
        promises: tasks may have been promised nodes (Pipelined).
        critical: tasks may be the system's own.
        other_tasks: there may be tasks that belong to no job.
        durations: jobs and tasks may have users, estimates, deadlines and times of start.
        dependencies: jobs may depend on others, some of which are not there.
        overcommitted: nodes may have less than their tasks hold.
        trees: queues may be a tree, with what the plugin capacity reads of them; jobs are in its
            leaves. A quarter of the examples use it.
        always: switches, by name, whose features every example may use.

    Raises:
        FaultsError: arguments are not what they should be, such as a switch in `always` that
            is off; all faults at once. It is a `ValueError`.

    >>> from hypothesis import given, settings
    >>> from batchsched import schedule
    >>> @settings(max_examples=5)
    ... @given(snapshots(max_nodes=2))
    ... def nothing_is_bound_to_other_nodes(snapshot):
    ...     nodes = {node.name for node in snapshot.nodes}
    ...     assert nodes.issuperset(bind.node_name for bind in schedule(snapshot).binds)
    >>> nothing_is_bound_to_other_nodes()

    """
    features = Features(
        gangs=gangs,
        invalid_jobs=invalid_jobs,
        priorities=priorities,
        ages=ages,
        queues=queues,
        unknown_queues=unknown_queues,
        best_effort=best_effort,
        scalars=scalars,
        init_requests=init_requests,
        constraints=constraints,
        affinity=affinity,
        running=running,
        endings=endings,
        backfill=backfill,
        reservations=reservations,
        promises=promises,
        critical=critical,
        other_tasks=other_tasks,
        durations=durations,
        dependencies=dependencies,
        overcommitted=overcommitted,
        trees=trees and queues,
    )
    asked = Asked()
    fewest_nodes = asked.number("min_nodes", min_nodes)
    fewest_jobs = asked.number("min_jobs", min_jobs)
    fewest_tasks = asked.number("min_tasks", min_tasks)
    most_nodes = asked.most("nodes", max_nodes, fewest=fewest_nodes, default=_NODES)
    most_queues = asked.number("max_queues", max_queues, least=1)
    most_jobs = asked.most("jobs", max_jobs, fewest=fewest_jobs, default=_JOBS)
    most_tasks = asked.most("tasks", max_tasks, fewest=fewest_tasks, default=_TASKS)
    used = _uses(features, asked.names("always", always), asked)
    asked.check()
    switches = st.binary(min_size=len(used), max_size=len(used))
    counts = [
        st.integers(fewest_nodes, most_nodes),
        st.integers(1, most_queues if queues else 1),
        st.integers(1, 3),
        st.integers(fewest_jobs, most_jobs),
        st.integers(0, 2 if other_tasks else 0),
    ]
    job_drafts = _job_drafts(st.integers(fewest_tasks, most_tasks))

    @st.composite
    def snapshot(draw: DrawFn) -> Snapshot:
        drawn = zip(used.items(), draw(switches), strict=True)
        off = {name: False for (name, least), height in drawn if height < least}
        content: SnapshotDraft = (
            _several(draw, _NODE, counts[0]),
            _several(draw, _QUEUE, counts[1]),
            _several(draw, _SHAPE, counts[2]),
            _several(draw, job_drafts, counts[3]),
            _several(draw, _TASK, counts[4]),
        )
        return build_snapshot(content, evolve(features, **off))

    return snapshot()


def _uses(features: Features, always: Sequence[str], asked: Asked) -> dict[str, int]:
    """Return the features that an example may use or not, and how high their bytes must be."""
    flags: dict[str, bool] = asdict(features)
    for name in always:
        if not flags.get(name, False):
            asked.refuse("always", f"{shown(name)} is {'off' if name in flags else 'no switch'}")
    return {
        name: _HOW_HIGH.get(name, 128)
        for name, is_on in flags.items()
        if is_on and name not in always
    }
