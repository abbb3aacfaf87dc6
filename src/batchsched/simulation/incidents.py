"""Incidents of a simulation: failing nodes, cancelled jobs, changed queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite

from attrs import frozen

from batchsched.errors import Fault
from batchsched.model.cluster import Queue
from batchsched.simulation.workload import JobId, Workload

__all__ = [
    "Incident",
    "JobCancelled",
    "JobFailed",
    "NodeDown",
    "NodeDrained",
    "NodeUp",
    "QueueSet",
    "faults_of_incidents",
]


@frozen(kw_only=True)
class NodeDown:
    """A node fails: every job with a task there is stopped entirely, and waits again."""

    at: float
    """The time in seconds, on the clock of the workload."""
    node: int
    """The number of the node, counted from 0."""


@frozen(kw_only=True)
class NodeDrained:
    """No task starts on a node any more; running tasks continue. Needs the plugin `predicates`."""

    at: float
    node: int


@frozen(kw_only=True)
class NodeUp:
    """A node that was down or drained is available again."""

    at: float
    node: int


@frozen(kw_only=True)
class JobCancelled:
    """A job is cancelled, before or after its arrival. No effect if it has ended."""

    at: float
    job: JobId


@frozen(kw_only=True)
class JobFailed:
    """A running job fails; see `Scheduled.resubmit_failed`. No effect if it does not run."""

    at: float
    job: JobId


@frozen(kw_only=True)
class QueueSet:
    """A queue is replaced by the given one, or added if there is none of this name."""

    at: float
    queue: Queue


Incident = NodeDown | NodeDrained | NodeUp | JobCancelled | JobFailed | QueueSet


def faults_of_incidents(
    incidents: Iterable[Incident], workload: Workload, *, knows_drained: bool
) -> Iterator[Fault]:
    """Yield what is wrong with incidents.

    Args:
        incidents: The incidents.
        workload: The jobs and nodes that they refer to.
        knows_drained: Whether the scheduler respects drained nodes.
    """
    ids = set(workload.ids)
    nodes = 0 if workload.machine is None else workload.machine.nodes
    for number, each in enumerate(incidents):
        where = f"incidents[{number}]"
        if not isinstance(each, Incident):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield Fault(
                where, f"expected an incident such as NodeDown(at=60, node=0), got {each!r}"
            )
            continue
        time: object = each.at
        if type(time) not in (int, float) or not (isfinite(each.at) and each.at >= 0):
            yield Fault(f"{where}.at", f"expected a time in seconds, 0 or later, got {time!r}")
        if isinstance(each, NodeDown | NodeDrained | NodeUp):
            node: object = each.node
            if type(node) is not int or not 0 <= each.node < nodes:
                message = f"expected the number of a node, 0 to {nodes - 1}, got {node!r}"
                yield Fault(f"{where}.node", message)
            if isinstance(each, NodeDrained) and not knows_drained:
                message = (
                    "expected the plugin predicates in the configuration; without it this has no "
                    "effect"
                )
                yield Fault(where, message)
        elif isinstance(each, QueueSet):
            queue: object = each.queue
            if not isinstance(queue, Queue):  # pyright: ignore[reportUnnecessaryIsInstance]
                yield Fault(f"{where}.queue", f"expected a Queue, got {queue!r}")
        elif each.job not in ids:
            yield Fault(
                f"{where}.job", f"expected the id of a job in this workload, got {each.job!r}"
            )
