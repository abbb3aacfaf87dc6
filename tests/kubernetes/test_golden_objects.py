import copy

import pytest
from attrs import evolve
from tests.support import golden as check
from tests.support.kubernetes_objects import as_python_client

from batchsched import Bind, CycleResult, JobOutcome, JobPhase, TaskOutcome, TaskStatus
from batchsched.kubernetes import snapshot_from_objects

pytestmark = pytest.mark.slow

FILES = check.golden_files()


def cases(path, count=8):
    return [case for case, _ in zip(check.load_cases(path), range(count), strict=False)]


def client_snapshot(case):
    return snapshot_from_objects(
        nodes=as_python_client(case["nodes"]),
        pods={"api_version": "v1", "kind": "PodList", "items": as_python_client(case["pods"])},
        pod_groups=as_python_client(case["podGroups"]),
        queues=as_python_client(case["queues"]),
        priority_classes=as_python_client(case["priorityClasses"]),
        now=case.get("now"),
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_python_clients_objects_give_the_same_snapshot(path):
    for case in cases(path):
        snapshot = check.snapshot_of(case)
        assert client_snapshot(case) == snapshot
        assert sum(len(job.tasks) for job in snapshot.jobs) == len(case["pods"])


def test_the_conversion_to_the_python_clients_notation_converts():
    case = cases(FILES[0], 1)[0]
    converted = as_python_client(case["pods"][0])
    assert converted != case["pods"][0]
    assert converted["spec"]["scheduler_name"] == "kube-batch"
    assert converted["spec"]["node_name"] == "n03"
    assert "scheduling.k8s.io/group-name" in converted["metadata"]["annotations"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_order_of_objects_does_not_matter(path):
    for case in cases(path):
        assert check.snapshot_of(case, shuffle=3) == check.snapshot_of(case)


def expected_result(case, snapshot):
    """Return the result that a case expects."""
    expected = case["expected"]
    uids = {task.full_name: task.uid for job in snapshot.jobs for task in job.tasks}
    return CycleResult(
        binds=tuple(
            Bind(
                task_uid=uids[name],
                node_name=node_name,
                is_backfill=name in expected.get("backfilled", []),
            )
            for name, node_name in expected["binds"].items()
        ),
        tasks={
            uids[name]: TaskOutcome(status=TaskStatus(task["status"]), node_name=task.get("node"))
            for name, task in expected["tasks"].items()
        },
        jobs={uid: JobOutcome(phase=JobPhase(said)) for uid, said in expected["phases"].items()},
    )


@pytest.fixture(name="backfilling")
def _backfilling():
    path = next(path for path in FILES if path.name.startswith("backfill"))
    for case in check.load_cases(path):
        if case["expected"].get("backfilled") and not case["expected"]["evictions"]:
            snapshot = check.snapshot_of(case)
            return case, snapshot, expected_result(case, snapshot)
    raise AssertionError("no case with backfilled tasks")


def test_the_expected_result_has_no_differences(backfilling):
    case, snapshot, result = backfilling
    assert check.differences(case, result, snapshot) == []


def test_every_kind_of_difference_is_found(backfilling):
    case, snapshot, result = backfilling
    uid, outcome = next(iter(result.tasks.items()))
    job_uid = next(iter(result.jobs))
    plain = [evolve(bind, is_backfill=False) for bind in result.binds]
    moved = [evolve(bind, node_name="elsewhere") for bind in result.binds]
    changed = {
        "task ": evolve(result, tasks=result.tasks | {uid: evolve(outcome, node_name="x")}),
        "bind ": evolve(result, binds=tuple(moved)),
        "binds: ": evolve(result, binds=result.binds * 2),
        "phase ": evolve(
            result, jobs={key: value for key, value in result.jobs.items() if key != job_uid}
        ),
        "backfilled: ": evolve(result, binds=tuple(plain)),
    }
    for start, other in changed.items():
        found = check.differences(case, other, snapshot)
        assert found
        assert all(line.startswith((start, "backfilled: ")) for line in found)
        assert any(line.startswith(start) for line in found)
    evicting = copy.deepcopy(case)
    evicting["expected"]["evictions"] = ["a/x"]
    assert check.differences(evicting, result, snapshot) == ["evictions: expected ['a/x'], got []"]
