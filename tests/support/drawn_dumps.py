"""Drawn dumps of clusters on which several systems schedule pods, as API servers give them.

Names come from few, so that most references lead somewhere, some nowhere, and some in a circle.
"""

from hypothesis import strategies as st

from tests.support import dumps

NAMESPACES = ("team", "team", "team", "lab")
GROUPS = ("g0", "g0", "g1", "g1", "g2", "gone")
NODES = ("n0", "n1", "n2", "n0", "n1", "n2", "lost")
CLASSES = ("low", "high", "train", "inference", "system-node-critical", "unheard-of")
GATES = (
    *("example.com/license", "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"),
    "kueue.x-k8s.io/elastic-job",
)
SLICE = "kueue.x-k8s.io/workload-slice-replacement-for"
SYSTEMS = ("kubernetes", "volcano", "kube-batch", "kai", "kueue", "coscheduling", "yunikorn")
SCHEDULERS = {
    "volcano": "volcano",
    "kube-batch": "kube-batch",
    "kai": "kai-scheduler",
    "yunikorn": "yunikorn",
}


class _Drawing:
    """Short names for what is drawn most."""

    def __init__(self, draw):
        self._draw = draw

    def one(self, values):
        return self._draw(st.sampled_from(values))

    def number(self, least, most):
        return self._draw(st.integers(least, most))

    def maybe(self, of=4):
        """Return True once in a while."""
        return self._draw(st.integers(1, of)) == of  # False is the simple example

    def mostly(self):
        """Return False once in a while."""
        return not self.maybe(5)

    def condition(self, kind):
        status = self.one(["True", "False", "False", "Unknown"])
        time = self.one([dumps.EARLIER, dumps.NOW])
        return dumps.condition(kind, status, f"{kind}Reason", f"{kind} is {status}", time)


@st.composite
def drawn_dumps(draw, systems=SYSTEMS, *, gates=True, most_pods=10):
    """Draw the objects of a cluster with some of the systems.

    Args:
        draw: given by Hypothesis.
        systems: the systems from which some are drawn.
        gates: whether pods may have scheduling gates.
        most_pods: how many pods there are at most.

    """
    drawing = _Drawing(draw)
    used = sorted({drawing.one(systems) for _ in range(drawing.number(1, 3))})
    objects = [_node(drawing, name) for name in NODES[: 3 - drawing.one([0, 0, 1, 2, 3])]]
    for name in CLASSES[:2]:
        if drawing.maybe(2):
            value = {"value": drawing.number(-5, 900), "globalDefault": drawing.maybe(6)}
            objects.append(
                dumps.thing("scheduling.k8s.io/v1", "PriorityClass", name, namespace="", **value)
            )
    owners = list(_owners(drawing))
    objects += owners
    for system in used:
        objects += _OF_SYSTEMS[system](drawing, owners)
    for number in range(drawing.number(0, most_pods)):
        objects.append(_pod(drawing, f"p{number}", used, owners, gates=gates))
    found = {}
    for given in objects:  # one of each name
        metadata = given["metadata"]
        key = given["apiVersion"], given["kind"], metadata.get("namespace"), metadata["name"]
        found.setdefault(key, given)
    return list(found.values())


def _node(drawing, name):
    labels = {"kai.scheduler/node-pool": name} if drawing.maybe(6) else {}
    if drawing.maybe():
        labels["nvidia.com/gpu.memory"] = drawing.one(["40000", "80000", "?"])
    node = dumps.node(
        name,
        drawing.one(["8", "4", "2", "0"]),
        drawing.one([4, 2, 1, 0]),
        labels=labels,
        ready=drawing.one(["True", "True", "True", "Unknown"]),
    )
    if drawing.maybe(6):
        node["spec"]["unschedulable"] = True
    return node


def _owners(drawing):
    """Yield Jobs and what makes Jobs, some suspended, some owned by one another."""
    for name in ("j0", "j1"):
        if drawing.maybe(2):
            job = dumps.thing(
                *drawing.one([("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet")]),
                name,
                namespace=drawing.one(NAMESPACES),
                spec={"suspend": drawing.maybe(3), "parallelism": drawing.number(0, 3)},
            )
            if drawing.maybe(3):
                job["metadata"]["ownerReferences"] = [_reference(drawing)]
            yield job


def _reference(drawing):
    kind, version = drawing.one(
        [("Job", "batch/v1"), ("JobSet", "jobset.x-k8s.io/v1alpha2"), ("Pod", "v1")]
    )
    name = drawing.one(["j0", "j1", "p0"])
    uid = f"uid-{kind.lower()}-{drawing.one(NAMESPACES)}-{name}"
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": drawing.one([uid, uid, ""]),
        "controller": drawing.maybe(2),
    }


def _in_place(drawing, given, owners):
    """Give an object a namespace, and perhaps an owner."""
    metadata = given["metadata"]
    metadata["namespace"] = namespace = drawing.one(NAMESPACES)
    metadata["uid"] = f"uid-{given['kind'].lower()}-{namespace}-{metadata['name']}"
    if drawing.maybe(2):
        if owners and drawing.maybe(2):
            owner = drawing.one(owners)
            metadata["namespace"] = owner["metadata"]["namespace"]
            metadata["uid"] = f"uid-{given['kind'].lower()}-{owner['metadata']['uid']}"
            metadata["uid"] += metadata["name"]
            metadata["ownerReferences"] = [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        else:
            metadata["ownerReferences"] = [_reference(drawing)]
    return given


def _class(drawing):
    return {"priorityClassName": drawing.one(CLASSES)} if drawing.maybe(2) else {}


# Kubernetes' own groups


def _of_kubernetes(drawing, owners):
    tops = ("c0", "c1", "gone")
    for name in tops[:2]:
        if drawing.maybe(3):
            above = drawing.one(tops) if drawing.maybe(3) else None
            given = dumps.composite(name, drawing.one([None, 1, 2, 3]), parent=above)
            yield _in_place(drawing, given, owners)
    for name in ("g0", "g1", "g2"):
        if drawing.mostly():
            above = drawing.one(tops) if drawing.maybe(3) else None
            more = _class(drawing)
            if drawing.maybe():
                more["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
            given = dumps.native_group(name, drawing.one([None, 1, 2, 3]), parent=above, **more)
            yield _in_place(drawing, given, owners)
    if drawing.maybe():
        policy = drawing.one([{"basic": {}}, {"gang": {"minCount": 2}}])
        spec = {"podGroups": [{"name": "workers", "policy": policy}]}
        given = dumps.thing("scheduling.k8s.io/v1alpha1", "Workload", "w0", spec=spec)
        yield _in_place(drawing, given, owners)


# Volcano and kube-batch

_QUEUES = ("default", "q0", "q1")


def _of_volcano(drawing, owners):
    for name in _QUEUES:
        if drawing.mostly():
            spec = {"weight": drawing.number(1, 3), "reclaimable": not drawing.maybe()}
            if drawing.maybe(3):
                spec["parent"] = drawing.one(["root", *_QUEUES])
            if drawing.maybe(3):
                amounts = {"cpu": str(drawing.number(0, 4)), "nvidia.com/gpu": "2"}
                spec["capability"] = amounts
            if drawing.maybe():
                spec["guarantee"] = {"resource": {"cpu": "1"}}
            state = drawing.one(
                ["Open", "Open", "Open", "Open", "Closed", "Closing", "Unknown", ""]
            )
            yield dumps.volcano_queue(name, state, **spec)
    jobs = []
    for name in ("v0", "v1"):
        if drawing.maybe(3):
            job = dumps.volcano_job(name, drawing.number(0, 3))
            jobs.append(_in_place(drawing, job, owners))
    yield from jobs
    for name in ("g0", "g1", "g2"):
        if drawing.mostly():
            phase = drawing.one(["Inqueue", "Pending", "Running", "Unknown", "Completed", ""])
            more = _class(drawing)
            if drawing.maybe(3):
                more["minTaskMember"] = {"worker": drawing.number(0, 3)}
            given = dumps.volcano_group(
                name,
                drawing.number(0, 3),
                phase,
                queue=drawing.one([*_QUEUES, *_QUEUES, "nowhere"]),
                **more,
            )
            yield _in_place(drawing, given, owners + jobs)


def _of_kube_batch(drawing, owners):
    for given in _of_volcano(drawing, owners):
        if given["kind"] != "Job":
            yield given | {"apiVersion": "scheduling.incubator.k8s.io/v1alpha1"}


# KAI Scheduler

_KAI_QUEUES = ("default-parent-queue", "default-queue", "default")


def _of_kai(drawing, owners):
    for name in _KAI_QUEUES:
        if drawing.mostly():
            above = drawing.one(_KAI_QUEUES) if drawing.maybe(2) else None
            yield dumps.kai_queue(name, above, drawing.number(-1, 3), drawing.number(-1, 3))
    for name in ("g0", "g1", "g2"):
        if drawing.mostly():
            more = {"priorityClassName": drawing.one(CLASSES)}
            least = drawing.one([None, 0, 1, 2])
            if drawing.maybe(3):
                more["subGroups"] = [
                    {"name": role, "parent": drawing.one(["all", "gone", "worker"])}
                    if drawing.maybe(3)
                    else {"name": role}
                    | ({"minMember": drawing.number(0, 2)} if drawing.maybe(2) else {})
                    for role in ("all", "worker")
                ]
                if drawing.maybe(2):
                    more["minSubGroup"] = drawing.number(1, 2)
                    least = None
            if drawing.maybe():
                more["preemptibility"] = drawing.one(["preemptible", "non-preemptible"])
            queue = drawing.one([*_KAI_QUEUES[1:], *_KAI_QUEUES, "nowhere", ""])
            given = dumps.kai_group(name, least, queue=queue, **more)
            given["spec"]["topologyConstraint"] = {}
            yield _in_place(drawing, given, owners)
    if drawing.maybe():
        spec = {"podName": "p0", "selectedNode": drawing.one(NODES)}
        request = dumps.thing("scheduling.run.ai/v1alpha2", "BindRequest", "b", spec=spec)
        yield _in_place(drawing, request, ())


# Kueue

_LOCAL = ("user-queue", "default", "nowhere")
_CHECKS = ("prov", "dws")


def _of_kueue(drawing, owners):
    cluster = ("research", "default")
    for name in cluster:
        if drawing.mostly():
            stop = drawing.one(["None", "None", "None", "Hold", "HoldAndDrain"])
            queue = dumps.cluster_queue(name, str(drawing.number(0, 6)), stop)
            if drawing.maybe(3):
                queue["spec"]["cohortName"] = "all"
                if drawing.maybe(3):
                    (group,) = queue["spec"]["resourceGroups"]
                    group["flavors"][0]["resources"][0]["lendingLimit"] = "0"
            yield queue
    if drawing.maybe(3):
        spec = {"parentName": drawing.one(["top", "all"])} if drawing.maybe(2) else {}
        yield dumps.thing("kueue.x-k8s.io/v1beta2", "Cohort", "all", namespace="", spec=spec)
    for name in _LOCAL[:2]:
        if drawing.mostly():
            stop = drawing.one(["None", "None", "None", "Hold"])
            yield _in_place(
                drawing, dumps.local_queue(name, drawing.one([*cluster, "gone"]), stop), ()
            )
    for name in ("g0", "g1", "w1"):
        if drawing.mostly():
            given = dumps.workload(name, None, drawing.number(0, 3), queue=drawing.one(_LOCAL))
            kinds = ("QuotaReserved", "Admitted", "Finished", "Evicted", "Requeued")
            told = [drawing.condition(kind) for kind in kinds if drawing.maybe(3)]
            given["status"]["conditions"] = told
            if drawing.maybe(3):
                given["status"]["admission"] = {"clusterQueue": drawing.one(cluster)}
            if drawing.maybe(2):
                states = ["Pending", "Ready", "Retry", "Rejected"]
                given["status"]["admissionChecks"] = [
                    {"name": check, "state": drawing.one(states), "message": f"{check} says no"}
                    for check in _CHECKS
                ]
            if drawing.maybe():
                given["spec"]["active"] = False
            if drawing.maybe():
                old = f"{drawing.one(NAMESPACES)}/{drawing.one(['g0', 'g1', 'w1'])}"
                given["metadata"]["annotations"][SLICE] = old
            if drawing.maybe():
                given["status"]["requeueState"] = {"requeueAt": "2026-11-20T10:05:00Z"}
            yield _in_place(drawing, given, owners)


# Others


def _of_coscheduling(drawing, owners):
    for name in ("g0", "g1", "g2"):
        if drawing.mostly():
            given = dumps.thing(
                "scheduling.x-k8s.io/v1alpha1",
                "PodGroup",
                name,
                spec={"minMember": drawing.number(0, 3), "scheduleTimeoutSeconds": 10},
                status={"phase": drawing.one(["Pending", "Scheduling", "Running", "Finished"])},
            )
            yield _in_place(drawing, given, owners)


def _of_yunikorn(_drawing, _owners):
    return ()


_OF_SYSTEMS = {
    "kubernetes": _of_kubernetes,
    "volcano": _of_volcano,
    "kube-batch": _of_kube_batch,
    "kai": _of_kai,
    "kueue": _of_kueue,
    "coscheduling": _of_coscheduling,
    "yunikorn": _of_yunikorn,
}


# Pods


def _pod(drawing, name, systems, owners, *, gates):
    system = drawing.one([*systems, *systems, "single"])
    notes, labels, spec = {}, {}, _class(drawing)
    asked = {system, drawing.one(systems)} if drawing.maybe(4) else {system}
    for one in sorted(asked):
        _name_group(drawing, one, notes, labels, spec)
    place = drawing.one(["waits", "waits", "waits", "runs", "runs", "bound", "ended", "nominated"])
    on = drawing.one(NODES) if place in ("runs", "bound") else None
    phase = {"bound": "Pending", "ended": drawing.one(["Succeeded", "Failed"])}.get(place)
    held = gates and place == "waits" and drawing.maybe(4)
    given = dumps.pod(
        name,
        str(drawing.number(0, 3)),
        drawing.one([0, 0, 1]),
        scheduler=SCHEDULERS.get(
            system, drawing.one(["default-scheduler", "default-scheduler", "other"])
        ),
        on=on,
        phase=phase,
        priority=drawing.number(0, 3),
        gates=sorted({drawing.one(GATES) for _ in range(2)}) if held else (),
        notes=notes,
        labels=labels,
        **spec,
    )
    if place == "nominated":
        given["status"]["nominatedNodeName"] = drawing.one(NODES)
    if drawing.maybe(8):
        given["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:30Z"
    return _in_place(drawing, given, owners)


def _name_group(drawing, system, notes, labels, spec):
    """Let a pod name a group of a system, or its queue."""
    group = drawing.one(GROUPS)
    if system == "kubernetes":
        if drawing.maybe(4):
            ref = {"name": drawing.one(["w0", "gone"]), "podGroup": "workers"}
            spec["workloadRef"] = ref | ({"podGroupReplicaKey": "0"} if drawing.maybe(2) else {})
        else:
            spec["schedulingGroup"] = {"podGroupName": group}
    elif system in ("volcano", "kube-batch"):
        if not drawing.maybe(6):
            notes["scheduling.k8s.io/group-name"] = group
        notes["volcano.sh/task-spec"] = drawing.one(["worker", "ps"])
        labels["volcano.sh/job-name"] = drawing.one(["v0", "v1"])
    elif system == "kai":
        if not drawing.maybe(6):
            notes["pod-group-name"] = group
        labels["kai.scheduler/queue"] = drawing.one(_KAI_QUEUES)
        labels["kai.scheduler/subgroup-name"] = drawing.one(["worker", "all", "other"])
        if drawing.maybe(3):
            notes["gpu-fraction"] = drawing.one(["0.5", "0.25", "1"])
            labels["runai-gpu-group"] = "shared"
        if drawing.maybe(8):
            labels["app"] = "kai-resource-reservation"
    elif system == "kueue":
        labels["kueue.x-k8s.io/queue-name"] = drawing.one(_LOCAL)
        if drawing.maybe(3):
            labels["kueue.x-k8s.io/pod-group-name"] = group
            notes["kueue.x-k8s.io/pod-group-total-count"] = str(drawing.number(0, 3))
        if drawing.maybe():
            notes["kueue.x-k8s.io/workload"] = group
    elif system == "coscheduling":
        label = drawing.one(["scheduling.x-k8s.io", "pod-group.scheduling.sigs.k8s.io"])
        labels[f"{label}/pod-group" if label == "scheduling.x-k8s.io" else label] = group
    elif system == "yunikorn":
        labels["applicationId"] = group
        notes["yunikorn.apache.org/task-group-name"] = "worker"
