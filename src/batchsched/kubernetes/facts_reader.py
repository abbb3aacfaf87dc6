"""Reads what a dump says of jobs besides what is scheduled: owners, conditions, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects, owners_of
from batchsched.kubernetes.facts import JobFacts, Told
from batchsched.kubernetes.job_drafts import FAILED_CHECKS, JobDraft
from batchsched.kubernetes.objects import KubernetesObject, Reading, look_up, mappings_in, text_at
from batchsched.kubernetes.pods import WAITING
from batchsched.model.notice import Notice
from batchsched.model.snapshot import Snapshot

_UID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_NOT_OWNERS = ("PodGroup", "CompositePodGroup", "Workload", "Pod", "Node")
_STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"


class FactsReader:
    """Reads the facts of jobs; the times of conditions at once, as they bound the present."""

    def __init__(self, reading: Reading, objects: DumpObjects) -> None:
        """Read when objects have changed. O(objects)."""
        self._reading = reading
        self._objects = objects
        self._changes = [
            (max(given.creation_time(), _condition_times(given)), given)
            for of_kind in objects.by_kind.values()
            for given in of_kind
        ]
        """When each object has changed last, as far as it says, the latest first."""
        self._changes.sort(key=lambda change: -change[0])

    def facts(
        self,
        drafts: Iterable[JobDraft],
        snapshot: Snapshot,
        notices: Sequence[Notice],
        queue_objects: Mapping[str, KubernetesObject],
    ) -> dict[str, JobFacts]:
        """Return the facts of jobs, by UID."""
        noticed = {
            (one.code, one.kind, one.field, one.consequence): (position, one)
            for position, one in enumerate(notices)
        }
        parents = {queue.name: queue.parent for queue in snapshot.queues}
        facts: dict[str, JobFacts] = {}
        for draft in drafts:
            queue: str | None = snapshot.job(draft.uid).queue
            paths = {given.reader.path for given in self._objects_of(draft)}
            while queue is not None:
                if queue in queue_objects:
                    paths.add(queue_objects[queue].reader.path)
                queue = parents.get(queue)
            keys = {key for path in paths for key in self._reading.noted.get(path, ())}
            kind, owner = self._owner_of(draft)
            told = tuple(map(self._with_names, _told_of(draft)))
            facts[draft.uid] = JobFacts(
                job=draft.uid,
                system=draft.system,
                kind=kind,
                owner=owner,
                names=tuple(sorted(set(self._names_of(draft)))),
                local_queue=draft.local_queue,
                has_fixed_priority=draft.has_fixed_priority,
                told=told,
                refusal=self._refusal(draft, told),
                caveats=tuple(one for _, one in sorted(noticed[key] for key in keys)),
            )
        return facts

    def _with_names(self, told: Told) -> Told:
        """Return what a controller says, with the names of objects for their UIDs."""
        message = _UID.sub(lambda uid: self._objects.name_of(uid[0]), told.message)
        return told if message == told.message else evolve(told, message=message)

    def _refusal(self, draft: JobDraft, told: Iterable[Told]) -> Told | None:
        """Return why its scheduler cannot place a job, if nothing else has changed since."""
        said = next((each for each in told if each.is_of_scheduler), None)
        if said is None or said.time is None or not said.says_why or draft.is_submitted:
            return None
        own: set[str] | None = None
        for time, given in self._changes:
            if time < said.time:
                break
            if own is None:
                own = {each.reader.path for each in self._objects_of(draft)}
            if given.reader.path not in own:
                return None
        return said

    def _objects_of(self, draft: JobDraft) -> Iterator[KubernetesObject]:
        yield from draft.objects
        for given in draft.objects:
            yield from self._objects.owner_objects(given)
        for template in draft.templates:
            yield template.pod_object
        seen: set[str] = set()
        for pod in draft.pods:
            yield pod.object
            for owner in self._objects.owner_objects(pod.object):
                if owner.reader.path not in seen:
                    seen.add(owner.reader.path)
                    yield owner

    def _names_of(self, draft: JobDraft) -> Iterator[str]:
        """Yield all names by which a job is found, some several times. O(pods)."""
        yield draft.name
        yield from draft.aliases
        if draft.objects or draft.kind == "LeaderWorkerSet":
            yield f"{draft.kind.lower()}/{draft.name}"
            yield f"{draft.kind.lower()}.{draft.api_group}/{draft.name}"
        for given in draft.own:
            yield given.name
            for owner in self._objects.owners(given):
                yield from owner.names()
        for pod in draft.pods:
            job_name = pod.task.labels.get(api.VOLCANO_JOB_NAME)
            if job_name:
                yield job_name

    def _owner_of(self, draft: JobDraft) -> tuple[str, str]:
        """Return the kind and name of what made a job: the nearest owner that is no group."""
        if draft.kind not in _NOT_OWNERS:
            return draft.kind, draft.name
        pods = sorted((pod.object for pod in draft.pods), key=lambda given: given.name)
        above = self._above_several(pods)
        if above is not None:
            return above
        for given in (*draft.objects, *pods):
            for owner in self._objects.owners(given):
                if owner.kind not in _NOT_OWNERS:
                    return owner.kind, owner.name
        return draft.kind, draft.name

    def _above_several(self, pods: Sequence[KubernetesObject]) -> tuple[str, str] | None:
        """Return what is above the several owners that pods of one gang have; None: nothing."""
        direct = {owner for pod in pods for owner in owners_of(pod) if owner.controls}
        if len(direct) < 2:  # noqa: PLR2004 - more than one
            return None
        of_all = [self._objects.owners(pod) for pod in pods]
        common = (o for o in of_all[0] if all(o in owners for owners in of_all[1:]))
        found = next((owner for owner in common if owner.kind not in _NOT_OWNERS), None)
        return None if found is None else (found.kind, found.name)


def _condition_times(given: KubernetesObject) -> float:
    """Return the latest change of an object's conditions, a lower bound of the present; or 0.0."""
    newest = 0.0
    for key in ("conditions", "schedulingConditions"):
        for condition in given.conditions(key):
            seconds = _changed(given, condition)
            if seconds is not None:
                newest = max(newest, seconds)
                given.reading.take_past(seconds)
    return newest


# Conditions, and what says the same otherwise


def _told_of(draft: JobDraft) -> list[Told]:
    """Return the conditions of a job's objects, and of pods that wait, the newest first."""
    newest: dict[Told, float | None] = {}
    for told in _all_told(draft):
        same, time = evolve(told, time=None), told.time
        before = newest.get(same)
        newest[same] = time if before is None else before if time is None else max(time, before)
    found = [evolve(told, time=time) for told, time in newest.items()]
    found.sort(key=lambda told: (told.type, told.status, told.reason, told.message, told.who))
    found.sort(key=lambda told: float("-inf") if told.time is None else told.time, reverse=True)
    return found


def _all_told(draft: JobDraft) -> Iterator[Told]:
    for given in draft.objects:
        who = api.CALLED.get(api.SYSTEM_OF.get(given.api_group, ""), "")
        for key in ("conditions", "schedulingConditions"):
            for condition in given.conditions(key):
                if text_at(condition, "type"):
                    yield from _conditions(given, condition, who)
        state = look_up(look_up(given.reader.content, "status"), "state")  # of a Volcano Job
        phase = text_at(state, "phase")
        if phase:
            yield _told(state, phase, "True", text_at(state, "reason"), who, _changed(given, state))
        for check in given.conditions("admissionChecks"):
            name, said = text_at(check, "name"), text_at(check, "state")
            if said in FAILED_CHECKS:
                who_checks = f"the check {name}"
                yield _told(check, name, "False", said, who_checks, _changed(given, check))
        since = given.annotations.get(_STALE_SINCE)
        if since:
            said_since = {"message": f"stale since {since}"}
            yield _told(said_since, "Stale", "True", "", who, _time(given, since))
    for pod in draft.pods:
        if pod.task.status in WAITING:
            name = pod.scheduler_name
            is_kube = name in api.KUBE_SCHEDULER
            system = "kubernetes" if is_kube else api.BATCH_SCHEDULERS.get(name, "")
            who = api.CALLED.get(system, f"the scheduler {name}")
            for condition in pod.object.conditions():
                if look_up(condition, "type") == "PodScheduled":
                    for each in _conditions(pod.object, condition, who):
                        if each.status == "False" and each.reason != "SchedulingGated":
                            yield each


def _conditions(
    given: KubernetesObject, condition: Mapping[str, object], who: str
) -> Iterator[Told]:
    """Yield a condition of an object; one of KAI Scheduler for each of its reasons."""
    kind, status = text_at(condition, "type"), text_at(condition, "status")
    time = _changed(given, condition)
    for said in list(mappings_in(look_up(condition, "reasons"))) or [condition]:
        yield _told(said, kind, status, text_at(said, "reason"), who, time)


def _told(said: object, kind: str, status: str, reason: str, who: str, time: float | None) -> Told:
    message = text_at(said, "message")
    return Told(type=kind, status=status, reason=reason, message=message, who=who, time=time)


def _changed(given: KubernetesObject, condition: object) -> float | None:
    """Return when a condition has changed last, if it says so."""
    return _time(given, look_up(condition, "lastTransitionTime"))


def _time(given: KubernetesObject, time: object) -> float | None:
    try:
        return None if time is None else given.reading.seconds(time)
    except ValueError:
        return None  # only a text that is told
