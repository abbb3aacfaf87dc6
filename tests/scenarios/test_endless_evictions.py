"""Tasks of one job do not take each other's places for ever, whoever calls them victims."""

from __future__ import annotations

import pytest
from tests.support.clusters import cluster, evicted, job, node
from tests.support.cycles import Cycles

from batchsched import Scheduler, SchedulerConfig


@pytest.mark.parametrize("with_drf", [True, False])
def test_equal_tasks_of_a_job_do_not_take_turns_even_if_drf_calls_them_victims(
    with_drf: bool,
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
    assert not evictions


@pytest.mark.parametrize("plain", [False, True])
def test_without_priorities_the_first_tasks_of_a_job_take_the_places_of_the_last(
    plain: bool,
) -> None:
    tiers = [{"plugins": ["gang", "predicates"]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate, preempt", "tiers": tiers})
    tasks = ["1C1G", "1C1G", "1C1G@n1", "1C1G@n1"]
    start = cluster([node("n1", "2C2G")], job("a", *tasks, minimum=1))
    living = Cycles(Scheduler(config, plain=plain), start)
    evictions: list[str] = []
    for _ in range(8):
        evictions += evicted(living.cycle())
        living.step()
    assert evictions == ["a-4", "a-3"]
