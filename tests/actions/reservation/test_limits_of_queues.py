"""reserve keeps no nodes for what a queue may not take, whoever leaves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference import reference_schedule
from tests.support.clusters import action, job, node, places
from tests.support.invariants import check_cycle

from batchsched import (
    CycleResult,
    Queue,
    QueueStatus,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    WhyPending,
)


def decide(queue: Queue, *jobs: Any, in_order: bool) -> CycleResult:
    """Run reserve on two nodes of 4 cpu; the reference decides the same, all invariants hold."""
    arguments = {"starvingJobTimeThreshold": 50, "reservedNodePercent": 100, "inOrder": in_order}
    using = {
        "actions": [action("reserve", **arguments)],
        "tiers": [
            {
                "plugins": [
                    {"name": name}
                    for name in ("priority", "gang", "predicates", "capacity", "nodeorder")
                ]
            }
        ],
    }
    nodes = [node("n1", "4C4G"), node("n2", "4C4G")]
    snapshot = Snapshot(nodes=nodes, queues=[queue, Queue(name="z")], jobs=jobs, now=100)
    config = SchedulerConfig.from_mapping(using)
    result = Scheduler(config).schedule(snapshot)
    expected = reference_schedule(snapshot, using)
    assert (result.reserved, dict(result.tasks)) == (expected.reserved, dict(expected.tasks))
    check_cycle(snapshot, result, config)
    return result


@pytest.mark.parametrize("in_order", [True, False])
class TestQueues:
    @pytest.mark.parametrize("state", [QueueStatus.CLOSED, QueueStatus.DRAINING])
    def test_that_take_no_work_start_nothing(self, state: QueueStatus, in_order: bool) -> None:
        result = decide(Queue(name="q", state=state), job("s", "2C2G"), in_order=in_order)
        assert places(result, "s") == {"s-1": "Pending"}
        why = result.pending["s-1"].why
        assert why is WhyPending.HELD

    def test_that_would_hold_more_than_they_may_get_no_reservation(self, in_order: bool) -> None:
        """The node is full of another queue's task; the limit would not let the gang have it."""
        queue = Queue(name="q", limit=ResourceLimit(milli_cpu=3000))
        jobs = [job("r", "4C4G@n1", "4C4G@n2", queue="z"), job("s", "2C2G", "2C2G")]
        result = decide(queue, *jobs, in_order=in_order)
        assert places(result, "s") == {"s-1": "Pending", "s-2": "Pending"}
        assert result.pending["s-1"].why is WhyPending.QUEUE_LIMIT

    def test_in_full_clusters_get_reservations_within_their_limits(self, in_order: bool) -> None:
        queue = Queue(name="q", limit=ResourceLimit(milli_cpu=4000))
        jobs = [job("r", "4C4G@n1", "4C4G@n2", queue="z"), job("s", "2C2G", "2C2G")]
        result = decide(queue, *jobs, in_order=in_order)
        assert set(places(result, "s").values()) == {"Reserved n1"}
