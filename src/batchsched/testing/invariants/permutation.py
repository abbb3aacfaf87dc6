"""The result does not depend on the order in which its input is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from attrs import evolve

from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.scheduler import Scheduler
from batchsched.testing.invariants.cycle import Cycle
from batchsched.testing.invariants.invariant import invariant

_evolved = cast("Callable[..., object]", evolve)  # the fields to change are known by name only


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


_IN_ANY_ORDER: Mapping[type, Sequence[str]] = {
    Snapshot: ("nodes", "jobs", "queues", "other_tasks", "topologies"),
    NodeInfo: ("allocatable", "labels", "taints", "conditions"),
    JobInfo: ("tasks",),
    TaskInfo: (
        *("resreq", "init_resreq", "labels"),
        *("node_selector", "tolerations", "host_ports"),
    ),
    Resource: ("scalars",),
}
"""The fields whose content may be given in any order, by class."""


def permuted(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with all its parts in reverse order."""
    return cast("Snapshot", _reversed(snapshot))


def _reversed(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(reversed(list(cast("Mapping[object, object]", value).items())))
    if isinstance(value, tuple):
        return tuple(_reversed(part) for part in reversed(cast("tuple[object, ...]", value)))
    names = _IN_ANY_ORDER.get(type(value), ())
    parts = {name: _reversed(getattr(value, name)) for name in names}
    return _evolved(value, **parts) if parts else value
