"""Reads pods of batch/v1 Jobs and of LeaderWorkerSets that are in no pod group as jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import evolve, frozen

from batchsched.kubernetes.objects import KubernetesObject
from batchsched.kubernetes.pods import Pod
from batchsched.model.cluster import JobInfo, TaskGroup, TaskStatus
from batchsched.model.notice import NoticeCode

__all__ = ["Workloads"]

_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
"""The label of a Job's pods, and its name before Kubernetes 1.27."""
_SET = "leaderworkerset.sigs.k8s.io/name"
_REPLICA = "leaderworkerset.sigs.k8s.io/group-index"
_SIZE = "leaderworkerset.sigs.k8s.io/size"


@frozen
class Workloads:
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
                owner = pod.task.labels.get(_SET, "") if self.leader_worker_sets else ""
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
            priority=_priority(pods),
            creation_time=job.creation_time(),
        )

    def _set(self, pods: Sequence[Pod]) -> JobInfo:
        first = pods[0]
        members: dict[str, list[Pod]] = {}
        for pod in pods:
            members.setdefault(pod.role, []).append(pod)
        groups = [
            TaskGroup(name, min=_size(own)) for name, own in sorted(members.items(), key=_by_number)
        ]
        return JobInfo(
            name=first.group,
            namespace=first.task.namespace,
            queue=self.default_queue,
            min_available=0,
            groups=groups,
            min_groups=1,
            priority=_priority(pods),
            creation_time=min(pod.task.creation_time for pod in pods),
        )


def _by_number(item: tuple[str, object]) -> tuple[int, str]:
    """Return the sort key of a replica: by its number."""
    return len(item[0]), item[0]


def _size(pods: Sequence[Pod]) -> int:
    """Return the size of a replica: as annotated, or else the number of its pods."""
    for pod in pods:
        annotations = pod.object.metadata.text_map("annotations")
        size = annotations.get(_SIZE, "")
        if size.isascii() and size.isdigit():
            return int(size)
    pods[0].object.note(
        NoticeCode.FIELD_IGNORED,
        f"metadata.annotations[{_SIZE!r}]",
        "not given, or not a number: all existing pods of the replica must start together",
    )
    return len(pods)


def _priority(pods: Iterable[Pod]) -> int:
    return max(pod.own_priority for pod in pods)
