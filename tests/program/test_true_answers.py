"""What a true answer says of dumps that were made after public questions."""

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
    pod = without_requests(dumps.pod("x", scheduler="kai-scheduler"))
    assert run("jobs", given=[pod, dumps.node("n1")]).lines[0].startswith("0 jobs wait, 1 starts")


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
