"""Clusters in which a gang is known to have room, because it was placed before others were.

Brute force decides only tiny clusters. Here a gang is first placed by chance as it asks to be, in
racks, in segments and with devices; then others take most of what is left; then some or all of its
tasks wait again. Its own places are free, or held by those who may be evicted for it: so it can
run, and it must, within some cycles. Its tasks are alike, and of tasks with devices, of which no
count says how many a domain holds, no more than one segment is short: no search has to be lucky.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from attrs import evolve, frozen

from batchsched import (
    JobInfo,
    NodeInfo,
    Preemptible,
    Queue,
    Resource,
    Segment,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Topology,
    TopologyRequest,
    next_snapshot,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from tests.support.possible import CYCLES, THERE, numbers_of, runs, scheduler

LEVELS = ("block", "rack")
EVICTING = ("allocate,preempt", "reclaim,allocate,preempt,backfill")
ORDERS = ("allocate", *EVICTING)
"""The actions under which it is asked."""
REQUESTS = (
    None,
    TopologyRequest("net", required="block"),
    TopologyRequest("net", required="rack"),
    TopologyRequest(required="rack"),
    TopologyRequest("net", preferred="rack"),
    TopologyRequest("net", preferred="rack", balanced=True),
    *(
        TopologyRequest("net", required=required, segments=[Segment(size, level)])
        for required in (None, "block")
        for size in (2, 3)
        for level in LEVELS
    ),
    *(
        TopologyRequest(
            "net", required=required, segments=[Segment(4, "block"), Segment(2, "rack")]
        )
        for required in (None, "block")
    ),
)
CLAIM = DeviceClaim(name="c", requests=[DeviceRequest(name="r")])
KEEPS = {"priority": 9, "preemptible": Preemptible.NEVER}
MAY_GO = {"priority": 1, "preemptible": Preemptible.ALWAYS}


@frozen
class Planted:
    """A cluster with room for a gang that waits, and the actions that are to start it."""

    snapshot: Snapshot
    gang: str
    actions: str

    def problem(self) -> str | None:
        """Say so if the gang does not run within some cycles; None: it does."""
        decides, state = scheduler(self.actions), self.snapshot
        for _ in range(CYCLES):
            state = next_snapshot(state, decides.schedule(state), now=state.now + 1)
            job = state.job(self.gang)
            if runs(job, (task for task in job.tasks if task.status in THERE)):
                return None
        return f"{self.gang} never runs, though there is room for it"


def planted(random: Random) -> Planted:
    """Draw a cluster."""
    while True:
        drawn = _Drawing(random).cluster()
        if drawn is not None:
            return drawn


class _Drawing:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.actions = random.choice(ORDERS)
        self.has_devices = random.randrange(3) == 0
        self.nodes = [
            self._node(f"n{block}{rack}{number}", f"b{block}", f"r{rack}")
            for block in range(random.choice((1, 2, 2)))
            for rack in range(random.choice((1, 2, 3)))
            for number in range(random.choice((1, 1, 2)))
        ]
        self.held: dict[str, list[TaskInfo]] = {node.name: [] for node in self.nodes}

    def _node(self, name: str, block: str, rack: str) -> NodeInfo:
        random = self.random
        return NodeInfo(
            name=name,
            allocatable=Resource(milli_cpu=1000 * random.randint(1, 4)),
            labels={"block": block, "rack": rack},
            max_tasks=random.choice((None, None, 2, 3)),
            devices=[Device(name=f"g{n}") for n in range(random.randint(1, 4))]
            if self.has_devices
            else [],
        )

    def cluster(self) -> Planted | None:
        random = self.random
        gang = self._gang()
        if gang is None:
            return None
        stays = random.choice((0, 0, 1, random.randrange(len(gang.tasks))))
        staying = set(random.sample([task.uid for task in gang.tasks], stays))
        others: list[JobInfo] = []
        tasks: list[TaskInfo] = []
        for task in gang.tasks:
            if task.uid in staying:
                tasks.append(evolve(task, status=TaskStatus.RUNNING))
                continue
            tasks.append(evolve(task, status=TaskStatus.PENDING, node_name=None, devices=None))
            if self.actions in EVICTING and random.randrange(2):
                others.append(self._other(len(others), task, **MAY_GO))
        for node in self.nodes:
            for _ in range(4):
                kind = MAY_GO if random.randrange(3) == 0 else KEEPS
                task = self._fits(self._task(f"o{len(others)}", random.choice((1, 1, 2))), node)
                if task is not None and random.randrange(6):
                    self.held[node.name].append(task)
                    others.append(self._other(len(others), task, **kind))
        jobs = [evolve(gang, tasks=tasks), *others]
        snapshot = Snapshot(
            nodes=self.nodes,
            queues=[Queue(name="a", deserved=None)],
            topologies=[Topology("net", LEVELS)],
            jobs=jobs,
            now=100.0,
        )
        return Planted(snapshot, gang.uid, self.actions)

    def _other(self, number: int, task: TaskInfo, **more: object) -> JobInfo:
        """Return a job of one task that holds what a task holds."""
        there = TaskInfo(
            uid=f"o{number}",
            name=f"o{number}",
            resreq=task.resreq,
            claims=task.claims,
            devices=task.devices,
            node_name=task.node_name,
            status=TaskStatus.RUNNING,
            priority=more["priority"],  # type: ignore[arg-type]
        )
        return JobInfo(name=f"o{number}", queue="a", tasks=[there], **more)  # type: ignore[arg-type]

    def _task(self, uid: str, cpus: int) -> TaskInfo:
        claims = [CLAIM] if self.has_devices and self.random.randrange(2) else []
        return TaskInfo(uid=uid, name=uid, resreq=Resource(milli_cpu=1000 * cpus), claims=claims)

    def _fits(self, task: TaskInfo, node: NodeInfo) -> TaskInfo | None:
        """Return the task as it is on the node beside others; None: there is no room."""
        there = self.held[node.name]
        used = {pick.device for each in there for pick in each.devices or ()}
        free = [each.key for each in node.devices if each.key not in used]
        cpu = sum(each.resreq.milli_cpu for each in there) + task.resreq.milli_cpu
        slots = node.max_tasks is None or len(there) < node.max_tasks
        if cpu > node.allocatable.milli_cpu or not slots or (task.claims and not free):
            return None
        picks = [DevicePick(claim="c", request="r", device=free[0])] if task.claims else None
        return evolve(task, node_name=node.name, devices=picks)

    # The gang

    def _gang(self) -> JobInfo | None:
        """Return a gang that is placed as it asks to be; None: none was found by chance."""
        random = self.random
        request = random.choice(REQUESTS)
        is_nested = request is not None and len(request.segments) > 1
        count = 4 if is_nested else random.randint(1, 7)
        like = evolve(self._task("k", random.choice((1, 1, 2))), priority=5)
        tasks = [evolve(like, uid=f"k{n}", name=f"k{n}") for n in range(count)]
        if random.randrange(2):
            holes = 0 if like.claims else random.randrange(3)
            numbers = random.sample(range(count + holes), count)
            tasks = [
                evolve(task, index=number) for task, number in zip(tasks, numbers, strict=True)
            ]
        for task, nodes in self._domains(tasks, request):
            places = [each for node in nodes if (each := self._fits(task, node)) is not None]
            if not places:
                return None
            place = random.choice(places)
            self.held[str(place.node_name)].append(place)
        placed = {task.uid: task for there in self.held.values() for task in there}
        return JobInfo(
            name="k",
            queue="a",
            priority=5,
            min_available=count,
            topology=request,
            tasks=[placed[task.uid] for task in tasks],
        )

    def _domains(
        self, tasks: Sequence[TaskInfo], request: TopologyRequest | None
    ) -> Iterator[tuple[TaskInfo, Sequence[NodeInfo]]]:
        """Yield each task with the nodes of a domain that was chosen for it and its segments."""
        number = numbers_of(tasks)
        segments = () if request is None else request.segments
        top = self._in_one(self.nodes, None if request is None else request.required)
        chosen: dict[tuple[int, ...], Sequence[NodeInfo]] = {}
        for task in tasks:
            nodes, path = top, ()
            for segment in segments:
                path = (*path, number[task.uid] // segment.size)
                if path not in chosen:
                    chosen[path] = self._in_one(nodes, segment.level)
                nodes = chosen[path]
            yield task, nodes

    def _in_one(self, nodes: Sequence[NodeInfo], level: str | None) -> Sequence[NodeInfo]:
        """Return the nodes of one of their domains of a level."""
        if level is None:
            return nodes
        keys = LEVELS[: LEVELS.index(level) + 1]
        domains: dict[tuple[str, ...], list[NodeInfo]] = {}
        for node in nodes:
            domains.setdefault(tuple(node.labels[key] for key in keys), []).append(node)
        return self.random.choice(list(domains.values()))
