"""Jobs of a dump while they are put together, whichever system they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, field, frozen

from batchsched.kubernetes import api
from batchsched.kubernetes.annotations import read_plan, with_annotated_properties
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.facts import Told
from batchsched.kubernetes.objects import KubernetesObject, Reader, look_up, mappings_in, text_at
from batchsched.kubernetes.pods import WAITING, Namespaces, Pod, PriorityClasses, read_pod
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Hold, JobInfo, TaskGroup, TaskInfo, TaskStatus
from batchsched.model.topology import TopologyRequest

FAILED_CHECKS = ("Retry", "Rejected")
"""The states of Kueue's admission checks that take its quota from a Workload."""
WITHOUT_ROLE = "-"
"""The group of pods without a role, in a PodGroup with roles; not a valid name of a role."""
MOST_MADE = 100_000
"""How many tasks one set of templates may become."""
_KUBE_SCHEDULER = "the kube-scheduler"
_WRITERS = {
    api.KUBERNETES: _KUBE_SCHEDULER,
    **dict.fromkeys(api.COSCHEDULING, _KUBE_SCHEDULER),
    api.VOLCANO: "Volcano",
    api.VOLCANO_JOBS: "Volcano",
    api.KUBE_BATCH: "kube-batch",
    api.KAI: "KAI Scheduler",
    api.KUEUE: "Kueue",
}
"""API group to who writes the conditions of its objects."""
_SCHEDULERS = {
    "default-scheduler": _KUBE_SCHEDULER,
    "volcano": "Volcano",
    "kai-scheduler": "KAI Scheduler",
    "yunikorn": "YuniKorn",
    "kube-batch": "kube-batch",
}
"""The name of a scheduler, as pods have it, to who that is."""


@frozen
class Template:
    """A template of pods that do not exist yet."""

    set_name: str
    count: int
    above: Reader
    """The mapping that has the template at the key ``template``."""
    source: KubernetesObject
    """The object that has it."""
    least: int = 0
    """How many of them must be able to start together."""

    @property
    def pod_object(self) -> KubernetesObject:
        """The template as a pod; notices and faults name the object that has it."""
        return _template_pod(self)


@define(eq=False)
class JobDraft:
    """A job without its tasks, and the pods that were found for it."""

    system: str
    kind: str
    """The kind of its own object, or of the one that is missing."""
    api_group: str
    namespace: str
    name: str
    objects: list[KubernetesObject] = field(factory=list[KubernetesObject])
    """Its own objects: groups, the root first, and a Workload."""
    min_available: int | None = 0
    """None: all of its pods that wait."""
    max_available: int | None = None
    groups: tuple[TaskGroup, ...] = ()
    min_groups: int | None = None
    topology: TopologyRequest | None = None
    """What its group as a whole asks of one level."""
    priority: int | None = None
    """None: the highest of its pods."""
    preemptible: bool = True
    queue: str = ""
    """Empty: the default queue."""
    local_queue: str = ""
    estimate: float | None = None
    holds: list[Hold] = field(factory=list[Hold])
    is_suspended_by_kueue: bool = False
    """Whether a Workload says whether its owner may run."""
    growth_holds: list[Hold] = field(factory=list[Hold])
    """What holds those of its pods by which it grows, until Kueue has admitted the larger job."""
    has_quota: bool = False
    """Whether Kueue has reserved quota for it."""
    is_missing: bool = False
    """Whether its group is not there, so that only pods that wait are its tasks."""
    has_finished: bool = False
    """Whether its Workload has finished, is on another cluster, or became part of another; then it
    is no job."""
    is_taken: bool = False
    """Whether another job has taken over its holds and its queue."""
    aliases: list[str] = field(factory=list[str])
    pods: list[tuple[Pod, str | None]] = field(factory=list[tuple[Pod, str | None]])
    """Its pods with the roles that they name."""
    templates: list[Template] = field(factory=list[Template])
    made: list[tuple[TaskInfo, str | None]] = field(factory=list[tuple[TaskInfo, str | None]])
    job_name: str = ""
    """Its name in the snapshot."""

    @property
    def main(self) -> KubernetesObject | None:
        """The object that defines it, or that of its first pod."""
        if self.objects:
            return self.objects[0]
        return min((pod.object for pod, _ in self.pods), key=lambda o: o.name, default=None)

    @property
    def own(self) -> Iterator[KubernetesObject]:
        """Its objects, and those of its pods."""
        yield from self.objects
        for pod, _ in self.pods:
            yield pod.object

    @property
    def uid(self) -> str:
        """The UID of the job in the snapshot."""
        return f"{self.namespace}/{self.job_name}"

    @property
    def has_fixed_priority(self) -> bool:
        """Whether nobody can change its priority any more."""
        # What Kueue has reserved quota for, the kube-scheduler places by the priority of its pods.
        by_pods = self.priority is None or (self.system == "kueue" and self.has_quota)
        return by_pods or self.system == "kubernetes"

    def make_tasks(self, namespaces: Namespaces, priorities: PriorityClasses) -> None:
        """Make the tasks of its templates. O(tasks)."""
        names = {group.name for group in self.groups}
        if self.templates and names.isdisjoint(one.set_name for one in self.templates):
            # Nothing says which template is of which group.
            self.groups, self.min_groups = (), None
            least = sum(template.least for template in self.templates)
            self.min_available = max(self.min_available or 0, least)
        for template in self.templates:
            if template.count > MOST_MADE:
                template.above.fault("", f"expected at most {MOST_MADE} pods of one template")
                continue
            if template.count < 1:
                continue
            pod = template.pod_object
            note_unsupported(pod, "Pod")
            first = read_pod(pod, namespaces, priorities).task
            for index in range(template.count):
                self.made.append(
                    (
                        evolve(
                            first,
                            uid=f"{self.uid}/{template.set_name}/{index}",
                            name=f"{self.job_name}-{template.set_name}-{index}",
                            namespace=self.namespace,
                            creation_time=template.source.creation_time(),
                            status=TaskStatus.PENDING,
                            node_name=None,
                            start_time=None,
                        ),
                        template.set_name,
                    )
                )

    def job(self, queue: str) -> JobInfo:
        """Return the job with its tasks. O(tasks)."""
        inner = {group.parent for group in self.groups}

        def placed(task: TaskInfo, role: str | None) -> TaskInfo:
            if not self.groups:
                return task
            return evolve(task, group=WITHOUT_ROLE if not role or role in inner else role)

        tasks = [placed(pod.task, role) for pod, role in self.pods]
        tasks += [placed(task, role) for task, role in self.made]
        waiting = [(pod.object, pod.task) for pod, _ in self.pods if pod.task.status in WAITING]
        pods = [pod for pod, _ in self.pods]
        main = self.main
        priority = self.priority
        if priority is None:
            priority = max((pod.own_priority for pod in pods), default=0)
        created = [pod.task.creation_time for pod in pods]
        least = self.min_available
        job = JobInfo(
            name=self.job_name,
            namespace=self.namespace,
            queue=queue,
            min_available=len(waiting) if least is None else least,
            max_available=self.max_available,
            groups=self.groups,
            min_groups=self.min_groups,
            priority=priority,
            preemptible=self.preemptible,
            creation_time=self.objects[0].creation_time()
            if self.objects
            else min(created, default=0.0),
        )
        if main is not None:
            job = with_annotated_properties(job, main)
        if self.estimate is not None and job.estimate is None:
            job = evolve(job, estimate=self.estimate)
        return evolve(
            with_tasks(job, tasks),
            holds=(*self.holds, *job.holds),
            plan=read_plan(each for each in waiting if each[1].status is TaskStatus.PENDING),
        )

    def add_alias(self, *names: str) -> None:
        """Add names by which it is found."""
        self.aliases += names


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


def _template_pod(template: Template) -> KubernetesObject:
    given = template.above.child("template")
    spec, metadata = given.get("spec"), given.child("metadata").content
    content: dict[str, object] = {
        "metadata": {key: look_up(metadata, key) for key in ("labels", "annotations")},
        "spec": {} if spec is None else spec,
    }
    reader = Reader(content, given.reading, ".template", template.above)
    return KubernetesObject(
        template.source.kind,
        reader,
        reader.child("metadata"),
        template.source.name,
        template.source.namespace,
    )


def owner_names(draft: JobDraft, objects: DumpObjects) -> Iterator[str]:
    """Yield all names by which a job is found, some several times. O(pods)."""
    yield draft.name
    yield from draft.aliases
    if draft.objects or draft.kind == "LeaderWorkerSet":
        yield f"{draft.kind.lower()}/{draft.name}"
        yield f"{draft.kind.lower()}.{draft.api_group}/{draft.name}"
    for given in draft.objects:
        yield given.name
        for owner in objects.owners(given):
            yield from owner.names()
    for pod, _ in draft.pods:
        yield pod.task.name
        for owner in objects.owners(pod.object):
            yield from owner.names()
        job_name = pod.task.labels.get("volcano.sh/job-name")
        if job_name:
            yield job_name


def told_of(draft: JobDraft) -> list[Told]:
    """Return the conditions of a job's objects, and of pods that wait, the newest first."""
    newest: dict[Told, float | None] = {}
    for told in _all_told(draft):
        same, time = evolve(told, time=None), told.time
        before = newest.get(same)
        newest[same] = time if before is None else before if time is None else max(time, before)
    found = [evolve(told, time=time) for told, time in newest.items()]
    found.sort(key=lambda told: (told.type, told.status, told.reason, told.message, told.who))
    found.sort(key=lambda told: float("-inf") if told.time is None else told.time, reverse=True)
    return found


def _all_told(draft: JobDraft) -> Iterator[Told]:
    for given in draft.objects:
        who = _WRITERS.get(given.api_group, "")
        status = look_up(given.reader.content, "status")
        for key in ("conditions", "schedulingConditions"):
            for condition in mappings_in(look_up(status, key)):
                if text_at(condition, "type"):
                    yield from _conditions(given, condition, who)
        yield from _said_otherwise(given, status, who)
        since = given.annotations.get("kai.scheduler/stale-podgroup-timestamp")
        if since:
            yield Told(
                type="Stale",
                status="True",
                message=f"stale since {since}",
                who=who,
                time=_time(given, since),
            )
    for pod, _ in draft.pods:
        if pod.task.status in WAITING:
            content = pod.object.reader.content
            name = text_at(look_up(content, "spec"), "schedulerName") or "default-scheduler"
            who = _SCHEDULERS.get(name, f"the scheduler {name}")
            for condition in mappings_in(look_up(look_up(content, "status"), "conditions")):
                if look_up(condition, "type") == "PodScheduled":
                    for each in _conditions(pod.object, condition, who):
                        if each.status == "False" and each.reason != "SchedulingGated":
                            yield each


def _said_otherwise(given: KubernetesObject, status: object, who: str) -> Iterator[Told]:
    """Yield the phase of a Volcano Job, and what admission checks of Kueue say that failed."""

    def told(said: object, type_name: str, value: str, reason: str, who: str) -> Told:
        return Told(
            type=type_name,
            status=value,
            reason=reason,
            message=text_at(said, "message"),
            who=who,
            time=_time(given, look_up(said, "lastTransitionTime")),
        )

    state = look_up(status, "state")
    if text_at(state, "phase"):
        yield told(state, text_at(state, "phase"), "True", text_at(state, "reason"), who)
    for check in mappings_in(look_up(status, "admissionChecks")):
        name = text_at(check, "name")
        if text_at(check, "state") in FAILED_CHECKS:
            yield told(check, name, "False", text_at(check, "state"), f"the check {name}")


def _conditions(
    given: KubernetesObject, condition: Mapping[str, object], who: str
) -> Iterator[Told]:
    """Yield a condition of an object; one of KAI Scheduler for each of its reasons."""
    time = _time(given, look_up(condition, "lastTransitionTime"))
    own = text_at(condition, "type"), text_at(condition, "status")
    for said in list(mappings_in(look_up(condition, "reasons"))) or [condition]:
        reason, message = text_at(said, "reason"), text_at(said, "message")
        yield Told(type=own[0], status=own[1], reason=reason, message=message, who=who, time=time)


def _time(given: KubernetesObject, time: object) -> float | None:
    try:
        return given.reader.reading.seconds(time)
    except ValueError:
        return None  # only a text that is told


def is_true(given: KubernetesObject, condition: str) -> bool:
    """Return whether a condition in the status of an object is True."""
    status = look_up(given.reader.content, "status")
    return any(
        look_up(each, "type") == condition and look_up(each, "status") == "True"
        for each in mappings_in(look_up(status, "conditions"))
    )


def give_names(drafts: Iterable[JobDraft]) -> None:
    """Give every job a name that is unique in its namespace; the first keeps its own."""
    taken: set[str] = set()
    for draft in drafts:
        names = [draft.name, f"{draft.kind}/{draft.name}"]
        names.append(f"{draft.kind}.{draft.api_group}/{draft.name}")
        number = 1
        while f"{draft.namespace}/{names[0]}" in taken:
            del names[0]
            if not names:
                number += 1
                names.append(f"{draft.kind}.{draft.api_group}/{draft.name}/{number}")
        draft.job_name = names[0]
        taken.add(draft.uid)


def suspended_job(owners: Sequence[KubernetesObject]) -> KubernetesObject | None:
    """Return the first batch/v1 Job among owners that is suspended, or None."""
    for owner in owners:
        spec = look_up(owner.reader.content, "spec")
        if owner.api_group == api.BATCH and look_up(spec, "suspend") is True:
            return owner
    return None
