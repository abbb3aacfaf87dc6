"""Reads topologies, Volcano's HyperNodes, and what groups and pods ask of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, field

from batchsched.kubernetes.dump_objects import (
    HYPER_NODES,
    KAI,
    KAI_TOPOLOGIES,
    KUBE_BATCH,
    KUEUE,
    VOLCANO,
    DumpObjects,
)
from batchsched.kubernetes.job_drafts import JobDraft
from batchsched.kubernetes.objects import KubernetesObject, Reader, whole_number
from batchsched.kubernetes.pods import label_selector
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo
from batchsched.model.notice import NoticeCode
from batchsched.model.topology import Domain, Segment, Topology, TopologyRequest

_NAME = "HyperNodes"
"""The name of the topology that Volcano's HyperNodes form."""
_PODSET = "kueue.x-k8s.io/podset-"
_ON_PODS = (*("required-topology", "preferred-topology", "slice-required-topology", "slice-size"),)
_NUMBERS = (
    *("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index"),
    *("leaderworkerset.sigs.k8s.io/worker-index", "volcano.sh/task-index"),
    *("training.kubeflow.org/replica-index", "kueue.x-k8s.io/pod-group-pod-index"),
)
"""The labels and annotations that number the pods of a job or of a role of it."""


@define(eq=False)
class Topologies:
    """The topologies of a dump."""

    found: dict[str, Topology] = field(factory=dict[str, Topology])
    """By the names that they have in the snapshot."""
    _of_kai: dict[str, str] = field(factory=dict[str, str])
    _tiers: dict[int, str] = field(factory=dict[int, str])
    """The levels of HyperNodes, by tier."""
    _tier_named: dict[str, int] = field(factory=dict[str, int])

    @classmethod
    def read(cls, objects: DumpObjects, nodes: Iterable[NodeInfo]) -> Topologies:
        """Return all topologies. O(objects), and O(HyperNodes x nodes) where they match nodes."""
        read = cls()
        for group in (KUEUE, KAI_TOPOLOGIES):
            for given in objects.of(group, "Topology"):
                name = given.name if given.name not in read.found else f"{given.name}.{group}"
                levels = dict.fromkeys(
                    each.text("nodeLabel", required=True)
                    for each in given.reader.child("spec").children("levels")
                )
                if levels:
                    read.found[name] = Topology(name, list(levels))
                    if group == KAI_TOPOLOGIES:
                        read._of_kai[given.name] = name
        hyper_nodes = objects.of(HYPER_NODES, "HyperNode")
        if hyper_nodes:
            read._read_hyper_nodes(hyper_nodes, list(nodes))
        return read

    def _read_hyper_nodes(
        self, given: Sequence[KubernetesObject], nodes: Sequence[NodeInfo]
    ) -> None:
        tiers: dict[str, int] = {}
        for one in given:
            spec = one.reader.child("spec")
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
        name = _NAME if _NAME not in self.found else f"{_NAME}.{HYPER_NODES}"
        self.found[name] = Topology(name, list(self._tiers.values()), domains)

    # What jobs ask of them

    def asked_by(self, job: JobInfo, draft: JobDraft) -> JobInfo:
        """Return a job with what its group and its pods ask of topologies. O(tasks)."""
        for given in draft.objects:
            spec = given.reader.child("spec")
            if given.kind == "PodGroup" and draft.api_group == KAI:
                job = self._asked_of_kai(job, given, spec)
            elif given.kind == "PodGroup" and draft.api_group in (VOLCANO, KUBE_BATCH):
                job = evolve(job, topology=self._asked_of_volcano(given, spec))
        if draft.topology is not None:
            job = evolve(job, topology=draft.topology)
        if job.topology is None:
            job = self._asked_by_pods(job, draft)
        return _with_numbers(job, draft)

    def _asked_of_kai(self, job: JobInfo, given: KubernetesObject, spec: Reader) -> JobInfo:
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

    def _asked_of_volcano(self, given: KubernetesObject, spec: Reader) -> TopologyRequest | None:
        asked = spec.optional_child("networkTopology")
        if asked is None:
            return None
        path = "spec.networkTopology"
        if not self._tiers:
            given.note(NoticeCode.FIELD_IGNORED, path, "ignored: there are no HyperNodes")
            return None
        narrowest = self._tiers[min(self._tiers)]
        name = next(name for name in self.found if name.startswith(_NAME))
        if asked.text("mode") == "soft":
            return TopologyRequest(name, preferred=narrowest)
        named = asked.text("highestTierName")
        highest = self._tier_named.get(named) if named else None
        if highest is None:
            highest = asked.integer("highestTierAllowed", default=1, least=0)
        allowed = [tier for tier in self._tiers if tier <= highest]
        if not allowed:
            message = f"ignored: there is no HyperNode of tier {highest} or lower"
            given.note(NoticeCode.FIELD_IGNORED, path, message)
            return None
        return TopologyRequest(name, required=self._tiers[max(allowed)], preferred=narrowest)

    def _asked_by_pods(self, job: JobInfo, draft: JobDraft) -> JobInfo:
        """Return a job with what Kueue's annotations and Workloads ask for, if all ask the same."""
        asked: dict[tuple[str, ...], KubernetesObject] = {}
        for pod, _ in draft.pods:
            annotations = pod.object.metadata.text_map("annotations")
            asked.setdefault(
                tuple(annotations.get(_PODSET + each, "") for each in _ON_PODS), pod.object
            )
        for template in draft.templates:
            request = template.above.child("topologyRequest")
            annotations = template.pod_object.metadata.text_map("annotations")
            texts = tuple(annotations.get(_PODSET + each, "") for each in _ON_PODS)
            if any(texts):
                asked.setdefault(texts, template.source)
                continue
            size = request.get("podSetSliceSize")
            asked.setdefault(
                (
                    request.text("required"),
                    request.text("preferred"),
                    request.text("podSetSliceRequiredTopology"),
                    "" if size is None else str(request.integer("podSetSliceSize", least=0)),
                ),
                template.source,
            )
        if not any(any(texts) for texts in asked):
            return job
        texts, given = next((texts, given) for texts, given in asked.items() if any(texts))
        path = f"metadata.annotations[{_PODSET + _ON_PODS[0]!r}]"
        if len(asked) > 1 or job.groups:
            message = "ignored: only what all pods of a job without roles ask for is considered"
            given.note(NoticeCode.FIELD_IGNORED, path, message)
            return job
        required, preferred, level, size = texts
        name = next(
            (
                name
                for name, each in self.found.items()
                if (required or preferred or level) in each.levels
            ),
            "",
        )
        request_ = self._sound(given, path, name, required or None, preferred or None)
        if level and request_ is not None:
            count = whole_number(size)
            if request_.topology is None or level not in self.found[name].levels or not count:
                message = "ignored: no topology has this level, or the slices have no size"
                given.note(
                    NoticeCode.FIELD_IGNORED, f"metadata.annotations[{_PODSET}slice]", message
                )
            elif count > 1:
                request_ = evolve(request_, segments=[Segment(count, level)])
        return evolve(job, topology=request_)

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
                return TopologyRequest(required=required)
            given.note(NoticeCode.FIELD_IGNORED, path, f"ignored: no Topology has {preferred}")
            return None
        levels = topology.levels
        for level in (required, preferred):
            if level is not None and level not in levels:
                message = f"ignored: Topology {name} has no level {level}"
                given.note(NoticeCode.FIELD_IGNORED, path, message)
                return TopologyRequest(required=required) if required else None
        if required and preferred and levels.index(preferred) < levels.index(required):
            preferred = None  # a wider domain is no preference
        return TopologyRequest(name, required=required, preferred=preferred)


def _members(
    one: KubernetesObject, nodes: Sequence[NodeInfo], hyper_nodes: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each member of a HyperNode that exists."""
    for member in one.reader.child("spec").children("members"):
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
                message = f"ignored: {pattern!r} is no regular expression"
                one.note(NoticeCode.FIELD_IGNORED, "spec.members", message)
                names = []
        elif selector.optional_child("labelMatch") is not None and kind == "Node":
            labels = label_selector(selector.child("labelMatch"))
            names = [node.name for node in nodes if labels.matches(node.labels)]
        else:
            names = []
        yield from ((kind, name) for name in names)


def _with_numbers(job: JobInfo, draft: JobDraft) -> JobInfo:
    """Return a job with segments in which tasks have the numbers that their pods say. O(tasks)."""
    if job.topology is None or not job.topology.segments:
        return job
    numbers: dict[str, int] = {}
    for pod, _ in draft.pods:
        annotations = pod.object.metadata.text_map("annotations")
        for key in _NUMBERS:
            text = pod.task.labels.get(key) or annotations.get(key)
            number = None if text is None else whole_number(text)
            if number is not None and number >= 0:
                numbers[pod.task.uid] = number
                break
    if len(set(numbers.values())) < len(job.tasks):
        return job  # not all have one of their own

    def numbered(task: TaskInfo) -> TaskInfo:
        return evolve(task, index=numbers[task.uid])

    return evolve(job, tasks=[numbered(task) for task in job.tasks])
