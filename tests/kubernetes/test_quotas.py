"""Quotas of queues: of pods, of what Kueue has reserved, and what becomes of them in answers."""

import pytest
from tests.support import dumps
from tests.support.program import run

from batchsched import Scheduler, SchedulerConfig, schedule
from batchsched.kubernetes import read_dump

WIDE = ("--width", 200)


def pods_quota(most, cpu="8"):
    queue = dumps.cluster_queue(cpu=cpu, memory=None)
    (group,) = queue["spec"]["resourceGroups"]
    group["coveredResources"].append("pods")
    group["flavors"][0]["resources"].append({"name": "pods", "nominalQuota": most})
    return [queue, dumps.local_queue(), dumps.node("n1", "64")]


def without_memory(workload):
    for one in workload["spec"]["podSets"]:
        for container in one["template"]["spec"]["containers"]:
            del container["resources"]["requests"]["memory"]
            container["resources"].pop("limits", None)
    return workload


def waiting(name="w", count=2, owner=None, **more):
    return without_memory(dumps.workload(name, owner, count, **more))


def test_a_quota_of_pods_is_one():
    for most, said in (("2", "would start"), ("1", "has 1 pod, and it needs 2 pods")):
        ended = run("why", "w", *WIDE, given=[*pods_quota(most), waiting()])
        assert said in ended.out
    # Those that are admitted use it up.
    job = dumps.kueue_job("runs", suspend=False)
    told = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    status = {"admission": {"clusterQueue": "research"}}
    runs = [
        job,
        waiting("runs", 1, owner=job, conditions=told, status=status),
        dumps.pod("runs-a", "1", owner=job, on="n1"),
    ]
    for pod in runs[2:]:
        del pod["spec"]["containers"][0]["resources"]["requests"]["memory"]
        del pod["spec"]["containers"][0]["resources"]["limits"]
    ended = run("why", "w", *WIDE, given=[*pods_quota("2"), *runs, waiting()])
    assert "queue research would hold 3 pods, more than its limit of 2 pods" in ended.out
    assert "queue research: limit 3 pods instead of 2 pods" in ended.out


def test_where_no_quota_counts_pods_no_pod_requests_one():
    dump = read_dump(dumps.everything())
    tasks = [task for job in dump.snapshot.jobs for task in job.tasks]
    assert not any("pods" in task.resreq.scalars for task in tasks)


def test_a_capability_of_pods_binds_all_queues_below_it():
    queues = [
        dumps.volcano_queue("top", capability={"pods": "2"}),
        dumps.volcano_queue("low", parent="top"),
    ]
    group = dumps.volcano_group("g", 1, queue="low")
    dump = read_dump([*queues, group, *dumps.volcano_pods("g", "g", 3), dumps.node("n1", "64")])
    tiers = [{"plugins": [{"name": name} for name in ("gang", "predicates", "capacity")]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": tiers})
    assert len(Scheduler(config).schedule(dump.snapshot).binds) == 2
    free = read_dump([queues[1], group, *dumps.volcano_pods("g", "g", 3), dumps.node("n1", "64")])
    assert len(schedule(free.snapshot).binds) == 3


# Kueue asks its quota, and not the nodes


def quota_without_memory(cpu):
    return [dumps.cluster_queue(cpu=cpu, memory=None), dumps.local_queue()]


def test_kueue_asks_its_quota_and_not_the_nodes_before_admission():
    given = [*quota_without_memory("8"), dumps.node("n1", "3"), waiting()]  # two pods of 2 cpu
    ended = run("why", "w", *WIDE, given=given)
    assert ended.lines[0].startswith("team/w waits, not admitted")
    assert "admitted, 1 of its 2 pods would start: 1 task on n1" in ended.out
    assert "never" not in ended.out
    freed = run("what-if", "release w", *WIDE, given=given)
    assert freed.lines[0] == "1 task of 1 job starts that waits now; nothing is evicted"
    # It asks for the quota of all of it.
    given[0] = dumps.cluster_queue(cpu="3", memory=None)
    told = run("why", "w", *WIDE, given=given)
    assert "would start" not in told.out
    assert "has 3 cpu, and it needs 4 cpu" in told.out


def test_a_pod_that_no_node_could_take_never_fits_whatever_the_quota():
    given = [*quota_without_memory("8"), dumps.node("n1", "1"), waiting()]
    ended = run("why", "w", *WIDE, given=given)
    assert ended.lines[0].startswith("team/w waits, never fits: no node has 2 cpu")


def test_of_a_rack_kueue_asks_the_nodes_too():
    workload = waiting()
    workload["spec"]["podSets"][0]["topologyRequest"] = {"required": "rack"}
    racks = [dumps.node(f"n{n}", "3", labels={"rack": f"r{n}"}) for n in range(2)]
    topology = dumps.thing(
        "kueue.x-k8s.io/v1beta2",
        "Topology",
        "t",
        namespace="",
        spec={"levels": [{"nodeLabel": "rack"}]},
    )
    given = [*quota_without_memory("8"), *racks, topology, workload]
    assert "pods would start" not in run("why", "w", *WIDE, given=given).out


# Quota that is reserved is quota


def reserved(name, count, *, checks=True):
    """Return a Workload with quota, whose admission waits for a check."""
    told = [dumps.condition("QuotaReserved", "True")]
    status = {"admission": {"clusterQueue": "research"}}
    if checks:
        told.append(dumps.condition("Admitted", "False", "UnsatisfiedAdmissionChecks"))
        status["admissionChecks"] = [{"name": "prov", "state": "Pending", "message": "not yet"}]
    return waiting(name, count, conditions=told, status=status)


def test_reserved_quota_counts_though_no_pod_runs():
    # 8 of 12 cpu: two pods of 2 run, two more are to come; a job of two pods waits.
    given = [*quota_without_memory("6"), dumps.node("n1", "64"), reserved("new", 2), waiting()]
    ended = run("why", "w", *WIDE, given=given)
    assert "queue research would hold 8 cpu, more than its limit of 6 cpu" in ended.out
    assert "queue research: limit 8 cpu instead of 6 cpu" in ended.out
    assert "would start" not in ended.out.partition("It would start now")[0]
    more = [dumps.cluster_queue(cpu="8", memory=None), *given[1:]]
    assert "it would start if Kueue decides as here" in run("why", "w", *WIDE, given=more).out


def test_reserved_quota_needs_no_nodes_of_now():
    # The check brings nodes: what is there is for those that fit.
    given = [*quota_without_memory("12"), dumps.node("n1", "4"), reserved("new", 3), waiting()]
    assert "it would start if Kueue decides as here" in run("why", "w", *WIDE, given=given).out


# What a cohort lends


def in_cohort(name, cpu, **more):
    queue = dumps.cluster_queue(name, cpu=cpu, memory=None)
    queue["spec"]["cohortName"] = "all"
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= more
    return queue


def test_a_workload_larger_than_what_others_lend_is_never_admitted():
    others = [dumps.local_queue(), dumps.node("n1", "64")]
    given = [in_cohort("research", "9"), in_cohort("b", "9", lendingLimit="1"), *others]
    workload = waiting(count=6)  # of 2 cpu each
    ended = run("why", "w", *WIDE, given=[*given, workload])
    assert ended.lines[0].startswith("team/w waits, never fits")
    said = "can get 10 cpu (9 cpu of its own, 1 cpu lent), and it needs 12 cpu"
    assert said in ended.out
    given[1] = in_cohort("b", "9", lendingLimit="3")
    assert "would start" in run("why", "w", *WIDE, given=[*given, workload]).out
    # What it may borrow is less than what others lend.
    given[0] = in_cohort("research", "9", borrowingLimit="2")
    assert "can get 11 cpu" in run("why", "w", *WIDE, given=[*given, workload]).out


def test_cohorts_lend_to_each_other_below_one():
    cohort = {"parentName": "top"}
    cohorts = [
        dumps.thing("kueue.x-k8s.io/v1beta2", "Cohort", name, namespace="", spec=spec)
        for name, spec in (("all", cohort), ("rest", cohort), ("top", {}))
    ]
    far = in_cohort("far", "9")
    far["spec"]["cohortName"] = "rest"
    others = [dumps.local_queue(), dumps.node("n1", "64"), waiting(count=9)]
    given = [*cohorts, far, in_cohort("research", "9"), *others]
    assert "would start" in run("why", "w", *WIDE, given=given).out
    far["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "8"
    assert "can get 17 cpu" in run("why", "w", *WIDE, given=given).out


# Other clusters, other pods


def test_where_multikueue_lets_a_job_run_is_not_here():
    check = dumps.thing(
        "kueue.x-k8s.io/v1beta2",
        "AdmissionCheck",
        "far",
        namespace="",
        spec={"controllerName": "kueue.x-k8s.io/multikueue"},
    )
    queue = dumps.cluster_queue(memory=None)
    queue["spec"]["admissionChecks"] = ["far"]
    given = [queue, dumps.local_queue(), dumps.node("n1", "64"), check, waiting()]
    ended = run("why", "w", *WIDE, given=given)
    assert ended.lines[0].startswith("team/w waits, not admitted")
    assert "MultiKueue sends the job to another cluster" in ended.out
    assert "n1" not in ended.out
    # One that is admitted is there, whether or not Kueue names the cluster in a field.
    told = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    checks = [{"name": "far", "state": "Ready", "message": "reservation on worker1"}]
    status = {"admission": {"clusterQueue": "research"}, "admissionChecks": checks}
    runs = waiting("runs", conditions=told, status=status)
    table = run("jobs", "--all", "--json", given=[*given, runs]).data["jobs"]
    assert [each["job"] for each in table] == ["team/w"]


def test_kueue_counts_the_pod_that_submits_a_ray_job():
    template = dumps.template("2")
    for container in template["spec"]["containers"]:
        del container["resources"]["requests"]["memory"], container["resources"]["limits"]
    cluster = {"headGroupSpec": {"template": template}}
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": "ray",
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/queue-name": "user-queue"},
        },
        "spec": {"rayClusterSpec": cluster},
    }
    (job,) = read_dump(quota_without_memory("8"), submitted=[ray]).snapshot.jobs
    assert sorted(task.resreq.milli_cpu for task in job.tasks) == [500, 2000]
    ray["spec"]["submissionMode"] = "HTTPMode"
    (job,) = read_dump(quota_without_memory("8"), submitted=[ray]).snapshot.jobs
    assert [task.resreq.milli_cpu for task in job.tasks] == [2000]


# Jobs without pods


def test_a_job_without_pods_waits_and_a_resource_quota_that_is_used_up_is_why():
    spec = {"parallelism": 2, "template": dumps.template("2")}
    job = dumps.thing("batch/v1", "Job", "new", spec=spec)
    ended = run("why", "new", *WIDE, given=[dumps.node("n1"), job])
    assert ended.lines[0].startswith("team/new waits, incomplete")
    hard = {"requests.cpu": "4", "pods": "9"}
    for used, is_why in (("3", True), ("2", False)):
        status = {"hard": hard, "used": {"requests.cpu": used, "pods": "1"}}
        quota = dumps.thing("v1", "ResourceQuota", "compute", spec={"hard": hard}, status=status)
        ended = run("why", "new", *WIDE, given=[dumps.node("n1"), job, quota])
        assert ended.lines[0].startswith("team/new waits, incomplete: ")
        assert ("no more pods of Job new be made: 3 cpu of 4 cpu (requests.cpu)" in ended.out) is (
            is_why
        )
        assert ("once ResourceQuota compute has room for its pods" in ended.out) is is_why
        assert "starts now" not in ended.out
        assert "check" not in ended.out
    for status in ({"active": 2}, {"conditions": [dumps.condition("Complete", "True")]}):
        assert read_dump([job | {"status": status}]).snapshot.jobs == ()
    pod = dumps.pod("new-a", owner=job, on="n1")
    assert read_dump([dumps.node("n1"), job, pod]).snapshot.jobs == ()


@pytest.mark.parametrize("system", ["kubernetes", "volcano"])
def test_a_group_lacks_the_pods_that_a_resource_quota_lets_not_be_made(system):
    hard = {"pods": "1"}
    quota = dumps.thing(
        *("v1", "ResourceQuota", "few"),
        spec={"hard": hard},
        status={"hard": hard, "used": {"pods": "1"}},
    )
    if system == "kubernetes":
        job = dumps.thing("batch/v1", "Job", "new", spec={"parallelism": 2})
        job["spec"]["template"] = dumps.template("1")
        group = dumps.native_group("new-1", 2, owner=job)
        pods = dumps.members("new-1", 1, owner=job)
        given = [job, group, *pods]
    else:
        job = dumps.volcano_job("new", 2)
        group = dumps.volcano_group("new-1", 2, owner=job)
        given = [dumps.volcano_queue("default"), job, group, *dumps.volcano_pods("new-1", "new", 1)]
    ended = run("why", "new", *WIDE, given=[dumps.node("n1"), *given])
    assert ended.lines[0].endswith("waits, incomplete: 1 of the 2 tasks that it needs exist")
    ended = run("why", "new", *WIDE, given=[dumps.node("n1"), *given, quota])
    assert ended.lines[0].endswith(
        "waits, incomplete: ResourceQuota few lets no more pods of Job new be made: 1 pod of 1 pod "
        "(pods) in use, and each pod needs 1 pod"
    )


def test_a_resize_that_is_deferred_is_told():
    pod = dumps.pod("p", on="n1", schedulingGroup={"podGroupName": "g"})
    said = dumps.condition("PodResizePending", "True", "Deferred", "too little cpu on the node")
    pod["status"]["conditions"].append(said)
    ended = run("why", "g", *WIDE, given=[dumps.node("n1"), dumps.native_group("g", 1), pod])
    assert "the kubelet says" in ended.out
    assert "too little cpu on the node" in ended.out
