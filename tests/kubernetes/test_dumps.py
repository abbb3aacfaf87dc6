"""Reading dumps of Kubernetes' groups, Volcano, KAI Scheduler and Kueue: scenarios and laws."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import dumps
from tests.support.dumps import DUMPS, everything

from batchsched import (
    ConfigError,
    HoldKind,
    KubernetesObjectError,
    NoticeCode,
    QueueStatus,
    Resource,
    SchedulerConfig,
    TaskStatus,
    UnknownNameError,
    WhyPending,
    schedule,
)
from batchsched.kubernetes import Told, binding_objects, read_dump
from batchsched.tools import JobState, Released, standings, what_if

KAI = SchedulerConfig.from_mapping(
    {
        "actions": "allocate, reclaim, preempt",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {"plugins": [{"name": "predicates"}, {"name": "capacity"}, {"name": "nodeorder"}]},
        ],
    }
)
GPU = "nvidia.com/gpu"


def only_job(dump):
    (job,) = dump.snapshot.jobs
    return job


def started(dump, config=None):
    return sorted(
        dump.snapshot.task(bind.task_uid).name
        for bind in schedule(dump.snapshot, config=config or SchedulerConfig()).binds
    )


def kinds(job):
    return [hold.kind for hold in job.holds]


# Kubernetes' own groups


def test_a_gang_is_one_job_and_not_taken_apart():
    dump = read_dump(dumps.native_gang())
    job = only_job(dump)
    assert (job.uid, job.min_available, len(job.tasks)) == ("team/train-7f9c-workers-x1", 3, 3)
    assert started(dump) == []
    facts = dump.facts[job.uid]
    assert (facts.system, facts.kind, facts.owner) == ("kubernetes", "Job", "train")
    assert dump.find("Job/train") == dump.find("job.batch/train") == dump.find("train-1") == job.uid


def test_a_gate_is_a_hold_of_its_task():
    dump = read_dump(dumps.native_gated())
    holds = {task.name: [(h.kind, h.name) for h in task.holds] for task in only_job(dump).tasks}
    assert holds == {"free-0": [], "gated-0": [(HoldKind.GATE, dumps.GATE)]}
    assert {task.status for task in only_job(dump).tasks} == {TaskStatus.PENDING}
    assert dump.notices == ()


def test_a_gang_with_a_gated_pod_starts_with_those_that_are_free():
    assert started(read_dump(dumps.native_gated())) == []
    third = dumps.members("g", 1, prefix="third")
    assert started(read_dump([*dumps.native_gated(), *third])) == ["free-0", "third-0"]


def test_a_tree_is_one_job_with_groups():
    dump = read_dump(dumps.native_tree())
    job = only_job(dump)
    assert (job.min_available, job.min_groups) == (0, 2)
    assert {(g.name, g.parent, g.min) for g in job.groups} == {
        ("head", None, 1),
        ("workers", None, 4),
    }
    assert started(dump) == []
    assert len(started(read_dump(dumps.native_tree("5")))) == 5
    assert dump.find("workers") == dump.find("head-0") == job.uid


def test_whole_groups_of_a_tree_start():
    binds = started(read_dump(dumps.native_replicas()))
    assert len(binds) == 4
    assert len({name.split("-")[0] for name in binds}) == 2


def test_pods_whose_group_is_missing_are_one_held_job():
    dump = read_dump(dumps.native_missing())
    job = only_job(dump)
    assert [(hold.kind, hold.name) for hold in job.holds] == [(HoldKind.GROUP_MISSING, "gone")]
    assert len(job.tasks) == 3
    assert started(dump) == []
    assert [notice.code for notice in dump.notices] == [NoticeCode.GROUP_MISSING]
    assert dump.facts[job.uid].caveats == dump.notices


def test_running_pods_whose_group_is_missing_only_occupy():
    running = dumps.members("gone", 1, prefix="runs", on="n1")
    dump = read_dump([*dumps.native_missing(), *running])
    assert [task.name for task in dump.snapshot.other_tasks] == ["runs-0"]
    assert len(only_job(dump).tasks) == 3


def test_a_missing_parent_at_any_level_is_named():
    objects = [
        dumps.composite("middle", 1, parent="top"),
        dumps.native_group("leaf", 2, parent="middle"),
        *dumps.members("leaf", 2),
        dumps.node("n1"),
    ]
    job = only_job(read_dump(objects))
    assert job.uid == "team/leaf"
    assert [(hold.kind, hold.name) for hold in job.holds] == [(HoldKind.GROUP_MISSING, "top")]


def test_parents_that_form_a_cycle_are_told_and_no_fault():
    objects = [
        dumps.composite("b", 1, parent="a"),
        dumps.composite("a", 1, parent="b"),
        dumps.native_group("leaf", 1, parent="b"),
        *dumps.members("leaf", 1),
        dumps.node("n1"),
    ]
    for order in (objects, objects[::-1]):
        (hold,) = only_job(read_dump(order)).holds
        assert hold.kind is HoldKind.GROUP_MISSING
        assert hold.detail == "the groups above a form a cycle"


def test_a_tree_may_need_more_groups_than_exist():
    objects = [
        dumps.composite("root", 3),
        dumps.composite("empty", 2, parent="root"),
        dumps.native_group("leaf", 1, parent="root"),
        *dumps.members("leaf", 1),
        dumps.node("n1"),
    ]
    dump = read_dump(objects)
    assert only_job(dump).min_groups == 3
    assert started(dump) == []
    assert only_job(read_dump([dumps.composite("root", 3)])).tasks == ()


def test_groups_of_1_35_are_named_by_workload_group_and_replica():
    dump = read_dump(dumps.native_1_35())
    job = only_job(dump)
    assert (job.uid, job.min_available, job.priority) == ("team/mpi-workers-0", 2, 7)
    assert dump.find("mpi") == job.uid
    without = [each for each in dumps.native_1_35() if each["kind"] != "Workload"]
    assert kinds(only_job(read_dump(without))) == [HoldKind.GROUP_MISSING]


@pytest.mark.parametrize(
    "spec",
    [
        {
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
        },
        {  # as in an alpha of 1.36
            "schedulingConstraints": {"topologyConstraints": [{"topologyKey": "rack"}]},
            "disruptionMode": "PodGroup",
        },
    ],
)
def test_what_groups_ask_of_placement_is_a_caveat(spec):
    objects = dumps.native_gang()
    objects[1]["spec"] |= spec
    dump = read_dump(objects)
    (facts,) = dump.facts.values()
    assert [(c.code, c.consequence) for c in facts.caveats] == [
        (
            NoticeCode.FIELD_IGNORED,
            "ignored: pods of the group may be evicted one by one",
        ),
        (
            NoticeCode.FIELD_IGNORED,
            "ignored: the group may be spread over values of rack",
        ),
    ]


# Volcano


def test_a_group_that_enqueue_holds_gets_the_tasks_of_its_job():
    dump = read_dump(dumps.volcano_pending())
    job = only_job(dump)
    (hold,) = job.holds
    assert (hold.kind, hold.name) == (HoldKind.NOT_ADMITTED, "enqueue")
    assert hold.detail == (
        "the phase of its PodGroup is Pending: action enqueue has not admitted it"
    )
    assert [task.uid for task in job.tasks] == [f"{job.uid}/worker/{i}" for i in range(2)]
    assert [task.resreq.milli_cpu for task in job.tasks] == [1000, 1000]
    assert started(dump) == []
    ours = read_dump(dumps.volcano_pending(), admission="ours")
    assert only_job(ours).holds == ()
    assert len(started(ours)) == 2


def test_tasks_that_were_made_are_in_no_binding():
    dump = read_dump(
        [*dumps.volcano_pending(), dumps.pod("p", scheduler="volcano")], admission="ours"
    )
    result = schedule(dump.snapshot)
    assert len(result.binds) == 3
    bindings = binding_objects(result, dump.snapshot)
    assert [binding["metadata"]["name"] for binding in bindings] == ["p"]


def test_a_closed_queue_is_no_fault_of_its_pods():
    dump = read_dump(dumps.volcano_closed())
    assert dump.snapshot.queue("old").state is QueueStatus.CLOSED
    statuses = {task.name: task.status for job in dump.snapshot.jobs for task in job.tasks}
    assert statuses == {
        "legacy-worker-0": TaskStatus.PENDING,
        "runs-worker-0": TaskStatus.RUNNING,
    }
    assert started(dump) == []


def test_capability_limits_gpus_and_a_zero_of_cpu_means_none():
    dump = read_dump(dumps.volcano_capability())
    queue = dump.snapshot.queue("gpus")
    assert dict(queue.limit.dimensions()) == {GPU: 2000}
    assert not queue.reclaimable
    assert len(started(dump)) == 2


def test_priorities_come_from_pods_where_classes_were_not_dumped():
    dump = read_dump(dumps.volcano_priorities())
    assert {job.name: job.priority for job in dump.snapshot.jobs} == {"g-high": 1000, "g-low": 10}
    assert started(dump) == ["high-worker-0", "high-worker-1"]
    assert dump.notices == ()


def test_a_class_that_nobody_tells_is_noted():
    group = dumps.volcano_group("g", 1, priorityClassName="gone")
    dump = read_dump([group, dumps.volcano_queue("default"), *dumps.volcano_pods("g", "g", 1)])
    assert [notice.code for notice in dump.notices] == [NoticeCode.PRIORITY_CLASS_MISSING]


def test_roles_whose_minima_are_more_than_that_of_the_group_are_ignored_as_volcano_does():
    queue, room = dumps.volcano_queue("default"), dumps.node("n1", "2")
    pods = dumps.volcano_pods("g", "g", 6)
    elastic = dumps.volcano_group("g", 1, minTaskMember={"worker": 6})
    assert len(started(read_dump([elastic, queue, room, *pods]))) == 2
    strict = dumps.volcano_group("g", 6, minTaskMember={"worker": 6})
    job = only_job(read_dump([strict, queue, room, *pods]))
    assert [(group.name, group.min) for group in job.groups] == [("worker", 6)]


def test_what_volcano_asks_of_disruptions_is_a_caveat():
    (pod,) = dumps.volcano_pods("g", "g", 1)
    pod["metadata"]["annotations"]["volcano.sh/cooldown-time"] = "10m"
    dump = read_dump([dumps.volcano_group("g", 1), dumps.volcano_queue("default"), pod])
    (caveat,) = dump.facts["team/g"].caveats
    assert caveat.field == "metadata.annotations['volcano.sh/cooldown-time']"


# KAI Scheduler


def test_gangs_of_kai_share_what_is_free():
    dump = read_dump(dumps.kai_gangs())
    assert {job.queue for job in dump.snapshot.jobs} == {"default-queue"}
    assert {job.priority for job in dump.snapshot.jobs} == {50}
    assert started(dump, KAI) == ["pg-small-p0", "pg-small-p1"]
    told = dump.facts[dump.find("job/big")].told
    assert (
        Told(
            type="UnschedulableOnNodePool",
            status="True",
            reason="OverLimit",
            message="queue is over its limit",
            who="KAI Scheduler",
            time=dump.snapshot.now,
        )
        in told
    )


def test_parts_of_gpus_are_counted_and_a_shared_gpu_is_one_whole():
    dump = read_dump(dumps.kai_shared())
    running = [
        task.resreq.get(GPU)
        for job in dump.snapshot.jobs
        for task in job.tasks
        if task.status is TaskStatus.RUNNING
    ]
    assert sorted(running) == [250, 500]
    (reservation,) = dump.snapshot.other_tasks
    assert reservation.resreq.get(GPU) == 250
    assert started(dump, KAI) == ["more-p0"]
    result = schedule(dump.snapshot, config=KAI)
    assert [bind.node_name for bind in result.binds] == ["n1"]
    noted = {n.objects for n in dump.notices if n.code is NoticeCode.GPU_FRACTION}
    assert noted == {("team/half-p0", "team/more-p0"), ("team/quarter-p0",)}


def test_a_subgroup_without_a_minimum_needs_one():
    job = only_job(read_dump(dumps.kai_subgroups()))
    assert job.min_available == 0
    assert {(group.name, group.min) for group in job.groups} == {("leader", 1), ("workers", 2)}


def test_subgroups_whose_parent_is_missing_are_held():
    objects = dumps.kai_subgroups()
    group = next(each for each in objects if each["kind"] == "PodGroup")
    group["spec"]["subGroups"][0]["parent"] = "nowhere"
    (hold,) = only_job(read_dump(objects)).holds
    assert (hold.kind, hold.name) == (HoldKind.GROUP_MISSING, "nowhere")


def test_a_placement_on_its_way_counts_as_placed():
    objects = dumps.kai_gangs()
    request = dumps.thing(
        "scheduling.run.ai/v1alpha2",
        "BindRequest",
        "b",
        spec={"podName": "pg-small-p0", "selectedNode": "n2"},
    )
    dump = read_dump([*objects, request])
    task = next(t for t in dump.snapshot.job("team/pg-small").tasks if t.name == "pg-small-p0")
    assert (task.status, task.node_name) == (TaskStatus.BOUND, "n2")


def test_a_part_of_a_shared_gpu_that_is_on_its_way_is_taken_from_its_reservation():
    objects = dumps.kai_shared()
    spec = {"podName": "more-p0", "selectedNode": "n1", "selectedGPUGroups": ["g-1"]}
    more = next(each for each in objects if each["metadata"]["name"] == "more-p0")
    more["metadata"]["annotations"]["gpu-fraction"] = "0.25"
    request = dumps.thing("scheduling.run.ai/v1alpha2", "BindRequest", "b", spec=spec)
    dump = read_dump([*objects, request])
    (reservation,) = dump.snapshot.other_tasks
    assert reservation.resreq.get(GPU) == 0
    assert NoticeCode.NODE_OVERCOMMITTED not in {notice.code for notice in dump.notices}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"priorityClassName": "inference"}, "spec.priorityClassName"),
        ({"preemptibility": "non-preemptible"}, "spec.preemptibility"),
        ({"priorityClassName": "build", "preemptibility": "preemptible"}, None),
        ({"subGroups": [{"name": "a", "topologyConstraint": {"topology": "t"}}]}, "spec.subGroups"),
        ({"topologyConstraint": {}}, None),
    ],
)
def test_what_kai_does_otherwise_is_a_caveat_of_the_group(spec, field):
    group = dumps.kai_group("g", **spec)
    group["spec"].setdefault("priorityClassName", "train")
    caveats = read_dump([group, dumps.kai_queue("default-queue")]).facts["team/g"].caveats
    assert [one.field for one in caveats if one.code is NoticeCode.FIELD_IGNORED] == (
        [field] if field else []
    )


def test_a_pod_that_names_no_group_is_one_that_kai_passes_over():
    (pod,) = dumps.kai_pods("g", 1)
    del pod["metadata"]["annotations"]["pod-group-name"]
    dump = read_dump([*dumps.kai_queues(), pod])
    (caveat,) = [one for one in dump.facts["team/g-p0"].caveats if one.kind == "Pod"]
    assert caveat.consequence.startswith("read as a group of one pod: KAI Scheduler passes over")


def test_kubernetes_groups_that_kai_translates_are_no_jobs_of_their_own():
    group = dumps.native_group("own", 2)
    pods = dumps.kai_pods("pg-own", 2, schedulingGroup={"podGroupName": "own"})
    dump = read_dump([*dumps.kai_queues(), dumps.kai_group("pg-own", 2), group, *pods])
    assert only_job(dump).uid == "team/pg-own" == dump.find("own")


# Kueue


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


def test_a_pod_group_without_a_workload_needs_its_total_count():
    job = only_job(read_dump(dumps.kueue_pod_group()))
    assert (job.uid, job.queue, job.min_available) == ("team/parts", "research", 2)
    ((hold,),) = [task.holds for task in job.tasks]
    assert (hold.kind, hold.name) == (HoldKind.GATE, "kueue.x-k8s.io/admission")


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


def test_why_a_cluster_queue_admits_nothing_is_told_if_the_workload_does_not():
    queue = dumps.cluster_queue()
    message = "Can't admit new workloads: references missing ResourceFlavor(s): spot."
    queue["status"]["conditions"] = [dumps.condition("Active", "False", "FlavorNotFound", message)]
    (hold,) = only_job(read_dump([dumps.workload("w"), dumps.local_queue(), queue])).holds
    assert hold.detail == f"ClusterQueue research is inactive: {message.removesuffix('.')}"


def test_a_check_that_says_nothing_tells_its_state():
    objects = dumps.kueue_checks()
    objects[1]["status"]["admissionChecks"][0] = {"name": "dws-prov", "state": "Rejected"}
    (hold,) = only_job(read_dump(objects)).holds
    assert hold.text == "the check dws-prov has not passed: its state is Rejected"


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


def test_topology_that_a_workload_asks_for_is_a_caveat():
    sets = [{"name": "main", "count": 1, "topologyRequest": {"required": "rack"}}]
    (facts,) = read_dump([dumps.workload("w", podSets=sets)]).facts.values()
    assert [caveat.field for caveat in facts.caveats] == ["spec.podSets"]


# Coscheduling


@pytest.mark.parametrize(
    "key", ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"]
)
def test_a_group_of_coscheduling_is_one_gang(key):
    objects = [
        dumps.coscheduling_group("g", 3),
        *dumps.coscheduling_pods("g", 3, key),
        dumps.node("n1", "2"),
    ]
    dump = read_dump(objects)
    job = only_job(dump)
    assert (job.uid, job.min_available, len(job.tasks)) == ("team/g", 3, 3)
    assert dump.facts[job.uid].system == "coscheduling"
    assert started(dump) == []
    assert len(started(read_dump([*objects, dumps.node("n2", "2")]))) == 3


def test_pods_whose_group_of_coscheduling_is_missing_are_held():
    dump = read_dump([*dumps.coscheduling_pods("gone", 2), dumps.node("n1")])
    assert kinds(only_job(dump)) == [HoldKind.GROUP_MISSING]
    assert started(dump) == []
    (notice,) = dump.notices
    assert notice.field == "metadata.labels['scheduling.x-k8s.io/pod-group']"


def test_a_group_of_coscheduling_that_ended_without_pods_is_no_job():
    assert [job.name for job in read_dump(dumps.coscheduling()).snapshot.jobs] == ["nginx"]


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


def test_pods_of_an_admitted_workload_that_a_stopped_queue_holds_here_are_a_caveat():
    objects = dumps.kueue_admitted()
    queue = next(each for each in objects if each["kind"] == "ClusterQueue")
    queue["spec"]["stopPolicy"] = "Hold"
    dump = read_dump(objects)
    (caveat,) = dump.facts["team/job-runs-1"].caveats
    assert caveat.consequence.startswith("its queue is stopped: pods that wait are held here")


def test_a_workload_that_is_deactivated_is_suspended():
    objects = dumps.kueue_waits()
    objects[1]["spec"]["active"] = False
    objects[1]["status"] = {}
    job = only_job(read_dump(objects))
    assert [(hold.kind, hold.detail) for hold in job.holds] == [
        (HoldKind.SUSPENDED, "the Workload is deactivated"),
        (HoldKind.NOT_ADMITTED, "Kueue has not tried it yet"),
    ]


def test_a_suspended_job_with_a_gang_and_without_kueue_is_suspended():
    objects = dumps.native_gang()
    objects[0]["spec"]["suspend"] = True
    (hold,) = only_job(read_dump(objects)).holds
    assert (hold.kind, hold.name) == (HoldKind.SUSPENDED, "train")


# Names


def test_names_of_several_jobs_are_told():
    dump = read_dump(everything())
    with pytest.raises(UnknownNameError, match=r"^gone may be any of ") as caught:
        dump.find("gone")
    assert str(caught.value) == ("gone may be any of kai-without-group/gone, native-missing/gone")
    assert dump.find("native-missing/gone") == "native-missing/gone"
    with pytest.raises(UnknownNameError, match=r"^no job is called zzz$"):
        dump.find("zzz")
    with pytest.raises(UnknownNameError, match="did you mean native-1-35/mpi-workers-0"):
        dump.find("mpi-wokers-0")
    assert dump.find("mpi-w") == "native-1-35/mpi-workers-0"
    with pytest.raises(UnknownNameError, match="did you mean kueue-checks/job-provision-1"):
        dump.find("provison")


def test_equal_names_of_groups_of_several_systems_are_kept_apart():
    objects = [
        dumps.native_group("g", 1),
        dumps.volcano_group("g", 1),
        dumps.kai_group("g", 1),
        dumps.workload("g"),
        dumps.pod("g", scheduler="volcano"),
        *dumps.members("g", 1, prefix="own"),
    ]
    assert {job.uid for job in read_dump(objects).snapshot.jobs} == {
        "team/g",
        "team/PodGroup/g",
        "team/PodGroup.scheduling.run.ai/g",
        "team/Workload/g",
        "team/Pod/g",
    }


# Laws


@pytest.mark.parametrize("name", sorted(DUMPS))
def test_every_pod_is_of_one_job_or_occupies_or_is_left_out(name):
    objects = DUMPS[name]()
    dump = read_dump(objects)
    counted = [task.uid for job in dump.snapshot.jobs for task in job.tasks]
    counted += [task.uid for task in dump.snapshot.other_tasks]
    assert len(counted) == len(set(counted))
    holding = {
        each["metadata"]["uid"]
        for each in objects
        if each["kind"] == "Pod" and each["status"]["phase"] == "Running"
    }
    assert holding <= set(counted)


def same(one, other):
    return (one.snapshot, one.notices, one.facts, one.systems, one.assumed) == (
        other.snapshot,
        other.notices,
        other.facts,
        other.systems,
        other.assumed,
    )


@given(st.data())
def test_order_and_packaging_and_other_kinds_change_nothing(data):
    objects = data.draw(st.sampled_from([*DUMPS.values(), everything]))()
    expected = read_dump(objects)
    others = [
        dumps.thing("v1", "ConfigMap", "c", data={"actions": "allocate"}),
        dumps.thing("example.com/v1", "PodGroup", "g", spec={"minMember": "no number"}),
        dumps.thing("apps/v1", "ReplicaSet", "r", spec={"replicas": 2}),
    ]
    again = data.draw(st.lists(st.sampled_from(objects), max_size=3))
    order = data.draw(st.permutations([*objects, *copy.deepcopy(again), *others]))
    assert same(read_dump(order), expected)
    cut = data.draw(st.integers(0, len(order)))
    lists = [
        {"apiVersion": "v1", "kind": "List", "items": part} for part in (order[:cut], order[cut:])
    ]
    assert same(read_dump(lists), expected)
    assert same(read_dump({"kind": "List", "items": lists}), expected)


def test_lists_of_one_kind_name_the_kind_of_their_items():
    objects = dumps.native_gang()
    pods = [
        {key: each[key] for key in each if key not in ("apiVersion", "kind")}
        for each in objects
        if each["kind"] == "Pod"
    ]
    others = [each for each in objects if each["kind"] != "Pod"]
    pod_list = {"apiVersion": "v1", "kind": "PodList", "items": pods}
    assert same(read_dump([pod_list, *others]), read_dump(objects))


@pytest.mark.parametrize("name", sorted(DUMPS))
def test_fields_that_no_rule_names_change_nothing(name):
    objects = DUMPS[name]()
    expected = read_dump(objects)
    for each in objects:
        each["metadata"] |= {"selfLink": 3, "generateName": ["x"], "finalizers": {"a": 1}}
        for part in ("spec", "status"):
            each[part] = each.get(part, {}) | {"unheardOf": {"minMember": "x"}, "extra": [1, None]}
        each["webhook"] = object()
    assert same(read_dump(objects), expected)


def found_or_told(dump, text):
    try:
        return dump.find(text)
    except UnknownNameError as error:
        return str(error)


@pytest.mark.parametrize("name", sorted(DUMPS))
def test_a_job_is_found_by_its_uid_and_by_each_pod_or_the_error_names_it(name):
    dump = read_dump(DUMPS[name]())
    for job in dump.snapshot.jobs:
        assert dump.find(job.uid) == job.uid
        for task in job.tasks:
            for text in (task.uid, task.name, f"{task.namespace}/{task.name}"):
                assert job.uid in found_or_told(dump, text)


@pytest.mark.parametrize("name", [*sorted(DUMPS), "everything"])
def test_with_our_admission_nothing_waits_for_theirs(name):
    make = everything if name == "everything" else DUMPS[name]
    for job in read_dump(make(), admission="ours").snapshot.jobs:
        assert HoldKind.NOT_ADMITTED not in kinds(job)


@pytest.mark.parametrize("name", [*sorted(DUMPS), "everything"])
def test_nothing_that_is_held_starts(name):
    dump = read_dump(everything() if name == "everything" else DUMPS[name]())
    result = schedule(dump.snapshot)
    starting = {bind.task_uid for bind in result.binds}
    for job in dump.snapshot.jobs:
        for task in job.tasks:
            if job.holds or task.holds:
                assert task.uid not in starting


# Bad input


def test_values_that_cannot_be_read_are_all_told():
    objects = [
        dumps.native_group("g", "three"),
        dumps.kai_group("k", "two"),
        dumps.pod("p", cpu="much"),
        dumps.coscheduling_group("c", -1),
    ]
    with pytest.raises(KubernetesObjectError) as caught:
        read_dump(objects)
    assert {fault.path.partition("[")[0] for fault in caught.value.faults} == {
        "podgroups.scheduling.k8s.io",
        "podgroups.scheduling.run.ai",
        "podgroups.scheduling.x-k8s.io",
        "pods",
    }
    path = "podgroups.scheduling.x-k8s.io['team/c'].spec.minMember"
    assert f"{path}: expected an integer of at least 0, got -1" in str(caught.value)


def test_a_configuration_is_told_as_that():
    with pytest.raises(KubernetesObjectError, match="this is a configuration"):
        read_dump({"actions": "allocate", "tiers": []})


def test_a_config_map_is_no_configuration():
    content = {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": "", "other": ""}}
    for unknown in ("fault", "notice"):
        with pytest.raises(ConfigError, match=r"its keys: other, volcano-scheduler.conf"):
            SchedulerConfig.from_mapping(content, unknown=unknown)


@pytest.mark.parametrize("objects", [5, "pods", [5], [None], {"kind": "Pod"}, [{"metadata": 1}]])
def test_what_is_no_dump_is_told(objects):
    with pytest.raises(KubernetesObjectError):
        read_dump(objects)


def test_arguments_are_checked():
    for wrong in ({"admission": "mine"}, {"scheduler_names": 3}, {"now": "soon"}):
        with pytest.raises(KubernetesObjectError):
            read_dump([], **wrong)


def test_notices_name_all_objects():
    pods = [dumps.pod(f"p{i}", scheduler="volcano", preemptionPolicy="Never") for i in range(8)]
    (notice,) = read_dump(pods).notices
    assert notice.objects == tuple(f"team/p{i}" for i in range(8))
    assert notice.examples == notice.objects[:5]


def test_the_present_is_the_latest_time_of_objects_and_conditions():
    dump = read_dump(dumps.kueue_waits())
    assert dump.snapshot.now == read_dump([], now=dumps.NOW).snapshot.now
    assert dump.assumed[0] == "now is 2026-11-20T10:00:00Z, the latest time in the dump"
    assert read_dump([], now=5).snapshot.now == 5
    assert read_dump([]).snapshot.other_tasks == ()


def test_pods_of_further_schedulers_are_single_jobs():
    pods = [dumps.pod("mine", scheduler="ours"), dumps.pod("else", scheduler="theirs")]
    dump = read_dump(pods, scheduler_names=["ours"])
    assert [job.name for job in dump.snapshot.jobs] == ["mine"]
    assert only_job(dump).tasks[0].resreq == Resource(milli_cpu=1000, memory=1 << 30)
    assert [notice.code for notice in dump.notices] == [NoticeCode.OTHER_SCHEDULER]


SUSPENDED = {"parallelism": 3, "completions": 2, "suspend": True, "template": dumps.template("2")}


def test_a_suspended_job_without_pods_waits_and_is_found():
    job = dumps.thing("batch/v1", "Job", "later", spec=SUSPENDED)
    dump = read_dump([dumps.node("n1"), job])
    (found,) = dump.snapshot.jobs
    assert (dump.find("Job/later"), found.min_available) == (found.uid, 1)
    assert [task.resreq.milli_cpu for task in found.tasks] == [2000, 2000]
    (standing,) = standings(dump.snapshot, schedule(dump.snapshot), facts=dump.facts)
    assert standing.state is JobState.SUSPENDED
    assert "Job later is suspended" in standing.text


def test_a_job_that_waits_for_its_workload_is_suspended_as_a_whole():
    job = dumps.thing(
        "batch/v1", "Job", "later", spec=SUSPENDED, labels={"kueue.x-k8s.io/queue-name": "main"}
    )
    dump = read_dump([dumps.node("n1"), dumps.local_queue("main", "research"), job])
    (found,) = dump.snapshot.jobs
    assert (found.queue, found.min_available) == ("research", 2)


def test_a_suspended_job_is_no_second_job_beside_what_tells_of_it():
    job = dumps.thing("batch/v1", "Job", "later", spec=SUSPENDED)
    done = job | {"status": {"conditions": [dumps.condition("Complete", "True")]}}
    assert not read_dump([dumps.node("n1"), done]).snapshot.jobs
    pod = dumps.pod("later-x", owner=job, scheduler="volcano")
    (found,) = read_dump([dumps.node("n1"), job, pod]).snapshot.jobs
    assert [task.name for task in found.tasks] == ["later-x"]
