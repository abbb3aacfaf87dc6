"""Reads what Kueue says of jobs: Workloads, LocalQueues, and labels of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, evolve, field

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects, owners_of
from batchsched.kubernetes.job_drafts import FAILED_CHECKS, JobDraft, Template, is_true
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Reader,
    annotation,
    look_up,
    mappings_in,
    whole_number,
)
from batchsched.kubernetes.pods import Pod, PriorityClasses, label_selector
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Hold
from batchsched.model.notice import NoticeCode

_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
_WORKLOAD = "kueue.x-k8s.io/workload"
_DEFAULT = "default"
_MOST_NAMED = 3
_GROWS = "the job grows: of the pods that it is to have, those that exist are told"
_NOT_YET = "its quota is reserved, but Kueue has not admitted it yet"
_NOT_TRIED = "Kueue has not tried it yet"
_NAMESPACE = "kubernetes.io/metadata.name"
"""The label that the API server gives each namespace, its name."""
_OTHER_NAMESPACE = "namespace doesn't match ClusterQueue selector"
"""What Kueue says of a Workload whose namespace may not use the queue."""


@define(eq=False)
class Kueue:
    """The jobs of Workloads, and the queues that LocalQueues stand for."""

    drafts: list[JobDraft] = field(factory=list[JobDraft])
    """A job for every Workload that has not finished, in order of name."""
    groups: dict[str, JobDraft] = field(factory=dict[str, JobDraft])
    """The jobs of pod groups without a Workload, by namespace/name."""
    _by_name: dict[str, JobDraft] = field(factory=dict[str, JobDraft])
    _by_uid: dict[str, JobDraft] = field(factory=dict[str, JobDraft])
    _by_owner: dict[tuple[str, str, str, str], JobDraft] = field(
        factory=dict[tuple[str, str, str, str], JobDraft]
    )
    _local: dict[str, KubernetesObject] = field(factory=dict[str, KubernetesObject])
    _cluster: dict[str, KubernetesObject] = field(factory=dict[str, KubernetesObject])
    _renamed: Mapping[str, str] = field(factory=dict[str, str])
    _namespaces: dict[str, Mapping[str, str]] = field(factory=dict[str, "Mapping[str, str]"])
    """The labels of namespaces, as far as they were given."""

    @classmethod
    def read(
        cls,
        objects: DumpObjects,
        priorities: PriorityClasses,
        of_workloads: PriorityClasses,
        renamed: Mapping[str, str],
        *,
        theirs: bool,
    ) -> Kueue:
        """Return what Kueue's objects say. O(Workloads).

        Args:
            objects: all objects.
            priorities: the PriorityClasses.
            of_workloads: the WorkloadPriorityClasses.
            renamed: the names in the snapshot of ClusterQueues whose names were taken.
            theirs: whether Kueue decides admission.

        """
        found = cls()
        found._renamed = renamed
        found._local = {one.full_name: one for one in objects.of(api.KUEUE, "LocalQueue")}
        found._cluster = {one.name: one for one in objects.of(api.KUEUE, "ClusterQueue")}
        found._namespaces = {
            one.name: {_NAMESPACE: one.name, **one.labels} for one in objects.of("", "Namespace")
        }
        drafts: list[JobDraft] = []
        for given in objects.of(api.KUEUE, "Workload"):
            draft = found._draft(given, priorities, of_workloads, theirs=theirs)
            found._by_name[given.full_name] = draft
            drafts.append(draft)
            draft.has_finished = is_true(given, "Finished") or _runs_elsewhere(given)
            if not draft.has_finished:
                found.drafts.append(draft)
        if theirs:
            found._tell_who_is_before()
        joined = found._join_slices()
        drafts.sort(key=lambda one: (one.has_finished, -one.objects[0].creation_time(), one.name))
        for draft in drafts:
            given = draft.objects[0]
            # Owners further above may have other jobs too, as a CronJob does.
            for owner in owners_of(given):
                job = joined.get(draft, draft)
                if owner.uid:
                    found._by_uid.setdefault(owner.uid, job)
                key = given.namespace, owner.group, owner.kind, owner.name
                found._by_owner.setdefault(key, job)
        return found

    def _tell_who_is_before(self) -> None:
        """Say who is before what Kueue has not tried: of some queues it tries only the first."""
        in_order: dict[str, list[JobDraft]] = {}
        for name, cluster in self._cluster.items():
            if cluster.spec.text("queueingStrategy") == "StrictFIFO":
                in_order[self._renamed.get(name, name)] = []
        for draft in self.drafts:
            kinds = {hold.kind for hold in draft.holds}
            if draft.queue in in_order and kinds == {HoldKind.NOT_ADMITTED}:
                in_order[draft.queue].append(draft)
        for waiting in in_order.values():
            waiting.sort(key=lambda d: (-(d.priority or 0), d.objects[0].creation_time(), d.name))
            for position, draft in enumerate(waiting[1:], 2):
                (hold,) = draft.holds
                if hold.detail == _NOT_TRIED:
                    first = waiting[0].objects[0]
                    name = next((owner.name for owner in owners_of(first)), first.name)
                    detail = f"it is behind {first.namespace}/{name}, number {position} of "
                    detail += f"{len(waiting)}: of a StrictFIFO queue Kueue tries only the first"
                    draft.holds = [evolve(hold, detail=detail)]

    def _join_slices(self) -> Mapping[JobDraft, JobDraft]:
        """Let Workloads of one job that grows be one job, and return which became part of which.

        Until Kueue has reserved quota for the new size, the Workload of the old size is the job.
        """
        joined: dict[JobDraft, JobDraft] = {}

        def job_of(draft: JobDraft) -> JobDraft:
            while draft in joined:
                draft = joined[draft]
            return draft

        for draft in list(self.drafts):
            given = draft.objects[0]
            named = given.annotations.get(_REPLACES, "")
            old = job_of(self._by_name.get(named, draft))
            if draft in joined or old is draft or old.has_finished:
                continue
            gone, left = (old, draft) if draft.has_quota else (draft, old)
            joined[gone] = left
            self.drafts.remove(gone)
            left.add_alias(gone.name, *gone.aliases)
            if left is old:
                left.objects.append(given)
                left.growth_holds = draft.holds
                given.note(NoticeCode.READ_AS, annotation(_REPLACES), _GROWS)
        self._by_name = {name: job_of(draft) for name, draft in self._by_name.items()}
        return {gone: job_of(gone) for gone in joined}

    def queue_of(self, namespace: str, local_queue: str) -> tuple[str, Hold | None]:
        """Return the queue that a LocalQueue stands for, and a hold if there is none."""
        local = self._local.get(f"{namespace}/{local_queue}")
        if not local_queue:
            return "", Hold(HoldKind.NO_QUEUE, "", "it names no LocalQueue")
        if local is None:
            message = f"LocalQueue {local_queue} doesn't exist"
            if local_queue in self._cluster:
                message += ": that is a ClusterQueue, and a job must name a LocalQueue"
            own = sorted(one.name for one in self._local.values() if one.namespace == namespace)
            if own:
                message += f"; namespace {namespace} has {', '.join(own[:_MOST_NAMED])}"
            return local_queue, Hold(HoldKind.NO_QUEUE, local_queue, message)
        name = local.spec.text("clusterQueue")
        return self._renamed.get(name, name) or local_queue, None

    def holds_new(self, queue: str) -> Hold | None:
        """Return what holds new jobs of a queue that goes on with those it has admitted, or None.

        Args:
            queue: its name in the snapshot.

        """
        for name, cluster in self._cluster.items():
            if self._renamed.get(name, name) == queue and _stop_policy(cluster) == "Hold":
                return Hold(HoldKind.QUEUE_CLOSED, name, f"ClusterQueue {name} is stopped")
        return None

    def workload_of(self, pod: Pod, objects: DumpObjects) -> JobDraft | None:
        """Return the job of the Workload of a pod, or None."""
        if not self._by_name:
            return None
        namespace = pod.task.namespace
        name = pod.object.annotations.get(_WORKLOAD)
        found = self._by_name.get(f"{namespace}/{name}") if name else None
        if found is None:
            found = self.owned_by(pod.object, "", objects)
        if found is None:
            group = pod.task.labels.get(api.GROUP_LABEL)
            found = self._by_name.get(f"{namespace}/{group}") if group else None
        return found

    def owned_by(
        self, given: KubernetesObject, api_group: str, objects: DumpObjects
    ) -> JobDraft | None:
        """Return the job of the Workload whose owner is an object or one of its owners."""
        owners = objects.owners(given)
        uid = look_up(given.metadata.content, "uid")
        for each in (uid, *(owner.uid for owner in owners)):
            if isinstance(each, str) and each in self._by_uid:
                return self._by_uid[each]
        names = [(api_group, given.kind, given.name)]
        names += [(owner.group, owner.kind, owner.name) for owner in owners]
        for name in names:
            found = self._by_owner.get((given.namespace, *name))
            if found is not None:
                return found
        return None

    def pod_group(self, pod: Pod, name: str) -> JobDraft:
        """Return the job of a pod group that has no Workload."""
        key = f"{pod.task.namespace}/{name}"
        draft = self.groups.get(key)
        if draft is None:
            draft = JobDraft("kueue", "PodGroup", api.KUEUE, pod.task.namespace, name)
            self.groups[key] = draft
        text = pod.object.annotations.get(api.TOTAL_COUNT, "")
        if text:
            total = whole_number(text)
            if total is not None:
                draft.min_available = max(draft.min_available or 0, total)
            else:
                why = f"expected a number of pods, got {text!r}"
                pod.object.ignore(annotation(api.TOTAL_COUNT), why)
        draft.local_queue = draft.local_queue or pod.task.labels.get(api.QUEUE_LABEL, "")
        return draft

    def tell_groups(self) -> None:
        """Say of pod groups without a Workload whether Kueue waits for more of their pods."""
        for draft in self.groups.values():
            there, total = len(draft.pods), draft.min_available or 0
            if there < total and any(pod.task.holds for pod, _ in draft.pods):
                message = f"Kueue makes the Workload of pod group {draft.name} once all of its "
                is_there = "is" if there == 1 else "are"
                message += f"{total} pods exist: there {is_there} {there} now"
                draft.holds.append(Hold(HoldKind.NOT_ADMITTED, "Kueue", message))

    def take_over(self, draft: JobDraft, workload: JobDraft) -> None:
        """Give a job of a group the queue and the holds of its Workload.

        Of several groups of one Workload, the first gets the templates of its pods.
        """
        workload.is_taken = True
        draft.queue = workload.queue
        draft.local_queue = workload.local_queue
        draft.add_alias(workload.name)
        draft.objects += [given for given in workload.objects if given not in draft.objects]
        if not workload.has_finished:
            draft.holds += workload.holds
            draft.is_suspended_by_kueue = True
            draft.has_quota = workload.has_quota
            draft.estimate = workload.estimate
            draft.templates, workload.templates = workload.templates, []

    def _draft(
        self,
        given: KubernetesObject,
        priorities: PriorityClasses,
        of_workloads: PriorityClasses,
        *,
        theirs: bool,
    ) -> JobDraft:
        note_unsupported(given, "Workload (Kueue)")
        spec, status = given.spec, given.status
        local_queue = spec.text("queueName")
        if not local_queue and f"{given.namespace}/{_DEFAULT}" in self._local:
            local_queue = _DEFAULT
        queue, missing = self.queue_of(given.namespace, local_queue)
        admission = status.child("admission").text("clusterQueue")
        if admission:
            queue, missing = self._renamed.get(admission, admission), None
        reserved, admitted = is_true(given, "QuotaReserved"), is_true(given, "Admitted")
        sets = list(spec.children("podSets"))
        draft = JobDraft(
            "kueue",
            given.kind,
            api.KUEUE,
            given.namespace,
            given.name,
            [given],
            queue=queue,
            local_queue=local_queue,
            is_suspended_by_kueue=True,
            has_quota=reserved or admitted,
        )
        ended = {
            one.text("name"): one.integer("count", default=0, least=0)
            for one in status.children("reclaimablePods")
        }
        for position, one in enumerate(sets):
            name = one.text("name") or ("main" if len(sets) == 1 else f"set-{position}")
            count = max(0, one.integer("count", default=1, least=0) - ended.get(name, 0))
            template = Template(
                name, count, one, given, min(one.integer("minCount", default=count, least=0), count)
            )
            draft.templates.append(template)
        least = sum(template.least for template in draft.templates)
        draft.min_available = 1 if admitted else least
        if spec.get("maximumExecutionTimeSeconds") is not None:
            draft.estimate = spec.integer("maximumExecutionTimeSeconds", least=0)
        if spec.get("priority") is not None:
            draft.priority = spec.integer("priority")
        else:
            ref = spec.child("priorityClassRef")
            name = ref.text("name") or spec.text("priorityClassName")  # the latter: v1beta1
            source = ref.text("kind") or spec.text("priorityClassSource").rpartition("/")[2]
            of_pods = source.lower() == "priorityclass"
            draft.priority = (priorities if of_pods else of_workloads).of(given, name, 0)
        if spec.get("active") is False:
            message = "the Workload is deactivated"
            draft.holds.append(Hold(HoldKind.DEACTIVATED, detail=message))
        if not admitted and not reserved:
            draft.holds += self._not_reserved(given, queue, missing, local_queue, theirs=theirs)
        elif not admitted:
            checks = [
                Hold(HoldKind.CHECK, check.text("name"), _said_by(check))
                for check in status.children("admissionChecks")
                if check.text("state") != "Ready"
            ]
            if theirs and not checks:
                told = _message(status.content, "Admitted") or _NOT_YET
                checks.append(Hold(HoldKind.NOT_ADMITTED, admission or queue, told))
            draft.holds += checks
        return draft

    def holds_without_workload(self, job: KubernetesObject, *, theirs: bool) -> Sequence[Hold]:
        """Return what holds a suspended Job that names a LocalQueue and has no Workload."""
        local_queue = job.labels[api.QUEUE_LABEL]
        queue, missing = self.queue_of(job.namespace, local_queue)
        message = f"Kueue has made no Workload yet for Job {job.name} in LocalQueue {local_queue}"
        return self._not_reserved(
            job, queue, missing, local_queue, theirs=theirs, not_tried=message
        )

    def _not_reserved(
        self,
        given: KubernetesObject,
        queue: str,
        missing: Hold | None,
        local_queue: str,
        *,
        theirs: bool,
        not_tried: str = _NOT_TRIED,
    ) -> Sequence[Hold]:
        holds: list[Hold] = []
        local = self._local.get(f"{given.namespace}/{local_queue}")
        name = "" if local is None else local.spec.text("clusterQueue")
        cluster = self._cluster.get(name)
        if missing is not None:
            holds.append(missing)
        elif cluster is None:
            message = f"ClusterQueue {name or queue} doesn't exist"
            holds.append(Hold(HoldKind.NO_QUEUE, name or queue, message))
        for one in (local, cluster):
            if one is not None and _is_stopped(one):
                message = f"{one.kind} {one.name} is stopped"
                holds.append(Hold(HoldKind.QUEUE_CLOSED, one.name, message))
        if theirs:
            status = given.status
            told = _message(status.content, "QuotaReserved")
            inactive = _inactive(cluster)
            if inactive and not any(hold.kind is HoldKind.QUEUE_CLOSED for hold in holds):
                holds.append(Hold(HoldKind.QUEUE_CLOSED, name, inactive))
                if inactive.startswith(told):  # it says nothing more
                    return holds
            is_elsewhere = not told and not self._takes(cluster, given.namespace)
            if is_elsewhere or _OTHER_NAMESPACE in told:
                message = f"ClusterQueue {name} takes no jobs of namespace {given.namespace}: "
                message += "its namespaceSelector does not select it"
                holds.append(Hold(HoldKind.NO_QUEUE, name, message))
            holds += [
                Hold(HoldKind.CHECK, check.text("name"), _said_by(check))
                for check in status.children("admissionChecks")
                if check.text("state") in FAILED_CHECKS
            ]
            until = status.child("requeueState").time("requeueAt", is_past=False)
            kind = HoldKind.NEVER_ADMITTED if _is_impossible(told) else HoldKind.NOT_ADMITTED
            holds.append(Hold(kind, name or queue, told or not_tried, until))
        return holds

    def _takes(self, cluster: KubernetesObject | None, namespace: str) -> bool:
        """Return whether a queue takes jobs of a namespace; without a selector it takes none."""
        if cluster is None:
            return True
        selector = cluster.spec.optional_child("namespaceSelector")
        if selector is None:
            return False
        labels = self._namespaces.get(namespace)
        return labels is None or label_selector(selector).matches(labels)


UNREADY = "to be in PodsReady condition"
"""What Kueue says of those that it admits only when the pods of all others are ready."""
_IMPOSSIBLE = (
    *("maximum capacity", "unavailable in ClusterQueue", "doesn't match node affinity"),
    *("LimitRange", "resources validation failed", "limits exceeded", "untolerated taint"),
)
"""What Kueue says only of what it cannot admit as it is, unless a flavor only lacks quota."""
_WAITS_FOR_QUOTA = ("insufficient unused quota", "reclaim", "borrow")


def _is_impossible(message: str) -> bool:
    """Return whether Kueue says that it cannot admit a Workload, whoever else ends.

    It says of each set of pods why no flavor takes it.
    """
    sets = message.split("couldn't assign flavors to pod set")
    return any(
        any(words in each for words in _IMPOSSIBLE)
        and not any(words in each for words in _WAITS_FOR_QUOTA)
        for each in sets
    )


def _is_stopped(given: KubernetesObject) -> bool:
    return _stop_policy(given) not in ("", "None")


def _stop_policy(given: KubernetesObject) -> str:
    return given.spec.text("stopPolicy")


def _runs_elsewhere(given: KubernetesObject) -> bool:
    """Return whether a Workload was sent to another cluster, by MultiKueue."""
    cluster = given.status.text("clusterName")
    if not cluster or not is_true(given, "Admitted"):
        return False
    given.note(NoticeCode.FIELD_IGNORED, "status.clusterName", "left out: it is on another cluster")
    return True


def _said_by(check: Reader) -> str:
    message, state = check.text("message"), check.text("state")
    return message or (f"its state is {state}" if state else "")


def _inactive(cluster: KubernetesObject | None) -> str:
    """Return why a ClusterQueue admits nothing; empty: it does, or does not say."""
    status = None if cluster is None else cluster.reader.get("status")
    if cluster is None or _status(status, "Active") != "False":
        return ""
    message = _message(status, "Active")
    return f"ClusterQueue {cluster.name} is inactive" + (message and f": {message}")


def _status(status: object, condition: str) -> object:
    return look_up(_condition(status, condition), "status")


def message_of(given: KubernetesObject, condition: str) -> str:
    """Return the message of a condition of an object; empty: it has none."""
    return _message(given.reader.get("status"), condition)


def _message(status: object, condition: str) -> str:
    message = look_up(_condition(status, condition), "message")
    return message.strip().removesuffix(".") if isinstance(message, str) else ""


def _condition(status: object, name: str) -> object:
    found = mappings_in(look_up(status, "conditions"))
    return next((each for each in found if look_up(each, "type") == name), None)
