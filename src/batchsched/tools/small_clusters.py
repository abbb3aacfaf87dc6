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
from batchsched.model.topology import TopologyRequest

_CPU = Resource(milli_cpu=1000, memory=1 << 30)
_OLD = 1_000_000
_TAINT = Taint(key="maintenance", effect=TaintEffect.NO_SCHEDULE)


def _fields(tokens: list[str]) -> dict[str, str]:
    return dict(token.split("=") for token in tokens if "=" in token)


def _job(text: str) -> JobInfo:
    """Build a job: ``a @n1 +2 size=4`` runs a task of 4 CPUs on n1 and waits with two others."""
    name, *tokens = text.split()
    given = _fields(tokens)
    places = [token[1:] for token in tokens if token[0] == "@"]
    waiting = sum(int(token) for token in tokens if token[0] == "+")
    priority = int(given.get("priority", 0))
    return JobInfo(
        name=name,
        queue=given.get("queue", "q1"),
        min_available=int(given.get("least", 1)),
        priority=priority,
        creation_time=float(given.get("created", 0)),
        estimate=float(given["estimate"]) if "estimate" in given else None,
        tasks=[
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                namespace=given.get("namespace", "default"),
                resreq=int(given.get("size", 1)) * _CPU,
                status=TaskStatus.RUNNING if node else TaskStatus.PENDING,
                node_name=node or None,
                start_time=_OLD if node and "estimate" in given else None,
                priority=priority,
            )
            for number, node in enumerate([*places, *[""] * waiting])
        ],
    )


def _queue(text: str) -> Queue:
    """Build a queue with amounts in CPUs, such as ``a parent=x limit=2``; use in CPU seconds."""
    name, *tokens = text.split()
    given = _fields(tokens)
    return Queue(
        name=name,
        parent=given.get("parent"),
        weight=int(given.get("weight", 1)),
        priority=int(given.get("priority", 0)),
        guarantee=Resource(milli_cpu=1000 * int(given.get("guarantee", 0))),
        deserved=Resource(milli_cpu=1000 * int(given.get("deserved", 0))),
        limit=ResourceLimit(milli_cpu=1000 * int(given["limit"])) if "limit" in given else None,
        usage=Resource(milli_cpu=1000 * int(given.get("usage", 0))),
    )


def _cluster(
    nodes: str, *jobs: str, queues: tuple[str, ...] = ("q1", "q2"), taints: tuple[Taint, ...] = ()
) -> Snapshot:
    """Build nodes of some CPUs, queues, and jobs."""
    return Snapshot(
        nodes=[
            NodeInfo(name=f"n{number}", allocatable=int(cpus) * _CPU, taints=taints)
            for number, cpus in enumerate(nodes.split(), 1)
        ],
        queues=map(_queue, queues),
        jobs=map(_job, jobs),
        now=_OLD,
    )


@lru_cache(maxsize=1)
def small_clusters() -> tuple[Snapshot, ...]:
    """Return the clusters in a fixed order."""
    return (
        # A task and a node that must not run it.
        _cluster("2", "a +1", taints=(_TAINT,)),
        # A gang that does not fit, beside one that does.
        _cluster("2", "a +3 least=3", "b +2 created=1"),
        # Two nodes, one of them used.
        _cluster("4 4", "a @n1", "b +1"),
        _cluster("4 4", "a @n2", "b +1"),
        # Two waiting jobs: the second has a higher priority.
        _cluster("1", "a +1", "b +1 priority=9"),
        # A job of higher priority, which is also shorter, arrives after another.
        _cluster("1", "a +1 estimate=100", "b +1 priority=9 created=1 estimate=10"),
        # A running job blocks a job of higher priority in the same queue.
        _cluster("1", "a @n1", "b +1 priority=9"),
        _cluster("2", "a @n1 @n1", "b +1 priority=9 created=1"),
        # A job with many tasks competes with one with few.
        _cluster("6", "a @n1 @n1", "b @n1 @n1 @n1 @n1 +1"),
        _cluster("6", "a @n1 @n1 +1", "b @n1 @n1 @n1 @n1"),
        _cluster("4", "a @n1 @n1 @n1 @n1", "b +1 created=1"),
        # The first job holds half of the node, and both want the rest.
        _cluster("4", "a @n1 @n1 +2", "b +2 created=1"),
        # A queue that holds nothing, and one that holds everything.
        _cluster("4", "a @n1 @n1 @n1 @n1", "b +1 queue=q2"),
        _cluster("2", "a @n1 @n1 least=2", "b +1 queue=q2"),
        _cluster("4", "a +4", "b +4 queue=q2 created=1"),
        _cluster("4", "a +4", "b +4 queue=q2", queues=("q1", "q2 weight=3")),
        # The running task is a critical one of the system.
        _cluster("2", "a @n1 least=0 namespace=kube-system priority=-5", "b +2 least=2 priority=9"),
        # A large task has waited for very long; a small one can take its place.
        _cluster("4 4", "a +1 size=4", "r @n1 @n2", f"s +1 created={_OLD}", queues=("q1",)),
        # A best-effort task.
        _cluster("1", "a @n1", "best +1 size=0 created=2"),
        # A job with a running and a waiting task on a full node.
        _cluster("2", "a @n1 +1", "b @n1"),
        # A queue without a share, which also waits for what it holds, and one with a share.
        _cluster("1", "a @n1", "b +1 priority=9", "c +1 queue=q2", queues=("q1 weight=0", "q2")),
        # A wide job waits for one that runs; a short one behind it would end before that.
        _cluster("2", "a @n1 estimate=100", "b +1 size=2 estimate=9", "c +1 created=1 estimate=9"),
        # room for a large task once one that runs has moved: by preemption, by claims
        _cluster("4 4", "a @n1", "b @n2", "c +1 size=4 priority=9"),
        _cluster(
            "4 4 4 4",
            "a @n1 @n1 @n1 @n1 @n2 @n2 @n2 @n2 @n3",
            "b @n4 queue=q2",
            "c +2 size=4 queue=q2",
        ),
    )


def _queues(*queues: str, jobs: tuple[str, ...] | None = None) -> Snapshot:
    """Build one node of 4 CPUs, and queues of which each leaf wants all of it, or such jobs."""
    if jobs is None:
        known = list(map(_queue, queues))
        inner = {queue.parent for queue in known}
        leaves = [(n, q.name) for n, q in enumerate(known) if q.name not in inner]
        jobs = tuple(f"j{number} +4 queue={name} created={number}" for number, name in leaves)
    return _cluster("4", *jobs, queues=queues)


@lru_cache(maxsize=1)
def small_queue_trees() -> Mapping[str, tuple[Snapshot, ...]]:
    """Return clusters that show a problem of queues, by code of the rule or by field of `Queue`."""
    one_waits = ("j +4 queue=b",)
    half_cordoned = [
        NodeInfo(name="n1", allocatable=5 * _CPU),
        NodeInfo(name="n2", allocatable=3 * _CPU, unschedulable=True),
    ]
    two_of_each = (
        "j1 @n1 @n1 +1 queue=a least=1",
        "j2 @n1 @n1 +8 queue=b least=1 created=1",
    )
    waits = _cluster("1 1", "j +2 least=2")
    in_two_racks = evolve(
        waits,
        nodes=[evolve(node, labels={"rack": node.name}) for node in waits.nodes],
        jobs=[evolve(job, topology=TopologyRequest(required="rack")) for job in waits.jobs],
    )
    return {
        "parent": (_queues("x", "x1 parent=x deserved=0", "x2 parent=x deserved=0", "y"),),
        "priority": (_queues("a", "b priority=1"),),
        "guarantee": (_queues("a guarantee=3", "b", jobs=one_waits),),
        "deserved": (_queues("a", "b deserved=3"),),
        "limit": (_queues("a limit=1"),),
        "JobOfInnerQueue": (_queues("x", "x1 parent=x", jobs=("j +1 queue=x",)),),
        "DeservedBeyondLimit": (
            _queues("a deserved=4 limit=2"),
            _queues("x limit=2", "x1 parent=x deserved=2", "x2 parent=x deserved=2"),
        ),
        "DeservedBeyondParent": (_queues("x", "x1 parent=x deserved=4", "y weight=3"),),
        "GuaranteeBeyondDeserved": (
            _queues("a guarantee=3 deserved=1", "b deserved=3", jobs=one_waits),
        ),
        "GuaranteesBeyondCluster": (_queues("a guarantee=6", "b", jobs=one_waits),),
        "GuaranteesLeaveTooLittle": (
            _queues("a guarantee=3", "b", jobs=("j +2 queue=b least=2",)),
        ),
        "CountsNodesOutOfService": (
            evolve(_queues("a", "b", jobs=two_of_each), nodes=half_cordoned),
        ),
        "TopologyNotRead": (in_two_racks,),
        "BrokenWaitForEachOther": (
            _cluster("2", "a @n1 +1 least=2", "b @n1 +1 least=2 created=1"),
        ),
        "PreemptsWhatSharesCover": (
            _queues(
                "a deserved=1",
                "b deserved=3",
                jobs=(
                    "low @n1 queue=a least=0",
                    "wide +1 size=2 priority=9 queue=a",
                    "r @n1 +1 size=2 queue=b least=1",
                ),
            ),
        ),
        "PastUseAfterShares": (
            _queues(
                "a usage=9000000",
                "b",
                "c",
                jobs=("past +1 queue=a", "j @n1 +1 queue=b least=1", "r @n1 @n1 queue=c least=1"),
            ),
        ),
        "NoShare": (_queues("a weight=0", "b"),),
    }
