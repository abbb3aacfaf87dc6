"""Random clusters that live for many cycles, and the laws that are watched while they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import le
from random import Random
from typing import Any
from unittest.mock import patch

from attrs import evolve, field, mutable

from batchsched import (
    Arguments,
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    Statement,
    TaskInfo,
    TaskStatus,
    default_registry,
)
from batchsched.action import Fit
from batchsched.live import (
    Cluster,
    Event,
    JobArrived,
    JobRemoved,
    NodeChanged,
    NodeRemoved,
    TaskFailed,
    TaskGone,
    TaskSucceeded,
    TimePassed,
)
from batchsched.plugin import NodeSet, NodeState, TaskState
from tests.support.books import closed

GIB = 1 << 30
EVENTS = (*[TaskSucceeded] * 6, TaskFailed, TaskGone, "not_started", *[None] * 11)
HELD = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING)


def size(units: float) -> Resource:
    return Resource(milli_cpu=int(units * 1000), memory=int(units * GIB))


def random_job(random: Random, name: str, queues: list[str], now: float) -> JobInfo:
    count = random.choice((1, 1, 2, 3, 4))
    request = random.choice((0.5, 1, 1, 2, 2, 3, 4))
    tasks = []
    for number in range(count):
        units = request if random.random() < 0.8 else random.choice((0, 1, 3))
        needs = units + 0.5 if units and random.random() < 0.1 else None
        tasks.append(
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                resreq=size(units),
                init_resreq=None if needs is None else size(needs),
                priority=random.choice((1, 1, 5)),
                creation_time=now,
            )
        )
    return JobInfo(
        name=name,
        queue=random.choice(queues),
        min_available=random.choice((count, count, 1)),
        priority=random.choice((0, 0, 10)),
        creation_time=now,
        tasks=tasks,
    )


def random_actions(random: Random) -> list[dict[str, Any]]:
    allocate: dict[str, Any] = {
        "unready": random.choice(("hold", "discard")),
        "evictBackfill": random.choice((True, False)),
    }
    if random.random() < 0.3:
        allocate["starvationThreshold"] = random.choice((0, 2, 5))
    backfill: dict[str, Any] = {
        "strategy": random.choice(("best-effort", "release", "release", "displace"))
    }
    reserve = {
        "starvingJobTimeThreshold": random.choice((0, 1, 3)),
        "reservedNodePercent": random.choice((0, 25, 50, 100)),
        "inOrder": random.choice((True, False)),
    }
    actions = [
        {"name": "allocate", "arguments": allocate},
        {"name": "backfill", "arguments": backfill},
        {"name": "reserve", "arguments": reserve},
    ]
    actions += [
        {"name": name, "arguments": {}} for name in ("preempt", "reclaim") if random.random() < 0.4
    ]
    if random.random() < 0.3:
        random.shuffle(actions)
    return actions


def random_configuration(random: Random) -> dict[str, Any]:
    plugins = ["priority", "gang", "drf", "predicates", "proportion", "nodeorder"]
    if random.random() < 0.4:
        plugins.remove("proportion")
    if random.random() < 0.3:
        plugins.remove("drf")
    tiers = [{"plugins": plugins}]
    if random.random() < 0.5:
        tiers = [{"plugins": plugins[:2]}, {"plugins": plugins[2:]}]
    return {
        "actions": random_actions(random),
        "tiers": [{"plugins": [{"name": name} for name in tier["plugins"]]} for tier in tiers],
    }


def random_nodes(random: Random) -> list[NodeInfo]:
    return [
        NodeInfo(
            name=f"n{number}",
            allocatable=size(random.choice((2, 4, 4, 6))),
            max_tasks=random.choice((None, None, None, 3)),
        )
        for number in range(random.randint(1, 4))
    ]


@mutable
class History:
    """A cluster that lives: random arrivals, ends, failures, evictions and changes of nodes."""

    random: Random
    configuration: dict[str, Any] = field(init=False)
    scheduler: Scheduler = field(init=False)
    cluster: Cluster = field(init=False)
    number: int = 0

    def __attrs_post_init__(self) -> None:
        random = self.random
        self.configuration = random_configuration(random)
        self.scheduler = Scheduler(SchedulerConfig.from_mapping(self.configuration))
        queues = ["q0", "q1"][: random.choice((1, 1, 2))]
        self.cluster = Cluster(
            nodes=random_nodes(random),
            queues=[Queue(name=name, weight=random.choice((1, 3))) for name in queues],
            jobs=self._arrivals(queues, 0, random.randint(1, 4)),
        )

    @property
    def snapshot(self) -> Snapshot:
        return self.cluster.snapshot()

    def _arrivals(self, queues: list[str], now: float, count: int) -> list[JobInfo]:
        jobs = []
        for _ in range(count):
            self.number += 1
            jobs.append(random_job(self.random, f"j{self.number:03}", queues, now))
        return jobs

    def live(self, cycles: int, watch: Callable[[Session, str], None]) -> None:
        """Run cycles action by action, calling `watch` after each of them, and let time pass."""
        registry = default_registry()
        for _ in range(cycles):
            session = self.scheduler.open(self.snapshot)
            watch(session, "open")
            for option in self.scheduler.config.actions:
                factory = registry.action_factory(option.name)
                assert factory is not None
                session.action_name = option.name
                factory(Arguments(option.arguments)).execute(session)
                watch(session, option.name)
            result = closed(session)
            watch(session, "close")
            assert result == self.scheduler.schedule(self.snapshot)
            self.go_on(result)

    def go_on(self, result: CycleResult) -> None:
        """Let the decisions take effect, and something happen."""
        random = self.random
        snapshot = self.snapshot
        now = snapshot.now + 1
        not_started: list[str] = []
        still_releasing: list[str] = []
        events: list[Event] = []
        lost = random.choice(snapshot.nodes).name if random.random() < 0.05 else None
        removed: list[Event] = []
        for job in snapshot.jobs:
            ended = 0
            for task in job.tasks:
                outcome = result.tasks.get(task.uid)
                status = outcome.status if outcome else task.status
                node_name = outcome.node_name if outcome else task.node_name
                if node_name == lost and status.holds and status is not TaskStatus.ALLOCATED:
                    events.append(random.choice((TaskSucceeded, TaskFailed, TaskGone))(task.uid))
                    if status is TaskStatus.RELEASING:
                        still_releasing.append(task.uid)
                elif status is TaskStatus.RELEASING:
                    if random.random() < 0.3:
                        still_releasing.append(task.uid)
                elif status in HELD:
                    event = random.choice(EVENTS)
                    if event == "not_started":
                        if status is not TaskStatus.RUNNING:
                            not_started.append(task.uid)
                    elif event is not None:
                        events.append(event(task.uid))
                elif status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED):
                    ended += 1
            if ended == len(job.tasks) or random.random() < 0.01:
                removed.append(JobRemoved(job.uid))
        if lost is not None and len(snapshot.nodes) > 1:
            events.append(NodeRemoved(lost))
        elif random.random() < 0.1:
            changed = random.choice(snapshot.nodes)
            events.append(NodeChanged(evolve(changed, unschedulable=not changed.unschedulable)))
        queues = [queue.name for queue in snapshot.queues]
        arrivals = self._arrivals(queues, now, random.choice((0, 1, 1, 2)))
        self.cluster.carry_out(
            result,
            not_started=not_started,
            still_releasing=still_releasing,
            keep_reservations=random.random() < 0.9,
            at_once=True,
        )
        self.cluster.apply(TimePassed(now), *events, *removed, *map(JobArrived, arrivals))


def state_of(session: Session) -> dict[str, Any]:
    """Everything that a discarded statement must leave as it was, plugins' shares included."""
    ledger = session.ledger
    pending = [
        task
        for job in session.jobs.values()
        for task in job.tasks
        if task.status is TaskStatus.PENDING
    ]
    return {
        "nodes": [
            (
                *(node.name, node.idle, node.releasing, node.pipelined, node.backfilled),
                *(node.leaving, node.conditional, node.reserved, node.divergence_count, node.ports),
                *(node.scoring_milli_cpu, node.scoring_memory),
                *(frozenset(node.tasks), frozenset(node.reserved_tasks)),
            )
            for node in ledger.nodes
        ],
        "tasks": {
            uid: (task.status, task.node, task.is_backfill) for uid, task in ledger.tasks.items()
        },
        "jobs": {
            uid: (
                *(
                    list(job.counts),
                    list(job.counted),
                    job.backfilling,
                    frozenset(job.allocated or ()),
                ),
                *(job.has_bind, session.plugins.job_order_key(job)),
            )
            for uid, job in ledger.jobs.items()
            if job.in_session
        },
        "queues": {
            name: (session.plugins.queue_order_key(queue), session.plugins.overused(queue))
            for name, queue in ledger.queues.items()
        },
        "decisions": (list(session.binds), list(session.evictions)),
        "choices": {
            task.uid: [session.placement.best(task, fit) for fit in Fit] for task in pending[:3]
        },
    }


def check_books(session: Session, _action: str) -> None:
    session.check()
    for node in session.nodes:
        assert all(map(le, node.reserved, node.allocatable)), node


@contextmanager
def no_node_takes_others_while_reserved() -> Iterator[None]:
    """Watch every placement: on a node that is closed, only its own Reserved tasks may start."""

    # A job's own reservations are taken back before its tasks are placed, so what was
    # reserved in this session has to be noted when it happens.
    reserved_here: set[tuple[str, str]] = set()

    def is_own(task: TaskState, node: NodeState) -> bool:
        info = task.info
        if info.status is TaskStatus.RESERVED and info.node_name == node.name:
            return True
        if (task.uid, node.name) in reserved_here:
            return True
        return all(other.job is task.job for other in node.reserved_tasks.values())

    def checked(placing: Callable[..., None]) -> Callable[..., None]:
        def place(self: Any, task: TaskState, node: NodeState, **more: Any) -> None:
            assert task.is_best_effort or not node.is_closed or is_own(task, node), (task, node)
            placing(self, task, node, **more)

        return place

    def noted(reserving: Callable[..., None]) -> Callable[..., None]:
        def reserve(self: Any, task: TaskState, node: NodeState) -> None:
            reserving(self, task, node)
            reserved_here.add((task.uid, node.name))

        return reserve

    with ExitStack() as stack:
        for owner in (Session, Statement):
            for name in ("allocate", "pipeline", "promise"):
                stack.enter_context(patch.object(owner, name, checked(getattr(owner, name))))
            stack.enter_context(patch.object(owner, "reserve", noted(owner.reserve)))
        yield


@contextmanager
def discarding_leaves_no_trace() -> Iterator[list[int]]:
    """Compare the session before each statement with the session after it was discarded."""
    before: dict[int, dict[str, Any]] = {}
    counted = [0]
    begin, discard = Session.statement, Statement.discard

    def statement(
        self: Session, *, is_trial: bool = False, within: NodeSet | None = None
    ) -> Statement:
        state = state_of(self)
        opened = begin(self, is_trial=is_trial, within=within)
        before[id(opened)] = state
        return opened

    def discarded(self: Statement) -> None:
        was_used = len(self) > 0
        discard(self)
        if was_used:
            counted[0] += 1
            assert state_of(self._session) == before[id(self)]

    with (
        patch.object(Session, "statement", statement),
        patch.object(Statement, "discard", discarded),
    ):
        yield counted
