"""Names that Kubernetes and the systems on it give: API groups, labels, annotations, gates."""

from __future__ import annotations

# API groups

BATCH = "batch"
KUBERNETES = "scheduling.k8s.io"
VOLCANO = "scheduling.volcano.sh"
VOLCANO_JOBS = "batch.volcano.sh"
KUBE_BATCH = "scheduling.incubator.k8s.io"
KAI = "scheduling.run.ai"
COSCHEDULING = ("scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
"""The plugin of the kube-scheduler that places gangs: its API group, and the one of before 2022."""
KUEUE = "kueue.x-k8s.io"
KAI_TOPOLOGIES = "kai.scheduler"
HYPER_NODES = "topology.volcano.sh"
RESOURCE = "resource.k8s.io"
POLICY = "policy"
LEADER_WORKER_SET = "leaderworkerset.x-k8s.io"
SYSTEM_OF = {
    KUBERNETES: "kubernetes",
    VOLCANO: "volcano",
    VOLCANO_JOBS: "volcano",
    KUBE_BATCH: "kube-batch",
    KAI: "kai",
    **dict.fromkeys(COSCHEDULING, "coscheduling"),
    KUEUE: "kueue",
}
"""API group to the system that reads its objects, in the order in which jobs take their names."""

# Schedulers, as pods name them

KUBE_SCHEDULER = ("", "default-scheduler")
KAI_SCHEDULER = "kai-scheduler"
YUNIKORN = "yunikorn"
BATCH_SCHEDULERS = {
    "volcano": "volcano",
    KAI_SCHEDULER: "kai",
    "kube-batch": "kube-batch",
    YUNIKORN: "yunikorn",
}
"""The names of batch schedulers, and of their systems."""
CALLED = {
    "kubernetes": "the kube-scheduler",
    "coscheduling": "the kube-scheduler",
    "volcano": "Volcano",
    "kube-batch": "kube-batch",
    "kai": "KAI Scheduler",
    "kueue": "Kueue",
    "yunikorn": "YuniKorn",
}
"""What people call the schedulers of systems."""

# Pods: groups, roles, plans

GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""The annotations of kube-batch and Volcano for the pod's PodGroup; the first one set is used."""
BACKFILL = "scheduling.k8s.io/kube-batch-backfill"
"""``"true"`` marks a pod that runs on resources that are promised to other jobs."""
RESERVED_NODE = "scheduling.k8s.io/kube-batch-reserved-node"
"""The node that is reserved for a pending pod."""
ROLE_NAMES = ("volcano.sh/task-spec", "kai.scheduler/subgroup-name")
"""The pod's role in its PodGroup, by Volcano's annotation and KAI Scheduler's label."""
PLANNED_START = "batchsched/planned-start"
"""When a pending pod is planned to start, in seconds since 1970-01-01T00:00:00Z."""
PLANNED_NODE = "batchsched/planned-node"
"""The node on which it is planned to start."""
DEPENDS_ON = "batchsched/depends-on"
SUBMITTED = "batchsched/submitted"
"""The annotation of what was submitted, and of what controllers make of it."""
JOB_NAMES: tuple[str, ...] = ("batch.kubernetes.io/job-name", "job-name")
"""The label of a Job's pods, and its name before Kubernetes 1.27."""
REPLICA_SET = "leaderworkerset.sigs.k8s.io/"
"""What the labels and annotations of LeaderWorkerSets begin with."""
COSCHEDULING_NAMES = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""The labels of coscheduling for the pod's PodGroup, the newer first."""
VOLCANO_JOB_NAME = "volcano.sh/job-name"
TASK_SPEC = "volcano.sh/task-spec"
"""The label and the annotation that name the task of its Volcano Job that a pod is of."""
PARTITION = "volcano.sh/partition-id"
"""The label that numbers the part of its task that a pod is of."""

JDB_LEAST, JDB_MOST = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
"""The annotations that make a group of Volcano a budget of its own pods."""
PREEMPTABLE = "volcano.sh/preemptable"
"""The annotation or label of groups and pods that Volcano may evict."""

# KAI Scheduler

KAI_GROUP = "pod-group-name"
"""The annotation that KAI Scheduler's pod grouper writes on pods."""
KAI_QUEUE = "kai.scheduler/queue"
KAI_LAST_EVICTED = "kai.scheduler/last-eviction-timestamp"
"""The annotation with the time at which a group was last evicted."""
NODE_POOL = "kai.scheduler/node-pool"
"""The label of nodes, queues, groups and pods that only one scheduler of KAI sees."""
GPU = "nvidia.com/gpu"
GPU_GROUP = "runai-gpu-group"
"""The label that names a shared GPU of a pod, or what the labels of several begin with."""

# Kueue

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
ADMISSION_GATE = "kueue.x-k8s.io/admission"
ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"
"""The gate of pods by which a job grows, until a Workload of the new size is admitted."""
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
