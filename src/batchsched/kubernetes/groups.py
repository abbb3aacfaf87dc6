"""Pod groups and priority classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.timing import read_job_timing
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import JobInfo, TaskGroup
from batchsched.model.notice import NoticeCode
from batchsched.model.texts import did_you_mean

__all__ = [
    "WITHOUT_ROLE",
    "PriorityClasses",
    "read_pod_group",
    "read_priority_classes",
]


WITHOUT_ROLE = "-"
"""The group of pods without a role, in a PodGroup with roles; not a valid name of a role."""


@frozen
class PriorityClasses:
    """The given PriorityClasses."""

    values: Mapping[str, int]
    """Name to value."""
    default: int | None
    """The value of the class with ``globalDefault``, if there is one; of several the smallest, as
    in Kubernetes."""

    def of(self, given: KubernetesObject, name: str, default: int) -> int:
        """Return the priority of an object, given the class that its spec names; "": none."""
        value = self.values.get(name)
        if value is not None:
            return value
        fallback = default if self.default is None else self.default
        if name:
            meant = did_you_mean(name, sorted(self.values))
            hint = f" ({meant})" if meant else ""
            given.note(
                NoticeCode.PRIORITY_CLASS_MISSING,
                "spec.priorityClassName",
                f"priority class {name!r} was not given{hint}: priority {fallback} is used",
            )
        return fallback


def read_priority_classes(classes: Iterable[KubernetesObject], /) -> PriorityClasses:
    """Return the name and value of every PriorityClass, and the default."""
    values: dict[str, int] = {}
    defaults: list[int] = []
    for priority_class in classes:
        priority_class.creation_time()  # not stored, but it is a lower bound of the present time
        value = priority_class.reader.integer("value")
        values[priority_class.name] = value
        if priority_class.reader.truth("globalDefault"):
            defaults.append(value)
    return PriorityClasses(values, min(defaults, default=None))


def read_pod_group(
    group: KubernetesObject, priorities: PriorityClasses, default_queue: str, /
) -> JobInfo:
    """Return a PodGroup as a `JobInfo` without tasks."""
    spec = group.reader.child("spec")
    note_unsupported(group)
    job = JobInfo(
        name=group.name,
        namespace=group.namespace,
        queue=spec.text("queue") or default_queue,
        # The API omits a 0.
        min_available=spec.integer("minMember", default=0),
        priority=priorities.of(group, spec.text("priorityClassName"), 0),
        creation_time=group.creation_time(),
        groups=tuple(_roles(spec)),
        min_groups=_min_groups(spec),
    )
    return read_job_timing(group).of(job)


def _roles(spec: Reader) -> Iterator[TaskGroup]:
    """Yield the groups of a PodGroup: Volcano's roles, and KAI Scheduler's subgroups."""
    for name, least in spec.integer_map("minTaskMember").items():
        yield TaskGroup(name, min=least)
    subgroups = list(spec.children("subGroups"))
    parents = {subgroup.text("parent") for subgroup in subgroups}
    for subgroup in subgroups:
        name = subgroup.text("name", required=True)
        if name in parents:
            parts: int | None = None
            if subgroup.get("minSubGroup") is not None:
                parts = subgroup.integer("minSubGroup")
        else:
            parts = subgroup.integer("minMember", default=0)
        yield TaskGroup(name, parent=subgroup.text("parent") or None, min=parts)


def _min_groups(spec: Reader) -> int | None:
    """Return how many of its top-level groups a PodGroup needs; None: all."""
    return None if spec.get("minSubGroup") is None else spec.integer("minSubGroup")
