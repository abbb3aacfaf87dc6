"""Clusters that live: random events and cycles, and what a plain loop makes of each event."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import evolve

from batchsched import (
    HostPort,
    JobInfo,
    LabelSelector,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Queue,
    Requirement,
    Resource,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    Toleration,
    TolerationOperator,
    Topology,
    WeightedPodTerm,
    decayed,
    sum_resources,
)
from batchsched.live import (
    BindRefused,
    EndedJobsRemoved,
    Event,
    EvictionRefused,
    JobArrived,
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    OtherTaskArrived,
    QueueAdded,
    QueueChanged,
    QueueRemoved,
    TaskFailed,
    TaskGone,
    TaskReleasing,
    TaskRemoved,
    TasksAdded,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
    TopologiesChanged,
)

GIB = 1 << 30
ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def apply_plainly(snapshot: Snapshot, event: Event) -> Snapshot:
    """What the event makes of a snapshot, by looking at everything."""
    match event:
        case TimePassed(now):
            return evolve(snapshot, now=now, queues=_used(snapshot, now))
        case JobArrived(job):
            return evolve(snapshot, jobs=[*snapshot.jobs, job])
        case JobRemoved(uid):
            return evolve(snapshot, jobs=[job for job in snapshot.jobs if job.uid != uid])
        case EndedJobsRemoved():
            return evolve(
                snapshot,
                jobs=[
                    job
                    for job in snapshot.jobs
                    if not job.tasks or any(task.status not in ENDED for task in job.tasks)
                ],
            )
        case JobChanged(uid):
            given = {name: getattr(event, name) for name in ("priority", "queue", "min_available")}
            changes = {name: value for name, value in given.items() if value is not None}
            return _with_job(snapshot, uid, lambda job: evolve(job, **changes))
        case TasksAdded(uid, tasks):
            return _with_job(snapshot, uid, lambda job: evolve(job, tasks=[*job.tasks, *tasks]))
        case OtherTaskArrived(task):
            return evolve(snapshot, other_tasks=[*snapshot.other_tasks, task])
        case NodeAdded(node):
            return evolve(snapshot, nodes=[*snapshot.nodes, node])
        case NodeChanged(node):
            others = [other for other in snapshot.nodes if other.name != node.name]
            return evolve(snapshot, nodes=[*others, node])
        case NodeRemoved(name):
            return evolve(
                snapshot,
                nodes=[node for node in snapshot.nodes if node.name != name],
                topologies=[_without(topology, name) for topology in snapshot.topologies],
            )
        case TopologiesChanged(topologies):
            return evolve(snapshot, topologies=topologies)
        case QueueAdded(queue):
            return evolve(snapshot, queues=[*snapshot.queues, queue])
        case QueueChanged(queue):
            others = [other for other in snapshot.queues if other.name != queue.name]
            return evolve(snapshot, queues=[*others, queue])
        case QueueRemoved(name):
            return evolve(snapshot, queues=[q for q in snapshot.queues if q.name != name])
        case _:
            return _with_task(snapshot, event)


def _without(topology: Topology, name: str) -> Topology:
    left = [
        evolve(domain, nodes=[each for each in domain.nodes if each != name])
        for domain in topology.domains
    ]
    return evolve(topology, domains=left)


def _used(snapshot: Snapshot, now: float) -> list[Queue]:
    """The queues after some time in which everybody has held what they hold."""

    def held(within: str, user: str | None) -> Resource:
        parents = {queue.name: queue.parent for queue in snapshot.queues}
        found = []
        for job in snapshot.jobs:
            path = [job.queue]
            while parents.get(path[-1]) is not None:
                path.append(parents[path[-1]])
            if within in path and user in (None, job.user):
                found += [t.resreq for t in job.tasks if t.status.occupies and not t.is_backfill]
        return sum_resources(found)

    def after(usage: Resource, held: Resource, queue: Queue) -> Resource:
        return decayed(usage, held, now - snapshot.now, half_life=queue.usage_half_life)

    def one(queue: Queue) -> Queue:
        if not queue.usage_half_life:
            return queue
        users = {job.user for job in snapshot.jobs if job.queue == queue.name}
        users |= set(queue.usage_by_user)
        by_user = {
            user: after(queue.usage_by_user.get(user, Resource()), held(queue.name, user), queue)
            for user in users
        }
        return evolve(
            queue,
            usage=after(queue.usage, held(queue.name, None), queue),
            usage_by_user={user: used for user, used in by_user.items() if used != Resource()},
        )

    return [one(queue) for queue in snapshot.queues]


def _with_job(snapshot: Snapshot, uid: str, change: Any) -> Snapshot:
    jobs = [change(job) if job.uid == uid else job for job in snapshot.jobs]
    return evolve(snapshot, jobs=jobs)


def _with_task(snapshot: Snapshot, event: Any) -> Snapshot:
    def changed(tasks: tuple[TaskInfo, ...], *, comes_back: bool) -> list[TaskInfo]:
        after = (
            _after(task, event, snapshot.now, comes_back=comes_back)
            if task.uid == event.uid
            else task
            for task in tasks
        )
        return [task for task in after if task is not None]

    return evolve(
        snapshot,
        jobs=[evolve(job, tasks=changed(job.tasks, comes_back=True)) for job in snapshot.jobs],
        other_tasks=changed(snapshot.other_tasks, comes_back=False),
    )


def _after(task: TaskInfo, event: Event, now: float, *, comes_back: bool) -> TaskInfo | None:
    if isinstance(event, TaskGone | TaskSucceeded | TaskFailed) and task.start_time is not None:
        attained = task.attained_service + now - task.start_time
        task = evolve(task, attained_service=attained)
    new = evolve(
        task, status=TaskStatus.PENDING, node_name=None, is_backfill=False, start_time=None
    )
    match event:
        case TaskStarted() | EvictionRefused():
            return evolve(task, status=TaskStatus.RUNNING)
        case BindRefused():
            return new
        case TaskGone():
            return new if comes_back else None
        case TaskSucceeded():
            return evolve(task, status=TaskStatus.SUCCEEDED, node_name=None, start_time=None)
        case TaskFailed():
            return evolve(task, status=TaskStatus.FAILED, node_name=None, start_time=None)
        case TaskReleasing():
            return evolve(task, status=TaskStatus.RELEASING)
        case _:
            assert isinstance(event, TaskRemoved)
            return None


def events_to_build(snapshot: Snapshot) -> list[Event]:
    """What makes this of a cluster that has nothing, in any order."""
    return [
        *(NodeAdded(node) for node in snapshot.nodes),
        *(QueueAdded(queue) for queue in snapshot.queues),
        TopologiesChanged(snapshot.topologies),
        *(JobArrived(job) for job in snapshot.jobs),
        *(OtherTaskArrived(task) for task in snapshot.other_tasks),
        TimePassed(snapshot.now),
    ]


def events_to_change(before: Snapshot, after: Snapshot) -> list[Event]:
    """What makes one cluster of another. Time has to go on from one to the other."""
    return [
        *(JobRemoved(job.uid) for job in before.jobs),
        *(TaskRemoved(task.uid) for task in before.other_tasks),
        *(NodeRemoved(node.name) for node in before.nodes),
        *(QueueRemoved(queue.name) for queue in before.queues),
        *events_to_build(after),
    ]


class Life:
    """Draws clusters and what happens to them."""

    def __init__(self, seed: int, *, plain: bool = False) -> None:
        self.random = Random(seed)
        self.plain = plain
        """Whether tasks ask for cpu and memory only."""
        self._number = 0

    def _chance(self, part: float) -> bool:
        return self.random.random() < part

    def start(self) -> Snapshot:
        random = self.random
        return Snapshot(
            nodes=[self.node(number) for number in random.sample(range(40), random.randint(1, 6))],
            queues=[
                Queue(name=name, weight=random.choice((1, 3)))
                for name in ("a", "b", "c")[: random.randint(1, 3)]
            ],
            jobs=[self.job(0) for _ in range(random.randint(0, 5))],
        )

    def node(self, number: int) -> NodeInfo:
        random = self.random
        return NodeInfo(
            name=f"n{number:02}",
            allocatable=Resource(
                milli_cpu=random.choice((2000, 4000, 8000)),
                memory=random.choice((4, 8)) * GIB,
                scalars={"gpu": 2000} if self._chance(0.3) and not self.plain else {},
            ),
            max_tasks=random.choice((None, None, 3, 6)),
            labels={"zone": random.choice("xyz"), "host": f"n{number:02}"},
            taints=(
                (Taint(key="a", value="b", effect=TaintEffect.NO_SCHEDULE),)
                if self._chance(0.1)
                else ()
            ),
            unschedulable=self._chance(0.1),
        )

    def request(self) -> Resource:
        random = self.random
        return Resource(
            milli_cpu=random.choice((0, 500, 1000, 1000, 2000, 3000)),
            memory=random.choice((0, 1, 1, 2, 3)) * GIB,
            scalars={"gpu": 1000} if self._chance(0.1) and not self.plain else {},
        )

    def tasks(self, name: str, count: int, now: float) -> list[TaskInfo]:
        random = self.random
        request = self.request()
        constraints = {} if self.plain else self._constraints(name)
        return [
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                resreq=request if self._chance(0.8) else self.request(),
                priority=random.choice((1, 1, 5)),
                creation_time=now,
                **constraints,
            )
            for number in range(count)
        ]

    def _constraints(self, name: str) -> dict[str, Any]:
        random = self.random
        made: dict[str, Any] = {"labels": {"app": random.choice("uvw")}}
        if self._chance(0.15):
            made["node_selector"] = {"zone": random.choice("xyz")}
        if self._chance(0.2):
            made["tolerations"] = (Toleration(key="a", operator=TolerationOperator.EXISTS),)
        if self._chance(0.1):
            made["host_ports"] = (HostPort(port=random.choice((80, 81))),)
        term = PodAffinityTerm(
            topology_key=random.choice(("zone", "host")),
            selector=LabelSelector(match_labels={"app": random.choice("uvw")}),
        )
        if self._chance(0.08):
            made["pod_anti_affinity"] = PodAffinity(required=[term])
        elif self._chance(0.08):
            made["pod_affinity"] = PodAffinity(
                required=[term] if self._chance(0.5) else [],
                preferred=[WeightedPodTerm(weight=3, term=term)],
            )
        if self._chance(0.08):
            made["node_affinity"] = NodeAffinity(
                preferred=[
                    PreferredNodeTerm(
                        weight=random.choice((1, 5)),
                        term=NodeSelectorTerm(
                            match_expressions=[
                                Requirement(
                                    key="zone", operator=Operator.IN, values=[random.choice("xyz")]
                                )
                            ]
                        ),
                    )
                ]
            )
        return made

    def name(self) -> str:
        self._number += 1
        return f"{self.random.choice('jk')}{self._number:03}"

    def job(self, now: float) -> JobInfo:
        random = self.random
        name = self.name()
        count = random.choice((0, 1, 1, 2, 3, 4))
        return JobInfo(
            name=name,
            queue=random.choice("aaabbc?"),
            min_available=random.choice((count, count, 1, count + 1, 0)),
            priority=random.choice((0, 0, 10)),
            creation_time=now,
            tasks=self.tasks(name, count, now),
        )

    def events(self, snapshot: Snapshot) -> list[Event]:
        """What happens next: each of these on its own would be sound, and they go together."""
        random = self.random
        now = snapshot.now + random.choice((0, 1, 5))
        happened: list[Event] = [JobArrived(self.job(now)) for _ in range(random.choice((0, 1, 2)))]
        for job in snapshot.jobs:
            if self._chance(0.04):
                happened.append(JobRemoved(job.uid))
                continue
            if self._chance(0.05):
                happened.append(
                    JobChanged(
                        job.uid,
                        priority=random.choice((None, 0, 10)),
                        queue=random.choice((None, "a", "b", "?")),
                        min_available=random.choice((None, 0, 1, 2)),
                    )
                )
            if self._chance(0.05):
                happened.append(TasksAdded(job.uid, self.tasks(self.name(), 2, now)))
            for task in job.tasks:
                event = self._of_task(task)
                if event is not None:
                    happened.append(event)
        if self._chance(0.1):
            happened.append(self._other_task(snapshot, now))
        for task in snapshot.other_tasks:
            event = self._of_task(task)
            if event is not None and not isinstance(event, BindRefused | EvictionRefused):
                happened.append(event)
        arrived_on = {
            event.task.node_name for event in happened if isinstance(event, OtherTaskArrived)
        }
        happened += self._of_nodes(snapshot, arrived_on)
        happened += self._of_queues(snapshot)
        if self._chance(0.1):
            happened.append(EndedJobsRemoved())
        return [*happened, TimePassed(now)]

    def _other_task(self, snapshot: Snapshot, now: float) -> Event:
        (task,) = self.tasks(self.name(), 1, now)
        if not snapshot.nodes:
            return TimePassed(now)
        node = self.random.choice(snapshot.nodes).name
        return OtherTaskArrived(evolve(task, status=TaskStatus.RUNNING, node_name=node))

    def _of_task(self, task: TaskInfo) -> Event | None:
        choices: list[type[Any]] = []
        if task.status.holds and task.status is not TaskStatus.UNKNOWN:
            choices += [TaskSucceeded, TaskSucceeded, TaskFailed, TaskGone]
        if task.status in (TaskStatus.BINDING, TaskStatus.BOUND):
            choices += [TaskStarted, TaskStarted, BindRefused]
        if task.status is TaskStatus.RUNNING:
            choices.append(TaskReleasing)
        if task.status is TaskStatus.RELEASING:
            choices += [EvictionRefused, TaskGone]
        if self._chance(0.03):
            choices.append(TaskRemoved)
        if not choices or not self._chance(0.2):
            return None
        event: Event = self.random.choice(choices)(task.uid)
        return event

    def _of_nodes(self, snapshot: Snapshot, needed: set[str | None]) -> list[Event]:
        random = self.random
        happened: list[Event] = []
        if self._chance(0.15):
            number = random.randrange(40)
            if f"n{number:02}" not in {node.name for node in snapshot.nodes}:
                happened.append(NodeAdded(self.node(number)))
        used = needed | {
            task.node_name
            for tasks in (*(job.tasks for job in snapshot.jobs), snapshot.other_tasks)
            for task in tasks
            if task.status.holds
        }
        for node in snapshot.nodes:
            if self._chance(0.05):
                happened.append(NodeChanged(evolve(node, unschedulable=not node.unschedulable)))
            elif self._chance(0.03):
                labels = {**node.labels, "zone": random.choice("xyz")}
                happened.append(NodeChanged(evolve(node, labels=labels)))
            elif self._chance(0.03):
                more = node.allocatable + Resource(milli_cpu=1000, memory=GIB)
                happened.append(NodeChanged(evolve(node, allocatable=more, max_tasks=None)))
            elif self._chance(0.03):
                # Some devices fail, say: the node may be overcommitted then.
                less = Resource(milli_cpu=1000, memory=GIB)
                happened.append(NodeChanged(evolve(node, allocatable=less)))
            elif node.name not in used and self._chance(0.1):
                happened.append(NodeRemoved(node.name))
        return happened

    def _of_queues(self, snapshot: Snapshot) -> list[Event]:
        happened: list[Event] = []
        names = [queue.name for queue in snapshot.queues]
        for queue in snapshot.queues:
            if self._chance(0.05):
                weight = self.random.choice((1, 2, 3))
                happened.append(QueueChanged(evolve(queue, weight=weight)))
            elif self._chance(0.02):
                happened.append(QueueRemoved(queue.name))
        happened += [
            QueueAdded(Queue(name=name))
            for name in "abc"
            if name not in names and self._chance(0.3)
        ]
        return happened

    def some(self, uids: list[str], part: float) -> list[str]:
        return [uid for uid in uids if self._chance(part)]
