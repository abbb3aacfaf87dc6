"""Tasks of a need that must be near one another by inter-pod affinity."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from attrs import evolve, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.plugin.session_view import SessionView
from batchsched.state.needs import Need, need_of_tasks
from batchsched.state.pod_affinity import Meaning, PodAffinityIndex, meaning_of
from batchsched.state.records import JobState, TaskState


@frozen(eq=False)
class Linked:
    """Tasks that must share a domain of some label keys."""

    need: Need
    """The tasks, at least two, and the label keys, in `Need.near`."""
    is_mutual: bool
    """Whether all of them must be near all of them: they have no places in several domains."""

    @property
    def tasks(self) -> tuple[TaskState, ...]:
        """The tasks, in task order."""
        return self.need.tasks


def may_be_linked(job: JobState) -> bool:
    """Return whether any task of a job must be near another one of it, by their descriptions."""
    if len(job.tasks) == 1 or not any(task.must_be_near for task in job.tasks):
        return False
    kinds = {PodAffinityIndex.signature(task): task.info for task in job.tasks}
    for info in kinds.values():
        terms = () if info.pod_affinity is None else info.pod_affinity.required
        meanings = [meaning_of(term, info.namespace) for term in terms]
        if terms and any(all(each.means(other) for each in meanings) for other in kinds.values()):
            return True
    return False


def linked_parts(view: SessionView, need: Need) -> Sequence[Linked]:
    """Return the parts of a need that must be near each other, the largest first.

    A task is linked if no task elsewhere is one that it must be near: to all in the need that are,
    if it is itself, else to the first one. O(tasks), and the promised tasks if any may be linked.
    """
    if need.near or len(need.tasks) == 1 or not any(task.must_be_near for task in need.tasks):
        return ()
    index = view.pod_affinity
    kinds: dict[Hashable, list[TaskState]] = {}
    for task in need.tasks:
        kinds.setdefault(index.signature(task), []).append(task)
    together: dict[tuple[str, ...], list[_Joined]] = {}
    for tasks in kinds.values():
        near = tasks[0].info.pod_affinity
        if near is None or not near.required:
            continue
        profile, meanings = index.profile(tasks[0]), _meanings(tasks[0])
        if any(there.is_anywhere for there in profile.required) or _is_promised(view, meanings):
            continue
        wanted = [others for others in kinds.values() if _are_meant(meanings, others[0])]
        if not wanted:
            continue
        if not profile.meets_itself:
            wanted = [wanted[0][:1]]
        joined = _Joined(
            {task for some in (tasks, *wanted) for task in some},
            {meanings, *[_meanings(some[0]) for some in wanted]},
        )
        keys = tuple(dict.fromkeys(term.topology_key for term in near.required))
        parts = together.setdefault(keys, [])
        for part in [part for part in parts if not part.tasks.isdisjoint(joined.tasks)]:
            parts.remove(part)
            joined = _Joined(joined.tasks | part.tasks, joined.meanings | part.meanings)
        parts.append(joined)
    found = [
        Linked(_part(need, keys, part.tasks), len(part.meanings) == 1)
        for keys, parts in together.items()
        for part in parts
        if len(part.tasks) > 1
    ]
    return sorted(found, key=lambda each: -len(each.tasks))


class _Joined(NamedTuple):
    tasks: set[TaskState]
    meanings: set[frozenset[Meaning]]
    """What the terms of the tasks select, by kind. All of them select all of them if it is one."""


def disjoint(linked: Sequence[Linked]) -> Sequence[Linked]:
    """Return parts without the tasks that earlier ones have; those with two tasks or more."""
    seen: set[TaskState] = set()
    found: list[Linked] = []
    for each in linked:
        own = {task for task in each.tasks if task not in seen}
        seen |= own
        if len(own) == len(each.tasks):
            found.append(each)
        elif len(own) > 1:
            found.append(Linked(_part(each.need, each.need.near, own), each.is_mutual))
    return found


def _meanings(task: TaskState) -> frozenset[Meaning]:
    """Return what the required affinity terms of a task select."""
    near, namespace = task.info.pod_affinity, task.info.namespace
    terms = () if near is None else near.required
    return frozenset([meaning_of(term, namespace) for term in terms])


def _part(need: Need, keys: tuple[str, ...], part: set[TaskState]) -> Need:
    tasks = tuple([task for task in need.tasks if task in part])
    return evolve(need_of_tasks(need.job, tasks), group=need.group, stage=need.stage, near=keys)


def _are_meant(meanings: Collection[Meaning], task: TaskState) -> bool:
    return all(meaning.means(task.info) for meaning in meanings)


def _is_promised(view: SessionView, meanings: Collection[Meaning]) -> bool:
    promised = (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)
    return any(
        task.status in promised and _are_meant(meanings, task)
        for job in view.jobs_having(*promised)
        for task in job.tasks
    )
