"""What is possible happens, and nothing else: tiny clusters, decided by brute force.

In a cluster of at most 4 nodes, 5 running jobs and 3 tasks that wait, all ways to let the most
important waiting job run are tried: whom to evict, in whole units, and where to place its tasks.
If there is one, it runs within 4 cycles; if there is none, nobody is evicted for it. Only those are
evicted for it who may go, by priority, queue, minimum runtime and what protects them, and not
unless it runs then. `broken_law`
asks that of one cluster and one order of actions; `python -m tests.quality.possible` looks for
clusters that break the law.

Whether it is possible is a matter of rules, which are simple where who waits deserves all there is,
so that any unit of another queue is on loan, and where task and job priority are the same. Where
the rules leave it open, as where units of both the own and another queue would have to go, which
no single action takes, the answer is *may*: then nothing is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import combinations, permutations, product

from attrs import frozen

from batchsched import (
    JobInfo,
    LabelSelector,
    NodeInfo,
    Preemptible,
    Queue,
    QueueStatus,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    TopologyRequest,
    next_snapshot,
)
from batchsched.devices import Device, DevicePick
from tests.support.tiny_clusters import CRITICAL, MOST_NODES, MOST_RUNNING, MOST_WAITING, serves

CYCLES = 4
"""Within so many cycles must run what can."""
THERE = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING)
ORDERS = (
    "allocate,preempt",
    "allocate,reclaim",
    "allocate",
    "reclaim,allocate,preempt,backfill",
    "allocate,preempt,reclaim,backfill",
    "preempt",
    "reclaim",
)
"""The actions under which the law is asked."""


@lru_cache
def configuration(actions: str) -> SchedulerConfig:
    """Actions, separated by commas, with the default tiers, where `curable` is on."""
    return SchedulerConfig.from_mapping({"actions": actions})


@lru_cache
def scheduler(actions: str, *, plain: bool = False) -> Scheduler:
    return Scheduler(configuration(actions), plain=plain)


# What is possible


class Answer(Enum):
    """Whether a job can run, by the rules."""

    MUST = "can"
    MAY = "may"
    CANNOT = "cannot"


class NotAsked(Exception):  # noqa: N818 - no error
    """The cluster is none of those of which the law speaks; the message says why."""


@frozen(eq=False)
class Placed:
    """A task on a node with its devices."""

    task: TaskInfo
    node: NodeInfo
    devices: tuple[DevicePick, ...]


def in_task_order(tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    return sorted(tasks, key=lambda task: (-task.priority, task.creation_time, task.uid))


def claimant_of(snapshot: Snapshot) -> JobInfo:
    """The most important job that waits for tasks without which it does not run."""
    waiting = [
        job
        for job in snapshot.jobs
        if any(t.status in (TaskStatus.PENDING, TaskStatus.RELEASING) for t in job.tasks)
    ]
    if not waiting:
        raise NotAsked("nobody waits")
    first, *others = sorted(waiting, key=lambda job: (-job.priority, job.uid))
    if any(other.priority >= first.priority or other.queue != first.queue for other in others):
        raise NotAsked("who is the most important is a matter of other orders")
    if runs(first, (task for task in first.tasks if task.status in THERE)):
        raise NotAsked("it runs")
    return first


def runs(job: JobInfo, tasks: Iterable[TaskInfo]) -> bool:
    """Whether a job runs with these tasks."""
    there = list(tasks)
    counts = Counter(task.group for task in there)
    return len(there) >= job.min_available and all(
        counts[group.name] >= (group.min or 0) for group in job.groups
    )


def expect_in_scope(snapshot: Snapshot, claimant: JobInfo) -> None:
    """Raise `NotAsked` unless the rules below are all rules that matter."""
    tree = {queue.name: queue for queue in snapshot.queues}
    path = set(path_of(tree, claimant.queue))
    running = [job for job in snapshot.jobs if any(t.status in THERE for t in job.tasks)]
    faults = {
        "large": len(snapshot.nodes) > MOST_NODES
        or len(running) > MOST_RUNNING + 1
        or len(claimant.tasks) > MOST_WAITING,
        "queues": any(
            (queue.deserved is None) is not (queue.name in path)
            or queue.guarantee != Resource()
            or queue.state is not QueueStatus.OPEN
            or (queue.deserved is not None and queue.deserved != Resource())
            for queue in snapshot.queues
        )
        or any(job.queue not in tree for job in snapshot.jobs)
        or bool({job.queue for job in snapshot.jobs} & {q.parent for q in snapshot.queues}),
        "jobs": any(
            not runs(job, (t for t in job.tasks if t.status in THERE)) or job.groups
            for job in running
            if job is not claimant
        )
        or any(job.max_available is not None or job.min_groups is not None for job in snapshot.jobs)
        or any(job.min_available > len(job.tasks) for job in snapshot.jobs)
        or any(group.parent is not None for job in snapshot.jobs for group in job.groups)
        or claimant.preemptible is not Preemptible.ALWAYS
        or any(job.min_available < 1 for job in snapshot.jobs),
        "priorities": any(t.priority != job.priority for job in snapshot.jobs for t in job.tasks),
        "tasks": any(
            t.is_backfill or t.holds or t.is_best_effort for j in snapshot.jobs for t in j.tasks
        ),
        "leaving": any(
            len({t.status is TaskStatus.RELEASING for t in job.tasks}) > 1 for job in snapshot.jobs
        ),
        "overcommitted": any(
            amount > node.allocatable.get(name)
            for node in snapshot.nodes
            for name, amount in held_on(snapshot, node.name).items()
        ),
    }
    for name, is_so in faults.items():
        if is_so:
            raise NotAsked(name)


def held_on(snapshot: Snapshot, node: str) -> dict[str, float]:
    held: Counter[str] = Counter()
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.node_name == node:
                held.update(dict(task.resreq.dimensions()))
    return dict(held)


def path_of(tree: Mapping[str, Queue], name: str) -> list[str]:
    """A queue and all above it, the lowest first."""
    path: list[str] = []
    at: str | None = name
    while at is not None:
        path.append(at)
        at = tree[at].parent
    return path


@frozen(eq=False)
class Question:
    """A cluster, its most important waiting job, and the actions that may help it."""

    snapshot: Snapshot
    claimant: JobInfo
    actions: tuple[str, ...]

    def answer(self) -> Answer:
        """Whether the job can run, by brute force."""
        ways = [frozenset[str]()]
        if "preempt" in self.actions:
            ways.append(self.movable("preempt"))
        if "reclaim" in self.actions and self.is_within_shares():
            ways.append(self.movable("reclaim"))
        if any(self.is_possible(way, is_strict=True) for way in ways):
            return Answer.MUST
        widest = frozenset[str]().union(
            *(self.movable(name) for name in ("preempt", "reclaim") if name in self.actions)
        )
        if self.is_possible(widest, is_strict=False):
            return Answer.MAY
        return Answer.CANNOT

    # Who may go

    def movable(self, action: str) -> frozenset[str]:
        """The tasks that the action may evict for the job, as single tasks or with their jobs."""
        found: set[str] = set()
        for job in self.snapshot.jobs:
            there = in_task_order(t for t in job.tasks if t.status in THERE)
            if job is self.claimant or not there or not self.may_move(job, action):
                continue
            core, surplus = there[: job.min_available], there[job.min_available :]
            whole = (
                job.preemptible is not Preemptible.SURPLUS
                and not self.is_young(job, action)
                and all(map(is_ordinary, there))
            )
            found.update(task.uid for task in surplus if is_ordinary(task))
            found.update(task.uid for task in core if whole)
        return frozenset(found)

    def may_move(self, job: JobInfo, action: str) -> bool:
        """Whether the action may evict of this job at all."""
        if job.preemptible is Preemptible.NEVER:
            return False
        if action == "preempt":
            return job.queue == self.claimant.queue and job.priority < self.claimant.priority
        above = path_of(self.tree, job.queue)
        return job.queue != self.claimant.queue and all(
            self.tree[name].reclaimable for name in above
        )

    def is_young(self, job: JobInfo, action: str) -> bool:
        """Whether what it needs is protected by a minimum runtime in all cycles to come."""
        path = path_of(self.tree, job.queue)
        if action == "reclaim":
            mine = path_of(self.tree, self.claimant.queue)
            below = [name for name in path if name not in mine]
            path = path[len(below) - 1 :]
        least = next(
            (
                seconds
                for name in path
                for seconds in [
                    self.tree[name].preempt_min_runtime
                    if action == "preempt"
                    else self.tree[name].reclaim_min_runtime
                ]
                if seconds is not None
            ),
            0.0,
        )
        starts = {t.start_time for t in job.tasks if t.status in THERE}
        if len(starts) != 1:
            raise NotAsked("a job of several starts")
        start = starts.pop()
        return least > 0 and start is not None and self.snapshot.now + CYCLES < start + least

    def is_within_shares(self) -> bool:
        """Whether what it claims stays within what there is, for its queue and those above."""
        total: Counter[str] = Counter()
        for node in self.snapshot.nodes:
            there = held_on(self.snapshot, node.name) if node.unschedulable else None
            amounts = node.allocatable.dimensions() if there is None else there.items()
            total.update(dict(amounts))
        asked = self.asked()
        return all(
            self.held_in(queue, frozenset()).get(name, 0) + amount <= total[name]
            for queue in path_of(self.tree, self.claimant.queue)
            for name, amount in asked.items()
        )

    def asked(self) -> Counter[str]:
        """The most that the job asks for."""
        asked: Counter[str] = Counter()
        for task in self.claimant.tasks:
            if task.status is TaskStatus.PENDING:
                asked.update(dict(task.resreq.dimensions()))
        return asked

    @property
    def tree(self) -> dict[str, Queue]:
        return {queue.name: queue for queue in self.snapshot.queues}

    def held_in(self, queue: str, gone: frozenset[str]) -> Counter[str]:
        """What a queue and those below it hold."""
        held: Counter[str] = Counter()
        for job in self.snapshot.jobs:
            if queue in path_of(self.tree, job.queue):
                for task in job.tasks:
                    if task.status in THERE and task.uid not in gone:
                        held.update(dict(task.resreq.dimensions()))
        return held

    # Where the tasks would be

    def is_possible(self, movable: frozenset[str], *, is_strict: bool) -> bool:
        """Whether some evictions, of whole units, make room."""
        return any(
            self.has_places(gone, movable, is_strict=is_strict) for gone in self.goings(movable)
        )

    def goings(self, movable: frozenset[str]) -> Iterator[frozenset[str]]:
        """Sets of tasks to evict; only who is wanted near is worth keeping if not needed."""
        wanted = [
            term.selector
            for task in self.claimant.tasks
            if task.pod_affinity is not None
            for term in task.pod_affinity.required
        ]
        choices: list[list[tuple[str, ...]]] = []
        for job in self.snapshot.jobs:
            there = in_task_order(t for t in job.tasks if t.status in THERE)
            mine = tuple(task.uid for task in there if task.uid in movable)
            if not mine:
                continue
            options = [mine]
            if any(matches(selector, task) for selector in wanted for task in there):
                surplus = [t.uid for t in there[job.min_available :] if t.uid in movable]
                options += [
                    some
                    for count in range(len(surplus) + 1)
                    for some in combinations(surplus, count)
                ]
            choices.append(list(dict.fromkeys(options)))
        for choice in product(*choices):
            yield frozenset(uid for some in choice for uid in some)

    def has_places(self, gone: frozenset[str], movable: frozenset[str], *, is_strict: bool) -> bool:
        """Whether the job runs when these tasks have gone."""
        nodes = {node.name: node for node in self.snapshot.nodes}
        staying = [
            Placed(task, nodes[task.node_name], task.devices or ())
            for tasks in (*(job.tasks for job in self.snapshot.jobs), self.snapshot.other_tasks)
            for task in tasks
            if task.node_name is not None
            and task.uid not in gone
            and task.status is not TaskStatus.RELEASING
        ]
        leaving = [
            Placed(task, nodes[task.node_name], ())
            for job in self.snapshot.jobs
            for task in job.tasks
            if task.node_name is not None and task.uid in gone
        ]
        mine = [placed for placed in staying if placed.task in self.claimant.tasks]
        pending = [task for task in self.claimant.tasks if task.status is TaskStatus.PENDING]
        for count in range(1, len(pending) + 1):
            for some in combinations(pending, count):
                if not runs(self.claimant, [*(each.task for each in mine), *some]):
                    continue
                if not self.is_within_limits(some, gone, is_strict=is_strict):
                    continue
                if is_strict and not self.are_whole_segments(some):
                    continue
                linked = any(task.pod_affinity is not None for task in some)
                for order in permutations(some) if linked else [some]:
                    others = leaving if is_strict else []
                    trial = _Trial(self, is_strict, others, [*staying], [*mine])
                    if trial.place(order):
                        return True
        return False

    def are_whole_segments(self, some: Sequence[TaskInfo]) -> bool:
        """Whether tasks are all that wait of the segments that they are in, the last one last."""
        job = self.claimant
        if job.topology is None or not job.topology.segments:
            return True
        numbers = numbers_of(job.tasks)
        size = job.topology.segments[0].size
        begun = {numbers[task.uid] // size for task in some}
        last = max(numbers.values()) // size
        if last in begun and begun != {number // size for number in numbers.values()}:
            return False  # a short segment is not what a job begins with
        return all(
            task in some or task.status is not TaskStatus.PENDING
            for task in job.tasks
            if numbers[task.uid] // size in begun
        )

    def is_within_limits(
        self, some: Sequence[TaskInfo], gone: frozenset[str], *, is_strict: bool
    ) -> bool:
        """Whether no queue exceeds its limit; or, if not strict, none by more than now."""
        asked: Counter[str] = Counter()
        for task in some:
            asked.update(dict(task.resreq.dimensions()))
        for name in path_of(self.tree, self.claimant.queue):
            limit = self.tree[name].limit
            held, before = self.held_in(name, gone), self.held_in(name, frozenset())
            for dimension, amount in asked.items():
                most = None if limit is None else limit.get(dimension)
                if most is not None and held[dimension] + amount > (
                    most if is_strict else max(most, before[dimension])
                ):
                    return False
        return True


def numbers_of(tasks: Iterable[TaskInfo]) -> dict[str, int]:
    """The number of each task in its job or group, by which it belongs to a segment."""
    return {
        task.uid: position if task.index is None else task.index
        for position, task in enumerate(in_task_order(tasks))
    }


def is_ordinary(task: TaskInfo) -> bool:
    return task.priority_class_name != CRITICAL and task.namespace != "kube-system"


def matches(selector: LabelSelector | None, task: TaskInfo) -> bool:
    if selector is None:
        return False
    assert not selector.match_expressions
    return all(task.labels.get(key) == value for key, value in selector.match_labels.items())


@frozen(eq=False)
class _Trial:
    """Places tasks one by one, with all ways to go on."""

    question: Question
    is_strict: bool
    leaving: list[Placed]
    there: list[Placed]
    mine: list[Placed]

    def place(self, tasks: Sequence[TaskInfo]) -> bool:
        """Try all places of the first task with all places of the others."""
        if not tasks:
            return True
        task, *others = tasks
        for node in self.question.snapshot.nodes:
            if not self.accepts(node, task):
                continue
            for devices in self.devices(node, task):
                placed = Placed(task, node, devices)
                self.there.append(placed)
                self.mine.append(placed)
                if self.are_together() and self.place(others):
                    return True
                self.there.pop()
                self.mine.pop()
        return False

    def accepts(self, node: NodeInfo, task: TaskInfo) -> bool:
        here = [each.task for each in self.there if each.node is node]
        ports = {port.port for each in here for port in each.host_ports}
        return (
            not node.unschedulable
            and (node.max_tasks is None or len(here) < node.max_tasks)
            and all(
                sum(each.resreq.get(name) for each in here) + amount <= node.allocatable.get(name)
                for name, amount in task.resreq.dimensions()
                if amount
            )
            and all(node.labels.get(key) == value for key, value in task.node_selector.items())
            and all(any(t.key == taint.key for t in task.tolerations) for taint in node.taints)
            and not ports & {port.port for port in task.host_ports}
            and self.is_apart(node, task)
            and self.is_near(node, task)
        )

    def is_apart(self, node: NodeInfo, task: TaskInfo) -> bool:
        """Whether no anti-affinity is violated.

        In a wider domain than a node, only who leaves this node makes room: see Kubernetes.
        """
        others = [*self.there, *(each for each in self.leaving if each.node is not node)]
        for other in others:
            for one, two in ((task, other.task), (other.task, task)):
                for term in () if one.pod_anti_affinity is None else one.pod_anti_affinity.required:
                    mine = node.labels.get(term.topology_key)
                    is_here = other.node.labels.get(term.topology_key) == mine
                    if matches(term.selector, two) and mine is not None and is_here:
                        return False
        return True

    def is_near(self, node: NodeInfo, task: TaskInfo) -> bool:
        """Whether required affinity is met; the first of its kind may be anywhere.

        Whether also where there is no label: earlier versions of Kubernetes say yes.
        """
        terms = () if task.pod_affinity is None else task.pod_affinity.required
        if not terms:
            return True
        near = [
            each for each in self.there if all(matches(term.selector, each.task) for term in terms)
        ]
        values = [
            {each.node.labels.get(term.topology_key) for each in near} - {None} for term in terms
        ]
        if not any(values):
            has_labels = all(term.topology_key in node.labels for term in terms)
            return all(matches(term.selector, task) for term in terms) and (
                has_labels or not self.is_strict
            )
        return all(
            node.labels.get(term.topology_key) in some
            for term, some in zip(terms, values, strict=True)
        )

    def devices(self, node: NodeInfo, task: TaskInfo) -> Iterator[tuple[DevicePick, ...]]:
        """All ways to serve a task's claims on a node."""
        if not task.claims:
            yield ()
            return
        (claim,) = task.claims
        (request,) = claim.requests
        free: list[Device] = []
        for device in node.devices:
            used = [
                pick
                for each in self.there
                if each.node is node
                for pick in each.devices
                if pick.device == device.key
            ]
            if serves(device, request, used):
                free.append(device)
        for some in combinations(free, int(request.count)):
            yield tuple(
                DevicePick(
                    claim=claim.name,
                    request=request.name,
                    device=device.key,
                    amounts={"milli": int(request.capacity.get("milli", 1000))}  # type: ignore[arg-type]
                    if device.shared
                    else None,
                )
                for device in some
            )

    def are_together(self) -> bool:
        """Whether the job's tasks are in the domains that it asks for."""
        job = self.question.claimant
        if not self.in_domains(job.topology, self.mine, job.tasks):
            return False
        return all(
            self.in_domains(
                group.topology,
                [each for each in self.mine if each.task.group == group.name],
                [task for task in job.tasks if task.group == group.name],
            )
            for group in job.groups
        )

    def in_domains(
        self, request: TopologyRequest | None, placed: Sequence[Placed], tasks: Iterable[TaskInfo]
    ) -> bool:
        if request is None:
            return True
        if request.required is not None and not self.is_one(request, request.required, placed):
            return False
        number = numbers_of(tasks)
        for segment in request.segments:
            parts: dict[int, list[Placed]] = {}
            for each in placed:
                parts.setdefault(number[each.task.uid] // segment.size, []).append(each)
            if not all(self.is_one(request, segment.level, part) for part in parts.values()):
                return False
        return True

    def is_one(self, request: TopologyRequest, level: str, placed: Sequence[Placed]) -> bool:
        keys: Sequence[str] = [level]
        if request.topology is not None:
            topology = next(
                t for t in self.question.snapshot.topologies if t.name == request.topology
            )
            keys = topology.levels[: topology.levels.index(level) + 1]
        domains = {tuple(each.node.labels.get(key) for key in keys) for each in placed}
        return len(domains) <= 1 and all(None not in domain for domain in domains)


# What happens


def broken_law(snapshot: Snapshot, actions: str, *, plain: bool = False) -> str | None:
    """Say in words what is not as it should be; None: the law holds, or does not speak of this.

    Raises:
        NotAsked: the law does not speak of this.
    """
    claimant = claimant_of(snapshot)
    expect_in_scope(snapshot, claimant)
    question = Question(snapshot, claimant, tuple(actions.split(",")))
    answer = question.answer()
    decides = scheduler(actions, plain=plain)
    mine = {task.uid for task in claimant.tasks}
    state = snapshot
    has_evicted = False
    for number in range(CYCLES):
        try:
            result = decides.schedule(state)
        except Exception as error:
            return f"raises {type(error).__name__}"
        for_it = [each for each in result.evictions if each.for_task_uid in mine]
        has_evicted = has_evicted or bool(for_it)
        if answer is Answer.CANNOT and for_it:
            return "evicts in vain"
        if not number and any(e.task_uid not in question.movable(e.action) for e in for_it):
            return "evicts who may not go"
        state = next_snapshot(state, result, now=state.now + 1)
        job = state.job(claimant.uid)
        if runs(job, (task for task in job.tasks if task.status in THERE)):
            return "runs though it cannot" if answer is Answer.CANNOT else None
    if answer is Answer.MUST:
        return "never runs"
    return "evicts, and never runs" if has_evicted else None
