"""Reads a dump: objects of any kinds, of several systems that schedule pods, all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Literal, cast

from attrs import evolve

from batchsched.causes import HoldKind
from batchsched.errors import Fault, KubernetesObjectError
from batchsched.kubernetes import api
from batchsched.kubernetes.devices import DevicesRead
from batchsched.kubernetes.dump_objects import DumpObjects, contents_of, sorted_objects
from batchsched.kubernetes.enqueue import Enqueue
from batchsched.kubernetes.facts import Dump, FactsReader
from batchsched.kubernetes.groups import (
    KAI_DEFAULT_PRIORITY,
    KAI_DEFAULT_QUEUE,
    BatchGroups,
    ControlledPods,
    NativeGroups,
    coscheduling_key,
    group_field,
    keep_to_pools,
    missing_pods,
    most_pods,
    note_dependents,
    phase_of,
    volcano_job_alone,
    volcano_templates,
)
from batchsched.kubernetes.job_drafts import JobDraft, Template, give_names
from batchsched.kubernetes.kueue import Flavors, Kueue
from batchsched.kubernetes.manifests import submitted_objects
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
    PODS,
    WAITING,
    Namespaces,
    Pod,
    PriorityClasses,
    note_missing_node,
    note_overcommitted,
    of_its_node,
    read_node,
    read_pod,
    read_priority_classes,
    requesting,
    without_unused_scalars,
)
from batchsched.kubernetes.protection import read_budgets, take_preemptable
from batchsched.kubernetes.queues import ROOT, read_queues, with_quotas_for
from batchsched.kubernetes.resource_quotas import used_up_by
from batchsched.kubernetes.shared_gpus import is_reservation
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
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.resources import Resource, sum_resources
from batchsched.model.rules import out_of_service
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.tasks import dependency_cycles
from batchsched.model.validation.values import cycles_of_parents, is_collection, is_text, shown

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
_ORDER = tuple(dict.fromkeys(api.SYSTEM_OF.values()))
"""The order in which jobs take their names; those without a group come last."""
_USUAL_PODS = 110
"""How many pods a node takes that does not say, as Kubernetes has it."""
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
    reading.theirs = reading.kueue_admits = admission == "theirs"
    manifests = [content for _, content in contents_of(reading, submitted)]
    if manifests and is_collection(objects):  # they are read twice
        objects = list(cast("Iterable[Mapping[str, object]]", objects))
    found = sorted_objects(reading, objects)
    new = [each for each in manifests if not found.has(each)]
    if new and not reading.faults:
        listed = [objects] if is_mapping(objects) else objects
        given = cast("Sequence[Mapping[str, object]]", [*listed, *submitted_objects(new)])
        found = sorted_objects(reading, given)
    return ObjectsReader(reading, found, now, scheduler_names=names, submits=bool(new)).dump()


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


class ObjectsReader:
    """Reads sorted objects: nodes, queues and pods, then the jobs that these pods are of."""

    def __init__(
        self,
        reading: Reading,
        objects: DumpObjects,
        now: str | datetime | float | None,
        *,
        scheduler_names: Iterable[str] = (),
        only: str | None = None,
        default_queue: str = _DEFAULT_QUEUE,
        submits: bool = False,
        leader_worker_sets: bool = True,
    ) -> None:
        """Read nodes, queues, pods, and what makes pods one job.

        Args:
            reading: the state of the reading.
            objects: the objects.
            now: the present time; None: the latest that objects tell.
            scheduler_names: further batch schedulers.
            only: the one scheduler whose jobs are read; None: those of all.
            default_queue: the queue of jobs that name none.
            submits: whether some objects are only submitted.
            leader_worker_sets: whether the labels of LeaderWorkerSets are read.

        """
        self._reading = reading
        self._objects = objects
        self._now = now
        self._only = only
        self._schedulers = {*api.BATCH_SCHEDULERS, *scheduler_names, only}
        """The schedulers whose pods without a group are jobs."""
        self._default_queue = default_queue
        self._submits = submits
        self._assumed_queues: list[str] = []
        """The queues in which Kueue has admitted jobs, and which are not there."""
        self._others: list[TaskInfo] = []
        self._drafts: list[JobDraft] = []
        self._missing: dict[tuple[str, str, str], JobDraft] = {}
        """The jobs of groups that are not there, by system, namespace and name."""
        self._facts = FactsReader(reading, objects)
        nodes = [read_node(node) for node in objects.of("", "Node")]
        if submits:
            self._submit_now()
        self._node_names = {node.name for node in nodes}
        self._queue_objects: dict[str, KubernetesObject] = {}
        self._renamed: dict[str, str] = {}
        """The names in the snapshot of ClusterQueues whose names were taken."""
        self._kai_names: dict[str, str] = {}
        """The same of KAI's queues."""
        self._queues = self._read_queues()
        pod_objects = objects.of("", "Pod")
        self._priorities, of_kai, of_workloads = self._priority_classes(pod_objects)
        labels = {one.name: one.labels for one in objects.of("", "Namespace")}
        in_use = frozenset(pod.namespace for pod in pod_objects)
        self._namespaces = Namespaces(labels, in_use | labels.keys())
        self._pods = [read_pod(pod, self._namespaces, self._priorities) for pod in pod_objects]
        self._bind(self._pods)
        self._devices = DevicesRead(objects, nodes)
        self._devices.take(self._pods)
        self._others += self._devices.reservations
        self._native = NativeGroups(objects, self._priorities)
        self._batch = BatchGroups(objects, self._priorities, of_kai)
        self._kueue = Kueue(
            objects, self._namespaces, self._priorities, of_workloads, self._renamed
        )
        self._systems = set[str]() if only is not None else self._find_systems()
        self._kube_places = not self._systems.isdisjoint(("kubernetes", "coscheduling", "kueue"))
        # Whose pods the kube-scheduler alone places, it also preempts.
        self._kube_preempts = "kubernetes" in self._systems and self._systems.isdisjoint(
            ("kai", "kueue", "volcano")
        )
        self._controlled = ControlledPods(objects, leader_worker_sets=leader_worker_sets)

    def snapshot(self, *, strict: bool = False) -> tuple[Snapshot, tuple[Notice, ...]]:
        """Return the snapshot and the notices; with `strict` they are faults."""
        reading, objects, nodes = self._reading, self._objects, self._devices.nodes
        self._assign()
        self._drafts += self._controlled.complete(
            by_kube=api.KUBE_SCHEDULER if self._only is None else ()
        )
        self._take_workloads()
        self._drafts += [one for one in self._kueue.drafts if one.pods or not one.is_taken]
        self._drafts = [draft for draft in self._drafts if _is_job(draft)]
        self._drafts += self._jobs_alone()
        self._drafts.sort(key=_naming_order)
        give_names(self._drafts)
        keep_to_pools(self._drafts, objects, nodes)
        for draft in self._drafts:
            self._hold_if_suspended(draft)
            self._hold_if_no_pods_can_be_made(draft)
            self._make_tasks(draft)
            take_preemptable(draft)
        Enqueue(self._drafts, self._queues, nodes, self._others).tell()
        topologies = Topologies(objects, nodes)
        jobs = self._jobs(topologies)
        self._devices.nodes = nodes = self._with_pods(nodes, jobs)
        if reading.theirs:
            self._let_quotas_hold_admitted(jobs)
        tasks = [task for job in jobs for task in job.tasks] + self._others
        nodes = without_unused_scalars(nodes, tasks)
        note_overcommitted(objects.of("", "Node"), nodes, tasks)
        budgets = read_budgets(objects, self._drafts, tasks)
        present = present_time(reading, self._now)
        jobs = [
            evolve(job, last_evicted=min(job.last_evicted, present))
            if job.last_evicted is not None
            else job
            for job in jobs
        ]
        if strict:
            reading.faults += [Fault(path, message) for path, message in reading.notices.each()]
        if reading.faults:
            raise KubernetesObjectError(list(dict.fromkeys(reading.faults)))
        snapshot = Snapshot(
            devices=self._devices.devices,
            counter_sets=self._devices.counter_sets,
            held=self._devices.held,
            nodes=nodes,
            jobs=jobs,
            queues=self._queues,
            other_tasks=self._others,
            topologies=topologies.found.values(),
            budgets=budgets,
            now=present,
        )
        return snapshot, reading.notices.notices()

    def dump(self) -> Dump:
        """Return the snapshot, and what stands beside it."""
        snapshot, notices = self.snapshot()
        submitted = sorted(draft.uid for draft in self._drafts if draft.is_submitted)
        return Dump(
            snapshot=snapshot,
            notices=notices,
            facts=self._facts.facts(self._drafts, snapshot, notices, self._queue_objects),
            systems=frozenset(self._systems),
            assumed=tuple(self._assumptions(snapshot)),
            submitted=submitted if self._submits else (),
        )

    def _submit_now(self) -> None:
        """Let what is submitted be made at the present time."""
        now = present_time(self._reading, self._now)
        for of_kind in self._objects.by_kind.values():
            for given in of_kind:
                metadata = given.metadata.content
                if now and isinstance(metadata, dict) and given.is_submitted:
                    metadata["creationTimestamp"] = time_text(now)

    # Queues

    def _read_queues(self) -> list[Queue]:
        """Return the queues, and keep the object of each, and their new names."""
        given = self._queue_objects
        for group in (api.VOLCANO, api.KUBE_BATCH):
            for queue in self._objects.of(group, "Queue"):
                given.setdefault(queue.name, queue)
        for group, kind, names in (
            (api.KAI, f"Queue.{api.KAI}", self._kai_names),
            (api.KUEUE, "ClusterQueue", self._renamed),
        ):
            queues = self._objects.of(group, kind.partition(".")[0])
            names.update((q.name, f"{kind}/{q.name}") for q in queues if q.name in given)
            for queue in queues:
                name = names.get(queue.name, queue.name)
                given[name] = evolve(queue, name=name)
        cohorts = self._objects.of(api.KUEUE, "Cohort")
        read = read_queues([*given.values(), *cohorts], self._kai_names)
        for cohort in cohorts:
            given.setdefault(f"cohort/{cohort.name}", cohort)
            given.setdefault(cohort.name, cohort)
        in_cycles = {
            name for c in cycles_of_parents({q.name: q.parent for q in read}) for name in c
        }
        for name in sorted(in_cycles & given.keys()):
            message = "its parents form a cycle: the queue has no parent"
            given[name].note(NoticeCode.QUEUE_MISSING, "spec", message)
        return [evolve(q, parent=None) if q.name in in_cycles else q for q in read]

    def _let_quotas_hold_admitted(self, jobs: Sequence[JobInfo]) -> None:
        """Let quotas refuse nothing that Kueue has reserved quota for."""
        has_quota = {draft.uid for draft in self._drafts if draft.has_quota}
        if not has_quota:
            return
        requests: defaultdict[str, list[Resource]] = defaultdict(list)
        for job in jobs:
            for task in job.tasks:
                status = task.status
                is_growth = any(hold.kind is HoldKind.NOT_ADMITTED for hold in task.holds)
                is_reserved = job.uid in has_quota and status in WAITING and not is_growth
                if status.holds or is_reserved:
                    requests[job.queue].append(task.resreq)
        used = {name: sum_resources(each) for name, each in requests.items()}
        in_service = (node for node in self._devices.nodes if out_of_service(node) is None)
        there = sum_resources(node.allocatable for node in in_service)
        taken = sum_resources(task.resreq for task in self._others)
        free = {name: int(most - taken.get(name)) for name, most in there.dimensions()}
        self._queues = with_quotas_for(self._queues, used, free, self._queue_objects)

    # Priorities

    def _priority_classes(
        self, pods: Sequence[KubernetesObject]
    ) -> tuple[PriorityClasses, PriorityClasses, PriorityClasses]:
        """Return the priority classes of pods and groups, of KAI's groups, and of Workloads."""
        # Callers who sort their objects by kind give all the classes that are to count.
        is_whole = self._only is None
        of_pods: dict[str, int] = {}
        for pod in pods if is_whole else ():
            spec = look_up(pod.reader.content, "spec")
            name, priority = look_up(spec, "priorityClassName"), look_up(spec, "priority")
            if type(name) is str and type(priority) is int:
                of_pods[name] = max(priority, of_pods.get(name, priority))
        given = read_priority_classes(self._objects.of(api.KUBERNETES, "PriorityClass"))
        known = {**(_SYSTEM_CLASSES if is_whole else {}), **of_pods, **given.values}
        default = KAI_DEFAULT_PRIORITY if given.default is None else given.default
        return (
            PriorityClasses(known, given.default),
            PriorityClasses({**_KAI_CLASSES, **known}, default),
            read_priority_classes(self._objects.of(api.KUEUE, "WorkloadPriorityClass")),
        )

    # Pods

    def _bind(self, pods: Iterable[Pod]) -> None:
        """Let pods for which a BindRequest is on its way be on its node."""
        requests: dict[str, tuple[str, tuple[str, ...]]] = {}
        for given in self._objects.of(api.KAI, "BindRequest"):
            spec = given.spec
            name, node = spec.text("podName"), spec.text("selectedNode")
            if name and node in self._node_names and phase_of(given) != "Failed":
                requests[f"{given.namespace}/{name}"] = node, spec.texts("selectedGPUGroups")
        for pod in pods:
            request = requests.get(pod.task.full_name)
            if request is not None and pod.task.status in WAITING:
                bound, (node, groups) = TaskStatus.BOUND, request
                labels = {f"{api.GPU_GROUP}/{group}": group for group in groups}
                labels |= pod.task.labels
                pod.task = evolve(pod.task, status=bound, node_name=node, labels=labels)

    def _find_systems(self) -> set[str]:
        systems = {
            api.SYSTEM_OF[group]
            for (group, kind), found in self._objects.by_kind.items()
            if found and kind != "PriorityClass" and group in api.SYSTEM_OF
        }
        for pod in self._pods:
            if pod.scheduler_name in api.BATCH_SCHEDULERS:
                systems.add(api.BATCH_SCHEDULERS[pod.scheduler_name])
            spec = look_up(pod.object.reader.content, "spec")
            if look_up(spec, "schedulingGroup") or look_up(spec, "workloadRef"):
                systems.add("kubernetes")
            if api.QUEUE_LABEL in pod.task.labels:
                systems.add("kueue")
            if coscheduling_key(pod) is not None:
                systems.add("coscheduling")
        if not self._schedulers.isdisjoint(api.KUBE_SCHEDULER):  # its pods are asked about
            systems.add("kubernetes")
        return systems

    def _assign(self) -> None:
        """Give every pod to its job, or to those that only occupy their nodes. O(pods)."""
        self._drafts += self._batch.drafts()
        for pod in self._pods:
            draft = None if is_reservation(pod) else self._job_of(pod)
            if draft is None or not self._is_task(pod, draft):
                self._occupy(pod)
            else:
                pod.task = self._task(pod, draft)
                draft.pods.append(pod)
        if self._reading.theirs:
            self._kueue.tell_groups()
        self._drafts += self._kueue.groups.values()
        self._drafts += [one for one in self._native.drafts if one.pods or not one.is_taken]

    def _job_of(self, pod: Pod) -> JobDraft | None:
        """Return the job of a pod; None: it is of none."""
        own, group = self._native.of_pod(pod), self._batch.of_pod(pod)
        if group is not None:
            draft = self._job_of_group(pod, *group)
            if own is not None and not isinstance(own[0], str):
                draft.aliases.append(own[0].name)
                own[0].is_taken = True
            return draft
        pod.role = None
        if own is not None:
            named, pod.role = own
            return self._job_of_group(pod, "kubernetes", named)
        labelled = self._batch.of_labelled(pod)
        if labelled is not None:
            return self._job_of_group(pod, "coscheduling", labelled)
        workload = self._kueue.workload_of(pod)
        if workload is not None:
            return None if workload.has_finished else workload
        label = pod.task.labels.get(api.GROUP_LABEL) if self._only is None else None
        if label:
            return self._kueue.pod_group(pod, label)
        single = self._single(pod)
        if single is None:
            return None
        job = self._controlled.draft_of(pod, single)
        if job is single:
            self._drafts.append(single)
        return job

    def _job_of_group(self, pod: Pod, system: str, found: JobDraft | str) -> JobDraft:
        """Return the job of a group that was found, or of one that is not there."""
        if not isinstance(found, str):
            return found
        key = system, pod.task.namespace, found
        draft = self._missing.get(key)
        if draft is None:
            draft = JobDraft(system, "PodGroup", system, pod.task.namespace, found)
            draft.is_missing, draft.min_available = True, None
            draft.holds.append(Hold(HoldKind.GROUP_MISSING, found))
            self._missing[key] = draft
            self._drafts.append(draft)
        return draft

    def _single(self, pod: Pod) -> JobDraft | None:
        """Return a job of one task, or None if it is nobody's to place."""
        name, status = pod.scheduler_name, pod.task.status
        if self._only not in (None, name):
            return None
        if name in self._schedulers:
            system = api.BATCH_SCHEDULERS.get(name, "kubernetes")
        elif api.QUEUE_LABEL in pod.task.labels:
            system = "kueue"
        elif (
            status in WAITING
            and ((self._kube_places and name in api.KUBE_SCHEDULER) or pod.object.is_submitted)
        ) or self._may_be_preempted(pod):
            system = "kubernetes"
        else:
            return None
        if name == api.YUNIKORN and status not in ENDED:
            message = "applications and queues of YuniKorn are not read: its gangs are taken apart"
            pod.object.note(NoticeCode.FIELD_IGNORED, "spec.schedulerName", message)
        draft = JobDraft(system, "Pod", "", pod.task.namespace, pod.task.name)
        draft.min_available = 1
        is_gated = any(gate.name == api.ADMISSION_GATE for gate in pod.gates)
        if is_gated and api.QUEUE_LABEL in pod.task.labels and self._reading.theirs:
            draft.holds += self._kueue.holds_without_workload(pod.object)
        if name == api.KAI_SCHEDULER and status in WAITING and self._only is None:
            draft.holds.append(Hold(HoldKind.GROUP_MISSING, api.KAI_GROUP, _NO_KAI_GROUP))
        return draft

    def _may_be_preempted(self, pod: Pod) -> bool:
        """Return whether a pod of no group runs that the kube-scheduler might preempt."""
        is_running = pod.task.status.holds and pod.scheduler_name in api.KUBE_SCHEDULER
        return self._kube_preempts and is_running and not of_its_node(pod, pod.task).is_on_each_node

    def _is_task(self, pod: Pod, draft: JobDraft) -> bool:
        """Return whether a pod is a task of its job: those that run without their group are not."""
        if not draft.is_missing:
            return True
        if self._only not in (None, pod.scheduler_name):
            return False
        if pod.task.status not in (*ENDED, TaskStatus.RELEASING):
            message = "its pod group, or a group above that, was not given: it is not placed"
            pod.object.note(NoticeCode.GROUP_MISSING, group_field(pod), message)
        return pod.task.status in WAITING

    def _task(self, pod: Pod, draft: JobDraft) -> TaskInfo:
        """Return a job's task with its holds, and note what is not supported."""
        task = of_its_node(pod, pod.task)
        if task.status in ENDED:
            return task
        note_unsupported(pod.object)
        unread = self._devices.unread.get(task.uid)
        if unread is not None and not self._devices.are_given:
            why = "pods may be placed on nodes without the devices that they claim"
            pod.object.ignore("spec.resourceClaims", why)
        if not pod.has_priority:
            self._priorities.of(pod.object, task.priority_class_name, task.priority)
        if task.status in WAITING:
            holds = pod.gates
            if not self._reading.theirs:
                holds = tuple(gate for gate in holds if gate.name not in _GATES_OF_ADMISSION)
            if any(gate.name == api.ELASTIC_GATE for gate in pod.gates):
                holds = (*holds, *draft.growth_holds)
            if unread is not None and self._devices.are_given:
                holds = (*holds, unread)
            if task.uid in self._devices.refused:
                named = self._devices.refused[task.uid]
                why = f"ResourceClaim {named} has no label {api.KAI_QUEUE}: KAI Scheduler "
                why += "refuses pods that name it"
                holds = (*holds, Hold(HoldKind.NO_QUEUE, named, why))
            return evolve(task, holds=holds) if holds else task
        if task.node_name is not None and task.node_name not in self._node_names:
            note_missing_node(pod)
            is_leaving = task.status is TaskStatus.RELEASING
            status = TaskStatus.RELEASING if is_leaving else TaskStatus.UNKNOWN
            return evolve(task, status=status, node_name=None)
        return task

    def _occupy(self, pod: Pod) -> None:
        """Let a pod that is of no job occupy its node, or leave it out."""
        task, name = pod.task, pod.scheduler_name
        usual = api.KUBE_SCHEDULER if self._only is None else (self._only,)
        if task.status.holds and task.node_name is not None:
            if task.node_name in self._node_names:
                self._others.append(of_its_node(pod, task))
            else:
                note_missing_node(pod)
        elif task.status in WAITING and name not in usual:
            message = f"left out: it is for the scheduler {name!r}"
            pod.object.note(NoticeCode.OTHER_SCHEDULER, "spec.schedulerName", message)

    # Jobs

    def _take_workloads(self) -> None:
        """Give queues and holds of Workloads to groups that have one."""
        kueue = self._kueue
        for draft in self._drafts:
            if draft.kind == "Pod" or draft.system == "kueue":
                continue
            pods = sorted(draft.pods, key=lambda pod: pod.task.name)
            of_pods = (kueue.workload_of(pod) for pod in pods)
            owned = (kueue.owned_by(given, draft.api_group) for given in draft.objects)
            workload = next((one for one in chain(of_pods, owned) if one is not None), None)
            if workload is not None:
                kueue.take_over(draft, workload)

    def _jobs_alone(self) -> list[JobDraft]:
        """Return the Jobs that wait and of which nothing else is there.

        Without a pod, a group or a Workload nothing would tell that they wait.
        """
        if self._only is not None:
            return []
        objects, found = self._objects, list[JobDraft]()
        mains = [draft.main for draft in self._drafts if draft.main is not None]
        known = self._owners_of([*mains, *objects.of(api.KUEUE, "Workload")])
        known |= {main.reader.path for main in mains}
        with_pods: set[str] | None = None
        """The paths of the Jobs that have pods; None: nothing has asked for them yet."""
        for job in objects.of(api.BATCH, "Job"):
            has_ended = "True" in (job.status_of("Complete"), job.status_of("Failed"))
            # What else owns it is told of, or of no kind that is read.
            is_owned = any(owner.kind != "CronJob" for owner in objects.owners(job))
            if job.reader.path in known or has_ended or is_owned:
                continue
            if _is_suspended(job):
                found.append(self._suspended_alone(job))
            elif not job.status.integer("active", default=0):
                if with_pods is None:
                    with_pods = self._owners_of(pod.object for pod in self._pods)
                if job.reader.path not in with_pods:
                    found += self._podless(job)
        volcano_jobs = objects.of(api.VOLCANO_JOBS, "Job")
        if volcano_jobs:
            # Groups that ended and pods that run without their group are no jobs.
            known |= self._owners_of(objects.of(api.VOLCANO, "PodGroup"))
            live = (pod.object for pod in self._pods if pod.task.status not in ENDED)
            known |= self._owners_of(live)
        for job in volcano_jobs:
            alone = job.reader.path not in known
            draft = volcano_job_alone(job, self._priorities) if alone else None
            if draft is not None:
                found.append(draft)
        return found

    def _owners_of(self, objects: Iterable[KubernetesObject]) -> set[str]:
        """Return the paths of the owners of objects."""
        return {owner.reader.path for one in objects for owner in self._objects.owner_objects(one)}

    def _podless(self, job: KubernetesObject) -> Iterator[JobDraft]:
        """Yield a Job that may start pods and has none, with the ResourceQuota that keeps them."""
        count, spec = most_pods(job), job.spec.child("template").child("spec")
        if not count:
            return
        name = spec.text("schedulerName")
        draft = JobDraft.of(job, api.BATCH_SCHEDULERS.get(name, "kubernetes"))
        draft.min_available = 1
        draft.queue = job.labels.get(api.KAI_QUEUE, "") if name == api.KAI_SCHEDULER else ""
        template = Template("main", count, job.spec, job)
        used_up = used_up_by(self._objects, template.pod_object)
        if used_up is not None:
            draft.holds.append(used_up)
            draft.templates.append(template)
        yield draft

    def _suspended_alone(self, job: KubernetesObject) -> JobDraft:
        count, local_queue = most_pods(job), _local_queue(job)
        draft = JobDraft.of(job, "kueue" if local_queue else "kubernetes")
        # Kueue admits all of it or nothing; else its pods start one by one.
        draft.min_available = count if local_queue else min(count, 1)
        draft.local_queue = local_queue
        if local_queue:
            draft.queue = self._kueue.queue_of(job.namespace, local_queue)[0]
        draft.holds += self._holds_of_suspended(job, has_workload=False)
        draft.templates.append(Template("main", count, job.spec, job))
        return draft

    def _hold_if_no_pods_can_be_made(self, draft: JobDraft) -> None:
        """Hold a group with fewer pods than it needs, if a ResourceQuota is why."""
        is_short = len(draft.pods) < (draft.min_available or 0)
        if not is_short or draft.holds or draft.templates or draft.is_missing:
            return
        templates = missing_pods(draft, self._objects)
        holds = (used_up_by(self._objects, each.pod_object) for each in templates)
        draft.holds += islice((hold for hold in holds if hold is not None), 1)

    def _hold_if_suspended(self, draft: JobDraft) -> None:
        main, has_workload = draft.main, draft.is_suspended_by_kueue
        if draft.holds or main is None or (has_workload and not self._reading.theirs):
            return
        owners = self._objects.owner_objects(main)
        job = next(filter(_is_suspended, [main, *owners]), None)
        if job is None:
            return
        if draft.has_quota:
            message = f"Kueue has admitted it to {draft.queue}, and not resumed its Job yet"
            draft.holds.append(Hold(HoldKind.NOT_ADMITTED, draft.queue, message))
            return
        if not has_workload:
            draft.local_queue = draft.local_queue or _local_queue(job)
        draft.holds += self._holds_of_suspended(job, has_workload=has_workload)

    def _holds_of_suspended(self, job: KubernetesObject, *, has_workload: bool) -> Sequence[Hold]:
        """Return what holds a Job that is suspended: Kueue, if it is for a LocalQueue."""
        if not has_workload and _local_queue(job):
            return self._kueue.holds_without_workload(job)
        return [Hold(HoldKind.SUSPENDED, job.name, f"Job {job.name} is suspended")]

    def _make_tasks(self, draft: JobDraft) -> None:
        """Make tasks of the templates of a job without pods that is held."""
        is_volcanos = draft.system == "volcano" and bool(draft.objects)
        if is_volcanos:
            note_dependents(draft, self._objects)
        if any(pod.task.status not in ENDED for pod in draft.pods):
            return
        if self._reading.theirs and not draft.holds:
            return
        if is_volcanos and not draft.templates:
            draft.templates = volcano_templates(draft, self._objects)
        draft.make_tasks(self._namespaces, self._priorities)

    def _jobs(self, topologies: Topologies) -> list[JobInfo]:
        """Return the jobs, and add queues that must be there, such as the default one. O(tasks)."""
        flavors, counting = Flavors(self._objects, self._renamed), self._counting_pods()
        names = {queue.name for queue in self._queues}
        jobs: list[JobInfo] = []
        # Kueue goes on with what it has admitted to a queue that holds only what is new.
        with_quota = {d.queue for d in self._drafts if d.has_quota and self._only is None}
        held = {name: h for name, h in self._kueue.holds_of_new().items() if name in with_quota}
        self._queues = [
            evolve(q, state=QueueStatus.OPEN) if q.name in held else q for q in self._queues
        ]
        for draft in self._drafts:
            named = self._queue_of(draft)
            if counting and (named or self._default_queue) in counting:
                for pod in (*draft.pods, *draft.made):
                    pod.task = requesting(pod.task, {PODS: 1000})
            if named is not None and self._only is None:
                flavors.let_in(draft, named)
            queue = self._default_queue if named is None else named
            if queue not in names:
                if named is None or draft.has_quota:
                    self._queues.append(Queue(name=queue))
                    names.add(queue)
                    if named is not None:
                        self._assumed_queues.append(queue)
                elif queue == ROOT and draft.system == "volcano":
                    draft.holds.append(Hold(HoldKind.NO_QUEUE, ROOT, _NOT_IN_ROOT))
                elif draft.objects and draft.system in _WITH_QUEUES:
                    message = f"queue {queue!r} was not given: the job is left out of every cycle"
                    draft.objects[0].note(NoticeCode.QUEUE_MISSING, "spec.queue", message)
            if queue in held and not draft.has_quota:
                kinds = {hold.kind for hold in draft.holds}
                draft.holds += [] if HoldKind.QUEUE_CLOSED in kinds else [held[queue]]
            schedulers = {p.scheduler_name for p in draft.pods if p.task.status in WAITING}
            if len(schedulers) > 1 and (draft.min_available or 0) > 1 and draft.objects:
                draft.holds.append(Hold(HoldKind.SCHEDULERS, ", ".join(sorted(schedulers))))
            jobs.append(topologies.asked_by(draft.job(queue), draft))
        return self._without_cycles(jobs)

    def _counting_pods(self) -> set[str]:
        """Return the queues that count pods: by quotas, of Volcano's also by those above them."""
        queues = {queue.name: queue for queue in self._queues}
        found = {name for name, queue in queues.items() if _counts_pods(queue)}
        below = {name for name, given in self._queue_objects.items() if given.kind == "Queue"}
        for name in below - found if found else ():
            if any(_counts_pods(above) for above in _path_of(name, queues)):
                found.add(name)
        return found

    def _with_pods(self, nodes: Sequence[NodeInfo], jobs: Iterable[JobInfo]) -> list[NodeInfo]:
        """Return nodes that have pods for those that count; how many fit is asked besides."""
        if not any(PODS in task.resreq.scalars for job in jobs for task in job.tasks):
            return list(nodes)
        found: list[NodeInfo] = []
        for node in nodes:
            most = _USUAL_PODS if node.max_tasks is None else node.max_tasks
            has = node.allocatable + Resource(scalars={PODS: 1000 * most})
            found.append(evolve(node, allocatable=has))
        return found

    def _without_cycles(self, jobs: list[JobInfo]) -> list[JobInfo]:
        """Hold the jobs that depend on each other, which no annotation can be refused for."""
        chains = {
            uid: " -> ".join((*cycle, cycle[0]))
            for cycle in dependency_cycles(jobs)
            for uid in cycle
        }
        for position, (draft, job) in enumerate(zip(self._drafts, jobs, strict=True)):
            if job.uid in chains:
                message = f"its dependencies form a cycle: {chains[job.uid]}"
                hold = Hold(HoldKind.DEPENDENCIES, api.DEPENDS_ON, message)
                jobs[position] = evolve(job, depends_on=(), holds=(*job.holds, hold))
                if draft.main is not None:
                    draft.main.ignore(annotation(api.DEPENDS_ON), message)
        return jobs

    def _queue_of(self, draft: JobDraft) -> str | None:
        """Return the queue of a job; None: the default queue."""
        is_kais, is_kueues = draft.system == "kai", draft.system == "kueue"
        if draft.queue:
            if is_kais:
                return self._kai_names.get(draft.queue, draft.queue)
            is_default = draft.queue == self._default_queue and not is_kueues
            return None if is_default and not draft.local_queue else draft.queue
        labels = [pod.task.labels for pod in draft.pods]
        labels += [given.labels for given in draft.objects]
        if draft.system != "volcano" or draft.is_missing:
            of_kai = next((one[api.KAI_QUEUE] for one in labels if one.get(api.KAI_QUEUE)), None)
            if of_kai is not None and (is_kais or not draft.objects):
                return self._kai_names.get(of_kai, of_kai)
            local = draft.local_queue or next(
                (one[api.QUEUE_LABEL] for one in labels if one.get(api.QUEUE_LABEL)), ""
            )
            if local and not is_kais and self._only is None:
                draft.local_queue = local
                queue, hold = self._kueue.queue_of(draft.namespace, local)
                if hold is not None and hold not in draft.holds:
                    draft.holds.append(hold)
                return queue
        if is_kais and draft.objects:
            return self._kai_names.get(KAI_DEFAULT_QUEUE, KAI_DEFAULT_QUEUE)
        return None

    # What stands beside the snapshot

    def _assumptions(self, snapshot: Snapshot) -> Iterator[str]:
        if self._now is None:
            yield f"now is {time_text(snapshot.now)}, the latest time in the dump"
        used = any(job.queue == _DEFAULT_QUEUE for job in snapshot.jobs)
        is_there = any(queue.name == _DEFAULT_QUEUE for queue in snapshot.queues)
        if used and is_there and _DEFAULT_QUEUE not in self._queue_objects:
            yield "queue default is not in the dump: it has weight 1 and no limit"
        for name in sorted(self._assumed_queues):
            yield f"ClusterQueue {name}, which admitted jobs, is not in the dump: it has no limit"
        for group, kind in ((api.KUEUE, "Workload"), (api.VOLCANO, "PodGroup")):
            system = api.SYSTEM_OF[group]
            waits = any(draft.kind == "Job" and draft.system == system for draft in self._drafts)
            if waits and not self._objects.of(group, kind):
                yield f"there are no {kind}s of {group}: none are in the dump"
        if not self._reading.theirs:
            yield "admission is decided here: what Volcano and Kueue have not admitted may start"


def _path_of(name: str | None, queues: Mapping[str, Queue]) -> Iterator[Queue]:
    while name is not None and name in queues:
        yield queues[name]
        name = queues[name].parent


def _counts_pods(queue: Queue) -> bool:
    return any(
        PODS in each.scalars for each in (queue.deserved, queue.limit, queue.guarantee) if each
    )


def _is_suspended(job: KubernetesObject) -> bool:
    is_jobs = job.api_group == api.BATCH
    return is_jobs and look_up(look_up(job.reader.content, "spec"), "suspend") is True


def _local_queue(job: KubernetesObject) -> str:
    return job.labels.get(api.QUEUE_LABEL, "")


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
