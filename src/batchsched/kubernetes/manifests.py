"""What controllers make of manifests: the objects of a cluster to which these are submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

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
_GROUP_NAME = "scheduling.k8s.io/group-name"
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
    Kubeflow, Deployments, ReplicaSets and StatefulSets become pods, which wait; for Volcano and KAI
    Scheduler with their PodGroups, for Kueue with a Workload that it has not tried. All other
    objects stay as they are. O(objects + pods).

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
    kind = api_group_of(given), text_at(given, "kind")
    labels = _labels(given)
    local_queue = text_at(labels, api.QUEUE_LABEL)
    if kind == ("", "Pod"):
        yield from _pod(given)
    elif kind == (api.VOLCANO_JOBS, "Job"):
        yield given
        yield _volcano_group(given)
    elif kind in _PODS_OF:
        sets = list(_PODS_OF[kind](given))
        if local_queue and kind not in _OF_PODS:
            is_job = kind == (api.BATCH, "Job")
            spec = _mapping(given, "spec")
            given = {**given, "spec": {**spec, "suspend": True}} if is_job else given
            yield given
            yield _workload(given, local_queue, sets)
            return
        yield given
        yield from _owners(given, sets)
        yield from _pods(given, kind, sets, local_queue)
    else:
        yield given


def _owners(given: Content, sets: Iterable[_PodSet]) -> Iterator[Content]:
    seen: set[str] = set()
    for each in sets:
        owner = each.owner
        if owner is not None and _name(owner) not in seen:
            seen.add(_name(owner))
            yield _marked(owner, {"ownerReferences": [_reference(given)]})


def _pods(
    given: Content, kind: tuple[str, str], sets: Iterable[_PodSet], local_queue: str
) -> Iterator[Content]:
    """Yield the pods of a manifest, and the groups that their schedulers place them by."""
    gangs: dict[str, list[_PodSet]] = {}
    for each in sets:
        gangs.setdefault(each.gang, []).append(each)
    native = _mapping(_mapping(_mapping(given, "spec"), "scheduling"), "schedulingPolicy")
    for gang, members in gangs.items():
        name = f"{_name(given)}-{gang}" if gang else _name(given)
        scheduler = text_at(_mapping(members[0].template, "spec"), "schedulerName")
        count = sum(len(each.pods) for each in members)
        least = sum(len(each.pods) if each.least is None else each.least for each in members)
        notes: dict[str, object] = {}
        more: dict[str, object] = {}
        extra: dict[str, object] = {}
        if look_up(native, "gang") is not None:
            least = _whole(look_up(native, "gang"), "minCount", count)
            yield _group(
                given,
                f"{api.KUBERNETES}/v1beta1",
                name,
                {
                    "schedulingPolicy": {"gang": {"minCount": least}},
                    **_class_of(members),
                },
            )
            more = {"schedulingGroup": {"podGroupName": name}}
        elif scheduler == api.KAI_SCHEDULER and kind not in _SINGLE:
            queue = text_at(_labels(given), api.KAI_QUEUE) or text_at(
                _labels(members[0].template), api.KAI_QUEUE
            )
            own = text_at(_labels(given), "priorityClassName")
            annotated = text_at(_mapping(_mapping(given, "metadata"), "annotations"), _KAI_LEAST)
            if kind == (api.BATCH, "Job"):
                least = int(annotated) if annotated.isdecimal() else 1
            spec = {
                "minMember": least,
                "queue": queue,
                **({"priorityClassName": own} if own else _class_of(members)),
            }
            yield _group(given, f"{api.KAI}/v2alpha2", f"pg-{name}", spec)
            notes = {api.KAI_GROUP: f"pg-{name}"}
        elif text_at(_labels(given), "ray.io/scheduler-name") == "volcano":
            labels = _labels(given)
            spec = {
                "minMember": least,
                "queue": text_at(labels, "volcano.sh/queue-name") or "default",
            }
            own = text_at(labels, "ray.io/priority-class-name")
            spec |= {"priorityClassName": own} if own else {}
            yield _group(given, f"{api.VOLCANO}/v1beta1", f"ray-{name}-pg", spec)
            notes, more = {_GROUP_NAME: f"ray-{name}-pg"}, {"schedulerName": "volcano"}
        elif local_queue:
            extra = {api.QUEUE_LABEL: local_queue}
            if kind not in _SINGLE:
                extra[api.GROUP_LABEL], notes = name, {api.TOTAL_COUNT: str(count)}
        for each in members:
            for pod in each.pods:
                yield from _pod(
                    _of_template(given, each, pod, {**each.labels, **extra}, notes, more)
                )


def _of_template(
    given: Content, one: _PodSet, name: str, labels: Content, notes: Content, spec: Content
) -> Content:
    metadata = _mapping(one.template, "metadata")
    return _marked(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {**_mapping(one.template, "spec"), **spec},
        },
        {
            "name": name,
            "namespace": _namespace(given),
            "labels": {**_mapping(metadata, "labels"), **labels},
            "annotations": {**_mapping(metadata, "annotations"), **notes},
            "ownerReferences": [_reference(given if one.owner is None else one.owner)],
        },
    )


def _pod(given: Content) -> Iterator[Content]:
    """Yield a pod that waits; for Kueue, with its gate, and with its Workload if it is alone."""
    labels, spec = _labels(given), {**_SCHEDULER, **_mapping(given, "spec")}
    local_queue = text_at(labels, api.QUEUE_LABEL)
    if not local_queue:
        yield {**given, "spec": spec, "status": {"phase": "Pending"}}
        return
    gates = [*mappings_in(look_up(spec, "schedulingGates")), {"name": api.ADMISSION_GATE}]
    pod = {**given, "spec": {**spec, "schedulingGates": gates}, "status": {"phase": "Pending"}}
    yield pod
    if not look_up(labels, api.GROUP_LABEL):
        yield _workload(pod, local_queue, [_PodSet("main", given, (_name(pod),))])


def _of_pod_groups(made: Iterable[Content]) -> Iterator[Content]:
    """Yield the Workloads of groups of pods that are whole."""
    groups: dict[tuple[str, str], list[Content]] = {}
    for each in made:
        group = text_at(_labels(each), api.GROUP_LABEL)
        if group and text_at(each, "kind") == "Pod":
            groups.setdefault((_namespace(each), group), []).append(each)
    for (_, name), pods in groups.items():
        total = text_at(_mapping(_mapping(pods[0], "metadata"), "annotations"), api.TOTAL_COUNT)
        if total == str(len(pods)):
            sets = [_PodSet(_name(pod), pod, (_name(pod),)) for pod in pods]
            workload = _workload(pods[0], text_at(_labels(pods[0]), api.QUEUE_LABEL), sets)
            references = [{**_reference(pod), "controller": False} for pod in pods]
            yield _marked(workload, {"name": name, "ownerReferences": references})


def _workload(given: Content, local_queue: str, sets: Iterable[_PodSet]) -> Content:
    """Return the Workload of a job that Kueue has not tried yet."""
    known = list(sets)
    own = text_at(_labels(given), "kueue.x-k8s.io/priority-class")
    ref = {"kind": "WorkloadPriorityClass", "name": own}
    if not own:
        name = look_up(_class_of(known), "priorityClassName")
        ref = {"kind": "PriorityClass", "name": name} if isinstance(name, str) else {}
    kind = text_at(given, "kind").lower()
    annotations = _mapping(_mapping(given, "metadata"), "annotations")
    partial = text_at(annotations, "kueue.x-k8s.io/job-min-parallelism")
    least = {"minCount": int(partial)} if partial.isdecimal() else {}
    return _marked(
        {
            "apiVersion": f"{api.KUEUE}/v1beta2",
            "kind": "Workload",
            "spec": {
                "queueName": local_queue,
                "podSets": [
                    {"name": each.name, "count": len(each.pods), "template": each.template, **least}
                    for each in known
                ],
                **({"priorityClassRef": ref} if ref else {}),
            },
        },
        {
            "name": f"{kind}-{_name(given)}",
            "namespace": _namespace(given),
            "ownerReferences": [_reference(given)],
        },
    )


def _volcano_group(given: Content) -> Content:
    """Return the PodGroup of a Volcano Job, which action enqueue has not admitted yet."""
    spec = _mapping(given, "spec")
    least: dict[str, int] = {}
    for position, task in enumerate(mappings_in(look_up(spec, "tasks"))):
        replicas = _whole(task, "replicas", 1)
        name = text_at(task, "name") or f"default{position}"
        least[name] = _whole(task, "minAvailable", replicas)
    content: dict[str, object] = {
        "minMember": _whole(spec, "minAvailable", sum(least.values())),
        "minTaskMember": least,
        "queue": text_at(spec, "queue") or "default",
    }
    if text_at(spec, "priorityClassName"):
        content["priorityClassName"] = text_at(spec, "priorityClassName")
    return _group(given, f"{api.VOLCANO}/v1beta1", _name(given), content)


def _group(given: Content, version: str, name: str, spec: Content) -> Content:
    return _marked(
        {
            "apiVersion": version,
            "kind": "PodGroup",
            "spec": spec,
            "status": {"phase": "Pending"} if version.startswith(api.VOLCANO) else {},
        },
        {"name": name, "namespace": _namespace(given), "ownerReferences": [_reference(given)]},
    )


# The pods of each kind


def _job(given: Content) -> Iterator[_PodSet]:
    spec, name = _mapping(given, "spec"), _name(given)
    if look_up(spec, "suspend") is True and not text_at(_labels(given), api.QUEUE_LABEL):
        return
    count = _whole(spec, "parallelism", 1)
    count = min(count, _whole(spec, "completions", count))
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    pods = _numbered(given, name, count)
    yield _PodSet("main", _template(spec), pods, labels=labels)


def _job_set(given: Content) -> Iterator[_PodSet]:
    is_queued = bool(text_at(_labels(given), api.QUEUE_LABEL))
    for one in mappings_in(look_up(_mapping(given, "spec"), "replicatedJobs")):
        role, template = text_at(one, "name"), _mapping(one, "template")
        pods: list[str] = []
        count = _whole(one, "replicas", 1)
        _bounded(given, count * _whole(_mapping(template, "spec"), "parallelism", 1))
        for number in range(count):
            name = f"{_name(given)}-{role}-{number}"
            job = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    **_mapping(template, "metadata"),
                    "name": name,
                    "namespace": _namespace(given),
                },
                "spec": _mapping(template, "spec"),
            }
            for each in _job(job):
                labels = {**each.labels, "jobset.sigs.k8s.io/jobset-name": _name(given)}
                pods += each.pods
                if not is_queued:
                    yield _PodSet(role, each.template, each.pods, labels=labels, owner=job)
        if is_queued:
            yield _PodSet(role, _template(_mapping(template, "spec")), tuple(pods))


def _leader_worker_set(given: Content) -> Iterator[_PodSet]:
    spec = _mapping(given, "spec")
    below = _mapping(spec, "leaderWorkerTemplate")
    worker, size = _mapping(below, "workerTemplate"), max(1, _whole(below, "size", 1))
    leader = _mapping(below, "leaderTemplate") or worker
    name, prefix = _name(given), "leaderworkerset.sigs.k8s.io"
    own = _mapping(_mapping(given, "metadata"), "annotations")
    asked = {key: text for key, text in own.items() if key.endswith("exclusive-topology")}
    part = _whole(_mapping(below, "subGroupPolicy"), "subGroupSize", 0)
    asked |= {f"{prefix}/size": str(size), f"{prefix}/subgroup-size": str(part)}
    for number in range(_bounded(given, size * _whole(spec, "replicas", 1)) // size):
        pods = f"{name}-{number}", *(f"{name}-{number}-{i}" for i in range(1, size))
        for position, pod in enumerate(pods):
            template = worker if position else leader
            metadata = _mapping(template, "metadata")
            notes = {**_mapping(metadata, "annotations"), **asked}
            labels = {
                f"{prefix}/name": name,
                f"{prefix}/group-index": str(number),
                f"{prefix}/worker-index": str(position),
            }
            annotated = {**template, "metadata": {**metadata, "annotations": notes}}
            role = "worker" if position else "leader"
            yield _PodSet(role, annotated, (pod,), labels=labels, gang=str(number))


def _ray_cluster(given: Content, key: str = "") -> Iterator[_PodSet]:
    spec = _mapping(given, "spec")
    spec, name = (_mapping(spec, key) if key else spec), _name(given)
    labels = {"ray.io/cluster": name}
    head = _template(_mapping(spec, "headGroupSpec"))
    yield _PodSet("head", head, (f"{name}-head",), labels=labels)
    for group in mappings_in(look_up(spec, "workerGroupSpecs")):
        role = text_at(group, "groupName") or "worker"
        least = _whole(group, "minReplicas", 0)
        hosts = _whole(group, "numOfHosts", 1)
        count = hosts * _whole(group, "replicas", least)
        pods = _numbered(given, f"{name}-{role}", count)
        needed = min(count, hosts * least) if look_up(group, "minReplicas") is not None else None
        yield _PodSet(role, _template(group), pods, needed, {**labels, "ray.io/group": role})


def _ray_job(given: Content) -> Iterator[_PodSet]:
    return _ray_cluster(given, "rayClusterSpec")


def _training_job(given: Content) -> Iterator[_PodSet]:
    spec = _mapping(given, "spec")
    for key in sorted(spec):
        if key.endswith("ReplicaSpecs"):
            for role, one in sorted(_mapping(spec, key).items()):
                name, count = f"{_name(given)}-{role.lower()}", _whole(one, "replicas", 1)
                pods = _numbered(given, name, count)
                yield _PodSet(role.lower(), _template(one), pods)


def _replicas(given: Content) -> Iterator[_PodSet]:
    spec = _mapping(given, "spec")
    pods = _numbered(given, _name(given), _whole(spec, "replicas", 1))
    yield _PodSet("main", _template(spec), pods)


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
_SINGLE = (("apps", "Deployment"), ("apps", "ReplicaSet"))
"""Those whose pods start one by one, whoever places them."""
_OF_PODS = (*_SINGLE, ("apps", "StatefulSet"), (api.LEADER_WORKER_SET, "LeaderWorkerSet"))
"""Those whose pods Kueue admits, and not themselves."""
_KAI_LEAST = "kai.scheduler/batch-min-member"


# Contents


def _marked(given: Content, metadata: Content) -> Content:
    """Return an object with further metadata, marked as submitted."""
    own = {**_mapping(given, "metadata"), **metadata}
    annotations = {**_mapping(own, "annotations"), api.SUBMITTED: "true"}
    return {**given, "metadata": {**own, "annotations": annotations}}


def _reference(given: Content) -> Content:
    kept = {key: text_at(given, key) for key in ("apiVersion", "kind")}
    return {**kept, "name": _name(given), "controller": True}


def _class_of(sets: Iterable[_PodSet]) -> Content:
    names = (text_at(_mapping(each.template, "spec"), "priorityClassName") for each in sets)
    name = next((name for name in names if name), "")
    return {"priorityClassName": name} if name else {}


def _template(given: object) -> Content:
    return _mapping(given, "template")


def _mapping(given: object, key: str) -> Content:
    found = look_up(given, key)
    return found if is_mapping(found) else {}


def _labels(given: Content) -> Content:
    return _mapping(_mapping(given, "metadata"), "labels")


def _name(given: Content) -> str:
    metadata = _mapping(given, "metadata")
    return text_at(metadata, "name") or text_at(metadata, "generateName").rstrip("-")


def _namespace(given: Content) -> str:
    return text_at(_mapping(given, "metadata"), "namespace") or "default"


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
