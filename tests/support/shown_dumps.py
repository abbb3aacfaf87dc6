"""The files that the documentation shows: four clusters, each with *my-job*, and a log of jobs.

`python -m tests.support.shown_dumps` writes them into `examples`. Each cluster has several reasons
to wait; all objects are as `kubectl get ... -A -o json` gives them.
"""

import json
from pathlib import Path

from batchsched.simulation import Easy, generate, simulate
from tests.support.dumps import (
    NOW,
    cluster_queue,
    condition,
    kai_group,
    kai_queue,
    kai_queues,
    local_queue,
    members,
    native_group,
    node,
    pod,
    template,
    thing,
    volcano_group,
    volcano_pods,
    volcano_queue,
    workload,
)

WHERE = Path(__file__).parents[2] / "examples" / "dumps"
LOG = WHERE.parent / "log.swf"
RUNS_SINCE = "2026-11-20T08:00:00Z"


def node_pool(count, gpu=8, **more):
    """Return nodes of eight GPUs each, which report at the time of the dump."""
    nodes = [node(f"gpu-{i}", "64", gpu, **more) for i in range(1, count + 1)]
    for each in nodes:
        each["status"]["conditions"][0]["lastHeartbeatTime"] = NOW
    return nodes


def job(name, parallelism, gpu, *, labels=None, **spec):
    content = {
        "parallelism": parallelism,
        "completions": parallelism,
        "template": template("4", gpu),
    }
    return thing("batch/v1", "Job", name, labels=labels, spec=content | spec)


def told(message, *things):
    """Return objects of which the scheduler says something."""
    for each in things:
        for said in each["status"].get("conditions", ()):
            if said["status"] == "False" and said["reason"] in ("Unschedulable", "SchedulingGated"):
                said["message"] = message
    return list(things)


def since(time, *things):
    """Return objects as made, and pods as started, at a time."""
    for each in things:
        each["metadata"]["creationTimestamp"] = time
        if "startTime" in each.get("status", {}):
            each["status"]["startTime"] = time
    return list(things)


NO_NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
GATED = "Scheduling is blocked due to non-empty scheduling gates"


def kubernetes():
    """Return Kubernetes' own: no room, a gate, a group that is not there, one that runs."""
    mine, sweep = job("my-job", 4, 4), job("sweep", 3, 4)
    my_group, sweep_group = "my-job-5f2c-workers-k8x2p", "sweep-77d1-workers-m4q9z"
    on = ("gpu-1", "gpu-2", "gpu-2")
    running = [
        pod(
            f"sweep-{i}",
            "4",
            4,
            on=name,
            owner=sweep,
            schedulingGroup={"podGroupName": sweep_group},
        )
        for i, name in enumerate(on)
    ]
    licensed = native_group("licensed", 2)
    nodes = node_pool(3)
    return [
        *nodes,
        *since(RUNS_SINCE, sweep, native_group(sweep_group, 3, owner=sweep), *running),
        mine,
        *told(
            NO_NODE,
            native_group(my_group, 4, owner=mine),
            *members(my_group, 4, "4", prefix="my-job", gpu=4, owner=mine),
        ),
        *told(GATED, licensed, *members("licensed", 2, "4", gates=["example.com/license"])),
        *told("waiting for PodGroup team/late", *members("late", 1, "4")),
    ]


LIMITED = "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable"
CLOSED = "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable"


def volcano():
    """Return Volcano's: a limit, a closed queue, a group that enqueue has not let in."""

    def volcano_job(name, replicas, gpu, queue):
        task = {"name": "worker", "replicas": replicas, "minAvailable": replicas}
        return thing(
            "batch.volcano.sh/v1alpha1",
            "Job",
            name,
            spec={
                "minAvailable": replicas,
                "queue": queue,
                "schedulerName": "volcano",
                "tasks": [task | {"template": template("4", gpu)}],
            },
            status={"state": {"phase": "Pending"}},
        )

    mine, sweep = volcano_job("my-job", 2, 4, "research"), volcano_job("sweep", 1, 4, "research")
    legacy, overnight = (
        volcano_job("legacy", 1, 1, "old"),
        volcano_job("overnight", 2, 8, "default"),
    )
    groups = [
        volcano_group(f"{each['metadata']['name']}-{uid}", least, phase, owner=each, queue=queue)
        for each, uid, least, phase, queue in (
            (mine, "0c1d", 2, "Inqueue", "research"),
            (sweep, "8a7e", 1, "Running", "research"),
            (legacy, "51b2", 1, "Inqueue", "old"),
            (overnight, "e90f", 2, "Pending", "default"),
        )
    ]
    sweep["status"]["state"]["phase"] = "Running"
    del groups[1]["status"]["conditions"]
    for group in groups:
        for said in group["status"].get("conditions", ()):
            least = group["spec"]["minMember"]
            said["message"] = f"{least}/{least} tasks in gang unschedulable"
    return [
        *node_pool(2),
        volcano_queue("default"),
        volcano_queue("research", capability={"nvidia.com/gpu": "8"}),
        volcano_queue("old", "Closed"),
        mine,
        legacy,
        overnight,
        *groups,
        *told(LIMITED, *volcano_pods("my-job-0c1d", "my-job", 2, gpu=4, owner=mine)),
        *since(
            RUNS_SINCE,
            sweep,
            *volcano_pods("sweep-8a7e", "sweep", 1, gpu=4, owner=sweep, on="gpu-1"),
        ),
        *told(CLOSED, *volcano_pods("legacy-51b2", "legacy", 1, gpu=1, owner=legacy)),
    ]


def kai():
    """Return KAI Scheduler's: free GPUs that are spread over nodes, a queue at its limit."""

    def pods(group, name, owner, queue, gpu, on):
        return [
            pod(
                f"{name}-{i}",
                "4",
                gpu,
                scheduler="kai-scheduler",
                owner=owner,
                notes={"pod-group-name": group},
                labels={"kai.scheduler/queue": queue},
                on=place,
            )
            for i, place in enumerate(on)
        ]

    everything = [
        *kai_queues()[:1],
        kai_queue("team-a", "default-parent-queue", gpu=12),
        kai_queue("team-b", "default-parent-queue", gpu=12, limit=12),
        *node_pool(3),
    ]
    for name, queue, gpu, on in (
        ("my-job", "team-a", 6, (None, None)),
        ("sweep", "team-b", 4, ("gpu-1", "gpu-2", "gpu-3")),
        ("evaluate", "team-b", 2, (None,)),
        ("notebook", "team-a", 1, (None,)),
    ):
        owner = job(name, len(on), gpu, labels={"kai.scheduler/queue": queue})
        group = kai_group(f"pg-{name}-4b7d", len(on), owner=owner, queue=queue)
        if name == "evaluate":
            reasons = [
                {"reason": "OverLimit", "message": "queue team-b has reached its limit of GPUs"}
            ]
            group["status"]["schedulingConditions"][0]["reasons"] = reasons
        else:
            del group["status"]["schedulingConditions"]
        made = [
            owner,
            group,
            *told(NO_NODE, *pods(f"pg-{name}-4b7d", name, owner, queue, gpu, on)),
        ]
        everything += since(RUNS_SINCE, *made) if on[0] else made
    return everything


NO_QUOTA = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
    "flavor default, 6 more needed"
)


def kueue():
    """Return Kueue's: a quota that is used up, an admission check, a queue that is stopped."""

    def batch_job(name, count, gpu, *, suspend=True, queue="user-queue"):
        labels = {"kueue.x-k8s.io/queue-name": queue}
        return job(name, count, gpu, labels=labels, suspend=suspend)

    def admitted_to(owner, name, count, gpu, conditions, **more):
        pod_set = {"name": "main", "count": count, "template": template("4", gpu)}
        return workload(name, owner, count, conditions, podSets=[pod_set], **more)

    research = cluster_queue("research", "64", memory="256Gi")
    groups = research["spec"]["resourceGroups"]
    groups[0]["coveredResources"] = ["cpu", "memory", "nvidia.com/gpu"]
    groups[0]["flavors"][0]["resources"].append({"name": "nvidia.com/gpu", "nominalQuota": "12"})
    spare = cluster_queue("spare", "64", stop="Hold", memory=None)
    spare["status"]["conditions"] = [condition("Active", "False", "Stopped")]
    mine, sweep = batch_job("my-job", 2, 4), batch_job("sweep", 2, 4, suspend=False)
    provision, stopped = (
        batch_job("provision", 1, 2),
        batch_job("stopped", 1, 2, queue="spare-queue"),
    )
    refused = [condition("QuotaReserved", "False", "Pending", NO_QUOTA)]
    admitted = [condition("QuotaReserved", "True"), condition("Admitted", "True", "Admitted")]
    reserved = [
        condition("QuotaReserved", "True", "QuotaReserved"),
        condition("Admitted", "False", "UnsatisfiedAdmissionChecks"),
    ]
    inactive = [
        condition("QuotaReserved", "False", "Inadmissible", "ClusterQueue spare is inactive")
    ]
    checks = [{"name": "dws-prov", "state": "Pending", "message": "waiting for 1 node"}]
    holds = {"admission": {"clusterQueue": "research"}}
    later = {"requeueState": {"count": 3, "requeueAt": "2026-11-20T10:05:00Z"}}
    return [
        *node_pool(2),
        research,
        spare,
        local_queue(),
        local_queue("spare-queue", "spare"),
        mine,
        admitted_to(mine, "job-my-job-5f1d2", 2, 4, refused, status=later),
        *since(
            RUNS_SINCE,
            sweep,
            admitted_to(sweep, "job-sweep-b03c7", 2, 4, admitted, status=holds),
            *[pod(f"sweep-{i}", "4", 4, owner=sweep, on=f"gpu-{i + 1}") for i in range(2)],
        ),
        provision,
        admitted_to(
            provision,
            "job-provision-1e9aa",
            1,
            2,
            reserved,
            status=holds | {"admissionChecks": checks},
        ),
        stopped,
        admitted_to(stopped, "job-stopped-77f04", 1, 2, inactive, queue="spare-queue"),
    ]


DUMPS = {make.__name__: make for make in (kubernetes, volcano, kai, kueue)}


def text_of(name):
    """Return the file, as `kubectl` writes it, which leaves the managed fields out."""
    objects = [
        each | {"metadata": {k: v for k, v in each["metadata"].items() if k != "managedFields"}}
        for each in DUMPS[name]()
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    return json.dumps(listed, indent=1) + "\n"


def log_text():
    """Return a log of 60 jobs, for simulations."""
    run = simulate(generate(jobs=60, nodes=16, seed=3), Easy())
    return "\n".join(run.to_swf()) + "\n"


def main():
    """Write the files."""
    WHERE.mkdir(exist_ok=True)
    LOG.write_text(log_text(), encoding="utf-8")
    for name in DUMPS:
        (WHERE / f"{name}.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
