"""A cluster as an API server shows it: a fake one, with messages that are late, lost or doubled.

It keeps books of its own: which task runs where, and what each node has left.
"""

from __future__ import annotations

from random import Random

from attrs import define, evolve, field

from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo, TaskStatus
from batchsched.live import Deleted, Seen

CPU = Resource(milli_cpu=1000)
KINDS = ("queue", "node", "job", "task")


@define(eq=False)
class ApiServer:
    """Objects, what happens to them, and the messages about it."""

    random: Random
    faulty: bool = True
    version: int = 0
    tasks: dict[str, TaskInfo] = field(factory=dict)
    job_of: dict[str, str] = field(factory=dict)
    jobs: dict[str, JobInfo] = field(factory=dict)
    nodes: dict[str, NodeInfo] = field(factory=dict)
    queues: dict[str, Queue] = field(factory=dict)
    versions: dict[tuple[str, str], str] = field(factory=dict)
    outbox: list[tuple[int, Seen | Deleted]] = field(factory=list)
    """Messages under way, with the cycle in which they arrive."""
    calls: list[tuple[int, str, str, str]] = field(factory=list)
    """Binds and evictions under way: cycle, what, task, node."""
    cycle: int = 0
    made: int = 0
    finished: set[str] = field(factory=set)
    rejected: int = 0
    """How many tasks a node could not take, as it was full."""

    # Books

    def used(self, node: str) -> int:
        return sum(
            task.resreq.milli_cpu
            for task in self.tasks.values()
            if task.node_name == node and task.status.holds
        )

    def is_oversubscribed(self) -> bool:
        return any(
            self.used(name) > node.allocatable.milli_cpu for name, node in self.nodes.items()
        )

    # Messages

    def publish(self, kind: str, name: str) -> None:
        self.version += 1
        version = self.versions[kind, name] = str(self.version)
        table = getattr(self, f"{kind}s")
        if name in table:
            message: Seen | Deleted = Seen(table[name], version, job=self.job_of.get(name, ""))
        else:
            message = Deleted(kind, name, version)  # type: ignore[arg-type]
        if not self.faulty:
            self.outbox.append((self.cycle, message))
            return
        if self.random.random() < 0.03:
            return  # lost, until the next list of all
        for _ in range(1 if self.random.random() < 0.8 else 2):
            late = self.random.choice((0, 0, 0, 1, 2, 5))
            self.outbox.append((self.cycle + late, message))

    def arrived(self) -> list[Seen | Deleted]:
        here = [message for at, message in self.outbox if at <= self.cycle]
        self.outbox = [each for each in self.outbox if each[0] > self.cycle]
        if self.faulty:
            self.random.shuffle(here)
        return here

    def listed(self, kind: str) -> list[Seen]:
        return [
            Seen(item, self.versions[kind, name], job=self.job_of.get(name, ""))
            for name, item in getattr(self, f"{kind}s").items()
        ]

    # What happens

    def put(self, kind: str, name: str, item: object) -> None:
        getattr(self, f"{kind}s")[name] = item
        self.publish(kind, name)

    def drop(self, kind: str, name: str) -> None:
        del getattr(self, f"{kind}s")[name]
        self.publish(kind, name)

    def submit(self, job: JobInfo, count: int) -> None:
        self.put("job", job.uid, job)
        for _ in range(count):
            self.create(job.uid)

    def create(self, job: str) -> str:
        self.made += 1
        uid = f"uid-{self.made:06}"
        self.job_of[uid] = job
        self.put("task", uid, TaskInfo(uid=uid, name=uid, resreq=CPU))
        return uid

    def replace(self, uid: str) -> None:
        """Delete a task; its controller makes another one in its place."""
        self.drop("task", uid)
        if self.job_of[uid] in self.jobs:
            self.create(self.job_of[uid])

    def ask(self, what: str, uid: str, node: str = "") -> None:
        late = self.random.choice((0, 0, 1, 1, 3, 12)) if self.faulty else 0
        if not self.faulty or self.random.random() > 0.05:  # else the request is lost
            self.calls.append((self.cycle + late, what, uid, node))

    def work(self) -> None:
        """Let a cycle pass: carry out requests, start what is bound, end and lose some."""
        self.cycle += 1
        due = [call for call in self.calls if call[0] <= self.cycle]
        self.calls = [call for call in self.calls if call[0] > self.cycle]
        for _, what, uid, node in due:
            task = self.tasks.get(uid)
            if task is None:
                continue
            if what == "bind" and task.status is TaskStatus.PENDING and node in self.nodes:
                self.put("task", uid, evolve(task, status=TaskStatus.BOUND, node_name=node))
            elif what == "evict" and task.status.occupies:
                self.put("task", uid, evolve(task, status=TaskStatus.RELEASING))
        for uid, task in list(self.tasks.items()):
            chance = self.random.random()
            if task.node_name is not None and task.node_name not in self.nodes:
                if chance < 0.3:
                    self.replace(uid)  # as the controllers of lost nodes do
            elif task.status is TaskStatus.BOUND and chance < 0.7:
                node = self.nodes[task.node_name or ""]
                if self.used(node.name) > node.allocatable.milli_cpu:
                    self.rejected += 1
                    self.replace(uid)
                else:
                    self.put("task", uid, evolve(task, status=TaskStatus.RUNNING))
            elif task.status is TaskStatus.RELEASING and chance < 0.6:
                self.replace(uid)
            elif task.status is TaskStatus.RUNNING and chance < 0.12:
                self.put("task", uid, evolve(task, status=TaskStatus.SUCCEEDED, node_name=None))
        for uid in list(self.jobs):
            members = [each for each, job in self.job_of.items() if job == uid]
            left = [self.tasks[each] for each in members if each in self.tasks]
            if left and all(task.status.ended for task in left):
                self.finished.add(uid)
                self.drop("job", uid)
                for task in left:
                    self.drop("task", task.uid)
                for each in members:
                    del self.job_of[each]
