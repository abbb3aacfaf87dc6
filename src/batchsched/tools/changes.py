"""Changes to try on a cluster, and what they do in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import groupby

from attrs import AttrsInstance, evolve, frozen

from batchsched import live
from batchsched.causes import HoldKind
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, Fault
from batchsched.kubernetes.kueue import UNREADY
from batchsched.kubernetes.objects import time_text as date_text
from batchsched.model.cluster import Budget, Hold, JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.devices import DevicePick
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import amount_text, counted, duration_text
from batchsched.model.topology import TopologyRequest
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import duration_problems
from batchsched.transition.event_rules import said_of_job


@frozen
class CycleRun:
    """A step between changes: a cycle runs, its decisions take effect, and time passes."""

    seconds: float = 0.0
    """The time from the cycle to the next change, in seconds."""


@frozen
class Released:
    """A change: what holds a job and its tasks is gone.

    A queue that is not open still holds them; see `batchsched.live.QueueChanged`.
    """

    job: str
    """The UID of the job."""
    kind: HoldKind | None = None
    """Only holds of this kind; None: all."""


Change = live.Event | SchedulerConfig | CycleRun | Released
"""A change to try: an event, another configuration, a cycle in between, or a release of holds."""

CHANGE_KINDS = (*live.Event.__args__, SchedulerConfig, CycleRun, Released)
"""The classes of all changes."""


_GATES_OF_ADMISSION = ("kueue.x-k8s.io/", "scheduling.volcano.sh/")
"""How the names of the gates begin that a controller removes as it admits."""


def is_of_admission(hold: Hold) -> bool:
    """Return whether a controller that admits jobs lifts a hold as it decides."""
    is_gate = hold.kind is HoldKind.GATE and hold.name.startswith(_GATES_OF_ADMISSION)
    return is_gate or hold.kind.is_of_admission


def all_holds(job: JobInfo) -> list[Hold]:
    """Return what holds a job and its tasks."""
    return [*job.holds, *(hold for task in job.tasks for hold in task.holds)]


def who_keeps_out(job: JobInfo) -> str:
    """Return the controller whose lacking admission is all that holds a job; empty: none.

    Checks of an admission are not its own to decide.
    """
    holds = all_holds(job) if job.holds or any(task.holds for task in job.tasks) else ()
    lacking = [hold for hold in holds if hold.kind is HoldKind.NOT_ADMITTED]
    if not lacking or not all(is_of_admission(h) and h.kind is not HoldKind.CHECK for h in holds):
        return ""
    return "Volcano" if lacking[0].name == _ENQUEUE else "Kueue"


def admission_waits(job: JobInfo, now: float) -> str:
    """Return what a controller waits for before it decides on a job, whatever queues allow."""
    lacking = [hold for hold in all_holds(job) if hold.kind is HoldKind.NOT_ADMITTED]
    if any(UNREADY in hold.detail for hold in lacking):
        return "once the pods of other jobs are ready"
    until = max((hold.until for hold in lacking if hold.until is not None), default=now)
    return f"from {time_text(until)} on" if until > now else ""


def admitted(job: JobInfo) -> JobInfo:
    """Return a job that nothing holds any more; tasks by which it grows have no quota yet."""
    grows = any(hold.kind is HoldKind.NOT_ADMITTED for task in job.tasks for hold in task.holds)
    return evolve(
        job,
        holds=(),
        tasks=[evolve(task, holds=()) for task in job.tasks],
        quota_reserved=job.quota_reserved and not grows,
    )


_ENQUEUE = "enqueue"
"""The name of Volcano's holds."""


def admitted_anew(
    snapshot: Snapshot, but: Container[str] = ()
) -> tuple[Snapshot, Mapping[str, str]]:
    """Return a cluster in which the queues decide whom a controller would admit. O(jobs).

    Args:
        snapshot: the cluster.
        but: the UIDs of jobs that stay as they are.

    Returns:
        the cluster, in which nothing holds the jobs that only lack admission; and the controller
        for each of these, by UID.

    """
    kept_out = {
        job.uid: who for job in snapshot.jobs if job.uid not in but and (who := who_keeps_out(job))
    }
    if not kept_out:
        return snapshot, {}
    jobs = [admitted(job) if job.uid in kept_out else job for job in snapshot.jobs]
    return evolve(snapshot, jobs=jobs), kept_out


_OF_CONDITIONS = "node.kubernetes.io/"
"""What the names of taints begin with that come and go with a node's conditions."""


@checks_arguments()
def node_like(
    node: NodeInfo, name: str, /, running: Iterable[TaskInfo] = ()
) -> tuple[live.NodeAdded | live.OtherTaskArrived, ...]:
    """Return the changes that add a node in service of the same kind. O(tasks).

    Args:
        node: the node that it is like.
        name: its name; labels with the name of `node` as their value get it too. Its devices are of
            pools of its own, so that nobody has them.
        running: tasks; those on `node` that each node runs (`TaskInfo.is_on_each_node`) run on the
            new one too.

    Raises:
        ArgumentError: an argument has the wrong type.

    >>> from batchsched import Resource, TaskStatus
    >>> proxy = TaskInfo(uid="p", name="p", node_name="a", status=TaskStatus.RUNNING,
    ...                  is_on_each_node=True)
    >>> like = NodeInfo(name="a", allocatable=Resource(milli_cpu=4000), unschedulable=True)
    >>> added, arrived = node_like(like, "b", [proxy])
    >>> added.node.unschedulable, arrived.task.uid, arrived.task.node_name
    (False, 'p on b', 'b')
    """
    labels = {key: name if value == node.name else value for key, value in node.labels.items()}
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_OF_CONDITIONS))
    added = _with_own_pools(
        evolve(node, name=name, labels=labels, taints=taints, conditions={}, unschedulable=False),
        node.name,
    )
    own = [task for task in running if task.is_on_each_node and task.node_name == node.name]
    return (
        live.NodeAdded(added),
        *(live.OtherTaskArrived(evolve(t, uid=f"{t.uid} on {name}", node_name=name)) for t in own),
    )


def _with_own_pools(node: NodeInfo, like: str) -> NodeInfo:
    """Return a new node with pools of devices of its own: claims have devices by their pools."""

    def own(pool: str) -> str:
        return node.name if pool == like else f"{pool} of {node.name}" if pool else ""

    return _with_pools(node, own)


def _with_pools(node: NodeInfo, named: Callable[[str], str]) -> NodeInfo:
    """Return a node whose pools of devices have other names."""
    if not node.devices:
        return node
    return evolve(
        node,
        devices=[evolve(each, pool=named(each.pool)) for each in node.devices],
        counter_sets=[evolve(each, pool=named(each.pool)) for each in node.counter_sets],
        closed_pools=[(driver, named(pool)) for driver, pool in node.closed_pools],
    )


@checks_arguments()
def describe_changes(snapshot: Snapshot, changes: Sequence[Change]) -> tuple[str, ...]:
    """Return what changes do, in words: ``cordon gpu-1``, ``job a/b: priority 9 instead of 0``.

    Successive changes of one kind are described together, such as the ends of the tasks of one job.
    Each is described relative to what the changes before it left.

    Args:
        snapshot: the cluster before the changes.
        changes: the changes, as for `what_if`. What they name need not exist.

    Raises:
        ArgumentError: an argument has the wrong type.

    >>> from attrs import evolve
    >>> from batchsched import NodeInfo, Resource
    >>> gpu = NodeInfo(name="gpu-1", allocatable=Resource(milli_cpu=8000))
    >>> more = [live.NodeAdded(evolve(gpu, name=name)) for name in ("a", "b")]
    >>> cordoned = live.NodeChanged(evolve(gpu, unschedulable=True))
    >>> describe_changes(Snapshot(nodes=[gpu]), [*more, cordoned, CycleRun(90)])
    ('2 more nodes like gpu-1', 'cordon gpu-1', 'a cycle runs, and 1 min 30 s pass')

    """
    words = _Telling(snapshot)
    lines: list[str] = []
    told = [each for each in map(words.told, changes) if each.text]
    for kind, group in groupby(told, key=lambda each: each.kind):
        texts = [each.text for each in group]
        if kind is None or (len(texts) == 1 and kind.whole != 1):
            lines += texts
        elif kind.whole == len(texts):
            lines.append(kind.of_whole)
        else:
            names = ", ".join(text.removeprefix(kind.start) for text in texts)
            lines.append(kind.several.format(n=len(texts), names=names))
    return tuple(lines)


@frozen
class _Kind:
    """What changes that follow one another have in common, to be told together."""

    several: str
    """With ``{n}`` for their number and ``{names}`` for what they are about."""
    start: str = ""
    """What the text of each begins with, before its name."""
    whole: int = 0
    """The number of them that is told in another way; 0: none is."""
    of_whole: str = ""


@frozen
class _Told:
    text: str
    kind: _Kind | None = None


_SENTENCES: Mapping[type[Change], str] = {
    SchedulerConfig: "another configuration: {change}",
    live.NodeRemoved: "remove node {change.name}",
    live.DevicesChanged: "the devices that several nodes reach, or who holds them, change",
    live.QueueRemoved: "remove queue {change.name}",
    live.TopologiesChanged: "other topologies",
    live.EndedJobsRemoved: "remove the jobs that have ended",
    live.JobRemoved: "remove job {change.uid}",
    live.TaskChanged: "task {task} is described anew",
    live.TaskFound: "task {task} runs on node {change.node_name}",
    live.TaskStarted: "task {task}{of_job} starts to run",
    live.BindRefused: "task {task}{of_job} cannot be started, and waits again",
    live.TaskSucceeded: "end task {task}{of_job}",
    live.TaskFailed: "task {task}{of_job} fails",
    live.TaskReleasing: "task {task}{of_job} is being terminated",
    live.EvictionRefused: "task {task}{of_job} goes on running",
    live.TaskGone: "task {task}{of_job} leaves its node, and waits again",
    live.TaskRemoved: "remove task {task}{of_job}",
}
"""Changes that are told the same whatever the cluster is like; `task` is the name of their task."""


def unused_claims(held: Iterable[DevicePick]) -> frozenset[str]:
    """Return the names of the claims that have devices although no task uses them."""
    return frozenset(pick.shared or pick.claim for pick in held)


def without_claim(held: Iterable[DevicePick], name: str) -> live.DevicesChanged:
    """Return the change by which one of these claims is deleted."""
    left = [pick for pick in held if (pick.shared or pick.claim) != name]
    return live.DevicesChanged(held=left)


class _Telling:
    """Puts changes into words, and follows what they leave."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._now = snapshot.now
        self._held = snapshot.held
        self._nodes = {node.name: node for node in snapshot.nodes}
        self._old_nodes = tuple(self._nodes)
        self._queues = {queue.name: queue for queue in snapshot.queues}
        self._budgets = {budget.uid: budget for budget in snapshot.budgets}
        self._jobs = {job.uid: job for job in snapshot.jobs}
        self._tasks = {task.uid: (task, "") for task in snapshot.other_tasks}
        self._running: Counter[str] = Counter()
        """How many tasks of each job are on nodes, and how many wait."""
        self._waiting: Counter[str] = Counter()
        for job in snapshot.jobs:
            self._note(job.uid, job.tasks)
        self._first: dict[NodeInfo, str] = {}
        """The first node of each kind."""
        for node in snapshot.nodes:
            self._first.setdefault(_without_name(node), node.name)

    def _note(self, job: str, tasks: Iterable[TaskInfo]) -> None:
        for task in tasks:
            self._tasks[task.uid] = task, job
            self._running[job] += task.status.holds
            self._waiting[job] += not (task.status.holds or task.status.ended)

    def told(self, change: Change) -> _Told:
        """Return what a change does, and note what it leaves."""
        match change:
            case CycleRun():
                after = f", and {duration(change.seconds)} pass" if change.seconds else ""
                return _Told(f"a cycle runs{after}")
            case Released():
                only = "" if change.kind is None else f": its holds of kind {change.kind.value}"
                return _Told(f"release job {change.job}{only}")
            case live.TimePassed():
                passing, self._now = change.now - self._now, change.now
                return _Told(f"{duration(passing)} pass")
            case live.NodeAdded() | live.NodeChanged():
                return self._of_node(change.node, is_new=isinstance(change, live.NodeAdded))
            case live.QueueAdded() | live.QueueChanged():
                return _Told(
                    self._of_queue(change.queue, is_new=isinstance(change, live.QueueAdded))
                )
            case live.DevicesChanged(devices=None, counter_sets=None, held=(*left,)):
                gone = sorted(unused_claims(self._held) - unused_claims(left))
                if not gone or len(left) > len(self._held):
                    return self._in_a_sentence(change)
                self._held = tuple(left)
                return _Told("; ".join(f"delete claim {name}, which nothing uses" for name in gone))
            case live.BudgetsChanged():
                return _Told(self._of_budgets(change.budgets))
            case live.OtherTaskArrived() if change.task.is_on_each_node:
                return _Told("")  # goes without saying
            case live.OtherTaskArrived():
                where = f" on node {change.task.node_name}" if change.task.node_name else ""
                return _Told(f"task {change.task.display_name}{where}, which is not managed here")
            case live.JobArrived():
                job = self._jobs[change.job.uid] = change.job
                self._note(job.uid, job.tasks)
                tasks = counted(len(job.tasks), "task")
                return _Told(f"add job {job.uid} to queue {job.queue}, {tasks}")
            case live.JobChanged():
                before = self._jobs.get(change.uid, JobInfo(name=change.uid, queue=""))
                self._jobs[change.uid] = evolve(before, **said_of_job(change))
                differences = _differences(before, self._jobs[change.uid], _JOB_FIELDS)
                return _Told(f"job {change.uid}: {differences}")
            case live.JobEnded():
                return _Told(f"job {change.uid} {'succeeds' if change.succeeded else 'fails'}")
            case live.TasksAdded():
                self._note(change.job_uid, change.tasks)
                more = counted(len(change.tasks), "more task")
                return _Told(f"job {change.job_uid}: {more}")
            case live.TaskHoldsChanged():
                task, _ = self._tasks.get(change.uid, (None, ""))
                name, held = (change.uid, ()) if task is None else (task.display_name, task.holds)
                return _Told(f"task {name}: {_holds(held, change.holds)}")
            case _:
                return self._in_a_sentence(change)

    def _in_a_sentence(self, change: Change) -> _Told:
        uid: str = (
            change.task.uid if isinstance(change, live.TaskChanged) else getattr(change, "uid", "")
        )
        task, job = self._tasks.get(uid, (None, ""))
        name, of_job = uid if task is None else task.display_name, f" of job {job}" if job else ""
        text = _SENTENCES[type(change)].format(change=change, task=name, of_job=of_job)
        match change:
            case live.NodeRemoved():
                self._nodes.pop(change.name, None)
                return _Told(text, _Kind("remove {n} nodes: {names}", "remove node "))
            case live.TaskGone() if task is not None and task.node_name is not None:
                return _Told(
                    text, _Kind(f"{{n}} tasks leave node {task.node_name}, and wait again")
                )
            case live.TaskSucceeded() if job:
                # A job ends if nothing of it waits either.
                whole = 0 if self._waiting[job] else self._running[job]
                return _Told(text, _Kind(f"end {{n}} tasks{of_job}", "", whole, f"end job {job}"))
            case _:
                return _Told(text)

    def _of_budgets(self, budgets: Sequence[Budget]) -> str:
        before, self._budgets = self._budgets, {budget.uid: budget for budget in budgets}
        parts = [f"remove budget {uid}" for uid in before if uid not in self._budgets]
        for uid, budget in self._budgets.items():
            if uid not in before:
                parts.append(f"add budget {uid}")
            elif before[uid] != budget:
                parts.append(f"budget {uid}: {_differences(before[uid], budget, _BUDGET_FIELDS)}")
        return "; ".join(parts) or "the same budgets"

    def _of_node(self, node: NodeInfo, *, is_new: bool) -> _Told:
        before = self._nodes.get(node.name)
        if is_new:
            like = self._like(node)
            of_kind = f"like {like}" if like else f"with {_amounts(node.allocatable)}"
            self._nodes[node.name] = node
            named = of_kind if like else f"{node.name} {of_kind}"
            return _Told(f"1 more node {named}", _Kind(f"{{n}} more nodes {of_kind}"))
        self._nodes[node.name] = node
        if (
            before is not None
            and evolve(before, unschedulable=node.unschedulable) == node != before
        ):
            verb = "cordon" if node.unschedulable else "uncordon"
            return _Told(f"{verb} {node.name}", _Kind(f"{verb} {{n}} nodes: {{names}}", f"{verb} "))
        return _Told(f"node {node.name}: {_differences(before or node, node, _NODE_FIELDS)}")

    def _like(self, node: NodeInfo) -> str | None:
        """Return a node of the same kind: that whose name the new one begins with, or the first."""
        kind = _without_name(node)
        first = self._first.get(kind)
        named = [
            name
            for name in self._old_nodes  # not the one that was added before
            if first is not None
            and node.name.startswith(name)
            and name in self._nodes
            and _without_name(self._nodes[name]) == kind
        ]
        return max(named, key=len, default=first)

    def _of_queue(self, queue: Queue, *, is_new: bool) -> str:
        before = Queue(name=queue.name) if is_new else self._queues.get(queue.name, queue)
        self._queues[queue.name] = queue
        differences = _differences(before, queue, _QUEUE_FIELDS)
        if not is_new:
            return f"queue {queue.name}: {differences}"
        return f"add queue {queue.name}" + ("" if differences == _UNCHANGED else f": {differences}")


def _without_name(node: NodeInfo) -> NodeInfo:
    """Return what makes a node: all but its name, those of its pools, and what becomes of it."""
    labels = {key: value for key, value in node.labels.items() if value != node.name}
    alone = evolve(node, name="", labels=labels, conditions={}, unschedulable=False)
    return _with_pools(alone, lambda _pool: "")


def duration(seconds: float, /) -> str:
    """Return a duration, given in seconds, in its two largest units. O(1).

    Raises:
        ArgumentError: it is not a finite number of 0 or more.

    >>> duration(7800), duration(90061), duration(0.5)
    ('2 h 10 min', '1 d 1 h', '0.5 s')
    """
    faults = [Fault(*problem) for problem in duration_problems("seconds", seconds)]
    if faults:
        raise ArgumentError(faults)
    return duration_text(seconds)


_YEAR = 365 * 86_400


@checks_arguments()
def time_text(seconds: float, /) -> str:
    """Return a time as RFC 3339 in UTC, or as the number it is if its clock started at 0. O(1).

    >>> time_text(1795168800), time_text(90.0)
    ('2026-11-20T10:00:00Z', '90 s')
    """
    return f"{seconds:g} s" if seconds < _YEAR else date_text(seconds)


# Differences of one object


def _topology(request: object) -> str:
    if not isinstance(request, TopologyRequest):
        return "none"
    levels = [f"{request.required} required"] if request.required else []
    levels += [f"{request.preferred} preferred"] if request.preferred else []
    levels += [f"{each.size} in one {each.level}" for each in request.segments]
    levels += ["balanced"] if request.balanced else []
    return " and ".join(levels) or "none"


def _plain(value: object) -> str:
    return "none" if value is None else str(getattr(value, "value", value))


def _amounts(value: object) -> str:
    if not isinstance(value, (Resource, ResourceLimit)):
        return "no limit"
    is_limit = isinstance(value, ResourceLimit)
    told = [amount_text(name, n) for name, n in value.dimensions() if n or is_limit]
    return ", ".join(told) or ("no limit" if is_limit else "nothing")


def _deserved(value: object) -> str:
    return "all that its parent has" if value is None else _amounts(value)


def _yes(value: object) -> str:
    return "yes" if value else "no"


_Field = tuple[str, Callable[[object], str] | None]
"""The name of a field in words, and what shows its value; None: only that it differs is told."""

_NODE_FIELDS: Mapping[str, _Field] = {
    "allocatable": ("", _amounts),
    "max_tasks": ("tasks at most", _plain),
    "unschedulable": ("cordoned", _yes),
    "labels": ("labels", None),
    "taints": ("taints", None),
    "conditions": ("conditions", None),
}
_QUEUE_FIELDS: Mapping[str, _Field] = {
    "limit": ("limit", _amounts),
    "deserved": ("deserved", _deserved),
    "guarantee": ("guarantee", _amounts),
    "weight": ("weight", _plain),
    "priority": ("priority", _plain),
    "state": ("state", _plain),
    "reclaimable": ("reclaimable", _yes),
    "preempt_min_runtime": ("minimum runtime before preemption", _plain),
    "reclaim_min_runtime": ("minimum runtime before reclaiming", _plain),
    "parent": ("parent", _plain),
    "usage": ("past use", None),
    "usage_by_user": ("past use of users", None),
    "usage_half_life": ("half-life of past use", _plain),
    "creation_time": ("creation time", _plain),
}
_JOB_FIELDS: Mapping[str, _Field] = {
    "priority": ("priority", _plain),
    "queue": ("queue", _plain),
    "min_available": ("minimum", _plain),
    "max_available": ("maximum", _plain),
    "user": ("user", _plain),
    "labels": ("labels", None),
    "deadline": ("deadline", _plain),
    "max_wait": ("longest wait", _plain),
    "topology": ("topology", _topology),
    "preemptible": ("preemptible", _plain),
    "preempts": ("preempts", _yes),
    "claim_delay": ("delay of claims", _plain),
    "evict_whole": ("evicted as a whole", _yes),
    "quota_reserved": ("has reserved quota", _yes),
}
_BUDGET_FIELDS: Mapping[str, _Field] = {
    "min_available": ("min_available", _plain),
    "max_unavailable": ("max_unavailable", _plain),
    "hard": ("hard", _yes),
    "selector": ("selector", None),
}
_UNCHANGED = "unchanged"


def _differences(before: AttrsInstance, after: AttrsInstance, named: Mapping[str, _Field]) -> str:
    """Return the fields that differ: ``priority 9 instead of 0, queue x instead of y``."""
    parts: list[str] = []
    for field, (name, text) in named.items():
        one: object = getattr(before, field)
        other: object = getattr(after, field)
        if one == other:
            continue
        if text is None:
            parts.append(f"other {name}")
        elif isinstance(one, (Resource, ResourceLimit)) and isinstance(other, type(one)):
            parts.append(f"{name} {_amounts_instead(one, other)}".strip())
        else:
            parts.append(f"{name} {text(other)} instead of {text(one)}".strip())
    if isinstance(before, JobInfo) and isinstance(after, JobInfo) and before.holds != after.holds:
        parts.append(_holds(before.holds, after.holds))
    return ", ".join(parts) or _UNCHANGED


def _amounts_instead(before: Resource | ResourceLimit, after: Resource | ResourceLimit) -> str:
    """Return the amounts that differ, with those that they replace."""
    one, other = dict(before.dimensions()), dict(after.dimensions())
    names = [name for name in {**other, **one} if one.get(name) != other.get(name)]
    without = "no limit" if isinstance(before, ResourceLimit) else "nothing"

    def text(amounts: Mapping[str, float]) -> str:
        told = {name: amounts[name] for name in names if name in amounts}
        if isinstance(before, Resource):
            told = {name: amount for name, amount in told.items() if amount}
        return ", ".join(amount_text(name, amount) for name, amount in told.items()) or without

    return f"{text(other)} instead of {text(one)}"


def _holds(before: Sequence[Hold], after: Sequence[Hold]) -> str:
    """Return what no longer holds a job or a task, and what does from now on."""
    gone = [hold.text for hold in before if hold not in after]
    new = [hold.text for hold in after if hold not in before]
    parts = [f"no longer held ({'; '.join(gone)})"] if gone else []
    parts += [f"held ({'; '.join(new)})"] if new else []
    return ", ".join(parts) or "the same holds"
