"""Expressions that select devices: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskInfo,
)
from batchsched.devices import Device, DeviceClaim, DeviceRequest, Version, read_selector
from batchsched.errors import ArgumentError
from batchsched.live import Cluster, JobArrived, JobRemoved

GPU = Device(
    name="gpu-0",
    driver="gpu.example.com",
    shared=True,
    attributes={
        "model": "A100",
        "numa": 1,
        "healthy": True,
        "gpu.example.com/driver-version": Version("1.10.0"),
        "other.org/rail": "a",
        "links": ("x", "y"),
    },
    capacity={"memory": 40 << 30},
)
OWN = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


@pytest.mark.parametrize(
    "text",
    [
        'device.driver == "gpu.example.com"',
        "device.allowMultipleAllocations",
        f'{OWN}.model == "A100" && {OWN}["numa"] == 1',
        f"{OWN}.numa in [0, 1]",
        f"!({OWN}.numa in [])",
        f"{OWN}.numa >= 1 && {OWN}.numa < 2 && {OWN}.numa > -1",
        f"{OWN}.healthy",
        f"!!{OWN}.healthy",
        f"{OWN}.model.startsWith(\"A\") && {OWN}.model.endsWith('00')",
        f'{OWN}.model.contains("10")',
        f'{OWN}["driver-version"].isGreaterThan(semver("1.9.3"))',
        f'{OWN}["driver-version"].compareTo(semver("1.10.0")) == 0',
        f'{OWN}["driver-version"].isLessThan(semver("1.10.1-rc.1"))',
        f'{MEMORY} == quantity("40Gi") && {MEMORY}.isLessThan(quantity("41Gi"))',
        f'{MEMORY}.compareTo(quantity("50G")) < 0',
        'device.attributes["other.org"].rail == "a"',
        f'{OWN}.model == "T4" || {OWN}.missing == "x" || {OWN}.numa != 2',
        f'!({OWN}.missing == "x" && false)',
        "\"tab\\t\" == 'tab\\t'",
    ],
)
def test_what_matches(text):
    assert read_selector(text)(GPU)


@pytest.mark.parametrize(
    "text",
    [
        f'{OWN}.missing == "x"',
        f'!({OWN}.missing == "x")',
        f'{OWN}.missing == "x" && true',
        f'{OWN}.missing == "x" || false',
        f"{OWN}.model == 100 || {OWN}.model != 100",
        f"{OWN}.healthy == 1",
        f"{OWN}.numa",
        f"{OWN}.model < 3",
        f'{MEMORY} < quantity("50Gi")',
        f'{OWN}.links == "x"',
        'device.attributes["elsewhere"].model == "A100"',
        f'!{OWN}.model == "A100"',
        "1",
    ],
)
def test_what_has_no_answer_or_is_false_does_not_match(text):
    assert not read_selector(text)(GPU)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "got 'the end' at position 1"),
        ("device.size > 3", "got 'size' at position 8"),
        ("true ? 1 : 2", "cannot be read at position 6"),
        ("1 + 2 == 3", "cannot be read at position 3"),
        ("(true", "expected ')', got 'the end' at position 6"),
        ("true true", "expected an operator or the end, got 'true' at position 6"),
        ("device.driver.size()", "got 'size' at position 15"),
        ('quantity("many") == 1', "quantity: expected a quantity"),
        ('semver("1.2") == 1', "semver: "),
        ("99999999999999999999999 == 1", "expected an integer of 64 bits at position 1"),
        ('"\\d" == "d"', "knows no escape"),
        ("cel.bind(x, 1, x)", "got 'cel' at position 1"),
        ("(" * 500 + "true" + ")" * 500, "nested more than 100 deep"),
        ("x" * 20_000, "expected at most 10,240 characters, got 20,000"),
    ],
)
def test_anything_else_is_refused_with_its_position(text, problem):
    with pytest.raises(ArgumentError) as told:
        read_selector(text)
    assert problem in str(told.value)


@given(st.text(alphabet="()!&|=<>[],.\"' adevicru123\\", max_size=40))
def test_whatever_is_read_is_either_a_selector_or_refused(text):
    try:
        selector = read_selector(text)
    except ArgumentError:
        return
    assert isinstance(selector(GPU), bool)


def test_versions_are_ordered_as_semantic_versioning_says():
    rising = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 "
    rising += "1.0.0-rc.1 1.0.0 1.0.1 1.2.0 1.10.0 2.0.0"
    versions = [Version(text) for text in rising.split()]
    assert sorted(versions, reverse=True) == versions[::-1]
    assert len(set(versions)) == len(versions)
    assert Version("1.0.0+a") == Version("1.0.0+b")
    for wrong in ("1.0", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0-", "1.0.0+", "1.0.0" + "0" * 99):
        with pytest.raises(ArgumentError, match="expected a semantic version"):
            Version(wrong)


def test_selectors_that_raise_are_errors_of_the_snapshot_told_at_once() -> None:
    def wrong(_device: Device) -> bool:
        raise KeyError("model")

    def wrong_too(_device: Device) -> bool:
        raise ValueError("no")

    def asking(name: str, *requests: DeviceRequest) -> JobInfo:
        asks = TaskInfo(uid=f"{name}-0", name=f"{name}-0", resreq=Resource(milli_cpu=1))
        asks = evolve(asks, claims=[DeviceClaim(name="c", requests=requests)])
        return JobInfo(name=name, queue="q", min_available=1, tasks=[asks])

    sound = DeviceRequest(name="s", select=("true", lambda _device: True))
    other = DeviceRequest(
        name="o", alternatives=[sound, DeviceRequest(name="w", select=(wrong_too,))]
    )
    jobs = [
        asking("a", sound),
        asking("b", sound, DeviceRequest(name="r", select=("true", wrong))),
        asking("c", DeviceRequest(name="r", select=(wrong,)), other),
    ]
    nodes = [NodeInfo(name="n", allocatable=Resource(milli_cpu=9), devices=[Device(name="g")])]
    snapshot = Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)
    told = {
        "tasks['b-0'].claims['c'].requests['r'].select[1]": (
            "raised KeyError: 'model' for device '//g'"
        ),
        "tasks['c-0'].claims['c'].requests['o'].alternatives['w'].select[0]": (
            "raised ValueError: no for device '//g'"
        ),
    }
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate", "tiers": [{"plugins": ["gang", "predicates", "devices"]}]}
    )
    for plain in (False, True):
        with pytest.raises(SnapshotError) as error:
            Scheduler(config, plain=plain).schedule(snapshot)
        assert {fault.path: fault.message for fault in error.value.faults} == told
    living = Cluster(evolve(snapshot, jobs=jobs[:1]))
    attached = Scheduler(config).attach(living)
    assert len(attached.schedule().binds) == 1
    living.apply(JobArrived(jobs[1]))
    with pytest.raises(SnapshotError, match=r"tasks\['b-0'\]") as error:
        attached.schedule()
    living.apply(JobRemoved(jobs[1].uid))
    assert len(attached.schedule().binds) == 1
