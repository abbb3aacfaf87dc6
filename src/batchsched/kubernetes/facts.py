"""What a dump says of its jobs besides what is scheduled, and how people name them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property

from attrs import evolve, field, frozen

from batchsched.errors import UnknownNameError
from batchsched.kubernetes import api
from batchsched.kubernetes.dump_objects import DumpObjects, owners_of
from batchsched.kubernetes.job_drafts import FAILED_CHECKS, JobDraft
from batchsched.kubernetes.objects import KubernetesObject, Reading, look_up, mappings_in, text_at
from batchsched.kubernetes.pods import WAITING
from batchsched.model.cluster import JobInfo
from batchsched.model.immutable import AsMap, AsTuple
from batchsched.model.notice import Notice, NoticeCode
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import is_text, shown

_SHORTEST_BEGINNING = 4
_MOST_CANDIDATES = 5
_MOST_SUGGESTIONS = 3
_BAD_IF_TRUE = frozenset(
    {
        "Aborted",
        "Aborting",
        "DisruptionTarget",
        "Evicted",
        "Failed",
        "Pending",
        "PodResizePending",
        "Preempted",
        "Restarting",
        "Stale",
        "Suspended",
        "Unschedulable",
        "UnschedulableOnNodePool",
    }
)
"""The types of conditions that are true where something is wrong; others are false there."""


_WHOLE = frozenset({"JobSet", "LeaderWorkerSet", "MPIJob", "RayCluster", "RayJob", "RayService"})
"""Kinds of owners whose controllers write the minimum of a gang: all that they make."""
_OF_SCHEDULERS = frozenset(
    {
        "CompositePodGroupInitiallyScheduled",
        "PodGroupInitiallyScheduled",
        "PodGroupScheduled",
        "PodScheduled",
        "Unschedulable",
        "UnschedulableOnNodePool",
    }
)


@frozen(kw_only=True)
class Told:
    """A condition that a controller wrote on an object of a job."""

    type: str
    """Such as ``QuotaReserved``."""
    status: str
    """``True``, ``False`` or ``Unknown``."""
    reason: str = ""
    message: str = ""
    who: str = ""
    """Who wrote it, in words, such as ``Kueue`` or ``the kube-scheduler``; empty: unknown."""
    time: float | None = None
    """When its status last changed, in seconds since 1970; None: unknown."""

    @property
    def is_of_scheduler(self) -> bool:
        """Whether a scheduler says whether it can place something."""
        return self.type in _OF_SCHEDULERS

    @property
    def says_why(self) -> bool:
        """Whether it says why something waits, and not that all is well.

        >>> Told(type="QuotaReserved", status="False").says_why
        True
        >>> Told(type="Unschedulable", status="False").says_why
        False
        """
        return self.status == ("True" if self.type in _BAD_IF_TRUE else "False")


@frozen(kw_only=True)
class JobFacts:
    """What a dump says of one job besides what is scheduled."""

    job: str
    """The UID of the job."""
    system: str
    """Whose job it is: ``kubernetes``, ``volcano``, ``kube-batch``, ``kai``, ``coscheduling``,
    ``kueue`` or ``yunikorn``."""
    kind: str
    """The kind of its owner, such as ``Job``; of its own object if it has no owner."""
    owner: str
    """The name of its owner, or its own if it has none."""
    names: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """The names by which it is found, sorted."""
    local_queue: str = ""
    """Kueue's LocalQueue; empty: it names none."""
    absent_queues: frozenset[str] = frozenset()
    """Its queue and those above it of which the dump has no object, so that nobody changes them."""
    has_fixed_priority: bool = False
    """Whether nobody can change its priority any more: that of pods and of Kubernetes' own groups
    is immutable."""
    has_fixed_minimum: bool = False
    """Whether nobody can lower its minimum: what owns it needs all that it makes."""
    told: tuple[Told, ...] = field(default=(), converter=AsTuple[Told])
    """The conditions of its objects, the newest first."""
    refusal: Told | None = None
    """That its scheduler cannot place it, if that was written after every change of anything else
    that the dump shows, or names what is left out here; None: neither, or nothing is said."""
    caveats: tuple[Notice, ...] = field(default=(), converter=AsTuple[Notice])
    """The notices about its own objects: group, pods, owners, its queue and those above."""


@frozen(kw_only=True, repr=False)
class Dump:
    """What `batchsched.kubernetes.read_dump` returns: a snapshot, and what stands beside it."""

    snapshot: Snapshot
    notices: tuple[Notice, ...] = field(default=(), converter=AsTuple[Notice])
    """What is ignored, with the consequences, sorted by kind and field."""
    facts: Mapping[str, JobFacts] = field(
        factory=dict[str, JobFacts], converter=AsMap[str, JobFacts]
    )
    """The facts of every job of the snapshot, by UID."""
    systems: frozenset[str] = frozenset()
    """The systems whose objects or pods were found, named as in `JobFacts.system`."""
    assumed: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """What the dump does not say and was assumed, in sentences."""
    submitted: tuple[str, ...] = field(default=(), converter=AsTuple[str])
    """The UIDs of the jobs that are only submitted, sorted."""

    def __repr__(self) -> str:
        return f"Dump({self.snapshot!r}, {len(self.notices)} notices)"

    def find(self, text: str, /) -> str:
        """Return the UID of the job that is meant. O(size) the first time, later O(jobs).

        The first of these that some job matches decides: its UID; ``namespace/alias``; an alias,
        or the UID or name of one of its tasks; the beginning of its name, of its UID or of the name
        of its owner, of at least four characters. Aliases are the names in its facts; those with a
        kind are found in any case (``Job/train``, ``job.batch/train``).

        Raises:
            UnknownNameError: no job is meant, or several are; the message names them.

        """
        if not is_text(text):
            raise UnknownNameError(f"expected the name of a job, got {shown(text)}")
        in_namespace, anywhere = self._aliases
        if text in self.facts:
            return text
        of_alias = anywhere.get(_normal(text)) or anywhere.get(text)
        found = list(in_namespace.get(_namespaced(text)) or of_alias or ())
        if not found and len(text) >= _SHORTEST_BEGINNING:
            found = [job.uid for job in self.snapshot.jobs if self._begins_with(job, text)]
        if len(found) == 1:
            return found[0]
        if found:
            candidates = ", ".join(found[:_MOST_CANDIDATES])
            raise UnknownNameError(f"{text} may be any of {candidates}")
        meant = self._similar(text)[:_MOST_SUGGESTIONS]
        hint = f"; did you mean {', '.join(meant)}?" if meant else ""
        raise UnknownNameError(f"no job is called {text}{hint}")

    def _begins_with(self, job: JobInfo, text: str) -> bool:
        facts = self.facts.get(job.uid)
        owners = () if facts is None else (facts.owner, f"{job.namespace}/{facts.owner}")
        # KAI Scheduler names groups after their owners, which a dump may not have.
        own = job.name.removeprefix("pg-"), f"{job.namespace}/{job.name.removeprefix('pg-')}"
        return any(name.startswith(text) for name in (job.name, job.uid, *owners, *own))

    def _similar(self, text: str) -> list[str]:
        """Return the UIDs of jobs with similar names, whatever their namespaces; its own first."""
        namespace, slash, name = text.rpartition("/")
        uids: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for job in self.snapshot.jobs:
            facts = self.facts.get(job.uid)
            for each in (job.name, *(() if facts is None else (facts.owner,))):
                uids[each][job.uid] = None
        similar = get_close_matches(name, sorted(uids), n=2 * _MOST_SUGGESTIONS)
        found = list(dict.fromkeys(uid for each in similar for uid in uids[each]))
        if slash:
            found.sort(key=lambda uid: self.snapshot.job(uid).namespace != namespace)
        return found

    @cached_property
    def _aliases(self) -> tuple[dict[str, dict[str, None]], dict[str, dict[str, None]]]:
        """Return the UIDs of jobs by namespace and alias, and by alias alone. O(size)."""
        in_namespace: defaultdict[str, dict[str, None]] = defaultdict(dict)
        anywhere: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for job in self.snapshot.jobs:  # in order of UID
            facts = self.facts.get(job.uid)
            for name in (job.name, *(() if facts is None else facts.names)):
                normal = _normal(name)
                in_namespace[f"{job.namespace}/{normal}"][job.uid] = None
                anywhere[normal][job.uid] = None
            for task in job.tasks:
                in_namespace[f"{task.namespace}/{task.name}"][job.uid] = None
                anywhere[task.uid][job.uid] = anywhere[task.name][job.uid] = None
        return dict(in_namespace), dict(anywhere)


def _normal(alias: str) -> str:
    """Return an alias with the kind before its name in lower case."""
    kind, slash, name = alias.rpartition("/")
    return f"{kind.lower()}{slash}{name}"


def _namespaced(text: str) -> str:
    namespace, slash, alias = text.partition("/")
    return f"{namespace}{slash}{_normal(alias)}"


# Reading them

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
            absent: set[str] = set()
            while queue is not None:
                if queue in queue_objects:
                    paths.add(queue_objects[queue].reader.path)
                else:
                    absent.add(queue)
                queue = parents.get(queue)
            keys = {key for path in paths for key in self._reading.noted.get(path, ())}
            kind, owner = self._owner_of(draft)
            told = tuple(map(self._with_names, _told_of(draft)))
            caveats = tuple(one for _, one in sorted(noticed[key] for key in keys))
            facts[draft.uid] = JobFacts(
                job=draft.uid,
                system=draft.system,
                kind=kind,
                owner=owner,
                names=tuple(sorted(set(self._names_of(draft)))),
                local_queue=draft.local_queue,
                absent_queues=frozenset(absent),
                has_fixed_priority=draft.has_fixed_priority,
                has_fixed_minimum=kind in _WHOLE,
                told=told,
                refusal=self._refusal(draft, told, caveats),
                caveats=caveats,
            )
        return facts

    def _with_names(self, told: Told) -> Told:
        """Return what a controller says, with the names of objects for their UIDs."""
        message = _UID.sub(lambda uid: self._objects.name_of(uid[0]), told.message)
        return told if message == told.message else evolve(told, message=message)

    def _refusal(
        self, draft: JobDraft, told: Iterable[Told], caveats: Sequence[Notice]
    ) -> Told | None:
        """Return why its scheduler cannot place a job, if nothing else has changed since.

        Or whatever has changed, if it names what is left out here. Where a scheduler refuses again,
        it leaves the time of the condition as it was.
        """
        of_scheduler = [each for each in told if each.is_of_scheduler]
        if not of_scheduler or draft.is_submitted:
            return None
        for each in of_scheduler:
            if each.says_why and _names_what_is_left_out(each.message.lower(), caveats):
                return each
        said = of_scheduler[0]
        if said.time is None or not said.says_why:
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


_NAMED_AS = {
    "spec.topologySpreadConstraints": ("topology spread", "spread constraint"),
    "spec.volumes": ("volume",),
    "spec.resourceClaims": ("resourceclaim", "resource claim", "claims"),
}
"""How schedulers name what is not read of pods, in lower case."""


def _names_what_is_left_out(message: str, caveats: Iterable[Notice]) -> bool:
    """Return whether a message of a scheduler names something that is not read of a job."""
    return any(
        word in message
        for each in caveats
        if each.code is NoticeCode.FIELD_IGNORED
        for word in _NAMED_AS.get(each.field, ())
    )


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
        if pod.task.status.occupies:
            for condition in pod.object.conditions():
                if look_up(condition, "type") == "PodResizePending":
                    yield from _conditions(pod.object, condition, "the kubelet")
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
