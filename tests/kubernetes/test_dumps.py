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
    Preemptible,
    QueueStatus,
    Resource,
    SchedulerConfig,
    TaskStatus,
    UnknownNameError,
    schedule,
)
from batchsched.kubernetes import Told, binding_objects, read_dump
from batchsched.model.topology import TopologyRequest
from batchsched.tools import JobStatus, explain, standings

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
VOLCANO_GROUP = "scheduling.k8s.io/group-name"


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
def test_what_groups_ask_of_placement_and_of_evictions_is_read(spec):
    objects = dumps.native_gang()
    objects[1]["spec"] |= spec
    dump = read_dump(objects)
    (facts,) = dump.facts.values()
    assert facts.caveats == ()
    job = only_job(dump)
    assert (job.topology, job.evict_whole) == (TopologyRequest(required="rack"), True)
    assert not only_job(read_dump(dumps.native_gang())).evict_whole


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


def volcano_without_group(**state):
    job = dumps.volcano_job("mpi", 3, 2)
    job["status"]["state"] = state
    return [job, dumps.volcano_queue("default"), dumps.node("n1")]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting", ""])
def test_a_volcano_job_whose_group_is_not_there_waits_for_it(phase):
    dump = read_dump(volcano_without_group(phase=phase))
    job = only_job(dump)
    assert (job.uid, job.min_available, len(job.tasks)) == ("team/mpi", 2, 3)
    ((hold,), facts) = job.holds, dump.facts[job.uid]
    assert (hold.kind, hold.text) == (
        HoldKind.GROUP_MISSING,
        "the PodGroup of Job mpi does not exist",
    )
    assert (facts.system, facts.kind, facts.owner) == ("volcano", "Job", "mpi")
    assert started(dump) == []
    assert dump.find("job.batch.volcano.sh/mpi") == job.uid


def test_a_volcano_job_that_was_aborted_waits_to_be_resumed_and_says_why():
    told = {"reason": "JobAborted", "message": "aborted by a policy"}
    told["lastTransitionTime"] = dumps.EARLIER
    dump = read_dump(volcano_without_group(phase="Aborted", **told), now=dumps.NOW)
    (hold,) = only_job(dump).holds
    assert (hold.kind, hold.text) == (HoldKind.SUSPENDED, "Job mpi is aborted")
    answer = str(explain(dump.snapshot, schedule(dump.snapshot), "team/mpi", facts=dump.facts))
    assert "Volcano says, 30 min ago: aborted by a policy" in answer


def test_a_volcano_job_that_has_ended_or_has_a_group_is_no_second_job():
    for phase in ("Completing", "Completed", "Terminating", "Terminated", "Failed"):
        assert read_dump(volcano_without_group(phase=phase)).snapshot.jobs == ()
    assert [job.name for job in read_dump(dumps.volcano_pending()).snapshot.jobs] == ["mpi-0c1d"]
    job, *others = volcano_without_group(phase="Pending")
    pod = dumps.pod("mpi-0", scheduler="volcano", owner=job, notes={VOLCANO_GROUP: "mpi-x"})
    (found,) = read_dump([job, pod, *others]).snapshot.jobs
    assert (found.name, len(found.tasks)) == ("mpi-x", 1)


def test_a_volcano_job_of_which_anything_is_left_does_not_wait_for_its_group():
    job, *others = volcano_without_group(phase="Running")
    group = dumps.volcano_group("mpi-x", 2, "Completed", owner=job)
    assert read_dump([job, group, *others]).snapshot.jobs == ()
    runs = dumps.pod("mpi-0", on="n1", owner=job, notes={VOLCANO_GROUP: "mpi-x"})
    assert read_dump([job, runs, *others]).snapshot.jobs == ()
    ended = dumps.pod("mpi-0", phase="Failed", owner=job)
    assert [each.name for each in read_dump([job, ended, *others]).snapshot.jobs] == ["mpi"]


def test_kinds_of_which_the_dump_has_none_are_assumed_not_to_be_there():
    objects = [*volcano_without_group(phase="Pending"), dumps.kueue_job("later")]
    assumed = read_dump(objects).assumed
    assert "there are no Workloads of kueue.x-k8s.io: none are in the dump" in assumed
    assert "there are no PodGroups of scheduling.volcano.sh: none are in the dump" in assumed
    more = [dumps.workload("w"), dumps.volcano_group("g", 1)]
    assert not any("there are no" in each for each in read_dump([*objects, *more]).assumed)


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


def test_no_job_of_volcano_can_be_in_the_queue_root():
    queues = [dumps.volcano_queue("root"), dumps.volcano_queue("default", parent="root")]
    group = dumps.volcano_group("g", 1, queue="root")
    dump = read_dump([*queues, group, *dumps.volcano_pods("g", "g", 1), dumps.node("n1")])
    result = schedule(dump.snapshot)
    (standing,) = standings(dump.snapshot, result)
    assert (standing.state, [each.text for each in standing.blockers]) == (
        JobStatus.NO_QUEUE,
        ["no job can be in queue root; it must name a queue below it"],
    )
    assert dump.notices == ()
    answer = explain(dump.snapshot, result, "team/g", facts=dump.facts)
    assert (answer.once_released, answer.would_start) == ("", ())


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


def gpu_memory(asked, *nodes, **more):
    pods = dumps.kai_pods("g", 1, notes={"gpu-memory": asked}, **more)
    return [*dumps.kai_queues(), *nodes, dumps.kai_group("g", 1), *pods]


def gpu_node(name, memory, **more):
    labels = {"nvidia.com/gpu.memory": memory} if memory else {}
    return dumps.node(name, "8", 2, labels=labels, **more)


def test_a_pod_that_asks_for_more_memory_than_any_gpu_has_never_fits():
    dump = read_dump(gpu_memory("80001", gpu_node("n1", "80000"), gpu_node("n2", "")))
    (standing,) = standings(dump.snapshot, schedule(dump.snapshot))
    assert standing.state is JobStatus.NEVER_FITS
    told = [each.consequence for each in dump.facts["team/g"].caveats]
    assert "asks for 80001 MiB of one GPU; the largest has 80000 MiB" in told


def test_a_part_of_a_gpu_by_its_memory_is_of_a_gpu_that_has_so_much():
    nodes = [gpu_node("a", "40000"), gpu_node("b", "80000"), gpu_node("c", "160000")]
    dump = read_dump(gpu_memory("60000", *nodes))
    (task,) = only_job(dump).tasks
    assert task.resreq.get(GPU) == 750
    (bind,) = schedule(dump.snapshot).binds
    assert bind.node_name in ("b", "c")
    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [ssd]}, {}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    both = read_dump(gpu_memory("60000", *nodes, affinity=affinity))
    assert started(both) == []
    fast = dumps.node("d", "8", 1, labels={"nvidia.com/gpu.memory": "80000", "disk": "ssd"})
    both = read_dump(gpu_memory("60000", *nodes, fast, affinity=affinity))
    assert [bind.node_name for bind in schedule(both.snapshot).binds] == ["d"]


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


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory"])
def test_a_part_of_a_gpu_that_cannot_be_read_is_a_whole_one(key):
    objects = dumps.kai_shared()
    more = next(each for each in objects if each["metadata"]["name"] == "more-p0")
    more["metadata"]["annotations"] |= {"gpu-fraction": "half", "gpu-fraction-num-devices": "two"}
    if key == "gpu-memory":
        del more["metadata"]["annotations"]["gpu-fraction"]
        more["metadata"]["annotations"][key] = "80GB"
    dump = read_dump(objects)
    (task,) = dump.snapshot.job("team/more").tasks
    assert task.resreq.get(GPU) == 1000
    ignored = {notice.field for notice in dump.notices if notice.code is NoticeCode.FIELD_IGNORED}
    assert ignored >= {
        *(f"metadata.annotations[{name!r}]" for name in (key, "gpu-fraction-num-devices"))
    }


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
        ({"stalenessGracePeriod": "5m"}, "spec.stalenessGracePeriod"),
        (
            {"topologyConstraint": {"topology": "t", "preferredTopologyLevel": "rack"}},
            "spec.topologyConstraint",
        ),
        ({"topologyConstraint": {}}, None),
    ],
)
def test_what_kai_does_otherwise_is_a_caveat_of_the_group(spec, field):
    group = dumps.kai_group("g", **spec)
    group["spec"].setdefault("priorityClassName", "train")
    caveats = read_dump([group, *dumps.kai_queues()]).facts["team/g"].caveats
    assert [one.field for one in caveats if one.code is NoticeCode.FIELD_IGNORED] == (
        [field] if field else []
    )


@pytest.mark.parametrize(
    ("spec", "preemptible"),
    [
        ({"priorityClassName": "train"}, Preemptible.ALWAYS),
        ({"priorityClassName": "inference"}, Preemptible.NEVER),
        ({"priorityClassName": "build", "preemptibility": "preemptible"}, Preemptible.ALWAYS),
        ({"preemptibility": "non-preemptible"}, Preemptible.NEVER),
        ({"priorityClassName": "train", "preemptibility": "semi-preemptible"}, Preemptible.SURPLUS),
    ],
)
def test_groups_of_kai_say_whether_they_are_preemptible(spec, preemptible):
    dump = read_dump([dumps.kai_group("g", **spec), dumps.kai_queue("default-queue")])
    assert only_job(dump).preemptible is preemptible


def test_queues_of_kai_have_minimum_runtimes():
    queue = dumps.kai_queue("default-queue")
    queue["spec"] |= {"preemptMinRuntime": "1h30m", "reclaimMinRuntime": "soon"}
    dump = read_dump([queue])
    (read,) = dump.snapshot.queues
    assert (read.preempt_min_runtime, read.reclaim_min_runtime) == (5400, None)
    assert any(one.field == "spec.reclaimMinRuntime" for one in dump.notices)


def test_a_pod_that_names_no_group_is_one_that_kai_passes_over():
    (pod,) = dumps.kai_pods("g", 1)
    del pod["metadata"]["annotations"]["pod-group-name"]
    dump = read_dump([*dumps.kai_queues(), pod])
    (hold,) = only_job(dump).holds
    assert (hold.kind, hold.name) == (HoldKind.GROUP_MISSING, "pod-group-name")
    assert hold.text.startswith("KAI Scheduler passes over a pod without the annotation")


def test_kubernetes_groups_that_kai_translates_are_no_jobs_of_their_own():
    group = dumps.native_group("own", 2)
    pods = dumps.kai_pods("pg-own", 2, schedulingGroup={"podGroupName": "own"})
    dump = read_dump([*dumps.kai_queues(), dumps.kai_group("pg-own", 2), group, *pods])
    assert only_job(dump).uid == "team/pg-own" == dump.find("own")


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


def test_the_same_fault_of_many_objects_is_one_line():
    with pytest.raises(KubernetesObjectError) as caught:
        read_dump([dumps.pod(f"p-{n:02}", cpu="8 cores") for n in range(40)])
    line, of_limits = str(caught.value).splitlines()
    path = "pods['team/p-{}'].spec.containers[0].resources.requests.cpu"
    assert line.startswith(f"{path.format('00')}: expected a quantity, got '8 cores'")
    more = ", ".join(path.format(n) for n in ("01", "02"))
    assert line.endswith(f"(and 39 more: {more}, ...)")
    assert of_limits == line.replace("requests", "limits")
    assert len(caught.value.faults) == 80


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
    pods = [
        dumps.pod(f"p{i}", scheduler="volcano", topologySpreadConstraints=[{}]) for i in range(8)
    ]
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
    assert standing.state is JobStatus.SUSPENDED
    assert "Job later is suspended" in standing.text


def test_a_suspended_job_without_pods_needs_no_more_than_is_missing():
    spec = SUSPENDED | {"parallelism": 4, "completions": 5}
    given = dumps.thing("batch/v1", "Job", "later", spec=spec, status={"succeeded": 3})
    dump = read_dump([dumps.node("n1"), given])
    assert len(dump.snapshot.jobs[0].tasks) == 2


def test_a_suspended_job_is_no_second_job_beside_what_tells_of_it():
    job = dumps.thing("batch/v1", "Job", "later", spec=SUSPENDED)
    done = job | {"status": {"conditions": [dumps.condition("Complete", "True")]}}
    assert not read_dump([dumps.node("n1"), done]).snapshot.jobs
    pod = dumps.pod("later-x", owner=job, scheduler="volcano")
    (found,) = read_dump([dumps.node("n1"), job, pod]).snapshot.jobs
    assert [task.name for task in found.tasks] == ["later-x"]


# Advice

FULL = dumps.node("n1", "1")


def volcano_rivals():
    groups = [dumps.volcano_group(name, 1) for name in ("a", "b")]
    pods = [each for name in ("a", "b") for each in dumps.volcano_pods(name, name, 1)]
    return [*groups, *pods, dumps.volcano_queue("default"), FULL]


def kai_rivals():
    groups = [dumps.kai_group(name, 1) for name in ("a", "b")]
    return [*groups, *dumps.kai_pods("a", 1), *dumps.kai_pods("b", 1), *dumps.kai_queues(), FULL]


def native_rivals():
    groups = [dumps.native_group(name, 1) for name in ("a", "b")]
    return [*groups, *dumps.members("a", 1), *dumps.members("b", 1), FULL]


def coscheduling_rivals():
    groups = [dumps.coscheduling_group(name, 1) for name in ("a", "b")]
    pods = [each for name in ("a", "b") for each in dumps.coscheduling_pods(name, 1)]
    return [*groups, *pods, FULL]


def bare_rivals():
    return [*(dumps.pod(name, scheduler="volcano") for name in ("a", "b")), FULL]


def kueue_rivals(admitted):
    objects = [dumps.local_queue(), dumps.cluster_queue(), FULL]
    done = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
    for name in ("a", "b"):
        pod = dumps.pod(f"{name}-0", notes={"kueue.x-k8s.io/workload": name})
        objects += [dumps.workload(name, None, 1, done if admitted else ()), pod]
    return objects


@pytest.mark.parametrize(
    ("objects", "can_change"),
    [
        (volcano_rivals(), True),
        (kai_rivals(), True),
        (kueue_rivals(admitted=False), True),
        (kueue_rivals(admitted=True), False),
        (native_rivals(), False),
        (coscheduling_rivals(), False),
        (bare_rivals(), False),
    ],
)
def test_a_priority_is_advised_only_where_somebody_can_change_it(objects, can_change):
    dump = read_dump(objects, admission="ours" if can_change else "theirs")
    result = schedule(dump.snapshot)
    uid = dump.find("b")
    answer = explain(dump.snapshot, result, uid, facts=dump.facts)
    advice = [change.text for change in answer.would_start if "priority" in change.text]
    assert bool(advice) is can_change
    without_facts = explain(dump.snapshot, result, uid)
    assert any("priority" in change.text for change in without_facts.would_start)


def test_what_is_not_there_cannot_be_released():
    dump = read_dump([*dumps.members("gone", 2), dumps.node("n1")])
    answer = explain(dump.snapshot, schedule(dump.snapshot), "team/gone", facts=dump.facts)
    assert [change.text for change in answer.would_start] == ["its group gone exists"]
    assert answer.once_released == "once its group gone exists, it would start on n1"


def test_a_basic_group_and_a_basic_group_of_groups_need_one_each():
    dump = read_dump([dumps.native_group("g"), *dumps.members("g", 3)])
    assert only_job(dump).min_available == 1
    tree = [dumps.composite("w"), *(dumps.native_group(name, 2, parent="w") for name in "xy")]
    dump = read_dump([*tree, *dumps.members("x", 2), *dumps.members("y", 2)])
    assert only_job(dump).min_groups == 1
