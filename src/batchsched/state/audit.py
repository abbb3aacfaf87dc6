"""Audits a ledger: verifies every invariant by computing all amounts and counts again."""

from __future__ import annotations

from collections.abc import Iterator

from batchsched.errors import InvariantError
from batchsched.model.cluster import TaskStatus
from batchsched.model.resources import EPSILON
from batchsched.state.groups import JobGroups
from batchsched.state.ledger import Ledger, count_task
from batchsched.state.overdrafts import NOT_NEGATIVE
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import Vector

__all__ = ["audit"]


def audit(ledger: Ledger) -> None:
    """Verify every invariant by computing all amounts and counts again. O(nodes + tasks).

    Raises:
        InvariantError: an amount or count is wrong or negative; the message lists all of them.

    """
    wrong = [*_node_faults(ledger), *_job_faults(ledger)]
    if wrong:
        raise InvariantError("; ".join(wrong))


def _node_faults(ledger: Ledger) -> Iterator[str]:
    put_on = Ledger.accountant()
    zero = ledger.dimensions.zero
    accounts = (
        *("idle", "releasing", "pipelined", "backfilled", "leaving", "conditional"),
        *("reserved", "divergence_count", "ports", "scoring_milli_cpu", "scoring_memory"),
        *("tasks", "reserved_tasks", "host_ports"),
    )
    for node in ledger.nodes:
        if ledger.slots[node.slot] is not node:
            yield f"{node!r} is not at its slot"
        counted = NodeState(node.info, node.index, node.allocatable, zero)
        for task in (*node.tasks.values(), *node.reserved_tasks.values()):
            if task.node is not node or ledger.tasks.get(task.uid) is not task:
                yield f"{task!r} is listed on {node!r}"
            put_on(task, counted)
            task.node = node
        for name in accounts:
            booked, real = getattr(node, name), getattr(counted, name)
            if booked != real:
                yield f"{node!r}.{name} is booked as {booked}, and is {real}"
        # Tasks with tiny requests may be placed even where nothing is left.
        nothing_asked = [
            sum(amount for amount in held if amount < EPSILON)
            for held in zip(*[task.resreq for task in node.tasks.values()], strict=True)
        ] or zero
        for name in NOT_NEGATIVE:
            amounts: Vector = getattr(node, name)
            if min(amounts) >= -EPSILON:
                continue
            floor: Vector = getattr(_as_described(ledger, node), name)
            if any(
                amount + tiny < min(least, 0) - EPSILON
                for amount, tiny, least in zip(amounts, nothing_asked, floor, strict=True)
            ):
                yield f"{node!r}.{name} is negative: {amounts}"
    for task in ledger.tasks.values():
        node_of = task.node
        if node_of is not None and task.uid not in node_of.tasks | node_of.reserved_tasks:
            yield f"{task!r} is not listed on its node"
        if (node_of is None) != _is_nowhere(task):
            yield f"{task!r} is {'nowhere' if node_of is None else 'on a node'}"


def _as_described(ledger: Ledger, node: NodeState) -> NodeState:
    """Return a node with the tasks that held resources when the cycle began. O(tasks)."""
    described = NodeState(node.info, node.index, node.allocatable, ledger.dimensions.zero)
    put_on = Ledger.accountant()
    for task in ledger.tasks.values():
        if task.info.node_name == node.name and task.info.status.holds:
            alike = TaskState(task.info, task.job, task.resreq, task.init_resreq)
            put_on(alike, described)
    return described


def _job_faults(ledger: Ledger) -> Iterator[str]:
    for job in ledger.jobs.values():
        counted = JobState(job.info, job.queue)
        for task in job.tasks:
            count_task(counted, task)
            if task.is_backfill and task.status.holds and task.node is not None:
                counted.backfilling += 1
        counted.tasks = job.tasks
        if job.running_by_node is not None:
            counted.running_nodes()
        for name in (
            *("allocated", "counts", "backfilling", "ready_count", "waiting_count"),
            *("conditionally_ready_count", "valid_count", "running_by_node"),
        ):
            booked, real = getattr(job, name), getattr(counted, name)
            if booked != real:
                yield f"{job!r}.{name} is booked as {booked}, and is {real}"
        if job.groups is not None and counted.groups is not None:
            yield from _group_faults(job, job.groups, counted.groups)
        for status, having in zip(TaskStatus, ledger.jobs_having, strict=True):
            if (having.get(job.uid) is job) != bool(counted.counts[status.index]):
                yield f"{job!r} is not listed as it should be among those with {status.value}"
        is_short = not counted.has_minimum()
        if (ledger.jobs_short.get(job.uid) is job) != is_short:
            yield f"{job!r} is not listed as it should be among those that are short"


def _group_faults(job: JobState, booked: JobGroups, real: JobGroups) -> Iterator[str]:
    if booked.total != real.total:
        yield f"the tasks of {job!r} are booked as {booked.total}, and are {real.total}"
    pairs = zip((booked.root, *booked.groups), (real.root, *real.groups), strict=True)
    for group, counted in pairs:
        for name in ("counts", "placed", "succeeded"):
            has, should = getattr(group, name), getattr(counted, name)
            if has != should:
                yield f"{group!r}.{name} of {job!r} is booked as {has}, and is {should}"


def _is_nowhere(task: TaskState) -> bool:
    if task.status in (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED):
        return True
    if task.status in (TaskStatus.RELEASING, TaskStatus.UNKNOWN):
        return task.node is None
    return False
