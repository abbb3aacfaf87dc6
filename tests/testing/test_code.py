"""What examples print as makes an equal value, and can be read."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import batchsched
import batchsched.constraints
import batchsched.testing
from batchsched import (
    HostPort,
    JobInfo,
    Queue,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    schedule,
)
from batchsched.testing import (
    InvalidSnapshot,
    as_code,
    configs,
    invalid_snapshots,
    jobs,
    nodes,
    queues,
    resources,
    snapshots,
    tasks,
)

NAMES = {**vars(batchsched), **vars(batchsched.constraints), **vars(batchsched.testing)}
MANY = settings(max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck))


@MANY
@given(st.one_of(snapshots(), configs(), resources(), jobs(), tasks(), nodes(), queues()))
def test_it_makes_an_equal_value(value: object) -> None:
    assert eval(as_code(value), NAMES) == value


@settings(MANY, max_examples=60)
@given(snapshots(), configs())
def test_it_makes_an_equal_result(snapshot: Snapshot, config: SchedulerConfig) -> None:
    result = schedule(snapshot, config)
    assert eval(as_code(result), NAMES) == result


@settings(MANY, max_examples=100)
@given(invalid_snapshots())
def test_it_makes_what_cannot_be_a_snapshot(invalid: InvalidSnapshot) -> None:
    assert eval(as_code(invalid), NAMES) == invalid


@settings(MANY, max_examples=60)
@given(snapshots())
def test_its_lines_are_short(snapshot: Snapshot) -> None:
    assert max(map(len, as_code(snapshot).splitlines())) <= 100


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (Queue(name="q", weight=1, creation_time=0), "Queue(name='q')"),
        (Resource(memory=3 << 30), "Resource(memory=3 << 30)"),
        (Resource(memory=3 << 20, milli_cpu=1), "Resource(milli_cpu=1, memory=3 << 20)"),
        (TaskStatus.RUNNING, "TaskStatus.RUNNING"),
        ((HostPort(port=80),), "(HostPort(port=80),)"),
        ((1, 2), "(1, 2)"),
        ({"b": 1, "a": None}, "{'a': None, 'b': 1}"),
        ([], "[]"),
        (float("inf"), "float('inf')"),
        (True, "True"),
    ],
)
def test_it_reads_as_one_would_write_it(value: object, code: str) -> None:
    assert as_code(value) == code
    assert eval(code, NAMES) == value


def test_a_flag_that_is_not_the_default_is_shown() -> None:
    task = TaskInfo(uid="t", name="t", is_backfill=True)
    assert as_code(task) == "TaskInfo(uid='t', name='t', is_backfill=True)"


def test_tasks_are_a_list() -> None:
    job = JobInfo(name="j", queue="q", tasks=(TaskInfo(uid="t", name="t"),))
    assert as_code(job) == "JobInfo(name='j', queue='q', tasks=[TaskInfo(uid='t', name='t')])"


def test_it_indents_all_lines_but_the_first() -> None:
    snapshot = Snapshot(queues=[Queue(name=letter * 60) for letter in "ab"])
    first, *rest = as_code(snapshot, indent="  ").splitlines()
    assert first == "Snapshot("
    assert rest[0].startswith("      queues=[")
    assert rest[-1] == "  )"


def test_hypothesis_prints_examples_so() -> None:
    @settings(MANY, database=None, phases=[Phase.generate, Phase.shrink])
    @given(snapshot=snapshots(), config=configs())
    def fails(snapshot: Snapshot, config: SchedulerConfig) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fails()
    note = "\n".join(caught.value.__notes__)
    assert "snapshot=Snapshot(\n        nodes=[NodeInfo(name='n1'," in note
    assert "config=SchedulerConfig(actions=[ActionOption(name='allocate')])," in note
