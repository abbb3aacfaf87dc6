"""The result does not depend on the order in which its input is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from attrs import evolve

from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot, common_of
from batchsched.scheduler import Scheduler
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.invariant import invariant

ValueT = TypeVar("ValueT")


@invariant
def permutation(cycle: Cycle) -> Iterator[str]:
    """The result is the same if the input is given in another order.

    This schedules the snapshot again with nodes, queues, jobs, tasks, labels, scalars, taints,
    tolerations and ports in reverse order. If the result differs, it schedules the original
    snapshot again, to find out whether the order is the cause: a policy may decide differently each
    time, and the result may come from another scheduler.
    """
    scheduler = Scheduler(cycle.config, cycle.registry)
    other = scheduler.schedule(permuted(cycle.snapshot))
    if other == cycle.result:
        return
    again = scheduler.schedule(cycle.snapshot)
    if again == cycle.result:
        yield from _differences("given in reverse order", other, cycle.result)
    else:
        yield from _differences("scheduled again", again, cycle.result)


def _differences(how: str, other: CycleResult, result: CycleResult) -> Iterator[str]:
    expected, got = result.to_dict(), other.to_dict()
    for name, content in expected.items():
        if got[name] != content:
            yield f"{how}, {name} is {got[name]}; it was {content}"


def permuted(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with all its parts in reverse order."""
    return Snapshot(
        nodes=[_node(node) for node in reversed(snapshot.nodes)],
        jobs=[_job(job) for job in reversed(snapshot.jobs)],
        queues=tuple(reversed(snapshot.queues)),
        other_tasks=[_task(task) for task in reversed(snapshot.other_tasks)],
        topologies=tuple(reversed(snapshot.topologies)),
        now=snapshot.now,
        **common_of(snapshot),
    )


def _reversed(content: Mapping[str, ValueT]) -> dict[str, ValueT]:
    return dict(reversed(list(content.items())))


def _resource(resource: Resource) -> Resource:
    return evolve(resource, scalars=_reversed(resource.scalars))


def _node(node: NodeInfo) -> NodeInfo:
    return evolve(
        node,
        allocatable=_resource(node.allocatable),
        labels=_reversed(node.labels),
        taints=tuple(reversed(node.taints)),
        conditions=_reversed(node.conditions),
    )


def _job(job: JobInfo) -> JobInfo:
    return evolve(job, tasks=[_task(task) for task in reversed(job.tasks)])


def _task(task: TaskInfo) -> TaskInfo:
    return evolve(
        task,
        resreq=_resource(task.resreq),
        init_resreq=None if task.init_resreq is None else _resource(task.init_resreq),
        labels=_reversed(task.labels),
        node_selector=_reversed(task.node_selector),
        tolerations=tuple(reversed(task.tolerations)),
        host_ports=tuple(reversed(task.host_ports)),
    )
