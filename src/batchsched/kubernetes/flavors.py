"""Kueue's flavors: whether any could ever take a job, and on which nodes it would start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from batchsched.causes import HoldKind
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.job_drafts import JobDraft
from batchsched.kubernetes.kueue import message_of
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.pods import WAITING, amount_unit, taints_of, tolerations_of
from batchsched.kubernetes.queues import flavor_amount
from batchsched.model.cluster import Hold, TaskInfo
from batchsched.model.constraints import Taint, Toleration, untolerated
from batchsched.model.texts import amount_text, listed


@frozen
class _Flavor:
    """A flavor of a ClusterQueue."""

    name: str
    quota: Mapping[str, int]
    """The most that one job may have of it, if nobody lends anything."""
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def refusal(self, task: TaskInfo, count: int, *, may_borrow: bool) -> str:
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
            if asked > most and not may_borrow:
                needs = amount_text(name, asked)
                return f"{self.name} has {amount_text(name, most)}, and it needs {needs}"
        return ""


@frozen
class Flavors:
    """The flavors of the ClusterQueues, by the names that these have in the snapshot."""

    groups: Mapping[str, Sequence[tuple[frozenset[str], Sequence[_Flavor]]]] = field(
        factory=dict[str, "Sequence[tuple[frozenset[str], Sequence[_Flavor]]]"]
    )
    """The resources that each group of resources of a queue covers, with its flavors."""
    in_cohorts: frozenset[str] = frozenset()
    """The queues that may borrow."""

    @classmethod
    def read(cls, objects: DumpObjects, renamed: Mapping[str, str]) -> Flavors:
        """Return the flavors of all queues. O(flavors)."""
        known = {given.name: given for given in objects.of(api.KUEUE, "ResourceFlavor")}
        groups: dict[str, Sequence[tuple[frozenset[str], Sequence[_Flavor]]]] = {}
        in_cohorts: set[str] = set()
        for given in objects.of(api.KUEUE, "ClusterQueue"):
            spec, name = given.spec, renamed.get(given.name, given.name)
            groups[name] = [
                (
                    frozenset(group.texts("coveredResources")),
                    [_flavor(each, known) for each in group.children("flavors")],
                )
                for group in spec.children("resourceGroups")
            ]
            if spec.text("cohortName") or spec.text("cohort"):
                in_cohorts.add(name)
        return cls(groups, frozenset(in_cohorts))

    def let_in(self, draft: JobDraft, queue: str) -> None:
        """Hold a job that Kueue could never admit as it is; else let it start where it would be.

        A flavor that alone may take its pods has labels that become their node selector. What
        Kueue has said of a job counts more than what follows from its flavors here.
        """
        groups = self.groups.get(queue)
        if groups is None or draft.has_quota:
            return
        may_borrow = queue in self.in_cohorts
        is_told = any(message_of(given, "QuotaReserved") for given in draft.objects)
        tasks = [(pod.task, role) for pod, role in draft.pods if pod.task.status in WAITING]
        tasks += draft.made
        alike: dict[str | None, list[TaskInfo]] = {}
        for task, role in tasks:
            alike.setdefault(role, []).append(task)
        for role, members in alike.items():
            least = draft.min_available if len(alike) == 1 else None
            count = min(len(members), least) if least else len(members)
            refusals, chosen = list[str](), list[_Flavor]()
            asked = {name for name, amount in members[0].resreq.dimensions() if amount}
            covered = frozenset[str]().union(*(of_group for of_group, _ in groups))
            if asked - covered:
                refusals.append(f"none of its flavors covers {listed(sorted(asked - covered))}")
            for of_group, flavors in groups:
                if asked.isdisjoint(of_group):
                    continue
                why = [f.refusal(members[0], count, may_borrow=may_borrow) for f in flavors]
                fitting = [f for f, refusal in zip(flavors, why, strict=True) if not refusal]
                chosen += fitting if len(fitting) == 1 else []
                if not fitting:
                    refusals.append(
                        f"flavor {'; flavor '.join(why)}" if why else "it has no flavor"
                    )
            holds = (*draft.holds, *members[0].holds)
            if (
                refusals
                and holds
                and not is_told
                and {h.kind for h in draft.holds} <= {HoldKind.NOT_ADMITTED}
            ):
                draft.holds = [Hold(HoldKind.NEVER_ADMITTED, queue, "; ".join(refusals))]
            self._give(draft, role, chosen)

    @staticmethod
    def _give(draft: JobDraft, role: str | None, flavors: Sequence[_Flavor]) -> None:
        labels = {key: value for each in flavors for key, value in each.labels.items()}
        tolerations = tuple(t for each in flavors for t in each.tolerations)
        if not labels and not tolerations:
            return

        def given(task: TaskInfo, of: str | None) -> TaskInfo:
            if of != role or task.status not in WAITING:
                return task
            return evolve(
                task,
                node_selector={**task.node_selector, **labels},
                tolerations=(*task.tolerations, *tolerations),
            )

        draft.pods = [(evolve(pod, task=given(pod.task, of)), of) for pod, of in draft.pods]
        draft.made = [(given(task, of), of) for task, of in draft.made]


def _flavor(given: Reader, known: Mapping[str, KubernetesObject]) -> _Flavor:
    name = given.text("name")
    quota: dict[str, int] = {}
    for resource in given.children("resources"):
        of, unit = resource.text("name"), amount_unit(resource.text("name"))
        if unit is not None:
            quota[of] = flavor_amount(resource, "nominalQuota", unit=unit) or 0
    if name not in known:
        return _Flavor(name, quota, {})
    spec = known[name].spec
    return _Flavor(
        name,
        quota,
        spec.text_map("nodeLabels"),
        tuple(taints_of(spec, "nodeTaints")),
        tuple(tolerations_of(spec)),
    )
