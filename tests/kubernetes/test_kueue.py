"""Reading what Kueue says of jobs: Workloads, LocalQueues, ClusterQueues and their quotas."""

import pytest
from tests.support import dumps

from batchsched import HoldKind, NoticeCode, QueueStatus, WhyPending, schedule
from batchsched.kubernetes import read_dump
from batchsched.model.topology import Segment, TopologyRequest
from batchsched.tools import JobStatus, Released, explain, standings, what_if

GROWS = "kueue.x-k8s.io/elastic-job"
NO_MESSAGE = "couldn't assign flavors to pod set main: insufficient unused quota for cpu"


def only_job(dump):
    (job,) = dump.snapshot.jobs
    return job


def started(dump):
    result = schedule(dump.snapshot)
    return sorted(dump.snapshot.task(bind.task_uid).name for bind in result.binds)


def kinds(job):
    return [hold.kind for hold in job.holds]


def test_a_suspended_job_waits_for_admission():
    dump = read_dump(dumps.kueue_waits())
    job = only_job(dump)
    (hold,) = job.holds
    assert (hold.kind, hold.name, hold.detail) == (
        HoldKind.NOT_ADMITTED,
        "research",
        dumps.NO_QUOTA,
    )
    assert hold.until == dump.snapshot.now + 300
    assert (job.queue, job.min_available, len(job.tasks)) == ("research", 2, 2)
    facts = dump.facts[job.uid]
    assert (facts.kind, facts.owner, facts.local_queue) == ("Job", "wait", "user-queue")
    assert facts.told[1].message == dumps.NO_QUOTA
    assert dump.find("wait") == dump.find("team/wait") == dump.find("JOB/wait") == job.uid
    assert started(dump) == []
    ours = read_dump(dumps.kueue_waits(), admission="ours")
    assert only_job(ours).holds == ()
    assert len(started(ours)) == 2


def test_admission_checks_that_are_not_ready_hold():
    (hold,) = only_job(read_dump(dumps.kueue_checks())).holds
    assert (hold.kind, hold.name, hold.detail) == (
        HoldKind.CHECK,
        "dws-prov",
        "waiting for nodes",
    )


def test_a_total_count_that_is_no_number_is_ignored_with_a_notice():
    objects = dumps.kueue_pod_group()
    objects[0]["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "two"
    dump = read_dump(objects)
    assert only_job(dump).min_available == 0
    assert "ignored: expected a number of pods, got 'two'" in str(dump.notices)


def test_a_pod_group_without_a_workload_needs_its_total_count():
    job = only_job(read_dump(dumps.kueue_pod_group()))
    assert (job.uid, job.queue, job.min_available) == ("team/parts", "research", 2)
    ((hold,),) = [task.holds for task in job.tasks]
    assert (hold.kind, hold.name) == (HoldKind.GATE, "kueue.x-k8s.io/admission")


def test_a_pod_group_without_all_its_pods_waits_for_kueue_unless_we_admit():
    objects = dumps.kueue_pod_group()
    objects[0]["spec"]["schedulingGates"].append({"name": "another.example/gate"})
    (hold,) = only_job(read_dump(objects)).holds
    assert (hold.kind, hold.name) == (HoldKind.NOT_ADMITTED, "Kueue")
    assert hold.detail.endswith("once all of its 2 pods exist: there is 1 now")
    assert only_job(read_dump(objects, admission="ours")).holds == ()


def test_a_gang_keeps_its_group_and_takes_queue_and_holds_of_its_workload():
    dump = read_dump(dumps.kueue_and_gang())
    job = only_job(dump)
    assert (job.uid, job.queue, job.min_available) == ("team/both-gang", "research", 2)
    assert kinds(job) == [HoldKind.NOT_ADMITTED]
    assert [task.name for task in job.tasks] == ["both-0", "both-1"]


def test_pods_of_an_admitted_workload_are_placed_one_by_one_and_finished_ones_are_no_job():
    dump = read_dump(dumps.kueue_admitted())
    job = only_job(dump)
    assert (job.uid, job.min_available, job.holds) == ("team/job-runs-1", 1, ())
    assert started(dump) == ["runs-b"]


def kueue_admitted_pods(cpu="2", count=3):
    """Return a Workload that Kueue has admitted, with pods that wait."""
    job = dumps.kueue_job("a", suspend=False)
    admitted = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    status = {"admission": {"clusterQueue": "research"}}
    pods = [dumps.pod(f"a-{i}", cpu, owner=job) for i in range(count)]
    return [job, dumps.workload("job-a", job, count, admitted, status=status), *pods]


def test_what_kueue_admitted_is_not_refused_by_a_quota_that_is_less():
    objects = [*kueue_admitted_pods(), dumps.local_queue(), dumps.node("n1", "5")]
    dump = read_dump([*objects, dumps.cluster_queue(cpu="3")])
    assert started(dump) == ["a-0", "a-1"]
    (waiting,) = schedule(dump.snapshot).pending.values()
    assert waiting.why is WhyPending.NO_NODE
    (queue,) = dump.snapshot.queues
    assert queue.limit is not None
    assert queue.limit.milli_cpu == 6000
    (caveat,) = dump.facts["team/job-a"].caveats
    assert caveat.consequence.startswith("pods that Kueue admitted request more than the quota")
    # What Kueue has not admitted, and what is decided here, the quota refuses as before.
    (waiting,) = (each for each in dumps.kueue_waits() if each["kind"] == "Workload")
    both = read_dump([*objects, waiting, dumps.cluster_queue(cpu="3"), dumps.node("n2", "9")])
    answer = what_if(both.snapshot, Released("team/job-wait-5f1d2"))
    reasons = {reason.why for reason in answer.result.pending.values()}
    assert reasons == {WhyPending.QUEUE_LIMIT}
    ours = read_dump([*objects, dumps.cluster_queue(cpu="3")], admission="ours")
    assert started(ours) == ["a-0"]


def test_a_cluster_queue_that_was_not_dumped_is_there_if_it_admitted_a_job():
    (waiting,) = (each for each in dumps.kueue_waits() if each["kind"] == "Workload")
    objects = [*kueue_admitted_pods(), waiting, dumps.local_queue(), dumps.node("n1", "5")]
    dump = read_dump(objects)
    assert started(dump) == ["a-0", "a-1"]
    assert kinds(dump.snapshot.job("team/job-wait-5f1d2"))[0] is HoldKind.NO_QUEUE
    text = "ClusterQueue research, which admitted jobs, is not in the dump: it has no limit"
    assert text in dump.assumed


def test_what_kueue_admitted_is_not_refused_by_what_others_do_not_lend():
    queues = [dumps.cluster_queue(name) for name in ("research", "other")]
    for queue in queues:
        queue["spec"]["cohortName"] = "all"
    (flavor,) = queues[1]["spec"]["resourceGroups"][0]["flavors"]
    flavor["resources"][0]["lendingLimit"] = "0"
    objects = [*kueue_admitted_pods(), dumps.local_queue(), *queues]
    short = read_dump([*objects, dumps.node("n1", "9")])
    assert len(started(short)) == 3
    assert [n.code for n in short.notices] == [NoticeCode.GUARANTEE_CUT]
    enough = read_dump([*objects, dumps.node("n1", "9"), dumps.node("n2", "9")])
    assert [queue.guarantee.milli_cpu for queue in enough.snapshot.queues] == [0, 8000, 0]


def test_pods_of_a_workload_that_a_group_took_are_not_lost():
    objects = dumps.kueue_and_gang()
    alone = dumps.pod("alone", "2", owner=objects[0], on="n1")
    dump = read_dump([*objects, alone])
    uids = {task.name: job.uid for job in dump.snapshot.jobs for task in job.tasks}
    gang = "team/both-gang"
    assert uids == {"both-0": gang, "both-1": gang, "alone": "team/job-both-1"}


def test_groups_of_one_workload_make_its_tasks_once():
    job = dumps.kueue_job("set")
    groups = [dumps.native_group(f"set-{i}", 2, owner=job) for i in range(2)]
    told = [dumps.condition("QuotaReserved", "False", "Pending", dumps.NO_QUOTA)]
    owned = dumps.workload("job-set-1", job, 4, told)
    jobs = read_dump(
        [job, *groups, owned, dumps.local_queue(), dumps.cluster_queue()]
    ).snapshot.jobs
    assert [(one.name, len(one.tasks)) for one in jobs] == [("set-0", 4), ("set-1", 0)]
    assert {kind for one in jobs for kind in kinds(one)} == {HoldKind.NOT_ADMITTED}


def test_a_tree_whose_pods_are_made_needs_what_its_workload_needs():
    root = dumps.composite("ray", 2)
    leaf = dumps.native_group("ray-head", 1, parent="ray")
    told = [dumps.condition("QuotaReserved", "False", "Pending", dumps.NO_QUOTA)]
    owned = dumps.workload("w", root, 3, told)
    objects = [root, leaf, owned, dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1", "8")]
    job = only_job(read_dump(objects, admission="ours"))
    assert (job.min_available, job.groups, len(job.tasks)) == (3, (), 3)
    assert len(started(read_dump(objects, admission="ours"))) == 3


def test_jobs_of_one_cron_job_have_workloads_of_their_own():
    cron = dumps.thing("batch/v1", "CronJob", "nightly")
    first, second = (
        dumps.thing("batch/v1", "Job", f"nightly-{i}", owner=cron, spec={}) for i in range(2)
    )
    objects = [first, second, dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1", "8")]
    objects += [dumps.workload("job-0", first), dumps.pod("nightly-1-x", owner=second)]
    dump = read_dump(objects)
    assert dump.find("nightly-1-x") == "team/nightly-1-x"
    assert len(dump.snapshot.job("team/job-0").tasks) == 2


def test_owners_of_kinds_that_are_not_read_lead_to_the_workload():
    ray_job = dumps.thing("ray.io/v1", "RayJob", "tune")
    cluster = dumps.thing("ray.io/v1", "RayCluster", "tune-x7", owner=ray_job)
    admitted = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    owned = dumps.workload("rayjob-tune-1", ray_job, 2, admitted)
    pods = [dumps.pod("head", owner=cluster, on="n1"), dumps.pod("worker", owner=cluster)]
    objects = [owned, *pods, dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1")]
    dump = read_dump([ray_job, cluster, *objects])
    assert len(only_job(dump).tasks) == 2
    assert started(dump) == ["worker"]
    assert dump.find("rayjob/tune") == dump.find("raycluster.ray.io/tune-x7") == dump.find("head")
    without = read_dump([ray_job, *objects])
    assert without.find("worker") == "team/worker"


def test_a_workload_that_names_no_queue_is_in_the_default_one_if_there_is_one():
    objects = [dumps.workload("w", queue=""), dumps.cluster_queue()]
    assert [str(hold) for hold in only_job(read_dump(objects)).holds] == [
        "it names no LocalQueue",
        "Kueue has not tried it yet",
    ]
    job = only_job(read_dump([*objects, dumps.local_queue("default")]))
    assert (job.queue, kinds(job)) == ("research", [HoldKind.NOT_ADMITTED])


@pytest.mark.parametrize("told", [None, "ClusterQueue research is inactive"])
def test_why_a_cluster_queue_admits_nothing_is_told_if_the_workload_does_not(told):
    queue = dumps.cluster_queue()
    message = "Can't admit new workloads: references missing ResourceFlavor(s): spot."
    queue["status"]["conditions"] = [dumps.condition("Active", "False", "FlavorNotFound", message)]
    conditions = [dumps.condition("QuotaReserved", "False", "Inadmissible", told)] if told else []
    workload = dumps.workload("w", conditions=conditions)
    (hold,) = only_job(read_dump([workload, dumps.local_queue(), queue])).holds
    assert hold.detail == f"ClusterQueue research is inactive: {message.removesuffix('.')}"


def test_a_check_that_says_nothing_tells_its_state():
    objects = dumps.kueue_checks()
    objects[1]["status"]["admissionChecks"][0] = {"name": "dws-prov", "state": "Rejected"}
    (hold,) = only_job(read_dump(objects)).holds
    assert hold.text == "the check dws-prov has not passed: its state is Rejected"


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
@pytest.mark.parametrize("active", [True, False])
def test_what_a_check_says_that_failed_is_told_without_quota_too(state, active):
    objects = dumps.kueue_waits()
    said = {"message": "no capacity for 2 nodes", "lastTransitionTime": dumps.EARLIER}
    objects[1]["status"]["admissionChecks"] = [
        {"name": "dws-prov", "state": state} | said,
        {"name": "other", "state": "Pending", "message": "reset"},
    ]
    objects[1]["spec"]["active"] = active
    dump = read_dump(objects)
    job = only_job(dump)
    told = [each for each in dump.facts[job.uid].told if each.type == "dws-prov"]
    assert [(each.status, each.reason, each.who) for each in told] == [
        ("False", state, "the check dws-prov")
    ]
    answer = str(explain(dump.snapshot, schedule(dump.snapshot), job.uid, facts=dump.facts))
    assert "the check dws-prov says, 30 min ago: no capacity for 2 nodes" in answer
    assert "reset" not in answer


def test_reserved_quota_without_checks_is_not_yet_an_admission():
    objects = dumps.kueue_checks()
    objects[1]["status"]["admissionChecks"] = []
    (hold,) = only_job(read_dump(objects)).holds
    assert (hold.kind, hold.name) == (HoldKind.NOT_ADMITTED, "research")
    assert hold.text == "its quota is reserved, but Kueue has not admitted it yet"


def test_a_workload_that_is_on_another_cluster_is_left_out_with_a_notice():
    admitted = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    status = {"admission": {"clusterQueue": "research"}, "clusterName": "worker-1"}
    given = dumps.workload("w", conditions=admitted, status=status)
    dump = read_dump([given, dumps.local_queue(), dumps.cluster_queue()])
    assert dump.snapshot.jobs == ()
    assert [notice.field for notice in dump.notices] == ["status.clusterName"]


def test_the_class_of_a_workload_may_be_one_of_pods():
    classes = [
        dumps.thing("scheduling.k8s.io/v1", "PriorityClass", "c", namespace="", value=5),
        dumps.thing("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", "c", namespace="", value=7),
    ]
    given = {
        5: {"priorityClassRef": {"kind": "PriorityClass", "name": "c"}, "priority": None},
        7: {
            "priorityClassName": "c",
            "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
        },
    }
    for priority, spec in given.items():
        objects = [*classes, dumps.workload("w", **spec | {"priority": None})]
        assert only_job(read_dump(objects)).priority == priority


def test_topology_that_a_workload_asks_for_is_read():
    asked = {"required": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2}
    sets = [{"name": "main", "count": 4, "topologyRequest": asked}]
    topology = dumps.thing(
        "kueue.x-k8s.io/v1beta1",
        "Topology",
        "net",
        spec={"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]},
    )
    dump = read_dump([dumps.workload("w", podSets=sets), topology])
    assert only_job(dump).topology == TopologyRequest(
        "net", required="block", segments=[Segment(2, "rack")]
    )
    assert [caveat for facts in dump.facts.values() for caveat in facts.caveats] == []
    alone = only_job(read_dump([dumps.workload("w", podSets=sets)]))
    assert alone.topology == TopologyRequest(required="block")


@pytest.mark.parametrize(
    ("leave_out", "detail"),
    [
        ("LocalQueue", "LocalQueue user-queue doesn't exist"),
        ("ClusterQueue", "ClusterQueue research doesn't exist"),
    ],
)
def test_queues_that_do_not_exist_hold(leave_out, detail):
    objects = [each for each in dumps.kueue_waits() if each["kind"] != leave_out]
    job = only_job(read_dump(objects))
    assert kinds(job) == [HoldKind.NO_QUEUE, HoldKind.NOT_ADMITTED]
    assert job.holds[0].detail == detail


@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue"])
def test_queues_that_are_stopped_hold(kind):
    objects = dumps.kueue_waits()
    queue = next(each for each in objects if each["kind"] == kind)
    queue["spec"]["stopPolicy"] = "Hold"
    job = only_job(read_dump(objects))
    assert kinds(job) == [HoldKind.QUEUE_CLOSED, HoldKind.NOT_ADMITTED]
    assert job.holds[0].detail == f"{kind} {queue['metadata']['name']} is stopped"


def test_a_queue_that_takes_nothing_new_goes_on_with_what_it_has_admitted():
    objects = [*dumps.kueue_admitted(), *dumps.kueue_waits()]
    for each in objects:
        if each["kind"] == "ClusterQueue":
            each["spec"]["stopPolicy"] = "Hold"
    snapshot = read_dump(objects).snapshot
    assert {queue.state for queue in snapshot.queues} == {QueueStatus.OPEN}
    stopped = {job.name: HoldKind.QUEUE_CLOSED in kinds(job) for job in snapshot.jobs}
    assert stopped == {"job-runs-1": False, "job-wait-5f1d2": True}


def test_a_queue_that_does_not_select_the_namespace_is_no_queue_of_the_job():
    objects = dumps.kueue_waits()
    message = "Workload namespace doesn't match ClusterQueue selector"
    objects[1]["status"] = {
        "conditions": [dumps.condition("QuotaReserved", "False", "Pending", message)]
    }
    dump = read_dump(objects)
    job = only_job(dump)
    assert [(hold.kind, hold.name) for hold in job.holds] == [
        (HoldKind.NO_QUEUE, "research"),
        (HoldKind.NOT_ADMITTED, "research"),
    ]
    assert job.holds[0].text == (
        "ClusterQueue research takes no jobs of namespace team: "
        "its namespaceSelector does not select it"
    )
    answer = explain(dump.snapshot, schedule(dump.snapshot), job.uid, facts=dump.facts)
    assert [change.text for change in answer.would_start] == [
        "it names a queue that takes it and it is admitted"
    ]
    assert only_job(read_dump(objects, admission="ours")).holds == ()


def test_a_workload_that_is_deactivated_is_that():
    objects = dumps.kueue_waits()
    objects[1]["spec"]["active"] = False
    objects[1]["status"] = {}
    job = only_job(read_dump(objects))
    assert [(hold.kind, hold.detail) for hold in job.holds] == [
        (HoldKind.DEACTIVATED, "the Workload is deactivated"),
        (HoldKind.NOT_ADMITTED, "Kueue has not tried it yet"),
    ]


# Jobs that grow


def growing(*, reserved=False):
    """Return a job of which two pods run and two more wait for a Workload of the new size."""
    job = dumps.kueue_job("train", suspend=False)
    done = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    status = {"admission": {"clusterQueue": "research"}}
    told = [dumps.condition("QuotaReserved", "False", "Pending", NO_MESSAGE)]
    new = dumps.workload("job-train-2", job, 4, done if reserved else told, status=status)
    if not reserved:
        del new["status"]["admission"]
    for key in ("elastic-job", "workload-slice-replacement-for"):
        value = "true" if key == "elastic-job" else "team/job-train-1"
        new["metadata"]["annotations"][f"kueue.x-k8s.io/{key}"] = value
    return [
        job,
        dumps.workload("job-train-1", job, 2, done, status=status),
        new,
        *(dumps.pod(f"train-{i}", "2", owner=job, on="n1") for i in range(2)),
        *(dumps.pod(f"more-{i}", "2", owner=job, gates=[GROWS]) for i in range(2)),
        *(dumps.local_queue(), dumps.cluster_queue(cpu="6"), dumps.node("n1", "16")),
    ]


def test_two_workloads_of_a_job_that_grows_are_one_job():
    dump = read_dump(growing())
    job = only_job(dump)
    assert (job.uid, job.min_available, job.holds) == ("team/job-train-1", 1, ())
    assert dump.find("job-train-2") == dump.find("more-1") == job.uid
    result = schedule(dump.snapshot)
    (standing,) = standings(dump.snapshot, result, facts=dump.facts)
    assert standing.state is JobStatus.RUNNING_PART
    assert standing.text == (
        "team/job-train-1 (Job train) runs, 2 more wait: research has not admitted it: "
        f"{NO_MESSAGE}; 2 of its 4 tasks wait for the gate {GROWS}"
    )
    assert "the job grows" in dump.facts[job.uid].caveats[0].consequence
    # The quota is reserved for the old size only.
    limit = dump.snapshot.queues[0].limit
    assert limit is not None
    assert limit.milli_cpu == 6000
    assert started(read_dump(growing(), admission="ours")) == ["more-0"]
    # Kueue removes the gate as it admits; nobody is advised to do so.
    answer = explain(dump.snapshot, result, job.uid, facts=dump.facts)
    assert answer.once_released.startswith("it would start if Kueue decides as here: 1 task on n1")


def test_a_job_that_was_admitted_in_its_new_size_is_that_workload():
    objects = growing(reserved=True)
    dump = read_dump(objects)
    job = only_job(dump)
    assert (job.uid, len(job.tasks)) == ("team/job-train-2", 4)
    assert dump.find("job-train-1") == job.uid
    for pod in objects[-5:-3]:
        pod["spec"]["schedulingGates"] = []
    assert started(read_dump(objects)) == ["more-0", "more-1"]


# Jobs without a Workload

SUSPENDED = {"parallelism": 3, "completions": 2, "suspend": True, "template": dumps.template("2")}


def waiting_for_workload(**more):
    return dumps.thing(
        "batch/v1",
        "Job",
        "later",
        spec=SUSPENDED,
        labels={"kueue.x-k8s.io/queue-name": "user-queue"},
        **more,
    )


NO_WORKLOAD = "Kueue has made no Workload yet for Job later in LocalQueue user-queue"


def test_a_job_without_its_workload_waits_for_kueue_and_nobody_suspended_it():
    objects = [dumps.node("n1"), dumps.cluster_queue(), waiting_for_workload()]
    dump = read_dump([*objects, dumps.local_queue()])
    found = only_job(dump)
    assert (found.queue, found.min_available) == ("research", 2)
    (hold,) = found.holds
    assert (hold.kind, hold.name) == (HoldKind.NOT_ADMITTED, "research")
    assert hold.text == NO_WORKLOAD
    assert dump.facts[found.uid].local_queue == "user-queue"
    without = only_job(read_dump(objects))
    assert [(hold.kind, hold.text) for hold in without.holds] == [
        (HoldKind.NO_QUEUE, "LocalQueue user-queue doesn't exist"),
        (HoldKind.NOT_ADMITTED, NO_WORKLOAD),
    ]
    stopped = read_dump([*objects, dumps.local_queue(stop="Hold")])
    assert kinds(only_job(stopped)) == [HoldKind.QUEUE_CLOSED, HoldKind.NOT_ADMITTED]
    ours = read_dump([*objects, dumps.local_queue()], admission="ours")
    assert (only_job(ours).holds, len(started(ours))) == ((), 2)


def test_a_gang_of_a_job_without_its_workload_waits_for_kueue_too():
    job = waiting_for_workload()
    group = dumps.native_group("gang", 2, owner=job)
    queues = [dumps.local_queue(), dumps.cluster_queue()]
    found = only_job(read_dump([job, group, *dumps.members("gang", 2), *queues]))
    assert [hold.text for hold in found.holds] == [NO_WORKLOAD]
    assert found.queue == "research"
