"""Reads the groups of batch schedulers: Volcano's, kube-batch's and KAI Scheduler's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field

from batchsched.kubernetes.annotations import GROUP_NAMES
from batchsched.kubernetes.dump_objects import (
    KAI,
    KUBE_BATCH,
    VOLCANO,
    DumpObjects,
)
from batchsched.kubernetes.job_drafts import JobDraft, Template
from batchsched.kubernetes.jobs import roles_of
from batchsched.kubernetes.objects import KubernetesObject
from batchsched.kubernetes.pods import Pod, PriorityClasses
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Hold, HoldKind, TaskGroup

KAI_GROUP = "pod-group-name"
"""The annotation that KAI Scheduler's pod grouper writes on pods."""
KAI_QUEUE = "kai.scheduler/queue"
KAI_DEFAULT_QUEUE = "default-queue"
KAI_DEFAULT_PRIORITY = 50
_NOT_LET_IN = "the phase of its PodGroup is Pending: action enqueue has not admitted it"
_JOB_NAME = "volcano.sh/job-name"


@define(eq=False)
class BatchGroups:
    """The jobs of the groups of batch schedulers."""

    volcano: dict[str, JobDraft] = field(factory=dict[str, JobDraft])
    """The jobs of Volcano's and kube-batch's groups, by namespace/name."""
    kai: dict[str, JobDraft] = field(factory=dict[str, JobDraft])

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
        for api_group, system in ((VOLCANO, "volcano"), (KUBE_BATCH, "kube-batch")):
            for given in objects.of(api_group, "PodGroup"):
                if given.full_name not in found.volcano:
                    draft = _volcano_draft(given, system, api_group, priorities, theirs=theirs)
                    found.volcano[given.full_name] = draft
        for given in objects.of(KAI, "PodGroup"):
            found.kai[given.full_name] = _kai_draft(given, of_kai)
        return found

    def of_pod(self, pod: Pod, annotations: Mapping[str, str]) -> tuple[str, JobDraft | str] | None:
        """Return the system of the group that a pod names, and its job or its missing name."""
        name = annotations.get(KAI_GROUP)
        if name:
            return "kai", self.kai.get(f"{pod.task.namespace}/{name}", name)
        name = next((annotations[key] for key in GROUP_NAMES if annotations.get(key)), None)
        if name:
            system = "kube-batch" if pod.scheduler_name == "kube-batch" else "volcano"
            draft = self.volcano.get(f"{pod.task.namespace}/{name}")
            return (system, name) if draft is None else (draft.system, draft)
        return None


def _volcano_draft(
    given: KubernetesObject,
    system: str,
    api_group: str,
    priorities: PriorityClasses,
    *,
    theirs: bool,
) -> JobDraft:
    spec = given.reader.child("spec")
    note_unsupported(given)
    draft = JobDraft(
        system,
        given.kind,
        api_group,
        given.namespace,
        given.name,
        [given],
        min_available=spec.integer("minMember", default=0),  # the API omits a 0
        groups=tuple(roles_of(spec, least_of_leaf=0)),
        min_groups=None if spec.get("minSubGroup") is None else spec.integer("minSubGroup"),
        priority=priorities.of(given, spec.text("priorityClassName"), 0),
        queue=spec.text("queue"),
    )
    if theirs and api_group == VOLCANO and phase_of(given) == "Pending":
        draft.holds.append(Hold(HoldKind.NOT_ADMITTED, "enqueue", _NOT_LET_IN))
    job_name = given.metadata.text_map("labels").get(_JOB_NAME)
    if job_name:
        draft.add_alias(job_name)
    return draft


def phase_of(given: KubernetesObject) -> str:
    """Return the phase in the status of a group."""
    return given.reader.child("status").text("phase")


def volcano_templates(draft: JobDraft, objects: DumpObjects) -> Iterator[Template]:
    """Yield the templates of the Volcano Job that owns a group."""
    for owner in objects.owner_objects(draft.objects[0]):
        if owner.reader.path.startswith("jobs.batch.volcano.sh["):
            draft.objects.append(owner)
            for position, task in enumerate(owner.reader.child("spec").children("tasks")):
                name = task.text("name") or f"default{position}"
                yield Template(name, task.integer("replicas", default=1), task, owner)
            return


def _kai_draft(given: KubernetesObject, priorities: PriorityClasses) -> JobDraft:
    spec = given.reader.child("spec")
    note_unsupported(given, "PodGroup (KAI Scheduler)")
    groups = tuple(roles_of(spec, least_of_leaf=1))
    labels = given.metadata.text_map("labels")
    groups, missing = _connected(groups)
    draft = JobDraft(
        "kai",
        given.kind,
        KAI,
        given.namespace,
        given.name,
        [given],
        min_available=spec.integer("minMember", default=0 if groups else 1),
        groups=groups,
        min_groups=None
        if spec.get("minSubGroup") is None or not groups
        else spec.integer("minSubGroup"),
        priority=priorities.of(given, spec.text("priorityClassName"), KAI_DEFAULT_PRIORITY),
        queue=spec.text("queue") or labels.get(KAI_QUEUE, ""),
    )
    if missing is not None:
        draft.holds.append(missing)
    return draft


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
