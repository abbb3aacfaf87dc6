"""Whether a job with groups has more than it needs is counted as its units of eviction say."""

from __future__ import annotations

from hypothesis import given, settings
from tests.support.elastic_worlds import elastic_jobs

from batchsched import JobInfo
from batchsched.state.groups import Counting
from batchsched.state.ledger import counted_job
from batchsched.state.units import units_of


@settings(max_examples=150)
@given(elastic_jobs("e", tasks=9))
def test_counters_say_what_units_say(job: JobInfo) -> None:
    state = counted_job(job)
    groups = state.groups
    if groups is None or not groups.groups or groups.asks_for_more:
        return
    if groups.is_satisfied(Counting.READY):
        units = units_of(state, lambda task: (-task.info.priority, task.uid))
        assert groups.root.has_more_than_needed() is any(not unit.is_core for unit in units)
