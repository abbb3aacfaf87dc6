"""What makes a snapshot invalid: every fault is found, each with its path.

Most tasks of a cluster are alike, so values that tasks share (resources,
constraints) are checked once each, not once a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import TypeVar

from batchsched.errors import Fault
from batchsched.model import JobInfo, NodeInfo, Queue, ScoringRequest, TaskInfo
from batchsched.resources import EPSILON, Resource, sum_resources
from batchsched.status import TaskStatus
from batchsched.validation_constraints import constraint_problems, taint_problems

__all__ = ["snapshot_faults"]

Problems = Iterator[tuple[str, str]]
"""What is wrong: the path below the value that was checked, and the message."""

T = TypeVar("T")

_NODE_OPTIONAL = (TaskStatus.RELEASING, TaskStatus.UNKNOWN)
_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def snapshot_faults(
    *,
    nodes: Sequence[NodeInfo],
    jobs: Sequence[JobInfo],
    queues: Sequence[Queue],
    other_tasks: Sequence[TaskInfo],
    now: float,
) -> list[Fault]:
    """Return everything that is wrong with the content of a snapshot, in a stable order."""
    check = _Check()
    if not _is_number(now) or not isfinite(now):
        check.fault("now", f"{now!r} is no time; a time is a finite number of seconds")
    for node in check.only(NodeInfo, nodes, "nodes"):
        check.under(f"nodes[{node.name!r}]", _node_problems(node))
    for queue in check.only(Queue, queues, "queues"):
        check.under(f"queues[{queue.name!r}]", _queue_problems(queue))
    check.unique("nodes", (node.name for node in nodes if isinstance(node, NodeInfo)))
    check.unique("queues", (queue.name for queue in queues if isinstance(queue, Queue)))

    tasks: list[tuple[str, TaskInfo]] = []
    for job in check.only(JobInfo, jobs, "jobs"):
        path = f"jobs[{job.uid!r}]"
        check.under(path, _job_problems(job))
        tasks.extend((path, task) for task in check.only(TaskInfo, job.tasks, f"{path}.tasks"))
    check.unique("jobs", (job.uid for job in jobs if isinstance(job, JobInfo)))
    others = check.only(TaskInfo, other_tasks, "other_tasks")
    check.tasks(tasks, others, {node.name for node in nodes if isinstance(node, NodeInfo)})
    if not check.faults:
        # Only sums of sound amounts mean anything.
        check.node_use(nodes, [task for _, task in tasks] + others)
    return check.faults


class _Check:
    """Collects faults; remembers which shared values were found sound."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._sound_resources: set[int] = set()
        self._sound_constraints: set[tuple[int, ...]] = set()

    def fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def under(self, path: str, problems: Problems) -> None:
        for below, message in problems:
            self.fault(f"{path}.{below}" if below else path, message)

    def only(self, kind: type[T], items: Iterable[T], path: str) -> list[T]:
        sound: list[T] = []
        for position, item in enumerate(items):
            if isinstance(item, kind):
                sound.append(item)
            else:
                self.fault(f"{path}[{position}]", f"{item!r} is no {kind.__name__}")
        return sound

    def unique(self, path: str, names: Iterable[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.fault(f"{path}[{name!r}]", "this name is given twice")
            seen.add(name)

    def tasks(
        self, tasks: list[tuple[str, TaskInfo]], others: list[TaskInfo], nodes: set[str]
    ) -> None:
        owner: dict[str, str] = {}
        for place, task in [*tasks, *(("", task) for task in others)]:
            uid = task.uid
            at = f"{place}.tasks" if place else "other_tasks"
            if uid in owner:
                first = owner[uid] or "other_tasks"
                self.fault(f"{at}[{uid!r}].uid", f"{uid!r} is the UID of a task of {first} too")
            owner[uid] = place
            for below, message in self._task_problems(task, nodes):
                self.fault(f"{at}[{uid!r}].{below}", message)
            if not place:
                for below, message in _other_task_problems(task):
                    self.fault(f"{at}[{uid!r}].{below}", message)

    def _task_problems(self, task: TaskInfo, nodes: set[str]) -> Problems:
        if not (
            type(task.uid) is type(task.name) is type(task.namespace) is str
            and task.uid
            and type(task.priority) is int
            and type(task.is_backfill) is bool
            and type(task.creation_time) in (int, float)
            and isfinite(task.creation_time)
        ):
            yield from _plain_task_problems(task)
        # Values are remembered by identity: hashing them would cost more than checking,
        # and the snapshot keeps them alive while it is checked.
        for name, resource in (("resreq", task.resreq), ("init_resreq", task.init_resreq)):
            if id(resource) in self._sound_resources or (
                name == "init_resreq" and resource is None
            ):
                continue
            problems = list(_resource_problems(resource))
            if problems:
                for below, message in problems:
                    yield (f"{name}.{below}" if below else name), message
            else:
                self._sound_resources.add(id(resource))
        if task.scoring_request is not None:
            yield from _scoring_problems(task.scoring_request)
        if task.init_resreq is not None and isinstance(task.resreq, Resource):
            yield from self._start_problems(task.resreq, task.init_resreq)
        yield from _place_problems(task, nodes)
        constraints = (
            id(task.labels),
            id(task.node_selector),
            id(task.node_affinity),
            id(task.tolerations),
            id(task.host_ports),
            id(task.pod_affinity),
            id(task.pod_anti_affinity),
        )
        if constraints not in self._sound_constraints:
            problems = list(constraint_problems(task))
            yield from problems
            if not problems:
                self._sound_constraints.add(constraints)

    def _start_problems(self, resreq: Resource, init_resreq: Resource) -> Problems:
        sound = self._sound_resources
        if id(resreq) in sound and id(init_resreq) in sound and not resreq.fits(init_resreq):
            yield "init_resreq", f"{init_resreq!r} is less than resreq, {resreq!r}"

    def node_use(self, nodes: Sequence[NodeInfo], tasks: Iterable[TaskInfo]) -> None:
        held: dict[str, dict[int, int]] = {}
        requests: dict[int, Resource] = {}
        for task in tasks:
            if task.status.holds and task.node_name is not None:
                counts = held.setdefault(task.node_name, {})
                identity = id(task.resreq)
                requests[identity] = task.resreq
                counts[identity] = counts.get(identity, 0) + 1
        for node in nodes:
            if node.name not in held:
                continue
            use = sum_resources(
                count * requests[identity] if count > 1 else requests[identity]
                for identity, count in held[node.name].items()
            )
            over = [
                f"{amount:g} of {dimension} are held, it has {node.allocatable.get(dimension):g}"
                for dimension, amount in use.dimensions()
                if amount - node.allocatable.get(dimension) > EPSILON
            ]
            if over:
                self.fault(
                    f"nodes[{node.name!r}]", f"its tasks hold more than it has: {'; '.join(over)}"
                )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _amount_problem(amount: object) -> str | None:
    if not _is_number(amount):
        return f"{amount!r} is no number"
    assert isinstance(amount, int | float)
    if not isfinite(amount):
        return f"{amount!r} is not a finite number"
    return f"{amount!r} is negative" if amount < 0 else None


def _resource_problems(resource: object) -> Problems:
    if not isinstance(resource, Resource):
        yield "", f"{resource!r} is no Resource"
        return
    amounts: list[tuple[str, object]] = [
        ("milli_cpu", resource.milli_cpu),
        ("memory", resource.memory),
    ]
    amounts.extend((f"scalars[{name!r}]", resource.scalars[name]) for name in resource.scalars)
    for name, amount in amounts:
        problem = _amount_problem(amount)
        if problem is not None:
            yield name, problem
    for name in resource.scalars:
        if not isinstance(name, str) or name in ("", "cpu", "memory"):
            yield f"scalars[{name!r}]", "is no name for a scalar; cpu and memory have their own"


def _text_problems(names: Mapping[str, object], *, may_be_empty: tuple[str, ...] = ()) -> Problems:
    for name, value in names.items():
        if not isinstance(value, str):
            yield name, f"{value!r} is no text"
        elif not value and name not in may_be_empty:
            yield name, "is empty"


def _time_problems(creation_time: object) -> Problems:
    if not _is_number(creation_time) or _amount_problem(creation_time) == (
        f"{creation_time!r} is not a finite number"
    ):
        message = f"{creation_time!r} is no time; a time is a finite number of seconds"
        yield "creation_time", message


def _labels_problems(name: str, labels: Mapping[str, str]) -> Problems:
    for key, value in labels.items():
        if not isinstance(key, str) or not isinstance(value, str):
            yield f"{name}[{key!r}]", f"{value!r} for {key!r}: keys and values are texts"


def _node_problems(node: NodeInfo) -> Problems:
    yield from _text_problems({"name": node.name})
    for below, message in _resource_problems(node.allocatable):
        yield (f"allocatable.{below}" if below else "allocatable"), message
    limit = node.max_tasks
    if limit is not None and (not _is_integer(limit) or limit < 0):
        yield "max_tasks", f"{limit!r} is no number of tasks; use an integer, 0 or more, or None"
    yield from _labels_problems("labels", node.labels)
    yield from _labels_problems("conditions", node.conditions)
    if type(node.unschedulable) is not bool:
        yield "unschedulable", f"{node.unschedulable!r} is neither True nor False"
    for position, taint in enumerate(node.taints):
        for message in taint_problems(taint):
            yield f"taints[{position}]", message


def _queue_problems(queue: Queue) -> Problems:
    yield from _text_problems({"name": queue.name})
    if not _is_integer(queue.weight) or queue.weight < 1:
        yield "weight", f"{queue.weight!r} is no weight; a weight is an integer, 1 or more"
    yield from _time_problems(queue.creation_time)


def _job_problems(job: JobInfo) -> Problems:
    yield from _text_problems({"name": job.name, "namespace": job.namespace, "queue": job.queue})
    if not _is_integer(job.min_available) or job.min_available < 0:
        message = f"{job.min_available!r} is no number of tasks; use an integer, 0 or more"
        yield "min_available", message
    if not _is_integer(job.priority):
        yield "priority", f"{job.priority!r} is no priority; a priority is an integer"
    yield from _time_problems(job.creation_time)


def _plain_task_problems(task: TaskInfo) -> Problems:
    yield from _text_problems(
        {
            "uid": task.uid,
            "name": task.name,
            "namespace": task.namespace,
            "priority_class_name": task.priority_class_name,
        },
        may_be_empty=("priority_class_name",),
    )
    if not _is_integer(task.priority):
        yield "priority", f"{task.priority!r} is no priority; a priority is an integer"
    if type(task.is_backfill) is not bool:
        yield "is_backfill", f"{task.is_backfill!r} is neither True nor False"
    yield from _time_problems(task.creation_time)


def _scoring_problems(scoring: object) -> Problems:
    if not isinstance(scoring, ScoringRequest):
        yield "scoring_request", f"{scoring!r} is no ScoringRequest"
        return
    for name, amount in (("milli_cpu", scoring.milli_cpu), ("memory", scoring.memory)):
        if not _is_integer(amount) or amount < 0:
            yield f"scoring_request.{name}", f"{amount!r} is no integer, 0 or more"


def _other_task_problems(task: TaskInfo) -> Problems:
    if task.status is TaskStatus.RESERVED:
        yield "status", "Reserved is for tasks of jobs; a task without a job is never placed"


def _place_problems(task: TaskInfo, nodes: set[str]) -> Problems:
    status, node_name = task.status, task.node_name
    if not isinstance(status, TaskStatus):
        yield "status", f"{status!r} is no TaskStatus"
        return
    if not status.in_snapshot:
        message = f"{status.value} exists only inside a session; give the task as Pending"
        yield "status", message
        return
    if node_name is None:
        if not (status is TaskStatus.PENDING or status in _ENDED or status in _NODE_OPTIONAL):
            yield "node_name", f"a task that is {status.value} needs a node"
    elif status is TaskStatus.PENDING:
        yield "node_name", f"{node_name!r}: a task that is Pending is on no node"
    elif status in _ENDED:
        yield "node_name", f"{node_name!r}: a task that has {status.value} is on no node"
    elif status is not TaskStatus.RESERVED and node_name not in nodes:
        yield "node_name", f"{node_name!r} is no node of this snapshot"


