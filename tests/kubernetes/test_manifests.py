"""What is submitted is read as once controllers have made their objects of it."""

import pytest
from tests.support import dumps

from batchsched import KubernetesObjectError, explain, schedule
from batchsched.kubernetes import read_dump, submitted_objects
from batchsched.tools import standings

TEMPLATE = dumps.template("2")


def manifest(version, kind, name, spec=None, *, labels=None, **more):
    metadata = {"name": name, "namespace": "team"} | ({"labels": labels} if labels else {})
    return (
        {"apiVersion": version, "kind": kind, "metadata": metadata}
        | ({} if spec is None else {"spec": spec})
        | more
    )


def of_scheduler(name, **more):
    return {**TEMPLATE, "spec": TEMPLATE["spec"] | {"schedulerName": name} | more}


def job(name="train", count=2, template=TEMPLATE, **more):
    spec = {"parallelism": count, "completions": count, "template": template}
    return manifest("batch/v1", "Job", name, spec, **more)


JOB_SET = manifest(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    "sets",
    {
        "replicatedJobs": [
            {"name": "leader", "template": {"spec": {"template": TEMPLATE}}},
            {
                "name": "workers",
                "replicas": 2,
                "template": {"spec": {"parallelism": 2, "completions": 2, "template": TEMPLATE}},
            },
        ]
    },
)
LEADER_WORKER_SET = manifest(
    "leaderworkerset.x-k8s.io/v1",
    "LeaderWorkerSet",
    "serve",
    {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
)
RAY = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"groupName": "cpu", "replicas": 2, "template": TEMPLATE}],
}
RAY_CLUSTER = manifest("ray.io/v1", "RayCluster", "ray", RAY)
VOLCANO_JOB = manifest(
    "batch.volcano.sh/v1alpha1",
    "Job",
    "mpi",
    {
        "queue": "default",
        "minAvailable": 3,
        "tasks": [
            {"name": "master", "replicas": 1, "template": of_scheduler("volcano")},
            {"name": "worker", "replicas": 2, "template": of_scheduler("volcano")},
        ],
    },
)
KUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
IN_KUEUE = [dumps.local_queue(), dumps.cluster_queue(cpu="8")]


@pytest.mark.parametrize(
    ("given", "pods"),
    [
        (job(), 2),
        (JOB_SET, 5),
        (LEADER_WORKER_SET, 4),
        (RAY_CLUSTER, 3),
        (manifest("ray.io/v1", "RayJob", "ray", {"rayClusterSpec": RAY}), 3),
        (manifest("apps/v1", "Deployment", "web", {"replicas": 3, "template": TEMPLATE}), 3),
        (manifest("v1", "Pod", "one", TEMPLATE["spec"]), 1),
        (
            manifest(
                "kubeflow.org/v1",
                "PyTorchJob",
                "torch",
                {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}},
            ),
            2,
        ),
    ],
    ids=lambda each: each["kind"] if isinstance(each, dict) else "",
)
def test_each_kind_becomes_pods_that_start(given, pods):
    dump = read_dump([dumps.node("n1", "64")], submitted=[given])
    tasks = [task for job in dump.snapshot.jobs for task in job.tasks]
    assert len(tasks) == pods
    assert sorted(job.uid for job in dump.snapshot.jobs) == list(dump.submitted)
    assert len(schedule(dump.snapshot).binds) == pods


def told(dump, uid):
    """Return all that `why` says of a job."""
    result = schedule(dump.snapshot)
    return str(explain(dump.snapshot, result, uid, facts=dump.facts))


def made_by_controllers(given):
    """Return what is in the cluster once it is submitted, as an API server gives it."""
    made = []
    for each in submitted_objects([given]):
        metadata = {**each["metadata"], "creationTimestamp": dumps.NOW}
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if "submitted" not in key
        }
        made.append({**each, "metadata": metadata})
    return made[::-1]


@pytest.mark.parametrize("room", ["64", "3"], ids=["room", "full"])
@pytest.mark.parametrize(
    ("given", "there"),
    [
        (job(), []),
        (job(labels=KUEUE), IN_KUEUE),
        (job(template=of_scheduler("kai-scheduler")), []),
        (JOB_SET, []),
        ({**JOB_SET, "metadata": JOB_SET["metadata"] | {"labels": KUEUE}}, IN_KUEUE),
        (LEADER_WORKER_SET, []),
        (
            {
                **LEADER_WORKER_SET,
                "metadata": {"name": "serve", "namespace": "team", "labels": KUEUE},
            },
            IN_KUEUE,
        ),
        (RAY_CLUSTER, []),
        (VOLCANO_JOB, []),
        (dumps.native_group("gang", 2), dumps.members("gang", 2)),
    ],
    ids=[
        "Job",
        "Kueue",
        "KAI",
        "JobSet",
        "JobSetKueue",
        "LWS",
        "LWSKueue",
        "Ray",
        "Volcano",
        "PodGroup",
    ],
)
def test_the_answer_before_it_is_submitted_is_the_answer_afterwards(given, there, room):
    cluster = [dumps.node("n1", room), dumps.node("n2", room), *there]
    cluster.append(dumps.pod("other", on="n1"))
    if "uid" in given["metadata"]:
        given = {**given, "metadata": {"name": "gang", "namespace": "team"}}
    names = {"now": dumps.NOW, "scheduler_names": ["default-scheduler"]}
    before = read_dump(cluster, submitted=[given], **names)
    after = read_dump([*cluster, *made_by_controllers(given)], **names)
    assert before.submitted
    for uid in before.submitted:
        assert told(before, uid) == told(after, uid)


def test_a_job_for_kueue_is_not_tried_yet_and_one_for_volcano_not_let_in():
    dump = read_dump([dumps.node("n1", "8"), *IN_KUEUE], submitted=[job(labels=KUEUE), VOLCANO_JOB])
    found = standings(dump.snapshot, schedule(dump.snapshot), facts=dump.facts)
    texts = {each.job: each.text.partition(": ")[2] for each in found}
    assert texts == {
        "team/job-train": "research has not admitted it: Kueue has not tried it yet",
        "team/mpi": "the phase of its PodGroup is Pending: action enqueue has not admitted it",
    }


def test_a_job_that_kueue_is_to_try_is_told_as_one_that_it_has_not_tried():
    cluster = [dumps.node("n1", "8"), *IN_KUEUE]
    before = read_dump(cluster, submitted=[job(labels=KUEUE)], now=dumps.NOW)
    suspended = dumps.kueue_job("train")
    real = [suspended, dumps.workload("job-train", suspended, 2)]
    for each in real:
        each["metadata"]["creationTimestamp"] = dumps.NOW
    after = read_dump([*cluster, *real], now=dumps.NOW)
    assert told(before, "team/job-train") == told(after, "team/job-train")


def test_gangs_are_as_their_schedulers_make_them():
    ray = {**RAY_CLUSTER, "metadata": {"name": "ray", "namespace": "team"}}
    ray["metadata"]["labels"] = {"ray.io/scheduler-name": "volcano"}
    kai = {**of_scheduler("kai-scheduler")}
    serve = {**LEADER_WORKER_SET, "spec": {"replicas": 2, "leaderWorkerTemplate": {}}}
    serve["spec"]["leaderWorkerTemplate"] = {"size": 2, "workerTemplate": kai}
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    native = {**job("native", 3), "spec": {**job("native", 3)["spec"], "scheduling": policy}}
    dump = read_dump([dumps.node("n1", "64")], submitted=[ray, serve, native])
    found = {job.name: (len(job.tasks), job.min_available) for job in dump.snapshot.jobs}
    assert found == {
        "ray-ray-pg": (3, 3),
        "pg-serve-0": (2, 2),
        "pg-serve-1": (2, 2),
        "native": (3, 2),
    }


def test_what_is_submitted_comes_last_and_what_is_there_stays():
    there = dumps.native_group("there", 1)
    objects = [dumps.node("n1", "2"), there, *dumps.members("there", 1, "2")]
    dump = read_dump(objects, submitted=[job("new", 1)], now=dumps.NOW)
    assert dump.submitted == ("team/new",)
    (bound,) = schedule(dump.snapshot).binds
    assert dump.snapshot.task(bound.task_uid).name == "there-0"
    again = read_dump(
        objects, submitted=[{**there, "metadata": {"name": "there", "namespace": "team"}}]
    )
    assert again.submitted == ()
    assert again.snapshot == read_dump(objects).snapshot


def test_no_manifest_becomes_endlessly_many_pods():
    with pytest.raises(KubernetesObjectError, match="Job train: expected at most 100000 pods"):
        read_dump([], submitted=[job(count=10**9)])
    huge = {"size": 10**5, "workerTemplate": TEMPLATE}
    spec = {"replicas": 10**5, "leaderWorkerTemplate": huge}
    with pytest.raises(KubernetesObjectError, match="expected at most 100000 pods"):
        read_dump([], submitted=[{**LEADER_WORKER_SET, "spec": spec}])
    of_none = {"name": "a", "replicas": 10**9, "template": {"spec": {"parallelism": 0}}}
    with pytest.raises(KubernetesObjectError, match="expected at most 100000 pods"):
        read_dump([], submitted=[{**JOB_SET, "spec": {"replicatedJobs": [of_none]}}])


@pytest.mark.parametrize("spec", [None, [], {"template": 3}, {"parallelism": "x"}, {"tasks": [1]}])
def test_manifests_without_sense_are_read_all_the_same(spec):
    kinds = [("batch/v1", "Job"), ("batch.volcano.sh/v1alpha1", "Job"), ("ray.io/v1", "RayCluster")]
    kinds += [("jobset.x-k8s.io/v1", "JobSet"), ("kubeflow.org/v1", "MPIJob")]
    kinds += [("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")]
    for version, kind in kinds:
        given = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
        try:
            found = read_dump([dumps.node("n1")], submitted=[given])
        except KubernetesObjectError:
            continue
        assert set(found.submitted) <= {job.uid for job in found.snapshot.jobs}
