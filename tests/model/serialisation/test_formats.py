"""What is kept comes back the same, and what is wrong with what is read is told with its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from attrs import NOTHING, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.invalid_snapshots import InvalidSnapshot, invalid_snapshots

from batchsched import (
    ConfigError,
    CycleResult,
    FormatError,
    JobInfo,
    NodeInfo,
    PendingReason,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    SerialisationError,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    schedule,
)
from batchsched.config import options
from batchsched.model import (
    cluster,
    constraints,
    devices,
    notice,
    reasons,
    resources,
    topology,
)
from batchsched.model import result as result_module
from batchsched.model import snapshot as snapshot_module
from batchsched.model.serialisation import (
    ClassShape,
    Either,
    Fixed,
    Format,
    Items,
    Member,
    Named,
    Opaque,
    Pairs,
    Reading,
    Scalars,
    Shape,
    record_of,
    shape_of,
)
from batchsched.testing import configs, snapshots

KINDS = (Snapshot, SchedulerConfig, CycleResult)

WHOLE: dict[str, Any] = {
    "format": "batchsched.Snapshot",
    "version": 1,
    "now": 5,
    "nodes": [{"name": "n1", "allocatable": {"milli_cpu": 4000, "scalars": {"gpu": 1000}}}],
    "queues": [{"name": "q", "weight": 2}],
    "jobs": [
        {
            "name": "j",
            "namespace": "team",
            "queue": "q",
            "tasks": [
                {"uid": "t1", "name": "t1", "resreq": {"milli_cpu": 500}, "labels": {"a": "b"}},
                {"uid": "t2", "name": "t2", "status": "Running", "node_name": "n1"},
            ],
        }
    ],
}


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def changed(path: str, value: object) -> dict[str, Any]:
    """Return `WHOLE` with what is at a path, such as ``jobs.0.name``, put in its place."""
    whole: Any = as_json(WHOLE)
    at = whole
    *parts, last = path.split(".")
    for part in parts:
        at = at[int(part)] if part.isdigit() else at[part]
    if value is NOTHING:
        del at[last]
    else:
        at[int(last) if last.isdigit() else last] = value
    return dict(whole)


def faults_of(given: object, kind: type = Snapshot) -> list[str]:
    with pytest.raises((SnapshotError, ConfigError, FormatError)) as caught:
        kind.from_dict(given)
    return [str(fault) for fault in caught.value.faults]


@given(snapshots())
@settings(max_examples=50)
def test_a_snapshot_comes_back_the_same(snapshot: Snapshot) -> None:
    again = Snapshot.from_dict(as_json(snapshot.to_dict()))
    assert again == snapshot
    assert as_json(again.to_dict()) == as_json(snapshot.to_dict())


@given(configs())
def test_a_configuration_comes_back_the_same(config: SchedulerConfig) -> None:
    assert SchedulerConfig.from_dict(as_json(config.to_dict())) == config


@given(snapshots(), configs())
@settings(max_examples=30)
def test_a_result_comes_back_the_same(snapshot: Snapshot, config: SchedulerConfig) -> None:
    result = Scheduler(config).schedule(snapshot)
    again = CycleResult.from_dict(as_json(result.to_dict()))
    assert again == result
    assert again.to_dict() == result.to_dict()


def test_results_are_read_that_were_written_before_reasons_had_their_facts_as_fields() -> None:
    node = NodeInfo(name="n", allocatable=Resource(milli_cpu=1000))
    tasks = [TaskInfo(uid=f"t{i}", name=f"t{i}", resreq=Resource(milli_cpu=600)) for i in (0, 1)]
    job = JobInfo(name="j", queue="q", min_available=2, tasks=tasks)
    result = schedule(Snapshot(nodes=[node], queues=[Queue(name="q")], jobs=[job]))
    before = as_json(result.to_dict())
    for reason in before["pending"].values():
        for name in ("behind_task", "behind_job", "too_large", "out_of_reach", "lacking"):
            del reason[name]
    for outcome in before["jobs"].values():
        for name in ("counts", "undone", "failure"):
            del outcome["condition"][name]
    again = CycleResult.from_dict(before)
    assert {uid: reason.text for uid, reason in again.pending.items()} == {
        uid: reason.text for uid, reason in result.pending.items()
    }
    assert str(again) == str(result)


@given(snapshots())
@settings(max_examples=50)
def test_what_comes_back_is_decided_on_in_the_same_way(snapshot: Snapshot) -> None:
    assert schedule(Snapshot.from_dict(as_json(snapshot.to_dict()))) == schedule(snapshot)


@given(invalid_snapshots())
@settings(max_examples=40)
def test_what_is_wrong_with_a_kept_snapshot_is_told_where_it_is(invalid: InvalidSnapshot) -> None:
    names = [item.name for item in attrs.fields(Snapshot)]
    try:
        kept = as_json(_kept({name: getattr(invalid, name) for name in names}))
    except (TypeError, ValueError, AttributeError):
        return  # nothing that JSON could hold
    try:
        Snapshot.from_dict(kept)
    except SnapshotError as error:
        told = [fault.path for fault in error.faults]
        # Plain data that cannot be read at all is told in place of what it would have been.
        assert invalid.fault.path in told or any(
            invalid.fault.path.startswith(path) or path.startswith(invalid.fault.path)
            for path in told
        )
    else:
        # A string in the place of an enum's member is what stands for it in plain data.
        assert "is no TaskStatus" in invalid.fault.message or "use " in invalid.fault.message


def _kept(content: Mapping[str, Any]) -> dict[str, Any]:
    """Write content that no snapshot would take."""
    record = record_of(Snapshot)
    written = {
        item.name: item.shape.write(content[item.name], None)
        for item in record.content
        if item.name in content
    }
    return {"format": "batchsched.Snapshot", "version": 1, **written}


MODULES = (
    cluster,
    constraints,
    devices,
    reasons,
    resources,
    result_module,
    snapshot_module,
    options,
    notice,
    topology,
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_covered(kind: Any) -> None:
    """A field whose type has no form as plain data raises here, with its name."""
    classes = {name: found for module in MODULES for name, found in vars(module).items()}
    classes[kind.__name__] = kind
    schema = kind.json_schema()
    described = schema["$defs"] | {kind.__name__: schema}
    for name, definition in described.items():
        expected = {item.name for item in attrs.fields(classes[name]) if item.init}
        added = {"format", "version", "text"} - expected
        assert set(definition["properties"]) - added == expected


SCALARS: dict[type, st.SearchStrategy[Any]] = {
    str: st.sampled_from(["", "a", "b"]),
    int: st.integers(-3, 3),
    float: st.sampled_from([0.5, -1.0, 2.0]),
    bool: st.booleans(),
    type(None): st.none(),
}


def values_of(shape: Shape) -> st.SearchStrategy[Any]:
    """Draw values of a shape, whatever they mean."""
    match shape:
        case Opaque():
            plain = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
            return st.recursive(plain, lambda of: st.lists(of, max_size=2).map(tuple), max_leaves=3)
        case ClassShape(kind=devices.Version):
            return st.sampled_from(["1.2.3", "1.2.3-rc.1"]).map(devices.Version)
        case ClassShape(kind=devices.DeviceRequest, content=content):
            # It refers to itself.
            parts = {i.name: values_of(i.shape) for i in content if i.name != "alternatives"}
            plain = st.builds(devices.DeviceRequest, **parts)
            return st.builds(
                devices.DeviceRequest, **parts, alternatives=st.lists(plain, max_size=1)
            )
        case ClassShape(kind=kind, content=content):
            parts = {item.name: values_of(item.shape) for item in content}
            return st.builds(kind, **parts)
        case Scalars(kinds=kinds):
            return st.one_of(*(SCALARS[kind] for kind in kinds))
        case Member(members=members):
            return st.sampled_from(list(members.values()))
        case Pairs(item=Fixed(shapes=(key, item))):
            return st.dictionaries(values_of(key), values_of(item), max_size=2)
        case Items(item=item):
            return st.lists(values_of(item), max_size=2).map(tuple)
        case Named(item=item):
            return st.dictionaries(SCALARS[str], values_of(item), max_size=2)
        case Either(shapes=options):
            return st.one_of(*map(values_of, options))
    raise TypeError(shape)


@pytest.mark.parametrize("kind", [JobInfo, NodeInfo, Queue, CycleResult, SchedulerConfig])
@given(data=st.data())
@settings(max_examples=15)
def test_any_values_of_all_fields_come_back_the_same(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values_of(record_of(kind)))
    for derived in (None, {PendingReason: ("text",)}):
        reading = Reading(derived)
        written = as_json(record_of(kind).write(value, derived))
        assert record_of(kind).read(written, "", reading) == value
        assert not reading.faults


def test_a_field_of_a_type_without_a_form_is_told() -> None:
    @frozen
    class Strange:
        size: int
        matter: object

    with pytest.raises(TypeError, match=r"Strange.matter: expected a type that .*object"):
        record_of(Strange)


def test_a_new_field_needs_no_code() -> None:
    @frozen
    class Inner:
        seconds: float | None = None

    @frozen
    class Outer:
        name: str
        inner: tuple[Inner, ...] = ()
        status: TaskStatus = TaskStatus.PENDING
        amounts: Mapping[str, int] = attrs.field(factory=dict)
        best: Inner | None = None

    scope = {"Inner": Inner, "TaskStatus": TaskStatus, "Mapping": Mapping}
    attrs.resolve_types(Outer, scope, scope)
    Outer.__annotations__ = {item.name: item.type for item in attrs.fields(Outer)}
    kept = Format(Outer, version=1, error=FormatError)
    value = Outer("x", (Inner(), Inner(2.5)), TaskStatus.BOUND, {"b": 1, "a": 2}, Inner(1))
    written = as_json(kept.to_dict(value))
    assert written == {
        "format": "batchsched.Outer",
        "version": 1,
        "name": "x",
        "inner": [{}, {"seconds": 2.5}],
        "status": "Bound",
        "amounts": {"a": 2, "b": 1},
        "best": {"seconds": 1},
    }
    assert kept.from_dict(written) == value


class TestFaults:
    @pytest.mark.parametrize(
        ("path", "value", "said"),
        [
            ("now", "noon", "now: expected a number, got 'noon'"),
            ("now", True, "now: expected a number, got True"),
            ("nodes", {}, "nodes: expected a list, got {}"),
            ("nodes.0", 7, "nodes[0]: expected an object, got 7"),
            ("nodes.0.name", NOTHING, "nodes[0].name: is missing"),
            ("queues.0.weight", 1.5, "queues['q'].weight: expected an integer, got 1.5"),
            (
                "jobs.0.tasks.0.priority",
                "high",
                "jobs['team/j'].tasks['t1'].priority: expected an integer, got 'high'",
            ),
            (
                "jobs.0.tasks.1.status",
                "Runing",
                "jobs['team/j'].tasks['t2'].status: expected one of Pending, ",
            ),
            (
                "nodes.0.allocatable.scalars.gpu",
                "8",
                "nodes['n1'].allocatable.scalars['gpu']: expected a number, got '8'",
            ),
            (
                "jobs.0.tasks.0.labels.a",
                3,
                "jobs['team/j'].tasks['t1'].labels['a']: expected a string, got 3",
            ),
            (
                "jobs.0.tasks.0.node_affinity",
                [],
                "jobs['team/j'].tasks['t1'].node_affinity: expected an object, got []",
            ),
            (
                "queues.0.weight",
                -1,
                "queues['q'].weight: expected a weight (an integer, 0 or more), got -1",
            ),
            ("jobs.0.tasks.1.node_name", "n9", "jobs['team/j'].tasks['t2'].node_name: "),
            ("queues.0.colour", "red", "queues['q'].colour: unknown field of Queue; "),
        ],
    )
    def test_each_is_told_with_its_path(self, path: str, value: object, said: str) -> None:
        faults = faults_of(changed(path, value))
        assert any(fault.startswith(said) for fault in faults), faults

    def test_all_are_told_at_once(self) -> None:
        given = changed("now", "noon")
        given["queues"][0] |= {"weight": -1, "colour": "red"}
        given["jobs"][0]["tasks"][1]["node_name"] = "n9"
        paths = [fault.partition(": ")[0] for fault in faults_of(given)]
        assert sorted(paths) == [
            "jobs['team/j'].tasks['t2'].node_name",
            "now",
            "queues['q'].colour",
            "queues['q'].weight",
        ]

    def test_what_follows_from_what_could_not_be_read_is_not_told(self) -> None:
        # The task runs on the node that cannot be read.
        given = changed("nodes.0.name", 7)
        assert faults_of(given) == ["nodes[0].name: expected a string, got 7"]

    def test_a_newer_version_is_told(self) -> None:
        (fault,) = faults_of(changed("version", 2))
        assert fault.startswith("version: expected 1 or less, got 2: this was written by a newer")

    def test_a_newer_field_is_told_as_such(self) -> None:
        (fault,) = faults_of(changed("jobs.0.hologram", "x"))
        assert "unknown field of JobInfo; a newer version of batchsched may have written" in fault

    @pytest.mark.parametrize("kind", KINDS)
    def test_data_of_another_kind_is_refused(self, kind: type) -> None:
        (fault,) = faults_of({"format": "x", "version": 1}, kind)
        assert fault == f"format: expected 'batchsched.{kind.__name__}', got 'x'"
        assert faults_of([], kind)[0].startswith("expected an object of the format ")
        assert len(faults_of({}, kind)) == 2

    def test_a_configuration_is_checked_too(self) -> None:
        given = SchedulerConfig().to_dict()
        given["actions"] = [{"name": "allocate", "arguments": {"unredy": "hold"}}]
        (fault,) = faults_of(given, SchedulerConfig)
        assert fault.startswith("actions[0].arguments['unredy']: unknown argument; did you mean")


class TestSchema:
    @pytest.mark.parametrize("kind", KINDS)
    def test_all_references_lead_somewhere(self, kind: Any) -> None:
        schema = kind.json_schema()
        text = json.dumps(schema)
        names = {part.partition('"')[0] for part in text.split("#/$defs/")[1:]}
        assert names == set(schema["$defs"])

    @given(snapshots(max_jobs=3))
    @settings(max_examples=20)
    def test_it_accepts_what_is_written(self, snapshot: Snapshot) -> None:
        accepts(Snapshot.json_schema(), as_json(snapshot.to_dict()))
        accepts(CycleResult.json_schema(), as_json(schedule(snapshot).to_dict()))

    def test_it_refuses_unknown_fields_and_wrong_types(self) -> None:
        schema = Snapshot.json_schema()
        for wrong in (changed("queues.0.colour", "red"), changed("now", "noon")):
            with pytest.raises(AssertionError):
                accepts(schema, wrong)


def accepts(schema: dict[str, Any], value: object, root: dict[str, Any] | None = None) -> None:
    """Assert that a value meets a schema; as much of JSON Schema as batchsched uses."""
    root = schema if root is None else root
    if "$ref" in schema:
        accepts(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root)
        return
    if "anyOf" in schema:
        problems = 0
        for option in schema["anyOf"]:
            try:
                accepts(option, value, root)
            except AssertionError:
                problems += 1
        assert problems < len(schema["anyOf"])
        return
    if "const" in schema:
        assert value == schema["const"]
    if "enum" in schema:
        assert value in schema["enum"]
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(_is_type(value, kind) for kind in types), (value, types)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert set(schema.get("required", [])) <= set(value)
        for name, item in value.items():
            if name in properties:
                accepts(properties[name], item, root)
            else:
                assert schema.get("additionalProperties", True) is not False, name
                accepts(schema["additionalProperties"], item, root)
    if isinstance(value, list):
        for position, item in enumerate(value):
            prefix = schema.get("items", {}) if "prefixItems" not in schema else {}
            accepts(prefix or schema["prefixItems"][position], item, root)


def _is_type(value: object, kind: str) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "integer": is_number and isinstance(value, int),
        "number": is_number,
        "null": value is None,
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
    }[kind]


@pytest.mark.parametrize("annotation", [object, list, set[int], dict, tuple[int, ...] | Mapping])
def test_types_without_a_form_are_refused(annotation: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        shape_of(annotation)


def test_a_union_of_classes_says_which_one_it_is() -> None:
    @frozen
    class Came:
        name: str

    @frozen
    class Went:
        name: str

    shape = shape_of(Came | Went)
    written = shape.write(Went("x"), None)
    assert written == {"type": "Went", "name": "x"}
    reading = Reading({})
    assert shape.read(written, "events[0]", reading) == Went("x")
    shape.read({"type": "Stayed"}, "events[1]", reading)
    assert [str(f) for f in reading.faults] == [
        "events[1].type: expected one of Came, Went, got 'Stayed'"
    ]


def test_a_function_among_selectors_is_told_with_its_path() -> None:
    def is_large(device: devices.Device) -> bool:
        return bool(device.capacity)

    request = devices.DeviceRequest(name="gpu", select=["device.driver == 'd'", is_large])
    claim = devices.DeviceClaim(name="c", requests=[request])
    task = TaskInfo(uid="t", name="t", claims=[claim])
    snapshot = Snapshot(queues=[Queue(name="q")], jobs=[JobInfo(name="j", queue="q", tasks=[task])])
    with pytest.raises(SerialisationError) as caught:
        snapshot.to_dict()
    [fault] = caught.value.faults
    path = "jobs['default/j'].tasks['t'].claims['c'].requests['gpu'].select[1]"
    assert fault.path == path
    assert "a function cannot be written" in fault.message
    assert as_json(attrs.evolve(snapshot, jobs=()).to_dict())
