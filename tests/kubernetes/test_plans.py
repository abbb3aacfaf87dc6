import pytest
from attrs import evolve
from tests.support.kubernetes_objects import container, node, pod, pod_group

from batchsched import (
    Bind,
    CycleResult,
    JobInfo,
    Plan,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    UnknownNameError,
)
from batchsched.kubernetes import plan_patches, snapshot_from_objects

PLANNED_START, PLANNED_NODE = "batchsched/planned-start", "batchsched/planned-node"

PLANNING = Scheduler(
    SchedulerConfig.from_mapping(
        {"actions": "plan", "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}]}
    )
)


def cluster(*pods, now=10.0):
    return snapshot_from_objects(
        nodes=[node("n1", status={"allocatable": {"cpu": "4", "pods": "9"}})],
        pods=pods,
        pod_groups=[pod_group("r"), pod_group("w", minMember=2)],
        queues=[{"metadata": {"name": "q"}}],
        now=now,
    )


def annotated(one, annotations):
    metadata = {**one["metadata"]}
    kept = {**metadata.get("annotations", {}), **annotations}
    metadata["annotations"] = {key: text for key, text in kept.items() if text is not None}
    return {**one, "metadata": metadata}


def running(name):
    status = {"phase": "Running", "startTime": "1970-01-01T00:00:05.25Z"}
    return pod(
        name,
        group="r",
        containers=[container({"cpu": "2"})],
        activeDeadlineSeconds=100,
        nodeName="n1",
        status=status,
    )


def waiting(name):
    return pod(name, group="w", containers=[container({"cpu": "2"})], activeDeadlineSeconds=100)


def test_plans_are_written_read_kept_and_removed() -> None:
    pods = [waiting("w1"), waiting("w2")]
    first = cluster(running("r1"), running("r2"), *pods)
    result = PLANNING.schedule(first)
    patches = plan_patches(result, first)
    assert [patch["metadata"] for patch in patches] == [
        {
            "name": name,
            "namespace": "a",
            "uid": f"uid-{name}",
            "annotations": {PLANNED_START: "105.25", PLANNED_NODE: "n1"},
        }
        for name in ("w1", "w2")
    ]
    pods = [
        annotated(one, p["metadata"]["annotations"]) for one, p in zip(pods, patches, strict=True)
    ]
    second = cluster(running("r1"), running("r2"), *pods, now=20.0)
    [job] = [job for job in second.jobs if job.name == "w"]
    assert job.plan == Plan(start=105.25, nodes={"uid-w1": "n1", "uid-w2": "n1"})
    result = PLANNING.schedule(second)
    assert result.planned[job.uid] == job.plan
    assert plan_patches(result, second) == []  # all is as it should be
    removed = plan_patches(evolve(result, planned={}), second)
    assert [patch["metadata"]["annotations"] for patch in removed] == [
        {PLANNED_START: None, PLANNED_NODE: None}
    ] * 2
    # What was bound is left alone, and its annotations say nothing any more.
    bound = CycleResult(binds=tuple(Bind(task_uid=f"uid-w{n}", node_name="n1") for n in (1, 2)))
    assert plan_patches(bound, second) == []


def test_a_start_that_is_no_number_is_no_plan() -> None:
    broken = annotated(waiting("w1"), {PLANNED_START: "soon", PLANNED_NODE: "n1"})
    assert all(job.plan is None for job in cluster(broken).jobs)
    # Half of it says nothing.
    half = annotated(waiting("w1"), {PLANNED_START: "5"})
    assert all(job.plan is None for job in cluster(half).jobs)


def test_a_result_of_another_snapshot_is_refused() -> None:
    result = CycleResult(planned={"a/j": Plan(start=1, nodes={"gone": "n1"})})
    with pytest.raises(
        UnknownNameError, match="expected a task of the snapshot, got 'gone' in the result"
    ):
        plan_patches(result, Snapshot())
    stale = JobInfo(
        name="j",
        queue="q",
        tasks=[TaskInfo(uid="u", name="u")],
        plan=Plan(start=1, nodes={"gone": "n1"}),
    )
    assert plan_patches(CycleResult(), Snapshot(jobs=[stale])) == []
