"""What keeps pods from being evicted, as objects say it: budgets, and annotations of groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from attrs import frozen

from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.job_drafts import JobDraft
from batchsched.kubernetes.objects import KubernetesObject, Reader, annotation, whole_number
from batchsched.kubernetes.pods import label_selector
from batchsched.model.cluster import Budget, Preemptible, TaskInfo
from batchsched.model.constraints import LabelSelector
from batchsched.model.validation.values import shown

_PERCENT = re.compile(r"(\d{1,3})%", re.ASCII)
_TRUE = ("1", "t", "true")
_ONE_FOR_ALL = "whether its pods may be evicted is said of the whole group"
_NO_SELECTOR = "it has no selector: it counts no pods"
_NO_AMOUNT = "it has neither minAvailable nor maxUnavailable: it protects nothing"
_NO_OWN_LABEL = "no label is on all pods of the group and on no others, by which they could count"


@frozen
class _Amount:
    """How many pods: a number, or a percentage of all that are expected."""

    number: int
    is_percentage: bool = False

    def of(self, expected: int) -> int:
        """Return how many of the expected pods, rounded up as Kubernetes and Volcano do."""
        return ceil(self.number * expected / 100) if self.is_percentage else self.number

    @classmethod
    def read(cls, given: object) -> _Amount | None:
        """Return an amount; None: it cannot be read."""
        if isinstance(given, int) and not isinstance(given, bool):
            return cls(given) if given >= 0 else None
        if not isinstance(given, str):
            return None
        percentage = _PERCENT.fullmatch(given)
        number = whole_number(given) if percentage is None else int(percentage[1])
        return None if number is None or number < 0 else cls(number, percentage is not None)


# PodDisruptionBudgets


def read_budgets(
    objects: DumpObjects, drafts: Iterable[JobDraft], tasks: Iterable[TaskInfo]
) -> list[Budget]:
    """Return PodDisruptionBudgets, and the budgets that groups of Volcano are annotated with.

    O(budgets with a percentage that no controller told x tasks, and tasks x labels where groups
    are annotated).

    Args:
        objects: all objects.
        drafts: the jobs.
        tasks: all tasks.

    """
    tasks = tuple(tasks)
    found = [_of_object(given, tasks) for given in objects.of(api.POLICY, "PodDisruptionBudget")]
    annotated = [(draft, *each) for draft in drafts for each in _annotated(draft)]
    if annotated:
        sharing = _by_label(tasks)
        found += [_of_group(*each, sharing) for each in annotated]
    return [budget for budget in found if budget is not None]


def _of_object(given: KubernetesObject, tasks: Iterable[TaskInfo]) -> Budget | None:
    """Return a PodDisruptionBudget; None: it protects nothing.

    Kubernetes breaks one where nothing else helps. Its controller tells how many pods must be
    healthy; until it does, a percentage is one of the pods that are there.
    """
    spec = given.spec
    if spec.optional_child("selector") is None:
        given.ignore("spec.selector", _NO_SELECTOR)
        return None
    selector = label_selector(spec.child("selector"))
    least, most = _amount_at(spec, "minAvailable"), _amount_at(spec, "maxUnavailable")
    status = given.status
    desired = status.integer("desiredHealthy", default=0, least=0)
    if least is None and most is None:
        given.ignore("spec.minAvailable", _NO_AMOUNT)
        return None
    if desired or status.get("observedGeneration") is not None:
        least, most = _Amount(desired), None
    return _budget(given.name, given.namespace, selector, least, most, tasks=tasks)


def _amount_at(spec: Reader, key: str) -> _Amount | None:
    value = spec.get(key)
    amount = _Amount.read(value)
    if value is not None and amount is None:
        spec.fault(
            f".{key}", f"expected a number of pods, or a percentage such as 50%, got {shown(value)}"
        )
    return amount


def _budget(
    name: str,
    namespace: str,
    selector: LabelSelector,
    least: _Amount | None,
    most: _Amount | None,
    *,
    tasks: Iterable[TaskInfo],
) -> Budget:
    expected = 0
    if any(amount is not None and amount.is_percentage for amount in (least, most)):
        expected = sum(
            task.namespace == namespace and not task.status.ended and selector.matches(task.labels)
            for task in tasks
        )
    return Budget(
        name=name,
        namespace=namespace,
        selector=selector,
        min_available=None if least is None else least.of(expected),
        max_unavailable=None if most is None else most.of(expected),
        hard=False,
    )


# What groups of Volcano are annotated with


def _annotated(draft: JobDraft) -> Iterator[tuple[KubernetesObject, str, _Amount]]:
    """Yield the annotation of a group that makes it a budget, with the amount; the first counts."""
    if draft.system != "volcano" or not draft.objects or not draft.pods:
        return
    group = draft.objects[0]
    for key in (api.JDB_LEAST, api.JDB_MOST):
        text = group.annotations.get(key)
        if text is not None:
            amount = _Amount.read(text)
            if amount is None:
                why = f"expected a number of pods, or a percentage such as 50%, got {shown(text)}"
                group.ignore(annotation(key), why)
            else:
                yield group, key, amount
            return


_Label = tuple[str, str, str]
"""A namespace, and a label of pods in it."""


def _by_label(tasks: Iterable[TaskInfo]) -> Mapping[_Label, set[str]]:
    """Return the UIDs of the tasks with each label. O(tasks x labels)."""
    found: dict[_Label, set[str]] = {}
    for task in tasks:
        for key, value in task.labels.items():
            found.setdefault((task.namespace, key, value), set()).add(task.uid)
    return found


def _of_group(
    draft: JobDraft,
    group: KubernetesObject,
    key: str,
    amount: _Amount,
    sharing: Mapping[_Label, set[str]],
) -> Budget | None:
    """Return the budget that a group of Volcano is annotated with; it is never broken."""
    own = {pod.task.uid for pod in (*draft.pods, *draft.made)}
    in_common = {
        name: value
        for name, value in draft.pods[0].task.labels.items()
        if all(pod.task.labels.get(name) == value for pod in draft.pods)
    }
    of_job = {name: value for name, value in in_common.items() if name == api.VOLCANO_JOB_NAME}
    for labels in (of_job, in_common):
        having = [sharing[draft.namespace, name, value] for name, value in labels.items()]
        if having and having[0].intersection(*having[1:]) <= own:
            several = amount.of(len(own))
            is_least = key == api.JDB_LEAST
            return Budget(
                name=f"podgroup/{draft.name}",
                namespace=draft.namespace,
                selector=LabelSelector(match_labels=labels),
                min_available=several if is_least else None,
                max_unavailable=None if is_least else several,
            )
    group.ignore(annotation(key), _NO_OWN_LABEL)
    return None


def take_preemptable(draft: JobDraft) -> None:
    """Let a job of Volcano be protected that its group, or else each pod, says is not preemptable.

    Volcano evicts pods one by one, each that is marked as preemptable; a pod that says otherwise
    than its group is noted.
    """
    said = [_preemptable(pod.object) for pod in draft.pods]
    own = [_preemptable(given) for given in draft.objects[:1] if draft.system == "volcano"]
    of_group = own[0] if own else None
    if of_group is None and said and all(each is False for each in said):
        of_group = False
    if of_group is False and draft.system == "volcano":
        draft.preemptible = Preemptible.NEVER
    may_go = draft.preemptible is not Preemptible.NEVER
    for pod, each in zip(draft.pods, said, strict=True):
        if each is not None and each is not may_go:
            pod.object.ignore(annotation(api.PREEMPTABLE), _ONE_FOR_ALL)


def _preemptable(given: KubernetesObject) -> bool | None:
    """Return whether a group or pod says that it may be evicted; None: it does not say."""
    key = api.PREEMPTABLE
    text = given.annotations.get(key, given.labels.get(key))
    return None if text is None else text.lower() in _TRUE
