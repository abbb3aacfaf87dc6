"""Finds the jobs of objects that callers have sorted by kind, for one scheduler.

They are pod groups, batch/v1 Jobs, LeaderWorkerSets and single pods, each with its tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from batchsched.kubernetes.annotations import read_plan, with_annotated_properties
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.pods import Pod, PriorityClasses
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import JobInfo, TaskGroup, TaskInfo, TaskStatus
from batchsched.model.notice import NoticeCode
from batchsched.model.validation.values import shown

# Pod groups

WITHOUT_ROLE = "-"
"""The group of pods without a role, in a PodGroup with roles; not a valid name of a role."""


def read_pod_group(
    group: KubernetesObject, priorities: PriorityClasses, default_queue: str, /
) -> JobInfo:
    """Return a PodGroup as a `JobInfo` without tasks."""
    spec = group.reader.child("spec")
    note_unsupported(group)
    job = JobInfo(
        name=group.name,
        namespace=group.namespace,
        queue=spec.text("queue") or default_queue,
        # The API omits a 0.
        min_available=spec.integer("minMember", default=0, least=0),
        priority=priorities.of(group, spec.text("priorityClassName"), 0),
        creation_time=group.creation_time(),
        groups=tuple(roles_of(spec, least_of_leaf=0)),
        # None: it needs all of its top-level groups.
        min_groups=None
        if spec.get("minSubGroup") is None
        else spec.integer("minSubGroup", least=0),
    )
    return with_annotated_properties(job, group)


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


# Pods of batch/v1 Jobs and of LeaderWorkerSets that are in no pod group

_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
"""The label of a Job's pods, and its name before Kubernetes 1.27."""
_LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
_REPLICA = "leaderworkerset.sigs.k8s.io/group-index"
_REPLICA_SIZE = "leaderworkerset.sigs.k8s.io/size"


@frozen
class PodsByOwner:
    """Assigns pods to jobs by the object that created them."""

    jobs: Sequence[KubernetesObject]
    """batch/v1 Jobs."""
    leader_worker_sets: bool
    """Whether to use the labels of LeaderWorkerSets."""
    scheduler_name: str
    default_queue: str

    def find(
        self, pods: Sequence[Pod], taken: Collection[str]
    ) -> tuple[list[tuple[KubernetesObject, JobInfo]], list[Pod]]:
        """Return the jobs without tasks, each with an object of it, and the pods with their groups.

        Args:
            pods: all pods.
            taken: the UIDs of jobs that are defined by pod groups.

        """
        named = {job.full_name: job for job in self.jobs if job.full_name not in taken}
        of_jobs: dict[str, list[Pod]] = {uid: [] for uid in named}
        of_sets: dict[str, list[Pod]] = {}
        found: list[Pod] = []
        for pod in pods:
            job, owner = "", ""
            if not pod.group and pod.scheduler_name == self.scheduler_name:
                job = next((pod.task.labels[k] for k in _JOB_NAMES if k in pod.task.labels), "")
                owner = (
                    pod.task.labels.get(_LEADER_WORKER_SET, "") if self.leader_worker_sets else ""
                )
            given = pod
            if f"{pod.task.namespace}/{job}" in named:
                given = evolve(pod, group=job, role="")
                of_jobs[f"{pod.task.namespace}/{job}"].append(given)
            elif owner and f"{pod.task.namespace}/{owner}" not in taken:
                given = evolve(pod, group=owner, role=pod.task.labels.get(_REPLICA, "0"))
                of_sets.setdefault(f"{pod.task.namespace}/{owner}", []).append(given)
            found.append(given)
        made = [(named[uid], self._job(named[uid], own)) for uid, own in of_jobs.items() if own]
        sets = {uid: own for uid, own in of_sets.items() if uid not in of_jobs}
        return made + [(own[0].object, self._set(own)) for _, own in sorted(sets.items())], found

    def _job(self, job: KubernetesObject, pods: Sequence[Pod]) -> JobInfo:
        spec, status = job.reader.child("spec"), job.reader.child("status")
        most = spec.integer("parallelism", default=1)
        if spec.get("completions") is not None:
            ended = sum(pod.task.status is TaskStatus.SUCCEEDED for pod in pods)
            # Pods that ended may have been deleted; the Job's status still counts them.
            ended = max(ended, status.integer("succeeded", default=0))
            most = min(most, max(0, spec.integer("completions") - ended))
        if spec.truth("suspend"):
            job.note(NoticeCode.FIELD_IGNORED, "spec.suspend", "none of its pods are started")
            most = 0
        return JobInfo(
            name=job.name,
            namespace=job.namespace,
            queue=self.default_queue,
            min_available=min(1, most),
            max_available=most,
            priority=_highest_priority(pods),
            creation_time=job.creation_time(),
        )

    def _set(self, pods: Sequence[Pod]) -> JobInfo:
        first = pods[0]
        members: dict[str, list[Pod]] = {}
        for pod in pods:
            members.setdefault(pod.role, []).append(pod)
        groups = [
            TaskGroup(name, min=_replica_size(own))
            for name, own in sorted(members.items(), key=_by_number)
        ]
        return JobInfo(
            name=first.group,
            namespace=first.task.namespace,
            queue=self.default_queue,
            min_available=0,
            groups=groups,
            min_groups=1,
            priority=_highest_priority(pods),
            creation_time=min(pod.task.creation_time for pod in pods),
        )


def _by_number(item: tuple[str, object]) -> tuple[int, str]:
    """Return the sort key of a replica: by its number."""
    return len(item[0]), item[0]


def _replica_size(pods: Sequence[Pod]) -> int:
    """Return the size of a replica: as annotated, or else the number of its pods."""
    for pod in pods:
        annotations = pod.object.metadata.text_map("annotations")
        size = annotations.get(_REPLICA_SIZE, "")
        if size.isascii() and size.isdigit():
            return int(size)
    pods[0].object.note(
        NoticeCode.FIELD_IGNORED,
        f"metadata.annotations[{_REPLICA_SIZE!r}]",
        "not given, or not a number: all existing pods of the replica must start together",
    )
    return len(pods)


def _highest_priority(pods: Iterable[Pod]) -> int:
    return max(pod.own_priority for pod in pods)


# Tasks of all jobs

ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
WAITING = (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)


@frozen
class JobBuilder:
    """Assigns pods to jobs, and notes what is not supported."""

    groups: Sequence[tuple[KubernetesObject, JobInfo]]
    """The pod groups, each with its job, which has no tasks yet."""
    nodes: Collection[str]
    """The names of the nodes that were given."""
    priorities: PriorityClasses
    scheduler_name: str
    default_queue: str

    def build(self, pods: Iterable[Pod]) -> tuple[list[JobInfo], list[TaskInfo]]:
        """Return the jobs, and the tasks without a job. O(pods)."""
        members: dict[str, list[TaskInfo]] = {group.uid: [] for _, group in self.groups}
        waiting: dict[str, list[tuple[KubernetesObject, TaskInfo]]] = {}
        with_roles = {group.uid for _, group in self.groups if group.groups}
        single: list[JobInfo] = []
        others: list[TaskInfo] = []
        for pod in pods:
            task = pod.task
            uid = f"{task.namespace}/{pod.group}"
            if pod.group and uid in members:
                given = self._scheduled(pod)
                if uid in with_roles:
                    given = evolve(given, group=pod.role or WITHOUT_ROLE)
                members[uid].append(given)
                if task.status is TaskStatus.PENDING:
                    waiting.setdefault(uid, []).append((pod.object, task))
            elif self._is_single(pod, members):
                single.append(self._job_of(pod))
            else:
                self._note_left_out(pod)
                if task.status.holds and task.node_name in self.nodes:
                    others.append(task)
                elif task.status.holds and task.node_name is not None:
                    note_missing_node(pod)
        jobs = [
            evolve(with_tasks(group, tasks), plan=read_plan(waiting.get(group.uid, ())))
            for (_, group), tasks in zip(self.groups, members.values(), strict=True)
        ]
        return jobs + single, others

    def _is_single(self, pod: Pod, groups: Mapping[str, object]) -> bool:
        return (
            not pod.group
            and pod.scheduler_name == self.scheduler_name
            and pod.task.full_name not in groups
        )

    def _job_of(self, pod: Pod) -> JobInfo:
        task = pod.task
        job = JobInfo(
            name=task.name,
            namespace=task.namespace,
            queue=self.default_queue,
            min_available=1,
            priority=pod.own_priority,
            creation_time=task.creation_time,
            tasks=(self._scheduled(pod),),
            plan=read_plan([(pod.object, task)]) if task.status is TaskStatus.PENDING else None,
        )
        return with_annotated_properties(job, pod.object)

    def _scheduled(self, pod: Pod) -> TaskInfo:
        """Return a job's task as it is to be scheduled, and note what is not supported."""
        task = pod.task
        if task.status in ENDED:
            return task
        note_unsupported(pod.object)
        note_unsupported(pod.object, "Pod (its own groups)")
        if pod.has_unknown_class(self.priorities):
            self.priorities.of(pod.object, task.priority_class_name, task.priority)
        if task.status in WAITING:
            if pod.gates:
                return evolve(task, holds=pod.gates)
        elif task.node_name is not None and task.node_name not in self.nodes:
            note_missing_node(pod)
            return on_no_node(task)
        return task

    def _note_left_out(self, pod: Pod) -> None:
        task = pod.task
        if task.status is TaskStatus.RELEASING or task.status in ENDED:
            # Pods often exist a little longer than their group: both are deleted together.
            return
        if pod.scheduler_name != self.scheduler_name:
            if not task.status.holds:
                pod.object.note(
                    NoticeCode.OTHER_SCHEDULER,
                    "spec.schedulerName",
                    f"left out: it is for the scheduler {pod.scheduler_name!r}, "
                    f"not {shown(self.scheduler_name)}",
                )
        elif pod.group:
            pod.object.note(
                NoticeCode.GROUP_MISSING,
                f"metadata.annotations[{pod.group_key!r}]",
                "its pod group was not given: not scheduled, only its resources count",
            )
        else:
            pod.object.note(
                NoticeCode.NAME_TAKEN,
                "metadata.name",
                "belongs to no pod group and has the name of one: not scheduled, only its "
                "resources count",
            )


def with_tasks(group: JobInfo, tasks: Sequence[TaskInfo]) -> JobInfo:
    """Return a job with tasks; a role that it does not name becomes a group with a minimum of 0."""
    if not group.groups:
        return evolve(group, tasks=tasks)
    known = {each.name for each in group.groups}
    others = sorted({task.group for task in tasks if task.group is not None} - known)
    groups = (*group.groups, *(TaskGroup(name, min=0) for name in others))
    # A group with a minimum of 0 is always satisfied, so it must not count towards the minimum.
    least = None if group.min_groups is None else group.min_groups + len(others)
    return evolve(group, tasks=tasks, groups=groups, min_groups=least)


def note_missing_node(pod: Pod) -> None:
    """Record a notice of a pod on a node that was not given."""
    pod.object.note(
        NoticeCode.NODE_MISSING,
        "spec.nodeName",
        "on a node that was not given: holds nothing and is not scheduled",
    )


def on_no_node(task: TaskInfo) -> TaskInfo:
    """Return the task as one that is on no node and is not scheduled."""
    is_leaving = task.status is TaskStatus.RELEASING
    status = TaskStatus.RELEASING if is_leaving else TaskStatus.UNKNOWN
    return evolve(task, status=status, node_name=None)
