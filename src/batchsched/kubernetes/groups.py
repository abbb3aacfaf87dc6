"""Reads what makes pods one job, but Kueue: the groups of each system, Jobs, LeaderWorkerSets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.annotations import duration_at, last_eviction
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.job_drafts import JobDraft, Template
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Reader,
    annotation,
    look_up,
    whole_number,
)
from batchsched.kubernetes.pods import Pod, PriorityClasses, requiring
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Hold, NodeInfo, Preemptible, TaskGroup, TaskStatus
from batchsched.model.constraints import Operator, Requirement
from batchsched.model.notice import NoticeCode
from batchsched.model.topology import TopologyRequest

KAI_DEFAULT_QUEUE = "default-queue"
KAI_DEFAULT_PRIORITY = 50
_OF_TOP = "KAI Scheduler starts nothing in a queue that has no parent"
_NON_PREEMPTIBLE = 100
"""The least priority of groups that are not preemptible if they do not say what they are."""
ENQUEUE = "enqueue"
"""Volcano's action that lets groups in."""
_NOT_LET_IN = "the phase of its PodGroup is Pending: action enqueue has not admitted it"
_ENDED_JOBS = ("Completing", "Completed", "Terminating", "Terminated", "Failed")
"""The phases of Volcano's Jobs that have ended, or do not start anything more."""
_ABORTED = ("Aborting", "Aborted")
"""The phases of Volcano's Jobs that wait until somebody resumes them."""


def _line(name: str, parents: Mapping[str, str]) -> list[str]:
    """Return a group and those above it, to the top, one that is missing, or one that comes again.

    Args:
        name: the group.
        parents: the parent of each group that is there; empty: it has none.

    """
    line = [name]
    while parents.get(line[-1]) and line[-1] not in line[:-1]:
        line.append(parents[line[-1]])
    return line


def _in_cycle(name: str) -> Hold:
    return Hold(HoldKind.GROUP_MISSING, name, f"the groups above {name} form a cycle")


def phase_of(given: KubernetesObject) -> str:
    """Return the phase in the status of a group."""
    return given.status.text("phase")


# Kubernetes: PodGroups, trees of them, and Workloads of 1.35

_PARENT = "parentCompositePodGroupName"


class NativeGroups:
    """The jobs of Kubernetes' own groups."""

    def __init__(self, objects: DumpObjects, priorities: PriorityClasses) -> None:
        """Read PodGroups and CompositePodGroups. O(groups x depth)."""
        self.drafts: list[JobDraft] = []
        self._priorities = priorities
        self._of_group: dict[str, tuple[JobDraft | str, str | None]] = {}
        """The job of every PodGroup, by namespace/name, and its role in the job."""
        self._workloads = {w.full_name: w for w in objects.of(api.KUBERNETES, "Workload")}
        self._of_workloads: dict[tuple[str, str, str, str], JobDraft] = {}
        composites = {g.full_name: g for g in objects.of(api.KUBERNETES, "CompositePodGroup")}
        groups = objects.of(api.KUBERNETES, "PodGroup")
        tops = _tops(composites)
        trees: dict[str, JobDraft] = {}
        taken = {(tops.get(_above(given)), given.name) for given in groups}
        role_of: dict[str, str] = {}
        for name, given in composites.items():
            top = tops[name]
            if top == name:
                trees[name] = self._new(given)
                trees[name].min_groups = _least(given)
            elif isinstance(top, str):
                role = given.name
                while (top, role) in taken:
                    role = f"{given.kind}/{role}"
                taken.add((top, role))
                role_of[name] = role
        for given in (*composites.values(), *groups):
            name, above, is_leaf = given.full_name, _above(given), given.kind == "PodGroup"
            top = tops.get(above, Hold(HoldKind.GROUP_MISSING, above.partition("/")[2]))
            if name in trees and not is_leaf:
                continue
            if isinstance(top, str):
                draft, role = trees[top], given.name if is_leaf else role_of[name]
                group = TaskGroup(
                    role, parent=role_of.get(above), min=_least(given), topology=_topology(given)
                )
                draft.groups = (*draft.groups, group)
                draft.objects.append(given)
                draft.evict_whole = draft.evict_whole or _is_one_unit(given)
                self._of_group[name] = draft, role
            elif is_leaf:
                draft = self._new(given)
                draft.min_available = _least(given)
                if above:
                    draft.is_missing = True
                    draft.holds.append(top)
                self._of_group[name] = draft, None

    def _new(self, given: KubernetesObject) -> JobDraft:
        draft, spec = JobDraft.of(given), given.spec
        if spec.get("priority") is not None:
            draft.priority = spec.integer("priority")
        else:
            draft.priority = self._priorities.of(given, spec.text("priorityClassName"), 0)
        draft.topology = _topology(given)
        draft.evict_whole = _is_one_unit(given)
        self.drafts.append(draft)
        return draft

    def of_pod(self, pod: Pod) -> tuple[JobDraft | str, str | None] | None:
        """Return the job of a pod or its missing name, and its role; None: it names no group."""
        spec = pod.object.spec
        if spec.get("schedulingGroup") is not None:
            name = spec.child("schedulingGroup").text("podGroupName")
            if name:
                return self._of_group.get(f"{pod.task.namespace}/{name}", (name, None))
        if spec.get("workloadRef") is not None:
            ref = spec.child("workloadRef")
            return (self._of_workload(pod, ref), None) if ref.text("name") else None
        return None

    def _of_workload(self, pod: Pod, ref: Reader) -> JobDraft:
        workload, group = ref.text("name"), ref.text("podGroup")
        key = pod.task.namespace, workload, group, ref.text("podGroupReplicaKey")
        draft = self._of_workloads.get(key)
        if draft is None:
            given = self._workloads.get(f"{pod.task.namespace}/{workload}")
            name = "-".join(part for part in key[1:] if part)
            draft = JobDraft("kubernetes", "Workload", api.KUBERNETES, pod.task.namespace, name)
            draft.aliases.append(workload)
            groups = () if given is None else list(given.spec.children("podGroups"))
            if given is not None:
                draft.objects.append(given)
            found = next((one for one in groups if one.text("name") == group), None)
            if found is None:
                draft.is_missing, draft.min_available = True, None
                missing = workload if given is None else f"{workload}/{group}"
                draft.holds.append(Hold(HoldKind.GROUP_MISSING, missing))
            else:
                draft.min_available = _least_of(found.child("policy"), "minCount")
            self._of_workloads[key] = draft
            self.drafts.append(draft)
        return draft


def _above(given: KubernetesObject) -> str:
    """Return the namespace and name of the group above one; empty: there is none."""
    parent = given.spec.text(_PARENT)
    return parent and f"{given.namespace}/{parent}"


def _tops(composites: Mapping[str, KubernetesObject]) -> dict[str, str | Hold]:
    """Return the group at the top of each, or what keeps it from having one."""
    parents = {name: _above(given) for name, given in composites.items()}
    tops: dict[str, str | Hold] = {}
    for name in composites:
        *line, top = _line(name, parents)
        if top in line:
            tops[name] = _in_cycle(min(line[line.index(top) :]).partition("/")[2])
        else:
            missing = Hold(HoldKind.GROUP_MISSING, top.partition("/")[2])
            tops[name] = top if top in parents else missing
    return tops


def _least(given: KubernetesObject) -> int:
    key = "minCount" if given.kind == "PodGroup" else "minGroupCount"
    return _least_of(given.spec.child("schedulingPolicy"), key)


def _least_of(policy: Reader, key: str) -> int:
    """Return the minimum of a policy: that of a gang, or 1 for a basic one."""
    gang = policy.optional_child("gang")
    return 1 if gang is None else gang.integer(key, default=1, least=0)


def _is_one_unit(given: KubernetesObject) -> bool:
    """Return whether the pods of a group are evicted together or not at all."""
    mode = given.spec.get("disruptionMode")  # in 1.36 a name, in 1.37 a mapping
    return mode in ("all", "PodGroup") or look_up(mode, "all") is not None


def _topology(given: KubernetesObject) -> TopologyRequest | None:
    """Return the level of which one domain must hold a group: the values of a node label."""
    constraints = given.spec.child("schedulingConstraints")
    # The latter names are those of an alpha of 1.36.
    each_constraint = (
        *constraints.children("topology"),
        *constraints.children("topologyConstraints"),
    )
    keys = [each.text("key") or each.text("topologyKey") for each in each_constraint]
    for key in keys[1:]:
        why = f"the group may be spread over values of {key}"
        given.ignore("spec.schedulingConstraints.topology", why)
    return TopologyRequest(required=keys[0]) if keys and keys[0] else None


# Volcano, kube-batch, KAI Scheduler, and the plugin coscheduling


class BatchGroups:
    """The jobs of the groups of batch schedulers."""

    def __init__(
        self, objects: DumpObjects, priorities: PriorityClasses, of_kai: PriorityClasses
    ) -> None:
        """Read the groups. O(groups)."""
        self._drafts: dict[tuple[str, str], JobDraft] = {}
        """By system (kube-batch's groups stand with Volcano's), and namespace/name."""
        for api_group in (api.VOLCANO, api.KUBE_BATCH, api.KAI, *api.COSCHEDULING):
            system = "volcano" if api_group == api.KUBE_BATCH else api.SYSTEM_OF[api_group]
            for given in objects.of(api_group, "PodGroup"):
                key = system, given.full_name
                if key in self._drafts:
                    continue
                if system == "volcano":
                    self._drafts[key] = _volcano_draft(given, priorities)
                elif system == "kai":
                    self._drafts[key] = _kai_draft(given, of_kai)
                else:
                    self._drafts[key] = draft = JobDraft.of(given)
                    draft.min_available = given.spec.integer("minMember", default=0, least=0)

    def drafts(self) -> Iterable[JobDraft]:
        """Return the jobs of all groups."""
        return self._drafts.values()

    def of_pod(self, pod: Pod) -> tuple[str, JobDraft | str] | None:
        """Return the system of the group that a pod names, and its job or its missing name."""
        annotations, namespace = pod.object.annotations, pod.task.namespace
        name = annotations.get(api.KAI_GROUP)
        if name:
            draft = self._drafts.get(("kai", f"{namespace}/{name}"))
            other = self._drafts.get(("volcano", f"{namespace}/{name}"))
            if draft is None and other is not None and other.system == "kube-batch":
                return other.system, other  # as of a group without an API group
            return "kai", draft or name
        name = annotations.get(_group_key(pod))
        if name:
            draft = self._drafts.get(("volcano", f"{namespace}/{name}"))
            system = "kube-batch" if pod.scheduler_name == "kube-batch" else "volcano"
            return (system, name) if draft is None else (draft.system, draft)
        return None

    def of_labelled(self, pod: Pod) -> JobDraft | str | None:
        """Return the job of the group of coscheduling that a pod names, or its missing name."""
        key = coscheduling_key(pod)
        if key is None:
            return None
        name = pod.task.labels[key]
        return self._drafts.get(("coscheduling", f"{pod.task.namespace}/{name}"), name)


def _group_key(pod: Pod) -> str:
    """Return the annotation by which a pod names its group of Volcano or kube-batch, or ""."""
    return next((key for key in api.GROUP_NAMES if pod.object.annotations.get(key)), "")


def group_field(pod: Pod) -> str:
    """Return the path of what names the group of a pod."""
    key = api.KAI_GROUP if pod.object.annotations.get(api.KAI_GROUP) else _group_key(pod)
    if key:
        return annotation(key)
    for name in ("schedulingGroup", "workloadRef"):
        if pod.object.spec.get(name) is not None:
            return f"spec.{name}"
    return f"metadata.labels[{coscheduling_key(pod)!r}]"


def coscheduling_key(pod: Pod) -> str | None:
    """Return the label by which a pod names its group of coscheduling."""
    return next((key for key in api.COSCHEDULING_NAMES if pod.task.labels.get(key)), None)


def _volcano_draft(given: KubernetesObject, priorities: PriorityClasses) -> JobDraft:
    spec, is_volcanos = given.spec, given.api_group == api.VOLCANO
    note_unsupported(given)
    least = spec.integer("minMember", default=0, least=0)  # the API omits a 0
    draft = JobDraft.of(given)
    draft.min_available = least
    if is_volcanos:
        roles = _roles(spec)
        # Its Job controller writes the replicas of a task that names no minimum as the minimum of
        # the role, and the scheduler ignores the minima of all roles that are more than minMember.
        _take_groups(draft, roles if sum(role.min or 0 for role in roles) <= least else [])
    else:
        _take_groups(draft, [*_roles(spec), *_subgroups(spec, least_of_leaf=0)])
    draft.priority = priorities.of(given, spec.text("priorityClassName"), 0)
    draft.queue = spec.text("queue")
    if is_volcanos and given.reading.theirs and phase_of(given) == "Pending":
        draft.holds.append(Hold(HoldKind.NOT_ADMITTED, ENQUEUE, _NOT_LET_IN))
    job_name = given.labels.get(api.VOLCANO_JOB_NAME)
    if job_name:
        draft.aliases.append(job_name)
    return draft


_KAI_PREEMPTIBILITY = {
    "non-preemptible": Preemptible.NEVER,
    "semi-preemptible": Preemptible.SURPLUS,
}


def _kai_draft(given: KubernetesObject, priorities: PriorityClasses) -> JobDraft:
    spec, draft = given.spec, JobDraft.of(given)
    note_unsupported(given, "PodGroup (KAI Scheduler)")
    _take_groups(draft, [*_roles(spec), *_subgroups(spec, least_of_leaf=1)])
    draft.min_available = spec.integer("minMember", default=0 if draft.groups else 1, least=0)
    priority = priorities.of(given, spec.text("priorityClassName"), KAI_DEFAULT_PRIORITY)
    preemptibility = spec.text("preemptibility")
    usual = Preemptible.ALWAYS if priority < _NON_PREEMPTIBLE else Preemptible.NEVER
    draft.priority, draft.preemptible = priority, usual
    if preemptibility:
        draft.preemptible = _KAI_PREEMPTIBILITY.get(preemptibility, Preemptible.ALWAYS)
    draft.queue = spec.text("queue") or given.labels.get(api.KAI_QUEUE, "")
    draft.claim_delay = duration_at(given, "preemptionDelay")
    draft.last_evicted = last_eviction(given)
    return draft


def _roles(spec: Reader) -> list[TaskGroup]:
    """Return Volcano's roles."""
    roles = spec.integer_map("minTaskMember")
    return [TaskGroup(name, min=least) for name, least in roles.items()]


def _subgroups(spec: Reader, *, least_of_leaf: int) -> Iterator[TaskGroup]:
    """Yield KAI Scheduler's subgroups.

    `least_of_leaf` is the minimum of a leaf that does not name one.
    """
    subgroups = list(spec.children("subGroups"))
    parents = {subgroup.text("parent") for subgroup in subgroups}
    for subgroup in subgroups:
        name = subgroup.text("name", required=True)
        if name in parents:
            least = _least_groups(subgroup)
        else:
            least = subgroup.integer("minMember", default=least_of_leaf, least=0)
        yield TaskGroup(name, parent=subgroup.text("parent") or None, min=least)


def _least_groups(given: Reader) -> int | None:
    return None if given.get("minSubGroup") is None else given.integer("minSubGroup", least=0)


def _take_groups(draft: JobDraft, groups: Sequence[TaskGroup]) -> None:
    """Give a job its groups; if they are no tree, it has them side by side, and is held."""
    parents = {group.name: group.parent or "" for group in groups}
    draft.groups = tuple(groups)
    if groups:
        draft.min_groups = _least_groups(draft.objects[0].spec)
    for name in sorted(parents):
        *line, top = _line(name, parents)
        if top in line or top not in parents:
            draft.groups = tuple(TaskGroup(each.name, min=each.min or 0) for each in groups)
            missing = Hold(HoldKind.GROUP_MISSING, top)
            draft.holds.append(_in_cycle(name) if top in line else missing)
            return


# Volcano's Jobs


def _volcano_jobs(draft: JobDraft, objects: DumpObjects) -> Iterator[KubernetesObject]:
    """Yield the Volcano Jobs that own a group."""
    for owner in objects.owner_objects(draft.objects[0]):
        if owner.api_group == api.VOLCANO_JOBS:
            yield owner


def volcano_templates(draft: JobDraft, objects: DumpObjects) -> list[Template]:
    """Return the templates of the Volcano Job that owns a group; it becomes an object of its."""
    for owner in _volcano_jobs(draft, objects):
        draft.objects.append(owner)
        return _templates_of(owner)
    return []


def missing_pods(draft: JobDraft, objects: DumpObjects) -> Iterator[Template]:
    """Yield the templates by which the Job that owns a group has still to make pods."""
    for owner in objects.owner_objects(draft.objects[0]) if draft.objects else ():
        there = Counter(pod.role for pod in draft.pods)
        templates = _templates_of(owner) if owner.api_group == api.VOLCANO_JOBS else []
        if (owner.api_group, owner.kind) == (api.BATCH, "Job"):
            templates = [Template("main", most_pods(owner), owner.spec, owner)]
            there = Counter({"main": len(draft.pods)})
        yield from (each for each in templates if there[each.set_name] < each.count)


def note_dependents(draft: JobDraft, objects: DumpObjects) -> None:
    """Note the tasks of a Volcano Job whose pods are made only once others are there."""
    there = {pod.role for pod in draft.pods}
    for owner in _volcano_jobs(draft, objects):
        count, names = 0, list[str]()
        for task in owner.spec.children("tasks"):
            if task.get("dependsOn") is not None and task.text("name") not in there:
                count += max(0, task.integer("replicas", default=1))
                names += task.child("dependsOn").texts("name")
        if count:
            verb = "tasks do not exist yet: they depend"
            if count == 1:
                verb = "task does not exist yet: it depends"
            on = ", ".join(dict.fromkeys(names))
            message = f"{count} {verb} on {on}, other tasks of the job"
            owner.note(NoticeCode.FIELD_IGNORED, "spec.tasks.dependsOn", message)


def _templates_of(job: KubernetesObject) -> list[Template]:
    found: list[Template] = []
    for position, task in enumerate(job.spec.children("tasks")):
        name = task.text("name") or f"default{position}"
        labels = {api.VOLCANO_JOB_NAME: job.name, api.TASK_SPEC: name}
        size = task.child("partitionPolicy").integer("partitionSize", default=0)
        count = task.integer("replicas", default=1)
        found.append(Template(name, count, task, job, labels=labels, part_size=max(0, size)))
    return found


def volcano_job_alone(job: KubernetesObject, priorities: PriorityClasses) -> JobDraft | None:
    """Return the job of a Volcano Job that has neither a PodGroup nor pods; None: it has ended.

    Volcano makes the pods of a Job only after its PodGroup, and deletes that when it is aborted.
    """
    spec, phase = job.spec, job.status.child("state").text("phase")
    if phase in _ENDED_JOBS:
        return None
    hold = Hold(HoldKind.GROUP_MISSING, job.name, f"the PodGroup of Job {job.name} does not exist")
    if phase in _ABORTED:
        hold = Hold(HoldKind.SUSPENDED, job.name, f"Job {job.name} is {phase.lower()}")
    draft = JobDraft.of(job)
    draft.templates = _templates_of(job)
    replicas = sum(max(0, template.count) for template in draft.templates)
    draft.min_available = spec.integer("minAvailable", default=0, least=0) or replicas
    draft.priority = priorities.of(job, spec.text("priorityClassName"), 0)
    draft.queue, draft.holds = spec.text("queue"), [hold]
    return draft


# KAI Scheduler's node pools

_IN_NO_POOL = Requirement(key=api.NODE_POOL, operator=Operator.DOES_NOT_EXIST)


def keep_to_pools(
    drafts: Iterable[JobDraft], objects: DumpObjects, nodes: Iterable[NodeInfo]
) -> None:
    """Let jobs of KAI start on nodes of their pool alone; hold those whose queue has another.

    Each scheduler of KAI sees the nodes, queues and groups of one pool; but what it did goes before
    what it should see: it runs pods of the queue, or has said why it cannot place this job.
    O(nodes + pods).
    """
    in_pools = [(draft, _pool_of(draft)) for draft in drafts if draft.system == "kai"]
    served = {
        (pool, draft.queue)
        for draft, pool in in_pools
        if any(pod.task.status.holds for pod in draft.pods)
    }
    has_pools = any(node.labels.get(api.NODE_POOL) for node in nodes)
    queues = objects.of(api.KAI, "Queue")
    pools = {queue.name: queue.labels.get(api.NODE_POOL, "") for queue in queues}
    tops = {queue.name for queue in queues if not queue.spec.text("parentQueue")}
    for draft, pool in in_pools:
        if draft.queue in tops and draft.objects:
            draft.objects[0].ignore("spec.queue", _OF_TOP)
        of_queue = pools.get(draft.queue, pool)
        if of_queue != pool and (pool, draft.queue) not in served and not _is_answered(draft):
            who = f"the scheduler of node pool {pool}" if pool else "the scheduler of no node pool"
            message = f"{who} does not see queue {draft.queue}, which is "
            message += f"of node pool {of_queue}" if of_queue else "of none"
            draft.holds.append(Hold(HoldKind.NO_QUEUE, draft.queue, message))
        for pod in draft.pods if pool or has_pools else ():
            if pool:
                selector = {**pod.task.node_selector, api.NODE_POOL: pool}
                pod.task = evolve(pod.task, node_selector=selector)
            else:
                pod.task = requiring(pod.task, _IN_NO_POOL)


def _pool_of(draft: JobDraft) -> str:
    labels = [given.labels for given in draft.objects]
    labels += [pod.task.labels for pod in draft.pods]
    return next(filter(None, (each.get(api.NODE_POOL) for each in labels)), "")


def _is_answered(draft: JobDraft) -> bool:
    """Return whether a scheduler of KAI has said something about a group."""
    return any(
        said.text("message") or any(said.children("reasons"))
        for given in draft.objects
        for said in given.status.children("schedulingConditions")
    )


# Jobs and LeaderWorkerSets, of whose pods only labels say that they belong together


class ControlledPods:
    """The jobs of pods that only their labels say to belong together."""

    def __init__(self, objects: DumpObjects, *, leader_worker_sets: bool) -> None:
        """Start with none; `leader_worker_sets`: whether those have jobs."""
        self._objects = objects
        self._leader_worker_sets = leader_worker_sets
        self._drafts: dict[tuple[str, str], JobDraft] = {}
        """By kind and namespace/name."""

    def draft_of(self, pod: Pod, single: JobDraft) -> JobDraft:
        """Return the job of a pod; `single`: the one that it would be by itself."""
        labels, namespace = pod.task.labels, pod.task.namespace
        name = next((labels[key] for key in api.JOB_NAMES if labels.get(key)), "")
        job = self._objects.named(api.BATCH, "Job", namespace, name)
        set_name = labels.get(f"{api.REPLICA_SET}name") if self._leader_worker_sets else None
        if job is not None:
            made = JobDraft.of(job, single.system)
        elif set_name:
            pod.role, kind = labels.get(f"{api.REPLICA_SET}group-index", "0"), "LeaderWorkerSet"
            made = JobDraft(single.system, kind, api.LEADER_WORKER_SET, namespace, set_name)
        else:
            return single
        return self._drafts.setdefault((made.kind, f"{namespace}/{made.name}"), made)

    def complete(self, *, by_kube: Sequence[str]) -> list[JobDraft]:
        """Return all jobs, with what of each starts together. O(pods).

        Args:
            by_kube: the names of schedulers that place pods one by one, however many there are:
                their jobs have no bounds.

        """
        for draft in self._drafts.values():
            draft.min_available = 1
            if draft.pods and draft.pods[0].scheduler_name in by_kube:
                for pod in draft.pods:
                    pod.role = None
            elif draft.kind == "Job":
                most = most_pods(draft.objects[0], draft.pods)
                draft.min_available, draft.max_available = min(1, most), most
            else:
                _group(draft)
        return list(self._drafts.values())


def most_pods(job: KubernetesObject, pods: Iterable[Pod] = ()) -> int:
    """Return how many pods a Job has at once: its parallelism, or what it has yet to complete."""
    spec, status = job.spec, job.status
    most = spec.integer("parallelism", default=1, least=0)
    if spec.get("completions") is not None:
        ended = sum(pod.task.status is TaskStatus.SUCCEEDED for pod in pods)
        # Pods that ended may have been deleted; the Job's status still counts them.
        ended = max(ended, status.integer("succeeded", default=0))
        most = min(most, max(0, spec.integer("completions", least=0) - ended))
    return most


def _group(draft: JobDraft) -> None:
    """Let each replica of a LeaderWorkerSet start as a whole, and one be enough."""
    replicas: dict[str, list[Pod]] = {}
    for pod in draft.pods:
        replicas.setdefault(pod.role or "", []).append(pod)
    in_order = sorted(replicas.items(), key=lambda item: (len(item[0]), item[0]))
    draft.groups = tuple(TaskGroup(name, min=_replica_size(pods)) for name, pods in in_order)
    draft.min_available, draft.min_groups = 0, 1


def _replica_size(pods: list[Pod]) -> int:
    """Return the size of a replica: as annotated, or else the number of its pods."""
    key = f"{api.REPLICA_SET}size"
    for pod in pods:
        size = whole_number(pod.object.annotations.get(key, ""))
        if size is not None:
            return size
    message = "not given, or not a number: all existing pods of the replica must start together"
    pods[0].object.note(NoticeCode.FIELD_IGNORED, annotation(key), message)
    return len(pods)
