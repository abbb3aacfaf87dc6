"""Reads a dump: objects of any kinds, of several systems that schedule pods, all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, cast

from attrs import define, evolve, field

from batchsched.causes import HoldKind
from batchsched.errors import Fault, KubernetesObjectError
from batchsched.kubernetes import api
from batchsched.kubernetes.batch_groups import (
    KAI_DEFAULT_PRIORITY,
    KAI_DEFAULT_QUEUE,
    BatchGroups,
    NodePools,
    coscheduling_key,
    note_dependents,
    phase_of,
    volcano_job_alone,
    volcano_templates,
)
from batchsched.kubernetes.devices import DevicesRead
from batchsched.kubernetes.dump_objects import DumpObjects, contents_of, owners_of, sorted_objects
from batchsched.kubernetes.enqueue import Enqueue
from batchsched.kubernetes.facts import Dump
from batchsched.kubernetes.facts_reader import FactsReader
from batchsched.kubernetes.flavors import Flavors
from batchsched.kubernetes.job_drafts import JobDraft, Template, give_names, is_true, suspended_job
from batchsched.kubernetes.jobs import ControlledPods
from batchsched.kubernetes.kueue import Kueue
from batchsched.kubernetes.manifests import is_submitted, submitted_objects
from batchsched.kubernetes.native_groups import NativeGroups
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Objects,
    Reading,
    annotation,
    is_mapping,
    look_up,
    present_time,
    time_text,
)
from batchsched.kubernetes.pods import (
    ENDED,
    WAITING,
    Namespaces,
    Pod,
    PriorityClasses,
    note_missing_node,
    note_overcommitted,
    on_no_node,
    read_node,
    read_pod,
    read_priority_classes,
    without_unused_scalars,
)
from batchsched.kubernetes.queues import ROOT, read_queues, with_room_for
from batchsched.kubernetes.shared_gpus import is_reservation, labels_of_groups, with_parts
from batchsched.kubernetes.topologies import Topologies
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import (
    Hold,
    JobInfo,
    NodeInfo,
    Queue,
    QueueStatus,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.immutable import EMPTY
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.tasks import dependency_cycles
from batchsched.model.validation.values import (
    cycles_of_parents,
    is_collection,
    is_text,
    shown,
)

_SYSTEMS = {"volcano": "volcano", "kai-scheduler": "kai", "kube-batch": "kube-batch"}
"""The names of batch schedulers, and of their systems."""
_DEFAULT_QUEUE = "default"
_GATES_OF_ADMISSION = (
    *(api.ADMISSION_GATE, api.ELASTIC_GATE),
    "scheduling.volcano.sh/queue-allocation-gate",
)
_WITH_QUEUES = ("volcano", "kube-batch", "kai")
"""The systems whose groups name queues."""
_SYSTEM_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_KAI_CLASSES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
_ENDED_PHASES = {"volcano": ("Completed",), "coscheduling": ("Finished", "Failed")}
"""The phases of groups whose pods have ended, by system."""
_ORDER = ("kubernetes", "volcano", "kube-batch", "kai", "coscheduling", "kueue")
"""The order in which jobs take their names; those without a group come last."""
_NO_KAI_GROUP = (
    f"KAI Scheduler passes over a pod without the annotation {api.KAI_GROUP}, "
    "which its pod grouper writes"
)
_NOT_IN_ROOT = "no job can be in queue root; it must name a queue below it"


def read_dump(
    objects: Objects,
    /,
    *,
    now: str | datetime | float | None = None,
    scheduler_names: Iterable[str] | None = None,
    admission: Literal["theirs", "ours"] = "theirs",
    submitted: Objects = (),
) -> Dump:
    """Read the objects of a cluster on which several systems may schedule pods.

    Jobs are Kubernetes' own groups, groups of Volcano, kube-batch and KAI Scheduler, Kueue's
    Workloads, pods of one Job or LeaderWorkerSet and single pods that some batch scheduler is to
    place, and Jobs that wait although none of these is there yet. What keeps a job or a pod from
    being placed, whatever room there is, becomes a hold: a scheduling gate, a group that is not
    there, an admission that is lacking. The order of the objects does not matter.
    O(objects + owner references).

    Args:
        objects: mappings of any kinds, or Lists of them, such as those of ``kubectl get -o
            json``. What an object is, its API group and kind together decide; other kinds are
            ignored.
        now: the present time: an RFC 3339 string, an aware datetime, or seconds since 1970. None:
            the latest creation time, or time of a condition or of a node's report, in the dump.
        scheduler_names: names of batch schedulers besides volcano, kai-scheduler, kube-batch and
            yunikorn. Their pods without a group are jobs of one task.
        admission: ``"theirs"``: what Volcano's action enqueue and Kueue have not admitted is held.
            ``"ours"``: it is not, and pods that do not exist yet are made from templates, so that
            the queues' quotas decide here.
        submitted: manifests that are submitted now: they are read with what controllers make of
            them (`submitted_objects`). What is there already stays as it is.

    Raises:
        KubernetesObjectError: values cannot be read; it lists every fault.
        SnapshotError: the objects contradict each other, such as two pods with one UID; it
            lists every fault.

    >>> gang = {"metadata": {"name": "g"}, "apiVersion": "scheduling.k8s.io/v1beta1",
    ...         "kind": "PodGroup", "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}
    >>> pod = {"metadata": {"name": "p"}, "apiVersion": "v1", "kind": "Pod",
    ...        "spec": {"schedulingGroup": {"podGroupName": "g"},
    ...                 "schedulingGates": [{"name": "example.com/license"}]}}
    >>> dump = read_dump([pod, gang])
    >>> dump.find("p"), dump.snapshot.jobs[0].tasks[0].holds[0].name
    ('default/g', 'example.com/license')

    """
    reading = Reading()
    names = _scheduler_names(reading, scheduler_names)
    if not is_text(admission) or admission not in ("theirs", "ours"):
        reading.fault("admission", f"expected 'theirs' or 'ours', got {shown(admission)}")
    if reading.faults:
        raise KubernetesObjectError(reading.faults)
    theirs = admission == "theirs"
    reading.kueue_admits = theirs
    manifests = [content for _, content in contents_of(reading, submitted)]
    if manifests and is_collection(objects):  # they are read twice
        objects = list(cast("Iterable[Mapping[str, object]]", objects))
    found = sorted_objects(reading, objects)
    new = [each for each in manifests if not found.has(each)]
    if new and not reading.faults:
        listed = [objects] if is_mapping(objects) else objects
        given = cast("Sequence[Mapping[str, object]]", [*listed, *submitted_objects(new)])
        found = sorted_objects(reading, given)
    return ObjectsReader(
        reading, found, scheduler_names=names, theirs=theirs, submits=bool(new)
    ).dump(now)


def _scheduler_names(reading: Reading, given: object) -> frozenset[str]:
    if given is None:
        return frozenset()
    if is_text(given):
        return frozenset([given])
    if is_collection(given):
        try:
            names = list(given)
        except Exception:  # an iterable of the caller's may raise anything
            names = [None]
        if all(is_text(name) for name in names):
            return frozenset(str(name) for name in names)
    reading.fault("scheduler_names", f"expected names of schedulers, got {shown(given)}")
    return frozenset()


@define(eq=False)
class ObjectsReader:
    """Reads sorted objects."""

    reading: Reading
    objects: DumpObjects
    scheduler_names: frozenset[str] = frozenset()
    """Further batch schedulers."""
    theirs: bool = True
    """Whether the admission of others counts."""
    only: str | None = None
    """The one scheduler whose jobs are read; None: those of all."""
    default_queue: str = _DEFAULT_QUEUE
    submits: bool = False
    """Whether some objects are only submitted."""
    leader_worker_sets: bool = True
    """Whether the labels of LeaderWorkerSets are read."""
    unread_claims: set[str] = field(factory=set[str])
    """The pods of which a claim was not given, by UID."""
    drafts: list[JobDraft] = field(factory=list[JobDraft])
    others: list[TaskInfo] = field(factory=list[TaskInfo])
    systems: set[str] = field(factory=set[str])
    nodes: frozenset[str] = frozenset()
    kube_places: bool = False
    """Whether the kube-scheduler places jobs."""
    missing: dict[tuple[str, str, str], JobDraft] = field(
        factory=dict[tuple[str, str, str], JobDraft]
    )
    """The jobs of groups that are not there, by system, namespace and name."""
    kai_names: dict[str, str] = field(factory=dict[str, str])
    """The names in the snapshot of KAI's queues whose names were taken."""
    facts: FactsReader = field(init=False)
    assumed_queues: list[str] = field(factory=list[str])
    """The queues in which Kueue has admitted jobs, and which are not there."""

    def snapshot(
        self, now: str | datetime | float | None, *, strict: bool = False
    ) -> tuple[Snapshot, tuple[Notice, ...], Mapping[str, KubernetesObject]]:
        """Return the snapshot, the notices (with `strict` they are faults), and the queues."""
        reading, objects = self.reading, self.objects
        self.facts = FactsReader(reading, objects)
        node_objects = objects.of("", "Node")
        nodes = [read_node(node) for node in node_objects]
        if self.submits:
            self._submit_now(present_time(reading, now))
        self.nodes = frozenset(node.name for node in nodes)
        queues, queue_objects, renamed = self._queues()
        pod_objects = objects.of("", "Pod")
        general, of_kai, of_workloads = self._priority_classes(pod_objects)
        namespaces = self._namespaces(pod_objects)
        pods = [read_pod(pod, namespaces, general) for pod in pod_objects]
        there = DevicesRead.read(objects, nodes)
        pods = there.with_claims(with_parts(self._bound(pods), nodes, are_devices=there.has_gpus))
        nodes, self.unread_claims = there.nodes, there.unread
        native = NativeGroups.read(objects, general)
        batch = BatchGroups.read(objects, general, of_kai, theirs=self.theirs)
        kueue = Kueue.read(objects, general, of_workloads, renamed, theirs=self.theirs)
        if self.only is None:
            self._find_systems(pods)
        controlled = ControlledPods(objects, self.leader_worker_sets)
        self._assign(pods, native, batch, kueue, controlled, general)
        by_kube = frozenset(api.KUBE_SCHEDULER if self.only is None else ())
        self.drafts += controlled.complete(by_kube=by_kube)
        self._take_workloads(kueue)
        self.drafts += [one for one in kueue.drafts if one.pods or not one.is_taken]
        self.drafts = [draft for draft in self.drafts if _is_job(draft)]
        self.drafts += self._jobs_alone(pods, kueue, general)
        self.drafts.sort(key=_naming_order)
        give_names(self.drafts)
        NodePools.read(objects, nodes).let_see(self.drafts)
        for draft in self.drafts:
            self._hold_if_suspended(draft, kueue)
            self._make_tasks(draft, namespaces, general)
        Enqueue.read(self.drafts, queues, nodes, self.others).tell()
        topologies = Topologies.read(objects, nodes)
        jobs = self._jobs(kueue, queues, topologies, Flavors.read(objects, renamed))
        if self.theirs:
            queues = self._with_room_for_admitted(queues, jobs, nodes, queue_objects)
        tasks = [task for job in jobs for task in job.tasks] + self.others
        nodes = without_unused_scalars(nodes, tasks)
        note_overcommitted(node_objects, nodes, tasks)
        present = present_time(reading, now)
        if strict:
            reading.faults += [Fault(path, message) for path, message in reading.notices.each()]
        if reading.faults:
            raise KubernetesObjectError(list(dict.fromkeys(reading.faults)))
        snapshot = Snapshot(
            devices=there.devices,
            counter_sets=there.counter_sets,
            held=there.held,
            nodes=nodes,
            jobs=jobs,
            queues=queues,
            other_tasks=self.others,
            topologies=topologies.found.values(),
            now=present,
        )
        return snapshot, reading.notices.notices(), queue_objects

    def _submit_now(self, now: float) -> None:
        """Let what is submitted be made at the present time."""
        for of_kind in self.objects.by_kind.values():
            for given in of_kind:
                metadata = given.metadata.content
                if now and isinstance(metadata, dict) and is_submitted(given):
                    metadata["creationTimestamp"] = time_text(now)

    def _submitted(self) -> Iterator[str]:
        """Yield the UIDs of the jobs that are only submitted, sorted."""
        yield from sorted(d.uid for d in self.drafts if any(map(is_submitted, d.own)))

    def dump(self, now: str | datetime | float | None) -> Dump:
        """Return the snapshot, and what stands beside it."""
        snapshot, notices, queue_objects = self.snapshot(now)
        return Dump(
            snapshot=snapshot,
            notices=notices,
            facts=self.facts.facts(self.drafts, snapshot, notices, queue_objects),
            systems=frozenset(self.systems),
            assumed=tuple(self._assumptions(snapshot, queue_objects, now)),
            submitted=tuple(self._submitted()) if self.submits else (),
        )

    # Queues

    def _queues(self) -> tuple[list[Queue], dict[str, KubernetesObject], dict[str, str]]:
        """Return the queues, the object of each, and the new names of ClusterQueues."""
        given: dict[str, KubernetesObject] = {}
        for group in (api.VOLCANO, api.KUBE_BATCH):
            for queue in self.objects.of(group, "Queue"):
                given.setdefault(queue.name, queue)
        of_kai = self.objects.of(api.KAI, "Queue")
        self.kai_names = {
            queue.name: f"Queue.{api.KAI}/{queue.name}" for queue in of_kai if queue.name in given
        }
        for queue in of_kai:
            name = self.kai_names.get(queue.name, queue.name)
            given[name] = _renamed_kai_queue(queue, self.kai_names)
        cluster = self.objects.of(api.KUEUE, "ClusterQueue")
        renamed = {q.name: f"ClusterQueue/{q.name}" for q in cluster if q.name in given}
        for queue in cluster:
            name = renamed.get(queue.name, queue.name)
            given[name] = evolve(queue, name=name)
        cohorts = self.objects.of(api.KUEUE, "Cohort")
        queues = read_queues([*given.values(), *cohorts])
        for cohort in cohorts:
            given.setdefault(f"cohort/{cohort.name}", cohort)
            given.setdefault(cohort.name, cohort)
        parents = {queue.name: queue.parent for queue in queues}
        for cycle in cycles_of_parents(parents):
            for name in cycle:
                parents[name] = None
                if name in given:
                    message = "its parents form a cycle: the queue has no parent"
                    given[name].note(NoticeCode.QUEUE_MISSING, "spec", message)
        queues = [evolve(queue, parent=parents[queue.name]) for queue in queues]
        return queues, given, renamed

    def _with_room_for_admitted(
        self,
        queues: Sequence[Queue],
        jobs: Sequence[JobInfo],
        nodes: Iterable[NodeInfo],
        given: Mapping[str, KubernetesObject],
    ) -> list[Queue]:
        """Return the queues in which quotas refuse nothing that Kueue has reserved quota for."""
        has_quota = {draft.uid for draft in self.drafts if draft.has_quota}
        if not has_quota:
            return list(queues)
        requests: defaultdict[str, list[Resource]] = defaultdict(list)
        for job in jobs:
            for task in job.tasks:
                status = task.status
                is_growth = any(hold.kind is HoldKind.NOT_ADMITTED for hold in task.holds)
                is_reserved = job.uid in has_quota and status in WAITING and not is_growth
                if status.holds or is_reserved:
                    requests[job.queue].append(task.resreq)
        used = {name: sum_resources(each) for name, each in requests.items()}
        there = sum_resources(n.allocatable for n in nodes if out_of_service(n) is None)
        taken = sum_resources(task.resreq for task in self.others)
        room = {name: int(most - taken.get(name)) for name, most in there.dimensions()}
        return with_room_for(queues, used, room, given)

    # Priorities

    def _priority_classes(
        self, pods: Sequence[KubernetesObject]
    ) -> tuple[PriorityClasses, PriorityClasses, PriorityClasses]:
        """Return the priority classes of pods and groups, of KAI's groups, and of Workloads."""
        # Callers who sort their objects by kind give all the classes that are to count.
        is_whole = self.only is None
        of_pods: dict[str, int] = {}
        for pod in pods if is_whole else ():
            spec = look_up(pod.reader.content, "spec")
            name, priority = look_up(spec, "priorityClassName"), look_up(spec, "priority")
            if type(name) is str and type(priority) is int:
                of_pods[name] = max(priority, of_pods.get(name, priority))
        given = read_priority_classes(self.objects.of(api.KUBERNETES, "PriorityClass"))
        known = {**(_SYSTEM_CLASSES if is_whole else {}), **of_pods, **given.values}
        default = KAI_DEFAULT_PRIORITY if given.default is None else given.default
        return (
            PriorityClasses(known, given.default),
            PriorityClasses({**_KAI_CLASSES, **known}, default),
            read_priority_classes(self.objects.of(api.KUEUE, "WorkloadPriorityClass")),
        )

    # Pods

    def _namespaces(self, pods: Iterable[KubernetesObject]) -> Namespaces:
        labels: dict[str, Mapping[str, str]] = dict.fromkeys(
            sorted({pod.namespace for pod in pods}), EMPTY
        )
        given = self.objects.of("", "Namespace")
        for namespace in given:
            labels[namespace.name] = namespace.labels
        return Namespaces(labels, labels_are_known=bool(given))

    def _bound(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods; those for which a BindRequest is on its way are on its node."""
        requests: dict[str, tuple[str, tuple[str, ...]]] = {}
        for given in self.objects.of(api.KAI, "BindRequest"):
            spec = given.spec
            name, node = spec.text("podName"), spec.text("selectedNode")
            if name and node in self.nodes and phase_of(given) != "Failed":
                requests[f"{given.namespace}/{name}"] = node, spec.texts("selectedGPUGroups")
        found: list[Pod] = []
        for pod in pods:
            request = requests.get(pod.task.full_name)
            if request is not None and pod.task.status in WAITING:
                node_name, groups = request
                labels = labels_of_groups(groups) | dict(pod.task.labels)
                task = evolve(pod.task, status=TaskStatus.BOUND, node_name=node_name, labels=labels)
                found.append(evolve(pod, task=task))
            else:
                found.append(pod)
        return found

    def _find_systems(self, pods: Iterable[Pod]) -> None:
        groups = {
            group
            for (group, kind), found in self.objects.by_kind.items()
            if found and kind != "PriorityClass"
        }
        names = {
            api.KUBERNETES: "kubernetes",
            api.VOLCANO: "volcano",
            api.VOLCANO_JOBS: "volcano",
            api.KUBE_BATCH: "kube-batch",
            api.KAI: "kai",
            api.KUEUE: "kueue",
            **dict.fromkeys(api.COSCHEDULING, "coscheduling"),
        }
        self.systems.update(names[group] for group in groups if group in names)
        for pod in pods:
            if pod.scheduler_name in _SYSTEMS:
                self.systems.add(_SYSTEMS[pod.scheduler_name])
            elif pod.scheduler_name == api.YUNIKORN:
                self.systems.add(api.YUNIKORN)
            spec = look_up(pod.object.reader.content, "spec")
            if look_up(spec, "schedulingGroup") or look_up(spec, "workloadRef"):
                self.systems.add("kubernetes")
            if api.QUEUE_LABEL in pod.task.labels:
                self.systems.add("kueue")
            if coscheduling_key(pod) is not None:
                self.systems.add("coscheduling")
        self.kube_places = not self.systems.isdisjoint(("kubernetes", "coscheduling", "kueue"))

    def _assign(
        self,
        pods: Iterable[Pod],
        native: NativeGroups,
        batch: BatchGroups,
        kueue: Kueue,
        controlled: ControlledPods,
        priorities: PriorityClasses,
    ) -> None:
        """Give every pod to its job, or to those that only occupy their nodes. O(pods)."""
        translated: list[JobDraft] = []
        self.drafts += batch.drafts()
        for pod in pods:
            if is_reservation(pod):
                self._occupy(pod)
                continue
            own = native.of_pod(pod)
            group = batch.of_pod(pod, pod.object.annotations)
            if group is not None:
                system, named = group
                draft = self._missing(pod, system, named) if isinstance(named, str) else named
                if isinstance(own, tuple):
                    translated.append(own[0])
                    draft.add_alias(own[0].name)
                self._take(draft, pod, pod.role or None, priorities)
            elif isinstance(own, str):
                self._take(self._missing(pod, "kubernetes", own), pod, None, priorities)
            elif own is not None:
                self._take(own[0], pod, own[1], priorities)
            elif (labelled := batch.of_labelled(pod)) is not None:
                if isinstance(labelled, str):
                    labelled = self._missing(pod, "coscheduling", labelled)
                self._take(labelled, pod, None, priorities)
            else:
                self._assign_by_queue(pod, kueue, controlled, priorities)
        if self.theirs:
            kueue.tell_groups()
        self.drafts += kueue.groups.values()
        gone = {draft.main.reader.path for draft in translated if draft.main is not None}
        for draft in native.drafts:
            if draft.pods or draft.main is None or draft.main.reader.path not in gone:
                self.drafts.append(draft)

    def _missing(self, pod: Pod, system: str, name: str) -> JobDraft:
        """Return the job of pods whose group is not there."""
        key = system, pod.task.namespace, name
        draft = self.missing.get(key)
        if draft is None:
            draft = JobDraft(system, "PodGroup", system, pod.task.namespace, name)
            draft.is_missing, draft.min_available = True, None
            draft.holds.append(Hold(HoldKind.GROUP_MISSING, name))
            self.missing[key] = draft
            self.drafts.append(draft)
        return draft

    def _assign_by_queue(
        self, pod: Pod, kueue: Kueue, controlled: ControlledPods, priorities: PriorityClasses
    ) -> None:
        """Give a pod without a group to its Workload, to its Job, or to a job of its own."""
        role: str | None = None
        workload = kueue.workload_of(pod, self.objects)
        label = pod.task.labels.get(api.GROUP_LABEL) if self.only is None else None
        if workload is not None:
            draft = None if workload.has_finished else workload
        elif label:
            draft = kueue.pod_group(pod, label)
        else:
            draft = single = self._single(pod)
            if single is not None:
                draft, role = controlled.draft_of(pod, single)
                if draft is single:
                    self.drafts.append(single)
        if draft is None:
            self._occupy(pod)
        else:
            self._take(draft, pod, role, priorities)

    def _single(self, pod: Pod) -> JobDraft | None:
        """Return a job of one task, or None if it is nobody's to place."""
        name, labels = pod.scheduler_name, pod.task.labels
        if self.only not in (None, name):
            return None
        if name in (*_SYSTEMS, api.YUNIKORN, self.only) or name in self.scheduler_names:
            system = _SYSTEMS.get(name, api.YUNIKORN if name == api.YUNIKORN else "kubernetes")
        elif api.QUEUE_LABEL in labels:
            system = "kueue"
        elif pod.task.status in WAITING and (
            (self.kube_places and name in api.KUBE_SCHEDULER) or is_submitted(pod.object)
        ):
            system = "kubernetes"
        else:
            return None
        if name == api.YUNIKORN and pod.task.status not in ENDED:
            pod.object.note(
                NoticeCode.FIELD_IGNORED,
                "spec.schedulerName",
                "applications and queues of YuniKorn are not read: its gangs are taken apart",
            )
        draft = JobDraft(
            system, "Pod", "", pod.task.namespace, pod.task.name, min_available=1, priority=None
        )
        if name == api.KAI_SCHEDULER and pod.task.status in WAITING and self.only is None:
            draft.holds.append(Hold(HoldKind.GROUP_MISSING, api.KAI_GROUP, _NO_KAI_GROUP))
        return draft

    def _take(
        self, draft: JobDraft, pod: Pod, role: str | None, priorities: PriorityClasses
    ) -> None:
        """Give a pod to its job; one that runs without its group only occupies its node."""
        if draft.is_missing and self.only not in (None, pod.scheduler_name):
            self._occupy(pod)
            return
        if draft.is_missing:
            if pod.task.status not in (*ENDED, TaskStatus.RELEASING):
                pod.object.note(
                    NoticeCode.GROUP_MISSING,
                    _group_field(pod),
                    "its pod group, or a group above that, was not given: it is not placed",
                )
            if pod.task.status not in WAITING:
                self._occupy(pod)
                return
        task = self._task(pod, priorities)
        if any(gate.name == api.ELASTIC_GATE for gate in pod.gates) and task.status in WAITING:
            task = evolve(task, holds=(*task.holds, *draft.growth_holds))
        draft.pods.append((pod if task is pod.task else evolve(pod, task=task), role))

    def _task(self, pod: Pod, priorities: PriorityClasses) -> TaskInfo:
        """Return a job's task with its holds, and note what is not supported."""
        task = pod.task
        if task.status in ENDED:
            return task
        note_unsupported(pod.object)
        if pod.task.uid in self.unread_claims:
            why = "pods may be placed on nodes without the devices that they claim"
            pod.object.ignore("spec.resourceClaims", why)
        if pod.has_unknown_class(priorities):
            priorities.of(pod.object, task.priority_class_name, task.priority)
        if task.status in WAITING:
            gates = pod.gates
            if not self.theirs:
                gates = tuple(gate for gate in gates if gate.name not in _GATES_OF_ADMISSION)
            return evolve(task, holds=gates) if gates else task
        if task.node_name is not None and task.node_name not in self.nodes:
            note_missing_node(pod)
            return on_no_node(task)
        return task

    def _occupy(self, pod: Pod) -> None:
        """Let a pod that is of no job occupy its node, or leave it out."""
        task = pod.task
        if task.status.holds and task.node_name is not None:
            if task.node_name in self.nodes:
                is_daemon = any(owner.kind == "DaemonSet" for owner in owners_of(pod.object))
                self.others.append(evolve(task, is_on_each_node=True) if is_daemon else task)
            else:
                note_missing_node(pod)
        elif task.status in WAITING and (
            pod.scheduler_name not in api.KUBE_SCHEDULER
            if self.only is None
            else pod.scheduler_name != self.only
        ):
            pod.object.note(
                NoticeCode.OTHER_SCHEDULER,
                "spec.schedulerName",
                f"left out: it is for the scheduler {pod.scheduler_name!r}",
            )

    # Jobs

    def _take_workloads(self, kueue: Kueue) -> None:
        """Give queues and holds of Workloads to groups that have one."""
        for draft in self.drafts:
            if draft.kind == "Pod" or draft.system == "kueue":
                continue
            pods = sorted(draft.pods, key=lambda each: each[0].task.name)
            found = (kueue.workload_of(pod, self.objects) for pod, _ in pods)
            workload = next((one for one in found if one is not None), None)
            if workload is None:
                group = draft.api_group
                owned = (kueue.owned_by(given, group, self.objects) for given in draft.objects)
                workload = next((one for one in owned if one is not None), None)
            if workload is not None:
                kueue.take_over(draft, workload)

    def _jobs_alone(
        self, pods: Iterable[Pod], kueue: Kueue, priorities: PriorityClasses
    ) -> list[JobDraft]:
        """Return the Jobs that wait and of which nothing else is there.

        Without a pod, a group or a Workload nothing would tell that they wait.
        """
        if self.only is not None:
            return []
        mains = [draft.main for draft in self.drafts if draft.main is not None]
        known = self._owners_of([*mains, *self.objects.of(api.KUEUE, "Workload")])
        known |= {main.reader.path for main in mains}
        found: list[JobDraft] = []
        for job in self.objects.of("batch", "Job"):
            has_ended = is_true(job, "Complete") or is_true(job, "Failed")
            if job.reader.path in known or has_ended or suspended_job([job]) is None:
                continue
            # What else owns it is told of, or of no kind that is read.
            if all(owner.kind == "CronJob" for owner in self.objects.owners(job)):
                found.append(self._suspended_alone(job, kueue))
        volcano_jobs = self.objects.of(api.VOLCANO_JOBS, "Job")
        if volcano_jobs:
            # Groups that ended and pods that run without their group are no jobs.
            known |= self._owners_of(self.objects.of(api.VOLCANO, "PodGroup"))
            known |= self._owners_of(pod.object for pod in pods if pod.task.status not in ENDED)
        for job in volcano_jobs:
            draft = None if job.reader.path in known else volcano_job_alone(job, priorities)
            if draft is not None:
                found.append(draft)
        return found

    def _owners_of(self, objects: Iterable[KubernetesObject]) -> set[str]:
        """Return the paths of the owners of objects."""
        return {owner.reader.path for one in objects for owner in self.objects.owner_objects(one)}

    def _suspended_alone(self, job: KubernetesObject, kueue: Kueue) -> JobDraft:
        spec, is_queued = job.spec, bool(_local_queue(job))
        count = spec.integer("parallelism", default=1, least=0)
        if spec.get("completions") is not None:
            count = min(count, spec.integer("completions", least=0))
        return JobDraft(
            "kueue" if is_queued else "kubernetes",
            "Job",
            "batch",
            job.namespace,
            job.name,
            [job],
            # Kueue admits all of it or nothing; else its pods start one by one.
            min_available=count if is_queued else min(count, 1),
            queue=kueue.queue_of(job.namespace, _local_queue(job))[0] if is_queued else "",
            local_queue=_local_queue(job),
            holds=list(self._holds_of_suspended(job, kueue, has_workload=False)),
            templates=[Template("main", count, spec, job)],
        )

    def _hold_if_suspended(self, draft: JobDraft, kueue: Kueue) -> None:
        if draft.holds or (draft.is_suspended_by_kueue and not self.theirs):
            return
        main = draft.main
        if main is None:
            return
        job = suspended_job([main, *self.objects.owner_objects(main)])
        if job is not None:
            has_workload = draft.is_suspended_by_kueue
            if draft.has_quota and self.theirs:
                message = f"Kueue has admitted it to {draft.queue}, and not resumed its Job yet"
                draft.holds.append(Hold(HoldKind.NOT_ADMITTED, draft.queue, message))
                return
            if not has_workload:
                draft.local_queue = draft.local_queue or _local_queue(job)
            draft.holds += self._holds_of_suspended(job, kueue, has_workload=has_workload)

    def _holds_of_suspended(
        self, job: KubernetesObject, kueue: Kueue, *, has_workload: bool
    ) -> Sequence[Hold]:
        """Return what holds a Job that is suspended: Kueue, if it is for a LocalQueue."""
        if not has_workload and _local_queue(job):
            return kueue.holds_without_workload(job, theirs=self.theirs)
        return [Hold(HoldKind.SUSPENDED, job.name, f"Job {job.name} is suspended")]

    def _make_tasks(
        self, draft: JobDraft, namespaces: Namespaces, priorities: PriorityClasses
    ) -> None:
        if draft.system == "volcano" and draft.objects:
            note_dependents(draft, self.objects)
        if any(pod.task.status not in ENDED for pod, _ in draft.pods):
            return
        if self.theirs and not draft.holds:
            return
        if draft.system == "volcano" and draft.objects and not draft.templates:
            draft.templates = list(volcano_templates(draft, self.objects))
        draft.make_tasks(namespaces, priorities)

    def _jobs(
        self, kueue: Kueue, queues: list[Queue], topologies: Topologies, flavors: Flavors
    ) -> list[JobInfo]:
        """Return the jobs, and add queues that must be there, such as the default one. O(tasks)."""
        names = {queue.name for queue in queues}
        jobs: list[JobInfo] = []
        # Kueue goes on with what it has admitted to a queue that holds only what is new.
        with_quota = {draft.queue for draft in self.drafts if draft.has_quota and self.only is None}
        held = {name: hold for name in with_quota if (hold := kueue.holds_new(name)) is not None}
        queues[:] = [evolve(q, state=QueueStatus.OPEN) if q.name in held else q for q in queues]
        for draft in self.drafts:
            queue = self._queue_of(draft, kueue)
            if queue is not None and self.only is None:
                flavors.let_in(draft, queue)
            if queue is None:
                queue = self.default_queue
                if queue not in names:
                    queues.append(Queue(name=queue))
                    names.add(queue)
            elif queue not in names and draft.has_quota:
                queues.append(Queue(name=queue))
                names.add(queue)
                self.assumed_queues.append(queue)
            elif queue == ROOT and queue not in names and draft.system == "volcano":
                draft.holds.append(Hold(HoldKind.NO_QUEUE, ROOT, _NOT_IN_ROOT))
            elif queue not in names and draft.objects and draft.system in _WITH_QUEUES:
                draft.objects[0].note(
                    NoticeCode.QUEUE_MISSING,
                    "spec.queue",
                    f"queue {queue!r} was not given: the job is left out of every cycle",
                )
            if queue in held and not draft.has_quota:
                kinds = {hold.kind for hold in draft.holds}
                draft.holds += [] if HoldKind.QUEUE_CLOSED in kinds else [held[queue]]
            schedulers = {p.scheduler_name for p, _ in draft.pods if p.task.status in WAITING}
            if len(schedulers) > 1 and (draft.min_available or 0) > 1 and draft.objects:
                draft.holds.append(Hold(HoldKind.SCHEDULERS, ", ".join(sorted(schedulers))))
            jobs.append(topologies.asked_by(draft.job(queue), draft))
        return self._without_cycles(jobs)

    def _without_cycles(self, jobs: list[JobInfo]) -> list[JobInfo]:
        """Hold the jobs that depend on each other, which no annotation can be refused for."""
        chains = {
            uid: " -> ".join((*cycle, cycle[0]))
            for cycle in dependency_cycles(jobs)
            for uid in cycle
        }
        for position, (draft, job) in enumerate(zip(self.drafts, jobs, strict=True)):
            if job.uid in chains:
                message = f"its dependencies form a cycle: {chains[job.uid]}"
                hold = Hold(HoldKind.DEPENDENCIES, api.DEPENDS_ON, message)
                jobs[position] = evolve(job, depends_on=(), holds=(*job.holds, hold))
                if draft.main is not None:
                    draft.main.ignore(annotation(api.DEPENDS_ON), message)
        return jobs

    def _queue_of(self, draft: JobDraft, kueue: Kueue) -> str | None:
        """Return the queue of a job; None: the default queue."""
        if draft.queue:
            if draft.system == "kai":
                return self.kai_names.get(draft.queue, draft.queue)
            is_default = draft.queue == self.default_queue and draft.system != "kueue"
            return None if is_default and not draft.local_queue else draft.queue
        labels = [pod.task.labels for pod, _ in draft.pods]
        labels += [given.labels for given in draft.objects]
        if draft.system != "volcano" or draft.is_missing:
            of_kai = next((one[api.KAI_QUEUE] for one in labels if one.get(api.KAI_QUEUE)), None)
            if of_kai is not None and (draft.system == "kai" or not draft.objects):
                return self.kai_names.get(of_kai, of_kai)
            local = draft.local_queue or next(
                (one[api.QUEUE_LABEL] for one in labels if one.get(api.QUEUE_LABEL)), ""
            )
            if local and draft.system != "kai" and self.only is None:
                draft.local_queue = local
                queue, hold = kueue.queue_of(draft.namespace, local)
                if hold is not None:
                    draft.holds.append(hold)
                return queue
        if draft.system == "kai" and draft.objects:
            return self.kai_names.get(KAI_DEFAULT_QUEUE, KAI_DEFAULT_QUEUE)
        return None

    # What stands beside the snapshot

    def _assumptions(
        self, snapshot: Snapshot, queue_objects: Collection[str], now: object
    ) -> Iterator[str]:
        if now is None:
            yield f"now is {time_text(snapshot.now)}, the latest time in the dump"
        used = any(job.queue == _DEFAULT_QUEUE for job in snapshot.jobs)
        is_there = any(queue.name == _DEFAULT_QUEUE for queue in snapshot.queues)
        if used and is_there and _DEFAULT_QUEUE not in queue_objects:
            yield "queue default is not in the dump: it has weight 1 and no limit"
        for name in sorted(self.assumed_queues):
            yield f"ClusterQueue {name}, which admitted jobs, is not in the dump: it has no limit"
        for system, group, kind in (
            ("kueue", api.KUEUE, "Workload"),
            ("volcano", api.VOLCANO, "PodGroup"),
        ):
            waits = any(draft.kind == "Job" and draft.system == system for draft in self.drafts)
            if waits and not self.objects.of(group, kind):
                yield f"there are no {kind}s of {group}: none are in the dump"
        if not self.theirs:
            yield "admission is decided here: what Volcano and Kueue have not admitted may start"


def _local_queue(job: KubernetesObject) -> str:
    return job.labels.get(api.QUEUE_LABEL, "")


def _renamed_kai_queue(given: KubernetesObject, names: Mapping[str, str]) -> KubernetesObject:
    """Return a queue whose name, and whose parent's, may have been taken by others."""
    parent = given.spec.text("parentQueue")
    if parent in names:
        spec = {**given.spec.content, "parentQueue": names[parent]}
        reader = given.reader.replaced({**given.reader.content, "spec": spec})
        given = evolve(given, reader=reader)
    return evolve(given, name=names.get(given.name, given.name))


def _group_field(pod: Pod) -> str:
    """Return the path of what names the group of a pod."""
    annotations = pod.object.annotations
    key = api.KAI_GROUP if annotations.get(api.KAI_GROUP) else pod.group_key
    if key:
        return annotation(key)
    for name in ("schedulingGroup", "workloadRef"):
        if pod.object.spec.get(name) is not None:
            return f"spec.{name}"
    return f"metadata.labels[{coscheduling_key(pod)!r}]"


def _is_job(draft: JobDraft) -> bool:
    """Return whether there is anything to tell of a job."""
    if draft.pods:
        return True
    if draft.is_missing and (draft.kind == "Workload" or not draft.objects):
        return False
    # Its pods may have been deleted with their Job.
    ended = _ENDED_PHASES.get(draft.system, ())
    return not ended or phase_of(draft.objects[0]) not in ended


def _naming_order(draft: JobDraft) -> tuple[int, bool, str, str, str]:
    has_no_group = draft.kind in ("Pod", "Job", "LeaderWorkerSet")
    order = len(_ORDER) if has_no_group else _ORDER.index(draft.system)
    return order, not draft.objects, draft.kind, draft.namespace, draft.name
