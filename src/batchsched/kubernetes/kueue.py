"""Reads what Kueue says of jobs: Workloads, LocalQueues, flavors, and labels of pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects, owners_of
from batchsched.kubernetes.job_drafts import FAILED_CHECKS, JobDraft, Template
from batchsched.kubernetes.objects import (
    KubernetesObject,
    Reader,
    annotation,
    text_at,
    whole_number,
)
from batchsched.kubernetes.pods import (
    WAITING,
    Namespaces,
    Pod,
    PriorityClasses,
    label_selector,
    quota_unit,
    taints_of,
    tolerations_of,
)
from batchsched.model.cluster import Hold, TaskInfo
from batchsched.model.constraints import Taint, Toleration, untolerated
from batchsched.model.notice import NoticeCode
from batchsched.model.texts import amount_text, listed

_OwnerKey = str | tuple[str, str, str, str]
_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
_WORKLOAD = "kueue.x-k8s.io/workload"
_DEFAULT = "default"
_MOST_NAMED = 3
_GROWS = "the job grows: of the pods that it is to have, those that exist are told"
_NOT_YET = "its quota is reserved, but Kueue has not admitted it yet"
_NOT_TRIED = "Kueue has not tried it yet"
_MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
_SENT = "MultiKueue sends the job to another cluster: where it would run is not known here"
_OTHER_NAMESPACE = "namespace doesn't match ClusterQueue selector"
"""What Kueue says of a Workload whose namespace may not use the queue."""


class Kueue:
    """The jobs of Workloads, and the queues that LocalQueues stand for."""

    def __init__(
        self,
        objects: DumpObjects,
        namespaces: Namespaces,
        priorities: PriorityClasses,
        of_workloads: PriorityClasses,
        renamed: Mapping[str, str],
    ) -> None:
        """Read what Kueue's objects say. O(Workloads).

        Args:
            objects: all objects.
            namespaces: the namespaces.
            priorities: the PriorityClasses.
            of_workloads: the WorkloadPriorityClasses.
            renamed: the names in the snapshot of ClusterQueues whose names were taken.

        """
        self._objects = objects
        self._known_namespaces = namespaces
        self._priorities = priorities
        self._of_workloads = of_workloads
        self._renamed = renamed
        self.groups: dict[str, JobDraft] = {}
        """The jobs of pod groups without a Workload, by namespace/name."""
        self._local = {one.full_name: one for one in objects.of(api.KUEUE, "LocalQueue")}
        self._cluster = {one.name: one for one in objects.of(api.KUEUE, "ClusterQueue")}
        sending = {
            check.name
            for check in objects.of(api.KUEUE, "AdmissionCheck")
            if check.spec.text("controllerName") == _MULTI_KUEUE
        }
        self._admitting = {
            each.status.child("admission").text("clusterQueue")
            for each in objects.of(api.KUEUE, "Workload")
        }
        """The ClusterQueues that have admitted jobs: those that are not there were not dumped."""
        cluster = self._cluster.items() if sending else ()
        self._sending = {name for name, queue in cluster if sending & _checks_of(queue)}
        """The ClusterQueues whose jobs run on other clusters."""
        drafts = [self._draft(given) for given in objects.of(api.KUEUE, "Workload")]
        self._by_name = {f"{draft.namespace}/{draft.name}": draft for draft in drafts}
        self.drafts = [draft for draft in drafts if not draft.has_finished]
        """A job for every Workload that has not finished, in order of name."""
        self._tell_who_is_before()
        joined = self._join_slices()
        self._by_owner: dict[_OwnerKey, JobDraft] = {}
        """The jobs of Workloads, by the UIDs and the names of their owners."""
        drafts.sort(key=lambda one: (one.has_finished, -one.objects[0].creation_time(), one.name))
        for draft in drafts:
            given, job = draft.objects[0], joined.get(draft, draft)
            # Owners further above may have other jobs too, as a CronJob does.
            for owner in owners_of(given):
                name = given.namespace, owner.group, owner.kind, owner.name
                for key in (owner.uid or name, name):
                    self._by_owner.setdefault(key, job)

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
            left.aliases += (gone.name, *gone.aliases)
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

    def holds_of_new(self) -> dict[str, Hold]:
        """Return what holds new jobs of queues that go on with those they have admitted.

        It is by the names of these queues in the snapshot.
        """
        return {
            self._renamed.get(name, name): _stopped(cluster)
            for name, cluster in self._cluster.items()
            if cluster.spec.text("stopPolicy") == "Hold"
        }

    def workload_of(self, pod: Pod) -> JobDraft | None:
        """Return the job of the Workload of a pod, or None."""
        if not self._by_name:
            return None
        namespace, group = pod.task.namespace, pod.task.labels.get(api.GROUP_LABEL, "")
        return (
            self._by_name.get(f"{namespace}/{pod.object.annotations.get(_WORKLOAD, '')}")
            or self.owned_by(pod.object, "")
            or self._by_name.get(f"{namespace}/{group}")
        )

    def owned_by(self, given: KubernetesObject, api_group: str) -> JobDraft | None:
        """Return the job of the Workload whose owner is an object or one of its owners."""
        owners = self._objects.owners(given)
        keys: list[_OwnerKey] = [text_at(given.metadata.content, "uid")]
        keys += [owner.uid for owner in owners]
        keys.append((given.namespace, api_group, given.kind, given.name))
        keys += [(given.namespace, owner.group, owner.kind, owner.name) for owner in owners]
        return next((self._by_owner[key] for key in keys if key in self._by_owner), None)

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
            if there < total and any(pod.task.holds for pod in draft.pods):
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
        draft.aliases.append(workload.name)
        draft.objects += [given for given in workload.objects if given not in draft.objects]
        if not workload.has_finished:
            draft.holds += workload.holds
            draft.is_suspended_by_kueue = True
            draft.has_quota = workload.has_quota
            draft.estimate = workload.estimate
            draft.templates, workload.templates = workload.templates, []

    def _draft(self, given: KubernetesObject) -> JobDraft:
        spec, status, draft = given.spec, given.status, JobDraft.of(given)
        local_queue = spec.text("queueName")
        if not local_queue and f"{given.namespace}/{_DEFAULT}" in self._local:
            local_queue = _DEFAULT
        queue, missing = self.queue_of(given.namespace, local_queue)
        admission = status.child("admission").text("clusterQueue")
        if admission:
            queue, missing = self._renamed.get(admission, admission), None
        admitted = given.status_of("Admitted") == "True"
        draft.queue, draft.local_queue, draft.is_suspended_by_kueue = queue, local_queue, True
        draft.has_quota = admitted or given.status_of("QuotaReserved") == "True"
        ended = {
            one.text("name"): one.integer("count", default=0, least=0)
            for one in status.children("reclaimablePods")
        }
        sets = list(spec.children("podSets"))
        for position, one in enumerate(sets):
            name = one.text("name") or ("main" if len(sets) == 1 else f"set-{position}")
            count = max(0, one.integer("count", default=1, least=0) - ended.get(name, 0))
            least = min(one.integer("minCount", default=count, least=0), count)
            draft.templates.append(Template(name, count, one, given, least))
        draft.min_available = 1 if admitted else sum(each.least for each in draft.templates)
        if spec.get("maximumExecutionTimeSeconds") is not None:
            draft.estimate = spec.integer("maximumExecutionTimeSeconds", least=0)
        draft.priority = self._priority(given)
        if spec.get("active") is False:
            message = "the Workload is deactivated"
            draft.holds.append(Hold(HoldKind.DEACTIVATED, detail=message))
        if not draft.has_quota:
            draft.holds += self._not_reserved(given, queue, missing, local_queue)
        elif not admitted:
            checks = _checks(given, lambda state: state != "Ready")
            if given.reading.theirs and not checks:
                told = given.message_of("Admitted") or _NOT_YET
                checks.append(Hold(HoldKind.NOT_ADMITTED, admission or queue, told))
            draft.holds += checks
        local = self._local.get(f"{given.namespace}/{local_queue}")
        cluster_queue = admission or (local and local.spec.text("clusterQueue"))
        is_sent = cluster_queue in self._sending
        is_gone = admitted and _runs_elsewhere(given, is_sent=is_sent)
        draft.has_finished = given.status_of("Finished") == "True" or is_gone
        if is_sent and not is_gone:
            draft.templates = []
            given.note(NoticeCode.FIELD_IGNORED, "spec.podSets", _SENT)
        return draft

    def _priority(self, given: KubernetesObject) -> int:
        spec = given.spec
        if spec.get("priority") is not None:
            return spec.integer("priority")
        ref = spec.child("priorityClassRef")
        name = ref.text("name") or spec.text("priorityClassName")  # the latter: v1beta1
        source = ref.text("kind") or spec.text("priorityClassSource").rpartition("/")[2]
        of_pods = source.lower() == "priorityclass"
        return (self._priorities if of_pods else self._of_workloads).of(given, name, 0)

    def holds_without_workload(self, job: KubernetesObject) -> Sequence[Hold]:
        """Return what holds a Job or a Pod that names a LocalQueue and has no Workload."""
        local_queue = job.labels[api.QUEUE_LABEL]
        queue, missing = self.queue_of(job.namespace, local_queue)
        message = f"Kueue has made no Workload yet for {job.kind} {job.name} in LocalQueue "
        message += local_queue
        return self._not_reserved(job, queue, missing, local_queue, message)

    def _not_reserved(
        self,
        given: KubernetesObject,
        queue: str,
        missing: Hold | None,
        local_queue: str,
        not_tried: str = _NOT_TRIED,
    ) -> Sequence[Hold]:
        holds: list[Hold] = []
        local = self._local.get(f"{given.namespace}/{local_queue}")
        name = "" if local is None else local.spec.text("clusterQueue")
        cluster = self._cluster.get(name)
        if missing is not None:
            holds.append(missing)
        elif cluster is None:
            message = f"ClusterQueue {name or queue} "
            is_there = (name or queue) in self._admitting
            message += "is not in the dump" if is_there else "doesn't exist"
            holds.append(Hold(HoldKind.NO_QUEUE, name or queue, message))
        there = [one for one in (local, cluster) if one is not None]
        holds += [_stopped(q) for q in there if q.spec.text("stopPolicy") not in ("", "None")]
        if not given.reading.theirs:
            return holds
        told = given.message_of("QuotaReserved")
        inactive = "" if cluster is None else _inactive(cluster)
        if inactive and not any(hold.kind is HoldKind.QUEUE_CLOSED for hold in holds):
            holds.append(Hold(HoldKind.QUEUE_CLOSED, name, inactive))
            if inactive.startswith(told):  # it says nothing more
                return holds
        is_elsewhere = not told and not self._takes(cluster, given.namespace)
        if is_elsewhere or _OTHER_NAMESPACE in told:
            message = f"ClusterQueue {name} takes no jobs of namespace {given.namespace}: "
            message += "its namespaceSelector does not select it"
            holds.append(Hold(HoldKind.NO_QUEUE, name, message))
        holds += _checks(given, lambda state: state in FAILED_CHECKS)
        until = given.status.child("requeueState").time("requeueAt", is_past=False)
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
        namespaces = self._known_namespaces
        is_known = namespace in namespaces.labels
        return not is_known or namespaces.matches(namespace, label_selector(selector))


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


def _runs_elsewhere(given: KubernetesObject, *, is_sent: bool) -> bool:
    """Return whether an admitted Workload is on another cluster; `is_sent`: so is all of its queue.

    Before Kueue names the cluster in a field, only the message of the check says which it is.
    """
    is_named = bool(given.status.text("clusterName"))
    if not is_named and not is_sent:
        return False
    field = "status.clusterName" if is_named else "status.admissionChecks"
    given.note(NoticeCode.FIELD_IGNORED, field, "left out: it is on another cluster")
    return True


def _checks(given: KubernetesObject, is_meant: Callable[[str], bool]) -> list[Hold]:
    """Return the admission checks whose states are meant, as holds."""
    holds: list[Hold] = []
    for check in given.status.children("admissionChecks"):
        state = check.text("state")
        if is_meant(state):
            said = check.text("message") or (state and f"its state is {state}")
            holds.append(Hold(HoldKind.CHECK, check.text("name"), said))
    return holds


def _checks_of(queue: KubernetesObject) -> set[str]:
    """Return the names of the admission checks of a ClusterQueue."""
    strategy = queue.spec.child("admissionChecksStrategy").children("admissionChecks")
    return {*queue.spec.texts("admissionChecks"), *(each.text("name") for each in strategy)}


def _stopped(queue: KubernetesObject) -> Hold:
    return Hold(HoldKind.QUEUE_CLOSED, queue.name, f"{queue.kind} {queue.name} is stopped")


def _inactive(cluster: KubernetesObject) -> str:
    """Return why a ClusterQueue admits nothing; empty: it does, or does not say."""
    if cluster.status_of("Active") != "False":
        return ""
    message = cluster.message_of("Active")
    return f"ClusterQueue {cluster.name} is inactive" + (message and f": {message}")


# Flavors: whether any could ever take a job, and on which nodes it would start


@frozen
class _Flavor:
    """A flavor of a ClusterQueue."""

    name: str
    quota: Mapping[str, int]
    """The most that one job may have of it."""
    own: Mapping[str, int]
    """The part of that which is the queue's own; the rest others may lend."""
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def refusal(self, task: TaskInfo, count: int) -> str:
        """Return why it can never take so many tasks; empty: it may."""
        taint = untolerated(self.taints, (*task.tolerations, *self.tolerations))
        if taint is not None:
            return f"{self.name} has the taint {taint.key} that it does not tolerate"
        for key, value in self.labels.items():
            if task.node_selector.get(key, value) != value:
                return f"{self.name} is for nodes with {key}={value}"
        required = None if task.node_affinity is None else task.node_affinity.required
        if required is not None and not any(
            all(e.matches(self.labels) for e in term.match_expressions if e.key in self.labels)
            for term in required
        ):
            return f"{self.name} is for other nodes than it requires"
        for name, most in self.quota.items():
            asked = int(task.resreq.get(name)) * count
            if asked > most:
                needs, own = amount_text(name, asked), self.own.get(name, most)
                has = f"has {amount_text(name, most)}"
                if most > own:
                    lent = amount_text(name, most - own)
                    has = f"can get {amount_text(name, most)} "
                    has += f"({amount_text(name, own)} of its own, {lent} lent)"
                return f"{self.name} {has}, and it needs {needs}"
        return ""


class Flavors:
    """The flavors of the ClusterQueues, by the names that these have in the snapshot."""

    def __init__(self, objects: DumpObjects, renamed: Mapping[str, str]) -> None:
        """Read the flavors of all queues. O(flavors)."""
        known = {given.name: given for given in objects.of(api.KUEUE, "ResourceFlavor")}
        lending = _Lending(objects)
        self._groups: dict[str, list[tuple[frozenset[str], list[_Flavor]]]] = {}
        """The resources that each group of resources of a queue covers, with its flavors."""
        for given in objects.of(api.KUEUE, "ClusterQueue"):
            spec = given.spec
            self._groups[renamed.get(given.name, given.name)] = [
                (
                    frozenset(group.texts("coveredResources")),
                    [_flavor(each, known, lending, given) for each in group.children("flavors")],
                )
                for group in spec.children("resourceGroups")
            ]

    def let_in(self, draft: JobDraft, queue: str) -> None:
        """Hold a job that Kueue could never admit as it is; else let it start where it would be.

        A flavor that alone may take its pods has labels that become their node selector. What
        Kueue has said of a job counts more than what follows from its flavors here.
        """
        groups = self._groups.get(queue)
        if groups is None or draft.has_quota:
            return
        is_told = any(given.message_of("QuotaReserved") for given in draft.objects)
        by_role: dict[str | None, list[Pod]] = {}
        for pod in (*draft.pods, *draft.made):
            if pod.task.status in WAITING:
                by_role.setdefault(pod.role, []).append(pod)
        for members in by_role.values():
            first = members[0].task
            least = draft.min_available if len(by_role) == 1 else None
            count = min(len(members), least) if least else len(members)
            refusals, chosen = list[str](), list[_Flavor]()
            asked = {name for name, amount in first.resreq.dimensions() if amount}
            covered = frozenset[str]().union(*(of_group for of_group, _ in groups))
            if asked - covered:
                refusals.append(f"none of its flavors covers {listed(sorted(asked - covered))}")
            for of_group, flavors in groups:
                if asked.isdisjoint(of_group):
                    continue
                why = [flavor.refusal(first, count) for flavor in flavors]
                fitting = [f for f, refusal in zip(flavors, why, strict=True) if not refusal]
                chosen += fitting if len(fitting) == 1 else []
                if not fitting:
                    refusals.append(
                        f"flavor {'; flavor '.join(why)}" if why else "it has no flavor"
                    )
            only_waits = {hold.kind for hold in draft.holds} <= {HoldKind.NOT_ADMITTED}
            is_held = draft.holds or first.holds
            if refusals and not is_told and only_waits and is_held:
                draft.holds = [Hold(HoldKind.NEVER_ADMITTED, queue, "; ".join(refusals))]
            _give(members, chosen)


def _give(pods: Sequence[Pod], flavors: Sequence[_Flavor]) -> None:
    """Give pods the labels and tolerations of flavors."""
    labels = {key: value for each in flavors for key, value in each.labels.items()}
    tolerations = tuple(t for each in flavors for t in each.tolerations)
    for pod in pods if labels or tolerations else ():
        pod.task = evolve(
            pod.task,
            node_selector={**pod.task.node_selector, **labels},
            tolerations=(*pod.task.tolerations, *tolerations),
        )


class _Lending:
    """What members of cohorts can get at most of each flavor: their own, and what others lend."""

    def __init__(self, objects: DumpObjects) -> None:
        """Read quotas of ClusterQueues and Cohorts. O(size)."""
        self._parents: dict[str, str] = {}
        """The cohort above each member; members are told apart by kind and name."""
        self._children: dict[str, list[str]] = {}
        self._quotas: dict[tuple[str, str, str], tuple[int, int | None, int | None]] = {}
        """Of a member, a flavor and a resource: nominal, what may be borrowed, and lent."""
        for kind, keys in (("ClusterQueue", ("cohortName", "cohort")), ("Cohort", _PARENTS)):
            for given in objects.of(api.KUEUE, kind):
                member, spec = f"{kind}/{given.name}", given.spec
                above = next((name for key in keys if (name := spec.text(key))), "")
                if above:
                    self._parents[member] = f"Cohort/{above}"
                    self._children.setdefault(f"Cohort/{above}", []).append(member)
                for group in spec.children("resourceGroups"):
                    for flavor in group.children("flavors"):
                        self._read(member, flavor)

    def _read(self, member: str, flavor: Reader) -> None:
        for resource in flavor.children("resources"):
            name = resource.text("name")
            unit = quota_unit(name)
            if unit is not None:
                nominal, borrowing, lending = (
                    resource.quantity(f"{key}", milli=unit)
                    for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                )
                key = member, flavor.text("name"), name
                self._quotas[key] = nominal or 0, borrowing, lending

    def most(self, queue: str, flavor: str, resource: str) -> int:
        """Return the most that a ClusterQueue can get of a resource. O(members of its cohorts)."""
        path = [f"ClusterQueue/{queue}"]
        while path[-1] in self._parents and self._parents[path[-1]] not in path:
            path.append(self._parents[path[-1]])
        most = 0
        for member in reversed(path):
            has = self._together(member, flavor, resource, frozenset())
            own = has - self._lent(member, has, flavor, resource) if member != path[-1] else has
            _, borrowing, _ = self._quotas.get((member, flavor, resource), _NO_QUOTA)
            most += own
            if borrowing is not None and member != path[-1]:
                most = min(most, has + borrowing)
        return most

    def _together(self, member: str, flavor: str, resource: str, above: frozenset[str]) -> int:
        """Return what a member and those below it have, without what these do not lend."""
        nominal, _, _ = self._quotas.get((member, flavor, resource), _NO_QUOTA)
        below = (each for each in self._children.get(member, ()) if each not in above)
        return nominal + sum(
            self._lent(
                each, self._together(each, flavor, resource, above | {member}), flavor, resource
            )
            for each in below
        )

    def _lent(self, member: str, has: int, flavor: str, resource: str) -> int:
        _, _, lending = self._quotas.get((member, flavor, resource), _NO_QUOTA)
        return has if lending is None else min(has, lending)


_PARENTS = ("parentName", "parent")
_NO_QUOTA = (0, None, None)


def _flavor(
    given: Reader, known: Mapping[str, KubernetesObject], lending: _Lending, queue: KubernetesObject
) -> _Flavor:
    name, quota, own = given.text("name"), dict[str, int](), dict[str, int]()
    for resource in given.children("resources"):
        of, unit = resource.text("name"), quota_unit(resource.text("name"))
        if unit is not None:
            quota[of] = lending.most(queue.name, name, of)
            own[of] = resource.quantity("nominalQuota", milli=unit) or 0
    if name not in known:
        return _Flavor(name, quota, own, {})
    spec = known[name].spec
    taints, tolerations = tuple(taints_of(spec, "nodeTaints")), tuple(tolerations_of(spec))
    return _Flavor(name, quota, own, spec.text_map("nodeLabels"), taints, tolerations)
