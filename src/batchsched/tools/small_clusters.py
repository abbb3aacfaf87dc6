"""Small clusters on which most differences between configurations show.

`check_config` demonstrates its findings on them. Each has at most three jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from attrs import evolve

from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus
from batchsched.model.constraints import Taint, TaintEffect
from batchsched.model.resources import Resource, ResourceLimit
from batchsched.model.snapshot import Snapshot

_CPU = Resource(milli_cpu=1000, memory=1 << 30)
_OLD = 1_000_000.0


def _node(name: str, cpus: int, **more: object) -> NodeInfo:
    return NodeInfo(name=name, allocatable=cpus * _CPU, **more)  # type: ignore[arg-type]


def _job(
    name: str,
    *,
    queue: str = "q1",
    runs: str = "",
    waits: int = 0,
    size: int = 1,
    least: int = 1,
    priority: int = 0,
    created: float = 0.0,
) -> JobInfo:
    """Build a job with a running task on each of the named nodes, and waiting tasks."""
    running = [
        TaskInfo(
            uid=f"{name}-{number}",
            name=f"{name}-{number}",
            resreq=size * _CPU,
            status=TaskStatus.RUNNING,
            node_name=node,
            priority=priority,
        )
        for number, node in enumerate(runs.split())
    ]
    waiting = [
        TaskInfo(
            uid=f"{name}-{len(running) + number}",
            name=f"{name}-{len(running) + number}",
            resreq=size * _CPU,
            priority=priority,
        )
        for number in range(waits)
    ]
    return JobInfo(
        name=name,
        queue=queue,
        min_available=least,
        priority=priority,
        creation_time=created,
        tasks=running + waiting,
    )


def _snapshot(
    nodes: list[NodeInfo], jobs: list[JobInfo], *, weights: tuple[int, ...] = (1, 1)
) -> Snapshot:
    queues = [Queue(name=f"q{number}", weight=w) for number, w in enumerate(weights, 1)]
    return Snapshot(nodes=nodes, jobs=jobs, queues=queues, now=_OLD)


@lru_cache(maxsize=1)
def small_clusters() -> tuple[Snapshot, ...]:
    """Return the clusters in a fixed order."""
    tainted = Taint(key="maintenance", effect=TaintEffect.NO_SCHEDULE)
    best_effort = JobInfo(
        name="best", queue="q1", tasks=[TaskInfo(uid="best-0", name="best-0")], creation_time=2
    )
    critical = TaskInfo(
        uid="critical",
        name="critical",
        namespace="kube-system",
        resreq=_CPU,
        status=TaskStatus.RUNNING,
        node_name="n1",
        priority=-5,
    )
    return (
        # A task and a node that must not run it.
        _snapshot([_node("n1", 2, taints=(tainted,))], [_job("a", waits=1)]),
        # A gang that does not fit, beside one that does.
        _snapshot([_node("n1", 2)], [_job("a", waits=3, least=3), _job("b", waits=2, created=1)]),
        # Two nodes, one of them used.
        _snapshot([_node("n1", 4), _node("n2", 4)], [_job("a", runs="n1"), _job("b", waits=1)]),
        _snapshot([_node("n1", 4), _node("n2", 4)], [_job("a", runs="n2"), _job("b", waits=1)]),
        # Two waiting jobs: the second has a higher priority.
        _snapshot([_node("n1", 1)], [_job("a", waits=1), _job("b", waits=1, priority=9)]),
        # A job of higher priority, which is also shorter, arrives after another.
        _snapshot(
            [_node("n1", 1)],
            [
                evolve(_job("a", waits=1), estimate=100),
                evolve(_job("b", waits=1, priority=9, created=1), estimate=10),
            ],
        ),
        # A running job blocks a job of higher priority in the same queue.
        _snapshot([_node("n1", 1)], [_job("a", runs="n1"), _job("b", waits=1, priority=9)]),
        _snapshot(
            [_node("n1", 2)], [_job("a", runs="n1 n1"), _job("b", waits=1, priority=9, created=1)]
        ),
        # A job with many tasks competes with one with few.
        _snapshot([_node("n1", 6)], [_job("a", runs="n1 n1"), _job("b", runs="n1 " * 4, waits=1)]),
        _snapshot([_node("n1", 6)], [_job("a", runs="n1 n1", waits=1), _job("b", runs="n1 " * 4)]),
        _snapshot([_node("n1", 4)], [_job("a", runs="n1 " * 4), _job("b", waits=1, created=1)]),
        # The first job holds half of the node, and both want the rest.
        _snapshot(
            [_node("n1", 4)], [_job("a", runs="n1 n1", waits=2), _job("b", waits=2, created=1)]
        ),
        # A queue that holds nothing, and one that holds everything.
        _snapshot([_node("n1", 4)], [_job("a", runs="n1 " * 4), _job("b", queue="q2", waits=1)]),
        _snapshot(
            [_node("n1", 2)], [_job("a", runs="n1 n1", least=2), _job("b", queue="q2", waits=1)]
        ),
        _snapshot(
            [_node("n1", 4)], [_job("a", waits=4), _job("b", queue="q2", waits=4, created=1)]
        ),
        _snapshot(
            [_node("n1", 4)], [_job("a", waits=4), _job("b", queue="q2", waits=4)], weights=(1, 3)
        ),
        # The running task is a critical one of the system.
        _snapshot(
            [_node("n1", 2)],
            [
                JobInfo(name="a", queue="q1", min_available=0, tasks=[critical]),
                _job("b", waits=2, least=2, priority=9),
            ],
        ),
        # A large task has waited for very long; a small one can take its place.
        _snapshot(
            [_node("n1", 4), _node("n2", 4)],
            [_job("a", waits=1, size=4), _job("r", runs="n1 n2"), _job("s", waits=1, created=_OLD)],
            weights=(1,),
        ),
        # A best-effort task.
        _snapshot([_node("n1", 1)], [_job("a", runs="n1"), best_effort]),
        # A job with a running and a waiting task on a full node.
        _snapshot([_node("n1", 2)], [_job("a", runs="n1", waits=1), _job("b", runs="n1")]),
        # A queue without a share, which also waits for what it holds, and one with a share.
        _snapshot(
            [_node("n1", 1)],
            [_job("a", runs="n1"), _job("b", waits=1, priority=9), _job("c", queue="q2", waits=1)],
            weights=(0, 1),
        ),
    )


def _cpus(number: int) -> Resource:
    return Resource(milli_cpu=number * 1000)


def _most(number: int) -> ResourceLimit:
    return ResourceLimit(milli_cpu=number * 1000)


@lru_cache(maxsize=1)
def small_queue_trees() -> Mapping[str, tuple[Snapshot, ...]]:
    """Return clusters that show a problem of queues, by code of the rule or by field of `Queue`.

    Each has one node of 4 CPUs.
    """

    def full(*queues: Queue, jobs: list[JobInfo] | None = None) -> Snapshot:
        if jobs is None:
            inner = {queue.parent for queue in queues}
            jobs = [
                _job(f"j{number}", queue=queue.name, waits=4, created=number)
                for number, queue in enumerate(queues)
                if queue.name not in inner
            ]
        return Snapshot(nodes=[_node("n1", 4)], queues=queues, jobs=jobs, now=_OLD)

    one_waits = [_job("j", queue="b", waits=4)]
    half = Queue(name="x", limit=_most(2))
    below = [Queue(name=name, parent="x", deserved=_cpus(2)) for name in ("x1", "x2")]
    return {
        "parent": (
            full(Queue(name="x"), *(evolve(q, deserved=_cpus(0)) for q in below), Queue(name="y")),
        ),
        "priority": (full(Queue(name="a"), Queue(name="b", priority=1)),),
        "guarantee": (full(Queue(name="a", guarantee=_cpus(3)), Queue(name="b"), jobs=one_waits),),
        "deserved": (full(Queue(name="a"), Queue(name="b", deserved=_cpus(3))),),
        "limit": (full(Queue(name="a", limit=_most(1))),),
        "JobOfInnerQueue": (
            full(
                Queue(name="x"), Queue(name="x1", parent="x"), jobs=[_job("j", queue="x", waits=1)]
            ),
        ),
        "DeservedBeyondLimit": (
            full(Queue(name="a", deserved=_cpus(4), limit=_most(2))),
            full(half, *below),
        ),
        "DeservedBeyondParent": (
            full(
                Queue(name="x"),
                Queue(name="x1", parent="x", deserved=_cpus(4)),
                Queue(name="y", weight=3),
            ),
        ),
        "GuaranteeBeyondDeserved": (
            full(
                Queue(name="a", guarantee=_cpus(3), deserved=_cpus(1)),
                Queue(name="b", deserved=_cpus(3)),
                jobs=one_waits,
            ),
        ),
        "GuaranteesBeyondCluster": (
            full(Queue(name="a", guarantee=_cpus(6)), Queue(name="b"), jobs=one_waits),
        ),
        "NoShare": (full(Queue(name="a", weight=0), Queue(name="b")),),
    }
