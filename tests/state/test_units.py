"""Units of eviction: what goes together, and what is worth more."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from tests.support.elastic import elastic
from tests.support.elastic_worlds import elastic_jobs

from batchsched import JobInfo, TaskGroup, TaskStatus
from batchsched.state.ledger import counted_job
from batchsched.state.units import units_of

HAS_BEGUN = (TaskStatus.RUNNING, TaskStatus.BINDING, TaskStatus.BOUND)


@settings(max_examples=150)
@given(elastic_jobs("e", tasks=9))
def test_a_broken_job_is_one_unit_and_worth_more_than_cores_of_others(job: JobInfo) -> None:
    state = counted_job(job)
    units = units_of(state, lambda task: task.uid)
    there = [task for task in state.tasks if task.status.occupies]
    has_begun = any(task.status in HAS_BEGUN for task in there)
    assert state.is_broken is (has_begun and not state.has_minimum())
    if state.is_broken:
        [unit] = units
        assert (unit.is_broken, unit.is_core, unit.is_surplus) == (True, True, False)
        assert list(unit.tasks) == list(unit.victims) == there
        whole = units_of(counted_job(elastic("a", {None: "R"})), lambda task: task.uid)
        assert unit.value < whole[0].value
    assert state.is_broken or not any(unit.is_broken for unit in units)


@pytest.mark.parametrize("most", [None, 3])
def test_what_is_only_allocated_is_not_broken(most: int | None) -> None:
    job = elastic("e", {None: "PPP"}, min_available=3, max_available=most)
    state = counted_job(job)
    for status in (TaskStatus.ALLOCATED, TaskStatus.BINDING):
        before = state.tasks[0].status
        state.tasks[0].status = status
        state.recount(state.tasks[0], before, status)
        [unit] = units_of(state, lambda task: task.uid)
        assert unit.is_broken is state.is_broken is (status is TaskStatus.BINDING)


def test_a_job_that_lacks_only_a_group_is_broken() -> None:
    groups = [TaskGroup("a", min=1), TaskGroup("b", min=1)]
    lacking = elastic("e", {"a": "RRR", "b": "P"}, groups=groups)
    assert counted_job(lacking).is_broken
    assert not counted_job(evolve(lacking, min_groups=1)).is_broken
