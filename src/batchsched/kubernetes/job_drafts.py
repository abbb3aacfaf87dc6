"""Jobs of a dump while they are put together, whichever system they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, field, frozen

from batchsched.kubernetes import api
from batchsched.kubernetes.annotations import read_plan, with_annotated_properties
from batchsched.kubernetes.objects import KubernetesObject, Reader, look_up
from batchsched.kubernetes.pods import WAITING, Namespaces, Pod, PriorityClasses, read_pod
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Hold, JobInfo, Preemptible, TaskGroup, TaskInfo, TaskStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.topology import TopologyRequest

FAILED_CHECKS = ("Retry", "Rejected")
"""The states of Kueue's admission checks that take its quota from a Workload."""
WITHOUT_ROLE = "-"
"""The group of pods without a role, in a PodGroup with roles; not a valid name of a role."""
MOST_MADE = 100_000
"""How many tasks one set of templates may become."""


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
    labels: Mapping[str, str] = EMPTY
    """What else the pods are labelled with."""
    part_size: int = 0
    """How many of them, in order, are one part of a Volcano Job's task; 0: it has no parts."""

    @property
    def pod_object(self) -> KubernetesObject:
        """The template as a pod; notices and faults name the object that has it."""
        given = self.above.child("template")
        spec, metadata = given.get("spec"), given.child("metadata").content
        content: dict[str, object] = {
            "metadata": {key: look_up(metadata, key) for key in ("labels", "annotations")},
            "spec": {} if spec is None else spec,
        }
        reader = Reader(content, given.reading, ".template", self.above)
        source, below = self.source, reader.child("metadata")
        return KubernetesObject(source.kind, reader, below, source.name, source.namespace)


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
    preemptible: Preemptible = Preemptible.ALWAYS
    evict_whole: bool = False
    claim_delay: float | None = None
    last_evicted: float | None = None
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
    """Whether another job stands for it, so that it is no job without pods."""
    aliases: list[str] = field(factory=list[str])
    pods: list[Pod] = field(factory=list[Pod])
    templates: list[Template] = field(factory=list[Template])
    made: list[Pod] = field(factory=list[Pod])
    """What its templates would become."""
    job_name: str = ""
    """Its name in the snapshot."""

    @classmethod
    def of(cls, given: KubernetesObject, system: str = "") -> JobDraft:
        """Return the job that an object defines, of a system or else of that of its API group."""
        group = given.api_group
        name = system or api.SYSTEM_OF[group]
        return cls(name, given.kind, group, given.namespace, given.name, [given])

    @property
    def main(self) -> KubernetesObject | None:
        """The object that defines it, or that of its first pod."""
        if self.objects:
            return self.objects[0]
        return min((pod.object for pod in self.pods), key=lambda o: o.name, default=None)

    @property
    def own(self) -> Iterator[KubernetesObject]:
        """Its objects, and those of its pods."""
        yield from self.objects
        for pod in self.pods:
            yield pod.object

    @property
    def is_submitted(self) -> bool:
        """Whether it is only submitted."""
        return any(given.is_submitted for given in self.own)

    @property
    def uid(self) -> str:
        """The UID of the job in the snapshot."""
        return f"{self.namespace}/{self.job_name}"

    @property
    def _keeps_quota(self) -> bool:
        """Whether its quota is kept: not if it has been admitted, and that is asked anew."""
        return self.has_quota and (bool(self.holds) or self.objects[0].reading.kueue_admits)

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
            given = template.pod_object
            note_unsupported(given, "Pod")
            pod = read_pod(given, namespaces, priorities)
            pod.role = template.set_name
            first = evolve(
                pod.task,
                namespace=self.namespace,
                creation_time=template.source.creation_time(),
                status=TaskStatus.PENDING,
                node_name=None,
                start_time=None,
            )
            labels = {**first.labels, **template.labels}
            for index in range(template.count):
                uid = f"{self.uid}/{template.set_name}/{index}"
                name = f"{self.job_name}-{template.set_name}-{index}"
                if template.part_size:
                    labels = {**labels, api.PARTITION: str(index // template.part_size)}
                task = evolve(first, uid=uid, name=name, labels=labels)
                self.made.append(evolve(pod, task=task))

    def job(self, queue: str) -> JobInfo:
        """Return the job with its tasks. O(tasks)."""
        inner = {group.parent for group in self.groups}

        def placed(pod: Pod) -> TaskInfo:
            if not self.groups:
                return pod.task
            no_leaf = not pod.role or pod.role in inner
            return evolve(pod.task, group=WITHOUT_ROLE if no_leaf else pod.role)

        tasks = [placed(pod) for pod in (*self.pods, *self.made)]
        waiting = [pod for pod in self.pods if pod.task.status in WAITING]
        priority, least = self.priority, self.min_available
        if priority is None:
            priority = max((pod.own_priority for pod in self.pods), default=0)
        created = [given.creation_time() for given in self.objects[:1]]
        created = created or [pod.task.creation_time for pod in self.pods]
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
            preempts=self.system == "kai" or not any(map(_never_preempts, self.own)),
            evict_whole=self.evict_whole,
            claim_delay=self.claim_delay,
            last_evicted=self.last_evicted,
            quota_reserved=self._keeps_quota,
            creation_time=min(created, default=0.0),
        )
        main = self.main
        if main is not None:
            job = with_annotated_properties(job, main)
        return evolve(
            with_tasks(job, tasks),
            estimate=self.estimate if job.estimate is None else job.estimate,
            holds=(*self.holds, *job.holds),
            plan=read_plan(
                (pod.object, pod.task) for pod in waiting if pod.task.status is TaskStatus.PENDING
            ),
        )


def _never_preempts(given: KubernetesObject) -> bool:
    """Return whether nobody is to be evicted for a pod or a group; KAI Scheduler does not ask."""
    spec = look_up(given.reader.content, "spec")
    return look_up(spec, "preemptionPolicy") == "Never"


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
