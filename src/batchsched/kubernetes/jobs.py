"""Assigns pods to jobs, and finds the pods that only occupy their nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import evolve, frozen

from batchsched.kubernetes.groups import WITHOUT_ROLE, PriorityClasses
from batchsched.kubernetes.objects import KubernetesObject
from batchsched.kubernetes.plans import read_plan
from batchsched.kubernetes.pods import Pod
from batchsched.kubernetes.timing import read_job_timing
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import JobInfo, TaskGroup, TaskInfo, TaskStatus
from batchsched.model.notice import NoticeCode

__all__ = ["JobBuilder"]

_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_WAITING = (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)


@frozen
class JobBuilder:
    """Assigns pods to jobs, and notes what is not supported."""

    groups: Sequence[tuple[KubernetesObject, JobInfo]]
    """The pod groups, each with its job, which has no tasks yet."""
    nodes: Collection[str]
    """The names of the nodes that were given."""
    closed_queues: Collection[str]
    priorities: PriorityClasses
    scheduler_name: str
    default_queue: str

    def build(self, pods: Iterable[Pod]) -> tuple[list[JobInfo], list[TaskInfo]]:
        """Return the jobs, and the tasks without a job. O(pods)."""
        members: dict[str, list[TaskInfo]] = {group.uid: [] for _, group in self.groups}
        waiting: dict[str, list[tuple[KubernetesObject, TaskInfo]]] = {}
        with_roles = {group.uid for _, group in self.groups if group.groups}
        queue_of = {group.uid: group.queue for _, group in self.groups}
        single: list[JobInfo] = []
        others: list[TaskInfo] = []
        for pod in pods:
            task = pod.task
            uid = f"{task.namespace}/{pod.group}"
            if pod.group and uid in members:
                given = self._scheduled(pod, queue_of[uid])
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
                    self._note_missing_node(pod)
        jobs = [
            evolve(_with_tasks(group, tasks), plan=read_plan(waiting.get(group.uid, ())))
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
        if self.groups and task.status not in _ENDED:
            pod.object.note(
                NoticeCode.WITHOUT_GROUP,
                "",
                f"belongs to no pod group: a separate job in queue {self.default_queue!r}",
            )
        job = JobInfo(
            name=task.name,
            namespace=task.namespace,
            queue=self.default_queue,
            min_available=1,
            priority=pod.own_priority,
            creation_time=task.creation_time,
            tasks=(self._scheduled(pod, self.default_queue),),
            plan=read_plan([(pod.object, task)]) if task.status is TaskStatus.PENDING else None,
        )
        return read_job_timing(pod.object).of(job)

    def _scheduled(self, pod: Pod, queue: str) -> TaskInfo:
        """Return a job's task as it is to be scheduled, and note what is not supported."""
        task = pod.task
        if task.status in _ENDED:
            return task
        note_unsupported(pod.object)
        if pod.has_unknown_class(self.priorities):
            self.priorities.of(pod.object, task.priority_class_name, task.priority)
        if task.status in _WAITING:
            if pod.is_gated:
                pod.object.note(
                    NoticeCode.SCHEDULING_GATES,
                    "spec.schedulingGates",
                    "not scheduled until the gates are removed",
                )
            if pod.is_gated or queue in self.closed_queues:
                return _on_no_node(task)
        elif task.node_name is not None and task.node_name not in self.nodes:
            self._note_missing_node(pod)
            return _on_no_node(task)
        return task

    def _note_missing_node(self, pod: Pod) -> None:
        pod.object.note(
            NoticeCode.NODE_MISSING,
            "spec.nodeName",
            "on a node that was not given: holds nothing and is not scheduled",
        )

    def _note_left_out(self, pod: Pod) -> None:
        task = pod.task
        if task.status is TaskStatus.RELEASING or task.status in _ENDED:
            # Pods often exist a little longer than their group: both are deleted together.
            return
        if pod.scheduler_name != self.scheduler_name:
            if not task.status.holds:
                pod.object.note(
                    NoticeCode.OTHER_SCHEDULER,
                    "spec.schedulerName",
                    f"left out: it is for the scheduler {pod.scheduler_name!r}, "
                    f"not {self.scheduler_name!r}",
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


def _with_tasks(group: JobInfo, tasks: Sequence[TaskInfo]) -> JobInfo:
    """Return a job with tasks; a role that it does not name becomes a group with a minimum of 0."""
    if not group.groups:
        return evolve(group, tasks=tasks)
    known = {each.name for each in group.groups}
    others = sorted({task.group for task in tasks if task.group is not None} - known)
    groups = (*group.groups, *(TaskGroup(name, min=0) for name in others))
    # A group with a minimum of 0 is always satisfied, so it must not count towards the minimum.
    least = None if group.min_groups is None else group.min_groups + len(others)
    return evolve(group, tasks=tasks, groups=groups, min_groups=least)


def _on_no_node(task: TaskInfo) -> TaskInfo:
    """Return the task as one that is on no node and is not scheduled."""
    is_leaving = task.status is TaskStatus.RELEASING
    status = TaskStatus.RELEASING if is_leaving else TaskStatus.UNKNOWN
    return evolve(task, status=status, node_name=None)
