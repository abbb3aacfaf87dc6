"""What a dump says of its jobs besides what is scheduled, and how people name them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from attrs import field, frozen

from batchsched.errors import UnknownNameError
from batchsched.model.immutable import AsMap, AsTuple
from batchsched.model.notice import Notice
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
        "Preempted",
        "Restarting",
        "Stale",
        "Suspended",
        "Unschedulable",
        "UnschedulableOnNodePool",
    }
)
"""The types of conditions that are true where something is wrong; others are false there."""


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
    has_fixed_priority: bool = False
    """Whether nobody can change its priority any more: that of pods and of Kubernetes' own groups
    is immutable."""
    told: tuple[Told, ...] = field(default=(), converter=AsTuple[Told])
    """The conditions of its objects, the newest first."""
    refusal: Told | None = None
    """That its scheduler cannot place it, if that was written after every change of anything else
    that the dump shows; None: it was not, or nothing is said."""
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
    _index: list[dict[str, tuple[str, ...]]] = field(
        factory=list[dict[str, tuple[str, ...]]], init=False, eq=False
    )

    def __repr__(self) -> str:
        return f"Dump({self.snapshot!r}, {len(self.notices)} notices)"

    def find(self, text: str, /) -> str:
        """Return the UID of the job that is meant. O(size) the first time, later O(jobs).

        The first of these that some job matches decides: its UID; ``namespace/alias``; an alias,
        or the UID or name of one of its tasks; the beginning of its name or UID, of at least four
        characters. Aliases are the names in its facts; those with a kind are found in any case
        (``Job/train``, ``job.batch/train``).

        Raises:
            UnknownNameError: no job is meant, or several are; the message names them.

        """
        if not is_text(text):
            raise UnknownNameError(f"expected the name of a job, got {shown(text)}")
        if not self._index:
            self._index.extend(self._aliases())
        in_namespace, anywhere = self._index
        if text in self.facts:
            return text
        found = (
            in_namespace.get(_namespaced(text))
            or anywhere.get(_normal(text))
            or anywhere.get(text)
            or ()
        )
        if not found and len(text) >= _SHORTEST_BEGINNING:
            found = tuple(
                job.uid
                for job in self.snapshot.jobs
                if job.name.startswith(text) or job.uid.startswith(text)
            )
        if len(found) == 1:
            return found[0]
        if found:
            candidates = ", ".join(found[:_MOST_CANDIDATES])
            raise UnknownNameError(f"{text} may be any of {candidates}")
        uids = {job.name: job.uid for job in reversed(self.snapshot.jobs)}
        uids |= {facts.owner: uid for uid, facts in sorted(self.facts.items(), reverse=True)}
        uids |= {job.uid: job.uid for job in self.snapshot.jobs}
        similar = get_close_matches(text, sorted(uids), n=2 * _MOST_SUGGESTIONS)
        meant = list(dict.fromkeys(uids[name] for name in similar))[:_MOST_SUGGESTIONS]
        hint = f"; did you mean {', '.join(meant)}?" if meant else ""
        raise UnknownNameError(f"no job is called {text}{hint}")

    def _aliases(self) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
        """Return the UIDs of jobs by namespace and alias, and by alias alone. O(size)."""
        in_namespace: dict[str, dict[str, None]] = {}
        anywhere: dict[str, dict[str, None]] = {}
        for job in self.snapshot.jobs:  # in order of UID
            facts = self.facts.get(job.uid)
            for name in (job.name, *(() if facts is None else facts.names)):
                normal = _normal(name)
                in_namespace.setdefault(f"{job.namespace}/{normal}", {})[job.uid] = None
                anywhere.setdefault(normal, {})[job.uid] = None
            for task in job.tasks:
                in_namespace.setdefault(f"{task.namespace}/{task.name}", {})[job.uid] = None
                for name in (task.uid, task.name):
                    anywhere.setdefault(name, {})[job.uid] = None
        return (
            {name: tuple(jobs) for name, jobs in in_namespace.items()},
            {name: tuple(jobs) for name, jobs in anywhere.items()},
        )


def _normal(alias: str) -> str:
    """Return an alias with the kind before its name in lower case."""
    kind, slash, name = alias.rpartition("/")
    return f"{kind.lower()}{slash}{name}"


def _namespaced(text: str) -> str:
    namespace, slash, alias = text.partition("/")
    return f"{namespace}{slash}{_normal(alias)}"
