"""What controllers make of manifests: the objects of a cluster to which these are submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from batchsched.errors import Fault, KubernetesObjectError
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import contents_of
from batchsched.kubernetes.objects import (
    Objects,
    Reading,
    api_group_of,
    is_mapping,
    look_up,
    mappings_in,
    text_at,
)
from batchsched.model.immutable import EMPTY

MOST_PODS = 100_000
"""The most pods that one set of a manifest may become."""
_RAY = "ray.io"
_JOB_SET = "jobset.x-k8s.io"
_OF_KAI = "kai.scheduler/"
"""What labels and annotations of KAI Scheduler begin with."""
_SCHEDULER = {"schedulerName": "default-scheduler"}
"""What a pod says that names no scheduler."""

Content = Mapping[str, object]
"""An object, as JSON and YAML have it."""


@frozen
class _PodSet:
    """Pods of one template."""

    name: str
    template: Content
    pods: tuple[str, ...]
    """The names of the pods."""
    least: int | None = None
    """How many of them a gang needs; None: all."""
    labels: Content = EMPTY
    """Further labels of the pods."""
    owner: Content | None = None
    """What owns the pods; None: the manifest."""
    gang: str = ""
    """The part of the manifest that starts by itself; empty: all of it is one gang."""


def submitted_objects(objects: Objects, /) -> list[Content]:
    """Return manifests with the objects that controllers make of them.

    Jobs, JobSets, LeaderWorkerSets, RayClusters and RayJobs, Volcano's Jobs, the training jobs of
    Kubeflow, Deployments, ReplicaSets and StatefulSets become pods, which wait, and a CronJob the
    Job that it makes next; for Volcano and KAI Scheduler with their PodGroups, for Kueue with a
    Workload that it has not tried. All other objects stay as they are. O(objects + pods).

    Raises:
        KubernetesObjectError: `objects` are no mappings, or Lists of them; or a manifest asks for
            more than 100,000 pods.

    >>> job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
    ...        "spec": {"parallelism": 2, "completions": 2, "template": {"spec": {}}}}
    >>> [each["metadata"]["name"] for each in submitted_objects([job])]
    ['train', 'train-0', 'train-1']
    """
    reading, made = Reading(), list[Content]()
    contents = [content for _, content in contents_of(reading, objects)]
    if reading.faults:
        raise KubernetesObjectError(reading.faults)
    for one in contents:
        made += _made(_marked(one, {}))
    made += _of_pod_groups(made)
    return made


def _made(given: Content) -> Iterator[Content]:
    """Yield a manifest, as a cluster has it then, and what is made of it."""
    kind = _kind(given)
    if kind == ("", "Pod"):
        yield from _pod(given)
        return
    if kind == (api.BATCH, "CronJob"):
        yield given
        yield from _made(_next_of(given))
        return
    sets = list(_PODS_OF[kind](given)) if kind in _PODS_OF else []
    is_queued = bool(_local_queue(given)) and kind in _PODS_OF and kind not in _OF_PODS
    if is_queued and kind == (api.BATCH, "Job"):
        given = {**given, "spec": {**_at(given, "spec"), "suspend": True}}
    yield given
    if kind == (api.VOLCANO_JOBS, "Job"):
        yield _volcano_group(given)
    elif is_queued:
        yield _workload(given, sets)
    else:
        yield from _owners(given, sets)
        yield from _pods(given, sets)


def _next_of(given: Content) -> Content:
    """Return the Job that a CronJob makes next."""
    template = _at(given, "spec", "jobTemplate")
    content = {"apiVersion": f"{api.BATCH}/v1", "kind": "Job", "spec": _at(template, "spec")}
    labels, annotations = _labels(template), _annotations(template)
    return _owned(given, f"{_name(given)}-1", content, labels=labels, annotations=annotations)


def _owners(given: Content, sets: Iterable[_PodSet]) -> Iterator[Content]:
    """Yield what owns pods between them and the manifest, each once."""
    owners = {_name(each.owner): each.owner for each in sets if each.owner is not None}
    for owner in owners.values():
        yield _marked(owner, {"ownerReferences": [_reference(given)]})


def _pods(given: Content, sets: Iterable[_PodSet]) -> Iterator[Content]:
    """Yield the pods of a manifest, and the groups that their schedulers place them by."""
    gangs: dict[str, list[_PodSet]] = {}
    for each in sets:
        gangs.setdefault(each.gang, []).append(each)
    for gang, members in gangs.items():
        name = f"{_name(given)}-{gang}" if gang else _name(given)
        group, added = _group_of(given, name, members)
        yield from group
        for each in members:
            for pod in each.pods:
                yield from _pod(_of_template(given, each, pod, added), given)


def _group_of(
    given: Content, name: str, members: Sequence[_PodSet]
) -> tuple[Sequence[Content], Mapping[str, Content]]:
    """Return the group of a gang, if it gets one, and what the gang's pods get to be in it."""
    labels, template, kind = _labels(given), members[0].template, _kind(given)
    local_queue = _local_queue(given)
    gang = look_up(_at(given, "spec", "scheduling", "schedulingPolicy"), "gang")
    count = sum(len(each.pods) for each in members)
    least = sum(len(each.pods) if each.least is None else each.least for each in members)
    spec: dict[str, object]
    if gang is not None:
        policy = {"gang": {"minCount": _whole(gang, "minCount", count)}}
        spec = {"schedulingPolicy": policy, **_class_of(members)}
        group = _group(given, f"{api.KUBERNETES}/v1beta1", name, spec)
        return [group], {"spec": {"schedulingGroup": {"podGroupName": name}}}
    if _is_kais(template):
        return ([], {}) if kind == _DEPLOYMENT else _kai_group(given, name, members)
    if text_at(labels, "ray.io/scheduler-name") == "volcano":
        queue = text_at(labels, "volcano.sh/queue-name") or "default"
        spec = {"minMember": least, "queue": queue}
        own = text_at(labels, "ray.io/priority-class-name")
        spec |= {"priorityClassName": own} if own else {}
        group = _group(given, f"{api.VOLCANO}/v1beta1", f"ray-{name}-pg", spec)
        notes = {api.GROUP_NAMES[0]: f"ray-{name}-pg"}
        return [group], {"annotations": notes, "spec": {"schedulerName": "volcano"}}
    if local_queue and kind not in _SINGLE:
        of_group = {api.QUEUE_LABEL: local_queue, api.GROUP_LABEL: name}
        return [], {"labels": of_group, "annotations": {api.TOTAL_COUNT: str(count)}}
    return [], {"labels": {api.QUEUE_LABEL: local_queue}} if local_queue else {}


def _kai_group(
    given: Content, name: str, members: Sequence[_PodSet]
) -> tuple[Sequence[Content], Mapping[str, Content]]:
    """Return the same for KAI Scheduler: its pod grouper makes a group of what owns the pods."""
    least = sum(len(each.pods) if each.least is None else each.least for each in members)
    annotation = _KAI_LEAST.get(_kind(given))
    if annotation is not None:
        annotated = text_at(_annotations(given), f"{_OF_KAI}{annotation}")
        least = int(annotated) if annotated.isdecimal() else 1
    group = _group_of_kai(given, f"pg-{name}", least, members[0].template, _class_of(members))
    return [group], {"annotations": {api.KAI_GROUP: f"pg-{name}"}}


def _group_of_kai(
    owner: Content, name: str, least: int, pod: Content, its_class: Content
) -> Content:
    """Return a group of KAI Scheduler, with what its owner and its pods say of it."""

    def said(kind: str, key: str) -> str:
        found = (text_at(_at(each, "metadata", kind), key) for each in (owner, pod))
        return next(filter(None, found), "")

    own = said("labels", "priorityClassName")
    of_owner = _annotations(owner)
    levels = {
        key: text
        for key, of in _KAI_LEVELS.items()
        if (text := text_at(of_owner, f"{_OF_KAI}{of}"))
    }
    spec: dict[str, object] = {
        "minMember": least,
        "queue": said("labels", api.KAI_QUEUE),
        **({"priorityClassName": own} if own else its_class),
        "preemptibility": said("labels", f"{_OF_KAI}preemptibility"),
        "topologyConstraint": levels,
        **{key: said("annotations", f"{_OF_KAI}{of}") for key, of in _KAI_DELAYS.items()},
    }
    return _group(owner, f"{api.KAI}/v2alpha2", name, spec, labels=_labels(owner))


def _is_kais(template: Content) -> bool:
    return text_at(_at(template, "spec"), "schedulerName") == api.KAI_SCHEDULER


def _of_template(given: Content, one: _PodSet, name: str, added: Mapping[str, Content]) -> Content:
    metadata = _at(one.template, "metadata")
    return _owned(
        given if one.owner is None else one.owner,
        name,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {**_at(one.template, "spec"), **added.get("spec", {})},
        },
        labels={**_at(metadata, "labels"), **one.labels, **added.get("labels", {})},
        annotations={**_at(metadata, "annotations"), **added.get("annotations", {})},
    )


def _pod(given: Content, owner: Content | None = None) -> Iterator[Content]:
    """Yield a pod that waits; for Kueue, with its gate, and with its Workload if it is alone.

    For a pod for KAI Scheduler that is in no group, its pod grouper makes one.
    """
    spec = {**_SCHEDULER, **_at(given, "spec")}
    if _local_queue(given):
        gates = mappings_in(look_up(spec, "schedulingGates"))
        spec["schedulingGates"] = [*gates, {"name": api.ADMISSION_GATE}]
    metadata = _at(given, "metadata")
    if _is_kais(given) and not text_at(_annotations(given), api.KAI_GROUP):
        group = f"pg-{_name(given)}"
        metadata = {**metadata, "annotations": {**_annotations(given), api.KAI_GROUP: group}}
        of_pod = text_at(spec, "priorityClassName") or ("" if owner is None else "inference")
        its_class = {"priorityClassName": of_pod} if of_pod else EMPTY
        yield _group_of_kai(given if owner is None else owner, group, 1, given, its_class)
    pod = {**given, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    yield pod
    if _local_queue(given) and not look_up(_labels(given), api.GROUP_LABEL):
        yield _workload(pod, [_PodSet("main", given, (_name(pod),))])


def _of_pod_groups(made: Iterable[Content]) -> Iterator[Content]:
    """Yield the Workloads of groups of pods that are whole."""
    groups: dict[tuple[str, str], list[Content]] = {}
    for each in made:
        group = text_at(_labels(each), api.GROUP_LABEL)
        if group and text_at(each, "kind") == "Pod":
            groups.setdefault((_namespace(each), group), []).append(each)
    for (_, name), pods in groups.items():
        total = text_at(_at(pods[0], "metadata", "annotations"), api.TOTAL_COUNT)
        if total == str(len(pods)):
            sets = [_PodSet(_name(pod), pod, (_name(pod),)) for pod in pods]
            workload = _workload(pods[0], sets)
            references = [{**_reference(pod), "controller": False} for pod in pods]
            yield _marked(workload, {"name": name, "ownerReferences": references})


def _workload(given: Content, sets: Sequence[_PodSet]) -> Content:
    """Return the Workload of a job that Kueue has not tried yet."""
    own = text_at(_labels(given), "kueue.x-k8s.io/priority-class")
    of_pods = look_up(_class_of(sets), "priorityClassName")
    ref = {"kind": "WorkloadPriorityClass", "name": own}
    if not own:
        ref = {"kind": "PriorityClass", "name": of_pods} if isinstance(of_pods, str) else {}
    partial = text_at(_annotations(given), "kueue.x-k8s.io/job-min-parallelism")
    least = {"minCount": int(partial)} if partial.isdecimal() else {}
    spec: dict[str, object] = {
        "queueName": _local_queue(given),
        "podSets": [
            {"name": each.name, "count": len(each.pods), "template": each.template, **least}
            for each in sets
        ],
    }
    spec |= {"priorityClassRef": ref} if ref else {}
    content = {"apiVersion": f"{api.KUEUE}/v1beta2", "kind": "Workload", "spec": spec}
    return _owned(given, f"{text_at(given, 'kind').lower()}-{_name(given)}", content)


def _volcano_group(given: Content) -> Content:
    """Return the PodGroup of a Volcano Job, which action enqueue has not admitted yet."""
    spec, least = _at(given, "spec"), dict[str, int]()
    policies: list[Content] = []
    for position, task in enumerate(mappings_in(look_up(spec, "tasks"))):
        name = text_at(task, "name") or f"default{position}"
        parts = _at(task, "partitionPolicy")
        size, count = _whole(parts, "partitionSize", 0), _whole(parts, "minPartitions", 0)
        usual = size * count or _whole(task, "replicas", 1)
        least[name] = _whole(task, "minAvailable", usual)
        if parts:
            policies.append(
                {
                    "name": name,
                    "subGroupSize": size,
                    "minSubGroups": count,
                    "labelSelector": {"matchLabels": {api.TASK_SPEC: name}},
                    "matchLabelKeys": [api.PARTITION],
                    "networkTopology": look_up(parts, "networkTopology"),
                }
            )
    its_class = text_at(spec, "priorityClassName")
    content: dict[str, object] = {
        "minMember": _whole(spec, "minAvailable", sum(least.values())),
        "minTaskMember": least,
        "queue": text_at(spec, "queue") or "default",
        "networkTopology": look_up(spec, "networkTopology"),
        "subGroupPolicy": policies,
    }
    content |= {"priorityClassName": its_class} if its_class else {}
    labels, annotations = _labels(given), _annotations(given)
    version = f"{api.VOLCANO}/v1beta1"
    return _group(given, version, _name(given), content, labels=labels, annotations=annotations)


def _group(given: Content, version: str, name: str, spec: Content, **metadata: Content) -> Content:
    status = {"phase": "Pending"} if version.startswith(api.VOLCANO) else {}
    content = {"apiVersion": version, "kind": "PodGroup", "spec": spec, "status": status}
    return _owned(given, name, content, **metadata)


# The pods of each kind


def _job(given: Content) -> Iterator[_PodSet]:
    spec, name = _at(given, "spec"), _name(given)
    if look_up(spec, "suspend") is True and not _local_queue(given):
        return
    count = _whole(spec, "parallelism", 1)
    count = min(count, _whole(spec, "completions", count))
    pods, labels = _numbered(given, name, count), dict.fromkeys(api.JOB_NAMES, name)
    yield _PodSet("main", _at(spec, "template"), pods, labels=labels)


def _job_set(given: Content) -> Iterator[_PodSet]:
    is_queued = bool(_local_queue(given))
    for one in mappings_in(look_up(_at(given, "spec"), "replicatedJobs")):
        role, template = text_at(one, "name"), _at(one, "template")
        pods: list[str] = []
        count = _whole(one, "replicas", 1)
        _bounded(given, count * max(1, _whole(_at(template, "spec"), "parallelism", 1)))
        for number in range(count):
            named = {"name": f"{_name(given)}-{role}-{number}", "namespace": _namespace(given)}
            metadata = {**_at(template, "metadata"), **named}
            spec = _at(template, "spec")
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
            for each in _job(job):
                labels = {**each.labels, "jobset.sigs.k8s.io/jobset-name": _name(given)}
                pods += each.pods
                if not is_queued:
                    yield _PodSet(role, each.template, each.pods, labels=labels, owner=job)
        if is_queued:
            yield _PodSet(role, _at(template, "spec", "template"), tuple(pods))


def _leader_worker_set(given: Content) -> Iterator[_PodSet]:
    spec = _at(given, "spec")
    below = _at(spec, "leaderWorkerTemplate")
    worker, size = _at(below, "workerTemplate"), max(1, _whole(below, "size", 1))
    leader = _at(below, "leaderTemplate") or worker
    name, prefix, own = _name(given), api.REPLICA_SET, _annotations(given)
    asked = {key: text for key, text in own.items() if key.endswith("exclusive-topology")}
    part = _whole(_at(below, "subGroupPolicy"), "subGroupSize", 0)
    asked |= {f"{prefix}size": str(size), f"{prefix}subgroup-size": str(part)}
    for number in range(_bounded(given, size * _whole(spec, "replicas", 1)) // size):
        pods = f"{name}-{number}", *(f"{name}-{number}-{i}" for i in range(1, size))
        for position, pod in enumerate(pods):
            template = worker if position else leader
            metadata = _at(template, "metadata")
            notes = {**_at(metadata, "annotations"), **asked}
            labels = {
                f"{prefix}name": name,
                f"{prefix}group-index": str(number),
                f"{prefix}worker-index": str(position),
            }
            annotated = {**template, "metadata": {**metadata, "annotations": notes}}
            role = "worker" if position else "leader"
            yield _PodSet(role, annotated, (pod,), labels=labels, gang=str(number))


def _ray_cluster(given: Content, key: str = "") -> Iterator[_PodSet]:
    spec, name = (_at(given, "spec", key) if key else _at(given, "spec")), _name(given)
    labels = {"ray.io/cluster": name}
    head = _at(spec, "headGroupSpec", "template")
    yield _PodSet("head", head, (f"{name}-head",), labels=labels)
    for group in mappings_in(look_up(spec, "workerGroupSpecs")):
        role = text_at(group, "groupName") or "worker"
        least = _whole(group, "minReplicas", 0)
        hosts = _whole(group, "numOfHosts", 1)
        count = hosts * _whole(group, "replicas", least)
        pods = _numbered(given, f"{name}-{role}", count)
        needed = min(count, hosts * least) if look_up(group, "minReplicas") is not None else None
        yield _PodSet(role, _at(group, "template"), pods, needed, {**labels, "ray.io/group": role})


_SUBMITTER = {
    "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}}]}
}
"""The pod that submits a Ray job, where the RayJob says nothing of it."""


def _ray_job(given: Content) -> Iterator[_PodSet]:
    """Yield the pods of a RayJob's cluster; Kueue counts the one that submits the job, too."""
    spec = _at(given, "spec")
    yield from _ray_cluster(given, "rayClusterSpec")
    if _local_queue(given) and text_at(spec, "submissionMode") in ("", "K8sJobMode"):
        template = _at(spec, "submitterPodTemplate") or _SUBMITTER
        yield _PodSet("submitter", template, (f"{_name(given)}-submitter",))


def _training_job(given: Content) -> Iterator[_PodSet]:
    spec = _at(given, "spec")
    for key in sorted(spec):
        if key.endswith("ReplicaSpecs"):
            for role, one in sorted(_at(spec, key).items()):
                name, count = f"{_name(given)}-{role.lower()}", _whole(one, "replicas", 1)
                pods = _numbered(given, name, count)
                yield _PodSet(role.lower(), _at(one, "template"), pods)


def _replicas(given: Content) -> Iterator[_PodSet]:
    spec = _at(given, "spec")
    pods = _numbered(given, _name(given), _whole(spec, "replicas", 1))
    yield _PodSet("main", _at(spec, "template"), pods)


_PODS_OF: Mapping[tuple[str, str], Callable[[Content], Iterator[_PodSet]]] = {
    (api.BATCH, "Job"): _job,
    (_JOB_SET, "JobSet"): _job_set,
    (api.LEADER_WORKER_SET, "LeaderWorkerSet"): _leader_worker_set,
    (_RAY, "RayCluster"): _ray_cluster,
    (_RAY, "RayJob"): _ray_job,
    **{
        ("kubeflow.org", f"{name}Job"): _training_job
        for name in ("PyTorch", "TF", "MPI", "XGBoost", "JAX")
    },
    **{("apps", kind): _replicas for kind in ("Deployment", "ReplicaSet", "StatefulSet")},
}
"""Kinds that become pods, by API group and kind."""
_DEPLOYMENT = "apps", "Deployment"
_SINGLE = (_DEPLOYMENT, ("apps", "ReplicaSet"))
"""Those whose pods start one by one, whoever places them."""
_OF_PODS = (*_SINGLE, ("apps", "StatefulSet"), (api.LEADER_WORKER_SET, "LeaderWorkerSet"))
"""Those whose pods Kueue admits, and not themselves."""
_KAI_LEAST = {
    (api.BATCH, "Job"): "batch-min-member",
    ("apps", "StatefulSet"): "min-member",
    ("apps", "ReplicaSet"): "",
}
"""The kinds of which KAI Scheduler starts one pod alone, with the annotation that says more."""
_KAI_LEVELS = {
    "topology": "topology",
    "requiredTopologyLevel": "topology-required-placement",
    "preferredTopologyLevel": "topology-preferred-placement",
}
"""The annotations of owners that become the topology constraint of their groups of KAI."""
_KAI_DELAYS = {
    "preemptionDelay": "preemption-delay",
    "stalenessGracePeriod": "staleness-grace-period",
}


# Contents


def _marked(given: Content, metadata: Content) -> Content:
    """Return an object with further metadata, marked as submitted."""
    own = {**_at(given, "metadata"), **metadata}
    annotations = {**_at(own, "annotations"), api.SUBMITTED: "true"}
    return {**given, "metadata": {**own, "annotations": annotations}}


def _owned(owner: Content, name: str, content: Content, **metadata: Content) -> Content:
    """Return an object that another owns, beside it."""
    references = {"ownerReferences": [_reference(owner)]}
    return _marked(
        content, {"name": name, "namespace": _namespace(owner), **metadata, **references}
    )


def _reference(given: Content) -> Content:
    texts = {key: text_at(given, key) for key in ("apiVersion", "kind")}
    return {**texts, "name": _name(given), "controller": True}


def _class_of(sets: Iterable[_PodSet]) -> Content:
    names = (text_at(_at(each.template, "spec"), "priorityClassName") for each in sets)
    name = next((name for name in names if name), "")
    return {"priorityClassName": name} if name else {}


def _at(given: object, *keys: str) -> Content:
    """Return the mapping at the end of a path of keys; an empty one if there is none."""
    for key in keys:
        given = look_up(given, key)
    return given if is_mapping(given) else {}


def _kind(given: Content) -> tuple[str, str]:
    return api_group_of(given), text_at(given, "kind")


def _local_queue(given: Content) -> str:
    return text_at(_labels(given), api.QUEUE_LABEL)


def _labels(given: Content) -> Content:
    return _at(given, "metadata", "labels")


def _annotations(given: Content) -> Content:
    return _at(given, "metadata", "annotations")


def _name(given: Content) -> str:
    metadata = _at(given, "metadata")
    return text_at(metadata, "name") or text_at(metadata, "generateName").rstrip("-")


def _namespace(given: Content) -> str:
    return text_at(_at(given, "metadata"), "namespace") or "default"


def _whole(given: object, key: str, default: int) -> int:
    found = look_up(given, key)
    return found if type(found) is int and found >= 0 else default


def _bounded(given: Content, count: int) -> int:
    if count > MOST_PODS:
        message = f"expected at most {MOST_PODS} pods, got {count}"
        raise KubernetesObjectError([Fault(f"{text_at(given, 'kind')} {_name(given)}", message)])
    return count


def _numbered(given: Content, name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}-{number}" for number in range(_bounded(given, count)))
