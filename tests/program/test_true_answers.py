"""What a true answer says of dumps that were made after public questions."""

import json

from tests.support import dumps
from tests.support.program import run

WIDE = ("--width", 200)


def why(*words, given):
    """Return the whole answer to why."""
    return run("why", *words, *WIDE, "--all", given=given)


def volcano_group(name, least, owner=None, phase="Inqueue", **spec):
    return dumps.thing(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        name,
        owner=owner,
        spec={"minMember": least, "queue": "default"} | spec,
        status={"phase": phase},
    )


def volcano_queue(name="default", **spec):
    return dumps.thing(
        "scheduling.volcano.sh/v1beta1", "Queue", name, namespace="", spec=spec, status={}
    )


def without_requests(pod):
    for container in pod["spec"]["containers"]:
        container.pop("resources")
    return pod


# Tasks without requests


def test_tasks_without_requests_start_under_the_presets_of_kubernetes_and_kai():
    group = dumps.native_group("g", 3)
    members = [dumps.pod(f"g-{i}", schedulingGroup={"podGroupName": "g"}) for i in range(3)]
    without_requests(members[0])
    ended = run("jobs", given=[group, *members, dumps.node("n1")])
    assert ended.lines[0] == "0 jobs wait, 1 starts now, 0 run."
    notes = {"pod-group-name": "g"}
    pod = without_requests(dumps.pod("x", scheduler="kai-scheduler", notes=notes))
    given = [dumps.kai_queue("default-queue"), dumps.kai_group("g"), pod, dumps.node("n1")]
    assert run("jobs", given=given).lines[0].startswith("0 jobs wait, 1 starts")


def test_room_is_not_what_a_task_lacks_that_no_action_tries(tmp_path):
    config = tmp_path / "allocate.json"
    config.write_text('{"actions": "allocate", "tiers": [{"plugins": [{"name": "predicates"}]}]}')
    pod = without_requests(dumps.pod("x", scheduler="volcano"))
    ended = run("why", "-c", config, given=[pod, dumps.node("n1")])
    assert ended.lines[0] == ("team/x waits, not tried: no action of the cycle considered it")


# What runs on each node


def test_nodes_that_are_added_or_empty_run_what_each_node_runs():
    proxy = dumps.thing("apps/v1", "DaemonSet", "proxy", namespace="kube-system")
    objects = [dumps.native_group("g", 6)]
    objects += [dumps.pod(f"g-{i}", "4", schedulingGroup={"podGroupName": "g"}) for i in range(6)]
    for place in range(3):
        own = {"on": f"n{place}", "owner": proxy, "namespace": "kube-system"}
        objects += [dumps.node(f"n{place}", "8"), dumps.pod(f"proxy-{place}", "100m", **own)]
    ended = why(given=objects)
    assert "waits, never fits: only 3 of the 6 tasks" in ended.lines[0]
    assert "  3 more nodes like n0" in ended.lines
    added = run("what-if", "add-node n0x3", *WIDE, given=objects)
    assert added.lines[0].startswith("6 tasks of 1 job start")
    assert "  3 more nodes like n0" in added.lines


# Kueue


def test_a_label_that_names_a_cluster_queue_must_name_a_local_queue():
    job = dumps.kueue_job("work")
    told = [dumps.condition("QuotaReserved", "False", message="LocalQueue research doesn't exist")]
    workload = dumps.workload("work", job, 2, told, queue="research")
    ended = why(given=[job, workload, dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1")])
    assert (
        "LocalQueue research doesn't exist: that is a ClusterQueue, and a job must name a"
        in (ended.lines[0])
    )
    assert ended.lines[0].endswith("; namespace team has user-queue")
    assert "  it names a queue that takes it" in ended.out


# Volcano


def test_tasks_that_do_not_exist_because_they_depend_on_others_are_a_caveat():
    tasks = [
        {"name": "first", "replicas": 1, "template": dumps.template()},
        {"name": "second", "replicas": 5, "template": dumps.template()}
        | {"dependsOn": {"name": ["first"]}},
    ]
    job = dumps.thing("batch.volcano.sh/v1alpha1", "Job", "job", spec={"tasks": tasks}, status={})
    notes = {"scheduling.k8s.io/group-name": "job-1", "volcano.sh/task-spec": "first"}
    pod = dumps.pod("job-first-0", scheduler="volcano", on="n1", notes=notes, owner=job)
    given = [job, volcano_group("job-1", 1, job), pod, volcano_queue(), dumps.node("n1")]
    ended = why(given=given)
    assert ended.lines[0].startswith("team/job-1 (Job job) runs")
    assert "5 tasks do not exist yet: they depend on first, other tasks of the job" in ended.out


def test_what_enqueue_compares_is_told_with_its_numbers():
    cpus = {"cpu": "16"}
    waits = volcano_group("wide", 4, phase="Pending", minResources=cpus)
    node, notes = dumps.node("n1", "20"), {"scheduling.k8s.io/group-name": "runs"}
    runs = [dumps.pod("runs-0", "8", scheduler="volcano", on="n1", notes=notes)]
    here, there = (volcano_group("runs", 1, phase="Running", queue=q) for q in ("default", "x"))
    guards = volcano_queue("x", guarantee={"resource": {"cpu": "6"}})
    for given, said in (
        (
            [volcano_queue(capability={"cpu": "18"}), here, *runs],
            "18 cpu that queue default may hold: 8 cpu are held",
        ),
        (
            [volcano_queue(), guards],
            "14 cpu that the guarantees of other queues leave: 0 cpu are held",
        ),
        ([volcano_queue(), here, *runs], "20 cpu of all nodes: 8 cpu are held"),
        (
            [volcano_queue(), volcano_queue("x"), there, *runs, *runs_twice(runs)],
            "24 cpu that are 1.2 times those of all nodes: 16 cpu are held",
        ),
    ):
        told = why("wide", given=[*given, waits, node]).out
        more = "its minResources, 16 cpu, are more than is left of the"
        assert f"enqueue has not admitted it: {more} {said}" in told
    let_in = volcano_group("old", 4, minResources=cpus)
    kept = why("wide", given=[volcano_queue(), let_in, waits, node])
    assert "0 cpu are held, and 16 cpu kept for what was let in: old" in kept.out
    assert "decides as here" not in kept.out
    fits = why("wide", given=[volcano_queue(), waits, node])
    assert "the phase of its PodGroup is Pending" in fits.lines[0]


def runs_twice(pods):
    """Return pods that run like others, under other names."""
    name = {"name": "again", "uid": "again"}
    return [{**pod, "metadata": {**pod["metadata"], **name}} for pod in pods]


# One cause, that of the task that finds no place


def native_gang(count, least=None, **spec):
    members = [
        dumps.pod(f"g-{i}", schedulingGroup={"podGroupName": "g"}, **spec) for i in range(count)
    ]
    return [dumps.native_group("g", least or count), *members]


def test_the_cause_of_a_gang_is_what_the_task_lacks_that_finds_no_place():
    few_slots = dumps.node("n1", "64")
    few_slots["status"]["allocatable"] = {**few_slots["status"]["allocatable"], "pods": "2"}
    ended = why(given=[*native_gang(3), few_slots])
    assert ended.lines[0] == (
        "team/g waits, never fits: only 2 of the 3 tasks that it needs have room, even if these "
        "nodes were empty: for one more, 1 of 1 node has no slot for another task"
    )
    assert "has room" not in ended.out
    assert (
        "  with 2 of its tasks placed, task team/g-2 does not fit on the only node" in ended.lines
    )
    apart = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
    apart = {"affinity": {"podAntiAffinity": apart}, "labels": {"a": "b"}}
    ended = why(given=[*native_gang(3, **apart), dumps.node("n1"), dumps.node("n2")])
    assert (
        "for one more, 2 of 2 nodes are near tasks that keep it away (anti-affinity)"
        in (ended.lines[0])
    )


def test_the_cause_of_a_gang_for_which_others_leave_too_little_is_in_the_first_sentence():
    others = [dumps.pod(f"o-{i}", "3", on=f"n{i}") for i in range(2)]
    nodes = [dumps.node(f"n{i}", "4") for i in range(2)]
    ended = why("g", given=[*native_gang(3), *others, *nodes])
    assert ended.lines[0] == (
        "team/g waits, no room: only 2 of the 3 tasks that must start together have room now: "
        "for one more, 2 of 2 nodes lack free cpu"
    )


# Admission is decided anew


LACKS = (
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
    "default-flavor, 2 more needed"
)


def kueue(*, limit="4", strategy="BestEffortFIFO", admitted=1, waiting=(LACKS,), cpu="2"):
    """Return a queue with jobs of two tasks each, some admitted and running, others not."""
    queue = dumps.cluster_queue(cpu=limit)
    queue["spec"]["queueingStrategy"] = strategy
    objects = [queue, dumps.local_queue(), dumps.node("n1", "16")]
    for place in range(admitted):
        job = dumps.kueue_job(f"runs-{place}", suspend=False)
        told = [dumps.condition("QuotaReserved", "True"), dumps.condition("Admitted", "True")]
        status = {"admission": {"clusterQueue": "research"}}
        objects += [job, dumps.workload(f"job-runs-{place}", job, 2, told, status=status)]
        objects += [dumps.pod(f"runs-{place}-{i}", "2", owner=job, on="n1") for i in range(2)]
    for place, message in enumerate(waiting):
        job = dumps.kueue_job(f"waits-{place}")
        told = [dumps.condition("QuotaReserved", "False", "Pending", message)] if message else []
        workload = dumps.workload(f"job-waits-{place}", job, 2, told)
        workload["metadata"]["creationTimestamp"] = f"2026-11-20T09:3{place}:00Z"
        objects += [job, workload]
    return objects


def test_what_if_says_what_kueue_would_admit():
    ended = run("what-if", "queue research limit.cpu=8", given=kueue())
    assert ended.status == 1
    assert ended.lines[0].startswith("If Kueue decides as here, 2 tasks of 1 job start")
    ended = run("what-if", "end runs-0", given=kueue())
    assert ended.lines[0].startswith("If Kueue decides as here, 2 tasks of 1 job start")
    released = run("what-if", "release waits-0", given=kueue(limit="8"))
    assert released.lines[0].startswith("2 tasks of 1 job start that wait now")


def test_the_advice_for_a_job_that_is_not_admitted_is_tried_with_admission_as_here():
    ended = why("waits-0", given=kueue())
    assert ended.status == 1
    assert ended.lines[0].startswith("team/job-waits-0 (Job waits-0) waits, not admitted: ")
    assert "  1st of 1 in queue research" in ended.lines
    assert "  it would still wait if Kueue decides as here: queue research would hold" in ended.out
    at = ended.lines.index(
        "It would start now with any one of these changes (each was tried), "
        "if Kueue decides as here"
    )
    assert {"  end job team/job-runs-0"} < set(ended.lines[at:])
    assert any(line.startswith("  queue research: limit 8 cpu") for line in ended.lines[at:])
    assert "it has its share" not in ended.out


def test_what_the_queues_would_admit_is_said_to_start_if_kueue_decides_so():
    ended = why("waits-0", given=kueue(limit="8"))
    assert ended.status == 1
    assert "  it would start if Kueue decides as here: 2 tasks on n1" in ended.lines


def test_nothing_starts_now_for_which_kueue_waits_whatever_quota_there_is():
    def held_by(message, **status):
        job = dumps.kueue_job("work")
        told = [dumps.condition("QuotaReserved", "False", "Pending", message)]
        workload = dumps.workload("work", job, 2, told, status=status)
        return [job, workload, dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1")]

    def requeued(at):
        return held_by("Exceeded the PodsReady timeout", requeueState={"requeueAt": at})

    def follows(now, given):
        lines = why("--now", now, given=given).lines
        return lines[lines.index("What follows") + 1]

    starts = "it would start if Kueue decides as here: 2 tasks on n1"
    given, now = requeued("2026-11-20T10:05:00Z"), "2026-11-20T10:00:00Z"
    assert follows(now, given) == f"  from 2026-11-20T10:05:00Z on, {starts}"
    assert follows("2026-11-20T10:06:00Z", given) == f"  {starts}"
    given = held_by("waiting for all admitted workloads to be in PodsReady condition")
    assert follows(now, given) == f"  once the pods of other jobs are ready, {starts}"


def test_where_flavors_are_added_up_it_would_start_as_far_as_could_be_seen():
    queue, job = dumps.cluster_queue(), dumps.kueue_job("work")
    given = [job, dumps.workload("work", job), dumps.local_queue(), queue, dumps.node("n1")]
    (group,) = queue["spec"]["resourceGroups"]
    group["flavors"].append({**group["flavors"][0], "name": "spot"})
    ended = why(given=given)
    assert "the quotas of a resource are added up" in ended.out
    assert (
        "  it would start if Kueue decides as here: 2 tasks on n1 (as far as could be seen)"
        in ended.lines
    )


def test_a_queue_that_holds_what_it_lends_to_nobody_is_not_above_its_share():
    def queue_in_cohort(name, lends):
        queue = dumps.cluster_queue(name, cpu="4")
        queue["spec"]["cohortName"] = "all"
        (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
        flavor["resources"][0]["lendingLimit"] = lends
        return queue

    def told(held):
        given = [queue_in_cohort("a", "3"), queue_in_cohort("b", "0"), dumps.node("n1", "6")]
        for name, count in (("a", 3), ("b", held)):
            job = dumps.kueue_job(name, suspend=False)
            fields = {"status": {"admission": {"clusterQueue": name}}, "queue": name}
            reserved = [dumps.condition(each, "True") for each in ("QuotaReserved", "Admitted")]
            given += [dumps.local_queue(name, name), job]
            given += [dumps.workload(f"job-{name}", job, count, reserved, **fields)]
            given += [dumps.pod(f"{name}-{i}", "1", owner=job, on="n1") for i in range(count)]
        waits = dumps.kueue_job("waits")
        return why("waits", given=[*given, waits, dumps.workload("waits", waits, queue="a")]).out

    assert "queue b holds 1 cpu above its share" in told(held=5)
    assert "above its share" not in told(held=4)


def test_what_is_not_admitted_has_its_fair_share():
    objects = kueue(limit="4", admitted=2)
    lent = [dumps.cluster_queue("lends", cpu="4"), dumps.local_queue("l", "lends")]
    for each in [*objects, *lent]:
        if each["kind"] == "ClusterQueue":
            each["spec"]["cohortName"] = "both"
        if each["metadata"]["name"] == "job-waits-0":
            each["spec"]["queueName"] = "l"
    rows = {
        row["queue"]: row for row in run("queues", "--json", given=objects + lent).data["queues"]
    }
    assert (rows["lends"]["share"]["cpu"], rows["research"]["on_loan"]) == (4000, 4000)


def test_what_can_never_be_admitted_is_said_never_to_fit_and_nothing_follows():
    message = "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor "
    message += (
        "default-flavor, previously considered podsets requests (0) + current podset request "
    )
    message += "(20) > maximum capacity (4)"
    ended = why("waits-0", given=kueue(waiting=(message,)))
    assert ended.lines[0] == "team/job-waits-0 (Job waits-0) waits, never fits:"
    assert ended.lines[1].startswith("  research can never admit it: couldn't assign flavors")
    assert "it would start" not in ended.out.lower()
    assert "What follows" not in ended.out
    other = "couldn't assign flavors to pod set main: flavor a doesn't match node affinity, "
    other += "insufficient unused quota for cpu in flavor b, 2 more needed"
    assert "waits, not admitted:" in why("waits-0", given=kueue(waiting=(other,))).lines[0]


def test_volcanos_group_that_no_node_could_hold_never_fits():
    tasks = [{"name": "t", "replicas": 1, "template": dumps.template("73")}]
    job = dumps.thing("batch.volcano.sh/v1alpha1", "Job", "job", spec={"tasks": tasks}, status={})
    group = volcano_group("job-1", 1, job, phase="Pending")
    ended = why(given=[job, group, volcano_queue(), dumps.node("n1", "72")])
    assert ended.lines[0] == (
        "team/job-1 (Job job) waits, never fits: no node has 73 cpu, the largest has 72 cpu"
    )
    assert "it has its share" not in ended.out


def test_a_queue_of_kueue_that_is_strict_waits_for_its_first():
    objects = kueue(limit="6", strategy="StrictFIFO", waiting=(LACKS, ""))
    for each in objects:
        if each["metadata"]["name"] == "job-waits-1":
            each["spec"]["podSets"][0]["count"] = 1
    ended = why("waits-1", given=objects)
    assert (
        "it is behind team/waits-0, number 2 of 2: of a StrictFIFO queue Kueue tries only"
        in (ended.lines[0])
    )
    assert "  2nd of 2 in queue research, after team/job-waits-0 (creation_time)" in ended.lines
    assert "it would start if" not in ended.out
    both = run("what-if", "queue research limit.cpu=10", given=objects)
    assert both.lines[0].startswith("If Kueue decides as here, 3 tasks of 2 jobs start")


# Before it is submitted


def manifest_of(tmp_path, count=2, cpu="2", labels=None, name="train"):
    file = tmp_path / f"{name}.json"
    spec = {"parallelism": count, "completions": count, "template": dumps.template(cpu)}
    metadata = {"name": name, "namespace": "team", "labels": labels or {}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    file.write_text(json.dumps(job))
    return file


def test_what_if_submit_says_what_why_says_once_it_is_there(tmp_path):
    file, dump = manifest_of(tmp_path), tmp_path / "dump.json"
    dump.write_text(json.dumps({"items": [dumps.node("n1", "3"), dumps.node("n2", "1")]}))
    ended = run("what-if", f"submit {file}", *WIDE, "-f", dump)
    assert ended.lines[0].startswith(
        "Submitted, team/train starts now: 1 task on n1, 1 more wait: none of the 2 nodes can take"
    )
    told = run("why", *WIDE, "-f", dump, "-f", file)
    assert ended.lines[0] == f"Submitted, {told.lines[0]}"
    at = told.lines.index("Its place in the queue")
    assert (
        ended.lines[1:-1] == told.lines[1 : at + len(ended.lines[1:-1])][: len(ended.lines[1:-1])]
    )
    data = run("what-if", f"submit {file}", "--json", "-f", dump).data["submitted"]
    assert [(each["job"], each["state"]) for each in data] == [("team/train", "Starts")]


def test_what_if_submit_asks_kueues_queues_and_goes_with_other_changes(tmp_path):
    file, dump = (
        tmp_path / "dump.json",
        manifest_of(tmp_path, labels={"kueue.x-k8s.io/queue-name": "user-queue"}),
    )
    file, dump = dump, file
    dump.write_text(json.dumps({"items": kueue(limit="8", waiting=())}))
    ended = run("what-if", f"submit {file}", "-f", dump, *WIDE)
    assert ended.lines[0] == (
        "Submitted, team/job-train would start if Kueue decides as here: 2 tasks on n1"
    )
    dump.write_text(json.dumps({"items": kueue(waiting=())}))
    ended = run("what-if", f"submit {file}", "-f", dump, *WIDE)
    assert ended.lines[0].startswith(
        "Submitted, team/job-train would wait if Kueue decides as here:"
    )
    assert "  queue research: limit 8 cpu instead of 4 cpu" in ended.lines
    more = run("what-if", f"submit {file}", "queue research limit.cpu=8", "-f", dump, *WIDE)
    assert more.lines[0].startswith("Submitted, team/job-train would start")


def test_what_is_submitted_twice_or_cannot_be_read_is_told(tmp_path):
    file = manifest_of(tmp_path)
    given = [dumps.node("n1"), *[json.loads(file.read_text())]]
    given[1]["status"] = {}
    ended = run("what-if", f"submit {file}", given=given)
    assert (ended.status, "no job in it waits that is not in the dump" in ended.err) == (2, True)
    assert run("what-if", "submit gone.yaml", given=given).status == 2


def test_who_has_to_leave_for_what_is_submitted_is_told(tmp_path):
    spec = {"minMember": 1, "queue": "q", "priorityClassName": "inference"}
    high = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": spec}
    high["metadata"] = {"name": "high", "namespace": "team"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "h", "namespace": "team"}}
    pod["metadata"]["annotations"] = {"pod-group-name": "high"}
    pod["spec"] = dumps.template("4")["spec"] | {"schedulerName": "kai-scheduler"}
    file = tmp_path / "high.json"
    file.write_text(json.dumps({"kind": "List", "items": [high, pod]}))
    low = dumps.thing(
        "scheduling.run.ai/v2alpha2", "PodGroup", "low", spec=spec | {"priorityClassName": "train"}
    )
    runs = dumps.pod("l", "4", scheduler="kai-scheduler", on="n1", notes={"pod-group-name": "low"})
    queue = dumps.thing("scheduling.run.ai/v2", "Queue", "q", namespace="", spec={"resources": {}})
    for each in ("cpu", "memory", "gpu"):
        queue["spec"]["resources"][each] = {"quota": -1, "limit": -1}
    ended = run("what-if", f"submit {file}", *WIDE, given=[low, runs, queue, dumps.node("n1")])
    assert ended.lines[0] == (
        "Submitted, team/high waits, promised: promised room on n1, waits for team/l to leave"
    )
    assert "  team/l  Running on n1  evicted" in ended.out


# The word of the controllers


def kai_refuses(message, *, time=dumps.NOW, **spec):
    """Return a cluster in which a group would start that KAI Scheduler refuses."""
    said = dumps.condition("UnschedulableOnNodePool", "True", "QueueDoesNotExist", message, time)
    group = dumps.thing(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        "pg",
        spec={"minMember": 1, "queue": "burst"} | spec,
        status={"schedulingConditions": [said]},
    )
    amounts = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory", "gpu")}
    queue = {"resources": amounts, "parentQueue": "research"}
    return [
        group,
        dumps.thing("scheduling.run.ai/v2", "Queue", "burst", namespace="", spec=queue),
        dumps.pod("p", scheduler="kai-scheduler", notes={"pod-group-name": "pg"}),
        dumps.node("n1"),
    ]


def test_what_its_scheduler_refuses_since_the_last_change_does_not_start():
    missing = "Queue 'burst' parent queue 'research' does not exist."
    ended = why(given=kai_refuses(missing))
    assert ended.status == 1
    assert ended.lines[0] == (
        "team/pg waits, refused: KAI Scheduler refuses it: Queue 'burst' parent queue 'research' "
        "does not exist; by the rules here it would start now: 1 task on n1"
    )
    rows = run("jobs", "--json", given=kai_refuses(missing)).data["jobs"]
    assert [(row["state"], row["waits"]) for row in rows] == [("Refused", True)]
    # Something else has changed since.
    later = run("why", given=kai_refuses(missing, time=dumps.EARLIER))
    assert (later.status, later.lines[0].startswith("team/pg starts now")) == (0, True)
    assert "KAI Scheduler says" in later.out


def test_uids_in_what_controllers_say_are_told_as_names():
    uid = "167038f9-c5d1-6773-ab57-9bbdc6b4ea13"
    objects = kai_refuses(f"it waits for {uid}, not for 00000000-c5d1-6773-ab57-9bbdc6b4ea13")
    objects[-1]["metadata"]["uid"] = uid
    told = why(given=objects).out
    assert "it waits for Node n1, not for 00000000-c5d1-6773-ab57-9bbdc6b4ea13" in told
    # Also those of kinds that are not read.
    job_set = dumps.thing("jobset.x-k8s.io/v1alpha2", "JobSet", "sweep")
    objects[-1]["metadata"]["uid"], job_set["metadata"]["uid"] = "n", uid
    assert "it waits for JobSet team/sweep, not for" in why(given=[*objects, job_set]).out


def test_a_gang_whose_pods_name_different_schedulers_does_not_start():
    members = [
        dumps.pod("g-0", schedulingGroup={"podGroupName": "g"}),
        dumps.pod("g-1", schedulingGroup={"podGroupName": "g"}, scheduler="volcano"),
    ]
    ended = why("g", given=[dumps.native_group("g", 2), *members, dumps.node("n1")])
    assert ended.status == 1
    assert ended.lines[0] == (
        "team/g waits, refused: its pods name different schedulers: default-scheduler, volcano"
    )


def test_jobs_of_which_not_everything_was_seen_are_marked():
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    objects = [dumps.native_group("g", 1), dumps.native_group("h", 1), dumps.node("n1")]
    objects += [dumps.pod("g", schedulingGroup={"podGroupName": "g"}, volumes=claim)]
    objects += [dumps.pod("h", schedulingGroup={"podGroupName": "h"})]
    lines = run("jobs", given=objects).lines
    assert [line.partition("  ")[0] for line in lines[2:4]] == ["starts now*", "starts now"]
    assert "* as far as could be seen: `why JOB` shows what is left out" in lines


# What operators ask besides


def test_pods_that_only_occupy_can_be_ended_and_are_advised():
    objects = [volcano_queue(), volcano_group("pg", 1), dumps.node("n1", "8")]
    notes = {"scheduling.k8s.io/group-name": "pg"}
    objects += [dumps.pod("j-0", "4", scheduler="volcano", notes=notes)]
    objects += [dumps.pod("web", "8", on="n1")]
    assert "  end pod team/web" in why(given=objects).lines
    for name in ("web", "team/web"):
        ended = run("what-if", f"end {name}", given=objects)
        assert ended.lines[0].startswith("1 task of 1 job starts that wait")
    assert run("what-if", "end wep", given=objects).status == 2
    asked = run("why", "web", given=objects)
    assert "--scheduler default-scheduler takes its pods as jobs" in asked.err
    job = dumps.thing("batch/v1", "Job", "crawl", spec={"parallelism": 1})
    objects += [job, dumps.pod("crawl-x7", owner=job)]
    for name in ("crawl", "team/crawl"):
        asked = run("why", name, given=objects)
        assert f"Job {name} is no job here: scheduler default-scheduler places" in asked.err


def test_guarantees_of_others_are_told_where_they_keep_a_queue_out(tmp_path):
    guarded = volcano_queue("res", guarantee={"resource": {"cpu": "19"}})
    objects = [volcano_queue(), guarded, volcano_group("j", 1), dumps.node("n1", "20")]
    notes = {"scheduling.k8s.io/group-name": "j"}
    objects += [dumps.pod("j-0", "4", scheduler="volcano", notes=notes)]
    assert why(given=objects).lines[0] == (
        "team/j waits, quota: queue default would hold 4 cpu, and others guarantee 19 cpu of 20 cpu"
    )
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    checked = run("check", "-f", tmp_path / "cluster.json")
    assert checked.lines[0] == "1 finding in volcano: GuaranteesLeaveTooLittle."
    assert "of the 20 in service 19 are guaranteed to other queues" in " ".join(checked.out.split())


def test_queues_tells_what_is_free_and_who_borrows():
    objects = kueue(limit="6", admitted=1)
    ended = run("queues", "--json", given=objects)
    assert [row["free"] for row in ended.data["queues"]] == [2000]
    assert "FREE" in run("queues", given=objects).lines[1]
    lent = [dumps.cluster_queue("lends", cpu="4"), dumps.local_queue("l", "lends")]
    objects = [*kueue(limit="4", admitted=2), *lent]
    for each in objects:
        if each["kind"] == "ClusterQueue":
            each["spec"]["cohortName"] = "both"
        if each["metadata"]["name"] == "job-waits-0":
            each["spec"]["queueName"] = "l"
    told = run("queues", *WIDE, given=objects).lines
    assert "above their shares: research (4 cpu); below theirs: lends (4 cpu)" in told


def test_nodes_tells_the_largest_gang_that_fits_by_shape():
    objects = [dumps.node(f"n{i}", "8") for i in range(2)] + native_gang(7, cpu="3")
    objects += [dumps.pod("o", "6", on="n0")]
    ended = run("nodes", given=objects)
    assert "  2 tasks of 3 cpu, 1 GiB" in ended.lines
    assert run("nodes", "--json", given=objects).data["gangs"][0]["fit"] == 2


# Kueue and Volcano, in their own words


def test_what_kueue_still_has_to_do_is_no_suspension():
    told = [dumps.condition("QuotaReserved", "True")]
    ready = {"admissionChecks": [{"name": "c", "state": "Ready"}]}
    job = dumps.kueue_job("work")
    there = [dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1", "8"), job]
    reserved = dumps.workload(
        "w", job, 2, told, status=ready | {"admission": {"clusterQueue": "research"}}
    )
    assert why(given=[*there, reserved]).lines[0] == (
        "team/w (Job work) waits, not admitted: research has not admitted it: "
        "its quota is reserved, but Kueue has not admitted it yet"
    )
    told.append(dumps.condition("Admitted", "True"))
    admitted = dumps.workload("w", job, 2, told, status={"admission": {"clusterQueue": "research"}})
    assert (
        "waits, not admitted: Kueue has admitted it to research, and not resumed its Job yet"
        in (why(given=[*there, admitted]).lines[0])
    )
    off = dumps.workload("w", job, 2, active=False)
    assert (
        "(Job work) waits, deactivated: the Workload is deactivated"
        in (why(given=[*there, off]).lines[0])
    )


def test_a_limit_is_called_a_limit():
    notes = {"scheduling.k8s.io/group-name": "j"}
    objects = [volcano_queue(capability={"cpu": "4", "memory": "1Gi"}), dumps.node("n1", "16")]
    objects += [volcano_group("r", 1), volcano_group("j", 1)]
    objects += [
        dumps.pod(
            "r", "4", scheduler="volcano", on="n1", notes={"scheduling.k8s.io/group-name": "r"}
        ),
        dumps.pod("j", "2", scheduler="volcano", notes=notes),
    ]
    assert why("j", given=objects).lines[0] == (
        "team/j waits, quota: queue default has its limit: 4 cpu"
    )


def test_a_gang_of_several_jobs_of_a_job_set_has_the_name_of_the_set():
    sets = dumps.thing("jobset.x-k8s.io/v1alpha2", "JobSet", "sets")
    jobs = [dumps.thing("batch/v1", "Job", f"sets-{i}", owner=sets, spec={}) for i in range(2)]
    members = [
        dumps.pod(f"p-{i}", owner=job, schedulingGroup={"podGroupName": "g"})
        for i, job in enumerate(jobs)
    ]
    given = [sets, *jobs, dumps.native_group("g", 2), *members, dumps.node("n1")]
    assert why("g", given=given).lines[0] == "team/g (JobSet sets) starts now: 2 tasks on n1"


def test_the_column_why_says_what_a_promised_job_waits_for():
    objects = [dumps.native_group("low", 1, priority=1), dumps.native_group("high", 1, priority=9)]
    objects += [
        dumps.pod("l", "4", on="n1", priority=1, schedulingGroup={"podGroupName": "low"}),
        dumps.pod("h", "4", priority=9, schedulingGroup={"podGroupName": "high"}),
        dumps.node("n1"),
    ]
    lines = run("jobs", *WIDE, given=objects).lines
    assert lines[2].endswith("promised room on n1, waits for team/l to leave")


def test_parts_of_gpus_whose_memory_no_node_tells_never_start():
    notes = {"gpu-memory": "4000", "pod-group-name": "x"}
    pod = dumps.pod("x", scheduler="kai-scheduler", notes=notes)
    pods = [dumps.kai_queue("default-queue"), dumps.kai_group("x"), pod]
    ended = why(given=[*pods, dumps.node("n1", gpu=8)])
    assert ended.lines[0].startswith("team/x waits, never fits: none of these nodes could take it")
    assert "asks for 4000 MiB of one GPU; no node says how much its have" in ended.out
    told = {"nvidia.com/gpu.memory": "8000"}
    ended = why(given=[*pods, dumps.node("n1", gpu=8, labels=told), dumps.node("n2", gpu=8)])
    assert ended.lines[0].startswith("team/x starts now: 1 task on n1")


# KAI: who may be evicted, and what a queue may have


def kai_queue_with(gpu=1, **more):
    queue = dumps.kai_queue("q", "above", gpu=gpu)
    queue["spec"] |= more
    return queue


def kai_gang(name, gpu=1, on=None, **spec):
    group = dumps.kai_group(name, 1, queue="q", **spec)
    notes = {"pod-group-name": name}
    pod = dumps.pod(f"{name}-0", "1", gpu, scheduler="kai-scheduler", on=on, notes=notes)
    return [group, pod]


def test_a_more_important_group_of_kai_evicts_whatever_its_queue_deserves():
    other = dumps.kai_queue("other", "above", gpu=2)
    theirs = [dumps.kai_queue("above"), *kai_gang("theirs", 2, "n1")]
    theirs[1]["spec"]["queue"] = "other"
    high = kai_gang("high", 2, priorityClassName="build-preemptible")
    for spec, first in (
        ({}, "team/high waits, promised: promised room on n1, waits for team/low-0 to leave"),
        (
            {"preemptibility": "non-preemptible"},
            "team/high waits, no room: the only node cannot take it now: 1 lacks free GPUs",
        ),
    ):
        low = kai_gang("low", 1, "n1", priorityClassName="train", **spec)
        given = [kai_queue_with(1), other, *theirs, *low, *high, dumps.node("n1", "8", 4)]
        assert why("high", given=given).lines[0] == first
    young = [kai_queue_with(1, preemptMinRuntime="1h"), other, *theirs, *high]
    young += [*kai_gang("low", 1, "n1", priorityClassName="train"), dumps.node("n1", "8", 4)]
    ended = why("high", given=young)
    said = "preempt searched 1 node with 1 candidate: "
    said += "minimum-runtime (preemptMinRuntime 1 h of queue q): 1, until 2026-11-20T10:30:00Z"
    assert said in ended.out
    assert "promised" not in ended.out


def test_what_its_scheduler_refuses_is_not_promised_what_others_leave():
    low = kai_gang("low", 1, "n1", priorityClassName="train")
    high = kai_gang("high", 1, priorityClassName="build-preemptible")
    given = [kai_queue_with(1), *low, *high, dumps.node("n1", "8", 1)]
    said = dumps.condition("UnschedulableOnNodePool", "True", time=dumps.NOW)
    reasons = [{"reason": "PreemptionDelayNotElapsed", "message": "10m have not elapsed"}]
    high[0]["status"] = {"schedulingConditions": [said | {"reasons": reasons}]}
    ended = why("high", given=given)
    assert ended.lines[0] == (
        "team/high waits, refused: KAI Scheduler refuses it: 10m have not elapsed; by the rules "
        "here it would be promised room on n1, and wait for team/low-0 to leave"
    )
    reasons[0]["reason"] = "Unschedulable"
    assert "waits, promised" in why("high", given=given).lines[0]


def test_that_a_job_never_preempts_is_said_in_words():
    never = dumps.pod("w-0", "3", schedulingGroup={"podGroupName": "w"}, priority=9)
    never["spec"]["preemptionPolicy"] = "Never"
    group = {"podGroupName": "h"}
    given = [dumps.node("n1"), dumps.native_group("w", 1), never, dumps.native_group("h", 1)]
    told = run("why", "w", given=[*given, dumps.pod("h-0", "3", on="n1", schedulingGroup=group)])
    said = "preempt may evict nobody for it: it never preempts (preemptionPolicy Never)"
    assert said in told.out


def test_groups_of_kai_that_are_not_preemptible_stay_within_the_quota():
    given = [kai_queue_with(1), dumps.node("n1", "8", 4)]
    given += kai_gang("a", 1, "n1", priorityClassName="inference")
    given += kai_gang("b", 1, priorityClassName="inference")
    assert why("b", given=given).lines[0] == (
        "team/b waits, quota: queue q would hold 2 GPUs, more than its quota of 1 GPU, for jobs "
        "that are not preemptible"
    )


def test_a_configuration_without_a_plugin_that_jobs_ask_for_is_noted(tmp_path):
    config = tmp_path / "plain.json"
    config.write_text('{"actions": "allocate", "tiers": [{"plugins": ["gang", "predicates"]}]}')
    given = [kai_queue_with(1), *kai_gang("a", priorityClassName="inference"), dumps.node("n1")]
    noted = run("jobs", "-c", config, given=given).err
    assert "1 x JobInfo preemptible: ignored: plugin protection is not configured" in noted
    assert "is not configured" not in run("jobs", given=given).err


# What a scheduler does not see


def in_pool(pool, given):
    given["metadata"]["labels"]["kai.scheduler/node-pool"] = pool
    return given


def test_what_the_scheduler_of_a_node_pool_does_not_see_does_not_start():
    group, queue, pod, node = kai_refuses("", time=dumps.EARLIER)
    group["status"] = {}
    ended = why(given=[in_pool("a", group), in_pool("a", queue), pod, in_pool("a", node)])
    assert ended.lines[0].startswith("team/pg starts now: 1 task on n1")
    group, queue, pod, node = kai_refuses("", time=dumps.EARLIER)
    other = why(given=[in_pool("a", group), queue, pod, in_pool("a", node)])
    assert other.lines[0] == (
        "team/pg waits, no queue: the scheduler of node pool a does not see queue burst, which is "
        "of none"
    )
    group, queue, pod, node = kai_refuses("", time=dumps.EARLIER)
    unlabelled = why(given=[group, queue, pod, in_pool("a", node)])
    assert unlabelled.lines[0].startswith("team/pg waits, never fits: none of these nodes could")
    said = "  1 of 1 node has the label kai.scheduler/node-pool=a, which it does not accept"
    assert said in unlabelled.lines


def test_a_queue_that_takes_no_jobs_of_a_namespace_admits_none():
    queue, job = dumps.cluster_queue(), dumps.kueue_job("work")
    given = [job, dumps.workload("work", job), dumps.local_queue(), queue, dumps.node("n1")]
    queue["spec"]["namespaceSelector"] = {"matchLabels": {"team": "research"}}
    labelled = dumps.thing("v1", "Namespace", "team", namespace="", labels={"team": "research"})
    assert "it would start if Kueue decides as here" in why(given=[*given, labelled]).out
    unlabelled = dumps.thing("v1", "Namespace", "team", namespace="")
    for of_queue in (given, [*given, unlabelled]):
        if of_queue is given:
            del queue["spec"]["namespaceSelector"]  # which selects no namespace
        ended = why(given=of_queue)
        assert ended.lines[0].startswith(
            "team/work waits, no queue: ClusterQueue research takes no jobs of namespace team"
        )
        assert "decides as here" not in ended.out
        queue["spec"]["namespaceSelector"] = {"matchLabels": {"team": "research"}}


def test_flavors_decide_whether_kueue_could_ever_admit_a_job_and_where_it_starts():
    queue, job = dumps.cluster_queue(), dumps.kueue_job("work")
    given = [job, dumps.workload("work", job), dumps.local_queue(), queue]
    given += [dumps.node("n1"), dumps.node("n2", labels={"pool": "spot"})]
    (group,) = queue["spec"]["resourceGroups"]
    spot = dumps.thing(
        "kueue.x-k8s.io/v1beta2",
        "ResourceFlavor",
        "default",
        namespace="",
        spec={"nodeLabels": {"pool": "spot"}},
    )
    assert "it would start if Kueue decides as here: 2 tasks on n2" in why(given=[*given, spot]).out
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    spot["spec"]["nodeTaints"] = [taint]
    tainted = why(given=[*given, spot])
    assert tainted.lines[0] == (
        "team/work waits, never fits: research can never admit it: flavor default has the taint "
        "spot that it does not tolerate"
    )
    group["flavors"][0]["resources"][0]["nominalQuota"] = "3"
    assert why(given=given).lines[0] == (
        "team/work waits, never fits: research can never admit it: flavor default has 3 cpu, and "
        "it needs 4 cpu"
    )
    group["coveredResources"] = ["cpu"]
    assert why(given=given).lines[0] == (
        "team/work waits, never fits: research can never admit it: none of its flavors covers "
        "memory; flavor default has 3 cpu, and it needs 4 cpu"
    )


def test_what_kueue_can_never_admit_reserves_no_quota():
    queue, job = dumps.cluster_queue(cpu="3"), dumps.kueue_job("work")
    given = [job, dumps.workload("work", job), dumps.local_queue(), queue, dumps.node("n1")]
    (row,) = run("queues", "--json", given=given).data["queues"]
    assert (row["free"], row["reserved"]) == (3000, {})


def test_a_queue_that_is_inactive_admits_nothing():
    queue, job = dumps.cluster_queue(), dumps.kueue_job("work")
    queue["status"]["conditions"] = [
        dumps.condition("Active", "False", "FlavorNotFound", "no spot")
    ]
    given = [job, dumps.workload("work", job), dumps.local_queue(), queue, dumps.node("n1")]
    ended = why(given=given)
    assert ended.lines[0] == (
        "team/work waits, queue closed: ClusterQueue research is inactive: no spot"
    )
    assert "decides as here" not in ended.out


def test_a_pod_of_which_nobody_knows_whether_it_runs_is_told():
    group, pod = kai_gang("g", 1, "n1")
    pod["status"]["phase"] = "Unknown"
    given = [kai_queue_with(4), group, pod, dumps.node("n1", gpu=4)]
    assert "0 of 1 run, the state of 1 is unknown" in run("jobs", *WIDE, given=given).out


def test_the_label_that_nodes_lack_is_named_in_the_first_sentence():
    given = [*native_gang(1, nodeSelector={"pool": "gpu"}), dumps.node("n1")]
    assert why(given=given).lines[0] == (
        "team/g waits, never fits: none of these nodes could take it even if empty: 1 of 1 node "
        "lacks the label pool=gpu"
    )


def test_a_gang_for_which_the_whole_cluster_is_too_small_says_how_many_have_room():
    group = {"scheduling.k8s.io/group-name": "g"}
    given = [volcano_queue(), volcano_group("g", 3), dumps.node("n1", "4")]
    given += [dumps.pod("other", "2", scheduler="volcano", on="n1")]
    given += [dumps.pod(f"g-{i}", scheduler="volcano", notes=group) for i in range(3)]
    for config in ("volcano", "default"):
        assert why("g", "-c", config, given=given).lines[0] == (
            "team/g waits, no room: only 2 of the 3 tasks that must start together have room now: "
            "for one more, 1 of 1 node lacks free cpu"
        )


def test_a_check_that_took_the_quota_away_is_told():
    job = dumps.kueue_job("work")
    check = {"name": "prov", "state": "Retry", "message": "no capacity"}
    refused = dumps.condition("QuotaReserved", "False", "Pending", "The workload has failed checks")
    workload = dumps.workload("work", job, 2, [refused], status={"admissionChecks": [check]})
    given = [job, workload, dumps.local_queue(), dumps.cluster_queue(), dumps.node("n1")]
    ended = why(given=given)
    assert "the check prov has not passed: no capacity" in ended.out
    assert "decides as here" not in ended.out


def test_kai_starts_nothing_in_a_queue_of_the_top_level():
    given = [dumps.kai_queue("q"), *kai_gang("g"), dumps.node("n1", gpu=4)]
    ended = why(given=given)
    assert ended.lines[0].endswith("(as far as could be seen: see below)")
    assert "KAI Scheduler starts nothing in a queue that has no parent" in ended.out


# What a scheduler says and does


def spread(pod):
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    pod["spec"]["topologySpreadConstraints"] = [constraint]
    return pod


def with_volume(pod):
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return pod


def test_a_refusal_that_names_what_is_left_out_holds_whatever_has_changed_since():
    """The kube-scheduler does not move the time of a condition when it refuses again."""
    later = dumps.thing("v1", "Node", "n1", namespace="")  # changed after the refusal
    later = dumps.node("n1") | {"metadata": later["metadata"]}
    later["metadata"]["creationTimestamp"] = "2026-11-20T09:59:00Z"
    for make, message, holds in (
        (spread, "0/1 nodes are available: 1 node(s) didn't match pod topology spread", True),
        (with_volume, "0/1 nodes are available: 1 node(s) had volume node affinity conflict", True),
        (with_volume, 'persistentvolumeclaim "data" not found', True),
        (spread, "0/1 nodes are available: 1 Insufficient cpu", False),
    ):
        pod = make(dumps.pod("g-0", schedulingGroup={"podGroupName": "g"}))
        pod["status"]["conditions"][0] |= {"message": message}
        ended = why("g", given=[dumps.native_group("g", 1), pod, later])
        assert ("refused" in ended.lines[0]) is holds, message
        assert ("starts now" in ended.lines[0]) is not holds, message


def test_a_queue_that_a_scheduler_serves_is_one_that_it_sees():
    pool = {"kai.scheduler/node-pool": "p"}
    notes = {"pod-group-name": "g"}
    group = dumps.kai_group("g", 1)
    group["metadata"]["labels"] = pool
    group["status"] = {}
    pod = dumps.pod("x", scheduler="kai-scheduler", notes=notes, labels=pool)
    pod["status"]["conditions"] = []
    given = [dumps.kai_queue("default-queue"), group, pod, dumps.node("n1", labels=pool)]
    assert "does not see queue default-queue" in why("g", given=given).lines[0]
    spoken = dumps.kai_group("g", 1)
    spoken["metadata"]["labels"] = pool
    assert "does not see" not in why("g", given=[spoken, given[0], *given[2:]]).out
    other = dumps.kai_group("h", 1)
    other["metadata"]["labels"] = pool
    notes = {"pod-group-name": "h"}
    runs = dumps.pod("y", scheduler="kai-scheduler", notes=notes, labels=pool, on="n1")
    assert "does not see" not in why("g", given=[*given, other, runs]).out


# Quota that is reserved


def gpu_job(name, count, conditions=(), **status):
    """Return a Job of pods of 1 GPU each with its Workload, and its pods if it is admitted."""
    is_admitted = any(each["type"] == "Admitted" for each in conditions)
    job = dumps.kueue_job(name, suspend=not is_admitted)
    workload = dumps.workload(f"job-{name}", job, count, conditions, status=status)
    template = dumps.template("1", 1)
    workload["spec"]["podSets"] = [{"name": "main", "count": count, "template": template}]
    return job, workload


def gpu_cluster(gpus="12", nodes=2):
    queue = dumps.cluster_queue()
    (group,) = queue["spec"]["resourceGroups"]
    group["coveredResources"].append("nvidia.com/gpu")
    group["flavors"][0]["resources"].append({"name": "nvidia.com/gpu", "nominalQuota": gpus})
    group["flavors"][0]["resources"][0]["nominalQuota"] = "99"
    return [queue, dumps.local_queue(), *(dumps.node(f"n{n}", "64", 8) for n in range(nodes))]


RESERVED = dumps.condition("QuotaReserved", "True")
ADMITTED = [RESERVED, dumps.condition("Admitted", "True")]


def test_quota_of_admitted_pods_without_room_is_held_as_that_of_those_that_run():
    job, workload = gpu_job("runs", 8, ADMITTED, admission={"clusterQueue": "research"})
    runs = [dumps.pod(f"runs-{n}", "1", 1, owner=job, on="n0") for n in range(8)]
    own, admitted = gpu_job("stuck", 2, ADMITTED, admission={"clusterQueue": "research"})
    away = {"nodeSelector": {"pool": "none"}}
    stuck = [dumps.pod(f"stuck-{n}", "1", 1, owner=own, **away) for n in range(2)]
    given = [*gpu_cluster(), job, workload, *runs, own, admitted, *stuck, *gpu_job("new", 8)]
    ended = why("new", given=given)
    assert "it would still wait if Kueue decides as here: queue research would hold 18 GPUs" in (
        ended.out
    )
    assert "  queue research: limit 18 GPUs instead of 12 GPUs" in ended.lines
    assert "and 2 cpu, 2 GiB, 2 GPUs more of its quota is reserved" in ended.out
    assert "8 GPUs (50.0%)" in ended.out
    assert "never fits" in why("stuck", given=given).lines[0]
    # Once they have room, their quota is held once.
    for pod in stuck:
        del pod["spec"]["nodeSelector"]
    decided = run("jobs", "--all", "--json", given=given).data["jobs"]
    states = {each["job"]: each["state"] for each in decided}
    assert states["team/job-stuck"] == "Starts"
    assert "research would hold 18 GPUs" in why("new", given=given).out


def test_a_pod_of_which_kueue_has_made_no_workload_is_decided_by_quota():
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    pod = dumps.pod("new", "1", 8, gates=["kueue.x-k8s.io/admission"], labels=labels)
    job, workload = gpu_job("runs", 8, ADMITTED, admission={"clusterQueue": "research"})
    runs = [dumps.pod(f"runs-{n}", "1", 1, owner=job, on="n0") for n in range(8)]
    ended = why("new", given=[*gpu_cluster(), job, workload, *runs, pod])
    assert "Kueue has made no Workload yet for Pod new in LocalQueue user-queue" in ended.lines[0]
    assert "  queue research: limit 16 GPUs instead of 12 GPUs" in ended.lines


def test_nothing_is_advised_about_queues_that_are_no_objects():
    queues = [dumps.cluster_queue(name, cpu="9") for name in ("research", "other")]
    for queue in queues:
        queue["spec"]["cohortName"] = "all"
    given = [*queues, dumps.local_queue(), dumps.node("n1", "64")]
    for name, count in (("research", 5), ("other", 2)):
        job = dumps.kueue_job(name, suspend=False)
        status = {"admission": {"clusterQueue": name}}
        given += [job, dumps.workload(f"job-{name}", job, count, ADMITTED, status=status)]
        given += [dumps.pod(f"{name}-{n}", "2", owner=job, on="n1") for n in range(count)]
    job = dumps.kueue_job("new")
    given += [job, dumps.workload("job-new", job, 3)]
    ended = why("new", given=given)
    assert "queue all would hold 20 cpu, more than its limit of 18 cpu" in ended.out
    assert "  queue research: quota 11 cpu instead of 9 cpu" in ended.lines
    assert "  queue all: limit" not in ended.out
    cohort = dumps.thing("kueue.x-k8s.io/v1beta2", "Cohort", "all", namespace="", spec={})
    assert "  queue all: limit 20 cpu instead of 18 cpu" in why("new", given=[*given, cohort]).lines


def test_a_group_of_kai_is_found_by_the_first_letters_of_the_owner_that_it_is_named_after():
    given = [*kai_gang("pg-train-7f9c"), kai_queue_with(4), dumps.node("n1", gpu=4)]
    assert run("why", "train", "--json", given=given).data["job"] == "team/pg-train-7f9c"
