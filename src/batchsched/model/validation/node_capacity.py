"""What tasks hold of the nodes that they are on, against what the nodes have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction

from batchsched.errors import Fault
from batchsched.model.cluster import NodeInfo, TaskInfo
from batchsched.model.resources import EPSILON, Amount, Resource, exact, sum_resources

__all__ = ["node_use_faults"]


def node_use_faults(nodes: Iterable[NodeInfo], tasks: Iterable[TaskInfo]) -> Iterator[Fault]:
    """Yield a fault for each node whose tasks hold more than it has."""
    held: defaultdict[str, list[Resource]] = defaultdict(list)
    for task in tasks:
        if task.status.holds and task.node_name is not None:
            held[task.node_name].append(_exactly(task.resreq))
    for node in nodes:
        if node.name not in held:
            continue
        use, capacity = sum_resources(held[node.name]), _exactly(node.allocatable)
        if not use.fits(capacity):
            over = "; ".join(
                f"{_readable(amount)} of {dimension} are held, "
                f"it has {node.allocatable.get(dimension)}"
                for dimension, amount in use.dimensions()
                if amount - capacity.get(dimension) >= EPSILON
            )
            message = f"its tasks hold more than it has: {over}"
            yield Fault(f"nodes[{node.name!r}]", message)


def _exactly(resource: Resource) -> Resource:
    """Return a resource of which sums are exact, as they are in the books of a session."""
    amounts = (resource.milli_cpu, resource.memory, *resource.scalars.values())
    if all(type(amount) is int for amount in amounts):
        return resource
    return Resource(
        milli_cpu=exact(resource.milli_cpu),
        memory=exact(resource.memory),
        scalars={name: exact(amount) for name, amount in resource.scalars.items()},
    )


def _readable(amount: Amount) -> Amount:
    return float(amount) if isinstance(amount, Fraction) else amount
