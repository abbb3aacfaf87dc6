"""Amounts of resources: as text (see `model/texts.py`), with changes, and all of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import Attribute, AttrsInstance, evolve, fields

from batchsched.model.cluster import JobInfo, TaskStatus
from batchsched.model.resources import Amount, Resource, ResourceLimit
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import amounts_text, shown_amount
from batchsched.model.validation.arguments import checks_arguments

PartT = TypeVar("PartT", bound=AttrsInstance)


@checks_arguments()
def amount_text(dimension: str, amount: float, /, *, unit: bool = True) -> str:
    """Return an amount of one dimension, in the unit of a `Resource`, as a person says it.

    `unit`: whether to say of what it is an amount; bytes have a prefix all the same.

    >>> amount_text("nvidia.com/gpu", 6000), amount_text("cpu", 250), amount_text("memory", 3 << 39)
    ('6 GPUs', '250m cpu', '1.5 TiB')
    >>> amount_text("nvidia.com/gpu", 6000, unit=False)
    '6'
    """
    if unit:
        return amounts_text([(dimension, amount)], with_zeros=True)
    return shown_amount(dimension, amount)


def resource_text(resource: Resource) -> str:
    """Format a resource: ``2 cpu, 4 GiB, 1 GPU``."""
    return amounts_text(resource.dimensions())


def limit_text(limit: ResourceLimit) -> str:
    """Format a limit: ``8 cpu, 0 GPUs``; dimensions without a limit are left out."""
    amounts = tuple(limit.dimensions())
    return amounts_text(amounts, with_zeros=True) if amounts else "no limit"


def dimensions_used(snapshot: Snapshot) -> set[str]:
    """Return the dimensions of which anything in the snapshot has an amount. O(size)."""
    found: set[str] = set()

    def look(resource: Resource) -> Resource:
        found.update(name for name, amount in resource.dimensions() if amount)
        return resource

    _with_amounts(snapshot, look)
    return found


def raised_limit(limit: ResourceLimit, dimension: str, least: Amount) -> ResourceLimit:
    """Return a limit that allows at least an amount of one dimension.

    >>> raised_limit(ResourceLimit(milli_cpu=1000), "cpu", 2000).milli_cpu
    2000
    """
    now = limit.get(dimension)
    if now is None or now >= least:
        return limit
    if dimension == "cpu":
        return evolve(limit, milli_cpu=least)
    if dimension == "memory":
        return evolve(limit, memory=least)
    return evolve(limit, scalars={**limit.scalars, dimension: least})


def with_dimension_divided(snapshot: Snapshot, dimension: str, divisor: int) -> Snapshot:
    """Divide all amounts of a dimension, rounded up; divisor 0: remove the dimension."""

    def change(amount: Amount) -> Amount:
        return -(-int(amount) // divisor) if divisor else 0

    def changed(resource: Resource) -> Resource:
        before = resource.get(dimension)
        return with_dimension(resource, dimension, change(before)) if before else resource

    return _with_amounts(snapshot, changed)


def _with_amounts(snapshot: Snapshot, change: Callable[[Resource], Resource]) -> Snapshot:
    """Apply a change to all resources of a snapshot, in all fields."""
    return evolve(
        snapshot,
        nodes=[_changed(node, change) for node in snapshot.nodes],
        queues=[_changed(queue, change) for queue in snapshot.queues],
        jobs=[
            _changed(evolve(job, tasks=[_changed(task, change) for task in job.tasks]), change)
            for job in snapshot.jobs
        ],
        other_tasks=[_changed(task, change) for task in snapshot.other_tasks],
    )


def _changed(part: PartT, change: Callable[[Resource], Resource]) -> PartT:
    changes: dict[str, object] = {}
    attributes: tuple[Attribute[object], ...] = fields(type(part))
    for attribute in attributes:
        value: object = getattr(part, attribute.name)
        if isinstance(value, Resource):
            changed = change(value)
            if changed is not value:
                changes[attribute.name] = changed
    return evolved(part, changes) if changes else part


def evolved(part: PartT, changes: dict[str, object]) -> PartT:
    """Return a part of a snapshot with other values in some fields."""
    return evolve(part, **changes)  # type: ignore[misc]  # every part is of an attrs class


def with_dimension(resource: Resource, dimension: str, amount: Amount) -> Resource:
    """Return a resource with another amount of a dimension."""
    if dimension == "cpu":
        return evolve(resource, milli_cpu=amount)
    if dimension == "memory":
        return evolve(resource, memory=amount)
    scalars = {**resource.scalars, dimension: amount}
    return evolve(resource, scalars={name: left for name, left in scalars.items() if left})


def least_request(job: JobInfo, needed: int) -> Mapping[str, int]:
    """Return what the tasks of its minimum request together at least, by dimension."""
    tasks = [task for task in job.tasks if task.status.valid]
    ended = sum(task.status is TaskStatus.SUCCEEDED for task in tasks)
    amounts: dict[str, list[int]] = {}
    left = [task for task in tasks if task.status is not TaskStatus.SUCCEEDED]
    for task in left:
        for dimension, amount in task.resreq.dimensions():
            if amount:
                amounts.setdefault(dimension, []).append(int(amount))
    spare = len(left) - max(0, needed - ended)
    return {
        dimension: sum(sorted([*each, *[0] * (len(left) - len(each))])[: len(left) - spare])
        for dimension, each in amounts.items()
    }
