"""The one known configuration in which evictions never end: preempt with drf, within one job."""

from __future__ import annotations

import pytest
from tests.support.clusters import cluster, evicted, job, node
from tests.support.cycles import Cycles

from batchsched import Scheduler, SchedulerConfig


@pytest.mark.parametrize(("with_drf", "expected"), [(True, 3), (False, 0)])
def test_equal_tasks_of_a_job_take_turns_if_drf_calls_them_victims(
    with_drf: bool, expected: int
) -> None:
    """Priority has no say between equals, and all of the memory is the job's share either way."""
    drf = ["drf"] if with_drf else []
    tiers = [
        {"plugins": ["priority", "gang", "conformance"]},
        {"plugins": [*drf, "predicates", "proportion", "nodeorder"]},
    ]
    config = SchedulerConfig.from_mapping({"actions": "allocate, preempt", "tiers": tiers})
    start = cluster(
        [node("n1", "4C1G")],
        job("a", "0C1G@n1", "1C0G@n1", "1C0G", minimum=0),
        job("system", "3C0G@n1", namespace="kube-system"),
    )
    living = Cycles(Scheduler(config), start)
    evictions: list[str] = []
    for _ in range(6):
        evictions += evicted(living.cycle())
        living.step()
    assert evictions == ["a-2", "a-3", "a-2"][:expected]
