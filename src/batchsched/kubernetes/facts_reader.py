"""Reads what a dump says of jobs besides what is scheduled: owners, conditions, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, field

from batchsched.kubernetes.dump_objects import DumpObjects, owners_of
from batchsched.kubernetes.facts import JobFacts, Told
from batchsched.kubernetes.job_drafts import JobDraft, owner_names, told_of
from batchsched.kubernetes.manifests import is_submitted
from batchsched.kubernetes.objects import KubernetesObject, Reading, look_up, mappings_in
from batchsched.model.notice import Notice
from batchsched.model.snapshot import Snapshot

_UID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_NOT_OWNERS = ("PodGroup", "CompositePodGroup", "Workload", "Pod", "Node")


@define
class FactsReader:
    """Reads the facts of jobs; the times of conditions at once, as they bound the present."""

    reading: Reading
    objects: DumpObjects
    _changes: list[tuple[float, KubernetesObject]] = field(init=False)
    """When each object has changed last, as far as it says."""
    _is_sorted: bool = field(default=False, init=False)
    """Whether the latest changes come first."""

    def __attrs_post_init__(self) -> None:
        self._changes = [
            (max(made, 0.0 if given.kind == "Node" else _condition_times(given)), given)
            for of_kind in self.objects.by_kind.values()
            for given in of_kind
            for made in (given.creation_time(),)
        ]

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
            keys = {key for path in paths for key in self.reading.noted.get(path, ())}
            kind, owner = self._owner_of(draft)
            told = tuple(map(self._with_names, told_of(draft)))
            facts[draft.uid] = JobFacts(
                job=draft.uid,
                system=draft.system,
                kind=kind,
                owner=owner,
                names=tuple(sorted(set(owner_names(draft, self.objects)))),
                local_queue=draft.local_queue,
                has_fixed_priority=draft.has_fixed_priority,
                told=told,
                refusal=self._refusal(draft, told),
                caveats=tuple(one for _, one in sorted(noticed[key] for key in keys)),
            )
        return facts

    def _with_names(self, told: Told) -> Told:
        """Return what a controller says, with the names of objects for their UIDs."""
        message = _UID.sub(lambda uid: self.objects.name_of(uid[0]), told.message)
        return told if message == told.message else evolve(told, message=message)

    def _refusal(self, draft: JobDraft, told: Iterable[Told]) -> Told | None:
        """Return why its scheduler cannot place a job, if nothing else has changed since."""
        said = next((each for each in told if each.is_of_scheduler), None)
        if (
            said is None
            or said.time is None
            or not said.says_why
            or any(map(is_submitted, draft.own))
        ):
            return None
        own: set[str] | None = None
        for time, given in self._latest_changes():
            if time < said.time:
                break
            if own is None:
                own = {each.reader.path for each in self._objects_of(draft)}
            if given.reader.path not in own:
                return None
        return said

    def _latest_changes(self) -> Sequence[tuple[float, KubernetesObject]]:
        """Return when each object has changed last, the latest first; sorted once."""
        if not self._is_sorted:
            for position, (time, given) in enumerate(self._changes):
                if given.kind == "Node":
                    self._changes[position] = max(time, _condition_times(given)), given
            self._changes.sort(key=lambda change: -change[0])
            self._is_sorted = True
        return self._changes

    def _objects_of(self, draft: JobDraft) -> Iterator[KubernetesObject]:
        yield from draft.objects
        for given in draft.objects:
            yield from self.objects.owner_objects(given)
        for template in draft.templates:
            yield template.pod_object
        seen: set[str] = set()
        for pod, _ in draft.pods:
            yield pod.object
            for owner in self.objects.owner_objects(pod.object):
                if owner.reader.path not in seen:
                    seen.add(owner.reader.path)
                    yield owner

    def _owner_of(self, draft: JobDraft) -> tuple[str, str]:
        """Return the kind and name of what made a job: the nearest owner that is no group."""
        if draft.kind not in _NOT_OWNERS:
            return draft.kind, draft.name
        pods = sorted((pod.object for pod, _ in draft.pods), key=lambda given: given.name)
        above = self._above_several(pods)
        if above is not None:
            return above
        for given in (*draft.objects, *pods):
            for owner in self.objects.owners(given):
                if owner.kind not in _NOT_OWNERS:
                    return owner.kind, owner.name
        return draft.kind, draft.name

    def _above_several(self, pods: Sequence[KubernetesObject]) -> tuple[str, str] | None:
        """Return what is above the several owners that pods of one gang have; None: nothing."""
        direct = {owner for pod in pods for owner in owners_of(pod) if owner.controls}
        if len(direct) < 2:  # noqa: PLR2004 - more than one
            return None
        of_all = [self.objects.owners(pod) for pod in pods]
        common = (o for o in of_all[0] if all(o in owners for owners in of_all[1:]))
        found = next((owner for owner in common if owner.kind not in _NOT_OWNERS), None)
        return None if found is None else (found.kind, found.name)


def _condition_times(given: KubernetesObject) -> float:
    """Return the latest change of an object's conditions, a lower bound of the present; or 0.0."""
    status, newest = look_up(given.reader.content, "status"), 0.0
    for key in ("conditions", "schedulingConditions"):
        for condition in mappings_in(look_up(status, key)):
            time = look_up(condition, "lastTransitionTime")
            if time is not None:
                try:
                    seconds = given.reader.reading.seconds(time)
                except ValueError:
                    continue  # only a text that is told
                newest = max(newest, seconds)
                latest = given.reader.reading.latest
                given.reader.reading.latest = seconds if latest is None else max(latest, seconds)
    return newest
