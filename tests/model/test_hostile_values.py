"""Values that raise when they are looked at are faults with a path, and no fault is long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from batchsched import (
    ArgumentError,
    FaultsError,
    JobInfo,
    NodeInfo,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
)


def raising(method: str) -> Any:
    def fail(*_: object) -> object:
        raise RuntimeError(method)

    return type("Raises", (), {method: property(fail) if method == "__class__" else fail})()


def with_tasks(tasks: Any) -> Snapshot:
    return Snapshot(jobs=[JobInfo(name="j", queue="q", tasks=tasks)])


PLACES: list[tuple[str, Callable[[Any], object]]] = [
    ("nodes", lambda it: Snapshot(nodes=it)),
    ("nodes[0]", lambda it: Snapshot(nodes=[it])),
    ("nodes['n'].labels", lambda it: Snapshot(nodes=[NodeInfo(name="n", labels=it)])),
    ("nodes['n'].labels['k']", lambda it: Snapshot(nodes=[NodeInfo(name="n", labels={"k": it})])),
    ("nodes[0].name", lambda it: Snapshot(nodes=[NodeInfo(name=it)])),
    ("nodes['n'].allocatable", lambda it: Snapshot(nodes=[NodeInfo(name="n", allocatable=it)])),
    (
        "nodes['n'].allocatable.milli_cpu",
        lambda it: Snapshot(nodes=[NodeInfo(name="n", allocatable=Resource(milli_cpu=it))]),
    ),
    (
        "nodes['n'].allocatable.scalars",
        lambda it: Snapshot(nodes=[NodeInfo(name="n", allocatable=Resource(scalars=it))]),
    ),
    ("now", lambda it: Snapshot(now=it)),
    ("jobs['default/j'].tasks", with_tasks),
    ("jobs['default/j'].tasks[0].uid", lambda it: with_tasks([TaskInfo(uid=it, name="n")])),
    ("actions", lambda it: SchedulerConfig.from_mapping({"actions": it})),
    ("tiers", lambda it: SchedulerConfig.from_mapping({"tiers": it})),
    (
        "tiers[0].plugins[0]",
        lambda it: SchedulerConfig.from_mapping({"tiers": [{"plugins": [it]}]}),
    ),
    ("config", Scheduler),
    ("snapshot", lambda it: Scheduler().schedule(it)),
]


@pytest.mark.parametrize("method", ["__class__", "__iter__", "__len__", "__getitem__", "__hash__"])
@pytest.mark.parametrize(("path", "make"), PLACES, ids=[path for path, _ in PLACES])
def test_what_raises_when_it_is_looked_at_is_a_fault(
    path: str, make: Callable[[Any], object], method: str
) -> None:
    with pytest.raises(FaultsError) as caught:
        make(raising(method))
    began = path.partition("[0]")[0]
    assert all(fault.path.startswith(began) for fault in caught.value.faults)


def test_what_an_iterator_raises_is_not_hidden() -> None:
    def nodes() -> Iterator[NodeInfo]:
        yield NodeInfo(name="n1")
        raise LookupError("mine")

    with pytest.raises(ArgumentError, match="nodes: raised LookupError: mine") as caught:
        Snapshot(nodes=nodes())
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("value", ["x" * 1_000_000, [0] * 1_000_000])
def test_a_long_value_is_shown_in_80_characters(value: Any) -> None:
    with pytest.raises(FaultsError) as caught:
        Snapshot(nodes=[NodeInfo(name="n", allocatable=value)])
    (fault,) = caught.value.faults
    assert fault.message == f"expected a Resource, got {repr(value)[:77]}..."
