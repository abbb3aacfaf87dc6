"""Makes one job of the pods of a batch/v1 Job, or of a LeaderWorkerSet, that are in no group."""

from __future__ import annotations

from attrs import define, field

from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.job_drafts import JobDraft
from batchsched.kubernetes.objects import annotation, whole_number
from batchsched.kubernetes.pods import Pod
from batchsched.model.cluster import TaskGroup, TaskStatus
from batchsched.model.notice import NoticeCode

_SET_NAME = "leaderworkerset.sigs.k8s.io/name"
_REPLICA = "leaderworkerset.sigs.k8s.io/group-index"
_REPLICA_SIZE = "leaderworkerset.sigs.k8s.io/size"


@define(eq=False)
class ControlledPods:
    """The jobs of pods that only their labels say to belong together."""

    objects: DumpObjects
    leader_worker_sets: bool
    """Whether the labels of LeaderWorkerSets are read."""
    drafts: dict[tuple[str, str], JobDraft] = field(factory=dict[tuple[str, str], JobDraft])
    """By kind and namespace/name."""

    def draft_of(self, pod: Pod, single: JobDraft) -> tuple[JobDraft, str | None]:
        """Return the job of a pod and its role; `single`: the one that it would be by itself."""
        labels, namespace = pod.task.labels, pod.task.namespace
        name = next((labels[key] for key in api.JOB_NAMES if labels.get(key)), "")
        job = self.objects.named(api.BATCH, "Job", namespace, name)
        if job is not None:
            key = "Job", job.full_name
            if key not in self.drafts:
                self.drafts[key] = JobDraft(
                    single.system, "Job", api.BATCH, namespace, name, [job], priority=None
                )
            return self.drafts[key], None
        name = labels.get(_SET_NAME, "") if self.leader_worker_sets else ""
        if not name:
            return single, None
        key = "LeaderWorkerSet", f"{namespace}/{name}"
        if key not in self.drafts:
            self.drafts[key] = JobDraft(
                *(single.system, key[0], "leaderworkerset.x-k8s.io", namespace, name), priority=None
            )
        return self.drafts[key], labels.get(_REPLICA, "0")

    def complete(self, *, by_kube: frozenset[str]) -> list[JobDraft]:
        """Return all jobs, with what of each starts together. O(pods).

        Args:
            by_kube: the names of schedulers that place pods one by one, however many there are:
                their jobs have no bounds.

        """
        for draft in self.drafts.values():
            draft.min_available = 1
            if draft.pods and draft.pods[0][0].scheduler_name in by_kube:
                draft.pods = [(pod, None) for pod, _ in draft.pods]
            elif draft.kind == "Job":
                _bound(draft)
            else:
                _group(draft)
        return list(self.drafts.values())


def _bound(draft: JobDraft) -> None:
    """Let a Job have at most its parallelism of pods, and no more than it has to complete."""
    spec, status = (draft.objects[0].reader.child(key) for key in ("spec", "status"))
    most = spec.integer("parallelism", default=1, least=0)
    if spec.get("completions") is not None:
        ended = sum(pod.task.status is TaskStatus.SUCCEEDED for pod, _ in draft.pods)
        # Pods that ended may have been deleted; the Job's status still counts them.
        ended = max(ended, status.integer("succeeded", default=0))
        most = min(most, max(0, spec.integer("completions") - ended))
    draft.min_available, draft.max_available = min(1, most), most


def _group(draft: JobDraft) -> None:
    """Let each replica of a LeaderWorkerSet start as a whole, and one be enough."""
    replicas: dict[str, list[Pod]] = {}
    for pod, role in draft.pods:
        replicas.setdefault(role or "", []).append(pod)
    in_order = sorted(replicas.items(), key=lambda item: (len(item[0]), item[0]))
    draft.groups = tuple(TaskGroup(name, min=_replica_size(pods)) for name, pods in in_order)
    draft.min_available, draft.min_groups = 0, 1


def _replica_size(pods: list[Pod]) -> int:
    """Return the size of a replica: as annotated, or else the number of its pods."""
    for pod in pods:
        size = whole_number(pod.object.annotations.get(_REPLICA_SIZE, ""))
        if size is not None:
            return size
    pods[0].object.note(
        NoticeCode.FIELD_IGNORED,
        annotation(_REPLICA_SIZE),
        "not given, or not a number: all existing pods of the replica must start together",
    )
    return len(pods)
