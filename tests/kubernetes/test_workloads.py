"""Pods of Kubernetes' own Jobs and of LeaderWorkerSets become jobs."""

from __future__ import annotations

import pytest
from tests.support.kubernetes_objects import node, pod

from batchsched import KubernetesObjectError, TaskGroup, schedule
from batchsched.kubernetes import read_dump, read_objects

NAME, INDEX = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"
SIZE = "leaderworkerset.sigs.k8s.io/size"


def read(pods, **more):
    return read_objects(nodes=[node(cpu="9")], pods=pods, **more)


def lone(name, phase="Pending", **metadata):
    given = pod(name, metadata=metadata, group=None)
    given["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    given["status"] = {"phase": phase}
    if phase == "Running":
        given["spec"]["nodeName"] = "n1"
    return given


def pods_of(name, count, key="batch.kubernetes.io/job-name", phase="Pending"):
    return [lone(f"{name}-{phase}-{n}", phase, labels={key: name}) for n in range(count)]


def job(name="train", **spec):
    status = spec.pop("status", {})
    return {"metadata": {"name": name, "namespace": "a"}, "spec": spec, "status": status}


@pytest.mark.parametrize("key", ["batch.kubernetes.io/job-name", "job-name"])
def test_a_job_runs_as_many_pods_as_its_parallelism(key) -> None:
    snapshot, notices = read(pods_of("train", 5, key), jobs=[job(parallelism=3)])
    (read_job,) = snapshot.jobs
    assert (read_job.uid, read_job.min_available, read_job.max_available) == ("a/train", 1, 3)
    assert len(schedule(snapshot).binds) == 3
    assert notices == ()


def test_a_job_runs_no_more_pods_than_it_has_to_complete() -> None:
    pods = [*pods_of("train", 4), *pods_of("train", 1, phase="Succeeded")]
    three_left = job(parallelism=4, completions=6, status={"succeeded": 3})
    snapshot, _ = read(pods, jobs=[three_left])
    assert snapshot.jobs[0].max_available == 3
    one_seen, _ = read(pods, jobs=[job(parallelism=4, completions=2)])
    assert one_seen.jobs[0].max_available == 1
    done, _ = read(pods, jobs=[job(parallelism=4, completions=1)])
    assert schedule(done).binds == ()


def test_a_suspended_job_is_held() -> None:
    snapshot, notices = read(pods_of("train", 2), jobs=[job(parallelism=2, suspend=True)])
    assert schedule(snapshot).binds == ()
    assert notices == ()
    assert [str(hold) for hold in snapshot.jobs[0].holds] == ["Job train is suspended"]


def test_pods_of_jobs_that_are_not_given_are_jobs_by_themselves() -> None:
    snapshot, _ = read(pods_of("other", 2), jobs=[job("train", parallelism=1)])
    assert len(snapshot.jobs) == 2
    assert len(read(pods_of("train", 2))[0].jobs) == 2


def test_a_parallelism_that_is_no_number_is_a_fault() -> None:
    with pytest.raises(KubernetesObjectError) as caught:
        read(pods_of("train", 1), jobs=[job(parallelism="many")])
    assert "jobs['a/train'].spec.parallelism" in str(caught.value)


def test_a_status_that_is_no_mapping_is_a_fault_whatever_is_read_of_it() -> None:
    for fields in ({"parallelism": 1}, {"parallelism": 1, "completions": 1}):
        with pytest.raises(KubernetesObjectError) as caught:
            read(pods_of("train", 1), jobs=[job(status="Running", **fields)])
        assert str(caught.value) == "jobs['a/train'].status: expected a mapping, got 'Running'"


def replicas(size="2", counts=(2, 2)):
    marks = {} if size is None else {"annotations": {SIZE: size}}
    return [
        lone(f"serve-{replica}-{worker}", labels={NAME: "serve", INDEX: str(replica)}, **marks)
        for replica, count in enumerate(counts)
        for worker in range(count)
    ]


def test_replicas_of_a_leader_worker_set_start_whole() -> None:
    snapshot, notices = read(replicas(), leader_worker_sets=True)
    (serve,) = snapshot.jobs
    assert serve.groups == (TaskGroup("0", min=2), TaskGroup("1", min=2))
    assert (serve.uid, serve.min_groups, notices) == ("a/serve", 1, ())
    assert len(schedule(snapshot).binds) == 4
    room_for_three, _ = read_objects(
        nodes=[node(cpu="3")], pods=replicas(), leader_worker_sets=True
    )
    assert len(schedule(room_for_three).binds) == 2


def test_a_replica_of_which_pods_are_missing_waits_for_them() -> None:
    snapshot, _ = read(replicas(counts=(1, 2)), leader_worker_sets=True)
    assert sorted(b.task_uid for b in schedule(snapshot).binds) == sorted(
        task.uid for task in snapshot.jobs[0].tasks if task.group == "1"
    )


def test_without_a_size_all_pods_that_are_there_start_together_which_is_noted() -> None:
    snapshot, (notice, *_) = read(replicas(size=None), leader_worker_sets=True)
    assert [group.min for group in snapshot.jobs[0].groups] == [2, 2]
    assert SIZE in notice.field


def test_the_labels_mean_nothing_unless_that_is_asked_for() -> None:
    assert len(read(replicas())[0].jobs) == 4


def dump_of(pods, *others, scheduler="volcano"):
    for one in pods:
        one |= {"apiVersion": "v1", "kind": "Pod"}
        one["spec"]["schedulerName"] = scheduler
    machine = node(cpu="9") | {"apiVersion": "v1", "kind": "Node"}
    return read_dump([machine, *pods, *others])


BATCH_JOB = {"apiVersion": "batch/v1", "kind": "Job"}


def test_a_dump_has_one_job_for_the_pods_of_a_job() -> None:
    read = dump_of(pods_of("train", 5), BATCH_JOB | job(parallelism=3))
    (read_job,) = read.snapshot.jobs
    assert (read_job.min_available, read_job.max_available, len(read_job.tasks)) == (1, 3, 5)
    assert read.find("Job/train") == read.find("train-Pending-0") == "a/train"
    assert (read.facts["a/train"].kind, read.facts["a/train"].owner) == ("Job", "train")
    assert len(schedule(read.snapshot).binds) == 3


def test_a_job_has_the_annotations_of_its_template() -> None:
    template = {"metadata": {"annotations": {"batchsched/estimate": "1h", "batchsched/user": "x"}}}
    given = BATCH_JOB | job(parallelism=2, template=template)
    given["metadata"]["annotations"] = {"batchsched/user": "ada"}
    (read_job,) = dump_of(pods_of("train", 2), given).snapshot.jobs
    assert (read_job.estimate, read_job.user) == (3600, "ada")


def test_a_dump_has_one_job_for_the_replicas_of_a_leader_worker_set() -> None:
    read = dump_of(replicas())
    (serve,) = read.snapshot.jobs
    assert serve.groups == (TaskGroup("0", min=2), TaskGroup("1", min=2))
    assert (read.facts["a/serve"].kind, read.find("leaderworkerset/serve")) == (
        "LeaderWorkerSet",
        "a/serve",
    )


def test_the_kube_scheduler_places_pods_of_jobs_and_sets_one_by_one() -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue"}
    read = dump_of(
        [*pods_of("train", 3), *replicas(counts=(1, 2))],
        BATCH_JOB | job(parallelism=1),
        queue | {"metadata": {"name": "q"}},
        scheduler="default-scheduler",
    )
    assert [(one.uid, one.min_available, one.max_available) for one in read.snapshot.jobs] == [
        ("a/serve", 1, None),
        ("a/train", 1, None),
    ]
    assert len(schedule(read.snapshot).binds) == 6


def test_a_job_whose_name_is_that_of_a_group_has_another() -> None:
    group = {"metadata": {"name": "train", "namespace": "a"}, "spec": {"minMember": 1}}
    snapshot, _ = read(pods_of("train", 2), jobs=[job(parallelism=2)], pod_groups=[group])
    assert [(one.uid, len(one.tasks)) for one in snapshot.jobs] == [
        ("a/Job/train", 2),
        ("a/train", 0),
    ]


def test_replicas_come_in_the_order_of_their_numbers() -> None:
    snapshot, _ = read(replicas(counts=(2,) * 12), leader_worker_sets=True)
    assert [group.name for group in snapshot.jobs[0].groups] == [str(n) for n in range(12)]
