"""What keeps jobs and tasks waiting: one table, in which each cause is one row.

A member of these enumerations is a row. Its value is the stable code; its attributes are all that
the scheduler, the answers and the program say or do by that cause alone. What they say besides,
such as amounts and names, comes from the place that finds the cause.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Literal

Tone = Literal["quiet", "runs", "starts", "waits", "wrong"]
"""What is to be done about a state: nothing, or wait, or mend something."""


class JobStatus(Enum):
    """The state of a job after a cycle. The value is a stable code.

    If several things are in the way of a job, the first in this order is reported first.

    >>> JobStatus("NotAdmitted").words
    'not admitted'
    """

    DONE = "Done", "ended", "quiet"
    """Nothing waits or runs, and something has ended."""
    ENDING = "Ending", "ending", "quiet"
    """Nothing waits, and all that is left is terminating."""
    RUNNING = "Running", "runs", "runs"
    """Nothing waits, and it has what it needs."""
    STARTS = "Starts", "starts now", "starts"
    """A task of it was bound in the cycle."""
    PROMISED = "Promised", "promised"
    """A task of it was promised room that others will leave."""
    RESERVED = "Reserved", "reserved"
    """A node is reserved for a task of it."""
    RUNNING_PART = "RunningPart", "runs, more wait"
    """It has what it needs and runs; more of its tasks wait."""
    BELOW_MINIMUM = "BelowMinimum", "below minimum"
    """Some of it holds resources, but fewer tasks than it needs."""
    REFUSED = "Refused", "refused", "wrong"
    """Its scheduler refuses it since the last change that is known, although a task of it was bound
    or promised room in the cycle; or no scheduler places all of it."""
    GROUP_MISSING = "GroupMissing", "no group", "wrong"
    """The group that it names does not exist."""
    CLAIM_MISSING = "ClaimMissing", "no claim", "wrong"
    """A claim of devices that it names does not exist."""
    SUSPENDED = "Suspended", "suspended"
    """It is suspended until somebody resumes it."""
    DEACTIVATED = "Deactivated", "deactivated"
    """Its controller leaves it alone until somebody activates it."""
    NO_QUEUE = "NoQueue", "no queue", "wrong"
    """Its queue does not exist, or has other queues below it."""
    QUEUE_CLOSED = "QueueClosed", "queue closed"
    """Its queue, or one above it, takes no new work."""
    NEVER_FITS = "NeverFits", "never fits", "wrong"
    """These nodes could not hold what it needs even if they were empty, or who admits says so."""
    NOT_ADMITTED = "NotAdmitted", "not admitted"
    """A controller that admits jobs has not admitted it."""
    CHECKS = "Checks", "admission checks"
    """Checks of its admission have not passed."""
    GATED = "Gated", "gated"
    """Scheduling gates of tasks that it needs have not been removed."""
    INCOMPLETE = "Incomplete", "incomplete"
    """Fewer of its tasks exist than it needs."""
    DEPENDS = "Depends", "depends"
    """It depends on other jobs."""
    PLANNED = "Planned", "planned"
    """It is planned to start later."""
    QUOTA = "Quota", "quota"
    """Its queue, or one above it, has its share or its limit."""
    ROOM = "Room", "no room"
    """There is no room for it now."""
    NOT_TRIED = "NotTried", "not tried"
    """No action of the configuration finds places for such tasks."""

    words: str
    """The state in words, as in ``queue closed``."""
    tone: Tone
    """How the state is shown."""
    place: int
    """Its position in this order."""

    def __new__(cls, code: str, words: str = "", tone: Tone = "waits") -> JobStatus:
        """Make a row."""
        member = object.__new__(cls)
        member._value_ = code
        member.words, member.tone = words, tone
        member.place = len(cls.__members__)
        return member

    @property
    def waits(self) -> bool:
        """Whether a job in this state waits for something."""
        return self.tone in ("waits", "wrong")

    @property
    def is_of_room(self) -> bool:
        """Whether it is about quota or room, so that nothing else is in the way of the job."""
        return self.place >= JobStatus.QUOTA.place or self is JobStatus.NEVER_FITS


class About(Enum):
    """What a cause is about."""

    JOB = "job"
    """The task or its job, whatever other jobs, queues and nodes there are."""
    QUEUE = "queue"
    """Its queue, or one above it, whatever room nodes have."""
    NODES = "nodes"


class Remedy(Enum):
    """A kind of change that may let a job start, tried by `batchsched.tools.explain`."""

    MORE_NODES = "more nodes"
    END_ON_NODES = "the end of a job that holds room on nodes"
    END_IN_QUEUE = "the end of a job that holds what its queue may hold"
    END_DEPENDENCIES = "the ends of the jobs that it depends on"
    SMALLER_GANG = "a lower minimum"
    HIGHER_MAXIMUM = "a higher maximum"
    PRIORITY = "a higher priority"
    LIMIT = "a higher limit of its queue, or of one above it"
    WEIGHT = "a higher weight of its queue"
    LEAF = "another queue"
    BUDGET = "a budget that lets more tasks go"


_OF_JOB = (Remedy.SMALLER_GANG, Remedy.HIGHER_MAXIMUM, Remedy.PRIORITY)
OF_ROOM = (
    *(Remedy.MORE_NODES, Remedy.END_ON_NODES, Remedy.BUDGET),
    *(*_OF_JOB, Remedy.WEIGHT),
)
"""What may help a task for which there is no room."""
_OF_QUEUE = (Remedy.END_IN_QUEUE, Remedy.BUDGET, *_OF_JOB)


class WhyPending(Enum):
    """Why a task was left pending. The value is a stable code.

    If the tasks of a job lack several things, the first in this order is reported first.
    """

    NO_NODE = "NoNode"
    """No node could accept it; the tally says why."""
    HELD_BY_GANG = "HeldByGang"
    """A job that is not ready holds the resources, or the share of the queue, that it needs."""
    AT_MAXIMUM = (
        *("AtMaximum", JobStatus.ROOM, About.JOB),
        (Remedy.END_ON_NODES, *_OF_JOB, Remedy.WEIGHT),
    )
    """Its job, or a group of it, has its maximum number of tasks."""
    NEVER_FITS = "NeverFits"
    """Its job would not fit at any time, given when tasks are expected to end."""
    GANG_INCOMPLETE = "GangIncomplete", JobStatus.ROOM, About.NODES, OF_ROOM, True
    """It could be placed, but not together with enough other tasks of its job."""
    NOT_REACHED = "NotReached", JobStatus.ROOM, About.NODES, OF_ROOM, True
    """It was not tried, because an earlier task of its job could not be placed."""
    NOT_CONSIDERED = "NotConsidered", JobStatus.NOT_TRIED, About.NODES, OF_ROOM, True
    """No action of the cycle considered it."""
    JOB_INVALID = "JobInvalid", JobStatus.ROOM, About.JOB, (Remedy.SMALLER_GANG,), True
    """A plugin refused its job as a whole."""
    QUEUE_OVERUSED = "QueueOverused", JobStatus.QUOTA, About.QUEUE, (*_OF_QUEUE, Remedy.WEIGHT)
    """Its queue has its deserved share."""
    QUEUE_LIMIT = (
        *("QueueLimit", JobStatus.QUOTA, About.QUEUE),
        (*_OF_QUEUE, Remedy.LIMIT, Remedy.WEIGHT),
    )
    """A queue would exceed its limit."""
    ABOVE_FAIR_SHARE = "AboveFairShare", JobStatus.QUOTA
    """Its queue would exceed its fair share, so it may not reclaim resources."""
    PLANNED = "Planned", JobStatus.PLANNED
    """Its job is planned to start later, at the time in the text."""
    WAITS_FOR = "WaitsFor", JobStatus.DEPENDS, About.JOB, (Remedy.END_DEPENDENCIES,)
    """Its job depends on other jobs, and these dependencies do not hold yet."""
    NEVER_ELIGIBLE = "NeverEligible", JobStatus.DEPENDS, About.JOB, (Remedy.END_DEPENDENCIES,)
    """Its job has a dependency that can no longer hold."""
    QUEUE_UNKNOWN = "QueueUnknown", None, About.QUEUE, (Remedy.END_DEPENDENCIES,)
    """Its job names a queue that is not in the snapshot."""
    QUEUE_NOT_LEAF = "QueueNotLeaf", None, About.QUEUE, (Remedy.LEAF,)
    """Its job names a queue that is not a leaf."""
    TAKEN_BACK = "TakenBack", JobStatus.ROOM, About.NODES, OF_ROOM, True
    """This cycle bound it, and took its place back for another job."""
    HELD = "Held", None, About.JOB, (Remedy.END_DEPENDENCIES,)
    """Something holds it, its job or its queue, or keeps its job below its minimum; see `Hold`."""

    status: JobStatus | None
    """The state of a job that waits for nothing else; None: its holds or its queue say it."""
    about: About
    """What it is about."""
    remedies: tuple[Remedy, ...]
    """What may help, in the order in which it is tried."""
    follows: bool
    """Whether it follows from other causes, and is reported only if there is no other."""

    def __new__(
        cls,
        code: str,
        status: JobStatus | None = JobStatus.ROOM,
        about: About = About.NODES,
        remedies: tuple[Remedy, ...] = OF_ROOM,
        follows: bool = False,
    ) -> WhyPending:
        """Make a row."""
        member = object.__new__(cls)
        member._value_ = code
        member.status, member.about = status, about
        member.remedies, member.follows = remedies, follows
        return member


class ConditionReason(Enum):
    """Why a job is Unschedulable. The value is a stable code."""

    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    """Its gang was not complete when the session closed."""
    NOT_ENOUGH_TASKS = "NotEnoughTasks"
    """It has fewer tasks that can run than it needs."""
    QUEUE_UNKNOWN = "QueueUnknown", WhyPending.QUEUE_UNKNOWN
    """It names a queue that is not in the snapshot."""
    QUEUE_NOT_LEAF = "QueueNotLeaf", WhyPending.QUEUE_NOT_LEAF
    """It names a queue that is not a leaf."""
    WAITS_FOR = "WaitsFor", WhyPending.WAITS_FOR
    """It depends on other jobs, and these dependencies do not hold yet."""
    NEVER_ELIGIBLE = "NeverEligible", WhyPending.NEVER_ELIGIBLE
    """It has a dependency that can no longer hold."""
    REFUSED_BY_PLUGIN = "RefusedByPlugin"
    """A custom plugin rejected it."""

    why: WhyPending
    """Why its tasks are pending if it was left out of the cycle for this reason."""

    def __new__(cls, code: str, why: WhyPending = WhyPending.JOB_INVALID) -> ConditionReason:
        """Make a row."""
        member = object.__new__(cls)
        member._value_ = code
        member.why = why
        return member


class HoldKind(Enum):
    """What holds a task or a job, so that it waits however many nodes are free.

    The value is a stable code.
    """

    SUSPENDED = (
        *("Suspended", JobStatus.SUSPENDED),
        *("it is suspended", "{} is suspended", "it is resumed"),
    )
    """It is suspended until somebody resumes it."""
    GROUP_MISSING = (
        *("GroupMissing", JobStatus.GROUP_MISSING),
        *("its group does not exist", "the group {} does not exist", "its group {}exists"),
    )
    """The group that it names does not exist."""
    DEACTIVATED = (
        *("Deactivated", JobStatus.DEACTIVATED),
        *("it is deactivated", "{} is deactivated", "it is activated"),
    )
    """Its controller leaves it alone until somebody activates it."""
    NO_QUEUE = (
        *("NoQueue", JobStatus.NO_QUEUE),
        *(
            "its queue does not exist",
            "the queue {} does not exist",
            "it names a queue that takes it",
        ),
    )
    """The queue that it names does not exist."""
    QUEUE_CLOSED = (
        *("QueueClosed", JobStatus.QUEUE_CLOSED, "its queue takes no new work"),
        *("the queue {} takes no new work", "its queue {}takes new work"),
    )
    """Its queue takes no new work."""
    NEVER_ADMITTED = (
        *("NeverAdmitted", JobStatus.NEVER_FITS, "it can never be admitted"),
        *("{} can never admit it", "{}can admit it"),
    )
    """A controller that admits jobs says that it cannot admit it as it is."""
    NOT_ADMITTED = (
        *("NotAdmitted", JobStatus.NOT_ADMITTED),
        *("it has not been admitted", "{} has not admitted it", "it is admitted"),
    )
    """A controller that admits jobs has not admitted it."""
    CHECK = (
        *("Check", JobStatus.CHECKS, "a check of its admission has not passed"),
        *("the check {} has not passed", "the check {}has passed"),
    )
    """A check of its admission has not passed."""
    DEPENDENCIES = (
        *("Dependencies", JobStatus.DEPENDS, "what it depends on cannot be read"),
        *("its annotation {} cannot be followed", "its annotation {}can be followed"),
    )
    """What it depends on cannot be read, or depends on it in turn."""
    CLAIM_MISSING = (
        *("ClaimMissing", JobStatus.CLAIM_MISSING, "a claim of it does not exist"),
        *("the claim {} does not exist", "the claim {}exists"),
    )
    """A claim of devices that it names does not exist."""
    CLAIM_TEMPLATE_MISSING = (
        *("ClaimTemplateMissing", JobStatus.CLAIM_MISSING, "a claim template of it does not exist"),
        *("the claim template {} does not exist", "the claim template {}exists"),
    )
    """The template of a claim of devices that it names does not exist."""
    DEVICE_CLASS_MISSING = (
        *("DeviceClassMissing", JobStatus.CLAIM_MISSING, "a device class of it does not exist"),
        *("the device class {} does not exist", "the device class {}exists"),
    )
    """The class of devices that one of its claims names does not exist."""
    NAMESPACE_QUOTA = (
        *("NamespaceQuota", JobStatus.INCOMPLETE, "the ResourceQuota of its namespace is used up"),
        *("ResourceQuota {} is used up", "ResourceQuota {}has room for its pods"),
    )
    """The ResourceQuota of its namespace lets no more of its pods be made."""
    SCHEDULERS = (
        *("Schedulers", JobStatus.REFUSED, "its pods name different schedulers"),
        *("its pods name different schedulers: {}", "its pods name one scheduler"),
    )
    """No scheduler places all of a gang."""
    GATE = (
        *("Gate", JobStatus.GATED, "it waits for a scheduling gate"),
        *("it waits for the gate {}", "the gate {}is removed"),
    )
    """A scheduling gate has not been removed."""

    status: JobStatus
    """The state of a job that waits for nothing else."""
    words: str
    """What holds it, where that has no name."""
    words_with_name: str
    """What holds it, with a place for its name."""
    words_once_gone: str
    """What has happened once it is gone, with a place for its name and a space."""

    def __new__(
        cls, code: str, status: JobStatus, words: str, with_name: str, once_gone: str
    ) -> HoldKind:
        """Make a row."""
        member = object.__new__(cls)
        member._value_ = code
        member.status, member.words = status, words
        member.words_with_name, member.words_once_gone = with_name, once_gone
        return member

    @property
    def is_of_admission(self) -> bool:
        """Whether a controller lifts it as it decides, so that nobody can be advised to."""
        return self in (HoldKind.NOT_ADMITTED, HoldKind.CHECK)

    @property
    def has_to_be_made(self) -> bool:
        """Whether nobody can lift it: something has to be made, or changed, first."""
        return self in (
            *(HoldKind.GROUP_MISSING, HoldKind.NO_QUEUE, HoldKind.DEPENDENCIES),
            *(HoldKind.NEVER_ADMITTED, HoldKind.SCHEDULERS, HoldKind.CLAIM_MISSING),
            *(HoldKind.CLAIM_TEMPLATE_MISSING, HoldKind.DEVICE_CLASS_MISSING),
            HoldKind.NAMESPACE_QUOTA,
        )


class UnfitReason(Enum):
    """Why a node does not accept a task. The value is a stable code."""

    # That of Enum hashes the name each time, and reasons of nodes are counted in dicts.
    __hash__ = object.__hash__

    INSUFFICIENT_RESOURCE = "InsufficientResource", "lack free {detail}"
    TOO_MANY_TASKS = "TooManyTasks", "have no slot for another task"
    NODE_NOT_READY = "NodeNotReady", "are not ready"
    NETWORK_UNAVAILABLE = "NodeNetworkUnavailable", "have no network"
    NODE_UNSCHEDULABLE = "NodeUnschedulable", "are cordoned"
    NODE_SELECTOR = "NodeSelectorMismatch", "lack the labels that it asks for"
    HOST_PORTS = "HostPortConflict", "have its ports in use"
    UNTOLERATED_TAINT = "UntoleratedTaint", "have a taint that it does not tolerate"
    MEMORY_PRESSURE = "NodeUnderMemoryPressure", "are under memory pressure"
    DISK_PRESSURE = "NodeUnderDiskPressure", "are under disk pressure"
    PID_PRESSURE = "NodeUnderPIDPressure", "are under PID pressure"
    POD_AFFINITY = "PodAffinityMismatch", "are not near tasks that it must be near"
    POD_ANTI_AFFINITY = (
        "PodAntiAffinityConflict",
        "are near tasks that it must not be near (anti-affinity)",
    )
    EXISTING_ANTI_AFFINITY = (
        *("ExistingPodAntiAffinityConflict", "are near tasks that keep it away (anti-affinity)"),
    )
    RESERVED = "NodeResourceReserved", "are reserved for other tasks"
    PLANNED = "Planned", "would delay a planned start"
    NO_DEVICE = "NoDevice", "have no device for {detail}"
    """None serves the task even if nobody held any."""
    DEVICES_TAKEN = "DevicesTaken", "have no free device for {detail}"
    DEVICE_SEARCH_LIMIT = "DeviceSearchLimit", "have too many devices to try: {detail} were"
    REFUSED_BY_PLUGIN = "RefusedByPlugin", "are refused by plugin {plugin}: {detail}"
    NO_DOMAIN = "NoDomain", "{detail}", WhyPending.NO_NODE
    """No domain of a topology holds what its job needs. About domains, not a node."""
    NOT_ITS_TURN = (
        *("NotItsTurn", "job {detail!r} came earlier and is waiting"),
        WhyPending.NOT_REACHED,
    )
    """A job that comes before it is waiting; the detail is its UID. About a job, not a node."""
    QUEUE_LIMIT = "QueueLimit", "{detail}", WhyPending.QUEUE_LIMIT
    """A queue would exceed its limit. About a queue, not a node."""
    BEYOND_QUOTA = "BeyondQuota", "{detail}", WhyPending.QUEUE_LIMIT
    """Jobs of a queue that are not preemptible would exceed what it deserves. About a queue."""
    NEVER_LENT = "NeverLent", "{detail}", WhyPending.QUEUE_LIMIT
    """A queue from which nothing is reclaimed would exceed what it deserves or is guaranteed. About
    a queue."""
    ABOVE_FAIR_SHARE = "AboveFairShare", "{detail}", WhyPending.QUEUE_LIMIT
    """Its queue would exceed its fair share. About a queue, not a node."""

    words: str
    """What nodes do that have this reason, with places for the plugin and the detail."""
    why: WhyPending
    """Why a task is pending that its queue may not take for this reason."""

    def __new__(
        cls, code: str, words: str, why: WhyPending = WhyPending.QUEUE_LIMIT
    ) -> UnfitReason:
        """Make a row."""
        member = object.__new__(cls)
        member._value_ = code
        member.words, member.why = words, why
        return member


_OF_ONE = {"lack": "lacks", "have": "has", "are": "is", "do": "does"}
_VERB = re.compile(rf"(^|, | and )({'|'.join(_OF_ONE)})(?= )")


def agreeing(words: str, count: int) -> str:
    """Return what `count` nodes do, in the singular if it is one.

    >>> agreeing("lack free cpu", 2), agreeing("lack free cpu", 1)
    ('lack free cpu', 'lacks free cpu')
    >>> agreeing("are cordoned and lack the label a=b", 1)
    'is cordoned and lacks the label a=b'
    """
    if count != 1:
        return words
    return _VERB.sub(lambda found: found[1] + _OF_ONE[found[2]], words)
