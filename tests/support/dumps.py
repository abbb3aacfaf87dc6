"""Dumps of clusters as API servers give them, after the examples that the systems publish.

Four and more for each system. Objects carry what an API server adds: managed fields, the last
applied configuration, UIDs, conditions in any order, tolerations, priorities and policies.
"""

NOW = "2026-11-20T10:00:00Z"
EARLIER = "2026-11-20T09:30:00Z"


def thing(version, kind, name, *, namespace="team", owner=None, labels=None, notes=None, **more):
    metadata = {
        "name": name,
        "uid": f"uid-{kind.lower()}-{namespace}-{name}",
        "resourceVersion": "81234",
        "generation": 1,
        "creationTimestamp": EARLIER,
        "labels": labels or {},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"} | (notes or {}),
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1"}],
    }
    if namespace:
        metadata["namespace"] = namespace
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return {"apiVersion": version, "kind": kind, "metadata": metadata} | more


def condition(kind, status, reason="", message="", time=EARLIER):
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
    }


def node(name, cpu="4", gpu=0, *, labels=None, ready="True"):
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    if gpu:
        amounts["nvidia.com/gpu"] = str(gpu)
    return thing(
        "v1",
        "Node",
        name,
        namespace="",
        labels={"kubernetes.io/hostname": name} | (labels or {}),
        spec={},
        status={
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [condition("MemoryPressure", "False"), condition("Ready", ready)],
        },
    )


def template(cpu="1", gpu=0, **more):
    requests = {"cpu": cpu, "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpu)} if gpu else {})
    resources = {"requests": requests, "limits": requests}
    containers = [{"name": "main", "image": "busybox:1.36", "resources": resources}]
    return {"metadata": {"labels": {}}, "spec": {"containers": containers} | more}


def pod(
    name,
    cpu="1",
    gpu=0,
    *,
    scheduler="default-scheduler",
    on=None,
    phase=None,
    priority=0,
    gates=(),
    labels=None,
    notes=None,
    owner=None,
    namespace="team",
    **spec,
):
    status = {"phase": phase or ("Running" if on else "Pending"), "qosClass": "Guaranteed"}
    scheduled = condition("PodScheduled", "True") if on else None
    if not on and not phase:
        scheduled = condition(
            "PodScheduled", "False", "SchedulingGated" if gates else "Unschedulable", "no room"
        )
    status["conditions"] = [scheduled] if scheduled else []
    content = {
        **template(cpu, gpu)["spec"],
        "schedulerName": scheduler,
        "priority": priority,
        "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Never",
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
        ],
    } | spec
    if on:
        content["nodeName"] = on
        status["startTime"] = EARLIER
    if gates:
        content["schedulingGates"] = [{"name": gate} for gate in gates]
    return thing(
        "v1",
        "Pod",
        name,
        namespace=namespace,
        owner=owner,
        labels=labels,
        notes=notes,
        spec=content,
        status=status,
    )


# Kubernetes' own groups

GATE = "example.com/license"


def native_group(name, least=None, *, parent=None, owner=None, **spec):
    policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    content = {"schedulingPolicy": policy, "priority": 0, "disruptionMode": {"single": {}}} | spec
    if parent:
        content["parentCompositePodGroupName"] = parent
    return thing(
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        name,
        owner=owner,
        spec=content,
        status={
            "conditions": [
                condition("PodGroupInitiallyScheduled", "False", "Unschedulable", "no room")
            ]
        },
    )


def composite(name, least=None, *, parent=None, owner=None):
    policy = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
    content = {"schedulingPolicy": policy, "workloadRef": {"workloadName": "w"}, "priority": 0}
    if parent:
        content["parentCompositePodGroupName"] = parent
    return thing("scheduling.k8s.io/v1alpha3", "CompositePodGroup", name, owner=owner, spec=content)


def members(group, count, cpu="1", prefix=None, **more):
    return [
        pod(f"{prefix or group}-{i}", cpu, schedulingGroup={"podGroupName": group}, **more)
        for i in range(count)
    ]


def native_gang():
    job = thing("batch/v1", "Job", "train", spec={"parallelism": 3, "completions": 3})
    group = native_group("train-7f9c-workers-x1", 3, owner=job)
    pods = members("train-7f9c-workers-x1", 3, "3", prefix="train", owner=job)
    return [job, group, *pods, node("n1"), node("n2")]


def native_gated():
    pods = members("g", 1, prefix="free") + members("g", 1, prefix="gated", gates=[GATE])
    return [native_group("g", 2), *pods, node("n1")]


def native_tree(room="4"):
    return [
        composite("ray", 2),
        native_group("head", 1, parent="ray"),
        native_group("workers", 4, parent="ray"),
        *members("head", 1),
        *members("workers", 4),
        node("n1", room),
    ]


def native_replicas():
    groups = [native_group(f"r{i}", 2, parent="set") for i in range(3)]
    pods = [each for i in range(3) for each in members(f"r{i}", 2)]
    return [composite("set", 2), *groups, *pods, node("n1", "5")]


def native_missing():
    return [*members("gone", 3), node("n1", "8")]


def native_1_35():
    workload = thing(
        "scheduling.k8s.io/v1alpha1",
        "Workload",
        "mpi",
        spec={"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]},
    )
    ref = {"name": "mpi", "podGroup": "workers", "podGroupReplicaKey": "0"}
    pods = [pod(f"mpi-{i}", workloadRef=ref, priority=7 - i) for i in range(2)]
    return [workload, *pods, node("n1")]


# Volcano


def volcano_queue(name, state="Open", **spec):
    return thing(
        "scheduling.volcano.sh/v1beta1",
        "Queue",
        name,
        namespace="",
        spec={"weight": 1, "reclaimable": True} | spec,
        status={"state": state, "allocated": {"cpu": "0", "memory": "0"}},
    )


def volcano_group(name, least, phase="Inqueue", *, owner=None, queue="default", **spec):
    return thing(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        name,
        owner=owner,
        spec={"minMember": least, "queue": queue, "minResources": {"cpu": "1"}} | spec,
        status={
            "phase": phase,
            "conditions": [
                condition("Unschedulable", "True", "NotEnoughResources", "0/1 tasks in gang")
            ],
        },
    )


def volcano_job(name, replicas, least=None, queue="default"):
    task = {
        "name": "worker",
        "replicas": replicas,
        "minAvailable": replicas,
        "template": template(),
    }
    return thing(
        "batch.volcano.sh/v1alpha1",
        "Job",
        name,
        spec={
            "minAvailable": least or replicas,
            "queue": queue,
            "schedulerName": "volcano",
            "tasks": [task],
        },
        status={"state": {"phase": "Pending"}},
    )


def volcano_pods(group, job, count, *, gpu=0, **more):
    notes = {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": "worker"}
    labels = {"volcano.sh/job-name": job, "volcano.sh/task-spec": "worker"}
    return [
        pod(f"{job}-worker-{i}", "1", gpu, scheduler="volcano", notes=notes, labels=labels, **more)
        for i in range(count)
    ]


def volcano_pending():
    job = volcano_job("mpi", 2)
    return [
        job,
        volcano_group("mpi-0c1d", 2, "Pending", owner=job),
        volcano_queue("default"),
        node("n1"),
    ]


def volcano_closed():
    return [
        volcano_queue("old", "Closed"),
        volcano_group("legacy", 1, queue="old"),
        *volcano_pods("legacy", "legacy", 1),
        volcano_group("runs", 1, "Running", queue="old"),
        *volcano_pods("runs", "runs", 1, on="n1"),
        node("n1"),
    ]


def volcano_capability():
    return [
        volcano_queue("gpus", capability={"cpu": "0", "nvidia.com/gpu": "2"}, reclaimable=False),
        volcano_group("elastic", 1, queue="gpus"),
        *volcano_pods("elastic", "elastic", 6, gpu=1),
        node("n1", "16", 8),
    ]


def volcano_priorities():
    pods = []
    groups = []
    for name, value in (("high", 1000), ("low", 10)):
        groups.append(volcano_group(f"g-{name}", 2, priorityClassName=name))
        pods += volcano_pods(f"g-{name}", name, 2, priority=value, priorityClassName=name)
    return [*groups, *pods, volcano_queue("default"), node("n1", "2")]


# KAI Scheduler


def kai_queue(name, parent=None, gpu=-1, limit=-1):
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {
        "cpu": free,
        "memory": free,
        "gpu": {"quota": gpu, "limit": limit, "overQuotaWeight": 1},
    }
    spec = {"resources": resources, "priority": 100}
    if parent:
        spec["parentQueue"] = parent
    return thing("scheduling.run.ai/v2", "Queue", name, namespace="", spec=spec)


def kai_group(name, least=None, *, owner=None, queue="default-queue", **spec):
    content = {"queue": queue, "priorityClassName": "train"} | spec
    if least is not None:
        content["minMember"] = least
    reasons = [{"reason": "OverLimit", "message": "queue is over its limit"}]
    return thing(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        name,
        owner=owner,
        spec=content,
        status={
            "schedulingConditions": [
                condition("UnschedulableOnNodePool", "True") | {"reasons": reasons}
            ]
        },
    )


def kai_pods(group, count, gpu=0, *, notes=None, labels=None, **more):
    return [
        pod(
            f"{group}-p{i}",
            "1",
            gpu,
            scheduler="kai-scheduler",
            notes={"pod-group-name": group} | (notes or {}),
            labels={"kai.scheduler/queue": "default-queue"} | (labels or {}),
            **more,
        )
        for i in range(count)
    ]


def kai_queues():
    return [kai_queue("default-parent-queue"), kai_queue("default-queue", "default-parent-queue")]


def kai_gangs():
    big = thing("batch/v1", "Job", "big", spec={"parallelism": 2})
    return [
        *kai_queues(),
        node("n1", "16", 8),
        node("n2", "16", 8),
        kai_group("pg-a", 1),
        *kai_pods("pg-a", 1, 6, on="n1"),
        kai_group("pg-b", 1),
        *kai_pods("pg-b", 1, 2, on="n2"),
        big,
        kai_group("pg-big", 2, owner=big),
        *kai_pods("pg-big", 2, 7, owner=big),
        kai_group("pg-small", 2, priorityClassName="train"),
        *kai_pods("pg-small", 2, 1),
    ]


def kai_shared():
    gpu_node = node("n1", "16", 2, labels={"nvidia.com/gpu.memory": "80000"})
    shared = {"runai-gpu-group": "g-1"}
    reservation = pod(
        "gpu-reservation-n1-x7",
        "0",
        1,
        on="n1",
        namespace="kai-resource-reservation",
        labels={"app": "kai-resource-reservation", "runai-gpu-group": "g-1"},
    )
    return [
        *kai_queues(),
        gpu_node,
        node("cpu-only", "64"),
        reservation,
        kai_group("half", 1),
        *kai_pods("half", 1, notes={"gpu-fraction": "0.5"}, labels=shared, on="n1"),
        kai_group("quarter", 1),
        *kai_pods("quarter", 1, notes={"gpu-memory": "20000"}, labels=shared, on="n1"),
        kai_group("two", 1),
        *kai_pods("two", 1, 2),
        kai_group("more", 1),
        *kai_pods("more", 1, notes={"gpu-fraction": "0.5"}),
    ]


def kai_subgroups():
    subgroups = [{"name": "leader"}, {"name": "workers", "minMember": 2}]
    return [
        *kai_queues(),
        node("n1", "8"),
        kai_group("pg-lws", subGroups=subgroups),
        *[
            p | {"metadata": p["metadata"] | {"name": f"{role}-{p['metadata']['name']}"}}
            for role, count in (("leader", 1), ("workers", 2))
            for p in [
                each | {"metadata": each["metadata"] | {"uid": each["metadata"]["uid"] + role}}
                for each in kai_pods("pg-lws", count, labels={"kai.scheduler/subgroup-name": role})
            ]
        ],
    ]


def kai_without_group():
    return [*kai_queues(), node("n1"), *kai_pods("gone", 2)]


# Kueue


def local_queue(name="user-queue", cluster="research", stop="None"):
    return thing(
        "kueue.x-k8s.io/v1beta2",
        "LocalQueue",
        name,
        spec={"clusterQueue": cluster, "stopPolicy": stop},
    )


def cluster_queue(name="research", cpu="8", stop="None", memory="64Gi"):
    quotas = {"cpu": cpu} | ({"memory": memory} if memory else {})
    resources = [{"name": name, "nominalQuota": most} for name, most in quotas.items()]
    flavor = {"name": "default", "resources": resources}
    return thing(
        "kueue.x-k8s.io/v1beta2",
        "ClusterQueue",
        name,
        namespace="",
        spec={
            "resourceGroups": [{"coveredResources": list(quotas), "flavors": [flavor]}],
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": stop,
        },
        status={"conditions": [condition("Active", "True", "Ready")]},
    )


def workload(name, owner=None, count=2, conditions=(), *, queue="user-queue", status=None, **spec):
    return thing(
        "kueue.x-k8s.io/v1beta2",
        "Workload",
        name,
        owner=owner,
        spec={
            "queueName": queue,
            "priority": 0,
            "active": True,
            "podSets": [{"name": "main", "count": count, "template": template("2")}],
        }
        | spec,
        status={"conditions": list(conditions)} | (status or {}),
    )


def kueue_job(name, *, suspend=True):
    return thing(
        "batch/v1",
        "Job",
        name,
        labels={"kueue.x-k8s.io/queue-name": "user-queue"},
        spec={"suspend": suspend, "parallelism": 2, "completions": 2, "template": template("2")},
    )


NO_QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor \
default, 3 more needed"


def kueue_waits():
    job = kueue_job("wait")
    told = [
        condition("Requeued", "True", time=NOW),
        condition("QuotaReserved", "False", "Pending", NO_QUOTA),
    ]
    status = {"requeueState": {"count": 1, "requeueAt": "2026-11-20T10:05:00Z"}}
    return [
        job,
        workload("job-wait-5f1d2", job, 2, told, status=status),
        local_queue(),
        cluster_queue(),
        node("n1", "8"),
    ]


def kueue_checks():
    job = kueue_job("provision")
    checks = [
        {"name": "dws-prov", "state": "Pending", "message": "waiting for nodes"},
        {"name": "other", "state": "Ready", "message": ""},
    ]
    status = {"admissionChecks": checks, "admission": {"clusterQueue": "research"}}
    reserved = [
        condition("Admitted", "False", "UnsatisfiedAdmissionChecks"),
        condition("QuotaReserved", "True", "QuotaReserved"),
    ]
    return [
        job,
        workload("job-provision-1", job, 2, reserved, status=status),
        local_queue(),
        cluster_queue(),
        node("n1", "8"),
    ]


def kueue_pod_group():
    return [
        pod(
            "part-0",
            gates=["kueue.x-k8s.io/admission"],
            labels={
                "kueue.x-k8s.io/queue-name": "user-queue",
                "kueue.x-k8s.io/pod-group-name": "parts",
                "kueue.x-k8s.io/managed": "true",
            },
            notes={"kueue.x-k8s.io/pod-group-total-count": "2"},
        ),
        local_queue(),
        cluster_queue(),
        node("n1", "8"),
    ]


def kueue_and_gang():
    job = kueue_job("both")
    told = [condition("QuotaReserved", "False", "Pending", NO_QUOTA)]
    return [
        job,
        native_group("both-gang", 2, owner=job),
        *members("both-gang", 2, prefix="both", owner=job),
        workload("job-both-1", job, 2, told),
        local_queue(),
        cluster_queue(),
        node("n1", "8"),
    ]


def kueue_admitted():
    job = kueue_job("runs", suspend=False)
    admitted = [condition("QuotaReserved", "True"), condition("Admitted", "True", "Admitted")]
    done = [condition("Finished", "True", "Succeeded"), *admitted]
    old = kueue_job("old", suspend=False)
    return [
        job,
        workload(
            "job-runs-1", job, 2, admitted, status={"admission": {"clusterQueue": "research"}}
        ),
        pod("runs-a", "2", owner=job, on="n1"),
        pod("runs-b", "2", owner=job),
        old,
        workload("job-old-1", old, 1, done),
        pod("old-a", owner=old, phase="Succeeded"),
        local_queue(),
        cluster_queue(),
        node("n1", "8"),
    ]


# Coscheduling, a plugin of the kube-scheduler


def coscheduling_group(name, least, phase="Pending"):
    return thing(
        "scheduling.x-k8s.io/v1alpha1",
        "PodGroup",
        name,
        spec={"minMember": least, "scheduleTimeoutSeconds": 10},
        status={"phase": phase, "scheduleStartTime": EARLIER},
    )


def coscheduling_pods(group, count, key="scheduling.x-k8s.io/pod-group", **more):
    labels = {"app": group, key: group}
    return [pod(f"{group}-{i}", labels=labels, **more) for i in range(count)]


def coscheduling():
    return [
        coscheduling_group("nginx", 3),
        *coscheduling_pods("nginx", 3),
        coscheduling_group("old", 2, "Finished"),
        node("n1", "2"),
    ]


def everything():
    """Return all systems in one cluster; pods of one name in several dumps are renamed."""
    found = {}
    for name, make in sorted(DUMPS.items()):
        for given in make():
            metadata = dict(given["metadata"])
            if "namespace" in metadata and metadata["namespace"] == "team":
                metadata["namespace"] = name.replace("_", "-")
                metadata["uid"] = f"{name}-{metadata['uid']}"
                references = metadata.get("ownerReferences", ())
                metadata["ownerReferences"] = [
                    owner | {"uid": f"{name}-{owner['uid']}"} for owner in references
                ]
            key = given["apiVersion"], given["kind"], metadata.get("namespace"), metadata["name"]
            found.setdefault(key, given | {"metadata": metadata})
    return list(found.values())


DUMPS = {
    make.__name__: make
    for make in (
        native_gang,
        native_gated,
        native_tree,
        native_replicas,
        native_missing,
        native_1_35,
        volcano_pending,
        volcano_closed,
        volcano_capability,
        volcano_priorities,
        kai_gangs,
        kai_shared,
        kai_subgroups,
        kai_without_group,
        coscheduling,
        kueue_waits,
        kueue_checks,
        kueue_pod_group,
        kueue_and_gang,
        kueue_admitted,
    )
}
"""The dumps by name; each call makes objects of its own."""
