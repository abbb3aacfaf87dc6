"""Reads Kubernetes' own groups of pods: PodGroups, trees of them, and Workloads of 1.35."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.job_drafts import JobDraft
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.pods import Pod, PriorityClasses
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Hold, TaskGroup
from batchsched.model.topology import TopologyRequest

_PARENT = "parentCompositePodGroupName"
SYSTEM = "kubernetes"


@define(eq=False)
class NativeGroups:
    """The jobs of Kubernetes' own groups."""

    drafts: list[JobDraft] = field(factory=list[JobDraft])
    of_group: dict[str, tuple[JobDraft, str | None]] = field(
        factory=dict[str, tuple[JobDraft, str | None]]
    )
    """The job of every PodGroup, by namespace/name, and its role in the job."""
    _workloads: dict[str, KubernetesObject] = field(factory=dict[str, KubernetesObject])
    _of_workloads: dict[tuple[str, str, str, str], JobDraft] = field(
        factory=dict[tuple[str, str, str, str], JobDraft]
    )

    @classmethod
    def read(cls, objects: DumpObjects, priorities: PriorityClasses) -> NativeGroups:
        """Return the jobs of PodGroups and CompositePodGroups. O(groups)."""
        found = cls()
        composites = {g.full_name: g for g in objects.of(api.KUBERNETES, "CompositePodGroup")}
        groups = objects.of(api.KUBERNETES, "PodGroup")
        roots: dict[str, str | Hold] = {}
        for name in composites:
            _find_root(name, composites, roots)
        trees: dict[str, JobDraft] = {}
        for name, given in composites.items():
            if roots[name] == name:
                trees[name] = found._new(given, priorities)
                trees[name].min_groups = _least(given, "minGroupCount")
        taken = {(root, given.name) for given in groups if (root := _above(given, roots))}
        role_of: dict[str, str] = {}
        for name, given in composites.items():
            top = roots[name]
            if isinstance(top, str) and top != name:
                role = given.name
                while (top, role) in taken:
                    role = f"{given.kind}/{role}"
                taken.add((top, role))
                role_of[name] = role
        for given in (*composites.values(), *groups):
            note_unsupported(given, f"{given.kind} (Kubernetes)")
            spec = given.spec
            parent = spec.text(_PARENT)
            name, is_leaf = given.full_name, given.kind == "PodGroup"
            if not is_leaf and name in trees:
                continue
            if not parent and is_leaf:
                draft = found._new(given, priorities)
                draft.min_available = _least(given, "minCount")
                found.of_group[name] = draft, None
                continue
            above = f"{given.namespace}/{parent}"
            found_root = roots.get(above, Hold(HoldKind.GROUP_MISSING, parent))
            if isinstance(found_root, Hold):
                if is_leaf:
                    draft = found._new(given, priorities)
                    draft.min_available = _least(given, "minCount")
                    draft.is_missing = True
                    draft.holds.append(found_root)
                    found.of_group[name] = draft, None
                continue
            draft = trees[found_root]
            role = given.name if is_leaf else role_of[name]
            least = _least(given, "minCount" if is_leaf else "minGroupCount")
            near = _topology(given)
            group = TaskGroup(role, parent=role_of.get(above), min=least, topology=near)
            draft.groups = (*draft.groups, group)
            draft.objects.append(given)
            if is_leaf:
                found.of_group[name] = draft, role
        found._workloads = {w.full_name: w for w in objects.of(api.KUBERNETES, "Workload")}
        return found

    def _new(self, given: KubernetesObject, priorities: PriorityClasses) -> JobDraft:
        spec = given.spec
        if spec.get("priority") is not None:
            priority = spec.integer("priority")
        else:
            priority = priorities.of(given, spec.text("priorityClassName"), 0)
        draft = JobDraft(
            SYSTEM,
            given.kind,
            api.KUBERNETES,
            given.namespace,
            given.name,
            [given],
            priority=priority,
            topology=_topology(given),
        )
        self.drafts.append(draft)
        return draft

    def of_pod(self, pod: Pod) -> tuple[JobDraft, str | None] | str | None:
        """Return the job of a pod and its role; the name of what is missing; None: no group."""
        spec = pod.object.spec
        if spec.get("schedulingGroup") is not None:
            name = spec.child("schedulingGroup").text("podGroupName")
            if name:
                return self.of_group.get(f"{pod.task.namespace}/{name}", name)
        if spec.get("workloadRef") is not None:
            return self._of_workload(pod, spec.child("workloadRef"))
        return None

    def _of_workload(self, pod: Pod, ref: Reader) -> tuple[JobDraft, str | None] | None:
        workload, group = ref.text("name"), ref.text("podGroup")
        replica = ref.text("podGroupReplicaKey")
        if not workload:
            return None
        key = pod.task.namespace, workload, group, replica
        draft = self._of_workloads.get(key)
        if draft is None:
            given = self._workloads.get(f"{pod.task.namespace}/{workload}")
            name = "-".join(part for part in key[1:] if part)
            draft = JobDraft(SYSTEM, "Workload", api.KUBERNETES, pod.task.namespace, name)
            draft.add_alias(workload)
            policy: Reader | None = None
            for one in () if given is None else given.spec.children("podGroups"):
                if policy is None and one.text("name") == group:
                    policy = one.child("policy")
            if given is not None:
                draft.objects.append(given)
            if policy is None:
                draft.is_missing = True
                draft.min_available = None
                missing = workload if given is None else f"{workload}/{group}"
                draft.holds.append(Hold(HoldKind.GROUP_MISSING, missing))
            else:
                draft.min_available = _policy_least(policy, "minCount")
            self._of_workloads[key] = draft
            self.drafts.append(draft)
        return draft, None


def _above(given: KubernetesObject, roots: Mapping[str, str | Hold]) -> str | None:
    parent = given.spec.text(_PARENT)
    root = roots.get(f"{given.namespace}/{parent}") if parent else None
    return root if isinstance(root, str) else None


def _find_root(
    name: str, composites: Mapping[str, KubernetesObject], roots: dict[str, str | Hold]
) -> None:
    """Enter the root of a group and of all above it, or what keeps them from having one."""
    path: dict[str, None] = {}
    found: str | Hold
    while True:
        if name in roots:
            found = roots[name]
            break
        given = composites.get(name)
        if given is None:
            found = Hold(HoldKind.GROUP_MISSING, name.partition("/")[2])
            break
        if name in path:
            group = min(list(path)[list(path).index(name) :]).partition("/")[2]
            detail = f"the groups above {group} form a cycle"
            found = Hold(HoldKind.GROUP_MISSING, group, detail)
            break
        path[name] = None
        parent = given.spec.text(_PARENT)
        if not parent:
            found = name
            break
        name = f"{given.namespace}/{parent}"
    for each in path:
        roots[each] = found


def _least(given: KubernetesObject, key: str) -> int:
    return _policy_least(given.spec.child("schedulingPolicy"), key)


def _policy_least(policy: Reader, key: str) -> int:
    """Return the minimum of a policy: that of a gang, or 1 for a basic one."""
    gang = policy.optional_child("gang")
    return 1 if gang is None else gang.integer(key, default=1, least=0)


def _topology(given: KubernetesObject) -> TopologyRequest | None:
    """Return the level of which one domain must hold a group: the values of a node label."""
    constraints = given.spec.child("schedulingConstraints")
    # The latter names are those of an alpha of 1.36.
    keys = [
        each.text("key") or each.text("topologyKey")
        for each in (
            *constraints.children("topology"),
            *constraints.children("topologyConstraints"),
        )
    ]
    for key in keys[1:]:
        why = f"the group may be spread over values of {key}"
        given.ignore("spec.schedulingConstraints.topology", why)
    return TopologyRequest(required=keys[0]) if keys and keys[0] else None
