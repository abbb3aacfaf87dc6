"""What bad arguments of allocate, backfill and reserve, and bad reservations, get."""

from __future__ import annotations

import pytest
from tests.support.clusters import action, cluster, job, node, scheduler
from tests.support.cycles import Cycles

from batchsched import (
    ActionOption,
    Arguments,
    ConfigError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    TaskInfo,
    TaskStatus,
    schedule,
)
from batchsched.actions.allocate import AllocateAction
from batchsched.actions.backfill import BackfillAction
from batchsched.actions.reserve import ReserveAction
from batchsched.live import JobArrived, TaskSucceeded

WRONG = [
    ("reserve", "reservedNodePercent", -1, "expected 0 or more, got -1"),
    ("reserve", "reservedNodePercent", "100.5", "expected 100 or less, got '100.5'"),
    ("reserve", "reservedNodePercent", "half", "expected a number, got 'half'"),
    ("reserve", "starvingJobTimeThreshold", -0.5, "expected 0 or more, got -0.5"),
    ("reserve", "starvingJobTimeThreshold", "nan", "expected a number, got 'nan'"),
    ("reserve", "inOrder", "perhaps", "expected true or false, got 'perhaps'"),
    ("allocate", "starvationThreshold", "-1", "expected 0 or more, got '-1'"),
    ("allocate", "unready", "wait", "expected one of hold, discard, got 'wait'"),
    ("allocate", "evictBackfill", 2, "expected true or false, got 2"),
    (
        "backfill",
        "strategy",
        "steal",
        "expected one of best-effort, release, displace, got 'steal'",
    ),
    ("backfill", "nodeChoice", "any", "expected one of first, best, got 'any'"),
    ("backfill", "starvationThreshold", -3, "expected 0 or more, got -3"),
]


@pytest.mark.parametrize(("action", "argument", "value", "message"), WRONG)
def test_a_wrong_argument_is_refused_when_the_configuration_is_read(
    action: str, argument: str, value: float | str, message: str
) -> None:
    mapping = {"actions": ["allocate", {"name": action, "arguments": {argument: value}}]}
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(mapping)
    assert [str(fault) for fault in caught.value.faults] == [
        f"actions[1].arguments[{argument!r}]: {message}"
    ]


@pytest.mark.parametrize(("action", "argument", "value", "message"), WRONG)
def test_a_wrong_argument_is_refused_when_the_scheduler_is_built(
    action: str, argument: str, value: float | str, message: str
) -> None:
    config = SchedulerConfig(actions=[ActionOption(name=action, arguments={argument: value})])
    with pytest.raises(ConfigError) as caught:
        Scheduler(config)
    assert [str(fault) for fault in caught.value.faults] == [
        f"actions[0].arguments[{argument!r}]: {message}"
    ]


def test_all_wrong_arguments_are_reported_at_once() -> None:
    arguments = {"reservedNodePercent": 101, "starvingJobTimeThreshold": -1, "percent": 50}
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping({"actions": [{"name": "reserve", "arguments": arguments}]})
    assert [fault.path for fault in caught.value.faults] == [
        "actions[0].arguments['starvingJobTimeThreshold']",
        "actions[0].arguments['reservedNodePercent']",
        "actions[0].arguments['percent']",
    ]


def test_the_limits_of_arguments_are_allowed() -> None:
    for percent in (0, 100, "0", "100"):
        arguments = {"reservedNodePercent": percent, "starvingJobTimeThreshold": 0}
        SchedulerConfig.from_mapping({"actions": [{"name": "reserve", "arguments": arguments}]})


def with_reservation(node_name: str | None, milli_cpu: int = 1000) -> Snapshot:
    reserved = TaskInfo(
        uid="s",
        name="s",
        status=TaskStatus.RESERVED,
        node_name=node_name,
        resreq=Resource(milli_cpu=milli_cpu),
    )
    return Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=2000))],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="j", queue="q", tasks=[reserved])],
    )


def test_a_reserved_task_without_a_node_is_a_fault_of_the_snapshot() -> None:
    with pytest.raises(SnapshotError) as caught:
        with_reservation(None)
    assert [str(fault) for fault in caught.value.faults] == [
        (
            "jobs['default/j'].tasks['s'].node_name: "
            "expected a node for a task that is Reserved, got None"
        )
    ]


@pytest.mark.parametrize(
    ("node_name", "milli_cpu", "status"),
    [("n2", 1000, TaskStatus.BINDING), ("n1", 3000, TaskStatus.PENDING)],
    ids=["gone", "too small"],
)
def test_a_reservation_that_its_node_cannot_keep_is_dropped_and_the_result_says_so(
    node_name: str, milli_cpu: int, status: TaskStatus
) -> None:
    result = schedule(with_reservation(node_name, milli_cpu))
    dropped = [(promise.task_uid, promise.node_name) for promise in result.dropped_reservations]
    assert dropped == [("s", node_name)]
    assert result.tasks["s"].status is status
    assert not result.reserved


def test_what_is_not_given_is_as_documented() -> None:
    assert ReserveAction.from_arguments(Arguments({})) == ReserveAction(
        starving_job_time_threshold=172_800, reserved_node_percent=50, in_order=False
    )
    assert AllocateAction.from_arguments(Arguments({})) == AllocateAction(
        discard_unready=True, evict_backfill=False, starvation_threshold=None
    )
    assert BackfillAction.from_arguments(Arguments({})) == BackfillAction(
        strategy="best-effort", best_node=False, starvation_threshold=None
    )


def test_a_threshold_of_nothing_is_a_threshold() -> None:
    given = Arguments({"starvationThreshold": 0})
    assert AllocateAction.from_arguments(given).starvation_threshold == 0
    assert BackfillAction.from_arguments(given).starvation_threshold == 0


def test_a_gang_that_can_never_fit_does_not_close_nodes_for_ever() -> None:
    """Two nodes of 4 cpu, a gang of 3 x 3 cpu, and three small jobs that come in every cycle.

    Before, the gang was reserved room beside tasks of its own, where there was none.
    """
    started = 0
    start = cluster([node("n1", "4C4G"), node("n2", "4C4G")], job("g", "3C3G", "3C3G", "3C3G"))
    living = Cycles(scheduler(action("allocate", unready="discard", starvationThreshold=0)), start)
    for now in range(1, 41):
        small = [job(f"t{now:03}{which}", "1C1G", creation_time=now) for which in "abc"]
        living.step(*map(JobArrived, small), now=now)
        binds = living.cycle().binds
        started += len(binds)
        living.step(*(TaskSucceeded(bind.task_uid) for bind in binds), now=now + 0.5)
    assert started == 3 * 40
