"""The strategy for snapshots.

Everything drawn is valid by construction, small and readable: it shrinks towards one node of
two cpus and one task of one cpu. Values are taken from small pools, so that ties, shortages and
conflicts are frequent. An example is printed as the code that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Unpack

from attrs import asdict, evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from batchsched.errors import Fault
from batchsched.model.cluster import Budget, JobInfo, PastEviction, TaskInfo
from batchsched.model.devices import Device
from batchsched.model.snapshot import Snapshot
from batchsched.model.topology import Topology
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import shown
from batchsched.testing.drawing.arguments import crossed, expect_no, numbers, several, too_small
from batchsched.testing.drawing.devices import DEVICE_DRAFTS, equipped, with_drafts
from batchsched.testing.drawing.jobs import (
    MOST_TASKS,
    SHAPE_DRAFTS,
    SIMPLE,
    TASK_DRAFTS,
    FreeRoom,
    build_job,
    build_task,
    held,
    job_drafts_of,
    shape_of,
)
from batchsched.testing.drawing.labels import (
    LABEL_DRAFTS,
    Labels,
    labelled_snapshot,
    not_labels,
)
from batchsched.testing.drawing.nodes import (
    NODE_DRAFTS,
    build_node,
    filled,
    shrunk,
    stranded,
)
from batchsched.testing.drawing.pools import Features, JobDraft, Switches, now_of, numbered
from batchsched.testing.drawing.protection import (
    build_budgets,
    build_ledger,
    protected_job,
    protected_queue,
)
from batchsched.testing.drawing.queues import QUEUE_DRAFTS, at_limits, build_queues, leaves
from batchsched.testing.drawing.racks import in_racks


def build_snapshot(
    features: Features,
    node_drafts: list[bytes],
    queue_drafts: list[bytes],
    shape_drafts: list[bytes],
    job_drafts: list[JobDraft],
    other_drafts: list[bytes],
    device_draft: bytes,
) -> Snapshot:
    """Return the snapshot that drafts describe; the last but one are of tasks without a job."""
    nodes = [
        build_node(node, name, features)
        for node, name in zip(node_drafts, numbered("n"), strict=False)
    ]
    if not features.queues:
        queue_drafts = list(islice(queue_drafts, 1))
    queues = build_queues(queue_drafts, features)
    shapes = [shape_of(shape, features) for shape in shape_drafts] or [SIMPLE]
    rooms = FreeRoom(nodes)
    if not nodes:
        features = evolve(features, running=False)
    names = leaves(queues)
    jobs: list[JobInfo] = []
    for job, name in zip(job_drafts, numbered("j"), strict=False):
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
    if features.crowded and features.running:
        holders = [*(task for job in jobs for task in job.tasks), *others]
        nodes = filled(nodes, node_drafts, holders)
        queues = at_limits(queues, queue_drafts, jobs)
    if features.holds:
        jobs = [held(job, draft) for job, draft in zip(jobs, job_drafts, strict=False)]
        queues = [
            evolve(queue, reclaimable=draft[0] % 4 != 3)
            for queue, draft in zip(queues, queue_drafts, strict=False)
        ]
    if features.overcommitted:
        before = nodes
        nodes = [shrunk(node, draft) for node, draft in zip(nodes, node_drafts, strict=True)]
        if features.other_tasks and features.running:
            others += stranded(before, nodes)
    budgets: Sequence[Budget] = ()
    ledger: Sequence[PastEviction] = ()
    if features.protection:
        now = now_of(features)
        jobs = [
            protected_job(job, draft, now) for job, draft in zip(jobs, job_drafts, strict=False)
        ]
        queues = [
            protected_queue(queue, draft)
            for queue, draft in zip(queues, queue_drafts, strict=False)
        ]
        budgets = build_budgets(jobs, job_drafts)
        ledger = build_ledger(jobs, job_drafts, now)
    topologies: Sequence[Topology] = ()
    if features.topologies:
        nodes, jobs, topologies = in_racks(nodes, node_drafts, jobs, job_drafts)
    devices: Sequence[Device] = ()
    if features.devices:
        nodes, jobs, devices = equipped(nodes, jobs, *with_drafts(device_draft))
    return Snapshot(
        nodes=nodes,
        queues=queues,
        jobs=jobs,
        other_tasks=others,
        topologies=topologies,
        devices=devices,
        budgets=budgets,
        evictions=ledger,
        now=now_of(features),
    )


_NODES, _JOBS = 4, 6
"""The default maxima of nodes and jobs."""

_OFTEN = ("running", "queues", "gangs")
"""Features that most examples use, because most situations of interest need them."""

_RARE = ("trees", "groups", "crowded")
"""Features that change the meaning of most others."""

_RAREST = ("topologies", "devices", "protection", "holds")
"""Those of which each alone changes what a job may do at all."""

_HOW_HIGH: dict[str, int] = {
    **dict.fromkeys(_OFTEN, 32),
    **dict.fromkeys(_RARE, 208),
    **dict.fromkeys(_RAREST, 232),
}
"""How high a byte must be for an example to use a feature; 128, which half of them are, for others.

Seven of eight are 32 or more, three of 16 are 208 or more, and one of 11 is 232 or more.
"""

_TOGETHER = 192
"""How high one more byte must be for an example in which rare features are as frequent as others.

One of four is: faults are often of two features that each are right alone.
"""


@checks_arguments()
def snapshots(
    *,
    min_nodes: int = 1,
    max_nodes: int | None = None,
    max_queues: int = 3,
    min_jobs: int = 1,
    max_jobs: int | None = None,
    min_tasks: int = 1,
    max_tasks: int | None = None,
    always: Sequence[str] = (),
    labels: Labels = None,
    **switches: Unpack[Switches],
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
        always: switches, by name, whose features every example may use.
        labels: keys of labels, and the values to draw from for each: any node, job and task may
            have one of them, or lack the label; for example ``{"team": ["red", "blue"]}``.
        **switches: the features that examples may have; all are on by default.

    The switches:

    - `gangs`: `min_available` may be anything from 0 to the number of tasks, not only 1.
    - `invalid_jobs`: `min_available` may exceed the number of tasks.
    - `priorities`: jobs and tasks may differ in priority.
    - `ages`: creation times may differ, and some jobs have waited long.
    - `queues`: there may be several queues, of different weights.
    - `unknown_queues`: jobs may name a queue that does not exist.
    - `best_effort`: tasks may request nothing.
    - `scalars`: nodes may have devices, and tasks may request them.
    - `init_requests`: tasks may need more to start than to run, and count otherwise in scores.
    - `constraints`: labels, selectors, node affinity, ports, taints, conditions, task limits.
    - `affinity`: inter-pod affinity and anti-affinity.
    - `running`: tasks may run already, on nodes that have room for them.
    - `endings`: tasks may be ending, ended or unknown.
    - `backfill`: tasks may be marked as backfill.
    - `reservations`: nodes may be reserved for tasks.
    - `promises`: tasks may have been promised nodes (Pipelined).
    - `critical`: tasks may be critical tasks of the system.
    - `other_tasks`: there may be tasks that belong to no job.
    - `durations`: jobs and tasks may have users, estimates, deadlines and times of start.
    - `dependencies`: jobs may depend on others, some of which do not exist.
    - `overcommitted`: nodes may have less than their tasks hold.
    - `crowded`: nodes have hardly more than their tasks hold, and leaves may hold all that their
      limits allow, so that tasks start only where others are evicted. A quarter of the examples
      use it, and none without `running`.
    - `trees`: queues may be a tree, with what the plugin capacity reads of them; jobs are in its
      leaves. A quarter of the examples use it.
    - `groups`: jobs may have groups of tasks, and maxima. A quarter of the examples use it, and
      none without `gangs`.
    - `holds`: jobs and tasks may be held, and queues not reclaimable.
    - `topologies`: nodes may be in blocks and racks, and jobs and groups may ask to be in one, or
      in segments; tasks may have numbers.
    - `devices`: nodes may have devices, and tasks may claim them.
    - `protection`: what the plugin protection reads: jobs that are not preemptible, or as a whole,
      or claim later; minimum runtimes, costs, budgets, and past evictions.

    A fifth of the examples use each of the last four, and two of them as often together as one
    alone.

    Raises:
        FaultsError: arguments are invalid, for example a switch in `always` that
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
    features = Features(**switches)
    features = evolve(
        features,
        trees=features.trees and features.queues,
        groups=features.groups and features.gangs,
        crowded=features.crowded and features.running,
    )
    flags: dict[str, bool] = asdict(features)
    expect_no(
        crossed("nodes", min_nodes, max_nodes),
        too_small(1, max_queues=max_queues),
        crossed("jobs", min_jobs, max_jobs),
        crossed("tasks", min_tasks, max_tasks),
        (
            Fault("always", f"{shown(name)} is {'off' if name in flags else 'not a switch'}")
            for name in always
            if not flags.get(name, False)
        ),
        not_labels(labels),
    )
    used = {
        name: _HOW_HIGH.get(name, 128)
        for name, is_on in flags.items()
        if is_on and name not in always
    }
    bytes_of_features = st.binary(min_size=len(used) + 1, max_size=len(used) + 1)
    node_counts = numbers(min_nodes, max_nodes, _NODES)
    job_counts = numbers(min_jobs, max_jobs, _JOBS)
    job_drafts = job_drafts_of(numbers(min_tasks, max_tasks, MOST_TASKS))

    @st.composite
    def snapshot(draw: DrawFn) -> Snapshot:
        together, *heights = draw(bytes_of_features)
        most = 128 if together >= _TOGETHER else 256
        drawn = zip(used.items(), heights, strict=True)
        off = {name: False for (name, least), height in drawn if height < min(least, most)}
        with_those = evolve(features, **off)
        built = build_snapshot(
            with_those,
            several(draw, NODE_DRAFTS, node_counts),
            several(draw, QUEUE_DRAFTS, st.integers(1, max_queues if features.queues else 1)),
            several(draw, SHAPE_DRAFTS, st.integers(1, 3)),
            several(draw, job_drafts, job_counts),
            several(draw, TASK_DRAFTS, st.integers(0, 2 if features.other_tasks else 0)),
            draw(DEVICE_DRAFTS) if with_those.devices else b"",
        )
        return labelled_snapshot(built, draw(LABEL_DRAFTS), labels) if labels else built

    return snapshot()


def given_or_default(
    examples: SearchStrategy[Snapshot] | None,
    labels: Mapping[str, Sequence[str]] | None,
    default: Callable[[Mapping[str, Sequence[str]] | None], SearchStrategy[Snapshot]],
) -> SearchStrategy[Snapshot]:
    """Return the examples that were given, or those by default, with labels.

    Raises:
        ValueError: both labels and examples are given.
    """
    if examples is None:
        return default(labels)
    if labels is not None:
        raise ValueError(
            "expected labels or examples, got both; use examples=snapshots(labels=...)"
        )
    return examples


def same_each_time(max_examples: int, *, shrink: bool) -> settings:
    """Return settings with which the examples are the same in every run, however they look."""
    return settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=[
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
            HealthCheck.too_slow,
        ],
    )
