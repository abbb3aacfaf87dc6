import pytest
from attrs import evolve

from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskInfo, TaskStatus
from tests.reference import reference_schedule

SNAPSHOT = Snapshot(
    nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000))],
    queues=[Queue(name="q")],
    jobs=[
        JobInfo(
            name="j",
            queue="q",
            min_available=2,
            tasks=[
                TaskInfo(uid=uid, name=uid, resreq=Resource(milli_cpu=1000)) for uid in ("a", "b")
            ],
        )
    ],
)


@pytest.mark.parametrize(
    "actions",
    ["allocate, backfill", ["allocate", "backfill"], [{"name": "allocate"}, {"name": "backfill"}]],
)
@pytest.mark.parametrize("plugin", ["gang", {"name": "gang"}, {"name": "gang", "arguments": None}])
def test_configurations_are_read_in_every_form(actions, plugin):
    result = reference_schedule(SNAPSHOT, {"actions": actions, "tiers": [{"plugins": [plugin]}]})
    assert result.binds == ()
    assert result.tasks["a"].node_name is None
    assert result.jobs["default/j"].condition is not None


@pytest.mark.parametrize("value", [False, "false", "False"])
def test_flags_and_arguments_are_texts_or_of_their_own_types(value):
    gang = {"name": "gang", "enableJobReady": value}
    allocate = {"name": "allocate", "arguments": {"evictBackfill": value}}
    result = reference_schedule(SNAPSHOT, {"actions": [allocate], "tiers": [{"plugins": [gang]}]})
    assert [bind.task_uid for bind in result.binds] == ["a"]


TOLD_TO_CURE = {"name": "preempt", "arguments": {"curable": True}}
TOLD_NOT_TO = {"name": "preempt", "arguments": {"curable": False}}


@pytest.mark.parametrize(("preempt", "goes"), [("preempt", ["low"]), (TOLD_NOT_TO, [])])
def test_evicting_cures_what_it_can_where_no_tiers_are_named(preempt, goes):
    assert _evicted_for_the_only_place({"actions": ["allocate", preempt]}) == goes


@pytest.mark.parametrize(("preempt", "goes"), [("preempt", []), (TOLD_TO_CURE, ["low"])])
def test_evicting_cures_only_if_told_to_where_tiers_are_named(preempt, goes):
    gang = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
    tiers = [{"plugins": ["priority", gang, "predicates"]}]
    conf = {"actions": ["allocate", preempt], "tiers": tiers}
    assert _evicted_for_the_only_place(conf) == goes


def _evicted_for_the_only_place(conf):
    """Of a node with room for one pod, where one of low priority runs and another waits."""
    low, high = (
        TaskInfo(uid=uid, name=uid, resreq=Resource(milli_cpu=1000)) for uid in ("low", "high")
    )
    low = evolve(low, status=TaskStatus.RUNNING, node_name="n1")
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000), max_tasks=1)],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(name="low", queue="q", min_available=1, priority=1, tasks=[low]),
            JobInfo(name="high", queue="q", min_available=1, priority=100, tasks=[high]),
        ],
    )
    return [eviction.task_uid for eviction in reference_schedule(snapshot, conf).evictions]


@pytest.mark.parametrize(
    "conf",
    [
        {"actions": "allocated"},
        {"actions": "allocate", "tiers": [{"plugins": [{"name": "gangs"}]}]},
        {"actions": [{"name": "backfill", "arguments": {"strategy": "releases"}}]},
        {"actions": [{"name": "allocate", "arguments": {"evictBackfill": "maybe"}}]},
        {"actions": [7]},
        {"actions": "allocate", "tiers": "gang"},
    ],
)
def test_mistakes_in_a_configuration_are_errors(conf):
    with pytest.raises((ValueError, TypeError)):
        reference_schedule(SNAPSHOT, conf)
