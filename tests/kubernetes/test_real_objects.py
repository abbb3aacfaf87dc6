"""Full-size objects, as clusters have them: all of it is read, whatever the notation."""

import json
from collections import Counter

import pytest
from tests.support.cluster_dump import DUMP, FIXTURES, text_of
from tests.support.kubernetes_objects import as_python_client

from batchsched import (
    KubernetesObjectError,
    NoticeCode,
    Resource,
    SchedulerConfig,
    TaskStatus,
    schedule,
)
from batchsched.kubernetes import binding_objects, read_objects

GIB = 1 << 30


def read(dump=DUMP, **more):
    return read_objects(**dump, scheduler_name="volcano", **more)


SNAPSHOT, NOTICES = read()
TASKS = {task.name: task for job in SNAPSHOT.jobs for task in job.tasks}


@pytest.mark.parametrize("argument", sorted(DUMP))
def test_the_files_hold_what_the_module_builds(argument):
    # Written by: python -m tests.support.cluster_dump
    assert (FIXTURES / f"{argument}.json").read_text(encoding="utf-8") == text_of(argument)
    assert json.loads(text_of(argument)) == DUMP[argument]


def test_the_python_clients_notation_gives_the_same_snapshot_and_notices():
    client = {argument: as_python_client(given) for argument, given in DUMP.items()}
    assert client["pods"]["items"][0]["spec"]["scheduler_name"] == "volcano"
    assert read(client) == (SNAPSHOT, NOTICES)


def test_plain_lists_give_the_same_snapshot_and_notices():
    assert read({argument: given["items"] for argument, given in DUMP.items()}) == (
        SNAPSHOT,
        NOTICES,
    )


def test_requests_count_with_sidecars_init_containers_and_overhead():
    worker = TASKS["train-worker-2"]
    gpus = {"nvidia.com/gpu": 2000}
    memory = 96 * GIB + (128 << 20) + (120 << 20)
    assert worker.resreq == Resource(milli_cpu=12500, memory=memory, scalars=gpus)
    # "fetch" runs before the sidecar, so alone
    assert worker.init_resreq == Resource(milli_cpu=16250, memory=memory, scalars=gpus)


def test_requests_count_in_every_notation():
    amounts = [TASKS[f"sweep-{i}"].resreq for i in range(5)]
    assert [amount.milli_cpu for amount in amounts] == [1500, 1500, 1500, 2000, 500]
    assert [amount.memory for amount in amounts] == [
        2 * GIB,
        2 * GIB,
        2 * 10**9,
        128974848,
        512 * 10**6,
    ]
    assert dict(amounts[3].scalars) == {"ephemeral-storage": 20 * GIB * 1000}
    assert dict(amounts[4].scalars) == {"hugepages-2Mi": (64 << 20) * 1000}
    assert TASKS["etl-0"].resreq == Resource(milli_cpu=3000, memory=6 * GIB)


def test_every_pod_is_a_task_a_neighbour_or_left_out_with_a_notice():
    others = {task.name for task in SNAPSHOT.other_tasks}
    left_out = {item["metadata"]["name"] for item in DUMP["pods"]["items"]} - others - set(TASKS)
    assert left_out == {"web-6f5d8c-fghij"}
    assert Counter(task.status for task in TASKS.values()) == {
        TaskStatus.RUNNING: 6,
        TaskStatus.PENDING: 9,  # one of a group that is not given, and so held
        TaskStatus.UNKNOWN: 1,  # on a node that is not there
        TaskStatus.RELEASING: 1,
        TaskStatus.SUCCEEDED: 1,
    }


def test_notices_tell_all_that_is_not_honoured():
    assert [(n.code, n.kind, n.field, n.count) for n in NOTICES] == [
        (
            NoticeCode.GROUP_MISSING,
            "Pod",
            "metadata.annotations['scheduling.k8s.io/group-name']",
            1,
        ),
        (NoticeCode.NODE_MISSING, "Pod", "spec.nodeName", 1),
        (NoticeCode.FIELD_IGNORED, "Pod", "spec.resourceClaims", 1),
        (NoticeCode.OTHER_SCHEDULER, "Pod", "spec.schedulerName", 1),
        (NoticeCode.FIELD_IGNORED, "Pod", "spec.topologySpreadConstraints", 5),
        (NoticeCode.FIELD_IGNORED, "Pod", "spec.volumes", 1),
        (NoticeCode.PRIORITY_CLASS_MISSING, "PodGroup", "spec.priorityClassName", 1),
    ]


def test_strict_refuses_the_dump_with_a_fault_for_each_object():
    with pytest.raises(KubernetesObjectError) as caught:
        read(strict=True)
    assert len(caught.value.faults) == sum(notice.count for notice in NOTICES)


def test_the_default_configuration_schedules_what_waits():
    result = schedule(SNAPSHOT, config=SchedulerConfig())
    bound = {binding["metadata"]["name"] for binding in binding_objects(result, SNAPSHOT)}
    assert bound == {"train-worker-2", "sweep-3", "sweep-4", "etl-0", "notebook-0", "shell"}
