"""Values that raise when they are looked at are faults with a path, and no fault is long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from batchsched import (
    ArgumentError,
    FaultsError,
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
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


# Plain data


DATA = Snapshot(
    nodes=[NodeInfo(name="n", labels={"k": "v"})],
    jobs=[
        JobInfo(
            name="j",
            queue="q",
            holds=[Hold(HoldKind.GATE)],
            tasks=[TaskInfo(uid="t", name="t", status=TaskStatus.RELEASING, node_name="n")],
        )
    ],
).to_dict()


class RaisesList(list[Any]):
    """A list whose items cannot be read."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("on purpose")


class RaisesMapping(Mapping[str, Any]):
    """A mapping whose values cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        yield "name"

    def __len__(self) -> int:
        return 1


def deep(depth: int = 3000) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value) if type(value) is list else 0)
    for key in keys:
        yield (*path, key)
        yield from paths_in(value[key], (*path, key))


def with_value(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[path[0]] = with_value(copy[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("value", [deep(), RaisesList([1]), RaisesMapping()], ids=type)
@pytest.mark.parametrize("path", list(paths_in(DATA)), ids=str)
def test_plain_data_that_cannot_be_read_or_shown_is_a_fault(
    path: tuple[Any, ...], value: Any
) -> None:
    with pytest.raises(FaultsError):
        Snapshot.from_dict(with_value(DATA, path, value))


@pytest.mark.parametrize("name", ["actions", "tiers"])
def test_lists_of_a_configuration_that_cannot_be_read_are_faults(name: str) -> None:
    with pytest.raises(FaultsError, match=rf"{name}\[0\]"):
        SchedulerConfig.from_mapping({name: RaisesList([1])})


LONG = "x" * 999
UNKNOWN: list[Callable[[], object]] = [
    lambda: Snapshot(queues=[Queue(name="q", parent=LONG)]),
    lambda: with_tasks([TaskInfo(uid="t", name="t", status=TaskStatus.RUNNING, node_name=LONG)]),
    lambda: Snapshot(
        jobs=[JobInfo(name="j", queue="q", groups=[TaskGroup("g", parent=LONG, min=1)])]
    ),
]


@pytest.mark.parametrize("make", UNKNOWN)
def test_a_reference_to_nothing_is_shown_in_80_characters(make: Callable[[], object]) -> None:
    with pytest.raises(FaultsError) as caught:
        make()
    assert all(len(fault.message) < 200 for fault in caught.value.faults)


@pytest.mark.parametrize("given", [{"actions": ["x" * 999]}, {"tiers": [{"plugins": ["x" * 999]}]}])
def test_an_unknown_name_is_shown_in_80_characters(given: dict[str, Any]) -> None:
    with pytest.raises(FaultsError) as caught:
        Scheduler(SchedulerConfig.from_mapping(given))
    assert f"'{'x' * 76}... is not registered" in str(caught.value)
