import pytest

from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskInfo
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
