"""Whatever a public function is given: an answer, or an error of the library that names it.

Each argument of each public function, constructor and method is replaced by wrong values, one at
a time. Values that are kept for a later check, such as those of a job, are accepted here; what
they are checked by is tested in `tests/model`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    ArgumentError,
    BatchschedError,
    CycleResult,
    EventError,
    FaultsError,
    JobInfo,
    NodeInfo,
    Snapshot,
    SnapshotError,
    UnknownNameError,
    cheapest,
    decayed,
    next_snapshot,
    schedule,
    shrink,
    sum_resources,
)
from batchsched.live import Cluster, NodeAdded
from batchsched.simulation import (
    Easy,
    Job,
    Workload,
    WorkloadError,
    generate,
    read_helios,
    read_muri,
    read_openb,
    read_philly,
    read_swf,
    simulate,
)
from batchsched.tools import Recorder, replay
from tests.support.entry_points import INSIDE_A_CYCLE, EntryPoint, entry_points, snapshot, workload
from tests.support.wrong_values import BrokenError, halfway, nested, zoo

POINTS = {point.name: point for point in entry_points()}
ZOO = dict(zoo())
IS_NIGHTLY = os.environ.get("BATCHSCHED_NIGHTLY") == "1"
SOME = 11
"""Of each so many wrong values, one is tried with each argument; at night, all are."""


def parameters_of(function: object, arguments: dict[str, Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]
    except ValueError:
        return list(arguments)


def tried(point: EntryPoint, changes: dict[str, str]) -> None:
    """Call with wrong values by parameter; only errors of the library may come out."""
    function, arguments = point.make()
    unchanged = {name: content_of(value) for name, value in arguments.items()}
    wrong = {name: ZOO[label](arguments.get(name)) for name, label in changes.items()}
    try:
        answer = point.call(function, {**arguments, **wrong})
        if inspect.isgenerator(answer):
            list(answer)
    except BatchschedError as error:
        text = str(error)
        if not 0 < len(text) < 20_000:
            pytest.fail(f"{point.name}, {changes}: {len(text)} characters")
    except Exception as error:
        pytest.fail(f"{point.name}, {changes}: {type(error).__name__}: {str(error)[:200]}")
    for name, before in unchanged.items():
        assert content_of(arguments[name]) == before, (point.name, name, changes)


def content_of(value: object) -> object:
    """Return what a call must not change."""
    if isinstance(value, Cluster):
        return value.snapshot()
    if isinstance(value, dict):
        return {name: content_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(content_of, value))
    return value


@pytest.mark.parametrize("name", POINTS)
def test_a_right_call_is_answered(name: str) -> None:
    function, arguments = POINTS[name].make()
    POINTS[name].call(function, arguments)


@pytest.mark.parametrize("name", POINTS)
def test_an_argument_that_is_wrong_is_told(name: str) -> None:
    point = POINTS[name]
    function, arguments = point.make()
    step = 1 if IS_NIGHTLY else SOME
    for place, parameter in enumerate(parameters_of(function, arguments)):
        # Other values for each parameter, so that few calls see all of them.
        for label in list(ZOO)[(place + len(name)) % step :: step]:
            tried(point, {parameter: label})


@given(st.data())
def test_several_wrong_arguments_are_told(data: st.DataObject) -> None:
    point = POINTS[data.draw(st.sampled_from(sorted(POINTS)))]
    function, arguments = point.make()
    parameters = parameters_of(function, arguments)
    if parameters:
        labels = st.sampled_from(sorted(ZOO))
        tried(point, data.draw(st.dictionaries(st.sampled_from(parameters), labels, max_size=3)))


def test_public_modules_are_covered() -> None:
    """What is left out is left out by name."""
    modules = {type_of.split(".")[1] for type_of in INSIDE_A_CYCLE}
    assert modules == {"action", "fast", "plugin", "trace"}
    assert len(POINTS) > 150
    for name in ("next_snapshot", "Cluster.carry_out", "read_swf", "shrink", "replay", "generate"):
        assert name in POINTS


# What is said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"load": 5e-324}, "load: expected a number from 0.001 to 1,000, got 5e-324"),
        ({"load": 1e308}, "load: expected a number from 0.001 to 1,000, got 1e+308"),
        (
            {"jobs": 2**63},
            "jobs: expected at most 100,000,000, got 9223372036854775808",
        ),
        (
            {"jobs": -1, "users": 2**63, "seed": "x"},
            (
                "jobs: expected a whole number, 0 or more, got -1\n"
                "users: expected at most 100,000,000, got 9223372036854775808\n"
                "seed: expected a whole number, got 'x'"
            ),
        ),
    ],
)
def test_workloads_that_cannot_be_generated(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        generate(**{"jobs": 3, "nodes": 4, "seed": 1, **arguments})
    assert str(caught.value) == message


@pytest.mark.parametrize("load", [0.001, 1000])
def test_workloads_of_the_least_and_the_largest_load_are_generated(load: float) -> None:
    assert len(generate(jobs=20, nodes=4, seed=1, load=load)) == 20


def test_a_time_that_is_none_is_told_with_all_other_faults() -> None:
    given = snapshot()
    with pytest.raises(EventError) as caught:
        next_snapshot(given, schedule(given), now="x", gone=5, nodes=halfway([]))  # type: ignore[arg-type]
    assert str(caught.value) == (
        "now: expected a number, got 'x'\n"
        "gone: expected a collection such as a list, got 5\n"
        "nodes: raised BrokenError: on purpose after 0 items"
    )
    assert isinstance(caught.value.__cause__, BrokenError)


def test_a_record_that_is_none_is_told() -> None:
    with pytest.raises(ArgumentError) as caught:
        replay({}, registry=1)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "record: expected a Record, got {}\nregistry: expected a Registry or None, got 1"
    )


class TestTheTestOfShrink:
    def test_that_raises_is_named(self) -> None:
        def holds(_: Snapshot) -> bool:
            raise KeyError("mine")

        with pytest.raises(ArgumentError) as caught:
            shrink(snapshot(), holds)
        assert str(caught.value) == "holds: the function raised KeyError: 'mine'"
        assert isinstance(caught.value.__cause__, KeyError)

    def test_that_takes_nothing_is_named(self) -> None:
        with pytest.raises(ArgumentError) as caught:
            shrink(snapshot(), lambda: True)  # type: ignore[arg-type,misc]
        assert str(caught.value).startswith("holds: expected a function of 1 argument, got ")
        assert str(caught.value).endswith("too many positional arguments")

    def test_that_is_none_is_named_with_all_other_faults(self) -> None:
        with pytest.raises(ArgumentError) as caught:
            shrink(None, 5, neutral="yes", budget="much")  # type: ignore[arg-type]
        paths = [fault.path for fault in caught.value.faults]
        assert paths == ["snapshot", "holds", "neutral", "budget"]


def test_a_goal_or_candidates_that_are_none_are_told() -> None:
    with pytest.raises(ArgumentError) as caught:
        cheapest(snapshot(), 5, 7)  # type: ignore[arg-type]
    assert [str(fault) for fault in caught.value.faults] == [
        "goal: expected a function or a string, got 5",
        "candidates: expected a collection such as a list, got 7",
    ]
    with pytest.raises(ArgumentError, match=r"^goal: the function raised ZeroDivisionError"):
        cheapest(snapshot(), lambda _: 1 / 0 > 1, [NodeAdded(NodeInfo(name="n9"))])


def test_decisions_that_are_none_change_nothing() -> None:
    cluster = Cluster(snapshot())
    for wrong in (None, 5, "x", nested("list"), Snapshot()):
        with pytest.raises(EventError, match=r"^cycle: expected a CycleResult, got "):
            cluster.carry_out(wrong, at_once=True)  # type: ignore[arg-type]
    decided = schedule(snapshot())
    with pytest.raises(EventError, match=r"^not_started: raised BrokenError: on purpose"):
        cluster.carry_out(decided, not_started=halfway(["w"]), at_once=True)
    assert cluster.snapshot() == snapshot()
    cluster.carry_out(decided, at_once=True)
    assert cluster.snapshot() != snapshot()


@pytest.mark.parametrize("read", [read_swf, read_philly, read_helios, read_muri, read_openb])
@pytest.mark.parametrize("wrong", [None, 5, "1 2 3", b"1 2", {"a": 1}, [5], [None]])
def test_rows_that_are_none_are_told(read: Any, wrong: object) -> None:
    with pytest.raises(WorkloadError) as caught:
        read(wrong)
    (fault,) = caught.value.faults
    assert fault.path in ("lines", "lines[0]", "rows", "rows[0]")
    assert "csv.DictReader" in fault.message or "file" in fault.message


@pytest.mark.parametrize("read", [read_swf, read_philly])
def test_a_file_that_fails_half_way_is_told(read: Any) -> None:
    with pytest.raises(
        WorkloadError, match="raised BrokenError: on purpose after 0 items"
    ) as caught:
        read(halfway([]))
    assert isinstance(caught.value.__cause__, BrokenError)


def test_rows_with_values_that_are_no_text_are_left_out() -> None:
    row: Any = {"timestamp": 5, "duration": "1", "num_gpus": "1", "cluster": "c"}
    read, problems = read_philly([row])
    assert len(read) == 0
    (problem,) = map(str, problems)
    assert problem.startswith("line 2: expected text in all columns: TypeError: fromisoformat")


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Snapshot(nodes=halfway([NodeInfo(name="n")])), "nodes"),
        (lambda: JobInfo(name="j", queue="q", tasks=halfway([1])), "tasks"),
        (lambda: Workload(halfway([Job(id=1, submit=0, run=1, processors=1)])), "jobs"),
    ],
)
def test_an_iterable_that_raises_half_way_is_named(make: Any, path: str) -> None:
    with pytest.raises(FaultsError) as caught:
        make()
    assert str(caught.value) == f"{path}: raised BrokenError: on purpose after 1 item"
    assert isinstance(caught.value.__cause__, BrokenError)


@pytest.mark.parametrize("kind", ["dict", "list", "tuple"])
def test_values_that_are_nested_too_deep_to_be_shown_are_told(kind: str) -> None:
    with pytest.raises(SnapshotError, match=rf"^nodes\['n'\].allocatable: .* got <{kind}>"):
        Snapshot(nodes=[NodeInfo(name="n", allocatable=nested(kind, 100_000))])
    with pytest.raises(WorkloadError, match=rf"^jobs: expected .* got <{kind}>"):
        generate(jobs=nested(kind, 100_000), nodes=1, seed=1)


def test_amounts_that_are_none_are_told() -> None:
    with pytest.raises(ArgumentError, match=r"^resources: "):
        sum_resources([1, 2])  # type: ignore[list-item]
    with pytest.raises(ArgumentError) as caught:
        decayed(1, 2, "x", half_life=0)  # type: ignore[arg-type]
    assert [fault.path for fault in caught.value.faults] == [
        "usage",
        "held",
        "seconds",
        "half_life",
    ]


def test_names_that_are_none_are_unknown() -> None:
    run = simulate(workload(), Easy())
    with pytest.raises(UnknownNameError, match="expected one of id, submit"):
        workload().column([])  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="expected the id of a job of this run, got 9"):
        run.why(9)


def test_a_recorder_refuses_what_is_no_event_and_goes_on() -> None:
    recorder = Recorder(snapshot())
    with pytest.raises(EventError):
        recorder.apply(NodeAdded(NodeInfo(name="n9")), 5)  # type: ignore[arg-type]
    assert isinstance(recorder.cycle(), CycleResult)
    assert recorder.record.cycles[0].events == ()


def test_an_iterator_is_read_once() -> None:
    def nodes() -> Iterator[NodeInfo]:
        yield NodeInfo(name="n1")

    given = evolve(snapshot(), jobs=())
    assert len(next_snapshot(given, None, now=6, nodes=nodes()).nodes) == 1
