"""Full-size objects of a small cluster, as ``kubectl get -o json`` gives them.

They have what real ones have and nobody reads: managed fields, images, statuses, tokens. The
same objects stand as files in ``tests/kubernetes/fixtures/cluster``:

    python -m tests.support.cluster_dump      # writes the files anew

Volcano schedules the cluster. It holds, on purpose, one of everything that a reader must cope
with: see the comments at the objects.
"""

from __future__ import annotations

import json
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "kubernetes" / "fixtures" / "cluster"

CREATED = "2026-03-02T07:15:00Z"
REPORTED = "2026-03-02T09:59:30Z"
"""The latest time that any object tells."""
GROUP = "scheduling.k8s.io/group-name"
ROLE = "volcano.sh/task-spec"


def managed(manager, *fields):
    return [
        {
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {f"f:{field}": {".": {}, "f:value": {}} for field in fields},
            "manager": manager,
            "operation": "Update",
            "time": CREATED,
        }
    ]


def condition(kind, status="False", reason="KubeletHasSufficientMemory"):
    return {
        "lastHeartbeatTime": REPORTED,
        "lastTransitionTime": CREATED,
        "message": f"kubelet reports {kind}",
        "reason": reason,
        "status": status,
        "type": kind,
    }


def node(name, *, zone, allocatable, capacity=None, labels=None, taints=None, **spec):
    conditions = [condition(kind) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "annotations": {
                "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock",
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "creationTimestamp": "2025-11-20T12:00:00Z",
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": zone,
            }
            | (labels or {}),
            "managedFields": managed("kubelet", "status", "metadata"),
            "name": name,
            "resourceVersion": "48291733",
            "uid": f"5b9fbb0e-6e5e-4f21-8d35-{name:0>12}"[:36],
        },
        "spec": {"podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24"]}
        | ({"taints": taints} if taints else {})
        | spec,
        "status": {
            "addresses": [
                {"address": "10.0.3.17", "type": "InternalIP"},
                {"address": name, "type": "Hostname"},
            ],
            "allocatable": allocatable,
            "capacity": capacity or allocatable,
            "conditions": [*conditions, condition("Ready", "True", "KubeletReady")],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": [
                {
                    "names": [f"registry.example.com/train@sha256:{'0f' * 32}"],
                    "sizeBytes": 8123456789,
                }
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "a1d0c6e8-3b0f-4c57-a2b8-0d5a0a9be801",
                "containerRuntimeVersion": "containerd://1.7.22",
                "kernelVersion": "6.8.0-51-generic",
                "kubeletVersion": "v1.33.1",
                "machineID": "ec2f0a4b6cb74e8e8f7b3a6d3b1a5b57",
                "operatingSystem": "linux",
                "osImage": "Ubuntu 24.04.2 LTS",
            },
        },
    }


def gpu_node(name, zone, gpus="8"):
    return node(
        name,
        zone=zone,
        labels={"gpu": "a100", "node.kubernetes.io/instance-type": "hgx-a100"},
        taints=[{"effect": "NoSchedule", "key": "nvidia.com/gpu", "value": "present"}],
        capacity={
            "cpu": "128",
            "ephemeral-storage": "1843269236Ki",
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "memory": "1056270564Ki",
            "nvidia.com/gpu": "8",
            "pods": "110",
        },
        allocatable={
            "cpu": "127500m",
            "ephemeral-storage": "1698756925085",
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "memory": "1032Gi",
            "nvidia.com/gpu": gpus,
            "pods": "110",
        },
    )


def cpu_node(name, zone, **spec):
    return node(
        name,
        zone=zone,
        labels={"node.kubernetes.io/instance-type": "c7"},
        allocatable={
            "attachable-volumes-csi-disk": "39",
            "cpu": "31850m",
            "ephemeral-storage": "95551679124",
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "4Gi",
            "memory": "124Gi",
            "pods": "58",
        },
        **spec,
    )


def container(name="main", *, requests=None, limits=None, **more):
    resources = {key: given for key, given in (("requests", requests), ("limits", limits)) if given}
    return {
        "args": ["--config", "/etc/run/config.yaml"],
        "env": [
            {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LOG_LEVEL", "value": "info"},
        ],
        "image": "registry.example.com/train:2026.02",
        "imagePullPolicy": "IfNotPresent",
        "name": name,
        "resources": resources,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
            }
        ],
    } | more


GPU_WORKER = container(
    requests={"cpu": "12", "memory": "96Gi", "nvidia.com/gpu": "2"}, limits={"nvidia.com/gpu": "2"}
)
TOKEN_VOLUME = {
    "name": "kube-api-access-x7k2p",
    "projected": {
        "defaultMode": 420,
        "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}],
    },
}
TOLERATES_GPU = {"effect": "NoSchedule", "key": "nvidia.com/gpu", "operator": "Exists"}
USUAL_TOLERATIONS = [
    {
        "effect": "NoExecute",
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


def pod(
    name,
    namespace="research",
    *,
    group=None,
    node_name=None,
    phase=None,
    scheduler="volcano",
    annotations=None,
    metadata=None,
    containers=None,
    volumes=(),
    tolerations=(),
    **spec,
):
    phase = phase or ("Running" if node_name else "Pending")
    containers = [GPU_WORKER] if containers is None else containers
    waits = {
        "lastProbeTime": None,
        "lastTransitionTime": CREATED,
        "message": "0/6 nodes are available",
        "reason": "Unschedulable",
        "status": "False",
        "type": "PodScheduled",
    }
    ready = {
        "lastProbeTime": None,
        "lastTransitionTime": CREATED,
        "status": "True",
        "type": "PodScheduled",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": (
                {GROUP: group, ROLE: "worker", "volcano.sh/template-uid": group} if group else {}
            )
            | (annotations or {}),
            "creationTimestamp": CREATED,
            "generateName": f"{name.rpartition('-')[0]}-",
            "labels": {"app": name.rpartition("-")[0] or name, "volcano.sh/job-name": group or ""},
            "managedFields": managed("vc-controller-manager", "metadata", "spec"),
            "name": name,
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Job",
                    "name": group or name,
                    "uid": "1a2b3c4d-0000-4000-8000-000000000001",
                }
            ],
            "resourceVersion": "48291999",
            "uid": f"7d0c2f44-9a1b-4c3e-9c7e-{sum(map(ord, namespace + name)):06d}{len(name):06d}",
        }
        | (metadata or {}),
        "spec": {
            "containers": containers,
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "restartPolicy": "OnFailure",
            "schedulerName": scheduler,
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [*tolerations, *USUAL_TOLERATIONS],
            "volumes": [*volumes, TOKEN_VOLUME],
        }
        | ({"nodeName": node_name} if node_name else {})
        | {"priority": 0}
        | spec,
        "status": {
            "conditions": [ready if node_name else waits],
            "phase": phase,
            "qosClass": "Burstable",
        }
        | (
            {
                "containerStatuses": [
                    {
                        "image": "registry.example.com/train:2026.02",
                        "lastState": {},
                        "name": "main",
                        "ready": True,
                        "restartCount": 0,
                        "state": {"running": {"startedAt": CREATED}},
                    }
                ],
                "hostIP": "10.0.3.17",
                "podIP": "10.244.3.21",
                "podIPs": [{"ip": "10.244.3.21"}],
                "startTime": CREATED,
            }
            if node_name
            else {}
        ),
    }


def volcano(kind, name, *, namespace=None, spec=None, status=None, annotations=None):
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": kind,
        "metadata": {
            "annotations": annotations or {},
            "creationTimestamp": CREATED,
            "generation": 3,
            "managedFields": managed("vc-controller-manager", "spec", "status"),
            "name": name,
            "resourceVersion": "48290001",
            "uid": f"c0ffee00-0000-4000-8000-{sum(map(ord, name)):012d}",
        }
        | ({"namespace": namespace} if namespace else {}),
        "spec": spec or {},
        "status": status or {},
    }


def pod_group(name, namespace="research", *, min_member, phase="Inqueue", **spec):
    return volcano(
        "PodGroup",
        name,
        namespace=namespace,
        spec={"minMember": min_member, "minResources": {"cpu": "12", "memory": "96Gi"}} | spec,
        status={
            "conditions": [
                {
                    "lastTransitionTime": CREATED,
                    "message": "1/3 tasks in gang unschedulable",
                    "reason": "NotEnoughResources",
                    "status": "True",
                    "transitionID": "2f6d7f5b-6f0e-4f5e-8a63-0ec6a32d1c6b",
                    "type": "Unschedulable",
                }
            ],
            "phase": phase,
            "running": 2,
        },
    )


def queue(name, *, state="Open", annotations=None, **spec):
    return volcano(
        "Queue",
        name,
        annotations=annotations,
        spec={"weight": 1, "reclaimable": True} | spec,
        status={
            "allocated": {"cpu": "24", "memory": "192Gi"},
            "reservation": {},
            "running": 1,
            "state": state,
        },
    )


def priority_class(name, value, **more):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "description": f"pods of class {name}",
        "kind": "PriorityClass",
        "metadata": {
            "creationTimestamp": "2025-11-20T12:00:00Z",
            "generation": 1,
            "name": name,
            "resourceVersion": "71",
            "uid": f"f00df00d-0000-4000-8000-{len(name):012d}",
        },
        "preemptionPolicy": "PreemptLowerPriority",
        "value": value,
    } | more


def namespace(name, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "creationTimestamp": "2025-11-20T12:00:00Z",
            "labels": {"kubernetes.io/metadata.name": name} | labels,
            "name": name,
            "resourceVersion": "42",
            "uid": f"badcafe0-0000-4000-8000-{len(name):012d}",
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def as_list(items):
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


NODES = [
    gpu_node("gpu-1", "zone-a"),
    gpu_node("gpu-2", "zone-b"),
    cpu_node("cpu-1", "zone-a"),
    cpu_node("cpu-2", "zone-b"),
    # cordoned for maintenance
    cpu_node("cpu-3", "zone-b", unschedulable=True),
    node(
        "control-1",
        zone="zone-a",
        taints=[{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}],
        allocatable={
            "cpu": "8",
            "ephemeral-storage": "95551679124",
            "hugepages-2Mi": "0",
            "memory": "32545144Ki",
            "pods": "110",
        },
    ),
]

PODS = [
    # a gang of three workers, of which two run; with an init container, a sidecar and overhead
    *(
        pod(
            f"train-worker-{i}",
            group="train-7f9c",
            node_name=node_name,
            initContainers=[
                container("fetch", requests={"cpu": "16", "memory": "4Gi"}),
                container(
                    "metrics", requests={"cpu": "250m", "memory": "128Mi"}, restartPolicy="Always"
                ),
            ],
            overhead={"cpu": "250m", "memory": "120Mi"},
            runtimeClassName="kata",
            tolerations=[TOLERATES_GPU],
            nodeSelector={"gpu": "a100"},
            priority=1000,
            priorityClassName="research-high",
        )
        for i, node_name in enumerate(["gpu-1", "gpu-2", None])
    ),
    # an elastic sweep in all notations of quantities; spread over zones
    *(
        pod(
            f"sweep-{i}",
            group="sweep-1b2d",
            node_name=node_name,
            containers=[container(requests=requests)],
            topologySpreadConstraints=[
                {
                    "labelSelector": {"matchLabels": {"app": "sweep"}},
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                }
            ],
        )
        for i, (node_name, requests) in enumerate(
            [
                ("cpu-1", {"cpu": "1500m", "memory": "2Gi"}),
                ("cpu-1", {"cpu": "1.5", "memory": "2147483648"}),
                ("cpu-2", {"cpu": "15e-1", "memory": "2e9"}),
                (None, {"cpu": "2", "memory": "128974848000m", "ephemeral-storage": "20Gi"}),
                (None, {"cpu": "0.5", "memory": "512M", "hugepages-2Mi": "64Mi"}),
            ]
        )
    ),
    # requests for the pod as a whole
    pod(
        "etl-0",
        "data",
        group="etl",
        containers=[container(), container("helper", requests={"cpu": "100m"})],
        resources={"limits": {"memory": "8Gi"}, "requests": {"cpu": "3", "memory": "6Gi"}},
    ),
    # waits for a quota controller to remove its gate
    pod(
        "etl-1",
        "data",
        group="etl",
        containers=[container(requests={"cpu": "1"})],
        schedulingGates=[{"name": "quota.example.com/admission"}],
    ),
    # has a volume that only some nodes can mount, claims a device, and evicts nobody
    pod(
        "notebook-0",
        group="notebook",
        containers=[container(requests={"cpu": "4", "memory": "16Gi"})],
        preemptionPolicy="Never",
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        volumes=[{"name": "home", "persistentVolumeClaim": {"claimName": "home-notebook-0"}}],
    ),
    # in a queue that is closed
    pod("archive-0", "data", group="archive", containers=[container(requests={"cpu": "1"})]),
    pod(
        "archive-1",
        "data",
        group="archive",
        node_name="cpu-2",
        containers=[container(requests={"cpu": "1"})],
    ),
    # on a node that is not in the dump
    pod(
        "sweep-5",
        group="sweep-1b2d",
        node_name="cpu-9",
        containers=[container(requests={"cpu": "1500m", "memory": "2Gi"})],
    ),
    # of a group that was deleted
    pod("orphan-0", group="deleted-group", containers=[container(requests={"cpu": "1"})]),
    # is being deleted
    pod(
        "sweep-6",
        group="sweep-1b2d",
        node_name="cpu-1",
        containers=[container(requests={"cpu": "1500m", "memory": "2Gi"})],
        metadata={"deletionGracePeriodSeconds": 30, "deletionTimestamp": "2026-03-02T10:00:10Z"},
    ),
    # has ended
    pod("sweep-7", group="sweep-1b2d", phase="Succeeded"),
    # has no group
    pod("shell", containers=[container(requests={"cpu": "1", "memory": "1Gi"})]),
    # of another scheduler: one occupies its node, one waits
    pod(
        "web-6f5d8c-abcde",
        "web",
        node_name="cpu-2",
        scheduler="default-scheduler",
        containers=[
            container(
                requests={"cpu": "2", "memory": "4Gi"},
                limits={"cpu": "4", "memory": "4Gi"},
                ports=[{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            )
        ],
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": "app", "operator": "In", "values": ["web-6f5d8c"]}
                            ]
                        },
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        },
    ),
    pod(
        "web-6f5d8c-fghij",
        "web",
        scheduler="default-scheduler",
        containers=[container(requests={"cpu": "2", "memory": "4Gi"})],
    ),
    # daemons
    *(
        pod(
            f"node-exporter-{name}",
            "kube-system",
            node_name=name,
            scheduler="default-scheduler",
            containers=[
                container(
                    requests={"cpu": "102m", "memory": "180Mi"},
                    ports=[{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}],
                )
            ],
            hostNetwork=True,
            priority=2000001000,
            priorityClassName="system-node-critical",
            tolerations=[{"operator": "Exists"}],
        )
        for name in ("gpu-1", "gpu-2", "cpu-1", "cpu-2", "cpu-3", "control-1")
    ),
]

POD_GROUPS = [
    pod_group(
        "train-7f9c",
        min_member=3,
        minTaskMember={"worker": 3},
        priorityClassName="research-high",
        queue="research",
    ),
    pod_group("sweep-1b2d", min_member=2, phase="Running", queue="research"),
    pod_group("etl", "data", min_member=1, priorityClassName="reserch-high", queue="data"),
    pod_group("notebook", min_member=1, queue="research"),
    pod_group("archive", "data", min_member=1, phase="Running", queue="archive"),
]

QUEUES = [
    queue("default"),
    queue(
        "research",
        capability={"nvidia.com/gpu": "16"},
        deserved={"nvidia.com/gpu": "12"},
        guarantee={"resource": {"nvidia.com/gpu": "4"}},
        weight=3,
    ),
    queue("data", parent="root", reclaimable=False, weight=2),
    queue(
        "archive",
        state="Closed",
        annotations={
            "volcano.sh/hierarchy": "root/archive",
            "volcano.sh/hierarchy-weights": "1/1",
        },
    ),
]

PRIORITY_CLASSES = [
    priority_class("normal", 100, globalDefault=True),
    priority_class("research-high", 1000),
    priority_class("system-cluster-critical", 2000000000),
    priority_class("system-node-critical", 2000001000),
]

NAMESPACES = [
    namespace("data", team="data"),
    namespace("default"),
    namespace("kube-system"),
    namespace("research", team="research"),
    namespace("web", team="web"),
]

DUMP = {
    "nodes": as_list(NODES),
    "pods": as_list(PODS),
    "pod_groups": as_list(POD_GROUPS),
    "queues": as_list(QUEUES),
    "priority_classes": as_list(PRIORITY_CLASSES),
    "namespaces": as_list(NAMESPACES),
}
"""The arguments of `read_objects`; pods ask for the scheduler ``volcano``."""


def text_of(name):
    """Return what stands in the file of an argument."""
    return json.dumps(DUMP[name], indent=1) + "\n"


if __name__ == "__main__":
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for argument in DUMP:
        (FIXTURES / f"{argument}.json").write_text(text_of(argument), encoding="utf-8")
