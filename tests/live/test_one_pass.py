"""The pass over small plain clusters decides what the library decides, and hands over to it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.nightly import IS_NIGHTLY

from batchsched import (
    CycleResult,
    Hold,
    HoldKind,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    ScoringRequest,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
)
from batchsched.live import (
    Cluster,
    Event,
    JobArrived,
    JobChanged,
    JobRemoved,
    NodeAdded,
    NodeChanged,
    NodeRemoved,
    OtherTaskArrived,
    QueueAdded,
    QueueChanged,
    TaskRemoved,
    TaskStarted,
    TaskSucceeded,
    TimePassed,
    one_pass,
)
from batchsched.model.immutable import LaterMap

GPU = "nvidia.com/gpu"


def amounts(cpu: int, memory: int = 0, gpus: int = 0) -> Resource:
    return Resource(milli_cpu=cpu, memory=memory, scalars={GPU: gpus * 1000} if gpus else {})


REQUESTS = (
    amounts(1000, 1 << 30),
    amounts(2000, 1 << 30, 1),
    amounts(4000, 8 << 30, 2),
    amounts(0, 4 << 30),
    amounts(500),
    amounts(3000, 2 << 30, 3),
)
FOREIGN: tuple[Callable[[JobInfo], JobInfo], ...] = (
    lambda job: evolve(job, min_available=max(1, len(job.tasks) - 1)),
    lambda job: _with_tasks(job, node_selector={"zone": "z1"}),
    lambda job: _with_tasks(job, resreq=Resource()),
    lambda job: _with_tasks(job, init_resreq=amounts(8000, 16 << 30, 4)),
    lambda job: _with_tasks(job, resreq=Resource(milli_cpu=1000, scalars={"fpga": 1000})),
    lambda job: evolve(job, holds=[Hold(HoldKind.GATE, "g")]),
    lambda job: evolve(job, queue="nowhere"),
    lambda job: evolve(job, tasks=()),
    lambda job: evolve(job, min_available=len(job.tasks) + 1),
    lambda job: evolve(job, max_available=len(job.tasks)),
)


def _with_tasks(job: JobInfo, **values: object) -> JobInfo:
    return evolve(job, tasks=[evolve(task, **values) for task in job.tasks])


class PlainLife:
    """A small plain cluster, with what comes and goes, over the border of what is plain too."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self._count = 0
        self.crosses = random.random() < 0.6
        self.requests = random.sample(REQUESTS, random.randint(1, 3))
        self.cluster = Cluster(
            nodes=[self.node(f"n{number}") for number in range(random.randint(1, 5))],
            queues=[
                Queue(
                    name=f"q{number}",
                    weight=random.choice((0, 1, 1, 2, 3)) if number else 1,
                    priority=random.choice((0, 0, 0, 1)),
                    creation_time=random.choice((0, 1)),
                )
                for number in range(random.randint(1, 3))
            ],
        )

    def node(self, name: str) -> NodeInfo:
        random = self.random
        return NodeInfo(
            name=name,
            allocatable=amounts(
                random.choice((4000, 8000)), random.choice((8, 16)) << 30, random.choice((0, 2, 4))
            ),
            max_tasks=random.choice((None, None, 3, 6)),
        )

    def job(self) -> JobInfo:
        random = self.random
        name = f"j{self._count:03}"
        self._count += 1
        request = random.choice(self.requests)
        scoring = random.choice((None, None, ScoringRequest(700, 3 << 30)))
        size = random.choice((1, 1, 1, 2, 3, 5))
        return JobInfo(
            name=name,
            queue=random.choice(sorted(self.cluster.content.queues)),
            priority=random.choice((0, 0, 0, 1)),
            creation_time=random.choice((0, self.cluster.now)),
            min_available=size,
            tasks=[
                TaskInfo(
                    uid=f"{name}-{number}",
                    name=random.choice((f"{name}-{number}", "worker")),
                    resreq=request,
                    scoring_request=scoring,
                    priority=random.choice((1, 1, 2)),
                    creation_time=random.choice((0, 0, 1)),
                )
                for number in range(size)
            ],
        )

    def events(self) -> list[Event]:
        random, content = self.random, self.cluster.content
        found: list[Event] = [TimePassed(self.cluster.now + 1)]
        found += [JobArrived(self.job()) for _ in range(random.randint(0, 4))]
        bound = [u for u in content.unsettled if content.tasks[u].status is TaskStatus.BOUND]
        found += [TaskStarted(uid) for uid in bound if random.random() < 0.6]
        for uid, job in sorted(content.jobs.items()):
            tasks = [content.tasks[member] for member in content.members[uid]]
            running = [task.uid for task in tasks if task.status is TaskStatus.RUNNING]
            draw = random.random()
            if draw < 0.1 or (draw < 0.7 and job.queue == "nowhere"):
                found.append(JobRemoved(uid))
            elif draw < 0.3 and len(running) == len(tasks):
                found += [TaskSucceeded(task) for task in running]
            elif draw < 0.33 and self.crosses and len(tasks) > 1 and not running:
                found += [TaskRemoved(task.uid) for task in tasks[:1] if not task.node_name]
            elif draw < 0.36:
                found.append(JobChanged(uid, priority=random.randint(0, 2)))
        if self.crosses:
            found += self._crossing()
        return found

    def _crossing(self) -> list[Event]:
        random, content = self.random, self.cluster.content
        found: list[Event] = []
        if random.random() < 0.2:
            found.append(JobArrived(random.choice(FOREIGN)(self.job())))
        if random.random() < 0.08:
            taint = Taint(key="t", value="v", effect=TaintEffect.NO_SCHEDULE)
            node = random.choice(sorted(content.nodes.values(), key=lambda node: node.name))
            others = (
                evolve(node, unschedulable=not node.unschedulable),
                evolve(node, taints=() if node.taints else [taint]),
                evolve(node, allocatable=amounts(2000, 16 << 30, 4)),
            )
            found.append(NodeChanged(random.choice(others)))
        if random.random() < 0.05:
            self._count += 1
            found.append(NodeAdded(self.node(f"m{self._count}")))
        elif random.random() < 0.1:
            idle = [name for name in sorted(content.nodes) if name not in content.on_node]
            found += [NodeRemoved(name) for name in idle[1:2]]
            return found
        if random.random() < 0.05:
            queue = content.queues[min(content.queues)]
            limits = (evolve(queue, weight=3), evolve(queue, deserved=amounts(2000)))
            found.append(QueueChanged(random.choice(limits)))
        elif random.random() < 0.03:
            self._count += 1
            found.append(QueueAdded(Queue(name=f"r{self._count}")))
        if random.random() < 0.05:
            task = TaskInfo(uid=f"o{self._count}", name="other", resreq=amounts(500))
            self._count += 1
            node = random.choice(sorted(content.nodes))
            found.append(OtherTaskArrived(evolve(task, status=TaskStatus.RUNNING, node_name=node)))
        elif content.others and random.random() < 0.6:
            other = content.tasks[min(content.others)]
            ends = TaskRemoved if other.status.ended else TaskSucceeded
            found.append(ends(other.uid))
        return found


def is_of_a_pass(result: CycleResult) -> bool:
    return isinstance(result.jobs, LaterMap)


def live_through(seed: int, cycles: int = 14) -> int:
    """Compare all cycles of a life with cycles from scratch; return how many were passes."""
    life = PlainLife(seed)
    cluster, random = life.cluster, Random(seed + 1)
    scheduler = Scheduler(plain={"cycles"})
    live = Scheduler().attach(cluster)
    reads_at_once = random.choice((0.0, 0.1))
    at_once = random.random() < 0.7
    told: list[tuple[CycleResult, CycleResult]] = []
    for _ in range(cycles):
        cluster.apply(*life.events())
        if random.random() < 0.1:
            with cluster.trial():
                cluster.apply(JobArrived(life.job()))
                tried = live.schedule(reasons=False)
                assert tried.binds == scheduler.schedule(cluster.snapshot(), reasons=False).binds
        before = cluster.snapshot()
        if random.random() < 0.05:
            assert live.schedule() == scheduler.schedule(before)
        result = live.schedule(reasons=False)
        expected = scheduler.schedule(before, reasons=False)
        assert result.binds == expected.binds
        assert live.schedule(reasons=False) is result
        told.append((result, expected))
        if random.random() < reads_at_once:
            assert result == expected
        if random.random() < 0.9:
            cluster.carry_out(result, at_once=at_once)
        assert cluster.snapshot() == Cluster(cluster.snapshot()).snapshot()
    now = cluster.snapshot()
    for result, expected in told:
        assert result == expected
        assert expected == result
        assert result.full() == expected.full()
        assert str(result.queues) == str(expected.queues)
        assert set(expected.changed_jobs) <= set(result.jobs)
        assert pickle.loads(pickle.dumps(result)) == expected
    assert cluster.snapshot() == now
    return sum(is_of_a_pass(result) for result, _ in told)


def live_through_some(seeds: Iterable[int]) -> list[int]:
    return [live_through(seed) for seed in seeds]


@settings(max_examples=30)
@given(st.integers(0, 1 << 32))
def test_a_pass_decides_and_tells_what_a_cycle_does_over_the_border_of_what_is_plain(
    seed: int,
) -> None:
    live_through(seed)


def test_lives_cross_the_border() -> None:
    passes = live_through_some(range(12))
    assert max(passes) == 14
    assert any(0 < count < 14 for count in passes)


def of_gpus(name: str, queue: str, gpus: int) -> JobInfo:
    task = TaskInfo(uid=name, name=name, resreq=amounts(1000, gpus=gpus))
    return JobInfo(name=name, queue=queue, min_available=1, tasks=[task])


def test_devices_are_shared_in_whole_units() -> None:
    """With shares in thousandths of devices, other jobs would start."""
    cluster = Cluster(
        nodes=[NodeInfo(name="n", allocatable=amounts(100_000, gpus=4))],
        queues=[Queue(name=f"q{number}", weight=weight) for number, weight in enumerate((1, 3, 2))],
    )
    live = Scheduler().attach(cluster)
    asked = (("q0", 2), ("q0", 1), ("q1", 1), ("q1", 3), ("q0", 1), ("q2", 3), ("q1", 2))
    jobs = [of_gpus(f"j{number}", queue, gpus) for number, (queue, gpus) in enumerate(asked)]
    cluster.apply(*map(JobArrived, jobs))
    result = live.schedule(reasons=False)
    assert is_of_a_pass(result)
    assert [bind.task_uid for bind in result.binds] == ["j2", "j0", "j1"]
    assert result == Scheduler(plain={"cycles"}).schedule(cluster.snapshot(), reasons=False)


def test_a_job_that_comes_again_may_ask_for_something_else() -> None:
    cluster = Cluster(
        nodes=[NodeInfo(name="n", allocatable=amounts(4000, gpus=3))], queues=[Queue(name="q")]
    )
    live = Scheduler().attach(cluster)
    cluster.apply(JobArrived(of_gpus("j", "q", 4)))
    assert not live.schedule(reasons=False).binds
    cluster.apply(JobRemoved("default/j"), JobArrived(of_gpus("j", "q", 3)))
    result = live.schedule(reasons=False)
    assert is_of_a_pass(result)
    assert [bind.task_uid for bind in result.binds] == ["j"]


def test_jobs_of_unlike_tasks_are_for_the_library() -> None:
    cluster = Cluster(
        nodes=[NodeInfo(name="n", allocatable=amounts(4000, gpus=4))], queues=[Queue(name="q")]
    )
    live = Scheduler().attach(cluster)
    tasks = [*of_gpus("j", "q", 1).tasks, *of_gpus("k", "q", 4).tasks]
    cluster.apply(JobArrived(JobInfo(name="j", queue="q", min_available=2, tasks=tasks)))
    result = live.schedule(reasons=False)
    assert not is_of_a_pass(result)
    assert not result.binds


def test_a_node_that_holds_more_than_it_has_is_for_the_library() -> None:
    node = NodeInfo(name="n", allocatable=amounts(9000, gpus=4))
    cluster = Cluster(nodes=[node], queues=[Queue(name="q")])
    live = Scheduler().attach(cluster)
    cluster.apply(JobArrived(of_gpus("j", "q", 4)))
    cluster.carry_out(live.schedule(reasons=False), at_once=True)
    smaller = evolve(node, allocatable=amounts(9000, gpus=2))
    cluster.apply(NodeChanged(smaller), JobArrived(of_gpus("k", "q", 0)))
    result = live.schedule(reasons=False)
    assert not is_of_a_pass(result)
    assert [bind.task_uid for bind in result.binds] == ["k"]
    cluster.apply(JobRemoved("default/j"))
    assert is_of_a_pass(live.schedule(reasons=False))


def look_for_faults() -> None:
    test_devices_are_shared_in_whole_units()
    test_a_job_that_comes_again_may_ask_for_something_else()
    test_jobs_of_unlike_tasks_are_for_the_library()
    test_a_node_that_holds_more_than_it_has_is_for_the_library()
    live_through_some(range(200))


FAULTS = (
    ("return fill_up, -self", "return not fill_up, -self"),
    ("-self._priorities[queue], full", "self._priorities[queue], full"),
    ("held + fill_up * more, of", "held + more, of"),
    ("full = fullness([(held", "full = fullness([(2 * more + held"),
    ('attrgetter("creation_time", "name")', 'attrgetter("name")'),
    ('queues.sort(key=attrgetter("priority"), reverse=True)', "pass"),
    ("wanted[len(shares) :]", "wanted"),
    ("not self._foreign and not self._overfull", "not self._foreign"),
    (
        "(-info.priority, info.creation_time, info.uid)",
        "(info.priority, info.creation_time, info.uid)",
    ),
    ("(-info.priority, info.creation_time, info.uid)", "(-info.priority, 0, info.uid)"),
    ("too_many[job.kind] = job.size", "too_many[job.kind] = 1"),
    ("self._held[queue] = [*map(add, self._held[queue], job.request)]", "pass"),
    ("ranks[queue].clear()", "pass"),
    ("node.room -= sign", "node.room -= 0"),
    ("node.scoring_memory += sign * kind.scoring_memory", "pass"),
    ("for uid, position in sorted(places)", "for uid, position in places"),
    ("or self._content.others", ""),
    (" and not out_of_service(node) for", " for"),
    ("not waiting == least == count", "not waiting == count"),
    ('tasks.sort(key=attrgetter("priority"), reverse=True)', "pass"),
    ("!= asked or _of_task(task) != _USUAL_TASK", "!= asked"),
    ("if (task.resreq, task.scoring_request) != asked or _of", "if _of"),
    ("if old and old.kind.asked == asked else", "if old else"),
    ("1 if name in DIVISIBLE else WHOLE", "1"),
    ("queue is None or _of_job(info) != _USUAL_JOB", "queue is None"),
    ("changed: Iterable[int] = set(self._changed[kind.read :])", "changed: Iterable[int] = ()"),
    ("tasks[uid].display_name", "uid"),
)
"""What is changed in the source of the pass, and how."""
BY_DAY = ("self._held[queue] = ", "node.room -= sign", "ranks[queue].clear()")
"""The faults that are tried in each run; all are at night."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"), [each for each in FAULTS if IS_NIGHTLY or each[0].startswith(BY_DAY)]
)
def test_a_fault_in_any_of_its_rules_is_found(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(one_pass.__file__).read_text(encoding="utf-8")
    assert source.count(before) == 1
    faulty = ModuleType("faulty")
    exec(compile(source.replace(before, after), "faulty", "exec"), faulty.__dict__)
    monkeypatch.setattr(one_pass, "OnePass", faulty.OnePass)
    with pytest.raises(AssertionError):
        look_for_faults()
