"""Whether a job with groups has more than it needs is counted as its units of eviction say."""

from __future__ import annotations

from hypothesis import given, settings
from tests.reference.groups import Groups
from tests.reference.state import State
from tests.support.elastic import elastic
from tests.support.elastic_worlds import elastic_jobs

from batchsched import JobInfo, NodeInfo, Snapshot, TaskGroup
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


def test_what_makes_up_the_number_takes_its_replica_along_and_counts_once() -> None:
    """The group is optional, and its one task is needed all the same: the job asks for two."""
    job = elastic("e", {"g": "RRP"}, groups=[TaskGroup("g", min=1)], min_groups=0, min_available=2)
    units = units_of(counted_job(job), lambda task: task.uid)
    assert [[task.uid for task in unit.tasks] for unit in units] == [["e-g-0", "e-g-1"]]
    plain = Groups(State(Snapshot(jobs=[job], nodes=[NodeInfo(name="n")])), job)
    [(kind, tasks, _)] = plain.units(lambda given: sorted(given, key=lambda task: task.uid))
    assert (kind, [task.uid for task in tasks]) == (0, ["e-g-0", "e-g-1"])
