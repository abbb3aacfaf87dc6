"""Tiny clusters of all features, often two of them together, for laws that try everything.

At most 4 nodes, 5 running jobs, and one job of at most 3 tasks that waits and is the most
important. It deserves all there is, so that any unit of another queue is on loan.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import evolve, frozen

from batchsched import (
    HostPort,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PodAffinity,
    PodAffinityTerm,
    Preemptible,
    Queue,
    Resource,
    ResourceLimit,
    Segment,
    Snapshot,
    Taint,
    TaintEffect,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Toleration,
    Topology,
    TopologyRequest,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest

MOST_NODES, MOST_RUNNING, MOST_WAITING = 4, 5, 3
CRITICAL = "system-node-critical"

FEATURES = (
    *("racks", "segments", "wishes", "devices", "shared", "ports", "slots", "affinity"),
    *("apart", "queues", "tree", "limits", "priorities", "elastic", "protection", "runtimes"),
    *("selectors", "taints", "groups", "sizes", "home", "rival", "leaving", "lost", "critical"),
)


def world(random: Random, only: Sequence[str] = FEATURES) -> tuple[Snapshot, frozenset[str]]:
    """Draw a cluster, and the features that it was to have."""
    count = random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
    features = frozenset(random.sample(only, min(count, len(only))))
    return _Drawing(random, features).snapshot(), features


@frozen(eq=False)
class _Drawing:
    random: Random
    features: frozenset[str]

    def has(self, *names: str) -> bool:
        return any(name in self.features for name in names)

    def often(self, *names: str, times: int = 2) -> bool:
        """Whether a feature is there, and once in so many times."""
        return self.has(*names) and self.random.randrange(times) == 0

    def snapshot(self) -> Snapshot:
        random = self.random
        nodes = [self.node(number) for number in range(random.randint(1, MOST_NODES))]
        queues = self.queues()
        leaves = [q.name for q in queues if q.name not in {each.parent for each in queues}]
        jobs = self.running(nodes, leaves)
        jobs.append(self.claimant(nodes, jobs))
        if self.has("rival"):
            task = TaskInfo(uid="rival-0", name="rival-0", priority=2, resreq=size(1))
            jobs.append(JobInfo(name="rival", queue="a", priority=2, tasks=[task]))
        return Snapshot(
            nodes=nodes,
            queues=queues,
            jobs=jobs,
            topologies=[Topology("net", ["block", "rack"])],
            now=100.0,
        )

    def node(self, number: int) -> NodeInfo:
        random = self.random
        name = f"n{number}"
        cpus = random.choice((1, 1, 2, 2, 3))
        labels = {"host": name}
        if random.randrange(12):
            labels["block"] = random.choice(("b0", "b0", "b1"))
        if random.randrange(12):
            labels["rack"] = random.choice(("r0", "r1"))
        if self.often("selectors"):
            labels["disk"] = "ssd"
        devices: list[Device] = []
        if self.has("devices", "shared"):
            for position in range(random.choice((0, 1, 1, 2, 2, 3))):
                shared = self.often("shared") or not self.has("devices")
                devices.append(
                    Device(
                        name=f"g{position}",
                        attributes={"model": random.choice("AB")},
                        capacity={"milli": 1000},
                        shared=shared,
                    )
                )
        gpus = {"gpu": 1000 * len(devices)} if devices and not self.has("shared") else {}
        return NodeInfo(
            name=name,
            allocatable=Resource(milli_cpu=1000 * cpus, scalars=gpus),
            labels=labels,
            max_tasks=random.randint(1, 3) if self.often("slots") else None,
            taints=[Taint(key="team", effect=TaintEffect.NO_SCHEDULE)]
            if self.often("taints")
            else [],
            unschedulable=self.often("selectors", times=8),
            devices=devices,
        )

    def queues(self) -> list[Queue]:
        random = self.random
        mine: dict[str, Any] = {}
        other: dict[str, Any] = {}
        if self.has("limits"):
            mine["limit"] = ResourceLimit(milli_cpu=1000 * random.randint(1, 4))
        if self.has("runtimes"):
            mine["preempt_min_runtime"] = random.choice((None, 60.0))
            other["reclaim_min_runtime"] = random.choice((None, 60.0))
        if self.often("protection", times=4):
            other["reclaimable"] = False
        if self.has("tree"):
            return [
                Queue(name="p", deserved=None),
                Queue(name="a", parent="p", deserved=None, **mine),
                Queue(name="b", parent="p", **other),
                Queue(name="c"),
            ]
        if self.has("queues", "protection", "runtimes", "limits") or random.randrange(2):
            return [Queue(name="a", deserved=None, **mine), Queue(name="b", **other)]
        return [Queue(name="a", deserved=None, **mine)]

    def task(self, uid: str, node: NodeInfo | None, priority: int, free: Free) -> TaskInfo | None:
        """A task that runs on a node, as far as there is room; on None: one that waits."""
        random = self.random
        more: dict[str, Any] = {}
        cpus = random.choice((1, 1, 2)) if self.has("sizes") else 1
        gpus = 0
        if self.has("devices", "shared") and random.randrange(2):
            request = DeviceRequest(
                name="r",
                count=random.choice((1, 1, 1, 2)),
                select=[f'device.attributes[""].model == "{random.choice("AB")}"']
                if random.randrange(3) == 0
                else [],
                capacity={"milli": random.choice((300, 500))} if self.often("shared") else {},
            )
            gpus = 0 if self.has("shared") else int(request.count)
            more["claims"] = [DeviceClaim(name="c", requests=[request])]
            if node is not None:
                picks = free.devices(node, request)
                if picks is None:
                    return None
                more["devices"] = picks
        if self.often("ports"):
            more["host_ports"] = [HostPort(port=80)]
        if self.has("affinity", "apart"):
            more["labels"] = {"app": random.choice("xy")}
        if self.often("affinity", times=2 if node is None else 6):
            more["pod_affinity"] = near(random.choice("xy"), random.choice(("host", "block")))
        if self.often("apart", times=2 if node is None else 4):
            more["pod_anti_affinity"] = near(random.choice("xy"), random.choice(("host", "block")))
        if node is None and self.often("selectors"):
            more["node_selector"] = {"disk": "ssd"}
        if self.often("taints") or (node is not None and node.taints):
            more["tolerations"] = [Toleration(key="team")]
        if node is not None and self.often("critical", times=4):
            more["priority_class_name"] = CRITICAL
        task = TaskInfo(
            uid=uid,
            name=uid,
            priority=priority,
            resreq=Resource(milli_cpu=1000 * cpus, scalars={"gpu": 1000 * gpus} if gpus else {}),
            status=TaskStatus.PENDING if node is None else TaskStatus.RUNNING,
            node_name=None if node is None else node.name,
            **more,
        )
        if node is not None and not free.take(node, task):
            return None
        return task

    def running(self, nodes: Sequence[NodeInfo], leaves: Sequence[str]) -> list[JobInfo]:
        random, free = self.random, Free(nodes)
        jobs: list[JobInfo] = []
        for number in range(random.choice((1, 3, 4, 5, MOST_RUNNING))):
            choices = (0, 0, 1, 1, 9, 10) if self.has("priorities") else (1, 1, 1, 1, 1, 9)
            priority = random.choice(choices)
            tasks: list[TaskInfo] = []
            for position in range(random.choice((1, 1, 2, 3))):
                name = f"j{number}-{position}"
                for node in random.sample(nodes, len(nodes)):
                    task = self.task(name, node, priority, free)
                    if task is not None:
                        tasks.append(task)
                        break
            if not tasks:
                continue
            if self.has("runtimes"):
                began = random.choice((0.0, 95.0))
                tasks = [evolve(task, start_time=began) for task in tasks]
            if self.often("leaving", times=4) and priority < 9:
                tasks = [evolve(task, status=TaskStatus.RELEASING) for task in tasks]
            jobs.append(
                JobInfo(
                    name=f"j{number}",
                    queue=random.choice(leaves),
                    priority=priority,
                    creation_time=float(number),
                    min_available=random.randint(1, len(tasks))
                    if self.has("elastic")
                    else len(tasks),
                    preemptible=random.choice((Preemptible.NEVER, Preemptible.SURPLUS))
                    if self.often("protection", times=3)
                    else Preemptible.ALWAYS,
                    tasks=tasks,
                )
            )
        return jobs

    def claimant(self, nodes: Sequence[NodeInfo], jobs: Sequence[JobInfo]) -> JobInfo:
        random = self.random
        count = random.choice((1, 2, 2, MOST_WAITING))
        if self.has("segments", "groups", "home", "lost"):
            count = max(2, count)
        tasks: list[TaskInfo] = []
        for position in range(count):
            task = self.task(f"k-{position}", None, 9, Free(nodes))
            assert task is not None
            tasks.append(task)
        if random.randrange(3):  # often they are alike
            tasks = [evolve(tasks[0], uid=task.uid, name=task.name) for task in tasks]
        least = random.randint(1, count) if self.has("elastic") else count
        more: dict[str, Any] = {}
        if self.has("groups"):
            cut = random.randint(1, count - 1)
            tasks = [
                evolve(task, group="g" if position < cut else "h")
                for position, task in enumerate(tasks)
            ]
            more["groups"] = [
                TaskGroup("g", min=cut, topology=self.request(cut)),
                TaskGroup("h", min=count - cut, topology=self.request(count - cut)),
            ]
            least = count
            if random.randrange(2):
                more["topology"] = self.request(count, whole=True)
        else:
            more["topology"] = self.request(count)
        if self.has("lost") and not self.has("groups"):
            tasks = [
                evolve(task, index=p + random.randrange(2)) if p else evolve(task, index=0)
                for p, task in enumerate(tasks)
            ]
            if len({task.index for task in tasks}) < count:
                tasks = [evolve(task, index=position) for position, task in enumerate(tasks)]
        if self.has("home") and least > 1:
            free = Free(nodes)
            for job in jobs:
                for task in job.tasks:
                    free.take(next(n for n in nodes if n.name == task.node_name), task)
            node = random.choice(nodes)
            first = evolve(tasks[-1], status=TaskStatus.RUNNING, node_name=node.name)
            if first.claims:
                picks = free.devices(node, first.claims[0].requests[0])
                first = evolve(first, devices=picks)
            fits = not first.claims or first.devices is not None
            if fits and free.take(node, first):
                tasks[-1] = first
        return JobInfo(
            name="k",
            queue="a",
            priority=9,
            creation_time=50.0,
            min_available=least,
            tasks=tasks,
            **more,
        )

    def request(self, count: int, *, whole: bool = False) -> TopologyRequest | None:
        random = self.random
        if self.has("segments") and count > 1:
            return TopologyRequest(
                "net",
                required=random.choice((None, "block")),
                segments=[Segment(2, random.choice(("rack", "rack", "block")))],
            )
        if self.often("wishes", times=1 if not self.has("racks") else 2):
            return random.choice(
                (
                    TopologyRequest("net", preferred="rack"),
                    TopologyRequest("net", required="block", preferred="rack"),
                    TopologyRequest("net", preferred="rack", balanced=True),
                )
            )
        if not self.has("racks"):
            return None
        level = "block" if whole else random.choice(("rack", "rack", "block"))
        return random.choice(
            (TopologyRequest("net", required=level), TopologyRequest(required=level))
        )


class Free:
    """What is free on nodes while a cluster is drawn."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        self.tasks: dict[str, list[TaskInfo]] = {node.name: [] for node in nodes}

    def devices(self, node: NodeInfo, request: DeviceRequest) -> tuple[DevicePick, ...] | None:
        free: list[Device] = []
        for device in node.devices:
            used = [
                pick
                for task in self.tasks[node.name]
                for pick in task.devices or ()
                if pick.device == device.key
            ]
            if serves(device, request, used):
                free.append(device)
        if len(free) < int(request.count):
            return None
        return tuple(
            DevicePick(
                claim="c",
                request="r",
                device=device.key,
                amounts={"milli": int(request.capacity.get("milli", 1000))}  # type: ignore[arg-type]
                if device.shared
                else None,
            )
            for device in free[: int(request.count)]
        )

    def take(self, node: NodeInfo, task: TaskInfo) -> bool:
        """Put a task on a node if there is room."""
        there = self.tasks[node.name]
        if node.max_tasks is not None and len(there) >= node.max_tasks:
            return False
        if task.host_ports and any(each.host_ports for each in there):
            return False
        for name, amount in task.resreq.dimensions():
            if sum(each.resreq.get(name) for each in there) + amount > node.allocatable.get(name):
                return False
        there.append(task)
        return True


def near(app: str, key: str) -> PodAffinity:
    selector = LabelSelector(match_labels={"app": app})
    return PodAffinity(required=[PodAffinityTerm(selector=selector, topology_key=key)])


def size(cpus: int) -> Resource:
    return Resource(milli_cpu=1000 * cpus)


def serves(device: Device, request: DeviceRequest, used: Sequence[DevicePick]) -> bool:
    if request.select and device.attributes.get("model") != model_of(request):
        return False
    if not device.shared:
        return not used and ("milli" not in request.capacity or "milli" in device.capacity)
    if any(pick.amounts is None for pick in used):
        return False
    taken = sum(pick.amounts["milli"] for pick in used if pick.amounts is not None)
    return taken + request.capacity.get("milli", 1000) <= 1000  # type: ignore[operator]


def model_of(request: DeviceRequest) -> str:
    (text,) = request.select
    assert isinstance(text, str)
    return text.rpartition(" == ")[2].strip('"')
