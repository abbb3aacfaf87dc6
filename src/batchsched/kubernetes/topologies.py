"""Reads topologies, Volcano's HyperNodes, and what groups and pods ask of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.job_drafts import WITHOUT_ROLE, JobDraft, with_tasks
from batchsched.kubernetes.objects import KubernetesObject, Reader, annotation, whole_number
from batchsched.kubernetes.pods import ENDED, label_selector
from batchsched.model.cluster import JobInfo, NodeInfo, TaskGroup, TaskInfo, TaskStatus
from batchsched.model.constraints import NodeAffinity, NodeSelectorTerm, Operator, Requirement
from batchsched.model.notice import NoticeCode
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest
from batchsched.model.validation.tasks import has_requests

_NAME = "HyperNodes"
"""The name of the topology that Volcano's HyperNodes form."""
_PODSET = "kueue.x-k8s.io/podset-"
_ON_PODS = (*("required-topology", "preferred-topology", "slice-required-topology", "slice-size"),)
_PATH = annotation(_PODSET + _ON_PODS[0])
_UNCONSTRAINED = _PODSET + "unconstrained-topology"
_SET_LABEL = "kueue.x-k8s.io/podset"
_UNNAMED = "pods"
"""The group of pods that name no pod set, beside others that do."""
_SET = "leaderworkerset.sigs.k8s.io/"
_SET_LEVELS = ("exclusive-topology", "subgroup-exclusive-topology")
_NUMBERS = (
    *("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index"),
    *("leaderworkerset.sigs.k8s.io/worker-index", "volcano.sh/task-index"),
    *("training.kubeflow.org/replica-index", "kueue.x-k8s.io/pod-group-pod-index"),
)
"""The labels and annotations that number the pods of a job or of a role of it."""


@frozen
class _PodSet:
    """What pods of a Kueue job ask for together: levels, and slices of a size in one more."""

    name: str
    together: str
    """The name that it shares with other pod sets of one domain; empty: none."""
    required: str = ""
    preferred: str = ""
    level: str = ""
    size: str = ""
    anywhere: bool = False
    """Whether it asks for places in a topology, whatever domains they are in."""

    @classmethod
    def of(cls, name: str, pod: KubernetesObject) -> _PodSet:
        annotations = pod.annotations
        required, preferred, level, size = (annotations.get(_PODSET + e, "") for e in _ON_PODS)
        return cls(
            name,
            annotations.get(_PODSET + "group-name", ""),
            required,
            preferred,
            level,
            size,
            annotations.get(_UNCONSTRAINED) == "true",
        )

    def of_request(self, request: Reader) -> _PodSet:
        """Return the same as a Workload says it."""
        size = request.get("podSetSliceSize")
        return _PodSet(
            self.name,
            self.together or request.text("podSetGroupName"),
            request.text("required"),
            request.text("preferred"),
            request.text("podSetSliceRequiredTopology"),
            "" if size is None else str(request.integer("podSetSliceSize", least=0)),
            request.get("unconstrained") is True,
        )

    @property
    def key(self) -> str:
        """The name of what is placed together with it."""
        return self.together or self.name or _UNNAMED

    @property
    def asks(self) -> bool:
        return bool(self.required or self.preferred or self.level or self.anywhere)


class Topologies:
    """The topologies of a dump."""

    def __init__(self, objects: DumpObjects, nodes: Sequence[NodeInfo]) -> None:
        """Read them. O(objects), and O(HyperNodes x nodes) where these match nodes."""
        self.found: dict[str, Topology] = {}
        """By the names that they have in the snapshot."""
        self._of_kai: dict[str, str] = {}
        self._of_kueue: list[str] = []
        self._of_labelled: dict[str, Sequence[str]] = {}
        """The levels of Kueue's topologies that some nodes are not in, as they lack a label."""
        self._tiers: dict[int, str] = {}
        """The levels of HyperNodes, by tier."""
        self._tier_named: dict[str, int] = {}
        for group in (api.KUEUE, api.KAI_TOPOLOGIES):
            for given in objects.of(group, "Topology"):
                name = given.name if given.name not in self.found else f"{given.name}.{group}"
                each_level = given.spec.children("levels")
                levels = [each.text("nodeLabel", required=True) for each in each_level]
                if levels:
                    self.found[name] = Topology(name, list(dict.fromkeys(levels)))
                    if group == api.KAI_TOPOLOGIES:
                        self._of_kai[given.name] = name
                        continue
                    self._of_kueue.append(name)
                    if any(one not in node.labels for node in nodes for one in levels):
                        self._of_labelled[name] = levels
        hyper_nodes = objects.of(api.HYPER_NODES, "HyperNode")
        if hyper_nodes:
            self._read_hyper_nodes(hyper_nodes, nodes)

    def _read_hyper_nodes(
        self, given: Sequence[KubernetesObject], nodes: Sequence[NodeInfo]
    ) -> None:
        tiers: dict[str, int] = {}
        for one in given:
            spec = one.spec
            tiers[one.name] = spec.integer("tier", default=1, least=0)
            if spec.text("tierName"):
                self._tier_named[spec.text("tierName")] = tiers[one.name]
        self._tiers = {tier: f"tier-{tier}" for tier in sorted(set(tiers.values()), reverse=True)}
        members = {one.name: list(_members(one, nodes, tiers)) for one in given}

        def nodes_of(name: str, above: frozenset[str]) -> dict[str, None]:
            found: dict[str, None] = {}
            for kind, member in members.get(name, ()):
                if kind == "Node":
                    found[member] = None
                elif member not in above:  # a cycle adds nothing
                    found |= nodes_of(member, above | {member})
            return found

        domains = [
            Domain(self._tiers[tier], name, sorted(nodes_of(name, frozenset([name]))))
            for name, tier in sorted(tiers.items())
        ]
        name = _NAME if _NAME not in self.found else f"{_NAME}.{api.HYPER_NODES}"
        self.found[name] = Topology(name, list(self._tiers.values()), domains)

    # What jobs ask of them

    def asked_by(self, job: JobInfo, draft: JobDraft) -> JobInfo:
        """Return a job with what its group and its pods ask of topologies. O(tasks)."""
        for given in draft.objects:
            if given.kind == "PodGroup" and draft.api_group == api.KAI:
                job = self._asked_of_kai(job, given)
            elif given.kind == "PodGroup" and draft.api_group in (api.VOLCANO, api.KUBE_BATCH):
                job = evolve(job, topology=self._asked_of_volcano(given, given.spec))
                job = self._with_subgroups(job, given)
        if draft.topology is not None:
            job = evolve(job, topology=draft.topology)
        if draft.kind == "LeaderWorkerSet" and job.groups:
            job = self._asked_of_replicas(job, draft)
        if not has_requests(job):
            job = self._asked_by_pods(job, draft)
            job = self._on_labelled(job, draft) if self._of_labelled else job
        return _with_numbers(job, draft)

    def _on_labelled(self, job: JobInfo, draft: JobDraft) -> JobInfo:
        """Return a job whose tasks stay in the topology that they ask for, as Kueue sees to.

        A node is in it that has the labels of all its levels.
        """
        asked = {group.name: group.topology for group in job.groups}
        tasks: list[TaskInfo] = []
        named: set[str] = set()
        for task in job.tasks:
            request_ = asked.get(task.group or "") or job.topology
            name = "" if request_ is None else request_.topology or ""
            if name in self._of_labelled and task.status.to_place:
                named.add(name)
                task = _requiring(task, self._of_labelled[name])  # noqa: PLW2901 - the same task
            tasks.append(task)
        for name, main in ((name, draft.main) for name in sorted(named)):
            levels = ", ".join(self._of_labelled[name])
            text = f"nodes without a label of Topology {name} ({levels}) are not in it"
            if main is not None:
                main.note(NoticeCode.READ_AS, _PATH, text)
        return with_tasks(job, tasks) if named else job

    def _asked_of_kai(self, job: JobInfo, given: KubernetesObject) -> JobInfo:
        spec = given.spec
        own = self._of_constraint(given, spec, "spec.topologyConstraint")
        of_group = {
            each.text("name"): self._of_constraint(given, each, "spec.subGroups.topologyConstraint")
            for each in spec.children("subGroups")
        }
        groups = [evolve(group, topology=of_group.get(group.name)) for group in job.groups]
        return evolve(job, topology=own, groups=groups)

    def _of_constraint(
        self, given: KubernetesObject, above: Reader, path: str
    ) -> TopologyRequest | None:
        constraint = above.optional_child("topologyConstraint")
        if constraint is None:
            return None
        required = constraint.text("requiredTopologyLevel") or None
        preferred = constraint.text("preferredTopologyLevel") or None
        named = constraint.text("topology")
        if required is preferred is None:
            return None
        return self._sound(given, path, self._of_kai.get(named, named), required, preferred)

    def _asked_of_volcano(
        self, given: KubernetesObject, above: Reader, path: str = "spec.networkTopology"
    ) -> TopologyRequest | None:
        asked = above.optional_child("networkTopology")
        if asked is None:
            return None
        if not self._tiers:
            given.ignore(path, "there are no HyperNodes")
            return None
        narrowest = self._tiers[min(self._tiers)]
        name = next(name for name in self.found if name.startswith(_NAME))
        if asked.text("mode") == "soft":
            return TopologyRequest(name, preferred=narrowest)
        highest = self._tier_named.get(asked.text("highestTierName"))
        if highest is None:
            highest = asked.integer("highestTierAllowed", default=1, least=0)
        allowed = [tier for tier in self._tiers if tier <= highest]
        if not allowed:
            message = f"there is no HyperNode of tier {highest} or lower"
            given.ignore(path, message)
            return None
        return TopologyRequest(name, required=self._tiers[max(allowed)], preferred=narrowest)

    def _with_subgroups(self, job: JobInfo, given: KubernetesObject) -> JobInfo:
        """Return a job of Volcano with its subgroups: pods that agree in the values of labels."""
        policies = [*given.spec.children("subGroupPolicy")]
        if not policies:
            return job
        roles = {group.name: group for group in job.groups}
        groups: dict[str, TaskGroup] = {}
        of_task: dict[str, str] = {}
        for number, each in enumerate(policies):
            name = each.text("name") or f"subgroup-{number}"
            selector = each.optional_child("labelSelector")
            labels = None if selector is None else label_selector(selector)
            keys, size = each.texts("matchLabelKeys"), each.integer("subGroupSize", default=0)
            least = each.integer("minSubGroups", default=0, least=0)
            asked = self._asked_of_volcano(given, each, "spec.subGroupPolicy.networkTopology")
            of_leaf: dict[str, str] = {}
            """The values by which each task that is selected belongs to a subgroup."""
            for task in job.tasks:
                values = [task.labels.get(key) for key in keys]
                matches = labels is None or labels.matches(task.labels)
                if None not in values and matches and task.uid not in of_task:
                    of_leaf[task.uid] = "/".join(value or "" for value in values)
            if roles and of_leaf:
                role = _only_role(job, of_leaf)
                if role is None:
                    message = "it does not divide one role of those with minimums of their own"
                    given.ignore("spec.subGroupPolicy", message)
                    return job
                name = role
                if size:  # as many subgroups as have the minimum of the role
                    least = max(least, -(-(roles.pop(role).min or 0) // size))
            for uid, values_text in of_leaf.items():
                leaf = f"{name}/{values_text}"
                groups.setdefault(name, TaskGroup(name, min=least))
                groups.setdefault(leaf, TaskGroup(leaf, parent=name, min=size, topology=asked))
                of_task[uid] = leaf
        if not job.groups:
            tasks = _in_groups(job.tasks, of_task)
            return with_tasks(evolve(job, groups=groups.values()), tasks)
        own = [group for group in job.groups if group.name not in groups]
        tasks = [evolve(task, group=of_task.get(task.uid, task.group)) for task in job.tasks]
        return evolve(job, groups=(*own, *groups.values()), tasks=tasks)

    def _asked_of_replicas(self, job: JobInfo, draft: JobDraft) -> JobInfo:
        """Return a LeaderWorkerSet with what its replicas and their subgroups ask of domains."""
        asked: dict[str, TopologyRequest | None] = {}
        for pod in draft.pods:
            role = pod.role
            if role is None or role in asked:
                continue
            annotations = pod.object.annotations
            required, level = (annotations.get(_SET + key) or None for key in _SET_LEVELS)
            size = whole_number(annotations.get(_SET + "subgroup-size", "")) or 0
            path = annotation(_SET + _SET_LEVELS[1])
            name = self._with_level(level or required or "")
            request_ = None
            if required is not None:
                request_ = self._sound(pod.object, path, name, required, None)
            if level is not None and size > 1:
                topology = self.found.get(name)
                if topology is None or required not in (None, *topology.levels):
                    pod.object.ignore(path, f"no Topology has the level {level} of subgroups")
                elif sum(one.role == role for one in draft.pods) % size:
                    why = "the leader is in a subgroup beside as many workers as others"
                    pod.object.ignore(path, why)
                else:
                    segments = [Segment(size, level)]
                    request_ = TopologyRequest(name, required=required, segments=segments)
            asked[role] = request_
        groups = [evolve(each, topology=asked.get(each.name)) for each in job.groups]
        return evolve(job, groups=groups)

    def _with_level(self, level: str) -> str:
        """Return the name of the first topology with a level; empty: none has it."""
        return next((name for name, each in self.found.items() if level in each.levels), "")

    def _asked_by_pods(self, job: JobInfo, draft: JobDraft) -> JobInfo:
        """Return a job with what Kueue's annotations and Workloads ask for, by pod set.

        Pod sets with a group name ask for one domain together.
        """
        sets: dict[_PodSet, KubernetesObject] = {}
        of_task: dict[str, _PodSet] = {}
        for pod in draft.pods:
            name = pod.task.labels.get(_SET_LABEL) or pod.role or ""
            found = _PodSet.of(name, pod.object)
            sets.setdefault(found, pod.object)
            of_task[pod.task.uid] = found
        of_template: dict[str, _PodSet] = {}
        for template in draft.templates:
            found = _PodSet.of(template.set_name, template.pod_object)
            if not found.asks:
                found = found.of_request(template.above.child("topologyRequest"))
            sets.setdefault(found, template.source)
            of_template[template.set_name] = found
        of_task |= {pod.task.uid: of_template[pod.role or ""] for pod in draft.made}
        if not any(each.asks for each in sets):
            return job
        together: dict[str, dict[_PodSet, KubernetesObject]] = {}
        for each, given in sets.items():
            together.setdefault(each.key, {})[each] = given
        requests = {name: self._of_pod_sets(same) for name, same in together.items()}
        if len(requests) == 1:
            return evolve(job, topology=next(iter(requests.values())))
        of_group = {t.uid: of_task[t.uid].key for t in job.tasks if t.uid in of_task}
        if job.groups:
            known = {task.uid: task.group for task in job.tasks}
            pairs = {(known[uid], name) for uid, name in of_group.items()}
            named = dict(pairs)
            if len(pairs) == len(named) == len(set(named.values())):  # the roles are the sets
                groups = [
                    evolve(each, topology=requests.get(named.get(each.name, ""), each.topology))
                    for each in job.groups
                ]
                return evolve(job, groups=groups)
        elif job.min_available >= len(job.tasks):
            count = Counter(of_group.values())
            groups = [
                TaskGroup(name, min=number, topology=requests[name])
                for name, number in count.items()
            ]
            return with_tasks(evolve(job, groups=groups), _in_groups(job.tasks, of_group))
        message = "pod sets ask for other domains than the roles of the job, or not all start"
        next(given for each, given in sets.items() if each.asks).ignore(_PATH, message)
        return job

    def _of_pod_sets(self, sets: Mapping[_PodSet, KubernetesObject]) -> TopologyRequest | None:
        """Return what pod sets ask for that are placed together."""
        asking = {each: given for each, given in sets.items() if each.asks}
        if not asking:
            return None
        first, given = next(iter(asking.items()))
        if any(
            (each.required, each.preferred) != (first.required, first.preferred) for each in asking
        ):
            message = "pod sets that are placed together ask for different levels"
            given.ignore(_PATH, message)
            return None
        required, preferred, level, size = first.required, first.preferred, first.level, first.size
        if not (required or preferred or level):
            if len(self._of_kueue) != 1:
                given.ignore(annotation(_UNCONSTRAINED), "there is no one Topology of Kueue")
                return None
            # It may be anywhere in it; Kueue, too, fills nodes rather than spreads over them.
            preferred = self.found[self._of_kueue[0]].levels[-1]
        name = self._with_level(required or preferred or level)
        request_ = self._sound(given, _PATH, name, required or None, preferred or None)
        if level and request_ is not None:
            count, path = whole_number(size), f"metadata.annotations[{_PODSET}slice]"
            if request_.topology is None or level not in self.found[name].levels or not count:
                given.ignore(path, "no topology has this level, or the slices have no size")
            elif any((each.level, each.size) != (level, size) for each in sets):
                given.ignore(path, "pods of other pod sets are placed with those of the slices")
            elif count > 1:
                request_ = evolve(request_, segments=[Segment(count, level)])
        return request_

    def _levels(self) -> str:
        """Return which levels each topology has, in words."""
        return "; ".join(
            f"{each.name} has {', '.join(each.levels)}" for each in self.found.values()
        )

    def _sound(
        self,
        given: KubernetesObject,
        path: str,
        name: str,
        required: str | None,
        preferred: str | None,
    ) -> TopologyRequest | None:
        """Return a request of levels that exist; of one level alone without its topology."""
        topology = self.found.get(name)
        if topology is None:
            if required is not None:
                if self.found:
                    message = f"no node is in it: no Topology has the level {required}: "
                    given.note(NoticeCode.READ_AS, path, message + self._levels())
                return TopologyRequest(required=required)
            given.ignore(path, f"no Topology has {preferred}")
            return None
        levels = topology.levels
        for level in (required, preferred):
            if level is not None and level not in levels:
                message = f"Topology {name} has no level {level} (it has {', '.join(levels)})"
                if required is None:
                    given.ignore(path, message)
                    return None
                if level == required:
                    given.note(NoticeCode.READ_AS, path, f"no node is in it: {message}")
                else:
                    given.ignore(path, message)
                return TopologyRequest(required=required)
        if required and preferred and levels.index(preferred) < levels.index(required):
            preferred = None  # a wider domain is no preference
        return TopologyRequest(name, required=required, preferred=preferred)


def _members(
    one: KubernetesObject, nodes: Sequence[NodeInfo], hyper_nodes: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each member of a HyperNode that exists."""
    for member in one.spec.children("members"):
        kind, selector = member.text("type"), member.child("selector")
        names = [node.name for node in nodes] if kind == "Node" else list(hyper_nodes)
        exact = selector.child("exactMatch").text("name")
        if exact:
            names = [exact] if exact in names else []
        elif selector.optional_child("regexMatch") is not None:
            pattern = selector.child("regexMatch").text("pattern")
            try:
                names = [name for name in names if re.search(pattern, name)]
            except re.error:
                one.ignore("spec.members", f"{pattern!r} is no regular expression")
                names = []
        elif selector.optional_child("labelMatch") is not None and kind == "Node":
            labels = label_selector(selector.child("labelMatch"))
            names = [node.name for node in nodes if labels.matches(node.labels)]
        else:
            names = []
        yield from ((kind, name) for name in names)


def _requiring(task: TaskInfo, labels: Iterable[str]) -> TaskInfo:
    """Return a task for nodes with some labels, whatever their values."""
    own = task.node_affinity or NodeAffinity()
    exist = tuple(Requirement(key=label, operator=Operator.EXISTS) for label in labels)
    terms = (NodeSelectorTerm(),) if own.required is None else own.required
    required = [
        evolve(term, match_expressions=(*term.match_expressions, *exist))
        for term in terms
        if own.required is None or not term.is_empty()
    ]
    return evolve(task, node_affinity=evolve(own, required=required))


def _only_role(job: JobInfo, uids: Collection[str]) -> str | None:
    """Return the role of which tasks are all that there are; None: they are of none, or several."""
    roles = {task.group for task in job.tasks if task.uid in uids}
    others = {task.group for task in job.tasks if task.uid not in uids}
    role = next(iter(roles)) if len(roles) == 1 else None
    known = {group.name for group in job.groups if group.parent is None}
    return role if role in known - others else None


def _in_groups(tasks: Iterable[TaskInfo], of_task: Mapping[str, str]) -> list[TaskInfo]:
    return [evolve(task, group=of_task.get(task.uid, WITHOUT_ROLE)) for task in tasks]


def _with_numbers(job: JobInfo, draft: JobDraft) -> JobInfo:
    """Return a job with segments in which tasks have the numbers that their pods say. O(tasks)."""
    asked = {group.name: group.topology for group in job.groups}
    numbers: dict[str, int] = {}
    of_group: dict[str | None, list[str]] = {}
    # The pod that replaces one that ended or leaves has the same number.
    gone = {task.uid for task in job.tasks if task.status in (*ENDED, TaskStatus.RELEASING)}
    for task in job.tasks:
        request_ = asked.get(task.group or "") or job.topology
        if request_ is not None and request_.segments:
            of_group.setdefault(task.group, []).append(task.uid)
    if not of_group:
        return job
    for pod in draft.pods:
        annotations = pod.object.annotations
        for key in _NUMBERS:
            text = pod.task.labels.get(key) or annotations.get(key)
            number = None if text is None else whole_number(text)
            if number is not None and number >= 0:
                numbers[pod.task.uid] = number
                break
    numbered: dict[str, int] = {}
    for uids in of_group.values():
        staying = [uid for uid in uids if uid not in gone]
        found = {uid: numbers[uid] for uid in staying if uid in numbers}
        if len(set(found.values())) == len(staying):  # each has one of its own
            numbered |= found
            taken = set(found.values())
            for uid in sorted(gone.intersection(uids)):
                if uid in numbers and numbers[uid] not in taken:
                    numbered[uid] = numbers[uid]
                    taken.add(numbers[uid])
    tasks = [evolve(task, index=numbered.get(task.uid)) for task in job.tasks]
    return evolve(job, tasks=tasks)
