"""Validation of snapshots: all faults at once, each with its path.

A snapshot is validated in every cycle, and has many tasks that are mostly alike. So each task
is first tested by `_Check.is_sound`, which accepts only the usual types and recognises values
that tasks share (resources, constraints). Only a task that fails this test is checked in full
by `task_problems`, which finds all problems and their messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from batchsched.errors import Fault
from batchsched.model.cluster import (
    Budget,
    JobInfo,
    NodeInfo,
    PastEviction,
    Preemptible,
    Queue,
    ScoringRequest,
    TaskInfo,
    TaskStatus,
)
from batchsched.model.constraints import TaintEffect, Toleration, TolerationOperator
from batchsched.model.devices import CounterSet, Device, DevicePick
from batchsched.model.immutable import EMPTY, is_frozen_map
from batchsched.model.resources import Resource, ResourceLimit, exact
from batchsched.model.topology import Topology
from batchsched.model.validation.devices import (
    common_problems,
    devices_of_node_problems,
    devices_of_task_problems,
    shared_claim_problems,
)
from batchsched.model.validation.fields import (
    FieldChecks,
    integer,
    is_sound_resource,
    is_usual_resource,
    optional,
    part,
    request_problems,
    resource_problems,
    total_faults,
    tuple_of,
)
from batchsched.model.validation.tasks import (
    choice_problems,
    constraint_problems,
    dependency_cycle_faults,
    group_problems,
    has_requests,
    has_sound_times,
    is_usual_duration,
    levels_of,
    own_job_problems,
    own_task_problems,
    requests_problems,
    taint_problems,
    topology_problems,
)
from batchsched.model.validation.values import (
    LARGEST,
    Problems,
    amount_map_problems,
    amount_problems,
    chain_of,
    cycles_of_parents,
    duration_problems,
    integer_problems,
    is_mapping,
    is_of,
    is_text,
    is_tuple,
    member_problems,
    reference_problems,
    shown,
    text_map_problems,
    text_problems,
    time_problems,
    truth_problems,
    tuple_problems,
    under,
)

_CPU, _MEMORY = "milli_cpu", "memory"


def queue_problems(queue: Queue, /) -> Problems:
    """Yield the problems of a queue by itself."""
    yield from _own_queue_problems(queue)
    if (
        is_sound_resource(queue.guarantee)
        and queue.limit is not None
        and next(_limit_problems("", queue.limit), None) is None
    ):
        for dimension, most in queue.limit.dimensions():
            guaranteed = queue.guarantee.get(dimension)
            if exact(guaranteed) > exact(most):
                message = f"expected at most its limit, {most}, got {guaranteed}"
                yield f"guarantee.{_field(dimension)}", message


def _deserved_problems(path: str, deserved: object) -> Problems:
    if isinstance(deserved, Resource):
        yield from under(path, resource_problems(deserved))
    elif isinstance(deserved, ResourceLimit):
        yield from _limit_problems(path, deserved)
    else:
        yield path, f"expected a Resource, a ResourceLimit or None, got {shown(deserved)}"


def _use_problems(path: str, used: object) -> Problems:
    return under(path, resource_problems(used, is_whole=False))


def _user_problems(path: str, usage: object) -> Problems:
    if not is_mapping(usage):
        yield path, f"expected Resources by user, got {shown(usage)}"
        return
    for user, used in usage.items():
        of_user = f"{path}[{shown(user)}]"
        if not is_text(user):
            yield of_user, f"expected a string as the name of a user, got {shown(user)}"
        yield from _use_problems(of_user, used)


def _half_life_problems(path: str, seconds: object) -> Problems:
    if any(duration_problems(path, seconds)) or seconds == 0:
        message = "expected a finite number of seconds, more than 0, or None"
        yield path, f"{message}, got {shown(seconds)}"


def _limit_problems(path: str, limit: object) -> Problems:
    if not isinstance(limit, ResourceLimit):
        hint = "; in a Resource, dimensions that are not named would be 0"
        hint = hint if isinstance(limit, Resource) else ""
        yield path, f"expected a ResourceLimit or None, got {shown(limit)}{hint}"
        return
    for name, amount in ((_CPU, limit.milli_cpu), (_MEMORY, limit.memory)):
        if amount is not None:
            yield from under(path, amount_problems(name, amount))
    yield from under(path, amount_map_problems("scalars", limit.scalars))


_own_queue_problems = FieldChecks(
    Queue,
    weight=integer("a weight (an integer, 0 or more)"),
    priority=integer("a priority (an integer)", None),
    deserved=optional(_deserved_problems),
    limit=optional(_limit_problems),
    usage=_use_problems,
    usage_by_user=_user_problems,
    usage_half_life=optional(_half_life_problems),
    preempt_min_runtime=optional(duration_problems),
    reclaim_min_runtime=optional(duration_problems),
)


def _field(dimension: str) -> str:
    """Return the path of a dimension in a `Resource`."""
    if dimension == "cpu":
        return _CPU
    return dimension if dimension == _MEMORY else f"scalars[{dimension!r}]"


def queue_cycles(queues: Iterable[Queue]) -> Iterator[list[str]]:
    """Yield the names of the queues of each cycle of parents, the first by name first."""
    return cycles_of_parents({q.name: q.parent for q in queues if is_text(q.name)})


def queue_tree_faults(queues: Sequence[Queue]) -> Iterator[Fault]:
    """Yield the faults of the tree of queues: parents, cycles, guarantees, sums.

    Problems of a single queue are reported by `queue_problems`. O(queues x dimensions).
    """
    named = {queue.name: queue for queue in queues if is_text(queue.name)}
    for name, queue in named.items():
        if is_text(queue.parent) and queue.parent:
            path = f"queues[{name!r}].parent"
            for problem in reference_problems(path, "queue", queue.parent, named, "snapshot"):
                yield Fault(*problem)
    in_cycles: set[str] = set()
    for cycle in queue_cycles(queues):
        in_cycles.update(cycle)
        message = f"expected a tree, got a cycle: {chain_of(cycle)}"
        yield Fault(f"queues[{cycle[0]!r}].parent", message)
    granted = [queue.guarantee for queue in named.values()]
    granted += [q.deserved for q in named.values() if isinstance(q.deserved, Resource)]
    yield from total_faults("queues", granted)
    if not in_cycles:
        yield from _guarantee_faults(named)


def _guarantee_faults(named: Mapping[str, Queue]) -> Iterator[Fault]:
    """Yield a fault for each queue whose children are guaranteed more than its limit.

    The effective guarantee of a queue is at least the sum of its children's.
    """
    children: dict[str, list[str]] = {}
    order: list[str] = []
    for name, queue in named.items():
        if is_text(queue.parent) and queue.parent in named:
            children.setdefault(queue.parent, []).append(name)
        else:
            order.append(name)
    for name in order:
        order.extend(children.get(name, ()))
    effective: dict[str, dict[str, int]] = {}
    for name in reversed(order):
        queue = named[name]
        own: dict[str, int] = {}
        if is_sound_resource(queue.guarantee):
            own = {key: exact(amount) for key, amount in queue.guarantee.dimensions() if amount}
        together: dict[str, int] = {}
        for child in children.get(name, ()):
            for dimension, amount in effective[child].items():
                together[dimension] = together.get(dimension, 0) + amount
        if (
            together
            and queue.limit is not None
            and next(_limit_problems("", queue.limit), None) is None
        ):
            for dimension, most in queue.limit.dimensions():
                if together.get(dimension, 0) > exact(most):
                    guaranteed = together[dimension]
                    path = f"queues[{name!r}].limit.{_field(dimension)}"
                    message = f"expected at least the guarantees of its children, {guaranteed}"
                    yield Fault(path, f"{message}, got {most}")
        for dimension, amount in together.items():
            own[dimension] = max(own.get(dimension, 0), amount)
        effective[name] = own


T = TypeVar("T")

_check_taints = tuple_of(part(taint_problems), "Taint")
_NUMBERS = (int, float)
_NODELESS = (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_NODE_NEEDED = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING)
_WAITING_FOR_A_NODE = (TaskStatus.RESERVED, TaskStatus.PIPELINED)
"""The node need not exist any more; the promise or reservation then ends."""


def snapshot_faults(
    *,
    nodes: Sequence[NodeInfo] = (),
    jobs: Sequence[JobInfo] = (),
    queues: Sequence[Queue] = (),
    other_tasks: Sequence[TaskInfo] = (),
    topologies: Sequence[Topology] = (),
    now: float = 0.0,
    devices: Sequence[Device] = (),
    counter_sets: Sequence[CounterSet] = (),
    held: Sequence[DevicePick] = (),
    budgets: Sequence[Budget] = (),
    evictions: Sequence[PastEviction] = (),
    evictions_kept: float = 0.0,
    node_names: Collection[str] | None = None,
) -> list[Fault]:
    """Return all faults of the content of a snapshot, in a stable order.

    `node_names` has the names of all nodes where `nodes` are not all of them.
    """
    check = _Check()
    check.report("", time_problems("now", now))
    if not (_is_empty(devices) and _is_empty(counter_sets) and _is_empty(held)):
        problems = list(common_problems(devices, counter_sets, held))
        check.report("", iter(problems))
        check.common = None if problems else (devices, counter_sets)
    nodes = check.only(NodeInfo, nodes, "nodes")
    for node in nodes:
        check.report(f"nodes[{shown(node.name)}]", check.node_problems(node))
    queues = check.only(Queue, queues, "queues")
    for queue in queues:
        check.report(f"queues[{shown(queue.name)}]", queue_problems(queue))
    check.unique("nodes", (node.name for node in nodes))
    check.unique("queues", (queue.name for queue in queues))
    check.faults.extend(queue_tree_faults(queues))

    check.nodes = (
        frozenset(node.name for node in nodes if is_text(node.name))
        if node_names is None
        else node_names
    )
    tasks: list[TaskInfo] = []
    jobs = check.only(JobInfo, jobs, "jobs")
    for job in jobs:
        path = f"jobs[{job.uid!r}]"
        is_usual = _is_usual_job(job)
        if not is_usual:
            check.report(path, own_job_problems(job))
        check.found_groups = False
        tasks += check.tasks(job.tasks, f"{path}.tasks")
        if check.found_groups or not is_usual:
            check.report(path, group_problems(job))
    check.unique("jobs", (job.uid for job in jobs))
    check.faults.extend(dependency_cycle_faults(jobs))
    topologies = check.only(Topology, topologies, "topologies")
    for topology in topologies:
        check.report(
            f"topologies[{shown(topology.name)}]", topology_problems(topology, check.nodes)
        )
    check.unique("topologies", (topology.name for topology in topologies))
    levels = levels_of(topologies)
    for job in filter(has_requests, jobs):
        check.report(f"jobs[{job.uid!r}]", requests_problems(job, levels))
    of_jobs = len(tasks)
    tasks += check.tasks(other_tasks, "other_tasks")
    check.report("", duration_problems("evictions_kept", evictions_kept))
    budgets = check.only(Budget, budgets, "budgets")
    for budget in budgets:
        check.report(f"budgets[{shown(budget.uid)}]", _budget_problems(budget))
    check.unique("budgets", (budget.uid for budget in budgets))
    for position, past in enumerate(check.only(PastEviction, evictions, "evictions")):
        check.report(f"evictions[{position}]", _past_eviction_problems(past))
    if not check.faults:
        check.faults.extend(_future_faults(jobs, tasks, evictions, now))
        check.report("", shared_claim_problems(task for task in tasks if task.claims))
    if check.may_be_too_much:
        check.faults.extend(total_faults("nodes", (node.allocatable for node in nodes)))
        check.faults.extend(total_faults("jobs", map(_larger_request, tasks[:of_jobs])))
        check.faults.extend(total_faults("other_tasks", map(_larger_request, tasks[of_jobs:])))
    return check.faults


def _one_of_both(min_available: int | None, max_unavailable: int | None) -> Problems:
    if (min_available is None) == (max_unavailable is None):
        got = "neither" if min_available is None else "both"
        yield "", f"expected either min_available or max_unavailable, got {got}"


_TASKS = integer("a number of tasks (an integer, 0 or more)")
_budget_problems = FieldChecks(
    Budget, _one_of_both, min_available=optional(_TASKS), max_unavailable=optional(_TASKS)
)
_past_eviction_problems = FieldChecks(PastEviction)


def _future_faults(
    jobs: Iterable[JobInfo],
    tasks: Iterable[TaskInfo],
    evictions: Iterable[PastEviction],
    now: float,
) -> Iterator[Fault]:
    """Yield a fault for each time in the past that is after `now`. O(jobs + tasks + evictions)."""

    def not_after(path: str, time: float | None) -> Iterator[Fault]:
        if time is not None and time > now:
            yield Fault(path, f"expected at most now, {now!r}, got {time!r}")

    for job in jobs:
        if job.last_evicted is not None:
            yield from not_after(f"jobs[{job.uid!r}].last_evicted", job.last_evicted)
    for task in tasks:
        if task.checkpoint_time is not None:
            yield from not_after(f"tasks[{task.uid!r}].checkpoint_time", task.checkpoint_time)
    for position, past in enumerate(evictions):
        yield from not_after(f"evictions[{position}].time", past.time)


def _is_usual_job(job: JobInfo) -> bool:
    """Return True only if a job is valid, apart from its tasks, and has no groups. A fast test."""
    return (
        type(job.name) is type(job.namespace) is type(job.queue) is type(job.user) is str
        and bool(job.name and job.namespace and job.queue)
        and type(job.min_available) is type(job.priority) is int
        and 0 <= job.min_available <= LARGEST
        and -LARGEST <= job.priority <= LARGEST
        and type(job.creation_time) in _NUMBERS
        and -LARGEST <= job.creation_time <= LARGEST
        and _are_sound_labels(job.labels)
        and (job.estimate is None or is_usual_duration(job.estimate))
        and job.deadline is job.max_wait is job.eligible_time is None
        and job.plan is None
        and job.preemptible is Preemptible.ALWAYS
        and job.preempts is True
        and job.claim_delay is job.last_evicted is None
        and job.evict_whole is job.quota_reserved is False
        and job.max_available is job.min_groups is None
        and _is_empty(job.depends_on)
        and _is_empty(job.groups)
        and _is_empty(job.holds)
    )


def job_test(node_names: Collection[str]) -> Callable[[JobInfo], bool]:
    """Return a fast test of jobs that are added to a cluster.

    It returns True only if a job is valid, and may return False for a valid one. `node_names` has
    the names of the existing nodes; without any, it is True only of jobs that are on none.
    """
    check = _Check()
    check.nodes = node_names
    tested: list[JobInfo] = []  # what was found valid is known by its identity

    def is_sound(job: JobInfo) -> bool:
        tested.append(job)
        if not _is_usual_job(job) or type(job.tasks) is not tuple:
            return False
        for task in job.tasks:
            if type(task) is not TaskInfo or task.group is not None or not check.is_sound(task):
                return False
        return len({task.uid for task in job.tasks}) == len(job.tasks)

    return is_sound


def _is_empty(items: object) -> bool:
    return type(items) is tuple and not items


def _is_empty_map(content: object) -> bool:
    return is_frozen_map(content) and not content


class _Check:
    """Collects faults, and caches values that tasks share and that were found valid.

    They are cached by identity: hashing them would cost more than checking them,
    and the snapshot keeps them alive during the check.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.nodes: Collection[str] = frozenset()
        self.common: tuple[Sequence[Device], Sequence[CounterSet]] | None = ((), ())
        """The devices and counter sets that several nodes reach; None: they are invalid."""
        self.may_be_too_much = False
        """Whether some amounts are so large or unusual that their sums must be checked."""
        self.found_groups = False
        """Whether a task names a group."""
        self._place_of: dict[str, str] = {}
        self._usual_resources: set[int] = set()
        self._sound_constraints: set[tuple[int, ...]] = set()
        self._last_sound: TaskInfo | None = None
        self._sound_devices: set[tuple[int, int]] = set()

    def report(self, path: str, problems: Problems) -> None:
        for below, message in under(path, problems):
            self.faults.append(Fault(below, message))

    def only(self, kind: type[T], items: Collection[T], path: str) -> list[T]:
        """Return the items of a type, and report the others."""
        if not is_tuple(items):
            self.report("", tuple_problems(path, items, kind.__name__))
            return []
        sound = [item for item in items if is_of(item, kind)]
        if len(sound) < len(items):
            for position, item in enumerate(items):
                if not is_of(item, kind):
                    message = f"expected a {kind.__name__}, got {shown(item)}"
                    self.faults.append(Fault(f"{path}[{position}]", message))
        return sound

    def unique(self, path: str, names: Iterable[object]) -> None:
        seen: set[str] = set()
        for name in filter(is_text, names):
            if name in seen:
                self.faults.append(
                    Fault(f"{path}[{name!r}]", "expected a unique name, got it again")
                )
            seen.add(name)

    def node_problems(self, node: NodeInfo) -> Problems:
        """Yield the problems of a node."""
        yield from text_problems("name", node.name)
        if not self._is_usual(node.allocatable):
            yield from under("allocatable", resource_problems(node.allocatable))
        if node.max_tasks is not None:
            what = "a number of tasks (an integer, 0 or more, or None)"
            yield from integer_problems("max_tasks", node.max_tasks, what, least=0)
        for name, texts in (("labels", node.labels), ("conditions", node.conditions)):
            if not _are_sound_labels(texts):
                yield from text_map_problems(name, texts)
        yield from truth_problems("unschedulable", node.unschedulable)
        yield from _check_taints("taints", node.taints)
        if not (
            _is_empty(node.devices)
            and _is_empty(node.counter_sets)
            and _is_empty(node.closed_pools)
        ):
            # Nodes of one kind share their devices.
            identity = id(node.devices), id(node.counter_sets)
            if identity not in self._sound_devices or node.closed_pools:
                problems = [*devices_of_node_problems(node, self.common)]
                yield from problems
                if not problems:
                    self._sound_devices.add(identity)

    def tasks(self, tasks: Collection[TaskInfo], path: str) -> list[TaskInfo]:
        """Check the tasks of one job, or those without a job; return the items that are tasks."""
        known = self.only(TaskInfo, tasks, path)
        place_of = self._place_of
        for task in known:
            uid = task.uid
            if task.group is not None:
                self.found_groups = True
                if path == "other_tasks":
                    message = f"expected None for a task without a job, got {shown(task.group)}"
                    self.faults.append(Fault(f"{path}[{shown(uid)}].group", message))
            if not self.is_sound(task):
                self.report(f"{path}[{shown(uid)}]", task_problems(task, self.nodes))
                if path == "other_tasks":
                    self.report(f"{path}[{shown(uid)}]", _other_task_problems(task))
                if not is_text(uid):
                    continue
            if uid in place_of:
                first = place_of[uid].removesuffix(".tasks")
                message = f"expected a unique UID, got {uid!r}, which is also in {first}"
                self.faults.append(Fault(f"{path}[{uid!r}].uid", message))
            else:
                place_of[uid] = path
        return known

    def is_sound(self, task: TaskInfo) -> bool:
        """Return True only if a task is valid; may return False for a valid task. A fast test.

        Most of the time of validation is spent here: ``python -m benchmarks.validation``.
        """
        status, node_name = task.status, task.node_name
        if (
            task.leaving is not None
            or task.left_devices is not None
            or not (task.left_choices is EMPTY or _is_empty_map(task.left_choices))
            or type(status) is not TaskStatus
            or not (
                status in _NODELESS
                if node_name is None
                else status in _NODE_NEEDED and type(node_name) is str and node_name in self.nodes
            )
        ):
            return False
        if not (
            (
                type(task.uid)
                is type(task.name)
                is type(task.namespace)
                is type(task.priority_class_name)
                is str
            )
            and task.uid
            and task.name
            and task.namespace
            and type(task.priority) is int
            and type(task.is_backfill) is type(task.is_on_each_node) is bool
            and type(task.creation_time) in _NUMBERS
            and -LARGEST <= task.creation_time <= LARGEST
            and (
                (
                    task.start_time is None is task.estimate
                    and type(task.attained_service) is float
                    and task.attained_service == 0.0
                )
                or has_sound_times(task)
            )
            and type(task.holds) is tuple
            and not task.holds
            and (task.index is None or (type(task.index) is int and task.index >= 0))
            and (task.devices is None or not any(self._device_problems(task)))
            and (task.choices is EMPTY or not any(choice_problems("choices", task.choices)))
            and task.checkpoint_time is task.eviction_cost is None
        ):
            return False
        resreq, init_resreq, scoring = task.resreq, task.init_resreq, task.scoring_request
        if id(resreq) not in self._usual_resources and not self._is_usual(resreq):
            return False
        if (
            init_resreq is not None
            and init_resreq is not resreq
            and not (self._is_usual(init_resreq) and resreq.fits(init_resreq))
        ):
            return False
        if scoring is not None and not (
            type(scoring) is ScoringRequest
            and type(scoring.milli_cpu) is type(scoring.memory) is int
            and scoring.milli_cpu >= 0
            and scoring.memory >= 0
        ):
            return False
        last = self._last_sound
        if last is None or not (
            task.node_affinity is last.node_affinity
            and task.host_ports is last.host_ports
            and task.pod_affinity is last.pod_affinity
            and task.pod_anti_affinity is last.pod_anti_affinity
            and task.claims is last.claims
            and (task.labels is last.labels or _are_sound_labels(task.labels))
            and (task.node_selector is last.node_selector or _are_sound_labels(task.node_selector))
            and (task.tolerations is last.tolerations or _are_sound_tolerations(task.tolerations))
        ):
            if not self._has_sound_constraints(task):
                return False
            self._last_sound = task
        return True

    def _is_usual(self, resource: Resource) -> bool:
        if id(resource) in self._usual_resources:
            return True
        if not is_usual_resource(resource):
            self.may_be_too_much = True
            return False
        self._usual_resources.add(id(resource))
        return True

    def _has_sound_constraints(self, task: TaskInfo) -> bool:
        identity = (
            id(task.node_affinity),
            id(task.host_ports),
            id(task.pod_affinity),
            id(task.pod_anti_affinity),
            id(task.claims),
        )
        asks_for_none = (
            task.node_affinity is None
            and task.pod_affinity is None
            and task.pod_anti_affinity is None
            and task.devices is None
            and _is_empty(task.host_ports)
            and _is_empty(task.claims)
        )
        if asks_for_none or identity in self._sound_constraints:
            return (
                _are_sound_labels(task.labels)
                and _are_sound_labels(task.node_selector)
                and _are_sound_tolerations(task.tolerations)
            )
        if any(constraint_problems(task)) or any(self._device_problems(task)):
            return False
        self._sound_constraints.add(identity)
        return True

    @staticmethod
    def _device_problems(task: TaskInfo) -> Problems:
        return devices_of_task_problems(task.claims, task.devices)


def _larger_request(task: TaskInfo) -> Resource:
    """Return the larger request, whether or not it is valid."""
    return task.resreq if task.init_resreq is None else task.init_resreq


def _are_sound_labels(labels: Mapping[str, str]) -> bool:
    if not is_frozen_map(labels):
        return False
    for key, value in labels.items():
        if type(key) is not str or type(value) is not str:
            return False
    return True


def _are_sound_tolerations(tolerations: tuple[Toleration, ...]) -> bool:
    if type(tolerations) is not tuple:
        return False
    for toleration in tolerations:
        if not (
            type(toleration) is Toleration
            and type(toleration.key) is type(toleration.value) is str
            and (
                not toleration.value
                if toleration.operator is TolerationOperator.EXISTS
                else toleration.key and toleration.operator is TolerationOperator.EQUAL
            )
            and (toleration.effect is None or type(toleration.effect) is TaintEffect)
        ):
            return False
    return True


def task_problems(task: TaskInfo, nodes: Collection[str], /) -> Problems:
    """Yield the problems of a task, given the names of the snapshot's nodes."""
    yield from own_task_problems(task)
    yield from _place_problems(task.status, task.node_name, nodes)
    yield from _leaving_problems(task, nodes)
    yield from request_problems(task.resreq, task.init_resreq)
    yield from constraint_problems(task)
    yield from devices_of_task_problems(task.claims, task.devices, task.left_devices)
    yield from choice_problems("choices", task.choices)
    yield from choice_problems("left_choices", task.left_choices, devices="left_devices")


def _place_problems(status: object, node_name: object, nodes: Collection[str]) -> Problems:
    if not isinstance(status, TaskStatus):
        yield from member_problems("status", status, TaskStatus)
    elif not status.in_snapshot:
        message = f"expected a status outside of sessions, got {status.value}; use Pending"
        yield "status", message
    elif node_name is None:
        if status in _NODE_NEEDED or status in _WAITING_FOR_A_NODE:
            yield "node_name", f"expected a node for a task that is {status.value}, got None"
    elif not is_text(node_name):
        yield "node_name", f"expected a string, got {shown(node_name)}"
    elif status is TaskStatus.PENDING:
        yield "node_name", f"expected None for a task that is Pending, got {node_name!r}"
    elif status.ended:
        yield "node_name", f"expected None for a task that has {status.value}, got {node_name!r}"
    elif status in _WAITING_FOR_A_NODE:
        yield from text_problems("node_name", node_name)
    else:
        yield from reference_problems("node_name", "node", node_name, nodes, "snapshot")


def _leaving_problems(task: TaskInfo, nodes: Collection[str]) -> Problems:
    left: object = task.leaving
    if left is None:
        message = "expected none without leaving, the name of the node where they were chosen"
        if task.left_devices is not None:
            yield "left_devices", message
        if is_mapping(task.left_choices) and not _is_empty_map(task.left_choices):
            yield "left_choices", message
    elif is_text(left) and left:
        yield from reference_problems("leaving", "node", left, nodes, "snapshot")
        if task.status is not TaskStatus.PIPELINED:
            known = is_of(task.status, TaskStatus)
            status = task.status.value if known else shown(task.status)
            yield "leaving", f"expected None for a task that is {status}: only a promised one moves"
        elif left == task.node_name:
            yield "leaving", f"expected another node than the one that is promised, got {left!r}"


def _other_task_problems(task: TaskInfo) -> Problems:
    if task.status in _WAITING_FOR_A_NODE:
        message = (
            "expected another status for a task without a job, which is never placed, "
            f"got {task.status.value}"
        )
        yield "status", message
