"""Reads the groups of Volcano, kube-batch, KAI Scheduler, and of the plugin coscheduling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, field, frozen

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.job_drafts import JobDraft, Template
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.pods import Pod, PriorityClasses, requiring
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Hold, NodeInfo, TaskGroup
from batchsched.model.constraints import Operator, Requirement
from batchsched.model.notice import NoticeCode

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


@define(eq=False)
class BatchGroups:
    """The jobs of the groups of batch schedulers."""

    volcano: dict[str, JobDraft] = field(factory=dict[str, JobDraft])
    """The jobs of Volcano's and kube-batch's groups, by namespace/name."""
    kai: dict[str, JobDraft] = field(factory=dict[str, JobDraft])
    coscheduling: dict[str, JobDraft] = field(factory=dict[str, JobDraft])

    @classmethod
    def read(
        cls,
        objects: DumpObjects,
        priorities: PriorityClasses,
        of_kai: PriorityClasses,
        *,
        theirs: bool,
    ) -> BatchGroups:
        """Return the jobs of all groups. O(groups)."""
        found = cls()
        for api_group, system in ((api.VOLCANO, "volcano"), (api.KUBE_BATCH, "kube-batch")):
            for given in objects.of(api_group, "PodGroup"):
                if given.full_name not in found.volcano:
                    draft = _volcano_draft(given, system, api_group, priorities, theirs=theirs)
                    found.volcano[given.full_name] = draft
        for given in objects.of(api.KAI, "PodGroup"):
            found.kai[given.full_name] = _kai_draft(given, of_kai)
        for api_group in api.COSCHEDULING:
            for given in objects.of(api_group, "PodGroup"):
                if given.full_name not in found.coscheduling:
                    found.coscheduling[given.full_name] = _coscheduling_draft(given, api_group)
        return found

    def drafts(self) -> Iterator[JobDraft]:
        """Yield the jobs of all groups."""
        for drafts in (self.volcano, self.kai, self.coscheduling):
            yield from drafts.values()

    def of_pod(self, pod: Pod, annotations: Mapping[str, str]) -> tuple[str, JobDraft | str] | None:
        """Return the system of the group that a pod names, and its job or its missing name."""
        name = annotations.get(api.KAI_GROUP)
        if name:
            full_name = f"{pod.task.namespace}/{name}"
            other = self.volcano.get(full_name)
            if full_name not in self.kai and other is not None and other.system == "kube-batch":
                return other.system, other  # as of a group without an API group
            return "kai", self.kai.get(full_name, name)
        name = next((annotations[key] for key in api.GROUP_NAMES if annotations.get(key)), None)
        if name:
            system = "kube-batch" if pod.scheduler_name == "kube-batch" else "volcano"
            draft = self.volcano.get(f"{pod.task.namespace}/{name}")
            return (system, name) if draft is None else (draft.system, draft)
        return None

    def of_labelled(self, pod: Pod) -> JobDraft | str | None:
        """Return the job of the group of coscheduling that a pod names, or its missing name."""
        key = coscheduling_key(pod)
        if key is None:
            return None
        name = pod.task.labels[key]
        return self.coscheduling.get(f"{pod.task.namespace}/{name}", name)


def coscheduling_key(pod: Pod) -> str | None:
    """Return the label by which a pod names its group of coscheduling."""
    return next((key for key in api.COSCHEDULING_NAMES if pod.task.labels.get(key)), None)


def _coscheduling_draft(given: KubernetesObject, api_group: str) -> JobDraft:
    return JobDraft(
        "coscheduling",
        given.kind,
        api_group,
        given.namespace,
        given.name,
        [given],
        min_available=given.spec.integer("minMember", default=0, least=0),
    )


def _volcano_draft(
    given: KubernetesObject,
    system: str,
    api_group: str,
    priorities: PriorityClasses,
    *,
    theirs: bool,
) -> JobDraft:
    spec = given.spec
    note_unsupported(given)
    least = spec.integer("minMember", default=0, least=0)  # the API omits a 0
    is_volcanos = api_group == api.VOLCANO
    roles = _roles(spec, least) if is_volcanos else roles_of(spec, least_of_leaf=0)
    groups, missing = _connected(tuple(roles))
    draft = JobDraft(
        system,
        given.kind,
        api_group,
        given.namespace,
        given.name,
        [given],
        min_available=least,
        groups=groups,
        min_groups=_least_groups(spec, groups),
        priority=priorities.of(given, spec.text("priorityClassName"), 0),
        queue=spec.text("queue"),
    )
    if missing is not None:
        draft.holds.append(missing)
    if theirs and is_volcanos and phase_of(given) == "Pending":
        draft.holds.append(Hold(HoldKind.NOT_ADMITTED, ENQUEUE, _NOT_LET_IN))
    job_name = given.labels.get(api.VOLCANO_JOB_NAME)
    if job_name:
        draft.add_alias(job_name)
    return draft


def _roles(spec: Reader, least: int) -> Iterator[TaskGroup]:
    """Yield the roles of a group, if they have minima that Volcano applies.

    Its Job controller writes the replicas of a task that names no minimum as the minimum of the
    role, and the scheduler ignores the minima of all roles where they are more than `minMember`.
    """
    roles = spec.integer_map("minTaskMember", least=0)
    if sum(roles.values()) <= least:
        for name, minimum in roles.items():
            yield TaskGroup(name, min=minimum)


def roles_of(spec: Reader, *, least_of_leaf: int) -> Iterator[TaskGroup]:
    """Yield the groups of a PodGroup: Volcano's roles, and KAI Scheduler's subgroups.

    `least_of_leaf` is the minimum of a leaf that does not name one.
    """
    for name, least in spec.integer_map("minTaskMember", least=0).items():
        yield TaskGroup(name, min=least)
    subgroups = list(spec.children("subGroups"))
    parents = {subgroup.text("parent") for subgroup in subgroups}
    for subgroup in subgroups:
        name = subgroup.text("name", required=True)
        if name in parents:
            parts: int | None = None
            if subgroup.get("minSubGroup") is not None:
                parts = subgroup.integer("minSubGroup", least=0)
        else:
            parts = subgroup.integer("minMember", default=least_of_leaf, least=0)
        yield TaskGroup(name, parent=subgroup.text("parent") or None, min=parts)


def phase_of(given: KubernetesObject) -> str:
    """Return the phase in the status of a group."""
    return given.status.text("phase")


def volcano_templates(draft: JobDraft, objects: DumpObjects) -> Iterator[Template]:
    """Yield the templates of the Volcano Job that owns a group."""
    for owner in objects.owner_objects(draft.objects[0]):
        if owner.api_group == api.VOLCANO_JOBS:
            draft.objects.append(owner)
            yield from _templates_of(owner)
            return


def note_dependents(draft: JobDraft, objects: DumpObjects) -> None:
    """Note the tasks of a Volcano Job whose pods are made only once others are there."""
    for owner in objects.owner_objects(draft.objects[0]):
        if owner.api_group != api.VOLCANO_JOBS:
            continue
        there = {pod.role for pod, _ in draft.pods}
        missing = [
            (
                max(0, task.integer("replicas", default=1)),
                list(task.child("dependsOn").texts("name")),
            )
            for task in owner.spec.children("tasks")
            if task.get("dependsOn") is not None and task.text("name") not in there
        ]
        count = sum(replicas for replicas, _ in missing)
        if count:
            on = ", ".join(dict.fromkeys(name for _, names in missing for name in names))
            verb = (
                "task does not exist yet: it depends"
                if count == 1
                else "tasks do not exist yet: they depend"
            )
            message = f"{count} {verb} on {on}, other tasks of the job"
            owner.note(NoticeCode.FIELD_IGNORED, "spec.tasks.dependsOn", message)


def _templates_of(job: KubernetesObject) -> Iterator[Template]:
    for position, task in enumerate(job.spec.children("tasks")):
        name = task.text("name") or f"default{position}"
        yield Template(name, task.integer("replicas", default=1), task, job)


def volcano_job_alone(job: KubernetesObject, priorities: PriorityClasses) -> JobDraft | None:
    """Return the job of a Volcano Job that has neither a PodGroup nor pods; None: it has ended.

    Volcano makes the pods of a Job only after its PodGroup, and deletes that when it is aborted.
    """
    spec = job.spec
    phase = job.status.child("state").text("phase")
    if phase in _ENDED_JOBS:
        return None
    hold = Hold(HoldKind.GROUP_MISSING, job.name, f"the PodGroup of Job {job.name} does not exist")
    if phase in _ABORTED:
        hold = Hold(HoldKind.SUSPENDED, job.name, f"Job {job.name} is {phase.lower()}")
    templates = list(_templates_of(job))
    replicas = sum(max(0, template.count) for template in templates)
    return JobDraft(
        "volcano",
        job.kind,
        api.VOLCANO_JOBS,
        job.namespace,
        job.name,
        [job],
        min_available=spec.integer("minAvailable", default=0, least=0) or replicas,
        priority=priorities.of(job, spec.text("priorityClassName"), 0),
        queue=spec.text("queue"),
        holds=[hold],
        templates=templates,
    )


def _kai_draft(given: KubernetesObject, priorities: PriorityClasses) -> JobDraft:
    spec = given.spec
    note_unsupported(given, "PodGroup (KAI Scheduler)")
    groups = tuple(roles_of(spec, least_of_leaf=1))
    labels = given.labels
    groups, missing = _connected(groups)
    priority = priorities.of(given, spec.text("priorityClassName"), KAI_DEFAULT_PRIORITY)
    preemptibility = spec.text("preemptibility")
    draft = JobDraft(
        "kai",
        given.kind,
        api.KAI,
        given.namespace,
        given.name,
        [given],
        min_available=spec.integer("minMember", default=0 if groups else 1, least=0),
        groups=groups,
        min_groups=_least_groups(spec, groups),
        priority=priority,
        preemptible=preemptibility != "non-preemptible"
        if preemptibility
        else priority < _NON_PREEMPTIBLE,
        queue=spec.text("queue") or labels.get(api.KAI_QUEUE, ""),
    )
    if missing is not None:
        draft.holds.append(missing)
    return draft


@frozen
class NodePools:
    """What the schedulers of KAI see: each the nodes, queues and groups of one pool of nodes."""

    labels: frozenset[str]
    """The pools that nodes are in, without the empty one."""
    queues: Mapping[str, str]
    """The pool of each queue; empty: none."""
    tops: frozenset[str]
    """The queues that name no parent."""

    @classmethod
    def read(cls, objects: DumpObjects, nodes: Iterable[NodeInfo]) -> NodePools:
        """Return the pools of nodes and queues. O(nodes + queues)."""
        labels = frozenset(node.labels.get(api.NODE_POOL, "") for node in nodes) - {""}
        queues = objects.of(api.KAI, "Queue")
        tops = [q.name for q in queues if not q.spec.text("parentQueue")]
        return cls(labels, {queue.name: _pool_of(queue) for queue in queues}, frozenset(tops))

    def let_see(self, drafts: Iterable[JobDraft]) -> None:
        """Let KAI's jobs start only on nodes of their pools, and hold those of others' queues."""
        for draft in drafts:
            if draft.system == "kai":
                self._let_see(draft)

    def _let_see(self, draft: JobDraft) -> None:
        pools = [_pool_of(given) for given in draft.objects]
        pools += [pod.task.labels.get(api.NODE_POOL, "") for pod, _ in draft.pods]
        pool = next(filter(None, pools), "")
        of_queue = self.queues.get(draft.queue, pool)
        if draft.queue in self.tops and draft.objects:
            draft.objects[0].ignore("spec.queue", _OF_TOP)
        if of_queue != pool:
            who = f"the scheduler of node pool {pool}" if pool else "the scheduler of no node pool"
            message = f"{who} does not see queue {draft.queue}, which is "
            message += f"of node pool {of_queue}" if of_queue else "of none"
            draft.holds.append(Hold(HoldKind.NO_QUEUE, draft.queue, message))
        if pool or self.labels:
            draft.pods = [(_only_in(pool, pod), role) for pod, role in draft.pods]


def _pool_of(given: KubernetesObject) -> str:
    return given.labels.get(api.NODE_POOL, "")


def _only_in(pool: str, pod: Pod) -> Pod:
    """Return a pod that may start only on nodes of a pool; empty: on those of none."""
    task = pod.task
    if pool:
        return evolve(
            pod, task=evolve(task, node_selector={**task.node_selector, api.NODE_POOL: pool})
        )
    in_none = Requirement(key=api.NODE_POOL, operator=Operator.DOES_NOT_EXIST)
    return evolve(pod, task=requiring(task, in_none))


def _least_groups(spec: Reader, groups: Sequence[TaskGroup]) -> int | None:
    if spec.get("minSubGroup") is None or not groups:
        return None
    return spec.integer("minSubGroup", least=0)


def _connected(groups: tuple[TaskGroup, ...]) -> tuple[tuple[TaskGroup, ...], Hold | None]:
    """Return subgroups that form a tree, and a hold where they do not."""
    named = {group.name: group for group in groups}
    for group in sorted(groups, key=lambda one: one.name):
        seen: set[str] = set()
        above: str | None = group.name
        while above is not None and above in named and above not in seen:
            seen.add(above)
            above = named[above].parent
        if above is None:
            continue
        flat = tuple(TaskGroup(each.name, min=each.min or 0) for each in groups)
        if above in named:
            detail = f"the groups above {group.name} form a cycle"
            return flat, Hold(HoldKind.GROUP_MISSING, group.name, detail)
        return flat, Hold(HoldKind.GROUP_MISSING, above)
    return groups, None
